//! What the format and channels allow at most.

use crate::error::{Error, Result, Rule};

/// Most bytes of a message, header included (`ZX_CHANNEL_MAX_MSG_BYTES`).
pub const MAX_BYTES: usize = 65_536;
/// Most handles of a message (`ZX_CHANNEL_MAX_MSG_HANDLES`).
pub const MAX_HANDLES: usize = 64;
/// Most regions of one write (`ZX_CHANNEL_MAX_MSG_IOVECS`).
pub const MAX_REGIONS: usize = 8192;
/// Most objects out of line within one another.
pub const MAX_DEPTH: usize = 32;

/// How many objects out of line surround what is being encoded or decoded.
///
/// Bodies of vectors and strings, boxed structs, the vector of a table and every envelope count
/// one each; an envelope whether or not its payload is inline, as in Fuchsia's bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth(u8);

impl Depth {
    /// Of the message's own object.
    pub(crate) const ROOT: Depth = Depth(0);

    /// One further in.
    ///
    /// # Errors
    /// [`Rule::TooDeep`].
    #[inline]
    pub fn deeper(self) -> Result<Depth> {
        if usize::from(self.0) < MAX_DEPTH {
            Ok(Depth(self.0 + 1))
        } else {
            Err(Error::new(Rule::TooDeep))
        }
    }
}

/// A message of `length` bytes grows by `further`.
///
/// # Errors
/// [`Rule::MessageTooLong`].
#[inline]
pub(crate) fn check_length(length: usize, further: usize) -> Result<()> {
    let bytes = length.saturating_add(further);
    if bytes > MAX_BYTES { Err(Error::new(Rule::MessageTooLong { bytes })) } else { Ok(()) }
}
