//! Directories: entered, listed, and finished when all that belongs in them is there.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use super::decide::{Decision, Policy, Side, decide, kind_of};
use super::directory::{Above, Directory, Entered, Open, identity};
use super::journal::sweep_directory;
use super::queue::{Batch, Task};
use super::retry;
use super::worker::{Place, Worker};
use crate::copy::job::{Action, EntryKind, Outcome};
use crate::copy::metadata::{self, Made};
use crate::copy::source::describe;
use crate::copy::staging::TAKEN;
use crate::copy::{remove, stale};
use crate::error::{Errno, Error, Reason, Result};
use crate::receipt::InodeFlags;
use crate::sys::file::{self, Stat};
use crate::sys::{directory, name};

/// So many directories may wait to be entered before a listing pauses: a million names of
/// subdirectories do not have to be remembered.
const MOST_WAITING: usize = 50_000;

/// A listing that pauses has found at least so many subdirectories, so that it gets on.
const LEAST_FOUND: usize = 64;

impl Worker<'_, '_> {
    /// Goes into a directory: makes or finds its copy, and lists it.
    pub(super) fn enter(&mut self, parent: &Arc<Directory>, name: &OsStr, linked: bool) {
        let open = match parent.open() {
            Ok(open) => open,
            Err(error) => return self.fail_below(parent, name, error),
        };
        let place = Place { directory: parent, open: &open, name, target: name };
        match self.open_pair(&place, linked) {
            Ok((entered, pair)) => {
                let parent = Arc::clone(parent);
                let pin = if entered.linked {
                    self.job.must_pin();
                    true
                } else {
                    self.job.may_pin()
                };
                let pair = Arc::new(pair);
                let above = Above::Child { parent: Arc::clone(&parent), name: name.to_owned() };
                // Until it is finished, so is not the one above.
                parent.begin();
                let directory = Arc::new(Directory::new(above, entered, &pair, pin));
                drop(open);
                self.list_open(directory, &pair, 0);
            }
            Err(error) => self.fail(&place, EntryKind::Directory, error),
        }
    }

    /// An entry cannot even be looked at, because its directory cannot.
    fn fail_below(&mut self, parent: &Arc<Directory>, name: &OsStr, error: Error) {
        let names = || (parent.source_path().join(name), parent.destination_path().join(name));
        self.fail_at(names, EntryKind::Directory, error);
    }

    fn open_pair(&mut self, place: &Place<'_>, linked: bool) -> Result<(Entered, Open)> {
        let above = &place.directory.entered;
        let fail = |operation, errno| Error::system(operation, place.source(), errno);
        let (source, stat) = retry::persist(self.job, place.open.filesystems, || {
            let source = if linked {
                self.open_link(place)?
            } else {
                directory::open_child(&place.open.source, place.name)
                    .map_err(|errno| fail("open", errno))?
            };
            let stat = file::stat(&source).map_err(|errno| fail("examine", errno))?;
            Ok((source, stat))
        })?;
        self.check_source(place, &stat, linked)?;
        let destination = self.open_destination(place, &stat)?;
        let absent = destination.is_none();
        let fresh = destination.as_ref().is_none_or(|(fresh, _)| *fresh);
        let (made, destination) = match destination {
            Some((_, fd)) => {
                let made = file::stat(&fd)
                    .map_err(|errno| Error::destination("examine", place.destination(), errno))?;
                (identity(&made), Some((fd, made.device == above.destination.0)))
            }
            None => (above.destination, None),
        };
        let same_source = stat.device == above.source.device;
        let open = Open::below(place.open, (source, same_source), destination);
        let private = above.private;
        let (source, destination, whole) = (stat, made, true);
        let entered = Entered { source, destination, fresh, absent, private, whole, linked };
        Ok((entered, open))
    }

    /// A source may be no destination, and a link may not lead to a directory that it lies in.
    fn check_source(&self, place: &Place<'_>, source: &Stat, linked: bool) -> Result<()> {
        let refuse =
            |text: &str| Err(Error::new("copy", place.source(), Reason::Refused(text.to_owned())));
        if self.job.is_destination(identity(source)) {
            return refuse("it is the destination of this copy; name a destination outside of it");
        }
        if linked && place.directory.lies_in(identity(source)) {
            return refuse(
                "the link leads to a directory that it lies in itself, which has no end; \
                 pass --links=preserve or leave it out",
            );
        }
        Ok(())
    }

    /// Makes or finds the directory that the copy goes to; `true`: it was made. `None`: it would be,
    /// in a dry run.
    fn open_destination(
        &mut self,
        place: &Place<'_>,
        source: &Stat,
    ) -> Result<Option<(bool, OwnedFd)>> {
        let fail = |operation, errno| Error::destination(operation, place.destination(), errno);
        let in_directory = &*place.open.destination;
        let above = &place.directory.entered;
        let dry_run = self.job.options.dry_run;
        let mode = self.creation_mode(place.directory, source);
        let mut made = match dry_run {
            true => Err(if above.absent { Errno::ENOENT } else { Errno::EEXIST }),
            false => directory::make(in_directory, place.target, mode),
        };
        match made {
            Ok(()) => {}
            Err(Errno::ENOENT) if dry_run => return Ok(None),
            Err(Errno::EEXIST) if above.fresh => {
                return Err(Error::new("make", place.destination(), Reason::Refused(TAKEN.into())));
            }
            Err(Errno::EEXIST) => {
                let stat = match directory::stat_name(in_directory, place.target) {
                    Err(Errno::ENOENT) if dry_run => return Ok(None),
                    other => other.map_err(|errno| fail("examine", errno))?,
                };
                let found = Side { kind: stat.file_type(), modified: stat.modified };
                let directory = Side { kind: EntryKind::Directory, modified: source.modified };
                let policy = Policy::of(self.job.options, above);
                match decide(directory, Some(found), policy) {
                    Decision::MakeRoom => {
                        self.make_room(place, found.kind)?;
                        if dry_run {
                            return Ok(None);
                        }
                        made = directory::make(in_directory, place.target, mode);
                        made.map_err(|errno| fail("make the directory", errno))?;
                    }
                    Decision::Refuse(text) => {
                        let reason = Reason::Refused(text.into());
                        return Err(Error::new("write to", place.destination(), reason));
                    }
                    _ if above.is_resumed() => make_fillable(place, &stat)?,
                    _ => {}
                }
            }
            Err(errno) => return Err(fail("make the directory", errno)),
        }
        let opened =
            directory::open_child(in_directory, place.target).or_else(|errno| match errno {
                Errno::EACCES => directory::open_child_path(in_directory, place.target),
                errno => Err(errno),
            });
        opened.map(|fd| Some((made.is_ok(), fd))).map_err(|errno| fail("open", errno))
    }

    /// The mode of a new directory until it is finished: it has to be filled first.
    fn creation_mode(&self, parent: &Directory, source: &Stat) -> u32 {
        let preserve = self.job.options.copy.preserve;
        let given_later = (preserve.mode || preserve.acl) && !parent.entered.private;
        if given_later { 0o700 } else { source.permissions() & 0o777 | 0o700 }
    }

    /// Lists a directory from a place on.
    pub(super) fn list(&mut self, directory: Arc<Directory>, from: u64) {
        match directory.open() {
            Ok(open) => self.list_open(directory, &open, from),
            Err(error) => {
                self.listing_failed(&directory, error);
                self.end(directory);
            }
        }
    }

    /// Lists an open directory: entries go into batches, directories wait to be entered.
    pub(super) fn list_open(&mut self, directory: Arc<Directory>, open: &Arc<Open>, from: u64) {
        if from == 0 {
            self.find_doubled(&directory, open);
        }
        let mut doubled: Vec<(OsString, FileType)> = Vec::new();
        let mut found: Vec<(OsString, bool)> = Vec::new();
        let room = MOST_WAITING.saturating_sub(self.job.queue.waiting_directories());
        let most = room.max(LEAST_FOUND);
        let mut go_on_from = None;
        let mut batch = Batch::new(&directory, open);
        let mut buffer = std::mem::take(&mut self.listing);
        let selection = &self.job.options.selection;
        let way = (!selection.is_everything()).then(|| directory.path_from_root());
        // It was just opened, and stands at its beginning.
        let rewound = if from == 0 { Ok(()) } else { directory::rewind_to(&open.source, from) };
        let mut entries = 0;
        let listed = rewound.and_then(|()| {
            directory::list(&open.source, &mut buffer, |entry| {
                let name = OsStr::from_bytes(entry.name.to_bytes());
                if let Some(way) = &way
                    && !selection.selects(&way.join(name), entry.kind == FileType::Directory)
                {
                    return !self.job.is_over();
                }
                entries += 1;
                if directory.is_doubled(name) {
                    doubled.push((name.to_owned(), entry.kind));
                } else if entry.kind == FileType::Directory {
                    found.push((name.to_owned(), false));
                } else if batch.add(entry) {
                    let full = std::mem::replace(&mut batch, Batch::new(&directory, open));
                    self.push(&directory, Task::Copy(full));
                }
                if found.len() >= most {
                    go_on_from = Some(entry.next);
                }
                go_on_from.is_none() && !self.job.is_over()
            })
        });
        self.job.counters.found.fetch_add(entries, Ordering::Relaxed);
        self.listing = buffer;
        for (name, kind) in doubled {
            let names =
                (directory.source_path().join(&name), directory.destination_path().join(&name));
            let error = Error::new("make", &names.1, Reason::Refused(TAKEN.into()));
            self.fail_at(|| names, kind_of(kind), error);
        }
        if let Err(errno) = listed {
            let error = Error::system("list", directory.source_path(), errno);
            self.listing_failed(&directory, error);
        }
        if !batch.is_empty() {
            self.push(&directory, Task::Copy(batch));
        }
        if let Some(from) = go_on_from {
            // Below those that were found, so that they come first. It ends the listing.
            let directory = Arc::clone(&directory);
            self.push(&directory.clone(), Task::List { directory, from });
        }
        for (name, linked) in found.into_iter().rev() {
            let parent = Arc::clone(&directory);
            self.push(&directory, Task::Enter { parent, name, linked });
        }
        self.end(directory);
    }

    fn listing_failed(&mut self, directory: &Arc<Directory>, error: Error) {
        directory.listing_failed.store(true, Ordering::Relaxed);
        self.fail_at(|| names(directory), EntryKind::Directory, error);
    }

    /// All that belongs in a directory is there: gives it its metadata.
    pub(super) fn finish_directory(&mut self, directory: &Arc<Directory>) {
        if directory.parent().is_none() {
            // A root is finished by who began it.
            return;
        }
        let finished = directory.open().and_then(|open| {
            self.delete_strangers(directory, &open);
            let entered = &directory.entered;
            let ours = entered.fresh || entered.private;
            let made = if ours { Made::AsSource } else { Made::Found };
            self.give_metadata(directory, &open, made)
        });
        match finished {
            Ok(given) => {
                let outcome = made_directory(directory, given);
                self.finish_at(|| names(directory), EntryKind::Directory, outcome);
            }
            Err(error) => self.fail_at(|| names(directory), EntryKind::Directory, error),
        }
    }

    pub(super) fn give_metadata(
        &self,
        directory: &Directory,
        open: &Open,
        made: Made<'_>,
    ) -> Result<Given> {
        if self.job.options.dry_run {
            return Ok(Given::default());
        }
        if let Some(journal) = self.job.journal() {
            let path = || directory.path_from_root();
            sweep_directory(&journal, path, open.destination.as_fd());
        }
        if !directory.entered.fresh && !directory.entered.private {
            let unproven = stale::sweep(open.destination.as_fd(), open.source.as_fd());
            let path = |name: &OsStr| directory.destination_path().join(name);
            self.job.add_unproven(unproven, path);
        }
        let options = &self.job.options.copy;
        let source = (open.source.as_fd(), &directory.entered.source);
        let destination = open.destination.as_fd();
        let nothing = matches!(made, Made::Found) && options.preserve == Default::default();
        let notes = if nothing {
            Vec::new()
        } else {
            metadata::apply_to_directory(destination, source, made, options.preserve)
        };
        if options.durable {
            file::sync(destination)
                .map_err(|e| Error::destination("flush", directory.destination_path(), e))?;
        }
        let flags_not_kept = match self.wants_records || directory.entered.source.is_flagged {
            true => metadata::flags_not_kept(open.source.as_fd(), destination),
            false => InodeFlags::default(),
        };
        Ok(Given { notes, flags_not_kept })
    }
}

/// What of a directory's metadata its copy has not.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) notes: Vec<String>,
    flags_not_kept: InodeFlags,
}

/// What is told of a directory that is done.
pub(super) fn made_directory(directory: &Directory, given: Given) -> Outcome {
    let Given { notes, flags_not_kept } = given;
    match directory.entered.absent {
        true => Outcome::Planned { action: Action::Make, mechanism: None },
        false => Outcome::Made { notes, flags_not_kept },
    }
}

fn names(directory: &Directory) -> (PathBuf, PathBuf) {
    (directory.source_path(), directory.destination_path())
}

/// Lets a directory be filled that a killed run had finished, perhaps with a mode that forbids it.
fn make_fillable(place: &Place<'_>, stat: &Stat) -> Result<()> {
    let mode = stat.permissions();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    directory::open_child_path(&*place.open.destination, place.target)
        .and_then(|handle| directory::set_permissions_of_handle(&handle, mode | 0o700))
        .map_err(|errno| Error::destination("set the mode of", place.destination(), errno))
}

/// Removes what a killed run made of an entry that has become of another kind since.
pub(super) fn remove_stale(place: &Place<'_>, kind: FileType) -> Result<()> {
    let from = &*place.open.destination;
    let removed = match kind {
        FileType::Directory => remove::tree(from, place.target),
        _ => name::unlink(from, place.target),
    };
    removed
        .map_err(|errno| Error::destination("remove what was begun of", place.destination(), errno))
}

/// Refuses an entry of a kind that it was not listed as.
pub(super) fn changed_kind(place: &Place<'_>, found: FileType) -> Error {
    let text = format!("it became {} after it was listed; copy again", describe(found));
    Error::new("copy", place.source(), Reason::Refused(text))
}
