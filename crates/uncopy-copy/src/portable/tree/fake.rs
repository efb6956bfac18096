//! Plays the calls that copy trees; see [`crate::portable::fake`].

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use super::calls::TreeCalls;
use crate::native_trees;
use crate::portable::fake::{Call, Fake};
use uncopy_os::native::FileAttributes;
use uncopy_os::native_calls::SystemCalls;

impl TreeCalls for Fake {
    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        self.read(path)?;
        self.call(Call::List, || SystemCalls.list(path))
    }

    fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.call(Call::MakeDirectory, || {
            native_trees::make_directory(path, mode)?;
            self.set_attributes_of(&fs::metadata(path)?, FileAttributes::default());
            Ok(())
        })
    }

    fn make_link(&self, target: &Path, new: &Path, is_of_directory: bool) -> io::Result<()> {
        self.call(Call::MakeLink, || native_trees::make_link(target, new, is_of_directory))
    }

    fn make_name(&self, file: &Path, new: &Path) -> io::Result<()> {
        self.call(Call::MakeName, || fs::hard_link(file, new))
    }

    fn rename_entry(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Call::RenameEntry, || fs::rename(from, to))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.call(Call::RemoveDirectory, || fs::remove_dir(path))
    }

    fn open_directory(&self, path: &Path) -> io::Result<File> {
        self.call(Call::OpenDirectory, || File::open(path))
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.call(Call::SetMode, || native_trees::set_mode(path, mode))
    }

    fn set_directory_attributes(&self, path: &Path, attributes: FileAttributes) -> io::Result<()> {
        self.call(Call::SetDirectoryAttributes, || {
            self.set_attributes_of(&fs::metadata(path)?, attributes);
            Ok(())
        })
    }

    fn set_directory_times(&self, path: &Path, source: &Metadata) -> io::Result<()> {
        self.call(Call::SetDirectoryTimes, || native_trees::set_times(path, source))
    }

    fn open_to_flush(&self, path: &Path) -> io::Result<File> {
        self.call(Call::OpenToFlush, || File::open(path))
    }

    fn flush_directory(&self, path: &Path, mode: Option<u32>) -> io::Result<()> {
        self.call(Call::FlushDirectory, || match mode {
            Some(mode) => native_trees::set_mode(path, mode),
            None => fs::metadata(path).map(drop),
        })
    }
}
