//! Orphans: rings that were dropped while the kernel still had some of their memory.
//!
//! Only the thread that made a ring can take in its completions (`IORING_SETUP_SINGLE_ISSUER`). So each
//! thread keeps its own orphans, checks them whenever it makes or drops a ring or submits to one, and waits
//! for the rest when it ends. Streams end at once, or when the sends that are being made have their results.
//! After the deadline the thread of [`parking`] aborts the connections.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::SendRing;
use crate::room::StableBytes;
use crate::room::inet::InetSocket;
use crate::room::zerocopy::parking;

thread_local! {
    static ORPHANS: RefCell<Vec<Orphan>> = const { RefCell::new(Vec::new()) };
    /// Number of orphans, checked with every call.
    static ORPHAN_COUNT: Cell<usize> = const { Cell::new(0) };
}

/// A ring whose owner was dropped.
struct Orphan {
    ring: Box<dyn OrphanRing>,
    /// Time to abort its connections. `None`: never.
    deadline: Option<Instant>,
    is_over: Arc<AtomicBool>,
    streams: Vec<OrphanStream>,
}

/// A stream of an orphan.
struct OrphanStream {
    socket: Arc<InetSocket>,
    /// Whether a send over it has no result yet.
    is_under_way: Arc<AtomicBool>,
}

trait OrphanRing {
    /// Takes in completions; returns whether the kernel has ended everything.
    fn take_in(&mut self) -> bool;
    /// Returns whether a send over this stream has no result yet.
    fn is_under_way(&self, socket: &Arc<InetSocket>) -> bool;
    /// Limits how long the ring waits when it is dropped.
    fn limit_wait(&mut self, left: Duration);
}

impl<B: StableBytes, C: 'static> OrphanRing for SendRing<B, C> {
    fn take_in(&mut self) -> bool {
        if self.is_inherited() {
            // A child cannot take in completions.
            return true;
        }
        // After a failure, outstanding operations stay outstanding.
        let _ = self.submit(0, None).and_then(|()| self.reap(&mut super::DiscardSink).map(drop));
        self.table.end_streams();
        self.table.is_settled()
    }

    fn is_under_way(&self, socket: &Arc<InetSocket>) -> bool {
        self.table.is_under_way(socket)
    }

    fn limit_wait(&mut self, left: Duration) {
        self.linger = left;
    }
}

impl Orphan {
    fn take_in(&mut self) -> bool {
        let is_over = self.ring.take_in();
        for OrphanStream { socket, is_under_way } in &self.streams {
            is_under_way.store(self.ring.is_under_way(socket), Ordering::Release);
        }
        is_over
    }
}

/// A socket of an orphan, for the parking thread.
struct OrphanSocket {
    socket: Arc<InetSocket>,
    is_over: Arc<AtomicBool>,
    is_under_way: Arc<AtomicBool>,
}

impl parking::ParkedSocket for OrphanSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    fn is_stream(&self) -> bool {
        parking::ParkedSocket::is_stream(&self.socket)
    }

    /// Resets a stream whose rest is missing, so that the peer does not read a normal end.
    fn abort(&self) {
        match self.is_under_way.load(Ordering::Acquire) {
            true => InetSocket::abort(&self.socket),
            false => InetSocket::abort_unacknowledged(&self.socket),
        }
    }
}

impl parking::Parkable for OrphanSocket {
    fn socket(&self) -> &dyn parking::ParkedSocket {
        self
    }

    /// Ignores other owners of a stream that is cut off: none of them can continue it.
    fn has_no_other_writer(&self) -> bool {
        self.is_under_way.load(Ordering::Acquire) || self.socket.has_no_writers()
    }

    fn drain(&mut self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn is_lost(&self) -> bool {
        false
    }
}

/// A ring that becomes an orphan when it is dropped while the kernel has some of its memory.
pub(crate) struct ParkOnDrop<B: StableBytes, C: 'static>(ManuallyDrop<Box<SendRing<B, C>>>);

impl<B: StableBytes, C> ParkOnDrop<B, C> {
    pub(crate) fn new(ring: SendRing<B, C>) -> ParkOnDrop<B, C> {
        sweep();
        ParkOnDrop(ManuallyDrop::new(Box::new(ring)))
    }
}

impl<B: StableBytes, C> Deref for ParkOnDrop<B, C> {
    type Target = SendRing<B, C>;

    #[inline]
    fn deref(&self) -> &SendRing<B, C> {
        &self.0
    }
}

impl<B: StableBytes, C> DerefMut for ParkOnDrop<B, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut SendRing<B, C> {
        &mut self.0
    }
}

impl<B: StableBytes, C> Drop for ParkOnDrop<B, C> {
    fn drop(&mut self) {
        // SAFETY: this is the drop of the owner, after which the field is not used again.
        let mut ring = unsafe { ManuallyDrop::take(&mut self.0) };
        if ring.is_inherited() {
            return;
        }
        // Sends that were not submitted are never made.
        ring.table.give_up_waiting();
        sweep();
        if ring.take_in() {
            return;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let mut streams = Vec::new();
        for socket in ring.table.sockets_in_kernel() {
            let is_under_way = Arc::new(AtomicBool::new(ring.table.is_under_way(&socket)));
            streams
                .push(OrphanStream { socket: socket.clone(), is_under_way: is_under_way.clone() });
            let orphan = OrphanSocket { socket, is_over: is_over.clone(), is_under_way };
            parking::park(Box::new(orphan), ring.linger);
        }
        let deadline = Instant::now().checked_add(ring.linger);
        add_orphan(Orphan { ring, deadline, is_over, streams });
    }
}

/// Leaves a ring to its thread.
fn add_orphan(left: Orphan) {
    let mut left = Some(left);
    // When the thread ends, its list of orphans is gone: the drop of the ring waits.
    let parked = ORPHANS.try_with(|orphans| orphans.borrow_mut().extend(left.take()));
    if parked.is_ok() {
        ORPHAN_COUNT.set(ORPHAN_COUNT.get() + 1);
    }
}

/// Checks all orphans of this thread.
#[inline]
pub(crate) fn sweep() {
    if ORPHAN_COUNT.get() > 0 {
        sweep_all();
    }
}

#[cold]
fn sweep_all() {
    // Takes the list out, because dropping buffers runs foreign code that may use rings.
    let mut all = ORPHANS.try_with(RefCell::take).unwrap_or_default();
    ORPHAN_COUNT.set(0);
    all.retain_mut(|orphan| !orphan.take_in());
    let kept = ORPHANS.try_with(|orphans| {
        let mut orphans = orphans.borrow_mut();
        orphans.append(&mut all);
        orphans.len()
    });
    ORPHAN_COUNT.set(kept.unwrap_or(0));
}

impl Drop for Orphan {
    /// Drops the ring when nothing is outstanding or the thread ends.
    fn drop(&mut self) {
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        self.ring.limit_wait(left.unwrap_or(Duration::MAX));
        self.is_over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[derive(Debug, Clone, Copy)]
    enum ModelStep {
        /// Drops a ring with `owed` outstanding notifications. `linger`: `None` for no limit. `is_nested`:
        /// freeing its memory uses rings and drops another.
        Park {
            owed: u32,
            linger: Option<Duration>,
            is_nested: bool,
        },
        /// Posts a notification.
        Release {
            of: usize,
        },
        Sweep,
    }

    fn step() -> impl Strategy<Value = ModelStep> {
        let linger = prop_oneof![Just(None), Just(Some(Duration::ZERO)), Just(Some(HOUR))];
        prop_oneof![
            2 => (1..4u32, linger, prop::bool::weighted(0.2))
                .prop_map(|(owed, linger, is_nested)| ModelStep::Park { owed, linger, is_nested }),
            5 => (0..9usize).prop_map(|of| ModelStep::Release { of }),
            2 => Just(ModelStep::Sweep),
        ]
    }

    /// A dropped ring as the test knows it.
    struct KnownRing {
        owed: u32,
        linger: Option<Duration>,
        is_over: Arc<AtomicBool>,
        waits: Option<Duration>,
        ends: u32,
    }

    #[derive(Default)]
    struct World {
        rings: Vec<KnownRing>,
        is_ending: bool,
        violations: Vec<String>,
    }

    type Shared = Arc<Mutex<World>>;

    fn lock(world: &Shared) -> MutexGuard<'_, World> {
        world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stub of a ring.
    struct Simulated {
        key: usize,
        world: Shared,
        is_nested: bool,
    }

    impl OrphanRing for Simulated {
        fn take_in(&mut self) -> bool {
            let is_free = lock(&self.world).rings[self.key].owed == 0;
            if is_free && std::mem::take(&mut self.is_nested) {
                sweep();
                park(&self.world, 1, None, false);
            }
            is_free
        }

        fn is_under_way(&self, _: &Arc<InetSocket>) -> bool {
            unreachable!("it has no streams")
        }

        fn limit_wait(&mut self, left: Duration) {
            lock(&self.world).rings[self.key].waits = Some(left);
        }
    }

    impl Drop for Simulated {
        fn drop(&mut self) {
            let mut world = lock(&self.world);
            let is_ending = world.is_ending;
            let ring = &mut world.rings[self.key];
            ring.ends += 1;
            let in_time = match (ring.linger, ring.waits) {
                (None, waits) => waits == Some(Duration::MAX),
                (Some(linger), Some(waits)) => waits <= linger,
                (Some(_), None) => false,
            };
            let is_right = ring.ends == 1
                && (ring.owed == 0 || is_ending)
                && in_time
                && ring.is_over.load(Ordering::Acquire);
            if !is_right {
                world.violations.push(format!("{} ends", self.key));
            }
            drop(world);
            if is_ending && std::mem::take(&mut self.is_nested) {
                sweep();
                park(&self.world, 1, None, false);
            }
        }
    }

    fn park(world: &Shared, owed: u32, linger: Option<Duration>, is_nested: bool) {
        let is_over = Arc::new(AtomicBool::new(false));
        let key = lock(world).rings.len();
        let known = KnownRing { owed, linger, is_over: is_over.clone(), waits: None, ends: 0 };
        lock(world).rings.push(known);
        let ring = Box::new(Simulated { key, world: world.clone(), is_nested });
        let deadline = linger.and_then(|linger| Instant::now().checked_add(linger));
        add_orphan(Orphan { ring, deadline, is_over, streams: Vec::new() });
    }

    fn run(world: &Shared, step: ModelStep) {
        let before = lock(world).rings.len();
        let is_sweep = matches!(step, ModelStep::Sweep);
        match step {
            ModelStep::Park { owed, linger, is_nested } => park(world, owed, linger, is_nested),
            ModelStep::Release { of } => {
                let rings = &mut lock(world).rings;
                let mut owing: Vec<_> = rings.iter_mut().filter(|ring| ring.owed > 0).collect();
                let place = of % owing.len().max(1);
                owing.get_mut(place).into_iter().for_each(|ring| ring.owed -= 1);
            }
            ModelStep::Sweep => sweep(),
        }
        let world = lock(world);
        assert_eq!(world.violations, Vec::<String>::new());
        let kept: Vec<_> = world.rings.iter().filter(|ring| ring.ends == 0).collect();
        assert_eq!(ORPHANS.with_borrow(Vec::len), kept.len());
        assert_eq!(ORPHAN_COUNT.get(), kept.len());
        assert!(kept.iter().all(|ring| !ring.is_over.load(Ordering::Acquire)));
        if is_sweep {
            let drained = world.rings[..before].iter().filter(|ring| ring.owed == 0);
            assert!(drained.into_iter().all(|ring| ring.ends == 1), "a drained ring is still kept");
        }
    }

    proptest! {
        #[test]
        fn an_orphan_is_kept_until_it_is_drained_or_its_thread_ends(
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let world = Shared::default();
            let ended = std::thread::scope(|threads| {
                threads.spawn(|| {
                    steps.into_iter().for_each(|step| run(&world, step));
                    lock(&world).is_ending = true;
                }).join()
            });
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
            let world = lock(&world);
            prop_assert_eq!(&world.violations, &Vec::<String>::new());
            prop_assert!(world.rings.iter().all(|ring| ring.ends == 1), "each ring is dropped once");
        }
    }
}
