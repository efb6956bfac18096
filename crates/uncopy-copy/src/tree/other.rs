//! Makes symbolic links, special files and hard links: under a temporary name where an entry is
//! replaced, and directly where the name is free.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};

use super::admission::{Admission, check_admission};
use super::as_copied::is_same_entry;
use super::backups::Backups;
use super::context::Context;
use super::decide::kind_of;
use super::delete::Deleter;
use super::directory::identity;
use super::linked_unchanged::{self, Unchanged};
use super::links::First;
use super::place::{Place, changed_kind};
use super::worker::Worker;
use crate::Owner;
use crate::Skip;
use crate::destination::ExistingEntry;
use crate::guard::{NotNamed, Replacing, not_free, take_free_name};
use crate::jobs::{Action, Decision, EntryKind, EntryOutcome};
use crate::metadata::{AttributeSource, NotGiven, Notes};
use crate::options::GivenMetadata;
use crate::source_directory::SourceDirectory;
use crate::stale::{self, Noted};
use crate::{CopyOptions, Existing, Preserve, backup, flush, metadata};
use uncopy_core::{Errno, Error, Result};
use uncopy_core::{InodeFlags, MetadataPart, Note};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file::Stat;
use uncopy_os::{Sys, directory, file, name};

/// Makes an entry that is neither a regular file nor a directory, regardless of its other names;
/// `refused`: the error with which the filesystem refused a hard link instead.
pub(super) fn make_other(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    stat: &Stat,
    refused: Option<Errno>,
) {
    let made = match kind {
        EntryKind::Symlink => place
            .read_link()
            .map_err(|errno| Error::system("read the link", place.source(), errno))
            .and_then(|target| {
                make_entry(worker, place, kind, stat, |directory, name| {
                    directory::make_link(&target, directory, name)
                })
            }),
        _ => {
            let (file_type, mode) = (stat.file_type(), stat.permissions() & 0o777);
            make_entry(worker, place, kind, stat, |directory, name| {
                let (major, minor) = stat.special;
                directory::make_special(directory, name, file_type, mode, major, minor)
            })
        }
    };
    match made {
        Ok(EntryOutcome::Made { mut notes, flags_not_kept }) => {
            notes.extend(refused.map(|errno| Note::NotLinked { errno }));
            worker.reporter.finish(place, kind, EntryOutcome::Made { notes, flags_not_kept });
        }
        Ok(outcome) => worker.reporter.finish(place, kind, outcome),
        Err(error) => worker.reporter.fail(place, kind, error),
    }
}

/// Makes an entry by `make`, gives it the source's metadata, and puts it in place.
fn make_entry(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    stat: &Stat,
    make: impl Fn(&OwnedFd, &OsStr) -> Sys<()>,
) -> Result<EntryOutcome> {
    let fail = |errno| Error::destination("make", place.destination(), errno);
    let (found, keeps_old) = match check_admission(&mut worker.deleter(), place, kind, stat)? {
        Admission::Proceed { found, keeps_old, .. } => (found, keeps_old),
        Admission::Done(outcome) => return Ok(outcome),
    };
    let (context, to) = (worker.context, &*place.open.destination);
    let given = given_to(stat, worker.options.copy.given());
    let is_exposed = !given.is_nothing() && context.is_privileged();
    let lacks = |lacks: NotGiven| lacks.error(place.destination());
    if place.directory.entered.is_unseen() && (!is_exposed || context.is_aside_own()) {
        make(to, place.target).map_err(fail)?;
        let notes = give_by_name(place, to, place.target, stat, given).map_err(|not_given| {
            // If it stays, it is reported with the error.
            let _ = name::unlink(to, place.target);
            lacks(not_given)
        })?;
        return Ok(made(notes));
    }
    let (temporary, notes) = match worker.workshop(place).map_err(fail)?.directory() {
        Some(own) => {
            make(own, place.target).map_err(fail)?;
            let name = place.target.to_owned();
            let temporary = Temporary { place, from: own, name, noted: Noted::NONE };
            let notes = give_by_name(place, own, place.target, stat, given).map_err(lacks)?;
            (temporary, notes)
        }
        None if is_exposed => {
            let temporary = Temporary::new(place, |name| make(to, name)).map_err(fail)?;
            (temporary, vec![Note::NothingGiven])
        }
        None => {
            let temporary = Temporary::new(place, |name| make(to, name)).map_err(fail)?;
            let notes = give_by_name(place, to, &temporary.name, stat, given).map_err(lacks)?;
            (temporary, notes)
        }
    };
    let options = context.copy_options(&place.directory.entered).after_asking(found.is_some());
    let placed = temporary.put_in_place(context, &options.after_killed_run(keeps_old));
    match placed.map_err(|not_named| not_named.error("make", place.destination()))? {
        true => flush_name(context, place).map(|()| made(notes)),
        false => Ok(EntryOutcome::Skipped { reason: Skip::Exists }),
    }
}

/// Flushes the directory of an entry that has its name, if that is asked for. A directory that is copied with
/// all its entries is flushed after them, and so is each one of a guarded job.
fn flush_name(context: &Context<'_>, place: &Place<'_>) -> Result<()> {
    let is_flushed_later = place.directory.entered.whole || context.is_guarded();
    if !context.options().copy.durable || is_flushed_later {
        return Ok(());
    }
    name::open_directory_for_reading(&*place.open.destination)
        .and_then(flush::directory)
        .map_err(|e| Error::destination("flush the directory of", place.destination(), e))
}

/// Makes the destination's name another one of the file at `first`.
pub(super) fn make_hard_link(
    context: &Context<'_>,
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    first: &First,
) -> Result<Linking> {
    let stat = place.stat().map_err(|errno| Error::system("examine", place.source(), errno))?;
    let (found, decision, keeps_old) = match check_admission(deleter, place, kind, &stat)? {
        Admission::Proceed { found, decision, keeps_old } => (found, decision, keeps_old),
        Admission::Done(EntryOutcome::Planned { .. }) => {
            let action = Action::Link;
            return Ok(Linking::Done(EntryOutcome::Planned { action, mechanism: None }));
        }
        Admission::Done(EntryOutcome::Skipped { reason })
            if let Some(found) = found_apart(deleter.backups, place, &stat, first, reason) =>
        {
            if context.options().dry_run {
                let action = Action::Link;
                return Ok(Linking::Done(EntryOutcome::Planned { action, mechanism: None }));
            }
            let is_same = |found: &ExistingEntry| Ok(is_same_entry(place, &stat, found));
            let keeps_old = reason != Skip::Exists
                && deleter.backups.keeps_old(place, Some(&found), is_same)?;
            (Some(found), Decision::Replace, keeps_old)
        }
        Admission::Done(outcome) => return Ok(Linking::Done(outcome)),
    };
    let (from, name) = match open_first(first) {
        Err(error) if error.errno() == Some(CLOSED) => return Ok(Linking::Refused(Some(CLOSED))),
        opened => opened?,
    };
    if !is_copy_of(first, &from, name) {
        return Ok(Linking::Refused(None));
    }
    let to = &*place.open.destination;
    let make = |new: &OsStr| directory::hard_link(&from, name, to, new);
    let look = || -> Sys<Option<Stat>> {
        let copy = directory::stat_name(&from, name)?;
        let is_linked = found.is_some_and(|found| identity(&found.stat) == identity(&copy));
        Ok((!is_linked).then_some(copy))
    };
    let (decision, path) = (&decision, || first.destination());
    let linking = match put_link(context, place, decision, keeps_old, look, make, path) {
        Err(NotNamed::System(CLOSED)) => return Ok(Linking::Refused(Some(CLOSED))),
        linking => linking.map_err(|not_named| not_named.error("link", place.destination()))?,
    };
    flush_name(context, place).map(|()| linking)
}

/// Error of a name below a directory that has its last mode, in which even its owner may not look up names.
const CLOSED: Errno = Errno::EACCES;

/// Opens the directory of a copied file in the destination. Returns it with the name of the file.
fn open_first(first: &First) -> Result<(OwnedFd, &OsStr)> {
    let fail = |errno| Error::destination("find the first name again", first.destination(), errno);
    let root = first.root.open_destination()?;
    let above: Vec<&OsStr> = first.path.parent().into_iter().flat_map(Path::iter).collect();
    let from = directory::open_beneath(&*root, &above, true).map_err(fail)?;
    Ok((from, first.path.file_name().unwrap_or_default()))
}

/// Whether the name is still that of the copy that was made under it, as far as that is known. A later root replaces what
/// an earlier one brought if both have an entry of this path.
fn is_copy_of(first: &First, from: &OwnedFd, name: &OsStr) -> bool {
    let Some(copy) = first.copy else { return true };
    match directory::stat_name(from, name) {
        Ok(now) => {
            let births = copy.birth.zip(now.birth);
            now.inode == copy.inode && births.is_none_or(|(birth, now)| birth == now)
        }
        // Linking it says what is wrong with it.
        Err(errno) => errno != Errno::ENOENT,
    }
}

/// Whether another file has the name under which a file was copied.
pub(super) fn is_replaced(first: &First) -> bool {
    open_first(first).is_ok_and(|(from, name)| !is_copy_of(first, &from, name))
}

/// Returns the existing entry of a name that was skipped for this reason, as it is up to date or an earlier run placed it,
/// but that is no name of the copied file that it should be one of. One that is newer than the source stays as it is.
fn found_apart(
    backups: Backups<'_>,
    place: &Place<'_>,
    source: &Stat,
    first: &First,
    reason: Skip,
) -> Option<ExistingEntry> {
    match reason {
        Skip::AsNew => {}
        Skip::Exists if backups.resume.earlier().is_some() => {}
        _ => return None,
    }
    let handle = name::open_existing(&*place.open.destination, place.target, OFlags::PATH).ok()?;
    let stat = file::stat(&handle).ok()?;
    // In a dry run the first name may be missing.
    let copy = open_first(first).and_then(|(from, name)| {
        directory::stat_name(&from, name)
            .map_err(|errno| Error::destination("examine", first.destination(), errno))
    });
    let is_apart = !copy.is_ok_and(|copy| copy.is_same_file(&stat));
    let found = ExistingEntry { handle, stat };
    let may_go = || match reason {
        Skip::Exists => backups.has_placed(place, source, &found),
        _ => {
            !backups.context.options().copy.ask
                && found.stat.modified == source.modified
                && found.stat.file_type() == source.file_type()
        }
    };
    (is_apart && may_go()).then_some(found)
}

/// Makes the destination's name another one of an unchanged file of an earlier copy. `found`: the entry that
/// has the name.
pub(super) fn link_unchanged(
    context: &Context<'_>,
    place: &Place<'_>,
    unchanged: &Unchanged,
    found: Option<&ExistingEntry>,
    decision: &Decision,
    keeps_old: bool,
) -> Result<Linking> {
    let (file, to) = (&unchanged.file, &*place.open.destination);
    if found.is_some_and(|found| found.stat.is_same_file(&file.stat)) {
        return Ok(Linking::Done(EntryOutcome::Linked { to: unchanged.path.clone() }));
    }
    if context.options().copy.durable {
        linked_unchanged::flush(unchanged)?;
    }
    let make = |new: &OsStr| name::link_unnamed(&file.handle, to, new);
    let look = || Ok(Some(file.stat.clone()));
    let path = || unchanged.path.clone();
    let linking = put_link(context, place, decision, keeps_old, look, make, path);
    let linking = match linking {
        // It lost its last name meanwhile.
        Err(NotNamed::System(Errno::ENOENT)) => Linking::Refused(Some(Errno::ENOENT)),
        other => other.map_err(|not_named| not_named.error("link", place.destination()))?,
    };
    flush_name(context, place).map(|()| linking)
}

/// Makes the name of an entry a further one of a file, by `make`: at once where it is free. `look` returns the
/// status of the file, or `None` if it has the name.
fn put_link(
    context: &Context<'_>,
    place: &Place<'_>,
    decision: &Decision,
    keeps_old: bool,
    look: impl FnOnce() -> Sys<Option<Stat>>,
    make: impl Fn(&OsStr) -> Sys<()>,
    path: impl Fn() -> PathBuf,
) -> Result<Linking, NotNamed> {
    let linked = || Linking::Done(EntryOutcome::Linked { to: path() });
    if *decision == Decision::Make && !context.is_guarded() {
        match make(place.target) {
            Ok(()) => return Ok(linked()),
            Err(errno) if cannot_link(errno) => return Ok(Linking::Refused(Some(errno))),
            Err(Errno::EEXIST) if !place.directory.entered.fresh => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let Some(file) = look()? else { return Ok(linked()) };
    let temporary = match Temporary::linked(place, &file, make) {
        Err(errno) if cannot_link(errno) => return Ok(Linking::Refused(Some(errno))),
        other => other?,
    };
    let options = context.copy_options(&place.directory.entered);
    let options = options.after_asking(*decision != Decision::Make);
    match temporary.put_in_place(context, &options.after_killed_run(keeps_old))? {
        true => Ok(linked()),
        false => Ok(Linking::Done(EntryOutcome::Skipped { reason: Skip::Exists })),
    }
}

/// Whether the destination is on another filesystem than a file of the source, where no name of it can be made, by their
/// devices. An overlay gives its files others than its directories; of a copy to one this is not known.
fn is_elsewhere(place: &Place<'_>, source: &Stat) -> bool {
    let is_overlay = place.open.filesystems.1 == Filesystem::OVERLAYFS;
    !is_overlay && source.device != place.directory.entered.destination.0
}

/// Makes the destination's name another one of a file of the source, by `make`.
pub(super) fn make_link_to_source(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    source: &Stat,
    make: impl Fn(&OwnedFd, &OsStr) -> Sys<()>,
) -> Result<EntryOutcome> {
    let fail = |errno| Error::destination("link", place.destination(), errno);
    let to = &*place.open.destination;
    let options = worker.context.copy_options(&place.directory.entered);
    let may_replace = options.replaces_name() || options.existing == Existing::Force || options.ask;
    let admission = check_admission(&mut worker.deleter(), place, kind, source)?;
    let (found, decision) = match admission {
        Admission::Proceed { found, decision, .. } => (found, decision),
        Admission::Done(EntryOutcome::Planned { action, .. }) => {
            let is_taken = || {
                let found = directory::stat_name(to, place.target);
                found.is_ok_and(|found| !found.is_same_file(source))
            };
            if action == Action::Replace && !may_replace && is_taken() {
                return Err(fail(Errno::EEXIST));
            }
            if is_elsewhere(place, source) {
                return Err(fail(Errno::EXDEV));
            }
            let action = Action::Link;
            return Ok(EntryOutcome::Planned { action, mechanism: None });
        }
        Admission::Done(outcome) => return Ok(outcome),
    };
    let linked = || EntryOutcome::Linked { to: place.source() };
    if found.is_some_and(|found| found.stat.is_same_file(source)) {
        return Ok(linked());
    }
    if decision == Decision::Make || !may_replace {
        // Without force or consent an existing entry is an error, as by `ln` and `cp`.
        make(to, place.target).map_err(fail)?;
        return flush_name(worker.context, place).map(|()| linked());
    }
    let temporary = Temporary::linked(place, source, |name| make(to, name)).map_err(fail)?;
    let placed = temporary.put_in_place(worker.context, options);
    match placed.map_err(|not_named| not_named.error("link", place.destination()))? {
        true => flush_name(worker.context, place).map(|()| linked()),
        false => Ok(EntryOutcome::Skipped { reason: Skip::Exists }),
    }
}

/// Makes the outcome of a link or special file. It has no inode flags, which only an open file shows.
fn made(notes: Vec<Note>) -> EntryOutcome {
    EntryOutcome::Made { notes, flags_not_kept: InodeFlags::default() }
}

/// Looks up the status of an entry that was listed as a link or special file.
pub(super) fn look_at_other(place: &Place<'_>, kind: EntryKind) -> Result<Stat> {
    let stat = place.stat().map_err(|errno| Error::system("examine", place.source(), errno))?;
    match kind_of(stat.file_type()) == kind {
        true => Ok(stat),
        false => Err(changed_kind(place, stat.file_type())),
    }
}

/// Returns the metadata that an entry of this kind can have. A link has neither ACL nor mode, and no `user.*`
/// attributes (`xattr(7)`).
fn given_to<'a>(source: &Stat, given: GivenMetadata<'a>) -> GivenMetadata<'a> {
    match source.file_type() {
        FileType::Symlink => {
            let preserve = Preserve { mode: false, acl: false, ..given.preserve };
            GivenMetadata { preserve, changes: None, ..given }
        }
        _ => given,
    }
}

/// Owner, ACL, mode, attributes and times of what is no regular file, and has this name.
fn give_by_name(
    place: &Place<'_>,
    directory: &OwnedFd,
    name: &OsStr,
    source: &Stat,
    asked: GivenMetadata<'_>,
) -> Notes {
    let (given, owner) = (asked.preserve, asked.owner);
    let mut notes = Vec::new();
    let mut note = |what, errno| notes.push(Note::NotKept { what, errno });
    let user = owner.user.or(given.ownership.then_some(source.uid));
    let group = owner.group.or(given.ownership.then_some(source.gid));
    if (user.is_some() || group.is_some())
        && let Err(errno) = directory::set_owner(directory, name, user, group)
    {
        if owner != Owner::default() {
            return Err(NotGiven::owner(errno));
        }
        note(MetadataPart::OwnerAndGroup, errno);
    }
    let mut kept = Vec::new();
    if given.mode || given.acl || given.xattr || asked.changes.is_some() {
        match give_to_handle(place, directory, name, source, asked) {
            Ok(notes) => kept = notes,
            Err(errno) if asked.changes.is_some() => return Err(NotGiven::mode(errno)),
            Err(errno) if source.file_type() == FileType::Symlink => {
                note(MetadataPart::Attributes, errno);
            }
            Err(errno) => note(MetadataPart::ModeAndAcl, errno),
        }
    }
    if given.timestamps
        && let Err(errno) = directory::set_times(directory, name, source.accessed, source.modified)
    {
        note(MetadataPart::Times, errno);
    }
    notes.extend(kept);
    Ok(notes)
}

/// Result of making a further name of a file.
pub(super) enum Linking {
    Done(EntryOutcome),
    /// A copy must be made instead: the filesystem refused the link, for this reason, or another file has the name that
    /// the first copy had.
    Refused(Option<Errno>),
}

/// Too many links, none at all on this filesystem, another filesystem below the same tree, or a
/// file that one may not link to (`link(2)`).
fn cannot_link(errno: Errno) -> bool {
    matches!(errno, Errno::EMLINK | Errno::EPERM | Errno::EXDEV | Errno::EOPNOTSUPP)
}

/// ACL, attributes and mode; what of it could not be given.
fn give_to_handle(
    place: &Place<'_>,
    directory: &OwnedFd,
    name: &OsStr,
    source: &Stat,
    given: GivenMetadata<'_>,
) -> Sys<Vec<Note>> {
    let preserve = given.preserve;
    // Either may have been replaced by something with more rights.
    let open = |directory: &OwnedFd, name: &OsStr| {
        let handle = name::open_existing(directory, name, OFlags::PATH)?;
        match file::stat(&handle)?.file_type() == source.file_type() {
            true => Ok(handle),
            false => Err(Errno::ESTALE),
        }
    };
    let handle = open(directory, name)?;
    let from = match &place.open.source {
        SourceDirectory::Here(from) => Some(open(from, place.name)?),
        SourceDirectory::There(_) => None,
    };
    let attributes = match (&from, &place.open.source) {
        (Some(from), _) => AttributeSource::Here(from.as_fd()),
        (None, from) => from.attributes_of(place.name, source, preserve),
    };
    let mut notes = metadata::apply_to_handle(handle.as_fd(), &attributes, given);
    if let Some(changes) = given.changes {
        let now = file::stat(&handle)?.permissions();
        let mode = if preserve.mode { source.permissions() } else { now };
        let changed = changes.apply(mode, false, name::umask().unwrap_or(0o022));
        directory::set_permissions_of_handle(&handle, changed)?;
    } else if preserve.mode
        && let Err(errno) = directory::set_permissions_of_handle(&handle, source.permissions())
    {
        notes.push(Note::NotKept { what: MetadataPart::Mode, errno });
    }
    Ok(notes)
}

/// An entry that is not in place yet: under a temporary name, or under its own in a workshop. It is
/// removed on drop unless it is put in place.
struct Temporary<'a> {
    place: &'a Place<'a>,
    from: &'a OwnedFd,
    name: OsString,
    noted: Noted<'a>,
}

impl<'a> Temporary<'a> {
    fn new(place: &'a Place<'a>, make: impl Fn(&OsStr) -> Sys<()>) -> Sys<Temporary<'a>> {
        stale::check_directory(&*place.open.destination)?;
        let register = place.directory.register();
        register.prepare();
        let name = loop {
            let name = stale::temporary_name(place.target, stale::Kind::File)?;
            match make(&name) {
                Err(Errno::EEXIST) => {}
                other => break other.map(|()| name)?,
            }
        };
        let path = || place.directory.path_from_root();
        let noted = directory::stat_name(&*place.open.destination, &name)
            .map_or(Noted::NONE, |stat| register.note(path, &name, &stat));
        Ok(Temporary { place, from: &place.open.destination, name, noted })
    }

    /// Makes a temporary hard link to an existing file, noted before it is made.
    fn linked(
        place: &'a Place<'a>,
        file: &Stat,
        make: impl Fn(&OsStr) -> Sys<()>,
    ) -> Sys<Temporary<'a>> {
        stale::check_directory(&*place.open.destination)?;
        let path = || place.directory.path_from_root();
        let (name, noted) = loop {
            let name = stale::temporary_name(place.target, stale::Kind::File)?;
            let noted = place.directory.register().note(path, &name, file);
            match make(&name) {
                Err(Errno::EEXIST) => {}
                other => break other.map(|()| (name, noted))?,
            }
        };
        Ok(Temporary { place, from: &place.open.destination, name, noted })
    }

    /// Puts it in place. Returns `false` if the name was taken and must not be replaced. A rename
    /// from one name of a file to another does nothing (`rename(2)`), so the temporary name is
    /// removed then. A guard decides what is replaced.
    fn put_in_place(self, context: &Context<'_>, options: &CopyOptions) -> Result<bool, NotNamed> {
        let (to, target) = (&*self.place.open.destination, self.place.target);
        if let Some(guarded) = context.guarded(self.place) {
            let (from, temporary) = (self.from.as_fd(), &*self.name);
            let replacing = Replacing { from, temporary, directory: to.as_fd(), name: target };
            let place = || match guarded.look(to.as_fd(), target)? {
                Some(found) => replacing.replace(&found),
                None => take_free_name(replacing).map_err(not_free),
            };
            return guarded.give_name(place).map(|()| true);
        }
        let existing = options.existing;
        let renamed = match existing {
            Existing::Keep => name::rename_out_new(self.from, &self.name, to, target),
            _ => {
                if let Some(backup) = &options.backup {
                    backup::keep(to.as_fd(), target, backup)?;
                }
                name::rename_out(self.from, &self.name, to, target)
            }
        };
        match renamed {
            Err(Errno::EEXIST) if existing == Existing::Keep => Ok(false),
            other => Ok(other.map(|()| true)?),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        match name::unlink(self.from, &self.name) {
            Ok(()) | Err(Errno::ENOENT) => {}
            // Left for the next run to remove.
            Err(_) => std::mem::replace(&mut self.noted, Noted::NONE).leave(),
        }
    }
}
