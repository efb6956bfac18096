//! A send that the kernel copies in the call.

use std::net::SocketAddr;

use crate::batch::{is_sent_in_parts, max_call_bytes};
use crate::room::inet::InetSocket;
use crate::room::zerocopy::{self, Usage};
use crate::room::{ByteRange, Payload, StableBytes};
use crate::transmitter::Progress;
use uncopy_core::Errno;

/// A send on a socket that a sender owns, and how far it has come.
pub(super) struct Copying<B> {
    pub(super) number: u64,
    pub(super) payload: Payload<B>,
    pub(super) to: Option<SocketAddr>,
    pub(super) usage: Usage,
}

impl<B: StableBytes> Copying<B> {
    pub(super) fn new(number: u64, payload: Payload<B>, to: Option<SocketAddr>) -> Copying<B> {
        Copying { number, payload, to, usage: Usage::default() }
    }

    /// Sends as much as the socket has room for.
    pub(super) fn advance(&mut self, socket: &InetSocket) -> Progress {
        let Copying { payload, to, usage, .. } = self;
        let max_bytes = max_call_bytes(socket);
        loop {
            let range = ByteRange { from: usage.bytes, max_bytes };
            match zerocopy::send_copied(socket, payload, range, *to) {
                Ok(bytes) => {
                    usage.bytes += bytes;
                    usage.copied_parts += 1;
                    if usage.bytes >= payload.len() || !is_sent_in_parts(socket) {
                        return Progress::Done;
                    }
                }
                Err(Errno::EAGAIN) => return Progress::WaitForRoom,
                Err(errno) => return Progress::Failed(errno),
            }
        }
    }
}
