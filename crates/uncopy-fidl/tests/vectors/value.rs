//! Values as written in cases, and their conversion to typed values.

use uncopy_fidl::OwnedHandle;

use crate::case::{bytes, named_rights, numbers, object_type};
use crate::handle::TestHandle;
use crate::types::FromValue;

/// An untyped value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Vec<u8>),
    List(Vec<Value>),
    Object(String, Vec<(String, Value)>),
    Handle(usize),
    Restricted(usize, String, String),
    /// The value that decoding these bytes with these handles gives.
    Decoded {
        type_name: String,
        bytes: Vec<u8>,
        handles: Vec<usize>,
    },
}

impl Value {
    /// Returns the type name of an object.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Value::Object(name, _) | Value::Decoded { type_name: name, .. } => name,
            other => panic!("no object: {other:?}"),
        }
    }

    pub(crate) fn fields(&self) -> &[(String, Value)] {
        match self {
            Value::Object(_, fields) => fields,
            other => panic!("no object: {other:?}"),
        }
    }

    /// Returns null if it is absent.
    pub(crate) fn field<T: FromValue>(&self, name: &str, handles: &[TestHandle]) -> T {
        let found = self.fields().iter().find(|(field, _)| field == name);
        T::from_value(found.map_or(&Value::Null, |(_, value)| value), handles)
    }

    pub(crate) fn int(&self) -> i128 {
        match self {
            Value::Int(number) => *number,
            other => panic!("no number: {other:?}"),
        }
    }
}

/// Parser of values.
pub(crate) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { rest: text }
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        let found = self.rest.strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    #[track_caller]
    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "{token} is missing before {:?}", self.rest);
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let is_part = |c: char| c.is_alphanumeric() || "_.-+".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    pub(crate) fn value(&mut self) -> Value {
        self.skip();
        if self.rest.starts_with('"') {
            return Value::Text(self.text());
        }
        if self.take("[") {
            return Value::List(self.list());
        }
        if self.take("#") {
            return Value::Handle(self.word().parse().unwrap());
        }
        let word = self.word();
        match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "restrict" => self.restricted(),
            "decode" => self.decoded(),
            _ if self.take("{") => Value::Object(word.to_owned(), self.object()),
            _ => number(word),
        }
    }

    /// Parses after `[`: values and repeated values.
    fn list(&mut self) -> Vec<Value> {
        let mut values = Vec::new();
        while !self.take("]") {
            if self.take("repeat(") {
                let value = self.value();
                self.expect("):");
                let count = self.word().parse().unwrap();
                values.extend(std::iter::repeat_n(value, count));
            } else {
                values.push(self.value());
            }
            self.take(",");
        }
        values
    }

    /// Parses after `{`.
    fn object(&mut self) -> Vec<(String, Value)> {
        let mut fields = Vec::new();
        while !self.take("}") {
            let name = self.word().to_owned();
            self.expect(":");
            fields.push((name, self.value()));
            self.take(",");
        }
        fields
    }

    /// `"…"` with `\"`, `\\` and `\x80`.
    fn text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut bytes = self.rest.bytes().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                b'\\' => {
                    let escaped = bytes.next().unwrap().1;
                    if escaped == b'x' {
                        let digits = &self.rest[at + 2..at + 4];
                        text.push(u8::from_str_radix(digits, 16).unwrap());
                        bytes.by_ref().take(2).for_each(drop);
                    } else {
                        text.push(escaped);
                    }
                }
                byte => text.push(byte),
            }
        }
        panic!("a string without end: {}", self.rest)
    }

    /// `(#0, type: event, rights: basic)`.
    fn restricted(&mut self) -> Value {
        self.expect("(");
        self.expect("#");
        let number = self.word().parse().unwrap();
        self.expect(",");
        self.expect("type:");
        let object_type = self.word().to_owned();
        self.expect(",");
        self.expect("rights:");
        let rights = self.word().to_owned();
        self.expect(")");
        Value::Restricted(number, object_type, rights)
    }

    /// `({ type = T, bytes = { v2 = [ … ]}, handles = { v2 = [ … ]}})`.
    fn decoded(&mut self) -> Value {
        let mut bracketed = self.rest.split('[').skip(1).map(|part| part.split(']').next());
        let of_bytes = bracketed.next().flatten().unwrap();
        let of_handles = bracketed.next().flatten().unwrap_or("");
        let (_, after) = self.rest.split_once("type =").unwrap();
        let type_name = after.split(',').next().unwrap().trim().to_owned();
        self.rest = "";
        Value::Decoded { type_name, bytes: bytes(of_bytes), handles: numbers(of_handles) }
    }
}

fn number(word: &str) -> Value {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word), |digits| (-1, digits));
    if let Some(hex) = digits.strip_prefix("0x") {
        return Value::Int(sign * i128::from_str_radix(hex, 16).unwrap());
    }
    match word.parse() {
        Ok(number) => Value::Int(number),
        Err(_) => Value::Float(word.parse().unwrap_or_else(|_| panic!("no value: {word:?}"))),
    }
}

macro_rules! ints {
    ($($number:ty)*) => {$(
        impl FromValue for $number {
            fn from_value(value: &Value, _: &[TestHandle]) -> $number {
                <$number>::try_from(value.int()).unwrap()
            }
        }
    )*};
}

ints!(u8 u16 u32 u64 i8 i16 i32 i64);

impl FromValue for f32 {
    fn from_value(value: &Value, handles: &[TestHandle]) -> f32 {
        f64::from_value(value, handles) as f32
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value, _: &[TestHandle]) -> f64 {
        match value {
            Value::Float(number) => *number,
            other => other.int() as f64,
        }
    }
}

impl FromValue for bool {
    fn from_value(value: &Value, _: &[TestHandle]) -> bool {
        *value == Value::Bool(true)
    }
}

impl FromValue for String {
    fn from_value(value: &Value, _: &[TestHandle]) -> String {
        match value {
            Value::Text(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("no string: {other:?}"),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: &Value, handles: &[TestHandle]) -> Vec<T> {
        match value {
            Value::List(items) => items.iter().map(|item| T::from_value(item, handles)).collect(),
            other => panic!("no list: {other:?}"),
        }
    }
}

impl<T: FromValue, const N: usize> FromValue for [T; N] {
    fn from_value(value: &Value, handles: &[TestHandle]) -> [T; N] {
        let items = Vec::from_value(value, handles);
        items.try_into().unwrap_or_else(|_| panic!("{N} items: {value:?}"))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value, handles: &[TestHandle]) -> Option<T> {
        (*value != Value::Null).then(|| T::from_value(value, handles))
    }
}

impl<T: FromValue> FromValue for Box<T> {
    fn from_value(value: &Value, handles: &[TestHandle]) -> Box<T> {
        Box::new(T::from_value(value, handles))
    }
}

impl FromValue for OwnedHandle<TestHandle> {
    fn from_value(value: &Value, handles: &[TestHandle]) -> OwnedHandle<TestHandle> {
        let numbered = |number: usize| handles.iter().find(|h| h.id == number).unwrap().clone();
        match value {
            Value::Handle(number) => numbered(*number).into(),
            Value::Restricted(number, of, rights) => TestHandle {
                object_type: object_type(of),
                rights: named_rights(rights),
                ..numbered(*number)
            }
            .into(),
            other => panic!("no handle: {other:?}"),
        }
    }
}
