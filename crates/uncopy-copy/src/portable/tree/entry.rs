//! Copies entries of a tree that are no directories.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::Job;
use super::calls::TreeCalls;
use super::journal::Copied;
use super::part::{KeptPart, is_ended};
use super::place::{Admission, Found, Place, kind_of, look, name_taken, side_of};
use super::remove::remove_entry;
use super::tally::{FileProgress, Tally};
use super::walk::{Directory, mode_of_source};
use crate::context::CopyContext;
use crate::jobs::{EntryKind, EntryOutcome, HardLinks, Links};
use crate::native_trees;
use crate::portable::identity::{Identified, Identity, identify};
use crate::portable::metadata::{give_owner, not_kept};
use crate::portable::names::directory_of;
use crate::portable::partial::InChunks;
use crate::portable::{LinkAtEnd, backup, copy_as, decide, passing};
use crate::{Backup, Control, CopyOptions, Existing, Outcome, Skip};
use uncopy_core::{
    Error, InodeFlags, MetadataPart, Note, Objection, Reason, Result, System, other_system,
};

/// `ERROR_PRIVILEGE_NOT_HELD`.
const NO_RIGHT: i32 = 1314;

impl Job<'_> {
    /// Copies a file or link, or skips it, and reports that. `above`: its directory, if it is an entry of one that the
    /// job goes through.
    pub(super) fn copy_entry(
        &mut self,
        place: &Place,
        metadata: &Metadata,
        above: Option<&mut Directory>,
    ) -> Result<()> {
        let kind = kind_of(metadata);
        let skipped = |reason| EntryOutcome::Skipped { reason };
        let outcome = match kind {
            EntryKind::Symlink if self.options.links == Links::Skip => skipped(Skip::SymbolicLink),
            EntryKind::Special if !self.options.specials => skipped(Skip::Special),
            _ => {
                let found = self.find(place)?;
                if let (Some(found), Some(above)) = (&found, &above)
                    && above.taken.contains(&found.identity)
                    && !self.is_further_name(place, metadata, &found.identity)
                {
                    return Err(name_taken(place));
                }
                let there = found.as_ref().map(|found| &found.metadata);
                let admission = self.admit(place, side_of(metadata), there)?;
                let replaces = match &admission {
                    Admission::Proceed { replaces } => *replaces,
                    Admission::Done(EntryOutcome::Planned { .. }) => true,
                    Admission::Done(_) => false,
                };
                if let Some(found) = found.as_ref().filter(|_| replaces)
                    && kind == EntryKind::Symlink
                    && self.options.copy.backup.is_none()
                    && self.is_target(place, found)
                {
                    let reason = Reason::SameFile { source_path: place.source.clone() };
                    return Err(Error::new("write to", &place.named, reason));
                }
                match admission {
                    Admission::Done(outcome) => outcome,
                    Admission::Proceed { replaces } => {
                        let found = found.as_ref();
                        self.check_backup(place, replaces)?;
                        let made = match kind {
                            EntryKind::Symlink => self.make_link(place, metadata, replaces),
                            EntryKind::Special => self.make_special(place, metadata, replaces),
                            _ => self.copy_or_link(place, metadata, found.filter(|_| replaces)),
                        }?;
                        self.note_backup(place, replaces);
                        if let Some(above) = above {
                            self.note_taken(above, place, found.map(|found| &found.identity));
                        }
                        made
                    }
                }
            }
        };
        self.tally.finish(&place.source, &place.named, kind, outcome);
        Ok(())
    }

    /// Whether a link leads to what its copy would replace, and would be lost.
    fn is_target(&self, place: &Place, found: &Found) -> bool {
        let target = fs::metadata(&place.source);
        let identified = target.map(|it| identify(self.calls, &place.source, true, &it).identity);
        identified.is_ok_and(|identity| identity == found.identity)
    }

    /// Checks that an entry may be replaced, if it is kept as a backup.
    fn check_backup(&self, place: &Place, replaces: bool) -> Result<()> {
        // In a tree that has no name yet nothing is the caller's.
        let claims = self.claims.as_ref().filter(|_| replaces && !place.within.is_private);
        claims.map_or(Ok(()), |claims| {
            claims.check(self.calls, &place.source, &place.actual, &place.named)
        })
    }

    /// Notes a copy, and the backup of what it replaced.
    fn note_backup(&mut self, place: &Place, replaced: bool) {
        let claims = self.claims.as_mut().filter(|_| !place.within.is_private);
        if let Some(claims) = claims {
            claims.add(self.calls, &place.actual, replaced);
        }
    }

    /// Copies a file, or makes its name another one of a file that was copied before.
    fn copy_or_link(
        &mut self,
        place: &Place,
        metadata: &Metadata,
        replaced: Option<&Found>,
    ) -> Result<EntryOutcome> {
        let options = &*self.options_for(place, replaced.is_some());
        let file = (self.options.hard_links == HardLinks::Keep)
            .then(|| identify(self.calls, &place.source, true, metadata))
            .filter(|file| file.names > 1);
        if self.is_resumed(place, metadata, file.is_some())
            || self.is_ended(place, metadata, file.is_some(), options)?
        {
            self.note_name(file, place);
            return Ok(EntryOutcome::Resumed);
        }
        let mut refused = None;
        if let Some(Identified { identity, .. }) = &file
            && let Some(first) = self.names.find(identity)
            // A later root replaces what an earlier one brought if both have an entry of this path.
            && first.copy.as_ref().is_none_or(|copy| is_file(self.calls, &first.actual, copy))
        {
            let calls = self.calls;
            let make = |new: &Path| calls.make_name(&first.actual, new);
            let is_linked = |replaced: &Found| is_file(calls, &first.actual, &replaced.identity);
            let made = match replaced {
                // A rename between two names of one file does nothing (rename(2)).
                Some(replaced) if is_linked(replaced) => Ok(()),
                _ => {
                    let backup = options.backup.as_ref();
                    put(calls, &place.actual, replaced.is_some(), backup, make, |_| Ok(()))
                }
            };
            match made {
                Ok(()) => return Ok(EntryOutcome::Linked { to: first.named }),
                Err(NotPut::Unmade(error)) => {
                    refused = Some(Note::SeparateFile { error: error.into() });
                }
                Err(NotPut::Unplaced { operation, error }) => {
                    let named = &place.named;
                    return Err(other_system::refused_by_destination(operation, named, error));
                }
            }
        }
        match self.copy_file(place, options)? {
            Outcome::Skipped { reason, .. } => Ok(EntryOutcome::Skipped { reason }),
            Outcome::Copied(mut receipt) => {
                receipt.notes.extend(refused);
                self.note(place, metadata, file.is_some())?;
                self.note_name(file, place);
                Ok(EntryOutcome::Copied(Box::new(receipt)))
            }
        }
    }

    /// Notes the copy of a file that has further names.
    fn note_name(&mut self, file: Option<Identified>, place: &Place) {
        let Some(file) = file else { return };
        let found = look(&place.actual).ok().flatten();
        let copy = found.map(|copy| identify(self.calls, &place.actual, false, &copy).identity);
        self.names.add(file, place.root, &place.named, copy);
    }

    /// Whether an entry of the destination is the copy of a file of which this is another name, as an earlier run left it.
    fn is_further_name(&self, place: &Place, source: &Metadata, found: &Identity) -> bool {
        let is_resumed = place.within.is_private && self.journal.is_some();
        if !is_resumed || self.options.hard_links != HardLinks::Keep || !source.is_file() {
            return false;
        }
        let file = identify(self.calls, &place.source, true, source);
        let first = self.names.peek(&file.identity).filter(|first| first.actual != place.actual);
        first.is_some_and(|first| is_file(self.calls, &first.actual, found))
    }

    /// Whether an earlier run copied a file, and neither side has changed since.
    fn is_resumed(&self, place: &Place, source: &Metadata, has_names: bool) -> bool {
        let Some(journal) = self.journal.as_ref().filter(|journal| journal.is_continued()) else {
            return false;
        };
        let Ok(Some(found)) = look(&place.actual) else { return false };
        let way = self.names.way(place.root, &place.named);
        let (source, copy) = ((&*place.source, source), (&*place.actual, &found));
        journal.has(self.calls, &Copied { way, source, copy, has_names })
    }

    /// Whether an earlier run gave a large file its name in an existing directory, and could not note that any more. If so,
    /// it is noted now.
    ///
    /// # Errors
    /// The observer stopped the job, or the journal cannot be written.
    fn is_ended(
        &mut self,
        place: &Place,
        source: &Metadata,
        has_names: bool,
        options: &CopyOptions,
    ) -> Result<bool> {
        // In a tree without its final name the file gets its temporary one back. What comes after the name may be missing.
        let may_miss = options.given().has_mode();
        let Some(journal) = self.journal.as_ref().filter(|_| !place.within.is_private && !may_miss)
        else {
            return Ok(false);
        };
        let way = self.names.way(place.root, &place.named);
        let tally = &self.tally;
        let is_ended =
            is_ended(self.calls, journal, self.sizes, way, place, source, |_| match tally.ask() {
                Control::Continue => Ok(()),
                Control::Stop => Err(Error::new("copy", &place.source, Reason::Cancelled)),
            })?;
        if is_ended {
            self.note(place, source, has_names)?;
        }
        Ok(is_ended)
    }

    /// Notes a finished file in the journal.
    ///
    /// # Errors
    /// The journal cannot be written: the job is over.
    fn note(&mut self, place: &Place, source: &Metadata, has_names: bool) -> Result<()> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let way = self.names.way(place.root, &place.named);
        let noted = fs::symlink_metadata(&place.actual).and_then(|found| {
            let (source, copy) = ((&*place.source, source), (&*place.actual, &found));
            journal.add(self.calls, &Copied { way, source, copy, has_names })
        });
        noted.map_err(|error| self.stop_without_journal(place, error))
    }

    /// Ends the job, because the journal cannot be written.
    fn stop_without_journal(&mut self, place: &Place, error: io::Error) -> Error {
        let operation = "write the journal for";
        let error = other_system::refused_by_destination(operation, &place.named, error);
        self.tally.stop(error.clone());
        error
    }

    /// Copies a file, and tries again as often as the options allow if an error may pass.
    fn copy_file(&mut self, place: &Place, options: &CopyOptions) -> Result<Outcome> {
        let (calls, at_end) = (self.calls, LinkAtEnd::Replaced);
        let (gate, throttle) = (self.options.gate.as_ref(), self.tally.throttle());
        let context = CopyContext { gate, throttle, ..CopyContext::new() };
        let (way, sizes) = (self.names.way(place.root, &place.named), self.sizes);
        let mut kept = self.journal.as_mut().map(|journal| {
            let (way, begun, failed) = (way.to_owned(), None, None);
            KeptPart { calls, journal, sizes, way, place, begun, failed }
        });
        let attempt = |tally: &mut Tally<'_>| {
            let mut progress = FileProgress::new(tally);
            let (from, to) = (&place.source, &place.actual);
            let in_chunks = kept.as_mut().map(|keep| InChunks { keep, sizes });
            copy_as(calls, from, to, options, &context, at_end, in_chunks, &mut progress)
        };
        let (system, retries) = (calls.system(), self.options.retries);
        let copied = passing::persist(&mut self.tally, system, retries, attempt, Tally::ask_or_end);
        if let Some(error) = kept.and_then(|kept| kept.failed) {
            return Err(self.stop_without_journal(place, error));
        }
        copied.map_err(|error| self.as_named(place, error))
    }

    /// Has an error name the path that the caller knows.
    fn as_named(&self, place: &Place, error: Error) -> Error {
        match self.names.known(place.root, error.subject()) {
            Some(known) => error.with_subject(&known),
            None => error,
        }
    }

    /// Makes a link that leads where the source's does.
    pub(super) fn make_link(
        &self,
        place: &Place,
        metadata: &Metadata,
        replaces: bool,
    ) -> Result<EntryOutcome> {
        let target = fs::read_link(&place.source)
            .map_err(|error| other_system::refused("read the link", &place.source, error))?;
        let is_of_directory = native_trees::is_of_directory(metadata);
        let make = |new: &Path| self.calls.make_link(&target, new, is_of_directory);
        let give = |new: &Path, notes: &mut _| self.give_to_link(place, metadata, new, notes);
        self.make_other(place, replaces, "make the link", make, give)
    }

    /// Makes a FIFO, socket or device like that of the source.
    fn make_special(
        &self,
        place: &Place,
        metadata: &Metadata,
        replaces: bool,
    ) -> Result<EntryOutcome> {
        let make = |new: &Path| self.calls.make_special(metadata, new);
        let give = |new: &Path, notes: &mut _| self.give_to_special(place, metadata, new, notes);
        self.make_other(place, replaces, "make", make, give)
    }

    /// Makes an entry that is neither file nor directory.
    fn make_other(
        &self,
        place: &Place,
        replaces: bool,
        operation: &'static str,
        make: impl Fn(&Path) -> io::Result<()>,
        give: impl FnOnce(&Path, &mut Vec<Note>) -> Result<(), NotGiven>,
    ) -> Result<EntryOutcome> {
        let options = self.options_for(place, replaces);
        let mut notes = Vec::new();
        let give = |new: &Path| give(new, &mut notes);
        match put(self.calls, &place.actual, replaces, options.backup.as_ref(), make, give) {
            Ok(()) => Ok(EntryOutcome::Made { notes, flags_not_kept: InodeFlags::default() }),
            // Another process made it in between.
            Err(NotPut::Unmade(error))
                if error.kind() == io::ErrorKind::AlreadyExists
                    && options.existing == Existing::Keep =>
            {
                Ok(EntryOutcome::Skipped { reason: Skip::Exists })
            }
            Err(NotPut::Unmade(error)) if is_without_right(self.calls, &error) => {
                let reason = Reason::Refused(Objection::LinksNeedRight);
                Err(Error::new("make the link", &place.named, reason))
            }
            Err(NotPut::Unmade(error)) => {
                Err(other_system::refused_by_destination(operation, &place.named, error))
            }
            Err(NotPut::Unplaced { operation, error }) => {
                Err(other_system::refused_by_destination(operation, &place.named, error))
            }
        }
    }

    /// Gives a link the owner that is asked for, and otherwise that of the source if it is preserved.
    fn give_to_link(
        &self,
        place: &Place,
        source: &Metadata,
        link: &Path,
        notes: &mut Vec<Note>,
    ) -> Result<(), NotGiven> {
        let (calls, copy) = (self.calls, &self.options.copy);
        if !copy.preserve.ownership && copy.owner.is_none() {
            return Ok(());
        }
        let (is_private, opens_links) =
            (place.within.is_private, decide::opens_links(calls.system()));
        let mut is_left = false;
        let wanted = copy.preserve.ownership.then_some(source);
        let fail = |error| NotGiven { operation: "set the owner of", error };
        let now = fs::symlink_metadata(link).map_err(fail)?;
        let given = give_owner(copy, wanted, &now, |user, group| match is_private {
            true => calls.set_owner_of_name(link, user, group),
            false if opens_links => calls.set_owner_of_link(link, user, group),
            // Others could have put a name of another file in its place by now.
            false => {
                is_left = true;
                Ok(())
            }
        });
        notes.extend(given.map_err(fail)?.map(|(what, error)| not_kept(what, error)));
        notes.extend(is_left.then_some(Note::NothingGiven));
        Ok(())
    }

    /// Gives a FIFO, socket or device owner and mode, where nobody can have put another file in its place by now.
    fn give_to_special(
        &self,
        place: &Place,
        source: &Metadata,
        path: &Path,
        notes: &mut Vec<Note>,
    ) -> Result<(), NotGiven> {
        let (calls, copy) = (self.calls, &self.options.copy);
        let is_given = copy.preserve.mode || copy.preserve.ownership;
        if !is_given && copy.owner.is_none() && copy.mode_changes.is_none() {
            return Ok(());
        }
        if !place.within.is_private {
            notes.push(Note::NothingGiven);
            return Ok(());
        }
        let fail = |operation| move |error| NotGiven { operation, error };
        let now = fs::symlink_metadata(path).map_err(fail("examine"))?;
        let wanted = copy.preserve.ownership.then_some(source);
        let given = give_owner(copy, wanted, &now, |user, group| {
            calls.set_owner_of_name(path, user, group)
        });
        let given = given.map_err(fail("set the owner of"))?;
        notes.extend(given.map(|(what, error)| not_kept(what, error)));
        let mode = match copy.preserve.mode {
            true => Some(mode_of_source(source, path, notes)),
            false => None,
        };
        let changed = copy.mode_changes.as_ref().map(|changes| {
            let umask = self.umask(directory_of(path));
            changes.apply(mode.unwrap_or_else(|| native_trees::mode(&now)), false, umask)
        });
        let Some(wanted) = changed.or(mode) else { return Ok(()) };
        match calls.set_mode(path, wanted) {
            Err(error) if changed.is_some() => Err(fail("set the mode of")(error)),
            Err(error) => {
                notes.push(not_kept(MetadataPart::Mode, error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Metadata that was asked for and could not be given.
struct NotGiven {
    operation: &'static str,
    error: io::Error,
}

/// Why an entry did not get its name.
enum NotPut {
    /// It could not be made.
    Unmade(io::Error),
    /// It was made, and is gone again, because this failed.
    Unplaced { operation: &'static str, error: io::Error },
}

/// Makes an entry by `make` and gives it its metadata by `give`: at once where the name is free, and else under a temporary
/// name, which replaces what is there. That is kept if there is to be a `backup`.
fn put(
    calls: &dyn TreeCalls,
    path: &Path,
    replaces: bool,
    backup: Option<&Backup>,
    make: impl Fn(&Path) -> io::Result<()>,
    give: impl FnOnce(&Path) -> Result<(), NotGiven>,
) -> Result<(), NotPut> {
    let made = match replaces {
        true => make_beside(path, "tmp", make),
        false => make(path).map(|()| path.to_owned()),
    };
    let made = made.map_err(NotPut::Unmade)?;
    let place = || {
        if let Some(backup) = backup {
            let kept = backup::keep(calls, path, backup);
            kept.map_err(|error| ("keep a backup of", error))?;
        }
        calls.rename_entry(&made, path).map_err(|error| ("put in place", error))
    };
    let given = give(&made).map_err(|NotGiven { operation, error }| (operation, error));
    given.and_then(|()| if replaces { place() } else { Ok(()) }).map_err(|(operation, error)| {
        remove_entry(calls, &made);
        NotPut::Unplaced { operation, error }
    })
}

/// Whether a path is a name of this file.
fn is_file(calls: &dyn TreeCalls, path: &Path, identity: &Identity) -> bool {
    let found = look(path).ok().flatten();
    found.is_some_and(|found| identify(calls, path, false, &found).identity == *identity)
}

/// Makes an entry under a temporary name beside another one. Returns its path.
pub(super) fn make_beside(
    path: &Path,
    suffix: &str,
    make: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let mut number = 0u64;
    loop {
        let name = format!(".uncopy-{}-{number}.{suffix}", std::process::id());
        let new = path.with_file_name(name);
        match make(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| new),
        }
    }
}

fn is_without_right(calls: &dyn TreeCalls, error: &io::Error) -> bool {
    calls.system() == System::Windows && error.raw_os_error() == Some(NO_RIGHT)
}
