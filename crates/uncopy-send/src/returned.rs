//! Errors that return the buffers or releases of the failed operation.

use crate::counters::Counters;
use crate::release::Release;
use crate::room::{Payload, StableBytes};
use uncopy_core::Error;

/// A send that a ring did not take, with its buffers.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotTaken<B> {
    /// The buffers.
    pub payload: Payload<B>,
    /// The reason.
    pub error: Error,
}

/// A sender that could not be closed in order, with the releases until then.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotClosed<B> {
    /// The releases so far. Buffers that are not among them are parked.
    pub releases: Vec<Release<B>>,
    /// Totals of the sends.
    pub counters: Counters,
    /// The reason.
    pub error: Error,
}

/// Displays the type as its error, and converts it to that error by `?`.
macro_rules! reads_as_its_error {
    ($name:ident) => {
        impl<B: StableBytes> std::fmt::Display for $name<B> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.error.fmt(f)
            }
        }

        impl<B: StableBytes + std::fmt::Debug> std::error::Error for $name<B> {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                self.error.source()
            }
        }

        impl<B: StableBytes> From<$name<B>> for uncopy_core::Error {
            fn from(returned: $name<B>) -> uncopy_core::Error {
                returned.error
            }
        }
    };
}

reads_as_its_error!(NotTaken);
reads_as_its_error!(NotClosed);
#[cfg(feature = "tokio")]
pub(crate) use reads_as_its_error;
