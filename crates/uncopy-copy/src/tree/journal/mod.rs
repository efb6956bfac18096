//! Keeps the progress of a job that may be killed, in a journal: an append-only file in the
//! destination's directory, made of frames with checksums.
//!
//! A frame is written when the data of all files that it names has been flushed (`syncfs(2)`), or of
//! the chunks of a large file that it names (`fdatasync(2)`). A file is known by a digest of its path,
//! of its source as it was and of its copy as it became: what has changed since on either side is in
//! no journal. Device numbers are no part of that, since another boot may give others. A frame that
//! a crash cut off is dropped, and with it the word that its files are done; a journal that is damaged
//! elsewhere is not trusted at all.

mod done;
mod part;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

pub(super) use crate::journal::format::{Begun, Built, Part, Short, Unusable};
pub(super) use part::{KeptPart, is_ended, sweep, sweep_directory};

use crate::journal::format::{self, JournalVisitor};
use crate::journal::{is_own, look_into, parse};
use done::Done;

use crate::stale;
use crate::tree::partial::{self, Flushed};
use uncopy_core::Errno;
use uncopy_os::file::{self, FileId, Stat, Timestamp};
use uncopy_os::{Sys, name, transfer};

/// Files are flushed and noted in batches of this number, or of this many bytes, or this old. Where
/// flushing takes longer than copying, batches become larger: each flush has its price, whatever there
/// is to flush.
const BATCH_FILES: usize = 1024;
const MAX_BATCH_FILES: usize = 16 * BATCH_FILES;
const BATCH_BYTES: u64 = 256 << 20;
const BATCH_AGE: Duration = Duration::from_secs(5);

/// Returns the digest of a finished file. The copy's ctime is left out where further names of it
/// change it.
pub(super) fn done(path: &Path, source: &Stat, copy: &Stat) -> Short {
    let mut hasher = blake3::Hasher::new();
    hasher.update(path.as_os_str().as_bytes());
    hasher.update(&[0]);
    update_state(&mut hasher, source, true);
    update_state(&mut hasher, copy, source.links == 1);
    format::short(hasher.finalize())
}

/// Returns the digest of a source as it is now.
pub(super) fn state(source: &Stat) -> Short {
    let mut hasher = blake3::Hasher::new();
    update_state(&mut hasher, source, true);
    format::short(hasher.finalize())
}

fn update_state(hasher: &mut blake3::Hasher, stat: &Stat, with_changed: bool) {
    let mut number = |value: u64| {
        hasher.update(&value.to_le_bytes());
    };
    number(stat.inode);
    number(stat.size);
    number(stat.modified.seconds.cast_unsigned());
    number(stat.modified.nanoseconds.into());
    if with_changed {
        number(stat.changed.seconds.cast_unsigned());
        number(stat.changed.nanoseconds.into());
    }
}

/// The journal of one root.
#[derive(Debug)]
pub(super) struct Journal {
    file: OwnedFd,
    name: OsString,
    own: FileId,
    /// The run that made it, unless this one did.
    earlier: Option<EarlierRun>,
    /// Whether it has its name, which it gets when it is begun.
    is_named: bool,
    begun: Option<Begun>,
    /// Files that an earlier run finished.
    done: Done,
    /// Files that an earlier run began.
    parts: Mutex<HashMap<Short, Part>>,
    /// Whether an incomplete frame was cut off at its end.
    pub(super) was_cut: bool,
    /// Contents of the next frame.
    batch: Mutex<Batch>,
    /// Number of files in it.
    batch_files: AtomicUsize,
    end: Mutex<End>,
}

/// A run that began a journal and ended early.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlierRun {
    device: (u32, u32),
    /// When the journal was made, if its filesystem has times of birth.
    since: Option<Timestamp>,
}

impl EarlierRun {
    /// Whether this run may have made, linked or renamed the entry: whatever it did changed the ctime, by the clock of
    /// the filesystem.
    pub(super) fn may_have_placed(&self, entry: &Stat) -> bool {
        entry.device != self.device || self.since.is_none_or(|since| entry.changed >= since)
    }

    /// Whether this run, or somebody since, made the entry: it was born after the journal.
    pub(super) fn may_have_made(&self, entry: &Stat) -> bool {
        let born = entry.birth.zip(self.since);
        entry.device == self.device && born.is_some_and(|(birth, since)| birth >= since)
    }
}

/// Offset of the next frame.
#[derive(Debug)]
struct End {
    offset: u64,
    /// Error after which nothing is noted any more: lost data may have been in any batch.
    failed: Option<Errno>,
}

/// Maximum number of filesystems kept open from batch to batch, so that none of their errors is missed:
/// `syncfs(2)` reports errors since its descriptor was opened.
const MAX_PLACES: usize = 16;

/// Files that are done and not flushed.
#[derive(Debug, Default)]
struct Batch {
    done: Vec<u8>,
    /// The keys of those that were large.
    ended: Vec<u8>,
    /// Those with further names, for [`format::linked_frame`].
    linked: Vec<u8>,
    bytes: u64,
    since: Option<Instant>,
    /// One directory on each filesystem that they lie on, with its device.
    places: Vec<((u32, u32), Arc<OwnedFd>)>,
}

impl Batch {
    fn reach(&mut self, device: (u32, u32), directory: BorrowedFd<'_>) -> Sys<()> {
        if !self.places.iter().any(|(known, _)| *known == device) {
            // Opened again: an O_PATH handle cannot be flushed.
            let place = name::open_directory_for_reading(directory)?;
            self.places.push((device, Arc::new(place)));
        }
        Ok(())
    }

    /// Takes out all files, and keeps the filesystems.
    fn take(&mut self) -> Batch {
        let places = self.places.iter().take(MAX_PLACES).cloned().collect();
        std::mem::replace(self, Batch { places, ..Batch::default() })
    }
}

/// A file that is done.
pub(super) struct Finished<'a> {
    pub(super) path: &'a Path,
    pub(super) source: &'a Stat,
    pub(super) copy: &'a Stat,
    pub(super) bytes: u64,
    /// The directory that the copy lies in.
    pub(super) directory: BorrowedFd<'a>,
}

/// Reason why a journal cannot be opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    Held,
    Unusable(Unusable),
    System(Errno),
}

impl From<Errno> for NotOpened {
    fn from(errno: Errno) -> NotOpened {
        NotOpened::System(errno)
    }
}

impl Journal {
    /// Opens and locks the journal in a destination's directory, or makes one, which must be
    /// [begun](Journal::begin).
    pub(super) fn open(
        directory: BorrowedFd<'_>,
        destination: &OsStr,
    ) -> Result<Journal, NotOpened> {
        let name = stale::journal_name(destination);
        let (file, is_new, is_named) = match name::open_existing(directory, &name, OFlags::RDWR) {
            Err(Errno::ENOENT) => make(directory, &name)?,
            other => (other?, false, true),
        };
        let stat = file::stat(&file)?;
        if !is_own(&stat) {
            return Err(NotOpened::Unusable(Unusable::Foreign));
        }
        // Any other answer: a filesystem without locks.
        if file::try_lock(&file) == Err(Errno::EAGAIN) {
            return Err(NotOpened::Held);
        }
        // The run that held the lock may have extended or removed it.
        let stat = file::stat(&file)?;
        if stat.links == 0 && is_named {
            return Err(NotOpened::Held);
        }
        let mut done = Done::collect(directory);
        let contents = parse(&file, stat.size, &mut done)?.map_err(NotOpened::Unusable)?;
        // The file may be the user's own, or the copy of a journal.
        if !is_new && contents.own != Some(stat.id()) {
            return Err(NotOpened::Unusable(Unusable::Copied));
        }
        let was_cut = contents.whole_bytes < stat.size;
        file::truncate(&file, contents.whole_bytes)?;
        Ok(Journal {
            file,
            name,
            own: stat.id(),
            earlier: (!is_new).then_some(EarlierRun { device: stat.device, since: stat.birth }),
            is_named,
            begun: contents.begun,
            done: done.end(),
            parts: Mutex::new(contents.parts),
            was_cut,
            batch: Mutex::default(),
            batch_files: AtomicUsize::new(BATCH_FILES),
            end: Mutex::new(End { offset: contents.whole_bytes, failed: None }),
        })
    }

    /// Returns the job that the journal in a destination's directory belongs to, if it is readable.
    /// Nothing is changed, and another run may hold it.
    pub(super) fn peek(directory: BorrowedFd<'_>, destination: &OsStr) -> Option<Begun> {
        look_into(directory, &stale::journal_name(destination)).ok()??.begun
    }

    /// Returns the tree that a run left to the caller, as the journal names it, and the journal
    /// itself.
    pub(super) fn kept(directory: BorrowedFd<'_>, destination: &OsStr) -> Option<(Built, FileId)> {
        let contents = look_into(directory, &stale::journal_name(destination)).ok()??;
        let built = contents.begun.filter(|_| contents.is_kept)?.aside?;
        Some((built, contents.own?))
    }

    /// Returns the job that it belongs to, if it was begun.
    pub(super) fn begun(&self) -> Option<&Begun> {
        self.begun.as_ref()
    }

    /// Starts the journal again for this job, and gives it its name. `EEXIST`: another run was
    /// quicker.
    pub(super) fn begin(&mut self, begun: Begun, directory: BorrowedFd<'_>) -> Sys<()> {
        // To be flushed, it has to be readable: found out before the journal has a name.
        let readable = name::open_directory_for_reading(directory)?;
        let bytes = format::begin_frame(self.own, &begun);
        transfer::write_all_at(&self.file, &bytes, 0)?;
        file::truncate(&self.file, bytes.len() as u64)?;
        file::sync(&self.file)?;
        if !self.is_named {
            name::link_unnamed(&self.file, directory, &self.name)?;
            self.is_named = true;
        }
        file::sync(&readable)?;
        self.done = Done::default();
        lock(&self.parts).clear();
        self.begun = Some(begun);
        self.end = Mutex::new(End { offset: bytes.len() as u64, failed: None });
        Ok(())
    }

    /// Whether an earlier run finished this file.
    pub(super) fn has(&self, done: &Short) -> bool {
        self.done.contains(done)
    }

    /// Whether the journal records anything that can be resumed.
    pub(super) fn is_continued(&self) -> bool {
        !self.done.is_empty()
    }

    /// Returns the run that made the journal, which may have placed entries without noting them, unless this one did.
    pub(super) fn earlier(&self) -> Option<EarlierRun> {
        self.earlier
    }

    /// Reports the files with several names that an earlier run copied: inode of the source, and
    /// path.
    pub(super) fn links(&self, visit: &mut dyn FnMut(u64, &OsStr)) -> Sys<()> {
        if self.is_continued() {
            let _ = parse(&self.file, lock(&self.end).offset, &mut Links(visit))?;
        }
        Ok(())
    }

    /// Returns the part that an earlier run made of a file whose source is unchanged.
    fn part(&self, path: &OsStr, source: &Stat) -> Option<Part> {
        let parts = lock(&self.parts);
        let part = parts.get(&format::part_key(path))?;
        part.is_of(state(source), partial::chunk_bytes(source.size)).then(|| part.clone())
    }

    /// Takes out the part of a file that an earlier run began.
    pub(super) fn take_part(&self, path: &OsStr) -> Option<Part> {
        lock(&self.parts).remove(&format::part_key(path))
    }

    /// Takes out the parts that earlier runs began in a directory and that were not used.
    fn take_parts_in(&self, directory: impl FnOnce() -> PathBuf) -> Vec<Part> {
        let mut parts = lock(&self.parts);
        if parts.is_empty() {
            return Vec::new();
        }
        let directory = directory();
        let lies_in = |part: &Part| Path::new(&part.path).parent() == Some(&directory);
        parts.extract_if(|_, part| lies_in(part)).map(|(_, part)| part).collect()
    }

    /// Takes out all parts that earlier runs began and that were not used.
    fn take_parts(&self) -> Vec<Part> {
        lock(&self.parts).drain().map(|(_, part)| part).collect()
    }

    /// Notes a finished file, and from time to time flushes the noted files. Other workers can note
    /// files during the flush.
    pub(super) fn add(&self, finished: &Finished<'_>) -> Sys<()> {
        let Finished { path, source, copy, bytes, directory } = finished;
        let mut batch = lock(&self.batch);
        batch.reach(copy.device, *directory)?;
        batch.done.extend(done(path, source, copy));
        if *bytes >= partial::MIN_BYTES {
            batch.ended.extend(format::part_key(path.as_os_str()));
        }
        // A path longer than half a frame is not noted, which costs at most one more copy.
        if source.links > 1 && path.as_os_str().len() < format::MAX_BYTES / 2 {
            format::push_link(&mut batch.linked, source.inode, path.as_os_str());
        }
        batch.bytes += bytes;
        let since = *batch.since.get_or_insert_with(Instant::now);
        let full = batch.done.len()
            >= self.batch_files.load(Ordering::Relaxed) * size_of::<Short>()
            || batch.bytes >= BATCH_BYTES
            || batch.linked.len() >= format::MAX_BYTES / 2
            || since.elapsed() >= BATCH_AGE;
        let full = full.then(|| batch.take());
        drop(batch);
        full.map_or(Ok(()), |batch| self.write(&batch))
    }

    /// Registers a directory on a device that files will be written to.
    pub(super) fn reach(&self, device: (u32, u32), directory: BorrowedFd<'_>) -> Sys<()> {
        lock(&self.batch).reach(device, directory)
    }

    /// Flushes the files, then notes them.
    pub(super) fn flush(&self) -> Sys<()> {
        let batch = lock(&self.batch).take();
        self.write(&batch)
    }

    /// Does the same where copying the files again would take long.
    pub(super) fn catch_up(&self) -> Sys<()> {
        let is_behind = lock(&self.batch).bytes > BATCH_BYTES / 16;
        if is_behind { self.flush() } else { Ok(()) }
    }

    fn write(&self, batch: &Batch) -> Sys<()> {
        if batch.done.is_empty() {
            return Ok(());
        }
        let mut bytes = format::done_frame(&batch.done);
        if !batch.ended.is_empty() {
            bytes.extend(format::ended_frame(&batch.ended));
        }
        if !batch.linked.is_empty() {
            bytes.extend(format::linked_frame(&batch.linked));
        }
        let filled = batch.since.map(|since| since.elapsed()).unwrap_or_default();
        let begin = Instant::now();
        let flush = || batch.places.iter().try_for_each(|(_, place)| file::sync_filesystem(place));
        self.append(&bytes, flush, || file::sync_data(&self.file))?;
        if begin.elapsed() > filled {
            let more = |files| (files < MAX_BATCH_FILES).then_some(files * 2);
            let _ = self.batch_files.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
        Ok(())
    }

    /// Notes chunks of a part, from number `first` on. A frame of what is not flushed reaches the disk with the next
    /// one of what is.
    fn add_chunks(&self, part: &Part, first: u64, flushed: Flushed) -> Sys<()> {
        let frame = format::chunks_frame(part, first);
        // A path this long cannot be noted: the file is copied from the beginning then.
        let fits = frame.len() <= format::MAX_BYTES;
        match flushed {
            _ if !fits => Ok(()),
            Flushed::No => self.append(&frame, || Ok(()), || Ok(())),
            Flushed::Yes => self.append(&frame, || Ok(()), || file::sync_data(&self.file)),
        }
    }

    /// Appends a frame when the data that it describes is flushed.
    fn append(
        &self,
        bytes: &[u8],
        flush: impl FnOnce() -> Sys<()>,
        sync: impl FnOnce() -> Sys<()>,
    ) -> Sys<()> {
        let mut end = lock(&self.end);
        if let Some(errno) = end.failed {
            return Err(errno);
        }
        let appended = flush()
            .and_then(|()| transfer::write_all_at(&self.file, bytes, end.offset))
            .and_then(|()| sync());
        match appended {
            Ok(()) => end.offset += bytes.len() as u64,
            Err(errno) => end.failed = Some(errno),
        }
        appended
    }

    /// Notes that the tree being built is left to the caller. The frame names no file, and holds
    /// regardless of errors of flushing.
    pub(super) fn keep(&self) -> Sys<()> {
        let mut end = lock(&self.end);
        file::truncate(&self.file, end.offset)?;
        let bytes = format::kept_frame();
        transfer::write_all_at(&self.file, &bytes, end.offset)?;
        file::sync_data(&self.file)?;
        end.offset += bytes.len() as u64;
        Ok(())
    }

    /// Reserves space for a number of files and their frames.
    pub(super) fn reserve(&self, files: u64) -> Sys<()> {
        let offset = lock(&self.end).offset;
        file::reserve(&self.file, offset, Journal::bytes_for(files))
    }

    /// Size of a [`Journal::reserve`]. A batch has three frames at most.
    pub(super) fn bytes_for(files: u64) -> u64 {
        let batches = files / BATCH_FILES as u64 + 2;
        files * size_of::<Short>() as u64 + batches * 3 * format::FRAME_BYTES
    }

    /// Returns its name.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the identity of its file.
    pub(super) fn own(&self) -> FileId {
        self.own
    }

    /// Removes a journal whose job is done, unless another run uses it. If that fails, a later run
    /// finds that all is done.
    pub(super) fn remove(directory: BorrowedFd<'_>, name: &OsStr, own: FileId) {
        let Ok(file) = name::open_existing(directory, name, OFlags::RDWR) else { return };
        // The copied file may have the journal's name. A time of birth that was not known when the journal was
        // made (a `statx(2)` that failed once) shows nothing now.
        let is_it = file::stat(&file).is_ok_and(|stat| {
            stat.inode == own.inode && (own.birth.is_none() || stat.birth == own.birth)
        });
        if is_it && file::try_lock(&file) != Err(Errno::EAGAIN) {
            let _ = name::unlink(directory, name);
        }
    }
}

/// Makes a new file for a journal, and returns whether it has its name. If the filesystem supports
/// unlinked files, a kill leaves no empty journal, which could not be assigned to any job.
fn make(directory: BorrowedFd<'_>, name: &OsStr) -> Sys<(OwnedFd, bool, bool)> {
    stale::check_directory(directory)?;
    if name::can_link_unnamed() {
        match name::create_unnamed(directory, 0o600) {
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {}
            other => return Ok((stale::for_its_owner(other?)?, true, false)),
        }
    }
    let file = name::create_new(directory, name, 0o600)?;
    Ok((stale::for_its_owner(file)?, true, true))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Visitor for files with several names alone.
struct Links<'a>(&'a mut dyn FnMut(u64, &OsStr));

impl JournalVisitor for Links<'_> {
    fn linked(&mut self, inode: u64, path: &OsStr) {
        (self.0)(inode, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat() -> Stat {
        let time = |seconds| Timestamp { seconds, nanoseconds: 7 };
        Stat {
            device: (8, 1),
            inode: 11,
            mode: 0o100_644,
            links: 1,
            uid: 0,
            gid: 0,
            size: 4096,
            blocks: 8,
            special: (0, 0),
            accessed: time(1),
            modified: time(2),
            changed: time(3),
            birth: Some(time(0)),
            direct: None,
            mount_root: false,
            may_be_dax: false,
            is_flagged: false,
        }
    }

    type Change = (&'static str, fn(&mut Stat), bool);

    /// Cases: a change of a file, and whether the file counts as changed.
    const CHANGES: [Change; 12] = [
        ("size", |stat| stat.size += 1, true),
        ("inode", |stat| stat.inode += 1, true),
        ("mtime, seconds", |stat| stat.modified.seconds -= 1, true),
        ("mtime, nanoseconds", |stat| stat.modified.nanoseconds += 1, true),
        ("ctime, seconds", |stat| stat.changed.seconds += 1, true),
        ("ctime, nanoseconds", |stat| stat.changed.nanoseconds += 1, true),
        ("mtime before 1970", |stat| stat.modified.seconds = -2, true),
        // Reading is no change, another boot may number devices differently, and the other changes
        // move ctime.
        ("atime", |stat| stat.accessed.seconds += 1, false),
        ("device", |stat| stat.device = (8, 2), false),
        ("blocks", |stat| stat.blocks = 0, false),
        ("mode", |stat| stat.mode = 0o100_600, false),
        ("owner", |stat| stat.uid = 1, false),
    ];

    #[test]
    fn a_file_is_done_as_long_as_neither_side_has_changed() {
        let path = Path::new("a/b");
        let before = done(path, &stat(), &stat());
        assert_eq!(before, done(path, &stat(), &stat()));
        assert_ne!(before, done(Path::new("a/c"), &stat(), &stat()));
        for (what, change, matters) in CHANGES {
            let mut changed = stat();
            change(&mut changed);
            assert_eq!(done(path, &changed, &stat()) != before, matters, "{what} of the source");
            assert_eq!(done(path, &stat(), &changed) != before, matters, "{what} of the copy");
            assert_eq!(state(&changed) != state(&stat()), matters, "{what} of a part's source");
        }
    }

    #[test]
    fn an_entry_of_another_clock_or_of_later_may_be_of_the_earlier_run() {
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        for (device, since, expected) in [
            ((8, 1), Some(time(3, 8)), false),
            ((8, 1), Some(time(3, 7)), true),
            ((8, 1), Some(time(2, 9)), true),
            ((8, 1), None, true),
            ((8, 2), Some(time(3, 8)), true),
        ] {
            let earlier = EarlierRun { device, since };
            assert_eq!(earlier.may_have_placed(&stat()), expected, "{earlier:?}");
        }
    }

    #[test]
    fn what_was_born_after_the_journal_may_be_made_by_the_earlier_run() {
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        for (device, birth, since, expected) in [
            ((8, 1), Some(time(3, 6)), Some(time(3, 7)), false),
            ((8, 1), Some(time(3, 7)), Some(time(3, 7)), true),
            ((8, 1), Some(time(4, 0)), Some(time(3, 7)), true),
            ((8, 1), None, Some(time(3, 7)), false),
            ((8, 1), Some(time(3, 7)), None, false),
            ((8, 2), Some(time(3, 7)), Some(time(3, 7)), false),
        ] {
            let earlier = EarlierRun { device, since };
            let entry = Stat { birth, ..stat() };
            assert_eq!(earlier.may_have_made(&entry), expected, "{earlier:?} {birth:?}");
        }
    }

    /// Further names change the ctime of a copy whose data is what it was.
    #[test]
    fn names_that_a_copy_gets_do_not_count() {
        let source = Stat { links: 3, ..stat() };
        let before = done(Path::new("a"), &source, &stat());
        for (what, change, matters) in CHANGES {
            let mut copy = stat();
            change(&mut copy);
            let matters = matters && !what.starts_with("ctime");
            assert_eq!(done(Path::new("a"), &source, &copy) != before, matters, "{what}");
        }
    }
}
