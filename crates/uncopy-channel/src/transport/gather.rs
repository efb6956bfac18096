//! Gathers header, regions and records for one `sendmsg(2)`.

use std::cell::Cell;
use std::io::IoSlice;
use std::ops::Range;

use arrayvec::ArrayVec;

use super::packet::HEADER_BYTES;
use crate::MAX_BYTES;
use crate::memory::append;

/// Minimum size of regions that are sent from where they lie; smaller ones are copied together.
///
/// Measured: the kernel takes 23 to 30 ns for each part, in which a copy moves some 2 KiB, and a
/// single part saves the 190 ns by which `sendmsg(2)` is slower than `send(2)`.
const LARGE_BYTES: usize = 4096;

/// Maximum number of parts: large regions, runs of small ones between them, header and records.
const MAX_PARTS: usize = 2 * (MAX_BYTES / LARGE_BYTES) + 2;

thread_local! {
    /// Memory where small regions are copied together; it grows as needed and is kept.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Place of a part.
enum Part {
    Scratch(Range<usize>),
    Region(usize),
}

/// Arranges a packet: adjacent small regions become one part, large ones stay where they are.
pub(super) struct Gather;

impl Gather {
    /// Runs `send` with the parts of header, regions and records: at most 34 for any number of
    /// regions. `header` receives the sum of the regions.
    pub(super) fn with<T>(
        header: impl FnOnce(usize) -> [u8; HEADER_BYTES],
        regions: &[IoSlice<'_>],
        records: &[u8],
        send: impl FnOnce(&[IoSlice<'_>]) -> T,
    ) -> T {
        let mut scratch = SCRATCH.take();
        scratch.clear();
        let mut parts = ArrayVec::new();
        let bytes = arrange(&mut parts, &mut scratch, regions, records);
        scratch[..HEADER_BYTES].copy_from_slice(&header(bytes));
        let mut slices: ArrayVec<IoSlice<'_>, MAX_PARTS> = ArrayVec::new();
        for part in &parts {
            slices.push(match part {
                Part::Scratch(range) => IoSlice::new(&scratch[range.clone()]),
                Part::Region(index) => IoSlice::new(&regions[*index]),
            });
        }
        let result = send(&slices);
        drop(slices);
        SCRATCH.set(scratch);
        result
    }
}

/// Fills `scratch`, with space for the header in front, and `parts`; returns the sum of the
/// regions.
fn arrange(
    parts: &mut ArrayVec<Part, MAX_PARTS>,
    scratch: &mut Vec<u8>,
    regions: &[IoSlice<'_>],
    records: &[u8],
) -> usize {
    let mut run = 0;
    let mut large_bytes = 0;
    scratch.extend_from_slice(&[0; HEADER_BYTES]);
    for (index, region) in regions.iter().enumerate() {
        if region.len() < LARGE_BYTES {
            append(scratch, region);
            continue;
        }
        if run < scratch.len() {
            parts.push(Part::Scratch(run..scratch.len()));
            run = scratch.len();
        }
        parts.push(Part::Region(index));
        large_bytes += region.len();
    }
    let bytes = large_bytes + scratch.len() - HEADER_BYTES;
    scratch.extend_from_slice(records);
    if run < scratch.len() {
        parts.push(Part::Scratch(run..scratch.len()));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::{Gather, LARGE_BYTES, MAX_PARTS};
    use crate::MAX_BYTES;

    /// Returns the lengths of the parts, and all bytes.
    fn gathered(regions: &[IoSlice<'_>]) -> (Vec<usize>, Vec<u8>) {
        let header = |bytes: usize| {
            assert_eq!(bytes, regions.iter().map(|region| region.len()).sum::<usize>());
            *b"<header>"
        };
        Gather::with(header, regions, b"<records>", |parts| {
            let lengths = parts.iter().map(|part| part.len()).collect();
            (lengths, parts.iter().flat_map(|part| part.iter().copied()).collect())
        })
    }

    #[test]
    fn small_regions_become_one_part_and_large_ones_stay() {
        let large = [7; LARGE_BYTES];
        for (what, regions, parts) in [
            ("nothing", vec![], vec![17]),
            ("small", vec![&b"ab"[..], b"", b"c"], vec![20]),
            ("one large", vec![&large[..]], vec![8, LARGE_BYTES, 9]),
            ("a run before", vec![&b"ab"[..], b"c", &large], vec![11, LARGE_BYTES, 9]),
            ("a run behind", vec![&large[..], b"a", b"bc"], vec![8, LARGE_BYTES, 12]),
            ("two large", vec![&large[..], &large], vec![8, LARGE_BYTES, LARGE_BYTES, 9]),
            ("just small", vec![&large[1..]], vec![17 + LARGE_BYTES - 1]),
        ] {
            let slices: Vec<_> = regions.iter().map(|region| IoSlice::new(region)).collect();
            let (lengths, bytes) = gathered(&slices);
            assert_eq!(lengths, parts, "{what}");
            let expected = [&b"<header>"[..], &regions.concat(), b"<records>"].concat();
            assert_eq!(bytes, expected, "{what}");
        }
    }

    #[test]
    fn no_message_needs_more_than_the_maximum_of_parts() {
        // Longer by a byte per region than a message may be; no message needs more parts.
        let large = [1; LARGE_BYTES];
        let mut regions = Vec::new();
        for _ in 0..MAX_BYTES / LARGE_BYTES {
            regions.extend([IoSlice::new(b"x"), IoSlice::new(&large), IoSlice::new(b"")]);
        }
        let (lengths, _) = gathered(&regions);
        assert!(lengths.len() <= MAX_PARTS, "{lengths:?}");
    }
}
