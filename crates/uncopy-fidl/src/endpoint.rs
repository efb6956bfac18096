//! Channel ends with a protocol.

use std::fmt;
use std::marker::PhantomData;

use crate::decode::{Decode, DecodeOptional, Decoder, FromView, Inline};
use crate::encode::{Encode, EncodeOptional, Optional, Output};
use crate::error::Result;
use crate::handle::{
    Arriving, HandleIndex, HandleRights, Handles, Leaving, ObjectType, OwnedHandle, TakeHandles,
};
use crate::layout::{HandleConstraint, Layout};
use crate::lazy::Items;
use crate::limits::Depth;
use crate::validity::Validity;

macro_rules! endpoints {
    ($($(#[$doc:meta])* $end:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// On the wire it is a handle to a channel with a channel's default rights
        /// ([`HandleRights::CHANNEL_DEFAULT`]), unless its field says `#[fidl(rights = …)]`. A
        /// handle with fewer rights is refused; further rights are removed.
        pub struct $end<P, H> {
            handle: OwnedHandle<H>,
            of: PhantomData<fn() -> P>,
        }

        impl<P, H> $end<P, H> {
            /// Makes an end for protocol `P` from the handle of a channel.
            pub fn new(handle: H) -> $end<P, H> {
                $end { handle: OwnedHandle::from(handle), of: PhantomData }
            }

            /// Returns the handle, unless it was sent with a message.
            pub fn into_inner(self) -> Option<H> {
                self.handle.into_inner()
            }
        }

        impl<P, H> From<H> for $end<P, H> {
            fn from(handle: H) -> $end<P, H> {
                $end::new(handle)
            }
        }

        impl<P, H: fmt::Debug> fmt::Debug for $end<P, H> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($end)).field(&self.handle).finish()
            }
        }

        impl<P, H: PartialEq> PartialEq for $end<P, H> {
            fn eq(&self, other: &Self) -> bool {
                self.handle == other.handle
            }
        }

        impl<P, H> Layout for $end<P, H> {
            const SIZE: usize = OwnedHandle::<H>::SIZE;
            const ALIGN: usize = OwnedHandle::<H>::ALIGN;
            const IS_FLAT: bool = false;
            const HAS_HANDLES: bool = true;
            const VALIDITY: Validity = Validity::Checked;
            type Constraint = HandleConstraint;
            const UNCONSTRAINED: HandleConstraint = HandleConstraint {
                object_type: ObjectType::CHANNEL,
                rights: HandleRights::CHANNEL_DEFAULT,
            };
        }

        impl<P, H> Encode for $end<P, H> {
            fn encode_inline(&self, inline: &mut [u8], wanted: HandleConstraint) -> Result<()> {
                self.handle.encode_inline(inline, wanted)
            }

            fn encode_rest<'v, O: Output<'v>>(
                &'v self,
                out: &mut O,
                at: usize,
                wanted: HandleConstraint,
                depth: Depth,
            ) -> Result<()> {
                self.handle.encode_rest(out, at, wanted, depth)
            }
        }

        impl<P, H> TakeHandles<H> for $end<P, H> {
            fn take_handles(
                &mut self,
                leaving: &mut Leaving<'_, H>,
                wanted: HandleConstraint,
            ) -> Result<()> {
                self.handle.take_handles(leaving, wanted)
            }
        }

        impl<P, H> Optional for $end<P, H> {
            const OPTIONAL_SIZE: usize = Self::SIZE;
            const OPTIONAL_ALIGN: usize = Self::ALIGN;
        }

        impl<P, H> EncodeOptional for $end<P, H> {}

        impl<P, H> Decode for $end<P, H> {
            type View<'a> = HandleIndex;
            type Slice<'a> = Items<'a, Self>;

            fn decode<'a>(
                inline: Inline<'a>,
                decoder: &mut Decoder<'a, '_>,
                wanted: HandleConstraint,
                depth: Depth,
            ) -> Result<HandleIndex> {
                OwnedHandle::<H>::decode(inline, decoder, wanted, depth)
            }

            fn decode_items<'a>(
                inline: Inline<'a>,
                decoder: &mut Decoder<'a, '_>,
                wanted: HandleConstraint,
                depth: Depth,
            ) -> Result<Items<'a, Self>> {
                Items::decode(inline, decoder, wanted, depth)
            }
        }

        impl<P, H> DecodeOptional for $end<P, H> {
            fn decode_optional<'a>(
                inline: Inline<'a>,
                decoder: &mut Decoder<'a, '_>,
                wanted: HandleConstraint,
                depth: Depth,
            ) -> Result<Option<HandleIndex>> {
                OwnedHandle::<H>::decode_optional(inline, decoder, wanted, depth)
            }

            fn present<'a>(
                inline: Inline<'a>,
                decoder: &mut Decoder<'a, '_>,
                depth: Depth,
            ) -> Result<Option<(Inline<'a>, Depth)>> {
                OwnedHandle::<H>::present(inline, decoder, depth)
            }
        }

        impl<P, H> FromView<H> for $end<P, H> {
            fn from_view(view: HandleIndex, handles: &mut Handles<H>) -> Self {
                let handle = OwnedHandle::from_view(view, handles);
                $end { handle, of: PhantomData }
            }

            fn from_items(
                items: Self::Slice<'_>,
                handles: &mut Handles<H>,
            ) -> impl Iterator<Item = Self> {
                items.into_values(handles)
            }

            fn read<'a>(
                inline: Inline<'a>,
                decoder: &mut Decoder<'a, '_>,
                arriving: &mut Arriving<'_, H>,
                wanted: HandleConstraint,
                depth: Depth,
            ) -> Result<Self> {
                let handle = OwnedHandle::read(inline, decoder, arriving, wanted, depth)?;
                Ok($end { handle, of: PhantomData })
            }
        }
    )*};
}

endpoints! {
    /// The client end of a channel: calls the methods of the protocol `P`.
    ClientEnd;
    /// The server end of a channel: serves the protocol `P`.
    ServerEnd;
}
