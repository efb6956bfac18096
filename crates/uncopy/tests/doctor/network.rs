//! Conditions of paths, each in a network of its own.

use std::net::UdpSocket;

use testbed::network::{End, NEEDS, isolated, linked};
use testbed::{Case, Need};
use uncopy::doctor::{Options, Severity, Target, Verdict, examine};
use uncopy::send::{Fate, Socket};

use crate::network_rows::{devices, offloads, sizes, stacked, taps};
use crate::row::{Row, fates};

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
        named("a_device_that_is_not_there", a_device_that_is_not_there),
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
            assert_eq!(report.verdict, Verdict::ZeroCopy, "{report:#?}");
            let notes = report.findings.iter().all(|one| one.severity == Severity::Note);
            assert!(notes, "{report:#?}");
            assert!(
                report.facts.iter().any(|fact| fact.value.starts_with("sink (ifb), MTU 65535"))
            );
        }
    });
}

/// What goes over a veth pair to a socket of this machine is copied, as predicted.
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
            // What is for somebody else may be passed on without being copied.
            let elsewhere = Target::Udp("10.11.0.9:9".parse().unwrap());
            let passed_on = examine(&elsewhere, &small()).unwrap();
            let finding = passed_on.finding("veth").unwrap();
            assert_eq!(finding.severity, Severity::Unknown);
            assert!(finding.evidence[0].found.contains("does not belong"), "{finding:#?}");
            assert_eq!(report.verdict, Verdict::Copied, "{report:#?}");
            assert!(report.finding("datagram-above-mtu").is_none(), "{report:#?}");
            let fates = fates(Socket::connect_udp(to).unwrap(), 1400);
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
    let mut options = Options::default();
    options.message_bytes = Some(1400);
    options
}

fn a_device_that_is_not_there() {
    let error = examine(&Target::Device("nonesuch".into()), &Options::default()).unwrap_err();
    assert_eq!(error.errno(), Some(uncopy::Errno::ENODEV), "{error}");
}

/// Bounds the memory that this process may lock, and takes this thread's privilege to go beyond;
/// `None`: as before.
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
