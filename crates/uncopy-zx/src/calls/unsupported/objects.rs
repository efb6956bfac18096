//! Unsupported objects: clocks, timers, streams, counters, I/O buffers, logs, profiles, pagers.

use uncopy_channel::Status;

use super::unsupported;
use crate::abi::{zx_duration_t, zx_handle_t, zx_time_t};
use crate::sys::memory::{In, Out};

unsupported! {
    fn zx_clock_create(options: u64, args: In<u8>, out: Out<zx_handle_t>);
    fn zx_clock_get_details(handle: zx_handle_t, options: u64, details: Out<u8>);
    fn zx_clock_get_details_mapped(clock_addr: In<u8>, options: u64, details: Out<u8>);
    fn zx_clock_read(handle: zx_handle_t, now: Out<zx_time_t>);
    fn zx_clock_read_mapped(clock_addr: In<u8>, now: Out<zx_time_t>);
    fn zx_clock_update(handle: zx_handle_t, options: u64, args: In<u8>);
    fn zx_timer_create(options: u32, clock_id: u32, out: Out<zx_handle_t>);
    fn zx_timer_set(handle: zx_handle_t, deadline: zx_time_t, slack: zx_duration_t);
    fn zx_timer_cancel(handle: zx_handle_t);
    fn zx_counter_create(options: u32, out: Out<zx_handle_t>);
    fn zx_counter_add(handle: zx_handle_t, value: i64);
    fn zx_counter_read(handle: zx_handle_t, value: Out<i64>);
    fn zx_counter_write(handle: zx_handle_t, value: i64);
    fn zx_stream_create(options: u32, vmo: zx_handle_t, seek: u64, out: Out<zx_handle_t>);
    fn zx_stream_writev(
        handle: zx_handle_t,
        options: u32,
        vectors: In<u8>,
        num_vectors: usize,
        actual: Out<usize>,
    );
    fn zx_stream_writev_at(
        handle: zx_handle_t,
        options: u32,
        offset: u64,
        vectors: In<u8>,
        num_vectors: usize,
        actual: Out<usize>,
    );
    fn zx_stream_readv(
        handle: zx_handle_t,
        options: u32,
        vectors: In<u8>,
        num_vectors: usize,
        actual: Out<usize>,
    );
    fn zx_stream_readv_at(
        handle: zx_handle_t,
        options: u32,
        offset: u64,
        vectors: In<u8>,
        num_vectors: usize,
        actual: Out<usize>,
    );
    fn zx_stream_seek(handle: zx_handle_t, whence: u32, offset: i64, out_seek: Out<u64>);
    fn zx_iob_create(
        options: u64,
        regions: In<u8>,
        num_regions: usize,
        out0: Out<zx_handle_t>,
        out1: Out<zx_handle_t>,
    );
    fn zx_iob_writev(
        handle: zx_handle_t,
        options: u64,
        region_index: u32,
        vectors: In<u8>,
        num_vectors: usize,
    );
    fn zx_debuglog_create(resource: zx_handle_t, options: u32, out: Out<zx_handle_t>);
    fn zx_debuglog_read(handle: zx_handle_t, options: u32, buffer: Out<u8>, buffer_size: usize);
    fn zx_debuglog_write(handle: zx_handle_t, options: u32, buffer: In<u8>, buffer_size: usize);
    fn zx_profile_create(
        resource: zx_handle_t,
        options: u32,
        profile: In<u8>,
        out: Out<zx_handle_t>,
    );
    fn zx_pager_create(options: u32, out: Out<zx_handle_t>);
    fn zx_pager_create_vmo(
        pager: zx_handle_t,
        options: u32,
        port: zx_handle_t,
        key: u64,
        size: u64,
        out: Out<zx_handle_t>,
    );
    fn zx_pager_detach_vmo(pager: zx_handle_t, vmo: zx_handle_t);
    fn zx_pager_supply_pages(
        pager: zx_handle_t,
        pager_vmo: zx_handle_t,
        offset: u64,
        length: u64,
        aux_vmo: zx_handle_t,
        aux_offset: u64,
    );
    fn zx_pager_op_range(
        pager: zx_handle_t,
        op: u32,
        pager_vmo: zx_handle_t,
        offset: u64,
        length: u64,
        data: u64,
    );
    fn zx_pager_query_vmo_stats(
        pager: zx_handle_t,
        pager_vmo: zx_handle_t,
        options: u32,
        buffer: Out<u8>,
        buffer_size: usize,
    );
}
