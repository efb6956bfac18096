//! Calls: a message and the answer to it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::IoSlice;

#[cfg(feature = "tokio")]
use super::endpoint::enqueue;
use super::endpoint::{
    Channel, ChannelEnd, Lengths, Rejected, gather, in_place, leave_queue, refusal, total_bytes,
};
use super::handle::Handle;
use super::message::MessageBuf;
use crate::identity::Koid;
use crate::peer::Locked;
use crate::region::Region;
use crate::rights::Rights;
use crate::signals::Signals;
use crate::sleep::{Deadline, Waiter, Wake, with_waiter};
use crate::source::{Intake, Source};
use crate::status::Status;
use crate::sync::Arc;
use crate::transport::gather::{Body, TXID_BYTES, check_first};
use uncopy_os::clock;

/// Bit that is set in every transaction id of a call.
const CALL_BIT: u32 = 1 << 31;

/// Calls that wait for their answers at one end.
#[derive(Default)]
pub(crate) struct Calls {
    waiting: Vec<Call>,
    /// Last transaction id, without its bit; 0: there was none.
    last: u32,
}

pub(crate) struct Call {
    txid: u32,
    waiter: Arc<Waiter>,
    answer: Option<Result<MessageBuf, Status>>,
}

impl Call {
    /// Ends the call with `answer`, and wakes its caller.
    pub(crate) fn answer(&mut self, answer: Result<MessageBuf, Status>) {
        self.answer = Some(answer);
        self.waiter.wake(Wake::Answered);
    }
}

impl Calls {
    /// Returns the calls of an end that came here, whose last transaction had the number `last`; 0: there was none.
    pub(crate) fn after(last: u32) -> Calls {
        Calls { waiting: Vec::new(), last }
    }

    /// Returns the number of the last transaction, of 31 bits, for the process that the end goes to.
    pub(crate) fn last_number(&self) -> u32 {
        self.last
    }

    /// Returns a transaction id that no waiting call has.
    fn next_txid(&mut self) -> u32 {
        if self.last == 0 {
            self.last = first_number();
        }
        loop {
            self.last = self.last.wrapping_add(1) & !CALL_BIT;
            let txid = self.last | CALL_BIT;
            if !self.waiting.iter().any(|call| call.txid == txid) {
                return txid;
            }
        }
    }

    fn begin(&mut self, txid: u32, waiter: Arc<Waiter>) {
        self.waiting.push(Call { txid, waiter, answer: None });
    }

    /// Whether a call has no answer yet.
    pub(crate) fn are_waiting(&self) -> bool {
        self.waiting.iter().any(|call| call.answer.is_none())
    }

    /// Returns the call that `message` answers.
    #[inline]
    pub(crate) fn answered_by(&mut self, message: &MessageBuf) -> Option<&mut Call> {
        if self.waiting.is_empty() { None } else { self.find(message.txid()) }
    }

    #[cold]
    fn find(&mut self, txid: u32) -> Option<&mut Call> {
        self.waiting.iter_mut().find(|call| call.txid == txid && call.answer.is_none())
    }

    /// Ends every call that has no answer yet.
    pub(crate) fn end(&mut self, status: Status) {
        for call in self.waiting.iter_mut().filter(|call| call.answer.is_none()) {
            call.answer(Err(status));
        }
    }

    /// Has every caller find out again what to wait for.
    pub(crate) fn recheck_waiters(&self) {
        self.waiting.iter().for_each(|call| call.waiter.recheck());
    }

    /// Removes the call; returns its answer, if there is one.
    fn finish(&mut self, txid: u32) -> Option<Result<MessageBuf, Status>> {
        let at = self.waiting.iter().position(|call| call.txid == txid)?;
        self.waiting.swap_remove(at).answer
    }
}

/// Returns a number to count transactions from, another one for each end and process: the other end may call too, and
/// its request must not look like an answer. An end that came as a descriptor may have called before, and an answer
/// may still be on its way.
#[cold]
fn first_number() -> u32 {
    let mut hasher = DefaultHasher::new();
    (Koid::next(), std::process::id(), clock::monotonic()).hash(&mut hasher);
    hasher.finish() as u32
}

impl Channel {
    /// Sends the regions as one message and waits for the answer to it.
    ///
    /// The first four bytes of the message are replaced by a transaction id that no other call
    /// waiting on this endpoint has (the caller's memory is not changed). The peer answers with a
    /// message that begins with the same four bytes; the answer is returned here and does not make
    /// the endpoint readable. An answer that comes after the deadline is queued like any message. If
    /// the deadline has already passed, the message is still sent.
    ///
    /// # Errors
    /// In this order: [`Status::AccessDenied`] without [`Rights::READ`] and [`Rights::WRITE`];
    /// [`Status::OutOfRange`]; [`Status::InvalidArgs`] for fewer than four bytes; the status of a
    /// failing handle as for [`write`](Self::write); [`Status::NoResources`] if the other end is in another
    /// process and no descriptor is left to wake this thread, before anything is sent;
    /// [`Status::PeerClosed`], at once or while waiting; [`Status::ShouldWait`]; [`Status::TimedOut`];
    /// [`Status::Canceled`] if this handle is revoked while waiting.
    ///
    /// # Ownership
    /// Handles are consumed on success and on every failure, as by `zx_channel_call`.
    pub fn call(
        &self,
        regions: &[IoSlice<'_>],
        mut handles: Vec<Handle>,
        deadline: Deadline,
    ) -> Result<MessageBuf, Status> {
        let lengths = Lengths { bytes: total_bytes(regions), handles: handles.len() };
        let collect = || self.check_handles(&mut handles);
        self.call_regions(lengths, regions, collect, deadline)
    }

    /// Calls as [`call`](Self::call) does, with any source of handles.
    pub(crate) fn call_regions<R: Region>(
        &self,
        lengths: Lengths,
        regions: &[R],
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
        deadline: Deadline,
    ) -> Result<MessageBuf, Status> {
        with_waiter(|waiter| {
            let begun = self.begin(lengths, regions, collect, waiter);
            let txid = begun.map_err(|rejected| rejected.status)?;
            let everything = std::iter::once((self as &dyn Source, Signals::empty()));
            let mut targets = self.poll_target(Signals::empty()).into_iter().collect();
            let intake = Intake::UpToWake;
            let rested = waiter.sleep_until_woken(&everything, &mut targets, deadline, intake);
            match self.finish(txid)? {
                Some(answer) => answer,
                // Neither answered nor ended, so the deadline has passed.
                None => Err(rested.err().unwrap_or(Status::TimedOut)),
            }
        })
    }

    /// Removes a call; returns its answer, or how it ended, if it did.
    pub(crate) fn finish(&self, txid: u32) -> Result<Option<Result<MessageBuf, Status>>, Status> {
        let answer = self.0.lock()?.end(self.0.side).calls.finish(txid);
        if let Some(Ok(message)) = &answer {
            message.handles().iter().for_each(Handle::arrived);
        }
        Ok(answer)
    }

    /// Removes a call whose caller is gone. An answer that has already come is queued like any
    /// message.
    #[cfg(feature = "tokio")]
    pub(crate) fn abandon(&self, txid: u32) {
        let side = self.0.side;
        let Ok(mut locked) = self.0.lock() else { return };
        if let Some(Ok(message)) = locked.end(side).calls.finish(txid) {
            enqueue(&mut locked, side, message);
        }
    }

    /// Checks and sends the message of a call, and registers the call as waiting; returns its
    /// transaction id.
    pub(crate) fn begin<R: Region>(
        &self,
        lengths: Lengths,
        regions: &[R],
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
        waiter: &Arc<Waiter>,
    ) -> Result<u32, Rejected> {
        if self.0.is_wired() {
            return self.begin_in_place(lengths, regions, collect, waiter);
        }
        let body = || {
            let mut message = gather(lengths.bytes, |filling| R::append_all(regions, filling))?;
            if message.set_txid(0) { Ok(message) } else { Err(Status::InvalidArgs) }
        };
        let prepared = self.prepare(Rights::IO, lengths, body, collect);
        let mut message = prepared.map_err(Rejected::without_message)?;
        self.enter_queue(message.handles());
        let (locked, txid) = match self.register(waiter) {
            Ok(registered) => registered,
            Err(status) => {
                leave_queue(message.handles());
                return Err(Rejected { status, message });
            }
        };
        message.set_txid(txid);
        let sent = self.deliver(locked, message);
        self.begun(txid, sent)
    }

    /// Begins a call to another process, which the kernel copies from where its regions lie.
    fn begin_in_place<R: Region>(
        &self,
        lengths: Lengths,
        regions: &[R],
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
        waiter: &Arc<Waiter>,
    ) -> Result<u32, Rejected> {
        let body = || {
            if lengths.bytes < TXID_BYTES {
                return Err(Status::InvalidArgs);
            }
            check_first(regions, TXID_BYTES)?;
            in_place(lengths, regions)
        };
        let prepared = self.prepare(Rights::IO, lengths, body, collect);
        let handles = prepared.map_err(Rejected::without_message)?;
        // Otherwise the wait could fail when the message is already sent.
        let registered = waiter.prepare_to_poll().and_then(|()| self.register(waiter));
        let (locked, txid) = registered.map_err(|status| refusal(status, regions))?;
        let body = Body::new(regions, lengths.bytes).with_txid(txid);
        let sent = self.transmit_in_place(locked, body, handles);
        self.begun(txid, sent)
    }

    /// Registers a call as waiting, before its message is sent: the answer may come at once.
    fn register(&self, waiter: &Arc<Waiter>) -> Result<(Locked<'_, ChannelEnd>, u32), Status> {
        let mut locked = self.0.lock()?;
        // Under the lock: revoking the handle either ends this call or has already taken the
        // right.
        self.0.grant.check_binding(Rights::IO)?;
        let side = self.0.side;
        let end = locked.end(side);
        let txid = end.calls.next_txid();
        end.calls.begin(txid, waiter.clone());
        let is_full = !end.queue.has_room();
        if is_full && let Some(wire) = locked.wire(side) {
            // It takes in the answer nevertheless, which an asynchronous call sees by a descriptor.
            locked.update_descriptors(side, &wire);
        }
        Ok((locked, txid))
    }

    /// Removes a call whose message was not sent.
    fn begun(&self, txid: u32, sent: Result<(), Rejected>) -> Result<u32, Rejected> {
        if sent.is_err()
            && let Ok(mut locked) = self.0.lock()
        {
            locked.end(self.0.side).calls.finish(txid);
        }
        sent.map(|()| txid)
    }
}
