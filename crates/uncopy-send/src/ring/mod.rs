//! Rings: sends in batches through io_uring, and notifiers over them.

mod calls;
mod close;
mod copying;
mod engine;
mod message;
mod request;
mod ring_state;
mod socket_state;

use std::fmt;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use super::batch;
use super::counters::{Counters, Outstanding};
use super::options::RingOptions;
use super::plan::Mode;
use super::release::{Release, SendId};
use super::returned::NotTaken;
use super::sender::Sender;
use crate::room::inet::{InetSocket, Transport};
use crate::room::send_ring::{MAX_BYTES, ParkOnDrop, SendRing, Setup};
use crate::room::{Payload, Pool, PoolSlice, StableBytes};
pub use close::Unfinished;
use engine::Engine;
use message::Bound;
pub use message::{Message, RegisteredPools, RingEvent};
use request::Request;
use ring_state::RingState;
use socket_state::NewSend;
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::clock;
use uncopy_os::fork::Generation;

/// A socket of a [`Ring`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingSocket(usize);

/// Sends many buffers with few system calls, over any number of sockets, and reports when they are free
/// again: one by one, or together for all sends that were bound to one notifier.
///
/// ```
/// use std::net::UdpSocket;
/// use uncopy::send::{InetSocket, Message, PageSize, Pool, Ring, RingEvent, RingOptions};
///
/// let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
/// let mut ring = Ring::new(&RingOptions::default());
/// let socket = ring.add(InetSocket::connect_udp(receiver.local_addr().unwrap())?);
/// let pool = Pool::new(64, 8000, PageSize::HugeIfPossible)?;
/// // If it cannot be registered, its slices are sent like other memory.
/// let _ = ring.register_pool(&pool);
/// ring.register_slots(&[0xfeed]).unwrap();
///
/// for number in 0..8 {
///     let slice = pool.take().expect("64 are free");
///     let message = Message::new(slice);
///     let message = if number < 7 { message.bind(0) } else { message.bind_and_flush(0) };
///     ring.send(socket, message)?;
/// }
/// let notification = loop {
///     ring.wait(None)?;
///     match ring.next_event() {
///         Some(RingEvent::Notified(notification)) => break notification,
///         Some(RingEvent::Sent(sent)) => assert_eq!(sent.result?, 8000),
///         _ => {}
///     }
/// };
/// assert_eq!((notification.tag, notification.sequence), (0xfeed, 0));
/// assert_eq!(notification.releases.len(), 8);
/// # Ok::<(), uncopy::Error>(())
/// ```
///
/// # Threads
/// A ring belongs to the thread that made it (`IORING_SETUP_SINGLE_ISSUER`), which costs the kernel less.
/// Each thread that sends needs its own.
/// ```compile_fail,E0277
/// let ring = uncopy::send::Ring::<Vec<u8>>::new(&Default::default());
/// std::thread::spawn(move || drop(ring));
/// ```
///
/// # Without io_uring
/// If io_uring is not available (a seccomp filter, `kernel.io_uring_disabled`, an old kernel), the same sends
/// are made one by one, with `MSG_ZEROCOPY` or copied; [`io_uring_refusal`](Self::io_uring_refusal) returns
/// the reason.
///
/// # Streams
/// Sends on a TCP socket keep their order, even if the socket is full in between. If a send fails, or is
/// canceled after it was submitted, the sends taken in behind it are canceled too: their result is
/// `ECANCELED`, and the peer reads no gap. Sends taken in after the failure are made.
///
/// # Dropping
/// A dropped ring does not wait. Each stream ends after its last send as soon as all its sends have their
/// results, normally at once. Bytes that were reported as sent arrive if the peer reads them in time. Sends
/// without a result may never be made, or may be cut off; [`close`](Self::close) makes them, and reports
/// those that were not finished.
///
/// Buffers that the kernel still needs are parked with the sockets ([`parked`](super::parked)). Only the
/// thread of the ring can take in releases: the buffers are freed when that thread next makes or drops a ring
/// or submits to one. When the thread ends, it waits for the rest for up to [`RingOptions::drop_timeout`], and
/// then aborts connections whose peers have not acknowledged everything; buffers that are not released even
/// then, because a device still reads them, are leaked.
///
/// # Fork
/// A ring also belongs to the process that made it. In a child made by `fork(2)` without `exec` every
/// operation is refused ([`Reason::Forked`]), and dropping the ring closes descriptors and does nothing else:
/// streams and releases belong to the parent. The ring's buffers stay in the child's memory until it ends.
pub struct Ring<B: StableBytes> {
    engine: Engine<B>,
    refusal: Option<Errno>,
    state: RingState<B>,
    generation: Generation,
}

impl<B: StableBytes> Ring<B> {
    /// Makes a ring for the calling thread.
    #[must_use]
    pub fn new(options: &RingOptions) -> Ring<B> {
        let RingOptions { entries, completions, mode, drop_timeout, without_io_uring } = *options;
        let setup = Setup {
            entries: entries.clamp(1, 1 << 15),
            completions: completions.map(|wanted| wanted.clamp(2, 1 << 16)),
            linger: drop_timeout,
        };
        let made = match without_io_uring {
            true => Err(Errno::EOPNOTSUPP),
            false => SendRing::new(setup),
        };
        let (engine, refusal) = match made {
            Ok(ring) => (Engine::Ring(ParkOnDrop::new(ring)), None),
            Err(errno) => (Engine::calls(drop_timeout), Some(errno)),
        };
        let state = RingState::new(mode, refusal.is_none());
        Ring { engine, refusal, state, generation: Generation::current() }
    }

    /// Returns whether the ring belongs to the process that forked this one.
    #[inline]
    fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }

    fn check_owner(&self, operation: &'static str) -> Result<()> {
        match self.is_inherited() {
            true => Err(Error::new(operation, "a ring", Reason::Forked)),
            false => Ok(()),
        }
    }

    /// Returns why single calls are used instead of io_uring; `None`: io_uring is used.
    #[must_use]
    pub fn io_uring_refusal(&self) -> Option<Errno> {
        self.refusal
    }

    /// Gives a socket to the ring, for the lifetime of the ring.
    pub fn add(&mut self, socket: InetSocket) -> RingSocket {
        let transport = socket.transport();
        self.engine.add(socket);
        RingSocket(self.state.add(transport))
    }

    /// Adds the socket of a [`Sender`], which stays usable: the sends of the ring do not disturb the kernel's
    /// count of the sender's, so both may be used in turn. A ring that is dropped with outstanding sends
    /// aborts the sender's connection too when its time is over.
    pub fn add_shared<C: StableBytes>(&mut self, sender: &Sender<C>) -> RingSocket {
        let socket = sender.share();
        let transport = socket.transport();
        self.engine.add_shared(socket);
        RingSocket(self.state.add(transport))
    }

    /// Returns the socket, for everything except sending; `None`: it belongs to another ring.
    #[must_use]
    pub fn socket(&self, socket: RingSocket) -> Option<&InetSocket> {
        self.engine.socket(socket.0)
    }

    /// Has the kernel look up and pin the pages of a pool once, for all sends of its slices through this ring.
    /// Several rings may register one pool. Slices of other pools are sent like other memory, page by page.
    ///
    /// # Errors
    /// `ENOMEM`: more memory than may be locked (`ulimit -l`). `EOPNOTSUPP`: io_uring is not available.
    /// `EMFILE`: 64 pools are registered already.
    pub fn register_pool(&mut self, pool: &Pool) -> Result<()> {
        self.check_owner("register a pool with")?;
        if pool.is_inherited() {
            return Err(Error::new("register", "a pool with a ring", Reason::Forked));
        }
        if self.engine.has(pool) {
            return Ok(());
        }
        let register = self.engine.register(pool);
        register.map_err(|errno| Error::network("register", "a pool with a ring", errno))
    }

    /// Returns the pools that are registered with this ring, for rings of other threads.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: io_uring is not available.
    pub fn registered_pools(&self) -> Result<RegisteredPools> {
        self.check_owner("share the pools of")?;
        let registered = self.engine.registered();
        let failed = |errno| Error::network("share", "the pools of a ring", errno);
        registered.map(RegisteredPools).map_err(failed)
    }

    /// Registers the pools of another ring, without the kernel looking up, pinning and counting their pages
    /// again (Linux 6.12; before, and if this ring has pools already, one by one as
    /// [`register_pool`](Self::register_pool) does).
    ///
    /// # Errors
    /// As [`register_pool`](Self::register_pool).
    pub fn register_pools_of(&mut self, pools: &RegisteredPools) -> Result<()> {
        self.check_owner("register pools with")?;
        if pools.0.is_inherited() {
            return Err(Error::new("register", "pools with a ring", Reason::Forked));
        }
        let register = self.engine.register_clone(&pools.0);
        register.map_err(|errno| Error::network("register", "pools with a ring", errno))
    }

    /// Registers notification slots, one for each tag, with indices from 0.
    ///
    /// # Errors
    /// [`Objection::SlotsRegistered`], [`Objection::SlotCount`].
    pub fn register_slots(&mut self, tags: &[u64]) -> Result<()> {
        self.check_owner("register slots with")?;
        let register = self.state.slots.register(tags);
        register.map_err(|objection| refused("register slots with", objection))
    }

    /// Removes all slots. Notifiers that sends were bound to are flushed, and their notifications come when
    /// they are complete.
    pub fn unregister_slots(&mut self) {
        if self.is_inherited() {
            return;
        }
        self.state.slots.unregister();
        self.state.post();
    }

    /// Seals the notifier in each of the slots, and puts a fresh one there. A notification comes when the last
    /// send bound to the notifier is released, or at once if none is bound.
    ///
    /// # Errors
    /// [`Objection::NoSuchSlot`] for one of the slots; none is flushed then.
    pub fn flush(&mut self, slots: &[u32]) -> Result<()> {
        self.check_owner("flush slots of")?;
        self.state.flush(slots).map_err(|objection| refused("flush slots of", objection))
    }

    /// Takes a send in; [`submit`](Self::submit) or [`wait`](Self::wait) gives it to the kernel.
    ///
    /// On a socket that [cuts its sends](InetSocket::set_segment_bytes) it can have any length: it is sent as
    /// trains that kernel and device accept, one after the other, and has one result and one release. Later
    /// sends can come between its trains.
    ///
    /// # Errors
    /// [`NotTaken`] with the buffers: the slot or the socket does not exist, or the send has more than
    /// 2,147,479,552 bytes.
    #[allow(clippy::result_large_err, reason = "the buffers come back")]
    pub fn send(&mut self, socket: RingSocket, message: Message<B>) -> Result<SendId, NotTaken<B>> {
        let Message { payload, ref to, bound } = message;
        let to = to.as_ref();
        let bytes = payload.len();
        let refusal = match self.is_inherited() {
            true => Some(Reason::Forked),
            false => self.refusal_of(bound, bytes),
        };
        let known = refusal.map_or_else(|| self.engine.known(socket.0), Err);
        let known = match known {
            Ok(known) => known,
            Err(reason) => {
                return Err(NotTaken { payload, error: Error::new("send", "a message", reason) });
            }
        };
        let index = socket.0;
        let max_bytes = batch::max_call_bytes(known);
        let is_huge = payload.as_slice().iter().any(is_huge);
        let huge_by_index = !is_huge || self.state.names_huge_pages(index, known, to);
        let payload_ref = &payload;
        let send = NewSend { index, socket: known, to, payload: payload_ref, bytes, huge_by_index };
        let choice = self.state.choose(&send);
        let lend = choice.is_lend();
        if lend && known.transport() == Transport::Tcp {
            known.note_device();
        }
        let context = self.state.begin(index, bound, bytes, choice.lent_path());
        let request = Request { payload, socket: index, to, max_bytes, lend, huge_by_index };
        Ok(SendId(self.engine.push(request, context).unwrap_or_default()))
    }

    /// Returns why a send cannot be taken, regardless of its socket.
    #[inline]
    fn refusal_of(&self, bound: Option<Bound>, bytes: usize) -> Option<Reason> {
        match bound.map_or(Ok(()), |bound| self.state.slots.has(bound.slot)) {
            Err(objection) => Some(Reason::Refused(objection)),
            Ok(()) if bytes > MAX_BYTES => Some(Reason::Network { errno: Errno::EMSGSIZE }),
            Ok(()) => None,
        }
    }

    /// Takes several sends in, all bound to the notifier in `slot`, which is flushed with the last one: one
    /// notification for all. Each buffer is a datagram, or the next bytes of a stream. On a socket that [cuts
    /// its sends](InetSocket::set_segment_bytes) buffers that are whole datagrams are joined to trains as long
    /// as kernel and device accept, and each send is a train.
    ///
    /// # Errors
    /// As [`send`](Self::send), for the first send that is not taken. Sends taken before it are made, and the
    /// buffers behind it come back with it. The notifier is not flushed then.
    #[allow(clippy::result_large_err, reason = "the buffers come back")]
    pub fn send_batch(
        &mut self,
        socket: RingSocket,
        buffers: Vec<B>,
        slot: u32,
    ) -> Result<(), NotTaken<B>> {
        let known = self.engine.socket(socket.0).filter(|_| !self.is_inherited());
        let segment = known.and_then(InetSocket::segment_bytes).map(NonZeroU16::get);
        let max_bytes = known.map_or(usize::MAX, batch::max_call_bytes);
        let lend = self.state.mode() != Mode::Copy;
        let mut buffers = buffers.into_iter();
        loop {
            let rest = buffers.as_slice().iter().map(StableBytes::bytes);
            let count =
                segment.map_or(1, |segment| batch::next_train(rest, segment, max_bytes, lend));
            let mut train: Vec<B> = buffers.by_ref().take(count).collect();
            let payload = match (train.len(), train.pop()) {
                (_, None) => return Ok(()),
                (1, Some(only)) => Payload::One(only),
                (_, Some(last)) => {
                    train.push(last);
                    Payload::Many(train)
                }
            };
            let message = Message::new(payload);
            let is_last = buffers.len() == 0;
            let message = if is_last { message.bind_and_flush(slot) } else { message.bind(slot) };
            if let Err(NotTaken { payload, error }) = self.send(socket, message) {
                let rest = payload.into_vec().into_iter().chain(buffers).collect();
                return Err(NotTaken { payload: Payload::Many(rest), error });
            }
        }
    }

    /// Gives all sends to the kernel, as far as the order of streams allows, and collects events; does not
    /// wait.
    ///
    /// # Errors
    /// As `io_uring_enter(2)`. All sends are kept.
    pub fn submit(&mut self) -> Result<()> {
        self.advance(0, None)
    }

    /// Submits and waits up to `timeout` for an event (`None`: without a limit). Returns at once if nothing is
    /// outstanding, or an event is pending.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let want = usize::from(!self.state.has_events() && self.outstanding().sends > 0);
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            self.advance(want, left)?;
            let is_over = left == Some(Duration::ZERO) || self.outstanding().sends == 0;
            if self.state.has_events() || is_over {
                return Ok(());
            }
        }
    }

    fn advance(&mut self, want: usize, timeout: Option<Duration>) -> Result<()> {
        self.check_owner("submit to")?;
        let before = self.state.is_sampled().then(clock::thread);
        let result = self.advance_on(want, timeout);
        if let Some(before) = before {
            self.state.add_cost(clock::thread().saturating_sub(before));
        }
        self.state.submitted();
        result
    }

    fn advance_on(&mut self, want: usize, timeout: Option<Duration>) -> Result<()> {
        let failed = |errno| Error::network("submit sends to", "the kernel", errno);
        self.engine.submit(want, timeout, &mut self.state).map_err(failed)?;
        let mut has_progress = self.collect().map_err(failed)?;
        // Submits the next chains of streams, further trains, and retries.
        while has_progress && self.engine.waiting() > 0 {
            self.engine.submit(0, None, &mut self.state).map_err(failed)?;
            has_progress = self.collect().map_err(failed)?;
        }
        Ok(())
    }

    /// Collects events; returns whether there were any.
    fn collect(&mut self) -> Result<bool, Errno> {
        let reaped = self.engine.reap(&mut self.state);
        self.state.post();
        reaped
    }

    /// Asks the kernel to end a send early. Its result and its release come as for any other send; the result
    /// is `ECANCELED` if it was ended.
    pub fn cancel(&mut self, id: SendId) {
        if self.is_inherited() {
            return;
        }
        self.engine.cancel(id.get(), &mut self.state);
        // A send that was not submitted has its events now. An error shows again with the next call.
        let _ = self.collect();
    }

    /// Takes the next event; [`submit`](Self::submit) and [`wait`](Self::wait) collect them.
    pub fn next_event(&mut self) -> Option<RingEvent<B>> {
        if self.is_inherited() {
            return None;
        }
        self.state.next_event()
    }

    /// Returns the number of sends whose buffers are not free, and their bytes.
    #[must_use]
    pub fn outstanding(&self) -> Outstanding {
        self.state.outstanding()
    }

    /// Returns the totals of the sends on a socket so far; `None`: it belongs to another ring.
    #[must_use]
    pub fn counters(&self, socket: RingSocket) -> Option<&Counters> {
        self.state.counters(socket.0)
    }

    /// Ends the ring and returns every release that was not taken, including those whose notifier was not
    /// posted. Outstanding sends are not among them: see [Dropping](#dropping).
    #[must_use]
    pub fn into_releases(self) -> Vec<Release<B>> {
        if self.is_inherited() {
            return Vec::new();
        }
        self.state.into_releases()
    }
}

/// Returns whether the memory is part of a huge page of a pool.
#[inline]
fn is_huge(owner: &impl StableBytes) -> bool {
    owner.pool_slice().is_some_and(PoolSlice::is_huge)
}

impl<B: StableBytes> fmt::Debug for Ring<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("refusal", &self.refusal)
            .field("outstanding", &self.outstanding())
            .field("events", &self.state.events())
            .finish_non_exhaustive()
    }
}

/// Makes the error of refused slots.
fn refused(operation: &'static str, objection: Objection) -> Error {
    Error::new(operation, "a ring", Reason::Refused(objection))
}
