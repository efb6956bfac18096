//! The table of handle numbers.
//!
//! A number has its two low bits set, as all of Zircon's; above them are the index of a slot and the
//! slot's generation. A slot is reused only when many others have been free for longer, so that a
//! number comes back after [`RESERVE`] × 2^[`GENERATION_BITS`] handles (4 Mi) at the earliest, or
//! earlier if almost all slots are in use. Until then a stale number is invalid, and never names
//! another handle.
//!
//! A lookup takes no lock. A handle that is closed or moved while a call on another thread uses it
//! stays alive until that call ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{MutexGuard, OnceLock};

use uncopy_channel::{Handle, Object, Status};

use crate::abi::{ZX_HANDLE_INVALID, zx_handle_t};
use crate::sys::fork::{self, fork_locks};
use crate::sys::slot::{self, Occupant, Slot};

const FIXED_BITS: u32 = 0b11;
const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 10;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// Number of the root of the address space, which is no object. Its slot, the last one, is not used.
pub(crate) const ROOT_VMAR: zx_handle_t = INDEX_MASK << 2 | FIXED_BITS;

/// Number of slots that are allocated together.
const CHUNK: u32 = 1024;
const CHUNKS: usize = (1 << INDEX_BITS) / CHUNK as usize;
const SHARDS: usize = 16;
/// Number of free slots that a shard keeps before it reuses the one that was freed first.
const RESERVE: usize = 4096;

/// A handle, and its slot.
pub(crate) struct Entry {
    index: u32,
    generation: u32,
    handle: Handle,
}

impl Entry {
    /// Frees the slot; returns the handle.
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

    fn removed(self) {
        drop(self.vacate());
    }
}

/// A handle in use by a call.
pub(crate) type Lease = slot::Lease<'static, Entry>;

/// A part of the table under one lock. It has the chunks whose number modulo `SHARDS` is its index.
struct Shard {
    /// Free slots, first in, first out: index and next generation.
    free: VecDeque<(u32, u32)>,
    /// Number of slots that were ever used.
    used: u32,
}

static SLOTS: [OnceLock<Box<[Slot<Entry>]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static CREATED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of open handles, and of handles ever created.
pub(crate) fn counts() -> (u64, u64) {
    let closed = CLOSED.load(Ordering::Relaxed);
    let created = CREATED.load(Ordering::Relaxed);
    (created.saturating_sub(closed), created)
}

fork_locks! {
    /// The parts of the table.
    Shards: [Shard; SHARDS] = Shard { free: VecDeque::new(), used: 0 }
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
    fork::lock::<Shards>(shard)
}

fn shard_of(index: u32) -> usize {
    (index / CHUNK) as usize % SHARDS
}

/// Returns the shard that the calling thread tries first.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    OWN.try_with(|own| *own).unwrap_or(0)
}

impl Shard {
    /// Returns index and generation of a slot that was never used, or that was freed before
    /// [`RESERVE`] others; `None` if there is none.
    fn take(&mut self, number: usize) -> Option<(u32, u32)> {
        let capacity = CHUNKS as u32 / SHARDS as u32 * CHUNK - u32::from(number == SHARDS - 1);
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

/// Returns a number for `handle`.
///
/// # Errors
/// [`Status::NoMemory`] if 1,048,575 handles are open; the handle is closed then.
pub(crate) fn insert(handle: Handle) -> Result<zx_handle_t, Status> {
    let first = own_shard();
    let shards = || (first..first + SHARDS).map(|n| n % SHARDS);
    let taken = shards()
        .find_map(|n| lock(n).take(n))
        .or_else(|| shards().find_map(|n| lock(n).free.pop_front()));
    let (index, generation) = taken.ok_or(Status::NoMemory)?;
    let entry = Entry { index, generation, handle };
    // The slot is free and was taken by this call only.
    slot(index).ok_or(Status::NoMemory)?.open(generation, entry).map_err(|_| Status::NoMemory)?;
    CREATED.fetch_add(1, Ordering::Relaxed);
    Ok(encode(index, generation))
}

/// Returns the handle of a number.
///
/// # Errors
/// [`Status::BadHandle`] if it is not valid.
#[inline]
pub(crate) fn lease(value: zx_handle_t) -> Result<Lease, Status> {
    let (index, generation) = decode(value).ok_or(Status::BadHandle)?;
    slot(index).and_then(|slot| slot.lease(generation)).ok_or(Status::BadHandle)
}

/// Invalidates the number. If several threads try, one succeeds.
fn end(value: zx_handle_t) -> Result<Lease, Status> {
    let lease = lease(value)?;
    if !lease.end() {
        return Err(Status::BadHandle);
    }
    CLOSED.fetch_add(1, Ordering::Relaxed);
    Ok(lease)
}

/// Removes the handle, to be sent or changed. Returns `None` if the number is not valid.
///
/// Calls that use the handle on other threads continue until it is read from its message or closed.
pub(crate) fn take(value: zx_handle_t) -> Option<Handle> {
    match end(value).ok()?.into_value() {
        Ok(entry) => Some(entry.vacate()),
        Err(used) => used.succeed().ok(),
    }
}

/// Closes the handle: calls and waits that use it end with [`Status::Canceled`].
///
/// # Errors
/// [`Status::BadHandle`] if the number is not valid, except for `ZX_HANDLE_INVALID`, which is
/// ignored.
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

    use super::{CHUNK, CHUNKS, RESERVE, ROOT_VMAR, SHARDS, Shard, shard_of};
    use super::{close, decode, encode, insert, lease, take};

    #[test]
    fn slots_are_reused_after_many_others() {
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
        // If all are in use, slots that were freed recently are not taken.
        let capacity = CHUNKS / SHARDS * CHUNK as usize - 1;
        let mut full = Shard { free: VecDeque::from([(0, 1)]), used: capacity as u32 };
        assert_eq!(full.take(number), None);
        // The slot behind it is that of the address space.
        let mut last = Shard { free: VecDeque::new(), used: capacity as u32 - 1 };
        let (index, generation) = last.take(number).unwrap();
        assert_eq!(encode(index + 1, generation), ROOT_VMAR);
        assert_eq!(last.take(number), None);
        assert!(lease(ROOT_VMAR).is_err());
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
    fn stale_numbers_stay_invalid_while_others_are_created_and_closed() {
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
    fn invalid_numbers_are_bad_handles() {
        for value in [1, 2, 4, 0x7fff_fffc, u32::MAX] {
            assert_eq!(close(value), Err(Status::BadHandle), "{value:#x}");
            assert!(take(value).is_none());
        }
        assert_eq!(close(0), Ok(()));
    }

    #[test]
    fn one_of_many_threads_takes_a_handle() {
        for _ in 0..200 {
            let value = insert(Event::new().into()).unwrap();
            let threads: Vec<_> =
                (0..4).map(|_| std::thread::spawn(move || take(value).is_some())).collect();
            let winners = threads.into_iter().map(|thread| thread.join().unwrap());
            assert_eq!(winners.filter(|won| *won).count(), 1);
        }
    }

    #[test]
    fn a_moved_handle_stays_alive_for_calls_that_use_it() {
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
    fn a_closed_handle_is_revoked_for_calls_that_use_it() {
        let value = insert(Event::new().into()).unwrap();
        let held = lease(value).unwrap();
        close(value).unwrap();
        assert_eq!(held.signal(Signals::empty(), Signals::SIGNALED), Err(Status::BadHandle));
    }
}
