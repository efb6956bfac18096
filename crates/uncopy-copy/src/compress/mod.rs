//! Compressing on the way, where it pays, and decompressing.
//!
//! Whether it pays is decided before anything is written: a first guess by magic bytes and name, then
//! a sample that is compressed. What is left as it is goes the cheapest way there is.

#[cfg_attr(not(feature = "compress"), path = "no_codec.rs")]
mod codec;
mod decide;
mod guess;
mod read;
mod table;
mod write;

#[cfg(feature = "trees")]
pub(crate) use decide::other_origin;
pub(crate) use decide::{Chosen, Wanted, choose};
pub(crate) use read::{Reader, Trouble};
#[cfg(all(fuzzing, feature = "compress"))]
pub use read::{fuzz, fuzz_table};
pub(crate) use write::write;

use super::options::Level;

/// What is done to the bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing.
    Leave,
    Compress(Level),
    Decompress,
}

/// What one call to the decoder did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// Bytes of the input.
    read: usize,
    /// Bytes of the output.
    written: usize,
    /// The frame is complete.
    ended: bool,
}
