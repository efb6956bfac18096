//! Files that a job of single files has written, so that it does not write one of them twice.

use std::collections::HashSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::{CopyOptions, Transform};
use uncopy_core::{Error, Objection, Reason, Result};

/// Destinations written so far, by identity and not by name: on a filesystem that folds case, `A` and
/// `a` are one file, and the second copy would destroy the first.
#[derive(Debug, Default)]
pub(crate) struct WrittenFiles {
    files: HashSet<(u64, u64)>,
}

impl WrittenFiles {
    /// Checks that no earlier copy was written to this destination.
    ///
    /// # Errors
    /// [`Objection::AlreadyWritten`].
    pub(crate) fn check(&self, destination: &Path, options: &CopyOptions) -> Result<()> {
        if self.contains(destination)
            || other_name(destination, options).is_some_and(|name| self.contains(&name))
        {
            let reason = Reason::Refused(Objection::AlreadyWritten);
            return Err(Error::new("write to", destination, reason));
        }
        Ok(())
    }

    fn contains(&self, path: &Path) -> bool {
        !self.files.is_empty() && identity(path).is_some_and(|file| self.files.contains(&file))
    }

    /// Remembers the file of this name.
    pub(crate) fn add(&mut self, path: &Path) {
        self.files.extend(identity(path));
    }
}

/// Returns the other name that a copy may get, if its contents decide about a suffix.
fn other_name(destination: &Path, options: &CopyOptions) -> Option<PathBuf> {
    match options.transform {
        Transform::Compress(_) if options.suffix => {
            let mut name = destination.as_os_str().to_owned();
            name.push(".zst");
            Some(name.into())
        }
        Transform::Decompress if options.suffix => {
            let has_suffix = destination.extension().is_some_and(|extension| extension == "zst");
            has_suffix.then(|| destination.with_extension(""))
        }
        _ => None,
    }
}

/// Returns the identity of a regular file. A device or FIFO can be written to any number of times.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = crate::follow::metadata(path).ok().filter(Metadata::is_file)?;
    crate::following::identity(&metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn a_file_is_known_under_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other, new] = ["one", "other", "new"].map(|name| directory.path().join(name));
        std::fs::write(&one, "1").unwrap();
        std::fs::hard_link(&one, &other).unwrap();
        let (mut written, options) = (WrittenFiles::default(), CopyOptions::default());
        assert!(written.check(&one, &options).is_ok());
        written.add(&one);
        assert!(written.check(&one, &options).is_err());
        assert!(written.check(&other, &options).is_err());
        assert!(written.check(&new, &options).is_ok());
    }

    #[test]
    fn the_name_with_the_other_suffix_counts_as_well() {
        let directory = tempfile::tempdir().unwrap();
        let [plain, compressed] = ["a", "a.zst"].map(|name| directory.path().join(name));
        std::fs::write(&compressed, "1").unwrap();
        let mut written = WrittenFiles::default();
        written.add(&compressed);
        let options = CopyOptions::default().transform(Transform::Compress(Level::default()));
        assert!(written.check(&plain, &options).is_ok());
        assert!(written.check(&plain, &options.suffix(true)).is_err());
    }
}
