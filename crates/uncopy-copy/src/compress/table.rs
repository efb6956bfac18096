//! Seek table of zstd's seekable format: a skippable frame at the end of a file that lists the sizes of
//! all frames before it (`contrib/seekable_format/zstd_seekable_compression_format.md`
//! of zstd 1.5.7, version 0.1.0).

use xxhash_rust::xxh3::Xxh3;

/// The first bytes of a frame (RFC 8878, 3.1.1).
pub(super) const FRAME_MAGIC: u32 = 0xFD2F_B528;
/// Magic number of the skippable frame that holds a seek table.
pub(super) const TABLE_MAGIC: u32 = 0x184D_2A5E;
/// The last bytes of a file with a seek table.
const FOOTER_MAGIC: u32 = 0x8F92_EAB1;
/// Number of frames, descriptor, magic number.
pub(super) const FOOTER_BYTES: u64 = 9;
/// Descriptor bit: entries have checksums.
const HAS_CHECKSUMS: u8 = 0x80;
/// Descriptor bits that must be 0.
const RESERVED: u8 = 0x7c;

/// Longest header of a frame: magic number, descriptor, window, dictionary and content size
/// (RFC 8878, 3.1.1.1).
pub(super) const MAX_HEAD_BYTES: usize = 4 + 1 + 1 + 4 + 8;

/// Magic number and length of a skippable frame.
pub(super) const SKIPPABLE_HEAD_BYTES: usize = 8;

/// Contents of a frame in all but huge files: small enough to be read alone, large enough to compress well.
const FRAME_BYTES: u64 = 1 << 20;
const MAX_FRAME_BYTES: u64 = 16 << 20;
/// Maximum number of frames before frames grow: the table is kept in memory, 8 bytes a frame.
const MAX_SMALL_FRAMES: u64 = 1 << 18;

/// Whether a magic number begins a skippable frame (RFC 8878, 3.1.2).
pub(super) const fn is_skippable(magic: u32) -> bool {
    magic & 0xFFFF_FFF0 == 0x184D_2A50
}

/// Returns the contents of one frame in bytes, for a file of this size.
pub(super) fn frame_bytes(size: u64) -> usize {
    let mut bytes = FRAME_BYTES;
    while size / bytes > MAX_SMALL_FRAMES && bytes < MAX_FRAME_BYTES {
        bytes *= 2;
    }
    bytes as usize
}

/// Seek table under construction.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<u8>,
}

impl Table {
    /// Adds a frame: its compressed and its decompressed length.
    pub(super) fn add(&mut self, compressed_bytes: usize, bytes: usize) {
        self.entries.extend((compressed_bytes as u32).to_le_bytes());
        self.entries.extend((bytes as u32).to_le_bytes());
    }

    pub(super) fn frames(&self) -> u64 {
        self.entries.len() as u64 / 8
    }

    /// Returns the finished frame. `None`: it has more entries than the length field can express.
    pub(super) fn finish(&self) -> Option<Vec<u8>> {
        let payload_bytes = u32::try_from(self.entries.len() as u64 + FOOTER_BYTES).ok()?;
        let mut bytes = Vec::with_capacity(SKIPPABLE_HEAD_BYTES + payload_bytes as usize);
        bytes.extend(TABLE_MAGIC.to_le_bytes());
        bytes.extend(payload_bytes.to_le_bytes());
        bytes.extend(&self.entries);
        bytes.extend((self.frames() as u32).to_le_bytes());
        bytes.push(0);
        bytes.extend(FOOTER_MAGIC.to_le_bytes());
        Some(bytes)
    }
}

/// Compares a seek table at the end of a file with the frames before it, in constant memory: both are
/// hashed.
#[derive(Default)]
pub(super) struct Check {
    frames: u64,
    /// Hashes of the expected entries, without and with checksums.
    sizes: Xxh3,
    sums: Xxh3,
}

/// Seek table while it is read.
pub(super) struct TableReader {
    has_checksums: bool,
    /// Bytes of entries not read yet.
    entry_bytes: u64,
    entries: Xxh3,
    footer: Vec<u8>,
}

impl Check {
    /// Adds a frame: its compressed and its decompressed length, and the XXH64 of the contents.
    pub(super) fn add(&mut self, compressed_bytes: u64, bytes: u64, sum: u64) {
        self.frames += 1;
        // A table cannot express frames above 4 GiB; one that lists them is wrong in any case.
        let sizes = [compressed_bytes as u32, bytes as u32].map(u32::to_le_bytes).concat();
        self.sizes.update(&sizes);
        self.sums.update(&sizes);
        self.sums.update(&(sum as u32).to_le_bytes());
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// Begins with a table of this payload length. `None`: the length does not fit the frames.
    pub(super) fn begin(&self, payload_bytes: u64) -> Option<TableReader> {
        let entry_bytes = payload_bytes.checked_sub(FOOTER_BYTES)?;
        let has_checksums = match entry_bytes {
            bytes if bytes == self.frames * 8 => false,
            bytes if bytes == self.frames * 12 => true,
            _ => return None,
        };
        let (entries, footer) = (Xxh3::new(), Vec::new());
        Some(TableReader { has_checksums, entry_bytes, entries, footer })
    }

    /// Whether the table, read to its end, lists the frames of the file.
    pub(super) fn agrees(&self, found: &TableReader) -> bool {
        let expected = if found.has_checksums { &self.sums } else { &self.sizes };
        let [a, b, c, d, descriptor, ref magic @ ..] = found.footer[..] else { return false };
        let frames = u64::from(u32::from_le_bytes([a, b, c, d]));
        // Without frames both kinds look alike.
        let kind = self.frames == 0 || (descriptor & HAS_CHECKSUMS != 0) == found.has_checksums;
        frames == self.frames
            && kind
            && descriptor & RESERVED == 0
            && *magic == FOOTER_MAGIC.to_le_bytes()
            && expected.digest128() == found.entries.digest128()
    }
}

impl TableReader {
    /// Takes the next bytes of the table.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let entries = bytes.len().min(usize::try_from(self.entry_bytes).unwrap_or(usize::MAX));
        let (entries, footer) = bytes.split_at(entries);
        self.entries.update(entries);
        self.entry_bytes -= entries.len() as u64;
        self.footer.extend(footer);
    }
}

/// Wraps a payload as a seek table's frame (`fuzz/`).
#[cfg(all(fuzzing, feature = "compress"))]
pub(super) fn framed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&TABLE_MAGIC.to_le_bytes()[..], &length.to_le_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: [(u32, u32); 3] = [(100, 1 << 20), (7, 0), (1 << 20, 77)];

    fn table() -> Vec<u8> {
        let mut table = Table::default();
        for (compressed, bytes) in FRAMES {
            table.add(compressed as usize, bytes as usize);
        }
        table.finish().unwrap()
    }

    fn check() -> Check {
        let mut check = Check::default();
        for (place, (compressed, bytes)) in FRAMES.into_iter().enumerate() {
            check.add(compressed.into(), bytes.into(), place as u64 + (9 << 32));
        }
        check
    }

    /// Reads a table in pieces.
    fn agrees(payload: &[u8]) -> bool {
        let check = check();
        let Some(mut found) = check.begin(payload.len() as u64) else { return false };
        payload.chunks(5).for_each(|piece| found.take(piece));
        check.agrees(&found)
    }

    #[test]
    fn the_layout_follows_the_format() {
        let mut expected = vec![0x5e, 0x2a, 0x4d, 0x18, 3 * 8 + 9, 0, 0, 0];
        expected.extend([100, 0, 0, 0, 0, 0, 0x10, 0]);
        expected.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0, 0, 0x10, 0, 77, 0, 0, 0]);
        expected.extend([3, 0, 0, 0, 0, 0xb1, 0xea, 0x92, 0x8f]);
        assert_eq!(table(), expected);
    }

    #[test]
    fn a_table_that_lists_the_frames_is_accepted() {
        assert!(agrees(&table()[8..]));
        // With checksums: the low halves of 0, 1 and 2.
        let mut with_sums = Vec::new();
        for (place, (compressed, bytes)) in FRAMES.into_iter().enumerate() {
            with_sums.extend([compressed, bytes, place as u32].map(u32::to_le_bytes).concat());
        }
        with_sums.extend([3, 0, 0, 0, 0x80, 0xb1, 0xea, 0x92, 0x8f]);
        assert!(agrees(&with_sums));
        with_sums[8] ^= 1;
        assert!(!agrees(&with_sums));
    }

    #[test]
    fn any_other_table_is_refused() {
        let right = table()[8..].to_vec();
        for place in 0..right.len() {
            for bit in 0..8 {
                let mut wrong = right.clone();
                wrong[place] ^= 1 << bit;
                // The two lowest bits of the descriptor are unused.
                let unused = place == right.len() - 5 && bit < 2;
                assert_eq!(agrees(&wrong), unused, "{place} {bit}");
            }
        }
        for cut in 1..=right.len() {
            assert!(!agrees(&right[..right.len() - cut]), "{cut}");
        }
        assert!(!agrees(&[&right[..8], &right[..]].concat()));
    }

    #[test]
    fn frames_grow_with_the_file_up_to_a_limit() {
        for (size, expected) in [
            (0, 1 << 20),
            (256 << 30, 1 << 20),
            (1 << 40, 4 << 20),
            (4 << 40, 16 << 20),
            (u64::MAX, 16 << 20),
        ] {
            assert_eq!(frame_bytes(size), expected, "{size}");
        }
    }
}
