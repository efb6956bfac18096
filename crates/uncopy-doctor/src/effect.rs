//! Effects of findings on the bytes.

use std::fmt;

use super::condition::Condition;

/// Effect of a finding on the bytes.
///
/// Displayed as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Effect named by its condition: [`Condition::effect`].
    Usual(&'static Condition),
    /// Copies for a program (XDP) at the other end of a veth pair, which no report shows.
    CopiesForProgram,
    /// Copies of packets that a socket of this machine receives, and perhaps none of others.
    CopiesForReceiver,
    /// Copies on the way to a device that are not reported.
    CopiesUnreported,
    /// Copies for a tap, unless the tap ignores outgoing packets.
    CopiesUnlessIgnored,
    /// More CPU time with MSG_ZEROCOPY, less with io_uring.
    PaysThroughRing,
    /// More CPU time, with one datagram for each send.
    OneDatagram,
    /// Copies of plain sends.
    PlainSend,
    /// Earlier waits for the reader of a channel.
    FewerMessages,
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
                "The other end rebuilds every packet for the program, which is a copy that the kernel \
                 does not report."
            }
            Effect::CopiesForReceiver => {
                "Packets that a socket of this machine receives are copied. Packets that a bridge, a \
                 route or a filter at the other end forwards to another machine need not be."
            }
            Effect::CopiesUnreported => {
                "The kernel copies on the way to the device but reports no copy: its reports about \
                 these sends are unreliable."
            }
            Effect::CopiesUnlessIgnored => {
                "Every packet is copied, unless the socket ignores outgoing packets \
                 (PACKET_IGNORE_OUTGOING), which this user has no permission to read."
            }
            Effect::PaysThroughRing => {
                "MSG_ZEROCOPY takes more CPU time than a plain send; io_uring takes less."
            }
            Effect::OneDatagram => "One datagram for each send is too small for lending.",
            Effect::PlainSend => "A plain send always copies.",
            Effect::FewerMessages => {
                "Writers wait for the reader after fewer messages than the channel was made for."
            }
            Effect::TapIgnores => "The probe was not copied, so the tap ignores outgoing packets.",
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
            (Effect::Usual(&condition::XDP), "No outgoing packet is copied because of this."),
            (Effect::PlainSend, "A plain send always copies."),
            (
                Effect::CopiesUnlessIgnored,
                "Every packet is copied, unless the socket ignores outgoing packets \
                 (PACKET_IGNORE_OUTGOING), which this user has no permission to read.",
            ),
            (
                Effect::PaysThroughRing,
                "MSG_ZEROCOPY takes more CPU time than a plain send; io_uring takes less.",
            ),
        ] {
            assert_eq!(effect.to_string(), words, "{effect:?}");
        }
    }
}
