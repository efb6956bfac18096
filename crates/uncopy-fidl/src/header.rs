//! Header of a message: sixteen bytes before the body.

use crate::error::{Error, Result, Rule};

/// The method or event of a message, and the call that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Transaction id, which links an answer to its call; 0 for one-way methods and events.
    pub txid: u32,
    /// Ordinal of the method. Never 0.
    pub ordinal: u64,
    /// Whether a receiver that does not know the ordinal may continue.
    pub is_flexible: bool,
}

/// Size of a header in bytes.
pub const HEADER_BYTES: usize = 16;
/// Ordinal of an epitaph, a server's last message.
pub const EPITAPH_ORDINAL: u64 = u64::MAX;

/// `FIDL_MESSAGE_HEADER_AT_REST_FLAGS_0_USE_VERSION_V2`.
const FORMAT_V2: u8 = 0x02;
/// `FIDL_MESSAGE_HEADER_DYNAMIC_FLAGS_FLEXIBLE_METHOD`.
const FLEXIBLE: u8 = 0x80;
/// `FIDL_WIRE_FORMAT_MAGIC_NUMBER_INITIAL`.
const MAGIC: u8 = 1;

impl Header {
    /// Makes the header of a strict method without an answer, or of a strict event.
    #[must_use]
    pub const fn one_way(ordinal: u64) -> Header {
        Header { txid: 0, ordinal, is_flexible: false }
    }

    /// Makes the header of a strict method with an answer, and of the answer. A channel's call
    /// assigns the transaction id.
    #[must_use]
    pub const fn two_way(txid: u32, ordinal: u64) -> Header {
        Header { txid, ordinal, is_flexible: false }
    }

    /// Makes the header of an epitaph. The body is a status, as `i32`.
    #[must_use]
    pub const fn epitaph() -> Header {
        Header::one_way(EPITAPH_ORDINAL)
    }

    /// Makes the header of a flexible method or event.
    #[must_use]
    pub const fn flexible(self) -> Header {
        Header { is_flexible: true, ..self }
    }

    /// Encodes the header.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.txid.to_le_bytes());
        bytes[4] = FORMAT_V2;
        bytes[6] = if self.is_flexible { FLEXIBLE } else { 0 };
        bytes[7] = MAGIC;
        bytes[8..].copy_from_slice(&self.ordinal.to_le_bytes());
        bytes
    }

    /// Reads the header of the message `bytes`. Unknown flags are ignored.
    ///
    /// # Errors
    /// [`Rule::TooFewBytes`], [`Rule::UnknownMagic`], [`Rule::UnknownFormat`],
    /// [`Rule::OrdinalZero`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Header> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            let rule = Rule::TooFewBytes { needed: HEADER_BYTES, left: bytes.len() };
            return Err(Error::at(0, rule));
        };
        let [t0, t1, t2, t3, format, _, dynamic, magic, ordinal @ ..] = *header;
        if magic != MAGIC {
            return Err(Error::at(7, Rule::UnknownMagic { found: magic }));
        }
        if format & FORMAT_V2 == 0 {
            return Err(Error::at(4, Rule::UnknownFormat { found: format }));
        }
        let ordinal = u64::from_le_bytes(ordinal);
        if ordinal == 0 {
            return Err(Error::at(8, Rule::OrdinalZero));
        }
        let txid = u32::from_le_bytes([t0, t1, t2, t3]);
        Ok(Header { txid, ordinal, is_flexible: dynamic & FLEXIBLE != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::{EPITAPH_ORDINAL, Header};
    use crate::error::Rule;

    #[test]
    fn headers_have_their_place_for_everything() {
        let header = Header::two_way(0x0403_0201, 0x0807_0605_0403_0201).flexible();
        let bytes = header.to_bytes();
        assert_eq!(bytes, [1, 2, 3, 4, 2, 0, 0x80, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(Header::parse(&Header::epitaph().to_bytes()).unwrap().ordinal, EPITAPH_ORDINAL);
    }

    #[test]
    fn each_broken_rule_is_named() {
        let good = Header::one_way(5).to_bytes();
        for (at, byte, rule) in [
            (7, 0, Rule::UnknownMagic { found: 0 }),
            (4, 1, Rule::UnknownFormat { found: 1 }),
            (8, 0, Rule::OrdinalZero),
        ] {
            let mut bytes = good;
            bytes[at] = byte;
            let error = Header::parse(&bytes).unwrap_err();
            assert_eq!((error.rule(), error.offset()), (rule, Some(at)));
        }
        let short = Header::parse(&good[..15]).unwrap_err();
        assert_eq!(short.rule(), Rule::TooFewBytes { needed: 16, left: 15 });
    }
}
