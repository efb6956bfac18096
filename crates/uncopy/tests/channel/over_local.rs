//! Tests of every rule that holds wherever the ends are, with both ends in this process.

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
    Channel::pair()
}
