//! Directories for a run and for a test.

use std::fs::{DirBuilder, File, TryLockError};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;

use crate::sandbox::is_root_run;

const PREFIX: &str = "testbed-";

static RUN: Mutex<Option<RunDirectory>> = Mutex::new(None);

struct RunDirectory {
    disk: TempDir,
    /// Lock held during the run: a directory without a lock was left by a killed run.
    _lock: File,
}

/// Makes the directory of a test run.
pub(crate) fn open(target_tmpdir: &str) {
    open_in(&base_directory(target_tmpdir));
}

/// Makes the directory of this run in `base`, and removes those of killed runs.
pub(crate) fn open_in(base: &Path) {
    remove_stale(base);
    let disk = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(base)
        .unwrap_or_else(|error| panic!("cannot make a directory in {}: {error}", base.display()));
    spread(disk.path());
    let lock = File::create(disk.path().join("lock")).expect("an own directory is writable");
    lock.lock().expect("a new file is not locked");
    *RUN.lock().expect("no test holds this lock") = Some(RunDirectory { disk, _lock: lock });
}

/// Lets ext4 put each directory below this one into another group of inodes (`chattr +T`). In a group where
/// many files were just deleted it takes ten times as long to make one (`recently_deleted` in
/// `fs/ext4/ialloc.c`).
fn spread(directory: &Path) {
    let Ok(directory) = File::open(directory) else { return };
    // Other filesystems have no such flag.
    if let Ok(flags) = rustix::fs::ioctl_getflags(&directory) {
        let _ = rustix::fs::ioctl_setflags(&directory, flags | rustix::fs::IFlags::TOPDIR);
    }
}

/// Removes the directory of this run.
pub(crate) fn close() {
    let run = RUN.lock().expect("no test holds this lock").take();
    if let Some(run) = run {
        if !rustix::process::geteuid().is_root() {
            open_to_their_owner(run.disk.path());
        }
        let path = run.disk.path().to_owned();
        if let Err(error) = run.disk.close() {
            eprintln!("cannot remove {}: {error}", path.display());
        }
    }
}

/// Gives the owner all permissions on directories below, which root does without: in others, nothing can be
/// removed.
fn open_to_their_owner(directory: &Path) {
    let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_to_their_owner(&entry.path());
        }
    }
}

/// Returns the directory of this run, on disk; that for temporary files outside [`run`](crate::run).
pub(crate) fn run_directory() -> PathBuf {
    let run = RUN.lock().expect("no test holds this lock");
    run.as_ref().map_or_else(std::env::temp_dir, |run| run.disk.path().to_owned())
}

fn base_directory(target_tmpdir: &str) -> PathBuf {
    if let Some(chosen) = std::env::var_os("UNCOPY_TEST_DIR") {
        return PathBuf::from(chosen);
    }
    let target = PathBuf::from(target_tmpdir);
    // The build directory may belong to another user and be read-only.
    match tempfile::tempfile_in(&target) {
        Ok(_) => target,
        Err(_) => std::env::temp_dir(),
    }
}

fn remove_stale(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join("lock")) else { continue };
        if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory for one test, removed with its contents when dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
}

impl Scratch {
    /// Makes a directory in `parent` that everybody may enter and root may write.
    #[must_use]
    pub fn new_in(parent: &Path) -> Scratch {
        let dir = tempfile::Builder::new()
            .prefix("t-")
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir_in(parent)
            .unwrap_or_else(|error| panic!("cannot work in {}: {error}", parent.display()));
        Scratch { dir }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the names in the directory that are not in `expected`, sorted.
    #[must_use]
    pub fn strangers(&self, expected: &[&str]) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("a scratch directory is readable");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .filter(|name| !expected.contains(&name.as_str()))
            .collect();
        names.sort();
        names
    }

    /// Makes a subdirectory with this mode, regardless of the umask.
    pub fn subdirectory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.join(name);
        DirBuilder::new().mode(mode).create(&path).expect("a scratch directory is writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))
            .expect("an own directory");
        path
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !rustix::process::geteuid().is_root() && std::fs::remove_dir_all(self.path()).is_err() {
            open_to_their_owner(self.path());
        }
        // After a failed test, chattr +i and +a would prevent the removal.
        if std::thread::panicking() && is_root_run() {
            let _ = std::process::Command::new("chattr")
                .args(["-R", "-f", "-i", "-a"])
                .arg(self.path())
                .output();
        }
    }
}
