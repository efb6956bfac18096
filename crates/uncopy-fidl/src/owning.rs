//! Support for derived code: makes the members of value types, for any type of handles.

use std::marker::PhantomData;

use crate::decode::{Decode, Decoder, FromView, Inline};
use crate::error::Result;
use crate::handle::{Arriving, Handles};
use crate::limits::Depth;

/// Makes a member of a value type: through [`FromView`] if the member has no handles. Other members
/// go through [`OwningHandles`], so that the compiler reports only one error, after type checking:
/// a value type has no handles.
pub struct Owning<T, H>(PhantomData<fn() -> (T, H)>);

impl<T, H> Owning<T, H> {
    /// The only value; it has no state.
    pub const NEW: Owning<T, H> = Owning(PhantomData);
}

#[allow(clippy::wrong_self_convention, reason = "the type is the value's, not this one")]
impl<T: FromView<H>, H> Owning<T, H> {
    /// As [`FromView::from_view`].
    #[inline(always)]
    pub fn from_view(self, view: T::View<'_>, handles: &mut Handles<H>) -> T {
        T::from_view(view, handles)
    }

    /// As [`FromView::read`].
    ///
    /// # Errors
    /// As for [`FromView::read`].
    #[inline(always)]
    pub fn read<'a>(
        self,
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        arriving: &mut Arriving<'_, H>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<T> {
        T::read(inline, decoder, arriving, constraint, depth)
    }
}

/// Fallback for [`Owning`]'s own functions, for a type that has handles without saying so. The
/// program does not compile then, so nothing ever calls it.
#[allow(clippy::wrong_self_convention, reason = "as in `Owning`")]
pub trait OwningHandles<T: Decode, H>: Sized {
    /// As [`FromView::from_view`].
    fn from_view(self, _: T::View<'_>, _: &mut Handles<H>) -> T {
        const { panic!("a value type has no handles") }
    }

    /// As [`FromView::read`].
    ///
    /// # Errors
    /// None.
    #[inline]
    fn read<'a>(
        self,
        _: Inline<'a>,
        _: &mut Decoder<'a, '_>,
        _: &mut Arriving<'_, H>,
        _: T::Constraint,
        _: Depth,
    ) -> Result<T> {
        const { panic!("a value type has no handles") }
    }
}

impl<T: Decode, H> OwningHandles<T, H> for Owning<T, H> {}
