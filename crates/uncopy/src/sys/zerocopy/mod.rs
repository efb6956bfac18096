//! Memory lent to the kernel by `MSG_ZEROCOPY`, and what is needed to know when it is free again.
//!
//! Soundness is here, and rests on four things. A payload that any part was sent of without copying
//! is owned by a [`Flight`], which gives no reference to it. It leaves a flight only when the
//! kernel has reported every number that its parts got. The numbers are the kernel's, because
//! nobody else sends on the [`Socket`]. And a flight that is dropped hands socket and payloads to
//! the [`parking`] lot, where the same rules go on; one that is forgotten keeps them for ever.

mod errqueue;
mod ids;
pub(crate) mod parking;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use rustix::net::SendFlags;

use super::Sys;
use super::inet::{Socket, Transport};
use crate::buf::{Payload, StableBytes};
use crate::error::Errno;
use errqueue::Report;
use ids::{Ids, Stray};

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
pub(crate) struct Landed<B> {
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
pub(crate) enum Refusal {
    /// The socket does not take it.
    NotSupported,
    /// A datagram failed and may have been counted.
    CountUncertain,
}

#[derive(Debug)]
struct Outgoing<B> {
    payload: Payload<B>,
    /// Numbers of its parts that the kernel has not reported.
    lent_parts: u32,
    /// More parts may follow.
    is_open: bool,
    usage: Usage,
}

/// Payloads on their way over one socket.
pub(crate) struct Flight<B: StableBytes> {
    cargo: Cargo<B>,
    /// Nothing can be lent, since the socket does not take `MSG_ZEROCOPY` (before Linux 4.14, for
    /// UDP 5.0), so that the flag would be ignored and nothing reported; or nothing more, since the
    /// kernel's count is not certain.
    refusal: Option<Refusal>,
    /// How long socket and memory are parked before the connection is aborted.
    pub(crate) linger: Duration,
}

/// What outlives a flight in the parking lot.
struct Cargo<B> {
    socket: Arc<Socket>,
    ids: Ids<u64>,
    /// Sends by number, from `first` on; `None`: landed.
    sends: VecDeque<Option<Outgoing<B>>>,
    first: u64,
    landed: VecDeque<Landed<B>>,
    /// The numbers do not add up: nothing can be released any more.
    is_lost: bool,
    foreign: Foreign,
}

impl<B: StableBytes> Flight<B> {
    /// For the socket, on which nobody else sends with `MSG_ZEROCOPY`.
    pub(crate) fn new(socket: Socket, linger: Duration) -> Flight<B> {
        let refusal = socket.allow_zerocopy().err().map(|_| Refusal::NotSupported);
        let cargo = Cargo {
            socket: Arc::new(socket),
            ids: Ids::new(0),
            sends: VecDeque::new(),
            first: 0,
            landed: VecDeque::new(),
            is_lost: false,
            foreign: Foreign::default(),
        };
        Flight { cargo, refusal, linger }
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.cargo.socket
    }

    /// Why nothing can be lent on this socket.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Numbers that the kernel has not reported.
    pub(crate) fn outstanding(&self) -> usize {
        self.cargo.ids.outstanding()
    }

    /// The numbers do not add up: somebody else sent on the socket.
    pub(crate) fn is_lost(&self) -> bool {
        self.cargo.is_lost
    }

    /// Takes a payload in; gives its number.
    pub(crate) fn begin(&mut self, payload: Payload<B>) -> u64 {
        let usage = Usage::default();
        self.cargo.sends.push_back(Some(Outgoing { payload, lent_parts: 0, is_open: true, usage }));
        self.cargo.first + self.cargo.sends.len() as u64 - 1
    }

    /// Sends what is behind byte `from` of a payload that was begun and not ended, as far as the
    /// kernel takes it without waiting.
    ///
    /// A datagram is sent whole or not at all, of a train of them at most `most` bytes. After one that was to be lent and failed, the error
    /// queue is read, which shows whether the kernel counted it.
    pub(crate) fn part(
        &mut self,
        number: u64,
        (from, most): (usize, usize),
        to: Option<SocketAddr>,
        lend: bool,
    ) -> Sys<usize> {
        if lend && self.refusal.is_some() {
            return Err(Errno::EOPNOTSUPP);
        }
        let Cargo { socket, ids, sends, first, .. } = &mut self.cargo;
        let index = usize::try_from(number.wrapping_sub(*first)).ok();
        let send = index.and_then(|index| sends.get_mut(index)).and_then(Option::as_mut);
        let send = send.filter(|send| send.is_open).ok_or(Errno::EINVAL)?;
        let Outgoing { payload, lent_parts, usage, .. } = send;
        ids.reserve();
        // The payload stays in `sends` until `lent_parts` is zero again.
        let flags = if lend { ZEROCOPY } else { SendFlags::empty() };
        let whole = socket.transport() == Transport::Udp;
        let send = |regions: &[IoSlice<'_>]| socket.send_with(regions, to, flags);
        let sent = with_regions(payload, (from, most), (whole, lend), send);
        match sent {
            // Of a stream, nothing sent is nothing numbered (`tcp_sendmsg_locked`).
            Ok(bytes) if lend && (whole || bytes > 0) => {
                ids.record(number);
                *lent_parts += 1;
                usage.lent_parts += 1;
                usage.bytes += bytes;
            }
            Ok(bytes) => {
                usage.copied_parts += 1;
                usage.bytes += bytes;
            }
            Err(errno) if lend && whole => {
                ids.doubt();
                self.settle(errno);
            }
            Err(_) => {}
        }
        sent
    }

    /// Finds out whether a datagram that failed with this error was counted.
    fn settle(&mut self, errno: Errno) {
        let is_read = self.cargo.drain().is_ok();
        let is_open = self.cargo.ids.settle();
        if !is_read || (is_open && !is_uncounted(errno)) {
            self.refusal = Some(Refusal::CountUncertain);
        }
    }

    /// No more parts of this payload follow: it lands when the kernel needs it no more.
    pub(crate) fn end(&mut self, number: u64) {
        if let Some(send) = self.cargo.send_mut(number) {
            send.is_open = false;
            self.cargo.land(number);
        }
    }

    /// Reads the error queue to its end.
    ///
    /// # Errors
    /// The socket's own. What was read before counts.
    pub(crate) fn drain(&mut self) -> Sys<()> {
        self.cargo.drain()
    }

    /// Errors of other origin that were in the queue.
    pub(crate) fn foreign(&self) -> Foreign {
        self.cargo.foreign
    }

    /// The next payload that has landed, in the order in which they did.
    pub(crate) fn next_landed(&mut self) -> Option<Landed<B>> {
        self.cargo.landed.pop_front()
    }

    /// This payload was not given back.
    #[cfg(feature = "tokio")]
    pub(crate) fn has(&self, number: u64) -> bool {
        let index =
            number.checked_sub(self.cargo.first).and_then(|index| usize::try_from(index).ok());
        let under_way =
            index.and_then(|index| self.cargo.sends.get(index)).is_some_and(Option::is_some);
        under_way || self.cargo.landed.iter().any(|landed| landed.number == number)
    }
}

impl<B: StableBytes> Cargo<B> {
    fn send_mut(&mut self, number: u64) -> Option<&mut Outgoing<B>> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.sends.get_mut(index)?.as_mut()
    }

    /// Moves a payload out that is ended and of which nothing is lent.
    fn land(&mut self, number: u64) {
        let is_free =
            self.send_mut(number).is_some_and(|send| !send.is_open && send.lent_parts == 0);
        let Some(index) = number.checked_sub(self.first).filter(|_| is_free) else { return };
        if let Some(Outgoing { payload, usage, .. }) = self.sends[index as usize].take() {
            self.landed.push_back(Landed { number, payload, usage });
        }
        while let Some(None) = self.sends.front() {
            self.sends.pop_front();
            self.first += 1;
        }
    }

    fn drain(&mut self) -> Sys<()> {
        let socket = self.socket.clone();
        let mut take = |report: Report| match report {
            // From the first that does not add up on, none can be believed.
            Report::Completed(_) if self.is_lost => {}
            Report::Completed(completed) => self.is_lost = self.complete(completed).is_err(),
            Report::Foreign { errno, .. } => {
                self.foreign.count += 1;
                self.foreign.last = Some(errno);
            }
            Report::Lost => self.is_lost = true,
        };
        while errqueue::drain(socket.fd(), &mut take)? {}
        Ok(())
    }

    fn complete(&mut self, completed: ids::Completed) -> Result<(), Stray> {
        let mut free: ArrayVec<u64, 64> = ArrayVec::new();
        let mut more = Vec::new();
        let Cargo { ids, sends, first, .. } = self;
        ids.complete(completed, |number, copied| {
            let index = usize::try_from(number.wrapping_sub(*first)).unwrap_or(usize::MAX);
            if let Some(Some(send)) = sends.get_mut(index) {
                send.lent_parts -= 1;
                send.usage.copied_later |= copied;
                if send.lent_parts == 0 && free.try_push(number).is_err() {
                    more.push(number);
                }
            }
        })?;
        free.into_iter().chain(more).for_each(|number| self.land(number));
        Ok(())
    }
}

/// Has the kernel copy what is behind byte `from` of a payload, as far as there is room; of a train
/// at most `most` bytes.
pub(crate) fn send_copied<B: StableBytes>(
    socket: &Socket,
    payload: &Payload<B>,
    (from, most): (usize, usize),
    to: Option<SocketAddr>,
) -> Sys<usize> {
    let whole = socket.transport() == Transport::Udp;
    let send = |regions: &[IoSlice<'_>]| socket.send_with(regions, to, SendFlags::empty());
    with_regions(payload, (from, most), (whole, false), send)
}

/// Calls `send` with the regions of the payload from byte `from` on, `most` bytes at most: with all of them if it is to
/// go `whole`, put together if they are too many to be copied one by one; else with as many as one
/// call takes.
fn with_regions<B: StableBytes, T>(
    payload: &Payload<B>,
    (from, most): (usize, usize),
    (whole, lend): (bool, bool),
    send: impl FnOnce(&[IoSlice<'_>]) -> Sys<T>,
) -> Sys<T> {
    if let [only] = payload.as_slice() {
        let rest = only.bytes().get(from..).unwrap_or_default();
        return send(&[IoSlice::new(&rest[..rest.len().min(most)])]);
    }
    let mut regions = payload.regions(from, most);
    let few: ArrayVec<IoSlice<'_>, FEW_REGIONS> = regions.by_ref().take(FEW_REGIONS).collect();
    if few.len() < FEW_REGIONS {
        return send(&few);
    }
    let all: Vec<IoSlice<'_>> = few.into_iter().chain(regions).collect();
    if all.len() <= MAX_REGIONS {
        send(&all)
    } else if !whole {
        send(&all[..MAX_REGIONS])
    } else if lend {
        // As the kernel answers already to far fewer; the next attempt copies.
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

impl<B: StableBytes> Drop for Flight<B> {
    fn drop(&mut self) {
        if self.cargo.ids.outstanding() > 0 {
            let left = Cargo {
                socket: self.cargo.socket.clone(),
                ids: std::mem::replace(&mut self.cargo.ids, Ids::new(0)),
                sends: std::mem::take(&mut self.cargo.sends),
                first: self.cargo.first,
                landed: VecDeque::new(),
                is_lost: self.cargo.is_lost,
                foreign: Foreign::default(),
            };
            if Arc::strong_count(&left.socket) == 2 {
                // This one and the one that is dropped: no ring goes on with it.
                let _ = left.socket.finish();
            }
            parking::park(Box::new(left), self.linger);
        }
    }
}

impl<B: StableBytes> parking::Vehicle for Cargo<B> {
    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.socket) == 1
    }

    fn drain(&mut self) -> bool {
        // An error of the queue leaves what is outstanding outstanding.
        let _ = Cargo::drain(self);
        self.landed.clear();
        self.ids.outstanding() == 0
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::is_uncounted;
    use crate::error::Errno;

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
