//! Entries of a directory, and extended attributes.

use crate::codec::{Reader, Writer};
use crate::status::{Kind, Status};
use crate::{Violation, name};

/// Maximum length of a link's target (`PATH_MAX`).
const MAX_TARGET_BYTES: usize = 4096;
/// Maximum lengths of an attribute's name and value (`XATTR_NAME_MAX`, `XATTR_SIZE_MAX`).
const MAX_ATTRIBUTE_NAME_BYTES: usize = 255;
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name.
    pub name: Vec<u8>,
    /// Status.
    pub status: Status,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// All bytes of a small file without holes, if they were asked for and could be read: as many as the status says.
    pub contents: Option<Vec<u8>>,
    /// All extended attributes of a directory, or of a file with its contents, if they were asked for and are short.
    pub attributes: Option<Vec<Attribute>>,
}

impl Entry {
    /// Writes it. Without `with_attributes` it has no place for them.
    pub(crate) fn write(&self, writer: &mut Writer, with_attributes: bool) {
        writer.bytes(&self.name);
        self.status.write(writer);
        write_optional(writer, self.target.as_deref());
        write_optional(writer, self.contents.as_deref());
        if !with_attributes {
            return;
        }
        writer.bool(self.attributes.is_some());
        if let Some(attributes) = &self.attributes {
            writer.u32(attributes.len() as u32);
            attributes.iter().for_each(|attribute| attribute.write(writer));
        }
    }

    /// Reads it as [`Entry::write`] writes it.
    pub(crate) fn read(reader: &mut Reader<'_>, with_attributes: bool) -> Result<Entry, Violation> {
        let name = reader.bytes()?.to_vec();
        name::check(&name)?;
        let status = Status::read(reader)?;
        let target = read_target(reader, status.kind)?;
        let contents = optional(reader)?;
        let is_whole =
            |bytes: &Vec<u8>| status.kind == Kind::File && bytes.len() as u64 == status.size;
        if !contents.as_ref().is_none_or(is_whole) {
            return Err(reader.malformed());
        }
        let mut attributes = None;
        if with_attributes && reader.bool()? {
            if contents.is_none() && status.kind != Kind::Directory {
                return Err(reader.malformed());
            }
            // Each takes bytes of the frame, which is bounded.
            let all = (0..reader.u32()?).map(|_| Attribute::read(reader));
            attributes = Some(all.collect::<Result<_, _>>()?);
        }
        Ok(Entry { name, status, target, contents, attributes })
    }
}

pub(crate) fn write_optional(writer: &mut Writer, bytes: Option<&[u8]>) {
    writer.bool(bytes.is_some());
    if let Some(bytes) = bytes {
        writer.bytes(bytes);
    }
}

fn optional(reader: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Violation> {
    match reader.bool()? {
        true => Ok(Some(reader.bytes()?.to_vec())),
        false => Ok(None),
    }
}

/// Reads the target that a link has and nothing else.
pub(crate) fn read_target(
    reader: &mut Reader<'_>,
    kind: Kind,
) -> Result<Option<Vec<u8>>, Violation> {
    let target = optional(reader)?;
    let is_target =
        |target: &Vec<u8>| (1..=MAX_TARGET_BYTES).contains(&target.len()) && !target.contains(&0);
    match target.is_some() == (kind == Kind::Link) && target.as_ref().is_none_or(is_target) {
        true => Ok(target),
        false => Err(reader.malformed()),
    }
}

/// An extended attribute, or an access control list as the system stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Name.
    pub name: Vec<u8>,
    /// Value; `None`: it is to be asked for by itself.
    pub value: Option<Vec<u8>>,
}

impl Attribute {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.bytes(&self.name);
        write_optional(writer, self.value.as_deref());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Attribute, Violation> {
        let (name, value) = (reader.bytes()?.to_vec(), read_value(reader)?);
        match is_attribute_name(&name) {
            true => Ok(Attribute { name, value }),
            false => Err(reader.malformed()),
        }
    }
}

/// Reads the value of an attribute, if there is one.
pub(crate) fn read_value(reader: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Violation> {
    let value = optional(reader)?;
    let is_value = |value: &Vec<u8>| value.len() <= MAX_ATTRIBUTE_BYTES;
    if value.as_ref().is_none_or(is_value) { Ok(value) } else { Err(reader.malformed()) }
}

/// Whether bytes are the name of an attribute.
pub(crate) fn is_attribute_name(name: &[u8]) -> bool {
    (1..=MAX_ATTRIBUTE_NAME_BYTES).contains(&name.len()) && !name.contains(&0)
}

/// An entry of a directory that cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedEntry {
    /// Name.
    pub name: Vec<u8>,
    /// Error number of Linux.
    pub errno: u16,
}

/// Byte in place of the kind of an entry that cannot be looked at.
const FAILED: u8 = 0xff;

impl FailedEntry {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.bytes(&self.name).u8(FAILED).u16(self.errno);
    }
}

/// An entry of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "callers decide about each")]
pub enum PageEntry {
    /// It was looked at.
    Seen(Entry),
    /// It could not be looked at.
    Failed(FailedEntry),
}

impl PageEntry {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match self {
            PageEntry::Seen(entry) => &entry.name,
            PageEntry::Failed(entry) => &entry.name,
        }
    }

    pub(crate) fn write(&self, writer: &mut Writer, with_attributes: bool) {
        match self {
            PageEntry::Seen(entry) => entry.write(writer, with_attributes),
            PageEntry::Failed(entry) => entry.write(writer),
        }
    }

    pub(crate) fn read(
        reader: &mut Reader<'_>,
        with_attributes: bool,
    ) -> Result<PageEntry, Violation> {
        let mut ahead = *reader;
        let name = ahead.bytes()?.to_vec();
        if ahead.u8()? != FAILED {
            return Entry::read(reader, with_attributes).map(PageEntry::Seen);
        }
        name::check(&name)?;
        let errno = read_errno(&mut ahead)?;
        *reader = ahead;
        Ok(PageEntry::Failed(FailedEntry { name, errno }))
    }
}

/// Reads an error number.
pub(crate) fn read_errno(reader: &mut Reader<'_>) -> Result<u16, Violation> {
    /// `MAX_ERRNO`, `include/linux/err.h`.
    const MAX_ERRNO: u16 = 4095;
    match reader.u16()? {
        errno @ 1..=MAX_ERRNO => Ok(errno),
        _ => Err(reader.malformed()),
    }
}
