//! The directory of a plan: it has a whole plan, or one that is being made, or nothing of ours.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::checkpoint::{Checkpoint, LinksState, UnitsState};
use super::{DirectoryProblem, PlanError, links, units};
use crate::format::{FormatError, FormatProblem, Plan, UnitNumber};
use crate::{FileRole, UnitError, regular_file};
use rustix::fs::OFlags;
use uncopy_core::{Errno, Error};

/// Name of the file that is written last.
pub const PLAN_FILE: &str = "plan.json";

/// Name of the directory of units.
pub const UNITS_DIRECTORY: &str = "units";

/// Marks a directory as that of an unfinished plan, and is locked by who makes it.
const UNFINISHED: &str = "plan.unfinished";

/// Name of `plan.json` while it is written.
const ASIDE: &str = "plan.json.new";

/// Name of the checkpoint of an unfinished plan.
const CHECKPOINT: &str = "checkpoint";

/// Name of a checkpoint while it is written.
const CHECKPOINT_ASIDE: &str = "checkpoint.new";

/// Directory of scratch files.
const SCRATCH: &str = "scratch";

/// Maximum length of a checkpoint: some ten thousand tasks with paths.
const MAX_CHECKPOINT_BYTES: u64 = 4 << 30;

/// Maximum length of `plan.json`.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// Returns the file of a unit of the plan in a directory.
#[must_use]
pub fn unit_file(directory: &Path, unit: UnitNumber) -> PathBuf {
    unit_path(&directory.join(UNITS_DIRECTORY), unit)
}

/// Returns the file of a unit in the directory of units.
pub(super) fn unit_path(units: &Path, unit: UnitNumber) -> PathBuf {
    units.join(format!("{unit}.jsonl"))
}

/// Returns the BLAKE3 digest of a unit's file, hexadecimal: its identity for queues. What the file says is not checked.
///
/// # Errors
/// It cannot be read.
pub fn digest_of_unit(file: &Path) -> Result<String, UnitError> {
    let mut digest = blake3::Hasher::new();
    let opened = regular_file::open(file, FileRole::Unit)?;
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
    let file = match regular_file::open(&path, FileRole::Plan) {
        Err(UnitError::System(error)) if error.is_not_found() => {
            return Err(match directory.join(UNFINISHED).exists() {
                true => format_error(directory, FormatProblem::Unfinished),
                false => UnitError::NoPlan { directory: directory.to_owned() },
            });
        }
        opened => opened?,
    };
    let read = file.take(MAX_PLAN_BYTES + 1).read_to_end(&mut text);
    match read.map_err(|error| system("read", &path, &error))? {
        length if length as u64 > MAX_PLAN_BYTES => {
            Err(format_error(&path, FormatProblem::TooLong))
        }
        _ => Plan::parse(&text).map_err(|error| UnitError::Format { file: path, error }),
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
    /// Takes a directory for a plan: a new or empty one, or one with an unfinished plan that nobody makes now. What
    /// that left stays.
    pub(super) fn begin(path: &Path) -> Result<PlanDirectory, PlanError> {
        let failed = |operation, path: &Path, error: &io::Error| {
            PlanError::from(system(operation, path, error))
        };
        let refused = |problem| Err(PlanError::Directory { directory: path.to_owned(), problem });
        fs::create_dir_all(path).map_err(|error| failed("make", path, &error))?;
        let marker = path.join(UNFINISHED);
        if !marker.exists() {
            if path.join(PLAN_FILE).exists() {
                return refused(DirectoryProblem::HasPlan);
            }
            let mut entries = fs::read_dir(path).map_err(|error| failed("list", path, &error))?;
            if entries.next().is_some() {
                return refused(DirectoryProblem::NotEmpty);
            }
        }
        let unfinished = unwaiting().create(true).append(true).open(&marker);
        let unfinished = unfinished.map_err(|error| failed("open", &marker, &error))?;
        match unfinished.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return refused(DirectoryProblem::Busy),
            Err(TryLockError::Error(error)) => return Err(failed("lock", &marker, &error)),
        }
        // The process that had the lock may have finished meanwhile.
        let links = unfinished.metadata().map_err(|error| failed("examine", &marker, &error))?;
        if links.nlink() == 0 {
            return refused(DirectoryProblem::HasPlan);
        }
        let directory = PlanDirectory { path: path.to_owned(), unfinished };
        if path.join(PLAN_FILE).exists() {
            directory.end().map_err(|error| failed("clear", path, &error))?;
            return refused(DirectoryProblem::HasPlan);
        }
        for made in [directory.units(), directory.scratch()] {
            fs::create_dir_all(&made).map_err(|error| failed("make", &made, &error))?;
        }
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn units(&self) -> PathBuf {
        self.path.join(UNITS_DIRECTORY)
    }

    pub(super) fn scratch(&self) -> PathBuf {
        self.path.join(SCRATCH)
    }

    /// Removes what a killed plan left. Nothing else has these names in a directory with the mark.
    pub(super) fn clear(&self) -> io::Result<()> {
        // First: it speaks of the others.
        for name in [CHECKPOINT, CHECKPOINT_ASIDE] {
            remove_if_there(&self.path.join(name))?;
        }
        self.remove_but(&UnitsState::default(), &LinksState::default())?;
        remove_if_there(&self.units().join(units::FINISH))
    }

    /// Removes everything that is younger than a checkpoint. Returns the number of units before it.
    pub(super) fn remove_but(&self, units: &UnitsState, links: &LinksState) -> io::Result<u32> {
        let mut before = 0;
        for directory in [self.units(), self.scratch()] {
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                let unit = UnitNumber::of_file_name(name).filter(|_| name.ends_with(".jsonl"));
                let part = links::number_of_part(name);
                let is_younger_part =
                    part.is_some_and(|part| links.parts.iter().all(|(known, _)| *known != part));
                match unit {
                    Some(unit) if unit.get() < units.next_unit => before += 1,
                    Some(_) => remove_if_there(&entry.path())?,
                    None if is_younger_part => remove_if_there(&entry.path())?,
                    None => {}
                }
            }
        }
        Ok(before)
    }

    /// Reads the checkpoint of an unfinished plan. `None`: there is none.
    pub(super) fn checkpoint(&self) -> Result<Option<Result<Checkpoint, FormatError>>, Error> {
        let path = self.path.join(CHECKPOINT);
        let failed = |error: io::Error| system("read", &path, &error);
        let file = match unwaiting().read(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut text = Vec::new();
        file.take(MAX_CHECKPOINT_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_CHECKPOINT_BYTES {
            return Ok(Some(Err(FormatError { line: 1, problem: FormatProblem::TooLong })));
        }
        Ok(Some(Checkpoint::parse(&text)))
    }

    /// Puts a checkpoint in place of the one before. What it speaks of was flushed.
    pub(super) fn put_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let aside = self.path.join(CHECKPOINT_ASIDE);
        let written = || -> io::Result<()> {
            let mut file = File::create(&aside)?;
            file.write_all(&checkpoint.to_bytes()?)?;
            file.sync_all()?;
            fs::rename(&aside, self.path.join(CHECKPOINT))?;
            File::open(&self.path)?.sync_all()
        };
        written().map_err(|error| system("write", &self.path.join(CHECKPOINT), &error))
    }

    /// Whether the plan can go on later.
    pub(super) fn has_checkpoint(&self) -> bool {
        self.path.join(CHECKPOINT).exists()
    }

    /// Puts the plan in place, when all units are on the device.
    pub(super) fn finish(self, plan: &Plan) -> Result<(), PlanError> {
        let written = |aside: &Path| -> io::Result<()> {
            File::open(self.units())?.sync_all()?;
            let _ = fs::remove_file(aside);
            let mut file = File::create_new(aside)?;
            file.write_all(&plan.to_json())?;
            file.sync_all()?;
            fs::rename(aside, self.path.join(PLAN_FILE))?;
            File::open(&self.path)?.sync_all()?;
            self.end()
        };
        let aside = self.path.join(ASIDE);
        written(&aside).map_err(|error| system("write", &self.path.join(PLAN_FILE), &error))?;
        drop(self.unfinished);
        Ok(())
    }

    /// Removes what a finished plan does not need. Who is killed before leaves a whole plan, and these without a meaning.
    fn end(&self) -> io::Result<()> {
        for name in [CHECKPOINT, CHECKPOINT_ASIDE] {
            remove_if_there(&self.path.join(name))?;
        }
        match fs::remove_dir_all(self.scratch()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::remove_file(self.path.join(UNFINISHED))?;
        File::open(&self.path)?.sync_all()
    }
}

/// Returns options that wait for no other end of a FIFO: such a file then has nothing, or is an error.
fn unwaiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Opens a file to go on behind so many bytes; what comes after them is cut off.
pub(super) fn go_on_with(path: &Path, length: u64) -> io::Result<File> {
    let mut file = unwaiting().write(true).open(path)?;
    file.set_len(length)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
