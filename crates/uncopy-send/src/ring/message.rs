//! Messages that go into a ring, and events that come out.

use std::fmt;
use std::net::SocketAddr;

use crate::notifier::Notification;
use crate::release::{Release, Sent};
use crate::room::send_ring::Registered;
use crate::room::{Payload, StableBytes};

/// The slot that a send is bound to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) slot: u32,
    /// Whether the slot is flushed with this send.
    pub(super) flush: bool,
}

/// A send for [`Ring::send`](super::Ring::send).
#[derive(Debug)]
#[must_use = "nothing is sent before it is given to a ring"]
pub struct Message<B> {
    pub(super) payload: Payload<B>,
    pub(super) to: Option<SocketAddr>,
    pub(super) bound: Option<Bound>,
}

impl<B: StableBytes> Message<B> {
    /// Makes a message of one buffer or several: one datagram, or the next bytes of a stream.
    pub fn new(payload: impl Into<Payload<B>>) -> Message<B> {
        Message { payload: payload.into(), to: None, bound: None }
    }

    /// Sets the address to send to, from a UDP socket that is connected or not.
    pub fn to(mut self, address: SocketAddr) -> Message<B> {
        self.to = Some(address);
        self
    }

    /// Binds the send to the notifier that is in this slot when the send is given to the ring. Its buffers
    /// come back with the [`Notification`].
    pub fn bind(mut self, slot: u32) -> Message<B> {
        self.bound = Some(Bound { slot, flush: false });
        self
    }

    /// Binds the send as [`bind`](Self::bind) does, as the last one of its notifier: the slot is flushed
    /// with it.
    pub fn bind_and_flush(mut self, slot: u32) -> Message<B> {
        self.bound = Some(Bound { slot, flush: true });
        self
    }
}

/// An event of a ring.
#[derive(Debug)]
pub enum RingEvent<B> {
    /// The result of a send.
    Sent(Sent),
    /// The buffers of a send that is not bound to a slot are free again.
    Released(Release<B>),
    /// The buffers of all sends of a notifier are free again.
    Notified(Notification<Release<B>>),
}

/// The pools that a [`Ring`](super::Ring) has registered, for rings of other threads. Keeps the pools'
/// memory.
pub struct RegisteredPools(pub(super) Registered);

impl fmt::Debug for RegisteredPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredPools").field(&self.0.pools).finish()
    }
}
