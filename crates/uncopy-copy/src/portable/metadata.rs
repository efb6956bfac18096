//! Gives a copy its metadata: owner, attributes, mode and times, in this order, because each may change what is behind
//! it. An ACL may forbid to rename the file: it comes when the file has its name, and the mode that others have after it.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::path::Path;

use super::attempt::Attempts;
use super::attributes::{self, Before};
use super::native;
use super::temporary::{Last, Temporary};
use crate::options::CopyOptions;
use uncopy_core::other_system;
use uncopy_core::{Error, Mechanism, MetadataPart, Note, Portion, Receipt, Result};
use uncopy_os::native::{CopyCalls, FileAttributes};

/// Umask where it is not known.
pub(super) const OWNER_ALONE: u32 = 0o077;

impl<'a> Attempts<'a, '_, '_> {
    /// Gives the copy the metadata of the file that it replaces, and what the options name. Returns what it may have only
    /// under its final name.
    ///
    /// # Errors
    /// It cannot have the owner or the mode that the options ask for.
    pub(super) fn give_metadata(
        &self,
        temporary: &Temporary<'_>,
        receipt: &mut Receipt,
    ) -> Result<Last<'a>> {
        let (file, options, source) = (temporary.file()?, self.options, &self.source.begun);
        let notes = &mut receipt.notes;
        let found = self.destination.found.as_ref();
        if found.is_some() && options.in_place {
            notes.push(Note::InPlace);
            notes.extend(options.verify.map(|_| Note::VerifiedInPlace));
        }
        // A file that is written where it is keeps its own.
        let old = found.filter(|_| !options.writes_into_existing());
        if let Some(old) = old {
            let has_all = options.preserve.xattr && options.preserve.acl;
            notes.extend((!has_all).then(native::loss_of_old));
            notes.extend(Note::other_links(native::links(old)));
        }
        let is_with_streams = |portion: &Portion| portion.mechanism == Mechanism::CopyFile2;
        let has_streams = || self.calls.has_streams(self.source.path).unwrap_or(false);
        if !options.attributes_only
            && !receipt.portions.iter().any(is_with_streams)
            && has_streams()
        {
            notes.push(Note::StreamsNotKept);
        }
        let keeps_group = self.give_owner(file, old, notes)?;
        if options.preserve.xattr
            && let Err(error) = self.calls.copy_attributes(&self.source.file, file)
        {
            notes.push(not_kept(MetadataPart::Attributes, error));
        }
        let permissions = match self.calls.attributes(source) {
            Some(of_source) => {
                self.give_attributes(file, of_source, old, notes)?;
                None
            }
            None => self.give_mode(file, old, keeps_group, notes)?,
        };
        if options.preserve.timestamps
            && let Err(error) = self.calls.set_times(file, source)
        {
            notes.push(not_kept(MetadataPart::Times, error));
        }
        let acl_of = options.preserve.acl.then_some(&self.source.file);
        Ok(Last { acl_of, permissions })
    }

    /// Gives a file the owner that is asked for, and otherwise that of the source or of the file that it replaces.
    /// Returns whether its group is the one that the mode is for.
    fn give_owner(
        &self,
        file: &File,
        old: Option<&Metadata>,
        notes: &mut Vec<Note>,
    ) -> Result<bool> {
        let keeps_source = self.options.preserve.ownership;
        let wanted = if keeps_source { Some(&self.source.begun) } else { old };
        let now = file.metadata().map_err(|error| self.refused("examine", error))?;
        let given = give_owner(self.options, wanted, &now, |user, group| {
            self.calls.set_owner(file, user, group)
        });
        let Some((what, error)) = given.map_err(|error| self.refused("set the owner of", error))?
        else {
            return Ok(true);
        };
        let has_group = what == MetadataPart::Owner;
        notes.push(match (keeps_source, has_group) {
            (true, _) => not_kept(what, error),
            (false, true) => Note::OldOwnerNotKept,
            (false, false) => Note::OldOwnerAndGroupNotKept,
        });
        Ok(has_group)
    }

    /// Gives a file the attributes that it has in place of a mode.
    fn give_attributes(
        &self,
        file: &File,
        of_source: FileAttributes,
        old: Option<&Metadata>,
        notes: &mut Vec<Note>,
    ) -> Result<()> {
        let (calls, preserves) = (self.calls, self.options.preserve.mode);
        let now = file.metadata().map_err(|error| self.refused("examine", error))?;
        let before = match old.and_then(|old| calls.attributes(old)) {
            Some(old) => Before::Replaced(old),
            None if self.destination.found.is_none() => Before::NewFile,
            None => Before::Itself,
        };
        let now = calls.attributes(&now).unwrap_or_default();
        let wanted = attributes::wanted(of_source, now, before, preserves);
        let given = wanted.map_or(Ok(()), |wanted| calls.set_attributes(file, wanted));
        notes.extend(given.err().map(|error| match before {
            Before::Replaced(_) if !preserves => {
                Note::OldPermissionsNotKept { error: error.into() }
            }
            _ => not_kept(MetadataPart::FileAttributes, error),
        }));
        Ok(())
    }

    /// Sets the mode of a file. Returns what it gets with its final name.
    fn give_mode(
        &self,
        file: &File,
        old: Option<&Metadata>,
        keeps_group: bool,
        notes: &mut Vec<Note>,
    ) -> Result<Option<Permissions>> {
        let (options, source) = (self.options, &self.source.begun);
        let changes = options.mode_changes.as_ref();
        let fail = |error| self.refused("set the mode of", error);
        let is_narrow = self.destination.found.is_none() && options.given().has_mode();
        let umask = match changes.is_some() || (is_narrow && !options.preserve.mode) {
            true => match umask(self.calls, &self.destination.path) {
                // Its directory may be one where nothing is made.
                Err(_) if self.destination.found.is_some() => OWNER_ALONE,
                umask => umask?,
            },
            false => 0,
        };
        let mut wanted = match old {
            _ if options.preserve.mode => {
                let now = file.metadata().map_err(fail)?;
                let (mode, note) = native::mode_of_source(&now, source);
                notes.extend(note);
                Some(mode)
            }
            Some(old) => native::mode_of_old(old, keeps_group),
            None if is_narrow => native::mode_of_new(source, umask),
            None => None,
        };
        if let Some(changes) = changes {
            let before = match wanted {
                Some(wanted) => wanted,
                None => file.metadata().map_err(fail)?.permissions(),
            };
            wanted = Some(native::changed(&before, changes, umask).map_err(fail)?);
        }
        let Some(wanted) = wanted else { return Ok(None) };
        let is_new = self.destination.found.is_none() || old.is_some();
        let (first, last) = native::until_named(wanted, is_new && options.preserve.acl);
        match self.calls.set_permissions(file, first) {
            Ok(()) => Ok(last),
            Err(error) if changes.is_some() => Err(fail(error)),
            Err(error) if old.is_some() && !options.preserve.mode => {
                notes.push(Note::OldPermissionsNotKept { error: error.into() });
                Ok(None)
            }
            Err(error) => {
                notes.push(not_kept(MetadataPart::Mode, error));
                Ok(None)
            }
        }
    }

    fn refused(&self, operation: &'static str, error: io::Error) -> Error {
        other_system::refused_by_destination(operation, self.destination.given, error)
    }
}

/// Gives an entry that is like `now` the owner that is asked for, and otherwise the `wanted` one, by `set`. Returns what
/// it could not get and nobody asked for.
///
/// # Errors
/// It could not get the owner that is asked for.
pub(super) fn give_owner(
    options: &CopyOptions,
    wanted: Option<&Metadata>,
    now: &Metadata,
    set: impl FnMut(Option<u32>, Option<u32>) -> io::Result<()>,
) -> io::Result<Option<(MetadataPart, io::Error)>> {
    /// No user or group has it (chown(2)).
    const NOBODY: u32 = u32::MAX;
    let asked = options.owner.unwrap_or_default();
    let now = native::owner(now);
    if now.is_none() && options.preserve.ownership {
        return Ok(Some((MetadataPart::OwnerAndGroup, io::ErrorKind::Unsupported.into())));
    }
    let wanted = wanted.and_then(native::owner);
    asked.give(asked.lacking(wanted, now.unwrap_or((NOBODY, NOBODY))), set)
}

/// Makes the note for what could not be given.
pub(super) fn not_kept(what: MetadataPart, error: io::Error) -> Note {
    Note::NotKeptElsewhere { what, error: error.into() }
}

/// Returns the umask. It can only be seen at a new file: setting it would be felt by other threads.
pub(super) fn umask(calls: &dyn CopyCalls, destination: &Path) -> Result<u32> {
    let made = Temporary::create(calls, destination, native::create_for_everybody)?;
    let metadata = made.file()?.metadata();
    let metadata = metadata
        .map_err(|error| other_system::refused_by_destination("examine", destination, error))?;
    Ok(native::umask_of(&metadata))
}
