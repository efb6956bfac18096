//! What the kernel offers, whatever the filesystem.

use super::Answer;

/// What this kernel offers this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// As `uname -r` prints it: `6.18.0-1-amd64`.
    pub release: String,
    /// Whether io_uring can be used, and for what.
    pub io_uring: IoUring,
    /// On which sockets `SO_ZEROCOPY` can be set, so that `MSG_ZEROCOPY` is accepted. Whether
    /// bytes then really stay where they are depends on the route and the device.
    pub msg_zerocopy: Vec<ZerocopySocket>,
    /// What bounds these ways.
    pub limits: Limits,
}

/// Whether io_uring can be used, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoUring {
    /// A ring was made and asked which operations it knows.
    pub available: Answer,
    /// `/proc/sys/kernel/io_uring_disabled`: 0 for everybody, 1 for a group or `CAP_SYS_ADMIN`, 2
    /// for nobody. `None` before Linux 6.6.
    pub disabled: Option<u8>,
    /// Every operation that this library knows of, with whether this kernel knows it
    /// (`IORING_REGISTER_PROBE`). Empty if no ring could be made.
    pub operations: Vec<UringOperation>,
}

/// An operation of io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UringOperation {
    /// Its name in `linux/io_uring.h` without the prefix, in lower case: `send_zc`.
    pub name: &'static str,
    /// This kernel has it.
    pub supported: bool,
}

/// Protocol of a socket, with the version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketProtocol {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
    /// A stream between processes of this machine (`unix(7)`).
    Unix,
}

impl SocketProtocol {
    /// Every protocol.
    pub const ALL: [SocketProtocol; 5] = [
        SocketProtocol::Tcp4,
        SocketProtocol::Tcp6,
        SocketProtocol::Udp4,
        SocketProtocol::Udp6,
        SocketProtocol::Unix,
    ];

    /// The name in reports: `tcp4`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SocketProtocol::Tcp4 => "tcp4",
            SocketProtocol::Tcp6 => "tcp6",
            SocketProtocol::Udp4 => "udp4",
            SocketProtocol::Udp6 => "udp6",
            SocketProtocol::Unix => "unix",
        }
    }
}

/// Whether sockets of a protocol take `SO_ZEROCOPY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZerocopySocket {
    /// The protocol.
    pub protocol: SocketProtocol,
    /// Whether the option could be set.
    pub answer: Answer,
}

/// What bounds how much may be in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes that an unprivileged user's pipe may hold (`/proc/sys/fs/pipe-max-size`).
    pub pipe_max_bytes: Option<u64>,
    /// Bytes of control data and notifications that a socket may hold
    /// (`/proc/sys/net/core/optmem_max`): bounds what `MSG_ZEROCOPY` has in flight.
    pub optmem_max_bytes: Option<u64>,
    /// Bytes that may be locked (`RLIMIT_MEMLOCK`): bounds registered buffers and zero-copy sends.
    pub memlock: Limit,
    /// Open files (`RLIMIT_NOFILE`).
    pub open_files: Limit,
}

/// A resource limit (`getrlimit(2)`). `None`: unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// What is enforced.
    pub soft: Option<u64>,
    /// How far the process may raise it by itself.
    pub hard: Option<u64>,
}
