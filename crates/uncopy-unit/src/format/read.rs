//! A strict reader of units (pure): one line at a time, in bounded memory.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;

use super::{
    Entry, Header, Kind, MAX_ENTRIES, Root, SCHEMA, SCHEMA_OF_PLACES, UnitKind, schema_of,
};

/// Maximum length of a line: the longest path, of which every byte is escaped, and numbers.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// The first thing that is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FormatError {
    /// Number of the line, from 1 on.
    pub line: u64,
    /// Rule that it breaks.
    pub problem: FormatProblem,
}

/// Rule that a line breaks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatProblem {
    /// It could not be read.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// It is not JSON of this form.
    #[error("it is not in the format of this version: {0}")]
    Json(serde_json::Error),
    /// The version of the format is another one.
    #[error(
        "its format has version {found}, and this program knows versions {SCHEMA} and {SCHEMA_OF_PLACES}"
    )]
    Schema {
        /// Version of the file.
        found: u64,
    },
    /// The version of the format is that of other roots.
    #[error("the version of its format is not that of its roots")]
    SchemaOfRoots,
    /// Both roots are on other machines.
    #[error("both of its roots are on other machines")]
    TwoPlaces,
    /// A line is longer than any can be.
    #[error("it is too long")]
    TooLong,
    /// The file ends early.
    #[error("the file is cut off: its last line does not say that it ends here")]
    CutOff,
    /// There is something after the last line.
    #[error("there is something after the end of the unit")]
    AfterEnd,
    /// The number of entries is not that of the last line.
    #[error("the unit has {found} entries, and its last line says {expected}")]
    Count {
        /// Number of entries.
        found: u64,
        /// Number in the last line.
        expected: u64,
    },
    /// A number is impossible, or too large.
    #[error("the {what} is out of bounds")]
    OutOfBounds {
        /// The number.
        what: &'static str,
    },
    /// Entries of this kind are not in units of this kind.
    #[error("a unit of the kind {unit:?} has no such entry: {why}")]
    Misplaced {
        /// Kind of the unit.
        unit: UnitKind,
        /// Reason.
        why: &'static str,
    },
    /// The index in `with` does not lead to the first name of the same file.
    #[error("\"with\" does not lead to an earlier entry with the same inode")]
    With,
    /// The plan was not finished.
    #[error("the plan is not finished")]
    Unfinished,
    /// The digest in the last line is not that of what comes before it.
    #[error("its last line has no digest of the file as it is")]
    Digest,
}

/// Last line of a unit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    end: bool,
    entries: u64,
}

/// Contents of a unit that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnitSummary {
    /// Its first line.
    pub header: Header,
    /// Number of entries.
    pub entries: u64,
    /// Number of bytes of files to copy; of a file with several names, once.
    pub bytes: u64,
    /// BLAKE3 digest of all its bytes, hexadecimal: its identity for queues.
    pub digest: String,
}

/// Reader of a unit. It has checked each entry that it returns, but only at the end it knows that the unit is whole: read
/// it to its end once ([`check`]) before anything is done.
#[derive(Debug)]
pub struct UnitReader<R> {
    input: R,
    text: Vec<u8>,
    line: u64,
    header: Header,
    entries: u64,
    bytes: u64,
    digest: blake3::Hasher,
    /// Inodes of the entries that later ones may refer to, by index.
    named: HashMap<u64, (u64, Kind)>,
    ended: bool,
}

impl<R: BufRead> UnitReader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// The header breaks a rule of the format.
    pub fn new(mut input: R) -> Result<UnitReader<R>, FormatError> {
        let mut text = Vec::new();
        let mut digest = blake3::Hasher::new();
        let header = next_line(&mut input, &mut text, &mut digest)
            .and_then(|is_line| if is_line { Ok(()) } else { Err(FormatProblem::CutOff) })
            .and_then(|()| check_schema(&text))
            .and_then(|()| serde_json::from_slice(&text).map_err(FormatProblem::Json))
            .and_then(|header: Header| {
                check_roots(header.schema, &header.source, &header.destination).map(|()| header)
            })
            .map_err(|problem| FormatError { line: 1, problem })?;
        let (line, entries, bytes, named, ended) = (1, 0, 0, HashMap::new(), false);
        Ok(UnitReader { input, text, line, header, entries, bytes, digest, named, ended })
    }

    /// Returns the first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next entry. `None`: the unit is whole, and this is its end.
    ///
    /// # Errors
    /// The next line breaks a rule of the format. The reader must not be used any more.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, FormatError> {
        if self.ended {
            return Ok(None);
        }
        self.line += 1;
        self.read_entry().map_err(|problem| FormatError { line: self.line, problem })
    }

    /// Reads the rest, and sums the unit up.
    ///
    /// # Errors
    /// The first thing that is wrong with the rest.
    pub fn summarize(mut self) -> Result<UnitSummary, FormatError> {
        while self.next_entry()?.is_some() {}
        let UnitReader { header, entries, bytes, digest, .. } = self;
        Ok(UnitSummary { header, entries, bytes, digest: digest.finalize().to_hex().to_string() })
    }

    fn read_entry(&mut self) -> Result<Option<Entry>, FormatProblem> {
        if !next_line(&mut self.input, &mut self.text, &mut self.digest)? {
            return Err(FormatProblem::CutOff);
        }
        if self.text.starts_with(br#"{"end":"#) {
            return self.end().map(|()| None);
        }
        if self.header.kind != UnitKind::Finish && self.entries >= MAX_ENTRIES {
            return Err(FormatProblem::OutOfBounds { what: "number of entries" });
        }
        let entry: Entry = serde_json::from_slice(&self.text).map_err(FormatProblem::Json)?;
        self.check(&entry)?;
        self.entries += 1;
        Ok(Some(entry))
    }

    fn end(&mut self) -> Result<(), FormatProblem> {
        let End { end, entries } =
            serde_json::from_slice(&self.text).map_err(FormatProblem::Json)?;
        if !end {
            return Err(FormatProblem::CutOff);
        }
        if entries != self.entries {
            return Err(FormatProblem::Count { found: self.entries, expected: entries });
        }
        if self.header.kind == UnitKind::Range && entries != 1 {
            let why = "it has one entry";
            return Err(FormatProblem::Misplaced { unit: self.header.kind, why });
        }
        self.line += 1;
        if next_line(&mut self.input, &mut self.text, &mut self.digest).unwrap_or(true) {
            return Err(FormatProblem::AfterEnd);
        }
        self.ended = true;
        Ok(())
    }

    /// Checks an entry that is in the form of one.
    fn check(&mut self, entry: &Entry) -> Result<(), FormatProblem> {
        let unit = self.header.kind;
        let misplaced = |why| Err(FormatProblem::Misplaced { unit, why });
        for identity in entry.source.iter().chain(&entry.destination) {
            if !identity.is_possible() {
                return Err(FormatProblem::OutOfBounds { what: "identity" });
            }
        }
        match (unit, &entry.source) {
            (UnitKind::Finish, None) if entry.destination.is_none() => {
                return misplaced("neither source nor destination has it");
            }
            (UnitKind::Finish, None) if entry.path.is_root() => {
                return misplaced("the root is never deleted");
            }
            (UnitKind::Finish, Some(_)) if entry.kind != Kind::Directory => {
                return misplaced("it copies directories alone");
            }
            (UnitKind::Files | UnitKind::Range, None) => return misplaced("it deletes nothing"),
            (UnitKind::Files, Some(_)) if entry.kind == Kind::Directory => {
                return misplaced("directories are in the last unit");
            }
            (UnitKind::Range, Some(_)) if entry.kind != Kind::File => {
                return misplaced("only files are cut");
            }
            _ => {}
        }
        if entry.path.is_root() && entry.kind != Kind::Directory {
            return misplaced("the root is a directory");
        }
        let size = entry.source.as_ref().map_or(0, |source| source.size);
        match (&entry.part, unit) {
            (None, UnitKind::Range) => return misplaced("it says which part it is"),
            (Some(_), UnitKind::Files | UnitKind::Finish) => {
                return misplaced("only units of the kind Range have parts of files");
            }
            (Some(part), UnitKind::Range) if !part.fits(self.header.unit, size) => {
                return Err(FormatProblem::OutOfBounds { what: "range" });
            }
            _ => {}
        }
        self.check_names(entry)?;
        if entry.kind == Kind::File && entry.with.is_none() {
            let bytes = entry.part.map_or(size, |part| part.range.1);
            self.bytes = self
                .bytes
                .checked_add(bytes)
                .ok_or(FormatProblem::OutOfBounds { what: "number of bytes" })?;
        }
        Ok(())
    }

    /// Checks that a further name of a file refers to the first one, and remembers first ones.
    fn check_names(&mut self, entry: &Entry) -> Result<(), FormatProblem> {
        let Some(source) = entry.source.as_ref().filter(|_| self.header.kind == UnitKind::Files)
        else {
            return if entry.with.is_some() { Err(FormatProblem::With) } else { Ok(()) };
        };
        let file = (source.inode, entry.kind);
        match entry.with {
            Some(first) if self.named.get(&first) != Some(&file) => Err(FormatProblem::With),
            None if source.links > 1 => {
                self.named.insert(self.entries, file);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Reads a unit to its end without keeping its entries.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn check(input: impl BufRead) -> Result<UnitSummary, FormatError> {
    UnitReader::new(input)?.summarize()
}

/// Reads a line without its end. `false`: there is no further line.
fn next_line(
    input: &mut impl BufRead,
    text: &mut Vec<u8>,
    digest: &mut blake3::Hasher,
) -> Result<bool, FormatProblem> {
    text.clear();
    let mut bounded = input.take(MAX_LINE_BYTES);
    bounded.read_until(b'\n', text).map_err(FormatProblem::Read)?;
    digest.update(text);
    match text.pop() {
        None => Ok(false),
        Some(b'\n') => Ok(true),
        Some(_) if text.len() as u64 + 1 >= MAX_LINE_BYTES => Err(FormatProblem::TooLong),
        Some(_) => Err(FormatProblem::CutOff),
    }
}

/// Checks the version of the format before anything else is read, since another version may have other keys.
pub(crate) fn check_schema(text: &[u8]) -> Result<(), FormatProblem> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: u64,
    }
    let found: Versioned = serde_json::from_slice(text).map_err(FormatProblem::Json)?;
    match [SCHEMA, SCHEMA_OF_PLACES].map(u64::from).contains(&found.schema) {
        true => Ok(()),
        false => Err(FormatProblem::Schema { found: found.schema }),
    }
}

/// Checks that at most one root is on another machine, and that the version of the format says so.
pub(super) fn check_roots(
    schema: u32,
    source: &Root,
    destination: &Root,
) -> Result<(), FormatProblem> {
    match (source.there(), destination.there()) {
        (Some(_), Some(_)) => Err(FormatProblem::TwoPlaces),
        _ if schema != schema_of(source, destination) => Err(FormatProblem::SchemaOfRoots),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
