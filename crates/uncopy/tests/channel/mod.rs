//! Channels and the objects that are sent in messages.

mod batches;
mod calls;
mod cycles;
mod events;
mod fifos;
mod handles;
#[cfg(shuttle)]
mod interleavings;
mod intruders;
mod memory;
mod messages;
mod model;
mod objects;
mod payloads;
mod promotion;
mod reports;
mod sockets;
mod succession;
mod suite;
mod waiting;

use std::io::IoSlice;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uncopy::channel::{Channel, Deadline, Handle, Object, SignalFd, Signals, Status};

/// Moves it to a socket and back, as to another process.
fn moved(channel: Channel) -> Channel {
    Channel::from_fd(channel.into_fd().unwrap()).unwrap()
}

/// Returns two ends with a socket between them.
fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, moved(far))
}

/// Sends `bytes` without handles.
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

/// Whether the peer of `channel` is closed.
fn is_orphan(channel: &dyn Object) -> bool {
    channel.signals().contains(Signals::PEER_CLOSED)
}

fn polls_readable(fd: &SignalFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}
