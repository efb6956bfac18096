//! Counting ahead of the copy, so that it is known how much is still to come.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use super::run::Job;
use crate::copy::{Control, Gate};
use crate::sys::{Sys, directory, follow};

/// With more directories waiting than this the total stays unknown: it is not worth more memory.
const MOST_WAITING: usize = 50_000;

/// Counts what is in the sources. Nothing is reported: the copy will meet the same errors.
pub(super) fn run(job: &Job<'_>, sources: &[PathBuf]) {
    let _inside = job.gate().map(Gate::enter);
    let whole = sources.iter().all(|source| scan(job, source).unwrap_or(true));
    if whole && !job.is_over() {
        job.counters.scanned.store(true, Ordering::Relaxed);
    }
}

/// `false`: given up.
fn scan(job: &Job<'_>, source: &Path) -> Sys<bool> {
    let stat = directory::stat_path(source)?;
    if stat.file_type() != FileType::Directory {
        count(job, &stat);
        return Ok(true);
    }
    let root = follow::open_root(source).map_err(|stopped| stopped.errno())?;
    let mut waiting: Vec<Vec<OsString>> = vec![Vec::new()];
    let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
    while let Some(names) = waiting.pop() {
        if !goes_on(job) || waiting.len() > MOST_WAITING {
            return Ok(false);
        }
        // What cannot be read is an error of the copy.
        let _ = scan_directory(job, &root, &names, &mut waiting, &mut buffer);
    }
    // The root itself.
    job.counters.scanned_entries.fetch_add(1, Ordering::Relaxed);
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
            job.counters.scanned_entries.fetch_add(1, Ordering::Relaxed);
        } else if let Ok(stat) = directory::stat_name(&at, name) {
            count(job, &stat);
        }
        goes_on(job)
    })?;
    Ok(())
}

/// Waits while the job is paused; `false`: it is over.
fn goes_on(job: &Job<'_>) -> bool {
    let control = || if job.is_over() { Control::Stop } else { Control::Continue };
    job.gate().map_or_else(control, |gate| gate.control(control)) == Control::Continue
}

fn count(job: &Job<'_>, stat: &crate::sys::file::Stat) {
    job.counters.scanned_entries.fetch_add(1, Ordering::Relaxed);
    if stat.file_type() == FileType::RegularFile {
        job.counters.scanned_bytes.fetch_add(stat.size, Ordering::Relaxed);
    }
}
