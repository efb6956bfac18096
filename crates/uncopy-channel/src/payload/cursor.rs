//! A place in a list of regions, which are taken piece by piece.

use std::io::IoSlice;

/// A place in a list of regions.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    regions: &'a [IoSlice<'a>],
    /// Bytes of the first region that were taken.
    skip: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the place before the first byte.
    pub(super) fn new(regions: &'a [IoSlice<'a>]) -> Cursor<'a> {
        Cursor { regions, skip: 0 }
    }

    /// Takes the next `length` bytes, or all that are left, or those in `most` regions.
    pub(super) fn take(&mut self, length: usize, most: usize) -> Vec<IoSlice<'a>> {
        let mut left = length;
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((first, others)) = self.regions.split_first()
        {
            let rest = &first[self.skip..];
            let now = rest.len().min(left);
            if now > 0 {
                taken.push(IoSlice::new(&rest[..now]));
            }
            left -= now;
            if now < rest.len() {
                self.skip += now;
                break;
            }
            (self.regions, self.skip) = (others, 0);
        }
        taken
    }

    /// Passes over `length` bytes.
    pub(super) fn skip(&mut self, length: usize) {
        self.take(length, usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::Cursor;

    fn joined(parts: &[IoSlice<'_>]) -> Vec<u8> {
        parts.iter().flat_map(|part| part.to_vec()).collect()
    }

    #[test]
    fn regions_are_taken_in_order_and_cut() {
        let regions = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defg")];
        for lengths in [vec![7], vec![1, 2, 3, 1], vec![4, 3], vec![3, 4, 1], vec![0, 5, 9]] {
            let mut cursor = Cursor::new(&regions);
            let taken = lengths.iter().map(|length| {
                let parts = cursor.take(*length, 3);
                assert!(parts.iter().all(|part| !part.is_empty()));
                joined(&parts)
            });
            let taken: Vec<Vec<u8>> = taken.collect();
            assert_eq!(taken.concat(), b"abcdefg");
            assert!(taken.iter().zip(&lengths).all(|(part, length)| part.len() <= *length));
        }
    }

    #[test]
    fn regions_are_taken_up_to_a_number_and_passed_over() {
        let regions = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defg")];
        let mut cursor = Cursor::new(&regions);
        assert_eq!(joined(&cursor.take(7, 1)), b"abc");
        let mut ahead = cursor;
        assert_eq!(joined(&ahead.take(7, 1)), b"defg");
        cursor.skip(3);
        assert_eq!(joined(&cursor.take(7, 1)), b"g");
        cursor.skip(1);
        assert!(cursor.take(7, 1).is_empty());
    }
}
