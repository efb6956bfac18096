//! Sockets of `unix(7)` of this network namespace (`sock_diag(7)`, `linux/unix_diag.h`). Every user may ask.

use rustix::net::netlink::SOCK_DIAG;

use super::{Netlink, Request, attribute, number_at};
use crate::Sys;
use uncopy_core::Errno;

/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;
/// `struct unix_diag_req` and `struct unix_diag_msg`.
const REQUEST_BYTES: usize = 24;
const ANSWER_BYTES: usize = 16;
/// `UDIAG_SHOW_PEER`, `UDIAG_SHOW_RQLEN`, `UDIAG_SHOW_MEMINFO`.
const SHOW: u32 = 0x4 | 0x10 | 0x20;
/// `UNIX_DIAG_PEER`, `UNIX_DIAG_RQLEN`, `UNIX_DIAG_MEMINFO`, `UNIX_DIAG_SHUTDOWN`.
const PEER: u16 = 2;
const QUEUES: u16 = 4;
const MEMORY: u16 = 5;
const SHUTDOWN: u16 = 6;
/// `SK_MEMINFO_SNDBUF` (`linux/sock_diag.h`).
const SEND_BUFFER: usize = 3;
/// `TCP_ESTABLISHED`, which sockets of `unix(7)` use too (`net/tcp_states.h`).
const ESTABLISHED: u8 = 1;
/// `SHUTDOWN_MASK` (`net/sock.h`).
const BOTH_DIRECTIONS: u8 = 3;

/// A socket of `unix(7)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixSocket {
    /// Type: `SOCK_SEQPACKET` and others.
    pub kind: i32,
    pub is_connected: bool,
    pub is_shut_down: bool,
    /// Inode of the other end; `None`: it is closed.
    pub peer: Option<u64>,
    /// Bytes of all messages that can be received.
    pub unread_bytes: Option<u64>,
    /// Bytes that were sent and not yet received, with the kernel's overhead.
    pub charged_bytes: Option<u64>,
    pub send_buffer_bytes: Option<u64>,
}

/// Returns the socket with this inode.
///
/// # Errors
/// `ENOENT`: this network namespace has no such socket of `unix(7)`, or the kernel was built without
/// `CONFIG_UNIX_DIAG`.
pub fn socket(inode: u64) -> Sys<UnixSocket> {
    let number = u32::try_from(inode).map_err(|_| Errno::ENOENT)?;
    let mut fixed = [0; REQUEST_BYTES];
    fixed[0] = libc::AF_UNIX as u8;
    fixed[8..12].copy_from_slice(&number.to_ne_bytes());
    fixed[12..16].copy_from_slice(&SHOW.to_ne_bytes());
    // `INET_DIAG_NOCOOKIE`: whichever socket has the inode.
    fixed[16..24].fill(0xff);
    let answers = Netlink::open(Some(SOCK_DIAG))?.query(Request::new(BY_FAMILY, &fixed))?;
    answers.first().and_then(|answer| socket_in(answer)).ok_or(Errno::EIO)
}

fn socket_in(answer: &[u8]) -> Option<UnixSocket> {
    let (fixed, rest) = answer.split_at_checked(ANSWER_BYTES)?;
    let number = |kind, index: usize| {
        attribute(rest, kind).and_then(|value| number_at(value, 4 * index)).map(u64::from)
    };
    let shutdown = attribute(rest, SHUTDOWN).and_then(|value| value.first().copied());
    Some(UnixSocket {
        kind: i32::from(fixed[1]),
        is_connected: fixed[2] == ESTABLISHED,
        is_shut_down: shutdown == Some(BOTH_DIRECTIONS),
        // The inode of a closed socket is 0.
        peer: number(PEER, 0).filter(|inode| *inode != 0),
        unread_bytes: number(QUEUES, 0),
        charged_bytes: number(QUEUES, 1),
        send_buffer_bytes: number(MEMORY, SEND_BUFFER),
    })
}

#[cfg(fuzzing)]
pub fn fuzz(answer: &[u8]) {
    let _ = socket_in(answer);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{file, seqpacket};

    fn inode(fd: impl AsFd) -> u64 {
        file::inode(fd).unwrap()
    }

    #[test]
    fn both_ends_and_their_queues_are_found() {
        let (near, far) = seqpacket::pair().unwrap();
        let found = match socket(inode(&near)) {
            // Kernels without CONFIG_UNIX_DIAG.
            Err(Errno::ENOENT) => return,
            found => found.unwrap(),
        };
        assert_eq!((found.kind, found.is_connected), (libc::SOCK_SEQPACKET, true));
        assert_eq!((found.peer, found.is_shut_down), (Some(inode(&far)), false));
        assert_eq!((found.unread_bytes, found.charged_bytes), (Some(0), Some(0)));
        let buffer = seqpacket::send_buffer_bytes(&near).unwrap();
        assert_eq!(found.send_buffer_bytes, Some(buffer as u64));
        seqpacket::send(&near, &[seqpacket::Part::of(&[7; 300])], &[]).unwrap();
        let charged = socket(inode(&near)).unwrap().charged_bytes;
        assert_eq!(charged, Some(seqpacket::unsent_bytes(&near) as u64));
        assert_eq!(socket(inode(&far)).unwrap().unread_bytes, Some(300));
        drop(far);
        let alone = socket(inode(&near)).unwrap();
        assert_eq!((alone.peer, alone.is_shut_down), (None, true));
        let internet = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(socket(inode(&internet)), Err(Errno::ENOENT));
        assert_eq!(socket(u64::MAX), Err(Errno::ENOENT));
    }

    #[test]
    fn malformed_answers_are_refused() {
        assert_eq!(socket_in(&[0; ANSWER_BYTES - 1]), None);
        let empty = socket_in(&[0; ANSWER_BYTES]).unwrap();
        assert_eq!((empty.peer, empty.send_buffer_bytes, empty.is_shut_down), (None, None, false));
        let short = [&[0; ANSWER_BYTES][..], &[6, 0, 2, 0, 1, 1]].concat();
        assert_eq!(socket_in(&short).unwrap().peer, None);
    }
}
