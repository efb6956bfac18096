//! Sockets.

use uncopy_channel::{Rights, Socket, SocketKind, Status};

use super::handle::give_both;
use crate::abi::{ZX_SOCKET_DATAGRAM, ZX_SOCKET_PEEK, ZX_SOCKET_STREAM, zx_handle_t};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out};
use crate::table;

/// Capacity of a socket; larger buffers have no effect.
const MAX_BYTES: usize = 256 << 10;
/// `ZX_SOCKET_DISPOSITION_WRITE_DISABLED` and `ZX_SOCKET_SHUTDOWN_WRITE`.
const WRITE_DISABLED: u32 = 1;
/// `ZX_SOCKET_SHUTDOWN_READ`.
const SHUTDOWN_READ: u32 = 2;
/// `ZX_SOCKET_SHUTDOWN_MASK`.
const SHUTDOWN_BOTH: u32 = 3;

exported! {
    /// Makes a socket.
    fn zx_socket_create(options: u32, out0: Out<zx_handle_t>, out1: Out<zx_handle_t>) {
        let kind = match options {
            ZX_SOCKET_STREAM => SocketKind::Stream,
            ZX_SOCKET_DATAGRAM => SocketKind::Datagram,
            _ => return Err(Status::InvalidArgs),
        };
        give_both(Socket::pair(kind).into(), out0, out1)
    }

    /// Writes bytes.
    fn zx_socket_write(
        handle: zx_handle_t,
        options: u32,
        buffer: In<u8>,
        buffer_size: usize,
        actual: Out<usize>,
    ) {
        let lease = table::lease(handle)?;
        let socket = lease.object::<Socket>(Rights::WRITE)?;
        if options != 0 {
            return Err(Status::InvalidArgs);
        }
        // One byte more than the capacity, so that a datagram that is too long stays too long.
        let bytes = buffer.read_some(0, buffer_size.min(MAX_BYTES + 1))?;
        let written = socket.write(&bytes)?;
        Ok(actual.write_if_wanted(written)?)
    }

    /// Reads bytes.
    fn zx_socket_read(
        handle: zx_handle_t,
        options: u32,
        buffer: Out<u8>,
        buffer_size: usize,
        actual: Out<usize>,
    ) {
        if options & !ZX_SOCKET_PEEK != 0 {
            return Err(Status::InvalidArgs);
        }
        let lease = table::lease(handle)?;
        let socket = lease.object::<Socket>(Rights::READ)?;
        let mut bytes = vec![0; buffer_size.min(MAX_BYTES)];
        let is_peek = options == ZX_SOCKET_PEEK;
        let read = if is_peek { socket.peek(&mut bytes) } else { socket.read(&mut bytes) }?;
        buffer.write_all(&bytes[..read])?;
        Ok(actual.write_if_wanted(read)?)
    }

    /// Disables writing at this end, in the older form.
    fn zx_socket_shutdown(handle: zx_handle_t, options: u32) {
        let lease = table::lease(handle)?;
        let socket = lease.object::<Socket>(Rights::MANAGE_SOCKET)?;
        match options {
            WRITE_DISABLED => socket.disable_write(),
            SHUTDOWN_READ | SHUTDOWN_BOTH => Err(Status::NotSupported),
            _ => Err(Status::InvalidArgs),
        }
    }

    /// Disables writing at this end.
    fn zx_socket_set_disposition(handle: zx_handle_t, disposition: u32, disposition_peer: u32) {
        let lease = table::lease(handle)?;
        let socket = lease.object::<Socket>(Rights::MANAGE_SOCKET)?;
        match (disposition, disposition_peer) {
            (WRITE_DISABLED, 0) => socket.disable_write(),
            (0, 0) => Ok(()),
            (0..=2, 0..=2) => Err(Status::NotSupported),
            _ => Err(Status::InvalidArgs),
        }
    }
}
