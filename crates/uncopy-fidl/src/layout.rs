//! Layout of types in a message, and the limits that a field can set on its type.

use crate::error::Rule;
use crate::handle::{HandleRights, ObjectType};
use crate::validity::{MaskedField, Validity};

/// Layout of a type in a message, independent of the Rust type that it is encoded from or decoded
/// into.
///
/// Implemented by `#[derive(Fidl)]`, and here for numbers, `bool`, `String`, `Vec`, arrays,
/// `Option`, `Box`, slices, `str` and handles.
///
/// Do not implement it by hand. This holds for all traits that the derive implements
/// ([`Encode`](crate::Encode), [`Decode`](crate::Decode), [`FromView`](crate::FromView),
/// [`TakeHandles`](crate::TakeHandles)): their members, and the hidden names in them, change
/// without notice.
pub trait Layout {
    /// Size of the inline part in bytes.
    const SIZE: usize;
    /// Alignment of the inline part: 1, 2, 4 or 8.
    const ALIGN: usize;
    /// Whether the inline part is everything: no out-of-line objects, no handles.
    const IS_FLAT: bool;
    /// Whether it may have handles, as a resource type.
    const HAS_HANDLES: bool;
    /// Checks that decoding has to make of the inline part.
    const VALIDITY: Validity;
    /// Constraint that a field can add to the type: a maximum number of items, the rights of a
    /// handle.
    type Constraint: Copy;
    /// The absence of a constraint.
    const UNCONSTRAINED: Self::Constraint;
}

/// The constraint of types that cannot have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoConstraint;

/// The constraint of vectors and strings: maximum length, and the constraint of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit<C> {
    /// Maximum number of items; in a string, of bytes.
    pub max: usize,
    /// Constraint of each item.
    pub item: C,
}

impl<C: Copy> Limit<C> {
    /// Sets the maximum number of items or bytes.
    #[must_use]
    pub const fn with_max(self, max: usize) -> Limit<C> {
        Limit { max, item: self.item }
    }

    /// Sets the constraint of each item.
    #[must_use]
    pub const fn with_item(self, item: C) -> Limit<C> {
        Limit { max: self.max, item }
    }
}

/// The constraint of arrays: the constraint of each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EachItem<C> {
    /// Constraint of each item.
    pub item: C,
}

impl<C: Copy> EachItem<C> {
    /// Sets the constraint of each item.
    #[must_use]
    pub const fn with_item(self, item: C) -> EachItem<C> {
        EachItem { item }
    }
}

/// The constraint of handles: object type, and the rights to transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleConstraint {
    /// Object type; [`ObjectType::ANY`] accepts all types.
    pub object_type: ObjectType,
    /// Rights that the handle must have, and to which it is reduced. [`HandleRights::SAME_RIGHTS`]
    /// leaves them unchanged.
    pub rights: HandleRights,
}

impl HandleConstraint {
    /// Accepts any type and any rights.
    pub const ANY: HandleConstraint =
        HandleConstraint { object_type: ObjectType::ANY, rights: HandleRights::SAME_RIGHTS };

    /// Accepts only this object type.
    #[must_use]
    pub const fn with_object_type(self, object_type: ObjectType) -> HandleConstraint {
        HandleConstraint { object_type, rights: self.rights }
    }

    /// Requires exactly these rights.
    #[must_use]
    pub const fn with_rights(self, rights: HandleRights) -> HandleConstraint {
        HandleConstraint { object_type: self.object_type, rights }
    }

    /// Checks a handle to `object_type` with `rights`. Returns the rights to which it must be
    /// reduced, or `None` if it stays as it is.
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

/// Layout of one field, for [`StructLayout::new`].
#[derive(Debug, Clone, Copy)]
pub struct FieldLayout {
    /// Size of the inline part in bytes.
    pub size: usize,
    /// Alignment of the inline part.
    pub align: usize,
    /// Checks that decoding has to make of the inline part.
    pub validity: Validity,
}

/// Positions of the fields of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StructLayout<const N: usize> {
    /// Offset of each field.
    pub offsets: [usize; N],
    /// End of the padding after each field.
    pub ends: [usize; N],
    /// Size of the struct, trailing padding included.
    pub size: usize,
    /// Alignment of the struct.
    pub align: usize,
    /// Checks that decoding has to make of the struct.
    pub validity: Validity,
}

impl<const N: usize> StructLayout<N> {
    /// Lays out the fields one after the other. A struct without fields has one byte, which is 0.
    #[must_use]
    pub const fn new(fields: [FieldLayout; N]) -> StructLayout<N> {
        let (mut offsets, mut ends) = ([0; N], [0; N]);
        let mut masked = [MaskedField { offset: 0, size: 0, validity: Validity::Any }; N];
        let (mut end, mut align) = (0, 1);
        let mut index = 0;
        while index < N {
            let FieldLayout { size, align: field_align, validity } = fields[index];
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

/// Rounds `offset` up to a multiple of `align`, a power of two.
const fn aligned(offset: usize, align: usize) -> usize {
    (offset + align - 1) & !(align - 1)
}

/// Whether all `flags` are set.
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

/// Rounds up to a multiple of 8, the alignment of every object.
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

/// A reference cannot give its handles away: encoding a value with handles through it fails.
impl<H, T: Layout> crate::TakeHandles<H> for &T {}

#[cfg(test)]
mod tests {
    use super::{FieldLayout, StructLayout};
    use crate::validity::Validity;

    fn layout<const N: usize>(fields: [(usize, usize); N]) -> StructLayout<N> {
        let field = |(size, align)| FieldLayout { size, align, validity: Validity::Any };
        StructLayout::new(fields.map(field))
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
