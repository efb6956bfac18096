//! Moves the bytes of a copy in a loop: mechanism after mechanism, piece by piece, each continuing
//! where the last one stopped.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::active_mover::ActiveMover;
use super::chunks::CHUNK_BYTES;
use super::control::Control;
use super::facts;
use super::file_copy::FileCopy;
use super::mechanism::{self, Ends, FromPeer, Moved, Refused, reflink, side};
use super::observer::{Phase, Progress};
use super::options::{Cache, Sparse};
use super::pace::Pace;
use super::plan::{self, Attempted, ErrorClass, PlanStep};
use super::sparse::{self, Segment};
use super::trial::{Trial, TrialCandidate, TrialCost};
use super::write_out;
use uncopy_core::{Cost, Mechanism};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::AlignedBuffer;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::{clock, file};

/// Minimum number of bytes written out at a time: a slow disk takes 80 ms for them, and twice as many are under way.
const WRITE_OUT_BYTES: u64 = 8 << 20;

/// Sizes of blocks in filesystems that share them: almost always, and at most.
const BLOCK_SIZES: [u64; 2] = [4096, 64 << 10];

/// Number of bytes of a resumed copy read at a time.
const RESUMED_BYTES: u64 = 1 << 20;

/// Moves the bytes of a source of known size.
pub(crate) struct Transfer<'t, 'a, 's> {
    copy: &'t mut FileCopy<'a, 's>,
    destination: BorrowedFd<'a>,
    size: u64,
    attempted: Vec<Attempted>,
    active_mover: Option<ActiveMover<'a>>,
    /// Movers that are set up and not active: the other entrants of a trial.
    parked: Vec<ActiveMover<'a>>,
    trial: Option<Trial>,
    /// Winner of the trial.
    chosen: Option<Mechanism>,
    pace: Pace,
    /// Bytes done, holes included.
    done_bytes: u64,
    /// Bytes whose write-out was started last. None: it is not available here.
    written_out: Option<Range<u64>>,
}

/// Times at the beginning of a step.
struct Stopwatch {
    wall: Instant,
    /// Only where a trial compares it: it takes a system call.
    cpu: Option<Duration>,
}

impl Stopwatch {
    fn start(trial: Option<&Trial>) -> Stopwatch {
        let compares_cpu = trial.is_some_and(|trial| trial.cost() == TrialCost::CpuTime);
        Stopwatch { wall: Instant::now(), cpu: compares_cpu.then(clock::thread) }
    }

    /// Returns what a trial compares.
    fn cost(&self) -> Duration {
        match self.cpu {
            Some(begin) => clock::thread().saturating_sub(begin),
            None => self.wall.elapsed(),
        }
    }
}

/// Whether a range was moved completely.
#[derive(PartialEq, Eq)]
enum Reached {
    End,
    SourceEnd(u64),
}

impl<'t, 'a, 's> Transfer<'t, 'a, 's> {
    pub(crate) fn new(copy: &'t mut FileCopy<'a, 's>, size: u64) -> Transfer<'t, 'a, 's> {
        let destination = copy.staging.fd();
        let pace = if copy.facts.is_elsewhere { Pace::from_peer() } else { Pace::new() };
        Transfer {
            copy,
            destination,
            size,
            attempted: Vec::new(),
            active_mover: None,
            parked: Vec::new(),
            trial: None,
            chosen: None,
            pace,
            done_bytes: 0,
            written_out: Some(0..0),
        }
    }

    /// Moves all bytes. Returns the offset at which the source ended.
    pub(crate) fn run(mut self) -> Result<u64> {
        let end = self.move_all()?;
        self.settle_sharing(end);
        self.finish_refusals();
        Ok(end)
    }

    /// Moves a part of the source to the same place in a destination that has its length. Returns the number of bytes.
    ///
    /// # Errors
    /// Also if the source ends before the part does.
    pub(crate) fn run_part(mut self, part: Range<u64>) -> Result<u64> {
        // It shares whole files.
        let (mechanism, errno, moved_bytes) = (Mechanism::Reflink, None, 0);
        self.attempted.push(Attempted { mechanism, errno, moved_bytes });
        let context = self.copy.context();
        facts::refine(&mut self.copy.facts, self.copy.source, self.destination, context);
        (self.done_bytes, self.written_out) = (part.start, Some(part.start..part.start));
        self.copy.source.settle()?;
        let end = self.move_segments(part.start, &mut None)?;
        if end < part.end {
            let what = format!("size {} to {end} bytes", self.copy.source.stat.size);
            let reason = Reason::SourceChanged { what };
            return Err(Error::new("copy", self.copy.source.path, reason));
        }
        self.active_mover = None;
        self.finish_refusals();
        Ok(end - part.start)
    }

    fn move_all(&mut self) -> Result<u64> {
        if plan::next(&self.copy.facts, &[]) == PlanStep::Try(Mechanism::Reflink)
            && self.reflink()?
        {
            return Ok(self.size);
        }
        let context = self.copy.context();
        facts::refine(&mut self.copy.facts, self.copy.source, self.destination, context);
        if self.size >= self.copy.facts.tuning.small_bytes()
            || self.copy.staging.is_temporary_name()
        {
            // Before the first piece, which may take long on a slow device.
            self.report()?;
        }
        if self.copy.context().throttle.is_none() {
            // With a rate limit, mechanisms do not differ in speed.
            let rivals = plan::rivals(&self.copy.facts, &self.attempted);
            let context = self.copy.context();
            self.trial = Trial::new(&self.copy.facts, &rivals, || context.has_spare_thread());
        }
        self.copy.receipt.decided_by = plan::decisive(&self.copy.facts, &self.attempted);
        let start = self.go_on()?;
        self.lay_out()?;
        self.copy.source.settle()?;
        let mut postponed = None;
        let end = self.move_segments(start, &mut postponed)?;
        if let Some((start, hole_end)) = postponed {
            // Its zeros are in the digest already.
            let digest = self.copy.digest.take();
            if !self.leave_hole(start, hole_end.min(end))? {
                self.move_stretch(start, hole_end.min(end))?;
            }
            self.copy.digest = digest;
        }
        self.cut(end)
    }

    /// Moves what lies between `offset` and the end, segment by segment. Returns where the source
    /// ended.
    ///
    /// A hole at the beginning of a file that is written in place is `postponed`: a mechanism must have
    /// moved bytes before the old ones are removed, so that one that is refused has changed nothing.
    fn move_segments(
        &mut self,
        mut offset: u64,
        postponed: &mut Option<(u64, u64)>,
    ) -> Result<u64> {
        let in_place = self.copy.facts.in_place;
        while offset < self.size {
            let segment = if self.copy.facts.has_holes && self.copy.facts.sparse != Sparse::Never {
                self.copy.source.file.segment(offset, self.size)
            } else {
                Segment::Data { start: offset, end: self.size }
            };
            offset = match segment {
                Segment::Hole { start: 0, end } if in_place => {
                    *postponed = Some((0, end));
                    self.digest_hole(0, end)?;
                    end
                }
                Segment::Hole { start, end } if self.leave_hole(start, end)? => end,
                Segment::Hole { start, end } | Segment::Data { start, end } => {
                    match self.move_stretch(start, end)? {
                        Reached::End => end,
                        Reached::SourceEnd(end) => return Ok(end),
                    }
                }
            };
        }
        Ok(self.size)
    }

    /// Verifies the bytes that an earlier run copied. Returns the offset up to which they are
    /// right.
    fn go_on(&mut self) -> Result<u64> {
        let (staging, size) = (self.copy.staging, self.size);
        let end = staging.verified(|done_bytes| {
            self.copy.report(Progress { phase: Phase::Verifying, done_bytes, total_bytes: size })
        })?;
        self.hash_resumed(end)?;
        self.copy.receipt.resumed_bytes = end;
        self.done_bytes = end;
        self.written_out = Some(end..end);
        Ok(end)
    }

    /// Adds bytes that an earlier run received to the digest that verifies the copy. They are what was noted.
    fn hash_resumed(&mut self, end: u64) -> Result<()> {
        let Some(received) = self.copy.received.as_mut().filter(|_| end > 0) else { return Ok(()) };
        let given = self.copy.staging.destination().given;
        let fail = |errno| Error::destination("read back", given, errno);
        let mut buffer = AlignedBuffer::new(RESUMED_BYTES.min(end) as usize).map_err(fail)?;
        let mut offset = 0;
        while offset < end {
            let most = (end - offset).min(RESUMED_BYTES) as usize;
            match uncopy_os::transfer::read_at(self.destination, &mut buffer[..most], offset) {
                Ok(0) => break,
                Ok(n) => {
                    received.add(offset, &buffer[..n]);
                    offset += n as u64;
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        Ok(())
    }

    /// Gives a destination that gets holes its length before its bytes: XFS reserves space behind
    /// the end of a file that grows, and keeps what the next write leaps over (`fs/xfs/xfs_iomap.c`,
    /// `xfs_iomap_prealloc_size`).
    fn lay_out(&self) -> Result<()> {
        let sparse = match self.copy.facts.sparse {
            Sparse::Auto => self.copy.facts.has_holes,
            Sparse::Always => true,
            Sparse::Never => false,
        };
        if !sparse || self.copy.facts.in_place {
            return Ok(());
        }
        self.give_length()
    }

    fn give_length(&self) -> Result<()> {
        let fail = |errno| Error::destination("set the size of", self.given(), errno);
        // Setting it again would make XFS flush the file when it is closed (`xfs_setattr_size`).
        if file::stat(self.destination).map_err(fail)?.size < self.size {
            file::truncate(self.destination, self.size).map_err(fail)?;
        }
        Ok(())
    }

    /// Sets the destination's length to the bytes moved: a hole at the end writes nothing.
    fn cut(&mut self, size: u64) -> Result<u64> {
        self.active_mover = None;
        self.parked.clear();
        let fail = |errno| Error::destination("set the size of", self.given(), errno);
        let now = file::stat(self.destination).map_err(fail)?.size;
        if now != size {
            file::truncate(self.destination, size).map_err(fail)?;
        }
        Ok(size)
    }

    fn given(&self) -> &std::path::Path {
        self.copy.staging.destination().given.as_ref()
    }

    fn next_mechanism(&self) -> Result<Mechanism> {
        let running = self.turn().map(|way| way.mechanism).or(self.chosen);
        if let Some(mechanism) = running.filter(|m| !self.was_stopped(*m)) {
            return Ok(mechanism);
        }
        match plan::next(&self.copy.facts, &self.attempted) {
            PlanStep::Try(mechanism) => Ok(mechanism),
            PlanStep::GiveUp => {
                let stopped = self.attempted.last().and_then(|tried| tried.errno);
                if let Some(errno) = stopped
                    && self.copy.facts.in_place
                    && self.copy.receipt.portions.iter().any(|portion| portion.bytes > 0)
                {
                    // The file has changed, so this is no longer a question of mechanisms.
                    return Err(Error::destination("write to", self.given(), errno));
                }
                let reason = plan::no_mechanism(&self.copy.facts, &self.copy.receipt.refusals);
                let error = Error::new("copy", self.copy.source.path, reason);
                // An I/O error may rule a mechanism out, where it could also have been the device.
                let met = self.attempted.iter().any(|tried| tried.errno == Some(Errno::EIO));
                let length = self.piece_bytes();
                let lasts = met && self.can_read(self.done_bytes, length);
                Err(if lasts { error.met_at_destination(Errno::EIO) } else { error })
            }
        }
    }

    /// Whether bytes of the source (offset, length) can be read alone.
    fn can_read(&self, offset: u64, length: u64) -> bool {
        self.copy.source.here().is_none_or(|source| side::can_read(source, offset, length))
    }

    /// The next candidate of the trial, as long as there is one.
    fn turn(&self) -> Option<TrialCandidate> {
        self.trial.as_ref().and_then(Trial::turn)
    }

    fn was_stopped(&self, mechanism: Mechanism) -> bool {
        self.attempted.iter().any(|a| a.mechanism == mechanism)
    }

    /// Shares the whole file; `false` if that is not possible here.
    fn reflink(&mut self) -> Result<bool> {
        let ends = Ends { source: self.copy.source.fd()?, destination: self.destination };
        let mut is_longer = self.copy.facts.in_place;
        while let Err(errno) = reflink::share(ends) {
            if errno == Errno::EINVAL && std::mem::take(&mut is_longer) && self.cut_longer(ends)? {
                continue;
            }
            match plan::classify(Mechanism::Reflink, errno, 0) {
                ErrorClass::Retry => {}
                ErrorClass::Unsupported => {
                    self.refuse(Mechanism::Reflink, Some(errno), 0);
                    return Ok(false);
                }
                // Blocks are shared by changing the destination.
                ErrorClass::Failed => {
                    return Err(self.failure(Refused::at_destination(errno), (0, 0)));
                }
            }
        }
        // The clone is a snapshot, so its own length counts.
        let fail = |errno| Error::destination("examine", self.given(), errno);
        let stat = file::stat(self.destination).map_err(fail)?;
        if stat.size < self.size && stat.size < self.source_size()? {
            self.refuse(Mechanism::Reflink, None, 0);
            return Ok(false);
        }
        if self.copy.facts.in_place && stat.size > self.size {
            self.cut(self.size)?;
        } else {
            self.size = stat.size;
        }
        let holes = if self.copy.facts.has_holes { self.count_holes() } else { 0 };
        self.done_bytes = self.size;
        self.copy.receipt.add(Mechanism::Reflink, holes, Cost::Hole);
        self.copy.receipt.add(Mechanism::Reflink, self.size - holes, Cost::Shared);
        self.report()?;
        Ok(true)
    }

    /// Cuts off what a destination that is written in place has behind the source's length, if that is no multiple of a block:
    /// a last block is shared only where both files end in it (`generic_remap_check_len`, fs/remap_range.c). Whole blocks are
    /// shared before, which shows that it is possible here. Returns whether it was cut.
    fn cut_longer(&mut self, ends: Ends<'_>) -> Result<bool> {
        let size = self.source_size()?;
        let fail = |errno| Error::destination("examine", self.given(), errno);
        if file::stat(self.destination).map_err(fail)?.size <= size {
            return Ok(false);
        }
        let is_shared = BLOCK_SIZES.iter().any(|block| {
            let whole = size - size % block;
            whole > 0 && whole < size && reflink::share_beginning(ends, size, whole).is_ok()
        });
        if is_shared {
            self.cut(size)?;
        }
        Ok(is_shared)
    }

    fn count_holes(&self) -> u64 {
        let (mut offset, mut holes) = (0, 0);
        while offset < self.size {
            offset = match sparse::segment(&self.destination, offset, self.size) {
                Segment::Data { end, .. } => end,
                Segment::Hole { start, end } => {
                    holes += end - start;
                    end
                }
            };
        }
        holes
    }

    /// Leaves a hole in the destination; `false` if it has to be filled after all.
    fn leave_hole(&mut self, start: u64, end: u64) -> Result<bool> {
        if self.copy.facts.in_place
            && file::punch_hole(self.destination, start, end - start).is_err()
        {
            return Ok(false);
        }
        // Without a mechanism left a file may still consist of holes.
        let mechanism = match &self.active_mover {
            Some(active) => active.mechanism,
            None => self.next_mechanism().unwrap_or(Mechanism::ReadWrite),
        };
        self.copy.receipt.add(mechanism, end - start, Cost::Hole);
        self.digest_hole(start, end)?;
        self.done_bytes = self.done_bytes.max(end);
        self.note_reached(end)?;
        self.report()?;
        Ok(true)
    }

    /// Notes that the bytes up to `offset` are copied. Those of another machine are hashed from the copy, and not asked
    /// for again.
    fn note_reached(&self, offset: u64) -> Result<()> {
        let source = self.copy.source.here().unwrap_or(self.destination);
        self.copy.staging.reached(source, offset)
    }

    /// Adds the zeros of a hole to the digests.
    fn digest_hole(&mut self, start: u64, end: u64) -> Result<()> {
        while self.done_bytes < end {
            let (start, mut part_end) = (self.done_bytes.max(start), None);
            for digest in [&mut self.copy.digest, &mut self.copy.received].into_iter().flatten() {
                part_end = Some(digest.add_hole(start, end));
            }
            let Some(part_end) = part_end else { break };
            self.done_bytes = part_end;
            self.report()?;
        }
        Ok(())
    }

    /// Moves `start..end`, changing the mechanism as often as need be.
    fn move_stretch(&mut self, start: u64, mut end: u64) -> Result<Reached> {
        self.reserve(start, end)?;
        let (mut offset, wanted) = (start, end);
        while offset < end {
            let piece = (end - offset).min(self.piece_bytes());
            // Set up before it waits for its turn.
            if self.active_mover()?.is_none() {
                continue;
            }
            let length = self.admit(piece)?;
            let begin = Stopwatch::start(self.trial.as_ref());
            let Some(mechanism) = self.active_mover.as_ref().map(|c| c.mechanism) else { continue };
            let parallel = self.gains_from_parallel(mechanism, length)?;
            // Nothing is asked for that a rate does not allow yet.
            let ahead_to = if self.copy.context().throttle.is_some() { offset } else { end };
            let Some(active) = &mut self.active_mover else { continue };
            let digests = [self.copy.digest.as_mut(), self.copy.received.as_mut()];
            let (observer, done, total_bytes) =
                (&mut *self.copy.observer, self.done_bytes, self.size);
            let mut go_on = |more: u64| {
                let (phase, done_bytes) = (Phase::Copying, done + more);
                observer.progress(Progress { phase, done_bytes, total_bytes }) == Control::Continue
            };
            let (step, parallel) =
                active.step(offset, length, ahead_to, parallel, digests, &mut go_on);
            self.give_back(length, &step);
            match step {
                Ok(Moved { bytes: 0, .. }) => {
                    if self.source_ended(offset)? {
                        return Ok(Reached::SourceEnd(offset));
                    }
                    self.stop_active_mover(None);
                }
                Ok(moved) => {
                    offset += moved.bytes;
                    self.copy.receipt.parallel_bytes += if parallel { moved.bytes } else { 0 };
                    self.account(mechanism, parallel, moved, offset, &begin)?;
                }
                Err(refused) => match self.shrunk_below(end, refused.errno)? {
                    Some(size) => end = size,
                    None => self.handle(mechanism, refused, (offset, length))?,
                },
            }
        }
        Ok(if end == wanted { Reached::End } else { Reached::SourceEnd(offset) })
    }

    /// Whether another thread is to move blocks of this piece as well. Before the first of them the
    /// destination gets its length: XFS fills what a write behind its end leaves out
    /// (`fs/xfs/xfs_file.c`, `xfs_file_write_checks`).
    fn gains_from_parallel(&mut self, mechanism: Mechanism, length: u64) -> Result<bool> {
        let gains = plan::gains_by_ranges(&self.copy.facts, mechanism, length)
            && self.turn().is_none_or(|way| way.parallel)
            // A digest takes the bytes in their order.
            && self.copy.digest.is_none()
            && self.copy.context().throttle.is_none()
            && self.copy.context().has_spare_thread();
        if gains && self.copy.receipt.parallel_bytes == 0 {
            self.give_length()?;
        }
        Ok(gains)
    }

    /// Returns how much of a piece may be moved now; waits if the rate requires it.
    fn admit(&mut self, bytes: u64) -> Result<u64> {
        let progress = self.progress();
        self.copy
            .wait_for_rate(progress, bytes)
            .ok_or_else(|| Error::new("copy", self.copy.source.path, Reason::Cancelled))
    }

    /// Only what was submitted counts.
    fn give_back(&self, admitted: u64, step: &Result<Moved, Refused>) {
        let submitted = step.map_or(0, |moved| moved.bytes - moved.hole_bytes);
        self.copy.return_to_rate(admitted.saturating_sub(submitted));
    }

    fn piece_bytes(&self) -> u64 {
        match self.turn() {
            Some(way) => way.probe_bytes(),
            // A piece is at most a chunk, so that each chunk is noted as soon as it is copied. More are asked for
            // at once of another machine.
            None if self.copy.staging.is_kept() && !self.copy.facts.is_elsewhere => {
                self.pace.piece_bytes.min(CHUNK_BYTES)
            }
            None => self.pace.piece_bytes,
        }
    }

    /// Returns the active mechanism, set up if necessary; `None` if setting up failed and another
    /// one is next.
    fn active_mover(&mut self) -> Result<Option<&mut ActiveMover<'a>>> {
        let mechanism = match &self.active_mover {
            Some(active) if self.trial.is_none() => active.mechanism,
            _ => self.next_mechanism()?,
        };
        if self.active_mover.as_ref().is_none_or(|c| c.mechanism != mechanism) {
            self.parked.extend(self.active_mover.take());
            let place = self.parked.iter().position(|c| c.mechanism == mechanism);
            self.active_mover = place.map(|i| self.parked.swap_remove(i));
        }
        if self.active_mover.is_none() {
            let (facts, source, destination) =
                (&self.copy.facts, self.copy.source, self.destination);
            if let Some(file) = source.there() {
                let mover = FromPeer::new(file, destination, facts.sparse, facts.in_place);
                return Ok(Some(self.active_mover.insert(ActiveMover::from_peer(mover))));
            }
            let ends = Ends { source: source.fd()?, destination };
            let setting = facts::setting(facts, source, destination, mechanism);
            match mechanism::mover(mechanism, ends, facts, setting) {
                Ok(mover) => {
                    self.active_mover = Some(ActiveMover::between(mechanism, ends, mover));
                }
                Err(errno) => {
                    self.handle(mechanism, errno.into(), (0, 0))?;
                    return Ok(None);
                }
            }
        }
        Ok(self.active_mover.as_mut())
    }

    /// Takes a probe into account, and ends the trial when all are in.
    fn judge(&mut self, mechanism: Mechanism, bytes: u64, took: Duration) {
        let Some(trial) = &mut self.trial else { return };
        if let Some(way) = trial.turn().filter(|way| way.mechanism == mechanism) {
            trial.record(way, bytes, took);
        }
        if trial.turn().is_none() {
            if let Some((winner, refusals)) = trial.verdict() {
                self.chosen = Some(winner);
                self.copy.receipt.refusals.extend(refusals);
            }
            self.trial = None;
            if let Some(active) = self.active_mover.take() {
                self.parked.push(active);
            }
        }
    }

    /// Reserves the blocks of a stretch at once where that makes writing quicker: on ext4 it saves
    /// the delayed allocation of every single page, and lets direct writes run side by side.
    fn reserve(&self, start: u64, end: u64) -> Result<()> {
        let mechanism = match &self.active_mover {
            Some(active) => active.mechanism,
            None => self.next_mechanism()?,
        };
        // Writes of mapped pages extend the file in order, and are quicker without.
        let mapped = mechanism == Mechanism::Direct;
        // A length that another machine claims may be that of no file.
        let pays = end - start >= plan::RESERVE_MIN_BYTES
            && !self.copy.facts.is_elsewhere
            && self.copy.facts.destination == Filesystem::EXT4
            && self.copy.facts.sparse != Sparse::Always
            && !self.copy.facts.in_place;
        if mapped || !pays {
            return Ok(());
        }
        match file::allocate(self.destination, start, end - start) {
            Err(errno @ (Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG)) => {
                Err(self.failure(Refused::at_destination(errno), (0, 0)))
            }
            _ => Ok(()),
        }
    }

    /// Handles an error of these bytes (offset, length): continues, changes the mechanism, or gives
    /// up.
    fn handle(&mut self, mechanism: Mechanism, refused: Refused, at: (u64, u64)) -> Result<()> {
        let errno = refused.errno;
        let moved = self.active_mover.as_ref().map_or(0, |c| c.moved_bytes);
        match plan::classify(mechanism, errno, moved) {
            ErrorClass::Retry => self.report(),
            ErrorClass::Unsupported => {
                if self.active_mover.is_some() {
                    self.stop_active_mover(Some(errno));
                } else {
                    self.refuse(mechanism, Some(errno), 0);
                }
                Ok(())
            }
            ErrorClass::Failed => Err(self.failure(refused, at)),
        }
    }

    fn stop_active_mover(&mut self, errno: Option<Errno>) {
        if let Some(active) = self.active_mover.take() {
            self.refuse(active.mechanism, errno, active.moved_bytes);
        }
    }

    fn refuse(&mut self, mechanism: Mechanism, errno: Option<Errno>, moved_bytes: u64) {
        let refusal = plan::stopped(mechanism, errno, moved_bytes, &self.copy.facts);
        if let Some(trial) = &mut self.trial {
            trial.retire(mechanism);
        }
        self.attempted.push(Attempted { mechanism, errno, moved_bytes });
        self.copy.receipt.refusals.push(refusal);
    }

    fn source_ended(&self, offset: u64) -> Result<bool> {
        // Another machine sends fewer bytes only where the file ends.
        Ok(self.copy.facts.is_elsewhere || offset >= self.source_size()?)
    }

    /// Returns the new size, if the source no longer reaches `end`: reading a mapping behind its
    /// end fails with EFAULT.
    fn shrunk_below(&self, end: u64, errno: Errno) -> Result<Option<u64>> {
        if errno != Errno::EFAULT {
            return Ok(None);
        }
        Ok(Some(self.source_size()?).filter(|size| *size < end))
    }

    fn source_size(&self) -> Result<u64> {
        let examined = self.copy.source.file.examine();
        examined
            .map(|stat| stat.size)
            .map_err(|e| Error::system("examine", self.copy.source.path, e))
    }

    fn account(
        &mut self,
        mechanism: Mechanism,
        parallel: bool,
        moved: Moved,
        offset: u64,
        begin: &Stopwatch,
    ) -> Result<()> {
        if let Some(active) = &mut self.active_mover {
            active.moved_bytes += moved.bytes;
        }
        self.copy.receipt.add(mechanism, moved.bytes - moved.hole_bytes, moved.cost);
        self.copy.receipt.add(mechanism, moved.hole_bytes, Cost::Zeros);
        let took = begin.cost();
        self.done_bytes = self.done_bytes.max(offset);
        if !mechanism.is_direct() {
            self.write_out(offset)?;
        }
        if self.trial.is_some() {
            self.judge(mechanism, moved.bytes, took);
        } else {
            // The disk may be the slower part.
            self.pace.done(mechanism, parallel, moved.bytes, begin.wall.elapsed());
        }
        self.copy.staging.has_bytes()?;
        self.note_reached(offset)?;
        if offset < self.size {
            self.copy.source.look()?;
        }
        self.report()
    }

    /// Keeps the last `fsync` short, and the page cache free: starts writing what is new, and waits for what was
    /// started before it.
    fn write_out(&mut self, offset: u64) -> Result<()> {
        let skip_cache = self.copy.facts.cache == Cache::Skip;
        let flushes = self.copy.facts.durable || self.copy.options().verify.is_some();
        let is_wanted = flushes || skip_cache || self.copy.staging.is_kept();
        let Some(earlier) = self
            .written_out
            .clone()
            .filter(|earlier| is_wanted && offset >= earlier.end + WRITE_OUT_BYTES)
        else {
            return Ok(());
        };
        let new = earlier.end..offset;
        if file::write_out(self.destination, new.start, offset - new.start, false).is_err() {
            // If it is an error of the device, `fsync` reports it.
            self.written_out = None;
            return Ok(());
        }
        self.written_out = Some(new);
        if !earlier.is_empty() {
            // No look at a wish to stop in between: what was copied is noted first.
            let length = earlier.end - earlier.start;
            write_out::finish(self.destination, earlier.start, length)
                .map_err(|errno| Error::destination("flush", self.given(), errno))?;
            if skip_cache {
                let _ = file::drop_cache(self.destination, earlier.start, length);
            }
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let (done_bytes, total_bytes) = (self.done_bytes, self.size);
        Progress { phase: Phase::Copying, done_bytes, total_bytes }
    }

    fn report(&mut self) -> Result<()> {
        let progress = self.progress();
        self.copy.report(progress)
    }

    /// An error of these bytes: offset and length.
    fn failure(&self, refused: Refused, at: (u64, u64)) -> Error {
        match refused.is_of_source(|| self.can_read(at.0, at.1)) {
            true => Error::system("copy the data of", self.copy.source.path, refused.errno),
            false => Error::destination("write to", self.given(), refused.errno),
        }
    }

    /// `copy_file_range` may have shared: the new file's extents show it.
    fn settle_sharing(&mut self, size: u64) {
        let is_shown = plan::extents_show_sharing(self.copy.facts.destination);
        let unknown = |p: &&mut uncopy_core::Portion| {
            p.mechanism == Mechanism::CopyFileRange && p.cost == Cost::Unknown
        };
        let Some(portion) =
            self.copy.receipt.portions.iter_mut().find(unknown).filter(|_| is_shown)
        else {
            return;
        };
        let Ok(extents) = file::extents(self.destination) else { return };
        let shared: u64 = extents
            .iter()
            .filter(|e| e.shared && !e.unsettled)
            .map(|e| size.min(e.logical + e.length).saturating_sub(e.logical))
            .sum();
        let bytes = std::mem::replace(&mut portion.bytes, 0);
        self.copy.receipt.portions.retain(|p| p.bytes > 0);
        self.copy.receipt.add(Mechanism::CopyFileRange, shared.min(bytes), Cost::Shared);
        self.copy.receipt.add(
            Mechanism::CopyFileRange,
            bytes.saturating_sub(shared),
            Cost::KernelCopied,
        );
    }

    /// Adds why the mechanisms that the plan left out were not used, cheapest first.
    fn finish_refusals(&mut self) {
        let used = plan::costliest(
            &self.copy.facts,
            self.copy.receipt.portions.iter().map(|p| p.mechanism),
        );
        for refusal in plan::refusals(&self.copy.facts, used) {
            let is_reported =
                self.copy.receipt.refusals.iter().any(|r| r.mechanism == refusal.mechanism);
            if !is_reported && self.copy.receipt.bytes_by(refusal.mechanism) == 0 {
                self.copy.receipt.refusals.push(refusal);
            }
        }
        plan::sort(&self.copy.facts, &mut self.copy.receipt.refusals);
    }
}
