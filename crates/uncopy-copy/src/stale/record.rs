//! Record of a run's temporary names: a file beside the destination, locked while the run lives, created
//! before the first temporary name and removed after the last.
//!
//! Without a record the copy continues, and leftovers of a kill are never removed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Kind, format, is_on_filesystem, temporary_name};
use uncopy_core::Errno;
use uncopy_os::file::{self, FileId, Stat};
use uncopy_os::{Sys, directory, name, transfer};

/// Records temporary names in and below one directory.
#[derive(Debug)]
pub(crate) struct Register {
    /// Directory of the record, and the destination's name. `None`: nothing is recorded.
    place: Option<(Arc<OwnedFd>, OsString)>,
    state: Mutex<RegisterState>,
}

#[derive(Debug)]
enum RegisterState {
    /// No temporary name was made yet.
    Unneeded,
    Made(Record),
    /// No record can be made here, or it has ended.
    None,
}

/// The record file.
#[derive(Debug)]
struct Record {
    file: OwnedFd,
    name: OsString,
    own: FileId,
    device: (u32, u32),
    head: Vec<u8>,
    /// Slots that are free again.
    free: Vec<usize>,
    /// Number of slots used so far.
    slots: usize,
    /// Whether a recorded name could not be removed.
    is_kept: bool,
}

/// A recorded temporary name, if recording it was possible. Its slot is free for another name
/// afterwards.
#[derive(Debug)]
pub(crate) struct Noted<'a>(Option<(&'a Register, usize)>);

/// Where the temporary names of one directory are recorded.
#[derive(Clone, Copy)]
pub(crate) struct Noting<'a> {
    pub(crate) register: &'a Register,
    /// Path of the directory, relative to that of the register.
    pub(crate) path: &'a dyn Fn() -> PathBuf,
    /// Whether names that exist only between two system calls are recorded too.
    pub(crate) brief: bool,
}

impl Register {
    /// Makes a register whose record is created in this directory, with the first name.
    pub(crate) fn new(directory: Arc<OwnedFd>, destination: &OsStr) -> Register {
        let place = Some((directory, destination.to_owned()));
        Register { place, state: Mutex::new(RegisterState::Unneeded) }
    }

    /// Makes a register that records nothing.
    pub(crate) const fn none() -> Register {
        Register { place: None, state: Mutex::new(RegisterState::None) }
    }

    /// Creates the record, before the creation of a name that can only be recorded once it exists.
    pub(crate) fn prepare(&self) {
        drop(self.made());
    }

    fn made(&self) -> MutexGuard<'_, RegisterState> {
        let mut state = lock(&self.state);
        if let (RegisterState::Unneeded, Some((directory, destination))) = (&*state, &self.place) {
            *state = Record::new(directory, destination)
                .map_or(RegisterState::None, RegisterState::Made);
        }
        state
    }

    /// Records a file that has, or gets, a temporary name in the directory at this path, relative to
    /// that of the record.
    pub(crate) fn note(
        &self,
        path: impl FnOnce() -> PathBuf,
        name: &OsStr,
        stat: &Stat,
    ) -> Noted<'_> {
        let mut state = self.made();
        let (RegisterState::Made(record), Some((directory, _))) = (&mut *state, &self.place) else {
            return Noted(None);
        };
        // On another filesystem mounted below, inode numbers are not comparable.
        let is_known = stat.birth.is_some() && is_on_filesystem(stat, record.device, directory);
        let slot = is_known.then(|| record.note(path, name, stat)).flatten();
        Noted(slot.map(|slot| (self, slot)))
    }

    /// Records that an empty directory is about to get this name; [`Noted::became`] completes the entry.
    pub(crate) fn intend(&self, path: impl FnOnce() -> PathBuf, name: &OsStr) -> Noted<'_> {
        let mut state = self.made();
        let RegisterState::Made(record) = &mut *state else { return Noted(None) };
        let slot = record.take_slot();
        Noted(
            slot.filter(|slot| record.write(*slot, path, name, format::INTENDED))
                .map(|slot| (self, slot)),
        )
    }

    /// Frees the slot of a name that is gone.
    pub(crate) fn free(&self, slot: Option<usize>) {
        if let (Some(slot), RegisterState::Made(record)) = (slot, &mut *lock(&self.state)) {
            record.free.push(slot);
        }
    }

    /// Keeps the record for another run: a recorded file could not be removed.
    pub(crate) fn keep(&self) {
        if let RegisterState::Made(record) = &mut *lock(&self.state) {
            record.is_kept = true;
        }
    }

    /// Removes the record: all recorded files have their final names or are gone.
    pub(crate) fn end(&self) {
        let state = std::mem::replace(&mut *lock(&self.state), RegisterState::None);
        if let (RegisterState::Made(record), Some((directory, _))) = (state, &self.place)
            && !record.is_kept
        {
            // If removal fails, the next run removes it.
            let _ = remove(directory, &record.name, record.own, record.device);
        }
    }

    /// Erases the record's entries, whose files are left to the caller. `false`: another run may still
    /// find and obey the record, now or after a crash.
    pub(crate) fn withdraw(&self) -> bool {
        let state = std::mem::replace(&mut *lock(&self.state), RegisterState::None);
        let (RegisterState::Made(record), Some((directory, _))) = (state, &self.place) else {
            return true;
        };
        let removed = remove(directory, &record.name, record.own, record.device)
            .and_then(|()| name::open_directory_for_reading(directory))
            .and_then(file::sync);
        removed.or_else(|_| record.empty()).is_ok()
    }
}

/// Removes a record, and no other file that got its name. The caller has it open, so that no other file
/// has its inode number.
pub(super) fn remove(
    parent: impl AsFd,
    record: &OsStr,
    own: FileId,
    device: (u32, u32),
) -> Sys<()> {
    // Tried twice: a transient error is no reason to leave the file.
    let look = || directory::stat_name(&parent, record);
    let stat = look().or_else(|_| look())?;
    match own.inode == stat.inode && stat.device == device {
        true => name::unlink(parent, record),
        false => Err(Errno::ESTALE),
    }
}

impl Record {
    /// Creates a locked record. `None`: no record is possible here.
    fn new(directory: &OwnedFd, destination: &OsStr) -> Option<Record> {
        super::check_directory(directory).ok()?;
        let unnamed = match name::can_link_unnamed() {
            true => name::create_unnamed(directory, 0o600),
            false => Err(Errno::EOPNOTSUPP),
        };
        match unnamed {
            Ok(file) => {
                let mut record = Record::begin(file).ok()?;
                record.name = loop {
                    let name = temporary_name(destination, Kind::Record).ok()?;
                    match name::link_unnamed(&record.file, directory, &name) {
                        Err(Errno::EEXIST) => {}
                        other => break other.map(|()| name).ok()?,
                    }
                };
                Some(record)
            }
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {
                Record::named(directory, destination)
            }
            Err(_) => None,
        }
    }

    /// Creates a record where unlinked files are not supported. One that is killed half-way leaves an
    /// invalid file.
    fn named(directory: &OwnedFd, destination: &OsStr) -> Option<Record> {
        /// Attempts: another process may hold the lock while it examines the new name.
        const MAX_TRIES: usize = 16;
        for _ in 0..MAX_TRIES {
            let name = temporary_name(destination, Kind::Record).ok()?;
            let file = match name::create_new(directory, &name, 0o600) {
                Err(Errno::EEXIST) => continue,
                other => other.ok()?,
            };
            match Record::begin(file) {
                Ok(record) => return Some(Record { name, ..record }),
                Err(errno) => {
                    let _ = name::unlink(directory, &name);
                    if errno != Errno::EAGAIN {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Locks a new file and writes its header. Without locks other runs could not see that this one
    /// lives, and without a time of birth it is no evidence.
    fn begin(file: OwnedFd) -> Sys<Record> {
        file::try_lock(&file)?;
        let file = super::for_its_owner(file)?;
        let stat = file::stat(&file)?;
        if stat.birth.is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        let (own, device, head) = (stat.id(), stat.device, format::head(stat.id()));
        transfer::write_all_at(&file, &head, 0)?;
        let (name, free) = (OsString::new(), Vec::new());
        Ok(Record { file, name, own, device, head, free, slots: 0, is_kept: false })
    }

    /// Leaves an empty record for the next run to remove.
    fn empty(&self) -> Sys<()> {
        file::truncate(&self.file, self.head.len() as u64)?;
        file::sync(&self.file)
    }

    fn note(&mut self, path: impl FnOnce() -> PathBuf, name: &OsStr, stat: &Stat) -> Option<usize> {
        let slot = self.take_slot()?;
        self.write(slot, path, name, stat.id()).then_some(slot)
    }

    fn take_slot(&mut self) -> Option<usize> {
        self.free.pop().or_else(|| {
            let one_more = (self.slots < format::MAX_SLOTS).then_some(self.slots);
            self.slots += usize::from(one_more.is_some());
            one_more
        })
    }

    /// Writes a slot. `false`: the write failed, and the slot is free again.
    fn write(
        &mut self,
        slot: usize,
        path: impl FnOnce() -> PathBuf,
        name: &OsStr,
        id: FileId,
    ) -> bool {
        let bytes = format::slot(&self.head, &path(), name, id);
        let written = bytes.is_some_and(|bytes| {
            transfer::write_all_at(&self.file, &bytes, format::offset(slot)).is_ok()
        });
        if !written {
            self.free.push(slot);
        }
        written
    }
}

impl Drop for Register {
    fn drop(&mut self) {
        self.end();
    }
}

impl Noted<'_> {
    /// Returns an entry that records nothing.
    pub(crate) const NONE: Noted<'static> = Noted(None);

    pub(crate) fn is_noted(&self) -> bool {
        self.0.is_some()
    }

    /// Records the identity of the directory that was announced. If that fails, the announcement stays.
    fn became(self, path: impl FnOnce() -> PathBuf, name: &OsStr, stat: &Stat) -> Self {
        if let Some((register, slot)) = self.0
            && let RegisterState::Made(record) = &mut *lock(&register.state)
            && let Some((directory, _)) = &register.place
            && is_on_filesystem(stat, record.device, directory)
            && stat.birth.is_some()
            && let Some(bytes) = format::slot(&record.head, &path(), name, stat.id())
        {
            let _ = transfer::write_all_at(&record.file, &bytes, format::offset(slot));
        }
        self
    }

    /// Hands over the slot, which stays recorded until [`Register::free`].
    pub(crate) fn into_slot(mut self) -> Option<usize> {
        self.0.take().map(|(_, slot)| slot)
    }

    /// Keeps the name for another run to remove.
    pub(crate) fn leave(mut self) {
        if let Some((register, _)) = self.0.take() {
            register.keep();
        }
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let Some((register, slot)) = self.0.take() {
            register.free(Some(slot));
        }
    }
}

impl<'a> Noting<'a> {
    /// Records that an empty directory is about to get a temporary name.
    pub(crate) fn intend(self, name: &OsStr) -> Noted<'a> {
        self.register.intend(self.path, name)
    }

    /// Records the identity of the directory that was announced.
    pub(crate) fn became(self, noted: Noted<'a>, name: &OsStr, stat: &Stat) -> Noted<'a> {
        noted.became(self.path, name, stat)
    }

    /// Records a file that has, or gets, a temporary name.
    pub(crate) fn note(self, name: &OsStr, stat: &Stat) -> Noted<'a> {
        self.register.note(self.path, name, stat)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
