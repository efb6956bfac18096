//! Handles: what can be moved in a message.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
// Not shuttle's: a name that is never used twice needs no scheduling.
use std::sync::atomic::{AtomicU64, Ordering};

use super::Status;
use super::endpoint::Channel;
use super::eventfd::{Raised, SignalFd};
use super::object::{Descriptor, Event, EventPair, Fifo, Socket, Vmo};
use super::port::{AsyncOptions, Binding, Port};
use super::rights::{Grant, Rights};
use super::signals::{Observer, ObserverKind, Observers, Signals};
use super::sync::Arc;
use super::transport::wire::Wire;
use super::wait::{self, Deadline, Waiter};
use crate::sys::seqpacket::Ready;

/// Names one object (or one end of a pair) within this process; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Koid(u64);

impl Koid {
    pub(super) fn next() -> Koid {
        // Zircon's first ordinary koid (`ZX_KOID_FIRST`).
        static NEXT: AtomicU64 = AtomicU64::new(1024);
        Koid(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// What a handle's object is, with Zircon's numbers (`zx_obj_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Kind {
    /// A file descriptor, which Zircon does not have.
    Descriptor = 0,
    /// Memory.
    Vmo = 3,
    /// An endpoint of a channel.
    Channel = 4,
    /// An event.
    Event = 5,
    /// A port.
    Port = 6,
    /// An end of a stream or datagram socket.
    Socket = 14,
    /// An end of an event pair.
    EventPair = 16,
    /// An end of a fifo.
    Fifo = 19,
}

/// A descriptor to poll, and for what.
pub struct Bell {
    pub(super) clapper: Clapper,
    pub(super) ready: Ready,
}

/// The descriptor of a [`Bell`].
pub(super) enum Clapper {
    Wire(std::sync::Arc<Wire>),
    Epoll(std::sync::Arc<OwnedFd>),
}

impl Bell {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.clapper {
            Clapper::Wire(wire) => wire.fd(),
            Clapper::Epoll(set) => set.as_fd(),
        }
    }
}

/// What every object can be asked from within the module. Not to be implemented outside.
pub trait Source {
    /// Identity and rights of the handle.
    fn grant(&self) -> &Grant;
    /// The same, of a handle that nobody else holds.
    fn grant_mut(&mut self) -> &mut Grant;
    /// What it is.
    fn object_kind(&self) -> Kind;
    /// The object's koid, and its peer's.
    fn koids(&self) -> (Koid, Option<Koid>);
    /// The signals, without a lock.
    fn current_signals(&self) -> Signals {
        Signals::empty()
    }
    /// Brings the signals up to date, where another process changes them: takes in what has come.
    /// If one of `until` is set then, what comes meanwhile can wait.
    #[inline]
    fn refresh(&self, _until: Signals) {}
    /// None of `until` is set, and looking before a sleep has been of no use lately.
    #[inline]
    fn expects_sleep(&self, _until: Signals) -> bool {
        false
    }
    /// The same after a sleep. If `waiter` is listed for what is set then, it no longer is: all
    /// signals that are set.
    fn settle(&self, _waiter: &Arc<Waiter>, until: Signals) -> Option<Signals> {
        self.refresh(until);
        None
    }
    /// What to poll while waiting for `trigger`, where that shows nowhere else.
    fn bell(&self, _trigger: Signals) -> Option<Bell> {
        None
    }
    /// Runs under the object's lock; what to poll then.
    fn observers_and_bell(
        &self,
        trigger: Signals,
        run: &mut dyn FnMut(Signals, &mut Observers),
    ) -> Option<Bell> {
        self.observers(run);
        self.bell(trigger)
    }
    /// Has the binding's port poll what shows nowhere else.
    fn attach(&self, _binding: &Binding, _trigger: Signals) -> Result<(), Status> {
        Ok(())
    }
    /// Has the descriptor poll what shows nowhere else.
    fn attach_fd(&self, _raised: &Raised, _trigger: Signals) -> Result<(), Status> {
        Ok(())
    }
    /// Runs under the object's lock.
    fn observers(&self, run: &mut dyn FnMut(Signals, &mut Observers)) {
        run(Signals::empty(), &mut Observers::default());
    }
    /// Changes own user signals.
    fn change(&self, _clear: Signals, _set: Signals) -> Result<(), Status> {
        Err(Status::NotSupported)
    }
    /// Changes the peer's user signals.
    fn change_peer(&self, _clear: Signals, _set: Signals) -> Result<(), Status> {
        Err(Status::NotSupported)
    }
    /// Handles to the object in this process.
    fn handle_count(&self) -> usize {
        1
    }
    /// Ends what blocks on this handle other than waits for signals.
    fn cancel_calls(&self) {}
    /// Another handle to the object, which must be open.
    fn reissue(&self, grant: Grant) -> Result<Self, Status>
    where
        Self: Sized;
    /// A handle in the place of this one, whose grant is succeeded: the object counts that one, and
    /// is closed with it even while this one is in use.
    fn succeeded_by(&self, grant: Grant) -> Result<Self, Status>
    where
        Self: Sized,
    {
        self.reissue(grant)
    }
}

/// What every handle can do, whatever its object. Implemented by [`Handle`] and by each object's
/// own type.
pub trait Object: Source {
    /// What it is.
    fn kind(&self) -> Kind {
        self.object_kind()
    }

    /// What may be done with it. Empty after [`revoke`](Object::revoke).
    fn rights(&self) -> Rights {
        self.grant().rights()
    }

    /// Whether all of `needed` may be done with it.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] if not; [`Status::BadHandle`] after [`revoke`](Object::revoke).
    #[inline]
    fn check_rights(&self, needed: Rights) -> Result<(), Status> {
        self.grant().check(needed)
    }

    /// The object's name; all handles to it give the same.
    fn koid(&self) -> Koid {
        self.koids().0
    }

    /// The other end's, of an object that has one.
    fn related_koid(&self) -> Option<Koid> {
        self.koids().1
    }

    /// The signals that are set now.
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
        wait::wait_one(self, signals, deadline)
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
        let binding = Binding::new(port, key, options)?;
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

    /// A descriptor that polls readable while any of `signals` is set, for other event loops.
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

    /// The same at the other end.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::SIGNAL_PEER`], [`Status::InvalidArgs`],
    /// [`Status::PeerClosed`].
    fn signal_peer(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        self.grant().check(Rights::SIGNAL_PEER)?;
        self.change_peer(clear, set)
    }

    /// Another handle to the same object with `rights`, or the same ones.
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

    /// The handle again with fewer rights. The old one is consumed, also on failure; waits bound
    /// to it end.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] for rights that the handle does not have.
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

/// `wanted`, or all of `held`.
pub(super) fn subset(held: Rights, wanted: Option<Rights>) -> Result<Rights, Status> {
    match wanted {
        None => Ok(held),
        Some(rights) if held.contains(rights) => Ok(rights),
        Some(_) => Err(Status::InvalidArgs),
    }
}

macro_rules! handles {
    ($($(#[$doc:meta])* $kind:ident),*) => {
        /// A handle to an object of any kind. Dropping it closes it.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Handle {
            $($(#[$doc])* $kind($kind),)*
        }

        $(
            impl From<$kind> for Handle {
                fn from(object: $kind) -> Handle {
                    Handle::$kind(object)
                }
            }

            impl TryFrom<Handle> for $kind {
                type Error = Handle;

                /// Gives the handle back if it is of another kind.
                fn try_from(handle: Handle) -> Result<$kind, Handle> {
                    match handle {
                        Handle::$kind(object) => Ok(object),
                        other => Err(other),
                    }
                }
            }
        )*

        impl Handle {
            fn source(&self) -> &dyn Source {
                match self {
                    $(Handle::$kind(object) => object,)*
                }
            }
        }

        impl Source for Handle {
            fn grant(&self) -> &Grant {
                self.source().grant()
            }

            fn grant_mut(&mut self) -> &mut Grant {
                match self {
                    $(Handle::$kind(object) => object.grant_mut(),)*
                }
            }

            fn object_kind(&self) -> Kind {
                self.source().object_kind()
            }

            fn koids(&self) -> (Koid, Option<Koid>) {
                self.source().koids()
            }

            fn current_signals(&self) -> Signals {
                self.source().current_signals()
            }

            fn observers(&self, run: &mut dyn FnMut(Signals, &mut Observers)) {
                self.source().observers(run);
            }

            fn refresh(&self, until: Signals) {
                self.source().refresh(until);
            }

            fn expects_sleep(&self, until: Signals) -> bool {
                self.source().expects_sleep(until)
            }

            fn settle(&self, waiter: &Arc<Waiter>, until: Signals) -> Option<Signals> {
                self.source().settle(waiter, until)
            }

            fn observers_and_bell(
                &self,
                trigger: Signals,
                run: &mut dyn FnMut(Signals, &mut Observers),
            ) -> Option<Bell> {
                self.source().observers_and_bell(trigger, run)
            }

            fn bell(&self, trigger: Signals) -> Option<Bell> {
                self.source().bell(trigger)
            }

            fn attach(&self, binding: &Binding, trigger: Signals) -> Result<(), Status> {
                self.source().attach(binding, trigger)
            }

            fn attach_fd(&self, raised: &Raised, trigger: Signals) -> Result<(), Status> {
                self.source().attach_fd(raised, trigger)
            }

            fn change(&self, clear: Signals, set: Signals) -> Result<(), Status> {
                self.source().change(clear, set)
            }

            fn change_peer(&self, clear: Signals, set: Signals) -> Result<(), Status> {
                self.source().change_peer(clear, set)
            }

            fn handle_count(&self) -> usize {
                self.source().handle_count()
            }

            fn cancel_calls(&self) {
                self.source().cancel_calls();
            }

            fn reissue(&self, grant: Grant) -> Result<Handle, Status> {
                Ok(match self {
                    $(Handle::$kind(object) => object.reissue(grant)?.into(),)*
                })
            }

            fn succeeded_by(&self, grant: Grant) -> Result<Handle, Status> {
                Ok(match self {
                    $(Handle::$kind(object) => object.succeeded_by(grant)?.into(),)*
                })
            }
        }
    };
}

handles! {
    /// An endpoint of a channel.
    Channel,
    /// An event.
    Event,
    /// An end of an event pair.
    EventPair,
    /// A port.
    Port,
    /// An end of a socket.
    Socket,
    /// An end of a fifo.
    Fifo,
    /// Memory.
    Vmo,
    /// A file descriptor.
    Descriptor
}

impl Handle {
    /// Handles to the object that are open in this process, this one included; a descriptor counts
    /// as one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.handle_count()
    }

    /// A handle that takes this one's place while others are still using this one: with its rights,
    /// and with the waits and calls that are under way. They end when the new one is closed or read
    /// from a message, waits also when it goes to another process, and so does the object, if it is
    /// the last; dropping this one ends nothing.
    /// Nothing more can be bound to this one, and it cannot go to another process.
    ///
    /// # Errors
    /// [`Status::BadHandle`] if it was revoked; [`Status::NoResources`].
    pub fn succeed(&self) -> Result<Handle, Status> {
        self.succeeded_by(self.grant().succeed()?)
    }

    /// The handle was read at the far side: what still waits on it ends.
    pub(super) fn arrived(&self) {
        let id = self.grant().id();
        self.observers(&mut |_, observers| observers.cancel(id));
        self.cancel_calls();
        if let Handle::Channel(channel) = self {
            channel.left_queue();
            channel.was_read();
        }
    }
}
