//! Examines sends over TCP and UDP.

mod facts;
mod filter;
mod findings;
mod firewall;
mod gather;
mod machine;
mod packet;
mod path;
mod probe;
mod routes;
pub(super) mod sockets;
mod tap;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use probe::{GREETING, HELLO, Probe};

use facts::{PathFacts, Wanted, largest_datagram};
use machine::Machine;
use path::Sending;

use super::Options;
use super::address::shown;
use super::finding::DoctorFinding;
use super::report::{Report, ReportFact};
use uncopy_core::{Errno, Error, Result};
use uncopy_os::netlink::route;
use uncopy_send::{Transport, train_bytes};

/// Default size of a TCP send.
const TCP_MESSAGE_BYTES: usize = 64 << 10;
/// Default number of sends in flight, after which a sender reads its reports.
const SENDS_IN_FLIGHT: usize = 16;

/// Examines sending to an address.
pub(super) fn address(transport: Transport, to: SocketAddr, options: &Options) -> Report {
    sending(&Machine::look(), Sending::to(transport, to), to, options)
}

/// Examines the sends of a socket. `named` is the address as given by the caller.
fn sending(machine: &Machine, sending: Sending, named: SocketAddr, options: &Options) -> Report {
    let (transport, to) = (sending.transport, sending.to);
    let wanted = wanted(&sending, options);
    let ways = path::of_sending(machine, sending, wanted);
    let mut found = findings::agreed(&ways);
    let mut facts_shown = report_facts(&ways);
    if options.segment_bytes.is_some() && transport == Transport::Tcp {
        let value = "not used: a stream has no datagrams".to_owned();
        facts_shown.push(ReportFact { name: "segment", value });
    }
    probe::probe(transport, to, wanted, options.probe, &mut found, &mut facts_shown);
    let target = format!("{}://{}", transport.name(), shown(named));
    let first = ways.first().and_then(|way| way.devices.first());
    let through = match ways.len() {
        1 => first.map(|device| format!(" through {}", device.name)),
        _ => None,
    };
    let name = transport.name().to_uppercase();
    let subject = format!("{name} to {}{}", shown(named), through.unwrap_or_default());
    Report::conclude(target, &subject, found, facts_shown)
}

/// Returns the index of the network device of this name.
pub(super) fn device_index(name: &str) -> Option<u32> {
    let links = route::links().unwrap_or_default();
    links.iter().find(|link| link.name == name).map(|link| link.index)
}

/// Examines sending over a device.
pub(super) fn device(name: &str, options: &Options) -> Result<Report> {
    let wanted = Wanted {
        message_bytes: options.message_bytes.unwrap_or(TCP_MESSAGE_BYTES),
        is_usual: options.message_bytes.is_none(),
        segment_bytes: options.segment_bytes,
        in_flight_bytes: 0,
    };
    let ways = path::over_device(&Machine::look(), name, wanted)
        .ok_or_else(|| Error::system("find the network device", name, Errno::ENODEV))?;
    let found = findings::agreed(&ways);
    Ok(Report::conclude(
        name.to_owned(),
        &format!("What leaves through {name}"),
        found,
        report_facts(&ways),
    ))
}

fn wanted(sending: &Sending, options: &Options) -> Wanted {
    let (transport, to) = (sending.transport, sending.to);
    let message =
        options.message_bytes.unwrap_or_else(|| match (transport, options.segment_bytes) {
            (Transport::Tcp, _) => TCP_MESSAGE_BYTES,
            // At least one datagram, also where no packet can hold it.
            (Transport::Udp, Some(segment)) => {
                train_bytes(segment, to.is_ipv6()).max(segment.into())
            }
            (Transport::Udp, None) => largest_unfragmented(to, sending.device),
        });
    Wanted {
        message_bytes: message,
        is_usual: options.message_bytes.is_none() && options.segment_bytes.is_none(),
        segment_bytes: options.segment_bytes.filter(|_| transport == Transport::Udp),
        in_flight_bytes: options
            .in_flight_bytes
            .unwrap_or_else(|| message.saturating_mul(SENDS_IN_FLIGHT)),
    }
}

/// Returns the size of the largest datagram to an address that is not fragmented.
fn largest_unfragmented(to: SocketAddr, device: u32) -> usize {
    let route = route::route_to(to.ip(), device).ok();
    let links = route::links().unwrap_or_default();
    let mtu = route.and_then(|route| {
        let device = links.iter().find(|link| link.index == route.device)?;
        Some(route.mtu.unwrap_or(device.mtu).min(device.mtu))
    });
    largest_datagram(mtu.unwrap_or(u32::MAX), to.is_ipv6())
}

/// Returns the examined facts for the report.
fn report_facts(ways: &[PathFacts]) -> Vec<ReportFact> {
    let mut facts_shown: Vec<ReportFact> = Vec::new();
    let mut add = |name, value| {
        let fact = ReportFact { name, value };
        if !facts_shown.contains(&fact) {
            facts_shown.push(fact);
        }
    };
    for facts in ways {
        if let Some(Ok(route)) = &facts.route {
            let by = route.gateway.map(|by| format!(", by the gateway {by}")).unwrap_or_default();
            let device = facts.devices.first().map_or("", |device| &device.name);
            add("route", format!("through {device}{by}"));
        }
        for turn in &facts.turns {
            add("turn", turn.what.to_string());
        }
        for device in &facts.devices {
            add("device", described(device));
        }
    }
    let Some(facts) = ways.first() else { return facts_shown };
    add("taps", format!("{} packet sockets", facts.taps.len()));
    if facts.transport.is_some() {
        let wanted = facts.wanted;
        let sizes = format!(
            "sends of {} bytes, {} bytes in flight",
            wanted.message_bytes, wanted.in_flight_bytes
        );
        add("wanted", sizes);
    }
    add("kernel", format!("Linux {}", facts.kernel.release));
    facts_shown
}

fn described(device: &facts::Device) -> String {
    let kind = if device.kind.is_empty() { "no kind" } else { &device.kind };
    let on = |feature: Option<uncopy_os::netlink::ethtool::Feature>| match feature {
        None => "not known",
        Some(feature) if feature.is_active => "on",
        Some(_) => "off",
    };
    let offloads = &device.offloads;
    format!(
        "{} ({kind}), MTU {}, scatter-gather {}, checksums {}, TSO {}, USO {}",
        device.name,
        device.mtu,
        on(offloads.scatter_gather),
        on(offloads.checksum),
        on(offloads.tcp_segmentation),
        on(offloads.udp_segmentation),
    )
}

/// Returns the findings about the kernel that do not depend on a path.
pub(super) fn kernel() -> Vec<DoctorFinding> {
    let facts = PathFacts {
        transport: None,
        destination: None,
        route: None,
        loops: None,
        turns: Vec::new(),
        unseen: Vec::new(),
        devices: Vec::new(),
        taps: Vec::new(),
        kernel: gather::kernel(None, false),
        limits: gather::limits(),
        wanted: Wanted {
            message_bytes: 0,
            is_usual: true,
            segment_bytes: None,
            in_flight_bytes: 0,
        },
    };
    findings::findings(&facts)
}

/// Returns the names of the devices of routes to other machines, looked up for documentation addresses
/// (RFC 5737, RFC 3849). Nothing is sent.
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
pub(crate) fn fuzz(line: &str) {
    machine::fuzz(line);
    sockets::fuzz(line);
    tap::fuzz(line);
}
