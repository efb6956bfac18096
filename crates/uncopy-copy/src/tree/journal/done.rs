//! Stores which files an earlier run finished. A limited number of digests is kept in memory;
//! further ones go to an unlinked file in sorted portions, and the first of each page is kept.

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::journal::format::{JournalVisitor, Short};
use crate::tree::unlinked;
use uncopy_os::{Sys, transfer};

/// Digests that are kept in memory: 4 MiB of them.
const MAX_KEPT: usize = 1 << 18;

/// Digests that are read together: 4 KiB of them.
const PAGE: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Done {
    kept: Vec<Short>,
    spilled: Option<Spilled>,
}

#[derive(Debug)]
struct Spilled {
    file: OwnedFd,
    bytes: u64,
    portions: Vec<Portion>,
}

/// A sorted portion of the file.
#[derive(Debug)]
struct Portion {
    offset: u64,
    length: usize,
    /// The first digest of each page.
    firsts: Vec<Short>,
}

/// Adds digests.
pub(super) struct Collecting<'a> {
    done: Done,
    max_kept: usize,
    directory: BorrowedFd<'a>,
}

impl Done {
    /// Adds digests; those beyond the limit go to the filesystem of this directory.
    pub(super) fn collect(directory: BorrowedFd<'_>) -> Collecting<'_> {
        Collecting { done: Done::default(), max_kept: MAX_KEPT, directory }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.spilled.is_none()
    }

    /// Whether a file is done. A file whose digest cannot be read is copied again.
    pub(super) fn contains(&self, file: &Short) -> bool {
        let is_spilled = |spilled: &Spilled| spilled.contains(file).unwrap_or(false);
        self.kept.binary_search(file).is_ok() || self.spilled.as_ref().is_some_and(is_spilled)
    }

    /// Sorts the digests in memory, writes them, and forgets them.
    fn spill(&mut self, directory: BorrowedFd<'_>) -> Sys<()> {
        self.kept.sort_unstable();
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => {
                let file = unlinked::file(directory, "done")?;
                none.insert(Spilled { file, bytes: 0, portions: Vec::new() })
            }
        };
        spilled.add(&self.kept)?;
        self.kept.clear();
        Ok(())
    }
}

impl Spilled {
    fn add(&mut self, sorted: &[Short]) -> Sys<()> {
        let bytes = sorted.as_flattened();
        transfer::write_all_at(&self.file, bytes, self.bytes)?;
        let firsts = sorted.iter().step_by(PAGE).copied().collect();
        self.portions.push(Portion { offset: self.bytes, length: sorted.len(), firsts });
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn contains(&self, file: &Short) -> Sys<bool> {
        let mut page = [[0; size_of::<Short>()]; PAGE];
        for portion in &self.portions {
            let Some(number) = portion.firsts.partition_point(|first| first <= file).checked_sub(1)
            else {
                continue;
            };
            let begin = number * PAGE;
            let page = &mut page[..PAGE.min(portion.length - begin)];
            let offset = portion.offset + (begin * size_of::<Short>()) as u64;
            let bytes = page.as_flattened_mut();
            let is_whole = transfer::read_all_at(&self.file, bytes, offset)? == bytes.len();
            if is_whole && page.binary_search(file).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Collecting<'_> {
    /// Returns all digests.
    pub(super) fn end(mut self) -> Done {
        self.done.kept.sort_unstable();
        self.done
    }
}

impl JournalVisitor for Collecting<'_> {
    fn done(&mut self, files: &[Short]) {
        self.done.kept.extend_from_slice(files);
        // Without space on the disk all digests stay in memory.
        if self.done.kept.len() >= self.max_kept && self.done.spill(self.directory).is_err() {
            self.max_kept = usize::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;
    use crate::journal::format::short;

    fn digest(number: u32) -> Short {
        short(blake3::hash(&number.to_le_bytes()))
    }

    /// The even numbers below `end`, in frames of 10.
    fn collect(end: u32, max_kept: usize, directory: &File) -> Done {
        let mut collecting = Collecting { max_kept, ..Done::collect(directory.as_fd()) };
        let digests: Vec<_> = (0..end).step_by(2).map(digest).collect();
        digests.chunks(10).for_each(|frame| collecting.done(frame));
        collecting.end()
    }

    #[test]
    fn what_was_done_is_found_and_nothing_else() {
        let directory = File::open(std::env::temp_dir()).unwrap();
        // Cases: all in memory; portions of less than a page, of many pages, and none left in
        // memory.
        for (end, max_kept, portions) in
            [(0, 10, 0), (2000, 5000, 0), (2000, 90, 11), (9000, 1700, 2), (2000, 500, 2)]
        {
            let done = collect(end, max_kept, &directory);
            let found = done.spilled.as_ref().map_or(0, |spilled| spilled.portions.len());
            assert_eq!(found, portions, "{end} {max_kept}");
            assert!(done.kept.len() < max_kept);
            assert_eq!(done.is_empty(), end == 0);
            for number in 0..end + 10 {
                let expected = number < end && number % 2 == 0;
                assert_eq!(done.contains(&digest(number)), expected, "{end} {max_kept} {number}");
            }
        }
    }

    #[test]
    fn without_a_place_on_disk_all_stays_in_memory() {
        // No file can be made there.
        let done = collect(2000, 90, &File::open("/proc").unwrap());
        assert!(done.spilled.is_none());
        assert!((0..2000).all(|number| done.contains(&digest(number)) == (number % 2 == 0)));
    }

    #[test]
    fn what_cannot_be_read_is_not_done() {
        let directory = File::open(std::env::temp_dir()).unwrap();
        let done = collect(2000, 500, &directory);
        let spilled = done.spilled.as_ref().unwrap();
        uncopy_os::file::truncate(&spilled.file, 16).unwrap();
        assert!((0..2000).all(|number| !done.contains(&digest(number))));
    }
}
