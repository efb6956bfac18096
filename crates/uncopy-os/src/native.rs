//! Calls that copy one file on systems other than Linux: one trait, which a test can play on any system.
//!
//! Each method is one call, or the few that make one. Which is tried, and what an error means, is decided elsewhere.

use std::any::Any;
use std::ffi::OsString;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use crate::native_owners;
use uncopy_core::System;

/// Answer to a report of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// Go on.
    Continue,
    /// End the call, which then fails.
    Stop,
}

/// Receives the number of bytes copied so far.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64) -> Advance;

/// Call that gives a file its final name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placing {
    /// `rename(2)`; on Windows `MoveFileExW`.
    Rename,
    /// `renamex_np(2)` with `RENAME_EXCL`, which never replaces.
    ExclusiveRename,
    /// `FileRenameInfoEx` with POSIX semantics, which also replaces a file that is open or read-only.
    PosixRename,
    /// `link(2)`, which never replaces; the first name stays.
    Link,
}

/// Identity of a file or directory, and the number of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Volume.
    pub volume: u64,
    /// Number in the volume.
    pub number: u64,
    /// Number of names.
    pub names: u64,
}

/// Attributes of a file or directory of Windows that programs set. Those that say how it is stored are left out:
/// compressed, encrypted, sparse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileAttributes {
    bits: u32,
}

impl FileAttributes {
    /// `FILE_ATTRIBUTE_READONLY` (winnt.h).
    pub const READ_ONLY: FileAttributes = FileAttributes { bits: 0x1 };
    /// `FILE_ATTRIBUTE_HIDDEN`.
    pub const HIDDEN: FileAttributes = FileAttributes { bits: 0x2 };
    /// `FILE_ATTRIBUTE_SYSTEM`.
    pub const SYSTEM: FileAttributes = FileAttributes { bits: 0x4 };
    /// `FILE_ATTRIBUTE_ARCHIVE`: it changed since it was backed up.
    pub const ARCHIVE: FileAttributes = FileAttributes { bits: 0x20 };
    /// `FILE_ATTRIBUTE_NOT_CONTENT_INDEXED`.
    pub const NOT_INDEXED: FileAttributes = FileAttributes { bits: 0x2000 };

    /// Returns these attributes out of all bits that the system has for a file.
    #[must_use]
    pub const fn from_bits(bits: u32) -> FileAttributes {
        let all = FileAttributes::READ_ONLY
            .with(FileAttributes::HIDDEN)
            .with(FileAttributes::SYSTEM)
            .with(FileAttributes::ARCHIVE)
            .with(FileAttributes::NOT_INDEXED);
        FileAttributes { bits: bits & all.bits }
    }

    /// Returns the bits of the system.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the attributes of both.
    #[must_use]
    pub const fn with(self, other: FileAttributes) -> FileAttributes {
        FileAttributes { bits: self.bits | other.bits }
    }

    /// Returns the attributes that both have.
    #[must_use]
    pub const fn common(self, other: FileAttributes) -> FileAttributes {
        FileAttributes { bits: self.bits & other.bits }
    }
}

/// The calls. Errors have the system's own numbers; a call that the system lacks fails as unsupported.
pub trait CopyCalls {
    /// The system, whose error numbers they are.
    fn system(&self) -> System;

    /// Opens a source, so that it keeps its name while it is read where the system can hold it.
    fn open_source(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    /// Makes a new file.
    fn create(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        options.open(path)
    }

    /// Opens a file that a call has made.
    fn open_made(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    /// Opens a file that exists, to be read and written where it is.
    fn open_existing(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(path)
    }

    /// Makes a file that shares all blocks with `source` (`fclonefileat`).
    fn clone_file(&self, _source: &File, _new: &Path) -> io::Result<()> {
        unsupported()
    }

    /// Copies the contents between open files (`fcopyfile`). Returns the number of bytes.
    fn copy_into(
        &self,
        _source: &File,
        _destination: &File,
        _keeps_holes: bool,
        _progress: OnProgress<'_>,
    ) -> io::Result<u64> {
        unsupported()
    }

    /// Copies a file to a new name (`CopyFile2`). Returns the number of bytes.
    fn copy_to_new(
        &self,
        _source: &Path,
        _new: &Path,
        _progress: OnProgress<'_>,
    ) -> io::Result<u64> {
        unsupported()
    }

    /// Whether each block of a file is one of a further file too. Fails where the system does not say so.
    fn shares_all_blocks(&self, _file: &File) -> io::Result<bool> {
        unsupported()
    }

    /// Whether a file has alternate data streams.
    fn has_streams(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Shares a range of whole clusters (`FSCTL_DUPLICATE_EXTENTS_TO_FILE`), of which the last may end behind the file.
    fn share_blocks(
        &self,
        _source: &File,
        _destination: &File,
        _range: Range<u64>,
    ) -> io::Result<()> {
        unsupported()
    }

    /// Returns the size of a cluster of the volume of a directory.
    fn cluster_bytes(&self, _directory: &Path) -> io::Result<u64> {
        unsupported()
    }

    /// Gives the destination the checksums of the source, without which blocks are not shared.
    fn match_integrity(&self, _source: &File, _destination: &File) -> io::Result<()> {
        unsupported()
    }

    /// Makes a file one that may have holes.
    fn make_sparse(&self, _destination: &File) -> io::Result<()> {
        Ok(())
    }

    /// Returns the ranges of a file of `bytes` bytes that hold data, in order.
    fn data_ranges(&self, _source: &File, _bytes: u64) -> io::Result<Vec<Range<u64>>> {
        unsupported()
    }

    /// Whether a file may have holes, where the system says so in other ways than by its blocks.
    fn may_have_holes(&self, _metadata: &Metadata) -> Option<bool> {
        None
    }

    /// Whether two names are of one file. `None`: its metadata says so.
    fn is_same_file(&self, _one: &Path, _other: &Path) -> Option<bool> {
        None
    }

    /// Identifies what has a name: a symbolic link is followed if it `follows`. `None`: its metadata does so.
    fn identify(&self, _path: &Path, _follows: bool) -> Option<io::Result<FileIdentity>> {
        None
    }

    /// Whether a file belongs to the user who runs this. Where the system does not say so, it does.
    fn is_own(&self, _metadata: &Metadata) -> bool {
        true
    }

    /// Reads at an offset; may be short.
    fn read_at(&self, mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek(SeekFrom::Start(offset))?;
        file.read(buffer)
    }

    /// Writes at an offset; may be short.
    fn write_at(&self, mut file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.seek(SeekFrom::Start(offset))?;
        file.write(bytes)
    }

    /// Sets the length of a file.
    fn set_length(&self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    /// Sets owner and group of an open file or directory; `None`: it stays.
    fn set_owner(&self, file: &File, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        native_owners::set_owner(file, user, group)
    }

    /// Makes a FIFO, socket or device like another one, of its permissions less the umask.
    fn make_special(&self, _source: &Metadata, _new: &Path) -> io::Result<()> {
        unsupported()
    }

    /// Sets owner and group of whatever has a name. A symbolic link is not followed.
    fn set_owner_of_name(
        &self,
        name: &Path,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        native_owners::set_owner_of_name(name, user, group)
    }

    /// Sets owner and group of a symbolic link, and of nothing else that got its name.
    fn set_owner_of_link(
        &self,
        _link: &Path,
        _user: Option<u32>,
        _group: Option<u32>,
    ) -> io::Result<()> {
        unsupported()
    }

    /// Gives a file or directory the extended attributes of another, and the flags that do not forbid to rename it.
    fn copy_attributes(&self, _source: &File, _copy: &File) -> io::Result<()> {
        unsupported()
    }

    /// Gives a file or directory the access control list of another.
    fn copy_acl(&self, _source: &File, _copy: &File) -> io::Result<()> {
        unsupported()
    }

    /// Sets the permissions of an open file.
    fn set_permissions(&self, file: &File, permissions: Permissions) -> io::Result<()> {
        file.set_permissions(permissions)
    }

    /// Returns the attributes of a file or directory. `None`: files of the system have a mode instead.
    fn attributes(&self, _metadata: &Metadata) -> Option<FileAttributes> {
        None
    }

    /// Sets the attributes of an open file or directory.
    fn set_attributes(&self, _file: &File, _attributes: FileAttributes) -> io::Result<()> {
        unsupported()
    }

    /// Gives a file the times of another: those of access and modification; where the system has it, that of creation.
    fn set_times(&self, file: &File, from: &Metadata) -> io::Result<()> {
        file.set_times(access_and_modification(from)?)
    }

    /// Writes a file to the device: `F_FULLFSYNC` on macOS, `FlushFileBuffers` on Windows.
    fn flush(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// Writes the new name of a file to the device: that of the directory.
    fn flush_name(&self, _file: &File, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    /// Gives `file` its final name, and replaces what is there only if `replaces`.
    fn place(
        &self,
        placing: Placing,
        _file: &File,
        temporary: &Path,
        destination: &Path,
        _replaces: bool,
    ) -> io::Result<()> {
        place(placing, temporary, destination)
    }

    /// Gives a file a further name, which must be free.
    fn hard_link(&self, original: &Path, link: &Path) -> io::Result<()> {
        fs::hard_link(original, link)
    }

    /// Renames a file, and replaces one that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Renames an entry to a name that must be free, where the system has a call for that.
    fn rename_to_free(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        unsupported()
    }

    /// Returns the names in a directory.
    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    /// Removes a temporary file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// Returns the times that every system has.
///
/// # Errors
/// The system does not give them.
pub(super) fn access_and_modification(from: &Metadata) -> io::Result<FileTimes> {
    Ok(FileTimes::new().set_accessed(from.accessed()?).set_modified(from.modified()?))
}

/// Gives a file its final name by the standard library.
///
/// # Errors
/// Those of the call; a way that the standard library lacks.
pub(super) fn place(placing: Placing, temporary: &Path, destination: &Path) -> io::Result<()> {
    match placing {
        Placing::Rename => fs::rename(temporary, destination),
        Placing::Link => fs::hard_link(temporary, destination),
        Placing::ExclusiveRename | Placing::PosixRename => unsupported(),
    }
}

/// Result of a call that the system lacks.
///
/// # Errors
/// Always.
pub fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Passes reports of progress out of a callback that the system calls, through which no panic may unwind.
pub struct Reports<'a> {
    on_progress: OnProgress<'a>,
    is_stopped: bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Reports<'a> {
    /// Makes one for a single call.
    pub fn new(on_progress: OnProgress<'a>) -> Reports<'a> {
        Reports { on_progress, is_stopped: false, panic: None }
    }

    /// Reports `copied` bytes. After a stop or a panic the answer stays.
    pub fn report(&mut self, copied: u64) -> Advance {
        if !self.is_stopped {
            let on_progress = &mut self.on_progress;
            let answer = panic::catch_unwind(AssertUnwindSafe(|| on_progress(copied)));
            match answer {
                Ok(answer) => self.is_stopped = answer == Advance::Stop,
                Err(panic) => (self.is_stopped, self.panic) = (true, Some(panic)),
            }
        }
        if self.is_stopped { Advance::Stop } else { Advance::Continue }
    }

    /// Returns whether the call was stopped, and goes on with a panic.
    pub fn finish(self) -> bool {
        if let Some(panic) = self.panic {
            panic::resume_unwind(panic);
        }
        self.is_stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_and_a_panic_stay() {
        let mut seen = Vec::new();
        let mut observer = |bytes| {
            seen.push(bytes);
            if bytes < 2 { Advance::Continue } else { Advance::Stop }
        };
        let mut reports = Reports::new(&mut observer);
        let answers = [0, 1, 2, 3].map(|bytes| reports.report(bytes));
        assert!(reports.finish());
        assert_eq!(seen, [0, 1, 2]);
        assert_eq!(answers[1..], [Advance::Continue, Advance::Stop, Advance::Stop]);

        let mut observer = |_| panic!("on purpose");
        let mut reports = Reports::new(&mut observer);
        assert_eq!(reports.report(0), Advance::Stop);
        assert!(panic::catch_unwind(AssertUnwindSafe(|| reports.finish())).is_err());
    }
}
