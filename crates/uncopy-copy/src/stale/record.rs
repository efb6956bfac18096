//! The record of a run's temporary names: a file beside what the run copies to, locked as long as it
//! lives, made before the first name and removed after the last.
//!
//! Without a record the copy goes on, and what a kill leaves of it is never removed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Kind, format, temporary_name};
use uncopy_core::Errno;
use uncopy_os::file::{self, FileId, Stat};
use uncopy_os::{Sys, directory, name, transfer};

/// Who notes temporary names in and below one directory.
#[derive(Debug)]
pub(crate) struct Register {
    /// Where the record is made, and for which destination; `None`: nothing is noted.
    place: Option<(Arc<OwnedFd>, OsString)>,
    state: Mutex<RegisterState>,
}

#[derive(Debug)]
enum RegisterState {
    /// No name was made yet.
    Unneeded,
    Made(Record),
    /// No record can be made here, or it is over.
    None,
}

/// The file.
#[derive(Debug)]
struct Record {
    file: OwnedFd,
    name: OsString,
    own: FileId,
    device: (u32, u32),
    head: Vec<u8>,
    /// Slots that were given back.
    free: Vec<usize>,
    /// Slots that there have been.
    slots: usize,
    /// A name that it notes could not be removed.
    is_kept: bool,
}

/// A temporary name that is noted, if it could be. Its slot is free for another one afterwards.
#[derive(Debug)]
pub(crate) struct Noted<'a>(Option<(&'a Register, usize)>);

/// Where the temporary names of one directory are noted.
#[derive(Clone, Copy)]
pub(crate) struct Noting<'a> {
    pub(crate) register: &'a Register,
    /// The directory's path from the one of the register.
    pub(crate) path: &'a dyn Fn() -> PathBuf,
    /// Names that are there between two calls are noted too.
    pub(crate) brief: bool,
}

impl Register {
    /// One whose record is made in this directory, when the first name is.
    pub(crate) fn new(directory: Arc<OwnedFd>, destination: &OsStr) -> Register {
        let place = Some((directory, destination.to_owned()));
        Register { place, state: Mutex::new(RegisterState::Unneeded) }
    }

    /// One that notes nothing.
    pub(crate) const fn none() -> Register {
        Register { place: None, state: Mutex::new(RegisterState::None) }
    }

    /// Makes the record, before a name is made that cannot be noted sooner than it is there.
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

    /// Notes what has, or gets, a temporary name in the directory at this path from the one of the
    /// record.
    pub(crate) fn note(
        &self,
        path: impl FnOnce() -> PathBuf,
        name: &OsStr,
        stat: &Stat,
    ) -> Noted<'_> {
        let mut state = self.made();
        let RegisterState::Made(record) = &mut *state else { return Noted(None) };
        let slot = record.note(path, name, stat);
        Noted(slot.map(|slot| (self, slot)))
    }

    /// Notes that an empty directory is about to get this name, which shows more when it is there
    /// ([`Noted::became`]).
    pub(crate) fn intend(&self, path: impl FnOnce() -> PathBuf, name: &OsStr) -> Noted<'_> {
        let mut state = self.made();
        let RegisterState::Made(record) = &mut *state else { return Noted(None) };
        let slot = record.take_slot();
        Noted(
            slot.filter(|slot| record.write(*slot, path, name, format::INTENDED))
                .map(|slot| (self, slot)),
        )
    }

    /// Gives a slot back whose name is gone.
    pub(crate) fn free(&self, slot: Option<usize>) {
        if let (Some(slot), RegisterState::Made(record)) = (slot, &mut *lock(&self.state)) {
            record.free.push(slot);
        }
    }

    /// What it notes could not be removed: the record stays, for another run to go by.
    pub(crate) fn keep(&self) {
        if let RegisterState::Made(record) = &mut *lock(&self.state) {
            record.is_kept = true;
        }
    }

    /// Removes the record: all that it notes has its own name or is gone.
    pub(crate) fn end(&self) {
        let state = std::mem::replace(&mut *lock(&self.state), RegisterState::None);
        if let (RegisterState::Made(record), Some((directory, _))) = (state, &self.place)
            && !record.is_kept
        {
            // If it stays, the next run removes it.
            let _ = remove(directory, &record.name, record.own, record.device);
        }
    }

    /// Takes back what it notes, which is left to the caller. `false`: another run may find it and go by it,
    /// now or after a crash.
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

/// Removes a record, and nothing else that got its name. The caller has it open, so that no other file
/// has its number.
pub(super) fn remove(
    parent: impl AsFd,
    record: &OsStr,
    own: FileId,
    device: (u32, u32),
) -> Sys<()> {
    // Asked again: an error that passes is no reason to leave it there.
    let look = || directory::stat_name(&parent, record);
    let stat = look().or_else(|_| look())?;
    match own.inode == stat.inode && stat.device == device {
        true => name::unlink(parent, record),
        false => Err(Errno::ESTALE),
    }
}

impl Record {
    /// A locked record; `None`: here is no place for one.
    fn new(directory: &OwnedFd, destination: &OsStr) -> Option<Record> {
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

    /// Where files without a name cannot be made. One that is killed before it is whole leaves a file that
    /// nobody believes.
    fn named(directory: &OwnedFd, destination: &OsStr) -> Option<Record> {
        /// Whoever looks at the new name may have it locked.
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

    /// Locks a new file and writes its head. Without locks nobody could see that its run lives, and
    /// without a time of birth it shows nothing.
    fn begin(file: OwnedFd) -> Sys<Record> {
        file::try_lock(&file)?;
        let stat = file::stat(&file)?;
        if stat.birth.is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        let (own, device, head) = (stat.id(), stat.device, format::head(stat.id()));
        transfer::write_all_at(&file, &head, 0)?;
        let (name, free) = (OsString::new(), Vec::new());
        Ok(Record { file, name, own, device, head, free, slots: 0, is_kept: false })
    }

    /// Leaves a record that notes nothing, for the next run to remove.
    fn empty(&self) -> Sys<()> {
        file::truncate(&self.file, self.head.len() as u64)?;
        file::sync(&self.file)
    }

    fn note(&mut self, path: impl FnOnce() -> PathBuf, name: &OsStr, stat: &Stat) -> Option<usize> {
        // On another filesystem below it inode numbers mean something else.
        if stat.device != self.device || stat.birth.is_none() {
            return None;
        }
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

    /// Writes a slot; `false`: that failed, and it is free again.
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
    /// Nothing is noted.
    pub(crate) const NONE: Noted<'static> = Noted(None);

    pub(crate) fn is_noted(&self) -> bool {
        self.0.is_some()
    }

    /// Notes which directory the intended one became. If that cannot be noted the intention
    /// stays.
    fn became(self, path: impl FnOnce() -> PathBuf, name: &OsStr, stat: &Stat) -> Self {
        if let Some((register, slot)) = self.0
            && let RegisterState::Made(record) = &mut *lock(&register.state)
            && stat.device == record.device
            && stat.birth.is_some()
            && let Some(bytes) = format::slot(&record.head, &path(), name, stat.id())
        {
            let _ = transfer::write_all_at(&record.file, &bytes, format::offset(slot));
        }
        self
    }

    /// Hands over the slot, which stays noted until it is given back to [`Register::free`].
    pub(crate) fn into_slot(mut self) -> Option<usize> {
        self.0.take().map(|(_, slot)| slot)
    }

    /// The name stays, for another run to remove.
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
    /// Notes that an empty directory is about to get a temporary name.
    pub(crate) fn intend(self, name: &OsStr) -> Noted<'a> {
        self.register.intend(self.path, name)
    }

    /// Notes which directory the intended one became.
    pub(crate) fn became(self, noted: Noted<'a>, name: &OsStr, stat: &Stat) -> Noted<'a> {
        noted.became(self.path, name, stat)
    }

    /// Notes what has, or gets, a temporary name.
    pub(crate) fn note(self, name: &OsStr, stat: &Stat) -> Noted<'a> {
        self.register.note(self.path, name, stat)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
