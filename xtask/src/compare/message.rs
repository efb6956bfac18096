//! The sent messages.

use std::io::IoSlice;

/// A message that is sent again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) bytes: usize,
    pub(super) regions: usize,
}

impl Message {
    /// `bytes` in regions of the same length; what is left over goes to the last.
    pub(super) fn of(self, bytes: &[u8]) -> Vec<IoSlice<'_>> {
        let each = bytes.len() / self.regions;
        let end = |i| if i + 1 == self.regions { bytes.len() } else { (i + 1) * each };
        (0..self.regions).map(|i| IoSlice::new(&bytes[i * each..end(i)])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn regions_are_all_bytes_in_order() {
        let bytes: Vec<u8> = (0..100).collect();
        for regions in [1, 3, 64, 100] {
            let slices = Message { bytes: 100, regions }.of(&bytes);
            assert_eq!(slices.len(), regions);
            let joined: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(joined, bytes);
        }
    }
}
