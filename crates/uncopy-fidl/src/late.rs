//! What was checked with everything else, and is decoded when it is asked for.

use std::fmt;
use std::marker::PhantomData;

use crate::decode::{Cursor, Decode, DecodeOptional, Decoder, Inline, revisit};
use crate::error::Result;
use crate::layout::Layout;
use crate::limits::Depth;
use crate::validity::are_values;

/// Items of a vector or array that cannot be told apart without looking: each is decoded when it
/// is asked for.
pub struct Items<'a, T: Layout> {
    inline: Inline<'a>,
    /// Of the first item's objects out of line.
    cursor: Cursor<'a>,
    constraint: T::Constraint,
    depth: Depth,
    of: PhantomData<fn() -> T>,
}

impl<T: Layout> Clone for Items<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Layout> Copy for Items<'_, T> {}

impl<'a, T: Decode> Items<'a, T> {
    /// Checks all of `inline`.
    ///
    /// # Errors
    /// As [`Decode::decode_items`].
    pub fn decode(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Items<'a, T>> {
        let items = Items { inline, cursor: decoder.cursor(), constraint, depth, of: PhantomData };
        if are_values::<T>(inline.bytes) {
            return Ok(items);
        }
        for index in 0..items.len() {
            let part = inline.part(index * T::SIZE, T::SIZE);
            T::decode(part, decoder, constraint, depth).map_err(|e| e.in_item(index))?;
        }
        Ok(items)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inline.bytes.len() / T::SIZE
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inline.bytes.is_empty()
    }

    /// All of them, one after the other.
    #[must_use]
    pub fn iter(&self) -> ItemsIter<'a, T> {
        ItemsIter { rest: *self }
    }

    /// Item `index`. Costs nothing for types that lie flat, else looking at all before it.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T::View<'a>> {
        if !T::IS_FLAT {
            return self.iter().nth(index);
        }
        if index >= self.len() {
            return None;
        }
        let part = self.inline.part(index * T::SIZE, T::SIZE);
        let mut cursor = self.cursor;
        revisit::<T>(part, &mut cursor, self.constraint, self.depth)
    }
}

impl<'a, T: Decode> IntoIterator for Items<'a, T> {
    type Item = T::View<'a>;
    type IntoIter = ItemsIter<'a, T>;

    fn into_iter(self) -> ItemsIter<'a, T> {
        ItemsIter { rest: self }
    }
}

impl<T: Decode> fmt::Debug for Items<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Goes through [`Items`].
pub struct ItemsIter<'a, T: Layout> {
    rest: Items<'a, T>,
}

impl<'a, T: Decode> Iterator for ItemsIter<'a, T> {
    type Item = T::View<'a>;

    fn next(&mut self) -> Option<T::View<'a>> {
        let rest = &mut self.rest;
        if rest.inline.bytes.is_empty() {
            return None;
        }
        let (first, others) = rest.inline.bytes.split_at(T::SIZE);
        let first = Inline { bytes: first, offset: rest.inline.offset };
        rest.inline = Inline { bytes: others, offset: rest.inline.offset + T::SIZE };
        revisit::<T>(first, &mut rest.cursor, rest.constraint, rest.depth)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl<T: Decode> ExactSizeIterator for ItemsIter<'_, T> {}

/// A value that may contain others of its type, decoded when it is asked for.
pub struct Boxed<'a, T: Layout> {
    inline: Inline<'a>,
    cursor: Cursor<'a>,
    constraint: T::Constraint,
    depth: Depth,
    of: PhantomData<fn() -> T>,
}

impl<T: Layout> Clone for Boxed<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Layout> Copy for Boxed<'_, T> {}

impl<'a, T: Decode> Boxed<'a, T> {
    /// Checks what is in `inline`.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    pub fn decode(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Boxed<'a, T>> {
        let cursor = decoder.cursor();
        T::decode(inline, decoder, constraint, depth)?;
        Ok(Boxed { inline, cursor, constraint, depth, of: PhantomData })
    }

    /// Checks what is in `inline`, or that it is absent.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    pub fn decode_optional(
        inline: Inline<'a>,
        decoder: &mut Decoder<'a, '_>,
        constraint: T::Constraint,
        depth: Depth,
    ) -> Result<Option<Boxed<'a, T>>>
    where
        T: DecodeOptional,
    {
        let cursor = decoder.cursor();
        let found = T::decode_optional(inline, decoder, constraint, depth)?;
        Ok(found.map(|_| Boxed { inline, cursor, constraint, depth, of: PhantomData }))
    }

    /// The view.
    #[must_use]
    pub fn get(self) -> T::View<'a> {
        let Boxed { inline, mut cursor, constraint, depth, .. } = self;
        revisit::<T>(inline, &mut cursor, constraint, depth)
            .expect("it was checked, and its bytes are borrowed since")
    }
}

impl<T: Decode> fmt::Debug for Boxed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
