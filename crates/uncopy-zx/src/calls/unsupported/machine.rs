//! Unsupported calls for drivers and hypervisors: interrupts, device memory, guests.

use uncopy_channel::Status;

use super::unsupported;
use crate::abi::{zx_handle_t, zx_port_packet_t, zx_time_t};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

exported! {
    /// Fails, because no memory is pinned. The handle is consumed, as in Zircon.
    fn zx_pmt_unpin(handle: zx_handle_t) {
        drop(table::take(handle));
        Err(Status::NotSupported)
    }
}

unsupported! {
    fn zx_interrupt_create(source: zx_handle_t, number: u32, options: u32, out: Out<zx_handle_t>);
    fn zx_interrupt_bind(handle: zx_handle_t, port: zx_handle_t, key: u64, options: u32);
    fn zx_interrupt_wait(handle: zx_handle_t, timestamp: Out<zx_time_t>);
    fn zx_interrupt_ack(handle: zx_handle_t);
    fn zx_interrupt_trigger(handle: zx_handle_t, options: u32, timestamp: zx_time_t);
    fn zx_interrupt_destroy(handle: zx_handle_t);
    fn zx_msi_allocate(handle: zx_handle_t, count: u32, out: Out<zx_handle_t>);
    fn zx_msi_create(
        handle: zx_handle_t,
        options: u32,
        msi_id: u32,
        vmo: zx_handle_t,
        vmo_offset: usize,
        out: Out<zx_handle_t>,
    );
    fn zx_iommu_create(
        resource: zx_handle_t,
        kind: u32,
        desc: In<u8>,
        desc_size: usize,
        out: Out<zx_handle_t>,
    );
    fn zx_bti_create(iommu: zx_handle_t, options: u32, bti_id: u64, out: Out<zx_handle_t>);
    fn zx_bti_pin(
        handle: zx_handle_t,
        options: u32,
        vmo: zx_handle_t,
        offset: u64,
        size: u64,
        addrs: Out<usize>,
        num_addrs: usize,
        pmt: Out<zx_handle_t>,
    );
    fn zx_bti_release_quarantine(handle: zx_handle_t);
    fn zx_guest_create(
        resource: zx_handle_t,
        options: u32,
        guest: Out<zx_handle_t>,
        vmar: Out<zx_handle_t>,
    );
    fn zx_guest_set_trap(
        handle: zx_handle_t,
        kind: u32,
        addr: usize,
        size: usize,
        port: zx_handle_t,
        key: u64,
    );
    fn zx_vcpu_create(guest: zx_handle_t, options: u32, entry: usize, out: Out<zx_handle_t>);
    fn zx_vcpu_enter(handle: zx_handle_t, packet: Out<zx_port_packet_t>);
    fn zx_vcpu_kick(handle: zx_handle_t);
    fn zx_vcpu_interrupt(handle: zx_handle_t, vector: u32);
    fn zx_vcpu_read_state(handle: zx_handle_t, kind: u32, buffer: Out<u8>, buffer_size: usize);
    fn zx_vcpu_write_state(handle: zx_handle_t, kind: u32, buffer: In<u8>, buffer_size: usize);
}
