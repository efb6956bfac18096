//! Fifos: short queues of elements of one size.

use std::collections::VecDeque;
use std::io::IoSlice;

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

/// Maximum size of all elements of one direction (`FifoDispatcher::kMaxSizeBytes`).
const MAX_BYTES: usize = 4096;

/// One end of a fifo: elements of one fixed size in both directions.
#[derive(Debug)]
pub struct Fifo(Peered<FifoEnd>);

peered!(Fifo);

/// Unread elements of one end, and the sizes.
struct FifoEnd {
    bytes: VecDeque<u8>,
    capacity: usize,
    element: usize,
}

impl Fifo {
    /// Makes a fifo that holds `count` elements of `element_bytes` in each direction, and returns both
    /// ends.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] if either is zero or their product is above 4,096.
    pub fn pair(count: usize, element_bytes: usize) -> Result<(Fifo, Fifo), Status> {
        let capacity = count.checked_mul(element_bytes).filter(|n| (1..=MAX_BYTES).contains(n));
        let capacity = capacity.ok_or(Status::OutOfRange)?;
        let ends = [(); 2].map(|()| FifoEnd::new(capacity, element_bytes));
        let [a, b] = Peered::pair(ends).map(Fifo);
        Ok((a, b))
    }

    /// Returns the size of one element in bytes.
    ///
    /// # Errors
    /// [`Status::BadState`] in a forked child.
    pub fn element_bytes(&self) -> Result<usize, Status> {
        Ok(self.0.lock()?.end(self.0.side).element)
    }

    /// Writes as many whole elements of `elements` as there is room for; returns how many.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`] if `elements` is
    /// empty or not a multiple of the element size; [`Status::PeerClosed`];
    /// [`Status::ShouldWait`] if there is no room.
    pub fn write(&self, elements: &[u8]) -> Result<usize, Status> {
        self.0.grant().check(Rights::WRITE)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        let end = locked.end(side);
        let (size, capacity) = (end.element, end.capacity);
        end.check_whole(elements.len())?;
        match locked.transport(side)? {
            Transport::Wired(wire) => {
                let count = elements.len().min(capacity);
                self.0.transmit(&wire, &elements[..count])?;
                Ok(count / size)
            }
            Transport::Local(mut locked) => {
                let end = locked.end(peer);
                let count = elements.len().min(capacity - end.bytes.len());
                if count == 0 {
                    return Err(Status::ShouldWait);
                }
                end.bytes.extend(&elements[..count]);
                let is_full = end.bytes.len() == capacity;
                locked.update(peer, Signals::empty(), Signals::READABLE);
                if is_full {
                    locked.update(side, Signals::WRITABLE, Signals::empty());
                }
                Ok(count / size)
            }
        }
    }

    /// Reads as many elements as there are and fit into `elements`; returns how many.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::OutOfRange`] if `elements` is
    /// empty or not a multiple of the element size; [`Status::ShouldWait`] if there are none, or
    /// [`Status::PeerClosed`] if there are none and the peer is closed.
    pub fn read(&self, elements: &mut [u8]) -> Result<usize, Status> {
        self.0.grant().check(Rights::READ)?;
        let mut locked = self.0.lock()?;
        let side = self.0.side;
        locked.end(side).check_whole(elements.len())?;
        let wire = locked.wire(side);
        if let Some(wire) = &wire
            && locked.end(side).bytes.len() < elements.len()
        {
            locked.pump(side, wire, Signals::empty());
        }
        let end = locked.end(side);
        let size = end.element;
        let was_full = !end.has_room();
        let count = elements.len().min(end.bytes.len());
        if count == 0 {
            return Err(locked.nothing_to_read(side));
        }
        for (to, from) in elements.iter_mut().zip(end.bytes.drain(..count)) {
            *to = from;
        }
        let (is_empty, has_room) = (end.bytes.is_empty(), end.has_room());
        if is_empty {
            locked.update(side, Signals::READABLE, Signals::empty());
        }
        if was_full && has_room {
            locked.room_made(side, wire.as_deref());
        }
        Ok(count / size)
    }
}

impl FifoEnd {
    fn new(capacity: usize, element: usize) -> FifoEnd {
        FifoEnd { bytes: VecDeque::new(), capacity, element }
    }

    /// Checks that `length` bytes are whole elements, at least one.
    fn check_whole(&self, length: usize) -> Result<(), Status> {
        let is_whole = length > 0 && length.is_multiple_of(self.element);
        if is_whole { Ok(()) } else { Err(Status::OutOfRange) }
    }
}

impl Fifo {
    /// Returns the parts to send to another process; adds the backlog.
    pub(crate) fn depart(self, backlogs: &mut Backlogs) -> Result<Parts, Status> {
        self.0.depart(false, backlogs).map(Parts::from)
    }

    /// Makes an end of what another process sent.
    pub(crate) fn arrive(parts: Parts, rights: Rights) -> Option<Fifo> {
        let kind_bits = (parts.extra >> 32) as usize;
        let (capacity, element) = (kind_bits & 0xffff, kind_bits >> 16);
        let is_sound = (1..=MAX_BYTES).contains(&capacity)
            && (1..=capacity).contains(&element)
            && capacity.is_multiple_of(element);
        let ends = [(); 2].map(|()| FifoEnd::new(capacity, element));
        if is_sound { Peered::arrive(ends, parts, rights).map(Fifo) } else { None }
    }
}

impl End for FifoEnd {
    const KIND: Kind = Kind::Fifo;
    const RIGHTS: Rights = Rights::FIFO;
    const INITIAL: Signals = Signals::WRITABLE;
    const USER: Signals = Signals::USER_ALL;
    type Remains = ();
    type Unread = Piece;

    fn close(_: &Arc<Pair<FifoEnd>>, locked: &mut Locked<'_, FifoEnd>, side: Side) {
        locked.end(side).bytes.clear();
        locked.update(side.peer(), Signals::WRITABLE, Signals::PEER_CLOSED);
    }
    fn has_room(&self) -> bool {
        self.bytes.len() < self.capacity
    }

    fn has_room_for_two(&self) -> bool {
        false
    }

    fn take_in(locked: &mut Locked<'_, FifoEnd>, side: Side, content: Content, load: Load) -> bool {
        let end = locked.end(side);
        let length = load.body.len();
        let fits = (1..=end.capacity).contains(&length) && length.is_multiple_of(end.element);
        if content != Content::Message || !fits || !load.parcel.is_empty() {
            return false;
        }
        end.bytes.extend(&*load.body);
        locked.update(side, Signals::empty(), Signals::READABLE);
        true
    }

    fn take_backlog_packets(&mut self) -> Vec<Piece> {
        let mut bytes = std::mem::take(&mut self.bytes);
        // An end takes in no packet above its capacity, and may hold almost twice as much.
        let pieces = bytes.make_contiguous().chunks(self.capacity);
        pieces.filter_map(|piece| Piece::of(&[IoSlice::new(piece)])).collect()
    }

    fn kind_bits(&self) -> u32 {
        // Both are at most 4,096.
        (self.capacity | self.element << 16) as u32
    }
}
