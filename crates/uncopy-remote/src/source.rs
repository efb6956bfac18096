//! A source on another machine, as the engine asks it.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use uncopy_copy::peer::{
    Peer, PeerAttribute, PeerContents, PeerCount, PeerEntry, PeerError, PeerFailedEntry,
    PeerHandle, PeerLooks, PeerNames, PeerOpened, PeerPage, PeerRanges,
};
use uncopy_core::Errno;
use uncopy_os::file::Stat;
use uncopy_wire::{
    Answer, Attribute, Call, Entry, FailedEntry, Handle, LOOK_ALL_VERSION, MAX_CONTENTS_BYTES,
};

use crate::budget::Budget;
use crate::calls::{Calls, Pending};
use crate::convert;
use crate::directories_ahead::{AheadStep, AskedOpening, DirectoriesAhead};
use crate::gate::{Gate, lock};
use crate::lanes::{Lanes, other_answer};
use crate::listing::{Listed, Listing};
use crate::named_ahead::NamedAhead;
use crate::reading::Reading;

/// Number of bytes that all reads and listings are ahead together.
const ALL_AHEAD_BYTES: usize = 24 << 20;
/// Number of bytes that count for a page: its usual length, and its longest entry.
pub(crate) const PAGE_BYTES: usize = 512 << 10;
/// Round trip from which on directories are asked for ahead. Nearer ones come soon enough, and trees of them cross more
/// quickly when their contents are not in memory for long.
const FAR: Duration = Duration::from_millis(2);
/// Maximum number of pages that a listing is ahead. To a far machine what is under way limits the rate: each page is
/// 256 KiB, so that 8 MiB come in a round trip.
const PAGES_AHEAD: usize = 8;
const FAR_PAGES_AHEAD: usize = 32;
/// Maximum numbers of threads that read or list, and that wait for attributes.
const READERS: usize = 48;
const ATTRIBUTE_READERS: usize = 8;

/// Source on another machine.
#[derive(Debug)]
pub struct RemoteSource {
    calls: Arc<Calls>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) budget: Budget,
    pub(crate) readers: Gate,
    attribute_readers: Gate,
    listings: Mutex<HashMap<PeerHandle, Arc<Mutex<Listing>>>>,
    ahead: Mutex<DirectoriesAhead<Pending>>,
    /// Extended attributes of directories that are listed ahead.
    attributes_ahead: Mutex<HashMap<PeerHandle, Pending>>,
    /// Shortest time in microseconds that a root took to be opened.
    round_trip: AtomicU64,
    /// Files of which more was asked for than was read.
    readings: Mutex<HashMap<PeerHandle, Reading>>,
    /// Files that changed while they were read.
    changed: Mutex<HashSet<PeerHandle>>,
    /// Whether its files are those of this machine.
    is_here: bool,
    /// Paths of the roots, where the names of the sources are others.
    paths: Vec<PathBuf>,
}

impl RemoteSource {
    /// `is_here`: its files are those of this machine. `paths`: those of its roots, where the names of the sources are others.
    pub(crate) fn new(lanes: Arc<Lanes>, is_here: bool, paths: Vec<PathBuf>) -> Arc<RemoteSource> {
        Arc::new(RemoteSource {
            calls: Arc::clone(lanes.session()),
            lanes,
            budget: Budget::new(ALL_AHEAD_BYTES),
            readers: Gate::new(READERS),
            attribute_readers: Gate::new(ATTRIBUTE_READERS),
            listings: Mutex::default(),
            ahead: Mutex::default(),
            attributes_ahead: Mutex::default(),
            round_trip: AtomicU64::new(u64::MAX),
            readings: Mutex::default(),
            changed: Mutex::default(),
            is_here,
            paths,
        })
    }

    /// Whether waiting for the other machine costs more than having its answers lie around.
    fn is_far(&self) -> bool {
        let micros = self.round_trip.load(Ordering::Relaxed);
        micros != u64::MAX && Duration::from_micros(micros) >= FAR
    }

    /// Opens and lists directories ahead, as far as answers have come and memory allows, if the other machine is far.
    fn look_ahead(&self) -> Result<(), PeerError> {
        if !self.is_far() {
            return Ok(());
        }
        let mut ahead = lock(&self.ahead);
        loop {
            let mut share = self.budget.try_take(PAGE_BYTES);
            match ahead.next(share.is_some()) {
                None => return Ok(()),
                Some(AheadStep::Open(place, contents)) => {
                    let (directory, name) = (Handle(place.0.0), place.1.as_bytes().to_vec());
                    let call = Call::Open { directory, name, follows: false };
                    let asked = self.calls.begin(&call, &mut None)?;
                    ahead.begun(place, contents, asked);
                }
                Some(AheadStep::List(directory, contents)) => {
                    let listed = self.listed(directory, contents);
                    lock(&self.listing(directory)).ask(&self.lanes, listed, &mut share)?;
                    self.ask_attributes_ahead(directory, contents)?;
                }
                Some(AheadStep::Close(of)) => self.close_alone(of),
            }
        }
    }

    /// Asks for the extended attributes of a directory, if they are wanted and memory allows.
    fn ask_attributes_ahead(
        &self,
        directory: PeerHandle,
        contents: PeerContents,
    ) -> Result<(), PeerError> {
        let share = contents.with_attributes.then(|| self.budget.try_take(PAGE_BYTES)).flatten();
        if share.is_some() {
            let of = Handle(directory.0);
            let asked = self.calls.begin(&Call::Attributes { of }, &mut { share })?;
            lock(&self.attributes_ahead).insert(directory, asked);
        }
        Ok(())
    }

    /// Returns the maximum number of pages to be ahead.
    pub(crate) fn pages_ahead(&self) -> usize {
        if self.is_far() { FAR_PAGES_AHEAD } else { PAGES_AHEAD }
    }

    fn listed(&self, directory: PeerHandle, contents: PeerContents) -> Listed {
        let pages_ahead = self.pages_ahead();
        Listed { directory: Handle(directory.0), contents, pages_ahead }
    }

    fn listing(&self, directory: PeerHandle) -> Arc<Mutex<Listing>> {
        Arc::clone(lock(&self.listings).entry(directory).or_default())
    }

    fn close_alone(&self, of: PeerHandle) {
        lock(&self.listings).remove(&of);
        lock(&self.attributes_ahead).remove(&of);
        lock(&self.readings).remove(&of);
        lock(&self.changed).remove(&of);
        self.calls.notify(&Call::Close { of: Handle(of.0) });
    }
}

pub(crate) fn entry(entry: Entry) -> PeerEntry {
    PeerEntry {
        name: OsString::from_vec(entry.name),
        stat: convert::stat(&entry.status),
        target: entry.target.map(OsString::from_vec),
        contents: entry.contents.map(Vec::into_boxed_slice),
        attributes: entry.attributes.map(|all| all.into_iter().map(attribute).collect()),
    }
}

/// Returns what may be asked for.
pub(crate) fn within_limits(contents: PeerContents) -> PeerContents {
    PeerContents { up_to: contents.up_to.min(MAX_CONTENTS_BYTES), ..contents }
}

pub(crate) fn failed_entry(entry: FailedEntry) -> PeerFailedEntry {
    let errno = Errno::from_raw(entry.errno.into());
    PeerFailedEntry { name: OsString::from_vec(entry.name), errno }
}

fn opened(answer: &Answer) -> Result<PeerOpened, PeerError> {
    match answer {
        Answer::Opened { handle, status, .. } => {
            Ok(PeerOpened { handle: PeerHandle(handle.0), stat: convert::stat(status) })
        }
        _ => Err(other_answer()),
    }
}

fn attribute(found: Attribute) -> PeerAttribute {
    PeerAttribute { name: OsString::from_vec(found.name), value: found.value }
}

impl AskedOpening for Pending {
    fn try_take(&self) -> Option<Result<PeerOpened, PeerError>> {
        Pending::try_take(self).map(|answer| answer.and_then(|answer| opened(&answer)))
    }

    fn wait(self) -> Result<PeerOpened, PeerError> {
        Pending::wait(self).and_then(|answer| opened(&answer))
    }
}

impl Peer for RemoteSource {
    fn is_here(&self) -> bool {
        self.is_here
    }

    fn root_path(&self, number: u32) -> Option<&Path> {
        self.paths.get(usize::try_from(number).ok()?).map(PathBuf::as_path)
    }

    fn open_root(&self, number: u32, follows: bool) -> Result<PeerOpened, PeerError> {
        let begin = Instant::now();
        let answer = self.calls.ask(&Call::Root { number, follows })?;
        let micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.round_trip.fetch_min(micros, Ordering::Relaxed);
        opened(&answer)
    }

    fn root_target(&self, number: u32) -> Result<OsString, PeerError> {
        match self.calls.ask(&Call::Root { number, follows: false })? {
            Answer::Opened { handle, target, .. } => {
                self.calls.notify(&Call::Close { of: handle });
                target.map(OsString::from_vec).ok_or(PeerError::System(Errno::EINVAL))
            }
            _ => Err(other_answer()),
        }
    }

    fn open(
        &self,
        directory: PeerHandle,
        name: &OsStr,
        follows: bool,
    ) -> Result<PeerOpened, PeerError> {
        if !follows {
            let begun = lock(&self.ahead).claim(directory, name);
            self.look_ahead()?;
            if let Some(opening) = begun {
                return opening.wait();
            }
        }
        let (directory, name) = (Handle(directory.0), name.as_bytes().to_vec());
        self.calls.ask(&Call::Open { directory, name, follows }).and_then(|answer| opened(&answer))
    }

    fn list(&self, directory: PeerHandle, contents: PeerContents) -> Result<PeerPage, PeerError> {
        let _place = self.readers.enter();
        self.look_ahead()?;
        let listing = self.listing(directory);
        let mut listing = lock(&listing);
        let contents = within_limits(contents);
        if listing.is_over() {
            return Ok(PeerPage { is_last: true, ..PeerPage::default() });
        }
        let (lanes, listed) = (&self.lanes, self.listed(directory, contents));
        let answer = listing.take(lanes, listed, &|| self.budget.try_take(PAGE_BYTES))?;
        let Answer::Entries { entries, failed, is_last, .. } = answer else {
            return Err(other_answer());
        };
        drop(listing);
        let entries: Vec<PeerEntry> = entries.into_iter().map(entry).collect();
        if self.is_far() {
            let is_directory = |entry: &&PeerEntry| entry.stat.file_type() == FileType::Directory;
            let directories = entries.iter().filter(is_directory).map(|entry| entry.name.clone());
            lock(&self.ahead).found(directory, directories, contents);
            self.look_ahead()?;
        }
        let failed = failed.into_iter().map(failed_entry).collect();
        Ok(PeerPage { entries, failed, is_last })
    }

    fn look(&self, directory: PeerHandle, name: &OsStr) -> Result<PeerEntry, PeerError> {
        let (directory, name) = (Handle(directory.0), name.as_bytes().to_vec());
        match self.calls.ask(&Call::Look { directory, name })? {
            Answer::Entry { entry: found } => Ok(entry(found)),
            _ => Err(other_answer()),
        }
    }

    fn look_ahead(
        self: Arc<Self>,
        directory: PeerHandle,
        names: Arc<[PeerNames]>,
        contents: PeerContents,
    ) -> Option<Box<dyn PeerLooks>> {
        let can = self.lanes.version() >= LOOK_ALL_VERSION;
        can.then(|| Box::new(NamedAhead::new(self, directory, names, contents)) as _)
    }

    fn expect_directories(&self, directory: PeerHandle, names: Vec<OsString>) {
        if self.is_far() {
            lock(&self.ahead).found(directory, names, PeerContents::default());
        }
    }

    fn examine(&self, of: PeerHandle) -> Result<Stat, PeerError> {
        match self.calls.ask(&Call::Examine { of: Handle(of.0) })? {
            Answer::Status { status } => Ok(convert::stat(&status)),
            _ => Err(other_answer()),
        }
    }

    fn data_ranges(&self, file: PeerHandle, from: u64) -> Result<PeerRanges, PeerError> {
        match self.calls.ask(&Call::Ranges { file: Handle(file.0), from })? {
            Answer::Ranges { ranges, is_last } => Ok(PeerRanges { ranges, is_last }),
            _ => Err(other_answer()),
        }
    }

    fn read(
        &self,
        file: PeerHandle,
        range: Range<u64>,
        ahead_to: u64,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<u64, PeerError> {
        const MAX_OFFSET: u64 = i64::MAX as u64;
        if range.end > MAX_OFFSET {
            return Err(PeerError::System(Errno::EINVAL));
        }
        let _place = self.readers.enter();
        let begun = lock(&self.readings).remove(&file);
        let mut reading = begun
            .filter(|begun| begun.is_ahead_of(range.start))
            .unwrap_or_else(|| Reading::new(Handle(file.0), range.start));
        let ahead_to = ahead_to.min(MAX_OFFSET);
        let part = reading.read(&self.lanes, &self.budget, &range, ahead_to, take)?;
        if part.has_changed {
            lock(&self.changed).insert(file);
        }
        if !part.is_over && reading.is_ahead() {
            lock(&self.readings).insert(file, reading);
        }
        Ok(part.bytes)
    }

    fn has_changed(&self, file: PeerHandle) -> bool {
        lock(&self.changed).contains(&file)
    }

    fn attributes(&self, of: PeerHandle) -> Result<Vec<PeerAttribute>, PeerError> {
        let ahead = lock(&self.attributes_ahead).remove(&of);
        let _place = self.attribute_readers.enter();
        let answer = match ahead {
            Some(asked) => asked.wait(),
            None => self.calls.ask(&Call::Attributes { of: Handle(of.0) }),
        };
        match answer? {
            Answer::Attributes { attributes } => {
                Ok(attributes.into_iter().map(attribute).collect())
            }
            _ => Err(other_answer()),
        }
    }

    fn attribute(&self, of: PeerHandle, name: &OsStr) -> Result<Option<Vec<u8>>, PeerError> {
        let _place = self.attribute_readers.enter();
        let name = name.as_bytes().to_vec();
        match self.calls.ask(&Call::Attribute { of: Handle(of.0), name })? {
            Answer::Attribute { value } => Ok(value),
            _ => Err(other_answer()),
        }
    }

    fn count(&self, directory: PeerHandle, one_filesystem: bool) -> Result<PeerCount, PeerError> {
        match self.calls.ask(&Call::Count { directory: Handle(directory.0), one_filesystem })? {
            Answer::Counted { entries, bytes, is_last } => {
                Ok(PeerCount { entries, bytes, is_last })
            }
            _ => Err(other_answer()),
        }
    }

    fn close(&self, of: PeerHandle) {
        lock(&self.ahead).forget_below(of);
        self.close_alone(of);
    }
}
