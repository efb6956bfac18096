//! `--audit` and `--manifest` between machines: files of the machine of the command line, with what one machine writes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Program, Run, wait_for};

use super::ending::{begin, far_of, finish, make_sources as make_large_sources, send};
use super::{Direction, Machines, UNCOPY, names_in, succeeded};

fn make_sources(at: &Path) {
    let source = at.join("src");
    fs::create_dir_all(source.join("d/empty")).unwrap();
    for (name, bytes) in [("small", 7), ("d/middle", 70_000), ("d/large", 3 << 20), ("none", 0)] {
        let contents: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
        fs::write(source.join(name), contents).unwrap();
    }
    for number in 0..40 {
        fs::write(source.join(format!("d/file-{number}")), format!("contents {number}")).unwrap();
    }
    fs::hard_link(source.join("d/middle"), source.join("d/other")).unwrap();
    std::os::unix::fs::symlink("d/file-3", source.join("link")).unwrap();
    fs::write(source.join(std::ffi::OsStr::from_bytes(b"n\xffn")), b"no text").unwrap();
    fs::write(source.join("with\nline"), b"two lines").unwrap();
    fs::write(at.join("a"), b"first").unwrap();
    fs::write(at.join("b"), b"second").unwrap();
}

fn uncopy(machines: &Machines, words: &[&str]) -> Run {
    Program::new(UNCOPY).args(words).current_dir(&machines.near).run()
}

fn records(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Keys that differ between two runs, or between the ways of one machine and of two.
const CHANGING: [&str; 18] = [
    "previous",
    "time",
    "job",
    "duration_us",
    "verify_us",
    "mechanisms",
    "refusals",
    "zero_copy_bytes",
    "buffered_bytes",
    "unknown_bytes",
    "arguments",
    "sequence",
    "source",
    "source_base64",
    "destination",
    "destination_base64",
    "mapped_writes",
    "mapped_writes_unknown",
];

/// Records with the names below the destination, in the order of the names.
fn compared(log: &Path, root: &str) -> Vec<String> {
    let mut found: Vec<String> = records(log)
        .into_iter()
        .map(|mut record| {
            let fields = record.as_object_mut().unwrap();
            let destination = fields.get("destination").and_then(Value::as_str).unwrap_or("");
            let below = destination.rsplit_once(root).map_or("", |(_, below)| below).to_owned();
            for key in CHANGING {
                fields.remove(key);
            }
            if let Some(digest) = fields.get_mut("source_digest").and_then(Value::as_object_mut) {
                digest.remove("us");
                digest.remove("how");
            }
            fields.remove("message");
            for key in ["subject", "linked_to"] {
                let Some(text) = fields.get(key).and_then(Value::as_str) else { continue };
                let text = text.rsplit(['/', ':']).next().unwrap().to_owned();
                fields.insert(key.to_owned(), text.into());
            }
            format!("{below} {record}")
        })
        .collect();
    // Which of two hard links comes first is chance.
    found.retain(|line| !["/d/middle {", "/d/other {"].iter().any(|name| line.contains(name)));
    found.sort();
    found
}

fn a_log_and_a_manifest_are_those_of_one_machine() {
    for direction in Direction::BOTH {
        for (flags, sources) in [
            (&["-r"][..], &["src"][..]),
            (&["-r", "--digest=sha256"], &["src"]),
            (&["-r", "--verify"], &["src"]),
            (&["-rT", "--jobs=3", "--durable"], &["src"]),
            (&["-r", "--resume"], &["src", "a"]),
            (&["-ru", "--delete"], &["src", "a"]),
            (&[], &["a"]),
            (&["--digest=xxh3"], &["a", "b"]),
            (&["-r"], &["src", "missing", "a"]),
        ] {
            let machines = Machines::new();
            let (from, to) = (machines.source(direction), machines.destination(direction));
            make_sources(from);
            for name in ["here", "there"] {
                fs::create_dir_all(to.join(name).join("src")).unwrap();
                fs::write(to.join(name).join("src/extra"), b"in the way").unwrap();
                fs::write(to.join(name).join("a"), b"old").unwrap();
            }
            let near = |name: &str| machines.near.join(name);
            let local = Program::new(UNCOPY)
                .arg("cp")
                .args(flags)
                .arg("--audit")
                .arg(near("log-here"))
                .arg("--manifest")
                .arg(near("sums-here"))
                .args(sources.iter().map(|source| from.join(source)))
                .arg(to.join("here"))
                .run();
            let remote = machines
                .cp()
                .args(flags)
                .args(["--audit", "log-there", "--manifest", "sums-there"])
                .args(sources.iter().map(|source| direction.source(source)))
                .arg(direction.destination("there"))
                .run();
            let what = format!("{direction:?} {flags:?} {sources:?}: {}", remote.stderr);
            assert_eq!(remote.status.code(), local.status.code(), "{what}\nhere: {}", local.stderr);
            let [here, there] =
                [("log-here", "here"), ("log-there", "there")].map(|(l, r)| compared(&near(l), r));
            assert_eq!(there, here, "{what}");
            let [here, there] = ["sums-here", "sums-there"].map(|name| fs::read(near(name)).ok());
            assert!(there.is_some(), "{what}");
            assert_eq!(there, here, "{what}");
            // The end of the log was printed.
            let verified = uncopy(&machines, &["audit", "verify", "log-there"]);
            succeeded(&verified);
            assert!(remote.stderr.contains(verified.stdout.lines().last().unwrap()), "{what}");
            succeeded(&uncopy(&machines, &["audit", "stats", "log-there"]));
            let sums = near("sums-there");
            let checked = uncopy(
                &machines,
                &[
                    "verify",
                    "--manifest",
                    sums.to_str().unwrap(),
                    to.join("there").to_str().unwrap(),
                ],
            );
            succeeded(&checked);
            // They are nowhere else.
            assert!(!names_in(to).iter().any(|name| direction == Direction::Push
                && (name.as_bytes().starts_with(b"log") || name.as_bytes().starts_with(b"sums"))));
        }
    }
}

/// Every file had the note of a source that can be read only once.
fn a_verified_copy_has_the_digest_of_what_came_and_no_note() {
    for direction in Direction::BOTH {
        for (flags, source) in [(&[][..], "a"), (&["-r"], "src"), (&["-r", "--resume"], "src")] {
            for form in ["--json", "--verbose", "--audit=log"] {
                let machines = Machines::new();
                make_sources(machines.source(direction));
                let run = machines.cp().args(flags).args(["--verify=sha256", form]);
                let run = run.arg(direction.source(source)).arg(direction.destination("b")).run();
                succeeded(&run);
                let log = fs::read_to_string(machines.near.join("log")).unwrap_or_default();
                let said = format!("{log}{}{}", run.stdout, run.stderr);
                assert!(!said.contains("as they came"), "{said}");
                assert!(!said.contains("digest_as_it_came"), "{said}");
                if form == "--json" && source == "a" {
                    let event =
                        run.receipts().into_iter().find(|it| it.value()["event"] == "copied");
                    let event = event.unwrap();
                    let file = machines.source(direction).join("a");
                    let expected = testbed::run_tool("sha256sum", [&file]);
                    let digest = event.value()["digest"].as_str().unwrap().to_owned();
                    assert!(expected.starts_with(&digest), "{expected} {digest}");
                }
            }
        }
    }
}

/// The machine is in every name at its side.
fn a_log_names_the_other_machine() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(machines.source(direction));
        fs::create_dir(machines.destination(direction).join("copy")).unwrap();
        // A directory in the way of a file.
        fs::create_dir_all(machines.destination(direction).join("copy/src/small/x")).unwrap();
        let run = machines
            .cp()
            .args(["-r", "--audit=log"])
            .arg(direction.source("src"))
            .arg(direction.destination("copy"))
            .run();
        run.failed(1);
        let records = records(&machines.near.join("log"));
        let entries: Vec<_> = records.iter().filter(|it| it["audit"] == "entry").collect();
        assert!(entries.len() > 40, "{}", entries.len());
        let (far, near) = match direction {
            Direction::Push => ("destination", "source"),
            Direction::Pull => ("source", "destination"),
        };
        for entry in &entries {
            let of = |key: &str| entry[key].as_str().unwrap_or("far:copy/src/d/").to_owned();
            assert!(of(far).starts_with("far:"), "{entry}");
            assert!(!entry[near].as_str().unwrap().starts_with("far:"), "{entry}");
            if direction == Direction::Push {
                assert!(of("linked_to").starts_with("far:copy/src/d/"), "{entry}");
            }
        }
        let failed: Vec<_> = entries.iter().filter(|entry| entry["result"] == "failed").collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(records[0]["audit"], "begin");
        let words = records[0]["arguments"].as_array().unwrap();
        assert!(words.contains(&"--audit=log".into()), "{words:?}");
    }
}

/// Whichever end is killed, the chain ends where it ended, and the next run goes on behind it.
fn a_kill_leaves_a_log_that_explains_itself() {
    for direction in Direction::BOTH {
        for is_near in [false, true] {
            let machines = Machines::new();
            make_large_sources(&machines, direction);
            let flags = ["--audit=log", "--manifest=sums"];
            let mut child = begin(&machines, direction, &flags);
            let log = machines.near.join("log");
            wait_for("a record", || {
                fs::read_to_string(&log).is_ok_and(|text| text.contains("\"copied\""))
            });
            match is_near {
                true => child.kill().unwrap(),
                false => send(far_of(&child), Signal::KILL),
            }
            let output = finish(child);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let what = format!("{direction:?} {is_near}: {text}");
            let found = records(&log);
            assert!(found.iter().any(|it| it["result"] == "copied"), "{what}");
            let verified = uncopy(&machines, &["audit", "verify", "log"]);
            if is_near {
                assert!(verified.failed(1).contains("no summary"), "{what}");
            } else {
                // This end lives: it ends the job, with what failed.
                succeeded(&verified);
                let is_recorded = records(&log).iter().any(|it| it["kind"] == "unreachable");
                assert!(is_recorded, "{what}");
                assert!(
                    text.contains("sums was not written, because the copy ended early"),
                    "{what}"
                );
            }
            assert!(!machines.near.join("sums").exists(), "{what}");
            let run = machines
                .cp()
                .args(["-r", "--audit=log", "--manifest=sums"])
                .arg(direction.source("src"))
                .arg(direction.destination("copy"))
                .run();
            succeeded(&run);
            succeeded(&uncopy(&machines, &["audit", "verify", "log"]));
            assert_eq!(records(&log).last().unwrap()["audit"], "end");
            assert!(machines.near.join("sums").exists());
            let names = names_in(&machines.near);
            assert!(!names.iter().any(|name| name.as_bytes().starts_with(b".uncopy")), "{names:?}");
        }
    }
}

/// A signal ends the job in the log too.
fn a_signal_closes_the_log() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_large_sources(&machines, direction);
        let child = begin(&machines, direction, &["--audit=log", "--manifest=sums"]);
        send(child.id(), Signal::INT);
        finish(child);
        let end = records(&machines.near.join("log")).pop().unwrap();
        assert_eq!((&end["audit"], &end["interrupted"]), (&"end".into(), &true.into()));
        succeeded(&uncopy(&machines, &["audit", "verify", "log"]));
        assert!(!machines.near.join("sums").exists());
    }
}

/// Before the other machine is asked for anything, and of what was asked for nothing is lost.
fn files_that_cannot_be_written_are_errors() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(machines.source(direction));
        let copy = |flags: &[&str]| {
            machines
                .cp()
                .arg("-r")
                .args(flags)
                .arg(direction.source("src"))
                .arg(direction.destination("copy"))
                .run()
        };
        let run = copy(&["--audit=none/log"]);
        assert!(run.failed(1).contains("begin the audit log none/log"), "{}", run.stderr);
        assert!(!machines.destination(direction).join("copy").exists());
        if direction == Direction::Push {
            assert!(!machines.log().exists(), "the remote shell was started");
        }
        let run = copy(&["--audit=log", "--manifest=log"]);
        assert!(run.failed(2).contains("which is the file of --audit too"), "{}", run.stderr);
        let run = copy(&["--manifest=none/sums"]);
        assert!(run.failed(1).contains("write the manifest none/sums"), "{}", run.stderr);
        let copied = machines.destination(direction).join("copy");
        assert!(copied.join("d/large").exists());
    }
    // The log would be copied over, or into itself.
    let machines = Machines::new();
    fs::write(machines.near.join("a"), b"1").unwrap();
    let run = machines.cp().args(["--audit=a", "a", "far:b"]).run();
    assert!(run.failed(2).contains("which is the source"), "{}", run.stderr);
    assert_eq!(fs::read(machines.near.join("a")).unwrap(), b"1");
}

/// As on one machine.
fn a_run_that_copies_nothing_writes_no_manifest() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), b"1").unwrap();
        fs::write(machines.destination(direction).join("b"), b"old").unwrap();
        let run = machines
            .cp()
            .args(["-n", "--manifest=sums"])
            .arg(direction.source("a"))
            .arg(direction.destination("b"))
            .run();
        assert!(run.stderr.contains("sums was not written, because no file"), "{}", run.stderr);
        assert!(!machines.near.join("sums").exists());
    }
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_log_and_a_manifest_are_those_of_one_machine,
        [] a_log_names_the_other_machine,
        [] a_verified_copy_has_the_digest_of_what_came_and_no_note,
        [] a_kill_leaves_a_log_that_explains_itself,
        [] a_signal_closes_the_log,
        [] files_that_cannot_be_written_are_errors,
        [] a_run_that_copies_nothing_writes_no_manifest,
    ]
}
