//! Sends in batches through io_uring, and notifiers over them.

mod engine;
mod message;
mod plain;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::auto::{Auto, Way};
use super::counters::{Counters, FallbackReason};
use super::notifier::{Binding, SlotError, Slots};
use super::plan::{self, Mode, Next, Refused};
use super::release::{Fate, Release, SendId, Sent};
use super::sender::{Outstanding, Sender, SenderOptions, note_device};
use crate::buf::{Payload, Pool, StableBytes};
use crate::error::{Errno, Error, Reason, Result};
use crate::sys::inet::{Socket, Transport};
use crate::sys::send_ring::{MAX_BYTES, SendRing, Setup, Step};
use crate::sys::zerocopy::{Landed, MAX_REGIONS};
use engine::{Engine, Request};
pub use message::{Event, Message, NotTaken, RegisteredPools};

/// How a [`Ring`] works.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingOptions {
    /// Sends that one system call submits at most. Rounded up to a power of two.
    pub entries: u32,
    /// Completions that the kernel keeps ready at most before it puts them aside, which costs
    /// more. `None`: four for each entry; a send has two.
    pub completions: Option<u32>,
    /// Whether to lend or to copy.
    pub mode: Mode,
    /// How long dropping a ring waits for the kernel before it aborts TCP connections. Buffers that
    /// are not released even then, because a device holds them, are kept for ever.
    pub drop_timeout: Duration,
    /// Use single calls (`MSG_ZEROCOPY`) also where there is an io_uring.
    pub without_io_uring: bool,
}

impl Default for RingOptions {
    fn default() -> RingOptions {
        RingOptions {
            entries: 256,
            completions: None,
            mode: Mode::Auto,
            drop_timeout: Duration::from_secs(5),
            without_io_uring: false,
        }
    }
}

/// A socket of a [`Ring`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RingSocket(usize);

/// What is known of a send on its way.
struct Context {
    socket: usize,
    binding: Option<Binding>,
    bytes: usize,
    lent: bool,
    to: Option<SocketAddr>,
}

/// What was learnt of one socket.
struct Lane {
    transport: Transport,
    auto: Auto,
    counters: Counters,
}

/// Sends many buffers with few system calls, over any number of sockets, and tells when they are
/// free again: one by one, or together for all sends that were bound to one notifier.
///
/// ```
/// use std::net::UdpSocket;
/// use uncopy::send::{Event, Message, PageSize, Pool, Ring, RingOptions, Socket};
///
/// let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
/// let mut ring = Ring::new(&RingOptions::default());
/// let socket = ring.add(Socket::connect_udp(receiver.local_addr().unwrap())?);
/// let pool = Pool::new(64, 8000, PageSize::HugeIfPossible)?;
/// // Where it cannot be registered, its slices are sent like other memory.
/// let _ = ring.register_pool(&pool);
/// ring.register_slots(&[0xfeed]).unwrap();
///
/// for number in 0..8 {
///     let slice = pool.take().expect("64 are free");
///     let message = Message::new(slice);
///     let message = if number < 7 { message.bind(0) } else { message.bind_and_flush(0) };
///     ring.send(socket, message).map_err(|refused| refused.error)?;
/// }
/// let notification = loop {
///     ring.wait(None)?;
///     match ring.next_event() {
///         Some(Event::Notified(notification)) => break notification,
///         Some(Event::Sent(sent)) => assert_eq!(sent.result?, 8000),
///         _ => {}
///     }
/// };
/// assert_eq!((notification.tag, notification.sequence), (0xfeed, 0));
/// assert_eq!(notification.releases.len(), 8);
/// # Ok::<(), uncopy::Error>(())
/// ```
///
/// # Threads
/// A ring belongs to the thread that made it (`IORING_SETUP_SINGLE_ISSUER`), which costs the
/// kernel less; each thread that sends has its own.
/// ```compile_fail
/// let ring = uncopy::send::Ring::<Vec<u8>>::new(&Default::default());
/// std::thread::spawn(move || drop(ring));
/// ```
///
/// # Without io_uring
/// Where a seccomp filter, `kernel.io_uring_disabled` or an old kernel leave none, the same sends
/// are made one by one, with `MSG_ZEROCOPY` or copied; [`io_uring_refusal`](Self::io_uring_refusal)
/// says why.
///
/// # Streams
/// Sends on a TCP socket keep their order, also when it is full in between. One that fails takes
/// those with it that were submitted behind it: their result is `ECANCELED`.
///
/// # Dropping
/// Sends that were not submitted are never made. For the others it waits (see
/// [`RingOptions::drop_timeout`]).
pub struct Ring<B: StableBytes> {
    engine: Engine<B>,
    refusal: Option<Errno>,
    mode: Mode,
    slots: Slots<Release<B>>,
    /// By number, from `first` on. `None`: over.
    contexts: VecDeque<Option<Context>>,
    first: u64,
    lanes: Vec<Lane>,
    events: VecDeque<Event<B>>,
    steps: VecDeque<Step<B>>,
    outstanding: Outstanding,
}

impl<B: StableBytes> Ring<B> {
    /// A ring for the calling thread.
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
            Ok(ring) => (Engine::Ring(Box::new(ring), Vec::new()), None),
            Err(errno) => {
                let park_timeout = drop_timeout;
                let options = SenderOptions { park_timeout, ..SenderOptions::default() };
                (Engine::calls(options), Some(errno))
            }
        };
        Ring {
            engine,
            refusal,
            mode,
            slots: Slots::new(),
            contexts: VecDeque::new(),
            first: 0,
            lanes: Vec::new(),
            events: VecDeque::new(),
            steps: VecDeque::new(),
            outstanding: Outstanding::default(),
        }
    }

    /// Why single calls are used instead of io_uring. `None`: they are not.
    #[must_use]
    pub fn io_uring_refusal(&self) -> Option<Errno> {
        self.refusal
    }

    /// Gives a socket to the ring, for good.
    pub fn add(&mut self, socket: Socket) -> RingSocket {
        let transport = socket.transport();
        self.engine.add(socket);
        self.add_lane(transport)
    }

    /// Sends on the socket of a [`Sender`] too: what is sent through the ring is not counted among
    /// what the sender lent, so that both may be used in turn. A ring that is dropped and waits in
    /// vain aborts the sender's connection too.
    pub fn add_shared<C: StableBytes>(&mut self, sender: &Sender<C>) -> RingSocket {
        let socket = sender.share();
        let transport = socket.transport();
        self.engine.add_shared(socket);
        self.add_lane(transport)
    }

    fn add_lane(&mut self, transport: Transport) -> RingSocket {
        self.lanes.push(Lane { transport, auto: Auto::new(), counters: Counters::default() });
        RingSocket(self.lanes.len() - 1)
    }

    /// The socket, for everything that does not send. `None`: it is another ring's.
    #[must_use]
    pub fn socket(&self, socket: RingSocket) -> Option<&Socket> {
        self.engine.socket(socket.0)
    }

    /// Has the kernel look up and pin the pages of a pool once and for all sends of its slices
    /// through this ring. Several rings may register one pool. Without it, slices are sent like
    /// other memory, page by page.
    ///
    /// # Errors
    /// `ENOMEM`: more than may be locked (`ulimit -l`). `EOPNOTSUPP`: there is no io_uring.
    /// `EMFILE`: 64 pools are registered.
    pub fn register_pool(&mut self, pool: &Pool) -> Result<()> {
        if self.engine.has(pool) {
            return Ok(());
        }
        let register = self.engine.register(pool);
        register.map_err(|errno| Error::network("register", "a pool with a ring", errno))
    }

    /// The pools that are registered here, for rings of other threads.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: there is no io_uring.
    pub fn registered_pools(&self) -> Result<RegisteredPools> {
        let registered = self.engine.registered();
        let failed = |errno| Error::network("share", "the pools of a ring", errno);
        registered.map(RegisteredPools).map_err(failed)
    }

    /// Registers the pools of another ring here too, without having their pages looked up, pinned
    /// and counted once more (Linux 6.12; before, and where pools are registered here already, one
    /// by one as [`register_pool`](Self::register_pool) does).
    ///
    /// # Errors
    /// As [`register_pool`](Self::register_pool).
    pub fn register_pools_of(&mut self, pools: &RegisteredPools) -> Result<()> {
        let register = self.engine.register_clone(&pools.0);
        register.map_err(|errno| Error::network("register", "pools with a ring", errno))
    }

    /// Registers notification slots, one for each tag, under the indexes from 0 on.
    ///
    /// # Errors
    /// [`SlotError::AlreadyRegistered`], [`SlotError::Count`].
    pub fn register_slots(&mut self, tags: &[u64]) -> Result<(), SlotError> {
        self.slots.register(tags)
    }

    /// Takes all slots away; notifiers that sends were bound to are flushed, and their
    /// notifications come when they are complete.
    pub fn unregister_slots(&mut self) {
        self.slots.unregister();
        self.post();
    }

    /// Seals the notifier that is in each of the slots, and puts a fresh one there: a
    /// notification comes when the last send bound to it is released, at once if none is.
    ///
    /// # Errors
    /// [`SlotError::NoSuchSlot`] for one of them; none is flushed then.
    pub fn flush(&mut self, slots: &[u32]) -> Result<(), SlotError> {
        self.slots.flush(slots)?;
        self.post();
        Ok(())
    }

    /// Takes a send in; [`submit`](Self::submit) or [`wait`](Self::wait) gives it to the kernel.
    ///
    /// # Errors
    /// [`NotTaken`] with the buffers: the slot or the socket does not exist, or it is more than
    /// 2,147,479,552 bytes.
    #[allow(clippy::result_large_err, reason = "the buffers come back")]
    pub fn send(&mut self, socket: RingSocket, message: Message<B>) -> Result<SendId, NotTaken<B>> {
        let Message { payload, to, slot, flush } = message;
        let bytes = payload.len();
        let refused = match slot.map_or(Ok(()), |slot| self.slots.has(slot)) {
            Err(error) => Some(Reason::Refused(error.to_string())),
            Ok(()) if bytes > MAX_BYTES => Some(Reason::Network { errno: Errno::EMSGSIZE }),
            Ok(()) if socket.0 >= self.lanes.len() => {
                Some(Reason::Refused("its socket is not this ring's; add it first".to_owned()))
            }
            Ok(()) => None,
        };
        if let Some(reason) = refused {
            return Err(NotTaken { payload, error: Error::new("send", "a message", reason) });
        }
        let lend = self.choose(socket.0, &payload, bytes);
        let lent = lend.is_ok();
        if let Some(socket) = self.engine.socket(socket.0) {
            note_device(socket, lent);
        }
        let request = Request { payload, socket: socket.0, to, lend };
        // The socket was looked for above.
        let number = self.engine.push(request).unwrap_or_default();
        let binding = slot.and_then(|slot| self.slots.bind(slot).ok());
        if let Some(slot) = slot.filter(|_| flush) {
            // The slot was looked for above, and the send just bound holds the notifier back.
            let _ = self.slots.flush(&[slot]);
        }
        self.contexts.push_back(Some(Context { socket: socket.0, binding, bytes, lent, to }));
        self.outstanding.sends += 1;
        self.outstanding.bytes += bytes;
        Ok(SendId(number))
    }

    /// Takes several sends in, all bound to the notifier in `slot`, which is flushed with the last:
    /// one notification for all of them. Each buffer is a datagram, or on a socket that
    /// [cuts its sends](Socket::set_segment_bytes) a train of them; on a stream they follow one
    /// another.
    ///
    /// # Errors
    /// As [`send`](Self::send), for the first that is not taken; what was taken before goes, and
    /// those behind it come back with it. The notifier is not flushed then.
    #[allow(clippy::result_large_err, reason = "the buffers come back")]
    pub fn send_batch(
        &mut self,
        socket: RingSocket,
        buffers: Vec<B>,
        slot: u32,
    ) -> Result<(), NotTaken<B>> {
        let mut buffers = buffers.into_iter();
        while let Some(buffer) = buffers.next() {
            let message = Message::new(buffer);
            let is_last = buffers.len() == 0;
            let message = if is_last { message.bind_and_flush(slot) } else { message.bind(slot) };
            if let Err(NotTaken { payload, error }) = self.send(socket, message) {
                let rest = payload.into_vec().into_iter().chain(buffers).collect();
                return Err(NotTaken { payload: Payload::Many(rest), error });
            }
        }
        Ok(())
    }

    fn choose(
        &mut self,
        socket: usize,
        payload: &Payload<B>,
        bytes: usize,
    ) -> Result<(), FallbackReason> {
        let way = match (&self.engine, payload) {
            (Engine::Calls(_), _) => Way::MsgZerocopy,
            (Engine::Ring(..), _)
                if payload.as_slice().iter().all(|b| b.pool_slice().is_some()) =>
            {
                Way::RingRegistered
            }
            _ => Way::Ring,
        };
        let is_spread = payload.as_slice().len() > MAX_REGIONS;
        let lane = &mut self.lanes[socket];
        let chosen = match self.mode {
            Mode::Copy => Err(FallbackReason::Asked),
            _ if is_spread => Err(FallbackReason::TooManyRegions),
            Mode::Zerocopy => Ok(()),
            Mode::Auto => lane.auto.choose(bytes, way),
        };
        if let Err(reason) = chosen {
            lane.counters.fell_back(reason);
        }
        chosen
    }

    /// Gives everything that was taken in to the kernel, as far as order on streams allows, and
    /// collects what has happened; does not wait.
    ///
    /// # Errors
    /// The ring's own, as `io_uring_enter(2)`; everything stays where it is.
    pub fn submit(&mut self) -> Result<()> {
        self.advance(0, None)
    }

    /// Submits, and waits until something happens, at most for `timeout` (`None`: for as long as it
    /// takes). Returns at once if nothing is outstanding, or an event is there.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let want = usize::from(self.events.is_empty() && self.outstanding.sends > 0);
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            self.advance(want, left)?;
            let is_over = left == Some(Duration::ZERO) || self.outstanding.sends == 0;
            if !self.events.is_empty() || is_over {
                return Ok(());
            }
        }
    }

    fn advance(&mut self, want: usize, timeout: Option<Duration>) -> Result<()> {
        let failed = |errno| Error::network("submit sends to", "the kernel", errno);
        self.engine.submit(want, timeout).map_err(failed)?;
        self.collect().map_err(failed)?;
        // Streams whose turn it is now, and what is to be made once more.
        if self.engine.waiting() > 0 {
            self.engine.submit(0, None).map_err(failed)?;
            self.collect().map_err(failed)?;
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), Errno> {
        let Ring { engine, contexts, first, lanes, steps, .. } = self;
        engine.reap(steps, |number, errno, transport, lent| {
            let index = usize::try_from(number.wrapping_sub(*first)).unwrap_or(usize::MAX);
            let Some(Some(context)) = contexts.get(index) else { return false };
            let counters = &mut lanes[context.socket].counters;
            // Completions are read all the time, so that a second attempt would meet the same.
            let refused = Refused { errno, transport, lent, drained: true };
            match plan::after(refused) {
                Next::Copy(reason) => {
                    let no_room = matches!(errno, Errno::ENOBUFS | Errno::ENOMEM);
                    counters.no_buffer_space += u64::from(no_room);
                    counters.fell_back(reason);
                    true
                }
                Next::WaitForRoom | Next::Drain | Next::Fail => false,
            }
        })?;
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::Result { number, result } => self.sent(number, result),
                Step::Landed(landed) => self.released(landed),
            }
        }
        self.post();
        Ok(())
    }

    fn context(&self, number: u64) -> Option<&Context> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.contexts.get(index)?.as_ref()
    }

    fn sent(&mut self, number: u64, result: Result<usize, Errno>) {
        let Some(&Context { socket, to, .. }) = self.context(number) else { return };
        let counters = &mut self.lanes[socket].counters;
        match result {
            Ok(bytes) => {
                counters.sends += 1;
                counters.bytes += bytes as u64;
            }
            Err(_) => counters.failed_sends += 1,
        }
        let result = result.map_err(|errno| {
            let subject = match (to, self.engine.socket(socket)) {
                (Some(to), _) => to.to_string(),
                (None, Some(socket)) => socket.subject(),
                (None, None) => String::new(),
            };
            Error::network("send to", subject, errno)
        });
        self.events.push_back(Event::Sent(Sent { id: SendId(number), result }));
    }

    fn released(&mut self, landed: Landed<B>) {
        let learns = landed.usage.lent_parts > 0;
        let index =
            landed.number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let context = index.and_then(|index| self.contexts.get_mut(index)).and_then(Option::take);
        let Some(context) = context else { return };
        let Some(socket) = self.engine.socket(context.socket) else { return };
        let mut release = Release::of(landed, socket);
        while let Some(None) = self.contexts.front() {
            self.contexts.pop_front();
            self.first += 1;
        }
        self.outstanding.sends -= 1;
        self.outstanding.bytes -= context.bytes;
        let lane = &mut self.lanes[context.socket];
        let believed = is_believed(self.refusal.is_none(), lane.transport);
        if release.fate == Fate::Copied && context.lent && learns && !believed {
            release.fate = Fate::Unknown;
        }
        lane.counters.released(release.fate, release.bytes);
        if learns && context.lent {
            let is_told = believed && release.fate != Fate::Unknown;
            lane.auto.learn(is_told.then_some(release.fate == Fate::Copied));
        }
        match context.binding {
            Some(binding) => self.slots.release(binding, release),
            None => self.events.push_back(Event::Released(release)),
        }
    }

    /// Makes events of the notifications that are complete.
    fn post(&mut self) {
        while let Some(notification) = self.slots.next() {
            self.events.push_back(Event::Notified(notification));
        }
    }

    /// Asks the kernel to end a send early. Its result and its release come as for any other; the
    /// result is `ECANCELED` if that was possible.
    pub fn cancel(&mut self, id: SendId) {
        self.engine.cancel(id.get(), &mut self.steps);
        // What was not submitted is over now. An error comes again with the next call.
        let _ = self.collect();
    }

    /// The next thing that has happened; [`submit`](Self::submit) and [`wait`](Self::wait) collect
    /// them.
    pub fn next_event(&mut self) -> Option<Event<B>> {
        self.events.pop_front()
    }

    /// Sends whose buffers are not free, and their bytes.
    #[must_use]
    pub fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// What the sends on a socket came to so far. `None`: it is another ring's.
    #[must_use]
    pub fn counters(&self, socket: RingSocket) -> Option<&Counters> {
        self.lanes.get(socket.0).map(|lane| &lane.counters)
    }

    /// Ends the ring and gives back what was released to notifiers and not posted, and every
    /// release that was not taken. Sends that are outstanding are not among them: see
    /// [Dropping](#dropping).
    #[must_use]
    pub fn into_releases(self) -> Vec<Release<B>> {
        let mut releases: Vec<Release<B>> = Vec::new();
        for event in self.events {
            match event {
                Event::Released(release) => releases.push(release),
                Event::Notified(notification) => releases.extend(notification.releases),
                Event::Sent(_) => {}
            }
        }
        releases.extend(self.slots.into_releases());
        releases
    }
}

/// Whether a report of a copy can be believed. io_uring reports TCP sends as copied when their
/// notifications were joined, also where nothing was copied (Linux 6.10 and later: the notification
/// that is joined to another has no device's report of its own, `io_link_skb` in `io_uring/notif.c`).
fn is_believed(by_io_uring: bool, transport: Transport) -> bool {
    !by_io_uring || transport != Transport::Tcp
}

impl<B: StableBytes> fmt::Debug for Ring<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("refusal", &self.refusal)
            .field("outstanding", &self.outstanding)
            .field("events", &self.events.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Transport, is_believed};

    #[test]
    fn only_io_urings_copied_over_tcp_is_not_believed() {
        for (by_io_uring, transport, expected) in [
            (true, Transport::Tcp, false),
            (true, Transport::Udp, true),
            (false, Transport::Tcp, true),
            (false, Transport::Udp, true),
        ] {
            assert_eq!(is_believed(by_io_uring, transport), expected);
        }
    }
}
