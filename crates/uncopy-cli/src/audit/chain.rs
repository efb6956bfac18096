//! Reads the records of an audit log, one after another, as far as its chain is unbroken.

use std::fmt;
use std::io::{self, BufRead, Read};

use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

use super::{digest, is_unwritten};

/// Longest line that is read. The longest that is written has the arguments of a program (2 MiB,
/// execve(2)), of which each byte may take six in JSON.
pub(super) const MAX_LINE_BYTES: u64 = 16 << 20;

/// Record of a log: the keys that are evaluated.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    #[serde(rename = "audit")]
    pub(super) kind: RecordKind,
    #[serde(default)]
    previous: Option<String>,
    #[serde(default)]
    pub(super) job: String,
    #[serde(default)]
    pub(super) time: String,
    #[serde(default)]
    pub(super) interrupted: bool,
    #[serde(default)]
    pub(super) result: String,
    #[serde(default)]
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) duration_us: u64,
    #[serde(default)]
    pub(super) mechanisms: Vec<RecordedPortion>,
    #[serde(default)]
    pub(super) refusals: Vec<RecordedRefusal>,
    #[serde(default)]
    pub(super) compression: Option<RecordedCompression>,
    /// Numbers of entries that are gone with a new tree, by kind.
    #[serde(default)]
    pub(super) files: u64,
    #[serde(default)]
    pub(super) directories: u64,
    #[serde(default)]
    pub(super) symlinks: u64,
    #[serde(default)]
    pub(super) hard_links: u64,
    #[serde(default)]
    pub(super) specials: u64,
    #[serde(default)]
    pub(super) transformed: RecordedTransformed,
    /// Kind and code of a failure.
    #[serde(rename = "kind", default)]
    pub(super) failure_kind: String,
    #[serde(rename = "code", default)]
    pub(super) failure_code: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordKind {
    Begin,
    Entry,
    End,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedPortion {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) cost: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedRefusal {
    pub(super) mechanism: String,
    #[serde(default)]
    pub(super) code: String,
    /// Number of files, in a record of several.
    #[serde(default)]
    pub(super) files: Option<u64>,
}

/// Files that were compressed or decompressed, and are gone.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RecordedTransformed {
    pub(super) files: u64,
    pub(super) source_bytes: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedCompression {
    pub(super) action: String,
    pub(super) code: String,
    #[serde(default)]
    pub(super) guess: Option<serde::de::IgnoredAny>,
    /// `None`: an earlier version wrote the record, which knew no expectations.
    #[serde(default, deserialize_with = "present")]
    pub(super) expected: Option<Option<RecordedExpectation>>,
    #[serde(default)]
    pub(super) sample: Option<RecordedSample>,
    #[serde(default)]
    pub(super) source_bytes: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedExpectation {
    #[serde(default)]
    pub(super) held: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordedSample {
    pub(super) bytes: u64,
}

/// Tells a key with the value null from one that is not there.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// Place and kind of a break in a chain. Displayed for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainBreak {
    /// Number of the line, from 1.
    pub(super) line: u64,
    pub(super) kind: BreakKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakKind {
    CutOff,
    TooLong,
    NotJson,
    NotRecord,
    NotFollowing,
}

impl BreakKind {
    /// Stable name for programs.
    pub(super) const fn code(self) -> &'static str {
        match self {
            BreakKind::CutOff => "cut_off",
            BreakKind::TooLong => "too_long",
            BreakKind::NotJson => "not_json",
            BreakKind::NotRecord => "not_record",
            BreakKind::NotFollowing => "not_following",
        }
    }
}

impl fmt::Display for ChainBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChainBreak { line, kind } = *self;
        match kind {
            BreakKind::CutOff => write!(f, "line {line} was cut off"),
            BreakKind::TooLong => write!(f, "line {line} is longer than any record"),
            BreakKind::NotJson => write!(f, "line {line} is not JSON"),
            BreakKind::NotRecord => write!(f, "line {line} is not a record of an audit log"),
            BreakKind::NotFollowing if line == 1 => {
                f.write_str("line 1 follows a line that is not there: lines before it were removed")
            }
            BreakKind::NotFollowing => write!(
                f,
                "line {line} does not follow line {}: one of them was changed, or lines between them were \
                 removed",
                line - 1
            ),
        }
    }
}

/// End of a chain, from which another file may continue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChainEnd {
    /// Digest of the last line.
    pub(super) last: Option<String>,
    /// Whether a job has begun and not ended.
    pub(super) is_open: bool,
}

/// Reads a log. Memory is limited by one record.
pub(super) struct Chain<R> {
    log: R,
    line: Vec<u8>,
    lines: u64,
    end: ChainEnd,
}

impl<R: BufRead> Chain<R> {
    /// Begins with a log whose first record is the first of its chain, or follows `earlier`.
    pub(super) fn new(log: R, earlier: ChainEnd) -> Chain<R> {
        Chain { log, line: Vec::new(), lines: 0, end: earlier }
    }

    /// Returns the next record; the inner error describes where the chain breaks, and there is nothing to
    /// read behind it. Zeros at the end, which a crash leaves, end the log.
    pub(super) fn next(&mut self) -> io::Result<Result<Option<Record>, ChainBreak>> {
        let number = self.lines + 1;
        let broken = |kind| Ok(Err(ChainBreak { line: number, kind }));
        self.line.clear();
        let mut limited = (&mut self.log).take(MAX_LINE_BYTES);
        if limited.read_until(b'\n', &mut self.line)? == 0 || is_unwritten(&self.line) {
            return Ok(Ok(None));
        }
        let is_long = limited.limit() == 0;
        if self.line.pop() != Some(b'\n') {
            return broken(if is_long { BreakKind::TooLong } else { BreakKind::CutOff });
        }
        let record: Record = match serde_json::from_slice(&self.line) {
            Ok(record) => record,
            Err(error) if error.classify() == Category::Data => {
                return broken(BreakKind::NotRecord);
            }
            Err(_) => return broken(BreakKind::NotJson),
        };
        if number == 1 && record.previous.is_none() {
            // A chain of its own.
            self.end = ChainEnd::default();
        }
        if record.previous != self.end.last {
            return broken(BreakKind::NotFollowing);
        }
        self.end.is_open = match (record.kind, self.end.is_open) {
            (RecordKind::Begin, _) | (RecordKind::Entry, true) => true,
            (RecordKind::End, true) => false,
            (_, false) => return broken(BreakKind::NotRecord),
        };
        self.lines = number;
        self.end.last = Some(digest(&self.line));
        Ok(Ok(Some(record)))
    }

    /// Number of records read.
    pub(super) fn records(&self) -> u64 {
        self.lines
    }

    /// Where the chain ends, as far as it was read.
    pub(super) fn into_end(self) -> ChainEnd {
        self.end
    }
}
