//! Counts entries and bytes ahead of the copy, so that the remaining work is known.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::ending::Ending;
use super::tally::Tally;
use crate::jobs::{JobOptions, Sources};
use crate::{Control, Gate};
use uncopy_os::{Sys, directory, follow};

/// Maximum number of waiting directories; with more the total stays unknown, because it is not
/// worth more memory.
const MAX_WAITING: usize = 50_000;

/// A scan, and the parts of the job that it uses.
pub(super) struct Scan<'a> {
    pub(super) options: &'a JobOptions,
    pub(super) tally: &'a Tally<'a>,
    pub(super) ending: &'a Ending,
}

impl Scan<'_> {
    /// Counts the contents of the sources. No error is reported: the copy will meet the same errors.
    pub(super) fn run(&self, sources: &[PathBuf]) {
        let _inside = self.options.gate.as_ref().map(Gate::enter);
        let whole = sources.iter().all(|source| self.scan(source).unwrap_or(true));
        if whole && !self.ending.is_over() {
            self.tally.end_scan();
        }
    }

    /// Counts a directory. Returns `false` if counting was given up.
    fn scan(&self, source: &Path) -> Sys<bool> {
        let stat = match self.options.sources {
            Sources::Trees | Sources::Entries => directory::stat_path(source)?,
            Sources::Files => {
                let stat = follow::stat(source).map_err(|stopped| stopped.errno())?;
                self.count(&stat);
                return Ok(true);
            }
        };
        if stat.file_type() != FileType::Directory {
            self.count(&stat);
            return Ok(true);
        }
        let root = follow::open_root(source).map_err(|stopped| stopped.errno())?;
        let mut waiting: Vec<Vec<OsString>> = vec![Vec::new()];
        let mut buffer = Vec::with_capacity(64 << 10);
        while let Some(names) = waiting.pop() {
            if !self.may_continue() || waiting.len() > MAX_WAITING {
                return Ok(false);
            }
            // A directory that cannot be read is an error of the copy.
            let _ = self.scan_directory(&root, &names, &mut waiting, buffer.spare_capacity_mut());
        }
        // The root itself.
        self.tally.count_scanned(None);
        Ok(true)
    }

    fn scan_directory(
        &self,
        root: &OwnedFd,
        names: &[OsString],
        waiting: &mut Vec<Vec<OsString>>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Sys<()> {
        let path: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        let at = directory::open_beneath(root, &path, false)?;
        directory::rewind_to(&at, 0)?;
        directory::list(&at, buffer, |entry| {
            let name = OsStr::from_bytes(entry.name.to_bytes());
            if entry.kind == FileType::Directory {
                let leaves = || {
                    let below = directory::stat_name(&at, name);
                    let device = uncopy_os::file::stat(&at).map(|stat| stat.device);
                    below.is_ok_and(|below| Ok(below.device) != device)
                };
                if self.options.one_filesystem && leaves() {
                    self.tally.count_scanned(None);
                    return self.may_continue();
                }
                waiting.push(names.iter().cloned().chain([name.to_owned()]).collect());
                self.tally.count_scanned(None);
            } else if let Ok(stat) = directory::stat_name(&at, name) {
                self.count(&stat);
            }
            self.may_continue()
        })?;
        Ok(())
    }

    /// Waits while the job is paused. Returns `false` if it is over.
    fn may_continue(&self) -> bool {
        let control = || if self.ending.is_over() { Control::Stop } else { Control::Continue };
        self.options.gate.as_ref().map_or_else(control, |gate| gate.control(control))
            == Control::Continue
    }

    fn count(&self, stat: &uncopy_os::file::Stat) {
        let is_file = stat.file_type() == FileType::RegularFile;
        self.tally.count_scanned(is_file.then_some(stat.size));
    }
}
