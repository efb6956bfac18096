//! Signals of an object that has no other end.

use std::sync::atomic::Ordering;

use crate::channel::Status;
use crate::channel::handle::Koid;
use crate::channel::signals::{Observers, Signals};
use crate::channel::sync::atomic::AtomicU32;
use crate::channel::sync::{Mutex, lock};
use crate::sys::fork::Generation;

pub(super) struct Solo {
    pub(super) koid: Koid,
    generation: Generation,
    /// Written under the lock, read without.
    signals: AtomicU32,
    observers: Mutex<Observers>,
}

impl Solo {
    pub(super) fn new() -> Solo {
        Solo {
            koid: Koid::next(),
            generation: Generation::current(),
            signals: AtomicU32::new(0),
            observers: Mutex::default(),
        }
    }

    #[inline]
    pub(super) fn signals(&self) -> Signals {
        Signals::from_bits_retain(self.signals.load(Ordering::Acquire))
    }

    /// Runs under the lock, unless this is a forked child.
    pub(super) fn observers(&self, run: &mut dyn FnMut(Signals, &mut Observers)) {
        if self.generation == Generation::current() {
            let mut observers = lock(&self.observers);
            run(self.signals(), &mut observers);
        }
    }

    /// Changes signals, of which the program may change `allowed`.
    pub(super) fn change(
        &self,
        allowed: Signals,
        clear: Signals,
        set: Signals,
    ) -> Result<(), Status> {
        if !allowed.contains(clear.union(set)) {
            return Err(Status::InvalidArgs);
        }
        let mut result = Err(Status::BadState);
        self.observers(&mut |old, observers| {
            let new = old.difference(clear).union(set);
            self.signals.store(new.bits(), Ordering::Release);
            if new != old && !observers.is_empty() {
                observers.notify(old, new);
            }
            result = Ok(());
        });
        result
    }
}

/// The part of `Source` that all types around an `Arc` with a `Solo` in it share: `$field` is the
/// `Arc`, `$user` what the program may change.
macro_rules! solo {
    ($name:ident, $kind:expr, $user:expr) => {
        impl $crate::channel::handle::Source for $name {
            #[inline]
            fn grant(&self) -> &$crate::channel::rights::Grant {
                &self.grant
            }

            fn grant_mut(&mut self) -> &mut $crate::channel::rights::Grant {
                &mut self.grant
            }

            fn object_kind(&self) -> $crate::channel::Kind {
                $kind
            }

            fn koids(&self) -> ($crate::channel::Koid, Option<$crate::channel::Koid>) {
                (self.core.solo.koid, None)
            }

            #[inline]
            fn current_signals(&self) -> $crate::channel::Signals {
                self.core.solo.signals()
            }

            fn observers(
                &self,
                run: &mut dyn FnMut(
                    $crate::channel::Signals,
                    &mut $crate::channel::signals::Observers,
                ),
            ) {
                self.core.solo.observers(run);
            }

            fn change(
                &self,
                clear: $crate::channel::Signals,
                set: $crate::channel::Signals,
            ) -> Result<(), $crate::channel::Status> {
                self.core.solo.change($user, clear, set)
            }

            fn reissue(
                &self,
                grant: $crate::channel::rights::Grant,
            ) -> Result<$name, $crate::channel::Status> {
                Ok($name { core: self.core.clone(), grant })
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                let id = self.grant.id();
                self.core.solo.observers(&mut |_, observers| observers.cancel(id));
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("koid", &self.core.solo.koid)
                    .field("signals", &self.core.solo.signals())
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(super) use solo;
