//! Handles: closing, duplicating, information and properties.

use uncopy_channel::{
    Channel, Event, EventPair, Fifo, Handle, Kind, Object, Port, Rights, Socket, Status, Vmo,
};

use crate::abi::{
    ZX_INFO_HANDLE_BASIC, ZX_INFO_HANDLE_COUNT, ZX_INFO_HANDLE_VALID, ZX_INFO_SOCKET,
    ZX_MAX_NAME_LEN, ZX_PROP_NAME, ZX_PROP_SOCKET_RX_THRESHOLD, ZX_PROP_SOCKET_TX_THRESHOLD,
    ZX_PROP_VMO_CONTENT_SIZE, ZX_RIGHT_SAME_RIGHTS, zx_handle_t, zx_info_handle_basic_t,
    zx_info_handle_count_t, zx_info_socket_t, zx_rights_t,
};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out, Plain};
use crate::table::{self, Lease};

/// Number of handles that are read from the program's memory at once.
pub(crate) const CHUNK: usize = 64;

/// An object of one kind, from a handle of any kind.
pub(crate) trait Typed: Object + Sized {
    /// Returns the object, if the handle is of its kind.
    fn of(handle: &Handle) -> Option<&Self>;
}

macro_rules! typed {
    ($($kind:ident),*) => {$(
        impl Typed for $kind {
            #[inline]
            fn of(handle: &Handle) -> Option<&$kind> {
                if let Handle::$kind(object) = handle { Some(object) } else { None }
            }
        }
    )*};
}

typed!(Channel, Event, EventPair, Fifo, Port, Socket, Vmo);

impl Lease {
    /// Returns the object; checks that it is of this kind and that the handle has the rights.
    #[inline]
    pub(crate) fn object<T: Typed>(&self, needed: Rights) -> Result<&T, Status> {
        let object = T::of(self).ok_or(Status::WrongType)?;
        object.check_rights(needed)?;
        Ok(object)
    }
}

/// Returns the rights that a number stands for: `None` for the same rights.
pub(crate) fn wanted_rights(rights: zx_rights_t) -> Option<Rights> {
    (rights != ZX_RIGHT_SAME_RIGHTS).then(|| Rights::from_bits_retain(rights))
}

/// Writes a new handle's number to the program; closes the handle if the address is bad.
pub(crate) fn give(handle: impl Into<Handle>, out: Out<zx_handle_t>) -> Result<(), Status> {
    let value = table::insert(handle.into())?;
    out.write(value).map_err(|fault| {
        // Cannot fail, unless the program guessed and closed the number.
        let _ = table::close(value);
        fault.into()
    })
}

/// Writes the numbers of both new handles, or closes both.
pub(crate) fn give_both(
    ends: [impl Into<Handle>; 2],
    out0: Out<zx_handle_t>,
    out1: Out<zx_handle_t>,
) -> Result<(), Status> {
    let [end0, end1] = ends;
    let first = table::insert(end0.into())?;
    let given = out0.write(first).map_err(Status::from);
    given.and_then(|()| give(end1, out1)).inspect_err(|_| {
        // As in `give`.
        let _ = table::close(first);
    })
}

/// Calls `each` with the program's values, up to the first that cannot be read.
pub(crate) fn for_each<T: Plain>(
    values: In<T>,
    count: usize,
    mut each: impl FnMut(&T),
) -> Result<(), Status> {
    for start in (0..count).step_by(CHUNK) {
        let chunk = values.read_some(start, CHUNK.min(count - start))?;
        chunk.iter().for_each(&mut each);
    }
    Ok(())
}

exported! {
    /// Closes a handle.
    fn zx_handle_close(handle: zx_handle_t) {
        table::close(handle)
    }

    /// Closes several handles.
    fn zx_handle_close_many(handles: In<zx_handle_t>, num_handles: usize) {
        let mut result = Ok(());
        for_each(handles, num_handles, |handle| result = result.and(table::close(*handle)))?;
        result
    }

    /// Makes another handle to the same object.
    fn zx_handle_duplicate(handle: zx_handle_t, rights: zx_rights_t, out: Out<zx_handle_t>) {
        give(table::lease(handle)?.duplicate(wanted_rights(rights))?, out)
    }

    /// Replaces a handle by one with other rights.
    fn zx_handle_replace(handle: zx_handle_t, rights: zx_rights_t, out: Out<zx_handle_t>) {
        let taken = table::take(handle).ok_or(Status::BadHandle)?;
        give(taken.replace(wanted_rights(rights))?, out)
    }

    /// Checks whether a number is a valid handle.
    fn zx_handle_check_valid(handle: zx_handle_t) {
        table::lease(handle).map(drop).map_err(|_| Status::NotFound)
    }

    /// Returns information about an object.
    fn zx_object_get_info(
        handle: zx_handle_t,
        topic: u32,
        buffer: Out<u8>,
        buffer_size: usize,
        actual_count: Out<usize>,
        avail_count: Out<usize>,
    ) {
        let record = Record { buffer, buffer_size, actual_count, avail_count };
        match topic {
            ZX_INFO_HANDLE_VALID => table::lease(handle).map(drop),
            ZX_INFO_HANDLE_BASIC => {
                let lease = table::lease(handle)?;
                lease.check_rights(Rights::empty())?;
                record.give(basic_info(&lease))
            }
            ZX_INFO_HANDLE_COUNT => {
                let lease = table::lease(handle)?;
                lease.check_rights(Rights::INSPECT)?;
                let handle_count = u32::try_from(lease.count()).unwrap_or(u32::MAX);
                record.give(zx_info_handle_count_t { handle_count })
            }
            ZX_INFO_SOCKET => {
                let lease = table::lease(handle)?;
                record.give(socket_info(lease.object::<Socket>(Rights::INSPECT)?)?)
            }
            _ => Err(Status::NotSupported),
        }
    }

    /// Reads a property.
    fn zx_object_get_property(
        handle: zx_handle_t,
        property: u32,
        value: Out<u8>,
        value_size: usize,
    ) {
        let lease = table::lease(handle)?;
        lease.check_rights(Rights::GET_PROPERTY)?;
        let vmo = match (property, &*lease) {
            (ZX_PROP_NAME, Handle::Vmo(vmo)) => vmo,
            (ZX_PROP_SOCKET_RX_THRESHOLD, Handle::Socket(socket)) => {
                return give_number(value, value_size, socket.thresholds()?.0);
            }
            (ZX_PROP_SOCKET_TX_THRESHOLD, Handle::Socket(socket)) => {
                return give_number(value, value_size, socket.thresholds()?.1);
            }
            (ZX_PROP_VMO_CONTENT_SIZE, Handle::Vmo(vmo)) => {
                return give_number(value, value_size, vmo.stream_size());
            }
            _ => return Err(refusal(property)),
        };
        if value_size < ZX_MAX_NAME_LEN {
            return Err(Status::BufferTooSmall { bytes: ZX_MAX_NAME_LEN, handles: 0 });
        }
        let mut padded = [0; ZX_MAX_NAME_LEN];
        let name = vmo.name();
        padded[..name.len()].copy_from_slice(&name);
        Ok(value.write_all(&padded)?)
    }

    /// Changes a property.
    fn zx_object_set_property(
        handle: zx_handle_t,
        property: u32,
        value: In<u8>,
        value_size: usize,
    ) {
        let lease = table::lease(handle)?;
        lease.check_rights(Rights::SET_PROPERTY)?;
        let vmo = match (property, &*lease) {
            (ZX_PROP_NAME, Handle::Vmo(vmo)) => vmo,
            (ZX_PROP_SOCKET_RX_THRESHOLD, Handle::Socket(socket)) => {
                return socket.set_read_threshold(take_number(value, value_size)?);
            }
            (ZX_PROP_SOCKET_TX_THRESHOLD, Handle::Socket(socket)) => {
                return socket.set_write_threshold(take_number(value, value_size)?);
            }
            (ZX_PROP_VMO_CONTENT_SIZE, Handle::Vmo(vmo)) => {
                return vmo.set_content_size(take_number(value, value_size)?);
            }
            _ => return Err(refusal(property)),
        };
        let name = value.read_some(0, value_size.min(ZX_MAX_NAME_LEN - 1))?;
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        vmo.set_name(&name[..length])
    }
}

/// Writes a number as the value of a property.
fn give_number<T: Plain>(value: Out<u8>, value_size: usize, number: T) -> Result<(), Status> {
    if value_size < size_of::<T>() {
        return Err(Status::BufferTooSmall { bytes: size_of::<T>(), handles: 0 });
    }
    Ok(value.cast::<T>().write(number)?)
}

fn take_number<T: Plain>(value: In<u8>, value_size: usize) -> Result<T, Status> {
    if value_size < size_of::<T>() {
        return Err(Status::BufferTooSmall { bytes: size_of::<T>(), handles: 0 });
    }
    Ok(value.cast::<T>().read()?)
}

/// Returns the status for a property that the object does not have.
fn refusal(property: u32) -> Status {
    let others =
        [ZX_PROP_SOCKET_RX_THRESHOLD, ZX_PROP_SOCKET_TX_THRESHOLD, ZX_PROP_VMO_CONTENT_SIZE];
    if others.contains(&property) { Status::WrongType } else { Status::NotSupported }
}

fn socket_info(socket: &Socket) -> Result<zx_info_socket_t, Status> {
    let info = socket.info()?;
    Ok(zx_info_socket_t {
        options: info.kind as u32,
        rx_buf_max: info.read_capacity,
        rx_buf_size: info.readable,
        rx_buf_available: info.next_read,
        tx_buf_max: info.write_capacity,
        tx_buf_size: info.written,
        ..Default::default()
    })
}

/// Destination of an information record.
struct Record {
    buffer: Out<u8>,
    buffer_size: usize,
    actual_count: Out<usize>,
    avail_count: Out<usize>,
}

impl Record {
    /// Writes one record, or fails if it does not fit.
    fn give<T: Plain>(&self, record: T) -> Result<(), Status> {
        let fits = self.buffer_size >= size_of::<T>();
        if fits {
            self.buffer.cast::<T>().write(record)?;
        }
        self.actual_count.write_if_wanted(usize::from(fits))?;
        self.avail_count.write_if_wanted(1)?;
        let too_small = Status::BufferTooSmall { bytes: size_of::<T>(), handles: 0 };
        if fits { Ok(()) } else { Err(too_small) }
    }
}

/// Returns the interface's number of a kind.
pub(crate) fn type_of(kind: Kind) -> u32 {
    kind as u32
}

fn basic_info(handle: &Handle) -> zx_info_handle_basic_t {
    zx_info_handle_basic_t {
        koid: handle.koid().get(),
        rights: handle.rights().bits(),
        r#type: type_of(handle.kind()),
        related_koid: handle.related_koid().map_or(0, |koid| koid.get()),
        ..Default::default()
    }
}
