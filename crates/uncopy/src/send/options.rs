//! What a sender can be told.

use std::time::Duration;

use super::plan::Mode;

/// How a [`Sender`](super::Sender) works.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderOptions {
    /// Whether to lend or to copy.
    pub mode: Mode,
    /// How long a send waits for room in the socket before it fails with `ETIMEDOUT`. `None`: for
    /// as long as it takes.
    pub send_timeout: Option<Duration>,
    /// How long socket and buffers of a dropped sender are kept for the kernel to finish with
    /// them, before a TCP connection is aborted. The buffers are kept until they are released in
    /// any case.
    pub park_timeout: Duration,
}

impl Default for SenderOptions {
    fn default() -> SenderOptions {
        let park_timeout = Duration::from_secs(60);
        SenderOptions { mode: Mode::Auto, send_timeout: None, park_timeout }
    }
}
