//! `uncopy doctor` of copies between machines.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testbed::{Case, Need, Place, Program, Run, Sshd, wait_for};

use super::{Direction, Machines, UNCOPY};

/// `uncopy doctor --json`, with flags of `cp`.
fn doctor(operands: [std::ffi::OsString; 2], shell: &str, flags: &[&str]) -> Program {
    Program::new(UNCOPY)
        .args(["doctor", "--json"])
        .args(operands)
        .args(["--", "-e", shell, "--remote-program", UNCOPY])
        .args(flags)
}

fn answer(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}{}", run.stderr, run.stdout))
}

fn ids(answer: &Value) -> Vec<&str> {
    let findings = answer["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    findings.iter().filter_map(|finding| finding["id"].as_str()).collect()
}

fn fact<'a>(answer: &'a Value, name: &str) -> &'a str {
    let mut facts = answer["facts"].as_array().unwrap().iter();
    facts.find(|fact| fact["name"] == name).and_then(|fact| fact["value"].as_str()).unwrap_or("")
}

fn examine(machines: &Machines, direction: Direction, flags: &[&str]) -> Run {
    let operands = [direction.source("a"), direction.destination("b")];
    let shell = machines.shell().display().to_string();
    doctor(operands, &shell, flags).current_dir(&machines.near).run()
}

fn a_login_without_an_address_gives_the_shell_and_its_reason() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), "bytes").unwrap();
        let run = examine(&machines, direction, &[]);
        let answer = answer(&run);
        assert_eq!(run.status.code(), Some(6), "{answer}");
        let found = ids(&answer);
        assert!(found.starts_with(&["between-ssh", "between-no-address"]), "{answer}");
        let target = match direction {
            Direction::Push => "./a -> far:b",
            Direction::Pull => "far:a -> ./b",
        };
        assert_eq!(answer["target"], target);
        for end in ["here", "there"] {
            assert!(fact(&answer, end).starts_with("Linux "), "{answer}");
        }
        // Nothing was copied or left behind.
        let names = |place: &std::path::Path| fs::read_dir(place).unwrap().count();
        assert_eq!(names(machines.source(direction).path()), 1);
        assert_eq!(names(machines.destination(direction).path()), 0);
    }
}

fn options_and_settings_of_either_end_decide() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), "bytes").unwrap();
        let reason = |run: &Run| {
            let answer = answer(run);
            let findings = answer["findings"].as_array().unwrap().clone();
            let found = findings.into_iter().find(|finding| finding["id"] == "between-forbidden");
            found.and_then(|finding| finding["summary"].as_str().map(str::to_owned))
        };
        let here = reason(&examine(&machines, direction, &["--data=ssh"]));
        assert_eq!(here.as_deref(), Some("this machine wants no data connections"));
        let config = machines.aside.join("there.toml");
        fs::write(&config, "data = \"ssh\"\n").unwrap();
        machines.log_in_with(&format!("export UNCOPY_CONFIG='{}'", config.display()));
        let there = reason(&examine(&machines, direction, &[]));
        assert_eq!(there.as_deref(), Some("the other machine wants no data connections"));
        fs::write(&config, "data = 7\n").unwrap();
        let unread = reason(&examine(&machines, direction, &[]));
        assert!(unread.is_some_and(|found| found.contains("cannot be read")), "{direction:?}");
    }
}

fn a_restricted_login_shows_its_directory_alone() {
    let machines = Machines::new();
    fs::create_dir(machines.far.join("only")).unwrap();
    fs::write(machines.near.join("a"), "bytes").unwrap();
    let only = machines.far.join("only").display().to_string();
    machines.log_in_with(&format!("exec {UNCOPY} serve --stdio --restrict '{only}'"));
    let shell = machines.shell().display().to_string();
    for (path, is_shown) in
        [("only", false), ("..", false), ("/", false), ("", true), ("new", true)]
    {
        let operands = [Direction::Push.source("a"), Direction::Push.destination(path)];
        let run = doctor(operands, &shell, &[]).current_dir(&machines.near).run();
        let answer = answer(&run);
        // A path that is not there is examined beside its name.
        let is_shown = is_shown || path == "only";
        assert_eq!(answer.get("error").is_none(), is_shown, "{path}: {answer}");
        if !is_shown {
            assert_eq!((run.status.code(), &answer["error"]["kind"]), (Some(1), &"refused".into()));
        }
    }
    machines.log_in_with(&format!("exec {UNCOPY} serve --stdio --read-only"));
    let run = examine(&machines, Direction::Pull, &[]);
    assert_eq!(run.status.code(), Some(1), "{}", run.stdout);
}

fn what_cannot_be_examined_is_an_error_with_a_next_step() {
    let machines = Machines::new();
    let run = examine(&machines, Direction::Push, &["--compress=zstd"]);
    assert_eq!(run.status.code(), Some(2), "{}{}", run.stderr, run.stdout);
    let shell = machines.shell().display().to_string();
    let operands = [Direction::Push.source("a"), Direction::Push.destination("b")];
    let run = Program::new(UNCOPY)
        .arg("doctor")
        .args(operands)
        .args(["--", "-e", &shell, "--remote-program", "no-such-program"])
        .current_dir(&machines.near)
        .run();
    assert_eq!(run.status.code(), Some(9), "{}{}", run.stderr, run.stdout);
    assert!(run.stderr.contains("install"), "{}", run.stderr);
    let both = ["far:a".into(), "other:b".into()];
    assert_eq!(doctor(both, &shell, &[]).run().status.code(), Some(2));
    // Another answer than the one asked for.
    let lying = machines.aside.join("lying");
    fs::write(&lying, "#!/bin/sh\necho no protocol\n").unwrap();
    machines.log_in_with(&format!("exec sh '{}'", lying.display()));
    assert_eq!(examine(&machines, Direction::Push, &[]).status.code(), Some(9));
}

/// As on one machine: a source, and the directory of a destination.
fn paths_that_are_not_there_cannot_be_examined() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::write(machines.source(direction).join("a"), "bytes").unwrap();
        fs::create_dir(machines.destination(direction).join("d")).unwrap();
        let shell = machines.shell().display().to_string();
        for (source, destination, missing) in [
            ("none", "b", Some("none")),
            ("none/a", "b", Some("none/a")),
            ("a/x", "b", Some("a/x")),
            ("a", "none/b", Some("none")),
            ("a", "d", None),
            ("a", "d/b", None),
        ] {
            let operands = [direction.source(source), direction.destination(destination)];
            let run = doctor(operands, &shell, &[]).current_dir(&machines.near).run();
            let answer = answer(&run);
            let what = format!("{direction:?} {source} {destination}: {answer}");
            let Some(missing) = missing else {
                assert_eq!(run.status.code(), Some(6), "{what}");
                continue;
            };
            assert_eq!(run.status.code(), Some(1), "{what}");
            assert_eq!(answer["error"]["kind"], "system", "{what}");
            let subject = answer["error"]["subject"].as_str().unwrap();
            assert!(subject.ends_with(missing), "{what}");
        }
    }
}

/// While the remote shell waits, for a password for example.
fn a_signal_ends_the_remote_shell() {
    let machines = Machines::new();
    let here = machines.aside.join("here");
    machines.log_in_with(&format!("echo $$ >'{}'; exec sleep 1000", here.display()));
    let shell = machines.shell().display().to_string();
    let mut child = std::process::Command::new(UNCOPY)
        .args(["doctor", "a", "far:b", "--", "-e", &shell])
        .current_dir(machines.near.path())
        .spawn()
        .unwrap();
    let shell_id = || fs::read_to_string(&here).ok()?.trim().parse::<i32>().ok();
    wait_for("remote shell", || shell_id().is_some());
    let id = i32::try_from(child.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    let shell = shell_id().unwrap();
    wait_for("end of the remote shell", || !fs::exists(format!("/proc/{shell}")).unwrap());
}

/// A real server: the address is known, and its path is examined.
fn behind_a_real_server_the_path_is_examined() {
    let (sshd, scratch) = (Sshd::start(), Place::Disk.scratch());
    fs::write(scratch.join("a"), "bytes").unwrap();
    let shell = format!("ssh -F '{}'", sshd.client_config().display());
    let path = |name: &str| scratch.join(name).display().to_string();
    for (host, address) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1")] {
        let operands = [path("a").into(), format!("{host}:{}", path("b")).into()];
        let run = doctor(operands, &shell, &["--connections=3"]).run();
        let answer = answer(&run);
        assert_eq!(run.status.code(), Some(6), "{answer}");
        assert_eq!(ids(&answer)[0], "between-tls", "{answer}");
        assert!(
            answer["headline"].as_str().unwrap().contains("up to 3 data connections"),
            "{answer}"
        );
        assert!(ids(&answer).contains(&"loopback"), "{answer}");
        assert_eq!(fact(&answer, "address"), address);
    }
    let operands = || [path("a").into(), format!("127.0.0.1:{}", path("b")).into()];
    let open = answer(&doctor(operands(), &shell, &["--data=open"]).run());
    assert_eq!(ids(&open)[0], "between-open", "{open}");
    assert!(open["headline"].as_str().unwrap().contains("in the clear"), "{open}");
    let slow = format!("{shell} -o Ciphers=chacha20-poly1305@openssh.com,aes128-gcm@openssh.com");
    let has_aes = fs::read_to_string("/proc/cpuinfo").unwrap().contains(" aes");
    let answer = answer(&doctor(operands(), &slow, &[]).run());
    assert_eq!(ids(&answer).contains(&"between-slow-cipher"), has_aes, "{answer}");
}

pub(crate) fn cases() -> Vec<Case> {
    let needs = [Need::Tool("sshd"), Need::Tool("ssh"), Need::Tool("ssh-keygen")];
    let real = testbed::cases![[] behind_a_real_server_the_path_is_examined];
    let real = real.into_iter().map(|case| needs.into_iter().fold(case, Case::needing));
    let scripted = testbed::cases![
        [] a_login_without_an_address_gives_the_shell_and_its_reason,
        [] options_and_settings_of_either_end_decide,
        [] a_restricted_login_shows_its_directory_alone,
        [] a_signal_ends_the_remote_shell,
        [] paths_that_are_not_there_cannot_be_examined,
        [] what_cannot_be_examined_is_an_error_with_a_next_step,
    ];
    real.chain(scripted).collect()
}
