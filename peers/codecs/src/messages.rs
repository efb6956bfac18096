//! The same values as protobuf messages, which have bytes only in vectors: otherwise `uint32`.

use prost::Message;

use crate::values;

/// A vector of bytes.
#[derive(Clone, PartialEq, Message)]
pub struct ByteVector {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
}

/// Defines structs of numbers, with their tags.
macro_rules! structs_of_numbers {
    ($($name:ident: $($tag:literal $field:ident)*;)*) => {$(
        /// A struct of numbers.
        #[derive(Clone, PartialEq, Message)]
        pub struct $name { $(#[prost(uint32, tag = $tag)] $field: u32,)* }

        impl $name {
            /// Makes a struct with the same number in all fields.
            pub fn of(number: u32) -> $name {
                $name { $($field: number,)* }
            }
        }
    )*};
}

structs_of_numbers! {
    Bytes16:
        1 b00 2 b01 3 b02 4 b03 5 b04 6 b05
        7 b06 8 b07 9 b08 10 b09 11 b0a 12 b0b
        13 b0c 14 b0d 15 b0e 16 b0f;
    Bytes256:
        1 b00 2 b01 3 b02 4 b03 5 b04 6 b05
        7 b06 8 b07 9 b08 10 b09 11 b0a 12 b0b
        13 b0c 14 b0d 15 b0e 16 b0f 17 b10 18 b11
        19 b12 20 b13 21 b14 22 b15 23 b16 24 b17
        25 b18 26 b19 27 b1a 28 b1b 29 b1c 30 b1d
        31 b1e 32 b1f 33 b20 34 b21 35 b22 36 b23
        37 b24 38 b25 39 b26 40 b27 41 b28 42 b29
        43 b2a 44 b2b 45 b2c 46 b2d 47 b2e 48 b2f
        49 b30 50 b31 51 b32 52 b33 53 b34 54 b35
        55 b36 56 b37 57 b38 58 b39 59 b3a 60 b3b
        61 b3c 62 b3d 63 b3e 64 b3f 65 b40 66 b41
        67 b42 68 b43 69 b44 70 b45 71 b46 72 b47
        73 b48 74 b49 75 b4a 76 b4b 77 b4c 78 b4d
        79 b4e 80 b4f 81 b50 82 b51 83 b52 84 b53
        85 b54 86 b55 87 b56 88 b57 89 b58 90 b59
        91 b5a 92 b5b 93 b5c 94 b5d 95 b5e 96 b5f
        97 b60 98 b61 99 b62 100 b63 101 b64 102 b65
        103 b66 104 b67 105 b68 106 b69 107 b6a 108 b6b
        109 b6c 110 b6d 111 b6e 112 b6f 113 b70 114 b71
        115 b72 116 b73 117 b74 118 b75 119 b76 120 b77
        121 b78 122 b79 123 b7a 124 b7b 125 b7c 126 b7d
        127 b7e 128 b7f 129 b80 130 b81 131 b82 132 b83
        133 b84 134 b85 135 b86 136 b87 137 b88 138 b89
        139 b8a 140 b8b 141 b8c 142 b8d 143 b8e 144 b8f
        145 b90 146 b91 147 b92 148 b93 149 b94 150 b95
        151 b96 152 b97 153 b98 154 b99 155 b9a 156 b9b
        157 b9c 158 b9d 159 b9e 160 b9f 161 ba0 162 ba1
        163 ba2 164 ba3 165 ba4 166 ba5 167 ba6 168 ba7
        169 ba8 170 ba9 171 baa 172 bab 173 bac 174 bad
        175 bae 176 baf 177 bb0 178 bb1 179 bb2 180 bb3
        181 bb4 182 bb5 183 bb6 184 bb7 185 bb8 186 bb9
        187 bba 188 bbb 189 bbc 190 bbd 191 bbe 192 bbf
        193 bc0 194 bc1 195 bc2 196 bc3 197 bc4 198 bc5
        199 bc6 200 bc7 201 bc8 202 bc9 203 bca 204 bcb
        205 bcc 206 bcd 207 bce 208 bcf 209 bd0 210 bd1
        211 bd2 212 bd3 213 bd4 214 bd5 215 bd6 216 bd7
        217 bd8 218 bd9 219 bda 220 bdb 221 bdc 222 bdd
        223 bde 224 bdf 225 be0 226 be1 227 be2 228 be3
        229 be4 230 be5 231 be6 232 be7 233 be8 234 be9
        235 bea 236 beb 237 bec 238 bed 239 bee 240 bef
        241 bf0 242 bf1 243 bf2 244 bf3 245 bf4 246 bf5
        247 bf6 248 bf7 249 bf8 250 bf9 251 bfa 252 bfb
        253 bfc 254 bfd 255 bfe 256 bff;
}

/// A string.
#[derive(Clone, PartialEq, Message)]
pub struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

/// A vector of structs.
#[derive(Clone, PartialEq, Message)]
pub struct Points {
    #[prost(message, repeated, tag = "1")]
    points: Vec<Point>,
}

/// A struct.
#[derive(Clone, PartialEq, Message)]
pub struct Point {
    #[prost(uint64, tag = "1")]
    at: u64,
    #[prost(float, tag = "2")]
    x: f32,
    #[prost(float, tag = "3")]
    y: f32,
    #[prost(bool, tag = "4")]
    is_set: bool,
}

/// A table with four members, two of them present.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    #[prost(uint64, optional, tag = "1")]
    number: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint32, optional, tag = "3")]
    level: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    data: Option<Vec<u8>>,
}

/// A table and a union.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(message, optional, tag = "1")]
    profile: Option<Profile>,
    #[prost(oneof = "Key", tags = "2, 3")]
    key: Option<Key>,
}

/// A union.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Key {
    /// A number.
    #[prost(uint64, tag = "2")]
    Number(u64),
    /// A string.
    #[prost(string, tag = "3")]
    Text(String),
}

impl From<values::ByteVector> for ByteVector {
    fn from(value: values::ByteVector) -> ByteVector {
        ByteVector { bytes: value.bytes.0 }
    }
}

impl From<values::Text> for Text {
    fn from(value: values::Text) -> Text {
        Text { text: value.text }
    }
}

impl From<values::Points> for Points {
    fn from(value: values::Points) -> Points {
        let points = value.points.into_iter();
        let point = |p: values::Point| Point { at: p.at, x: p.x, y: p.y, is_set: p.is_set };
        Points { points: points.map(point).collect() }
    }
}

impl From<values::Entry> for Entry {
    fn from(value: values::Entry) -> Entry {
        let values::Profile { number, name, level, data } = value.profile;
        let profile = Profile { number, name, level: level.map(u32::from), data };
        let key = match value.key {
            values::Key::Number(number) => Key::Number(number),
            values::Key::Text(text) => Key::Text(text),
        };
        Entry { profile: Some(profile), key: Some(key) }
    }
}
