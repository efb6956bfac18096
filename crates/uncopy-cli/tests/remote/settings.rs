//! Flags, settings and environment of the machine of the command line decide, and those of the other one do not.

use std::fs;

use testbed::{Case, Program};

use super::{Direction, Machines, UNCOPY, succeeded};

/// Settings and variables that would break every copy.
const SPOILT: &str = "export UNCOPY_CONFIG=/nonexistent UNCOPY_VERIFY=nonsense UNCOPY_COMPRESS=zstd \
                      VERSION_CONTROL=nonsense SIMPLE_BACKUP_SUFFIX=/";

fn those_of_the_far_machine_have_no_say() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        machines.log_in_with(SPOILT);
        fs::write(machines.source(direction).join("a"), b"new").unwrap();
        fs::write(machines.destination(direction).join("b"), b"old").unwrap();
        let run = machines
            .cp()
            .arg("-b")
            .env("UNCOPY_DURABLE", "true")
            .env("VERSION_CONTROL", "simple")
            .env("SIMPLE_BACKUP_SUFFIX", ".kept")
            .arg("--json")
            .arg(direction.source("a"))
            .arg(direction.destination("b"))
            .run();
        succeeded(&run);
        assert_eq!(run.receipt().value()["durable"], true, "{direction:?}: {}", run.stdout);
        let destination = machines.destination(direction);
        assert_eq!(fs::read(destination.join("b")).unwrap(), b"new");
        assert_eq!(fs::read(destination.join("b.kept")).unwrap(), b"old");
    }
}

/// The remote shell is that of the flag, else of the variable, else of the file.
fn the_remote_shell_may_be_a_setting() {
    let machines = Machines::new();
    fs::write(machines.near.join("a"), b"1").unwrap();
    let config = machines.aside.join("config");
    let shell = machines.shell();
    let shell = shell.to_str().unwrap();
    let base = || Program::new(UNCOPY).arg("cp").current_dir(&machines.near);
    fs::write(&config, format!("rsh = '{shell}'\nremote-program = '{UNCOPY}'\n")).unwrap();
    succeeded(&base().arg("--config").arg(&config).args(["a", "far:by-file"]).run());
    fs::write(&config, format!("rsh = '/nonexistent'\nremote-program = '{UNCOPY}'\n")).unwrap();
    let by_variable = base().arg("--config").arg(&config).env("UNCOPY_RSH", shell);
    succeeded(&by_variable.args(["a", "far:by-variable"]).run());
    let by_flag = base().arg("--config").arg(&config).env("UNCOPY_RSH", "/nonexistent");
    succeeded(&by_flag.args(["-e", shell, "a", "far:by-flag"]).run());
    let run = base().arg("--config").arg(&config).args(["a", "far:not"]).run();
    assert!(run.failed(9).contains("cannot start"), "{}", run.stderr);
    for name in ["by-file", "by-variable", "by-flag"] {
        assert!(machines.far.join(name).exists(), "{name}");
    }
    let run = base().args(["-e", "'open", "a", "far:not"]).run();
    assert!(run.failed(2).contains("quotes"), "{}", run.stderr);
}

/// Refused by name, before anything is started, with an event for programs.
fn what_cannot_be_obeyed_is_refused_by_name() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), b"1").unwrap();
        for (flags, named) in [
            (&["--link"][..], "--link"),
            (&["--require=moved"], "--require"),
            (&["--method=splice"], "--method"),
            (&["--in-place", "--prefer=cpu"], "--in-place"),
            (&["-r", "--remove-source-files"], "--remove-source-files"),
        ] {
            let run = machines
                .cp()
                .arg("--json")
                .args(flags)
                .arg(direction.source("a"))
                .arg(direction.destination("b"))
                .run();
            assert!(run.failed(2).contains(named), "{flags:?}: {}", run.stderr);
            let events = run.receipts();
            assert_eq!(events[0].value()["kind"], "options", "{}", run.stdout);
            let is_tree = flags.contains(&"-r");
            assert_eq!(events.len(), if is_tree { 2 } else { 1 }, "{}", run.stdout);
            assert!(!is_tree || events[1].value()["event"] == "summary", "{}", run.stdout);
            // A setting is named by the flag that it is.
        }
        let run = machines
            .cp()
            .env("UNCOPY_PREFER", "cpu")
            .arg(direction.source("a"))
            .arg(direction.destination("b"))
            .run();
        assert!(run.failed(2).contains("uncopy config show"), "{}", run.stderr);
        assert!(!machines.log().exists() && !machines.destination(direction).join("b").exists());
    }
    let machines = Machines::new();
    let run = Program::new(UNCOPY).args(["-s", "far:a", "-d", "b"]).current_dir(&machines.near);
    assert!(run.run().failed(2).contains("uncopy cp --verify"));
}

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] those_of_the_far_machine_have_no_say,
        [] the_remote_shell_may_be_a_setting,
        [] what_cannot_be_obeyed_is_refused_by_name,
    ]
}
