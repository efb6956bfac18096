//! Files that a run writes itself, the audit log and the manifest: they must not be files that it copies, makes
//! or deletes.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use uncopy::copy::job::{JobOptions, Parents};
use uncopy::copy::{Backup, Numbering, Transform};

use super::target::Pair;
use crate::flags::copy::CopyArgs;

/// A file that a run cannot write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misplaced {
    purpose: Purpose,
    file: PathBuf,
    role: Role,
}

/// Purpose of a file that a run writes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    AuditLog,
    Manifest,
}

/// Other part that the file has in the same run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Source(PathBuf),
    Destination(PathBuf),
    List,
    AuditLog,
    /// It lies in a directory whose other entries are deleted.
    Mirrored(PathBuf),
    /// It lies in a directory whose files are removed when they are copied.
    Moved(PathBuf),
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misplaced { purpose, file, role } = self;
        let flag = match purpose {
            Purpose::AuditLog => "--audit",
            Purpose::Manifest => "--manifest",
        };
        write!(f, "{flag} names {}, ", file.display())?;
        match role {
            Role::Source(source) => {
                write!(f, "which is the source {}; name another file", source.display())
            }
            Role::Destination(copy) => {
                write!(f, "which the copy to {} would write to; name another file", copy.display())
            }
            Role::List => f.write_str("which is the list of --files-from; name another file"),
            Role::AuditLog => f.write_str("which is the file of --audit too; name another file"),
            Role::Mirrored(directory) => write!(
                f,
                "which --delete would remove from {}; name a file outside of it",
                directory.display()
            ),
            Role::Moved(directory) => write!(
                f,
                "which --remove-source-files would remove from {}; name a file outside of it",
                directory.display()
            ),
        }
    }
}

/// Checks the files that the flags name against all that the run copies.
///
/// # Errors
/// One of them has another part in the same run.
pub(super) fn check(
    flags: &CopyArgs,
    options: &JobOptions,
    pairs: &[Pair],
) -> Result<(), Misplaced> {
    let named = [(Purpose::AuditLog, &flags.audit), (Purpose::Manifest, &flags.manifest)];
    for (purpose, file) in named {
        let Some(file) = file else { continue };
        let Some(own) = OwnFile::look(file, options) else { continue };
        let misplaced = |role| Misplaced { purpose, file: file.clone(), role };
        if let (Purpose::Manifest, Some(log)) = (purpose, &flags.audit)
            && own.is(log)
        {
            return Err(misplaced(Role::AuditLog));
        }
        if flags.files_from.as_ref().is_some_and(|list| own.is(Path::new(list))) {
            return Err(misplaced(Role::List));
        }
        let found = pairs.iter().find_map(|pair| own.role(pair, options, flags.is_recursive()));
        if let Some(role) = found {
            return Err(misplaced(role));
        }
    }
    Ok(())
}

/// A regular file, or a name that there is no file of yet.
struct OwnFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// Names of copies by which this file would be written to: its own, and those of which it is the backup or the
    /// compressed form.
    as_copies: Vec<PathBuf>,
}

impl OwnFile {
    /// Returns `None` for devices and pipes, which can be written to from several sides.
    fn look(file: &Path, options: &JobOptions) -> Option<OwnFile> {
        let found = fs::metadata(file).ok();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return None;
        }
        let path = resolved(file);
        let mut as_copies = vec![path.clone()];
        if let Some(backup) = &options.copy.backup {
            as_copies.extend(copy_of_backup(&path, backup));
        }
        if options.copy.transform != Transform::None && options.copy.suffix {
            as_copies.push(with_suffix(&path, ".zst"));
            as_copies.extend(without_suffix(&path, ".zst".as_ref()));
        }
        Some(OwnFile { path, identity: found.as_ref().and_then(identity), as_copies })
    }

    fn is(&self, other: &Path) -> bool {
        let is_same = |found| self.identity.is_some() && identity(&found) == self.identity;
        fs::metadata(other).is_ok_and(is_same) || resolved(other) == self.path
    }

    /// Returns the part that this file has in the copy of a pair.
    fn role(&self, pair: &Pair, options: &JobOptions, is_recursive: bool) -> Option<Role> {
        let Pair { source, destination } = pair;
        if self.is(source) {
            return Some(Role::Source(source.clone()));
        }
        let copy = copy_of(pair, options);
        if self.is(&copy) {
            return Some(Role::Destination(copy));
        }
        let place = resolved(&copy);
        let is_written = self.as_copies.iter().any(|path| match path.strip_prefix(&place) {
            Ok(below) if below.as_os_str().is_empty() => true,
            Ok(below) => is_recursive && fs::symlink_metadata(source.join(below)).is_ok(),
            Err(_) => false,
        });
        if is_written {
            return Some(Role::Destination(copy));
        }
        if options.delete.is_some() && self.path.starts_with(resolved(destination)) {
            return Some(Role::Mirrored(destination.clone()));
        }
        (options.remove_source && is_recursive && self.path.starts_with(resolved(source)))
            .then(|| Role::Moved(source.clone()))
    }
}

/// Returns the path of the copy of a pair, whose destination is a directory where paths are kept.
fn copy_of(pair: &Pair, options: &JobOptions) -> PathBuf {
    let Pair { source, destination } = pair;
    let below = match &options.parents {
        Parents::Omit => return destination.clone(),
        Parents::Keep => source.as_path(),
        Parents::KeepBelow(directory) => source.strip_prefix(directory).unwrap_or(source),
    };
    let is_named =
        |part: &Component<'_>| !matches!(part, Component::RootDir | Component::Prefix(_));
    destination.join(below.components().filter(is_named).collect::<PathBuf>())
}

/// Returns the name of the copy whose backup would replace this file.
fn copy_of_backup(path: &Path, backup: &Backup) -> Option<PathBuf> {
    match backup.numbering {
        Numbering::Always => None,
        _ => without_suffix(path, &backup.suffix),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn without_suffix(path: &Path, suffix: &OsStr) -> Option<PathBuf> {
    let name = stripped(path.file_name()?, suffix)?;
    (!name.is_empty()).then(|| path.with_file_name(name))
}

/// Returns an absolute path without links, also of a file that does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            resolved(Path::new(".")).join(name)
        }
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

#[cfg(unix)]
fn stripped(name: &OsStr, suffix: &OsStr) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt;
    let name = name.as_bytes().strip_suffix(suffix.as_bytes())?;
    Some(OsStr::from_bytes(name).to_owned())
}

#[cfg(not(unix))]
fn stripped(name: &OsStr, suffix: &OsStr) -> Option<OsString> {
    Some(name.to_str()?.strip_suffix(suffix.to_str()?)?.into())
}

/// Returns device and inode of a file.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

/// Resolved paths alone are compared.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}
