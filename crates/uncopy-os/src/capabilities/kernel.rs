//! Kernel features that do not depend on a filesystem.

use super::Answer;

/// Kernel features that this process can use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// Release, as `uname -r` prints it: `6.18.0-1-amd64`.
    pub release: String,
    /// Availability of io_uring.
    pub io_uring: IoUring,
    /// Sockets with `SO_ZEROCOPY`, which accept `MSG_ZEROCOPY`. Whether the bytes are then really not copied
    /// depends on the route and the device.
    pub msg_zerocopy: Vec<ZerocopySocket>,
    /// Resource limits.
    pub limits: Limits,
}

/// Availability of io_uring.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoUring {
    /// Whether a ring could be created and its operations listed.
    pub available: Answer,
    /// `/proc/sys/kernel/io_uring_disabled`: 0: allowed for every user, 1: for a group or `CAP_SYS_ADMIN`,
    /// 2: forbidden. `None` before Linux 6.6.
    pub disabled: Option<u8>,
    /// Every operation known to this library, and whether this kernel supports it (`IORING_REGISTER_PROBE`).
    /// Empty if no ring could be created.
    pub operations: Vec<UringOperation>,
}

/// An operation of io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UringOperation {
    /// Its name in `linux/io_uring.h` without the prefix, in lower case: `send_zc`.
    pub name: &'static str,
    /// Whether this kernel supports it.
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
    /// Stream between processes of this machine (`unix(7)`).
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

    /// Returns the name in reports: `tcp4`.
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

/// Whether sockets of a protocol accept `SO_ZEROCOPY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZerocopySocket {
    /// The protocol.
    pub protocol: SocketProtocol,
    /// Whether the option could be set.
    pub answer: Answer,
}

/// Limits on the number of bytes in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of a pipe for unprivileged users (`/proc/sys/fs/pipe-max-size`).
    pub pipe_max_bytes: Option<u64>,
    /// Maximum size of control data and notifications of a socket (`/proc/sys/net/core/optmem_max`). Limits the
    /// number of `MSG_ZEROCOPY` sends in flight.
    pub optmem_max_bytes: Option<u64>,
    /// Bytes of locked memory (`RLIMIT_MEMLOCK`). Limits registered buffers and zero-copy sends.
    pub memlock: Limit,
    /// Open files (`RLIMIT_NOFILE`).
    pub open_files: Limit,
}

/// A resource limit (`getrlimit(2)`). `None`: unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// The limit that the kernel enforces.
    pub soft: Option<u64>,
    /// The maximum to which an unprivileged process can raise it.
    pub hard: Option<u64>,
}
