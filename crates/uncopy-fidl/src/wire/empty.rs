//! Structs without fields: one zero byte.

use crate::Fidl;

/// The empty struct: a payload without contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Fidl)]
pub struct Empty {}
