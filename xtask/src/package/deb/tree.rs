//! Files of a package before they are packed: their sizes, digests and permissions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Directory of what dpkg reads and does not install.
const META: &str = "DEBIAN";

/// Room of all files below `root`, each in whole KiB (policy of Debian, 5.6.20).
///
/// # Errors
/// If a directory cannot be listed.
pub(super) fn installed_kibibytes(root: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in
        std::fs::read_dir(root).with_context(|| format!("cannot list {}", root.display()))?
    {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if entry.file_name() == META {
            // Not installed.
        } else if metadata.is_dir() {
            sum += 1 + installed_kibibytes(&entry.path())?;
        } else if metadata.is_file() {
            sum += metadata.len().div_ceil(1024);
        } else {
            sum += 1;
        }
    }
    Ok(sum)
}

/// Digests of all files below `root`, as dpkg compares them with what is installed.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn md5sums(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    list(root, &mut |path, metadata| {
        if metadata.is_file() {
            files.push(path.strip_prefix(root).unwrap_or(path).to_owned());
        }
        Ok(())
    })?;
    files.retain(|path: &PathBuf| !path.starts_with(META));
    files.sort();
    let output = Command::new("md5sum").args(&files).current_dir(root).output();
    let output = output.context("cannot start md5sum")?;
    ensure!(output.status.success(), "md5sum: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Takes everything that depends on the umask out of the permissions below `root`. Shared libraries
/// are not executed (policy of Debian, 8.1).
///
/// # Errors
/// If permissions cannot be set.
pub(super) fn plain_permissions(root: &Path) -> Result<()> {
    let set = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode))
            .with_context(|| format!("cannot set the permissions of {}", path.display()))
    };
    set(root, 0o755)?;
    list(root, &mut |path, metadata| {
        let is_program = path.parent().is_some_and(|parent| parent.ends_with("bin"));
        if metadata.is_dir() || is_program {
            set(path, 0o755)
        } else if metadata.is_file() {
            set(path, 0o644)
        } else {
            Ok(())
        }
    })
}

/// Calls `visit` with everything below `directory`; links are not followed.
fn list(
    directory: &Path,
    visit: &mut impl FnMut(&Path, &fs::Metadata) -> Result<()>,
) -> Result<()> {
    let cannot_list = || format!("cannot list {}", directory.display());
    for entry in fs::read_dir(directory).with_context(cannot_list)? {
        let path = entry.with_context(cannot_list)?.path();
        let metadata = fs::symlink_metadata(&path).with_context(cannot_list)?;
        visit(&path, &metadata)?;
        if metadata.is_dir() {
            list(&path, visit)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::{installed_kibibytes, md5sums, plain_permissions};

    #[test]
    fn what_dpkg_reads_is_not_counted() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["DEBIAN", "usr/bin", "usr/lib"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("DEBIAN/control"), "x").unwrap();
        fs::write(root.join("usr/lib/b.so"), vec![0; 1025]).unwrap();
        fs::set_permissions(root.join("usr/lib/b.so"), Permissions::from_mode(0o775)).unwrap();
        fs::write(root.join("usr/bin/a"), "").unwrap();
        // Two for the library, and one for each directory.
        assert_eq!(installed_kibibytes(root).unwrap(), 5);
        let sums = md5sums(root).unwrap();
        let names: Vec<_> = sums.lines().map(|line| line.split_once("  ").unwrap().1).collect();
        assert_eq!(names, ["usr/bin/a", "usr/lib/b.so"]);
        plain_permissions(root).unwrap();
        let mode = |name| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("usr/bin/a"), mode("usr/lib/b.so"), mode("usr")), (0o755, 0o644, 0o755));
    }
}
