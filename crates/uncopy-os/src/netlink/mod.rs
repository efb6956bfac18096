//! Requests to the kernel by `netlink(7)`.
//!
//! The existing crates bring an asynchronous runtime and a type for every attribute. A handful of requests
//! needs only this: building a message and parsing the answers.

pub mod ethtool;
pub mod firewall;
pub mod neighbour;
pub mod packet_diag;
pub mod route;
pub mod rule;
pub mod traffic;
pub mod unix_diag;
pub mod xfrm;

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// `struct nlmsghdr` (`linux/netlink.h`).
const HEADER_BYTES: usize = 16;
/// `struct nlattr`, and `struct rtattr`, before the value.
const ATTRIBUTE_BYTES: usize = 4;
/// Mask of an attribute's type, without the flags `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const ATTRIBUTE_KIND: u16 = 0x3fff;
const NESTED: u16 = 0x8000;
/// Size of the receive buffer. A dump comes in parts of at most 32 KiB (`netlink_dump` in
/// `net/netlink/af_netlink.c`); other answers are about a page.
const ANSWER_BYTES: usize = 128 << 10;
/// Flag of a dump that changed while the kernel listed it, so that entries are missing or listed twice
/// (`NLM_F_DUMP_INTR`, `netlink(7)`).
const DUMP_INTERRUPTED: u16 = 0x10;
/// Maximum number of attempts to get a dump that does not change meanwhile.
const MAX_DUMP_ATTEMPTS: u32 = 8;

/// A request: header, fixed part, attributes.
pub struct Request(Vec<u8>);

impl Request {
    /// Creates a request of a message type with its fixed part.
    pub fn new(kind: u16, fixed: &[u8]) -> Request {
        let mut bytes = Vec::with_capacity(64);
        // Length, set at the end; type; flags; sequence number; port.
        bytes.extend([0; 4]);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        Request(bytes)
    }

    /// Makes it a dump request, which lists all objects.
    pub fn dump(mut self) -> Request {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        self.0[6..8].copy_from_slice(&flags.to_ne_bytes());
        self
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Request {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self
    }

    /// Adds an attribute that contains attributes.
    pub fn with_nested(self, kind: u16, inner: &[(u16, &[u8])]) -> Request {
        let empty = Request(Vec::new());
        let inner = inner.iter().fold(empty, |inner, (kind, value)| inner.with(*kind, value));
        self.with(kind | NESTED, &inner.0)
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }

    fn is_dump(&self) -> bool {
        let flags = short_at(&self.0, 6).map_or(0, i32::from);
        flags & libc::NLM_F_DUMP == libc::NLM_F_DUMP
    }
}

/// A netlink socket with one request at a time.
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Opens a socket of this protocol; `None`: `rtnetlink(7)`.
    pub fn open(protocol: Option<Protocol>) -> Sys<Netlink> {
        let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, protocol)?;
        Ok(Netlink(socket))
    }

    /// Makes the kernel refuse requests that it does not fully support (`NETLINK_GET_STRICT_CHK`, Linux 4.20).
    pub fn check_strictly(&self) -> Sys<()> {
        let on: libc::c_int = 1;
        let length = size_of_val(&on) as libc::socklen_t;
        // SAFETY: the option's value is an int and outlives the call, which only reads it.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_NETLINK,
                libc::NETLINK_GET_STRICT_CHK,
                (&raw const on).cast(),
                length,
            )
        };
        if set == 0 { Ok(()) } else { Err(last_errno()) }
    }

    /// Sends a request and returns the answers, without their headers.
    pub fn query(&self, request: Request) -> Sys<Vec<Vec<u8>>> {
        let is_dump = request.is_dump();
        let request = request.finish();
        let mut attempts = 0;
        loop {
            rustix::net::send(&self.0, &request, SendFlags::empty())?;
            let Received { answers, is_inconsistent } = self.receive(is_dump)?;
            attempts += 1;
            match is_inconsistent {
                false => return Ok(answers),
                true if attempts < MAX_DUMP_ATTEMPTS => {}
                true => return Err(Errno::EBUSY),
            }
        }
    }

    fn receive(&self, is_dump: bool) -> Sys<Received> {
        // Not zeroed: touching all of it would take longer than the request.
        let mut buffer = Vec::with_capacity(ANSWER_BYTES);
        let mut all = Received::default();
        loop {
            buffer.clear();
            let (_, length) = rustix::io::retry_on_intr(|| {
                rustix::net::recv(&self.0, spare_capacity(&mut buffer), RecvFlags::TRUNC)
            })?;
            // The rest of an answer that does not fit is lost.
            let received = buffer.get(..length).ok_or(Errno::EMSGSIZE)?;
            if split(received, is_dump, &mut all)? {
                return Ok(all);
            }
        }
    }
}

/// Answers to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Received {
    answers: Vec<Vec<u8>>,
    is_inconsistent: bool,
}

/// Parses received messages into `all`. Returns whether the last message was among them.
fn split(received: &[u8], is_dump: bool, all: &mut Received) -> Sys<bool> {
    let mut at = 0;
    while at < received.len() {
        let rest = &received[at..];
        let length = number_at(rest, 0).ok_or(Errno::EIO)? as usize;
        let answer = rest.get(HEADER_BYTES..length).ok_or(Errno::EIO)?;
        all.is_inconsistent |=
            is_dump && short_at(rest, 6).is_some_and(|flags| flags & DUMP_INTERRUPTED != 0);
        let errno = number_at(answer, 0).map(|number| (number as i32).wrapping_neg());
        match short_at(rest, 4).map(i32::from) {
            // A refused dump ends with the error, possibly without entries before it (`netlink_dump_done`
            // in `net/netlink/af_netlink.c`).
            Some(libc::NLMSG_DONE) => {
                return errno
                    .filter(|errno| *errno > 0)
                    .map_or(Ok(true), |errno| Err(Errno::from_raw(errno)));
            }
            Some(libc::NLMSG_ERROR) => {
                return Err(Errno::from_raw(errno.unwrap_or(libc::EIO)));
            }
            Some(libc::NLMSG_NOOP) => {}
            _ => all.answers.push(answer.to_vec()),
        }
        at += length.next_multiple_of(4);
    }
    Ok(!is_dump && !all.answers.is_empty())
}

/// Iterates over attributes, up to the first malformed one.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(short_at(rest, 0)?);
        let kind = short_at(rest, 2)? & ATTRIBUTE_KIND;
        let value = rest.get(ATTRIBUTE_BYTES..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Returns the value of the first attribute of this type.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Returns a string, with or without a terminating zero.
pub fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Returns the `u32` at `at`, in native byte order.
pub fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the `u16` at `at`, in native byte order.
pub fn short_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Entry point for `fuzz/`: parses the bytes as received messages, and as each type of answer.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    for is_dump in [true, false] {
        let mut all = Received { answers: vec![bytes.to_vec()], is_inconsistent: false };
        let _ = split(bytes, is_dump, &mut all);
        for answer in &all.answers {
            ethtool::fuzz(answer);
            firewall::fuzz(answer);
            packet_diag::fuzz(answer);
            route::fuzz(answer);
            rule::fuzz(answer);
            traffic::fuzz(answer);
            unix_diag::fuzz(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Request::new(kind as u16, payload).finish();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn requests_have_the_kernels_layout() {
        let bytes = Request::new(26, &[2, 32, 0, 0])
            .with(1, &[192, 0, 2])
            .with_nested(3, &[(1, &[7]), (2, &[8])])
            .finish();
        assert_eq!(number_at(&bytes, 0), Some(bytes.len() as u32));
        assert_eq!((short_at(&bytes, 4), short_at(&bytes, 6)), (Some(26), Some(1)));
        let fixed = HEADER_BYTES + 4;
        let found: Vec<_> = attributes(&bytes[fixed..]).collect();
        assert_eq!(found[0], (1, &[192, 0, 2][..]));
        let inner: Vec<_> = attributes(found[1].1).collect();
        assert_eq!((found[1].0, inner), (3, vec![(1, &[7][..]), (2, &[8][..])]));
    }

    #[test]
    fn answers_end_where_the_kernel_says() {
        let mut all = Received::default();
        let two = [message(20, &[1; 5]), message(20, &[2; 8])].concat();
        assert_eq!(split(&two, true, &mut all), Ok(false));
        assert_eq!(split(&message(libc::NLMSG_DONE, &[0; 4]), true, &mut all), Ok(true));
        assert_eq!(all.answers, [vec![1; 5], vec![2; 8]]);
        assert!(!all.is_inconsistent);
        let mut fresh = Received::default();
        assert_eq!(split(&message(20, &[3; 4]), false, &mut fresh), Ok(true));
        let refused = message(libc::NLMSG_ERROR, &(-libc::ENETUNREACH).to_ne_bytes());
        assert_eq!(split(&refused, false, &mut fresh), Err(Errno::ENETUNREACH));
        // The kernel refuses a dump of another network's addresses like this.
        let refused = message(libc::NLMSG_DONE, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(split(&refused, true, &mut fresh), Err(Errno::EPERM));
    }

    #[test]
    fn a_dump_that_changed_meanwhile_is_detected() {
        let mut torn = message(20, &[1; 8]);
        torn[6..8].copy_from_slice(&DUMP_INTERRUPTED.to_ne_bytes());
        let mut all = Received::default();
        assert_eq!(split(&torn, true, &mut all), Ok(false));
        assert!(all.is_inconsistent);
    }

    #[test]
    fn malformed_answers_are_errors_and_do_not_loop() {
        let whole = message(20, &[9; 20]);
        for end in 1..whole.len() {
            assert!(split(&whole[..end], false, &mut Received::default()).is_err(), "{end}");
        }
        // An error number that cannot be negated.
        let least = message(libc::NLMSG_ERROR, &i32::MIN.to_ne_bytes());
        assert!(split(&least, false, &mut Received::default()).is_err());
        // An attribute of no length.
        assert_eq!(attributes(&[0; 8]).count(), 0);
        assert_eq!(attributes(&[200, 0, 1, 0, 5]).count(), 0);
    }
}
