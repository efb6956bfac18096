//! Counts the senders and rings that send on a socket.

use std::sync::Arc;

use super::inet::{InetSocket, Transport};

/// A sender's or ring's share in a socket. When the last one is dropped, the stream ends after what was
/// sent.
pub(crate) struct Writer(Arc<InetSocket>);

impl Writer {
    pub(crate) fn new(socket: Arc<InetSocket>) -> Writer {
        socket.count_writer();
        Writer(socket)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // In a forked child the stream belongs to the parent.
        if self.0.is_inherited() {
            return;
        }
        if self.0.discount_writer() && self.0.transport() == Transport::Tcp {
            // Fails on a stream that is not connected, which has no end to send.
            let _ = self.0.finish();
        }
    }
}
