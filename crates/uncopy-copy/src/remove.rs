//! Removes a directory with its contents, at any depth.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::FileType;

use uncopy_core::Errno;
use uncopy_os::{Sys, directory, file, name};

/// Removes the directory `top` of a directory. Symbolic links in it are removed, not followed; mount
/// points in it stay (`EBUSY`).
pub(crate) fn tree(parent: impl AsFd, top: &OsStr) -> Sys<()> {
    let root = open(&parent, top)?;
    opened(parent, top, &root)
}

/// Removes a directory that the caller created and holds open for reading, whatever its mode is by now.
pub(crate) fn held(parent: impl AsFd, top: &OsStr, root: &OwnedFd) -> Sys<()> {
    if file::stat(root)?.permissions() & 0o700 != 0o700 {
        file::set_permissions(root, 0o700)?;
    }
    opened(parent, top, root)
}

/// Removes a directory that the caller opened. If another directory took its name, the contents of that
/// one stay.
pub(crate) fn opened(parent: impl AsFd, top: &OsStr, root: &OwnedFd) -> Sys<()> {
    let mut names: Vec<OsString> = Vec::new();
    let mut buffer = Vec::with_capacity(32 << 10);
    loop {
        let at = match names.is_empty() {
            true => file::duplicate(root)?,
            false => reopen(root, &names)?,
        };
        match first_full_directory(&at, buffer.spare_capacity_mut())? {
            Some(name) => {
                // Opened here once, so that its mode permits emptying it.
                drop(open(&at, &name)?);
                names.push(name);
            }
            None => {
                let Some(name) = names.pop() else { break };
                let parent = match names.is_empty() {
                    true => file::duplicate(root)?,
                    false => reopen(root, &names)?,
                };
                directory::remove(&parent, &name)?;
            }
        }
    }
    directory::remove(parent, top)
}

/// Opens the directory at the path `names` below another one.
pub(crate) fn reopen(root: &OwnedFd, names: &[OsString]) -> Sys<OwnedFd> {
    let names: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
    directory::open_beneath(root, &names, false)
}

/// Opens a directory; changes its mode first if that forbids it.
fn open(parent: impl AsFd, name: &OsStr) -> Sys<OwnedFd> {
    let opened = directory::open_child(&parent, name);
    let handle = match &opened {
        Ok(fd) if file::stat(fd)?.permissions() & 0o700 == 0o700 => return opened,
        Ok(_) | Err(Errno::EACCES) => directory::open_child_path(&parent, name)?,
        Err(errno) => return Err(*errno),
    };
    directory::set_permissions_of_handle(&handle, 0o700)?;
    directory::open_child(parent, name)
}

/// Removes all entries that can be removed at once. Returns the first non-empty directory.
fn first_full_directory(at: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> Sys<Option<OsString>> {
    let mut full = None;
    let mut failed = None;
    directory::rewind_to(at, 0)?;
    directory::list(at, buffer, |entry| {
        let name = OsStr::from_bytes(entry.name.to_bytes());
        let removed = match entry.kind {
            FileType::Directory => directory::remove(at, name),
            _ => match name::unlink(at, name) {
                Err(Errno::EISDIR) => directory::remove(at, name),
                other => other,
            },
        };
        match removed {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => full = Some(name.to_owned()),
            Err(errno) => failed = Some(errno),
        }
        full.is_none() && failed.is_none()
    })?;
    failed.map_or(Ok(full), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_removed_with_its_contents() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("top");
        std::fs::create_dir_all(top.join("a/b/c")).unwrap();
        std::fs::create_dir_all(top.join("a/d")).unwrap();
        std::fs::write(top.join("a/b/file"), "x").unwrap();
        std::fs::write(root.path().join("kept"), "x").unwrap();
        std::os::unix::fs::symlink("../kept", top.join("link")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o500);
        std::fs::set_permissions(top.join("a/b"), mode).unwrap();
        let parent = uncopy_os::follow::open_root(root.path()).unwrap();
        tree(&parent, OsStr::new("top")).unwrap();
        assert!(!top.exists());
        assert!(root.path().join("kept").exists());
    }

    #[test]
    fn another_directory_under_the_name_of_a_held_tree_stays() {
        let root = tempfile::tempdir().unwrap();
        let (top, away) = (root.path().join("top"), root.path().join("away"));
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        let parent = uncopy_os::follow::open_root(root.path()).unwrap();
        let held_open = directory::open_child(&parent, OsStr::new("top")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o500);
        std::fs::set_permissions(&top, mode).unwrap();
        std::fs::rename(&top, &away).unwrap();
        std::fs::create_dir_all(top.join("other")).unwrap();
        assert_eq!(held(&parent, OsStr::new("top"), &held_open), Err(Errno::ENOTEMPTY));
        assert!(top.join("other").exists());
        assert!(!away.join("a").exists());
        std::fs::remove_dir_all(&top).unwrap();
        std::fs::rename(&away, &top).unwrap();
        held(&parent, OsStr::new("top"), &held_open).unwrap();
        assert!(!top.exists());
    }
}
