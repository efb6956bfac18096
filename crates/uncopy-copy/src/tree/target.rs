//! Finds or makes the destination of a root directory: an existing directory, one built under a
//! temporary name, or one resumed from an earlier run.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use super::aside::Aside;
use super::context::Context;
use super::directory::{identity, make_fillable};
use super::journal::{Begun, Built, Journal, NotOpened, Short, Unusable};
use super::overlay;
use super::partial;
use crate::jobs::{DestinationLinks, JobOptions, fingerprint};
use crate::peer_link::PeerLink;
use crate::stale::Register;
use crate::{remove, stale};
use uncopy_core::{Errno, Error, FileKind, Objection, Reason, Result};
use uncopy_os::file::Stat;
use uncopy_os::follow::{self, FollowError};
use uncopy_os::{Sys, directory, file};

/// The destination of a root directory.
pub(super) struct Target {
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
    /// Directory in which it is built, if it does not exist yet.
    pub(super) aside: Option<Aside>,
    /// Whether this is a dry run that would build it; `fd` is the directory that it would be in.
    pub(super) absent: bool,
    /// Whether it was begun by a run that this one resumes.
    pub(super) resumed: bool,
    /// Whether an earlier run of this job made it and gave it its name.
    pub(super) remade: bool,
    /// The journal and its directory.
    pub(super) journal: Option<(Journal, OwnedFd)>,
}

/// The source of a root directory.
pub(super) struct From<'a> {
    pub(super) path: &'a Path,
    pub(super) stat: &'a Stat,
    /// It is open, and lies in an overlay.
    pub(super) overlay: Option<&'a OwnedFd>,
}

impl Target {
    /// Finds the destination of a directory, or makes a temporary one next to it.
    pub(super) fn open(
        context: &Context<'_>,
        from: &From<'_>,
        destination: &Path,
    ) -> Result<Target> {
        let options = context.options();
        let refuse = |why| Err(Error::new("write to", destination, Reason::Refused(why)));
        let is_link_refused =
            options.destination_links == DestinationLinks::Refuse && !names_directory(destination);
        let found = match is_link_refused {
            true => directory::stat_path(destination).map_err(FollowError::System),
            false => follow::stat(destination),
        };
        match found {
            Ok(stat) if stat.file_type() == FileType::Symlink => {
                return refuse(Objection::LinkForDirectory);
            }
            Ok(stat) if stat.file_type() == FileType::Directory => {
                return Target::found(context, from, destination);
            }
            Ok(_) => {
                return refuse(Objection::NotDirectory);
            }
            Err(FollowError::System(Errno::ENOENT)) => {}
            Err(stopped) => return Err(stopped.at_destination("write to", destination)),
        }
        if directory::stat_path(destination).is_ok() {
            return refuse(Objection::RootLinkToNothing);
        }
        let (above, name) = split(destination)?;
        let above = or_here(above);
        let parent = follow::open_directory(above)
            .map_err(|stopped| stopped.at_destination("open", above))?;
        if stale::check_directory(&parent).is_err() {
            let reason = Reason::Refused(Objection::AppendOnlyDirectory);
            return Err(Error::new("make a directory beside", destination, reason));
        }
        check_outside(context, parent.as_fd(), from, destination)?;
        if options.dry_run {
            let stat =
                file::stat(&parent).map_err(|errno| Error::destination("examine", above, errno))?;
            let (fd, aside, journal) = (parent, None, None);
            let (absent, resumed, remade) = (true, false, false);
            return Ok(Target { fd, stat, aside, absent, resumed, remade, journal });
        }
        if options.resume {
            return Target::journalled(options, from, destination, parent, name);
        }
        make_aside(parent, name).map_err(|errno| make_error(destination, errno))
    }

    /// Opens an existing directory.
    fn found(context: &Context<'_>, from: &From<'_>, destination: &Path) -> Result<Target> {
        let options = context.options();
        let fail = |errno| Error::destination("open", destination, errno);
        let is_link_refused =
            options.destination_links == DestinationLinks::Refuse && !names_directory(destination);
        let mut fd = match is_link_refused {
            true => open_named(destination)?,
            false => follow::open_root(destination)
                .or_else(|_| follow::open_directory(destination))
                .map_err(|stopped| stopped.at_destination("open", destination))?,
        };
        check_outside(context, fd.as_fd(), from, destination)?;
        let stat = file::stat(&fd).map_err(fail)?;
        let (mut journal, mut remade) = (None, false);
        if options.resume {
            // The resolved name is used, independent of the caller's spelling.
            let path = std::fs::canonicalize(destination)
                .map_err(|error| fail(Errno::from_raw(error.raw_os_error().unwrap_or(0))))?;
            let (above, name) = split(&path)?;
            let parent = follow::open_directory(or_here(above))
                .map_err(|stopped| stopped.at_destination("open", destination))?;
            // The name must refer to the opened directory, not to a link that has replaced one of
            // the names since.
            let is_there = directory::stat_name(&parent, name).map_err(fail)?.is_same_file(&stat);
            if !is_there {
                let reason = Reason::Refused(Objection::RootReplaced);
                return Err(Error::new("write to", destination, reason));
            }
            let fingerprint = fingerprint(options, from.path, from.stat.inode);
            let mut opened = begin_journal(destination, parent.as_fd(), name, fingerprint)?;
            if let Some(built) = opened.begun().and_then(|begun| begun.aside.clone())
                && remove_begun(parent.as_fd(), &built)
            {
                opened
                    .begin(Begun { fingerprint, aside: None }, parent.as_fd())
                    .map_err(|errno| not_begun(destination, errno))?;
            }
            remade = opened.earlier().is_some_and(|earlier| earlier.may_have_made(&stat));
            if remade
                && !options.dry_run
                && let Ok(Some(fillable)) = make_fillable(&fd, &stat)
            {
                fd = fillable;
            }
            journal = Some((opened, parent));
        }
        let (aside, absent, resumed) = (None, false, false);
        Ok(Target { fd, stat, aside, absent, resumed, remade, journal })
    }

    /// Opens a tree that an earlier run began, or makes a new one with a journal.
    fn journalled(
        options: &JobOptions,
        from: &From<'_>,
        destination: &Path,
        parent: OwnedFd,
        name: &OsStr,
    ) -> Result<Target> {
        let fail = |errno| make_error(destination, errno);
        let fingerprint = fingerprint(options, from.path, from.stat.inode);
        let mut journal = open_journal(destination, parent.as_fd(), name, fingerprint)?;
        let keeper = file::duplicate(&parent).map_err(fail)?;
        if let Some(Built { name: temporary, id }) = journal.begun().and_then(|b| b.aside.clone()) {
            if !stale::is_temporary(&temporary) || temporary.as_bytes().contains(&b'/') {
                return Err(unusable(destination, name, &Unusable::Foreign));
            }
            let opened = directory::open_child(&parent, &temporary)
                .and_then(|fd| file::stat(&fd).map(|stat| (fd, stat)));
            match opened {
                // Another file has its name, so the unfinished tree is gone.
                Ok((_, stat)) if stat.id() != id => {}
                Ok((fd, stat)) => {
                    if stat.uid != file::effective_uid() {
                        return Err(unusable(destination, name, &Unusable::Foreign));
                    }
                    // The journal's lock is held by this run, so the other lock is of a run that
                    // checks for leftovers.
                    if file::try_lock(&fd) == Err(Errno::EAGAIN) {
                        let reason = Reason::Refused(Objection::Inspected);
                        return Err(Error::new("resume the copy to", destination, reason));
                    }
                    let name = name.to_owned();
                    let is_own = stat.permissions() & 0o077 == 0;
                    let register = Register::none();
                    let aside = Some(Aside { parent, temporary, name, register, is_own });
                    let journal = Some((journal, keeper));
                    let (absent, resumed, remade) = (false, true, false);
                    return Ok(Target { fd, stat, aside, absent, resumed, remade, journal });
                }
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        let target = make_aside(parent, name).map_err(fail)?;
        let aside = target.aside.as_ref().map(|aside| aside.temporary.clone());
        let id = target.stat.id();
        let begun = Begun { fingerprint, aside: aside.map(|name| Built { name, id }) };
        let started = journal.begin(begun, keeper.as_fd());
        if let Err(errno) = started {
            if let Some(aside) = &target.aside {
                aside.remove(&target.fd);
            }
            return Err(not_begun(destination, errno));
        }
        if let Some(aside) = &target.aside {
            // From now on the journal marks it, and no other run removes it.
            aside.register.end();
        }
        Ok(Target { journal: Some((journal, keeper)), ..target })
    }
}

/// Opens an existing directory, if its name is no link.
fn open_named(destination: &Path) -> Result<OwnedFd> {
    let (above, name) = split(destination)?;
    let above = or_here(above);
    let parent =
        follow::open_directory(above).map_err(|stopped| stopped.at_destination("open", above))?;
    let opened = directory::open_child(&parent, name).or_else(|errno| match errno {
        Errno::EACCES => directory::open_child_path(&parent, name),
        errno => Err(errno),
    });
    opened.map_err(|errno| match errno {
        // It was a directory a moment ago.
        Errno::ELOOP | Errno::ENOTDIR => {
            let reason = Reason::Refused(Objection::LinkForDirectory);
            Error::new("write to", destination, reason)
        }
        errno => Error::destination("open", destination, errno),
    })
}

/// See [`crate::job::is_built`].
pub(crate) fn is_built(source: &Path, destination: &Path, options: &JobOptions) -> bool {
    options.resume
        && follow::stat(source)
            .is_ok_and(|from| is_built_from(source, from.inode, destination, options))
}

/// See [`crate::job::is_built_from_peer`].
pub(crate) fn is_built_from_peer(
    link: &Arc<PeerLink>,
    number: u32,
    source: &Path,
    destination: &Path,
    options: &JobOptions,
) -> bool {
    let look = || {
        let opened = link.ask(|peer| peer.open_root(number, true))?;
        link.opened(opened).map(|(_, stat)| stat.inode)
    };
    options.resume && look().is_ok_and(|inode| is_built_from(source, inode, destination, options))
}

fn is_built_from(source: &Path, inode: u64, destination: &Path, options: &JobOptions) -> bool {
    let look = || {
        let built = follow::stat(destination).ok()?;
        let path = std::fs::canonicalize(destination).ok()?;
        let (above, name) = split(&path).ok()?;
        let begun = Journal::peek(follow::open_directory(above).ok()?.as_fd(), name)?;
        let is_same = begun.fingerprint == fingerprint(options, source, inode);
        Some(is_same && begun.aside?.id == built.id())
    };
    look().unwrap_or(false)
}

/// Returns the directory of a path as given (empty for the current one), and the name in it.
pub(super) fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(Error::new("copy", path, Reason::NotRegular { kind: FileKind::Directory })),
    }
}

/// Whether a path can only mean a directory: it ends in `/`, `.` or `..`.
pub(super) fn names_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || path.file_name().is_none()
}

pub(super) fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn make_error(destination: &Path, errno: Errno) -> Error {
    Error::destination("make a directory beside", destination, errno)
}

/// Opens the journal for a destination that exists or is put in place as a whole, and begins it if
/// it is new.
fn begin_journal(
    destination: &Path,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    fingerprint: Short,
) -> Result<Journal> {
    let mut journal = open_journal(destination, parent, name, fingerprint)?;
    if journal.begun().is_none() {
        journal
            .begin(Begun { fingerprint, aside: None }, parent)
            .map_err(|errno| not_begun(destination, errno))?;
    }
    Ok(journal)
}

/// Removes the tree that an earlier run began, and that a journal names: somebody has made the destination otherwise since,
/// so that nobody goes on in it. `false`: it is not there, or somebody uses it.
fn remove_begun(parent: BorrowedFd<'_>, built: &Built) -> bool {
    let Built { name, id } = built;
    if !stale::is_temporary(name) || name.as_bytes().contains(&b'/') {
        return false;
    }
    let Ok(opened) = directory::open_child(parent, name) else { return false };
    let is_it =
        file::stat(&opened).is_ok_and(|stat| stat.id() == *id && stat.uid == file::effective_uid());
    is_it && file::try_lock(&opened).is_ok() && remove::held(parent, name, &opened).is_ok()
}

fn not_begun(destination: &Path, errno: Errno) -> Error {
    match errno {
        // Another run was quicker to create its journal.
        Errno::EEXIST => held(destination),
        errno => Error::destination("begin the journal for", destination, errno),
    }
}

fn held(destination: &Path) -> Error {
    not_resumed(destination, Objection::JournalHeld)
}

/// Opens the journal for a single file, if it is large or was begun by an earlier run.
pub(super) fn open_for_file(
    options: &JobOptions,
    source: &Path,
    destination: &Path,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    size: u64,
) -> Result<Option<Journal>> {
    let begun = || directory::stat_name(parent, &stale::journal_name(name)).is_ok();
    if !options.resume || (size < partial::MIN_BYTES && !begun()) {
        return Ok(None);
    }
    // The identity of the file is checked when it is copied.
    let fingerprint = fingerprint(options, source, 0);
    begin_journal(destination, parent, name, fingerprint).map(Some)
}

/// Opens a journal that this job may use.
pub(super) fn open_journal(
    destination: &Path,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    fingerprint: Short,
) -> Result<Journal> {
    let path = journal_path(destination, name);
    let journal = Journal::open(parent, name).map_err(|problem| match problem {
        NotOpened::Held => held(destination),
        NotOpened::Unusable(why) => unusable(destination, name, &why),
        // The name is a symbolic link.
        NotOpened::System(Errno::ELOOP) => unusable(destination, name, &Unusable::Foreign),
        NotOpened::System(errno) => Error::destination("open the journal", &path, errno),
    })?;
    if journal.begun().is_some_and(|begun| begun.fingerprint != fingerprint) {
        return Err(not_resumed(destination, Objection::JournalOfOther { journal: path }));
    }
    Ok(journal)
}

/// Returns the path of the journal for `name`, which the destination is or leads to.
fn journal_path(destination: &Path, name: &OsStr) -> PathBuf {
    let journal = stale::journal_name(name);
    match destination.file_name() {
        // It ends in `.` or `..`.
        None => {
            let parts = destination.components().filter(|part| *part != Component::CurDir);
            parts.chain([Component::ParentDir]).collect::<PathBuf>().join(journal)
        }
        Some(given) if given == name => destination.with_file_name(journal),
        // A link leads to it.
        Some(_) => match std::fs::canonicalize(destination) {
            Ok(found) => found.with_file_name(journal),
            Err(_) => destination.with_file_name(journal),
        },
    }
}

fn unusable(destination: &Path, name: &OsStr, why: &Unusable) -> Error {
    let journal = journal_path(destination, name);
    let why = match *why {
        Unusable::Damaged { offset } => Objection::JournalDamaged { offset, journal },
        Unusable::Foreign => Objection::JournalForeign { journal },
        Unusable::Copied => Objection::JournalCopied { journal },
    };
    not_resumed(destination, why)
}

fn not_resumed(destination: &Path, why: Objection) -> Error {
    Error::new("resume the copy to", destination, Reason::Refused(why))
}

fn make_aside(parent: OwnedFd, name: &OsStr) -> Sys<Target> {
    let (fd, stat, aside) = Aside::make(parent, name)?;
    let (aside, journal) = (Some(aside), None);
    Ok(Target { fd, stat, aside, absent: false, resumed: false, remade: false, journal })
}

/// A destination in the source would be copied into itself, without end.
fn check_outside(
    context: &Context<'_>,
    destination: BorrowedFd<'_>,
    from: &From<'_>,
    given: &Path,
) -> Result<()> {
    let From { path: source, stat, overlay } = *from;
    let fail = |errno| Error::destination("examine the directories above", given, errno);
    let refuse = |tree: &Path| {
        let reason = Reason::Refused(Objection::InsideSource { tree: tree.to_owned() });
        Err(Error::new("copy to", given, reason))
    };
    let mut at = file::duplicate(destination).map_err(fail)?;
    let mut known = identity(&file::stat(&at).map_err(fail)?);
    loop {
        if known == identity(stat) {
            return refuse(source);
        }
        at = directory::open_parent(&at).map_err(fail)?;
        let above = identity(&file::stat(&at).map_err(fail)?);
        if above == known {
            break;
        }
        known = above;
    }
    context.mounted_source_around(destination, source).map_or(Ok(()), refuse)?;
    let (name, only_look) = (given.file_name().unwrap_or_default(), context.options().dry_run);
    match overlay {
        Some(overlay) if overlay::shows(overlay, destination, name, only_look) => refuse(source),
        _ => Ok(()),
    }
}
