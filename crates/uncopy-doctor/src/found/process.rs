//! Processes and their sockets.

use std::fmt;

use crate::worded::worded;

/// Name and id of a process.
///
/// Displayed as `lldpd (pid 812)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessName {
    /// Name of the program, as `/proc/PID/comm` has it: 15 bytes at most.
    pub program: String,
    /// Id of the process.
    pub pid: u32,
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.program, self.pid)
    }
}

worded! {
    /// Fact about the sockets of a process.
    ///
    /// Displayed as a clause.
    pub enum ProcessFound {
        /// The process has another network namespace.
        OtherNetwork {
            /// Process that was asked about.
            process: ProcessName,
        } = "{process} lives in another network";
        /// `/proc/PID/fd` cannot be read.
        SocketsHidden {
            /// Process that was asked about.
            process: ProcessName,
        } = "{process} does not show its sockets";
        /// No socket is connected.
        NoPeer {
            /// Process that was asked about.
            process: ProcessName,
        } = "{process} has no socket with a peer";
        /// Sockets that are not connected.
        PeerWithEachSend {
            /// Number of these sockets.
            sockets: usize,
        } = "{sockets} of its sockets name a peer with each send";
        /// Sockets of Multipath TCP.
        Multipath {
            /// Number of these sockets.
            sockets: usize,
        } = "{sockets} of its sockets are of Multipath TCP";
        /// Sockets that did not ask for zero-copy.
        ZerocopyOff {
            /// Number of these sockets.
            sockets: usize,
        } = "{sockets} of its sockets do not have SO_ZEROCOPY";
        /// More sockets than are looked at.
        SocketsLeftOut = "some of its sockets are not looked at";
        /// Socket whose device, mark and options cannot be read.
        BindingNotSeen {
            /// Number of its descriptor.
            descriptor: i32,
        } = "what descriptor {descriptor} is bound to cannot be told";
    }
}
