//! An open directory: its entries by name, and its listing in pages.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};
use uncopy_copy::count::{CountState, TreeCount};
use uncopy_copy::peer::has_hole;
use uncopy_core::Errno;
use uncopy_os::file::{self, Stat};
use uncopy_os::follow::{self, FollowResult};
use uncopy_os::{Sys, directory, name, transfer};
use uncopy_wire::{Attribute, Call, Entry, FailedEntry, Handle, Page, PageEntry};

use super::answer::{self, CountedEntries, ListedPage};
use super::descriptors::{Descriptor, Descriptors};
use super::opened::{Seen, attributes_within, open_seen};
use super::place::Place;
use crate::convert;
use crate::gate::lock;

/// Number of names that are read at a time.
const NAMES: usize = 512;
/// Length of the extended attributes of a file that come with its contents; longer ones are asked for when it is opened.
const ATTRIBUTES_BYTES: usize = 4 << 10;
/// Time after which a part of a count is answered.
const COUNT_TIME: Duration = Duration::from_millis(100);

/// Open directory.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    /// Descriptor of its root, which stays open as long as there is anything below it; `None`: it is the root.
    root: Option<Arc<Descriptor>>,
    place: Place,
    device: (u32, u32),
    inode: u64,
    /// Closed when there are too many; a root's stays.
    descriptor: Mutex<Option<Arc<Descriptor>>>,
    used: AtomicU64,
    /// Pages that the session asked for; and whether a thread makes them.
    queued: Mutex<QueuedPages>,
    /// Listings, by the connection that asks. They share the position of the descriptor, so pages are made one at a time.
    listings: Mutex<HashMap<Asking, Listing>>,
    /// Count that is under way.
    count: Mutex<Option<TreeCount>>,
}

/// Connection that asks for a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Asking {
    /// The session itself.
    Session,
    /// Data connection with this number.
    Data(u64),
}

/// Page that is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedPage {
    /// Position where the listing goes on; `None`: behind its last page.
    pub(super) position: Option<u64>,
    contents: WantedContents,
}

impl WantedPage {
    /// Returns the page that a call asks for.
    pub(super) fn of(call: &Call) -> Option<WantedPage> {
        let (position, up_to, of_files) = match *call {
            Call::List { contents_up_to, .. } => (None, contents_up_to, false),
            Call::ListFrom { position, contents_up_to, wants_attributes, .. } => {
                (position, contents_up_to, wants_attributes)
            }
            _ => return None,
        };
        let attributes = if of_files { WantedAttributes::OfFiles } else { WantedAttributes::None };
        Some(WantedPage { position, contents: WantedContents { up_to, attributes } })
    }
}

/// Entries that are asked for by their names.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedNames<'a> {
    pub(super) directory: Handle,
    way: &'a [Vec<u8>],
    names: &'a [Vec<u8>],
    contents: WantedContents,
}

/// Files whose contents are wanted, and the extended attributes that are.
#[derive(Debug, Clone, Copy)]
struct WantedContents {
    up_to: u32,
    attributes: WantedAttributes,
}

/// Extended attributes that are to come with entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WantedAttributes {
    None,
    /// Those of files with contents: a directory that was listed is opened before it is copied.
    OfFiles,
    /// Those of directories too.
    OfAll,
}

impl WantedNames<'_> {
    /// Returns the names that a call asks for.
    pub(super) fn of(call: &Call) -> Option<WantedNames<'_>> {
        match call {
            Call::LookAll { directory, way, names, contents_up_to, wants_attributes } => {
                let attributes = match wants_attributes {
                    true => WantedAttributes::OfAll,
                    false => WantedAttributes::None,
                };
                let contents = WantedContents { up_to: *contents_up_to, attributes };
                Some(WantedNames { directory: *directory, way, names, contents })
            }
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
struct QueuedPages {
    /// With the numbers of their calls.
    pages: VecDeque<(u32, WantedPage)>,
    is_made: bool,
}

/// Name that was read, and the position behind it.
#[derive(Debug)]
struct ReadName {
    name: OsString,
    next: u64,
}

/// Position of a listing.
#[derive(Debug, Default)]
struct Listing {
    names: VecDeque<ReadName>,
    /// Position behind the last page.
    given: u64,
    /// Position behind the names.
    position: u64,
    is_at_end: bool,
    /// Error that ended it.
    failure: Option<Errno>,
}

impl OpenDirectory {
    /// Takes a root.
    pub(super) fn root(fd: Descriptor, stat: &Stat) -> OpenDirectory {
        OpenDirectory::new(None, Place::default(), fd, stat)
    }

    /// Takes an entry of this directory.
    pub(super) fn child(&self, name: &OsStr, fd: Descriptor, stat: &Stat) -> OpenDirectory {
        let root = self.root.clone().or_else(|| lock(&self.descriptor).clone());
        OpenDirectory::new(root, self.place.child(name), fd, stat)
    }

    fn new(
        root: Option<Arc<Descriptor>>,
        place: Place,
        fd: Descriptor,
        stat: &Stat,
    ) -> OpenDirectory {
        OpenDirectory {
            root,
            place,
            device: stat.device,
            inode: stat.inode,
            descriptor: Mutex::new(Some(Arc::new(fd))),
            used: AtomicU64::new(0),
            queued: Mutex::default(),
            listings: Mutex::default(),
            count: Mutex::default(),
        }
    }

    /// Returns its descriptor, which is opened again if it was closed meanwhile.
    pub(super) fn descriptor(&self, descriptors: &Arc<Descriptors>) -> Sys<Arc<Descriptor>> {
        self.used.store(descriptors.now(), Ordering::Relaxed);
        let mut descriptor = lock(&self.descriptor);
        if let Some(fd) = &*descriptor {
            return Ok(Arc::clone(fd));
        }
        let root = self.root.as_ref().ok_or(Errno::EBADF)?;
        let names = self.place.names();
        let fd = match directory::open_beneath(root.as_fd(), &names, false) {
            // It was reached through a link.
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                let path = names.join(OsStr::new("/"));
                follow::open_beneath(root.as_fd(), &path, OFlags::RDONLY | OFlags::DIRECTORY)
                    .map_err(|stopped| stopped.errno())?
            }
            other => other?,
        };
        let stat = file::stat(&fd)?;
        if (stat.device, stat.inode) != (self.device, self.inode) {
            return Err(Errno::ESTALE);
        }
        let fd = Arc::new(descriptors.count(fd));
        *descriptor = Some(Arc::clone(&fd));
        Ok(fd)
    }

    pub(super) fn last_use(&self) -> Option<u64> {
        let is_open = self.root.is_some() && lock(&self.descriptor).is_some();
        is_open.then(|| self.used.load(Ordering::Relaxed))
    }

    pub(super) fn close_descriptor(&self) {
        if self.root.is_some() {
            lock(&self.descriptor).take();
        }
    }

    pub(super) fn open(
        &self,
        name: &OsStr,
        follows: bool,
        descriptors: &Arc<Descriptors>,
    ) -> FollowResult<Seen> {
        let here = self.descriptor(descriptors)?;
        let named = |flags| Ok(name::open_existing(here.as_fd(), name, flags)?);
        let seen = open_seen(false, named)?;
        match (seen.stat.file_type(), follows) {
            (FileType::Symlink, true) => {
                drop(seen);
                let root = self.root.clone().unwrap_or(here);
                let path = self.place.path_of(name);
                open_seen(true, |flags| follow::open_beneath(root.as_fd(), &path, flags))
            }
            _ => Ok(seen),
        }
    }

    pub(super) fn look(&self, name: &OsStr, descriptors: &Arc<Descriptors>) -> Sys<Entry> {
        let here = self.descriptor(descriptors)?;
        entry(&here, name, None)
    }

    /// Looks at entries of a directory below it, as many as a page takes.
    pub(super) fn look_all(
        &self,
        wanted: WantedNames<'_>,
        descriptors: &Arc<Descriptors>,
    ) -> Sys<Page> {
        let mut here = self.descriptor(descriptors)?;
        if !wanted.way.is_empty() {
            let way: Vec<&OsStr> = wanted.way.iter().map(|name| OsStr::from_bytes(name)).collect();
            // Names in a directory that cannot be listed can be opened all the same.
            let fd = directory::open_beneath(here.as_fd(), &way, true)?;
            here = Arc::new(descriptors.count(fd));
        }
        let mut page = Page::with_attributes();
        for name in wanted.names {
            let name = OsStr::from_bytes(name);
            page.push(&page_entry(name, entry(&here, name, Some(wanted.contents))));
            if page.is_full() {
                break;
            }
        }
        Ok(page)
    }

    /// Queues a page. `true`: no thread makes pages yet.
    pub(super) fn queue_page(&self, id: u32, page: WantedPage) -> bool {
        let mut queued = lock(&self.queued);
        queued.pages.push_back((id, page));
        !std::mem::replace(&mut queued.is_made, true)
    }

    /// Takes out the next queued page.
    pub(super) fn next_page(&self) -> Option<(u32, WantedPage)> {
        lock(&self.queued).pages.pop_front()
    }

    /// Whether another page is queued. If not, the next one that is queued takes a thread again.
    pub(super) fn has_next_page(&self) -> bool {
        let mut queued = lock(&self.queued);
        queued.is_made = !queued.pages.is_empty();
        queued.is_made
    }

    /// Counts on what is below it for a while.
    pub(super) fn count(
        &self,
        one_filesystem: bool,
        descriptors: &Arc<Descriptors>,
    ) -> Sys<CountedEntries> {
        let here = self.descriptor(descriptors)?;
        let mut tree = lock(&self.count);
        let tree = tree.get_or_insert_with(|| TreeCount::new(one_filesystem));
        let (begin, mut found) = (Instant::now(), CountedEntries::default());
        loop {
            let state = tree.next_directory(here.as_fd(), &mut |bytes| {
                found.entries += 1;
                found.bytes = found.bytes.saturating_add(bytes.unwrap_or(0));
                true
            });
            match state {
                CountState::Waiting if begin.elapsed() < COUNT_TIME => {}
                CountState::Waiting => return Ok(found),
                CountState::Done => return Ok(CountedEntries { is_last: true, ..found }),
                CountState::GivenUp => return Err(Errno::EOVERFLOW),
            }
        }
    }

    /// Makes the next page of a listing.
    pub(super) fn page(
        &self,
        asking: Asking,
        wanted: WantedPage,
        descriptors: &Arc<Descriptors>,
    ) -> Sys<ListedPage> {
        let here = self.descriptor(descriptors)?;
        let mut listings = lock(&self.listings);
        let listing = listings.entry(asking).or_default();
        if let Some(position) = wanted.position {
            *listing = Listing { given: position, position, ..Listing::default() };
        }
        if let Some(errno) = listing.failure {
            return Err(errno);
        }
        // A later page does not silently leave out an entry that could not be listed.
        let page = listing.page(&here, wanted.contents);
        page.inspect_err(|errno| listing.failure = Some(*errno))
    }

    /// Forgets the listing of a connection that has ended.
    pub(super) fn forget_listing(&self, asking: Asking) {
        lock(&self.listings).remove(&asking);
    }
}

impl Listing {
    fn page(&mut self, here: &Descriptor, wanted: WantedContents) -> Sys<ListedPage> {
        let mut page = match wanted.attributes {
            WantedAttributes::None => Page::default(),
            _ => Page::with_attributes(),
        };
        while !page.is_full() {
            if self.names.is_empty() && !self.is_at_end {
                self.read_on(here)?;
            }
            let Some(ReadName { name, next }) = self.names.pop_front() else { break };
            self.given = next;
            match entry(here, &name, Some(wanted)) {
                // It was removed meanwhile.
                Err(Errno::ENOENT) => {}
                looked => page.push(&page_entry(&name, looked)),
            }
        }
        let is_last = self.names.is_empty() && self.is_at_end;
        Ok(ListedPage { page, is_last, position: self.given })
    }

    fn read_on(&mut self, here: &Descriptor) -> Sys<()> {
        let mut buffer = [MaybeUninit::uninit(); 32 << 10];
        // The descriptor may be a new one, and the buffer may have held more than was taken.
        directory::rewind_to(here, self.position)?;
        let Listing { names, position, .. } = self;
        let is_at_end = directory::list(here, &mut buffer, |entry| {
            let name = OsString::from_vec(entry.name.to_bytes().to_vec());
            names.push_back(ReadName { name, next: entry.next });
            *position = entry.next;
            names.len() < NAMES
        })?;
        self.is_at_end = is_at_end;
        Ok(())
    }
}

fn page_entry(name: &OsStr, looked: Sys<Entry>) -> PageEntry {
    match looked {
        Ok(entry) => PageEntry::Seen(entry),
        Err(errno) => {
            let (name, errno) = (name.as_bytes().to_vec(), answer::raw(errno));
            PageEntry::Failed(FailedEntry { name, errno })
        }
    }
}

/// Returns an entry of a directory; with its contents and extended attributes, if they are wanted.
fn entry(here: &Descriptor, name: &OsStr, wanted: Option<WantedContents>) -> Sys<Entry> {
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let stat = directory::stat_name(here, name)?;
        let (mut target, mut contents, mut attributes) = (None, None, None);
        let mut status = convert::status(&stat).ok_or(Errno::EINVAL)?;
        match stat.file_type() {
            FileType::Symlink => match directory::read_link(here, name) {
                Ok(found) => target = Some(found.into_vec()),
                // Something else has got its name.
                Err(Errno::EINVAL) => continue,
                Err(errno) => return Err(errno),
            },
            FileType::RegularFile => {
                if let Some(whole) = wanted
                    .filter(|wanted| stat.size <= u64::from(wanted.up_to))
                    .and_then(|wanted| whole_contents(here, name, wanted))
                {
                    status = convert::status(&whole.stat).ok_or(Errno::EINVAL)?;
                    (contents, attributes) = (Some(whole.bytes), whole.attributes);
                }
            }
            FileType::Directory
                if wanted.is_some_and(|wanted| wanted.attributes == WantedAttributes::OfAll) =>
            {
                if let Some((stat, all)) = whole_directory(here, name) {
                    status = convert::status(&stat).ok_or(Errno::EINVAL)?;
                    attributes = Some(all);
                }
            }
            _ => {}
        }
        return Ok(Entry { name: name.as_bytes().to_vec(), status, target, contents, attributes });
    }
    Err(Errno::ESTALE)
}

/// All of a small file.
struct WholeFile {
    stat: Stat,
    bytes: Vec<u8>,
    attributes: Option<Vec<Attribute>>,
}

/// Returns all of a file, if it did not change meanwhile. Why not otherwise is found out by who opens it.
fn whole_contents(here: &Descriptor, name: &OsStr, wanted: WantedContents) -> Option<WholeFile> {
    let fd = name::open_existing(here, name, OFlags::RDONLY).ok()?;
    let stat = file::stat(&fd).ok()?;
    if stat.file_type() != FileType::RegularFile || stat.size > u64::from(wanted.up_to) {
        return None;
    }
    // Looked at first: what changes them also changes the status, which is looked at last.
    let attributes = match wanted.attributes {
        WantedAttributes::None => None,
        _ => short_attributes(&fd),
    };
    let bytes = contents_as_of(&fd, &stat)?;
    Some(WholeFile { stat, bytes, attributes })
}

/// Returns the status and extended attributes of a directory, if it did not change meanwhile and can be read.
fn whole_directory(here: &Descriptor, name: &OsStr) -> Option<(Stat, Vec<Attribute>)> {
    let fd = directory::open_child(here, name).ok()?;
    let before = file::stat(&fd).ok()?;
    let attributes = short_attributes(&fd)?;
    (file::stat(&fd).ok()?.changed == before.changed).then_some((before, attributes))
}

/// Returns all extended attributes of a file or directory, if they are short and can be read.
fn short_attributes(fd: &OwnedFd) -> Option<Vec<Attribute>> {
    let attributes = match attributes_within(fd, ATTRIBUTES_BYTES) {
        Err(Errno::EOPNOTSUPP) => Vec::new(),
        other => other.ok()?,
    };
    let bytes =
        |attribute: &Attribute| Some(attribute.name.len() + attribute.value.as_ref()?.len());
    let all: Option<usize> = attributes.iter().map(bytes).sum();
    (all? <= ATTRIBUTES_BYTES).then_some(attributes)
}

/// Returns all bytes of a file without holes, if its status is still this one behind them.
fn contents_as_of(fd: impl AsFd, before: &Stat) -> Option<Vec<u8>> {
    // One byte more shows whether there are more than the status says.
    let mut bytes = vec![0; usize::try_from(before.size).ok()? + 1];
    let read = transfer::read_all_at(&fd, &mut bytes, 0).ok()?;
    let after = file::stat(&fd).ok()?;
    let is_unchanged = (before.size, before.modified, before.changed)
        == (after.size, after.modified, after.changed);
    bytes.truncate(read);
    (read as u64 == before.size && is_unchanged && !has_hole(&fd, &bytes)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::thread::sleep;

    use super::*;

    #[test]
    fn contents_come_only_if_the_file_is_as_it_was() {
        let path = tempfile::tempdir().unwrap();
        let mut file = File::create_new(path.path().join("f")).unwrap();
        file.write_all(b"before").unwrap();
        let read = File::open(path.path().join("f")).unwrap();
        let before = file::stat(&read).unwrap();
        assert_eq!(contents_as_of(&read, &before).unwrap(), b"before");
        // Times go on in steps.
        sleep(Duration::from_millis(50));
        transfer::write_all_at(&file, b"behind", 0).unwrap();
        assert_eq!(contents_as_of(&read, &before), None);
        let now = file::stat(&read).unwrap();
        assert_eq!(contents_as_of(&read, &now).unwrap(), b"behind");
        for other in [5, 7] {
            assert_eq!(contents_as_of(&read, &Stat { size: other, ..now.clone() }), None);
        }
    }
}
