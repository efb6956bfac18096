//! Streaming digests. Cargo features decide which are available ([`Digest::is_built_in`]).

#[cfg(feature = "sha256")]
use std::fmt::Write as _;

#[cfg(not(all(feature = "blake3", feature = "sha256")))]
use uncopy_core::Errno;
use uncopy_os::Sys;

use super::options::Digest;

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
    pub(crate) fn new(algorithm: Digest) -> Sys<Hasher> {
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

#[cfg(feature = "sha256")]
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Digest, Hasher};

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
