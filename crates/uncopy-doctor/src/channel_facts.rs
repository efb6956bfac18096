//! Facts about a channel between processes.

use crate::found::{ChannelReader, ProcessName};
use uncopy_core::Errno;
use uncopy_os::capabilities::Limit;

/// Facts about a channel between processes, as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelFacts {
    /// The examined end. Its first holder is the examined process.
    pub near: ChannelEnd,
    /// The other end.
    pub far: FarEnd,
    /// Whether the descriptors of every process could be searched for the ends.
    pub are_holders_complete: bool,
    /// Bytes that a channel requests as send buffer.
    pub requested_bytes: u64,
    /// Maximum of that without CAP_NET_ADMIN (`net.core.wmem_max`). `None`: not readable.
    pub wmem_max_bytes: Option<u64>,
    /// Bytes that the kernel charges for messages of three sizes; empty if it could not be tried.
    pub charges: Vec<MessageCharge>,
}

/// The other end of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FarEnd {
    /// It is open.
    Open(ChannelEnd),
    /// It is closed.
    Closed,
    /// The kernel does not report it.
    Unknown {
        /// Answer of the kernel.
        errno: Errno,
    },
}

/// One end of a channel. `None`: this user has no right to read the fact, or the kernel does not report it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelEnd {
    /// Inode of the socket.
    pub inode: u64,
    /// Processes that hold it, as far as this user can see. Needs `PTRACE_MODE_READ_FSCREDS`.
    pub holders: Vec<ChannelHolder>,
    /// Whether it is shut down in both directions.
    pub is_shut_down: bool,
    /// Send buffer (`SO_SNDBUF`), which limits the messages on their way from this end.
    pub send_buffer_bytes: Option<u64>,
    /// Bytes that the messages on their way from this end take of the send buffer, with the kernel's overhead.
    pub sent_bytes: Option<u64>,
    /// Bytes of the messages on their way to this end, with their headers.
    pub unread_bytes: Option<u64>,
    /// Descriptors in messages on their way to this end. Needs `PTRACE_MODE_READ_FSCREDS`.
    pub unread_descriptors: Option<u64>,
    /// Settings that add work to messages that come here.
    pub work: Result<ReceiveWork, Errno>,
}

/// Settings of a socket that add work to messages that come to it. Reading them needs
/// `PTRACE_MODE_ATTACH_REALCREDS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveWork {
    /// Names of socket options.
    pub options: Vec<&'static str>,
    /// Whether a program filters the messages.
    pub has_filter: bool,
}

/// Process that holds an end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelHolder {
    /// The process.
    pub process: ProcessName,
    /// Number of its descriptor.
    pub descriptor: i32,
    /// State, as in `proc_pid_status(5)`: `T` if it is stopped, `t` if a debugger stopped it. `None`: it has
    /// ended meanwhile.
    pub state: Option<char>,
    /// Whether its control group is frozen.
    pub is_frozen: bool,
    /// Number of open descriptors. Needs `PTRACE_MODE_READ_FSCREDS`.
    pub open_files: Option<u64>,
    /// Limit on open descriptors (`RLIMIT_NOFILE`).
    pub max_open_files: Limit,
    /// Whether its descriptors in messages are not limited (`CAP_SYS_RESOURCE` or `CAP_SYS_ADMIN` in the first user
    /// namespace; `too_many_unix_fds` in `net/unix/garbage.c`).
    pub is_exempt: bool,
    /// Bytes of locked memory. Channels lock none.
    pub locked_bytes: Option<u64>,
    /// Limit on locked memory (`RLIMIT_MEMLOCK`).
    pub max_locked_bytes: Limit,
}

/// Bytes that the kernel charges for one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageCharge {
    /// Size of the message.
    pub message_bytes: u64,
    /// Bytes that it takes of the send buffer.
    pub charged_bytes: u64,
}

impl MessageCharge {
    /// Returns the number of messages that a send buffer holds. The kernel accepts a message while less than
    /// the whole buffer is in use (`sock_alloc_send_pskb` in `net/core/sock.c`).
    #[must_use]
    pub fn messages_in(&self, send_buffer_bytes: u64) -> u64 {
        send_buffer_bytes.div_ceil(self.charged_bytes.max(1))
    }
}

impl ChannelHolder {
    /// Whether it is stopped or frozen.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_frozen || matches!(self.state, Some('T' | 't'))
    }
}

impl ChannelEnd {
    /// Returns the process that reads what comes to this end.
    pub(crate) fn reader(&self) -> ChannelReader {
        match self.holders.first() {
            Some(holder) => ChannelReader::Process { process: holder.process.clone() },
            None => ChannelReader::Unseen,
        }
    }
}

impl ChannelFacts {
    /// Returns the other end, if it is open and known.
    #[must_use]
    pub fn open_far(&self) -> Option<&ChannelEnd> {
        match &self.far {
            FarEnd::Open(end) => Some(end),
            FarEnd::Closed | FarEnd::Unknown { .. } => None,
        }
    }

    /// Returns the known ends, the examined one first.
    pub fn ends(&self) -> impl Iterator<Item = &ChannelEnd> {
        std::iter::once(&self.near).chain(self.open_far())
    }
}
