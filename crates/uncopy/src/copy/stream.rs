//! Sources that are read to their end, whatever size they claim: pseudo files, pipes, devices,
//! and empty files.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use super::destination::Destination;
use super::observer::{Control, Observer, Phase, Progress};
use super::source::Source;
use super::staging::Staging;
use crate::error::{Errno, Error, Reason, Result};
use crate::receipt::{Cost, Mechanism, Receipt};
use crate::sys::file::{self, Ready};
use crate::sys::transfer;

const BUFFER_BYTES: usize = 128 << 10;

/// How long to wait for the other end of a pipe before the observer is asked again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Opens a FIFO or device to write to. A FIFO that nobody reads yet is waited for, and the
/// observer may end that.
pub(crate) fn open_for_writing(
    destination: &Destination,
    observer: &mut dyn Observer,
) -> Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
    loop {
        match file::open(&destination.path, flags) {
            // No reader yet (fifo(7)).
            Err(Errno::ENXIO) if destination.is_fifo() => {
                go_on(observer, destination, 0)?;
                thread::sleep(PATIENCE);
            }
            other => {
                let fail = |e| Error::system("open for writing", &destination.given, e);
                return other.map_err(fail);
            }
        }
    }
}

/// Reads until there is no more. Returns the number of bytes.
pub(crate) fn copy_to_end(
    source: &Source<'_>,
    staging: &Staging<'_>,
    receipt: &mut Receipt,
    observer: &mut dyn Observer,
) -> Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    // Regular files are always ready, and need not be asked; pseudo files may wait as well
    // (/proc/kmsg).
    let may_wait = !source.is_told();
    loop {
        let fail = |errno| Error::system("read", source.path, errno);
        if may_wait && !file::wait(source.fd(), Ready::ToRead, PATIENCE).map_err(fail)? {
            go_on(observer, staging.destination(), total)?;
            continue;
        }
        let n = match transfer::read(source.fd(), &mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(fail(errno)),
        };
        write_all(staging, &buffer[..n], total, observer)?;
        total += n as u64;
        receipt.add(Mechanism::ReadWrite, n as u64, Cost::UserCopied);
        go_on(observer, staging.destination(), total)?;
    }
    Ok(total)
}

fn write_all(
    staging: &Staging<'_>,
    mut bytes: &[u8],
    total: u64,
    observer: &mut dyn Observer,
) -> Result<()> {
    let destination = staging.destination();
    let fail = |errno| Error::system("write to", &destination.given, errno);
    while !bytes.is_empty() {
        match transfer::write(staging.fd(), bytes) {
            Ok(0) => return Err(fail(Errno::EIO)),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR) => {}
            // A pipe that is full.
            Err(Errno::EAGAIN) => {
                file::wait(staging.fd(), Ready::ToWrite, PATIENCE).map_err(fail)?;
                go_on(observer, destination, total)?;
            }
            Err(errno) => return Err(fail(errno)),
        }
    }
    Ok(())
}

fn go_on(observer: &mut dyn Observer, destination: &Destination, done_bytes: u64) -> Result<()> {
    let progress = Progress { phase: Phase::Copying, done_bytes, total_bytes: 0 };
    match observer.progress(progress) {
        Control::Continue => Ok(()),
        Control::Stop => Err(Error::new("copy to", &destination.given, Reason::Cancelled)),
    }
}
