//! Opens FIFOs and devices for writing.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use super::destination::Destination;
use super::observer::{self, Observer, Phase, Progress};
use uncopy_core::{Errno, Error, Result};
use uncopy_os::name;

/// How long to wait for a reader before the observer is asked again.
const PATIENCE: Duration = Duration::from_millis(50);

/// Opens a FIFO or device to write to. A FIFO that nobody reads yet is waited for, and the
/// observer may end that.
pub(crate) fn open_for_writing(
    destination: &Destination<'_>,
    observer: &mut dyn Observer,
) -> Result<OwnedFd> {
    loop {
        match name::open_existing(destination.directory(), destination.name(), OFlags::WRONLY) {
            // No reader yet (fifo(7)).
            Err(Errno::ENXIO) if destination.is_fifo() => {
                let waiting = Progress { phase: Phase::Copying, done_bytes: 0, total_bytes: 0 };
                observer::report_writing(observer, waiting, destination.given)?;
                thread::sleep(PATIENCE);
            }
            other => {
                let fail = |e| Error::destination("open for writing", destination.given, e);
                return other.map_err(fail);
            }
        }
    }
}
