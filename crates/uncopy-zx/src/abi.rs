//! Types and constants of the interface, as in `include/zircon/*.h`.

#![allow(non_camel_case_types)]
#![allow(missing_docs, reason = "the headers document them")]

pub type zx_handle_t = u32;
pub type zx_status_t = i32;
pub type zx_rights_t = u32;
pub type zx_signals_t = u32;
pub type zx_obj_type_t = u32;
pub type zx_koid_t = u64;
pub type zx_time_t = i64;
pub type zx_duration_t = i64;

pub const ZX_OK: zx_status_t = 0;
pub const ZX_ERR_INTERNAL: zx_status_t = -1;

pub const ZX_HANDLE_INVALID: zx_handle_t = 0;
pub const ZX_TIME_INFINITE: zx_time_t = i64::MAX;
pub const ZX_RIGHT_SAME_RIGHTS: zx_rights_t = 1 << 31;
pub const ZX_OBJ_TYPE_NONE: zx_obj_type_t = 0;

pub const ZX_CHANNEL_READ_MAY_DISCARD: u32 = 1;
pub const ZX_CHANNEL_WRITE_USE_IOVEC: u32 = 2;
pub const ZX_HANDLE_OP_MOVE: u32 = 0;
pub const ZX_HANDLE_OP_DUPLICATE: u32 = 1;
pub const ZX_SOCKET_STREAM: u32 = 0;
pub const ZX_SOCKET_DATAGRAM: u32 = 1;
pub const ZX_SOCKET_PEEK: u32 = 1 << 3;
pub const ZX_PKT_TYPE_USER: u32 = 0;
pub const ZX_PKT_TYPE_SIGNAL_ONE: u32 = 1;
pub const ZX_INFO_HANDLE_VALID: u32 = 1;
pub const ZX_INFO_HANDLE_BASIC: u32 = 2;
pub const ZX_INFO_HANDLE_COUNT: u32 = 19;
pub const ZX_INFO_SOCKET: u32 = 22;
pub const ZX_PROP_NAME: u32 = 3;
pub const ZX_PROP_SOCKET_RX_THRESHOLD: u32 = 12;
pub const ZX_PROP_SOCKET_TX_THRESHOLD: u32 = 13;
pub const ZX_PROP_VMO_CONTENT_SIZE: u32 = 17;
pub const ZX_MAX_NAME_LEN: usize = 32;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_channel_iovec_t {
    /// Address; only read by copies that survive a bad one.
    pub buffer: usize,
    pub capacity: u32,
    pub reserved: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_channel_call_args_t {
    pub wr_bytes: usize,
    pub wr_handles: usize,
    pub rd_bytes: usize,
    pub rd_handles: usize,
    pub wr_num_bytes: u32,
    pub wr_num_handles: u32,
    pub rd_num_bytes: u32,
    pub rd_num_handles: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_handle_info_t {
    pub handle: zx_handle_t,
    pub r#type: zx_obj_type_t,
    pub rights: zx_rights_t,
    pub unused: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_handle_disposition_t {
    pub operation: u32,
    pub handle: zx_handle_t,
    pub r#type: zx_obj_type_t,
    pub rights: zx_rights_t,
    pub result: zx_status_t,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_wait_item_t {
    pub handle: zx_handle_t,
    pub waitfor: zx_signals_t,
    pub pending: zx_signals_t,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_packet_signal_t {
    pub trigger: zx_signals_t,
    pub observed: zx_signals_t,
    pub count: u64,
    pub timestamp: zx_time_t,
    pub reserved1: u64,
}

/// A packet; its union is represented as bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_port_packet_t {
    pub key: u64,
    pub r#type: u32,
    pub status: zx_status_t,
    pub contents: [u64; 4],
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_info_handle_basic_t {
    pub koid: zx_koid_t,
    pub rights: zx_rights_t,
    pub r#type: zx_obj_type_t,
    pub related_koid: zx_koid_t,
    pub reserved: u32,
    pub padding1: [u8; 4],
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_info_handle_count_t {
    pub handle_count: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct zx_info_socket_t {
    pub options: u32,
    pub padding1: [u8; 4],
    pub rx_buf_max: usize,
    pub rx_buf_size: usize,
    pub rx_buf_available: usize,
    pub tx_buf_max: usize,
    pub tx_buf_size: usize,
}

/// Room for a part of a message, of
/// [`uncopy_zx_channel_read_scattered`](crate::calls::channel::uncopy_zx_channel_read_scattered).
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct uncopy_zx_region_t {
    pub buffer: usize,
    pub capacity: u32,
    pub reserved: u32,
}

/// Result of [`uncopy_zx_get_counters`](crate::calls::bridge::uncopy_zx_get_counters).
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct uncopy_zx_counters_t {
    pub handles: u64,
    pub handles_created: u64,
    pub faults: u64,
    pub fault_mode: u32,
    pub reserved: u32,
}

/// Checks the size of a type and the offsets of its fields.
macro_rules! layout {
    ($($name:ident: $size:literal { $($field:ident @ $offset:literal),* })*) => {
        $(const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(std::mem::offset_of!($name, $field) == $offset);)*
        };)*
    };
}

#[cfg(target_pointer_width = "64")]
layout! {
    zx_channel_iovec_t: 16 { buffer @ 0, capacity @ 8, reserved @ 12 }
    zx_channel_call_args_t: 48 {
        wr_bytes @ 0, wr_handles @ 8, rd_bytes @ 16, rd_handles @ 24,
        wr_num_bytes @ 32, wr_num_handles @ 36, rd_num_bytes @ 40, rd_num_handles @ 44
    }
    zx_handle_info_t: 16 { handle @ 0, r#type @ 4, rights @ 8, unused @ 12 }
    zx_handle_disposition_t: 20 {
        operation @ 0, handle @ 4, r#type @ 8, rights @ 12, result @ 16
    }
    zx_wait_item_t: 12 { handle @ 0, waitfor @ 4, pending @ 8 }
    zx_packet_signal_t: 32 {
        trigger @ 0, observed @ 4, count @ 8, timestamp @ 16, reserved1 @ 24
    }
    zx_port_packet_t: 48 { key @ 0, r#type @ 8, status @ 12, contents @ 16 }
    zx_info_handle_basic_t: 32 {
        koid @ 0, rights @ 8, r#type @ 12, related_koid @ 16, reserved @ 24, padding1 @ 28
    }
    zx_info_handle_count_t: 4 { handle_count @ 0 }
    zx_info_socket_t: 48 {
        options @ 0, padding1 @ 4, rx_buf_max @ 8, rx_buf_size @ 16, rx_buf_available @ 24,
        tx_buf_max @ 32, tx_buf_size @ 40
    }
    uncopy_zx_region_t: 16 { buffer @ 0, capacity @ 8, reserved @ 12 }
    uncopy_zx_counters_t: 32 {
        handles @ 0, handles_created @ 8, faults @ 16, fault_mode @ 24, reserved @ 28
    }
}
