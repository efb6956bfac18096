//! `uncopy cp --compress` and `--decompress`, as a black box: what it writes is held against the
//! `zstd` program, and what that writes is read.

mod files;
mod hostile;
mod predicting;
mod random;
mod trees;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{Case, Place, Program, Receipt, Run, Scratch};

/// `uncopy cp --json`.
fn cp() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "--json"])
}

pub(crate) fn compress() -> Program {
    cp().arg("--compress=zstd")
}

pub(crate) fn decompress() -> Program {
    cp().arg("--decompress")
}

/// Bytes that compress well, of which no two lines are the same.
pub(crate) fn text(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 32);
    for line in 0.. {
        if bytes.len() >= length {
            break;
        }
        writeln!(bytes, "line {line} of a text").unwrap();
    }
    bytes.truncate(length);
    bytes
}

/// Bytes that do not compress.
pub(crate) fn noise(seed: u64, length: u64) -> Vec<u8> {
    let length = usize::try_from(length).unwrap();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // xorshift64*
        bytes.extend(state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Two directories.
struct Pair {
    from: Scratch,
    to: Scratch,
}

impl Pair {
    fn at(place: Place) -> Pair {
        Pair { from: place.scratch(), to: place.scratch() }
    }

    fn new() -> Pair {
        Pair::at(Place::Disk)
    }

    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.from.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        path
    }
}

/// Copies one file, which succeeds.
#[track_caller]
pub(crate) fn copy(program: Program, from: &Path, to: &Path) -> Receipt {
    let run = program.arg(from).arg(to).run();
    assert!(run.status.success(), "{}: {}", run.status, run.stderr);
    run.receipt()
}

/// Returns the `compression` object of a receipt.
#[track_caller]
fn said<'a>(receipt: &'a Receipt, key: &str) -> &'a serde_json::Value {
    let found = &receipt.value()["compression"][key];
    assert!(receipt.value()["compression"].is_object(), "{}", receipt.value());
    found
}

/// Decompresses a file with `zstd -d`.
#[track_caller]
fn by_zstd(path: &Path) -> Vec<u8> {
    let output = Command::new("zstd").args(["-q", "-d", "-c"]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The events of this kind.
fn events(run: &Run, event: &str) -> Vec<Receipt> {
    run.receipts().into_iter().filter(|receipt| receipt.value()["event"] == event).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let cases =
        [files::cases(), hostile::cases(), predicting::cases(), random::cases(), trees::cases()];
    cases.into_iter().flatten().collect()
}
