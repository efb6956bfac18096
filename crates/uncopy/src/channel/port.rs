//! Ports: one queue of packets for the signals of many objects.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;
use std::time::Duration;

use super::Status;
use super::handle::{Bell, Clapper, Kind, Koid, Object, Source};
use super::peer::Refresh;
use super::rights::{Grant, Rights};
use super::signals::Signals;
use super::sync::atomic::{AtomicU32, Ordering};
use super::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, lock};
use super::wait::{Deadline, Waiter, with_waiter};
use crate::sys::clock;
use crate::sys::epoll;
use crate::sys::fork::Generation;
use crate::sys::seqpacket::Ready;

/// Packets that a port hands out without a look at the sockets of its objects.
const MOST_UNLOOKED: u32 = 15;

/// User packets that a port keeps before it answers [`Status::ShouldWait`].
const MAX_USER_PACKETS: usize = 16_384;

bitflags::bitflags! {
    /// How [`wait_async`](Object::wait_async) waits, with Zircon's bits.
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
pub struct Packet {
    /// As given to [`wait_async`](Object::wait_async) or [`Port::queue`].
    pub key: u64,
    /// As given to [`Port::queue_status`]; else 0.
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
    unlooked: u32,
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
    fn lock(&self) -> Result<MutexGuard<'_, State>, Status> {
        if self.generation == Generation::current() {
            Ok(lock(&self.state))
        } else {
            Err(Status::BadState)
        }
    }

    fn push(&self, mut state: MutexGuard<'_, State>, entry: Entry) {
        state.entries.push_back(entry);
        let sleeps = state.sleepers > 0;
        let poller = if sleeps { None } else { state.pollers.pop() };
        drop(state);
        if sleeps {
            self.filled.notify_one();
        } else if let Some(poller) = poller {
            poller.look();
        }
    }

    /// Has all who sleep here look again.
    fn look(&self, mut state: MutexGuard<'_, State>) {
        state.pollers.drain(..).for_each(|poller| poller.look());
        drop(state);
        self.filled.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.handles.load(Ordering::Relaxed) == 0
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
    pub(super) fn new(port: &Port, key: u64, options: AsyncOptions) -> Result<Binding, Status> {
        if options.contains(AsyncOptions::TIMESTAMP | AsyncOptions::BOOT_TIMESTAMP) {
            return Err(Status::InvalidArgs);
        }
        port.grant.check(Rights::WRITE)?;
        Ok(Binding { queue: port.queue.clone(), key, options })
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

/// A queue of packets, first in, first out, for several threads to wait at.
pub struct Port {
    queue: Arc<PortQueue>,
    grant: Grant,
}

impl Default for Port {
    fn default() -> Port {
        Port::new()
    }
}

impl Port {
    /// A new one.
    #[must_use]
    pub fn new() -> Port {
        let queue = PortQueue {
            generation: Generation::current(),
            koid: Koid::next(),
            handles: AtomicU32::new(1),
            state: Mutex::default(),
            filled: Condvar::new(),
        };
        Port { queue: Arc::new(queue), grant: Grant::new(Rights::PORT) }
    }

    /// Queues a packet of the program's own.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::ShouldWait`] while 16,384
    /// such packets are queued.
    pub fn queue(&self, key: u64, contents: [u8; 32]) -> Result<(), Status> {
        self.queue_status(key, 0, contents)
    }

    /// As [`queue`](Self::queue), with a number of the program's choice as status.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_status(&self, key: u64, status: i32, contents: [u8; 32]) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        let queue = &self.queue;
        let mut state = queue.lock()?;
        if state.user_packets >= MAX_USER_PACKETS {
            return Err(Status::ShouldWait);
        }
        state.user_packets += 1;
        let packet = Packet { key, status, contents: PacketContents::User(contents) };
        queue.push(state, Entry { packet, handle: None });
        Ok(())
    }

    /// Takes the oldest packet, waiting for one.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::TimedOut`];
    /// [`Status::Canceled`] if this handle is revoked, or the one that succeeded it is closed as the
    /// last, meanwhile.
    pub fn wait(&self, deadline: Deadline) -> Result<Packet, Status> {
        self.grant.check(Rights::READ)?;
        let queue = &self.queue;
        let mut state = queue.lock()?;
        let mut has_looked = false;
        loop {
            if state.unlooked >= MOST_UNLOOKED {
                // There may always be a packet, and some object not be heard for that.
                state = self.look(state)?;
            }
            if let Some(entry) = state.entries.pop_front() {
                state.unlooked += u32::from(state.watched.is_some());
                state.user_packets -= usize::from(entry.handle.is_none());
                return Ok(entry.packet);
            }
            if queue.is_closed() || self.grant.check(Rights::READ).is_err() {
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
                None => queue.filled.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    queue.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
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
        let queue = &self.queue;
        let Some(watched) = &state.watched else { return Ok(state) };
        let ready = Ready { read: true, ..Ready::default() };
        let bell = Bell { clapper: Clapper::Epoll(watched.set.clone()), ready };
        let state = with_waiter(|waiter| {
            state.pollers.push(waiter.clone());
            drop(state);
            let slept = waiter.poll(&[bell], deadline);
            let mut state = queue.lock()?;
            state.pollers.retain(|poller| !Arc::ptr_eq(poller, waiter));
            slept.map(|_| state)
        })?;
        self.look(state)
    }

    /// Looks after the sockets that have something.
    fn look<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, Status> {
        state.unlooked = 0;
        let sources = state.watched.as_ref().map_or_else(Vec::new, Watched::ready);
        if sources.is_empty() {
            return Ok(state);
        }
        // Packets come of it, so not under this lock.
        drop(state);
        sources.iter().for_each(|source| source.refresh());
        self.queue.lock()
    }

    /// Takes back what [`wait_async`](Object::wait_async) bound with `source` and `key`: what
    /// still waits and what is queued.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::NotFound`] if there is
    /// neither.
    pub fn cancel(&self, source: &dyn Object, key: u64) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        let queue = &self.queue;
        let id = source.grant().id();
        let mut found = false;
        source.observers(&mut |_, observers| found |= observers.unbind(queue, id, key));
        let mut state = queue.lock()?;
        let before = state.entries.len();
        state.entries.retain(|entry| !(entry.handle == Some(id) && entry.packet.key == key));
        if found || state.entries.len() != before { Ok(()) } else { Err(Status::NotFound) }
    }
}

impl Source for Port {
    #[inline]
    fn grant(&self) -> &Grant {
        &self.grant
    }

    fn grant_mut(&mut self) -> &mut Grant {
        &mut self.grant
    }

    fn object_kind(&self) -> Kind {
        Kind::Port
    }

    fn koids(&self) -> (Koid, Option<Koid>) {
        (self.queue.koid, None)
    }

    fn cancel_calls(&self) {
        if let Ok(state) = self.queue.lock() {
            self.queue.look(state);
        }
    }

    fn handle_count(&self) -> usize {
        self.queue.handles.load(Ordering::Relaxed) as usize
    }

    fn reissue(&self, grant: Grant) -> Result<Port, Status> {
        let one_more = |handles| (handles > 0).then_some(handles + 1);
        let counted =
            self.queue.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map_err(|_| Status::BadHandle)?;
        self.succeeded_by(grant)
    }

    fn succeeded_by(&self, grant: Grant) -> Result<Port, Status> {
        Ok(Port { queue: self.queue.clone(), grant })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let queue = &self.queue;
        if queue.generation != Generation::current() {
            // In a forked child: what another thread was changing must not be torn down.
            std::mem::forget(queue.clone());
            return;
        }
        if self.grant.is_succeeded() || queue.handles.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        if let Ok(mut state) = queue.lock() {
            state.entries.clear();
            // Those that wait by a handle that was succeeded.
            queue.look(state);
        }
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("koid", &self.koid()).finish_non_exhaustive()
    }
}
