//! The destination of a copy: looks up what is there, and whether it may be replaced.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::{LinkAtEnd, Source, backup, check_name, native};
use crate::options::{CopyOptions, Existing};
use uncopy_core::other_system;
use uncopy_core::{Error, FileKind, Objection, Reason, Result};
use uncopy_os::native::CopyCalls;

/// Where the copy goes.
pub(super) struct Destination<'a> {
    pub(super) given: &'a Path,
    /// Where a symbolic link at the end of that path leads to, or the path itself.
    pub(super) path: PathBuf,
    /// The file that is there now, and that passes something on to the copy.
    pub(super) found: Option<Metadata>,
    /// Whether the name is taken, also by an entry that passes nothing on.
    pub(super) is_taken: bool,
}

impl<'a> Destination<'a> {
    /// Looks at the destination; changes nothing.
    pub(super) fn resolve(
        calls: &dyn CopyCalls,
        given: &'a Path,
        source: &Source<'_>,
        options: &CopyOptions,
        at_end: LinkAtEnd,
    ) -> Result<Destination<'a>> {
        let refuse = |reason| Err(Error::new("write to", given, reason));
        let fail = |error| other_system::refused_by_destination("examine", given, error);
        let text = given.to_string_lossy();
        if given.file_name().is_none() || text.ends_with(std::path::is_separator) {
            return refuse(Reason::NotRegular { kind: FileKind::Directory });
        }
        check_name(calls.system(), "write to", given)?;
        let replaces_name = options.replaces_name();
        let itself =
            |is_taken| Destination { given, path: given.to_owned(), found: None, is_taken };
        let (path, found) = match fs::symlink_metadata(given) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(itself(false)),
            Err(error) => return Err(fail(error)),
            Ok(link) if link.is_symlink() && options.existing == Existing::Keep => {
                return Ok(itself(true));
            }
            Ok(other) if at_end == LinkAtEnd::Replaced && !other.is_file() && !other.is_dir() => {
                return Ok(itself(true));
            }
            Ok(link) if link.is_symlink() && !replaces_name => match fs::canonicalize(given) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return refuse(Reason::Refused(Objection::LinkToNothing));
                }
                Err(error) => return Err(fail(error)),
                Ok(path) => {
                    let found = fs::metadata(&path).map_err(fail)?;
                    (path, found)
                }
            },
            Ok(found) => (given.to_owned(), found),
        };
        let kind = native::kind(&found);
        if kind == FileKind::Directory || kind != FileKind::Regular && !replaces_name {
            return refuse(Reason::NotRegular { kind });
        }
        // A further name of the source may be replaced: the source stays.
        let is_other_name = replaces_name && (native::links(&found) > 1 || found.is_symlink());
        if !is_other_name && source.is_file(calls, &path, &found) {
            return refuse(Reason::SameFile { source_path: source.path.to_owned() });
        }
        if options.existing == Existing::Replace
            && !replaces_name
            && !options.writes_into_existing()
            && let Err(error) = File::options().write(true).open(&path)
        {
            return match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    refuse(Reason::Refused(Objection::WritingForbiddenHere))
                }
                _ => Err(other_system::refused_by_destination("open for writing", given, error)),
            };
        }
        if !replaces_name {
            return Ok(Destination { given, path, found: Some(found), is_taken: true });
        }
        let name = path.file_name().unwrap_or_default();
        let Some(backup) = &options.backup else { return Ok(itself(true)) };
        let is_source = |kept: OsString| {
            let is_of_its_name = source.path.file_name() == Some(&kept);
            let kept = path.with_file_name(kept);
            let is_same = |found: Metadata| source.is_file(calls, &kept, &found);
            fs::symlink_metadata(&kept).is_ok_and(is_same)
                || is_of_its_name && fs::metadata(&kept).is_ok_and(is_same)
        };
        if backup.overwritten(name).is_some_and(is_source) {
            return refuse(Reason::Refused(Objection::BackupIsSource));
        }
        if let Some(why) = backup::obstacle(calls, &path, backup) {
            return refuse(Reason::Refused(why));
        }
        Ok(itself(true))
    }
}
