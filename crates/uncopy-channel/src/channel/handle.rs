//! Handles to objects of any kind; messages carry them.

use super::endpoint::Channel;
use crate::Status;
use crate::eventfd::Raised;
use crate::identity::{Kind, Koid};
use crate::object::{Descriptor, Event, EventPair, Fifo, Port, Socket, Vmo};
use crate::observers::Observers;
use crate::packets::Binding;
use crate::rights::Grant;
use crate::signals::Signals;
use crate::sleep::{PollTarget, Waiter};
use crate::source::{Intake, Source};
use crate::sync::Arc;

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

                /// Returns the handle as the error if it is of another kind.
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

            fn settle(
                &self,
                waiter: &Arc<Waiter>,
                until: Signals,
                intake: Intake,
            ) -> Option<Signals> {
                self.source().settle(waiter, until, intake)
            }

            fn observers_and_poll_target(
                &self,
                trigger: Signals,
                run: &mut dyn FnMut(Signals, &mut Observers),
            ) -> Option<PollTarget> {
                self.source().observers_and_poll_target(trigger, run)
            }

            fn poll_target(&self, trigger: Signals) -> Option<PollTarget> {
                self.source().poll_target(trigger)
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
    /// Returns the number of handles to the object that are open in this process, including this
    /// one; always 1 for a descriptor.
    #[must_use]
    pub fn count(&self) -> usize {
        self.handle_count()
    }

    /// Returns a handle that takes the place of this one while other threads still use this one. It
    /// has the same rights, and takes over the waits and calls in progress: they end when the new
    /// handle is closed or read from a message (waits also when it is sent to another process), and
    /// so does the object if that was its last handle. Dropping this handle ends nothing. No wait
    /// or call can be started on this handle any more, and it cannot be sent to another process.
    ///
    /// # Errors
    /// [`Status::BadHandle`] if it was revoked; [`Status::NoResources`].
    pub fn succeed(&self) -> Result<Handle, Status> {
        self.succeeded_by(self.grant().succeed()?)
    }

    /// Ends what still waits on a handle that was read from a message.
    pub(crate) fn arrived(&self) {
        let id = self.grant().id();
        self.observers(&mut |_, observers| observers.cancel(id));
        self.cancel_calls();
        if let Handle::Channel(channel) = self {
            channel.left_queue();
            channel.notify_read();
        }
    }
}
