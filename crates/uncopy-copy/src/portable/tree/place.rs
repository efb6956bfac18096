//! Defines an entry of the source and the place of its copy, and looks at what is there.

use std::borrow::Cow;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Job;
use super::remove::remove_tree;
use crate::jobs::{Action, Compare};
use crate::jobs::{Decision, EntryKind, EntryOutcome, Policy, Side, decide};
use crate::portable::identity::{Identity, identify};
use crate::{Consent, CopyOptions, Skip};
use uncopy_core::other_system;
use uncopy_core::{Error, Objection, Reason, Result};

/// An entry, and where its copy goes.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) source: PathBuf,
    /// The copy's path, as the caller knows it.
    pub(super) named: PathBuf,
    /// The copy's path now: a new tree has a temporary name.
    pub(super) actual: PathBuf,
    pub(super) root: usize,
    pub(super) within: Within,
}

/// Facts about the directory of a copy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Within {
    /// Whether this job made it.
    pub(super) is_fresh: bool,
    /// Whether this is a dry run that would make it.
    pub(super) is_absent: bool,
    /// Whether it is in a tree that gets its name when it is complete.
    pub(super) is_private: bool,
    /// Whether the entry is one of a tree, and none that the caller named.
    pub(super) is_whole: bool,
}

/// An existing entry of the destination.
pub(super) struct Found {
    pub(super) metadata: Metadata,
    pub(super) identity: Identity,
}

/// Whether an entry is to be made.
pub(super) enum Admission {
    /// Make it; an existing entry is replaced.
    Proceed { replaces: bool },
    /// Nothing is to be done; this is reported.
    Done(EntryOutcome),
}

/// Returns the kind of an entry.
pub(super) fn kind_of(metadata: &Metadata) -> EntryKind {
    match metadata.file_type() {
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_symlink() => EntryKind::Symlink,
        kind if kind.is_file() => EntryKind::File,
        _ => EntryKind::Special,
    }
}

/// Returns what decides about an entry. A system without times of modification has none on both sides.
pub(super) fn side_of(metadata: &Metadata) -> Side<Option<SystemTime>> {
    Side { kind: kind_of(metadata), modified: metadata.modified().ok(), size: metadata.len() }
}

impl<'a> Job<'a> {
    /// Looks at the entry that has the name of a copy.
    pub(super) fn find(&self, place: &Place) -> Result<Option<Found>> {
        if place.within.is_absent {
            return Ok(None);
        }
        let Some(metadata) = look(&place.actual).map_err(|error| {
            other_system::refused_by_destination("examine", &place.named, error)
        })?
        else {
            return Ok(None);
        };
        if place.within.is_fresh {
            // This job made the directory, so the entry is of another name that the system takes for this one.
            return Err(name_taken(place));
        }
        let identity = identify(self.calls, &place.actual, false, &metadata).identity;
        Ok(Some(Found { metadata, identity }))
    }

    /// Decides about an entry that is no directory.
    pub(super) fn admit(
        &mut self,
        place: &Place,
        source: Side<Option<SystemTime>>,
        found: Option<&Metadata>,
    ) -> Result<Admission> {
        let mut policy = Policy::of(self.options, place.within.is_private, place.within.is_whole);
        if source.kind != EntryKind::File {
            policy.compare = Compare::Times;
        }
        let action = match decide(source, found.map(side_of), policy) {
            Decision::Skip(reason) => {
                return Ok(Admission::Done(EntryOutcome::Skipped { reason }));
            }
            Decision::Refuse(why) => {
                return Err(Error::new("replace", &place.named, Reason::Refused(why)));
            }
            Decision::Compare
                if let Some(found) = found
                    && self.has_same_contents(place, found)? =>
            {
                let reason = Skip::SameContents;
                return Ok(Admission::Done(EntryOutcome::Skipped { reason }));
            }
            Decision::MakeRoom => {
                // An earlier run made a directory of what is none now, in a tree of this job.
                remove_tree(self.calls, &place.actual);
                Action::Make
            }
            Decision::Make => Action::Make,
            Decision::Replace | Decision::Merge | Decision::Compare => Action::Replace,
        };
        if action == Action::Replace && self.asks(place) {
            match self.tally.may_replace(&place.named) {
                Consent::Given => {}
                Consent::Refused => {
                    let reason = Skip::Declined;
                    return Ok(Admission::Done(EntryOutcome::Skipped { reason }));
                }
                Consent::Stop => return Err(Error::new("copy", &place.source, Reason::Cancelled)),
            }
        }
        Ok(match self.options.dry_run {
            true => Admission::Done(EntryOutcome::Planned { action, mechanism: None }),
            false => Admission::Proceed { replaces: action == Action::Replace },
        })
    }

    /// Whether an existing entry is replaced with consent alone. In a dry run nothing is replaced.
    fn asks(&self, place: &Place) -> bool {
        self.options.copy.ask && !self.options.dry_run && !place.within.is_private
    }

    /// Returns the options for a copy whose name was taken or free when the observer could be asked.
    pub(super) fn options_for(&self, place: &Place, is_taken: bool) -> Cow<'a, CopyOptions> {
        let options = if place.within.is_private { self.inside } else { &self.options.copy };
        match options.ask {
            true => {
                let options = options.after_asking(is_taken).into_owned();
                Cow::Owned(CopyOptions { ask: false, ..options })
            }
            false => Cow::Borrowed(options),
        }
    }
}

/// Makes the error for an entry whose name another entry of this copy has.
pub(super) fn name_taken(place: &Place) -> Error {
    Error::new("make", &place.named, Reason::Refused(Objection::NameTaken))
}

/// Returns what has a name, which may be a link.
pub(super) fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
