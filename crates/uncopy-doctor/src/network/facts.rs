//! What findings about a path are drawn from.

use std::net::SocketAddr;

use super::tap::Tap;
use crate::found::{Detour, Doubt, Echo, Missing};
use uncopy_core::Errno;
use uncopy_os::capabilities::{Answer, Limit};
use uncopy_os::netlink::ethtool::Feature;
use uncopy_os::netlink::route::Route;
use uncopy_send::Transport;

/// A fact that could not be had. Without it nothing can be excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotSeen {
    /// Missing fact.
    pub(crate) what: Missing,
    /// Who was asked, and what came of it.
    pub(crate) source: &'static str,
    pub(crate) why: Doubt,
}

impl NotSeen {
    /// A question that was refused.
    pub(crate) fn refused(what: Missing, source: &'static str, errno: Errno) -> NotSeen {
        NotSeen { what, source, why: Doubt::Refused { errno } }
    }

    /// An answer that is not understood, or of which too little is known.
    pub(crate) fn doubt(what: Missing, source: &'static str, why: Doubt) -> NotSeen {
        NotSeen { what, source, why }
    }

    /// Whether root would be answered.
    pub(crate) fn needs_root(&self) -> bool {
        matches!(self.why, Doubt::Refused { errno: Errno::EPERM | Errno::EACCES })
    }
}

/// Something that sends packets, or copies of them, elsewhere than their route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Effect of the rule or filter.
    pub(crate) what: Detour,
    pub(crate) source: &'static str,
}

/// Everything that is known of a path.
#[derive(Debug, Clone)]
pub(crate) struct PathFacts {
    /// `None`: a device was named, whatever goes over it.
    pub(crate) transport: Option<Transport>,
    pub(crate) destination: Option<SocketAddr>,
    /// `None`: a device was named.
    pub(crate) route: Option<Result<Route, Errno>>,
    /// Why this machine receives what is sent too, though the route leads elsewhere.
    pub(crate) loops: Option<Echo>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) unseen: Vec<NotSeen>,
    /// Devices that packets pass: first the one that they leave through, then those below it.
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
    /// What its driver calls it; empty for hardware.
    pub(crate) kind: String,
    pub(crate) is_loopback: bool,
    pub(crate) is_up: bool,
    pub(crate) mtu: u32,
    pub(crate) offloads: Offloads,
    pub(crate) has_xdp: bool,
    /// Its queue disciplines.
    pub(crate) queues: Vec<String>,
    /// Kinds of filters for what leaves.
    pub(crate) egress_filters: Vec<String>,
    pub(crate) below: Below,
    /// Packets come in through it, and leave by another: it only shows them to taps.
    pub(crate) is_entered: bool,
    /// Packets are sent elsewhere before it gets them.
    pub(crate) is_left: bool,
}

/// What the network at the other end of a veth pair does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The address is one of its own.
    Receives,
    /// The address is none of its own.
    PassesOn,
    /// A program there sees them first (XDP), for which they are put together anew.
    Converts,
    /// It is down.
    Down,
    /// It was not asked, or may not be.
    Unknown(Option<Errno>),
}

/// What a device does itself. `None`: the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offloads {
    pub(crate) scatter_gather: Option<Feature>,
    pub(crate) fraglist: Option<Feature>,
    /// Of the destination's family, or of both.
    pub(crate) checksum: Option<Feature>,
    pub(crate) tcp_segmentation: Option<Feature>,
    pub(crate) udp_segmentation: Option<Feature>,
    /// Of packets inside tunnels over UDP.
    pub(crate) tunnel_segmentation: Option<Feature>,
}

/// Where a device passes packets on to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Below {
    /// To hardware, or to nobody.
    #[default]
    Nothing,
    /// To all of these.
    Devices(Vec<u32>),
    /// To one of these; which one is not known.
    OneOf(Vec<u32>),
    /// To a device beside it, above the same one, in another network.
    Beside,
    /// To a device that cannot be seen; why.
    Unseen(&'static str),
    /// To the other end of a veth pair.
    Peer(Peer),
}

/// What the kernel offers to who sends.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) release: String,
    pub(crate) version: [u32; 3],
    /// `SO_ZEROCOPY` can be set on such a socket.
    pub(crate) msg_zerocopy: Answer,
    /// io_uring can be used.
    pub(crate) io_uring: Answer,
    /// It knows `IORING_OP_SEND_ZC`.
    pub(crate) has_send_zc: bool,
}

/// What bounds how much may be in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) optmem_max_bytes: Option<u64>,
    pub(crate) memlock: Limit,
    /// `CAP_IPC_LOCK`: the limit on locked memory does not count.
    pub(crate) may_lock_beyond: bool,
}

/// What is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Bytes of each send.
    pub(crate) message_bytes: usize,
    /// Nobody said how many: they are what fits.
    pub(crate) is_usual: bool,
    /// The kernel is to cut each send into datagrams of so many bytes.
    pub(crate) segment_bytes: Option<u16>,
    /// Bytes that are lent at a time.
    pub(crate) in_flight_bytes: usize,
}

impl PathFacts {
    /// Whether the addresses are of IPv6; `false` where there is none.
    pub(crate) fn is_v6(&self) -> bool {
        self.destination.is_some_and(|to| to.is_ipv6())
    }

    /// The address is this machine's own.
    pub(crate) fn is_local(&self) -> bool {
        let routed = self.route.as_ref().is_some_and(|r| r.as_ref().is_ok_and(|r| r.is_local));
        routed || self.devices.first().is_some_and(|device| device.is_loopback)
    }

    /// The MTU that datagrams have to fit: the smallest of route and first device.
    pub(crate) fn mtu(&self) -> Option<u32> {
        let of_route = self.route.as_ref().and_then(|r| r.as_ref().ok()).and_then(|r| r.mtu);
        let of_device = self.devices.first().map(|device| device.mtu);
        of_route.into_iter().chain(of_device).min()
    }
}

/// Bytes of headers before a datagram's own.
pub(crate) const fn udp_header_bytes(is_v6: bool) -> usize {
    if is_v6 { 40 + 8 } else { 20 + 8 }
}

/// The longest datagram that is not cut into fragments.
pub(crate) fn largest_datagram(mtu: u32, is_v6: bool) -> usize {
    // The length in the header of a packet has 16 bits; IPv6 counts without its own header.
    let longest = if is_v6 { 65_535 - 8 } else { 65_535 - 28 };
    (mtu as usize).saturating_sub(udp_header_bytes(is_v6)).min(longest)
}
