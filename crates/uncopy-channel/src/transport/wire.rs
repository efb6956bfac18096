//! The socket to an end in another process.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use super::gather::{Body, Packet, with_parts_of_run};
use super::packet::{Content, HEADER_BYTES, Header, RECORD_BYTES, Record};
use super::parcel::{Load, Parcel};
use crate::memory::Buffer;
use crate::region::Region;
use crate::sync::{Mutex, lock};
use crate::{MAX_BYTES, Status};
use uncopy_core::Errno;
use uncopy_os::epoll;
use uncopy_os::seqpacket::{self, MessageBuffers, Ready, Tail};

/// This process's end of a socket. Received and unread packets are kept by the object.
pub(crate) struct Wire {
    fd: OwnedFd,
    inflow: Mutex<Inflow>,
    /// Epoll instances that contain the socket. It is removed from them before it is closed, because
    /// a duplicate in another process would keep it there.
    watchers: Mutex<Vec<Watcher>>,
}

/// State of receiving.
#[derive(Default)]
struct Inflow {
    /// Sockets with what was queued before the end moved here, to be read first. Their writing ends
    /// are closed.
    backlog: VecDeque<OwnedFd>,
    /// Whether something has come over the socket itself. The packet with the backlog comes first.
    has_begun: bool,
    /// Whether receiving has ended, whatever the socket still holds.
    has_ended: bool,
    /// Length of the last message: the next one is expected to have the same.
    expected: usize,
    /// Whether `recvmmsg(2)` is refused, for example by a seccomp filter.
    is_one_by_one: bool,
}

/// An epoll instance that contains the socket.
struct Watcher {
    epoll: Weak<OwnedFd>,
    token: u64,
    interest: epoll::Interest,
}

/// Result of receiving.
pub(crate) enum Arrival {
    /// A packet.
    Packet(Content, Load),
    /// The socket is empty.
    Nothing,
    /// The peer is closed, or was cut off because it broke a rule. Nothing comes any more.
    End,
}

impl Wire {
    pub(crate) fn new(fd: OwnedFd, backlog: Vec<OwnedFd>) -> Wire {
        let inflow = Inflow { backlog: backlog.into(), ..Inflow::default() };
        Wire { fd, inflow: Mutex::new(inflow), watchers: Mutex::default() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends one packet without handles: all of it or nothing.
    pub(crate) fn send(&self, content: Content, bytes: &[u8]) -> Result<(), Status> {
        let regions = [IoSlice::new(bytes)];
        send(&self.fd, content, Body::new(&regions, bytes.len()), &[], &[])
    }

    /// Sends one packet with handles: all of it or nothing.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] for a region whose memory is not there; [`Status::ShouldWait`] if
    /// there is no room; [`Status::PeerClosed`]; those of the kernel.
    pub(crate) fn send_body(
        &self,
        content: Content,
        body: Body<'_, impl Region>,
        parcel: &Parcel,
    ) -> Result<(), Status> {
        send(&self.fd, content, body, &parcel.records, &parcel.fds)
    }

    /// Sends messages without handles with one system call, up to the first that is not sent: at
    /// most 64. Returns how many.
    pub(crate) fn send_run<'a, R: Region + 'a>(
        &self,
        messages: impl Iterator<Item = Body<'a, R>>,
    ) -> usize {
        let packet = |body| Packet { content: Content::Message, body, records: &[] };
        with_parts_of_run(messages.take(RUN).map(packet), |messages| {
            seqpacket::send_many(&self.fd, messages).unwrap_or(0)
        })
    }

    /// Receives the next packet, from the backlog first. After the first end nothing is received any
    /// more: packets behind an invalid one are ignored.
    pub(crate) fn receive(&self) -> Arrival {
        let mut inflow = lock(&self.inflow);
        if inflow.has_ended {
            return Arrival::End;
        }
        let arrival = inflow.next(&self.fd);
        drop(inflow);
        if let Arrival::End = arrival {
            self.end();
        }
        arrival
    }

    /// Receives the next packet, and the one behind it if known, with one system call.
    pub(crate) fn receive_two(&self) -> (Arrival, Option<Arrival>) {
        let mut inflow = lock(&self.inflow);
        if inflow.has_ended {
            return (Arrival::End, None);
        }
        let arrivals = inflow.next_two(&self.fd);
        drop(inflow);
        if let (Arrival::End, _) | (_, Some(Arrival::End)) = arrivals {
            self.end();
        }
        arrivals
    }

    /// Ends receiving and sending.
    pub(crate) fn end(&self) {
        let mut inflow = lock(&self.inflow);
        inflow.has_ended = true;
        inflow.backlog.clear();
        seqpacket::shut_down(&self.fd);
    }

    /// Returns which of the wanted events are ready now.
    pub(crate) fn ready(&self, wanted: Ready) -> Ready {
        let lost = Ready { hung_up: true, ..Ready::default() };
        seqpacket::ready(&self.fd, wanted).unwrap_or(lost)
    }

    /// Returns the number of bytes that can be received now, including headers.
    pub(crate) fn unread_bytes(&self) -> usize {
        let inflow = lock(&self.inflow);
        inflow.backlog.iter().chain([&self.fd]).map(seqpacket::unread_bytes).sum()
    }

    /// Returns the bytes on their way to the other end and their maximum, as the kernel counts them.
    pub(crate) fn unsent_bytes(&self) -> (usize, usize) {
        let most = seqpacket::send_buffer_bytes(&self.fd).unwrap_or(0);
        (seqpacket::unsent_bytes(&self.fd), most)
    }

    /// Takes the rest of the backlog, for the process that this end moves to.
    pub(crate) fn take_backlog(&self) -> VecDeque<OwnedFd> {
        std::mem::take(&mut lock(&self.inflow).backlog)
    }

    /// Adds the socket to an epoll instance, or extends its interest there.
    pub(crate) fn watch(
        &self,
        epoll: &Arc<OwnedFd>,
        token: u64,
        interest: epoll::Interest,
    ) -> Result<(), Status> {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| watcher.epoll.strong_count() > 0);
        let known = watchers.iter_mut().find(|w| w.epoll.as_ptr() == Arc::as_ptr(epoll));
        let Some(known) = known else {
            epoll::add(&**epoll, &self.fd, token, interest)?;
            watchers.push(Watcher { epoll: Arc::downgrade(epoll), token, interest });
            return Ok(());
        };
        let both = known.interest.union(interest);
        if both != known.interest {
            epoll::modify(&**epoll, &self.fd, token, both)?;
            known.interest = both;
        }
        Ok(())
    }

    /// Changes the interest of an epoll instance that contains the socket.
    pub(crate) fn set_interest(&self, epoll: &Arc<OwnedFd>, interest: epoll::Interest) {
        let mut watchers = lock(&self.watchers);
        let watcher = watchers.iter_mut().find(|w| w.epoll.as_ptr() == Arc::as_ptr(epoll));
        if let Some(watcher) = watcher.filter(|watcher| watcher.interest != interest) {
            // Cannot fail, because the socket is in the instance.
            let _ = epoll::modify(&**epoll, &self.fd, watcher.token, interest);
            watcher.interest = interest;
        }
    }

    /// Has the edge-triggered epoll instances report the current state once more.
    pub(crate) fn report_again(&self) {
        for watcher in lock(&self.watchers).iter().filter(|watcher| watcher.interest.edge) {
            if let Some(epoll) = watcher.epoll.upgrade() {
                // Cannot fail, because the socket is in the instance.
                let _ = epoll::modify(&*epoll, &self.fd, watcher.token, watcher.interest);
            }
        }
    }

    /// Removes the socket from an epoll instance.
    pub(crate) fn unwatch(&self, epoll: &Arc<OwnedFd>) {
        let mut watchers = lock(&self.watchers);
        let before = watchers.len();
        watchers.retain(|watcher| watcher.epoll.as_ptr() != Arc::as_ptr(epoll));
        if watchers.len() != before {
            epoll::remove(&**epoll, &self.fd);
        }
    }
}

impl Inflow {
    fn next(&mut self, fd: &OwnedFd) -> Arrival {
        while let Some(first) = self.backlog.front() {
            match receive(first, MAX_BYTES) {
                Received::Packet(Content::Backlog, _) => return Arrival::End,
                Received::Packet(content, load) => return Arrival::Packet(content, load),
                Received::End => drop(self.backlog.pop_front()),
                // Its writer is closed, so that there is always a packet or the end.
                Received::Nothing | Received::Garbage => return Arrival::End,
            }
        }
        if self.has_begun {
            let received = receive(fd, self.expected);
            return self.arrival(received);
        }
        match receive(fd, self.expected) {
            Received::Packet(Content::Backlog, load) => {
                self.has_begun = true;
                self.backlog.extend(load.parcel.fds);
                self.next(fd)
            }
            received => {
                self.has_begun = !matches!(received, Received::Nothing);
                self.arrival(received)
            }
        }
    }

    /// Receives the next packet, and the one behind it on the socket itself, if known.
    fn next_two(&mut self, fd: &OwnedFd) -> (Arrival, Option<Arrival>) {
        if !self.has_begun || !self.backlog.is_empty() || self.is_one_by_one {
            return (self.next(fd), None);
        }
        let Some((first, second)) = receive_two(fd, self.expected) else {
            self.is_one_by_one = true;
            return (self.next(fd), None);
        };
        match self.arrival(first) {
            first @ Arrival::Packet(..) => (first, Some(self.arrival(second))),
            first => (first, None),
        }
    }

    /// Converts what came over the socket itself, after its first packet.
    fn arrival(&mut self, received: Received) -> Arrival {
        match received {
            Received::Packet(Content::Backlog, _) | Received::Garbage => Arrival::End,
            Received::Packet(content, load) => {
                self.expected = load.body.len();
                Arrival::Packet(content, load)
            }
            Received::Nothing => Arrival::Nothing,
            Received::End => Arrival::End,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for watcher in lock(&self.watchers).drain(..) {
            if let Some(epoll) = watcher.epoll.upgrade() {
                epoll::remove(&*epoll, &self.fd);
            }
        }
    }
}

/// Maximum number of messages that one system call sends.
const RUN: usize = 64;

/// Sends one packet over a socket.
pub(crate) fn send<R: Region>(
    fd: impl AsFd,
    content: Content,
    body: Body<'_, R>,
    records: &[u8],
    fds: &[OwnedFd],
) -> Result<(), Status> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let packet = Packet { content, body, records };
    let sent = packet.with_parts(|parts| seqpacket::send(fd, parts, &fds))?;
    sent.map_err(|errno| match errno {
        Errno::EAGAIN => Status::ShouldWait,
        Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN => Status::PeerClosed,
        Errno::EFAULT => Status::InvalidArgs,
        other => other.into(),
    })
}

/// A packet of one socket, or why there is none.
enum Received {
    Packet(Content, Load),
    Nothing,
    End,
    /// It breaks a rule.
    Garbage,
}

impl Received {
    /// Returns the result for an error number.
    fn from_errno(errno: Errno) -> Received {
        if errno == Errno::EAGAIN { Received::Nothing } else { Received::Garbage }
    }
}

/// Memory that one system call writes, except the body of the message.
struct PacketBuffers {
    head: [u8; HEADER_BYTES],
    tail: Tail,
    fds: Vec<OwnedFd>,
    received: seqpacket::Received,
}

impl PacketBuffers {
    fn new() -> PacketBuffers {
        let received = seqpacket::Received::default();
        PacketBuffers { head: [0; HEADER_BYTES], tail: Tail::new(), fds: Vec::new(), received }
    }

    fn place<'a>(&mut self, body: [&'a mut [MaybeUninit<u8>]; 2]) -> MessageBuffers<'a, '_> {
        MessageBuffers { head: &mut self.head, body, tail: &mut self.tail, fds: &mut self.fds }
    }

    /// Decodes the packet; its body is in `buffer`. A message whose descriptors were cut off comes as
    /// [`Content::Cut`], and those that arrived are closed.
    fn unpack(&mut self, mut buffer: Buffer) -> Received {
        let (received, fds) = (&self.received, std::mem::take(&mut self.fds));
        if received.bytes == 0 {
            return Received::End;
        }
        if received.is_truncated {
            return Received::Garbage;
        }
        let Ok(header) = Header::decode(self.head, received.bytes) else {
            return Received::Garbage;
        };
        let records = records(&buffer, &self.tail, header);
        if received.is_control_truncated && Record::total_fds(&records) != Some(fds.len()) {
            if header.content != Content::Message {
                return Received::Garbage;
            }
            buffer.truncate(header.bytes);
            return Received::Packet(
                Content::Cut,
                Load { body: buffer, parcel: Parcel::default() },
            );
        }
        let is_sound = match header.content {
            Content::Backlog => fds.iter().all(seqpacket::is_seqpacket),
            // The records are checked when the handles are put together.
            _ => fds.is_empty() || !records.is_empty(),
        };
        if !is_sound {
            return Received::Garbage;
        }
        buffer.truncate(header.bytes);
        Received::Packet(header.content, Load { body: buffer, parcel: Parcel { records, fds } })
    }
}

/// Receives a packet whose length is expected to be `expected`.
fn receive(fd: &OwnedFd, expected: usize) -> Received {
    let mut buffers = PacketBuffers::new();
    let landed = retry_interrupted(|| {
        Buffer::received(expected, MAX_BYTES, |spaces| {
            let (received, body) = seqpacket::receive(fd, buffers.place(spaces))?;
            buffers.received = received;
            Ok(body)
        })
    });
    match landed {
        Ok(buffer) => buffers.unpack(buffer),
        Err(errno) => Received::from_errno(errno),
    }
}

/// Receives a packet, and the one behind it if the first is valid, with one system call; `None` if
/// that call is refused.
fn receive_two(fd: &OwnedFd, expected: usize) -> Option<(Received, Received)> {
    let (mut first, mut second, mut behind) = (PacketBuffers::new(), PacketBuffers::new(), None);
    let landed = retry_interrupted(|| {
        Buffer::received(expected, MAX_BYTES, |spaces| {
            let (mut body, mut is_there) = (None, false);
            let buffer = Buffer::received(expected, MAX_BYTES, |more| {
                let (place, next) = (first.place(spaces), second.place(more));
                let ((received, landed), next) = seqpacket::receive_two(fd, place, next)?;
                first.received = received;
                body = Some(landed);
                is_there = next.is_some();
                let nothing = (seqpacket::Received::default(), [&mut [][..], &mut [][..]]);
                let (received, landed) = next.unwrap_or(nothing);
                second.received = received;
                Ok::<_, Errno>(landed)
            })?;
            behind = is_there.then_some(buffer);
            Ok(body.unwrap_or_default())
        })
    });
    let first = match landed {
        Ok(buffer) => first.unpack(buffer),
        // Sockets return none of these; a filter of system calls does.
        Err(Errno::EPERM | Errno::ENOSYS | Errno::EACCES) => return None,
        Err(errno) => Received::from_errno(errno),
    };
    Some(match (&first, behind) {
        (Received::Packet(..), Some(buffer)) => (first, second.unpack(buffer)),
        _ => (first, Received::Nothing),
    })
}

/// Receives again after errors that pass.
fn retry_interrupted(mut receive: impl FnMut() -> Result<Buffer, Errno>) -> Result<Buffer, Errno> {
    loop {
        match receive() {
            // ECONNRESET: the peer closed and left messages unread; those that it sent are still to
            // come.
            Err(Errno::ECONNRESET | Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Returns the records behind the bytes; the part that did not fit into the body is in the tail.
fn records(body: &[u8], tail: &[u8], header: Header) -> Vec<u8> {
    let length = header.handles * RECORD_BYTES;
    if length == 0 {
        return Vec::new();
    }
    let mut records = body[header.bytes..].to_vec();
    records.extend_from_slice(tail);
    debug_assert_eq!(records.len(), length, "the header was checked against all bytes");
    records
}

#[cfg(test)]
mod tests;
