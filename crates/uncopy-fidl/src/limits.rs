//! Limits of the format and of channels.

use crate::error::{Error, Result, Rule};

/// Maximum number of bytes in a message, header included (`ZX_CHANNEL_MAX_MSG_BYTES`).
pub const MAX_BYTES: usize = 65_536;
/// Maximum number of handles in a message (`ZX_CHANNEL_MAX_MSG_HANDLES`).
pub const MAX_HANDLES: usize = 64;
/// Maximum number of regions in one write (`ZX_CHANNEL_MAX_MSG_IOVECS`).
pub const MAX_REGIONS: usize = 8192;
/// Maximum nesting depth of out-of-line objects.
pub const MAX_DEPTH: usize = 32;

/// Number of out-of-line objects around the current one.
///
/// Bodies of vectors and strings, boxed structs, the vector of a table and every envelope count
/// one each; an envelope whether or not its payload is inline, as in Fuchsia's bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth(u8);

impl Depth {
    /// Depth of the message's root object.
    pub(crate) const ROOT: Depth = Depth(0);

    /// Returns the next depth.
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

/// Checks that a message of `length` bytes may grow by `further`.
///
/// # Errors
/// [`Rule::MessageTooLong`].
#[inline]
pub(crate) fn check_length(length: usize, further: usize) -> Result<()> {
    let bytes = length.saturating_add(further);
    if bytes > MAX_BYTES { Err(Error::new(Rule::MessageTooLong { bytes })) } else { Ok(()) }
}
