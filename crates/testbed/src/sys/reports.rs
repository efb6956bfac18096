//! UDP sockets whose error queue also reports other events than sends without copying.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use uncopy::send::InetSocket;

/// Reports when each send was passed to the device's queue, and to the device, by the kernel's
/// clock (`Documentation/networking/timestamping.rst`).
const STAMPS: libc::c_uint = libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID;

/// Additional reports in a socket's error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    /// ICMP errors from hosts and routers (`IP_RECVERR`, `IPV6_RECVERR`).
    Refusals,
    /// Send timestamps, two reports for each send (`SO_TIMESTAMPING`).
    TimeStamps {
        /// Timestamps with the packet, which the kernel keeps for it.
        with_packets: bool,
    },
}

fn set(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_uint) -> Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    let value = &raw const value;
    // SAFETY: the value outlives the call, which only reads `length` bytes of it.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.cast(), length) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Makes a UDP socket that sends to `peer`.
pub(crate) fn connect(peer: SocketAddr, reports: Reports) -> Result<InetSocket> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    match (reports, peer.is_ipv4()) {
        (Reports::Refusals, true) => set(&fd, libc::SOL_IP, libc::IP_RECVERR, 1)?,
        (Reports::Refusals, false) => set(&fd, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)?,
        (Reports::TimeStamps { with_packets }, _) => {
            let stamps =
                if with_packets { STAMPS } else { STAMPS | libc::SOF_TIMESTAMPING_OPT_TSONLY };
            set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps)?;
        }
    }
    rustix::net::connect(&fd, &peer)?;
    // SAFETY: the socket has just been made, by nobody else, and nothing was sent on it.
    unsafe { InetSocket::adopt(fd) }.map_err(|(_, error)| Error::other(error))
}
