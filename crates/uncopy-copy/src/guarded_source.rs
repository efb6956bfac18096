//! Defines what guarded copies read: open directories and files of a source on this machine, or on another one.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use crate::entries_ahead::EntriesAhead;
use crate::options::Preserve;
use crate::peer::{Peer, PeerContents, PeerEntry, PeerNamed, PeerNames};
use crate::peer_directory::{ListedThere, PeerDirectory};
use crate::peer_file::PeerFile;
use crate::peer_link::{PeerLink, PeerObject, root_not_opened};
use crate::source_directory::SourceDirectory;
use crate::source_file::SourceFile;
use crate::source_places::SourcePlaces;
use uncopy_core::{Errno, Result};
use uncopy_os::file::{self, Stat};
use uncopy_os::follow::FollowError;
use uncopy_os::{Sys, directory, name, transfer};

/// Size of the buffer of a listing.
const LISTING_BYTES: usize = 64 << 10;

/// An open directory of the source.
#[derive(Debug)]
pub struct GuardedSource(SourceDirectory);

/// An open file of the source.
#[derive(Debug)]
pub struct GuardedFile(OpenFile);

#[derive(Debug)]
enum OpenFile {
    Here(OwnedFd),
    There { directory: Arc<PeerDirectory>, name: OsString, opened: (PeerObject, Stat) },
}

/// Entry of a listing.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "callers decide about each")]
pub enum GuardedEntry<'a> {
    /// A name; another machine also says what has it.
    Name(&'a OsStr, Option<&'a PeerEntry>),
    /// The other machine could not look at what has this name.
    Failed(&'a OsStr, Errno),
}

/// Result of a look at an entry of another machine.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "callers decide about each")]
pub enum GuardedLook {
    /// A directory, of which no more is known than its status and the extended attributes that were wanted.
    Directory(GuardedSource),
    /// Something else, or a directory of which more has to be asked.
    Other,
    /// There is none.
    Missing,
    /// It has to be asked for by itself.
    Unknown,
}

/// Looks at entries, of which some are asked for before their turn.
#[derive(Debug)]
pub struct GuardedLooks {
    ahead: EntriesAhead,
    wants_attributes: bool,
}

impl GuardedLooks {
    /// Returns an entry. Those before it that were not asked for are left out.
    pub fn take(&mut self, way: &[&OsStr], name: &OsStr) -> GuardedLook {
        match self.ahead.take(way, name) {
            Ok(Some(PeerNamed::Seen(entry))) => {
                let is_directory = entry.stat.file_type() == FileType::Directory;
                if !is_directory || self.wants_attributes && entry.attributes.is_none() {
                    return GuardedLook::Other;
                }
                let looked = Arc::new(PeerDirectory::looked(self.ahead.link(), entry));
                GuardedLook::Directory(GuardedSource(SourceDirectory::There(looked)))
            }
            Ok(Some(PeerNamed::Failed(entry))) if entry.errno == Errno::ENOENT => {
                GuardedLook::Missing
            }
            _ => GuardedLook::Unknown,
        }
    }
}

impl GuardedSource {
    /// Whether what was found beneath this directory is what was found beneath another one: on one machine, which another
    /// one can turn out to be.
    #[must_use]
    pub fn is_same_file(&self, found: &Stat, other: (&GuardedSource, &Stat)) -> bool {
        let (elsewhere, stat) = other;
        self.0.stat_here(found).is_same_file(&elsewhere.0.stat_here(stat))
    }

    /// Begins to look at entries below it by their names, in this order. `None`: each has to be asked for by itself.
    #[must_use]
    pub fn look_ahead(&self, names: Vec<PeerNames>, preserve: Preserve) -> Option<GuardedLooks> {
        let with_attributes = preserve.xattr || preserve.acl;
        let contents = PeerContents { up_to: 0, with_attributes };
        let ahead = self.0.there()?.look_ahead(names.into(), contents)?;
        Some(GuardedLooks { ahead, wants_attributes: with_attributes })
    }

    /// Takes over a directory of this machine.
    #[must_use]
    pub fn here(directory: OwnedFd) -> GuardedSource {
        GuardedSource(SourceDirectory::Here(directory))
    }

    /// Finds where it lies, if it is on this machine. `name`: by which people know it.
    #[must_use]
    pub fn places(&self, name: &Path) -> SourcePlaces {
        SourcePlaces::of([(name, self.open_here())].into_iter())
    }

    /// Returns its descriptor, if it is on this machine.
    #[must_use]
    pub fn open_here(&self) -> Option<&OwnedFd> {
        match &self.0 {
            SourceDirectory::Here(directory) => Some(directory),
            SourceDirectory::There(_) => None,
        }
    }

    /// Opens a root of another machine, which must be a directory. `name`: by which people know it.
    ///
    /// # Errors
    /// It cannot be opened, or the other machine was lost.
    pub fn there(peer: Arc<dyn Peer>, number: u32, name: &Path) -> Result<GuardedSource> {
        let link = Arc::new(PeerLink::new(peer, name.to_owned()));
        let opened = link.open_root(number, true, name);
        let is_directory = |(object, stat): (PeerObject, Stat)| match stat.file_type() {
            FileType::Directory => Ok(PeerDirectory::of_opened(object, stat)),
            _ => Err(FollowError::System(Errno::ENOTDIR)),
        };
        match opened.and_then(is_directory) {
            Ok(directory) => Ok(GuardedSource(SourceDirectory::There(Arc::new(directory)))),
            Err(stopped) => Err(link.lost().unwrap_or_else(|| root_not_opened(name, stopped))),
        }
    }

    /// Opens a directory below it, and follows no link there.
    ///
    /// # Errors
    /// Those of `openat2(2)`.
    pub fn open_beneath(&self, names: &[&OsStr]) -> Sys<GuardedSource> {
        let opened = match &self.0 {
            SourceDirectory::Here(root) => directory::open_beneath(root, names, false)
                .or_else(|errno| match errno {
                    // Names in it can be opened all the same.
                    Errno::EACCES => directory::open_beneath(root, names, true),
                    errno => Err(errno),
                })
                .map(SourceDirectory::Here),
            there @ SourceDirectory::There(_) => there.open_beneath(names),
        };
        opened.map(GuardedSource)
    }

    /// Opens a directory below it that is listed, in the same way. Listings of the same directory that is opened twice do
    /// not meet.
    ///
    /// # Errors
    /// Those of `openat2(2)`; it may not be read.
    pub fn open_listed(&self, names: &[&OsStr]) -> Sys<GuardedSource> {
        match &self.0 {
            SourceDirectory::Here(root) => {
                directory::open_beneath(root, names, false).map(SourceDirectory::Here)
            }
            there @ SourceDirectory::There(_) => there.open_beneath(names),
        }
        .map(GuardedSource)
    }

    /// Opens a file in it, which is no symbolic link.
    ///
    /// # Errors
    /// Those of `openat(2)`.
    pub fn open_file(&self, name: &OsStr) -> Sys<GuardedFile> {
        let file = match &self.0 {
            SourceDirectory::Here(parent) => {
                OpenFile::Here(name::open_existing(parent, name, OFlags::RDONLY)?)
            }
            SourceDirectory::There(parent) => {
                let (directory, name) = (Arc::clone(parent), name.to_owned());
                let opened = parent.open(&name, false)?;
                OpenFile::There { directory, name, opened }
            }
        };
        Ok(GuardedFile(file))
    }

    /// Looks at an entry; a symbolic link is not followed.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub fn stat_name(&self, name: &OsStr) -> Sys<Stat> {
        self.0.stat_name(name)
    }

    /// Hands on the entries from a place on (0: the beginning) until `take` returns `false`. Returns the place behind the
    /// last one; `None`: that was the end. On another machine a listing goes on where it paused, as long as the directory
    /// [is kept open](GuardedSource::kept_open); files of up to `contents_up_to` bytes come with their contents.
    ///
    /// # Errors
    /// Those of `getdents64(2)`.
    pub fn list(
        &self,
        from: u64,
        contents_up_to: u32,
        mut take: impl FnMut(GuardedEntry<'_>) -> bool,
    ) -> Sys<Option<u64>> {
        let mut behind = from;
        let is_at_end = match &self.0 {
            SourceDirectory::Here(fd) => {
                directory::rewind_to(fd, from)?;
                let mut buffer = Vec::with_capacity(LISTING_BYTES);
                directory::list(fd, buffer.spare_capacity_mut(), |entry| {
                    behind = entry.next;
                    take(GuardedEntry::Name(OsStr::from_bytes(entry.name.to_bytes()), None))
                })?
            }
            SourceDirectory::There(directory) => loop {
                let contents = PeerContents { up_to: contents_up_to, with_attributes: false };
                behind += 1;
                let goes_on = match directory.next(contents)? {
                    None => break true,
                    Some(ListedThere::Seen(entry)) => {
                        take(GuardedEntry::Name(&entry.name, Some(&entry)))
                    }
                    Some(ListedThere::Failed(entry)) => {
                        take(GuardedEntry::Failed(&entry.name, entry.errno))
                    }
                };
                if !goes_on {
                    break false;
                }
            },
        };
        Ok((!is_at_end).then_some(behind))
    }

    /// Returns the same open directory of another machine once more, which closes it when it is the last one.
    #[must_use]
    pub fn kept_open(&self) -> Option<GuardedSource> {
        self.0.there().map(|it| GuardedSource(SourceDirectory::There(Arc::clone(it))))
    }

    /// Whether it has an entry: what a listing of another machine that came to its end had is not asked for again.
    ///
    /// # Errors
    /// `ENOENT`: it has none.
    pub fn look_up(&self, name: &OsStr) -> Sys<()> {
        self.0.look_up(name)
    }

    /// Returns its status: on another machine, when it was opened.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub fn stat(&self) -> Sys<Stat> {
        self.0.stat()
    }

    /// Looks at the directory itself.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub fn examine(&self) -> Sys<Stat> {
        self.0.examine()
    }

    /// Fails if the other machine was lost, so that what could not be asked is not taken for an answer.
    ///
    /// # Errors
    /// It was lost.
    pub fn check_connected(&self) -> Result<()> {
        self.0.check_connected()
    }

    /// Whether it is on another machine.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.link().is_some()
    }

    /// Opens the same directory again.
    pub(crate) fn reopen(&self) -> Sys<SourceDirectory> {
        match &self.0 {
            SourceDirectory::Here(fd) => {
                directory::open_child(fd, OsStr::new(".")).map(SourceDirectory::Here)
            }
            SourceDirectory::There(directory) => Ok(SourceDirectory::There(Arc::clone(directory))),
        }
    }

    /// Returns the connection, if it is on another machine.
    pub(crate) fn link(&self) -> Option<&Arc<PeerLink>> {
        self.0.there().map(|directory| directory.link())
    }

    /// Returns where its extended attributes are copied from.
    pub(crate) fn attributes(&self, preserve: Preserve) -> crate::metadata::AttributeSource<'_> {
        self.0.attributes(preserve)
    }
}

impl GuardedFile {
    /// Takes over a file of this machine.
    #[must_use]
    pub fn here(file: OwnedFd) -> GuardedFile {
        GuardedFile(OpenFile::Here(file))
    }

    /// Opens a root of another machine as a file.
    ///
    /// # Errors
    /// As [`GuardedSource::there`]; it is no regular file.
    pub fn there(peer: Arc<dyn Peer>, number: u32, name: &Path) -> Result<GuardedFile> {
        let link = Arc::new(PeerLink::new(peer, name.to_owned()));
        let opened = link.open_root(number, true, name);
        let is_file = |opened: (PeerObject, Stat)| match opened.1.file_type() {
            FileType::RegularFile => Ok(opened),
            _ => Err(FollowError::System(Errno::EINVAL)),
        };
        match opened.and_then(is_file) {
            Ok(opened) => {
                let stat = opened.1.clone();
                let directory = PeerDirectory::above_root(&link, number, true, stat);
                let (directory, name) = (Arc::new(directory), name.as_os_str().to_owned());
                Ok(GuardedFile(OpenFile::There { directory, name, opened }))
            }
            Err(stopped) => Err(link.lost().unwrap_or_else(|| root_not_opened(name, stopped))),
        }
    }

    /// Looks at it.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub fn examine(&self) -> Sys<Stat> {
        match &self.0 {
            OpenFile::Here(fd) => file::stat(fd),
            OpenFile::There { opened: (object, _), .. } => object.examine(),
        }
    }

    /// Reads a range, and returns the bytes: fewer where the file ends.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn read(&self, range: Range<u64>) -> Sys<Vec<u8>> {
        let length = usize::try_from(range.end.saturating_sub(range.start));
        let length = length.map_err(|_| Errno::EINVAL)?;
        let mut bytes = Vec::with_capacity(length);
        match &self.0 {
            OpenFile::Here(fd) => {
                transfer::append_all_at(fd, &mut bytes, length, range.start)?;
            }
            OpenFile::There { .. } => {
                let (end, file) = (range.end, self.source_file()?);
                file.there().ok_or(Errno::EXDEV)?.read(range, end, &mut |part| {
                    bytes.extend_from_slice(part);
                    true
                })?;
            }
        }
        Ok(bytes)
    }

    /// Fails if the other machine was lost.
    ///
    /// # Errors
    /// It was lost.
    pub fn check_connected(&self) -> Result<()> {
        match &self.0 {
            OpenFile::Here(_) => Ok(()),
            OpenFile::There { directory, .. } => directory.link().lost().map_or(Ok(()), Err),
        }
    }

    /// Returns the open file as copies read it.
    pub(crate) fn source_file(&self) -> Sys<SourceFile> {
        Ok(match &self.0 {
            OpenFile::Here(fd) => SourceFile::Here(file::duplicate(fd)?),
            OpenFile::There { directory, name, opened } => {
                let opened = (opened.0.clone(), opened.1.clone());
                SourceFile::There(PeerFile::opened(directory, name.clone(), opened))
            }
        })
    }
}
