//! Strings: vectors of UTF-8 bytes.

use crate::decode::{Decode, DecodeOptional, Decoder, FromView, Inline};
use crate::encode::{Encode, EncodeOptional, Optional, Output};
use crate::error::{Error, Result, Rule};
use crate::handle::{Handles, TakeHandles};
use crate::layout::{Layout, Limit, NoConstraint};
use crate::lazy::Items;
use crate::limits::Depth;
use crate::validity::Validity;
use crate::wire::vector::{self, decode_header, encode_header};

macro_rules! strings {
    ($({$($life:lifetime)?} $string:ty;)*) => {$(
        impl<$($life)?> Layout for $string {
            const SIZE: usize = vector::SIZE;
            const ALIGN: usize = 8;
            const IS_FLAT: bool = false;
            const HAS_HANDLES: bool = false;
            const VALIDITY: Validity = Validity::Checked;
            type Constraint = Limit<NoConstraint>;
            const UNCONSTRAINED: Limit<NoConstraint> =
                Limit { max: u32::MAX as usize, item: NoConstraint };
        }

        impl<$($life)?> Encode for $string {
            #[inline]
            fn encode_inline(
                &self,
                inline: &mut [u8],
                constraint: Limit<NoConstraint>,
            ) -> Result<()> {
                if self.len() > constraint.max {
                    let rule = Rule::StringTooLong { max: constraint.max, found: self.len() };
                    return Err(Error::new(rule));
                }
                encode_header(inline, self.len());
                Ok(())
            }

            #[inline(always)]
            fn encode_rest<'v, O: Output<'v>>(
                &'v self,
                out: &mut O,
                _: usize,
                _: Limit<NoConstraint>,
                depth: Depth,
            ) -> Result<()> {
                if self.is_empty() {
                    return Ok(());
                }
                depth.deeper()?;
                out.body(self.as_bytes())
            }
        }

        impl<$($life)?> Optional for $string {
            const OPTIONAL_SIZE: usize = vector::SIZE;
            const OPTIONAL_ALIGN: usize = 8;
        }

        impl<$($life)?> EncodeOptional for $string {}
    )*};
}

strings! {
    {} String;
    {'s} &'s str;
}

impl<H> TakeHandles<H> for String {}

impl Decode for String {
    type View<'a> = &'a str;
    type Slice<'a> = Items<'a, String>;

    #[inline(always)]
    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Limit<NoConstraint>,
        depth: Depth,
    ) -> Result<&'a str> {
        let text = Self::decode_optional(inline, decoder, constraint, depth)?;
        text.ok_or_else(|| inline.breaks(Rule::RequiredIsAbsent))
    }

    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Limit<NoConstraint>,
        depth: Depth,
    ) -> Result<Items<'a, String>> {
        Items::decode(inline, decoder, constraint, depth)
    }
}

impl DecodeOptional for String {
    #[inline(always)]
    fn decode_optional<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: Limit<NoConstraint>,
        depth: Depth,
    ) -> Result<Option<&'a str>> {
        let Some(count) = decode_header(inline, |count| Rule::AbsentStringWithCount { count })?
        else {
            return Ok(None);
        };
        if count > constraint.max {
            let rule = Rule::StringTooLong { max: constraint.max, found: count };
            return Err(inline.breaks(rule));
        }
        if count > 0 {
            depth.deeper()?;
        }
        let object = decoder.object(inline, count)?;
        match std::str::from_utf8(object.bytes()) {
            // Made again from registers: the two halves of `text` were just stored separately, and
            // loading both at once would stall.
            Ok(text) => Ok(text.get(..count)),
            Err(error) => Err(object.breaks(Rule::NotUtf8 { valid: error.valid_up_to() })),
        }
    }

    fn present<'a>(
        inline: Inline<'a>,
        _: &mut Decoder<'a, '_>,
        depth: Depth,
    ) -> Result<Option<(Inline<'a>, Depth)>> {
        let count = decode_header(inline, |count| Rule::AbsentStringWithCount { count })?;
        Ok(count.map(|_| (inline, depth)))
    }
}

impl<H> FromView<H> for String {
    fn from_view(view: &str, _: &mut Handles<H>) -> String {
        view.to_owned()
    }

    fn from_items(items: Self::Slice<'_>, _: &mut Handles<H>) -> impl Iterator<Item = String> {
        items.into_iter().map(str::to_owned)
    }
}
