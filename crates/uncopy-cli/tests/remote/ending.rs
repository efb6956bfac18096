//! How a copy between machines ends before its time: a signal, a killed program, a killed remote shell.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testbed::{
    Case, Compared, Need, Program, SystemCall, assert_same_tree, descendants, run_tool, wait_for,
};

use super::{Direction, Machines, UNCOPY, names_in, succeeded};

/// Bytes of each of four large files. At [`RATE`] each takes a second.
const LARGE: usize = 3 << 20;
const RATE: &str = "--max-bandwidth=3M";

pub(super) fn make_sources(machines: &Machines, direction: Direction) {
    let source = machines.source(direction).join("src");
    fs::create_dir_all(source.join("d")).unwrap();
    for number in 0..20 {
        fs::write(source.join(format!("d/{number:02}")), format!("{number}")).unwrap();
    }
    for name in ["w", "x", "y", "z"] {
        let contents: Vec<u8> = (0..LARGE).map(|at| (at / 3 % 251) as u8).collect();
        fs::write(source.join(name), contents).unwrap();
    }
}

/// Begins a slow copy of the tree, and waits until one or two of the large files have arrived, under whatever name.
pub(super) fn begin(machines: &Machines, direction: Direction, flags: &[&str]) -> Child {
    let child = slow(machines, direction, flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let to = machines.destination(direction).path().to_owned();
    wait_for("bytes of a large file", || bytes_below(&to) > LARGE as u64 + (1 << 20));
    child
}

fn slow(machines: &Machines, direction: Direction, flags: &[&str]) -> Command {
    let mut command = machines.command();
    command.args(["-r", "-j1", RATE]).args(flags);
    command.arg(direction.source("src")).arg(direction.destination("copy"));
    command
}

/// Blocks below a directory, in bytes.
pub(super) fn bytes_below(directory: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // Names change meanwhile.
        let Ok(found) = entry.path().symlink_metadata() else { continue };
        bytes += match found.is_dir() {
            true => bytes_below(&entry.path()),
            false => found.blocks() * 512,
        };
    }
    bytes
}

pub(super) fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// The program on the far machine.
pub(super) fn far_of(child: &Child) -> u32 {
    find_far(child).expect("the far program runs")
}

/// The program on the far machine, if it runs.
pub(super) fn find_far(child: &Child) -> Option<u32> {
    let all = descendants(child.id());
    let is_uncopy = |id: &&u32| {
        fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "uncopy")
    };
    all.iter().rfind(is_uncopy).copied()
}

pub(super) fn finish(child: Child) -> Output {
    let others = descendants(child.id());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked at"), "{text}");
    // The far program ends too, whoever was killed.
    wait_for("end of the far program", || {
        let is_alive = |id: &u32| {
            fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        };
        !others.iter().any(is_alive)
    });
    output
}

/// Nothing has its final name that is not whole, and with `keeps` what goes on later is there.
fn check_rest(machines: &Machines, direction: Direction, keeps: bool) {
    let to = machines.destination(direction);
    assert!(!to.join("copy").exists(), "{direction:?}");
    let names = names_in(to);
    assert_eq!(names.is_empty(), !keeps, "{direction:?}: {names:?}");
}

/// How the side that copies ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copier {
    /// In order: it noted what was complete.
    Stopped,
    /// Its last notes may be lost.
    Killed,
}

/// The same command goes on.
fn go_on(machines: &Machines, direction: Direction, ended: Copier) {
    let run = machines
        .cp()
        .args(["-r", "-j1", "--resume", "--json"])
        .arg(direction.source("src"))
        .arg(direction.destination("copy"))
        .run();
    succeeded(&run);
    let resumed = run.receipts().pop().unwrap().value()["resumed"].as_u64().unwrap();
    assert!(resumed > 0 || ended == Copier::Killed, "{direction:?}: nothing was kept");
    let to = machines.destination(direction);
    let compared = Compared { modes: true, ..Compared::default() };
    assert_same_tree(&machines.source(direction).join("src"), &to.join("copy"), compared);
    assert_eq!(names_in(to), ["copy"]);
}

fn a_signal_stops_both_ends_in_order() {
    for direction in Direction::BOTH {
        for (signal, keeps) in [(Signal::INT, false), (Signal::TERM, false), (Signal::INT, true)] {
            let machines = Machines::new();
            make_sources(&machines, direction);
            let flags: &[&str] = if keeps { &["--resume"] } else { &[] };
            let child = begin(&machines, direction, flags);
            send(child.id(), signal);
            let output = finish(child);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.signal(), Some(signal.as_raw()), "{direction:?}: {text}");
            assert!(text.contains("stopped"), "{direction:?}: {text}");
            check_rest(&machines, direction, keeps);
            if keeps {
                assert!(text.contains("the same command continues"), "{direction:?}: {text}");
                go_on(&machines, direction, Copier::Stopped);
            }
        }
    }
}

/// A terminal sends the signal to the remote shell too.
fn a_signal_to_all_is_one_to_the_near_end() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(&machines, direction);
        let child = begin(&machines, direction, &[]);
        for process in descendants(child.id()) {
            send(process, Signal::INT);
        }
        send(child.id(), Signal::INT);
        let output = finish(child);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(2), "{direction:?}: {text}");
        check_rest(&machines, direction, false);
    }
}

/// While the remote shell waits, for a password for example.
fn a_signal_before_the_greeting_ends_the_remote_shell() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(&machines, direction);
        let here = machines.aside.join("here");
        machines.log_in_with(&format!("touch '{}'; exec sleep 1000", here.display()));
        let child = slow(&machines, direction, &[]).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("remote shell", || here.exists());
        // Whoever asks for the progress as early ends nothing.
        send(child.id(), Signal::USR1);
        send(child.id(), Signal::INT);
        let output = finish(child);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(2), "{direction:?}: {text}");
        assert!(text.contains("nothing was copied"), "{direction:?}: {text}");
        check_rest(&machines, direction, false);
    }
}

/// The copies that a killed run had placed could not be replaced by a user whom their modes forbid to write to them, and
/// their further names became files of their own.
fn a_killed_merge_of_protected_entries_is_continued() {
    const USER: &str = "65534";
    const FILES: usize = 20;
    let rows = [&["-a"][..], &["-an"], &["-r"]];
    for (direction, flags) in
        Direction::BOTH.iter().flat_map(|direction| rows.map(|row| (*direction, row)))
    {
        let machines = Machines::new();
        let (from, to) =
            (machines.source(direction).join("src"), machines.destination(direction).join("copy"));
        for directory in ["a", "b"] {
            fs::create_dir_all(from.join(directory)).unwrap();
        }
        for number in 0..FILES {
            let file = from.join(format!("a/{number}"));
            fs::write(&file, vec![number as u8; 300_000]).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
            fs::hard_link(&file, from.join(format!("b/{number}"))).unwrap();
        }
        for directory in ["a", "b"] {
            fs::set_permissions(from.join(directory), fs::Permissions::from_mode(0o555)).unwrap();
        }
        fs::create_dir(&to).unwrap();
        let owner = format!("{USER}:{USER}");
        for side in [machines.near.path(), machines.far.path(), machines.aside.path()] {
            run_tool("chown", ["-R".as_ref(), owner.as_ref(), side.as_os_str()]);
        }
        let cp = || {
            let cp = machines.cp().args(["-T", "-j1", "--resume"]).args(flags);
            cp.arg(direction.source("src")).arg(direction.destination("copy"))
        };
        let mut child = Command::new("setpriv");
        child.args(["--reuid", USER, "--regid", USER, "--clear-groups", UNCOPY, "cp", "-e"]);
        child.arg(machines.shell()).args([
            "--remote-program",
            UNCOPY,
            "-T",
            "-j1",
            "--resume",
            RATE,
        ]);
        child.args(flags).arg(direction.source("src")).arg(direction.destination("copy"));
        child.current_dir(machines.near.path()).env("UNCOPY_CONFIG", "/dev/null");
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("some files", || bytes_below(&to) > 2_000_000);
        let copier = if direction == Direction::Push { far_of(&child) } else { child.id() };
        send(copier, Signal::KILL);
        finish(child);
        let run = cp().as_user(USER.parse().unwrap()).run();
        let what = format!("{direction:?} {flags:?}: {}", run.stderr);
        assert!(run.status.success(), "{what}");
        assert_same_tree(&from, &to, Compared { modes: true, ..Compared::default() });
        assert_eq!(names_in(machines.destination(direction)), ["copy"], "{what}");
        for number in 0..FILES {
            let [first, last] = ["a", "b"]
                .map(|name| fs::metadata(to.join(format!("{name}/{number}"))).unwrap().ino());
            assert_eq!(first, last, "{number}, {what}");
        }
    }
}

fn a_killed_far_program_is_an_error_that_says_so() {
    for direction in Direction::BOTH {
        for keeps in [false, true] {
            let machines = Machines::new();
            make_sources(&machines, direction);
            let flags: &[&str] = if keeps { &["--resume"] } else { &[] };
            let child = begin(&machines, direction, flags);
            send(far_of(&child), Signal::KILL);
            let output = finish(child);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(9), "{direction:?}: {text}");
            assert!(text.contains("connection"), "{direction:?}: {text}");
            assert!(
                text.contains("run the command again; a copy with --resume"),
                "{direction:?}: {text}"
            );
            // The one that was killed could not clean up.
            if direction == Direction::Pull || keeps {
                check_rest(&machines, direction, keeps);
            }
            let ended = match direction {
                Direction::Push => Copier::Killed,
                Direction::Pull => Copier::Stopped,
            };
            match keeps {
                true => go_on(&machines, direction, ended),
                false => again(&machines, direction),
            }
        }
    }
}

fn a_killed_near_program_leaves_nothing_half_written() {
    for direction in Direction::BOTH {
        for keeps in [false, true] {
            let machines = Machines::new();
            make_sources(&machines, direction);
            let flags: &[&str] = if keeps { &["--resume"] } else { &[] };
            let mut child = begin(&machines, direction, flags);
            child.kill().unwrap();
            finish(child);
            if direction == Direction::Push || keeps {
                check_rest(&machines, direction, keeps);
            }
            let ended = match direction {
                Direction::Push => Copier::Stopped,
                Direction::Pull => Copier::Killed,
            };
            match keeps {
                true => go_on(&machines, direction, ended),
                false => again(&machines, direction),
            }
        }
    }
}

/// The same command succeeds, and removes what the killed run left.
fn again(machines: &Machines, direction: Direction) {
    let run = machines
        .cp()
        .arg("-r")
        .arg(direction.source("src"))
        .arg(direction.destination("copy"))
        .run();
    succeeded(&run);
    assert_eq!(names_in(machines.destination(direction)), ["copy"], "{direction:?}");
}

/// Killed when a large file had got its name, and before that was noted: it is read there, and crosses no more, unless
/// somebody changed it.
fn a_large_file_that_has_its_name_does_not_cross_again() {
    const SIZE: usize = (33 << 20) + 12_345;
    for (is_merged, is_changed) in [(false, false), (true, false), (true, true)] {
        let machines = Machines::new();
        let source = machines.far.subdirectory("src", 0o755);
        for name in ["x", "y"] {
            let contents: Vec<u8> = (0..SIZE).map(|at| (at / 3 % 251) as u8).collect();
            fs::write(source.join(name), contents).unwrap();
        }
        // A name in a tree that has none itself, or in one that is there.
        // In that without, a file gets its temporary name back first.
        let stops = match is_merged {
            true => [(SystemCall::RENAMEAT, 1), (SystemCall::RENAMEAT, 1)],
            false => [(SystemCall::RENAMEAT2, 1), (SystemCall::RENAMEAT2, 2)],
        };
        if is_merged {
            fs::create_dir(machines.near.join("copy")).unwrap();
        }
        let cp = || machines.cp().args(["-rT", "-j1", "--resume", "--json", "far:src", "copy"]);
        for (call, nth) in stops {
            cp().stop_after(call, nth).kill();
        }
        let mut crossing = 0;
        if is_changed {
            // The one that got its name last; the other is noted by now.
            use std::os::unix::fs::{FileExt, MetadataExt};
            let newest = ["x", "y"].map(|name| machines.near.join("copy").join(name));
            let newest = newest.iter().max_by_key(|path| {
                let found = fs::metadata(path).unwrap();
                (found.ctime(), found.ctime_nsec())
            });
            let file = fs::File::options().write(true).open(newest.unwrap()).unwrap();
            file.write_all_at(b"changed", SIZE as u64 - 7).unwrap();
            crossing = SIZE as u64;
        }
        let run = cp().run();
        succeeded(&run);
        let summary = run.receipts().pop().unwrap();
        let sent = summary.value()["wire"]["bytes_sent"].as_u64().unwrap();
        let range = crossing..crossing + (1 << 20);
        assert!(range.contains(&sent), "{is_merged} {is_changed}: {sent} crossed: {}", run.stdout);
        assert_same_tree(&source, &machines.near.join("copy"), Compared::default());
        assert_eq!(names_in(&machines.near), ["copy"]);
    }
}

/// Killed between the only rename and the removal of the journal: the next run knows its own copy.
fn a_copy_that_has_its_name_is_not_copied_into_itself() {
    let machines = Machines::new();
    make_sources(&machines, Direction::Pull);
    let cp = || machines.cp().args(["-r", "-j1", "--resume", "--json", "far:src", "copy"]);
    cp().stop_after(SystemCall::RENAMEAT2, 1).kill();
    assert!(machines.near.join("copy").exists());
    assert_eq!(names_in(&machines.near).len(), 2, "the copy and its journal");
    let run = cp().run();
    succeeded(&run);
    assert!(!machines.near.join("copy/src").exists(), "it was copied into its own copy");
    assert_eq!(names_in(&machines.near), ["copy"]);
    // The job is finished: the next run copies into the tree.
    succeeded(&cp().run());
    assert!(machines.near.join("copy/src/d").exists());
}

/// The progress of a copy that is made elsewhere, on request.
fn progress_is_shown_here() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(&machines, direction);
        let output = slow(&machines, direction, &["--progress"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        assert!(text.contains("/s"), "{direction:?}: {text}");
        // The totals are known, though not all was found by the copy.
        assert!(
            text.contains("/26 entries") && text.contains("/12.00 MiB "),
            "{direction:?}: {text}"
        );
    }
}

/// A signal that requests it killed a push, which the far end makes.
fn progress_is_shown_on_request() {
    for direction in Direction::BOTH {
        for flags in [&[][..], &["--json"], &["--quiet"]] {
            let machines = Machines::new();
            make_sources(&machines, direction);
            let mut child = begin(&machines, direction, flags);
            // It is continued as it is suspended, by the same handlers.
            send(child.id(), Signal::TSTP);
            wait_for("stop", || testbed::state(child.id()) == 'T');
            send(child.id(), Signal::CONT);
            send(child.id(), Signal::USR1);
            let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
            let line = stderr.find_map(|line| line.ok().filter(|line| line.contains(" entries  ")));
            let line = line.unwrap_or_default();
            let what = format!("{direction:?} {flags:?}: {line}");
            assert!(line.starts_with("uncopy: ") && line.contains("/s"), "{what}");
            // A file has come.
            assert!(!line.starts_with("uncopy: 0/"), "{what}");
            send(child.id(), Signal::INT);
            let output = finish(child);
            assert_eq!(output.status.signal(), Some(2), "{what}");
        }
    }
}

fn the_rate_holds_over_the_wire() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        let contents = vec![7; 3 << 20];
        fs::write(machines.source(direction).join("a"), &contents).unwrap();
        let run = machines
            .cp()
            .args(["--json", "--max-bandwidth=2M"])
            .arg(direction.source("a"))
            .arg(direction.destination("b"))
            .run();
        succeeded(&run);
        // The time of the copy itself cannot be shorter than the rate allows.
        let duration = run.receipt().value()["duration_us"].as_u64().unwrap();
        assert!(duration >= 1_000_000, "{direction:?}: {duration}");
    }
}

/// A far end without the sender's program at all, seen from the far side: garbage instead of frames.
fn garbage_is_no_near_end() {
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 70_000]] {
        let machines = Machines::new();
        let input = machines.aside.join("input");
        fs::write(&input, bytes).unwrap();
        let line = format!("exec {UNCOPY} serve --stdio <{}", input.display());
        let run = Program::new("sh").args(["-c", &line]).current_dir(&machines.far).run();
        assert!(!run.status.success(), "{}", run.stderr);
        assert!(run.stderr.starts_with("uncopy: serve on \""), "{}", run.stderr);
        assert!(names_in(&machines.far).is_empty());
    }
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_signal_stops_both_ends_in_order,
        [Need::Root, Need::Tool("setpriv")] a_killed_merge_of_protected_entries_is_continued,
        [] a_signal_to_all_is_one_to_the_near_end,
        [] a_signal_before_the_greeting_ends_the_remote_shell,
        [] a_killed_far_program_is_an_error_that_says_so,
        [] a_killed_near_program_leaves_nothing_half_written,
        [] a_large_file_that_has_its_name_does_not_cross_again,
        [] a_copy_that_has_its_name_is_not_copied_into_itself,
        [] progress_is_shown_here,
        [] progress_is_shown_on_request,
        [] the_rate_holds_over_the_wire,
        [] garbage_is_no_near_end,
    ]
}
