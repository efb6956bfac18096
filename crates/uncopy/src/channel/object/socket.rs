//! Sockets in Zircon's sense: byte streams and datagrams without handles.

use std::collections::VecDeque;

use crate::channel::Status;
use crate::channel::handle::{Kind, Source};
use crate::channel::peer::{End, Locked, Pair, Peered, Side, peered};
use crate::channel::rights::Rights;
use crate::channel::signals::Signals;
use crate::channel::sync::Arc;

/// Bytes that one direction holds (`MBufChain::max_size` is of this order).
const CAPACITY_BYTES: usize = 256 << 10;

/// Whether borders between writes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    /// Bytes run together; writes and reads may be partial.
    Stream,
    /// A write is read by one read, which cuts off what does not fit.
    Datagram,
}

/// One end of a socket.
#[derive(Debug)]
pub struct Socket(Peered<SocketEnd>);

peered!(Socket);

/// What waits to be read at one end.
struct SocketEnd {
    kind: SocketKind,
    bytes: VecDeque<u8>,
    /// Lengths of the datagrams in `bytes`.
    datagrams: VecDeque<usize>,
    /// The other end will write no more.
    is_finished: bool,
}

impl SocketEnd {
    fn new(kind: SocketKind) -> SocketEnd {
        SocketEnd { kind, bytes: VecDeque::new(), datagrams: VecDeque::new(), is_finished: false }
    }

    /// Takes in what there is room for.
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Status> {
        let room = CAPACITY_BYTES - self.bytes.len();
        let count = match self.kind {
            SocketKind::Stream => bytes.len().min(room),
            SocketKind::Datagram if bytes.is_empty() => return Err(Status::InvalidArgs),
            SocketKind::Datagram if bytes.len() > CAPACITY_BYTES => return Err(Status::OutOfRange),
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

    /// Copies what is next, and removes it unless it is only looked at.
    fn get(&mut self, bytes: &mut [u8], keep: bool) -> usize {
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

impl Socket {
    /// Both ends.
    #[must_use]
    pub fn pair(kind: SocketKind) -> (Socket, Socket) {
        let [a, b] = Peered::pair([SocketEnd::new(kind), SocketEnd::new(kind)]).map(Socket);
        (a, b)
    }

    /// Writes bytes, of a stream as many as there is room for, of a datagram all; says how many.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::PeerClosed`];
    /// [`Status::BadState`] after [`disable_write`](Self::disable_write); for datagrams
    /// [`Status::InvalidArgs`] if empty and [`Status::OutOfRange`] above 256 KiB;
    /// [`Status::ShouldWait`] if there is no room.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Status> {
        self.0.grant().check(Rights::WRITE)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        if locked.is_closed(peer) {
            return Err(Status::PeerClosed);
        }
        let end = locked.end(peer);
        if end.is_finished {
            return Err(Status::BadState);
        }
        let count = end.put(bytes)?;
        let (is_empty, is_full) = (end.bytes.is_empty(), end.bytes.len() == CAPACITY_BYTES);
        if !is_empty {
            locked.update(peer, Signals::empty(), Signals::READABLE);
        }
        if is_full {
            locked.update(side, Signals::WRITABLE, Signals::empty());
        }
        Ok(count)
    }

    /// Reads bytes of the stream, or one datagram; says how many. What of a datagram does not fit
    /// is lost.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::ShouldWait`] if there is
    /// nothing; if nothing can come any more, [`Status::PeerClosed`], or [`Status::BadState`] if
    /// the peer is open and has disabled its writing.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize, Status> {
        self.receive(bytes, false)
    }

    /// As [`read`](Self::read), and leaves what it read.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn peek(&self, bytes: &mut [u8]) -> Result<usize, Status> {
        self.receive(bytes, true)
    }

    fn receive(&self, bytes: &mut [u8], keep: bool) -> Result<usize, Status> {
        self.0.grant().check(Rights::READ)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        let is_orphan = locked.is_closed(peer);
        let end = locked.end(side);
        if end.bytes.is_empty() {
            return Err(match (is_orphan, end.is_finished) {
                (true, _) => Status::PeerClosed,
                (false, true) => Status::BadState,
                (false, false) => Status::ShouldWait,
            });
        }
        let count = end.get(bytes, keep);
        let (is_empty, is_full) = (end.bytes.is_empty(), end.bytes.len() == CAPACITY_BYTES);
        let is_finished = end.is_finished;
        if is_empty {
            locked.update(side, Signals::READABLE, Signals::empty());
        }
        if !is_orphan && !is_finished && !is_full {
            locked.update(peer, Signals::empty(), Signals::WRITABLE);
        }
        Ok(count)
    }

    /// This end will write no more; the peer reads what is there and is then told so.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::MANAGE_SOCKET`].
    pub fn disable_write(&self) -> Result<(), Status> {
        self.0.grant().check(Rights::MANAGE_SOCKET)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        locked.end(peer).is_finished = true;
        locked.update(side, Signals::WRITABLE, Signals::WRITE_DISABLED);
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

    fn close(_: &Arc<Pair<SocketEnd>>, locked: &mut Locked<'_, SocketEnd>, side: Side) {
        let end = locked.end(side);
        end.bytes = VecDeque::new();
        end.datagrams = VecDeque::new();
        locked.update(side.peer(), Signals::WRITABLE, Signals::PEER_CLOSED);
    }
}
