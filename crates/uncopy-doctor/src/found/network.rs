//! Facts about a path through the network.

use std::net::{IpAddr, SocketAddr};

use super::{Detour, Doubt, Missing};
use crate::address::shown;
use crate::worded::worded;

worded! {
    /// Reason why this machine receives what it sends to others.
    ///
    /// Displayed as a clause.
    pub enum Echo {
        /// The destination is a broadcast address.
        Everybody {
            /// Address that is sent to.
            to: IpAddr,
        } = "{to} is a broadcast address, and this machine receives it too";
        /// This machine is a member of the group.
        Member {
            /// Address of the group.
            group: IpAddr,
        } = "this machine is a member of the group {group}";
    }
}

worded! {
    /// Fact about a path through the network.
    ///
    /// Displayed as a clause.
    pub enum NetworkFound {
        /// Some paths copy and others do not.
        WaysDiffer {
            /// Number of paths that copy.
            copied: usize,
            /// Number of all paths.
            ways: usize,
        } = "packets are copied on {copied} of {ways} paths";
        /// The kernel has no route.
        NoRoute {
            /// Address that was asked about.
            to: SocketAddr,
        } = "there is no route to {to}", to = shown(*to);
        /// Rule or filter that redirects packets.
        Turned {
            /// Effect of the rule or filter.
            detour: Detour,
        } = "{detour}";
        /// Fact that this user may not read.
        NotRead {
            /// Missing fact.
            what: Missing,
        } = "{what}: no permission to read";
        /// Fact that is unknown for another reason.
        NotTold {
            /// Missing fact.
            what: Missing,
            /// Reason why it is missing.
            why: Doubt,
        } = "{what}: unknown, because {why}";
        /// The address is this machine's own.
        OwnAddress {
            /// Address that was asked about.
            to: SocketAddr,
        } = "{to} is on this machine", to = shown(*to);
        /// The device that was asked about leads back to this machine.
        LoopbackDevice = "the loopback device is on this machine";
        /// Packets return to this machine over a device of the path.
        ComesBack {
            /// Name of the device.
            device: String,
        } = "packets return to this machine through {device}";
        /// This machine receives its own multicast or broadcast packets.
        Echoed {
            /// Reason why it does.
            echo: Echo,
        } = "{echo}";
        /// A device is down.
        DeviceDown {
            /// Name of the device.
            device: String,
        } = "{device} is down";
        /// A socket behind a veth pair receives.
        VethReceives {
            /// Name of the near end.
            device: String,
        } = "a socket of this machine receives the packets of {device}";
        /// The other end of a veth pair passes packets on.
        VethPassesOn {
            /// Name of the near end.
            device: String,
        } = "{device} is one end of a veth pair, and the other end forwards packets";
        /// An XDP program at the other end of a veth pair sees packets first.
        VethConverts {
            /// Name of the near end.
            device: String,
        } = "an XDP program processes the packets of {device}";
        /// The other end of a veth pair is down.
        VethDown {
            /// Name of the near end.
            device: String,
        } = "the other end of {device} is down";
        /// The other end of a veth pair cannot be seen.
        VethNotSeen {
            /// Name of the near end.
            device: String,
        } = "{device} is one end of a veth pair, whose other end cannot be examined";
        /// A macvlan device hands packets to one above the same device.
        Beside {
            /// Name of the device.
            device: String,
        } = "{device} delivers packets to another macvlan device";
        /// A device hands packets to a program.
        ToProgram {
            /// Name of the device.
            device: String,
        } = "{device} passes packets to a program";
        /// A device lies on top of others.
        Stacked {
            /// Name of the device.
            device: String,
            /// Kind of the device.
            kind: String,
        } = "{device} ({kind}) is on top of other devices";
        /// A device lies on top of some that cannot be seen.
        StackedUnseen {
            /// Name of the device.
            device: String,
            /// Kind of the device.
            kind: String,
        } = "the lower device of {device} ({kind}) cannot be examined";
        /// An XDP program sees what a device receives.
        Xdp {
            /// Name of the device.
            device: String,
        } = "an XDP program is attached to {device}";
        /// A device takes each packet in one piece.
        NoScatterGather {
            /// Name of the device.
            device: String,
        } = "{device} has no scatter-gather";
        /// A device leaves checksums to the kernel.
        NoChecksum {
            /// Name of the device.
            device: String,
        } = "{device} does not compute checksums";
        /// A device leaves segments of TCP to the kernel.
        NoTcpSegmentation {
            /// Name of the device.
            device: String,
        } = "{device} has no TCP segmentation offload";
        /// A device leaves trains of datagrams to the kernel.
        NoUdpSegmentation {
            /// Name of the device.
            device: String,
        } = "{device} has no UDP segmentation offload";
        /// A device takes no lists of packets.
        NoFraglist {
            /// Name of the device.
            device: String,
        } = "{device} does not support lists of packets";
        /// A device does not look into a tunnel.
        NoTunnelOffload {
            /// Name of the device.
            device: String,
            /// Name of the tunnel's device.
            tunnel: String,
        } = "{device} has no offload for packets inside {tunnel}";
        /// Queue disciplines let packets wait.
        QueueHolds {
            /// Name of the device.
            device: String,
            /// Kinds of the disciplines.
            disciplines: Vec<String>,
        } = "{disciplines} delays packets on {device}", disciplines = disciplines.join(", ");
        /// Filters see what leaves through a device.
        EgressFilters {
            /// Name of the device.
            device: String,
            /// Kinds of the filters.
            kinds: Vec<String>,
        } = "filters ({kinds}) process the outgoing packets of {device}", kinds = kinds.join(", ");
        /// The kernel lends nothing on such sockets.
        NoZerocopyOption {
            /// Release of the kernel.
            release: String,
        } = "SO_ZEROCOPY is refused by Linux {release}";
        /// Rings send nothing without a copy.
        NoRingZerocopy = "io_uring cannot send without copying";
        /// Messages of registered memory read wrong memory.
        RegisteredMessagesBroken {
            /// Release of the kernel.
            release: String,
        } = "SENDMSG_ZC with registered buffers is broken in Linux {release}";
        /// Reports of rings about TCP are wrong.
        RingReportsWrong = "io_uring's reports about TCP are unreliable";
        /// Datagrams have to be cut into fragments.
        AboveMtu {
            /// Bytes of each datagram.
            bytes: u64,
            /// Smallest MTU of route and device.
            mtu: u32,
        } = "a datagram of {bytes} bytes is larger than the MTU of {mtu} bytes allows";
        /// Datagrams are longer than any that can be sent.
        TooLong {
            /// Bytes of each datagram.
            bytes: u64,
            /// Bytes of the longest one.
            most: u64,
        } = "a datagram of {bytes} bytes cannot be sent: it may have {most}";
        /// Sends are too small to pay for lending.
        BelowCrossover {
            /// Bytes of each send.
            bytes: u64,
        } = "sends of {bytes} bytes are too small for lending";
        /// Option memory holds too few reports.
        FewReports {
            /// Number of sends whose reports it holds.
            held: u64,
            /// Number of sends in flight.
            wanted: u64,
        } = "option memory holds the reports of {held} sends, {wanted} are needed";
        /// The limit on locked memory is low.
        FewLockedBytes {
            /// Bytes that may be locked.
            limit: u64,
            /// Bytes that sends in flight lock.
            wanted: u64,
        } = "{limit} bytes may be locked, {wanted} are needed";
    }
}
