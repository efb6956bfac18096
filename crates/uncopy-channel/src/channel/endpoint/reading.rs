//! Reading from an endpoint.

use std::io::IoSliceMut;
use std::time::Instant;

use super::{Channel, ChannelEnd, Lengths, Oversized};
use crate::channel::handle::Handle;
use crate::channel::message::MessageBuf;
use crate::memory::scatter;
use crate::peer::{Locked, Side};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::sleep::Deadline;
use crate::source::{Source, wait_for_packet};
use crate::status::Status;
use uncopy_os::thread;

/// Signals that [`Channel::receive`] waits for.
const NEWS: Signals = Signals::READABLE.union(Signals::PEER_CLOSED);

/// The next message, and whether it fits where it is to go.
struct Taken {
    message: MessageBuf,
    fits: bool,
}

impl Channel {
    /// Takes the next message, without copying.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::ShouldWait`] if the queue is
    /// empty, or [`Status::PeerClosed`] if it is empty and the peer is closed;
    /// [`Status::DescriptorLimit`] in the place of a message whose handles were lost.
    #[inline]
    pub fn read(&self) -> Result<MessageBuf, Status> {
        let room = Lengths { bytes: usize::MAX, handles: usize::MAX };
        self.read_fitting(room, Oversized::Keep)
    }

    /// Waits for the next message, and takes it without copying. Over a socket this costs less than
    /// [`wait_one`](crate::Object::wait_one) and [`read`](Self::read): a wait that returns signals also
    /// receives what came behind the message.
    ///
    /// ```
    /// use std::io::IoSlice;
    /// use uncopy_channel::{Channel, Deadline};
    ///
    /// let (near, far) = Channel::pair();
    /// near.write(&[IoSlice::new(b"message")], vec![])?;
    /// assert_eq!(&*far.receive(Deadline::INFINITE)?, b"message");
    /// # Ok::<(), uncopy_channel::Status>(())
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read), also without [`Rights::WAIT`], but never [`Status::ShouldWait`];
    /// [`Status::TimedOut`]; [`Status::Canceled`] if this handle is revoked while waiting.
    pub fn receive(&self, deadline: Deadline) -> Result<MessageBuf, Status> {
        self.0.grant.check(Rights::READ | Rights::WAIT)?;
        let spin_end = deadline.spin_end();
        if spin_end.is_none() && self.0.expects_sleep(NEWS) {
            match self.sleep_until_news(deadline) {
                // Even then a wait looks once.
                Ok(()) | Err(Status::TimedOut) => {}
                Err(status) => return Err(status),
            }
        }
        loop {
            // Without a lock, which a spinning thread would take from the writer.
            if self.0.is_wired() || self.0.current_signals().intersects(NEWS) {
                let message = self.read();
                self.0.record_look(message.is_ok());
                match message {
                    Err(Status::ShouldWait) => {}
                    Err(Status::BadHandle) => return Err(Status::Canceled),
                    other => return other,
                }
            }
            if spin_end.is_some_and(|end| Instant::now() < end) {
                std::hint::spin_loop();
            } else {
                self.sleep_until_news(deadline.without_spin())?;
            }
        }
    }

    /// Sleeps until there may be a message, or the peer is closed.
    fn sleep_until_news(&self, deadline: Deadline) -> Result<(), Status> {
        // Without another thread only the socket can end the wait.
        if thread::is_only_one()
            && let Some(target) = self.0.poll_target(NEWS)
        {
            return target.sleep(deadline);
        }
        wait_for_packet(self, NEWS, deadline)
    }

    /// Takes the next message as [`read`](Self::read) does, if it fits into `room`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Status::BufferTooSmall`] with the real sizes.
    #[inline]
    pub fn read_fitting(&self, room: Lengths, oversized: Oversized) -> Result<MessageBuf, Status> {
        self.0.grant.check(Rights::READ)?;
        let mut locked = self.0.lock()?;
        let taken = take(&mut locked, self.0.side, |next| {
            let (bytes, handles) = (next.len(), next.handles().len());
            // A message that lost its handles is not delivered, so that any room is enough.
            let fits = next.is_cut() || bytes <= room.bytes && handles <= room.handles;
            if fits || oversized == Oversized::Discard {
                Ok(fits)
            } else {
                Err(Status::BufferTooSmall { bytes, handles })
            }
        });
        drop(locked);
        let Taken { message, fits } = taken?;
        if message.handles().is_empty() && fits {
            return Ok(message);
        }
        message.handles().iter().for_each(Handle::arrived);
        if fits {
            return Ok(message);
        }
        Err(Status::BufferTooSmall { bytes: message.len(), handles: message.handles().len() })
    }

    /// Takes the next message if there is one and it is wanted.
    pub(crate) fn read_if(&self, is_wanted: impl FnOnce(&[u8]) -> bool) -> Option<MessageBuf> {
        self.0.grant.check(Rights::READ).ok()?;
        let mut locked = self.0.lock().ok()?;
        let taken = take(&mut locked, self.0.side, |next| {
            if !next.is_cut() && is_wanted(next) { Ok(true) } else { Err(Status::ShouldWait) }
        });
        drop(locked);
        let message = taken.ok()?.message;
        message.handles().iter().for_each(Handle::arrived);
        Some(message)
    }

    /// Copies the beginning of the last message of a peer that is closed into `bytes`, and leaves it in the queue, behind
    /// all others; returns its length.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::ShouldWait`] if the peer is open, or if so much is
    /// unread that more of it is still in the socket; [`Status::PeerClosed`] if no message is left;
    /// [`Status::DescriptorLimit`] if its handles were lost.
    pub fn peek_last(&self, bytes: &mut [u8]) -> Result<usize, Status> {
        self.0.grant.check(Rights::READ)?;
        let mut locked = self.0.lock()?;
        let side = self.0.side;
        let wire = locked.wire(side);
        if let Some(wire) = &wire {
            locked.pump(side, wire, Signals::empty());
            locked.update_descriptors(side, wire);
        }
        if !locked.is_orphan(side) {
            return Err(Status::ShouldWait);
        }
        // As for the answer of a call, a full queue takes in what lies in front of it.
        let has_room =
            |locked: &mut Locked<'_, ChannelEnd>| locked.end(side).queue.has_room_before_answer();
        if wire.is_some_and(|wire| !locked.pump_while(side, &wire, has_room)) {
            return Err(Status::ShouldWait);
        }
        let last = locked.end(side).queue.back().ok_or(Status::PeerClosed)?;
        if last.is_cut() {
            return Err(Status::descriptor_limit());
        }
        let count = bytes.len().min(last.len());
        bytes[..count].copy_from_slice(&last[..count]);
        Ok(last.len())
    }

    /// Copies the next message into `bytes` and its handles into the first slots of `handles`,
    /// closing what was in them; returns how many of each there were. Other slots are not changed.
    ///
    /// # Errors
    /// As [`read_fitting`](Self::read_fitting).
    #[inline]
    pub fn read_into(
        &self,
        bytes: &mut [u8],
        handles: &mut [Option<Handle>],
    ) -> Result<Lengths, Status> {
        let room = Lengths { bytes: bytes.len(), handles: handles.len() };
        let mut message = self.read_fitting(room, Oversized::Keep)?;
        bytes[..message.len()].copy_from_slice(&message);
        Ok(hand_out(&mut message, handles))
    }

    /// Copies as [`read_into`](Self::read_into) does, with the bytes spread over `regions`, each filled
    /// before the next.
    ///
    /// # Errors
    /// As [`read_fitting`](Self::read_fitting); the room is the sum of all regions.
    pub fn read_scattered(
        &self,
        regions: &mut [IoSliceMut<'_>],
        handles: &mut [Option<Handle>],
    ) -> Result<Lengths, Status> {
        let bytes = regions.iter().fold(0usize, |sum, region| sum.saturating_add(region.len()));
        let room = Lengths { bytes, handles: handles.len() };
        let mut message = self.read_fitting(room, Oversized::Keep)?;
        scatter(&message, regions);
        Ok(hand_out(&mut message, handles))
    }
}

fn hand_out(message: &mut MessageBuf, slots: &mut [Option<Handle>]) -> Lengths {
    let lengths = Lengths { bytes: message.len(), handles: message.handles().len() };
    if lengths.handles > 0 {
        for (slot, handle) in slots.iter_mut().zip(message.take_handles()) {
            *slot = Some(handle);
        }
    }
    lengths
}

/// Takes the next message of `side`, if `admit` does not refuse it; that says whether it fits.
#[inline]
fn take(
    locked: &mut Locked<'_, ChannelEnd>,
    side: Side,
    admit: impl FnOnce(&MessageBuf) -> Result<bool, Status>,
) -> Result<Taken, Status> {
    let wire = locked.wire(side);
    if let Some(wire) = &wire
        && locked.end(side).queue.is_empty()
    {
        locked.pump(side, wire, Signals::READABLE);
    }
    let queue = &mut locked.end(side).queue;
    let Some(next) = queue.front() else { return Err(locked.nothing_to_read(side)) };
    let fits = admit(next)?;
    let was_full = !queue.has_room();
    let message = queue.pop().ok_or(Status::ShouldWait)?;
    let (is_empty, has_room) = (queue.is_empty(), queue.has_room());
    if is_empty {
        locked.update(side, Signals::READABLE, Signals::empty());
    }
    if was_full && has_room {
        locked.room_made(side, wire.as_deref());
    }
    Ok(Taken { message: message.whole()?, fits })
}
