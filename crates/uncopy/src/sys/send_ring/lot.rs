//! Where rings wait that were dropped while the kernel still had some of their memory.
//!
//! Only the thread that made a ring can take in what the kernel has ended
//! (`IORING_SETUP_SINGLE_ISSUER`). So each thread keeps its own, looks at them whenever it makes or
//! drops a ring or submits to one, and waits for the rest at its end. Their connections are aborted
//! in time by the thread of the [`parking`] lot.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::SendRing;
use crate::buf::StableBytes;
use crate::sys::inet::{Socket, Transport};
use crate::sys::zerocopy::parking;

thread_local! {
    static LOT: RefCell<Vec<Left>> = const { RefCell::new(Vec::new()) };
    /// As many as above: looked at with every call.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// A ring that nobody has any more.
struct Left {
    ring: Box<dyn Dropped>,
    /// When its connections are aborted. `None`: never.
    deadline: Option<Instant>,
    is_over: Arc<AtomicBool>,
}

trait Dropped {
    /// Takes in what the kernel has ended; says whether that was all.
    fn look(&mut self) -> bool;
    /// The ring waits no longer than this when it ends.
    fn hasten(&mut self, left: Duration);
}

impl<B: StableBytes> Dropped for SendRing<B> {
    fn look(&mut self) -> bool {
        // A failure leaves what is outstanding outstanding.
        let _ = self.submit(0, None).and_then(|()| self.reap(&mut super::Nobody));
        self.book.in_kernel == 0
    }

    fn hasten(&mut self, left: Duration) {
        self.linger = left;
    }
}

/// A socket of such a ring.
struct Abandoned {
    socket: Arc<Socket>,
    is_over: Arc<AtomicBool>,
}

impl parking::Vehicle for Abandoned {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    fn is_stream(&self) -> bool {
        self.socket.transport() == Transport::Tcp
    }

    fn abort(&mut self) {
        self.socket.abort();
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn drain(&mut self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn is_lost(&self) -> bool {
        false
    }
}

/// A ring that is parked when it is dropped.
pub(crate) struct Parking<B: StableBytes>(ManuallyDrop<Box<SendRing<B>>>);

impl<B: StableBytes> Parking<B> {
    pub(crate) fn new(ring: SendRing<B>) -> Parking<B> {
        sweep();
        Parking(ManuallyDrop::new(Box::new(ring)))
    }
}

impl<B: StableBytes> Deref for Parking<B> {
    type Target = SendRing<B>;

    #[inline]
    fn deref(&self) -> &SendRing<B> {
        &self.0
    }
}

impl<B: StableBytes> DerefMut for Parking<B> {
    #[inline]
    fn deref_mut(&mut self) -> &mut SendRing<B> {
        &mut self.0
    }
}

impl<B: StableBytes> Drop for Parking<B> {
    fn drop(&mut self) {
        // SAFETY: this is the drop, after which nobody looks at the field again.
        let mut ring = unsafe { ManuallyDrop::take(&mut self.0) };
        // What was not submitted never is.
        ring.book.waiting.clear();
        sweep();
        if ring.look() {
            return;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        for socket in ring.book.sockets_in_kernel() {
            let abandoned = Abandoned { socket, is_over: is_over.clone() };
            parking::park(Box::new(abandoned), ring.linger);
        }
        let deadline = Instant::now().checked_add(ring.linger);
        let mut left = Some(Left { ring, deadline, is_over });
        // At the end of a thread there is no lot any more: the ring waits by itself then.
        let parked = LOT.try_with(|lot| lot.borrow_mut().extend(left.take()));
        if parked.is_ok() {
            COUNT.set(COUNT.get() + 1);
        }
    }
}

/// Looks at all rings that this thread has dropped.
#[inline]
pub(crate) fn sweep() {
    if COUNT.get() > 0 {
        sweep_all();
    }
}

#[cold]
fn sweep_all() {
    // Buffers are dropped here, by code that may use rings itself.
    let mut all = LOT.try_with(RefCell::take).unwrap_or_default();
    COUNT.set(0);
    all.retain_mut(|left| !left.ring.look());
    let kept = LOT.try_with(|lot| {
        let mut lot = lot.borrow_mut();
        lot.append(&mut all);
        lot.len()
    });
    COUNT.set(kept.unwrap_or(0));
}

impl Drop for Left {
    /// Nothing is outstanding, or the thread ends.
    fn drop(&mut self) {
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        self.ring.hasten(left.unwrap_or(Duration::MAX));
        self.is_over.store(true, Ordering::Release);
    }
}
