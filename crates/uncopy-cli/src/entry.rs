//! The entry point that the C library calls.

use std::ffi::{c_char, c_int};
use std::fs::OpenOptions;
use std::os::fd::IntoRawFd;

use rustix::io::fcntl_getfd;
use rustix::stdio;
use uncopy_cli::Exit;

/// The C library hands the arguments to Rust's standard library as well, before it calls this
/// (`.init_array`), which is where [`std::env::args_os`] has them from.
// SAFETY: the C library calls one `main`, with this signature (C11, 5.1.2.2.1), and no other crate
// of the program exports that name.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    let exit =
        if open_standard_streams() { uncopy_cli::run(std::env::args_os()) } else { Exit::Failure };
    // Also flushes standard output.
    std::process::exit(exit.code().into())
}

/// Opens `/dev/null` for each standard stream that is closed: otherwise the next file would take
/// its number, and messages would be written into that file. `false`: not possible.
///
/// Standard input only to be written to: whoever asks for its bytes shall hear that there is none
/// (`EBADF`), and not get an empty file.
fn open_standard_streams() -> bool {
    let streams = [(stdio::stdin(), false), (stdio::stdout(), true), (stdio::stderr(), true)];
    streams.into_iter().all(|(stream, reads)| {
        // The lowest number that is free is this stream's.
        fcntl_getfd(stream).is_ok()
            || OpenOptions::new()
                .read(reads)
                .write(true)
                .open("/dev/null")
                .map(IntoRawFd::into_raw_fd)
                .is_ok()
    })
}

/// The only function of `libm.so` that the program refers to (indicatif's estimate of the time
/// left). With one of its own the dynamic loader need not map that library, which takes a tenth of
/// the time of a whole 4 KiB copy.
// SAFETY: C's signature (C11, 7.12.7.4), and the function does what C says it does; no other crate
// of the program exports that name.
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}
