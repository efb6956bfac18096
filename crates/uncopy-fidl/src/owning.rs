//! What derived code makes the members of value types with, whatever the handles are of those who
//! decode them.

use std::marker::PhantomData;

use crate::decode::{Decode, Decoder, FromView, Inline};
use crate::error::Result;
use crate::handle::{Arriving, Handles};
use crate::limits::Depth;

/// What makes a member of a value type: by [`FromView`], of any type of handles, where the member
/// has none. For others there is [`OwningHandles`], so that the compiler's only error is that a
/// value type has no handles, which is found when all types are known.
pub struct Owning<T, H>(PhantomData<fn() -> (T, H)>);

impl<T, H> Owning<T, H> {
    /// It has no state.
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
    /// As there.
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

/// Stands in for [`Owning`]'s own functions while a type with handles that does not say so is
/// refused. Nothing that compiles calls them.
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
