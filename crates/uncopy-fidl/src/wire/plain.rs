//! Structs that are identical in memory and on the wire.

use std::fmt;
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::decode::Inline;

/// A plain struct in a message: copied as a whole, or borrowed if its alignment allows.
pub struct Plain<'a, T> {
    bytes: &'a [u8],
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Plain<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Plain<'_, T> {}

impl<'a, T: FromBytes + KnownLayout + Immutable> Plain<'a, T> {
    /// Makes a view of `inline`, of which all bytes are valid.
    #[inline]
    #[must_use]
    pub fn new(inline: Inline<'a>) -> Plain<'a, T> {
        Plain { bytes: inline.bytes(), of: PhantomData }
    }

    /// Returns a copy.
    #[inline]
    #[must_use]
    pub fn get(self) -> T {
        T::read_from_bytes(self.bytes).expect("an inline part has the size of its type")
    }

    /// Borrows the struct in the message. `None` if it is not aligned as Rust requires: in a buffer
    /// that begins at a multiple of 8, everything is aligned.
    #[inline]
    #[must_use]
    pub fn as_ref(self) -> Option<&'a T> {
        T::ref_from_bytes(self.bytes).ok()
    }
}

impl<T> fmt::Debug for Plain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plain").field(&self.bytes).finish()
    }
}
