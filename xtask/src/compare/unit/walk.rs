//! A tree that is walked through by nothing but the system calls that it takes to list directories and to look at each entry.

use std::mem::MaybeUninit;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};

/// As many as a job of `uncopy` has at most.
const MAX_THREADS: usize = 8;

/// Arguments of `cargo xtask walk-bare`.
#[derive(clap::Args)]
pub(crate) struct WalkBareArguments {
    root: PathBuf,
}

/// Walks, with a thread for each processor, and prints the number of entries.
///
/// # Errors
/// Whatever a system call says.
pub(crate) fn run(arguments: &WalkBareArguments) -> Result<()> {
    let waiting = Waiting { directories: vec![arguments.root.clone()], unfinished: 1 };
    let tree = Tree { waiting: Mutex::new(waiting), more: Condvar::new() };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let entries = std::thread::scope(|scope| -> Result<u64> {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| tree.walk())).collect();
        let mut entries = 0;
        for thread in threads {
            entries += thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(entries)
    })?;
    println!("{entries}");
    Ok(())
}

struct Tree {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

struct Waiting {
    directories: Vec<PathBuf>,
    /// Those that wait and those that are listed.
    unfinished: usize,
}

impl Tree {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<PathBuf> {
        let is_idle = |w: &mut Waiting| w.directories.is_empty() && w.unfinished > 0;
        let waiting = self.more.wait_while(self.waiting(), is_idle);
        waiting.unwrap_or_else(PoisonError::into_inner).directories.pop()
    }

    /// Lists directory after directory, until all are finished.
    fn walk(&self) -> Result<u64> {
        let mut buffer = Vec::with_capacity(64 << 10);
        let mut entries = 0;
        while let Some(path) = self.next() {
            let listed = list(&path, buffer.spare_capacity_mut(), &mut entries)
                .with_context(|| format!("cannot list {}", path.display()));
            let mut waiting = self.waiting();
            match &listed {
                Ok(found) => {
                    waiting.unfinished += found.len();
                    waiting.unfinished -= 1;
                    waiting.directories.extend_from_slice(found);
                }
                // The others need not go on.
                Err(_) => *waiting = Waiting { directories: Vec::new(), unfinished: 0 },
            }
            self.more.notify_all();
            drop(waiting);
            listed?;
        }
        Ok(entries)
    }
}

/// Looks at each entry of a directory, and returns the directories in it.
fn list(
    path: &std::path::Path,
    buffer: &mut [MaybeUninit<u8>],
    entries: &mut u64,
) -> Result<Vec<PathBuf>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = fs::open(path, flags, Mode::empty())?;
    let mut found = Vec::new();
    let mut listing = RawDir::new(&directory, buffer);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        fs::statx(&directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        *entries += 1;
        if entry.file_type() == FileType::Directory {
            found.push(path.join(std::ffi::OsStr::from_bytes(name.to_bytes())));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_looked_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        for directory in ["a/b", "a/c", "d"] {
            std::fs::create_dir_all(scratch.path().join(directory)).unwrap();
            for file in 0..20 {
                std::fs::write(scratch.path().join(directory).join(format!("{file}")), "").unwrap();
            }
        }
        let waiting = Waiting { directories: vec![scratch.path().to_owned()], unfinished: 1 };
        let tree = Tree { waiting: Mutex::new(waiting), more: Condvar::new() };
        assert_eq!(tree.walk().unwrap(), 64);
        let gone = scratch.path().join("gone");
        assert!(run(&WalkBareArguments { root: gone }).is_err());
    }
}
