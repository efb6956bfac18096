//! Compares a file with the one that has its name in the destination, byte by byte.

use std::fs::{File, Metadata};
use std::io;

use super::Job;
use super::calls::TreeCalls;
use super::place::Place;
use crate::Control;
use uncopy_core::{Error, Reason, Result, other_system};

/// Bytes of both files that are read before the observer is asked.
const PIECE_BYTES: usize = 256 << 10;

impl Job<'_> {
    /// Reads both files. One of the destination that cannot be read, or changes meanwhile, is not the same.
    ///
    /// # Errors
    /// The source cannot be read, or the observer stopped the job.
    pub(super) fn has_same_contents(&mut self, place: &Place, found: &Metadata) -> Result<bool> {
        let calls = self.calls;
        let fail = |operation, error| other_system::refused(operation, &place.source, error);
        let source = calls.open_source(&place.source).map_err(|error| fail("open", error))?;
        let begun = source.metadata().map_err(|error| fail("examine", error))?;
        let Ok(existing) = calls.open_source(&place.actual) else { return Ok(false) };
        let (mut ours, mut theirs) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut same_bytes = 0;
        let are_same = loop {
            let read = fill(calls, &source, &mut ours, same_bytes);
            let read = read.map_err(|error| fail("read", error))?;
            let other = fill(calls, &existing, &mut theirs, same_bytes);
            if !other.is_ok_and(|other| ours[..read] == theirs[..other]) {
                break false;
            }
            if read == 0 {
                break true;
            }
            same_bytes += read as u64;
            if self.tally.ask() == Control::Stop {
                return Err(Error::new("copy", &place.source, Reason::Cancelled));
            }
        };
        self.tally.add_compared(same_bytes * 2);
        Ok(are_same && is_as(&source, &begun) && is_as(&existing, found))
    }
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
pub(super) fn fill(
    calls: &dyn TreeCalls,
    file: &File,
    buffer: &mut [u8],
    at: u64,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match calls.read_at(file, &mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Whether an open file is as it was.
fn is_as(file: &File, before: &Metadata) -> bool {
    let is_as =
        |now: Metadata| now.len() == before.len() && now.modified().ok() == before.modified().ok();
    file.metadata().is_ok_and(is_as)
}
