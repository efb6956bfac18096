//! What happened: bytes by mechanism and by cost, and why nothing cheaper was used.

mod compression;
mod note;
mod refusal;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Decision;

pub use compression::{
    Compression, CompressionAction, CompressionGuess, CompressionReason, CompressionSample,
    GuessedBy,
};
pub use note::{MetadataPart, Note};
pub use refusal::{Exclusion, Obstacle, Refusal, RefusalReason};

/// A way to move the bytes of a file. The names are those of the system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// `FICLONE`: the files share their extents (`ioctl_ficlone(2)`).
    Reflink,
    /// `copy_file_range(2)`.
    CopyFileRange,
    /// `O_DIRECT` writes: of the source's own mapped page-cache pages, or of pages that the device
    /// filled through `O_DIRECT` reads.
    Direct,
    /// `sendfile(2)`.
    Sendfile,
    /// `splice(2)` through a pipe.
    Splice,
    /// `read(2)` and `write(2)` through a buffer of the program.
    ReadWrite,
}

impl Mechanism {
    /// Every mechanism, the one that touches the bytes least first.
    pub const ALL: [Mechanism; 6] = [
        Mechanism::Reflink,
        Mechanism::CopyFileRange,
        Mechanism::Direct,
        Mechanism::Sendfile,
        Mechanism::Splice,
        Mechanism::ReadWrite,
    ];

    /// The name in receipts: `copy_file_range`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Reflink => "reflink",
            Mechanism::CopyFileRange => "copy_file_range",
            Mechanism::Direct => "direct",
            Mechanism::Sendfile => "sendfile",
            Mechanism::Splice => "splice",
            Mechanism::ReadWrite => "read_write",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What moving a byte cost, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cost {
    /// Nothing was there to move: a hole in the source is a hole in the destination.
    Hole,
    /// Source and destination share the blocks (reflink).
    Shared,
    /// The device read the pages themselves; no processor copied them.
    Moved,
    /// The kernel copied from page to page.
    KernelCopied,
    /// The bytes went through a buffer of this program.
    UserCopied,
    /// The kernel does not say which of the above it was.
    Unknown,
}

impl Cost {
    /// Every cost class, the cheapest first.
    pub const ALL: [Cost; 6] = [
        Cost::Hole,
        Cost::Shared,
        Cost::Moved,
        Cost::KernelCopied,
        Cost::UserCopied,
        Cost::Unknown,
    ];

    /// The name in receipts: `kernel_copied`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cost::Hole => "hole",
            Cost::Shared => "shared",
            Cost::Moved => "moved",
            Cost::KernelCopied => "kernel_copied",
            Cost::UserCopied => "user_copied",
            Cost::Unknown => "unknown",
        }
    }

    /// No processor copied the bytes: they are a hole, shared or moved.
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

/// Bytes that went one way at one cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// The mechanism in use.
    pub mechanism: Mechanism,
    /// How many bytes.
    pub bytes: u64,
    /// What they cost.
    pub cost: Cost,
}

/// Where the bytes of the destination were read from for verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifiedFrom {
    /// From the device: `O_DIRECT` reads that no page cache answers.
    Device,
    /// Possibly from the page cache (tmpfs, loop devices, network filesystems).
    Cache,
    /// Not read: both files map the same extents, and the caller trusts that.
    SharedExtents,
}

impl VerifiedFrom {
    /// The name in receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            VerifiedFrom::Device => "device",
            VerifiedFrom::Cache => "cache",
            VerifiedFrom::SharedExtents => "shared_extents",
        }
    }
}

/// A verification that succeeded; one that fails is an error and not a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The digest's name: `blake3`, `sha256`, `xxh3`.
    pub algorithm: &'static str,
    /// The digest of both files, lowercase hexadecimal. Empty for
    /// [`VerifiedFrom::SharedExtents`], which reads nothing.
    pub digest: String,
    /// Where the destination was read from.
    pub from: VerifiedFrom,
    /// How long it took, beside [`Receipt::duration`], which contains it.
    pub duration: Duration,
}

/// Stores into the source through a mapping (`mmap(2)` with `MAP_SHARED`) while it was copied, which need
/// not change its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappedWrites {
    /// The source had no dirty page when the copy began, and no look at it found another one later; or the
    /// copy is a snapshot (a reflink on XFS or btrfs).
    NoneSeen,
    /// Pages that were clean became dirty. Told in receipts only where that is accepted.
    Seen,
    /// Nothing is claimed.
    Unknown(Unseen),
}

impl MappedWrites {
    /// The name in receipts: `none_seen`.
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

/// Why stores through a mapping cannot be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unseen {
    /// Nobody looked: this system has no way to.
    NotLooked,
    /// The source had dirty pages when the copy began. More stores into those leave no trace.
    DirtyPages,
    /// `cachestat(2)` answers only who owns the file or may write to it.
    Refused,
    /// The kernel has no `cachestat(2)`, which came with Linux 6.5, or a filter forbids it.
    Unavailable,
    /// The file's contents are not in the page cache (DAX).
    Dax,
    /// It is no regular file of a filesystem that is known to count dirty pages (ext4, XFS, btrfs).
    Filesystem,
    /// A part was copied by an earlier run.
    Resumed,
}

impl Unseen {
    /// The name in receipts: `dirty_pages`.
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

/// Flags of an inode that the source has and the copy has not (`ioctl_iflags(2)`, `chattr(1)`): no copy
/// takes them along, and some come from the directory that it is made in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct InodeFlags(u32);

impl InodeFlags {
    /// Those that somebody sets, or that say what becomes of the bytes (`linux/fs.h`), and their names in
    /// receipts. What others say is how the filesystem keeps the file.
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

    /// Keeps of the kernel's bits (`FS_IOC_GETFLAGS`) those that have a name here.
    #[must_use]
    pub fn from_bits(bits: u32) -> InodeFlags {
        InodeFlags(InodeFlags::NAMED.iter().fold(0, |all, (flag, _)| all | (bits & flag)))
    }

    /// Those that the other set has not.
    pub fn without(self, others: InodeFlags) -> InodeFlags {
        InodeFlags(self.0 & !others.0)
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names: `append_only`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        InodeFlags::NAMED.into_iter().filter(move |(flag, _)| self.0 & flag != 0).map(|flag| flag.1)
    }
}

/// What one copy did.
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
    /// Thresholds that are not built in and decided which way it was.
    pub decided_by: Vec<Decision>,
    /// From opening the source to the destination in place.
    pub duration: Duration,
    /// Present if both sides were hashed (or shown to share extents) and are equal.
    pub verification: Option<Verification>,
    /// Data and name were flushed to the device before this receipt was given.
    pub durable: bool,
    /// The source changed while it was copied and the caller accepts that.
    pub source_changed: bool,
    /// Whether anybody stored into the source through a mapping while it was copied.
    pub mapped_writes: MappedWrites,
    /// How many times the source was flushed before it was copied
    /// (`CopyOptions::flush_source`), over all attempts.
    pub source_flushes: u32,
    /// How long that took. A part of [`Receipt::duration`].
    pub source_flush_duration: Duration,
    /// How many bytes two threads moved side by side, each a block of the file at a time.
    pub parallel_bytes: u64,
    /// Bytes at the beginning that an interrupted run had copied and this one only verified. They are in
    /// no portion.
    pub resumed_bytes: u64,
    /// How many times the copy was started again because the source changed, or in a tree because an
    /// error may pass (`JobOptions::retries`).
    pub retries: u32,
    /// What a person should know: metadata that could not be kept, other hard links that keep the
    /// old contents, guarantees that `in_place` gives up.
    pub notes: Vec<Note>,
    /// Inode flags of the source that the copy has not.
    pub flags_not_kept: InodeFlags,
    /// What looks like leftovers of earlier copies to this destination, and stays.
    pub leftovers: Leftovers,
    /// What was found out about compressing or decompressing and what was done, if it was asked for.
    pub compression: Option<Compression>,
    /// The copy's path, where `CopyOptions::suffix` changed its
    /// name.
    pub renamed: Option<PathBuf>,
}

/// Entries beside or in a destination that have names like those under which uncopy writes, and that no
/// record shows to be what a killed copy left. Nothing removes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftovers {
    /// The first of them.
    pub paths: Vec<PathBuf>,
    /// How many others there are.
    pub more: u64,
}

impl Leftovers {
    /// Paths that are kept.
    pub const MAX_PATHS: usize = 32;

    /// None were met.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.more == 0
    }

    /// Adds one, by name while there is room.
    pub fn add(&mut self, path: PathBuf) {
        if self.paths.len() < Leftovers::MAX_PATHS {
            self.paths.push(path);
        } else {
            self.more += 1;
        }
    }

    /// Adds those that somebody else met.
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

    /// Bytes of this cost class, over all mechanisms.
    #[must_use]
    pub fn bytes_at(&self, cost: Cost) -> u64 {
        self.portions.iter().filter(|p| p.cost == cost).map(|p| p.bytes).sum()
    }

    /// Bytes that this mechanism moved, over all costs.
    #[must_use]
    pub fn bytes_by(&self, mechanism: Mechanism) -> u64 {
        self.portions.iter().filter(|p| p.mechanism == mechanism).map(|p| p.bytes).sum()
    }

    /// No processor copied any byte. `false` if the kernel leaves any byte's cost unknown.
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
