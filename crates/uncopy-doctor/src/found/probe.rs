//! Results of a live probe.

use crate::worded::worded;

worded! {
    /// Result of a live probe.
    ///
    /// Displayed as a clause.
    pub enum ProbeFound {
        /// The target did not answer as `uncopy bench recv` does.
        NotGreeted = "the target did not answer as uncopy bench recv";
        /// Connecting or sending failed.
        Failed = "nothing could be sent";
        /// No send was reported.
        NothingSent = "no byte of the probe was sent";
        /// No report says whether bytes were copied.
        NothingBelieved = "the kernel's reports are unreliable";
        /// Reports contradict a copy that other findings predict.
        Contradicted = "the probe was not copied, although other findings predict a copy";
        /// All reports say that nothing was copied.
        NotCopied = "the probe was not copied";
        /// All reports say that bytes were copied.
        Copied = "the probe was copied";
        /// Some sends were not copied; the others were not reported.
        PartlyUnknown = "some of the probe was not copied; for the rest it is unknown";
        /// Reports differ from send to send.
        PartlyCopied = "some of the probe was copied, and some was not";
    }
}
