//! Defines what a job asks of a source on another machine.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sparse;
use uncopy_core::Errno;
use uncopy_os::file::Stat;

/// Number of something that the other machine has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerHandle(pub u32);

/// Failure of a question to the other machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerError {
    /// A system call failed there. The entry fails, and the job goes on.
    System(Errno),
    /// A link there is not followed, as [`Reason::ForeignLink`](uncopy_core::Reason::ForeignLink) says.
    ForeignLink {
        /// Its path there, from the root on if it lies in a tree.
        link: PathBuf,
        /// Number of its owner.
        owner: u32,
    },
    /// The connection ended, or the peer did what no peer does. The job ends.
    Lost {
        /// Description for people.
        what: String,
    },
}

/// Something that was opened there, with its status.
#[derive(Debug, Clone)]
pub struct PeerOpened {
    /// Its number.
    pub handle: PeerHandle,
    /// Its status.
    pub stat: Stat,
}

/// Entry of a directory.
#[derive(Debug, Clone)]
pub struct PeerEntry {
    /// Name: neither empty nor `.` or `..`, without a slash or a zero byte.
    pub name: OsString,
    /// Status; a symbolic link is not followed.
    pub stat: Stat,
    /// Target of a symbolic link.
    pub target: Option<OsString>,
    /// All bytes of a small file without holes, if they were wanted: as many as the status says.
    pub contents: Option<Box<[u8]>>,
    /// All extended attributes of a directory, or of a file with its contents, if they were wanted and are short.
    pub attributes: Option<Vec<PeerAttribute>>,
}

/// Entry of a directory that could not be looked at.
#[derive(Debug, Clone)]
pub struct PeerFailedEntry {
    /// Name, as that of others.
    pub name: OsString,
    /// Error there.
    pub errno: Errno,
}

/// Entries of one directory, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerNames {
    /// Names of the directories that lead to it from the one that is asked about. No link is followed.
    pub way: Vec<OsString>,
    /// Names of the entries: at least one.
    pub names: Vec<OsString>,
}

/// Whether a small file with these contents has a hole. Its contents do not come with its entry then: those who copy it
/// ask where its data lies.
#[must_use]
pub fn has_hole(file: impl AsFd, contents: &[u8]) -> bool {
    sparse::hides_hole(&file.as_fd(), contents)
}

/// Choice of what comes with entries; by default only their status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerContents {
    /// Maximum length in bytes of files whose contents come; 0: at most those of empty ones do.
    pub up_to: u32,
    /// Whether extended attributes come too: of these, and of directories that are looked at by their names.
    pub with_attributes: bool,
}

/// Entry that was asked for by its name.
#[derive(Debug, Clone)]
pub enum PeerNamed {
    /// It was looked at.
    Seen(PeerEntry),
    /// It could not be looked at.
    Failed(PeerFailedEntry),
}

/// Looks at entries by their names, of which some are asked for before their turn.
pub trait PeerLooks: fmt::Debug + Send {
    /// Returns the next entries of one [`PeerNames`], at least one, in the order of their names.
    ///
    /// # Errors
    /// As [`PeerError`] says. After a failed system call the next [`PeerNames`] have their turn.
    fn next(&mut self) -> Result<Vec<PeerNamed>, PeerError>;
}

/// Extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAttribute {
    /// Name.
    pub name: OsString,
    /// Value; `None`: it is long, and is to be asked for by itself.
    pub value: Option<Vec<u8>>,
}

impl PeerAttribute {
    /// Returns the number of bytes that it takes, as far as they have come.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Part of a count of what is below a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerCount {
    /// Number of entries since the part before.
    pub entries: u64,
    /// Bytes of the files among them.
    pub bytes: u64,
    /// Whether there are no more.
    pub is_last: bool,
}

/// Part of a directory's listing.
#[derive(Debug, Clone, Default)]
pub struct PeerPage {
    /// Entries, of any number.
    pub entries: Vec<PeerEntry>,
    /// Entries that could not be looked at.
    pub failed: Vec<PeerFailedEntry>,
    /// Whether there are no more.
    pub is_last: bool,
}

/// Part of the ranges of a file that hold data.
#[derive(Debug, Clone, Default)]
pub struct PeerRanges {
    /// Ranges, in order.
    pub ranges: Vec<Range<u64>>,
    /// Whether there are no more; otherwise the next question begins at the end of the last range.
    pub is_last: bool,
}

/// A source on another machine. Several workers of a job ask it at once.
///
/// Every answer is checked before it is returned: a name is a name, a length is within its bounds.
pub trait Peer: fmt::Debug + Send + Sync {
    /// Whether its files are those of this machine, with the same numbers of devices and inodes: a job that copies into its
    /// own source is refused then, as without a peer.
    fn is_here(&self) -> bool {
        false
    }

    /// Returns the path of a root, where the job does not have it as the name of the source: a directory that is to become
    /// like a source that lies in it is found by it. It is believed only if it leads to the root itself.
    fn root_path(&self, number: u32) -> Option<&Path> {
        let _ = number;
        None
    }

    /// Opens a root of the job by its number. A regular file and a directory can be read; anything else is only
    /// looked at.
    ///
    /// # Errors
    /// As [`PeerError`] says; this holds for every question.
    fn open_root(&self, number: u32, follows: bool) -> Result<PeerOpened, PeerError>;

    /// Returns the target of a root that is a symbolic link.
    ///
    /// # Errors
    /// `EINVAL`: it is none.
    fn root_target(&self, number: u32) -> Result<OsString, PeerError>;

    /// Opens an entry of a directory, in the same way. `follows`: a symbolic link leads to what is opened; otherwise it
    /// is only looked at itself.
    ///
    /// # Errors
    /// As [`PeerError`] says.
    fn open(
        &self,
        directory: PeerHandle,
        name: &OsStr,
        follows: bool,
    ) -> Result<PeerOpened, PeerError>;

    /// Returns the next part of a directory's listing. Each handle has one listing, which begins at the first call.
    ///
    /// # Errors
    /// The directory could not be read to its end.
    fn list(&self, directory: PeerHandle, contents: PeerContents) -> Result<PeerPage, PeerError>;

    /// Looks at an entry of a directory. A symbolic link is not followed, and comes with its target.
    ///
    /// # Errors
    /// `ENOENT`: there is none.
    fn look(&self, directory: PeerHandle, name: &OsStr) -> Result<PeerEntry, PeerError>;

    /// Looks at entries at and below a directory by their names, in this order. `None`: the other machine cannot.
    fn look_ahead(
        self: Arc<Self>,
        _directory: PeerHandle,
        _names: Arc<[PeerNames]>,
        _contents: PeerContents,
    ) -> Option<Box<dyn PeerLooks>> {
        None
    }

    /// Takes names of directories that are going to be opened, in this order, and not listed.
    fn expect_directories(&self, _directory: PeerHandle, _names: Vec<OsString>) {}

    /// Looks at something open again.
    ///
    /// # Errors
    /// As [`PeerError`] says.
    fn examine(&self, of: PeerHandle) -> Result<Stat, PeerError>;

    /// Returns ranges of a file that hold data, from an offset on.
    ///
    /// # Errors
    /// The filesystem there does not say.
    fn data_ranges(&self, file: PeerHandle, from: u64) -> Result<PeerRanges, PeerError>;

    /// Reads a range of a file and hands it on in order, in parts of at most 1 MiB. Fewer bytes come where the file
    /// ends. Returns their number. If `take` returns `false`, the rest is dropped.
    ///
    /// `ahead_to`: end of what will be read next, without a gap. It may be asked for before that, so that nobody waits
    /// between two ranges.
    ///
    /// # Errors
    /// The file could not be read; parts before that were handed on.
    fn read(
        &self,
        file: PeerHandle,
        range: Range<u64>,
        ahead_to: u64,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<u64, PeerError>;

    /// Whether bytes of the file have come that were others when they were looked at again: it changed while it was
    /// read, whatever its status says.
    fn has_changed(&self, _file: PeerHandle) -> bool {
        false
    }

    /// Returns extended attributes, access control lists among them, as `listxattr(2)` and `getxattr(2)` do.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the filesystem there has none.
    fn attributes(&self, of: PeerHandle) -> Result<Vec<PeerAttribute>, PeerError>;

    /// Returns the value of one of them; `None`: it is gone.
    ///
    /// # Errors
    /// As [`PeerError`] says.
    fn attribute(&self, of: PeerHandle, name: &OsStr) -> Result<Option<Vec<u8>>, PeerError>;

    /// Counts on what is below a directory, without its root. Each handle has one count, which begins at the first call.
    /// `one_filesystem`: directories of other filesystems are not entered.
    ///
    /// # Errors
    /// It was given up there.
    fn count(&self, directory: PeerHandle, one_filesystem: bool) -> Result<PeerCount, PeerError>;

    /// Closes something open.
    fn close(&self, of: PeerHandle);
}
