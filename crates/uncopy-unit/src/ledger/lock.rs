//! Locks of a ledger, held by the filesystem: they end with the process that holds them.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::Ledger;
use crate::UnitError;
use crate::format::UnitNumber;
use uncopy_core::{Errno, Error};
use uncopy_os::file::LockKind;
use uncopy_os::{Sys, file, name};

/// Name of the file whose bytes are locked.
const LOCK: &str = "lock";

/// Offset of the bytes of files that are cut. There are fewer units.
const FILES_AT: u64 = 1 << 32;

/// Offset of the bytes that writers of cut files lock.
const WRITERS_AT: u64 = 2 << 32;

/// First and longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Part of a ledger that a lock is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a ledger has no other parts")]
pub enum LockPlace {
    /// A unit: its attempts, its commits, its record.
    Unit(UnitNumber),
    /// A file that is cut, by its number in the plan: which of its parts are there, and its name.
    File(u32),
    /// The writers of that file. Each has a shared lock as long as it may write.
    Writers(u32),
}

impl LockPlace {
    fn offset(self) -> u64 {
        match self {
            LockPlace::Unit(unit) => unit.get().into(),
            LockPlace::File(file) => FILES_AT + u64::from(file),
            LockPlace::Writers(file) => WRITERS_AT + u64::from(file),
        }
    }
}

/// Lock of a place; it ends when this is dropped.
#[derive(Debug)]
pub struct LedgerLock {
    place: LockPlace,
    _file: OwnedFd,
}

impl LedgerLock {
    /// Whether it is the lock of this place.
    #[must_use]
    pub fn is_of(&self, place: LockPlace) -> bool {
        self.place == place
    }
}

impl Ledger {
    /// Takes the exclusive lock of a place if nobody has it. `None`: somebody does.
    ///
    /// # Errors
    /// The filesystem has no locks, or the file cannot be opened.
    pub fn try_lock(&self, place: LockPlace) -> Result<Option<LedgerLock>, UnitError> {
        self.try_lock_as(place, LockKind::Exclusive)
    }

    fn try_lock_as(
        &self,
        place: LockPlace,
        kind: LockKind,
    ) -> Result<Option<LedgerLock>, UnitError> {
        match self.lock_once(place, kind) {
            Ok(lock) => Ok(Some(lock)),
            // fcntl_locking(2) allows either.
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(None),
            Err(errno) => Err(Error::destination("lock", self.path.join(LOCK), errno).into()),
        }
    }

    /// Takes the exclusive lock of a place, and waits for it up to a limit. `None`: somebody still has it, for example a
    /// process that was stopped.
    ///
    /// # Errors
    /// As [`try_lock`](Ledger::try_lock).
    pub fn lock_within(
        &self,
        place: LockPlace,
        limit: Duration,
    ) -> Result<Option<LedgerLock>, UnitError> {
        self.wait(place, LockKind::Exclusive, limit)
    }

    /// Takes a lock that others may have at the same time, but for the exclusive one, as
    /// [`lock_within`](Ledger::lock_within) does.
    ///
    /// # Errors
    /// As [`try_lock`](Ledger::try_lock).
    pub fn share_within(
        &self,
        place: LockPlace,
        limit: Duration,
    ) -> Result<Option<LedgerLock>, UnitError> {
        self.wait(place, LockKind::Shared, limit)
    }

    fn wait(
        &self,
        place: LockPlace,
        kind: LockKind,
        limit: Duration,
    ) -> Result<Option<LedgerLock>, UnitError> {
        let begun = Instant::now();
        let (mut pause, longest) = PAUSES;
        loop {
            if let Some(lock) = self.try_lock_as(place, kind)? {
                return Ok(Some(lock));
            }
            let Some(rest) = limit.checked_sub(begun.elapsed()) else { return Ok(None) };
            thread::sleep(pause.min(rest));
            pause = longest.min(pause * 2);
        }
    }

    fn lock_once(&self, place: LockPlace, kind: LockKind) -> Sys<LedgerLock> {
        let (lock, flags) = (OsStr::new(LOCK), OFlags::RDWR);
        let file = match name::open_existing(&self.directory, lock, flags) {
            Err(Errno::ENOENT) => match name::create_new(&self.directory, lock, 0o644) {
                // Somebody else has just made it.
                Err(Errno::EEXIST) => name::open_existing(&self.directory, lock, flags)?,
                other => other?,
            },
            other => other?,
        };
        file::try_lock_byte(&file, place.offset(), kind)?;
        Ok(LedgerLock { place, _file: file })
    }
}
