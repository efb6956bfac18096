//! Through a real `sshd`, with keys and configuration of its own.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use testbed::{
    Case, Compared, Need, Place, Program, Scratch, Sshd, SshdSetup, assert_same_tree, descendants,
    wait_for,
};

use super::{UNCOPY, succeeded};

/// `uncopy cp` that logs in to a server.
fn cp(sshd: &Sshd) -> Program {
    Program::new(UNCOPY)
        .arg("cp")
        .arg("-e")
        .arg(format!("ssh -F '{}'", sshd.client_config().display()))
        .args(["--remote-program", UNCOPY])
}

fn make_sources(at: &Scratch) {
    let source = at.join("src");
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d/large"), vec![5; 2 << 20]).unwrap();
    fs::write(source.join("$(touch x) 'q' \"q\""), b"odd").unwrap();
    for number in 0..200 {
        fs::write(source.join(format!("d/{number}")), format!("{number}")).unwrap();
    }
    fs::hard_link(source.join("d/1"), source.join("d/linked")).unwrap();
    std::os::unix::fs::symlink("d/1", source.join("link")).unwrap();
}

fn trees_go_there_and_back() {
    let sshd = Sshd::start();
    let scratch = Place::Disk.scratch();
    make_sources(&scratch);
    for host in ["127.0.0.1", "[::1]"] {
        let there = scratch.join("there");
        let back = scratch.join("back");
        let operand = |path: &std::path::Path| format!("{host}:{}", path.display());
        let push =
            cp(&sshd).args(["-a", "--durable"]).arg(scratch.join("src")).arg(operand(&there));
        let (log, sums) = (scratch.join("log"), scratch.join("sums"));
        succeeded(&push.arg("--audit").arg(&log).arg("--manifest").arg(&sums).run());
        assert_same_tree(&scratch.join("src"), &there, Compared::wholly());
        let pull = cp(&sshd).args(["-a", "--verify", "--json"]).arg(operand(&there)).arg(&back);
        succeeded(&pull.run());
        assert_same_tree(&scratch.join("src"), &back, Compared::wholly());
        for check in [
            Program::new(UNCOPY).args(["audit", "verify"]).arg(&log),
            Program::new(UNCOPY).args(["verify", "--strict", "--manifest"]).arg(&sums).arg(&there),
        ] {
            succeeded(&check.run());
        }
        assert_eq!(scratch.strangers(&["src", "there", "back", "log", "sums"]), [""; 0]);
        for copy in [there, back] {
            fs::remove_dir_all(copy).unwrap();
        }
        for file in [log, sums] {
            fs::remove_file(file).unwrap();
        }
    }
}

/// The port of an address is given to ssh, and the path is absolute.
fn an_address_has_a_port() {
    let sshd = Sshd::start();
    let scratch = Place::Disk.scratch();
    fs::write(scratch.join("a"), b"1").unwrap();
    let address = format!("ssh://127.0.0.1:1{}", scratch.join("b").display());
    let run = cp(&sshd).arg(scratch.join("a")).arg(address).run();
    let message = run.failed(9);
    assert!(message.contains("cannot reach"), "{message}");
    assert!(!scratch.join("b").exists());
}

/// Killed in the middle, on either side of ssh, and by a signal; each goes on.
fn a_copy_that_ends_early_goes_on() {
    let sshd = Sshd::start();
    for (victim, signal) in [("ssh", Signal::KILL), ("uncopy", Signal::INT)] {
        let scratch = Place::Disk.scratch();
        let source = scratch.join("src");
        fs::create_dir(&source).unwrap();
        for name in ["x", "y", "z"] {
            fs::write(source.join(name), vec![3; 2 << 20]).unwrap();
        }
        let there = format!("127.0.0.1:{}", scratch.join("there").display());
        let child = Command::new(UNCOPY)
            .args(["cp", "-r", "--resume", "-j1", "--max-bandwidth=2M", "-e"])
            .arg(format!("ssh -F '{}'", sshd.client_config().display()))
            .args(["--remote-program", UNCOPY])
            .arg(&source)
            .arg(&there)
            .env("UNCOPY_CONFIG", "/dev/null")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for("a file there", || super::ending::bytes_below(&scratch) > 17 << 19);
        let process = match victim {
            "ssh" => descendants(child.id())[0],
            _ => child.id(),
        };
        kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        match victim {
            "ssh" => assert_eq!(output.status.code(), Some(9), "{text}"),
            _ => assert_eq!(output.status.signal(), Some(2), "{text}"),
        }
        assert!(!scratch.join("there").exists(), "{text}");
        // The other end may still be about to see that the connection is gone.
        wait_for("end of the first run", || {
            let run = cp(&sshd).args(["-r", "--resume", "--json"]).arg(&source).arg(&there).run();
            let is_held = run.stderr.contains("another run is at work");
            if !is_held {
                succeeded(&run);
                let resumed = run.receipts().pop().unwrap().value()["resumed"].as_u64();
                assert!(resumed > Some(0), "{}", run.stdout);
            }
            !is_held
        });
        assert_same_tree(&source, &scratch.join("there"), Compared::default());
        assert_eq!(scratch.strangers(&["src", "there"]), [""; 0]);
    }
}

/// Each process of the way that may be killed before the other program answers.
fn a_login_that_is_killed_before_the_greeting_says_so() {
    let sshd = Sshd::start();
    let scratch = Place::Disk.scratch();
    fs::write(scratch.join("a"), b"1").unwrap();
    let slow = scratch.join("slow");
    fs::write(&slow, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (victim, expected) in [
        ("ssh", "was killed by signal 9 before uncopy answered"),
        ("sshd", "cannot reach \"127.0.0.1\""),
        ("sleep", "the remote shell ended with status 255"),
    ] {
        let child = Command::new(UNCOPY)
            .args(["cp", "-e"])
            .arg(format!("ssh -F '{}'", sshd.client_config().display()))
            .arg("--remote-program")
            .arg(&slow)
            .arg(scratch.join("a"))
            .arg(format!("127.0.0.1:{}", scratch.join("b").display()))
            .env("UNCOPY_CONFIG", "/dev/null")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let find = |of: u32, arguments: &[u8]| {
            let is_it = |id: &u32| {
                fs::read(format!("/proc/{id}/cmdline"))
                    .is_ok_and(|words| words.starts_with(arguments))
            };
            descendants(of).into_iter().find(is_it)
        };
        // The login's own files may start a sleep, too.
        let (server, sleep) = (sshd.process_id(), b"sleep\x00600\x00");
        wait_for("program there", || find(server, sleep).is_some());
        let program = find(server, sleep);
        let has_program =
            |id: &u32| descendants(*id).into_iter().any(|below| Some(below) == program);
        let process = match victim {
            "ssh" => find(child.id(), b"ssh\0"),
            // The first process of the session.
            "sshd" => descendants(server).into_iter().find(has_program),
            _ => program,
        };
        let process = Pid::from_raw(process.unwrap().try_into().unwrap()).unwrap();
        kill_process(process, Signal::KILL).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(9), "{victim}: {text}");
        assert!(text.contains(expected), "{victim}: {text}");
        assert!(!text.contains("does not speak"), "{victim}: {text}");
        wait_for("end of the login", || descendants(server).is_empty());
    }
}

/// A key that is bound to a directory, whatever command the other end asks for.
fn a_key_is_bound_to_a_directory() {
    let sshd = Sshd::start();
    let scratch = Place::Disk.scratch();
    let only = scratch.subdirectory("only", 0o755);
    fs::write(scratch.join("outside"), b"secret").unwrap();
    fs::write(only.join("inside"), b"shown").unwrap();
    sshd.bind_key_to(&format!("{UNCOPY} serve --stdio --restrict {} --read-only", only.display()));
    let copy = scratch.join("copy");
    succeeded(&cp(&sshd).arg("127.0.0.1:inside").arg(&copy).run());
    assert_eq!(fs::read(&copy).unwrap(), b"shown");
    let outside = format!("127.0.0.1:{}", scratch.join("outside").display());
    let run = cp(&sshd).arg(outside).arg(scratch.join("stolen")).run();
    assert!(run.failed(1).contains("leads out"), "{}", run.stderr);
    assert!(!scratch.join("stolen").exists());
    let run = cp(&sshd).arg(&copy).arg("127.0.0.1:written").run();
    assert!(run.failed(1).contains("may read and not write"), "{}", run.stderr);
    assert!(!only.join("written").exists());
}

/// There and back, by addresses of this server.
fn go_there_and_back(sshd: &Sshd, scratch: &Scratch, host: &str) {
    let (there, back) = (scratch.join("there"), scratch.join("back"));
    let operand = format!("{host}:{}", there.display());
    let cp = || cp(sshd).through(sshd.as_its_user());
    let push = cp().args(["-r", "--verify"]).arg(scratch.join("src")).arg(&operand);
    succeeded(&push.run());
    assert_same_tree(&scratch.join("src"), &there, Compared::default());
    let pull = cp().args(["-r", "--verify", "--json"]).arg(&operand).arg(&back);
    succeeded(&pull.run());
    assert_same_tree(&scratch.join("src"), &back, Compared::default());
    assert_eq!(scratch.strangers(&["src", "there", "back"]), [""; 0]);
}

/// Server and client of a user without privileges, who has keys and a port of its own.
fn an_ordinary_user_needs_no_privilege() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    const USER: u32 = 54_321;
    let sshd = Sshd::start_with(&SshdSetup { user: Some(USER), ..SshdSetup::default() });
    let scratch = Place::Disk.scratch();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    make_sources(&scratch);
    go_there_and_back(&sshd, &scratch, "127.0.0.1");
    for copy in ["there", "back"] {
        assert_eq!(fs::metadata(scratch.join(copy)).unwrap().uid(), USER, "{copy}");
    }
    // A directory that this user may not write to is an error on both sides.
    let closed = scratch.subdirectory("closed", 0o700);
    for (source, destination) in [
        ("src/link".to_owned(), format!("127.0.0.1:{}/a", closed.display())),
        (format!("127.0.0.1:{}/src/link", scratch.display()), format!("{}/a", closed.display())),
    ] {
        let run = cp(&sshd).arg(source).arg(destination).current_dir(scratch.path());
        let run = run.through(sshd.as_its_user()).run();
        assert!(run.failed(1).contains("EACCES"), "{}", run.stderr);
    }
    assert!(super::names_in(&closed).is_empty());
}

/// Over a link that has IPv6 alone, and packets of the least size that it may have (RFC 8200).
fn small_packets_of_ipv6_are_enough() {
    use testbed::network::{End, linked};
    let (address_is, near_waits) = mpsc::channel();
    let (near_is_done, far_waits) = mpsc::channel::<()>();
    let narrow = |network: &testbed::network::Network, device: &str| {
        network.ip(&format!("link set {device} mtu 1280"));
        network.ip(&format!("-4 address flush dev {device}"));
    };
    let host = End::Far.address(true, 0).ip();
    linked(
        move |network| {
            narrow(network, "veth0");
            let config: std::path::PathBuf = near_waits.recv().unwrap();
            let scratch = Place::Disk.scratch();
            make_sources(&scratch);
            let cp = || {
                let shell = format!("ssh -F '{}'", config.display());
                Program::new(UNCOPY)
                    .arg("cp")
                    .arg("-e")
                    .arg(shell)
                    .args(["--remote-program", UNCOPY])
            };
            let (there, back) = (scratch.join("there"), scratch.join("back"));
            let operand = format!("[{host}]:{}", there.display());
            succeeded(&cp().args(["-a", "--verify"]).arg(scratch.join("src")).arg(&operand).run());
            succeeded(&cp().args(["-a", "--verify"]).arg(&operand).arg(&back).run());
            assert_same_tree(&scratch.join("src"), &there, Compared::wholly());
            assert_same_tree(&scratch.join("src"), &back, Compared::wholly());
            drop(near_is_done);
        },
        move |network| {
            narrow(network, "veth1");
            let sshd = Sshd::start_with(&SshdSetup { addresses: vec![host], user: None });
            address_is.send(sshd.client_config()).unwrap();
            // Ends with the near side, whatever comes of it.
            let _ = far_waits.recv();
        },
    );
}

pub(crate) fn cases() -> Vec<Case> {
    let as_user = [Need::Root, Need::Tool("setpriv"), Need::Tool("unshare")];
    let as_user = as_user.into_iter().fold(
        Case::new("remote::shells::an_ordinary_user_needs_no_privilege", &[], || {
            an_ordinary_user_needs_no_privilege();
        }),
        Case::needing,
    );
    let narrow = testbed::network::NEEDS.iter().copied().fold(
        Case::new("remote::shells::small_packets_of_ipv6_are_enough", &[], || {
            small_packets_of_ipv6_are_enough();
        }),
        Case::needing,
    );
    let cases = testbed::cases![
        [] trees_go_there_and_back,
        [] an_address_has_a_port,
        [] a_copy_that_ends_early_goes_on,
        [] a_login_that_is_killed_before_the_greeting_says_so,
        [] a_key_is_bound_to_a_directory,
    ];
    let needs = [Need::Tool("sshd"), Need::Tool("ssh"), Need::Tool("ssh-keygen")];
    let cases = cases.into_iter().chain([as_user, narrow]);
    cases.map(|case| needs.into_iter().fold(case, Case::needing)).collect()
}
