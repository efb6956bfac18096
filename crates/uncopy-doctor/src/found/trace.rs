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
        Receiver = "this machine received it (loopback, veth)";
        /// Copy for an unknown reason.
        UnknownSite = "something on the way copied";
        /// Copy before a checksum is computed.
        Checksum = "to compute a checksum (no-tx-checksum)";
        /// Copy into segments.
        Segments = "to cut segments (no-scatter-gather)";
        /// Copy into one piece for a device.
        Device = "for the device (no-scatter-gather)";
        /// Copy that the sender asked for.
        PlainSend = "a plain send, as the program asked";
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
            /// Per cent of the processor's time.
            percent: usize,
        } = "took {percent} % of the time";
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
        Clean = "no function that copies was seen";
        /// Sampling is refused.
        Forbidden = "the kernel may not be sampled";
    }
}
