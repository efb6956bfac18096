//! Operations of every handle, and the objects that carry no handles.

use crate::Status;
use crate::identity::{Kind, Koid};
use crate::observers::{Observer, ObserverKind};
use crate::packets::AsyncOptions;
use crate::rights::{Grant, Rights, subset};
use crate::signals::Signals;
use crate::sleep::Deadline;
use crate::source::{self, Source};

mod descriptor;
mod event;
mod fifo;
mod interprocess;
mod port;
mod signal_fd;
mod socket;
mod solo;
mod vmo;

pub use descriptor::Descriptor;
pub use event::{Event, EventPair};
pub use fifo::Fifo;
pub use port::Port;
pub use signal_fd::SignalFd;
pub use socket::{Socket, SocketInfo, SocketKind};
pub use vmo::{FillMechanism, Filled, SealedBytes, Vmo};

/// Operations that every handle has.
///
/// Sealed: [`Handle`](crate::Handle) and each object's own type implement it, and no other crate can.
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl uncopy::channel::Object for Mine {}
/// ```
pub trait Object: Source {
    /// Returns the kind of the object.
    fn kind(&self) -> Kind {
        self.object_kind()
    }

    /// Returns the rights of the handle; empty after [`revoke`](Object::revoke).
    fn rights(&self) -> Rights {
        self.grant().rights()
    }

    /// Checks that the handle has all of `needed`.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] if not; [`Status::BadHandle`] after [`revoke`](Object::revoke).
    #[inline]
    fn check_rights(&self, needed: Rights) -> Result<(), Status> {
        self.grant().check(needed)
    }

    /// Returns the number of the object; all handles to it return the same.
    fn koid(&self) -> Koid {
        self.koids().0
    }

    /// Returns the number of the other end, if the object has one.
    fn related_koid(&self) -> Option<Koid> {
        self.koids().1
    }

    /// Returns the signals that are set now.
    fn signals(&self) -> Signals {
        self.refresh(Signals::empty());
        self.current_signals()
    }

    /// Waits until any of `signals` is set; returns all that are set then. If one is already set, this
    /// costs one atomic load, or one system call if the other end is in another process, which
    /// receives what has come from there.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WAIT`], [`Status::TimedOut`],
    /// [`Status::Canceled`] if the handle is revoked meanwhile.
    #[inline]
    fn wait_one(&self, signals: Signals, deadline: Deadline) -> Result<Signals, Status>
    where
        Self: Sized,
    {
        self.grant().check(Rights::WAIT)?;
        if !self.expects_sleep(signals) {
            self.refresh(signals);
            let observed = self.current_signals();
            if observed.intersects(signals) {
                return Ok(observed);
            }
        }
        source::wait_one(self, signals, deadline)
    }

    /// Has `port` receive one packet with `key` when any of `signals` is set: at once if one is
    /// already set, unless the options contain [`AsyncOptions::EDGE`]. The wait ends with this
    /// handle.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] if `port` lacks [`Rights::WRITE`] or this handle
    /// [`Rights::WAIT`]; [`Status::InvalidArgs`] for two timestamps.
    fn wait_async(
        &self,
        port: &Port,
        key: u64,
        signals: Signals,
        options: AsyncOptions,
    ) -> Result<(), Status> {
        let binding = port.bind(key, options)?;
        self.refresh(Signals::empty());
        let mut result = Err(Status::BadState);
        self.observers(&mut |current, observers| {
            result = self.grant().check_binding(Rights::WAIT);
            if result.is_err() {
                return;
            }
            let handle = self.grant().id();
            if current.intersects(signals) && !options.contains(AsyncOptions::EDGE) {
                binding.fire(handle, signals, current);
            } else {
                let kind = ObserverKind::Port(binding.clone());
                observers.add(Observer { handle, trigger: signals, kind });
            }
        });
        result?;
        self.attach(&binding, signals).inspect_err(|_| {
            let queue = binding.queue();
            let id = self.grant().id();
            self.observers(&mut |_, observers| {
                observers.unbind(queue, id, key);
            });
        })
    }

    /// Makes a descriptor that polls readable while any of `signals` is set, for other event loops.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::WAIT`], [`Status::NoResources`] if descriptors
    /// run out.
    fn signal_fd(&self, signals: Signals) -> Result<SignalFd, Status>
    where
        Self: Sized,
    {
        SignalFd::new(self, signals)
    }

    /// Clears and sets user signals (of events and event pairs also [`Signals::SIGNALED`]).
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::SIGNAL`], [`Status::InvalidArgs`] for other
    /// signals.
    fn signal(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        self.grant().check(Rights::SIGNAL)?;
        self.change(clear, set)
    }

    /// Changes user signals at the other end.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::SIGNAL_PEER`], [`Status::InvalidArgs`],
    /// [`Status::PeerClosed`].
    fn signal_peer(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        self.grant().check(Rights::SIGNAL_PEER)?;
        self.change_peer(clear, set)
    }

    /// Makes another handle to the same object with `rights`, or with the same rights.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::DUPLICATE`], [`Status::InvalidArgs`] for rights
    /// that this handle does not have, [`Status::NoResources`].
    fn duplicate(&self, rights: Option<Rights>) -> Result<Self, Status>
    where
        Self: Sized,
    {
        self.grant().check(Rights::DUPLICATE)?;
        let rights = subset(self.grant().rights(), rights)?;
        self.reissue(Grant::new(rights))
    }

    /// Replaces the handle by one with fewer rights. Waits on the old handle end.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] for rights that the handle does not have.
    ///
    /// # Ownership
    /// The old handle is consumed on success and on failure, as by `zx_handle_replace`.
    fn replace(self, rights: Option<Rights>) -> Result<Self, Status>
    where
        Self: Sized,
    {
        self.grant().check(Rights::empty())?;
        let rights = subset(self.grant().rights(), rights)?;
        self.reissue(Grant::new(rights))
    }

    /// Takes all rights from this handle while other threads may be using it: waits and calls on it
    /// end with [`Status::Canceled`], later operations fail with [`Status::BadHandle`]. The object is
    /// closed when the handle is dropped.
    fn revoke(&self) {
        self.grant().revoke();
        let id = self.grant().id();
        self.observers(&mut |_, observers| observers.cancel(id));
        self.cancel_calls();
    }
}

impl<T: Source> Object for T {}
