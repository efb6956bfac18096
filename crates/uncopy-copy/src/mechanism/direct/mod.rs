//! Moves bytes by `O_DIRECT`: the device reads and writes pages that no processor copied.

mod mapped;
mod ring;

use std::os::fd::OwnedFd;

use super::{Ends, Moved, Mover, Refused, Setting};
use uncopy_core::{Cost, Errno};
use uncopy_os::file::DirectAlign;
use uncopy_os::{Sys, file, transfer};

/// How the bytes behind the last whole block are written; `O_DIRECT` takes whole blocks only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Use an ordinary write.
    Written,
    /// Use `sendfile`: a copy, but not in this program.
    Sent,
    /// As a whole block, cut off afterwards: no copy, and the last block is read and zeroed.
    CutOff,
}

/// Used where the filesystem does not say: the largest logical block size in use.
const FALLBACK_ALIGN: DirectAlign = DirectAlign { memory: 4096, offset: 4096 };

/// Sets up writes of the source's mapped pages.
pub(super) fn mapped(ends: Ends<'_>, cost: Cost, setting: Setting) -> Sys<Box<dyn Mover>> {
    let align = setting.destination_align.unwrap_or(FALLBACK_ALIGN);
    Ok(Box::new(Direct::new(ends, mapped::Mapped::new(cost), align.offset, cost, setting.tail)?))
}

/// Sets up reads and writes past the page cache. An error: no io_uring here, not enough memory may be locked, or
/// one of the filesystems does not take the flag.
pub(super) fn ring(ends: Ends<'_>, cost: Cost, setting: Setting) -> Sys<Box<dyn Mover>> {
    let [read, written] = [setting.source_align, setting.destination_align]
        .map(|align| align.unwrap_or(FALLBACK_ALIGN).offset);
    let cost = match cost {
        Cost::Moved if !setting.source_moves => Cost::Unknown,
        other => other,
    };
    let ring = ring::Ring::new(ends, cost)?;
    Ok(Box::new(Direct::new(ends, ring, read.max(written), cost, setting.tail)?))
}

/// Moves whole blocks and leaves the rest to [`Direct`].
trait WholeBlocks {
    fn blocks(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused>;
}

/// Moves whole blocks by `B`, and the tail by buffered calls.
struct Direct<B> {
    whole: B,
    align: u64,
    cost: Cost,
    tail: Tail,
    /// A second reference to the destination, to take `O_DIRECT` off at the end.
    destination: OwnedFd,
    direct: bool,
}

impl<B> Direct<B> {
    fn new(ends: Ends<'_>, whole: B, align: u32, cost: Cost, tail: Tail) -> Sys<Direct<B>> {
        let destination = ends
            .destination
            .try_clone_to_owned()
            .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(Errno::EMFILE.raw())))?;
        let align = u64::from(align);
        let mut direct = Direct { whole, align, cost, tail, destination, direct: false };
        direct.set_direct(true)?;
        Ok(direct)
    }

    fn set_direct(&mut self, on: bool) -> Sys<()> {
        if self.direct != on {
            file::set_direct(&self.destination, on)?;
            self.direct = on;
        }
        Ok(())
    }
}

impl<B: WholeBlocks> Direct<B> {
    /// Moves bytes that do not fill a block, or that do not begin at one.
    fn step_tail(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        match self.tail {
            Tail::CutOff => {
                // This also holds after a ring: a direct read of a part of a block would come back
                // short. What lies before `offset` in its block is written once more.
                let (inside, mut last) = (offset % self.align, mapped::Mapped::new(self.cost));
                let moved = last.blocks(ends, offset - inside, self.align)?;
                let bytes = moved.bytes.saturating_sub(inside).min(length);
                if bytes == length {
                    self.set_direct(false)?;
                    file::truncate(ends.destination, offset + length)
                        .map_err(Refused::at_destination)?;
                }
                Ok(Moved { bytes, ..moved })
            }
            Tail::Sent => {
                self.set_direct(false)?;
                file::seek_to(ends.destination, offset)?;
                let n = transfer::sendfile(ends.source, ends.destination, offset, length as usize)?;
                Ok(Moved::data(n, Cost::KernelCopied))
            }
            Tail::Written => {
                self.set_direct(false)?;
                let mut block = vec![0; length.min(1 << 16) as usize];
                let n = transfer::read_at(ends.source, &mut block, offset)
                    .map_err(Refused::at_source)?;
                let n = transfer::write_at(ends.destination, &block[..n], offset)
                    .map_err(Refused::at_destination)?;
                Ok(Moved::data(n, Cost::UserCopied))
            }
        }
    }
}

impl<B: WholeBlocks> Mover for Direct<B> {
    fn step(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        let misaligned = offset % self.align;
        if misaligned != 0 {
            let head = (self.align - misaligned).min(length);
            return self.step_tail(ends, offset, head);
        }
        let whole = length - length % self.align;
        if whole == 0 {
            return self.step_tail(ends, offset, length);
        }
        self.set_direct(true)?;
        let moved = self.whole.blocks(ends, offset, whole);
        // In a trial another mechanism has the next turn.
        let _ = self.set_direct(false);
        moved
    }
}

impl<B> Drop for Direct<B> {
    fn drop(&mut self) {
        // Later writes may be unaligned. The flag was set by the same call.
        let _ = self.set_direct(false);
    }
}

/// `O_DIRECT` on a source, cleared on drop.
struct DirectSource<'a>(Ends<'a>);

impl<'a> DirectSource<'a> {
    fn new(ends: Ends<'a>) -> Sys<DirectSource<'a>> {
        file::set_direct(ends.source, true)?;
        Ok(DirectSource(ends))
    }
}

impl Drop for DirectSource<'_> {
    fn drop(&mut self) {
        // The flag was set by the same call.
        let _ = file::set_direct(self.0.source, false);
    }
}
