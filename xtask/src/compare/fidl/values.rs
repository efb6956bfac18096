//! Values that are encoded and decoded again and again. The peers have the same, as theirs.

use uncopy_fidl::Fidl;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A vector of bytes.
#[derive(Debug, PartialEq, Fidl)]
pub(crate) struct ByteVector {
    pub(crate) bytes: Vec<u8>,
}

/// Structs of bytes, which are the same in memory as on the wire.
macro_rules! structs_of_bytes {
    ($($(#[$doc:meta])* $name:ident: $($field:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Fidl)]
        #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        #[fidl(plain)]
        pub(crate) struct $name { $($field: u8,)* }

        impl $name {
            /// All of the same.
            pub(crate) fn of(byte: u8) -> $name {
                $name { $($field: byte,)* }
            }
        }
    )*};
}

structs_of_bytes! {
    /// 16 fields.
    Bytes16:
        b00 b01 b02 b03 b04 b05 b06 b07 b08 b09 b0a b0b b0c b0d b0e b0f;
    /// 256 fields.
    Bytes256:
        b00 b01 b02 b03 b04 b05 b06 b07 b08 b09 b0a b0b b0c b0d b0e b0f b10 b11 b12 b13
        b14 b15 b16 b17 b18 b19 b1a b1b b1c b1d b1e b1f b20 b21 b22 b23 b24 b25 b26 b27
        b28 b29 b2a b2b b2c b2d b2e b2f b30 b31 b32 b33 b34 b35 b36 b37 b38 b39 b3a b3b
        b3c b3d b3e b3f b40 b41 b42 b43 b44 b45 b46 b47 b48 b49 b4a b4b b4c b4d b4e b4f
        b50 b51 b52 b53 b54 b55 b56 b57 b58 b59 b5a b5b b5c b5d b5e b5f b60 b61 b62 b63
        b64 b65 b66 b67 b68 b69 b6a b6b b6c b6d b6e b6f b70 b71 b72 b73 b74 b75 b76 b77
        b78 b79 b7a b7b b7c b7d b7e b7f b80 b81 b82 b83 b84 b85 b86 b87 b88 b89 b8a b8b
        b8c b8d b8e b8f b90 b91 b92 b93 b94 b95 b96 b97 b98 b99 b9a b9b b9c b9d b9e b9f
        ba0 ba1 ba2 ba3 ba4 ba5 ba6 ba7 ba8 ba9 baa bab bac bad bae baf bb0 bb1 bb2 bb3
        bb4 bb5 bb6 bb7 bb8 bb9 bba bbb bbc bbd bbe bbf bc0 bc1 bc2 bc3 bc4 bc5 bc6 bc7
        bc8 bc9 bca bcb bcc bcd bce bcf bd0 bd1 bd2 bd3 bd4 bd5 bd6 bd7 bd8 bd9 bda bdb
        bdc bdd bde bdf be0 be1 be2 be3 be4 be5 be6 be7 be8 be9 bea beb bec bed bee bef
        bf0 bf1 bf2 bf3 bf4 bf5 bf6 bf7 bf8 bf9 bfa bfb bfc bfd bfe bff;
}

/// A string.
#[derive(Debug, PartialEq, Fidl)]
pub(crate) struct Text {
    pub(crate) text: String,
}

/// A vector of structs with padding in them.
#[derive(Debug, PartialEq, Fidl)]
pub(crate) struct Points {
    pub(crate) points: Vec<Point>,
}

/// A struct with padding.
#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
pub(crate) struct Point {
    pub(crate) at: u64,
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) is_set: bool,
}

/// A table with two members of four.
#[derive(Debug, PartialEq, Fidl)]
#[fidl(table)]
pub(crate) struct Profile {
    #[fidl(ordinal = 1)]
    pub(crate) number: Option<u64>,
    #[fidl(ordinal = 2)]
    pub(crate) name: Option<String>,
    #[fidl(ordinal = 3)]
    pub(crate) level: Option<u8>,
    #[fidl(ordinal = 4)]
    pub(crate) data: Option<Vec<u8>>,
}

/// A table and a union.
#[derive(Debug, PartialEq, Fidl)]
pub(crate) struct Entry {
    pub(crate) profile: Profile,
    pub(crate) key: Key,
}

/// A union.
#[derive(Debug, PartialEq, Fidl)]
pub(crate) enum Key {
    #[fidl(ordinal = 1)]
    Number(u64),
    #[fidl(ordinal = 2)]
    Text(String),
}

/// A tree: as many objects out of line as fit into a message.
#[derive(Debug, PartialEq, Fidl)]
pub(crate) struct Tree {
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) left: Option<Box<Tree>>,
    pub(crate) right: Option<Box<Tree>>,
}

/// Boxes in one another.
#[derive(Debug, PartialEq, Fidl)]
pub(crate) struct Boxes {
    pub(crate) number: u32,
    pub(crate) inner: Option<Box<Boxes>>,
}

/// `length` bytes.
pub(crate) fn byte_vector(length: usize) -> ByteVector {
    ByteVector { bytes: vec![1; length] }
}

/// 64 bytes of text.
pub(crate) fn text() -> Text {
    Text { text: "a text of sixty-four bytes, which fit into one line of the cache".to_owned() }
}

/// 100 structs.
pub(crate) fn points() -> Points {
    let point = |n: u16| Point { at: n.into(), x: n.into(), y: 0.5, is_set: n.is_multiple_of(2) };
    Points { points: (0..100).map(point).collect() }
}

/// Contents of the table and the union.
pub(crate) fn entry() -> Entry {
    let (number, name) = (Some(7), Some("a name of 20 letters".to_owned()));
    Entry {
        profile: Profile { number, name, level: None, data: None },
        key: Key::Text("key".to_owned()),
    }
}

/// 2,047 objects on 11 levels: with its header 64 KiB but for 16 bytes.
pub(crate) fn tree() -> Tree {
    fn subtree(levels: u64) -> Option<Box<Tree>> {
        let side = || subtree(levels - 1);
        let tree = || Tree { key: levels, value: 7, left: side(), right: side() };
        (levels > 0).then(|| Box::new(tree()))
    }
    Tree { key: 11, value: 7, left: subtree(10), right: subtree(10) }
}

/// 30 levels of boxes below the first.
pub(crate) fn boxes() -> Boxes {
    (0..30).fold(Boxes { number: 30, inner: None }, |inner, number| Boxes {
        number,
        inner: Some(Box::new(inner)),
    })
}
