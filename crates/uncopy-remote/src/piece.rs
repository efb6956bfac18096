//! Defines a part of a file that is asked for.

use uncopy_wire::{Call, Handle};

/// Part of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) file: Handle,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

impl Piece {
    pub(crate) fn call(self) -> Call {
        Call::Read { file: self.file, offset: self.offset, bytes: self.bytes }
    }
}
