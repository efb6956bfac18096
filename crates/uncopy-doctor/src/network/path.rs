//! The ways that packets may take, one [`PathFacts`] for each.
//!
//! If the kernel sends a packet to several places, one path contains all of them. If it chooses by facts
//! that are not known here, such as the port that a socket will get, each choice is a separate path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::facts::{Below, NotSeen, PathFacts, Turn, Wanted, udp_header_bytes};
use super::filter::{self, turns};
use super::firewall::{Effect, Outcome, Place, outcome};
use super::gather::{self, DeviceOnPath};
use super::machine::{self, Machine, NFTABLES};
use super::packet::Packet;
use super::routes::{self, ROUTE};
use crate::found::{Detour, Doubt, Echo, Missing};
use uncopy_os::netlink::route::{self, Cast, Flow, Link, Route};
use uncopy_send::Transport;

/// Maximum number of devices on a path. Only the first ports of a large bridge are examined.
const MAX_DEVICES: usize = 32;
/// Maximum number of paths that are examined.
const MAX_WAYS: usize = 64;
const LINK: &str = "rtnetlink RTM_GETLINK";
/// Size of the vxlan header and the inner Ethernet header (RFC 7348).
const TUNNEL_BYTES: usize = 8 + 14;
const FILTERS: &str = "rtnetlink RTM_GETTFILTER";

/// Facts about a sending socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sending {
    pub(crate) transport: Transport,
    pub(crate) to: SocketAddr,
    /// Bound address; `None`: not bound yet.
    pub(crate) from: Option<SocketAddr>,
    /// Device that it is bound to, or the device of a link-local address; 0: none.
    pub(crate) device: u32,
    pub(crate) mark: u32,
    /// Traffic class (`IP_TOS`).
    pub(crate) class: u8,
    /// Owner; `None`: the user of this process.
    pub(crate) user: Option<u32>,
    /// Whether multicast packets also go to receivers on this machine.
    pub(crate) loops: bool,
}

impl Sending {
    pub(crate) fn to(transport: Transport, to: SocketAddr) -> Sending {
        let device = uncopy_os::netlink::route::scope(to);
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        Sending { transport, to, from: None, device, mark: 0, class: 0, user: None, loops: true }
    }

    fn flow(&self, source_port: u16) -> Flow {
        let protocol = match self.transport {
            Transport::Tcp => libc::IPPROTO_TCP,
            Transport::Udp => libc::IPPROTO_UDP,
        };
        let from = self.from.map(|from| from.ip().to_canonical());
        Flow {
            to: self.to.ip(),
            source: from.filter(|from| !from.is_unspecified()),
            device: self.device,
            mark: self.mark,
            protocol: protocol as u8,
            source_port,
            port: self.to.port(),
            class: self.class,
            user: self.user,
        }
    }
}

/// Start of every path.
struct Start<'a> {
    machine: &'a Machine,
    sending: Sending,
    /// Facts that do not depend on the path.
    empty: PathFacts,
}

/// Returns the facts of each path that packets of a socket may take.
pub(super) fn of_sending(machine: &Machine, sending: Sending, wanted: Wanted) -> Vec<PathFacts> {
    let is_v6 = sending.to.is_ipv6();
    let empty = PathFacts {
        transport: Some(sending.transport),
        destination: Some(sending.to),
        kernel: gather::kernel(Some(sending.transport), is_v6),
        ..facts_of_machine(machine, wanted)
    };
    ways(&Start { machine, sending, empty })
}

/// Returns the facts of packets sent over a device. `None`: there is no device of that name.
pub(super) fn over_device(machine: &Machine, name: &str, wanted: Wanted) -> Option<Vec<PathFacts>> {
    let index = machine.links.iter().find(|link| link.name == name)?.index;
    let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let sending = Sending::to(Transport::Udp, nowhere);
    Some(over(&Start { machine, sending, empty: facts_of_machine(machine, wanted) }, index))
}

/// Returns the facts that all paths have in common.
fn facts_of_machine(machine: &Machine, wanted: Wanted) -> PathFacts {
    PathFacts {
        transport: None,
        destination: None,
        route: None,
        loops: None,
        turns: Vec::new(),
        unseen: machine.unseen.clone(),
        devices: Vec::new(),
        taps: machine.taps.clone(),
        kernel: gather::kernel(None, false),
        limits: gather::limits(),
        wanted,
    }
}

/// Returns every path that packets may take.
fn ways(start: &Start<'_>) -> Vec<PathFacts> {
    let mut empty = start.empty.clone();
    let ports = match start.sending.from.map(|from| from.port()).filter(|port| *port != 0) {
        // IPv6 keeps the route found before the port was chosen (`tcp_v6_connect`).
        Some(port)
            if start.sending.transport == Transport::Tcp
                && start.sending.to.is_ipv6()
                && machine::may_choose_port(port) =>
        {
            vec![port, 0]
        }
        Some(port) => vec![port],
        None => machine::source_ports(start.sending.to.is_ipv6()).unwrap_or_else(|unseen| {
            empty.unseen.push(unseen);
            vec![0]
        }),
    };
    let mut seen: Vec<Route> = Vec::new();
    let mut found: Vec<PathFacts> = Vec::new();
    for port in ports {
        let flow = start.sending.flow(port);
        let (routes, missing) = match routes::all(&flow, start.sending.transport) {
            Ok(routes) => routes,
            Err(errno) => {
                let is_new = found.iter().all(|way| way.route != Some(Err(errno)));
                found
                    .extend(is_new.then(|| PathFacts { route: Some(Err(errno)), ..empty.clone() }));
                continue;
            }
        };
        for route in routes {
            if seen.contains(&route) {
                continue;
            }
            // The port stands for a group of ports, so rules that match ports must not rely on it.
            let source_port = start.sending.from.map_or(0, |from| from.port());
            let source = flow.source.or(route.source);
            let flow = Flow { source_port, source, ..flow };
            let mut way = PathFacts { route: Some(Ok(route.clone())), ..empty.clone() };
            way.unseen.extend(missing.clone());
            seen.push(route.clone());
            found.extend(Walk { start, flow }.along(way, &route));
        }
    }
    bounded(found)
}

/// Limits the number of paths, and notes if there are more.
fn bounded(mut ways: Vec<PathFacts>) -> Vec<PathFacts> {
    if ways.len() > MAX_WAYS {
        ways.truncate(MAX_WAYS);
        let why = Doubt::ManyWays { limit: MAX_WAYS };
        ways[0].unseen.push(NotSeen::doubt(Missing::EveryPacketPath, ROUTE, why));
    }
    ways
}

/// State of following one path.
struct Walk<'a> {
    start: &'a Start<'a>,
    flow: Flow,
}

/// Device that a packet is about to leave through.
#[derive(Debug, Clone)]
struct At {
    device: u32,
    packet: Packet,
    to: Option<IpAddr>,
    hardware: Option<Vec<u8>>,
}

impl Walk<'_> {
    fn machine(&self) -> &Machine {
        self.start.machine
    }

    /// Follows packets from the choice of a route on.
    fn along(&self, mut way: PathFacts, route: &Route) -> Vec<PathFacts> {
        let through = |packet: Packet, device| packet.through(device, &self.machine().name(device));
        let mut packet = through(Packet::of(&self.flow, route), route.device);
        let mut copies: Vec<At> = Vec::new();
        let output = outcome(&self.machine().rules, Place::Output, &packet);
        let again = self.note(&mut way, output, &mut copies);
        let mut route = route.clone();
        if let Some(flow) = again {
            match routes::of(&flow) {
                Ok(routes::RouteLookup { flow: asked, route: found, doubts }) => {
                    way.unseen.extend(doubts);
                    let protocol = self.flow.protocol;
                    let anew = Packet::of(&Flow { protocol, ..flow }, &found);
                    packet = through(anew, found.device);
                    let several = route::hops_of(&asked).is_ok_and(|hops| hops.len() > 1);
                    if several {
                        let why = Doubt::SeveralHops;
                        way.unseen.push(NotSeen::doubt(Missing::PacketPath, NFTABLES, why));
                    }
                    route = found;
                }
                Err(errno) => {
                    let what = Missing::RouteOfRedirected;
                    way.unseen.push(NotSeen::refused(what, ROUTE, errno));
                    return vec![way];
                }
            }
            way.route = Some(Ok(route.clone()));
        }
        if route.is_encapsulated {
            way.unseen.push(NotSeen::doubt(Missing::PacketPath, ROUTE, Doubt::Encapsulated));
        }
        self.looped(&mut way, &route, again.map_or(self.flow.to, |flow| flow.to));
        let place = outcome(&self.machine().rules, Place::Postrouting, &packet);
        let _ = self.note(&mut way, place, &mut copies);
        let to = again.map_or(self.flow.to, |flow| flow.to);
        let next = route.gateway.unwrap_or(to);
        copies.push(self.at(route.device, packet, to, next));
        // The device of the route comes first.
        copies.rotate_right(1);
        self.all(vec![way], &copies)
    }

    fn at(&self, device: u32, packet: Packet, to: IpAddr, next: IpAddr) -> At {
        At { device, packet, to: Some(to), hardware: gather::hardware(device, next) }
    }

    /// Records the effects of firewall rules. Returns the flow whose route is looked up again.
    fn note(&self, way: &mut PathFacts, found: Outcome, copies: &mut Vec<At>) -> Option<Flow> {
        let mut again = None;
        doubt(way, &Missing::FirewallEffect, NFTABLES, found.doubts);
        // The kernel looks it up without protocol and ports (`ip_route_me_harder`).
        let anew = Flow { protocol: 0, source_port: 0, port: 0, ..self.flow };
        let turn = |way: &mut PathFacts, what: Detour| {
            way.turns.push(Turn { what, source: NFTABLES });
        };
        for effect in found.effects {
            match effect {
                Effect::To(to) => {
                    turn(way, Detour::Redirected { to });
                    again = Some(Flow { to, ..again.unwrap_or(anew) });
                }
                Effect::Here => {
                    turn(way, Detour::Here);
                    let to: IpAddr = match self.flow.to.is_ipv4() {
                        true => Ipv4Addr::LOCALHOST.into(),
                        false => Ipv6Addr::LOCALHOST.into(),
                    };
                    again = Some(Flow { to, source: None, ..again.unwrap_or(anew) });
                }
                Effect::Marked(mark) => {
                    turn(way, Detour::Marked { mark });
                    again = Some(Flow { mark, ..again.unwrap_or(anew) });
                }
                Effect::CopyTo(to, device) => {
                    turn(way, Detour::CopiedTo { to });
                    match route::route_of(&Flow::to(to, device.unwrap_or(0))) {
                        Ok(route) => {
                            self.cut(way, &route);
                            let packet = Packet::of(&self.flow, &route);
                            let next = route.gateway.unwrap_or(to);
                            copies.push(self.at(route.device, packet, self.flow.to, next));
                        }
                        Err(errno) => {
                            way.unseen.push(NotSeen::refused(Missing::RouteOfCopies, ROUTE, errno))
                        }
                    }
                }
                Effect::Dropped => {
                    doubt(way, &Missing::Packets, NFTABLES, vec![Doubt::Dropped]);
                }
                Effect::CopyOver(_) | Effect::Over(_) => {}
            }
        }
        again
    }

    /// Notes copies that may be larger than the MTU of their route: the kernel fragments them, or reports a
    /// smaller MTU to the sender (`ip_finish_output_gso`, `ip_fragment`).
    fn cut(&self, way: &mut PathFacts, route: &Route) {
        if let (Some(mtu), Some(longest)) = (self.mtu(route), self.longest(way))
            && longest > mtu as usize
        {
            let why = Doubt::AboveMtu { device: self.machine().name(route.device), mtu };
            way.unseen.push(NotSeen::doubt(Missing::Copies, NFTABLES, why));
        }
    }

    /// Notes packets in a tunnel that may be larger than the MTU of its lower device.
    fn cut_in_tunnel(&self, way: &mut PathFacts, tunnel: &Link, below: &[u32], at: &At) {
        let longest = match at.to {
            Some(_) => self.longest(way),
            None => Some(tunnel.mtu as usize),
        };
        let is_v6 = tunnel.remote.is_some_and(|remote| remote.is_ipv6());
        let added = udp_header_bytes(is_v6) + TUNNEL_BYTES;
        for lower in below.iter().filter_map(|index| self.machine().link(*index)) {
            if longest.is_some_and(|longest| longest.saturating_add(added) > lower.mtu as usize) {
                let why = Doubt::AboveMtu { device: lower.name.clone(), mtu: lower.mtu };
                way.unseen.push(NotSeen::doubt(Missing::TunnelPackets, LINK, why));
            }
        }
    }

    fn mtu(&self, route: &Route) -> Option<u32> {
        let of_device = self.machine().link(route.device).map(|link| link.mtu);
        route.mtu.into_iter().chain(of_device).min()
    }

    /// Returns the size of the largest packets including network headers, if known.
    fn longest(&self, way: &PathFacts) -> Option<usize> {
        match self.start.sending.transport {
            Transport::Tcp => {
                let own = way.route.as_ref()?.as_ref().ok()?;
                self.mtu(own).map(|mtu| mtu as usize)
            }
            Transport::Udp => {
                let bytes = way.wanted.datagram_bytes();
                Some(bytes.saturating_add(udp_header_bytes(self.flow.to.is_ipv6())))
            }
        }
    }

    /// Notes whether this machine receives its own multicast or broadcast packets.
    fn looped(&self, way: &mut PathFacts, route: &Route, to: IpAddr) {
        let group = to.is_multicast();
        way.loops = match route.cast {
            _ if route.is_local => None,
            Cast::Broadcast => Some(Echo::Everybody { to }),
            _ if !group || !self.start.sending.loops => None,
            _ => {
                let is_member = match to {
                    IpAddr::V4(_) => Ok(route.is_member),
                    IpAddr::V6(to) => machine::listens(route.device, to),
                };
                match is_member {
                    Ok(true) => Some(Echo::Member { group: to }),
                    Ok(false) => None,
                    Err(unseen) => {
                        way.unseen.push(unseen);
                        None
                    }
                }
            }
        };
        if group && machine::routes_groups(to) {
            let why = Doubt::GroupsRouted;
            way.unseen.push(NotSeen::doubt(Missing::GroupReceivers, "/proc/net/ip_mr_vif", why));
        }
    }

    /// Follows all of these places on every path.
    fn all(&self, ways: Vec<PathFacts>, places: &[At]) -> Vec<PathFacts> {
        places.iter().fold(ways, |ways, at| {
            bounded(ways.into_iter().flat_map(|way| self.follow(way, at)).collect())
        })
    }

    /// Follows packets over a device and its lower devices.
    fn follow(&self, mut way: PathFacts, at: &At) -> Vec<PathFacts> {
        if way.devices.iter().any(|known| known.index == at.device) {
            return vec![way];
        }
        let machine = self.machine();
        let Some(link) = machine.link(at.device).filter(|_| way.devices.len() < MAX_DEVICES) else {
            let why = Doubt::DeviceLeftOut { index: at.device };
            way.unseen.push(NotSeen::doubt(Missing::Device, LINK, why));
            return vec![way];
        };
        let packet = at.packet.clone().through(link.index, &link.name);
        way.unseen.extend(machine::programs(link.index, &link.name));
        let (mut over, instead) = self.turned(&mut way, &link.name, &packet);
        over.extend(instead);
        let is_left = instead.is_some_and(|other| !machine.gives_back(other));
        let step = DeviceOnPath { link, to: at.to, hardware: at.hardware.as_deref() };
        let mut device = gather::device(machine, &step);
        device.is_left = is_left;
        let (below, missing) =
            if is_left { (Below::Nothing, None) } else { gather::below(machine, &step) };
        way.unseen.extend(missing);
        if let (Below::Devices(lower), "vxlan") = (&below, machine.kind(at.device)) {
            self.cut_in_tunnel(&mut way, link, lower, at);
        }
        let is_wrapped =
            !["bridge", "bond", "team", "macvlan", "ipvlan", "veth"].contains(&&*device.kind);
        device.below = below.clone();
        way.devices.push(device);
        if let (Below::Devices(ports), "veth") = (&below, machine.kind(at.device)) {
            gather::entered(machine, link, ports, &mut way);
        }
        if machine.kind(at.device) == "bridge" {
            let found = outcome(&machine.rules, Place::Bridge, &packet.wrapped());
            doubt(&mut way, &Missing::FirewallEffect, NFTABLES, found.doubts);
        }
        let place = |device: &u32, packet: &Packet| At {
            device: *device,
            packet: packet.clone(),
            to: at.to,
            hardware: at.hardware.clone(),
        };
        let over: Vec<At> = over.iter().map(|device| place(device, &packet)).collect();
        let ways = self.all(vec![way], &over);
        let inside = if is_wrapped { packet.wrapped() } else { packet };
        match &below {
            Below::Devices(below) => {
                let all: Vec<At> = below.iter().map(|device| place(device, &inside)).collect();
                self.all(ways, &all)
            }
            Below::OneOf(below) if !below.is_empty() => {
                let one = |way: &PathFacts| {
                    let each = |device| self.follow(way.clone(), &place(device, &inside));
                    below.iter().flat_map(each).collect::<Vec<_>>()
                };
                bounded(ways.iter().flat_map(one).collect())
            }
            _ => ways,
        }
    }

    /// Returns the devices that copies are sent over, and the device that packets are redirected to.
    fn turned(&self, way: &mut PathFacts, name: &str, packet: &Packet) -> (Vec<u32>, Option<u32>) {
        let machine = self.machine();
        let (mut copies, mut instead) = (Vec::new(), None);
        let turn =
            |way: &mut PathFacts, what: Detour, source| way.turns.push(Turn { what, source });
        let on = || name.to_owned();
        let found = outcome(&machine.rules, Place::Egress(name), packet);
        doubt(way, &Missing::FirewallEffect, NFTABLES, found.doubts);
        for effect in found.effects {
            match effect {
                Effect::CopyOver(device) => {
                    let over = machine.name(device);
                    turn(way, Detour::RuleCopies { device: on(), over }, NFTABLES);
                    copies.push(device);
                }
                Effect::Over(device) => {
                    let over = machine.name(device);
                    turn(way, Detour::RuleRedirects { device: on(), over }, NFTABLES);
                    instead = Some(device);
                }
                Effect::Dropped => {
                    doubt(way, &Missing::Packets, NFTABLES, vec![Doubt::Dropped]);
                }
                _ => {}
            }
        }
        if instead.is_some() {
            return (copies, instead);
        }
        let device = packet.device.as_ref().map_or(0, |(index, _)| *index);
        match machine.filters(device) {
            Ok(filters) => {
                let filter::Turns { mirrors, redirect, doubts } = turns(&filters, packet);
                doubt(way, &Missing::FilterEffect, FILTERS, doubts);
                for other in &mirrors {
                    let over = machine.name(*other);
                    turn(way, Detour::FilterCopies { device: on(), over }, FILTERS);
                }
                if let Some(other) = redirect {
                    let over = machine.name(other);
                    turn(way, Detour::FilterRedirects { device: on(), over }, FILTERS);
                }
                copies.extend(mirrors);
                instead = redirect;
            }
            Err(unseen) => way.unseen.push(unseen),
        }
        (copies, instead)
    }
}

fn doubt(way: &mut PathFacts, what: &Missing, source: &'static str, doubts: Vec<Doubt>) {
    way.unseen.extend(doubts.into_iter().map(|why| NotSeen::doubt(what.clone(), source, why)));
}

/// Follows any packet over a device.
fn over(start: &Start<'_>, device: u32) -> Vec<PathFacts> {
    let walk = Walk { start, flow: start.sending.flow(0) };
    let at = At { device, packet: Packet::default(), to: None, hardware: None };
    walk.follow(start.empty.clone(), &at)
}
