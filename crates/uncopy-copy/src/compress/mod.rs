//! Compresses files while they are copied, where it pays, and decompresses them.
//!
//! The decision falls before anything is written: first bytes, name and earlier files say what to expect,
//! and how large a sample has to be that is compressed. A file that is left as it is takes the cheapest
//! mechanism.

#[cfg_attr(not(feature = "compress"), path = "no_codec.rs")]
mod codec;
mod decide;
mod guess;
mod kinds;
mod read;
mod sample;
mod table;
mod write;

#[cfg(feature = "trees")]
pub(crate) use decide::other_origin;
pub(crate) use decide::{Wanted, choose};
pub(crate) use kinds::Kinds;
pub(crate) use read::{Reader, Trouble};
#[cfg(all(fuzzing, feature = "compress"))]
pub use read::{fuzz, fuzz_table};
pub(crate) use write::write;

use super::options::Level;

/// Result of one call to the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DecodeStep {
    /// Bytes consumed from the input.
    read: usize,
    /// Bytes written to the output.
    written: usize,
    /// The frame is complete.
    ended: bool,
}
