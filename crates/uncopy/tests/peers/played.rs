//! Plays the other machine by directories of this one, counts the questions, and fails where a test wants it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{FileType, OFlags};
use uncopy::copy::count::{CountState, TreeCount};
use uncopy::copy::peer::{
    Peer, PeerAttribute, PeerContents, PeerCount, PeerEntry, PeerError, PeerFailedEntry,
    PeerHandle, PeerLooks, PeerNamed, PeerNames, PeerOpened, PeerPage, PeerRanges,
};
use uncopy_core::Errno;
use uncopy_os::file::{self, Stat};
use uncopy_os::{directory, follow, name, transfer, xattr};

/// Kinds of questions, by their names in the trait but for one.
pub(crate) const QUESTIONS: [&str; 10] = [
    "open_root",
    "open",
    // A link that is not followed, for its attributes.
    "open_link",
    "list",
    "look",
    "examine",
    "data_ranges",
    "read",
    "attributes",
    "attribute",
];

/// Fault of one question.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) question: &'static str,
    /// Number of the question of its kind that fails, from 1 on.
    pub(crate) number: u64,
    pub(crate) error: PeerError,
}

/// Something that a test does behind the look at an entry.
struct AfterLook(Box<dyn Fn(&OsStr) + Send + Sync>);

impl std::fmt::Debug for AfterLook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AfterLook")
    }
}

/// The other machine.
#[derive(Debug)]
pub(crate) struct Played {
    roots: Vec<PathBuf>,
    open: Mutex<HashMap<u32, Held>>,
    next: AtomicU32,
    asked: Mutex<BTreeMap<&'static str, u64>>,
    fault: Option<Fault>,
    /// Number of bytes of files that can be read before the connection ends.
    lost_after_bytes: Option<u64>,
    /// Whether the bytes of files differ when they are looked at again.
    are_changing: bool,
    after_look: Option<AfterLook>,
    sent: AtomicU64,
    /// Entries in a part of a listing.
    page_entries: usize,
    /// Parts of a file that are handed on at a time.
    part_bytes: usize,
}

#[derive(Debug)]
struct Held {
    fd: Arc<OwnedFd>,
    root: PathBuf,
    listing: Option<std::vec::IntoIter<OsString>>,
    tree: Option<TreeCount>,
}

fn system(errno: Errno) -> PeerError {
    PeerError::System(errno)
}

impl Played {
    pub(crate) fn new<P: AsRef<Path>>(roots: impl IntoIterator<Item = P>) -> Played {
        Played {
            roots: roots.into_iter().map(|root| root.as_ref().to_owned()).collect(),
            open: Mutex::default(),
            next: AtomicU32::new(1),
            asked: Mutex::default(),
            fault: None,
            lost_after_bytes: None,
            are_changing: false,
            after_look: None,
            sent: AtomicU64::new(0),
            page_entries: 100,
            part_bytes: 1 << 20,
        }
    }

    /// Fails once.
    pub(crate) fn failing(self, fault: Fault) -> Played {
        Played { fault: Some(fault), ..self }
    }

    /// Loses the connection after this number of bytes.
    pub(crate) fn lost_after(self, bytes: u64) -> Played {
        Played { lost_after_bytes: Some(bytes), ..self }
    }

    /// Has files that change while they are read, without a trace in their status.
    pub(crate) fn changing(self) -> Played {
        Played { are_changing: true, ..self }
    }

    /// Does something behind the look at each entry that is asked for ahead.
    pub(crate) fn after_look(self, act: impl Fn(&OsStr) + Send + Sync + 'static) -> Played {
        Played { after_look: Some(AfterLook(Box::new(act))), ..self }
    }

    /// Returns how often each question came.
    pub(crate) fn questions(&self) -> BTreeMap<&'static str, u64> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the number of bytes of files that were read.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn asked_about(&self, question: &str) -> u64 {
        self.questions().get(question).copied().unwrap_or(0)
    }

    /// Returns the number of what was opened and not closed.
    pub(crate) fn left_open(&self) -> usize {
        self.open.lock().unwrap().len()
    }

    fn count(&self, question: &'static str) -> Result<(), PeerError> {
        let mut asked = self.asked.lock().unwrap();
        let number = asked.entry(question).or_default();
        *number += 1;
        match &self.fault {
            Some(fault) if fault.question == question && fault.number == *number => {
                Err(fault.error.clone())
            }
            _ => Ok(()),
        }
    }

    fn held<T>(
        &self,
        handle: PeerHandle,
        look: impl FnOnce(&mut Held) -> Result<T, PeerError>,
    ) -> Result<T, PeerError> {
        let mut open = self.open.lock().unwrap();
        look(open.get_mut(&handle.0).expect("a handle is used while it is open"))
    }

    fn fd(&self, handle: PeerHandle) -> Result<Arc<OwnedFd>, PeerError> {
        self.held(handle, |held| Ok(Arc::clone(&held.fd)))
    }

    fn hold(&self, fd: OwnedFd, root: &Path) -> Result<PeerOpened, PeerError> {
        let stat = file::stat(&fd).map_err(system)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let held = Held { fd: Arc::new(fd), root: root.to_owned(), listing: None, tree: None };
        self.open.lock().unwrap().insert(number, held);
        Ok(PeerOpened { handle: PeerHandle(number), stat })
    }

    fn open_at(
        &self,
        above: &OwnedFd,
        name: &OsStr,
        follows: bool,
        root: &Path,
    ) -> Result<PeerOpened, PeerError> {
        let flags = |kind| match kind {
            FileType::RegularFile => OFlags::RDONLY,
            FileType::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => OFlags::PATH,
        };
        let stat = directory::stat_name(above, name).map_err(system)?;
        if stat.file_type() == FileType::Symlink && follows {
            let path = follow::open_at(above, name, OFlags::PATH, 0);
            let path = path.map_err(|stopped| system(stopped.errno()))?;
            let kind = file::stat(&path).map_err(system)?.file_type();
            return self.hold(file::reopen(&path, flags(kind)).map_err(system)?, root);
        }
        let opened = name::open_existing(above, name, flags(stat.file_type()));
        self.hold(opened.map_err(system)?, root)
    }

    fn entry(
        &self,
        above: &OwnedFd,
        name: &OsStr,
        wanted: PeerContents,
    ) -> Result<PeerEntry, PeerError> {
        let stat = directory::stat_name(above, name).map_err(system)?;
        let (mut target, mut contents) = (None, None);
        match stat.file_type() {
            FileType::Symlink => {
                target = Some(directory::read_link(above, name).map_err(system)?);
            }
            FileType::RegularFile if wanted.up_to > 0 && stat.size <= u64::from(wanted.up_to) => {
                contents = read_whole(above, name, &stat);
            }
            _ => {}
        }
        let has_attributes = wanted.with_attributes && contents.is_some();
        let attributes = has_attributes.then(|| all_attributes(above, name)).transpose()?;
        Ok(PeerEntry { name: name.to_owned(), stat, target, contents, attributes })
    }
}

/// Looks at entries by their names, a few at a time.
#[derive(Debug)]
struct Looks {
    played: Arc<Played>,
    directory: PeerHandle,
    names: Arc<[PeerNames]>,
    contents: PeerContents,
    at: (usize, usize),
}

impl PeerLooks for Looks {
    fn next(&mut self) -> Result<Vec<PeerNamed>, PeerError> {
        let PeerNames { way, names } = &self.names[self.at.0];
        let from = self.at.1;
        let to = names.len().min(from + 3);
        let behind = if to == names.len() { (self.at.0 + 1, 0) } else { (self.at.0, to) };
        let look = || -> Result<Vec<PeerNamed>, PeerError> {
            self.played.count("look_ahead")?;
            let way: Vec<&OsStr> = way.iter().map(OsString::as_os_str).collect();
            let above = directory::open_beneath(&*self.played.fd(self.directory)?, &way, false)
                .map_err(system)?;
            names[from..to].iter().map(|name| self.look_at(&above, name)).collect()
        };
        let looked = look();
        self.at = if looked.is_ok() { behind } else { (self.at.0 + 1, 0) };
        looked
    }
}

impl Looks {
    fn look_at(&self, above: &OwnedFd, name: &OsStr) -> Result<PeerNamed, PeerError> {
        let looked = match self.played.entry(above, name, self.contents) {
            Ok(entry) => PeerNamed::Seen(entry),
            Err(PeerError::System(errno)) => {
                PeerNamed::Failed(PeerFailedEntry { name: name.to_owned(), errno })
            }
            Err(lost) => return Err(lost),
        };
        if let Some(AfterLook(act)) = &self.played.after_look {
            act(name);
        }
        Ok(looked)
    }
}

fn all_attributes(above: &OwnedFd, name: &OsStr) -> Result<Vec<PeerAttribute>, PeerError> {
    let fd = name::open_existing(above, name, OFlags::RDONLY).map_err(system)?;
    let names = xattr::names(&fd).map_err(system)?;
    let attribute = |name: &CString| {
        let value = xattr::get(&fd, name).map_err(system)?;
        Ok(PeerAttribute { name: OsStr::from_bytes(name.to_bytes()).to_owned(), value })
    };
    names.iter().map(attribute).collect()
}

/// Reads a small file, if it can be read and is as long as its status says.
fn read_whole(above: &OwnedFd, name: &OsStr, stat: &Stat) -> Option<Box<[u8]>> {
    let fd = name::open_existing(above, name, OFlags::RDONLY).ok()?;
    let mut bytes = vec![0; stat.size as usize];
    let read = transfer::read_all_at(&fd, &mut bytes, 0).ok()?;
    (read == bytes.len()).then(|| bytes.into_boxed_slice())
}

impl Peer for Played {
    fn open_root(&self, number: u32, follows: bool) -> Result<PeerOpened, PeerError> {
        self.count("open_root")?;
        let root = &self.roots[number as usize];
        let above = fs::File::open(root.parent().unwrap()).unwrap().into();
        self.open_at(&above, root.file_name().unwrap(), follows, root)
    }

    fn root_target(&self, number: u32) -> Result<OsString, PeerError> {
        self.count("root_target")?;
        let root = &self.roots[number as usize];
        fs::read_link(root)
            .map(OsString::from)
            .map_err(|error| system(Errno::from_raw(error.raw_os_error().unwrap_or_default())))
    }

    fn open(
        &self,
        directory: PeerHandle,
        name: &OsStr,
        follows: bool,
    ) -> Result<PeerOpened, PeerError> {
        let (above, root) =
            self.held(directory, |held| Ok((Arc::clone(&held.fd), held.root.clone())))?;
        let is_link = directory::stat_name(&*above, name)
            .is_ok_and(|stat| stat.file_type() == FileType::Symlink);
        self.count(if is_link && !follows { "open_link" } else { "open" })?;
        self.open_at(&above, name, follows, &root)
    }

    fn list(&self, directory: PeerHandle, contents: PeerContents) -> Result<PeerPage, PeerError> {
        self.count("list")?;
        let above = self.fd(directory)?;
        let (names, is_last) = self.held(directory, |held| {
            if held.listing.is_none() {
                held.listing = Some(names_of(&above)?.into_iter());
            }
            let listing = held.listing.as_mut().unwrap();
            let names: Vec<OsString> = listing.by_ref().take(self.page_entries).collect();
            Ok((names, listing.len() == 0))
        })?;
        let entries = names.iter().map(|name| self.entry(&above, name, contents));
        let mut page = PeerPage { is_last, ..PeerPage::default() };
        for (name, entry) in names.iter().zip(entries) {
            match entry {
                Ok(entry) => page.entries.push(entry),
                Err(PeerError::System(errno)) => {
                    page.failed.push(PeerFailedEntry { name: name.clone(), errno });
                }
                Err(lost) => return Err(lost),
            }
        }
        Ok(page)
    }

    fn look(&self, directory: PeerHandle, name: &OsStr) -> Result<PeerEntry, PeerError> {
        self.count("look")?;
        self.entry(&*self.fd(directory)?, name, PeerContents::default())
    }

    fn look_ahead(
        self: Arc<Self>,
        directory: PeerHandle,
        names: Arc<[PeerNames]>,
        contents: PeerContents,
    ) -> Option<Box<dyn PeerLooks>> {
        Some(Box::new(Looks { played: self, directory, names, contents, at: (0, 0) }))
    }

    fn examine(&self, of: PeerHandle) -> Result<Stat, PeerError> {
        self.count("examine")?;
        file::stat(&*self.fd(of)?).map_err(system)
    }

    fn data_ranges(&self, file: PeerHandle, from: u64) -> Result<PeerRanges, PeerError> {
        self.count("data_ranges")?;
        let fd = self.fd(file)?;
        let mut ranges = Vec::new();
        let mut offset = from;
        // Two at a time, so that several questions are asked.
        while ranges.len() < 2 {
            match file::seek_data(fd.as_fd(), offset) {
                Ok(start) => {
                    let end = file::seek_hole(fd.as_fd(), start).map_err(system)?;
                    ranges.push(start..end);
                    offset = end;
                }
                Err(Errno::ENXIO) => return Ok(PeerRanges { ranges, is_last: true }),
                Err(errno) => return Err(system(errno)),
            }
        }
        Ok(PeerRanges { ranges, is_last: false })
    }

    fn read(
        &self,
        file: PeerHandle,
        range: Range<u64>,
        _: u64,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<u64, PeerError> {
        self.count("read")?;
        let fd = self.fd(file)?;
        let mut buffer = vec![0; self.part_bytes];
        let mut at = range.start;
        let mut takes = true;
        while at < range.end && takes {
            let most = (range.end - at).min(buffer.len() as u64) as usize;
            let n = transfer::read_at(&*fd, &mut buffer[..most], at).map_err(system)?;
            if n == 0 {
                break;
            }
            let sent = self.sent.fetch_add(n as u64, Ordering::Relaxed) + n as u64;
            if self.lost_after_bytes.is_some_and(|most| sent > most) {
                return Err(PeerError::Lost { what: "it ended".into() });
            }
            takes = take(&buffer[..n]);
            at += n as u64;
        }
        Ok(at - range.start)
    }

    fn has_changed(&self, _: PeerHandle) -> bool {
        self.are_changing
    }

    fn attribute(&self, of: PeerHandle, name: &OsStr) -> Result<Option<Vec<u8>>, PeerError> {
        self.count("attribute")?;
        let name = CString::new(name.as_bytes()).unwrap();
        xattr::get(&*self.fd(of)?, &name).map_err(system)
    }

    fn count(&self, directory: PeerHandle, one_filesystem: bool) -> Result<PeerCount, PeerError> {
        self.count("count")?;
        let fd = self.fd(directory)?;
        self.held(directory, |held| {
            let tree = held.tree.get_or_insert_with(|| TreeCount::new(one_filesystem));
            let mut found = PeerCount::default();
            let state = tree.next_directory(&*fd, &mut |bytes| {
                found.entries += 1;
                found.bytes += bytes.unwrap_or(0);
                true
            });
            Ok(PeerCount { is_last: state == CountState::Done, ..found })
        })
    }

    /// Every second value is to be asked for by itself.
    fn attributes(&self, of: PeerHandle) -> Result<Vec<PeerAttribute>, PeerError> {
        self.count("attributes")?;
        let fd = self.fd(of)?;
        let names = xattr::names(&*fd).map_err(system)?;
        let mut attributes = Vec::new();
        for (number, name) in names.iter().enumerate() {
            if let Some(value) = xattr::get(&*fd, name).map_err(system)? {
                let name = OsStr::from_bytes(name.to_bytes()).to_owned();
                let value = (number % 2 == 1).then_some(value);
                attributes.push(PeerAttribute { name, value });
            }
        }
        Ok(attributes)
    }

    fn close(&self, of: PeerHandle) {
        let was_open = self.open.lock().unwrap().remove(&of.0).is_some();
        assert!(was_open, "a handle is closed once");
    }
}

fn names_of(at: &OwnedFd) -> Result<Vec<OsString>, PeerError> {
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(32 << 10);
    let again = name::open_directory_for_reading(at).map_err(system)?;
    directory::list(&again, buffer.spare_capacity_mut(), |entry| {
        names.push(OsStr::from_bytes(entry.name.to_bytes()).to_owned());
        true
    })
    .map_err(system)?;
    names.sort();
    Ok(names)
}
