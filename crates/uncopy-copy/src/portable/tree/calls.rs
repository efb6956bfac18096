//! Defines the calls that copy trees, in addition to those of files, so that a test can play them.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use crate::native_trees;
use uncopy_os::native::{CopyCalls, FileAttributes};
use uncopy_os::native_calls::SystemCalls;

/// The calls, by the standard library.
pub(super) trait TreeCalls: CopyCalls {
    /// Lists the names in a directory, each with whether it is a directory, if the listing says so.
    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        let name = |entry: fs::DirEntry| {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            (entry.file_name(), is_directory)
        };
        fs::read_dir(path)?.map(|entry| entry.map(name)).collect()
    }

    /// Makes a directory of this mode less the umask, where directories have modes.
    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        native_trees::make_directory(path, mode)
    }

    /// Makes a symbolic link. Windows has two kinds of them.
    fn make_link(&self, target: &Path, new: &Path, is_of_directory: bool) -> io::Result<()> {
        native_trees::make_link(target, new, is_of_directory)
    }

    /// Makes a further name of a file.
    fn make_name(&self, file: &Path, new: &Path) -> io::Result<()> {
        fs::hard_link(file, new)
    }

    /// Renames an entry; an existing one that is no directory is replaced.
    fn rename_entry(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to)
    }

    /// Removes an empty directory, or on Windows a link to a directory.
    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        native_trees::remove_directory(path)
    }

    /// Opens a directory, for what is given to open ones.
    fn open_directory(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    /// Sets the mode of a directory, where directories have modes.
    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        native_trees::set_mode(path, mode)
    }

    /// Sets the attributes of a directory, where files have some.
    fn set_directory_attributes(&self, path: &Path, attributes: FileAttributes) -> io::Result<()> {
        let directory = native_trees::open_directory_to_change(path)?;
        self.set_attributes(&directory, attributes)
    }

    /// Gives a directory the times of access and modification of another.
    fn set_directory_times(&self, path: &Path, source: &Metadata) -> io::Result<()> {
        native_trees::set_times(path, source)
    }

    /// Opens a file so that it can be flushed.
    fn open_to_flush(&self, path: &Path) -> io::Result<File> {
        native_trees::open_to_flush(path)
    }

    /// Sets the mode of a directory, and writes it with its names to the device. It may forbid opening it again.
    fn flush_directory(&self, path: &Path, mode: Option<u32>) -> io::Result<()> {
        let directory = native_trees::open_directory_to_flush(path)?;
        if let Some(mode) = mode {
            native_trees::set_mode_of(&directory, mode)?;
        }
        self.flush(&directory)
    }
}

impl TreeCalls for SystemCalls {}
