//! Sources that are read to their end, whatever size they claim: pseudo files, pipes, devices,
//! and empty files.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};

use super::destination::Destination;
use super::observer::{self, Control, Observer, Phase, Progress};
use super::plan::{self, Facts, Verdict};
use super::source::Source;
use super::staging::Staging;
use crate::error::{Errno, Error, Reason, Result};
use crate::receipt::{Cost, Mechanism, Receipt, Refusal};
use crate::sys::file::{self, Ready};
use crate::sys::{Sys, transfer};

const BUFFER_BYTES: usize = 128 << 10;

/// How long to wait for the other end of a pipe before the observer is asked again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Opens a FIFO or device to write to. A FIFO that nobody reads yet is waited for, and the
/// observer may end that.
pub(crate) fn open_for_writing(
    destination: &Destination<'_>,
    observer: &mut dyn Observer,
) -> Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
    loop {
        match file::open(destination.path(), flags) {
            // No reader yet (fifo(7)).
            Err(Errno::ENXIO) if destination.is_fifo() => {
                go_on(observer, destination, 0)?;
                thread::sleep(PATIENCE);
            }
            other => {
                let fail = |e| Error::system("open for writing", destination.given, e);
                return other.map_err(fail);
            }
        }
    }
}

/// Moves bytes until there are no more, by `mechanism`. Returns their number.
pub(crate) fn copy_to_end(
    source: &Source<'_>,
    staging: &Staging<'_>,
    facts: &Facts,
    mechanism: Mechanism,
    receipt: &mut Receipt,
    observer: &mut dyn Observer,
) -> Result<u64> {
    let destination = staging.destination();
    let mut way = Way::new(mechanism, source, staging)
        .map_err(|e| Error::system("make a pipe to copy", source.path, e))?;
    let mut total = 0;
    source.settle()?;
    // Regular files are always ready, and need not be asked; pseudo files may wait as well
    // (/proc/kmsg).
    let may_wait = !source.is_told();
    loop {
        let fail = |errno| Error::system("read", source.path, errno);
        if may_wait && !file::wait(source.fd(), Ready::ToRead, PATIENCE).map_err(fail)? {
            go_on(observer, destination, total)?;
            continue;
        }
        let most = admit(observer, destination, total)?;
        let filled = way.fill(source, staging, most);
        if let Some(throttle) = observer.throttle() {
            throttle.give_back((most - filled.unwrap_or(0)) as u64);
        }
        let n = match filled {
            Ok(0) => break,
            Ok(n) => n,
            Err(Errno::EINTR) => continue,
            // The destination is a pipe that is full.
            Err(Errno::EAGAIN) => {
                file::wait(staging.fd(), Ready::ToWrite, PATIENCE).map_err(fail)?;
                go_on(observer, destination, total)?;
                continue;
            }
            Err(errno) => return Err(stopped(source, facts, mechanism, errno, total)),
        };
        let mut written = way.written(n);
        while written < n {
            match way.empty(staging, written..n) {
                Ok(0) => return Err(Error::system("write to", destination.given, Errno::EIO)),
                Ok(more) => written += more,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    file::wait(staging.fd(), Ready::ToWrite, PATIENCE).map_err(fail)?;
                    go_on(observer, destination, total)?;
                }
                Err(errno) => return Err(Error::system("write to", destination.given, errno)),
            }
        }
        total += n as u64;
        receipt.add(mechanism, n as u64, way.cost());
        source.look()?;
        go_on(observer, destination, total)?;
    }
    Ok(total)
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
    facts: &Facts,
    mechanism: Mechanism,
    errno: Errno,
    moved_bytes: u64,
) -> Error {
    if plan::classify(mechanism, errno, moved_bytes) == Verdict::Failed {
        return Error::system("read", source.path, errno);
    }
    let reason = plan::explain(mechanism, errno, facts);
    let refusal = Refusal { mechanism, reason, errno: Some(errno) };
    Error::new("copy", source.path, plan::no_mechanism(facts, &[refusal]))
}

/// How bytes come in, and go on from there.
enum Way {
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

impl Way {
    fn new(mechanism: Mechanism, source: &Source<'_>, staging: &Staging<'_>) -> Sys<Way> {
        let is_pipe = source.stat.file_type() == FileType::Fifo || staging.destination().is_fifo();
        Ok(match mechanism {
            Mechanism::Sendfile => Way::Sendfile,
            Mechanism::Splice if is_pipe => Way::Splice,
            Mechanism::Splice => {
                let (read, write, _) = transfer::pipe(BUFFER_BYTES)?;
                Way::Pipe { read, write }
            }
            _ => Way::Buffer(vec![0; BUFFER_BYTES]),
        })
    }

    fn cost(&self) -> Cost {
        if matches!(self, Way::Buffer(_)) { Cost::UserCopied } else { Cost::KernelCopied }
    }

    /// Takes what comes next, `most` bytes at most. 0: the end.
    fn fill(&mut self, source: &Source<'_>, staging: &Staging<'_>, most: usize) -> Sys<usize> {
        match self {
            Way::Buffer(buffer) => transfer::read(source.fd(), &mut buffer[..most]),
            Way::Sendfile => transfer::sendfile_next(source.fd(), staging.fd(), most),
            Way::Pipe { write, .. } => transfer::splice_next(source.fd(), write, most),
            Way::Splice => transfer::splice_next(source.fd(), staging.fd(), most),
        }
    }

    /// How much of the `filled` bytes is in the destination already.
    fn written(&self, filled: usize) -> usize {
        if matches!(self, Way::Sendfile | Way::Splice) { filled } else { 0 }
    }

    /// Hands on what was taken and lies in `range`.
    fn empty(&self, staging: &Staging<'_>, range: Range<usize>) -> Sys<usize> {
        match self {
            Way::Buffer(buffer) => transfer::write(staging.fd(), &buffer[range]),
            Way::Pipe { read, .. } => transfer::splice_next(read, staging.fd(), range.len()),
            Way::Sendfile | Way::Splice => Ok(range.len()),
        }
    }
}

fn go_on(
    observer: &mut dyn Observer,
    destination: &Destination<'_>,
    done_bytes: u64,
) -> Result<()> {
    let progress = Progress { phase: Phase::Copying, done_bytes, total_bytes: 0 };
    match observer.progress(progress) {
        Control::Continue => Ok(()),
        Control::Stop => Err(Error::new("copy to", destination.given, Reason::Cancelled)),
    }
}
