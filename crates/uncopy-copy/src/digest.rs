//! Computes digests. Cargo features decide which are available ([`Digest::is_built_in`]).

#[cfg(feature = "sha256")]
use std::fmt::Write as _;

use std::time::{Duration, Instant};

use uncopy_core::{DigestedFrom, Errno, SourceDigest};

use super::options::Digest;

pub(crate) const CHUNK_DIGEST_BYTES: usize = 32;

/// The BLAKE3 digest of a chunk.
pub(crate) type ChunkDigest = [u8; CHUNK_DIGEST_BYTES];

/// Streaming digest.
pub(crate) enum Hasher {
    #[cfg(feature = "blake3")]
    Blake3(Box<blake3::Hasher>),
    #[cfg(feature = "sha256")]
    Sha256(sha2::Sha256),
    Xxh3(Box<xxhash_rust::xxh3::Xxh3>),
}

impl Hasher {
    /// Begins a digest. `EOPNOTSUPP`: this build lacks it, which
    /// [`CopyOptions::check`](super::CopyOptions::check) reports earlier.
    pub(crate) fn new(algorithm: Digest) -> Result<Hasher, Errno> {
        match algorithm {
            #[cfg(feature = "blake3")]
            Digest::Blake3 => Ok(Hasher::Blake3(Box::default())),
            #[cfg(feature = "sha256")]
            Digest::Sha256 => Ok(Hasher::Sha256(sha2::Digest::new())),
            Digest::Xxh3 => Ok(Hasher::Xxh3(Box::default())),
            #[cfg(not(all(feature = "blake3", feature = "sha256")))]
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            #[cfg(feature = "blake3")]
            Hasher::Blake3(hasher) => {
                hasher.update(bytes);
            }
            #[cfg(feature = "sha256")]
            Hasher::Sha256(hasher) => sha2::Digest::update(hasher, bytes),
            Hasher::Xxh3(hasher) => hasher.update(bytes),
        }
    }

    /// Adds the first `size` bytes of a file, or as many as it has. `read_at` reads at an offset; `on_progress` gets the
    /// number of bytes done. Both may end it.
    pub(crate) fn update_from<E>(
        &mut self,
        size: u64,
        buffer: &mut [u8],
        mut read_at: impl FnMut(&mut [u8], u64) -> Result<usize, E>,
        mut on_progress: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done = 0;
        while done < size {
            let read = read_at(buffer, done)?;
            if read == 0 {
                break;
            }
            // The last block may reach beyond `size` if the file grew.
            let n = (read as u64).min(size - done);
            self.update(&buffer[..n as usize]);
            done += n;
            on_progress(done)?;
        }
        Ok(())
    }

    /// Returns the hexadecimal digest.
    pub(crate) fn finish(self) -> String {
        match self {
            #[cfg(feature = "blake3")]
            Hasher::Blake3(hasher) => hasher.finalize().to_hex().to_string(),
            #[cfg(feature = "sha256")]
            Hasher::Sha256(hasher) => hexadecimal(&sha2::Digest::finalize(hasher)),
            Hasher::Xxh3(hasher) => format!("{:032x}", hasher.digest128()),
        }
    }
}

/// Returns the digest of bytes that are in memory.
pub(crate) fn of_bytes(
    algorithm: Digest,
    bytes: &[u8],
    from: DigestedFrom,
) -> Result<SourceDigest, Errno> {
    let begin = Instant::now();
    let mut hasher = Hasher::new(algorithm)?;
    hasher.update(bytes);
    let (algorithm, value) = (algorithm.name(), hasher.finish());
    Ok(SourceDigest { algorithm, value, from, duration: begin.elapsed() })
}

/// Digest of the bytes of a file that pass through the program in their order.
pub(crate) struct StreamedDigest {
    algorithm: Digest,
    hasher: Hasher,
    /// Number of bytes hashed.
    end: u64,
    duration: Duration,
}

/// Zeros that stand for a part of a hole.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl StreamedDigest {
    pub(crate) fn new(algorithm: Digest) -> Result<StreamedDigest, Errno> {
        let hasher = Hasher::new(algorithm)?;
        Ok(StreamedDigest { algorithm, hasher, end: 0, duration: Duration::ZERO })
    }

    /// Adds bytes at `offset`. Bytes behind a gap are left out, and the digest stays incomplete.
    pub(crate) fn add(&mut self, offset: u64, bytes: &[u8]) {
        if offset == self.end {
            let begin = Instant::now();
            self.hasher.update(bytes);
            self.end += bytes.len() as u64;
            self.duration += begin.elapsed();
        }
    }

    /// Adds a part of the hole `start..end`; returns where that part ends.
    pub(crate) fn add_hole(&mut self, start: u64, end: u64) -> u64 {
        /// Hashed between two reports of progress.
        const PART_BYTES: u64 = 64 << 20;
        let part_end = end.min(start + PART_BYTES);
        let mut at = start;
        while at < part_end && at == self.end {
            let zeros = (part_end - at).min(ZEROS.len() as u64);
            self.add(at, &ZEROS[..zeros as usize]);
            at += zeros;
        }
        part_end
    }

    /// Returns the digest, if these are all bytes of a file of this size.
    pub(crate) fn finish(self, size: u64) -> Option<SourceDigest> {
        let StreamedDigest { algorithm, hasher, end, duration } = self;
        (end == size).then(|| SourceDigest {
            algorithm: algorithm.name(),
            value: hasher.finish(),
            from: DigestedFrom::Streamed,
            duration,
        })
    }
}

#[cfg(feature = "sha256")]
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Digest, Hasher, StreamedDigest};

    #[test]
    fn a_gap_leaves_the_digest_incomplete_and_a_hole_does_not() {
        let digest = |pieces: &[(u64, &[u8])], holes: &[(u64, u64)], size| {
            let mut digest = StreamedDigest::new(Digest::Xxh3).unwrap();
            pieces.iter().for_each(|(offset, bytes)| digest.add(*offset, bytes));
            for (start, end) in holes {
                let mut at = *start;
                while at < *end {
                    at = digest.add_hole(at, *end);
                }
            }
            digest.finish(size).map(|digest| digest.value)
        };
        let whole = digest(&[(0, b"abc")], &[], 3);
        assert_eq!(whole.as_deref(), Some("06b05ab6733a618578af5f94892f3950"));
        assert_eq!(digest(&[(0, b"a"), (1, b"bc")], &[], 3), whole);
        assert_eq!(digest(&[(0, b"a"), (2, b"c")], &[], 3), None);
        assert_eq!(digest(&[(1, b"bc"), (0, b"a")], &[], 3), None);
        let long = vec![0; 100 << 10];
        let zeros = digest(&[(0, b"a"), (1, &long)], &[], 1 + (100 << 10));
        assert!(zeros.is_some());
        assert_eq!(digest(&[(0, b"a")], &[(1, 1 + (100 << 10))], 1 + (100 << 10)), zeros);
        assert_eq!(digest(&[], &[(1, 10)], 10), None);
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        for (algorithm, expected) in [
            (Digest::Blake3, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
            (Digest::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (Digest::Xxh3, "06b05ab6733a618578af5f94892f3950"),
        ] {
            let Ok(mut hasher) = Hasher::new(algorithm) else {
                assert!(!algorithm.is_built_in());
                continue;
            };
            assert!(algorithm.is_built_in());
            hasher.update(b"a");
            hasher.update(b"bc");
            assert_eq!(hasher.finish(), expected, "{algorithm:?}");
        }
    }
}
