//! Frames: a length, a kind, the number of a call, a payload.

use std::collections::VecDeque;

use crate::caller::FOREIGN_LINK_VERSION;
use crate::data::OPEN_VERSION;
use crate::message::MACHINE_VERSION;
use crate::{MIN_VERSION, Violation};

/// Maximum length of a payload: a part of a file, or a page of a listing with its last entry.
pub const MAX_PAYLOAD_BYTES: usize = (1 << 20) + (64 << 10);

/// Length of what precedes a payload: its length, the kind, the number of a call.
pub const HEAD_BYTES: usize = 4 + 1 + 4;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $number:literal,)*) => {
        /// Kind of a frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum FrameKind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl FrameKind {
            /// Every kind.
            pub const ALL: &[FrameKind] = &[$(FrameKind::$kind),*];

            const fn number(self) -> u8 {
                match self {
                    $(FrameKind::$kind => $number,)*
                }
            }

            /// Returns the first version of the protocol that has it.
            pub(crate) const fn since(self) -> u16 {
                match self {
                    FrameKind::OpenWanted | FrameKind::OpenOffered => OPEN_VERSION,
                    FrameKind::Machine => MACHINE_VERSION,
                    FrameKind::ForeignLink => FOREIGN_LINK_VERSION,
                    _ => MIN_VERSION,
                }
            }

            const fn of(number: u8) -> Option<FrameKind> {
                match number {
                    $($number => Some(FrameKind::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A call, from the asking side.
    Call = 1,
    /// The answer to a call.
    Answer = 2,
    /// The answer to a call by an error number.
    Failed = 3,
    /// The answer to a call by a link that is not followed.
    ForeignLink = 4,
    /// The job, from the near end: its first frame.
    Job = 16,
    /// The job is accepted, from the far end.
    Accepted = 17,
    /// The job is refused, from the far end: its last frame.
    Refused = 18,
    /// Bytes for standard output or standard error, from the far end.
    Output = 19,
    /// How far the job is, from the far end.
    Progress = 20,
    /// Exit code of the job, from the far end: its last frame.
    Exit = 21,
    /// The job is to stop in order, from the near end.
    Stop = 22,
    /// A sign of life, from either end.
    Ping = 23,
    /// Data connections are wanted, from the near end, once.
    DataWanted = 24,
    /// Data connections are offered, from the far end.
    DataOffered = 25,
    /// No data connections are offered, from the far end.
    DataRefused = 26,
    /// A data connection is expected, from the far end.
    DataAnnounced = 27,
    /// An announced data connection was not made, or has ended, from the near end.
    DataLost = 28,
    /// Open data connections are wanted, from the near end, once.
    OpenWanted = 29,
    /// Open data connections are offered, from the far end.
    OpenOffered = 30,
    /// Mark of the machine that serves, from there, before the job begins.
    Machine = 31,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// Number of the call that it belongs to; 0 in frames that belong to none.
    pub call: u32,
    /// Its payload: at most [`MAX_PAYLOAD_BYTES`].
    pub payload: Vec<u8>,
}

impl Frame {
    /// Returns the bytes that precede the payload on the line.
    #[must_use]
    pub fn head(&self) -> [u8; HEAD_BYTES] {
        debug_assert!(self.payload.len() <= MAX_PAYLOAD_BYTES);
        let ([a, b, c, d], [e, f, g, h]) =
            ((self.payload.len() as u32).to_le_bytes(), self.call.to_le_bytes());
        [a, b, c, d, self.kind.number(), e, f, g, h]
    }

    /// Returns all bytes of the frame.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [&self.head()[..], &self.payload].concat()
    }
}

/// Frames in a stream of bytes.
#[derive(Debug, Default)]
pub struct Frames {
    /// Beginning of a head.
    head: Vec<u8>,
    /// A frame whose payload has not come whole, and the number of bytes that it lacks.
    partial: Option<(Frame, usize)>,
    whole: VecDeque<Frame>,
    violation: Option<Violation>,
}

impl Frames {
    /// Adds received bytes, up to the first violation.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.feed_into(bytes, &mut Vec::with_capacity);
    }

    /// As [`Frames::feed`]. `make` is called with the length of each payload that begins, at most
    /// [`MAX_PAYLOAD_BYTES`], and returns an empty buffer for it.
    pub fn feed_into(&mut self, bytes: &[u8], make: &mut dyn FnMut(usize) -> Vec<u8>) {
        let mut rest = bytes;
        while !rest.is_empty() && self.violation.is_none() {
            let wanted = match &self.partial {
                Some((_, missing)) => *missing,
                None => HEAD_BYTES - self.head.len(),
            };
            let (taken, behind) = rest.split_at(wanted.min(rest.len()));
            rest = behind;
            match &mut self.partial {
                Some((frame, missing)) => {
                    frame.payload.extend_from_slice(taken);
                    *missing -= taken.len();
                }
                None => self.take_head(taken, make),
            }
            if let Some((frame, 0)) = self.partial.take_if(|(_, missing)| *missing == 0) {
                self.whole.push_back(frame);
            }
        }
    }

    fn take_head(&mut self, bytes: &[u8], make: &mut dyn FnMut(usize) -> Vec<u8>) {
        self.head.extend_from_slice(bytes);
        let Some(head) = self.head.first_chunk::<HEAD_BYTES>() else { return };
        let [a, b, c, d, kind, e, f, g, h] = *head;
        let (bytes, call) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let length = usize::try_from(bytes).ok().filter(|length| *length <= MAX_PAYLOAD_BYTES);
        match (length, FrameKind::of(kind)) {
            (None, _) => self.violation = Some(Violation::FrameTooLong { bytes }),
            (_, None) => self.violation = Some(Violation::UnknownFrame { kind }),
            (Some(length), Some(kind)) => {
                let payload = make(length);
                debug_assert!(payload.is_empty());
                self.partial = Some((Frame { kind, call, payload }, length));
            }
        }
        self.head.clear();
    }

    /// Takes out the next whole frame.
    ///
    /// # Errors
    /// Its kind is unknown, or it is too long. No frame comes any more.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator: more may come later")]
    pub fn next(&mut self) -> Result<Option<Frame>, Violation> {
        match (self.whole.pop_front(), self.violation) {
            (None, Some(violation)) => Err(violation),
            (frame, _) => Ok(frame),
        }
    }

    /// Whether everything that was fed has been taken, so that a stream may end here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_between = self.head.is_empty() && self.partial.is_none();
        is_between && self.whole.is_empty() && self.violation.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;

    #[test]
    fn frames_come_whole_however_their_bytes_are_cut() {
        let payloads = [vec![], vec![7], vec![9; 700], vec![1; MAX_PAYLOAD_BYTES], vec![]];
        let sent: Vec<Frame> = (payloads.into_iter().enumerate())
            .map(|(number, payload)| Frame {
                kind: FrameKind::ALL[number],
                call: u32::MAX - number as u32,
                payload,
            })
            .collect();
        let all: Vec<u8> = sent.iter().flat_map(Frame::encode).collect();
        for step in [1, 7, HEAD_BYTES, 4096, all.len()] {
            let all = if step == 1 { &all[..2000] } else { &all[..] };
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in all.chunks(step) {
                frames.feed(piece);
                while let Some(frame) = frames.next().unwrap() {
                    found.push(frame);
                }
            }
            let whole = if step == 1 { 3 } else { sent.len() };
            assert!(found == sent[..whole], "{step}");
            assert_eq!(frames.is_empty(), step != 1);
        }
        let mut frames = Frames::default();
        frames.feed(&all[..HEAD_BYTES + HEAD_BYTES]);
        assert_eq!(frames.next(), Ok(Some(sent[0].clone())));
        assert_eq!((frames.next(), frames.is_empty()), (Ok(None), false));
    }

    #[test]
    fn every_kind_has_a_number_of_its_own() {
        for kind in FrameKind::ALL {
            assert_eq!(FrameKind::of(kind.number()), Some(*kind));
        }
    }

    #[test]
    fn bad_heads_are_found_before_their_payload_comes() {
        let good = Frame { kind: FrameKind::Ping, call: 0, payload: vec![] };
        let too_long = MAX_PAYLOAD_BYTES as u32 + 1;
        for (bytes, kind, expected) in [
            (too_long, 1, Violation::FrameTooLong { bytes: too_long }),
            (u32::MAX, 1, Violation::FrameTooLong { bytes: u32::MAX }),
            (0, 0, Violation::UnknownFrame { kind: 0 }),
            (0, 5, Violation::UnknownFrame { kind: 5 }),
            (0, 255, Violation::UnknownFrame { kind: 255 }),
        ] {
            let mut head = Writer::default();
            head.u32(bytes).u8(kind).u32(0);
            let mut frames = Frames::default();
            // Frames before it are whole; those behind it are none.
            frames.feed(&[&good.encode()[..], &head.0, &good.encode()].concat());
            assert_eq!(frames.next(), Ok(Some(good.clone())));
            assert_eq!(frames.next(), Err(expected));
            assert_eq!(frames.next(), Err(expected));
            assert!(!frames.is_empty());
        }
    }
}
