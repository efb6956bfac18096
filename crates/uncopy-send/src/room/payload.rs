//! The buffers of one send.

use std::io::IoSlice;

use super::owner::StableBytes;

/// One buffer, or several that are sent one after the other as one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload<B> {
    /// One buffer.
    One(B),
    /// Any number of buffers, including none.
    Many(Vec<B>),
}

/// A range of a payload's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) from: usize,
    /// Maximum length; the payload may end before.
    pub(crate) max_bytes: usize,
}

impl ByteRange {
    /// All bytes.
    pub(crate) const ALL: ByteRange = ByteRange { from: 0, max_bytes: usize::MAX };

    /// Returns the part of one buffer that is in the range.
    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        let rest = bytes.get(self.from..).unwrap_or_default();
        &rest[..rest.len().min(self.max_bytes)]
    }
}

impl<B> Payload<B> {
    /// Returns the buffers.
    #[must_use]
    pub fn as_slice(&self) -> &[B] {
        match self {
            Payload::One(buffer) => std::slice::from_ref(buffer),
            Payload::Many(buffers) => buffers,
        }
    }

    /// Returns the owned buffers.
    #[must_use]
    pub fn into_vec(self) -> Vec<B> {
        match self {
            Payload::One(buffer) => vec![buffer],
            Payload::Many(buffers) => buffers,
        }
    }

    /// Returns the only buffer; `None` if there are several, or none.
    #[must_use]
    pub fn into_one(self) -> Option<B> {
        match self {
            Payload::One(buffer) => Some(buffer),
            Payload::Many(mut buffers) if buffers.len() == 1 => buffers.pop(),
            Payload::Many(_) => None,
        }
    }
}

impl<B: StableBytes> Payload<B> {
    /// Returns the number of bytes of all buffers together.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Payload::One(buffer) => buffer.bytes().len(),
            Payload::Many(buffers) => buffers.iter().map(|buffer| buffer.bytes().len()).sum(),
        }
    }

    /// Returns whether the payload has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the regions of a range, without empty ones.
    pub(crate) fn regions(&self, range: ByteRange) -> impl Iterator<Item = IoSlice<'_>> {
        let ByteRange { from: mut skip, max_bytes: mut left } = range;
        self.as_slice().iter().filter_map(move |buffer| {
            let bytes = buffer.bytes();
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            let rest = &bytes[skipped..];
            let rest = &rest[..rest.len().min(left)];
            left -= rest.len();
            (!rest.is_empty()).then(|| IoSlice::new(rest))
        })
    }
}

impl<B: StableBytes> From<B> for Payload<B> {
    fn from(buffer: B) -> Payload<B> {
        Payload::One(buffer)
    }
}

impl<B: StableBytes> From<Vec<B>> for Payload<B> {
    fn from(buffers: Vec<B>) -> Payload<B> {
        Payload::Many(buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteRange, Payload};

    fn of(texts: &[&'static str]) -> Payload<&'static str> {
        Payload::Many(texts.to_vec())
    }

    #[test]
    fn regions_begin_anywhere() {
        let payload = of(&["ab", "", "cde", "f"]);
        assert_eq!(payload.len(), 6);
        for (from, max_bytes, expected) in [
            (0, usize::MAX, vec!["ab", "cde", "f"]),
            (1, usize::MAX, vec!["b", "cde", "f"]),
            (2, 4, vec!["cde", "f"]),
            (4, 2, vec!["e", "f"]),
            (5, 1, vec!["f"]),
            (6, 9, vec![]),
            (9, 9, vec![]),
            (0, 4, vec!["ab", "cd"]),
            (1, 1, vec!["b"]),
            (3, 0, vec![]),
        ] {
            let range = ByteRange { from, max_bytes };
            let regions: Vec<_> = payload.regions(range).map(|r| r.to_vec()).collect();
            let expected: Vec<_> = expected.iter().map(|t| t.as_bytes().to_vec()).collect();
            assert_eq!(regions, expected, "{range:?}");
        }
    }

    #[test]
    fn one_buffer_is_found_in_either_form() {
        assert_eq!(Payload::One("a").into_one(), Some("a"));
        assert_eq!(of(&["a"]).into_one(), Some("a"));
        assert_eq!(of(&["a", "b"]).into_one(), None);
        assert_eq!(Payload::One("a").into_vec(), ["a"]);
        assert!(of(&[]).is_empty() && of(&[""]).is_empty());
    }
}
