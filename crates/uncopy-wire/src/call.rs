//! Calls: what the asking side wants to know.

use std::collections::BTreeMap;

use crate::codec::{Reader, Writer};
use crate::entry::is_attribute_name;
use crate::status::Kind;
use crate::{Violation, name};

/// Number of something that the serving side has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

/// First version of the protocol that has [`Call::ListFrom`].
pub const LIST_FROM_VERSION: u16 = 3;
/// First version of the protocol that has [`Call::LookAll`].
pub const LOOK_ALL_VERSION: u16 = 4;
/// First version of the protocol in which extended attributes come with a listing.
pub const LISTED_ATTRIBUTES_VERSION: u16 = 4;

/// Maximum number of bytes of one read.
pub const MAX_READ_BYTES: u32 = 1 << 20;
/// Maximum length of files whose contents come with their entries.
pub const MAX_CONTENTS_BYTES: u32 = 1 << 18;
/// Maximum number of ranges in one answer.
pub const MAX_RANGES: usize = 4096;
/// Maximum number of names in one call: of entries, and of the directories that lead to them.
pub const MAX_NAMES: usize = 1024;

/// A call. Each has one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// Opens a root that the job names.
    Root {
        /// Its number in the order of the job.
        number: u32,
        /// Whether a symbolic link is followed.
        follows: bool,
    },
    /// Opens an entry of a directory.
    Open {
        /// The directory.
        directory: Handle,
        /// Name of the entry.
        name: Vec<u8>,
        /// Whether a symbolic link is followed, within the root.
        follows: bool,
    },
    /// Returns the next page of a directory's listing. Each handle has one listing. Several calls may be under way;
    /// they are answered in order. Behind the last page come empty ones.
    List {
        /// The directory.
        directory: Handle,
        /// Maximum length of files whose contents come with their entries: at most [`MAX_CONTENTS_BYTES`].
        contents_up_to: u32,
    },
    /// Returns the next page of a directory's listing as [`Call::List`] does, and the position behind it. Each
    /// connection has one listing of each handle, so that a page which a connection owes can be asked for over another one.
    ListFrom {
        /// The directory.
        directory: Handle,
        /// Position where the listing goes on, which came behind a page over any connection; `None`: behind the last page
        /// of this connection.
        position: Option<u64>,
        /// Maximum length of files whose contents come with their entries: at most [`MAX_CONTENTS_BYTES`].
        contents_up_to: u32,
        /// Whether extended attributes come too, of files with contents: from [`LISTED_ATTRIBUTES_VERSION`] on.
        wants_attributes: bool,
    },
    /// Looks at an entry of a directory.
    Look {
        /// The directory.
        directory: Handle,
        /// Name of the entry.
        name: Vec<u8>,
    },
    /// Looks at entries of one directory by their names, in this order. As many as a page takes are answered, and at least
    /// one.
    LookAll {
        /// Directory at or above that of the entries.
        directory: Handle,
        /// Names of the directories that lead from there to the entries: at most [`MAX_NAMES`]. No link is followed.
        way: Vec<Vec<u8>>,
        /// Names of the entries: at least one, and at most [`MAX_NAMES`].
        names: Vec<Vec<u8>>,
        /// Maximum length of files whose contents come with their entries: at most [`MAX_CONTENTS_BYTES`].
        contents_up_to: u32,
        /// Whether extended attributes come too: of directories, and of files with contents.
        wants_attributes: bool,
    },
    /// Looks at something open again.
    Examine {
        /// Its handle.
        of: Handle,
    },
    /// Returns ranges of a file that hold data, at most [`MAX_RANGES`].
    Ranges {
        /// The file.
        file: Handle,
        /// Offset of the first byte.
        from: u64,
    },
    /// Reads a file.
    Read {
        /// The file.
        file: Handle,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes, at most [`MAX_READ_BYTES`]; fewer come where the file ends, and only there.
        bytes: u32,
    },
    /// Sends bytes of a file over an open data connection, in the order of the calls. The answer has their number and
    /// digest, and comes before they do.
    Send {
        /// The file.
        file: Handle,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes, as of [`Call::Read`].
        bytes: u32,
        /// Number of the connection's announcement.
        over: u32,
    },
    /// Returns the extended attributes and access control lists.
    Attributes {
        /// Its handle.
        of: Handle,
    },
    /// Returns one extended attribute, whose value did not come with the others.
    Attribute {
        /// Handle of what has it.
        of: Handle,
        /// Its name.
        name: Vec<u8>,
    },
    /// Counts on what is below a directory, ahead of the copy. Each handle has one count; the answers add up.
    Count {
        /// The directory.
        directory: Handle,
        /// Whether directories of other filesystems are not entered.
        one_filesystem: bool,
    },
    /// Closes what is open. The handle is of no use from the call on.
    Close {
        /// Its handle.
        of: Handle,
    },
}

impl Call {
    /// Returns the handle that it is about, and the kind that this must be of, if not any.
    pub(crate) fn subject(&self) -> Option<(Handle, Option<Kind>)> {
        match self {
            Call::Root { .. } => None,
            Call::Open { directory: of, .. }
            | Call::List { directory: of, .. }
            | Call::ListFrom { directory: of, .. }
            | Call::Look { directory: of, .. }
            | Call::LookAll { directory: of, .. }
            | Call::Count { directory: of, .. } => Some((*of, Some(Kind::Directory))),
            Call::Ranges { file: of, .. }
            | Call::Read { file: of, .. }
            | Call::Send { file: of, .. } => Some((*of, Some(Kind::File))),
            Call::Examine { of }
            | Call::Attributes { of }
            | Call::Attribute { of, .. }
            | Call::Close { of } => Some((*of, None)),
        }
    }

    /// Returns the handle that it is about.
    #[must_use]
    pub fn handle(&self) -> Option<Handle> {
        self.subject().map(|(handle, _)| handle)
    }

    /// Checks that the handle that it is about is open and of its kind.
    pub(crate) fn check_handle(&self, open: &BTreeMap<u32, Kind>) -> Result<(), Violation> {
        let Some((Handle(handle), kind)) = self.subject() else { return Ok(()) };
        match open.get(&handle) {
            Some(found) if kind.is_none_or(|kind| kind == *found) => Ok(()),
            _ => Err(Violation::BadHandle { handle }),
        }
    }

    /// Checks that a data connection may make it. Its handle is one of the session, which alone knows whether it is open.
    pub(crate) fn check_reads(&self) -> Result<(), Violation> {
        match self {
            Call::Read { .. } | Call::ListFrom { .. } | Call::LookAll { .. } => Ok(()),
            _ => Err(Violation::OnlyReads),
        }
    }

    /// Checks what the asking side can get wrong.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let is_offset = |offset: u64| i64::try_from(offset).is_ok();
        let is_good = match self {
            Call::Open { name, .. } | Call::Look { name, .. } => return name::check(name),
            Call::LookAll { way, names, contents_up_to, .. } => {
                way.iter().chain(names).try_for_each(|name| name::check(name))?;
                way.len() <= MAX_NAMES
                    && (1..=MAX_NAMES).contains(&names.len())
                    && *contents_up_to <= MAX_CONTENTS_BYTES
            }
            Call::Attribute { name, .. } => is_attribute_name(name),
            Call::List { contents_up_to, .. } | Call::ListFrom { contents_up_to, .. } => {
                *contents_up_to <= MAX_CONTENTS_BYTES
            }
            Call::Ranges { from, .. } => is_offset(*from),
            Call::Read { offset, bytes, .. } | Call::Send { offset, bytes, .. } => {
                *bytes <= MAX_READ_BYTES && is_offset(offset.saturating_add((*bytes).into()))
            }
            _ => true,
        };
        if is_good { Ok(()) } else { Err(Violation::Malformed { what: "call" }) }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Call::Root { number, follows } => to.u8(1).u32(*number).bool(*follows),
            Call::Open { directory, name, follows } => {
                to.u8(2).u32(directory.0).bool(*follows).bytes(name)
            }
            Call::List { directory, contents_up_to } => {
                to.u8(3).u32(directory.0).u32(*contents_up_to)
            }
            Call::Look { directory, name } => to.u8(4).u32(directory.0).bytes(name),
            Call::Examine { of } => to.u8(5).u32(of.0),
            Call::Ranges { file, from } => to.u8(6).u32(file.0).u64(*from),
            Call::Read { file, offset, bytes } => to.u8(7).u32(file.0).u64(*offset).u32(*bytes),
            Call::Attributes { of } => to.u8(8).u32(of.0),
            Call::Close { of } => to.u8(9).u32(of.0),
            Call::Attribute { of, name } => to.u8(10).u32(of.0).bytes(name),
            Call::Count { directory, one_filesystem } => {
                to.u8(11).u32(directory.0).bool(*one_filesystem)
            }
            Call::Send { file, offset, bytes, over } => {
                to.u8(12).u32(file.0).u64(*offset).u32(*bytes).u32(*over)
            }
            Call::ListFrom { directory, position, contents_up_to, wants_attributes } => {
                let kind = if *wants_attributes { 15 } else { 13 };
                to.u8(kind).u32(directory.0).bool(position.is_some());
                if let Some(position) = position {
                    to.u64(*position);
                }
                to.u32(*contents_up_to)
            }
            Call::LookAll { directory, way, names, contents_up_to, wants_attributes } => {
                write_names(to.u8(14).u32(directory.0), way);
                write_names(&mut to, names);
                to.u32(*contents_up_to).bool(*wants_attributes)
            }
        };
        to.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Call, Violation> {
        let mut from = Reader::new(payload, "call");
        let kind = from.u8()?;
        let handle = |from: &mut Reader<'_>| from.u32().map(Handle);
        let call = match kind {
            1 => Call::Root { number: from.u32()?, follows: from.bool()? },
            2 => {
                let (directory, follows) = (handle(&mut from)?, from.bool()?);
                Call::Open { directory, name: from.bytes()?.to_vec(), follows }
            }
            3 => Call::List { directory: handle(&mut from)?, contents_up_to: from.u32()? },
            4 => Call::Look { directory: handle(&mut from)?, name: from.bytes()?.to_vec() },
            5 => Call::Examine { of: handle(&mut from)? },
            6 => Call::Ranges { file: handle(&mut from)?, from: from.u64()? },
            7 => {
                let (file, offset) = (handle(&mut from)?, from.u64()?);
                Call::Read { file, offset, bytes: from.u32()? }
            }
            8 => Call::Attributes { of: handle(&mut from)? },
            9 => Call::Close { of: handle(&mut from)? },
            10 => Call::Attribute { of: handle(&mut from)?, name: from.bytes()?.to_vec() },
            11 => Call::Count { directory: handle(&mut from)?, one_filesystem: from.bool()? },
            12 => {
                let (file, offset) = (handle(&mut from)?, from.u64()?);
                Call::Send { file, offset, bytes: from.u32()?, over: from.u32()? }
            }
            13 | 15 => {
                let (directory, has_position) = (handle(&mut from)?, from.bool()?);
                let position = if has_position { Some(from.u64()?) } else { None };
                let (contents_up_to, wants_attributes) = (from.u32()?, kind == 15);
                Call::ListFrom { directory, position, contents_up_to, wants_attributes }
            }
            14 => {
                let directory = handle(&mut from)?;
                let (way, names) = (read_names(&mut from)?, read_names(&mut from)?);
                let (contents_up_to, wants_attributes) = (from.u32()?, from.bool()?);
                Call::LookAll { directory, way, names, contents_up_to, wants_attributes }
            }
            _ => return Err(from.malformed()),
        };
        from.end()?;
        call.check().map(|()| call)
    }
}

fn write_names(to: &mut Writer, names: &[Vec<u8>]) {
    // No call has more than fit into a frame.
    to.u32(names.len() as u32);
    for name in names {
        to.bytes(name);
    }
}

fn read_names(from: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Violation> {
    // Each takes bytes of the frame, which is bounded.
    (0..from.u32()?).map(|_| from.bytes().map(<[u8]>::to_vec)).collect()
}
