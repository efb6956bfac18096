//! The same tests with a socket between the ends, as between two processes.

#[path = "batches.rs"]
mod batches;
#[path = "calls.rs"]
mod calls;
#[path = "messages.rs"]
mod messages;
#[path = "waiting.rs"]
mod waiting;

use uncopy::channel::Channel;

fn pair() -> (Channel, Channel) {
    crate::socket_pair()
}
