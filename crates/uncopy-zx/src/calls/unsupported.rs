//! Calls about what is not here, for programs that name them.

pub mod machine;
pub mod objects;
pub mod tasks;

use uncopy_channel::Status;

use crate::abi::{zx_handle_t, zx_rights_t};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

/// Calls that answer `ZX_ERR_NOT_SUPPORTED` whatever the arguments, none of which they look at.
macro_rules! unsupported {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        crate::sys::boundary::exported! {$(
            #[doc = concat!("`", stringify!($name), "` of what is not here.")]
            fn $name($($argument: $type),*) {
                let _ = ($($argument,)*);
                Err(Status::NotSupported)
            }
        )*}
    };
}
use unsupported;

exported! {
    /// No object here has children.
    fn zx_object_get_child(
        _handle: zx_handle_t,
        _koid: u64,
        _rights: zx_rights_t,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// There are no profiles.
    fn zx_object_set_profile(_handle: zx_handle_t, _profile: zx_handle_t, _options: u32) {
        Err(Status::NotSupported)
    }

    /// A memfd shares no pages with another.
    fn zx_vmo_create_child(
        _handle: zx_handle_t,
        _options: u32,
        _offset: u64,
        _size: u64,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// Memory has no addresses of the machine.
    fn zx_vmo_create_contiguous(
        _bti: zx_handle_t,
        _size: usize,
        _alignment_log2: u32,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// As above.
    fn zx_vmo_create_physical(
        _resource: zx_handle_t,
        _paddr: usize,
        _size: usize,
        _out: Out<zx_handle_t>,
    ) {
        Err(Status::NotSupported)
    }

    /// Memory is not mapped. The handle is consumed, as in Zircon.
    fn zx_vmo_replace_as_executable(
        handle: zx_handle_t,
        _resource: zx_handle_t,
        _out: Out<zx_handle_t>,
    ) {
        drop(table::take(handle));
        Err(Status::NotSupported)
    }

    /// Pages do not move from one memfd to another.
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

    /// There are no resources.
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
