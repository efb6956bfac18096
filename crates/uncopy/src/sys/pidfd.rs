//! Sockets of other processes (`pidfd_getfd(2)`, Linux 5.6).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::{Sys, last_errno};
use crate::error::Errno;

/// `PACKET_IGNORE_OUTGOING` (`linux/if_packet.h`, Linux 4.20), which libc does not name everywhere.
const IGNORE_OUTGOING: libc::c_int = 23;

/// The same open file as descriptor `number` of process `pid`; needs the rights of its debugger
/// (`ptrace(2)`, `PTRACE_MODE_ATTACH_REALCREDS`).
pub(crate) fn descriptor_of(pid: u32, number: i32) -> Sys<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::EINVAL)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
}

/// Whether a packet socket ignores what is sent.
pub(crate) fn ignores_outgoing(socket: impl AsFd) -> Sys<bool> {
    Ok(number_option(socket, libc::SOL_PACKET, IGNORE_OUTGOING)? != 0)
}

/// Whether a socket takes `MSG_ZEROCOPY`.
pub(crate) fn allows_zerocopy(socket: impl AsFd) -> Sys<bool> {
    Ok(number_option(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY)? != 0)
}

fn number_option(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> Sys<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the number behind the pointer,
    // and how many it wrote; both outlive the call.
    let r = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if r == 0 { Ok(value) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_this_process_is_found_and_asked() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(allows_zerocopy(&socket), Ok(false));
        assert!(ignores_outgoing(&socket).is_err());
        crate::sys::probe::allow_zerocopy(&socket).unwrap();
        match descriptor_of(std::process::id(), socket.as_raw_fd()) {
            Ok(same) => assert_eq!(allows_zerocopy(same), Ok(true)),
            // A sandbox's filter.
            Err(errno) => assert!([Errno::EPERM, Errno::ENOSYS].contains(&errno), "{errno}"),
        }
        assert!(descriptor_of(0, 0).is_err());
    }
}
