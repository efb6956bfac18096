//! Decoding: from bytes to views.
//!
//! A view is a separate value: it copies numbers and borrows strings and bodies from the bytes. It
//! exists only if the whole message is valid. The format has no pointers, so out-of-line objects
//! are found by one walk through the message, in the order in which they were written. Parts of
//! unknown number ([`Items`](crate::Items)) or of recursive types ([`Boxed`](crate::Boxed)) are
//! checked in this walk, and decoded again on access.
//!
//! Reading all of a nested view would decode the innermost part once for each level around it.
//! Therefore owned values ([`FromView::read`]) and the output of `Debug` ([`Decode::print`]) are
//! not made from views: each is a separate walk, in wire order.
//!
//! Every object needs the position in the message, so the position should stay in registers. For
//! this, the functions that advance it are always inlined, and errors are made in other functions.

use std::fmt::{self, Debug as _};
use std::marker::PhantomData;
use std::ops::Deref;

use crate::error::{Error, Result, Rule};
use crate::handle::{Arriving, CodecHandle, Handles};
use crate::header::HEADER_BYTES;
use crate::layout::{HandleConstraint, Layout, padded};
use crate::limits::{Depth, MAX_BYTES, MAX_HANDLES};

/// A type that can be decoded. Implemented by `#[derive(Fidl)]`, and [by nothing else](Layout).
pub trait Decode: Layout + Sized {
    /// View of one value, which borrows the message.
    type View<'a>: Copy + fmt::Debug;
    /// View of several adjacent values.
    type Slice<'a>: Copy + fmt::Debug;

    /// Checks one value and returns its view. `inline` has [`SIZE`](Layout::SIZE) bytes;
    /// out-of-line objects are taken from `decoder`.
    ///
    /// # Errors
    /// Any rule that the bytes break.
    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Self::View<'a>>;

    /// Checks all values in `inline`, whose length is a multiple of [`SIZE`](Layout::SIZE).
    ///
    /// # Errors
    /// Any rule that the bytes break.
    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Self::Slice<'a>>;

    /// Prints one value, which is already checked, in the same way as its view. A container calls
    /// this for its members, one after the other.
    ///
    /// # Errors
    /// The formatter's.
    fn print<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let view = Self::decode(inline, decoder, constraint, depth);
        view.map_err(|_| fmt::Error)?.fmt(f)
    }
}

/// A type whose optional form can be decoded.
#[diagnostic::on_unimplemented(
    message = "FIDL has no optional `{Self}`; if it is a struct, write `Option<Box<{Self}>>`",
    label = "cannot be absent",
    note = "vectors, strings, unions, handles and, as `Option<Box<_>>`, structs can be optional"
)]
pub trait DecodeOptional: Decode {
    /// Checks one value, or its absence.
    ///
    /// # Errors
    /// Any rule that the bytes break.
    fn decode_optional<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Option<Self::View<'a>>>;

    /// Returns the inline part of the value, as the type itself decodes it, and its depth. `None`
    /// if it is absent.
    ///
    /// # Errors
    /// Errors of [`decode_optional`](Self::decode_optional) that occur before presence is known.
    fn present<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        depth: Depth,
    ) -> Result<Option<(Inline<'a>, Depth)>>;
}

/// A type whose views can be turned into owned values, with handles of type `H`. Implemented by
/// `#[derive(Fidl)]`, and [by nothing else](Layout).
pub trait FromView<H>: Decode {
    /// Copies the borrowed parts and takes the handles. A handle that was already taken stays
    /// absent.
    fn from_view(view: Self::View<'_>, handles: &mut Handles<H>) -> Self;

    /// Converts several values.
    fn from_items(items: Self::Slice<'_>, handles: &mut Handles<H>) -> impl Iterator<Item = Self>;

    /// Converts several values into a vector. Bytes are copied at once.
    #[inline]
    fn collect_items(items: Self::Slice<'_>, handles: &mut Handles<H>) -> Vec<Self> {
        Self::from_items(items, handles).collect()
    }

    /// Checks one value and makes the owned value in the same step. A container calls this for its
    /// members, one after the other.
    ///
    /// # Errors
    /// Any rule that the bytes or the handles break.
    #[inline]
    fn read<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Self> {
        let view = Self::decode(inline, decoder, constraint, depth)?;
        Ok(Self::from_view(view, arriving.handles()))
    }
}

/// Inline part of an object, not yet decoded.
#[derive(Debug, Clone, Copy)]
pub struct Inline<'a> {
    pub(crate) bytes: &'a [u8],
    /// Offset of its first byte in the message.
    pub(crate) offset: usize,
}

impl<'a> Inline<'a> {
    /// Returns `size` bytes, starting at `from` in this part. The caller stays within the part.
    #[inline]
    #[must_use]
    pub fn part(self, from: usize, size: usize) -> Inline<'a> {
        Inline { bytes: &self.bytes[from..from + size], offset: self.offset + from }
    }

    /// Returns the bytes.
    #[inline]
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the first `N` bytes. The caller stays within the part.
    #[inline]
    #[must_use]
    pub fn array<const N: usize>(self) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes[..N]);
        array
    }

    /// Makes an error at this part's first byte.
    // Inlined so that the part stays in registers: only its offset is passed to the error's
    // constructor.
    #[inline(always)]
    #[must_use]
    pub fn breaks(self, rule: Rule) -> Error {
        Error::at(self.offset, rule)
    }

    /// Checks that the bytes from `from` to `to` are zero.
    ///
    /// # Errors
    /// [`Rule::NonZeroPadding`].
    #[inline]
    pub fn check_padding(self, from: usize, to: usize) -> Result<()> {
        let padding = &self.bytes[from..to];
        // No early exit: combining a few bytes is faster than testing each.
        match padding.iter().fold(0, |joined, byte| joined | byte) {
            0 => Ok(()),
            _ => Err(non_zero(padding, self.offset + from)),
        }
    }
}

/// Makes an error at the first byte that is not zero.
#[cold]
fn non_zero(bytes: &[u8], offset: usize) -> Error {
    let at = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
    let found = bytes.get(at).copied().unwrap_or(0);
    Error::at(offset + at, Rule::NonZeroPadding { found })
}

/// Makes an error: an object of `size` bytes is longer than the rest of the message.
#[cold]
fn too_few_bytes(offset: usize, size: usize, left: usize) -> Error {
    let needed = size.checked_next_multiple_of(8).unwrap_or(size);
    Error::at(offset, Rule::TooFewBytes { needed, left })
}

/// Position in the message: the next out-of-line object and the next handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    /// Bytes from the next object on.
    rest: &'a [u8],
    /// Length of the whole message.
    length: usize,
    next_handle: usize,
}

impl Cursor<'_> {
    /// Returns the offset of the next object in the message.
    #[inline]
    fn offset(&self) -> usize {
        self.length - self.rest.len()
    }
}

/// Handles of a message, as used by the decoder.
pub(crate) trait HandleTable {
    /// Returns the number of handles.
    fn count(&self) -> usize;

    /// Checks handle `index`, which is below the count, and reduces its rights.
    ///
    /// # Errors
    /// The unmet part of the constraint.
    fn claim(&mut self, index: usize, wanted: HandleConstraint) -> Result<(), Rule>;

    /// Closes handle `index`, which belongs to an unknown field.
    fn close(&mut self, index: usize);
}

/// A table of handles that need no check: there are none, or they were checked before.
struct Unchecked(usize);

impl HandleTable for Unchecked {
    fn count(&self) -> usize {
        self.0
    }

    fn claim(&mut self, _: usize, _: HandleConstraint) -> Result<(), Rule> {
        Ok(())
    }

    fn close(&mut self, _: usize) {}
}

/// Number of bytes of out-of-line objects and number of handles used so far.
pub(crate) type Used = (usize, usize);

/// Decoder that walks through a message once.
pub struct Decoder<'a, 'h> {
    cursor: Cursor<'a>,
    /// Number of handles, used or not.
    handle_count: usize,
    handles: &'h mut dyn HandleTable,
}

impl<'a> Decoder<'a, '_> {
    /// Takes the next out-of-line object: `size` bytes, then zeros up to a multiple of 8. `parent`
    /// is the part that refers to it.
    ///
    /// # Errors
    /// [`Rule::TooFewBytes`], [`Rule::NonZeroPadding`].
    #[inline(always)]
    pub fn object(&mut self, parent: Inline<'a>, size: usize) -> Result<Inline<'a>> {
        #[cfg(test)]
        work::note(size);
        let (offset, left) = (self.cursor.offset(), self.cursor.rest.len());
        // No overflow: a size above the length of the message is rejected first.
        if size > left || padded(size) > left {
            return Err(too_few_bytes(parent.offset, size, left));
        }
        let (object, rest) = self.cursor.rest.split_at(padded(size));
        self.cursor.rest = rest;
        let (bytes, padding) = object.split_at(size);
        if let Some(word) = object.last_chunk() {
            // The padding is the upper end of the last word, at most seven bytes.
            let word = u64::from_le_bytes(*word);
            if word >> 1 >> (63 - 8 * padding.len()) != 0 {
                return Err(non_zero(padding, offset + size));
            }
        }
        Ok(Inline { bytes, offset })
    }

    /// Takes the index of the next handle and checks it against `constraint`.
    ///
    /// # Errors
    /// [`Rule::TooFewHandles`], or the unmet part of the constraint.
    pub(crate) fn claim_handle(
        &mut self,
        parent: Inline<'a>,
        constraint: HandleConstraint,
    ) -> Result<usize> {
        let index = self.take_handle_index(parent)?;
        self.handles.claim(index, constraint).map_err(|rule| parent.breaks(rule))?;
        Ok(index)
    }

    /// Runs `look` on a copy of this decoder, so that the position of this one stays in registers
    /// although `look` is not inlined.
    ///
    /// # Errors
    /// The errors of `look`.
    #[inline(always)]
    pub(crate) fn on_copy<T>(
        &mut self,
        look: impl FnOnce(&mut Decoder<'a, '_>) -> Result<T>,
    ) -> Result<T> {
        let Decoder { cursor, handle_count, handles } = self;
        let mut copy =
            Decoder { cursor: *cursor, handle_count: *handle_count, handles: &mut **handles };
        let result = look(&mut copy);
        self.cursor = copy.cursor;
        result
    }

    /// Closes the next `count` handles.
    ///
    /// # Errors
    /// [`Rule::TooFewHandles`].
    pub(crate) fn close_handles(&mut self, parent: Inline<'a>, count: usize) -> Result<()> {
        for _ in 0..count {
            let index = self.take_handle_index(parent)?;
            self.handles.close(index);
        }
        Ok(())
    }

    /// Takes the index of the next handle.
    ///
    /// # Errors
    /// [`Rule::TooFewHandles`].
    pub(crate) fn take_handle_index(&mut self, parent: Inline<'a>) -> Result<usize> {
        let (index, count) = (self.cursor.next_handle, self.handle_count);
        if index >= count {
            return Err(parent.breaks(Rule::TooFewHandles { needed: index + 1, count }));
        }
        self.cursor.next_handle += 1;
        Ok(index)
    }

    #[inline]
    pub(crate) fn used(&self) -> Used {
        (self.cursor.offset(), self.cursor.next_handle)
    }

    #[inline]
    pub(crate) fn cursor(&self) -> Cursor<'a> {
        self.cursor
    }

    /// Checks that all bytes and all handles were used.
    fn finish(&self) -> Result<()> {
        let Cursor { rest, next_handle, .. } = self.cursor;
        if !rest.is_empty() {
            return Err(Error::at(self.cursor.offset(), Rule::ExtraBytes { left: rest.len() }));
        }
        let left = self.handle_count - next_handle;
        if left > 0 {
            return Err(Error::at(self.cursor.offset(), Rule::ExtraHandles { left }));
        }
        Ok(())
    }
}

/// Decodes a part that was already checked, from `cursor` on. It cannot fail, because the bytes
/// have been borrowed since.
#[inline]
pub(crate) fn revisit<'a, R>(
    cursor: &mut Cursor<'a>,
    look: impl FnOnce(&mut Decoder<'a, '_>) -> R,
) -> R {
    let mut handles = Unchecked(usize::MAX);
    let mut decoder =
        Decoder { cursor: *cursor, handle_count: handles.count(), handles: &mut handles };
    let result = look(&mut decoder);
    *cursor = decoder.cursor;
    result
}

/// Takes the first object of a message, of `size` bytes at `next`, and returns it with a decoder
/// for the others.
#[inline(always)]
fn enter<'a, 'h>(
    bytes: &'a [u8],
    next: usize,
    size: usize,
    handles: &'h mut dyn HandleTable,
) -> Result<(Inline<'a>, Decoder<'a, 'h>)> {
    if bytes.len() > MAX_BYTES {
        return Err(Error::new(Rule::MessageTooLong { bytes: bytes.len() }));
    }
    let handle_count = handles.count();
    if handle_count > MAX_HANDLES {
        return Err(Error::new(Rule::TooManyHandles { handles: handle_count }));
    }
    let root = Inline { bytes: &bytes[next..], offset: next };
    let cursor = Cursor { rest: root.bytes, length: bytes.len(), next_handle: 0 };
    let mut decoder = Decoder { cursor, handle_count, handles };
    Ok((decoder.object(root, size)?, decoder))
}

fn decode_from<'a, T: Decode>(
    bytes: &'a [u8],
    next: usize,
    handles: &mut dyn HandleTable,
) -> Result<T::View<'a>> {
    let (object, mut decoder) = enter(bytes, next, T::SIZE, handles)?;
    let view = T::decode(object, &mut decoder, T::UNCONSTRAINED, Depth::ROOT)?;
    decoder.finish()?;
    Ok(view)
}

/// Decodes an owned value from a message with `count` handles; `arriving` has those that are not
/// taken yet.
fn read_from<T: FromView<H>, H>(
    bytes: &[u8],
    next: usize,
    count: usize,
    mut arriving: Arriving<'_, H>,
) -> Result<T> {
    let mut checked = Unchecked(count);
    let (object, mut decoder) = enter(bytes, next, T::SIZE, &mut checked)?;
    let value = T::read(object, &mut decoder, &mut arriving, T::UNCONSTRAINED, Depth::ROOT)?;
    decoder.finish()?;
    Ok(value)
}

/// Decodes a value without a header and without handles.
///
/// ```
/// use uncopy_fidl::{Fidl, decode, encode};
///
/// #[derive(Fidl)]
/// struct Point {
///     x: i32,
///     y: i32,
///     name: String,
/// }
///
/// let bytes = encode(&Point { x: 1, y: -1, name: "corner".into() })?;
/// let view = decode::<Point>(&bytes)?;
/// assert_eq!((view.x, view.y, view.name), (1, -1, "corner"));
/// assert_eq!(view.name.as_ptr(), bytes[24..].as_ptr(), "the name was not copied");
/// # Ok::<(), uncopy_fidl::Error>(())
/// ```
///
/// # Errors
/// Any rule that the bytes break.
#[inline]
pub fn decode<T: Decode>(bytes: &[u8]) -> Result<T::View<'_>> {
    decode_from::<T>(bytes, 0, &mut Unchecked(0))
}

/// Decodes a value without a header and checks its handles. They stay in `handles`, reduced to the
/// rights of their fields.
///
/// # Errors
/// Any rule that the bytes or the handles break; then all handles are closed.
pub fn decode_with_handles<'a, T: Decode, H: CodecHandle>(
    bytes: &'a [u8],
    handles: &mut Handles<H>,
) -> Result<T::View<'a>> {
    decode_from::<T>(bytes, 0, handles).inspect_err(|_| handles.close())
}

/// Decodes the body of a message after its header of 16 bytes
/// ([`Header::parse`](crate::Header::parse) reads the header). Offsets in errors count from the
/// beginning of the message.
///
/// # Errors
/// As [`decode_with_handles`], and [`Rule::TooFewBytes`] if the header is incomplete.
#[inline]
pub fn decode_message<'a, T: Decode, H: CodecHandle>(
    message: &'a [u8],
    handles: &mut Handles<H>,
) -> Result<T::View<'a>> {
    if message.len() < HEADER_BYTES {
        handles.close();
        let rule = Rule::TooFewBytes { needed: HEADER_BYTES, left: message.len() };
        return Err(Error::at(0, rule));
    }
    decode_from::<T>(message, HEADER_BYTES, handles).inspect_err(|_| handles.close())
}

/// Decodes a value without a header into an owned value, in one walk that checks and copies.
///
/// # Errors
/// As [`decode_with_handles`].
pub fn decode_owned<T: FromView<H>, H: CodecHandle>(bytes: &[u8], handles: Vec<H>) -> Result<T> {
    let mut handles = Handles::from(handles);
    read_from(bytes, 0, handles.count(), Arriving::new(&mut handles))
}

/// A checked message that keeps its bytes, or the owner that lends them, alive.
///
/// [`view`](Self::view) decodes the message again, at the cost of the check; keep the view if you
/// need it more than once.
#[derive(Debug)]
pub struct Received<T, B, H> {
    message: B,
    handles: Handles<H>,
    /// Number of all handles, taken or not.
    count: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Decode, B: Deref<Target = [u8]>, H: CodecHandle> Received<T, B, H> {
    /// Checks a message that begins with a header.
    ///
    /// # Errors
    /// As [`decode_message`].
    pub fn new(message: B, handles: Vec<H>) -> Result<Received<T, B, H>> {
        let mut handles = Handles::from(handles);
        let count = handles.count();
        decode_message::<T, H>(&message, &mut handles)?;
        Ok(Received { message, handles, count, of: PhantomData })
    }

    /// Returns the view.
    ///
    /// # Errors
    /// None, as long as `B` always returns the same bytes.
    pub fn view(&self) -> Result<T::View<'_>> {
        decode_from::<T>(&self.message, HEADER_BYTES, &mut Unchecked(self.count))
    }

    /// Returns the handles of the message.
    pub fn handles(&mut self) -> &mut Handles<H> {
        &mut self.handles
    }

    /// Returns the memory, for the next message. Handles that were not taken are closed.
    ///
    /// ```
    /// use uncopy_fidl::{Header, NoHandle, Received, encode_message};
    ///
    /// let memory = encode_message(&Header::one_way(7), &vec![1u32, 2, 3])?;
    /// let received = Received::<Vec<u32>, Vec<u8>, NoHandle>::new(memory, vec![])?;
    /// let mut memory = received.into_message();
    /// memory.clear();
    /// # Ok::<(), uncopy_fidl::Error>(())
    /// ```
    pub fn into_message(self) -> B {
        self.message
    }

    /// Makes an owned value.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn to_owned_value(mut self) -> Result<T>
    where
        T: FromView<H>,
    {
        let arriving = Arriving::checked(&mut self.handles);
        read_from(&self.message, HEADER_BYTES, self.count, arriving)
    }
}

/// Counter of the bytes of visited objects, for tests that bound the work.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        static VISITED: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts an object of `size` bytes.
    pub(crate) fn note(size: usize) {
        VISITED.set(VISITED.get() + super::padded(size));
    }

    /// Runs `act`; returns the number of bytes visited, and its result.
    pub(crate) fn during<T>(act: impl FnOnce() -> T) -> (usize, T) {
        VISITED.set(0);
        let done = act();
        (VISITED.get(), done)
    }
}
