//! Results of gathering: regions, the memory for their list, and options.

use std::io::IoSlice;

use arrayvec::ArrayVec;

use crate::error::{Error, Result, Rule};
use crate::limits::MAX_REGIONS;

/// Options that decide which bodies stay in place. They change how a message is divided, never its
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatherOptions {
    /// Minimum size of a body that stays in place. Copying a shorter one into the scratch is
    /// cheaper than a further region. Bodies are those of vectors and strings, and structs and
    /// arrays of at least 1,024 bytes; smaller objects of a fixed size are always copied.
    pub min_body_bytes: usize,
    /// Maximum number of regions, from 1 to 8,192; when it is reached, further bodies are copied. A
    /// list of more than 16 is on the heap.
    pub max_regions: usize,
}

/// Maximum number of regions in a list without heap memory.
const INLINE_REGIONS: usize = 16;

impl Default for GatherOptions {
    /// 2,048 bytes, 16 regions: below that, copying a body twice took less time than a region of its
    /// own (`cargo bench --bench fidl -- threshold`).
    fn default() -> GatherOptions {
        GatherOptions { min_body_bytes: 2048, max_regions: INLINE_REGIONS }
    }
}

impl GatherOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> GatherOptions {
        GatherOptions::default()
    }

    /// Sets the minimum size of a body that stays in place.
    #[must_use]
    pub fn min_body_bytes(mut self, min_body_bytes: usize) -> GatherOptions {
        self.min_body_bytes = min_body_bytes;
        self
    }

    /// Sets the maximum number of regions.
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

/// The regions of a message, in order: for `writev`, `sendmsg` or a channel's write.
///
/// They borrow the value, the encoder, and a list in the caller's memory ([`RegionList`]). A
/// message of one region needs no list.
#[derive(Debug, Clone, Copy)]
pub struct Regions<'r>(Storage<'r>);

#[derive(Debug, Clone, Copy)]
enum Storage<'r> {
    One([IoSlice<'r>; 1]),
    Listed(&'r [IoSlice<'r>]),
}

impl<'r> Regions<'r> {
    /// Makes the regions of a message in one buffer. An empty message has no region.
    #[inline]
    pub(crate) fn of(bytes: &'r [u8]) -> Regions<'r> {
        Regions(if bytes.is_empty() {
            Storage::Listed(&[])
        } else {
            Storage::One([IoSlice::new(bytes)])
        })
    }

    /// Makes the regions from a list.
    pub(crate) fn listed(slices: &'r [IoSlice<'r>]) -> Regions<'r> {
        Regions(Storage::Listed(slices))
    }

    /// Returns the regions in order. None is empty.
    #[inline]
    #[must_use]
    pub fn as_slices(&self) -> &[IoSlice<'r>] {
        match &self.0 {
            Storage::One(slice) => slice,
            Storage::Listed(slices) => slices,
        }
    }

    /// Returns the number of bytes in all regions.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.as_slices().iter().map(|slice| slice.len()).sum()
    }

    /// Copies all regions into one vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.total_bytes());
        self.as_slices().iter().for_each(|slice| bytes.extend_from_slice(slice));
        bytes
    }
}

/// Memory for the list of a message with more than one region.
///
/// It has room for 16 regions inside. A longer list is on the heap; [`recycle`](Self::recycle)
/// keeps that memory for the next value. It borrows encoder and value, so it must be created after
/// them.
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
    /// Makes a list without memory on the heap.
    #[inline]
    #[must_use]
    pub fn new() -> RegionList<'r> {
        RegionList::default()
    }

    /// Returns the memory of this list, for a value with another lifetime.
    #[must_use]
    pub fn recycle<'s>(self) -> RegionList<'s> {
        match self.0 {
            Slots::Few(_) => RegionList::new(),
            Slots::Many(slices) => RegionList(Slots::Many(with_lifetime(slices))),
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
                Err(full) => spill(slices, full.element()),
            },
        };
        self.0 = Slots::Many(spilled);
    }
}

/// Moves a full list to the heap and adds one region.
#[cold]
fn spill<'r>(few: &[IoSlice<'r>], more: IoSlice<'r>) -> Vec<IoSlice<'r>> {
    let mut many = Vec::with_capacity(4 * INLINE_REGIONS);
    many.extend_from_slice(few);
    many.push(more);
    many
}

/// Empties a vector and changes the lifetime of its slices. The standard library collects in place
/// if the types have the same layout; if it did not, this would allocate, and still be correct.
fn with_lifetime<'s>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'s>> {
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
