//! Goes through the directories of a tree: each is made before its entries, and finished after them.
//!
//! The directories that are open lie in a list and not on the stack, so that trees may be as deep as paths may be
//! long.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use super::Job;
use super::identity::{Identified, Identity, identify};
use super::place::{Place, Within, kind_of, look, name_taken, side_of};
use crate::jobs::{Action, Decision, EntryKind, EntryOutcome, Links, Policy, decide};
use crate::native_trees;
use crate::portable::check_name;
use uncopy_core::{Error, InodeFlags, Objection, Reason, Result, other_system};

/// Permissions that a directory needs while it is filled.
const FILLABLE: u32 = 0o700;
const SETUID_SETGID: u32 = 0o6000;

/// A directory, and its copy.
pub(super) struct Directory {
    pub(super) place: Place,
    /// Path from the root, with slashes on every system: what a selection matches.
    pub(super) way: PathBuf,
    pub(super) identity: Identity,
    pub(super) metadata: Metadata,
    /// Facts for the entries.
    pub(super) within: Within,
    /// Modes of a copy that this job made.
    pub(super) modes: Modes,
    /// Whether its entries are left out.
    pub(super) is_left_out: bool,
    /// Entries that this job made in an existing directory.
    pub(super) taken: HashSet<Identity>,
    /// Names of entries that were not tried yet, the last one first.
    pub(super) left: Vec<OsString>,
}

/// Modes of a directory that was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Modes {
    /// While it is filled.
    pub(super) first: u32,
    /// Afterwards, unless that of the source is preserved.
    pub(super) last: u32,
}

/// Joins a path for a selection.
pub(super) fn below(way: &Path, name: &OsStr) -> PathBuf {
    let mut path = way.as_os_str().to_owned();
    if !path.is_empty() {
        path.push("/");
    }
    path.push(name);
    path.into()
}

impl Directory {
    fn place_of(&self, name: &OsStr) -> Place {
        Place {
            source: self.place.source.join(name),
            named: self.place.named.join(name),
            actual: self.place.actual.join(name),
            root: self.place.root,
            within: self.within,
        }
    }
}

impl Job<'_> {
    /// Copies the entries of a directory. Returns it when it is to be finished, and `None` if the job is over.
    pub(super) fn walk(&mut self, root: Directory) -> Option<Directory> {
        let mut open = vec![root];
        self.list(open.last_mut()?);
        loop {
            if self.tally.is_over() {
                let left = open.iter().map(|directory| directory.left.len() as u64).sum();
                self.tally.leave_out(left);
                return None;
            }
            if let Some(name) = open.last_mut()?.left.pop() {
                if let Some(mut entered) = self.visit(&mut open, &name) {
                    self.list(&mut entered);
                    open.push(entered);
                }
                continue;
            }
            let done = open.pop()?;
            if open.is_empty() {
                return Some(done);
            }
            self.finish(&done);
        }
    }

    /// Lists a directory; what the selection leaves out is not found.
    fn list(&mut self, directory: &mut Directory) {
        if directory.is_left_out {
            return;
        }
        let selection = &self.options.selection;
        match self.calls.list(&directory.place.source) {
            Ok(names) => {
                let way = &directory.way;
                let selected = names.into_iter().filter(|(name, is_directory)| {
                    selection.is_everything() || selection.selects(&below(way, name), *is_directory)
                });
                directory.left = selected.map(|(name, _)| name).collect();
                // The same order each time, by the bytes of the names.
                directory.left.sort_by(|one, other| other.cmp(one));
                self.tally.add_found(directory.left.len() as u64);
            }
            Err(error) => {
                let Place { source, named, .. } = &directory.place;
                let error = other_system::refused("list", source, error);
                self.tally.fail(source, named, EntryKind::Directory, error);
            }
        }
    }

    /// Copies an entry of the last directory. Returns it if it is a directory to go through.
    fn visit(&mut self, open: &mut [Directory], name: &OsStr) -> Option<Directory> {
        let above = open.last()?;
        let (place, way) = (above.place_of(name), below(&above.way, name));
        let looked = check_name(self.calls.system(), "copy", &place.source).and_then(|()| {
            fs::symlink_metadata(&place.source)
                .map_err(|error| other_system::refused("examine", &place.source, error))
        });
        let metadata = match looked {
            Ok(metadata) => metadata,
            Err(error) => {
                self.tally.fail(&place.source, &place.named, EntryKind::File, error);
                return None;
            }
        };
        let kind = kind_of(&metadata);
        let follows = kind == EntryKind::Symlink && self.options.links == Links::Follow;
        let target = match follows {
            true => self.follow(open, &place),
            false => Ok(metadata),
        };
        let entered = target.and_then(|metadata| match kind_of(&metadata) {
            EntryKind::Directory => self.enter(open, &place, way, metadata, follows).map(Some),
            _ => Ok(self.copy_entry(&place, &metadata, open.last_mut()).map(|()| None)?),
        });
        match entered {
            Ok(entered) => entered,
            Err(error) => {
                self.tally.fail(&place.source, &place.named, kind, error);
                None
            }
        }
    }

    /// Looks at what a link leads to. It must be in the tree, unless the options allow more.
    fn follow(&self, open: &[Directory], place: &Place) -> Result<Metadata> {
        let fail = |error| other_system::refused("follow", &place.source, error);
        let metadata = fs::metadata(&place.source).map_err(fail)?;
        if !self.options.follow_outside {
            let target = fs::read_link(&place.source).map_err(fail)?;
            let leads_to = fs::canonicalize(&place.source).map_err(fail)?;
            let root = open.first().map_or(place.source.as_path(), |root| &root.place.source);
            let root = fs::canonicalize(root).map_err(fail)?;
            if target.is_absolute() || target.has_root() || !leads_to.starts_with(root) {
                let reason = Reason::Refused(Objection::LeadsOutside);
                return Err(Error::new("follow", &place.source, reason));
            }
        }
        match kind_of(&metadata) {
            EntryKind::Special | EntryKind::Symlink => {
                let kind = crate::native::kind(&metadata).unwrap_or("no regular file");
                let reason = Reason::Refused(Objection::KindChanged { kind });
                Err(Error::new("copy", &place.source, reason))
            }
            EntryKind::File | EntryKind::Directory => Ok(metadata),
        }
    }

    /// Makes or finds the copy of a directory.
    fn enter(
        &mut self,
        open: &mut [Directory],
        place: &Place,
        way: PathBuf,
        metadata: Metadata,
        is_linked: bool,
    ) -> Result<Directory> {
        let Identified { identity, .. } = identify(self.calls, &place.source, is_linked, &metadata);
        let refuse = |why| Err(Error::new("copy", &place.source, Reason::Refused(why)));
        if self.destinations.contains(&identity) {
            return refuse(Objection::IsDestination);
        }
        if is_linked && open.iter().any(|directory| directory.identity == identity) {
            return refuse(Objection::EndlessLink);
        }
        let found = self.find(place)?;
        let above = open.last_mut();
        let mut within = place.within;
        let mut modes = Modes::default();
        match &found {
            None if self.options.dry_run => within.is_absent = true,
            None => {
                modes = self.make_directory(place, &metadata)?;
                within.is_fresh = true;
            }
            Some(found) => {
                let policy = Policy::of(self.options, within.is_private, within.is_whole);
                let sides = (side_of(&metadata), Some(side_of(&found.metadata)));
                if let Decision::Refuse(why) = decide(sides.0, sides.1, policy) {
                    return Err(Error::new("write to", &place.named, Reason::Refused(why)));
                }
                if above.as_ref().is_some_and(|above| above.taken.contains(&found.identity)) {
                    return Err(name_taken(place));
                }
                within.is_fresh = false;
            }
        }
        let is_left_out = above.as_ref().is_some_and(|above| {
            self.options.one_filesystem && identity.is_elsewhere(&above.identity)
        });
        if let Some(above) = above {
            self.note_taken(above, place);
        }
        Ok(Directory {
            place: Place {
                source: place.source.clone(),
                named: place.named.clone(),
                actual: place.actual.clone(),
                ..*place
            },
            way,
            identity,
            metadata,
            within,
            modes,
            is_left_out,
            taken: HashSet::new(),
            left: Vec::new(),
        })
    }

    /// Remembers an entry of an existing directory that this job has made or gone into: under another spelling it would
    /// be found again.
    pub(super) fn note_taken(&self, above: &mut Directory, place: &Place) {
        if above.within.is_fresh || above.within.is_absent {
            return;
        }
        if let Ok(Some(metadata)) = look(&place.actual) {
            let made = identify(self.calls, &place.actual, false, &metadata);
            above.taken.insert(made.identity);
        }
    }

    /// Makes a directory that can be filled.
    fn make_directory(&self, place: &Place, source: &Metadata) -> Result<Modes> {
        let source_mode = native_trees::mode(source);
        let mode = source_mode & 0o777 | FILLABLE;
        let made = self.calls.make_directory(&place.actual, mode).and_then(|()| {
            let made = fs::symlink_metadata(&place.actual)?;
            let first = native_trees::mode(&made);
            Ok(Modes { first, last: first & !(FILLABLE & !source_mode) })
        });
        made.map_err(|error| {
            other_system::refused_by_destination("make the directory", &place.named, error)
        })
    }

    /// Finishes a directory whose entries are done.
    fn finish(&mut self, directory: &Directory) {
        let Place { source, named, .. } = &directory.place;
        match self.give(directory) {
            Ok(()) => {
                let outcome = outcome_of(directory);
                self.tally.finish(source, named, EntryKind::Directory, outcome);
            }
            Err(error) => self.tally.fail(source, named, EntryKind::Directory, error),
        }
    }

    /// Gives a directory its mode and times, and flushes it, as far as that is wanted.
    pub(super) fn give(&self, directory: &Directory) -> Result<()> {
        let Directory { place, metadata, within, modes, .. } = directory;
        if within.is_absent || self.options.dry_run {
            return Ok(());
        }
        let copy = &self.options.copy;
        let fail =
            |operation, error| other_system::refused_by_destination(operation, &place.named, error);
        if copy.preserve.timestamps {
            let given = self.calls.set_directory_times(&place.actual, metadata);
            given.map_err(|error| fail("set the times of", error))?;
        }
        let mode = match copy.preserve.mode {
            // Setuid and setgid are for the owner and group of the source.
            true => Some(native_trees::mode(metadata) & !SETUID_SETGID),
            false => (within.is_fresh && modes.first != modes.last).then_some(modes.last),
        };
        if copy.durable {
            let flushed = self.calls.flush_directory(&place.actual, mode);
            flushed.map_err(|error| fail("flush", error))?;
        } else if let Some(mode) = mode {
            let given = self.calls.set_mode(&place.actual, mode);
            given.map_err(|error| fail("set the mode of", error))?;
        }
        Ok(())
    }
}

/// Returns the outcome of a directory that is done.
pub(super) fn outcome_of(directory: &Directory) -> EntryOutcome {
    match directory.within.is_absent {
        true => EntryOutcome::Planned { action: Action::Make, mechanism: None },
        false => EntryOutcome::Made { notes: Vec::new(), flags_not_kept: InodeFlags::default() },
    }
}
