//! Memory that two processes have mapped: the slots of a pool, and their states.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uncopy_os::fork::Generation;
use uncopy_os::mapping::SharedMapping;

/// State of a slot that the peer does not read.
const FREE: u32 = 0;
/// State of a slot that was sent, until the peer has dropped it.
const LENT: u32 = 1;

/// Bytes of the state of one slot: a line of the processor's cache.
const STATE_BYTES: usize = 64;

/// Sizes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolShape {
    pub(crate) slots: usize,
    /// Multiple of 4,096.
    pub(crate) slot_bytes: usize,
}

impl PoolShape {
    /// Returns the bytes of all slots; `None` if they are too many.
    pub(crate) fn data_bytes(self) -> Option<usize> {
        self.slots.checked_mul(self.slot_bytes)
    }

    /// Returns the bytes of all states.
    pub(crate) fn state_bytes(self) -> Option<usize> {
        self.slots.checked_mul(STATE_BYTES)
    }
}

/// A pool, as one of the two processes has it mapped.
pub(crate) struct PoolMemory {
    data: SharedMapping,
    states: SharedMapping,
    shape: PoolShape,
    /// Process that mapped them.
    generation: Generation,
    /// Slots that this process writes to. The states alone would not do: the peer can change them.
    drafted: Mutex<Vec<bool>>,
}

impl PoolMemory {
    /// Puts both mappings together; `None` if one of them is shorter than the shape says.
    pub(crate) fn new(
        data: SharedMapping,
        states: SharedMapping,
        shape: PoolShape,
    ) -> Option<PoolMemory> {
        let fits =
            data.length() >= shape.data_bytes()? && states.length() >= shape.state_bytes()?;
        let drafted = Mutex::new(vec![false; shape.slots]);
        let generation = Generation::current();
        fits.then_some(PoolMemory { data, states, shape, generation, drafted })
    }

    pub(crate) fn shape(&self) -> PoolShape {
        self.shape
    }

    fn drafted(&self) -> MutexGuard<'_, Vec<bool>> {
        self.drafted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self, slot: usize) -> &AtomicU32 {
        assert!(slot < self.shape.slots, "slot {slot} of {}", self.shape.slots);
        // SAFETY: `new` checked that the states of all slots lie in the mapping.
        let at = unsafe { self.states.start().add(slot * STATE_BYTES) }.cast();
        // SAFETY: mapped as long as `self`, writable, and aligned, because a mapping begins with a page; every
        // access of this process is atomic, and no other process can make the memory shorter (F_SEAL_SHRINK).
        unsafe { AtomicU32::from_ptr(at.as_ptr()) }
    }

    /// Takes a free slot to write `length` bytes to, if there is one.
    pub(crate) fn draft(self: &Arc<PoolMemory>, length: usize) -> Option<Draft> {
        if length > self.shape.slot_bytes || !self.data.is_writable() || self.is_inherited() {
            return None;
        }
        let mut drafted = self.drafted();
        let is_free =
            |slot: &usize| !drafted[*slot] && self.state(*slot).load(Ordering::Acquire) == FREE;
        let slot = (0..self.shape.slots).find(is_free)?;
        drafted[slot] = true;
        Some(Draft { pool: self.clone(), slot, length })
    }

    /// Lends the first `length` bytes of a slot that the peer has sent; `None` if there are fewer.
    pub(crate) fn lend(
        self: &Arc<PoolMemory>,
        slot: usize,
        length: usize,
        _: TrustedPeer,
    ) -> Option<LentSlot> {
        let fits = slot < self.shape.slots && length <= self.shape.slot_bytes;
        fits.then(|| LentSlot { pool: self.clone(), slot, length })
    }

    /// Lets the sender write to a slot again.
    pub(crate) fn release(&self, slot: usize) {
        if slot < self.shape.slots && !self.is_inherited() {
            self.state(slot).store(FREE, Ordering::Release);
        }
    }

    /// Whether it belongs to the process that forked this one.
    fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }

    fn start_of(&self, slot: usize) -> std::ptr::NonNull<u8> {
        assert!(slot < self.shape.slots, "slot {slot} of {}", self.shape.slots);
        // SAFETY: `new` checked that all slots lie in the mapping.
        unsafe { self.data.start().add(slot * self.shape.slot_bytes) }
    }
}

/// A slot of a pool that this process writes to. Dropping it frees the slot.
pub struct Draft {
    pool: Arc<PoolMemory>,
    slot: usize,
    length: usize,
}

impl Draft {
    /// Returns the number of the slot.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    pub(crate) fn is_of(&self, pool: &Arc<PoolMemory>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// Marks the slot as lent to the peer, which frees it. To be called before the peer can know of it.
    pub(crate) fn lend(&self) {
        self.pool.state(self.slot).store(LENT, Ordering::Release);
    }

    /// Takes the slot back from a peer that was not told of it.
    pub(crate) fn take_back(&self) {
        self.pool.release(self.slot);
    }
}

impl Deref for Draft {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.pool.start_of(self.slot);
        // SAFETY: `draft` checked that the length is within the slot, which is mapped as long as the pool. This
        // process has one draft of a slot (`drafted`), and no other process can write to it: the memory is
        // sealed against every mapping that is newer than this one (F_SEAL_FUTURE_WRITE).
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl DerefMut for Draft {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.pool.start_of(self.slot);
        // SAFETY: as above, and `draft` checked that the mapping is writable.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.length) }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.pool.drafted()[self.slot] = false;
    }
}

/// A promise about the peer of a [`PayloadChannel`](crate::PayloadChannel), by which payloads in its pool are lent
/// from where they lie.
#[derive(Debug, Clone, Copy)]
pub struct TrustedPeer(());

impl TrustedPeer {
    /// Makes the promise.
    ///
    /// # Safety
    /// A peer whose channel this is given to writes to no slot of its pool that it has sent, until the payload is
    /// dropped here. A `&[u8]` whose bytes change is undefined behaviour, and the kernel does not prevent it: the peer
    /// mapped its pool before anybody could look. A `PayloadChannel` of this library keeps the promise; a process that
    /// somebody has taken over does not.
    #[must_use]
    pub unsafe fn promise() -> TrustedPeer {
        TrustedPeer(())
    }
}

/// A slot of a pool that the peer has sent. Dropping it lets the peer use it again.
pub(crate) struct LentSlot {
    pool: Arc<PoolMemory>,
    slot: usize,
    length: usize,
}

impl Deref for LentSlot {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.pool.start_of(self.slot);
        // SAFETY: `lend` checked that the length is within the slot, which is mapped as long as the pool. This
        // process has no draft of a pool of its peer, and whoever made the `TrustedPeer` promised that the peer
        // does not write to the slot.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl Drop for LentSlot {
    fn drop(&mut self) {
        self.pool.release(self.slot);
    }
}
