//! Entry point of the program; everything else is in the library beside it, so that xtask can reach
//! the flags.
//!
//! On Linux with the GNU C library [`entry`] defines the `main` of C. The runtime of Rust's standard
//! library does more before its `main`, above all it reads `/proc/self/maps` for the guard page of the
//! stack: 12 % of the time of a whole 4 KiB copy. To repeat the measurement, build the release program
//! with both versions of `main`, and compare the times of processes that copy one file, in 400
//! alternating rounds, by the median of the ratios.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), no_main)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod entry;

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() {
    uncopy_cli::run_and_exit(std::env::args_os())
}
