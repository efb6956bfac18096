//! One send on a ring, and all memory that its requests point to.

use std::net::SocketAddr;

use io_uring::{opcode, squeue, types};
use rustix::net::SocketAddrAny;

use crate::room::inet::{InetSocket, Transport};
use crate::room::zerocopy::{MAX_REGIONS, Usage};
use crate::room::{ByteRange, Payload, Pool, PoolSlice, StableBytes};
use uncopy_os::probe::version_of;

/// `IORING_SEND_ZC_REPORT_USAGE` (`include/uapi/linux/io_uring.h`), Linux 6.2.
const REPORT_USAGE: u16 = 1 << 3;
/// `IORING_RECVSEND_FIXED_BUF` (same file).
const FIXED: u16 = 1 << 2;
/// Offset of `buf_index` in `struct io_uring_sqe` (same file).
const BUFFER_INDEX_OFFSET: usize = 40;

/// A send, from being taken in to its completion; `C` is the context that its owner keeps with it.
pub(crate) struct Operation<B, C> {
    pub(super) payload: Payload<B>,
    pub(super) context: C,
    /// Index of the socket.
    pub(super) socket: usize,
    pub(super) lend: bool,
    /// Whether slices in huge pages are sent as registered memory.
    huge_by_index: bool,
    /// Maximum number of bytes of one request: a send that the kernel cuts into datagrams may take several.
    /// `WHOLE`: one request sends all.
    max_bytes: u32,
    /// Data that few sends need.
    extra: Option<Box<Extra>>,
    /// Whether the stand-in is sent instead of the payload.
    pub(super) uses_stand_in: bool,
    pub(super) usage: Usage,
    pub(super) stage: Stage,
    /// Number of notifications that the kernel owes.
    pub(super) owed: u32,
    /// Whether its owner has canceled it.
    pub(super) is_canceled: bool,
    /// Whether a send before it on its stream failed.
    pub(super) is_cut_off: bool,
    /// Number of its last request, among all requests of the ring.
    pub(super) request: u64,
}

/// Value of `max_bytes`: one request sends all.
const WHOLE: u32 = u32::MAX;
/// Value of `max_bytes`: the next request sends the rest.
const REST: u32 = u32::MAX - 1;

/// Data that few sends need.
#[derive(Default)]
struct Extra {
    /// A copy of the payload in registered memory.
    stand_in: Option<PoolSlice>,
    /// Header of a request of several regions.
    header: Option<Box<Header>>,
    /// Address of a datagram that has one of its own.
    to: Option<SocketAddrAny>,
}

/// Registered pools of a ring, and how the kernel can use them.
#[derive(Clone, Copy)]
pub(super) struct RingResources<'a> {
    pub(super) pools: &'a [Pool],
    pub(super) ability: Ability,
    /// Whether slices in huge pages are sent as registered memory.
    pub(super) huge_by_index: bool,
}

impl RingResources<'_> {
    /// Returns the flags of every lent send.
    fn flags(self) -> u16 {
        if self.ability.reports { REPORT_USAGE } else { 0 }
    }

    /// Returns the index of the registered buffer that holds the slice.
    fn index_of(self, owner: &impl StableBytes) -> Option<u16> {
        let slice = owner.pool_slice().filter(|slice| self.huge_by_index || !slice.is_huge())?;
        let index = self.pools.iter().position(|pool| pool.owns(slice))?;
        u16::try_from(index).ok()
    }

    /// Returns the index of the registered buffer that holds all slices, unless all are empty.
    fn index_of_all(self, owners: &[impl StableBytes]) -> Option<u16> {
        let first = self.index_of(owners.first()?)?;
        let is_same = owners.iter().all(|owner| self.index_of(owner) == Some(first));
        let is_empty = owners.iter().all(|owner| owner.bytes().is_empty());
        (self.ability.fixed_vectors && is_same && !is_empty).then_some(first)
    }
}

/// The stage of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The send, or its next part, waits to be given to the kernel.
    Waiting,
    /// The kernel owes a result.
    Submitted,
    /// All results came, and the kernel owes notifications. `again`: the send is tried once more after
    /// them.
    Lent { again: bool },
}

/// A message header and the memory that it points to.
struct Header {
    message: libc::msghdr,
    regions: Vec<libc::iovec>,
    /// A copy of all regions, if they are too many for one call.
    together: Vec<u8>,
}

impl<B: StableBytes, C> Operation<B, C> {
    #[inline]
    pub(crate) fn new(
        payload: Payload<B>,
        socket: usize,
        to: Option<&SocketAddr>,
        lend: bool,
        context: C,
    ) -> Operation<B, C> {
        let usage = Usage::default();
        // More regions than one call takes are joined by a copy.
        let lend = lend && payload.as_slice().len() <= MAX_REGIONS;
        let of_address = |to| Extra { to: Some(SocketAddrAny::from(to)), ..Extra::default() };
        let extra = to.map(|to| Box::new(of_address(*to)));
        let (stage, uses_stand_in, owed, request) = (Stage::Waiting, false, 0, 0);
        let (is_canceled, is_cut_off) = (false, false);
        let (max_bytes, huge_by_index) = (WHOLE, true);
        Operation {
            payload,
            context,
            socket,
            lend,
            huge_by_index,
            max_bytes,
            extra,
            uses_stand_in,
            usage,
            stage,
            owed,
            is_canceled,
            is_cut_off,
            request,
        }
    }

    /// Sets the maximum number of bytes of one request.
    #[inline]
    pub(crate) fn in_parts_of(mut self, max_bytes: usize) -> Operation<B, C> {
        self.max_bytes = u32::try_from(max_bytes).unwrap_or(WHOLE);
        self
    }

    /// Sets whether slices in huge pages are sent as registered memory, or like other memory.
    #[inline]
    pub(crate) fn with_huge_by_index(mut self, huge_by_index: bool) -> Operation<B, C> {
        self.huge_by_index = huge_by_index;
        self
    }

    /// Returns the address of a datagram that has one of its own.
    pub(super) fn to(&self) -> Option<SocketAddr> {
        let to = self.extra.as_ref()?.to.clone()?;
        SocketAddr::try_from(to).ok()
    }

    /// Returns whether the rest needs another request, after the last one sent `bytes`.
    pub(super) fn has_rest(&mut self, transport: Transport, bytes: usize) -> bool {
        if self.usage.bytes >= self.payload.len() {
            return false;
        }
        if transport == Transport::Tcp && bytes > 0 {
            // In spite of `MSG_WAITALL` an error came in the middle; the next request meets it if it lasts.
            self.max_bytes = self.max_bytes.min(REST);
        }
        self.max_bytes < WHOLE
    }

    /// Returns whether the send was given up, so that it is not tried again.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_canceled || self.is_cut_off
    }

    /// Returns whether the kernel has requests of it, or may still read its memory.
    pub(super) fn is_in_kernel(&self) -> bool {
        self.stage == Stage::Submitted || self.owed > 0
    }

    /// Copies the payload into a slice of one of the pools, which is sent instead, if one is free and long
    /// enough.
    pub(super) fn move_into(&mut self, pools: &[Pool]) {
        let length = self.payload.len();
        let may_be = |pool: &&Pool| self.huge_by_index || !pool.pages().are_huge();
        let mut fitting = pools.iter().filter(may_be).filter(|pool| pool.slice_bytes() >= length);
        let Some(mut slice) = fitting.find_map(Pool::take) else { return };
        slice.truncate(length);
        let mut room = &mut slice[..];
        for region in self.payload.regions(ByteRange::ALL) {
            let (head, rest) = room.split_at_mut(region.len());
            head.copy_from_slice(&region);
            room = rest;
        }
        self.usage.copied_parts += 1;
        self.extra.get_or_insert_default().stand_in = Some(slice);
        self.uses_stand_in = true;
    }

    /// Returns the request if it has one region. The memory that it points to is in `self` and keeps its
    /// address until another request is made; it must live until the kernel has ended the request.
    #[inline]
    pub(super) fn single(&self, resources: RingResources<'_>) -> Option<Single<'_>> {
        let resources = RingResources { huge_by_index: self.huge_by_index, ..resources };
        let extra = self.extra.as_deref();
        let stand_in = extra.filter(|_| self.uses_stand_in).and_then(|e| e.stand_in.as_ref());
        let (bytes, index) = match (stand_in, self.payload.as_slice()) {
            (Some(slice), _) => (slice.bytes(), Some(resources.index_of(slice))),
            (None, [only]) => (only.bytes(), self.lend.then(|| resources.index_of(only))),
            _ => return None,
        };
        let lent = index.map(|index| Lent { flags: resources.flags(), index });
        let to = extra.and_then(|extra| extra.to.as_ref());
        Some(Single { bytes: self.part_of(bytes), to, lent })
    }

    /// Returns the part of a buffer that the next request sends.
    fn part_of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if self.max_bytes == WHOLE {
            return bytes;
        }
        self.next_range().of(bytes)
    }

    /// Returns the range that the next request sends.
    fn next_range(&self) -> ByteRange {
        match self.max_bytes {
            WHOLE => ByteRange::ALL,
            max_bytes => ByteRange { from: self.usage.bytes, max_bytes: max_bytes as usize },
        }
    }

    /// Returns the request if it has several regions. As for [`single`](Self::single), the memory that it
    /// points to is in `self`.
    #[inline(never)]
    pub(super) fn message(
        &mut self,
        target: Target,
        resources: RingResources<'_>,
    ) -> squeue::Entry {
        let resources = RingResources { huge_by_index: self.huge_by_index, ..resources };
        let Target { fd, flags } = target;
        let range = self.next_range();
        let extra = self.extra.get_or_insert_default();
        let header = Header::new(&self.payload, range, extra.to.as_ref());
        let message: *const libc::msghdr = &raw const header.message;
        extra.header = Some(header);
        if !self.lend {
            return opcode::SendMsg::new(fd, message).flags(flags as u32).build();
        }
        let send = opcode::SendMsgZc::new(fd, message).flags(flags as u32);
        match resources.index_of_all(self.payload.as_slice()) {
            Some(index) => with_buffer_index(send.ioprio(resources.flags() | FIXED).build(), index),
            None => send.ioprio(resources.flags()).build(),
        }
    }
}

/// The socket and flags of a request.
#[derive(Clone, Copy)]
pub(super) struct Target {
    fd: types::Fd,
    flags: i32,
}

impl Target {
    /// Makes the target for a socket that has this descriptor, or is registered under this index.
    #[inline]
    pub(super) fn of(fd: i32, socket: &InetSocket) -> Target {
        let flags = match socket.transport() {
            // Sends all bytes, or up to an error: without it the kernel ends a send when the socket is full.
            Transport::Tcp => libc::MSG_NOSIGNAL | libc::MSG_WAITALL,
            Transport::Udp => libc::MSG_NOSIGNAL,
        };
        Target { fd: types::Fd(fd), flags }
    }
}

/// A request of one region.
pub(super) struct Single<'a> {
    bytes: &'a [u8],
    to: Option<&'a SocketAddrAny>,
    /// `None`: the region is copied.
    lent: Option<Lent>,
}

/// How a region is lent.
struct Lent {
    flags: u16,
    /// Index of the registered buffer that holds it.
    index: Option<u16>,
}

impl Single<'_> {
    #[inline]
    pub(super) fn entry(&self, target: Target) -> squeue::Entry {
        let Target { fd, flags } = target;
        // Longer sends are refused before they get here.
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let (address, address_length) = match self.to {
            Some(to) => (to.as_ptr().cast(), to.addr_len()),
            None => (std::ptr::null(), 0),
        };
        match &self.lent {
            None => opcode::Send::new(fd, self.bytes.as_ptr(), length)
                .flags(flags)
                .dest_addr(address)
                .dest_addr_len(address_length as _)
                .build(),
            Some(lent) => opcode::SendZc::new(fd, self.bytes.as_ptr(), length)
                .buf_index(lent.index)
                .zc_flags(lent.flags)
                .flags(flags)
                .dest_addr(address)
                .dest_addr_len(address_length as _)
                .build(),
        }
    }
}

/// Sets the registered buffer of a message request, for which the io_uring crate has no setter.
fn with_buffer_index(mut entry: squeue::Entry, index: u16) -> squeue::Entry {
    const { assert!(size_of::<squeue::Entry>() == 64) };
    // SAFETY: an entry is a `struct io_uring_sqe` of 64 bytes and nothing else (`repr(C)`), so the offset is
    // inside it.
    let at = unsafe { (&raw mut entry).cast::<u8>().add(BUFFER_INDEX_OFFSET) };
    // SAFETY: `at` points into the entry, which is owned here; two bytes from there are inside, and any
    // `u16` is a valid index.
    unsafe { at.cast::<u16>().write_unaligned(index) };
    entry
}

/// Features of the kernel, judged by the numbers of its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ability {
    /// Whether it correctly sends messages of several regions of registered memory. Supported since Linux
    /// 6.15, with a use after free until 6.17.11 (CVE-2025-68294).
    pub(super) fixed_vectors: bool,
    /// Whether notifications report copies; before Linux 6.2 the kernel refuses the flag.
    pub(super) reports: bool,
}

impl Ability {
    pub(super) fn of(release: &str) -> Ability {
        let version = version_of(release);
        Ability { fixed_vectors: version >= [6, 17, 11], reports: version >= [6, 2, 0] }
    }
}

impl Header {
    /// Makes the header of a range of the payload.
    fn new<B: StableBytes>(
        payload: &Payload<B>,
        range: ByteRange,
        to: Option<&SocketAddrAny>,
    ) -> Box<Header> {
        // SAFETY: all-zero bytes are a valid `msghdr`.
        let message: libc::msghdr = unsafe { std::mem::zeroed() };
        let region = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut together = Vec::new();
        let mut regions: Vec<_> = payload.regions(range).map(|bytes| region(&bytes)).collect();
        if regions.len() > MAX_REGIONS {
            payload.regions(range).for_each(|bytes| together.extend_from_slice(&bytes));
            regions = vec![region(&together)];
        }
        let mut header = Box::new(Header { message, regions, together });
        header.message.msg_iov = header.regions.as_mut_ptr();
        header.message.msg_iovlen = header.regions.len() as _;
        if let Some(to) = to {
            header.message.msg_name = to.as_ptr().cast_mut().cast();
            header.message.msg_namelen = to.addr_len() as _;
        }
        debug_assert!(header.together.is_empty() || header.regions.len() == 1);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::Ability;

    #[test]
    fn abilities_follow_from_the_release() {
        for (release, fixed_vectors, reports) in [
            ("5.15.0-91-generic", false, false),
            ("6.1.0-32-amd64", false, false),
            ("6.2", false, true),
            ("6.12.63", false, true),
            ("6.15.0", false, true),
            ("6.17.10-300.fc43.x86_64", false, true),
            ("6.17", false, true),
            ("6.17.11", true, true),
            ("6.18.0-1-amd64", true, true),
            ("7.0.0-rc1", true, true),
            ("10.1", true, true),
            ("", false, false),
        ] {
            assert_eq!(Ability::of(release), Ability { fixed_vectors, reports }, "{release}");
        }
    }
}
