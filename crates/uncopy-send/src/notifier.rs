//! Notifiers: one event for many sends, when all their buffers are free again. Pure.
//!
//! The fourth version of io_uring's zero-copy send patches had notifiers in the kernel. Released versions of
//! Linux post one notification for each send; here they are counted together.

use super::releases::Releases;
use crate::room::sequence_map::SequenceMap;
use uncopy_core::Objection;

/// Maximum number of slots.
pub const MAX_SLOTS: usize = 1 << 15;

/// The event that all sends bound to a notifier have been released.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification<T> {
    /// The tag that the slot was registered with.
    pub tag: u64,
    /// Always 0.
    pub result: i32,
    /// Number of the notifier in its slot, counted from 0 and wrapping at 2³².
    pub sequence: u32,
    /// The releases of the sends, in the order in which they came.
    pub releases: Releases<T>,
}

fn no_such_slot(count: usize) -> Objection {
    Objection::NoSuchSlot { slots: count as u64 }
}

/// A send's claim on a notifier.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Binding(u32);

#[derive(Debug)]
struct Slot {
    tag: u64,
    next_sequence: u32,
    /// Notifier that sends are bound to now. `None`: none was needed since the last flush.
    current: Option<usize>,
}

#[derive(Debug)]
struct Notifier<T> {
    tag: u64,
    sequence: u32,
    /// Number of bound sends that are not released.
    pending: usize,
    releases: Releases<T>,
    is_sealed: bool,
}

/// The slots of a ring, with their current and former notifiers.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot>,
    /// `None`: the place is free, and listed in `vacant`.
    notifiers: Vec<Option<Notifier<T>>>,
    vacant: Vec<usize>,
    /// Indices of complete notifiers.
    posted: SequenceMap<usize>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots {
            slots: Vec::new(),
            notifiers: Vec::new(),
            vacant: Vec::new(),
            posted: SequenceMap::new(),
        }
    }

    /// Registers one slot for each tag.
    pub(crate) fn register(&mut self, tags: &[u64]) -> Result<(), Objection> {
        self.register_from(tags, 0)
    }

    fn register_from(&mut self, tags: &[u64], next_sequence: u32) -> Result<(), Objection> {
        if !self.slots.is_empty() {
            return Err(Objection::SlotsRegistered);
        }
        if tags.is_empty() || tags.len() > MAX_SLOTS {
            return Err(Objection::SlotCount { most: MAX_SLOTS as u64 });
        }
        let slot = |tag: &u64| Slot { tag: *tag, next_sequence, current: None };
        self.slots = tags.iter().map(slot).collect();
        Ok(())
    }

    /// Removes all slots, and flushes their notifiers.
    pub(crate) fn unregister(&mut self) {
        for slot in std::mem::take(&mut self.slots) {
            if let Some(index) = slot.current {
                self.seal(index);
            }
        }
    }

    /// Binds a send to the current notifier of the slot.
    pub(crate) fn bind(&mut self, slot: u32) -> Result<Binding, Objection> {
        let index = self.current(slot)?;
        if let Some(notifier) = &mut self.notifiers[index] {
            notifier.pending += 1;
        }
        // Each notifier in use takes memory, so there are fewer than 2³².
        Ok(Binding(index as u32))
    }

    /// Binds a send to the current notifier of the slot, seals the notifier, and puts a fresh one into the
    /// slot.
    pub(crate) fn bind_and_seal(&mut self, slot: u32) -> Result<Binding, Objection> {
        let binding = self.bind(slot)?;
        self.slots[slot as usize].current = None;
        // It cannot be complete: the send just bound is not released.
        if let Some(notifier) = &mut self.notifiers[binding.0 as usize] {
            notifier.is_sealed = true;
        }
        Ok(binding)
    }

    /// Releases a bound send.
    #[allow(clippy::needless_pass_by_value, reason = "a binding is used once")]
    pub(crate) fn release(&mut self, binding: Binding, release: T) {
        let index = binding.0 as usize;
        let Some(notifier) = &mut self.notifiers[index] else { return };
        notifier.pending -= 1;
        notifier.releases.push(release);
        self.post_if_complete(index);
    }

    /// Seals the notifier in each of the slots, and puts a fresh one there.
    ///
    /// # Errors
    /// One of the slots does not exist; no notifier is sealed then.
    pub(crate) fn flush(&mut self, slots: &[u32]) -> Result<(), Objection> {
        let count = self.slots.len();
        if slots.iter().any(|slot| *slot as usize >= count) {
            return Err(no_such_slot(count));
        }
        for slot in slots {
            let index = self.current(*slot)?;
            self.slots[*slot as usize].current = None;
            self.seal(index);
        }
        Ok(())
    }

    /// Checks that the slot exists.
    pub(crate) fn has(&self, slot: u32) -> Result<(), Objection> {
        match self.slots.get(slot as usize) {
            Some(_) => Ok(()),
            None => Err(no_such_slot(self.slots.len())),
        }
    }

    /// Returns the number of notifications that were not taken.
    #[inline]
    pub(crate) fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Takes the next notification, in the order in which notifiers became complete.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Notification<T>> {
        let index = self.posted.pop()?;
        self.vacant.push(index);
        let Notifier { tag, sequence, releases, .. } = self.notifiers[index].take()?;
        Some(Notification { tag, result: 0, sequence, releases })
    }

    /// Returns all releases that were not taken with a notification.
    pub(crate) fn into_releases(mut self) -> Vec<T> {
        let posted: Vec<Notification<T>> = std::iter::from_fn(|| self.next()).collect();
        let posted = posted.into_iter().flat_map(|notification| notification.releases);
        let held = self.notifiers.into_iter().flatten().flat_map(|notifier| notifier.releases);
        posted.chain(held).collect()
    }

    /// Returns the current notifier of a slot; makes one if there is none.
    fn current(&mut self, slot: u32) -> Result<usize, Objection> {
        let count = self.slots.len();
        let slot = self.slots.get_mut(slot as usize);
        let slot = slot.ok_or(no_such_slot(count))?;
        if let Some(index) = slot.current {
            return Ok(index);
        }
        let sequence = slot.next_sequence;
        slot.next_sequence = sequence.wrapping_add(1);
        let releases = Releases::new();
        let notifier = Notifier { tag: slot.tag, sequence, pending: 0, releases, is_sealed: false };
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                self.notifiers.push(None);
                self.notifiers.len() - 1
            }
        };
        self.notifiers[index] = Some(notifier);
        slot.current = Some(index);
        Ok(index)
    }

    fn seal(&mut self, index: usize) {
        if let Some(notifier) = &mut self.notifiers[index] {
            notifier.is_sealed = true;
            self.post_if_complete(index);
        }
    }

    fn post_if_complete(&mut self, index: usize) {
        let complete = |notifier: &Notifier<T>| notifier.is_sealed && notifier.pending == 0;
        if self.notifiers[index].as_ref().is_some_and(complete) {
            self.posted.push(index);
        }
    }
}

#[cfg(test)]
mod tests;
