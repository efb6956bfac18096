//! An end of a channel that sends and receives payloads.

use std::io::IoSlice;
use std::sync::Arc;

use super::cursor::Cursor;
use super::format::{
    FIRST_BYTES, HEADER_BYTES, Header, MIN_PIECE_BYTES, fits_into_one_message, header_bytes,
};
use super::pool::{self, PeerPool};
use super::spare::Spare;
use super::stream::{Inlet, Outlet, Streamed};
use super::{Payload, PayloadReason, PayloadReceipt, PayloadWay, Place};
use crate::channel::{Channel, Handle, MessageBuf, total_bytes};
use crate::memory::{Draft, PoolMemory, PoolShape, TrustedPeer};
use crate::object::{Object, Vmo};
use crate::signals::Signals;
use crate::sleep::Deadline;
use crate::transport::wire::Wire;
use crate::{MAX_BYTES, MAX_REGIONS, MemoryRefusal, Status};
use uncopy_core::Cost;

/// Maximum number of messages, or parts of a stream, that one call takes in after its deadline. They are there by then;
/// a peer could go on with a payload for as long as it likes.
const MAX_LATE: u32 = 256;

/// Options of a [`PayloadChannel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadOptions {
    /// Maximum length of a received payload, and of the pool of the peer; 256 MiB by default. The buffers of a payload
    /// that a peer cuts into messages of odd lengths take up to four times as much memory.
    pub max_bytes: u64,
    /// Length from which on bytes are copied into fresh sealed memory; never by default, because messages
    /// and a stream are quicker if the bytes are read once. It pays if the receiver keeps or forwards them.
    pub memory_from: Option<usize>,
    /// Length from which on bytes go over a stream socket beside the channel, if the receiver has offered one. Never by
    /// default: messages are received while further ones are sent, which takes less time from 1 MiB on. A stream gives
    /// the receiver all bytes in one piece. An end with `None` sends over none and offers none.
    pub stream_from: Option<usize>,
    /// Maximum size of the buffer that the end keeps for the next payload that comes over a stream, when the last
    /// one has been dropped; 64 MiB by default.
    pub keep_bytes: usize,
}

impl Default for PayloadOptions {
    fn default() -> PayloadOptions {
        PayloadOptions {
            max_bytes: 256 << 20,
            memory_from: None,
            stream_from: None,
            keep_bytes: 64 << 20,
        }
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

    /// Sets the length from which on bytes go over a stream socket.
    #[must_use]
    pub fn stream_from(mut self, bytes: Option<usize>) -> PayloadOptions {
        self.stream_from = bytes;
        self
    }

    /// Sets the maximum size of the buffer that is kept for the next payload.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: usize) -> PayloadOptions {
        self.keep_bytes = bytes;
        self
    }
}

/// Messages of a payload that has not come whole.
struct Pieces {
    messages: Vec<MessageBuf>,
    length: usize,
    left: usize,
    /// Refused because of its length: its messages are dropped.
    is_refused: bool,
}

/// A payload that has not come whole.
enum Partial {
    Pieces(Pieces),
    Streamed(Streamed),
}

/// One end of a channel whose messages are payloads. Both ends have to be one.
///
/// An error in the middle of a payload, and a message that is none, make the end unusable: [`Status::BadState`] from
/// then on. A deadline that passes while receiving does not.
///
/// Two ends that both send a long payload and do not receive wait for each other until their deadlines.
pub struct PayloadChannel {
    channel: Channel,
    options: PayloadOptions,
    own_pool: Option<Arc<PoolMemory>>,
    peer_pool: Option<PeerPool>,
    trusted: Option<TrustedPeer>,
    /// Stream that the peer has offered.
    outlet: Option<Outlet>,
    /// Stream that was offered to the peer.
    inlet: Option<Inlet>,
    spare: Spare,
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
            spare: Spare::new(options.keep_bytes),
            options,
            own_pool: None,
            peer_pool: None,
            trusted: None,
            outlet: None,
            inlet: None,
            is_broken: false,
            partial: None,
        }
    }

    /// Returns the channel, to wait for it among others. Reading or writing its messages breaks the payloads.
    ///
    /// It becomes readable when a payload begins; not again for the rest of one whose bytes come over a stream. So after
    /// a deadline in the middle of a payload ([`is_receiving`](Self::is_receiving)), receive again instead of waiting.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether a payload has begun to come, and is not whole.
    #[must_use]
    pub fn is_receiving(&self) -> bool {
        self.partial.is_some()
    }

    /// Sends bytes: in one message, cut into several, over the stream if the peer has offered one, in the pool if
    /// there is one with a free slot, or as the options say. Waits for room until the deadline.
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
        if self.is_for_stream(length) && self.has_outlet()? {
            return self.send_streamed(regions, length, deadline);
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
        let mut late = 0;
        loop {
            self.check_usable()?;
            let received = if let Some(Partial::Streamed(_)) = self.partial {
                self.receive_streamed(deadline)
            } else {
                let message = self.channel.receive(deadline)?;
                self.take_in(message)
            };
            if let Some(payload) = received.transpose() {
                return payload;
            }
            late += u32::from(deadline.remaining().is_some_and(|left| left.is_zero()));
            if late > MAX_LATE {
                return Err(Status::TimedOut);
            }
        }
    }

    /// Takes a message in; returns the payload that is whole now.
    fn take_in(&mut self, mut message: MessageBuf) -> Result<Option<Payload>, Status> {
        match self.partial.take() {
            Some(Partial::Pieces(pieces)) => return self.take_piece(pieces, message, 0),
            streamed => self.partial = streamed,
        }
        let header = Header::decode(&message);
        let handles = message.take_handles();
        let limit = self.options.max_bytes;
        match header {
            Some(Header::Bytes { length }) if handles.is_empty() => {
                let length = usize::try_from(length).map_err(|_| self.broken())?;
                if self.is_for_stream(length) {
                    self.offer_stream();
                }
                let is_refused = length as u64 > limit;
                let (messages, left) = (Vec::new(), length);
                let header = header_bytes(message.len());
                self.take_piece(Pieces { messages, length, left, is_refused }, message, header)
            }
            Some(Header::Streamed { length }) if handles.is_empty() && self.inlet.is_some() => {
                let length = usize::try_from(length).map_err(|_| self.broken())?;
                let refusal = (length as u64 > limit)
                    .then(|| MemoryRefusal::TooLarge { bytes: length as u64, limit }.into());
                self.partial = Some(Partial::Streamed(Streamed::new(length, refusal, &self.spare)));
                Ok(None)
            }
            Some(Header::Stream) if self.outlet.is_none() => {
                self.outlet = Some(Outlet::accept(handles).ok_or_else(|| self.broken())?);
                Ok(None)
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
    fn take_piece(
        &mut self,
        mut pieces: Pieces,
        message: MessageBuf,
        skip: usize,
    ) -> Result<Option<Payload>, Status> {
        let length = message.len() - skip;
        let is_sound = length == pieces.left || (length < pieces.left && length >= MIN_PIECE_BYTES);
        if !is_sound || !message.handles().is_empty() {
            return Err(self.broken());
        }
        pieces.left -= length;
        if !pieces.is_refused {
            pieces.messages.push(message);
        }
        if pieces.left > 0 {
            self.partial = Some(Partial::Pieces(pieces));
            return Ok(None);
        }
        let Pieces { messages, length, is_refused, .. } = pieces;
        let bytes = length as u64;
        if is_refused {
            let limit = self.options.max_bytes;
            return Err(MemoryRefusal::TooLarge { bytes, limit }.into());
        }
        let receipt = self.receipt_of_messages(length, Cost::Shared);
        Ok(Some(Payload::new(Place::Messages(messages), length, receipt)))
    }

    /// Whether a payload of this length goes over a stream where there is one. Those that fit into one message never do.
    fn is_for_stream(&self, length: usize) -> bool {
        !fits_into_one_message(length)
            && self.options.stream_from.is_some_and(|from| length >= from)
    }

    /// Offers the peer a stream for the long payloads to come, once. Without one, they come in messages.
    fn offer_stream(&mut self) {
        if self.inlet.is_some() || !self.channel.0.is_wired() {
            return;
        }
        if let Ok((inlet, outlet)) = Inlet::make() {
            let header = Header::Stream.encode();
            let offered = self.channel.write(&[IoSlice::new(&header)], vec![outlet]);
            self.inlet = offered.is_ok().then_some(inlet);
        }
    }

    /// Receives what there is of a payload that comes over the stream.
    fn receive_streamed(&mut self, deadline: Deadline) -> Result<Option<Payload>, Status> {
        let wire = self.wire()?;
        let (Some(inlet), Some(Partial::Streamed(streamed))) = (&self.inlet, &mut self.partial)
        else {
            return Err(self.broken());
        };
        let received = inlet.receive(streamed, &wire, deadline);
        let is_whole = received.inspect_err(|status| {
            self.is_broken = *status != Status::TimedOut;
        })?;
        if !is_whole {
            return Ok(None);
        }
        let Some(Partial::Streamed(streamed)) = self.partial.take() else { return Ok(None) };
        let bytes = streamed.finish(&self.spare)?;
        let length = bytes.len();
        Ok(Some(Payload::new(Place::Streamed(bytes), length, of_stream(length))))
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
        let mut cursor = Cursor::new(regions);
        if length == MAX_BYTES {
            let parts = cursor.take(length, MAX_REGIONS);
            if total_bytes(&parts) == length {
                self.write(&parts, Vec::new(), deadline)?;
                return Ok(self.receipt_of_messages(length, Cost::UserCopied));
            }
            cursor = Cursor::new(regions);
        }
        let mut left = length;
        let mut parts = vec![IoSlice::new(&header)];
        parts.extend(cursor.take(left.min(FIRST_BYTES), MAX_REGIONS - 1));
        self.write(&parts, Vec::new(), deadline)?;
        left -= total_bytes(&parts) - HEADER_BYTES;
        while left > 0 {
            let parts = cursor.take(left.min(MAX_BYTES), MAX_REGIONS);
            // The peer cannot make sense of what follows half a payload.
            let written = self.write(&parts, Vec::new(), deadline);
            written.inspect_err(|_| self.is_broken = true)?;
            left -= total_bytes(&parts);
        }
        Ok(self.receipt_of_messages(length, Cost::UserCopied))
    }

    /// Whether there is a stream to the peer, which may have offered it just now.
    fn has_outlet(&mut self) -> Result<bool, Status> {
        self.check_usable()?;
        if self.outlet.is_none() && self.channel.0.is_wired() {
            let is_offer = |message: &[u8]| Header::decode(message) == Some(Header::Stream);
            if let Some(mut offer) = self.channel.read_if(is_offer) {
                let outlet = Outlet::accept(offer.take_handles());
                self.outlet = Some(outlet.ok_or_else(|| self.broken())?);
            }
        }
        Ok(self.outlet.is_some())
    }

    fn send_streamed(
        &mut self,
        regions: &[IoSlice<'_>],
        length: usize,
        deadline: Deadline,
    ) -> Result<PayloadReceipt, Status> {
        let wire = self.wire()?;
        let Some(outlet) = &self.outlet else { return Err(Status::BadState) };
        let header = Header::Streamed { length: length as u64 }.encode();
        self.write(&[IoSlice::new(&header)], Vec::new(), deadline)?;
        if let Err(status) = outlet.send(regions, &wire, deadline) {
            // The peer learns by the end of the stream that nothing follows.
            (self.outlet, self.is_broken) = (None, true);
            return Err(status);
        }
        Ok(of_stream(length))
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

    /// Returns the socket of the channel.
    fn wire(&self) -> Result<Arc<Wire>, Status> {
        self.channel.0.lock()?.wire(self.channel.0.side).ok_or(Status::BadState)
    }

    fn check_usable(&self) -> Result<(), Status> {
        if self.is_broken { Err(Status::BadState) } else { Ok(()) }
    }

    /// Marks the end as unusable; returns the status of that.
    fn broken(&mut self) -> Status {
        self.is_broken = true;
        Status::BadState
    }

    /// Returns the receipt of bytes in messages, which cost `local` within one process.
    fn receipt_of_messages(&self, length: usize, local: Cost) -> PayloadReceipt {
        let is_wired = self.channel.0.is_wired();
        let (way, reason) = if fits_into_one_message(length) {
            (PayloadWay::Message, PayloadReason::Short)
        } else if is_wired && self.is_for_stream(length) {
            (PayloadWay::Messages, PayloadReason::NoStream)
        } else {
            (PayloadWay::Messages, PayloadReason::Cut)
        };
        let cost = if is_wired { Cost::KernelCopied } else { local };
        PayloadReceipt { bytes: length as u64, way, cost, reason }
    }
}

/// Returns the receipt of bytes that went over the stream.
fn of_stream(length: usize) -> PayloadReceipt {
    let (way, cost) = (PayloadWay::Stream, Cost::KernelCopied);
    PayloadReceipt { bytes: length as u64, way, cost, reason: PayloadReason::Long }
}

/// Returns the handles, if they are as many, and all of memory.
fn memory_of<const N: usize>(handles: Vec<Handle>) -> Option<[Vmo; N]> {
    let memory: Vec<Vmo> = handles.into_iter().map_while(|h| Vmo::try_from(h).ok()).collect();
    memory.try_into().ok()
}
