//! The connected sockets of a process.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::address;
use crate::doctor::Options;
use crate::doctor::condition as is;
use crate::doctor::finding::{Finding, add_new};
use crate::doctor::process::{program_of, sockets_of};
use crate::doctor::report::{Fact, Report};
use crate::error::{Errno, Error, Result};
use crate::send::Transport;
use crate::sys::pidfd;

/// Addresses that are looked at; of more the first count.
const MAX_ADDRESSES: usize = 32;

/// A socket that has a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connected {
    inode: u64,
    transport: Transport,
    to: SocketAddr,
}

/// What there is to say about what a process sends.
///
/// # Errors
/// There is no such process.
pub(in crate::doctor) fn process(pid: u32, options: &Options) -> Result<Report> {
    let missing = || Error::system("find the process", pid.to_string(), Errno::ESRCH);
    if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
        return Err(missing());
    }
    let program = format!("{} (pid {pid})", program_of(pid));
    let mut findings = Vec::new();
    let mut facts = Vec::new();
    match (elsewhere(pid), sockets_of(pid)) {
        (Some(said), _) => {
            let summary = format!("{program} lives in another network");
            findings
                .push(Finding::of(&is::OTHER_NAMESPACE, summary).seen("/proc/PID/ns/net", said));
        }
        (None, Ok(sockets)) => look_at(&program, pid, &sockets, options, &mut findings, &mut facts),
        (None, Err(error)) if error.kind() == ErrorKind::NotFound => return Err(missing()),
        (None, Err(error)) => {
            let summary = format!("{program} does not show its sockets");
            let hidden = Finding::of(&is::SOCKETS_HIDDEN, summary);
            findings.push(hidden.seen("/proc/PID/fd", error.to_string()));
        }
    }
    let subject = format!("What {program} sends");
    Ok(Report::conclude(format!("pid {pid}"), &subject, findings, facts))
}

/// The network of the process, and of this thread, if they differ.
fn elsewhere(pid: u32) -> Option<String> {
    let theirs = fs::read_link(format!("/proc/{pid}/ns/net")).ok()?;
    let ours = fs::read_link("/proc/thread-self/ns/net").ok()?;
    (theirs != ours).then(|| format!("{}, here {}", theirs.display(), ours.display()))
}

fn look_at(
    program: &str,
    pid: u32,
    sockets: &[(i32, u64)],
    options: &Options,
    findings: &mut Vec<Finding>,
    facts: &mut Vec<Fact>,
) {
    let connected = connected();
    let own: Vec<(i32, Connected)> = sockets
        .iter()
        .filter_map(|(fd, inode)| Some((*fd, *connected.iter().find(|c| c.inode == *inode)?)))
        .collect();
    facts.push(Fact { name: "sockets", value: format!("{} with a peer", own.len()) });
    if own.is_empty() {
        let said = format!("{} sockets, none of TCP or UDP with a peer", sockets.len());
        let summary = format!("{program} has no socket with a peer");
        findings.push(Finding::of(&is::NO_SOCKETS, summary).seen("/proc/PID/fd", said));
    }
    let refusing = own.iter().filter(|(fd, _)| {
        let socket = pidfd::descriptor_of(pid, *fd);
        socket.and_then(pidfd::allows_zerocopy) == Ok(false)
    });
    let refusing: Vec<String> = refusing.map(|(fd, _)| fd.to_string()).collect();
    if !refusing.is_empty() {
        let summary = format!("{} of its sockets do not have SO_ZEROCOPY", refusing.len());
        let said = format!("SO_ZEROCOPY is off on descriptors {}", refusing.join(", "));
        findings.push(Finding::of(&is::SOCKET_NOT_ALLOWED, summary).seen("getsockopt", said));
    }
    let mut addresses: Vec<(Transport, SocketAddr)> = Vec::new();
    for (_, socket) in &own {
        let known = |(kind, to): &(Transport, SocketAddr)| {
            *kind == socket.transport && to.ip() == socket.to.ip()
        };
        if !addresses.iter().any(known) && addresses.len() < MAX_ADDRESSES {
            addresses.push((socket.transport, socket.to));
        }
    }
    for (transport, to) in addresses {
        let report = address(transport, to, options);
        facts.push(Fact { name: "address", value: report.headline.clone() });
        add_new(findings, report.findings);
    }
}

/// Every socket of this network that has a peer.
fn connected() -> Vec<Connected> {
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
            let (inode, to) = peer_in(line)?;
            Some(Connected { inode, transport, to })
        }));
    }
    found
}

/// A line of the tables (`tcp4_seq_show` and others): number, own address, peer, state, queues,
/// timer, retransmissions, user, timeout, inode.
fn peer_in(line: &str) -> Option<(u64, SocketAddr)> {
    let mut words = line.split_whitespace();
    let (address, port) = words.nth(2)?.split_once(':')?;
    let inode = words.nth(6)?.parse().ok()?;
    let port = u16::from_str_radix(port, 16).ok().filter(|port| *port != 0)?;
    Some((inode, SocketAddr::new(address_in(address)?, port)))
}

/// Each four bytes of an address as a number of this machine, in hexadecimal.
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
    fn the_kernels_tables_are_understood() {
        for (line, expected) in [
            (
                "  1: 0100007F:0016 0200000A:CC12 01 00000000:00000000 00:00000000 00000000     0        0 4711 1",
                Some((4711, "10.0.0.2:52242")),
            ),
            (
                "  2: 00000000000000000000000001000000:0277 0000000000000000FFFF00000200000A:0050 01 00000000:00000000 00:00000000 00000000     0        0 12 1",
                Some((12, "10.0.0.2:80")),
            ),
            // It listens.
            (
                "  0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9 1",
                None,
            ),
            (
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
                None,
            ),
        ] {
            let found = peer_in(line).map(|(inode, to)| (inode, to.to_string()));
            assert_eq!(found, expected.map(|(inode, to)| (inode, to.to_owned())), "{line}");
        }
    }

    #[test]
    fn this_process_is_looked_at() {
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
pub(super) fn fuzz(line: &str) {
    let _ = (peer_in(line), address_in(line));
}
