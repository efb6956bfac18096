//! Sends by `MSG_ZEROCOPY` on sockets of every kind, also connections that nobody answers, and what
//! the kernel's completions say of them.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Gid, Uid};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};

use super::completions::{self, bind_to_device, set_number};
use super::silent;

/// Room for all sends of a lender in the queue of a connection that nobody acknowledges.
const SEND_BUFFER_BYTES: libc::c_int = 16 << 20;

/// What a socket is told before it is connected.
#[derive(Debug, Clone, Default)]
pub struct LenderOptions {
    /// TCP, not UDP.
    pub is_stream: bool,
    /// `SO_BINDTODEVICE`.
    pub device: Option<String>,
    /// `SO_MARK`.
    pub mark: Option<i32>,
    /// The address that it is bound to.
    pub source: Option<IpAddr>,
    /// The port that it is bound to; 0: any.
    pub source_port: u16,
    /// Whose socket it is, if not this process's user's (`fchown(2)`, which routes by
    /// `uidrange` follow).
    pub user: Option<u32>,
    /// A UDP socket names its destination with each send.
    pub is_unconnected: bool,
    /// A TCP connection that nobody answers (`TCP_REPAIR`).
    pub is_silent: bool,
}

/// What the kernel reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lent {
    /// Sends that the kernel took.
    pub sends: u32,
    /// Sends that completions named as copied.
    pub copied: u32,
    /// Sends that completions named as not copied.
    pub not_copied: u32,
}

/// A socket that sends one buffer without copying, again and again.
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
    /// Makes the socket, and connects it unless it is to be unconnected.
    ///
    /// # Errors
    /// The kernel's.
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

    /// Sends `bytes` so many times, and waits for what the kernel says of each.
    ///
    /// # Errors
    /// A send fails, or is not taken whole; something else than completions is in the error queue;
    /// or completions do not come within `patience`.
    pub fn lend(mut self, bytes: &'static [u8], times: u32, patience: Duration) -> Result<Lent> {
        let end = Instant::now() + patience;
        for _ in 0..times {
            let mut rest = bytes;
            while !rest.is_empty() {
                match self.send(rest) {
                    // The part of a stream that was taken is a send of its own to the kernel.
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
            // Nobody acknowledges: the kernel gives all of it up with the connection.
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

    /// Lends the memory, which is never freed and which nothing writes to.
    fn send(&self, bytes: &'static [u8]) -> Result<usize> {
        let flags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as _);
        let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(match self.options.is_unconnected {
            true => rustix::net::sendto(&self.socket, bytes, flags, &self.to)?,
            false => rustix::net::send(&self.socket, bytes, flags)?,
        })
    }

    /// Waits a little for room, or for a completion.
    fn wait(&self, flags: PollFlags) -> Result<()> {
        let little = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        poll(&mut [PollFd::new(&self.socket, flags)], Some(&little))?;
        Ok(())
    }

    /// Takes every completion out that is there: often, for those that follow one another become
    /// one with the bit of the first (`skb_zerocopy_notify_extend` in `net/core/skbuff.c`).
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
