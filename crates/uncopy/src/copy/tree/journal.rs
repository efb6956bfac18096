//! What a job that was killed had done: a file beside the destination, only appended to, of frames
//! with checksums.
//!
//! A frame is written when the data of all files that it names has been flushed (`syncfs(2)`). A file
//! is known by a digest of its path, of its source as it was and of its copy as it became: what has
//! changed since on either side is in no journal. A frame that a crash cut off is dropped, and with
//! it the word that its files are done; a journal that is damaged elsewhere is not believed at all.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::copy::staging::name_digest;
use crate::error::Errno;
use crate::sys::file::{self, Stat};
use crate::sys::{Sys, name, transfer};

/// The first bytes of every frame, with the version of the format.
const MAGIC: &[u8; 4] = b"UJ2\n";
const CHECKSUM_BYTES: usize = 16;
/// Magic number, kind, length of what follows, and the checksum of these: without it a length that is
/// damaged would look like a frame that was cut off, and hide all behind it.
const HEAD_BYTES: usize = FIELDS_BYTES + CHECKSUM_BYTES;
const FIELDS_BYTES: usize = 12;
/// No frame is longer: what says so is damaged.
const MOST_BYTES: usize = 1 << 20;

const BEGIN: u32 = 1;
const DONE: u32 = 2;

/// Files are flushed and noted in batches of this number, or of this many bytes, or this old.
const BATCH_FILES: usize = 1024;
const BATCH_BYTES: u64 = 256 << 20;
const BATCH_AGE: Duration = Duration::from_secs(5);

/// A file that is done: path, source and copy in one.
pub(super) type Done = [u8; 16];

/// The digest of a finished file. The copy's ctime is left out where further names of it change it.
pub(super) fn done(path: &Path, source: &Stat, copy: &Stat) -> Done {
    let mut hasher = blake3::Hasher::new();
    hasher.update(path.as_os_str().as_bytes());
    hasher.update(&[0]);
    let mut number = |value: u64| {
        hasher.update(&value.to_le_bytes());
    };
    for (stat, changed) in [(source, true), (copy, source.links == 1)] {
        number(u64::from(stat.device.0));
        number(u64::from(stat.device.1));
        number(stat.inode);
        number(stat.size);
        number(stat.modified.seconds.cast_unsigned());
        number(stat.modified.nanoseconds.into());
        if changed {
            number(stat.changed.seconds.cast_unsigned());
            number(stat.changed.nanoseconds.into());
        }
    }
    first_bytes(hasher.finalize())
}

fn first_bytes(hash: blake3::Hash) -> [u8; CHECKSUM_BYTES] {
    let mut bytes = [0; CHECKSUM_BYTES];
    bytes.copy_from_slice(&hash.as_bytes()[..CHECKSUM_BYTES]);
    bytes
}

/// Which job a journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begun {
    /// Of source and options.
    pub(super) fingerprint: [u8; 16],
    /// The name of the tree that is being built, if the destination was not there.
    pub(super) aside: Option<OsString>,
}

/// Why a journal cannot be gone by.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    Damaged { offset: usize },
}

/// What a journal says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    begun: Option<Begun>,
    /// Sorted.
    done: Vec<Done>,
    /// Up to here it is whole.
    whole_bytes: usize,
}

fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len() + CHECKSUM_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(kind.to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(first_bytes(blake3::hash(&bytes)));
    bytes.extend(payload);
    bytes.extend(first_bytes(blake3::hash(&bytes)));
    bytes
}

/// Kind and length of what follows, of a frame that begins so; `None` if it does not.
fn head(bytes: &[u8]) -> Option<(u32, usize)> {
    let (fields, sum) = bytes.get(..HEAD_BYTES)?.split_at(FIELDS_BYTES);
    let is_intact = fields.starts_with(MAGIC) && first_bytes(blake3::hash(fields)) == *sum;
    let number = |place: usize| fields[place..place + 4].try_into().map_or(0, u32::from_le_bytes);
    let (kind, payload_bytes) = (number(4), number(8) as usize);
    (is_intact && payload_bytes <= MOST_BYTES).then_some((kind, payload_bytes))
}

fn begin_frame(begun: &Begun) -> Vec<u8> {
    let aside = begun.aside.as_deref().unwrap_or_default();
    frame(BEGIN, &[&begun.fingerprint[..], aside.as_bytes()].concat())
}

/// Reads a whole journal.
fn parse(bytes: &[u8]) -> Result<Contents, Unusable> {
    let mut contents = Contents::default();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let damaged = Err(Unusable::Damaged { offset: at });
        // A crash may leave the length of the last frame without its bytes.
        if rest.len() < HEAD_BYTES || (at > 0 && rest.iter().all(|byte| *byte == 0)) {
            break;
        }
        let Some((kind, payload_bytes)) = head(rest) else { return damaged };
        let end = HEAD_BYTES + payload_bytes + CHECKSUM_BYTES;
        if rest.len() < end {
            break;
        }
        let (body, sum) = rest[..end].split_at(end - CHECKSUM_BYTES);
        if first_bytes(blake3::hash(body)) != *sum {
            if rest.len() == end && at > 0 {
                break;
            }
            return damaged;
        }
        let payload = &rest[HEAD_BYTES..HEAD_BYTES + payload_bytes];
        match (kind, contents.begun.is_some()) {
            (BEGIN, false) if payload.len() >= 16 => {
                let (fingerprint, aside) = payload.split_at(16);
                let aside = (!aside.is_empty()).then(|| OsString::from_vec(aside.to_vec()));
                let fingerprint = fingerprint.try_into().unwrap_or_default();
                contents.begun = Some(Begun { fingerprint, aside });
            }
            (DONE, true) if payload.len().is_multiple_of(16) => {
                let (all, _) = payload.as_chunks::<16>();
                contents.done.extend_from_slice(all);
            }
            _ => return damaged,
        }
        at += end;
        contents.whole_bytes = at;
    }
    contents.done.sort_unstable();
    Ok(contents)
}

/// The journal of one root.
#[derive(Debug)]
pub(super) struct Journal {
    file: OwnedFd,
    name: OsString,
    begun: Option<Begun>,
    /// What an earlier run did, sorted.
    done: Vec<Done>,
    /// Something was cut off at its end.
    pub(super) was_cut: bool,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    done: Vec<u8>,
    bytes: u64,
    since: Option<Instant>,
    /// Where the next frame goes.
    offset: u64,
}

/// Who holds a journal already, or why it cannot be opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    Held,
    Unusable(Unusable),
    System(Errno),
}

impl Journal {
    /// Its name beside a destination, which no other destination shares.
    pub(super) fn name(destination: &OsStr) -> OsString {
        format!(".uncopy-{}.journal", name_digest(destination)).into()
    }

    /// Opens the journal beside a destination, or makes an empty one, and locks it.
    pub(super) fn open(
        directory: BorrowedFd<'_>,
        destination: &OsStr,
    ) -> Result<Journal, NotOpened> {
        let name = Journal::name(destination);
        let file = match name::open_existing(directory, &name, OFlags::RDWR) {
            Err(Errno::ENOENT) => name::create_new(directory, &name, 0o600),
            other => other,
        }
        .map_err(NotOpened::System)?;
        // Any other answer: a filesystem without locks.
        if file::try_lock(&file) == Err(Errno::EAGAIN) {
            return Err(NotOpened::Held);
        }
        let bytes = read_all(&file).map_err(NotOpened::System)?;
        let contents = parse(&bytes).map_err(NotOpened::Unusable)?;
        let was_cut = contents.whole_bytes < bytes.len();
        let offset = contents.whole_bytes as u64;
        file::truncate(&file, offset).map_err(NotOpened::System)?;
        let pending = Mutex::new(Pending { offset, ..Pending::default() });
        let Contents { begun, done, .. } = contents;
        Ok(Journal { file, name, begun, done, was_cut, pending })
    }

    /// The job that it belongs to, if it was begun.
    pub(super) fn begun(&self) -> Option<&Begun> {
        self.begun.as_ref()
    }

    /// Begins it anew, for this job.
    pub(super) fn begin(&mut self, begun: Begun, directory: BorrowedFd<'_>) -> Sys<()> {
        file::truncate(&self.file, 0)?;
        let bytes = begin_frame(&begun);
        write_all(&self.file, &bytes, 0)?;
        file::sync(&self.file)?;
        let directory = name::open_directory_for_reading(directory)?;
        file::sync(&directory)?;
        self.done.clear();
        self.begun = Some(begun);
        self.pending = Mutex::new(Pending { offset: bytes.len() as u64, ..Pending::default() });
        Ok(())
    }

    /// An earlier run did this.
    pub(super) fn has(&self, done: &Done) -> bool {
        self.done.binary_search(done).is_ok()
    }

    /// There is something to go on from.
    pub(super) fn is_continued(&self) -> bool {
        !self.done.is_empty()
    }

    /// Notes a finished file of so many bytes; from time to time flushes what was noted.
    pub(super) fn add(&self, done: &Done, bytes: u64, destination: BorrowedFd<'_>) -> Sys<()> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.done.extend(done);
        pending.bytes += bytes;
        let since = *pending.since.get_or_insert_with(Instant::now);
        let full = pending.done.len() >= BATCH_FILES * done.len()
            || pending.bytes >= BATCH_BYTES
            || since.elapsed() >= BATCH_AGE;
        if full { self.write(&mut pending, destination) } else { Ok(()) }
    }

    /// Flushes what was noted, the files first.
    pub(super) fn flush(&self, destination: BorrowedFd<'_>) -> Sys<()> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut pending, destination)
    }

    fn write(&self, pending: &mut Pending, destination: BorrowedFd<'_>) -> Sys<()> {
        if pending.done.is_empty() {
            return Ok(());
        }
        file::sync_filesystem(destination)?;
        let bytes = frame(DONE, &pending.done);
        write_all(&self.file, &bytes, pending.offset)?;
        file::sync_data(&self.file)?;
        let offset = pending.offset + bytes.len() as u64;
        *pending = Pending { offset, ..Pending::default() };
        Ok(())
    }

    /// Removes it: the job is done.
    pub(super) fn remove(&self, directory: BorrowedFd<'_>) -> Sys<()> {
        name::unlink(directory, &self.name)
    }
}

fn read_all(file: &OwnedFd) -> Sys<Vec<u8>> {
    let size = usize::try_from(file::stat(file)?.size).map_err(|_| Errno::EFBIG)?;
    let mut bytes = vec![0; size];
    let mut at = 0;
    while at < size {
        match transfer::read_at(file, &mut bytes[at..], at as u64) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(at);
    Ok(bytes)
}

fn write_all(file: &OwnedFd, bytes: &[u8], offset: u64) -> Sys<()> {
    let mut at = 0;
    while at < bytes.len() {
        match transfer::write_at(file, &bytes[at..], offset + at as u64) {
            Ok(0) => return Err(Errno::EIO),
            Ok(n) => at += n,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// For `fuzz/`: these bytes as a journal, and as the payload of frames whose checksums are right.
#[cfg(fuzzing)]
pub(crate) fn fuzz(bytes: &[u8]) {
    check(bytes);
    let (kind, payload) = bytes.split_first().unwrap_or((&0, &[]));
    let begun = Begun { fingerprint: [0; 16], aside: None };
    let framed = frame((*kind).into(), payload);
    check(&framed);
    check(&[begin_frame(&begun), framed.clone(), framed].concat());
}

#[cfg(fuzzing)]
fn check(bytes: &[u8]) {
    if let Ok(contents) = parse(bytes) {
        assert!(contents.whole_bytes <= bytes.len());
        assert_eq!(parse(&bytes[..contents.whole_bytes]).as_ref(), Ok(&contents));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Begun {
        Begun { fingerprint: [7; 16], aside: Some(".uncopy-x.tree".into()) }
    }

    fn written() -> Vec<u8> {
        let first: Vec<u8> = (0..3 * 16).map(|n| 200 - n).collect();
        [begin_frame(&begun()), frame(DONE, &first), frame(DONE, &[1; 16])].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = written();
        let contents = parse(&bytes).unwrap();
        assert_eq!(contents.begun, Some(begun()));
        assert_eq!(contents.done.len(), 4);
        assert!(contents.done.is_sorted());
        assert_eq!(contents.whole_bytes, bytes.len());
        assert_eq!(parse(&[]), Ok(Contents::default()));
    }

    #[test]
    fn a_frame_that_was_cut_off_is_dropped() {
        let bytes = written();
        let last = frame(DONE, &[1; 16]).len();
        for cut in 1..last {
            let contents = parse(&bytes[..bytes.len() - cut]).unwrap();
            assert_eq!(contents.done.len(), 3, "{cut}");
            assert_eq!(contents.whole_bytes, bytes.len() - last, "{cut}");
        }
        // Its length came to the disk, and its bytes did not.
        let mut empty = bytes[..bytes.len() - last].to_vec();
        empty.resize(bytes.len(), 0);
        assert_eq!(parse(&empty).unwrap().done.len(), 3);
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let bytes = written();
        let last = bytes.len() - frame(DONE, &[1; 16]).len();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            match parse(&damaged) {
                Err(Unusable::Damaged { offset }) => {
                    assert!(place < last + HEAD_BYTES && offset <= place, "{place}");
                }
                // The last frame is not believed.
                Ok(contents) => {
                    assert!(place >= last + HEAD_BYTES, "{place}");
                    assert_eq!(contents.done.len(), 3, "{place}");
                }
            }
        }
    }

    #[test]
    fn names_are_not_shared() {
        let names = ["a.txt", "a.bin", "a"].map(|name| Journal::name(OsStr::new(name)));
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    }
}
