//! Packet taps of every kind (`packet(7)`).

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// `PACKET_IGNORE_OUTGOING` (`linux/if_packet.h`).
const IGNORE_OUTGOING: libc::c_int = 23;

/// Makes a packet socket for a protocol (`linux/if_ether.h`), bound to the device with this index,
/// or to all if it is 0.
pub(crate) fn open(protocol: u16, device: u32, ignores_outgoing: bool) -> Result<OwnedFd> {
    let (family, kind) = (AddressFamily::PACKET, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if ignores_outgoing {
        let on: libc::c_int = 1;
        let length = size_of_val(&on) as libc::socklen_t;
        // SAFETY: the option's value is a number, which outlives the call, which only reads it.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                IGNORE_OUTGOING,
                (&raw const on).cast(),
                length,
            )
        };
        if set != 0 {
            return Err(Error::last_os_error());
        }
    }
    // SAFETY: all fields of a `sockaddr_ll` may be zero.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = device as i32;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is one of this family, outlives the call, and has this length.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } {
        0 => Ok(socket),
        _ => Err(Error::last_os_error()),
    }
}
