//! Those who send on a socket.

use std::sync::Arc;

use super::inet::{InetSocket, Transport};

/// One of those who send on a socket. When the last of them goes, the stream ends after what was sent.
pub(crate) struct Writer(Arc<InetSocket>);

impl Writer {
    pub(crate) fn new(socket: Arc<InetSocket>) -> Writer {
        socket.count_writer();
        Writer(socket)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // In a forked child the stream is the parent's.
        if self.0.is_inherited() {
            return;
        }
        if self.0.discount_writer() && self.0.transport() == Transport::Tcp {
            // One that is not connected has no end.
            let _ = self.0.finish();
        }
    }
}
