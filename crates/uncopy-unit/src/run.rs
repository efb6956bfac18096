//! Does units: each by an attempt that the ledger knows, with commits that replace nothing that has changed since the plan.
//!
//! | kind of unit | done by |
//! |---|---|
//! | files | a [guarded job](uncopy_copy::guarded) of the engine, in `files.rs` |
//! | range | one part of a staging file, whose last part puts the file in place, in `range.rs` |
//! | finish | metadata of directories and deletions, when all other units have records, in `finish.rs` |

mod commits;
mod failures;
mod files;
mod finish;
mod identity;
mod range;
mod reverse;
mod roots;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::format::{Entry, Header, Root, SCHEMA, UnitKind, UnitNumber, UnitReader, UnitSummary};
use crate::ledger::{
    Amounts, Attempt, Begun, Failure, FailureKind, FailureReason, Flush, Ledger, LockPlace, Record,
    Worker,
};
use crate::{FileRole, UnitError, now, regular_file};
use commits::Commits;
use failures::Failures;
use finish::Finish;
use reverse::FromTheBeginning;
use roots::Roots;
use serde_json::Value;
use uncopy_copy::guarded::GuardedFile;
use uncopy_copy::job::{JobObserver, JobOptions, Summary};
use uncopy_copy::peer::Peer;
use uncopy_core::{Errno, Error};

/// Time that a worker waits for a lock that another one holds for as long as one name takes. Who has it longer was
/// stopped, or its machine is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum number of missing units that are named.
const MAX_NAMED: usize = 20;

/// A unit that was read to its end and checked.
#[derive(Debug)]
pub struct Unit {
    path: PathBuf,
    header: Header,
    digest: String,
    bytes: u64,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    Entries(Vec<Entry>),
    /// The last unit, which may be larger than memory.
    Finish(GuardedFile),
}

/// How a run of a unit ended.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "callers decide about each")]
pub enum Ran {
    /// It is done, and recorded.
    Done(Box<Record>),
    /// It was done before; nothing was touched.
    DoneBefore(Box<Record>),
    /// Entries failed. What was copied stays, and another run need not copy it again.
    Failed(Box<Failure>),
    /// The last unit must wait for others.
    NotYet {
        /// Number of units without a record.
        missing: u64,
        /// The first of them.
        first: Vec<UnitNumber>,
    },
    /// Another worker has begun the unit since, and goes on with it.
    Overtaken,
}

/// Results of a unit.
#[derive(Debug, Default)]
struct Work {
    done: Amounts,
    summary: Summary,
    /// Further facts for the record.
    facts: Vec<(&'static str, Value)>,
}

/// An attempt to do a unit, and all that it needs.
struct AttemptedUnit<'a> {
    unit: &'a Unit,
    ledger: &'a Ledger,
    attempt: &'a Attempt,
    commits: Commits<'a>,
    roots: Roots,
    options: &'a JobOptions,
    failures: &'a Failures<'a>,
}

impl Unit {
    /// Reads and checks a unit. Nothing of it is done before its end was read.
    ///
    /// # Errors
    /// The file cannot be read, or is not in its format.
    pub fn read(path: &Path) -> Result<Unit, UnitError> {
        let file = regular_file::open(path, FileRole::Unit)?;
        Unit::read_open(GuardedFile::here(file.into()), path)
    }

    /// Reads a unit that has this number among the roots of another machine, on this machine, which has the destination:
    /// `destination` is its path here. `path`: by which people know the unit.
    ///
    /// # Errors
    /// As [`Unit::read`]; the other machine was lost.
    pub fn read_from(
        peer: &Arc<dyn Peer>,
        number: u32,
        path: &Path,
        destination: Root,
    ) -> Result<Unit, UnitError> {
        let mut unit = Unit::read_open(GuardedFile::there(Arc::clone(peer), number, path)?, path)?;
        unit.header.destination = destination;
        Ok(unit)
    }

    fn read_open(file: GuardedFile, path: &Path) -> Result<Unit, UnitError> {
        let wrong = |error| match file.check_connected() {
            Ok(()) => UnitError::Format { file: path.to_owned(), error },
            Err(lost) => lost.into(),
        };
        let mut reader = UnitReader::new(FromTheBeginning::of(&file)).map_err(wrong)?;
        let mut entries = Vec::new();
        let is_kept = reader.header().kind != UnitKind::Finish;
        while let Some(entry) = reader.next_entry().map_err(wrong)? {
            if is_kept {
                entries.push(entry);
            }
        }
        let summary = reader.summarize().map_err(wrong)?;
        let contents = match is_kept {
            true => Contents::Entries(entries),
            false => Contents::Finish(file),
        };
        let UnitSummary { header, bytes, digest, .. } = summary;
        Ok(Unit { path: path.to_owned(), header, digest, bytes, contents })
    }

    /// Returns the digest of its file.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns its first line.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Does the unit, unless the ledger has a record of it. `options` are those of the plan, as
    /// [`Header::options`] says them; `receipt` makes of a summary what the record keeps, `describe` of an error what
    /// the failure says to people. `source`: another machine that has the source, as its first root.
    ///
    /// # Errors
    /// The roots or the ledger cannot be used; entries that fail are [`Ran::Failed`].
    pub fn run(
        &self,
        source: Option<&Arc<dyn Peer>>,
        options: &JobOptions,
        observer: &dyn JobObserver,
        receipt: &dyn Fn(&Summary) -> Value,
        describe: &(dyn Fn(&Error) -> String + Sync),
    ) -> Result<Ran, UnitError> {
        let Header { plan, unit, .. } = self.header;
        let roots = Roots::open(&self.header, source)?;
        let flush = if options.copy.durable { Flush::Yes } else { Flush::No };
        let ledger =
            Ledger::create(&roots.destination, self.header.destination.as_path(), plan, flush)?;
        if let Some(record) = ledger.record(unit)? {
            return self.done_before(record);
        }
        let missing = match self.header.kind {
            UnitKind::Finish => missing_units(&ledger, unit)?,
            _ => Vec::new(),
        };
        if !missing.is_empty() && !are_given_up(&ledger, &missing)? {
            return Ok(not_yet(&missing));
        }
        let lock = ledger.lock_within(LockPlace::Unit(unit), PATIENCE)?;
        let begun = ledger.begin(unit, lock.as_ref(), Worker::this(), now())?;
        // Whoever has it for so long was stopped, and may go on at any time: then it gives the one name that it was about
        // to give, as far as that is free or has what the plan saw.
        let has_lock = lock.is_some();
        drop(lock);
        let attempt = match begun {
            Begun::Done(record) => return self.done_before(*record),
            Begun::Attempt(attempt) => attempt,
        };
        let failures = Failures::new(observer, describe, &self.header);
        let attempted = AttemptedUnit {
            unit: self,
            ledger: &ledger,
            attempt: &attempt,
            commits: Commits::new(&ledger, unit, &attempt, has_lock.then_some(PATIENCE)),
            roots,
            options,
            failures: &failures,
        };
        let work = match &self.contents {
            Contents::Entries(entries) if self.header.kind == UnitKind::Files => {
                attempted.copy_files(entries)?
            }
            Contents::Entries(entries) => match attempted.copy_range(entries, receipt)? {
                range::RangeEnd::Recorded(record) => return Ok(Ran::Done(record)),
                range::RangeEnd::Not => Work::default(),
            },
            Contents::Finish(file) if missing.is_empty() => {
                attempted.finish(file, &self.path, Finish::All)?
            }
            Contents::Finish(file) => {
                attempted.finish(file, &self.path, Finish::Directories)?;
                attempted.failures.add_reason(needs_new_plan());
                attempted.end(Work::default(), receipt)?;
                return Ok(not_yet(&missing));
            }
        };
        attempted.end(work, receipt)
    }
}

impl Unit {
    /// Returns the end of a unit that has a record.
    fn done_before(&self, record: Record) -> Result<Ran, UnitError> {
        match record.digest == self.digest {
            true => Ok(Ran::DoneBefore(Box::new(record))),
            false => {
                let (file, unit) = (self.path.clone(), record.unit);
                Err(UnitError::OtherUnit { file, unit, digest: record.digest })
            }
        }
    }
}

impl AttemptedUnit<'_> {
    /// Records that the unit is done, or why it is not.
    fn end(&self, work: Work, receipt: &dyn Fn(&Summary) -> Value) -> Result<Ran, UnitError> {
        let (ledger, number) = (self.ledger, self.unit.header.unit);
        let failed = self.failures.count();
        if failed == 0 {
            let record = self.record(work, receipt);
            let put = self.commits.while_current(|| ledger.put_record(&record))?;
            return match put {
                Some(true) => Ok(Ran::Done(Box::new(record))),
                Some(false) | None => self.overtaken(),
            };
        }
        if self.failures.is_overtaken() || !ledger.is_current(number, self.attempt)? {
            return self.overtaken();
        }
        let (attempt, digest) = (self.attempt.number, self.unit.digest.clone());
        let failure = self.failure(number, attempt, digest, failed, self.failures.reasons());
        ledger.put_failure(&failure)?;
        Ok(Ran::Failed(Box::new(failure)))
    }

    /// Makes what the ledger keeps about a failed attempt of a unit, whose file has this digest.
    fn failure(
        &self,
        unit: UnitNumber,
        attempt: u64,
        digest: String,
        failed: u64,
        reasons: Vec<FailureReason>,
    ) -> Failure {
        let (plan, worker) = (self.unit.header.plan, self.attempt.worker.clone());
        let (schema, ended) = (SCHEMA, now());
        Failure { schema, plan, unit, digest, attempt, worker, ended, failed, reasons }
    }

    fn overtaken(&self) -> Result<Ran, UnitError> {
        match self.ledger.record(self.unit.header.unit)? {
            Some(record) => self.unit.done_before(record),
            None => Ok(Ran::Overtaken),
        }
    }

    fn record(&self, work: Work, receipt: &dyn Fn(&Summary) -> Value) -> Record {
        let Work { done, summary, facts } = work;
        let header = &self.unit.header;
        let mut receipt = receipt(&summary);
        if let Value::Object(receipt) = &mut receipt {
            receipt.extend(facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)));
        }
        Record {
            schema: SCHEMA,
            plan: header.plan,
            unit: header.unit,
            digest: self.unit.digest.clone(),
            attempt: self.attempt.number,
            worker: self.attempt.worker.clone(),
            begun: self.attempt.begun,
            ended: now(),
            done,
            receipt,
        }
    }
}

/// Finds units without a record, in order. The last unit has the highest number.
fn missing_units(ledger: &Ledger, last: UnitNumber) -> Result<Vec<UnitNumber>, UnitError> {
    let mut done = vec![false; last.get() as usize];
    ledger.list(|unit, kind| {
        if kind == crate::ledger::LedgerFile::Record
            && let Some(done) = done.get_mut(unit.get() as usize)
        {
            *done = true;
        }
    })?;
    let missing = (0..last.get()).zip(done).filter(|(_, done)| !done);
    Ok(missing.filter_map(|(number, _)| UnitNumber::new(number)).collect())
}

/// Whether no further run can do any of these units: source or destination have changed since the plan.
fn are_given_up(ledger: &Ledger, units: &[UnitNumber]) -> Result<bool, UnitError> {
    let is_lasting = |reason: &FailureReason| {
        matches!(reason.kind, FailureKind::SourceChanged | FailureKind::Conflict)
    };
    for unit in units {
        let last = ledger.attempt(*unit)?.map_or(0, |last| last.number);
        let failure = ledger.failure(*unit)?.filter(|failure| failure.attempt == last);
        if !failure.is_some_and(|failure| failure.reasons.iter().all(is_lasting)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reason why the last unit has to wait for others.
fn needs_new_plan() -> FailureReason {
    let message = "units before this one have failed: make a new plan".to_owned();
    FailureReason { kind: FailureKind::NotYet, path: None, code: None, message }
}

fn not_yet(missing: &[UnitNumber]) -> Ran {
    let first = missing.iter().take(MAX_NAMED).copied().collect();
    Ran::NotYet { missing: missing.len() as u64, first }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO.raw()))
}

#[cfg(test)]
mod tests;
