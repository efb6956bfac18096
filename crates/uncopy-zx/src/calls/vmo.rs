//! Memory objects (VMOs).

use std::os::fd::AsFd;

use uncopy_channel::{Object, Rights, Status, Vmo};

use super::handle::give;
use crate::abi::zx_handle_t;
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

/// `ZX_VMO_RESIZABLE`.
const RESIZABLE: u32 = 2;
/// Page size, independent of the processor's.
const PAGE_BYTES: u64 = 4096;

// `ZX_VMO_OP_…`
const OP_COMMIT: u32 = 1;
const OP_DECOMMIT: u32 = 2;
const OP_LOCK: u32 = 3;
const OP_UNLOCK: u32 = 4;
const OP_CACHE_FIRST: u32 = 6;
const OP_CACHE_LAST: u32 = 9;
const OP_ZERO: u32 = 10;
const OP_TRY_LOCK: u32 = 11;
const OP_DONT_NEED: u32 = 12;
const OP_ALWAYS_NEED: u32 = 13;
/// `ZX_CACHE_POLICY_MASK`.
const CACHE_POLICY_MASK: u32 = 3;

exported! {
    /// Makes a VMO.
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
        vmo.check_range(offset, buffer_size as u64)?;
        buffer.read_from_file(vmo.as_fd(), offset, buffer_size)
    }

    /// Writes memory.
    fn zx_vmo_write(handle: zx_handle_t, buffer: In<u8>, offset: u64, buffer_size: usize) {
        let lease = table::lease(handle)?;
        let vmo = lease.object::<Vmo>(Rights::WRITE)?;
        vmo.check_range(offset, buffer_size as u64)?;
        buffer.write_to_file(vmo.as_fd(), offset, buffer_size)
    }

    /// Changes the size.
    fn zx_vmo_set_size(handle: zx_handle_t, size: u64) {
        let lease = table::lease(handle)?;
        lease.object::<Vmo>(Rights::WRITE | Rights::RESIZE)?.set_size(size)
    }

    /// Returns the size.
    fn zx_vmo_get_size(handle: zx_handle_t, size: Out<u64>) {
        let lease = table::lease(handle)?;
        Ok(size.write(lease.object::<Vmo>(Rights::empty())?.size())?)
    }

    /// Returns the stream size.
    fn zx_vmo_get_stream_size(handle: zx_handle_t, size: Out<u64>) {
        let lease = table::lease(handle)?;
        Ok(size.write(lease.object::<Vmo>(Rights::empty())?.stream_size())?)
    }

    /// Sets the stream size.
    fn zx_vmo_set_stream_size(handle: zx_handle_t, size: u64) {
        let lease = table::lease(handle)?;
        lease.object::<Vmo>(Rights::WRITE)?.set_stream_size(size)
    }

    /// Performs an operation on a range.
    fn zx_vmo_op_range(
        handle: zx_handle_t,
        op: u32,
        offset: u64,
        size: u64,
        _buffer: Out<u8>,
        _buffer_size: usize,
    ) {
        let lease = table::lease(handle)?;
        let vmo = lease.object::<Vmo>(Rights::empty())?;
        match op {
            OP_COMMIT => vmo.commit(offset, size),
            OP_DECOMMIT => {
                vmo.check_rights(Rights::WRITE)?;
                let is_whole = offset.is_multiple_of(PAGE_BYTES) && size.is_multiple_of(PAGE_BYTES);
                if is_whole { vmo.zero(offset, size) } else { Err(Status::InvalidArgs) }
            }
            OP_ZERO => vmo.zero(offset, size),
            OP_LOCK | OP_UNLOCK | OP_TRY_LOCK => Err(Status::NotSupported),
            OP_CACHE_FIRST..=OP_CACHE_LAST => {
                vmo.check_rights(Rights::READ)?;
                if size == 0 { Err(Status::InvalidArgs) } else { vmo.check_range(offset, size) }
            }
            OP_DONT_NEED | OP_ALWAYS_NEED => vmo.check_range(offset, size),
            _ => Err(Status::InvalidArgs),
        }
    }

    /// Sets the cache policy.
    fn zx_vmo_set_cache_policy(handle: zx_handle_t, cache_policy: u32) {
        let lease = table::lease(handle)?;
        lease.object::<Vmo>(Rights::MAP)?;
        match cache_policy {
            0 => Ok(()),
            1..=CACHE_POLICY_MASK => Err(Status::NotSupported),
            _ => Err(Status::InvalidArgs),
        }
    }
}
