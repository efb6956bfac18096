//! The program; everything is in the library beside it, so that xtask can reach the flags.
//!
//! On Linux with the GNU C library the C entry point is ours: what Rust's runtime does before its
//! `main` (above all a look at `/proc/self/maps` for the guard page of the stack) takes a tenth of
//! the time of a whole 4 KiB copy. What of it matters here is done by [`entry`].
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), no_main)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod entry;

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() -> std::process::ExitCode {
    uncopy_cli::run(std::env::args_os()).into()
}
