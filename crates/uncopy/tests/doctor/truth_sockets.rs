//! Situations in which options or addresses of a socket decide whether sends are copied.

use std::net::UdpSocket;
use std::time::Instant;

use testbed::network::Network;
use testbed::{LenderOptions, bind_to_device, set_number};

use crate::doctor::truth::Truth::{Copied, CopiedUnseen, Lent, LentUnseen};
use crate::doctor::truth::{Kept, Situation};
use crate::doctor::truth_rows::{FAR, from_a_port, keep, none, pair, row, rule, unconnected};

const FAR_V6: &str = "[fd11::2]:9";
const FAR_MAPPED: &str = "[::ffff:10.11.0.2]:9";

pub(crate) fn rows() -> Vec<Situation> {
    [processes(), sources(), devices()].into_iter().flatten().collect()
}

/// Creates a pair to an IPv6 network without receivers. Routes of this metric in the main table lead over the
/// pair; those over the sink have 256.
fn pair_v6(network: &Network, metric: u32) -> Kept {
    // Prevents addresses that appear later and change routes.
    network.set("net/ipv6/conf/default/addr_gen_mode", 1);
    let pair = pair(network);
    pair.ip("address add fd11::2/128 dev veth1 nodad");
    network.ip("address add fd12::1/64 dev veth0 nodad");
    network.ip("neighbour replace fd11::2 lladdr 02:00:00:00:00:02 dev veth0 nud permanent");
    network.ip(&format!("route add fd11::2 dev veth0 initcwnd 1000 metric {metric}"));
    network.ip("route add fd11::2 dev sink initcwnd 1000 metric 1024");
    settle("veth0");
    keep(pair)
}

/// Waits until a device has a carrier, as a carrier change invalidates the cached route of a socket.
fn settle(device: &str) {
    let begin = Instant::now();
    let words = ["-o", "link", "show", device];
    while !testbed::run_tool("ip", words).contains("state UP") {
        assert!(begin.elapsed() < testbed::LONG, "{device} has no carrier");
        std::thread::yield_now();
    }
}

fn rule_v6(network: &Network, words: &str, device: &str) {
    network.ip(&format!("-6 rule add {words} lookup 100"));
    network.ip(&format!("route add fd11::2 dev {device} initcwnd 1000 table 100"));
}

fn stream() -> LenderOptions {
    LenderOptions { is_stream: true, is_silent: true, ..LenderOptions::default() }
}

fn processes() -> Vec<Situation> {
    vec![
        row("a process with a peer", FAR, Lent, |_| none()).held(),
        row("a process bound to a device", FAR, Copied, |network| keep(pair(network)))
            .sends(|to| {
                let socket = unconnected(to)?;
                bind_to_device(&socket, "veth0")?;
                socket.connect(to)?;
                Ok(socket)
            })
            .held(),
        row("a process with a mark", FAR, Copied, |n| rule(n, "fwmark 7"))
            .sends(|to| {
                let socket = unconnected(to)?;
                set_number(&socket, libc::SOL_SOCKET, libc::SO_MARK, 7)?;
                socket.connect(to)?;
                Ok(socket)
            })
            .held(),
        row("a process with a class", FAR, Copied, |n| rule(n, "tos 0x10"))
            .sends(|to| {
                let socket = unconnected(to)?;
                set_number(&socket, libc::IPPROTO_IP, libc::IP_TOS, 0x10)?;
                socket.connect(to)?;
                Ok(socket)
            })
            .held(),
        row("a process with a class and a mapped address", FAR_MAPPED, Copied, |n| {
            rule(n, "tos 0x10")
        })
        .sends(|to| {
            let socket = unconnected(to)?;
            set_number(&socket, libc::IPPROTO_IP, libc::IP_TOS, 0x10)?;
            socket.connect(to)?;
            Ok(socket)
        })
        .held(),
        row("a process with an address of its own", FAR, Copied, |network| {
            network.ip("address add 10.13.0.1/24 dev sink");
            rule(network, "from 10.13.0.1")
        })
        .sends(|to| {
            let socket = UdpSocket::bind("10.13.0.1:0")?;
            socket.connect(to)?;
            Ok(socket)
        })
        .held(),
        row("a process of another user", FAR, Copied, |n| rule(n, "uidrange 65534-65534"))
            .sends(|to| {
                let socket = unconnected(to)?;
                rustix::fs::fchown(&socket, Some(rustix::fs::Uid::from_raw(65_534)), None)?;
                socket.connect(to)?;
                Ok(socket)
            })
            .held(),
        row("a process with a port of its own", FAR, Copied, |n| rule(n, "ipproto udp sport 5555"))
            .sends(from_a_port)
            .held(),
        row("a process without a peer", "127.0.0.1:9", CopiedUnseen, |_| none())
            .sends(unconnected)
            .held()
            .finds("no-sockets"),
    ]
}

/// An IPv6 connection keeps the route found before it had an address or a port (`tcp_v6_connect`,
/// `ip6_dst_lookup_tail`), and looks it up with both when that route is gone.
fn sources() -> Vec<Situation> {
    let by_source = |network: &Network| {
        let pair = pair_v6(network, 100);
        rule_v6(network, "from fd12::1", "sink");
        pair
    };
    let by_port = |network: &Network| {
        let pair = pair_v6(network, 100);
        rule_v6(network, "ipproto tcp sport 1024-65534", "sink");
        pair
    };
    let by_other_source = |network: &Network| {
        let pair = pair_v6(network, 2000);
        rule_v6(network, "from fd12::1", "veth0");
        pair
    };
    vec![
        row("a rule by the source that a connection gets", FAR_V6, CopiedUnseen, by_source)
            .lender_options(stream)
            .finds("ways-differ"),
        row("a process and the source that it got", FAR_V6, CopiedUnseen, by_source)
            .lender_options(stream)
            .held(),
        row("a process of UDP and the source that it got", FAR_V6, CopiedUnseen, by_source)
            .lender_options(LenderOptions::default)
            .held(),
        row("a process with an address of another device", FAR_V6, Copied, by_other_source)
            .lender_options(|| LenderOptions { source: "fd12::1".parse().ok(), ..stream() })
            .held(),
        row("a process and the port that it got", FAR_V6, CopiedUnseen, by_port)
            .lender_options(stream)
            .held(),
        row("a process with a port of its own and a rule", FAR_V6, Lent, by_port)
            .lender_options(|| LenderOptions { source_port: 5555, ..stream() })
            .held(),
    ]
}

/// An IPv6 socket bound to a device has no routes over other devices (`ip6_route_output_flags_noref`).
fn devices() -> Vec<Situation> {
    fn bound(device: &str) -> LenderOptions {
        LenderOptions { device: Some(device.to_owned()), ..LenderOptions::default() }
    }
    let late = |network: &Network| pair_v6(network, 2000);
    let early = |network: &Network| pair_v6(network, 100);
    vec![
        row("a process of IPv6 bound to a device", FAR_V6, Copied, late)
            .lender_options(|| bound("veth0"))
            .held(),
        row("a connection of IPv6 bound to a device", FAR_V6, Copied, late)
            .lender_options(|| LenderOptions { device: Some("veth0".to_owned()), ..stream() })
            .held(),
        row("a process of IPv6 bound to a device that drops", FAR_V6, Lent, early)
            .lender_options(|| bound("sink"))
            .held(),
        row("a device and a rule by source", FAR_V6, LentUnseen, |network| {
            let pair = pair_v6(network, 100);
            network.ip("-6 rule add from fd99::/16 lookup 100");
            pair
        })
        .lender_options(|| bound("sink"))
        .held()
        .finds("not-seen"),
        row("a device and a route by source", FAR_V6, LentUnseen, |network| {
            let pair = pair_v6(network, 100);
            network.ip("route add fd11::/64 from fd99::/16 dev sink");
            pair
        })
        .lender_options(|| bound("sink"))
        .held()
        .finds("not-seen"),
    ]
}
