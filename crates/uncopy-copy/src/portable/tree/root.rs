//! Copies the roots of a job, which the caller named. A directory without an existing destination is built under a
//! temporary name beside it and renamed once, so that it appears when it is complete.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::Job;
use super::calls::TreeCalls;
use super::entry::{make_beside, remove_entry};
use super::identity::{Identity, identify};
use super::place::{Place, Within, kind_of, look};
use super::tally::incomplete;
use super::walk::{Directory, Modes, outcome_of};
use crate::Existing;
use crate::jobs::{EntryKind, Links, Sources};
use crate::native_trees;
use crate::portable::check_name;
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
            EntryKind::Directory | EntryKind::Special if options.sources == Sources::Entries => {
                let kind = crate::native::kind(&metadata).unwrap_or("no regular file");
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
        self.copy_entry(&place, metadata, None)
    }

    fn copy_tree(&mut self, source: &Path, destination: &Path, metadata: Metadata) -> Result<()> {
        let identity = identify(self.calls, source, true, &metadata).identity;
        let target = self.open_target(source, destination, &metadata, &identity)?;
        let Target { actual, within, modes, is_aside } = target;
        let root = self.names.add_root(destination);
        self.names.move_root(root, Some(actual.clone()));
        let done_before = self.tally.done_entries();
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
        if is_aside && (done.is_none() || ended.is_err()) {
            // Whether the error ends the job decides what becomes of the tree.
            if let Err(error) = ended {
                self.tally.fail(source, destination, EntryKind::Directory, error);
            }
            if self.tally.keeps_incomplete() {
                let entries = self.tally.done_entries().saturating_sub(done_before);
                self.tally.keep(incomplete(source, destination, actual, entries));
            } else {
                remove_tree(self.calls, &actual);
                self.names.move_root(root, None);
            }
            return Ok(());
        }
        let notes = ended?;
        if let Some(done) = done {
            if is_aside && self.options.copy.durable {
                // It has its name anyway.
                let flushed = self.calls.flush_directory(directory_of(destination), None);
                flushed.map_err(|error| {
                    let operation = "flush the directory of";
                    other_system::refused_by_destination(operation, destination, error)
                })?;
            }
            self.tally.finish(source, destination, EntryKind::Directory, outcome_of(&done, notes));
        }
        Ok(())
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
        match fs::metadata(destination) {
            Ok(found) if found.is_dir() => {
                self.check_outside(source, destination, destination, identity)?;
                let found = identify(self.calls, destination, true, &found).identity;
                self.destinations.push(found);
                let (actual, is_aside) = (destination.to_owned(), false);
                return Ok(Target { actual, within, modes: Modes::default(), is_aside });
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
            });
        }
        let calls = self.calls;
        let actual = make_beside(&destination, "tree", |new| calls.make_directory(new, PRIVATE));
        let actual = actual.map_err(|error| {
            other_system::refused_by_destination("make a directory in", above, error)
        })?;
        (within.is_fresh, within.is_private) = (true, true);
        let modes = match self.modes_of_new(&actual, metadata) {
            Ok(modes) => modes,
            Err(error) => {
                remove_tree(calls, &actual);
                return Err(fail(error));
            }
        };
        if let Ok(made) = fs::symlink_metadata(&actual) {
            self.destinations.push(identify(calls, &actual, false, &made).identity);
        }
        Ok(Target { actual, within, modes, is_aside: true })
    }

    /// Returns the modes of a new tree. To learn what a directory of the source's mode gets here, one is made where nobody
    /// sees it.
    fn modes_of_new(&self, private: &Path, source: &Metadata) -> io::Result<Modes> {
        let first = native_trees::mode(&fs::symlink_metadata(private)?);
        let wanted = native_trees::mode(source) & 0o777;
        if first & 0o777 == 0 || wanted == PRIVATE {
            return Ok(Modes { first, last: first });
        }
        let trial = private.join("mode");
        self.calls.make_directory(&trial, wanted)?;
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

/// Whether a path can only mean a directory: it ends in a separator, `.` or `..`.
fn names_directory(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let text = text.strip_suffix('.').unwrap_or(&text);
    path.file_name().is_none() || text.ends_with(std::path::is_separator)
}

/// Removes a tree that this job made, as far as possible, without following links.
fn remove_tree(calls: &dyn TreeCalls, root: &Path) {
    let mut open = vec![(root.to_owned(), false)];
    while let Some((path, is_listed)) = open.pop() {
        if is_listed {
            let _ = calls.remove_directory(&path);
            continue;
        }
        // A finished directory may have a mode that forbids emptying it.
        let _ = calls.set_mode(&path, PRIVATE);
        open.push((path.clone(), true));
        for (name, is_directory) in calls.list(&path).unwrap_or_default() {
            match is_directory {
                true => open.push((path.join(name), false)),
                false => remove_entry(calls, &path.join(name)),
            }
        }
    }
}
