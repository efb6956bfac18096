//! Sends by `MSG_ZEROCOPY` on sockets of every kind, also on unanswered connections, and the
//! kernel's completions.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Gid, Uid};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::completions::{self, bind_to_device, set_number};
use super::silent;

/// Send queue of an unacknowledged connection, with room for all sends of a lender.
const SEND_BUFFER_BYTES: libc::c_int = 16 << 20;

/// Settings of a socket before it is connected.
#[derive(Debug, Clone, Default)]
pub struct LenderOptions {
    /// TCP instead of UDP.
    pub is_stream: bool,
    /// `SO_BINDTODEVICE`.
    pub device: Option<String>,
    /// `SO_MARK`.
    pub mark: Option<i32>,
    /// Address to bind to.
    pub source: Option<IpAddr>,
    /// Port to bind to; 0: any.
    pub source_port: u16,
    /// Owner of the socket, if not this process's user (`fchown(2)`, which routes by `uidrange`
    /// follow).
    pub user: Option<u32>,
    /// Whether a UDP socket names its destination with each send.
    pub is_unconnected: bool,
    /// Whether a TCP connection is never answered (`TCP_REPAIR`).
    pub is_silent: bool,
}

/// Results reported by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lent {
    /// Sends accepted by the kernel.
    pub sends: u32,
    /// Sends completed as copied.
    pub copied: u32,
    /// Sends completed as not copied.
    pub not_copied: u32,
}

/// A socket that repeatedly sends one buffer without copying.
#[derive(Debug)]
pub struct Lender {
    socket: OwnedFd,
    to: SocketAddr,
    options: LenderOptions,
    lent: Lent,
}

impl AsFd for Lender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Lender {
    /// Makes the socket, and connects it unless it must stay unconnected.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn connect(to: SocketAddr, options: LenderOptions) -> Result<Lender> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let kind = if options.is_stream { SocketType::STREAM } else { SocketType::DGRAM };
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        if let Some(user) = options.user {
            rustix::fs::fchown(&socket, Some(Uid::from_raw(user)), None::<Gid>)?;
        }
        if let Some(device) = &options.device {
            bind_to_device(&socket, device)?;
        }
        if let Some(mark) = options.mark {
            set_number(&socket, libc::SOL_SOCKET, libc::SO_MARK, mark)?;
        }
        set_number(&socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)?;
        set_number(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES)?;
        if !options.is_stream {
            sockopt::set_socket_broadcast(&socket, true)?;
        }
        let any: IpAddr = match to.is_ipv4() {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        let local = SocketAddr::new(options.source.unwrap_or(any), options.source_port);
        if options.is_silent {
            silent::pretend(&socket, local, to)?;
        } else {
            if options.source.is_some() || options.source_port != 0 {
                rustix::net::bind(&socket, &local)?;
            }
            if !options.is_unconnected {
                rustix::net::connect(&socket, &to)?;
            }
        }
        if options.is_stream {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        Ok(Lender { socket, to, options, lent: Lent::default() })
    }

    /// Sends `bytes` `times` times, and waits for the completions.
    ///
    /// # Errors
    /// A send fails or is partial; something other than completions is in the error queue; or
    /// completions do not come within `patience`.
    pub fn lend(mut self, bytes: &'static [u8], times: u32, patience: Duration) -> Result<Lent> {
        let end = Instant::now() + patience;
        for _ in 0..times {
            let mut rest = bytes;
            while !rest.is_empty() {
                match self.send(rest) {
                    // To the kernel, the accepted part of a stream is one send.
                    Ok(taken) => {
                        self.lent.sends += 1;
                        rest = &rest[taken..];
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                        self.wait(PollFlags::OUT)?;
                    }
                    Err(error) => return Err(error),
                }
                self.read()?;
            }
        }
        if self.options.is_silent {
            // Nobody acknowledges: the kernel releases everything with the connection.
            rustix::net::connect_unspec(&self.socket)?;
        }
        while self.lent.copied + self.lent.not_copied < self.lent.sends {
            if Instant::now() > end {
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    format!("completions: {:?}", self.lent),
                ));
            }
            self.read()?;
            self.wait(PollFlags::empty())?;
        }
        Ok(self.lent)
    }

    /// Lends the memory, which is never freed or written to.
    fn send(&self, bytes: &'static [u8]) -> Result<usize> {
        let flags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as _);
        let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(match self.options.is_unconnected {
            true => rustix::net::sendto(&self.socket, bytes, flags, &self.to)?,
            false => rustix::net::send(&self.socket, bytes, flags)?,
        })
    }

    /// Waits briefly for room, or for a completion.
    fn wait(&self, flags: PollFlags) -> Result<()> {
        let little = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        poll(&mut [PollFd::new(&self.socket, flags)], Some(&little))?;
        Ok(())
    }

    /// Reads all completions: frequently, because adjacent ones are merged under the bit of the
    /// first (`skb_zerocopy_notify_extend` in `net/core/skbuff.c`).
    fn read(&mut self) -> Result<()> {
        loop {
            match completions::read(self.socket.as_fd()) {
                Ok((count, true)) => self.lent.copied += count,
                Ok((count, false)) => self.lent.not_copied += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
