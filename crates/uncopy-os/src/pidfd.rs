//! Sockets of other processes (`pidfd_getfd(2)`, Linux 5.6).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// `PACKET_IGNORE_OUTGOING` (`linux/if_packet.h`, Linux 4.20), which libc lacks on some targets.
const IGNORE_OUTGOING: libc::c_int = 23;
/// `SO_BINDTOIFINDEX` (`asm-generic/socket.h`, Linux 5.0), which libc lacks on some targets.
const BIND_TO_INDEX: libc::c_int = 62;
/// `IP_UNICAST_IF` and `IPV6_UNICAST_IF` (`linux/in.h`, `linux/in6.h`).
const UNICAST_IF: libc::c_int = 50;
const UNICAST_IF_V6: libc::c_int = 76;
/// Timestamps of sent packets.
const SENT_STAMPS: libc::c_uint = libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_ACK;

/// Duplicates descriptor `number` of process `pid`. Needs the rights of a debugger (`ptrace(2)`,
/// `PTRACE_MODE_ATTACH_REALCREDS`).
pub fn descriptor_of(pid: u32, number: i32) -> Sys<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::EINVAL)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
}

/// Socket options that affect the route of sent packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Binding {
    /// Index of the device that the socket is bound to; 0: none.
    pub device: u32,
    pub mark: u32,
    /// Whether multicast packets also go to receivers on this machine (`IP_MULTICAST_LOOP`).
    pub loops: bool,
    /// Whether an option chooses the device for multicast or unicast packets (`IP_MULTICAST_IF`,
    /// `IP_UNICAST_IF`).
    pub chooses_device: bool,
    /// Traffic class, which policy rules can select by (`IP_TOS`, `IPV6_TCLASS`).
    pub class: u8,
    /// Whether the socket gets its packets back with transmit timestamps (`SO_TIMESTAMPING`), for which the
    /// kernel copies them (`__skb_tstamp_tx` in `net/core/skbuff.c`).
    pub gets_packets_back: bool,
}

/// Reads the binding of a TCP or UDP socket. `is_v6` is the family of the peer: an IPv6 socket with a mapped
/// IPv4 peer uses the options of IPv4.
pub fn binding(socket: impl AsFd, is_v6: bool) -> Sys<Binding> {
    let fd = socket.as_fd();
    let number = |level, name| number_option(fd, level, name);
    let device = number(libc::SOL_SOCKET, BIND_TO_INDEX)?;
    let class = match is_v6 {
        true => number(libc::SOL_IPV6, libc::IPV6_TCLASS)?,
        false => number(libc::SOL_IP, libc::IP_TOS)?,
    };
    let stamps = number(libc::SOL_SOCKET, libc::SO_TIMESTAMPING)? as libc::c_uint;
    let (loops, outlets) = match is_v6 {
        true => (
            number(libc::SOL_IPV6, libc::IPV6_MULTICAST_LOOP)?,
            [
                number(libc::SOL_IPV6, libc::IPV6_MULTICAST_IF)?,
                number(libc::SOL_IPV6, UNICAST_IF_V6)?,
            ],
        ),
        false => (
            number(libc::SOL_IP, libc::IP_MULTICAST_LOOP)?,
            [number(libc::SOL_IP, libc::IP_MULTICAST_IF)?, number(libc::SOL_IP, UNICAST_IF)?],
        ),
    };
    Ok(Binding {
        device: device as u32,
        mark: number(libc::SOL_SOCKET, libc::SO_MARK)? as u32,
        loops: loops != 0,
        chooses_device: outlets.iter().any(|outlet| *outlet != 0)
            || number(libc::SOL_SOCKET, libc::SO_DONTROUTE)? != 0,
        class: class as u8,
        gets_packets_back: stamps & SENT_STAMPS != 0
            && stamps & libc::SOF_TIMESTAMPING_OPT_TSONLY == 0,
    })
}

/// Whether a socket uses Multipath TCP.
pub fn is_multipath(socket: impl AsFd) -> Sys<bool> {
    Ok(number_option(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL)? == libc::IPPROTO_MPTCP)
}

/// Whether a packet socket ignores outgoing packets.
pub fn ignores_outgoing(socket: impl AsFd) -> Sys<bool> {
    Ok(number_option(socket, libc::SOL_PACKET, IGNORE_OUTGOING)? != 0)
}

/// Whether a socket accepts `MSG_ZEROCOPY`.
pub fn allows_zerocopy(socket: impl AsFd) -> Sys<bool> {
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
    fn options_of_a_socket_of_this_process_can_be_read() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(allows_zerocopy(&socket), Ok(false));
        assert!(ignores_outgoing(&socket).is_err());
        crate::probe::allow_zerocopy(&socket).unwrap();
        match descriptor_of(std::process::id(), socket.as_raw_fd()) {
            Ok(same) => assert_eq!(allows_zerocopy(same), Ok(true)),
            // A sandbox may refuse it.
            Err(errno) => assert!([Errno::EPERM, Errno::ENOSYS].contains(&errno), "{errno}"),
        }
        assert!(descriptor_of(0, 0).is_err());
    }

    #[test]
    fn the_binding_of_a_socket_can_be_read() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let usual = Binding { loops: true, ..Binding::default() };
        assert_eq!(binding(&socket, false), Ok(usual));
        socket.set_multicast_loop_v4(false).unwrap();
        assert_eq!(binding(&socket, false), Ok(Binding::default()));
        assert_eq!(is_multipath(&socket), Ok(false));
        if let Ok(socket) = std::net::UdpSocket::bind("[::1]:0") {
            assert_eq!(binding(&socket, true), Ok(usual));
        }
    }
}
