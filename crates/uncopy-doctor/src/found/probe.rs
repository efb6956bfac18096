//! Results of a live probe.

use crate::worded::worded;

worded! {
    /// Result of a live probe.
    ///
    /// Displayed as a clause.
    pub enum ProbeFound {
        /// The target did not answer as `uncopy bench recv` does.
        NotGreeted = "the target is no uncopy bench recv";
        /// Connecting or sending failed.
        Failed = "nothing could be sent";
        /// No send was reported.
        NothingSent = "nothing of the probe was sent";
        /// No report says whether bytes were copied.
        NothingBelieved = "the kernel's reports say nothing that can be believed";
        /// Reports deny a copy that other findings predict.
        Contradicted = "the probe was not copied, though it should have been";
        /// Reports deny any copy.
        NotCopied = "the probe was not copied";
        /// Reports tell of copies alone.
        Copied = "the probe was copied";
        /// Reports deny some copies and are silent about the rest.
        PartlyUnknown = "some of the probe was not copied, and of some it is not known";
        /// Reports differ from send to send.
        PartlyCopied = "some of the probe was copied, some was not";
    }
}
