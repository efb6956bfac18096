//! The packet queue of a port: one queue for the signals of many objects.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;
use std::time::{Duration, Instant};

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

/// Maximum number of packets that a port returns between two looks at the sockets of its objects.
const MAX_PACKETS_BETWEEN_LOOKS: u32 = 15;

/// Maximum number of queued user packets; more are refused with [`Status::ShouldWait`].
const MAX_USER_PACKETS: usize = 16_384;

bitflags::bitflags! {
    /// Options of [`wait_async`](crate::Object::wait_async), with Zircon's bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AsyncOptions: u32 {
        /// Adds a timestamp of `CLOCK_MONOTONIC` to the packet.
        const TIMESTAMP = 1;
        /// Waits for a signal to become set; one that is already set does not count.
        const EDGE = 1 << 1;
        /// Adds a timestamp of `CLOCK_BOOTTIME` to the packet.
        const BOOT_TIMESTAMP = 1 << 2;
    }
}

/// A packet of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet {
    /// Key that was given to [`wait_async`](crate::Object::wait_async) or
    /// [`Port::queue`](crate::Port::queue).
    pub key: u64,
    /// Status that was given to [`Port::queue_status`](crate::Port::queue_status); otherwise 0.
    pub status: i32,
    /// Kind and contents.
    pub contents: PacketContents,
}

/// Contents of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketContents {
    /// 32 bytes from the program.
    User([u8; 32]),
    /// A signal was set.
    Signal {
        /// Signals that were waited for.
        trigger: Signals,
        /// Signals that were set at that moment.
        observed: Signals,
        /// Always 1.
        count: u64,
        /// Time, if a timestamp was requested.
        timestamp: Option<Duration>,
    },
}

/// An object whose signals are brought up to date by a look.
pub(super) trait Refresh: Send + Sync {
    /// Brings the signals up to date.
    fn refresh(&self);
    /// Whether the object is gone.
    fn is_gone(&self) -> bool;
}

/// A packet, and the handle whose signals it reports.
struct Entry {
    packet: Packet,
    handle: Option<Koid>,
}

#[derive(Default)]
struct PortState {
    entries: VecDeque<Entry>,
    user_packets: usize,
    /// Packets that were returned since the last look at sockets.
    packets_since_look: u32,
    /// Number of threads that sleep at the condition variable.
    sleepers: usize,
    /// Threads that sleep in `poll(2)`.
    pollers: Vec<Arc<Waiter>>,
    /// Objects whose other end is in another process, if the port waits for any.
    watched: Option<Watched>,
}

/// Objects whose signals change by what comes over a socket.
struct Watched {
    set: StdArc<OwnedFd>,
    sources: HashMap<u64, StdArc<dyn Refresh>>,
}

impl Watched {
    /// Returns the objects whose sockets have something.
    fn ready(&self) -> Vec<StdArc<dyn Refresh>> {
        let tokens = epoll::wait(&*self.set, Some(Duration::ZERO)).unwrap_or_default();
        tokens.iter().filter_map(|token| self.sources.get(token).cloned()).collect()
    }
}

/// The queue of a port, which bindings refer to.
pub(super) struct PortQueue {
    generation: Generation,
    koid: Koid,
    /// Number of open handles; 0: it is closed.
    handles: AtomicU32,
    state: Mutex<PortState>,
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

    /// Queues a user packet.
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
        let mut spin_end = deadline.spin_end();
        let mut state = self.lock()?;
        let mut has_looked = false;
        loop {
            if state.packets_since_look >= MAX_PACKETS_BETWEEN_LOOKS {
                // Otherwise an object would starve while there is always another packet.
                state = self.refresh_ready(state)?;
            }
            if let Some(entry) = state.entries.pop_front() {
                state.packets_since_look += u32::from(state.watched.is_some());
                state.user_packets -= usize::from(entry.handle.is_none());
                return Ok(entry.packet);
            }
            if self.is_closed() || !may_read() {
                return Err(Status::Canceled);
            }
            if spin_end.is_some() {
                spin_end = spin_end.filter(|end| Instant::now() < *end);
                drop(state);
                std::hint::spin_loop();
                state = self.lock()?;
                state = self.refresh_ready(state)?;
                continue;
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

    /// Sleeps until a packet comes or a socket has something, then brings objects up to date.
    fn poll<'a>(
        &'a self,
        mut state: MutexGuard<'a, PortState>,
        deadline: Deadline,
    ) -> Result<MutexGuard<'a, PortState>, Status> {
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
        self.refresh_ready(state)
    }

    /// Brings the objects up to date whose sockets have something.
    fn refresh_ready<'a>(
        &'a self,
        mut state: MutexGuard<'a, PortState>,
    ) -> Result<MutexGuard<'a, PortState>, Status> {
        state.packets_since_look = 0;
        let sources = state.watched.as_ref().map_or_else(Vec::new, Watched::ready);
        if sources.is_empty() {
            return Ok(state);
        }
        // Queues packets, so it does not run under this lock.
        drop(state);
        sources.iter().for_each(|source| source.refresh());
        self.lock()
    }

    /// Removes the packets of `handle` with `key`; returns whether there were any.
    pub(super) fn remove_packets(&self, handle: Koid, key: u64) -> Result<bool, Status> {
        let mut state = self.lock()?;
        let before = state.entries.len();
        state.entries.retain(|entry| !(entry.handle == Some(handle) && entry.packet.key == key));
        Ok(state.entries.len() != before)
    }

    /// Wakes all threads that sleep here, so that they check their rights again.
    pub(super) fn wake_all(&self) {
        if let Ok(state) = self.lock() {
            self.recheck_all(state);
        }
    }

    /// Returns the number of open handles.
    pub(super) fn handles(&self) -> u32 {
        self.handles.load(Ordering::Relaxed)
    }

    /// Counts one more handle, unless the port is closed.
    pub(super) fn open_again(&self) -> Result<(), Status> {
        let one_more = |handles| (handles > 0).then_some(handles + 1);
        let counted = self.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map(drop).map_err(|_| Status::BadHandle)
    }

    /// Counts one handle less; the last one closes the port.
    pub(super) fn close(&self) {
        if self.handles.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        if let Ok(mut state) = self.lock() {
            state.entries.clear();
            // Wakes threads that wait through a handle that was succeeded.
            self.recheck_all(state);
        }
    }

    /// Whether it belongs to the process that forked this one.
    pub(super) fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }

    fn lock(&self) -> Result<MutexGuard<'_, PortState>, Status> {
        if self.is_inherited() { Err(Status::BadState) } else { Ok(lock(&self.state)) }
    }

    fn push(&self, mut state: MutexGuard<'_, PortState>, entry: Entry) {
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

    /// Wakes all threads that sleep here.
    fn recheck_all(&self, mut state: MutexGuard<'_, PortState>) {
        state.pollers.drain(..).for_each(|poller| poller.recheck());
        drop(state);
        self.filled.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.handles() == 0
    }
}

/// A wait of one object that queues one packet at a port.
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

    /// Has the port poll for the object too: `add` adds the object's descriptor to its epoll set,
    /// edge-triggered.
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
        self.queue.recheck_all(state);
        Ok(())
    }

    pub(super) fn queue(&self) -> &Arc<PortQueue> {
        &self.queue
    }

    /// Whether the port is closed.
    pub(super) fn is_dead(&self) -> bool {
        self.queue.is_closed()
    }

    pub(super) fn is(&self, port: &Arc<PortQueue>, key: u64) -> bool {
        self.key == key && Arc::ptr_eq(&self.queue, port)
    }
}
