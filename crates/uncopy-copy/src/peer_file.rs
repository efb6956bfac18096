//! Defines a regular file of a source on another machine: opened when its bytes are wanted, unless they came with the
//! listing.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::peer::PeerEntry;
use super::peer_directory::PeerDirectory;
use super::peer_link::{PeerAttributes, PeerLink, PeerObject};
use super::sparse::Segment;
use uncopy_os::Sys;
use uncopy_os::file::Stat;

/// A regular file of the other machine.
#[derive(Debug)]
pub(crate) struct PeerFile {
    directory: Arc<PeerDirectory>,
    name: OsString,
    /// The entry of the listing, which may have its contents.
    listed: Option<Arc<PeerEntry>>,
    /// The open file, and its status then.
    opened: OnceLock<(PeerObject, Stat)>,
    data: Mutex<DataRanges>,
}

/// Ranges with data that are known.
#[derive(Debug, Default)]
struct DataRanges {
    waiting: VecDeque<Range<u64>>,
    /// Offset up to which they are known.
    end: u64,
    is_ended: bool,
}

impl PeerFile {
    /// Makes the file of an entry of a listing. It is not opened yet.
    pub(crate) fn listed(directory: &Arc<PeerDirectory>, entry: &Arc<PeerEntry>) -> Box<PeerFile> {
        Box::new(PeerFile {
            directory: Arc::clone(directory),
            name: entry.name.clone(),
            listed: Some(Arc::clone(entry)),
            opened: OnceLock::new(),
            data: Mutex::default(),
        })
    }

    /// Takes over a file that was opened.
    pub(crate) fn opened(
        directory: &Arc<PeerDirectory>,
        name: OsString,
        opened: (PeerObject, Stat),
    ) -> Box<PeerFile> {
        Box::new(PeerFile {
            directory: Arc::clone(directory),
            name,
            listed: None,
            opened: OnceLock::from(opened),
            data: Mutex::default(),
        })
    }

    pub(crate) fn link(&self) -> &Arc<PeerLink> {
        self.directory.link()
    }

    /// Returns all its bytes, if they came with the listing.
    pub(crate) fn contents(&self) -> Option<&[u8]> {
        self.listed.as_ref()?.contents.as_deref()
    }

    /// Forgets its bytes, because it has changed since they came.
    pub(crate) fn forget_contents(&mut self) {
        self.listed = None;
    }

    /// Opens it, unless it is open. Returns its status when it was opened.
    pub(crate) fn open(&self) -> Sys<&Stat> {
        self.object().map(|(_, stat)| stat)
    }

    fn object(&self) -> Sys<&(PeerObject, Stat)> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = self.directory.open(&self.name, false)?;
        Ok(self.opened.get_or_init(|| opened))
    }

    /// Looks at it again.
    pub(crate) fn examine(&self) -> Sys<Stat> {
        self.object()?.0.examine()
    }

    /// Whether bytes of it were seen to change while they were read.
    pub(crate) fn has_changed(&self) -> Sys<bool> {
        self.object()?.0.ask(|peer, handle| Ok(peer.has_changed(handle)))
    }

    /// Whether its extended attributes came with its contents.
    pub(crate) fn has_attributes(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.attributes.is_some())
    }

    /// Returns its extended attributes.
    pub(crate) fn attributes(&self) -> Sys<PeerAttributes> {
        if let Some(all) = self.listed.as_ref().and_then(|listed| listed.attributes.as_deref()) {
            return PeerAttributes::of_listed(self.link(), all);
        }
        self.object()?.0.attributes()
    }

    /// Reads a range and hands it on in order. Returns the number of bytes. If `take` returns `false`, the rest is
    /// dropped. What follows up to `ahead_to` is to be read next.
    pub(crate) fn read(
        &self,
        range: Range<u64>,
        ahead_to: u64,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Sys<u64> {
        if let Some(contents) = self.contents() {
            let index =
                |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(contents.len());
            let bytes = &contents[index(range.start)..index(range.end)];
            if !bytes.is_empty() {
                take(bytes);
            }
            return Ok(bytes.len() as u64);
        }
        let (object, _) = self.object()?;
        let (wanted, mut came, mut takes) = (range.end - range.start, 0, true);
        let read = object.ask(|peer, handle| {
            peer.read(handle, range, ahead_to, &mut |bytes| {
                came += bytes.len() as u64;
                takes = takes && came <= wanted && take(bytes);
                takes
            })
        });
        if came > wanted || read.as_ref().is_ok_and(|bytes| takes && *bytes != came) {
            return Err(self.link().violated("another number of bytes than it read"));
        }
        read.map(|_| came)
    }

    /// Returns the segment that begins at `offset`, below `size`. A filesystem that does not say has data everywhere.
    pub(crate) fn segment(&self, offset: u64, size: u64) -> Segment {
        let everywhere = Segment::Data { start: offset, end: size };
        if self.contents().is_some() {
            return everywhere;
        }
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match data.waiting.front() {
                Some(range) if range.end <= offset => drop(data.waiting.pop_front()),
                Some(range) if range.start <= offset => {
                    return Segment::Data { start: offset, end: range.end.min(size) };
                }
                Some(range) => return Segment::Hole { start: offset, end: range.start.min(size) },
                None if data.is_ended => return Segment::Hole { start: offset, end: size },
                None => match self.ask_for_data(&mut data, offset) {
                    Ok(()) => {}
                    Err(_) => return everywhere,
                },
            }
        }
    }

    fn ask_for_data(&self, data: &mut DataRanges, offset: u64) -> Sys<()> {
        let from = data.end.max(offset);
        let (object, _) = self.object()?;
        let found = object.ask(|peer, handle| peer.data_ranges(handle, from))?;
        let mut end = from;
        for range in &found.ranges {
            if range.start < end || range.end <= range.start {
                return Err(self.link().violated("ranges of data that are not in order"));
            }
            end = range.end;
        }
        if found.ranges.is_empty() && !found.is_last {
            return Err(self.link().violated("a part of the ranges of data that has none"));
        }
        (data.end, data.is_ended) = (end, found.is_last);
        data.waiting.extend(found.ranges);
        Ok(())
    }
}
