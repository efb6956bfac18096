//! Devices that packets leave through, and what is behind them.

use super::case::{NetworkStep, Tapping};
use super::draw::{Draft, WIDE};

/// `ETH_P_ALL` (`linux/if_ether.h`).
pub(super) const ALL_PROTOCOLS: u16 = testbed::network::ALL_PROTOCOLS;

/// Where a device leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// An ifb: to nobody.
    Sink,
    /// A macvlan above one.
    Macvlan,
    /// A macvlan whose sibling in the far network is the next hop.
    Sibling,
    /// A bridge with an ifb.
    Bridge,
    /// A bridge with a veth pair to the far network.
    BridgedVeth,
    /// A vxlan above an ifb.
    Vxlan,
    /// A VLAN above one.
    Vlan,
    /// A veth pair; the far network has the destination.
    Veth,
    /// A veth pair; the far network bridges to an ifb.
    VethBridged,
    /// A veth pair; the far network routes to an ifb.
    VethRouted,
    Tun,
}

impl Exit {
    /// It lies on an ifb of the near network.
    pub(super) const fn has_lower(self) -> bool {
        matches!(self, Exit::Macvlan | Exit::Sibling | Exit::Bridge | Exit::Vxlan | Exit::Vlan)
    }
}

/// Names and addresses of the exit of this number.
pub(super) fn device(exit: usize) -> String {
    format!("e{exit}")
}

pub(super) fn lower(exit: usize) -> String {
    format!("l{exit}")
}

/// Its end in the far network.
pub(super) fn far_end(exit: usize) -> String {
    format!("f{exit}")
}

/// The near network's own address there.
pub(super) fn own_address(exit: usize, is_v6: bool) -> String {
    if is_v6 { format!("fd2{exit}::1") } else { format!("10.2{exit}.0.1") }
}

/// The next hop's.
pub(super) fn hop(exit: usize, is_v6: bool) -> String {
    if is_v6 { format!("fd2{exit}::2") } else { format!("10.2{exit}.0.2") }
}

fn hop_hardware(exit: usize) -> String {
    format!("02:00:00:00:0{exit}:02")
}

/// The address that everything is sent to, where nothing else is said.
pub(super) const fn target(is_v6: bool) -> &'static str {
    if is_v6 { "2001:db8:7::7" } else { "198.51.100.7" }
}

impl Draft<'_> {
    /// Makes another exit with this MTU; gives its number.
    pub(super) fn exit(&mut self, kind: Exit, mtu: u32) -> usize {
        let exit = self.exits;
        self.exits += 1;
        self.mtu = self.mtu.min(mtu - if kind == Exit::Vxlan { 100 } else { 0 });
        let (e, l, f) = (device(exit), lower(exit), far_end(exit));
        if kind.has_lower() {
            self.link(format!("link add {l} type ifb"));
            self.link(format!("link set {l} mtu {mtu} up"));
        }
        match kind {
            Exit::Sink => self.link(format!("link add {e} type ifb")),
            Exit::Macvlan | Exit::Sibling => {
                // Only in this mode siblings reach each other.
                let modes = if kind == Exit::Sibling { &["bridge"][..] } else { &MODES };
                let mode = self.dice.pick(modes);
                self.link(format!("link add link {l} name {e} type macvlan mode {mode}"));
            }
            Exit::Bridge | Exit::BridgedVeth => self.link(format!("link add {e} type bridge")),
            Exit::Vxlan => {
                self.link(format!("address add 10.3{exit}.0.1/24 dev {l}"));
                self.link(format!(
                    "neighbour add 10.3{exit}.0.2 lladdr 02:00:00:00:09:02 dev {l} nud permanent"
                ));
                self.link(format!(
                    "link add {e} type vxlan id 5{exit} remote 10.3{exit}.0.2 dstport 4789 dev {l}"
                ));
            }
            Exit::Vlan => self.link(format!("link add link {l} name {e} type vlan id 5")),
            Exit::Veth | Exit::VethBridged | Exit::VethRouted => {
                self.pair(&e, &f, &hop_hardware(exit), mtu);
            }
            Exit::Tun => self.case.links.push(NetworkStep::Tun(e.clone())),
        }
        if kind == Exit::Bridge {
            self.link(format!("link set {l} master {e}"));
        }
        let mtu = if kind == Exit::Vxlan { mtu - 100 } else { mtu };
        match kind {
            Exit::Sibling => {
                let m = format!("m{exit}");
                self.link(format!("link add link {l} name {m} type macvlan mode bridge"));
                self.link(format!("link set {m} address {}", hop_hardware(exit)));
                self.link(format!("link set {m} mtu {mtu} netns {{far}}"));
                self.receives(exit, &m);
            }
            Exit::BridgedVeth => {
                let p = format!("p{exit}");
                self.pair(&p, &f, &hop_hardware(exit), mtu);
                self.link(format!("link set {p} master {e} up"));
                self.receives(exit, &f);
            }
            Exit::Veth => self.receives(exit, &f),
            Exit::VethRouted => self.routes_on(exit, &f),
            Exit::VethBridged => self.bridges_on(exit, &f),
            _ => {}
        }
        self.link(format!("link set {e} mtu {mtu}"));
        self.address(exit, kind);
        exit
    }

    fn link(&mut self, words: String) {
        self.case.links.push(NetworkStep::Ip(words));
    }

    /// A veth pair whose other end is far.
    fn pair(&mut self, near: &str, far: &str, hardware: &str, mtu: u32) {
        self.link(format!("link add {near} mtu {mtu} type veth peer name {far} mtu {mtu}"));
        self.link(format!("link set {far} address {hardware}"));
        self.link(format!("link set {far} netns {{far}}"));
    }

    /// The near network's end of an exit, and who is next there.
    fn address(&mut self, exit: usize, kind: Exit) {
        let e = device(exit);
        let (four, six) = (own_address(exit, false), own_address(exit, true));
        self.link(format!("address add {four}/24 broadcast + dev {e}"));
        self.link(format!("address add {six}/64 dev {e} nodad"));
        self.link(format!("link set {e} up"));
        // Through a bridge packets go on that are for somebody else.
        let hardware = match kind {
            Exit::VethBridged => "02:00:00:00:08:02".to_owned(),
            _ => hop_hardware(exit),
        };
        for is_v6 in [false, true] {
            let hop = hop(exit, is_v6);
            self.link(format!("neighbour replace {hop} lladdr {hardware} dev {e} nud permanent"));
        }
    }

    /// The far network has the destination.
    fn receives(&mut self, exit: usize, end: &str) {
        self.far_address(exit, end);
        self.has_target();
    }

    fn has_target(&mut self) {
        self.far(format!("address replace {}/32 dev lo", target(false)));
        self.far(format!("address replace {}/128 dev lo nodad", target(true)));
    }

    fn far_address(&mut self, exit: usize, end: &str) {
        self.far(format!("address add {}/24 dev {end}", hop(exit, false)));
        self.far(format!("address add {}/64 dev {end} nodad", hop(exit, true)));
        self.far(format!("link set {end} up"));
    }

    fn routes_on(&mut self, exit: usize, end: &str) {
        self.far_address(exit, end);
        self.case.far.push(NetworkStep::Set("net/ipv4/ip_forward", 1));
        self.case.far.push(NetworkStep::Set("net/ipv6/conf/all/forwarding", 1));
        self.far(format!("link add s{exit} type ifb"));
        self.far(format!("link set s{exit} mtu {WIDE} up"));
        for is_v6 in [false, true] {
            let to = target(is_v6);
            self.far(format!("route replace {to} dev s{exit}"));
            self.far(format!(
                "neighbour replace {to} lladdr 02:00:00:00:07:02 dev s{exit} nud permanent"
            ));
        }
    }

    fn bridges_on(&mut self, exit: usize, end: &str) {
        self.far(format!("link add s{exit} type ifb"));
        self.far(format!("link add b{exit} type bridge"));
        for port in [format!("s{exit}"), end.to_owned()] {
            self.far(format!("link set {port} mtu {WIDE} master b{exit} up"));
        }
        self.far(format!("link set b{exit} up"));
    }

    /// A device beside the exits that a filter or rule can hand packets to.
    pub(super) fn aside(&mut self) -> String {
        let x = format!("x{}", self.asides);
        self.asides += 1;
        match self.dice.pick(&[0, 1, 1, 2, 2]) {
            0 => self.link(format!("link add {x} mtu {WIDE} type ifb")),
            1 => {
                self.link(format!("link add {x} mtu {WIDE} type ifb"));
                self.case.near.push(NetworkStep::Tap(Tapping {
                    device: Some(x.clone()),
                    protocol: ALL_PROTOCOLS,
                    ignores_outgoing: false,
                }));
            }
            _ => self.aside_veth(&x),
        }
        self.link(format!("link set {x} up"));
        x
    }

    /// The same, one that is an end of a veth pair. Mostly its other end takes what goes to the next
    /// hop, and the far network has the destination.
    pub(super) fn aside_veth(&mut self, x: &str) {
        let y = x.replace('x', "y");
        if self.chance(0.75) {
            self.pair(x, &y, &hop_hardware(0), WIDE);
            self.has_target();
        } else {
            self.pair(x, &y, "02:00:00:00:06:02", WIDE);
        }
        self.far(format!("link set {y} up"));
    }

    pub(super) fn far(&mut self, words: String) {
        self.case.far.push(NetworkStep::Ip(words));
    }
}

const MODES: [&str; 3] = ["bridge", "private", "vepa"];
