//! From bytes to views.
//!
//! A view of a message is a value of its own whose numbers are copied and whose strings and bodies
//! borrow the bytes. It exists only if the whole message keeps to every rule. The format has no
//! pointers, so objects out of line are found by walking through the message once, in the order in
//! which they were written; what comes in unknown numbers ([`Items`](crate::Items)) or can contain itself
//! ([`Boxed`](crate::Boxed)) is checked then, and walked through again when somebody looks.
//!
//! Whoever looks at all of a nested view would so walk through the innermost part once for each
//! level around it. So values that own everything ([`FromView::read`]) and the output of `Debug`
//! ([`Decode::print`]) are not made of views: each is a walk of its own, in the order of the wire.
//!
//! The place in the message is needed for every object, so it should be in registers. That takes
//! functions that are always inlined where they move it, and errors that are made elsewhere.

use std::fmt::{self, Debug as _};
use std::marker::PhantomData;
use std::ops::Deref;

use crate::error::{Error, Result, Rule};
use crate::handle::{Arriving, CodecHandle, Handles};
use crate::header::HEADER_BYTES;
use crate::layout::{HandleConstraint, Layout, padded};
use crate::limits::{Depth, MAX_BYTES, MAX_HANDLES};

/// A type that can be decoded. Made by `#[derive(Fidl)]`, and [by nothing else](Layout).
pub trait Decode: Layout + Sized {
    /// A value of it that borrows the message.
    type View<'a>: Copy + fmt::Debug;
    /// Many of them, one behind the other.
    type Slice<'a>: Copy + fmt::Debug;

    /// Checks one and gives its view. `inline` is [`SIZE`](Layout::SIZE) bytes; objects out of line
    /// are taken from `decoder`.
    ///
    /// # Errors
    /// Any rule that the bytes break.
    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Self::View<'a>>;

    /// Checks all that are in `inline`, a multiple of [`SIZE`](Layout::SIZE) bytes.
    ///
    /// # Errors
    /// Any rule that the bytes break.
    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Self::Slice<'a>>;

    /// Prints one, which was checked before, as its view would print itself. A type that contains
    /// others has them print themselves, one behind the other.
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
    /// Checks one, or that it is absent.
    ///
    /// # Errors
    /// Any rule that the bytes break.
    fn decode_optional<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Option<Self::View<'a>>>;

    /// Where one lies as the type itself decodes it, and how deep. None if it is absent.
    ///
    /// # Errors
    /// What [`decode_optional`](Self::decode_optional) finds before it knows whether one is there.
    fn present<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        depth: Depth,
    ) -> Result<Option<(Inline<'a>, Depth)>>;
}

/// A type of which views can become values that own everything, handles of type `H` included. Made by
/// `#[derive(Fidl)]`, and [by nothing else](Layout).
pub trait FromView<H>: Decode {
    /// Copies what the view borrows and takes its handles. A handle that was taken before stays
    /// away.
    fn from_view(view: Self::View<'_>, handles: &mut Handles<H>) -> Self;

    /// The same for many.
    fn from_items(items: Self::Slice<'_>, handles: &mut Handles<H>) -> impl Iterator<Item = Self>;

    /// The same, put into a vector. Bytes go there by one copy.
    #[inline]
    fn collect_items(items: Self::Slice<'_>, handles: &mut Handles<H>) -> Vec<Self> {
        Self::from_items(items, handles).collect()
    }

    /// Checks one and makes the value at once. A type that contains others has them read
    /// themselves, one behind the other.
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

/// Part of a message that was not looked at yet.
#[derive(Debug, Clone, Copy)]
pub struct Inline<'a> {
    pub(crate) bytes: &'a [u8],
    /// Of its first byte in the message.
    pub(crate) offset: usize,
}

impl<'a> Inline<'a> {
    /// `size` bytes from `from` on, relative to this part. The caller keeps within it.
    #[inline]
    #[must_use]
    pub fn part(self, from: usize, size: usize) -> Inline<'a> {
        Inline { bytes: &self.bytes[from..from + size], offset: self.offset + from }
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The first `N` bytes. The caller keeps within the part.
    #[inline]
    #[must_use]
    pub fn array<const N: usize>(self) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes[..N]);
        array
    }

    /// An error at this part's first byte.
    // Inlined, so that parts stay in registers: only their offset goes where errors are made.
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
        // No short circuit: a few bytes are joined sooner than they are asked one by one.
        match padding.iter().fold(0, |joined, byte| joined | byte) {
            0 => Ok(()),
            _ => Err(non_zero(padding, self.offset + from)),
        }
    }
}

/// The first of `bytes` that is not zero, as an error.
#[cold]
fn non_zero(bytes: &[u8], offset: usize) -> Error {
    let at = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
    let found = bytes.get(at).copied().unwrap_or(0);
    Error::at(offset + at, Rule::NonZeroPadding { found })
}

/// An object of `size` bytes does not fit into what is left.
#[cold]
fn too_few_bytes(offset: usize, size: usize, left: usize) -> Error {
    let needed = size.checked_next_multiple_of(8).unwrap_or(size);
    Error::at(offset, Rule::TooFewBytes { needed, left })
}

/// Where the next object out of line and the next handle are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    /// From the next object on.
    rest: &'a [u8],
    /// Of the whole message.
    length: usize,
    next_handle: usize,
}

impl Cursor<'_> {
    /// Of the next object in the message.
    #[inline]
    fn offset(&self) -> usize {
        self.length - self.rest.len()
    }
}

/// Handles that came with a message, seen from the decoder.
pub(crate) trait HandleTable {
    /// How many came.
    fn count(&self) -> usize;

    /// Checks handle `index`, which is below the count, and narrows its rights.
    ///
    /// # Errors
    /// What it lacks.
    fn claim(&mut self, index: usize, wanted: HandleConstraint) -> Result<(), Rule>;

    /// Closes handle `index`: nobody knows the field that it belongs to.
    fn close(&mut self, index: usize);
}

/// There are none, or they were claimed before.
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

/// Bytes of objects out of line so far, and handles.
pub(crate) type Used = (usize, usize);

/// Walks through a message.
pub struct Decoder<'a, 'h> {
    cursor: Cursor<'a>,
    /// How many there are, used or not.
    handle_count: usize,
    handles: &'h mut dyn HandleTable,
}

impl<'a> Decoder<'a, '_> {
    /// The next object out of line: `size` bytes, and zeros to the next multiple of 8. `parent` is
    /// what refers to it.
    ///
    /// # Errors
    /// [`Rule::TooFewBytes`], [`Rule::NonZeroPadding`].
    #[inline(always)]
    pub fn object(&mut self, parent: Inline<'a>, size: usize) -> Result<Inline<'a>> {
        #[cfg(test)]
        work::note(size);
        let (offset, left) = (self.cursor.offset(), self.cursor.rest.len());
        // Nothing overflows: a size of more than the whole message is refused first.
        if size > left || padded(size) > left {
            return Err(too_few_bytes(parent.offset, size, left));
        }
        let (object, rest) = self.cursor.rest.split_at(padded(size));
        self.cursor.rest = rest;
        let (bytes, padding) = object.split_at(size);
        if let Some(word) = object.last_chunk() {
            // The padding is the upper end of the last word, and at most seven bytes of it.
            let word = u64::from_le_bytes(*word);
            if word >> 1 >> (63 - 8 * padding.len()) != 0 {
                return Err(non_zero(padding, offset + size));
            }
        }
        Ok(Inline { bytes, offset })
    }

    /// The place of the next handle, which fulfils `constraint`.
    ///
    /// # Errors
    /// [`Rule::TooFewHandles`] and whatever the handle lacks.
    pub(crate) fn claim_handle(
        &mut self,
        parent: Inline<'a>,
        constraint: HandleConstraint,
    ) -> Result<usize> {
        let index = self.take_handle_place(parent)?;
        self.handles.claim(index, constraint).map_err(|rule| parent.breaks(rule))?;
        Ok(index)
    }

    /// What `look` gives, which sees a copy of this decoder. So its own place stays in registers,
    /// although `look` is called.
    ///
    /// # Errors
    /// Those of `look`.
    #[inline(always)]
    pub(crate) fn apart<T>(
        &mut self,
        look: impl FnOnce(&mut Decoder<'a, '_>) -> Result<T>,
    ) -> Result<T> {
        let Decoder { cursor, handle_count, handles } = self;
        let mut copy =
            Decoder { cursor: *cursor, handle_count: *handle_count, handles: &mut **handles };
        let seen = look(&mut copy);
        self.cursor = copy.cursor;
        seen
    }

    /// Closes the next `count` handles.
    ///
    /// # Errors
    /// [`Rule::TooFewHandles`].
    pub(crate) fn close_handles(&mut self, parent: Inline<'a>, count: usize) -> Result<()> {
        for _ in 0..count {
            let index = self.take_handle_place(parent)?;
            self.handles.close(index);
        }
        Ok(())
    }

    /// The place of the next handle.
    ///
    /// # Errors
    /// [`Rule::TooFewHandles`].
    pub(crate) fn take_handle_place(&mut self, parent: Inline<'a>) -> Result<usize> {
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

    /// All bytes and all handles were used.
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

/// Looks at what was checked before, from `cursor` on. It cannot break a rule then, because the
/// bytes are borrowed since.
#[inline]
pub(crate) fn again<'a, R>(
    cursor: &mut Cursor<'a>,
    look: impl FnOnce(&mut Decoder<'a, '_>) -> R,
) -> R {
    let mut handles = Unchecked(usize::MAX);
    let mut decoder =
        Decoder { cursor: *cursor, handle_count: handles.count(), handles: &mut handles };
    let seen = look(&mut decoder);
    *cursor = decoder.cursor;
    seen
}

/// The first object of a message, of `size` bytes at `next`, and where the others are taken from.
#[inline(always)]
fn enter<'a, 'h>(
    (bytes, next): (&'a [u8], usize),
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
    let (object, mut decoder) = enter((bytes, next), T::SIZE, handles)?;
    let view = T::decode(object, &mut decoder, T::UNCONSTRAINED, Depth::ROOT)?;
    decoder.finish()?;
    Ok(view)
}

/// `count` handles came; those that are not taken yet are `arriving`.
fn read_from<T: FromView<H>, H>(
    bytes: &[u8],
    next: usize,
    count: usize,
    mut arriving: Arriving<'_, H>,
) -> Result<T> {
    let mut came = Unchecked(count);
    let (object, mut decoder) = enter((bytes, next), T::SIZE, &mut came)?;
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

/// Decodes a value without a header, and checks the handles that it refers to; they stay in
/// `handles`, narrowed to the rights that their fields name.
///
/// # Errors
/// Any rule that the bytes or the handles break; all handles are closed then.
pub fn decode_with_handles<'a, T: Decode, H: CodecHandle>(
    bytes: &'a [u8],
    handles: &mut Handles<H>,
) -> Result<T::View<'a>> {
    decode_from::<T>(bytes, 0, handles).inspect_err(|_| handles.close())
}

/// Decodes the body of a message, whose first 16 bytes are its header
/// ([`Header::parse`](crate::Header::parse) reads that). Offsets in errors count from the beginning of the message.
///
/// # Errors
/// As [`decode_with_handles`], and [`Rule::TooFewBytes`] if there is not even a header.
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

/// Decodes a value without a header into one that owns everything, in one walk: what is checked is
/// copied at once.
///
/// # Errors
/// As [`decode_with_handles`].
pub fn decode_owned<T: FromView<H>, H: CodecHandle>(bytes: &[u8], handles: Vec<H>) -> Result<T> {
    let mut handles = Handles::from(handles);
    read_from(bytes, 0, handles.count(), Arriving::new(&mut handles))
}

/// A message that owns its bytes, checked: whatever lends bytes is kept as long as it exists.
///
/// [`view`](Self::view) walks through the message again, which costs what the check cost; keep the
/// view where it is used more than once.
#[derive(Debug)]
pub struct Received<T, B, H> {
    message: B,
    handles: Handles<H>,
    /// Of all handles, taken or not.
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

    /// The view.
    ///
    /// # Errors
    /// None, as long as `B` gives the same bytes every time.
    pub fn view(&self) -> Result<T::View<'_>> {
        decode_from::<T>(&self.message, HEADER_BYTES, &mut Unchecked(self.count))
    }

    /// The handles that came with it.
    pub fn handles(&mut self) -> &mut Handles<H> {
        &mut self.handles
    }

    /// The memory again, for the next message. Handles that were not taken are closed.
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

    /// A value that owns everything.
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

/// Counts how many bytes of objects are visited, for tests that bound the work.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        static VISITED: Cell<usize> = const { Cell::new(0) };
    }

    /// An object of `size` bytes is visited.
    pub(crate) fn note(size: usize) {
        VISITED.set(VISITED.get() + super::padded(size));
    }

    /// Bytes of objects that `act` visits, and what it gives.
    pub(crate) fn during<T>(act: impl FnOnce() -> T) -> (usize, T) {
        VISITED.set(0);
        let done = act();
        (VISITED.get(), done)
    }
}
