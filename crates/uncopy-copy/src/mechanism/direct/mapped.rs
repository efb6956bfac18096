//! Writes the source's own page-cache pages with `O_DIRECT`, through a mapping.

use super::{Ends, Moved, Refused, WholeBlocks};
use uncopy_core::Cost;
use uncopy_os::mapping::Mapping;
use uncopy_os::{Sys, file};

/// How much of the source is mapped at a time: page tables for it stay below 1 MiB.
const WINDOW_BYTES: u64 = 256 << 20;

/// One write; the kernel splits it into requests of the device's size, all in flight at once.
const WRITE_BYTES: u64 = 32 << 20;

pub(super) struct Mapped {
    cost: Cost,
    window: Option<Window>,
}

struct Window {
    mapping: Mapping,
    start: u64,
    end: u64,
}

impl Mapped {
    pub(super) fn new(cost: Cost) -> Mapped {
        Mapped { cost, window: None }
    }

    /// Returns the window that covers `offset`, mapped again if necessary.
    fn window(&mut self, ends: Ends<'_>, offset: u64) -> Sys<Option<&Window>> {
        if !self.window.as_ref().is_some_and(|w| (w.start..w.end).contains(&offset)) {
            self.window = None;
            let size = file::stat(ends.source)?.size;
            if offset >= size {
                return Ok(None);
            }
            // Offsets of mappings are multiples of the page size, and so is WINDOW_BYTES.
            let start = offset - offset % WINDOW_BYTES;
            let length = WINDOW_BYTES.min(size - start);
            // Whole pages: behind the end of the file the last one holds zeros.
            let end = start + length.next_multiple_of(rustix::param::page_size() as u64);
            let mapping = Mapping::new(ends.source, start, (end - start) as usize)?;
            let _ = file::read_ahead(ends.source, offset, end - offset);
            self.window = Some(Window { mapping, start, end });
        }
        Ok(self.window.as_ref())
    }
}

impl WholeBlocks for Mapped {
    fn blocks(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        let cost = self.cost;
        let window = self.window(ends, offset).map_err(Refused::at_source)?;
        let Some(window) = window else { return Ok(Moved::data(0, cost)) };
        let length = length.min(window.end - offset).min(WRITE_BYTES) as usize;
        let skip = (offset - window.start) as usize;
        // A page of the source that cannot be read is EFAULT here.
        let n = window
            .mapping
            .write_at(skip, length, ends.destination, offset)
            .map_err(Refused::at_destination)?;
        Ok(Moved::data(n, cost))
    }
}
