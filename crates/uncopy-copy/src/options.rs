//! Defines the options of a copy.

use std::borrow::Cow;
use std::ffi::OsString;

use super::mode_changes::ModeChanges;
use super::owner::Owner;
use super::setters::setters;
use super::tuning::Tuning;
use uncopy_core::{Contradiction, Cost, Mechanism};

/// How to copy one file. Every field but [`read_streams`](CopyOptions::read_streams) has the default of
/// plain `uncopy cp`.
///
/// All are obeyed on Linux. [`systems::REQUESTS`](super::systems::REQUESTS) says which are elsewhere; any other is an
/// error there ([`Reason::NotHere`](uncopy_core::Reason::NotHere)), before anything is touched.
///
/// ```
/// use uncopy::copy::{CopyOptions, Prefer};
/// let options = CopyOptions::new().durable(true).prefer(Prefer::CpuTime);
/// assert!(options.durable);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Which mechanisms may be used.
    pub allow: Allow,
    /// Condition that the bytes must meet: it is met, or nothing is copied.
    pub require: Require,
    /// Meaning of "cheapest".
    pub prefer: Prefer,
    /// Treatment of holes and runs of zeros.
    pub sparse: Sparse,
    /// Treatment of the page cache.
    pub cache: Cache,
    /// Reaction to a source that changes while it is copied.
    pub if_changed: IfChanged,
    /// With [`IfChanged::Fail`]: flush a source first that has dirty pages, so that stores into it through
    /// a mapping are seen ([`Receipt::mapped_writes`](uncopy_core::Receipt::mapped_writes)). One that is still
    /// dirty after three times has changed, and is not tried again. [`IfChanged::Retry`] always does it,
    /// before each attempt, and [`IfChanged::Accept`] never.
    pub flush_source: bool,
    /// Treatment of an existing destination.
    pub existing: Existing,
    /// Ask the observer ([`Observer::may_replace`](super::Observer::may_replace)) before an existing file is
    /// replaced or written into, and leave it alone ([`Skip::Declined`](super::Skip::Declined)) unless it
    /// agrees. A file that appears during the copy is left alone ([`Skip::Exists`](super::Skip::Exists)).
    pub ask: bool,
    /// Keep the file that is replaced, under a further name. Its name itself is then replaced, as by
    /// [`Existing::Remove`].
    pub backup: Option<Backup>,
    /// Copy no bytes: a new file is empty, and an existing one keeps its contents. Both get the metadata
    /// that `preserve` says.
    pub attributes_only: bool,
    /// Which metadata of the source the destination gets.
    pub preserve: Preserve,
    /// Changes of the permission bits that each copy but a symbolic link would have otherwise, as by
    /// `chmod(1)` after the copy. No copy has wider permissions before.
    pub mode_changes: Option<ModeChanges>,
    /// User and group of each copy, whatever `preserve` says. A copy that cannot get them fails.
    pub owner: Option<Owner>,
    /// Hash both sides after writing, and put the copy in place only if they agree.
    pub verify: Option<Verify>,
    /// Compute the digest of the bytes that are copied
    /// ([`Receipt::source_digest`](uncopy_core::Receipt::source_digest)).
    ///
    /// A file whose blocks cannot be shared goes through the program's memory in one pass, unless `allow`
    /// or `prefer` ask for another mechanism: then, and for shared blocks, the copy is read.
    pub digest: Option<Digest>,
    /// Flush the data before the rename and the directory after it (`fsync(2)`), so that after a
    /// power cut there is the old file or the new one.
    pub durable: bool,
    /// Write into the existing file instead of replacing it. Keeps its inode, and with it hard
    /// links and bind mounts; gives up atomicity: after an error or a kill the file is a mixture.
    pub in_place: bool,
    /// Read the bytes of a FIFO or device, and write into one, instead of refusing it.
    pub copy_contents: bool,
    /// Read a source that is a FIFO to its end, and wait for its writer, instead of refusing it; and
    /// whatever `/dev/stdin`, `/dev/fd/N` and `/proc/self/fd/N` stand for that is no regular file. The
    /// [`Observer`](super::Observer) can end the wait. `uncopy cp` has it on for the files that it is given.
    pub read_streams: bool,
    /// At which sizes something else is done.
    pub tuning: Tuning,
    /// Compression or decompression of the bytes.
    pub transform: Transform,
    /// With [`CopyOptions::transform`]: `.zst` is added to the name of a copy that was compressed, and
    /// taken away where it was decompressed ([`Receipt::renamed`](uncopy_core::Receipt::renamed)). Without
    /// it the name is used as it was given, except below the roots of trees, where names change in any
    /// case.
    pub suffix: bool,
}

setters! {
    CopyOptions {
        allow: Allow,
        require: Require,
        prefer: Prefer,
        sparse: Sparse,
        cache: Cache,
        if_changed: IfChanged,
        flush_source: bool,
        existing: Existing,
        ask: bool,
        backup: Option<Backup>,
        attributes_only: bool,
        preserve: Preserve,
        mode_changes: Option<ModeChanges>,
        owner: Option<Owner>,
        verify: Option<Verify>,
        digest: Option<Digest>,
        durable: bool,
        in_place: bool,
        copy_contents: bool,
        read_streams: bool,
        tuning: Tuning,
        transform: Transform,
        suffix: bool,
    }
}

impl CopyOptions {
    /// Makes the options of plain `uncopy cp`, but for
    /// [`read_streams`](field@CopyOptions::read_streams): the default.
    #[must_use]
    pub fn new() -> CopyOptions {
        CopyOptions::default()
    }

    /// Whether an existing file is written to, and not replaced.
    pub(crate) fn writes_into_existing(&self) -> bool {
        self.in_place || self.attributes_only
    }

    /// Returns what copies get besides their bytes.
    pub(crate) fn given(&self) -> GivenMetadata<'_> {
        let (preserve, changes) = (self.preserve, self.mode_changes.as_ref());
        GivenMetadata { preserve, changes, owner: self.owner.unwrap_or_default(), new_mode: None }
    }

    /// Whether the name is replaced, so that the new file takes nothing from the old one and a symbolic link
    /// is not followed.
    pub(crate) fn replaces_name(&self) -> bool {
        self.existing == Existing::Remove || self.backup.is_some()
    }

    /// Returns the options for a name that was free (`is_taken`: it was not) when the observer could be
    /// asked: what appears there later is not replaced, because nobody agreed to it.
    pub(crate) fn after_asking(&self, is_taken: bool) -> Cow<'_, CopyOptions> {
        match self.ask && !is_taken {
            true => Cow::Owned(CopyOptions { existing: Existing::Keep, ..self.clone() }),
            false => Cow::Borrowed(self),
        }
    }

    /// Returns the options for a name that an earlier run of the same job has given to its copy already (`keeps_old`: it
    /// has not): that is no entry of the caller's.
    pub(crate) fn after_killed_run(&self, keeps_old: bool) -> Cow<'_, CopyOptions> {
        let existing = match self.existing {
            _ if keeps_old => return Cow::Borrowed(self),
            Existing::Remove => Existing::Remove,
            _ => Existing::Force,
        };
        Cow::Owned(CopyOptions { existing, backup: None, ..self.clone() })
    }

    /// Returns the options for a tree that is being built, which contains nothing of the caller's.
    pub(crate) fn in_own_tree(&self) -> CopyOptions {
        CopyOptions { existing: Existing::Replace, ask: false, backup: None, ..self.clone() }
    }

    /// Whether these options can be obeyed together, whatever the files are.
    ///
    /// Every copy begins with it; a caller with many files to copy asks once, before the first.
    ///
    /// ```
    /// use uncopy::Mechanism;
    /// use uncopy::copy::{Allow, Cache, Contradiction, CopyOptions};
    /// let options = CopyOptions::new().cache(Cache::Keep);
    /// assert_eq!(options.check(), Ok(()));
    /// let options = options.allow(Allow::Only(Mechanism::Direct));
    /// assert_eq!(options.check(), Err(Contradiction::DirectKeepsNoCache));
    /// ```
    ///
    /// # Errors
    /// The first contradiction. No file is touched, or looked at.
    pub fn check(&self) -> Result<(), Contradiction> {
        let looks_at_bytes = self.require == Require::Nothing
            && matches!(
                self.allow,
                Allow::Any | Allow::Unshared | Allow::ReadWrite | Allow::Only(Mechanism::ReadWrite)
            );
        let transforms = self.transform != Transform::None;
        let writes_into = self.writes_into_existing();
        let rows = [
            (
                self.cache == Cache::Keep && self.allow.only().is_some_and(Mechanism::is_direct),
                Contradiction::DirectKeepsNoCache,
            ),
            (
                self.cache == Cache::Keep && self.require == Require::Moved,
                Contradiction::MovedKeepsNoCache,
            ),
            (
                self.allow.only().is_some_and(|mechanism| !self.require.may_use(mechanism)),
                Contradiction::RequireExcludesMethod {
                    require: self.require.name(),
                    mechanism: self.allow.only().unwrap_or(Mechanism::ReadWrite),
                },
            ),
            (self.sparse == Sparse::Always && !looks_at_bytes, Contradiction::ZerosNeedReading),
            (
                self.in_place && self.if_changed == IfChanged::Retry,
                Contradiction::InPlaceCannotRetry,
            ),
            (
                [self.verify.map(|verify| verify.algorithm), self.digest]
                    .into_iter()
                    .flatten()
                    .any(|digest| !digest.is_built_in()),
                Contradiction::NoDigestHere,
            ),
            (
                // No feature brings it to other systems, which refuse it by its name.
                transforms && uncopy_core::IS_LINUX && !cfg!(feature = "compress"),
                Contradiction::NoCompressionHere,
            ),
            (transforms && self.digest.is_some(), Contradiction::DigestOfTransformed),
            (transforms && !looks_at_bytes, Contradiction::TransformNeedsReading),
            (transforms && self.in_place, Contradiction::TransformInPlace),
            (
                self.attributes_only
                    && (transforms
                        || self.verify.is_some()
                        || self.digest.is_some()
                        || self.in_place),
                Contradiction::AttributesAlone,
            ),
            (
                self.backup.is_some() && (self.existing == Existing::Keep || writes_into),
                Contradiction::BackupOfNothing,
            ),
            (
                self.backup.as_ref().is_some_and(|backup| !backup.is_valid()),
                Contradiction::BackupSuffix,
            ),
            (self.existing == Existing::Remove && writes_into, Contradiction::RemoveInPlace),
            (self.ask && self.existing == Existing::Keep, Contradiction::AskAboutKept),
            (transforms && self.copy_contents, Contradiction::TransformOfStream),
        ];
        rows.into_iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, found)| Err(found))
    }
}

/// Compression or decompression of the bytes. Anything but [`Transform::None`] forbids zero-copy for the
/// files that it is done to; files for which it does not pay are copied the cheapest way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transform {
    /// They stay as they are.
    #[default]
    None,
    /// Compressed where that pays: into independent frames of zstd with a seek table, which any
    /// decoder of zstd reads (RFC 8878 and zstd's `contrib/seekable_format`).
    Compress(Level),
    /// Files that zstd compressed are decompressed; their seek table, if there is one, is checked.
    Decompress,
}

/// How hard to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(u8);

impl Level {
    /// zstd's levels: 1 is quickest, 22 smallest; `None` for any other.
    #[must_use]
    pub const fn new(level: u8) -> Option<Level> {
        if level >= 1 && level <= 22 { Some(Level(level)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// 3, as zstd has it.
impl Default for Level {
    fn default() -> Level {
        Level(3)
    }
}

/// Which mechanisms may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Allow {
    /// All: the cheapest that works, with automatic fallback.
    #[default]
    Any,
    /// All but those that share blocks with the source: the copy gets blocks of its own.
    Unshared,
    /// Only `read` and `write`.
    ReadWrite,
    /// Exactly this one. `Direct` and `DirectRing` may write an unaligned tail by an ordinary write.
    Only(Mechanism),
}

impl Allow {
    /// Returns the mechanism that alone is allowed.
    const fn only(self) -> Option<Mechanism> {
        match self {
            Allow::Any | Allow::Unshared => None,
            Allow::ReadWrite => Some(Mechanism::ReadWrite),
            Allow::Only(mechanism) => Some(mechanism),
        }
    }
}

/// Condition on how the bytes of a copy go. Holes meet every condition, and so does an empty file.
///
/// If it cannot be met, the copy fails with
/// [`Reason::NoMechanism`](uncopy_core::Reason::NoMechanism) before it gets a name and before an
/// existing file changes, and none of its bytes stay. Where the filesystem has no unnamed files
/// (`O_TMPFILE`), that is found out in a temporary file, which is removed.
///
/// With [`CopyOptions::in_place`] blocks are shared by [`Mechanism::Reflink`] alone, which shares all
/// or changes nothing; of other mechanisms the first call decides, which moves bytes or changes
/// nothing.
///
/// ```
/// use uncopy::copy::{CopyOptions, Require, copy_file};
/// # let directory = tempfile::tempdir()?;
/// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
/// # std::fs::write(&source, "text")?;
/// let options = CopyOptions::new().require(Require::Shared);
/// match copy_file(&source, &destination, &options) {
///     Ok(_) => println!("shared"),
///     Err(error) if error.is_no_mechanism() => assert!(!destination.exists()),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Require {
    /// No condition.
    #[default]
    Nothing,
    /// No byte goes through this program's memory; the kernel may copy.
    NoUserCopy,
    /// No processor copies a byte: each is shared or moved.
    ZeroCopy,
    /// The device reads the source's pages and writes them: the copy has blocks of its own.
    Moved,
    /// Source and copy share their blocks, by whichever call.
    Shared,
    /// They share their blocks by a reflink (`FICLONE`), all at one moment.
    Reflink,
}

impl Require {
    /// Every condition.
    pub const ALL: [Require; 6] = [
        Require::Nothing,
        Require::NoUserCopy,
        Require::ZeroCopy,
        Require::Moved,
        Require::Shared,
        Require::Reflink,
    ];

    /// Returns the name on the command line and in settings: `no-user-copy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Require::Nothing => "none",
            Require::NoUserCopy => "no-user-copy",
            Require::ZeroCopy => "zero-copy",
            Require::Moved => "moved",
            Require::Shared => "shared",
            Require::Reflink => "reflink",
        }
    }

    /// Whether bytes that went by `mechanism` at this cost meet it.
    #[must_use]
    pub const fn accepts(self, mechanism: Mechanism, cost: Cost) -> bool {
        match (self, cost) {
            (Require::Nothing, _) | (_, Cost::Hole) => true,
            (Require::NoUserCopy, cost) => !matches!(cost, Cost::Zeros | Cost::UserCopied),
            (Require::ZeroCopy, cost) => matches!(cost, Cost::Shared | Cost::Moved),
            (Require::Moved, cost) => matches!(cost, Cost::Moved),
            (Require::Shared, cost) => matches!(cost, Cost::Shared),
            (Require::Reflink, _) => matches!(mechanism, Mechanism::Reflink),
        }
    }

    /// Whether bytes that go by `mechanism` can meet it anywhere.
    pub(crate) const fn may_use(self, mechanism: Mechanism) -> bool {
        match self {
            Require::Nothing => true,
            Require::NoUserCopy => !matches!(mechanism, Mechanism::ReadWrite),
            Require::ZeroCopy => matches!(
                mechanism,
                Mechanism::Reflink
                    | Mechanism::CopyFileRange
                    | Mechanism::Direct
                    | Mechanism::DirectRing
            ),
            Require::Moved => mechanism.is_direct(),
            Require::Shared => matches!(mechanism, Mechanism::Reflink | Mechanism::CopyFileRange),
            Require::Reflink => matches!(mechanism, Mechanism::Reflink),
        }
    }

    /// Whether the device must move the bytes where they are not shared.
    pub(crate) const fn may_move(self) -> bool {
        matches!(self, Require::ZeroCopy | Require::Moved)
    }
}

/// Meaning of "cheapest" where two mechanisms differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Prefer {
    /// The shortest wall time.
    #[default]
    WallTime,
    /// The least processor time.
    CpuTime,
}

/// Treatment of holes and runs of zeros.
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

/// Treatment of the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cache {
    /// Whatever the chosen mechanism does.
    #[default]
    Auto,
    /// The copied bytes are in the page cache afterwards; excludes direct writes. Shared extents
    /// are not copied, and are read from the device on first use.
    Keep,
    /// The destination is not in the page cache afterwards, and a source that was not there
    /// before is not either.
    Skip,
}

/// Reaction if the source's size, mtime or ctime differ after the copy, or a process was seen to
/// store into it through a mapping.
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

/// Treatment of an existing destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Replace it, if it is writable.
    #[default]
    Replace,
    /// Replace it even if its mode forbids writing (`cp -f`).
    Force,
    /// Replace the name itself, whatever has it (`cp --remove-destination`): a symbolic link is not
    /// followed, and the new file takes neither mode nor owner from the old one. A directory is not
    /// replaced.
    Remove,
    /// Leave it alone, without a race (`cp -n`).
    Keep,
}

/// Names of the files that copies replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Which names are numbered: `name.~1~`.
    pub numbering: Numbering,
    /// Appended to the name of one that is not numbered. Such a backup replaces the previous one.
    pub suffix: OsString,
}

setters! {
    Backup { numbering: Numbering, suffix: OsString, }
}

/// [`Numbering::IfThereAreSome`], and else `~`: `cp -b`.
impl Default for Backup {
    fn default() -> Backup {
        Backup { numbering: Numbering::default(), suffix: "~".into() }
    }
}

impl Backup {
    /// Makes the backups of `cp -b`: the default.
    #[must_use]
    pub fn new() -> Backup {
        Backup::default()
    }

    /// Whether the suffix makes another name in the same directory.
    fn is_valid(&self) -> bool {
        let suffix = self.suffix.as_encoded_bytes();
        !suffix.is_empty() && !suffix.iter().any(|byte| matches!(byte, b'/' | 0))
    }
}

/// Which backups are numbered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Those of files that have numbered backups.
    #[default]
    IfThereAreSome,
    /// All.
    Always,
    /// None.
    Never,
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

setters! {
    Preserve { mode: bool, ownership: bool, timestamps: bool, xattr: bool, acl: bool, }
}

/// Metadata that a copy gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GivenMetadata<'a> {
    pub(crate) preserve: Preserve,
    /// Changes of the mode.
    pub(crate) changes: Option<&'a ModeChanges>,
    /// Owner, where that of the source or of the replaced file does not matter.
    pub(crate) owner: Owner,
    /// Permission bits that a new file is created with, instead of those of the source.
    pub(crate) new_mode: Option<u32>,
}

impl GivenMetadata<'_> {
    /// Whether nothing is given.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == GivenMetadata::default()
    }

    /// Whether the mode is set when the file is complete, and must not be wider before.
    pub(crate) fn has_mode(&self) -> bool {
        self.preserve.mode || self.preserve.acl || self.changes.is_some()
    }
}

impl Preserve {
    /// Mode, ACL, ownership and timestamps: `cp -p`.
    #[must_use]
    pub const fn basic() -> Preserve {
        Preserve { mode: true, ownership: true, timestamps: true, xattr: false, acl: true }
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

setters! {
    Verify { algorithm: Digest, trust_shared_extents: bool, }
}

impl From<Digest> for Verify {
    fn from(algorithm: Digest) -> Verify {
        Verify { algorithm, ..Verify::default() }
    }
}

/// For [`CopyOptions::verify`]: `options.verify(Digest::Xxh3)`.
impl From<Digest> for Option<Verify> {
    fn from(algorithm: Digest) -> Option<Verify> {
        Some(algorithm.into())
    }
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
    /// Whether this build has it. XXH3 is always there; the others have features of their names, and
    /// BLAKE3 comes with `trees` too.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        match self {
            Digest::Blake3 => cfg!(feature = "blake3"),
            Digest::Sha256 => cfg!(feature = "sha256"),
            Digest::Xxh3 => true,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_sets_the_field_of_its_name() {
        let mut options = CopyOptions::new();
        options.durable = true;
        options.cache = Cache::Skip;
        options.verify = Some(Verify { algorithm: Digest::Xxh3, trust_shared_extents: true });
        options.preserve = Preserve { mode: true, ..Preserve::default() };
        let verify = Verify::from(Digest::Xxh3).trust_shared_extents(true);
        let made = CopyOptions::new().durable(true).cache(Cache::Skip).verify(verify);
        assert_eq!(made.preserve(Preserve::default().mode(true)), options);
        let without = options.clone().verify(None);
        assert_eq!((without.verify, without.durable), (None, true));
        assert_eq!(
            options.verify(Digest::Sha256).verify.map(|v| v.algorithm),
            Some(Digest::Sha256)
        );
    }

    fn checked(change: impl FnOnce(&mut CopyOptions)) -> Result<(), Contradiction> {
        let mut options = CopyOptions::default();
        change(&mut options);
        options.check()
    }

    #[test]
    fn backups_need_a_file_that_is_replaced_and_a_name() {
        let found = |backup: Backup, change: fn(&mut CopyOptions)| {
            checked(|o| {
                o.backup = Some(backup);
                change(o);
            })
        };
        assert_eq!(found(Backup::new(), |_| {}), Ok(()));
        assert_eq!(found(Backup::new().suffix(".old"), |o| o.existing = Existing::Remove), Ok(()));
        let changes: [fn(&mut CopyOptions); 3] =
            [|o| o.existing = Existing::Keep, |o| o.in_place = true, |o| o.attributes_only = true];
        for change in changes {
            assert_eq!(found(Backup::new(), change), Err(Contradiction::BackupOfNothing));
        }
        for suffix in ["", "/", "../a", "a\0"] {
            let backup = Backup::new().suffix(suffix);
            assert_eq!(found(backup, |_| {}), Err(Contradiction::BackupSuffix), "{suffix:?}");
        }
    }

    #[test]
    fn attributes_alone_leave_no_bytes_to_look_at() {
        let changes: [fn(&mut CopyOptions); 3] = [
            |o| o.verify = Digest::Xxh3.into(),
            |o| o.in_place = true,
            |o| o.transform = Transform::Decompress,
        ];
        for change in changes {
            let found = checked(|o| {
                o.attributes_only = true;
                change(o);
            });
            assert!(found.is_err());
        }
        let both = checked(|o| (o.existing, o.in_place) = (Existing::Remove, true));
        assert_eq!(both, Err(Contradiction::RemoveInPlace));
    }

    #[test]
    fn direct_writes_keep_nothing_in_the_page_cache() {
        for (allow, cache, agrees) in [
            (Allow::Only(Mechanism::Direct), Cache::Keep, false),
            (Allow::Only(Mechanism::DirectRing), Cache::Keep, false),
            (Allow::Only(Mechanism::DirectRing), Cache::Skip, true),
            (Allow::Only(Mechanism::Direct), Cache::Auto, true),
            (Allow::Only(Mechanism::Direct), Cache::Skip, true),
            (Allow::Only(Mechanism::Splice), Cache::Keep, true),
            (Allow::Any, Cache::Keep, true),
        ] {
            let expected = if agrees { Ok(()) } else { Err(Contradiction::DirectKeepsNoCache) };
            let found = checked(|o| (o.allow, o.cache) = (allow, cache));
            assert_eq!(found, expected, "{allow:?} {cache:?}");
        }
    }

    #[test]
    fn a_mechanism_that_cannot_meet_the_requirement_contradicts_it() {
        use Mechanism::{CopyFileRange, Direct, DirectRing, ReadWrite, Reflink, Sendfile, Splice};
        for (require, able) in [
            (Require::Nothing, &Mechanism::LINUX[..]),
            (Require::NoUserCopy, &[Reflink, CopyFileRange, DirectRing, Direct, Sendfile, Splice]),
            (Require::ZeroCopy, &[Reflink, CopyFileRange, DirectRing, Direct]),
            (Require::Moved, &[DirectRing, Direct]),
            (Require::Shared, &[Reflink, CopyFileRange]),
            (Require::Reflink, &[Reflink]),
        ] {
            assert_eq!(checked(|o| o.require = require), Ok(()), "{require:?}");
            for mechanism in Mechanism::LINUX {
                let found = checked(|o| (o.require, o.allow) = (require, Allow::Only(mechanism)));
                let excluded =
                    Contradiction::RequireExcludesMethod { require: require.name(), mechanism };
                let expected = if able.contains(&mechanism) { Ok(()) } else { Err(excluded) };
                assert_eq!(found, expected, "{require:?} {mechanism}");
            }
            let rw = Contradiction::RequireExcludesMethod {
                require: require.name(),
                mechanism: ReadWrite,
            };
            let expected = if require == Require::Nothing { Ok(()) } else { Err(rw) };
            let found = checked(|o| (o.require, o.allow) = (require, Allow::ReadWrite));
            assert_eq!(found, expected, "{require:?}");
            if require != Require::Nothing {
                let found = checked(|o| (o.require, o.sparse) = (require, Sparse::Always));
                assert_eq!(found, Err(Contradiction::ZerosNeedReading), "{require:?}");
            }
        }
        let found = checked(|o| (o.require, o.cache) = (Require::Moved, Cache::Keep));
        assert_eq!(found, Err(Contradiction::MovedKeepsNoCache));
    }

    #[test]
    fn a_requirement_accepts_bytes_by_their_cost() {
        use Cost::{Hole, KernelCopied, Moved, Shared, Unknown, UserCopied, Zeros};
        for (require, accepted) in [
            (Require::Nothing, &[Shared, Moved, KernelCopied, Zeros, UserCopied, Unknown][..]),
            (Require::NoUserCopy, &[Shared, Moved, KernelCopied, Unknown]),
            (Require::ZeroCopy, &[Shared, Moved]),
            (Require::Moved, &[Moved]),
            (Require::Shared, &[Shared]),
            (Require::Reflink, &[]),
        ] {
            for cost in [Shared, Moved, KernelCopied, Zeros, UserCopied, Unknown] {
                let found = require.accepts(Mechanism::CopyFileRange, cost);
                assert_eq!(found, accepted.contains(&cost), "{require:?} {cost:?}");
            }
            assert!(require.accepts(Mechanism::ReadWrite, Hole), "{require:?}");
            assert!(require.accepts(Mechanism::Reflink, Shared) != (require == Require::Moved));
        }
    }

    #[test]
    fn zeros_are_found_by_reading_alone() {
        let reads = [Allow::Any, Allow::ReadWrite, Allow::Only(Mechanism::ReadWrite)];
        let others = Mechanism::LINUX.into_iter().filter(|m| *m != Mechanism::ReadWrite);
        for allow in others.map(Allow::Only) {
            let found = checked(|o| (o.allow, o.sparse) = (allow, Sparse::Always));
            assert_eq!(found, Err(Contradiction::ZerosNeedReading), "{allow:?}");
            for sparse in [Sparse::Auto, Sparse::Never] {
                assert_eq!(checked(|o| (o.allow, o.sparse) = (allow, sparse)), Ok(()));
            }
        }
        for allow in reads {
            assert_eq!(checked(|o| (o.allow, o.sparse) = (allow, Sparse::Always)), Ok(()));
        }
    }

    #[test]
    fn a_copy_in_place_has_one_attempt() {
        for (in_place, if_changed, agrees) in [
            (true, IfChanged::Retry, false),
            (true, IfChanged::Fail, true),
            (true, IfChanged::Accept, true),
            (false, IfChanged::Retry, true),
        ] {
            let expected = if agrees { Ok(()) } else { Err(Contradiction::InPlaceCannotRetry) };
            let found = checked(|o| (o.in_place, o.if_changed) = (in_place, if_changed));
            assert_eq!(found, expected, "{in_place} {if_changed:?}");
        }
    }
}
