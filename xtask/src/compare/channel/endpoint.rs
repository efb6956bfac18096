//! An end that sends and receives.

use std::io::IoSlice;

use anyhow::Result;

/// One end of something that carries messages.
pub(super) trait Endpoint {
    /// Sends the regions as one message.
    ///
    /// # Errors
    /// Its own.
    fn send(&mut self, regions: &[IoSlice<'_>]) -> Result<()>;

    /// Waits for a message and takes it out; says how long it is.
    ///
    /// # Errors
    /// Its own, or that the other end is gone.
    fn receive(&mut self) -> Result<usize>;
}
