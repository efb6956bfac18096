//! Makes large files resumable after a crash: a temporary file with a name, and notes of the chunks
//! that are flushed.
//!
//! Each chunk of the source is hashed when it has been copied, and its digest is noted when the
//! copy's data has been flushed. A resuming run hashes the copy alone, and continues behind the
//! last chunk with the right digest.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::digest::ChunkDigest;
use crate::mechanism::Refused;
use crate::parts::{CHUNK_BYTES, Parts, Unfinished};
use uncopy_core::{Errno, Error, Result};
use uncopy_os::AlignedBuffer;
use uncopy_os::file::{FileId, Stat};
use uncopy_os::{Sys, file, transfer};

/// Minimum size of resumable files; smaller ones are copied from the beginning.
pub(crate) const MIN_BYTES: u64 = 32 << 20;

/// Maximum number of chunks in a file, so that their digests stay small: 2 MiB.
const MAX_CHUNKS: u64 = 1 << 16;

/// Number of bytes, or age, at which chunks are flushed and noted.
const FLUSH_BYTES: u64 = 64 << 20;
const FLUSH_AGE: Duration = Duration::from_secs(2);

const READ_BYTES: u64 = 1 << 20;

/// Store of flushed chunks.
pub(crate) trait Keep: Send {
    /// Notes that the chunks from number `first` on are flushed in the file of this name. Without
    /// chunks, notes only the name.
    fn note(&mut self, file: (&OsStr, FileId), first: u64, chunks: &[ChunkDigest]) -> Sys<()>;
}

/// A partial file that an earlier run left.
pub(crate) struct LeftPart {
    pub(crate) file: Unfinished,
    /// Digests of chunks, each of [`chunk_bytes`].
    pub(crate) chunks: Vec<ChunkDigest>,
}

/// A large file that is being copied.
pub(crate) struct Partial<'a> {
    keep: Box<dyn Keep + 'a>,
    chunks: Chunks,
    /// Digests of an earlier run, until they are verified.
    expected: Vec<ChunkDigest>,
    /// Number of noted chunks.
    noted: u64,
    /// Hashed behind them, and not noted yet.
    hashed: Vec<ChunkDigest>,
    since: Instant,
}

impl<'a> Partial<'a> {
    /// Makes it for a file of `size` bytes, of which an earlier run noted these chunks.
    pub(crate) fn new(
        keep: Box<dyn Keep + 'a>,
        size: u64,
        expected: Vec<ChunkDigest>,
    ) -> Partial<'a> {
        Partial {
            keep,
            chunks: Chunks::new(size),
            expected,
            noted: 0,
            hashed: Vec::new(),
            since: Instant::now(),
        }
    }
}

impl Parts for Partial<'_> {
    fn begin(&mut self, name: &OsStr, stat: &Stat) -> Sys<()> {
        self.keep.note((name, stat.id()), 0, &[])
    }

    fn verify(
        &mut self,
        copy: BorrowedFd<'_>,
        fail: &dyn Fn(Errno) -> Error,
        on_progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        for expected in std::mem::take(&mut self.expected) {
            if self.chunks.digest(copy, self.noted).map_err(fail)? != Some(expected) {
                break;
            }
            self.noted += 1;
            on_progress(self.chunks.end_of(self.noted))?;
        }
        self.since = Instant::now();
        Ok(self.chunks.end_of(self.noted))
    }

    fn reached(
        &mut self,
        source: BorrowedFd<'_>,
        copy: (BorrowedFd<'_>, &OsStr),
        offset: u64,
    ) -> Result<(), Refused> {
        loop {
            let number = self.noted + self.hashed.len() as u64;
            if offset < self.chunks.end_of(number + 1) {
                break;
            }
            // There are no more, or the source became shorter, which is reported at the end.
            let digest = self.chunks.digest(source, number).map_err(Refused::at_source)?;
            let Some(digest) = digest else { break };
            self.hashed.push(digest);
        }
        let bytes = self.hashed.len() as u64 * self.chunks.each_bytes;
        if bytes >= FLUSH_BYTES || (bytes > 0 && self.since.elapsed() >= FLUSH_AGE) {
            return self.flush(copy).map_err(Refused::at_destination);
        }
        Ok(())
    }

    fn flush(&mut self, copy: (BorrowedFd<'_>, &OsStr)) -> Sys<()> {
        if self.hashed.is_empty() {
            return Ok(());
        }
        let (fd, name) = copy;
        file::sync_data(fd)?;
        let id = file::stat(fd)?.id();
        self.keep.note((name, id), self.noted, &self.hashed)?;
        self.noted += self.hashed.len() as u64;
        self.hashed.clear();
        self.since = Instant::now();
        Ok(())
    }

    fn is_noted(&self) -> bool {
        self.noted > 0
    }
}

/// Whether a copy that got its final name is correct: its chunks match those `noted`, and the rest
/// matches the source, which has not changed since. `on_progress` receives the offset.
pub(crate) fn is_whole<E>(
    source: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
    size: u64,
    noted: &[ChunkDigest],
    mut on_progress: impl FnMut(u64) -> Result<(), E>,
) -> Result<bool, E> {
    let mut chunks = Chunks::new(size);
    for number in 0..chunks.count() {
        let expected = match noted.get(number as usize) {
            Some(digest) => Ok(Some(*digest)),
            None => chunks.digest(source, number),
        };
        // A read error is reported when the file is copied again.
        match (expected, chunks.digest(copy, number)) {
            (Ok(Some(expected)), Ok(Some(found))) if expected == found => {}
            _ => return Ok(false),
        }
        on_progress(chunks.end_of(number + 1))?;
    }
    Ok(true)
}

/// The chunks of a file.
struct Chunks {
    size: u64,
    each_bytes: u64,
    /// Digest of a chunk of zeros.
    zeros: Option<ChunkDigest>,
}

impl Chunks {
    fn new(size: u64) -> Chunks {
        Chunks { size, each_bytes: chunk_bytes(size), zeros: None }
    }

    fn count(&self) -> u64 {
        self.size.div_ceil(self.each_bytes)
    }

    /// Returns the offset at which this number of chunks ends.
    fn end_of(&self, chunks: u64) -> u64 {
        chunks.saturating_mul(self.each_bytes).min(self.size)
    }

    /// Returns the digest of the chunk of this number; `None`: there is none, or the file ends in
    /// it.
    fn digest(&mut self, fd: BorrowedFd<'_>, number: u64) -> Sys<Option<ChunkDigest>> {
        let (start, end) = (self.end_of(number), self.end_of(number + 1));
        let length = end - start;
        if length == 0 {
            return Ok(None);
        }
        if length == self.each_bytes && is_hole(fd, start, length)? {
            let zeros = self.zeros.get_or_insert_with(|| digest_of_zeros(length));
            return Ok(Some(*zeros));
        }
        let mut hasher = blake3::Hasher::new();
        let mut buffer = AlignedBuffer::new(READ_BYTES as usize);
        let mut done = 0;
        while done < length {
            match transfer::read_at(fd, &mut buffer, start + done) {
                Ok(0) => return Ok(None),
                Ok(n) => {
                    let n = (n as u64).min(length - done);
                    hasher.update(&buffer[..n as usize]);
                    done += n;
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(Some(*hasher.finalize().as_bytes()))
    }
}

/// Returns the length of a file's chunks: a multiple of [`CHUNK_BYTES`], so that reads begin at
/// whole pages.
pub(crate) fn chunk_bytes(size: u64) -> u64 {
    size.div_ceil(MAX_CHUNKS).div_ceil(CHUNK_BYTES).max(1) * CHUNK_BYTES
}

/// Whether the range is a hole within the file.
fn is_hole(fd: BorrowedFd<'_>, start: u64, length: u64) -> Sys<bool> {
    if file::stat(fd)?.size < start + length {
        return Ok(false);
    }
    Ok(match file::seek_data(fd, start) {
        Ok(data) => data >= start + length,
        Err(errno) => errno == Errno::ENXIO,
    })
}

fn digest_of_zeros(length: u64) -> ChunkDigest {
    let zeros = vec![0; READ_BYTES as usize];
    let mut hasher = blake3::Hasher::new();
    let mut left = length;
    while left > 0 {
        let n = left.min(READ_BYTES);
        hasher.update(&zeros[..n as usize]);
        left -= n;
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::sync::{Arc, Mutex};

    #[derive(Default, Clone)]
    struct Memory(Arc<Mutex<Vec<ChunkDigest>>>);

    impl Keep for Memory {
        fn note(&mut self, _: (&OsStr, FileId), first: u64, chunks: &[ChunkDigest]) -> Sys<()> {
            let mut all = self.0.lock().unwrap();
            assert_eq!(first, all.len() as u64);
            all.extend(chunks);
            Ok(())
        }
    }

    #[test]
    fn huge_files_have_larger_chunks() {
        for (size, expected) in [
            (0, CHUNK_BYTES),
            (CHUNK_BYTES * MAX_CHUNKS, CHUNK_BYTES),
            (CHUNK_BYTES * MAX_CHUNKS + 1, 2 * CHUNK_BYTES),
            (u64::MAX, CHUNK_BYTES * ((1 << 48) / CHUNK_BYTES)),
        ] {
            assert_eq!(chunk_bytes(size), expected, "{size}");
        }
    }

    #[test]
    fn what_was_noted_is_verified_up_to_the_first_damage() {
        let size = 3 * CHUNK_BYTES + 1000;
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(&[7; 5000], 100).unwrap();
        file.write_all_at(&[9; 5000], 2 * CHUNK_BYTES).unwrap();
        let memory = Memory::default();
        let copy = (file.as_fd(), OsStr::new("x"));
        let mut first = Partial::new(Box::new(memory.clone()), size, Vec::new());
        first.reached(file.as_fd(), copy, 2 * CHUNK_BYTES - 1).unwrap();
        first.flush(copy).unwrap();
        assert_eq!(memory.0.lock().unwrap().len(), 1);
        first.reached(file.as_fd(), copy, size).unwrap();
        first.flush(copy).unwrap();
        let chunks = memory.0.lock().unwrap().clone();
        assert_eq!(chunks.len(), 4);
        assert_eq!(chunks[1], digest_of_zeros(CHUNK_BYTES));

        let verified = |file: &std::fs::File| {
            let mut again = Partial::new(Box::new(memory.clone()), size, chunks.clone());
            let fail = |errno| Error::system("read back", "x", errno);
            again.verify(file.as_fd(), &fail, &mut |_| Ok(())).unwrap()
        };
        assert_eq!(verified(&file), size);
        // The last chunk may or may not be noted, and the file may have been longer.
        let source = tempfile::tempfile().unwrap();
        source.set_len(size).unwrap();
        let is_whole = |copy: &std::fs::File, noted: usize| {
            let mut reported = Vec::new();
            let ends = (source.as_fd(), copy.as_fd());
            let whole = super::is_whole(ends.0, ends.1, size, &chunks[..noted], |end| {
                reported.push(end);
                Ok::<_, Errno>(())
            });
            (whole.unwrap(), reported.len())
        };
        assert_eq!(is_whole(&file, 4), (true, 4));
        assert_eq!(is_whole(&file, 3), (true, 4));
        assert_eq!(is_whole(&file, 2), (false, 2), "the source is another one");
        file.write_all_at(&[1], size - 1).unwrap();
        assert_eq!(is_whole(&file, 3), (false, 3));
        assert_eq!(is_whole(&file, 4), (false, 3));
        file.set_len(size - 1).unwrap();
        assert_eq!(is_whole(&file, 3), (false, 3));
        file.set_len(size).unwrap();
        assert_eq!(is_whole(&file, 3), (true, 4));
        file.write_all_at(&[1], 2 * CHUNK_BYTES + 7).unwrap();
        assert_eq!(verified(&file), 2 * CHUNK_BYTES);
        file.set_len(CHUNK_BYTES + 5).unwrap();
        assert_eq!(verified(&file), CHUNK_BYTES);
        file.set_len(0).unwrap();
        assert_eq!(verified(&file), 0);
    }
}
