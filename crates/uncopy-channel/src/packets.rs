//! Packets that a port hands out: one queue for the signals of many objects.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;
use std::time::Duration;

use super::identity::Koid;
use super::signals::Signals;
use super::sleep::{Deadline, PollDescriptor, PollTarget, Waiter, with_waiter};
use super::status::Status;
use super::sync::atomic::{AtomicU32, Ordering};
use super::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, lock};
use uncopy_os::clock;
use uncopy_os::epoll;
use uncopy_os::fork::Generation;
use uncopy_os::seqpacket::Ready;

/// Packets that a port hands out without a look at the sockets of its objects.
const MAX_PACKETS_BETWEEN_LOOKS: u32 = 15;

/// User packets that a port keeps before it answers [`Status::ShouldWait`].
const MAX_USER_PACKETS: usize = 16_384;

bitflags::bitflags! {
    /// How [`wait_async`](crate::Object::wait_async) waits, with Zircon's bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AsyncOptions: u32 {
        /// The packet says when, by `CLOCK_MONOTONIC`.
        const TIMESTAMP = 1;
        /// Only a signal that becomes set counts, not one that is.
        const EDGE = 1 << 1;
        /// The packet says when, by `CLOCK_BOOTTIME`.
        const BOOT_TIMESTAMP = 1 << 2;
    }
}

/// What a port hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet {
    /// As given to [`wait_async`](crate::Object::wait_async) or [`Port::queue`](crate::Port::queue).
    pub key: u64,
    /// As given to [`Port::queue_status`](crate::Port::queue_status); else 0.
    pub status: i32,
    /// What happened.
    pub contents: PacketContents,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketContents {
    /// The program's own 32 bytes.
    User([u8; 32]),
    /// A signal was set.
    Signal {
        /// What was waited for.
        trigger: Signals,
        /// What was set at that moment.
        observed: Signals,
        /// Always 1.
        count: u64,
        /// When, if it was asked for.
        timestamp: Option<Duration>,
    },
}

/// Something whose signals lag behind until somebody looks.
pub(super) trait Refresh: Send + Sync {
    /// Looks.
    fn refresh(&self);
    /// There is nothing to look at any more.
    fn is_gone(&self) -> bool;
}

/// A packet and the handle that it is about.
struct Entry {
    packet: Packet,
    handle: Option<Koid>,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    user_packets: usize,
    /// Packets that were handed out since the last look at sockets.
    packets_since_look: u32,
    /// Threads that sleep at the condition variable.
    sleepers: usize,
    /// Those that sleep in `poll(2)`.
    pollers: Vec<Arc<Waiter>>,
    /// Objects whose other end is in another process.
    watched: Option<Watched>,
}

/// Objects that only a socket tells of.
struct Watched {
    set: StdArc<OwnedFd>,
    sources: HashMap<u64, StdArc<dyn Refresh>>,
}

impl Watched {
    /// Brings the signals of those up to date whose sockets have something.
    fn ready(&self) -> Vec<StdArc<dyn Refresh>> {
        let tokens = epoll::wait(&*self.set, Some(Duration::ZERO)).unwrap_or_default();
        tokens.iter().filter_map(|token| self.sources.get(token).cloned()).collect()
    }
}

/// What bindings refer to.
pub(super) struct PortQueue {
    generation: Generation,
    koid: Koid,
    /// Open handles; none: it is closed.
    handles: AtomicU32,
    state: Mutex<State>,
    filled: Condvar,
}

impl PortQueue {
    pub(super) fn new() -> PortQueue {
        PortQueue {
            generation: Generation::current(),
            koid: Koid::next(),
            handles: AtomicU32::new(1),
            state: Mutex::default(),
            filled: Condvar::new(),
        }
    }

    pub(super) fn koid(&self) -> Koid {
        self.koid
    }

    /// Queues a packet of the program's own.
    pub(super) fn put(&self, key: u64, status: i32, contents: [u8; 32]) -> Result<(), Status> {
        let mut state = self.lock()?;
        if state.user_packets >= MAX_USER_PACKETS {
            return Err(Status::ShouldWait);
        }
        state.user_packets += 1;
        let packet = Packet { key, status, contents: PacketContents::User(contents) };
        self.push(state, Entry { packet, handle: None });
        Ok(())
    }

    /// Takes the oldest packet, waiting for one while `may_read` holds.
    pub(super) fn take(
        &self,
        deadline: Deadline,
        may_read: impl Fn() -> bool,
    ) -> Result<Packet, Status> {
        let mut state = self.lock()?;
        let mut has_looked = false;
        loop {
            if state.packets_since_look >= MAX_PACKETS_BETWEEN_LOOKS {
                // There may always be a packet, and some object not be heard for that.
                state = self.look_after(state)?;
            }
            if let Some(entry) = state.entries.pop_front() {
                state.packets_since_look += u32::from(state.watched.is_some());
                state.user_packets -= usize::from(entry.handle.is_none());
                return Ok(entry.packet);
            }
            if self.is_closed() || !may_read() {
                return Err(Status::Canceled);
            }
            let remaining = deadline.remaining();
            let is_over = remaining == Some(Duration::ZERO);
            if state.watched.is_some() && !(is_over && has_looked) {
                has_looked = is_over;
                state = self.poll(state, deadline)?;
                continue;
            }
            if is_over {
                return Err(Status::TimedOut);
            }
            state.sleepers += 1;
            state = match remaining {
                None => self.filled.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleepers -= 1;
        }
    }

    /// Sleeps until a packet comes or a socket has something, and looks after that.
    fn poll<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        deadline: Deadline,
    ) -> Result<MutexGuard<'a, State>, Status> {
        let Some(watched) = &state.watched else { return Ok(state) };
        let ready = Ready { read: true, ..Ready::default() };
        let poll_target =
            PollTarget { descriptor: PollDescriptor::Epoll(watched.set.clone()), ready };
        let state = with_waiter(|waiter| {
            state.pollers.push(waiter.clone());
            drop(state);
            let slept = waiter.poll(&[poll_target], deadline);
            let mut state = self.lock()?;
            state.pollers.retain(|poller| !Arc::ptr_eq(poller, waiter));
            slept.map(|_| state)
        })?;
        self.look_after(state)
    }

    /// Looks after the sockets that have something.
    fn look_after<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Status> {
        state.packets_since_look = 0;
        let sources = state.watched.as_ref().map_or_else(Vec::new, Watched::ready);
        if sources.is_empty() {
            return Ok(state);
        }
        // Packets come of it, so not under this lock.
        drop(state);
        sources.iter().for_each(|source| source.refresh());
        self.lock()
    }

    /// Takes back the packets that are about `handle` with `key`; says whether there were any.
    pub(super) fn take_back(&self, handle: Koid, key: u64) -> Result<bool, Status> {
        let mut state = self.lock()?;
        let before = state.entries.len();
        state.entries.retain(|entry| !(entry.handle == Some(handle) && entry.packet.key == key));
        Ok(state.entries.len() != before)
    }

    /// Has all who sleep here look whether they still may.
    pub(super) fn rouse(&self) {
        if let Ok(state) = self.lock() {
            self.look(state);
        }
    }

    /// Open handles.
    pub(super) fn handles(&self) -> u32 {
        self.handles.load(Ordering::Relaxed)
    }

    /// Counts one handle more, unless it is closed.
    pub(super) fn open_again(&self) -> Result<(), Status> {
        let one_more = |handles| (handles > 0).then_some(handles + 1);
        let counted = self.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map(drop).map_err(|_| Status::BadHandle)
    }

    /// Counts one handle less; the last closes it.
    pub(super) fn close(&self) {
        if self.handles.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        if let Ok(mut state) = self.lock() {
            state.entries.clear();
            // Those that wait by a handle that was succeeded.
            self.look(state);
        }
    }

    /// It belongs to the process that forked this one.
    pub(super) fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Status> {
        if self.is_inherited() { Err(Status::BadState) } else { Ok(lock(&self.state)) }
    }

    fn push(&self, mut state: MutexGuard<'_, State>, entry: Entry) {
        state.entries.push_back(entry);
        let sleeps = state.sleepers > 0;
        let poller = if sleeps { None } else { state.pollers.pop() };
        drop(state);
        if sleeps {
            self.filled.notify_one();
        } else if let Some(poller) = poller {
            poller.recheck();
        }
    }

    /// Has all who sleep here look again.
    fn look(&self, mut state: MutexGuard<'_, State>) {
        state.pollers.drain(..).for_each(|poller| poller.recheck());
        drop(state);
        self.filled.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.handles() == 0
    }
}

/// One object's promise of a packet.
#[derive(Clone)]
pub struct Binding {
    queue: Arc<PortQueue>,
    key: u64,
    options: AsyncOptions,
}

impl Binding {
    pub(super) fn new(queue: Arc<PortQueue>, key: u64, options: AsyncOptions) -> Binding {
        Binding { queue, key, options }
    }

    /// Queues the packet.
    pub(super) fn fire(&self, handle: Koid, trigger: Signals, observed: Signals) {
        let timestamp = if self.options.contains(AsyncOptions::TIMESTAMP) {
            Some(clock::monotonic())
        } else if self.options.contains(AsyncOptions::BOOT_TIMESTAMP) {
            Some(clock::boot())
        } else {
            None
        };
        let contents = PacketContents::Signal { trigger, observed, count: 1, timestamp };
        if let Ok(state) = self.queue.lock()
            && !self.is_dead()
        {
            let packet = Packet { key: self.key, status: 0, contents };
            self.queue.push(state, Entry { packet, handle: Some(handle) });
        }
    }

    /// Has the port poll for the object too: `add` puts what there is to poll into its epoll set,
    /// at its edges.
    pub(super) fn watch(
        &self,
        token: Koid,
        source: StdArc<dyn Refresh>,
        add: impl FnOnce(&StdArc<OwnedFd>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut state = self.queue.lock()?;
        if state.watched.is_none() {
            let set = StdArc::new(epoll::create()?);
            state.watched = Some(Watched { set, sources: HashMap::new() });
        }
        if let Some(watched) = &mut state.watched {
            watched.sources.retain(|_, source| !source.is_gone());
            add(&watched.set)?;
            watched.sources.insert(token.get(), source);
        }
        self.queue.look(state);
        Ok(())
    }

    pub(super) fn queue(&self) -> &Arc<PortQueue> {
        &self.queue
    }

    /// The port is closed.
    pub(super) fn is_dead(&self) -> bool {
        self.queue.is_closed()
    }

    pub(super) fn is(&self, port: &Arc<PortQueue>, key: u64) -> bool {
        self.key == key && Arc::ptr_eq(&self.queue, port)
    }
}
