//! Makes a directory under a temporary name, in which a tree is built, and gives it its name.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use super::journal::{Built, Journal};
use crate::private::{self, Private};
use crate::stale::{Noting, Register, Sweeper, Unproven};
use crate::{remove, stale};
use uncopy_core::{Errno, Error, Result};
use uncopy_os::file::Stat;
use uncopy_os::{Sys, directory, file, name};

/// A directory under a temporary name.
pub(super) struct Aside {
    pub(super) parent: OwnedFd,
    pub(super) temporary: OsString,
    pub(super) name: OsString,
    /// Record that marks it as this run's, unless a journal does.
    pub(super) register: Register,
    /// Whether no other user can act in it.
    pub(super) is_own: bool,
}

impl Aside {
    /// Makes a directory in `parent` for a tree that gets the name `name`.
    pub(super) fn make(parent: OwnedFd, name: &OsStr) -> Sys<(OwnedFd, Stat, Aside)> {
        let register = Register::new(Arc::new(file::duplicate(&parent)?), name);
        let noting = Noting { register: &register, path: &PathBuf::new, brief: false };
        let (Private { fd, name: temporary, stat, is_own }, noted) =
            private::make(parent.as_fd(), name, stale::Kind::Tree, noting)?;
        // The record has no other names, and says this one for as long as it is there.
        drop(noted);
        let aside = Aside { parent, temporary, name: name.to_owned(), register, is_own };
        Ok((fd, stat, aside))
    }

    /// Gives the finished tree its name.
    pub(super) fn put_in_place(&self, opened: &OwnedFd, destination: &Path) -> Result<()> {
        name::rename_new_directory(&self.parent, &self.temporary, &self.name)
            .or_else(|errno| if self.has_its_name(opened) { Ok(()) } else { Err(errno) })
            .map_err(|errno| Error::destination("put in place", destination, errno))
    }

    /// A server may have renamed it and then refused a repeated request.
    fn has_its_name(&self, opened: &OwnedFd) -> bool {
        let found = directory::stat_name(&self.parent, &self.name);
        found.is_ok_and(|found| file::stat(opened).is_ok_and(|own| found.is_same_file(&own)))
    }

    /// Flushes its parent directory.
    pub(super) fn flush_name(&self, destination: &Path) -> Result<()> {
        name::open_directory_for_reading(&self.parent)
            .and_then(file::sync)
            .map_err(|e| Error::destination("flush the directory of", destination, e))
    }

    /// Removes leftovers of killed runs to the same destination, and returns possible ones. A tree
    /// that a run left to the caller is kept; if the caller has renamed or removed that, the
    /// journal that named it is removed.
    pub(super) fn remove_leftovers(
        &self,
        sweeper: &dyn Sweeper,
        has_journal: bool,
    ) -> Vec<Unproven> {
        self.register.end();
        let parent = self.parent.as_fd();
        let mut unproven = sweeper.remove_leftovers(parent, &self.name);
        if let Some((built, own)) = Journal::kept(parent, &self.name) {
            unproven.retain(|found| found.name != built.name);
            if !has_journal && !is_there(parent, &built) {
                Journal::remove(parent, &stale::journal_name(&self.name), own);
            }
        }
        unproven
    }

    /// Removes the unfinished tree through its descriptor: its name may refer to another file by
    /// now.
    pub(super) fn remove(&self, opened: &OwnedFd) {
        // Left for the next run to remove if even this fails.
        if remove::held(&self.parent, &self.temporary, opened).is_err() {
            self.register.keep();
        }
    }
}

/// Whether a tree still has the name that it was begun under. An entry whose status cannot be
/// looked up may be the tree, and without birth times so may one with the same inode number.
pub(super) fn is_there(parent: BorrowedFd<'_>, built: &Built) -> bool {
    match directory::stat_name(parent, &built.name) {
        Ok(stat) => built.id == stat.id() && stat.file_type() == FileType::Directory,
        Err(errno) => errno != Errno::ENOENT,
    }
}

#[cfg(test)]
mod tests {
    use uncopy_os::follow;

    use super::*;

    /// Simulates a server that did it and got the request again.
    #[test]
    fn a_tree_that_has_its_name_is_in_place_whatever_was_answered() {
        let root = tempfile::tempdir().unwrap();
        let parent = || follow::open_root(root.path()).unwrap();
        let (fd, _, aside) = Aside::make(parent(), OsStr::new("tree")).unwrap();
        std::fs::rename(root.path().join(&aside.temporary), root.path().join("tree")).unwrap();
        aside.put_in_place(&fd, Path::new("tree")).unwrap();

        let (fd, _, aside) = Aside::make(parent(), OsStr::new("other")).unwrap();
        std::fs::rename(root.path().join(&aside.temporary), root.path().join("away")).unwrap();
        std::fs::create_dir(root.path().join("other")).unwrap();
        let error = aside.put_in_place(&fd, Path::new("other")).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENOENT));
        aside.register.end();
    }
}
