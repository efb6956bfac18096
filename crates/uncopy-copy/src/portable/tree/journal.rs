//! Keeps which files of a tree are done in a file beside its destination, so that another run goes on where a killed one
//! ended.
//!
//! The frames are those of [`crate::journal::format`]. Each file is flushed before the frame that names it is written: the
//! systems here have no call that flushes a filesystem. A file is known by a digest of its path, of its source as it
//! was and of its copy as it became; what has changed since on either side is in no journal.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::calls::TreeCalls;
use super::contents::fill;
use crate::journal::format::{
    self, Begun, Built, Contents, JournalVisitor, Part, Short, Unusable, begin_frame, done_frame,
};
use crate::journal_name::{self, journal_name};
use crate::portable::identity::{Identity, identify};
use crate::portable::names::directory_of;
use crate::{for_owner_alone, native, native_trees};
use uncopy_core::{Error, FileKind, Objection, Reason, Result, other_system};
use uncopy_os::file_id::{FileId, Timestamp};

/// Files are flushed and noted in batches of this number, or of this many bytes, or this old.
const BATCH_FILES: usize = 256;
const BATCH_BYTES: u64 = 256 << 20;
const BATCH_AGE: Duration = Duration::from_secs(5);

/// The journal of one root.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    own: FileId,
    begun: Option<Begun>,
    /// Digests of the files that an earlier run finished, in order.
    done: Vec<Short>,
    /// Large files that are begun, by the digest of their paths.
    parts: HashMap<Short, Part>,
    /// Whether an incomplete frame was cut off at its end.
    pub(super) was_cut: bool,
    /// Offset of the next frame; `None` after an error: lost data may have been in any batch.
    end: Option<u64>,
    batch: Batch,
}

/// Files that are done and not flushed.
#[derive(Default)]
struct Batch {
    files: Vec<DoneFile>,
    bytes: u64,
    since: Option<Instant>,
}

/// A file that is done and not flushed.
struct DoneFile {
    path: PathBuf,
    digest: Short,
    /// Key of its part, if it was copied in chunks.
    part: Option<Short>,
}

/// A file on both sides.
pub(super) struct Copied<'a> {
    /// Path from the root.
    pub(super) way: &'a Path,
    pub(super) source: (&'a Path, &'a Metadata),
    pub(super) copy: (&'a Path, &'a Metadata),
    /// Whether the source has several names, which change the time of change of the copy.
    pub(super) has_names: bool,
}

/// Reason why a journal cannot be opened.
enum NotOpened {
    Held,
    Unusable(Unusable),
    System(io::Error),
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> NotOpened {
        NotOpened::System(error)
    }
}

/// Collects the digests of finished files.
#[derive(Default)]
struct Done(Vec<Short>);

impl JournalVisitor for Done {
    fn done(&mut self, files: &[Short]) {
        self.0.extend(files);
    }
}

/// Returns the path of the journal for a destination. `None`: it has no name.
pub(super) fn journal_path(destination: &Path) -> Option<PathBuf> {
    Some(directory_of(destination).join(journal_name(destination.file_name()?)))
}

impl Journal {
    /// Opens the journal beside a destination, or makes one, which must be [begun](Journal::begin). Holds its lock.
    ///
    /// # Errors
    /// Another run holds it; it is damaged, another user's, a copy, or belongs to another job.
    pub(super) fn open(
        calls: &dyn TreeCalls,
        destination: &Path,
        fingerprint: Short,
    ) -> Result<Journal> {
        let refuse = |why| Err(Error::new("resume the copy to", destination, Reason::Refused(why)));
        let Some(path) = journal_path(destination) else {
            let reason = Reason::NotRegular { kind: FileKind::Directory };
            return Err(Error::new("resume the copy to", destination, reason));
        };
        let journal = match Journal::open_at(calls, path.clone()) {
            Ok(journal) => journal,
            Err(NotOpened::System(error)) => {
                return Err(other_system::refused_by_destination("open the journal", &path, error));
            }
            Err(NotOpened::Held) => return refuse(Objection::JournalHeld),
            Err(NotOpened::Unusable(Unusable::Damaged { offset })) => {
                return refuse(Objection::JournalDamaged { offset, journal: path });
            }
            Err(NotOpened::Unusable(Unusable::Foreign)) => {
                return refuse(Objection::JournalForeign { journal: path });
            }
            Err(NotOpened::Unusable(Unusable::Copied)) => {
                return refuse(Objection::JournalCopied { journal: path });
            }
        };
        if journal.begun.as_ref().is_some_and(|begun| begun.fingerprint != fingerprint) {
            return refuse(Objection::JournalOfOther { journal: path });
        }
        Ok(journal)
    }

    fn open_at(calls: &dyn TreeCalls, path: PathBuf) -> Result<Journal, NotOpened> {
        let file = match fs::symlink_metadata(&path) {
            // Opening a FIFO would wait for its other end.
            Ok(found) if !is_trusted(calls, &found) => {
                return Err(NotOpened::Unusable(Unusable::Foreign));
            }
            Ok(_) => calls.open_existing(&path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut new = OpenOptions::new();
                for_owner_alone(new.read(true).write(true).create_new(true));
                calls.create(&new, &path).map_err(|error| match error.kind() {
                    // Another run was quicker.
                    io::ErrorKind::AlreadyExists => NotOpened::Held,
                    _ => NotOpened::System(error),
                })?
            }
            Err(error) => return Err(error.into()),
        };
        if !is_trusted(calls, &file.metadata()?) {
            return Err(NotOpened::Unusable(Unusable::Foreign));
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(NotOpened::Held),
            // Any other answer: a filesystem without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // The run that held the lock may have extended or removed it.
        let found = file.metadata()?;
        let own = file_id(calls, &path, false, &found)?;
        let named =
            fs::symlink_metadata(&path).and_then(|named| file_id(calls, &path, false, &named));
        if named.ok() != Some(own) {
            return Err(NotOpened::Held);
        }
        let mut done = Done::default();
        let contents = match parse(calls, &file, found.len(), &mut done)? {
            // A power cut may leave the length without the bytes.
            Err(_) if is_zero(calls, &file, found.len())? => Contents::default(),
            contents => contents.map_err(NotOpened::Unusable)?,
        };
        let Contents { own: stated, begun, parts, whole_bytes, .. } = contents;
        // Any file but the beginning of a first frame may be the user's own, or the copy of a journal.
        let is_new = whole_bytes == 0
            && (is_beginning(calls, &file)? || is_zero(calls, &file, found.len())?);
        if stated != Some(own) && !is_new {
            return Err(NotOpened::Unusable(Unusable::Copied));
        }
        let was_cut = whole_bytes < found.len();
        if was_cut {
            calls.set_length(&file, whole_bytes)?;
        }
        let Done(mut done) = done;
        done.sort_unstable();
        let (end, batch) = (Some(whole_bytes), Batch::default());
        Ok(Journal { path, file, own, begun, done, parts, was_cut, end, batch })
    }

    /// Returns the job that the journal of a destination belongs to, if it is readable. Nothing is changed. On Windows
    /// one that another run holds cannot be read.
    pub(super) fn peek(calls: &dyn TreeCalls, destination: &Path) -> Option<Begun> {
        let path = journal_path(destination)?;
        let is_trusted = |found: &Metadata| is_trusted(calls, found);
        fs::symlink_metadata(&path).ok().filter(is_trusted)?;
        let file = calls.open_source(&path).ok()?;
        let found = file.metadata().ok().filter(is_trusted)?;
        let contents = parse(calls, &file, found.len(), &mut ()).ok()?.ok()?;
        let own = file_id(calls, &path, false, &found).ok()?;
        contents.begun.filter(|_| contents.own == Some(own))
    }

    /// Returns the job that it belongs to, if it was begun.
    pub(super) fn begun(&self) -> Option<&Begun> {
        self.begun.as_ref()
    }

    /// Starts it again for this job.
    pub(super) fn begin(&mut self, calls: &dyn TreeCalls, begun: Begun) -> io::Result<()> {
        let bytes = begin_frame(self.own, &begun);
        calls.set_length(&self.file, 0)?;
        self.end = Some(0);
        self.append(calls, &bytes)?;
        calls.flush_name(&self.file, directory_of(&self.path))?;
        self.done.clear();
        self.parts.clear();
        self.begun = Some(begun);
        Ok(())
    }

    /// Whether an earlier run finished any file.
    pub(super) fn is_continued(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether an earlier run finished this file, and neither side has changed since.
    pub(super) fn has(&self, calls: &dyn TreeCalls, copied: &Copied<'_>) -> bool {
        digest(calls, copied).is_ok_and(|digest| self.done.binary_search(&digest).is_ok())
    }

    /// Notes a finished file, and from time to time flushes and writes the noted ones.
    pub(super) fn add(&mut self, calls: &dyn TreeCalls, copied: &Copied<'_>) -> io::Result<()> {
        let digest = digest(calls, copied)?;
        let (path, metadata) = copied.copy;
        let key = format::part_key(copied.way.as_os_str());
        let part = self.parts.remove(&key).map(|_| key);
        self.batch.files.push(DoneFile { path: path.to_owned(), digest, part });
        self.batch.bytes += metadata.len();
        let since = *self.batch.since.get_or_insert_with(Instant::now);
        let is_full = self.batch.files.len() >= BATCH_FILES
            || self.batch.bytes >= BATCH_BYTES
            || since.elapsed() >= BATCH_AGE;
        if is_full { self.flush(calls) } else { Ok(()) }
    }

    /// Flushes the files, then notes them. One that cannot be opened is not noted, and copied again by the next run.
    pub(super) fn flush(&mut self, calls: &dyn TreeCalls) -> io::Result<()> {
        let Batch { files, .. } = std::mem::take(&mut self.batch);
        let mut done = Vec::with_capacity(files.len() * size_of::<Short>());
        let mut ended = Vec::new();
        for DoneFile { path, digest, part } in files {
            if let Ok(file) = calls.open_to_flush(&path) {
                if let Err(error) = calls.flush(&file) {
                    self.end = None;
                    return Err(error);
                }
                done.extend(digest);
                ended.extend(part.into_iter().flatten());
            }
        }
        if done.is_empty() {
            return Ok(());
        }
        let mut frames = done_frame(&done);
        if !ended.is_empty() {
            frames.extend(format::ended_frame(&ended));
        }
        self.append(calls, &frames)
    }

    /// Returns the part that was made of a file, by its path from the root.
    pub(super) fn part(&self, way: &Path) -> Option<&Part> {
        self.parts.get(&format::part_key(way.as_os_str()))
    }

    /// Takes out the part that was made of a file.
    pub(super) fn take_part(&mut self, way: &Path) -> Option<Part> {
        self.parts.remove(&format::part_key(way.as_os_str()))
    }

    /// Whether chunks of any part are noted.
    pub(super) fn has_chunks(&self) -> bool {
        self.parts.values().any(|part| !part.chunks.is_empty())
    }

    /// Takes out every part that is not one of a file that is done.
    pub(super) fn take_parts(&mut self) -> Vec<Part> {
        self.parts.drain().map(|(_, part)| part).collect()
    }

    /// Notes chunks of a part, from number `first` on, which are flushed. Without chunks there is nothing to resume, and
    /// the frame reaches the device with the next one.
    pub(super) fn add_chunks(
        &mut self,
        calls: &dyn TreeCalls,
        part: Part,
        first: u64,
    ) -> io::Result<()> {
        let frame = format::chunks_frame(&part, first);
        // A path this long cannot be noted: the file is copied from the beginning then.
        if frame.len() > format::MAX_BYTES {
            return Ok(());
        }
        self.write(calls, &frame)?;
        if !part.chunks.is_empty() {
            self.flush_own(calls)?;
        }
        format::add_chunks(&mut self.parts, first, part);
        Ok(())
    }

    /// Appends frames, and has them reach the device.
    fn append(&mut self, calls: &dyn TreeCalls, bytes: &[u8]) -> io::Result<()> {
        self.write(calls, bytes)?;
        self.flush_own(calls)
    }

    fn flush_own(&mut self, calls: &dyn TreeCalls) -> io::Result<()> {
        calls.flush(&self.file).inspect_err(|_| self.end = None)
    }

    /// Appends frames.
    fn write(&mut self, calls: &dyn TreeCalls, bytes: &[u8]) -> io::Result<()> {
        let end = self.end.take().ok_or_else(|| io::Error::other("an earlier write failed"))?;
        let mut written = 0;
        while written < bytes.len() {
            match calls.write_at(&self.file, &bytes[written..], end + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.end = Some(end + bytes.len() as u64);
        Ok(())
    }

    /// Removes it, if its name is still its own.
    pub(super) fn remove(self, calls: &dyn TreeCalls) {
        let Journal { path, own, .. } = &self;
        let named =
            fs::symlink_metadata(path).and_then(|found| file_id(calls, path, false, &found));
        if named.ok() == Some(*own) {
            // The lock is given back afterwards, so that no other run goes on with a journal that is gone.
            let _ = calls.remove(path);
        }
    }
}

/// Whether a file begins as a first frame does.
fn is_beginning(calls: &dyn TreeCalls, file: &File) -> io::Result<bool> {
    let mut begin = [0; format::MAGIC.len()];
    let read = fill(calls, file, &mut begin, 0)?;
    Ok(format::MAGIC.starts_with(&begin[..read]))
}

/// Whether a file is as short as a first frame, and all zeros.
fn is_zero(calls: &dyn TreeCalls, file: &File, size: u64) -> io::Result<bool> {
    let mut bytes = [0; 4096];
    let read = fill(calls, file, &mut bytes, 0)?;
    Ok(size < bytes.len() as u64 && bytes[..read].iter().all(|byte| *byte == 0))
}

/// Whether a directory is the tree that a journal names.
pub(super) fn is_built(
    calls: &dyn TreeCalls,
    built: &Built,
    path: &Path,
    metadata: &Metadata,
) -> bool {
    metadata.is_dir() && is_noted(calls, built.id, path, metadata)
}

/// Whether what has a name is the file or directory that was noted when this job made it.
pub(super) fn is_noted(
    calls: &dyn TreeCalls,
    noted: FileId,
    path: &Path,
    metadata: &Metadata,
) -> bool {
    // A time of modification before that of birth sets the latter back on macOS (setattrlist(2)).
    let is_it = |id: FileId| id.inode == noted.inode && id.birth <= noted.birth;
    file_id(calls, path, false, metadata).is_ok_and(is_it)
}

/// Whether a file is one that only this user can have written.
fn is_trusted(calls: &dyn TreeCalls, found: &Metadata) -> bool {
    let others_may_write = native_trees::mode(found) & 0o022 != 0;
    found.is_file() && calls.is_own(found) && !others_may_write && native::links(found) <= 1
}

/// Identifies a file or directory, but for its filesystem, whose number may change.
///
/// # Errors
/// The system has no numbers, or gave none.
pub(super) fn file_id(
    calls: &dyn TreeCalls,
    path: &Path,
    follows: bool,
    metadata: &Metadata,
) -> io::Result<FileId> {
    match calls.identify(path, follows) {
        // Numbers of Windows are not used again (they have a sequence number), and Wine's times of birth change.
        Some(found) => found.map(|found| FileId { inode: found.number, birth: None }),
        None => match identify(calls, path, follows, metadata).identity {
            Identity::Numbers(_, inode) => {
                Ok(FileId { inode, birth: metadata.created().ok().map(timestamp) })
            }
            Identity::Path(_) => Err(io::ErrorKind::Unsupported.into()),
        },
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    let nanoseconds = nanoseconds(time);
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    let rest = nanoseconds.rem_euclid(1_000_000_000);
    Timestamp {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanoseconds: u32::try_from(rest).unwrap_or(0),
    }
}

/// Returns the time since the epoch, which may be negative.
fn nanoseconds(time: SystemTime) -> i128 {
    let after = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => after(since),
        Err(before) => -after(before.duration()),
    }
}

/// Returns the digest of a finished file.
fn digest(calls: &dyn TreeCalls, copied: &Copied<'_>) -> io::Result<Short> {
    let Copied { way, source, copy, has_names } = copied;
    let mut hasher = blake3::Hasher::new();
    hasher.update(way.as_os_str().as_encoded_bytes());
    hasher.update(&[0]);
    add_state(&mut hasher, calls, source.0, source.1, true, true)?;
    add_state(&mut hasher, calls, copy.0, copy.1, false, !has_names)?;
    Ok(format::short(hasher.finalize()))
}

/// Returns the digest of the state of a source, whose last name may be a link.
pub(super) fn state(calls: &dyn TreeCalls, source: (&Path, &Metadata)) -> io::Result<Short> {
    let mut hasher = blake3::Hasher::new();
    add_state(&mut hasher, calls, source.0, source.1, true, true)?;
    Ok(format::short(hasher.finalize()))
}

/// Adds the state of a file: which one it is, and when and how it was changed last.
fn add_state(
    hasher: &mut blake3::Hasher,
    calls: &dyn TreeCalls,
    path: &Path,
    metadata: &Metadata,
    follows: bool,
    with_changed: bool,
) -> io::Result<()> {
    let FileId { inode, birth } = file_id(calls, path, follows, metadata)?;
    let modified = metadata.modified().ok().map_or(0, nanoseconds);
    let changed = native::change_time(metadata).filter(|_| with_changed).unwrap_or_default();
    let birth = birth.unwrap_or(Timestamp { seconds: 0, nanoseconds: u32::MAX });
    hasher.update(&inode.to_le_bytes());
    hasher.update(&metadata.len().to_le_bytes());
    hasher.update(&modified.to_le_bytes());
    hasher.update(&changed.0.to_le_bytes());
    hasher.update(&changed.1.to_le_bytes());
    hasher.update(&birth.seconds.to_le_bytes());
    hasher.update(&birth.nanoseconds.to_le_bytes());
    Ok(())
}

/// Reads a journal.
fn parse(
    calls: &dyn TreeCalls,
    file: &File,
    size: u64,
    visitor: &mut impl JournalVisitor,
) -> io::Result<std::result::Result<Contents, Unusable>> {
    let read = |at: u64, buffer: &mut Vec<u8>, length: usize| {
        buffer.resize(length, 0);
        let filled = fill(calls, file, buffer, at)?;
        buffer.truncate(filled);
        Ok(())
    };
    format::parse(size, read, visitor)
}

/// Whether a name is one under which a run of these systems makes a tree.
pub(super) fn is_tree_name(name: &OsStr) -> bool {
    is_own_name(name, ".tree")
}

/// Whether a name is one under which a run of these systems writes a file.
pub(super) fn is_temporary_name(name: &OsStr) -> bool {
    is_own_name(name, ".tmp")
}

fn is_own_name(name: &OsStr, suffix: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.to_str().and_then(|name| {
        let rest = name.strip_prefix(journal_name::BEGIN)?.strip_suffix(suffix)?;
        rest.split_once('-')
    });
    parts.is_some_and(|(process, number)| digits(process) && digits(number))
}
