//! Memory lent to the kernel by `MSG_ZEROCOPY`, and what is needed to know when it is free again.
//!
//! Soundness is here, and rests on four things. A payload that any part was sent of without copying
//! is owned by a [`InFlight`], which gives no reference to it. It leaves a flight only when the
//! kernel has reported every number that its parts got. The numbers are the kernel's, because
//! nobody else sends on the [`InetSocket`]. And a flight that is dropped hands socket and payloads to
//! the [`parking`] lot, where the same rules go on; one that is forgotten keeps them for ever.

mod errqueue;
mod ids;
mod ledger;
#[cfg(test)]
mod model;
pub(crate) mod parking;

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use rustix::net::SendFlags;

use super::inet::{InetSocket, Transport};
use super::writer::Writer;
use crate::room::{ByteRange, Payload, StableBytes};
use uncopy_core::Errno;
use uncopy_os::Sys;

#[cfg(fuzzing)]
pub use errqueue::fuzz as fuzz_error_queue;
use ledger::Ledger;

/// Regions that one call takes (`UIO_MAXIOV`).
pub(crate) const MAX_REGIONS: usize = 1024;
/// Regions that need no allocation.
const FEW_REGIONS: usize = 16;

/// `MSG_ZEROCOPY`, which rustix does not name.
const ZEROCOPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);

/// How the bytes of one payload went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Parts that the kernel copied in the call.
    pub(crate) copied_parts: u32,
    /// Parts that it took without copying.
    pub(crate) lent_parts: u32,
    /// It reported that it copied some of the latter later.
    pub(crate) copied_later: bool,
    /// It does not say whether it did.
    pub(crate) is_unreported: bool,
    /// Bytes of all parts.
    pub(crate) bytes: usize,
}

/// A payload that the kernel needs no more.
#[derive(Debug)]
pub(crate) struct Completed<B> {
    pub(crate) number: u64,
    pub(crate) payload: Payload<B>,
    pub(crate) usage: Usage,
}

/// Errors in the queue that have nothing to do with what was sent here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) count: u64,
    pub(crate) last: Option<Errno>,
}

/// Why nothing can be lent on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LendingRefusal {
    /// The socket does not take it.
    NotSupported,
    /// A datagram failed and may have been counted.
    CountUncertain,
}

/// Payloads on their way over one socket.
pub(crate) struct InFlight<B: StableBytes> {
    lent: LentSocket<B>,
    /// `None`: nothing more is sent.
    writer: Option<Writer>,
    /// Nothing can be lent, since the socket does not take `MSG_ZEROCOPY` (before Linux 4.14, for
    /// UDP 5.0), so that the flag would be ignored and nothing reported; or nothing more, since the
    /// kernel's count is not certain.
    refusal: Option<LendingRefusal>,
    /// How long socket and memory are parked before the connection is aborted.
    pub(crate) linger: Duration,
}

/// What outlives a flight in the parking lot.
struct LentSocket<B> {
    socket: Arc<InetSocket>,
    ledger: Ledger<B>,
}

impl<B: StableBytes> InFlight<B> {
    /// For the socket, on which nobody else sends with `MSG_ZEROCOPY`.
    pub(crate) fn new(socket: InetSocket, linger: Duration) -> InFlight<B> {
        let refusal = socket.allow_zerocopy().err().map(|_| LendingRefusal::NotSupported);
        let lent = LentSocket { socket: Arc::new(socket), ledger: Ledger::new() };
        let writer = Some(Writer::new(lent.socket.clone()));
        InFlight { lent, writer, refusal, linger }
    }

    /// Nothing more is sent: the stream ends, unless others send on it.
    pub(crate) fn end_stream(&mut self) {
        self.writer = None;
    }

    pub(crate) fn socket(&self) -> &Arc<InetSocket> {
        &self.lent.socket
    }

    /// Why nothing can be lent on this socket.
    pub(crate) fn refusal(&self) -> Option<LendingRefusal> {
        self.refusal
    }

    /// Numbers that the kernel has not reported.
    pub(crate) fn outstanding(&self) -> usize {
        self.lent.ledger.outstanding()
    }

    /// The numbers do not add up: somebody else sent on the socket.
    pub(crate) fn is_lost(&self) -> bool {
        self.lent.ledger.is_lost()
    }

    /// Takes a payload in; gives its number.
    pub(crate) fn begin(&mut self, payload: Payload<B>) -> u64 {
        self.lent.ledger.begin(payload)
    }

    /// The number of a payload that is not taken in.
    pub(crate) fn skip_number(&mut self) -> u64 {
        self.lent.ledger.skip_number()
    }

    /// Sends a range of a payload that was begun and not ended, as far as the kernel takes it without
    /// waiting.
    ///
    /// A datagram is sent whole or not at all. After one that was to be lent and failed, the error queue
    /// is read, which shows whether the kernel counted it.
    // In line, as [`send_copied`].
    #[inline(always)]
    pub(crate) fn send_part(
        &mut self,
        number: u64,
        range: ByteRange,
        to: Option<SocketAddr>,
        lend: bool,
    ) -> Sys<usize> {
        if lend && self.refusal.is_some() {
            return Err(Errno::EOPNOTSUPP);
        }
        let LentSocket { socket, ledger } = &mut self.lent;
        // The payload stays in the ledger until the kernel has reported all its parts.
        let payload = ledger.open(number).ok_or(Errno::EINVAL)?;
        let transport = socket.transport();
        let flags = if lend { ZEROCOPY } else { SendFlags::empty() };
        let send = |regions: &[IoSlice<'_>]| socket.send_with(regions, to, flags);
        let sent = with_regions(payload, range, transport, lend, send);
        let is_datagram = transport == Transport::Udp;
        match sent {
            // A stream numbers no send that took no bytes (`tcp_sendmsg_locked`).
            Ok(bytes) => ledger.record(number, bytes, lend && (is_datagram || bytes > 0)),
            Err(errno) if lend && is_datagram => self.settle(errno),
            Err(_) => {}
        }
        sent
    }

    /// Finds out whether a datagram that failed with this error was counted.
    #[cold]
    fn settle(&mut self, errno: Errno) {
        self.lent.ledger.doubt();
        let is_read = self.lent.drain().is_ok();
        let is_open = self.lent.ledger.settle();
        if !is_read || (is_open && !is_uncounted(errno)) {
            self.refusal = Some(LendingRefusal::CountUncertain);
        }
    }

    /// No more parts of this payload follow: it lands when the kernel needs it no more.
    pub(crate) fn end(&mut self, number: u64) {
        self.lent.ledger.end(number);
    }

    /// Reads the error queue to its end.
    ///
    /// # Errors
    /// The socket's own. What was read before counts.
    pub(crate) fn drain(&mut self) -> Sys<()> {
        self.lent.drain()
    }

    /// Errors of other origin that were in the queue.
    pub(crate) fn foreign(&self) -> Foreign {
        self.lent.ledger.foreign()
    }

    /// What has landed since this was last asked, in the order in which it did.
    #[inline]
    pub(crate) fn newly_completed(&mut self) -> (&InetSocket, impl Iterator<Item = &Completed<B>>) {
        (&self.lent.socket, self.lent.ledger.newly_completed())
    }

    /// How many have landed and were not taken.
    #[inline]
    pub(crate) fn completed(&self) -> usize {
        self.lent.ledger.completed()
    }

    /// The next payload that has landed, in the order in which they did.
    #[inline]
    pub(crate) fn next_completed(&mut self) -> Option<Completed<B>> {
        self.lent.ledger.next_completed()
    }

    /// This payload was not given back.
    #[cfg(feature = "tokio")]
    pub(crate) fn has(&self, number: u64) -> bool {
        self.lent.ledger.has(number)
    }
}

impl<B: StableBytes> LentSocket<B> {
    fn drain(&mut self) -> Sys<()> {
        let LentSocket { socket, ledger } = self;
        while errqueue::drain(socket.fd(), |report| ledger.report(report))? {}
        Ok(())
    }
}

/// Has the kernel copy a range of a payload, as far as there is room.
#[inline(always)]
pub(crate) fn send_copied<B: StableBytes>(
    socket: &InetSocket,
    payload: &Payload<B>,
    range: ByteRange,
    to: Option<SocketAddr>,
) -> Sys<usize> {
    let send = |regions: &[IoSlice<'_>]| socket.send_with(regions, to, SendFlags::empty());
    with_regions(payload, range, socket.transport(), false, send)
}

/// Calls `send` with the regions of a range: for a datagram with all of them, put together by a copy if
/// they are more than one call takes; for a stream with as many as one call takes.
// In line: processors that lose their return predictions in a system call mispredict the returns after it.
#[inline(always)]
fn with_regions<B: StableBytes, T>(
    payload: &Payload<B>,
    range: ByteRange,
    transport: Transport,
    lend: bool,
    send: impl FnOnce(&[IoSlice<'_>]) -> Sys<T>,
) -> Sys<T> {
    if let [only] = payload.as_slice() {
        return send(&[IoSlice::new(range.of(only.bytes()))]);
    }
    with_several(payload, range, transport, lend, send)
}

/// Does the same for a payload of several regions.
#[inline(never)]
fn with_several<B: StableBytes, T>(
    payload: &Payload<B>,
    range: ByteRange,
    transport: Transport,
    lend: bool,
    send: impl FnOnce(&[IoSlice<'_>]) -> Sys<T>,
) -> Sys<T> {
    let mut regions = payload.regions(range);
    let few: ArrayVec<IoSlice<'_>, FEW_REGIONS> = regions.by_ref().take(FEW_REGIONS).collect();
    if few.len() < FEW_REGIONS {
        return send(&few);
    }
    let all: Vec<IoSlice<'_>> = few.into_iter().chain(regions).collect();
    if all.len() <= MAX_REGIONS {
        send(&all)
    } else if transport == Transport::Tcp {
        send(&all[..MAX_REGIONS])
    } else if lend {
        // The kernel answers the same for far fewer regions; the next attempt copies.
        Err(Errno::EMSGSIZE)
    } else {
        let slices: Vec<&[u8]> = all.iter().map(|region| &**region).collect();
        send(&[IoSlice::new(&slices.concat())])
    }
}

/// Whether a datagram that was to be lent, that failed with this error, and whose number was not
/// found in the queue, was surely not counted.
///
/// These come before the kernel has put a packet together, and it gives the number back
/// (`msg_zerocopy_put_abort`), or before it takes one. Of others it is not certain.
fn is_uncounted(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EAGAIN
            | Errno::ENOBUFS
            | Errno::ENOMEM
            | Errno::EMSGSIZE
            | Errno::EFAULT
            | Errno::ECONNREFUSED
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
            | Errno::EDESTADDRREQ
            | Errno::EAFNOSUPPORT
            | Errno::EACCES
            | Errno::EPIPE
    )
}

impl<B: StableBytes> Drop for InFlight<B> {
    fn drop(&mut self) {
        let left = self.lent.ledger.leave();
        if self.lent.socket.is_inherited() {
            // A child of `fork(2)` has no right to the reports, nor the lot's thread.
            std::mem::forget(left);
            return;
        }
        // Before the socket is parked, which has its own.
        self.end_stream();
        if let Some(ledger) = left {
            let left = LentSocket { socket: self.lent.socket.clone(), ledger };
            parking::park(Box::new(left), self.linger);
        }
    }
}

impl<B: StableBytes> parking::Parkable for LentSocket<B> {
    fn socket(&self) -> &dyn parking::ParkedSocket {
        &self.socket
    }

    fn is_alone(&self) -> bool {
        self.socket.is_left()
    }

    fn drain(&mut self) -> bool {
        // An error of the queue leaves what is outstanding outstanding.
        let _ = LentSocket::drain(self);
        self.ledger.is_drained()
    }

    fn is_lost(&self) -> bool {
        self.ledger.is_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::is_uncounted;
    use uncopy_core::Errno;

    #[test]
    fn refusals_from_behind_the_socket_leave_the_count_uncertain() {
        // A firewall, a device that is down, the checks of a train of segments.
        for errno in [Errno::EPERM, Errno::ENETDOWN, Errno::EINVAL, Errno::EIO, Errno::ENODEV] {
            assert!(!is_uncounted(errno), "{errno}");
        }
        for errno in [Errno::EAGAIN, Errno::ENOBUFS, Errno::EMSGSIZE, Errno::ECONNREFUSED] {
            assert!(is_uncounted(errno), "{errno}");
        }
    }
}
