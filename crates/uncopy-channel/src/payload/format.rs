//! The header of a payload: the first bytes of its first message. Numbers are in native byte order, because both
//! ends are on one machine.
//!
//! A first message of [`MAX_BYTES`] has no header: it is a payload of that length, which would not fit into one message
//! otherwise.

use crate::memory::PoolShape;
use crate::{MAX_BYTES, MAX_REGIONS};

/// Size of the header.
pub(super) const HEADER_BYTES: usize = 32;
/// First bytes of every header: "uncopy's payloads, second form".
const MAGIC: u32 = 0xc2_70_61_79;
/// Maximum number of bytes behind the header in a first message: the message is shorter than one without a header, and
/// the bytes of the next one begin a line of the cache, if those of the payload do.
pub(super) const FIRST_BYTES: usize = MAX_BYTES - 64;

/// Minimum number of bytes of a payload in a message that does not end it: the sender cuts where a message is full, or
/// has as many regions as it may, none of which is empty.
pub(super) const MIN_PIECE_BYTES: usize = MAX_REGIONS - 1;

const _: () = assert!(HEADER_BYTES + FIRST_BYTES < MAX_BYTES && MIN_PIECE_BYTES <= FIRST_BYTES);

/// Whether one message carries a payload of this length.
pub(super) fn fits_into_one_message(length: usize) -> bool {
    length <= FIRST_BYTES || length == MAX_BYTES
}

/// Returns the size of the header of a first message of this length.
pub(super) fn header_bytes(message_bytes: usize) -> usize {
    if message_bytes == MAX_BYTES { 0 } else { HEADER_BYTES }
}

/// Contents of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// The bytes follow, in this message and as many more as they need.
    Bytes { length: u64 },
    /// One handle follows, of memory that begins with the bytes.
    Memory { length: u64 },
    /// The bytes are in a slot.
    Slot { length: u64, slot: u64 },
    /// Two handles of a pool follow: slots, and their states.
    Pool { shape: PoolShape },
    /// One handle follows, of a stream that the receiver of this may send bytes over.
    Stream,
    /// The bytes follow in the stream.
    Streamed { length: u64 },
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let (kind, a, b): (u32, u64, u64) = match self {
            Header::Bytes { length } => (0, length, 0),
            Header::Memory { length } => (1, length, 0),
            Header::Slot { length, slot } => (2, length, slot),
            Header::Pool { shape } => (3, shape.slots as u64, shape.slot_bytes as u64),
            Header::Stream => (4, 0, 0),
            Header::Streamed { length } => (5, length, 0),
        };
        let mut encoded = [0; HEADER_BYTES];
        encoded[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        encoded[4..8].copy_from_slice(&kind.to_ne_bytes());
        encoded[8..16].copy_from_slice(&a.to_ne_bytes());
        encoded[16..24].copy_from_slice(&b.to_ne_bytes());
        encoded
    }

    /// Decodes the beginning of a message, or describes one without a header; `None` if it is no header.
    pub(super) fn decode(message: &[u8]) -> Option<Header> {
        if header_bytes(message.len()) == 0 {
            return Some(Header::Bytes { length: message.len() as u64 });
        }
        let encoded: &[u8; HEADER_BYTES] = message.first_chunk()?;
        let short = |at: usize| Some(u32::from_ne_bytes(encoded[at..at + 4].try_into().ok()?));
        let long = |at: usize| Some(u64::from_ne_bytes(encoded[at..at + 8].try_into().ok()?));
        if short(0)? != MAGIC || long(24)? != 0 {
            return None;
        }
        let (a, b) = (long(8)?, long(16)?);
        Some(match short(4)? {
            0 => Header::Bytes { length: a },
            1 => Header::Memory { length: a },
            2 => Header::Slot { length: a, slot: b },
            3 => {
                let (slots, slot_bytes) = (usize::try_from(a).ok()?, usize::try_from(b).ok()?);
                Header::Pool { shape: PoolShape { slots, slot_bytes } }
            }
            4 => Header::Stream,
            5 => Header::Streamed { length: a },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_BYTES, HEADER_BYTES, Header, fits_into_one_message, header_bytes};
    use crate::MAX_BYTES;
    use crate::memory::PoolShape;

    #[test]
    fn a_full_message_has_no_header_whatever_it_begins_with() {
        for header in [Header::Stream, Header::Bytes { length: 3 }] {
            let mut message = vec![0; MAX_BYTES];
            message[..HEADER_BYTES].copy_from_slice(&header.encode());
            let whole = Header::Bytes { length: MAX_BYTES as u64 };
            assert_eq!(Header::decode(&message), Some(whole));
            assert_eq!(Header::decode(&message[..MAX_BYTES - 1]), Some(header));
        }
        assert_eq!([MAX_BYTES, MAX_BYTES - 1, HEADER_BYTES].map(header_bytes), [0, 32, 32]);
    }

    #[test]
    fn a_payload_in_one_message_is_at_most_as_long_as_a_first_message_or_a_full_one() {
        for (length, fits) in [
            (0, true),
            (FIRST_BYTES, true),
            (FIRST_BYTES + 1, false),
            (MAX_BYTES - 1, false),
            (MAX_BYTES, true),
            (MAX_BYTES + 1, false),
        ] {
            assert_eq!(fits_into_one_message(length), fits, "{length}");
        }
    }

    #[test]
    fn encoded_headers_are_decoded() {
        for header in [
            Header::Bytes { length: 1 << 40 },
            Header::Memory { length: 7 },
            Header::Slot { length: 7, slot: 3 },
            Header::Pool { shape: PoolShape { slots: 4, slot_bytes: 1 << 20 } },
            Header::Stream,
            Header::Streamed { length: 1 << 40 },
        ] {
            let encoded = header.encode();
            assert_eq!(Header::decode(&encoded), Some(header));
            assert_eq!(Header::decode(&encoded[..HEADER_BYTES - 1]), None);
            for at in [0, 4, 24] {
                let mut wrong = encoded;
                wrong[at] ^= 0x80;
                assert_eq!(Header::decode(&wrong), None, "{at}");
            }
        }
    }
}
