//! What a caller can ask of a copy.

use crate::receipt::Mechanism;

/// How to copy one file. Every field has the default of plain `uncopy cp`.
///
/// ```
/// use uncopy::copy::{CopyOptions, Prefer};
/// let mut options = CopyOptions::default();
/// options.durable = true;
/// options.prefer = Prefer::CpuTime;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Which mechanisms may be used.
    pub allow: Allow,
    /// What "cheapest" means.
    pub prefer: Prefer,
    /// What to do with holes and runs of zeros.
    pub sparse: Sparse,
    /// What becomes of the page cache.
    pub cache: Cache,
    /// What to do if the source changes while it is copied.
    pub if_changed: IfChanged,
    /// What to do if the destination exists.
    pub existing: Existing,
    /// Which metadata of the source the destination gets.
    pub preserve: Preserve,
    /// Hash both sides after writing, and put the copy in place only if they agree.
    pub verify: Option<Verify>,
    /// Flush the data before the rename and the directory after it (`fsync(2)`), so that after a
    /// power cut there is the old file or the new one.
    pub durable: bool,
    /// Write into the existing file instead of replacing it. Keeps its inode, and with it hard
    /// links and bind mounts; gives up atomicity: after an error or a kill the file is a mixture.
    pub in_place: bool,
    /// Read the bytes of a FIFO or device, and write into one, instead of refusing it.
    pub copy_contents: bool,
}

/// Which mechanisms may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Allow {
    /// All: the cheapest that works, falling back by itself.
    #[default]
    Any,
    /// Only ways in which no processor copies the bytes: shared or moved.
    ZeroCopy,
    /// Also copies inside the kernel, but none through this program's buffers.
    NoUserCopy,
    /// Only `read` and `write`.
    ReadWrite,
    /// Exactly this one. `Direct` may write an unaligned tail by an ordinary write.
    Only(Mechanism),
}

/// What "cheapest" means where two ways differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Prefer {
    /// The shortest wall time.
    #[default]
    WallTime,
    /// The least processor time.
    CpuTime,
}

/// What to do with holes and runs of zeros.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sparse {
    /// Holes stay holes.
    #[default]
    Auto,
    /// Runs of zeros of at least one filesystem block become holes too; every byte is looked at.
    Always,
    /// Holes are filled with zeros.
    Never,
}

/// What becomes of the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cache {
    /// Whatever the chosen mechanism does.
    #[default]
    Auto,
    /// The destination is in the page cache afterwards; excludes direct writes.
    Keep,
    /// The destination is not in the page cache afterwards, and a source that was not there
    /// before is not either.
    Skip,
}

/// What to do if the source's size, mtime or ctime differ after the copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfChanged {
    /// Report an error; the destination is left as it was.
    #[default]
    Fail,
    /// Copy again, [`RETRIES`] times at most, then fail.
    Retry,
    /// Keep what was read; the receipt says so.
    Accept,
}

/// How often a copy is started again under [`IfChanged::Retry`].
pub const RETRIES: u32 = 3;

/// What to do if the destination exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Replace it, if it is writable.
    #[default]
    Replace,
    /// Replace it even if its mode forbids writing (`cp -f`).
    Force,
    /// Leave it alone, without a race (`cp -n`).
    Keep,
}

/// Which metadata of the source the destination gets.
///
/// Without any, a new file follows umask and default ACL, and an existing one keeps its mode,
/// owner, ACL and extended attributes as far as the caller is permitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preserve {
    /// Permission bits, setuid, setgid and sticky included.
    pub mode: bool,
    /// User and group.
    pub ownership: bool,
    /// Access and modification time, in nanoseconds.
    pub timestamps: bool,
    /// Extended attributes other than ACLs (`user.*`, and others where permitted).
    pub xattr: bool,
    /// POSIX access control list.
    pub acl: bool,
}

impl Preserve {
    /// Mode, ownership and timestamps: `cp -p`.
    #[must_use]
    pub const fn basic() -> Preserve {
        Preserve { mode: true, ownership: true, timestamps: true, xattr: false, acl: false }
    }

    /// Everything.
    #[must_use]
    pub const fn all() -> Preserve {
        Preserve { mode: true, ownership: true, timestamps: true, xattr: true, acl: true }
    }
}

/// How a copy is verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verify {
    /// The digest of both sides.
    pub algorithm: Digest,
    /// Take shared extents (shown by FIEMAP) as proof and read nothing where the whole file was
    /// reflinked.
    pub trust_shared_extents: bool,
}

/// A digest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Digest {
    /// BLAKE3, 256 bits: cryptographic and fast.
    #[default]
    Blake3,
    /// SHA-256.
    Sha256,
    /// XXH3, 128 bits: fastest; finds accidents, not forgeries.
    Xxh3,
}

impl Digest {
    /// The name in receipts and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Digest::Blake3 => "blake3",
            Digest::Sha256 => "sha256",
            Digest::Xxh3 => "xxh3",
        }
    }
}
