//! The cause that a case is about.

use super::case::{Cause, NetworkStep, Question, Receiver, Tapping};
use super::devices::{ALL_PROTOCOLS, Exit, device, far_end, hop, lower, own_address, target};
use super::draw::{Draft, ExitFate, OTHER_PORT, PORT, SILENT_PORT, TABLE, WIDE};

/// `ETH_P_IP`, `ETH_P_IPV6`, `ETH_P_LLDP` (`linux/if_ether.h`).
const ONE_PROTOCOL: [u16; 3] = [0x0800, 0x86dd, 0x88cc];
/// The sending user where rules go by user, and marks of sends where they go by mark.
const USER: u32 = 1000;
const MARK: i32 = 7;

impl Draft<'_> {
    /// Makes what the case is about.
    pub(super) fn lead(&mut self) {
        match self.case.lead {
            Cause::Loopback | Cause::OwnAddress => self.local(),
            Cause::TapOnAny
            | Cause::TapOnDevice
            | Cause::TapBelow
            | Cause::TapElsewhere
            | Cause::TapIgnores
            | Cause::TapOfProtocol => self.tapped(),
            Cause::NoScatterGather | Cause::NoChecksum | Cause::NoSegmentation => self.offloads(),
            Cause::AboveMtu => self.above_mtu(),
            Cause::Tun => self.only(Exit::Tun),
            Cause::Veth => self.received_over(Exit::Veth),
            Cause::VethPassesOn => self.passed_on(),
            Cause::MacvlanSibling => self.received_over(Exit::Sibling),
            Cause::BridgedVeth => self.received_over(Exit::BridgedVeth),
            Cause::MulticastMember | Cause::MulticastAlone => self.multicast(),
            Cause::Broadcast => self.broadcast(),
            Cause::Redirect | Cause::Dnat => self.translated(),
            Cause::EgressDup | Cause::EgressFwd => self.egress_chain(),
            Cause::IpDup => self.duplicated(),
            Cause::NftMark => self.marked_by_nft(),
            Cause::RuleProtocol
            | Cause::RuleSourcePort
            | Cause::RulePort
            | Cause::RuleMark
            | Cause::RuleUser
            | Cause::RuleFrom => self.ruled(),
            Cause::Multipath => self.multipath(),
            Cause::MirredClsact | Cause::MirredClassful | Cause::MirrorVeth => self.mirred(),
            Cause::PidDevice | Cause::PidMark | Cause::PidSource | Cause::PidUnconnected => {
                self.socket_options();
            }
            Cause::Unprivileged => {
                self.received_over(Exit::Veth);
                self.case.question = Question::AddressUnprivileged;
            }
            Cause::Plain
            | Cause::ShapingQueue
            | Cause::FilterWithoutEffect
            | Cause::RuleWithoutEffect => self.plain(),
        }
    }

    /// One way out, of a kind that lends.
    fn plain(&mut self) {
        let exit = self.random_exit(ExitFate::Lends);
        self.route(exit, "");
        if self.case.lead != Cause::Plain {
            self.without_effect(self.case.lead, exit);
        }
    }

    fn only(&mut self, kind: Exit) {
        let exit = self.exit(kind, WIDE);
        self.route(exit, "");
    }

    /// One way out, to somebody who answers.
    fn received_over(&mut self, kind: Exit) {
        self.is_answered = self.chance(0.5);
        self.only(kind);
    }

    /// The far network passes packets on, in half the cases under the eyes of a tap.
    fn passed_on(&mut self) {
        let kind = self.dice.pick(&[Exit::VethBridged, Exit::VethRouted]);
        let exit = self.exit(kind, WIDE);
        self.route(exit, "");
        if self.chance(0.5) {
            let device = self.dice.pick(&[None, Some(exit)]).map(far_end);
            let tap = Tapping { device, protocol: ALL_PROTOCOLS, ignores_outgoing: false };
            self.case.far.push(NetworkStep::Tap(tap));
        }
    }

    fn local(&mut self) {
        let exit = self.random_exit(ExitFate::Lends);
        match (self.case.lead, self.is_v6) {
            (Cause::Loopback, false) => self.send_to("127.0.0.1"),
            (Cause::Loopback, true) => self.send_to("::1"),
            (_, is_v6) => self.send_to(&own_address(exit, is_v6)),
        }
        self.receive_here(PORT);
    }

    fn tapped(&mut self) {
        let exit = match self.case.lead {
            Cause::TapBelow => self.layered_exit(),
            _ => self.random_exit(ExitFate::Lends),
        };
        self.route(exit, "");
        let (on, protocol) = (Some(device(exit)), ALL_PROTOCOLS);
        match self.case.lead {
            Cause::TapOnAny => self.tap(None, protocol, false),
            Cause::TapOnDevice => self.tap(on, protocol, false),
            Cause::TapBelow => self.tap(Some(lower(exit)), protocol, false),
            Cause::TapElsewhere => {
                let other = self.exit(Exit::Sink, WIDE);
                let on = self.dice.pick(&["lo", &device(other)]).to_owned();
                self.tap(Some(on), protocol, false);
            }
            Cause::TapIgnores => {
                let on = self.dice.pick(&[None, Some(exit)]).map(device);
                self.tap(on, protocol, true);
            }
            _ => {
                let on = self.dice.pick(&[None, Some(exit)]).map(device);
                let protocol = self.dice.pick(&ONE_PROTOCOL);
                self.tap(on, protocol, false);
            }
        }
    }

    fn offloads(&mut self) {
        if self.chance(0.8) && self.case.lead != Cause::NoSegmentation {
            self.use_udp();
        }
        let exit = self.random_exit(ExitFate::Lends);
        self.route(exit, "");
        let on = self.either_device(exit);
        let off = match self.case.lead {
            Cause::NoScatterGather => "sg",
            Cause::NoChecksum => "tx",
            _ => {
                self.dice.pick(&["tso", "gso", "tx-udp-segmentation", "tx-scatter-gather-fraglist"])
            }
        };
        self.step(NetworkStep::Ethtool(format!("-K {on} {off} off")));
    }

    fn above_mtu(&mut self) {
        self.use_udp();
        let mtu = self.dice.pick(&[1500, 9000, 20_000]);
        let of_device = self.dice.pick(&[mtu, WIDE]);
        let exit = self.exit(Exit::Sink, of_device);
        let is_by_route = self.mtu == WIDE;
        self.route(exit, &if is_by_route { format!("mtu {mtu}") } else { String::new() });
        self.bytes = Some(mtu as usize + self.dice.pick(&[0, 1, 5000, 30_000]));
    }

    fn multicast(&mut self) {
        self.use_udp();
        let group = if self.is_v6 { "ff05::4711" } else { "239.20.30.40" };
        let exit = match self.is_v6 {
            // A device below would have a route of its own to every group.
            true => self.exit(Exit::Sink, WIDE),
            false => self.random_exit(ExitFate::Lends),
        };
        if !self.is_v6 {
            self.step(NetworkStep::Ip(format!("route add 239.0.0.0/8 dev {}", device(exit))));
        }
        self.send_to(group);
        let group = self.case.send.to.ip();
        let member = |exit| NetworkStep::Receive(Receiver::Member { group, exit, port: PORT });
        if self.case.lead == Cause::MulticastMember {
            self.step(member(exit));
        } else if !self.is_v6 && self.chance(0.5) {
            let other = self.exit(Exit::Sink, WIDE);
            self.step(member(other));
        }
    }

    fn broadcast(&mut self) {
        self.use_udp();
        self.use_v4();
        let exit = self.random_exit(ExitFate::Lends);
        if self.chance(0.5) {
            self.step(NetworkStep::Ip(format!("route add default dev {}", device(exit))));
            self.send_to("255.255.255.255");
        } else {
            self.send_to(&format!("10.2{exit}.0.255"));
        }
        if self.chance(0.5) {
            self.step(NetworkStep::Receive(Receiver::Datagrams(PORT)));
        }
    }

    /// Two ways out: the one of the main table, and the one that it is about.
    fn two_ways(&mut self) -> (usize, usize) {
        let (usual, other) = match self.chance(0.75) {
            true => (ExitFate::Lends, ExitFate::Copies),
            false => (ExitFate::Copies, ExitFate::Lends),
        };
        let main = self.random_exit(usual);
        let other = self.random_exit(other);
        self.route(main, "");
        (main, other)
    }

    /// A rule that leads to another table, with the route to this exit.
    fn rule(&mut self, selector: &str, exit: usize) {
        self.route(exit, &format!("table {TABLE}"));
        let family = if self.is_v6 { "-6" } else { "-4" };
        self.step(NetworkStep::Ip(format!("{family} rule add {selector} table {TABLE}")));
    }

    fn ruled(&mut self) {
        let (main, other) = self.two_ways();
        let protocol = if self.is_stream() { "tcp" } else { "udp" };
        let to_port = if self.is_stream() { SILENT_PORT } else { PORT };
        let is_first = self.chance(0.5);
        let selector = match self.case.lead {
            Cause::RuleProtocol => format!("ipproto {protocol}"),
            Cause::RulePort if is_first => format!("ipproto {protocol} dport {to_port}"),
            Cause::RulePort => format!("dport {to_port}"),
            Cause::RuleSourcePort => {
                if self.chance(0.7) {
                    self.case.question = Question::Process;
                }
                self.options().source_port = 5000;
                "sport 5000".to_owned()
            }
            // The sends have no mark.
            Cause::RuleMark => format!("fwmark {MARK}"),
            Cause::RuleUser if is_first => {
                self.case.question = Question::Process;
                self.options().user = Some(USER);
                format!("uidrange {USER}-{USER}")
            }
            Cause::RuleUser => "uidrange 0-0".to_owned(),
            _ => {
                let from = self.dice.pick(&[main, other]);
                format!("from {}", own_address(from, self.is_v6))
            }
        };
        self.rule(&selector, other);
    }

    fn socket_options(&mut self) {
        self.case.question = Question::Process;
        match self.case.lead {
            Cause::PidUnconnected => {
                self.use_udp();
                self.options().is_unconnected = true;
                let way = self.dice.pick(&[ExitFate::Lends, ExitFate::Copies]);
                let exit = self.random_exit(way);
                self.route(exit, "");
            }
            Cause::PidDevice => {
                let (_, other) = self.two_ways();
                self.route(other, "metric 2000");
                self.options().device = Some(device(other));
            }
            Cause::PidMark => {
                let (_, other) = self.two_ways();
                self.rule(&format!("fwmark {MARK}"), other);
                self.options().mark = Some(MARK);
            }
            _ => {
                let (_, other) = self.two_ways();
                let source = own_address(other, self.is_v6);
                self.rule(&format!("from {source}"), other);
                self.options().source = source.parse().ok();
            }
        }
    }

    fn multipath(&mut self) {
        let (first, second) = match self.chance(0.5) {
            true => (ExitFate::Lends, ExitFate::Copies),
            false => self
                .dice
                .pick(&[(ExitFate::Lends, ExitFate::Lends), (ExitFate::Copies, ExitFate::Copies)]),
        };
        let exits = [self.random_exit(first), self.random_exit(second)];
        let is_v6 = self.is_v6;
        let hops = exits.map(|e| format!("nexthop via {} dev {}", hop(e, is_v6), device(e)));
        let to = target(is_v6);
        self.step(NetworkStep::Ip(format!("route add {to} initcwnd 1000 {} {}", hops[0], hops[1])));
        let policy = self.dice.pick(&[0, 1, 1]);
        let name = match is_v6 {
            true => "net/ipv6/fib_multipath_hash_policy",
            false => "net/ipv4/fib_multipath_hash_policy",
        };
        self.step(NetworkStep::Set(name, policy));
        if self.chance(0.5) {
            self.options().source_port = 5000 + (self.dice.fraction() * 100.0) as u16;
        }
    }

    fn translated(&mut self) {
        let exit = self.random_exit(ExitFate::Lends);
        self.route(exit, "");
        if self.case.lead == Cause::Dnat && self.chance(0.4) {
            // To somebody else, over another exit.
            let way = self.dice.pick(&[ExitFate::Copies, ExitFate::Copies, ExitFate::Lends]);
            let other = self.random_exit(way);
            let to = hop(other, self.is_v6);
            self.nat(&to, SILENT_PORT);
            return;
        }
        let own = own_address(exit, self.is_v6);
        self.receive_here(OTHER_PORT);
        match self.case.lead {
            Cause::Redirect => self.redirect(),
            _ => self.nat(&own, OTHER_PORT),
        }
    }
}
