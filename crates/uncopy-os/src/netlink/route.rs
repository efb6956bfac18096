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
/// `RTCF_LOCAL` (`linux/in_route.h`): packets to a group are for this machine too.
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
/// `RTEXT_FILTER_SKIP_STATS`: counters are of no interest.
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

/// What packets are like that a route is asked for: whatever policy rules select by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub to: IpAddr,
    /// `None`: the kernel chooses.
    pub source: Option<IpAddr>,
    /// The device that the socket is bound to; 0: none.
    pub device: u32,
    pub mark: u32,
    /// `IPPROTO_UDP`; 0: the request is not about ports.
    pub protocol: u8,
    /// 0: none is named.
    pub source_port: u16,
    pub port: u16,
    /// The class of traffic (`IP_TOS`).
    pub class: u8,
    /// Whose socket it is; `None`: this process's user's.
    pub user: Option<u32>,
}

/// Whom packets are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cast {
    #[default]
    Unicast,
    Broadcast,
    Multicast,
}

/// The way to an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Index of the device.
    pub device: u32,
    /// The address is this machine's own.
    pub is_local: bool,
    pub cast: Cast,
    /// This machine is a member of the group, as IPv4 tells.
    pub is_member: bool,
    /// The address that packets are sent from.
    pub source: Option<IpAddr>,
    /// Packets are put into others, or a program decides about them.
    pub is_encapsulated: bool,
    /// Through a gateway.
    pub gateway: Option<IpAddr>,
    /// An MTU of its own.
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
    /// What its driver calls it (`veth`, `bridge`); `None` for most hardware.
    pub kind: Option<String>,
    /// The device below, or for a veth the other end.
    pub link: Option<u32>,
    /// The number that the other network namespace has here in which that device is; `None`: it is
    /// in this one.
    pub link_network: Option<i32>,
    /// The bridge or bond that it belongs to.
    pub master: Option<u32>,
    /// An XDP program is attached.
    pub has_xdp: bool,
    /// `MACVLAN_MODE_BRIDGE` and others; 0: it is none.
    pub macvlan_mode: u32,
    /// The other end of a vxlan tunnel, unless each packet has one of its own.
    pub remote: Option<IpAddr>,
    /// Its own address on the link.
    pub hardware: Vec<u8>,
}

impl Flow {
    /// Whatever goes to this address.
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
        // Family, lengths of destination and source in bits; flags at the end, all others zero.
        let mut fixed = [0; ROUTE_BYTES];
        (fixed[0], fixed[1]) = (family as u8, (destination.len() * 8) as u8);
        // Without the two bits of congestion, which no rule looks at.
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

/// The way that this process's packets take to `address`; `scope` is the device of a link-local
/// address, or 0.
pub fn route_to(address: IpAddr, scope: u32) -> Sys<Route> {
    route_of(&Flow::to(address, scope))
}

/// The way that packets of this kind take.
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

/// One of the routers, or links, that packets to an address are spread over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    pub device: u32,
    pub gateway: Option<IpAddr>,
    pub is_encapsulated: bool,
}

/// Where the entry of the routing table leads that decides about such packets. Empty: to one place,
/// which [`route_of`] tells.
///
/// # Errors
/// The kernel does not name the members of a group, or there is no such entry.
pub fn hops_of(flow: &Flow) -> Sys<Vec<Hop>> {
    let answers = Netlink::open(None)?.query(flow.request(WHOLE_ENTRY))?;
    let mut hops = hops_in(answers.first().ok_or(Errno::EIO)?)?;
    // A socket that is bound to a device has no others (`fib_lookup_good_nhc`).
    hops.retain(|hop| flow.device == 0 || hop.device == flow.device);
    Ok(hops)
}

/// Whether routes of IPv6 over a device, in any table, are for some source addresses only.
///
/// # Errors
/// The kernel's: those before Linux 5.0 cannot be asked about one device.
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
        // `net.ipv4.nexthop_compat_mode` is 0: the number of a group stands for its members.
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

/// Every device of this network namespace.
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
    // Most devices name themselves as the one below.
    link.link = link.link.filter(|below| *below != link.index || link.link_network.is_some());
    Some(link)
}

/// A device of another network namespace, which has this number here.
///
/// # Errors
/// `EPERM`, or `EACCES`: without CAP_NET_ADMIN there. Kernels before Linux 4.20 cannot be asked.
pub fn link_elsewhere(network: i32, device: u32) -> Sys<Link> {
    let mut fixed = [0; LINK_BYTES];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    let request = Request::new(libc::RTM_GETLINK, &fixed)
        .with(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes())
        .with(LINK_OF_NETWORK, &network.to_ne_bytes());
    let answers = Netlink::open(None)?.query(request)?;
    // The kernel says whose device it is; one that does not know the attribute tells of its own.
    let elsewhere = answers.first().filter(|answer| {
        answer.get(LINK_BYTES..).is_some_and(|rest| attribute(rest, LINK_OF_NETWORK).is_some())
    });
    elsewhere.and_then(|answer| link_in(answer)).ok_or(Errno::EOPNOTSUPP)
}

/// Whether an address belongs to another network namespace, which has this number here.
///
/// # Errors
/// `EPERM`: without CAP_NET_ADMIN there. Kernels before Linux 5.0 cannot be asked.
pub fn is_address_of(network: i32, address: IpAddr) -> Sys<bool> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut fixed = [0; ADDRESS_BYTES];
    fixed[0] = family as u8;
    let request = Request::new(libc::RTM_GETADDR, &fixed)
        .with(ADDRESS_NETWORK, &network.to_ne_bytes())
        .dump();
    let netlink = Netlink::open(None)?;
    // Else the number of the network is passed over, and one's own addresses are told.
    netlink.check_strictly()?;
    let answers = netlink.query(request)?;
    Ok(answers.iter().any(|answer| address_of(answer) == Some(address)))
}

/// The address of a device: of a point-to-point link `IFA_ADDRESS` is the other end's.
fn address_of(answer: &[u8]) -> Option<IpAddr> {
    let (_, rest) = answer.split_at_checked(ADDRESS_BYTES)?;
    let own = attribute(rest, libc::IFA_LOCAL).or_else(|| attribute(rest, libc::IFA_ADDRESS));
    own.and_then(address_in)
}

/// The device that a vxlan is bound to, which it names in a place of its own.
fn device_of_vxlan(data: &[u8]) -> Option<u32> {
    attribute(data, VXLAN_LINK).and_then(|value| number_at(value, 0)).filter(|index| *index != 0)
}

/// What a device cuts into segments by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentationLimits {
    pub segments: u32,
    /// With all headers.
    pub bytes: u32,
}

/// What the device with this index cuts by itself.
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
    fn answers_that_are_cut_off_are_errors() {
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

    /// As Linux 6.18 answers for a VLAN `eth0.5` over device 4, a port of bridge 7.
    #[test]
    fn recorded_devices_are_understood() {
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
