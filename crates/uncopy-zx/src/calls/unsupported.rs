//! Calls that are not supported, exported for programs that link to them.

pub mod machine;
pub mod objects;
pub mod tasks;

use uncopy_channel::Status;

use crate::abi::{zx_handle_t, zx_rights_t};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

/// Defines calls that return `ZX_ERR_NOT_SUPPORTED` for all arguments, without reading them.
macro_rules! unsupported {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        crate::sys::boundary::exported! {$(
            #[doc = concat!("`", stringify!($name), "`, which is not supported.")]
            fn $name($($argument: $type),*) {
                let _ = ($($argument,)*);
                Err(Status::NotSupported)
            }
        )*}
    };
}
use unsupported;

exported! {
    /// Fails, because no object has children.
    fn zx_object_get_child(
        _handle: zx_handle_t,
        _koid: u64,
        _rights: zx_rights_t,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// Fails, because there are no profiles.
    fn zx_object_set_profile(_handle: zx_handle_t, _profile: zx_handle_t, _options: u32) {
        Err(Status::NotSupported)
    }

    /// Fails, because a memfd shares no pages with another.
    fn zx_vmo_create_child(
        _handle: zx_handle_t,
        _options: u32,
        _offset: u64,
        _size: u64,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// Fails, because memory has no physical addresses here.
    fn zx_vmo_create_contiguous(
        _bti: zx_handle_t,
        _size: usize,
        _alignment_log2: u32,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// Fails, because memory has no physical addresses here.
    fn zx_vmo_create_physical(
        _resource: zx_handle_t,
        _paddr: usize,
        _size: usize,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// Fails, because memory is not executed. The handle is consumed, as in Zircon.
    fn zx_vmo_replace_as_executable(
        handle: zx_handle_t,
        _resource: zx_handle_t,
        _out: Out<zx_handle_t>,
    ) {
        drop(table::take(handle));
        Err(Status::NotSupported)
    }

    /// Fails, because pages cannot move from one memfd to another.
    fn zx_vmo_transfer_data(
        _handle: zx_handle_t,
        _options: u32,
        _offset: u64,
        _length: u64,
        _src_vmo: zx_handle_t,
        _src_offset: u64,
    ) {
        Err(Status::NotSupported)
    }

    /// Fails, because there are no resources.
    fn zx_resource_create(
        _parent: zx_handle_t,
        _options: u32,
        _base: u64,
        _size: usize,
        _name: In<u8>,
        _name_size: usize,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }
}
