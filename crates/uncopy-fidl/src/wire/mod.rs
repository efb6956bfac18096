//! Wire format of each kind of type.

mod array;
mod boxed;
mod empty;
mod envelope;
mod number;
mod optional;
mod payload;
mod plain;
mod text;
mod union;
mod vector;

pub use boxed::{BOX_SIZE, decode_box, encode_box_inline, encode_box_rest, open_box};
pub use empty::{Empty, EmptyView};
pub use envelope::{ENVELOPE_SIZE, Envelope, Envelopes, Skipped, TABLE_SIZE, encode_envelope};
pub use payload::{MethodResult, NoPayload, UNKNOWN_METHOD};
pub use plain::Plain;
pub use union::{
    UNION_SIZE, Unknown, UnknownView, decode_union, encode_unknown, open_union, unknown_ordinal,
};
pub use vector::encode_header;
