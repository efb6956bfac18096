//! Trials of filesystem features.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};

use super::trial::{DATA_BYTES, TrialFiles, sharing, unguessable_name, write_data};
use crate::AlignedBuffer;
use crate::capabilities::{Alignment, Answer, AnswerReason, Device, Filesystem, Sharing, Storage};
use crate::file::{self, Stat};
use crate::{Sys, follow, name, probe, transfer};
use uncopy_core::{Errno, Error, Result};

/// Length of the hole in the test file.
const HOLE_BYTES: u64 = 1 << 20;

/// Implements [`crate::capabilities::storage()`].
pub(crate) fn storage(path: &Path) -> Result<Storage> {
    let fail = |operation| move |errno: Errno| Error::system(operation, path, errno);
    let found = follow::open(path, OFlags::PATH).map_err(|stopped| stopped.error("open", path))?;
    let stat = file::stat(&found).map_err(fail("examine"))?;
    let magic = file::filesystem_magic(&found).map_err(fail("examine the filesystem of"))?;
    let (major, minor) = stat.device;
    let directory = directory_of(path, &stat);
    let bench = Bench::open(&directory, &stat);
    Ok(Storage {
        path: path.to_owned(),
        filesystem: Filesystem::from_magic(magic),
        device: Device::with_number(major, minor),
        reflink: run_trial(&bench, Bench::reflink),
        copy_file_range: run_trial(&bench, Bench::copy_file_range),
        direct_alignment: bench.as_ref().map_or_else(|_| alignment(&stat), Bench::alignment),
        direct_write: run_trial(&bench, Bench::direct_write),
        holes: run_trial(&bench, Bench::holes),
        seek_hole: run_trial(&bench, Bench::seek_hole),
        punch_hole: run_trial(&bench, Bench::punch_hole),
        fallocate: run_trial(&bench, Bench::fallocate),
        unnamed_files: run_trial(&bench, |bench| bench.0.unnamed.into()),
        rename_noreplace: run_trial(&bench, Bench::rename_noreplace),
        directory,
    })
}

/// Returns a directory in which files of the same filesystem can be created.
fn directory_of(path: &Path, stat: &Stat) -> PathBuf {
    if stat.file_type() == FileType::Directory {
        return path.to_owned();
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn alignment(stat: &Stat) -> Option<Alignment> {
    stat.direct.map(|direct| Alignment { memory_bytes: direct.memory, offset_bytes: direct.offset })
}

/// Runs a trial, if there is a directory for it.
fn run_trial<T>(
    bench: &Result<Bench, AnswerReason>,
    trial: impl FnOnce(&Bench) -> Answer<T>,
) -> Answer<T> {
    match bench {
        Ok(bench) => trial(bench),
        Err(reason) => Answer::unknown(reason.clone()),
    }
}

/// Directory for trials.
struct Bench(TrialFiles);

impl Bench {
    /// Opens the directory. The error is the reason why nothing can be tried.
    fn open(path: &Path, subject: &Stat) -> Result<Bench, AnswerReason> {
        let files = TrialFiles::open(path)?;
        if files.device != subject.device {
            return Err(AnswerReason::OtherFilesystem { directory: path.to_owned() });
        }
        Ok(Bench(files))
    }

    fn alignment(&self) -> Option<Alignment> {
        file::stat(&self.0.file).ok().as_ref().and_then(alignment)
    }

    fn reflink(&self) -> Answer {
        let trial = || transfer::clone_file(self.0.create_with_data()?, self.0.create()?);
        trial().into()
    }

    fn copy_file_range(&self) -> Answer<Sharing> {
        let trial = || {
            let (source, copy) = (self.0.create_with_data()?, self.0.create()?);
            let mut done = 0;
            while done < DATA_BYTES {
                let left = (DATA_BYTES - done) as usize;
                match transfer::copy_file_range(&source, &copy, done, left)? {
                    0 => return Ok(None),
                    n => done += n as u64,
                }
            }
            Ok(Some(sharing(copy.as_fd())))
        };
        match trial() {
            Ok(Some(sharing)) => Answer::Yes(sharing),
            // Some network filesystems and overlays before Linux 5.19 do this.
            Ok(None) => refuted(AnswerReason::CopiedNothing),
            Err(errno) => Answer::from(Err(errno)),
        }
    }

    fn direct_write(&self) -> Answer {
        let trial = || {
            let file = self.0.create()?;
            file::set_direct(&file, true)?;
            let length = self.alignment().map_or(0, |align| align.offset_bytes as usize);
            let written = transfer::write_at(&file, &AlignedBuffer::new(length)?, 0)?;
            if written > 0 { Ok(()) } else { Err(Errno::EIO) }
        };
        trial().into()
    }

    fn holes(&self) -> Answer {
        let trial = || file::stat(self.create_with_hole()?);
        match trial() {
            Ok(stat) if stat.blocks * 512 < HOLE_BYTES => Answer::Yes(()),
            Ok(_) => refuted(AnswerReason::SpaceTaken),
            Err(errno) => Answer::from(Err(errno)),
        }
    }

    fn seek_hole(&self) -> Answer {
        let trial = || file::seek_data(self.create_with_hole()?, 0);
        match trial() {
            Ok(0) => refuted(AnswerReason::HolesAreData),
            Ok(_) => Answer::Yes(()),
            Err(errno) => Answer::from(Err(errno)),
        }
    }

    fn punch_hole(&self) -> Answer {
        let trial = || file::punch_hole(self.0.create_with_data()?, 0, DATA_BYTES / 2);
        trial().into()
    }

    fn fallocate(&self) -> Answer {
        let trial = || file::allocate(self.0.create()?, 0, HOLE_BYTES);
        trial().into()
    }

    /// Tries a rename, which needs names for a short time.
    fn rename_noreplace(&self) -> Answer {
        let trial = || {
            let (from, to) = (unguessable_name()?, unguessable_name()?);
            name::create_new(&self.0.directory, &from, 0o600)?;
            let renamed = probe::rename_noreplace(&self.0.directory, &from, &to);
            let left = if renamed.is_ok() { &to } else { &from };
            name::unlink(&self.0.directory, left)?;
            renamed
        };
        trial().into()
    }

    /// Creates a file with a hole of [`HOLE_BYTES`] and data behind it. The size is set first, as some
    /// filesystems reserve more space for a write that extends a file.
    fn create_with_hole(&self) -> Sys<OwnedFd> {
        let file = self.0.create()?;
        file::truncate(&file, HOLE_BYTES + DATA_BYTES)?;
        write_data(&file, HOLE_BYTES)?;
        Ok(file)
    }
}

fn refuted<T>(reason: AnswerReason) -> Answer<T> {
    Answer::No { errno: None, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writable_directory_answers_everything() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path()).unwrap();
        assert_eq!(storage.directory, directory.path());
        // All filesystems that tests run on have these: ext4, XFS, btrfs, tmpfs, overlayfs.
        assert_eq!(storage.holes, Answer::Yes(()));
        assert_eq!(storage.seek_hole, Answer::Yes(()));
        assert_eq!(storage.rename_noreplace, Answer::Yes(()));
        if storage.reflink.is_yes() {
            assert_eq!(storage.copy_file_range, Answer::Yes(Sharing::Shared));
        }
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn trials_work_without_unnamed_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = TrialFiles::open(directory.path()).unwrap();
        files.unnamed = Err(Errno::EOPNOTSUPP);
        let bench = Bench(files);
        assert_eq!(bench.holes(), Answer::Yes(()));
        assert_eq!(bench.seek_hole(), Answer::Yes(()));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_examined_by_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        let storage = storage(&file).unwrap();
        assert_eq!(storage.path, file);
        assert_eq!(storage.directory, directory.path());
        assert!(storage.holes.is_yes());
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn a_directory_without_write_access_gives_unknown_answers() {
        let storage = storage(Path::new("/proc")).unwrap();
        assert_eq!(storage.filesystem.to_string(), "proc");
        for answer in [&storage.reflink, &storage.holes, &storage.unnamed_files] {
            let Answer::Unknown { reason } = answer else { panic!("{answer:?}") };
            let said = reason.to_string();
            assert!(said.starts_with("cannot create a file in /proc: "), "{said}");
            assert_eq!(reason.code(), "no_file");
        }
    }

    #[test]
    fn a_missing_path_is_an_error() {
        let error = storage(Path::new("/nonexistent/x")).unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }
}
