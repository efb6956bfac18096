//! Extensions that Zircon does not have: conversions between handles and descriptors, batches, counters.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::MutexGuard;

use uncopy_channel::{
    BatchShape, Channel, Descriptor, Handle, MAX_REGIONS, Object, Rights, SignalFd, Signals, Status,
};

use super::handle::{for_each, give};
use crate::abi::{uncopy_zx_counters_t, zx_channel_iovec_t, zx_handle_t, zx_signals_t};
use crate::sys::boundary::exported;
use crate::sys::descriptor::adopt;
use crate::sys::fault::{self, Mode};
use crate::sys::fork::{self, fork_locks};
use crate::sys::memory::{In, Out};
use crate::sys::signal;
use crate::table;

fork_locks! {
    /// Descriptors to poll that the program has created and not closed.
    Polled: [Option<HashMap<RawFd, SignalFd>>; 1] = None
}

fn polled() -> MutexGuard<'static, Option<HashMap<RawFd, SignalFd>>> {
    fork::lock::<Polled>(0)
}

exported! {
    /// Chooses how bad pointers are handled.
    fn uncopy_zx_fault_mode(mode: u32) {
        let (wanted, is_needed) = match mode {
            0 => (Mode::Handlers, false),
            1 => (Mode::Handlers, true),
            2 => (Mode::Kernel, true),
            _ => return Err(Status::InvalidArgs),
        };
        let chosen = fault::set_mode(wanted);
        if is_needed && chosen != wanted { Err(Status::NotSupported) } else { Ok(()) }
    }

    /// Wraps a descriptor.
    fn uncopy_zx_handle_from_fd(fd: c_int, out: Out<zx_handle_t>) {
        give(Descriptor::from(adopt(fd)?), out)
    }

    /// Unwraps a descriptor.
    fn uncopy_zx_handle_to_fd(handle: zx_handle_t, out: Out<c_int>) {
        let lease = table::lease(handle)?;
        let Handle::Descriptor(descriptor) = &*lease else { return Err(Status::WrongType) };
        descriptor.check_rights(Rights::empty())?;
        drop(lease);
        let taken = table::take(handle).ok_or(Status::BadHandle)?;
        let descriptor = Descriptor::try_from(taken).map_err(|_| Status::WrongType)?;
        give_fd(descriptor.into(), out)
    }

    /// Makes an endpoint of a socket.
    fn uncopy_zx_channel_from_fd(fd: c_int, out: Out<zx_handle_t>) {
        give(Channel::from_fd(adopt(fd)?).map_err(|(_, status)| status)?, out)
    }

    /// Makes a socket of an endpoint.
    fn uncopy_zx_channel_to_fd(handle: zx_handle_t, out: Out<c_int>) {
        table::lease(handle)?.object::<Channel>(Rights::TRANSFER)?;
        let taken = table::take(handle).ok_or(Status::BadHandle)?;
        let channel = Channel::try_from(taken).map_err(|_| Status::WrongType)?;
        give_fd(channel.into_fd()?, out)
    }

    /// Makes a descriptor that polls readable while an object has a signal.
    fn uncopy_zx_poll_fd_create(handle: zx_handle_t, signals: zx_signals_t, out: Out<c_int>) {
        let followed = table::lease(handle)?.signal_fd(Signals::from_bits_retain(signals))?;
        let fd = followed.as_fd().as_raw_fd();
        // Before the program knows the number.
        polled().get_or_insert_default().insert(fd, followed);
        Ok(out.write(fd).inspect_err(|_| drop(forget(fd)))?)
    }

    /// Closes such a descriptor.
    fn uncopy_zx_poll_fd_close(fd: c_int) {
        forget(fd).map(drop).ok_or(Status::NotFound)
    }

    /// Returns the counters of this library.
    fn uncopy_zx_get_counters(out: Out<uncopy_zx_counters_t>) {
        let (handles, handles_created) = table::counts();
        let counters = uncopy_zx_counters_t {
            handles,
            handles_created,
            faults: signal::faults(),
            fault_mode: fault::mode() as u32,
            reserved: 0,
        };
        Ok(out.write(counters)?)
    }

    /// Sends several messages.
    fn uncopy_zx_channel_write_batch(
        handle: zx_handle_t,
        options: u32,
        iovecs: In<zx_channel_iovec_t>,
        num_iovecs: u32,
        handles: In<zx_handle_t>,
        num_handles: u32,
        actual_messages: Out<u32>,
    ) {
        let batch = Batch { iovecs, num_iovecs, handles, num_handles };
        let (sent, result) = batch.send(handle, options);
        actual_messages.write_if_wanted(sent)?;
        result
    }
}

/// Removes a descriptor to poll.
fn forget(fd: RawFd) -> Option<SignalFd> {
    polled().as_mut()?.remove(&fd)
}

/// Writes a descriptor's number to the program; closes the descriptor if the address is bad.
fn give_fd(fd: OwnedFd, out: Out<c_int>) -> Result<(), Status> {
    out.write(fd.as_raw_fd())?;
    // The program owns it from now on.
    let _ = fd.into_raw_fd();
    Ok(())
}

struct Batch {
    iovecs: In<zx_channel_iovec_t>,
    num_iovecs: u32,
    handles: In<zx_handle_t>,
    num_handles: u32,
}

impl Batch {
    /// Returns how many messages were sent, and the error of the first that was not. All handles are
    /// consumed.
    fn send(&self, handle: zx_handle_t, options: u32) -> (u32, Result<(), Status>) {
        // Before it may be among the handles.
        let lease = table::lease(handle);
        let mut moved = Vec::new();
        let mut are_valid = true;
        // Before the checks, because a call that fails consumes them too.
        let read = for_each(self.handles, self.num_handles as usize, |value| {
            let taken = table::take(*value);
            are_valid &= taken.is_some();
            moved.extend(taken);
        });
        let checked = if options == 0 { Ok(()) } else { Err(Status::InvalidArgs) };
        let valid = if are_valid { Ok(()) } else { Err(Status::BadHandle) };
        let attempt = || {
            checked?;
            let lease = lease?;
            let channel = lease.object::<Channel>(Rights::WRITE)?;
            if self.num_iovecs as usize > MAX_REGIONS {
                return Err(Status::OutOfRange);
            }
            let regions = self.iovecs.read_some(0, self.num_iovecs as usize)?;
            read.and(valid)?;
            let sent = channel.write_batch_regions(&regions, shape, &mut moved);
            Ok(match sent {
                Ok(sent) => (sent, Ok(())),
                Err(error) => (error.sent, Err(error.status)),
            })
        };
        let (sent, result) = attempt().unwrap_or_else(|status| (0, Err(status)));
        // At most as many as there are regions.
        (sent as u32, result)
    }
}

/// Decodes the reserved field: the low half is the message's number, the high half its handle count.
fn shape(region: &zx_channel_iovec_t) -> BatchShape {
    let [a, b, c, d] = region.reserved.to_le_bytes();
    BatchShape {
        bytes: region.capacity as usize,
        message: u16::from_le_bytes([a, b]),
        handles: u16::from_le_bytes([c, d]),
    }
}
