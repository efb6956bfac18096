//! `--audit FILE`: one line of JSON for each file, with the digest of the previous line.

mod chain;
mod flusher;
mod stats;
mod verify;

use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use uncopy::{Cost, follow};

use crate::exit::Exit;
use crate::flags::audit::AuditArgs;
use crate::report::json::SCHEMA;
use crate::report::of_file;
use chain::{MAX_LINE_BYTES, Record};
use flusher::Flusher;
pub(crate) use stats::cost_named;

/// Keys that the writer of a log gives values to.
const OWN_KEYS: [&str; 4] = ["schema", "previous", "time", "job"];

/// Results of entries.
const RESULTS: [&str; 11] = [
    "copied",
    "linked",
    "made",
    "resumed",
    "skipped",
    "deleted",
    "discarded",
    "would",
    "failed",
    "incomplete",
    "not_tried",
];

/// Checks or summarizes logs.
///
/// # Errors
/// A log is named twice.
pub(crate) fn run(flags: &AuditArgs) -> Result<Exit, clap::Error> {
    match flags {
        AuditArgs::Verify { file, hash } => Ok(verify::run(file, hash.as_deref())),
        AuditArgs::Stats { files, json } => stats::run(files, *json),
    }
}

/// Computes the digest of a line, without its line end.
fn digest(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

/// An audit log that is being written.
#[derive(Debug)]
pub(crate) struct Audit {
    file: Arc<File>,
    flusher: Flusher,
    path: PathBuf,
    job: String,
    previous: Option<String>,
    tally: Tally,
}

/// Totals for the last record of a job.
#[derive(Debug, Default)]
struct Tally {
    records: u64,
    copied: u64,
    failed: u64,
    discarded: u64,
    zero_copy_bytes: u64,
    buffered_bytes: u64,
    unknown_bytes: u64,
}

impl Audit {
    /// Opens a log, or creates one that only its owner can read, and begins a job in it.
    ///
    /// # Errors
    /// The log is not writable, ends with an incomplete line, or the file is no log.
    pub(crate) fn open(path: &Path) -> io::Result<Audit> {
        let file = follow::append(path).map_err(|error| of_file(&error))?;
        // Two programs must not write one chain.
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other("another program is writing to it"),
            TryLockError::Error(error) => error,
        })?;
        let previous = last_digest(&file)?;
        let time = now();
        let unique = format!("{time} {} {path:?}", std::process::id());
        let job = digest(unique.as_bytes())[..16].to_owned();
        let path = path.to_owned();
        let file = Arc::new(file);
        let flusher = Flusher::new(Arc::clone(&file))?;
        let tally = Tally::default();
        let mut audit = Audit { file, flusher, path, job, previous, tally };
        let arguments: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let begun = json!({
            "audit": "begin", "version": env!("CARGO_PKG_VERSION"), "arguments": arguments,
        });
        audit.write(begun)?;
        Ok(audit)
    }

    /// Adds a record from the JSON line of an entry.
    pub(crate) fn entry(&mut self, line: &str) -> io::Result<()> {
        let record = self.record(serde_json::from_str(line)?);
        self.tally.add(&record);
        self.write(Value::Object(record))
    }

    /// Adds a record from an event that another machine sent.
    ///
    /// # Errors
    /// As [`Audit::entry`], and nothing was added: it is no event of an entry.
    pub(crate) fn foreign_entry(&mut self, event: Map<String, Value>) -> io::Result<()> {
        let record = self.record(event);
        // A record of another form would break the log for its readers.
        let read: Result<Record, _> = serde_json::from_value(Value::Object(record.clone()));
        if !read.is_ok_and(|read| RESULTS.contains(&read.result.as_str())) {
            let what = "the other machine sent a record of no entry";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.tally.add(&record);
        self.write(Value::Object(record))
    }

    /// Ends the job. Returns the path of the log and the digest of its last line, to be kept
    /// elsewhere.
    pub(crate) fn end(mut self, interrupted: bool) -> io::Result<(PathBuf, String)> {
        let tally = &self.tally;
        let summary = json!({
            "audit": "end", "interrupted": interrupted, "records": tally.records,
            "copied": tally.copied, "failed": tally.failed, "discarded": tally.discarded,
            "zero_copy_bytes": tally.zero_copy_bytes, "buffered_bytes": tally.buffered_bytes,
            "unknown_bytes": tally.unknown_bytes,
        });
        self.write(summary)?;
        self.flusher.end()?;
        self.file.sync_all()?;
        Ok((self.path, self.previous.unwrap_or_default()))
    }

    /// Makes the record of an event.
    fn record(&self, mut event: Map<String, Value>) -> Map<String, Value> {
        let result = event.remove("event").unwrap_or_default();
        let attempts = number(&event, "retries").saturating_add(1);
        event.insert("audit".into(), json!("entry"));
        event.insert("result".into(), result);
        event.insert("attempts".into(), json!(attempts));
        event
    }

    fn write(&mut self, event: Value) -> io::Result<()> {
        let mut fields = Map::new();
        fields.insert("schema".into(), json!(SCHEMA));
        fields.insert("previous".into(), json!(self.previous));
        fields.insert("time".into(), json!(now()));
        fields.insert("job".into(), json!(self.job));
        if let Value::Object(more) = event {
            // Another machine has no say about these keys.
            fields.extend(more.into_iter().filter(|(key, _)| !OWN_KEYS.contains(&key.as_str())));
        }
        let mut line = serde_json::to_vec(&fields)?;
        self.previous = Some(digest(&line));
        line.push(b'\n');
        (&*self.file).write_all(&line)?;
        self.flusher.request()
    }
}

fn number(record: &Map<String, Value>, key: &str) -> u64 {
    record.get(key).and_then(Value::as_u64).unwrap_or(0)
}

impl Tally {
    fn add(&mut self, record: &Map<String, Value>) {
        self.records += 1;
        match record.get("result").and_then(Value::as_str) {
            Some("failed") => self.failed += 1,
            Some("copied") => {
                self.copied += 1;
                self.add_bytes(record, u64::saturating_add);
            }
            // These copies are gone again.
            Some("discarded") => {
                self.copied = self.copied.saturating_sub(number(record, "files"));
                self.discarded = self.discarded.saturating_add(number(record, "entries"));
                self.add_bytes(record, u64::saturating_sub);
            }
            _ => {}
        }
    }

    fn add_bytes(&mut self, record: &Map<String, Value>, add: impl Fn(u64, u64) -> u64) {
        for portion in record.get("mechanisms").and_then(Value::as_array).into_iter().flatten() {
            let counter = match portion["cost"].as_str().and_then(cost_named) {
                None | Some(Cost::Unknown) => &mut self.unknown_bytes,
                Some(cost) if cost.is_zero_copy() => &mut self.zero_copy_bytes,
                Some(_) => &mut self.buffered_bytes,
            };
            *counter = add(*counter, portion["bytes"].as_u64().unwrap_or(0));
        }
    }
}

/// Returns the time in UTC, in the format of RFC 3339.
fn now() -> String {
    humantime::format_rfc3339_micros(SystemTime::now()).to_string()
}

/// Returns the digest of the last line of a log, for the next line; truncates traces of a crash
/// after it.
///
/// # Errors
/// The file is no log: its first or its last line is not a record. It was not changed.
fn last_digest(file: &File) -> io::Result<Option<String>> {
    let mut reader = BufReader::new(file);
    let (mut line, mut last_line, mut end) = (Vec::new(), Vec::new(), 0);
    while (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
        if end > 0 && is_unwritten(&line) {
            check_record(&last_line)?;
            file.set_len(end)?;
            break;
        }
        end += line.len() as u64;
        let is_first = last_line.is_empty();
        match line.pop() {
            Some(b'\n') if is_first => check_record(&line)?,
            Some(b'\n') => {}
            _ if line.len() as u64 + 1 >= MAX_LINE_BYTES
                || (is_first && !line.starts_with(b"{")) =>
            {
                return Err(no_log());
            }
            _ => {
                return Err(io::Error::other(
                    "it ends with an incomplete line, after a crash; keep it and name another file",
                ));
            }
        }
        std::mem::swap(&mut line, &mut last_line);
        line.clear();
    }
    if end == 0 {
        return Ok(None);
    }
    check_record(&last_line)?;
    Ok(Some(digest(&last_line)))
}

fn check_record(line: &[u8]) -> io::Result<()> {
    serde_json::from_slice::<Record>(line).map(|_| ()).map_err(|_| no_log())
}

fn no_log() -> io::Error {
    io::Error::other(
        "it has contents that are no audit log; they were left alone, name another file",
    )
}

/// Whether these are zeros in place of records that did not reach the disk before a crash, although
/// the new file size did: ext4 records the size before it writes to a block that the file already
/// has (`ext4_da_write_end` in `fs/ext4/inode.c`).
fn is_unwritten(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte == 0)
}
