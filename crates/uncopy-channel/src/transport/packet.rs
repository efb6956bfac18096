//! The format of packets: a header, the bytes, and a record for each handle.
//!
//! Every packet has a header, because a packet without bytes and the end of a closed socket would
//! look alike. The records come last, so that the bytes are received at the beginning of the buffer.
//! Numbers are in native byte order, because both ends are on one machine.

use crate::identity::Kind;
use crate::rights::Rights;
use crate::signals::Signals;
use crate::{MAX_BYTES, MAX_HANDLES};
pub(super) use uncopy_core::message::SOCKET_HEADER_BYTES as HEADER_BYTES;
use uncopy_os::seqpacket;

/// Size of a record.
pub(super) const RECORD_BYTES: usize = 16;

// All records of one message have room behind its body.
const _: () = assert!(MAX_HANDLES * RECORD_BYTES <= seqpacket::TAIL_BYTES);

/// First byte of every packet: "uncopy's channels, first form".
const MAGIC: u8 = 0xc1;

/// Kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Bytes and handles of a message.
    Message,
    /// User signals of the receiving end to clear and set.
    Signals,
    /// The sender has disabled its writing (sockets only).
    Finished,
    /// Sockets that hold what was queued when the receiving end moved, to be read first.
    Backlog,
    /// Bytes of a message whose handles were lost, because a receiver could not open their
    /// descriptors. It moves with the end whose queue it lies in.
    Cut,
}

const CONTENTS: [Content; 5] =
    [Content::Message, Content::Signals, Content::Finished, Content::Backlog, Content::Cut];

/// Error of a packet that breaks a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbage;

/// Header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) content: Content,
    pub(super) handles: usize,
    /// Number of bytes between the header and the records.
    pub(super) bytes: usize,
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut encoded = [0; HEADER_BYTES];
        encoded[0] = MAGIC;
        encoded[1] = self.content as u8;
        // At most 64 and 65,536: checked before anything is sent.
        encoded[2..4].copy_from_slice(&(self.handles as u16).to_ne_bytes());
        encoded[4..8].copy_from_slice(&(self.bytes as u32).to_ne_bytes());
        encoded
    }

    /// Decodes the header of a packet of `total` bytes.
    pub(super) fn decode(encoded: [u8; HEADER_BYTES], total: usize) -> Result<Header, Garbage> {
        let [magic, content, h0, h1, b0, b1, b2, b3] = encoded;
        let content = *CONTENTS.get(usize::from(content)).ok_or(Garbage)?;
        let handles = usize::from(u16::from_ne_bytes([h0, h1]));
        let bytes = u32::from_ne_bytes([b0, b1, b2, b3]) as usize;
        let is_whole = total == HEADER_BYTES + bytes + handles * RECORD_BYTES;
        if magic != MAGIC || handles > MAX_HANDLES || bytes > MAX_BYTES || !is_whole {
            return Err(Garbage);
        }
        let is_plausible = match content {
            Content::Message => true,
            Content::Cut => handles == 0,
            Content::Signals => bytes == 8 && handles == 0,
            Content::Finished | Content::Backlog => bytes == 0 && handles == 0,
        };
        if is_plausible { Ok(Header { content, handles, bytes }) } else { Err(Garbage) }
    }
}

/// Record of one handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Number of descriptors that it consists of.
    pub(super) fds: usize,
    pub(super) rights: Rights,
    /// Data that depends on its kind.
    pub(super) extra: u64,
}

const KINDS: [Kind; 8] = [
    Kind::Descriptor,
    Kind::Vmo,
    Kind::Channel,
    Kind::Event,
    Kind::Port,
    Kind::Socket,
    Kind::EventPair,
    Kind::Fifo,
];

impl Record {
    pub(super) fn encode(self) -> [u8; RECORD_BYTES] {
        let mut encoded = [0; RECORD_BYTES];
        encoded[0] = self.kind as u8;
        encoded[1] = self.fds as u8;
        encoded[4..8].copy_from_slice(&self.rights.bits().to_ne_bytes());
        encoded[8..].copy_from_slice(&self.extra.to_ne_bytes());
        encoded
    }

    /// Returns the number of descriptors that the handles of these records consist of; `None` if a
    /// record breaks a rule.
    pub(super) fn total_fds(records: &[u8]) -> Option<usize> {
        let (records, rest) = records.as_chunks();
        debug_assert!(rest.is_empty(), "the header was checked against all bytes");
        records.iter().try_fold(0, |sum, record| Some(sum + Record::decode(*record).ok()?.fds))
    }

    /// Decodes a record; removes rights that no handle of its kind can have.
    pub(super) fn decode(encoded: [u8; RECORD_BYTES]) -> Result<Record, Garbage> {
        let [kind, fds, _, _, r0, r1, r2, r3, e0, e1, e2, e3, e4, e5, e6, e7] = encoded;
        let kind = *KINDS.iter().find(|known| **known as u8 == kind).ok_or(Garbage)?;
        let rights = Rights::from_bits_truncate(u32::from_ne_bytes([r0, r1, r2, r3]));
        let extra = u64::from_ne_bytes([e0, e1, e2, e3, e4, e5, e6, e7]);
        let rights = rights.intersection(Rights::of(kind));
        Ok(Record { kind, fds: usize::from(fds), rights, extra })
    }
}

/// Encodes the body of [`Content::Signals`].
pub(crate) fn encode_signals(clear: Signals, set: Signals) -> [u8; 8] {
    let mut encoded = [0; 8];
    encoded[..4].copy_from_slice(&clear.bits().to_ne_bytes());
    encoded[4..].copy_from_slice(&set.bits().to_ne_bytes());
    encoded
}

/// Returns the signals to clear and to set; none if the body is too short.
pub(crate) fn decode_signals(body: &[u8]) -> (Signals, Signals) {
    let number = |at: usize| {
        let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        Signals::from_bits_retain(bytes.map_or(0, u32::from_ne_bytes))
    };
    (number(0), number(4))
}

#[cfg(test)]
mod tests {
    use super::{
        Content, Garbage, HEADER_BYTES, Header, RECORD_BYTES, Record, decode_signals,
        encode_signals,
    };
    use crate::identity::Kind;
    use crate::rights::Rights;
    use crate::signals::Signals;
    use crate::{MAX_BYTES, MAX_HANDLES};

    fn header(content: Content, handles: usize, bytes: usize) -> Header {
        Header { content, handles, bytes }
    }

    #[test]
    fn encoded_headers_are_decoded() {
        for header in [
            header(Content::Message, 0, 0),
            header(Content::Message, MAX_HANDLES, MAX_BYTES),
            header(Content::Signals, 0, 8),
            header(Content::Finished, 0, 0),
            header(Content::Backlog, 0, 0),
            header(Content::Cut, 0, MAX_BYTES),
        ] {
            let total = HEADER_BYTES + header.bytes + header.handles * RECORD_BYTES;
            assert_eq!(Header::decode(header.encode(), total), Ok(header));
            assert_eq!(Header::decode(header.encode(), total + 1), Err(Garbage));
            assert_eq!(Header::decode(header.encode(), total - 1), Err(Garbage));
        }
    }

    #[test]
    fn headers_that_break_a_rule_are_garbage() {
        for (what, header) in [
            ("too many bytes", header(Content::Message, 0, MAX_BYTES + 1)),
            ("too many handles", header(Content::Message, MAX_HANDLES + 1, 0)),
            ("signals of no size", header(Content::Signals, 0, 4)),
            ("handles with signals", header(Content::Signals, 1, 8)),
            ("handles of a message that lost them", header(Content::Cut, 1, 8)),
            ("a body where none belongs", header(Content::Finished, 0, 1)),
        ] {
            let total = HEADER_BYTES + header.bytes + header.handles * RECORD_BYTES;
            assert_eq!(Header::decode(header.encode(), total), Err(Garbage), "{what}");
        }
        let mut encoded = header(Content::Message, 0, 0).encode();
        encoded[0] ^= 1;
        assert_eq!(Header::decode(encoded, HEADER_BYTES), Err(Garbage), "another magic number");
        let mut encoded = header(Content::Message, 0, 0).encode();
        encoded[1] = 9;
        assert_eq!(Header::decode(encoded, HEADER_BYTES), Err(Garbage), "unknown content");
    }

    #[test]
    fn encoded_records_are_decoded_without_rights_their_kind_does_not_have() {
        let record = Record { kind: Kind::Fifo, fds: 3, rights: Rights::IO, extra: 1 << 40 };
        assert_eq!(Record::decode(record.encode()), Ok(record));
        let greedy = Record { kind: Kind::Channel, fds: 1, rights: Rights::all(), extra: 0 };
        assert_eq!(Record::decode(greedy.encode()).unwrap().rights, Rights::CHANNEL);
        let mut unknown = record.encode();
        unknown[0] = 99;
        assert_eq!(Record::decode(unknown), Err(Garbage));
    }

    #[test]
    fn encoded_signals_are_decoded() {
        let (clear, set) = (Signals::USER_0, Signals::USER_1 | Signals::USER_7);
        assert_eq!(decode_signals(&encode_signals(clear, set)), (clear, set));
        assert_eq!(decode_signals(&[1, 2]), (Signals::empty(), Signals::empty()));
    }
}
