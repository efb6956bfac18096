//! Handshakes of data connections, with a deadline: TLS, then the token one way and a byte the other way.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, ServerConfig, ServerConnection, Stream,
};
use uncopy_core::Errno;

use super::Token;
use super::tls::PROTOCOL;

/// Answer to a token that is accepted. Only this shows the near end that its own key was, too.
const ACCEPTED: u8 = 1;

/// Time for which a refused peer may go on to send, so that it gets the reason instead of a reset.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that are read from a refused peer.
const MAX_LINGER_BYTES: u64 = 64 << 10;

/// Reason why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandshakeError {
    TimedOut,
    /// The other end closed the connection.
    Ended,
    /// The other end has another key.
    OtherKey,
    /// The other end expects another key of this end.
    OwnKeyRefused,
    TokenRefused,
    /// The other end speaks something else.
    Protocol(String),
    System(Errno),
}

/// Connects as the near end.
pub(super) fn connect(
    config: Arc<ClientConfig>,
    socket: &TcpStream,
    token: &Token,
    until: Instant,
) -> Result<ClientConnection, HandshakeError> {
    let mut timed = Timed { socket, until };
    let address = socket.peer_addr().map_err(|error| classify(&error))?;
    let name = ServerName::from(address.ip());
    let mut tls = ClientConnection::new(config, name).map_err(|error| classify_tls(&error))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut timed).map_err(|error| classify(&error))?;
    }
    check_protocol(tls.alpn_protocol())?;
    let mut stream = Stream::new(&mut tls, &mut timed);
    let sent = stream.write_all(token.as_bytes()).and_then(|()| stream.flush());
    let mut answer = [0];
    // A far end that refuses this end's key says so while the token is under way.
    let answered = stream.read(&mut answer);
    match (sent, answered, answer) {
        (_, Ok(0), _) => Err(HandshakeError::TokenRefused),
        (Ok(()), Ok(_), [ACCEPTED]) => Ok(tls),
        (Ok(()), Ok(_), [other]) => {
            Err(HandshakeError::Protocol(format!("it answers a token with {other}")))
        }
        (_, Err(error), _) | (Err(error), _, _) => Err(classify(&error)),
    }
}

/// Connects as the near end, without TLS.
pub(super) fn connect_open(
    socket: &TcpStream,
    token: &Token,
    until: Instant,
) -> Result<(), HandshakeError> {
    let mut timed = Timed { socket, until };
    timed.write_all(token.as_bytes()).map_err(|error| classify(&error))?;
    let mut answer = [0];
    match timed.read(&mut answer) {
        Ok(0) => Err(HandshakeError::TokenRefused),
        Ok(_) if answer == [ACCEPTED] => Ok(()),
        Ok(_) => Err(HandshakeError::Protocol(format!("it answers a token with {}", answer[0]))),
        Err(error) => Err(classify(&error)),
    }
}

/// Receives a token as the far end, without TLS. The near end waits for [`acknowledge_open`].
pub(super) fn accept_open(socket: &TcpStream, until: Instant) -> Result<Token, HandshakeError> {
    let mut token = [0; 32];
    let received = Timed { socket, until }.read_exact(&mut token);
    received.map(|()| Token::from_bytes(token)).map_err(|error| classify(&error))
}

/// Lets the near end know that its token is accepted, without TLS.
pub(super) fn acknowledge_open(socket: &TcpStream, until: Instant) -> Result<(), HandshakeError> {
    let sent = Timed { socket, until }.write_all(&[ACCEPTED]);
    sent.and_then(|()| end_timeouts(socket)).map_err(|error| classify(&error))
}

/// Lets the near end know that its token is refused, without TLS.
pub(super) fn refuse_open(socket: &TcpStream, until: Instant) {
    linger(&Timed { socket, until });
}

/// Shakes hands as the far end; returns the token that was shown. The near end waits for [`acknowledge`].
pub(super) fn accept(
    config: Arc<ServerConfig>,
    socket: &TcpStream,
    until: Instant,
) -> Result<(ServerConnection, Token), HandshakeError> {
    let mut timed = Timed { socket, until };
    let mut tls = ServerConnection::new(config).map_err(|error| classify_tls(&error))?;
    let shaken = receive_token(&mut tls, &mut timed);
    match shaken {
        Ok(token) => Ok((tls, token)),
        Err(error) => {
            linger(&timed);
            Err(error)
        }
    }
}

fn receive_token(
    tls: &mut ServerConnection,
    timed: &mut Timed<'_>,
) -> Result<Token, HandshakeError> {
    while tls.is_handshaking() {
        tls.complete_io(timed).map_err(|error| classify(&error))?;
    }
    check_protocol(tls.alpn_protocol())?;
    let mut token = [0; 32];
    Stream::new(tls, timed).read_exact(&mut token).map_err(|error| classify(&error))?;
    Ok(Token::from_bytes(token))
}

/// Lets the near end know that its token is accepted.
pub(super) fn acknowledge(
    tls: &mut ServerConnection,
    socket: &TcpStream,
    until: Instant,
) -> Result<(), HandshakeError> {
    let mut timed = Timed { socket, until };
    let mut stream = Stream::new(tls, &mut timed);
    let sent = stream.write_all(&[ACCEPTED]).and_then(|()| stream.flush());
    let ready = sent.and_then(|()| end_timeouts(socket));
    ready.map_err(|error| classify(&error))
}

/// Lets the near end know that its token is refused.
pub(super) fn refuse(tls: &mut ServerConnection, socket: &TcpStream, until: Instant) {
    let mut timed = Timed { socket, until };
    tls.send_close_notify();
    while tls.wants_write() && tls.write_tls(&mut timed).is_ok() {}
    linger(&timed);
}

/// Lets reads and writes wait as long as they must, from now on.
pub(super) fn end_timeouts(socket: &TcpStream) -> io::Result<()> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)
}

/// Reads what a refused peer still sends. Closing before would reset the connection, and an alert that the peer has not
/// read yet would be lost.
fn linger(timed: &Timed<'_>) {
    let until = timed.until.min(Instant::now() + LINGER);
    if timed.socket.shutdown(Shutdown::Write).is_ok() {
        let rest = Timed { socket: timed.socket, until };
        // How it ends does not matter: the connection is refused.
        let _ = io::copy(&mut rest.take(MAX_LINGER_BYTES), &mut io::sink());
    }
}

fn check_protocol(chosen: Option<&[u8]>) -> Result<(), HandshakeError> {
    let is_ours = chosen == Some(PROTOCOL);
    is_ours.then_some(()).ok_or_else(|| HandshakeError::Protocol("it names no protocol".to_owned()))
}

fn classify(error: &io::Error) -> HandshakeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (inner, error.raw_os_error()) {
        (Some(error), _) => classify_tls(error),
        (None, _) if is_timeout(error) => HandshakeError::TimedOut,
        (None, _) if is_end(error) => HandshakeError::Ended,
        (None, Some(raw)) => HandshakeError::System(Errno::from_raw(raw)),
        (None, None) => HandshakeError::Protocol(error.to_string()),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof,
    };
    let kinds = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof];
    kinds.contains(&error.kind())
}

fn classify_tls(error: &rustls::Error) -> HandshakeError {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateRequired, CertificateUnknown, DecryptError,
        UnknownCA, UnsupportedCertificate,
    };
    match error {
        rustls::Error::InvalidCertificate(_) => HandshakeError::OtherKey,
        rustls::Error::AlertReceived(
            AccessDenied
            | BadCertificate
            | CertificateRequired
            | CertificateUnknown
            | DecryptError
            | UnknownCA
            | UnsupportedCertificate,
        ) => HandshakeError::OwnKeyRefused,
        _ => HandshakeError::Protocol(error.to_string()),
    }
}

/// Socket whose reads and writes together end at a point in time.
struct Timed<'a> {
    socket: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let remaining = self.until.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(remaining)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.remaining()?)?;
        let mut socket = self.socket;
        socket.read(bytes).map_err(as_timeout)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Writes several records at once. After an error TLS writes once: an alert may not be the first record.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.remaining()?)?;
        let mut socket = self.socket;
        socket.write_vectored(parts).map_err(as_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes an elapsed time of a blocking socket what it is: TLS takes "would block" for something to wait for.
fn as_timeout(error: io::Error) -> io::Error {
    if is_timeout(&error) { io::ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests;
