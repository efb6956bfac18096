//! Opens the directories of a unit beneath its roots, and follows no link there.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::UnitError;
use crate::format::{Header, RelativePath, Root};
use crate::roots::{above, open_destination};
use uncopy_copy::guarded::{GuardedSource, SourcePlaces};
use uncopy_copy::peer::Peer;
use uncopy_core::{Errno, Error, Objection, Reason};
use uncopy_os::{Sys, directory, file, follow};

/// The open roots of a unit.
pub(super) struct Roots {
    pub(super) source: GuardedSource,
    pub(super) destination: OwnedFd,
    /// Where the source lies.
    places: SourcePlaces,
    /// Mounts that are known to show no part of the source: that of the destination, and some in it.
    other_mounts: Mutex<HashSet<u64>>,
}

/// Mode of a directory until the last unit gives it that of its source.
const UNFINISHED_MODE: u32 = 0o700;

impl Roots {
    /// Opens both roots. A destination that does not exist is made. `peer` has the source as its first root.
    pub(super) fn open(header: &Header, peer: Option<&Arc<dyn Peer>>) -> Result<Roots, UnitError> {
        let elsewhere = |root: &Root| UnitError::Elsewhere { root: root.as_path().to_owned() };
        let source = match (peer, header.source.here()) {
            (Some(peer), _) => GuardedSource::there(Arc::clone(peer), 0, header.source.as_path())?,
            (None, None) => return Err(elsewhere(&header.source)),
            (None, Some(from)) => follow::open_root(from)
                .or_else(|_| follow::open_directory(from))
                .map(GuardedSource::here)
                .map_err(|stopped| stopped.error("open", from))?,
        };
        let is_it = header
            .seen
            .source
            .is_none_or(|seen| source.examine().is_ok_and(|found| seen.is(&found)));
        source.check_connected()?;
        if !is_it {
            return Err(UnitError::OtherRoot { root: header.source.as_path().to_owned() });
        }
        let to = header.destination.here().ok_or_else(|| elsewhere(&header.destination))?;
        let destination = match open_destination(to, &header.seen, header.plan)? {
            Some(destination) => destination,
            None => {
                make_root(to)?;
                follow::open_root(to)
                    .or_else(|_| follow::open_directory(to))
                    .map_err(|stopped| stopped.at_destination("open", to))?
            }
        };
        let places = source.places(header.source.as_path());
        if let Some(tree) = places.source_around(&destination) {
            let reason = Reason::Refused(Objection::InsideSource { tree: tree.to_owned() });
            return Err(Error::new("copy to", to, reason).into());
        }
        let other_mounts = Mutex::new(file::mount_id(&destination).into_iter().collect());
        Ok(Roots { source, destination, places, other_mounts })
    }
}

/// Makes a destination that does not exist. Another worker may make it meanwhile.
fn make_root(path: &Path) -> Result<(), Error> {
    let (Some(parent), Some(name)) = (above(path), path.file_name()) else { return Ok(()) };
    let parent =
        follow::open_directory(parent).map_err(|stopped| stopped.at_destination("open", parent))?;
    match directory::make(parent, name, UNFINISHED_MODE) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(Error::destination("make", path, errno)),
    }
}

/// Reason why a directory beneath the destination is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// A call failed.
    System(Errno),
    /// The mount that it lies on shows a part of the source, holds it, or may.
    Refused(Objection),
}

impl From<Errno> for Unusable {
    fn from(errno: Errno) -> Unusable {
        Unusable::System(errno)
    }
}

impl Roots {
    /// Opens a directory beneath the destination. A part of the source is none.
    pub(super) fn open_below(&self, names: &[&OsStr]) -> Result<OwnedFd, Unusable> {
        let opened = open(&self.destination, names)?;
        self.check(&opened)?;
        Ok(opened)
    }

    /// Opens a directory beneath the destination, and makes it and those above it if there are none.
    pub(super) fn open_or_make(&self, names: &[&OsStr]) -> Result<OwnedFd, Unusable> {
        match self.open_below(names) {
            Err(Unusable::System(Errno::ENOENT)) if !names.is_empty() => {}
            other => return other,
        }
        let mut directory = open(&self.destination, &[])?;
        for name in names {
            match directory::make(&directory, name, UNFINISHED_MODE) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            directory = open(&directory, &[name])?;
            self.check(&directory)?;
        }
        Ok(directory)
    }

    /// Refuses a directory on a mount that shows a part of the source, or holds it.
    fn check(&self, directory: &OwnedFd) -> Result<(), Unusable> {
        let mount = file::mount_id(directory);
        let mut others = self.other_mounts.lock().unwrap_or_else(PoisonError::into_inner);
        if mount.is_some_and(|mount| others.contains(&mount)) {
            return Ok(());
        }
        self.places.check_mounted(directory).map_err(Unusable::Refused)?;
        others.extend(mount);
        Ok(())
    }
}

/// Opens a directory beneath another one.
fn open(root: &OwnedFd, names: &[&OsStr]) -> Sys<OwnedFd> {
    directory::open_beneath(root, names, false).or_else(|errno| match errno {
        Errno::EACCES => directory::open_beneath(root, names, true),
        errno => Err(errno),
    })
}

/// Returns the names above an entry, and its own.
pub(super) fn split(path: &RelativePath) -> (Vec<&OsStr>, &OsStr) {
    let mut names: Vec<&OsStr> = path.names().collect();
    let last = names.pop().unwrap_or(OsStr::new("."));
    (names, last)
}

/// Makes the error for an entry of the destination.
pub(super) fn at_destination(
    operation: &'static str,
    header: &Header,
    path: &RelativePath,
    unusable: impl Into<Unusable>,
) -> Error {
    let path = header.destination.as_path().join(path.as_path());
    match unusable.into() {
        Unusable::System(errno) => Error::destination(operation, path, errno),
        Unusable::Refused(why) => Error::new("copy to", path, Reason::Refused(why)),
    }
}

/// Makes the error of a call on an entry of the source. Another kind of thing at its name, or at one that leads to it, is a
/// change since the plan.
pub(super) fn at_source(
    operation: &'static str,
    header: &Header,
    path: &RelativePath,
    errno: Errno,
) -> Error {
    let path = header.source.as_path().join(path.as_path());
    match errno {
        Errno::ELOOP | Errno::ENOTDIR | Errno::ENXIO => {
            let what = "kind".to_owned();
            Error::new(operation, path, Reason::Refused(Objection::SourceSincePlan { what }))
        }
        errno => Error::system(operation, path, errno),
    }
}
