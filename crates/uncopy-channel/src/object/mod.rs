//! Objects: what every handle can do, whatever its object, and those that carry no handles.

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
pub use vmo::Vmo;

/// Operations that every handle has, whatever its object.
///
/// Sealed: [`Handle`](crate::Handle) and each object's own type implement it, and no other crate can.
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl uncopy::channel::Object for Mine {}
/// ```
pub trait Object: Source {
    /// Returns what it is.
    fn kind(&self) -> Kind {
        self.object_kind()
    }

    /// Returns what may be done with it; empty after [`revoke`](Object::revoke).
    fn rights(&self) -> Rights {
        self.grant().rights()
    }

    /// Checks that all of `needed` may be done with it.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] if not; [`Status::BadHandle`] after [`revoke`](Object::revoke).
    #[inline]
    fn check_rights(&self, needed: Rights) -> Result<(), Status> {
        self.grant().check(needed)
    }

    /// Returns the object's name; all handles to it give the same.
    fn koid(&self) -> Koid {
        self.koids().0
    }

    /// Returns the name of the other end, of an object that has one.
    fn related_koid(&self) -> Option<Koid> {
        self.koids().1
    }

    /// Returns the signals that are set now.
    fn signals(&self) -> Signals {
        self.refresh(Signals::empty());
        self.current_signals()
    }

    /// Waits until any of `signals` is set; says all that are set then. If one is set already, that
    /// costs one atomic load, or where the other end is in another process one system call, which
    /// takes in what has come from there.
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
    /// set already, unless the options ask for an edge. Ends with this handle.
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
    /// [`Status::AccessDenied`] without [`Rights::WAIT`], [`Status::NoResources`] if the process
    /// has no descriptor left.
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

    /// Makes another handle to the same object with `rights`, or the same ones.
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

    /// Replaces the handle by one with fewer rights. Waits bound to the old one end.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] for rights that the handle does not have.
    ///
    /// # Ownership
    /// The old handle is consumed, also on failure, as by `zx_handle_replace`.
    fn replace(self, rights: Option<Rights>) -> Result<Self, Status>
    where
        Self: Sized,
    {
        self.grant().check(Rights::empty())?;
        let rights = subset(self.grant().rights(), rights)?;
        self.reissue(Grant::new(rights))
    }

    /// Takes all rights from this handle while others may be using it: every wait and call on it
    /// ends with [`Status::Canceled`], everything later with [`Status::BadHandle`]. The object
    /// itself is closed when the handle is dropped.
    fn revoke(&self) {
        self.grant().revoke();
        let id = self.grant().id();
        self.observers(&mut |_, observers| observers.cancel(id));
        self.cancel_calls();
    }
}

impl<T: Source> Object for T {}
