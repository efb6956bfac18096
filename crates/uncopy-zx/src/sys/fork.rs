//! Locks that are free in a forked child, whatever other threads did at that moment.
//!
//! The thread that forks takes them first (`pthread_atfork(3)`), and releases them in the parent and in the
//! child. No thread holds two of them, so that the order does not matter.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The locks of one place in this library.
pub(crate) trait ForkLocks: 'static {
    /// Value that each lock protects.
    type Content;

    /// Returns all of them.
    fn all() -> &'static [Mutex<Self::Content>];
    /// Returns whether forks wait for these locks.
    fn are_registered() -> &'static AtomicBool;
    /// Registers them.
    fn register();
}

/// Declares the locks of one place, which are registered when the program or the library is loaded: later,
/// another thread could already be forking. [`lock`] takes one of them.
macro_rules! fork_locks {
    ($(#[$attribute:meta])* $name:ident: [$content:ty; $count:expr] = $new:expr) => {
        $(#[$attribute])*
        enum $name {}

        impl $crate::sys::fork::ForkLocks for $name {
            type Content = $content;

            #[inline]
            fn all() -> &'static [std::sync::Mutex<$content>] {
                static LOCKS: [std::sync::Mutex<$content>; $count] =
                    [const { std::sync::Mutex::new($new) }; $count];
                &LOCKS
            }

            #[inline]
            fn are_registered() -> &'static std::sync::atomic::AtomicBool {
                static ARE_REGISTERED: std::sync::atomic::AtomicBool =
                    std::sync::atomic::AtomicBool::new(false);
                &ARE_REGISTERED
            }

            fn register() {
                extern "C" fn at_load() {
                    $crate::sys::fork::register::<$name>();
                }

                #[allow(unsafe_code, reason = "the attribute below")]
                #[used]
                // SAFETY: the loader calls the functions of this section, and this one uses nothing
                // that needs the program to be further.
                #[unsafe(link_section = ".init_array")]
                static AT_LOAD: extern "C" fn() = at_load;
                // Also has the linker take the function from a static library.
                std::hint::black_box(&AT_LOAD)();
            }
        }
    };
}
pub(crate) use fork_locks;

/// The locks of one place, held.
struct Held {
    place: TypeId,
    _guards: Box<dyn Any>,
}

thread_local! {
    /// Locks that this thread holds because it forks.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// Takes a lock; the process does not fork while it is held. Ignores poisoning, because nothing under these
/// locks panics.
pub(crate) fn lock<L: ForkLocks>(number: usize) -> MutexGuard<'static, L::Content> {
    if !L::are_registered().load(Ordering::Acquire) {
        L::register();
    }
    take(&L::all()[number])
}

fn take<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers the handlers, once.
#[cold]
pub(crate) fn register<L: ForkLocks>() {
    if L::are_registered().swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the handlers are functions of this library, and the C library forgets them if it is unloaded.
    // Fails if memory runs out; then forks do not wait.
    unsafe { libc::pthread_atfork(Some(before::<L>), Some(after::<L>), Some(after::<L>)) };
}

extern "C" fn before<L: ForkLocks>() {
    let place = TypeId::of::<L>();
    // Fails while the thread ends.
    let _ = HELD.try_with(|held| {
        let guards: Vec<_> = L::all().iter().map(take).collect();
        held.borrow_mut().push(Held { place, _guards: Box::new(guards) });
    });
}

extern "C" fn after<L: ForkLocks>() {
    let _ = HELD.try_with(|held| held.borrow_mut().retain(|held| held.place != TypeId::of::<L>()));
}
