//! `uncopy doctor` in separate networks, compared with `uncopy bench send`.

use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::network::{ALL_PROTOCOLS, NEEDS, isolated, linked};
use testbed::{Case, Lender, LenderOptions, Need};

use crate::doctor::{LONG, finding, report, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    let needs =
        [NEEDS, &[Need::Tool("ethtool"), Need::Tool("setpriv"), Need::Tool("bash")]].concat();
    let named =
        |name: &str, body: fn()| Case::new(format!("doctor::network::{name}"), &needs, body);
    vec![
        named("without_root_taps_are_not_judged", without_root_taps_are_not_judged),
        Case::new(
            "doctor::network::without_proc_no_path_is_zero_copy",
            &[&needs[..], &[Need::Root, Need::Tool("unshare")]].concat(),
            without_proc_no_path_is_zero_copy,
        ),
        named("the_sockets_of_a_process", the_sockets_of_a_process),
        named("a_probe_agrees_and_sends_only_on_request", a_probe_agrees_and_sends_only_on_request),
        named(
            "a_probe_replaces_facts_that_users_cannot_read",
            a_probe_replaces_facts_that_users_cannot_read,
        ),
        named("the_kernel_is_seen_copying", the_kernel_is_seen_copying),
        named("refused_sampling_is_explained", refused_sampling_is_explained),
        named("another_network_is_not_judged", another_network_is_not_judged),
        named(
            "users_without_permission_learn_nothing_about_the_other_end",
            the_other_end_is_hidden,
        ),
    ]
}

const UDP: &str = "udp://10.11.0.2:9";

#[track_caller]
fn doctor(words: &str, code: i32) -> Value {
    report(&uncopy(&format!("doctor --json {words}")).run(), code)
}

/// Only root can read the holder of a tap, and whether it ignores outgoing packets.
fn without_root_taps_are_not_judged() {
    isolated(|network| {
        network.sink();
        let doctor = |words: &str| uncopy(&format!("doctor --json {words}"));
        // Only root can read the firewall rules; a probe shows their effect.
        let clean = report(&doctor(UDP).as_user(65534).run(), 7);
        let hidden = finding(&clean, "not-seen").unwrap();
        assert_eq!(hidden["summary"], "rules of the firewall: no permission to read");
        assert_eq!(hidden["evidence"][0]["found"], "Operation not permitted (EPERM)");
        let words = format!("--probe-anyway --size 30000 {UDP}");
        let probed = report(&doctor(&words).as_user(65534).run(), 0);
        assert_eq!(finding(&probed, "not-seen").unwrap()["severity"], "note", "{probed}");
        for ignores in [false, true] {
            let tap = network.tap_of(ALL_PROTOCOLS, None, ignores);
            let found = report(&doctor(UDP).as_user(65534).run(), 7);
            let found = finding(&found, "tap-eth-p-all").unwrap();
            assert_eq!(
                (&found["severity"], &found["needs_root"]),
                (&"unknown".into(), &true.into())
            );
            assert_eq!(
                found["summary"],
                "an unknown process (user id 0) holds a packet tap on all devices"
            );
            assert_eq!(found["next_step"], "Run the doctor as root.");
            let as_root = doctor(UDP).run();
            report(&as_root, if ignores { 0 } else { 6 });
            drop(tap);
        }
        // Findings that do not depend on it are reported.
        network.ethtool("-K sink sg off");
        report(&doctor(UDP).as_user(65534).run(), 6);
        let hidden = report(&doctor("--pid 1").as_user(65534).run(), 7);
        assert!(finding(&hidden, "sockets-hidden").is_some(), "{hidden}");
    });
}

/// A tap was there, and the verdict `zero_copy`: what cannot be read was taken for what the kernel does not have.
fn without_proc_no_path_is_zero_copy() {
    const HIDE: &str = "mount -t tmpfs hidden /proc; exec \"$@\"";
    isolated(|network| {
        network.sink();
        for is_tapped in [false, true] {
            let _tap = is_tapped.then(|| network.tap_of(ALL_PROTOCOLS, None, false));
            let doctor = uncopy(&format!("doctor --json {UDP}"));
            report(&doctor.run(), if is_tapped { 6 } else { 0 });
            let hidden = doctor.through(["unshare", "--mount", "sh", "-ec", HIDE, "sh"]);
            let hidden = report(&hidden.run(), 7);
            let found = finding(&hidden, "not-seen").expect("something is not seen");
            assert!(found.to_string().contains("/proc/net/packet"), "{hidden}");
        }
    });
}

fn the_sockets_of_a_process() {
    isolated(|network| {
        network.sink();
        // A connected socket without SO_ZEROCOPY; then the shell becomes `sleep`.
        let child = Child::start("bash", &["-c", "exec 3<>/dev/udp/10.11.0.2/9; exec sleep 60"]);
        let seen = child.seen("1 with a peer", 0);
        let option = finding(&seen, "so-zerocopy-off").unwrap();
        assert_eq!(option["evidence"][0]["found"], "SO_ZEROCOPY is off on descriptors 3");
        let tap = network.tap();
        let seen = child.seen("1 with a peer", 6);
        assert!(finding(&seen, "tap-eth-p-all").is_some(), "{seen}");
        drop((tap, child));
        // This socket has SO_ZEROCOPY.
        let words = "bench send -4 udp -D 10.11.0.2 -p 9 -t 60 -s 9000 -z";
        let words: Vec<&str> = words.split(' ').collect();
        let sender = Child::start(env!("CARGO_BIN_EXE_uncopy"), &words);
        let seen = sender.seen("1 with a peer", 0);
        assert!(finding(&seen, "so-zerocopy-off").is_none(), "{seen}");
        drop(sender);
        let idle = Child::start("sleep", &["60"]);
        let seen = idle.seen("0 with a peer", 7);
        assert!(finding(&seen, "no-sockets").is_some(), "{seen}");
    });
}

/// A process of the network, killed when dropped.
pub(crate) struct Child(std::process::Child);

impl Child {
    pub(crate) fn start(program: &str, words: &[&str]) -> Child {
        let mut command = std::process::Command::new(program);
        Child(command.args(words).stdout(std::process::Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Returns the report about it, once it has this many sockets.
    #[track_caller]
    fn seen(&self, sockets: &str, code: i32) -> Value {
        let begin = Instant::now();
        loop {
            let run = uncopy(&format!("doctor --json --pid {}", self.0.id())).run();
            if run.stdout.contains(sockets) {
                return report(&run, code);
            }
            assert!(begin.elapsed() < LONG, "{}{}", run.stdout, run.stderr);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// For an unprivileged user the kernel returns an empty list that ends with an error.
fn the_other_end_is_hidden() {
    let (is_done, stays) = std::sync::mpsc::channel::<()>();
    let (is_there, waits) = std::sync::mpsc::channel();
    linked(
        move |_| {
            waits.recv().unwrap();
            let words = "doctor --json --size 1400 udp://10.11.0.2:9";
            let seen = report(&uncopy(words).as_user(65534).run(), 7);
            let found = finding(&seen, "veth").unwrap();
            assert_eq!(found["severity"], "unknown", "{found}");
            let evidence = found["evidence"][0]["found"].as_str().unwrap();
            assert!(evidence.contains("may not be read"), "{found}");
            let seen = report(&uncopy(words).run(), 6);
            assert_eq!(finding(&seen, "veth").unwrap()["severity"], "copies", "{seen}");
            // The kernel's own reports. Nothing listens there, which an unconnected socket does not notice.
            let options = LenderOptions { is_unconnected: true, ..LenderOptions::default() };
            let lender = Lender::connect("10.11.0.2:9".parse().unwrap(), options).unwrap();
            let sent = lender.lend(&[b'z'; 1400], 40, LONG).unwrap();
            assert_eq!((sent.copied, sent.not_copied), (40, 0), "{sent:?}");
            drop(is_done);
        },
        move |_| {
            is_there.send(()).unwrap();
            let _ = stays.recv();
        },
    );
}

fn another_network_is_not_judged() {
    isolated(|_| {
        let seen = doctor(&format!("--pid {}", std::process::id()), 7);
        let found = finding(&seen, "other-namespace").unwrap();
        assert!(found["next_step"].as_str().unwrap().contains("nsenter"), "{found}");
    });
}

fn a_probe_agrees_and_sends_only_on_request() {
    isolated(|network| {
        network.sink();
        // Counts only IPv4 datagrams, as the kernel also sends other packets itself.
        let sent = || {
            let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
            let mut lines = text.lines().filter(|line| line.starts_with("Udp: "));
            let names = lines.next().unwrap().split_whitespace();
            let place = names.into_iter().position(|name| name == "OutDatagrams").unwrap();
            lines.next().unwrap().split_whitespace().nth(place).unwrap().parse::<u64>().unwrap()
        };
        let before = sent();
        doctor(UDP, 0);
        assert_eq!(sent(), before, "nothing is sent without a probe");
        let refused = doctor(&format!("{UDP} --probe"), 7);
        let found = finding(&refused, "probe-unclear").unwrap();
        assert_eq!(found["evidence"][0]["found"], "no greeting came");
        let asked = sent();
        assert!((before + 1..before + 9).contains(&asked), "nothing but the question: {asked}");
        let probed = doctor(&format!("{UDP} --probe-anyway"), 0);
        assert!(finding(&probed, "probe-not-copied").is_some(), "{probed}");
        let packets = sent() - asked;
        assert_eq!(packets, 32, "16 through each interface");
        network.ethtool("-K sink sg off");
        let probed = doctor(&format!("{UDP} --probe-anyway"), 6);
        assert!(finding(&probed, "probe-copied").is_some(), "{probed}");
        for kind in ["udp", "tcp"] {
            for (host, family) in [("127.0.0.1", "-4"), ("[::1]", "-6")] {
                greeted(kind, host, family);
            }
        }
    });
}

/// `uncopy bench recv` answers, and the probe continues.
fn greeted(kind: &str, host: &str, family: &str) {
    let words = format!("bench recv {family} {kind} -p 8013 -t 60");
    let words: Vec<&str> = words.split(' ').collect();
    let receiver = Child::start(env!("CARGO_BIN_EXE_uncopy"), &words);
    let begin = Instant::now();
    loop {
        let probe = uncopy(&format!("doctor --json --probe {kind}://{host}:8013")).run();
        // There is no answer until the receiver has started.
        if probe.stdout.contains("probe-copied") {
            report(&probe, 6);
            break;
        }
        assert!(begin.elapsed() < LONG, "{}{}", probe.stdout, probe.stderr);
    }
    drop(receiver);
}

fn a_probe_replaces_facts_that_users_cannot_read() {
    isolated(|network| {
        network.sink();
        let probe = |code| {
            let words = format!("doctor --json --probe-anyway --size 30000 {UDP}");
            report(&uncopy(&words).as_user(65534).run(), code)
        };
        let tap = network.tap_of(ALL_PROTOCOLS, None, true);
        let cleared = probe(0);
        let found = finding(&cleared, "tap-eth-p-all").unwrap();
        assert_eq!(found["severity"], "note", "{found}");
        drop(tap);
        let tap = network.tap();
        let copied = probe(6);
        assert!(finding(&copied, "probe-copied").is_some(), "{copied}");
        drop(tap);
    });
}

/// The samples of a process that sends over a tapped device contain the tap's function.
fn the_kernel_is_seen_copying() {
    isolated(|network| {
        network.sink();
        let words = "bench send -4 udp -D 10.11.0.2 -p 9 -t 120 -s 60000 -z";
        let words: Vec<&str> = words.split(' ').collect();
        let sender = Child::start(env!("CARGO_BIN_EXE_uncopy"), &words);
        sender.seen("1 with a peer", 0);
        let trace = || {
            let words = format!("doctor --json --trace 0.5 --stacks --pid {}", sender.0.id());
            serde_json::from_str::<Value>(&uncopy(&words).run().stdout).unwrap()
        };
        let taps = |report: &Value| report["findings"].to_string().contains("dev_queue_xmit_nit");
        let stacks = |report: &Value| report["stacks"].as_array().unwrap().clone();
        let is_of_tap = |stack: &Value| {
            let names: Vec<&str> =
                stack["functions"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            names.windows(2).any(|pair| pair == ["skb_copy_ubufs", "dev_queue_xmit_nit"])
        };
        let clean = trace();
        assert!(finding(&clean, "trace-forbidden").is_none(), "{clean}");
        assert!(!taps(&clean), "{clean}");
        assert!(!stacks(&clean).iter().any(is_of_tap), "{clean}");
        let tap = network.tap();
        let begin = Instant::now();
        let mut seen = trace();
        // On a busy machine the sender may get little CPU time.
        while !taps(&seen) && begin.elapsed() < LONG {
            seen = trace();
        }
        let copies = finding(&seen, "trace-copies").unwrap();
        assert!(copies["summary"].as_str().unwrap().contains("a packet tap copied"), "{copies}");
        assert_eq!(seen["verdict"], "copied");
        let stacks = stacks(&seen);
        assert!((1..=5).contains(&stacks.len()) && stacks.iter().any(is_of_tap), "{seen}");
        let count =
            |stack: &Value| stack["samples"].as_u64().unwrap() + stack["calls"].as_u64().unwrap();
        assert!(stacks.is_sorted_by(|one, next| count(one) >= count(next)), "{seen}");
        drop((tap, sender));
    });
}

fn refused_sampling_is_explained() {
    let run = uncopy("doctor --json --trace 0.1 --stacks").as_user(65534).run();
    let seen = report(&run, 7);
    assert_eq!(seen.get("stacks"), None, "nothing was looked at: {seen}");
    let found = finding(&seen, "trace-forbidden").unwrap();
    let evidence = found["evidence"].to_string();
    assert!(evidence.contains("perf_event_paranoid is ") && evidence.contains("kptr_restrict is "));
    assert!(found["next_step"].as_str().unwrap().contains("CAP_PERFMON"), "{found}");
}
