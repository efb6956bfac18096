use super::*;
use crate::found::{Detour, Echo, Missing};
use crate::network::facts::{Kernel, Limits, Offloads, Turn, Wanted};
use crate::process::Owner;
use Severity::{Copies, Limits as Limited, Note, Unknown};
use Transport::{Tcp, Udp};
use uncopy_core::Errno;
use uncopy_os::capabilities::{AnswerReason, Limit};
use uncopy_os::netlink::route::Route;

const NOT_ASKED: Answer = Answer::Unknown { reason: AnswerReason::NotAsked };
const ON: Option<Feature> = Some(Feature { is_active: true, is_requested: true, is_fixed: false });
const OFF: Option<Feature> =
    Some(Feature { is_active: false, is_requested: false, is_fixed: false });

/// A path over hardware with all offloads.
fn clean(transport: Transport) -> PathFacts {
    PathFacts {
        transport: Some(transport),
        destination: Some("192.0.2.1:80".parse().unwrap()),
        route: Some(Ok(Route { device: 7, ..Route::default() })),
        loops: None,
        turns: Vec::new(),
        unseen: Vec::new(),
        devices: vec![device()],
        taps: Vec::new(),
        kernel: Kernel {
            release: "6.18.0".into(),
            version: [6, 9, 0],
            msg_zerocopy: Answer::Yes(()),
            io_uring: Answer::Yes(()),
            has_send_zc: true,
        },
        limits: Limits {
            optmem_max_bytes: Some(128 << 10),
            memlock: Limit { soft: Some(8 << 20), hard: Some(8 << 20) },
            may_lock_beyond: false,
        },
        wanted: Wanted {
            message_bytes: 40_000,
            is_usual: false,
            segment_bytes: None,
            in_flight_bytes: 640_000,
        },
    }
}

fn device() -> Device {
    Device {
        index: 7,
        name: "eth1".into(),
        is_up: true,
        mtu: 65_535,
        offloads: Offloads {
            scatter_gather: ON,
            fraglist: ON,
            checksum: ON,
            tcp_segmentation: ON,
            udp_segmentation: ON,
            tunnel_segmentation: ON,
        },
        ..Device::default()
    }
}

fn tap(protocol: u16, device: u32, ignores_outgoing: Option<bool>) -> Tap {
    Tap {
        inode: 8123,
        protocol,
        device,
        is_running: true,
        user: 0,
        ignores_outgoing,
        owner: Some(Owner { pid: 812, program: "lldpd".into(), descriptor: 6 }),
        fanout: None,
    }
}

fn found(
    transport: Transport,
    change: impl FnOnce(&mut PathFacts),
) -> Vec<(&'static str, Severity)> {
    let mut facts = clean(transport);
    change(&mut facts);
    findings(&facts).iter().map(|finding| (finding.condition.id, finding.severity)).collect()
}

#[test]
fn a_clean_path_has_no_findings() {
    for transport in [Transport::Tcp, Transport::Udp] {
        assert_eq!(found(transport, |_| ()), []);
        assert_eq!(CopyVerdict::of(&findings(&clean(transport))), CopyVerdict::ZeroCopy);
    }
}

type Row = (Transport, fn(&mut PathFacts), &'static [(&'static str, Severity)]);

/// Single changes of a clean path, with all resulting findings.
const ROWS: &[Row] = &[
    (Udp, |f| f.taps = vec![tap(3, 0, Some(false))], &[("tap-eth-p-all", Copies)]),
    (Tcp, |f| f.taps = vec![tap(3, 7, Some(false))], &[("tap-eth-p-all", Copies)]),
    (Tcp, |f| f.taps = vec![tap(3, 0, None)], &[("tap-eth-p-all", Unknown)]),
    (Udp, |f| f.taps = vec![tap(3, 8, Some(false))], &[("tap-other-device", Note)]),
    (Udp, |f| f.taps = vec![tap(0x88cc, 0, None)], &[("tap-other-protocol", Note)]),
    (Udp, |f| f.taps = vec![tap(3, 0, Some(true))], &[("tap-ignores-outgoing", Note)]),
    (
        Udp,
        |f| {
            f.taps = vec![tap(3, 7, Some(false))];
            f.taps[0].is_running = false;
        },
        &[("tap-not-running", Note)],
    ),
    (Udp, |f| f.devices[0].offloads.scatter_gather = OFF, &[("no-scatter-gather", Copies)]),
    (Tcp, |f| f.devices[0].offloads.scatter_gather = OFF, &[("no-scatter-gather", Unknown)]),
    (Udp, |f| f.devices[0].offloads.checksum = OFF, &[("no-tx-checksum", Copies)]),
    (Tcp, |f| f.devices[0].offloads.checksum = OFF, &[("no-tx-checksum", Copies)]),
    (Tcp, |f| f.devices[0].offloads.tcp_segmentation = OFF, &[("no-tso", Note)]),
    (Udp, |f| f.devices[0].offloads.tcp_segmentation = OFF, &[]),
    (Udp, |f| f.devices[0].offloads.udp_segmentation = OFF, &[]),
    (
        Udp,
        |f| {
            f.devices[0].offloads.udp_segmentation = OFF;
            f.wanted.segment_bytes = Some(1200);
        },
        &[("no-uso", Note)],
    ),
    (Tcp, |f| f.devices[0].offloads.fraglist = OFF, &[("no-fraglist", Note)]),
    (Udp, |f| f.devices[0].mtu = 1500, &[("datagram-above-mtu", Copies)]),
    (Tcp, |f| f.devices[0].mtu = 1500, &[]),
    (Udp, |f| f.wanted.message_bytes = 65_507, &[]),
    // It was to be copied, and cannot be sent.
    (Udp, |f| f.wanted.message_bytes = 65_508, &[("datagram-too-long", Unknown)]),
    (
        Udp,
        |f| {
            f.devices[0].mtu = 1500;
            f.wanted.segment_bytes = Some(1473);
        },
        &[("datagram-too-long", Unknown)],
    ),
    (
        Udp,
        |f| (f.wanted.message_bytes, f.wanted.segment_bytes) = (70_000, Some(1400)),
        &[("datagram-too-long", Unknown)],
    ),
    (
        Udp,
        |f| (f.wanted.message_bytes, f.wanted.segment_bytes) = (64_001, Some(500)),
        &[("datagram-too-long", Unknown)],
    ),
    (Udp, |f| (f.wanted.message_bytes, f.wanted.segment_bytes) = (64_000, Some(500)), &[]),
    // It is not cut.
    (Udp, |f| (f.wanted.message_bytes, f.wanted.segment_bytes) = (40_000, Some(65_508)), &[]),
    (Tcp, |f| f.wanted.message_bytes = 5_000, &[("below-crossover", Limited)]),
    (
        Udp,
        |f| {
            f.devices[0].mtu = 1500;
            (f.wanted.message_bytes, f.wanted.is_usual) = (1472, true);
            f.wanted.in_flight_bytes = 1472;
        },
        &[("below-crossover", Note)],
    ),
    (Tcp, |f| f.wanted.message_bytes = 10_000, &[("below-crossover", Note)]),
    (Tcp, |f| f.limits.optmem_max_bytes = Some(8000), &[("optmem-max", Limited)]),
    (Tcp, |f| f.limits.memlock.soft = Some(64 << 10), &[("memlock", Limited)]),
    (
        Tcp,
        |f| {
            f.limits.memlock.soft = Some(64 << 10);
            f.limits.may_lock_beyond = true;
        },
        &[],
    ),
    (Udp, |f| f.devices[0].below = Below::Peer(Peer::Receives), &[("veth", Copies)]),
    (Udp, |f| f.devices[0].below = Below::Peer(Peer::PassesOn), &[("veth", Unknown)]),
    (Udp, |f| f.devices[0].below = Below::Peer(Peer::Unknown(None)), &[("veth", Unknown)]),
    (Udp, |f| f.devices[0].kind = "tun".into(), &[("tun-tap", Copies)]),
    (Udp, |f| f.devices[0].is_up = false, &[("device-down", Unknown)]),
    (Udp, |f| f.devices[0].has_xdp = true, &[("xdp", Note)]),
    (Udp, |f| f.devices[0].queues = vec!["tbf".into()], &[("queue-holds-packets", Note)]),
    (Udp, |f| f.devices[0].queues = vec!["pfifo_fast".into()], &[]),
    (Udp, |f| f.devices[0].egress_filters = vec!["bpf".into()], &[("tc-egress", Note)]),
    (Udp, |f| f.devices[0].below = Below::Unseen("why"), &[("stacked-device-unseen", Unknown)]),
    (Udp, |f| f.devices[0].below = Below::Beside, &[("macvlan-beside", Copies)]),
    (Udp, |f| f.devices[0].below = Below::Peer(Peer::Converts), &[("veth", Unknown)]),
    (Udp, |f| f.devices[0].below = Below::Peer(Peer::Down), &[("veth", Unknown)]),
    (
        Udp,
        |f| f.loops = Some(Echo::Member { group: [239, 0, 0, 1].into() }),
        &[("loops-back", Copies)],
    ),
    (
        Udp,
        |f| f.unseen = vec![NotSeen::refused(Missing::FirewallRules, "netlink", Errno::EPERM)],
        &[("not-seen", Unknown)],
    ),
    (
        Udp,
        |f| f.turns = vec![Turn { what: Detour::Here, source: "netlink" }],
        &[("turned-aside", Note)],
    ),
    (
        Udp,
        |f| {
            let back = Device { is_loopback: true, ..device() };
            f.devices.push(Device { index: 8, ..back });
        },
        &[("loopback", Copies)],
    ),
    // Packets are redirected before the device gets them.
    (
        Udp,
        |f| {
            f.taps = vec![tap(3, 7, Some(false))];
            f.devices[0].is_left = true;
        },
        &[("tap-other-device", Note)],
    ),
    // All taps see incoming packets.
    (
        Udp,
        |f| {
            f.taps = vec![tap(3, 8, Some(true))];
            f.devices.push(Device { index: 8, is_entered: true, ..device() });
        },
        &[("tap-eth-p-all", Copies)],
    ),
    (Udp, |f| f.route = Some(Err(Errno::ENETUNREACH)), &[("no-route", Unknown)]),
    (
        Tcp,
        |f| {
            f.route = Some(Ok(Route { device: 1, is_local: true, ..Route::default() }));
            // Facts about the device are irrelevant then.
            f.devices[0].offloads.scatter_gather = OFF;
        },
        &[("loopback", Copies)],
    ),
    (Tcp, |f| f.kernel.msg_zerocopy = NOT_ASKED, &[("no-so-zerocopy", Copies)]),
    (Udp, |f| f.kernel.has_send_zc = false, &[("no-send-zc", Note)]),
    (Udp, |f| f.kernel.version = [6, 17, 10], &[("sendmsg-zc-fixed-broken", Note)]),
    (Udp, |f| f.kernel.version = [6, 17, 11], &[]),
    (Tcp, |f| f.kernel.version = [6, 10, 0], &[("tcp-send-zc-report", Note)]),
];

#[test]
fn each_fact_has_its_finding() {
    for (row, (transport, change, expected)) in ROWS.iter().enumerate() {
        assert_eq!(found(*transport, change), *expected, "row {row}");
    }
}

#[test]
fn ways_that_differ_are_not_judged() {
    let clean = clean(Transport::Udp);
    let copied = |tap_of: u32| {
        let mut facts = clean.clone();
        facts.taps = vec![tap(3, tap_of, Some(false))];
        facts
    };
    let verdict = |ways: &[PathFacts]| CopyVerdict::of(&agreed(ways));
    assert_eq!(verdict(std::slice::from_ref(&clean)), CopyVerdict::ZeroCopy);
    assert_eq!(verdict(&[clean.clone(), clean.clone()]), CopyVerdict::ZeroCopy);
    assert_eq!(verdict(&[copied(7), copied(0)]), CopyVerdict::Copied);
    assert_eq!(verdict(&[clean.clone(), copied(7)]), CopyVerdict::Unknown);
    let found = agreed(&[clean.clone(), copied(7)]);
    assert_eq!(found[0].condition.id, "ways-differ");
    assert!(found.iter().all(|finding| finding.severity != Severity::Copies));
}

/// The VLAN `eth1.5` above hardware with and without offloads.
#[test]
fn lower_devices_count_too() {
    let stacked = |f: &mut PathFacts| {
        let mut above = device();
        (above.index, above.name, above.kind) = (9, "eth1.5".into(), "vlan".into());
        above.below = Below::Devices(vec![7]);
        f.devices.insert(0, above);
    };
    assert_eq!(found(Transport::Udp, stacked), [("stacked-device", Severity::Note)]);
    let lower = found(Transport::Udp, |f| {
        stacked(f);
        f.devices[1].offloads.scatter_gather = OFF;
        f.taps = vec![tap(3, 7, Some(false))];
    });
    assert_eq!(
        lower,
        [
            ("tap-eth-p-all", Severity::Copies),
            ("stacked-device", Severity::Note),
            // The datagram was built for the upper device: the kernel reports no copy.
            ("no-scatter-gather", Severity::Unknown)
        ]
    );
}

/// A tunnel above a device with tunnel offload, and above one without.
#[test]
fn tunnels_need_a_device_with_tunnel_offload() {
    for (kind, feature, expected) in [
        ("vxlan", ON, &[("stacked-device", Severity::Note)][..]),
        ("vlan", OFF, &[("stacked-device", Severity::Note)]),
        (
            "vxlan",
            OFF,
            &[("stacked-device", Severity::Note), ("no-tunnel-offload", Severity::Copies)],
        ),
    ] {
        let found = found(Transport::Udp, |f| {
            let mut above = device();
            (above.index, above.name, above.kind) = (9, "vx0".into(), kind.into());
            above.below = Below::Devices(vec![7]);
            f.devices.insert(0, above);
            f.devices[1].offloads.tunnel_segmentation = feature;
        });
        assert_eq!(found, expected, "{kind}");
    }
}

#[test]
fn findings_name_the_holder_of_a_tap() {
    let mut facts = clean(Transport::Tcp);
    facts.taps = vec![tap(3, 0, Some(false))];
    facts.taps[0].fanout = Some(5);
    let finding = &findings(&facts)[0];
    assert_eq!(finding.summary.to_string(), "lldpd (pid 812) holds a packet tap on all devices");
    let said: Vec<&str> = finding.evidence.iter().map(|one| one.found.as_str()).collect();
    assert_eq!(
        said,
        [
            "inode 8123: protocol 0003, device all, running 1",
            "in the fanout group 5",
            "/proc/812/fd/6",
            "PACKET_IGNORE_OUTGOING is off"
        ]
    );
    assert!(finding.next_step.as_ref().unwrap().to_string().contains("lldpd (pid 812)"));
    facts.taps[0].owner = None;
    assert!(
        findings(&facts)[0].summary.to_string().starts_with("an unknown process (user id 0) holds")
    );
}

#[test]
fn next_steps_follow_what_can_be_changed() {
    let step = |feature: Feature| {
        let mut facts = clean(Transport::Udp);
        facts.devices[0].offloads.checksum = Some(feature);
        let finding = findings(&facts).remove(0);
        (finding.next_step.unwrap().to_string(), finding.needs_root)
    };
    let off = Feature::default();
    assert_eq!(step(off), ("Turn it on: ethtool -K eth1 tx on.".into(), true));
    let fixed = Feature { is_fixed: true, ..off };
    assert_eq!(step(fixed), ("The feature is fixed: use another device.".into(), false));
    let waiting = Feature { is_requested: true, ..off };
    assert!(step(waiting).0.starts_with("It is requested but needs"));
}

#[test]
fn small_datagrams_get_trains_as_next_step() {
    let mut facts = clean(Transport::Udp);
    facts.devices[0].mtu = 1500;
    facts.wanted = Wanted { message_bytes: 1472, in_flight_bytes: 23_552, ..facts.wanted };
    let finding = findings(&facts).remove(0);
    assert_eq!(finding.condition.id, "below-crossover");
    assert!(finding.next_step.unwrap().to_string().contains("64768 bytes as datagrams of 1472"));
}
