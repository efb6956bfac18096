//! Options of senders and rings.

use std::time::Duration;

use super::plan::Mode;

/// Options of a [`Sender`](super::Sender).
///
/// ```
/// use std::time::Duration;
/// use uncopy::send::{Mode, SenderOptions};
///
/// let patience = Some(Duration::from_secs(5));
/// let options = SenderOptions::new().mode(Mode::Zerocopy).send_timeout(patience);
/// assert_eq!(options.send_timeout, patience);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderOptions {
    /// Whether to lend or to copy.
    pub mode: Mode,
    /// How long a send waits for room in the socket before it fails with `ETIMEDOUT`. `None`: without a
    /// limit.
    pub send_timeout: Option<Duration>,
    /// How long the socket and buffers of a dropped sender are kept before a TCP connection is aborted. The
    /// buffers are kept until they are released in any case.
    pub park_timeout: Duration,
}

impl Default for SenderOptions {
    fn default() -> SenderOptions {
        let park_timeout = Duration::from_secs(60);
        SenderOptions { mode: Mode::Auto, send_timeout: None, park_timeout }
    }
}

impl SenderOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> SenderOptions {
        SenderOptions::default()
    }

    /// Sets whether to lend or to copy.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> SenderOptions {
        self.mode = mode;
        self
    }

    /// Sets how long a send waits for room; `None`: without a limit.
    #[must_use]
    pub fn send_timeout(mut self, send_timeout: Option<Duration>) -> SenderOptions {
        self.send_timeout = send_timeout;
        self
    }

    /// Sets how long socket and buffers of a dropped sender are kept.
    #[must_use]
    pub fn park_timeout(mut self, park_timeout: Duration) -> SenderOptions {
        self.park_timeout = park_timeout;
        self
    }
}

/// Options of a [`Ring`](super::Ring).
///
/// ```
/// use uncopy::send::{Mode, RingOptions};
///
/// let options = RingOptions::new().mode(Mode::Zerocopy).entries(64);
/// assert_eq!(options.entries, 64);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingOptions {
    /// Maximum number of sends that one system call submits. Rounded up to a power of two.
    pub entries: u32,
    /// Size of the completion queue; further completions go to an overflow list, which costs more.
    /// `None`: four for each entry; a send has two.
    pub completions: Option<u32>,
    /// Whether to lend or to copy.
    pub mode: Mode,
    /// How long the sockets of a dropped ring are kept before TCP connections are aborted, as
    /// [`SenderOptions::park_timeout`](super::SenderOptions::park_timeout). See
    /// [Dropping](super::Ring#dropping).
    pub drop_timeout: Duration,
    /// Whether single calls (`MSG_ZEROCOPY`) are used even where io_uring is available.
    pub without_io_uring: bool,
}

impl Default for RingOptions {
    fn default() -> RingOptions {
        RingOptions {
            entries: 256,
            completions: None,
            mode: Mode::Auto,
            drop_timeout: Duration::from_secs(60),
            without_io_uring: false,
        }
    }
}

impl RingOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> RingOptions {
        RingOptions::default()
    }

    /// Sets the maximum number of sends that one system call submits.
    #[must_use]
    pub fn entries(mut self, entries: u32) -> RingOptions {
        self.entries = entries;
        self
    }

    /// Sets the size of the completion queue; `None`: four for each entry.
    #[must_use]
    pub fn completions(mut self, completions: Option<u32>) -> RingOptions {
        self.completions = completions;
        self
    }

    /// Sets whether to lend or to copy.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> RingOptions {
        self.mode = mode;
        self
    }

    /// Sets how long the sockets of a dropped ring are kept.
    #[must_use]
    pub fn drop_timeout(mut self, drop_timeout: Duration) -> RingOptions {
        self.drop_timeout = drop_timeout;
        self
    }

    /// Sets whether single calls are used even where io_uring is available.
    #[must_use]
    pub fn without_io_uring(mut self, without_io_uring: bool) -> RingOptions {
        self.without_io_uring = without_io_uring;
        self
    }
}
