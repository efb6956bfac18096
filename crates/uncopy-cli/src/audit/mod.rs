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
use uncopy::copy::job::Summary;
use uncopy::{Cost, Portion, Receipt, follow};

use crate::exit::Exit;
use crate::flags::audit::AuditArgs;
use crate::report::json::SCHEMA;
use crate::report::of_file;
use chain::{MAX_LINE_BYTES, Record};
use flusher::Flusher;

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

/// Change of the totals of a job by an event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    None,
    /// A file was copied.
    Copied(&'a Receipt),
    /// These copies are gone again.
    Discarded(&'a Summary),
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
        let mut audit = Audit { file, flusher, path, job, previous, tally: Tally::default() };
        let arguments: Vec<String> =
            std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let begun = json!({
            "audit": "begin", "version": env!("CARGO_PKG_VERSION"), "arguments": arguments,
        });
        audit.write(begun)?;
        Ok(audit)
    }

    /// Adds a record from the JSON line of an entry.
    pub(crate) fn entry(&mut self, line: &str, change: Change<'_>) -> io::Result<()> {
        let mut event: Value = serde_json::from_str(line)?;
        let result = event["event"].clone();
        let attempts = event["retries"].as_u64().unwrap_or(0) + 1;
        if let Some(fields) = event.as_object_mut() {
            fields.remove("event");
            fields.insert("audit".into(), json!("entry"));
            fields.insert("result".into(), result.clone());
            fields.insert("attempts".into(), json!(attempts));
        }
        self.tally.records += 1;
        self.tally.failed += u64::from(result == "failed");
        self.tally.add(change);
        self.write(event)
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

    fn write(&mut self, event: Value) -> io::Result<()> {
        let mut fields = Map::new();
        fields.insert("schema".into(), json!(SCHEMA));
        fields.insert("previous".into(), json!(self.previous));
        fields.insert("time".into(), json!(now()));
        fields.insert("job".into(), json!(self.job));
        if let Value::Object(more) = event {
            fields.extend(more.into_iter().filter(|(key, _)| key != "schema"));
        }
        let mut line = serde_json::to_vec(&fields)?;
        self.previous = Some(digest(&line));
        line.push(b'\n');
        (&*self.file).write_all(&line)?;
        self.flusher.request()
    }
}

impl Tally {
    fn add(&mut self, change: Change<'_>) {
        match change {
            Change::None => {}
            Change::Copied(receipt) => {
                self.copied += 1;
                self.add_bytes(&receipt.portions, u64::saturating_add);
            }
            Change::Discarded(lost) => {
                self.copied = self.copied.saturating_sub(lost.files);
                self.discarded += lost.made_entries();
                self.add_bytes(&lost.portions, u64::saturating_sub);
            }
        }
    }

    fn add_bytes(&mut self, portions: &[Portion], add: impl Fn(u64, u64) -> u64) {
        for portion in portions {
            let counter = match portion.cost {
                Cost::Unknown => &mut self.unknown_bytes,
                cost if cost.is_zero_copy() => &mut self.zero_copy_bytes,
                _ => &mut self.buffered_bytes,
            };
            *counter = add(*counter, portion.bytes);
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
