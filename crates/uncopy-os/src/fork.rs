//! Detects that an object is used in a child of `fork(2)`.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// A number that differs between a process and all its forked descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u32);

/// A page that the kernel zeroes in a forked child (`MADV_WIPEONFORK`, Linux 4.14), so that every fork is
/// detected, also a bare `clone(2)`. A check costs two loads.
struct ForkPage {
    page: NonNull<AtomicU32>,
    /// Counter of generations; unlike the page it survives a fork.
    last: AtomicU32,
}

// SAFETY: the page holds an atomic number, is never unmapped, and is accessed by atomic operations only.
unsafe impl Send for ForkPage {}
// SAFETY: as above.
unsafe impl Sync for ForkPage {}

static FORK_PAGE: OnceLock<Option<ForkPage>> = OnceLock::new();

const PAGE_BYTES: usize = 4096;

fn map_fork_page() -> Option<ForkPage> {
    let flags = MapFlags::PRIVATE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE_BYTES, access, flags) }.ok()?;
    // SAFETY: the range was mapped above, and holds nothing yet.
    unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.ok()?;
    Some(ForkPage { page: NonNull::new(page.cast())?, last: AtomicU32::new(0) })
}

impl Generation {
    /// Returns the generation of the calling process. On kernels before 4.14, which do not have such pages,
    /// forks are not detected and the generation is always the same.
    #[inline]
    pub fn current() -> Generation {
        let Some(Some(fork_page)) = FORK_PAGE.get() else { return Generation::first() };
        // SAFETY: the page is mapped for good, aligned, and holds an atomic number.
        let number = unsafe { fork_page.page.as_ref() };
        match number.load(Ordering::Relaxed) {
            0 => fork_page.renew(number),
            n => Generation(n),
        }
    }

    #[cold]
    fn first() -> Generation {
        match FORK_PAGE.get_or_init(map_fork_page) {
            Some(_) => Generation::current(),
            None => Generation(0),
        }
    }
}

impl ForkPage {
    #[cold]
    fn renew(&self, number: &AtomicU32) -> Generation {
        let fresh = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        // Two threads of a child may both find the page zero; the first number stays.
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
