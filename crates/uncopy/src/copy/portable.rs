//! The one fallback for systems other than Linux: write aside with the standard library, then
//! rename. What the standard library does inside is not known, and the receipt says so.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::job::{JobObserver, JobOptions, Summary};
use super::observer::{Control, Observer, Phase, Progress};
use super::options::{Allow, CopyOptions, Existing};
use crate::error::{Errno, Error, Reason, Result};
use crate::receipt::{Cost, Mechanism, Receipt};

/// Copies one file; see [`super::copy_file`].
pub(super) fn copy(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Receipt> {
    let begin = Instant::now();
    check(destination, options)?;
    let fail = |operation, path: &Path, error: &io::Error| {
        Error::system(operation, path, Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    };
    let mut input = File::open(source).map_err(|e| fail("open", source, &e))?;
    if destination.exists() {
        if options.existing == Existing::Keep {
            return Ok(Receipt { skipped: true, ..Receipt::default() });
        }
        let same = fs::canonicalize(source).ok() == fs::canonicalize(destination).ok();
        if same {
            let reason = Reason::SameFile { source_path: source.to_owned() };
            return Err(Error::new("write to", destination, reason));
        }
    }
    let temporary = Temporary::new(destination).map_err(|e| fail("create", destination, &e))?;
    let bytes = io::copy(&mut input, &mut &temporary.file)
        .map_err(|e| fail("write to", destination, &e))?;
    let progress = Progress { phase: Phase::Copying, done_bytes: bytes, total_bytes: bytes };
    if observer.progress(progress) == Control::Stop {
        return Err(Error::new("copy", source, Reason::Cancelled));
    }
    if options.durable {
        temporary.file.sync_all().map_err(|e| fail("flush", destination, &e))?;
    }
    temporary.put_in_place(destination).map_err(|e| fail("put in place", destination, &e))?;
    let mut receipt = Receipt { bytes, duration: begin.elapsed(), ..Receipt::default() };
    receipt.add(Mechanism::ReadWrite, bytes, Cost::Unknown);
    receipt.notes.push("this system's own ways to copy are not used yet".into());
    Ok(receipt)
}

/// Refuses; see [`super::job::copy_trees`].
pub(super) fn run_job(
    pairs: &[(PathBuf, PathBuf)],
    _: &JobOptions,
    _: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let subject = pairs.first().map_or_else(PathBuf::new, |(_, destination)| destination.clone());
    let text = "whole trees are copied on Linux alone so far; name the files".to_owned();
    (Summary::default(), Err(Error::new("write to", subject, Reason::Options(text))))
}

/// There are no journals; see [`super::job::is_built`].
pub(super) fn is_built(_: &Path, _: &Path, _: &JobOptions) -> bool {
    false
}

fn check(destination: &Path, options: &CopyOptions) -> Result<()> {
    let plain = matches!(options.allow, Allow::Any | Allow::ReadWrite);
    if plain && options.verify.is_none() && !options.in_place {
        return Ok(());
    }
    let text = "only plain copies work on this system so far; leave out the other options";
    Err(Error::new("write to", destination, Reason::Options(text.into())))
}

struct Temporary {
    file: File,
    path: Option<PathBuf>,
}

impl Temporary {
    fn new(destination: &Path) -> io::Result<Temporary> {
        let mut number = 0u64;
        loop {
            let name = format!(".uncopy-{}-{number}.tmp", std::process::id());
            let path = destination.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
                Ok(file) => return Ok(Temporary { file, path: Some(path) }),
            }
        }
    }

    fn put_in_place(mut self, destination: &Path) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        fs::rename(path, destination)?;
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}
