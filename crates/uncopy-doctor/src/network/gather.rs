//! Gathers facts about devices and the kernel.

use std::net::IpAddr;

use super::facts::{Below, Device, Kernel, Limits, NotSeen, Offloads, PathFacts, Peer};
use super::machine::Machine;
use crate::found::{Doubt, Missing};
use uncopy_core::Errno;
use uncopy_os::capabilities::{self, Answer, AnswerReason, SocketProtocol};
use uncopy_os::netlink::ethtool::{self, Feature, Features};
use uncopy_os::netlink::neighbour;
use uncopy_os::netlink::route::{self, Cast, Flow, Link};
use uncopy_os::offload::{self, Offload};
use uncopy_os::probe;
use uncopy_send::Transport;

/// Kinds whose lower device is in `IFLA_LINK` and gets packets unchanged.
const ABOVE_ONE: [&str; 2] = ["vlan", "dsa"];
/// Kinds without a lower device: hardware, mostly without a kind, and devices of programs.
const ENDS: [&str; 8] = ["", "ifb", "dummy", "tun", "ipvtap", "macvtap", "ipoib", "netdevsim"];
/// Kinds of tunnels whose packets are routed individually.
const TUNNELS: [&str; 13] = [
    "geneve",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "ipip",
    "sit",
    "ip6tnl",
    "vti",
    "vti6",
    "xfrm",
    "wireguard",
    "bareudp",
];

/// A device on a path, with the destination of packets.
pub(super) struct DeviceOnPath<'a> {
    pub(super) link: &'a Link,
    /// `None`: any destination.
    pub(super) to: Option<IpAddr>,
    /// Hardware address of the next hop; `None`: it is not resolved yet.
    pub(super) hardware: Option<&'a [u8]>,
}

/// Returns the hardware address of the next hop, if it is resolved.
pub(super) fn hardware(device: u32, next: IpAddr) -> Option<Vec<u8>> {
    neighbour::hardware_of(device, next).ok().flatten()
}

/// Returns the facts about a device, without its lower devices.
pub(super) fn device(machine: &Machine, step: &DeviceOnPath<'_>) -> Device {
    let link = step.link;
    let has = |flag: libc::c_int| link.flags & flag as u32 != 0;
    let own = machine.queues.iter().filter(|queue| queue.device == link.index);
    Device {
        index: link.index,
        name: link.name.clone(),
        kind: link.kind.clone().unwrap_or_default(),
        is_loopback: has(libc::IFF_LOOPBACK),
        is_up: has(libc::IFF_UP),
        mtu: link.mtu,
        offloads: offloads(link.index, step.to),
        has_xdp: link.has_xdp,
        egress_filters: machine
            .filters(link.index)
            .unwrap_or_default()
            .into_iter()
            .map(|filter| filter.kind)
            .collect(),
        queues: own.map(|queue| queue.kind.clone()).collect(),
        below: Below::Nothing,
        is_entered: false,
        is_left: false,
    }
}

/// Returns the lower devices, and the fact that is unknown about them.
pub(super) fn below(machine: &Machine, step: &DeviceOnPath<'_>) -> (Below, Option<NotSeen>) {
    let link = step.link;
    let kind = link.kind.as_deref().unwrap_or_default();
    let lower = match link.link {
        _ if link.link_network.is_some() => Below::Unseen("the device below is in another network"),
        Some(index) => Below::Devices(vec![index]),
        None => Below::Unseen("its packets are routed one by one"),
    };
    let below = match kind {
        _ if link.master.is_some_and(|master| machine.kind(master) == "vrf") => {
            Below::Unseen("it belongs to a VRF, whose own rules are not looked into")
        }
        "bridge" => return ports(machine, link.index, None, step),
        "bond" | "team" => Below::OneOf(ports_of(machine, link.index)),
        "veth" => return peer(machine, step),
        "macvlan" => return macvlan_peer(machine, step, lower),
        "vxlan" => tunnelled(link, step, lower),
        _ if ABOVE_ONE.contains(&kind) => lower,
        _ if TUNNELS.contains(&kind) => Below::Unseen("its packets are routed one by one"),
        _ if ENDS.contains(&kind) => Below::Nothing,
        _ => Below::Unseen("what devices of this kind do is not known here"),
    };
    (below, None)
}

fn ports_of(machine: &Machine, master: u32) -> Vec<u32> {
    let ports = machine.links.iter().filter(|port| port.master == Some(master));
    ports.map(|port| port.index).collect()
}

/// Returns the ports through which a bridge sends frames that entered through `from`, or from the bridge
/// itself.
fn ports(
    machine: &Machine,
    bridge: u32,
    from: Option<u32>,
    step: &DeviceOnPath<'_>,
) -> (Below, Option<NotSeen>) {
    let mut ports = ports_of(machine, bridge);
    ports.retain(|port| from != Some(*port));
    let Some(hardware) = step.hardware else {
        // The next hop is not resolved yet: it is behind one of the ports.
        let all = step.to.is_none() || ports.len() < 2;
        return (if all { Below::Devices(ports) } else { Below::OneOf(ports) }, None);
    };
    match neighbour::port_to(bridge, hardware) {
        // A bridge that has learnt the port of the next hop sends only through that port.
        Ok(Some(port)) if ports.contains(&port) => (Below::Devices(vec![port]), None),
        Ok(Some(port)) if from == Some(port) => (Below::Devices(Vec::new()), None),
        Ok(_) => (Below::Devices(ports), None),
        Err(errno) => {
            let unseen = NotSeen::refused(Missing::BridgePorts, "rtnetlink RTM_GETNEIGH", errno);
            (Below::OneOf(ports), Some(unseen))
        }
    }
}

/// Checks whether a macvlan device delivers packets to another one on the same lower device.
fn macvlan_peer(
    machine: &Machine,
    step: &DeviceOnPath<'_>,
    lower: Below,
) -> (Below, Option<NotSeen>) {
    let link = step.link;
    let (Below::Devices(below), BRIDGE_MODE, Some(_)) = (&lower, link.macvlan_mode, step.to) else {
        return (lower, None);
    };
    let others: Vec<&Link> = machine
        .links
        .iter()
        .filter(|other| other.kind.as_deref() == Some("macvlan") && other.index != link.index)
        .filter(|other| other.link == link.link && other.link_network.is_none())
        .collect();
    let taken = match neighbour::accepted_addresses(below[0]) {
        Ok(taken) => taken,
        Err(errno) => {
            let what = Missing::MacvlanSiblings;
            return (lower, Some(NotSeen::refused(what, "rtnetlink RTM_GETNEIGH", errno)));
        }
    };
    let is_taken = |hardware: &[u8]| taken.iter().any(|own| own == hardware);
    let doubt = |why| Some(NotSeen::doubt(Missing::MacvlanSibling, "rtnetlink RTM_GETNEIGH", why));
    match step.hardware {
        Some(hardware) if others.iter().any(|other| other.hardware == hardware) => {
            (lower, doubt(Doubt::StrayAddress))
        }
        Some(hardware) => {
            let is_known = machine.links.iter().any(|other| other.hardware == hardware);
            (if is_taken(hardware) && !is_known { Below::Beside } else { lower }, None)
        }
        None => {
            let has_others = taken
                .iter()
                .any(|own| *own != link.hardware && own.first().is_some_and(|b| b & 1 == 0));
            (lower, if has_others { doubt(Doubt::AddressNotResolved) } else { None })
        }
    }
}

/// `MACVLAN_MODE_BRIDGE` (`linux/if_link.h`).
const BRIDGE_MODE: u32 = 4;

/// Checks that a vxlan device sends over its known lower device to one remote endpoint.
fn tunnelled(link: &Link, step: &DeviceOnPath<'_>, lower: Below) -> Below {
    let (Below::Devices(_), Some(_)) = (&lower, step.to) else { return lower };
    let Some(remote) = link.remote else {
        return Below::Unseen("each of its packets goes to an end of its own");
    };
    let hardware = step.hardware.unwrap_or_default();
    let ends = neighbour::remotes_to(link.index, hardware).unwrap_or_default();
    let is_one = ends.iter().all(|end| *end == remote);
    let flow = Flow::to(remote, link.link.unwrap_or(0));
    match route::route_of(&flow) {
        Ok(route) if is_one && !route.is_local && Some(route.device) == link.link => {
            if remote.is_multicast() || route.cast != Cast::Unicast {
                Below::Unseen("its remote end is a group")
            } else {
                lower
            }
        }
        _ => Below::Unseen("its packets are routed one by one"),
    }
}

/// Returns the handling of packets at the other end of a veth pair.
fn peer(machine: &Machine, step: &DeviceOnPath<'_>) -> (Below, Option<NotSeen>) {
    let link = step.link;
    let Some(to) = step.to else { return (Below::Peer(Peer::Unknown(None)), None) };
    let Some(index) = link.link else { return (Below::Peer(Peer::Unknown(None)), None) };
    let Some(network) = link.link_network else {
        let Some(other) = machine.link(index) else {
            return (Below::Peer(Peer::Unknown(None)), None);
        };
        let peer = decide_peer(Ok(other), Ok(false));
        let bridge = other.master.filter(|master| machine.kind(*master) == "bridge");
        let own = step.hardware.map(|own| bridge.map(|bridge| neighbour::is_own_of(bridge, own)));
        return match (peer, bridge, own) {
            (Peer::PassesOn, Some(bridge), Some(Some(Ok(false)))) => {
                ports(machine, bridge, Some(index), step)
            }
            _ => (Below::Peer(peer), None),
        };
    };
    let other = route::link_elsewhere(network, index);
    let owns = route::is_address_of(network, to);
    (Below::Peer(decide_peer(other.as_ref().map_err(|errno| *errno), owns)), None)
}

/// Decides the handling from the other device and the addresses of its network namespace.
fn decide_peer(other: Result<&Link, Errno>, owns: Result<bool, Errno>) -> Peer {
    match (other, owns) {
        (Ok(other), _) if other.flags & libc::IFF_UP as u32 == 0 => Peer::Down,
        (Ok(other), _) if other.has_xdp => Peer::Converts,
        // Kernels before Linux 4.20 list only addresses.
        (Ok(_) | Err(Errno::EOPNOTSUPP), Ok(true)) => Peer::Receives,
        (Ok(_), Ok(false)) => Peer::PassesOn,
        (_, Err(errno)) | (Err(errno), _) => Peer::Unknown(Some(errno)),
    }
}

/// Adds the other end of a veth pair within this network namespace, where frames enter and continue over a
/// bridge.
pub(super) fn entered(machine: &Machine, link: &Link, ports: &[u32], way: &mut PathFacts) {
    let Some(other) = link.link.and_then(|index| machine.link(index)) else { return };
    let step = DeviceOnPath { link: other, to: None, hardware: None };
    way.devices.push(Device { is_entered: true, ..device(machine, &step) });
    let bridge = other.master.and_then(|master| machine.link(master));
    let is_watched = bridge.is_some_and(|bridge| bridge.flags & libc::IFF_PROMISC as u32 != 0);
    let queues = machine.queues.iter().filter(|queue| queue.device == other.index);
    let has_filters = queues.into_iter().any(|q| ["clsact", "ingress"].contains(&&*q.kind));
    let has_rules = machine
        .rules
        .chains
        .iter()
        .filter_map(|chain| chain.hook.as_ref())
        .any(|hook| hook.devices.contains(&other.name));
    let why = match () {
        () if is_watched => Doubt::BridgeListens,
        () if has_filters => Doubt::IncomingFilters,
        () if has_rules => Doubt::IncomingRules,
        () if ports.is_empty() => Doubt::BridgeEnds,
        () => return,
    };
    let what = Missing::Frames { device: other.name.clone() };
    way.unseen.push(NotSeen::doubt(what, "rtnetlink RTM_GETLINK", why));
}

fn offloads(device: u32, to: Option<IpAddr>) -> Offloads {
    match ethtool::features(device) {
        Ok(features) => named(&features, to),
        Err(_) => offloads_by_ioctl(device),
    }
}

/// Reads offloads by the names that `ethtool -k` shows.
fn named(features: &Features, to: Option<IpAddr>) -> Offloads {
    let (checksum, segmentation) = match to {
        Some(to) if to.is_ipv6() => ("tx-checksum-ipv6", "tx-tcp6-segmentation"),
        _ => ("tx-checksum-ipv4", "tx-tcp-segmentation"),
    };
    let any = features.get("tx-checksum-ip-generic");
    let own = features.get(checksum);
    Offloads {
        scatter_gather: Some(features.get("tx-scatter-gather")),
        fraglist: Some(features.get("tx-scatter-gather-fraglist")),
        checksum: Some(Feature {
            is_active: any.is_active || own.is_active,
            is_requested: any.is_requested || own.is_requested,
            is_fixed: any.is_fixed && own.is_fixed,
        }),
        tcp_segmentation: Some(features.get(segmentation)),
        udp_segmentation: Some(features.get("tx-udp-segmentation")),
        tunnel_segmentation: Some(features.get("tx-udp_tnl-segmentation")),
    }
}

/// Reads offloads before Linux 5.6, which does not report whether a feature is requested or fixed.
fn offloads_by_ioctl(device: u32) -> Offloads {
    let Ok(socket) = std::net::UdpSocket::bind(("127.0.0.1", 0)) else {
        return Offloads::default();
    };
    let feature = |offload| {
        let is_active = offload::is_on(&socket, device, offload).ok()?;
        Some(Feature { is_active, is_requested: is_active, is_fixed: false })
    };
    Offloads {
        scatter_gather: feature(Offload::ScatterGather),
        checksum: feature(Offload::Checksum),
        tcp_segmentation: feature(Offload::Segmentation),
        fraglist: None,
        udp_segmentation: None,
        tunnel_segmentation: None,
    }
}

/// Returns the kernel features for such a socket.
pub(super) fn kernel(transport: Option<Transport>, is_v6: bool) -> Kernel {
    let kernel = capabilities::kernel();
    let protocol = match (transport, is_v6) {
        (Some(Transport::Tcp), false) => SocketProtocol::Tcp4,
        (Some(Transport::Tcp), true) => SocketProtocol::Tcp6,
        (_, false) => SocketProtocol::Udp4,
        (_, true) => SocketProtocol::Udp6,
    };
    let answer = kernel.msg_zerocopy.iter().find(|one| one.protocol == protocol);
    let operations = &kernel.io_uring.operations;
    Kernel {
        release: kernel.release.clone(),
        version: probe::version_of(&kernel.release),
        msg_zerocopy: answer
            .map_or(Answer::unknown(AnswerReason::NotAsked), |one| one.answer.clone()),
        io_uring: kernel.io_uring.available.clone(),
        has_send_zc: operations.iter().any(|one| one.name == "send_zc" && one.supported),
    }
}

/// Returns the limits. They are read each time, as they differ between network namespaces and threads.
pub(super) fn limits() -> Limits {
    let now = capabilities::limits();
    Limits {
        optmem_max_bytes: now.optmem_max_bytes,
        memlock: now.memlock,
        may_lock_beyond: probe::may_lock_beyond_limit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices that few test machines have: bonds, teams, VLANs, tunnels.
    #[test]
    fn the_lower_device_follows_from_the_kind() {
        let link = |index, kind: &str, link, master, is_elsewhere: bool| Link {
            index,
            kind: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
            link,
            master,
            link_network: is_elsewhere.then_some(0),
            ..Link::default()
        };
        let links = [
            link(2, "", None, Some(5), false),
            link(3, "", None, Some(5), false),
            link(5, "bond", None, None, false),
            link(6, "vlan", Some(5), None, false),
            link(7, "macvlan", Some(9), None, true),
            link(8, "wireguard", None, None, false),
            link(10, "veth", Some(4), None, true),
            link(11, "team", None, None, false),
            link(12, "gre", Some(2), None, false),
            link(13, "netkit", None, None, false),
            link(14, "macsec", Some(2), None, false),
            link(15, "", None, Some(16), false),
            link(16, "vrf", None, None, false),
        ];
        let machine = Machine { links: links.to_vec(), ..Machine::default() };
        for (index, expected) in [
            (2, Below::Nothing),
            (5, Below::OneOf(vec![2, 3])),
            (6, Below::Devices(vec![5])),
            (7, Below::Unseen("the device below is in another network")),
            (8, Below::Unseen("its packets are routed one by one")),
            (10, Below::Peer(Peer::Unknown(None))),
            (11, Below::OneOf(vec![])),
            (12, Below::Unseen("its packets are routed one by one")),
            (13, Below::Unseen("what devices of this kind do is not known here")),
            (14, Below::Unseen("what devices of this kind do is not known here")),
            (15, Below::Unseen("it belongs to a VRF, whose own rules are not looked into")),
        ] {
            let link = links.iter().find(|link| link.index == index).unwrap();
            let found = below(&machine, &DeviceOnPath { link, to: None, hardware: None });
            assert_eq!(found, (expected, None), "{link:?}");
        }
    }

    #[test]
    fn the_peer_follows_from_its_device_and_addresses() {
        let up = Link { flags: libc::IFF_UP as u32, ..Link::default() };
        let down = Link::default();
        let watched = Link { has_xdp: true, ..up.clone() };
        let old = Errno::EOPNOTSUPP;
        for (other, owns, expected) in [
            (Ok(&up), Ok(true), Peer::Receives),
            (Ok(&up), Ok(false), Peer::PassesOn),
            (Ok(&watched), Ok(true), Peer::Converts),
            (Ok(&watched), Ok(false), Peer::Converts),
            (Ok(&down), Ok(true), Peer::Down),
            (Err(old), Ok(true), Peer::Receives),
            // A missing address does not show that the other namespace was queried.
            (Err(old), Ok(false), Peer::Unknown(Some(old))),
            (Err(Errno::EPERM), Err(Errno::EPERM), Peer::Unknown(Some(Errno::EPERM))),
            (Ok(&up), Err(Errno::EPERM), Peer::Unknown(Some(Errno::EPERM))),
            (Err(Errno::EACCES), Ok(false), Peer::Unknown(Some(Errno::EACCES))),
        ] {
            assert_eq!(decide_peer(other, owns), expected, "{other:?} {owns:?}");
        }
    }
}
