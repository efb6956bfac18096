//! The directory of a plan: it has a whole plan, or one that is being made, or nothing of ours.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{DirectoryProblem, PlanError};
use crate::UnitError;
use crate::format::{FormatError, FormatProblem, Plan, UnitNumber};
use uncopy_core::{Errno, Error};

/// Name of the file that is written last.
pub const PLAN_FILE: &str = "plan.json";

/// Name of the directory of units.
pub const UNITS_DIRECTORY: &str = "units";

/// Marks a directory as that of an unfinished plan, and is locked by who makes it.
const UNFINISHED: &str = "plan.unfinished";

/// Name of `plan.json` while it is written.
const ASIDE: &str = "plan.json.new";

/// Directory of scratch files.
const SCRATCH: &str = "scratch";

/// Maximum length of `plan.json`.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// Returns the file of a unit of the plan in a directory.
#[must_use]
pub fn unit_file(directory: &Path, unit: UnitNumber) -> PathBuf {
    directory.join(UNITS_DIRECTORY).join(format!("{unit}.jsonl"))
}

/// Returns the BLAKE3 digest of a unit's file, hexadecimal: its identity for queues. What the file says is not checked.
///
/// # Errors
/// It cannot be read.
pub fn digest_of_unit(file: &Path) -> Result<String, UnitError> {
    let mut digest = blake3::Hasher::new();
    let opened = File::open(file).map_err(|error| system("open", file, &error))?;
    digest.update_reader(opened).map_err(|error| system("read", file, &error))?;
    Ok(digest.finalize().to_hex().to_string())
}

/// Reads the plan in a directory.
///
/// # Errors
/// It has none, or an unfinished one, or it is not in its format.
pub fn read_plan(directory: &Path) -> Result<Plan, UnitError> {
    let path = directory.join(PLAN_FILE);
    let mut text = Vec::new();
    let read = File::open(&path)
        .and_then(|file| file.take(MAX_PLAN_BYTES + 1).read_to_end(&mut text))
        .map_err(|error| system("open", &path, &error));
    match read {
        Err(error) if error.is_not_found() && directory.join(UNFINISHED).exists() => {
            Err(format_error(directory, FormatProblem::Unfinished))
        }
        Err(error) if error.is_not_found() => {
            Err(UnitError::NoPlan { directory: directory.to_owned() })
        }
        Err(error) => Err(error.into()),
        Ok(length) if length as u64 > MAX_PLAN_BYTES => {
            Err(format_error(&path, FormatProblem::TooLong))
        }
        Ok(_) => Plan::parse(&text).map_err(|error| UnitError::Format { file: path, error }),
    }
}

fn format_error(file: &Path, problem: FormatProblem) -> UnitError {
    UnitError::Format { file: file.to_owned(), error: FormatError { line: 1, problem } }
}

pub(super) fn system(operation: &'static str, subject: &Path, error: &io::Error) -> Error {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO.raw()));
    Error::system(operation, subject, errno)
}

/// Directory of a plan that is being made.
#[derive(Debug)]
pub(super) struct PlanDirectory {
    path: PathBuf,
    unfinished: File,
}

impl PlanDirectory {
    /// Takes a directory for a plan: a new or empty one, or one with an unfinished plan that nobody makes now.
    pub(super) fn begin(path: &Path) -> Result<PlanDirectory, PlanError> {
        let failed = |operation, path: &Path, error: &io::Error| {
            PlanError::from(system(operation, path, error))
        };
        let refused = |problem| Err(PlanError::Directory { directory: path.to_owned(), problem });
        fs::create_dir_all(path).map_err(|error| failed("make", path, &error))?;
        let marker = path.join(UNFINISHED);
        if path.join(PLAN_FILE).exists() {
            return refused(DirectoryProblem::HasPlan);
        }
        if !marker.exists() {
            let mut entries = fs::read_dir(path).map_err(|error| failed("list", path, &error))?;
            if entries.next().is_some() {
                return refused(DirectoryProblem::NotEmpty);
            }
        }
        let unfinished = OpenOptions::new().create(true).append(true).open(&marker);
        let unfinished = unfinished.map_err(|error| failed("open", &marker, &error))?;
        match unfinished.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return refused(DirectoryProblem::Busy),
            Err(TryLockError::Error(error)) => return Err(failed("lock", &marker, &error)),
        }
        // The process that had the lock may have finished meanwhile.
        let links = unfinished.metadata().map_err(|error| failed("examine", &marker, &error))?;
        if path.join(PLAN_FILE).exists() || links.nlink() == 0 {
            return refused(DirectoryProblem::HasPlan);
        }
        let directory = PlanDirectory { path: path.to_owned(), unfinished };
        directory.clear().map_err(|error| failed("clear", path, &error))?;
        for made in [directory.units(), directory.scratch()] {
            fs::create_dir_all(&made).map_err(|error| failed("make", &made, &error))?;
        }
        Ok(directory)
    }

    pub(super) fn units(&self) -> PathBuf {
        self.path.join(UNITS_DIRECTORY)
    }

    pub(super) fn scratch(&self) -> PathBuf {
        self.path.join(SCRATCH)
    }

    /// Removes what a killed plan left. Nothing else has these names in a directory with the mark.
    pub(super) fn clear(&self) -> io::Result<()> {
        for directory in [self.units(), self.scratch()] {
            let entries = match fs::read_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                if is_ours(&entry.file_name()) {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// Puts the plan in place, when all units are on the device.
    pub(super) fn finish(self, plan: &Plan) -> Result<(), PlanError> {
        let written = |aside: &Path| -> io::Result<()> {
            File::open(self.units())?.sync_all()?;
            let _ = fs::remove_file(aside);
            let mut file = File::create_new(aside)?;
            file.write_all(&plan.to_json())?;
            file.sync_all()?;
            fs::remove_dir(self.scratch())?;
            fs::rename(aside, self.path.join(PLAN_FILE))?;
            fs::remove_file(self.path.join(UNFINISHED))?;
            File::open(&self.path)?.sync_all()
        };
        let aside = self.path.join(ASIDE);
        written(&aside).map_err(|error| system("write", &self.path.join(PLAN_FILE), &error))?;
        drop(self.unfinished);
        Ok(())
    }
}

/// Whether a name in the directories of an unfinished plan is one that a plan makes.
fn is_ours(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_unit = UnitNumber::of_file_name(name).is_some() && name.ends_with(".jsonl");
    is_unit || name == super::units::FINISH || super::links::is_part(name)
}
