//! The system calls of a sender with nothing around them: what a library can be measured against.

mod calls;
mod ring;

use std::io::{Error, Result};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::net::{SocketType, sockopt};

pub use calls::BareSender;
pub use ring::BareRing;

/// How something bare sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BareSend {
    /// The kernel copies: `send(2)`, or `IORING_OP_SEND`.
    Copy,
    /// It does not: `MSG_ZEROCOPY`, or `IORING_OP_SEND_ZC`.
    Lend,
    /// `IORING_OP_SEND_ZC` of a registered buffer.
    Registered,
}

/// Has the kernel cut what is sent on the socket into datagrams of so many bytes (`UDP_SEGMENT`,
/// `udp(7)`).
///
/// # Errors
/// The kernel's.
pub fn cut_sends(socket: &UdpSocket, bytes: u16) -> Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, libc::c_int::from(bytes))
}

fn set(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is as long as `length` says, and read in the call.
    let set = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if set == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn is_stream(socket: impl AsFd) -> Result<bool> {
    Ok(sockopt::socket_type(socket)? == SocketType::STREAM)
}

/// Ends a TCP connection at once, so that the kernel needs nothing more of what was sent on it.
fn abort(socket: impl AsFd) -> Result<()> {
    sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    Ok(rustix::net::connect_unspec(socket)?)
}
