//! Entry point that the C library calls.

use std::ffi::{c_char, c_int};
use std::fs::OpenOptions;
use std::os::fd::IntoRawFd;

use rustix::io::fcntl_getfd;
use rustix::stdio;
use uncopy_cli::Exit;

/// Runs the program. [`std::env::args_os`] works without Rust's runtime: the C library passes the
/// arguments to the standard library before it calls this function (`.init_array`).
// SAFETY: the C library calls one `main`, with this signature (C11, 5.1.2.2.1), and no other crate
// of the program exports that name.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    if !open_standard_streams() {
        std::process::exit(Exit::Failure.code().into())
    }
    uncopy_cli::run_and_exit(std::env::args_os())
}

/// Opens `/dev/null` for each standard stream that is closed: otherwise the next file would get its
/// number, and messages would be written into that file. `false`: this failed.
///
/// Standard input is opened for writing only, so that reading it fails with `EBADF` instead of
/// returning an empty file.
fn open_standard_streams() -> bool {
    let streams = [(stdio::stdin(), false), (stdio::stdout(), true), (stdio::stderr(), true)];
    streams.into_iter().all(|(stream, reads)| {
        // The lowest free number is that of this stream.
        fcntl_getfd(stream).is_ok()
            || OpenOptions::new()
                .read(reads)
                .write(true)
                .open("/dev/null")
                .map(IntoRawFd::into_raw_fd)
                .is_ok()
    })
}

/// Replaces the only function of `libm.so` that the program uses (in indicatif's estimate of the time
/// left), so that the dynamic loader does not map that library: 10 % of the time of a whole 4 KiB copy,
/// measured as [the entry point](crate) is.
// SAFETY: C's signature (C11, 7.12.7.4), and the function does what C says it does; no other crate
// of the program exports that name.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}
