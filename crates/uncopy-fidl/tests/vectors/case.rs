//! Notation of cases.

use uncopy_fidl::{HandleConstraint, HandleRights, ObjectType};

use crate::handle::TestHandle;
use crate::value::{Scanner, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Success,
    EncodeSuccess,
    DecodeSuccess,
    EncodeFailure,
    DecodeFailure,
}

/// A test case.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) value: Option<Value>,
    /// Type of a failing decode, which has no value.
    pub(crate) type_name: Option<String>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) error: Option<String>,
    /// Handles to create.
    pub(crate) defined: Vec<TestHandle>,
    /// Order of the handles on the wire.
    pub(crate) order: Vec<usize>,
    /// Handles and constraints of the encoded message, where the case states them.
    pub(crate) dispositions: Option<Vec<(usize, HandleConstraint)>>,
}

/// Parses all cases of a file.
pub(crate) fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        if !line.starts_with(' ') {
            cases.push(new_case(word, rest));
            continue;
        }
        let case = cases.last_mut().expect("a case begins with its kind");
        match word {
            "value" => case.value = Some(Scanner::new(rest).value()),
            "type" => case.type_name = Some(rest.to_owned()),
            "bytes" => case.bytes = bytes(rest),
            "length" => assert_eq!(case.bytes.len(), rest.parse().unwrap(), "{}", case.name),
            "error" => case.error = Some(rest.to_owned()),
            "handle_defs" => case.defined = defined(rest),
            "handles" => case.order = numbers(rest),
            "handle_dispositions" => case.dispositions = Some(dispositions(rest)),
            other => panic!("{}: no line begins with {other}", case.name),
        }
    }
    cases
}

fn new_case(kind: &str, name: &str) -> Case {
    let kind = match kind {
        "success" => Kind::Success,
        "encode_success" => Kind::EncodeSuccess,
        "decode_success" => Kind::DecodeSuccess,
        "encode_failure" => Kind::EncodeFailure,
        "decode_failure" => Kind::DecodeFailure,
        other => panic!("no kind of case: {other}"),
    };
    Case {
        kind,
        name: name.to_owned(),
        value: None,
        type_name: None,
        bytes: Vec::new(),
        error: None,
        defined: Vec::new(),
        order: Vec::new(),
        dispositions: None,
    }
}

/// `0102 ff`, or `num(514):8, repeat(0x01):514, padding:6,`.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    if text.contains(':') {
        return text.split(',').map(str::trim).filter(|p| !p.is_empty()).flat_map(piece).collect();
    }
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| pair.iter().collect::<String>());
    pairs.map(|pair| u8::from_str_radix(&pair, 16).unwrap()).collect()
}

fn piece(text: &str) -> Vec<u8> {
    let (what, count) = text.rsplit_once(':').unwrap();
    let count: usize = count.trim().parse().unwrap();
    let argument =
        |name: &str| Some(what.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?.trim());
    match (argument("num"), argument("repeat")) {
        (Some(number), _) => number.parse::<u64>().unwrap().to_le_bytes()[..count].to_vec(),
        (_, Some(byte)) => {
            let byte = byte
                .strip_prefix("0x")
                .map_or_else(|| byte.parse().unwrap(), |hex| u8::from_str_radix(hex, 16).unwrap());
            vec![byte; count]
        }
        _ if what == "padding" => vec![0; count],
        _ => panic!("no bytes: {text}"),
    }
}

/// `{ #0 = event(rights: basic), }`.
fn defined(text: &str) -> Vec<TestHandle> {
    let inside = text.trim_start_matches('{').trim_end_matches('}');
    let definitions = inside.split('#').map(str::trim).filter(|part| !part.is_empty());
    definitions
        .map(|definition| {
            let (number, handle) = definition.split_once('=').unwrap();
            let (kind, arguments) = handle.trim().split_once('(').unwrap();
            let rights = arguments
                .split_once("rights:")
                .map(|(_, rights)| rights.trim().trim_end_matches([')', ',', ' ']).to_owned());
            let object_type = object_type(kind);
            let rights = rights.map_or(default_rights(object_type), |name| named_rights(&name));
            TestHandle { id: number.trim().parse().unwrap(), object_type, rights }
        })
        .collect()
}

/// Reads the numbers after every `#`.
pub(crate) fn numbers(text: &str) -> Vec<usize> {
    let after = text.split('#').skip(1);
    after
        .map(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        })
        .collect()
}

/// `{ v2 = [ {#0, type: event, rights: basic}, ], }`.
fn dispositions(text: &str) -> Vec<(usize, HandleConstraint)> {
    let entries = text.split("{#").skip(1);
    entries
        .map(|entry| {
            let entry = entry.split('}').next().unwrap();
            let of = |name: &str| {
                let (_, rest) = entry.split_once(name)?;
                Some(rest.split(',').next()?.trim().to_owned())
            };
            let number = entry.split(',').next().unwrap().trim().parse().unwrap();
            let object_type = of("type:").map_or(ObjectType::ANY, |name| object_type(&name));
            let rights =
                of("rights:").map_or(HandleRights::SAME_RIGHTS, |name| named_rights(&name));
            (number, HandleConstraint { object_type, rights })
        })
        .collect()
}

pub(crate) fn object_type(name: &str) -> ObjectType {
    match name.trim() {
        "channel" => ObjectType::CHANNEL,
        "event" => ObjectType::EVENT,
        "socket" => ObjectType::SOCKET,
        other => panic!("no type of handle: {other}"),
    }
}

pub(crate) fn named_rights(name: &str) -> HandleRights {
    match name.trim() {
        "basic" => HandleRights::BASIC,
        "same_rights" => HandleRights::SAME_RIGHTS,
        "transfer" => HandleRights::TRANSFER,
        "channel_default" => default_rights(ObjectType::CHANNEL),
        "event_default" => default_rights(ObjectType::EVENT),
        other => panic!("no rights: {other}"),
    }
}

fn default_rights(object_type: ObjectType) -> HandleRights {
    match object_type {
        ObjectType::EVENT => HandleRights::BASIC | HandleRights::SIGNAL,
        ObjectType::CHANNEL => {
            (HandleRights::BASIC - HandleRights::DUPLICATE)
                | HandleRights::IO
                | HandleRights::SIGNAL
                | HandleRights::SIGNAL_PEER
        }
        _ => HandleRights::BASIC | HandleRights::IO,
    }
}
