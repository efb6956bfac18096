//! Numbers for handles.
//!
//! A number has its two low bits set, as all of Zircon's, above them the index of a slot, above
//! that the slot's generation. A slot is used again only when many others have been free for
//! longer, so that a number comes back after [`RESERVE`] × [`SHARDS`] × 2^[`GENERATION_BITS`]
//! handles (64 Mi) at the earliest: until then a stale number is no handle, and never another one.
//!
//! Looking up takes no lock and writes nothing that another thread reads. A handle that is closed
//! or moved while a call on another thread uses it stays alive until that call ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::{ArcSwapOption, Guard};
use uncopy::channel::{Handle, Object, Status};

use crate::abi::{ZX_HANDLE_INVALID, zx_handle_t};

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

type Slot = ArcSwapOption<Entry>;

struct Entry {
    value: zx_handle_t,
    handle: Handle,
}

/// Who may give numbers out. Each has the chunks whose number it is modulo `SHARDS`.
struct Shard {
    /// Freed, first in, first out, with the generation that is next.
    free: VecDeque<(u32, u32)>,
    /// Slots that were used at all.
    used: u32,
}

static SLOTS: [OnceLock<Box<[Slot]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static SHARD: [Mutex<Shard>; SHARDS] =
    [const { Mutex::new(Shard { free: VecDeque::new(), used: 0 }) }; SHARDS];
static CREATED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU64 = AtomicU64::new(0);

/// A handle in use by a call.
pub(crate) struct Lease(Guard<Option<Arc<Entry>>>);

impl std::ops::Deref for Lease {
    type Target = Handle;

    #[inline]
    fn deref(&self) -> &Handle {
        match &*self.0 {
            Some(entry) => &entry.handle,
            None => unreachable!("a lease is of an entry"),
        }
    }
}

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

fn slot(index: u32) -> Option<&'static Slot> {
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
    /// An index and its generation; `None` if all are taken.
    fn take(&mut self, number: usize) -> Option<(u32, u32)> {
        let capacity = CHUNKS as u32 / SHARDS as u32 * CHUNK;
        if self.free.len() > RESERVE || self.used == capacity {
            return self.free.pop_front();
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
    let taken = (first..first + SHARDS).find_map(|n| lock(n % SHARDS).take(n % SHARDS));
    let (index, generation) = taken.ok_or(Status::NoMemory)?;
    let value = encode(index, generation);
    slot(index).ok_or(Status::NoMemory)?.store(Some(Arc::new(Entry { value, handle })));
    CREATED.fetch_add(1, Ordering::Relaxed);
    Ok(value)
}

/// The handle of that number.
///
/// # Errors
/// [`Status::BadHandle`] if there is none.
#[inline]
pub(crate) fn lease(value: zx_handle_t) -> Result<Lease, Status> {
    let (index, _) = decode(value).ok_or(Status::BadHandle)?;
    let guard = slot(index).ok_or(Status::BadHandle)?.load();
    match &*guard {
        Some(entry) if entry.value == value => Ok(Lease(guard)),
        _ => Err(Status::BadHandle),
    }
}

/// Takes the entry out. Only one of several who try gets it.
fn remove(value: zx_handle_t) -> Option<Arc<Entry>> {
    let Lease(guard) = lease(value).ok()?;
    let (index, generation) = decode(value)?;
    let before = slot(index)?.compare_and_swap(&*guard, None);
    let entry = Guard::into_inner(before).filter(|entry| entry.value == value)?;
    drop(guard);
    let next = (generation + 1) & GENERATION_MASK;
    lock(shard_of(index)).free.push_back((index, next));
    CLOSED.fetch_add(1, Ordering::Relaxed);
    Some(entry)
}

/// Takes the handle out, to be sent or changed. `None` if there is none of that number.
///
/// Calls that use it on other threads go on with what they hold, until whoever gets the handle
/// reads it from its message.
pub(crate) fn take(value: zx_handle_t) -> Option<Handle> {
    match Arc::try_unwrap(remove(value)?) {
        Ok(entry) => Some(entry.handle),
        Err(entry) => entry.handle.succeed().ok(),
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
    match Arc::try_unwrap(remove(value).ok_or(Status::BadHandle)?) {
        Ok(entry) => drop(entry),
        Err(entry) => entry.handle.revoke(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uncopy::channel::{Deadline, Event, Object, Signals, Status};

    use super::{close, decode, encode, insert, lease, take};

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
            let winners = threads.into_iter().filter(|_| true).map(|t| t.join().unwrap());
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
