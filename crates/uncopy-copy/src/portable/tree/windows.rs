//! Makes directories and links on Windows.

use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileTypeExt, OpenOptionsExt, symlink_dir, symlink_file};
use std::path::Path;

use uncopy_os::native_calls::set_read_only;

/// `FILE_WRITE_ATTRIBUTES` and `FILE_FLAG_BACKUP_SEMANTICS` (winnt.h, winbase.h); the latter opens directories.
const WRITE_ATTRIBUTES: u32 = 0x100;
const OPEN_DIRECTORY: u32 = 0x0200_0000;

/// Makes a directory; its access rights are inherited.
pub(super) fn make_directory(path: &Path, _: u32) -> io::Result<()> {
    fs::create_dir(path)
}

/// Makes a symbolic link of the kind of the source's.
pub(super) fn make_link(target: &Path, new: &Path, is_of_directory: bool) -> io::Result<()> {
    if is_of_directory { symlink_dir(target, new) } else { symlink_file(target, new) }
}

/// Whether a link was made for a directory, whatever it leads to.
pub(super) fn is_of_directory(link: &Metadata) -> bool {
    link.file_type().is_symlink_dir()
}

/// There are no modes.
pub(super) fn mode(_: &Metadata) -> u32 {
    0
}

/// Removes an empty directory, or a link to one, also if it is read-only.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    with_writing_allowed(path, |path| fs::remove_dir(path))
}

/// Opens a directory so that its times and attributes can be changed.
pub(super) fn open_directory_to_change(path: &Path) -> io::Result<File> {
    OpenOptions::new().access_mode(WRITE_ATTRIBUTES).custom_flags(OPEN_DIRECTORY).open(path)
}

/// Makes a call that the read-only attribute may forbid, without it the second time. What is there afterwards has it
/// again.
fn with_writing_allowed<T>(path: &Path, call: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    match call(path) {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && set_read_only(path, false).unwrap_or(false) =>
        {
            let done = call(path);
            let _ = set_read_only(path, true);
            done
        }
        done => done,
    }
}

/// Opens a directory so that it can be flushed, for which `FlushFileBuffers` wants the right to write.
pub(super) fn open_directory_to_flush(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OPEN_DIRECTORY).open(path)
}

pub(super) fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

pub(super) fn set_mode_of(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Gives a directory the times of another.
pub(super) fn set_times(path: &Path, source: &Metadata) -> io::Result<()> {
    let directory = open_directory_to_change(path)?;
    let times = FileTimes::new().set_accessed(source.accessed()?);
    directory.set_times(times.set_modified(source.modified()?))
}

/// Opens a file so that it can be flushed, for which `FlushFileBuffers` wants the right to write.
pub(super) fn open_to_flush(path: &Path) -> io::Result<File> {
    with_writing_allowed(path, |path| OpenOptions::new().write(true).open(path))
}
