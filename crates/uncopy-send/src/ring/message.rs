//! What goes into a ring, and what comes out.

use std::fmt;
use std::net::SocketAddr;

use super::socket_state::Bound;
use crate::notifier::Notification;
use crate::release::{Release, Sent};
use crate::room::send_ring::Registered;
use crate::room::{Payload, StableBytes};

/// A send for [`Ring::send`](super::Ring::send).
#[derive(Debug)]
#[must_use = "nothing is sent before it is given to a ring"]
pub struct Message<B> {
    pub(super) payload: Payload<B>,
    pub(super) to: Option<SocketAddr>,
    pub(super) bound: Option<Bound>,
}

impl<B: StableBytes> Message<B> {
    /// Makes a message of one buffer or several, as one datagram or behind what was sent before on a
    /// stream.
    pub fn new(payload: impl Into<Payload<B>>) -> Message<B> {
        Message { payload: payload.into(), to: None, bound: None }
    }

    /// Sends it to this address, from a UDP socket, whether or not it is connected.
    pub fn to(mut self, address: SocketAddr) -> Message<B> {
        self.to = Some(address);
        self
    }

    /// Binds it to the notifier that is in this slot when the send is given to the ring: its buffers
    /// come back with the [`Notification`].
    pub fn bind(mut self, slot: u32) -> Message<B> {
        self.bound = Some(Bound { slot, flush: false });
        self
    }

    /// Binds it as [`bind`](Self::bind) does, as the last of its notifier: the slot is flushed with it.
    pub fn bind_and_flush(mut self, slot: u32) -> Message<B> {
        self.bound = Some(Bound { slot, flush: true });
        self
    }
}

/// What happened on a ring.
#[derive(Debug)]
pub enum RingEvent<B> {
    /// The result of a send.
    Sent(Sent),
    /// The buffers of a send that is bound to no slot are free again.
    Released(Release<B>),
    /// The buffers of all sends of a notifier are free again.
    Notified(Notification<Release<B>>),
}

/// What a [`Ring`](super::Ring) has registered, for rings of other threads. Keeps the pools'
/// memory.
pub struct RegisteredPools(pub(super) Registered);

impl fmt::Debug for RegisteredPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredPools").field(&self.0.pools).finish()
    }
}
