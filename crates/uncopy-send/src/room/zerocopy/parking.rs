//! Parking: keeps sockets whose owner was dropped, together with the memory that the kernel still reads.
//!
//! One thread serves all of them; it is started with the first. A socket stays until the kernel has
//! reported everything; after its deadline a TCP connection is aborted, so that the kernel drops the bytes
//! that wait to be sent. Memory is never freed before the kernel reports it: sockets that cannot be served
//! (no thread, no descriptor) are leaked.
//!
//! A child of `fork(2)` does not have the threads of its parent, and the sockets parked there belong to the
//! parent. The parent's lock may be held by a thread that the child does not have. So a child gets a parking
//! lot of its own.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::room::inet::{InetSocket, Transport};
use uncopy_os::epoll::{self, Interest};
use uncopy_os::fork::Generation;
use uncopy_os::{Sys, eventfd};

/// The socket of a parked item.
pub(crate) trait ParkedSocket {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Returns whether there is a connection to abort.
    fn is_stream(&self) -> bool;
    fn abort(&self);
}

impl ParkedSocket for Arc<InetSocket> {
    fn fd(&self) -> BorrowedFd<'_> {
        InetSocket::fd(self)
    }

    fn is_stream(&self) -> bool {
        self.transport() == Transport::Tcp
    }

    fn abort(&self) {
        self.abort_unacknowledged();
    }
}

/// A socket and the memory that must be kept for it.
pub(crate) trait Parkable: Send {
    fn socket(&self) -> &dyn ParkedSocket;
    /// Returns whether no one else sends on the socket.
    fn has_no_other_writer(&self) -> bool;
    /// Reads the error queue and frees the memory that was reported; returns whether nothing is
    /// outstanding.
    fn drain(&mut self) -> bool;
    /// Returns whether it can never be known which memory is free.
    fn is_lost(&self) -> bool;
}

pub(super) struct Parked {
    parkable: Box<dyn Parkable>,
    /// Time to abort the connection. `None`: already aborted, or never.
    deadline: Option<Instant>,
}

impl Parked {
    /// Makes one whose connection is aborted `linger` after `now`. `None`: the item is lost, and leaked.
    pub(super) fn new(
        parkable: Box<dyn Parkable>,
        linger: Duration,
        now: Instant,
    ) -> Option<Parked> {
        if parkable.is_lost() {
            std::mem::forget(parkable);
            return None;
        }
        Some(Parked { parkable, deadline: now.checked_add(linger) })
    }
}

/// Interval between two checks of all sockets, in case an event was missed.
pub(super) const ROUND: Duration = Duration::from_millis(500);

/// Event key of new items.
const ARRIVAL: u64 = 0;
/// Event key of all sockets: an entry is in an error queue, and all sockets are checked.
const REPORT: u64 = 1;

/// The parking lot of the last process that parked something: this one or an ancestor. Null at first. No
/// lot is ever freed.
static LAST_PROCESS: AtomicPtr<ProcessLot> = AtomicPtr::new(std::ptr::null_mut());

/// The parking lot of one process.
struct ProcessLot {
    generation: Generation,
    count: AtomicUsize,
    lot: Mutex<Option<ParkingLot>>,
}

struct ParkingLot {
    set: OwnedFd,
    arrival: OwnedFd,
    arrived: Vec<Parked>,
}

/// Returns the parking lot of this process.
fn current_process() -> &'static ProcessLot {
    of_generation(&LAST_PROCESS, Generation::current())
}

fn of_generation(last: &AtomicPtr<ProcessLot>, generation: Generation) -> &'static ProcessLot {
    let mut known = last.load(Ordering::Acquire);
    loop {
        // SAFETY: `known` is null, or from the box below, which is never freed once it is stored in `last`.
        if let Some(process) = unsafe { known.as_ref() }
            && process.generation == generation
        {
            return process;
        }
        let (count, lot) = Default::default();
        let fresh = Box::into_raw(Box::new(ProcessLot { generation, count, lot }));
        match last.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => known = fresh,
            Err(other) => {
                // SAFETY: `fresh` is from the box above; the exchange failed, so no one else has it.
                drop(unsafe { Box::from_raw(fresh) });
                known = other;
            }
        }
    }
}

impl ProcessLot {
    fn lock(&self) -> MutexGuard<'_, Option<ParkingLot>> {
        self.lot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of parked sockets, including those that are kept for ever.
pub(crate) fn parked() -> usize {
    current_process().count.load(Ordering::Relaxed)
}

/// Counts memory that is leaked, because it cannot be known when it is free.
pub(crate) fn leaked() {
    current_process().count.fetch_add(1, Ordering::Relaxed);
}

/// Keeps an item until nothing of it is outstanding. Its connection is aborted after `linger`.
pub(crate) fn park(parkable: Box<dyn Parkable>, linger: Duration) {
    let process = current_process();
    process.count.fetch_add(1, Ordering::Relaxed);
    let Some(parked) = Parked::new(parkable, linger, Instant::now()) else { return };
    let mut lot = process.lock();
    let opened = match &mut *lot {
        Some(lot) => Ok(lot),
        None => open(process).map(|opened| lot.insert(opened)),
    };
    match opened {
        Ok(lot) => {
            lot.arrived.push(parked);
            let _ = eventfd::raise(&lot.arrival);
        }
        Err(_) => std::mem::forget(parked),
    }
}

fn open(process: &'static ProcessLot) -> Sys<ParkingLot> {
    let (set, arrival) = (epoll::create()?, eventfd::create()?);
    epoll::add(&set, &arrival, ARRIVAL, Interest { read: true, ..Interest::default() })?;
    let thread = std::thread::Builder::new().name("uncopy-parking".to_owned());
    thread.spawn(|| serve(process)).map_err(|_| uncopy_core::Errno::EAGAIN)?;
    Ok(ParkingLot { set, arrival, arrived: Vec::new() })
}

/// Returns the new items, and a handle of the epoll set that the thread sleeps on.
fn take_arrived(process: &ProcessLot) -> Option<(Vec<Parked>, OwnedFd)> {
    let mut lot = process.lock();
    let lot = lot.as_mut()?;
    let _ = eventfd::lower(&lot.arrival);
    let set = lot.set.try_clone().ok()?;
    Some((std::mem::take(&mut lot.arrived), set))
}

fn serve(process: &ProcessLot) {
    let mut parked: Vec<Parked> = Vec::new();
    loop {
        let Some((arrived, set)) = take_arrived(process) else {
            // No descriptor is available: checks without waiting for events.
            free_parked(process, &mut parked);
            std::thread::sleep(ROUND);
            continue;
        };
        for new in &arrived {
            // A socket that cannot be added is checked in every round.
            let edge = Interest { edge: true, ..Interest::default() };
            let _ = epoll::add(&set, new.parkable.socket().fd(), REPORT, edge);
        }
        parked.extend(arrived);
        free_parked(process, &mut parked);
        let _ = epoll::wait(&set, next_timeout(&parked, Instant::now()));
    }
}

fn free_parked(process: &ProcessLot, parked: &mut Vec<Parked>) {
    process.count.fetch_sub(sweep(parked, Instant::now()), Ordering::Relaxed);
}

/// Returns the time until the next deadline or round. `None`: nothing is parked.
pub(super) fn next_timeout(parked: &[Parked], now: Instant) -> Option<Duration> {
    let next = parked.iter().filter_map(|parked| parked.deadline).min();
    let left = next.map(|at| at.saturating_duration_since(now));
    (!parked.is_empty()).then(|| left.map_or(ROUND, |left| left.min(ROUND)))
}

/// Drops items with nothing outstanding, and aborts connections whose deadline is over. Returns the number
/// of dropped items.
pub(super) fn sweep(parked: &mut Vec<Parked>, now: Instant) -> usize {
    let mut gone = 0;
    let mut kept = Vec::new();
    for mut one in parked.drain(..) {
        if one.deadline.is_some_and(|deadline| deadline <= now) {
            one.deadline = None;
            let socket = one.parkable.socket();
            if socket.is_stream() && one.parkable.has_no_other_writer() {
                socket.abort();
            }
        }
        // `drain` drops buffers, whose types are not ours and may panic.
        let drained = catch_unwind(AssertUnwindSafe(|| one.parkable.drain()));
        match drained {
            Ok(true) => {
                let _ = catch_unwind(AssertUnwindSafe(move || drop(one)));
                gone += 1;
            }
            Ok(false) if !one.parkable.is_lost() => kept.push(one),
            // After a panic or with lost reports it is unknown which memory is still read: leak it.
            Ok(false) | Err(_) => std::mem::forget(one),
        }
    }
    *parked = kept;
    gone
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use testbed::in_a_child;

    use super::*;

    /// An item that fails the test when it is used, and whose drops are counted.
    struct Inherited(OwnedFd, #[expect(dead_code, reason = "counts how many there are")] Arc<()>);

    impl ParkedSocket for Inherited {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn is_stream(&self) -> bool {
            true
        }

        fn abort(&self) {
            unreachable!("the connection belongs to the parent");
        }
    }

    impl Parkable for Inherited {
        fn socket(&self) -> &dyn ParkedSocket {
            self
        }

        fn has_no_other_writer(&self) -> bool {
            true
        }

        fn drain(&mut self) -> bool {
            unreachable!("the queue belongs to the parent");
        }

        fn is_lost(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_child_has_its_own_parking_lot_and_leaves_its_parents_alone() {
        let alive = Arc::new(());
        let last: &'static AtomicPtr<ProcessLot> = Box::leak(Box::default());
        let here = of_generation(last, Generation::current());
        assert!(std::ptr::eq(here, of_generation(last, Generation::current())));
        let (set, arrival) = (epoll::create().unwrap(), eventfd::create().unwrap());
        let parkable = Inherited(eventfd::create().unwrap(), alive.clone());
        let parked = Parked::new(Box::new(parkable), ROUND, Instant::now()).unwrap();
        // Simulates another thread that is parking the item.
        let mut held = here.lock();
        *held = Some(ParkingLot { set, arrival, arrived: vec![parked] });
        here.count.store(1, Ordering::Relaxed);
        assert!(in_a_child(|| {
            let own = of_generation(last, Generation::current());
            let is_empty = own.lock().is_none() && own.count.load(Ordering::Relaxed) == 0;
            is_empty && Arc::strong_count(&alive) == 2
        }));
        drop(held);
        // Leaks the lot: dropping it would use the stubs above.
        std::mem::forget(here.lock().take());
    }
}
