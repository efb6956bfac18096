//! Payloads that occur only directly after a header: no payload, and the result of a call.

use std::convert::Infallible;
use std::fmt;

use crate::decode::{Decode, Decoder, FromView, Inline};
use crate::encode::{Encode, Output};
use crate::error::{Error, Result, Rule};
use crate::handle::{Arriving, Handles, Leaving, TakeHandles};
use crate::layout::{Layout, NoConstraint};
use crate::lazy::{DebugOnce, Items};
use crate::limits::Depth;
use crate::validity::Validity;
use crate::wire::envelope::{Envelope, encode_envelope};
use crate::wire::union::{UNION_SIZE, decode_union};

/// The body of a method without arguments: no bytes. It cannot be a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoPayload;

/// Implements types that cannot be fields of a struct.
macro_rules! bodies {
    ($($body:ty, $size:literal, |$inline:ident| $decoded:expr;)*) => {$(
        impl Layout for $body {
            const SIZE: usize = $size;
            const ALIGN: usize = 1;
            const IS_FLAT: bool = true;
            const HAS_HANDLES: bool = false;
            const VALIDITY: Validity = Validity::Checked;
            type Constraint = NoConstraint;
            const UNCONSTRAINED: NoConstraint = NoConstraint;
        }

        impl Encode for $body {
            fn encode_inline(&self, _: &mut [u8], _: NoConstraint) -> Result<()> {
                Ok(())
            }
        }

        impl<H> TakeHandles<H> for $body {}

        impl Decode for $body {
            type View<'a> = $body;
            type Slice<'a> = NoPayload;

            fn decode<'a>(
                $inline: Inline<'a>,
                _: &mut Decoder<'a, '_>,
                _: NoConstraint,
                _: Depth,
            ) -> Result<$body> {
                $decoded
            }

            fn decode_items<'a>(
                inline: Inline<'a>,
                _: &mut Decoder<'a, '_>,
                _: NoConstraint,
                _: Depth,
            ) -> Result<NoPayload> {
                Err(inline.breaks(Rule::RequiredIsAbsent))
            }
        }

        impl<H> FromView<H> for $body {
            fn from_view(view: $body, _: &mut Handles<H>) -> $body {
                view
            }

            fn from_items(_: Self::Slice<'_>, _: &mut Handles<H>) -> impl Iterator<Item = $body> {
                std::iter::empty()
            }
        }
    )*};
}

bodies! {
    NoPayload, 0, |_inline| Ok(NoPayload);
    Infallible, 1, |inline| Err(inline.breaks(Rule::UnknownUnionMember { ordinal: FAILURE }));
}

/// Result of a call, for methods that can fail, and for flexible methods, which a server may not
/// know. `E` is [`Infallible`] if the method itself cannot fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodResult<T, E, const IS_FLEXIBLE: bool> {
    /// The answer.
    Success(T),
    /// The method's own error.
    Failure(E),
    /// The server's bindings could not handle the call: [`UNKNOWN_METHOD`].
    Framework(i32),
}

/// The server does not know the method (`ZX_ERR_NOT_SUPPORTED`).
pub const UNKNOWN_METHOD: i32 = -2;

const SUCCESS: u64 = 1;
const FAILURE: u64 = 2;
const FRAMEWORK: u64 = 3;

impl<T, E, const IS_FLEXIBLE: bool> From<Result<T, E>> for MethodResult<T, E, IS_FLEXIBLE> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => MethodResult::Success(value),
            Err(error) => MethodResult::Failure(error),
        }
    }
}

impl<T: Layout, E: Layout, const IS_FLEXIBLE: bool> Layout for MethodResult<T, E, IS_FLEXIBLE> {
    const SIZE: usize = UNION_SIZE;
    const ALIGN: usize = 8;
    const IS_FLAT: bool = false;
    const HAS_HANDLES: bool = T::HAS_HANDLES || E::HAS_HANDLES;
    const VALIDITY: Validity = Validity::Checked;
    type Constraint = NoConstraint;
    const UNCONSTRAINED: NoConstraint = NoConstraint;
}

impl<T: Encode, E: Encode, const IS_FLEXIBLE: bool> Encode for MethodResult<T, E, IS_FLEXIBLE> {
    #[inline]
    fn encode_inline(&self, inline: &mut [u8], _: NoConstraint) -> Result<()> {
        let ordinal = match self {
            MethodResult::Success(_) => SUCCESS,
            MethodResult::Failure(_) => FAILURE,
            MethodResult::Framework(_) if IS_FLEXIBLE => FRAMEWORK,
            MethodResult::Framework(_) => {
                return Err(Error::new(Rule::UnknownUnionMember { ordinal: FRAMEWORK }));
            }
        };
        inline[..8].copy_from_slice(&ordinal.to_le_bytes());
        Ok(())
    }

    #[inline]
    fn encode_rest<'v, O: Output<'v>>(
        &'v self,
        out: &mut O,
        at: usize,
        _: NoConstraint,
        depth: Depth,
    ) -> Result<()> {
        let at = at + 8;
        match self {
            MethodResult::Success(value) => {
                encode_envelope(value, out, at, T::UNCONSTRAINED, depth)
            }
            MethodResult::Failure(error) => {
                encode_envelope(error, out, at, E::UNCONSTRAINED, depth)
            }
            MethodResult::Framework(status) => {
                encode_envelope(status, out, at, NoConstraint, depth)
            }
        }
    }
}

impl<H, T: TakeHandles<H>, E: TakeHandles<H>, const IS_FLEXIBLE: bool> TakeHandles<H>
    for MethodResult<T, E, IS_FLEXIBLE>
{
    fn take_handles(&mut self, leaving: &mut Leaving<'_, H>, _: NoConstraint) -> Result<()> {
        match self {
            MethodResult::Success(value) => value.take_handles(leaving, T::UNCONSTRAINED),
            MethodResult::Failure(error) => error.take_handles(leaving, E::UNCONSTRAINED),
            MethodResult::Framework(_) => Ok(()),
        }
    }
}

impl<T: Decode, E: Decode, const IS_FLEXIBLE: bool> Decode for MethodResult<T, E, IS_FLEXIBLE> {
    type View<'a> = MethodResult<T::View<'a>, E::View<'a>, IS_FLEXIBLE>;
    type Slice<'a> = Items<'a, Self>;

    fn decode<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        _: NoConstraint,
        depth: Depth,
    ) -> Result<Self::View<'a>> {
        let (ordinal, envelope) = required(inline)?;
        match ordinal {
            SUCCESS => {
                envelope.payload::<T>(decoder, T::UNCONSTRAINED, depth).map(MethodResult::Success)
            }
            FAILURE => {
                envelope.payload::<E>(decoder, E::UNCONSTRAINED, depth).map(MethodResult::Failure)
            }
            FRAMEWORK if IS_FLEXIBLE => {
                envelope.payload::<i32>(decoder, NoConstraint, depth).map(MethodResult::Framework)
            }
            ordinal => Err(inline.breaks(Rule::UnknownUnionMember { ordinal })),
        }
    }

    fn print<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        _: NoConstraint,
        depth: Depth,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let (ordinal, envelope) = required(inline).map_err(|_| fmt::Error)?;
        let name = match ordinal {
            SUCCESS => "Success",
            FAILURE => "Failure",
            _ => "Framework",
        };
        let payload = DebugOnce::new(|f| match ordinal {
            SUCCESS => envelope.print::<T>(decoder, T::UNCONSTRAINED, depth, f),
            FAILURE => envelope.print::<E>(decoder, E::UNCONSTRAINED, depth, f),
            _ => envelope.print::<i32>(decoder, NoConstraint, depth, f),
        });
        f.debug_tuple(name).field(&payload).finish()
    }

    fn decode_items<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: NoConstraint,
        depth: Depth,
    ) -> Result<Items<'a, Self>> {
        Items::decode(inline, decoder, constraint, depth)
    }
}

#[inline]
fn required(inline: Inline<'_>) -> Result<(u64, Envelope<'_>)> {
    decode_union(inline)?.ok_or_else(|| inline.breaks(Rule::RequiredIsAbsent))
}

impl<H, T: FromView<H>, E: FromView<H>, const IS_FLEXIBLE: bool> FromView<H>
    for MethodResult<T, E, IS_FLEXIBLE>
{
    fn from_view(view: Self::View<'_>, handles: &mut Handles<H>) -> Self {
        match view {
            MethodResult::Success(value) => MethodResult::Success(T::from_view(value, handles)),
            MethodResult::Failure(error) => MethodResult::Failure(E::from_view(error, handles)),
            MethodResult::Framework(status) => MethodResult::Framework(status),
        }
    }

    fn from_items(items: Self::Slice<'_>, handles: &mut Handles<H>) -> impl Iterator<Item = Self> {
        items.into_values(handles)
    }

    #[inline]
    fn read<'a>(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        _: NoConstraint,
        depth: Depth,
    ) -> Result<Self> {
        let (ordinal, envelope) = required(inline)?;
        let value = match ordinal {
            SUCCESS => {
                let (object, depth, before) = envelope.open(T::SIZE, decoder, depth)?;
                let value = T::read(object, decoder, arriving, T::UNCONSTRAINED, depth)?;
                envelope.close(T::SIZE, before, decoder)?;
                MethodResult::Success(value)
            }
            FAILURE => {
                let (object, depth, before) = envelope.open(E::SIZE, decoder, depth)?;
                let error = E::read(object, decoder, arriving, E::UNCONSTRAINED, depth)?;
                envelope.close(E::SIZE, before, decoder)?;
                MethodResult::Failure(error)
            }
            FRAMEWORK if IS_FLEXIBLE => {
                MethodResult::Framework(envelope.payload::<i32>(decoder, NoConstraint, depth)?)
            }
            ordinal => return Err(inline.breaks(Rule::UnknownUnionMember { ordinal })),
        };
        Ok(value)
    }
}
