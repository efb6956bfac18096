//! One send on a ring, with all memory that the kernel may look at until it has ended.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{opcode, squeue, types};
use rustix::net::SocketAddrAny;

use crate::buf::{Payload, Pool, StableBytes};
use crate::sys::inet::{Socket, Transport};
use crate::sys::zerocopy::{MAX_REGIONS, Usage};

/// `IORING_SEND_ZC_REPORT_USAGE` (`include/uapi/linux/io_uring.h`), Linux 6.2.
const REPORT_USAGE: u16 = 1 << 3;

/// A send that is to be made, is on its way, or is over.
pub(crate) struct Operation<B> {
    pub(super) payload: Payload<B>,
    pub(super) socket: Arc<Socket>,
    pub(super) lend: bool,
    pub(super) usage: Usage,
    pub(super) stage: Stage,
    /// Its owner asked for its end.
    pub(super) is_canceled: bool,
    header: Option<Box<Header>>,
    to: Option<SocketAddr>,
}

/// Where a send stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not given to the kernel.
    Waiting,
    /// The kernel owes its result.
    Submitted,
    /// The result came, and the kernel owes the notification. `again`: it is to be made once more
    /// afterwards.
    Lent { again: bool },
}

/// What a message header refers to.
struct Header {
    message: libc::msghdr,
    regions: Vec<libc::iovec>,
    address: Option<SocketAddrAny>,
    /// All regions, where they are too many for one call.
    together: Vec<u8>,
}

impl<B: StableBytes> Operation<B> {
    pub(crate) fn new(
        payload: Payload<B>,
        socket: Arc<Socket>,
        to: Option<SocketAddr>,
        lend: bool,
    ) -> Operation<B> {
        let usage = Usage::default();
        // More are put together first, by a copy.
        let lend = lend && payload.as_slice().len() <= MAX_REGIONS;
        let (stage, is_canceled, header) = (Stage::Waiting, false, None);
        Operation { payload, socket, to, lend, usage, stage, is_canceled, header }
    }

    pub(super) fn is_stream(&self) -> bool {
        self.socket.transport() == Transport::Tcp
    }

    /// The request for it. What it points to is in `self`, and stays where it is as long as no
    /// other entry is made; it must live until the kernel has ended the request.
    pub(super) fn entry(&mut self, pools: &[Pool]) -> squeue::Entry {
        let fd = types::Fd(self.socket.fd().as_raw_fd());
        let flags = match self.is_stream() {
            // All of it, or what went before an error: else the kernel ends a send when the
            // socket is full.
            true => libc::MSG_NOSIGNAL | libc::MSG_WAITALL,
            false => libc::MSG_NOSIGNAL,
        };
        let only = match self.payload.as_slice() {
            [only] if self.to.is_none() => only,
            _ => return self.message_entry(fd, flags),
        };
        let bytes = only.bytes();
        // Longer ones are refused before they come here.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if !self.lend {
            return opcode::Send::new(fd, bytes.as_ptr(), length).flags(flags).build();
        }
        let index = only.pool_slice().and_then(|slice| pools.iter().position(|p| p.owns(slice)));
        let index = index.and_then(|index| u16::try_from(index).ok());
        opcode::SendZc::new(fd, bytes.as_ptr(), length)
            .buf_index(index)
            .zc_flags(REPORT_USAGE)
            .flags(flags)
            .build()
    }

    fn message_entry(&mut self, fd: types::Fd, flags: i32) -> squeue::Entry {
        let (lend, to) = (self.lend, self.to);
        let header = Header::new(&self.payload, to);
        let message: *const libc::msghdr = &raw const header.message;
        self.header = Some(header);
        if lend {
            opcode::SendMsgZc::new(fd, message).ioprio(REPORT_USAGE).flags(flags as u32).build()
        } else {
            opcode::SendMsg::new(fd, message).flags(flags as u32).build()
        }
    }
}

impl Header {
    fn new<B: StableBytes>(payload: &Payload<B>, to: Option<SocketAddr>) -> Box<Header> {
        // SAFETY: all fields of a `msghdr` may be zero.
        let message: libc::msghdr = unsafe { std::mem::zeroed() };
        let region = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut together = Vec::new();
        let mut regions: Vec<_> = payload.regions(0).map(|bytes| region(&bytes)).collect();
        if regions.len() > MAX_REGIONS {
            payload.regions(0).for_each(|bytes| together.extend_from_slice(&bytes));
            regions = vec![region(&together)];
        }
        let address = to.map(SocketAddrAny::from);
        let mut header = Box::new(Header { message, regions, address, together });
        header.message.msg_iov = header.regions.as_mut_ptr();
        header.message.msg_iovlen = header.regions.len() as _;
        if let Some(address) = &header.address {
            let length = address.addr_len();
            header.message.msg_name = address.as_ptr().cast_mut().cast();
            header.message.msg_namelen = length as _;
        }
        debug_assert!(header.together.is_empty() || header.regions.len() == 1);
        header
    }
}
