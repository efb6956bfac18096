//! What is wrong with a value or a message, and where.

use std::fmt;

use crate::handle::{HandleRights, ObjectType};
use crate::{MAX_BYTES, MAX_DEPTH, MAX_HANDLES};

/// A value that cannot be encoded, or bytes that are no message: which rule, at which byte, in
/// which field.
///
/// It is one pointer wide, and allocates only when there is something to say.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Facts>);

#[derive(Clone, PartialEq, Eq)]
struct Facts {
    rule: Rule,
    offset: Option<usize>,
    /// Innermost first.
    path: Vec<Segment>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Field(&'static str),
    Item(usize),
}

/// What every fallible function of this crate gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A rule of the wire format, with what it wants and what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// Objects reach behind the end of the message.
    #[error("{needed} bytes are needed and {left} are left; send the whole message")]
    TooFewBytes {
        /// Bytes of the next object, padding included.
        needed: usize,
        /// Bytes behind the objects before it.
        left: usize,
    },
    /// The message goes on behind its last object.
    #[error("{left} bytes are left over; decode as the type that was sent")]
    ExtraBytes {
        /// How many.
        left: usize,
    },
    /// A handle is said to be present behind the last one.
    #[error("handle {needed} of {count} is needed; send all handles with the message")]
    TooFewHandles {
        /// Which one, counted from 1.
        needed: usize,
        /// How many came.
        count: usize,
    },
    /// More handles came than fields refer to.
    #[error("{left} handles are left over; decode as the type that was sent")]
    ExtraHandles {
        /// How many.
        left: usize,
    },
    /// The message would be longer than a channel takes.
    #[error("{bytes} bytes, {MAX_BYTES} at most; split the message")]
    MessageTooLong {
        /// Bytes until it was noticed.
        bytes: usize,
    },
    /// The message would have more handles than a channel takes.
    #[error("{handles} handles, {MAX_HANDLES} at most; split the message")]
    TooManyHandles {
        /// Handles until it was noticed.
        handles: usize,
    },
    /// Objects are nested deeper than the format allows.
    #[error("nested deeper than {MAX_DEPTH} objects out of line; flatten the value")]
    TooDeep,
    /// A vector has more items than its type allows.
    #[error("a vector of {found} items, {max} at most; shorten it")]
    CountExceedsLimit {
        /// The type's limit.
        max: usize,
        /// Items.
        found: usize,
    },
    /// A string has more bytes than its type allows.
    #[error("a string of {found} bytes, {max} at most; shorten it")]
    StringTooLong {
        /// The type's limit.
        max: usize,
        /// Bytes.
        found: usize,
    },
    /// The count of a vector or string does not fit into 32 bits.
    #[error("a count of {found}, 4294967295 at most; send a valid count")]
    CountExceeds32Bits {
        /// The count.
        found: u64,
    },
    /// A string is not UTF-8.
    #[error("no UTF-8 from byte {valid} of the string on; send bytes as a vector")]
    NotUtf8 {
        /// How many bytes are valid before.
        valid: usize,
    },
    /// A presence marker is neither absent nor present.
    #[error("a presence marker is {found:#x}; it is all zeros or all ones")]
    InvalidPresence {
        /// The marker.
        found: u64,
    },
    /// A value that must be there is absent.
    #[error("a required value is absent; send it, or make the field optional")]
    RequiredIsAbsent,
    /// An absent vector has a count.
    #[error("an absent vector counts {count} items; it counts 0, or its body is present")]
    AbsentVectorWithCount {
        /// The count.
        count: u64,
    },
    /// An absent string has a length.
    #[error("an absent string counts {count} bytes; it counts 0, or its body is present")]
    AbsentStringWithCount {
        /// The length.
        count: u64,
    },
    /// A boolean is neither 0 nor 1.
    #[error("a boolean is {found}; it is 0 or 1")]
    InvalidBool {
        /// The byte.
        found: u8,
    },
    /// No member of a strict enum.
    #[error("{found} is no member of this strict enum; send a member, or make it flexible")]
    UnknownEnumMember {
        /// The number.
        found: i128,
    },
    /// Bits that a strict bits type does not have.
    #[error("bits {found:#x} of which {known:#x} are known; clear the others, or make it flexible")]
    UnknownBits {
        /// All that it has.
        known: u64,
        /// Those that were set.
        found: u64,
    },
    /// No member of a strict union.
    #[error("ordinal {ordinal} is no member of this strict union; send one, or make it flexible")]
    UnknownUnionMember {
        /// The ordinal.
        ordinal: u64,
    },
    /// An unknown member of a flexible union that cannot be encoded again.
    #[error("the unknown member {ordinal} came with handles, which are closed; send a known one")]
    UnknownNotEncodable {
        /// The ordinal.
        ordinal: u64,
    },
    /// An unknown member without an ordinal: a receiver would take the union for absent.
    #[error("an unknown member has the ordinal 0; keep the ordinal with which it came")]
    UnknownOrdinalZero,
    /// An unknown member with the ordinal of a known one: a receiver would take its bytes for that.
    #[error("ordinal {ordinal} of an unknown member is a known one's; send that member")]
    UnknownIsKnown {
        /// The ordinal.
        ordinal: u64,
    },
    /// A union names a member and has no payload.
    #[error("a union with ordinal {ordinal} has no payload; send the payload")]
    UnionWithoutPayload {
        /// The ordinal.
        ordinal: u64,
    },
    /// An absent union has a payload.
    #[error("an absent union has a payload; its envelope is all zeros, or its ordinal is not 0")]
    AbsentUnionWithPayload,
    /// A byte that belongs to nothing is not zero.
    #[error("a byte of padding is {found:#x}; it is 0")]
    NonZeroPadding {
        /// The byte.
        found: u8,
    },
    /// A handle's marker is neither absent nor present.
    #[error("a handle is marked {found:#x}; it is 0 or 0xffffffff")]
    InvalidHandlePresence {
        /// The marker.
        found: u32,
    },
    /// A handle is to an object of another type than its field's.
    #[error("a handle to {found}, to {expected} is wanted; send one of that type")]
    WrongHandleType {
        /// The field's.
        expected: ObjectType,
        /// The handle's.
        found: ObjectType,
    },
    /// A handle lacks rights that its field names.
    #[error("a handle has the rights {found:?}, {expected:?} are wanted; send one with them")]
    MissingRights {
        /// The field's.
        expected: HandleRights,
        /// The handle's.
        found: HandleRights,
    },
    /// A handle could not be replaced by one with fewer rights.
    #[error("the rights of a handle could not be narrowed to {wanted:?}; see its type")]
    CannotNarrow {
        /// The field's.
        wanted: HandleRights,
    },
    /// A value with handles is encoded before they were taken out.
    #[error("a handle is still in the value; take them with take_handles first")]
    HandleNotTaken,
    /// A handle was taken out before.
    #[error("the handle was taken before; a handle moves once")]
    HandleGone,
    /// An envelope has flags that do not exist.
    #[error("an envelope has the flags {found:#x}; 0 or 1")]
    InvalidEnvelopeFlags {
        /// The flags.
        found: u16,
    },
    /// A payload is inline that must be out of line, or the other way round.
    #[error("a payload of {size} bytes is on the wrong side: inline exactly up to 4 bytes")]
    EnvelopeInlining {
        /// Bytes of the payload's inline part.
        size: usize,
    },
    /// An envelope announces other sizes than its payload has.
    #[error("an envelope announces {announced} bytes and has {found}; announce what is sent")]
    EnvelopeBytes {
        /// In the envelope.
        announced: usize,
        /// Used by the payload; the next multiple of 8 where the announced number is none.
        found: usize,
    },
    /// An envelope announces other handles than its payload has.
    #[error("an envelope announces {announced} handles and has {found}; announce what is sent")]
    EnvelopeHandles {
        /// In the envelope.
        announced: usize,
        /// Used by the payload.
        found: usize,
    },
    /// The last envelope of a table is absent.
    #[error("the last of {count} envelopes of a table is absent; count to the last present one")]
    LastEnvelopeAbsent {
        /// How many envelopes the table says it has.
        count: usize,
    },
    /// A message's magic number is another.
    #[error("the header's magic number is {found}, 1 is wanted; send FIDL messages only")]
    UnknownMagic {
        /// The byte.
        found: u8,
    },
    /// A message in another version of the format.
    #[error("the header's flags {found:#x} lack 0x2, wire format v2; send that version")]
    UnknownFormat {
        /// The first byte of flags.
        found: u8,
    },
    /// A message without ordinal.
    #[error("the header's ordinal is 0; every method has one")]
    OrdinalZero,
    /// More gather regions than a write takes were asked for.
    #[error("no room for {wanted} regions, 1 to 8192 are possible; choose as many")]
    RegionLimit {
        /// How many.
        wanted: usize,
    },
}

impl Error {
    /// Breaks `rule`, at no byte that could be named.
    #[cold]
    pub(crate) fn new(rule: Rule) -> Error {
        Error(Box::new(Facts { rule, offset: None, path: Vec::new() }))
    }

    /// Breaks `rule` at byte `offset`.
    #[cold]
    pub(crate) fn at(offset: usize, rule: Rule) -> Error {
        Error(Box::new(Facts { rule, offset: Some(offset), path: Vec::new() }))
    }

    /// The same, inside the field `name`.
    #[cold]
    #[must_use]
    pub fn in_field(mut self, name: &'static str) -> Error {
        self.0.path.push(Segment::Field(name));
        self
    }

    /// The same, inside the item `index` of a vector or array.
    #[cold]
    #[must_use]
    pub(crate) fn in_item(mut self, index: usize) -> Error {
        self.0.path.push(Segment::Item(index));
        self
    }

    /// What is broken.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.0.rule
    }

    /// Where in the bytes that were decoded. None where a value is at fault.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// The way to the field: `shapes[3].name`. Empty where the whole is at fault.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.0.path.iter().rev() {
            match segment {
                Segment::Item(index) => path.push_str(&format!("[{index}]")),
                Segment::Field(name) if path.is_empty() => path.push_str(name),
                Segment::Field(name) => path.push_str(&format!(".{name}")),
            }
        }
        path
    }
}

/// Breaks the rule at no byte that could be named.
impl From<Rule> for Error {
    fn from(rule: Rule) -> Error {
        Error::new(rule)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        if !path.is_empty() {
            f.write_str(&path)?;
        }
        match (path.is_empty(), self.offset()) {
            (false, Some(offset)) => write!(f, " at byte {offset}: ")?,
            (true, Some(offset)) => write!(f, "byte {offset}: ")?,
            (false, None) => f.write_str(": ")?,
            (true, None) => {}
        }
        self.rule().fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("rule", &self.rule())
            .field("offset", &self.offset())
            .field("path", &self.path())
            .finish()
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::{Error, Rule};

    #[test]
    fn an_error_says_where_and_what_and_what_next() {
        let rule = Rule::StringTooLong { max: 2, found: 3 };
        let error = Error::at(16, rule).in_field("name").in_item(3).in_field("shapes");
        assert_eq!(error.path(), "shapes[3].name");
        assert_eq!(
            error.to_string(),
            "shapes[3].name at byte 16: a string of 3 bytes, 2 at most; shorten it"
        );
        assert_eq!(Error::new(Rule::OrdinalZero).to_string(), Rule::OrdinalZero.to_string());
        assert_eq!((error.rule(), error.offset()), (rule, Some(16)));
        assert_eq!(size_of::<super::Result<()>>(), size_of::<usize>());
    }
}
