//! TCP connections without a peer (`TCP_REPAIR`, `tcp_repair` in `net/ipv4/tcp.c`).

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use uncopy::send::InetSocket;

/// `struct tcp_repair_window` (`include/uapi/linux/tcp.h`).
#[repr(C)]
struct Window {
    snd_wl1: u32,
    snd_wnd: u32,
    max_window: u32,
    rcv_wnd: u32,
    rcv_wup: u32,
}

/// `TCP_REPAIR_WINDOW` (same file).
const REPAIR_WINDOW: libc::c_int = 29;
/// `TCP_REPAIR_OFF_NO_WP` (same file): no probe of the window.
const OFF_NO_PROBE: libc::c_int = -1;
/// `MAX_TCP_WINDOW` (`include/net/tcp.h`).
const LARGEST_SEGMENT: libc::c_int = 32_767;

fn set<T>(fd: &OwnedFd, name: libc::c_int, value: &T) -> Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let value: *const T = value;
    // SAFETY: the value outlives the call, which only reads `length` bytes of it.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_TCP, name, value.cast(), length) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Makes a connection to a peer that does not exist: it accepts everything and is never answered.
pub(crate) fn connect(local: SocketAddr, peer: SocketAddr) -> Result<OwnedFd> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    pretend(&fd, local, peer)?;
    Ok(fd)
}

/// Turns a new TCP socket into such a connection.
pub(crate) fn pretend(fd: &OwnedFd, local: SocketAddr, peer: SocketAddr) -> Result<()> {
    set(fd, libc::TCP_REPAIR, &1)?;
    // Nobody negotiates the segment size: use the largest allowed value.
    set(fd, libc::TCP_MAXSEG, &LARGEST_SEGMENT)?;
    // Every kernel has it, and it does not pace: timers of a pacing one (`bbr`) would delay
    // arbitrary sends.
    set(fd, libc::TCP_CONGESTION, b"reno")?;
    // A bound port selects the route (`tcp_v6_connect` in `net/ipv6/tcp_ipv6.c`).
    if !local.ip().is_unspecified() || local.port() != 0 {
        rustix::net::bind(fd, &local)?;
    }
    rustix::net::connect(fd, &peer)?;
    let wide = 1 << 28;
    let window =
        Window { snd_wl1: 0, snd_wnd: wide, max_window: wide, rcv_wnd: 65_535, rcv_wup: 0 };
    set(fd, REPAIR_WINDOW, &window)?;
    set(fd, libc::TCP_REPAIR, &OFF_NO_PROBE)
}

/// Makes such a connection as a socket of the library.
pub(crate) fn connect_socket(local: SocketAddr, peer: SocketAddr) -> Result<InetSocket> {
    let fd = connect(local, peer)?;
    // SAFETY: the socket has just been made, by nobody else, and nothing was sent on it.
    unsafe { InetSocket::adopt(fd) }.map_err(|(_, error)| Error::other(error))
}

/// Returns the error of taking over a local socket.
pub(crate) fn adopt_local() -> Result<uncopy::Error> {
    let flags = SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // SAFETY: as above.
    match unsafe { InetSocket::adopt(fd) } {
        Ok(_) => Err(Error::other("it was taken")),
        Err((_, error)) => Ok(error),
    }
}
