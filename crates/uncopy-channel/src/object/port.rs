//! Ports: one queue of packets for the signals of many objects.

use std::fmt;

use super::Object;
use crate::Status;
use crate::identity::{Kind, Koid};
use crate::packets::{AsyncOptions, Binding, Packet, PortQueue};
use crate::rights::{Grant, Rights};
use crate::sleep::Deadline;
use crate::source::Source;
use crate::sync::Arc;

/// A queue of packets, first in, first out, at which several threads can wait.
pub struct Port {
    queue: Arc<PortQueue>,
    grant: Grant,
}

impl Default for Port {
    fn default() -> Port {
        Port::new()
    }
}

impl Port {
    /// Makes a port.
    #[must_use]
    pub fn new() -> Port {
        Port { queue: Arc::new(PortQueue::new()), grant: Grant::new(Rights::PORT) }
    }

    /// Queues a user packet.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::ShouldWait`] while 16,384
    /// such packets are queued.
    pub fn queue(&self, key: u64, contents: [u8; 32]) -> Result<(), Status> {
        self.queue_status(key, 0, contents)
    }

    /// Queues a packet as [`queue`](Self::queue) does, with a status that the program chooses.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_status(&self, key: u64, status: i32, contents: [u8; 32]) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        self.queue.put(key, status, contents)
    }

    /// Takes the oldest packet, waiting for one.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::TimedOut`];
    /// [`Status::Canceled`] if this handle is revoked meanwhile, or the handle that succeeded it is
    /// closed as the last one.
    pub fn wait(&self, deadline: Deadline) -> Result<Packet, Status> {
        self.grant.check(Rights::READ)?;
        self.queue.take(deadline, || self.grant.check(Rights::READ).is_ok())
    }

    /// Cancels what [`wait_async`](Object::wait_async) bound with `source` and `key`: removes waits
    /// and queued packets.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::NotFound`] if there is
    /// neither.
    pub fn cancel(&self, source: &dyn Object, key: u64) -> Result<(), Status> {
        self.grant.check(Rights::WRITE)?;
        let queue = &self.queue;
        let id = source.grant().id();
        let mut found = false;
        source.observers(&mut |_, observers| found |= observers.unbind(queue, id, key));
        found |= queue.remove_packets(id, key)?;
        if found { Ok(()) } else { Err(Status::NotFound) }
    }

    /// Returns a binding that queues a packet with `key` at this port.
    pub(super) fn bind(&self, key: u64, options: AsyncOptions) -> Result<Binding, Status> {
        if options.contains(AsyncOptions::TIMESTAMP | AsyncOptions::BOOT_TIMESTAMP) {
            return Err(Status::InvalidArgs);
        }
        self.grant.check(Rights::WRITE)?;
        Ok(Binding::new(self.queue.clone(), key, options))
    }
}

impl Source for Port {
    #[inline]
    fn grant(&self) -> &Grant {
        &self.grant
    }

    fn grant_mut(&mut self) -> &mut Grant {
        &mut self.grant
    }

    fn object_kind(&self) -> Kind {
        Kind::Port
    }

    fn koids(&self) -> (Koid, Option<Koid>) {
        (self.queue.koid(), None)
    }

    fn cancel_calls(&self) {
        self.queue.wake_all();
    }

    fn handle_count(&self) -> usize {
        self.queue.handles() as usize
    }

    fn reissue(&self, grant: Grant) -> Result<Port, Status> {
        self.queue.open_again()?;
        self.succeeded_by(grant)
    }

    fn succeeded_by(&self, grant: Grant) -> Result<Port, Status> {
        Ok(Port { queue: self.queue.clone(), grant })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.queue.is_inherited() {
            // In a forked child: another thread may have been changing it, so it is not dropped.
            std::mem::forget(self.queue.clone());
        } else if !self.grant.is_succeeded() {
            self.queue.close();
        }
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("koid", &self.koid()).finish_non_exhaustive()
    }
}
