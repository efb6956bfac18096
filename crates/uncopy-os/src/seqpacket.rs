//! Local sockets that preserve message boundaries and pass descriptors (`unix(7)`, `SOCK_SEQPACKET`).
//!
//! Every call sets `MSG_DONTWAIT`: `O_NONBLOCK` belongs to the open file description, and any process
//! with a duplicate of the socket could clear it.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// Maximum number of descriptors in one message (`SCM_MAX_FD` in `include/net/scm.h`).
pub const MAX_FDS: usize = 253;

/// Send buffer size that is requested for a socket. `unix(7)` charges queued bytes to the sender.
pub const SEND_BUFFER_BYTES: usize = 16 << 20;

/// Size of a received message.
#[derive(Clone, Copy, Default)]
pub struct Received {
    /// Bytes of all parts together. 0: the peer is closed.
    pub bytes: usize,
    /// Whether bytes did not fit and are lost.
    pub is_truncated: bool,
    /// Whether descriptors may be lost: this process may not open as many (`RLIMIT_NOFILE`), or other control
    /// messages took the room.
    pub is_control_truncated: bool,
}

/// Size of the buffer behind the body of a message.
pub const TAIL_BYTES: usize = 1024;

/// Bytes of a message that did not fit into its body.
pub type Tail = ArrayVec<u8, TAIL_BYTES>;

/// Creates both ends, close-on-exec.
pub fn pair() -> Sys<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for fd in [&a, &b] {
        // SO_SNDBUFFORCE needs CAP_NET_ADMIN; net.core.wmem_max caps SO_SNDBUF.
        if sockopt::set_socket_send_buffer_size_force(fd, SEND_BUFFER_BYTES).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(fd, SEND_BUFFER_BYTES);
        }
    }
    Ok((a, b))
}

/// Returns the bytes that were sent and not yet received, with the kernel's overhead (`SIOCOUTQ`).
pub fn unsent_bytes(fd: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one `int`, to the given pointer.
    let done = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if done == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Returns the size of the send buffer, which includes the kernel's overhead for each message.
pub fn send_buffer_bytes(fd: impl AsFd) -> Sys<usize> {
    Ok(sockopt::socket_send_buffer_size(fd)?)
}

/// Returns the bytes that the kernel charges to the sender for a message of this length, by sending one to
/// a socket of its own.
pub fn charge_of(length: usize) -> Sys<usize> {
    let (near, _far) = pair()?;
    send(&near, &[Part::of(&vec![0; length])], &[])?;
    Ok(unsent_bytes(near))
}

/// Whether a descriptor is a `SOCK_SEQPACKET` socket of `unix(7)` that is not listening.
pub fn is_seqpacket(fd: impl AsFd) -> bool {
    let fd = fd.as_fd();
    sockopt::socket_domain(fd).is_ok_and(|domain| domain == AddressFamily::UNIX)
        && sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::SEQPACKET)
        && sockopt::socket_acceptconn(fd).is_ok_and(|listens| !listens)
}

/// Memory that the kernel reads as a part of a message.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Part<'a>(libc::iovec, PhantomData<&'a [u8]>);

impl<'a> Part<'a> {
    /// Returns a part that consists of `bytes`.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Part<'a> {
        // SAFETY: borrowed for as long as the part.
        unsafe { Part::at(bytes.as_ptr(), bytes.len()) }
    }

    /// Returns a part at an address that may be bad: the kernel checks it, and sends nothing (`EFAULT`).
    ///
    /// # Safety
    /// The kernel may read memory that is there, as long as the part exists.
    #[must_use]
    pub unsafe fn at(start: *const u8, length: usize) -> Part<'a> {
        let iovec = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: length };
        Part(iovec, PhantomData)
    }

    /// Returns its length.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.iov_len
    }
}

const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Sends all parts as one message, with descriptors, completely or not at all. At most 1,024 parts.
pub fn send(fd: impl AsFd, parts: &[Part<'_>], fds: &[BorrowedFd<'_>]) -> Sys<()> {
    // The calls of the C library are points where a thread may be cancelled.
    let fd = fd.as_fd().as_raw_fd();
    let sent = if let ([Part(part, _)], []) = (parts, fds) {
        // Some 110 ns less than `sendmsg`.
        let (start, length, nobody) = (part.iov_base, part.iov_len, std::ptr::null::<u8>());
        // SAFETY: the kernel only reads the part, which lives through the call or which `Part::at`
        // allows it to read.
        unsafe { libc::syscall(libc::SYS_sendto, fd, start, length, SEND_FLAGS, nobody, 0) }
    } else {
        let mut control = Control::new();
        let mut message = outgoing(parts);
        if !fds.is_empty() {
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = control.put_rights(fds)? as _;
        }
        // SAFETY: as above for the parts; header and control memory live through the call.
        unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, SEND_FLAGS) }
    };
    if sent < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Sends several messages, each of its parts, with one system call. Returns the number sent.
pub fn send_many(fd: impl AsFd, messages: &[&[Part<'_>]]) -> Sys<usize> {
    let of = |parts: &&[Part<'_>]| libc::mmsghdr { msg_hdr: outgoing(parts), msg_len: 0 };
    let mut headers: Vec<libc::mmsghdr> = messages.iter().map(of).collect();
    // SAFETY: as in `send`; the kernel writes the lengths into the headers.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            fd.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len(),
            SEND_FLAGS,
        )
    };
    usize::try_from(sent).map_err(|_| last_errno())
}

/// Returns the header of a message without descriptors.
fn outgoing(parts: &[Part<'_>]) -> libc::msghdr {
    // SAFETY: all fields of a `msghdr` may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // The kernel does not write there.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    message
}

/// Buffers that one message is received into: its parts in order, and its descriptors.
pub struct MessageBuffers<'a, 'b> {
    pub head: &'b mut [u8],
    pub body: [&'a mut [MaybeUninit<u8>]; 2],
    pub tail: &'b mut Tail,
    pub fds: &'b mut Vec<OwnedFd>,
}

/// A received message, and the filled part of both body buffers.
pub type ReceivedMessage<'a> = (Received, [&'a mut [u8]; 2]);

/// Receives one message, its descriptors close-on-exec.
pub fn receive<'a>(fd: impl AsFd, mut place: MessageBuffers<'a, '_>) -> Sys<ReceivedMessage<'a>> {
    let mut parts = place.parts();
    let mut control = Control::new();
    let mut message = header(&mut parts, &mut control);
    // SAFETY: the header names memory that is borrowed mutably for the whole call.
    let n = unsafe { libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut message, RECEIVE_FLAGS) };
    let Ok(bytes) = usize::try_from(n) else { return Err(last_errno()) };
    // SAFETY: the kernel has filled this header, and the parts that it names.
    Ok(unsafe { place.received(&message, bytes) })
}

/// Receives one message, and the next one if it is already queued, with one system call
/// (`recvmmsg(2)`). An error of the second receive is returned by the next call.
pub fn receive_two<'a, 'b>(
    fd: impl AsFd,
    mut first: MessageBuffers<'a, '_>,
    mut second: MessageBuffers<'b, '_>,
) -> Sys<(ReceivedMessage<'a>, Option<ReceivedMessage<'b>>)> {
    let (mut first_parts, mut second_parts) = (first.parts(), second.parts());
    let (mut first_control, mut second_control) = (Control::new(), Control::new());
    let of = |message| libc::mmsghdr { msg_hdr: message, msg_len: 0 };
    let mut messages = [
        of(header(&mut first_parts, &mut first_control)),
        of(header(&mut second_parts, &mut second_control)),
    ];
    // SAFETY: the headers name memory that is borrowed mutably for the whole call; without a
    // timeout the call reads no other.
    let count = unsafe {
        libc::recvmmsg(
            fd.as_fd().as_raw_fd(),
            messages.as_mut_ptr(),
            2,
            RECEIVE_FLAGS as _,
            std::ptr::null_mut(),
        )
    };
    if count < 1 {
        return Err(last_errno());
    }
    let bytes = |index: usize| messages[index].msg_len as usize;
    // SAFETY: the kernel has filled the first header, and the parts that it names.
    let received = unsafe { first.received(&messages[0].msg_hdr, bytes(0)) };
    // SAFETY: with two, the second as well.
    let next = (count > 1).then(|| unsafe { second.received(&messages[1].msg_hdr, bytes(1)) });
    Ok((received, next))
}

const RECEIVE_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;

fn header(parts: &mut [libc::iovec; 4], control: &mut Control) -> libc::msghdr {
    // SAFETY: all fields of a `msghdr` may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    message
}

impl<'a> MessageBuffers<'a, '_> {
    fn parts(&mut self) -> [libc::iovec; 4] {
        let part = |start: *mut u8, length| libc::iovec { iov_base: start.cast(), iov_len: length };
        let [body, more] = &mut self.body;
        [
            part(self.head.as_mut_ptr(), self.head.len()),
            part(body.as_mut_ptr().cast(), body.len()),
            part(more.as_mut_ptr().cast(), more.len()),
            part(self.tail.as_mut_ptr(), TAIL_BYTES),
        ]
    }

    /// Returns the message that the kernel wrote into these buffers.
    ///
    /// # Safety
    /// The kernel has filled `message` and `bytes` bytes of these buffers, in order.
    unsafe fn received(self, message: &libc::msghdr, bytes: usize) -> ReceivedMessage<'a> {
        take_rights(message, self.fds);
        let is_truncated = message.msg_flags & libc::MSG_TRUNC != 0;
        let is_control_truncated = message.msg_flags & libc::MSG_CTRUNC != 0;
        let [body, more] = self.body;
        let behind_head = bytes.saturating_sub(self.head.len());
        let in_body = behind_head.min(body.len());
        let in_more = (behind_head - in_body).min(more.len());
        let in_tail = (behind_head - in_body - in_more).min(TAIL_BYTES);
        // SAFETY: the kernel fills the parts in order, so that it wrote these bytes of `tail`.
        unsafe { self.tail.set_len(in_tail) };
        // SAFETY: as above, of `body`.
        let body = unsafe { std::slice::from_raw_parts_mut(body.as_mut_ptr().cast(), in_body) };
        // SAFETY: as above, of `more`.
        let more = unsafe { std::slice::from_raw_parts_mut(more.as_mut_ptr().cast(), in_more) };
        (Received { bytes, is_truncated, is_control_truncated }, [body, more])
    }
}

/// Size of the control buffer: the descriptors of one message, and other control messages that a peer may
/// cause.
const CONTROL_BYTES: usize = 1088;

/// Control buffer with the alignment of a `cmsghdr`.
#[repr(align(8))]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

impl Control {
    fn new() -> Control {
        Control([MaybeUninit::uninit(); CONTROL_BYTES])
    }

    /// Writes a control message with descriptors (`cmsg(3)`); returns its length.
    fn put_rights(&mut self, fds: &[BorrowedFd<'_>]) -> Sys<usize> {
        if fds.len() > MAX_FDS {
            return Err(Errno::EINVAL);
        }
        let bytes = size_of_val(fds) as libc::c_uint;
        // SAFETY: computes a size; descriptors are `int`s.
        let length = unsafe { libc::CMSG_LEN(bytes) };
        let start = self.0.as_mut_ptr();
        // SAFETY: all fields of a `cmsghdr` may be zero.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = length as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        // SAFETY: the buffer has room for a header and 253 descriptors, and its alignment.
        unsafe { start.cast::<libc::cmsghdr>().write(header) };
        // SAFETY: computes a size.
        let before = unsafe { libc::CMSG_LEN(0) } as usize;
        // SAFETY: within the buffer.
        let data = unsafe { start.add(before) };
        // SAFETY: a borrowed descriptor has the representation of its number, and there is room.
        unsafe { data.cast::<BorrowedFd<'_>>().copy_from_nonoverlapping(fds.as_ptr(), fds.len()) };
        // Without the padding behind the last one.
        Ok(length as usize)
    }
}

/// Control message that the kernel adds after `SO_PASSPIDFD`, which any process with a duplicate of the
/// socket can set (Linux 6.5, `include/linux/socket.h`).
const SCM_PIDFD: libc::c_int = 4;

/// Takes ownership of every descriptor in `message`, and closes those that the peer did not send.
fn take_rights(message: &libc::msghdr, fds: &mut Vec<OwnedFd>) {
    // SAFETY: the kernel has filled `message`, and its control memory is alive.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: not null, so inside the control memory and aligned.
        let header = unsafe { next.read() };
        let opened = header.cmsg_level == libc::SOL_SOCKET
            && matches!(header.cmsg_type, libc::SCM_RIGHTS | SCM_PIDFD);
        if opened {
            // SAFETY: as above.
            let data = unsafe { libc::CMSG_DATA(next) }.cast::<libc::c_int>();
            // SAFETY: computes a size.
            let before = unsafe { libc::CMSG_LEN(0) } as usize;
            let count =
                (header.cmsg_len as usize).saturating_sub(before) / size_of::<libc::c_int>();
            for index in 0..count {
                // SAFETY: the kernel's length field says that `count` numbers are there.
                let at = unsafe { data.add(index) };
                // SAFETY: as above.
                let raw = unsafe { at.read_unaligned() };
                if raw < 0 {
                    // The kernel had no descriptor for the process.
                    continue;
                }
                // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
                let fd = unsafe { OwnedFd::from_raw_fd(raw) };
                if header.cmsg_type == libc::SCM_RIGHTS {
                    fds.push(fd);
                }
            }
        }
        // SAFETY: `next` came from this message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
}

/// Returns the bytes of all queued messages (`unix_inq_len` in `net/unix/af_unix.c`).
pub fn unread_bytes(fd: impl AsFd) -> usize {
    rustix::io::ioctl_fionread(fd).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Shuts down both directions for every process that holds the socket.
pub fn shut_down(fd: impl AsFd) {
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both);
}

/// Shuts down sending for every process that holds the socket. The peer can still read everything that
/// was sent.
pub fn shut_down_sending(fd: impl AsFd) {
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
}

/// Readiness of a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    pub read: bool,
    pub write: bool,
    /// Whether the peer is closed; messages from it may still be queued.
    pub hung_up: bool,
}

impl Ready {
    /// Readiness for everything.
    pub const ALL: Ready = Ready { read: true, write: true, hung_up: true };

    fn flags(self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.read);
        flags.set(PollFlags::OUT, self.write);
        flags.set(PollFlags::RDHUP, self.hung_up);
        flags
    }

    fn from_flags(flags: PollFlags) -> Ready {
        Ready {
            read: flags.contains(PollFlags::IN),
            write: flags.contains(PollFlags::OUT),
            hung_up: flags.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR),
        }
    }
}

/// Returns which of the wanted operations would not block. The check for write space is the expensive one:
/// it takes the peer's lock (`unix_dgram_poll` in `net/unix/af_unix.c`).
pub fn ready(fd: impl AsFd, wanted: Ready) -> Sys<Ready> {
    let [ready] = await_ready([(fd.as_fd(), wanted)], Some(std::time::Duration::ZERO))?;
    Ok(ready)
}

/// Sleeps until one of the descriptors has the readiness given with it, or the timeout ends (`None`: no timeout);
/// returns the readiness of each.
pub fn await_ready<const N: usize>(
    wanted: [(BorrowedFd<'_>, Ready); N],
    timeout: Option<std::time::Duration>,
) -> Sys<[Ready; N]> {
    let mut polled = wanted.map(|(fd, ready)| PollFd::from_borrowed_fd(fd, ready.flags()));
    // A value too large for a timespec is as good as no timeout.
    let timeout = timeout.and_then(|left| left.try_into().ok());
    rustix::event::poll(&mut polled, timeout.as_ref())?;
    Ok(polled.map(|polled| Ready::from_flags(polled.revents())))
}

/// Maximum number of descriptors that one [`sleep`] can watch.
pub const MAX_SLEEP_FDS: usize = 65;

/// Sleeps until one of the descriptors has the readiness given with it, a signal arrives, or the timeout
/// ends (`None`: no timeout).
///
/// # Panics
/// With more than [`MAX_SLEEP_FDS`].
pub fn sleep<'a>(
    wanted: impl Iterator<Item = (BorrowedFd<'a>, Ready)>,
    timeout: Option<std::time::Duration>,
) -> Sys<()> {
    // Collecting returns all room of the array, which is copied.
    let mut polled = ArrayVec::<PollFd<'a>, MAX_SLEEP_FDS>::new();
    polled.extend(wanted.map(|(fd, ready)| PollFd::from_borrowed_fd(fd, ready.flags())));
    // A value too large for a timespec is as good as no timeout.
    let timeout = timeout.and_then(|left| left.try_into().ok());
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};

    use super::{MAX_FDS, MessageBuffers, Part, Tail, pair, receive, send, send_many};
    use uncopy_core::Errno;

    /// `SO_PASSPIDFD` (`include/uapi/asm-generic/socket.h`).
    const SO_PASSPIDFD: libc::c_int = 76;

    fn received(socket: &OwnedFd) -> Option<(usize, usize)> {
        let (mut head, mut tail) = ([0; 1], Tail::new());
        let (mut body, mut more) = ([MaybeUninit::uninit(); 4], []);
        let mut fds: Vec<OwnedFd> = Vec::new();
        let body = [&mut body[..], &mut more[..]];
        let place = MessageBuffers { head: &mut head, body, tail: &mut tail, fds: &mut fds };
        let (got, _) = receive(socket, place).ok()?;
        Some((got.bytes, fds.len()))
    }

    /// Its address is one that no process has.
    fn nowhere() -> Part<'static> {
        // SAFETY: nothing is there.
        unsafe { Part::at(std::ptr::without_provenance(1), 1) }
    }

    #[test]
    fn parts_and_descriptors_become_one_message() {
        let (here, there) = pair().unwrap();
        for count in [0, 1, 2, MAX_FDS] {
            let fds = vec![here.as_fd(); count];
            send(&there, &[Part::of(b"ab"), Part::of(b""), Part::of(b"c")], &fds).unwrap();
            assert_eq!(received(&here), Some((3, count)));
        }
        let too_many = vec![here.as_fd(); MAX_FDS + 1];
        assert_eq!(send(&there, &[Part::of(b"a")], &too_many), Err(Errno::EINVAL));
        assert_eq!(received(&here), None);
    }

    #[test]
    fn a_bad_part_sends_nothing_and_ends_a_run_of_messages() {
        let (here, there) = pair().unwrap();
        let (good, bad) = ([Part::of(b"a"), Part::of(b"b")], [Part::of(b"a"), nowhere()]);
        assert_eq!(send(&there, &bad, &[here.as_fd()]), Err(Errno::EFAULT));
        assert_eq!(received(&here), None);
        assert_eq!(send_many(&there, &[&good, &good[..1], &bad, &good]), Ok(2));
        assert_eq!(send_many(&there, &[&bad, &good]), Err(Errno::EFAULT));
        assert_eq!((received(&here), received(&here)), (Some((2, 0)), Some((1, 0))));
        assert_eq!(received(&here), None);
    }

    fn open_descriptors() -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir("/proc/self/fd").unwrap();
        entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect()
    }

    #[test]
    fn descriptors_that_the_peer_did_not_send_are_closed() {
        let (here, there) = pair().unwrap();
        let one: libc::c_int = 1;
        // SAFETY: the option is an `int`, which lives through the call.
        let set = unsafe {
            libc::setsockopt(
                here.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PASSPIDFD,
                (&raw const one).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if set != 0 {
            // Linux before 6.5 does not have the option.
            return;
        }
        for _ in 0..20 {
            send(&there, &[Part::of(b"x")], &[]).unwrap();
            assert_eq!(received(&here), Some((1, 0)));
        }
        let pidfds = open_descriptors();
        let pidfds = pidfds.iter().filter(|to| to.to_string_lossy().contains("pidfd")).count();
        assert_eq!(pidfds, 0);
    }
}
