//! Finds blocks of zeros, which may become holes (pure).

/// The unit in which runs of zeros are found: the block size of the usual filesystems.
const ZERO_BLOCK_BYTES: usize = 4096;

static ZEROS: [u8; ZERO_BLOCK_BYTES] = [0; ZERO_BLOCK_BYTES];

/// Splits bytes into runs of whole zero blocks and of everything else.
pub(crate) fn runs(bytes: &[u8]) -> Vec<(std::ops::Range<usize>, bool)> {
    let mut runs: Vec<(std::ops::Range<usize>, bool)> = Vec::new();
    for (index, block) in bytes.chunks(ZERO_BLOCK_BYTES).enumerate() {
        let start = index * ZERO_BLOCK_BYTES;
        let zero = *block == ZEROS[..block.len()];
        match runs.last_mut() {
            Some((range, last_zero)) if *last_zero == zero => range.end = start + block.len(),
            _ => runs.push((start..start + block.len(), zero)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{ZERO_BLOCK_BYTES, runs};

    #[test]
    fn runs_of_zero_blocks_are_found() {
        let mut bytes = vec![0; 4 * ZERO_BLOCK_BYTES + 10];
        bytes[ZERO_BLOCK_BYTES + 5] = 1;
        let b = ZERO_BLOCK_BYTES;
        let end = bytes.len();
        assert_eq!(runs(&bytes), [(0..b, true), (b..2 * b, false), (2 * b..end, true)]);
        assert_eq!(runs(&bytes[b..b + 6]), [(0..6, false)]);
        assert!(runs(&[]).is_empty());
    }
}
