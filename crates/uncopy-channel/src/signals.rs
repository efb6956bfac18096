//! Signals: bits of an object's state that can be waited for.

bitflags::bitflags! {
    /// Signals, with Zircon's bits (`zircon/types.h`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Signals: u32 {
        /// There is something to read.
        const READABLE = 1;
        /// There is room to write: the peer is open and its queue below its bounds.
        const WRITABLE = 1 << 1;
        /// The other end is closed.
        const PEER_CLOSED = 1 << 2;
        /// An event's own signal.
        const SIGNALED = 1 << 3;
        /// A socket's peer has disabled its writing.
        const PEER_WRITE_DISABLED = 1 << 4;
        /// Writing at this end of a socket is disabled.
        const WRITE_DISABLED = 1 << 5;
        /// A socket has at least as many bytes to read as its read threshold.
        const READ_THRESHOLD = 1 << 10;
        /// A socket has at least as much room to write as its write threshold.
        const WRITE_THRESHOLD = 1 << 11;
        /// The handle waited on was closed.
        const HANDLE_CLOSED = 1 << 23;
        /// For the program to use.
        const USER_0 = 1 << 24;
        /// For the program to use.
        const USER_1 = 1 << 25;
        /// For the program to use.
        const USER_2 = 1 << 26;
        /// For the program to use.
        const USER_3 = 1 << 27;
        /// For the program to use.
        const USER_4 = 1 << 28;
        /// For the program to use.
        const USER_5 = 1 << 29;
        /// For the program to use.
        const USER_6 = 1 << 30;
        /// For the program to use.
        const USER_7 = 1 << 31;
        /// All user signals.
        const USER_ALL = 0xff << 24;
    }
}
