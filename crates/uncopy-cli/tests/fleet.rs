//! `uncopy fleet` becomes the program uncopy-fleet, or says where to get it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use testbed::{Case, Place, Program, Scratch, run_tool};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] the_other_program_gets_all_words,
        [] a_program_that_is_not_there,
    ]
}

/// A copy of the program, with nothing beside it.
fn alone() -> (Scratch, Program) {
    let scratch = Place::Disk.scratch();
    let uncopy = scratch.join("bin/uncopy");
    fs::create_dir(scratch.join("bin")).unwrap();
    // By another process: one that this process writes cannot be started while a test beside this one forks.
    run_tool("cp", [OsStr::new(env!("CARGO_BIN_EXE_uncopy")), uncopy.as_os_str()]);
    let program = Program::new(uncopy).arg("fleet");
    (scratch, program)
}

fn the_other_program_gets_all_words() {
    let (scratch, program) = alone();
    let odd = OsStr::from_bytes(b"\xff 'x'\n");
    let program = program.args(["--help", "-x", "--", "--array=1"]).arg(odd);
    let script = |directory: &str, code: u8| {
        let file = scratch.join(directory).join("uncopy-fleet");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = format!("#!/bin/sh\nprintf '%s|' \"$@\"\nexit {code}\n");
        let write = "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\"";
        run_tool("sh", ["-c".as_ref(), write.as_ref(), file.as_os_str(), text.as_ref()]);
    };
    script("path", 7);
    let path = format!("{}:/usr/bin:/bin", scratch.join("path").display());
    let run = program.clone().env("PATH", &path).run();
    assert_eq!(run.status.code(), Some(7), "{}", run.stderr);
    assert_eq!(run.stdout, "--help|-x|--|--array=1|\u{fffd} 'x'\n|");
    // The one beside it comes first.
    script("bin", 8);
    assert_eq!(program.env("PATH", &path).run().status.code(), Some(8));
}

fn a_program_that_is_not_there() {
    let (scratch, program) = alone();
    let program = program.arg("status").env("PATH", "/nonexistent");
    let run = program.run();
    assert!(run.failed(11).contains("; install the package uncopy-fleet"), "{}", run.stderr);
    // A file that cannot be executed.
    fs::write(scratch.join("bin/uncopy-fleet"), "").unwrap();
    let run = program.run();
    assert!(run.failed(1).contains("may be executed"), "{}", run.stderr);
}
