//! Facts about copies between machines.

use std::fmt;

use crate::worded::worded;

/// End of a copy between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BetweenEnd {
    /// This machine.
    Near,
    /// The other machine.
    Far,
}

impl fmt::Display for BetweenEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BetweenEnd::Near => "this machine",
            BetweenEnd::Far => "the other machine",
        })
    }
}

worded! {
    /// Fact about a copy between machines.
    ///
    /// Displayed as a clause.
    pub enum BetweenFound {
        /// Everything goes through ssh.
        Ssh = "every byte goes through ssh";
        /// Data connections with TLS.
        Tls {
            /// Maximum number of connections.
            connections: u32,
        } = "every byte is encrypted on one of up to {connections} data connections";
        /// Data connections without encryption.
        Open {
            /// Maximum number of connections.
            connections: u32,
        } = "bytes go in the clear over one of up to {connections} data connections";
        /// No address.
        NoAddress = "the other machine does not know the address that it was reached by";
        /// The other end's name has no address.
        Unresolved = "the name of the other machine has no address here";
        /// A third machine between.
        Proxied = "ssh reaches the other machine through a third one or a program";
        /// A configuration that cannot be read.
        SettingsUnread = "the configuration of the other machine cannot be read, and may forbid data connections";
        /// A policy or an option.
        NotWanted {
            /// End that wants no data connections.
            by: BetweenEnd,
        } = "{by} wants no data connections";
        /// Preferred cipher of ssh.
        SlowCipher {
            /// Its name.
            preferred: String,
            /// A quicker one that ssh offers too.
            quicker: String,
        } = "ssh prefers {preferred} to {quicker}";
        /// Kernel TLS.
        KernelTls {
            /// End that has it.
            at: BetweenEnd,
        } = "the kernel of {at} can encrypt TLS";
        /// No Landlock.
        NotConfined = "the other machine has no Landlock";
        /// No reflinks at the destination.
        NoReflink {
            /// Filesystem there.
            filesystem: String,
        } = "{filesystem} at the destination shares no blocks";
    }
}
