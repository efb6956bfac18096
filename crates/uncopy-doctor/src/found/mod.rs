//! Facts stated by findings, by topic, with their texts.

mod between;
mod channel;
mod detour;
mod files;
mod missing;
mod network;
mod probe;
mod process;
mod system;
mod tap;
mod trace;

use std::fmt;

pub use between::{BetweenEnd, BetweenFound};
pub use channel::{ChannelFound, ChannelReader};
pub use detour::Detour;
pub use files::{CopyCause, FilesFound, Side};
pub use missing::{Doubt, FilterAction, Missing, RuleDoubt};
pub use network::{Echo, NetworkFound};
pub use probe::ProbeFound;
pub use process::{ProcessFound, ProcessName};
pub use system::SystemFound;
pub use tap::{TapFound, TapHolder, TapPlace};
pub use trace::{CopySite, Sighting, TraceFound};

macro_rules! topics {
    ($($(#[$doc:meta])* $topic:ident($found:ident),)*) => {
        /// Fact that a finding states.
        ///
        /// Displayed as a clause: `lldpd (pid 812) holds a packet tap on all devices`.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum FoundFact {
            $($(#[$doc])* $topic($found),)*
        }

        impl fmt::Display for FoundFact {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(FoundFact::$topic(found) => found.fmt(f),)*
                }
            }
        }

        $(
            #[doc = concat!("[`FoundFact::", stringify!($topic), "`].")]
            impl From<$found> for FoundFact {
                fn from(found: $found) -> FoundFact {
                    FoundFact::$topic(found)
                }
            }
        )*
    };
}

topics! {
    /// Fact about a path through the network.
    Network(NetworkFound),
    /// Packet socket.
    Tap(TapFound),
    /// Result of a live probe.
    Probe(ProbeFound),
    /// Fact about the sockets of a process.
    Process(ProcessFound),
    /// Fact about a copy of files.
    Files(FilesFound),
    /// Fact about the kernel, limits and channels.
    System(SystemFound),
    /// Fact about a channel between processes.
    Channel(ChannelFound),
    /// Fact about a copy between machines.
    Between(BetweenFound),
    /// Result of sampling the kernel.
    Trace(TraceFound),
}

#[cfg(test)]
mod tests;
