//! Goes through the directories of a tree: each is made before its entries, and finished after them.
//!
//! The directories that are open lie in a list and not on the stack, so that trees may be as deep as paths may be
//! long.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::Job;
use super::place::{Place, Within, kind_of, look, name_taken, side_of};
use super::remove::{remove_entry, remove_tree};
use crate::jobs::{Action, Decision, EntryKind, EntryOutcome, Links, Policy, decide};
use crate::ledger_name::is_ledger;
use crate::portable::attributes::{self, Before};
use crate::portable::check_name;
use crate::portable::identity::{Identified, Identity, identify};
use crate::portable::metadata::{self, give_owner, not_kept};
use crate::{native, native_trees};
use uncopy_core::{Error, InodeFlags, MetadataPart, Note, Objection, Reason, Result, other_system};

/// Permissions that a directory needs while it is filled.
const FILLABLE: u32 = 0o700;
const SETUID_SETGID: u32 = 0o6000;

/// A directory, and its copy.
pub(super) struct Directory {
    pub(super) place: Place,
    /// Path from the root, with slashes on every system: what a selection matches.
    pub(super) way: PathBuf,
    pub(super) identity: Identity,
    /// Identity of the copy, if it is known.
    pub(super) copy: Option<Identity>,
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
                    !is_ledger(name, *is_directory)
                        && (selection.is_everything()
                            || selection.selects(&below(way, name), *is_directory))
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
                let kind = crate::native::kind(&metadata);
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
        // The source of the tree, which would change before or behind its turn.
        let root = open.first().map(|root| root.identity.clone());
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
                let decision = decide(sides.0, sides.1, policy);
                if let Decision::Refuse(why) = decision {
                    return Err(Error::new("write to", &place.named, Reason::Refused(why)));
                }
                if root.is_some_and(|root| root == found.identity) {
                    let reason = Reason::Refused(Objection::HoldsSource);
                    return Err(Error::new("write to", &place.named, reason));
                }
                if above.as_ref().is_some_and(|above| above.taken.contains(&found.identity)) {
                    return Err(name_taken(place));
                }
                within.is_fresh = decision == Decision::MakeRoom;
                if within.is_fresh {
                    // An earlier run copied a file that is a directory now.
                    remove_entry(self.calls, &place.actual);
                    modes = self.make_directory(place, &metadata)?;
                } else if within.is_private {
                    // An earlier run made it.
                    modes = self.modes_of_begun(place, &metadata, &found.metadata)?;
                }
            }
        }
        let is_left_out = above.as_ref().is_some_and(|above| {
            self.options.one_filesystem && identity.is_elsewhere(&above.identity)
        });
        if let Some(above) = above {
            self.note_taken(above, place, None);
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
            copy: self.identify_copy(place, false),
            metadata,
            within,
            modes,
            is_left_out,
            taken: HashSet::new(),
            left: Vec::new(),
        })
    }

    /// Remembers an entry of an existing directory that this job has made or gone into: under another spelling it would
    /// be found again. One that was there `before` is not remembered: it may have several names.
    pub(super) fn note_taken(
        &self,
        above: &mut Directory,
        place: &Place,
        before: Option<&Identity>,
    ) {
        if above.within.is_fresh || above.within.is_absent {
            return;
        }
        if let Ok(Some(metadata)) = look(&place.actual) {
            let made = identify(self.calls, &place.actual, false, &metadata);
            if before != Some(&made.identity) {
                above.taken.insert(made.identity);
            }
        }
    }

    /// Identifies the copy of a directory if it is to be opened later. A link is followed if the caller named it.
    pub(super) fn identify_copy(&self, place: &Place, follows: bool) -> Option<Identity> {
        let (copy, preserve) = (&self.options.copy, self.options.copy.preserve);
        if !(preserve.ownership || preserve.xattr || preserve.acl || copy.owner.is_some()) {
            return None;
        }
        let path = &place.actual;
        let found = if follows { fs::metadata(path) } else { fs::symlink_metadata(path) };
        Some(identify(self.calls, path, follows, &found.ok()?).identity)
    }

    /// Makes a directory that can be filled.
    fn make_directory(&self, place: &Place, source: &Metadata) -> Result<Modes> {
        // Others may have less in the end.
        let mode = match self.options.copy.given().has_mode() {
            true => FILLABLE,
            false => native_trees::mode(source) & 0o777 | FILLABLE,
        };
        let made = self.calls.make_directory(&place.actual, mode).and_then(|()| {
            let made = fs::symlink_metadata(&place.actual)?;
            Ok(self.modes_of_made(place, source, native_trees::mode(&made)))
        });
        made.map_err(|error| {
            other_system::refused_by_destination("make the directory", &place.named, error)
        })
    }

    /// Returns the modes of a directory that this job or an earlier run of it made, and that is filled with the mode
    /// `first`.
    fn modes_of_made(&self, place: &Place, source: &Metadata, first: u32) -> Modes {
        let source = native_trees::mode(source);
        let copy = &self.options.copy;
        let last = match copy.given().has_mode() {
            true if copy.preserve.mode => first,
            true => first & !0o777 | source & 0o777 & !self.umask(&place.actual),
            false => first & !(FILLABLE & !source),
        };
        Modes { first, last }
    }

    /// Returns the umask, which is seen at a file that is made in the copy of a directory. Where none can be made, it leaves
    /// all to the owner.
    pub(super) fn umask(&self, directory: &Path) -> u32 {
        if let Some(umask) = self.umask.get() {
            return *umask;
        }
        match metadata::umask(self.calls, &directory.join("umask")) {
            Ok(umask) => *self.umask.get_or_init(|| umask),
            Err(_) => metadata::OWNER_ALONE,
        }
    }

    /// Has a directory that an earlier run made be one that can be filled.
    fn modes_of_begun(&self, place: &Place, source: &Metadata, found: &Metadata) -> Result<Modes> {
        let mode = native_trees::mode(found);
        let first = mode | FILLABLE;
        if first != mode {
            self.calls.set_mode(&place.actual, first).map_err(|error| {
                other_system::refused_by_destination("set the mode of", &place.named, error)
            })?;
        }
        Ok(self.modes_of_made(place, source, first))
    }

    /// Removes what an earlier run left in a tree that it made and the source does not have: temporary files, and
    /// copies of what is gone since.
    fn sweep(&self, directory: &Directory) {
        let Directory { place, within, .. } = directory;
        if !within.is_private || within.is_fresh || within.is_absent {
            return;
        }
        for (name, is_directory) in self.calls.list(&place.actual).unwrap_or_default() {
            let is_gone = matches!(look(&place.source.join(&name)), Ok(None));
            match (is_gone, is_directory) {
                (false, _) => {}
                (true, true) => remove_tree(self.calls, &place.actual.join(&name)),
                (true, false) => remove_entry(self.calls, &place.actual.join(&name)),
            }
        }
    }

    /// Finishes a directory whose entries are done.
    fn finish(&mut self, directory: &Directory) {
        let Place { source, named, .. } = &directory.place;
        match self.give(directory, false) {
            Ok(notes) => {
                let outcome = outcome_of(directory, notes);
                self.tally.finish(source, named, EntryKind::Directory, outcome);
            }
            Err(error) => self.tally.fail(source, named, EntryKind::Directory, error),
        }
    }

    /// Gives a directory its owner, mode and times, and flushes it, as far as that is wanted. Returns what it could not
    /// be given. With `is_renamed` it gets another name, which an ACL could forbid: that comes later.
    pub(super) fn give(&self, directory: &Directory, is_renamed: bool) -> Result<Vec<Note>> {
        let Directory { place, metadata, within, modes, .. } = directory;
        if within.is_absent || self.options.dry_run {
            return Ok(Vec::new());
        }
        self.sweep(directory);
        let copy = &self.options.copy;
        let fail =
            |operation, error| other_system::refused_by_destination(operation, &place.named, error);
        let mut notes = Vec::new();
        if copy.preserve.ownership || copy.preserve.xattr || copy.owner.is_some() {
            self.give_to_open(directory, &mut notes)?;
        }
        if copy.preserve.acl && !is_renamed {
            self.give_acl(directory, &place.actual, &mut notes);
        }
        // The umask is found out before the times are set.
        let before = match &copy.mode_changes {
            Some(changes) => {
                let now = fs::metadata(&place.actual).map_err(|error| fail("examine", error))?;
                Some((changes, native_trees::mode(&now), self.umask(&place.actual)))
            }
            None => None,
        };
        self.give_attributes(directory, &mut notes).map_err(|error| fail("examine", error))?;
        if copy.preserve.timestamps {
            let given = self.calls.set_directory_times(&place.actual, metadata);
            given.map_err(|error| fail("set the times of", error))?;
        }
        let mode = match copy.preserve.mode {
            true => Some(mode_of_source(metadata, &place.actual, &mut notes)),
            // Those of a directory that was there before are equal.
            false => (modes.first != modes.last).then_some(modes.last),
        };
        let mode = match before {
            Some((changes, now, umask)) => Some(changes.apply(mode.unwrap_or(now), true, umask)),
            None => mode,
        };
        if copy.durable {
            let flushed = self.calls.flush_directory(&place.actual, mode);
            flushed.map_err(|error| fail("flush", error))?;
        } else if let Some(mode) = mode {
            let given = self.calls.set_mode(&place.actual, mode);
            given.map_err(|error| fail("set the mode of", error))?;
        }
        Ok(notes)
    }

    /// Gives a directory what is given to an open one, so that no other that got its name meanwhile gets it: owner and
    /// attributes.
    fn give_to_open(&self, directory: &Directory, notes: &mut Vec<Note>) -> Result<()> {
        let Directory { place, metadata, .. } = directory;
        let (calls, copy) = (self.calls, &self.options.copy);
        let fail =
            |operation, error| other_system::refused_by_destination(operation, &place.named, error);
        let (opened, now) = self.open_copy(directory, &place.actual)?;
        let wanted = copy.preserve.ownership.then_some(metadata);
        let given =
            give_owner(copy, wanted, &now, |user, group| calls.set_owner(&opened, user, group));
        let given = given.map_err(|error| fail("set the owner of", error))?;
        notes.extend(given.map(|(what, error)| not_kept(what, error)));
        if copy.preserve.xattr {
            let source = calls.open_directory(&place.source);
            let given = source.and_then(|source| calls.copy_attributes(&source, &opened));
            notes.extend(given.err().map(|error| not_kept(MetadataPart::Attributes, error)));
        }
        Ok(())
    }

    /// Gives a directory the attributes that it has in place of a mode, where it has some.
    fn give_attributes(&self, directory: &Directory, notes: &mut Vec<Note>) -> io::Result<()> {
        let Directory { place, metadata, within, .. } = directory;
        let Some(of_source) = self.calls.attributes(metadata) else { return Ok(()) };
        let is_made = within.is_fresh || within.is_private;
        let before = if is_made { Before::NewDirectory } else { Before::Itself };
        let now = self.calls.attributes(&fs::metadata(&place.actual)?).unwrap_or_default();
        let preserves = self.options.copy.preserve.mode;
        if let Some(wanted) = attributes::wanted(of_source, now, before, preserves)
            && let Err(error) = self.calls.set_directory_attributes(&place.actual, wanted)
        {
            notes.push(not_kept(MetadataPart::FileAttributes, error));
        }
        Ok(())
    }

    /// Gives a directory, which is at this path now, the access control list of its source.
    pub(super) fn give_acl(&self, directory: &Directory, path: &Path, notes: &mut Vec<Note>) {
        let opened = self.open_copy(directory, path).map_err(io::Error::from);
        let given = opened.and_then(|(opened, _)| {
            let source = self.calls.open_directory(&directory.place.source)?;
            self.calls.copy_acl(&source, &opened)?;
            // Under its first name it is flushed with everything else.
            match self.options.copy.durable && path != directory.place.actual {
                true => self.calls.flush(&opened),
                false => Ok(()),
            }
        });
        notes.extend(given.err().map(|error| not_kept(MetadataPart::Acl, error)));
    }

    /// Opens the copy of a directory at this path, and nothing that took its place.
    fn open_copy(&self, directory: &Directory, path: &Path) -> Result<(File, Metadata)> {
        let named = &directory.place.named;
        let fail = |operation, error| other_system::refused_by_destination(operation, named, error);
        let opened = self.calls.open_directory(path).map_err(|error| fail("open", error))?;
        let now = opened.metadata().map_err(|error| fail("examine", error))?;
        match native::identity(&now) {
            Some((volume, number)) if directory.copy != Some(Identity::Numbers(volume, number)) => {
                let reason = Reason::Refused(Objection::DirectoryReplaced);
                Err(Error::new("go on in", named, reason))
            }
            _ => Ok((opened, now)),
        }
    }
}

/// Returns the mode of the source, without setuid and setgid if the owner of the copy, which has this path, is another.
pub(super) fn mode_of_source(source: &Metadata, copy: &Path, notes: &mut Vec<Note>) -> u32 {
    let mode = native_trees::mode(source);
    let owner = native::owner(source);
    let is_owned = fs::metadata(copy).is_ok_and(|copy| native::owner(&copy) == owner);
    if mode & SETUID_SETGID == 0 || is_owned {
        return mode;
    }
    notes.push(Note::SetuidDropped);
    mode & !SETUID_SETGID
}

/// Returns the outcome of a directory that is done.
pub(super) fn outcome_of(directory: &Directory, notes: Vec<Note>) -> EntryOutcome {
    match directory.within.is_absent {
        true => EntryOutcome::Planned { action: Action::Make, mechanism: None },
        false => EntryOutcome::Made { notes, flags_not_kept: InodeFlags::default() },
    }
}
