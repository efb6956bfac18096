//! Sends through io_uring.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::{BareSend, abort, is_stream};

/// `IORING_SEND_ZC_REPORT_USAGE` (`include/uapi/linux/io_uring.h`).
const REPORT_USAGE: u16 = 1 << 3;

/// Repeatedly sends one buffer, or several in turn, through io_uring, in batches.
pub struct BareRing {
    ring: IoUring,
    socket: OwnedFd,
    how: BareSend,
    is_stream: bool,
    buffers: Vec<&'static [u8]>,
    next: usize,
    /// Number of pending completions.
    owed: usize,
}

impl BareRing {
    /// Makes a sender of these buffers on a connected socket. They are adjacent in one piece of
    /// memory, which is registered if requested.
    ///
    /// # Errors
    /// Errors of the kernel.
    ///
    /// # Panics
    /// If there are no buffers.
    pub fn new(
        socket: impl Into<OwnedFd>,
        how: BareSend,
        buffers: Vec<&'static [u8]>,
        entries: u32,
    ) -> Result<BareRing> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(entries * 4)
            .build(entries)?;
        let (first, last) = (buffers[0].as_ptr_range(), buffers[buffers.len() - 1].as_ptr_range());
        if how == BareSend::Registered {
            let region = libc::iovec {
                iov_base: first.start.cast_mut().cast(),
                iov_len: last.end.addr() - first.start.addr(),
            };
            // SAFETY: the memory is never freed, and nothing is received into it.
            unsafe { ring.submitter().register_buffers(&[region]) }?;
        }
        let socket = socket.into();
        let is_stream = is_stream(&socket)?;
        Ok(BareRing { ring, socket, how, is_stream, buffers, next: 0, owed: 0 })
    }

    /// Submits `count` sends with one call, reads completions, and waits if twice as many are
    /// pending.
    ///
    /// # Errors
    /// Errors of the kernel, or of the first failed send.
    pub fn bunch(&mut self, count: usize) -> Result<()> {
        self.submit(count)?;
        while self.owed >= count * 2 {
            self.wait()?;
        }
        Ok(())
    }

    /// Aborts the connection, and waits until no completion is pending.
    ///
    /// # Errors
    /// As [`bunch`](Self::bunch).
    pub fn finish(&mut self) -> Result<()> {
        abort(&self.socket)?;
        while self.owed > 0 {
            self.wait()?;
        }
        Ok(())
    }

    /// Submits `count` sends with one call, linked on a stream, and reads completions.
    ///
    /// # Errors
    /// As [`bunch`](Self::bunch).
    pub fn submit(&mut self, count: usize) -> Result<()> {
        for number in 0..count {
            let mut entry = self.entry();
            if self.is_stream && number + 1 < count {
                entry = entry.flags(squeue::Flags::IO_LINK);
            }
            // SAFETY: the memory is never freed, and nothing ever writes to it.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(Error::other)?;
            self.owed += 1;
        }
        self.ring.submit_and_wait(count)?;
        self.take()
    }

    #[inline]
    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.socket.as_raw_fd());
        let bytes = self.buffers[self.next];
        self.next += 1;
        if self.next == self.buffers.len() {
            self.next = 0;
        }
        let flags = match self.is_stream {
            true => libc::MSG_NOSIGNAL | libc::MSG_WAITALL,
            false => libc::MSG_NOSIGNAL,
        };
        let (start, length) = (bytes.as_ptr(), bytes.len() as u32);
        let index = match self.how {
            BareSend::Copy => return opcode::Send::new(fd, start, length).flags(flags).build(),
            BareSend::Lend => None,
            BareSend::Registered => Some(0),
        };
        let send = opcode::SendZc::new(fd, start, length).flags(flags);
        send.buf_index(index).zc_flags(REPORT_USAGE).build()
    }

    fn wait(&mut self) -> Result<()> {
        self.ring.submit_and_wait(1)?;
        self.take()
    }

    fn take(&mut self) -> Result<()> {
        let mut failed = None;
        for completion in self.ring.completion() {
            if completion.result() < 0 && !cqueue::notif(completion.flags()) {
                failed = Some(Error::from_raw_os_error(-completion.result()));
            }
            if !cqueue::more(completion.flags()) {
                self.owed -= 1;
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
