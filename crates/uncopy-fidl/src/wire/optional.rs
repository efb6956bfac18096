//! Optional values: all zeros if absent.

use std::fmt::{self, Debug as _};

use crate::decode::{Decode, DecodeOptional, Decoder, FromView, Inline};
use crate::encode::{Encode, EncodeOptional, Optional, Output};
use crate::error::Result;
use crate::handle::{Arriving, Handles, Leaving, TakeHandles};
use crate::layout::Layout;
use crate::lazy::{DebugOnce, Items};
use crate::limits::Depth;
use crate::validity::Validity;

impl<T: Optional> Layout for Option<T> {
    const SIZE: usize = T::OPTIONAL_SIZE;
    const ALIGN: usize = T::OPTIONAL_ALIGN;
    const IS_FLAT: bool = false;
    const HAS_HANDLES: bool = T::HAS_HANDLES;
    const VALIDITY: Validity = Validity::Checked;
    type Constraint = T::Constraint;
    const UNCONSTRAINED: T::Constraint = T::UNCONSTRAINED;
}

impl<T: EncodeOptional> Encode for Option<T> {
    #[inline]
    fn encode_inline(&self, inline: &mut [u8], constraint: T::Constraint) -> Result<()> {
        match self {
            Some(value) => value.encode_some_inline(inline, constraint),
            None => Ok(()),
        }
    }

    #[inline]
    fn encode_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        at: usize,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<()> {
        match self {
            Some(value) => value.encode_some_rest(out, at, constraint, depth),
            None => Ok(()),
        }
    }
}

impl<H, T: Optional + TakeHandles<H>> TakeHandles<H> for Option<T> {
    fn take_handles(
        &mut self,
        leaving: &mut Leaving<'_, H>,
        constraint: T::Constraint,
    ) -> Result<()> {
        match self {
            Some(value) => value.take_handles(leaving, constraint),
            None => Ok(()),
        }
    }
}

impl<T: DecodeOptional + Optional> Decode for Option<T> {
    type View<'a> = Option<T::View<'a>>;
    type Slice<'a> = Items<'a, Option<T>>;

    #[inline]
    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Option<T::View<'a>>> {
        T::decode_optional(inline, decoder, constraint, depth)
    }

    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Items<'a, Option<T>>> {
        Items::decode(inline, decoder, constraint, depth)
    }

    fn print<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let found = T::present(inline, decoder, depth).map_err(|_| fmt::Error)?;
        let value = found.map(|(object, depth)| {
            DebugOnce::new(move |f| T::print(object, decoder, constraint, depth, f))
        });
        value.fmt(f)
    }
}

impl<H, T: DecodeOptional + Optional + FromView<H>> FromView<H> for Option<T> {
    fn from_view(view: Option<T::View<'_>>, handles: &mut Handles<H>) -> Option<T> {
        view.map(|view| T::from_view(view, handles))
    }

    fn from_items(
        items: Self::Slice<'_>,
        handles: &mut Handles<H>,
    ) -> impl Iterator<Item = Option<T>> {
        items.into_values(handles)
    }

    #[inline]
    fn read<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Option<T>> {
        match T::present(inline, decoder, depth)? {
            Some((object, depth)) => {
                T::read(object, decoder, arriving, constraint, depth).map(Some)
            }
            None => Ok(None),
        }
    }
}
