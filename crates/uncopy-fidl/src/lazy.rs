//! Views that are checked with the whole message, and decoded on access.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::decode::{Cursor, Decode, DecodeOptional, Decoder, FromView, Inline, revisit};
use crate::error::Result;
use crate::handle::{Arriving, Handles};
use crate::layout::Layout;
use crate::limits::Depth;
use crate::validity::are_values;

/// Items of a vector or array whose positions are unknown until they are decoded. Each is decoded
/// on access.
pub struct Items<'a, T: Layout> {
    inline: Inline<'a>,
    /// Position of the first item's out-of-line objects.
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
    /// Checks all items in `inline`.
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

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inline.bytes.len() / T::SIZE
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inline.bytes.is_empty()
    }

    /// Returns an iterator over all items.
    #[must_use]
    pub fn iter(&self) -> ItemsIter<'a, T> {
        ItemsIter { rest: *self }
    }

    /// Decodes item `index`. Constant time for flat types; otherwise all items before it are
    /// decoded too.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T::View<'a>> {
        if !T::IS_FLAT {
            return self.iter().nth(index);
        }
        if index >= self.len() {
            return None;
        }
        let Items { mut cursor, constraint, depth, .. } = *self;
        revisit(&mut cursor, |decoder| T::decode(self.part(index), decoder, constraint, depth)).ok()
    }

    /// Makes owned values of all items, in one walk.
    #[doc(hidden)]
    pub fn into_values<H>(self, handles: &mut Handles<H>) -> impl Iterator<Item = T>
    where
        T: FromView<H>,
    {
        let (mut rest, mut arriving) = (self.iter(), Arriving::checked(handles));
        (0..self.len()).map(move |_| {
            if T::IS_FLAT {
                return T::from_view(rest.next().expect(CHECKED), arriving.handles());
            }
            let Items { constraint, depth, .. } = rest.rest;
            let first = rest.first().expect(CHECKED);
            let cursor = &mut rest.rest.cursor;
            revisit(cursor, |decoder| T::read(first, decoder, &mut arriving, constraint, depth))
                .expect(CHECKED)
        })
    }

    /// Returns the inline part of item `index`.
    fn part(&self, index: usize) -> Inline<'a> {
        self.inline.part(index * T::SIZE, T::SIZE)
    }
}

/// A `Debug` value that runs a closure once: a field or an item for a formatter's builders.
pub struct DebugOnce<F>(Cell<Option<F>>);

impl<F: FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result> DebugOnce<F> {
    /// Makes a value that prints with `print`.
    pub fn new(print: F) -> DebugOnce<F> {
        DebugOnce(Cell::new(Some(print)))
    }
}

impl<F: FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Debug for DebugOnce<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.take().ok_or(fmt::Error)?(f)
    }
}

/// Reason why decoding again cannot fail.
const CHECKED: &str = "the bytes were checked and have been borrowed since";

/// Prints the items in `inline`, which are already checked, in one walk.
pub(crate) fn print_items<'a, T: Decode>(
    inline: Inline<'a>,
    decoder: &mut Decoder<'a, '_>,
    constraint: T::Constraint,
    depth: Depth,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut list = f.debug_list();
    for index in 0..inline.bytes.len() / T::SIZE {
        let part = inline.part(index * T::SIZE, T::SIZE);
        list.entry(&DebugOnce::new(|f| T::print(part, decoder, constraint, depth, f)));
    }
    list.finish()
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
        let Items { inline, mut cursor, constraint, depth, .. } = *self;
        revisit(&mut cursor, |decoder| print_items::<T>(inline, decoder, constraint, depth, f))
    }
}

/// Iterator over [`Items`].
pub struct ItemsIter<'a, T: Layout> {
    rest: Items<'a, T>,
}

impl<'a, T: Decode> ItemsIter<'a, T> {
    /// Takes the inline part of the next item.
    #[inline]
    fn first(&mut self) -> Option<Inline<'a>> {
        let inline = &mut self.rest.inline;
        if inline.bytes.is_empty() {
            return None;
        }
        let (first, others) = inline.bytes.split_at(T::SIZE);
        let first = Inline { bytes: first, offset: inline.offset };
        *inline = Inline { bytes: others, offset: inline.offset + T::SIZE };
        Some(first)
    }
}

impl<'a, T: Decode> Iterator for ItemsIter<'a, T> {
    type Item = T::View<'a>;

    fn next(&mut self) -> Option<T::View<'a>> {
        let first = self.first()?;
        let Items { cursor, constraint, depth, .. } = &mut self.rest;
        revisit(cursor, |decoder| T::decode(first, decoder, *constraint, *depth)).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl<T: Decode> ExactSizeIterator for ItemsIter<'_, T> {}

/// A value of a possibly recursive type, decoded on access.
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
    /// Checks the value in `inline`.
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

    /// Checks the value in `inline`, or its absence.
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

    /// Decodes the view.
    #[must_use]
    pub fn get(self) -> T::View<'a> {
        let Boxed { inline, mut cursor, constraint, depth, .. } = self;
        revisit(&mut cursor, |decoder| T::decode(inline, decoder, constraint, depth))
            .expect(CHECKED)
    }

    /// Makes an owned value, in one walk.
    pub(crate) fn into_value<H>(self, handles: &mut Handles<H>) -> T
    where
        T: FromView<H>,
    {
        let Boxed { inline, mut cursor, constraint, depth, .. } = self;
        let mut arriving = Arriving::checked(handles);
        revisit(&mut cursor, |decoder| T::read(inline, decoder, &mut arriving, constraint, depth))
            .expect(CHECKED)
    }
}

impl<T: Decode> fmt::Debug for Boxed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Boxed { inline, mut cursor, constraint, depth, .. } = *self;
        revisit(&mut cursor, |decoder| T::print(inline, decoder, constraint, depth, f))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write};

    use crate::decode::work;
    use crate::{
        Encode, Fidl, FromView, Handles, MethodResult, NoHandle, decode, decode_owned, encode,
    };

    #[derive(Debug, PartialEq, Fidl)]
    struct Tree {
        value: u16,
        left: Option<Box<Tree>>,
        right: Option<Box<Tree>>,
    }

    #[derive(Debug, PartialEq, Fidl)]
    struct Folder {
        name: String,
        folders: Vec<Folder>,
        pair: [Option<Box<Folder>>; 2],
        sizes: Option<Vec<[u16; 2]>>,
    }

    #[derive(Debug, PartialEq, Fidl)]
    #[fidl(table)]
    struct Settings {
        #[fidl(ordinal = 2)]
        inner: Option<Box<Settings>>,
        #[fidl(ordinal = 3)]
        many: Option<Vec<Settings>>,
    }

    #[derive(Debug, PartialEq, Fidl)]
    enum Nest {
        #[fidl(ordinal = 1)]
        Leaf(String),
        #[fidl(ordinal = 2)]
        Inner(Box<Nest>),
        #[fidl(ordinal = 3)]
        Shell(Shell),
    }

    #[allow(clippy::vec_box, reason = "types may have such fields")]
    #[derive(Debug, PartialEq, Fidl)]
    struct Shell {
        nest: Option<Box<Nest>>,
        boxes: Vec<Box<Shell>>,
    }

    fn tree(levels: u32) -> Option<Box<Tree>> {
        let side = || tree(levels - 1);
        (levels > 0).then(|| Box::new(Tree { value: 7, left: side(), right: side() }))
    }

    fn folder(levels: usize, wide: usize) -> Folder {
        let inner = |count| (0..count).map(|_| folder(levels - 1, wide)).collect();
        Folder {
            name: "a name".repeat(levels),
            folders: if levels == 0 { Vec::new() } else { inner(wide) },
            pair: [None, (levels > 0).then(|| Box::new(folder(levels - 1, 0)))],
            sizes: levels.is_multiple_of(2).then(|| vec![[1, 2]; levels]),
        }
    }

    fn settings(levels: usize) -> Settings {
        (0..levels).fold(Settings { inner: None, many: None }, |inner, level| match level % 2 {
            0 => Settings { inner: Some(Box::new(inner)), many: None },
            _ => Settings { inner: None, many: Some(vec![inner]) },
        })
    }

    fn nest(levels: usize) -> Nest {
        (0..levels).fold(Nest::Leaf("leaf".to_owned()), |inner, level| match level % 2 {
            0 => Nest::Inner(Box::new(inner)),
            _ => {
                let boxes = vec![Box::new(Shell { nest: None, boxes: Vec::new() })];
                Nest::Shell(Shell { nest: Some(Box::new(inner)), boxes })
            }
        })
    }

    /// Checks that every conversion of a message visits each object once.
    fn check<T: Encode + FromView<NoHandle> + PartialEq + Debug>(value: &T) {
        let bytes = encode(value).unwrap();
        let (checked, view) = work::during(|| decode::<T>(&bytes).unwrap());
        assert_eq!(checked, bytes.len());
        let (read, owned) = work::during(|| decode_owned::<T, NoHandle>(&bytes, vec![]).unwrap());
        assert_eq!(read, bytes.len());
        assert!(owned == *value);
        let (copied, owned) = work::during(|| T::from_view(view, &mut Handles::default()));
        assert!(copied <= bytes.len(), "{copied} of {} are visited for a value", bytes.len());
        assert!(owned == *value);
        let mut text = String::new();
        let (printed, written) = work::during(|| write!(text, "{view:?} {view:#?}"));
        written.unwrap();
        assert!(printed <= 2 * bytes.len(), "{printed} of {} are visited for Debug", bytes.len());
    }

    #[test]
    fn nested_objects_are_visited_once() {
        check(&*tree(11).unwrap());
        let chain =
            (0..30).fold(None, |left, value| Some(Box::new(Tree { value, left, right: tree(1) })));
        check(&*chain.unwrap());
        check(&folder(5, 3));
        check(&folder(10, 1));
        check(&settings(12));
        check(&[settings(12), settings(3)]);
        check(&nest(20));
        check(&[nest(4), nest(9), nest(0)]);
        check(&vec![vec![folder(2, 3)], Vec::new(), vec![folder(3, 1), folder(0, 0)]]);
        check(&Some(vec![Some(vec![Some(vec![Some("deep".to_owned()), None])])]));
        check(&MethodResult::<Folder, u32, true>::Success(folder(9, 1)));
        check(&MethodResult::<u32, Nest, false>::Failure(nest(9)));
    }
}
