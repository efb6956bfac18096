//! Decides whether an entry is made: looks up the existing entry of its name, and in a dry run
//! reports the decision.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};

use super::as_copied::{is_copy, is_same_entry};
use super::context::Context;
use super::decide::{kind_of, policy_of, side_of};
use super::delete::{Deleter, make_room};
use super::place::Place;
use crate::Consent;
use crate::Skip;
use crate::destination::{ExistingEntry, is_own_source};
use crate::guard::{Guarded, NotNamed, wanted_user};
use crate::jobs::{Action, Compare, Decision, EntryKind, EntryOutcome, Policy, Side, decide};
use crate::mode_changes::ModeChanges;
use crate::options::CopyOptions;
use crate::owner::Owner;
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::file::{self, SETUID_SETGID, Stat, Timestamp};
use uncopy_os::{Sys, directory, name, privilege};

/// Whether an entry is to be made.
pub(super) enum Admission {
    /// Make it, replacing the existing entry, of which a backup is made where the options say so and `keeps_old`.
    Proceed { found: Option<ExistingEntry>, decision: Decision, keeps_old: bool },
    /// Nothing is to be done; this is reported.
    Done(EntryOutcome),
}

/// Decides about an entry of this kind and status that is no file to be copied.
pub(super) fn check_admission(
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    source: &Stat,
) -> Result<Admission> {
    if let Some(done) = check_guarded(deleter, place, source)? {
        return Ok(done);
    }
    let policy = policy_of(deleter.options, &place.directory.entered);
    let policy = Policy { compare: Compare::Times, ..policy };
    let has_backup = deleter.options.copy.backup.is_some();
    let loses = |found: &ExistingEntry| {
        kind == EntryKind::Symlink && !has_backup && is_target(place, &found.stat)
    };
    check_by_policy(deleter, place, side_of(kind, source), policy, loses, |found| {
        Ok(is_same_entry(place, source, found))
    })
}

/// Whether a symbolic link of the source leads to what would be replaced by its copy, and would be lost: the copy would lead
/// to itself, or nowhere.
fn is_target(place: &Place<'_>, found: &Stat) -> bool {
    let Some(source) = place.open.source.here() else { return false };
    let target = directory::stat_target(source, place.name);
    target.is_ok_and(|target| target.is_same_file(found))
}

/// Decides about a file of this status; `has_same_contents` compares it with the existing one.
pub(super) fn check_file_admission(
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    source: &Stat,
    has_same_contents: impl FnOnce(&ExistingEntry) -> Result<bool>,
) -> Result<Admission> {
    if let Some(done) = check_guarded(deleter, place, source)? {
        return Ok(done);
    }
    let policy = policy_of(deleter.options, &place.directory.entered);
    // Otherwise the copy itself finds that out.
    let (is_forecast, options) = (deleter.options.dry_run, &deleter.options.copy);
    let is_same = |found: &ExistingEntry| {
        let is_here = place.open.source.here().is_some();
        is_forecast && is_here && is_own_source(options, &found.stat, source)
    };
    let side = side_of(EntryKind::File, source);
    check_by_policy(deleter, place, side, policy, is_same, has_same_contents)
}

/// Asks the guard about an entry. Returns how it ended if an earlier attempt has made its copy.
///
/// # Errors
/// The source, or what has the name of the copy, is not the expected one.
fn check_guarded(
    deleter: &Deleter<'_, '_>,
    place: &Place<'_>,
    source: &Stat,
) -> Result<Option<Admission>> {
    let Some(guarded) = deleter.context.guarded(place) else { return Ok(None) };
    let refuse = |path, why| Err(Error::new("copy", path, Reason::Refused(why)));
    if let Err(why) = guarded.check_source(source) {
        return refuse(place.source(), why);
    }
    let found = find(place)?;
    if guarded.expects(found.as_ref().map(|found| &found.stat)) {
        return Ok(None);
    }
    let options = &deleter.options.copy;
    match found {
        Some(found)
            if is_copy(options, place, source, &found)
                && !is_of_somebody_else(&guarded, options, source, &found.stat) =>
        {
            guarded
                .give_name(|| give_owner_and_mode(options, source, &found))
                .map_err(|error| error.error("set owner and mode of", place.destination()))?;
            let reason = Skip::SameContents;
            Ok(Some(Admission::Done(EntryOutcome::Skipped { reason })))
        }
        _ => refuse(place.destination(), Objection::DestinationSincePlan),
    }
}

/// Whether whoever made this may still write to it when it has been given away: no attempt made it, as its owner shows. This
/// matters where the process may give it away.
fn is_of_somebody_else(
    guarded: &Guarded<'_>,
    options: &CopyOptions,
    source: &Stat,
    found: &Stat,
) -> bool {
    let wanted = wanted_user(options, source);
    let is_one_of_ours = Some(found.uid) == wanted || guarded.makes_files_of(found.uid);
    !is_one_of_ours && privilege::overrides_file_ownership()
}

/// Gives the copy of an earlier attempt, which may have ended before its last bits, the owner and mode that a new copy gets.
/// As a new copy, it stays without them where the system refuses them, unless the options ask for those very ones.
fn give_owner_and_mode(
    options: &CopyOptions,
    source: &Stat,
    found: &ExistingEntry,
) -> std::result::Result<(), NotNamed> {
    let ExistingEntry { handle, stat } = found;
    let asked = options.owner.unwrap_or_default();
    let wanted = options.preserve.ownership.then_some((source.uid, source.gid));
    let lacking = asked.lacking(wanted, (stat.uid, stat.gid));
    let is_changed = lacking != Owner::default();
    let set = |uid, gid| directory::set_owner_of_handle(handle, uid, gid);
    asked.give(lacking, set).map_err(|errno| match errno {
        Errno::EPERM => NotNamed::Refused(Objection::OwnerForbidden { errno }),
        errno => NotNamed::System(errno),
    })?;
    if !options.preserve.mode || source.file_type() == FileType::Symlink {
        return Ok(());
    }
    // A change of the owner may have taken bits.
    let now = if is_changed { &file::stat(handle)? } else { stat };
    let is_owned = (now.uid, now.gid) == (source.uid, source.gid);
    let kept = if is_owned { u32::MAX } else { !SETUID_SETGID };
    let mode = source.permissions() & kept;
    let changed =
        |changes: &ModeChanges| changes.apply(mode, false, name::umask().unwrap_or(0o022));
    let mode = options.mode_changes.as_ref().map_or(mode, changed);
    if now.permissions() == mode {
        return Ok(());
    }
    match directory::set_permissions_of_handle(handle, mode) {
        Err(errno) if options.mode_changes.is_some() => Err(errno.into()),
        _ => Ok(()),
    }
}

/// Returns another name of a file of a guarded job, from the root, under which an earlier attempt has copied it.
pub(super) fn earlier_name(
    context: &Context<'_>,
    place: &Place<'_>,
    source: &Stat,
) -> Option<PathBuf> {
    let guarded = context.guarded(place)?;
    let (root, _) = place.directory.way_from_root().ok()?;
    let options = &context.options().copy;
    let has_copy = |path: &Path, guarded: &Guarded<'_>| -> Sys<bool> {
        let above: Vec<&OsStr> = path.parent().into_iter().flat_map(Path::iter).collect();
        let name = path.file_name().ok_or(Errno::EINVAL)?;
        let directory = directory::open_beneath(&*root.destination, &above, true)?;
        let handle = name::open_existing(&directory, name, OFlags::PATH)?;
        let found = ExistingEntry { stat: file::stat(&handle)?, handle };
        let is_planned = guarded.expects(Some(&found.stat));
        Ok(!is_planned
            && is_copy(options, place, source, &found)
            && !is_of_somebody_else(guarded, options, source, &found.stat))
    };
    let copied = |(path, guarded): (PathBuf, Guarded<'_>)| {
        has_copy(&path, &guarded).unwrap_or(false).then_some(path)
    };
    guarded.others().find_map(copied)
}

fn check_by_policy(
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    source: Side<Timestamp>,
    policy: Policy,
    is_source: impl FnOnce(&ExistingEntry) -> bool,
    has_same_contents: impl FnOnce(&ExistingEntry) -> Result<bool>,
) -> Result<Admission> {
    let found = find(place)?;
    let side = |found: &ExistingEntry| side_of(kind_of(found.stat.file_type()), &found.stat);
    let mut compare = Some(has_same_contents);
    let mut is_same = |found: &ExistingEntry| compare.take().map_or(Ok(false), |same| same(found));
    let decision = match (decide(source, found.as_ref().map(side), policy), &found) {
        (Decision::Compare, Some(found)) => match is_same(found)? {
            true => Decision::Skip(Skip::SameContents),
            false => Decision::Replace,
        },
        (decision, _) => decision,
    };
    if decision == Decision::Replace && found.as_ref().is_some_and(is_source) {
        let reason = Reason::SameFile { source_path: place.source() };
        return Err(Error::new("write to", place.destination(), reason));
    }
    if decision == Decision::Replace {
        deleter.backups.check_name(place)?;
    }
    let action = match decision {
        Decision::MakeRoom => {
            if let Some(found) = found {
                make_room(deleter, place, found.stat.file_type())?;
            }
            return Ok(match deleter.options.dry_run {
                true => {
                    Admission::Done(EntryOutcome::Planned { action: Action::Make, mechanism: None })
                }
                false => {
                    let keeps_old = deleter.backups.keeps_old(place, None, is_same)?;
                    Admission::Proceed { found: None, decision: Decision::Make, keeps_old }
                }
            });
        }
        Decision::Skip(reason) => return Ok(Admission::Done(EntryOutcome::Skipped { reason })),
        Decision::Refuse(why) => {
            return Err(Error::new("replace", place.destination(), Reason::Refused(why)));
        }
        Decision::Make => Action::Make,
        Decision::Replace if asks(deleter, place) => match consent(deleter, place) {
            Consent::Given => Action::Replace,
            Consent::Refused => {
                let reason = Skip::Declined;
                return Ok(Admission::Done(EntryOutcome::Skipped { reason }));
            }
            Consent::Stop => return Err(Error::new("copy", place.source(), Reason::Cancelled)),
        },
        Decision::Replace | Decision::Merge | Decision::Compare => Action::Replace,
    };
    Ok(match deleter.options.dry_run {
        true => Admission::Done(EntryOutcome::Planned { action, mechanism: None }),
        false => {
            let keeps_old = deleter.backups.keeps_old(place, found.as_ref(), is_same)?;
            Admission::Proceed { found, decision, keeps_old }
        }
    })
}

/// Whether an existing entry is replaced with consent alone: not what was left by a killed run, and in a
/// dry run nothing is replaced.
fn asks(deleter: &Deleter<'_, '_>, place: &Place<'_>) -> bool {
    let options = deleter.options;
    options.copy.ask && !options.dry_run && !place.directory.entered.private
}

/// Asks the observer whether the existing entry may be replaced.
fn consent(deleter: &mut Deleter<'_, '_>, place: &Place<'_>) -> Consent {
    let control = deleter.control;
    deleter.answer.about(place.destination(), |path| control.may_replace(path))
}

/// Looks up the existing entry of the destination's name; in a directory that this job made there
/// is none.
pub(super) fn find(place: &Place<'_>) -> Result<Option<ExistingEntry>> {
    if place.directory.entered.fresh {
        return Ok(None);
    }
    let fail = |errno| Error::destination("examine", place.destination(), errno);
    match name::open_existing(&*place.open.destination, place.target, OFlags::PATH) {
        Ok(handle) => {
            let stat = file::stat(&handle).map_err(fail)?;
            Ok(Some(ExistingEntry { handle, stat }))
        }
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(fail(errno)),
    }
}
