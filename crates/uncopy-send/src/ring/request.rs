//! A send as an engine takes it.

use std::net::SocketAddr;

use crate::room::Payload;

/// A send for an engine of a ring.
pub(super) struct Request<'a, B> {
    pub(super) payload: Payload<B>,
    /// Index of the socket.
    pub(super) socket: usize,
    pub(super) to: Option<&'a SocketAddr>,
    /// Maximum number of bytes of one system call or request.
    pub(super) max_bytes: usize,
    pub(super) lend: bool,
    /// Whether registered huge pages are sent as registered memory.
    pub(super) huge_by_index: bool,
}
