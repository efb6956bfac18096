//! Errors of values and messages: the broken rule, and where it is broken.

use std::fmt;

use crate::handle::{HandleRights, ObjectType};
use crate::{MAX_BYTES, MAX_DEPTH, MAX_HANDLES};

/// An error of a value that cannot be encoded, or of bytes that are not a valid message: the rule,
/// the byte and the field.
///
/// One pointer wide; allocates only if there is an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorFacts>);

#[derive(Clone, PartialEq, Eq)]
struct ErrorFacts {
    rule: Rule,
    offset: Option<usize>,
    /// Path to the field, innermost segment first.
    path: Vec<Segment>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Field(&'static str),
    Item(usize),
}

/// Result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A rule of the wire format that is broken, with the expected and the found value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// An object extends beyond the end of the message.
    #[error("{needed} bytes are needed and {left} are left; send the whole message")]
    TooFewBytes {
        /// Bytes of the next object, padding included.
        needed: usize,
        /// Bytes left after the objects before it.
        left: usize,
    },
    /// The message continues after its last object.
    #[error("{left} bytes are left over; decode as the type that was sent")]
    ExtraBytes {
        /// Number of bytes left.
        left: usize,
    },
    /// A field refers to a handle after the last one.
    #[error("handle {needed} of {count} is needed; send all handles with the message")]
    TooFewHandles {
        /// Position of the handle, counted from 1.
        needed: usize,
        /// Number of handles in the message.
        count: usize,
    },
    /// The message has more handles than fields refer to.
    #[error("{left} handles are left over; decode as the type that was sent")]
    ExtraHandles {
        /// Number of handles left.
        left: usize,
    },
    /// The message would be longer than a channel allows.
    #[error("{bytes} bytes, {MAX_BYTES} at most; split the message")]
    MessageTooLong {
        /// Length at the time of the check.
        bytes: usize,
    },
    /// The message would have more handles than a channel allows.
    #[error("{handles} handles, {MAX_HANDLES} at most; split the message")]
    TooManyHandles {
        /// Number of handles at the time of the check.
        handles: usize,
    },
    /// Objects are nested deeper than the format allows.
    #[error("nested deeper than {MAX_DEPTH} objects out of line; flatten the value")]
    TooDeep,
    /// A vector has more items than its type allows.
    #[error("a vector of {found} items, {max} at most; shorten it")]
    CountExceedsLimit {
        /// Limit of the type.
        max: usize,
        /// Number of items.
        found: usize,
    },
    /// A string has more bytes than its type allows.
    #[error("a string of {found} bytes, {max} at most; shorten it")]
    StringTooLong {
        /// Limit of the type.
        max: usize,
        /// Number of bytes.
        found: usize,
    },
    /// The count of a vector or string does not fit into 32 bits.
    #[error("a count of {found}, 4294967295 at most; send a valid count")]
    CountExceeds32Bits {
        /// The count found.
        found: u64,
    },
    /// A string is not UTF-8.
    #[error("no UTF-8 from byte {valid} of the string on; send bytes as a vector")]
    NotUtf8 {
        /// Number of valid bytes before.
        valid: usize,
    },
    /// A presence marker is neither absent nor present.
    #[error("a presence marker is {found:#x}; it is all zeros or all ones")]
    InvalidPresence {
        /// The marker found.
        found: u64,
    },
    /// A required value is absent.
    #[error("a required value is absent; send it, or make the field optional")]
    RequiredIsAbsent,
    /// An absent vector has a count.
    #[error("an absent vector counts {count} items; it counts 0, or its body is present")]
    AbsentVectorWithCount {
        /// The count found.
        count: u64,
    },
    /// An absent string has a length.
    #[error("an absent string counts {count} bytes; it counts 0, or its body is present")]
    AbsentStringWithCount {
        /// The length found.
        count: u64,
    },
    /// A boolean is neither 0 nor 1.
    #[error("a boolean is {found}; it is 0 or 1")]
    InvalidBool {
        /// The byte found.
        found: u8,
    },
    /// A number is not a member of a strict enum.
    #[error("{found} is no member of this strict enum; send a member, or make it flexible")]
    UnknownEnumMember {
        /// The number found.
        found: i128,
    },
    /// Bits are set that a strict bits type does not have.
    #[error("bits {found:#x} of which {known:#x} are known; clear the others, or make it flexible")]
    UnknownBits {
        /// All bits of the type.
        known: u64,
        /// Bits found.
        found: u64,
    },
    /// An ordinal is not a member of a strict union.
    #[error("ordinal {ordinal} is no member of this strict union; send one, or make it flexible")]
    UnknownUnionMember {
        /// The ordinal found.
        ordinal: u64,
    },
    /// An unknown member of a flexible union cannot be encoded again.
    #[error("the unknown member {ordinal} came with handles, which are closed; send a known one")]
    UnknownNotEncodable {
        /// Its ordinal.
        ordinal: u64,
    },
    /// An unknown member has no ordinal: a receiver would take the union for absent.
    #[error("an unknown member has the ordinal 0; keep the ordinal with which it came")]
    UnknownOrdinalZero,
    /// An unknown member has the ordinal of a known one: a receiver would decode its bytes as that.
    #[error("ordinal {ordinal} of an unknown member is a known one's; send that member")]
    UnknownIsKnown {
        /// Its ordinal.
        ordinal: u64,
    },
    /// A union has an ordinal but no payload.
    #[error("a union with ordinal {ordinal} has no payload; send the payload")]
    UnionWithoutPayload {
        /// The ordinal found.
        ordinal: u64,
    },
    /// An absent union has a payload.
    #[error("an absent union has a payload; its envelope is all zeros, or its ordinal is not 0")]
    AbsentUnionWithPayload,
    /// A byte of padding is not zero.
    #[error("a byte of padding is {found:#x}; it is 0")]
    NonZeroPadding {
        /// The byte found.
        found: u8,
    },
    /// A handle's marker is neither absent nor present.
    #[error("a handle is marked {found:#x}; it is 0 or 0xffffffff")]
    InvalidHandlePresence {
        /// The marker found.
        found: u32,
    },
    /// A handle's object has another type than its field's.
    #[error("a handle to {found}, to {expected} is wanted; send one of that type")]
    WrongHandleType {
        /// Type in the field.
        expected: ObjectType,
        /// Type of the object.
        found: ObjectType,
    },
    /// A handle lacks rights of its field.
    #[error("a handle has the rights {found:?}, {expected:?} are wanted; send one with them")]
    MissingRights {
        /// Rights in the field.
        expected: HandleRights,
        /// Rights of the handle.
        found: HandleRights,
    },
    /// A handle could not be replaced by one with fewer rights.
    #[error("the rights of a handle could not be narrowed to {wanted:?}; see its type")]
    CannotNarrow {
        /// Rights in the field.
        wanted: HandleRights,
    },
    /// A value is encoded before its handles were taken out.
    #[error("a handle is still in the value; take them with take_handles first")]
    HandleNotTaken,
    /// A handle was already taken out.
    #[error("the handle was taken before; a handle moves once")]
    HandleGone,
    /// An envelope has undefined flags.
    #[error("an envelope has the flags {found:#x}; 0 or 1")]
    InvalidEnvelopeFlags {
        /// The flags found.
        found: u16,
    },
    /// A payload is inline that must be out of line, or the reverse.
    #[error("a payload of {size} bytes is on the wrong side: inline exactly up to 4 bytes")]
    EnvelopeInlining {
        /// Size of the payload's inline part in bytes.
        size: usize,
    },
    /// An envelope states another size than its payload has.
    #[error("an envelope announces {announced} bytes and has {found}; announce what is sent")]
    EnvelopeBytes {
        /// Size in the envelope.
        announced: usize,
        /// Size of the payload; rounded up to a multiple of 8 if the stated size is not one.
        found: usize,
    },
    /// An envelope states another number of handles than its payload has.
    #[error("an envelope announces {announced} handles and has {found}; announce what is sent")]
    EnvelopeHandles {
        /// Number in the envelope.
        announced: usize,
        /// Number of handles in the payload.
        found: usize,
    },
    /// The last envelope of a table is absent.
    #[error("the last of {count} envelopes of a table is absent; count to the last present one")]
    LastEnvelopeAbsent {
        /// Number of envelopes, as stated by the table.
        count: usize,
    },
    /// A message has another magic number.
    #[error("the header's magic number is {found}, 1 is wanted; send FIDL messages only")]
    UnknownMagic {
        /// The byte found.
        found: u8,
    },
    /// A message has another version of the format.
    #[error("the header's flags {found:#x} lack 0x2, wire format v2; send that version")]
    UnknownFormat {
        /// First byte of the flags.
        found: u8,
    },
    /// A message has no ordinal.
    #[error("the header's ordinal is 0; every method has one")]
    OrdinalZero,
    /// The maximum number of gather regions is out of range.
    #[error("no room for {wanted} regions, 1 to 8192 are possible; choose as many")]
    RegionLimit {
        /// The number requested.
        wanted: usize,
    },
}

impl Error {
    /// Makes an error without an offset.
    #[cold]
    pub(crate) fn new(rule: Rule) -> Error {
        Error(Box::new(ErrorFacts { rule, offset: None, path: Vec::new() }))
    }

    /// Makes an error at byte `offset`.
    #[cold]
    pub(crate) fn at(offset: usize, rule: Rule) -> Error {
        Error(Box::new(ErrorFacts { rule, offset: Some(offset), path: Vec::new() }))
    }

    /// Adds the field `name` to the path.
    #[cold]
    #[must_use]
    pub fn in_field(mut self, name: &'static str) -> Error {
        self.0.path.push(Segment::Field(name));
        self
    }

    /// Adds the item `index` of a vector or array to the path.
    #[cold]
    #[must_use]
    pub(crate) fn in_item(mut self, index: usize) -> Error {
        self.0.path.push(Segment::Item(index));
        self
    }

    /// Returns the broken rule.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.0.rule
    }

    /// Returns the offset in the decoded bytes. `None` if the error is in a value.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        self.0.offset
    }

    /// Returns the path of the field: `shapes[3].name`. Empty if the error is not in a field.
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

/// Makes an error without an offset.
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
