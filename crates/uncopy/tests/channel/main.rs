//! Channels and the objects that travel on them.
#![cfg(target_os = "linux")]

mod batches;
mod calls;
mod cycles;
mod handles;
#[cfg(shuttle)]
mod interleavings;
mod messages;
mod model;
mod objects;
mod waiting;

use std::io::IoSlice;

use uncopy::channel::{Channel, Deadline, Handle, Object, Signals, Status};

/// Sends `bytes` alone.
fn send(channel: &Channel, bytes: &[u8]) -> Result<(), Status> {
    channel.write(&[IoSlice::new(bytes)], Vec::new())
}

/// Sends `handles` with an empty message.
fn send_handles(channel: &Channel, handles: Vec<Handle>) -> Result<(), Status> {
    channel.write(&[], handles)
}

fn past() -> Deadline {
    Deadline::after(std::time::Duration::ZERO)
}

/// The other end of what `channel` belongs to is closed.
fn is_orphan(channel: &dyn Object) -> bool {
    channel.signals().contains(Signals::PEER_CLOSED)
}
