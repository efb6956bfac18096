//! See [`crate::follow`]: links are followed as the system follows them.

use std::fs::{File, Metadata};
use std::path::Path;

use uncopy_core::Result;
use uncopy_core::other_system;

pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| other_system::refused("open", path, error))
}

pub(crate) fn append(path: &Path) -> Result<File> {
    let mut options = File::options();
    super::for_owner_alone(&mut options);
    let opened = options.read(true).append(true).create(true).open(path);
    opened.map_err(|error| other_system::refused("open", path, error))
}

/// Returns device and inode of a file, where the system has them.
pub(crate) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    super::native::identity(metadata)
}

pub(crate) fn metadata(path: &Path) -> Result<Metadata> {
    std::fs::metadata(path).map_err(|error| other_system::refused("examine", path, error))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use uncopy_core::Reason;

    #[test]
    fn errors_are_those_of_the_standard_library() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing").join("file");
        let errors = [
            open(&missing).unwrap_err(),
            append(&missing).unwrap_err(),
            metadata(&missing).unwrap_err(),
        ];
        for error in errors {
            assert!(error.is_not_found() && error.errno().is_none(), "{error}");
            let Reason::OtherSystem { error } = error.reason() else { panic!("{error}") };
            assert_eq!(error.get().kind(), ErrorKind::NotFound);
        }
    }

    #[test]
    fn hard_links_are_one_file_where_the_system_has_identities() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other, third] = ["one", "other", "third"].map(|name| directory.path().join(name));
        std::fs::write(&one, "1").unwrap();
        std::fs::write(&third, "1").unwrap();
        std::fs::hard_link(&one, &other).unwrap();
        let [one, other, third] =
            [one, other, third].map(|path| identity(&metadata(&path).unwrap()));
        assert_eq!(one, other);
        assert!(one.is_none() || one != third);
    }
}
