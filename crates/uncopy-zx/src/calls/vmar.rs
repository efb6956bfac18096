//! The address space of this process: mappings of memory.

use std::os::fd::AsFd;

use uncopy_channel::{Rights, Status, Vmo};

use crate::abi::zx_handle_t;
use crate::sys::address_space::{self, Access};
use crate::sys::boundary::{exported, exported_value};
use crate::sys::memory::Out;
use crate::table;

// `ZX_VM_…`
const PERM_READ: u32 = 1;
const PERM_WRITE: u32 = 1 << 1;
const PERM_EXECUTE: u32 = 1 << 2;
const COMPACT: u32 = 1 << 3;
const SPECIFIC: u32 = 1 << 4;
const SPECIFIC_OVERWRITE: u32 = 1 << 5;
const MAP_RANGE: u32 = 1 << 10;
const REQUIRE_NON_RESIZABLE: u32 = 1 << 11;
const ALLOW_FAULTS: u32 = 1 << 12;
const OFFSET_IS_UPPER_LIMIT: u32 = 1 << 13;
/// The only field of the options that is not a bit.
const ALIGN_BASE: u32 = 24;

const SUPPORTED: u32 = PERM_READ
    | PERM_WRITE
    | PERM_EXECUTE
    | COMPACT
    | MAP_RANGE
    | REQUIRE_NON_RESIZABLE
    | ALLOW_FAULTS;
/// Options that choose an address.
const PLACED: u32 = SPECIFIC | SPECIFIC_OVERWRITE | OFFSET_IS_UPPER_LIMIT | 0xff << ALIGN_BASE;

/// Checks the options of a mapping; returns the rights that its memory must have.
fn required_rights(options: u32) -> Rights {
    let mut rights = Rights::MAP;
    rights.set(Rights::READ, options & PERM_READ != 0);
    rights.set(Rights::WRITE, options & PERM_WRITE != 0);
    // No memory has that right.
    rights.set(Rights::EXECUTE, options & PERM_EXECUTE != 0);
    rights
}

/// Checks the options and the place of a mapping.
fn check_options(options: u32, vmar_offset: usize) -> Result<(), Status> {
    if options & PLACED != 0 {
        return Err(Status::NotSupported);
    }
    let is_readable = options & PERM_READ != 0 || options & PERM_WRITE == 0;
    if options & !SUPPORTED == 0 && vmar_offset == 0 && is_readable {
        Ok(())
    } else {
        Err(Status::InvalidArgs)
    }
}

/// Checks that the memory of a mapping cannot end before it, unless the program allows faults.
fn check_extent(vmo: &Vmo, options: u32, end: Option<u64>) -> Result<(), Status> {
    let may_fault = options & ALLOW_FAULTS != 0;
    if vmo.is_resizable() && (!may_fault || options & REQUIRE_NON_RESIZABLE != 0) {
        return Err(Status::NotSupported);
    }
    let end = end.ok_or(Status::OutOfRange)?;
    if end > vmo.size() && !may_fault {
        return Err(Status::BufferTooSmall { bytes: vmo.size() as usize, handles: 0 });
    }
    Ok(())
}

/// Checks that a handle is the root of the address space.
fn check_root(handle: zx_handle_t) -> Result<(), Status> {
    if handle == table::ROOT_VMAR {
        return Ok(());
    }
    table::lease(handle)?;
    Err(Status::WrongType)
}

exported_value! {
    /// Returns a handle that only the calls for mappings take.
    fn zx_vmar_root_self() -> zx_handle_t {
        table::ROOT_VMAR
    }
}

exported! {
    /// Maps memory.
    fn zx_vmar_map(
        handle: zx_handle_t,
        options: u32,
        vmar_offset: usize,
        vmo: zx_handle_t,
        vmo_offset: u64,
        len: usize,
        mapped_addr: Out<usize>,
    ) {
        check_root(handle)?;
        let lease = table::lease(vmo)?;
        let vmo = lease.object::<Vmo>(required_rights(options))?;
        check_options(options, vmar_offset)?;
        let page = address_space::page_bytes();
        if len == 0 || !vmo_offset.is_multiple_of(page as u64) {
            return Err(Status::InvalidArgs);
        }
        let length = len.checked_next_multiple_of(page).ok_or(Status::OutOfRange)?;
        // The last page of the memory may be smaller than one of the processor.
        let end = len.checked_next_multiple_of(4096).and_then(|l| vmo_offset.checked_add(l as u64));
        // No memory is longer.
        let end = end.filter(|end| i64::try_from(*end).is_ok());
        check_extent(vmo, options, end)?;
        let access = Access {
            reads: options & PERM_READ != 0,
            writes: options & PERM_WRITE != 0,
            populates: options & MAP_RANGE != 0,
            // Older kernels refuse a shared mapping of it.
            is_sealed: vmo.examine(u64::MAX).is_ok(),
        };
        let address = address_space::map(vmo.as_fd(), vmo_offset, length, access)?;
        let written = mapped_addr.write(address);
        if written.is_err() {
            address_space::unmap(address, length)?;
        }
        Ok(written?)
    }

    /// Unmaps every page of a range that `zx_vmar_map` mapped.
    fn zx_vmar_unmap(handle: zx_handle_t, addr: usize, len: usize) {
        check_root(handle)?;
        let page = address_space::page_bytes();
        let length = len.checked_next_multiple_of(page).ok_or(Status::InvalidArgs)?;
        if length == 0 || !addr.is_multiple_of(page) {
            return Err(Status::InvalidArgs);
        }
        address_space::unmap(addr, length)
    }

    /// Seals memory.
    fn uncopy_zx_vmo_seal(handle: zx_handle_t) {
        let lease = table::lease(handle)?;
        lease.object::<Vmo>(Rights::WRITE)?.seal()
    }
}
