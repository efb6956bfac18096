//! Moves the bytes of one file by one mechanism.

use std::io;
use std::ops::Range;

use super::decide::{self, AfterError, Holes};
use super::names::directory_of;
use super::partial::{Partial, repeat};
use super::temporary::Temporary;
use super::{Destination, Source};
use crate::context::CopyContext;
use crate::digest::StreamedDigest;
use crate::observer::{self, Observer, Phase, Progress};
use crate::options::{CopyOptions, Sparse};
use crate::zeros;
use uncopy_core::other_system;
use uncopy_core::{Cost, Error, Mechanism, Note, Reason, Receipt, Refusal, RefusalReason, Result};
use uncopy_os::native::{Advance, CopyCalls};

/// Why a mechanism stopped.
pub(super) enum Stopped {
    /// The observer asked for it.
    Cancelled,
    /// A call on the source failed.
    Source(io::Error),
    /// A call on the destination, or on both, failed.
    Destination(io::Error),
}

/// One copy on its way.
pub(super) struct Attempts<'a, 'b, 'c> {
    pub(super) calls: &'a dyn CopyCalls,
    pub(super) source: &'a Source<'a>,
    pub(super) destination: &'a Destination<'a>,
    pub(super) options: &'a CopyOptions,
    pub(super) context: &'a CopyContext<'b>,
    pub(super) observer: &'a mut dyn Observer,
    /// Digest of the bytes that pass through the program, if one is wanted.
    pub(super) digest: Option<StreamedDigest>,
    /// Chunks of the file that are noted, if it is copied in chunks.
    pub(super) partial: Option<Partial<'c>>,
}

impl Attempts<'_, '_, '_> {
    /// Tries one mechanism after another until one has moved all bytes. Returns their number, and adds to the
    /// receipt how they went and what was tried in vain.
    pub(super) fn run(
        &mut self,
        temporary: &mut Temporary<'_>,
        receipt: &mut Receipt,
    ) -> Result<u64> {
        let system = self.calls.system();
        for mechanism in decide::mechanisms(system).iter().copied() {
            if let Some(reason) = self.excluded(mechanism, temporary, receipt) {
                receipt.refusals.push(Refusal { mechanism, reason, errno: None });
                continue;
            }
            let error = match self.attempt(mechanism, temporary, receipt) {
                Ok(bytes) => return Ok(bytes),
                Err(Stopped::Cancelled) => return Err(self.cancelled()),
                Err(Stopped::Source(error)) => {
                    return Err(other_system::refused("read", self.source.path, error));
                }
                Err(Stopped::Destination(error)) => error,
            };
            match decide::after_error(system, mechanism, &error) {
                AfterError::Next(obstacle) if mechanism != Mechanism::ReadWrite => {
                    let reason = RefusalReason::StoppedBy { obstacle, after_bytes: 0 };
                    receipt.refusals.push(Refusal { mechanism, reason, errno: None });
                    temporary.start_over()?;
                }
                _ => {
                    let given = self.destination.given;
                    return Err(other_system::refused_by_destination("write to", given, error));
                }
            }
        }
        let refusals = std::mem::take(&mut receipt.refusals);
        Err(Error::new("copy", self.source.path, Reason::NoMechanism { refusals }))
    }

    /// Why a mechanism is not tried.
    fn excluded(
        &self,
        mechanism: Mechanism,
        temporary: &Temporary<'_>,
        receipt: &Receipt,
    ) -> Option<RefusalReason> {
        let holes = Holes::of(self.options.sparse, self.source.may_have_holes);
        let is_in_place = temporary.is_in_place();
        let exclusion = decide::excluded(mechanism, self.options.allow, holes, is_in_place);
        let by_chunks = || {
            self.partial.as_ref()?;
            decide::excluded_by_chunks(mechanism, receipt.resumed_bytes)
        };
        match exclusion.or_else(by_chunks) {
            Some(exclusion) => Some(RefusalReason::ExcludedBy(exclusion)),
            None if self.size() == 0 && mechanism != Mechanism::ReadWrite => {
                Some(RefusalReason::Empty)
            }
            None => None,
        }
    }

    pub(super) fn cancelled(&self) -> Error {
        Error::new("copy", self.source.path, Reason::Cancelled)
    }

    fn attempt(
        &mut self,
        mechanism: Mechanism,
        temporary: &mut Temporary<'_>,
        receipt: &mut Receipt,
    ) -> Result<u64, Stopped> {
        let (bytes, cost) = match mechanism {
            Mechanism::Clonefile => (self.clone_file(temporary)?, Cost::Shared),
            // The library's loop reads and writes in this process.
            Mechanism::Fcopyfile => (self.copy_into(temporary)?, Cost::UserCopied),
            Mechanism::BlockClone => (self.share_blocks(temporary)?, Cost::Shared),
            Mechanism::CopyFile2 => {
                let bytes = self.copy_to_new(temporary)?;
                // Newer systems make a clone of it and do not say so; the extents may.
                let answer = temporary.file().map(|copy| self.calls.shares_all_blocks(copy));
                let is_shared = matches!(answer, Ok(Ok(true)));
                (bytes, if is_shared { Cost::Shared } else { Cost::Unknown })
            }
            _ => return self.read_and_write(temporary, receipt),
        };
        receipt.add(mechanism, bytes, cost);
        Ok(bytes)
    }

    fn size(&self) -> u64 {
        self.source.begun.len()
    }

    fn report(&mut self, done_bytes: u64) -> Result<(), Stopped> {
        let progress = Progress { phase: Phase::Copying, done_bytes, total_bytes: self.size() };
        match observer::report(self.observer, progress, self.source.path) {
            Ok(()) => Ok(()),
            Err(_) => Err(Stopped::Cancelled),
        }
    }

    /// Makes a call again while it is interrupted.
    fn repeat<T>(
        &self,
        mechanism: Mechanism,
        call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        repeat(self.calls.system(), mechanism, call)
    }

    fn clone_file(&mut self, temporary: &mut Temporary<'_>) -> Result<u64, Stopped> {
        self.report(0)?;
        let (calls, source) = (self.calls, self.source);
        let made = temporary.make_by(|new| {
            self.repeat(Mechanism::Clonefile, || calls.clone_file(&source.file, new))?;
            Ok(0)
        });
        made.map_err(Stopped::Destination)?;
        let bytes = made_new(temporary)?;
        self.report(bytes)?;
        Ok(bytes)
    }

    fn copy_into(&mut self, temporary: &mut Temporary<'_>) -> Result<u64, Stopped> {
        let to = temporary.file().map_err(closed)?.try_clone().map_err(Stopped::Destination)?;
        // It fails on empty files of old systems.
        let keeps_holes = self.options.sparse != Sparse::Never && self.size() > 0;
        let (calls, source) = (self.calls, self.source);
        self.report(0)?;
        self.within_call(|on_progress| {
            calls.copy_into(&source.file, &to, keeps_holes, on_progress).map(drop)
        })?;
        // A hole at the end is not written.
        let bytes = to.metadata().map_err(Stopped::Destination)?.len();
        self.report(bytes)?;
        Ok(bytes)
    }

    fn copy_to_new(&mut self, temporary: &mut Temporary<'_>) -> Result<u64, Stopped> {
        let (calls, from) = (self.calls, self.source.path);
        self.report(0)?;
        self.within_call(|on_progress| {
            temporary.make_by(|new| calls.copy_to_new(from, new, on_progress)).map(drop)
        })?;
        let bytes = made_new(temporary)?;
        self.report(bytes)?;
        Ok(bytes)
    }

    /// Makes a call that reports progress: it is held while the copy pauses or is ahead of its rate.
    fn within_call(
        &mut self,
        call: impl FnOnce(&mut dyn FnMut(u64) -> Advance) -> io::Result<()>,
    ) -> Result<(), Stopped> {
        let (mut before, mut is_cancelled) = (0, false);
        let (total_bytes, throttle) = (self.size(), self.context.throttle);
        let observer = &mut *self.observer;
        let mut on_progress = |done_bytes: u64| {
            let progress = Progress { phase: Phase::Copying, done_bytes, total_bytes };
            let mut left = done_bytes.saturating_sub(before);
            before = done_bytes;
            is_cancelled = observer.progress(progress) == crate::Control::Stop;
            while left > 0 && !is_cancelled && throttle.is_some() {
                match observer::wait_for_rate(observer, throttle, progress, left) {
                    Some(admitted) => left -= admitted.min(left),
                    None => is_cancelled = true,
                }
            }
            if is_cancelled { Advance::Stop } else { Advance::Continue }
        };
        let ended = call(&mut on_progress);
        match is_cancelled {
            true => Err(Stopped::Cancelled),
            false => ended.map_err(Stopped::Destination),
        }
    }

    fn share_blocks(&mut self, temporary: &mut Temporary<'_>) -> Result<u64, Stopped> {
        let (calls, source, size) = (self.calls, self.source, self.size());
        let file = temporary.file().map_err(closed)?.try_clone().map_err(Stopped::Destination)?;
        self.report(0)?;
        let prepared = (|| {
            calls.match_integrity(&source.file, &file)?;
            if self.options.sparse != Sparse::Never && source.may_have_holes {
                calls.make_sparse(&file)?;
            }
            calls.set_length(&file, size)?;
            calls.cluster_bytes(directory_of(&self.destination.path))
        })();
        let cluster = prepared.map_err(Stopped::Destination)?;
        for piece in decide::shared_pieces(size, cluster) {
            let done = piece.end.min(size);
            let shared = self.repeat(Mechanism::BlockClone, || {
                calls.share_blocks(&source.file, &file, piece.clone())
            });
            shared.map_err(Stopped::Destination)?;
            self.report(done)?;
        }
        Ok(size)
    }

    /// Moves all bytes through a buffer, and reports progress before each piece and after the last one.
    fn read_and_write(
        &mut self,
        temporary: &Temporary<'_>,
        receipt: &mut Receipt,
    ) -> Result<u64, Stopped> {
        let (calls, source, size) = (self.calls, self.source, self.size());
        let output = temporary.file().map_err(closed)?;
        let resumed = receipt.resumed_bytes;
        if let Some(partial) = self.partial.as_mut().filter(|_| resumed == 0) {
            partial.begin(temporary).map_err(Stopped::Destination)?;
        }
        let mut ranges = Vec::from([Range { start: 0, end: u64::MAX }]);
        let may_have_holes = self.options.sparse != Sparse::Never && source.may_have_holes;
        let mut makes_holes = self.options.sparse == Sparse::Always;
        if (may_have_holes || makes_holes) && temporary.is_in_place() {
            // Where a hole of the source is, the old file may have bytes.
            receipt.notes.push(Note::HolesFilled);
            makes_holes = false;
        } else if may_have_holes || makes_holes {
            let found = match may_have_holes {
                true => {
                    calls.data_ranges(&source.file, size).map(|found| up_to_the_end(found, size))
                }
                false => Ok(ranges.clone()),
            };
            match (calls.make_sparse(output), found) {
                (Ok(()), Ok(found)) => ranges = found,
                // Zeros are looked for all the same.
                (Ok(()), Err(_)) if makes_holes => {}
                (made, _) => {
                    receipt.notes.push(Note::HolesFilled);
                    makes_holes &= made.is_ok();
                }
            }
        }
        let most = self.options.tuning.buffer_bytes();
        let mut buffer = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
        let (mut copied, mut zeros, mut end) = (0, 0, resumed);
        for range in ranges {
            let start = range.start.max(resumed);
            if range.end <= start {
                continue;
            }
            self.digest_hole(end, start)?;
            let (range, before) = (start..range.end, copied);
            let reached =
                self.move_range(temporary, range, &mut buffer, makes_holes, &mut copied)?;
            zeros += reached.saturating_sub(start) - (copied - before);
            // A source that shrank has nothing there.
            end = if reached > start { reached } else { end };
        }
        if end < size && self.source.file.metadata().is_ok_and(|now| now.len() >= size) {
            // A hole at the end.
            self.digest_hole(end, size)?;
            calls.set_length(output, size).map_err(Stopped::Destination)?;
            end = size;
            self.report(end)?;
        }
        if temporary.is_in_place() || makes_holes {
            calls.set_length(output, end).map_err(Stopped::Destination)?;
        }
        receipt.add(Mechanism::ReadWrite, copied, Cost::UserCopied);
        receipt.add(Mechanism::ReadWrite, zeros, Cost::Zeros);
        receipt.add(Mechanism::ReadWrite, end - resumed - copied - zeros, Cost::Hole);
        Ok(end)
    }

    /// Adds the zeros of a hole to the digest.
    fn digest_hole(&mut self, start: u64, end: u64) -> Result<(), Stopped> {
        if let Some(partial) = self.partial.as_mut().filter(|_| start < end) {
            partial.add_zeros_to(end);
        }
        let mut at = start;
        while let Some(digest) = self.digest.as_mut().filter(|_| at < end) {
            at = digest.add_hole(at, end);
            self.report(at)?;
        }
        Ok(())
    }

    /// Moves a range, or what the source has of it, without blocks of zeros if it `makes_holes`. Returns where it ended.
    fn move_range(
        &mut self,
        temporary: &Temporary<'_>,
        range: Range<u64>,
        buffer: &mut [u8],
        makes_holes: bool,
        copied: &mut u64,
    ) -> Result<u64, Stopped> {
        let most = buffer.len() as u64;
        let (calls, input, total_bytes) = (self.calls, &self.source.file, self.size());
        let (throttle, output) = (self.context.throttle, temporary.file().map_err(closed)?);
        let mut at = range.start;
        while at < range.end {
            let progress = Progress { phase: Phase::Copying, done_bytes: at, total_bytes };
            self.report(at)?;
            let most = most.min(range.end - at);
            let admitted = observer::wait_for_rate(self.observer, throttle, progress, most)
                .ok_or(Stopped::Cancelled)?;
            let piece = &mut buffer[..usize::try_from(admitted).unwrap_or(usize::MAX)];
            let read = self.repeat(Mechanism::ReadWrite, || calls.read_at(input, &mut *piece, at));
            if let Some(throttle) = throttle {
                throttle.give_back(admitted - read.as_ref().map_or(0, |bytes| *bytes as u64));
            }
            let bytes = read.map_err(Stopped::Source)?;
            if bytes == 0 {
                break;
            }
            if makes_holes {
                for (run, _) in zeros::runs(&piece[..bytes]).iter().filter(|(_, is_zero)| !is_zero)
                {
                    self.write(output, &piece[run.clone()], at + run.start as u64)?;
                    *copied += run.len() as u64;
                }
            } else {
                self.write(output, &piece[..bytes], at)?;
                *copied += bytes as u64;
            }
            if let Some(digest) = &mut self.digest {
                digest.add(at, &piece[..bytes]);
            }
            if let Some(partial) = &mut self.partial {
                partial.add(&piece[..bytes]);
                partial.flush(calls, temporary, false).map_err(Stopped::Destination)?;
            }
            at += bytes as u64;
        }
        Ok(at)
    }

    /// Writes all bytes.
    fn write(&self, output: &std::fs::File, bytes: &[u8], at: u64) -> Result<(), Stopped> {
        let mut written = 0;
        while written < bytes.len() {
            let put = self.repeat(Mechanism::ReadWrite, || {
                self.calls.write_at(output, &bytes[written..], at + written as u64)
            });
            match put.map_err(Stopped::Destination)? {
                0 => return Err(Stopped::Destination(io::ErrorKind::WriteZero.into())),
                more => written += more,
            }
        }
        Ok(())
    }
}

/// Has the last range go on to wherever the source ends now, if data reached its end.
fn up_to_the_end(mut ranges: Vec<Range<u64>>, size: u64) -> Vec<Range<u64>> {
    if let Some(last) = ranges.last_mut().filter(|last| last.end >= size) {
        last.end = u64::MAX;
    }
    ranges
}

/// Makes a file that a call made like a new one: its times are those of the copy. Returns its length.
fn made_new(temporary: &Temporary<'_>) -> Result<u64, Stopped> {
    let file = temporary.file().map_err(closed)?;
    let dated = file.set_modified(std::time::SystemTime::now());
    let metadata = dated.and_then(|()| file.metadata());
    metadata.map(|metadata| metadata.len()).map_err(Stopped::Destination)
}

fn closed(_: Error) -> Stopped {
    Stopped::Destination(io::Error::other("the temporary file is closed"))
}
