//! AddressSanitizer: if the program runs under it, its memory is checked as the sanitizer checks the
//! arguments of `memcpy`.

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

/// Returns the first byte of a range that must not be used, or null (`sanitizer/asan_interface.h`).
type FirstPoisoned = unsafe extern "C" fn(start: *mut c_void, length: usize) -> *mut c_void;
/// Shift and offset that lead from an address to the sanitizer's shadow byte.
type ShadowMapping = unsafe extern "C" fn(shift: *mut usize, offset: *mut usize);
type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// Functions of the sanitizer in the program.
#[derive(Clone, Copy)]
pub(super) struct Sanitizer {
    first_poisoned: FirstPoisoned,
    memcpy: Memcpy,
    shift: usize,
    offset: usize,
}

/// Returns the sanitizer, if the program runs under it.
pub(super) fn sanitizer() -> Option<Sanitizer> {
    static FOUND: OnceLock<Option<Sanitizer>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let first_poisoned = symbol(c"__asan_region_is_poisoned")?;
        let mapping = symbol(c"__asan_get_shadow_mapping")?;
        let memcpy = symbol(c"memcpy")?;
        // SAFETY: the function of that name in `sanitizer/asan_interface.h`.
        let first_poisoned = unsafe { transmute::<*mut c_void, FirstPoisoned>(first_poisoned) };
        // SAFETY: the function of that name in `string.h`, or the sanitizer's in its place.
        let memcpy = unsafe { transmute::<*mut c_void, Memcpy>(memcpy) };
        // SAFETY: as for the first.
        let mapping = unsafe { transmute::<*mut c_void, ShadowMapping>(mapping) };
        let (mut shift, mut offset) = (0, 0);
        // SAFETY: both are local numbers.
        unsafe { mapping(&raw mut shift, &raw mut offset) };
        Some(Sanitizer { first_poisoned, memcpy, shift, offset })
    })
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a string; the handle is one that needs no library.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

impl Sanitizer {
    /// Whether the program must not use all of the range, although the memory exists. For memory that
    /// does not exist the result is a status and no report. `is_readable` checks one byte.
    pub(super) fn refuses(
        self,
        start: *const u8,
        length: usize,
        is_readable: impl Fn(*const u8) -> bool,
    ) -> bool {
        // SAFETY: the sanitizer only reads its own memory.
        let first = unsafe { (self.first_poisoned)(start.cast_mut().cast(), length) };
        let word = (first.addr() >> self.shift).wrapping_add(self.offset);
        !first.is_null()
            && is_readable(first.cast_const().cast())
            && is_readable(std::ptr::without_provenance(word))
    }

    /// Copies by the program's own `memcpy`, which reports the error and by default ends the
    /// program.
    ///
    /// # Safety
    /// As for `memcpy`, except that the range may be one that the program must not use.
    pub(super) unsafe fn copy(self, to: *mut u8, from: *const u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.memcpy)(to.cast(), from.cast(), length) };
    }
}
