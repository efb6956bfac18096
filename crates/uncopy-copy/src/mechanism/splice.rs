//! Moves bytes by `splice(2)` through a pipe: the pipe refers to the source's pages, and the write
//! copies them.

use std::os::fd::OwnedFd;

use super::{Ends, Moved, Mover, Refused};
use uncopy_core::Cost;
use uncopy_core::Errno;
use uncopy_os::{Sys, transfer};

/// Tuned: beyond it the pages leave the processor's cache before they are written.
const PIPE_BYTES: usize = 256 << 10;

pub(super) struct Splice {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
}

impl Splice {
    pub(super) fn new() -> Sys<Splice> {
        let (read, write, capacity) = transfer::pipe(PIPE_BYTES)?;
        Ok(Splice { read, write, capacity })
    }

    /// Empties the pipe into the destination; bytes that cannot be written are discarded.
    fn drain(&self, ends: Ends<'_>, offset: u64, filled: usize) -> Sys<usize> {
        let mut written = 0;
        while written < filled {
            let at = offset + written as u64;
            match transfer::splice_out(&self.read, ends.destination, at, filled - written) {
                Ok(0) => break,
                Ok(n) => written += n,
                Err(Errno::EINTR) => {}
                Err(errno) if written == 0 => {
                    self.discard(filled);
                    return Err(errno);
                }
                Err(_) => break,
            }
        }
        self.discard(filled - written);
        Ok(written)
    }

    fn discard(&self, mut bytes: usize) {
        let mut sink = [0; 4096];
        while bytes > 0 {
            let length = bytes.min(sink.len());
            match transfer::read(&self.read, &mut sink[..length]) {
                Ok(0) => return,
                Ok(n) => bytes -= n,
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl Mover for Splice {
    fn step(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        let mut moved = 0;
        while (moved as u64) < length {
            let at = offset + moved as u64;
            let want = (length - moved as u64).min(self.capacity as u64) as usize;
            let filled = match transfer::splice_in(ends.source, at, &self.write, want) {
                Ok(0) => break,
                Err(errno) if moved == 0 => return Err(Refused::at_source(errno)),
                Err(_) => break,
                Ok(filled) => filled,
            };
            match self.drain(ends, at, filled) {
                // Only this call may wait for the source's pages, and then reports their errors (`fs/splice.c`,
                // `page_cache_pipe_buf_confirm`).
                Err(errno) if moved == 0 => return Err(errno.into()),
                Err(_) => break,
                Ok(n) => moved += n,
            }
        }
        Ok(Moved::data(moved, Cost::KernelCopied))
    }
}
