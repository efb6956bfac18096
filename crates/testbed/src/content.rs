//! File contents that show a byte at a wrong position.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;

/// Maximum length for a comparison byte by byte; in longer files, common holes are skipped.
const READ_WHOLE: u64 = 64 << 20;

/// A file to create: its length, and the runs of data in it; the rest is holes.
#[derive(Debug, Clone)]
pub struct Content {
    /// Length in bytes.
    pub length: u64,
    /// Offset and length of each run of data, in order.
    pub data: Vec<(u64, u64)>,
}

impl Content {
    /// Makes a file of `length` bytes without a hole.
    #[must_use]
    pub fn dense(length: u64) -> Content {
        Content { length, data: vec![(0, length)] }
    }

    /// Makes a file of `length` bytes with data only in these places.
    #[must_use]
    pub fn sparse(length: u64, data: &[(u64, u64)]) -> Content {
        Content { length, data: data.to_vec() }
    }

    /// Creates the file.
    ///
    /// # Panics
    /// If the filesystem refuses.
    pub fn write(&self, path: &Path) -> File {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        file.set_len(self.length).expect("the filesystem takes this length");
        for &(offset, length) in &self.data {
            write_pattern(&file, offset, length);
        }
        file
    }

    /// Returns the number of bytes of data.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.data.iter().map(|&(_, length)| length).sum()
    }
}

/// Removes a file from the page cache.
///
/// # Panics
/// If it cannot be written out.
pub fn drop_from_cache(file: &File) {
    file.sync_all().expect("the disk takes what was written");
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("it is a file");
}

fn write_pattern(file: &File, offset: u64, length: u64) {
    const PIECE: u64 = 1 << 20;
    let mut bytes = vec![0; in_memory(PIECE.min(length))];
    let mut done = 0;
    while done < length {
        let piece = &mut bytes[..in_memory(PIECE.min(length - done))];
        fill(piece, 0, offset + done);
        file.write_all_at(piece, offset + done).expect("there is room for the test's data");
        done += piece.len() as u64;
    }
}

/// Returns bytes that depend on their offset in the file and are never 0.
#[must_use]
pub fn patterned(offset: u64, length: u64) -> Vec<u8> {
    seeded(0, offset, length)
}

/// Returns bytes like [`patterned`], different for each `seed`.
#[must_use]
pub fn seeded(seed: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; in_memory(length)];
    fill(&mut bytes, seed, offset);
    bytes
}

/// Fills `bytes`, which lie at `offset`, a word at a time.
fn fill(bytes: &mut [u8], seed: u64, offset: u64) {
    let word = |index: u64| {
        // splitmix64 of the index; each byte is made odd.
        let mut word = index.wrapping_add(seed << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (word ^ (word >> 27) | 0x0101_0101_0101_0101).to_le_bytes()
    };
    let skipped = in_memory(offset % 8);
    let (first, rest) = bytes.split_at_mut(bytes.len().min((8 - skipped) % 8));
    if !first.is_empty() {
        first.copy_from_slice(&word(offset / 8)[skipped..][..first.len()]);
    }
    let (whole, last) = rest.as_chunks_mut();
    let begin = offset.div_ceil(8);
    for (piece, index) in whole.iter_mut().zip(begin..) {
        *piece = word(index);
    }
    last.copy_from_slice(&word(begin + whole.len() as u64)[..last.len()]);
}

fn in_memory(length: u64) -> usize {
    usize::try_from(length).expect("fits in memory")
}

/// Checks that both files have the same length and bytes.
///
/// # Panics
/// If they differ, with the offset of the first difference.
pub fn assert_same(expected: &Path, found: &Path) {
    let open = |path: &Path| {
        File::open(path).unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()))
    };
    let (a, b) = (open(expected), open(found));
    let length = a.metadata().expect("an open file").len();
    assert_eq!(
        b.metadata().expect("an open file").len(),
        length,
        "{} has another length than {}",
        found.display(),
        expected.display()
    );
    let mut position = 0;
    while position < length {
        if length > READ_WHOLE {
            position = next_data(&a, position).min(next_data(&b, position));
        }
        let piece = (1 << 20).min(length.saturating_sub(position));
        assert_same_piece(&a, &b, position, piece, found);
        position = position.saturating_add(piece.max(1));
    }
}

fn assert_same_piece(a: &File, b: &File, position: u64, piece: u64, found: &Path) {
    let read = |file: &File| {
        let mut bytes = vec![0; usize::try_from(piece).expect("a piece fits in memory")];
        file.read_exact_at(&mut bytes, position).expect("it has this length");
        bytes
    };
    let (left, right) = (read(a), read(b));
    if left != right {
        let first = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
        panic!(
            "{} differs from byte {} on: {:?} instead of {:?}",
            found.display(),
            position + first as u64,
            &right[first..right.len().min(first + 8)],
            &left[first..left.len().min(first + 8)],
        );
    }
}

fn next_data(file: &File, position: u64) -> u64 {
    match rustix::fs::seek(file, SeekFrom::Data(position)) {
        Ok(offset) => offset,
        Err(rustix::io::Errno::NXIO) => u64::MAX,
        Err(_) => position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_depend_on_their_offset_alone() {
        let (seed, all) = (3, seeded(3, 0, 64));
        for (offset, length) in [(0, 64), (0, 5), (3, 2), (3, 5), (3, 29), (8, 8), (9, 55), (7, 0)]
        {
            let expected = &all[offset..offset + length];
            assert_eq!(seeded(seed, offset as u64, length as u64), expected, "{offset} {length}");
        }
        assert!(all.iter().all(|byte| *byte != 0));
        assert_ne!(all, patterned(0, 64));
    }
}
