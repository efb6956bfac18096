//! The values of uncopy's comparison, for codecs that derive.

use rkyv::{Archive, Deserialize as Restore, Serialize as Store};
use serde::{Deserialize, Serialize};

/// Traits that every value needs for all codecs.
macro_rules! value {
    ($(#[$doc:meta])* struct $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize, Deserialize, Archive, Store, Restore)]
        pub struct $name { $(pub $field: $type,)* }
    };
}

value! {
    /// A vector of bytes, which serde would otherwise encode one by one.
    struct ByteVector { bytes: ByteBuf, }
}

/// Bytes in the best form for each codec.
#[derive(Debug, Clone, Archive, Store, Restore)]
pub struct ByteBuf(pub Vec<u8>);

impl Serialize for ByteBuf {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for ByteBuf {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ByteBuf, D::Error> {
        struct Bytes;

        impl serde::de::Visitor<'_> for Bytes {
            type Value = ByteBuf;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<ByteBuf, E> {
                Ok(ByteBuf(bytes.to_vec()))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<ByteBuf, E> {
                Ok(ByteBuf(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// Defines structs of bytes.
macro_rules! structs_of_bytes {
    ($($name:ident: $($field:ident)*;)*) => {$(
        value! {
            /// A struct of bytes.
            struct $name { $($field: u8,)* }
        }

        impl $name {
            /// Makes a struct with the same byte in all fields.
            pub fn of(byte: u8) -> $name {
                $name { $($field: byte,)* }
            }
        }
    )*};
}

structs_of_bytes! {
    Bytes16:
        b00 b01 b02 b03 b04 b05 b06 b07 b08 b09 b0a b0b b0c b0d b0e b0f;
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

value! {
    /// A string.
    struct Text { text: String, }
}

value! {
    /// A vector of structs.
    struct Points { points: Vec<Point>, }
}

value! {
    /// A struct.
    struct Point { at: u64, x: f32, y: f32, is_set: bool, }
}

value! {
    /// A table with four members, two of them present.
    struct Profile {
        number: Option<u64>,
        name: Option<String>,
        level: Option<u8>,
        data: Option<Vec<u8>>,
    }
}

value! {
    /// A table and a union.
    struct Entry { profile: Profile, key: Key, }
}

/// A union.
#[derive(Debug, Clone, Serialize, Deserialize, Archive, Store, Restore)]
pub enum Key {
    /// A number.
    Number(u64),
    /// A string.
    Text(String),
}

/// Makes `length` bytes.
pub fn byte_vector(length: usize) -> ByteVector {
    ByteVector { bytes: ByteBuf(vec![1; length]) }
}

/// Makes 64 bytes of text.
pub fn text() -> Text {
    Text { text: "a text of sixty-four bytes, which fit into one line of the cache".to_owned() }
}

/// Makes 100 structs.
pub fn points() -> Points {
    let point = |n: u16| Point { at: n.into(), x: n.into(), y: 0.5, is_set: n.is_multiple_of(2) };
    Points { points: (0..100).map(point).collect() }
}

/// Contents of the table and the union.
pub fn entry() -> Entry {
    let (number, name) = (Some(7), Some("a name of 20 letters".to_owned()));
    Entry {
        profile: Profile { number, name, level: None, data: None },
        key: Key::Text("key".to_owned()),
    }
}
