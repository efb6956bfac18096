//! Conditions of paths, each in a separate network namespace.

use std::net::UdpSocket;

use testbed::network::{End, NEEDS, isolated, linked};
use testbed::{Case, Need};
use uncopy::doctor::{CopyVerdict, Options, Severity, Target, examine};
use uncopy::send::{Fate, InetSocket};

use crate::doctor::network_rows::{devices, offloads, sizes, stacked, taps};
use crate::doctor::row::{Row, fates};
use crate::doctor::truth::Holder;

/// Lines of the book's table.
pub(crate) fn lines() -> String {
    let rows = [taps(), offloads(), devices(), stacked(), sizes()];
    rows.iter().flatten().map(Row::line).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let rows = [taps(), offloads(), devices(), stacked(), sizes()].into_iter().flatten();
    let needs = [NEEDS, &[Need::Tool("ethtool")]].concat();
    let mut cases: Vec<Case> = rows
        .map(|row| {
            let name = format!("network::{}", row.name.replace(' ', "_"));
            Case::new(name, &needs, move || row.run())
        })
        .collect();
    let named = |name: &str, body: fn()| Case::new(format!("network::{name}"), NEEDS, body);
    cases.extend([
        named("a_veth_link_to_another_network", a_veth_link_to_another_network),
        named("a_clean_path_raises_no_alarm", a_clean_path_raises_no_alarm),
        named("a_missing_device_is_an_error", a_missing_device_is_an_error),
        named("a_socket_of_multipath_tcp", a_socket_of_multipath_tcp),
        named("a_program_at_the_other_end_of_a_pair", a_program_at_the_other_end_of_a_pair),
    ]);
    cases
}

fn a_clean_path_raises_no_alarm() {
    isolated(|network| {
        network.sink();
        for target in [
            Target::Udp("10.11.0.2:9".parse().unwrap()),
            Target::Udp("[fd11::2]:9".parse().unwrap()),
            Target::Tcp("10.11.0.2:9".parse().unwrap()),
            Target::Tcp("[fd11::2]:9".parse().unwrap()),
            Target::Device("sink".into()),
        ] {
            let report = examine(&target, &Options::default()).unwrap();
            assert_eq!(report.verdict, CopyVerdict::ZeroCopy, "{report:#?}");
            let notes = report.findings.iter().all(|one| one.severity == Severity::Note);
            assert!(notes, "{report:#?}");
            assert!(
                report.facts.iter().any(|fact| fact.value.starts_with("sink (ifb), MTU 65535"))
            );
        }
        // One packet is too small for lending, which is not a limit of the path.
        network.ip("link set sink mtu 1500");
        let to = Target::Udp(End::Far.address(false, 9));
        let report = examine(&to, &Options::default()).unwrap();
        assert_eq!(report.verdict, CopyVerdict::ZeroCopy, "{report:#?}");
        let asked = Options::new().message_bytes(Some(1472));
        assert_eq!(examine(&to, &asked).unwrap().verdict, CopyVerdict::Limited);
        // The effect must not claim that nothing is copied.
        let tap = network.tap();
        let report = examine(&to, &asked).unwrap();
        let small = report.finding("below-crossover").unwrap();
        assert!(!small.effect.to_string().contains("Nothing is copied"), "{report:#?}");
        drop(tap);
    });
}

/// Packets over a veth pair to a socket of this machine are copied, as predicted.
fn a_veth_link_to_another_network() {
    let (is_there, waits) = std::sync::mpsc::channel();
    let (is_done, stays) = std::sync::mpsc::channel::<()>();
    linked(
        move |network| {
            waits.recv().unwrap();
            let to = End::Far.address(false, 9);
            let report = examine(&Target::Udp(to), &small()).unwrap();
            let finding = report.finding("veth").unwrap();
            assert_eq!(finding.severity, Severity::Copies);
            assert_eq!(finding.evidence[1].found, "veth0 is of the kind veth");
            // Packets for another address may be forwarded without a copy.
            let elsewhere = Target::Udp("10.11.0.9:9".parse().unwrap());
            let passed_on = examine(&elsewhere, &small()).unwrap();
            let finding = passed_on.finding("veth").unwrap();
            assert_eq!(finding.severity, Severity::Unknown);
            assert!(finding.evidence[0].found.contains("does not belong"), "{finding:#?}");
            assert_eq!(report.verdict, CopyVerdict::Copied, "{report:#?}");
            assert!(report.finding("datagram-above-mtu").is_none(), "{report:#?}");
            let fates = fates(InetSocket::connect_udp(to).unwrap(), 1400);
            assert_eq!(fates, [Fate::Copied; 4]);
            network.ip("link del veth0");
            assert!(examine(&Target::Udp(to), &small()).unwrap().finding("veth").is_none());
            is_done.send(()).unwrap();
        },
        move |_| {
            let receiver = UdpSocket::bind(End::Far.address(false, 9)).unwrap();
            is_there.send(()).unwrap();
            stays.recv().unwrap();
            drop(receiver);
        },
    );
}

fn small() -> Options {
    Options::new().message_bytes(Some(1400))
}

/// It is in no TCP table and refuses `SO_ZEROCOPY`.
fn a_socket_of_multipath_tcp() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
    isolated(|network| {
        network.set("net/mptcp/enabled", 1);
        let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (family, kind, flags) = (AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC);
        let made = socket_with(family, kind, flags, Some(ipproto::MPTCP)).unwrap();
        rustix::net::connect(&made, &receiver.local_addr().unwrap()).unwrap();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_ZEROCOPY);
        let refused = testbed::set_number(&made, level, name, 1).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
        let report = Holder::of(made.try_clone().unwrap()).examine();
        let finding = report.finding("mptcp").unwrap_or_else(|| panic!("{report:#?}"));
        assert!(finding.evidence[0].found.contains("EOPNOTSUPP"), "{finding:#?}");
        assert_eq!(report.verdict, CopyVerdict::Copied);
        drop(made);
        let plain = std::net::TcpStream::connect(receiver.local_addr().unwrap()).unwrap();
        let report = Holder::of(plain.into()).examine();
        assert!(report.finding("mptcp").is_none(), "{report:#?}");
    });
}

/// The driver rebuilds every packet for it, and the kernel reports no copy.
fn a_program_at_the_other_end_of_a_pair() {
    let (is_there, waits) = std::sync::mpsc::channel();
    let (is_done, stays) = std::sync::mpsc::channel::<()>();
    linked(
        move |_| {
            waits.recv().unwrap();
            let to = End::Far.address(false, 9);
            let report = examine(&Target::Udp(to), &small()).unwrap();
            let finding = report.finding("veth").unwrap();
            assert_eq!(finding.severity, Severity::Unknown, "{finding:#?}");
            assert!(finding.summary.to_string().contains("XDP"), "{finding:#?}");
            let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
            let seen = testbed::zerocopy_sends(&sender, Some(to), 40, 1400).unwrap();
            assert_eq!((seen.lent, seen.copied), (40, 0));
            is_done.send(()).unwrap();
        },
        move |network| {
            let program = network.xdp_by_driver("veth1");
            is_there.send(()).unwrap();
            stays.recv().unwrap();
            drop(program);
        },
    );
}

fn a_missing_device_is_an_error() {
    let error = examine(&Target::Device("nonesuch".into()), &Options::default()).unwrap_err();
    assert_eq!(error.errno(), Some(uncopy::Errno::ENODEV), "{error}");
}

/// Limits the locked memory of this process, and drops this thread's privilege to exceed the limit; `None`:
/// restores both.
pub(crate) fn without_locked_memory(bytes: Option<u64>) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut limit = getrlimit(Resource::Memlock);
    limit.current = bytes.or(limit.maximum);
    setrlimit(Resource::Memlock, limit).unwrap();
    let mut sets = capabilities(None).unwrap();
    sets.effective.set(CapabilitySet::IPC_LOCK, bytes.is_none());
    set_capabilities(None, sets).unwrap();
}
