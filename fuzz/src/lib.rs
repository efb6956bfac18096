//! Helpers for the fuzz targets.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;

use rustix::fs::{MemfdFlags, memfd_create};
use uncopy_cli::Exit;

/// Runs the program with these arguments, and the path of a file with `data` as the last one.
///
/// # Panics
/// If the file cannot be created in memory.
#[must_use]
pub fn run_on_file(words: &[&str], data: &[u8]) -> Exit {
    let file = file_of(data);
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let words = ["uncopy"].iter().chain(words).map(Into::into);
    uncopy_cli::run(words.chain([path.into()]))
}

/// Makes a file with `data`.
///
/// # Panics
/// If the file cannot be created in memory.
#[must_use]
pub fn file_of(data: &[u8]) -> File {
    let file = memfd_create("input", MemfdFlags::CLOEXEC).expect("memory can be had");
    let mut file = File::from(file);
    file.write_all(data).and_then(|()| file.rewind()).expect("memory can be written");
    file
}
