//! Routes that the kernel may choose for a socket.
//!
//! IPv4 looks the route up with the chosen source address (`ip_route_connect`). IPv6 keeps the route found
//! before the source address was chosen (`ip6_dst_lookup_tail`) until that route is gone; then it looks it up
//! with the address (`inet6_csk_route_socket`). Both cases are considered. Some kernels ignore the traffic
//! class there (`tcp_v6_connect`).

use std::net::IpAddr;

use super::facts::NotSeen;
use super::machine;
use crate::found::{Doubt, Missing};
use uncopy_core::Errno;
use uncopy_os::netlink::route::{self, Cast, Flow, Hop, Route};
use uncopy_os::netlink::rule;
use uncopy_send::Transport;

pub(super) const ROUTE: &str = "rtnetlink RTM_GETROUTE";
const RULE: &str = "rtnetlink RTM_GETRULE";

/// A route, with the flow it was looked up for.
#[derive(Debug, Clone)]
pub(super) struct RouteLookup {
    pub(super) flow: Flow,
    pub(super) route: Route,
    /// Reasons why the kernel may choose another route.
    pub(super) doubts: Vec<NotSeen>,
}

/// Looks up the route of a flow.
///
/// An IPv6 socket bound to a device uses only routes over that device. For a request with a source address
/// but without a socket the kernel returns other routes too (`ip6_route_output_flags_noref`); without the
/// address it does not.
pub(super) fn of(flow: &Flow) -> Result<RouteLookup, Errno> {
    let route = route::route_of(flow)?;
    let is_bound = flow.device != 0 && flow.to.is_ipv6();
    if !is_bound || flow.source.is_none() || route.device == flow.device {
        return Ok(RouteLookup { flow: *flow, route, doubts: Vec::new() });
    }
    let flow = Flow { source: None, ..*flow };
    Ok(RouteLookup { flow, route: route::route_of(&flow)?, doubts: by_source(flow.device) })
}

/// Returns doubts if IPv6 rules or routes over a device select by source address.
fn by_source(device: u32) -> Vec<NotSeen> {
    const WHAT: Missing = Missing::RouteOfBound;
    let asked = [
        (RULE, Doubt::RulesBySource, rule::select_by_source(libc::AF_INET6)),
        (ROUTE, Doubt::RoutesBySource, route::select_by_source(device)),
    ];
    let doubt = |(source, why, answer)| match answer {
        Ok(false) => None,
        Ok(true) => Some(NotSeen::doubt(WHAT, source, why)),
        Err(errno) => Some(NotSeen::refused(WHAT, source, errno)),
    };
    asked.into_iter().filter_map(doubt).collect()
}

/// Returns every route that a flow may get, over each next hop.
pub(super) fn all(flow: &Flow, transport: Transport) -> Result<(Vec<Route>, Vec<NotSeen>), Errno> {
    let (mut routes, mut missing): (Vec<Route>, Vec<NotSeen>) = (Vec::new(), Vec::new());
    for RouteLookup { flow, route, doubts } in lookups(flow, transport)? {
        missing.extend(doubts);
        let hops = match route::hops_of(&flow) {
            // There is no choice of next hops.
            _ if route.is_local || route.cast != Cast::Unicast => Vec::new(),
            Ok(hops) => hops,
            Err(Errno::ENODATA) => {
                missing.push(NotSeen::doubt(Missing::HopGroupMembers, ROUTE, Doubt::HopGroup));
                Vec::new()
            }
            // No routing table entry applies; the device decides.
            Err(_) => Vec::new(),
        };
        let over = |hop: &Hop| Route {
            device: hop.device,
            gateway: hop.gateway,
            mtu: route.mtu.filter(|_| hop.device == route.device),
            is_encapsulated: hop.is_encapsulated,
            ..route.clone()
        };
        let own =
            if hops.is_empty() { vec![route.clone()] } else { hops.iter().map(over).collect() };
        for route in own {
            // Equal routes may differ in whether they have a source address.
            let is_known = |known: &Route| Route { source: route.source, ..known.clone() } == route;
            if !routes.iter().any(is_known) {
                routes.push(route);
            }
        }
    }
    Ok((routes, missing))
}

/// Looks up routes with and without the source address, as far as each is possible.
fn lookups(flow: &Flow, transport: Transport) -> Result<Vec<RouteLookup>, Errno> {
    let first = of(flow)?;
    let keeps_first = flow.to.is_ipv6() || transport == Transport::Udp;
    if let Some(source) = flow.source {
        let others = earlier(flow).into_iter().filter_map(|question| {
            let asked = of(&question).ok()?;
            let counts = question.source.is_some() || may_choose(&asked.route, source);
            counts.then_some(asked)
        });
        return Ok([first].into_iter().chain(others).collect());
    }
    let Some(source) = first.route.source.filter(|_| !first.route.is_local) else {
        return Ok(vec![first]);
    };
    Ok(match of(&Flow { source: Some(source), ..*flow }) {
        Ok(again) if keeps_first => vec![first, again],
        Ok(again) => vec![again],
        Err(_) => vec![first],
    })
}

/// Returns the flows that the kernel may have looked up before the source was known.
fn earlier(flow: &Flow) -> Vec<Flow> {
    let mut questions = vec![*flow];
    if flow.to.is_ipv6() {
        for (source, class) in [(flow.source, 0), (None, flow.class), (None, 0)] {
            let question = Flow { source, class, ..*flow };
            if !questions.contains(&question) {
                questions.push(question);
            }
        }
    }
    questions.split_off(1)
}

/// Whether the kernel may have chosen this source for a socket on this route. It prefers an address of the
/// outgoing device (RFC 6724, rule 5); others may be temporary addresses that were replaced.
fn may_choose(route: &Route, source: IpAddr) -> bool {
    let is_elsewhere = |address| match address {
        IpAddr::V6(address) => machine::is_elsewhere(address, route.device),
        IpAddr::V4(_) => false,
    };
    match route.source {
        Some(chosen) if chosen != source => is_elsewhere(chosen) || !is_elsewhere(source),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_may_have_been_routed_without_source_and_class() {
        let flow = |to: &str, class| Flow {
            source: Some("fd00::1".parse().unwrap()),
            class,
            ..Flow::to(to.parse().unwrap(), 0)
        };
        for (to, class, expected) in [
            ("10.0.0.2", 16, &[][..]),
            ("fd00::2", 0, &[(false, 0)]),
            ("fd00::2", 16, &[(true, 0), (false, 16), (false, 0)]),
        ] {
            let questions = earlier(&flow(to, class));
            let asked: Vec<(bool, u8)> =
                questions.iter().map(|q| (q.source.is_some(), q.class)).collect();
            assert_eq!(asked, expected, "{to} {class}");
        }
    }
}
