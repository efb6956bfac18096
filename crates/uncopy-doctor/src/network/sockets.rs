//! Examines the sockets of a process.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::machine::Machine;
use super::path::Sending;
use crate::Options;
use crate::condition as is;
use crate::finding::{DoctorFinding, add_new};
use crate::found::{ProcessFound, ProcessName};
use crate::next_step::NextStep;
use crate::process::{self, sockets_of};
use crate::report::{Report, ReportFact};
use uncopy_core::Result;
use uncopy_os::pidfd;
use uncopy_send::Transport;

/// Maximum number of different sockets that are examined.
const MAX_ADDRESSES: usize = 32;

/// A TCP or UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    inode: u64,
    transport: Transport,
    user: u32,
    from: SocketAddr,
    /// `None`: it listens, or is not connected.
    to: Option<SocketAddr>,
}

/// Examines the sockets of a process.
///
/// # Errors
/// There is no such process.
pub(crate) fn process(pid: u32, options: &Options) -> Result<Report> {
    let process = process::find(pid)?;
    let subject = format!("What {process} sends");
    let mut findings = Vec::new();
    let mut facts = Vec::new();
    match (elsewhere(pid), sockets_of(pid)) {
        (Some(said), _) => {
            let elsewhere = ProcessFound::OtherNetwork { process };
            findings.push(
                DoctorFinding::of(&is::OTHER_NAMESPACE, elsewhere).seen("/proc/PID/ns/net", said),
            );
        }
        (None, Ok(sockets)) => look_at(&process, &sockets, options, &mut findings, &mut facts),
        (None, Err(error)) if error.kind() == ErrorKind::NotFound => {
            return Err(process::missing(pid));
        }
        (None, Err(error)) => {
            let hidden =
                DoctorFinding::of(&is::SOCKETS_HIDDEN, ProcessFound::SocketsHidden { process });
            findings.push(hidden.seen("/proc/PID/fd", error.to_string()));
        }
    }
    Ok(Report::conclude(format!("pid {pid}"), &subject, findings, facts))
}

/// Describes the network namespaces of the process and of this thread, if they differ.
fn elsewhere(pid: u32) -> Option<String> {
    let theirs = fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    let ours = fs::read_link("/proc/thread-self/ns/net").ok()?;
    (theirs != ours).then(|| format!("{}, here {}", theirs.display(), ours.display()))
}

fn look_at(
    process: &ProcessName,
    sockets: &[(i32, u64)],
    options: &Options,
    findings: &mut Vec<DoctorFinding>,
    facts: &mut Vec<ReportFact>,
) {
    let (known, pid) = (known(), process.pid);
    let multipath = multipath(pid, sockets);
    let own: Vec<(i32, Known)> = sockets
        .iter()
        .filter(|(fd, _)| !multipath.contains(fd))
        .filter_map(|(fd, inode)| Some((*fd, *known.iter().find(|one| one.inode == *inode)?)))
        .collect();
    let with_peer: Vec<(i32, Known, SocketAddr)> =
        own.iter().filter_map(|(fd, socket)| Some((*fd, *socket, socket.to?))).collect();
    facts.push(ReportFact { name: "sockets", value: format!("{} with a peer", with_peer.len()) });
    let open = own.iter().filter(|(_, one)| one.to.is_none() && one.transport == Transport::Udp);
    let open: Vec<String> = open.map(|(fd, _)| fd.to_string()).collect();
    if with_peer.is_empty() && multipath.is_empty() {
        let said = format!("{} sockets, none of them a connected TCP or UDP socket", sockets.len());
        let none = ProcessFound::NoPeer { process: process.clone() };
        findings.push(DoctorFinding::of(&is::NO_SOCKETS, none).seen("/proc/PID/fd", said));
    } else if !open.is_empty() {
        let named = ProcessFound::PeerWithEachSend { sockets: open.len() };
        let said = format!("UDP sockets that are not connected on descriptors {}", open.join(", "));
        findings.push(DoctorFinding::of(&is::NO_PEER, named).seen("/proc/net/udp", said));
    }
    if !multipath.is_empty() {
        let several = ProcessFound::Multipath { sockets: multipath.len() };
        let said = format!(
            "SO_PROTOCOL is IPPROTO_MPTCP on descriptors {}; SO_ZEROCOPY fails with EOPNOTSUPP",
            multipath.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
        );
        findings.push(DoctorFinding::of(&is::MPTCP, several).seen("getsockopt", said));
    }
    let refusing = with_peer.iter().filter(|(fd, ..)| {
        let socket = pidfd::descriptor_of(pid, *fd);
        socket.and_then(pidfd::allows_zerocopy) == Ok(false)
    });
    let refusing: Vec<String> = refusing.map(|(fd, ..)| fd.to_string()).collect();
    if !refusing.is_empty() {
        let off = ProcessFound::ZerocopyOff { sockets: refusing.len() };
        let said = format!("SO_ZEROCOPY is off on descriptors {}", refusing.join(", "));
        findings.push(DoctorFinding::of(&is::SOCKET_NOT_ALLOWED, off).seen("getsockopt", said));
    }
    paths(pid, &with_peer, options, findings, facts);
}

/// Examines the path of each socket, once for equal ones.
fn paths(
    pid: u32,
    sockets: &[(i32, Known, SocketAddr)],
    options: &Options,
    findings: &mut Vec<DoctorFinding>,
    facts: &mut Vec<ReportFact>,
) {
    let machine = Machine::look();
    let mut seen: Vec<Sending> = Vec::new();
    for (fd, socket, to) in sockets {
        let mut sending = Sending::to(socket.transport, *to);
        (sending.from, sending.user) = (Some(socket.from), Some(socket.user));
        let bound = pidfd::descriptor_of(pid, *fd);
        match bound.and_then(|bound| pidfd::binding(bound, sending.to.is_ipv6())) {
            Ok(bound) => {
                sending.device = bound.device;
                (sending.mark, sending.loops) = (bound.mark, bound.loops);
                sending.class = bound.class;
                if bound.gets_packets_back {
                    hidden(*fd, "it gets its packets back with timestamps", false, findings);
                }
                if bound.chooses_device {
                    hidden(*fd, "a socket option chooses the outgoing device", false, findings);
                }
            }
            Err(errno) => hidden(*fd, &errno.to_string(), true, findings),
        }
        let port =
            |one: &Sending| Sending { from: one.from.map(|from| (from.ip(), 0).into()), ..*one };
        let alike = |known: &Sending| match machine.may_see_ports(to.is_ipv6()) {
            true => *known == sending,
            false => {
                let to = SocketAddr::new(sending.to.ip(), known.to.port());
                port(known) == port(&Sending { to, ..sending })
            }
        };
        if seen.iter().any(alike) {
            continue;
        }
        if seen.len() == MAX_ADDRESSES {
            let why = format!("{MAX_ADDRESSES} paths of {} sockets are examined", sockets.len());
            let rest = DoctorFinding::of(&is::NOT_SEEN, ProcessFound::SocketsLeftOut);
            findings.push(rest.seen("/proc/PID/fd", why));
            break;
        }
        seen.push(sending);
        let report = super::sending(&machine, sending, *to, options);
        facts.push(ReportFact { name: "address", value: report.headline.clone() });
        add_new(findings, report.findings);
    }
}

fn hidden(fd: i32, why: &str, needs_root: bool, findings: &mut Vec<DoctorFinding>) {
    let unseen = ProcessFound::BindingNotSeen { descriptor: fd };
    let finding = DoctorFinding::of(&is::NOT_SEEN, unseen).seen("pidfd_getfd", why);
    findings.push(match needs_root {
        true => finding.step(NextStep::Root, true),
        false => finding,
    });
}

/// Returns the descriptors of Multipath TCP sockets, which the TCP tables show as their first subflow.
fn multipath(pid: u32, sockets: &[(i32, u64)]) -> Vec<i32> {
    let is_multipath = |fd: i32| {
        let socket = pidfd::descriptor_of(pid, fd);
        socket.and_then(pidfd::is_multipath) == Ok(true)
    };
    sockets.iter().map(|(fd, _)| *fd).filter(|fd| is_multipath(*fd)).collect()
}

/// Returns every TCP and UDP socket of this network namespace.
fn known() -> Vec<Known> {
    let tables = [
        ("tcp", Transport::Tcp),
        ("tcp6", Transport::Tcp),
        ("udp", Transport::Udp),
        ("udp6", Transport::Udp),
    ];
    let mut found = Vec::new();
    for (name, transport) in tables {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        found.extend(table.lines().filter_map(|line| {
            let (user, inode, from, to) = socket_in(line)?;
            Some(Known { inode, transport, user, from, to })
        }));
    }
    found
}

/// Parses a line of the tables (`tcp4_seq_show` and others): number, own address, peer, state, queues,
/// timer, retransmissions, user, timeout, inode. A peer port of 0 means that there is no peer.
fn socket_in(line: &str) -> Option<(u32, u64, SocketAddr, Option<SocketAddr>)> {
    let mut words = line.split_whitespace();
    let mut address = |place: usize| {
        let (address, port) = words.nth(place)?.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        Some(SocketAddr::new(address_in(address)?, port))
    };
    let (from, to) = (address(1)?, address(0)?);
    let user = words.nth(4)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some((user, inode, from, Some(to).filter(|to| to.port() != 0)))
}

/// Parses an address: each four bytes as a hexadecimal number in native byte order.
fn address_in(text: &str) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    let mut length = 0;
    while let Some(digits) = text.get(length * 2..length * 2 + 8).filter(|_| length < 16) {
        let number = u32::from_str_radix(digits, 16).ok()?;
        bytes[length..length + 4].copy_from_slice(&number.to_ne_bytes());
        length += 4;
    }
    match length {
        4 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        16 => Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()),
        _ => None,
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_parsed() {
        for (line, expected) in [
            (
                "  1: 0100007F:0016 0200000A:CC12 01 00000000:00000000 00:00000000 00000000     0        0 4711 1",
                Some((0, 4711, "127.0.0.1:22", Some("10.0.0.2:52242"))),
            ),
            (
                "  2: 00000000000000000000000001000000:0277 0000000000000000FFFF00000200000A:0050 01 00000000:00000000 00:00000000 00000000  1000        0 12 1",
                Some((1000, 12, "[::1]:631", Some("10.0.0.2:80"))),
            ),
            // It listens.
            (
                "  0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9 1",
                Some((0, 9, "0.0.0.0:8080", None)),
            ),
            (
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
                None,
            ),
        ] {
            let address = |text: &str| text.parse::<SocketAddr>().unwrap();
            let expected = expected
                .map(|(user, inode, from, to)| (user, inode, address(from), to.map(address)));
            assert_eq!(socket_in(line), expected, "{line}");
        }
    }

    #[test]
    fn this_process_is_examined() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let report = process(std::process::id(), &Options::default()).unwrap();
        assert!(report.finding("loopback").is_some(), "{report:#?}");
        assert!(report.headline.contains(&format!("pid {}", std::process::id())), "{report:#?}");
        assert!(process(u32::MAX, &Options::default()).is_err());
    }
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(line: &str) {
    let _ = (socket_in(line), address_in(line));
}
