//! Gathering: a message as a list of regions that borrow the value.
//!
//! Everything small goes into one buffer, the scratch: headers, inline parts, counts, short bodies,
//! padding. A large body whose memory is identical to its wire format stays in place; only its
//! position between the pieces of scratch is recorded. The format has no pointers and puts
//! out-of-line objects in the order of traversal, so nothing else is needed. At the end, when the
//! scratch no longer moves, the records become the list of regions.

use std::io::IoSlice;
use std::mem;

use crate::encode::{Encode, HandleCount, Output, encode_root};
use crate::error::{Error, Result, Rule};
use crate::header::{HEADER_BYTES, Header};
use crate::layout::padded;
use crate::limits::MAX_BYTES;
use crate::regions::{GatherOptions, RegionList, Regions};

/// Structs and arrays below this size are always copied. Their size is known at compile time, so no
/// list is built for values without other bodies.
pub(crate) const ALWAYS_COPIED: usize = 1024;

/// Initial size of an encoder's scratch in bytes.
const FIRST_SCRATCH: usize = 512;

/// A piece of scratch before a body: its index in the list, and its end in the scratch.
#[derive(Debug, Clone, Copy)]
struct Piece {
    place: u32,
    end: u32,
}

/// Memory that is reused from one message to the next.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Buffer for everything that is copied. Its contents are meaningless between messages; it
    /// never shrinks.
    scratch: Vec<u8>,
    /// Pieces of scratch between bodies that stay in place.
    pieces: Vec<Piece>,
    options: GatherOptions,
}

impl Workspace {
    /// Makes a workspace without memory.
    pub(crate) fn new(options: GatherOptions) -> Workspace {
        Workspace { options, ..Workspace::default() }
    }

    /// Returns the regions of `header` and `value`.
    #[inline(always)]
    pub(crate) fn gather<'b, 'r: 'b, T: Encode>(
        &'r mut self,
        header: Option<&Header>,
        value: &'r T,
        list: &'b mut RegionList<'r>,
    ) -> Result<Regions<'b>> {
        // If everything is in one object, no check is needed while it is written.
        let min_length = header.map_or(0, |_| HEADER_BYTES) + padded(T::SIZE);
        while self.scratch.len() < min_length.min(MAX_BYTES) {
            lengthen(&mut self.scratch, min_length);
        }
        loop {
            let Workspace { scratch, pieces, options } = self;
            let mut gather = Gather::new(scratch, pieces, list, *options);
            let done = gather.walk(header, value);
            match gather.end(done) {
                Ok(walk) => return Ok(walk.complete(&self.scratch, &self.pieces, list)),
                Err((error, wanted)) => lengthen_or_fail(&mut self.scratch, error, wanted)?,
            }
        }
    }
}

/// Extends the scratch to at least `min_length` bytes, at most to the maximum length of a message.
#[cold]
fn lengthen(scratch: &mut Vec<u8>, min_length: usize) {
    let length = min_length.max(4 * scratch.len()).clamp(FIRST_SCRATCH, MAX_BYTES);
    scratch.resize(length, 0);
}

/// Extends the scratch if the walk ended with `error` because it was too short.
#[cold]
fn lengthen_or_fail(scratch: &mut Vec<u8>, error: Error, wanted: Option<usize>) -> Result<()> {
    wanted.map(|wanted| lengthen(scratch, wanted)).ok_or(error)
}

/// A message while it is being gathered.
///
/// The scratch is a slice and does not grow: if it is too short, the walk ends and restarts with a
/// longer one. So address and length of the scratch stay in registers. Only [`borrow_body`] uses
/// the pieces and the list: for types without bodies, the compiler sees only writes to one buffer,
/// and removes the list.
struct Gather<'b, 'r> {
    /// The scratch, up to its maximum length.
    scratch: &'b mut [u8],
    /// Number of bytes written to the scratch.
    used: usize,
    pieces: &'b mut Vec<Piece>,
    list: &'b mut RegionList<'r>,
    options: GatherOptions,
    /// Number of bytes in bodies that stay in place.
    borrowed: usize,
    handles: HandleCount,
    /// Required length of the scratch, if it was too short.
    wanted: Option<usize>,
}

/// Result of a complete walk.
struct Walk {
    used: usize,
    borrowed: usize,
}

impl<'b, 'r> Gather<'b, 'r> {
    /// Starts a walk that overwrites `scratch`, `pieces` and `list`.
    #[inline(always)]
    fn new(
        scratch: &'b mut [u8],
        pieces: &'b mut Vec<Piece>,
        list: &'b mut RegionList<'r>,
        options: GatherOptions,
    ) -> Gather<'b, 'r> {
        let handles = HandleCount::default();
        Gather { scratch, used: 0, pieces, list, options, borrowed: 0, handles, wanted: None }
    }

    #[inline(always)]
    fn walk<T: Encode>(&mut self, header: Option<&Header>, value: &'r T) -> Result<()> {
        if let Some(header) = header {
            self.copy(&header.to_bytes())?;
        }
        encode_root(value, self)
    }

    /// Ends the walk. If it failed because the scratch was too short, the error comes with the
    /// required length.
    #[inline(always)]
    fn end(self, done: Result<()>) -> Result<Walk, (Error, Option<usize>)> {
        match done {
            Ok(()) => Ok(Walk { used: self.used, borrowed: self.borrowed }),
            Err(error) => Err((error, self.wanted)),
        }
    }

    /// Reserves the next `size` bytes of scratch, padded, and returns their position.
    #[inline(always)]
    fn next(&mut self, size: usize) -> Result<(usize, &mut [u8])> {
        let begin = self.used;
        let end = begin + padded(size);
        if end > self.scratch.len() {
            return Err(self.too_short(size));
        }
        self.used = end;
        Ok((begin, &mut self.scratch[begin..end]))
    }

    /// Makes an error: there is no room for `size` bytes, because the scratch is too short or the
    /// message is too long.
    #[inline(always)]
    fn too_short(&mut self, size: usize) -> Error {
        let (error, wanted) = too_short(self.used, self.borrowed, size);
        self.wanted = wanted;
        error
    }

    /// Writes the padding after an object of `size` bytes that stays in place.
    #[inline(always)]
    fn pad(&mut self, size: usize) -> Result<()> {
        let end = self.used + padded(size) - size;
        if end > self.scratch.len() {
            return Err(self.too_short(end - self.used));
        }
        self.scratch[self.used..end].fill(0);
        self.used = end;
        Ok(())
    }

    /// Copies an object into the scratch.
    #[inline(always)]
    fn copy(&mut self, bytes: &[u8]) -> Result<()> {
        let (_, place) = self.next(bytes.len())?;
        if let Some(last) = place.last_chunk_mut::<8>() {
            *last = [0; 8];
        }
        place[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Walk {
    /// Makes the list of regions. The scratch does not change any more.
    #[inline(always)]
    fn complete<'b, 'r>(
        self,
        scratch: &'r [u8],
        pieces: &[Piece],
        list: &'b mut RegionList<'r>,
    ) -> Regions<'b> {
        let scratch = &scratch[..self.used];
        if self.borrowed == 0 { Regions::of(scratch) } else { place(scratch, pieces, list) }
    }
}

/// Makes an error if there is no room for `size` bytes after `used` bytes of scratch and `borrowed`
/// bytes of bodies. Also returns the required length of the scratch, unless the message is too long
/// in any case.
#[cold]
fn too_short(used: usize, borrowed: usize, size: usize) -> (Error, Option<usize>) {
    let bytes = (used + borrowed).saturating_add(size);
    let wanted = (bytes <= MAX_BYTES).then(|| used + padded(size));
    (Error::new(Rule::MessageTooLong { bytes }), wanted)
}

/// Leaves a body in place, after `used` bytes of scratch and `borrowed` bytes of other bodies.
/// Returns `false` if the message has no room for it, or the list of at most `max_regions` has no
/// room for it, for the scratch before it and for the scratch after it.
#[cold]
fn borrow_body<'r>(
    bytes: &'r [u8],
    used: usize,
    borrowed: usize,
    pieces: &mut Vec<Piece>,
    list: &mut RegionList<'r>,
    max_regions: usize,
) -> bool {
    if borrowed == 0 {
        // Remove the entries of an earlier message.
        pieces.clear();
        list.clear();
    }
    let place = list.slices().len();
    if place + 3 > max_regions || bytes.is_empty() || bytes.len() > MAX_BYTES - used - borrowed {
        return false;
    }
    if pieces.last().map_or(0, |piece| piece.end as usize) < used {
        // Both fit: a message has at most 64 KiB.
        pieces.push(Piece { place: place as u32, end: used as u32 });
        list.push(IoSlice::new(&[]));
    }
    list.push(IoSlice::new(bytes));
    true
}

/// Inserts the pieces of scratch into the list, and appends the last one.
#[cold]
fn place<'b, 'r>(scratch: &'r [u8], pieces: &[Piece], list: &'b mut RegionList<'r>) -> Regions<'b> {
    let mut begin = 0;
    let slices = list.slices();
    for Piece { place, end } in pieces {
        slices[*place as usize] = IoSlice::new(&scratch[begin..*end as usize]);
        begin = *end as usize;
    }
    if begin < scratch.len() {
        list.push(IoSlice::new(&scratch[begin..]));
    }
    Regions::listed(list.slices())
}

impl<'r> Output<'r> for Gather<'_, 'r> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.used + self.borrowed
    }

    #[inline(always)]
    fn grow(&mut self, size: usize) -> Result<usize> {
        let (begin, place) = self.next(size)?;
        place.fill(0);
        Ok(begin)
    }

    #[inline(always)]
    fn inline(&mut self, at: usize, size: usize) -> &mut [u8] {
        &mut self.scratch[at..at + size]
    }

    #[inline(always)]
    fn object(&mut self, bytes: &[u8]) -> Result<()> {
        self.copy(bytes)
    }

    #[inline(always)]
    fn body(&mut self, bytes: &'r [u8]) -> Result<()> {
        let Gather { pieces, list, options, .. } = self;
        if bytes.len() < options.min_body_bytes
            || !borrow_body(bytes, self.used, self.borrowed, pieces, list, options.max_regions)
        {
            return self.copy(bytes);
        }
        self.borrowed += bytes.len();
        let scratch = mem::take(&mut self.scratch);
        let length = scratch.len().min(MAX_BYTES - self.borrowed);
        self.scratch = &mut scratch[..length];
        self.pad(bytes.len())
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
    use crate::{Encoder, GatherOptions, NoPayload, RegionList, Rule, encode};

    fn options(min_body_bytes: usize, max_regions: usize) -> GatherOptions {
        GatherOptions { min_body_bytes, max_regions }
    }

    #[test]
    fn bodies_stay_in_place_and_the_rest_is_scratch() {
        let value: Vec<Vec<u8>> = vec![vec![1; 2300], vec![2; 8], vec![3; 2304]];
        let mut encoder = Encoder::new();
        let linear = encoder.linear(&value).unwrap().to_vec();
        let mut list = RegionList::new();
        let regions = encoder.gather(&value, &mut list).unwrap();
        let lengths: Vec<usize> = regions.as_slices().iter().map(|slice| slice.len()).collect();
        assert_eq!(lengths, [16 + 48, 2300, 4 + 8, 2304]);
        assert_eq!(regions.as_slices()[1].as_ptr(), value[0].as_ptr());
        assert_eq!((regions.to_vec(), regions.total_bytes()), (linear.clone(), linear.len()));
    }

    #[test]
    fn lists_never_get_longer_than_allowed() {
        let value: Vec<Vec<u8>> = (0..40).map(|n| vec![n; 12]).collect();
        for max_regions in 1..100 {
            let mut encoder = Encoder::with_options(options(1, max_regions)).unwrap();
            let linear = encoder.linear(&value).unwrap().to_vec();
            let mut list = RegionList::new();
            let regions = encoder.gather(&value, &mut list).unwrap();
            let count = regions.as_slices().len();
            assert!(count <= max_regions && (max_regions < 3 || count + 2 >= max_regions.min(81)));
            assert!(regions.as_slices().iter().all(|slice| !slice.is_empty()));
            assert_eq!(regions.to_vec(), linear, "{max_regions}");
        }
    }

    #[test]
    fn a_failure_leaves_the_encoder_as_it_was() {
        let (long, short) = (vec![vec![0u8; 400]; 200], vec![vec![1u8; 2000], vec![2u8; 3]]);
        let mut encoder = Encoder::new();
        let mut list = RegionList::new();
        let error = encoder.gather(&long, &mut list).unwrap_err();
        assert!(matches!(error.rule(), Rule::MessageTooLong { bytes } if bytes > 65_536));
        let mut list = list.recycle();
        let regions = encoder.gather(&short, &mut list).unwrap();
        assert_eq!(regions.to_vec(), encode(&short).unwrap());
    }

    #[test]
    fn a_message_may_be_exactly_as_long_as_allowed_however_it_is_cut() {
        for (min_body_bytes, stays) in [(1, true), (usize::MAX, false)] {
            for (last, fits) in [(65_536 - 48 - 3000, true), (65_536 - 48 - 2999, false)] {
                let value: Vec<Vec<u8>> = vec![vec![1; 3000], vec![2; last]];
                let mut encoder = Encoder::with_options(options(min_body_bytes, 16)).unwrap();
                let mut list = RegionList::new();
                match encoder.gather(&value, &mut list) {
                    Ok(regions) => {
                        assert!(fits);
                        assert_eq!(regions.total_bytes(), 65_536);
                        assert_eq!(regions.as_slices().len() > 1, stays);
                    }
                    Err(error) => {
                        assert!(!fits);
                        assert_eq!(error.rule(), Rule::MessageTooLong { bytes: 65_537 });
                    }
                }
            }
        }
    }

    /// A restarted walk must leave no trace: the scratch is extended in the middle of a message
    /// that already has bodies in its list, and padding overwrites an earlier message.
    #[test]
    fn a_scratch_gets_longer_and_is_used_again() {
        let mut encoder = Encoder::with_options(options(100, 8192)).unwrap();
        for round in [1u8, 0] {
            for count in [1usize, 600, 3, 900, 0] {
                let body = |n: usize| vec![round; if n.is_multiple_of(7) { 101 } else { n % 50 }];
                let value: Vec<Vec<u8>> = (0..count).map(body).collect();
                let linear = encode(&value).unwrap();
                let mut list = RegionList::new();
                let regions = encoder.gather(&value, &mut list).unwrap();
                assert_eq!(regions.to_vec(), linear, "{count}");
            }
        }
    }

    #[test]
    fn bodies_stay_from_2048_bytes_on_by_default() {
        for (length, regions) in [(2047, 1), (2048, 2)] {
            let value = vec![7u8; length];
            let mut encoder = Encoder::new();
            let mut list = RegionList::new();
            let gathered = encoder.gather(&value, &mut list).unwrap();
            assert_eq!(gathered.as_slices().len(), regions, "{length}");
        }
    }

    /// Below a limit, objects of a fixed size are copied, whatever the options are.
    #[test]
    fn objects_of_a_fixed_length_stay_from_1024_bytes_on() {
        let (short, long) = ([7u8; 1023], [7u8; 1024]);
        let mut encoder = Encoder::with_options(options(1, 16)).unwrap();
        let mut list = RegionList::new();
        let regions = encoder.gather(&short, &mut list).unwrap();
        assert_eq!(regions.as_slices().len(), 1);
        assert_ne!(regions.as_slices()[0].as_ptr(), short.as_ptr());
        let mut list = list.recycle();
        let regions = encoder.gather(&long, &mut list).unwrap();
        assert_eq!(regions.as_slices()[0].as_ptr(), long.as_ptr());
    }

    #[test]
    fn nothing_is_no_region() {
        let mut encoder = Encoder::new();
        let mut list = RegionList::new();
        let regions = encoder.gather(&NoPayload, &mut list).unwrap();
        assert!(regions.as_slices().is_empty() && regions.total_bytes() == 0);
    }
}
