//! Effects of findings on the bytes.

use std::fmt;

use super::condition::Condition;

/// Effect of a finding on the bytes.
///
/// Displayed as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Effect that its condition names: [`Condition::effect`].
    Usual(&'static Condition),
    /// Copies for a program (XDP) at the other end of a veth pair, which no report shows.
    CopiesForProgram,
    /// Copies of packets that a socket of this machine receives, and perhaps none of others.
    CopiesForReceiver,
    /// Copies on the way to a device, which reports deny.
    CopiesUnreported,
    /// Copies for a tap, unless the tap ignores what is sent.
    CopiesUnlessIgnored,
    /// Loss with MSG_ZEROCOPY, and gain with io_uring.
    PaysThroughRing,
    /// Loss with one datagram for each send.
    OneDatagram,
    /// Copies of plain sends.
    PlainSend,
    /// No copy for a tap: a probe was not copied.
    TapIgnores,
    /// No copy: a probe was not copied.
    ProbeNotCopied,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Effect::Usual(condition) => condition.effect,
            Effect::CopiesForProgram => {
                "The other end puts every packet together anew for the program, which is a copy, and \
                 the kernel reports that there was none."
            }
            Effect::CopiesForReceiver => {
                "Packets that a socket of this machine receives are copied; those that a bridge, a \
                 route or a filter at the other end passes on to another machine need not be."
            }
            Effect::CopiesUnreported => {
                "The kernel copies on the way to the device, and reports that it did not: what it says \
                 of these sends cannot be believed."
            }
            Effect::CopiesUnlessIgnored => {
                "Every packet is copied, unless the socket ignores what is sent \
                 (PACKET_IGNORE_OUTGOING), which this user may not look up."
            }
            Effect::PaysThroughRing => {
                "MSG_ZEROCOPY takes more processor time than a plain send would; io_uring takes less."
            }
            Effect::OneDatagram => "One datagram for each send is too little to be worth lending.",
            Effect::PlainSend => "Plain sends copy by design.",
            Effect::TapIgnores => "The probe was not copied: it ignores what is sent.",
            Effect::ProbeNotCopied => "The probe was not copied.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition;

    #[test]
    fn effects_are_sentences() {
        for (effect, words) in [
            (Effect::Usual(&condition::XDP), "Nothing that is sent is copied for it."),
            (Effect::PlainSend, "Plain sends copy by design."),
            (
                Effect::CopiesUnlessIgnored,
                "Every packet is copied, unless the socket ignores what is sent \
                 (PACKET_IGNORE_OUTGOING), which this user may not look up.",
            ),
            (
                Effect::PaysThroughRing,
                "MSG_ZEROCOPY takes more processor time than a plain send would; io_uring takes less.",
            ),
        ] {
            assert_eq!(effect.to_string(), words, "{effect:?}");
        }
    }
}
