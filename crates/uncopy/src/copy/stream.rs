//! Sources that are read to their end, whatever size they claim: pseudo files, pipes, devices,
//! and empty files.

use std::os::fd::BorrowedFd;

use super::observer::{Control, Observer, Phase, Progress};
use super::source::Source;
use super::staging::Staging;
use crate::error::{Errno, Error, Reason, Result};
use crate::receipt::{Cost, Mechanism, Receipt};
use crate::sys::{Sys, transfer};

const BUFFER_BYTES: usize = 128 << 10;

/// Reads until there is no more. Returns the number of bytes.
pub(crate) fn copy_to_end(
    source: &Source<'_>,
    staging: &Staging<'_>,
    receipt: &mut Receipt,
    observer: &mut dyn Observer,
) -> Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    loop {
        let n = match transfer::read(source.fd(), &mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(Error::system("read", source.path, errno)),
        };
        write_all(staging.fd(), &buffer[..n])
            .map_err(|e| Error::system("write to", &staging.destination().given, e))?;
        total += n as u64;
        receipt.add(Mechanism::ReadWrite, n as u64, Cost::UserCopied);
        let progress = Progress { phase: Phase::Copying, done_bytes: total, total_bytes: 0 };
        if observer.progress(progress) == Control::Stop {
            return Err(Error::new("copy", source.path, Reason::Cancelled));
        }
    }
    Ok(total)
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Sys<()> {
    while !bytes.is_empty() {
        match transfer::write(fd, bytes) {
            Ok(0) => return Err(Errno::EIO),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
