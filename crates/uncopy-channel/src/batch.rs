//! Several messages in one write.

use std::io::IoSlice;
use std::slice;

use super::channel::{
    Channel, Handle, Lengths, MessageBuf, Rejected, gather, hand_over, leave_queue, refusal,
};
use super::peer::Transport;
use super::region::Region;
use super::rights::Rights;
use super::status::Status;
use super::{MAX_BYTES, MAX_HANDLES, MAX_REGIONS};
use crate::memory::{Filling, Lent};
use crate::transport::gather::{Body, check_all};
use crate::transport::wire::Wire;

/// A region of a batch: RFC-0010's flat representation, in which the reserved field of an iovec
/// holds the number of its message and its count of handles.
#[derive(Debug, Clone, Copy)]
pub struct BatchRegion<'a> {
    /// Bytes; may be empty.
    pub bytes: &'a [u8],
    /// Index of the message that they belong to: 0 for the first region; for each next one the
    /// same index or the next.
    pub message: u16,
    /// Number of handles that are added to this region's message, taken in order.
    pub handles: u16,
}

/// Size and place of a region, needed before its bytes are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShape {
    /// Number of bytes.
    pub bytes: usize,
    /// As in [`BatchRegion`].
    pub message: u16,
    /// As in [`BatchRegion`].
    pub handles: u16,
}

impl BatchRegion<'_> {
    fn shape(&self) -> BatchShape {
        let BatchRegion { bytes, message, handles } = *self;
        BatchShape { bytes: bytes.len(), message, handles }
    }
}

impl Region for BatchRegion<'_> {
    fn length(&self) -> usize {
        self.bytes.len()
    }

    fn append_to(&self, from: usize, filling: &mut Filling<'_>) -> Result<(), Status> {
        Ok(filling.append(&self.bytes[from..])?)
    }

    fn lend(&self, from: usize) -> Lent<'_> {
        Lent::of(&self.bytes[from..])
    }
}

/// Error of a batch that was not sent completely. The handles of the messages after the failed one
/// stay with the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message {sent} of the batch failed: {status}")]
pub struct BatchError {
    /// Error of the first message that failed.
    pub status: Status,
    /// Number of messages that were sent.
    pub sent: usize,
}

/// One message of a batch: its regions and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MessagePlan {
    /// Index behind its last region.
    regions_end: usize,
    bytes: usize,
    handles: usize,
}

/// Divides the regions into messages.
fn plan<R>(
    regions: &[R],
    shape: impl Fn(&R) -> BatchShape,
    handle_count: usize,
) -> Result<Vec<MessagePlan>, Status> {
    if regions.len() > MAX_REGIONS {
        return Err(Status::OutOfRange);
    }
    let messages = regions.last().map_or(0, |last| usize::from(shape(last).message) + 1);
    let mut plans: Vec<MessagePlan> = Vec::with_capacity(messages.min(regions.len()));
    for (index, region) in regions.iter().map(shape).enumerate() {
        let number = usize::from(region.message);
        if number == plans.len() {
            plans.push(MessagePlan { regions_end: index, bytes: 0, handles: 0 });
        } else if number + 1 != plans.len() {
            return Err(Status::InvalidArgs);
        }
        let Some(last) = plans.last_mut() else { return Err(Status::InvalidArgs) };
        last.regions_end = index + 1;
        last.bytes = last.bytes.saturating_add(region.bytes);
        last.handles += usize::from(region.handles);
        if last.bytes > MAX_BYTES || last.handles > MAX_HANDLES {
            return Err(Status::OutOfRange);
        }
    }
    let total: usize = plans.iter().map(|plan| plan.handles).sum();
    if total == handle_count { Ok(plans) } else { Err(Status::InvalidArgs) }
}

/// A message of a batch that is sent over a socket.
struct WiredMessage<'a, R> {
    regions: &'a [R],
    bytes: usize,
    handles: Vec<Handle>,
}

impl<R: Region> WiredMessage<'_, R> {
    fn body(&self) -> Body<'_, R> {
        Body::new(self.regions, self.bytes)
    }
}

impl Channel {
    /// Sends several messages under one lock and with one wake-up; returns how many. Each is sent
    /// whole or not at all, in order, and none after one that failed.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] for message numbers with a gap or out of order, or handle counts
    /// whose sum is not the number of handles; [`Status::OutOfRange`] for more than
    /// [`MAX_REGIONS`] in total, or a message above its limits; for each message as
    /// [`write`](Self::write).
    ///
    /// # Ownership
    /// Handles are taken from the front of `handles`, in order. After a failure, the handles of the
    /// messages after the failed one are still there. Those of the failed one are still there if it
    /// failed with [`Status::ShouldWait`], and consumed otherwise. If the regions break a rule,
    /// nothing is sent and all handles are consumed.
    pub fn write_batch(
        &self,
        regions: &[BatchRegion<'_>],
        handles: &mut Vec<Handle>,
    ) -> Result<usize, BatchError> {
        self.write_batch_regions(regions, BatchRegion::shape, handles)
    }

    /// Sends as [`write_batch`](Self::write_batch) does, with regions of any memory, which `shape`
    /// describes.
    ///
    /// # Errors
    /// As [`write_batch`](Self::write_batch), and for each message as
    /// [`write_regions`](Self::write_regions).
    pub fn write_batch_regions<R: Region>(
        &self,
        regions: &[R],
        shape: impl Fn(&R) -> BatchShape,
        handles: &mut Vec<Handle>,
    ) -> Result<usize, BatchError> {
        if !self.0.is_wired() {
            let append = |region: &R, filling: &mut Filling<'_>| region.append_to(0, filling);
            return self.write_batch_with(regions, shape, append, handles);
        }
        let plans = self.plan_batch(regions, shape, handles)?;
        let has_handles = !handles.is_empty();
        let (messages, failure) = prepare_each(regions, &plans, handles, |own, plan, taken| {
            let lengths = Lengths { bytes: plan.bytes, handles: plan.handles };
            // No handle is consumed before the regions in front of it are known to be there.
            let body =
                || if has_handles { check_all(own).map(|()| Vec::new()) } else { Ok(Vec::new()) };
            let collect = || self.check_handles(taken);
            let handles = self.prepare(Rights::WRITE, lengths, body, collect)?;
            Ok(WiredMessage { regions: own, bytes: plan.bytes, handles })
        });
        let delivered = match self.0.lock().and_then(|locked| locked.transport(self.0.side)) {
            Ok(Transport::Wired(wire)) => self.transmit_all(&wire, messages),
            // A wired end stays wired until it is closed.
            Ok(Transport::Local(_)) => refused(Status::BadState, messages),
            Err(status) => refused(status, messages),
        };
        delivered.conclude(failure, handles)
    }

    /// Sends as [`write_batch`](Self::write_batch) does, with regions of any type, which `shape`
    /// describes and `append` copies. `append` runs without any lock.
    ///
    /// # Errors
    /// As [`write_batch`](Self::write_batch), and for each message those of `append`.
    pub fn write_batch_with<R>(
        &self,
        regions: &[R],
        shape: impl Fn(&R) -> BatchShape,
        append: impl Fn(&R, &mut Filling<'_>) -> Result<(), Status>,
        handles: &mut Vec<Handle>,
    ) -> Result<usize, BatchError> {
        let plans = self.plan_batch(regions, shape, handles)?;
        let (messages, failure) = prepare_each(regions, &plans, handles, |own, plan, taken| {
            let lengths = Lengths { bytes: plan.bytes, handles: plan.handles };
            let fill = |filling: &mut Filling<'_>| {
                own.iter().try_for_each(|region| append(region, filling))
            };
            let body = || gather(plan.bytes, fill);
            self.prepare(Rights::WRITE, lengths, body, || self.check_handles(taken))
        });
        self.deliver_all(messages).conclude(failure, handles)
    }

    /// Checks right and regions, and divides the regions into messages. Consumes the handles if they
    /// break a rule.
    fn plan_batch<R>(
        &self,
        regions: &[R],
        shape: impl Fn(&R) -> BatchShape,
        handles: &mut Vec<Handle>,
    ) -> Result<Vec<MessagePlan>, BatchError> {
        let checked = self.0.grant.check(Rights::WRITE);
        checked.and_then(|()| plan(regions, shape, handles.len())).map_err(|status| {
            handles.clear();
            BatchError { status, sent: 0 }
        })
    }

    /// Hands over the messages in order, up to the first that is rejected.
    fn deliver_all(&self, messages: Vec<MessageBuf>) -> Delivered {
        messages.iter().for_each(|message| self.enter_queue(message.handles()));
        let side = self.0.side;
        let transport = self.0.lock().and_then(|locked| locked.transport(side));
        let mut messages = messages.into_iter();
        let mut sent = 0;
        let rejected = match transport {
            Ok(Transport::Wired(wire)) => return self.transmit_filled(&wire, messages.collect()),
            Ok(Transport::Local(mut locked)) => loop {
                let Some(message) = messages.next() else { break None };
                match hand_over(&mut locked, side, message) {
                    Ok(()) => sent += 1,
                    Err(rejected) => break Some(rejected),
                }
            },
            Err(status) => messages.next().map(|message| Rejected { status, message }),
        };
        let handles_of = |mut message: MessageBuf| {
            leave_queue(message.handles());
            message.take_handles()
        };
        let rejected = rejected.map(|Rejected { status, message }| (status, handles_of(message)));
        Delivered { sent, rejected, unsent: messages.map(handles_of).collect() }
    }

    /// Sends messages that were filled, over a socket.
    fn transmit_filled(&self, wire: &Wire, mut messages: Vec<MessageBuf>) -> Delivered {
        messages.iter().for_each(|message| leave_queue(message.handles()));
        let handles: Vec<_> = messages.iter_mut().map(MessageBuf::take_handles).collect();
        let bodies: Vec<_> = messages.iter().map(|message| IoSlice::new(message)).collect();
        let of = |(body, handles): (_, Vec<Handle>)| {
            let regions: &[IoSlice<'_>] = slice::from_ref(body);
            WiredMessage { regions, bytes: body.len(), handles }
        };
        self.transmit_all(wire, bodies.iter().zip(handles).map(of).collect())
    }

    /// Sends the messages over a socket, with one system call for each run of messages without
    /// handles.
    fn transmit_all<R: Region>(
        &self,
        wire: &Wire,
        mut messages: Vec<WiredMessage<'_, R>>,
    ) -> Delivered {
        let mut sent = 0;
        while let Some(next) = messages.get_mut(sent) {
            let handles = std::mem::take(&mut next.handles);
            let without = |message: &&WiredMessage<'_, R>| message.handles.is_empty();
            let run = messages[sent..].iter().take_while(without);
            if handles.is_empty() && run.clone().count() > 1 {
                let gone = wire.send_run(run.map(WiredMessage::body));
                sent += gone;
                if gone > 0 {
                    continue;
                }
            }
            // A message that was not sent in a run is sent alone to learn why.
            let alone = self.transmit(wire, messages[sent].body(), handles);
            if let Err(Rejected { status, mut message }) = alone {
                let unsent = messages.drain(sent + 1..).map(|message| message.handles);
                let rejected = Some((status, message.take_handles()));
                return Delivered { sent, rejected, unsent: unsent.collect() };
            }
            sent += 1;
        }
        Delivered { sent, rejected: None, unsent: Vec::new() }
    }
}

/// A message that could not be prepared.
struct Unprepared {
    status: Status,
    /// Its handles, which are closed after the messages before it are sent: one may be this very endpoint.
    _handles: Vec<Handle>,
}

/// Prepares the messages by `prepare`, which gets each one's regions and handles, up to the first that
/// fails.
fn prepare_each<'a, R, M>(
    regions: &'a [R],
    plans: &[MessagePlan],
    handles: &mut Vec<Handle>,
    mut prepare: impl FnMut(&'a [R], &MessagePlan, &mut Vec<Handle>) -> Result<M, Status>,
) -> (Vec<M>, Option<Unprepared>) {
    let mut messages = Vec::with_capacity(plans.len());
    let mut start = 0;
    for plan in plans {
        let own = &regions[start..plan.regions_end];
        start = plan.regions_end;
        let mut taken: Vec<Handle> = handles.drain(..plan.handles).collect();
        match prepare(own, plan, &mut taken) {
            Ok(message) => messages.push(message),
            Err(status) => return (messages, Some(Unprepared { status, _handles: taken })),
        }
    }
    (messages, None)
}

/// Result of a batch whose first message is refused.
fn refused<R: Region>(status: Status, messages: Vec<WiredMessage<'_, R>>) -> Delivered {
    let mut messages = messages.into_iter();
    let rejected = messages.next().map(|first| (refusal(status, first.regions).status, Vec::new()));
    Delivered { sent: 0, rejected, unsent: messages.map(|message| message.handles).collect() }
}

/// Outcome of handing over the messages of a batch.
struct Delivered {
    /// Number of messages that were sent.
    sent: usize,
    /// Why a message was not sent, and its handles.
    rejected: Option<(Status, Vec<Handle>)>,
    /// The handles of the messages behind it.
    unsent: Vec<Vec<Handle>>,
}

impl Delivered {
    /// Puts the handles that were not sent back in front of those that were never taken, and returns
    /// the result; `failure` is that of the message behind those that were to be sent.
    fn conclude(
        self,
        failure: Option<Unprepared>,
        handles: &mut Vec<Handle>,
    ) -> Result<usize, BatchError> {
        let Delivered { sent, rejected, unsent } = self;
        let Some((status, own)) = rejected else {
            return failure.map_or(Ok(sent), |own| Err(BatchError { status: own.status, sent }));
        };
        let kept = if status == Status::ShouldWait { own } else { Vec::new() };
        handles.splice(0..0, kept.into_iter().chain(unsent.into_iter().flatten()));
        Err(BatchError { status, sent })
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchRegion, MessagePlan};
    use crate::{MAX_BYTES, MAX_HANDLES, MAX_REGIONS, Status};

    fn plan(regions: &[BatchRegion<'_>], handles: usize) -> Result<Vec<MessagePlan>, Status> {
        super::plan(regions, BatchRegion::shape, handles)
    }

    fn region(message: u16, handles: u16) -> BatchRegion<'static> {
        BatchRegion { bytes: b"abc", message, handles }
    }

    #[test]
    fn regions_become_messages() {
        let regions = [region(0, 1), region(0, 2), region(1, 0), region(2, 1)];
        let of = |regions_end, bytes, handles| MessagePlan { regions_end, bytes, handles };
        assert_eq!(plan(&regions, 4), Ok(vec![of(2, 6, 3), of(3, 3, 0), of(4, 3, 1)]));
        assert_eq!(plan(&[], 0), Ok(vec![]));
    }

    #[test]
    fn rules_of_the_flat_representation() {
        let too_many = u16::try_from(MAX_HANDLES + 1).unwrap();
        let large = vec![0; MAX_BYTES];
        let large = BatchRegion { bytes: &large, message: 0, handles: 0 };
        for (what, regions, handles, expected) in [
            ("does not begin with 0", vec![region(1, 0)], 0, Status::InvalidArgs),
            ("a gap", vec![region(0, 0), region(2, 0)], 0, Status::InvalidArgs),
            ("backwards", vec![region(0, 0), region(1, 0), region(0, 0)], 0, Status::InvalidArgs),
            ("handles left over", vec![region(0, 1)], 2, Status::InvalidArgs),
            ("handles missing", vec![region(0, 2)], 1, Status::InvalidArgs),
            ("handles without a message", vec![], 1, Status::InvalidArgs),
            ("too many handles", vec![region(0, too_many)], 65, Status::OutOfRange),
            ("too many bytes", vec![large, region(0, 0)], 0, Status::OutOfRange),
            ("too many regions", vec![region(0, 0); MAX_REGIONS + 1], 0, Status::OutOfRange),
        ] {
            assert_eq!(plan(&regions, handles), Err(expected), "{what}");
        }
        assert!(plan(&[large, BatchRegion { message: 1, ..large }], 0).is_ok());
    }
}
