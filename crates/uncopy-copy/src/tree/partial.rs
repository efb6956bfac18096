//! Makes large files resumable after a crash: a temporary file with a name, and notes of the chunks
//! that are flushed.
//!
//! Each chunk of the source is hashed when it has been copied, and its digest is noted when the
//! copy's data has been flushed. A resuming run hashes the copy alone, and continues behind the
//! last chunk with the right digest.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use crate::chunks::{self, ChunkLog, ChunkSizes, Chunks};
use crate::digest::ChunkDigest;
use crate::mechanism::Refused;
use crate::parts::{Parts, Unfinished};
use uncopy_core::{Errno, Error, Result};
use uncopy_os::AlignedBuffer;
use uncopy_os::file::{FileId, Stat};
use uncopy_os::{Sys, file, transfer};

pub(crate) use crate::chunks::MIN_BYTES;

const READ_BYTES: u64 = 1 << 20;

/// Whether the chunks that are noted are on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    Yes,
    /// A crash of the system may lose them, and their note. Their digests show it.
    No,
}

/// Store of chunks.
pub(crate) trait Keep: Send {
    /// Notes the chunks from number `first` on in the file of this name. Without chunks, notes only the name.
    fn note(
        &mut self,
        file: (&OsStr, FileId),
        first: u64,
        chunks: &[ChunkDigest],
        flushed: Flushed,
    ) -> Sys<()>;
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
    log: ChunkLog,
    /// Digests of an earlier run, until they are verified.
    expected: Vec<ChunkDigest>,
    zeros: Zeros,
}

impl<'a> Partial<'a> {
    /// Makes it for a file of `size` bytes, of which an earlier run noted these chunks.
    pub(crate) fn new(
        keep: Box<dyn Keep + 'a>,
        size: u64,
        expected: Vec<ChunkDigest>,
    ) -> Partial<'a> {
        let log = ChunkLog::new(ChunkSizes::BUILT_IN, size);
        Partial { keep, log, expected, zeros: Zeros::default() }
    }
}

impl Parts for Partial<'_> {
    fn begin(&mut self, name: &OsStr, stat: &Stat) -> Sys<()> {
        self.keep.note((name, stat.id()), 0, &[], Flushed::No)
    }

    fn verify(
        &mut self,
        copy: BorrowedFd<'_>,
        fail: &dyn Fn(Errno) -> Error,
        on_progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let (chunks, zeros) = (self.log.chunks, &mut self.zeros);
        let expected = std::mem::take(&mut self.expected);
        let of_copy = |number| zeros.digest(copy, chunks, number).map_err(fail);
        self.log.verify(expected, of_copy, on_progress)
    }

    fn reached(
        &mut self,
        source: BorrowedFd<'_>,
        copy: (BorrowedFd<'_>, &OsStr),
        offset: u64,
    ) -> Result<(), Refused> {
        while self.log.is_next_whole(offset) {
            // There are no more, or the source became shorter, which is reported at the end.
            let digest = self.zeros.digest(source, self.log.chunks, self.log.next());
            let Some(digest) = digest.map_err(Refused::at_source)? else { break };
            self.log.add(digest);
        }
        if self.log.is_due() {
            return self.flush(copy).map_err(Refused::at_destination);
        }
        Ok(())
    }

    fn flush(&mut self, copy: (BorrowedFd<'_>, &OsStr)) -> Sys<()> {
        let Some((first, chunks)) = self.log.unnoted() else { return Ok(()) };
        let (fd, name) = copy;
        file::sync_data(fd)?;
        let id = file::stat(fd)?.id();
        self.keep.note((name, id), first, chunks, Flushed::Yes)?;
        self.log.set_noted();
        Ok(())
    }

    fn end(&mut self, copy: (BorrowedFd<'_>, &OsStr)) -> Sys<()> {
        let Some((first, chunks)) = self.log.unnoted() else { return Ok(()) };
        let (fd, name) = copy;
        let id = file::stat(fd)?.id();
        self.keep.note((name, id), first, chunks, Flushed::No)?;
        self.log.set_noted();
        Ok(())
    }

    fn is_noted(&self) -> bool {
        self.log.is_noted()
    }
}

/// Whether a copy that got its final name is correct; see [`Chunks::are_whole`]. Without a source to read all chunks must
/// be noted.
pub(crate) fn is_whole<E>(
    source: Option<BorrowedFd<'_>>,
    copy: BorrowedFd<'_>,
    size: u64,
    noted: &[ChunkDigest],
    on_progress: impl FnMut(u64) -> Result<(), E>,
) -> Result<bool, E> {
    let chunks = ChunkSizes::BUILT_IN.divide(size);
    let mut zeros = Zeros::default();
    let of_source = |number| source.map_or(Ok(None), |fd| zeros.digest(fd, chunks, number));
    let mut zeros = Zeros::default();
    let of_copy = |number| zeros.digest(copy, chunks, number);
    chunks.are_whole(noted, of_source, of_copy, on_progress)
}

/// Digest of a chunk of zeros, once there was one.
#[derive(Default)]
struct Zeros(Option<ChunkDigest>);

impl Zeros {
    /// Returns the digest of the chunk of this number; `None`: there is none, or the file ends in
    /// it.
    fn digest(
        &mut self,
        fd: BorrowedFd<'_>,
        chunks: Chunks,
        number: u64,
    ) -> Sys<Option<ChunkDigest>> {
        let Some(range) = chunks.range_of(number) else { return Ok(None) };
        let length = range.end - range.start;
        if length == chunks.each_bytes() && is_hole(fd, range.start, length)? {
            return Ok(Some(*self.0.get_or_insert_with(|| digest_of_zeros(length))));
        }
        let mut buffer = AlignedBuffer::new(READ_BYTES as usize)?;
        chunks::digest(range, &mut buffer, |buffer, at| {
            loop {
                match transfer::read_at(fd, buffer, at) {
                    Err(Errno::EINTR) => {}
                    read => return read,
                }
            }
        })
    }
}

/// Returns the length of a file's chunks.
pub(crate) fn chunk_bytes(size: u64) -> u64 {
    ChunkSizes::BUILT_IN.divide(size).each_bytes()
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
    use crate::chunks::CHUNK_BYTES;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::sync::{Arc, Mutex};

    #[derive(Default, Clone)]
    struct Memory(Arc<Mutex<Vec<ChunkDigest>>>);

    impl Keep for Memory {
        fn note(
            &mut self,
            _: (&OsStr, FileId),
            first: u64,
            chunks: &[ChunkDigest],
            _: Flushed,
        ) -> Sys<()> {
            let mut all = self.0.lock().unwrap();
            assert_eq!(first, all.len() as u64);
            all.extend(chunks);
            Ok(())
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
            let whole = super::is_whole(Some(ends.0), ends.1, size, &chunks[..noted], |end| {
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
