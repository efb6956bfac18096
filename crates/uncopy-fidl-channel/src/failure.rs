//! Errors of a conversation.

use uncopy_channel::Status;
use uncopy_fidl::Error;

/// Reason why a call, a message or a whole conversation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Error of the channel.
    #[error("the channel: {0}")]
    Channel(#[from] Status),
    /// A value cannot be encoded, or a message cannot be decoded as its type.
    #[error("the message: {0}")]
    Message(#[from] Error),
    /// The server ended the conversation with an epitaph.
    #[error("the server ended with status {0}; look up what it means there")]
    Epitaph(i32),
    /// The answer belongs to another method than the call.
    #[error("an answer to {found:#x} came, {expected:#x} was called; speak one protocol")]
    WrongAnswer {
        /// The method that was called.
        expected: u64,
        /// The method in the answer.
        found: u64,
    },
    /// The protocol has no such method or event, and it must not be ignored.
    #[error("{ordinal:#x} is not in the protocol and cannot be passed over; speak one version")]
    UnknownInteraction {
        /// The ordinal.
        ordinal: u64,
    },
    /// A call to a method without an answer, or the reverse.
    #[error("{ordinal:#x} came with transaction {txid}; only calls have one, which is not 0")]
    WrongTransaction {
        /// The ordinal.
        ordinal: u64,
        /// The transaction id.
        txid: u32,
    },
}
