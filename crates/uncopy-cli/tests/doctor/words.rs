//! The command line: targets, explanations, refusals.

use testbed::{Case, cases};

use crate::{finding, report, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] the_verdict_is_the_first_line,
        [] several_targets_have_one_exit_code,
        [] findings_are_explained,
        [] refusals_end_in_a_next_step,
        [] json_says_the_same,
    ]
}

fn the_verdict_is_the_first_line() {
    let run = uncopy("doctor udp://127.0.0.1:9").run();
    assert_eq!(run.status.code(), Some(6), "{}", run.stderr);
    let first = run.stdout.lines().next().unwrap();
    assert_eq!(
        first,
        "UDP to 127.0.0.1:9 through lo will be copied: 127.0.0.1:9 is on this machine"
    );
    assert!(!run.stdout.contains('\x1b'), "colours are for terminals: {}", run.stdout);
}

fn several_targets_have_one_exit_code() {
    let run = uncopy("doctor tcp://[::1]:9 nonesuch0 udp://127.0.0.1:9").run();
    assert_eq!(run.status.code(), Some(1), "one of them is not there: {}", run.stderr);
    assert!(run.stderr.contains("cannot find the network device nonesuch0"), "{}", run.stderr);
    assert_eq!(run.stdout.matches("will be copied").count(), 2, "{}", run.stdout);
}

fn findings_are_explained() {
    let run = uncopy("doctor --explain tap-eth-p-all").run();
    assert!(run.status.success());
    assert!(run.stdout.starts_with("### `tap-eth-p-all`: A packet tap sees what is sent\n"));
    let all = uncopy("doctor --explain all").run().stdout;
    assert!(all.contains(&run.stdout));
    let unknown = uncopy("doctor --explain nonesuch").run();
    assert!(unknown.failed(2).contains("loopback, "), "{}", unknown.stderr);
}

fn refusals_end_in_a_next_step() {
    for (words, expected) in [
        ("doctor tcp://127.0.0.1", "write tcp://127.0.0.1:PORT"),
        ("doctor http://127.0.0.1:80", "write tcp:// or udp://"),
        ("doctor --size 0 udp://127.0.0.1:9", "--size"),
        ("doctor --explain loopback lo", "cannot be used with"),
        ("doctor", "name a target"),
    ] {
        let run = uncopy(words).run();
        assert!(run.failed(2).contains(expected), "{words}: {}", run.stderr);
    }
    let run = uncopy("doctor --pid 4194305").run();
    assert!(run.failed(1).contains("cannot find the process 4194305"), "{}", run.stderr);
}

fn json_says_the_same() {
    let run = uncopy("doctor --json tcp://127.0.0.1:9").run();
    let report = report(&run, 6);
    assert_eq!((&report["schema"], &report["verdict"]), (&1.into(), &"copied".into()));
    let loopback = finding(&report, "loopback").unwrap();
    for key in ["topic", "severity", "summary", "effect", "next_step"] {
        assert!(loopback[key].is_string(), "{key}: {loopback}");
    }
    assert_eq!(loopback["needs_root"], false);
    assert_eq!(report["facts"][0]["name"], "route");
}
