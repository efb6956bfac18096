//! Receipts: bytes by mechanism and by cost, and why no cheaper mechanism was used.

mod compression;
mod note;
mod refusal;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Decision;

pub use compression::{
    Compression, CompressionAction, CompressionExpectation, CompressionGuess, CompressionReason,
    CompressionSample, ExpectedBy, GuessedBy,
};
pub use note::{MetadataPart, Note};
pub use refusal::{Exclusion, Obstacle, Refusal, RefusalReason};

/// A mechanism that moves the bytes of a file, named after the system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// `FICLONE`: the files share their extents (`ioctl_ficlone(2)`).
    Reflink,
    /// `copy_file_range(2)`.
    CopyFileRange,
    /// `O_DIRECT` reads and writes of registered buffers through io_uring (`io_uring(7)`): the source stays out of
    /// the page cache as well.
    DirectRing,
    /// `O_DIRECT` writes of the source's own mapped page-cache pages.
    Direct,
    /// `sendfile(2)`.
    Sendfile,
    /// `splice(2)` through a pipe.
    Splice,
    /// `read(2)` and `write(2)` through a buffer of the program.
    ReadWrite,
    /// macOS, `fclonefileat(2)`: the files share their blocks.
    Clonefile,
    /// macOS, `fcopyfile(3)`: the system's library reads and writes in the program's process.
    Fcopyfile,
    /// Windows, `FSCTL_DUPLICATE_EXTENTS_TO_FILE` (ReFS, Dev Drive): the files share their clusters.
    BlockClone,
    /// Windows, `CopyFile2`, which may share, and does not say so; the extents of the copy may.
    CopyFile2,
}

impl Mechanism {
    /// Every mechanism of every system: those of Linux first, cheapest first.
    pub const ALL: [Mechanism; 11] = [
        Mechanism::Reflink,
        Mechanism::CopyFileRange,
        Mechanism::DirectRing,
        Mechanism::Direct,
        Mechanism::Sendfile,
        Mechanism::Splice,
        Mechanism::ReadWrite,
        Mechanism::Clonefile,
        Mechanism::Fcopyfile,
        Mechanism::BlockClone,
        Mechanism::CopyFile2,
    ];

    /// Every mechanism of Linux, cheapest first.
    pub const LINUX: [Mechanism; 7] = match Mechanism::ALL.first_chunk() {
        Some(first) => *first,
        None => unreachable!(),
    };

    /// Name in receipts: `copy_file_range`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Reflink => "reflink",
            Mechanism::CopyFileRange => "copy_file_range",
            Mechanism::DirectRing => "direct_ring",
            Mechanism::Direct => "direct",
            Mechanism::Sendfile => "sendfile",
            Mechanism::Splice => "splice",
            Mechanism::ReadWrite => "read_write",
            Mechanism::Clonefile => "clonefile",
            Mechanism::Fcopyfile => "fcopyfile",
            Mechanism::BlockClone => "block_clone",
            Mechanism::CopyFile2 => "copy_file2",
        }
    }

    /// Whether who names it alone means `other` as well: `Direct` is every way past the page cache.
    #[must_use]
    pub fn includes(self, other: Mechanism) -> bool {
        self == other || (self, other) == (Mechanism::Direct, Mechanism::DirectRing)
    }

    /// Whether it writes past the page cache.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Mechanism::Direct | Mechanism::DirectRing)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Cost of moving a byte, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing to move: a hole in the source is a hole in the destination.
    Hole,
    /// Source and destination share the blocks (reflink).
    Shared,
    /// The device read the pages themselves; no processor copied them.
    Moved,
    /// The kernel copied from page to page.
    KernelCopied,
    /// The bytes were read into a buffer of this program, were zeros, and became a hole.
    Zeros,
    /// The bytes went through a buffer of this program.
    UserCopied,
    /// The kernel does not say which of the above it was.
    Unknown,
}

impl Cost {
    /// Every cost class, cheapest first.
    pub const ALL: [Cost; 7] = [
        Cost::Hole,
        Cost::Shared,
        Cost::Moved,
        Cost::KernelCopied,
        Cost::Zeros,
        Cost::UserCopied,
        Cost::Unknown,
    ];

    /// Name in receipts: `kernel_copied`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cost::Hole => "hole",
            Cost::Shared => "shared",
            Cost::Moved => "moved",
            Cost::KernelCopied => "kernel_copied",
            Cost::Zeros => "zeros",
            Cost::UserCopied => "user_copied",
            Cost::Unknown => "unknown",
        }
    }

    /// Whether no processor copied the bytes: a hole of the source, shared or moved.
    #[must_use]
    pub const fn is_zero_copy(self) -> bool {
        matches!(self, Cost::Hole | Cost::Shared | Cost::Moved)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes moved by one mechanism at one cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// The mechanism used.
    pub mechanism: Mechanism,
    /// Number of bytes.
    pub bytes: u64,
    /// Their cost.
    pub cost: Cost,
}

/// Source of the destination's bytes during verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifiedFrom {
    /// The device: `O_DIRECT` reads that bypass the page cache.
    Device,
    /// Possibly the page cache (tmpfs, loop devices, network filesystems).
    Cache,
    /// Nothing was read: both files map the same extents, and the caller accepts that as proof.
    SharedExtents,
}

impl VerifiedFrom {
    /// Name in receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            VerifiedFrom::Device => "device",
            VerifiedFrom::Cache => "cache",
            VerifiedFrom::SharedExtents => "shared_extents",
        }
    }
}

/// A successful verification. A failed one is an error and not a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// Name of the digest: `blake3`, `sha256`, `xxh3`.
    pub algorithm: &'static str,
    /// Digest of both files, in lowercase hexadecimal. Empty for [`VerifiedFrom::SharedExtents`],
    /// which reads nothing.
    pub digest: String,
    /// Source of the destination's bytes.
    pub from: VerifiedFrom,
    /// Duration of the verification, included in [`Receipt::duration`].
    pub duration: Duration,
}

/// Origin of the bytes of a [`SourceDigest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DigestedFrom {
    /// The program's memory: every byte passed through it on its way to the copy, and holes count as
    /// zeros.
    Streamed,
    /// The copy, read through the descriptor that it was written by, before it got its name.
    ReadFromCopy,
}

impl DigestedFrom {
    /// Name in receipts: `read_from_copy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DigestedFrom::Streamed => "streamed",
            DigestedFrom::ReadFromCopy => "read_from_copy",
        }
    }
}

/// Digest of the bytes that were copied. The source is not read a second time for it.
///
/// It proves nothing about what the device of source or copy stores: `CopyOptions::verify` reads that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceDigest {
    /// Name of the digest: `blake3`, `sha256`, `xxh3`.
    pub algorithm: &'static str,
    /// Value, in lowercase hexadecimal.
    pub value: String,
    /// Origin of the bytes.
    pub from: DigestedFrom,
    /// Time spent on reading the copy and hashing, included in [`Receipt::duration`].
    pub duration: Duration,
}

/// Writes to the source through a shared mapping (`mmap(2)` with `MAP_SHARED`) during the copy.
/// They need not change the source's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappedWrites {
    /// None: the source had no dirty page when the copy began or at any later check, or the copy is
    /// a snapshot (a reflink on XFS or btrfs).
    NoneSeen,
    /// Clean pages became dirty. Receipts have this value only if the options accept a changed
    /// source.
    Seen,
    /// Unknown, for this reason.
    Unknown(Unseen),
}

impl MappedWrites {
    /// Name in receipts: `none_seen`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MappedWrites::NoneSeen => "none_seen",
            MappedWrites::Seen => "seen",
            MappedWrites::Unknown(_) => "unknown",
        }
    }
}

impl Default for MappedWrites {
    fn default() -> MappedWrites {
        MappedWrites::Unknown(Unseen::NotLooked)
    }
}

/// Reason why writes through a mapping cannot be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unseen {
    /// No check was made: this system has no way to do it.
    NotLooked,
    /// The source had dirty pages when the copy began. More writes to those pages leave no trace.
    DirtyPages,
    /// `cachestat(2)` works only for the file's owner or with write permission.
    Refused,
    /// The kernel has no `cachestat(2)` (new in Linux 6.5), or a filter forbids it.
    Unavailable,
    /// The file's contents are not in the page cache (DAX).
    Dax,
    /// Not a regular file on a filesystem that is known to count dirty pages (ext4, XFS, btrfs).
    Filesystem,
    /// An earlier run copied a part of the file.
    Resumed,
}

impl Unseen {
    /// Name in receipts: `dirty_pages`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unseen::NotLooked => "not_looked",
            Unseen::DirtyPages => "dirty_pages",
            Unseen::Refused => "refused",
            Unseen::Unavailable => "unavailable",
            Unseen::Dax => "dax",
            Unseen::Filesystem => "filesystem",
            Unseen::Resumed => "resumed",
        }
    }
}

/// Inode flags that the source has and the copy lacks (`ioctl_iflags(2)`, `chattr(1)`). No copy
/// carries them over, and some are inherited from the parent directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct InodeFlags(u32);

impl InodeFlags {
    /// Flags that users set, or that affect the contents (`linux/fs.h`), with their names in
    /// receipts. The other flags describe how the filesystem stores the file.
    const NAMED: [(u32, &'static str); 19] = [
        (0x0000_0001, "secure_deletion"),
        (0x0000_0002, "undeletable"),
        (0x0000_0004, "compressed"),
        (0x0000_0008, "synchronous"),
        (0x0000_0010, "immutable"),
        (0x0000_0020, "append_only"),
        (0x0000_0040, "no_dump"),
        (0x0000_0080, "no_access_time"),
        (0x0000_0400, "no_compression"),
        (0x0000_0800, "encrypted"),
        (0x0000_4000, "journalled_data"),
        (0x0000_8000, "no_tail_merging"),
        (0x0001_0000, "synchronous_directory"),
        (0x0002_0000, "top_directory"),
        (0x0010_0000, "verity"),
        (0x0080_0000, "no_copy_on_write"),
        (0x0200_0000, "dax"),
        (0x2000_0000, "project_inherit"),
        (0x4000_0000, "case_folding"),
    ];

    /// Keeps the kernel's bits (`FS_IOC_GETFLAGS`) that have a name here.
    #[must_use]
    pub fn from_bits(bits: u32) -> InodeFlags {
        InodeFlags(InodeFlags::NAMED.iter().fold(0, |all, (flag, _)| all | (bits & flag)))
    }

    /// Returns the flags that are not in `others`.
    pub fn without(self, others: InodeFlags) -> InodeFlags {
        InodeFlags(self.0 & !others.0)
    }

    /// Whether no flag is set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the names: `append_only`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        InodeFlags::NAMED.into_iter().filter(move |(flag, _)| self.0 & flag != 0).map(|flag| flag.1)
    }
}

/// The result of one copy.
///
/// The portions and [`Receipt::resumed_bytes`] add up to [`Receipt::bytes`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Length of the destination in bytes.
    pub bytes: u64,
    /// Bytes by mechanism and cost, in the order in which they were first used.
    pub portions: Vec<Portion>,
    /// Cheaper mechanisms that were not used, the cheapest first, and those that were expected to be
    /// quicker and turned out slower.
    pub refusals: Vec<Refusal>,
    /// Thresholds other than the built-in ones that decided the mechanism.
    pub decided_by: Vec<Decision>,
    /// Time from opening the source until the destination was in place.
    pub duration: Duration,
    /// Present if both sides were hashed (or proved to share extents) and are equal.
    pub verification: Option<Verification>,
    /// Digest of the bytes that were copied, if requested.
    pub source_digest: Option<SourceDigest>,
    /// Whether data and name were flushed to the device before this receipt was made.
    pub durable: bool,
    /// Whether the source changed during the copy, and the options accept that.
    pub source_changed: bool,
    /// Whether the source was written to through a mapping during the copy.
    pub mapped_writes: MappedWrites,
    /// Number of times the source was flushed before copying (`CopyOptions::flush_source`), over
    /// all attempts.
    pub source_flushes: u32,
    /// Duration of these flushes, included in [`Receipt::duration`].
    pub source_flush_duration: Duration,
    /// Bytes moved by two threads in parallel, one block of the file at a time each.
    pub parallel_bytes: u64,
    /// Bytes at the beginning that an interrupted run had copied and this run only verified. They
    /// are not part of any portion.
    pub resumed_bytes: u64,
    /// Number of times the copy was restarted: because the source changed, or in a tree because of
    /// a temporary error (`JobOptions::retries`).
    pub retries: u32,
    /// Notes for the user: metadata that could not be kept, other hard links that keep the old
    /// contents, guarantees lost by `in_place`.
    pub notes: Vec<Note>,
    /// Inode flags of the source that the copy lacks.
    pub flags_not_kept: InodeFlags,
    /// Possible leftovers of earlier copies to this destination, which were not removed.
    pub leftovers: Leftovers,
    /// Compression or decompression: the findings and the action, if requested.
    pub compression: Option<Compression>,
    /// Path of the copy, if `CopyOptions::suffix` changed its name.
    pub renamed: Option<PathBuf>,
}

/// Entries beside or in a destination that have names like uncopy's temporary files, but are not
/// recorded as left behind by a killed copy. They are never removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftovers {
    /// The first entries.
    pub paths: Vec<PathBuf>,
    /// Number of further entries.
    pub more: u64,
}

impl Leftovers {
    /// Maximum length of `paths`.
    pub const MAX_PATHS: usize = 32;

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.more == 0
    }

    /// Adds an entry, with its path while there is room.
    pub fn add(&mut self, path: PathBuf) {
        if self.paths.len() < Leftovers::MAX_PATHS {
            self.paths.push(path);
        } else {
            self.more += 1;
        }
    }

    /// Adds the entries of another list.
    pub fn add_all(&mut self, others: &Leftovers) {
        others.paths.iter().cloned().for_each(|path| self.add(path));
        self.more += others.more;
    }
}

impl Receipt {
    /// Adds bytes to the portion of this mechanism and cost.
    pub fn add(&mut self, mechanism: Mechanism, bytes: u64, cost: Cost) {
        if bytes == 0 {
            return;
        }
        match self.portions.iter_mut().find(|p| p.mechanism == mechanism && p.cost == cost) {
            Some(portion) => portion.bytes += bytes,
            None => self.portions.push(Portion { mechanism, bytes, cost }),
        }
    }

    /// Returns the bytes of this cost class, over all mechanisms.
    #[must_use]
    pub fn bytes_at(&self, cost: Cost) -> u64 {
        self.portions.iter().filter(|p| p.cost == cost).map(|p| p.bytes).sum()
    }

    /// Returns the bytes that this mechanism moved, over all costs.
    #[must_use]
    pub fn bytes_by(&self, mechanism: Mechanism) -> u64 {
        self.portions.iter().filter(|p| p.mechanism == mechanism).map(|p| p.bytes).sum()
    }

    /// Whether no processor copied any byte. `false` if the cost of any byte is unknown.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.portions.iter().all(|p| p.cost.is_zero_copy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_of_one_mechanism_and_cost_are_one_row() {
        let mut receipt = Receipt::default();
        receipt.add(Mechanism::Direct, 4096, Cost::Moved);
        receipt.add(Mechanism::Direct, 10, Cost::UserCopied);
        receipt.add(Mechanism::Direct, 4096, Cost::Moved);
        receipt.add(Mechanism::ReadWrite, 0, Cost::UserCopied);
        assert_eq!(receipt.portions.len(), 2);
        assert_eq!(receipt.bytes_at(Cost::Moved), 8192);
        assert_eq!(receipt.bytes_by(Mechanism::Direct), 8202);
        assert!(!receipt.is_zero_copy());
    }
}
