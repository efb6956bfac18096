//! Values in a `Box`: an out-of-line struct that may be absent, or any recursive type.

use std::fmt;

use crate::decode::{Decode, Decoder, FromView, Inline};
use crate::encode::{Encode, Output, encode_object};
use crate::error::{Result, Rule};
use crate::handle::{Arriving, Handles, Leaving, TakeHandles};
use crate::layout::Layout;
use crate::lazy::{Boxed, Items};
use crate::limits::Depth;
use crate::validity::Validity;
use crate::wire::vector::PRESENT;

/// A required box is encoded like its contents.
impl<T: Layout> Layout for Box<T> {
    const SIZE: usize = T::SIZE;
    const ALIGN: usize = T::ALIGN;
    const IS_FLAT: bool = T::IS_FLAT;
    const HAS_HANDLES: bool = T::HAS_HANDLES;
    const VALIDITY: Validity = T::VALIDITY;
    type Constraint = T::Constraint;
    const UNCONSTRAINED: T::Constraint = T::UNCONSTRAINED;
}

impl<T: Encode> Encode for Box<T> {
    #[inline]
    fn encode_inline(&self, inline: &mut [u8], constraint: T::Constraint) -> Result<()> {
        T::encode_inline(self, inline, constraint)
    }

    #[inline]
    fn encode_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        at: usize,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<()> {
        T::encode_rest(self, out, at, constraint, depth)
    }
}

impl<T: Encode> Encode for &T {
    #[inline]
    fn encode_inline(&self, inline: &mut [u8], constraint: T::Constraint) -> Result<()> {
        T::encode_inline(self, inline, constraint)
    }

    #[inline]
    fn encode_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        at: usize,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<()> {
        T::encode_rest(self, out, at, constraint, depth)
    }
}

impl<H, T: TakeHandles<H>> TakeHandles<H> for Box<T> {
    fn take_handles(
        &mut self,
        leaving: &mut Leaving<'_, H>,
        constraint: T::Constraint,
    ) -> Result<()> {
        T::take_handles(self, leaving, constraint)
    }
}

impl<T: Decode> Decode for Box<T> {
    type View<'a> = Boxed<'a, T>;
    type Slice<'a> = Items<'a, Box<T>>;

    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Boxed<'a, T>> {
        Boxed::decode(inline, decoder, constraint, depth)
    }

    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Items<'a, Box<T>>> {
        Items::decode(inline, decoder, constraint, depth)
    }

    fn print<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        T::print(inline, decoder, constraint, depth, f)
    }
}

impl<H, T: FromView<H>> FromView<H> for Box<T> {
    fn from_view(view: Boxed<'_, T>, handles: &mut Handles<H>) -> Box<T> {
        Box::new(view.into_value(handles))
    }

    fn from_items(
        items: Self::Slice<'_>,
        handles: &mut Handles<H>,
    ) -> impl Iterator<Item = Box<T>> {
        items.into_values(handles)
    }

    #[inline]
    fn read<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Box<T>> {
        T::read(inline, decoder, arriving, constraint, depth).map(Box::new)
    }
}

/// Size of a box's presence marker in bytes.
pub const BOX_SIZE: usize = 8;

/// Writes the presence marker of an out-of-line struct.
///
/// # Errors
/// None; the result has the type of all such functions.
#[inline]
pub fn encode_box_inline(inline: &mut [u8]) -> Result<()> {
    inline.copy_from_slice(&PRESENT.to_le_bytes());
    Ok(())
}

/// Appends the struct.
///
/// # Errors
/// Any rule that the struct breaks.
#[inline]
pub fn encode_box_rest<'v, T: Encode, O: Output<'v>>(
    value: &'v T,
    out: &mut O,
    constraint: T::Constraint,
    depth: Depth,
) -> Result<()> {
    encode_object(value, out, constraint, depth.deeper()?)
}

/// Checks an out-of-line struct, or its absence.
///
/// # Errors
/// Any rule that the bytes break.
#[inline]
pub fn decode_box<'a, T: Decode>(
    inline: Inline<'a>,
    decoder: &mut Decoder<'a, '_>,
    constraint: T::Constraint,
    depth: Depth,
) -> Result<Option<Boxed<'a, T>>> {
    match open_box::<T>(inline, decoder, depth)? {
        Some((object, depth)) => Boxed::decode(object, decoder, constraint, depth).map(Some),
        None => Ok(None),
    }
}

/// Returns the inline part of an out-of-line struct, and its depth. `None` if it is absent.
///
/// # Errors
/// [`Rule::InvalidPresence`], [`Rule::TooDeep`], [`Rule::TooFewBytes`].
#[inline(always)]
pub fn open_box<'a, T: Layout>(
    inline: Inline<'a>,
    decoder: &mut Decoder<'a, '_>,
    depth: Depth,
) -> Result<Option<(Inline<'a>, Depth)>> {
    match u64::from_le_bytes(inline.array()) {
        0 => Ok(None),
        PRESENT => {
            let depth = depth.deeper()?;
            Ok(Some((decoder.object(inline, T::SIZE)?, depth)))
        }
        found => Err(inline.breaks(Rule::InvalidPresence { found })),
    }
}
