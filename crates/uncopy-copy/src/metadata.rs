//! Copies owner, permissions, attributes and times to the new file.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::creation_defaults::{CreationDefaults, DirectoryDefaults, Umask};
use super::destination::{Destination, ExistingEntry};
use super::mode_changes::ModeChanges;
use super::options::{GivenMetadata, Preserve};
use super::owner::Owner;
use super::peer_link::PeerAttributes;
use super::source::Source;
use super::source_file::SourceFile;
use super::staging::Staging;
use uncopy_core::{Errno, Error, InodeFlags, MetadataPart, Note, Objection, Reason};
use uncopy_os::file::{self, SETUID_SETGID, Stat};
use uncopy_os::xattr::ACCESS_ACL;
use uncopy_os::{Sys, name, privilege, xattr};

const DEFAULT_ACL: &CStr = c"system.posix_acl_default";

/// XFS lists its ACLs a second time for root, as they lie on its disk (`fs/xfs/xfs_acl.h`).
const ACCESS_ACL_OF_XFS: &CStr = c"trusted.SGI_ACL_FILE";
const DEFAULT_ACL_OF_XFS: &CStr = c"trusted.SGI_ACL_DEFAULT";

/// ACLs have a separate option, the system labels a new file itself, and signatures of other
/// contents would be wrong.
const NOT_FROM_SOURCE: &[&CStr] = &[
    ACCESS_ACL,
    DEFAULT_ACL,
    ACCESS_ACL_OF_XFS,
    DEFAULT_ACL_OF_XFS,
    c"security.selinux",
    c"security.ima",
    c"security.evm",
];

/// Writing to a file takes its capabilities away (`security_inode_killpriv`), like setuid.
const NOT_FROM_OLD: &[&CStr] = &[
    ACCESS_ACL,
    DEFAULT_ACL,
    ACCESS_ACL_OF_XFS,
    DEFAULT_ACL_OF_XFS,
    c"security.capability",
    c"security.ima",
    c"security.evm",
];

/// The mode that a new file is created with; umask and default ACL apply to it.
pub(crate) fn creation_mode(
    source: &Stat,
    replaced: Option<&ExistingEntry>,
    given: GivenMetadata<'_>,
) -> u32 {
    let given_later = replaced.is_some() || given.has_mode();
    if given_later { 0o600 } else { bits_of_new(source, given) }
}

/// The mode that a new file is created with where it is given no other afterwards.
fn bits_of_new(source: &Stat, given: GivenMetadata<'_>) -> u32 {
    given.new_mode.unwrap_or(source.permissions() & 0o777)
}

/// Part of the metadata that was asked for in so many words and could not be given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotGiven {
    what: GivenPart,
    errno: Errno,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivenPart {
    Mode,
    Owner,
}

impl NotGiven {
    pub(crate) fn owner(errno: Errno) -> NotGiven {
        NotGiven { what: GivenPart::Owner, errno }
    }

    pub(crate) fn mode(errno: Errno) -> NotGiven {
        NotGiven { what: GivenPart::Mode, errno }
    }

    /// Makes the error of the copy with this path.
    pub(crate) fn error(self, destination: impl AsRef<Path>) -> Error {
        let NotGiven { what, errno } = self;
        match (what, errno) {
            (GivenPart::Owner, Errno::EPERM) => {
                let reason = Reason::Refused(Objection::OwnerForbidden { errno });
                Error::new("set the owner of", destination.as_ref(), reason)
            }
            (GivenPart::Owner, _) => {
                Error::destination("set the owner of", destination.as_ref(), errno)
            }
            (GivenPart::Mode, _) => {
                Error::destination("set the mode of", destination.as_ref(), errno)
            }
        }
    }
}

/// Notes on what could not be given although the source has it, or the failure to give what was asked for.
pub(crate) type Notes = Result<Vec<Note>, NotGiven>;

/// Gives the new file its owner, ACL, mode, attributes and times. Returns what could not be given.
///
/// The order matters: `chown` clears setuid and may clear capabilities, `chmod` after an ACL sets
/// its mask, and every later change would disturb the times.
pub(crate) fn apply(
    staging: &Staging<'_>,
    source: &Source<'_>,
    destination: &Destination<'_>,
    given: GivenMetadata<'_>,
) -> Notes {
    let (stat, preserve) = (source.as_begun(), given.preserve);
    if let Some((directory_defaults, mode)) = staging.directory_defaults() {
        let attributes = &source.attributes(preserve);
        return apply_to_new(staging.fd(), (attributes, stat), mode, directory_defaults, given);
    }
    let set_mode = |mode| staging.set_permissions(mode);
    let is_hidden = given.changes.is_some();
    let writer = MetadataWriter::new(staging.fd(), given, false);
    let mut writer = MetadataWriter { set_mode: Some(&set_mode), is_hidden, ..writer };
    match &destination.found {
        Some(found) => {
            let kept = found.readable_handle();
            writer.ownership(Some(if preserve.ownership { stat } else { &found.stat }));
            writer.attributes_of_old(kept.as_ref());
            writer.attributes_of_source(&source.attributes(preserve));
            if !preserve.mode {
                writer.mode_of_old(&found.stat);
            }
        }
        None => {
            writer.ownership(preserve.ownership.then_some(stat));
            writer.attributes_of_source(&source.attributes(preserve));
            // Created with 0600 in both cases.
            let is_narrow = staging.is_temporary_name() || given.changes.is_some();
            if (is_narrow || preserve.acl) && !preserve.mode {
                let (directory, umask) = (destination.directory(), &Umask::default());
                writer.mode_of_new(Some(directory), umask, bits_of_new(stat, given));
            }
        }
    }
    if preserve.mode {
        writer.mode_of_source(stat);
    }
    writer.finish(stat)
}

/// Gives a file that was written in place only the metadata that the options name.
pub(crate) fn apply_in_place(
    fd: BorrowedFd<'_>,
    source: &Source<'_>,
    given: GivenMetadata<'_>,
) -> Notes {
    let stat = source.as_begun();
    let mut writer = MetadataWriter::new(fd, given, false);
    writer.ownership(given.preserve.ownership.then_some(stat));
    writer.attributes_of_source(&source.attributes(given.preserve));
    if given.preserve.mode {
        writer.mode_of_source(stat);
    }
    writer.finish(stat)
}

/// Gives a file that was created with `mode` in a directory with these defaults the metadata of the
/// source, with only the system calls that change something.
pub(crate) fn apply_to_new(
    fd: BorrowedFd<'_>,
    source: (&AttributeSource<'_>, &Stat),
    mode: u32,
    directory_defaults: DirectoryDefaults<'_>,
    given: GivenMetadata<'_>,
) -> Notes {
    if given.is_nothing() {
        return Ok(Vec::new());
    }
    let preserve = given.preserve;
    let (attributes, source) = source;
    let created =
        directory_defaults.look(fd, mode).map(|defaults| (defaults, mode & !defaults.umask));
    let writer = MetadataWriter::new(fd, given, false);
    let mut writer = MetadataWriter { defaults: created, ..writer };
    writer.ownership(preserve.ownership.then_some(source));
    writer.attributes_of_source(attributes);
    if preserve.mode {
        writer.mode_of_source(source);
    } else if preserve.acl {
        writer.mode(source.permissions() & 0o777 & !directory_defaults.umask.get());
    }
    writer.finish(source)
}

/// How a destination directory was created.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Made<'a> {
    /// It existed before.
    Found,
    /// Created with the source's permissions, and given those that filling it needs; or with mode 0700 if it is given
    /// another one afterwards ([`GivenMetadata::has_mode`]).
    AsSource(&'a Umask),
    /// Created with mode 0700.
    Private(&'a Umask),
}

/// Gives a directory the metadata of the source's when all its entries are there: another entry
/// would change its times, and its mode might forbid one.
pub(crate) fn apply_to_directory(
    fd: BorrowedFd<'_>,
    source: (&AttributeSource<'_>, &Stat),
    made: Made<'_>,
    given: GivenMetadata<'_>,
) -> Notes {
    let ((attributes, source), preserve) = (source, given.preserve);
    let mut writer = MetadataWriter::new(fd, given, true);
    writer.ownership(preserve.ownership.then_some(source));
    writer.attributes_of_source(attributes);
    if preserve.acl {
        writer.copy_acl(attributes, DEFAULT_ACL);
    }
    if preserve.mode {
        writer.mode_of_source(source);
    } else {
        writer.mode_of_directory(source, made);
    }
    writer.finish(source)
}

/// Copies ACL and attributes to a FIFO, socket, device or symbolic link through `O_PATH` handles,
/// because those are never opened. `user.*` is for files and directories alone (`xattr(7)`).
pub(crate) fn apply_to_handle(
    fd: BorrowedFd<'_>,
    source: &AttributeSource<'_>,
    given: GivenMetadata<'_>,
) -> Vec<Note> {
    let preserve = given.preserve;
    let mut writer = MetadataWriter::new(fd, given, false);
    writer.attributes_of_source(source);
    if preserve.mode && !preserve.acl {
        writer.forget_inherited();
    }
    writer.notes
}

/// Returns inode flags of the source that its copy lacks. Filesystems without such flags (`ENOTTY`)
/// have none to keep.
pub(crate) fn flags_not_kept(source: BorrowedFd<'_>, copy: BorrowedFd<'_>) -> InodeFlags {
    let flags = |fd| InodeFlags::from_bits(file::inode_flags(fd).unwrap_or(0));
    let ours = flags(source);
    if ours.is_empty() { ours } else { ours.without(flags(copy)) }
}

/// Whether a file has the ACL and the attributes that a copy of the source would get.
pub(crate) fn has_same_attributes(
    source: &AttributeSource<'_>,
    other: BorrowedFd<'_>,
    preserve: Preserve,
) -> Sys<bool> {
    let other = &AttributeSource::Here(other);
    let acl = |of: &AttributeSource<'_>| match of.get(ACCESS_ACL) {
        Err(Errno::EOPNOTSUPP) => Ok(None),
        other => other,
    };
    Ok((!preserve.acl || acl(source)? == acl(other)?)
        && (!preserve.xattr || are_same_attributes(source, other)?))
}

/// Compares one value after the other: all of them could be long.
fn are_same_attributes(source: &AttributeSource<'_>, other: &AttributeSource<'_>) -> Sys<bool> {
    let names = |of: &AttributeSource<'_>| -> Sys<BTreeSet<CString>> {
        let names = match of.names() {
            Err(Errno::EOPNOTSUPP) => Vec::new(),
            other => other?,
        };
        Ok(names.into_iter().filter(|name| !NOT_FROM_SOURCE.contains(&name.as_c_str())).collect())
    };
    let ours = names(source)?;
    if ours != names(other)? {
        return Ok(false);
    }
    for name in &ours {
        if source.get(name)? != other.get(name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where extended attributes are copied from, access control lists among them.
pub(crate) enum AttributeSource<'a> {
    /// An entry of this machine.
    Here(BorrowedFd<'a>),
    /// An entry of another machine, which was asked for all of them.
    There(Sys<PeerAttributes>),
}

impl AttributeSource<'_> {
    /// Returns the attributes of an entry of another machine; `ask` is called if any are to be kept.
    pub(crate) fn there(
        preserve: Preserve,
        ask: impl FnOnce() -> Sys<PeerAttributes>,
    ) -> AttributeSource<'static> {
        match preserve.xattr || preserve.acl {
            true => AttributeSource::There(ask()),
            false => AttributeSource::There(Ok(PeerAttributes::default())),
        }
    }

    fn names(&self) -> Sys<Vec<CString>> {
        match self {
            AttributeSource::Here(fd) => xattr::names(fd),
            AttributeSource::There(Ok(all)) => Ok(all.names().cloned().collect()),
            AttributeSource::There(Err(errno)) => Err(*errno),
        }
    }

    fn get(&self, name: &CStr) -> Sys<Option<Vec<u8>>> {
        match self {
            AttributeSource::Here(fd) => xattr::get(fd, name),
            AttributeSource::There(Ok(all)) => all.get(name),
            AttributeSource::There(Err(errno)) => Err(*errno),
        }
    }
}

impl Source<'_> {
    /// Returns where its extended attributes are copied from.
    pub(crate) fn attributes(&self, preserve: Preserve) -> AttributeSource<'_> {
        match &self.file {
            SourceFile::Here(fd) => AttributeSource::Here(fd.as_fd()),
            SourceFile::There(file) => AttributeSource::there(preserve, || file.attributes()),
        }
    }
}

impl ExistingEntry {
    /// Opens a file to read its attributes; an `O_PATH` handle gives no access to them.
    fn readable_handle(&self) -> Sys<std::os::fd::OwnedFd> {
        file::reopen(&self.handle, rustix::fs::OFlags::RDONLY)
    }
}

struct MetadataWriter<'a> {
    fd: BorrowedFd<'a>,
    given: GivenMetadata<'a>,
    is_directory: bool,
    /// Whether the file may have a temporary name, under which nobody may open it by an access control list
    /// before it has its changed mode.
    is_hidden: bool,
    /// Whether the mode was set.
    has_mode: bool,
    not_given: Option<NotGiven>,
    /// Sets the mode of a file that may have a temporary name.
    set_mode: Option<&'a dyn Fn(u32) -> Sys<()>>,
    /// How the file was created and with which mode, if that is known and unchanged since.
    defaults: Option<(CreationDefaults, u32)>,
    notes: Vec<Note>,
}

impl<'a> MetadataWriter<'a> {
    fn new(fd: BorrowedFd<'a>, given: GivenMetadata<'a>, is_directory: bool) -> MetadataWriter<'a> {
        MetadataWriter {
            fd,
            given,
            is_directory,
            is_hidden: false,
            has_mode: false,
            not_given: None,
            set_mode: None,
            defaults: None,
            notes: Vec::new(),
        }
    }

    /// Sets what comes last: a changed mode that was not set yet, and the times.
    fn finish(mut self, source: &Stat) -> Notes {
        if self.given.changes.is_some() && !self.has_mode {
            match (self.defaults, file::stat(self.fd)) {
                (Some((_, created)), _) => self.mode(created),
                (None, Ok(now)) => self.mode(now.permissions()),
                (None, Err(errno)) => {
                    self.not_given = Some(NotGiven { what: GivenPart::Mode, errno })
                }
            }
        }
        if self.given.preserve.timestamps {
            self.timestamps(source);
        }
        match self.not_given {
            Some(not_given) => Err(not_given),
            None => Ok(self.notes),
        }
    }

    fn note(&mut self, what: MetadataPart, errno: Errno) {
        self.notes.push(Note::NotKept { what, errno });
    }

    /// Gives the owner that is asked for, and otherwise this one.
    fn ownership(&mut self, wanted: Option<&Stat>) {
        let asked = self.given.owner;
        if wanted.is_none() && asked == Owner::default() {
            return;
        }
        let now = match self.defaults {
            Some((defaults, _)) => (defaults.uid, defaults.gid),
            None => match file::stat(self.fd) {
                Ok(now) => (now.uid, now.gid),
                Err(_) => return,
            },
        };
        let lacking = asked.lacking(wanted.map(|wanted| (wanted.uid, wanted.gid)), now);
        if lacking == Owner::default() {
            return;
        }
        self.defaults = None;
        match asked.give(lacking, |uid, gid| file::set_owner(self.fd, uid, gid)) {
            Ok(None) => {}
            Ok(Some((what, errno))) => self.note(what, errno),
            Err(errno) => self.not_given = Some(NotGiven { what: GivenPart::Owner, errno }),
        }
    }

    fn mode(&mut self, mode: u32) {
        let umask = || name::umask().unwrap_or(0o022);
        let changed = |changes: &ModeChanges| changes.apply(mode, self.is_directory, umask());
        let mode = self.given.changes.map_or(mode, changed);
        self.has_mode = true;
        if self.defaults.is_some_and(|(_, created)| created == mode) {
            return;
        }
        let given = match self.set_mode {
            Some(set_mode) => set_mode(mode),
            None => file::set_permissions(self.fd, mode),
        };
        match given {
            Err(errno) if self.given.changes.is_some() => {
                self.not_given = self.not_given.or(Some(NotGiven { what: GivenPart::Mode, errno }));
            }
            Err(errno) => self.note(MetadataPart::Mode, errno),
            Ok(()) => {}
        }
    }

    /// Gives the source's mode, without setuid and setgid unless the owner was copied too.
    fn mode_of_source(&mut self, source: &Stat) {
        let mode = self.mode_of_owner(source);
        if !self.given.preserve.acl && self.defaults.is_none() {
            self.forget_inherited();
        }
        self.mode(mode);
    }

    /// Gives the mode of the replaced file, without setuid and setgid unless its owner was kept and the caller may
    /// keep them: the kernel clears them when a process without this privilege writes to a file, so that new contents
    /// do not run with old rights.
    fn mode_of_old(&mut self, old: &Stat) {
        let mode = old.permissions();
        let mode = match mode & SETUID_SETGID == 0 || privilege::keeps_setuid_of_written() {
            true => self.mode_of_owner(old),
            false => mode & !SETUID_SETGID,
        };
        self.mode(mode);
    }

    /// Returns the mode of a file, without setuid and setgid unless the new file has the same owner and group.
    fn mode_of_owner(&mut self, of: &Stat) -> u32 {
        let mode = of.permissions();
        let is_owned =
            || file::stat(self.fd).is_ok_and(|now| (now.uid, now.gid) == (of.uid, of.gid));
        if mode & SETUID_SETGID == 0 || is_owned() {
            return mode;
        }
        self.notes.push(Note::SetuidDropped);
        mode & !SETUID_SETGID
    }

    /// Entries inherited from a default ACL would give more than the source's mode does.
    fn forget_inherited(&self) {
        let _ = xattr::remove(self.fd, ACCESS_ACL);
    }

    fn timestamps(&mut self, source: &Stat) {
        if let Err(errno) = file::set_times(self.fd, source.accessed, source.modified) {
            self.note(MetadataPart::Times, errno);
        }
    }

    fn attributes_of_source(&mut self, source: &AttributeSource<'_>) {
        let preserve = self.given.preserve;
        if preserve.xattr {
            self.copy_attributes(source, NOT_FROM_SOURCE);
        }
        if preserve.acl {
            self.copy_acl(source, ACCESS_ACL);
        }
    }

    /// Returns the mode of a directory whose source has no special mode.
    fn mode_of_directory(&mut self, source: &Stat, made: Made<'_>) {
        const SETGID: u32 = 0o2000;
        const STICKY: u32 = 0o1000;
        let permissions = source.permissions() & (0o777 | STICKY);
        let now = || file::stat(self.fd).map_or(0, |stat| stat.permissions());
        match made {
            Made::Found => {}
            Made::AsSource(umask) if !self.given.has_mode() => {
                let owner = permissions & !self.taken_from_owner(umask);
                if owner & 0o700 != 0o700 {
                    let now = now();
                    self.mode(now & (owner | 0o7077));
                }
            }
            Made::AsSource(umask) | Made::Private(umask) => {
                let inherited = now() & SETGID;
                self.mode_of_new(None, umask, permissions | inherited);
            }
        }
    }

    /// Returns permissions that the umask takes from the owner of a new directory, if it decides about them: below
    /// a default ACL it does not (`umask(2)`), and a new directory has the default ACL of the one above.
    fn taken_from_owner(&self, umask: &Umask) -> u32 {
        let taken = umask.get() & 0o700;
        let has_acl = || matches!(xattr::get(self.fd, DEFAULT_ACL), Ok(Some(_)));
        if taken == 0 || has_acl() { 0 } else { taken }
    }

    /// Copies metadata of the replaced file that the source does not give.
    fn attributes_of_old(&mut self, old: Result<&std::os::fd::OwnedFd, &Errno>) {
        let preserve = self.given.preserve;
        let Ok(old) = old else {
            let errno = old.err().copied().unwrap_or(Errno::EACCES);
            return self.note(MetadataPart::OfReplaced, errno);
        };
        let old = &AttributeSource::Here(old.as_fd());
        if !preserve.xattr {
            self.copy_attributes(old, NOT_FROM_OLD);
        }
        if !preserve.acl && !preserve.mode {
            self.copy_acl(old, ACCESS_ACL);
        }
    }

    fn copy_attributes(&mut self, from: &AttributeSource<'_>, except: &[&CStr]) {
        let names = match from.names() {
            Ok(names) => names,
            Err(Errno::EOPNOTSUPP) => return,
            Err(errno) => return self.note(MetadataPart::Attributes, errno),
        };
        for name in names.iter().filter(|n| !except.contains(&n.as_c_str())) {
            let copied = from.get(name).and_then(|value| match value {
                Some(value) => self.set_attribute(name, &value),
                None => Ok(()),
            });
            if let Err(errno) = copied {
                self.note(MetadataPart::Attribute(name.clone()), errno);
            }
        }
    }

    /// Sets an attribute, also where the mode forbids its owner to write: `user.*` needs that (`xattr(7)`).
    fn set_attribute(&self, name: &CStr, value: &[u8]) -> Sys<()> {
        let refused = match xattr::set(self.fd, name, value) {
            Err(Errno::EACCES) => Err(Errno::EACCES),
            set => return set,
        };
        let Ok(mode) = file::stat(self.fd).map(|stat| stat.permissions()) else { return refused };
        let is_writable = mode & 0o200 != 0;
        if is_writable || file::set_permissions(self.fd, mode | 0o200).is_err() {
            return refused;
        }
        let set = xattr::set(self.fd, name, value);
        set.and(file::set_permissions(self.fd, mode))
    }

    fn copy_acl(&mut self, from: &AttributeSource<'_>, which: &CStr) {
        let result = match from.get(which) {
            Ok(Some(acl)) => {
                self.defaults = None;
                xattr::set(self.fd, which, &self.until_it_has_its_mode(acl))
            }
            // The new file has none.
            Ok(None) if self.defaults.is_some() => Ok(()),
            Ok(None) => match xattr::remove(self.fd, which) {
                Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(()),
                other => other,
            },
            Err(Errno::EOPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno),
        };
        if let Err(errno) = result {
            self.note(MetadataPart::Acl, errno);
        }
    }

    /// Returns the list for a file that may have a temporary name: for its owner alone until the mode is
    /// set, which gives the others what they may have.
    fn until_it_has_its_mode(&self, acl: Vec<u8>) -> Vec<u8> {
        let narrowed = if self.is_hidden { inherited(&acl, 0o700) } else { None };
        narrowed.unwrap_or(acl)
    }

    /// Gives the mode that the kernel would have, had the entry been created with it under its final name: the default
    /// ACL of its directory decides if there is one, else the umask (`acl(5)`, object creation). An ACL of the source
    /// takes the place of a default one.
    ///
    /// `directory`: where it gets its name. `None`: it is a directory itself, and got the default ACL when it was made.
    fn mode_of_new(&mut self, directory: Option<BorrowedFd<'_>>, umask: &Umask, mode: u32) {
        const SPECIAL: u32 = 0o7000;
        let default = || match directory {
            Some(directory) => name::open_directory_for_reading(directory)
                .and_then(|directory| xattr::get(directory, DEFAULT_ACL)),
            None => xattr::get(self.fd, DEFAULT_ACL),
        };
        let default = if self.given.preserve.acl { None } else { default().ok().flatten() };
        match default.and_then(|acl| inherited(&acl, mode)) {
            Some(acl) => {
                let (permissions, special) = (mode_of(&acl), mode & SPECIAL);
                let acl = self.until_it_has_its_mode(acl);
                if let Err(errno) = xattr::set(self.fd, ACCESS_ACL, &acl) {
                    self.note(MetadataPart::DefaultAcl, errno);
                }
                // The list says nothing of these.
                if self.given.changes.is_some() || special != 0 {
                    self.mode(permissions | special);
                }
            }
            None => self.mode(mode & !umask.get()),
        }
    }
}

/// The access ACL of a file created with `mode` below a directory with this default ACL.
///
/// The format is that of `include/uapi/linux/posix_acl_xattr.h`: a version, then entries of tag,
/// permissions and id; the rule is that of `posix_acl_create_masq` (`fs/posix_acl.c`).
fn inherited(default: &[u8], mode: u32) -> Option<Vec<u8>> {
    const ENTRY_BYTES: usize = 8;
    const USER_OBJ: u16 = 0x01;
    const GROUP_OBJ: u16 = 0x04;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let mut acl = default.to_vec();
    let (version, entries) = acl.split_first_chunk_mut::<4>()?;
    if u32::from_le_bytes(*version) != 2 || entries.len() % ENTRY_BYTES != 0 {
        return None;
    }
    let tag = |entry: &[u8]| u16::from_le_bytes([entry[0], entry[1]]);
    let has_mask = entries.chunks_exact(ENTRY_BYTES).any(|e| tag(e) == MASK);
    for entry in entries.chunks_exact_mut(ENTRY_BYTES) {
        let allowed = match tag(entry) {
            USER_OBJ => mode >> 6,
            MASK => mode >> 3,
            GROUP_OBJ if !has_mask => mode >> 3,
            OTHER => mode,
            _ => continue,
        };
        entry[2] &= (allowed & 0o7) as u8;
    }
    Some(acl)
}

/// Returns the permission bits that such a list stands for: the mask, or without one the group, counts for
/// the group.
fn mode_of(acl: &[u8]) -> u32 {
    let permissions = |tag: u16| {
        let mut entries = acl.get(4..).unwrap_or_default().chunks_exact(8);
        let entry = entries.find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == tag)?;
        Some(u32::from(entry[2] & 0o7))
    };
    let group = permissions(0x10).or(permissions(0x04)).unwrap_or(0);
    permissions(0x01).unwrap_or(0) << 6 | group << 3 | permissions(0x20).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{inherited, mode_of};

    fn acl(entries: &[(u16, u8, u32)]) -> Vec<u8> {
        let mut bytes = 2u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend([*permissions, 0]);
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_default_acl_is_masked_by_the_creation_mode() {
        let none = u32::MAX;
        let default =
            acl(&[(1, 7, none), (2, 6, 1000), (4, 7, none), (0x10, 7, none), (0x20, 5, none)]);
        let expected =
            acl(&[(1, 6, none), (2, 6, 1000), (4, 7, none), (0x10, 4, none), (0x20, 0, none)]);
        assert_eq!(inherited(&default, 0o640), Some(expected));
        assert_eq!((mode_of(&default), mode_of(&[])), (0o775, 0));
        let minimal = acl(&[(1, 7, none), (4, 7, none), (0x20, 7, none)]);
        let expected = acl(&[(1, 6, none), (4, 4, none), (0x20, 4, none)]);
        assert_eq!(inherited(&minimal, 0o644), Some(expected));
        assert_eq!(inherited(&[3, 0, 0, 0], 0o644), None);
        assert_eq!(inherited(&[2], 0o644), None);
    }
}
