//! Who is told what becomes of the sends of a ring.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::room::inet::InetSocket;
use crate::room::zerocopy::Completed;
use uncopy_core::Errno;
use uncopy_os::Sys;

/// Who is told what becomes of sends, by those who keep a `C` with each.
pub(crate) trait CompletionSink<B, C> {
    /// Of a refusal: whether the send is to be made once more, copied.
    fn should_retry_copied(&mut self, via: IndexedSocket<'_>, errno: Errno, lent: bool) -> bool;
    /// The kernel took so many bytes, or refused those that went to `to`, if they had an address.
    fn ended(
        &mut self,
        number: u64,
        via: IndexedSocket<'_>,
        to: impl FnOnce() -> Option<SocketAddr>,
        result: Sys<usize>,
    );
    /// Its memory is free.
    fn completed(&mut self, via: IndexedSocket<'_>, completed: Completed<B>, context: C);
}

/// The socket that a send goes over, and its index.
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

/// Cares for nothing, and frees what has landed.
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
        // By code that is not ours. Were it to unwind, what the kernel still has would go as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(completed)));
    }
}
