//! Unsupported calls for jobs, processes, threads, exceptions and address spaces.

use uncopy_channel::Status;

use super::unsupported;
use crate::abi::{ZX_HANDLE_INVALID, zx_handle_t};
use crate::sys::boundary::{exported, exported_value};
use crate::sys::memory::{In, Out};
use crate::table;

exported_value! {
    /// Returns no handle, because processes have none.
    fn zx_process_self() -> zx_handle_t {
        ZX_HANDLE_INVALID
    }

    /// Returns no handle, because threads have none.
    fn zx_thread_self() -> zx_handle_t {
        ZX_HANDLE_INVALID
    }

    /// Returns no handle, because there are no jobs.
    fn zx_job_default() -> zx_handle_t {
        ZX_HANDLE_INVALID
    }
}

exported! {
    /// Fails; use the system's calls to start processes. The last handle is consumed, as in Zircon.
    fn zx_process_start(
        _handle: zx_handle_t,
        _thread: zx_handle_t,
        _entry: usize,
        _stack: usize,
        arg1: zx_handle_t,
        _arg2: usize,
    ) {
        drop(table::take(arg1));
        Err(Status::NotSupported)
    }
}

unsupported! {
    fn zx_job_create(parent: zx_handle_t, options: u32, out: Out<zx_handle_t>);
    fn zx_job_set_critical(job: zx_handle_t, options: u32, process: zx_handle_t);
    fn zx_job_set_policy(handle: zx_handle_t, options: u32, topic: u32, policy: In<u8>, count: u32);
    fn zx_task_kill(handle: zx_handle_t);
    fn zx_task_suspend(handle: zx_handle_t, token: Out<zx_handle_t>);
    fn zx_task_suspend_token(handle: zx_handle_t, token: Out<zx_handle_t>);
    fn zx_task_create_exception_channel(handle: zx_handle_t, options: u32, out: Out<zx_handle_t>);
    fn zx_exception_get_thread(handle: zx_handle_t, out: Out<zx_handle_t>);
    fn zx_exception_get_process(handle: zx_handle_t, out: Out<zx_handle_t>);
    fn zx_process_create(
        job: zx_handle_t,
        name: In<u8>,
        name_size: usize,
        options: u32,
        process: Out<zx_handle_t>,
        vmar: Out<zx_handle_t>,
    );
    fn zx_process_read_memory(
        handle: zx_handle_t,
        vaddr: usize,
        buffer: Out<u8>,
        buffer_size: usize,
        actual: Out<usize>,
    );
    fn zx_process_write_memory(
        handle: zx_handle_t,
        vaddr: usize,
        buffer: In<u8>,
        buffer_size: usize,
        actual: Out<usize>,
    );
    fn zx_thread_create(
        process: zx_handle_t,
        name: In<u8>,
        name_size: usize,
        options: u32,
        out: Out<zx_handle_t>,
    );
    fn zx_thread_start(
        handle: zx_handle_t,
        thread_entry: usize,
        stack: usize,
        arg1: usize,
        arg2: usize,
    );
    fn zx_thread_start_regs(
        handle: zx_handle_t,
        pc: u64,
        sp: u64,
        arg1: u64,
        arg2: u64,
        tp: u64,
        abi_reg: u64,
    );
    fn zx_thread_read_state(handle: zx_handle_t, kind: u32, buffer: Out<u8>, buffer_size: usize);
    fn zx_thread_write_state(handle: zx_handle_t, kind: u32, buffer: In<u8>, buffer_size: usize);
    fn zx_thread_raise_exception(options: u32, kind: u32, context: In<u8>);
    fn zx_vmar_allocate(
        parent: zx_handle_t,
        options: u32,
        offset: usize,
        size: usize,
        child: Out<zx_handle_t>,
        child_addr: Out<usize>,
    );
    fn zx_vmar_destroy(handle: zx_handle_t);
    fn zx_vmar_map_clock(
        handle: zx_handle_t,
        options: u32,
        vmar_offset: usize,
        clock: zx_handle_t,
        len: usize,
        mapped_addr: Out<usize>,
    );
    fn zx_vmar_map_iob(
        handle: zx_handle_t,
        options: u32,
        vmar_offset: usize,
        ep: zx_handle_t,
        region_index: u32,
        region_offset: u64,
        region_len: usize,
        mapped_addr: Out<usize>,
    );
    fn zx_vmar_op_range(
        handle: zx_handle_t,
        op: u32,
        address: usize,
        size: usize,
        buffer: Out<u8>,
        buffer_size: usize,
    );
    fn zx_vmar_protect(handle: zx_handle_t, options: u32, addr: usize, len: usize);
}
