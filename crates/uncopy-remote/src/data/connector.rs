//! Connections from the near end.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uncopy_core::Errno;

use super::handshake::{self, HandshakeError};
use super::keys::Pinned;
use super::open::OpenStream;
use super::stream::DataStream;
use super::tls;
use super::token::Token;

/// Reason why there is no data connection. The transfer goes on through the remote shell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// There is no address to connect to.
    #[error("the other machine has no address to connect to: check its name")]
    NoAddress,
    /// No way leads to the other machine.
    #[error(
        "no route leads to {address}: check the network, or copy through the remote shell alone"
    )]
    NoRoute {
        /// Address that was tried.
        address: SocketAddr,
    },
    /// Nothing listens there.
    #[error(
        "{address} refuses connections: check its firewall, or copy through the remote shell alone"
    )]
    Refused {
        /// Address that was tried.
        address: SocketAddr,
    },
    /// There was no answer in time.
    #[error(
        "{address} does not answer in time: check firewalls, or copy through the remote shell alone"
    )]
    TimedOut {
        /// Address that was tried.
        address: SocketAddr,
    },
    /// The other end closed the connection: it expects none, or none from this address.
    #[error(
        "{address} closed the connection: a relay on the way hides the address of this machine, or too many came"
    )]
    Ended {
        /// Address that was tried.
        address: SocketAddr,
    },
    /// The other end speaks something else.
    #[error("{address} does not speak the protocol of data connections: {what}: check the port")]
    Handshake {
        /// Address that was tried.
        address: SocketAddr,
        /// Description.
        what: String,
    },
    /// The other end has another key than the one that came through the remote shell: it is another machine.
    #[error(
        "{address} has another key than the machine that the remote shell reached: something between answers in its \
         place"
    )]
    OtherKey {
        /// Address that was tried.
        address: SocketAddr,
    },
    /// The other end expects another key of this end.
    #[error("{address} does not know the key of this end: it serves another transfer")]
    OwnKeyRefused {
        /// Address that was tried.
        address: SocketAddr,
    },
    /// The other end does not take the token: it was used, or is too old.
    #[error("{address} does not expect this connection any more: announce it again")]
    TokenRefused {
        /// Address that was tried.
        address: SocketAddr,
    },
    /// Keys cannot be used here.
    #[error(transparent)]
    Keys(#[from] super::KeyError),
    /// A system call failed.
    #[error("cannot connect to {address}: {}", .errno.message())]
    System {
        /// Address that was tried.
        address: SocketAddr,
        /// Error of the system.
        errno: Errno,
    },
}

/// Connects to the first of `addresses` that answers, and shows `token` to it, all within `limit`.
///
/// # Errors
/// Failure at the address where it got furthest.
pub fn connect(
    addresses: &[SocketAddr],
    keys: &Pinned,
    token: &Token,
    limit: Duration,
) -> Result<DataStream, ConnectFailure> {
    let config = Arc::new(tls::client_config(keys)?);
    connect_any(addresses, limit, |address, until| {
        let socket = open(address, until).map_err(unmet(address))?;
        let shaken = handshake::connect(Arc::clone(&config), &socket, token, until);
        let tls = shaken.map_err(met(address))?;
        ready(address, &socket)?;
        Ok(DataStream::new(tls, Arc::new(socket), None))
    })
}

/// Connects without TLS, as [`connect`] does with it. The token can be read on the way.
///
/// # Errors
/// As [`connect`].
pub fn connect_open(
    addresses: &[SocketAddr],
    token: &Token,
    limit: Duration,
) -> Result<OpenStream, ConnectFailure> {
    connect_any(addresses, limit, |address, until| {
        let socket = open(address, until).map_err(unmet(address))?;
        handshake::connect_open(&socket, token, until).map_err(met(address))?;
        ready(address, &socket)?;
        Ok(OpenStream::new(Arc::new(socket), None))
    })
}

/// Tries one address after the other, until a point in time that each gets.
fn connect_any<T>(
    addresses: &[SocketAddr],
    limit: Duration,
    connect_one: impl Fn(SocketAddr, Instant) -> Result<T, Attempt>,
) -> Result<T, ConnectFailure> {
    let until = Instant::now() + limit;
    let mut furthest: Option<Attempt> = None;
    for (index, address) in addresses.iter().enumerate() {
        // An address that does not answer must leave time for the next one.
        let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let share = until.saturating_duration_since(Instant::now()) / left;
        match connect_one(*address, Instant::now() + share) {
            Ok(stream) => return Ok(stream),
            Err(attempt) => {
                let is_further = match &furthest {
                    Some(best) => attempt.has_met && !best.has_met,
                    None => true,
                };
                if is_further {
                    furthest = Some(attempt);
                }
            }
        }
    }
    Err(furthest.map_or(ConnectFailure::NoAddress, |attempt| attempt.failure))
}

/// Attempt that failed.
struct Attempt {
    /// Whether something answered.
    has_met: bool,
    failure: ConnectFailure,
}

fn unmet(address: SocketAddr) -> impl FnOnce(io::Error) -> Attempt {
    move |error| Attempt { has_met: false, failure: no_socket(address, &error) }
}

fn met(address: SocketAddr) -> impl FnOnce(HandshakeError) -> Attempt {
    move |error| Attempt { has_met: true, failure: no_handshake(address, error) }
}

/// Ends the time limits of a socket whose handshake is done.
fn ready(address: SocketAddr, socket: &TcpStream) -> Result<(), Attempt> {
    handshake::end_timeouts(socket)
        .map_err(|error| Attempt { has_met: true, failure: no_socket(address, &error) })
}

fn open(address: SocketAddr, until: Instant) -> io::Result<TcpStream> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let socket = TcpStream::connect_timeout(&address, left)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn no_socket(address: SocketAddr, error: &io::Error) -> ConnectFailure {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::ConnectionRefused, _) => ConnectFailure::Refused { address },
        (io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock, _) => {
            ConnectFailure::TimedOut { address }
        }
        (io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable, _) => {
            ConnectFailure::NoRoute { address }
        }
        (io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted, _) => {
            ConnectFailure::Ended { address }
        }
        (_, raw) => {
            let errno = raw.map_or(Errno::EIO, Errno::from_raw);
            ConnectFailure::System { address, errno }
        }
    }
}

fn no_handshake(address: SocketAddr, error: HandshakeError) -> ConnectFailure {
    match error {
        HandshakeError::TimedOut => ConnectFailure::TimedOut { address },
        HandshakeError::Ended => ConnectFailure::Ended { address },
        HandshakeError::OtherKey => ConnectFailure::OtherKey { address },
        HandshakeError::OwnKeyRefused => ConnectFailure::OwnKeyRefused { address },
        HandshakeError::TokenRefused => ConnectFailure::TokenRefused { address },
        HandshakeError::Protocol(what) => ConnectFailure::Handshake { address, what },
        HandshakeError::System(errno) => ConnectFailure::System { address, errno },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_their_reason() {
        let address: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let cases = [
            (Errno::ECONNREFUSED, ConnectFailure::Refused { address }),
            (Errno::ETIMEDOUT, ConnectFailure::TimedOut { address }),
            (Errno::EAGAIN, ConnectFailure::TimedOut { address }),
            (Errno::EHOSTUNREACH, ConnectFailure::NoRoute { address }),
            (Errno::ENETUNREACH, ConnectFailure::NoRoute { address }),
            (Errno::ECONNRESET, ConnectFailure::Ended { address }),
            (Errno::EPERM, ConnectFailure::System { address, errno: Errno::EPERM }),
            (Errno::EMFILE, ConnectFailure::System { address, errno: Errno::EMFILE }),
        ];
        for (errno, failure) in cases {
            let error = io::Error::from_raw_os_error(errno.raw());
            assert_eq!(no_socket(address, &error), failure, "{errno:?}");
        }
    }
}
