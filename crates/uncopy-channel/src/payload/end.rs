//! An end of a channel that sends and receives payloads.

use std::io::IoSlice;
use std::sync::Arc;

use super::format::{HEADER_BYTES, Header};
use super::pool::{self, PeerPool};
use super::{Payload, PayloadReason, PayloadReceipt, PayloadWay, Place};
use crate::channel::{Channel, Handle, MessageBuf, total_bytes};
use crate::memory::{Draft, PoolMemory, PoolShape, TrustedPeer};
use crate::object::{Object, Vmo};
use crate::signals::Signals;
use crate::sleep::Deadline;
use crate::{MAX_BYTES, MAX_REGIONS, MemoryRefusal, Status};
use uncopy_core::Cost;

/// Bytes of a payload that fit into its first message.
const FIRST_BYTES: usize = MAX_BYTES - HEADER_BYTES;

/// Options of a [`PayloadChannel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadOptions {
    /// Maximum length of a received payload, and of the pool of the peer; 256 MiB by default.
    pub max_bytes: u64,
    /// Length from which on bytes are copied into fresh sealed memory; never by default, because several messages
    /// are quicker if all bytes are read once. It pays if the receiver reads a part, keeps or forwards them.
    pub memory_from: Option<usize>,
}

impl Default for PayloadOptions {
    fn default() -> PayloadOptions {
        PayloadOptions { max_bytes: 256 << 20, memory_from: None }
    }
}

impl PayloadOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> PayloadOptions {
        PayloadOptions::default()
    }

    /// Sets the maximum length of a received payload, and of the pool of the peer.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> PayloadOptions {
        self.max_bytes = bytes;
        self
    }

    /// Sets the length from which on bytes are copied into fresh sealed memory.
    #[must_use]
    pub fn memory_from(mut self, bytes: Option<usize>) -> PayloadOptions {
        self.memory_from = bytes;
        self
    }
}

/// Messages of a payload that has not come whole.
struct Partial {
    messages: Vec<MessageBuf>,
    length: usize,
    left: usize,
    /// Refused because of its length: its messages are dropped.
    is_refused: bool,
}

/// One end of a channel whose messages are payloads. Both ends have to be one.
///
/// An error in the middle of a payload, and a message that is none, make the end unusable: [`Status::BadState`] from
/// then on. A deadline that passes while receiving does not.
pub struct PayloadChannel {
    channel: Channel,
    options: PayloadOptions,
    own_pool: Option<Arc<PoolMemory>>,
    peer_pool: Option<PeerPool>,
    trusted: Option<TrustedPeer>,
    is_broken: bool,
    partial: Option<Partial>,
}

impl PayloadChannel {
    /// Sends and receives payloads over `channel`, with the default options.
    #[must_use]
    pub fn new(channel: Channel) -> PayloadChannel {
        PayloadChannel::with_options(channel, PayloadOptions::default())
    }

    /// Sends and receives payloads over `channel`.
    #[must_use]
    pub fn with_options(channel: Channel, options: PayloadOptions) -> PayloadChannel {
        PayloadChannel {
            channel,
            options,
            own_pool: None,
            peer_pool: None,
            trusted: None,
            is_broken: false,
            partial: None,
        }
    }

    /// Returns the channel, to wait for it among others. Reading or writing its messages breaks the payloads.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sends bytes: in one message, cut into several, in the pool if there is one with a free slot, or as the options
    /// say. Waits for room until the deadline.
    ///
    /// # Errors
    /// As [`Channel::write`]; [`Status::TimedOut`]; [`Status::BadState`] if the end is unusable.
    pub fn send(&mut self, bytes: &[u8], deadline: Deadline) -> Result<PayloadReceipt, Status> {
        self.send_regions(&[IoSlice::new(bytes)], deadline)
    }

    /// Sends as [`send`](Self::send) does, from any number of regions.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_regions(
        &mut self,
        regions: &[IoSlice<'_>],
        deadline: Deadline,
    ) -> Result<PayloadReceipt, Status> {
        let length: usize = regions.iter().map(|region| region.len()).sum();
        if length > FIRST_BYTES {
            if let Some(mut draft) = self.own_pool.as_ref().and_then(|pool| pool.draft(length)) {
                let mut rest = &mut *draft;
                for region in regions {
                    let (now, later) = rest.split_at_mut(region.len());
                    now.copy_from_slice(region);
                    rest = later;
                }
                let sent = self.send_draft(draft, deadline)?;
                let (cost, reason) = (Cost::UserCopied, PayloadReason::CopiedIn);
                return Ok(PayloadReceipt { cost, reason, ..sent });
            }
            if self.options.memory_from.is_some_and(|from| length >= from) {
                return self.send_stored(regions, length, deadline);
            }
        }
        self.send_messages(regions, length, deadline)
    }

    /// Sends the first `length` bytes of sealed memory, which nobody copies.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`Vmo::examine`]; [`Status::OutOfRange`] if the memory is shorter;
    /// [`Status::AccessDenied`] if its handle cannot be duplicated.
    pub fn send_memory(
        &mut self,
        memory: &Vmo,
        length: usize,
        deadline: Deadline,
    ) -> Result<PayloadReceipt, Status> {
        memory.examine(u64::MAX)?;
        memory.check_range(0, length as u64)?;
        let header = Header::Memory { length: length as u64 }.encode();
        let handles = vec![memory.duplicate(None)?.into()];
        self.check_usable()?;
        self.write(&[IoSlice::new(&header)], handles, deadline)?;
        let (way, reason) = (PayloadWay::Memory, PayloadReason::Sealed);
        Ok(PayloadReceipt { bytes: length as u64, way, cost: Cost::Shared, reason })
    }

    /// Sends a received payload on: sealed memory without copying it, otherwise as [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`send_memory`](Self::send_memory).
    pub fn forward(
        &mut self,
        payload: &Payload,
        deadline: Deadline,
    ) -> Result<PayloadReceipt, Status> {
        if let Some(memory) = payload.memory() {
            return self.send_memory(memory, payload.len(), deadline);
        }
        let pieces: Vec<_> = payload.pieces().map(IoSlice::new).collect();
        self.send_regions(&pieces, deadline)
    }

    /// Makes a pool of `slots` slots of `slot_bytes` bytes, rounded up to pages, and sends it to the peer. Long
    /// payloads are then put into it. The peer can read all of it at any time, and write to none of it.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Status::OutOfRange`] for no slots, more than 1,024, or none or too many bytes;
    /// [`Status::BadState`] if there is a pool already; [`Status::NoMemory`].
    pub fn share_pool(
        &mut self,
        slots: usize,
        slot_bytes: usize,
        deadline: Deadline,
    ) -> Result<(), Status> {
        self.check_usable()?;
        if self.own_pool.is_some() {
            return Err(Status::BadState);
        }
        let slot_bytes = slot_bytes.checked_next_multiple_of(4096).ok_or(Status::OutOfRange)?;
        let shape = PoolShape { slots, slot_bytes };
        let (memory, [data, states]) = pool::make(shape)?;
        let header = Header::Pool { shape }.encode();
        self.write(&[IoSlice::new(&header)], vec![data.into(), states.into()], deadline)?;
        self.own_pool = Some(Arc::new(memory));
        Ok(())
    }

    /// Returns `length` bytes of a free slot of the pool, to be written in place and [sent](Self::send_draft). Its
    /// contents are those of an earlier payload.
    ///
    /// # Errors
    /// [`Status::ShouldWait`] if no slot is free; [`Status::OutOfRange`] if slots are shorter; [`Status::BadState`]
    /// without a pool.
    pub fn draft(&self, length: usize) -> Result<Draft, Status> {
        let pool = self.own_pool.as_ref().ok_or(Status::BadState)?;
        if length > pool.shape().slot_bytes {
            return Err(Status::OutOfRange);
        }
        pool.draft(length).ok_or(Status::ShouldWait)
    }

    /// Sends what was written to a slot of the pool, without copying it.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Status::InvalidArgs`] for a slot of another pool.
    #[allow(clippy::needless_pass_by_value, reason = "what was sent is written to no more")]
    pub fn send_draft(
        &mut self,
        draft: Draft,
        deadline: Deadline,
    ) -> Result<PayloadReceipt, Status> {
        self.check_usable()?;
        if !self.own_pool.as_ref().is_some_and(|pool| draft.is_of(pool)) {
            return Err(Status::InvalidArgs);
        }
        let (length, slot) = (draft.len() as u64, draft.slot() as u64);
        let header = Header::Slot { length, slot }.encode();
        draft.lend();
        self.write(&[IoSlice::new(&header)], Vec::new(), deadline)
            .inspect_err(|_| draft.take_back())?;
        let (way, reason) = (PayloadWay::Pool, PayloadReason::InPlace);
        Ok(PayloadReceipt { bytes: length, way, cost: Cost::Shared, reason })
    }

    /// Lends payloads in the peer's pool from where they lie. Without this they are copied out.
    pub fn trust_peer(&mut self, promise: TrustedPeer) {
        self.trusted = Some(promise);
    }

    /// Waits for the next payload.
    ///
    /// # Errors
    /// As [`Channel::read`] and waiting; [`MemoryRefusal::TooLarge`] above the limit, and other refusals of
    /// [`Vmo::examine`]: that payload is lost; [`Status::BadState`] if the peer breaks the rules of payloads, and from then
    /// on.
    pub fn receive(&mut self, deadline: Deadline) -> Result<Payload, Status> {
        loop {
            self.check_usable()?;
            let message = self.channel.receive(deadline)?;
            if let Some(payload) = self.take_in(message).transpose() {
                return payload;
            }
        }
    }

    /// Takes a message in; returns the payload that is whole now.
    fn take_in(&mut self, mut message: MessageBuf) -> Result<Option<Payload>, Status> {
        if self.partial.is_some() {
            return self.take_piece(message, 0);
        }
        let header = Header::decode(&message);
        let handles = message.take_handles();
        let limit = self.options.max_bytes;
        match header {
            Some(Header::Bytes { length }) if handles.is_empty() => {
                let length = usize::try_from(length).map_err(|_| self.broken())?;
                let is_refused = length as u64 > limit;
                let (messages, left) = (Vec::new(), length);
                self.partial = Some(Partial { messages, length, left, is_refused });
                self.take_piece(message, HEADER_BYTES)
            }
            Some(Header::Memory { length }) => {
                let Some([memory]) = memory_of(handles) else { return Err(self.broken()) };
                let bytes = memory.map_at_most(limit)?;
                let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len());
                let length = length.ok_or_else(|| self.broken())?;
                let (way, reason) = (PayloadWay::Memory, PayloadReason::Sealed);
                let receipt =
                    PayloadReceipt { bytes: length as u64, way, cost: Cost::Shared, reason };
                Ok(Some(Payload::new(Place::Sealed(bytes, memory), length, receipt)))
            }
            Some(Header::Slot { length, slot }) if handles.is_empty() => {
                let (Ok(length), Ok(slot)) = (usize::try_from(length), usize::try_from(slot))
                else {
                    return Err(self.broken());
                };
                self.take_slot(slot, length).map(Some)
            }
            Some(Header::Pool { shape }) if self.peer_pool.is_none() => {
                let Some(memory) = memory_of(handles) else { return Err(self.broken()) };
                // Without it, nothing in it can be received.
                let pool = PeerPool::accept(shape, memory, limit);
                self.peer_pool = Some(pool.inspect_err(|_| self.is_broken = true)?);
                Ok(None)
            }
            _ => Err(self.broken()),
        }
    }

    /// Takes in a message of a payload that consists of bytes, the first `skip` of which are not its own.
    fn take_piece(&mut self, message: MessageBuf, skip: usize) -> Result<Option<Payload>, Status> {
        let Some(mut partial) = self.partial.take() else { return Err(self.broken()) };
        let length = message.len() - skip;
        let is_sound = length <= partial.left && (length > 0 || partial.left == 0);
        if !is_sound || !message.handles().is_empty() {
            return Err(self.broken());
        }
        partial.left -= length;
        if !partial.is_refused {
            partial.messages.push(message);
        }
        if partial.left > 0 {
            self.partial = Some(partial);
            return Ok(None);
        }
        let Partial { messages, length, is_refused, .. } = partial;
        let bytes = length as u64;
        if is_refused {
            let limit = self.options.max_bytes;
            return Err(MemoryRefusal::TooLarge { bytes, limit }.into());
        }
        let cost = if self.channel.0.is_wired() { Cost::KernelCopied } else { Cost::Shared };
        let receipt = PayloadReceipt { cost, ..of_messages(length) };
        Ok(Some(Payload::new(Place::Messages(messages), length, receipt)))
    }

    fn take_slot(&mut self, slot: usize, length: usize) -> Result<Payload, Status> {
        let Some(pool) = &self.peer_pool else { return Err(self.broken()) };
        let (bytes, way) = (length as u64, PayloadWay::Pool);
        let Some(promise) = self.trusted else {
            let Some(copied) = pool.copy_out(slot, length) else { return Err(self.broken()) };
            let (cost, reason) = (Cost::KernelCopied, PayloadReason::CopiedOut);
            let receipt = PayloadReceipt { bytes, way, cost, reason };
            return Ok(Payload::new(Place::Copied(copied?), length, receipt));
        };
        let lent = pool.memory().lend(slot, length, promise);
        let Some(lent) = lent else { return Err(self.broken()) };
        let (cost, reason) = (Cost::Shared, PayloadReason::InPlace);
        let receipt = PayloadReceipt { bytes, way, cost, reason };
        Ok(Payload::new(Place::Lent(lent), length, receipt))
    }

    fn send_messages(
        &mut self,
        regions: &[IoSlice<'_>],
        length: usize,
        deadline: Deadline,
    ) -> Result<PayloadReceipt, Status> {
        self.check_usable()?;
        let header = Header::Bytes { length: length as u64 }.encode();
        let mut cursor = Cursor { regions, skip: 0 };
        let mut left = length;
        let mut parts = vec![IoSlice::new(&header)];
        parts.extend(cursor.take(left.min(FIRST_BYTES)));
        self.write(&parts, Vec::new(), deadline)?;
        left -= total_bytes(&parts) - HEADER_BYTES;
        while left > 0 {
            let parts = cursor.take(left.min(MAX_BYTES));
            // The peer cannot make sense of what follows half a payload.
            let written = self.write(&parts, Vec::new(), deadline);
            written.inspect_err(|_| self.is_broken = true)?;
            left -= total_bytes(&parts);
        }
        let cost = if self.channel.0.is_wired() { Cost::KernelCopied } else { Cost::UserCopied };
        Ok(PayloadReceipt { cost, ..of_messages(length) })
    }

    /// Copies the regions into fresh memory, and sends that.
    fn send_stored(
        &mut self,
        regions: &[IoSlice<'_>],
        length: usize,
        deadline: Deadline,
    ) -> Result<PayloadReceipt, Status> {
        let memory = Vmo::new(length as u64)?;
        let mut at = 0;
        for region in regions {
            memory.write(region, at)?;
            at += region.len() as u64;
        }
        memory.seal()?;
        let sent = self.send_memory(&memory, length, deadline)?;
        let (cost, reason) = (Cost::KernelCopied, PayloadReason::Stored);
        Ok(PayloadReceipt { cost, reason, ..sent })
    }

    /// Writes one message, waiting for room.
    fn write(
        &self,
        regions: &[IoSlice<'_>],
        mut handles: Vec<Handle>,
        deadline: Deadline,
    ) -> Result<(), Status> {
        loop {
            match self.channel.try_write(regions, &mut handles) {
                Err(Status::ShouldWait) => {
                    let awaited = Signals::WRITABLE | Signals::PEER_CLOSED;
                    self.channel.wait_one(awaited, deadline)?;
                }
                done => return done,
            }
        }
    }

    fn check_usable(&self) -> Result<(), Status> {
        if self.is_broken { Err(Status::BadState) } else { Ok(()) }
    }

    /// Marks the end as unusable; returns the status of that.
    fn broken(&mut self) -> Status {
        self.is_broken = true;
        Status::BadState
    }
}

/// Returns the receipt of bytes in messages, with the highest cost.
fn of_messages(length: usize) -> PayloadReceipt {
    let (way, reason) = match length {
        0..=FIRST_BYTES => (PayloadWay::Message, PayloadReason::Short),
        _ => (PayloadWay::Messages, PayloadReason::Cut),
    };
    PayloadReceipt { bytes: length as u64, way, cost: Cost::UserCopied, reason }
}

/// Returns the handles, if they are as many, and all of memory.
fn memory_of<const N: usize>(handles: Vec<Handle>) -> Option<[Vmo; N]> {
    let memory: Vec<Vmo> = handles.into_iter().map_while(|h| Vmo::try_from(h).ok()).collect();
    memory.try_into().ok()
}

/// A place in a list of regions.
struct Cursor<'a> {
    regions: &'a [IoSlice<'a>],
    /// Bytes of the first region that were taken.
    skip: usize,
}

impl<'a> Cursor<'a> {
    /// Takes the next `length` bytes, or all that are left, or as many regions as go into a message
    /// beside its header.
    fn take(&mut self, length: usize) -> Vec<IoSlice<'a>> {
        let mut left = length;
        let mut taken = Vec::new();
        while taken.len() < MAX_REGIONS - 1
            && let Some((first, others)) = self.regions.split_first()
        {
            let rest = &first[self.skip..];
            let now = rest.len().min(left);
            if now > 0 {
                taken.push(IoSlice::new(&rest[..now]));
            }
            left -= now;
            if now < rest.len() {
                self.skip += now;
                break;
            }
            (self.regions, self.skip) = (others, 0);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::Cursor;

    #[test]
    fn regions_are_taken_in_order_and_cut() {
        let regions = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defg")];
        for lengths in [vec![7], vec![1, 2, 3, 1], vec![4, 3], vec![3, 4, 1], vec![0, 5, 9]] {
            let mut cursor = Cursor { regions: &regions, skip: 0 };
            let taken = lengths.iter().map(|length| {
                let parts = cursor.take(*length);
                assert!(parts.iter().all(|part| !part.is_empty()));
                parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>()
            });
            let taken: Vec<Vec<u8>> = taken.collect();
            assert_eq!(taken.concat(), b"abcdefg");
            assert!(taken.iter().zip(&lengths).all(|(part, length)| part.len() <= *length));
        }
    }
}
