//! Something that is open for the other end.

use std::ffi::{CString, OsStr, OsString};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{FileType, OFlags};
use uncopy_core::{Errno, Error, Filesystem};
use uncopy_os::file::{self, Stat};
use uncopy_os::follow::{FollowError, FollowResult};
use uncopy_os::{Sys, directory, transfer, xattr};
use uncopy_send::{FileTransferOptions, send_file};
use uncopy_wire::{Attribute, Entry, MAX_RANGES, MAX_VALUES_BYTES, Page, Status};

use super::answer::{CountedEntries, Digested, FoundRanges, ListedPage};
use super::descriptors::{Descriptor, Descriptors};
use super::directory::{Asking, OpenDirectory, WantedNames, WantedPage};
use crate::convert;
use crate::spare::SpareBuffers;

/// Something that is open.
#[derive(Debug)]
pub(super) struct Opened {
    /// Its status when it was opened.
    pub(super) status: Status,
    /// Target of a symbolic link.
    pub(super) target: Option<OsString>,
    thing: Thing,
}

#[derive(Debug)]
enum Thing {
    Directory(OpenDirectory),
    /// A regular file, open for reading.
    File(Descriptor),
    /// Anything else, only looked at.
    Other(Descriptor),
}

/// Descriptor and its status.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
}

/// Opens a file or directory for reading, and anything else as a handle (`O_PATH`): opening a device or a FIFO may have
/// effects. `open` opens with these flags; it is called again where the name is given to something else meanwhile.
/// `follows`: `open` follows links, and a link got its name meanwhile if it opens one.
pub(super) fn open_seen(
    follows: bool,
    open: impl Fn(OFlags) -> FollowResult<OwnedFd>,
) -> FollowResult<Seen> {
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let seen = open(OFlags::PATH)?;
        let stat = file::stat(&seen)?;
        let kind = stat.file_type();
        let flags = match kind {
            FileType::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
            FileType::RegularFile => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            FileType::Symlink if follows => continue,
            _ => return Ok(Seen { fd: seen, stat }),
        };
        drop(seen);
        let fd = match open(flags) {
            Err(FollowError::System(Errno::ENOTDIR | Errno::ELOOP | Errno::ENXIO)) => continue,
            other => other?,
        };
        let stat = examine(&fd)?;
        if stat.file_type() == kind {
            return Ok(Seen { fd, stat });
        }
    }
    Err(Errno::ESTALE.into())
}

/// Looks at something open. A file that is generated when it is read has no length before that, whatever its status says.
fn examine(fd: impl AsFd) -> Sys<Stat> {
    let stat = file::stat(&fd)?;
    // Files on disks need no further call.
    let may_be_generated = stat.file_type() == FileType::RegularFile
        && stat.size > 0
        && stat.blocks == 0
        && stat.device.0 == 0;
    match may_be_generated && Filesystem::from_magic(file::filesystem_magic(fd)?).is_pseudo() {
        true => Ok(Stat { size: 0, ..stat }),
        false => Ok(stat),
    }
}

impl Opened {
    /// Takes a root.
    pub(super) fn root(seen: Seen, descriptors: &Arc<Descriptors>) -> Sys<Opened> {
        Opened::new(seen, descriptors, OpenDirectory::root)
    }

    fn new(
        seen: Seen,
        descriptors: &Arc<Descriptors>,
        make_directory: impl FnOnce(Descriptor, &Stat) -> OpenDirectory,
    ) -> Sys<Opened> {
        let status = convert::status(&seen.stat).ok_or(Errno::EINVAL)?;
        let target = match seen.stat.file_type() {
            FileType::Symlink => Some(directory::read_link(&seen.fd, OsStr::new(""))?),
            _ => None,
        };
        let fd = descriptors.count(seen.fd);
        let thing = match seen.stat.file_type() {
            FileType::Directory => Thing::Directory(make_directory(fd, &seen.stat)),
            FileType::RegularFile => Thing::File(fd),
            _ => Thing::Other(fd),
        };
        Ok(Opened { status, target, thing })
    }

    fn directory(&self) -> Sys<&OpenDirectory> {
        match &self.thing {
            Thing::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn file(&self) -> Sys<&Descriptor> {
        match &self.thing {
            Thing::File(file) => Ok(file),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Calls `of` with the descriptor.
    fn with_descriptor<T>(
        &self,
        descriptors: &Arc<Descriptors>,
        of: impl FnOnce(&Descriptor) -> Sys<T>,
    ) -> Sys<T> {
        match &self.thing {
            Thing::Directory(directory) => of(&*directory.descriptor(descriptors)?),
            Thing::File(fd) | Thing::Other(fd) => of(fd),
        }
    }

    pub(super) fn open(
        &self,
        name: &[u8],
        follows: bool,
        descriptors: &Arc<Descriptors>,
    ) -> FollowResult<Opened> {
        let (parent, name) = (self.directory()?, OsStr::from_bytes(name));
        let found = parent.open(name, follows, descriptors)?;
        Ok(Opened::new(found, descriptors, |fd, stat| parent.child(name, fd, stat))?)
    }

    pub(super) fn look(&self, name: &[u8], descriptors: &Arc<Descriptors>) -> Sys<Entry> {
        self.directory()?.look(OsStr::from_bytes(name), descriptors)
    }

    /// Looks at entries by their names, as many as a page takes.
    pub(super) fn look_all(
        &self,
        wanted: WantedNames<'_>,
        descriptors: &Arc<Descriptors>,
    ) -> Sys<Page> {
        self.directory()?.look_all(wanted, descriptors)
    }

    /// Queues a page of the listing. `true`: no thread makes pages of it yet, and one is to begin.
    pub(super) fn queue_page(&self, id: u32, page: WantedPage) -> bool {
        self.directory().is_ok_and(|directory| directory.queue_page(id, page))
    }

    /// Takes out the next queued page.
    pub(super) fn next_page(&self) -> Option<(u32, WantedPage)> {
        self.directory().ok()?.next_page()
    }

    /// Whether another page is queued, which the thread sees to.
    pub(super) fn has_next_page(&self) -> bool {
        self.directory().is_ok_and(OpenDirectory::has_next_page)
    }

    pub(super) fn page(
        &self,
        asking: Asking,
        page: WantedPage,
        descriptors: &Arc<Descriptors>,
    ) -> Sys<ListedPage> {
        self.directory()?.page(asking, page, descriptors)
    }

    /// Forgets the listing of a connection that has ended.
    pub(super) fn forget_listing(&self, asking: Asking) {
        if let Ok(directory) = self.directory() {
            directory.forget_listing(asking);
        }
    }

    pub(super) fn examine(&self, descriptors: &Arc<Descriptors>) -> Sys<Stat> {
        self.with_descriptor(descriptors, |fd| examine(fd))
    }

    pub(super) fn ranges(&self, from: u64) -> Sys<FoundRanges> {
        let fd = self.file()?;
        let (mut ranges, mut at) = (Vec::new(), from);
        while ranges.len() < MAX_RANGES {
            let begin = match file::seek_data(fd, at) {
                Ok(begin) => begin,
                Err(Errno::ENXIO) => return Ok(FoundRanges { ranges, is_last: true }),
                Err(errno) => return Err(errno),
            };
            // The file may have become shorter meanwhile.
            match file::seek_hole(fd, begin) {
                Ok(end) if end > begin => {
                    ranges.push(begin..end);
                    at = end;
                }
                Ok(_) | Err(Errno::ENXIO) => return Ok(FoundRanges { ranges, is_last: true }),
                Err(errno) => return Err(errno),
            }
        }
        Ok(FoundRanges { ranges, is_last: false })
    }

    /// Reads into a buffer of `spare`.
    pub(super) fn read(&self, offset: u64, bytes: u32, spare: &SpareBuffers) -> Sys<Vec<u8>> {
        let file = self.file()?;
        let mut buffer = spare.take(bytes as usize);
        transfer::append_all_at(file, &mut buffer, bytes as usize, offset)?;
        Ok(buffer)
    }

    /// Returns the digest of bytes. Reads through `buffer`.
    pub(super) fn digest(&self, offset: u64, bytes: u32, buffer: &mut [u8]) -> Sys<Digested> {
        let (file, wanted) = (self.file()?, bytes as usize);
        let (mut hasher, mut done) = (blake3::Hasher::new(), 0);
        while done < wanted {
            let batch = (wanted - done).min(buffer.len());
            let read = transfer::read_all_at(file, &mut buffer[..batch], offset + done as u64)?;
            hasher.update(&buffer[..read]);
            done += read;
            if read < batch {
                break;
            }
        }
        Ok(Digested { bytes: done as u32, digest: *hasher.finalize().as_bytes() })
    }

    /// Sends a range over a socket.
    pub(super) fn send(
        &self,
        range: Range<u64>,
        socket: &TcpStream,
        deadline: Instant,
    ) -> Result<(), Error> {
        let file = self.file().map_err(|errno| Error::system("send", "the file", errno))?;
        let options = FileTransferOptions::new().deadline(Some(deadline));
        send_file(file, range, socket, &options)?;
        Ok(())
    }

    pub(super) fn attributes(&self, descriptors: &Arc<Descriptors>) -> Sys<Vec<Attribute>> {
        self.with_descriptor(descriptors, |fd| attributes_within(fd, MAX_VALUES_BYTES))
    }

    pub(super) fn attribute(
        &self,
        name: &[u8],
        descriptors: &Arc<Descriptors>,
    ) -> Sys<Option<Vec<u8>>> {
        let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
        self.with_descriptor(descriptors, |fd| xattr::get(fd, &name))
    }

    pub(super) fn count(
        &self,
        one_filesystem: bool,
        descriptors: &Arc<Descriptors>,
    ) -> Sys<CountedEntries> {
        self.directory()?.count(one_filesystem, descriptors)
    }

    /// Returns the time of the last use of a descriptor that may be closed meanwhile.
    pub(super) fn last_use(&self) -> Option<u64> {
        self.directory().ok()?.last_use()
    }

    pub(super) fn close_descriptor(&self) {
        if let Ok(directory) = self.directory() {
            directory.close_descriptor();
        }
    }
}

/// Returns the extended attributes of something open. Once values have this length together, those of the others are left
/// out: they are asked for one by one.
pub(super) fn attributes_within(fd: impl AsFd, max_bytes: usize) -> Sys<Vec<Attribute>> {
    let (fd, mut attributes, mut bytes) = (fd.as_fd(), Vec::new(), 0);
    for name in xattr::names(fd)? {
        let value = match bytes < max_bytes {
            true => match xattr::get(fd, &name)? {
                // It was removed meanwhile.
                None => continue,
                value => value,
            },
            false => None,
        };
        bytes += value.as_ref().map_or(0, Vec::len);
        attributes.push(Attribute { name: name.to_bytes().to_vec(), value });
    }
    Ok(attributes)
}
