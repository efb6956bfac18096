//! Arrays: adjacent items, inline.

use std::array;
use std::fmt::{self, Debug as _};

use arrayvec::ArrayVec;

use crate::decode::{Decode, Decoder, FromView, Inline};
use crate::encode::{Encode, Output};
use crate::error::Result;
use crate::handle::{Arriving, Handles, Leaving, TakeHandles};
use crate::layout::{EachItem, Layout};
use crate::lazy::{Items, print_items};
use crate::limits::Depth;
use crate::validity::Validity;
use crate::wire::vector::encode_all_inline;

impl<T: Layout, const N: usize> Layout for [T; N] {
    const SIZE: usize = {
        assert!(N > 0, "an array has at least one item");
        N * T::SIZE
    };
    const ALIGN: usize = T::ALIGN;
    const IS_FLAT: bool = T::IS_FLAT;
    const HAS_HANDLES: bool = T::HAS_HANDLES;
    const VALIDITY: Validity = T::VALIDITY.repeated(T::SIZE, N);
    type Constraint = EachItem<T::Constraint>;
    const UNCONSTRAINED: EachItem<T::Constraint> = EachItem { item: T::UNCONSTRAINED };
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    #[inline]
    fn encode_inline(&self, inline: &mut [u8], constraint: Self::Constraint) -> Result<()> {
        match T::as_wire(self) {
            Some(bytes) => {
                inline.copy_from_slice(bytes);
                Ok(())
            }
            None => encode_all_inline(self, inline, constraint.item),
        }
    }

    #[inline]
    fn encode_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        at: usize,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<()> {
        for (index, item) in self.iter().enumerate() {
            item.encode_rest(out, at + index * T::SIZE, constraint.item, depth)
                .map_err(|error| error.in_item(index))?;
        }
        Ok(())
    }

    #[inline]
    fn as_wire(items: &[Self]) -> Option<&[u8]> {
        T::as_wire(items.as_flattened())
    }
}

impl<H, T: TakeHandles<H>, const N: usize> TakeHandles<H> for [T; N] {
    fn take_handles(
        &mut self,
        leaving: &mut Leaving<'_, H>,
        constraint: Self::Constraint,
    ) -> Result<()> {
        for (index, item) in self.iter_mut().enumerate() {
            let taken = item.take_handles(leaving, constraint.item);
            taken.map_err(|error| error.in_item(index))?;
        }
        Ok(())
    }
}

impl<T: Decode, const N: usize> Decode for [T; N] {
    /// Validity of `N` items.
    type View<'a> = T::Slice<'a>;
    type Slice<'a> = Items<'a, [T; N]>;

    #[inline]
    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<T::Slice<'a>> {
        T::decode_items(inline, decoder, constraint.item, depth)
    }

    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<Items<'a, [T; N]>> {
        Items::decode(inline, decoder, constraint, depth)
    }

    fn print<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Self::Constraint,
        depth: Depth,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        if !T::IS_FLAT {
            return print_items::<T>(inline, decoder, constraint.item, depth, f);
        }
        let items = T::decode_items(inline, decoder, constraint.item, depth);
        items.map_err(|_| fmt::Error)?.fmt(f)
    }
}

impl<H, T: FromView<H>, const N: usize> FromView<H> for [T; N] {
    fn from_view(view: T::Slice<'_>, handles: &mut Handles<H>) -> [T; N] {
        let mut items = T::from_items(view, handles);
        array::from_fn(|_| items.next().expect("a view of an array has its items"))
    }

    fn from_items(
        items: Self::Slice<'_>,
        handles: &mut Handles<H>,
    ) -> impl Iterator<Item = [T; N]> {
        items.into_values(handles)
    }

    fn read<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        constraint: Self::Constraint,
        depth: Depth,
    ) -> Result<[T; N]> {
        if T::IS_FLAT {
            let items = T::decode_items(inline, decoder, constraint.item, depth)?;
            return Ok(Self::from_view(items, arriving.handles()));
        }
        let mut values = ArrayVec::<T, N>::new();
        for index in 0..N {
            let part = inline.part(index * T::SIZE, T::SIZE);
            let value = T::read(part, decoder, arriving, constraint.item, depth);
            values.push(value.map_err(|error| error.in_item(index))?);
        }
        Ok(values.into_inner().ok().expect("as many values as the array has items"))
    }
}
