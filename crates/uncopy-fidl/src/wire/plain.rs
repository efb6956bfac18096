//! Structs that are the same in memory as on the wire.

use std::fmt;
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::decode::Inline;

/// A plain struct in a message: read as a whole, or seen in place where its alignment allows.
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
    /// What is in `inline`, of which any bytes are valid.
    #[inline]
    #[must_use]
    pub fn new(inline: Inline<'a>) -> Plain<'a, T> {
        Plain { bytes: inline.bytes(), of: PhantomData }
    }

    /// A copy.
    #[inline]
    #[must_use]
    pub fn get(self) -> T {
        T::read_from_bytes(self.bytes).expect("an inline part has the size of its type")
    }

    /// The struct in the message itself. None where it does not lie as Rust wants it to: a buffer
    /// that begins at a multiple of 8 has everything in its place.
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
