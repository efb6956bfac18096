//! The receiving end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SocketType};

use super::{duration, failure, outcome, pin};
use crate::flags::bench::{Protocol, RecvArgs};
use crate::report::Failure;

/// Receives until the time is over, or the stream ends.
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

/// Throws away what comes, without copying it here (`MSG_TRUNC`).
fn drain(fd: impl AsFd, kind: SocketType, deadline: Instant) -> Result<(u64, u64), Failure> {
    let (mut receives, mut bytes) = (0, 0);
    let mut room = vec![0; if kind == SocketType::STREAM { 2 << 20 } else { 1 }];
    while is_ready(&fd, deadline)? && Instant::now() + Duration::ZERO < deadline {
        match rustix::net::recv(&fd, &mut room[..], RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
            Ok((_, 0)) if kind == SocketType::STREAM => break,
            Ok((_, length)) => {
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
