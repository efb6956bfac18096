//! Fifos.

use uncopy_channel::{Fifo, Rights, Status};

use super::handle::give_both;
use crate::abi::zx_handle_t;
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

/// Maximum capacity of a fifo (`ZX_FIFO_MAX_SIZE_BYTES`).
const MAX_BYTES: usize = 4096;

exported! {
    /// Makes a fifo.
    fn zx_fifo_create(
        elem_count: usize,
        elem_size: usize,
        options: u32,
        out0: Out<zx_handle_t>,
        out1: Out<zx_handle_t>,
    ) {
        if options != 0 {
            return Err(Status::OutOfRange);
        }
        give_both(Fifo::pair(elem_count, elem_size)?.into(), out0, out1)
    }

    /// Writes elements.
    fn zx_fifo_write(
        handle: zx_handle_t,
        elem_size: usize,
        data: In<u8>,
        count: usize,
        actual_count: Out<usize>,
    ) {
        let lease = table::lease(handle)?;
        let fifo = lease.object::<Fifo>(Rights::WRITE)?;
        let elements = data.read_some(0, span(fifo, elem_size, count)?)?;
        let written = fifo.write(&elements)?;
        Ok(actual_count.write_if_wanted(written)?)
    }

    /// Reads elements.
    fn zx_fifo_read(
        handle: zx_handle_t,
        elem_size: usize,
        data: Out<u8>,
        count: usize,
        actual_count: Out<usize>,
    ) {
        let lease = table::lease(handle)?;
        let fifo = lease.object::<Fifo>(Rights::READ)?;
        let mut elements = vec![0; span(fifo, elem_size, count)?];
        let read = fifo.read(&mut elements)?;
        data.write_all(&elements[..read * elem_size])?;
        Ok(actual_count.write_if_wanted(read)?)
    }
}

/// Returns the size of `count` elements, at most the maximum of a fifo.
fn span(fifo: &Fifo, element_bytes: usize, count: usize) -> Result<usize, Status> {
    if element_bytes != fifo.element_bytes()? || count == 0 {
        return Err(Status::OutOfRange);
    }
    Ok(count.min(MAX_BYTES / element_bytes) * element_bytes)
}
