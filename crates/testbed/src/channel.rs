//! Channels that tests talk over.

use uncopy::channel::{Channel, Deadline, MessageBuf, Object, Signals, Status};

/// The next message, which is waited for.
///
/// # Errors
/// Why none comes.
pub fn next_message(channel: &Channel, deadline: Deadline) -> Result<MessageBuf, Status> {
    loop {
        match channel.read() {
            Err(Status::ShouldWait) => {
                channel.wait_one(Signals::READABLE | Signals::PEER_CLOSED, deadline)?;
            }
            other => return other,
        }
    }
}
