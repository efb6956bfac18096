//! A message as a list of regions that borrow the value.
//!
//! Everything small is in one buffer, the scratch: headers, inline parts, counts, short bodies,
//! padding. A large body that is the same in memory as on the wire stays where it is, and only a
//! note is made: after so many bytes of scratch comes this region. The format needs nothing more,
//! because it has no pointers: what is out of line comes in the order of traversal, wherever it
//! lies. When all is written, and the scratch will not move any more, the notes become the list.

use std::io::IoSlice;

use arrayvec::ArrayVec;

use crate::encode::{HandleCount, Output, append_padding, append_zeros};
use crate::error::{Error, Result, Rule};
use crate::layout::padded;
use crate::limits::{MAX_REGIONS, check_length};

/// What stays in place. Changes how a message is cut, never its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatherOptions {
    /// Shorter bodies are copied into the scratch: a further region costs whoever writes the
    /// message more than that.
    pub min_body_bytes: usize,
    /// When a list could get longer, further bodies are copied. From 1 to 8,192; a list of more
    /// than 16 is on the heap.
    pub max_regions: usize,
}

/// Regions in a list before it needs the heap.
const INLINE_REGIONS: usize = 16;

impl Default for GatherOptions {
    /// 1,024 bytes, 16 regions.
    fn default() -> GatherOptions {
        GatherOptions { min_body_bytes: 1024, max_regions: INLINE_REGIONS }
    }
}

impl GatherOptions {
    pub(crate) fn check(self) -> Result<()> {
        if (1..=MAX_REGIONS).contains(&self.max_regions) {
            return Ok(());
        }
        Err(Error::new(Rule::RegionLimit { wanted: self.max_regions }))
    }
}

/// The regions of a message, one behind the other: for `writev`, `sendmsg` or a channel's write.
///
/// A list lives as long as the value and the encoder that it borrows. One of more than 16 regions
/// is on the heap, in memory that [`recycle`](Self::recycle) keeps for the next value.
#[derive(Debug, Default)]
pub struct Regions<'r> {
    /// Where the list is while it is short.
    few: ArrayVec<IoSlice<'r>, INLINE_REGIONS>,
    /// Where it is else; empty while it is short.
    many: Vec<IoSlice<'r>>,
}

impl<'r> Regions<'r> {
    /// None yet.
    #[inline]
    #[must_use]
    pub fn new() -> Regions<'r> {
        Regions::default()
    }

    /// The regions in order. None is empty.
    #[inline]
    #[must_use]
    pub fn as_slices(&self) -> &[IoSlice<'r>] {
        if self.many.is_empty() { &self.few } else { &self.many }
    }

    /// Bytes of all regions together.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.as_slices().iter().map(|slice| slice.len()).sum()
    }

    /// A copy of all regions, one behind the other.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.total_bytes());
        self.as_slices().iter().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }

    /// An empty list with the memory of this one, for a value that lives elsewhere.
    #[must_use]
    pub fn recycle<'s>(mut self) -> Regions<'s> {
        self.many.clear();
        Regions { few: ArrayVec::new(), many: relabelled(self.many) }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.few.clear();
        // A store less where the compiler sees that it is empty.
        if !self.many.is_empty() {
            self.many.clear();
        }
    }

    fn push(&mut self, slice: IoSlice<'r>) {
        if self.many.is_empty() {
            match self.few.try_push(slice) {
                Ok(()) => return,
                Err(_) => self.many.extend(self.few.drain(..)),
            }
        }
        self.many.push(slice);
    }
}

/// The memory of an empty vector, for slices that live elsewhere. The standard library collects in
/// place where types have the same layout; if it ever did not, this would allocate and stay right.
fn relabelled<'s>(empty: Vec<IoSlice<'_>>) -> Vec<IoSlice<'s>> {
    debug_assert!(empty.is_empty());
    empty.into_iter().map(|_| IoSlice::new(&[])).collect()
}

/// A piece of scratch in front of a body: its place in the list, and where it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    place: u32,
    end: u32,
}

/// A message on its way into a list of regions.
pub(crate) struct Gather<'b, 'r> {
    scratch: &'r mut Vec<u8>,
    pieces: &'b mut Vec<Piece>,
    regions: &'b mut Regions<'r>,
    options: GatherOptions,
    /// Bytes of bodies that stay in place.
    borrowed: usize,
    handles: HandleCount,
}

impl<'b, 'r> Gather<'b, 'r> {
    /// Behind what is in `scratch` already, into an empty list.
    #[inline]
    pub(crate) fn new(
        scratch: &'r mut Vec<u8>,
        pieces: &'b mut Vec<Piece>,
        regions: &'b mut Regions<'r>,
        options: GatherOptions,
    ) -> Gather<'b, 'r> {
        regions.clear();
        Gather { scratch, pieces, regions, options, borrowed: 0, handles: HandleCount::default() }
    }

    /// The scratch does not move any more: its pieces take their places.
    #[inline]
    pub(crate) fn complete(self) {
        let Gather { scratch, pieces, regions, borrowed, .. } = self;
        if borrowed == 0 {
            // One buffer after all. An empty message has no region.
            if !scratch.is_empty() {
                regions.few.push(IoSlice::new(scratch));
            }
        } else {
            place(scratch, pieces, regions);
        }
    }
}

/// Leaves a body where it is, behind `end` bytes of scratch, if a list of `most` regions has room
/// for it, for the scratch before it, and for what may come behind it.
#[cold]
fn leave<'r>(
    bytes: &'r [u8],
    end: usize,
    pieces: &mut Vec<Piece>,
    regions: &mut Regions<'r>,
    most: usize,
) -> bool {
    let place = regions.as_slices().len();
    if place == 0 {
        pieces.clear();
    }
    if place + 3 > most || bytes.is_empty() {
        return false;
    }
    if pieces.last().map_or(0, |piece| piece.end as usize) < end {
        // Both are far below 2³²: a message is at most 64 KiB.
        pieces.push(Piece { place: place as u32, end: end as u32 });
        regions.push(IoSlice::new(&[]));
    }
    regions.push(IoSlice::new(bytes));
    true
}

/// Puts the pieces of scratch in their places, and what is left at the end.
#[cold]
fn place<'r>(scratch: &'r [u8], pieces: &[Piece], regions: &mut Regions<'r>) {
    let slices =
        if regions.many.is_empty() { regions.few.as_mut_slice() } else { &mut regions.many };
    let mut begin = 0;
    for Piece { place, end } in pieces {
        slices[*place as usize] = IoSlice::new(&scratch[begin..*end as usize]);
        begin = *end as usize;
    }
    if begin < scratch.len() {
        regions.push(IoSlice::new(&scratch[begin..]));
    }
}

impl<'r> Output<'r> for Gather<'_, 'r> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.scratch.len() + self.borrowed
    }

    #[inline(always)]
    fn grow(&mut self, size: usize) -> Result<usize> {
        check_length(self.length(), size)?;
        let at = self.scratch.len();
        append_zeros(self.scratch, padded(size));
        Ok(at)
    }

    #[inline(always)]
    fn inline(&mut self, at: usize, size: usize) -> &mut [u8] {
        &mut self.scratch[at..at + size]
    }

    #[inline(always)]
    fn body(&mut self, bytes: &'r [u8]) -> Result<()> {
        check_length(self.length(), bytes.len())?;
        let Gather { scratch, pieces, regions, options, borrowed, .. } = self;
        if bytes.len() >= options.min_body_bytes
            && leave(bytes, scratch.len(), pieces, regions, options.max_regions)
        {
            *borrowed += bytes.len();
        } else {
            scratch.extend_from_slice(bytes);
        }
        append_padding(self.scratch, bytes.len());
        Ok(())
    }

    #[inline]
    fn count_handle(&mut self) -> Result<()> {
        self.handles.add()
    }

    #[inline]
    fn handles(&self) -> usize {
        self.handles.get()
    }
}

#[cfg(test)]
mod tests {
    use super::{GatherOptions, Regions};
    use crate::Encoder;

    fn options(min_body_bytes: usize, max_regions: usize) -> GatherOptions {
        GatherOptions { min_body_bytes, max_regions }
    }

    #[test]
    fn bodies_stay_in_place_and_the_rest_is_scratch() {
        let value: Vec<Vec<u8>> = vec![vec![1; 1300], vec![2; 8], vec![3; 1304]];
        let mut encoder = Encoder::new();
        let linear = encoder.linear(&value).unwrap().to_vec();
        let mut regions = Regions::new();
        encoder.gather(&value, &mut regions).unwrap();
        let lengths: Vec<usize> = regions.as_slices().iter().map(|slice| slice.len()).collect();
        assert_eq!(lengths, [16 + 48, 1300, 4 + 8, 1304]);
        assert_eq!(regions.as_slices()[1].as_ptr(), value[0].as_ptr());
        assert_eq!((regions.to_vec(), regions.total_bytes()), (linear.clone(), linear.len()));
    }

    #[test]
    fn lists_never_get_longer_than_allowed() {
        let value: Vec<Vec<u8>> = (0..40).map(|n| vec![n; 12]).collect();
        for max_regions in 1..100 {
            let mut encoder = Encoder::with_options(options(1, max_regions)).unwrap();
            let linear = encoder.linear(&value).unwrap().to_vec();
            let mut regions = Regions::new();
            encoder.gather(&value, &mut regions).unwrap();
            let count = regions.as_slices().len();
            assert!(count <= max_regions && (max_regions < 3 || count + 2 >= max_regions.min(81)));
            assert!(regions.as_slices().iter().all(|slice| !slice.is_empty()));
            assert_eq!(regions.to_vec(), linear, "{max_regions}");
        }
    }

    #[test]
    fn a_limit_that_no_write_takes_is_refused() {
        for max_regions in [0, 8193] {
            let error = Encoder::with_options(options(1, max_regions)).unwrap_err();
            assert_eq!(error.rule(), super::Rule::RegionLimit { wanted: max_regions });
        }
    }

    #[test]
    fn a_recycled_list_keeps_its_memory() {
        let mut encoder = Encoder::with_options(options(1, 8192)).unwrap();
        let mut kept: Regions<'static> = Regions::new();
        let mut places = Vec::new();
        for round in 0..3 {
            let value: Vec<Vec<u8>> = (0..100).map(|n| vec![n + round; 12]).collect();
            let mut regions = kept.recycle();
            encoder.gather(&value, &mut regions).unwrap();
            assert_eq!(regions.as_slices().len(), 201);
            places.push(regions.as_slices().as_ptr().cast::<()>());
            kept = regions.recycle();
            assert!(kept.as_slices().is_empty());
        }
        assert_eq!(places[1], places[2]);
    }

    #[test]
    fn a_failure_leaves_no_regions() {
        let value = vec![vec![0u8; 400]; 200];
        let mut encoder = Encoder::new();
        let mut regions = Regions::new();
        assert!(encoder.gather(&value, &mut regions).is_err());
        assert!(regions.as_slices().is_empty());
    }
}
