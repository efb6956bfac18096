//! Exporting functions to C.

use std::panic::{AssertUnwindSafe, catch_unwind};

use uncopy_channel::Status;

use crate::abi::{ZX_ERR_INTERNAL, ZX_OK, zx_status_t};

/// Exports functions to C. A panic becomes a status, and does not unwind into the program's frames.
macro_rules! exported {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$attribute])*
        #[allow(clippy::too_many_arguments, reason = "Zircon's")]
        #[allow(unsafe_code, reason = "the attribute below; nothing in a body is unsafe")]
        // SAFETY: the name is Zircon's, for the same function, or begins with this project's
        // prefix.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> crate::abi::zx_status_t {
            crate::sys::boundary::guard(move || $body)
        }
    )*};
}
pub(crate) use exported;

/// Exports functions that cannot fail and do not return a status.
macro_rules! exported_value {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block
    )*) => {$(
        $(#[$attribute])*
        #[allow(unsafe_code, reason = "the attribute below; nothing in a body is unsafe")]
        // SAFETY: as for `exported`.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> $result $body
    )*};
}
pub(crate) use exported_value;

/// Runs one call and returns its status.
#[inline]
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Status>) -> zx_status_t {
    // Unwinding leaves no inconsistent state: handles and messages are owned by values that are
    // dropped, and code under the core's locks does not panic.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => ZX_OK,
        Ok(Err(status)) => status.code(),
        Err(_) => ZX_ERR_INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use uncopy_channel::Status;

    use super::guard;

    #[test]
    fn a_panic_is_a_status() {
        assert_eq!(guard(|| panic!("on purpose")), -1);
        assert_eq!(guard(|| Err(Status::PeerClosed)), -24);
        assert_eq!(guard(|| Ok(())), 0);
    }
}
