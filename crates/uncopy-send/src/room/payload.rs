//! What one send hands over.

use std::io::IoSlice;

use super::owner::StableBytes;

/// One buffer, or several that are sent one behind the other as one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload<B> {
    /// One.
    One(B),
    /// Any number, none among them.
    Many(Vec<B>),
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

    /// Returns the buffers, owned.
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
    /// Returns the bytes of all buffers together.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Payload::One(buffer) => buffer.bytes().len(),
            Payload::Many(buffers) => buffers.iter().map(|buffer| buffer.bytes().len()).sum(),
        }
    }

    /// Returns whether there is no byte in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its regions from byte `from` on, `most` bytes at most, empty ones left out.
    pub(crate) fn regions(&self, from: usize, most: usize) -> impl Iterator<Item = IoSlice<'_>> {
        let (mut skip, mut left) = (from, most);
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
    use super::Payload;

    fn of(texts: &[&'static str]) -> Payload<&'static str> {
        Payload::Many(texts.to_vec())
    }

    #[test]
    fn regions_begin_anywhere() {
        let payload = of(&["ab", "", "cde", "f"]);
        assert_eq!(payload.len(), 6);
        for (from, most, expected) in [
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
            let regions: Vec<_> = payload.regions(from, most).map(|r| r.to_vec()).collect();
            let expected: Vec<_> = expected.iter().map(|t| t.as_bytes().to_vec()).collect();
            assert_eq!(regions, expected, "from {from}, {most} at most");
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
