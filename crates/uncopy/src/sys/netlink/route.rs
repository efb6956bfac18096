//! Routes, devices and queue disciplines (`rtnetlink(7)`).

use std::net::IpAddr;

use super::{Netlink, Question, attribute, attributes, number_at, text};
use crate::error::Errno;
use crate::sys::Sys;

/// `struct rtmsg`, `struct ifinfomsg` and `struct tcmsg` (`linux/rtnetlink.h`).
const ROUTE_BYTES: usize = 12;
const LINK_BYTES: usize = 16;
const QUEUE_BYTES: usize = 20;
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
/// The parent of filters for what leaves: `TC_H_CLSACT` and `TC_H_MIN_EGRESS`
/// (`linux/pkt_sched.h`).
const EGRESS: u32 = 0xFFFF_FFF3;

/// The way to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// Index of the device.
    pub(crate) device: u32,
    /// The address is this machine's own.
    pub(crate) is_local: bool,
    /// Through a gateway.
    pub(crate) gateway: Option<IpAddr>,
    /// An MTU of its own.
    pub(crate) mtu: Option<u32>,
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// `IFF_UP` and others (`netdevice(7)`).
    pub(crate) flags: u32,
    pub(crate) mtu: u32,
    /// What its driver calls it (`veth`, `bridge`); `None` for most hardware.
    pub(crate) kind: Option<String>,
    /// The device below, or for a veth the other end.
    pub(crate) link: Option<u32>,
    /// The number that the other network namespace has here in which that device is; `None`: it is
    /// in this one.
    pub(crate) link_network: Option<i32>,
    /// The bridge or bond that it belongs to.
    pub(crate) master: Option<u32>,
    /// An XDP program is attached.
    pub(crate) has_xdp: bool,
}

/// The way that this process's packets take to `address`; `scope` is the device of a link-local
/// address, or 0.
pub(crate) fn route_to(address: IpAddr, scope: u32) -> Sys<Route> {
    let (family, destination) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    // Family, and the length of the destination in bits; all others zero.
    let mut fixed = [0; ROUTE_BYTES];
    (fixed[0], fixed[1]) = (family as u8, (destination.len() * 8) as u8);
    let mut question = Question::new(libc::RTM_GETROUTE, &fixed).with(libc::RTA_DST, &destination);
    if scope != 0 {
        question = question.with(libc::RTA_OIF, &scope.to_ne_bytes());
    }
    let answers = Netlink::open(None)?.ask(question)?;
    route_in(answers.first().ok_or(Errno::EIO)?)
}

fn route_in(answer: &[u8]) -> Sys<Route> {
    let (fixed, rest) = answer.split_at_checked(ROUTE_BYTES).ok_or(Errno::EIO)?;
    let number = |kind| attribute(rest, kind).and_then(|value| number_at(value, 0));
    let metrics = attribute(rest, libc::RTA_METRICS).unwrap_or_default();
    Ok(Route {
        device: number(libc::RTA_OIF).ok_or(Errno::ENODEV)?,
        is_local: fixed[7] == libc::RTN_LOCAL,
        gateway: attribute(rest, libc::RTA_GATEWAY).and_then(address_in),
        mtu: attribute(metrics, METRIC_MTU).and_then(|value| number_at(value, 0)),
    })
}

pub(super) fn address_in(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Every device of this network namespace.
pub(crate) fn links() -> Sys<Vec<Link>> {
    let question = Question::new(libc::RTM_GETLINK, &[0; LINK_BYTES])
        .with(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes())
        .dump();
    let answers = Netlink::open(None)?.ask(question)?;
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
                if link.kind.as_deref() == Some("vxlan") {
                    link.link = device_of_vxlan(value).or(link.link);
                }
            }
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

/// Whether an address belongs to another network namespace, which has this number here.
///
/// # Errors
/// `EPERM`: without CAP_NET_ADMIN there. Kernels before Linux 5.0 cannot be asked.
pub(crate) fn is_address_of(network: i32, address: IpAddr) -> Sys<bool> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut fixed = [0; ADDRESS_BYTES];
    fixed[0] = family as u8;
    let question = Question::new(libc::RTM_GETADDR, &fixed)
        .with(ADDRESS_NETWORK, &network.to_ne_bytes())
        .dump();
    let netlink = Netlink::open(None)?;
    // Else the number of the network is passed over, and one's own addresses are told.
    netlink.check_strictly()?;
    let answers = netlink.ask(question)?;
    Ok(answers.iter().any(|answer| address_of(answer) == Some(address)))
}

/// The address of a device: of a point-to-point link `IFA_ADDRESS` is the other end's.
fn address_of(answer: &[u8]) -> Option<IpAddr> {
    let (_, rest) = answer.split_at_checked(ADDRESS_BYTES)?;
    let own = attribute(rest, libc::IFA_LOCAL).or_else(|| attribute(rest, libc::IFA_ADDRESS));
    own.and_then(address_in)
}

/// The device that a vxlan is bound to, which it names in a place of its own.
fn device_of_vxlan(info: &[u8]) -> Option<u32> {
    let data = attribute(info, libc::IFLA_INFO_DATA)?;
    attribute(data, VXLAN_LINK).and_then(|value| number_at(value, 0)).filter(|index| *index != 0)
}

/// What a device cuts into segments by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trains {
    pub(crate) segments: u32,
    /// With all headers.
    pub(crate) bytes: u32,
}

/// What the device with this index cuts by itself.
pub(crate) fn trains_of(device: u32) -> Sys<Trains> {
    let mut fixed = [0; LINK_BYTES];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    let question = Question::new(libc::RTM_GETLINK, &fixed)
        .with(libc::IFLA_EXT_MASK, &SKIP_STATISTICS.to_ne_bytes());
    let answers = Netlink::open(None)?.ask(question)?;
    trains_in(answers.first().ok_or(Errno::EIO)?)
}

fn trains_in(answer: &[u8]) -> Sys<Trains> {
    let (_, rest) = answer.split_at_checked(LINK_BYTES).ok_or(Errno::EIO)?;
    let number = |kind| attribute(rest, kind).and_then(|value| number_at(value, 0));
    let find = |kind| number(kind).ok_or(Errno::ENODATA);
    Ok(Trains { segments: find(LINK_MAX_SEGMENTS)?, bytes: find(LINK_MAX_BYTES)? })
}

/// A queue discipline of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) device: u32,
    /// `pfifo_fast`, `tbf`, `clsact`.
    pub(crate) kind: String,
}

/// Queue disciplines of all devices.
pub(crate) fn queues() -> Sys<Vec<Queue>> {
    let question = Question::new(libc::RTM_GETQDISC, &[0; QUEUE_BYTES]).dump();
    let answers = Netlink::open(None)?.ask(question)?;
    let queue = |answer: &Vec<u8>| {
        let (fixed, rest) = answer.split_at_checked(QUEUE_BYTES)?;
        Some(Queue {
            device: number_at(fixed, 4)?,
            kind: attribute(rest, libc::TCA_KIND).map(text)?,
        })
    };
    Ok(answers.iter().filter_map(queue).collect())
}

/// Kinds of the filters that see what leaves through a device with a `clsact` discipline.
pub(crate) fn egress_filters(device: u32) -> Sys<Vec<String>> {
    let mut fixed = [0; QUEUE_BYTES];
    fixed[4..8].copy_from_slice(&device.to_ne_bytes());
    fixed[12..16].copy_from_slice(&EGRESS.to_ne_bytes());
    let answers = Netlink::open(None)?.ask(Question::new(libc::RTM_GETTFILTER, &fixed).dump())?;
    let kind = |answer: &Vec<u8>| {
        let (fixed, rest) = answer.split_at_checked(QUEUE_BYTES)?;
        // Without a handle it is the head of a list.
        let is_filter = number_at(fixed, 8)? != 0;
        is_filter.then(|| attribute(rest, libc::TCA_KIND).map(text)).flatten()
    };
    Ok(answers.iter().filter_map(kind).collect())
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
            let Trains { segments, bytes } = trains_of(route.device).unwrap();
            assert!(segments >= 64 && bytes >= 65_535, "{segments} {bytes}");
        }
        assert!(queues().is_ok());
    }

    #[test]
    fn answers_that_are_cut_off_are_errors() {
        let whole = [0; ROUTE_BYTES];
        for end in 0..whole.len() {
            assert!(route_in(&whole[..end]).is_err());
        }
        assert_eq!(route_in(&whole), Err(Errno::ENODEV), "a route without a device");
        assert_eq!(link_in(&[0; LINK_BYTES - 1]), None);
        assert_eq!(trains_in(&[0; LINK_BYTES - 1]), Err(Errno::EIO));
        assert_eq!(trains_in(&[0; LINK_BYTES]), Err(Errno::ENODATA));
        assert_eq!(trains_of(u32::MAX >> 1), Err(Errno::ENODEV));
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
