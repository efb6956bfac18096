//! Sends that are copied in the call.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::buf::{Payload, StableBytes};
use crate::error::{Errno, Result};
use crate::send::batch::{is_sent_in_parts, train_most};
use crate::sys::inet::{Socket, Wanted};
use crate::sys::zerocopy::{self, Landed, Usage};

/// Sends all of it, waiting for room.
pub(super) fn send<B: StableBytes>(
    socket: &Arc<Socket>,
    number: u64,
    payload: Payload<B>,
    to: Option<SocketAddr>,
) -> (Landed<B>, Result<usize, Errno>) {
    let (length, most) = (payload.len(), train_most(socket));
    let mut usage = Usage::default();
    let result = loop {
        match zerocopy::send_copied(socket, &payload, (usage.bytes, most), to) {
            Ok(bytes) => {
                usage.bytes += bytes;
                usage.copied_parts += 1;
                if usage.bytes >= length || !is_sent_in_parts(socket) {
                    break Ok(usage.bytes);
                }
            }
            Err(Errno::EAGAIN) => socket.wait(Wanted::Room, None),
            Err(errno) => break Err(errno),
        }
    };
    (Landed { number, payload, usage }, result)
}

/// What was not sent at all.
pub(super) fn unsent<B: StableBytes>(number: u64, payload: Payload<B>) -> Landed<B> {
    Landed { number, payload, usage: Usage::default() }
}
