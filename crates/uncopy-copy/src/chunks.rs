//! Divides a large file into chunks that are noted when they are flushed, and decides up to where an interrupted copy is
//! good (pure).
//!
//! The digest of a chunk is that of the source's bytes. A run that resumes a copy hashes the copy alone, and continues
//! behind the last chunk with the right digest.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::chunk_hasher::ChunkHasher;
use super::digest::ChunkDigest;

/// Chunk of all but huge files: parts end where one of them does.
pub(crate) const CHUNK_BYTES: u64 = 8 << 20;

/// Minimum size of resumable files; smaller ones are copied from the beginning.
pub(crate) const MIN_BYTES: u64 = 32 << 20;

/// Maximum number of chunks in a file, so that their digests stay small: 2 MiB.
const MAX_CHUNKS: u64 = 1 << 16;

/// Age at which chunks are flushed and noted.
const FLUSH_AGE: Duration = Duration::from_secs(2);

/// Sizes of files and chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSizes {
    /// Minimum size of files that are copied in chunks.
    pub(crate) min_file_bytes: u64,
    /// Chunk of all but huge files.
    pub(crate) chunk_bytes: u64,
    /// Number of bytes at which chunks are flushed and noted.
    pub(crate) flush_bytes: u64,
}

impl ChunkSizes {
    pub(crate) const BUILT_IN: ChunkSizes =
        ChunkSizes { min_file_bytes: MIN_BYTES, chunk_bytes: CHUNK_BYTES, flush_bytes: 64 << 20 };

    /// Divides a file. The length of a chunk is a multiple of the usual one, so that reads begin at whole pages.
    pub(crate) fn divide(self, size: u64) -> Chunks {
        let times = size.div_ceil(MAX_CHUNKS).div_ceil(self.chunk_bytes).max(1);
        Chunks { size, each_bytes: times * self.chunk_bytes }
    }
}

/// The chunks of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunks {
    size: u64,
    each_bytes: u64,
}

impl Chunks {
    /// Returns the length of each but the last.
    pub(crate) fn each_bytes(self) -> u64 {
        self.each_bytes
    }

    pub(crate) fn count(self) -> u64 {
        self.size.div_ceil(self.each_bytes)
    }

    /// Returns the offset at which this number of chunks ends.
    pub(crate) fn end_of(self, chunks: u64) -> u64 {
        chunks.saturating_mul(self.each_bytes).min(self.size)
    }

    /// Returns the range of the chunk of this number. `None`: there is none.
    pub(crate) fn range_of(self, number: u64) -> Option<Range<u64>> {
        let range = self.end_of(number)..self.end_of(number + 1);
        (!range.is_empty()).then_some(range)
    }

    /// Whether a copy that got its final name is correct: its chunks match those `noted`, and the rest matches the
    /// source, which has not changed since. `on_progress` receives the offset.
    pub(crate) fn are_whole<Stop, Fail>(
        self,
        noted: &[ChunkDigest],
        mut of_source: impl FnMut(u64) -> Result<Option<ChunkDigest>, Fail>,
        mut of_copy: impl FnMut(u64) -> Result<Option<ChunkDigest>, Fail>,
        mut on_progress: impl FnMut(u64) -> Result<(), Stop>,
    ) -> Result<bool, Stop> {
        for number in 0..self.count() {
            let expected = match usize::try_from(number).ok().and_then(|number| noted.get(number)) {
                Some(digest) => Ok(Some(*digest)),
                None => of_source(number),
            };
            // A read error is reported when the file is copied again.
            match (expected, of_copy(number)) {
                (Ok(Some(expected)), Ok(Some(found))) if expected == found => {}
                _ => return Ok(false),
            }
            on_progress(self.end_of(number + 1))?;
        }
        Ok(true)
    }
}

/// Returns the digest of a range, which `read` reads into the whole buffer, as much as it wants. `None`: the file ends in
/// it, or this build lacks BLAKE3.
pub(crate) fn digest<E>(
    range: Range<u64>,
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, E>,
) -> Result<Option<ChunkDigest>, E> {
    let Some(mut hasher) = ChunkHasher::new() else { return Ok(None) };
    let mut at = range.start;
    while at < range.end {
        // A buffer that is cut would not suit files that bypass the page cache.
        match read(buffer, at)? {
            0 => return Ok(None),
            bytes => {
                let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
                let bytes = bytes.min(left);
                hasher.update(&buffer[..bytes]);
                at += bytes as u64;
            }
        }
    }
    Ok(Some(hasher.finish()))
}

/// Chunks of a file on its way: those that are noted, and those that are hashed and not noted yet.
pub(crate) struct ChunkLog {
    pub(crate) chunks: Chunks,
    flush_bytes: u64,
    noted: u64,
    hashed: Vec<ChunkDigest>,
    since: Instant,
}

impl ChunkLog {
    pub(crate) fn new(sizes: ChunkSizes, size: u64) -> ChunkLog {
        ChunkLog {
            chunks: sizes.divide(size),
            flush_bytes: sizes.flush_bytes,
            noted: 0,
            hashed: Vec::new(),
            since: Instant::now(),
        }
    }

    /// Takes the chunks of an earlier run for noted, up to the first one of which the copy has another digest. Returns
    /// where they end. `on_progress` receives the offset.
    pub(crate) fn verify<E>(
        &mut self,
        expected: Vec<ChunkDigest>,
        mut of_copy: impl FnMut(u64) -> Result<Option<ChunkDigest>, E>,
        mut on_progress: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        for expected in expected {
            if of_copy(self.noted)? != Some(expected) {
                break;
            }
            self.noted += 1;
            on_progress(self.chunks.end_of(self.noted))?;
        }
        self.since = Instant::now();
        Ok(self.chunks.end_of(self.noted))
    }

    /// Returns the number of the next chunk to hash.
    pub(crate) fn next(&self) -> u64 {
        self.noted + self.hashed.len() as u64
    }

    /// Whether the copy has come so far that the next chunk is whole.
    pub(crate) fn is_next_whole(&self, offset: u64) -> bool {
        offset >= self.chunks.end_of(self.next() + 1)
    }

    /// Adds the digest of the next chunk.
    pub(crate) fn add(&mut self, digest: ChunkDigest) {
        self.hashed.push(digest);
    }

    /// Whether the hashed chunks should be flushed and noted now.
    pub(crate) fn is_due(&self) -> bool {
        let bytes = self.hashed.len() as u64 * self.chunks.each_bytes;
        bytes >= self.flush_bytes || (bytes > 0 && self.since.elapsed() >= FLUSH_AGE)
    }

    /// Returns the chunks that are not noted, and the number of the first one. `None`: there is none.
    pub(crate) fn unnoted(&self) -> Option<(u64, &[ChunkDigest])> {
        (!self.hashed.is_empty()).then_some((self.noted, &self.hashed))
    }

    /// Takes the hashed chunks for noted.
    pub(crate) fn set_noted(&mut self) {
        self.noted += self.hashed.len() as u64;
        self.hashed.clear();
        self.since = Instant::now();
    }

    /// Whether there is anything to resume.
    pub(crate) fn is_noted(&self) -> bool {
        self.noted > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: ChunkSizes = ChunkSizes { min_file_bytes: 20, chunk_bytes: 10, flush_bytes: 20 };

    #[test]
    fn huge_files_have_larger_chunks() {
        for (size, expected) in [
            (0, CHUNK_BYTES),
            (CHUNK_BYTES * MAX_CHUNKS, CHUNK_BYTES),
            (CHUNK_BYTES * MAX_CHUNKS + 1, 2 * CHUNK_BYTES),
            (u64::MAX, CHUNK_BYTES * ((1 << 48) / CHUNK_BYTES)),
        ] {
            assert_eq!(ChunkSizes::BUILT_IN.divide(size).each_bytes(), expected, "{size}");
        }
    }

    /// Digest of a part of these bytes.
    fn of(bytes: &[u8]) -> ChunkDigest {
        *blake3::hash(bytes).as_bytes()
    }

    #[test]
    fn chunks_cover_the_file_and_nothing_else() {
        for (size, ends) in
            [(0, &[][..]), (9, &[9]), (10, &[10]), (11, &[10, 11]), (30, &[10, 20, 30])]
        {
            let chunks = SIZES.divide(size);
            let found: Vec<_> = (0..).map_while(|number| chunks.range_of(number)).collect();
            assert_eq!(found.iter().map(|range| range.end).collect::<Vec<_>>(), ends, "{size}");
            assert_eq!(chunks.count(), ends.len() as u64, "{size}");
        }
    }

    #[test]
    fn chunks_are_due_in_time_and_numbers_go_on_where_an_earlier_run_ended() {
        let bytes = [7; 35];
        let of_copy = |number: u64| {
            let range = SIZES.divide(35).range_of(number);
            Ok::<_, ()>(range.map(|range| of(&bytes[range.start as usize..range.end as usize])))
        };
        let digests: Vec<_> = (0..4).map(|number| of_copy(number).unwrap().unwrap()).collect();
        for (noted, spoiled, expected) in [
            (0, None, 0),
            (2, None, 20),
            (4, None, 35),
            (4, Some(0), 0),
            (4, Some(2), 20),
            (4, Some(3), 30),
        ] {
            let mut log = ChunkLog::new(SIZES, 35);
            let mut given = digests[..noted].to_vec();
            if let Some(spoiled) = spoiled {
                given[spoiled] = [0; 32];
            }
            let mut reported = Vec::new();
            let end = log.verify(given, of_copy, |end| {
                reported.push(end);
                Ok(())
            });
            assert_eq!(end, Ok(expected), "{noted} {spoiled:?}");
            assert_eq!(reported.last().copied().unwrap_or(0), expected);
            assert_eq!(log.is_noted(), expected > 0);
            let first = expected.div_ceil(10);
            assert_eq!((log.next(), log.unnoted()), (first, None));
            assert!(!log.is_due());
            // The rest of it.
            digests[first as usize..].iter().for_each(|digest| log.add(*digest));
            assert_eq!(log.is_due(), 4 - first >= 2, "{noted} {spoiled:?}");
            let rest = &digests[first as usize..];
            assert_eq!(log.unnoted(), (!rest.is_empty()).then_some((first, rest)));
            log.set_noted();
            assert_eq!((log.unnoted(), log.next()), (None, 4));
        }
    }

    #[test]
    fn a_copy_is_whole_if_each_chunk_is_noted_or_that_of_the_source() {
        let chunks = SIZES.divide(25);
        let digests = [[1; 32], [2; 32], [3; 32]];
        let good = |number: u64| Ok::<_, ()>(digests.get(number as usize).copied());
        let (bad, fails) = (|_| Ok(Some([9; 32])), |_| Err(()));
        let is_whole = |noted: usize, of_source: &dyn Fn(u64) -> _, of_copy: &dyn Fn(u64) -> _| {
            chunks.are_whole::<(), ()>(&digests[..noted], of_source, of_copy, |_| Ok(())).unwrap()
        };
        assert!(is_whole(0, &good, &good) && is_whole(3, &fails, &good));
        assert!(is_whole(2, &good, &good));
        assert!(!is_whole(2, &bad, &good) && !is_whole(2, &fails, &good));
        assert!(!is_whole(3, &good, &bad) && !is_whole(3, &good, &fails));
        assert!(!is_whole(3, &good, &|_| Ok(None)));
        let stopped = chunks.are_whole::<(), ()>(&digests, good, good, |_| Err(()));
        assert_eq!(stopped, Err(()));
    }
}
