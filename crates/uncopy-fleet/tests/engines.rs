//! Lines of the book for other engines, run as they stand there.

use std::fs;

use testbed::{Case, Need, Program, Run, Sshd};

use crate::work::{UNCOPY, Work};

/// Pages of the book.
const FLEET: &str = include_str!("../../../docs/fleet.md");
const UNITS: &str = include_str!("../../../docs/units.md");

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] the_line_of_xargs,
        [Need::Tool("parallel"), Need::Tool("sshd"), Need::Tool("ssh")] the_line_of_parallel,
        [] the_command_of_kubernetes,
    ]
}

/// Returns the only line of a page that has this.
fn line<'a>(page: &'a str, what: &str) -> &'a str {
    let mut lines = page.lines().filter(|line| line.contains(what));
    let line = lines.next().unwrap_or_else(|| panic!("no line has {what}"));
    assert_eq!(lines.next(), None, "another line has {what}");
    line.trim()
}

fn planned() -> Work {
    let work = Work::new();
    work.fill(60);
    work.plan(&["--files=5"]);
    work
}

/// A shell that finds the program as the line names it, in the directory of the test.
fn shell(work: &Work, line: &str) -> Program {
    let path = std::env::var("PATH").unwrap();
    let own = work.scratch.path();
    assert_eq!(work.uncopy(), own.join(UNCOPY));
    Program::new("/bin/sh")
        .args(["-c", line])
        .env("PATH", format!("{}:{path}", own.display()))
        .env("HOME", own)
        .current_dir(own)
}

/// Runs it, and once more when nothing is left to do.
fn succeeds_twice(program: &Program) {
    for _ in 0..2 {
        succeeded(&program.run());
    }
}

fn succeeded(run: &Run) {
    assert!(run.status.success(), "{}: {}{}", run.status, run.stderr, run.stdout);
}

fn the_line_of_xargs() {
    let work = planned();
    let line = line(UNITS, "| xargs -r -n1 -P4 ").strip_prefix("$ ").unwrap();
    // It is in the directory of the test.
    assert_eq!(work.directory(), work.scratch.join("plan"));
    succeeds_twice(&shell(&work, line));
    work.assert_done();
}

/// Over real logins, to two names of this machine.
fn the_line_of_parallel() {
    let work = planned();
    let sshd = Sshd::start();
    let login = format!("ssh -F {}", sshd.client_config().display());
    fs::write(work.scratch.join("nodes"), format!("{login} 127.0.0.1\n{login} ::1\n")).unwrap();
    let line = line(FLEET, "--sshloginfile").strip_prefix("$ ").unwrap();
    let line = line.replace("/data/plan", work.directory().to_str().unwrap());
    // The program is in no directory where a login looks for it.
    succeeds_twice(&shell(&work, &line).env("PARALLEL", "--env PATH"));
    work.assert_done();
}

/// An index of the job is the number of a unit: each does its own, and no other.
fn the_command_of_kubernetes() {
    let work = planned();
    let command = line(FLEET, "JOB_COMPLETION_INDEX").strip_prefix("command: [sh, -c, '").unwrap();
    let command = command.strip_suffix("']").unwrap();
    let command = command.replace("/data/plan", work.directory().to_str().unwrap());
    let count = work.units().len();
    assert!(count > 10, "{count}");
    for index in 0..count {
        let record = format!("{index:06}.json");
        assert!(!work.has_in_ledger(&record), "{record}");
        succeeded(&shell(&work, &command).env("JOB_COMPLETION_INDEX", index.to_string()).run());
        assert!(work.has_in_ledger(&record), "{record}");
    }
    let after = shell(&work, &command).env("JOB_COMPLETION_INDEX", count.to_string()).run();
    assert!(after.stderr.contains(&format!("{count:06}.jsonl")), "{}", after.stderr);
    work.assert_done();
}
