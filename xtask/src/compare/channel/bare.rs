//! System calls with nothing around them.

use std::hint::black_box;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags,
    SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use uncopy::channel::MAX_BYTES;

use super::endpoint::Endpoint;

/// `SCM_MAX_FD` (`include/net/scm.h`).
const MAX_FDS: usize = 253;
/// Enough for any message and its answer on their way.
const QUEUE_BYTES: usize = 1 << 20;

fn wait(fd: BorrowedFd<'_>) -> Result<()> {
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None)?;
    Ok(())
}

/// A socket that keeps the borders of messages (`unix(7)`).
pub(super) struct Seqpacket {
    socket: OwnedFd,
    out: Vec<u8>,
}

impl Seqpacket {
    pub(super) fn new(socket: OwnedFd) -> Seqpacket {
        Seqpacket { socket, out: vec![0; MAX_BYTES] }
    }

    pub(super) fn sockets() -> Result<(OwnedFd, OwnedFd)> {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        for socket in [&near, &far] {
            // The first is for the privileged.
            sockopt::set_socket_send_buffer_size_force(socket, QUEUE_BYTES)
                .or_else(|_| sockopt::set_socket_send_buffer_size(socket, QUEUE_BYTES))?;
        }
        Ok((near, far))
    }
}

impl Endpoint for Seqpacket {
    #[inline]
    fn send(&mut self, regions: &[IoSlice<'_>]) -> Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, regions, &mut SendAncillaryBuffer::default(), flags)?;
        Ok(())
    }

    #[inline]
    fn receive(&mut self) -> Result<usize> {
        wait(self.socket.as_fd())?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.out)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let bytes = recvmsg(&self.socket, &mut parts, &mut control, flags)?.bytes;
        ensure!(bytes > 0, "the other end is gone");
        black_box(&self.out[..bytes]);
        Ok(bytes)
    }
}

/// Two ends of pipes: one to write to, one to read from.
pub(super) struct Pipes {
    pub(super) writer: OwnedFd,
    pub(super) reader: OwnedFd,
    out: Vec<u8>,
}

impl Pipes {
    /// For messages of this length: a pipe has no borders.
    pub(super) fn new(writer: OwnedFd, reader: OwnedFd, bytes: usize) -> Pipes {
        Pipes { writer, reader, out: vec![0; bytes] }
    }

    /// The reader and the writer.
    pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&writer, QUEUE_BYTES).context("cannot make a pipe larger")?;
        Ok((reader, writer))
    }
}

impl Endpoint for Pipes {
    #[inline]
    fn send(&mut self, regions: &[IoSlice<'_>]) -> Result<()> {
        let written = rustix::io::writev(&self.writer, regions)?;
        ensure!(written == self.out.len(), "one call took {written} bytes alone");
        Ok(())
    }

    #[inline]
    fn receive(&mut self) -> Result<usize> {
        let mut filled = 0;
        while filled < self.out.len() {
            wait(self.reader.as_fd())?;
            let read = rustix::io::read(&self.reader, &mut self.out[filled..])?;
            ensure!(read > 0, "the other end is gone");
            filled += read;
        }
        black_box(&self.out);
        Ok(filled)
    }
}
