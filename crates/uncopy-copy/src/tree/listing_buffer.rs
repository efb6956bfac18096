//! Keeps the buffer into which a worker lists directories.

use std::mem::MaybeUninit;

/// Room for a listing: a few hundred entries a call.
const LISTING_BYTES: usize = 64 << 10;

/// Buffer for listings of one worker, taken out while it is used.
pub(super) struct ListingBuffer(Vec<MaybeUninit<u8>>);

impl ListingBuffer {
    pub(super) fn new() -> ListingBuffer {
        ListingBuffer(listing_room())
    }

    /// Takes the buffer, which is [given back](ListingBuffer::give_back) afterwards.
    pub(super) fn take(&mut self) -> Vec<MaybeUninit<u8>> {
        match std::mem::take(&mut self.0) {
            // A batch copied during a listing may finish another directory, which is then listed
            // for mirroring.
            taken if taken.is_empty() => listing_room(),
            listing => listing,
        }
    }

    pub(super) fn give_back(&mut self, listing: Vec<MaybeUninit<u8>>) {
        self.0 = listing;
    }
}

fn listing_room() -> Vec<MaybeUninit<u8>> {
    Box::<[u8]>::new_uninit_slice(LISTING_BYTES).into_vec()
}
