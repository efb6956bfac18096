//! Facts about the kernel, limits and channels.

use crate::worded::worded;

worded! {
    /// Fact about the kernel, limits and channels.
    ///
    /// Displayed as a clause.
    pub enum SystemFound {
        /// Low limit on open files.
        FewOpenFiles {
            /// The limit.
            files: u64,
        } = "only {files} files may be open";
        /// Small buffer of a channel's socket.
        FewMessages {
            /// Number of messages that it holds.
            messages: u64,
            /// Size of each.
            message_bytes: u64,
        } = "a socket holds only {messages} messages of {message_bytes} bytes";
        /// Socket pairs cannot be made.
        NoSocketPairs = "channels work only within one process";
        /// Memory files cannot be made.
        NoMemoryFiles = "memory objects cannot be created";
        /// Rings cannot be made.
        NoRings = "io_uring cannot be used";
        /// Copies that channels make.
        Transports = "channels copy once within a process, and twice between processes";
    }
}
