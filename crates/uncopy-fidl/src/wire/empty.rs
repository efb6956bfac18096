//! Structs without fields: a byte that is zero.

use crate::Fidl;

/// Nothing: the payload of a member, or of an answer, that says enough by being there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Fidl)]
pub struct Empty {}
