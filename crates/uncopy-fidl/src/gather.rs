//! A message as a list of regions that borrow the value.
//!
//! Everything small is in one buffer, the scratch: headers, inline parts, counts, short bodies,
//! padding. A large body that is the same in memory as on the wire stays where it is, and only a
//! note is made: after so many bytes of scratch comes this region. The format needs nothing more,
//! because it has no pointers: what is out of line comes in the order of traversal, wherever it
//! lies. When all is written, and the scratch will not move any more, the notes become the list.

use std::io::IoSlice;

use smallvec::SmallVec;

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
    /// When a list could get longer, further bodies are copied. From 1 to 8,192; more than 16 are
    /// on the heap.
    pub max_regions: usize,
}

/// Regions in a list before it needs the heap.
const INLINE_REGIONS: usize = 16;

impl Default for GatherOptions {
    /// 256 bytes, 16 regions.
    fn default() -> GatherOptions {
        GatherOptions { min_body_bytes: 256, max_regions: INLINE_REGIONS }
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
/// has memory of its own, which [`recycle`](Self::recycle) keeps for the next value.
#[derive(Debug, Default)]
pub struct Regions<'r> {
    slices: SmallVec<[IoSlice<'r>; INLINE_REGIONS]>,
    /// Places in `slices` that wait for pieces of scratch.
    pieces: SmallVec<[Piece; INLINE_REGIONS / 2]>,
    /// Of all regions together.
    bytes: usize,
}

/// A piece of scratch between two bodies: its place in the list, and where it ends.
#[derive(Debug, Clone, Copy)]
struct Piece {
    place: u32,
    end: u32,
}

impl<'r> Regions<'r> {
    /// None yet.
    #[inline]
    #[must_use]
    pub fn new() -> Regions<'r> {
        Regions { slices: SmallVec::new(), pieces: SmallVec::new(), bytes: 0 }
    }

    /// The regions in order. None is empty.
    #[inline]
    #[must_use]
    pub fn as_slices(&self) -> &[IoSlice<'r>] {
        &self.slices
    }

    /// Bytes of all regions together.
    #[inline]
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.bytes
    }

    /// A copy of all regions, one behind the other.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes);
        self.slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }

    /// An empty list with the memory of this one, for a value that lives elsewhere.
    #[must_use]
    pub fn recycle<'s>(mut self) -> Regions<'s> {
        self.slices.clear();
        self.pieces.clear();
        let slices = if self.slices.spilled() {
            SmallVec::from_vec(relabelled(self.slices.into_vec()))
        } else {
            SmallVec::new()
        };
        Regions { slices, pieces: self.pieces, bytes: 0 }
    }

    fn clear(&mut self) {
        self.slices.clear();
        self.pieces.clear();
        self.bytes = 0;
    }
}

/// The memory of an empty vector, for slices that live elsewhere. The standard library collects in
/// place where types have the same layout; if it ever did not, this would allocate and stay right.
fn relabelled<'s>(empty: Vec<IoSlice<'_>>) -> Vec<IoSlice<'s>> {
    debug_assert!(empty.is_empty());
    empty.into_iter().map(|_| IoSlice::new(&[])).collect()
}

/// A message on its way into a list of regions.
pub(crate) struct Gather<'b, 'r> {
    scratch: &'r mut Vec<u8>,
    regions: &'b mut Regions<'r>,
    options: GatherOptions,
    /// Bytes of bodies that stay in place.
    borrowed: usize,
    handles: HandleCount,
}

impl<'b, 'r> Gather<'b, 'r> {
    /// Behind what is in `scratch` already.
    #[inline]
    pub(crate) fn new(
        scratch: &'r mut Vec<u8>,
        regions: &'b mut Regions<'r>,
        options: GatherOptions,
    ) -> Gather<'b, 'r> {
        regions.clear();
        Gather { scratch, regions, options, borrowed: 0, handles: HandleCount::default() }
    }

    /// Puts the pieces of scratch in their places, or clears the list if encoding failed.
    #[inline]
    pub(crate) fn finish(self, encoded: Result<()>) -> Result<()> {
        let Gather { scratch, regions, borrowed, .. } = self;
        if let Err(error) = encoded {
            regions.clear();
            return Err(error);
        }
        let scratch: &'r [u8] = scratch;
        let Regions { slices, pieces, bytes } = regions;
        let mut begin = 0;
        for Piece { place, end } in &*pieces {
            slices[*place as usize] = IoSlice::new(&scratch[begin..*end as usize]);
            begin = *end as usize;
        }
        if begin < scratch.len() {
            slices.push(IoSlice::new(&scratch[begin..]));
        }
        *bytes = scratch.len() + borrowed;
        Ok(())
    }

    /// A body of `length` bytes stays in place: it is long enough, and there is room for it, for
    /// the scratch before it, and for what may come behind it.
    #[inline]
    fn stays(&self, length: usize) -> bool {
        length >= self.options.min_body_bytes
            && self.regions.slices.len() + 3 <= self.options.max_regions
            && length > 0
    }

    fn borrow(&mut self, bytes: &'r [u8]) {
        let Regions { slices, pieces, .. } = &mut *self.regions;
        let end = self.scratch.len();
        let begin = pieces.last().map_or(0, |piece| piece.end as usize);
        if begin < end {
            // Both are far below 2³²: a message is at most 64 KiB.
            pieces.push(Piece { place: slices.len() as u32, end: end as u32 });
            slices.push(IoSlice::new(&[]));
        }
        slices.push(IoSlice::new(bytes));
        self.borrowed += bytes.len();
    }
}

impl<'r> Output<'r> for Gather<'_, 'r> {
    #[inline]
    fn length(&self) -> usize {
        self.scratch.len() + self.borrowed
    }

    #[inline]
    fn grow(&mut self, size: usize) -> Result<usize> {
        check_length(self.length(), size)?;
        let at = self.scratch.len();
        append_zeros(self.scratch, padded(size));
        Ok(at)
    }

    #[inline]
    fn inline(&mut self, at: usize, size: usize) -> &mut [u8] {
        &mut self.scratch[at..at + size]
    }

    #[inline]
    fn body(&mut self, bytes: &'r [u8]) -> Result<()> {
        check_length(self.length(), bytes.len())?;
        if self.stays(bytes.len()) {
            self.borrow(bytes);
        } else {
            self.scratch.extend_from_slice(bytes);
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
        let value: Vec<Vec<u8>> = vec![vec![1; 300], vec![2; 8], vec![3; 304]];
        let mut encoder = Encoder::new();
        let linear = encoder.linear(&value).unwrap().to_vec();
        let mut regions = Regions::new();
        encoder.gather(&value, &mut regions).unwrap();
        let lengths: Vec<usize> = regions.as_slices().iter().map(|slice| slice.len()).collect();
        assert_eq!(lengths, [16 + 48, 300, 4 + 8, 304]);
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
