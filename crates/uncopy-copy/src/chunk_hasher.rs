//! Digests a chunk of a large file, by BLAKE3.

use super::digest::ChunkDigest;

/// Digest of a chunk under way.
pub(crate) struct ChunkHasher(blake3::Hasher);

impl ChunkHasher {
    /// Begins a digest. `None`: this build lacks BLAKE3.
    pub(crate) fn new() -> Option<ChunkHasher> {
        Some(ChunkHasher(blake3::Hasher::new()))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of the bytes so far, and begins the next.
    pub(crate) fn finish(&mut self) -> ChunkDigest {
        let digest = *self.0.finalize().as_bytes();
        self.0.reset();
        digest
    }
}
