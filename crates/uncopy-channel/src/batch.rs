//! Several messages in one write.

use super::channel::{
    Channel, Handle, Lengths, MessageBuf, Rejected, gather, hand_over, leave_queue,
};
use super::peer::Transport;
use super::rights::Rights;
use super::status::Status;
use super::{MAX_BYTES, MAX_HANDLES, MAX_REGIONS};
use crate::memory::Filling;
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

/// Messages that are ready to be sent, and why the next one is not.
struct Prepared {
    messages: Vec<MessageBuf>,
    failure: Option<Status>,
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
        let append =
            |region: &BatchRegion<'_>, filling: &mut Filling<'_>| Ok(filling.append(region.bytes)?);
        self.write_batch_with(regions, BatchRegion::shape, append, handles)
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
        let checked = self.0.grant.check(Rights::WRITE);
        let plans = match checked.and_then(|()| plan(regions, shape, handles.len())) {
            Ok(plans) => plans,
            Err(status) => {
                handles.clear();
                return Err(BatchError { status, sent: 0 });
            }
        };
        let Prepared { messages, failure } =
            self.prepare_messages(regions, &plans, append, handles);
        let Delivered { sent, rejected, mut unsent } = self.deliver_all(messages);
        let Some(Rejected { status, mut message }) = rejected else {
            return match failure {
                None => Ok(sent),
                Some(status) => Err(BatchError { status, sent }),
            };
        };
        // Handles that were not sent go back in front of those that were never taken.
        let mut back = Vec::new();
        leave_queue(message.handles());
        if status == Status::ShouldWait {
            back.append(&mut message.take_handles());
        }
        for message in &mut unsent {
            leave_queue(message.handles());
            back.append(&mut message.take_handles());
        }
        handles.splice(0..0, back);
        Err(BatchError { status, sent })
    }

    /// Checks and fills the messages, without the lock, up to the first that fails.
    fn prepare_messages<R>(
        &self,
        regions: &[R],
        plans: &[MessagePlan],
        append: impl Fn(&R, &mut Filling<'_>) -> Result<(), Status>,
        handles: &mut Vec<Handle>,
    ) -> Prepared {
        let mut messages = Vec::with_capacity(plans.len());
        let mut start = 0;
        for plan in plans {
            let own = &regions[start..plan.regions_end];
            start = plan.regions_end;
            let fill = |filling: &mut Filling<'_>| {
                own.iter().try_for_each(|region| append(region, filling))
            };
            let mut taken: Vec<Handle> = handles.drain(..plan.handles).collect();
            let lengths = Lengths { bytes: plan.bytes, handles: plan.handles };
            let body = || gather(plan.bytes, fill);
            let collect = || self.check_handles(&mut taken);
            match self.prepare(Rights::WRITE, lengths, body, collect) {
                Ok(message) => messages.push(message),
                Err(status) => return Prepared { messages, failure: Some(status) },
            }
        }
        Prepared { messages, failure: None }
    }

    /// Hands over the messages in order, up to the first that is rejected.
    fn deliver_all(&self, messages: Vec<MessageBuf>) -> Delivered {
        messages.iter().for_each(|message| self.enter_queue(message.handles()));
        let side = self.0.side;
        let transport = self.0.lock().and_then(|locked| locked.transport(side));
        let mut messages = messages.into_iter();
        let mut sent = 0;
        let rejected = match transport {
            Ok(Transport::Wired(wire)) => return self.transmit_all(&wire, messages.collect()),
            Ok(Transport::Local(mut locked)) => loop {
                let Some(message) = messages.next() else { break None };
                match hand_over(&mut locked, side, message) {
                    Ok(()) => sent += 1,
                    Err(rejected) => break Some(rejected),
                }
            },
            Err(status) => messages.next().map(|message| Rejected { status, message }),
        };
        Delivered { sent, rejected, unsent: messages.collect() }
    }

    /// Sends the messages over a socket, with one system call for each run of messages without
    /// handles.
    fn transmit_all(&self, wire: &Wire, mut messages: Vec<MessageBuf>) -> Delivered {
        messages.iter().for_each(|message| leave_queue(message.handles()));
        let mut sent = 0;
        while !messages.is_empty() {
            let run = messages.iter().take_while(|m| m.handles().is_empty()).count();
            if run > 1 {
                let gone = wire.send_run(&messages[..run]);
                messages.drain(..gone);
                sent += gone;
                if gone > 0 {
                    continue;
                }
            }
            // A message that was not sent in a run is sent alone to learn why.
            if let Err(rejected) = self.transmit_message(wire, messages.remove(0)) {
                return Delivered { sent, rejected: Some(rejected), unsent: messages };
            }
            sent += 1;
        }
        Delivered { sent, rejected: None, unsent: messages }
    }
}

/// Outcome of handing over the messages of a batch.
struct Delivered {
    /// Number of messages that were sent.
    sent: usize,
    /// The message that was not sent, and why.
    rejected: Option<Rejected>,
    /// The messages behind it.
    unsent: Vec<MessageBuf>,
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
