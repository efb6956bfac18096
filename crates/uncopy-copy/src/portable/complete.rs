//! Looks at a copy before it gets its name: verifies it, computes its digest, flushes it.

use std::fs::File;
use std::io;

use super::attempt::{Attempts, Stopped};
use super::chunk_stream::ChunkStream;
use super::partial::digest_chunk;
use super::temporary::Temporary;
use crate::digest::Hasher;
use crate::observer::{self, Phase, Progress};
use crate::options::{Digest, IfChanged, Verify};
use crate::pause::Stopwatch;
use crate::verification;
use uncopy_core::other_system;
use uncopy_core::{
    DigestedFrom, Error, Mechanism, Reason, Receipt, Result, SourceDigest, Verification,
    VerifiedFrom,
};

/// Size of one read of what is verified.
const READ_BYTES: usize = 1 << 20;

/// File to hash, and what comes before it in the progress.
#[derive(Clone, Copy)]
struct Side<'a> {
    file: &'a File,
    bytes: u64,
    before_bytes: u64,
    total_bytes: u64,
}

impl Attempts<'_, '_, '_> {
    /// Verifies the contents, computes their digest, and checks that the source did not change.
    pub(super) fn check_contents(
        &mut self,
        temporary: &Temporary<'_>,
        receipt: &mut Receipt,
    ) -> Result<()> {
        receipt.source_digest = self.digest.take().and_then(|digest| digest.finish(receipt.bytes));
        if let Some(wanted) = self.options.verify {
            self.flush(temporary, receipt.bytes)?;
            match self.verify(temporary, receipt, wanted) {
                Err(error) if error.is_verification_failed() => {
                    // The likelier reason, if there is one.
                    self.check_change(receipt)?;
                    let is_read_again = verification::streamed(receipt, wanted.algorithm).is_none();
                    let doubt = verification::doubt(receipt).filter(|_| is_read_again);
                    return Err(error.with_doubt(doubt));
                }
                verified => receipt.verification = Some(verified?),
            }
        }
        self.check_change(receipt)?;
        if let Some(algorithm) = self.options.digest.filter(|_| receipt.source_digest.is_none()) {
            receipt.source_digest = Some(match verification::read_from_copy(receipt, algorithm) {
                Some(known) => known,
                None => self.digest_copy(temporary, receipt.bytes, algorithm)?,
            });
        }
        Ok(())
    }

    /// Notes whether the source changed, and fails if it must not have.
    fn check_change(&self, receipt: &mut Receipt) -> Result<()> {
        let source = self.source;
        let copied = if self.options.attributes_only { source.begun.len() } else { receipt.bytes };
        match source.change(copied)? {
            Some(what) if self.options.if_changed != IfChanged::Accept => {
                Err(Error::new("copy", source.path, Reason::SourceChanged { what }))
            }
            changed => {
                receipt.source_changed = changed.is_some();
                Ok(())
            }
        }
    }

    /// Compares the copy, whose data has been flushed, with the source.
    fn verify(
        &mut self,
        temporary: &Temporary<'_>,
        receipt: &Receipt,
        Verify { algorithm, .. }: Verify,
    ) -> Result<Verification> {
        let begin = Stopwatch::start(self.context.gate);
        let (source, bytes) = (self.source, receipt.bytes);
        let (expected, before_bytes) = match verification::streamed(receipt, algorithm) {
            Some(streamed) => (streamed, 0),
            None => {
                let total_bytes = bytes.saturating_mul(2);
                let side = Side { file: &source.file, bytes, before_bytes: 0, total_bytes };
                let read = |error| other_system::refused("read", source.path, error);
                (self.hash(side, algorithm, read)?, bytes)
            }
        };
        let total_bytes = before_bytes.saturating_add(bytes);
        let side = Side { file: temporary.file()?, bytes, before_bytes, total_bytes };
        let found = self.hash_copy(side, algorithm)?;
        let given = self.destination.given;
        // It may still be in the memory of the system.
        verification::compare(algorithm, expected, found, VerifiedFrom::Cache, begin, given)
    }

    fn digest_copy(
        &mut self,
        temporary: &Temporary<'_>,
        bytes: u64,
        algorithm: Digest,
    ) -> Result<SourceDigest> {
        let begin = Stopwatch::start(self.context.gate);
        let side = Side { file: temporary.file()?, bytes, before_bytes: 0, total_bytes: bytes };
        Ok(SourceDigest {
            algorithm: algorithm.name(),
            value: self.hash_copy(side, algorithm)?,
            from: DigestedFrom::ReadFromCopy,
            duration: begin.elapsed(),
        })
    }

    fn hash_copy(&mut self, side: Side<'_>, algorithm: Digest) -> Result<String> {
        let path = self.source.path;
        self.hash(side, algorithm, |error| {
            other_system::refused_by_destination("read back the copy of", path, error)
        })
    }

    /// Returns the hexadecimal digest of a file.
    fn hash(
        &mut self,
        side: Side<'_>,
        algorithm: Digest,
        failed: impl FnOnce(io::Error) -> Error,
    ) -> Result<String> {
        let Side { file, bytes, before_bytes, total_bytes } = side;
        let (calls, path) = (self.calls, self.source.path);
        let mut hasher =
            Hasher::new(algorithm).map_err(|errno| Error::system("hash", path, errno))?;
        let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(READ_BYTES);
        let mut buffer = vec![0; most];
        let system = calls.system();
        let read_at = |buffer: &mut [u8], offset| {
            super::partial::repeat(system, Mechanism::ReadWrite, || {
                calls.read_at(file, &mut *buffer, offset)
            })
            .map_err(Stopped::Source)
        };
        let observer = &mut *self.observer;
        let hashed = hasher.update_from(bytes, &mut buffer, read_at, |done| {
            let done_bytes = before_bytes + done;
            let progress = Progress { phase: Phase::Verifying, done_bytes, total_bytes };
            observer::report(observer, progress, path).map_err(|_| Stopped::Cancelled)
        });
        match hashed {
            Ok(()) => Ok(hasher.finish()),
            Err(Stopped::Cancelled) => Err(self.cancelled()),
            Err(Stopped::Source(error) | Stopped::Destination(error)) => Err(failed(error)),
        }
    }

    /// Writes the copy to the device.
    pub(super) fn flush(&mut self, temporary: &Temporary<'_>, bytes: u64) -> Result<()> {
        let flushing = Progress { phase: Phase::Flushing, done_bytes: 0, total_bytes: bytes };
        observer::report(self.observer, flushing, self.source.path)?;
        let flushed = self.calls.flush(temporary.file()?);
        let given = self.destination.given;
        flushed.map_err(|error| other_system::refused_by_destination("flush", given, error))
    }
}

impl Attempts<'_, '_, '_> {
    /// Reads what an earlier run left, and makes an end of it where it is not what was noted.
    pub(super) fn verify_left(
        &mut self,
        temporary: &Temporary<'_>,
        receipt: &mut Receipt,
    ) -> Result<()> {
        let Some(partial) = self.partial.as_mut().filter(|partial| !partial.expected.is_empty())
        else {
            return Ok(());
        };
        let (calls, path, file) = (self.calls, self.source.path, temporary.file()?);
        let total_bytes = self.source.begun.len();
        let (chunks, observer) = (partial.log.chunks, &mut *self.observer);
        let expected = std::mem::take(&mut partial.expected);
        let of_copy = |number| match chunks.range_of(number) {
            Some(range) => digest_chunk(calls, file, range).map_err(Stopped::Destination),
            None => Ok(None),
        };
        let verified = partial.log.verify(expected, of_copy, |done_bytes| {
            let progress = Progress { phase: Phase::Verifying, done_bytes, total_bytes };
            observer::report(observer, progress, path).map_err(|_| Stopped::Cancelled)
        });
        partial.stream = ChunkStream::new(&partial.log);
        let fail = |error| {
            let given = self.destination.given;
            other_system::refused_by_destination("read back the part of", given, error)
        };
        let end = match verified {
            Ok(end) => end,
            Err(Stopped::Cancelled) => return Err(self.cancelled()),
            Err(Stopped::Source(error) | Stopped::Destination(error)) => return Err(fail(error)),
        };
        // Bytes behind it may lie where the source has a hole.
        calls.set_length(file, end).map_err(fail)?;
        receipt.resumed_bytes = end;
        if end > 0 {
            self.digest = None;
        }
        Ok(())
    }
}
