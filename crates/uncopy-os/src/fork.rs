//! Whether this process is still the one that made an object.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// A number that differs in a process and in the children it forks, grandchildren included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u32);

/// A page that the kernel empties in a forked child (`MADV_WIPEONFORK`, Linux 4.14), so that no
/// fork goes unseen, not even a bare `clone(2)`; it costs two loads to look.
struct Witness {
    page: NonNull<AtomicU32>,
    /// Counts generations; survives a fork, unlike the page.
    last: AtomicU32,
}

// SAFETY: the page holds an atomic number, is never unmapped, and everybody only loads and stores.
unsafe impl Send for Witness {}
// SAFETY: as above.
unsafe impl Sync for Witness {}

static WITNESS: OnceLock<Option<Witness>> = OnceLock::new();

const PAGE_BYTES: usize = 4096;

fn make_witness() -> Option<Witness> {
    let flags = MapFlags::PRIVATE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE_BYTES, access, flags) }.ok()?;
    // SAFETY: the range was mapped above, and holds nothing yet.
    unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.ok()?;
    Some(Witness { page: NonNull::new(page.cast())?, last: AtomicU32::new(0) })
}

impl Generation {
    /// That of the calling process. Where the kernel gives no such page (before 4.14), forks go
    /// unseen and it is always the same.
    #[inline]
    pub fn current() -> Generation {
        let Some(Some(witness)) = WITNESS.get() else { return Generation::first() };
        // SAFETY: the page is mapped for good, aligned, and holds an atomic number.
        let number = unsafe { witness.page.as_ref() };
        match number.load(Ordering::Relaxed) {
            0 => witness.renew(number),
            n => Generation(n),
        }
    }

    #[cold]
    fn first() -> Generation {
        match WITNESS.get_or_init(make_witness) {
            Some(_) => Generation::current(),
            None => Generation(0),
        }
    }
}

impl Witness {
    #[cold]
    fn renew(&self, number: &AtomicU32) -> Generation {
        let fresh = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        // Two threads of a child may both find the page empty; the first number stays.
        match number.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Generation(fresh),
            Err(other) => Generation(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use testbed::in_a_child;

    use super::Generation;

    #[test]
    fn differs_in_a_child_and_in_its_child() {
        let here = Generation::current();
        assert!(in_a_child(|| {
            let child = Generation::current();
            let inner = in_a_child(|| ![here, child].contains(&Generation::current()));
            child != here && inner
        }));
        assert_eq!(Generation::current(), here);
    }

    #[test]
    fn stays_the_same_within_a_process() {
        let here = Generation::current();
        assert_eq!(std::thread::spawn(Generation::current).join().unwrap(), here);
        assert_eq!(Generation::current(), here);
    }
}
