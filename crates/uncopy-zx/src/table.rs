//! Numbers for handles.
//!
//! A number has its two low bits set, as all of Zircon's, above them the index of a slot, above
//! that the slot's generation. A slot is used again only when many others have been free for
//! longer, so that a number comes back after [`RESERVE`] × 2^[`GENERATION_BITS`] handles (4 Mi) at
//! the earliest, or fewer where almost all slots are in use: until then a stale number is no
//! handle, and never another one.
//!
//! Looking up takes no lock. A handle that is closed or moved while a call on another thread uses it
//! stays alive until that call ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use uncopy_channel::{Handle, Object, Status};

use crate::abi::{ZX_HANDLE_INVALID, zx_handle_t};
use crate::sys::slot::{self, Occupant, Slot};

const FIXED_BITS: u32 = 0b11;
const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 10;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// Slots that come into being together.
const CHUNK: u32 = 1024;
const CHUNKS: usize = (1 << INDEX_BITS) / CHUNK as usize;
const SHARDS: usize = 16;
/// Free slots that a shard keeps before it uses the one that was freed first.
const RESERVE: usize = 4096;

/// A handle, and where it is.
pub(crate) struct Entry {
    index: u32,
    generation: u32,
    handle: Handle,
}

impl Entry {
    /// Its slot rests; what is left is the handle.
    fn vacate(self) -> Handle {
        let next = (self.generation + 1) & GENERATION_MASK;
        lock(shard_of(self.index)).free.push_back((self.index, next));
        self.handle
    }
}

impl Occupant for Entry {
    type Content = Handle;

    #[inline]
    fn content(&self) -> &Handle {
        &self.handle
    }

    fn left(self) {
        drop(self.vacate());
    }
}

/// A handle in use by a call.
pub(crate) type Lease = slot::Lease<'static, Entry>;

/// Who may give numbers out. Each has the chunks whose number it is modulo `SHARDS`.
struct Shard {
    /// Freed, first in, first out, with the generation that is next.
    free: VecDeque<(u32, u32)>,
    /// Slots that were used at all.
    used: u32,
}

static SLOTS: [OnceLock<Box<[Slot<Entry>]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static SHARD: [Mutex<Shard>; SHARDS] =
    [const { Mutex::new(Shard { free: VecDeque::new(), used: 0 }) }; SHARDS];
static CREATED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// Handles that exist, and that existed.
pub(crate) fn counts() -> (u64, u64) {
    let closed = CLOSED.load(Ordering::Relaxed);
    let created = CREATED.load(Ordering::Relaxed);
    (created.saturating_sub(closed), created)
}

fn encode(index: u32, generation: u32) -> zx_handle_t {
    (generation << INDEX_BITS | index) << 2 | FIXED_BITS
}

fn decode(value: zx_handle_t) -> Option<(u32, u32)> {
    let number = value >> 2;
    let parts = (number & INDEX_MASK, number >> INDEX_BITS & GENERATION_MASK);
    (value & FIXED_BITS == FIXED_BITS).then_some(parts)
}

#[inline]
fn slot(index: u32) -> Option<&'static Slot<Entry>> {
    SLOTS[(index / CHUNK) as usize].get()?.get((index % CHUNK) as usize)
}

fn lock(shard: usize) -> MutexGuard<'static, Shard> {
    SHARD[shard].lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of(index: u32) -> usize {
    (index / CHUNK) as usize % SHARDS
}

/// The calling thread's first choice.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    OWN.try_with(|own| *own).unwrap_or(0)
}

impl Shard {
    /// An index and its generation, of a slot that was never used or has rested for long; `None`
    /// if there is none.
    fn take(&mut self, number: usize) -> Option<(u32, u32)> {
        let capacity = CHUNKS as u32 / SHARDS as u32 * CHUNK;
        if self.free.len() > RESERVE {
            return self.free.pop_front();
        }
        if self.used == capacity {
            return None;
        }
        let chunk = self.used / CHUNK * SHARDS as u32 + number as u32;
        let index = chunk * CHUNK + self.used % CHUNK;
        SLOTS[chunk as usize].get_or_init(|| (0..CHUNK).map(|_| Slot::default()).collect());
        self.used += 1;
        Some((index, 0))
    }
}

/// A number for `handle`.
///
/// # Errors
/// [`Status::NoMemory`] if 1,048,576 handles are open; the handle is closed then.
pub(crate) fn insert(handle: Handle) -> Result<zx_handle_t, Status> {
    let first = own_shard();
    let shards = || (first..first + SHARDS).map(|n| n % SHARDS);
    let taken = shards()
        .find_map(|n| lock(n).take(n))
        .or_else(|| shards().find_map(|n| lock(n).free.pop_front()));
    let (index, generation) = taken.ok_or(Status::NoMemory)?;
    let entry = Entry { index, generation, handle };
    // It is free: nobody else was given it.
    slot(index).ok_or(Status::NoMemory)?.open(generation, entry).map_err(|_| Status::NoMemory)?;
    CREATED.fetch_add(1, Ordering::Relaxed);
    Ok(encode(index, generation))
}

/// The handle of that number.
///
/// # Errors
/// [`Status::BadHandle`] if there is none.
#[inline]
pub(crate) fn lease(value: zx_handle_t) -> Result<Lease, Status> {
    let (index, generation) = decode(value).ok_or(Status::BadHandle)?;
    slot(index).and_then(|slot| slot.lease(generation)).ok_or(Status::BadHandle)
}

/// Ends the number. Only one of several who try does.
fn end(value: zx_handle_t) -> Result<Lease, Status> {
    let lease = lease(value)?;
    if !lease.end() {
        return Err(Status::BadHandle);
    }
    CLOSED.fetch_add(1, Ordering::Relaxed);
    Ok(lease)
}

/// Takes the handle out, to be sent or changed. `None` if there is none of that number.
///
/// Calls that use it on other threads go on with what they hold, until whoever gets the handle
/// reads it from its message, or closes it.
pub(crate) fn take(value: zx_handle_t) -> Option<Handle> {
    match end(value).ok()?.into_value() {
        Ok(entry) => Some(entry.vacate()),
        Err(used) => used.succeed().ok(),
    }
}

/// Closes the handle: calls and waits that use it end with [`Status::Canceled`].
///
/// # Errors
/// [`Status::BadHandle`] if there is none of that number, except for `ZX_HANDLE_INVALID`, which is
/// closed already.
pub(crate) fn close(value: zx_handle_t) -> Result<(), Status> {
    if value == ZX_HANDLE_INVALID {
        return Ok(());
    }
    match end(value)?.into_value() {
        Ok(entry) => drop(entry.vacate()),
        Err(used) => used.revoke(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use uncopy_channel::{Deadline, Event, Object, Signals, Status};

    use super::{CHUNK, CHUNKS, RESERVE, SHARDS, Shard, shard_of};
    use super::{close, decode, encode, insert, lease, take};

    #[test]
    fn slots_rest_before_they_are_used_again() {
        let mut shard = Shard { free: VecDeque::new(), used: 0 };
        let number = SHARDS - 1;
        let mut given = HashSet::new();
        // One at a time, each freed at once.
        for round in 0..4 * RESERVE {
            let (index, generation) = shard.take(number).unwrap();
            assert!(given.insert((index, generation)), "{index} came back");
            assert_eq!(shard_of(index), number);
            assert!(generation as usize <= round / RESERVE);
            shard.free.push_back((index, generation + 1));
        }
        assert!(shard.used as usize <= RESERVE + 1);
        // With all in use there is nothing to take, and what has not rested is left alone.
        let capacity = CHUNKS / SHARDS * CHUNK as usize;
        let mut full = Shard { free: VecDeque::from([(0, 1)]), used: capacity as u32 };
        assert_eq!(full.take(number), None);
        full.free.extend((0..RESERVE as u32).map(|index| (index, 1)));
        assert_eq!(full.take(number), Some((0, 1)));
    }

    #[test]
    fn numbers_hold_index_and_generation() {
        for (index, generation) in [(0, 0), (1, 0), (0, 1), (0xf_ffff, 0x3ff)] {
            let value = encode(index, generation);
            assert_eq!(decode(value), Some((index, generation)));
            assert_eq!(value & 3, 3);
            assert_ne!(value, 0);
        }
        assert_eq!(decode(4), None);
    }

    #[test]
    fn stale_numbers_stay_stale_while_others_come_and_go() {
        let mut seen = HashSet::new();
        for _ in 0..50_000 {
            let value = insert(Event::new().into()).unwrap();
            assert!(seen.insert(value), "{value:#x} came back");
            close(value).unwrap();
            assert_eq!(close(value), Err(Status::BadHandle));
        }
        assert!(seen.iter().all(|value| lease(*value).is_err()));
    }

    #[test]
    fn bad_numbers_are_no_handles() {
        for value in [1, 2, 4, 0x7fff_fffc, u32::MAX] {
            assert_eq!(close(value), Err(Status::BadHandle), "{value:#x}");
            assert!(take(value).is_none());
        }
        assert_eq!(close(0), Ok(()));
    }

    #[test]
    fn one_of_many_threads_gets_it() {
        for _ in 0..200 {
            let value = insert(Event::new().into()).unwrap();
            let threads: Vec<_> =
                (0..4).map(|_| std::thread::spawn(move || take(value).is_some())).collect();
            let winners = threads.into_iter().map(|thread| thread.join().unwrap());
            assert_eq!(winners.filter(|won| *won).count(), 1);
        }
    }

    #[test]
    fn what_is_moved_lives_on_for_who_uses_it() {
        let value = insert(Event::new().into()).unwrap();
        let held = lease(value).unwrap();
        let moved = take(value).unwrap();
        assert_eq!(moved.koid(), held.koid());
        assert_eq!(moved.rights(), held.rights());
        moved.signal(Signals::empty(), Signals::SIGNALED).unwrap();
        let now = Deadline::after(std::time::Duration::ZERO);
        assert_eq!(held.wait_one(Signals::SIGNALED, now), Ok(Signals::SIGNALED));
        assert!(lease(value).is_err());
    }

    #[test]
    fn what_is_closed_is_revoked_for_who_uses_it() {
        let value = insert(Event::new().into()).unwrap();
        let held = lease(value).unwrap();
        close(value).unwrap();
        assert_eq!(held.signal(Signals::empty(), Signals::SIGNALED), Err(Status::BadHandle));
    }
}
