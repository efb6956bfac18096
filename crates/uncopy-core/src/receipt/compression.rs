//! What was done about compression, and why.

use std::fmt;

use crate::codes;

/// Compression of one file, which was asked for: what spoke for and against it, and what was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// What was done.
    pub action: CompressionAction,
    /// Why; displayed for people: "a sample became 31 % of its size".
    pub reason: CompressionReason,
    /// The first guess: what the source is compressed by already, and what says so.
    pub guess: Option<CompressionGuess>,
    /// A quick trial of compressing, if there was one.
    pub sample: Option<CompressionSample>,
    /// Length of the source in bytes. [`Receipt::bytes`](super::Receipt::bytes) is that of the copy.
    pub source_bytes: u64,
    /// Frames of zstd that were written or read.
    pub frames: u64,
}

/// What was done about compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionAction {
    /// The copy is compressed with zstd at this level.
    Compressed {
        /// 1 to 22.
        level: u8,
    },
    /// The copy holds what the source decompresses to.
    Decompressed,
    /// The copy is as the source is.
    Left,
}

impl CompressionAction {
    /// The name in receipts: `compressed`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CompressionAction::Compressed { .. } => "compressed",
            CompressionAction::Decompressed => "decompressed",
            CompressionAction::Left => "left",
        }
    }
}

/// What a file seems to be compressed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionGuess {
    /// The format: "gzip", "jpeg".
    pub format: &'static str,
    /// What says so.
    pub by: GuessedBy,
}

/// What a guess goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuessedBy {
    /// The file's first bytes.
    Magic,
    /// Its name.
    Extension,
}

impl GuessedBy {
    /// The name in receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GuessedBy::Magic => "magic",
            GuessedBy::Extension => "extension",
        }
    }
}

/// A trial of compressing some pieces of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionSample {
    /// Bytes that were tried.
    pub bytes: u64,
    /// What they became.
    pub compressed_bytes: u64,
}

/// What spoke for or against compressing a file, or decompressing it.
///
/// `Display` says it for people; [`code`](CompressionReason::code) is for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressionReason {
    /// A sample became so much smaller that compressing pays.
    Pays {
        /// Per cent of its size that it became.
        percent: u64,
    },
    /// A sample did not become smaller by enough.
    DoesNotPay {
        /// Per cent of its size that it became.
        percent: u64,
    },
    /// The source is compressed with zstd already.
    AlreadyCompressed,
    /// The name of the copy says that it is compressed.
    CopyNamed,
    /// Nobody knows the size of the source before its end is met.
    SizeUnknown,
    /// The source has no bytes.
    Empty,
    /// The source has no data.
    OneHole,
    /// The name of the source says that it is compressed.
    SourceNamed,
    /// The name of the source does not say that it is compressed.
    SourceNotNamed,
    /// The source begins as a file of zstd does.
    BeginsAsZstd,
    /// The source is not compressed with zstd.
    NotCompressed,
}

codes! { CompressionReason {
    CompressionReason::Pays { .. } => "pays",
    CompressionReason::DoesNotPay { .. } => "does_not_pay",
    CompressionReason::AlreadyCompressed => "already_compressed",
    CompressionReason::CopyNamed => "copy_named",
    CompressionReason::SizeUnknown => "size_unknown",
    CompressionReason::Empty => "empty",
    CompressionReason::OneHole => "one_hole",
    CompressionReason::SourceNamed => "source_named",
    CompressionReason::SourceNotNamed => "source_not_named",
    CompressionReason::BeginsAsZstd => "begins_as_zstd",
    CompressionReason::NotCompressed => "not_compressed",
} }

impl fmt::Display for CompressionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompressionReason::Pays { percent } => {
                return write!(f, "a sample became {percent} % of its size");
            }
            CompressionReason::DoesNotPay { percent } => {
                return write!(f, "a sample became {percent} % of its size, which does not pay");
            }
            CompressionReason::AlreadyCompressed => "it is compressed with zstd already",
            CompressionReason::CopyNamed => "the copy's name ends in .zst",
            CompressionReason::SizeUnknown => "its size is not known before its end",
            CompressionReason::Empty => "there is nothing to compress",
            CompressionReason::OneHole => "it is one hole",
            CompressionReason::SourceNamed => "its name ends in .zst",
            CompressionReason::SourceNotNamed => "its name does not end in .zst",
            CompressionReason::BeginsAsZstd => "it begins as a file of zstd does",
            CompressionReason::NotCompressed => "it is not compressed with zstd",
        })
    }
}
