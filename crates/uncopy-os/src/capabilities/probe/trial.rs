//! Temporary files for trials.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::capabilities::{AnswerReason, Sharing};
use crate::{Sys, file, follow, name, transfer};
use uncopy_core::{Errno, Reason};

/// Size of test data: too large to be stored inside an inode, and a multiple of every block size.
pub(super) const DATA_BYTES: u64 = 128 << 10;

/// Directory in which temporary files can be created that other processes do not find.
pub struct TrialFiles {
    path: PathBuf,
    pub(super) directory: OwnedFd,
    /// The filesystem's `st_dev`.
    pub(super) device: (u32, u32),
    /// Whether files can be created without a name.
    pub(super) unnamed: Sys<()>,
    /// An empty temporary file.
    pub(super) file: OwnedFd,
    /// File whose flags the temporary files get that decide about sharing.
    like: Option<OwnedFd>,
}

impl TrialFiles {
    /// Opens a directory for trials.
    ///
    /// # Errors
    /// Reason why nothing can be tried there.
    pub fn open(path: &Path) -> Result<TrialFiles, AnswerReason> {
        let not_examined =
            |reason| AnswerReason::NotExamined { directory: path.to_owned(), reason };
        let directory =
            follow::open_directory(path).map_err(|stopped| not_examined(stopped.reason()))?;
        let device =
            file::stat(&directory).map_err(|errno| not_examined(Reason::System { errno }))?.device;
        let made = name::create_unnamed(&directory, 0o600);
        let unnamed = made.as_ref().map(|_| ()).map_err(|errno| *errno);
        let file = made
            .or_else(|_| create_and_unlink(&directory))
            .map_err(|errno| AnswerReason::NoFile { directory: path.to_owned(), errno })?;
        Ok(TrialFiles { path: path.to_owned(), directory, device, unnamed, file, like: None })
    }

    /// Makes files from now on as this one is, as far as it decides whether they may share blocks.
    #[must_use]
    pub fn like(self, existing: OwnedFd) -> TrialFiles {
        TrialFiles { like: Some(existing), ..self }
    }

    /// Returns the path of the directory, as given.
    pub fn directory(&self) -> &Path {
        &self.path
    }

    /// Creates an empty file.
    pub fn create(&self) -> Sys<OwnedFd> {
        let file = match self.unnamed {
            Ok(()) => name::create_unnamed(&self.directory, 0o600),
            Err(_) => create_and_unlink(&self.directory),
        }?;
        if let Some(like) = &self.like {
            file::take_no_cow(&file, like)?;
        }
        Ok(file)
    }

    /// Creates a file with data.
    pub fn create_with_data(&self) -> Sys<OwnedFd> {
        let file = self.create()?;
        write_data(&file, 0)?;
        Ok(file)
    }
}

/// Returns whether a copied file shares its blocks, according to `FIEMAP` after a flush.
pub fn sharing(copy: BorrowedFd<'_>) -> Sharing {
    // An extent may have no place until it is flushed.
    let found = file::sync_data(copy).and_then(|()| file::extents(copy));
    match found {
        Ok(extents) if extents.iter().all(|extent| extent.shared && !extent.unsettled) => {
            if extents.is_empty() { Sharing::Unknown } else { Sharing::Shared }
        }
        Ok(_) => Sharing::Copied,
        Err(_) => Sharing::Unknown,
    }
}

/// Writes bytes other than zeros, as some filesystems do not store zeros.
pub(super) fn write_data(file: impl AsFd, offset: u64) -> Sys<()> {
    let data = vec![0xA5; DATA_BYTES as usize];
    let mut done = 0;
    while done < data.len() {
        match transfer::write_at(&file, &data[done..], offset + done as u64)? {
            0 => return Err(Errno::EIO),
            n => done += n,
        }
    }
    Ok(())
}

/// Creates a file and removes its name at once, for filesystems without `O_TMPFILE`.
fn create_and_unlink(directory: &OwnedFd) -> Sys<OwnedFd> {
    let name = unguessable_name()?;
    let file = name::create_new(directory, &name, 0o600)?;
    name::unlink(directory, &name)?;
    Ok(file)
}

pub(super) fn unguessable_name() -> Sys<OsString> {
    let random = u128::from_ne_bytes(name::random_bytes()?);
    Ok(format!(".uncopy-probe-{random:032x}.tmp").into())
}
