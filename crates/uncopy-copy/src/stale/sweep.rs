//! Removes leftovers of killed runs that their records list. All other entries that look like leftovers
//! stay, and are reported.

#[cfg(feature = "trees")]
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
#[cfg(feature = "trees")]
use std::sync::PoisonError;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};

use super::format::{self, Entry};
use super::{Kind, is_on_filesystem, kind_of, prefix, record};
#[cfg(feature = "trees")]
use crate::journal::is_journalled;
use crate::remove;
use uncopy_core::Errno;
use uncopy_os::file::{self, FileId, Stat};
use uncopy_os::{Sys, directory, name, transfer};

/// Maximum number of directory entries examined for leftovers, so that replacing one file in a directory
/// of millions stays quick. Later runs find the rest.
const LOOK_AT_ENTRIES: usize = 1 << 16;

/// Entry that looks like a leftover without evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unproven {
    pub(crate) name: OsString,
    pub(crate) id: FileId,
}

/// Directory that is swept.
#[derive(Clone, Copy)]
struct Place<'a> {
    directory: BorrowedFd<'a>,
    /// Source of the copy. Entries that the source has too belong to the caller.
    source: Option<InSource<'a>>,
}

/// Looks up a name in a directory of the source, by its path from there. `ENOENT`: it has no such entry.
pub(crate) type InSource<'a> = &'a dyn Fn(&OsStr, &OsStr) -> Sys<()>;

/// Removes what earlier runs left beside a destination that has its new file.
pub(crate) trait Sweeper: Sync {
    /// Removes recorded leftovers, and returns those without evidence.
    fn remove_leftovers(&self, directory: BorrowedFd<'_>, destination: &OsStr) -> Vec<Unproven>;
}

/// Lists the directory each time, for a single copy.
pub(crate) struct SweepAnew;

impl Sweeper for SweepAnew {
    fn remove_leftovers(&self, directory: BorrowedFd<'_>, destination: &OsStr) -> Vec<Unproven> {
        remove_leftovers(directory, destination)
    }
}

/// Device and inode of a directory.
type DirectoryId = ((u32, u32), u64);

/// Temporary names in the directories that a job replaces files in, each listed once: a directory of many
/// files would be listed for each of them.
#[cfg(feature = "trees")]
#[derive(Debug, Default)]
pub(crate) struct TemporaryNames {
    listed: Mutex<HashMap<DirectoryId, Vec<OsString>>>,
}

#[cfg(feature = "trees")]
impl Sweeper for TemporaryNames {
    fn remove_leftovers(&self, directory: BorrowedFd<'_>, destination: &OsStr) -> Vec<Unproven> {
        let Ok(stat) = file::stat(directory) else { return Vec::new() };
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let names = listed.entry((stat.device, stat.inode)).or_insert_with(|| {
            name::names_with_prefix(directory, super::BEGIN, LOOK_AT_ENTRIES).unwrap_or_default()
        });
        let own = names_for(destination, names);
        drop(listed);
        go_through(Place { directory, source: None }, own)
    }
}

/// Lists a directory at most once a second, for many single copies in a row: each would list a directory of many files.
pub(crate) struct SweepSeldom;

/// Temporary names in the directory that was listed last by [`SweepSeldom`].
struct Listed {
    directory: DirectoryId,
    at: Instant,
    names: Vec<OsString>,
}

impl Listed {
    /// Whether its names stand for those that a directory has now.
    fn is_recent(&self, directory: DirectoryId, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.at);
        self.directory == directory && age < BETWEEN_LISTINGS
    }
}

/// Time for which [`SweepSeldom`] does not list a directory again.
const BETWEEN_LISTINGS: Duration = Duration::from_secs(1);

impl Sweeper for SweepSeldom {
    fn remove_leftovers(&self, directory: BorrowedFd<'_>, destination: &OsStr) -> Vec<Unproven> {
        static LAST: Mutex<Option<Listed>> = Mutex::new(None);
        let Ok(stat) = file::stat(directory) else { return Vec::new() };
        let id = (stat.device, stat.inode);
        // Another thread may hold it for ever: one that was there when this process was forked.
        let mut last = match LAST.try_lock() {
            Ok(last) => last,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return remove_leftovers(directory, destination),
        };
        let known = last.take().filter(|listed| listed.is_recent(id, Instant::now()));
        let listed = last.insert(known.unwrap_or_else(|| {
            let names = name::names_with_prefix(directory, super::BEGIN, LOOK_AT_ENTRIES);
            Listed { directory: id, at: Instant::now(), names: names.unwrap_or_default() }
        }));
        let own = names_for(destination, &listed.names);
        drop(last);
        go_through(Place { directory, source: None }, own)
    }
}

/// Returns those of the names that were made for a destination.
fn names_for(destination: &OsStr, names: &[OsString]) -> Vec<OsString> {
    let prefix = prefix(destination);
    let is_own = |name: &&OsString| name.as_bytes().starts_with(prefix.as_bytes());
    names.iter().filter(is_own).cloned().collect()
}

/// Removes recorded leftovers of earlier runs to the same destination, unless they are locked; reports
/// entries that look like leftovers.
pub(crate) fn remove_leftovers(directory: BorrowedFd<'_>, destination: &OsStr) -> Vec<Unproven> {
    let prefix = prefix(destination);
    let names = name::names_with_prefix(directory, prefix.as_bytes(), LOOK_AT_ENTRIES);
    go_through(Place { directory, source: None }, names.unwrap_or_default())
}

/// Does the same for all names in a directory, whatever they were copied to, except for names that the
/// source has too. A tree does this once per directory, not once per file.
pub(crate) fn sweep(directory: BorrowedFd<'_>, source: InSource<'_>) -> Vec<Unproven> {
    let source = Some(source);
    let names = name::names_with_prefix(directory, super::BEGIN, usize::MAX);
    go_through(Place { directory, source }, names.unwrap_or_default())
}

/// Does the same in and below a directory for the entries of one record; reports nothing.
pub(crate) fn sweep_proven(directory: BorrowedFd<'_>, source: InSource<'_>) {
    let place = Place { directory, source: Some(source) };
    let names = name::names_with_prefix(directory, super::BEGIN, LOOK_AT_ENTRIES);
    for name in names.unwrap_or_default() {
        if kind_of(&name) == Some(Kind::Record) {
            go_by_record(place, &name);
        }
    }
}

/// Entry that no run is working on. While this value lives no run can start on it: the lock is taken.
#[derive(Debug)]
pub(crate) struct Claim {
    _lock: Option<OwnedFd>,
}

/// Claims an entry. `None`: a run may be working on it, because it is locked or its state is unknown.
pub(crate) fn claim(directory: BorrowedFd<'_>, entry: &OsStr) -> Option<Claim> {
    let looked_up =
        super::is_temporary(entry).then(|| directory::stat_name(directory, entry).ok()).flatten();
    match looked_up.map_or(Lock::None, |stat| lock(directory, entry, &stat)) {
        Lock::Free(locked) => Some(Claim { _lock: Some(locked) }),
        Lock::None => Some(Claim { _lock: None }),
        Lock::Held | Lock::Unknown => None,
    }
}

/// Errors are ignored: the copy itself is done, and the next run tries again.
fn go_through(place: Place<'_>, mut names: Vec<OsString>) -> Vec<Unproven> {
    names.retain(|name| match kind_of(name) {
        Some(Kind::Record) => go_by_record(place, name) == Believed::No,
        kind => kind.is_some(),
    });
    names.into_iter().filter_map(|name| unproven(place, name)).collect()
}

fn unproven(place: Place<'_>, name: OsString) -> Option<Unproven> {
    if place.is_in_source(OsStr::new(""), &name) {
        return None;
    }
    let stat = directory::stat_name(place.directory, &name).ok()?;
    let me = file::effective_uid();
    // An entry of another user is left to that user.
    let is_named =
        (stat.uid == me || me == 0) && !matches!(lock(place.directory, &name, &stat), Lock::Held);
    // A run that lives may have put it in place meanwhile, and let go of its lock.
    let is_there =
        || directory::stat_name(place.directory, &name).is_ok_and(|now| now.id() == stat.id());
    (is_named && is_there()).then_some(Unproven { id: stat.id(), name })
}

/// State of an entry's lock.
#[derive(Debug)]
enum Lock {
    Held,
    /// Free: this descriptor now holds it.
    Free(OwnedFd),
    /// A kind that is never locked.
    None,
    Unknown,
}

fn lock(directory: BorrowedFd<'_>, entry: &OsStr, stat: &Stat) -> Lock {
    if !matches!(stat.file_type(), FileType::RegularFile | FileType::Directory) {
        return Lock::None;
    }
    let locked = name::open_existing(directory, entry, OFlags::RDONLY)
        .and_then(|file| file::try_lock(&file).map(|()| file));
    match locked {
        Ok(locked) => Lock::Free(locked),
        Err(Errno::EAGAIN) => Lock::Held,
        Err(_) => Lock::Unknown,
    }
}

impl Place<'_> {
    /// Whether the source has this entry; also true if that is unknown.
    fn is_in_source(&self, path: &OsStr, name: &OsStr) -> bool {
        let Some(source) = self.source else { return false };
        !matches!(source(path, name), Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP))
    }
}

/// Looks up a name in a directory of this machine, by its path from `source`.
#[cfg(feature = "trees")]
pub(crate) fn look_up(source: BorrowedFd<'_>, path: &OsStr, name: &OsStr) -> Sys<()> {
    below(source, path).and_then(|at| directory::stat_name(at, name)).map(|_| ())
}

/// Opens a directory by its path, without symbolic links.
fn below(directory: BorrowedFd<'_>, path: &OsStr) -> Sys<OwnedFd> {
    let names: Vec<&OsStr> = std::path::Path::new(path).iter().collect();
    directory::open_beneath(directory, &names, true)
}

/// Result of examining a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Believed {
    Yes,
    No,
}

/// Removes the files that a record lists, and then the record; does nothing if its run lives, or if the
/// source has an entry of that name.
fn go_by_record(place: Place<'_>, record: &OsStr) -> Believed {
    if place.is_in_source(OsStr::new(""), record) {
        return Believed::Yes;
    }
    let (file, stat, entries) = match open_record(place.directory, record) {
        Ok(opened) => opened,
        Err(Errno::EAGAIN | Errno::ENOENT) => return Believed::Yes,
        Err(_) => return Believed::No,
    };
    let mut is_done = true;
    for entry in &entries {
        is_done &= match entry.id == format::INTENDED {
            true => remove_intended(place, entry, &stat).is_ok(),
            false => remove_entry(place, entry, stat.device).is_ok(),
        };
    }
    if is_done {
        let _ = record::remove(place.directory, record, stat.id(), stat.device);
    }
    // It was locked until now.
    drop(file);
    Believed::Yes
}

/// Opens and locks a record of an ended run that only this user can have written.
///
/// # Errors
/// `EAGAIN`: its run lives, or another run is processing it.
fn open_record(directory: BorrowedFd<'_>, record: &OsStr) -> Sys<(OwnedFd, Stat, Vec<Entry>)> {
    if directory::stat_name(directory, record)?.file_type() != FileType::RegularFile {
        return Err(Errno::EINVAL);
    }
    let file = name::open_existing(directory, record, OFlags::RDONLY)?;
    file::try_lock(&file)?;
    let stat = file::stat(&file)?;
    if stat.links == 0 {
        return Err(Errno::ENOENT);
    }
    let is_own = stat.file_type() == FileType::RegularFile
        && stat.uid == file::effective_uid()
        && stat.permissions() & 0o077 == 0
        && stat.links == 1
        && stat.size <= format::MAX_BYTES as u64;
    if !is_own {
        return Err(Errno::EINVAL);
    }
    let mut bytes = vec![0; stat.size as usize];
    let read = transfer::read_all_at(&file, &mut bytes, 0)?;
    let (own, entries) = format::parse(&bytes[..read]).ok_or(Errno::EINVAL)?;
    match own.is_surely(&stat.id()) {
        true => Ok((file, stat, entries)),
        false => Err(Errno::ESTALE),
    }
}

/// Removes an empty directory that a run announced under a name of 128 random bits, if that run can have
/// created it: owned by this user, closed to others, empty, and not older than the record. It contains
/// nothing that could be lost.
fn remove_intended(place: Place<'_>, entry: &Entry, record: &Stat) -> Sys<()> {
    let Ok(at) = below(place.directory, entry.path.as_os_str()) else { return Ok(()) };
    let stat = match directory::stat_name(&at, &entry.name) {
        Ok(stat) => stat,
        Err(errno) => return gone(errno),
    };
    let can_be_it = stat.file_type() == FileType::Directory
        && stat.uid == file::effective_uid()
        && stat.permissions() & 0o077 == 0
        && is_on_filesystem(&stat, record.device, place.directory)
        && stat.birth >= record.birth
        && stat.birth.is_some();
    if !can_be_it || place.is_in_source(entry.path.as_os_str(), &entry.name) {
        return Ok(());
    }
    match directory::remove(&at, &entry.name) {
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
        other => other.or_else(gone),
    }
}

/// A missing file counts as removed.
fn gone(errno: Errno) -> Sys<()> {
    match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV => Ok(()),
        errno => Err(errno),
    }
}

/// Removes the file behind a recorded name, if its identity matches. `Ok`: the entry is no longer
/// needed.
fn remove_entry(place: Place<'_>, entry: &Entry, device: (u32, u32)) -> Sys<()> {
    let at = match below(place.directory, entry.path.as_os_str()) {
        Ok(at) => at,
        Err(errno) => return gone(errno),
    };
    let stat = match directory::stat_name(&at, &entry.name) {
        Ok(stat) => stat,
        Err(errno) => return gone(errno),
    };
    let is_it = |stat: &Stat| {
        entry.id.is_surely(&stat.id()) && is_on_filesystem(stat, device, place.directory)
    };
    // A file that the source has too belongs to the caller.
    if !is_it(&stat) || place.is_in_source(entry.path.as_os_str(), &entry.name) {
        return Ok(());
    }
    if stat.file_type() != FileType::Directory {
        return name::unlink(&at, &entry.name).or_else(gone);
    }
    // It belongs to a run that can be resumed, or was left to the caller, and its record has outlived
    // that.
    if let Some(journal) = super::journal_beside(&entry.name)
        && is_journalled(at.as_fd(), &journal, &entry.name, entry.id)?
    {
        return Ok(());
    }
    // Through its descriptor: the name may stand for another directory by now.
    let handle = directory::open_child_path(&at, &entry.name)?;
    let stat = file::stat(&handle)?;
    if !is_it(&stat) {
        return Ok(());
    }
    if stat.permissions() & 0o700 != 0o700 {
        directory::set_permissions_of_handle(&handle, 0o700)?;
    }
    let root = name::open_directory_for_reading(&handle)?;
    file::try_lock(&root)?;
    remove::opened(&at, &entry.name, &root)
}

/// Without jobs this build cannot read journals: files that one may name stay, with their entry.
#[cfg(not(feature = "trees"))]
fn is_journalled(_: BorrowedFd<'_>, _: &OsStr, _: &OsStr, _: FileId) -> Sys<bool> {
    Err(Errno::EOPNOTSUPP)
}

#[cfg(all(test, feature = "trees"))]
mod tests;
