//! Channels, messages, and handles. They refer to each other, because a message carries handles and
//! a handle may be to an end of a channel.

mod call;
mod cycle;
mod endpoint;
mod handle;
mod message;
mod packing;
mod queue;

pub use endpoint::{Channel, Lengths, Oversized};
pub(super) use endpoint::{Rejected, gather, hand_over, leave_queue, refusal, total_bytes};
pub use handle::Handle;
pub use message::{MessageBuf, Part};
pub use queue::Bounds;
