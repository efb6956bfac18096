//! Sources that are read to their end, whatever size they claim: pseudo files, pipes, devices,
//! and empty files.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::FileType;

use super::destination::Destination;
use super::digest::Hasher;
use super::mechanism::read_write;
use super::observer::{self, Observer, Phase, Progress};
use super::options::Sparse;
use super::plan::{self, CopyFacts, ErrorClass};
use super::source::Source;
use super::staging::Staging;
use uncopy_core::{Cost, Mechanism, Receipt};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::file::{self, Ready};
use uncopy_os::{Sys, transfer};

const BUFFER_BYTES: usize = 128 << 10;

/// How long to wait for the other end of a pipe before the observer is asked again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Waits until a stream has something to read, or is at its end; the observer may end that. A FIFO that
/// nobody has opened to write yet is not at its end (`pipe_poll` in `fs/pipe.c`).
pub(crate) fn wait_for_source(source: &Source<'_>, observer: &mut dyn Observer) -> Result<()> {
    let waiting = Progress { phase: Phase::Waiting, done_bytes: 0, total_bytes: 0 };
    let fail = |errno| Error::system("read", source.path, errno);
    while !file::wait(source.fd(), Ready::ToRead, PATIENCE).map_err(fail)? {
        observer::report(observer, waiting, source.path)?;
    }
    Ok(())
}

/// Moves bytes until there are no more, by `mechanism`. Returns their number. What comes is added to the
/// digest, if there is one.
pub(crate) fn copy_to_end(
    source: &Source<'_>,
    staging: &Staging<'_>,
    (facts, mechanism): (&CopyFacts, Mechanism),
    mut digest: Option<&mut Hasher>,
    receipt: &mut Receipt,
    observer: &mut dyn Observer,
) -> Result<u64> {
    let destination = staging.destination();
    let finds_zeros = facts.sparse == Sparse::Always && !facts.destination_is_stream;
    let mut mover = StreamMover::new(mechanism, source, staging)
        .map_err(|e| Error::system("make a pipe to copy", source.path, e))?;
    let mut total = 0;
    source.settle()?;
    // Regular files are always ready, and need not be asked; pseudo files may wait as well
    // (/proc/kmsg).
    let may_wait = !source.has_reliable_size();
    loop {
        let fail = |errno| Error::system("read", source.path, errno);
        if may_wait && !file::wait(source.fd(), Ready::ToRead, PATIENCE).map_err(fail)? {
            observer::report_writing(observer, copying(total), destination.given)?;
            continue;
        }
        let most = admit(observer, destination, total)?;
        let filled = mover.fill(source, staging, most);
        if let Some(throttle) = observer.throttle() {
            throttle.give_back((most - filled.unwrap_or(0)) as u64);
        }
        let n = match filled {
            Ok(0) => break,
            Ok(n) => n,
            Err(Errno::EINTR) => continue,
            // The destination is a pipe that is full, or the source does not wait and somebody else
            // took what was there.
            Err(Errno::EAGAIN) => {
                file::wait(staging.fd(), Ready::ToWrite, PATIENCE).map_err(fail)?;
                observer::report_writing(observer, copying(total), destination.given)?;
                continue;
            }
            Err(errno) => {
                return Err(stopped(source, destination, (facts, mechanism), &mover, errno, total));
            }
        };
        if let (Some(digest), Some(bytes)) = (&mut digest, mover.held(n)) {
            digest.update(bytes);
        }
        let hole_bytes = match mover.held(n) {
            Some(bytes) if finds_zeros => {
                read_write::write_sparsely(staging.fd(), bytes, total, facts.in_place)
                    .map_err(|e| Error::destination("write to", destination.given, e))?
            }
            _ => {
                hand_on(&mover, n, total, staging, observer)?;
                0
            }
        };
        receipt.add(mechanism, hole_bytes, Cost::Hole);
        total += n as u64;
        receipt.add(mechanism, n as u64 - hole_bytes, mover.cost());
        source.look()?;
        observer::report_writing(observer, copying(total), destination.given)?;
    }
    if finds_zeros {
        // The last of it may be a hole.
        file::truncate(staging.fd(), total)
            .map_err(|e| Error::destination("set the size of", destination.given, e))?;
    }
    Ok(total)
}

/// Has all of the `filled` bytes go to the destination, which has `total` bytes already.
fn hand_on(
    mover: &StreamMover,
    filled: usize,
    total: u64,
    staging: &Staging<'_>,
    observer: &mut dyn Observer,
) -> Result<()> {
    let destination = staging.destination();
    let mut written = mover.written(filled);
    while written < filled {
        match mover.empty(staging, written..filled) {
            Ok(0) => return Err(Error::destination("write to", destination.given, Errno::EIO)),
            Ok(more) => written += more,
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                file::wait(staging.fd(), Ready::ToWrite, PATIENCE)
                    .map_err(|e| Error::destination("write to", destination.given, e))?;
                observer::report_writing(observer, copying(total), destination.given)?;
            }
            Err(errno) => return Err(Error::destination("write to", destination.given, errno)),
        }
    }
    Ok(())
}

/// How much may be taken now; waits if the rate asks for it.
fn admit(
    observer: &mut dyn Observer,
    destination: &Destination<'_>,
    done_bytes: u64,
) -> Result<usize> {
    let progress = Progress { phase: Phase::Copying, done_bytes, total_bytes: 0 };
    let admitted = observer::admitted(observer, progress, BUFFER_BYTES as u64)
        .ok_or_else(|| Error::new("copy to", destination.given, Reason::Cancelled))?;
    Ok(usize::try_from(admitted).unwrap_or(BUFFER_BYTES))
}

/// A way that was asked for does not work, or a real error.
fn stopped(
    source: &Source<'_>,
    destination: &Destination<'_>,
    (facts, mechanism): (&CopyFacts, Mechanism),
    mover: &StreamMover,
    errno: Errno,
    moved_bytes: u64,
) -> Error {
    if plan::classify(mechanism, errno, moved_bytes) == ErrorClass::Failed {
        // What a pipe or device gave is gone, and cannot be read again to see whose EIO it was.
        let is_of_source = !mover.touches_both() || errno == Errno::EIO;
        return match is_of_source {
            true => Error::system("read", source.path, errno),
            false => Error::destination("write to", destination.given, errno),
        };
    }
    let refusal = plan::stopped(mechanism, Some(errno), 0, facts);
    Error::new("copy", source.path, plan::no_mechanism(facts, &[refusal]))
}

/// How bytes come in, and go on from there.
enum StreamMover {
    Buffer(Vec<u8>),
    Sendfile,
    /// Source, pipe, destination.
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

    /// Takes what comes next, `most` bytes at most. 0: the end.
    fn fill(&mut self, source: &Source<'_>, staging: &Staging<'_>, most: usize) -> Sys<usize> {
        match self {
            StreamMover::Buffer(buffer) => transfer::read(source.fd(), &mut buffer[..most]),
            StreamMover::Sendfile => transfer::sendfile_next(source.fd(), staging.fd(), most),
            StreamMover::Pipe { write, .. } => transfer::splice_next(source.fd(), write, most),
            StreamMover::Splice => transfer::splice_next(source.fd(), staging.fd(), most),
        }
    }

    /// One call takes and hands on.
    fn touches_both(&self) -> bool {
        matches!(self, StreamMover::Sendfile | StreamMover::Splice)
    }

    /// How much of the `filled` bytes is in the destination already.
    fn written(&self, filled: usize) -> usize {
        if self.touches_both() { filled } else { 0 }
    }

    /// The `filled` bytes, if they passed through this program's memory.
    fn held(&self, filled: usize) -> Option<&[u8]> {
        match self {
            StreamMover::Buffer(buffer) => Some(&buffer[..filled]),
            StreamMover::Sendfile | StreamMover::Splice | StreamMover::Pipe { .. } => None,
        }
    }

    /// Hands on what was taken and lies in `range`.
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
