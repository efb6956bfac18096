//! Receiving end of `uncopy bench`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, SocketType};
use uncopy::doctor::{GREETING, HELLO};

use super::{duration, failure, outcome, pin};
use crate::flags::bench::{Protocol, RecvArgs};
use crate::report::Failure;

/// Receives until the time is over or the stream ends.
pub(super) fn run(flags: &RecvArgs) -> Result<String, Failure> {
    let path = &flags.path;
    pin(path)?;
    let deadline = Instant::now() + duration(path)?;
    let host = match path.ipv6 {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let address = SocketAddr::new(host, path.port);
    let refused =
        |operation| move |error| failure(operation, address, error, "choose another port (-p)");
    let (receives, bytes) = match path.transport {
        Protocol::Udp => {
            let socket = UdpSocket::bind(address).map_err(refused("receive on"))?;
            drain(&socket, SocketType::DGRAM, deadline)?
        }
        Protocol::Tcp => {
            let listener = TcpListener::bind(address).map_err(refused("listen on"))?;
            match is_ready(&listener, deadline)? {
                true => {
                    let (stream, _) = listener.accept().map_err(refused("accept on"))?;
                    drain(&stream, SocketType::STREAM, deadline)?
                }
                false => (0, 0),
            }
        }
    };
    Ok(outcome::received(receives, bytes, path.json))
}

fn is_ready(fd: impl AsFd, deadline: Instant) -> Result<bool, Failure> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failure("wait for", "data", errno, "try again")),
        }
    }
}

/// Discards received data without copying it (`MSG_TRUNC`); answers `uncopy doctor --probe`.
fn drain(fd: impl AsFd, kind: SocketType, deadline: Instant) -> Result<(u64, u64), Failure> {
    let (mut receives, mut bytes) = (0, 0);
    let is_stream = kind == SocketType::STREAM;
    let mut room = vec![0; if is_stream { 2 << 20 } else { HELLO.len() }];
    while is_ready(&fd, deadline)? && Instant::now() < deadline {
        let taken = match is_stream && receives == 0 {
            true => begin(&fd, &mut room[..HELLO.len()]),
            false => take(&fd, &mut room, is_stream),
        };
        match taken {
            Ok(0) if is_stream => break,
            Ok(length) => {
                receives += 1;
                bytes += length as u64;
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => break,
            Err(errno) => return Err(failure("receive from", "the socket", errno, "try again")),
        }
    }
    Ok((receives, bytes))
}

/// Reads the beginning of a stream, which may be the question of a probe.
fn begin(fd: impl AsFd, room: &mut [u8]) -> rustix::io::Result<usize> {
    let (length, _) = rustix::net::recv(&fd, &mut *room, RecvFlags::DONTWAIT)?;
    if room[..length] == *HELLO {
        rustix::net::send(&fd, GREETING, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    }
    Ok(length)
}

/// Receives the next data; of a datagram only as many bytes as the question of a probe has are
/// read.
fn take(fd: impl AsFd, room: &mut [u8], is_stream: bool) -> rustix::io::Result<usize> {
    let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    if is_stream {
        return rustix::net::recv(&fd, room, flags).map(|(_, length)| length);
    }
    let (_, length, from) = rustix::net::recvfrom(&fd, &mut *room, flags)?;
    if let (true, Some(from)) = (length == HELLO.len() && *room == *HELLO, from) {
        // If the answer is lost, the question is sent again.
        let _ = rustix::net::sendto(&fd, GREETING, SendFlags::DONTWAIT, &from);
    }
    Ok(length)
}
