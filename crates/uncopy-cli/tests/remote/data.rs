//! Bytes over connections with TLS beside a real `ssh`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testbed::network::{self, Network};
use testbed::{
    Case, Compared, Need, Place, Program, Run, Scratch, Sshd, assert_same_tree, run_tool, wait_for,
};

use super::{Direction, Machines, UNCOPY, succeeded};

/// Length of the large file: more than goes through the shell before connections are made.
const LARGE: usize = 40 << 20;

fn contents(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        state.to_le_bytes()
    });
    next.flatten().take(length).collect()
}

fn make_sources(at: &Path) {
    fs::create_dir_all(at.join("d/e")).unwrap();
    fs::write(at.join("d/large"), contents(1, LARGE)).unwrap();
    fs::write(at.join("d/e/other"), contents(2, LARGE / 4 + 3)).unwrap();
    for number in 0..300 {
        fs::write(at.join(format!("d/e/{number}")), format!("{number}")).unwrap();
    }
}

/// A server, and a directory with sources.
struct Login {
    sshd: Sshd,
    scratch: Scratch,
}

impl Login {
    fn new() -> Login {
        let login = Login { sshd: Sshd::start(), scratch: Place::Disk.scratch() };
        make_sources(&login.scratch.join("src"));
        login
    }

    fn shell(&self) -> String {
        format!("ssh -F '{}'", self.sshd.client_config().display())
    }

    fn cp(&self) -> Program {
        self.cp_of_files().arg("-r")
    }

    fn cp_of_files(&self) -> Program {
        let shell = self.shell();
        Program::new(UNCOPY).args(["cp", "-e", &shell]).args(["--remote-program", UNCOPY])
    }

    fn operands(&self, direction: Direction, host: &str) -> [String; 2] {
        let there = |name: &str| format!("{host}:{}", self.scratch.join(name).display());
        let here = |name: &str| self.scratch.join(name).display().to_string();
        match direction {
            Direction::Push => [here("src"), there("copy")],
            Direction::Pull => [there("src"), here("copy")],
        }
    }

    /// Copies, checks the copy and removes it; returns `wire` of the summary.
    fn copied(&self, direction: Direction, host: &str, flags: &[&str]) -> serde_json::Value {
        let run = self.cp().arg("--json").args(flags).args(self.operands(direction, host)).run();
        self.check(&run)
    }

    fn check(&self, run: &Run) -> serde_json::Value {
        succeeded(run);
        assert_same_tree(
            &self.scratch.join("src"),
            &self.scratch.join("copy"),
            Compared::default(),
        );
        fs::remove_dir_all(self.scratch.join("copy")).unwrap();
        assert_eq!(self.scratch.strangers(&["src"]), [""; 0]);
        run.receipts().pop().unwrap().value()["wire"].clone()
    }
}

const ALL: u64 = (LARGE + LARGE / 4) as u64;

/// Ways of the bytes over connections, and their names in receipts.
const WAYS: [&str; 2] = ["tls", "open"];

fn bytes_go_over_connections_in_both_directions_and_families() {
    let login = Login::new();
    for direction in Direction::BOTH {
        for way in WAYS {
            for (host, connections) in [("127.0.0.1", "1"), ("127.0.0.1", "4"), ("[::1]", "2")] {
                let data = format!("--data={way}");
                let flags = [&data, "--connections", connections, "-q"];
                let wire = login.copied(direction, host, &flags);
                assert_eq!(wire["transport"], way, "{wire}");
                let most = connections.parse::<u64>().unwrap();
                assert!((1..=most).contains(&wire["connections"].as_u64().unwrap()), "{wire}");
                // All but what listings hold.
                let [data, all] =
                    ["data_bytes", "bytes_sent"].map(|key| wire[key].as_u64().unwrap());
                assert!(data >= ALL && all - data < 1 << 20, "{wire}");
                assert_eq!((&wire["resent"], wire.get("not_tls")), (&0.into(), None), "{wire}");
            }
        }
        // By itself it begins through the shell.
        let wire = login.copied(direction, "127.0.0.1", &["--max-bandwidth=20M"]);
        let [data, all] = ["data_bytes", "bytes_sent"].map(|key| wire[key].as_u64().unwrap());
        // Far later between machines that are near, but this one may be too busy to seem so.
        assert!(data > 0 && all - data >= 256 << 10, "{wire}");
        // People get it for one file too.
        let there = login.scratch.join("src/d/large");
        let copy = login.scratch.join("copy");
        let operands = match direction {
            Direction::Push => {
                [there.display().to_string(), format!("127.0.0.1:{}", copy.display())]
            }
            Direction::Pull => {
                [format!("127.0.0.1:{}", there.display()), copy.display().to_string()]
            }
        };
        for (way, words) in WAYS.into_iter().zip(["with TLS", "without encryption"]) {
            let flags = [&format!("--data={way}"), "-v", "--connections=1"];
            let run = login.cp_of_files().args(flags).args(&operands).run();
            succeeded(&run);
            let line = format!("40.00 MiB of it over 1 connection {words}");
            assert!(run.stdout.contains(&line), "{}", run.stdout);
            fs::remove_file(&copy).unwrap();
        }
        let wire = login.copied(direction, "127.0.0.1", &["--data=ssh"]);
        assert_eq!(wire["transport"], "remote_shell");
        assert_eq!(wire["not_tls"], "not_wanted");
        assert!(wire.get("data_bytes").is_none(), "{wire}");
    }
}

/// A copy over open connections is the one that others make.
fn options_hold_over_open_connections() {
    let login = Login::new();
    for direction in Direction::BOTH {
        for flags in [
            &["-a"][..],
            &["--verify=sha256", "--durable"],
            &["--checksum"],
            &["--resume", "-j1"],
            &["--sparse=always", "--preserve=timestamps"],
            &["--max-bandwidth=100M"],
            &["--delete"],
        ] {
            let wire = login.copied(direction, "127.0.0.1", &[&["--data=open"], flags].concat());
            assert_eq!((&wire["transport"], wire.get("not_tls")), (&"open".into(), None), "{wire}");
            assert!(wire["data_bytes"].as_u64() >= Some(ALL), "{flags:?} {wire}");
        }
    }
}

/// Bytes of files that lines of strace say went by `sendfile`.
fn sent_by_sendfile(trace: &str) -> u64 {
    let calls = trace.lines().filter(|line| line.contains("sendfile"));
    let results = calls.filter_map(|line| line.rsplit_once(" = "));
    results.filter_map(|(_, result)| result.trim().parse::<u64>().ok()).sum()
}

/// At the end that has the sources.
fn files_go_by_sendfile_over_open_connections() {
    let login = Login::new();
    let at = login.scratch.join("trace");
    let strace = format!("strace -f -qq -e trace=sendfile,sendfile64 -o {}", at.display());
    for direction in Direction::BOTH {
        let near = match direction {
            Direction::Push => {
                let words: Vec<&str> = strace.split(' ').collect();
                Program::new(words[0]).args(&words[1..]).arg(UNCOPY)
            }
            Direction::Pull => Program::new(UNCOPY),
        };
        let far = match direction {
            Direction::Push => UNCOPY.to_owned(),
            Direction::Pull => format!("{strace} {UNCOPY}"),
        };
        let shell = login.shell();
        let run = near
            .args(["cp", "-r", "--json", "--data=open", "-e", &shell, "--remote-program", &far])
            .args(login.operands(direction, "127.0.0.1"))
            .run();
        let sent = sent_by_sendfile(&fs::read_to_string(&at).unwrap());
        fs::remove_file(&at).unwrap();
        assert_eq!(sent, ALL + 3, "{direction:?}");
        login.check(&run);
    }
}

/// Whichever of status and digests notices it.
fn a_source_that_changes_fails_over_open_connections() {
    let login = Login::new();
    let large = login.scratch.join("src/d/large");
    for direction in Direction::BOTH {
        let is_over = AtomicBool::new(false);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = fs::File::options().write(true).open(&large).unwrap();
                let mut at = 1;
                while !is_over.load(Ordering::Relaxed) {
                    at = (at * 48_271) % 0x7fff_ffff;
                    file.write_all_at(&[at as u8; 64], at % (LARGE as u64 - 64)).unwrap();
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            let program = login.cp().args(["--data=open", "--max-bandwidth=40M"]);
            let run = program.args(login.operands(direction, "127.0.0.1")).run();
            is_over.store(true, Ordering::Relaxed);
            run
        });
        let message = run.failed(4);
        assert!(message.contains("it changed while it was copied"), "{message}");
        assert!(!login.scratch.join("copy/d/large").exists());
        let _ = fs::remove_dir_all(login.scratch.join("copy"));
        assert_eq!(login.scratch.strangers(&["src"]), [""; 0]);
    }
}

fn without_a_connection_the_shell_carries_all_and_the_reason_is_named() {
    let login = Login::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for direction in Direction::BOTH {
        let run = login
            .cp()
            .args(["--json", "--max-bandwidth=20M", "--data-ports", &port])
            .args(login.operands(direction, "127.0.0.1"))
            .run();
        assert!(run.stderr.contains("note: bytes go through the remote shell"), "{}", run.stderr);
        assert!(run.stderr.contains("ports are in use"), "{}", run.stderr);
        assert_eq!(login.check(&run)["not_tls"], "ports_in_use");

        for way in WAYS {
            let run = login
                .cp()
                .args([&format!("--data={way}"), "--data-ports", &port])
                .args(login.operands(direction, "127.0.0.1"))
                .run();
            let message = run.failed(9);
            assert!(message.contains("no data connection stands: all these ports"), "{message}");
            assert_eq!(message.matches("uncopy: ").count(), 1, "{message}");
            assert_eq!(login.scratch.strangers(&["src"]), [""; 0]);
        }
    }
}

/// A login that is restricted takes them too, and is as confined as before.
fn restricted_logins_take_connections() {
    let login = Login::new();
    let only = login.scratch.path().display();
    for direction in Direction::BOTH {
        let read_only = if direction == Direction::Pull { " --read-only" } else { "" };
        login.sshd.bind_key_to(&format!("{UNCOPY} serve --stdio --restrict {only}{read_only}"));
        for way in WAYS {
            let wire = login.copied(direction, "127.0.0.1", &[&format!("--data={way}"), "-q"]);
            assert!(wire["data_bytes"].as_u64() >= Some(ALL), "{wire}");
        }
        for (setting, refused) in [("ssh", &WAYS[..]), ("tls", &["open"])] {
            login.sshd.bind_key_to(&format!(
                "UNCOPY_DATA={setting} {UNCOPY} serve --stdio --restrict {only}"
            ));
            for way in refused {
                let data = format!("--data={way}");
                let run = login.cp().arg(data).args(login.operands(direction, "127.0.0.1")).run();
                let message = run.failed(9);
                assert!(message.contains("settings of the other machine forbid"), "{message}");
            }
        }
        // A choice of that machine for its own copies forbids nothing.
        login.sshd.bind_key_to(&format!(
            "UNCOPY_DATA=open {UNCOPY} serve --stdio --restrict {only}{read_only}"
        ));
        let wire = login.copied(direction, "127.0.0.1", &["--data=tls", "-q"]);
        assert_eq!(wire["transport"], "tls", "{wire}");
    }
}

/// A jump host is not gone around.
fn a_proxy_is_not_gone_around() {
    let login = Login::new();
    let shell = format!("{} -J 127.0.0.1", login.shell());
    let run = Program::new(UNCOPY)
        .args(["cp", "-r", "-e", &shell, "--remote-program", UNCOPY, "--json"])
        .arg("--max-bandwidth=20M")
        .args(login.operands(Direction::Pull, "127.0.0.1"))
        .run();
    assert_eq!(login.check(&run)["not_tls"], "proxied");
}

/// The settings of either machine forbid connections.
fn a_policy_of_either_machine_is_kept() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        make_sources(&machines.source(direction).join("src"));
        let copied = |program: Program, flags: &[&str]| {
            let run = program
                .args(["-r", "--json", "--max-bandwidth=20M"])
                .args(flags)
                .arg(direction.source("src"))
                .arg(direction.destination("copy"))
                .run();
            let _ = fs::remove_dir_all(machines.destination(direction).join("copy"));
            run
        };
        let reason = |run: Run| {
            succeeded(&run);
            run.receipts().pop().unwrap().value()["wire"]["not_tls"].clone()
        };
        let came = "export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'";
        machines.log_in_with(&format!("{came} UNCOPY_DATA=ssh"));
        assert_eq!(reason(copied(machines.cp(), &[])), "policy");
        let run = copied(machines.cp(), &["--data=tls"]);
        assert!(run.failed(9).contains("settings of the other machine forbid"), "{}", run.stderr);
        machines.log_in_with(&format!("{came} UNCOPY_CONFIG=/nonexistent"));
        assert_eq!(reason(copied(machines.cp(), &[])), "settings_unread");
        machines.log_in_with("unset SSH_CONNECTION");
        let run = copied(machines.cp(), &[]);
        // Nobody can change it, so it is no note for each copy: only the summary says it.
        assert_eq!(run.stderr, "");
        assert_eq!(reason(run), "no_address");
        let run = copied(machines.cp(), &["--data=tls"]);
        let message = run.failed(9);
        assert!(message.contains("no data connection stands: "), "{message}");
        assert!(message.contains("; pass --data=ssh to copy"), "{message}");
        let run = machines
            .cp()
            .args(["-r", "-v", "--max-bandwidth=20M"])
            .arg(direction.source("src"))
            .arg(direction.destination("copy"))
            .run();
        succeeded(&run);
        let _ = fs::remove_dir_all(machines.destination(direction).join("copy"));
        assert!(run.stdout.contains("not over connections with TLS"), "{}", run.stdout);
        assert_eq!(run.stderr, "");
        // The host's name leads nowhere here.
        machines.log_in_with(came);
        assert_eq!(reason(copied(machines.cp(), &[])), "unresolved");
        let here = machines.cp().env("UNCOPY_DATA", "ssh");
        assert_eq!(reason(copied(here, &[])), "not_wanted");
        // The setting of this machine asks for open ones, which fail as with the flag.
        let run = copied(machines.cp().env("UNCOPY_DATA", "open"), &[]);
        assert!(run.failed(9).contains("has no address here"), "{}", run.stderr);
    }
}

fn small_copies_make_no_connection() {
    for direction in Direction::BOTH {
        let machines = Machines::new();
        fs::create_dir(machines.source(direction).join("src")).unwrap();
        fs::write(machines.source(direction).join("src/a"), vec![1; 200 << 10]).unwrap();
        machines.log_in_with("export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'");
        let run = machines
            .cp()
            .args(["-r", "--json"])
            .arg(direction.source("src"))
            .arg(direction.destination("copy"))
            .run();
        succeeded(&run);
        assert_eq!(run.stderr, "");
        let wire = run.receipts().pop().unwrap().value()["wire"].clone();
        assert_eq!((&wire["not_tls"], &wire["connections"]), (&"small".into(), &0.into()));
    }
}

/// Killed in the middle, at either end, while bytes come by TLS.
fn a_copy_that_is_killed_goes_on() {
    let login = Login::new();
    for (direction, victim) in [
        (Direction::Push, Victim::Near),
        (Direction::Push, Victim::Far),
        (Direction::Pull, Victim::Near),
        (Direction::Pull, Victim::Far),
    ] {
        let operands = login.operands(direction, "127.0.0.1");
        let mut child = Command::new(UNCOPY)
            .args(["cp", "-r", "--resume", "-j1", "--max-bandwidth=8M", "--data=tls", "-e"])
            .arg(login.shell())
            .args(["--remote-program", UNCOPY])
            .args(&operands)
            .env("UNCOPY_CONFIG", "/dev/null")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let before = super::ending::bytes_below(&login.scratch.join("src"));
        wait_for("bytes there", || {
            super::ending::bytes_below(&login.scratch) > before + (20 << 20)
        });
        let process = match victim {
            Victim::Near => child.id(),
            Victim::Far => far_end_of(&login),
        };
        kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!login.scratch.join("copy").exists());
        wait_for("end of the first run", || {
            let run = login.cp().args(["--resume", "--json"]).args(&operands).run();
            let is_held = run.stderr.contains("another run is at work");
            if !is_held {
                let resumed = run.receipts().pop().unwrap().value()["resumed_bytes"].as_u64();
                let files = run.receipts().pop().unwrap().value()["resumed"].as_u64();
                assert!(resumed.max(files) > Some(0), "{}{}", run.stdout, run.stderr);
                login.check(&run);
            }
            !is_held
        });
    }
}

/// Port of connections in networks of tests.
const PORT: &str = "7000";

/// Counts packets in the network of a test: those from its data port, and all others.
fn count_bytes(network: &Network) {
    for words in [
        "add table inet t",
        "add counter inet t data",
        "add counter inet t others",
        "add chain inet t come { type filter hook input priority 0 ; }",
        "add rule inet t come tcp sport 7000 counter name data accept",
        "add rule inet t come tcp dport 7000 counter name data accept",
        "add rule inet t come counter name others accept",
    ] {
        network.nft(words);
    }
}

fn counted(name: &str) -> u64 {
    let text = run_tool("nft", ["-j", "list", "counter", "inet", "t", name]);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    found["nftables"][1]["counter"]["bytes"].as_u64().unwrap()
}

fn both_ways() -> impl Iterator<Item = (Direction, &'static str)> {
    Direction::BOTH.into_iter().flat_map(|direction| WAYS.map(|way| (direction, way)))
}

/// Compares the bytes of receipts with those that the kernel counts.
fn the_sockets_of_connections_carry_the_bytes() {
    network::isolated(|network| {
        count_bytes(network);
        let login = Login::new();
        for (direction, way) in both_ways() {
            let before = [counted("data"), counted("others")];
            let flags = [&format!("--data={way}"), "--data-ports", PORT, "-q"];
            let wire = login.copied(direction, "127.0.0.1", &flags);
            let crossed = counted("data") - before[0];
            let said = wire["data_bytes"].as_u64().unwrap();
            assert!((said..said + said / 20).contains(&crossed), "{crossed} {wire}");
            let others = counted("others") - before[1];
            assert!(others < 2 << 20, "{others} {wire}");
        }
    });
}

/// Connections that the kernel ends in the middle, again and again.
fn connections_that_break_are_made_again_and_nothing_is_lost() {
    network::isolated(|network| {
        // Slow enough that bytes are always on their way.
        network.tc("qdisc add dev lo root tbf rate 240mbit burst 256kb latency 100ms");
        let login = Login::new();
        for (direction, way) in both_ways() {
            let shell = login.shell();
            let data = format!("--data={way}");
            let mut child = Command::new(UNCOPY)
                .args(["cp", "-r", "--json", &data, "--data-ports", PORT, "-e", &shell])
                .args(["--remote-program", UNCOPY])
                .args(login.operands(direction, "127.0.0.1"))
                .env("UNCOPY_CONFIG", "/dev/null")
                .stdout(fs::File::create(login.scratch.join("out")).unwrap())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let before = super::ending::bytes_below(&login.scratch.join("src"));
            for part in 1..=3 {
                wait_for("bytes there", || {
                    // A walk beside renames may miss something.
                    let there = super::ending::bytes_below(&login.scratch).saturating_sub(before);
                    there > (part * 10) << 20 || child.try_wait().unwrap().is_some()
                });
                run_tool("ss", ["-K", "dport", "=", ":7000"]);
            }
            wait_for("end", || child.try_wait().unwrap().is_some());
            let output = child.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            let [src, copy] = ["src", "copy"].map(|name| login.scratch.join(name));
            assert_same_tree(&src, &copy, Compared::default());
            fs::remove_dir_all(copy).unwrap();
            let text = fs::read_to_string(login.scratch.join("out")).unwrap();
            let last: serde_json::Value =
                serde_json::from_str(text.lines().last().unwrap()).unwrap();
            let wire = &last["wire"];
            assert!(wire["resent"].as_u64() > Some(0), "{wire}");
            assert!(wire["data_bytes"].as_u64() > Some(ALL / 5), "{wire}");
            assert_eq!((&wire["transport"], wire.get("not_tls")), (&way.into(), None), "{wire}");
        }
    });
}

/// A firewall on the way: the copy goes through the shell meanwhile and afterwards.
fn a_firewall_costs_a_note() {
    network::isolated(|network| {
        network.nft("add table inet t");
        network.nft("add chain inet t come { type filter hook input priority 0 ; }");
        let login = Login::new();
        for (rule, code, words) in [
            ("reject with tcp reset", "refused", "check its firewall"),
            ("drop", "timed_out", "let its firewall take their ports"),
        ] {
            network.nft("flush chain inet t come");
            network.nft(&format!("add rule inet t come tcp dport 7000 {rule}"));
            for direction in Direction::BOTH {
                let rate = if code == "refused" { "20M" } else { "3M" };
                let run = login
                    .cp()
                    .args(["--json", "--data-ports", PORT, "--max-bandwidth", rate])
                    .args(login.operands(direction, "127.0.0.1"))
                    .run();
                assert_eq!(login.check(&run)["not_tls"], code);
                assert_eq!(run.stderr.matches(words).count(), 1, "{}", run.stderr);
            }
            let run = login
                .cp()
                .args(["--data=tls", "--data-ports", PORT])
                .args(login.operands(Direction::Push, "127.0.0.1"))
                .run();
            assert!(run.failed(9).contains(words), "{}", run.stderr);
            assert_eq!(login.scratch.strangers(&["src"]), [""; 0]);
        }
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Near,
    Far,
}

/// The process that serves a login.
fn far_end_of(login: &Login) -> u32 {
    let mut found = Vec::new();
    wait_for("a far end", || {
        let all = testbed::descendants(login.sshd.process_id());
        found = all
            .into_iter()
            .filter(|process| {
                let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
                line.starts_with(UNCOPY.as_bytes())
            })
            .collect();
        !found.is_empty()
    });
    found[0]
}

pub(crate) fn cases() -> Vec<Case> {
    let login = testbed::cases![
        [] bytes_go_over_connections_in_both_directions_and_families,
        [] options_hold_over_open_connections,
        [Need::Tool("strace")] files_go_by_sendfile_over_open_connections,
        [] a_source_that_changes_fails_over_open_connections,
        [] without_a_connection_the_shell_carries_all_and_the_reason_is_named,
        [] restricted_logins_take_connections,
        [] a_proxy_is_not_gone_around,
        [] a_copy_that_is_killed_goes_on,
    ];
    let networks = testbed::cases![
        [Need::Tool("nft")] the_sockets_of_connections_carry_the_bytes,
        [Need::Tool("ss")] connections_that_break_are_made_again_and_nothing_is_lost,
        [Need::Tool("nft")] a_firewall_costs_a_note,
    ];
    let networks = networks
        .into_iter()
        .map(|case| network::NEEDS.iter().fold(case, |case, need| case.needing(*need)));
    let login = login.into_iter().chain(networks);
    let needs = [Need::Tool("sshd"), Need::Tool("ssh"), Need::Tool("ssh-keygen")];
    let login = login.map(|case| needs.into_iter().fold(case, Case::needing));
    let scripted = testbed::cases![
        [] a_policy_of_either_machine_is_kept,
        [] small_copies_make_no_connection,
    ];
    login.chain(scripted).collect()
}
