//! Copies the contents: moves all bytes, and completes the new file before it gets its name.

use std::os::fd::OwnedFd;

use rustix::fs::FileType;

use super::compress;
use super::destination::Destination;
use super::digest::{Hasher, StreamedDigest};
use super::file_copy::FileCopy;
use super::mechanism::FromPeer;
use super::metadata;
use super::observer::{self, Phase, Progress};
use super::options::{Cache, CopyOptions, IfChanged};
use super::plan::{self, PlanStep};
use super::source::Source;
use super::staging::Staging;
use super::stream;
use super::transfer::Transfer;
use super::verification;
use super::verify::{self, Original};
use super::watch;
use super::write_out;
use uncopy_core::{
    Cost, Exclusion, MappedWrites, Mechanism, Note, Portion, Refusal, RefusalReason, Unseen,
};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::{Sys, file};

/// Below this length one flush, without progress, is enough for a file that is flushed when it has its name.
const FLUSHED_ONCE_BYTES: u64 = 1 << 20;

/// Bytes that are asked for at a time of a file of another machine that has no size.
const UNSIZED_PIECE_BYTES: u64 = 1 << 20;

/// Maximum number of bytes of such a file: one without an end is no file.
const MAX_UNSIZED_BYTES: u64 = 1 << 30;

impl FileCopy<'_, '_> {
    /// Moves or transforms all bytes. Returns the digest of a source that cannot be read again.
    pub(crate) fn move_bytes(&mut self) -> Result<Option<String>> {
        let source = self.source;
        let mut digest = self.prepare_digests()?;
        let skips_cache = self.options().cache == Cache::Skip;
        self.was_cached = skips_cache && source.cached_bytes(0, source.stat.size) != Some(0);
        let reached = if self.facts.transforms {
            self.receipt.refusals = plan::refusals(&self.facts, Some(Mechanism::ReadWrite));
            compress::write(self.request.conversion(), self)?
        } else {
            match self.facts.size {
                Some(size) if !self.facts.destination_is_stream => {
                    Transfer::new(self, size).run()?
                }
                None if self.facts.is_elsewhere => self.receive_to_end()?,
                _ => self.copy_stream(digest.as_mut())?,
            }
        };
        if self.staging.is_kept() {
            // XFS lets a file keep what it allocated ahead if it was closed while it was dirty, as a kill
            // does (`XFS_EOFBLOCKS_RELEASED` and `XFS_IDIRTY_RELEASE` in `fs/xfs`): up to as much again.
            file::truncate(self.staging.fd(), reached)
                .map_err(|errno| self.destination_error("set the size of", errno))?;
        }
        self.receipt.bytes = reached;
        self.check_requirement()?;
        Ok(digest.map(Hasher::finish))
    }

    /// Makes the digests that bytes are added to on their way. Returns that of a source that cannot be read again.
    pub(crate) fn prepare_digests(&mut self) -> Result<Option<Hasher>> {
        let source = self.source;
        let digest = self
            .options()
            .verify
            .filter(|_| self.facts.hashes)
            .map(|verify| Hasher::new(verify.algorithm))
            .transpose()
            .map_err(|errno| Error::system("hash", source.path, errno))?;
        self.digest = self
            .options()
            .digest
            .map(StreamedDigest::new)
            .transpose()
            .map_err(|errno| Error::system("hash", source.path, errno))?;
        self.received = self
            .options()
            .verify
            .filter(|_| self.facts.is_elsewhere)
            .map(|verify| StreamedDigest::new(verify.algorithm))
            .transpose()
            .map_err(|errno| Error::system("hash", source.path, errno))?;
        Ok(digest)
    }

    /// Checks that all bytes went as required: some filesystems copy where others share.
    fn check_requirement(&self) -> Result<()> {
        let require = self.options().require;
        let unmet = |portion: &&Portion| !require.accepts(portion.mechanism, portion.cost);
        let Some(portion) = self.receipt.portions.iter().find(unmet) else { return Ok(()) };
        let exclusion = match portion.cost {
            Cost::Unknown => Exclusion::MayCopy,
            _ => Exclusion::CopiesHere,
        };
        let reason = RefusalReason::ExcludedBy(exclusion);
        let mut refusals = self.receipt.refusals.clone();
        refusals.push(Refusal { mechanism: portion.mechanism, reason, errno: None });
        let reason = plan::no_mechanism(&self.facts, &refusals);
        Err(Error::new("copy", self.source.path, reason))
    }

    /// Receives a file of another machine that has no size: it may be empty, or its contents are made when they are
    /// read (`/proc`).
    fn receive_to_end(&mut self) -> Result<u64> {
        let Some(file) = self.source.there() else { return Ok(0) };
        let mut mover =
            FromPeer::new(file, self.staging.fd(), self.options().sparse, self.facts.in_place);
        let mut reached = 0;
        loop {
            let progress = Progress { phase: Phase::Copying, done_bytes: reached, total_bytes: 0 };
            let piece = self
                .wait_for_rate(progress, UNSIZED_PIECE_BYTES)
                .ok_or_else(|| Error::new("copy", self.source.path, Reason::Cancelled))?;
            let mut digests = [self.digest.as_mut(), self.received.as_mut()];
            let moved = mover.step(reached, piece, reached, &mut digests, &mut |_| true);
            let moved = moved.map_err(|refused| match refused.is_of_source(|| true) {
                true => Error::system("copy the data of", self.source.path, refused.errno),
                false => self.destination_error("write to", refused.errno),
            })?;
            self.return_to_rate(piece - (moved.bytes - moved.hole_bytes));
            self.receipt.add(Mechanism::ReadWrite, moved.bytes - moved.hole_bytes, moved.cost);
            self.receipt.add(Mechanism::ReadWrite, moved.hole_bytes, Cost::Zeros);
            reached += moved.bytes;
            // Fewer bytes than were asked for may come before an error.
            if moved.bytes == 0 {
                break;
            }
            if reached >= MAX_UNSIZED_BYTES {
                let what = format!("size 0 to more than {MAX_UNSIZED_BYTES} bytes");
                return Err(Error::new("copy", self.source.path, Reason::SourceChanged { what }));
            }
            self.report(progress)?;
        }
        file::truncate(self.staging.fd(), reached)
            .map_err(|errno| self.destination_error("set the size of", errno))?;
        Ok(reached)
    }

    /// Copies a source without a known size, or to a destination that is no regular file.
    fn copy_stream(&mut self, digest: Option<&mut Hasher>) -> Result<u64> {
        // No mechanism is refused for an empty file.
        let empty = self.source.stat.size == 0 && self.source.has_reliable_size();
        let mechanism = match plan::next(&self.facts, &[]) {
            PlanStep::Try(mechanism) => mechanism,
            PlanStep::GiveUp if empty => Mechanism::ReadWrite,
            PlanStep::GiveUp => {
                let reason = plan::no_mechanism(&self.facts, &[]);
                return Err(Error::new("copy", self.source.path, reason));
            }
        };
        self.receipt.refusals = plan::refusals(&self.facts, Some(mechanism));
        let reached = stream::copy_to_end(self, mechanism, digest)?;
        if empty && reached == 0 {
            self.receipt.refusals.clear();
        }
        if self.facts.in_place && !self.facts.destination_is_stream {
            file::truncate(self.staging.fd(), reached)
                .map_err(|errno| self.destination_error("set the size of", errno))?;
        }
        Ok(reached)
    }

    /// Does everything that must be done before the new contents get their name: verifies them, gives the
    /// file its metadata, and flushes it. Returns the directory that is to be flushed afterwards.
    pub(crate) fn complete(&mut self, digest: Option<String>) -> Result<Option<OwnedFd>> {
        let (source, staging, options) = (self.source, self.staging, self.options());
        let (destination, reached) = (self.destination(), self.receipt.bytes);
        let received = self.received.take().and_then(|received| received.finish(reached));
        let digest = digest.or(received.map(|received| received.value));
        self.receipt.source_digest = self.digest.take().and_then(|d| d.finish(reached));
        self.check_contents(digest)?;
        self.digest_copy()?;
        if options.cache == Cache::Skip && !destination.is_stream() {
            drop_caches(source, staging, self.was_cached)
                .map_err(|errno| self.destination_error("flush", errno))?;
        }
        self.receipt.notes.extend(notes(destination, options));
        if destination.is_stream() {
            // A device or FIFO keeps its metadata.
        } else if self.facts.in_place {
            let given = metadata::apply_in_place(staging.fd(), source, options.given());
            self.receipt.notes.extend(given.map_err(|lacks| lacks.error(destination.given))?);
        } else {
            let given = metadata::apply(staging, source, destination, self.request.given());
            self.receipt.notes.extend(given.map_err(|lacks| lacks.error(destination.given))?);
        }
        source.check_connected()?;
        if let Some(fd) = source.here()
            && source.has_reliable_size()
            && !destination.is_stream()
        {
            self.receipt.flags_not_kept = metadata::flags_not_kept(fd, staging.fd());
        }
        // Servers may report a failed write only when asked to flush, or to a close(2) that no name may
        // depend on any more.
        let filesystem = self.facts.destination;
        let reports_late = filesystem.is_network() || filesystem.is_user();
        let flushes_last =
            reached < FLUSHED_ONCE_BYTES && options.verify.is_none() && staging.is_flushed_last();
        if (options.durable && !flushes_last) || reports_late {
            self.flush(reached)?;
        }
        // Opened while there is still nothing to take back: descriptors may run out.
        options.durable.then(|| staging.open_directory()).transpose()
    }

    /// Verifies the new contents, and that the source did not change.
    fn check_contents(&mut self, digest: Option<String>) -> Result<()> {
        let (source, staging) = (self.source, self.staging);
        let reached = self.receipt.bytes;
        // A whole-file clone is a snapshot: later changes of the source do not matter.
        let snapshot = self.receipt.bytes_by(Mechanism::Reflink) == reached && reached > 0;
        if snapshot {
            self.receipt.mapped_writes = watch::of_snapshot(source.filesystem);
        }
        if let Some(wanted) = self.options().verify
            && !staging.destination().is_stream()
        {
            let read = self.receipt.compression.as_ref().filter(|_| self.request.transforms());
            let source_bytes = read.map_or(reached, |compression| compression.source_bytes);
            // Another machine is not asked for the bytes twice.
            if digest.is_some() && !self.facts.is_elsewhere {
                self.receipt.notes.push(Note::DigestAsItCame);
            }
            let digest = digest.or_else(|| verification::streamed(&self.receipt, wanted.algorithm));
            let is_read_again = digest.is_none();
            let original = digest.map_or(Original::Again(source_bytes), Original::AsItCame);
            self.report(Progress { phase: Phase::Flushing, done_bytes: 0, total_bytes: reached })?;
            file::sync_data(staging.fd()).map_err(|e| self.destination_error("flush", e))?;
            match verify::verify(self, original, wanted) {
                Err(error) if error.is_verification_failed() => {
                    // The likelier reason, if there is one.
                    self.check_change()?;
                    let doubt = verification::doubt(&self.receipt).filter(|_| is_read_again);
                    return Err(error.with_doubt(doubt));
                }
                other => self.receipt.verification = Some(other?),
            }
        }
        if snapshot { Ok(()) } else { self.check_change() }
    }

    /// Computes the digest from the copy if not all bytes passed through the program. A verification
    /// by the same digest has read them already.
    fn digest_copy(&mut self) -> Result<()> {
        let Some(algorithm) =
            self.options().digest.filter(|_| self.receipt.source_digest.is_none())
        else {
            return Ok(());
        };
        let verified = verification::read_from_copy(&self.receipt, algorithm);
        self.receipt.source_digest = Some(match verified {
            Some(verified) => verified,
            None => verify::digest_copy(self, algorithm)?,
        });
        Ok(())
    }

    /// Notes whether the source changed, and fails if it must not have.
    pub(crate) fn check_change(&mut self) -> Result<()> {
        self.check_change_of(self.source.stat.size)
    }

    /// The same, when this number of bytes of the source was to be copied.
    pub(crate) fn check_change_of(&mut self, bytes: u64) -> Result<()> {
        let source = self.source;
        let change = source.change().map_err(|e| Error::system("examine", source.path, e))?;
        let is_short = self.facts.is_elsewhere
            && !self.options().attributes_only
            && self.receipt.bytes < bytes;
        let shortened = || format!("size {bytes} to {} bytes", self.receipt.bytes);
        let change = change.or_else(|| is_short.then(shortened));
        match change {
            Some(what) if self.options().if_changed != IfChanged::Accept => {
                Err(Error::new("copy", source.path, Reason::SourceChanged { what }))
            }
            changed => {
                self.receipt.source_changed = changed.is_some();
                self.receipt.mapped_writes = match source.mapped_writes() {
                    // Not watched while the other run copied.
                    MappedWrites::NoneSeen if self.receipt.resumed_bytes > 0 => {
                        MappedWrites::Unknown(Unseen::Resumed)
                    }
                    known => known,
                };
                Ok(())
            }
        }
    }

    fn flush(&mut self, size: u64) -> Result<()> {
        let given = self.destination().given;
        let progress = Progress { phase: Phase::Flushing, done_bytes: 0, total_bytes: size };
        observer::report_writing(self.observer, progress, given)?;
        match file::sync(self.staging.fd()) {
            // Pipes and character devices have nothing to flush (fsync(2)).
            Err(Errno::EINVAL) if self.destination().is_stream() => Ok(()),
            other => other.map_err(|e| Error::destination("flush", given, e)),
        }
    }
}

/// Takes the destination out of the page cache, and the source if it was not there before.
///
/// # Errors
/// Those of [`write_out::finish`].
fn drop_caches(source: &Source<'_>, staging: &Staging<'_>, source_was_cached: bool) -> Sys<()> {
    // Only clean pages can be dropped. The first call shows whether there is such a call here.
    if file::write_out(staging.fd(), 0, 0, false).is_ok() {
        write_out::finish(staging.fd(), 0, 0)?;
    }
    let _ = file::drop_cache(staging.fd(), 0, 0);
    if let Some(fd) = source.here().filter(|_| !source_was_cached) {
        let _ = file::drop_cache(fd, 0, 0);
    }
    Ok(())
}

fn notes(destination: &Destination<'_>, options: &CopyOptions) -> Vec<Note> {
    let Some(found) = &destination.found else { return Vec::new() };
    let regular = found.stat.file_type() == FileType::RegularFile;
    let mut notes = Vec::new();
    if options.in_place && regular {
        notes.push(Note::InPlace);
        if options.verify.is_some() {
            notes.push(Note::VerifiedInPlace);
        }
    } else if regular {
        notes.extend(Note::other_links(found.stat.links.into()));
    }
    notes
}
