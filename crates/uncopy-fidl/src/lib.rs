//! FIDL wire format v2: encodes values as gather lists that borrow them, and decodes messages as
//! views that borrow the bytes.
//!
//! ```
//! use uncopy_fidl::{Encoder, Fidl, RegionList, decode};
//!
//! #[derive(Fidl)]
//! struct Photo {
//!     #[fidl(max = 64)]
//!     title: String,
//!     size: Option<Box<Size>>,
//!     pixels: Vec<u8>,
//! }
//!
//! #[derive(Fidl)]
//! struct Size {
//!     width: u32,
//!     height: u32,
//! }
//!
//! let size = Some(Box::new(Size { width: 64, height: 64 }));
//! let photo = Photo { title: "sea".into(), size, pixels: vec![0; 4096] };
//!
//! // As regions: small parts are copied together, the pixels stay in place.
//! let mut encoder = Encoder::new();
//! let mut list = RegionList::new();
//! let regions = encoder.gather(&photo, &mut list)?;
//! assert_eq!(regions.as_slices().len(), 2);
//!
//! // As a view of the same bytes.
//! let message = regions.to_vec();
//! let view = decode::<Photo>(&message)?;
//! assert_eq!((view.title, view.size.unwrap().get().width), ("sea", 64));
//! assert_eq!(view.pixels, &photo.pixels);
//! # Ok::<(), uncopy_fidl::Error>(())
//! ```
//!
//! The format is Fuchsia's, version 2. Rust types correspond to FIDL types:
//!
//! | FIDL | Rust | view |
//! |---|---|---|
//! | `bool`, `int8`…`uint64`, `float32`, `float64` | the same | the same |
//! | `array<T, N>` | `[T; N]` | as of `vector<T>` |
//! | `vector<T>:N` | `Vec<T>`, `&[T]`; `#[fidl(max = N)]` | `&[u8]`, `&[U32]`…, [`Items`] |
//! | `string:N` | `String`, `&str`; `#[fidl(max = N)]` | `&str` |
//! | `box<S>` | `Option<Box<S>>` | `Option<`[`Boxed`]`>` |
//! | `T:optional` | `Option<T>`; of unions also `Option<Box<T>>` | `Option` |
//! | `struct` | a struct | a struct of views: `Photo` has `PhotoView` |
//! | `table` | a struct of `Option`s with `#[fidl(table)]` | the same |
//! | `enum` | an enum with `#[repr(u8)]`…`#[repr(i64)]` | the same |
//! | `bits` | a struct of one number with `#[fidl(bits(…))]` | the same |
//! | `union` | an enum with ordinals | an enum of views |
//! | `zx.Handle:<TYPE, RIGHTS>` | [`OwnedHandle`]; `#[fidl(kind = …, rights = …)]` | [`HandleIndex`] |
//! | `client_end:P`, `server_end:P` | [`ClientEnd`], [`ServerEnd`]; `#[fidl(rights = …)]` | [`HandleIndex`] |
//!
//! [The derive](derive@Fidl) lists all attributes. [`Layout`] has a type's size, alignment and
//! limits at compile time. The trait [`Fidl`](trait@Fidl) combines all abilities of a type.
//!
//! # Copies and borrows
//! Encoding never changes the value. [`Encoder::linear`] copies everything into a buffer that it
//! keeps. [`Encoder::gather`] copies small parts and records where large bodies are: bytes,
//! numbers, strings, and structs marked `plain`. Both produce the same bytes. Neither allocates
//! once the buffer is as large as the largest message.
//!
//! Decoding never changes the bytes and allocates nothing: a view lives on the stack, and borrows.
//! [`decode_owned`] makes an owned value in the walk that checks the bytes; its allocations are
//! bounded by the length of the message times the size of the types in it.
//!
//! # Untrusted input
//! Bytes may come from an untrusted sender. Decoding checks everything before it returns a view:
//! bounds, counts, padding, presence, UTF-8, booleans, members of strict enums, bits and unions,
//! envelopes, depth (32), and that all bytes and handles are used. It takes time linear in the
//! length of the message, however deep its objects are nested; so do owned values and `Debug`. An
//! [`Error`] names rule, byte and field. There is no unsafe code in this crate; where memory is
//! reinterpreted as another type, the crate `zerocopy` proves it valid.
//!
//! # Evolution
//! Flexible enums and bits keep unknown numbers, and flexible unions keep unknown members
//! ([`Unknown`]), which can be sent on. Tables drop unknown members: a value that is decoded and
//! encoded again lacks them. The handles of unknown members are closed.
//!
//! # Handles
//! The codec is generic over the handle type ([`CodecHandle`]). [`take_handles`] moves handles out
//! of a value before it is encoded; the value itself is never patched. Views contain the index of a
//! handle, and [`Handles::take`] returns each handle once; handles that are not taken are closed.
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

extern crate self as uncopy_fidl;

mod decode;
mod dump;
mod encode;
mod endpoint;
mod error;
mod gather;
mod handle;
mod header;
mod layout;
mod lazy;
mod limits;
mod owning;
mod regions;
mod validity;
mod wire;

pub use decode::{
    Decode, FromView, Received, decode, decode_message, decode_owned, decode_with_handles,
};
pub use dump::{Dump, dump, dump_message};
pub use encode::{Encode, Encoder, encode, encode_message, encode_message_into, take_handles};
pub use endpoint::{ClientEnd, ServerEnd};
pub use error::{Error, Result, Rule};
pub use handle::{
    CodecHandle, Departing, HandleIndex, HandleRights, Handles, NoHandle, ObjectType, OwnedHandle,
    TakeHandles,
};
pub use header::{EPITAPH_ORDINAL, HEADER_BYTES, Header};
pub use layout::{HandleConstraint, Layout};
pub use lazy::{Boxed, Items, ItemsIter};
pub use limits::{MAX_BYTES, MAX_DEPTH, MAX_HANDLES, MAX_REGIONS};
pub use regions::{GatherOptions, RegionList, Regions};
pub use uncopy_fidl_derive::Fidl;
pub use wire::{
    Empty, EmptyView, MethodResult, NoPayload, Plain, UNKNOWN_METHOD, Unknown, UnknownView,
};

/// A FIDL type, for generic code: everything that `#[derive(Fidl)]` implements for an owned type.
///
/// `H` is its handle type. Value types have no handles, and are FIDL types for every `H`.
///
/// Implemented for every type with these three traits.
///
/// ```
/// use uncopy_fidl::{Fidl, NoHandle, decode_owned, encode};
///
/// #[derive(Debug, PartialEq, Fidl)]
/// struct Point {
///     x: i32,
///     y: i32,
/// }
///
/// fn copied<T: Fidl>(value: &T) -> uncopy_fidl::Result<T> {
///     decode_owned::<T, NoHandle>(&encode(value)?, Vec::new())
/// }
///
/// assert_eq!(copied(&Point { x: 1, y: 2 })?, Point { x: 1, y: 2 });
/// # Ok::<(), uncopy_fidl::Error>(())
/// ```
pub trait Fidl<H = NoHandle>: Encode + TakeHandles<H> + FromView<H> {}

impl<T: Encode + TakeHandles<H> + FromView<H>, H> Fidl<H> for T {}

/// Wrong types that only the compiler can detect do not compile.
///
/// ```compile_fail,E0080
/// #[derive(uncopy_fidl::Fidl)]
/// struct ValueWithHandle {
///     handles: Vec<uncopy_fidl::OwnedHandle<uncopy_fidl::NoHandle>>,
/// }
/// ```
///
/// ```compile_fail,E0599
/// #[derive(uncopy_fidl::Fidl)]
/// struct LimitOnNumber {
///     #[fidl(max = 3)]
///     number: u8,
/// }
/// ```
///
/// ```compile_fail,E0277
/// #[derive(uncopy_fidl::Fidl)]
/// struct OptionalNumber {
///     number: Option<u32>,
/// }
/// ```
///
/// ```compile_fail,E0080
/// #[derive(Debug, Clone, Copy, uncopy_fidl::Fidl)]
/// #[fidl(bits(A = 1, B = 3))]
/// struct OverlappingBits(u8);
/// ```
///
/// ```compile_fail,E0080
/// #[derive(uncopy_fidl::Fidl)]
/// struct EmptyArray {
///     items: [u8; 0],
/// }
/// let _ = <EmptyArray as uncopy_fidl::Layout>::SIZE;
/// ```
///
/// ```compile_fail,E0277
/// use uncopy_fidl::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(uncopy_fidl::Fidl, FromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[repr(C)]
/// #[fidl(plain)]
/// struct PlainWithPadding {
///     small: u8,
///     large: u32,
/// }
/// ```
#[cfg(doctest)]
struct Refused;

/// The crate with the little-endian numbers of views: `&[U32]`.
pub use zerocopy;

/// Support for the code of `#[derive(Fidl)]`. Not for other use; it changes without notice.
#[doc(hidden)]
pub mod derived {
    pub use crate::decode::{Decode, DecodeOptional, Decoder, FromView, Inline};
    pub use crate::encode::{Encode, EncodeOptional, Optional, Output};
    pub use crate::error::{Error, Result, Rule};
    pub use crate::handle::{Arriving, Handles, Leaving, TakeHandles};
    pub use crate::layout::{FieldLayout, Layout, NoConstraint, StructLayout, all};
    pub use crate::lazy::{Boxed, DebugOnce, Items};
    pub use crate::limits::Depth;
    pub use crate::owning::{Owning, OwningHandles};
    pub use crate::validity::Validity;
    pub use crate::wire::{
        BOX_SIZE, ENVELOPE_SIZE, Empty, Envelope, Envelopes, Plain, Skipped, TABLE_SIZE,
        UNION_SIZE, Unknown, UnknownView, decode_box, decode_union, encode_box_inline,
        encode_box_rest, encode_envelope, encode_header, encode_unknown, open_box, open_union,
        unknown_ordinal,
    };

    /// Makes an error of a derived type.
    #[cold]
    #[must_use]
    pub fn error(rule: Rule) -> Error {
        Error::new(rule)
    }

    /// Returns the memory of `items` of a plain type, on systems where numbers have the wire's byte
    /// order.
    #[inline]
    #[must_use]
    pub fn plain_bytes<T: zerocopy::IntoBytes + zerocopy::Immutable>(items: &[T]) -> Option<&[u8]> {
        cfg!(target_endian = "little").then(|| zerocopy::IntoBytes::as_bytes(items))
    }
}
