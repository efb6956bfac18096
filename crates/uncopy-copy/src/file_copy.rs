//! Defines the state of copying one file: source, destination, how it is copied, and the receipt so
//! far.

use super::context::CopyContext;
use super::conversion::{Chosen, Conversion, is_transformed};
use super::destination::Destination;
use super::digest::StreamedDigest;
use super::facts;
use super::file_plan::FileFacts;
use super::observer::{self, Observer, Progress};
use super::options::{CopyOptions, Existing, GivenMetadata};
use super::plan::CopyFacts;
use super::source::Source;
use super::sparse;
use super::staging::Staging;
use super::throttle::Throttle;
use uncopy_core::{Errno, Error, Receipt, Result};

/// A copy to be made of one open file.
#[derive(Clone, Copy)]
pub(crate) struct CopyRequest<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) destination: &'a Destination<'a>,
    /// Result of [`crate::compress::choose`].
    pub(crate) chosen: Option<&'a Chosen>,
    pub(crate) options: &'a CopyOptions,
    pub(crate) context: &'a CopyContext<'a>,
}

impl<'a> CopyRequest<'a> {
    /// Whether the bytes are compressed or decompressed.
    pub(crate) fn transforms(&self) -> bool {
        is_transformed(self.chosen)
    }

    /// Facts that decide what is done with the file, of a single one: it is neither copied as a small
    /// one of many nor resumable.
    pub(crate) fn file_facts(&self) -> FileFacts {
        let CopyRequest { source, destination, options, context, .. } = *self;
        FileFacts {
            is_left: destination.found.is_some() && options.existing == Existing::Keep,
            transforms: self.transforms(),
            size: (source.has_reliable_size() && !options.attributes_only)
                .then_some(source.stat.size),
            may_have_holes: sparse::may_have_holes(&source.stat),
            replaces: destination.found.is_some(),
            small_below_bytes: 0,
            piece_bytes: context.throttle.map(Throttle::piece_bytes),
            resumable_from_bytes: None,
        }
    }

    /// Returns what the copy gets besides its bytes.
    pub(crate) fn given(&self) -> GivenMetadata<'_> {
        GivenMetadata { new_mode: self.context.new_mode, ..self.options.given() }
    }

    pub(crate) fn conversion(&self) -> Conversion {
        self.chosen.map_or(Conversion::Leave, |chosen| chosen.conversion)
    }
}

/// A copy that is being written.
pub(crate) struct FileCopy<'a, 's> {
    pub(crate) request: CopyRequest<'a>,
    pub(crate) source: &'a Source<'a>,
    pub(crate) staging: &'a Staging<'s>,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) facts: CopyFacts,
    pub(crate) receipt: Receipt,
    /// Digest of the bytes that pass through the program, if one is wanted.
    pub(crate) digest: Option<StreamedDigest>,
    /// Digest of the bytes that came from another machine, to verify the copy: they are not asked for again.
    pub(crate) received: Option<StreamedDigest>,
    /// Whether the source was in the page cache before; looked up only where that matters.
    pub(crate) was_cached: bool,
}

impl<'a, 's> FileCopy<'a, 's> {
    /// Finds out what the plan depends on.
    pub(crate) fn new(
        request: CopyRequest<'a>,
        staging: &'a Staging<'s>,
        observer: &'a mut dyn Observer,
    ) -> FileCopy<'a, 's> {
        let CopyRequest { source, destination, chosen, options, .. } = request;
        let facts = facts::gather(source, destination, staging.fd(), options);
        // Neither can be read again: a stream as the source, nor one as the destination.
        let hashes = match destination.is_stream() {
            true => options.digest.is_some(),
            false => source.is_stream && options.verify.is_some(),
        };
        let facts = CopyFacts { transforms: request.transforms(), hashes, ..facts };
        let mut receipt = Receipt::default();
        receipt.compression = chosen.map(|chosen| chosen.compression.clone());
        FileCopy {
            request,
            source,
            staging,
            observer,
            facts,
            receipt,
            digest: None,
            received: None,
            was_cached: false,
        }
    }

    pub(crate) fn options(&self) -> &'a CopyOptions {
        self.request.options
    }

    pub(crate) fn context(&self) -> &'a CopyContext<'a> {
        self.request.context
    }

    pub(crate) fn destination(&self) -> &'a Destination<'a> {
        self.request.destination
    }

    /// Reports progress.
    ///
    /// # Errors
    /// The observer stopped the copy.
    pub(crate) fn report(&mut self, progress: Progress) -> Result<()> {
        observer::report(self.observer, progress, self.source.path)
    }

    /// Returns how many of `wanted` bytes may be moved now; waits as the rate requires. `None`: the
    /// copy is to stop.
    pub(crate) fn wait_for_rate(&mut self, progress: Progress, wanted: u64) -> Option<u64> {
        observer::wait_for_rate(self.observer, self.request.context.throttle, progress, wanted)
    }

    /// Returns what was admitted and not submitted to the rate.
    pub(crate) fn return_to_rate(&self, bytes: u64) {
        if let Some(throttle) = self.request.context.throttle {
            throttle.give_back(bytes);
        }
    }

    /// Wraps an error of the destination.
    pub(crate) fn destination_error(&self, operation: &'static str, errno: Errno) -> Error {
        Error::destination(operation, self.destination().given, errno)
    }
}
