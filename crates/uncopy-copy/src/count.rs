//! Counts what is below a directory, ahead of a copy.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::FileType;

use uncopy_os::file::Stat;
use uncopy_os::{Sys, directory, file};

/// Maximum number of waiting directories; with more the total stays unknown, because it is not
/// worth more memory.
const MAX_WAITING: usize = 50_000;

/// Count of a tree, one directory after the other.
#[derive(Debug)]
pub struct TreeCount {
    one_filesystem: bool,
    /// Names from the root on.
    waiting: Vec<Vec<OsString>>,
}

/// State of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountState {
    /// There are further directories.
    Waiting,
    /// All is counted, but for what could not be read.
    Done,
    /// There are too many directories.
    GivenUp,
}

impl TreeCount {
    /// Makes a count that has not begun. `one_filesystem`: directories of other filesystems are not entered.
    #[must_use]
    pub fn new(one_filesystem: bool) -> TreeCount {
        TreeCount { one_filesystem, waiting: vec![Vec::new()] }
    }

    /// Counts the entries of the next directory below `root`: `count` gets the length of each file, and `None` for
    /// anything else, and has the directory left by `false`.
    pub fn next_directory(
        &mut self,
        root: impl AsFd,
        count: &mut dyn FnMut(Option<u64>) -> bool,
    ) -> CountState {
        if self.waiting.len() > MAX_WAITING {
            return CountState::GivenUp;
        }
        if let Some(names) = self.waiting.pop() {
            // A directory that cannot be read is an error of the copy.
            let _ = self.count_directory(root.as_fd(), &names, count);
        }
        if self.waiting.is_empty() { CountState::Done } else { CountState::Waiting }
    }

    fn count_directory(
        &mut self,
        root: impl AsFd,
        names: &[OsString],
        count: &mut dyn FnMut(Option<u64>) -> bool,
    ) -> Sys<()> {
        let path: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        let at = directory::open_beneath(root, &path, false)?;
        let mut buffer = Vec::with_capacity(64 << 10);
        directory::list(&at, buffer.spare_capacity_mut(), |entry| {
            let name = OsStr::from_bytes(entry.name.to_bytes());
            if entry.kind == FileType::Directory {
                let leaves = || {
                    let below = directory::stat_name(&at, name);
                    let device = file::stat(&at).map(|stat| stat.device);
                    below.is_ok_and(|below| Ok(below.device) != device)
                };
                if !self.one_filesystem || !leaves() {
                    self.waiting.push(names.iter().cloned().chain([name.to_owned()]).collect());
                }
                return count(None);
            }
            directory::stat_name(&at, name).map_or(true, |stat| count(length(&stat)))
        })?;
        Ok(())
    }
}

/// Returns the length of a file that counts.
#[must_use]
pub fn length(stat: &Stat) -> Option<u64> {
    (stat.file_type() == FileType::RegularFile).then_some(stat.size)
}
