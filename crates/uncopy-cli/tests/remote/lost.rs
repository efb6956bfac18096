//! Reports of a copy whose other machine was never there, or is lost, by itself or by a signal to all.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use testbed::{Case, Program, descendants, wait_for};

use super::ending::{find_far, finish, send};
use super::{Direction, Machines, UNCOPY, names_in};

/// A copy, some of whose sources take a few seconds.
struct Form {
    flags: &'static [&'static str],
    /// Those that are copied before, the one that takes long, and those behind it.
    sources: [&'static [&'static str]; 3],
    destination: &'static str,
}

const FORMS: [Form; 5] = [
    Form { flags: &["-r", "-j1"], sources: [&[], &["tree"], &[]], destination: "copy" },
    Form { flags: &["-rT", "-j1"], sources: [&[], &["tree"], &[]], destination: "there" },
    Form { flags: &[], sources: [&[], &["one"], &[]], destination: "copy" },
    Form { flags: &[], sources: [&["a"], &["one"], &["b"]], destination: "there" },
    Form {
        flags: &["-r", "-j1"],
        sources: [&["a"], &["tree"], &["b", "one"]],
        destination: "there",
    },
];

fn make(machines: &Machines, direction: Direction) {
    let (from, to) = (machines.source(direction), machines.destination(direction));
    fs::create_dir(from.join("tree")).unwrap();
    fs::create_dir(to.join("there")).unwrap();
    for name in ["a", "b", "tree/a"] {
        fs::write(from.join(name), name).unwrap();
    }
    for name in ["one", "tree/large"] {
        fs::write(from.join(name), vec![7; 24 << 20]).unwrap();
    }
}

/// Begins a copy in a process group of its own, and waits until the large file is being written.
fn begin(machines: &Machines, direction: Direction, form: &Form, flags: &[&str]) -> Child {
    let mut command = machines.command();
    command.args(form.flags).args(flags).arg("--max-bandwidth=4M");
    command.args(form.sources.concat().iter().map(|source| direction.source(source)));
    command.arg(direction.destination(form.destination)).process_group(0);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let copier = || match direction {
        Direction::Push => find_far(&child),
        Direction::Pull => Some(child.id()),
    };
    wait_for("bytes of the large file", || copier().is_some_and(|id| written_by(id) > 512 << 10));
    child
}

/// Bytes that a process has written (`proc_pid_io(5)`).
fn written_by(process: u32) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let bytes = counts.lines().find_map(|line| line.strip_prefix("wchar: "));
    bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn log(machines: &Machines) -> Vec<Value> {
    lines(&fs::read_to_string(machines.near.join("log")).unwrap())
}

/// Sources of the records with a result, which is the value of this key.
fn sources_of(records: &[Value], key: &str, result: &str) -> BTreeSet<String> {
    let found = records.iter().filter(|record| record[key] == result);
    found.map(|record| record["source"].as_str().unwrap().to_owned()).collect()
}

fn shown(direction: Direction, sources: &[&str]) -> BTreeSet<String> {
    sources.iter().map(|source| direction.source(source).into_string().unwrap()).collect()
}

fn check_chain(machines: &Machines) {
    let verified = Program::new(UNCOPY).args(["audit", "verify", "log"]);
    super::succeeded(&verified.current_dir(&machines.near).run());
}

/// A pull ended its log and its JSON as if nothing had failed.
fn sources_of_a_lost_machine_are_recorded_as_failed() {
    for direction in Direction::BOTH {
        for form in &FORMS {
            for flags in [&["--json", "--audit=log"][..], &["--audit=log"], &["--json"], &[]] {
                let machines = Machines::new();
                make(&machines, direction);
                let child = begin(&machines, direction, form, flags);
                send(find_far(&child).unwrap(), Signal::KILL);
                let output = finish(child);
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                let printed = String::from_utf8_lossy(&output.stdout).into_owned();
                let what = format!(
                    "{direction:?} {:?} {:?} {flags:?}: {text}{printed}",
                    form.flags, form.sources
                );
                assert_eq!(output.status.code(), Some(9), "{what}");
                assert_eq!(text.matches("cannot copy ").count(), 1, "{what}");
                assert!(text.contains("run the command again; a copy with --resume"), "{what}");
                let [before, large, behind] = form.sources;
                // Nothing is known of a copy that is made there.
                let (failed, not_tried) = match direction {
                    Direction::Push => (form.sources.concat(), &[][..]),
                    Direction::Pull => (large.to_vec(), behind),
                };
                let (failed, not_tried) = (shown(direction, &failed), shown(direction, not_tried));
                let check = |records: &[Value], key| {
                    let unreachable = records.iter().filter(|it| it["kind"] == "unreachable");
                    let unreachable: Vec<Value> = unreachable.cloned().collect();
                    assert_eq!(sources_of(&unreachable, key, "failed"), failed, "{what}");
                    assert_eq!(sources_of(records, key, "failed"), failed, "{what}");
                    assert_eq!(sources_of(records, key, "not_tried"), not_tried, "{what}");
                    let copied = sources_of(records, key, "copied");
                    assert!(copied.is_superset(&shown(direction, before)), "{what}");
                };
                if flags.contains(&"--json") {
                    let events = lines(&printed);
                    check(&events, "event");
                    let summary = events.iter().find(|event| event["event"] == "summary");
                    assert!(summary.is_none_or(|summary| summary["failed"] == 1), "{what}");
                    let has_summary = direction == Direction::Pull && !form.flags.is_empty();
                    assert_eq!(summary.is_some(), has_summary, "{what}");
                }
                if flags.contains(&"--audit=log") {
                    let records = log(&machines);
                    check(&records, "result");
                    let end = records.last().unwrap();
                    let found = (&end["audit"], &end["failed"], &end["interrupted"]);
                    let expected = (&"end".into(), &failed.len().into(), &false.into());
                    assert_eq!(found, expected, "{what}");
                    check_chain(&machines);
                }
            }
        }
    }
}

/// With push they counted as copied, though the tree was removed with them.
fn files_of_a_new_tree_that_a_lost_machine_had_are_not_copied() {
    const SMALL: usize = 20;
    let forms: [(&[&str], &str, bool); 4] = [
        (&["-aT"], "copy", true),
        (&["-r"], "there/", true),
        (&["-aT", "--resume"], "copy", false),
        (&["-aT"], "there", false),
    ];
    for direction in Direction::BOTH {
        for (flags, destination, is_new) in forms {
            for ending in [None, Some(Sent::Group), Some(Sent::NearEndFirst)] {
                for output in [&["--audit=log", "--json"][..], &["--json"], &["--audit=log"], &[]] {
                    let machines = Machines::new();
                    make(&machines, direction);
                    for number in 0..SMALL {
                        let name = format!("tree/s{number}");
                        fs::write(machines.source(direction).join(name), b"small").unwrap();
                    }
                    let flags = [flags, &["-j4"]].concat();
                    let form = Form { flags: &[], sources: [&[], &["tree"], &[]], destination };
                    let child = begin(&machines, direction, &form, &[&flags[..], output].concat());
                    let has_log = output.contains(&"--audit=log");
                    if has_log {
                        wait_for("records", || {
                            let text = fs::read_to_string(machines.near.join("log")).unwrap();
                            text.matches("\"result\":\"copied\"").count() >= SMALL / 4
                        });
                    }
                    match ending {
                        None => send(find_far(&child).unwrap(), Signal::KILL),
                        Some(sent) => sent.send(Signal::TERM, &child),
                    }
                    let ended = finish(child);
                    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
                    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
                    let what = format!(
                        "{direction:?} {flags:?} {destination} {ending:?} {output:?}: {text}{printed}"
                    );
                    let check = |records: &[Value], key: &str| {
                        let of = |result| records.iter().filter(move |it| it[key] == result);
                        let copied = of("copied").count();
                        assert!(copied > 0 || !has_log, "{what}");
                        let gone: u64 =
                            of("discarded").map(|it| it["files"].as_u64().unwrap()).sum();
                        let expected = if is_new { copied as u64 } else { 0 };
                        assert_eq!(gone, expected, "{what}");
                        for event in of("discarded") {
                            let whole = event["bytes"].as_u64();
                            let all: u64 = event["mechanisms"]
                                .as_array()
                                .unwrap()
                                .iter()
                                .map(|it| it["bytes"].as_u64().unwrap())
                                .sum();
                            assert_eq!(whole, Some(all), "{what}");
                        }
                        copied as u64 - gone
                    };
                    if output.contains(&"--json") {
                        check(&lines(&printed), "event");
                    } else if is_new && !has_log {
                        let is_lost = ending.is_none() && direction == Direction::Push;
                        let said = text.contains("a new tree there that was not whole");
                        assert!(said || !is_lost, "{what}");
                    } else if is_new {
                        let said = text.contains("the new tree did not get its name")
                            || text.contains("the new tree was removed again");
                        assert!(said, "{what}");
                    }
                    if has_log {
                        let records = log(&machines);
                        let left = check(&records, "result");
                        let end = records.last().unwrap();
                        assert_eq!(end["copied"], left, "{what}");
                        let expected = end["copied"] == 0;
                        assert_eq!(end["discarded"] != 0, expected, "{what}");
                        assert_eq!(end["buffered_bytes"] == 0, expected, "{what}");
                        check_chain(&machines);
                    }
                    let is_there = machines.destination(direction).join("copy").exists()
                        || machines.destination(direction).join("there/tree").exists();
                    assert!(!is_there, "{what}");
                }
            }
        }
    }
}

fn files_on_their_own_are_no_new_trees() {
    for output in [&["--audit=log"][..], &["--json"], &[]] {
        let machines = Machines::new();
        make(&machines, Direction::Push);
        let sources = [&["a"][..], &["one"], &["b"]];
        let form = Form { flags: &["-r", "-j1"], sources, destination: "there" };
        let child = begin(&machines, Direction::Push, &form, output);
        send(find_far(&child).unwrap(), Signal::KILL);
        let output = finish(child);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(9), "{text}");
        assert!(!text.contains("new tree"), "{text}");
    }
}

/// The one that was whole stood for the other, whose files counted as copied.
fn new_trees_whose_names_are_no_text_are_kept_apart() {
    let machines = Machines::new();
    let trees = [b"\xfe", b"\xff"].map(|name| OsStr::from_bytes(name));
    let [whole, lost] = trees.map(|name| machines.near.join(Path::new(name)));
    for tree in [&whole, &lost] {
        fs::create_dir(tree).unwrap();
    }
    fs::write(whole.join("a"), b"small").unwrap();
    (0..10).for_each(|number| fs::write(lost.join(format!("s{number}")), b"small").unwrap());
    fs::write(lost.join("large"), vec![7; 24 << 20]).unwrap();
    fs::create_dir(machines.far.join("there")).unwrap();
    let mut command = machines.command();
    command.args(["-r", "-j4", "--audit=log", "--max-bandwidth=4M"]).args(trees);
    let child = command.arg("far:there").stderr(Stdio::piped()).spawn().unwrap();
    wait_for("records", || {
        let text = fs::read_to_string(machines.near.join("log")).unwrap_or_default();
        let count = |result| text.matches(&format!("\"result\":\"{result}\"")).count();
        count("made") == 1 && count("copied") > 1
    });
    send(find_far(&child).unwrap(), Signal::KILL);
    let ended = finish(child);
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(text.contains("the new tree did not get its name"), "{text}");
    let records = log(&machines);
    let copied = records.iter().filter(|it| it["result"] == "copied").count();
    let end = records.last().unwrap();
    assert_eq!((&end["copied"], &end["discarded"]), (&1.into(), &(copied - 1).into()), "{text}");
    check_chain(&machines);
}

/// A pull wrote no log, and its JSON named the source as a file here.
fn a_machine_that_is_not_there_is_recorded() {
    for direction in Direction::BOTH {
        for (flags, sources) in
            [(&["-r"][..], &["tree", "a"][..]), (&[], &["a"]), (&["-rT"], &["tree"])]
        {
            let machines = Machines::new();
            machines.log_in_with("exit 255");
            make(&machines, direction);
            let run = machines
                .cp()
                .args(["--json", "--audit=log", "--manifest=sums"])
                .args(flags)
                .args(sources.iter().map(|source| direction.source(source)))
                .arg(direction.destination("there"))
                .run();
            let message = run.failed(9);
            let what = format!("{direction:?} {sources:?}: {message}");
            assert!(message.contains("sums was not written"), "{what}");
            let events = lines(&run.stdout);
            let records = log(&machines);
            let results: Vec<_> = records.iter().map(|it| &it["audit"]).collect();
            let mut expected = vec!["begin"];
            expected.extend(sources.iter().map(|_| "entry"));
            expected.push("end");
            assert_eq!(results, expected, "{what}");
            assert_eq!(records.last().unwrap()["failed"], sources.len(), "{what}");
            let destination = direction.destination("there").into_string().unwrap();
            for (reported, key) in [(&events[..], "event"), (&records[1..=sources.len()], "result")]
            {
                assert_eq!(reported.len(), sources.len(), "{what}");
                assert_eq!(
                    sources_of(reported, key, "failed"),
                    shown(direction, sources),
                    "{what}"
                );
                assert!(reported.iter().all(|it| it["kind"] == "unreachable"), "{what}");
                assert!(reported.iter().all(|it| it["destination"] == destination), "{what}");
            }
            check_chain(&machines);
        }
    }
}

/// A source or destination that failed before the first entry was named as if it were here.
fn what_is_refused_is_named_with_its_machine() {
    for direction in Direction::BOTH {
        for (flags, sources, destination, code) in [
            (&["--link"][..], &["a"][..], "copy", 2),
            (&["-r"], &["a", "tree"], "none", 1),
            (&["-r"], &["none"], "copy", 1),
        ] {
            let machines = Machines::new();
            make(&machines, direction);
            let run = machines
                .cp()
                .arg("--json")
                .args(flags)
                .args(sources.iter().map(|source| direction.source(source)))
                .arg(direction.destination(destination))
                .run();
            let what = format!("{direction:?} {flags:?} {sources:?}: {}", run.failed(code));
            let mut events = lines(&run.stdout);
            events.retain(|event| event["event"] == "failed");
            assert_eq!(sources_of(&events, "event", "failed"), shown(direction, sources), "{what}");
            let destination = direction.destination(destination).into_string().unwrap();
            let is_so = |event: &Value| event["destination"] == destination;
            assert!(events.iter().all(is_so), "{what}{}", run.stdout);
        }
    }
}

/// How a signal reaches the two ends of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// To all processes of the group, in the order of the kernel.
    Group,
    /// To the remote shell, and to the near end a moment later.
    ShellFirst,
    NearEndFirst,
}

impl Sent {
    fn send(self, signal: Signal, child: &Child) {
        let others = descendants(child.id());
        let to = |process: u32| {
            let process = Pid::from_raw(process.try_into().unwrap()).unwrap();
            // It may have ended with another one.
            let _ = kill_process(process, signal);
        };
        let to_others = || others.iter().copied().for_each(to);
        match self {
            Sent::Group => kill_process_group(Pid::from_child(child), signal).unwrap(),
            Sent::ShellFirst => {
                to_others();
                thread::sleep(Duration::from_millis(20));
                to(child.id());
            }
            Sent::NearEndFirst => {
                to(child.id());
                to_others();
            }
        }
    }
}

fn check_stopped(machines: &Machines, output: &Output, signal: Signal, what: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    let what = format!("{what}: {text}{printed}");
    assert_eq!(output.status.signal(), Some(signal.as_raw()), "{what}");
    // The other machine may come to say so itself, which the signal did not reach.
    assert!(text.contains("stopped by SIG") || text.contains("stopped; every"), "{what}");
    assert!(!text.contains("cannot copy "), "{what}");
    assert!(sources_of(&lines(&printed), "event", "failed").is_empty(), "{what}");
    let records = log(machines);
    assert!(sources_of(&records, "result", "failed").is_empty(), "{what}");
    let end = records.last().unwrap();
    assert_eq!((&end["audit"], &end["interrupted"]), (&"end".into(), &true.into()), "{what}");
    check_chain(machines);
}

/// A pull took it for a lost connection where the remote shell ended first.
fn a_signal_to_all_is_no_lost_machine() {
    for direction in Direction::BOTH {
        for form in [&FORMS[0], &FORMS[2], &FORMS[4]] {
            for signal in [Signal::TERM, Signal::HUP] {
                for sent in [Sent::Group, Sent::Group, Sent::ShellFirst, Sent::NearEndFirst] {
                    let machines = Machines::new();
                    make(&machines, direction);
                    let child = begin(&machines, direction, form, &["--json", "--audit=log"]);
                    sent.send(signal, &child);
                    let output = finish(child);
                    let what = format!("{direction:?} {:?} {signal:?} {sent:?}", form.sources);
                    check_stopped(&machines, &output, signal, &what);
                    check_nothing_half_written(machines.destination(direction), &what);
                }
            }
        }
    }
}

fn check_nothing_half_written(to: &Path, what: &str) {
    let large = ["copy", "copy/large", "there/one", "there/tree/large"];
    assert!(large.iter().all(|name| !to.join(name).exists()), "{what}: {:?}", names_in(to));
}

/// While the remote shell waits: a pull had no log.
fn a_signal_to_all_before_the_greeting_is_recorded() {
    for direction in Direction::BOTH {
        for sent in [Sent::Group, Sent::Group, Sent::ShellFirst, Sent::NearEndFirst] {
            let machines = Machines::new();
            make(&machines, direction);
            let here = machines.aside.join("here");
            machines.log_in_with(&format!("touch '{}'; exec sleep 1000", here.display()));
            let mut command = machines.command();
            command.args(["--json", "--audit=log"]).arg(direction.source("a"));
            command.arg(direction.destination("copy")).process_group(0);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            wait_for("remote shell", || here.exists());
            sent.send(Signal::TERM, &child);
            let output = finish(child);
            check_stopped(&machines, &output, Signal::TERM, &format!("{direction:?} {sent:?}"));
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] sources_of_a_lost_machine_are_recorded_as_failed,
        [] files_of_a_new_tree_that_a_lost_machine_had_are_not_copied,
        [] files_on_their_own_are_no_new_trees,
        [] new_trees_whose_names_are_no_text_are_kept_apart,
        [] a_machine_that_is_not_there_is_recorded,
        [] what_is_refused_is_named_with_its_machine,
        [] a_signal_to_all_is_no_lost_machine,
        [] a_signal_to_all_before_the_greeting_is_recorded,
    ]
}
