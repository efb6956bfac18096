//! The system calls of a sender with nothing around them: what a library can be measured against.

use std::io::{Error, Result};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, cqueue, opcode, types};

/// `IORING_SEND_ZC_REPORT_USAGE` (`include/uapi/linux/io_uring.h`).
const REPORT_USAGE: u16 = 1 << 3;
const PAGE_BYTES: usize = 4096;
const FLAGS: i32 = libc::MSG_NOSIGNAL;

/// Has the kernel cut what is sent on the socket into datagrams of so many bytes (`UDP_SEGMENT`,
/// `udp(7)`).
///
/// # Errors
/// The kernel's.
pub fn cut_sends(socket: &UdpSocket, bytes: u16) -> Result<()> {
    let value = libc::c_int::from(bytes);
    let length = size_of_val(&value) as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: `value` is as long as `length` says, and read in the call.
    let set = unsafe {
        libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const value).cast(), length)
    };
    if set == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Sends one buffer, or several in turn, again and again through io_uring, in bunches.
pub struct BareRing {
    ring: IoUring,
    socket: UdpSocket,
    memory: Vec<u8>,
    /// Bytes of each buffer, which begins with a page.
    length: usize,
    /// How many there are, and which is the next.
    buffers: usize,
    next: usize,
    /// Completions that the kernel owes.
    owed: usize,
}

/// How a [`BareRing`] sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BareSend {
    /// `IORING_OP_SEND`: the kernel copies.
    Copy,
    /// `IORING_OP_SEND_ZC` of a registered buffer.
    Registered,
}

impl BareRing {
    /// A ring that sends `length` bytes at a time on a connected socket, out of so many buffers in
    /// turn.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        socket: UdpSocket,
        (length, buffers): (usize, usize),
        entries: u32,
    ) -> Result<BareRing> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(entries * 4)
            .build(entries)?;
        let mut memory = vec![7u8; length.next_multiple_of(PAGE_BYTES) * buffers + PAGE_BYTES];
        let region = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
        // SAFETY: the memory is neither moved nor freed before the ring: `drop` waits for it.
        unsafe { ring.submitter().register_buffers(&[region]) }?;
        Ok(BareRing { ring, socket, memory, length, buffers, next: 0, owed: 0 })
    }

    /// Submits `count` sends with one call, and takes in what has completed.
    ///
    /// # Errors
    /// The kernel's, or of the first send that failed.
    pub fn bunch(&mut self, count: usize, how: BareSend) -> Result<()> {
        let fd = types::Fd(self.socket.as_raw_fd());
        let length = self.length as u32;
        let (first, each) = (
            self.memory.as_ptr().align_offset(PAGE_BYTES),
            self.length.next_multiple_of(PAGE_BYTES),
        );
        for _ in 0..count {
            let start = self.memory[first + each * self.next..].as_ptr();
            self.next = (self.next + 1) % self.buffers;
            let entry = match how {
                BareSend::Copy => opcode::Send::new(fd, start, length).flags(FLAGS).build(),
                BareSend::Registered => {
                    let send = opcode::SendZc::new(fd, start, length).flags(FLAGS);
                    send.buf_index(Some(0)).zc_flags(REPORT_USAGE).build()
                }
            };
            // SAFETY: the memory lives until nothing is owed any more; nothing ever writes to it.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(Error::other)?;
            self.owed += 1;
        }
        self.ring.submit_and_wait(count)?;
        self.take()?;
        while self.owed >= count * 2 {
            self.ring.submit_and_wait(1)?;
            self.take()?;
        }
        Ok(())
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

impl Drop for BareRing {
    fn drop(&mut self) {
        while self.owed > 0 {
            if self.ring.submit_and_wait(1).is_err() {
                // The kernel may still read it.
                std::mem::forget(std::mem::take(&mut self.memory));
                return;
            }
            let _ = self.take();
        }
    }
}
