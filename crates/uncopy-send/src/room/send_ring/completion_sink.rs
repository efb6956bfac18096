//! The sink that receives the events of an engine's sends.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::room::inet::InetSocket;
use crate::room::zerocopy::Completed;
use uncopy_core::Errno;
use uncopy_os::Sys;

/// Receives the events of sends, from an engine that keeps a context `C` with each.
pub(crate) trait CompletionSink<B, C> {
    /// Decides whether a send that was refused with `errno` is tried once more, copied.
    fn should_retry_copied(&mut self, socket: IndexedSocket<'_>, errno: Errno, lent: bool) -> bool;
    /// Receives the result of a send: the number of bytes that the kernel took, or its refusal. `to` returns
    /// the address of a datagram that had one.
    fn ended(
        &mut self,
        number: u64,
        socket: IndexedSocket<'_>,
        to: impl FnOnce() -> Option<SocketAddr>,
        result: Sys<usize>,
    );
    /// Receives the payload of a send that the kernel no longer needs.
    fn completed(&mut self, socket: IndexedSocket<'_>, completed: Completed<B>, context: C);
}

/// A socket and its index.
#[derive(Clone, Copy)]
pub(crate) struct IndexedSocket<'a> {
    pub(crate) index: usize,
    pub(crate) socket: &'a InetSocket,
}

impl<'a> IndexedSocket<'a> {
    #[inline]
    pub(super) fn of(sockets: &'a [Arc<InetSocket>], index: usize) -> IndexedSocket<'a> {
        IndexedSocket { index, socket: &sockets[index] }
    }
}

/// Ignores all results and drops the payloads.
pub(super) struct DiscardSink;

impl<B, C> CompletionSink<B, C> for DiscardSink {
    fn should_retry_copied(&mut self, _: IndexedSocket<'_>, _: Errno, _: bool) -> bool {
        false
    }

    fn ended(
        &mut self,
        _: u64,
        _: IndexedSocket<'_>,
        _: impl FnOnce() -> Option<SocketAddr>,
        _: Sys<usize>,
    ) {
    }

    fn completed(&mut self, _: IndexedSocket<'_>, completed: Completed<B>, _: C) {
        // The payload's type is not ours and may panic. Unwinding from here would free memory that the
        // kernel still reads.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(completed)));
    }
}
