//! Situations in which something other than the route and its device decides whether sends are copied.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use testbed::LenderOptions;
use testbed::network::{ALL_PROTOCOLS, Network};

use crate::doctor::neighbour::Neighbour;
use crate::doctor::truth::Truth::{Copied, CopiedUnseen, Lent, LentUnseen};
use crate::doctor::truth::{By, Kept, Situation, Truth};

pub(crate) const FAR: &str = "10.11.0.2:9";
const OTHER: &str = "10.12.0.2:9";
const BEYOND: &str = "10.20.0.2:9";

/// Creates a connected socket.
fn connected(to: SocketAddr) -> Result<UdpSocket> {
    let socket = unconnected(to)?;
    socket.connect(to)?;
    Ok(socket)
}

/// Creates a socket that is not connected.
pub(crate) fn unconnected(to: SocketAddr) -> Result<UdpSocket> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.set_broadcast(true)?;
    Ok(socket)
}

pub(crate) const fn row(
    name: &'static str,
    to: &'static str,
    truth: Truth,
    create: fn(&Network) -> Kept,
) -> Situation {
    Situation { name, to, truth, create, by: By::Socket(connected), is_held: false, finding: "" }
}

impl Situation {
    pub(crate) const fn sends(mut self, socket: fn(SocketAddr) -> Result<UdpSocket>) -> Situation {
        self.by = By::Socket(socket);
        self
    }

    pub(crate) const fn lender_options(
        mut self,
        lender_options: fn() -> LenderOptions,
    ) -> Situation {
        self.by = By::Lender(lender_options);
        self
    }

    pub(crate) const fn held(mut self) -> Situation {
        self.is_held = true;
        self
    }

    /// Allows the verdict unknown.
    pub(crate) const fn may_be_unseen(mut self) -> Situation {
        self.truth = match self.truth {
            Copied => CopiedUnseen,
            _ => LentUnseen,
        };
        self
    }

    pub(crate) const fn finds(mut self, finding: &'static str) -> Situation {
        self.finding = finding;
        self
    }
}

pub(crate) fn none() -> Kept {
    Vec::new()
}

/// Creates a second device that drops all packets and leads to the other network.
fn second_sink(network: &Network) {
    network.ip("link add sink2 type ifb");
    leads_on(network, "sink2");
}

/// Creates a veth pair to another network that has all destination addresses.
pub(crate) fn pair(network: &Network) -> Neighbour {
    let neighbour = Neighbour::start();
    network.ip("link add veth0 type veth peer name veth1");
    network.ip("link set veth1 address 02:00:00:00:00:02 mtu 65535");
    neighbour.take("veth1");
    for address in ["10.12.0.2/24", "10.11.0.2/24", "10.20.0.2/24"] {
        neighbour.ip(&format!("address add {address} dev veth1"));
    }
    leads_on(network, "veth0");
    neighbour
}

/// Creates a veth pair within this network.
fn inner_pair(network: &Network) {
    network.ip("link add veth0 type veth peer name veth1");
    network.ip("link set veth1 mtu 65535 up");
    leads_on(network, "veth0");
}

pub(crate) fn keep<T: 'static>(what: T) -> Kept {
    vec![Box::new(what)]
}

fn leads_on(network: &Network, device: &str) {
    network.ip(&format!("link set {device} mtu 65535 up"));
    network.ip(&format!("address add 10.12.0.1/24 dev {device}"));
    for (address, last) in [("10.12.0.2", 2), ("10.11.0.2", 2), ("10.20.0.2", 2)] {
        network.ip(&format!(
            "neighbour replace {address} lladdr 02:00:00:00:00:0{last} dev {device} nud permanent"
        ));
    }
}

/// Creates a vxlan over a second sink, and then sets the sink's MTU.
fn tunnel(network: &Network, mtu: u32) -> Kept {
    second_sink(network);
    network.ip("link add vx0 type vxlan id 5 remote 10.12.0.2 dstport 4789 dev sink2");
    network.ip("link set vx0 mtu 60000 up");
    network.ip("address add 10.13.0.1/24 dev vx0");
    network.ip("neighbour replace 10.13.0.2 lladdr 02:00:00:00:00:03 dev vx0 nud permanent");
    network.ip(&format!("link set sink2 mtu {mtu}"));
    none()
}

fn chain(network: &Network, family: &str, hook: &str) {
    network.nft(&format!("add table {family} t"));
    network.nft(&format!("add chain {family} t c {{ {hook} ; }}"));
}

fn nat(network: &Network, rule: &str) -> Kept {
    chain(network, "ip", "type nat hook output priority -100");
    network.nft(&format!("add rule ip t c {rule}"));
    none()
}

fn egress(network: &Network, rule: &str) -> Kept {
    chain(network, "netdev", "type filter hook egress device sink priority 0");
    network.nft(&format!("add rule netdev t c {rule}"));
    none()
}

fn dup(network: &Network, rule: &str) -> Kept {
    chain(network, "ip", "type filter hook output priority 0");
    network.nft(&format!("add rule ip t c {rule}"));
    none()
}

fn mirred(network: &Network, how: &str, device: &str) -> Kept {
    network.tc("qdisc add dev sink clsact");
    network.tc(&format!(
        "filter add dev sink egress protocol all u32 match u32 0 0 action mirred egress {how} dev \
         {device}"
    ));
    none()
}

fn under_htb(network: &Network, at: &str, device: &str) -> Kept {
    network.tc("qdisc add dev sink root handle 1: htb default 10");
    network.tc("class add dev sink parent 1: classid 1:10 htb rate 10gbit");
    network.tc(&format!(
        "filter add dev sink parent {at} protocol ip u32 match ip dst 10.11.0.2/32 action mirred \
         egress redirect dev {device}"
    ));
    none()
}

/// Creates two devices above the sink in different networks; the second has the address.
fn siblings(network: &Network, hardware: &str) -> Kept {
    let neighbour = Neighbour::start();
    network.ip("link add mv0 link sink type macvlan mode bridge");
    network.ip("link add mv1 link sink type macvlan mode bridge");
    network.ip(&format!("link set mv1 address {hardware}"));
    neighbour.take("mv1");
    neighbour.ip("address add 10.12.0.2/24 dev mv1");
    leads_on(network, "mv0");
    keep(neighbour)
}

pub(crate) fn rule(network: &Network, words: &str) -> Kept {
    let pair = keep(pair(network));
    network.ip(&format!("rule add {words} lookup 100"));
    network.ip("route add 10.11.0.0/24 dev veth0 table 100");
    pair
}

fn hops(network: &Network, device: &str) -> Kept {
    network.set("net/ipv4/fib_multipath_hash_policy", 1);
    network.ip(&format!(
        "route add 10.20.0.0/16 nexthop via 10.11.0.2 dev sink nexthop via 10.12.0.2 dev {device}"
    ));
    none()
}

fn group(network: &Network, device: &str) -> Kept {
    network.set("net/ipv4/fib_multipath_hash_policy", 1);
    network.ip("nexthop add id 1 via 10.11.0.2 dev sink");
    network.ip(&format!("nexthop add id 2 via 10.12.0.2 dev {device}"));
    network.ip("nexthop add id 10 group 1/2");
    network.ip("route add 10.20.0.0/16 nhid 10");
    none()
}

fn member_v4(network: &Network) -> Kept {
    network.ip("route add 239.1.0.0/16 dev sink");
    let member = UdpSocket::bind("0.0.0.0:9009").unwrap();
    member.join_multicast_v4(&Ipv4Addr::new(239, 1, 1, 1), &Ipv4Addr::new(10, 11, 0, 1)).unwrap();
    vec![Box::new(member)]
}

fn member_v6(network: &Network) -> Kept {
    network.ip("route add ff05::/16 dev sink table local");
    let member = UdpSocket::bind("[::]:9009").unwrap();
    let group = "ff05::1:2".parse().unwrap();
    member.join_multicast_v6(&group, network.index_of("sink")).unwrap();
    vec![Box::new(member)]
}

pub(crate) fn rows() -> Vec<Situation> {
    [directions(), firewalls(), copies(), filters(), classes(), routes()]
        .into_iter()
        .flatten()
        .collect()
}

fn directions() -> Vec<Situation> {
    vec![
        row("a group with a member", "239.1.1.1:9", Copied, member_v4),
        row("a group with a member, unconnected", "239.1.1.1:9", Copied, member_v4)
            .sends(unconnected),
        row("a group without a member", "239.1.1.2:9", Lent, member_v4),
        row("a group of IPv6 with a member", "[ff05::1:2]:9", Copied, member_v6),
        row("a group of IPv6 without a member", "[ff05::1:3]:9", Lent, member_v6),
        row("a broadcast in a network", "10.11.0.255:9", Copied, |_| none()),
        row("a broadcast to everybody", "255.255.255.255:9", Copied, |network| {
            network.ip("route add default dev sink");
            none()
        }),
        row("a mapped address", "[::ffff:10.11.0.2]:9", Lent, |_| none()),
        row("a macvlan beside", OTHER, Copied, |n| siblings(n, "02:00:00:00:00:02"))
            .finds("macvlan-beside"),
        row("a macvlan and another machine", OTHER, Lent, |n| siblings(n, "02:00:00:00:00:33")),
        row("a private macvlan beside", OTHER, Lent, |network| {
            let beside = siblings(network, "02:00:00:00:00:02");
            network.ip("link set mv0 type macvlan mode private");
            beside
        }),
        row("the other end of a pair", OTHER, Copied, |network| keep(pair(network))),
        row("the other end of a pair in this network", OTHER, LentUnseen, |network| {
            inner_pair(network);
            none()
        }),
        row("a tunnel over a smaller MTU", "10.13.0.2:9", CopiedUnseen, |network| {
            tunnel(network, 20_000)
        }),
        row("a tunnel over an MTU that fits", "10.13.0.2:9", Lent, |network| {
            tunnel(network, 65_535)
        }),
        row("a bridge behind a pair", OTHER, Lent, |network| {
            inner_pair(network);
            network.ip("link add br0 type bridge");
            network.ip("link set br0 mtu 65535 up");
            network.ip("link add sink2 type ifb");
            network.ip("link set sink2 mtu 65535 up");
            network.ip("link set sink2 master br0");
            network.ip("link set veth1 master br0");
            none()
        }),
    ]
}

fn firewalls() -> Vec<Situation> {
    vec![
        row("a redirection", FAR, Copied, |n| nat(n, "udp dport 9 redirect to :10")),
        row("a redirection of another port", FAR, Lent, |n| nat(n, "udp dport 8 redirect to :10")),
        row("a redirection of TCP", FAR, Lent, |n| nat(n, "tcp dport 9 redirect to :10")),
        row("a redirection of a set", FAR, Copied, |n| nat(n, "udp dport { 9, 100-200 } redirect")),
        row("a redirection of another set", FAR, Lent, |n| {
            nat(n, "udp dport { 7, 100-200 } redirect")
        }),
        row("a destination on this machine", FAR, Copied, |n| {
            nat(n, "ip daddr 10.11.0.0/24 dnat to 10.11.0.1")
        }),
        row("a destination elsewhere", FAR, Lent, |network| {
            network
                .ip("neighbour replace 10.11.0.3 lladdr 02:00:00:00:00:03 dev sink nud permanent");
            nat(network, "ip daddr 10.11.0.2 dnat to 10.11.0.3")
        }),
        row("a destination over a pair", FAR, Copied, |network| {
            let pair = keep(pair(network));
            nat(network, "dnat to 10.12.0.2");
            pair
        }),
        row("a redirection in a chain", FAR, Copied, |network| {
            nat(network, "counter");
            network.nft("add chain ip t d");
            network.nft("add rule ip t d meta l4proto udp redirect");
            network.nft("add rule ip t c oifname \"sink\" jump d");
            none()
        }),
        row("a redirection behind a return", FAR, Lent, |network| {
            nat(network, "ip daddr 10.11.0.2 accept");
            network.nft("add rule ip t c redirect");
            none()
        }),
        row("a redirection by source port", FAR, CopiedUnseen, |network| {
            // A rule that selects by port but leads to the same place.
            network.ip("rule add ipproto udp sport 7777 lookup main");
            nat(network, "udp sport 5555 redirect")
        })
        .sends(from_a_port),
        row("a redirection by chance", FAR, Copied, |n| {
            nat(n, "ct state new limit rate 1000/second redirect")
        })
        .may_be_unseen(),
        row("a policy of IPsec for others", FAR, LentUnseen, |network| {
            network.ip("xfrm policy add dst 10.99.0.0/16 dir out tmpl proto esp");
            none()
        })
        .finds("not-seen"),
        row("a masquerade", FAR, Lent, |network| {
            chain(network, "ip", "type nat hook postrouting priority 100");
            network.nft("add rule ip t c oifname \"sink\" masquerade");
            none()
        }),
        row("a firewall that only counts", FAR, Lent, |network| {
            chain(network, "inet", "type filter hook output priority 0");
            network.nft("add rule inet t c ct state established,related accept");
            network.nft("add rule inet t c udp dport 9 counter log accept");
            none()
        }),
        row("a mark that changes the route", FAR, Copied, |network| {
            let pair = rule(network, "fwmark 7");
            chain(network, "ip", "type route hook output priority 0");
            network.nft("add rule ip t c udp dport 9 meta mark set 7");
            pair
        }),
    ]
}

/// Rules that send copies, or redirect packets to another device.
fn copies() -> Vec<Situation> {
    vec![
        row("dup to a gateway", FAR, Copied, |network| {
            let pair = keep(pair(network));
            dup(network, "dup to 10.12.0.2 device \"veth0\"");
            pair
        }),
        row("dup to a sink", FAR, Lent, |network| {
            second_sink(network);
            dup(network, "dup to 10.12.0.2 device \"sink2\"")
        }),
        row("dup to a sink of a smaller MTU", FAR, CopiedUnseen, |network| {
            second_sink(network);
            network.ip("link set sink2 mtu 20000");
            dup(network, "dup to 10.12.0.2 device \"sink2\"")
        })
        .finds("not-seen"),
        row("dup to a sink of an MTU that fits", FAR, Lent, |network| {
            second_sink(network);
            network.ip("link set sink2 mtu 45000");
            dup(network, "dup to 10.12.0.2 device \"sink2\"")
        }),
        row("egress dup to a pair", FAR, Copied, |network| {
            let pair = keep(pair(network));
            egress(network, "dup to \"veth0\"");
            pair
        }),
        row("egress dup to a tapped device", FAR, Copied, |network| {
            second_sink(network);
            egress(network, "dup to \"sink2\"");
            vec![Box::new(network.tap_of(ALL_PROTOCOLS, Some("sink2"), false))]
        }),
        row("egress dup to a sink", FAR, Lent, |network| {
            second_sink(network);
            egress(network, "dup to \"sink2\"")
        }),
        row("egress fwd to a pair", FAR, Copied, |network| {
            let pair = keep(pair(network));
            egress(network, "fwd to \"veth0\"");
            pair
        }),
        row("egress fwd to a tapped device", FAR, Copied, |network| {
            second_sink(network);
            egress(network, "fwd to \"sink2\"");
            vec![Box::new(network.tap_of(ALL_PROTOCOLS, Some("sink2"), false))]
        }),
        row("egress fwd past a tap", FAR, LentUnseen, |network| {
            inner_pair(network);
            egress(network, "fwd to \"veth0\"");
            vec![Box::new(network.tap_of(ALL_PROTOCOLS, Some("sink"), false))]
        }),
        row("egress fwd to a device that gives back", FAR, Copied, |network| {
            second_sink(network);
            egress(network, "fwd to \"sink2\"");
            vec![Box::new(network.tap_of(ALL_PROTOCOLS, Some("sink"), false))]
        }),
        row("egress dup of another port", FAR, Lent, |network| {
            let pair = keep(pair(network));
            egress(network, "udp dport 8 dup to \"veth0\"");
            pair
        }),
    ]
}

fn filters() -> Vec<Situation> {
    vec![
        row("mirror to a pair", FAR, Copied, |network| {
            let pair = keep(pair(network));
            mirred(network, "mirror", "veth0");
            pair
        }),
        row("redirect to a pair", FAR, Copied, |network| {
            let pair = keep(pair(network));
            mirred(network, "redirect", "veth0");
            pair
        }),
        row("mirror to a tapped device", FAR, Copied, |network| {
            second_sink(network);
            mirred(network, "mirror", "sink2");
            vec![Box::new(network.tap_of(ALL_PROTOCOLS, Some("sink2"), false))]
        }),
        row("a filter of clsact, and one below", FAR, Copied, |network| {
            let pair = pair(network);
            network.tc("qdisc add dev sink clsact");
            network.tc("filter add dev sink egress protocol all u32 match u32 0 0 classid 1:1");
            let _ = under_htb(network, "1:", "veth0");
            keep(pair)
        }),
        row("a program that sees what is sent", FAR, LentUnseen, |network| {
            vec![Box::new(network.egress_program("sink"))]
        })
        .finds("not-seen"),
        row("a filter for other addresses", FAR, Lent, |network| {
            inner_pair(network);
            network.tc("qdisc add dev sink clsact");
            network.tc(
                "filter add dev sink egress protocol ip u32 match ip dst 10.99.0.0/16 action mirred \
                 egress redirect dev veth0",
            );
            none()
        }),
    ]
}

/// Queue disciplines with classes.
fn classes() -> Vec<Situation> {
    vec![
        row("redirect below htb", FAR, Copied, |network| {
            let pair = keep(pair(network));
            under_htb(network, "1:", "veth0");
            pair
        }),
        row("redirect below a class of htb that nothing reaches", FAR, Lent, |network| {
            let pair = keep(pair(network));
            under_htb(network, "1:10", "veth0");
            pair
        })
        .may_be_unseen(),
        row("htb without filters", FAR, Lent, |network| {
            network.tc("qdisc add dev sink root handle 1: htb default 10");
            network.tc("class add dev sink parent 1: classid 1:10 htb rate 10gbit");
            none()
        }),
        row("a filter that classifies", FAR, Lent, |network| {
            network.tc("qdisc add dev sink root handle 1: htb default 10");
            network.tc("class add dev sink parent 1: classid 1:10 htb rate 10gbit");
            network.tc("filter add dev sink parent 1: protocol ip u32 match u32 0 0 classid 1:10");
            none()
        }),
        row("a redirect that is never asked", FAR, Copied, |network| {
            inner_pair(network);
            network.tc("qdisc add dev sink root handle 1: htb default 10");
            network.tc("class add dev sink parent 1: classid 1:10 htb rate 10gbit");
            let filter = "filter add dev sink parent 1: protocol ip";
            network.tc(&format!("{filter} prio 1 u32 match u32 0 0 classid 1:10"));
            let redirect = "action mirred egress redirect dev veth0";
            network.tc(&format!("{filter} prio 2 u32 match u32 0 0 {redirect}"));
            vec![Box::new(network.tap_of(ALL_PROTOCOLS, Some("sink"), false))]
        }),
    ]
}

fn routes() -> Vec<Situation> {
    vec![
        row("a rule by protocol", FAR, Copied, |n| rule(n, "ipproto udp")),
        row("a rule by protocol, unconnected", FAR, Copied, |n| rule(n, "ipproto udp"))
            .sends(unconnected),
        row("a rule by another protocol", FAR, Lent, |n| rule(n, "ipproto tcp")),
        row("a rule by destination port", FAR, Copied, |n| rule(n, "ipproto udp dport 9")),
        row("a rule by another destination port", FAR, Lent, |n| rule(n, "ipproto udp dport 10")),
        row("a rule by source port", FAR, CopiedUnseen, |n| rule(n, "ipproto udp sport 5555"))
            .sends(from_a_port)
            .finds("ways-differ"),
        // A socket that is not connected has no source address when its route is looked up.
        row("a rule by source address", FAR, CopiedUnseen, |n| rule(n, "from 10.11.0.1"))
            .finds("ways-differ"),
        row("two hops, one of them a pair", BEYOND, CopiedUnseen, |network| {
            let pair = keep(pair(network));
            hops(network, "veth0");
            pair
        })
        .sends(over_the_pair)
        .finds("ways-differ"),
        row("two hops that both drop", BEYOND, Lent, |network| {
            second_sink(network);
            hops(network, "sink2")
        }),
        row("a group of hops, one of them a pair", BEYOND, CopiedUnseen, |network| {
            let pair = keep(pair(network));
            group(network, "veth0");
            pair
        })
        .sends(over_the_pair)
        .finds("ways-differ"),
        row("a group of hops that both drop", BEYOND, Lent, |network| {
            second_sink(network);
            group(network, "sink2")
        }),
    ]
}

pub(crate) fn from_a_port(to: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:5555")?;
    socket.connect(to)?;
    Ok(socket)
}

/// Creates a socket whose route goes over the pair, whatever the hash of its flow.
fn over_the_pair(to: SocketAddr) -> Result<UdpSocket> {
    for _ in 0..1000 {
        let socket = connected(to)?;
        let seen = testbed::zerocopy_sends(&socket, None, 1, 8000)?;
        if seen.copied == 1 {
            return Ok(socket);
        }
    }
    panic!("no port leads over the pair")
}
