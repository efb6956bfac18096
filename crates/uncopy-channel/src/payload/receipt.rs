//! Receipts of payloads.

use std::fmt;

use uncopy_core::Cost;

/// Way in which the bytes of a payload were carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PayloadWay {
    /// In one message.
    Message,
    /// Cut into several messages.
    Messages,
    /// Over a stream socket beside the channel.
    Stream,
    /// As sealed memory.
    Memory,
    /// In a slot of a pool that both processes have mapped.
    Pool,
}

/// Why a payload was carried so, and cost what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PayloadReason {
    /// It is short enough for one message.
    Short,
    /// It is longer than a message, and no stream is asked for at its length, or it stays within a process.
    Cut,
    /// It is long, and the receiver has offered no stream: the first long payload, or no descriptor was left.
    NoStream,
    /// It is long enough for the stream ([`PayloadOptions::stream_from`](super::PayloadOptions::stream_from)).
    Long,
    /// It was sealed memory already.
    Sealed,
    /// It was copied into fresh memory, because the options ask for memory from this length on.
    Stored,
    /// The program wrote it into the pool itself.
    InPlace,
    /// It was copied into the pool.
    CopiedIn,
    /// It was copied out of the pool, because the receiver does not trust its peer.
    CopiedOut,
}

impl fmt::Display for PayloadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PayloadReason::Short => "short enough for one message",
            PayloadReason::Cut => "cut into messages",
            PayloadReason::NoStream => "cut into messages; the receiver has offered no stream yet",
            PayloadReason::Long => "long enough for a stream",
            PayloadReason::Sealed => "sealed memory, which nobody copies",
            PayloadReason::Stored => "copied into fresh memory, as the options ask",
            PayloadReason::InPlace => "written into the pool in place",
            PayloadReason::CopiedIn => "copied into the pool",
            PayloadReason::CopiedOut => "copied out of the pool of a peer that is not trusted",
        })
    }
}

/// Result of sending or receiving a payload.
///
/// The cost is what this side paid: [`Cost::Shared`] if nobody copied the bytes here, [`Cost::KernelCopied`] if they
/// were copied by the kernel, [`Cost::UserCopied`] if by this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadReceipt {
    /// Number of bytes.
    pub bytes: u64,
    /// How they were carried.
    pub way: PayloadWay,
    /// Cost of every byte on this side.
    pub cost: Cost,
    /// Why.
    pub reason: PayloadReason,
}
