//! Compression in receipts: the action and its reason.

use std::fmt;

use crate::codes;

/// Compression of one file, if requested: findings, action and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// The action.
    pub action: CompressionAction,
    /// The reason; displayed for users: "a sample became 31 % of its size".
    pub reason: CompressionReason,
    /// First guess: the format that the source seems to be compressed with, and the evidence.
    pub guess: Option<CompressionGuess>,
    /// Expectation before anything was compressed, which decides how much is sampled.
    pub expected: Option<CompressionExpectation>,
    /// Trial compression of a sample, if there was one.
    pub sample: Option<CompressionSample>,
    /// Length of the source in bytes. [`Receipt::bytes`](super::Receipt::bytes) is the length of
    /// the copy.
    pub source_bytes: u64,
    /// Number of zstd frames written or read.
    pub frames: u64,
}

impl Compression {
    /// Whether the expectation was right, as far as a sample showed. `None`: nothing was expected, or
    /// nothing was sampled.
    #[must_use]
    pub const fn expectation_held(&self) -> Option<bool> {
        match (self.expected, self.reason) {
            (Some(expected), CompressionReason::Pays { .. }) => Some(expected.shrinks),
            (Some(expected), CompressionReason::DoesNotPay { .. }) => Some(!expected.shrinks),
            _ => None,
        }
    }
}

/// Action taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionAction {
    /// The copy is compressed with zstd.
    Compressed {
        /// Compression level, 1 to 22.
        level: u8,
    },
    /// The copy holds the decompressed source.
    Decompressed,
    /// The copy has the same bytes as the source.
    Left,
}

impl CompressionAction {
    /// Name in receipts: `compressed`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CompressionAction::Compressed { .. } => "compressed",
            CompressionAction::Decompressed => "decompressed",
            CompressionAction::Left => "left",
        }
    }
}

/// Format that a file seems to be compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionGuess {
    /// The format: "gzip", "jpeg".
    pub format: &'static str,
    /// The evidence.
    pub by: GuessedBy,
}

/// Evidence for a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuessedBy {
    /// The first bytes of the file.
    Magic,
    /// The name of the file.
    Extension,
}

impl GuessedBy {
    /// Name in receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GuessedBy::Magic => "magic",
            GuessedBy::Extension => "extension",
        }
    }
}

/// Expectation of whether compression pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionExpectation {
    /// Whether the file is expected to become smaller by enough.
    pub shrinks: bool,
    /// The evidence.
    pub by: ExpectedBy,
}

/// Evidence for an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpectedBy {
    /// The first bytes are those of a format.
    Magic,
    /// The first bytes are text.
    Text,
    /// The name says that the file is compressed, and its first bytes do not contradict.
    Extension,
    /// Samples of earlier files of the job that begin or are named alike.
    EarlierFiles,
}

impl ExpectedBy {
    /// Name in receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ExpectedBy::Magic => "magic",
            ExpectedBy::Text => "text",
            ExpectedBy::Extension => "extension",
            ExpectedBy::EarlierFiles => "earlier_files",
        }
    }
}

/// Trial compression of some pieces of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionSample {
    /// Bytes compressed.
    pub bytes: u64,
    /// Their compressed size.
    pub compressed_bytes: u64,
}

/// Reason for or against compressing or decompressing a file.
///
/// `Display` is for users; [`code`](CompressionReason::code) is for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressionReason {
    /// A sample became small enough for compression to pay.
    Pays {
        /// Compressed size of the sample in per cent.
        percent: u64,
    },
    /// A sample did not become small enough.
    DoesNotPay {
        /// Compressed size of the sample in per cent.
        percent: u64,
    },
    /// The first bytes or the name say that the source is compressed, and nothing was sampled.
    SeemsCompressed,
    /// The source is already compressed with zstd.
    AlreadyCompressed,
    /// The name of the copy says that it is compressed.
    CopyNamed,
    /// The size of the source is unknown until its end is reached.
    SizeUnknown,
    /// The source is empty.
    Empty,
    /// The source consists of one hole.
    OneHole,
    /// The name of the source says that it is compressed.
    SourceNamed,
    /// The name of the source does not say that it is compressed.
    SourceNotNamed,
    /// The source begins like a zstd file.
    BeginsAsZstd,
    /// The source is not compressed with zstd.
    NotCompressed,
}

codes! { CompressionReason {
    CompressionReason::Pays { .. } => "pays",
    CompressionReason::DoesNotPay { .. } => "does_not_pay",
    CompressionReason::SeemsCompressed => "seems_compressed",
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
            CompressionReason::SeemsCompressed => "it seems to be compressed already",
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
