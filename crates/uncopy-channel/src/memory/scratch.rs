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
        self.0.reserve(length);
        let mut filling = Filling::new(&mut self.0.spare_capacity_mut()[..length]);
        fill(&mut filling)?;
        if filling.remaining() != 0 {
            return Err(short);
        }
        let end = self.0.len() + length;
        // SAFETY: within the capacity (reserved above), and all bytes up to there were written.
        unsafe { self.0.set_len(end) };
        Ok(())
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
        assert_eq!((scratch.part(0..5), scratch.len()), (&b"abcde"[..], 5));
        scratch.clear();
        assert_eq!(scratch.len(), 0);
    }
}
