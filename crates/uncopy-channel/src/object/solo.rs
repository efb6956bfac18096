//! The signals of objects that are not one end of a [pair](crate::peer).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc as StdArc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use super::interprocess::Shared;
use crate::Status;
use crate::eventfd::Raised;
use crate::identity::Koid;
use crate::observers::{ObserverKind, Observers};
use crate::packets::{Binding, Refresh};
use crate::signals::Signals;
use crate::sleep::{PollDescriptor, PollTarget};
use crate::sync::atomic::AtomicU32;
use crate::sync::{Arc, Mutex, Weak, lock};
use uncopy_os::epoll::{self, Interest};
use uncopy_os::fork::Generation;
use uncopy_os::seqpacket::Ready;

pub(super) struct Solo {
    pub(super) koid: Koid,
    generation: Generation,
    /// Written under the lock, read without.
    signals: AtomicU32,
    observers: Mutex<Observers>,
    /// Memory with the signals, if other processes have the object too.
    shared: OnceLock<Shared>,
}

impl Solo {
    pub(super) fn new() -> Arc<Solo> {
        Arc::new(Solo {
            koid: Koid::next(),
            generation: Generation::current(),
            signals: AtomicU32::new(0),
            observers: Mutex::default(),
            shared: OnceLock::new(),
        })
    }

    #[inline]
    pub(super) fn signals(&self) -> Signals {
        Signals::from_bits_retain(self.signals.load(Ordering::Acquire))
    }

    /// Runs `run` under the lock, unless this is a forked child.
    pub(super) fn observers(&self, run: &mut dyn FnMut(Signals, &mut Observers)) {
        if self.generation == Generation::current() {
            let mut observers = lock(&self.observers);
            run(self.signals(), &mut observers);
        }
    }

    fn store(&self, observers: &mut Observers, old: Signals, new: Signals) {
        self.signals.store(new.bits(), Ordering::Release);
        if new != old && !observers.is_empty() {
            observers.notify(old, new);
        }
    }

    /// Changes signals; the program may change those of `allowed`.
    pub(super) fn change(
        &self,
        allowed: Signals,
        clear: Signals,
        set: Signals,
    ) -> Result<(), Status> {
        if allowed.contains(clear.union(set)) {
            self.update(clear, set)
        } else {
            Err(Status::InvalidArgs)
        }
    }

    /// Changes signals.
    pub(super) fn update(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        let mut result = Err(Status::BadState);
        self.observers(&mut |old, observers| {
            result = match self.shared.get() {
                Some(shared) => shared.write(clear, set),
                None => Ok(()),
            };
            if result.is_ok() {
                self.store(observers, old, old.difference(clear).union(set));
            }
        });
        if let Some(shared) = self.shared.get() {
            shared.ring();
            // The doorbell woke this process too.
            self.refresh_shared(shared);
        }
        result
    }

    /// Applies the changes of other processes.
    #[inline]
    pub(super) fn refresh(&self) {
        if let Some(shared) = self.shared.get() {
            self.refresh_shared(shared);
        }
    }

    #[cold]
    fn refresh_shared(&self, shared: &Shared) {
        self.observers(&mut |old, observers| self.store(observers, old, shared.read(old)));
    }

    pub(super) fn shared(&self) -> Option<&Shared> {
        self.shared.get()
    }

    /// Keeps the signals in `shared` from now on. If that is new, writes the current ones there.
    pub(super) fn share(self: &Arc<Solo>, shared: Shared, is_new: bool) -> Result<(), Status> {
        let mut result = Err(Status::BadState);
        let mut shared = Some(shared);
        self.observers(&mut |signals, observers| {
            let Some(shared) = shared.take() else { return };
            let written = if is_new { shared.write(Signals::empty(), signals) } else { Ok(()) };
            result = written.and_then(|()| self.attach_all(&shared, observers));
            if result.is_ok() {
                self.set_shared(shared);
                observers.recheck_waiters();
            }
        });
        result
    }

    /// Keeps the signals of two ends in new `shared` memory from now on: of both or, if that fails, of none.
    pub(super) fn share_both(solos: &[Arc<Solo>; 2], shared: [Shared; 2]) -> Result<(), Status> {
        let [here, there] = solos;
        let mut result = Err(Status::BadState);
        let mut shared = Some(shared);
        // Nothing else holds both locks.
        here.observers(&mut |signals_here, observers_here| {
            there.observers(&mut |signals_there, observers_there| {
                let Some([shared_here, shared_there]) = shared.take() else { return };
                result = shared_here
                    .write(Signals::empty(), signals_here)
                    .and_then(|()| shared_there.write(Signals::empty(), signals_there))
                    .and_then(|()| here.attach_all(&shared_here, observers_here))
                    .and_then(|()| there.attach_all(&shared_there, observers_there));
                if result.is_ok() {
                    here.set_shared(shared_here);
                    there.set_shared(shared_there);
                    observers_here.recheck_waiters();
                    observers_there.recheck_waiters();
                }
            });
        });
        result
    }

    /// Has all ports and descriptors poll `shared` too. Nothing remains of that when `shared` is dropped.
    fn attach_all(self: &Arc<Solo>, shared: &Shared, observers: &Observers) -> Result<(), Status> {
        let mut result = Ok(());
        observers.each(|observer| {
            let attached = match &observer.kind {
                ObserverKind::Thread { .. } => Ok(()),
                ObserverKind::Port(binding) => self.watch(shared, binding),
                ObserverKind::Descriptor(raised) => {
                    raised.upgrade().map_or(Ok(()), |raised| add(shared, raised.set()))
                }
            };
            result = result.and(attached);
        });
        result
    }

    /// Only under the lock. Threads that wait look without it, so they recheck afterwards what to poll.
    fn set_shared(&self, shared: Shared) {
        // Set once: whoever shares has seen under a lock that it was not.
        let _ = self.shared.set(shared);
    }

    fn watch(self: &Arc<Solo>, shared: &Shared, binding: &Binding) -> Result<(), Status> {
        let source = StdArc::new(Watched(Arc::downgrade(self)));
        let token = self.koid;
        binding.watch(token, source, |set| {
            let interest = Interest { read: true, edge: true, ..Interest::default() };
            Ok(epoll::add_once(&**set, shared.set().as_fd(), token.get(), interest)?)
        })
    }

    pub(super) fn poll_target(&self) -> Option<PollTarget> {
        let shared = self.shared.get()?;
        let ready = Ready { read: true, ..Ready::default() };
        Some(PollTarget { descriptor: PollDescriptor::Epoll(shared.set().clone()), ready })
    }

    pub(super) fn attach(self: &Arc<Solo>, binding: &Binding) -> Result<(), Status> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        self.watch(shared, binding)?;
        self.refresh_shared(shared);
        Ok(())
    }

    pub(super) fn attach_fd(&self, raised: &Raised) -> Result<(), Status> {
        self.shared.get().map_or(Ok(()), |shared| add(shared, raised.set()))
    }
}

fn add(shared: &Shared, set: &StdArc<OwnedFd>) -> Result<(), Status> {
    let interest = Interest { read: true, ..Interest::default() };
    Ok(epoll::add_once(&**set, shared.set().as_fd(), 1, interest)?)
}

/// Shared signals that a port polls for.
struct Watched(Weak<Solo>);

impl Refresh for Watched {
    fn refresh(&self) {
        if let Some(solo) = self.0.upgrade() {
            solo.refresh();
        }
    }

    fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Implements `Source` for a type with a method `solo`, which returns its `Solo`, methods `related`
/// and `change_other` for the other end, if it has one, and `count_handles`, `reissued` and
/// `inherited` for handles. `$user` are the signals that the program may change.
macro_rules! solo {
    ($name:ident, $kind:expr, $user:expr) => {
        impl $crate::source::Source for $name {
            #[inline]
            fn grant(&self) -> &$crate::rights::Grant {
                &self.grant
            }

            fn grant_mut(&mut self) -> &mut $crate::rights::Grant {
                &mut self.grant
            }

            fn object_kind(&self) -> $crate::Kind {
                $kind
            }

            fn koids(&self) -> ($crate::Koid, Option<$crate::Koid>) {
                (self.solo().koid, self.related())
            }

            #[inline]
            fn current_signals(&self) -> $crate::Signals {
                self.solo().signals()
            }

            #[inline]
            fn refresh(&self, _until: $crate::Signals) {
                self.solo().refresh();
            }

            fn poll_target(&self, _trigger: $crate::Signals) -> Option<$crate::sleep::PollTarget> {
                self.solo().poll_target()
            }

            fn attach(
                &self,
                binding: &$crate::packets::Binding,
                _trigger: $crate::Signals,
            ) -> Result<(), $crate::Status> {
                self.solo().attach(binding)
            }

            fn attach_fd(
                &self,
                raised: &$crate::eventfd::Raised,
                _trigger: $crate::Signals,
            ) -> Result<(), $crate::Status> {
                self.solo().attach_fd(raised)
            }

            fn observers(
                &self,
                run: &mut dyn FnMut($crate::Signals, &mut $crate::observers::Observers),
            ) {
                self.solo().observers(run);
            }

            fn change(
                &self,
                clear: $crate::Signals,
                set: $crate::Signals,
            ) -> Result<(), $crate::Status> {
                self.solo().change($user, clear, set)
            }

            fn change_peer(
                &self,
                clear: $crate::Signals,
                set: $crate::Signals,
            ) -> Result<(), $crate::Status> {
                self.change_other(clear, set)
            }

            fn handle_count(&self) -> usize {
                self.count_handles()
            }

            fn reissue(&self, grant: $crate::rights::Grant) -> Result<$name, $crate::Status> {
                self.reissued(grant)
            }

            fn succeeded_by(&self, grant: $crate::rights::Grant) -> Result<$name, $crate::Status> {
                self.inherited(grant)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("koid", &self.solo().koid)
                    .field("signals", &self.solo().signals())
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(super) use solo;

/// Implements these methods for a type around an `Arc` with a `Solo` that has no other end.
macro_rules! lone {
    ($name:ident) => {
        impl $name {
            #[inline]
            fn solo(&self) -> &Arc<Solo> {
                &self.core.solo
            }

            fn related(&self) -> Option<$crate::Koid> {
                None
            }

            fn change_other(
                &self,
                _: $crate::Signals,
                _: $crate::Signals,
            ) -> Result<(), $crate::Status> {
                Err($crate::Status::NotSupported)
            }

            /// Counts the references, of which each handle has one and nothing else has any.
            fn count_handles(&self) -> usize {
                Arc::strong_count(&self.core)
            }

            fn reissued(&self, grant: $crate::rights::Grant) -> Result<$name, $crate::Status> {
                Ok($name { core: self.core.clone(), grant })
            }

            fn inherited(&self, grant: $crate::rights::Grant) -> Result<$name, $crate::Status> {
                self.reissued(grant)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                let id = self.grant.id();
                if !self.grant.is_succeeded() {
                    self.solo().observers(&mut |_, observers| observers.cancel(id));
                }
            }
        }
    };
}
pub(super) use lone;
