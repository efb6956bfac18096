//! What a filesystem does.

use std::path::PathBuf;

use super::{Answer, Device, Filesystem};

/// What the filesystem at a path does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Storage {
    /// The path that was asked about.
    pub path: PathBuf,
    /// The directory whose filesystem was tried: `path`, or the directory of that file.
    pub directory: PathBuf,
    /// The filesystem of `path`.
    pub filesystem: Filesystem,
    /// The block device below it.
    pub device: Device,
    /// Blocks can be shared between files (`FICLONE`).
    pub reflink: Answer,
    /// `copy_file_range(2)` works within the filesystem, and does this.
    pub copy_file_range: Answer<Sharing>,
    /// How `O_DIRECT` reads and writes must be aligned (`STATX_DIOALIGN`, Linux 6.1). `None` where
    /// the filesystem does not say. One that takes [`direct_write`](Storage::direct_write) all the
    /// same copies the bytes.
    pub direct_alignment: Option<Alignment>,
    /// An `O_DIRECT` write of one aligned block was accepted.
    pub direct_write: Answer,
    /// What was never written takes no space (`st_blocks`).
    pub holes: Answer,
    /// `SEEK_DATA` and `SEEK_HOLE` tell where the holes are.
    pub seek_hole: Answer,
    /// A hole can be made where data was (`FALLOC_FL_PUNCH_HOLE`).
    pub punch_hole: Answer,
    /// Blocks can be reserved (`fallocate(2)`).
    pub fallocate: Answer,
    /// A file can be without a name until it is complete (`O_TMPFILE`).
    pub unnamed_files: Answer,
    /// A rename can be made to replace nothing (`RENAME_NOREPLACE`).
    pub rename_noreplace: Answer,
}

/// What became of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Both files have the same blocks, as `FIEMAP` shows.
    Shared,
    /// Each has its own.
    Copied,
    /// The filesystem does not show its extents.
    Unknown,
}

impl Sharing {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Sharing::Shared => "shared",
            Sharing::Copied => "copied",
            Sharing::Unknown => "unknown",
        }
    }
}

/// Multiples that the memory, and the offset and length, of an `O_DIRECT` transfer must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alignment {
    /// Of the memory's address, in bytes.
    pub memory_bytes: u32,
    /// Of the offset in the file and of the length, in bytes.
    pub offset_bytes: u32,
}
