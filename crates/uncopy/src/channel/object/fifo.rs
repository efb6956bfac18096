//! Fifos: short queues of elements of one size.

use std::collections::VecDeque;

use crate::channel::Status;
use crate::channel::handle::{Kind, Source};
use crate::channel::peer::{End, Locked, Pair, Peered, Side, peered};
use crate::channel::rights::Rights;
use crate::channel::signals::Signals;
use crate::channel::sync::Arc;

/// Bytes of all elements of one direction (`FifoDispatcher::kMaxSizeBytes`).
const MAX_BYTES: usize = 4096;

/// One end of a fifo: elements of one fixed size in both directions.
#[derive(Debug)]
pub struct Fifo(Peered<FifoEnd>);

peered!(Fifo);

/// What waits to be read at one end, and the sizes.
struct FifoEnd {
    bytes: VecDeque<u8>,
    capacity: usize,
    element: usize,
}

impl Fifo {
    /// Both ends of a fifo that holds `count` elements of `element_bytes` in each direction.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] if either is zero or their product above 4,096.
    pub fn pair(count: usize, element_bytes: usize) -> Result<(Fifo, Fifo), Status> {
        let capacity = count.checked_mul(element_bytes).filter(|n| (1..=MAX_BYTES).contains(n));
        let capacity = capacity.ok_or(Status::OutOfRange)?;
        let end = || FifoEnd { bytes: VecDeque::new(), capacity, element: element_bytes };
        let [a, b] = Peered::pair([end(), end()]).map(Fifo);
        Ok((a, b))
    }

    /// Writes as many whole elements of `elements` as there is room for; says how many.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`] if `elements` is
    /// empty or not whole; [`Status::PeerClosed`]; [`Status::ShouldWait`] if there is room for
    /// none.
    pub fn write(&self, elements: &[u8]) -> Result<usize, Status> {
        self.0.grant().check(Rights::WRITE)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        let is_orphan = locked.is_closed(peer);
        let end = locked.end(peer);
        let size = end.element;
        if elements.is_empty() || !elements.len().is_multiple_of(size) {
            return Err(Status::OutOfRange);
        }
        if is_orphan {
            return Err(Status::PeerClosed);
        }
        let count = (elements.len()).min(end.capacity - end.bytes.len());
        if count == 0 {
            return Err(Status::ShouldWait);
        }
        end.bytes.extend(&elements[..count]);
        let is_full = end.bytes.len() == end.capacity;
        locked.update(peer, Signals::empty(), Signals::READABLE);
        if is_full {
            locked.update(side, Signals::WRITABLE, Signals::empty());
        }
        Ok(count / size)
    }

    /// Reads as many elements as there are and fit into `elements`; says how many.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::OutOfRange`] if `elements` is
    /// empty or not whole; [`Status::ShouldWait`] if there are none, or [`Status::PeerClosed`] if
    /// none can come any more.
    pub fn read(&self, elements: &mut [u8]) -> Result<usize, Status> {
        self.0.grant().check(Rights::READ)?;
        let mut locked = self.0.lock()?;
        let (side, peer) = (self.0.side, self.0.side.peer());
        let is_orphan = locked.is_closed(peer);
        let end = locked.end(side);
        let size = end.element;
        if elements.is_empty() || !elements.len().is_multiple_of(size) {
            return Err(Status::OutOfRange);
        }
        let count = elements.len().min(end.bytes.len());
        if count == 0 {
            return Err(if is_orphan { Status::PeerClosed } else { Status::ShouldWait });
        }
        for (to, from) in elements.iter_mut().zip(end.bytes.drain(..count)) {
            *to = from;
        }
        if end.bytes.is_empty() {
            locked.update(side, Signals::READABLE, Signals::empty());
        }
        if !is_orphan {
            locked.update(peer, Signals::empty(), Signals::WRITABLE);
        }
        Ok(count / size)
    }
}

impl End for FifoEnd {
    const KIND: Kind = Kind::Fifo;
    const RIGHTS: Rights = Rights::FIFO;
    const INITIAL: Signals = Signals::WRITABLE;
    const USER: Signals = Signals::USER_ALL;
    type Remains = ();

    fn close(_: &Arc<Pair<FifoEnd>>, locked: &mut Locked<'_, FifoEnd>, side: Side) {
        locked.end(side).bytes.clear();
        locked.update(side.peer(), Signals::WRITABLE, Signals::PEER_CLOSED);
    }
}
