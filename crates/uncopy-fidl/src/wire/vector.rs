//! Vectors: sixteen bytes of count and presence marker; the items are out of line.

use std::fmt::{self, Debug as _};

use crate::decode::{Decode, DecodeOptional, Decoder, FromView, Inline};
use crate::encode::{Encode, EncodeOptional, Optional, Output};
use crate::error::{Error, Result, Rule};
use crate::handle::{Arriving, Handles, Leaving, TakeHandles};
use crate::layout::{Layout, Limit};
use crate::lazy::{Items, print_items};
use crate::limits::{Depth, MAX_BYTES};
use crate::validity::Validity;

/// Size of count and presence marker in bytes.
pub(super) const SIZE: usize = 16;
/// `FIDL_ALLOC_PRESENT`.
pub(super) const PRESENT: u64 = u64::MAX;

/// Writes the count of a present vector or string.
#[inline]
pub fn encode_header(inline: &mut [u8], count: usize) {
    inline[..8].copy_from_slice(&(count as u64).to_le_bytes());
    inline[8..16].copy_from_slice(&PRESENT.to_le_bytes());
}

/// Reads the count. `None` if absent; `absent_with_count` is the broken rule if something absent
/// has a count.
#[inline(always)]
pub(super) fn decode_header(
    inline: Inline<'_>,
    absent_with_count: impl FnOnce(u64) -> Rule,
) -> Result<Option<usize>> {
    let count = u64::from_le_bytes(inline.array());
    match u64::from_le_bytes(inline.part(8, 8).array()) {
        // If it does not fit into `usize`, it is longer than a message on any system.
        PRESENT => match u32::try_from(count) {
            Ok(count) => Ok(Some(count as usize)),
            Err(_) => Err(inline.breaks(Rule::CountExceeds32Bits { found: count })),
        },
        0 if count == 0 => Ok(None),
        0 => Err(inline.breaks(absent_with_count(count))),
        found => Err(inline.part(8, 8).breaks(Rule::InvalidPresence { found })),
    }
}

#[inline]
fn encode_inline<T: Layout>(
    items: &[T],
    inline: &mut [u8],
    constraint: Limit<T::Constraint>,
) -> Result<()> {
    if items.len() > constraint.max {
        let rule = Rule::CountExceedsLimit { max: constraint.max, found: items.len() };
        return Err(Error::new(rule));
    }
    encode_header(inline, items.len());
    Ok(())
}

#[inline(always)]
fn encode_rest<'v, T: Encode, O: Output<'v>>(
    items: &'v [T],
    out: &mut O,
    constraint: Limit<T::Constraint>,
    depth: Depth,
) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let depth = depth.deeper()?;
    if let Some(bytes) = T::as_wire(items) {
        return out.body(bytes);
    }
    // If it overflows, it is larger than any message.
    let size = items.len().saturating_mul(T::SIZE).min(MAX_BYTES + 1);
    let at = out.grow(size)?;
    encode_all(items, out, at, constraint.item, depth)
}

/// Writes the inline parts of all items, and then the out-of-line objects of each.
#[inline]
pub(super) fn encode_all<'v, T: Encode, O: Output<'v>>(
    items: &'v [T],
    out: &mut O,
    at: usize,
    constraint: T::Constraint,
    depth: Depth,
) -> Result<()> {
    let inline = out.inline(at, items.len() * T::SIZE);
    encode_all_inline(items, inline, constraint)?;
    if T::IS_FLAT {
        return Ok(());
    }
    for (index, item) in items.iter().enumerate() {
        item.encode_rest(out, at + index * T::SIZE, constraint, depth)
            .map_err(|error| error.in_item(index))?;
    }
    Ok(())
}

/// Writes the inline parts of all items.
#[inline]
pub(super) fn encode_all_inline<T: Encode>(
    items: &[T],
    inline: &mut [u8],
    constraint: T::Constraint,
) -> Result<()> {
    for (index, (item, inline)) in items.iter().zip(inline.chunks_exact_mut(T::SIZE)).enumerate() {
        item.encode_inline(inline, constraint).map_err(|error| error.in_item(index))?;
    }
    Ok(())
}

/// Implements vectors and slices.
macro_rules! vectors {
    ($({$($life:lifetime)?} $vector:ty;)*) => {$(
        impl<$($life,)? T: Layout> Layout for $vector {
            const SIZE: usize = SIZE;
            const ALIGN: usize = 8;
            const IS_FLAT: bool = false;
            const HAS_HANDLES: bool = T::HAS_HANDLES;
            const VALIDITY: Validity = Validity::Checked;
            type Constraint = Limit<T::Constraint>;
            const UNCONSTRAINED: Limit<T::Constraint> =
                Limit { max: u32::MAX as usize, item: T::UNCONSTRAINED };
        }

        impl<$($life,)? T: Encode> Encode for $vector {
            #[inline]
            fn encode_inline(&self, inline: &mut [u8], constraint: Self::Constraint) -> Result<()> {
                encode_inline::<T>(self, inline, constraint)
            }

            #[inline(always)]
            fn encode_rest<'v, O: Output<'v>>(
                &'v self,
                out: &mut O,
                _: usize,
                constraint: Self::Constraint,
                depth: Depth,
            ) -> Result<()> {
                encode_rest::<T, O>(self, out, constraint, depth)
            }
        }

        impl<$($life,)? T: Layout> Optional for $vector {
            const OPTIONAL_SIZE: usize = SIZE;
            const OPTIONAL_ALIGN: usize = 8;
        }

        impl<$($life,)? T: Encode> EncodeOptional for $vector {}
    )*};
}

vectors! {
    {} Vec<T>;
    {'s} &'s [T];
}

impl<H, T: TakeHandles<H>> TakeHandles<H> for Vec<T> {
    fn take_handles(
        &mut self,
        leaving: &mut Leaving<'_, H>,
        constraint: Limit<T::Constraint>,
    ) -> Result<()> {
        if !T::HAS_HANDLES {
            return Ok(());
        }
        for (index, item) in self.iter_mut().enumerate() {
            let taken = item.take_handles(leaving, constraint.item);
            taken.map_err(|error| error.in_item(index))?;
        }
        Ok(())
    }
}

impl<T: Decode> Decode for Vec<T> {
    type View<'a> = T::Slice<'a>;
    type Slice<'a> = Items<'a, Vec<T>>;

    #[inline(always)]
    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<T::Slice<'a>> {
        let items = Self::decode_optional(inline, decoder, constraint, depth)?;
        items.ok_or_else(|| inline.breaks(Rule::RequiredIsAbsent))
    }

    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Items<'a, Vec<T>>> {
        Items::decode(inline, decoder, constraint, depth)
    }

    fn print<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let items = items_of::<T>(inline, decoder, constraint, depth);
        let (items, depth) = items.ok().flatten().ok_or(fmt::Error)?;
        if !T::IS_FLAT {
            return print_items::<T>(items, decoder, constraint.item, depth, f);
        }
        let items = T::decode_items(items, decoder, constraint.item, depth);
        items.map_err(|_| fmt::Error)?.fmt(f)
    }
}

impl<T: Decode> DecodeOptional for Vec<T> {
    #[inline(always)]
    fn decode_optional<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Option<T::Slice<'a>>> {
        let Some((items, depth)) = items_of::<T>(inline, decoder, constraint, depth)? else {
            return Ok(None);
        };
        T::decode_items(items, decoder, constraint.item, depth).map(Some)
    }

    fn present<'a>(
        inline: Inline<'a>,
        _: &mut Decoder<'a, '_>,
        depth: Depth,
    ) -> Result<Option<(Inline<'a>, Depth)>> {
        let count = decode_header(inline, |count| Rule::AbsentVectorWithCount { count })?;
        Ok(count.map(|_| (inline, depth)))
    }
}

/// Returns the items of a vector of `T`, and their depth. `None` if it is absent.
#[inline(always)]
fn items_of<'a, T: Layout>(
    inline: Inline<'a>,
    decoder: &mut Decoder<'a, '_>,
    constraint: Limit<T::Constraint>,
    depth: Depth,
) -> Result<Option<(Inline<'a>, Depth)>> {
    const { assert!(T::SIZE > 0, "items have at least one byte") };
    let Some(count) = decode_header(inline, |count| Rule::AbsentVectorWithCount { count })? else {
        return Ok(None);
    };
    if count > constraint.max {
        let rule = Rule::CountExceedsLimit { max: constraint.max, found: count };
        return Err(inline.breaks(rule));
    }
    let depth = if count == 0 { depth } else { depth.deeper()? };
    let items = decoder.object(inline, count.saturating_mul(T::SIZE))?;
    Ok(Some((items, depth)))
}

impl<H, T: FromView<H>> FromView<H> for Vec<T> {
    fn from_view(view: T::Slice<'_>, handles: &mut Handles<H>) -> Vec<T> {
        T::collect_items(view, handles)
    }

    fn from_items(
        items: Self::Slice<'_>,
        handles: &mut Handles<H>,
    ) -> impl Iterator<Item = Vec<T>> {
        items.into_values(handles)
    }

    #[inline]
    fn read<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Vec<T>> {
        let found = items_of::<T>(inline, decoder, constraint, depth)?;
        let (items, depth) = found.ok_or_else(|| inline.breaks(Rule::RequiredIsAbsent))?;
        if T::IS_FLAT {
            let items = T::decode_items(items, decoder, constraint.item, depth)?;
            return Ok(T::collect_items(items, arriving.handles()));
        }
        let count = items.bytes().len() / T::SIZE;
        let mut values = Vec::with_capacity(count);
        for index in 0..count {
            let part = items.part(index * T::SIZE, T::SIZE);
            let value = T::read(part, decoder, arriving, constraint.item, depth);
            values.push(value.map_err(|error| error.in_item(index))?);
        }
        Ok(values)
    }
}
