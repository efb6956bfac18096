//! The asking side: which calls are open, and whether an answer is one to them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::call::{Call, Handle, MAX_RANGES};
use crate::codec::Reader;
use crate::entry::{Attribute, Entry, FailedEntry, PageEntry, read_errno, read_target, read_value};
use crate::frame::{Frame, FrameKind};
use crate::message::MAX_PATH_BYTES;
use crate::status::{Kind, Status};
use crate::{Violation, server};

/// First version of the protocol that has [`Answer::ForeignLink`].
pub const FOREIGN_LINK_VERSION: u16 = 6;

/// Number of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u32);

impl CallId {
    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Something was opened.
    Opened {
        /// Its handle.
        handle: Handle,
        /// Its status.
        status: Status,
        /// Target of a root that is a symbolic link and was not followed.
        target: Option<Vec<u8>>,
    },
    /// Entries of a directory.
    Entries {
        /// The entries.
        entries: Vec<Entry>,
        /// Entries that cannot be looked at.
        failed: Vec<FailedEntry>,
        /// Whether there are no more.
        is_last: bool,
        /// Position behind them, if it was asked for.
        position: Option<u64>,
    },
    /// The first entries of those that were asked for by their names, in that order.
    Named {
        /// The entries: at least one.
        entries: Vec<PageEntry>,
    },
    /// An entry that was looked at.
    Entry {
        /// The entry, without contents.
        entry: Entry,
    },
    /// Status of something open.
    Status {
        /// The status.
        status: Status,
    },
    /// Ranges that hold data, in order.
    Ranges {
        /// The ranges.
        ranges: Vec<Range<u64>>,
        /// Whether there are no more.
        is_last: bool,
    },
    /// Bytes of a file: all that were asked for, or fewer where the file ends.
    Data {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes of a file that come over an open data connection: all that were asked for, or fewer where the file ends.
    Sent {
        /// Their number.
        bytes: u32,
        /// Their digest (BLAKE3).
        digest: [u8; 32],
    },
    /// Extended attributes.
    Attributes {
        /// The attributes.
        attributes: Vec<Attribute>,
    },
    /// One extended attribute.
    Attribute {
        /// Its value; `None`: there is none of this name.
        value: Option<Vec<u8>>,
    },
    /// Part of a count, since the last answer.
    Counted {
        /// Number of entries.
        entries: u64,
        /// Bytes of the files among them.
        bytes: u64,
        /// Whether there are no more.
        is_last: bool,
    },
    /// Something was closed.
    Closed,
    /// The call failed.
    Failed {
        /// Error number of Linux.
        errno: u16,
    },
    /// Nothing was opened: a link on the way is not followed, since others may have made it.
    ForeignLink {
        /// Path of the link.
        link: Vec<u8>,
        /// Number of its owner.
        owner: u32,
    },
}

/// Answer that a call expects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Opened,
    Entries { contents: ExpectedContents, has_position: bool },
    Entry { name: Vec<u8> },
    Named { names: Vec<Vec<u8>>, contents: ExpectedContents },
    Status,
    Ranges { from: u64 },
    Data { bytes: u32 },
    Sent { bytes: u32 },
    Attributes,
    Attribute,
    Counted,
    Closed,
}

/// Contents and attributes that may come with entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExpectedContents {
    up_to: u32,
    with_attributes: bool,
}

impl ExpectedContents {
    /// Whether an entry has no more than was asked for.
    fn allow(self, entry: &PageEntry) -> bool {
        let PageEntry::Seen(entry) = entry else { return true };
        let bytes = entry.contents.as_ref().map_or(0, Vec::len);
        bytes <= self.up_to as usize && (self.with_attributes || entry.attributes.is_none())
    }
}

/// The asking side.
#[derive(Debug, Default)]
pub struct Caller {
    next: u32,
    open: BTreeMap<u32, Expected>,
    handles: BTreeMap<u32, Kind>,
    is_of_data: bool,
}

impl Caller {
    /// Maximum number of calls under way.
    pub const MAX_CALLS: usize = server::MAX_CALLS;

    /// Makes a side without calls.
    #[must_use]
    pub fn new() -> Caller {
        Caller::default()
    }

    /// Makes the side of a data connection, which reads files and lists directories that the session has open.
    #[must_use]
    pub fn of_data() -> Caller {
        Caller { is_of_data: true, ..Caller::default() }
    }

    /// Begins a call. Returns the frame to be sent.
    ///
    /// # Errors
    /// [`Violation::OnlyReads`] over a data connection; [`Violation::TooManyCalls`], if [`Caller::MAX_CALLS`] are under way; [`Violation::BadHandle`] of a handle that
    /// is not open, or of another kind; [`Violation::BadName`] and [`Violation::Malformed`] of a call that no server takes.
    pub fn call(&mut self, call: &Call) -> Result<(CallId, Frame), Violation> {
        call.check()?;
        if self.open.len() >= Caller::MAX_CALLS {
            return Err(Violation::TooManyCalls);
        }
        let expected = match call {
            Call::Root { .. } | Call::Open { .. } => Expected::Opened,
            Call::List { contents_up_to: up_to, .. } => {
                let contents = ExpectedContents { up_to: *up_to, with_attributes: false };
                Expected::Entries { contents, has_position: false }
            }
            Call::ListFrom { contents_up_to: up_to, wants_attributes, .. } => {
                let with_attributes = *wants_attributes;
                let contents = ExpectedContents { up_to: *up_to, with_attributes };
                Expected::Entries { contents, has_position: true }
            }
            Call::Look { name, .. } => Expected::Entry { name: name.clone() },
            Call::LookAll { names, contents_up_to: up_to, wants_attributes, .. } => {
                let with_attributes = *wants_attributes;
                let contents = ExpectedContents { up_to: *up_to, with_attributes };
                Expected::Named { names: names.clone(), contents }
            }
            Call::Examine { .. } => Expected::Status,
            Call::Ranges { from, .. } => Expected::Ranges { from: *from },
            Call::Read { bytes, .. } => Expected::Data { bytes: *bytes },
            Call::Send { bytes, .. } => Expected::Sent { bytes: *bytes },
            Call::Attributes { .. } => Expected::Attributes,
            Call::Attribute { .. } => Expected::Attribute,
            Call::Count { .. } => Expected::Counted,
            Call::Close { .. } => Expected::Closed,
        };
        match self.is_of_data {
            true => call.check_reads()?,
            false => call.check_handle(&self.handles)?,
        }
        if let Call::Close { of } = call {
            self.handles.remove(&of.0);
        }
        while self.open.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.insert(id, expected);
        Ok((CallId(id), Frame { kind: FrameKind::Call, call: id, payload: call.encode() }))
    }

    /// Returns the number of calls under way.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.open.len()
    }

    /// Takes a frame that was received.
    ///
    /// # Errors
    /// It is no answer to a call that is under way.
    pub fn take(&mut self, frame: Frame) -> Result<(CallId, Answer), Violation> {
        let Frame { kind, call: number, payload } = frame;
        if !matches!(kind, FrameKind::Answer | FrameKind::Failed | FrameKind::ForeignLink) {
            return Err(Violation::WrongSide);
        }
        let expected = self.open.remove(&number).ok_or(Violation::Unasked { call: number })?;
        let answer = match kind {
            FrameKind::Failed => read_failure(&payload)?,
            FrameKind::ForeignLink => read_foreign_link(&expected, &payload)?,
            _ => read_answer(expected, payload)?,
        };
        if let Answer::Opened { handle, status, .. } = &answer
            && self.handles.insert(handle.0, status.kind).is_some()
        {
            return Err(Violation::BadHandle { handle: handle.0 });
        }
        Ok((CallId(number), answer))
    }
}

fn read_failure(payload: &[u8]) -> Result<Answer, Violation> {
    let mut reader = Reader::new(payload, "answer");
    let errno = read_errno(&mut reader)?;
    reader.end().map(|()| Answer::Failed { errno })
}

fn read_foreign_link(expected: &Expected, payload: &[u8]) -> Result<Answer, Violation> {
    let mut reader = Reader::new(payload, "answer");
    if *expected != Expected::Opened {
        return Err(reader.malformed());
    }
    let (owner, link) = (reader.u32()?, reader.text(MAX_PATH_BYTES)?);
    reader.end().map(|()| Answer::ForeignLink { link, owner })
}

fn read_answer(expected: Expected, payload: Vec<u8>) -> Result<Answer, Violation> {
    let mut reader = Reader::new(&payload, "answer");
    let answer = match expected {
        Expected::Opened => {
            let (handle, status) = (Handle(reader.u32()?), Status::read(&mut reader)?);
            let target = read_target(&mut reader, status.kind)?;
            Answer::Opened { handle, status, target }
        }
        Expected::Status => Answer::Status { status: Status::read(&mut reader)? },
        Expected::Closed => Answer::Closed,
        Expected::Entry { name } => {
            let entry = Entry::read(&mut reader, false)?;
            if entry.name != name || entry.contents.is_some() {
                return Err(reader.malformed());
            }
            Answer::Entry { entry }
        }
        Expected::Entries { contents, has_position } => {
            let is_last = reader.bool()?;
            let position = if has_position { Some(reader.u64()?) } else { None };
            let (mut entries, mut failed) = (Vec::new(), Vec::new());
            while !reader.is_empty() {
                let entry = PageEntry::read(&mut reader, contents.with_attributes)?;
                if !contents.allow(&entry) {
                    return Err(reader.malformed());
                }
                match entry {
                    PageEntry::Seen(entry) => entries.push(entry),
                    PageEntry::Failed(entry) => failed.push(entry),
                }
            }
            // Each page brings a listing nearer to its end.
            if entries.is_empty() && failed.is_empty() && !is_last {
                return Err(reader.malformed());
            }
            Answer::Entries { entries, failed, is_last, position }
        }
        Expected::Named { names, contents } => {
            let (mut entries, mut names) = (Vec::new(), names.into_iter());
            while !reader.is_empty() {
                let entry = PageEntry::read(&mut reader, true)?;
                if !contents.allow(&entry) || names.next().as_deref() != Some(entry.name()) {
                    return Err(reader.malformed());
                }
                entries.push(entry);
            }
            if entries.is_empty() {
                return Err(reader.malformed());
            }
            Answer::Named { entries }
        }
        Expected::Ranges { from } => {
            let is_last = reader.bool()?;
            let (mut ranges, mut from) = (Vec::new(), from);
            while !reader.is_empty() {
                let range = reader.u64()?..reader.u64()?;
                let is_behind = range.start >= from && !range.is_empty();
                if !is_behind || i64::try_from(range.end).is_err() || ranges.len() == MAX_RANGES {
                    return Err(reader.malformed());
                }
                from = range.end;
                ranges.push(range);
            }
            if ranges.is_empty() && !is_last {
                return Err(reader.malformed());
            }
            Answer::Ranges { ranges, is_last }
        }
        Expected::Data { bytes } => {
            return match payload.len() <= bytes as usize {
                true => Ok(Answer::Data { bytes: payload }),
                false => Err(reader.malformed()),
            };
        }
        Expected::Sent { bytes: wanted } => {
            let (bytes, malformed) = (reader.u32()?, reader.malformed());
            if bytes > wanted {
                return Err(malformed);
            }
            let digest = reader.raw(32)?.try_into().map_err(|_| malformed)?;
            Answer::Sent { bytes, digest }
        }
        Expected::Attributes => {
            let mut attributes = Vec::new();
            while !reader.is_empty() {
                attributes.push(Attribute::read(&mut reader)?);
            }
            Answer::Attributes { attributes }
        }
        Expected::Attribute => Answer::Attribute { value: read_value(&mut reader)? },
        Expected::Counted => {
            let is_last = reader.bool()?;
            Answer::Counted { entries: reader.u64()?, bytes: reader.u64()?, is_last }
        }
    };
    reader.end().map(|()| answer)
}
