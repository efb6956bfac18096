//! Who is told what becomes of the sends of a ring.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::room::inet::InetSocket;
use crate::room::zerocopy::Landed;
use uncopy_core::Errno;
use uncopy_os::Sys;

/// Who is told what becomes of sends, by those who keep a `C` with each.
pub(crate) trait Witness<B, C> {
    /// Of a refusal: whether the send is to be made once more, copied.
    fn is_made_again(&mut self, over: Over<'_>, errno: Errno, lent: bool) -> bool;
    /// The kernel took so many bytes, or refused those that went to `to`, if they had an address.
    fn ended(
        &mut self,
        number: u64,
        over: Over<'_>,
        to: impl FnOnce() -> Option<SocketAddr>,
        result: Sys<usize>,
    );
    /// Its memory is free.
    fn landed(&mut self, over: Over<'_>, landed: Landed<B>, context: C);
}

/// The socket that a send goes over, and its index.
#[derive(Clone, Copy)]
pub(crate) struct Over<'a> {
    pub(crate) index: usize,
    pub(crate) socket: &'a InetSocket,
}

impl<'a> Over<'a> {
    #[inline]
    pub(super) fn of(sockets: &'a [Arc<InetSocket>], index: usize) -> Over<'a> {
        Over { index, socket: &sockets[index] }
    }
}

/// Cares for nothing, and frees what has landed.
pub(super) struct Nobody;

impl<B, C> Witness<B, C> for Nobody {
    fn is_made_again(&mut self, _: Over<'_>, _: Errno, _: bool) -> bool {
        false
    }

    fn ended(
        &mut self,
        _: u64,
        _: Over<'_>,
        _: impl FnOnce() -> Option<SocketAddr>,
        _: Sys<usize>,
    ) {
    }

    fn landed(&mut self, _: Over<'_>, landed: Landed<B>, _: C) {
        // By code that is not ours. Were it to unwind, what the kernel still has would go as well.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(landed)));
    }
}
