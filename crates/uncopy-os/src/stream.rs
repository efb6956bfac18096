//! Local stream sockets (`unix(7)`, `SOCK_STREAM`): bytes without boundaries, received where they are to stay.
//!
//! Every call sets `MSG_DONTWAIT`, as those of [`seqpacket`](crate::seqpacket) do.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::Timeout;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags,
    SocketType, sockopt,
};

use super::Sys;

/// Maximum number of parts of one send (`UIO_MAXIOV`).
pub const MAX_PARTS: usize = 1024;

/// Creates both ends, close-on-exec. Larger send buffers than the default one are not quicker.
pub fn pair() -> Sys<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Whether a descriptor is an end of a [`pair`], here or elsewhere: a connected stream socket whose peer has no
/// name. A peer that somebody connected to has the name of the socket that listened.
pub fn is_of_pair(fd: impl AsFd) -> bool {
    let fd = fd.as_fd();
    // The address of a socket without a name is its family alone.
    let is_unnamed =
        |peer: SocketAddrAny| peer.addr_len() as usize == size_of::<libc::sa_family_t>();
    sockopt::socket_domain(fd).is_ok_and(|domain| domain == AddressFamily::UNIX)
        && sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM)
        && rustix::net::getpeername(fd).is_ok_and(|peer| peer.is_none_or(is_unnamed))
}

/// Whether a socket has a stream of bytes. An error: it is no socket.
pub fn is_stream(fd: impl AsFd) -> Sys<bool> {
    Ok(sockopt::socket_type(fd)? == SocketType::STREAM)
}

/// Returns how long a send on a blocking socket waits for room (`SO_SNDTIMEO`); `None`: as long as it takes.
pub fn send_timeout(fd: impl AsFd) -> Sys<Option<Duration>> {
    Ok(sockopt::socket_timeout(fd, Timeout::Send)?)
}

/// Sets how long a send on a blocking socket waits for room.
pub fn set_send_timeout(fd: impl AsFd, timeout: Option<Duration>) -> Sys<()> {
    Ok(sockopt::set_socket_timeout(fd, Timeout::Send, timeout)?)
}

/// Sends the first bytes of all parts together, at most [`MAX_PARTS`]; returns their number.
pub fn send(fd: impl AsFd, parts: &[IoSlice<'_>]) -> Sys<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    Ok(match parts {
        [part] => rustix::net::send(fd, part, flags)?,
        _ => rustix::net::sendmsg(fd, parts, &mut SendAncillaryBuffer::default(), flags)?,
    })
}

/// Appends received bytes to `bytes`, which has capacity for `at_most`, without allocating. Returns their number;
/// 0: the peer is closed. Descriptors that come with them are closed by the kernel.
///
/// # Panics
/// If there is less capacity.
pub fn receive(fd: impl AsFd, bytes: &mut Vec<u8>, at_most: usize) -> Sys<usize> {
    let space = &mut bytes.spare_capacity_mut()[..at_most];
    let ((received, _), _) = rustix::net::recv(fd, space, RecvFlags::DONTWAIT)?;
    let count = received.len();
    // SAFETY: the kernel has written this many bytes behind those that were there, within the capacity.
    unsafe { bytes.set_len(bytes.len() + count) };
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::{is_of_pair, pair, receive, send};
    use crate::seqpacket::Part;
    use uncopy_core::Errno;

    #[test]
    fn bytes_are_appended_up_to_the_given_number() {
        let (here, there) = pair().unwrap();
        let mut bytes = Vec::with_capacity(16);
        assert_eq!(receive(&here, &mut bytes, 4), Err(Errno::EAGAIN));
        assert_eq!(send(&there, &[IoSlice::new(b"abc"), IoSlice::new(b"def")]), Ok(6));
        assert_eq!(send(&there, &[IoSlice::new(b"g")]), Ok(1));
        for (at_most, all) in [(4, "abcd"), (0, "abcd"), (9, "abcdefg")] {
            receive(&here, &mut bytes, at_most).unwrap();
            assert_eq!(bytes, all.as_bytes());
        }
        drop(there);
        assert_eq!(receive(&here, &mut bytes, 1), Ok(0));
        assert_eq!(send(&here, &[IoSlice::new(b"h")]), Err(Errno::EPIPE));
    }

    #[test]
    fn descriptors_in_a_stream_are_closed() {
        let (here, there) = pair().unwrap();
        let (sent, kept) = pair().unwrap();
        crate::seqpacket::send(&there, &[Part::of(b"x")], &[sent.as_fd()]).unwrap();
        drop(sent);
        let mut bytes = Vec::with_capacity(1);
        assert_eq!(receive(&here, &mut bytes, 1), Ok(1));
        // Nobody has the other end any more.
        assert_eq!(receive(&kept, &mut Vec::new(), 0), Ok(0));
        assert_eq!(send(&kept, &[IoSlice::new(b"y")]), Err(Errno::EPIPE));
    }

    #[test]
    fn what_others_listen_for_is_no_pair() {
        let (here, there) = pair().unwrap();
        assert!(is_of_pair(&here) && is_of_pair(&there));
        let (std, _other) = UnixStream::pair().unwrap();
        assert!(is_of_pair(&std));
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let connected = UnixStream::connect(folder.path().join("socket")).unwrap();
        assert!(!is_of_pair(&listener) && !is_of_pair(&connected));
        assert!(!is_of_pair(UnixDatagram::pair().unwrap().0));
        assert!(!is_of_pair(std::fs::File::open("/dev/null").unwrap()));
    }
}
