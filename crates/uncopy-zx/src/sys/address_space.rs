//! Mappings that the program made through this library, so that it unmaps no other memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use uncopy_channel::Status;

use super::fork::{self, fork_locks};

/// How memory is mapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Whether all pages are mapped now.
    pub(crate) populates: bool,
    /// Whether nobody can write to the memory any more.
    pub(crate) is_sealed: bool,
}

/// Returns the page size of the processor.
pub(crate) fn page_bytes() -> usize {
    rustix::param::page_size()
}

fork_locks! {
    /// Address ranges of all mappings.
    Mapped: [Ranges; 1] = Ranges(BTreeMap::new())
}

/// Address ranges: the end by the beginning.
struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    /// Removes the parts that lie in `range`; returns them.
    fn cut(&mut self, range: Range<usize>) -> Vec<Range<usize>> {
        let below = self.0.range(..range.end).filter(|(_, end)| **end > range.start);
        let touched: Vec<_> = below.map(|(start, end)| *start..*end).collect();
        let mut parts = Vec::with_capacity(touched.len());
        for whole in touched {
            self.0.remove(&whole.start);
            let part = whole.start.max(range.start)..whole.end.min(range.end);
            if whole.start < part.start {
                self.0.insert(whole.start, part.start);
            }
            if part.end < whole.end {
                self.0.insert(part.end, whole.end);
            }
            parts.push(part);
        }
        parts
    }
}

/// Maps `length` bytes of a memory file from `offset`, a multiple of the page size, at an address of the kernel's
/// choice.
///
/// # Errors
/// [`Status::AccessDenied`] for writing to sealed memory; [`Status::NoMemory`].
pub(crate) fn map(
    memory: BorrowedFd<'_>,
    offset: u64,
    length: usize,
    access: Access,
) -> Result<usize, Status> {
    let offset = libc::off64_t::try_from(offset).map_err(|_| Status::OutOfRange)?;
    let mut protection = libc::PROT_NONE;
    protection |= if access.reads { libc::PROT_READ } else { 0 };
    protection |= if access.writes { libc::PROT_WRITE } else { 0 };
    let is_private = access.is_sealed && !access.writes;
    let mut flags = if is_private { libc::MAP_PRIVATE } else { libc::MAP_SHARED };
    flags |= if access.populates { libc::MAP_POPULATE } else { 0 };
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that anything else
    // owns. Rust never refers to it; the C program does, as it asked.
    let start =
        unsafe { libc::mmap64(null_mut(), length, protection, flags, memory.as_raw_fd(), offset) };
    if start == libc::MAP_FAILED {
        return Err(match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Status::AccessDenied,
            _ => Status::NoMemory,
        });
    }
    let start = start.expose_provenance();
    // Only now, because populating takes long. No other thread knows the address yet.
    fork::lock::<Mapped>(0).0.insert(start, start + length);
    Ok(start)
}

/// Unmaps what [`map`] mapped in a range of whole pages.
///
/// # Errors
/// [`Status::NotFound`] if that is nothing; [`Status::InvalidArgs`] if the range ends beyond the address space.
pub(crate) fn unmap(start: usize, length: usize) -> Result<(), Status> {
    let end = start.checked_add(length).ok_or(Status::InvalidArgs)?;
    let mut mapped = fork::lock::<Mapped>(0);
    let parts = mapped.cut(start..end);
    for part in &parts {
        let address = std::ptr::with_exposed_provenance_mut(part.start);
        // SAFETY: `map` mapped these pages, which Rust does not refer to, and nothing has unmapped them:
        // the lock is held and they were in the list. The C program asked for it.
        unsafe { libc::munmap(address, part.len()) };
    }
    if parts.is_empty() { Err(Status::NotFound) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Ranges;

    #[test]
    fn only_mapped_parts_are_cut() {
        let mut ranges = Ranges(BTreeMap::from([(10, 20), (30, 40), (40, 50)]));
        assert_eq!(ranges.cut(20..30), []);
        assert_eq!(ranges.cut(12..15), vec![12..15; 1]);
        assert_eq!(ranges.cut(0..11), vec![10..11; 1]);
        assert_eq!(ranges.cut(18..45), [18..20, 30..40, 40..45]);
        assert_eq!(ranges.0, BTreeMap::from([(11, 12), (15, 18), (45, 50)]));
        assert_eq!(ranges.cut(0..100), [11..12, 15..18, 45..50]);
        assert!(ranges.0.is_empty());
    }
}
