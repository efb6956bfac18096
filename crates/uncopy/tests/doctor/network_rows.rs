//! Network conditions that can be created in a namespace.

use testbed::network::ALL_PROTOCOLS;
use testbed::run_tool;
use uncopy::doctor::Severity::{Copies, Limits, Note, Unknown};

use crate::doctor::row::{Row, keep};

const UDP: &str = "udp://10.11.0.2:9";
const UDP6: &str = "udp://[fd11::2]:9";
const TCP: &str = "tcp://10.11.0.2:4000";
const OTHER: &str = "udp://10.12.0.2:9";

/// Addresses a device above the sink.
fn other(network: &testbed::network::Network, device: &str) {
    network.ip(&format!("address add 10.12.0.1/24 dev {device}"));
    network.ip(&format!("link set {device} up"));
    network.ip(&format!(
        "neighbour replace 10.12.0.2 lladdr 02:00:00:00:00:02 dev {device} nud permanent"
    ));
}

/// A bridge above the sink and an idle device, which has learnt that the destination is behind the sink.
fn two_ports(network: &testbed::network::Network) {
    network.ip("link add br0 type bridge");
    network.ip("link add idle type ifb");
    for device in ["br0", "idle"] {
        network.ip(&format!("link set {device} mtu 65535"));
    }
    for port in ["sink", "idle"] {
        network.ip(&format!("link set {port} master br0"));
    }
    network.ip("link set idle up");
    other(network, "br0");
    // The entry that the bridge would learn from the first answer.
    let words = "fdb replace 02:00:00:00:00:02 dev sink master static";
    run_tool("bridge", words.split(' '));
}

pub(crate) fn taps() -> Vec<Row> {
    vec![
        Row::new(
            "tap on all devices",
            UDP,
            ("tap-eth-p-all", Copies, "protocol 0003, device all, running 1"),
        )
        .create(|network| keep(network.tap())),
        Row::new("tap on all devices, IPv6", UDP6, ("tap-eth-p-all", Copies, "protocol 0003"))
            .create(|network| keep(network.tap())),
        Row::new(
            "tap on all devices, TCP",
            TCP,
            ("tap-eth-p-all", Copies, "PACKET_IGNORE_OUTGOING is off"),
        )
        .create(|network| keep(network.tap())),
        Row::new("tap on this device", UDP, ("tap-eth-p-all", Copies, "running 1"))
            .create(|network| keep(network.tap_of(ALL_PROTOCOLS, Some("sink"), false))),
        Row::new("tap on another device", UDP, ("tap-other-device", Note, "device 1,"))
            .create(|network| keep(network.tap_of(ALL_PROTOCOLS, Some("lo"), false))),
        Row::new(
            "tap on another port of a bridge",
            OTHER,
            ("tap-other-device", Note, "protocol 0003"),
        )
        .prepare(two_ports)
        .create(|network| keep(network.tap_of(ALL_PROTOCOLS, Some("idle"), false))),
        Row::new("tap for IPv4 alone", UDP, ("tap-other-protocol", Note, "protocol 0800"))
            .create(|network| keep(network.tap_of(0x0800, Some("sink"), false))),
        Row::new("tap for LLDP alone", UDP, ("tap-other-protocol", Note, "protocol 88cc"))
            .create(|network| keep(network.tap_of(0x88cc, None, false))),
        Row::new(
            "tap that ignores outgoing packets",
            UDP,
            ("tap-ignores-outgoing", Note, "PACKET_IGNORE_OUTGOING is on"),
        )
        .create(|network| keep(network.tap_of(ALL_PROTOCOLS, None, true))),
        Row::new("tap on a port that is down", OTHER, ("tap-not-running", Note, "running 0"))
            .prepare(|network| {
                network.ip("link add br0 type bridge");
                network.ip("link set br0 mtu 65535");
                network.ip("link set sink master br0");
                network.ip("link add idle type ifb");
                network.ip("link set idle mtu 65535");
                network.ip("link set idle master br0");
                network.ip("link set idle up");
                other(network, "br0");
            })
            .create(|network| {
                let tap = network.tap_of(ALL_PROTOCOLS, Some("idle"), false);
                network.ip("link set idle down");
                keep(tap)
            })
            // A device that is down has another finding.
            .unsent(),
    ]
}

pub(crate) fn offloads() -> Vec<Row> {
    vec![
        Row::new(
            "no scatter-gather, UDP",
            UDP,
            ("no-scatter-gather", Copies, "active no, requested no, fixed no"),
        )
        .create(|network| {
            network.ethtool("-K sink sg off");
            None
        })
        .remove(|network| network.ethtool("-K sink sg on tx on")),
        Row::new(
            "no scatter-gather, TCP",
            TCP,
            ("no-scatter-gather", Unknown, "tx-scatter-gather: active no"),
        )
        .create(|network| {
            network.ethtool("-K sink sg off");
            None
        })
        .remove(|network| network.ethtool("-K sink sg on tx on")),
        Row::new("no checksums, UDP", UDP, ("no-tx-checksum", Copies, "tx-checksum: active no"))
            .create(|network| {
                network.ethtool("-K sink tx off");
                None
            })
            .remove(|network| network.ethtool("-K sink tx on")),
        Row::new("no checksums, TCP", TCP, ("no-tx-checksum", Copies, "tx-checksum: active no"))
            .create(|network| {
                network.ethtool("-K sink tx off");
                None
            })
            .remove(|network| network.ethtool("-K sink tx on")),
        Row::new(
            "TSO is off",
            TCP,
            ("no-tso", Note, "tx-tcp-segmentation: active no, requested no"),
        )
        .create(|network| {
            network.ethtool("-K sink tso off");
            None
        })
        .remove(|network| network.ethtool("-K sink tso on")),
        Row::new("TSO waits for checksums", TCP, ("no-tso", Note, "active no, requested yes"))
            .create(|network| {
                network.ethtool("-K sink tx off");
                None
            })
            .remove(|network| network.ethtool("-K sink tx on"))
            .unsent(),
        Row::new("USO is off", UDP, ("no-uso", Note, "tx-udp-segmentation: active no"))
            .options(|options| options.segment_bytes = Some(1200))
            .create(|network| {
                network.ethtool("-K sink tx-udp-segmentation off");
                None
            })
            .remove(|network| network.ethtool("-K sink tx-udp-segmentation on")),
        Row::new("no lists of packets", UDP, ("no-fraglist", Note, "fraglist: active no"))
            .create(|network| {
                network.ethtool("-K sink tx-scatter-gather-fraglist off");
                None
            })
            .remove(|network| network.ethtool("-K sink tx-scatter-gather-fraglist on")),
    ]
}

pub(crate) fn devices() -> Vec<Row> {
    vec![
        Row::new("loopback", "udp://127.0.0.1:9009", ("loopback", Copies, "type local"))
            .create(|network| {
                network.ip("link set lo up");
                None
            })
            // Without its address the destination is not on this machine.
            .remove(|network| network.ip("address del 127.0.0.1/8 dev lo")),
        Row::new(
            "own address on a device",
            "udp://10.11.0.7:9",
            ("loopback", Copies, "type local"),
        )
        .create(|network| {
            network.ip("address add 10.11.0.7/24 dev sink");
            None
        })
        .remove(|network| network.ip("address del 10.11.0.7/24 dev sink"))
        .unsent(),
        Row::new("tun", OTHER, ("tun-tap", Copies, "tun0 is of the kind tun"))
            .create(|network| keep(network.tun("tun0", "10.12.0.1/24"))),
    ]
}

pub(crate) fn stacked() -> Vec<Row> {
    vec![
        Row::new(
            "bridge",
            OTHER,
            ("stacked-device", Note, "br0 is of the kind bridge, above devices"),
        )
        .create(|network| {
            network.ip("link add br0 type bridge");
            network.ip("link set br0 mtu 65535");
            network.ip("link set sink master br0");
            other(network, "br0");
            None
        })
        .remove(|network| network.ip("link del br0")),
        Row::new(
            "macvlan",
            OTHER,
            ("stacked-device", Note, "mv0 is of the kind macvlan, above devices"),
        )
        .create(|network| {
            network.ip("link add mv0 link sink type macvlan mode bridge");
            other(network, "mv0");
            None
        })
        .remove(|network| network.ip("link del mv0")),
        Row::new("tap below a macvlan", OTHER, ("tap-eth-p-all", Copies, "running 1"))
            .prepare(|network| {
                network.ip("link add mv0 link sink type macvlan mode bridge");
                other(network, "mv0");
            })
            .create(|network| keep(network.tap_of(ALL_PROTOCOLS, Some("sink"), false))),
        Row::new(
            "vxlan over any route",
            OTHER,
            ("stacked-device-unseen", Unknown, "routed one by one"),
        )
        .create(|network| {
            network.ip("link add vx0 type vxlan id 5 remote 10.11.0.2 dstport 4789");
            other(network, "vx0");
            None
        })
        .remove(|network| network.ip("link del vx0"))
        .unsent(),
        Row::new(
            "vxlan over a device",
            OTHER,
            ("stacked-device", Note, "vx0 is of the kind vxlan"),
        )
        .create(|network| {
            network.ip("link add vx0 type vxlan id 5 remote 10.11.0.2 dstport 4789 dev sink");
            other(network, "vx0");
            None
        })
        .remove(|network| network.ip("link del vx0")),
        Row::new("a device that is down", "sink", ("device-down", Unknown, "lacks IFF_UP"))
            .create(|network| {
                network.ip("link set sink down");
                None
            })
            .remove(|network| network.ip("link set sink up"))
            .unsent(),
        Row::new("no route", "udp://198.51.100.1:9", ("no-route", Unknown, "ENETUNREACH"))
            .remove(|network| network.ip("route add default via 10.11.0.2"))
            .unsent(),
    ]
}

pub(crate) fn sizes() -> Vec<Row> {
    vec![
        Row::new(
            "datagram above the MTU",
            UDP,
            ("datagram-above-mtu", Copies, "MTU 9000: 8972 bytes"),
        )
        .options(|options| options.message_bytes = Some(30_000))
        .create(|network| {
            network.ip("link set sink mtu 9000");
            None
        })
        .remove(|network| network.ip("link set sink mtu 65535")),
        Row::new("MTU of the route", UDP, ("datagram-above-mtu", Copies, "MTU 5000: 4972 bytes"))
            .options(|options| options.message_bytes = Some(30_000))
            .create(|network| {
                network.ip("route replace 10.11.0.2/32 dev sink mtu 5000");
                None
            })
            .remove(|network| network.ip("route del 10.11.0.2/32 dev sink")),
        Row::new("too small for lending", UDP, ("below-crossover", Note, "MSG_ZEROCOPY 32768"))
            .create(|network| {
                network.ip("link set sink mtu 1500");
                None
            })
            .remove(|network| network.ip("link set sink mtu 65535"))
            // The default size follows from the MTU.
            .unsent(),
        Row::new(
            "little option memory",
            UDP,
            ("optmem-max", Limits, "net.core.optmem_max is 1024"),
        )
        .create(|network| {
            network.set("net/core/optmem_max", 1024);
            None
        })
        .remove(|network| network.set("net/core/optmem_max", 128 << 10)),
        Row::new("little locked memory", UDP, ("memlock", Limits, "RLIMIT_MEMLOCK is 65536"))
            .create(|_| {
                crate::doctor::network::without_locked_memory(Some(64 << 10));
                None
            })
            .remove(|_| crate::doctor::network::without_locked_memory(None)),
        Row::new("a queue that delays packets", UDP, ("queue-holds-packets", Note, "sink has tbf"))
            .options(|options| options.message_bytes = Some(9000))
            .create(|network| {
                network.tc("qdisc add dev sink root tbf rate 1gbit burst 100000 limit 10000000");
                None
            })
            .remove(|network| network.tc("qdisc del dev sink root")),
        Row::new("an XDP program", UDP, ("xdp", Note, "IFLA_XDP_ATTACHED is set"))
            .create(|network| keep(network.xdp("sink"))),
        Row::new("egress filters", UDP, ("tc-egress", Note, "clsact egress: u32"))
            .create(|network| {
                network.tc("qdisc add dev sink clsact");
                network.tc("filter add dev sink egress protocol all u32 match u32 0 0 classid 1:1");
                None
            })
            .remove(|network| network.tc("qdisc del dev sink clsact")),
    ]
}
