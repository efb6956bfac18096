//! Trust between two ends of one test.

use uncopy::channel::TrustedPeer;

/// Promises that the peer keeps its hands off what it has sent. Only for ends whose peer is a `PayloadChannel` of the
/// same test.
#[must_use]
pub fn trusted_peer() -> TrustedPeer {
    // SAFETY: a `PayloadChannel` writes to a slot of its pool through a draft alone, and makes none of a slot that
    // it has lent.
    unsafe { TrustedPeer::promise() }
}
