//! Compares the doctor's prediction, its probe, and `uncopy bench send`: in every network that can be created
//! here they agree, or the verdict is unknown.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::network::{ALL_PROTOCOLS, NEEDS, Network, isolated, linked};
use testbed::{Case, Need, Program};

use crate::doctor::network::Child;
use crate::doctor::{LONG, finding, report_or_none, uncopy};

/// Expected outcome.
#[derive(Clone, Copy)]
enum Outcome {
    Lent,
    Copied,
    /// The kernel's reports are unreliable, or something on the path cannot be examined.
    Untold,
    /// They are not copied; this user cannot read the facts, but a probe shows it.
    Cleared,
    /// They are not copied up to a limit, checked by this function of the `MSG_ZEROCOPY` measurement.
    Limited(fn(&Value) -> bool),
}

impl Outcome {
    const fn exit_code(self) -> i32 {
        match self {
            Outcome::Lent => 0,
            Outcome::Copied => 6,
            Outcome::Untold | Outcome::Cleared => 7,
            Outcome::Limited(_) => 8,
        }
    }
}

/// Guard that keeps a condition until it is dropped.
type Kept = Option<Box<dyn std::any::Any>>;

/// A path over devices of one network.
struct Row {
    name: &'static str,
    outcome: Outcome,
    create: fn(&Network) -> Kept,
    path: Path,
}

/// Target and options of the doctor.
#[derive(Clone, Copy)]
struct Path {
    kind: &'static str,
    family: &'static str,
    host: &'static str,
    bytes: u32,
    segment: Option<u32>,
    /// User and limits of doctor and sender.
    through: fn(Program) -> Program,
    /// Whether an `uncopy bench recv` answers there.
    is_greeted: bool,
}

const UDP: Path = Path {
    kind: "udp",
    family: "-4",
    host: "10.11.0.2",
    bytes: 30_000,
    segment: None,
    through: |program| program,
    is_greeted: false,
};
const UDP6: Path = Path { family: "-6", host: "fd11::2", ..UDP };
const OTHER: Path = Path { host: "10.12.0.2", ..UDP };
const GREETED: Path = Path { is_greeted: true, ..UDP };

impl Path {
    fn ask(&self, more: &str) -> Program {
        let host = if self.family == "-6" { format!("[{}]", self.host) } else { self.host.into() };
        let segment = self.segment.map(|bytes| format!("--segment {bytes}")).unwrap_or_default();
        let (kind, bytes) = (self.kind, self.bytes);
        let words = format!("doctor --json {more} --size {bytes} {segment} {kind}://{host}:8013");
        (self.through)(uncopy(&words))
    }

    /// Returns the measurement of a sender through one of the kernel's interfaces.
    fn measured(&self, mode: &str) -> Value {
        let Path { kind, family, host, bytes, .. } = self;
        let segment = self.segment.map(|bytes| format!("--gso {bytes}")).unwrap_or_default();
        let words = format!(
            "bench send {family} {kind} -D {host} -p 8013 -t 0.1 -s {bytes} {segment} \
             --mode {mode} --json"
        );
        let begin = Instant::now();
        loop {
            // A connection is refused until the receiver listens again.
            let run = (self.through)(uncopy(&words)).run();
            match report_or_none(&run) {
                Some(measured) if measured["sends"].as_u64() > Some(0) => return measured,
                _ => assert!(begin.elapsed() < LONG, "{}{}", run.stderr, run.stdout),
            }
        }
    }

    /// Returns the finding of a probe.
    fn probed(&self) -> Value {
        let probe = if self.is_greeted { "--probe" } else { "--probe-anyway" };
        let begin = Instant::now();
        loop {
            let run = self.ask(probe).run();
            let report = report_or_none(&run).unwrap_or_else(|| panic!("{}", run.stderr));
            let was_sent = report["facts"].as_array().unwrap().iter().any(|f| f["name"] == "probe");
            if was_sent {
                return report;
            }
            assert!(begin.elapsed() < LONG, "{report}");
        }
    }

    /// Compares prediction, probe and measurement.
    fn agree(&self, outcome: Outcome) {
        let run = self.ask("").run();
        let predicted = report_or_none(&run).unwrap_or_else(|| panic!("{}", run.stderr));
        assert_eq!(run.status.code(), Some(outcome.exit_code()), "{predicted}");
        match outcome {
            Outcome::Lent | Outcome::Copied => {
                let is_lent = matches!(outcome, Outcome::Lent);
                let probed = self.probed();
                let id = if is_lent { "probe-not-copied" } else { "probe-copied" };
                assert!(finding(&probed, id).is_some(), "no {id}: {probed}");
                assert_eq!(probed["verdict"], predicted["verdict"], "{probed}");
                for mode in ["msg-zerocopy", "ring-registered"] {
                    let measured = self.measured(mode);
                    assert_eq!(measured["zero_copy"], is_lent, "{mode}: {measured}");
                    let none = if is_lent { "copied_sends" } else { "not_copied_sends" };
                    assert_eq!(measured[none], 0, "{mode}: {measured}");
                }
            }
            Outcome::Untold => {
                let probed = self.probed();
                assert_ne!(probed["verdict"], "zero_copy", "{probed}");
                self.measured("msg-zerocopy");
            }
            Outcome::Cleared => {
                assert_eq!(self.probed()["verdict"], "zero_copy");
                assert!(lends_all(&self.measured("msg-zerocopy")));
            }
            Outcome::Limited(is_met) => {
                let measured = self.measured("msg-zerocopy");
                assert!(is_met(&measured), "{measured}");
            }
        }
    }
}

fn keep<T: 'static>(what: T) -> Kept {
    Some(Box::new(what))
}

const fn row(
    name: &'static str,
    path: Path,
    outcome: Outcome,
    create: fn(&Network) -> Kept,
) -> Row {
    Row { name, outcome, create, path }
}

/// Whether the limit was reached: the kernel refused to lend more, so uncopy copied sends itself.
fn meets_the_limit(measured: &Value) -> bool {
    measured["no_buffer_space"].as_u64() > Some(0)
}

fn lends_all(measured: &Value) -> bool {
    measured["zero_copy"] == true && measured["copied_sends"] == 0
}

fn ethtool(network: &Network, words: &str) -> Kept {
    network.ethtool(words);
    None
}

fn ip(network: &Network, words: &str) -> Kept {
    network.ip(words);
    None
}

/// Creates a device above the sink that leads to the other network.
fn above(network: &Network, device: &str) -> Kept {
    network.ip(&format!("address add 10.12.0.1/24 dev {device}"));
    network.ip(&format!("link set {device} up"));
    network.ip(&format!(
        "neighbour replace 10.12.0.2 lladdr 02:00:00:00:00:02 dev {device} nud permanent"
    ));
    None
}

fn bridge(network: &Network) -> Kept {
    network.ip("link add br0 type bridge");
    network.ip("link set br0 mtu 65535");
    network.ip("link set sink master br0");
    above(network, "br0")
}

fn macvlan(network: &Network) -> Kept {
    network.ip("link add mv0 link sink type macvlan mode bridge");
    above(network, "mv0")
}

fn filters(network: &Network) -> Kept {
    network.tc("qdisc add dev sink clsact");
    network.tc("filter add dev sink egress protocol all u32 match u32 0 0 classid 1:1");
    None
}

fn with_little_locked_memory(program: Program) -> Program {
    let without = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock"];
    program.through(["sh", "-c", "ulimit -l 16; exec \"$0\" \"$@\""]).through(without)
}

/// Devices without a receiver.
#[rustfmt::skip]
fn rows() -> Vec<Row> {
    use Outcome::{Cleared, Copied, Lent, Limited};
    let trains = Path { segment: Some(1200), bytes: 60_000, ..UDP };
    let small = Path { bytes: 1400, ..UDP };
    let unprivileged = Path { through: |program| program.as_user(65534), ..UDP };
    let locked = Path { through: with_little_locked_memory, ..UDP };
    vec![
        row("nothing", UDP, Lent, |_| None),
        row("nothing over IPv6", UDP6, Lent, |_| None),
        row("nothing without root", unprivileged, Cleared, |_| None),
        row("trains of datagrams", trains, Lent, |_| None),
        row("tap on all devices", UDP, Copied, |n| keep(n.tap())),
        row("tap on all devices over IPv6", UDP6, Copied, |n| keep(n.tap())),
        row("tap on this device", UDP, Copied, |n| keep(n.tap_of(ALL_PROTOCOLS, Some("sink"), false))),
        row("tap with trains", trains, Copied, |n| keep(n.tap())),
        row("tap on another device", UDP, Lent, |n| keep(n.tap_of(ALL_PROTOCOLS, Some("lo"), false))),
        row("tap for IPv4 alone", UDP, Lent, |n| keep(n.tap_of(0x0800, None, false))),
        row("tap for LLDP alone", UDP, Lent, |n| keep(n.tap_of(0x88cc, Some("sink"), false))),
        row("tap that ignores what is sent", UDP, Lent, |n| keep(n.tap_of(ALL_PROTOCOLS, None, true))),
        row("scatter-gather is off", UDP, Copied, |n| ethtool(n, "-K sink sg off")),
        row("checksums are off", UDP, Copied, |n| ethtool(n, "-K sink tx off")),
        row("checksums are off over IPv6", UDP6, Copied, |n| ethtool(n, "-K sink tx off")),
        row("TSO is off", UDP, Lent, |n| ethtool(n, "-K sink tso off")),
        row("USO is off", trains, Lent, |n| ethtool(n, "-K sink tx-udp-segmentation off")),
        row("lists of packets are off", UDP, Lent, |n| ethtool(n, "-K sink tx-scatter-gather-fraglist off")),
        row("above the MTU", UDP, Copied, |n| ip(n, "link set sink mtu 9000")),
        row("above the MTU over IPv6", UDP6, Copied, |n| ip(n, "link set sink mtu 9000")),
        row("above the MTU of the route", UDP, Copied, |n| ip(n, "route replace 10.11.0.2/32 dev sink mtu 5000")),
        row("below the crossover", small, Limited(lends_all), |_| None),
        row("little option memory", UDP, Limited(meets_the_limit), |n| { n.set("net/core/optmem_max", 1024); None }),
        row("little locked memory", locked, Limited(meets_the_limit), |_| None),
        row("an XDP program", UDP, Lent, |n| keep(n.xdp("sink"))),
        row("filters for what leaves", UDP, Lent, filters),
        row("bridge", OTHER, Lent, bridge),
        row("macvlan", OTHER, Lent, macvlan),
        row("vxlan", OTHER, Lent, |n| {
            n.ip("link add vx0 type vxlan id 5 remote 10.11.0.2 dstport 4789 dev sink");
            above(n, "vx0")
        }),
        row("tap below a macvlan", OTHER, Copied, |n| {
            macvlan(n);
            keep(n.tap_of(ALL_PROTOCOLS, Some("sink"), false))
        }),
        row("tun", OTHER, Copied, |n| keep(n.tun("tun0", "10.12.0.1/24"))),
    ]
}

/// Network at the other end of a veth pair.
struct Linked {
    name: &'static str,
    path: Path,
    outcome: Outcome,
    far: fn(&Network),
}

const fn link(name: &'static str, path: Path, outcome: Outcome, far: fn(&Network)) -> Linked {
    Linked { name, path, outcome, far }
}

fn links() -> Vec<Linked> {
    use Outcome::{Copied, Untold};
    let udp = Path { bytes: 1400, ..GREETED };
    let udp6 = Path { family: "-6", host: "fd11::2", ..udp };
    let tcp = Path { kind: "tcp", bytes: 60_000, ..GREETED };
    let unprivileged = Path { through: |program| program.as_user(65534), ..udp };
    let passed_on = Path { bytes: 1400, host: "10.11.0.9", ..UDP };
    vec![
        link("UDP to the other end of a veth pair", udp, Copied, |_| ()),
        link("UDP over IPv6 to the other end of a veth pair", udp6, Copied, |_| ()),
        link("TCP to the other end of a veth pair", tcp, Copied, |_| ()),
        link(
            "TCP over IPv6 to the other end of a veth pair",
            Path { kind: "tcp", ..udp6 },
            Copied,
            |_| (),
        ),
        link("UDP over veth without root", unprivileged, Untold, |_| ()),
        link("UDP through a bridge behind a veth pair", passed_on, Untold, bridged),
        link("UDP through a router behind a veth pair", passed_on, Untold, routed),
    ]
}

/// Forwards packets to a device that drops them.
fn bridged(network: &Network) {
    network.ip("link add sink type ifb");
    network.ip("link add br0 type bridge");
    for port in ["sink", "veth1"] {
        network.ip(&format!("link set {port} master br0"));
        network.ip(&format!("link set {port} up"));
    }
    network.ip("link set br0 up");
}

fn routed(network: &Network) {
    network.ip("link add sink type ifb");
    network.ip("link set sink up");
    network.ip("route add 10.11.0.9/32 dev sink");
    network.ip("neighbour add 10.11.0.9 lladdr 02:00:00:00:00:09 dev sink nud permanent");
    network.set("net/ipv4/ip_forward", 1);
    // Accepts packets for that address with any hardware address.
    network.ip("link set veth1 address 02:00:00:00:00:09");
}

pub(crate) fn cases() -> Vec<Case> {
    let needs = [NEEDS, &[Need::Tool("ethtool"), Need::Tool("setpriv")]].concat();
    let case = |name: &str, body: Box<dyn Fn() + Send + Sync>| {
        Case::new(format!("doctor::predictions::{}", name.replace(' ', "_")), &needs, body)
    };
    let alone = rows().into_iter().map(|row| case(row.name, Box::new(move || run(&row))));
    let linked =
        links().into_iter().map(|link| case(link.name, Box::new(move || run_linked(&link))));
    let loopback = [
        ("udp", "-4", "127.0.0.1"),
        ("udp", "-6", "::1"),
        ("tcp", "-4", "127.0.0.1"),
        ("tcp", "-6", "::1"),
    ];
    let loopback = loopback.into_iter().map(|(kind, family, host)| {
        let path = Path { kind, family, host, ..GREETED };
        case(&format!("loopback {kind} {family}"), Box::new(move || run_loopback(&path)))
    });
    alone.chain(linked).chain(loopback).collect()
}

fn run(row: &Row) {
    isolated(|network| {
        network.sink();
        let kept = (row.create)(network);
        row.path.agree(row.outcome);
        drop(kept);
    });
}

fn run_linked(link: &Linked) {
    let (far_is_ready, near_waits) = channel();
    let (near_is_done, far_stays) = channel::<()>();
    let Path { kind, family, .. } = link.path;
    linked(
        move |network| {
            near_waits.recv().unwrap();
            network.ip("neighbour add 10.11.0.9 lladdr 02:00:00:00:00:09 dev veth0 nud permanent");
            link.path.agree(link.outcome);
            drop(near_is_done);
        },
        move |network| {
            (link.far)(network);
            far_is_ready.send(()).unwrap();
            receive(kind, family, &far_stays);
        },
    );
}

fn run_loopback(path: &Path) {
    let (is_done, stays) = channel::<()>();
    isolated(|_| {
        std::thread::scope(|scope| {
            let (kind, family) = (path.kind, path.family);
            scope.spawn(move || receive(kind, family, &stays));
            let is_done = is_done;
            path.agree(Outcome::Copied);
            drop(is_done);
        });
    });
}

/// Runs receivers, one after the other, until the other side has finished.
fn receive(kind: &str, family: &str, until: &Receiver<()>) {
    let words = format!("bench recv {family} {kind} -p 8013 -t 60");
    let words: Vec<&str> = words.split(' ').collect();
    let start = || Child::start(env!("CARGO_BIN_EXE_uncopy"), &words);
    let mut running = start();
    while until.try_recv() != Err(TryRecvError::Disconnected) {
        if running.has_ended() {
            running = start();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
