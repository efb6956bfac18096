//! Defines the interface between staging and the journal for parts of a large file that another run
//! can resume.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};

use uncopy_core::{Errno, Error, Result};
use uncopy_os::Sys;
use uncopy_os::file::Stat;

use super::mechanism::Refused;

/// An unfinished file, and the name that it has in the destination's directory.
pub(crate) type Unfinished = (OwnedFd, OsString);

/// A large file on its way, chunk by chunk.
pub(crate) trait Parts: Send {
    /// Notes that the copy is made in a file that has, or gets, this name.
    fn begin(&mut self, name: &OsStr, stat: &Stat) -> Sys<()>;

    /// Reads what is there, chunk after chunk, as long as it is what was noted; returns up to where.
    /// `on_progress` receives the offset.
    fn verify(
        &mut self,
        copy: BorrowedFd<'_>,
        fail: &dyn Fn(Errno) -> Error,
        on_progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64>;

    /// Takes notice that the copy has come as far as `offset`.
    fn reached(
        &mut self,
        source: BorrowedFd<'_>,
        copy: (BorrowedFd<'_>, &OsStr),
        offset: u64,
    ) -> Result<(), Refused>;

    /// Flushes and notes what was copied in whole chunks.
    fn flush(&mut self, copy: (BorrowedFd<'_>, &OsStr)) -> Sys<()>;

    /// Notes the rest of what was copied, without flushing it: the file gets its final name next, and if the run is
    /// killed then, another one checks the copy by its chunks.
    fn end(&mut self, copy: (BorrowedFd<'_>, &OsStr)) -> Sys<()>;

    /// Whether there is anything to resume.
    fn is_noted(&self) -> bool;
}
