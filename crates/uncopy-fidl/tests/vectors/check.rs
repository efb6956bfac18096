//! Checks a case against its type.

use std::fmt::Debug;

use uncopy_fidl::{
    Departing, Encoder, Error, Fidl, GatherOptions, HandleConstraint, Handles, RegionList, Rule,
    decode_owned, decode_with_handles, encode, take_handles,
};

use crate::case::{Case, Kind};
use crate::handle::TestHandle;
use crate::types::{FromValue, subject};
use crate::value::Value;

/// Operations that every type supports.
pub(crate) struct Subject {
    encode: fn(&Value, &[TestHandle]) -> Result<Encoded, Error>,
    decode: fn(&[u8], Vec<TestHandle>, Option<Expected<'_>>) -> Decoded,
}

/// Encodes a value with its handles.
type Expected<'a> = (&'a Value, &'a [TestHandle]);

/// Bytes and the handles sent with them.
struct Encoded {
    bytes: Vec<u8>,
    handles: Vec<Departing<TestHandle>>,
}

/// Reason why a message was refused, or why its value is wrong.
type Decoded = Result<Result<(), String>, Error>;

/// A type with all traits.
pub(crate) trait Complete: Fidl<TestHandle> + FromValue + PartialEq + Debug {}

impl<T: Fidl<TestHandle> + FromValue + PartialEq + Debug> Complete for T {}

pub(crate) fn subject_of<T: Complete>() -> Subject {
    Subject { encode: encode_as::<T>, decode: decode_as::<T> }
}

/// Options for gathering: minimum body size and maximum number of regions.
const CUTS: [(usize, usize); 5] = [(1, 8192), (8, 16), (9, 3), (256, 16), (1, 1)];

fn encode_as<T: Complete>(value: &Value, defined: &[TestHandle]) -> Result<Encoded, Error> {
    let mut value = T::from_value(value, defined);
    let mut handles = Vec::new();
    take_handles(&mut value, &mut handles)?;
    let fresh = encode(&value);
    let mut encoder = Encoder::new();
    assert_eq!(encoder.linear(&value).map(<[u8]>::to_vec), fresh, "a reused buffer");
    for (min_body_bytes, max_regions) in CUTS {
        let options = GatherOptions::new().min_body_bytes(min_body_bytes).max_regions(max_regions);
        let mut encoder = Encoder::with_options(options)?;
        let mut list = RegionList::new();
        let gathered = encoder.gather(&value, &mut list).map(|regions| regions.to_vec());
        assert_eq!(gathered, fresh, "regions cut by {options:?}");
    }
    Ok(Encoded { bytes: fresh?, handles })
}

fn decode_as<T: Complete>(
    bytes: &[u8],
    came: Vec<TestHandle>,
    expected: Option<Expected<'_>>,
) -> Decoded {
    let owned = decode_owned::<T, TestHandle>(bytes, came.clone());
    let mut handles = Handles::from(came);
    let view = decode_with_handles::<T, TestHandle>(bytes, &mut handles);
    let view = view.inspect_err(|error| {
        assert_eq!(handles.remaining(), 0, "all are closed");
        assert_eq!(owned.as_ref().err(), Some(error), "both walks have the same rules");
    })?;
    // Printing a view reads all of it.
    let printed = format!("{view:?}");
    let found = T::from_view(view, &mut handles);
    assert_eq!(format!("{owned:?}"), format!("Ok({found:?})"));
    assert_eq!(handles.remaining(), 0, "{printed} has all handles");
    let Some((expected, defined)) = expected else { return Ok(Err(format!("{found:?}"))) };
    let expected = T::from_value(expected, defined);
    if found == expected {
        return Ok(Ok(()));
    }
    Ok(Err(format!("{found:?} instead of {expected:?}")))
}

/// Checks the case.
pub(crate) fn check(case: &Case) -> Result<(), String> {
    let name = match (&case.value, &case.type_name) {
        (_, Some(name)) => name,
        (Some(value), None) => value.type_name(),
        (None, None) => return Err("neither value nor type".to_owned()),
    };
    let subject = subject(name).ok_or_else(|| format!("no type {name}"))?;
    match case.kind {
        Kind::Success => {
            check_encoding(case, &subject)?;
            check_decoding(case, &subject)
        }
        Kind::EncodeSuccess => check_encoding(case, &subject),
        Kind::DecodeSuccess => check_decoding(case, &subject),
        Kind::EncodeFailure => {
            let value = case.value.as_ref().ok_or("no value")?;
            check_error(
                case,
                (subject.encode)(value, &case.defined).map(|e| format!("{:x?}", e.bytes)),
            )
        }
        Kind::DecodeFailure => {
            let decoded = (subject.decode)(&case.bytes, came(case), None);
            check_error(case, decoded.map(|found| format!("{found:?}")))
        }
    }
}

fn came(case: &Case) -> Vec<TestHandle> {
    let handle = |number: &usize| case.defined.iter().find(|h| h.id == *number).unwrap().clone();
    case.order.iter().map(handle).collect()
}

fn check_encoding(case: &Case, subject: &Subject) -> Result<(), String> {
    let value = case.value.as_ref().ok_or("no value")?;
    let encoded = (subject.encode)(value, &case.defined).map_err(|error| error.to_string())?;
    if encoded.bytes != case.bytes {
        return Err(format!("{:02x?}\ninstead of\n{:02x?}", encoded.bytes, case.bytes));
    }
    let left: Vec<usize> = encoded.handles.iter().map(|departing| departing.handle.id).collect();
    let Some(dispositions) = &case.dispositions else {
        return if left == case.order { Ok(()) } else { Err(format!("handles {left:?}")) };
    };
    let found: Vec<(usize, HandleConstraint)> =
        encoded.handles.iter().map(|d| (d.handle.id, d.constraint)).collect();
    if found == *dispositions { Ok(()) } else { Err(format!("handles {found:?}")) }
}

fn check_decoding(case: &Case, subject: &Subject) -> Result<(), String> {
    let value = case.value.as_ref().ok_or("no value")?;
    let decoded = (subject.decode)(&case.bytes, came(case), Some((value, &case.defined)));
    decoded.map_err(|error| error.to_string())?
}

fn check_error(case: &Case, outcome: Result<String, Error>) -> Result<(), String> {
    let expected = case.error.as_deref().ok_or("no error")?;
    match outcome {
        Ok(found) => Err(format!("accepted: {found}")),
        Err(error) if name_of(error.rule()) == expected => Ok(()),
        Err(error) => Err(format!("{} ({error}) instead of {expected}", name_of(error.rule()))),
    }
}

/// Returns the name of an error in the test suites of other bindings.
fn name_of(rule: Rule) -> &'static str {
    match rule {
        Rule::TooFewBytes { .. } => "TOO_FEW_BYTES",
        Rule::ExtraBytes { .. } => "TOO_MANY_BYTES_IN_MESSAGE",
        Rule::TooFewHandles { .. } => "TOO_FEW_HANDLES",
        Rule::ExtraHandles { .. } => "TOO_MANY_HANDLES_IN_MESSAGE",
        Rule::MessageTooLong { .. } => "MESSAGE_TOO_LONG",
        Rule::TooManyHandles { .. } => "TOO_MANY_HANDLES",
        Rule::TooDeep => "EXCEEDED_MAX_OUT_OF_LINE_DEPTH",
        Rule::CountExceedsLimit { .. } => "COUNT_EXCEEDS_LIMIT",
        Rule::StringTooLong { .. } => "STRING_TOO_LONG",
        Rule::CountExceeds32Bits { .. } => "VECTOR_COUNT_EXCEEDS_32_BIT_LIMIT",
        Rule::NotUtf8 { .. } => "STRING_NOT_UTF8",
        Rule::InvalidPresence { .. } => "INVALID_PRESENCE_INDICATOR",
        Rule::RequiredIsAbsent => "NON_NULLABLE_TYPE_WITH_NULL_VALUE",
        Rule::AbsentVectorWithCount { .. } => "NON_EMPTY_VECTOR_WITH_NULL_BODY",
        Rule::AbsentStringWithCount { .. } => "NON_EMPTY_STRING_WITH_NULL_BODY",
        Rule::InvalidBool { .. } => "INVALID_BOOLEAN",
        Rule::UnknownEnumMember { .. } => "STRICT_ENUM_UNKNOWN_VALUE",
        Rule::UnknownBits { .. } => "STRICT_BITS_UNKNOWN_BIT",
        Rule::UnknownUnionMember { .. } => "STRICT_UNION_UNKNOWN_FIELD",
        Rule::UnknownNotEncodable { .. } => "UNION_FIELD_NOT_SET",
        Rule::UnionWithoutPayload { .. } => "UNION_WITHOUT_PAYLOAD",
        Rule::AbsentUnionWithPayload => "EMPTY_UNION_WITH_PAYLOAD",
        Rule::NonZeroPadding { .. } => "INVALID_PADDING_BYTE",
        Rule::InvalidHandlePresence { .. } => "INVALID_HANDLE_PRESENCE_INDICATOR",
        Rule::WrongHandleType { .. } => "INCORRECT_HANDLE_TYPE",
        Rule::MissingRights { .. } => "MISSING_REQUIRED_HANDLE_RIGHTS",
        Rule::InvalidEnvelopeFlags { .. } => "INVALID_ENVELOPE_FLAGS",
        Rule::EnvelopeInlining { .. } => "INVALID_INLINE_BIT_IN_ENVELOPE",
        Rule::EnvelopeBytes { .. } => "INVALID_NUM_BYTES_IN_ENVELOPE",
        Rule::EnvelopeHandles { .. } => "INVALID_NUM_HANDLES_IN_ENVELOPE",
        Rule::LastEnvelopeAbsent { .. } => "LAST_ENVELOPE_ABSENT",
        _ => "ANOTHER",
    }
}
