//! Places for values that several threads use, and one of them ends.
//!
//! All that is known of a place is in one word: a phase, a generation, and how many use the value.
//! Beside it is a mark that one more user may hold. To use the value costs an exchange of the mark,
//! which is taken back by a plain store; who finds it held is counted, which costs an addition and
//! a subtraction.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::membarrier;

/// What is in a slot.
pub(crate) trait Occupant {
    /// What users of it see.
    type Content;

    /// That.
    fn content(&self) -> &Self::Content;

    /// It is out of its slot, which may be opened again.
    fn left(self);
}

/// One user.
const USER: u64 = 1;
const USERS: u64 = u32::MAX as u64;
const GENERATION_SHIFT: u32 = 32;
const PHASE: u64 = 0b11 << 62;
/// There is no value.
const FREE: u64 = 0;
/// One thread moves a value in or out.
const MOVING: u64 = 0b01 << 62;
/// There is a value, for all who know the generation.
const OPEN: u64 = 0b10 << 62;
/// There is a value, for those alone who use it already.
const ENDING: u64 = 0b11 << 62;

/// A place for one value after another, which is leaked if it is in there when the slot is dropped.
/// Neighbours are on cache lines of their own.
#[repr(align(64))]
pub(crate) struct Slot<T> {
    /// Phase, generation, users. Who looks at the wrong generation may count as a user for a
    /// moment, in every phase; that changes no more than who is the last.
    state: AtomicU64,
    /// Somebody uses the value without being counted, or is about to see that there is none.
    is_held: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: threads share references to the value (`Sync`) and take it out on another thread than
// the one that put it in (`Send`); that nobody moves it while it is used is what `state` is for.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// The use of a value, which stays where it is as long as this exists.
pub(crate) struct Lease<'a, T: Occupant> {
    slot: &'a Slot<T>,
    /// Else it is the one that holds the mark.
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

/// The word without its users.
fn known(phase: u64, generation: u32) -> u64 {
    // Generations have fewer than 30 bits.
    phase | u64::from(generation) << GENERATION_SHIFT & !PHASE
}

impl<T: Occupant> Slot<T> {
    /// Puts a value in; gives it back if there is one.
    pub(crate) fn open(&self, generation: u32, value: T) -> Result<(), T> {
        let claim =
            |state| (state & PHASE == FREE).then_some(known(MOVING, generation) | (state & USERS));
        if self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, claim).is_err() {
            return Err(value);
        }
        // SAFETY: this thread alone has made it `MOVING`, so that nobody else touches the value.
        unsafe { (*self.value.get()).write(value) };
        self.state.fetch_add(OPEN - MOVING, Ordering::Release);
        Ok(())
    }

    /// The value, if it is there with that generation.
    #[inline]
    pub(crate) fn lease(&self, generation: u32) -> Option<Lease<'_, T>> {
        // SeqCst, here and in `Lease::end` and `clear`: whoever ends the value sees the mark, or
        // whoever has set it sees the end.
        let is_counted =
            self.is_held.load(Ordering::Relaxed) || self.is_held.swap(true, Ordering::SeqCst);
        let state = if is_counted {
            // Without a look before, which would cost every call a few cycles to spare the wrong
            // ones.
            self.state.fetch_add(USER, Ordering::SeqCst)
        } else {
            self.state.load(Ordering::SeqCst)
        };
        let lease = Lease { slot: self, is_counted };
        // What is dropped otherwise has used nothing.
        (state & !USERS == known(OPEN, generation)).then_some(lease)
    }

    /// One counted user less. The last of a value that has ended takes it out.
    #[inline]
    fn leave_count(&self) {
        let before = self.state.fetch_sub(USER, Ordering::SeqCst);
        if before & (PHASE | USERS) == ENDING | USER {
            self.clear(before - USER);
        }
    }

    /// The mark is free. Its holder takes a value out that has ended, unless some are counted.
    #[inline]
    fn leave_mark(&self) {
        self.is_held.store(false, Ordering::Release);
        // The processor may look before others see the store. Who has ended the value, and sees
        // the mark all the same, has this thread catch up: `clear`.
        let state = self.state.load(Ordering::Relaxed);
        if state & (PHASE | USERS) == ENDING {
            self.clear(state);
        }
    }

    /// The word was `state`, which says `ENDING` and has no user: takes the value out, unless
    /// somebody holds the mark, who will.
    #[cold]
    fn clear(&self, state: u64) {
        if self.is_held.load(Ordering::SeqCst) {
            // After this the holder has left and that is seen, or has yet to look at the word.
            membarrier::others_catch_up();
            if self.is_held.load(Ordering::SeqCst) {
                return;
            }
        }
        if let Some(value) = self.take_out(state) {
            value.left();
        }
    }

    /// Takes the value out if the word still is `state`, which says `ENDING` and has no user but
    /// the caller, or none; nor does anybody else hold the mark.
    fn take_out(&self, state: u64) -> Option<T> {
        let moving = state & !(PHASE | USERS) | MOVING;
        // Acquire: all that was done to the value was done before its users left.
        self.state.compare_exchange(state, moving, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: this thread alone has made it `MOVING`, and nobody uses the value: users are
        // counted, or hold the mark, and none comes after `OPEN`.
        let value = unsafe { &*self.value.get() };
        // SAFETY: it was there, for `ENDING` follows `OPEN` alone, which follows the write of one;
        // and it is read but once, for `MOVING` leads to `FREE`.
        let value = unsafe { value.assume_init_read() };
        self.state.fetch_and(!PHASE, Ordering::Release);
        Some(value)
    }
}

impl<'a, T: Occupant> Lease<'a, T> {
    /// Ends the value: nobody finds it any more. False if somebody else has.
    pub(crate) fn end(&self) -> bool {
        let end = |state| (state & PHASE == OPEN).then_some(state | ENDING);
        self.slot.state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, end).is_ok()
    }

    /// The value itself, if it has ended and nobody else uses it.
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
                // A count is gone with the word.
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
        // SAFETY: no reference to the value is mutable, and nobody moves it while it has a user.
        let value = unsafe { &*self.slot.value.get() };
        // SAFETY: a lease is made of an `OPEN` slot alone, after the value was written (Acquire).
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

    static LEFT: AtomicUsize = AtomicUsize::new(0);

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

        fn left(self) {
            assert_eq!(self.0, self.1);
            LEFT.fetch_add(1, Ordering::Relaxed);
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

    /// Whoever of three leaves first, one of them with the mark, and whoever ends the value.
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
    fn threads_that_use_and_end_values_meet_no_other_ones() {
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
        let before = LEFT.load(Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(use_it);
            }
        });
        let all = taken.load(Ordering::Relaxed) + LEFT.load(Ordering::Relaxed) - before;
        assert!(all >= ROUNDS as usize, "{all}");
    }
}
