//! Known bytes of packet headers before packets are sent. Pure.

use std::net::IpAddr;

use uncopy_os::netlink::route::{Cast, Flow, Route};

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// Known size of the transport header, which begins with the ports.
const TRANSPORT_BYTES: usize = 20;

/// A byte, with a mask of its known bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Byte {
    pub(super) value: u8,
    pub(super) known: u8,
}

/// Whether a packet matches a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    Maybe,
}

/// Properties that all packets of a flow have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Packet {
    /// `None`: another header precedes the network header.
    pub(super) is_v6: Option<bool>,
    pub(super) protocol: Option<u8>,
    pub(super) mark: Option<u32>,
    /// Index and name of the outgoing device.
    pub(super) device: Option<(u32, String)>,
    /// Kind of the destination address: `RTN_UNICAST` and others.
    pub(super) address_kind: Option<u8>,
    network: Vec<Byte>,
    transport: Vec<Byte>,
}

impl Byte {
    pub(super) const fn of(value: u8) -> Byte {
        Byte { value, known: 0xff }
    }
}

/// Marks bytes as completely known.
pub(super) fn known(bytes: &[u8]) -> Vec<Byte> {
    bytes.iter().copied().map(Byte::of).collect()
}

/// Returns the values, if every bit is known.
pub(super) fn values(bytes: &[Byte]) -> Option<Vec<u8>> {
    bytes.iter().map(|byte| (byte.known == 0xff).then_some(byte.value)).collect()
}

/// Compares bytes with values, as far as they are known.
pub(super) fn equal(bytes: &[Byte], wanted: &[u8]) -> Match {
    let mut found = if bytes.len() < wanted.len() { Match::Maybe } else { Match::Yes };
    for (byte, wanted) in bytes.iter().zip(wanted) {
        match (byte.value ^ wanted) & byte.known {
            0 if byte.known == 0xff => {}
            0 => found = Match::Maybe,
            _ => return Match::No,
        }
    }
    found
}

impl Packet {
    pub(super) fn of(flow: &Flow, route: &Route) -> Packet {
        let source = flow.source.or(route.source);
        let transport = {
            let mut bytes = vec![Byte::default(); TRANSPORT_BYTES];
            for (at, port) in [(0, flow.source_port), (2, flow.port)] {
                if port != 0 {
                    bytes[at..at + 2].copy_from_slice(&known(&port.to_be_bytes()));
                }
            }
            bytes
        };
        Packet {
            is_v6: Some(flow.to.is_ipv6()),
            protocol: (flow.protocol != 0).then_some(flow.protocol),
            mark: Some(flow.mark),
            device: None,
            address_kind: Some(match route.cast {
                _ if route.is_local => libc::RTN_LOCAL,
                Cast::Unicast => libc::RTN_UNICAST,
                Cast::Broadcast => libc::RTN_BROADCAST,
                Cast::Multicast => libc::RTN_MULTICAST,
            }),
            network: header(flow.to, source, flow.protocol),
            transport,
        }
    }

    /// Sets the outgoing device.
    pub(super) fn through(mut self, index: u32, name: &str) -> Packet {
        self.device = Some((index, name.to_owned()));
        self
    }

    /// Marks the destination as unknown.
    pub(super) fn forget_destination(&mut self) {
        let at = if self.is_v6 == Some(true) { 24 } else { 16 };
        self.network.iter_mut().skip(at).for_each(|byte| *byte = Byte::default());
        self.transport.iter_mut().skip(2).for_each(|byte| *byte = Byte::default());
        self.address_kind = None;
    }

    /// Returns the packets encapsulated or tagged, with unknown headers.
    pub(super) fn wrapped(&self) -> Packet {
        Packet { mark: self.mark, ..Packet::default() }
    }

    /// Returns bytes of the network or transport header.
    pub(super) fn load(&self, is_transport: bool, at: usize, length: usize) -> Vec<Byte> {
        let header = if is_transport { &self.transport } else { &self.network };
        (at..at + length).map(|at| header.get(at).copied().unwrap_or_default()).collect()
    }
}

fn header(to: IpAddr, source: Option<IpAddr>, protocol: u8) -> Vec<Byte> {
    let mut put: Vec<(usize, Vec<u8>)> = Vec::new();
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (length, at_protocol, at_source, at_destination) = match to {
        IpAddr::V4(_) => (IPV4_BYTES, 9, 12, 16),
        IpAddr::V6(_) => (IPV6_BYTES, 6, 8, 24),
    };
    let mut bytes = vec![Byte::default(); length];
    bytes[0] = match to {
        // Version and header length, assuming no IP options.
        IpAddr::V4(_) => Byte::of(0x45),
        IpAddr::V6(_) => Byte { value: 0x60, known: 0xf0 },
    };
    put.push((at_destination, octets(to)));
    if let Some(source) = source.filter(|source| source.is_ipv4() == to.is_ipv4()) {
        put.push((at_source, octets(source)));
    }
    if protocol != 0 {
        put.push((at_protocol, vec![protocol]));
    }
    for (at, values) in put {
        bytes[at..at + values.len()].copy_from_slice(&known(&values));
    }
    bytes
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn flow(to: &str, port: u16) -> Flow {
        Flow {
            source: None,
            protocol: libc::IPPROTO_UDP as u8,
            port,
            ..Flow::to(to.parse().unwrap(), 0)
        }
    }

    #[test]
    fn headers_are_known_where_the_flow_says() {
        let route = Route { source: "10.0.0.1".parse().ok(), ..Route::default() };
        let packet = Packet::of(&flow("10.0.0.2", 9), &route);
        let load = |is_transport, at, length| values(&packet.load(is_transport, at, length));
        assert_eq!(load(false, 9, 1), Some(vec![17]));
        assert_eq!(load(false, 12, 8), Some(vec![10, 0, 0, 1, 10, 0, 0, 2]));
        assert_eq!(load(true, 2, 2), Some(vec![0, 9]));
        assert_eq!(load(true, 0, 2), None, "the kernel chooses the port");
        assert_eq!(load(false, 8, 1), None, "the time to live is unknown");
        assert_eq!(load(true, 30, 2), None);
        let packet = Packet::of(&flow("fd11::2", 9), &Route::default());
        assert_eq!(values(&packet.load(false, 6, 1)), Some(vec![17]));
        assert_eq!(values(&packet.load(false, 8, 1)), None);
        assert_eq!(packet.wrapped().is_v6, None);
    }

    #[test]
    fn bytes_are_compared_as_far_as_they_are_known() {
        let half = Byte { value: 0x60, known: 0xf0 };
        for (bytes, wanted, expected) in [
            (vec![Byte::of(1), Byte::of(2)], vec![1, 2], Match::Yes),
            (vec![Byte::of(1), Byte::of(2)], vec![1, 3], Match::No),
            (vec![Byte::of(1), Byte::default()], vec![1, 3], Match::Maybe),
            (vec![Byte::default(), Byte::of(2)], vec![1, 3], Match::No),
            (vec![half], vec![0x61], Match::Maybe),
            (vec![half], vec![0x41], Match::No),
            (vec![], vec![1], Match::Maybe),
        ] {
            assert_eq!(equal(&bytes, &wanted), expected, "{bytes:?} {wanted:?}");
        }
    }
}
