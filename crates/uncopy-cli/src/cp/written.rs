//! Which files this run has already written.

use std::collections::HashSet;
use std::path::Path;

/// The destinations written so far, by identity and not by name: on a filesystem that folds case,
/// `A` and `a` are one file, and the second copy would destroy the first.
#[derive(Debug, Default)]
pub(crate) struct Written {
    files: HashSet<(u64, u64)>,
}

impl Written {
    /// The file of this name was written by this run.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        !self.files.is_empty() && identity(path).is_some_and(|file| self.files.contains(&file))
    }

    /// Remembers the file of this name.
    pub(crate) fn add(&mut self, path: &Path) {
        self.files.extend(identity(path));
    }
}

/// Device and inode.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = uncopy::follow::metadata(path).ok()?;
    // A device or FIFO can be written to any number of times.
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// Not known here; names alone are compared.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_under_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other, new] = ["one", "other", "new"].map(|name| directory.path().join(name));
        std::fs::write(&one, "1").unwrap();
        std::fs::hard_link(&one, &other).unwrap();
        let mut written = Written::default();
        assert!(!written.contains(&one));
        written.add(&one);
        assert!(written.contains(&one));
        assert!(written.contains(&other));
        assert!(!written.contains(&new));
    }
}
