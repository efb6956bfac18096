//! Copies the roots of a job, which the caller named. A directory without an existing destination is built under a
//! temporary name beside it and renamed once, so that it appears when it is complete.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::Job;
use super::calls::TreeCalls;
use super::entry::make_beside;
use super::journal::{Journal, file_id, is_built, is_tree_name, journal_path};
use super::part;
use super::place::{Place, Within, kind_of, look};
use super::remove::remove_tree;
use super::tally::incomplete;
use super::walk::{Directory, Modes, outcome_of};
use crate::Existing;
use crate::jobs::{
    DestinationLinks, EntryKind, EntryOutcome, JobOptions, Links, Sources, fingerprint,
};
use crate::journal::format::{Begun, Built, Short};
use crate::native_trees;
use crate::portable::check_name;
use crate::portable::identity::{Identity, identify};
use crate::portable::names::directory_of;
use uncopy_core::{Error, Note, Objection, Reason, Result, other_system};

/// Mode of a tree that has no name yet.
const PRIVATE: u32 = 0o700;

/// The destination of a directory.
struct Target {
    actual: PathBuf,
    within: Within,
    modes: Modes,
    /// Whether it is built under a temporary name.
    is_aside: bool,
    /// The journal, if the job has journals.
    journal: Option<Journal>,
}

impl Job<'_> {
    /// Copies one root with its contents.
    pub(super) fn copy_root(&mut self, source: &Path, destination: &Path) {
        self.tally.add_found(1);
        let options = self.options;
        let follows =
            options.links == Links::Follow || options.follow_roots || names_directory(source);
        let looked = check_name(self.calls.system(), "copy", source).and_then(|()| {
            let looked = match follows {
                true => fs::metadata(source),
                false => fs::symlink_metadata(source),
            };
            looked.map_err(|error| other_system::refused("open", source, error))
        });
        let metadata = match looked {
            Ok(metadata) => metadata,
            Err(error) => return self.tally.fail(source, destination, EntryKind::File, error),
        };
        let kind = kind_of(&metadata);
        let copied = match kind {
            EntryKind::Directory | EntryKind::Special
                if options.sources == Sources::Entries
                    && (kind == EntryKind::Directory || !options.specials) =>
            {
                let kind = crate::native::kind(&metadata);
                Err(Error::new("copy", source, Reason::NotRegular { kind }))
            }
            EntryKind::Directory => self.copy_tree(source, destination, metadata),
            _ => self.copy_single(source, destination, &metadata),
        };
        if let Err(error) = copied {
            self.tally.fail(source, destination, kind, error);
        }
    }

    /// Copies a root that is no directory. As by `cp`, a file is written through a link.
    fn copy_single(
        &mut self,
        source: &Path,
        destination: &Path,
        metadata: &Metadata,
    ) -> Result<()> {
        let fail = |error| other_system::refused_by_destination("examine", destination, error);
        check_name(self.calls.system(), "write to", destination)?;
        let copy = &self.options.copy;
        let follows = kind_of(metadata) == EntryKind::File
            && copy.existing != Existing::Keep
            && !copy.replaces_name();
        let link = look(destination).map_err(fail)?.filter(|found| follows && found.is_symlink());
        let target = match link {
            Some(_) => match fs::canonicalize(destination) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let reason = Reason::Refused(Objection::LinkToNothing);
                    return Err(Error::new("write to", destination, reason));
                }
                target => Some(target.map_err(fail)?),
            },
            None => None,
        };
        let root = self.names.add_root(destination);
        let actual = target.unwrap_or_else(|| destination.to_owned());
        self.names.move_root(root, Some(actual.clone()));
        let (source, named) = (source.to_owned(), destination.to_owned());
        let place = Place { source, named, actual, root, within: Within::default() };
        self.journal = self.journal_of_single(&place, metadata)?;
        let copied = self.copy_entry(&place, metadata, None);
        let Some(mut journal) = self.journal.take() else { return copied };
        if copied.is_err() && journal.has_chunks() {
            // Another run goes on within the file.
            return copied;
        }
        part::sweep(self.calls, &mut journal, &place.actual);
        // If it is not noted, the next run copies it again.
        let _ = journal.flush(self.calls);
        match &copied {
            Ok(()) => self.ended.push(journal),
            Err(_) => journal.remove(self.calls),
        }
        copied
    }

    /// Opens the journal of a large file that the caller named, and begins it if it is new.
    fn journal_of_single(&self, place: &Place, metadata: &Metadata) -> Result<Option<Journal>> {
        if kind_of(metadata) != EntryKind::File || metadata.len() < self.sizes.min_file_bytes {
            return Ok(None);
        }
        let identity = identify(self.calls, &place.source, true, metadata).identity;
        let opened = self.open_journal(&place.source, &place.actual, &identity)?;
        let Some((mut journal, fingerprint)) = opened else { return Ok(None) };
        if journal.begun().is_none() {
            let begun = begin(self.calls, &mut journal, fingerprint, None);
            begun.map_err(|error| unwritten(&place.named, error))?;
        }
        Ok(Some(journal))
    }

    fn copy_tree(&mut self, source: &Path, destination: &Path, metadata: Metadata) -> Result<()> {
        let identity = identify(self.calls, source, true, &metadata).identity;
        let target = self.open_target(source, destination, &metadata, &identity)?;
        let Target { actual, within, modes, is_aside, journal } = target;
        self.journal = journal;
        let root = self.names.add_root(destination);
        self.names.move_root(root, Some(actual.clone()));
        let done_before = self.tally.done_entries();
        if is_aside {
            self.tally.begin_tree();
        }
        let (source_path, named) = (source.to_owned(), destination.to_owned());
        let place = Place { source: source_path, named, actual: actual.clone(), root, within };
        let (is_left_out, taken, left) = (false, HashSet::new(), Vec::new());
        let (way, copy) = (PathBuf::new(), self.identify_copy(&place, !is_aside));
        let directory = Directory {
            place,
            way,
            identity,
            copy,
            metadata,
            within,
            modes,
            is_left_out,
            taken,
            left,
        };
        let done = self.walk(directory);
        let ended = match &done {
            Some(done) => self.end_root(done, is_aside),
            None => Ok(Vec::new()),
        };
        let journal = self.journal.take();
        let is_left = done.is_none() || ended.is_err();
        if is_left && (is_aside || journal.is_some()) {
            // Whether the error ends the job decides what becomes of the tree.
            if let Err(error) = ended {
                self.tally.fail(source, destination, EntryKind::Directory, error);
            }
            let entries = self.tally.done_entries().saturating_sub(done_before);
            let left = Left { root, actual, is_aside, journal, entries };
            return self.leave(source, destination, left);
        }
        let notes = ended?;
        if let Some(done) = done {
            let mut outcome = outcome_of(&done, notes);
            if let Some(mut journal) = journal {
                part::sweep(self.calls, &mut journal, destination);
                // If the last files are not noted, the next run copies them again.
                let _ = journal.flush(self.calls);
                if journal.was_cut
                    && let EntryOutcome::Made { notes, .. } = &mut outcome
                {
                    notes.push(Note::JournalCut);
                }
                self.ended.push(journal);
            }
            if is_aside && self.options.copy.durable {
                // It has its name anyway.
                let flushed = self.calls.flush_directory(directory_of(destination), None);
                flushed.map_err(|error| {
                    let operation = "flush the directory of";
                    other_system::refused_by_destination(operation, destination, error)
                })?;
            }
            self.tally.finish(source, destination, EntryKind::Directory, outcome);
        }
        Ok(())
    }

    /// Removes what was made of a tree that did not get its name, or keeps it for a run that goes on with it.
    fn leave(&mut self, source: &Path, destination: &Path, left: Left) -> Result<()> {
        let Left { root, actual, is_aside, journal, entries } = left;
        let has_journal = journal.is_some();
        let noted = journal.map_or(Ok(()), |mut journal| journal.flush(self.calls));
        if is_aside && self.tally.keeps_incomplete() {
            let kept = incomplete(source, destination, actual, entries, has_journal);
            self.tally.keep(kept);
        } else if is_aside && !has_journal {
            remove_tree(self.calls, &actual);
            self.names.move_root(root, None);
            self.tally.discard_tree(source, destination);
        }
        match noted {
            // Whatever ended the job was reported.
            Err(_) if self.tally.is_over() => Ok(()),
            noted => noted.map_err(|error| unwritten(destination, error)),
        }
    }

    /// Opens the journal of a destination, if the job has journals.
    fn open_journal(
        &self,
        source: &Path,
        destination: &Path,
        identity: &Identity,
    ) -> Result<Option<(Journal, Short)>> {
        if !self.options.resume || self.options.dry_run {
            return Ok(None);
        }
        let fingerprint = fingerprint(self.options, source, identity.number());
        let journal = Journal::open(self.calls, destination, fingerprint)?;
        Ok(Some((journal, fingerprint)))
    }

    /// Returns the tree that an earlier run began beside the destination, if it is there.
    fn find_begun(&self, destination: &Path, built: &Built) -> Result<Option<PathBuf>> {
        let foreign = || {
            let journal = journal_path(destination).unwrap_or_default();
            let reason = Reason::Refused(Objection::JournalForeign { journal });
            Err(Error::new("resume the copy to", destination, reason))
        };
        if !is_tree_name(&built.name) {
            return foreign();
        }
        let path = directory_of(destination).join(&built.name);
        let found = look(&path)
            .map_err(|error| other_system::refused_by_destination("examine", &path, error))?;
        match found {
            Some(found) if is_built(self.calls, built, &path, &found) => {
                if self.calls.is_own(&found) { Ok(Some(path)) } else { foreign() }
            }
            // Another file has its name, so the unfinished tree is gone.
            _ => Ok(None),
        }
    }

    /// Finds the destination of a directory, or makes a temporary one beside it.
    fn open_target(
        &mut self,
        source: &Path,
        destination: &Path,
        metadata: &Metadata,
        identity: &Identity,
    ) -> Result<Target> {
        let fail = |error| other_system::refused_by_destination("write to", destination, error);
        let refuse = |why| Err(Error::new("write to", destination, Reason::Refused(why)));
        check_name(self.calls.system(), "write to", destination)?;
        let mut within = Within { is_whole: true, ..Within::default() };
        if self.options.destination_links == DestinationLinks::Refuse
            && !names_directory(destination)
            && look(destination).map_err(fail)?.is_some_and(|found| found.is_symlink())
        {
            return refuse(Objection::LinkForDirectory);
        }
        match fs::metadata(destination) {
            Ok(found) if found.is_dir() => {
                self.check_outside(source, destination, destination, identity)?;
                let found = identify(self.calls, destination, true, &found).identity;
                self.destinations.push(found);
                let journal = self.journal_of_existing(source, destination, identity)?;
                let (actual, is_aside) = (destination.to_owned(), false);
                let modes = Modes::default();
                return Ok(Target { actual, within, modes, is_aside, journal });
            }
            Ok(_) => return refuse(Objection::NotDirectory),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            Err(_) => {}
        }
        if look(destination).map_err(fail)?.is_some() {
            return refuse(Objection::RootLinkToNothing);
        }
        // A slash at its end would make the temporary name one inside it.
        let destination: PathBuf = destination.components().collect();
        let above = directory_of(&destination);
        self.check_outside(source, &destination, above, identity)?;
        if self.options.dry_run {
            within.is_absent = true;
            return Ok(Target {
                actual: destination,
                within,
                modes: Modes::default(),
                is_aside: false,
                journal: None,
            });
        }
        let mut journal = self.open_journal(source, &destination, identity)?;
        let begun = journal.as_ref().and_then(|(journal, _)| journal.begun()?.aside.clone());
        let begun = begun.map(|built| self.find_begun(&destination, &built)).transpose()?.flatten();
        let calls = self.calls;
        if let Some(actual) = begun {
            within.is_private = true;
            // It may have its last mode already.
            let found = fs::symlink_metadata(&actual).map_err(fail)?;
            let private = native_trees::mode(&found) & 0o7000 | PRIVATE;
            calls.set_mode(&actual, private).map_err(fail)?;
            let modes = self.modes_of_new(&actual, metadata).map_err(fail)?;
            self.add_destination(&actual);
            let journal = journal.map(|(journal, _)| journal);
            return Ok(Target { actual, within, modes, is_aside: true, journal });
        }
        let actual = make_beside(&destination, "tree", |new| calls.make_directory(new, PRIVATE));
        let actual = actual.map_err(|error| {
            other_system::refused_by_destination("make a directory in", above, error)
        })?;
        (within.is_fresh, within.is_private) = (true, true);
        let begun = self.modes_of_new(&actual, metadata).map_err(fail).and_then(|modes| {
            if let Some((journal, fingerprint)) = &mut journal {
                let begun = begin(calls, journal, *fingerprint, Some(&actual));
                begun.map_err(|error| unwritten(&destination, error))?;
            }
            Ok(modes)
        });
        let modes = match begun {
            Ok(modes) => modes,
            Err(error) => {
                remove_tree(calls, &actual);
                return Err(error);
            }
        };
        self.add_destination(&actual);
        let journal = journal.map(|(journal, _)| journal);
        Ok(Target { actual, within, modes, is_aside: true, journal })
    }

    /// Opens the journal of a directory that exists, and begins it if it is new.
    fn journal_of_existing(
        &self,
        source: &Path,
        destination: &Path,
        identity: &Identity,
    ) -> Result<Option<Journal>> {
        let path = fs::canonicalize(destination)
            .map_err(|error| other_system::refused_by_destination("examine", destination, error))?;
        let Some((mut journal, fingerprint)) = self.open_journal(source, &path, identity)? else {
            return Ok(None);
        };
        let begun = journal.begun().and_then(|begun| begun.aside.clone());
        let aside = begun.map(|built| self.find_begun(&path, &built)).transpose()?.flatten();
        if let Some(aside) = &aside {
            // The destination appeared meanwhile, and nothing would name this tree any more.
            remove_tree(self.calls, aside);
        }
        if journal.begun().is_none() || aside.is_some() {
            let begun = begin(self.calls, &mut journal, fingerprint, None);
            begun.map_err(|error| unwritten(destination, error))?;
        }
        Ok(Some(journal))
    }

    fn add_destination(&mut self, path: &Path) {
        if let Ok(found) = fs::symlink_metadata(path) {
            self.destinations.push(identify(self.calls, path, false, &found).identity);
        }
    }

    /// Returns the modes of a new tree. To learn what a directory of the source's mode gets here, one is made where nobody
    /// sees it.
    fn modes_of_new(&self, private: &Path, source: &Metadata) -> io::Result<Modes> {
        let first = native_trees::mode(&fs::symlink_metadata(private)?);
        let wanted = native_trees::mode(source) & 0o777;
        if first & 0o777 == 0 || wanted == PRIVATE {
            return Ok(Modes { first, last: first });
        }
        // A tree that an earlier run began may hold an entry of any name.
        let trial = make_beside(&private.join("mode"), "tmp", |trial| {
            self.calls.make_directory(trial, wanted)
        })?;
        let made = native_trees::mode(&fs::symlink_metadata(&trial)?);
        self.calls.remove_directory(&trial)?;
        Ok(Modes { first, last: first & 0o7000 | made & 0o777 })
    }

    /// Refuses a destination in the source. `existing`: the directory that is there already.
    fn check_outside(
        &self,
        source: &Path,
        destination: &Path,
        existing: &Path,
        identity: &Identity,
    ) -> Result<()> {
        let fail = |error| {
            let operation = "examine the directories above";
            other_system::refused_by_destination(operation, destination, error)
        };
        let existing = fs::canonicalize(existing).map_err(fail)?;
        for above in existing.ancestors() {
            let metadata = fs::metadata(above).map_err(fail)?;
            if identify(self.calls, above, true, &metadata).identity == *identity {
                let tree = source.to_owned();
                let reason = Reason::Refused(Objection::InsideSource { tree });
                return Err(Error::new("copy to", destination, reason));
            }
        }
        Ok(())
    }

    /// Finishes a root whose entries are done, and gives it its name. Returns what it could not be given.
    fn end_root(&mut self, root: &Directory, is_aside: bool) -> Result<Vec<Note>> {
        let named = &root.place.named;
        let mut notes = self.give(root, is_aside)?;
        if is_aside {
            if let Some(journal) = &mut self.journal {
                // Else another run would copy into the tree that has this name.
                journal.flush(self.calls).map_err(|error| unwritten(named, error))?;
            }
            let fail = |error| other_system::refused_by_destination("put in place", named, error);
            // A rename may replace an empty directory; nothing else is lost where one appears right now.
            if look(named).map_err(fail)?.is_some() {
                let reason = Reason::Refused(Objection::RootReplaced);
                return Err(Error::new("put in place", named, reason));
            }
            self.calls.rename_entry(&root.place.actual, named).map_err(fail)?;
            self.names.move_root(root.place.root, Some(named.clone()));
            if self.options.copy.preserve.acl {
                self.give_acl(root, named, &mut notes);
            }
        }
        Ok(notes)
    }
}

/// A tree that did not get its name.
struct Left {
    root: usize,
    actual: PathBuf,
    is_aside: bool,
    journal: Option<Journal>,
    /// Number of entries in it.
    entries: u64,
}

/// Begins a journal. `aside`: the new tree, if there is one.
fn begin(
    calls: &dyn TreeCalls,
    journal: &mut Journal,
    fingerprint: Short,
    aside: Option<&Path>,
) -> io::Result<()> {
    let built = |path: &Path| {
        let id = file_id(calls, path, false, &fs::symlink_metadata(path)?)?;
        Ok::<_, io::Error>(Built { name: path.file_name().unwrap_or_default().to_owned(), id })
    };
    let aside = aside.map(built).transpose()?;
    journal.begin(calls, Begun { fingerprint, aside })
}

fn unwritten(destination: &Path, error: io::Error) -> Error {
    other_system::refused_by_destination("write the journal for", destination, error)
}

/// Whether the destination is the tree that an earlier run of this job has made; see [`crate::job::is_built`].
pub(super) fn is_tree_built(
    calls: &dyn TreeCalls,
    source: &Path,
    destination: &Path,
    options: &JobOptions,
) -> bool {
    let look = || {
        let from = fs::metadata(source).ok()?;
        let path = fs::canonicalize(destination).ok()?;
        let found = fs::symlink_metadata(&path).ok()?;
        let begun = Journal::peek(calls, &path)?;
        let number = identify(calls, source, true, &from).identity.number();
        let is_same = begun.fingerprint == fingerprint(options, source, number);
        Some(is_same && is_built(calls, &begun.aside?, &path, &found))
    };
    options.resume && look().unwrap_or(false)
}

/// Whether a path can only mean a directory: it ends in a separator, `.` or `..`.
fn names_directory(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let text = text.strip_suffix('.').unwrap_or(&text);
    path.file_name().is_none() || text.ends_with(std::path::is_separator)
}
