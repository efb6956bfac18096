//! Why sends are copied, or not.

mod facts;
mod findings;
mod gather;
mod probe;
pub(super) mod sockets;
mod tap;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use probe::{GREETING, HELLO, Probe};

use facts::{Facts, Wanted, largest_datagram, shown};

use super::Options;
use super::finding::Finding;
use super::report::{Fact, Report};
use crate::error::{Errno, Error, Result};
use crate::send::{Transport, train_bytes};
use crate::sys::inet::scope;
use crate::sys::netlink::route;

/// Bytes of a send over TCP, if nobody says.
const TCP_MESSAGE_BYTES: usize = 64 << 10;
/// Sends after which a sender reads its reports: so many are in flight, if nobody says.
const SENDS_IN_FLIGHT: usize = 16;

/// What there is to say about sending to an address.
pub(super) fn address(transport: Transport, to: SocketAddr, options: &Options) -> Report {
    let wanted = wanted(transport, to, options);
    let facts = gather::to_address(transport, to, wanted);
    let mut found = findings::findings(&facts);
    let mut told = told(&facts);
    probe::probe(transport, to, wanted, options.probe, &mut found, &mut told);
    let target = format!("{}://{}", transport.name(), shown(to));
    let through = facts.devices.first().map(|device| format!(" through {}", device.name));
    let name = transport.name().to_uppercase();
    let subject = format!("{name} to {}{}", shown(to), through.unwrap_or_default());
    Report::conclude(target, &subject, found, told)
}

/// The index of the network device of this name.
pub(super) fn device_index(name: &str) -> Option<u32> {
    let links = route::links().unwrap_or_default();
    links.iter().find(|link| link.name == name).map(|link| link.index)
}

/// What there is to say about sending over a device.
pub(super) fn device(name: &str, options: &Options) -> Result<Report> {
    let wanted = Wanted {
        message_bytes: options.message_bytes.unwrap_or(TCP_MESSAGE_BYTES),
        segment_bytes: options.segment_bytes,
        in_flight_bytes: 0,
    };
    let facts = gather::over_device(name, wanted)
        .ok_or_else(|| Error::system("find the network device", name, Errno::ENODEV))?;
    let found = findings::findings(&facts);
    Ok(Report::conclude(
        name.to_owned(),
        &format!("What leaves through {name}"),
        found,
        told(&facts),
    ))
}

fn wanted(transport: Transport, to: SocketAddr, options: &Options) -> Wanted {
    let message =
        options.message_bytes.unwrap_or_else(|| match (transport, options.segment_bytes) {
            (Transport::Tcp, _) => TCP_MESSAGE_BYTES,
            (Transport::Udp, Some(segment)) => train_bytes(segment, to.is_ipv6()),
            (Transport::Udp, None) => largest_unfragmented(to),
        });
    Wanted {
        message_bytes: message,
        segment_bytes: options.segment_bytes.filter(|_| transport == Transport::Udp),
        in_flight_bytes: options
            .in_flight_bytes
            .unwrap_or_else(|| message.saturating_mul(SENDS_IN_FLIGHT)),
    }
}

/// The longest datagram that goes to an address in one piece.
fn largest_unfragmented(to: SocketAddr) -> usize {
    let route = route::route_to(to.ip(), scope(to)).ok();
    let links = route::links().unwrap_or_default();
    let mtu = route.and_then(|route| {
        let device = links.iter().find(|link| link.index == route.device)?;
        Some(route.mtu.unwrap_or(device.mtu).min(device.mtu))
    });
    largest_datagram(mtu.unwrap_or(u32::MAX), to.is_ipv6())
}

/// What was looked at.
fn told(facts: &Facts) -> Vec<Fact> {
    let mut told = Vec::new();
    let mut tell = |name, value| told.push(Fact { name, value });
    if let Some(Ok(route)) = &facts.route {
        let by = route.gateway.map(|by| format!(", by the gateway {by}")).unwrap_or_default();
        let device = facts.devices.first().map_or("", |device| &device.name);
        tell("route", format!("through {device}{by}"));
    }
    for device in &facts.devices {
        let kind = if device.kind.is_empty() { "no kind of its own" } else { &device.kind };
        let on = |feature: Option<crate::sys::netlink::ethtool::Feature>| match feature {
            None => "not known",
            Some(feature) if feature.is_active => "on",
            Some(_) => "off",
        };
        let offloads = &device.offloads;
        tell(
            "device",
            format!(
                "{} ({kind}), MTU {}, scatter-gather {}, checksums {}, TSO {}, USO {}",
                device.name,
                device.mtu,
                on(offloads.scatter_gather),
                on(offloads.checksum),
                on(offloads.tcp_segmentation),
                on(offloads.udp_segmentation),
            ),
        );
    }
    tell("taps", format!("{} packet sockets", facts.taps.len()));
    if facts.transport.is_some() {
        let wanted = facts.wanted;
        let sizes = format!(
            "sends of {} bytes, {} bytes in flight",
            wanted.message_bytes, wanted.in_flight_bytes
        );
        tell("wanted", sizes);
    }
    tell("kernel", format!("Linux {}", facts.kernel.release));
    told
}

/// What the kernel as such has to say to who sends.
pub(super) fn kernel() -> Vec<Finding> {
    let facts = Facts {
        transport: None,
        destination: None,
        route: None,
        devices: Vec::new(),
        taps: Vec::new(),
        kernel: gather::kernel(None, false),
        limits: gather::limits(),
        wanted: Wanted { message_bytes: 0, segment_bytes: None, in_flight_bytes: 0 },
    };
    findings::findings(&facts)
}

/// Names of the devices that packets to the rest of the world leave through: to addresses that are
/// for documentation (RFC 5737, RFC 3849), which nothing is sent to.
pub(super) fn outward_devices() -> Vec<String> {
    const ELSEWHERE: [IpAddr; 2] = [
        IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ];
    let routes = ELSEWHERE.into_iter().filter_map(|to| route::route_to(to, 0).ok());
    let indices: Vec<u32> = routes.filter(|route| !route.is_local).map(|r| r.device).collect();
    let links = route::links().unwrap_or_default();
    let outward = links.iter().filter(|link| indices.contains(&link.index));
    outward.map(|link| link.name.clone()).collect()
}

#[cfg(fuzzing)]
pub(super) fn fuzz(line: &str) {
    sockets::fuzz(line);
    tap::fuzz(line);
}
