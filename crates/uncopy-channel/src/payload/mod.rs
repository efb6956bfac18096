//! Payloads: bytes of any length over a channel, carried in the way that is cheapest.

mod cursor;
mod end;
mod format;
mod pool;
mod receipt;
mod spare;
mod stream;

use std::fmt;
use std::sync::OnceLock;

use crate::channel::MessageBuf;
use crate::memory::LentSlot;
use crate::object::{SealedBytes, Vmo};
use spare::Kept;

pub use end::{PayloadChannel, PayloadOptions};
pub use receipt::{PayloadReason, PayloadReceipt, PayloadWay};

/// Where the bytes of a received payload are.
enum Place {
    /// In messages; the beginning of the first is the header, if it has one.
    Messages(Vec<MessageBuf>),
    Sealed(SealedBytes, Vmo),
    Lent(LentSlot),
    Copied(Vec<u8>),
    Streamed(Kept),
}

/// Received bytes, however they came.
///
/// ```
/// use uncopy::channel::{Channel, Deadline, PayloadChannel, Status};
///
/// let (near, far) = Channel::pair();
/// let (mut near, mut far) = (PayloadChannel::new(near), PayloadChannel::new(far));
/// let receipt = near.send(&vec![7; 200_000], Deadline::INFINITE)?;
/// let payload = far.receive(Deadline::INFINITE)?;
/// assert_eq!(payload.bytes().len(), 200_000);
/// println!("{} bytes were {}: {}", receipt.bytes, receipt.cost, receipt.reason);
/// # Ok::<(), Status>(())
/// ```
pub struct Payload {
    place: Place,
    length: usize,
    receipt: PayloadReceipt,
    /// Made by the first [`bytes`](Self::bytes) of what came in several messages.
    joined: OnceLock<Vec<u8>>,
}

impl Payload {
    fn new(place: Place, length: usize, receipt: PayloadReceipt) -> Payload {
        Payload { place, length, receipt, joined: OnceLock::new() }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the bytes in the pieces in which they lie in memory, in order, without copying.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let (messages, whole): (&[MessageBuf], &[u8]) = match &self.place {
            Place::Messages(messages) => (messages, &[]),
            Place::Sealed(bytes, _) => (&[], &bytes[..self.length]),
            Place::Lent(bytes) => (&[], bytes),
            Place::Copied(bytes) => (&[], bytes),
            Place::Streamed(bytes) => (&[], bytes),
        };
        let (first, others) = messages.split_at(messages.len().min(1));
        let first = first.iter().map(|body| &body[format::header_bytes(body.len())..]);
        let bodies = first.chain(others.iter().map(|body| &**body));
        bodies.chain(std::iter::once(whole)).filter(|piece| !piece.is_empty())
    }

    /// Returns all bytes. Those that came in several messages are copied together by the first call.
    pub fn bytes(&self) -> &[u8] {
        match &self.place {
            Place::Messages(messages) if messages.len() > 1 => self.joined.get_or_init(|| {
                let mut joined = Vec::with_capacity(self.length);
                self.pieces().for_each(|piece| joined.extend_from_slice(piece));
                joined
            }),
            _ => self.pieces().next().unwrap_or_default(),
        }
    }

    /// Returns the sealed memory that the bytes came in, if they did.
    #[must_use]
    pub fn memory(&self) -> Option<&Vmo> {
        if let Place::Sealed(_, memory) = &self.place { Some(memory) } else { None }
    }

    /// Returns how the bytes came, and why.
    #[must_use]
    pub fn receipt(&self) -> PayloadReceipt {
        self.receipt
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload").field("receipt", &self.receipt).finish_non_exhaustive()
    }
}
