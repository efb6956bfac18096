//! What is gathered: regions, the memory for their list, and what is to stay in place.

use std::io::IoSlice;

use arrayvec::ArrayVec;

use crate::error::{Error, Result, Rule};
use crate::limits::MAX_REGIONS;

/// What stays in place. Changes how a message is cut, never its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatherOptions {
    /// Shorter bodies are copied into the scratch: a further region costs whoever writes the
    /// message more than that. Bodies are those of vectors and strings, and structs and arrays of
    /// at least 1,024 bytes; what has a fixed length below that is always copied.
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
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> GatherOptions {
        GatherOptions::default()
    }

    /// Sets how long a body has to be to stay in place.
    #[must_use]
    pub fn min_body_bytes(mut self, min_body_bytes: usize) -> GatherOptions {
        self.min_body_bytes = min_body_bytes;
        self
    }

    /// Sets how many regions a list has at most.
    #[must_use]
    pub fn max_regions(mut self, max_regions: usize) -> GatherOptions {
        self.max_regions = max_regions;
        self
    }

    pub(crate) fn check(self) -> Result<()> {
        if (1..=MAX_REGIONS).contains(&self.max_regions) {
            return Ok(());
        }
        Err(Error::new(Rule::RegionLimit { wanted: self.max_regions }))
    }
}

/// The regions of a message, one behind the other: for `writev`, `sendmsg` or a channel's write.
///
/// They are the value's, the encoder's, and of a list of which the caller has the memory
/// ([`RegionList`]). A message of one region needs no list: it is here.
#[derive(Debug, Clone, Copy)]
pub struct Regions<'r>(Found<'r>);

#[derive(Debug, Clone, Copy)]
enum Found<'r> {
    One([IoSlice<'r>; 1]),
    Listed(&'r [IoSlice<'r>]),
}

impl<'r> Regions<'r> {
    /// What is all in one buffer. An empty message has no region.
    #[inline]
    pub(crate) fn of(bytes: &'r [u8]) -> Regions<'r> {
        Regions(if bytes.is_empty() {
            Found::Listed(&[])
        } else {
            Found::One([IoSlice::new(bytes)])
        })
    }

    /// What is in a list.
    pub(crate) fn listed(slices: &'r [IoSlice<'r>]) -> Regions<'r> {
        Regions(Found::Listed(slices))
    }

    /// The regions in order. None is empty.
    #[inline]
    #[must_use]
    pub fn as_slices(&self) -> &[IoSlice<'r>] {
        match &self.0 {
            Found::One(slice) => slice,
            Found::Listed(slices) => slices,
        }
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
}

/// Memory for the list of a message of more than one region.
///
/// It has room for 16 regions where it is made. A longer list is on the heap, in memory that
/// [`recycle`](Self::recycle) keeps for the next value. It borrows encoder and value, so that it
/// has to be made after them.
#[derive(Debug, Default)]
pub struct RegionList<'r>(Slots<'r>);

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one, to spare the heap")]
enum Slots<'r> {
    Few(ArrayVec<IoSlice<'r>, INLINE_REGIONS>),
    Many(Vec<IoSlice<'r>>),
}

impl Default for Slots<'_> {
    #[inline]
    fn default() -> Self {
        Slots::Few(ArrayVec::new())
    }
}

impl<'r> RegionList<'r> {
    /// Without memory on the heap.
    #[inline]
    #[must_use]
    pub fn new() -> RegionList<'r> {
        RegionList::default()
    }

    /// The memory of this list, for a value that lives elsewhere.
    #[must_use]
    pub fn recycle<'s>(self) -> RegionList<'s> {
        match self.0 {
            Slots::Few(_) => RegionList::new(),
            Slots::Many(slices) => RegionList(Slots::Many(relabelled(slices))),
        }
    }

    pub(crate) fn slices(&mut self) -> &mut [IoSlice<'r>] {
        match &mut self.0 {
            Slots::Few(slices) => slices,
            Slots::Many(slices) => slices,
        }
    }

    pub(crate) fn clear(&mut self) {
        match &mut self.0 {
            Slots::Few(slices) => slices.clear(),
            Slots::Many(slices) => slices.clear(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, slice: IoSlice<'r>) {
        let spilled = match &mut self.0 {
            Slots::Many(slices) => return slices.push(slice),
            Slots::Few(slices) => match slices.try_push(slice) {
                Ok(()) => return,
                Err(full) => spilled(slices, full.element()),
            },
        };
        self.0 = Slots::Many(spilled);
    }
}

/// A full list and one more, on the heap.
#[cold]
fn spilled<'r>(few: &[IoSlice<'r>], more: IoSlice<'r>) -> Vec<IoSlice<'r>> {
    let mut many = Vec::with_capacity(4 * INLINE_REGIONS);
    many.extend_from_slice(few);
    many.push(more);
    many
}

/// The memory of a vector, emptied, for slices that live elsewhere. The standard library collects in
/// place where types have the same layout; if it ever did not, this would allocate and stay right.
fn relabelled<'s>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'s>> {
    slices.clear();
    slices.into_iter().map(|_| IoSlice::new(&[])).collect()
}

#[cfg(test)]
mod tests {
    use super::{GatherOptions, RegionList, Rule};
    use crate::Encoder;

    fn options(min_body_bytes: usize, max_regions: usize) -> GatherOptions {
        GatherOptions { min_body_bytes, max_regions }
    }

    #[test]
    fn a_limit_that_no_write_takes_is_refused() {
        for max_regions in [0, 8193] {
            let error = Encoder::with_options(options(1, max_regions)).unwrap_err();
            assert_eq!(error.rule(), Rule::RegionLimit { wanted: max_regions });
        }
    }

    #[test]
    fn a_recycled_list_keeps_its_memory() {
        let mut encoder = Encoder::with_options(options(1, 8192)).unwrap();
        let mut kept: RegionList<'static> = RegionList::new();
        let mut places = Vec::new();
        for round in 0..3 {
            let value: Vec<Vec<u8>> = (0..100).map(|n| vec![n + round; 12]).collect();
            let mut list = kept.recycle();
            let regions = encoder.gather(&value, &mut list).unwrap();
            assert_eq!(regions.as_slices().len(), 201);
            places.push(regions.as_slices().as_ptr().cast::<()>());
            kept = list.recycle();
            assert!(kept.slices().is_empty());
        }
        assert_eq!(places[1], places[2]);
    }
}
