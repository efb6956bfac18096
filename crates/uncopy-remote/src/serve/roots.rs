//! Roots: the only paths that are opened; everything else is opened below them by name.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, OFlags};
use uncopy_core::Errno;
use uncopy_os::follow::{self, FollowResult};
use uncopy_os::name;

use super::descriptors::Descriptors;
use super::opened::{Opened, open_seen};

/// Directory that paths of roots begin at, and may be confined to.
#[derive(Debug)]
pub(crate) enum RootBase {
    /// Anywhere; relative paths begin at the working directory.
    Anywhere,
    /// Beneath this directory.
    Beneath(OwnedFd),
}

/// Roots of a session.
#[derive(Debug)]
pub(crate) struct Roots {
    base: RootBase,
    paths: Vec<PathBuf>,
}

impl Roots {
    pub(crate) fn new(base: RootBase, paths: Vec<PathBuf>) -> Roots {
        let whole = |path: PathBuf| match path.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => path,
        };
        Roots { base, paths: paths.into_iter().map(whole).collect() }
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.paths.len()).unwrap_or(u32::MAX)
    }

    /// Returns handles (`O_PATH`) of all roots that exist, and of what those that are links lead to.
    pub(crate) fn handles<'a>(&'a self) -> impl Iterator<Item = OwnedFd> + 'a {
        let both = |path: &'a PathBuf| [(path, false), (path, true)];
        let open = move |(path, follows): (&PathBuf, bool)| {
            self.open_path(path, follows, OFlags::PATH).ok()
        };
        self.paths.iter().flat_map(both).filter_map(open)
    }

    pub(super) fn open(
        &self,
        number: u32,
        follows: bool,
        descriptors: &Arc<Descriptors>,
    ) -> FollowResult<Opened> {
        let path = self.paths.get(number as usize).ok_or(Errno::ENOENT)?;
        let seen = open_seen(follows, |flags| self.open_path(path, follows, flags))?;
        Ok(Opened::root(seen, descriptors)?)
    }

    fn open_path(&self, path: &Path, follows: bool, flags: OFlags) -> FollowResult<OwnedFd> {
        // With a slash at the end a path names what a link leads to.
        let follows = follows || path.as_os_str().as_bytes().ends_with(b"/");
        match &self.base {
            RootBase::Anywhere if follows => follow::open(path, flags),
            RootBase::Anywhere => Ok(name::open_existing(CWD, path.as_os_str(), flags)?),
            RootBase::Beneath(base) if follows => {
                follow::open_beneath(base, path.as_os_str(), flags)
            }
            RootBase::Beneath(base) => match (path.parent(), path.file_name()) {
                (Some(parent), Some(last)) => {
                    let handle = OFlags::PATH | OFlags::DIRECTORY;
                    let parent = dot_if_empty(parent.as_os_str());
                    let parent = follow::open_beneath(base, &parent, handle)?;
                    Ok(name::open_existing(parent, last, flags)?)
                }
                // The directory itself.
                _ => Ok(name::open_existing(base, OsStr::new("."), flags)?),
            },
        }
    }
}

fn dot_if_empty(path: &OsStr) -> OsString {
    if path.is_empty() { OsString::from(".") } else { path.to_owned() }
}
