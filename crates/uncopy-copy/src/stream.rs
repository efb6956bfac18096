//! Copies sources that are read to their end, whatever size they claim: pseudo files, pipes,
//! devices, and empty files.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::FileType;

use super::digest::Hasher;
use super::file_copy::FileCopy;
use super::mechanism::read_write;
use super::observer::{self, Observer, Phase, Progress};
use super::options::Sparse;
use super::plan::{self, ErrorClass};
use super::source::Source;
use super::staging::Staging;
use uncopy_core::{Cost, Mechanism};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::file::{self, Ready};
use uncopy_os::{Sys, transfer};

const BUFFER_BYTES: usize = 128 << 10;

/// Interval between two questions to the observer while waiting for the other end of a pipe.
const PATIENCE: Duration = Duration::from_millis(50);

/// Waits until a stream has data or is at its end; the observer may end the wait. A FIFO that no
/// process has opened for writing yet is not at its end (`pipe_poll` in `fs/pipe.c`).
pub(crate) fn wait_for_source(source: &Source<'_>, observer: &mut dyn Observer) -> Result<()> {
    let waiting = Progress { phase: Phase::Waiting, done_bytes: 0, total_bytes: 0 };
    let fail = |errno| Error::system("read", source.path, errno);
    let fd = source.fd()?;
    while !file::wait(fd, Ready::ToRead, PATIENCE).map_err(fail)? {
        observer::report(observer, waiting, source.path)?;
    }
    Ok(())
}

/// Moves bytes by `mechanism` until the source ends, and adds them to `hash` and to the copy's digest, if
/// there are any. Returns the number of bytes.
pub(crate) fn copy_to_end(
    copy: &mut FileCopy<'_, '_>,
    mechanism: Mechanism,
    mut hash: Option<&mut Hasher>,
) -> Result<u64> {
    let (source, staging) = (copy.source, copy.staging);
    let finds_zeros = copy.facts.sparse == Sparse::Always && !copy.facts.destination_is_stream;
    let mut mover = StreamMover::new(mechanism, source, staging)
        .map_err(|e| Error::system("make a pipe to copy", source.path, e))?;
    let mut total = 0;
    source.settle()?;
    // Regular files are always ready; pseudo files may have to wait as well (/proc/kmsg).
    let may_wait = !source.has_reliable_size();
    loop {
        let fail = |errno| Error::system("read", source.path, errno);
        if may_wait && !file::wait(source.fd()?, Ready::ToRead, PATIENCE).map_err(fail)? {
            report(copy, total)?;
            continue;
        }
        let most = wait_for_rate(copy, total)?;
        let filled = mover.fill(source, staging, most);
        copy.return_to_rate((most - filled.unwrap_or(0)) as u64);
        let n = match filled {
            Ok(0) => break,
            Ok(n) => n,
            Err(Errno::EINTR) => continue,
            // The destination is a full pipe, or the source does not block and another process took its
            // bytes.
            Err(Errno::EAGAIN) => {
                file::wait(staging.fd(), Ready::ToWrite, PATIENCE).map_err(fail)?;
                report(copy, total)?;
                continue;
            }
            Err(errno) => return Err(stopped(copy, mechanism, &mover, errno, total)),
        };
        if let Some(bytes) = mover.held(n) {
            if let Some(hash) = &mut hash {
                hash.update(bytes);
            }
            if let Some(digest) = &mut copy.digest {
                digest.add(total, bytes);
            }
        }
        let hole_bytes = match mover.held(n) {
            Some(bytes) if finds_zeros => {
                let in_place = copy.facts.in_place;
                read_write::write_sparsely(staging.fd(), bytes, total, in_place)
                    .map_err(|e| copy.destination_error("write to", e))?
            }
            _ => {
                hand_on(copy, &mover, n, total)?;
                0
            }
        };
        copy.receipt.add(mechanism, hole_bytes, Cost::Zeros);
        total += n as u64;
        copy.receipt.add(mechanism, n as u64 - hole_bytes, mover.cost());
        source.look()?;
        report(copy, total)?;
    }
    if finds_zeros {
        // The copy may end in a hole.
        file::truncate(staging.fd(), total)
            .map_err(|e| copy.destination_error("set the size of", e))?;
    }
    Ok(total)
}

/// Writes all of the `filled` bytes to the destination, which has `total` bytes already.
fn hand_on(
    copy: &mut FileCopy<'_, '_>,
    mover: &StreamMover,
    filled: usize,
    total: u64,
) -> Result<()> {
    let staging = copy.staging;
    let mut written = mover.written(filled);
    while written < filled {
        match mover.empty(staging, written..filled) {
            Ok(0) => return Err(copy.destination_error("write to", Errno::EIO)),
            Ok(more) => written += more,
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                file::wait(staging.fd(), Ready::ToWrite, PATIENCE)
                    .map_err(|e| copy.destination_error("write to", e))?;
                report(copy, total)?;
            }
            Err(errno) => return Err(copy.destination_error("write to", errno)),
        }
    }
    Ok(())
}

/// Returns how much may be taken now; waits as the rate requires.
fn wait_for_rate(copy: &mut FileCopy<'_, '_>, done_bytes: u64) -> Result<usize> {
    let admitted = copy
        .wait_for_rate(copying(done_bytes), BUFFER_BYTES as u64)
        .ok_or_else(|| Error::new("copy to", copy.destination().given, Reason::Cancelled))?;
    Ok(usize::try_from(admitted).unwrap_or(BUFFER_BYTES))
}

/// Reports progress.
fn report(copy: &mut FileCopy<'_, '_>, done_bytes: u64) -> Result<()> {
    let given = copy.destination().given;
    observer::report_writing(copy.observer, copying(done_bytes), given)
}

/// Makes the error of a mechanism that does not work here, or of a real failure.
fn stopped(
    copy: &FileCopy<'_, '_>,
    mechanism: Mechanism,
    mover: &StreamMover,
    errno: Errno,
    moved_bytes: u64,
) -> Error {
    // Bytes in an existing file, or taken from a pipe, cannot be taken back by another mechanism.
    let is_begun = moved_bytes > 0 && (copy.facts.in_place || copy.facts.destination_is_stream);
    if is_begun || plan::classify(mechanism, errno, moved_bytes) == ErrorClass::Failed {
        // The bytes of a pipe or device were consumed and cannot be read again to see which side
        // had the EIO.
        let is_of_source = !mover.touches_both() || errno == Errno::EIO;
        return match is_of_source {
            true => Error::system("read", copy.source.path, errno),
            false => copy.destination_error("write to", errno),
        };
    }
    let refusal = plan::stopped(mechanism, Some(errno), 0, &copy.facts);
    Error::new("copy", copy.source.path, plan::no_mechanism(&copy.facts, &[refusal]))
}

/// How bytes are taken from the source and passed to the destination.
enum StreamMover {
    Buffer(Vec<u8>),
    Sendfile,
    /// Through a pipe between source and destination.
    Pipe {
        read: OwnedFd,
        write: OwnedFd,
    },
    /// Source or destination is a pipe itself.
    Splice,
}

impl StreamMover {
    fn new(mechanism: Mechanism, source: &Source<'_>, staging: &Staging<'_>) -> Sys<StreamMover> {
        let is_pipe = source.stat.file_type() == FileType::Fifo || staging.destination().is_fifo();
        Ok(match mechanism {
            Mechanism::Sendfile => StreamMover::Sendfile,
            Mechanism::Splice if is_pipe => StreamMover::Splice,
            Mechanism::Splice => {
                let (read, write, _) = transfer::pipe(BUFFER_BYTES)?;
                StreamMover::Pipe { read, write }
            }
            _ => StreamMover::Buffer(vec![0; BUFFER_BYTES]),
        })
    }

    fn cost(&self) -> Cost {
        if matches!(self, StreamMover::Buffer(_)) { Cost::UserCopied } else { Cost::KernelCopied }
    }

    /// Takes the next bytes, `most` at most. Returns 0 at the end.
    fn fill(&mut self, source: &Source<'_>, staging: &Staging<'_>, most: usize) -> Sys<usize> {
        let source = source.file.fd()?;
        match self {
            StreamMover::Buffer(buffer) => transfer::read(source, &mut buffer[..most]),
            StreamMover::Sendfile => transfer::sendfile_next(source, staging.fd(), most),
            StreamMover::Pipe { write, .. } => transfer::splice_next(source, write, most),
            StreamMover::Splice => transfer::splice_next(source, staging.fd(), most),
        }
    }

    /// One call reads and writes.
    fn touches_both(&self) -> bool {
        matches!(self, StreamMover::Sendfile | StreamMover::Splice)
    }

    /// Returns how much of the `filled` bytes is in the destination already.
    fn written(&self, filled: usize) -> usize {
        if self.touches_both() { filled } else { 0 }
    }

    /// Returns the `filled` bytes, if they passed through this program's memory.
    fn held(&self, filled: usize) -> Option<&[u8]> {
        match self {
            StreamMover::Buffer(buffer) => Some(&buffer[..filled]),
            StreamMover::Sendfile | StreamMover::Splice | StreamMover::Pipe { .. } => None,
        }
    }

    /// Writes the taken bytes in `range` to the destination.
    fn empty(&self, staging: &Staging<'_>, range: Range<usize>) -> Sys<usize> {
        match self {
            StreamMover::Buffer(buffer) => transfer::write(staging.fd(), &buffer[range]),
            StreamMover::Pipe { read, .. } => {
                transfer::splice_next(read, staging.fd(), range.len())
            }
            StreamMover::Sendfile | StreamMover::Splice => Ok(range.len()),
        }
    }
}

fn copying(done_bytes: u64) -> Progress {
    Progress { phase: Phase::Copying, done_bytes, total_bytes: 0 }
}
