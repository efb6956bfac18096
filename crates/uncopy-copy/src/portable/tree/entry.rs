//! Copies entries of a tree that are no directories.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::Job;
use super::calls::TreeCalls;
use super::identity::{Identified, identify};
use super::place::{Admission, Place, kind_of, name_taken, side_of};
use super::tally::FileProgress;
use super::walk::Directory;
use crate::context::CopyContext;
use crate::jobs::{EntryKind, EntryOutcome, HardLinks, Links, delay};
use crate::native_trees;
use crate::portable::{LinkAtEnd, copy_as};
use crate::{Existing, Outcome, Skip};
use uncopy_core::{Error, InodeFlags, Note, Objection, Reason, Result, System, other_system};

/// `ERROR_SHARING_VIOLATION` and `ERROR_LOCK_VIOLATION` (winerror.h): another program holds the file for now.
const HELD: [i32; 2] = [32, 33];

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
            EntryKind::Special => skipped(Skip::Special),
            _ => {
                let found = self.find(place)?;
                if let (Some(found), Some(above)) = (&found, &above)
                    && above.taken.contains(&found.identity)
                {
                    return Err(name_taken(place));
                }
                let found = found.map(|found| found.metadata);
                match self.admit(place, side_of(metadata), found.as_ref())? {
                    Admission::Done(outcome) => outcome,
                    Admission::Proceed { replaces } => {
                        let made = match kind {
                            EntryKind::Symlink => self.make_link(place, metadata, replaces),
                            _ => self.copy_or_link(place, metadata, replaces),
                        }?;
                        if let Some(above) = above {
                            self.note_taken(above, place);
                        }
                        made
                    }
                }
            }
        };
        self.tally.finish(&place.source, &place.named, kind, outcome);
        Ok(())
    }

    /// Copies a file, or makes its name another one of a file that was copied before.
    fn copy_or_link(
        &mut self,
        place: &Place,
        metadata: &Metadata,
        replaces: bool,
    ) -> Result<EntryOutcome> {
        let file = (self.options.hard_links == HardLinks::Keep)
            .then(|| identify(self.calls, &place.source, true, metadata))
            .filter(|file| file.names > 1);
        let mut refused = None;
        if let Some(Identified { identity, .. }) = &file
            && let Some(first) = self.names.find(identity)
        {
            let calls = self.calls;
            let make = |new: &Path| calls.make_name(&first.actual, new);
            match put(calls, &place.actual, replaces, make) {
                Ok(()) => return Ok(EntryOutcome::Linked { to: first.named }),
                Err(error) => refused = Some(Note::SeparateFile { error: error.into() }),
            }
        }
        match self.copy_file(place)? {
            Outcome::Skipped { reason, .. } => Ok(EntryOutcome::Skipped { reason }),
            Outcome::Copied(mut receipt) => {
                receipt.notes.extend(refused);
                if let Some(file) = file {
                    self.names.add(file, place.root, &place.named);
                }
                Ok(EntryOutcome::Copied(Box::new(receipt)))
            }
        }
    }

    /// Copies a file, and tries again as often as the options allow if an error may pass.
    fn copy_file(&mut self, place: &Place) -> Result<Outcome> {
        let options = &self.options.copy;
        let at_end = LinkAtEnd::Replaced;
        let (gate, throttle) = (self.options.gate.as_ref(), self.tally.throttle());
        let context = CopyContext { gate, throttle, ..CopyContext::new() };
        let mut tries = 0;
        loop {
            let mut progress = FileProgress::new(&mut self.tally);
            let (from, to) = (&place.source, &place.actual);
            let mut copied =
                copy_as(self.calls, from, to, options, &context, at_end, &mut progress);
            match &mut copied {
                Ok(Outcome::Copied(receipt)) => receipt.retries += tries,
                Err(error) if tries < self.options.retries && passes(self.calls, error) => {
                    tries += 1;
                    self.tally.wait(delay(tries));
                    if !self.tally.is_over() {
                        continue;
                    }
                }
                _ => {}
            }
            return copied.map_err(|error| self.as_named(place, error));
        }
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
        match put(self.calls, &place.actual, replaces, make) {
            Ok(()) => {
                Ok(EntryOutcome::Made { notes: Vec::new(), flags_not_kept: InodeFlags::default() })
            }
            // Another process made it in between.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && self.options.copy.existing == Existing::Keep =>
            {
                Ok(EntryOutcome::Skipped { reason: Skip::Exists })
            }
            Err(error) if is_without_right(self.calls, &error) => {
                let reason = Reason::Refused(Objection::LinksNeedRight);
                Err(Error::new("make the link", &place.named, reason))
            }
            Err(error) => {
                Err(other_system::refused_by_destination("make the link", &place.named, error))
            }
        }
    }
}

/// Makes an entry by `make`: at once where the name is free, and else under a temporary name, which replaces it.
fn put(
    calls: &dyn TreeCalls,
    path: &Path,
    replaces: bool,
    make: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    if !replaces {
        return make(path);
    }
    let temporary = make_beside(path, "tmp", make)?;
    let placed = calls.rename_entry(&temporary, path);
    if placed.is_err() {
        remove_entry(calls, &temporary);
    }
    placed
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

/// Removes a file or link, as far as possible. On Windows a link to a directory is removed as one.
pub(super) fn remove_entry(calls: &dyn TreeCalls, path: &Path) {
    if calls.remove(path).is_err() {
        let _ = calls.remove_directory(path);
    }
}

/// Whether an operation may succeed a little later.
fn passes(calls: &dyn TreeCalls, error: &Error) -> bool {
    let Reason::OtherSystem { error } = error.reason() else { return false };
    let error = error.get();
    let is_held = error.raw_os_error().is_some_and(|code| HELD.contains(&code));
    let passes = matches!(
        error.kind(),
        io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::StaleNetworkFileHandle
    );
    passes || (is_held && calls.system() == System::Windows)
}

fn is_without_right(calls: &dyn TreeCalls, error: &io::Error) -> bool {
    calls.system() == System::Windows && error.raw_os_error() == Some(NO_RIGHT)
}
