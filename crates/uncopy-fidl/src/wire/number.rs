//! Numbers and booleans.

use zerocopy::{FromBytes, IntoBytes, TryFromBytes, little_endian as le};

use crate::decode::{Decode, Decoder, FromView, Inline};
use crate::encode::Encode;
use crate::error::{Result, Rule};
use crate::handle::{Handles, TakeHandles};
use crate::layout::{Layout, NoConstraint};
use crate::limits::Depth;
use crate::validity::Validity;

/// Implements numbers of type `$number`; several of them are viewed as `$items`, and `$read` reads
/// one.
macro_rules! numbers {
    ($($number:ty: $items:ty, $read:expr $(, $collect:expr)?;)*) => {$(
        impl Layout for $number {
            const SIZE: usize = size_of::<$number>();
            const ALIGN: usize = Self::SIZE;
            const IS_FLAT: bool = true;
            const HAS_HANDLES: bool = false;
            const VALIDITY: Validity = Validity::Any;
            type Constraint = NoConstraint;
            const UNCONSTRAINED: NoConstraint = NoConstraint;
        }

        impl Encode for $number {
            #[inline]
            fn encode_inline(&self, inline: &mut [u8], _: NoConstraint) -> Result<()> {
                inline.copy_from_slice(&self.to_le_bytes());
                Ok(())
            }

            #[inline]
            fn as_wire(items: &[Self]) -> Option<&[u8]> {
                (cfg!(target_endian = "little") || Self::SIZE == 1).then(|| items.as_bytes())
            }
        }

        impl<H> TakeHandles<H> for $number {}

        impl Decode for $number {
            type View<'a> = $number;
            type Slice<'a> = &'a [$items];

            #[inline]
            fn decode<'a>(
                inline: Inline<'a>,
                _: &mut Decoder<'a, '_>,
                _: NoConstraint,
                _: Depth,
            ) -> Result<$number> {
                Ok(<$number>::from_le_bytes(inline.array()))
            }

            #[inline]
            fn decode_items<'a>(
                inline: Inline<'a>,
                _: &mut Decoder<'a, '_>,
                _: NoConstraint,
                _: Depth,
            ) -> Result<&'a [$items]> {
                let bytes = inline.bytes();
                <[$items]>::ref_from_bytes(bytes).map_err(|_| {
                    let needed = bytes.len().next_multiple_of(Self::SIZE);
                    inline.breaks(Rule::TooFewBytes { needed, left: bytes.len() })
                })
            }
        }

        impl<H> FromView<H> for $number {
            #[inline]
            fn from_view(view: $number, _: &mut Handles<H>) -> $number {
                view
            }

            #[inline]
            fn from_items(
                items: Self::Slice<'_>,
                _: &mut Handles<H>,
            ) -> impl Iterator<Item = $number> {
                items.iter().map($read)
            }

            $(
                #[inline]
                fn collect_items(items: Self::Slice<'_>, _: &mut Handles<H>) -> Vec<$number> {
                    $collect(items)
                }
            )?
        }
    )*};
}

numbers! {
    u8: u8, |byte: &u8| *byte, <[u8]>::to_vec;
    i8: i8, |byte: &i8| *byte, <[i8]>::to_vec;
    u16: le::U16, |number: &le::U16| number.get();
    i16: le::I16, |number: &le::I16| number.get();
    u32: le::U32, |number: &le::U32| number.get();
    i32: le::I32, |number: &le::I32| number.get();
    u64: le::U64, |number: &le::U64| number.get();
    i64: le::I64, |number: &le::I64| number.get();
    f32: le::F32, |number: &le::F32| number.get();
    f64: le::F64, |number: &le::F64| number.get();
}

impl Layout for bool {
    const SIZE: usize = 1;
    const ALIGN: usize = 1;
    const IS_FLAT: bool = true;
    const HAS_HANDLES: bool = false;
    const VALIDITY: Validity = Validity::zeros_in_number(0xfe);
    type Constraint = NoConstraint;
    const UNCONSTRAINED: NoConstraint = NoConstraint;
}

impl Encode for bool {
    #[inline]
    fn encode_inline(&self, inline: &mut [u8], _: NoConstraint) -> Result<()> {
        inline[0] = u8::from(*self);
        Ok(())
    }

    #[inline]
    fn as_wire(items: &[bool]) -> Option<&[u8]> {
        Some(items.as_bytes())
    }
}

impl<H> TakeHandles<H> for bool {}

impl Decode for bool {
    type View<'a> = bool;
    type Slice<'a> = &'a [bool];

    #[inline]
    fn decode<'a>(
        inline: Inline<'a>,
        _: &mut Decoder<'a, '_>,
        _: NoConstraint,
        _: Depth,
    ) -> Result<bool> {
        match inline.bytes()[0] {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(inline.breaks(Rule::InvalidBool { found })),
        }
    }

    #[inline]
    fn decode_items<'a>(
        inline: Inline<'a>,
        _: &mut Decoder<'a, '_>,
        _: NoConstraint,
        _: Depth,
    ) -> Result<&'a [bool]> {
        let bytes = inline.bytes();
        <[bool]>::try_ref_from_bytes(bytes).map_err(|_| {
            let bad = bytes.iter().position(|byte| *byte > 1).unwrap_or(0);
            let rule = Rule::InvalidBool { found: bytes.get(bad).copied().unwrap_or(0) };
            inline.part(bad, 0).breaks(rule).in_item(bad)
        })
    }
}

impl<H> FromView<H> for bool {
    fn from_view(view: bool, _: &mut Handles<H>) -> bool {
        view
    }

    fn from_items(items: Self::Slice<'_>, _: &mut Handles<H>) -> impl Iterator<Item = bool> {
        items.iter().copied()
    }
}
