//! Large files that survive a crash in their middle: a temporary file with a name, and the word that
//! its chunks are flushed.
//!
//! Each chunk of the source is hashed when it has been copied, and its digest is noted when the
//! copy's data has been flushed. A run that goes on hashes the copy alone, and begins behind the last
//! chunk that is what it should be.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::buf::AlignedBuffer;
use crate::error::Errno;
use crate::sys::{Sys, file, transfer};

/// Smaller files are begun anew.
pub(crate) const LEAST_BYTES: u64 = 32 << 20;

/// A chunk of all but huge files.
pub(crate) const CHUNK_BYTES: u64 = 8 << 20;

/// No file has more chunks, so that their digests stay small beside it: 2 MiB.
const MOST_CHUNKS: u64 = 1 << 16;

/// Chunks are flushed and noted when they are so many bytes, or so old.
const FLUSH_BYTES: u64 = 64 << 20;
const FLUSH_AGE: Duration = Duration::from_secs(2);

const READ_BYTES: u64 = 1 << 20;

pub(crate) const CHUNK_DIGEST_BYTES: usize = 32;

/// The BLAKE3 digest of a chunk.
pub(crate) type ChunkDigest = [u8; CHUNK_DIGEST_BYTES];

/// Who remembers what was flushed.
pub(crate) trait Keep: Send {
    /// The chunks from number `first` on are in the file of this name and inode, and flushed.
    fn note(&mut self, file: (&OsStr, u64), first: u64, chunks: &[ChunkDigest]) -> Sys<()>;
}

/// What an earlier run left.
pub(crate) struct Begun {
    pub(crate) file: OwnedFd,
    pub(crate) name: OsString,
    /// Each of [`chunk_bytes`].
    pub(crate) chunks: Vec<ChunkDigest>,
}

/// A large file on its way.
pub(crate) struct Partial<'a> {
    keep: Box<dyn Keep + 'a>,
    size: u64,
    chunk_bytes: u64,
    /// Of an earlier run, until they are verified.
    expected: Vec<ChunkDigest>,
    /// So many are noted.
    noted: u64,
    /// Hashed behind them, and not noted yet.
    hashed: Vec<ChunkDigest>,
    since: Instant,
    /// The digest of a chunk of zeros.
    zeros: Option<ChunkDigest>,
}

impl<'a> Partial<'a> {
    pub(crate) fn new(keep: Box<dyn Keep + 'a>, size: u64) -> Partial<'a> {
        Partial {
            keep,
            size,
            chunk_bytes: chunk_bytes(size),
            expected: Vec::new(),
            noted: 0,
            hashed: Vec::new(),
            since: Instant::now(),
            zeros: None,
        }
    }

    /// Lets it go on from what is there.
    pub(crate) fn expect(&mut self, chunks: Vec<ChunkDigest>) {
        self.expected = chunks;
    }

    /// Hashes what is there, chunk after chunk, as long as it is what was noted; returns up to
    /// where. `goes_on` is told how far it is.
    pub(crate) fn verify<E>(
        &mut self,
        copy: BorrowedFd<'_>,
        fail: impl Fn(Errno) -> E,
        mut goes_on: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        for expected in std::mem::take(&mut self.expected) {
            let start = self.noted * self.chunk_bytes;
            if start >= self.size || self.digest(copy, start).map_err(&fail)? != Some(expected) {
                break;
            }
            self.noted += 1;
            goes_on(self.end_of(self.noted))?;
        }
        self.since = Instant::now();
        Ok(self.end_of(self.noted))
    }

    /// The copy has come as far as `offset`.
    pub(crate) fn reached(
        &mut self,
        source: BorrowedFd<'_>,
        copy: (BorrowedFd<'_>, &OsStr),
        offset: u64,
    ) -> Sys<()> {
        loop {
            let number = self.noted + self.hashed.len() as u64;
            let start = number * self.chunk_bytes;
            if start >= self.size || offset < self.end_of(number + 1) {
                break;
            }
            // It became shorter meanwhile, which is told when it is done.
            let Some(digest) = self.digest(source, start)? else { break };
            self.hashed.push(digest);
        }
        let bytes = self.hashed.len() as u64 * self.chunk_bytes;
        if bytes >= FLUSH_BYTES || (bytes > 0 && self.since.elapsed() >= FLUSH_AGE) {
            return self.flush(copy);
        }
        Ok(())
    }

    /// Flushes and notes what was copied in whole chunks.
    pub(crate) fn flush(&mut self, copy: (BorrowedFd<'_>, &OsStr)) -> Sys<()> {
        if self.hashed.is_empty() {
            return Ok(());
        }
        let (fd, name) = copy;
        file::sync_data(fd)?;
        let inode = file::stat(fd)?.inode;
        self.keep.note((name, inode), self.noted, &self.hashed)?;
        self.noted += self.hashed.len() as u64;
        self.hashed.clear();
        self.since = Instant::now();
        Ok(())
    }

    /// There is something to go on from.
    pub(crate) fn is_noted(&self) -> bool {
        self.noted > 0
    }

    fn end_of(&self, chunks: u64) -> u64 {
        chunks.saturating_mul(self.chunk_bytes).min(self.size)
    }

    /// The digest of the chunk that begins at `start`; `None` if the file ends in it.
    fn digest(&mut self, fd: BorrowedFd<'_>, start: u64) -> Sys<Option<ChunkDigest>> {
        let length = self.chunk_bytes.min(self.size - start);
        if length == self.chunk_bytes && is_hole(fd, start, length)? {
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

/// How long the chunks of a file are: a multiple of [`CHUNK_BYTES`], so that reads begin at whole
/// pages.
pub(crate) fn chunk_bytes(size: u64) -> u64 {
    size.div_ceil(MOST_CHUNKS).div_ceil(CHUNK_BYTES).max(1) * CHUNK_BYTES
}

/// Nothing but a hole, within the file.
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
        fn note(&mut self, _: (&OsStr, u64), first: u64, chunks: &[ChunkDigest]) -> Sys<()> {
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
            (CHUNK_BYTES * MOST_CHUNKS, CHUNK_BYTES),
            (CHUNK_BYTES * MOST_CHUNKS + 1, 2 * CHUNK_BYTES),
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
        let mut first = Partial::new(Box::new(memory.clone()), size);
        first.reached(file.as_fd(), copy, 2 * CHUNK_BYTES - 1).unwrap();
        first.flush(copy).unwrap();
        assert_eq!(memory.0.lock().unwrap().len(), 1);
        first.reached(file.as_fd(), copy, size).unwrap();
        first.flush(copy).unwrap();
        let chunks = memory.0.lock().unwrap().clone();
        assert_eq!(chunks.len(), 4);
        assert_eq!(chunks[1], digest_of_zeros(CHUNK_BYTES));

        let verified = |file: &std::fs::File| {
            let mut again = Partial::new(Box::new(memory.clone()), size);
            again.expect(chunks.clone());
            again.verify(file.as_fd(), |errno| errno, |_| Ok(())).unwrap()
        };
        assert_eq!(verified(&file), size);
        file.write_all_at(&[1], 2 * CHUNK_BYTES + 7).unwrap();
        assert_eq!(verified(&file), 2 * CHUNK_BYTES);
        file.set_len(CHUNK_BYTES + 5).unwrap();
        assert_eq!(verified(&file), CHUNK_BYTES);
        file.set_len(0).unwrap();
        assert_eq!(verified(&file), 0);
    }
}
