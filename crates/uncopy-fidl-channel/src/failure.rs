//! Why a conversation failed.

use uncopy_channel::Status;
use uncopy_fidl::Error;

/// Why a call, a message or a whole conversation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The channel refused.
    #[error("the channel: {0}")]
    Channel(#[from] Status),
    /// A value cannot be encoded, or what came is no message of its type.
    #[error("the message: {0}")]
    Message(#[from] Error),
    /// The server ended the conversation and said why.
    #[error("the server ended with status {0}; look up what it means there")]
    Epitaph(i32),
    /// An answer to another method than was called.
    #[error("an answer to {found:#x} came, {expected:#x} was called; speak one protocol")]
    WrongAnswer {
        /// The method that was called.
        expected: u64,
        /// The answer's.
        found: u64,
    },
    /// The protocol has no such method or event, and it may not be passed over.
    #[error("{ordinal:#x} is not in the protocol and cannot be passed over; speak one version")]
    UnknownInteraction {
        /// The ordinal.
        ordinal: u64,
    },
    /// A call to a method without answer, or the other way round.
    #[error("{ordinal:#x} came with transaction {txid}; only calls have one, which is not 0")]
    WrongTransaction {
        /// The ordinal.
        ordinal: u64,
        /// The transaction id.
        txid: u32,
    },
}
