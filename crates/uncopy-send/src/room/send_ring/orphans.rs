//! Where rings wait that were dropped while the kernel still had some of their memory.
//!
//! Only the thread that made a ring can take in what the kernel has ended
//! (`IORING_SETUP_SINGLE_ISSUER`). So each thread keeps its own, looks at them whenever it makes or
//! drops a ring or submits to one, and waits for the rest at its end. Streams end at once, or when
//! what the kernel is in the middle of is over. Connections are aborted in time by the thread of the
//! [`parking`] lot.

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
    /// As many as above: looked at with every call.
    static ORPHAN_COUNT: Cell<usize> = const { Cell::new(0) };
}

/// A ring that nobody has any more.
struct Orphan {
    ring: Box<dyn OrphanRing>,
    /// When its connections are aborted. `None`: never.
    deadline: Option<Instant>,
    is_over: Arc<AtomicBool>,
    /// Its streams, and whether a send over each has no result yet.
    streams: Vec<(Arc<InetSocket>, Arc<AtomicBool>)>,
}

trait OrphanRing {
    /// Takes in what the kernel has ended; says whether that was all.
    fn look(&mut self) -> bool;
    /// A send over this stream has no result yet.
    fn is_under_way(&self, socket: &Arc<InetSocket>) -> bool;
    /// The ring waits no longer than this when it ends.
    fn limit_wait(&mut self, left: Duration);
}

impl<B: StableBytes, C: 'static> OrphanRing for SendRing<B, C> {
    fn look(&mut self) -> bool {
        if self.is_inherited() {
            // There is nothing that a child could take in.
            return true;
        }
        // A failure leaves what is outstanding outstanding.
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
    fn look(&mut self) -> bool {
        let is_over = self.ring.look();
        for (socket, is_under_way) in &self.streams {
            is_under_way.store(self.ring.is_under_way(socket), Ordering::Release);
        }
        is_over
    }
}

/// A socket of such a ring.
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

    /// The peer reads a reset, and no end, of a stream of which the rest is missing.
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

    /// A stream that was cut off is nobody's any more.
    fn is_alone(&self) -> bool {
        self.is_under_way.load(Ordering::Acquire) || self.socket.is_left()
    }

    fn drain(&mut self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn is_lost(&self) -> bool {
        false
    }
}

/// A ring that is parked when it is dropped.
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
        // SAFETY: this is the drop, after which nobody looks at the field again.
        let mut ring = unsafe { ManuallyDrop::take(&mut self.0) };
        if ring.is_inherited() {
            return;
        }
        // What was not submitted never is.
        ring.table.forget_waiting();
        sweep();
        if ring.look() {
            return;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let mut streams = Vec::new();
        for socket in ring.table.sockets_in_kernel() {
            let is_under_way = Arc::new(AtomicBool::new(ring.table.is_under_way(&socket)));
            streams.push((socket.clone(), is_under_way.clone()));
            let abandoned = OrphanSocket { socket, is_over: is_over.clone(), is_under_way };
            parking::park(Box::new(abandoned), ring.linger);
        }
        let deadline = Instant::now().checked_add(ring.linger);
        add_orphan(Orphan { ring, deadline, is_over, streams });
    }
}

/// Leaves a ring to its thread.
fn add_orphan(left: Orphan) {
    let mut left = Some(left);
    // At the end of a thread there is no lot any more: the ring waits by itself then.
    let parked = ORPHANS.try_with(|orphans| orphans.borrow_mut().extend(left.take()));
    if parked.is_ok() {
        ORPHAN_COUNT.set(ORPHAN_COUNT.get() + 1);
    }
}

/// Looks at all rings that this thread has dropped.
#[inline]
pub(crate) fn sweep() {
    if ORPHAN_COUNT.get() > 0 {
        sweep_all();
    }
}

#[cold]
fn sweep_all() {
    // Buffers are dropped here, by code that may use rings itself.
    let mut all = ORPHANS.try_with(RefCell::take).unwrap_or_default();
    ORPHAN_COUNT.set(0);
    all.retain_mut(|left| !left.look());
    let kept = ORPHANS.try_with(|orphans| {
        let mut orphans = orphans.borrow_mut();
        orphans.append(&mut all);
        orphans.len()
    });
    ORPHAN_COUNT.set(kept.unwrap_or(0));
}

impl Drop for Orphan {
    /// Nothing is outstanding, or the thread ends.
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
        /// A ring is dropped that the kernel owes so many notifications. Its time is over, is not,
        /// or never is (`None`). `is_nested`: freeing its memory uses rings and drops another.
        Park {
            owed: u32,
            linger: Option<Duration>,
            is_nested: bool,
        },
        /// The kernel posts a notification.
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

    /// What is known of a ring that was dropped.
    struct Known {
        owed: u32,
        linger: Option<Duration>,
        is_over: Arc<AtomicBool>,
        waits: Option<Duration>,
        ends: u32,
    }

    #[derive(Default)]
    struct World {
        rings: Vec<Known>,
        is_ending: bool,
        wrongs: Vec<String>,
    }

    type Shared = Arc<Mutex<World>>;

    fn look(world: &Shared) -> MutexGuard<'_, World> {
        world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ring as the lot sees it.
    struct Simulated {
        key: usize,
        world: Shared,
        is_nested: bool,
    }

    impl OrphanRing for Simulated {
        fn look(&mut self) -> bool {
            let is_free = look(&self.world).rings[self.key].owed == 0;
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
            look(&self.world).rings[self.key].waits = Some(left);
        }
    }

    impl Drop for Simulated {
        fn drop(&mut self) {
            let mut world = look(&self.world);
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
                world.wrongs.push(format!("{} ends", self.key));
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
        let key = look(world).rings.len();
        let known = Known { owed, linger, is_over: is_over.clone(), waits: None, ends: 0 };
        look(world).rings.push(known);
        let ring = Box::new(Simulated { key, world: world.clone(), is_nested });
        let deadline = linger.and_then(|linger| Instant::now().checked_add(linger));
        add_orphan(Orphan { ring, deadline, is_over, streams: Vec::new() });
    }

    fn run(world: &Shared, step: ModelStep) {
        let before = look(world).rings.len();
        let is_sweep = matches!(step, ModelStep::Sweep);
        match step {
            ModelStep::Park { owed, linger, is_nested } => park(world, owed, linger, is_nested),
            ModelStep::Release { of } => {
                let rings = &mut look(world).rings;
                let mut owing: Vec<_> = rings.iter_mut().filter(|ring| ring.owed > 0).collect();
                let place = of % owing.len().max(1);
                owing.get_mut(place).into_iter().for_each(|ring| ring.owed -= 1);
            }
            ModelStep::Sweep => sweep(),
        }
        let world = look(world);
        assert_eq!(world.wrongs, Vec::<String>::new());
        let kept: Vec<_> = world.rings.iter().filter(|ring| ring.ends == 0).collect();
        assert_eq!(ORPHANS.with_borrow(Vec::len), kept.len());
        assert_eq!(ORPHAN_COUNT.get(), kept.len());
        assert!(kept.iter().all(|ring| !ring.is_over.load(Ordering::Acquire)));
        if is_sweep {
            let drained = world.rings[..before].iter().filter(|ring| ring.owed == 0);
            assert!(drained.into_iter().all(|ring| ring.ends == 1), "drained, and stays");
        }
    }

    proptest! {
        #[test]
        fn a_ring_stays_until_it_is_drained_or_its_thread_ends(
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let world = Shared::default();
            let ended = std::thread::scope(|threads| {
                threads.spawn(|| {
                    steps.into_iter().for_each(|step| run(&world, step));
                    look(&world).is_ending = true;
                }).join()
            });
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
            let world = look(&world);
            prop_assert_eq!(&world.wrongs, &Vec::<String>::new());
            prop_assert!(world.rings.iter().all(|ring| ring.ends == 1), "each ends, once");
        }
    }
}
