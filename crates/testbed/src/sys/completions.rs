//! Sends by `MSG_ZEROCOPY` and their completions, read without the library.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::LONG;

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` (`linux/errqueue.h`).
const ORIGIN_ZEROCOPY: u8 = 5;
const COPIED: u8 = 1;
/// Number of sends before completions are read: the first send of a merged range decides its
/// result.
const SENDS_IN_FLIGHT: u32 = 1;

/// Number of sends by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completions {
    /// Completed without the bit `SO_EE_CODE_ZEROCOPY_COPIED`.
    pub lent: u32,
    /// Completed with it.
    pub copied: u32,
}

/// Sends `count` messages of this length, to `to` or to the socket's peer, and reads their
/// completions.
///
/// # Errors
/// The kernel refuses, or does not report in time.
pub fn zerocopy_sends(
    socket: impl AsFd,
    to: Option<SocketAddr>,
    sends: u32,
    bytes: usize,
) -> Result<Completions> {
    let socket = socket.as_fd();
    set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)?;
    // The kernel may still read memory without a completion, so it is never freed.
    let payload = Box::leak(vec![b'z'; bytes].into_boxed_slice());
    let mut seen = Completions::default();
    for number in 1..=sends {
        let flags = rustix::net::SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);
        let send = || match to {
            Some(to) => rustix::net::sendto(socket, &*payload, flags, &to),
            None => rustix::net::send(socket, &*payload, flags),
        };
        let mut sent = send();
        // An earlier send was refused, because nobody listens; this one was not sent.
        while sent == Err(rustix::io::Errno::CONNREFUSED) {
            sent = send();
        }
        let sent = sent?;
        if sent != bytes {
            return Err(Error::other(format!("{sent} of {bytes} bytes were taken")));
        }
        while number - (seen.lent + seen.copied) >= SENDS_IN_FLIGHT {
            wait(socket)?;
            let (count, is_copied) = read(socket)?;
            *(if is_copied { &mut seen.copied } else { &mut seen.lent }) += count;
        }
    }
    Ok(seen)
}

fn wait(socket: BorrowedFd<'_>) -> Result<()> {
    let begin = Instant::now();
    loop {
        let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
        // `poll(2)` always reports errors, such as completions, without being asked.
        let mut waiting = [PollFd::new(&socket, PollFlags::empty())];
        if poll(&mut waiting, Some(&patience))? > 0 {
            return Ok(());
        }
        if begin.elapsed() > LONG {
            return Err(Error::new(ErrorKind::TimedOut, "a send is not reported"));
        }
    }
}

/// Returns the number of sends in one completion, and whether they were copied.
///
/// # Errors
/// `EAGAIN` if there is none, or something else.
pub(super) fn read(socket: BorrowedFd<'_>) -> Result<(u32, bool)> {
    let mut control = [0u64; 32];
    // SAFETY: all fields of a `msghdr` may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header names a buffer for control messages of that length, which outlives the call.
    let r = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_ERRQUEUE) };
    if r < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel filled the header and the buffer it names.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !at.is_null() {
        // SAFETY: not null, it is a whole header inside the buffer.
        let header = unsafe { at.read_unaligned() };
        let is_error = (header.cmsg_level, header.cmsg_type) == (libc::SOL_IP, libc::IP_RECVERR)
            || (header.cmsg_level, header.cmsg_type) == (libc::SOL_IPV6, libc::IPV6_RECVERR);
        if is_error {
            // SAFETY: the header is whole, and its data follow it inside the buffer.
            let data: *const libc::sock_extended_err = unsafe { libc::CMSG_DATA(at) }.cast();
            // SAFETY: such data begin with this structure (`ip(7)`, `IP_RECVERR`).
            let error = unsafe { data.read_unaligned() };
            if error.ee_origin != ORIGIN_ZEROCOPY || error.ee_errno != 0 {
                return Err(Error::other("a report of something else"));
            }
            let count = error.ee_data.wrapping_sub(error.ee_info).wrapping_add(1);
            return Ok((count, error.ee_code & COPIED != 0));
        }
        // SAFETY: both point into the buffer that the kernel filled.
        at = unsafe { libc::CMSG_NXTHDR(&raw const message, at) };
    }
    Err(Error::other("a message without a report"))
}

/// Sets a numeric option, such as `SO_MARK`.
///
/// # Errors
/// The kernel refuses.
pub fn set_number(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: i32,
) -> Result<()> {
    set(socket.as_fd(), level, name, value)
}

fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    let value = &raw const value;
    // SAFETY: the value outlives the call, which only reads `length` bytes of it.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), length) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Binds a socket to a device (`SO_BINDTODEVICE`).
///
/// # Errors
/// The kernel refuses.
pub fn bind_to_device(socket: impl AsFd, device: &str) -> Result<()> {
    let (name, length) = (device.as_ptr(), device.len() as libc::socklen_t);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the name outlives the call, which only reads `length` bytes of it.
    let r = unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.cast(), length)
    };
    if r == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
