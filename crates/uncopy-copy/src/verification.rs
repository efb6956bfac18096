//! Compares the digests of source and copy, and finds why they may differ.

use std::path::Path;

use super::options::Digest;
use super::pause::Stopwatch;
use uncopy_core::{
    DigestedFrom, MappedWrites, SourceDigest, SourceDoubt, Verification, VerifiedFrom,
};
use uncopy_core::{Error, Reason, Receipt, Result};

/// Compares the digests of both sides of a copy to `destination`.
pub(crate) fn compare(
    algorithm: Digest,
    expected: String,
    found: String,
    from: VerifiedFrom,
    begin: Stopwatch<'_>,
    destination: impl AsRef<Path>,
) -> Result<Verification> {
    let algorithm = algorithm.name();
    if expected != found {
        let reason = Reason::VerificationFailed { algorithm, expected, found, doubt: None };
        return Err(Error::new("verify", destination, reason));
    }
    Ok(Verification { algorithm, digest: found, from, duration: begin.elapsed() })
}

/// Why a source that was read twice may have had other contents the second time.
pub(crate) fn doubt(receipt: &Receipt) -> Option<SourceDoubt> {
    match receipt.mapped_writes {
        _ if receipt.source_changed => Some(SourceDoubt::Changed),
        MappedWrites::NoneSeen => None,
        MappedWrites::Seen => Some(SourceDoubt::Changed),
        MappedWrites::Unknown(why) => Some(SourceDoubt::Unseen(why)),
    }
}

/// Returns the digest of what was read of the source, if it is of this algorithm: the source is not read again.
pub(crate) fn streamed(receipt: &Receipt, algorithm: Digest) -> Option<String> {
    let streamed = receipt.source_digest.as_ref();
    streamed.filter(|known| known.algorithm == algorithm.name()).map(|known| known.value.clone())
}

/// Returns the digest that a verification by the same algorithm has read from the copy.
pub(crate) fn read_from_copy(receipt: &Receipt, algorithm: Digest) -> Option<SourceDigest> {
    let verified = receipt.verification.as_ref();
    let verified = verified.filter(|v| v.algorithm == algorithm.name() && !v.digest.is_empty())?;
    Some(SourceDigest {
        algorithm: verified.algorithm,
        value: verified.digest.clone(),
        from: DigestedFrom::ReadFromCopy,
        duration: verified.duration,
    })
}
