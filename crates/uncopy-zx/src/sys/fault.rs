//! Copies from and to addresses of a C program, which may be bad.
//!
//! In the first mode the copying code of `arch` accesses them directly, and signal handlers resume a
//! thread that faults in it at a landing address. In the second mode the kernel copies, and returns
//! `EFAULT`. Under AddressSanitizer both check with the sanitizer first.

use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use super::fork::{self, fork_locks};
use super::{arch, asan, kernel, signal};

/// Error of a bad address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault;

impl From<Fault> for uncopy_channel::Status {
    fn from(_: Fault) -> uncopy_channel::Status {
        uncopy_channel::Status::InvalidArgs
    }
}

/// Copies; returns a number other than 0 if either side faulted.
///
/// # Safety
/// Any writable memory in the `length` bytes at `to` may be overwritten, and the two ranges do not
/// overlap. Code of [`arch`] runs only while the handlers are installed.
pub(super) type Copy = unsafe extern "C" fn(to: *mut u8, from: *const u8, length: usize) -> u32;

/// The current copy function of one direction: a pointer, so that a copy costs as much as a call of
/// `memcpy`.
struct CopyFunction(AtomicPtr<()>);

/// Copies from the program.
static IN: CopyFunction = CopyFunction::new(first_in);
/// Copies to the program.
static OUT: CopyFunction = CopyFunction::new(first_out);
/// Copy functions under AddressSanitizer, after its check.
static ALLOWED_IN: CopyFunction = CopyFunction::new(first_in);
static ALLOWED_OUT: CopyFunction = CopyFunction::new(first_out);

impl CopyFunction {
    const fn new(copy: Copy) -> CopyFunction {
        CopyFunction(AtomicPtr::new(copy as *mut ()))
    }

    fn set(&self, copy: Copy) {
        self.0.store(copy as *mut (), Ordering::Relaxed);
    }

    #[inline]
    fn get(&self) -> Copy {
        let copy = self.0.load(Ordering::Relaxed);
        // SAFETY: only `new` and `set` write, and both write a `Copy`.
        unsafe { transmute::<*mut (), Copy>(copy) }
    }
}

/// Chooses the copy function at the first use, and copies.
///
/// # Safety
/// As [`type@Copy`].
unsafe extern "C" fn first_in(to: *mut u8, from: *const u8, length: usize) -> u32 {
    mode();
    // SAFETY: the caller's promise; the function has been chosen now.
    unsafe { IN.get()(to, from, length) }
}

/// Chooses the copy function at the first use, and copies.
///
/// # Safety
/// As [`type@Copy`].
unsafe extern "C" fn first_out(to: *mut u8, from: *const u8, length: usize) -> u32 {
    mode();
    // SAFETY: the promise of the caller, `copy_out`; the function has been chosen now.
    unsafe { OUT.get()(to, from, length) }
}

/// # Safety
/// As [`type@Copy`].
unsafe extern "C" fn checked_in(to: *mut u8, from: *const u8, length: usize) -> u32 {
    if let Some(sanitizer) = asan::sanitizer()
        && sanitizer.refuses(from, length, is_readable)
    {
        // SAFETY: the caller's promise, and `from` is readable.
        unsafe { sanitizer.copy(to, from, length) };
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { ALLOWED_IN.get()(to, from, length) }
}

/// # Safety
/// As [`type@Copy`].
unsafe extern "C" fn checked_out(to: *mut u8, from: *const u8, length: usize) -> u32 {
    if let Some(sanitizer) = asan::sanitizer()
        && sanitizer.refuses(to, length, is_readable)
    {
        // SAFETY: the caller's promise, and `to` is readable.
        unsafe { sanitizer.copy(to, from, length) };
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { ALLOWED_OUT.get()(to, from, length) }
}

/// Whether the byte can be read. The kernel checks it, so that no fault is counted.
fn is_readable(at: *const u8) -> bool {
    let mut byte = 0;
    // SAFETY: one byte, a local variable.
    unsafe { kernel::copy_in(&raw mut byte, at, 1) }.is_ok()
}

/// Has AddressSanitizer check a range of the program that the kernel will read or write, as it checks
/// the arguments of `memcpy`.
pub(super) fn check_sanitizer(start: *const u8, length: usize, is_written: bool) {
    let Some(sanitizer) = asan::sanitizer() else { return };
    if length == 0 || !sanitizer.refuses(start, length, is_readable) {
        return;
    }
    let mut own = vec![0u8; length];
    if is_written {
        // SAFETY: the program gave the range to be overwritten by this call.
        unsafe { sanitizer.copy(start.cast_mut(), own.as_ptr(), length) };
    } else {
        // SAFETY: `own` has that length.
        unsafe { sanitizer.copy(own.as_mut_ptr(), start, length) };
    }
}

/// # Safety
/// As [`type@Copy`].
unsafe extern "C" fn kernel_in(to: *mut u8, from: *const u8, length: usize) -> u32 {
    // SAFETY: the caller's promise.
    u32::from(unsafe { kernel::copy_in(to, from, length) }.is_err())
}

/// # Safety
/// As [`type@Copy`], and `from` is a slice of `length` bytes.
unsafe extern "C" fn kernel_out(to: *mut u8, from: *const u8, length: usize) -> u32 {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(from, length) };
    // SAFETY: the caller's promise.
    u32::from(unsafe { kernel::copy_out(to, bytes) }.is_err())
}

/// How bad addresses are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Handlers of `SIGSEGV` and `SIGBUS`.
    Handlers = 1,
    /// Copies by the kernel.
    Kernel = 2,
}

/// A `Mode`, or 0 before the first use.
static MODE: AtomicU8 = AtomicU8::new(0);

fork_locks! {
    /// Held while the mode changes.
    Change: [(); 1] = ()
}

/// Returns the current mode, and chooses one if there is none.
pub(crate) fn mode() -> Mode {
    match MODE.load(Ordering::Acquire) {
        1 => Mode::Handlers,
        2 => Mode::Kernel,
        _ => choose(Mode::Handlers, false),
    }
}

/// Changes to `wanted`, or to the kernel if handlers are not available; returns the new mode.
pub(crate) fn set_mode(wanted: Mode) -> Mode {
    choose(wanted, true)
}

#[cold]
fn choose(wanted: Mode, anew: bool) -> Mode {
    let held = fork::lock::<Change>(0);
    if !anew && MODE.load(Ordering::Relaxed) != 0 {
        drop(held);
        return mode();
    }
    let can_land = wanted == Mode::Handlers && arch::IS_SUPPORTED && signal::install();
    let mode = if can_land { Mode::Handlers } else { Mode::Kernel };
    // The handlers apply to all threads as soon as `sigaction(2)` returns.
    let (copy_in, copy_out) = match mode {
        Mode::Handlers => (arch::best(), arch::best()),
        Mode::Kernel => (kernel_in as Copy, kernel_out as Copy),
    };
    if asan::sanitizer().is_some() {
        ALLOWED_IN.set(copy_in);
        ALLOWED_OUT.set(copy_out);
        IN.set(checked_in);
        OUT.set(checked_out);
    } else {
        IN.set(copy_in);
        OUT.set(copy_out);
    }
    MODE.store(mode as u8, Ordering::Release);
    mode
}

/// Copies `length` bytes from an address that may be bad.
///
/// # Safety
/// `to` may be written for `length` bytes, and nothing else uses them.
#[inline]
pub(super) unsafe fn copy_in(to: *mut u8, from: *const u8, length: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise; memory of this library does not overlap the program's, unless
    // the program passes an address of it, and then the copied bytes do not matter.
    let failed = unsafe { IN.get()(to, from, length) };
    if failed == 0 { Ok(()) } else { Err(Fault) }
}

/// Copies `bytes` to an address that may be bad.
///
/// # Safety
/// The program gave the range at `to`, as long as `bytes`, to be overwritten.
#[inline]
pub(super) unsafe fn copy_out(to: *mut u8, bytes: &[u8]) -> Result<(), Fault> {
    // SAFETY: the caller's promise; `bytes` is a borrowed slice, so it does not belong to the
    // program.
    let failed = unsafe { OUT.get()(to, bytes.as_ptr(), bytes.len()) };
    if failed == 0 { Ok(()) } else { Err(Fault) }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Mode, arch, copy_in, copy_out, kernel, mode, set_mode};

    const BAD: [usize; 5] = [0, 1, usize::MAX, usize::MAX - 15, 1 << 63];

    #[test]
    fn copies_every_length_and_no_more() {
        let source: Vec<u8> = (0..70_010u32).map(|n| (n * 7 % 251) as u8).collect();
        for wanted in [Mode::Handlers, Mode::Kernel] {
            set_mode(wanted);
            for length in (0..700).chain([1000, 1150, 24_575, 24_576, 70_000]) {
                for offset in [0, 1, 31] {
                    let mut to = vec![0xee; length + offset + 1];
                    // SAFETY: both ranges are within their vectors.
                    unsafe { copy_in(to[offset..].as_mut_ptr(), source[3..].as_ptr(), length) }
                        .unwrap();
                    assert_eq!(to[offset..offset + length], source[3..3 + length], "{length}");
                    assert_eq!(to[offset + length], 0xee, "{length}");
                    assert!(to[..offset].iter().all(|byte| *byte == 0xee), "{length}");
                    // SAFETY: within the vector.
                    unsafe { copy_out(to[offset..].as_mut_ptr(), &source[5..5 + length]) }.unwrap();
                    assert_eq!(to[offset..offset + length], source[5..5 + length], "{length}");
                }
            }
        }
        assert_eq!(set_mode(Mode::Handlers), mode());
    }

    #[test]
    fn bad_addresses_are_faults_in_both_directions() {
        for wanted in [Mode::Handlers, Mode::Kernel] {
            set_mode(wanted);
            for address in BAD {
                for length in [1, 3, 7, 15, 31, 63, 128, 129, 5000, 70_000] {
                    let mut own = vec![0u8; length];
                    let bad = std::ptr::without_provenance_mut::<u8>(address);
                    // SAFETY: `own` has that length.
                    let read = unsafe { copy_in(own.as_mut_ptr(), bad, length) };
                    assert_eq!(read, Err(Fault), "{address:#x} {length}");
                    // SAFETY: nothing can be written there.
                    let written = unsafe { copy_out(bad, &own) };
                    assert_eq!(written, Err(Fault), "{address:#x} {length}");
                }
            }
        }
        set_mode(Mode::Handlers);
    }

    #[test]
    fn copy_functions_of_all_processors_copy_and_survive_bad_addresses() {
        assert_eq!(set_mode(Mode::Handlers) == Mode::Handlers, arch::IS_SUPPORTED);
        let source: Vec<u8> = (0..70_000u32).map(|n| (n * 7 % 251) as u8).collect();
        for copy in arch::all() {
            for length in (0..700).chain([24_575, 24_576, 69_990]) {
                let mut to = vec![0xee; length + 2];
                // SAFETY: both ranges are within their vectors.
                let failed = unsafe { copy(to[1..].as_mut_ptr(), source[3..].as_ptr(), length) };
                assert_eq!(failed, 0, "{length}");
                assert_eq!(to[1..=length], source[3..3 + length], "{length}");
                assert_eq!((to[0], to[length + 1]), (0xee, 0xee), "{length}");
                if length == 0 {
                    continue;
                }
                for address in BAD {
                    let bad = std::ptr::without_provenance_mut::<u8>(address);
                    // SAFETY: nothing can be written there.
                    let written = unsafe { copy(bad, source.as_ptr(), length) };
                    // SAFETY: `to` has that length.
                    let read = unsafe { copy(to.as_mut_ptr(), bad, length) };
                    assert!(written != 0 && read != 0, "{address:#x} {length}");
                }
            }
        }
    }

    #[test]
    fn copies_through_a_file_give_the_same_results() {
        let source: Vec<u8> = (0..=255).collect();
        let mut to = vec![0u8; 256];
        // SAFETY: both have 256 bytes.
        unsafe { kernel::file_copy_in(to.as_mut_ptr(), source.as_ptr(), 256) }.unwrap();
        assert_eq!(to, source);
        to.fill(0);
        // SAFETY: within the vector.
        unsafe { kernel::file_copy_out(to.as_mut_ptr(), &source) }.unwrap();
        assert_eq!(to, source);
        for address in BAD {
            let bad = std::ptr::without_provenance_mut::<u8>(address);
            // SAFETY: `to` has 256 bytes.
            assert!(unsafe { kernel::file_copy_in(to.as_mut_ptr(), bad, 256) }.is_err());
            // SAFETY: nothing can be written there.
            assert!(unsafe { kernel::file_copy_out(bad, &source) }.is_err());
        }
    }
}
