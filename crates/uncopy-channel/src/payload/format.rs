//! The header of a payload: the first bytes of its first message. Numbers are in native byte order, because both
//! ends are on one machine.

use crate::memory::PoolShape;

/// Size of the header.
pub(super) const HEADER_BYTES: usize = 32;
/// First bytes of every header: "uncopy's payloads, first form".
const MAGIC: u32 = 0xc1_70_61_79;

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

    /// Decodes the beginning of a message; `None` if it is no header.
    pub(super) fn decode(message: &[u8]) -> Option<Header> {
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
    use super::{HEADER_BYTES, Header};
    use crate::memory::PoolShape;

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
