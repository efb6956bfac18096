//! Results of sampling the kernel.

use crate::worded::worded;

worded! {
    /// Meaning of a copying function, by its caller.
    pub enum CopySite {
        /// Copy for a packet tap.
        Tap = "a packet tap copied (tap-eth-p-all)";
        /// Copy for a program behind a tun or tap device.
        Tun = "a tun or tap device copied (tun-tap)";
        /// Copy as this machine receives.
        Receiver = "this machine received the packet (loopback, veth)";
        /// Copy for an unknown reason.
        UnknownSite = "copied for an unknown reason";
        /// Copy before a checksum is computed.
        Checksum = "to compute a checksum (no-tx-checksum)";
        /// Copy into segments.
        Segments = "to create segments (no-scatter-gather)";
        /// Copy into one piece for a device.
        Device = "for the device (no-scatter-gather)";
        /// Copy by a plain send.
        PlainSend = "a plain send, as requested by the program";
        /// Copy into the page cache.
        BufferedWrite = "a buffered write (kernel-copies, program-copies)";
        /// Copy out of the page cache.
        Read = "a read (program-copies)";
    }
}

worded! {
    /// Extent to which a function was seen.
    pub enum Sighting {
        /// Part of all samples.
        Share {
            /// Percentage of the CPU time.
            percent: usize,
        } = "took {percent} % of the CPU time";
        /// Calls that no sample met.
        Calls {
            /// Number of calls.
            calls: usize,
        } = "was called {calls} times";
    }
}

worded! {
    /// Result of sampling the kernel.
    ///
    /// Displayed as a clause.
    pub enum TraceFound {
        /// A function was seen copying.
        Copies {
            /// Name of the function in the kernel.
            function: &'static str,
            /// Part of the name of a function that called it, directly or not; empty: any.
            caller: &'static str,
            /// Extent to which it was seen.
            sighting: Sighting,
            /// Meaning of the copy.
            site: CopySite,
        } = "{function}{by}{caller} {sighting}: {site}",
            by = if caller.is_empty() { "" } else { " ← " };
        /// No function was seen copying.
        Clean = "no copying function was seen";
        /// Sampling is refused.
        Forbidden = "the kernel cannot be sampled";
    }
}
