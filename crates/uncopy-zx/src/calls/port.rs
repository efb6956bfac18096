//! Ports, and waits that queue packets at them.

use uncopy_channel::{AsyncOptions, Handle, Object, PacketContents, Port, Rights, Signals, Status};

use super::clock::deadline_at;
use super::handle::give;
use crate::abi::{
    ZX_PKT_TYPE_SIGNAL_ONE, ZX_PKT_TYPE_USER, zx_handle_t, zx_port_packet_t, zx_signals_t,
    zx_time_t,
};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

/// `ZX_PORT_BIND_TO_INTERRUPT`, which has no effect because there are no interrupts.
const BIND_TO_INTERRUPT: u32 = 1;

exported! {
    /// Makes a port.
    fn zx_port_create(options: u32, out: Out<zx_handle_t>) {
        if options & !BIND_TO_INTERRUPT != 0 {
            return Err(Status::InvalidArgs);
        }
        give(Port::new(), out)
    }

    /// Queues a user packet.
    fn zx_port_queue(handle: zx_handle_t, packet: In<zx_port_packet_t>) {
        let lease = table::lease(handle)?;
        let port = lease.object::<Port>(Rights::WRITE)?;
        let packet = packet.read()?;
        let mut contents = [0; 32];
        for (to, from) in contents.chunks_exact_mut(8).zip(packet.contents) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        port.queue_status(packet.key, packet.status, contents)
    }

    /// Takes the oldest packet.
    fn zx_port_wait(handle: zx_handle_t, deadline: zx_time_t, packet: Out<zx_port_packet_t>) {
        let lease = table::lease(handle)?;
        let port = lease.object::<Port>(Rights::READ)?;
        let taken = port.wait(deadline_at(deadline))?;
        let (r#type, contents) = encode(taken.contents);
        let (key, status) = (taken.key, taken.status);
        Ok(packet.write(zx_port_packet_t { key, r#type, status, contents })?)
    }

    /// Cancels waits and removes their packets.
    fn zx_port_cancel(handle: zx_handle_t, source: zx_handle_t, key: u64) {
        let lease = table::lease(handle)?;
        let port = lease.object::<Port>(Rights::WRITE)?;
        let source = table::lease(source)?;
        source.check_rights(Rights::WAIT)?;
        port.cancel(&*source, key)
    }

    /// Has a port receive a packet when an object has a signal.
    fn zx_object_wait_async(
        handle: zx_handle_t,
        port: zx_handle_t,
        key: u64,
        signals: zx_signals_t,
        options: u32,
    ) {
        let options = AsyncOptions::from_bits(options).ok_or(Status::InvalidArgs)?;
        if options.contains(AsyncOptions::TIMESTAMP | AsyncOptions::BOOT_TIMESTAMP) {
            return Err(Status::InvalidArgs);
        }
        let port = table::lease(port)?;
        let port = port.object::<Port>(Rights::WRITE)?;
        let signals = Signals::from_bits_retain(signals);
        // Channels, which are waited on for every message, are dispatched once.
        match &*table::lease(handle)? {
            Handle::Channel(channel) => channel.wait_async(port, key, signals, options),
            other => other.wait_async(port, key, signals, options),
        }
    }
}

/// Returns type and contents of a packet.
fn encode(contents: PacketContents) -> (u32, [u64; 4]) {
    match contents {
        PacketContents::User(bytes) => {
            let mut words = [0; 4];
            for (word, eight) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_ne_bytes(*eight);
            }
            (ZX_PKT_TYPE_USER, words)
        }
        PacketContents::Signal { trigger, observed, count, timestamp } => {
            let nanoseconds = timestamp.map_or(0, |time| time.as_nanos() as u64);
            (ZX_PKT_TYPE_SIGNAL_ONE, [two(trigger.bits(), observed.bits()), count, nanoseconds, 0])
        }
        _ => (ZX_PKT_TYPE_USER, [0; 4]),
    }
}

/// Returns two adjacent numbers as one.
fn two(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}
