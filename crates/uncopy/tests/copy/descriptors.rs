//! No descriptor, thread or mapping outlives a copy, however it ends.
//!
//! Counted in a process of its own: in this one other tests open files meanwhile.

use std::path::Path;
use std::process::{Command, ExitCode};

use testbed::{Case, Content, Place};
use uncopy::Mechanism;
use uncopy::copy::{Control, CopyOptions, Progress, Verify, copy_file, copy_file_observed};

use crate::copy::{EVERYWHERE, only};

/// Set to a directory for the process that counts.
pub(crate) const CHILD: &str = "UNCOPY_COUNT_DESCRIPTORS_IN";

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![[] nothing_stays_open]
}

fn nothing_stays_open() {
    let scratch = Place::Disk.scratch();
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).env(CHILD, scratch.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Open descriptors, threads, and mappings of files in `directory`.
fn held(directory: &Path) -> (usize, usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = directory.to_str().unwrap();
    let mapped = maps.lines().filter(|line| line.contains(own)).count();
    (count("/proc/self/fd"), count("/proc/self/task"), mapped)
}

/// Every way, with success, with errors and stopped half-way.
fn every_end(directory: &Path) {
    let (source, destination) = (directory.join("source"), directory.join("destination"));
    let mut options: Vec<CopyOptions> = EVERYWHERE.into_iter().map(only).collect();
    options.push(only(Mechanism::Direct));
    options.push(only(Mechanism::Reflink));
    options.push(CopyOptions::default());
    for mut options in options {
        for thorough in [false, true] {
            options.durable = thorough;
            options.verify = thorough.then(Verify::default);
            let _ = copy_file(&source, &destination, &options);
            let _ = copy_file("/proc/version", &destination, &options);
            for _ in 0..2 {
                let mut stop = |_: Progress| Control::Stop;
                let _ = copy_file_observed(&source, &destination, &options, &mut stop);
                let _ = std::fs::remove_file(&destination);
            }
            let _ = copy_file(&source, directory.join("none/there"), &options);
            let _ = copy_file(&source, directory, &options);
            let _ = copy_file(directory, &destination, &options);
            let _ = copy_file(&source, &source, &options);
        }
    }
}

/// The process that counts.
pub(crate) fn child(directory: &Path) -> ExitCode {
    Content::dense((3 << 20) + 5).write(&directory.join("source"));
    // Objects created once per process, such as capability caches, may stay.
    every_end(directory);
    let before = held(directory);
    every_end(directory);
    let after = held(directory);
    if before != after {
        eprintln!("descriptors, threads, mappings: {before:?} before, {after:?} after");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
