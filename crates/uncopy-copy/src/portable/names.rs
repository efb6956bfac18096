//! Paths beside a destination (pure).

use std::path::{Path, PathBuf};

/// Returns a temporary path beside a file.
pub(super) fn temporary_path(destination: &Path, number: u64) -> PathBuf {
    destination.with_file_name(format!(".uncopy-{}-{number}.tmp", std::process::id()))
}

/// Returns the directory of a file.
pub(super) fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
