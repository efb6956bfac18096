//! Counts entries and bytes ahead of the copy, so that the remaining work is known.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::job::Job;
use crate::jobs::Sources;
use crate::{Control, Gate};
use uncopy_os::{Sys, directory, follow};

/// Maximum number of waiting directories; with more the total stays unknown, because it is not
/// worth more memory.
const MAX_WAITING: usize = 50_000;

/// Counts the contents of the sources. No error is reported: the copy will meet the same errors.
pub(super) fn run(job: &Job<'_>, sources: &[PathBuf]) {
    let _inside = job.context().gate().map(Gate::enter);
    let whole = sources.iter().all(|source| scan(job, source).unwrap_or(true));
    if whole && !job.is_over() {
        job.tally().end_scan();
    }
}

/// Counts a directory. Returns `false` if counting was given up.
fn scan(job: &Job<'_>, source: &Path) -> Sys<bool> {
    let stat = match job.options().sources {
        Sources::Trees => directory::stat_path(source)?,
        Sources::Files => {
            let stat = follow::stat(source).map_err(|stopped| stopped.errno())?;
            count(job, &stat);
            return Ok(true);
        }
    };
    if stat.file_type() != FileType::Directory {
        count(job, &stat);
        return Ok(true);
    }
    let root = follow::open_root(source).map_err(|stopped| stopped.errno())?;
    let mut waiting: Vec<Vec<OsString>> = vec![Vec::new()];
    let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
    while let Some(names) = waiting.pop() {
        if !may_continue(job) || waiting.len() > MAX_WAITING {
            return Ok(false);
        }
        // A directory that cannot be read is an error of the copy.
        let _ = scan_directory(job, &root, &names, &mut waiting, &mut buffer);
    }
    // The root itself.
    job.tally().count_scanned(None);
    Ok(true)
}

fn scan_directory(
    job: &Job<'_>,
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
            waiting.push(names.iter().cloned().chain([name.to_owned()]).collect());
            job.tally().count_scanned(None);
        } else if let Ok(stat) = directory::stat_name(&at, name) {
            count(job, &stat);
        }
        may_continue(job)
    })?;
    Ok(())
}

/// Waits while the job is paused. Returns `false` if it is over.
fn may_continue(job: &Job<'_>) -> bool {
    let control = || if job.is_over() { Control::Stop } else { Control::Continue };
    job.context().gate().map_or_else(control, |gate| gate.control(control)) == Control::Continue
}

fn count(job: &Job<'_>, stat: &uncopy_os::file::Stat) {
    let is_file = stat.file_type() == FileType::RegularFile;
    job.tally().count_scanned(is_file.then_some(stat.size));
}
