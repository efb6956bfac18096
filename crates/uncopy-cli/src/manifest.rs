//! `--manifest FILE`: digests of all files of a copy, for `b3sum -c`, `sha256sum -c`, `xxhsum -c` and
//! `uncopy verify`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use uncopy::copy::compare::{digest_beneath, manifest_line};
use uncopy::copy::job::{EntryKind, EntryOutcome, Record};
use uncopy::copy::{Digest, Skip};
use uncopy::{Error, Receipt};

use crate::cp::target::directory_of_names;
use crate::exit::Exit;
use crate::manifest_file::ManifestFile;
use crate::report::outlet::{self, FarRecord, Listed, ManifestEnd};
use crate::report::{self, Failure};

/// Number of lines that are sent to another machine at once.
const LINES_SENT: usize = 256;

/// A manifest that is being collected.
#[derive(Debug)]
pub(crate) struct Manifest {
    place: ManifestPlace,
    algorithm: Digest,
    /// Destination as the command line has it.
    destination: PathBuf,
    /// Files by their paths in the destination, so that the order depends on the names alone.
    entries: BTreeMap<PathBuf, Contents>,
    /// Directories that failed: a new tree may not have got its name.
    failed: Vec<PathBuf>,
    /// Files that are left out.
    left_out: u64,
}

/// Origin of the digest of a file.
#[derive(Debug)]
enum Contents {
    /// Computed when the file was copied.
    Digest(String),
    /// The file is another name of this one.
    LinkTo(PathBuf),
    /// An earlier run copied it: it is read in the destination.
    Unread,
}

/// Place of a manifest.
#[derive(Debug)]
pub(crate) enum ManifestPlace {
    Here(ManifestFile),
    /// On the machine that this process copies for.
    Away,
}

impl Manifest {
    pub(crate) fn new(place: ManifestPlace, algorithm: Digest, destination: &Path) -> Manifest {
        let destination = destination.to_owned();
        let (entries, failed) = (BTreeMap::new(), Vec::new());
        Manifest { place, algorithm, destination, entries, failed, left_out: 0 }
    }

    /// Adds a file that was copied.
    pub(crate) fn copied(&mut self, destination: &Path, receipt: &Receipt) {
        let contents = match &receipt.source_digest {
            Some(digest) => Contents::Digest(digest.value.clone()),
            None => Contents::Unread,
        };
        self.entries.insert(destination.to_owned(), contents);
    }

    /// Adds an entry of a job, if it is a file that is in place.
    pub(crate) fn entry(&mut self, record: &Record) {
        let is_doubtful =
            matches!(record.outcome, EntryOutcome::Failed(_) | EntryOutcome::Discarded { .. });
        if record.kind == EntryKind::Directory && is_doubtful {
            self.failed.push(record.destination.clone());
        }
        if record.kind != EntryKind::File {
            return;
        }
        let contents = match &record.outcome {
            EntryOutcome::Copied(receipt) => return self.copied(&record.destination, receipt),
            EntryOutcome::Linked { to } => Contents::LinkTo(to.clone()),
            EntryOutcome::Resumed
            | EntryOutcome::Skipped { reason: Skip::AsNew | Skip::SameContents | Skip::SameSize } => {
                Contents::Unread
            }
            EntryOutcome::Skipped { .. } | EntryOutcome::Failed(_) => {
                self.left_out += 1;
                return;
            }
            _ => return,
        };
        self.entries.insert(record.destination.clone(), contents);
    }

    /// Counts a file that was not copied.
    pub(crate) fn left_out(&mut self) {
        self.left_out += 1;
    }

    /// Writes the manifest. `go_on`: whether no signal asks to stop, in which case nothing is written.
    pub(crate) fn write(mut self, go_on: impl Fn() -> bool) -> Exit {
        self.leave_out_unplaced();
        let Manifest { place, algorithm, entries, destination, left_out, .. } = self;
        if entries.is_empty() && left_out > 0 {
            return place.end(ManifestEnd::NothingCopied);
        }
        let lines = match lines(algorithm, &entries, &destination, go_on) {
            Ok(Some(lines)) => lines,
            Ok(None) => return Exit::Success,
            Err(Unlisted { message, exit }) => {
                report::say(&format!("no manifest was written: {message}"));
                return exit;
            }
        };
        let is_refused =
            |line: &&Vec<u8>| algorithm == Digest::Blake3 && std::str::from_utf8(line).is_err();
        let refused_by_tool = lines.iter().filter(is_refused).count() as u64;
        let listed = Listed { lines: lines.len() as u64, left_out, refused_by_tool };
        place.write(&lines, ManifestEnd::Listed(listed))
    }

    /// Takes out files below directories that failed, unless they are in place.
    fn leave_out_unplaced(&mut self) {
        let Manifest { entries, failed, left_out, .. } = self;
        entries.retain(|path, _| {
            let is_doubtful = failed.iter().any(|failed| path.starts_with(failed));
            let is_placed = !is_doubtful || fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
            *left_out += u64::from(!is_placed);
            is_placed
        });
    }

    /// Says that the manifest was not written.
    pub(crate) fn give_up(self) -> Exit {
        self.place.end(ManifestEnd::EndedEarly)
    }
}

impl ManifestPlace {
    fn write(mut self, lines: &[Vec<u8>], end: ManifestEnd) -> Exit {
        match (&mut self, outlet::away()) {
            (ManifestPlace::Here(file), _) => lines.iter().for_each(|line| file.add(line)),
            (ManifestPlace::Away, Some(outlet)) => {
                // The end of the connection shows elsewhere.
                let _ =
                    lines.chunks(LINES_SENT).try_for_each(|some| outlet.manifest(&some.concat()));
            }
            (ManifestPlace::Away, None) => {}
        }
        self.end(end)
    }

    fn end(self, end: ManifestEnd) -> Exit {
        match (self, outlet::away()) {
            (ManifestPlace::Here(file), _) => return file.end(end),
            (ManifestPlace::Away, Some(outlet)) => {
                let _ = outlet.record(&FarRecord::Manifest(end));
            }
            (ManifestPlace::Away, None) => {}
        }
        Exit::Success
    }
}

/// Returns the lines, in the order of their names; `None`: a signal asks to stop.
fn lines(
    algorithm: Digest,
    entries: &BTreeMap<PathBuf, Contents>,
    destination: &Path,
    go_on: impl Fn() -> bool,
) -> Result<Option<Vec<Vec<u8>>>, Unlisted> {
    let directory = directory_of_names(destination);
    let mut named = BTreeMap::new();
    for (path, contents) in entries {
        let first = match contents {
            Contents::LinkTo(first) => entries.get(first).unwrap_or(contents),
            other => other,
        };
        // A file that was copied twice is as the second copy left it.
        named
            .entry(name_below(directory, path)?)
            .and_modify(|known| *known = &Contents::Unread)
            .or_insert(first);
    }
    let mut lines = Vec::with_capacity(named.len());
    for (name, contents) in named {
        if !go_on() {
            return Ok(None);
        }
        let value = match contents {
            Contents::Digest(value) => value.clone(),
            _ => digest_beneath(directory, &name, algorithm)?,
        };
        lines.push(manifest_line(algorithm, &value, name.as_os_str()));
    }
    Ok(Some(lines))
}

/// Why a file has no line.
struct Unlisted {
    message: String,
    exit: Exit,
}

impl From<Error> for Unlisted {
    fn from(error: Error) -> Unlisted {
        let failure = Failure::from(&error);
        Unlisted { message: failure.to_string(), exit: failure.exit }
    }
}

/// Returns the name by which a checker of the manifest finds a file: without `..`, and through no link.
fn name_below(directory: &Path, path: &Path) -> Result<PathBuf, Unlisted> {
    let here = if directory == Path::new(".") { Path::new("") } else { directory };
    let is_plain =
        |below: &&Path| below.components().all(|part| matches!(part, Component::Normal(_)));
    let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if let Some(below) = path.strip_prefix(here).ok().filter(is_plain)
        && !is_link()
    {
        return Ok(below.to_owned());
    }
    let resolve = |path: &Path| {
        fs::canonicalize(path).map_err(|error| Unlisted {
            message: format!("cannot resolve {}: {}", path.display(), report::describe(&error)),
            exit: Exit::Failure,
        })
    };
    let (file, root) = (resolve(path)?, resolve(directory)?);
    match file.strip_prefix(&root) {
        Ok(below) => Ok(below.to_owned()),
        Err(_) => Err(Unlisted {
            message: format!(
                "{} lies outside of {}; write it with the tool of its digest",
                file.display(),
                directory.display()
            ),
            exit: Exit::Failure,
        }),
    }
}
