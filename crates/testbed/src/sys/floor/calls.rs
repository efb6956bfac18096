//! Sends by `send(2)`, and completions by `recvmmsg(2)` from the error queue.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::SendFlags;

use super::{BareSend, abort, set};

/// Maximum number of completions per read.
const BATCH: usize = 16;
/// Number of lent sends before completions are read.
const READ_AFTER: usize = 16;
/// Maximum size of a completion's control message.
const CONTROL_BYTES: usize = 192;
/// `SO_EE_ORIGIN_ZEROCOPY` (`include/uapi/linux/errqueue.h`).
const ORIGIN_ZEROCOPY: u8 = 5;
/// `MSG_ZEROCOPY`, which rustix does not define.
const ZEROCOPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);

/// Buffer aligned like a `cmsghdr`.
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Repeatedly sends one buffer, or several in turn, in batches.
pub struct BareSender {
    socket: OwnedFd,
    flags: SendFlags,
    buffers: Vec<&'static [u8]>,
    next: usize,
    /// Sends without a completion.
    owed: usize,
    /// Sends since the error queue was last read.
    unread: usize,
    controls: Box<[Control; BATCH]>,
    messages: Box<[libc::mmsghdr; BATCH]>,
}

impl BareSender {
    /// Makes a sender of these buffers on a connected socket.
    ///
    /// # Errors
    /// Errors of the kernel; single calls have no registered buffers.
    pub fn new(
        socket: impl Into<OwnedFd>,
        how: BareSend,
        buffers: Vec<&'static [u8]>,
    ) -> Result<BareSender> {
        let socket = socket.into();
        let flags = match how {
            BareSend::Copy => SendFlags::NOSIGNAL,
            BareSend::Lend => {
                set(&socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)?;
                SendFlags::NOSIGNAL | ZEROCOPY
            }
            BareSend::Registered => return Err(ErrorKind::Unsupported.into()),
        };
        let controls = Box::new([Control([0; CONTROL_BYTES]); BATCH]);
        // SAFETY: all fields of an `mmsghdr` may be zero.
        let messages = Box::new(unsafe { std::mem::zeroed() });
        Ok(BareSender { socket, flags, buffers, next: 0, owed: 0, unread: 0, controls, messages })
    }

    /// Sends `count` times, reads completions, and waits if `count` sends are still pending.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn bunch(&mut self, count: usize) -> Result<()> {
        self.send(count)?;
        while self.owed > 0 && self.read()? {}
        while self.owed >= count {
            self.wait()?;
        }
        Ok(())
    }

    /// Aborts the connection, and waits until no send is pending.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn finish(mut self) -> Result<()> {
        abort(&self.socket)?;
        while self.owed > 0 {
            if !self.read()? {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Sends `count` times, and reads completions after each sixteen.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn send(&mut self, count: usize) -> Result<()> {
        let lends = self.flags.contains(ZEROCOPY);
        for _ in 0..count {
            if self.unread >= READ_AFTER {
                self.read()?;
            }
            let bytes = self.buffers[self.next];
            self.next += 1;
            if self.next == self.buffers.len() {
                self.next = 0;
            }
            // The system call itself, as the sender makes it: through the C library it took longer where that was
            // measured. What is lent is
            // never freed, and nothing ever writes to it.
            let sent = rustix::net::send(&self.socket, bytes, self.flags)?;
            if sent != bytes.len() {
                return Err(Error::other(format!("{sent} of {} bytes went", bytes.len())));
            }
            self.owed += usize::from(lends);
            self.unread += usize::from(lends);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        poll(&mut [PollFd::new(&self.socket, PollFlags::empty())], None)?;
        self.read().map(drop)
    }

    /// Reads completions. Returns whether there were any.
    fn read(&mut self) -> Result<bool> {
        self.unread = 0;
        let mut has_any = false;
        loop {
            let count = self.read_batch()?;
            has_any |= count > 0;
            if count < BATCH {
                return Ok(has_any);
            }
        }
    }

    fn read_batch(&mut self) -> Result<usize> {
        for (message, control) in self.messages.iter_mut().zip(self.controls.iter_mut()) {
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let (fd, first) = (self.socket.as_raw_fd(), self.messages.as_mut_ptr());
        // SAFETY: the headers name memory of `controls` alone, which lives as long as they do.
        let count =
            unsafe { libc::recvmmsg(fd, first, BATCH as _, flags as _, std::ptr::null_mut()) };
        let Ok(count) = usize::try_from(count) else {
            let error = Error::last_os_error();
            return if error.kind() == ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        };
        for index in 0..count {
            self.owed -= reported(&self.messages[index].msg_hdr)?;
        }
        Ok(count)
    }
}

/// Returns the number of sends completed by a received message.
fn reported(message: &libc::msghdr) -> Result<usize> {
    // SAFETY: the kernel has filled `message`, and its control memory is alive.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return Err(Error::other("a report without contents"));
    }
    // SAFETY: not null, so inside the control memory, which is longer than a header and an error.
    let data = unsafe { libc::CMSG_DATA(header) }.cast::<libc::sock_extended_err>();
    // SAFETY: as above; every value is one.
    let error = unsafe { data.read_unaligned() };
    if error.ee_origin != ORIGIN_ZEROCOPY || error.ee_errno != 0 {
        return Err(Error::other(format!("a report of another kind: {error:?}")));
    }
    Ok(error.ee_data.wrapping_sub(error.ee_info) as usize + 1)
}
