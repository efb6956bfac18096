//! Limits of a session in time, and its traffic.

use std::time::Duration;

/// Limits in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time after which an end that has sent nothing sends a sign of life.
    pub ping: Duration,
    /// Time after which an end from which nothing came is taken for dead.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { ping: Duration::from_secs(10), silence: Duration::from_secs(30) }
    }
}

/// Bytes that have crossed the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}
