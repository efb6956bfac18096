//! Where the output of this process goes: to its own streams, or to the other machine that it copies for.

use std::io::{self, Write};
use std::sync::OnceLock;

use uncopy::copy::job::JobProgress;

/// One of two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// The other machine, whose person or program reads the output.
pub(crate) trait Outlet: Send + Sync {
    /// Writes to a stream of the process there.
    ///
    /// # Errors
    /// The connection is gone.
    fn write(&self, stream: Stream, bytes: &[u8]) -> io::Result<()>;

    /// Shows how far the copy is.
    fn progress(&self, progress: JobProgress);
}

static OUTLET: OnceLock<Box<dyn Outlet>> = OnceLock::new();

/// Sends all output of this process to the other machine from now on.
pub(crate) fn redirect(to: Box<dyn Outlet>) {
    let is_first = OUTLET.set(to).is_ok();
    debug_assert!(is_first, "a process copies for one other machine");
}

/// Returns the other machine, if the output goes there.
pub(crate) fn away() -> Option<&'static dyn Outlet> {
    OUTLET.get().map(|outlet| &**outlet)
}

/// Writes to a stream in one piece.
///
/// # Errors
/// Nobody reads it, or it has no room.
pub(crate) fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match (away(), stream) {
        (Some(outlet), stream) => outlet.write(stream, bytes),
        (None, Stream::Output) => {
            let mut output = io::stdout().lock();
            output.write_all(bytes)?;
            output.flush()
        }
        (None, Stream::Error) => io::stderr().write_all(bytes),
    }
}
