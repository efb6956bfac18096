//! Errors before and beside a copy, and their messages.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use testbed::{Case, Compared, Need, Program, Run, assert_same_tree};

use super::{Direction, Machines, UNCOPY, names_in, succeeded};

/// Copies a file in a direction.
fn copy(program: Program, direction: Direction) -> Program {
    program.arg(direction.source("a")).arg(direction.destination("b"))
}

fn a_machine_without_uncopy_is_named() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), b"1").unwrap();
        let run = copy(machines.serving("/nonexistent/uncopy").arg("--json"), direction).run();
        let message = run.failed(9);
        assert!(message.contains("no program \"/nonexistent/uncopy\" on \"far\""), "{message}");
        assert!(
            message.contains("install uncopy there, or name where it is with --remote-program")
        );
        let event = run.receipts().pop().unwrap();
        assert_eq!(
            (&event.value()["event"], &event.value()["kind"]),
            (&"failed".into(), &"unreachable".into())
        );
        // Another program, or one that is too old to serve.
        for program in ["true", "echo", "cat", "false"] {
            let run = copy(machines.serving(program), direction).run();
            assert!(run.failed(9).contains("uncopy"), "{program}: {}", run.stderr);
        }
        assert!(!machines.destination(direction).join("b").exists());
    }
}

fn a_remote_shell_that_reaches_nobody_is_an_error() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), b"1").unwrap();
        machines
            .log_in_with("echo 'connect to host far port 22: Connection refused' >&2; exit 255");
        let run = copy(machines.cp(), direction).run();
        let message = run.failed(9);
        assert!(
            message.contains("Connection refused") && message.contains("cannot reach"),
            "{message}"
        );
        let by_hand = format!("as in \"{} far true\"", machines.shell().display());
        assert!(message.contains(&by_hand), "{message}");
    }
}

fn a_fifo_as_destination_is_not_replaced() {
    for direction in Direction::BOTH {
        for flags in [&[][..], &["-r"], &["-a"], &["-u"]] {
            let machines = Machines::new();
            fs::write(machines.source(direction).join("a"), b"1").unwrap();
            let fifo = machines.destination(direction).join("b");
            mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
            let run = copy(machines.cp().args(flags), direction).run();
            let message = run.failed(1);
            assert!(message.contains("it is a FIFO"), "{flags:?}: {message}");
            assert!(!message.contains("--copy-contents"), "{flags:?}: {message}");
            assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        }
    }
}

/// The events had no code, and no summary came after them.
fn a_directory_that_is_missing_ends_the_report_of_several_sources() {
    for direction in Direction::BOTH {
        for (flags, has_summary) in [(&["--json"][..], false), (&["--json", "-r"], true)] {
            for name in ["missing", "file"] {
                let machines = Machines::new();
                for source in ["a", "b"] {
                    fs::write(machines.source(direction).join(source), b"1").unwrap();
                }
                fs::write(machines.destination(direction).join("file"), b"1").unwrap();
                let sources = ["a", "b"].map(|source| direction.source(source));
                let program = machines.cp().args(flags).args(sources);
                let run = program.arg(direction.destination(name)).run();
                let message = run.failed(1);
                assert!(message.contains("; name a directory that exists"), "{message}");
                let events = run.receipts();
                let (failed, rest) = events.split_at(2);
                for event in failed.iter().map(|event| event.value()) {
                    assert_eq!(event["kind"], "refused", "{event}");
                    assert_eq!(event["code"], "no_directory", "{event}");
                    assert_eq!(event["next_step"], "name a directory that exists", "{event}");
                }
                let summaries: Vec<_> = rest.iter().map(|event| event.value()).collect();
                assert_eq!(summaries.len(), usize::from(has_summary), "{flags:?}: {}", run.stdout);
                for summary in summaries {
                    assert_eq!(summary["event"], "summary");
                    assert_eq!(summary["failed"], 2);
                }
            }
        }
    }
}

/// How it ended, and what to do about that.
fn a_remote_shell_that_ends_before_the_greeting_says_how() {
    for direction in Direction::BOTH {
        for (script, expected, next) in [
            ("exit 0", "ended with status 0", "see what it printed"),
            ("echo 'no such account' >&2; exit 1", "ended with status 1", "see what it printed"),
            (
                "echo 'usage: uncopy'; exit 2",
                "answered there (it printed \"usage: uncopy\")",
                "same version",
            ),
            ("exit 126", "cannot be run", "with --remote-program"),
            ("exit 127", "there is no program", "with --remote-program"),
            ("exit 255", "cannot reach \"far\"", "try it by hand"),
            ("kill -9 $$", "was killed by signal 9", "copy again"),
            ("kill -15 $$", "was killed by signal 15", "copy again"),
            ("exec >&-; exec sleep 60", "closed its output", "leave its output"),
        ] {
            let machines = Machines::new();
            fs::write(machines.source(direction).join("a"), b"1").unwrap();
            machines.log_in_with(script);
            let run = copy(machines.cp().arg("--json"), direction).run();
            let message = run.failed(9);
            assert!(message.contains(expected) && message.contains(next), "{script}: {message}");
            assert!(!message.contains("does not speak"), "{script}: {message}");
            let event = run.receipts().pop().unwrap();
            assert_eq!(event.value()["kind"], "unreachable", "{script}");
            assert!(!machines.destination(direction).join("b").exists());
        }
    }
}

/// With pull it was an `EACCES` of the system, with the advice to check permissions.
fn a_link_that_another_user_made_is_named_as_on_one_machine() {
    const STRANGER: u32 = 1234;
    for direction in Direction::BOTH {
        for (source, flags, links) in [
            ("shared/l", &[][..], ["shared/l"].as_slice()),
            ("shared/l", &["-a", "-H"], &["shared/l"]),
            ("shared/d", &["-rH"], &["shared/d"]),
            ("shared/d/", &["-r"], &["shared/d"]),
            ("shared/l", &["-r", "--links=follow"], &["shared/l"]),
            ("own", &[], &["shared/l"]),
            ("", &["-r", "--links=follow"], &["shared/d", "shared/l"]),
        ] {
            let machines = Machines::new();
            let at = machines.source(direction).path();
            fs::create_dir_all(at.join("shared")).unwrap();
            fs::set_permissions(at.join("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
            fs::create_dir(at.join("tree")).unwrap();
            fs::write(at.join("file"), b"1").unwrap();
            symlink("../file", at.join("shared/l")).unwrap();
            symlink("../tree", at.join("shared/d")).unwrap();
            symlink("shared/l", at.join("own")).unwrap();
            for link in ["l", "d"] {
                lchown(at.join("shared").join(link), Some(STRANGER), None).unwrap();
            }
            let what = format!("{direction:?} {source} {flags:?}");
            let cp = machines.cp().args(flags).arg(direction.source(source));
            let run = cp.arg("--audit=log").arg(direction.destination("copy")).run();
            let message = run.failed(1);
            let machine = if direction == Direction::Pull { "far:" } else { "./" };
            for link in links {
                // In a tree it is named from there on.
                let shown = if source.is_empty() { "" } else { machine };
                let said = format!(
                    "{shown}{link} is a symbolic link of user {STRANGER} in a sticky directory that everybody \
                     may write to, and is not followed (EACCES); name what it leads to"
                );
                assert!(message.contains(&said), "{what}: {message}");
            }
            assert!(!message.contains("check the permissions"), "{what}: {message}");
            let log = fs::read_to_string(machines.near.join("log")).unwrap();
            assert!(log.contains("\"kind\":\"refused\""), "{what}: {log}");
            let cp = machines.cp().args(flags).args(["--json"]).arg(direction.source(source));
            let run = cp.arg(direction.destination("copy")).run();
            let receipts = run.receipts();
            let failed = receipts.iter().map(|event| event.value());
            let failed: Vec<_> = failed.filter(|event| event["event"] == "failed").collect();
            assert!(!failed.is_empty(), "{what}: {}", run.stdout);
            for event in failed {
                assert_eq!(
                    (&event["kind"], &event["errno_name"]),
                    (&"refused".into(), &"EACCES".into()),
                    "{what}: {event}"
                );
            }
        }
    }
}

/// Those of sysfs say that they have a page, and "changed" to what they have. All are chosen from
/// those that stay as they are: counters of the kernel move between two copies.
fn files_that_are_generated_are_copied_to_their_end() {
    for source in [
        "/proc/version",
        "/proc/sys/kernel/ostype",
        "/sys/class/net/lo/mtu",
        "/sys/devices/system/cpu/cpu0/topology/",
    ] {
        if !Path::new(source).exists() {
            continue;
        }
        for direction in Direction::BOTH {
            for flags in [&["-r"][..], &["-r", "--verify"], &["-r", "--durable"], &["-a"], &[]] {
                let is_tree = source.ends_with('/');
                if is_tree && flags.is_empty() {
                    continue;
                }
                let machines = Machines::new();
                let here = Program::new(UNCOPY).arg("cp").args(flags).args([source, "here"]);
                succeeded(&here.current_dir(&machines.near).run());
                let operand = match direction {
                    Direction::Push => source.to_owned(),
                    Direction::Pull => format!("far:{source}"),
                };
                let cp = machines.cp().args(flags).arg(operand);
                succeeded(&cp.arg(direction.destination("copy")).run());
                let (here, copy) =
                    (machines.near.join("here"), machines.destination(direction).join("copy"));
                if is_tree {
                    assert_same_tree(&here, &copy, Compared::default());
                } else {
                    let what = format!("{direction:?} {source} {flags:?}");
                    assert_eq!(fs::read(here).unwrap(), fs::read(copy).unwrap(), "{what}");
                }
            }
        }
    }
}

/// A login script may print a little.
fn a_banner_is_skipped_and_a_book_is_not() {
    for direction in Direction::BOTH {
        for (bytes, is_skipped) in [(1, true), (60 << 10, true), (70 << 10, false)] {
            let machines = Machines::new();
            fs::write(machines.source(direction).join("a"), b"1").unwrap();
            machines.log_in_with(&format!("yes Welcome | head -c {bytes}"));
            let run = copy(machines.cp(), direction).run();
            if is_skipped {
                succeeded(&run);
                assert_eq!(run.stdout, "", "{bytes}");
            } else {
                assert!(run.failed(9).contains("its login shell"), "{}", run.stderr);
            }
            assert_eq!(machines.destination(direction).join("b").exists(), is_skipped, "{bytes}");
        }
    }
}

/// The words of the program there are split by the login's shell, as `sudo uncopy` needs.
fn the_program_there_may_have_words() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), b"1").unwrap();
        let programs = machines.aside.subdirectory("programs of root", 0o755);
        let log = machines.aside.join("sudo-log");
        let sudo = format!(
            "#!/bin/sh\n[ \"$1\" = -n ] && shift\nprintf '<%s>' \"$@\" >>'{}'\nexec \"$@\"\n",
            log.display()
        );
        let path = programs.join("sudo");
        fs::write(&path, sudo).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        machines.log_in_with(&format!("PATH='{}':$PATH", programs.display()));
        let quoted = format!("'{}' -n '{UNCOPY}'", path.display());
        for program in [format!("sudo {UNCOPY}"), format!("sudo -n {UNCOPY}"), quoted] {
            succeeded(&copy(machines.serving(&program).arg("-f"), direction).run());
            let copied = machines.destination(direction).join("b");
            assert_eq!(fs::read(&copied).unwrap(), b"1");
            fs::remove_file(&copied).unwrap();
            let found = fs::read_to_string(&log).unwrap();
            assert_eq!(found, format!("<{UNCOPY}><serve><--stdio>"), "{direction:?} {program}");
            fs::remove_file(&log).unwrap();
        }
        // A `sudo` that asks for a password has no terminal: it says so and ends.
        fs::write(&path, "#!/bin/sh\necho 'sudo: a terminal is required' >&2\nexit 1\n").unwrap();
        let run = copy(machines.serving(&format!("sudo {UNCOPY}")), direction).run();
        let message = run.failed(9);
        assert!(message.contains("a terminal is required"), "{message}");
        assert!(message.contains("ended with status 1 before uncopy answered"), "{message}");
    }
}

/// Errors of the other machine's files are errors of entries, as here.
fn errors_are_those_of_one_machine() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        let run = copy(machines.cp(), direction).run();
        assert!(run.failed(1).contains("No such file or directory (ENOENT)"), "{}", run.stderr);
        fs::create_dir(machines.source(direction).join("a")).unwrap();
        // A directory without -r.
        let run = copy(machines.cp(), direction).run();
        assert!(run.failed(1).contains("directory"), "{}", run.stderr);
        fs::write(machines.source(direction).join("a/x"), b"1").unwrap();
        let run = machines
            .cp()
            .arg("-r")
            .arg(direction.source("a"))
            .arg(direction.source("none"))
            .arg(direction.source("a/x"))
            .arg(direction.destination("d"))
            .run();
        assert!(run.failed(1).contains("d: it does not exist"), "{}", run.stderr);
        fs::create_dir(machines.destination(direction).join("d")).unwrap();
        let run = machines
            .cp()
            .arg("-r")
            .arg(direction.source("a"))
            .arg(direction.source("none"))
            .arg(direction.source("a/x"))
            .arg(direction.destination("d"))
            .run();
        assert!(run.failed(1).contains("none"), "{}", run.stderr);
        let into = machines.destination(direction).join("d");
        assert_eq!(names_in(&into), ["a", "x"], "{direction:?}: {}", run.stderr);
        // Two sources with one destination.
        let run = machines
            .cp()
            .arg(direction.source("a/x"))
            .arg(direction.source("./a/x"))
            .arg(direction.destination("d"))
            .run();
        assert!(run.failed(2).contains("would both become"), "{direction:?}: {}", run.stderr);
    }
}

/// By an ordinary user, on both machines.
fn what_may_not_be_read_is_an_error_of_its_entry() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        for directory in [&machines.near, &machines.far, &machines.aside] {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        }
        let source = machines.source(direction).join("src");
        fs::create_dir(&source).unwrap();
        for name in ["open", "secret"] {
            fs::write(source.join(name), name).unwrap();
        }
        fs::set_permissions(source.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
        let run = machines
            .cp()
            .arg("-r")
            .arg(direction.source("src"))
            .arg(direction.destination("copy"))
            .as_user(65534)
            .run();
        let message = run.failed(1);
        assert!(message.contains("secret") && message.contains("EACCES"), "{message}");
        assert_eq!(names_in(&machines.destination(direction).join("copy")), ["open"]);
    }
}

/// Returns sources that failed, from `src` on, with their errors.
fn failures(run: &Run) -> Vec<String> {
    let events = run.receipts().into_iter().filter(|event| event.value()["event"] == "failed");
    let path = |event: testbed::Receipt| {
        let path = event.value()["source"].as_str().unwrap_or_default().to_owned();
        let name = path.rsplit_once("src").map_or("", |(_, name)| name).to_owned();
        format!("{name} {}", event.value()["errno"])
    };
    let mut found: Vec<String> = events.map(path).collect();
    found.sort();
    found
}

/// A dry run promised files of another machine without opening them.
fn a_dry_run_names_what_the_copy_cannot_open() {
    for direction in Direction::BOTH {
        for (flags, is_there) in [(&["-r"][..], false), (&["-rT"], true), (&["-rf"], false)] {
            let machines = Machines::new();
            for directory in [&machines.near, &machines.far, &machines.aside] {
                fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
            }
            let (from, to) = (machines.source(direction), machines.destination(direction));
            fs::create_dir_all(from.join("src/closed")).unwrap();
            let long = "x".repeat(100_000);
            for (name, contents) in
                [("open", "1"), ("secret", "2"), ("long", &*long), ("empty", "")]
            {
                fs::write(from.join("src").join(name), contents).unwrap();
            }
            for name in ["secret", "long", "empty", "closed"] {
                let path = from.join("src").join(name);
                fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
            }
            if is_there {
                let there = to.subdirectory("there", 0o777);
                fs::write(there.join("secret"), b"older").unwrap();
                fs::set_permissions(there.join("secret"), fs::Permissions::from_mode(0o666))
                    .unwrap();
            }
            let copy = |more: &[&str]| {
                let run = machines.cp().arg("--json").args(flags).args(more);
                let run = run.arg(direction.source("src")).arg(direction.destination("there"));
                run.as_user(65534).run()
            };
            let local = Program::new(UNCOPY).args(["cp", "--json", "--dry-run"]).args(flags);
            let local = local.arg(from.join("src")).arg(to.join("there")).as_user(65534).run();
            let (planned, made) = (copy(&["--dry-run"]), copy(&[]));
            let what = format!("{direction:?} {flags:?}: {}\n{}", planned.stdout, made.stdout);
            for run in [&local, &planned, &made] {
                assert_eq!(run.status.code(), Some(1), "{what}");
                let expected = ["/closed 13", "/empty 13", "/long 13", "/secret 13"];
                assert_eq!(failures(run), expected, "{what}");
            }
            assert!(planned.stdout.contains("src/open"), "{what}");
        }
    }
}

/// A directory that can be listed and whose entries cannot be looked at: each fails alone, as on one machine.
fn what_cannot_be_looked_at_is_an_error_of_its_entry() {
    for direction in Direction::BOTH {
        for flags in [&["-r"][..], &["-rT", "--delete"], &["-r", "--dry-run"]] {
            let machines = Machines::new();
            for directory in [&machines.near, &machines.far, &machines.aside] {
                fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
            }
            let (from, to) = (machines.source(direction), machines.destination(direction));
            let closed = from.join("src/closed");
            fs::create_dir_all(closed.join("directory")).unwrap();
            fs::create_dir(from.join("src/open")).unwrap();
            for name in ["src/closed/a", "src/closed/b", "src/open/c", "src/d"] {
                fs::write(from.join(name), name).unwrap();
            }
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o444)).unwrap();
            if flags.contains(&"--delete") {
                for copy in ["here", "there"] {
                    fs::create_dir_all(to.join(copy).join("closed")).unwrap();
                    for name in ["closed/a", "closed/gone", "gone"] {
                        fs::write(to.join(copy).join(name), b"older").unwrap();
                    }
                    for name in ["", "closed", "closed/a", "closed/gone", "gone"] {
                        rustix::fs::chown(
                            to.join(copy).join(name),
                            Some(rustix::fs::Uid::from_raw(65534)),
                            None,
                        )
                        .unwrap();
                    }
                }
            }
            let local = Program::new(UNCOPY).arg("cp").arg("--json").args(flags);
            let local = local.arg(from.join("src")).arg(to.join("here")).as_user(65534).run();
            let remote = machines.cp().arg("--json").args(flags).arg(direction.source("src"));
            let remote = remote.arg(direction.destination("there")).as_user(65534).run();
            let what =
                format!("{direction:?} {flags:?}: {}\nhere: {}", remote.stdout, local.stdout);
            assert_eq!((remote.status.code(), local.status.code()), (Some(1), Some(1)), "{what}");
            let found = failures(&remote);
            assert_eq!(found, failures(&local), "{what}");
            assert!(found.iter().any(|name| name.starts_with("/closed/b")), "{what}");
            if !flags.contains(&"--dry-run") {
                assert_same_tree(&to.join("here"), &to.join("there"), Compared::default());
                assert!(to.join("there/open/c").exists(), "{what}");
            }
        }
    }
}

/// A path that no system opens is an error of its source or of the destination, and of no other source.
fn a_path_that_is_too_long_is_an_error_of_it() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        for name in ["a", "c"] {
            fs::write(machines.source(direction).join(name), b"1").unwrap();
        }
        fs::create_dir(machines.source(direction).join("d")).unwrap();
        fs::create_dir(machines.destination(direction).join("d")).unwrap();
        let to = machines.destination(direction);
        for bytes in [4100, 5000, 20_000, 4000] {
            let path = format!("{}a", "d/../".repeat(bytes / 5));
            let run = machines
                .cp()
                .arg(direction.source(&path))
                .arg(direction.source("c"))
                .arg(direction.destination("d"))
                .run();
            let expected = match bytes > 4095 {
                true => {
                    let message = run.failed(1);
                    assert!(message.contains("ENAMETOOLONG"), "{direction:?}: {message}");
                    &["c"][..]
                }
                false => &["a", "c"],
            };
            assert_eq!(names_in(&to.join("d")), expected, "{direction:?} {bytes}: {}", run.stderr);
            let path = format!("{}b", "d/../".repeat(bytes / 5));
            let run = machines.cp().arg(direction.source("a")).arg(direction.destination(&path));
            let run = run.run();
            match bytes > 4095 {
                true => {
                    assert!(run.failed(1).contains("ENAMETOOLONG"), "{direction:?}: {}", run.stderr)
                }
                false => succeeded(&run),
            }
        }
    }
}

/// Those of a copy to another machine travel with its job.
fn more_patterns_than_a_job_takes_are_refused_by_name() {
    let machines = Machines::new();
    fs::create_dir(machines.near.join("src")).unwrap();
    for (count, is_taken) in [(20_000, true), (60_000, false)] {
        let patterns: String = (0..count).map(|number| format!("pattern-{number:08}\n")).collect();
        fs::write(machines.near.join("patterns"), patterns).unwrap();
        let run = machines.cp().args(["-rT", "--exclude-from=patterns", "src", "far:copy"]).run();
        match is_taken {
            true => succeeded(&run),
            false => {
                let message = run.failed(2);
                assert!(
                    message.contains("patterns of a copy take at most 1114112 bytes"),
                    "{message}"
                );
            }
        }
    }
}

/// It says so also when it is confined to paths, of which `/proc` is none.
fn a_serving_machine_is_named_by_its_errors() {
    let machines = Machines::new();
    let root = machines.far.to_str().unwrap().as_bytes();
    let frame = |kind: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        [&length[..], &[kind], &[0; 4], payload].concat()
    };
    let length = u32::try_from(root.len()).unwrap().to_le_bytes();
    let job = [&[1][..], &1_u32.to_le_bytes(), &length, root].concat();
    let greeting = b"\0\xffuncopy wire\r\n\x1a\x01\0\x01\0\x01x";
    // A job, and a frame of no kind.
    let sent = [&greeting[..], &frame(16, &job), &frame(99, b"")].concat();
    let mut serving = Command::new(UNCOPY)
        .args(["serve", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    serving.stdin.take().unwrap().write_all(&sent).unwrap();
    let output = serving.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(said.contains(&format!("serve on {:?}: ", host.trim_end())), "{said}");
    assert!(said.contains("breaks the protocol"), "{said}");
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] a_link_that_another_user_made_is_named_as_on_one_machine,
        [] files_that_are_generated_are_copied_to_their_end,
        [] a_machine_without_uncopy_is_named,
        [] a_remote_shell_that_reaches_nobody_is_an_error,
        [] a_fifo_as_destination_is_not_replaced,
        [] a_directory_that_is_missing_ends_the_report_of_several_sources,
        [] a_remote_shell_that_ends_before_the_greeting_says_how,
        [] a_banner_is_skipped_and_a_book_is_not,
        [] errors_are_those_of_one_machine,
        [] a_path_that_is_too_long_is_an_error_of_it,
        [] more_patterns_than_a_job_takes_are_refused_by_name,
        [] a_serving_machine_is_named_by_its_errors,
        [] the_program_there_may_have_words,
        [testbed::Need::Root] what_cannot_be_looked_at_is_an_error_of_its_entry,
        [testbed::Need::Root] a_dry_run_names_what_the_copy_cannot_open,
        [testbed::Need::Root] what_may_not_be_read_is_an_error_of_its_entry,
    ]
}
