//! Types of every kind, and properties for any bytes.

use std::fmt::Debug;

use uncopy_fidl::{Fidl, Handles, NoHandle, Unknown, decode, decode_owned, encode};

#[derive(Debug, Clone, PartialEq, Fidl)]
pub(crate) struct Numbers {
    pub(crate) a: u8,
    pub(crate) b: i64,
    pub(crate) c: bool,
    pub(crate) d: u16,
    pub(crate) e: i32,
    pub(crate) f: f64,
    pub(crate) g: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(i16)]
pub(crate) enum Color {
    Red = -1,
    Green = 300,
    #[fidl(unknown)]
    Other(i16),
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[fidl(bits(READ = 1, WRITE = 2, RUN = 0x80))]
pub(crate) struct Mode(pub u8);

/// A struct shorter than a word.
#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
pub(crate) struct Mark {
    pub(crate) mode: Mode,
    pub(crate) place: u16,
    pub(crate) is_set: bool,
}

#[derive(Debug, Clone, PartialEq, Fidl)]
pub(crate) struct Containers {
    pub(crate) bytes: Vec<u8>,
    pub(crate) words: Vec<u32>,
    pub(crate) floats: Option<Vec<f32>>,
    pub(crate) flags: Vec<bool>,
    pub(crate) texts: Vec<String>,
    pub(crate) nested: Vec<Vec<Vec<u16>>>,
    pub(crate) numbers: Vec<Numbers>,
    pub(crate) marks: [Mark; 3],
    pub(crate) pair: [Option<String>; 2],
    pub(crate) color: Color,
    pub(crate) mode: Mode,
}

#[derive(Debug, Clone, PartialEq, Fidl)]
pub(crate) struct Tree {
    pub(crate) value: u16,
    pub(crate) left: Option<Box<Tree>>,
    pub(crate) right: Option<Box<Tree>>,
    pub(crate) leaves: Vec<Leaf>,
}

#[derive(Debug, Clone, PartialEq, Fidl)]
pub(crate) enum Leaf {
    #[fidl(ordinal = 1)]
    Small(u8),
    #[fidl(ordinal = 2)]
    Text(String),
    #[fidl(ordinal = 3)]
    Nothing,
    #[fidl(ordinal = 7)]
    Numbers(Numbers),
    #[fidl(unknown)]
    Other(Unknown),
}

#[derive(Debug, Clone, PartialEq, Fidl)]
pub(crate) enum Strict {
    #[fidl(ordinal = 1)]
    Bytes(Vec<u8>),
    #[fidl(ordinal = 0x7fff_ffff_ffff_ffff)]
    Mode(Mode),
}

#[derive(Debug, Clone, PartialEq, Fidl)]
#[fidl(table)]
pub(crate) struct Settings {
    #[fidl(ordinal = 1)]
    pub(crate) level: Option<u8>,
    #[fidl(ordinal = 2)]
    pub(crate) name: Option<String>,
    #[fidl(ordinal = 3)]
    pub(crate) strict: Option<Strict>,
    #[fidl(ordinal = 4)]
    pub(crate) inner: Option<Box<Settings>>,
    #[fidl(ordinal = 6)]
    pub(crate) many: Option<Vec<Settings>>,
}

/// A type that is encoded and decoded.
pub(crate) trait Value: Fidl + PartialEq + Debug {}

impl<T: Fidl + PartialEq + Debug> Value for T {}

/// Checks that a message is refused or has the bytes of another value. A table drops unknown
/// members; then the rest must be the bytes of another value.
pub(crate) fn check_changed<T: Value>(changed: &[u8], drops_unknown: bool) {
    let owned = decode_owned::<T, NoHandle>(changed, vec![]);
    let view = match decode::<T>(changed) {
        Ok(view) => view,
        Err(error) => {
            return assert_eq!(owned.err(), Some(error), "both walks have the same rules");
        }
    };
    // Reads everything that is decoded on access.
    assert!(!format!("{view:?}").is_empty());
    let value = owned.unwrap();
    // Compared by bytes, because NaN is not equal to itself.
    let from_view = T::from_view(view, &mut Handles::default());
    assert_eq!(encode(&from_view), encode(&value));
    let again = encode(&value).unwrap();
    if again != changed {
        assert!(drops_unknown, "{changed:02x?} came back as {again:02x?}");
        assert!(again.len() <= changed.len());
        let value_again = decode_owned::<T, NoHandle>(&again, vec![]).unwrap();
        assert_eq!(encode(&value_again).unwrap(), again);
    }
}

/// Decodes any bytes as each of the types.
pub(crate) fn check_any(bytes: &[u8]) {
    check_changed::<Numbers>(bytes, false);
    check_changed::<Containers>(bytes, false);
    check_changed::<Tree>(bytes, false);
    check_changed::<Vec<Leaf>>(bytes, false);
    check_changed::<Option<Strict>>(bytes, false);
    check_changed::<Settings>(bytes, true);
}
