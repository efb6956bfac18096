//! A byte vector's message as bindings made it before RFC-0010: a buffer is allocated, every object
//! is copied into it, with addresses in place of marks; a second walk over the buffer replaces the
//! addresses, and moves handles to an array of their own. The write then copies all of it again.

use anyhow::{Context, Result, ensure};
use uncopy::channel::Handle;
use uncopy_fidl::{HEADER_BYTES, Header};

use super::values::ByteVector;

/// Length of a vector in its object: a count and a presence mark.
const VECTOR_BYTES: usize = 16;
/// Alignment of every object.
const ALIGNMENT: usize = 8;
const PRESENT: [u8; 8] = [0xff; 8];

/// A message in one buffer, and its handles.
pub(super) struct Linear {
    pub(super) bytes: Vec<u8>,
    pub(super) handles: Vec<Handle>,
}

/// Allocates a buffer and makes the message in it, in two walks.
pub(super) fn message(header: &Header, value: &ByteVector) -> Result<Linear> {
    let mut bytes = linearised(header, value);
    let handles = encoded_in_place(&mut bytes)?;
    Ok(Linear { bytes, handles })
}

/// Copies all objects into one buffer. In the place of the mark is the position of the contents.
fn linearised(header: &Header, value: &ByteVector) -> Vec<u8> {
    let begin = HEADER_BYTES + VECTOR_BYTES;
    let length = begin + value.bytes.len().next_multiple_of(ALIGNMENT);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&header.to_bytes());
    bytes.extend_from_slice(&(value.bytes.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&(begin as u64).to_le_bytes());
    bytes.extend_from_slice(&value.bytes);
    bytes.resize(length, 0);
    bytes
}

/// Replaces positions by marks, and returns the handles, of which a byte vector has none.
fn encoded_in_place(bytes: &mut [u8]) -> Result<Vec<Handle>> {
    let begin = HEADER_BYTES + VECTOR_BYTES;
    let length = bytes.len();
    let (head, contents) = bytes.split_at_mut(begin);
    let (count, position) = head[HEADER_BYTES..].split_at_mut(8);
    let count = u64::from_le_bytes(*count.first_chunk().context("a count")?);
    let mark: &mut [u8; 8] = position.first_chunk_mut().context("a mark")?;
    let end = u64::from_le_bytes(*mark) + count;
    ensure!(end <= length as u64, "the contents are not in the buffer");
    *mark = PRESENT;
    // The padding is checked, as every encoder does that walks over a buffer.
    ensure!(contents[count as usize..].iter().all(|byte| *byte == 0), "padding is not zero");
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use uncopy_fidl::encode_message;

    use super::super::values::byte_vector;
    use super::*;

    #[test]
    fn the_message_is_the_encoders() {
        let header = Header::one_way(7);
        for length in [0, 1, 16, 255, 4096] {
            let value = byte_vector(length);
            let Linear { bytes, handles } = message(&header, &value).unwrap();
            assert_eq!(bytes, encode_message(&header, &value).unwrap(), "{length}");
            assert!(handles.is_empty());
        }
    }

    #[test]
    fn contents_outside_of_the_buffer_are_refused() {
        let mut bytes = linearised(&Header::one_way(7), &byte_vector(8));
        bytes[16] = 9;
        assert!(encoded_in_place(&mut bytes).is_err());
    }
}
