//! Decides which regions of a packet stay where they lie, and which are copied together.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::packet::RECORD_BYTES;
use crate::{MAX_BYTES, MAX_HANDLES, Status};

/// Minimum size of a region that stays where it lies between others.
///
/// `cargo xtask compare channel`: the kernel takes some 25 ns for each part, in which a copy from the
/// cache moves more than 1 KiB. Messages of regions of 1 KiB took up to 1.04 times as long where
/// they lay as put together first.
pub(super) const IN_PLACE_BYTES: usize = 2048;

/// Minimum size of a message without handles that is sent in parts. A smaller one is copied into one
/// part: `send(2)` takes some 110 ns less than `sendmsg(2)`, in which a copy moves about as much.
pub(super) const PARTED_BYTES: usize = 4096;

/// Maximum number of parts: large regions, and a part in front of each and behind the last. The first part has the header.
pub(super) const MAX_PARTS: usize =
    2 * ((MAX_BYTES + MAX_HANDLES * RECORD_BYTES) / IN_PLACE_BYTES) + 1;

// The records of a message are never a part of their own if all its regions are small.
const _: () = assert!(MAX_HANDLES * RECORD_BYTES < IN_PLACE_BYTES);

// `UIO_MAXIOV` in `include/uapi/linux/uio.h`.
const _: () = assert!(MAX_PARTS <= 1024);

/// Part of a packet, by the index of its regions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlannedPart {
    /// Adjacent regions, `bytes` long together, that are copied.
    Joined { regions: Range<usize>, bytes: usize },
    /// A region that stays where it lies.
    InPlace(usize),
}

/// Parts of a packet behind the first, in order.
pub(super) type Plan = ArrayVec<PlannedPart, { MAX_PARTS - 1 }>;

/// Adjacent small regions.
struct Run {
    begin: usize,
    bytes: usize,
    /// Number of regions that are not empty.
    pieces: usize,
    /// The last region that is not empty.
    last: usize,
}

impl Run {
    fn from(begin: usize) -> Run {
        Run { begin, bytes: 0, pieces: 0, last: begin }
    }

    /// Returns its part. A single region is a part anyway, and not copied.
    fn part(self, end: usize) -> Option<PlannedPart> {
        match self.pieces {
            0 => None,
            1 => Some(PlannedPart::InPlace(self.last)),
            _ => Some(PlannedPart::Joined { regions: self.begin..end, bytes: self.bytes }),
        }
    }
}

/// Plans the regions of a packet behind those that are copied together with its header: the first of these lengths is
/// at least [`IN_PLACE_BYTES`]. Returns their sum.
///
/// # Errors
/// [`Status::OutOfRange`] if the regions are longer than a message with its records.
pub(super) fn plan(lengths: impl Iterator<Item = usize>, plan: &mut Plan) -> Result<usize, Status> {
    let mut put = |part| plan.try_push(part).map_err(|_| Status::OutOfRange);
    let mut run = Run::from(0);
    let (mut end, mut total) = (0, 0usize);
    for length in lengths {
        let index = end;
        end += 1;
        total = total.saturating_add(length);
        if length >= IN_PLACE_BYTES {
            run.part(index).map_or(Ok(()), &mut put)?;
            put(PlannedPart::InPlace(index))?;
            run = Run::from(end);
        } else if length > 0 {
            run.bytes += length;
            run.pieces += 1;
            run.last = index;
        }
    }
    run.part(end).map_or(Ok(()), put)?;
    Ok(total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};

    use super::PlannedPart::{InPlace, Joined};
    use super::{IN_PLACE_BYTES, MAX_PARTS, Plan, PlannedPart, RECORD_BYTES};
    use crate::{MAX_BYTES, MAX_HANDLES, MAX_REGIONS, Status};

    const LARGE: usize = IN_PLACE_BYTES;

    /// Returns all parts: the regions that are copied behind the header, and the planned ones.
    fn plan(lengths: &[usize]) -> Result<Vec<PlannedPart>, Status> {
        let small = lengths.iter().take_while(|length| **length < LARGE).count();
        let (first, others) = lengths.split_at(small);
        let mut plan = Plan::new();
        let total = super::plan(others.iter().copied(), &mut plan)?;
        assert_eq!(total, others.iter().sum::<usize>());
        let behind_first = plan.into_iter().map(|part| match part {
            Joined { regions, bytes } => joined(regions.start + small..regions.end + small, bytes),
            InPlace(index) => InPlace(index + small),
        });
        let first = joined(0..small, first.iter().sum());
        Ok(std::iter::once(first).chain(behind_first).collect())
    }

    fn joined(regions: std::ops::Range<usize>, bytes: usize) -> PlannedPart {
        Joined { regions, bytes }
    }

    #[test]
    fn small_neighbours_are_joined_and_all_others_stay() {
        let header = joined(0..0, 0);
        for (what, lengths, parts) in [
            ("nothing", vec![], vec![header.clone()]),
            ("only empty ones", vec![0, 0], vec![joined(0..2, 0)]),
            ("small", vec![2, 0, 1], vec![joined(0..3, 3)]),
            ("large", vec![LARGE], vec![header.clone(), InPlace(0)]),
            ("just small", vec![LARGE - 1], vec![joined(0..1, LARGE - 1)]),
            ("small behind", vec![LARGE, 16], vec![header.clone(), InPlace(0), InPlace(1)]),
            ("small in front", vec![2, LARGE], vec![joined(0..1, 2), InPlace(1)]),
            (
                "one between",
                vec![LARGE, 0, 5, 0, LARGE],
                vec![header.clone(), InPlace(0), InPlace(2), InPlace(4)],
            ),
            (
                "two between",
                vec![LARGE, 5, 0, 6, LARGE],
                vec![header.clone(), InPlace(0), joined(1..4, 11), InPlace(4)],
            ),
            ("empty between", vec![LARGE, 0, LARGE], vec![header, InPlace(0), InPlace(2)]),
        ] {
            assert_eq!(plan(&lengths).unwrap().as_slice(), parts, "{what}");
        }
    }

    #[test]
    fn no_message_needs_more_parts_than_there_is_room_for() {
        let mut lengths = Vec::new();
        for _ in 0..MAX_BYTES / LARGE {
            lengths.extend([1, 1, LARGE, 0]);
        }
        // Longer than a message by the small regions, and with all records.
        lengths.extend([1, 1, MAX_HANDLES * RECORD_BYTES]);
        assert_eq!(plan(&lengths).unwrap().len(), MAX_PARTS);
        assert_eq!(plan(&[LARGE; MAX_PARTS]), Err(Status::OutOfRange));
    }

    proptest! {
        /// Every byte is in exactly one part, in order; no part but the header is empty, and no two
        /// neighbours that are copied could have been one part.
        #[test]
        fn every_region_is_in_one_part(
            lengths in prop::collection::vec(
                prop::sample::select(vec![0usize, 1, 3, 64, 700, LARGE - 1, LARGE, 5000, 30_000]),
                0..MAX_REGIONS / 16,
            ),
        ) {
            let mut total = 0;
            let fits = |length: &&usize| { total += **length; total <= MAX_BYTES };
            let lengths: Vec<usize> = lengths.iter().take_while(fits).copied().collect();
            let parts = plan(&lengths).unwrap();
            assert!(parts.len() <= MAX_PARTS);
            let mut next = 0;
            let mut was_joined = false;
            for (number, part) in parts.iter().enumerate() {
                let regions = match part {
                    Joined { regions, .. } => regions.clone(),
                    InPlace(index) => *index..*index + 1,
                };
                assert!(lengths[next..regions.start].iter().all(|length| *length == 0));
                let bytes: usize = lengths[regions.clone()].iter().sum();
                match part {
                    Joined { bytes: planned, .. } => {
                        assert!(*planned == bytes && !was_joined);
                        let pieces = lengths[regions.clone()].iter().filter(|l| **l > 0).count();
                        assert!(number == 0 || pieces > 1);
                        was_joined = true;
                    }
                    InPlace(_) => {
                        assert!(bytes > 0 && number > 0);
                        was_joined = false;
                    }
                }
                next = regions.end;
            }
            assert!(lengths[next..].iter().all(|length| *length == 0));
        }
    }
}
