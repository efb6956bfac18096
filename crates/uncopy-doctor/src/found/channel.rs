//! Facts about channels between processes.

use std::fmt;

use super::process::ProcessName;
use crate::worded::worded;

/// Process that reads what comes to one end of a channel.
///
/// Displayed as `worker (pid 812)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelReader {
    /// First process that is known to hold the end.
    Process {
        /// The process.
        process: ProcessName,
    },
    /// No process is known to hold it.
    Unseen,
}

impl fmt::Display for ChannelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelReader::Process { process } => process.fmt(f),
            ChannelReader::Unseen => f.write_str("an unknown process"),
        }
    }
}

worded! {
    /// Fact about a channel between processes.
    ///
    /// Displayed as a clause.
    pub enum ChannelFound {
        /// Messages go through a socket.
        Socket {
            /// Process that reads them.
            reader: ChannelReader,
        } = "messages to {reader} go through a socket";
        /// Both ends are in one process.
        OneProcess {
            /// The process.
            process: ProcessName,
        } = "{process} holds both ends";
        /// Nothing can be sent any more.
        Ended = "the channel has ended";
        /// No process is known to hold the other end.
        PeerUnseen = "the process with the other end is unknown";
        /// The options of the socket cannot be read.
        OptionsUnseen = "the options of the socket cannot be read";
        /// Stopped process.
        ReaderStopped {
            /// First process that holds the end.
            process: ProcessName,
        } = "{process}, which reads, is stopped";
        /// Full socket.
        QueueFull {
            /// Process that reads.
            reader: ChannelReader,
        } = "the socket to {reader} is full";
        /// Socket in which a message with handles has no room.
        QueueCrowded {
            /// Process that reads.
            reader: ChannelReader,
        } = "the socket to {reader} has too little room for handles";
        /// Small send buffer.
        FewMessages {
            /// Number of messages that it holds.
            messages: u64,
            /// Size of each.
            message_bytes: u64,
        } = "the socket holds {messages} messages of {message_bytes} bytes";
        /// Few descriptors left.
        FewDescriptors {
            /// The process.
            process: ProcessName,
            /// Number of descriptors that it can still open.
            left: u64,
        } = "{process} can open only {left} more descriptors";
        /// Descriptors in unread messages.
        DescriptorsInFlight {
            /// Their number.
            descriptors: u64,
            /// Process that has not read the messages.
            reader: ChannelReader,
        } = "{descriptors} descriptors are in messages that {reader} has not received";
        /// Options that add work to every message.
        Options {
            /// Process that reads.
            reader: ChannelReader,
        } = "socket options add work to every message to {reader}";
        /// Filter.
        Filter {
            /// Process that reads.
            reader: ChannelReader,
        } = "a program filters the messages to {reader}";
    }
}
