//! A tree copied by nothing but the system calls that it takes: what the filesystem lets anybody
//! reach.

use std::ffi::CStr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

/// As many as `uncopy cp` has at most.
const MAX_THREADS: usize = 8;
/// Room for any file of the tree.
const BUFFER_BYTES: usize = 64 << 10;

/// Arguments of `cargo xtask copy-bare`.
#[derive(clap::Args)]
pub(crate) struct CopyBareArguments {
    /// The destination is there: files get their names when they are whole.
    #[arg(long)]
    merge: bool,
    source: PathBuf,
    destination: PathBuf,
}

/// Copies a tree of directories and small files, with a thread for each processor.
///
/// # Errors
/// Whatever a system call says; nothing is tried another way, except that blocks are not shared
/// where that is refused once.
pub(crate) fn run(arguments: &CopyBareArguments) -> Result<()> {
    if !arguments.merge {
        fs::mkdir(&arguments.destination, Mode::from_raw_mode(0o755))?;
    }
    let tree = Tree {
        arguments,
        shares: AtomicBool::new(true),
        directories: Mutex::new(Directories { waiting: vec![PathBuf::new()], unfinished: 1 }),
        more: Condvar::new(),
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| tree.copy())).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    })
}

struct Tree<'a> {
    arguments: &'a CopyBareArguments,
    /// Blocks, as far as is known.
    shares: AtomicBool,
    directories: Mutex<Directories>,
    more: Condvar,
}

/// Paths below the roots.
struct Directories {
    waiting: Vec<PathBuf>,
    /// Those that wait and those that are copied.
    unfinished: usize,
}

impl Tree<'_> {
    /// Takes directory after directory, until all are finished.
    fn copy(&self) -> Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some(path) = self.next() {
            let copied = self
                .copy_directory(&path, &mut buffer)
                .with_context(|| format!("cannot copy {}", path.display()));
            let mut directories = self.directories();
            match &copied {
                Ok(()) => directories.unfinished = directories.unfinished.saturating_sub(1),
                // The others need not go on.
                Err(_) => *directories = Directories { waiting: Vec::new(), unfinished: 0 },
            }
            if directories.unfinished == 0 {
                self.more.notify_all();
            }
            drop(directories);
            copied?;
        }
        Ok(())
    }

    fn directories(&self) -> MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<PathBuf> {
        let is_idle = |d: &mut Directories| d.waiting.is_empty() && d.unfinished > 0;
        let directories = self.more.wait_while(self.directories(), is_idle);
        directories.unwrap_or_else(PoisonError::into_inner).waiting.pop()
    }

    /// Copies the files of a directory, and makes the directories in it, which others may take.
    fn copy_directory(&self, path: &std::path::Path, buffer: &mut [u8]) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let source = fs::open(self.arguments.source.join(path), flags, Mode::empty())?;
        let destination = fs::open(self.arguments.destination.join(path), flags, Mode::empty())?;
        for entry in Dir::read_from(&source)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                fs::mkdirat(&destination, name, Mode::from_raw_mode(0o755))?;
                let mut directories = self.directories();
                directories.waiting.push(path.join(name.to_str()?));
                directories.unfinished += 1;
                self.more.notify_one();
            } else {
                self.copy_file(source.as_fd(), destination.as_fd(), name, buffer)?;
            }
        }
        Ok(())
    }

    fn copy_file(
        &self,
        source: BorrowedFd<'_>,
        destination: BorrowedFd<'_>,
        name: &CStr,
        buffer: &mut [u8],
    ) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let from = fs::openat(source, name, flags, Mode::empty())?;
        let found = fs::fstat(&from)?;
        let (flags, first) = match self.arguments.merge {
            true => (OFlags::TMPFILE, c"."),
            false => (OFlags::CREATE | OFlags::EXCL, name),
        };
        let mode = Mode::from_raw_mode(found.st_mode & 0o777);
        let to = fs::openat(destination, first, flags | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
        if !self.share(&from, &to)? {
            let length = rustix::io::read(&from, &mut *buffer)?;
            ensure!(length as i64 == found.st_size, "a file is longer than it should be");
            ensure!(rustix::io::write(&to, &buffer[..length])? == length, "a short write");
        }
        let time =
            |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
        let times = Timestamps {
            last_access: time(found.st_atime, found.st_atime_nsec),
            last_modification: time(found.st_mtime, found.st_mtime_nsec),
        };
        fs::futimens(&to, &times)?;
        if self.arguments.merge {
            fs::linkat(&to, c"", destination, name, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    /// `false` where the filesystem has no such thing.
    fn share(&self, from: &OwnedFd, to: &OwnedFd) -> Result<bool> {
        if !self.shares.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match fs::ioctl_ficlone(to, from) {
            Err(Errno::OPNOTSUPP | Errno::XDEV) => {
                self.shares.store(false, Ordering::Relaxed);
                Ok(false)
            }
            other => Ok(other.map(|()| true)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_copied_into_a_new_directory_and_into_one_that_is_there() {
        let scratch = tempfile::tempdir().unwrap();
        let source = scratch.path().join("source");
        for directory in ["a/b", "a/c", "d"] {
            std::fs::create_dir_all(source.join(directory)).unwrap();
            for file in 0..20 {
                let path = source.join(directory).join(format!("file-{file}"));
                std::fs::write(path, vec![file; 100 * usize::from(file)]).unwrap();
            }
        }
        for merge in [false, true] {
            let destination = scratch.path().join(format!("copy-{merge}"));
            if merge {
                std::fs::create_dir(&destination).unwrap();
            }
            run(&CopyBareArguments {
                merge,
                source: source.clone(),
                destination: destination.clone(),
            })
            .unwrap();
            testbed::assert_same_tree(&source, &destination, testbed::Compared::default());
            let file = "a/c/file-7";
            let modified = |root: &PathBuf| root.join(file).metadata().unwrap().modified().unwrap();
            assert_eq!(modified(&source), modified(&destination));
        }
    }

    #[test]
    fn an_error_ends_every_thread() {
        let scratch = tempfile::tempdir().unwrap();
        let (source, destination) = (scratch.path().join("source"), scratch.path().join("copy"));
        for directory in 0..20 {
            std::fs::create_dir_all(source.join(format!("{directory}"))).unwrap();
            std::os::unix::fs::symlink("nowhere", source.join(format!("{directory}/link")))
                .unwrap();
        }
        let error = run(&CopyBareArguments { merge: false, source, destination }).unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot copy "), "{error:#}");
    }
}
