//! Zircon's sockets: byte streams and datagrams without handles.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::MAX_BYTES;
use crate::Status;
use crate::identity::Kind;
use crate::peer::{End, Locked, Pair, Peered, Side, Transport, peered};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::source::Source;
use crate::sync::Arc;
use crate::transport::carrier::{Backlogs, Piece};
use crate::transport::packet::Content;
use crate::transport::parcel::{Load, Parts};
use crate::transport::wire::Wire;

/// Capacity of one direction (`MBufChain::max_size` is of this order).
const CAPACITY_BYTES: usize = 256 << 10;
/// Maximum size of a datagram, and of one packet to another process.
const MAX_PIECE_BYTES: usize = MAX_BYTES;

/// Whether the boundaries of writes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    /// A byte stream; writes and reads may be partial.
    Stream,
    /// Each write is one datagram; a read returns one, and cuts off what does not fit.
    Datagram,
}

impl SocketKind {
    /// Checks the size of what is to be written.
    fn check_write(self, bytes: &[u8]) -> Result<(), Status> {
        match self {
            SocketKind::Datagram if bytes.is_empty() => Err(Status::InvalidArgs),
            SocketKind::Datagram if bytes.len() > MAX_PIECE_BYTES => Err(Status::OutOfRange),
            SocketKind::Stream | SocketKind::Datagram => Ok(()),
        }
    }
}

/// One end of a socket.
#[derive(Debug)]
pub struct Socket(Peered<SocketEnd>);

peered!(Socket);

/// Unread bytes of one end.
struct SocketEnd {
    kind: SocketKind,
    bytes: VecDeque<u8>,
    /// Lengths of the datagrams in `bytes`.
    datagrams: VecDeque<usize>,
    /// Whether the other end has disabled its writing.
    is_finished: bool,
    /// Thresholds of this end's signals, in bytes; 0: none.
    thresholds: Thresholds,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thresholds {
    read: usize,
    write: usize,
}

/// Contents and capacity of one end of a socket, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketInfo {
    /// Whether the boundaries of writes are kept.
    pub kind: SocketKind,
    /// Maximum number of unread bytes at this end.
    pub read_capacity: usize,
    /// Number of unread bytes at this end; of what another process sent, as far as there is room.
    pub readable: usize,
    /// Number of bytes that one read can return: for datagrams, the size of the next.
    pub next_read: usize,
    /// Maximum number of unread bytes at the other end; 0 if it is closed. If it is in another process:
    /// the capacity of the kernel's socket, including the kernel's overhead.
    pub write_capacity: usize,
    /// Used part of `write_capacity`.
    pub written: usize,
}

impl SocketEnd {
    fn new(kind: SocketKind) -> SocketEnd {
        let (bytes, datagrams, thresholds) = Default::default();
        SocketEnd { kind, bytes, datagrams, is_finished: false, thresholds }
    }

    /// Appends as many bytes as there is room for; returns how many.
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Status> {
        let room = CAPACITY_BYTES - self.bytes.len();
        let count = match self.kind {
            SocketKind::Stream => bytes.len().min(room),
            SocketKind::Datagram if bytes.len() > room => 0,
            SocketKind::Datagram => bytes.len(),
        };
        if count == 0 && !bytes.is_empty() {
            return Err(Status::ShouldWait);
        }
        self.bytes.extend(&bytes[..count]);
        if self.kind == SocketKind::Datagram {
            self.datagrams.push_back(count);
        }
        Ok(count)
    }

    /// Copies the next bytes or datagram, and removes it unless `keep`.
    fn get(&mut self, bytes: &mut [u8], keep: bool) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        let next = match self.kind {
            SocketKind::Stream => self.bytes.len().min(bytes.len()),
            SocketKind::Datagram => self.datagrams.front().copied().unwrap_or(0),
        };
        let count = next.min(bytes.len());
        let (front, back) = self.bytes.as_slices();
        let (first, second) = bytes[..count].split_at_mut(count.min(front.len()));
        first.copy_from_slice(&front[..first.len()]);
        second.copy_from_slice(&back[..second.len()]);
        if !keep {
            self.bytes.drain(..next);
            self.datagrams.pop_front();
        }
        count
    }
}

/// Sends bytes over the socket to another process, as many as it takes; returns how many, and why no
/// more.
fn send_pieces(wire: &Wire, bytes: &[u8]) -> (usize, Result<(), Status>) {
    let mut sent = 0;
    for piece in bytes.chunks(MAX_PIECE_BYTES) {
        if let Err(status) = wire.send(Content::Message, piece) {
            return (sent, Err(status));
        }
        sent += piece.len();
    }
    (sent, Ok(()))
}

/// Signals that are cleared when nothing can be written any more.
const CLEARED_AT_THE_END: Signals = Signals::WRITABLE.union(Signals::WRITE_THRESHOLD);

/// Updates the threshold signals after a change of the unread bytes of `side` or of a threshold.
fn update_thresholds(locked: &mut Locked<'_, SocketEnd>, side: Side) {
    let writer = side.peer();
    let end = locked.end(side);
    let (held, is_finished, read) = (end.bytes.len(), end.is_finished, end.thresholds.read);
    let write = locked.end(writer).thresholds.write;
    set_to(locked, side, Signals::READ_THRESHOLD, (1..=held).contains(&read));
    let has_room = !is_finished && (1..=CAPACITY_BYTES - held.min(CAPACITY_BYTES)).contains(&write);
    set_to(locked, writer, Signals::WRITE_THRESHOLD, has_room);
}

fn set_to(locked: &mut Locked<'_, SocketEnd>, side: Side, signal: Signals, is_set: bool) {
    let (clear, set) = if is_set { (Signals::empty(), signal) } else { (signal, Signals::empty()) };
    locked.update(side, clear, set);
}

impl Socket {
    /// Makes a socket and returns both ends.
    #[must_use]
    pub fn pair(kind: SocketKind) -> (Socket, Socket) {
        let [a, b] = Peered::pair([SocketEnd::new(kind), SocketEnd::new(kind)]).map(Socket);
        (a, b)
    }

    /// Writes bytes: to a stream as many as there is room for, to a datagram socket all; returns how
    /// many.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::PeerClosed`];
    /// [`Status::BadState`] after [`disable_write`](Self::disable_write); for datagrams
    /// [`Status::InvalidArgs`] if empty and [`Status::OutOfRange`] above 64 KiB;
    /// [`Status::ShouldWait`] if there is no room.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Status> {
        self.0.grant().check(Rights::WRITE)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        let is_finished = locked.signals(side).contains(Signals::WRITE_DISABLED);
        let kind = locked.end(side).kind;
        let wire = locked.wire_to_peer(side)?;
        if is_finished {
            return Err(Status::BadState);
        }
        kind.check_write(bytes)?;
        if let Some(wire) = wire {
            // Under the lock, so that neither another write nor the end of writing comes in between.
            let (sent, result) = send_pieces(&wire, bytes);
            drop(locked);
            return match self.0.record_sent(result) {
                Err(status) if sent == 0 => Err(status),
                _ => Ok(sent),
            };
        }
        let end = locked.end(peer);
        let count = end.put(bytes)?;
        let (is_empty, is_full) = (end.bytes.is_empty(), end.bytes.len() == CAPACITY_BYTES);
        if !is_empty {
            locked.update(peer, Signals::empty(), Signals::READABLE);
        }
        if is_full {
            locked.update(side, Signals::WRITABLE, Signals::empty());
        }
        update_thresholds(&mut locked, peer);
        Ok(count)
    }

    /// Reads bytes of the stream, or one datagram; returns how many. The part of a datagram that does
    /// not fit is lost; a read of no bytes removes nothing.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::ShouldWait`] if there is
    /// nothing to read; then instead [`Status::PeerClosed`] if the peer is closed, or
    /// [`Status::BadState`] if it is open and has disabled its writing.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize, Status> {
        self.receive(bytes, false)
    }

    /// Reads as [`read`](Self::read) does, without removing anything.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn peek(&self, bytes: &mut [u8]) -> Result<usize, Status> {
        self.receive(bytes, true)
    }

    fn receive(&self, bytes: &mut [u8], keep: bool) -> Result<usize, Status> {
        self.0.grant().check(Rights::READ)?;
        let mut locked = self.0.lock()?;
        let side = self.0.side;
        let wire = locked.wire(side);
        if let Some(wire) = &wire
            && locked.end(side).bytes.len() < bytes.len().max(1)
        {
            locked.pump(side, wire, Signals::empty());
        }
        let end = locked.end(side);
        let is_finished = end.is_finished;
        if end.bytes.is_empty() {
            return Err(match locked.nothing_to_read(side) {
                Status::ShouldWait if is_finished => Status::BadState,
                status => status,
            });
        }
        let was_full = !end.has_room();
        let count = end.get(bytes, keep);
        let (is_empty, has_room) = (end.bytes.is_empty(), end.has_room());
        if is_empty {
            locked.update(side, Signals::READABLE, Signals::empty());
        }
        // The peer writes no more if it is finished; over a socket the end is still to come.
        if was_full && has_room && (wire.is_some() || !is_finished) {
            locked.room_made(side, wire.as_deref());
        }
        update_thresholds(&mut locked, side);
        Ok(count)
    }

    /// Returns contents and capacity of this end, after receiving what another process sent.
    ///
    /// # Errors
    /// [`Status::BadState`] in a forked child.
    pub fn info(&self) -> Result<SocketInfo, Status> {
        self.0.refresh(Signals::empty());
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        let is_orphan = locked.is_orphan(side);
        let end = locked.end(side);
        let (kind, readable) = (end.kind, end.bytes.len());
        let next_read = match kind {
            SocketKind::Stream => readable,
            SocketKind::Datagram => end.datagrams.front().copied().unwrap_or(0),
        };
        let (written, write_capacity) = match locked.wire(side) {
            _ if is_orphan => (0, 0),
            Some(wire) => wire.unsent_bytes(),
            None => (locked.end(peer).bytes.len(), CAPACITY_BYTES),
        };
        let read_capacity = CAPACITY_BYTES;
        Ok(SocketInfo { kind, read_capacity, readable, next_read, write_capacity, written })
    }

    /// Returns the read threshold and the write threshold, in bytes: the number of unread bytes from
    /// which [`Signals::READ_THRESHOLD`] is set, and the room from which
    /// [`Signals::WRITE_THRESHOLD`] is set; 0: never.
    ///
    /// # Errors
    /// [`Status::BadState`] in a forked child.
    pub fn thresholds(&self) -> Result<(usize, usize), Status> {
        let Thresholds { read, write } = self.0.lock()?.end(self.0.side).thresholds;
        Ok((read, write))
    }

    /// Sets the read [threshold](Self::thresholds). It does not move to another process.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::SET_PROPERTY`]; [`Status::InvalidArgs`] above
    /// the capacity.
    pub fn set_read_threshold(&self, bytes: usize) -> Result<(), Status> {
        self.0.grant().check(Rights::SET_PROPERTY)?;
        let mut locked = self.0.lock()?;
        if bytes > CAPACITY_BYTES {
            return Err(Status::InvalidArgs);
        }
        locked.end(self.0.side).thresholds.read = bytes;
        update_thresholds(&mut locked, self.0.side);
        Ok(())
    }

    /// Sets the write [threshold](Self::thresholds). It becomes 0 when the other end moves to another
    /// process.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::SET_PROPERTY`]; [`Status::PeerClosed`];
    /// [`Status::NotSupported`] if the other end is in another process, because only the kernel
    /// knows how much room there is then; [`Status::InvalidArgs`] above the capacity.
    pub fn set_write_threshold(&self, bytes: usize) -> Result<(), Status> {
        self.0.grant().check(Rights::SET_PROPERTY)?;
        let locked = self.0.lock()?;
        let side = self.0.side;
        let Transport::Local(mut locked) = locked.transport(side)? else {
            return Err(Status::NotSupported);
        };
        if bytes > CAPACITY_BYTES {
            return Err(Status::InvalidArgs);
        }
        locked.end(side).thresholds.write = bytes;
        update_thresholds(&mut locked, side.peer());
        Ok(())
    }

    /// Disables writing at this end. The peer can still read what was written; then its reads return
    /// [`Status::BadState`]. Another process that holds this end can still write, but the peer drops
    /// that.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::MANAGE_SOCKET`]; if the peer is in another process
    /// and cannot be notified, [`Status::PeerClosed`] or [`Status::ShouldWait`].
    pub fn disable_write(&self) -> Result<(), Status> {
        self.0.grant().check(Rights::MANAGE_SOCKET)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        if let Some(wire) = locked.wire(side) {
            // Before the signal, so that the caller can try again if there is no room.
            wire.send(Content::Finished, &[])?;
            locked.update(side, Signals::WRITABLE, Signals::WRITE_DISABLED);
            locked.update_descriptors(side, &wire);
            return Ok(());
        }
        locked.end(peer).is_finished = true;
        locked.update(side, CLEARED_AT_THE_END, Signals::WRITE_DISABLED);
        locked.update(peer, Signals::empty(), Signals::PEER_WRITE_DISABLED);
        Ok(())
    }
}

impl End for SocketEnd {
    const KIND: Kind = Kind::Socket;
    const RIGHTS: Rights = Rights::SOCKET;
    const INITIAL: Signals = Signals::WRITABLE;
    const USER: Signals = Signals::USER_ALL;
    type Remains = ();
    type Unread = Piece;

    fn close(_: &Arc<Pair<SocketEnd>>, locked: &mut Locked<'_, SocketEnd>, side: Side) {
        let end = locked.end(side);
        end.bytes = VecDeque::new();
        end.datagrams = VecDeque::new();
        locked.update(side.peer(), CLEARED_AT_THE_END, Signals::PEER_CLOSED);
    }
    fn has_room(&self) -> bool {
        self.bytes.len() < CAPACITY_BYTES
    }

    fn has_room_for_two(&self) -> bool {
        false
    }

    fn take_in(
        locked: &mut Locked<'_, SocketEnd>,
        side: Side,
        content: Content,
        load: Load,
    ) -> bool {
        let end = locked.end(side);
        let Load { body, parcel } = load;
        let is_sound = !body.is_empty() && parcel.is_empty();
        match content {
            // From a process that holds the same end as the one that has disabled its writing.
            Content::Message if is_sound && end.is_finished => {}
            Content::Message if is_sound => {
                end.bytes.extend(&*body);
                if end.kind == SocketKind::Datagram {
                    end.datagrams.push_back(body.len());
                }
                locked.update(side, Signals::empty(), Signals::READABLE);
                update_thresholds(locked, side);
            }
            Content::Finished => {
                end.is_finished = true;
                locked.update(side, Signals::empty(), Signals::PEER_WRITE_DISABLED);
            }
            _ => return false,
        }
        true
    }

    fn take_backlog_packets(&mut self) -> Vec<Piece> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let bytes = bytes.make_contiguous();
        let pieces: Vec<&[u8]> = match self.kind {
            SocketKind::Stream => bytes.chunks(MAX_PIECE_BYTES).collect(),
            SocketKind::Datagram => {
                let mut rest = &*bytes;
                self.datagrams.drain(..).filter_map(|length| rest.split_off(..length)).collect()
            }
        };
        let pieces = pieces.into_iter().filter_map(|piece| Piece::of(&[IoSlice::new(piece)]));
        let finished = self.is_finished.then(Piece::finished);
        pieces.chain(finished).collect()
    }

    fn became_wired(&mut self) {
        self.thresholds.write = 0;
    }

    fn kind_bits(&self) -> u32 {
        self.kind as u32
    }
}

impl Socket {
    /// Returns the parts to send to another process; adds the backlog.
    pub(crate) fn depart(self, backlogs: &mut Backlogs) -> Result<Parts, Status> {
        self.0.depart(false, backlogs).map(Parts::from)
    }

    /// Makes an end of what another process sent.
    pub(crate) fn arrive(parts: Parts, rights: Rights) -> Option<Socket> {
        let kinds = [SocketKind::Stream, SocketKind::Datagram];
        let kind_bits = parts.extra >> 32;
        let kind = *kinds.iter().find(|kind| **kind as u64 == kind_bits)?;
        let ends = [(); 2].map(|()| SocketEnd::new(kind));
        Peered::arrive(ends, parts, rights).map(Socket)
    }
}
