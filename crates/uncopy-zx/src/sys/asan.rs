//! AddressSanitizer, where the program runs under it: memory of the program is looked at as the
//! sanitizer looks at what `memcpy` is given.

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

/// The first byte of a range that must not be used, or null (`sanitizer/asan_interface.h`).
type FirstPoisoned = unsafe extern "C" fn(start: *mut c_void, length: usize) -> *mut c_void;
/// Where the sanitizer's word on an address lies: at that, shifted, plus an offset.
type ShadowMapping = unsafe extern "C" fn(shift: *mut usize, offset: *mut usize);
type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// What the sanitizer has put into the program.
#[derive(Clone, Copy)]
pub(super) struct Sanitizer {
    first_poisoned: FirstPoisoned,
    memcpy: Memcpy,
    shift: usize,
    offset: usize,
}

/// The sanitizer that the program runs under, if it does.
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
        // SAFETY: both are numbers to be written to.
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
    /// The program must not use all of the range, although it is there, and the program's: for what
    /// is not, a status is the answer, and no report. `is_there` looks at one byte.
    pub(super) fn refuses(
        self,
        start: *const u8,
        length: usize,
        is_there: impl Fn(*const u8) -> bool,
    ) -> bool {
        // SAFETY: the sanitizer looks at its own memory alone.
        let first = unsafe { (self.first_poisoned)(start.cast_mut().cast(), length) };
        let word = (first.addr() >> self.shift).wrapping_add(self.offset);
        !first.is_null()
            && is_there(first.cast_const().cast())
            && is_there(std::ptr::without_provenance(word))
    }

    /// Copies as the program's own `memcpy` would, which reports what is wrong with that, and by
    /// default ends the program.
    ///
    /// # Safety
    /// As for `memcpy`, but for what the program must not use.
    pub(super) unsafe fn copy(self, to: *mut u8, from: *const u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.memcpy)(to.cast(), from.cast(), length) };
    }
}
