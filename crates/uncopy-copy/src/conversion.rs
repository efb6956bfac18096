//! Conversion of one file's contents: decided by [`crate::compress`], carried along with the copy.

use std::ffi::OsString;

use super::options::Level;
use uncopy_core::Compression;

/// Transformation of one file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Copies the bytes unchanged.
    Leave,
    Compress(Level),
    Decompress,
}

/// Decision about one file, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) conversion: Conversion,
    /// The copy's name, if it differs from the given one.
    pub(crate) name: Option<OsString>,
    pub(crate) compression: Compression,
}

/// Whether the bytes are compressed or decompressed.
pub(crate) fn is_transformed(chosen: Option<&Chosen>) -> bool {
    chosen.is_some_and(|chosen| chosen.conversion != Conversion::Leave)
}
