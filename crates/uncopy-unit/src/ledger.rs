//! Ledgers: what of a plan is done, kept at the destination.
//!
//! | file in `DST/.uncopy-ledger/PLAN/` | contents |
//! |---|---|
//! | `NNNNNN.json` | [`Record`]: the unit is done; it is made once and never replaced, and taken back if the parts of a cut file are lost |
//! | `NNNNNN.failed.json` | [`Failure`]: why the last attempt failed; without meaning once there is a record |
//! | `NNNNNN.epoch` | [`Attempt`]: the last attempt that was begun; only it may commit |
//! | `NNNNNN.copy.json` | [`FurtherCopy`]: of the cut file whose first part is this unit; a copy of its staging file is about to get its name |
//! | `lock` | nothing; its bytes are locked: one for each unit, and one for each file that is cut |
//!
//! Every file is written aside and gets its name when it is whole. Nothing is decided by a clock: an attempt is the
//! current one if the epoch has its token.

mod lock;
mod record;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::format::{FormatError, FormatProblem, LEDGER_DIRECTORY, PlanId, Time, UnitNumber};
use crate::{FileRole, UnitError, regular_file};
use uncopy_core::{Errno, Error};
use uncopy_os::{Sys, directory, file, name};

pub use lock::{LedgerLock, LockPlace};
pub use record::{
    Amounts, Attempt, Failure, FailureKind, FailureReason, FurtherCopy, Record, Worker,
};

/// Maximum length of a file of a ledger.
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;

/// Whether files are on the device before they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Flush {
    /// Records are flushed: what is recorded is there after a power cut.
    Yes,
    /// The system writes records when it likes.
    No,
}

/// Result of the beginning of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a unit is done or not")]
pub enum Begun {
    /// The unit is done; nothing was begun.
    Done(Box<Record>),
    /// This attempt is the current one.
    Attempt(Attempt),
}

/// Kind of a file of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a ledger has no others")]
pub enum LedgerFile {
    /// Record of a unit that is done.
    Record,
    /// Last failure of a unit.
    Failure,
    /// Last attempt of a unit.
    Attempt,
    /// Further copy of a cut file.
    Copy,
}

impl LedgerFile {
    fn suffix(self) -> &'static str {
        match self {
            LedgerFile::Record => ".json",
            LedgerFile::Failure => ".failed.json",
            LedgerFile::Attempt => ".epoch",
            LedgerFile::Copy => ".copy.json",
        }
    }

    pub(crate) fn name(self, unit: UnitNumber) -> OsString {
        format!("{unit}{}", self.suffix()).into()
    }

    /// Returns what a name stands for.
    pub(crate) fn of_name(name: &[u8]) -> Option<(UnitNumber, LedgerFile)> {
        let name = std::str::from_utf8(name).ok()?;
        let unit = UnitNumber::of_file_name(name)?;
        let kinds =
            [LedgerFile::Record, LedgerFile::Failure, LedgerFile::Attempt, LedgerFile::Copy];
        kinds.into_iter().find(|kind| kind.name(unit) == name).map(|kind| (unit, kind))
    }
}

/// Ledger of one plan.
#[derive(Debug)]
pub struct Ledger {
    directory: OwnedFd,
    path: PathBuf,
    plan: PlanId,
    flush: Flush,
}

impl Ledger {
    /// Opens the ledger of a plan below an open directory, which `shown` names for people, and makes it if there is none.
    ///
    /// # Errors
    /// It cannot be made or opened; a link or a file that has its name is not followed.
    pub fn create(
        destination: impl AsFd,
        shown: &Path,
        plan: PlanId,
        flush: Flush,
    ) -> Result<Ledger, UnitError> {
        let (all, own) = (shown.join(LEDGER_DIRECTORY), plan.to_string());
        let path = all.join(&own);
        let parent = make_and_open(&destination, OsStr::new(LEDGER_DIRECTORY), &all, flush)?;
        let directory = make_and_open(parent, OsStr::new(&own), &path, flush)?;
        Ok(Ledger { directory, path, plan, flush })
    }

    /// Opens the ledger of a plan below an open directory. `None`: no unit was begun yet.
    ///
    /// # Errors
    /// It cannot be opened; a link or a file that has its name is not followed.
    pub fn open(
        destination: impl AsFd,
        shown: &Path,
        plan: PlanId,
    ) -> Result<Option<Ledger>, UnitError> {
        let own = plan.to_string();
        let path = shown.join(LEDGER_DIRECTORY).join(&own);
        let opened = directory::open_child_path(destination, OsStr::new(LEDGER_DIRECTORY))
            .and_then(|parent| directory::open_child(parent, OsStr::new(&own)));
        match opened {
            Ok(directory) => Ok(Some(Ledger { directory, path, plan, flush: Flush::Yes })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(Error::system("open the ledger", &path, errno).into()),
        }
    }

    /// Returns its path, for people.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the plan that it belongs to.
    #[must_use]
    pub fn plan(&self) -> PlanId {
        self.plan
    }

    /// Calls `take` for each file that has a meaning, in no order.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn list(&self, mut take: impl FnMut(UnitNumber, LedgerFile)) -> Result<(), UnitError> {
        let listed = directory::open_child(&self.directory, OsStr::new(".")).and_then(|listing| {
            let mut buffer = Vec::with_capacity(64 << 10);
            directory::list(listing, buffer.spare_capacity_mut(), |entry| {
                if let Some((unit, kind)) = LedgerFile::of_name(entry.name.to_bytes()) {
                    take(unit, kind);
                }
                true
            })
        });
        listed.map_err(|errno| Error::system("list the ledger", &self.path, errno))?;
        Ok(())
    }

    /// Reads the record of a unit. `None`: it is not done.
    ///
    /// # Errors
    /// It cannot be read, is no record, or is one of another unit.
    pub fn record(&self, unit: UnitNumber) -> Result<Option<Record>, UnitError> {
        let record: Option<Record> = self.read(unit, LedgerFile::Record)?;
        self.check(unit, LedgerFile::Record, record, |record| (record.plan, record.unit))
    }

    /// Reads why the last attempt of a unit failed. `None`: none has failed, or a power cut took what was written about it.
    ///
    /// # Errors
    /// It cannot be read, or is one of another unit.
    pub fn failure(&self, unit: UnitNumber) -> Result<Option<Failure>, UnitError> {
        let failure: Option<Failure> = match self.read(unit, LedgerFile::Failure) {
            Err(UnitError::Format { .. }) => None,
            other => other?,
        };
        self.check(unit, LedgerFile::Failure, failure, |failure| (failure.plan, failure.unit))
    }

    /// Reads the last attempt of a unit. `None`: none was begun, or a power cut took what was written about it; then no
    /// attempt is the current one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn attempt(&self, unit: UnitNumber) -> Result<Option<Attempt>, UnitError> {
        match self.read(unit, LedgerFile::Attempt) {
            Err(UnitError::Format { .. }) => Ok(None),
            other => other,
        }
    }

    /// Begins an attempt: whichever was current before may not commit any more. `lock` is the exclusive lock of the unit;
    /// without it, a process that was stopped while it had the lock makes the name that it was about to make.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub fn begin(
        &self,
        unit: UnitNumber,
        lock: Option<&LedgerLock>,
        worker: Worker,
        begun: Time,
    ) -> Result<Begun, UnitError> {
        debug_assert!(lock.is_none_or(|lock| lock.is_of(LockPlace::Unit(unit))));
        if let Some(record) = self.record(unit)? {
            return Ok(Begun::Done(Box::new(record)));
        }
        let number = self.attempt(unit)?.map_or(0, |last| last.number).saturating_add(1);
        let random: [u8; 8] = self.done("begin a unit in", name::random_bytes())?;
        let token = u64::from_be_bytes(random);
        let attempt = Attempt { number, token, worker, begun };
        // It need not survive a power cut: then no attempt is the current one.
        self.write(unit, LedgerFile::Attempt, &attempt, Flush::No)?;
        Ok(Begun::Attempt(attempt))
    }

    /// Whether an attempt may still commit: the unit has no record, and no later attempt was begun. Ask while the lock of
    /// the unit is held.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn is_current(&self, unit: UnitNumber, attempt: &Attempt) -> Result<bool, UnitError> {
        let current = self.attempt(unit)?;
        let is_last = current.is_some_and(|current| current.token == attempt.token);
        Ok(is_last && self.record(unit)?.is_none())
    }

    /// Returns the user that the file of the last attempt of a unit belongs to.
    pub(crate) fn maker(&self, unit: UnitNumber) -> Option<u32> {
        let found = directory::stat_name(&self.directory, &LedgerFile::Attempt.name(unit));
        found.ok().map(|found| found.uid)
    }

    /// Returns the user whose worker made the ledger.
    pub(crate) fn owner(&self) -> Option<u32> {
        file::stat(&self.directory).ok().map(|found| found.uid)
    }

    /// Records that a unit is done. `false`: it was recorded before, and that record stays.
    ///
    /// # Errors
    /// The record cannot be written; then there is none.
    pub fn put_record(&self, record: &Record) -> Result<bool, UnitError> {
        self.write(record.unit, LedgerFile::Record, record, self.flush)
    }

    /// Takes a record back: what the unit made of a cut file is gone. `false`: there was none.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn withdraw(&self, unit: UnitNumber) -> Result<bool, UnitError> {
        let removed = name::unlink(&self.directory, &LedgerFile::Record.name(unit));
        match removed {
            Ok(()) if self.flush == Flush::Yes => {
                self.done("withdraw a record from", flush_directory(&self.directory))?;
                Ok(true)
            }
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => {
                let path = self.path.join(LedgerFile::Record.name(unit));
                Err(Error::destination("withdraw", path, errno).into())
            }
        }
    }

    /// Notes why an attempt failed, in place of earlier failures of the unit.
    ///
    /// # Errors
    /// The failure cannot be written; then the earlier one is still there.
    pub fn put_failure(&self, failure: &Failure) -> Result<(), UnitError> {
        self.write(failure.unit, LedgerFile::Failure, failure, Flush::No).map(|_| ())
    }

    /// Notes a copy that is about to get the name of a cut file, whose first part is `first`.
    ///
    /// # Errors
    /// The note cannot be written; then an earlier one is still there.
    pub fn put_copy(&self, first: UnitNumber, copy: &FurtherCopy) -> Result<(), UnitError> {
        self.write(first, LedgerFile::Copy, copy, self.flush).map(|_| ())
    }

    /// Reads which copy was about to get the name of a cut file. `None`: none was, or a power cut took what was written
    /// about it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn copy(&self, first: UnitNumber) -> Result<Option<FurtherCopy>, UnitError> {
        match self.read(first, LedgerFile::Copy) {
            Err(UnitError::Format { .. }) => Ok(None),
            other => other,
        }
    }

    fn done<T>(&self, operation: &'static str, result: Sys<T>) -> Result<T, UnitError> {
        Ok(result.map_err(|errno| Error::destination(operation, &self.path, errno))?)
    }

    fn check<T>(
        &self,
        unit: UnitNumber,
        kind: LedgerFile,
        found: Option<T>,
        belongs_to: impl Fn(&T) -> (PlanId, UnitNumber),
    ) -> Result<Option<T>, UnitError> {
        if let Some(found) = &found {
            check_place(belongs_to(found), (self.plan, unit), &self.path.join(kind.name(unit)))?;
        }
        Ok(found)
    }

    fn read<T: DeserializeOwned>(
        &self,
        unit: UnitNumber,
        kind: LedgerFile,
    ) -> Result<Option<T>, UnitError> {
        let file_name = kind.name(unit);
        let path = self.path.join(&file_name);
        let mut text = Vec::new();
        let file = match name::open_existing(&self.directory, &file_name, OFlags::RDONLY) {
            Ok(file) => regular_file::check(file, &path, FileRole::Ledger)?,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(Error::system("open", &path, errno).into()),
        };
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|error| Error::system("read", &path, errno_of(&error)))?;
        parse(&text, &path).map(Some)
    }

    /// Writes a file aside and gives it its name. A record takes the place of nothing: `false`, there was one.
    fn write(
        &self,
        unit: UnitNumber,
        kind: LedgerFile,
        contents: &impl Serialize,
        flush: Flush,
    ) -> Result<bool, UnitError> {
        let file_name = kind.name(unit);
        let path = self.path.join(&file_name);
        let failed = |errno| Error::destination("write", &path, errno);
        let text = serde_json::to_vec(contents).map_err(|_| failed(Errno::EINVAL))?;
        let random: [u8; 8] = name::random_bytes().map_err(failed)?;
        let mut aside = OsString::from(format!(".{:016x}.", u64::from_be_bytes(random)));
        aside.push(&file_name);
        let new = name::create_new(&self.directory, &aside, 0o644).map_err(failed)?;
        let mut new = File::from(new);
        let written = new.write_all(&text).map_err(|error| errno_of(&error));
        let flushed = written.and_then(|()| match flush {
            Flush::Yes => file::sync(&new),
            Flush::No => Ok(()),
        });
        let put = flushed.and_then(|()| match kind {
            LedgerFile::Record => name::rename_new(&self.directory, &aside, &file_name),
            LedgerFile::Failure | LedgerFile::Attempt | LedgerFile::Copy => {
                name::rename(&self.directory, &aside, &file_name)
            }
        });
        if let Err(errno) = put {
            // Whatever is left there has a name without meaning.
            let _ = name::unlink(&self.directory, &aside);
            return match (errno, kind) {
                (Errno::EEXIST, LedgerFile::Record) => Ok(false),
                _ => Err(failed(errno).into()),
            };
        }
        if flush == Flush::Yes {
            flush_directory(&self.directory).map_err(failed)?;
        }
        Ok(true)
    }
}

/// Reads the text of a file of a ledger.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8], path: &Path) -> Result<T, UnitError> {
    let wrong = |problem| UnitError::Format {
        file: path.to_owned(),
        error: FormatError { line: 1, problem },
    };
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(FormatProblem::TooLong));
    }
    serde_json::from_slice(text).map_err(|error| wrong(FormatProblem::Json(error)))
}

/// Checks that a file belongs to the plan and the unit that its place stands for.
pub(crate) fn check_place(
    found: (PlanId, UnitNumber),
    expected: (PlanId, UnitNumber),
    path: &Path,
) -> Result<(), UnitError> {
    let words = |(plan, unit)| format!("unit {unit} of plan {plan}");
    match found == expected {
        true => Ok(()),
        false => Err(UnitError::Misplaced {
            file: path.to_owned(),
            found: words(found),
            expected: words(expected),
        }),
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO.raw()))
}

fn make_and_open(
    parent: impl AsFd,
    name: &OsStr,
    shown: &Path,
    flush: Flush,
) -> Result<OwnedFd, UnitError> {
    let failed = |errno| Error::destination("make the ledger", shown, errno);
    match directory::make(&parent, name, 0o755) {
        Ok(()) if flush == Flush::Yes => {
            flush_directory(&parent).map_err(failed)?;
        }
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(failed(errno).into()),
    }
    Ok(directory::open_child(&parent, name).map_err(failed)?)
}

fn flush_directory(directory: impl AsFd) -> Sys<()> {
    file::sync(name::open_directory_for_reading(directory)?)
}

#[cfg(test)]
mod tests;
