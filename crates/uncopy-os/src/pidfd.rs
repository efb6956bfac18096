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
/// `SO_PASSPIDFD` (`asm-generic/socket.h`, Linux 6.5), and the timestamps with 64 bits (Linux 5.1), which libc
/// lacks on some targets.
const PASS_PIDFD: libc::c_int = 76;
const TIMESTAMP_NEW: libc::c_int = 63;
const TIMESTAMPNS_NEW: libc::c_int = 64;
/// `SO_GET_FILTER` (`asm-generic/socket.h`).
const GET_FILTER: libc::c_int = 26;
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

/// Options that add work to every message that comes to a socket of `unix(7)`, with their names.
const WORK: [(libc::c_int, &str); 8] = [
    (libc::SO_PASSCRED, "SO_PASSCRED"),
    (PASS_PIDFD, "SO_PASSPIDFD"),
    (libc::SO_PASSSEC, "SO_PASSSEC"),
    (libc::SO_TIMESTAMP, "SO_TIMESTAMP"),
    (libc::SO_TIMESTAMPNS, "SO_TIMESTAMPNS"),
    (TIMESTAMP_NEW, "SO_TIMESTAMP_NEW"),
    (TIMESTAMPNS_NEW, "SO_TIMESTAMPNS_NEW"),
    (libc::SO_TIMESTAMPING, "SO_TIMESTAMPING"),
];

/// Returns the names of the options that are set on a socket of `unix(7)` and add work to every message that
/// comes to it.
pub fn options_with_work(socket: impl AsFd) -> Vec<&'static str> {
    let fd = socket.as_fd();
    // An option that the kernel does not have is not set.
    let is_set = |name| number_option(fd, libc::SOL_SOCKET, name).is_ok_and(|value| value != 0);
    WORK.iter().filter(|(name, _)| is_set(*name)).map(|(_, text)| *text).collect()
}

/// Whether a program filters the messages that come to a socket (`SO_ATTACH_FILTER`, `SO_ATTACH_BPF`).
pub fn has_filter(socket: impl AsFd) -> Sys<bool> {
    let mut instructions: libc::socklen_t = 0;
    // SAFETY: with length 0 the kernel writes nothing to the value, and the number of instructions to the
    // length, which outlives the call (`sk_get_filter` in `net/core/filter.c`).
    let r = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            GET_FILTER,
            std::ptr::null_mut(),
            &raw mut instructions,
        )
    };
    match if r == 0 { Ok(instructions) } else { Err(last_errno()) } {
        // A program of extended BPF cannot be read.
        Err(Errno::EACCES) => Ok(true),
        other => Ok(other? > 0),
    }
}

/// Returns the family and type of a socket.
pub fn nature(socket: impl AsFd) -> Sys<SocketNature> {
    let fd = socket.as_fd();
    let number = |name| number_option(fd, libc::SOL_SOCKET, name);
    Ok(SocketNature {
        family: number(libc::SO_DOMAIN)?,
        kind: number(libc::SO_TYPE)?,
        is_listening: number(libc::SO_ACCEPTCONN)? != 0,
    })
}

/// Family and type of a socket (`socket(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketNature {
    pub family: libc::c_int,
    pub kind: libc::c_int,
    pub is_listening: bool,
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

    fn set(socket: impl AsFd, name: libc::c_int, value: *const libc::c_void, length: usize) {
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the callers' values have this length and outlive the call, which only reads them.
        let r = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, name, value, length as _) };
        assert_eq!(r, 0, "{}", last_errno());
    }

    #[test]
    fn what_adds_work_to_messages_can_be_read() {
        let (near, far) = crate::seqpacket::pair().unwrap();
        assert_eq!((options_with_work(&near), has_filter(&near)), (vec![], Ok(false)));
        let on: libc::c_int = 1;
        for name in [libc::SO_PASSCRED, libc::SO_TIMESTAMPNS] {
            set(&near, name, (&raw const on).cast(), size_of_val(&on));
        }
        let mut accept = libc::sock_filter { code: 6, jt: 0, jf: 0, k: u32::MAX };
        let program = libc::sock_fprog { len: 1, filter: &raw mut accept };
        set(&near, libc::SO_ATTACH_FILTER, (&raw const program).cast(), size_of_val(&program));
        assert_eq!(options_with_work(&near), ["SO_PASSCRED", "SO_TIMESTAMPNS"]);
        assert_eq!(has_filter(&near), Ok(true));
        assert_eq!((options_with_work(&far), has_filter(&far)), (vec![], Ok(false)));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(
            (options_with_work(&file), has_filter(&file)),
            (vec![], Err(Errno::from_raw(libc::ENOTSOCK)))
        );
    }

    #[test]
    fn sockets_are_distinguished() {
        let nature_of = |family, kind| {
            let nature = SocketNature { family, kind, is_listening: false };
            (nature, SocketNature { is_listening: true, ..nature })
        };
        let (near, _far) = crate::seqpacket::pair().unwrap();
        assert_eq!(nature(&near), Ok(nature_of(libc::AF_UNIX, libc::SOCK_SEQPACKET).0));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(nature(&listener), Ok(nature_of(libc::AF_INET, libc::SOCK_STREAM).1));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(nature(file), Err(Errno::from_raw(libc::ENOTSOCK)));
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
