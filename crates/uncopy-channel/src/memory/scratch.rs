//! Memory where small pieces of packets are copied together; it grows as needed and is kept.

use std::ops::Range;

use super::gather::Filling;

/// Bytes of packets that do not stay where they are.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    pub(crate) const fn new() -> Scratch {
        Scratch(Vec::new())
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the bytes in a range.
    pub(crate) fn part(&self, range: Range<usize>) -> &[u8] {
        &self.0[range]
    }

    /// Appends `length` bytes, which `fill` writes.
    ///
    /// # Errors
    /// The error of `fill`, or `short` if it wrote fewer bytes; nothing is appended then.
    #[inline]
    pub(crate) fn append<E>(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut Filling<'_>) -> Result<(), E>,
        short: E,
    ) -> Result<(), E> {
        self.append_at_most(length, |filling| {
            fill(filling)?;
            if filling.remaining() == 0 { Ok(()) } else { Err(short) }
        })
    }

    /// Appends what `fill` writes, at most `length` bytes; returns its result.
    ///
    /// # Errors
    /// The error of `fill`; nothing is appended then.
    #[inline]
    pub(crate) fn append_at_most<T, E>(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut Filling<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.0.reserve(length);
        let mut filling = Filling::new(&mut self.0.spare_capacity_mut()[..length]);
        let filled = fill(&mut filling)?;
        let filled_bytes = length - filling.remaining();
        let end = self.0.len() + filled_bytes;
        // SAFETY: within the capacity (reserved above), and all bytes up to there were written.
        unsafe { self.0.set_len(end) };
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::Scratch;
    use crate::Status;

    #[test]
    fn what_is_filled_is_appended_and_nothing_else() {
        let mut scratch = Scratch::default();
        let short = Status::InvalidArgs;
        scratch.append(3, |filling| Ok(filling.append(b"abc")?), short).unwrap();
        assert!(scratch.append(3, |filling| Ok(filling.append(b"de")?), short).is_err());
        assert!(scratch.append(1, |filling| Ok(filling.append(b"de")?), short).is_err());
        scratch.append(2, |filling| Ok(filling.append(b"de")?), short).unwrap();
        let filled = scratch.append_at_most(9, |filling| filling.append(b"fg").map(|()| 1));
        assert_eq!(filled, Ok(1));
        assert!(scratch.append_at_most(1, |filling| filling.append(b"fg")).is_err());
        assert_eq!((scratch.part(0..7), scratch.len()), (&b"abcdefg"[..], 7));
        scratch.clear();
        assert_eq!(scratch.len(), 0);
    }
}
