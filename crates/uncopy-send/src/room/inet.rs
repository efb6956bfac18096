//! TCP and UDP sockets to which no other descriptor refers.

use std::fmt;
use std::io::IoSlice;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType,
    sockopt,
};

use super::cached_answer::CachedAnswer;
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::fork::Generation;
use uncopy_os::netlink::route::{SegmentationLimits, route_to, scope, segmentation_limits};
use uncopy_os::offload::Offload;
use uncopy_os::{Sys, last_errno};

/// Pause between two attempts to receive.
const PAUSE: Duration = Duration::from_millis(5);

/// A transport protocol over which sends can avoid copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP: a stream.
    Tcp,
    /// UDP: datagrams.
    Udp,
}

impl Transport {
    /// Returns the name in reports: `tcp`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}

/// A TCP or UDP socket to which no other descriptor refers. Every constructor except
/// [`adopt`](Self::adopt) guarantees that.
///
/// It has no `AsFd` on purpose. The kernel numbers the `MSG_ZEROCOPY` sends of a socket, and reports by
/// number which buffers are free again; a send through a duplicate descriptor would shift the numbers,
/// and buffers would be released early.
/// ```compile_fail,E0599
/// fn duplicate(socket: &uncopy::send::InetSocket) -> std::io::Result<std::os::fd::OwnedFd> {
///     use std::os::fd::AsFd;
///     socket.as_fd().try_clone_to_owned()
/// }
/// ```
pub struct InetSocket {
    fd: OwnedFd,
    transport: Transport,
    scatter_gather: CachedAnswer<Option<bool>>,
    /// `UDP_SEGMENT`; 0: not set.
    segment_bytes: AtomicU16,
    device_trains: CachedAnswer<Option<SegmentationLimits>>,
    is_local: CachedAnswer<bool>,
    /// Number of times that it was connected to another address.
    reconnections: AtomicU32,
    /// Peer of a stream; kept because the kernel forgets it when the connection ends.
    stream_peer: OnceLock<SocketAddr>,
    /// Number of senders and rings that send on the socket.
    writers: AtomicUsize,
    generation: Generation,
}

impl InetSocket {
    /// Connects to a TCP server; waits as long as the system does.
    ///
    /// # Errors
    /// As `connect(2)`.
    pub fn connect_tcp(to: SocketAddr) -> Result<InetSocket> {
        let socket = Self::open(to, Transport::Tcp)?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&socket.fd, &to))
            .map_err(|errno| Error::network("connect to", subject(Transport::Tcp, to), errno))?;
        let _ = socket.stream_peer.set(to);
        Ok(socket)
    }

    /// Connects as [`connect_tcp`](Self::connect_tcp) does, waiting up to `timeout`.
    ///
    /// # Errors
    /// As `connect(2)`; [`Errno::ETIMEDOUT`] if there is no answer in time.
    pub fn connect_tcp_within(to: SocketAddr, timeout: Duration) -> Result<InetSocket> {
        let socket = Self::open(to, Transport::Tcp)?;
        let fail = |errno: Errno| Error::network("connect to", subject(Transport::Tcp, to), errno);
        rustix::io::ioctl_fionbio(&socket.fd, true).map_err(|errno| fail(errno.into()))?;
        match rustix::net::connect(&socket.fd, &to) {
            Ok(()) => {}
            Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {
                let begin = Instant::now();
                // A wait ends early if a signal arrives.
                loop {
                    let left = timeout.saturating_sub(begin.elapsed());
                    socket.wait(WaitFor::Room, Some(left));
                    if let Some(errno) = socket.take_error() {
                        return Err(fail(errno));
                    }
                    if socket.peer_address().is_some() {
                        break;
                    }
                    if left.is_zero() {
                        return Err(fail(Errno::ETIMEDOUT));
                    }
                }
            }
            Err(errno) => return Err(fail(errno.into())),
        }
        rustix::io::ioctl_fionbio(&socket.fd, false).map_err(|errno| fail(errno.into()))?;
        Ok(socket)
    }

    /// Accepts the next connection of `listener`; waits for one unless the listener is nonblocking.
    ///
    /// # Errors
    /// As `accept(2)`.
    pub fn accept_tcp(listener: &TcpListener) -> Result<InetSocket> {
        let flags = SocketFlags::CLOEXEC;
        let fd = rustix::io::retry_on_intr(|| rustix::net::accept_with(listener, flags))
            .map_err(|errno| Error::network("accept a connection on", "tcp", errno))?;
        Self::of_kind(fd).map_err(|(_, error)| error)
    }

    /// Opens a UDP socket at `local` (port 0: any free one).
    ///
    /// # Errors
    /// As `bind(2)`.
    pub fn bind_udp(local: SocketAddr) -> Result<InetSocket> {
        let socket = Self::open(local, Transport::Udp)?;
        rustix::net::bind(&socket.fd, &local)
            .map_err(|errno| Error::network("bind", subject(Transport::Udp, local), errno))?;
        Ok(socket)
    }

    /// Opens a UDP socket that is connected to `to`.
    ///
    /// # Errors
    /// As `connect(2)`.
    pub fn connect_udp(to: SocketAddr) -> Result<InetSocket> {
        let socket = Self::open(to, Transport::Udp)?;
        rustix::net::connect(&socket.fd, &to)
            .map_err(|errno| Error::network("connect to", subject(Transport::Udp, to), errno))?;
        Ok(socket)
    }

    /// Takes over a socket that was made elsewhere. `O_NONBLOCK` does not matter: every sending call is
    /// made with a flag not to wait.
    ///
    /// # Errors
    /// The socket is neither TCP nor UDP over IPv4 or IPv6; the descriptor comes back with the error. Local
    /// sockets (`unix(7)`) are refused too: no kernel supports `MSG_ZEROCOPY` for them.
    ///
    /// # Safety
    /// No other descriptor refers to the socket, in any process, now or later (a duplicate, one that was
    /// passed to another process, one that a child inherited); and nothing was ever sent on it with
    /// `MSG_ZEROCOPY`.
    #[allow(clippy::result_large_err, reason = "the descriptor comes back")]
    pub unsafe fn adopt(fd: OwnedFd) -> Result<InetSocket, (OwnedFd, Error)> {
        Self::of_kind(fd)
    }

    fn open(for_address: SocketAddr, transport: Transport) -> Result<InetSocket> {
        let family = match for_address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let kind = match transport {
            Transport::Tcp => SocketType::STREAM,
            Transport::Udp => SocketType::DGRAM,
        };
        let fd = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).map_err(
            |errno| Error::network("open a socket for", subject(transport, for_address), errno),
        )?;
        Ok(InetSocket::new(fd, transport))
    }

    /// Finds out whether [`adopt`](Self::adopt) takes a socket, and its transport protocol, before its owner gives it up.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use uncopy::send::{InetSocket, Transport};
    ///
    /// let udp = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// assert_eq!(InetSocket::transport_of(&udp)?, Transport::Udp);
    /// assert!(InetSocket::transport_of(UnixStream::pair()?.0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub fn transport_of(fd: impl AsFd) -> Result<Transport> {
        let fd = fd.as_fd();
        let domain = sockopt::socket_domain(fd);
        let kind = sockopt::socket_type(fd);
        let protocol = sockopt::socket_protocol(fd).map(|p| p.map(|p| p.as_raw().get() as i32));
        let is_inet = matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6));
        match (kind, protocol) {
            (Ok(SocketType::STREAM), Ok(Some(libc::IPPROTO_TCP))) if is_inet => Ok(Transport::Tcp),
            (Ok(SocketType::DGRAM), Ok(Some(libc::IPPROTO_UDP))) if is_inet => Ok(Transport::Udp),
            (Err(errno), _) => Err(Error::network("take over", "a socket", errno)),
            _ => {
                let what = match domain {
                    Ok(AddressFamily::UNIX) => {
                        "a local socket, for which no kernel supports MSG_ZEROCOPY"
                    }
                    _ => "neither TCP nor UDP over IPv4 or IPv6",
                };
                let reason = format!("it is {what}; send on it with a plain write");
                Err(Error::new("take over", "a socket", Reason::Refused(reason.into())))
            }
        }
    }

    #[allow(clippy::result_large_err, reason = "the descriptor comes back")]
    fn of_kind(fd: OwnedFd) -> Result<InetSocket, (OwnedFd, Error)> {
        let transport = match InetSocket::transport_of(&fd) {
            Ok(transport) => transport,
            Err(error) => return Err((fd, error)),
        };
        let socket = InetSocket::new(fd, transport);
        // Remembers the peer of a stream: the kernel forgets it when the connection ends.
        let _ = socket.peer_address();
        Ok(socket)
    }

    fn new(fd: OwnedFd, transport: Transport) -> InetSocket {
        InetSocket {
            fd,
            transport,
            scatter_gather: CachedAnswer::new(1),
            segment_bytes: AtomicU16::new(0),
            device_trains: CachedAnswer::new(64),
            is_local: CachedAnswer::new(64),
            reconnections: AtomicU32::new(0),
            stream_peer: OnceLock::new(),
            writers: AtomicUsize::new(0),
            generation: Generation::current(),
        }
    }

    /// Returns whether the socket belongs to the process that forked this one.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }

    /// Refuses `operation` in a forked child: the connection belongs to the parent.
    #[inline]
    pub(crate) fn check_owner(&self, operation: &'static str) -> Result<()> {
        match self.is_inherited() {
            true => Err(self.forked(operation)),
            false => Ok(()),
        }
    }

    #[cold]
    fn forked(&self, operation: &'static str) -> Error {
        Error::new(operation, self.subject(), Reason::Forked)
    }

    pub(super) fn count_writer(&self) {
        self.writers.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a writer; returns whether it was the last.
    pub(super) fn discount_writer(&self) -> bool {
        self.writers.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns whether no sender and no ring sends on the socket any more.
    pub(crate) fn has_no_writers(&self) -> bool {
        self.writers.load(Ordering::Acquire) == 0
    }

    /// Returns the transport protocol.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// As `getsockname(2)`.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.check_owner("ask the address of")?;
        self.own_address().map_err(|errno| self.error("ask the address of", errno))
    }

    fn own_address(&self) -> Sys<SocketAddr> {
        Ok(rustix::net::getsockname(&self.fd).and_then(SocketAddr::try_from)?)
    }

    /// Returns the address of the peer; `None`: the socket is not connected.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let found = rustix::net::getpeername(&self.fd).ok().flatten()?;
        let found = SocketAddr::try_from(found).ok()?;
        if self.transport == Transport::Tcp {
            self.stream_peer.get_or_init(|| found);
        }
        Some(found)
    }

    /// Connects a UDP socket to another address.
    ///
    /// # Errors
    /// As `connect(2)`.
    pub fn reconnect(&self, to: SocketAddr) -> Result<()> {
        self.check_owner("connect")?;
        rustix::net::connect(&self.fd, &to).map_err(|errno| self.error("connect", errno))?;
        self.scatter_gather.forget();
        self.device_trains.forget();
        self.is_local.forget();
        self.reconnections.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of times that the socket was connected to another address: knowledge of the path
    /// belongs to one peer.
    pub(crate) fn reconnections(&self) -> u32 {
        self.reconnections.load(Ordering::Relaxed)
    }

    /// Receives into `bytes`, waiting for data. Returns 0 at the end of a stream.
    ///
    /// # Errors
    /// As `recv(2)`.
    pub fn receive(&self, bytes: &mut [u8]) -> Result<usize> {
        self.check_owner("receive on")?;
        loop {
            match rustix::net::recv(&self.fd, &mut *bytes, RecvFlags::empty()) {
                Ok((n, _)) => return Ok(n),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    if self.wait_for_input(None) != Awaited::Input {
                        std::thread::sleep(PAUSE);
                    }
                }
                Err(errno) => return Err(self.error("receive on", errno)),
            }
        }
    }

    /// Sleeps until the socket has input, reports are in the error queue, a signal arrives or the timeout is over (`None`: no
    /// timeout).
    pub(crate) fn wait_for_input(&self, timeout: Option<Duration>) -> Awaited {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let timeout = timeout.and_then(|left| left.try_into().ok());
        // A failed wait is treated as one that ended early.
        let _ = rustix::event::poll(&mut polled, timeout.as_ref());
        let found = polled[0].revents();
        if found.intersects(PollFlags::IN | PollFlags::HUP) {
            return Awaited::Input;
        }
        if found.is_empty() { Awaited::Nothing } else { Awaited::Reports }
    }

    /// Receives as [`receive`](Self::receive) does, waiting up to `timeout`; `None`: nothing arrived.
    ///
    /// # Errors
    /// As `recv(2)`.
    pub fn receive_within(&self, bytes: &mut [u8], timeout: Duration) -> Result<Option<usize>> {
        let begin = Instant::now();
        loop {
            match rustix::net::recv(&self.fd, &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((n, _)) => return Ok(Some(n)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let left = timeout.saturating_sub(begin.elapsed());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    // `poll(2)` would return at once while reports are in the error queue.
                    std::thread::sleep(left.min(PAUSE));
                }
                Err(errno) => return Err(self.error("receive on", errno)),
            }
        }
    }

    /// Ends a stream after what was sent: the peer reads its end.
    ///
    /// # Errors
    /// As `shutdown(2)`.
    pub fn finish(&self) -> Result<()> {
        self.check_owner("end")?;
        let done = rustix::net::shutdown(&self.fd, Shutdown::Write);
        done.map_err(|errno| self.error("end", errno))
    }

    /// Sets the size of the send buffer (`SO_SNDBUF`); the kernel doubles the number.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn set_send_buffer_bytes(&self, bytes: usize) -> Result<()> {
        self.check_owner("set SO_SNDBUF of")?;
        let set = sockopt::set_socket_send_buffer_size(&self.fd, bytes);
        set.map_err(|errno| self.error("set SO_SNDBUF of", errno))
    }

    /// Sets whether TCP sends bytes at once that do not fill a segment (`TCP_NODELAY`).
    ///
    /// ```
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let socket = uncopy::send::InetSocket::connect_tcp(listener.local_addr()?)?;
    /// socket.set_no_delay(true)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn set_no_delay(&self, no_delay: bool) -> Result<()> {
        self.check_owner("set TCP_NODELAY of")?;
        let set = sockopt::set_tcp_nodelay(&self.fd, no_delay);
        set.map_err(|errno| self.error("set TCP_NODELAY of", errno))
    }

    /// Makes UDP cut every send into datagrams of `bytes` bytes, the last one possibly shorter
    /// (`UDP_SEGMENT`, `udp(7)`). `None`: each send is one datagram.
    ///
    /// A [`Sender`](crate::Sender) and a [`Ring`](crate::Ring) then take sends of any length, and make
    /// trains of up to [`train_bytes`](crate::train_bytes) of them.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn set_segment_bytes(&self, bytes: Option<u16>) -> Result<()> {
        self.check_owner("set UDP_SEGMENT of")?;
        let value = libc::c_int::from(bytes.unwrap_or(0));
        let set = self.set_option(libc::SOL_UDP, libc::UDP_SEGMENT, value);
        set.map_err(|errno| self.error("set UDP_SEGMENT of", errno))?;
        self.segment_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the size of the datagrams that sends are cut into. `None`: sends are not cut.
    pub(crate) fn segment_bytes(&self) -> Option<NonZeroU16> {
        NonZeroU16::new(self.segment_bytes.load(Ordering::Relaxed))
    }

    /// Returns the segmentation limits of the device that the connection uses, up to a second or 64 sends
    /// old. `None`: unknown.
    pub(crate) fn device_trains(&self) -> Option<SegmentationLimits> {
        self.device_trains.get_or_query(|_| {
            let peer = self.peer_address()?;
            segmentation_limits(device_to(peer)?).ok()
        })
    }

    /// Looks up whether the device that the connection uses supports scatter-gather, unless that was done
    /// within a second, or the connection has ended.
    pub(crate) fn note_device(&self) {
        self.scatter_gather.get_or_query(|before| {
            let Some(peer) = self.peer_address() else { return before.flatten() };
            uncopy_os::offload::is_on(&self.fd, device_to(peer)?, Offload::ScatterGather).ok()
        });
    }

    /// Returns whether that device supports scatter-gather, as last [noted](Self::note_device). `None`:
    /// unknown.
    pub(crate) fn scatter_gather(&self) -> Option<bool> {
        self.scatter_gather.last().flatten()
    }

    /// Returns whether the peer's address belongs to this machine; up to a second or 64 sends old.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local.get_or_query(|_| self.peer_address().is_some_and(is_own))
    }

    pub(crate) fn allow_zerocopy(&self) -> Sys<()> {
        uncopy_os::probe::allow_zerocopy(&self.fd)
    }

    fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> Sys<()> {
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the option's value is an int that outlives the call, and the call only reads it.
        let r = unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), level, name, (&raw const value).cast(), length)
        };
        if r == 0 { Ok(()) } else { Err(last_errno()) }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Ends a TCP connection at once: bytes that wait to be sent are dropped, and the peer gets a reset
    /// (`connect(2)` with `AF_UNSPEC`; `tcp_disconnect` in `net/ipv4/tcp.c`). The error queue is kept. A UDP
    /// socket only loses its peer; datagrams in device queues are still sent.
    pub(crate) fn abort(&self) {
        // Makes the end a reset even if everything was sent.
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
        let _ = rustix::net::connect_unspec(&self.fd);
    }

    /// Aborts the connection unless the peer has acknowledged everything. If it has, nothing is left to
    /// send, and a reset would only disturb the peer's own sending.
    pub(crate) fn abort_unacknowledged(&self) {
        if self.unacknowledged_bytes() != Some(0) {
            self.abort();
        }
    }

    /// Returns the number of bytes of a stream, including its end, that the peer has not acknowledged
    /// (`SIOCOUTQ`, `tcp(7)`).
    fn unacknowledged_bytes(&self) -> Option<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the call writes an int to `bytes`, which outlives it.
        let r = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        (r == 0).then_some(usize::try_from(bytes).unwrap_or(0))
    }

    /// Takes the pending error of the socket (`SO_ERROR`).
    pub(crate) fn take_error(&self) -> Option<Errno> {
        sockopt::socket_error(&self.fd).ok()?.err().map(Errno::from)
    }

    /// Sleeps until the condition holds, an error is queued, a signal arrives or the timeout is over (`None`:
    /// no timeout).
    pub(crate) fn wait(&self, wanted: WaitFor, timeout: Option<Duration>) {
        let flags = match wanted {
            WaitFor::Room => PollFlags::OUT,
            WaitFor::Errors => PollFlags::empty(),
        };
        let timeout = timeout.and_then(|left| left.try_into().ok());
        // A failed wait is treated as one that ended early.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.fd, flags)], timeout.as_ref());
    }

    /// Sends up to 1,024 regions, as far as there is room. Only [`zerocopy`](super::zerocopy) may pass flags
    /// that let the kernel keep the regions after the call.
    #[inline(always)]
    pub(super) fn send_with(
        &self,
        regions: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        flags: SendFlags,
    ) -> Sys<usize> {
        let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // `send` costs the kernel less than `sendmsg`, which has a message header to parse.
        if let ([only], None) = (regions, to) {
            return Ok(rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, only, flags))?);
        }
        self.send_message(regions, to, flags)
    }

    /// Does the same for several regions, or to an address.
    fn send_message(
        &self,
        regions: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        flags: SendFlags,
    ) -> Sys<usize> {
        let mut control = SendAncillaryBuffer::default();
        let sent = rustix::io::retry_on_intr(|| match (regions, to) {
            ([only], Some(to)) => rustix::net::sendto(&self.fd, only, flags, &to),
            (_, Some(to)) => rustix::net::sendmsg_addr(&self.fd, &to, regions, &mut control, flags),
            (_, None) => rustix::net::sendmsg(&self.fd, regions, &mut control, flags),
        });
        Ok(sent?)
    }

    /// Returns the name of the socket in errors.
    pub(crate) fn subject(&self) -> String {
        // The kernel forgets the peer of a connection that has ended.
        let peer = self.peer_address().or_else(|| self.stream_peer.get().copied());
        match peer.or_else(|| self.own_address().ok()) {
            Some(address) => subject(self.transport, address),
            None => self.transport.name().to_owned(),
        }
    }

    pub(crate) fn error(&self, operation: &'static str, errno: impl Into<Errno>) -> Error {
        Error::network(operation, self.subject(), errno)
    }
}

/// A condition to wait for on an [`InetSocket`]. A queued error ends every wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    Room,
    Errors,
}

/// Cause of the end of a wait for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Bytes, or the end of the stream.
    Input,
    /// Reports in the error queue, which end every wait until they are read.
    Reports,
    /// Time, or a signal.
    Nothing,
}

/// Looks up the index of the device through which packets to `address` leave.
fn device_to(address: SocketAddr) -> Option<u32> {
    Some(route_to(address.ip(), scope(address)).ok()?.device)
}

/// Where packets to an address leave this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlet {
    /// Index of the device.
    pub(crate) device: u32,
    /// Whether the address is this machine's own.
    pub(crate) is_local: bool,
}

/// Looks up where packets to `address` leave. `None`: there is no route.
pub(crate) fn outlet_to(address: SocketAddr) -> Option<Outlet> {
    let route = route_to(address.ip(), scope(address)).ok()?;
    Some(Outlet { device: route.device, is_local: route.is_local })
}

/// Returns whether the address belongs to this machine.
pub(crate) fn is_own(address: SocketAddr) -> bool {
    route_to(address.ip(), scope(address)).is_ok_and(|route| route.is_local)
}

fn subject(transport: Transport, address: SocketAddr) -> String {
    format!("{} {address}", transport.name())
}

impl fmt::Debug for InetSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InetSocket({})", self.subject())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_getfl};

    use super::InetSocket;

    #[test]
    fn a_socket_waits_in_the_kernel_however_it_was_connected() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let within = InetSocket::connect_tcp_within(to, Duration::from_secs(9)).unwrap();
        for socket in [within, InetSocket::connect_tcp(to).unwrap()] {
            assert!(!fcntl_getfl(&socket.fd).unwrap().contains(OFlags::NONBLOCK));
        }
    }
}
