//! Defines a directory of the source: on this machine, or on another one.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::metadata::AttributeSource;
use crate::options::Preserve;
use crate::peer_directory::PeerDirectory;
use crate::stale;
use uncopy_core::{Errno, Error, Result};
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, directory};

/// An open directory of the source.
#[derive(Debug)]
pub(crate) enum SourceDirectory {
    /// On this machine.
    Here(OwnedFd),
    /// On another machine.
    There(Arc<PeerDirectory>),
}

impl SourceDirectory {
    /// Returns its descriptor. `EXDEV`: it is on another machine.
    pub(crate) fn fd(&self) -> Sys<&OwnedFd> {
        self.here().ok_or(Errno::EXDEV)
    }

    /// Returns its descriptor, if it is on this machine.
    pub(crate) fn here(&self) -> Option<&OwnedFd> {
        match self {
            SourceDirectory::Here(fd) => Some(fd),
            SourceDirectory::There(_) => None,
        }
    }

    /// Returns the directory, if it is on another machine.
    pub(crate) fn there(&self) -> Option<&Arc<PeerDirectory>> {
        match self {
            SourceDirectory::Here(_) => None,
            SourceDirectory::There(directory) => Some(directory),
        }
    }

    /// Opens a directory in it.
    pub(crate) fn open_child(&self, name: &OsStr) -> Sys<SourceDirectory> {
        match self {
            SourceDirectory::Here(fd) => {
                Ok(SourceDirectory::Here(directory::open_child(fd, name)?))
            }
            SourceDirectory::There(directory) => open_there(directory, name, false),
        }
    }

    /// Opens what a path of directories below it leads to.
    pub(crate) fn open_beneath(&self, names: &[&OsStr]) -> Sys<SourceDirectory> {
        match self {
            SourceDirectory::Here(fd) => {
                Ok(SourceDirectory::Here(directory::open_beneath(fd, names, false)?))
            }
            SourceDirectory::There(above) => {
                let mut at = SourceDirectory::There(Arc::clone(above));
                for name in names {
                    at = at.open_child(name)?;
                }
                Ok(at)
            }
        }
    }

    /// Returns its status: on another machine, when it was opened.
    pub(crate) fn stat(&self) -> Sys<Stat> {
        match self {
            SourceDirectory::Here(fd) => file::stat(fd),
            SourceDirectory::There(directory) => Ok(directory.stat().clone()),
        }
    }

    /// Returns a status of it, or of something in it, by which it is known if it is among the files of this machine.
    pub(crate) fn stat_here(&self, stat: &Stat) -> Stat {
        match self {
            SourceDirectory::Here(_) => stat.clone(),
            SourceDirectory::There(directory) => directory.link().stat_here(stat),
        }
    }

    /// Whether it has no entry. On this machine it is listed again.
    pub(crate) fn is_empty(&self) -> Sys<bool> {
        match self {
            SourceDirectory::Here(fd) => {
                directory::rewind_to(fd, 0)?;
                directory::list(fd, &mut [MaybeUninit::uninit(); 1024], |_| false)
            }
            SourceDirectory::There(directory) => directory.is_empty(),
        }
    }

    /// Looks at it again.
    pub(crate) fn examine(&self) -> Sys<Stat> {
        match self {
            SourceDirectory::Here(fd) => file::stat(fd),
            SourceDirectory::There(directory) => directory.examine(),
        }
    }

    /// Looks at an entry; a symbolic link is not followed.
    pub(crate) fn stat_name(&self, name: &OsStr) -> Sys<Stat> {
        match self {
            SourceDirectory::Here(fd) => directory::stat_name(fd, name),
            SourceDirectory::There(directory) => Ok(directory.look(name)?.stat),
        }
    }

    /// Whether it has an entry, for what its listing does not show. `ENOENT`: it has none.
    pub(crate) fn look_up(&self, name: &OsStr) -> Sys<()> {
        match self.there().and_then(|directory| directory.has_listed(name)) {
            Some(true) => Ok(()),
            // A name may have been added since.
            _ => self.stat_name(name).map(|_| ()),
        }
    }

    /// Does the same in a directory below it.
    pub(crate) fn look_up_below(&self, path: &OsStr, name: &OsStr) -> Sys<()> {
        match self {
            SourceDirectory::Here(fd) => stale::look_up(fd.as_fd(), path, name),
            SourceDirectory::There(_) if path.is_empty() => self.look_up(name),
            SourceDirectory::There(_) => {
                let names: Vec<&OsStr> = Path::new(path).iter().collect();
                self.open_beneath(&names)?.look_up(name)
            }
        }
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn read_link(&self, name: &OsStr) -> Sys<OsString> {
        match self {
            SourceDirectory::Here(fd) => directory::read_link(fd, name),
            SourceDirectory::There(directory) => directory.look(name)?.target.ok_or(Errno::EINVAL),
        }
    }

    /// Returns where its extended attributes are copied from.
    pub(crate) fn attributes(&self, preserve: Preserve) -> AttributeSource<'_> {
        match self {
            SourceDirectory::Here(fd) => AttributeSource::Here(fd.as_fd()),
            SourceDirectory::There(directory) => {
                AttributeSource::there(preserve, || directory.attributes())
            }
        }
    }

    /// Returns where the extended attributes of an entry that is neither a file nor a directory are copied from.
    pub(crate) fn attributes_of(
        &self,
        name: &OsStr,
        stat: &Stat,
        preserve: Preserve,
    ) -> AttributeSource<'static> {
        let Some(directory) = self.there() else {
            return AttributeSource::There(Err(Errno::EXDEV));
        };
        AttributeSource::there(preserve, || {
            let (object, now) = directory.open_any(name, false)?;
            match now.is_same_file(stat) {
                true => object.attributes(),
                false => Err(Errno::ESTALE),
            }
        })
    }

    /// Fails if the other machine was lost, so that what could not be asked is not taken for an answer.
    pub(crate) fn check_connected(&self) -> Result<()> {
        self.there().and_then(|directory| directory.link().lost()).map_or(Ok(()), Err::<(), Error>)
    }
}

/// Opens an entry of another machine, which must be a directory.
pub(crate) fn open_there(
    above: &Arc<PeerDirectory>,
    name: &OsStr,
    follows: bool,
) -> Sys<SourceDirectory> {
    let (object, stat) = above.open(name, follows)?;
    if stat.file_type() != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    Ok(SourceDirectory::There(Arc::new(PeerDirectory::of_opened(object, stat))))
}
