//! Finds data and holes of a source (`SEEK_DATA`, `SEEK_HOLE`).

use std::os::fd::BorrowedFd;

use super::tuning::Tuning;
use uncopy_core::Errno;
use uncopy_os::file::{self, Stat};

/// A range of the source: data or a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segment {
    Data { start: u64, end: u64 },
    Hole { start: u64, end: u64 },
}

/// A file with `SEEK_DATA` and `SEEK_HOLE`.
pub(crate) trait SeekExtents {
    fn seek_data(&self, offset: u64) -> Result<u64, Errno>;
    fn seek_hole(&self, offset: u64) -> Result<u64, Errno>;
}

impl SeekExtents for BorrowedFd<'_> {
    fn seek_data(&self, offset: u64) -> Result<u64, Errno> {
        file::seek_data(*self, offset)
    }

    fn seek_hole(&self, offset: u64) -> Result<u64, Errno> {
        file::seek_hole(*self, offset)
    }
}

/// Returns the segment of a file of `size` bytes that begins at `offset` (below `size`).
///
/// Without support by the filesystem, data is assumed everywhere.
pub(crate) fn segment(file: &impl SeekExtents, offset: u64, size: u64) -> Segment {
    let data = match file.seek_data(offset) {
        Ok(data) if data >= offset => data.min(size),
        // No data from here on (lseek(2)).
        Err(Errno::ENXIO) => size,
        Ok(_) | Err(_) => return Segment::Data { start: offset, end: size },
    };
    if data > offset {
        return Segment::Hole { start: offset, end: data };
    }
    let end = match file.seek_hole(offset) {
        Ok(hole) if hole > offset => hole.min(size),
        Ok(_) | Err(_) => size,
    };
    Segment::Data { start: offset, end }
}

/// Whether blocks are missing, so that looking for holes is worth a call.
///
/// Blocks in plenty prove nothing if some were reserved beyond the end, so that only a file whose
/// blocks fit its size is taken to be dense; compressed files only look sparse.
pub(crate) fn may_have_holes(stat: &Stat) -> bool {
    /// Blocks of metadata and rounding that a dense file may have on top.
    const SLACK_BYTES: u64 = 64 << 10;
    let allocated = stat.blocks.saturating_mul(512);
    allocated < stat.size || allocated > stat.size + SLACK_BYTES
}

/// Whether blocks for attributes, which count like those of data, may stand for ones that are missing,
/// so that [`may_have_holes`] says nothing. They are few: in a larger file they are not looked for.
pub(crate) fn may_hide_holes(stat: &Stat) -> bool {
    stat.size <= Tuning::MAX_ZERO_COPY_MIN_BYTES
}

/// Whether such a file has a hole. A hole reads as zeros, so that the contents show for most files
/// that they have none.
pub(crate) fn hides_hole(file: &impl SeekExtents, contents: &[u8]) -> bool {
    /// The smallest blocks of ext4.
    const BLOCK_BYTES: usize = 1 << 10;
    let is_empty = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    contents.chunks(BLOCK_BYTES).any(is_empty)
        && file.seek_hole(0).is_ok_and(|hole| hole < contents.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data at 10..20 and 30..40.
    struct Sparse;

    impl SeekExtents for Sparse {
        fn seek_data(&self, offset: u64) -> Result<u64, Errno> {
            match offset {
                0..10 => Ok(10),
                10..20 | 30..40 => Ok(offset),
                20..30 => Ok(30),
                _ => Err(Errno::ENXIO),
            }
        }

        fn seek_hole(&self, offset: u64) -> Result<u64, Errno> {
            Ok(if offset < 20 { 20 } else { 40 })
        }
    }

    /// A filesystem without `SEEK_DATA`.
    struct Blind;

    impl SeekExtents for Blind {
        fn seek_data(&self, _: u64) -> Result<u64, Errno> {
            Err(Errno::EINVAL)
        }

        fn seek_hole(&self, _: u64) -> Result<u64, Errno> {
            Err(Errno::EINVAL)
        }
    }

    #[test]
    fn a_file_is_cut_into_data_and_holes() {
        let mut offset = 0;
        let mut segments = Vec::new();
        while offset < 50 {
            let segment = segment(&Sparse, offset, 50);
            let (Segment::Data { end, .. } | Segment::Hole { end, .. }) = segment;
            assert!(end > offset);
            offset = end;
            segments.push(segment);
        }
        assert_eq!(
            segments,
            [
                Segment::Hole { start: 0, end: 10 },
                Segment::Data { start: 10, end: 20 },
                Segment::Hole { start: 20, end: 30 },
                Segment::Data { start: 30, end: 40 },
                Segment::Hole { start: 40, end: 50 },
            ]
        );
    }

    #[test]
    fn a_hole_is_asked_for_only_where_there_are_zeros() {
        /// Has a hole, and may not be asked.
        struct Unasked;
        impl SeekExtents for Unasked {
            fn seek_data(&self, _: u64) -> Result<u64, Errno> {
                panic!("nobody asks for data");
            }
            fn seek_hole(&self, _: u64) -> Result<u64, Errno> {
                panic!("these contents leave no room for a hole");
            }
        }
        let mut contents = vec![7; 10_000];
        assert!(!hides_hole(&Unasked, &contents));
        assert!(!hides_hole(&Unasked, &[]));
        contents[1000..2047].fill(0);
        assert!(!hides_hole(&Unasked, &contents), "within blocks");
        for zeros in [1024..2048, 9216..10_000] {
            let mut contents = vec![7; 10_000];
            contents[zeros].fill(0);
            assert!(hides_hole(&Sparse, &contents));
            assert!(!hides_hole(&Blind, &contents), "written zeros");
        }
        assert!(!hides_hole(&Sparse, &[0; 20]), "the hole is the end of the file");
    }

    #[test]
    fn a_filesystem_without_seek_hole_has_data_everywhere() {
        assert_eq!(segment(&Blind, 7, 50), Segment::Data { start: 7, end: 50 });
    }

    #[test]
    fn a_file_that_grew_is_cut_at_the_size_it_had() {
        assert_eq!(segment(&Sparse, 30, 35), Segment::Data { start: 30, end: 35 });
        assert_eq!(segment(&Sparse, 20, 25), Segment::Hole { start: 20, end: 25 });
    }
}
