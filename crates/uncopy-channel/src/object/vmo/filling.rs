//! Filling memory from a file or a socket, without a buffer of the program.

use std::os::fd::AsFd;

use super::{Vmo, unless_sealed};
use crate::Status;
use crate::rights::Rights;
use uncopy_core::Errno;
use uncopy_os::mapping::WritableWindow;
use uncopy_os::{memfd, transfer};

/// Bytes that one pipe holds, if the system allows it.
const PIPE_BYTES: usize = 1 << 20;

/// Mechanism that filled memory. The kernel copies the bytes once in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FillMechanism {
    /// `splice(2)` through a pipe.
    Splice,
    /// `read(2)` into a mapping, for sources that cannot be spliced.
    MappedRead,
}

/// Result of [`Vmo::fill_from`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filled {
    /// Bytes that were filled; fewer than wanted if the source ended, or has no more yet.
    pub bytes: u64,
    /// How.
    pub mechanism: FillMechanism,
}

impl Vmo {
    /// Fills `length` bytes at `offset` from `source` (a file at its file offset, a socket, a pipe), inside the kernel.
    /// Waits for a blocking source.
    ///
    /// ```
    /// use std::io::{Seek, Write};
    /// use uncopy::channel::Vmo;
    ///
    /// let mut file = tempfile::tempfile()?;
    /// file.write_all(&[7; 10_000])?;
    /// file.rewind()?;
    /// let memory = Vmo::new(10_000)?;
    /// assert_eq!(memory.fill_from(0, &file, 10_000)?.bytes, 10_000);
    /// memory.seal()?;
    /// assert_eq!(memory.map()?[..10_000], [7; 10_000]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`] if the range ends beyond the end;
    /// [`MemoryRefusal::Sealed`](crate::MemoryRefusal::Sealed); [`Status::ShouldWait`] if a non-blocking source has
    /// nothing yet; errors of reading from the source; [`Status::NoMemory`], and then bytes that were already taken
    /// from the source are lost.
    pub fn fill_from(&self, offset: u64, source: impl AsFd, length: u64) -> Result<Filled, Status> {
        self.grant.check(Rights::WRITE)?;
        self.check_range(offset, length)?;
        if memfd::is_sealed(self)? {
            return Err(unless_sealed(Errno::EPERM));
        }
        let (read, write, capacity) = transfer::pipe(PIPE_BYTES)?;
        let mut mechanism = FillMechanism::Splice;
        let mut done = 0;
        while done < length {
            let wanted = usize::try_from(length - done).unwrap_or(usize::MAX).min(capacity);
            let step = match mechanism {
                FillMechanism::Splice => transfer::splice_next(&source, &write, wanted),
                FillMechanism::MappedRead => self.read_in_place(offset + done, &source, wanted),
            };
            let taken = match step {
                Ok(0) => break,
                Ok(taken) => taken,
                Err(Errno::EINTR) => continue,
                // Not a source that can be spliced, or a filter of system calls.
                Err(Errno::EINVAL | Errno::ENOSYS | Errno::EPERM)
                    if done == 0 && mechanism == FillMechanism::Splice =>
                {
                    mechanism = FillMechanism::MappedRead;
                    continue;
                }
                Err(Errno::EAGAIN) if done > 0 => break,
                Err(Errno::EAGAIN) => return Err(Status::ShouldWait),
                Err(other) => return Err(other.into()),
            };
            let mut stored = if mechanism == FillMechanism::Splice { 0 } else { taken };
            while stored < taken {
                let at = offset + done + stored as u64;
                match transfer::splice_out(&read, self, at, taken - stored) {
                    Ok(0) => return Err(Errno::EIO.into()),
                    Ok(count) => stored += count,
                    Err(Errno::EINTR) => {}
                    Err(errno) => return Err(unless_sealed(errno)),
                }
            }
            done += taken as u64;
        }
        Ok(Filled { bytes: done, mechanism })
    }

    /// Reads at most `length` bytes into the memory itself.
    fn read_in_place(&self, offset: u64, source: impl AsFd, length: usize) -> Result<usize, Errno> {
        let skip = offset % memfd::page_bytes();
        let window = WritableWindow::new(self, offset - skip, skip as usize + length)?;
        window.read_from(skip as usize, length, source)
    }
}
