//! Data connections without TLS.

use std::fmt;
use std::net::TcpStream;
use std::sync::Arc;

use super::stream::StreamCutter;

/// Data connection that is neither encrypted nor authenticated. Nothing that comes over it is to be used before a digest that
/// came another way has been compared.
pub struct OpenStream {
    socket: Arc<TcpStream>,
    _held: Option<Box<dyn Send + Sync>>,
}

impl OpenStream {
    /// Takes over a connection whose token was shown. Gives `held` up when it is dropped.
    pub(super) fn new(socket: Arc<TcpStream>, held: Option<Box<dyn Send + Sync>>) -> OpenStream {
        OpenStream { socket, _held: held }
    }

    /// Returns the socket.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Returns what cuts this connection.
    #[must_use]
    pub fn cutter(&self) -> StreamCutter {
        StreamCutter::of(&self.socket)
    }
}

impl fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStream").field("socket", &self.socket).finish_non_exhaustive()
    }
}
