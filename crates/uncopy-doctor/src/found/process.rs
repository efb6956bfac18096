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
            /// The examined process.
            process: ProcessName,
        } = "{process} is in another network namespace";
        /// `/proc/PID/fd` cannot be read.
        SocketsHidden {
            /// The examined process.
            process: ProcessName,
        } = "the sockets of {process} cannot be read";
        /// No socket is connected.
        NoPeer {
            /// The examined process.
            process: ProcessName,
        } = "{process} has no connected socket";
        /// Sockets that are not connected.
        PeerWithEachSend {
            /// Number of these sockets.
            sockets: usize,
        } = "{sockets} of its sockets are not connected";
        /// Sockets of Multipath TCP.
        Multipath {
            /// Number of these sockets.
            sockets: usize,
        } = "{sockets} of its sockets use Multipath TCP";
        /// Sockets without `SO_ZEROCOPY`.
        ZerocopyOff {
            /// Number of these sockets.
            sockets: usize,
        } = "{sockets} of its sockets do not have SO_ZEROCOPY";
        /// Sockets above the limit on examined ones.
        SocketsLeftOut = "some of its sockets are not examined";
        /// Socket whose device, mark and options cannot be read.
        BindingNotSeen {
            /// Number of its descriptor.
            descriptor: i32,
        } = "the binding of descriptor {descriptor} is unknown";
    }
}
