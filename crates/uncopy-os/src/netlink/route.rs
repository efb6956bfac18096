//! Routes, devices and queue disciplines (`rtnetlink(7)`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Netlink, Request, attribute, attributes, number_at, short_at, text};
use crate::Sys;
use uncopy_core::Errno;

/// `struct rtmsg`, `struct ifinfomsg` and `struct rtnexthop` (`linux/rtnetlink.h`).
const ROUTE_BYTES: usize = 12;
const LINK_BYTES: usize = 16;
const HOP_BYTES: usize = 8;
/// `RTA_ENCAP`, `RTA_UID`, `RTA_IP_PROTO`, `RTA_SPORT`, `RTA_DPORT`, `RTA_NH_ID` and the flag `RTM_F_FIB_MATCH`
/// (same file).
const ENCAPSULATION: u16 = 22;
const USER: u16 = 25;
const PROTOCOL: u16 = 27;
const SOURCE_PORT: u16 = 28;
const PORT: u16 = 29;
const HOP_ID: u16 = 30;
const WHOLE_ENTRY: u32 = 0x2000;
/// `RTCF_LOCAL` (`linux/in_route.h`): this machine receives its own multicast packets.
const FOR_THIS_MACHINE: u32 = 0x8000_0000;
/// `IFLA_TARGET_NETNSID` (`linux/if_link.h`).
const LINK_OF_NETWORK: u16 = 46;
/// `IFLA_VXLAN_GROUP` and `IFLA_VXLAN_GROUP6` (same file).
const VXLAN_REMOTE: [u16; 2] = [2, 16];
/// `IFLA_MACVLAN_MODE` (same file).
const MACVLAN_MODE: u16 = 1;
/// `struct ifaddrmsg` (`linux/if_addr.h`), and `IFA_TARGET_NETNSID` there.
const ADDRESS_BYTES: usize = 8;
const ADDRESS_NETWORK: u16 = 10;
/// `RTAX_MTU`, inside `RTA_METRICS`.
const METRIC_MTU: u16 = 2;
/// `RTEXT_FILTER_SKIP_STATS`: answers without counters.
const SKIP_STATISTICS: u32 = 1 << 3;
/// `IFLA_LINK_NETNSID`, `IFLA_XDP` and `IFLA_XDP_ATTACHED` (`linux/if_link.h`).
const LINK_NETWORK: u16 = 37;
const LINK_XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
/// `IFLA_GSO_MAX_SEGS` and `IFLA_GSO_MAX_SIZE` (same file).
const LINK_MAX_SEGMENTS: u16 = 40;
const LINK_MAX_BYTES: u16 = 41;
/// `IFLA_VXLAN_LINK` (same file).
const VXLAN_LINK: u16 = 3;

/// Properties of packets that policy rules select by, for a route request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub to: IpAddr,
    /// Source address; `None`: the kernel chooses.
    pub source: Option<IpAddr>,
    /// The device that the socket is bound to; 0: none.
    pub device: u32,
    pub mark: u32,
    /// `IPPROTO_UDP` and others; 0: the request does not include ports.
    pub protocol: u8,
    /// Source port; 0: unspecified.
    pub source_port: u16,
    pub port: u16,
    /// Traffic class (`IP_TOS`).
    pub class: u8,
    /// Owner of the socket; `None`: the user of this process.
    pub user: Option<u32>,
}

/// Kind of destination address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cast {
    #[default]
    Unicast,
    Broadcast,
    Multicast,
}

/// Route to an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Index of the device.
    pub device: u32,
    /// Whether the address is one of this machine.
    pub is_local: bool,
    pub cast: Cast,
    /// Whether this machine is a member of the multicast group; known for IPv4 only.
    pub is_member: bool,
    /// Source address of packets.
    pub source: Option<IpAddr>,
    /// Whether the route encapsulates packets, or runs a program on them.
    pub is_encapsulated: bool,
    /// Gateway, if there is one.
    pub gateway: Option<IpAddr>,
    /// MTU of the route, if it has one.
    pub mtu: Option<u32>,
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// `IFF_UP` and others (`netdevice(7)`).
    pub flags: u32,
    pub mtu: u32,
    /// Kind that the driver reports (`veth`, `bridge`); `None` for most hardware.
    pub kind: Option<String>,
    /// Lower device, or the other end of a veth pair.
    pub link: Option<u32>,
    /// Id of the network namespace of that device; `None`: it is in this one.
    pub link_network: Option<i32>,
    /// Bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// Whether an XDP program is attached.
    pub has_xdp: bool,
    /// `MACVLAN_MODE_BRIDGE` and others; 0: it is not a macvlan.
    pub macvlan_mode: u32,
    /// Remote endpoint of a vxlan tunnel, unless it is chosen for each packet.
    pub remote: Option<IpAddr>,
    /// Its hardware address.
    pub hardware: Vec<u8>,
}

impl Flow {
    /// Creates a flow with only a destination and a device.
    pub fn to(to: IpAddr, device: u32) -> Flow {
        Flow {
            to,
            source: None,
            device,
            mark: 0,
            protocol: 0,
            source_port: 0,
            port: 0,
            class: 0,
            user: None,
        }
    }

    fn request(&self, flags: u32) -> Request {
        let bytes = |address| match address {
            IpAddr::V4(address) => Ipv4Addr::octets(&address).to_vec(),
            IpAddr::V6(address) => Ipv6Addr::octets(&address).to_vec(),
        };
        let family = if self.to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let destination = bytes(self.to);
        // Family, prefix lengths of destination and source; flags at the end, all others zero.
        let mut fixed = [0; ROUTE_BYTES];
        (fixed[0], fixed[1]) = (family as u8, (destination.len() * 8) as u8);
        // Without the two ECN bits, which rules ignore.
        fixed[3] = self.class & 0xfc;
        fixed[2] = self.source.map_or(0, |source| (bytes(source).len() * 8) as u8);
        fixed[8..].copy_from_slice(&flags.to_ne_bytes());
        let mut request =
            Request::new(libc::RTM_GETROUTE, &fixed).with(libc::RTA_DST, &destination);
        if let Some(source) = self.source {
            request = request.with(libc::RTA_SRC, &bytes(source));
        }
        if self.device != 0 {
            request = request.with(libc::RTA_OIF, &self.device.to_ne_bytes());
        }
        if let Some(user) = self.user {
            request = request.with(USER, &user.to_ne_bytes());
        }
        if self.mark != 0 {
            request = request.with(libc::RTA_MARK, &self.mark.to_ne_bytes());
        }
        if self.protocol != 0 {
            request = request.with(PROTOCOL, &[self.protocol]);
            for (kind, port) in [(SOURCE_PORT, self.source_port), (PORT, self.port)] {
                if port != 0 {
                    request = request.with(kind, &port.to_be_bytes());
                }
            }
        }
        request
    }
}

/// Returns the device that a link-local address is on, or 0.
pub fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

/// Returns the route of this process's packets to `address`; `scope` is the device of a link-local
/// address, or 0.
pub fn route_to(address: IpAddr, scope: u32) -> Sys<Route> {
    route_of(&Flow::to(address, scope))
}

/// Returns the route of packets of this flow.
pub fn route_of(flow: &Flow) -> Sys<Route> {
    let answers = Netlink::open(None)?.query(flow.request(0))?;
    route_in(answers.first().ok_or(Errno::EIO)?)
}

fn route_in(answer: &[u8]) -> Sys<Route> {
    let (fixed, rest) = answer.split_at_checked(ROUTE_BYTES).ok_or(Errno::EIO)?;
    let number = |kind| attribute(rest, kind).and_then(|value| number_at(value, 0));
    let metrics = attribute(rest, libc::RTA_METRICS).unwrap_or_default();
    let flags = number_at(fixed, 8).unwrap_or_default();
    let cast = match fixed[7] {
        libc::RTN_BROADCAST | libc::RTN_ANYCAST => Cast::Broadcast,
        libc::RTN_MULTICAST => Cast::Multicast,
        _ => Cast::Unicast,
    };
    Ok(Route {
        device: number(libc::RTA_OIF).ok_or(Errno::ENODEV)?,
        is_local: fixed[7] == libc::RTN_LOCAL,
        cast,
        is_member: cast == Cast::Multicast && flags & FOR_THIS_MACHINE != 0,
        source: attribute(rest, libc::RTA_PREFSRC).and_then(address_in),
        is_encapsulated: attribute(rest, ENCAPSULATION).is_some(),
        gateway: attribute(rest, libc::RTA_GATEWAY).and_then(address_in),
        mtu: attribute(metrics, METRIC_MTU).and_then(|value| number_at(value, 0)),
    })
}

/// One of the next hops of a multipath route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub device: u32,
    pub gateway: Option<IpAddr>,
    pub is_encapsulated: bool,
}

/// Returns the next hops of the routing table entry for a flow. Empty: there is one hop, which [`route_of`]
/// returns.
///
/// # Errors
/// The kernel does not list the members of a nexthop group, or there is no such entry.
pub fn hops_of(flow: &Flow) -> Sys<Vec<Hop>> {
    let answers = Netlink::open(None)?.query(flow.request(WHOLE_ENTRY))?;
    let mut hops = hops_in(answers.first().ok_or(Errno::EIO)?)?;
    // A socket bound to a device uses only hops of that device (`fib_lookup_good_nhc`).
    hops.retain(|hop| flow.device == 0 || hop.device == flow.device);
    Ok(hops)
}

/// Whether an IPv6 route over a device, in any table, has a source prefix.
///
/// # Errors
/// Kernels before Linux 5.0 cannot filter by device.
pub fn select_by_source(device: u32) -> Sys<bool> {
    let mut fixed = [0; ROUTE_BYTES];
    fixed[0] = libc::AF_INET6 as u8;
    let request =
        Request::new(libc::RTM_GETROUTE, &fixed).with(libc::RTA_OIF, &device.to_ne_bytes()).dump();
    let netlink = Netlink::open(None)?;
    netlink.check_strictly()?;
    Ok(netlink.query(request)?.iter().any(|answer| answer.get(2).is_some_and(|bits| *bits != 0)))
}

fn hops_in(answer: &[u8]) -> Sys<Vec<Hop>> {
    let (_, rest) = answer.split_at_checked(ROUTE_BYTES).ok_or(Errno::EIO)?;
    let Some(mut list) = attribute(rest, libc::RTA_MULTIPATH) else {
        // With `net.ipv4.nexthop_compat_mode=0` the kernel gives only the id of a nexthop group.
        let is_hidden =
            attribute(rest, HOP_ID).is_some() && attribute(rest, libc::RTA_OIF).is_none();
        return if is_hidden { Err(Errno::ENODATA) } else { Ok(Vec::new()) };
    };
    let mut hops = Vec::new();
    while !list.is_empty() {
        let length = usize::from(short_at(list, 0).ok_or(Errno::EIO)?);
        let rest = list.get(HOP_BYTES..length).ok_or(Errno::EIO)?;
        hops.push(Hop {
            device: number_at(list, 4).ok_or(Errno::EIO)?,
            gateway: attribute(rest, libc::RTA_GATEWAY).and_then(address_in),
            is_encapsulated: attribute(rest, ENCAPSULATION).is_some(),
        });
        list = list.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(hops)
}

pub(super) fn address_in(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Returns every device of this network namespace.
pub fn links() -> Sys<Vec<Link>> {
    let request = Request::new(libc::RTM_GETLINK, &[0; LINK_BYTES])
        .with(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes())
        .dump();
    let answers = Netlink::open(None)?.query(request)?;
    Ok(answers.iter().filter_map(|answer| link_in(answer)).collect())
}

fn link_in(answer: &[u8]) -> Option<Link> {
    let (fixed, rest) = answer.split_at_checked(LINK_BYTES)?;
    let mut link = Link { index: number_at(fixed, 4)?, ..Link::default() };
    link.flags = number_at(fixed, 8)?;
    for (kind, value) in attributes(rest) {
        let number = number_at(value, 0);
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = number.unwrap_or(0),
            libc::IFLA_LINK => link.link = number.filter(|index| *index != 0),
            libc::IFLA_MASTER => link.master = number,
            libc::IFLA_LINKINFO => {
                link.kind = attribute(value, libc::IFLA_INFO_KIND).map(text);
                let data = attribute(value, libc::IFLA_INFO_DATA).unwrap_or_default();
                match link.kind.as_deref() {
                    Some("vxlan") => {
                        link.link = device_of_vxlan(data).or(link.link);
                        let mut remotes = VXLAN_REMOTE.iter().filter_map(|k| attribute(data, *k));
                        link.remote = remotes.next().and_then(address_in);
                    }
                    Some("macvlan") => {
                        let mode = attribute(data, MACVLAN_MODE);
                        link.macvlan_mode = mode.and_then(|mode| number_at(mode, 0)).unwrap_or(0);
                    }
                    _ => {}
                }
            }
            libc::IFLA_ADDRESS => link.hardware = value.to_owned(),
            LINK_NETWORK => link.link_network = number.map(|number| number as i32),
            LINK_XDP => {
                let attached = attribute(value, XDP_ATTACHED).and_then(|value| value.first());
                link.has_xdp = attached.is_some_and(|mode| *mode != 0);
            }
            _ => {}
        }
    }
    // Most devices give their own index as IFLA_LINK.
    link.link = link.link.filter(|below| *below != link.index || link.link_network.is_some());
    Some(link)
}

/// Returns a device of the network namespace with the id `network`.
///
/// # Errors
/// `EPERM` or `EACCES`: CAP_NET_ADMIN is missing there. Kernels before Linux 4.20 lack this request.
pub fn link_elsewhere(network: i32, device: u32) -> Sys<Link> {
    let mut fixed = [0; LINK_BYTES];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    let request = Request::new(libc::RTM_GETLINK, &fixed)
        .with(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes())
        .with(LINK_OF_NETWORK, &network.to_ne_bytes());
    let answers = Netlink::open(None)?.query(request)?;
    // Kernels that do not know the attribute answer for this namespace, without the attribute.
    let elsewhere = answers.first().filter(|answer| {
        answer.get(LINK_BYTES..).is_some_and(|rest| attribute(rest, LINK_OF_NETWORK).is_some())
    });
    elsewhere.and_then(|answer| link_in(answer)).ok_or(Errno::EOPNOTSUPP)
}

/// Whether an address belongs to the network namespace with the id `network`.
///
/// # Errors
/// `EPERM`: CAP_NET_ADMIN is missing there. Kernels before Linux 5.0 lack this request.
pub fn is_address_of(network: i32, address: IpAddr) -> Sys<bool> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut fixed = [0; ADDRESS_BYTES];
    fixed[0] = family as u8;
    let request = Request::new(libc::RTM_GETADDR, &fixed)
        .with(ADDRESS_NETWORK, &network.to_ne_bytes())
        .dump();
    let netlink = Netlink::open(None)?;
    // Without this the kernel ignores the namespace id and lists the addresses of this namespace.
    netlink.check_strictly()?;
    let answers = netlink.query(request)?;
    Ok(answers.iter().any(|answer| address_of(answer) == Some(address)))
}

/// Returns the local address of an entry. On a point-to-point link `IFA_ADDRESS` is the peer's.
fn address_of(answer: &[u8]) -> Option<IpAddr> {
    let (_, rest) = answer.split_at_checked(ADDRESS_BYTES)?;
    let own = attribute(rest, libc::IFA_LOCAL).or_else(|| attribute(rest, libc::IFA_ADDRESS));
    own.and_then(address_in)
}

/// Returns the device that a vxlan is bound to, from its own attribute.
fn device_of_vxlan(data: &[u8]) -> Option<u32> {
    attribute(data, VXLAN_LINK).and_then(|value| number_at(value, 0)).filter(|index| *index != 0)
}

/// Maximum size of a packet that a device splits into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentationLimits {
    pub segments: u32,
    /// Bytes including all headers.
    pub bytes: u32,
}

/// Returns the segmentation limits of a device.
pub fn segmentation_limits(device: u32) -> Sys<SegmentationLimits> {
    let mut fixed = [0; LINK_BYTES];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    let request = Request::new(libc::RTM_GETLINK, &fixed)
        .with(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes());
    let answers = Netlink::open(None)?.query(request)?;
    segmentation_limits_in(answers.first().ok_or(Errno::EIO)?)
}

fn segmentation_limits_in(answer: &[u8]) -> Sys<SegmentationLimits> {
    let (_, rest) = answer.split_at_checked(LINK_BYTES).ok_or(Errno::EIO)?;
    let number = |kind| attribute(rest, kind).and_then(|value| number_at(value, 0));
    let find = |kind| number(kind).ok_or(Errno::ENODATA);
    Ok(SegmentationLimits { segments: find(LINK_MAX_SEGMENTS)?, bytes: find(LINK_MAX_BYTES)? })
}

#[cfg(fuzzing)]
pub fn fuzz(answer: &[u8]) {
    let _ = (route_in(answer), hops_in(answer), link_in(answer), segmentation_limits_in(answer));
    let _ = address_in(answer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found() {
        for address in ["127.0.0.1", "::1"] {
            let route = route_to(address.parse().unwrap(), 0).unwrap();
            assert!(route.is_local, "{route:?}");
            let links = links().unwrap();
            let link = links.iter().find(|link| link.index == route.device).unwrap();
            assert_eq!(link.name, "lo");
            assert!(link.flags & libc::IFF_LOOPBACK as u32 != 0);
            let SegmentationLimits { segments, bytes } = segmentation_limits(route.device).unwrap();
            assert!(segments >= 64 && bytes >= 65_535, "{segments} {bytes}");
        }
    }

    #[test]
    fn truncated_answers_are_errors() {
        let whole = [0; ROUTE_BYTES];
        for end in 0..whole.len() {
            assert!(route_in(&whole[..end]).is_err());
        }
        assert_eq!(route_in(&whole), Err(Errno::ENODEV), "a route without a device");
        assert_eq!(link_in(&[0; LINK_BYTES - 1]), None);
        assert_eq!(segmentation_limits_in(&[0; LINK_BYTES - 1]), Err(Errno::EIO));
        assert_eq!(segmentation_limits_in(&[0; LINK_BYTES]), Err(Errno::ENODATA));
        assert_eq!(segmentation_limits(u32::MAX >> 1), Err(Errno::ENODEV));
    }

    /// The answer of Linux 6.18 for a VLAN `eth0.5` over device 4, a port of bridge 7.
    #[test]
    fn recorded_devices_are_parsed() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let mut answer = vec![0; LINK_BYTES];
        answer[4] = 9;
        answer[8] = 1;
        let info = attribute(libc::IFLA_INFO_KIND, b"vlan\0");
        answer.extend(attribute(libc::IFLA_IFNAME, b"eth0.5\0"));
        answer.extend(attribute(libc::IFLA_MTU, &1500u32.to_ne_bytes()));
        answer.extend(attribute(libc::IFLA_LINK, &4u32.to_ne_bytes()));
        answer.extend(attribute(libc::IFLA_MASTER, &7u32.to_ne_bytes()));
        answer.extend(attribute(libc::IFLA_LINKINFO | 0x8000, &info));
        answer.extend(attribute(LINK_XDP, &attribute(XDP_ATTACHED, &[2])));
        let link = link_in(&answer).unwrap();
        assert_eq!((link.index, link.name.as_str(), link.mtu), (9, "eth0.5", 1500));
        assert_eq!(
            (link.kind.as_deref(), link.link, link.master),
            (Some("vlan"), Some(4), Some(7))
        );
        assert!(link.has_xdp && link.link_network.is_none());
    }
}
