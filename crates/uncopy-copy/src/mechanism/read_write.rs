//! Moves bytes by `pread(2)` and `pwrite(2)` through a buffer; works everywhere.

use std::os::fd::BorrowedFd;

use super::{Ends, Moved, Mover, Refused};
use crate::digest::StreamedDigest;
use crate::zeros;
use uncopy_core::Cost;
use uncopy_os::AlignedBuffer;
use uncopy_os::{Sys, file, transfer};

pub(super) struct ReadWrite {
    buffer: AlignedBuffer,
    /// Leave blocks of zeros out.
    find_zeros: bool,
    /// The destination may hold old bytes where zeros are left out.
    in_place: bool,
}

impl ReadWrite {
    pub(super) fn new(bytes: u64, find_zeros: bool, in_place: bool) -> Sys<ReadWrite> {
        let buffer = AlignedBuffer::new(bytes as usize)?;
        Ok(ReadWrite { buffer, find_zeros, in_place })
    }

    /// Writes `length` bytes of the buffer to `offset`, all of them.
    fn write(&self, ends: Ends<'_>, range: std::ops::Range<usize>, offset: u64) -> Sys<()> {
        transfer::write_all_at(ends.destination, &self.buffer[range], offset)
    }
}

impl Mover for ReadWrite {
    fn step(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        self.move_bytes(ends, offset, length, None)
    }

    fn step_digesting(
        &mut self,
        ends: Ends<'_>,
        offset: u64,
        length: u64,
        digest: &mut StreamedDigest,
    ) -> Result<Moved, Refused> {
        self.move_bytes(ends, offset, length, Some(digest))
    }

    fn second_mover(&self) -> Option<Box<dyn Mover + Send>> {
        let bytes = self.buffer.len() as u64;
        let second = ReadWrite::new(bytes, self.find_zeros, self.in_place).ok()?;
        Some(Box::new(second))
    }
}

impl ReadWrite {
    fn move_bytes(
        &mut self,
        ends: Ends<'_>,
        offset: u64,
        length: u64,
        mut digest: Option<&mut StreamedDigest>,
    ) -> Result<Moved, Refused> {
        let mut moved = Moved { bytes: 0, hole_bytes: 0, cost: Cost::UserCopied };
        while moved.bytes < length {
            let want = (length - moved.bytes).min(self.buffer.len() as u64) as usize;
            let at = offset + moved.bytes;
            let n = match transfer::read_at(ends.source, &mut self.buffer[..want], at) {
                Ok(0) => break,
                Ok(n) => n,
                Err(_) if moved.bytes > 0 => break,
                Err(errno) => return Err(Refused::at_source(errno)),
            };
            let written = if self.find_zeros {
                write_sparsely(ends.destination, &self.buffer[..n], at, self.in_place)
            } else {
                self.write(ends, 0..n, at).map(|()| 0)
            };
            match written {
                Ok(hole_bytes) => moved.hole_bytes += hole_bytes,
                Err(_) if moved.bytes > 0 => break,
                Err(errno) => return Err(Refused::at_destination(errno)),
            }
            if let Some(digest) = &mut digest {
                digest.add(at, &self.buffer[..n]);
            }
            moved.bytes += n as u64;
        }
        Ok(moved)
    }
}

/// Writes the runs that are not zero to `offset`; returns how many bytes were left out. `in_place`:
/// the destination may hold old bytes there.
pub(crate) fn write_sparsely(
    destination: BorrowedFd<'_>,
    bytes: &[u8],
    offset: u64,
    in_place: bool,
) -> Sys<u64> {
    let mut hole_bytes = 0;
    for (range, zero) in zeros::runs(bytes) {
        let (at, length) = (offset + range.start as u64, range.len() as u64);
        let is_hole = zero && (!in_place || file::punch_hole(destination, at, length).is_ok());
        if is_hole {
            hole_bytes += length;
        } else {
            transfer::write_all_at(destination, &bytes[range], at)?;
        }
    }
    Ok(hole_bytes)
}
