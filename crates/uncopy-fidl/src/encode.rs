//! Encoding: from values to bytes.
//!
//! An object is written in two steps: first the inline part, into zeroed memory, then its
//! out-of-line objects, at the end of the buffer. So padding needs no code, and a flat field costs
//! one store.

use std::slice;

use crate::error::{Error, Result, Rule};
use crate::gather::{ALWAYS_COPIED, Workspace};
use crate::handle::{Departing, Leaving, TakeHandles};
use crate::header::{HEADER_BYTES, Header};
use crate::layout::{Layout, padded};
use crate::limits::{Depth, MAX_HANDLES, check_length};
use crate::regions::{GatherOptions, RegionList, Regions};

/// A type whose values can be encoded. Implemented by `#[derive(Fidl)]`, and [by nothing
/// else](Layout).
pub trait Encode: Layout {
    /// Writes the inline part into `inline`, which has [`SIZE`](Layout::SIZE) bytes, all zero.
    ///
    /// # Errors
    /// Any rule that the value breaks.
    fn encode_inline(&self, inline: &mut [u8], constraint: Self::Constraint) -> Result<()>;

    /// Appends the out-of-line objects and counts the handles. The inline part is at `at`. Not
    /// called if [`IS_FLAT`](Layout::IS_FLAT).
    ///
    /// # Errors
    /// Any rule that the value breaks.
    fn encode_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        at: usize,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<()> {
        let _ = (out, at, constraint, depth);
        Ok(())
    }

    /// Returns the memory of `items`, if it is identical to their wire format.
    #[inline]
    fn as_wire(items: &[Self]) -> Option<&[u8]>
    where
        Self: Sized,
    {
        let _ = items;
        None
    }
}

/// A type that has an optional form.
#[diagnostic::on_unimplemented(
    message = "FIDL has no optional `{Self}`; if it is a struct, write `Option<Box<{Self}>>`",
    label = "cannot be absent",
    note = "vectors, strings, unions, handles and, as `Option<Box<_>>`, structs can be optional"
)]
pub trait Optional: Layout {
    /// Size of the inline part of the optional form, in bytes.
    const OPTIONAL_SIZE: usize;
    /// Alignment of the optional form.
    const OPTIONAL_ALIGN: usize;
}

/// Encoding of a present value of an optional type. An absent one is all zeros.
#[diagnostic::on_unimplemented(
    message = "FIDL has no optional `{Self}`; if it is a struct, write `Option<Box<{Self}>>`",
    label = "cannot be absent",
    note = "vectors, strings, unions, handles and, as `Option<Box<_>>`, structs can be optional"
)]
pub trait EncodeOptional: Optional + Encode {
    /// As [`Encode::encode_inline`].
    ///
    /// # Errors
    /// Any rule that the value breaks.
    #[inline]
    fn encode_some_inline(&self, inline: &mut [u8], constraint: Self::Constraint) -> Result<()> {
        self.encode_inline(inline, constraint)
    }

    /// As [`Encode::encode_rest`].
    ///
    /// # Errors
    /// Any rule that the value breaks.
    #[inline]
    fn encode_some_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        at: usize,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<()> {
        self.encode_rest(out, at, constraint, depth)
    }
}

/// Destination of a message: one buffer, or a buffer and regions of the value.
pub trait Output<'v> {
    /// Returns the number of bytes so far, in the buffer and in regions.
    fn length(&self) -> usize;

    /// Appends `size` zeros, rounded up to a multiple of 8; returns their position for
    /// [`inline`](Self::inline).
    ///
    /// # Errors
    /// [`Rule::MessageTooLong`].
    fn grow(&mut self, size: usize) -> Result<usize>;

    /// Returns `size` bytes at `at`, for writing.
    fn inline(&mut self, at: usize, size: usize) -> &mut [u8];

    /// Appends a copy of an object, and zeros up to a multiple of 8.
    ///
    /// # Errors
    /// [`Rule::MessageTooLong`].
    fn object(&mut self, bytes: &[u8]) -> Result<()>;

    /// Appends a body, which may stay in place if it is long.
    ///
    /// # Errors
    /// [`Rule::MessageTooLong`].
    fn body(&mut self, bytes: &'v [u8]) -> Result<()>;

    /// Counts one handle.
    ///
    /// # Errors
    /// [`Rule::TooManyHandles`].
    fn count_handle(&mut self) -> Result<()>;

    /// Returns the number of handles so far.
    fn handles(&self) -> usize;
}

/// Number of handles of a message that is being encoded.
#[derive(Debug, Default)]
pub(crate) struct HandleCount(usize);

impl HandleCount {
    pub(crate) fn get(&self) -> usize {
        self.0
    }

    pub(crate) fn add(&mut self) -> Result<()> {
        self.0 += 1;
        if self.0 > MAX_HANDLES {
            return Err(Error::new(Rule::TooManyHandles { handles: self.0 }));
        }
        Ok(())
    }
}

/// Output into one buffer.
#[derive(Debug)]
struct Linear<'b> {
    bytes: &'b mut Vec<u8>,
    handles: HandleCount,
}

/// Appends `count` zeros, with plain stores where `count` is a small constant.
#[inline]
pub(crate) fn append_zeros(bytes: &mut Vec<u8>, count: usize) {
    const ZEROS: [u8; 64] = [0; 64];
    match ZEROS.get(..count) {
        Some(zeros) => bytes.extend_from_slice(zeros),
        None => bytes.resize(bytes.len() + count, 0),
    }
}

/// Appends the padding after an object of `size` bytes.
#[inline]
pub(crate) fn append_padding(bytes: &mut Vec<u8>, size: usize) {
    if !size.is_multiple_of(8) {
        let end = bytes.len() + padded(size) - size;
        bytes.extend_from_slice(&[0; 8]);
        bytes.truncate(end);
    }
}

/// Appends an object and its padding.
#[inline(always)]
pub(crate) fn append_object(bytes: &mut Vec<u8>, object: &[u8]) {
    bytes.extend_from_slice(object);
    append_padding(bytes, object.len());
}

impl<'v> Output<'v> for Linear<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.bytes.len()
    }

    #[inline(always)]
    fn grow(&mut self, size: usize) -> Result<usize> {
        check_length(self.bytes.len(), size)?;
        let at = self.bytes.len();
        append_zeros(self.bytes, padded(size));
        Ok(at)
    }

    #[inline(always)]
    fn inline(&mut self, at: usize, size: usize) -> &mut [u8] {
        &mut self.bytes[at..at + size]
    }

    #[inline(always)]
    fn object(&mut self, bytes: &[u8]) -> Result<()> {
        check_length(self.bytes.len(), bytes.len())?;
        append_object(self.bytes, bytes);
        Ok(())
    }

    #[inline(always)]
    fn body(&mut self, bytes: &'v [u8]) -> Result<()> {
        self.object(bytes)
    }

    #[inline]
    fn count_handle(&mut self) -> Result<()> {
        self.handles.add()
    }

    #[inline]
    fn handles(&self) -> usize {
        self.handles.get()
    }
}

/// Appends `value` as an out-of-line object.
///
/// # Errors
/// Any rule that the value breaks.
#[inline]
pub(crate) fn encode_object<'v, T: Encode, O: Output<'v>>(
    value: &'v T,
    out: &mut O,
    constraint: T::Constraint,
    depth: Depth,
) -> Result<()> {
    if let Some(bytes) = T::as_wire(slice::from_ref(value)) {
        return if T::SIZE < ALWAYS_COPIED { out.object(bytes) } else { out.body(bytes) };
    }
    let at = out.grow(T::SIZE)?;
    value.encode_inline(out.inline(at, T::SIZE), constraint)?;
    if T::IS_FLAT { Ok(()) } else { value.encode_rest(out, at, constraint, depth) }
}

#[inline]
pub(crate) fn encode_root<'v, T: Encode>(value: &'v T, out: &mut impl Output<'v>) -> Result<()> {
    encode_object(value, out, T::UNCONSTRAINED, Depth::ROOT)
}

#[inline]
fn encode_linear<T: Encode>(header: Option<&Header>, value: &T, bytes: &mut Vec<u8>) -> Result<()> {
    if let Some(header) = header {
        bytes.extend_from_slice(&header.to_bytes());
    }
    encode_root(value, &mut Linear { bytes, handles: HandleCount::default() })
}

/// Encodes `value` into a new buffer, without a header.
///
/// # Errors
/// Any rule that the value breaks.
pub fn encode<T: Encode>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(padded(T::SIZE));
    encode_linear(None, value, &mut bytes)?;
    Ok(bytes)
}

/// Encodes `value` after `header` into a new buffer. [`Encoder`] reuses its buffer instead.
///
/// # Errors
/// Any rule that the value breaks.
pub fn encode_message<T: Encode>(header: &Header, value: &T) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + padded(T::SIZE));
    encode_linear(Some(header), value, &mut bytes)?;
    Ok(bytes)
}

/// Encodes `value` after `header` into the caller's buffer, replacing its contents.
///
/// # Errors
/// Any rule that the value breaks; then the contents of `bytes` are not a message.
#[inline]
pub fn encode_message_into<T: Encode>(
    header: &Header,
    value: &T,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    bytes.clear();
    encode_linear(Some(header), value, bytes)
}

/// Takes every handle out of `value`, in wire order. Afterwards the value can be encoded, and still
/// records where a handle was present.
///
/// The handles move into `handles`, to be written with the message.
///
/// # Errors
/// [`Rule::HandleGone`] if one was already taken. Then all others, and the previous contents of
/// `handles`, are closed.
pub fn take_handles<T: TakeHandles<H>, H>(
    value: &mut T,
    handles: &mut Vec<Departing<H>>,
) -> Result<()> {
    let taken = value.take_handles(&mut Leaving::new(handles), T::UNCONSTRAINED);
    taken.inspect_err(|_| handles.clear())
}

/// Encodes messages one after the other, reusing its memory.
///
/// ```
/// use uncopy_fidl::{Encoder, Fidl, Header, RegionList};
///
/// #[derive(Fidl)]
/// struct Upload {
///     name: String,
///     content: Vec<u8>,
/// }
///
/// let upload = Upload { name: "disk.img".into(), content: vec![7; 40_000] };
/// let mut encoder = Encoder::new();
/// let mut list = RegionList::new();
/// let regions = encoder.gather_message(&Header::one_way(0x1234), &upload, &mut list)?;
///
/// let slices = regions.as_slices();
/// assert_eq!(slices.len(), 2);
/// assert_eq!(slices[1].as_ptr(), upload.content.as_ptr(), "the content was not copied");
/// # Ok::<(), uncopy_fidl::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Encoder {
    /// Buffer for messages in one piece.
    bytes: Vec<u8>,
    workspace: Workspace,
}

impl Encoder {
    /// Makes an encoder without memory. It allocates what it needs and keeps it.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Makes an encoder with other limits for bodies that stay in place.
    ///
    /// # Errors
    /// [`Rule::RegionLimit`] if `options.max_regions` is not from 1 to 8,192.
    pub fn with_options(options: GatherOptions) -> Result<Encoder> {
        options.check()?;
        Ok(Encoder { bytes: Vec::new(), workspace: Workspace::new(options) })
    }

    /// Encodes `value` into one buffer, without a header.
    ///
    /// # Errors
    /// Any rule that the value breaks.
    #[inline]
    pub fn linear<T: Encode>(&mut self, value: &T) -> Result<&[u8]> {
        self.bytes.clear();
        encode_linear(None, value, &mut self.bytes)?;
        Ok(&self.bytes)
    }

    /// Encodes `value` after `header` into one buffer.
    ///
    /// # Errors
    /// Any rule that the value breaks.
    #[inline]
    pub fn linear_message<T: Encode>(&mut self, header: &Header, value: &T) -> Result<&[u8]> {
        encode_message_into(header, value, &mut self.bytes)?;
        Ok(&self.bytes)
    }

    /// Encodes `value` into regions, without a header: the same bytes as [`linear`](Self::linear),
    /// but large bodies stay where they are in the value. `list` provides the memory for more than
    /// one region; its contents are replaced.
    ///
    /// # Errors
    /// Any rule that the value breaks.
    #[inline]
    pub fn gather<'b, 'r: 'b, T: Encode>(
        &'r mut self,
        value: &'r T,
        list: &'b mut RegionList<'r>,
    ) -> Result<Regions<'b>> {
        self.workspace.gather(None, value, list)
    }

    /// Encodes `value` after `header` into regions: the same bytes as
    /// [`linear_message`](Self::linear_message), but large bodies stay where they are in the value.
    /// `list` provides the memory for more than one region; its contents are replaced.
    ///
    /// # Errors
    /// Any rule that the value breaks.
    #[inline]
    pub fn gather_message<'b, 'r: 'b, T: Encode>(
        &'r mut self,
        header: &Header,
        value: &'r T,
        list: &'b mut RegionList<'r>,
    ) -> Result<Regions<'b>> {
        self.workspace.gather(Some(header), value, list)
    }
}
