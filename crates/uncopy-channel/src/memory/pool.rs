//! Message buffers: a pool by size class, last in, first out, so that the next message uses cached
//! memory and the steady state allocates nothing.
//!
//! Each thread has a cache. A thread that only returns buffers (a reader) gives them to a depot in
//! batches, and one that only takes buffers (a writer) fetches batches from there: one lock for
//! [`BATCH`] buffers (the magazines of Bonwick and Adams, USENIX 2001). The depot's locks are only
//! tried, never waited for: if one is held, a buffer is allocated or freed instead, and a child
//! forked while another thread held one does not hang.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Mutex;

use super::gather::Filling;

/// Size classes: powers of two from 64 to 65,536 bytes.
const CLASSES: usize = 11;
const MIN_BYTES: usize = 64;
/// Alignment of buffers: a cache line, more than any field of a message needs.
const ALIGN: usize = 64;
/// Maximum number of buffers of one class in a thread's cache; half of them go to the depot at once.
const KEEP: u32 = 16;
/// Number of buffers that move between a thread and the depot together.
const BATCH: u32 = KEEP / 2;
/// Maximum number of batches of one class in the depot.
const DEPOT_BATCHES: usize = 16;
/// Maximum size of received messages that are copied out of the larger buffer they were received into.
const COPIED_BYTES: usize = 16 << 10;
/// Class of an empty message, which has no memory.
const NONE: u8 = u8::MAX;

/// First bytes of a free buffer.
struct Free {
    next: Option<NonNull<Free>>,
}

/// Free buffers of one class, linked through their own memory.
struct Stack {
    top: Cell<Option<NonNull<Free>>>,
    count: Cell<u32>,
}

/// A list of free buffers, which it owns.
struct Batch {
    top: Option<NonNull<Free>>,
    class: u8,
}

// SAFETY: a batch owns its free buffers alone, and they have no tie to the thread that used them.
unsafe impl Send for Batch {}

struct Cache {
    stacks: [Stack; CLASSES],
}

static DEPOT: [Mutex<Vec<Batch>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

thread_local! {
    static CACHE: Cache = const {
        Cache {
            stacks: [const { Stack { top: Cell::new(None), count: Cell::new(0) } }; CLASSES],
        }
    };
}

fn layout(class: u8) -> Layout {
    let size = MIN_BYTES << class;
    Layout::from_size_align(size, ALIGN).expect("at most 65,536 bytes, aligned to 64")
}

fn class_of(length: usize) -> u8 {
    let size = length.max(MIN_BYTES).next_power_of_two();
    u8::try_from(size.trailing_zeros() - MIN_BYTES.trailing_zeros()).unwrap_or(NONE)
}

impl Stack {
    #[inline]
    fn push(&self, start: NonNull<u8>) {
        let free = start.cast::<Free>();
        // SAFETY: a free buffer of at least 64 bytes, aligned to 64, that nothing else refers to.
        unsafe { free.write(Free { next: self.top.get() }) };
        self.top.set(Some(free));
        self.count.set(self.count.get() + 1);
    }

    #[inline]
    fn pop(&self) -> Option<NonNull<u8>> {
        let free = self.top.get()?;
        // SAFETY: the entry was written by `push` and has not been changed since.
        self.top.set(unsafe { free.as_ref() }.next);
        self.count.set(self.count.get() - 1);
        Some(free.cast())
    }

    #[cold]
    fn spill(&self, class: u8) {
        let rest = Stack { top: Cell::new(None), count: Cell::new(0) };
        for _ in 0..BATCH {
            if let Some(start) = self.pop() {
                rest.push(start);
            }
        }
        let batch = Batch { top: rest.top.take(), class };
        if let Ok(mut depot) = DEPOT[usize::from(class)].try_lock()
            && depot.len() < DEPOT_BATCHES
        {
            depot.push(batch);
        }
    }

    #[cold]
    fn refill(&self, class: u8) -> Option<NonNull<u8>> {
        let mut batch = DEPOT[usize::from(class)].try_lock().ok()?.pop()?;
        self.top.set(batch.top.take());
        self.count.set(BATCH);
        self.pop()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let rest = Stack { top: Cell::new(self.top.take()), count: Cell::new(u32::MAX) };
        while let Some(start) = rest.pop() {
            // SAFETY: allocated with this class's layout, and popped from the only list it is on.
            unsafe { dealloc(start.as_ptr(), layout(self.class)) };
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for (class, stack) in (0..).zip(&self.stacks) {
            drop(Batch { top: stack.top.take(), class });
        }
    }
}

#[inline]
fn take(class: u8) -> NonNull<u8> {
    let cached = CACHE.try_with(|cache| {
        let stack = &cache.stacks[usize::from(class)];
        stack.pop().or_else(|| stack.refill(class))
    });
    match cached {
        Ok(Some(start)) => start,
        _ => allocate(class),
    }
}

#[cold]
fn allocate(class: u8) -> NonNull<u8> {
    // SAFETY: the layout's size is not zero.
    let start = unsafe { alloc(layout(class)) };
    let Some(start) = NonNull::new(start) else { handle_alloc_error(layout(class)) };
    start
}

#[inline]
fn put_back(start: NonNull<u8>, class: u8) {
    let kept = CACHE.try_with(|cache| {
        let stack = &cache.stacks[usize::from(class)];
        stack.push(start);
        if stack.count.get() > KEEP {
            stack.spill(class);
        }
    });
    if kept.is_err() {
        // SAFETY: allocated with this class's layout; the thread is ending and has no cache left.
        unsafe { dealloc(start.as_ptr(), layout(class)) };
    }
}

/// Bytes of one message, at most 65,536, all initialised. Returns to the pool when dropped.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    length: u32,
    class: u8,
}

// SAFETY: a buffer owns its memory alone, like a `Vec<u8>`.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read.
unsafe impl Sync for Buffer {}

/// Uninitialised memory for a [`Buffer`]; returns to the pool if it does not become one.
struct Vacant {
    start: NonNull<u8>,
    class: u8,
}

impl Vacant {
    fn new(length: usize) -> Vacant {
        let class = class_of(length);
        Vacant { start: take(class), class }
    }

    /// Size in bytes.
    fn size(&self) -> usize {
        MIN_BYTES << self.class
    }

    /// Returns the first `length` bytes.
    ///
    /// # Safety
    /// `length` is at most [`size`](Self::size), the bytes are not borrowed elsewhere, and `self`
    /// outlives the borrow.
    unsafe fn space<'a>(&self, length: usize) -> &'a mut [MaybeUninit<u8>] {
        let space = self.start.cast::<MaybeUninit<u8>>().as_ptr();
        // SAFETY: the caller's; `MaybeUninit` bytes have no other requirement.
        unsafe { std::slice::from_raw_parts_mut(space, length) }
    }

    /// Makes a buffer of the first `length` bytes, which have been initialised.
    fn become_buffer(self, length: usize) -> Buffer {
        let length = u32::try_from(length).unwrap_or(0);
        let buffer = Buffer { start: self.start, length, class: self.class };
        std::mem::forget(self);
        buffer
    }
}

impl Drop for Vacant {
    fn drop(&mut self) {
        put_back(self.start, self.class);
    }
}

impl Buffer {
    /// Maximum length.
    pub(crate) const MAX_BYTES: usize = MIN_BYTES << (CLASSES - 1);

    /// Returns a buffer without bytes and memory.
    pub(crate) const fn empty() -> Buffer {
        Buffer { start: NonNull::dangling(), length: 0, class: NONE }
    }

    /// Returns a buffer of `length` bytes that `fill` writes completely.
    ///
    /// # Errors
    /// The error of `fill`, or `short` if it wrote fewer bytes. The memory then returns to the pool,
    /// also if `fill` panics.
    ///
    /// # Panics
    /// If `length` is above [`MAX_BYTES`](Self::MAX_BYTES).
    #[inline]
    pub(crate) fn filled<E>(
        length: usize,
        fill: impl FnOnce(&mut Filling<'_>) -> Result<(), E>,
        short: E,
    ) -> Result<Buffer, E> {
        assert!(length <= Self::MAX_BYTES, "a message of {length} bytes");
        if length == 0 {
            fill(&mut Filling::new(&mut []))?;
            return Ok(Buffer::empty());
        }
        let vacant = Vacant::new(length);
        // SAFETY: `vacant` has at least `length` bytes, owns them until the end of this function,
        // and they are lent out once.
        let space = unsafe { vacant.space(length) };
        let mut filling = Filling::new(space);
        fill(&mut filling)?;
        if filling.remaining() != 0 {
            return Err(short);
        }
        Ok(vacant.become_buffer(length))
    }

    /// Returns a buffer of what `receive` writes into two spaces of together `room` bytes; the second
    /// is used only after the first is full. A message of the size class of `expected` bytes stays
    /// where it was written; any other short one is copied into memory of its own size class.
    ///
    /// # Errors
    /// The error of `receive`.
    ///
    /// # Panics
    /// If `room` is zero or above [`MAX_BYTES`](Self::MAX_BYTES), or if `receive` returns bytes
    /// from other memory.
    #[inline]
    pub(crate) fn received<E>(
        expected: usize,
        room: usize,
        receive: impl for<'a> FnOnce([&'a mut [MaybeUninit<u8>]; 2]) -> Result<[&'a mut [u8]; 2], E>,
    ) -> Result<Buffer, E> {
        assert!((1..=Self::MAX_BYTES).contains(&room), "room for {room} bytes");
        let first = Vacant::new(if expected <= COPIED_BYTES { expected.min(room) } else { room });
        let border = first.size().min(room);
        let large = Vacant::new(room);
        // SAFETY: as in `filled`.
        let first_space = unsafe { first.space(border) };
        // SAFETY: as in `filled`.
        let (in_front, behind) = unsafe { large.space(room) }.split_at_mut(border);
        let behind_start = behind.as_ptr();
        let [head, rest] = receive([first_space, behind])?;
        let is_own = head.len() <= border
            && (head.is_empty() || head.as_ptr() == first.start.as_ptr())
            && (rest.is_empty() || (rest.as_ptr() == behind_start.cast() && head.len() == border));
        assert!(is_own && rest.len() <= room - border, "received elsewhere");
        let length = head.len() + rest.len();
        if length == 0 {
            return Ok(Buffer::empty());
        }
        let is_short = length <= COPIED_BYTES;
        if rest.is_empty() && (!is_short || class_of(length) == first.class) {
            return Ok(first.become_buffer(length));
        }
        if !is_short {
            in_front.write_copy_of_slice(head);
            return Ok(large.become_buffer(length));
        }
        let own = Vacant::new(length);
        // SAFETY: as in `filled`.
        let (own_head, own_rest) = unsafe { own.space(length) }.split_at_mut(head.len());
        own_head.write_copy_of_slice(head);
        own_rest.write_copy_of_slice(rest);
        Ok(own.become_buffer(length))
    }

    /// Removes everything behind the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(u32::try_from(length).unwrap_or(u32::MAX));
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `length` initialised bytes that this buffer owns; dangling only if it is 0.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length as usize) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length as usize) }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if self.class != NONE {
            put_back(self.start, self.class);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::{Buffer, KEEP, class_of};

    fn of(length: usize, byte: u8) -> Buffer {
        let bytes = vec![byte; length];
        Buffer::filled(length, |filling| filling.append(&bytes).map_err(|_| ()), ()).unwrap()
    }

    #[test]
    fn classes_are_powers_of_two_from_64_to_65536() {
        for (length, class) in
            [(1, 0), (64, 0), (65, 1), (128, 1), (129, 2), (4096, 6), (4097, 7), (65_536, 10)]
        {
            assert_eq!(class_of(length), class, "{length}");
        }
    }

    #[test]
    fn the_last_returned_buffer_is_the_next_one_taken() {
        let first = of(100, 1);
        let address = first.as_ptr();
        drop(first);
        let second = of(90, 2);
        assert_eq!(second.as_ptr(), address);
        assert_eq!(second.as_ptr() as usize % 64, 0);
        assert!(second.iter().all(|b| *b == 2) && second.len() == 90);
    }

    #[test]
    fn buffers_travel_from_a_thread_that_frees_to_one_that_takes() {
        let (many, length) = (KEEP as usize * 4, 3000);
        let buffers: Vec<Buffer> = (0..many).map(|_| of(length, 7)).collect();
        let mut addresses: Vec<usize> = buffers.iter().map(|b| b.as_ptr() as usize).collect();
        std::thread::spawn(move || drop(buffers)).join().unwrap();
        addresses.sort_unstable();
        let again: Vec<Buffer> = (0..KEEP).map(|_| of(length, 8)).collect();
        let known = |b: &Buffer| addresses.binary_search(&(b.as_ptr() as usize)).is_ok();
        assert!(again.iter().any(known), "none of {many} buffers came back through the depot");
    }

    fn initialised<'a>(space: &'a mut [MaybeUninit<u8>], bytes: &[u8]) -> &'a mut [u8] {
        space[..bytes.len()].write_copy_of_slice(bytes)
    }

    #[test]
    fn a_received_message_takes_memory_of_its_size_class() {
        let bytes: Vec<u8> = (0..65_536u32).map(|n| (n % 251) as u8).collect();
        let sizes = [(1, 0), (64, 0), (100, 1), (4096, 6), (16_384, 8), (16_385, 10), (65_536, 10)];
        for expected in [0, 1, 64, 90, 4096, 16_384, 16_385, 65_536] {
            for (length, class) in sizes {
                let received = Buffer::received(expected, 65_536, |[first, second]| {
                    let (head, rest) = bytes[..length].split_at(length.min(first.len()));
                    Ok::<_, ()>([initialised(first, head), initialised(second, rest)])
                });
                let mut buffer = received.unwrap();
                let kept = if expected <= 16_384 && length > 16_384 { 10 } else { class };
                assert_eq!((buffer.len(), buffer.class), (length, kept), "{expected}");
                assert_eq!(*buffer, bytes[..length], "{expected}");
                buffer.truncate(length / 2);
                assert_eq!(buffer.len(), length / 2);
            }
        }
        let nothing = Buffer::received(64, 65_536, |[first, second]| {
            Ok::<_, ()>([initialised(first, &[]), initialised(second, &[])])
        });
        assert!(nothing.unwrap().is_empty());
        assert_eq!(Buffer::received(64, 64, |_| Err("refused")).err(), Some("refused"));
    }

    #[test]
    fn a_message_of_the_expected_size_is_not_copied() {
        let mut written = std::ptr::null();
        let buffer = Buffer::received(3000, 65_536, |[first, second]| {
            let head = initialised(first, &[7; 2500]);
            written = head.as_ptr();
            Ok::<_, ()>([head, initialised(second, &[])])
        });
        assert_eq!(buffer.unwrap().as_ptr(), written);
    }

    #[test]
    #[should_panic(expected = "received elsewhere")]
    fn bytes_in_the_second_space_after_a_partial_first_are_refused() {
        let _ = Buffer::received(64, 65_536, |[first, second]| {
            Ok::<_, ()>([initialised(first, &[1]), initialised(second, &[2])])
        });
    }

    #[test]
    fn a_partly_filled_buffer_is_an_error() {
        let short =
            Buffer::filled(10, |filling| filling.append(b"123").map_err(|_| "long"), "short");
        assert_eq!(short.err(), Some("short"));
        let long = Buffer::filled(2, |filling| filling.append(b"123").map_err(|_| "long"), "short");
        assert_eq!(long.err(), Some("long"));
        assert!(Buffer::filled(0, |_| Ok::<(), ()>(()), ()).unwrap().is_empty());
    }
}
