//! Digests the chunks of a file on its way through the program (pure).

use crate::chunk_hasher::ChunkHasher;
use crate::chunks::ChunkLog;

/// Digests the chunks of a file whose bytes come in order.
pub(crate) struct ChunkStream {
    at: u64,
    /// Digest of that chunk; `None`: this build lacks BLAKE3, and notes no chunks.
    hasher: Option<ChunkHasher>,
}

impl ChunkStream {
    /// Begins at the next chunk of the log.
    pub(crate) fn new(log: &ChunkLog) -> ChunkStream {
        ChunkStream { at: log.chunks.end_of(log.next()), hasher: ChunkHasher::new() }
    }

    /// Adds bytes, and the chunks that end in them to the log. What is behind the size of the file counts for nothing.
    pub(crate) fn add(&mut self, mut bytes: &[u8], log: &mut ChunkLog) {
        let Some(hasher) = &mut self.hasher else { return };
        while let Some(chunk) = log.chunks.range_of(log.next()) {
            let left = usize::try_from(chunk.end - self.at).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(left.min(bytes.len()));
            hasher.update(now);
            self.at += now.len() as u64;
            if self.at < chunk.end {
                return;
            }
            log.add(hasher.finish());
            bytes = rest;
        }
    }

    /// Adds the zeros of a hole that ends at this offset.
    pub(crate) fn add_zeros_to(&mut self, end: u64, log: &mut ChunkLog) {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut left = end.saturating_sub(self.at);
        while left > 0 {
            let bytes = left.min(ZEROS.len() as u64);
            self.add(&ZEROS[..usize::try_from(bytes).unwrap_or(ZEROS.len())], log);
            left -= bytes;
        }
    }
}

#[cfg(all(test, feature = "blake3"))]
mod tests {
    use super::*;
    use crate::chunks::ChunkSizes;

    const SIZES: ChunkSizes = ChunkSizes { min_file_bytes: 20, chunk_bytes: 10, flush_bytes: 20 };

    fn of(bytes: &[u8]) -> [u8; 32] {
        *blake3::hash(bytes).as_bytes()
    }

    #[test]
    fn a_stream_has_the_digests_of_the_chunks_however_its_bytes_come() {
        let bytes: Vec<u8> = (1..=37).collect();
        for piece in [1, 3, 9, 10, 11, 20, 37] {
            let mut log = ChunkLog::new(SIZES, 35);
            let mut stream = ChunkStream::new(&log);
            for piece in bytes.chunks(piece) {
                stream.add(piece, &mut log);
            }
            let expected = [&bytes[..10], &bytes[10..20], &bytes[20..30], &bytes[30..35]].map(of);
            assert_eq!(log.unnoted(), Some((0, &expected[..])), "{piece}");
        }
        // With a hole from 7 to 28.
        let mut log = ChunkLog::new(SIZES, 35);
        let mut stream = ChunkStream::new(&log);
        stream.add(&[1; 7], &mut log);
        stream.add_zeros_to(28, &mut log);
        stream.add(&[2; 7], &mut log);
        let with_hole = [&[1; 7][..], &[0; 21], &[2; 7]].concat();
        let expected: Vec<_> = with_hole.chunks(10).map(of).collect();
        assert_eq!(log.unnoted(), Some((0, &expected[..])));
    }
}
