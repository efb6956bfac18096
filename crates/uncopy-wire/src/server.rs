//! The serving side: which calls and handles are open, and whether a call is one that may be made.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Violation;
use crate::call::{Call, Handle, MAX_RANGES};
use crate::codec::Writer;
use crate::entry::{Attribute, Entry, PageEntry, write_optional};
use crate::frame::{Frame, FrameKind, MAX_PAYLOAD_BYTES};
use crate::message::MAX_PATH_BYTES;
use crate::status::{Kind, Status};

/// Maximum number of calls under way.
pub(crate) const MAX_CALLS: usize = 1024;
/// Maximum number of open handles.
const MAX_HANDLES: usize = 1 << 16;
/// Number of bytes of values of attributes that come with their names.
pub const MAX_VALUES_BYTES: usize = 256 << 10;
/// Length from which on a page takes no further entry.
const PAGE_BYTES: usize = 256 << 10;
/// `E2BIG`, `EACCES` and `EMFILE` of Linux.
const TOO_LONG: u16 = 7;
const FORBIDDEN: u16 = 13;
const TOO_MANY_OPEN: u16 = 24;

/// Call to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Number of the call.
    pub id: u32,
    /// The call.
    pub call: Call,
}

/// Page of entries under construction.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    entries: usize,
    with_attributes: bool,
}

impl Page {
    /// Makes a page whose entries have a place for extended attributes, as [`Call::LookAll`] asks for, and
    /// [`Call::ListFrom`] if it wants them. Others have none.
    #[must_use]
    pub fn with_attributes() -> Page {
        Page { with_attributes: true, ..Page::default() }
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: &PageEntry) {
        let mut writer = Writer::default();
        entry.write(&mut writer, self.with_attributes);
        self.bytes.extend_from_slice(&writer.0);
        self.entries += 1;
    }

    /// Whether it takes no further entry.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= PAGE_BYTES
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }
}

/// Whether the entries that answer a call have a place for extended attributes.
fn has_attributes(call: &Call) -> bool {
    matches!(call, Call::LookAll { .. } | Call::ListFrom { wants_attributes: true, .. })
}

/// The serving side.
#[derive(Debug)]
pub struct Server {
    roots: u32,
    next_handle: u32,
    handles: BTreeMap<u32, Kind>,
    calls: BTreeMap<u32, Call>,
    is_of_data: bool,
}

impl Server {
    /// Makes a side that serves this number of roots.
    #[must_use]
    pub fn new(roots: u32) -> Server {
        Server {
            roots,
            next_handle: 0,
            handles: BTreeMap::new(),
            calls: BTreeMap::new(),
            is_of_data: false,
        }
    }

    /// Makes the side of a data connection, which reads files and lists directories that the session has open.
    #[must_use]
    pub fn of_data() -> Server {
        Server { is_of_data: true, ..Server::new(0) }
    }

    /// Returns the number of calls that are not answered.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of open handles.
    #[must_use]
    pub fn handles(&self) -> usize {
        self.handles.len()
    }

    /// Takes a frame that was received, and returns the call to be answered. After [`Call::Close`] the handle is closed.
    ///
    /// # Errors
    /// It is no call, or one that may not be made.
    pub fn take(&mut self, frame: &Frame) -> Result<Request, Violation> {
        let id = frame.call;
        if frame.kind != FrameKind::Call {
            return Err(Violation::WrongSide);
        }
        let call = Call::decode(&frame.payload)?;
        if self.calls.contains_key(&id) {
            return Err(Violation::CallTwice { call: id });
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(Violation::TooManyCalls);
        }
        if let Call::Root { number, .. } = &call
            && !self.is_of_data
            && *number >= self.roots
        {
            return Err(Violation::BadRoot { number: *number });
        }
        match self.is_of_data {
            true => call.check_reads()?,
            false => call.check_handle(&self.handles)?,
        }
        if let Call::Close { of } = &call {
            self.handles.remove(&of.0);
        }
        self.calls.insert(id, call.clone());
        Ok(Request { id, call })
    }

    /// Answers that something other than a link was opened. Returns its handle and the frame to be sent; no handle: too many are open, and
    /// the call failed.
    ///
    /// # Errors
    /// The call is not under way, or another answer is due.
    pub fn opened(
        &mut self,
        id: u32,
        status: &Status,
    ) -> Result<(Option<Handle>, Frame), Violation> {
        self.opened_at(id, status, None)
    }

    /// Answers that a root is a symbolic link with this target.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn opened_link(
        &mut self,
        id: u32,
        status: &Status,
        target: &[u8],
    ) -> Result<(Option<Handle>, Frame), Violation> {
        self.opened_at(id, status, Some(target))
    }

    fn opened_at(
        &mut self,
        id: u32,
        status: &Status,
        target: Option<&[u8]>,
    ) -> Result<(Option<Handle>, Frame), Violation> {
        let is_due = |call: &Call| matches!(call, Call::Root { .. } | Call::Open { .. });
        self.check(id, is_due)?;
        if self.handles.len() >= MAX_HANDLES {
            return self.failed(id, TOO_MANY_OPEN).map(|frame| (None, frame));
        }
        while self.handles.contains_key(&self.next_handle) {
            self.next_handle = self.next_handle.wrapping_add(1);
        }
        let handle = Handle(self.next_handle);
        self.next_handle = self.next_handle.wrapping_add(1);
        self.handles.insert(handle.0, status.kind);
        let mut answer = Writer::default();
        status.write(answer.u32(handle.0));
        write_optional(&mut answer, target);
        Ok((Some(handle), self.end(id, answer.0)))
    }

    /// Answers with the status of something open.
    ///
    /// # Errors
    /// As [`Server::opened`]; this holds for every answer.
    pub fn status(&mut self, id: u32, status: &Status) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Examine { .. }))?;
        let mut answer = Writer::default();
        status.write(&mut answer);
        Ok(self.end(id, answer.0))
    }

    /// Answers with an entry that was looked at.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn entry(&mut self, id: u32, entry: &Entry) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Look { .. }))?;
        let mut answer = Writer::default();
        entry.write(&mut answer, false);
        Ok(self.end(id, answer.0))
    }

    /// Answers with a page of a listing, and for [`Call::ListFrom`] with the position behind it. A page without entries is
    /// the last one.
    ///
    /// # Errors
    /// As [`Server::opened`]; the page has a place for attributes that are not wanted, or none for those that are.
    pub fn page(
        &mut self,
        id: u32,
        page: &Page,
        is_last: bool,
        position: u64,
    ) -> Result<Frame, Violation> {
        let is_due = |call: &Call| match call {
            Call::List { .. } | Call::ListFrom { .. } => {
                page.with_attributes == has_attributes(call)
            }
            _ => false,
        };
        self.check(id, is_due)?;
        let mut answer = Writer::default();
        answer.bool(is_last || page.entries == 0);
        if let Some(Call::ListFrom { .. }) = self.calls.get(&id) {
            answer.u64(position);
        }
        answer.raw(&page.bytes);
        Ok(self.end(id, answer.0))
    }

    /// Answers with the first entries of those that were asked for by their names: at least one.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn named(&mut self, id: u32, page: &Page) -> Result<Frame, Violation> {
        let is_due = |call: &Call| match call {
            Call::LookAll { names, .. } => {
                page.with_attributes && (1..=names.len()).contains(&page.entries)
            }
            _ => false,
        };
        self.check(id, is_due)?;
        Ok(self.end(id, page.bytes.clone()))
    }

    /// Answers with ranges of a file that hold data: at most [`MAX_RANGES`], and at least one unless these are the last.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn ranges(
        &mut self,
        id: u32,
        ranges: &[Range<u64>],
        is_last: bool,
    ) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Ranges { .. }))?;
        debug_assert!(ranges.len() <= MAX_RANGES);
        let mut answer = Writer::default();
        answer.bool(is_last || ranges.is_empty());
        for range in ranges {
            answer.u64(range.start).u64(range.end);
        }
        Ok(self.end(id, answer.0))
    }

    /// Answers with one extended attribute; `None`: there is none of this name.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn attribute(&mut self, id: u32, value: Option<&[u8]>) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Attribute { .. }))?;
        let mut answer = Writer::default();
        write_optional(&mut answer, value);
        Ok(self.end(id, answer.0))
    }

    /// Answers with the entries, and the bytes of files, that were counted since the last answer.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn counted(
        &mut self,
        id: u32,
        entries: u64,
        bytes: u64,
        is_last: bool,
    ) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Count { .. }))?;
        let mut answer = Writer::default();
        answer.bool(is_last).u64(entries).u64(bytes);
        Ok(self.end(id, answer.0))
    }

    /// Answers with extended attributes; with `E2BIG`, if they are too long for a frame: values longer than
    /// [`MAX_VALUES_BYTES`] together are left out, and asked for one by one.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn attributes(&mut self, id: u32, attributes: &[Attribute]) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Attributes { .. }))?;
        let mut answer = Writer::default();
        for attribute in attributes {
            attribute.write(&mut answer);
            if answer.0.len() > MAX_PAYLOAD_BYTES {
                return self.failed(id, TOO_LONG);
            }
        }
        Ok(self.end(id, answer.0))
    }

    /// Answers with bytes of a file: all that were asked for, or fewer where it ends.
    ///
    /// # Errors
    /// As [`Server::opened`]; there are more than were asked for.
    pub fn data(&mut self, id: u32, bytes: Vec<u8>) -> Result<Frame, Violation> {
        let is_due = |call: &Call| match call {
            Call::Read { bytes: wanted, .. } => bytes.len() <= *wanted as usize,
            _ => false,
        };
        self.check(id, is_due)?;
        Ok(self.end(id, bytes))
    }

    /// Answers that bytes of a file go over an open data connection.
    ///
    /// # Errors
    /// As [`Server::data`].
    pub fn sent(&mut self, id: u32, bytes: u32, digest: &[u8; 32]) -> Result<Frame, Violation> {
        self.check(
            id,
            |call| matches!(call, Call::Send { bytes: wanted, .. } if bytes <= *wanted),
        )?;
        let mut answer = Writer::default();
        answer.u32(bytes).raw(digest);
        Ok(self.end(id, answer.0))
    }

    /// Answers that something was closed.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn closed(&mut self, id: u32) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Close { .. }))?;
        Ok(self.end(id, Vec::new()))
    }

    /// Answers that nothing was opened, since a link of another user is not followed; with `EACCES`, if its path is longer than
    /// any. From [`FOREIGN_LINK_VERSION`](crate::FOREIGN_LINK_VERSION) on.
    ///
    /// # Errors
    /// As [`Server::opened`].
    pub fn foreign_link(&mut self, id: u32, link: &[u8], owner: u32) -> Result<Frame, Violation> {
        self.check(id, |call| matches!(call, Call::Root { .. } | Call::Open { .. }))?;
        if link.len() > MAX_PATH_BYTES {
            return self.failed(id, FORBIDDEN);
        }
        let mut answer = Writer::default();
        answer.u32(owner).bytes(link);
        Ok(Frame { kind: FrameKind::ForeignLink, ..self.end(id, answer.0) })
    }

    /// Answers that a call failed.
    ///
    /// # Errors
    /// The call is not under way.
    pub fn failed(&mut self, id: u32, errno: u16) -> Result<Frame, Violation> {
        self.check(id, |_| true)?;
        self.calls.remove(&id);
        Ok(Frame { kind: FrameKind::Failed, call: id, payload: errno.to_le_bytes().to_vec() })
    }

    fn check(&self, id: u32, is_due: impl Fn(&Call) -> bool) -> Result<(), Violation> {
        match self.calls.get(&id) {
            Some(call) if is_due(call) => Ok(()),
            _ => Err(Violation::Unasked { call: id }),
        }
    }

    fn end(&mut self, id: u32, payload: Vec<u8>) -> Frame {
        self.calls.remove(&id);
        Frame { kind: FrameKind::Answer, call: id, payload }
    }
}
