//! Features of a filesystem.

use std::path::PathBuf;

use super::{Answer, Device, Filesystem};

/// Features of the filesystem at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Storage {
    /// The path given by the caller.
    pub path: PathBuf,
    /// The directory used for the trials: `path`, or the directory of that file.
    pub directory: PathBuf,
    /// The filesystem of `path`.
    pub filesystem: Filesystem,
    /// The block device below it.
    pub device: Device,
    /// Whether files can share blocks (`FICLONE`).
    pub reflink: Answer,
    /// Whether `copy_file_range(2)` works within the filesystem, and its effect on blocks.
    pub copy_file_range: Answer<Sharing>,
    /// Alignment of `O_DIRECT` reads and writes (`STATX_DIOALIGN`, Linux 6.1). `None` where the filesystem does
    /// not report it. If [`direct_write`](Storage::direct_write) works nevertheless, it copies the bytes.
    pub direct_alignment: Option<Alignment>,
    /// Whether an `O_DIRECT` write of one aligned block works.
    pub direct_write: Answer,
    /// Whether ranges that were never written take no space (`st_blocks`).
    pub holes: Answer,
    /// Whether `SEEK_DATA` and `SEEK_HOLE` find holes.
    pub seek_hole: Answer,
    /// Whether data can be replaced by a hole (`FALLOC_FL_PUNCH_HOLE`).
    pub punch_hole: Answer,
    /// Whether blocks can be reserved (`fallocate(2)`).
    pub fallocate: Answer,
    /// Whether files can be created without a name (`O_TMPFILE`).
    pub unnamed_files: Answer,
    /// Whether a rename can fail instead of replacing a file (`RENAME_NOREPLACE`).
    pub rename_noreplace: Answer,
}

/// Effect of a copy on blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Both files have the same blocks, according to `FIEMAP`.
    Shared,
    /// Each file has its own blocks.
    Copied,
    /// The filesystem does not report its extents.
    Unknown,
}

impl Sharing {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Sharing::Shared => "shared",
            Sharing::Copied => "copied",
            Sharing::Unknown => "unknown",
        }
    }
}

/// Alignment that an `O_DIRECT` transfer requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alignment {
    /// Alignment of the memory's address, in bytes.
    pub memory_bytes: u32,
    /// Alignment of the file offset and of the length, in bytes.
    pub offset_bytes: u32,
}
