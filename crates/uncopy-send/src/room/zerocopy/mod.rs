//! Memory lent to the kernel by `MSG_ZEROCOPY`, and the accounts that show when it is free again.
//!
//! Soundness rests on four facts. A payload of which any part was lent is owned by an [`InFlight`],
//! which gives no reference to it. The payload leaves it only when the kernel has reported every number
//! that its parts got. The numbers are the kernel's, because only this type sends on the [`InetSocket`]
//! with `MSG_ZEROCOPY`. And an `InFlight` that is dropped hands socket and payloads to [`parking`], where
//! the same rules hold; one that is forgotten keeps them for ever.

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

/// Maximum number of regions of one call (`UIO_MAXIOV`).
pub(crate) const MAX_REGIONS: usize = 1024;
/// Number of regions from which the list is allocated.
const FEW_REGIONS: usize = 16;

/// `MSG_ZEROCOPY`, which rustix does not define.
const ZEROCOPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);

/// How the bytes of one payload were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Number of parts that the kernel copied in the call.
    pub(crate) copied_parts: u32,
    /// Number of parts that the kernel took without copying.
    pub(crate) lent_parts: u32,
    /// Whether the kernel reported that it copied lent parts later.
    pub(crate) copied_later: bool,
    /// Whether the kernel does not report that.
    pub(crate) is_unreported: bool,
    /// Number of bytes of all parts.
    pub(crate) bytes: usize,
}

/// A payload that the kernel no longer needs.
#[derive(Debug)]
pub(crate) struct Completed<B> {
    pub(crate) number: u64,
    pub(crate) payload: Payload<B>,
    pub(crate) usage: Usage,
}

/// Entries in the error queue that do not report lent memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) count: u64,
    pub(crate) last: Option<Errno>,
}

/// Why memory cannot be lent on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LendingRefusal {
    /// The socket does not support `MSG_ZEROCOPY`.
    NotSupported,
    /// A datagram failed, and the kernel may have counted it.
    CountUncertain,
}

/// The payloads in flight over one socket.
pub(crate) struct InFlight<B: StableBytes> {
    lent: LentSocket<B>,
    /// `None`: the stream was ended.
    writer: Option<Writer>,
    /// Why nothing can be lent. Where the socket does not support `MSG_ZEROCOPY` (before Linux 4.14, for UDP
    /// 5.0), the flag would be ignored and nothing reported.
    refusal: Option<LendingRefusal>,
    /// How long socket and memory stay parked before the connection is aborted.
    pub(crate) linger: Duration,
}

/// A socket and its lent payloads: the part of an [`InFlight`] that is parked when it is dropped.
struct LentSocket<B> {
    socket: Arc<InetSocket>,
    ledger: Ledger<B>,
}

impl<B: StableBytes> InFlight<B> {
    /// Makes one for a socket on which no one else sends with `MSG_ZEROCOPY`.
    pub(crate) fn new(socket: InetSocket, linger: Duration) -> InFlight<B> {
        let refusal = socket.allow_zerocopy().err().map(|_| LendingRefusal::NotSupported);
        let lent = LentSocket { socket: Arc::new(socket), ledger: Ledger::new() };
        let writer = Some(Writer::new(lent.socket.clone()));
        InFlight { lent, writer, refusal, linger }
    }

    /// Ends the stream, unless others send on the socket too.
    pub(crate) fn end_stream(&mut self) {
        self.writer = None;
    }

    pub(crate) fn socket(&self) -> &Arc<InetSocket> {
        &self.lent.socket
    }

    /// Returns why nothing can be lent on this socket.
    pub(crate) fn refusal(&self) -> Option<LendingRefusal> {
        self.refusal
    }

    /// Returns the number of reports that the kernel still owes.
    pub(crate) fn outstanding(&self) -> usize {
        self.lent.ledger.outstanding()
    }

    /// Returns whether the reports do not match the sends: something else sent on the socket.
    pub(crate) fn is_lost(&self) -> bool {
        self.lent.ledger.is_lost()
    }

    /// Takes a payload in; returns its number.
    pub(crate) fn begin(&mut self, payload: Payload<B>) -> u64 {
        self.lent.ledger.begin(payload)
    }

    /// Takes in a payload that the kernel has copied in the call, after `newly_completed` has returned all
    /// before it, and does not return it there; returns its number.
    #[inline]
    pub(crate) fn complete_copied(&mut self, payload: Payload<B>, bytes: usize) -> u64 {
        self.lent.ledger.complete_copied(payload, bytes)
    }

    /// Records that the kernel copied a part of a payload that was begun and not ended.
    pub(crate) fn record_copied(&mut self, number: u64, bytes: usize) {
        self.lent.ledger.record(number, bytes, false);
    }

    /// Uses up a number for a payload that is not taken in.
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

    /// Finds out whether the kernel counted a datagram that failed with this error.
    #[cold]
    fn settle(&mut self, errno: Errno) {
        self.lent.ledger.doubt();
        let is_read = self.lent.drain().is_ok();
        let is_open = self.lent.ledger.settle();
        if !is_read || (is_open && !is_uncounted(errno)) {
            self.refusal = Some(LendingRefusal::CountUncertain);
        }
    }

    /// Ends a payload: no more parts follow, and it is completed when the kernel no longer needs it.
    pub(crate) fn end(&mut self, number: u64) {
        self.lent.ledger.end(number);
    }

    /// Reads the error queue to its end.
    ///
    /// # Errors
    /// An error of the socket itself. Reports that were read before it are processed.
    pub(crate) fn drain(&mut self) -> Sys<()> {
        self.lent.drain()
    }

    /// Returns the entries of other origin that were in the queue.
    pub(crate) fn foreign(&self) -> Foreign {
        self.lent.ledger.foreign()
    }

    /// Returns whether payloads were completed since the last call of `newly_completed`.
    #[inline]
    pub(crate) fn has_newly_completed(&self) -> bool {
        self.lent.ledger.has_newly_completed()
    }

    /// Returns the payloads completed since the last call, in their order.
    #[inline]
    pub(crate) fn newly_completed(&mut self) -> (&InetSocket, impl Iterator<Item = &Completed<B>>) {
        (&self.lent.socket, self.lent.ledger.newly_completed())
    }

    /// Returns the number of payloads that are completed and were not taken.
    #[inline]
    pub(crate) fn completed(&self) -> usize {
        self.lent.ledger.completed()
    }

    /// Takes the next completed payload, in their order.
    #[inline]
    pub(crate) fn next_completed(&mut self) -> Option<Completed<B>> {
        self.lent.ledger.next_completed()
    }

    /// Returns whether this payload was not taken yet.
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

/// Returns whether a datagram that was to be lent and failed with this error was certainly not counted,
/// given that its number was not in the queue.
///
/// These errors come before the kernel takes a number, or before it has assembled a packet, and then it
/// returns the number (`msg_zerocopy_put_abort`). For other errors that is not certain.
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
        let left = self.lent.ledger.take_outstanding();
        if self.lent.socket.is_inherited() {
            // The reports belong to the parent, and a child of `fork(2)` does not have the parking thread.
            std::mem::forget(left);
            return;
        }
        // Ends the stream before the socket is parked.
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

    fn has_no_other_writer(&self) -> bool {
        self.socket.has_no_writers()
    }

    fn drain(&mut self) -> bool {
        // If the queue cannot be read, outstanding payloads stay outstanding.
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
    fn refusals_below_the_socket_leave_the_count_uncertain() {
        // Reported by a firewall, a device that is down, or the checks of a segment train.
        for errno in [Errno::EPERM, Errno::ENETDOWN, Errno::EINVAL, Errno::EIO, Errno::ENODEV] {
            assert!(!is_uncounted(errno), "{errno}");
        }
        for errno in [Errno::EAGAIN, Errno::ENOBUFS, Errno::EMSGSIZE, Errno::ECONNREFUSED] {
            assert!(is_uncounted(errno), "{errno}");
        }
    }
}
