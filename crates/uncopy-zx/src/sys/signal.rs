//! Handlers of `SIGSEGV` and `SIGBUS`: after faults of the copying code it continues at its landing
//! address; all other signals are passed to the previous handler.
//!
//! A fault is recognised by the program counter: a fault at a non-canonical address has no
//! `si_addr` (`arch/x86/kernel/traps.c`, a general protection fault).

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{SIG_DFL, SIG_IGN, SIGBUS, SIGSEGV, c_int, c_void, sigaction, siginfo_t, ucontext_t};

use super::arch;

/// `si_code` of a hardware error that no thread has accessed yet (`asm-generic/siginfo.h`): it is not
/// repeated when its handler returns.
const BUS_MCEERR_AO: c_int = 5;

/// Previous action of one signal.
struct PreviousAction {
    action: UnsafeCell<MaybeUninit<sigaction>>,
    is_known: AtomicBool,
    /// Whether it was to be called once (`SA_RESETHAND`), and has been.
    is_spent: AtomicBool,
}

// SAFETY: the action is written once, before `is_known` is set, and only read after that.
unsafe impl Sync for PreviousAction {}

impl PreviousAction {
    const fn new() -> PreviousAction {
        PreviousAction {
            action: UnsafeCell::new(MaybeUninit::uninit()),
            is_known: AtomicBool::new(false),
            is_spent: AtomicBool::new(false),
        }
    }

    fn get(&self) -> Option<&sigaction> {
        if !self.is_known.load(Ordering::Acquire) || self.is_spent.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: it is not written any more.
        let action = unsafe { &*self.action.get() };
        // SAFETY: it was written before `is_known` was set.
        Some(unsafe { action.assume_init_ref() })
    }
}

static SEGV: PreviousAction = PreviousAction::new();
static BUS: PreviousAction = PreviousAction::new();
/// Number of faults of the copying code.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of faults of the copying code since the process began.
pub(crate) fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// Installs both handlers, once; returns false if the system refuses. The caller holds a lock.
pub(super) fn install() -> bool {
    [(SIGSEGV, &SEGV), (SIGBUS, &BUS)].into_iter().all(|(signal, before)| hook(signal, before))
}

fn hook(signal: c_int, before: &PreviousAction) -> bool {
    if before.is_known.load(Ordering::Acquire) {
        return true;
    }
    let mut old = MaybeUninit::<sigaction>::zeroed();
    // SAFETY: `old` has room for an action; none is installed.
    if unsafe { libc::sigaction(signal, null(), old.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call above filled it.
    let old = unsafe { old.assume_init() };
    // SAFETY: under the caller's lock, and it is not read before `is_known` is set.
    unsafe { (*before.action.get()).write(old) };
    before.is_known.store(true, Ordering::Release);
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_fault;
    let mut new = old;
    new.sa_sigaction = handler as *const () as usize;
    // The previous handler is called under the same conditions: its mask and `SA_RESTART`. Uses the
    // alternate stack, because the fault may be a stack overflow.
    new.sa_flags = libc::SA_SIGINFO
        | libc::SA_ONSTACK
        | (old.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART));
    // SAFETY: a whole action, with a handler that is async-signal-safe and never goes away (the
    // library is linked with `-z nodelete`).
    let installed = unsafe { libc::sigaction(signal, &raw const new, null_mut()) } == 0;
    if !installed {
        before.is_known.store(false, Ordering::Release);
    }
    installed
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers to a handler with `SA_SIGINFO`.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above; only this thread uses it while the handler runs.
    let registers = unsafe { &mut *context.cast::<ucontext_t>() };
    // Signals sent by a process are not faults, wherever they interrupt.
    if code > 0 && arch::land(registers) {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    pass_on(signal, info, context, code);
}

/// Performs the previous action of the signal.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, code: c_int) {
    let before = if signal == SIGSEGV { &SEGV } else { &BUS };
    let Some(action) = before.get() else { return default(signal, info, code) };
    match action.sa_sigaction {
        // The kernel does not let faults be ignored (`force_sig_info_to_task`).
        SIG_DFL => default(signal, info, code),
        SIG_IGN if code > 0 => default(signal, info, code),
        SIG_IGN => {}
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                before.is_spent.store(true, Ordering::Relaxed);
            }
            if action.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: with this flag the address is a function of three arguments.
                let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: without the flag the address is a function of one argument.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}

/// Performs the default action, so that the core dump and the parent's `wait(2)` show the original
/// cause.
fn default(signal: c_int, info: *mut siginfo_t, code: c_int) {
    // SAFETY: an action of zeroes is the default one, without flags.
    let action = unsafe { MaybeUninit::<sigaction>::zeroed().assume_init() };
    // SAFETY: a whole action.
    unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
    if code > 0 && code != BUS_MCEERR_AO {
        // The instruction runs again, and faults again.
        return;
    }
    // SAFETY: only returns a number.
    let process = unsafe { libc::getpid() };
    // SAFETY: only returns a number.
    let thread = unsafe { libc::gettid() };
    // SAFETY: `info` is the kernel's; the signal is delivered when this handler returns.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) };
}
