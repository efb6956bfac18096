//! Compares an entry of the destination with the source: whether it is what a copy would be.

use std::ffi::OsStr;

use rustix::fs::{FileType, OFlags};

use super::place::Place;
use super::unchanged::is_same_as_there;
use crate::compare::contents::{Buffers, are_same};
use crate::destination::ExistingEntry;
use crate::options::CopyOptions;
use uncopy_os::file::{self, Stat};
use uncopy_os::{directory, name};

/// Whether an entry is what a copy of the source would be, with its time where that is kept.
pub(super) fn is_copy(
    options: &CopyOptions,
    place: &Place<'_>,
    source: &Stat,
    found: &ExistingEntry,
) -> bool {
    let has_time = !options.preserve.timestamps || found.stat.modified == source.modified;
    let is_file = source.file_type() == FileType::RegularFile;
    has_time
        && match place.open.source.there() {
            // It gets no bytes.
            _ if is_file && options.attributes_only => {
                found.stat.file_type() == FileType::RegularFile && found.stat.size == 0
            }
            Some(directory) if is_file => is_same_as_there(directory, place, source, found),
            _ => is_same_entry(place, source, found),
        }
}

/// Whether an entry is what a copy of the source would be, apart from its metadata.
pub(super) fn is_same_entry(place: &Place<'_>, source: &Stat, found: &ExistingEntry) -> bool {
    let kind = source.file_type();
    if found.stat.file_type() != kind {
        return false;
    }
    let same = match kind {
        FileType::Symlink => {
            let target = place.read_link();
            let existing = directory::read_link(&found.handle, OsStr::new(""));
            target.and_then(|target| existing.map(|existing| target == existing))
        }
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            // One that cannot be read counts as different; the contents of another machine are not asked for.
            let opened = place.open.source.fd().and_then(|source| {
                let source = name::open_existing(source, place.name, flags)?;
                Ok((source, file::reopen(&found.handle, flags)?))
            });
            opened.map(|(source, existing)| {
                are_same(&source, &existing, &mut Buffers::new(), |_| true).unwrap_or(false)
            })
        }
        _ => Ok(found.stat.special == source.special),
    };
    same.unwrap_or(false)
}
