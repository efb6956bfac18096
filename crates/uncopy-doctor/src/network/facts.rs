//! Facts about a path, from which findings are derived.

use std::net::SocketAddr;

use super::tap::Tap;
use crate::found::{Detour, Doubt, Echo, Missing};
use uncopy_core::Errno;
use uncopy_os::capabilities::{Answer, Limit};
use uncopy_os::netlink::ethtool::Feature;
use uncopy_os::netlink::route::Route;
use uncopy_send::Transport;

/// A fact that is not known. Without it a copy cannot be excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotSeen {
    /// Missing fact.
    pub(crate) what: Missing,
    /// Source that was queried.
    pub(crate) source: &'static str,
    pub(crate) why: Doubt,
}

impl NotSeen {
    /// Creates one for a refused request.
    pub(crate) fn refused(what: Missing, source: &'static str, errno: Errno) -> NotSeen {
        NotSeen { what, source, why: Doubt::Refused { errno } }
    }

    /// Creates one for an answer that is not understood or incomplete.
    pub(crate) fn doubt(what: Missing, source: &'static str, why: Doubt) -> NotSeen {
        NotSeen { what, source, why }
    }

    /// Whether root would get an answer.
    pub(crate) fn needs_root(&self) -> bool {
        matches!(self.why, Doubt::Refused { errno: Errno::EPERM | Errno::EACCES })
    }
}

/// A rule or filter that redirects packets or sends copies of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Effect of the rule or filter.
    pub(crate) what: Detour,
    pub(crate) source: &'static str,
}

/// All facts about a path.
#[derive(Debug, Clone)]
pub(crate) struct PathFacts {
    /// `None`: the target is a device.
    pub(crate) transport: Option<Transport>,
    pub(crate) destination: Option<SocketAddr>,
    /// `None`: the target is a device.
    pub(crate) route: Option<Result<Route, Errno>>,
    /// Reason why this machine also receives the packets, although the route leads to others.
    pub(crate) loops: Option<Echo>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) unseen: Vec<NotSeen>,
    /// Devices on the path: first the one that packets leave through, then the lower ones.
    pub(crate) devices: Vec<Device>,
    pub(crate) taps: Vec<Tap>,
    pub(crate) kernel: Kernel,
    pub(crate) limits: Limits,
    pub(crate) wanted: Wanted,
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// Kind that the driver reports; empty for hardware.
    pub(crate) kind: String,
    pub(crate) is_loopback: bool,
    pub(crate) is_up: bool,
    pub(crate) mtu: u32,
    pub(crate) offloads: Offloads,
    pub(crate) has_xdp: bool,
    /// Its queue disciplines.
    pub(crate) queues: Vec<String>,
    /// Kinds of egress filters.
    pub(crate) egress_filters: Vec<String>,
    pub(crate) below: Below,
    /// Whether packets enter through it and leave through another device: only its taps matter.
    pub(crate) is_entered: bool,
    /// Whether packets are redirected before it gets them.
    pub(crate) is_left: bool,
}

/// Handling of packets by the network at the other end of a veth pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It has the destination address.
    Receives,
    /// It does not have the destination address.
    PassesOn,
    /// An XDP program processes them first, for which the driver rebuilds them.
    Converts,
    /// It is down.
    Down,
    /// Its addresses were not read, or this user has no permission.
    Unknown(Option<Errno>),
}

/// Offloads of a device. `None`: the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offloads {
    pub(crate) scatter_gather: Option<Feature>,
    pub(crate) fraglist: Option<Feature>,
    /// Checksums for the destination's family, or for both.
    pub(crate) checksum: Option<Feature>,
    pub(crate) tcp_segmentation: Option<Feature>,
    pub(crate) udp_segmentation: Option<Feature>,
    /// Segmentation of packets inside UDP tunnels.
    pub(crate) tunnel_segmentation: Option<Feature>,
}

/// Devices that a device passes packets to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Below {
    /// None: hardware, or the packets end here.
    #[default]
    Nothing,
    /// All of these.
    Devices(Vec<u32>),
    /// One of these; which one is not known.
    OneOf(Vec<u32>),
    /// Another device on the same lower device, in another network namespace.
    Beside,
    /// A device that cannot be examined, with the reason.
    Unseen(&'static str),
    /// The other end of a veth pair.
    Peer(Peer),
}

/// Kernel features for sending.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) release: String,
    pub(crate) version: [u32; 3],
    /// Whether `SO_ZEROCOPY` can be set on such a socket.
    pub(crate) msg_zerocopy: Answer,
    /// Whether io_uring can be used.
    pub(crate) io_uring: Answer,
    /// Whether io_uring supports `IORING_OP_SEND_ZC`.
    pub(crate) has_send_zc: bool,
}

/// Limits on the bytes in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) optmem_max_bytes: Option<u64>,
    pub(crate) memlock: Limit,
    /// Whether the limit on locked memory does not apply (`CAP_IPC_LOCK`).
    pub(crate) may_lock_beyond: bool,
}

/// Sizes of the examined sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Bytes of each send.
    pub(crate) message_bytes: usize,
    /// Whether the size is the default, not chosen by the caller.
    pub(crate) is_usual: bool,
    /// Bytes of the datagrams that the kernel splits each send into.
    pub(crate) segment_bytes: Option<u16>,
    /// Bytes in flight.
    pub(crate) in_flight_bytes: usize,
}

impl Wanted {
    /// Returns the size of the longest datagrams of each send.
    pub(crate) fn datagram_bytes(&self) -> usize {
        let segment = self.segment_bytes.map_or(usize::MAX, usize::from);
        self.message_bytes.min(segment)
    }
}

impl PathFacts {
    /// Whether the destination is an IPv6 address; `false` if there is no destination.
    pub(crate) fn is_v6(&self) -> bool {
        self.destination.is_some_and(|to| to.is_ipv6())
    }

    /// Whether the destination is this machine.
    pub(crate) fn is_local(&self) -> bool {
        let routed = self.route.as_ref().is_some_and(|r| r.as_ref().is_ok_and(|r| r.is_local));
        routed || self.devices.first().is_some_and(|device| device.is_loopback)
    }

    /// Returns the MTU for datagrams: the smaller one of route and first device.
    pub(crate) fn mtu(&self) -> Option<u32> {
        let of_route = self.route.as_ref().and_then(|r| r.as_ref().ok()).and_then(|r| r.mtu);
        let of_device = self.devices.first().map(|device| device.mtu);
        of_route.into_iter().chain(of_device).min()
    }
}

/// Returns the size of the headers of a datagram.
pub(crate) const fn udp_header_bytes(is_v6: bool) -> usize {
    if is_v6 { 40 + 8 } else { 20 + 8 }
}

/// Returns the size of the largest datagram that is not fragmented.
pub(crate) fn largest_datagram(mtu: u32, is_v6: bool) -> usize {
    (mtu as usize).saturating_sub(udp_header_bytes(is_v6)).min(longest_datagram(is_v6))
}

/// Returns the size of the longest datagram. The length field has 16 bits; for IPv6 it does not include the IPv6 header.
pub(crate) fn longest_datagram(is_v6: bool) -> usize {
    if is_v6 { 65_535 - 8 } else { 65_535 - 28 }
}
