//! Memory.

use std::os::fd::AsFd;

use uncopy::channel::{Rights, Status, Vmo};

use super::handle::give;
use crate::abi::zx_handle_t;
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

/// `ZX_VMO_RESIZABLE`.
const RESIZABLE: u32 = 2;

exported! {
    /// Makes memory.
    fn zx_vmo_create(size: u64, options: u32, out: Out<zx_handle_t>) {
        match options {
            0 => give(Vmo::new(size)?, out),
            RESIZABLE => give(Vmo::resizable(size)?, out),
            _ => Err(Status::InvalidArgs),
        }
    }

    /// Reads memory.
    fn zx_vmo_read(handle: zx_handle_t, buffer: Out<u8>, offset: u64, buffer_size: usize) {
        let lease = table::lease(handle)?;
        let vmo = lease.object::<Vmo>(Rights::READ)?;
        check_range(vmo, offset, buffer_size)?;
        buffer.read_from_file(vmo.as_fd(), offset, buffer_size)
    }

    /// Writes memory.
    fn zx_vmo_write(handle: zx_handle_t, buffer: In<u8>, offset: u64, buffer_size: usize) {
        let lease = table::lease(handle)?;
        let vmo = lease.object::<Vmo>(Rights::WRITE)?;
        check_range(vmo, offset, buffer_size)?;
        buffer.write_to_file(vmo.as_fd(), offset, buffer_size)
    }

    /// Changes how large it is.
    fn zx_vmo_set_size(handle: zx_handle_t, size: u64) {
        let lease = table::lease(handle)?;
        lease.object::<Vmo>(Rights::WRITE | Rights::RESIZE)?.set_size(size)
    }

    /// Says how large it is.
    fn zx_vmo_get_size(handle: zx_handle_t, size: Out<u64>) {
        let lease = table::lease(handle)?;
        Ok(size.write(lease.object::<Vmo>(Rights::empty())?.size())?)
    }
}

fn check_range(vmo: &Vmo, offset: u64, length: usize) -> Result<(), Status> {
    let end = offset.checked_add(length as u64);
    if end.is_some_and(|end| end <= vmo.size()) { Ok(()) } else { Err(Status::OutOfRange) }
}
