//! Starting a child with its end.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Command;

use testbed::{Case, wait_for};
use uncopy::channel::{self, FD_VARIABLE};

use crate::channel_processes::{Actor, descriptors, next, roles};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_child_inherits_its_end_and_no_other_descriptor,
        [] a_command_can_be_used_again,
        [] a_failed_start_leaks_nothing,
        [] the_sandboxed_child_of_the_example_counts_words,
    ]
}

/// Returns the expected report of the counting child: one more descriptor than a program that is
/// started normally.
fn one_more_than_usual() -> String {
    let listed = Command::new("ls").arg("/proc/self/fd").output().unwrap().stdout;
    let usual = listed.iter().filter(|byte| **byte == b'\n').count();
    (usual + 1).to_string()
}

fn a_child_inherits_its_end_and_no_other_descriptor() {
    let _others: Vec<_> = (0..5).map(|_| Actor::start("silent")).collect();
    let actor = Actor::start("descriptors");
    assert_eq!(*next(&actor.channel).unwrap(), *one_more_than_usual().as_bytes());
    actor.finish();
}

fn a_command_can_be_used_again() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(roles::VARIABLE, "descriptors");
    for _ in 0..3 {
        let actor = Actor::start_by(&mut command);
        assert_eq!(*next(&actor.channel).unwrap(), *one_more_than_usual().as_bytes());
        actor.finish();
    }
    let mut plain = Command::new("sh");
    plain.args(["-c", &format!("test -z \"${FD_VARIABLE}\"")]);
    let (_channel, mut child) = channel::spawn(&mut plain).unwrap();
    assert!(!child.wait().unwrap().success(), "it has the variable");
    assert!(plain.status().unwrap().success(), "it has no longer");
}

fn a_failed_start_leaks_nothing() {
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    let before = descriptors();
    for _ in 0..50 {
        assert!(channel::spawn(&mut Command::new("/nowhere/at all")).is_err());
    }
    // Other tests open some for a moment.
    wait_for("end of more descriptors", || descriptors() < before + 25);
    drop(file);
}

fn the_sandboxed_child_of_the_example_counts_words() {
    let mut text = tempfile::NamedTempFile::new().unwrap();
    text.write_all(b"four score and seven\nyears ago").unwrap();
    // In the directory of this program, `TARGET/PROFILE/deps`, and with the features of the whole
    // workspace, as `cargo test --workspace` has built it.
    let this = std::env::current_exe().unwrap();
    let target = this.ancestors().nth(3).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--example", "sandboxed_child"]);
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = cargo.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let example = target.join("debug/examples/sandboxed_child");
    let output = Command::new(example).arg(text.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "counted: 6 words\n", "{said}");
}
