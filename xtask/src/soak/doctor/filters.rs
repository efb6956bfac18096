//! Rules of nftables and filters of tc, and what changes nothing.

use super::case::{Cause, NetworkStep};
use super::devices::{ALL_PROTOCOLS, Exit, device, hop, target};
use super::draw::{Draft, ExitFate, OTHER_PORT, PORT, SILENT_PORT, TABLE, UNUSED_PORT, WIDE};

/// Matches of nftables rules.
#[derive(Clone, Copy)]
enum Match {
    Everything,
    Protocol,
    Port,
    Address,
}

impl Draft<'_> {
    fn protocol(&self) -> &'static str {
        if self.is_stream() { "tcp" } else { "udp" }
    }

    fn port(&self) -> u16 {
        if self.is_stream() && !self.is_answered { SILENT_PORT } else { PORT }
    }

    const fn family(&self) -> &'static str {
        if self.is_v6 { "ip6" } else { "ip" }
    }

    /// Something that these packets are.
    fn matching(&mut self) -> String {
        let kinds = [Match::Everything, Match::Protocol, Match::Port, Match::Address];
        match self.dice.pick(&kinds) {
            Match::Everything => String::new(),
            Match::Protocol => format!("meta l4proto {} ", self.protocol()),
            Match::Port => format!("{} dport {} ", self.protocol(), self.port()),
            Match::Address => format!("{} daddr {} ", self.family(), target(self.is_v6)),
        }
    }

    fn nft(&mut self, words: String) {
        self.step(NetworkStep::Nft(words));
    }

    fn output_chain(&mut self, kind: &str) {
        let family = self.family();
        self.nft(format!("add table {family} t"));
        self.nft(format!("add chain {family} t o {{ type {kind} hook output priority 0; }}"));
    }

    /// Packets that go to a port are led to a receiver here.
    pub(super) fn redirect(&mut self) {
        self.output_chain("nat");
        let (family, protocol, port) = (self.family(), self.protocol(), self.port());
        self.nft(format!(
            "add rule {family} t o {protocol} dport {port} redirect to :{OTHER_PORT}"
        ));
    }

    pub(super) fn nat(&mut self, to: &str, to_port: u16) {
        self.output_chain("nat");
        let (family, protocol, port) = (self.family(), self.protocol(), self.port());
        let to = if self.is_v6 { format!("[{to}]") } else { to.to_owned() };
        self.nft(format!("add rule {family} t o {protocol} dport {port} dnat to {to}:{to_port}"));
    }

    /// Packets that leave through a device are handed to another one.
    pub(super) fn egress_chain(&mut self) {
        let exit = self.random_exit(ExitFate::Lends);
        self.route(exit, "");
        let (e, x) = (self.either_device(exit), self.aside());
        self.nft("add table netdev t".to_owned());
        self.nft(format!(
            "add chain netdev t o {{ type filter hook egress device {e} priority 0; }}"
        ));
        let verb = if self.case.lead == Cause::EgressDup { "dup" } else { "fwd" };
        // Below a tunnel they have other addresses.
        let matching = if e == device(exit) { self.matching() } else { String::new() };
        self.nft(format!("add rule netdev t o {matching}{verb} to {x}"));
    }

    /// A copy of each packet goes to another address.
    pub(super) fn duplicated(&mut self) {
        let exit = self.random_exit(ExitFate::Lends);
        self.route(exit, "");
        let (matching, family) = (self.matching(), self.family());
        let way = self.dice.pick(&[ExitFate::Copies, ExitFate::Copies, ExitFate::Lends]);
        let other = self.random_exit(way);
        let to = hop(other, self.is_v6);
        let by =
            if self.chance(0.5) { format!(" device {}", device(other)) } else { String::new() };
        self.output_chain("filter");
        self.nft(format!("add rule {family} t o {matching}dup to {to}{by}"));
    }

    /// Packets get a mark on their way, by which they are routed again.
    pub(super) fn marked_by_nft(&mut self) {
        let main = self.random_exit(ExitFate::Lends);
        self.route(main, "");
        let other = self.random_exit(ExitFate::Copies);
        self.route(other, &format!("table {TABLE}"));
        let option = if self.is_v6 { "-6" } else { "-4" };
        self.step(NetworkStep::Ip(format!("{option} rule add fwmark 8 table {TABLE}")));
        let (matching, family) = (self.matching(), self.family());
        self.output_chain("route");
        self.nft(format!("add rule {family} t o {matching}meta mark set 8"));
    }

    /// A filter hands packets to another device.
    pub(super) fn mirred(&mut self) {
        let exit = self.random_exit(ExitFate::Lends);
        self.route(exit, "");
        let e = device(exit);
        let (x, verb) = match self.case.lead {
            Cause::MirrorVeth => {
                self.asides += 1;
                self.aside_veth("x0");
                self.case.links.push(NetworkStep::Ip("link set x0 up".to_owned()));
                ("x0".to_owned(), "egress mirror")
            }
            _ => {
                let verbs = ["egress mirror", "egress redirect", "ingress mirror"];
                let verb = self.dice.pick(&verbs);
                (self.aside(), verb)
            }
        };
        let place = if self.case.lead == Cause::MirredClassful {
            if self.offered.prio && self.chance(0.5) {
                self.step(NetworkStep::Tc(format!("qdisc add dev {e} root handle 1: prio")));
            } else {
                self.htb(&e);
            }
            "parent 1:"
        } else {
            self.step(NetworkStep::Tc(format!("qdisc add dev {e} clsact")));
            "egress"
        };
        self.step(NetworkStep::Tc(format!(
            "filter add dev {e} {place} protocol all u32 match u32 0 0 action mirred {verb} dev {x}"
        )));
    }

    fn htb(&mut self, device: &str) {
        self.step(NetworkStep::Tc(format!("qdisc add dev {device} root handle 1: htb default 1")));
        self.step(NetworkStep::Tc(format!(
            "class add dev {device} parent 1: classid 1:1 htb rate 30gbit burst 30m cburst 30m"
        )));
    }

    /// Rules that do not copy, and look as if they could.
    pub(super) fn without_effect(&mut self, cause: Cause, exit: usize) {
        let e = device(exit);
        self.case.causes.insert(cause);
        match cause {
            Cause::ShapingQueue => match self.chance(0.5) {
                true => self.htb(&e),
                false => self.step(NetworkStep::Tc(format!(
                    "qdisc add dev {e} root tbf rate 30gbit burst 30m limit 30m"
                ))),
            },
            Cause::FilterWithoutEffect => {
                self.step(NetworkStep::Tc(format!("qdisc add dev {e} clsact")));
                self.step(NetworkStep::Tc(format!(
                    "filter add dev {e} egress protocol all u32 match u32 0 0 classid 1:1"
                )));
            }
            Cause::RuleWithoutEffect => self.rule_without_effect(&e),
            Cause::TapElsewhere => self.tap(Some("lo".to_owned()), ALL_PROTOCOLS, false),
            Cause::TapIgnores => self.tap(None, ALL_PROTOCOLS, true),
            Cause::TapOfProtocol => self.tap(None, 0x88cc, false),
            Cause::NoSegmentation => self.step(NetworkStep::Ethtool(format!("-K {e} tso off"))),
            Cause::TapOnAny => self.tap(None, ALL_PROTOCOLS, false),
            other => unreachable!("{} has an effect", other.name()),
        }
    }

    fn rule_without_effect(&mut self, device: &str) {
        let (family, protocol) = (self.family(), self.protocol());
        let option = if self.is_v6 { "-6" } else { "-4" };
        match self.dice.pick(&[0, 1, 2, 3]) {
            0 => {
                let selector = format!("ipproto {protocol} dport {UNUSED_PORT}");
                self.step(NetworkStep::Ip(format!("{option} rule add {selector} table 51")));
            }
            1 => {
                self.nft(format!("add table {family} q"));
                self.nft(format!("add chain {family} q o {{ type nat hook output priority 10; }}"));
                self.nft(format!(
                    "add rule {family} q o {protocol} dport {UNUSED_PORT} redirect to :{OTHER_PORT}"
                ));
            }
            2 => {
                self.nft("add table netdev q".to_owned());
                self.nft(format!(
                    "add chain netdev q o {{ type filter hook egress device {device} priority 10; }}"
                ));
                self.nft(format!("add rule netdev q o {protocol} dport {UNUSED_PORT} drop"));
            }
            _ => {
                self.nft(format!("add table {family} q"));
                self.nft(format!(
                    "add chain {family} q o {{ type filter hook output priority 10; }}"
                ));
                self.nft(format!("add rule {family} q o counter accept"));
            }
        }
    }

    /// Adds now and then what changes nothing, and seldom a tap that does.
    pub(super) fn noise(&mut self) {
        // A rule of a queue that is not there yet, on the way of the lead if it has one.
        let is_free = !matches!(
            self.case.lead,
            Cause::MirredClassful
                | Cause::MirredClsact
                | Cause::MirrorVeth
                | Cause::ShapingQueue
                | Cause::FilterWithoutEffect
        );
        let mut noise = vec![
            (Cause::TapElsewhere, 0.06),
            (Cause::TapIgnores, 0.06),
            (Cause::TapOfProtocol, 0.06),
            (Cause::NoSegmentation, 0.06),
            (Cause::TapOnAny, 0.03),
        ];
        if is_free {
            noise.push((Cause::ShapingQueue, 0.04));
            noise.push((Cause::FilterWithoutEffect, 0.04));
        }
        if self.case.lead != Cause::RuleWithoutEffect {
            noise.push((Cause::RuleWithoutEffect, 0.03));
        }
        for (cause, chance) in noise {
            if self.chance(chance) {
                self.without_effect(cause, 0);
            }
        }
        if self.chance(0.1) {
            self.exit(Exit::Sink, WIDE);
        }
    }
}
