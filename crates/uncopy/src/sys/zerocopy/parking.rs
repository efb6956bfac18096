//! Where sockets wait whose owner is gone, together with the memory that the kernel still reads.
//!
//! One thread serves them all; it is started with the first. A socket stays until the kernel has
//! reported everything; after its time is over a TCP connection is aborted, so that the kernel drops
//! what waits to be sent. Nothing is ever freed before the kernel says so: what cannot be served
//! (no thread, no descriptor) is leaked.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::epoll::{self, Interest};
use crate::sys::inet::{Socket, Transport};
use crate::sys::{Sys, eventfd};

/// A socket that somebody sent on.
pub(crate) trait Line {
    fn fd(&self) -> BorrowedFd<'_>;
    /// There is a connection to abort.
    fn is_stream(&self) -> bool;
    fn abort(&self);
}

impl Line for Arc<Socket> {
    fn fd(&self) -> BorrowedFd<'_> {
        Socket::fd(self)
    }

    fn is_stream(&self) -> bool {
        self.transport() == Transport::Tcp
    }

    fn abort(&self) {
        Socket::abort(self);
    }
}

/// A socket, and what it must not lose.
pub(crate) trait Vehicle: Send {
    fn line(&self) -> &dyn Line;
    /// Nobody else sends on the socket.
    fn is_alone(&self) -> bool;
    /// Reads the error queue and frees what was reported; says whether nothing is outstanding.
    fn drain(&mut self) -> bool;
    /// It can never be told what is free.
    fn is_lost(&self) -> bool;
}

pub(super) struct Parked {
    vehicle: Box<dyn Vehicle>,
    /// When to abort the connection. `None`: done, or never.
    deadline: Option<Instant>,
}

impl Parked {
    /// Its connection is aborted `linger` after `now`. `None`: it is lost, and kept for ever.
    pub(super) fn new(vehicle: Box<dyn Vehicle>, linger: Duration, now: Instant) -> Option<Parked> {
        if vehicle.is_lost() {
            std::mem::forget(vehicle);
            return None;
        }
        Some(Parked { vehicle, deadline: now.checked_add(linger) })
    }
}

/// A sign that was missed costs at most this.
pub(super) const ROUND: Duration = Duration::from_millis(500);

/// The event that new ones have come, in the set.
const ARRIVAL: u64 = 0;
/// The event that a socket has something in its error queue: all are looked at then.
const REPORT: u64 = 1;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LOT: Mutex<Option<Lot>> = Mutex::new(None);

struct Lot {
    set: OwnedFd,
    arrival: OwnedFd,
    arrived: Vec<Parked>,
    process: u32,
}

/// Sockets that are parked, with those that will be for ever.
pub(crate) fn parked() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Counts memory that is kept for ever, because nobody can be told when it is free.
pub(crate) fn leaked() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Keeps the vehicle until nothing of it is outstanding. Its connection is aborted after `linger`.
pub(crate) fn park(vehicle: Box<dyn Vehicle>, linger: Duration) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let Some(parked) = Parked::new(vehicle, linger, Instant::now()) else { return };
    let mut lot = LOT.lock().unwrap_or_else(PoisonError::into_inner);
    match of_process(&mut lot, std::process::id(), open) {
        Ok(lot) => {
            lot.arrived.push(parked);
            let _ = eventfd::raise(&lot.arrival);
        }
        Err(_) => std::mem::forget(parked),
    }
}

/// The lot of this process, opened if it has none.
///
/// A child of `fork(2)` has no thread of its parent, and what arrived there is its parent's: to drop
/// it here would run the code of its owners a second time.
fn of_process(
    lot: &mut Option<Lot>,
    process: u32,
    open: impl FnOnce() -> Sys<Lot>,
) -> Sys<&mut Lot> {
    if let Some(inherited) = lot.take_if(|lot| lot.process != process) {
        std::mem::forget(inherited.arrived);
    }
    match lot {
        Some(lot) => Ok(lot),
        None => Ok(lot.insert(open()?)),
    }
}

fn open() -> Sys<Lot> {
    let (set, arrival) = (epoll::create()?, eventfd::create()?);
    epoll::add(&set, &arrival, ARRIVAL, Interest { read: true, ..Interest::default() })?;
    let thread = std::thread::Builder::new().name("uncopy-parking".to_owned());
    let process = std::process::id();
    thread.spawn(serve).map_err(|_| crate::error::Errno::EAGAIN)?;
    Ok(Lot { set, arrival, arrived: Vec::new(), process })
}

/// The set that the thread sleeps on, in its own handle, and the newly arrived.
fn look() -> Option<(Vec<Parked>, OwnedFd)> {
    let mut lot = LOT.lock().unwrap_or_else(PoisonError::into_inner);
    let lot = lot.as_mut()?;
    let _ = eventfd::lower(&lot.arrival);
    let set = lot.set.try_clone().ok()?;
    Some((std::mem::take(&mut lot.arrived), set))
}

fn serve() {
    let mut parked: Vec<Parked> = Vec::new();
    loop {
        let Some((arrived, set)) = look() else {
            // No descriptor to be had: without signs, then.
            free_parked(&mut parked);
            std::thread::sleep(ROUND);
            continue;
        };
        for new in &arrived {
            // One that cannot be added is looked at every round.
            let edge = Interest { edge: true, ..Interest::default() };
            let _ = epoll::add(&set, new.vehicle.line().fd(), REPORT, edge);
        }
        parked.extend(arrived);
        free_parked(&mut parked);
        let _ = epoll::wait(&set, next_timeout(&parked, Instant::now()));
    }
}

fn free_parked(parked: &mut Vec<Parked>) {
    COUNT.fetch_sub(sweep(parked, Instant::now()), Ordering::Relaxed);
}

/// Until the next deadline or round. `None`: nothing is parked.
pub(super) fn next_timeout(parked: &[Parked], now: Instant) -> Option<Duration> {
    let next = parked.iter().filter_map(|parked| parked.deadline).min();
    let left = next.map(|at| at.saturating_duration_since(now));
    (!parked.is_empty()).then(|| left.map_or(ROUND, |left| left.min(ROUND)))
}

/// Frees what is free, and aborts what has waited long enough. Says how many are gone for good.
pub(super) fn sweep(parked: &mut Vec<Parked>, now: Instant) -> usize {
    let mut gone = 0;
    let mut kept = Vec::new();
    for mut one in parked.drain(..) {
        if one.deadline.is_some_and(|deadline| deadline <= now) {
            one.deadline = None;
            let line = one.vehicle.line();
            if line.is_stream() && one.vehicle.is_alone() {
                line.abort();
            }
        }
        // Buffers are dropped in there, by code that is not ours.
        let drained = catch_unwind(AssertUnwindSafe(|| one.vehicle.drain()));
        match drained {
            Ok(true) => {
                let _ = catch_unwind(AssertUnwindSafe(move || drop(one)));
                gone += 1;
            }
            Ok(false) if !one.vehicle.is_lost() => kept.push(one),
            // What was reported is gone; the rest is not known any more.
            Ok(false) | Err(_) => std::mem::forget(one),
        }
    }
    *parked = kept;
    gone
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// Knows whether it was dropped or asked for anything.
    struct Inherited(OwnedFd, #[expect(dead_code, reason = "counts how many there are")] Arc<()>);

    impl Line for Inherited {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn is_stream(&self) -> bool {
            true
        }

        fn abort(&self) {
            unreachable!("the connection is the parent's");
        }
    }

    impl Vehicle for Inherited {
        fn line(&self) -> &dyn Line {
            self
        }

        fn is_alone(&self) -> bool {
            true
        }

        fn drain(&mut self) -> bool {
            unreachable!("the queue is the parent's");
        }

        fn is_lost(&self) -> bool {
            false
        }
    }

    fn lot(process: u32, arrived: Vec<Parked>) -> Lot {
        let (set, arrival) = (epoll::create().unwrap(), eventfd::create().unwrap());
        Lot { set, arrival, arrived, process }
    }

    #[test]
    fn a_child_leaves_what_its_parent_parked() {
        let alive = Arc::new(());
        let vehicle = Inherited(eventfd::create().unwrap(), alive.clone());
        let parked = Parked::new(Box::new(vehicle), ROUND, Instant::now()).unwrap();
        let mut known = Some(lot(1, vec![parked]));
        let same = of_process(&mut known, 1, || unreachable!("there is one"));
        assert_eq!(same.map(|lot| lot.arrived.len()), Ok(1));
        let own = of_process(&mut known, 2, || Ok(lot(2, Vec::new())));
        assert_eq!(own.map(|lot| (lot.process, lot.arrived.len())), Ok((2, 0)));
        assert_eq!(Arc::strong_count(&alive), 2, "nothing of it was dropped");
        known = Some(lot(2, Vec::new()));
        let none = of_process(&mut known, 3, || Err(crate::error::Errno::EMFILE));
        assert_eq!(none.map(|lot| lot.process), Err(crate::error::Errno::EMFILE));
        assert!(known.is_none());
    }
}
