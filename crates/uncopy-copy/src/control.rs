//! Defines an observer's answer: continue or stop.

/// Whether to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Control {
    /// Continue.
    Continue,
    /// Stop: the copy removes what it wrote and returns an error for which
    /// [`is_cancelled`](uncopy_core::Error::is_cancelled) is true.
    Stop,
}
