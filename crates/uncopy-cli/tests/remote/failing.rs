//! Errors before and beside a copy, and their messages.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use testbed::{Case, Program};

use super::{Direction, Machines, names_in, succeeded};

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
        assert!(message.contains("install uncopy there"), "{message}");
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

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_machine_without_uncopy_is_named,
        [] a_remote_shell_that_reaches_nobody_is_an_error,
        [] a_banner_is_skipped_and_a_book_is_not,
        [] errors_are_those_of_one_machine,
        [testbed::Need::Root] what_may_not_be_read_is_an_error_of_its_entry,
    ]
}
