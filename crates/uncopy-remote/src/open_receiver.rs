//! Receives pieces of files over an open data connection. Each has its number of bytes and its digest from the session;
//! nothing else that comes over the connection has a meaning.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uncopy_copy::peer::PeerError;
use uncopy_core::Errno;
use uncopy_os::file::{self, Ready};
use uncopy_os::stream;
use uncopy_wire::{Answer, Call};

use crate::budget::BudgetShare;
use crate::calls::{Calls, Pending};
use crate::data::StreamCutter;
use crate::gate::lock;
use crate::link::Counts;
use crate::open_life::READY;
use crate::piece::Piece;
use crate::slot::Slot;
use crate::spare::SpareBuffers;

/// Number of bytes that are received before they are hashed, while the processor's cache has them.
const BATCH_BYTES: usize = 256 << 10;

/// Reason why a piece did not come.
#[derive(Debug)]
pub(crate) enum PieceFault {
    /// The connection has ended, or does not stand at the other end.
    Cut,
    /// Other bytes came than those with this digest.
    Altered { digest: [u8; 32] },
    /// The other end could not read it, or is lost.
    Failed(PeerError),
}

type PieceSlot = Slot<Result<Vec<u8>, PieceFault>>;

/// Piece that was asked for.
#[derive(Debug)]
pub(crate) struct PendingOpen(Arc<PieceSlot>);

impl PendingOpen {
    /// Waits for it.
    pub(crate) fn wait(self) -> Result<Vec<u8>, PieceFault> {
        self.0.wait()
    }
}

#[derive(Debug)]
struct Expected {
    /// Answer of the session, which comes first.
    announced: Pending,
    slot: Arc<PieceSlot>,
    /// Number of bytes that were asked for.
    bytes: u64,
}

#[derive(Debug, Default)]
struct ExpectedQueue {
    pieces: VecDeque<Expected>,
    /// Number of bytes of these, and of the one that is received.
    owed: u64,
    has_ended: bool,
}

/// Receiver of an open data connection.
#[derive(Debug)]
pub(crate) struct OpenReceiver {
    number: u32,
    session: Arc<Calls>,
    spare: Arc<SpareBuffers>,
    cutter: StreamCutter,
    /// Time for a piece.
    limit: Duration,
    counts: Arc<Counts>,
    /// Pieces in the order in which they come.
    queue: Mutex<ExpectedQueue>,
    added: Condvar,
}

impl OpenReceiver {
    /// `number`: that of the connection's announcement. `limit`: time in which a piece must come whole.
    pub(crate) fn new(
        number: u32,
        session: Arc<Calls>,
        spare: Arc<SpareBuffers>,
        cutter: StreamCutter,
        limit: Duration,
        counts: Arc<Counts>,
    ) -> OpenReceiver {
        let (queue, added) = (Mutex::default(), Condvar::new());
        OpenReceiver { number, session, spare, cutter, limit, counts, queue, added }
    }

    /// Asks for a piece. Takes `share` for it if it asks.
    pub(crate) fn begin(
        &self,
        piece: Piece,
        share: &mut Option<BudgetShare>,
    ) -> Result<PendingOpen, PeerError> {
        let Piece { file, offset, bytes } = piece;
        let mut queue = lock(&self.queue);
        if queue.has_ended {
            return Err(PeerError::Lost { what: "the data connection has ended".to_owned() });
        }
        // Under the lock: pieces come in the order of the calls.
        let call = Call::Send { file, offset, bytes, over: self.number };
        let announced = self.session.begin(&call, &mut None)?;
        let slot = Arc::new(PieceSlot::new(share.take()));
        let bytes = u64::from(bytes);
        queue.owed += bytes;
        queue.pieces.push_back(Expected { announced, slot: Arc::clone(&slot), bytes });
        self.added.notify_one();
        Ok(PendingOpen(slot))
    }

    /// Returns the number of bytes that were asked for and have not come.
    pub(crate) fn owed(&self) -> u64 {
        lock(&self.queue).owed
    }

    /// Waits until the other end takes calls for the connection.
    pub(crate) fn wait_until_ready(&self, socket: &TcpStream) -> bool {
        let mut ready = Vec::with_capacity(1);
        self.fill(socket, &mut ready, 1, Instant::now() + self.limit, &mut |_| ()).is_ok()
            && ready == [READY]
    }

    /// Receives pieces until the connection ends.
    pub(crate) fn run(&self, socket: &TcpStream) {
        while let Some(Expected { announced, slot, bytes: asked }) = self.next() {
            let received = match announced.wait() {
                Ok(Answer::Sent { bytes, digest }) => self.receive(socket, bytes, digest),
                // Nothing of it comes over the connection.
                Err(PeerError::System(errno)) if errno != Errno::ENOTCONN => {
                    Err(PieceFault::Failed(PeerError::System(errno)))
                }
                Err(PeerError::System(_)) => Err(PieceFault::Cut),
                Err(lost) => Err(PieceFault::Failed(lost)),
                Ok(_) => Err(PieceFault::Cut),
            };
            let goes_on = !matches!(received, Err(PieceFault::Cut));
            if !goes_on {
                // Before the one who waits for it asks again.
                self.close_to_others();
            }
            lock(&self.queue).owed -= asked;
            slot.fill(received);
            if !goes_on {
                return;
            }
        }
    }

    /// Waits for the next piece; `None`: the connection has ended.
    fn next(&self) -> Option<Expected> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.has_ended {
                return None;
            }
            match queue.pieces.pop_front() {
                None => queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner),
                piece => return piece,
            }
        }
    }

    fn receive(
        &self,
        socket: &TcpStream,
        bytes: u32,
        digest: [u8; 32],
    ) -> Result<Vec<u8>, PieceFault> {
        let (wanted, until) = (bytes as usize, Instant::now() + self.limit);
        let (mut received, mut hasher) = (self.spare.take(wanted), blake3::Hasher::new());
        let hash = &mut |bytes: &[u8]| {
            hasher.update(bytes);
        };
        self.fill(socket, &mut received, wanted, until, hash).map_err(|_| PieceFault::Cut)?;
        match *hasher.finalize().as_bytes() == digest {
            true => Ok(received),
            false => Err(PieceFault::Altered { digest }),
        }
    }

    /// Receives this number of bytes; calls `take` with each batch.
    fn fill(
        &self,
        socket: &TcpStream,
        received: &mut Vec<u8>,
        wanted: usize,
        until: Instant,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Errno> {
        let mut taken = 0;
        while received.len() < wanted {
            let batch = (wanted - taken).min(BATCH_BYTES);
            match stream::receive(socket, received, batch - (received.len() - taken)) {
                Ok(0) => return Err(Errno::EPIPE),
                Ok(count) => self.counts.receive(count as u64),
                Err(Errno::EAGAIN) => {
                    let left = until.saturating_duration_since(Instant::now());
                    file::wait(socket, Ready::ToRead, left)?;
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
            // Also one that sends a little now and then.
            if received.len() < wanted && Instant::now() >= until {
                return Err(Errno::ETIMEDOUT);
            }
            if received.len() - taken == batch {
                take(&received[taken..]);
                taken = received.len();
            }
        }
        Ok(())
    }

    /// Cuts the connection.
    pub(crate) fn cut(&self) {
        self.cutter.cut();
    }

    fn close_to_others(&self) {
        lock(&self.queue).has_ended = true;
    }

    /// Ends it: no piece comes any more.
    pub(crate) fn close(&self) {
        let pieces = {
            let mut queue = lock(&self.queue);
            queue.has_ended = true;
            std::mem::take(&mut queue.pieces)
        };
        self.added.notify_all();
        for piece in pieces {
            piece.slot.fill(Err(PieceFault::Cut));
        }
    }
}
