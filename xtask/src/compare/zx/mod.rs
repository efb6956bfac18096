//! The suite `zx`: the C library against the Rust library that it is made of, and both beside the
//! figures that were published of Zircon.

mod cases;
mod published;
mod subjects;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::brief::{BriefRuns, Options};
use super::case::Suite;
use crate::{install_c, workspace};
use cases::Setting;

/// How long a subject sends messages in a round.
const RUN: Duration = Duration::from_millis(10);
/// Runs of some milliseconds vary much.
const ROUNDS: usize = 41;

/// Where the library is installed for this suite.
fn prefix() -> PathBuf {
    workspace::target_directory().join("c-library/installed")
}

/// The program in C.
fn program() -> PathBuf {
    workspace::target_directory().join("c-library/messages")
}

/// Builds the library as it is installed, and the program that calls it.
///
/// # Errors
/// If cargo or the C compiler fails, or is not there; what they said stands above.
pub(super) fn build() -> Result<()> {
    let built = install_c::build(workspace::cargo, &workspace::target_directory())?;
    install_c::install(&built, &prefix(), &prefix(), "lib")?;
    let libraries = prefix().join("lib");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(program())
        .arg(workspace::root().join("crates/uncopy-zx/benches/messages.c"))
        .arg("-I")
        .arg(prefix().join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-luncopy_zx")
        .arg(format!("-Wl,-rpath,{}", libraries.display()));
    workspace::run(&mut compiler)
}

/// The suite.
pub(super) fn suite(options: Options) -> Suite {
    let runs = BriefRuns::new(options, RUN, ROUNDS);
    let notes = runs.notes(NOTES);
    let setting = Setting { program: program(), runs };
    Suite { name: "zx", notes, absent: Vec::new(), cases: setting.cases() }
}

/// How it is measured.
const NOTES: &[&str] = &[
    "time: wall time of one message: write, wait_async, port_wait, read, both ends in this \
     process; value: median over rounds of a run's mean; ratio: median of each round's ratio",
    "C: a program of its own that calls the shared library as it is installed (crates/uncopy-zx/\
     benches/messages.c); Rust: the same calls of uncopy::channel within this program",
    "vector: a byte vector as FIDL sends one: 16 bytes of header, 16 of the vector itself, its \
     contents. linear: put into one buffer, which is kept, and that is written; iovec: the three \
     as they are. 65504B is a full message",
    "iovecs/BYTES/COUNT: a message of so many bytes in COUNT regions of the same length; write_etc: \
     writing alone, eight messages that are then read, which does not count",
    "published, RFC-0010: Intel Core i5-7300U, \"before\" and \"after\" of its prototype, for the \
     vectors as FIDL events, encoding and decoding included; published, Zircon: the kernel's own \
     microbenchmark of write_etc on an Intel NUC. Other machines, other systems: to be read beside \
     the rest, and judged against nothing",
    "socket/BYTES/COUNT: a message over a socket, of its regions (gathered) or of one buffer that they were \
     copied to first; call, call_etc: with a deadline that has passed",
    "copy/BYTES/COUNT: COUNT regions into one buffer, by the copies that survive bad addresses and \
     by memcpy",
    "noise: the A/A spread (the baseline's second run of each round against its first)",
];
