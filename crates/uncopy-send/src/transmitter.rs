//! Sends over one socket, one by one, by plain system calls. Shared by senders and rings without io_uring.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::batch;
use super::counters::{Counters, Outstanding};
use super::plan::{self, AfterRefusal, RefusedSend};
use crate::room::inet::{InetSocket, Transport};
use crate::room::zerocopy::{Completed, InFlight, LendingRefusal, send_copied};
use crate::room::{ByteRange, Payload, StableBytes};
use uncopy_core::{Errno, Error, Reason, Result};

/// A socket, the payloads that are in flight over it, and its error queue.
///
/// Why sends are copied, and what else is met, is written into the ledger that the caller passes: the
/// [`Counters`] of the socket.
pub(crate) struct Transmitter<B: StableBytes> {
    in_flight: InFlight<B>,
    /// Sends and bytes lent since the error queue was last read.
    lent_since_drain: Outstanding,
}

/// A send that has begun.
#[derive(Debug)]
pub(crate) struct Transmission {
    pub(crate) number: u64,
    pub(crate) to: Option<SocketAddr>,
    length: usize,
    /// Bytes that the kernel has taken.
    pub(crate) done: usize,
    /// Maximum number of bytes of one call.
    max_bytes: usize,
    pub(crate) lend: bool,
    /// Whether the error queue was read since the kernel last had no buffer space.
    drained: bool,
}

/// A payload that was copied in part or not at all by the first call, and what that call returned.
pub(crate) struct Unfinished<B> {
    pub(crate) payload: Payload<B>,
    pub(crate) sent: Result<usize, Errno>,
}

/// How far a send has come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Progress {
    Done,
    WaitForRoom,
    Failed(Errno),
}

impl<B: StableBytes> Transmitter<B> {
    /// Takes over `socket`. When the transmitter is dropped, the socket and the memory that is still lent
    /// are parked for up to `park_timeout` before the connection is aborted.
    pub(crate) fn new(socket: InetSocket, park_timeout: Duration) -> Transmitter<B> {
        let in_flight = InFlight::new(socket, park_timeout);
        Transmitter { in_flight, lent_since_drain: Outstanding::default() }
    }

    pub(crate) fn socket(&self) -> &Arc<InetSocket> {
        self.in_flight.socket()
    }

    /// Returns why nothing can be lent on this socket.
    pub(crate) fn lending_refusal(&self) -> Option<LendingRefusal> {
        self.in_flight.refusal()
    }

    /// Takes a payload in.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
        lend: bool,
    ) -> Transmission {
        let length = payload.len();
        let socket = self.socket();
        if lend && socket.transport() == Transport::Tcp {
            socket.note_device();
        }
        let max_bytes = batch::max_call_bytes(socket);
        let number = self.in_flight.begin(payload);
        Transmission { number, to, length, done: 0, max_bytes, lend, drained: false }
    }

    /// Returns whether the error queue is to be read before the next send.
    #[inline]
    pub(crate) fn is_drain_due(&self) -> bool {
        let Outstanding { sends, bytes } = self.lent_since_drain;
        plan::is_drain_due(sends, bytes)
    }

    /// Has the kernel copy a payload by one call; returns its number and its bytes. The payload is then
    /// completed without having been in flight, and `newly_completed`, which has returned all before it,
    /// does not return it.
    // In line, as `advance`.
    #[inline(always)]
    pub(crate) fn copy(
        &mut self,
        payload: Payload<B>,
        to: Option<SocketAddr>,
    ) -> Result<(u64, usize), Unfinished<B>> {
        let length = payload.len();
        let socket = self.socket();
        let range = ByteRange { from: 0, max_bytes: batch::max_call_bytes(socket) };
        match send_copied(socket, &payload, range, to) {
            Ok(bytes) if bytes >= length || !batch::is_sent_in_parts(socket) => {
                Ok((self.in_flight.complete_copied(payload, bytes), bytes))
            }
            sent => Err(Unfinished { payload, sent }),
        }
    }

    /// Continues a send that has begun after its first call returned `sent`; `None`: try again at once.
    pub(crate) fn resume(
        &mut self,
        send: &mut Transmission,
        sent: Result<usize, Errno>,
        ledger: &mut Counters,
    ) -> Option<Progress> {
        match sent {
            Ok(bytes) => {
                self.in_flight.record_copied(send.number, bytes);
                send.done += bytes;
                None
            }
            Err(errno) => self.after_refusal(send, errno, ledger),
        }
    }

    /// Uses up a number for a send that is not made.
    pub(crate) fn skip_number(&mut self) -> u64 {
        self.in_flight.skip_number()
    }

    /// Sends as much as the socket has room for.
    // In line, down to the system call: processors that lose their return predictions in a system call
    // mispredict every return after it, which costs some 8 ns each.
    #[inline(always)]
    pub(crate) fn advance(&mut self, send: &mut Transmission, ledger: &mut Counters) -> Progress {
        loop {
            if self.is_drain_due()
                && let Err(errno) = self.drain(ledger)
            {
                return Progress::Failed(errno);
            }
            let Transmission { number, to, done, max_bytes, lend, .. } = *send;
            let range = ByteRange { from: done, max_bytes };
            match self.in_flight.send_part(number, range, to, lend) {
                Ok(bytes) => {
                    send.done += bytes;
                    send.drained = false;
                    if lend {
                        self.lent_since_drain.sends += 1;
                        self.lent_since_drain.bytes += bytes;
                    }
                    if send.done >= send.length || !batch::is_sent_in_parts(self.socket()) {
                        return Progress::Done;
                    }
                }
                Err(errno) => {
                    if let Some(progress) = self.after_refusal(send, errno, ledger) {
                        return progress;
                    }
                }
            }
        }
    }

    /// Decides what to do after a refusal; `None`: try again at once.
    #[inline(never)]
    fn after_refusal(
        &mut self,
        send: &mut Transmission,
        errno: Errno,
        ledger: &mut Counters,
    ) -> Option<Progress> {
        let Transmission { lend: lent, drained, .. } = *send;
        let transport = self.socket().transport();
        // Queued reports would end every wait for room at once.
        if let Err(errno) = self.drain(ledger) {
            return Some(Progress::Failed(errno));
        }
        match plan::after(RefusedSend { errno, transport, lent, drained }) {
            AfterRefusal::WaitForRoom => Some(Progress::WaitForRoom),
            AfterRefusal::Drain => {
                ledger.no_buffer_space += 1;
                send.drained = true;
                None
            }
            AfterRefusal::Copy(reason) => {
                send.lend = false;
                ledger.fell_back(reason);
                None
            }
            AfterRefusal::Fail => Some(Progress::Failed(errno)),
        }
    }

    /// Ends a send: its payload is completed when the kernel no longer needs it.
    pub(crate) fn end(&mut self, send: &Transmission) {
        self.in_flight.end(send.number);
    }

    /// Reads the error queue to its end.
    pub(crate) fn drain(&mut self, ledger: &mut Counters) -> Result<(), Errno> {
        self.lent_since_drain = Outstanding::default();
        let drained = self.in_flight.drain();
        let foreign = self.in_flight.foreign();
        ledger.foreign_errors = foreign.count;
        ledger.last_foreign_error = foreign.last;
        drained
    }

    /// Reads the error queue if nothing is completed yet and any report is outstanding.
    ///
    /// # Errors
    /// In a forked child, and where the reports in the error queue do not match the sends.
    #[inline]
    pub(crate) fn poll_completed(&mut self, ledger: &mut Counters) -> Result<()> {
        self.socket().check_owner("release buffers of")?;
        match self.in_flight.completed() {
            0 => self.read_reports(ledger),
            _ => Ok(()),
        }
    }

    #[cold]
    fn read_reports(&mut self, ledger: &mut Counters) -> Result<()> {
        if self.in_flight.outstanding() > 0 {
            let drained = self.drain(ledger);
            drained.map_err(|errno| self.socket().error("read the error queue of", errno))?;
        }
        match self.in_flight.completed() == 0 && self.in_flight.is_lost() {
            true => Err(self.lost()),
            false => Ok(()),
        }
    }

    /// Takes the next payload that the kernel no longer needs, of those that are known.
    #[inline]
    pub(crate) fn next_completed(&mut self) -> Option<Completed<B>> {
        self.in_flight.next_completed()
    }

    fn lost(&self) -> Error {
        let reason = "the kernel reports sends that were not made here, so which buffers are free is \
                      unknown; give each socket to one sender only";
        Error::new("release buffers of", self.socket().subject(), Reason::Refused(reason.into()))
    }

    /// Returns whether payloads were completed since the last call of `newly_completed`.
    #[inline]
    pub(crate) fn has_newly_completed(&self) -> bool {
        self.in_flight.has_newly_completed()
    }

    /// Returns the payloads completed since the last call, in the order in which they were.
    #[inline]
    pub(crate) fn newly_completed(&mut self) -> (&InetSocket, impl Iterator<Item = &Completed<B>>) {
        self.in_flight.newly_completed()
    }

    /// Returns how many payloads are completed and were not taken.
    #[inline]
    pub(crate) fn completed(&self) -> usize {
        self.in_flight.completed()
    }

    /// Returns how many reports the kernel still owes.
    pub(crate) fn outstanding_reports(&self) -> usize {
        self.in_flight.outstanding()
    }

    /// Returns whether the payload of this send was not given back yet.
    #[cfg(feature = "tokio")]
    pub(crate) fn has(&self, number: u64) -> bool {
        self.in_flight.has(number)
    }

    /// Ends the stream, unless others send on the socket too.
    pub(crate) fn end_stream(&mut self) {
        self.in_flight.end_stream();
    }
}
