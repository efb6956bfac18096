//! Copies a part of a file that is cut into units.
//!
//! All parts go into one staging file beside the destination, which has the name of plan and file. Who writes to it has a
//! shared lock meanwhile. Under the exclusive lock of the file a part is recorded; the last part is recorded when the whole
//! file has its name. A writer that was stopped keeps its lock: then the file that gets the name is a copy of the staging
//! file, to which that writer cannot write any more when it goes on.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use serde_json::{Value, json};

use super::identity::{is_planned, source_difference};
use super::roots::{at_destination, at_source, split};
use super::{AttemptedUnit, PATIENCE, Ran, Work};
use crate::UnitError;
use crate::format::{Entry, Identity, Part, UnitNumber};
use crate::ledger::{
    Amounts, FailureKind, FailureReason, FurtherCopy, LedgerLock, LockPlace, Record,
};
use uncopy_copy::guarded::{
    CutFile, Guard, GuardedFile, copy_part, finish_cut_file, give_last_bits,
};
use uncopy_copy::job::{EntryOutcome, JobProgress, RefusalCount, Summary};
use uncopy_copy::{Control, Observer, Progress};
use uncopy_core::{Errno, Error, Objection, Reason, Receipt};
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, directory, name};

/// How a part ended.
pub(super) enum RangeEnd {
    Recorded(Box<Record>),
    /// It failed, as was noted.
    Not,
}

/// Result of the beginning of a staging file.
enum BegunStaging {
    Open(OwnedFd),
    /// The whole file is in place; this is the identity of the staging file that it was.
    Placed(Value),
    /// Somebody has had the lock of the file for too long.
    Busy,
}

/// A part, and its file.
struct PartOfFile<'a> {
    entry: &'a Entry,
    source: &'a Identity,
    part: Part,
    directory: Arc<OwnedFd>,
    name: &'a OsStr,
    staging: OsString,
    source_path: PathBuf,
    path: PathBuf,
}

/// Guard of the name of the whole file.
struct NameGuard<'a> {
    unit: &'a AttemptedUnit<'a>,
    planned: Option<&'a Identity>,
}

impl Guard for NameGuard<'_> {
    fn source_difference(&self, _: &std::path::Path, _: &Stat) -> Option<&'static str> {
        None
    }

    fn expects(&self, _: &std::path::Path, found: Option<&Stat>) -> bool {
        is_planned(self.planned, found)
    }

    fn give_name(&self, act: &mut dyn FnMut()) -> Result<(), Objection> {
        self.unit.commits.give_name(act)
    }
}

/// Passes the progress of one file on to the observer of the unit.
struct PartProgress<'a>(&'a AttemptedUnit<'a>);

impl Observer for PartProgress<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        let mut of_job = JobProgress::default();
        of_job.bytes = progress.done_bytes;
        of_job.total_bytes = progress.total_bytes;
        match self.0.failures.goes_on(of_job) {
            true => Control::Continue,
            false => Control::Stop,
        }
    }
}

impl AttemptedUnit<'_> {
    /// Copies a part and records it; the last part also puts the file in place.
    pub(super) fn copy_range(
        &self,
        entries: &[Entry],
        receipt: &dyn Fn(&Summary) -> Value,
    ) -> Result<RangeEnd, UnitError> {
        let Some((entry, source, part)) =
            entries.first().and_then(|entry| Some((entry, entry.source.as_ref()?, entry.part?)))
        else {
            return Ok(RangeEnd::Not);
        };
        let header = &self.unit.header;
        let (above, name) = split(&entry.path);
        let destination = self
            .roots
            .open_or_make(&above)
            .map_err(|why| at_destination("open the directory of", header, &entry.path, why));
        let directory = match destination {
            Ok(directory) => Arc::new(directory),
            Err(error) => return Ok(self.failed(entry, error)),
        };
        let staging = format!(".uncopy-unit-{}-{}.part", header.plan, part.file).into();
        let source_path = header.source.as_path().join(entry.path.as_path());
        let path = header.destination.as_path().join(entry.path.as_path());
        let of_file =
            PartOfFile { entry, source, part, directory, name, staging, source_path, path };
        match self.copy_part_of(&of_file, receipt) {
            Ok(end) => Ok(end),
            Err(UnitError::System(error)) => {
                self.roots.source.check_connected()?;
                // The damage may be in any part, or no part can get its name.
                let of_all_parts =
                    [FailureKind::SourceChanged, FailureKind::Conflict, FailureKind::Verification];
                if of_all_parts.contains(&super::failures::kind_of(&error)) {
                    self.give_up(&of_file, &error)?;
                }
                Ok(self.failed(entry, error))
            }
            Err(error) => Err(error),
        }
    }

    fn failed(&self, entry: &Entry, error: Error) -> RangeEnd {
        self.failures.add_entry(entry, error);
        RangeEnd::Not
    }

    fn copy_part_of(
        &self,
        of_file: &PartOfFile<'_>,
        receipt: &dyn Fn(&Summary) -> Value,
    ) -> Result<RangeEnd, UnitError> {
        let source = self.open_source(of_file)?;
        let Some(writing) = self.ledger.share_within(writers(of_file), PATIENCE)? else {
            return Ok(self.busy(of_file));
        };
        let found = self.look(of_file)?;
        let placed = match &found {
            None => self.was_placed(of_file)?,
            Some(_) => self.copy_was_placed(of_file)?,
        };
        if let Some(staging) = placed {
            // An attempt put it in place and ended before it was recorded.
            return self.record_part(of_file, Receipt::default(), &staging, receipt);
        }
        let staging = match found {
            Some(staging) => staging,
            None => match self.begin_staging(of_file)? {
                BegunStaging::Open(staging) => staging,
                BegunStaging::Placed(staging) => {
                    return self.record_part(of_file, Receipt::default(), &staging, receipt);
                }
                BegunStaging::Busy => return Ok(self.busy(of_file)),
            },
        };
        let identity = file::stat(&staging)
            .map_err(|errno| self.failed_at(of_file, "examine the staging file of", errno))?;
        let (offset, length) = of_file.part.range;
        let part = offset..offset + length;
        let mut copied = self.copy(of_file, &source, &staging, part)?;
        self.check_source(of_file, &source)?;
        let facts = staging_facts(&identity);
        drop(writing);
        // Whoever has it looks which parts are there.
        let Some(lock) = self.ledger.lock_within(LockPlace::File(of_file.part.file), PATIENCE)?
        else {
            return Ok(self.busy(of_file));
        };
        // It may have been removed, and another one made.
        let now = self.look(of_file)?.map(|staging| file::stat(&staging));
        if !now.is_some_and(|now| now.is_ok_and(|now| staging_facts(&now) == facts)) {
            return Ok(self.busy(of_file));
        }
        self.withdraw_others(of_file, &copied_again(of_file), Some(&facts))?;
        if !self.has_others(of_file, &facts)? {
            return self.record_part(of_file, copied, &facts, receipt);
        }
        let whole = self.place(of_file, &source, &staging, &lock)?;
        (copied.source_digest, copied.verification) = (whole.source_digest, whole.verification);
        copied.durable = whole.durable;
        copied.notes.extend(whole.notes);
        self.record_part(of_file, copied, &facts, receipt)
    }

    /// Somebody has had a lock of the file for longer than any work under it takes.
    fn busy(&self, of_file: &PartOfFile<'_>) -> RangeEnd {
        self.failures.add_reason(FailureReason {
            kind: FailureKind::NotYet,
            path: Some(of_file.entry.path.clone()),
            code: None,
            message: format!(
                "another worker is at work on the parts of {}, and may have been stopped; run the unit again",
                of_file.path.display()
            ),
        });
        RangeEnd::Not
    }

    fn failed_at(&self, of_file: &PartOfFile<'_>, operation: &'static str, errno: Errno) -> Error {
        at_destination(operation, &self.unit.header, &of_file.entry.path, errno)
    }

    /// Opens the source, which must be as planned.
    fn open_source(&self, of_file: &PartOfFile<'_>) -> Result<GuardedFile, Error> {
        let (above, own) = split(&of_file.entry.path);
        let failed = |errno| at_source("open", &self.unit.header, &of_file.entry.path, errno);
        let root = &self.roots.source;
        let source =
            root.open_beneath(&above).and_then(|parent| parent.open_file(own)).map_err(failed)?;
        self.check_source(of_file, &source)?;
        Ok(source)
    }

    fn check_source(&self, of_file: &PartOfFile<'_>, source: &GuardedFile) -> Result<(), Error> {
        let now = source
            .examine()
            .map_err(|errno| at_source("examine", &self.unit.header, &of_file.entry.path, errno))?;
        match source_difference(of_file.source, &now) {
            None => Ok(()),
            Some(what) => {
                let what = what.to_owned();
                let why = Reason::Refused(Objection::SourceSincePlan { what });
                Err(Error::new("copy", &of_file.source_path, why))
            }
        }
    }

    /// Opens the staging file, if there is one. It may have metadata of the source already, if whoever finished it was killed.
    ///
    /// # Errors
    /// Something has its name that no unit made.
    fn look(&self, of_file: &PartOfFile<'_>) -> Result<Option<OwnedFd>, UnitError> {
        let PartOfFile { directory, staging, source, .. } = of_file;
        let failed =
            |errno| UnitError::from(self.failed_at(of_file, "open the staging file of", errno));
        let handle = match name::open_existing(&**directory, staging, OFlags::PATH) {
            Err(Errno::ENOENT) => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let stat = file::stat(&handle).map_err(failed)?;
        let is_ours = stat.file_type() == FileType::RegularFile
            && stat.links == 1
            && stat.size == source.size
            && (stat.uid == file::effective_uid() || self.is_recorded(of_file, &stat)?);
        if !is_ours {
            let why = Reason::Refused(Objection::FileReplaced);
            let path = of_file.path.with_file_name(staging);
            return Err(Error::new("use the staging file", path, why).into());
        }
        let open = || file::reopen(&handle, OFlags::RDWR);
        let opened = open().or_else(|errno| match errno {
            Errno::EACCES => {
                directory::set_permissions_of_handle(&handle, 0o600)?;
                open()
            }
            errno => Err(errno),
        });
        Ok(Some(opened.map_err(failed)?))
    }

    /// Whether the ledger has a part that went into this file.
    fn is_recorded(&self, of_file: &PartOfFile<'_>, staging: &Stat) -> Result<bool, UnitError> {
        let staging = staging_facts(staging);
        for unit in self.others(of_file) {
            let record = self.ledger.record(unit)?;
            if record.is_some_and(|record| record.receipt.get("staging") == Some(&staging)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the staging file, with its length at once. Records of parts of an earlier one are taken back.
    ///
    /// # Errors
    /// It cannot be made, the destination is not as planned, or a later attempt has begun.
    fn begin_staging(&self, of_file: &PartOfFile<'_>) -> Result<BegunStaging, UnitError> {
        let failed = |errno| self.failed_at(of_file, "make the staging file of", errno);
        let PartOfFile { directory, staging, source, .. } = of_file;
        let place = LockPlace::File(of_file.part.file);
        let Some(_lock) = self.ledger.lock_within(place, PATIENCE)? else {
            return Ok(BegunStaging::Busy);
        };
        if let Some(made) = self.look(of_file)? {
            return Ok(BegunStaging::Open(made));
        }
        // Another attempt may have ended it between two looks.
        if let Some(staging) = self.was_placed(of_file)? {
            return Ok(BegunStaging::Placed(staging));
        }
        let refused = |why| Error::new("copy to", &of_file.path, Reason::Refused(why));
        if !self.ledger.is_current(self.unit.header.unit, self.attempt)? {
            return Err(refused(Objection::Overtaken).into());
        }
        let found = match directory::stat_name(&**directory, of_file.name) {
            Err(Errno::ENOENT) => None,
            found => Some(found.map_err(|errno| self.failed_at(of_file, "examine", errno))?),
        };
        if !is_planned(of_file.entry.destination.as_ref(), found.as_ref()) {
            return Err(refused(Objection::DestinationSincePlan).into());
        }
        self.withdraw_others(of_file, &copied_again(of_file), None)?;
        let (aside, new) = create_aside(of_file, "new").map_err(failed)?;
        let named = file::truncate(&new, source.size)
            .and_then(|()| name::rename_new(&**directory, &aside, staging));
        match named {
            Ok(()) => Ok(BegunStaging::Open(new)),
            Err(errno) => {
                let _ = name::unlink(&**directory, &aside);
                Err(failed(errno).into())
            }
        }
    }

    fn copy(
        &self,
        of_file: &PartOfFile<'_>,
        source: &GuardedFile,
        staging: &OwnedFd,
        part: Range<u64>,
    ) -> Result<Receipt, Error> {
        let cut = self.cut(of_file, source, staging, &of_file.staging)?;
        copy_part(cut, part, &mut PartProgress(self))
    }

    fn cut<'c>(
        &'c self,
        of_file: &'c PartOfFile<'_>,
        source: &'c GuardedFile,
        staging: &OwnedFd,
        staging_name: &'c OsStr,
    ) -> Result<CutFile<'c>, Error> {
        let staging =
            file::duplicate(staging).map_err(|errno| self.failed_at(of_file, "open", errno))?;
        Ok(CutFile {
            source,
            source_path: &of_file.source_path,
            path: &of_file.path,
            directory: Arc::clone(&of_file.directory),
            name: of_file.name,
            staging,
            staging_name,
            options: &self.options.copy,
        })
    }

    /// Puts the whole file in place.
    fn place(
        &self,
        of_file: &PartOfFile<'_>,
        source: &GuardedFile,
        staging: &OwnedFd,
        _lock: &LedgerLock,
    ) -> Result<Receipt, UnitError> {
        let guard = NameGuard { unit: self, planned: of_file.entry.destination.as_ref() };
        let place = |staging: &OwnedFd, name: &OsStr| -> Result<Receipt, Error> {
            let cut = self.cut(of_file, source, staging, name)?;
            finish_cut_file(cut, of_file.entry.path.as_path(), &guard, &mut PartProgress(self))
        };
        // Nobody may write to the file any more when it has its name.
        if let Some(_alone) = self.ledger.lock_within(writers(of_file), PATIENCE)? {
            return Ok(place(staging, &of_file.staging)?);
        }
        let failed = |errno| self.failed_at(of_file, "copy the staging file of", errno);
        let directory = &*of_file.directory;
        let (aside, new) = create_aside(of_file, "copy").map_err(failed)?;
        let facts = |file: &OwnedFd| file::stat(file).map(|stat| staging_facts(&stat));
        let placed = (|| {
            file::truncate(&new, of_file.source.size).map_err(failed)?;
            self.copy(of_file, source, &new, 0..of_file.source.size)?;
            // Whoever comes after a kill cannot know otherwise that no user put it there.
            let staging = facts(staging).map_err(failed)?;
            let copy = FurtherCopy { staging, copy: facts(&new).map_err(failed)? };
            self.ledger.put_copy(of_file.part.first, &copy)?;
            Ok(place(&new, &aside)?)
        })();
        let rest = if placed.is_ok() { &of_file.staging } else { &aside };
        let _ = name::unlink(directory, rest);
        placed
    }

    /// Whether all other parts are recorded, of this staging file.
    fn has_others(&self, of_file: &PartOfFile<'_>, staging: &Value) -> Result<bool, UnitError> {
        for unit in self.others(of_file) {
            let record = self.ledger.record(unit)?;
            if record.is_none_or(|record| record.receipt.get("staging") != Some(staging)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks whether the name of the whole file stands for a file of its size, and returns its identity.
    fn whole_file(&self, of_file: &PartOfFile<'_>) -> Result<Option<Value>, UnitError> {
        match directory::stat_name(&*of_file.directory, of_file.name) {
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.failed_at(of_file, "examine", errno).into()),
            Ok(now) => Ok((now.size == of_file.source.size).then(|| staging_facts(&now))),
        }
    }

    /// Returns the staging file of other parts, if it or its copy has the name of the whole file now.
    fn was_placed(&self, of_file: &PartOfFile<'_>) -> Result<Option<Value>, UnitError> {
        let Some(placed) = self.whole_file(of_file)? else { return Ok(None) };
        if !self.has_others(of_file, &placed)? {
            return self.copy_was_placed(of_file);
        }
        self.give_last_bits(of_file)?;
        Ok(Some(placed))
    }

    /// Returns the staging file of other parts, if a copy of it has the name of the whole file now. The staging file goes.
    fn copy_was_placed(&self, of_file: &PartOfFile<'_>) -> Result<Option<Value>, UnitError> {
        let Some(FurtherCopy { staging, copy }) = self.ledger.copy(of_file.part.first)? else {
            return Ok(None);
        };
        let is_placed = self.whole_file(of_file)? == Some(copy);
        if !is_placed || !self.has_others(of_file, &staging)? {
            return Ok(None);
        }
        self.give_last_bits(of_file)?;
        let _: Sys<()> = name::unlink(&*of_file.directory, &of_file.staging);
        Ok(Some(staging))
    }

    /// Gives a file that is in place, and has not changed since, what it gets last.
    fn give_last_bits(&self, of_file: &PartOfFile<'_>) -> Result<(), UnitError> {
        let preserve = self.options.copy.preserve;
        let failed = |errno| UnitError::from(self.failed_at(of_file, "set the mode of", errno));
        let source = self.open_source(of_file)?;
        let given = || {
            let source = source.examine()?;
            let copy = name::open_existing(&*of_file.directory, of_file.name, OFlags::PATH)?;
            let found = file::stat(&copy)?;
            match preserve.timestamps && found.modified == source.modified {
                true => give_last_bits(&copy, &found, &source, preserve),
                false => Ok(()),
            }
        };
        self.commits.while_current(|| given().map_err(failed))?;
        Ok(())
    }

    fn others(&self, of_file: &PartOfFile<'_>) -> impl Iterator<Item = UnitNumber> + use<> {
        let (first, count, own) =
            (of_file.part.first.get(), of_file.part.ranges, self.unit.header.unit);
        (first..first.saturating_add(count))
            .filter_map(UnitNumber::new)
            .filter(move |unit| *unit != own)
    }

    /// Takes the records of the other parts back, and notes why: nobody is at work on them any more. Those of parts that
    /// went into the file `but` stay. Parts of another file stay missing in this one, although they are recorded: a
    /// destination that was copied has another one.
    fn withdraw_others(
        &self,
        of_file: &PartOfFile<'_>,
        why: &FailureReason,
        but: Option<&Value>,
    ) -> Result<(), UnitError> {
        for unit in self.others(of_file) {
            let Some(record) = self.ledger.record(unit)? else { continue };
            if but.is_some_and(|but| record.receipt.get("staging") == Some(but)) {
                continue;
            }
            let last = self.ledger.attempt(unit)?.map_or(0, |last| last.number);
            let attempt = record.attempt.max(last);
            // It has no meaning before the record goes.
            let failure = self.failure(unit, attempt, record.digest, 1, vec![why.clone()]);
            self.ledger.put_failure(&failure)?;
            self.ledger.withdraw(unit)?;
        }
        Ok(())
    }

    /// Fails the whole file: its staging file goes, and the parts that were recorded are not done any more.
    fn give_up(&self, of_file: &PartOfFile<'_>, error: &Error) -> Result<(), UnitError> {
        let place = LockPlace::File(of_file.part.file);
        let Some(_lock) = self.ledger.lock_within(place, PATIENCE)? else { return Ok(()) };
        if self.was_placed(of_file)?.is_some() {
            return Ok(());
        }
        let why = self.failures.reason(Some(of_file.entry.path.clone()), error);
        self.withdraw_others(of_file, &why, None)?;
        let _: Sys<()> = name::unlink(&*of_file.directory, &of_file.staging);
        Ok(())
    }

    fn record_part(
        &self,
        of_file: &PartOfFile<'_>,
        copied: Receipt,
        staging: &Value,
        receipt: &dyn Fn(&Summary) -> Value,
    ) -> Result<RangeEnd, UnitError> {
        let summary = summary_of(&copied);
        self.failures.report(of_file.entry, EntryOutcome::Copied(Box::new(copied)));
        let work = Work {
            // The file counts once.
            done: Amounts {
                entries: u64::from(of_file.part.range.0 == 0),
                bytes: of_file.part.range.1,
                deleted: 0,
            },
            summary,
            facts: vec![("staging", staging.clone())],
        };
        Ok(match self.end(work, receipt)? {
            Ran::Done(record) | Ran::DoneBefore(record) => RangeEnd::Recorded(record),
            _ => {
                let why = Reason::Refused(Objection::Overtaken);
                self.failed(of_file.entry, Error::new("record", &of_file.path, why))
            }
        })
    }
}

/// Reason why a part that was recorded is to be done again.
fn copied_again(of_file: &PartOfFile<'_>) -> FailureReason {
    let message = format!(
        "the staging file of {} is gone or another one, so that its parts are copied again; run the unit again",
        of_file.path.display()
    );
    let path = Some(of_file.entry.path.clone());
    FailureReason { kind: FailureKind::NotYet, path, code: None, message }
}

/// Makes a file beside the staging file, under the lock of the file: one of that name was left by a killed attempt.
fn create_aside(of_file: &PartOfFile<'_>, kind: &str) -> Sys<(OsString, OwnedFd)> {
    let mut aside = of_file.staging.clone();
    aside.push(format!(".{kind}"));
    let new = match name::create_new(&*of_file.directory, &aside, 0o600) {
        Err(Errno::EEXIST) => {
            name::unlink(&*of_file.directory, &aside)?;
            name::create_new(&*of_file.directory, &aside, 0o600)?
        }
        new => new?,
    };
    Ok((aside, new))
}

fn writers(of_file: &PartOfFile<'_>) -> LockPlace {
    LockPlace::Writers(of_file.part.file)
}

/// Identity of a staging file, as records keep it.
fn staging_facts(stat: &Stat) -> Value {
    let birth = stat.birth.map(|birth| (birth.seconds, birth.nanoseconds));
    json!({ "inode": stat.inode, "birth": birth })
}

/// Makes the summary of a part.
fn summary_of(copied: &Receipt) -> Summary {
    let mut summary = Summary::default();
    summary.files = 1;
    summary.bytes = copied.bytes;
    summary.portions.clone_from(&copied.portions);
    summary.duration = copied.duration;
    summary.refusals = copied
        .refusals
        .iter()
        .map(|refusal| RefusalCount {
            mechanism: refusal.mechanism,
            reason: refusal.reason,
            errno: refusal.errno,
            files: 1,
        })
        .collect();
    summary
}
