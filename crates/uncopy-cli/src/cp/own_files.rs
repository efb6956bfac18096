//! Files that a run writes itself, the audit log and the manifest: they must not be files that it copies, makes
//! or deletes.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use uncopy::copy::Transform;
use uncopy::copy::job::JobOptions;

use super::target::{Pair, resolved};
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

/// Part of what a copy names that lies on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    All,
    /// Not the sources: any name may be in them.
    DestinationAndOwnFiles,
    /// Not the destination: any name may be in it, and none of this machine is.
    SourcesAndOwnFiles,
    /// The destination alone, for the machine of the command line.
    Destination,
}

/// Checks the files that the flags name against all that the run copies.
///
/// # Errors
/// One of them has another part in the same run.
pub(super) fn check(
    flags: &CopyArgs,
    options: &JobOptions,
    pairs: &[Pair],
    held: Held,
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
        let found =
            pairs.iter().find_map(|pair| own.role(pair, options, flags.is_recursive(), held));
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
            let name = path.file_name().and_then(|name| backup.overwriting(name));
            as_copies.extend(name.map(|name| path.with_file_name(name)));
        }
        if options.copy.transform != Transform::None && options.copy.suffix {
            as_copies.push(with_suffix(&path, ".zst"));
            let is_compressed = path.extension().is_some_and(|found| found == "zst");
            as_copies.extend(is_compressed.then(|| path.with_extension("")));
        }
        Some(OwnFile { path, identity: found.as_ref().and_then(identity), as_copies })
    }

    fn is(&self, other: &Path) -> bool {
        let is_same = |found| self.identity.is_some() && identity(&found) == self.identity;
        fs::metadata(other).is_ok_and(is_same) || resolved(other) == self.path
    }

    /// Returns the part that this file has in the copy of a pair.
    fn role(
        &self,
        pair: &Pair,
        options: &JobOptions,
        is_recursive: bool,
        held: Held,
    ) -> Option<Role> {
        let Pair { source, destination } = pair;
        let is_here = held != Held::DestinationAndOwnFiles;
        if is_here && self.is(source) {
            return Some(Role::Source(source.clone()));
        }
        if held == Held::SourcesAndOwnFiles {
            return None;
        }
        let copy = pair.copy(&options.parents);
        if self.is(&copy) {
            return Some(Role::Destination(copy));
        }
        let place = resolved(&copy);
        let is_written = self.as_copies.iter().any(|path| match path.strip_prefix(&place) {
            Ok(below) if below.as_os_str().is_empty() => true,
            Ok(below) => {
                is_recursive && (!is_here || fs::symlink_metadata(source.join(below)).is_ok())
            }
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

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
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
