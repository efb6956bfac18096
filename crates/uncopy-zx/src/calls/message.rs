//! Outgoing messages: bytes from the program's memory, handles from the table.

use std::cell::Cell;
use std::mem::MaybeUninit;

use uncopy_channel::{Disposition, Handle, Kind, MAX_BYTES, MAX_HANDLES, MAX_REGIONS};
use uncopy_channel::{Object, Status, Transfer};

use super::handle::{for_each, type_of, wanted_rights};
use crate::abi::{
    ZX_CHANNEL_WRITE_USE_IOVEC, ZX_HANDLE_OP_DUPLICATE, ZX_HANDLE_OP_MOVE, ZX_OBJ_TYPE_NONE,
    zx_channel_iovec_t, zx_handle_disposition_t, zx_handle_t,
};
use crate::sys::memory::{In, Out};
use crate::table::{self, Lease};

/// Maximum number of regions that are read onto the stack (1 KiB); longer lists are read into the heap.
const MAX_ON_STACK: usize = 64;

/// Copy of a short list of regions. It begins a cache line: the list of a short message is then in one,
/// and reading it does not wait for copies into two.
#[repr(align(64))]
struct OnStack([MaybeUninit<zx_channel_iovec_t>; MAX_ON_STACK]);

/// Regions of a message. Their list is read once, so that the program cannot change it between the
/// checks and the copies.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) regions: &'a [zx_channel_iovec_t],
    pub(super) total_bytes: usize,
}

impl Message<'_> {
    /// Checks sizes and regions, and calls `send` with the message.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] for sizes; [`Status::InvalidArgs`] for regions that cannot be read or
    /// whose reserved field is not 0; those of `send`.
    #[inline]
    pub(super) fn with<R>(
        bytes: In<u8>,
        count: u32,
        options: u32,
        num_handles: u32,
        send: impl FnOnce(Message<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        if options & ZX_CHANNEL_WRITE_USE_IOVEC == 0 {
            let buffer = bytes.address();
            let regions = [zx_channel_iovec_t { buffer, capacity: count, reserved: 0 }];
            return checked(&regions, num_handles, send);
        }
        let array = bytes.cast::<zx_channel_iovec_t>();
        let count = count as usize;
        match count {
            0..=MAX_ON_STACK => {
                let mut few = OnStack([MaybeUninit::uninit(); MAX_ON_STACK]);
                checked(array.read_into(&mut few.0[..count])?, num_handles, send)
            }
            _ if count <= MAX_REGIONS => checked(&array.read_some(0, count)?, num_handles, send),
            _ => Err(Status::OutOfRange),
        }
    }
}

#[inline]
fn checked<R>(
    regions: &[zx_channel_iovec_t],
    num_handles: u32,
    send: impl FnOnce(Message<'_>) -> Result<R, Status>,
) -> Result<R, Status> {
    if regions.iter().any(|region| region.reserved != 0) {
        return Err(Status::InvalidArgs);
    }
    // At most 8,192 numbers of 32 bits.
    let total_bytes = regions.iter().map(|region| region.capacity as usize).sum();
    if total_bytes > MAX_BYTES || num_handles as usize > MAX_HANDLES {
        return Err(Status::OutOfRange);
    }
    send(Message { regions, total_bytes })
}

/// Handles of an outgoing message.
pub(super) struct Sent {
    array: Array,
    count: u32,
    /// Whether the handles were taken out of the table. The array is not read again after that.
    are_taken: Cell<bool>,
}

/// The program's array of handles.
#[derive(Clone, Copy)]
enum Array {
    Moved(In<zx_handle_t>),
    Disposed(Out<zx_handle_disposition_t>),
}

impl Sent {
    /// Returns handles that are moved.
    #[inline]
    pub(super) fn moved(handles: In<zx_handle_t>, count: u32) -> Sent {
        Sent { array: Array::Moved(handles), count, are_taken: Cell::new(false) }
    }

    /// Returns handles that have a disposition each.
    #[inline]
    pub(super) fn disposed(handles: Out<zx_handle_disposition_t>, count: u32) -> Sent {
        Sent { array: Array::Disposed(handles), count, are_taken: Cell::new(false) }
    }

    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Takes the handles out of the table and calls `deliver` with them, at most 64.
    pub(super) fn send<R>(
        &self,
        deliver: impl FnOnce(&mut [Disposition<'_>]) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let count = self.count as usize;
        match self.array {
            Array::Moved(handles) => {
                let values = handles.read_some(0, count)?;
                self.are_taken.set(true);
                let moved = values.into_iter().map(|value| Disposition {
                    transfer: Transfer::Move(table::take(value)),
                    kind: None,
                    rights: None,
                    result: Ok(()),
                });
                deliver(&mut moved.collect::<Vec<_>>())
            }
            Array::Disposed(handles) => {
                let requested = handles.as_in().read_some(0, count)?;
                self.are_taken.set(true);
                dispose(&requested, handles, deliver)
            }
        }
    }

    /// Closes the handles that are consumed by a call that failed before it took them: all that can be
    /// read, even above the limit, except those that were to be duplicated.
    #[cold]
    pub(super) fn consume(&self) {
        if self.are_taken.get() {
            return;
        }
        // Unreadable arrays and invalid numbers name no handles.
        let close = |value: zx_handle_t| {
            let _ = table::close(value);
        };
        let count = self.count as usize;
        let _ = match self.array {
            Array::Moved(handles) => for_each(handles, count, |handle| close(*handle)),
            Array::Disposed(handles) => for_each(handles.as_in(), count, |disposition| {
                if disposition.operation != ZX_HANDLE_OP_DUPLICATE {
                    close(disposition.handle);
                }
            }),
        };
    }
}

/// Handle of a disposition: moved out of the table, or leased to be duplicated.
enum Origin {
    Taken(Option<Handle>),
    Leased(Option<Lease>),
}

fn dispose<R>(
    requested: &[zx_handle_disposition_t],
    array: Out<zx_handle_disposition_t>,
    deliver: impl FnOnce(&mut [Disposition<'_>]) -> Result<R, Status>,
) -> Result<R, Status> {
    let mut origins: Vec<Origin> = requested.iter().map(origin).collect();
    let mut dispositions: Vec<Disposition<'_>> =
        requested.iter().zip(&mut origins).map(|(one, origin)| disposition(one, origin)).collect();
    let mut delivered = deliver(&mut dispositions);
    let mut first = None;
    for (index, (one, done)) in requested.iter().zip(&dispositions).enumerate() {
        let Err(status) = done.result else { continue };
        let status = if is_operation(one.operation) { status } else { Status::InvalidArgs };
        first = first.or(Some(status));
        write_result(array, index, status)?;
    }
    // The status of the first failing handle is the status of the call.
    if let (Err(status), Some(first)) = (&mut delivered, first) {
        *status = first;
    }
    delivered
}

fn is_operation(operation: u32) -> bool {
    matches!(operation, ZX_HANDLE_OP_MOVE | ZX_HANDLE_OP_DUPLICATE)
}

fn origin(requested: &zx_handle_disposition_t) -> Origin {
    match requested.operation {
        ZX_HANDLE_OP_MOVE => Origin::Taken(table::take(requested.handle)),
        ZX_HANDLE_OP_DUPLICATE => Origin::Leased(table::lease(requested.handle).ok()),
        _ => {
            // Consumed too; without a handle to send the call fails.
            let _ = table::close(requested.handle);
            Origin::Taken(None)
        }
    }
}

fn disposition<'a>(requested: &zx_handle_disposition_t, origin: &'a mut Origin) -> Disposition<'a> {
    let held = match &*origin {
        Origin::Taken(handle) => handle.as_ref(),
        Origin::Leased(lease) => lease.as_deref(),
    };
    let kind = held.and_then(|handle| wanted_kind(requested.r#type, handle.kind()));
    let transfer = match origin {
        Origin::Taken(handle) => Transfer::Move(handle.take()),
        Origin::Leased(lease) => Transfer::Duplicate(lease.as_deref()),
    };
    Disposition { transfer, kind, rights: wanted_rights(requested.rights), result: Ok(()) }
}

/// Returns the kind that `number` requires of a handle of the kind `own`: `None` for any. A number
/// that is not a kind becomes one that does not match.
fn wanted_kind(number: u32, own: Kind) -> Option<Kind> {
    if number == ZX_OBJ_TYPE_NONE {
        None
    } else if number == type_of(own) {
        Some(own)
    } else if own == Kind::Event {
        Some(Kind::Port)
    } else {
        Some(Kind::Event)
    }
}

/// Writes the field `result`, the last of five numbers.
fn write_result(
    array: Out<zx_handle_disposition_t>,
    index: usize,
    status: Status,
) -> Result<(), Status> {
    Ok(array.skip(index).cast::<i32>().skip(4).write(status.code())?)
}
