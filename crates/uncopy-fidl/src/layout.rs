//! How types lie in a message, and what limits a field can set on its type.

use crate::error::Rule;
use crate::handle::{HandleRights, ObjectType};
use crate::validity::{MaskedField, Validity};

/// How a type lies in a message, whatever it is encoded from or decoded into.
///
/// Made by `#[derive(Fidl)]`; implemented here for numbers, `bool`, `String`, `Vec`, arrays,
/// `Option`, `Box`, slices, `str` and handles.
///
/// Not to be written by hand, as all traits that the derive writes ([`Encode`](crate::Encode),
/// [`Decode`](crate::Decode), [`FromView`](crate::FromView), [`TakeHandles`](crate::TakeHandles)):
/// their members, and the hidden names in them, change without notice.
pub trait Layout {
    /// Bytes of the inline part.
    const SIZE: usize;
    /// What its offset is a multiple of: 1, 2, 4 or 8.
    const ALIGN: usize;
    /// It never has objects out of line, nor handles: the inline part is all.
    const IS_FLAT: bool;
    /// It may have handles: a resource type.
    const HAS_HANDLES: bool;
    /// What decoding has to check of the inline part.
    const VALIDITY: Validity;
    /// What a field can demand beyond the type: the most items, a handle's rights.
    type Constraint: Copy;
    /// Nothing is demanded.
    const UNCONSTRAINED: Self::Constraint;
}

/// Of types that a field can demand nothing more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoConstraint;

/// Of vectors and strings: how long they may be, and what is demanded of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<C> {
    /// Most items; of strings, most bytes.
    pub max: usize,
    /// Of each item.
    pub item: C,
}

impl<C: Copy> Limit<C> {
    /// At most `max` items or bytes.
    #[must_use]
    pub const fn with_max(self, max: usize) -> Limit<C> {
        Limit { max, item: self.item }
    }

    /// With `item` for each item.
    #[must_use]
    pub const fn with_item(self, item: C) -> Limit<C> {
        Limit { max: self.max, item }
    }
}

/// Of arrays: what is demanded of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EachItem<C> {
    /// Of each item.
    pub item: C,
}

impl<C: Copy> EachItem<C> {
    /// With `item` for each item.
    #[must_use]
    pub const fn with_item(self, item: C) -> EachItem<C> {
        EachItem { item }
    }
}

/// Of handles: the object's type and the rights that go along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleConstraint {
    /// [`ObjectType::ANY`] takes all.
    pub object_type: ObjectType,
    /// What the handle must have, and all that is left of its rights.
    /// [`HandleRights::SAME_RIGHTS`] takes them as they are.
    pub rights: HandleRights,
}

impl HandleConstraint {
    /// Any type, any rights.
    pub const ANY: HandleConstraint =
        HandleConstraint { object_type: ObjectType::ANY, rights: HandleRights::SAME_RIGHTS };

    /// To an object of this type only.
    #[must_use]
    pub const fn with_object_type(self, object_type: ObjectType) -> HandleConstraint {
        HandleConstraint { object_type, rights: self.rights }
    }

    /// With exactly these rights.
    #[must_use]
    pub const fn with_rights(self, rights: HandleRights) -> HandleConstraint {
        HandleConstraint { object_type: self.object_type, rights }
    }

    /// Checks a handle to `object_type` with `rights`. Gives the rights that it is to be narrowed
    /// to, or None if it stays as it is.
    ///
    /// # Errors
    /// [`Rule::WrongHandleType`], [`Rule::MissingRights`].
    pub fn narrowing(
        self,
        object_type: ObjectType,
        rights: HandleRights,
    ) -> Result<Option<HandleRights>, Rule> {
        let HandleConstraint { object_type: expected, rights: wanted } = self;
        if ![object_type, ObjectType::ANY].contains(&expected) && object_type != ObjectType::ANY {
            return Err(Rule::WrongHandleType { expected, found: object_type });
        }
        if wanted == HandleRights::SAME_RIGHTS
            || rights == HandleRights::SAME_RIGHTS
            || rights == wanted
        {
            return Ok(None);
        }
        if !rights.contains(wanted) {
            return Err(Rule::MissingRights { expected: wanted, found: rights });
        }
        Ok(Some(wanted))
    }
}

/// Where the fields of a struct lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StructLayout<const N: usize> {
    /// Of each field.
    pub offsets: [usize; N],
    /// Where the padding behind each field ends.
    pub ends: [usize; N],
    /// Of the whole, padding behind the last field included.
    pub size: usize,
    /// Of the whole.
    pub align: usize,
    /// What decoding has to check of the whole.
    pub validity: Validity,
}

impl<const N: usize> StructLayout<N> {
    /// Lays out fields of these sizes, alignments and validities, one behind the other. A struct
    /// without fields has one byte, which is 0.
    #[must_use]
    pub const fn new(fields: [(usize, usize, Validity); N]) -> StructLayout<N> {
        let (mut offsets, mut ends) = ([0; N], [0; N]);
        let mut masked = [MaskedField { offset: 0, size: 0, validity: Validity::Any }; N];
        let (mut end, mut align) = (0, 1);
        let mut index = 0;
        while index < N {
            let (size, field_align, validity) = fields[index];
            let offset = aligned(end, field_align);
            offsets[index] = offset;
            if index > 0 {
                ends[index - 1] = offset;
            }
            masked[index] = MaskedField { offset, size, validity };
            end = offset + size;
            if field_align > align {
                align = field_align;
            }
            index += 1;
        }
        let size = if N == 0 { 1 } else { aligned(end, align) };
        if N > 0 {
            ends[N - 1] = size;
        }
        let validity = Validity::of_fields(size, &masked);
        StructLayout { offsets, ends, size, align, validity }
    }
}

/// The next multiple of `align`, a power of two.
const fn aligned(offset: usize, align: usize) -> usize {
    (offset + align - 1) & !(align - 1)
}

/// All of `flags` are set.
#[must_use]
pub const fn all(flags: &[bool]) -> bool {
    let mut index = 0;
    while index < flags.len() {
        if !flags[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// The next multiple of 8, where every object begins.
#[inline]
#[must_use]
pub(crate) const fn padded(size: usize) -> usize {
    (size + 7) & !7
}

impl<T: Layout> Layout for &T {
    const SIZE: usize = T::SIZE;
    const ALIGN: usize = T::ALIGN;
    const IS_FLAT: bool = T::IS_FLAT;
    const HAS_HANDLES: bool = T::HAS_HANDLES;
    const VALIDITY: Validity = T::VALIDITY;
    type Constraint = T::Constraint;
    const UNCONSTRAINED: T::Constraint = T::UNCONSTRAINED;
}

/// A reference gives nothing away: where there are handles, encoding it fails.
impl<H, T: Layout> crate::TakeHandles<H> for &T {}

#[cfg(test)]
mod tests {
    use super::StructLayout;
    use crate::validity::Validity;

    fn layout<const N: usize>(fields: [(usize, usize); N]) -> StructLayout<N> {
        StructLayout::new(fields.map(|(size, align)| (size, align, Validity::Any)))
    }

    #[test]
    fn fields_are_aligned_and_the_whole_is_padded() {
        let small = layout([(4, 4), (1, 1)]);
        assert_eq!((small.offsets, small.ends), ([0, 4], [4, 8]));
        assert_eq!((small.size, small.align, small.validity.is_any()), (8, 4, false));
        let large = layout([(1, 1), (16, 8), (2, 2)]);
        assert_eq!((large.offsets, large.ends), ([0, 8, 24], [8, 24, 32]));
        let dense = layout([(1, 1), (1, 1), (1, 1)]);
        assert_eq!((dense.size, dense.align, dense.validity.is_any()), (3, 1, true));
    }

    #[test]
    fn a_struct_without_fields_has_a_byte() {
        let empty = layout([]);
        assert_eq!((empty.size, empty.align, empty.validity.is_any()), (1, 1, false));
    }
}
