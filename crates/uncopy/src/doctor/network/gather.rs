//! Asks the kernel for the facts about a path.

use std::net::SocketAddr;

use super::facts::{Below, Device, Facts, Kernel, Limits, Offloads, Peer, Wanted};
use super::tap;
use crate::capabilities::{self, Answer, SocketKind};
use crate::send::Transport;
use crate::sys::inet::scope;
use crate::sys::netlink::ethtool::{self, Feature, Features};
use crate::sys::netlink::neighbour;
use crate::sys::netlink::route::{self, Link, Queue};
use crate::sys::offload::{self, Offload};
use crate::sys::probe;

/// More devices than one stack has; a bridge may have more ports, of which the first count.
const MAX_DEVICES: usize = 32;

/// Kinds whose device below is named by `IFLA_LINK`.
const ABOVE_ONE: [&str; 6] = ["vlan", "macvlan", "ipvlan", "macsec", "hsr", "rmnet"];
/// Kinds whose devices below name them as their master.
const ABOVE_PORTS: [&str; 4] = ["bridge", "bond", "team", "vrf"];
/// Kinds that send packets of their own, which are routed one by one.
const TUNNELS: [&str; 14] = [
    "vxlan",
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

/// Facts about the way to an address.
pub(super) fn to_address(transport: Transport, to: SocketAddr, wanted: Wanted) -> Facts {
    let route = route::route_to(to.ip(), scope(to));
    let first = route.as_ref().ok().map(|route| route.device);
    let way = route.as_ref().ok().map(|route| {
        let next = route.gateway.unwrap_or(to.ip());
        Way { to, hardware: neighbour::hardware_of(route.device, next).ok().flatten() }
    });
    Facts {
        transport: Some(transport),
        destination: Some(to),
        devices: devices(first, way.as_ref()),
        route: Some(route),
        taps: tap::all(),
        kernel: kernel(Some(transport), to.is_ipv6()),
        limits: limits(),
        wanted,
    }
}

/// Facts about what goes over a device. `None`: there is none of that name.
pub(super) fn over_device(name: &str, wanted: Wanted) -> Option<Facts> {
    let links = route::links().unwrap_or_default();
    let index = links.iter().find(|link| link.name == name)?.index;
    Some(Facts {
        transport: None,
        destination: None,
        route: None,
        devices: devices(Some(index), None),
        taps: tap::all(),
        kernel: kernel(None, false),
        limits: limits(),
        wanted,
    })
}

/// Where packets go.
struct Way {
    to: SocketAddr,
    /// The hardware address of the next on the way; `None`: it is not known yet.
    hardware: Option<Vec<u8>>,
}

/// The device and all below it.
fn devices(first: Option<u32>, way: Option<&Way>) -> Vec<Device> {
    let links = route::links().unwrap_or_default();
    let queues = route::queues().unwrap_or_default();
    let mut found: Vec<Device> = Vec::new();
    let mut waiting: Vec<u32> = first.into_iter().collect();
    while let Some(index) = waiting.pop() {
        let is_new = found.iter().all(|device| device.index != index);
        let Some(link) = links.iter().find(|link| link.index == index).filter(|_| is_new) else {
            continue;
        };
        if found.len() == MAX_DEVICES {
            break;
        }
        let device = device(link, &links, &queues, way);
        if let Below::Devices(below) = &device.below {
            waiting.extend(below.iter().rev());
        }
        found.push(device);
    }
    found
}

fn device(link: &Link, links: &[Link], queues: &[Queue], way: Option<&Way>) -> Device {
    let has = |flag: libc::c_int| link.flags & flag as u32 != 0;
    let queues: Vec<String> =
        queues.iter().filter(|q| q.device == link.index).map(|q| q.kind.clone()).collect();
    let filtered = queues.iter().any(|kind| kind == "clsact");
    Device {
        index: link.index,
        name: link.name.clone(),
        kind: link.kind.clone().unwrap_or_default(),
        is_loopback: has(libc::IFF_LOOPBACK),
        is_up: has(libc::IFF_UP),
        mtu: link.mtu,
        offloads: offloads(link.index, way.map(|way| way.to)),
        has_xdp: link.has_xdp,
        egress_filters: match filtered {
            true => route::egress_filters(link.index).unwrap_or_default(),
            false => Vec::new(),
        },
        queues,
        below: below(link, links, way),
    }
}

/// Where a device passes packets on to.
fn below(link: &Link, links: &[Link], way: Option<&Way>) -> Below {
    let kind = link.kind.as_deref().unwrap_or_default();
    if ABOVE_PORTS.contains(&kind) {
        let ports = links.iter().filter(|port| port.master == Some(link.index));
        let ports: Vec<u32> = ports.map(|port| port.index).collect();
        // A bridge that has learnt where the next on the way is sends through that port alone.
        let hardware = way.and_then(|way| way.hardware.as_ref()).filter(|_| kind == "bridge");
        let port = hardware.and_then(|known| neighbour::port_to(link.index, known).ok().flatten());
        return Below::Devices(match port.filter(|port| ports.contains(port)) {
            Some(port) => vec![port],
            None => ports,
        });
    }
    if kind == "veth" {
        return Below::Peer(peer(link, way.map(|way| way.to)));
    }
    match link.link {
        _ if !ABOVE_ONE.contains(&kind) && !TUNNELS.contains(&kind) => Below::Nothing,
        _ if link.link_network.is_some() => Below::Unseen("the device below is in another network"),
        Some(index) => Below::Devices(vec![index]),
        None => Below::Unseen("its packets are routed one by one"),
    }
}

/// What becomes of packets to `to` at the other end of a veth pair.
fn peer(link: &Link, to: Option<SocketAddr>) -> Peer {
    match (link.link_network, to) {
        (_, None) => Peer::Unknown(None),
        // An address of this network would not be reached through a device.
        (None, Some(_)) => Peer::PassesOn,
        (Some(network), Some(to)) => match route::is_address_of(network, to.ip()) {
            Ok(true) => Peer::Receives,
            Ok(false) => Peer::PassesOn,
            Err(errno) => Peer::Unknown(Some(errno)),
        },
    }
}

fn offloads(device: u32, to: Option<SocketAddr>) -> Offloads {
    match ethtool::features(device) {
        Ok(features) => named(&features, to),
        Err(_) => told_by_ioctl(device),
    }
}

/// From the names that `ethtool -k` shows.
fn named(features: &Features, to: Option<SocketAddr>) -> Offloads {
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

/// Before Linux 5.6, where nothing says what was requested or is fixed.
fn told_by_ioctl(device: u32) -> Offloads {
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

/// What the kernel offers such a socket.
pub(super) fn kernel(transport: Option<Transport>, is_v6: bool) -> Kernel {
    let kernel = capabilities::kernel();
    let kind = match (transport, is_v6) {
        (Some(Transport::Tcp), false) => SocketKind::Tcp4,
        (Some(Transport::Tcp), true) => SocketKind::Tcp6,
        (_, false) => SocketKind::Udp4,
        (_, true) => SocketKind::Udp6,
    };
    let answer = kernel.msg_zerocopy.iter().find(|one| one.kind == kind);
    let operations = &kernel.io_uring.operations;
    Kernel {
        release: kernel.release.clone(),
        version: probe::version_of(&kernel.release),
        msg_zerocopy: answer.map_or(Answer::unknown("it was not asked"), |one| one.answer.clone()),
        io_uring: kernel.io_uring.available.clone(),
        has_send_zc: operations.iter().any(|one| one.name == "send_zc" && one.supported),
    }
}

/// Asked for each time: they differ between network namespaces and threads.
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

    /// As the kernel describes devices that few test machines have: bonds, teams, VLANs, tunnels.
    #[test]
    fn what_is_below_is_told_by_kind() {
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
        ];
        for (index, expected) in [
            (2, Below::Nothing),
            (5, Below::Devices(vec![2, 3])),
            (6, Below::Devices(vec![5])),
            (7, Below::Unseen("the device below is in another network")),
            (8, Below::Unseen("its packets are routed one by one")),
            (10, Below::Peer(Peer::Unknown(None))),
            (11, Below::Devices(vec![])),
            (12, Below::Devices(vec![2])),
        ] {
            let link = links.iter().find(|link| link.index == index).unwrap();
            assert_eq!(below(link, &links, None), expected, "{link:?}");
        }
    }
}
