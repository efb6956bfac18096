//! Slots for values that several threads use, and one of them ends.
//!
//! The state of a slot is one word: a phase, a generation, and the number of users. Beside it is a
//! mark that one more user may hold. Using the value costs an exchange of the mark, which a plain
//! store releases; a user that finds it held is counted, which costs an addition and a subtraction.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::membarrier;

/// The value of a slot.
pub(crate) trait Occupant {
    /// The part that users see.
    type Content;

    /// Returns that part.
    fn content(&self) -> &Self::Content;

    /// Called when the value is out of its slot, which may be opened again.
    fn removed(self);
}

/// Increment for one user.
const USER: u64 = 1;
const USERS: u64 = u32::MAX as u64;
const GENERATION_SHIFT: u32 = 32;
const PHASE: u64 = 0b11 << 62;
/// No value.
const FREE: u64 = 0;
/// A thread moves a value in or out.
const MOVING: u64 = 0b01 << 62;
/// A value that can be leased with its generation.
const OPEN: u64 = 0b10 << 62;
/// A value that only its current users can use.
const ENDING: u64 = 0b11 << 62;

/// A slot for one value after another. A value in it is leaked when the slot is dropped. Each slot has
/// its own cache line.
#[repr(align(64))]
pub(crate) struct Slot<T> {
    /// Phase, generation, users. A lookup with a wrong generation may count as a user for a moment, in
    /// every phase; that only changes which user is the last.
    state: AtomicU64,
    /// Whether a thread uses the value without being counted, or is about to find that there is none.
    is_held: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: threads share references to the value (`Sync`) and take it out on another thread than
// the one that put it in (`Send`); `state` ensures that it is not moved while it is used.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// A use of a value, which is not moved while this exists.
pub(crate) struct Lease<'a, T: Occupant> {
    slot: &'a Slot<T>,
    /// Whether it is counted; otherwise it holds the mark.
    is_counted: bool,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot {
            state: AtomicU64::new(FREE),
            is_held: AtomicBool::new(false),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// Returns a word without users.
fn word_of(phase: u64, generation: u32) -> u64 {
    // Generations have fewer than 30 bits.
    phase | u64::from(generation) << GENERATION_SHIFT & !PHASE
}

impl<T: Occupant> Slot<T> {
    /// Puts a value in; returns it if there is one already.
    pub(crate) fn open(&self, generation: u32, value: T) -> Result<(), T> {
        let claim = |state| {
            (state & PHASE == FREE).then_some(word_of(MOVING, generation) | (state & USERS))
        };
        if self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, claim).is_err() {
            return Err(value);
        }
        // SAFETY: only this thread has made it `MOVING`, so that no other accesses the value.
        unsafe { (*self.value.get()).write(value) };
        self.state.fetch_add(OPEN - MOVING, Ordering::Release);
        Ok(())
    }

    /// Leases the value, if it has that generation.
    #[inline]
    pub(crate) fn lease(&self, generation: u32) -> Option<Lease<'_, T>> {
        // SeqCst, here and in `Lease::end` and `clear`: the thread that ends the value sees the mark,
        // or the thread that has set the mark sees the end.
        let is_counted =
            self.is_held.load(Ordering::Relaxed) || self.is_held.swap(true, Ordering::SeqCst);
        let state = if is_counted {
            // Without a check before, which would cost every call a few cycles to save some in calls
            // with invalid handles.
            self.state.fetch_add(USER, Ordering::SeqCst)
        } else {
            self.state.load(Ordering::SeqCst)
        };
        let lease = Lease { slot: self, is_counted };
        // A lease that is dropped here has not used the value.
        (state & !USERS == word_of(OPEN, generation)).then_some(lease)
    }

    /// Counts one user less. The last user of an ended value takes it out.
    #[inline]
    fn leave_count(&self) {
        let before = self.state.fetch_sub(USER, Ordering::SeqCst);
        if before & (PHASE | USERS) == ENDING | USER {
            self.clear(before - USER);
        }
    }

    /// Releases the mark. Takes an ended value out, unless there are counted users.
    #[inline]
    fn leave_mark(&self) {
        self.is_held.store(false, Ordering::Release);
        // The processor may load before others see the store. If the thread that ended the value
        // still sees the mark, it uses a barrier on this thread: `clear`.
        let state = self.state.load(Ordering::Relaxed);
        if state & (PHASE | USERS) == ENDING {
            self.clear(state);
        }
    }

    /// Takes the value out if the word is `state`, which is `ENDING` without users, unless a thread
    /// holds the mark, which then takes it out.
    #[cold]
    fn clear(&self, state: u64) {
        if self.is_held.load(Ordering::SeqCst) {
            // After this the holder has visibly released the mark, or will still load the word.
            membarrier::synchronize_others();
            if self.is_held.load(Ordering::SeqCst) {
                return;
            }
        }
        if let Some(value) = self.take_out(state) {
            value.removed();
        }
    }

    /// Takes the value out if the word still is `state`, which is `ENDING` without users other than the
    /// caller; no other thread holds the mark.
    fn take_out(&self, state: u64) -> Option<T> {
        let moving = state & !(PHASE | USERS) | MOVING;
        // Acquire: all uses of the value happened before its users left.
        self.state.compare_exchange(state, moving, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: only this thread has made it `MOVING`, and no thread uses the value: users are
        // counted, or hold the mark, and there are no new ones after `OPEN`.
        let value = unsafe { &*self.value.get() };
        // SAFETY: the value is initialised, because `ENDING` follows only `OPEN`, which follows a
        // write; and it is read once, because `MOVING` leads to `FREE`.
        let value = unsafe { value.assume_init_read() };
        self.state.fetch_and(!PHASE, Ordering::Release);
        Some(value)
    }
}

impl<'a, T: Occupant> Lease<'a, T> {
    /// Ends the value, so that it cannot be leased any more. Returns false if another thread has.
    pub(crate) fn end(&self) -> bool {
        let end = |state| (state & PHASE == OPEN).then_some(state | ENDING);
        self.slot.state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, end).is_ok()
    }

    /// Returns the value itself, if it has ended and no other thread uses it.
    pub(crate) fn into_value(self) -> Result<T, Lease<'a, T>> {
        let (own, is_alone) = match self.is_counted {
            true => (USER, !self.slot.is_held.load(Ordering::SeqCst)),
            false => (0, true),
        };
        let state = self.slot.state.load(Ordering::Relaxed);
        if state & (PHASE | USERS) != ENDING | own || !is_alone {
            return Err(self);
        }
        match self.slot.take_out(state) {
            Some(value) => {
                // The count was removed with the word.
                if !self.is_counted {
                    self.slot.leave_mark();
                }
                std::mem::forget(self);
                Ok(value)
            }
            None => Err(self),
        }
    }
}

impl<T: Occupant> Deref for Lease<'_, T> {
    type Target = T::Content;

    #[inline]
    fn deref(&self) -> &T::Content {
        // SAFETY: no reference to the value is mutable, and it is not moved while it has a user.
        let value = unsafe { &*self.slot.value.get() };
        // SAFETY: a lease is only made of an `OPEN` slot, after the value was written (Acquire).
        unsafe { value.assume_init_ref() }.content()
    }
}

impl<T: Occupant> Drop for Lease<'_, T> {
    #[inline]
    fn drop(&mut self) {
        match self.is_counted {
            true => self.slot.leave_count(),
            false => self.slot.leave_mark(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
    use std::thread;

    use super::{Occupant, Slot};

    static REMOVED: AtomicUsize = AtomicUsize::new(0);

    /// Twice the same number, so that a torn or stale value shows.
    struct Twin(Box<u32>, Box<u32>);

    impl Twin {
        fn new(number: u32) -> Twin {
            Twin(Box::new(number), Box::new(number))
        }
    }

    impl Occupant for Twin {
        type Content = Twin;

        fn content(&self) -> &Twin {
            self
        }

        fn removed(self) {
            assert_eq!(self.0, self.1);
            REMOVED.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_the_right_generation_finds_the_value() {
        let slot = Slot::default();
        assert!(slot.lease(0).is_none());
        assert!(slot.open(7, Twin::new(1)).is_ok());
        assert!(slot.open(8, Twin::new(2)).is_err());
        assert!(slot.lease(6).is_none());
        let lease = slot.lease(7).unwrap();
        assert_eq!(*lease.0, 1);
        assert!(lease.end() && !lease.end());
        assert!(slot.lease(7).is_none());
        assert!(slot.open(8, Twin::new(2)).is_err());
        assert!(lease.into_value().is_ok());
        assert!(slot.open(8, Twin::new(2)).is_ok());
        assert_eq!(*slot.lease(8).unwrap().1, 2);
    }

    /// Tries every order in which three users, one of them with the mark, leave and end the value.
    #[test]
    fn a_value_in_use_stays_until_its_last_user_leaves() {
        for (generation, order) in (0..).zip([[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0]]) {
            for ending in 0..3 {
                let slot = Slot::default();
                assert!(slot.open(generation, Twin::new(5)).is_ok());
                let mut leases = [0; 3].map(|_| slot.lease(generation));
                assert!(leases[ending].as_ref().unwrap().end());
                for leaving in order {
                    assert!(slot.open(generation + 1, Twin::new(6)).is_err());
                    let lease = leases[leaving].take().unwrap();
                    assert_eq!(*lease.0, 5);
                    match lease.into_value() {
                        Ok(value) => assert!(leaving == order[2] && *value.0 == 5),
                        Err(lease) => assert!(leaving != order[2], "{}", *lease.0),
                    }
                }
                assert!(slot.open(generation + 1, Twin::new(6)).is_ok());
            }
        }
    }

    #[test]
    fn the_last_to_leave_takes_the_value_out() {
        for order in [[0, 1], [1, 0]] {
            let slot = Slot::default();
            assert!(slot.open(0, Twin::new(5)).is_ok());
            let mut leases = [0; 2].map(|_| slot.lease(0));
            assert!(leases[0].as_ref().unwrap().end());
            for leaving in order {
                assert!(slot.open(1, Twin::new(6)).is_err());
                drop(leases[leaving].take());
            }
            assert!(slot.open(1, Twin::new(6)).is_ok());
        }
    }

    #[test]
    fn threads_that_use_and_end_values_see_no_other_value() {
        const THREADS: usize = 4;
        const ROUNDS: u32 = 20_000;
        let (slot, generation) = (Slot::<Twin>::default(), AtomicU32::new(0));
        let taken = AtomicUsize::new(0);
        assert!(slot.open(0, Twin::new(0)).is_ok());
        let use_it = || {
            while generation.load(Ordering::Relaxed) < ROUNDS {
                let current = generation.load(Ordering::Relaxed);
                let Some(lease) = slot.lease(current & 0x3ff) else { continue };
                assert_eq!(lease.0, lease.1);
                if !lease.end() {
                    continue;
                }
                if let Ok(value) = lease.into_value() {
                    assert_eq!(value.0, value.1);
                    taken.fetch_add(1, Ordering::Relaxed);
                }
                let next = current + 1;
                let mut value = Twin::new(next);
                while let Err(back) = slot.open(next & 0x3ff, value) {
                    value = back;
                    thread::yield_now();
                }
                generation.store(next, Ordering::Relaxed);
            }
        };
        let before = REMOVED.load(Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(use_it);
            }
        });
        let all = taken.load(Ordering::Relaxed) + REMOVED.load(Ordering::Relaxed) - before;
        assert!(all >= ROUNDS as usize, "{all}");
    }
}
