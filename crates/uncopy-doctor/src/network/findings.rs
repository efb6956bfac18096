//! Derives findings from the facts about a path. Pure.

use super::facts::{
    Below, Device, NotSeen, PathFacts, Peer, Wanted, largest_datagram, longest_datagram,
};
use super::tap::{Reach, Tap};
use crate::condition::{self as is, Condition};
use crate::effect::Effect;
use crate::finding::{DoctorFinding, add_new};
use crate::found::{NetworkFound, ProcessName, TapFound, TapHolder, TapPlace};
use crate::next_step::{DeviceFeature, NextStep};
use crate::report::CopyVerdict;
use crate::severity::Severity;
use uncopy_os::capabilities::Answer;
use uncopy_os::netlink::ethtool::Feature;
use uncopy_send::{Lending, Transport, train_bytes};

/// Option memory of a report, measured on Linux 6.18: 157 fit into 131,072 bytes.
const REPORT_BYTES: u64 = 832;
/// Page size, and additional pages locked by a send that begins and ends within pages.
const PAGE_BYTES: u64 = 4096;
const EDGE_PAGES: u64 = 2;
/// Maximum number of datagrams that any kernel cuts one send into (`UDP_MAX_SEGMENTS`; older ones have 64).
const MAX_SEGMENTS: usize = 128;
/// Queue disciplines that delay packets although the device could take them.
const SHAPERS: [&str; 8] = ["tbf", "htb", "netem", "cbq", "hfsc", "cake", "fq", "taprio"];
/// Kinds of devices that pass packets to a program.
const TO_PROGRAMS: [&str; 3] = ["tun", "ipvtap", "macvtap"];

/// Kinds of tunnels that send datagrams.
const UDP_TUNNELS: [&str; 2] = ["vxlan", "geneve"];

/// Merges the findings of all paths. Copies on only some of the paths become unknown.
pub(crate) fn agreed(ways: &[PathFacts]) -> Vec<DoctorFinding> {
    let each: Vec<Vec<DoctorFinding>> = ways.iter().map(findings).collect();
    let is_copied = |found: &Vec<DoctorFinding>| CopyVerdict::of(found) == CopyVerdict::Copied;
    let copied = each.iter().filter(|found| is_copied(found)).count();
    let differ = copied > 0 && copied < each.len();
    let mut all = Vec::new();
    for found in each {
        add_new(&mut all, found);
    }
    if differ {
        for finding in all.iter_mut().filter(|finding| finding.severity == Severity::Copies) {
            finding.severity = Severity::Unknown;
        }
        let some = NetworkFound::WaysDiffer { copied, ways: ways.len() };
        let said: Vec<String> = ways.iter().map(way_of).collect();
        all.push(DoctorFinding::of(&is::WAYS_DIFFER, some).seen(ROUTE, said.join("; ")));
        all.rotate_right(1);
    }
    all
}

/// Describes a path by the names of its devices.
fn way_of(facts: &PathFacts) -> String {
    let names: Vec<&str> = facts.devices.iter().map(|device| device.name.as_str()).collect();
    format!("over {}", names.join(", "))
}

/// Returns the findings of one path.
pub(crate) fn findings(facts: &PathFacts) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    kernel(facts, &mut found);
    if let (Some(Err(errno)), Some(to)) = (&facts.route, facts.destination) {
        let said = format!("{} ({errno})", errno.message());
        found
            .push(DoctorFinding::of(&is::NO_ROUTE, NetworkFound::NoRoute { to }).seen(ROUTE, said));
        return found;
    }
    if let Some(too_long) = too_long(facts) {
        found.push(too_long);
        return found;
    }
    turns(facts, &mut found);
    if facts.is_local() {
        loopback(facts, &mut found);
        return found;
    }
    if let Some(echo) = facts.loops.clone() {
        let said = "multicast and broadcast packets are delivered here too (ip_mc_output)";
        found.push(DoctorFinding::of(&is::LOOPS, NetworkFound::Echoed { echo }).seen(ROUTE, said));
    }
    for unseen in &facts.unseen {
        found.push(not_seen(unseen));
    }
    taps(facts, &mut found);
    for (place, device) in facts.devices.iter().enumerate().filter(|(_, one)| !one.is_entered) {
        kind(device, &mut found);
        offloads(facts, device, place == 0, &mut found);
        tunnel(facts, device, &mut found);
        queues(device, &mut found);
    }
    sizes(facts, &mut found);
    limits(facts, &mut found);
    found
}

const ROUTE: &str = "rtnetlink RTM_GETROUTE";
const LINK: &str = "rtnetlink RTM_GETLINK";
const ADDRESSES: &str = "rtnetlink RTM_GETADDR";
const FEATURES: &str = "ethtool features";
const TABLE: &str = "/proc/net/packet";

/// Adds findings about redirections.
fn turns(facts: &PathFacts, found: &mut Vec<DoctorFinding>) {
    for turn in &facts.turns {
        let turned = NetworkFound::Turned { detour: turn.what.clone() };
        found.push(DoctorFinding::of(&is::TURN, turned).seen(turn.source, turn.what.to_string()));
    }
}

fn not_seen(unseen: &NotSeen) -> DoctorFinding {
    let what = unseen.what.clone();
    let summary = match unseen.needs_root() {
        true => NetworkFound::NotRead { what },
        false => NetworkFound::NotTold { what, why: unseen.why.clone() },
    };
    let finding =
        DoctorFinding::of(&is::NOT_SEEN, summary).seen(unseen.source, unseen.why.to_string());
    if unseen.needs_root() {
        return finding.step(NextStep::RootOrProbe, true);
    }
    finding
}

fn loopback(facts: &PathFacts, found: &mut Vec<DoctorFinding>) {
    let said = match (&facts.route, facts.devices.first()) {
        (Some(Ok(route)), _) if route.is_local => "the route is of the type local".to_owned(),
        (_, Some(device)) => format!("{} has IFF_LOOPBACK", device.name),
        _ => String::new(),
    };
    let summary = match facts.destination {
        Some(to) => NetworkFound::OwnAddress { to },
        None => NetworkFound::LoopbackDevice,
    };
    found.push(DoctorFinding::of(&is::LOOPBACK, summary).seen(ROUTE, said));
}

/// Adds findings about the kind of a device and its lower devices.
fn kind(device: &Device, found: &mut Vec<DoctorFinding>) {
    let name = || device.name.clone();
    let kind = || device.kind.clone();
    if !device.is_up {
        let down = NetworkFound::DeviceDown { device: name() };
        let said = format!("{} lacks IFF_UP", device.name);
        found.push(DoctorFinding::of(&is::DEVICE_DOWN, down).seen(LINK, said));
    }
    let said = format!("{} is of the kind {}", device.name, device.kind);
    if device.is_loopback {
        let back = NetworkFound::ComesBack { device: name() };
        let said = format!("{} has IFF_LOOPBACK", device.name);
        found.push(DoctorFinding::of(&is::LOOPBACK, back).seen(LINK, said));
    } else if let Below::Peer(peer) = device.below {
        found.push(veth(name(), peer).seen(LINK, said));
    } else if let Below::Beside = device.below {
        let beside = NetworkFound::Beside { device: name() };
        let said = "the device below takes frames to this hardware address in for another network";
        found.push(DoctorFinding::of(&is::BESIDE, beside).seen("rtnetlink RTM_GETNEIGH", said));
    } else if TO_PROGRAMS.contains(&device.kind.as_str()) {
        let program = NetworkFound::ToProgram { device: name() };
        found.push(DoctorFinding::of(&is::TUN, program).seen(LINK, said));
    } else {
        match &device.below {
            Below::Nothing | Below::Peer(_) | Below::Beside => {}
            Below::Devices(below) | Below::OneOf(below) => {
                let stacked = NetworkFound::Stacked { device: name(), kind: kind() };
                let said = format!("{said}, above devices {below:?}");
                found.push(DoctorFinding::of(&is::STACKED, stacked).seen(LINK, said));
            }
            Below::Unseen(why) => {
                let stacked = NetworkFound::StackedUnseen { device: name(), kind: kind() };
                let said = format!("{said}; {why}");
                found.push(DoctorFinding::of(&is::STACKED_UNKNOWN, stacked).seen(LINK, said));
            }
        }
    }
    if device.has_xdp {
        let xdp = NetworkFound::Xdp { device: name() };
        found.push(DoctorFinding::of(&is::XDP, xdp).seen(LINK, "IFLA_XDP_ATTACHED is set"));
    }
}

/// Returns the finding about a veth pair.
fn veth(device: String, peer: Peer) -> DoctorFinding {
    let (summary, said) = match peer {
        Peer::Receives => {
            let finding = DoctorFinding::of(&is::VETH, NetworkFound::VethReceives { device });
            return finding.seen(ADDRESSES, "the address belongs to the network at the other end");
        }
        Peer::PassesOn => (
            NetworkFound::VethPassesOn { device },
            "the address does not belong to the network at the other end".to_owned(),
        ),
        Peer::Converts => {
            let finding = DoctorFinding::of(&is::VETH, NetworkFound::VethConverts { device });
            return finding
                .seen(LINK, "IFLA_XDP_ATTACHED is set there")
                .meaning(Severity::Unknown, Effect::CopiesForProgram)
                .step(NextStep::DetachProgram, true);
        }
        Peer::Down => (
            NetworkFound::VethDown { device },
            "the device at the other end lacks IFF_UP".to_owned(),
        ),
        Peer::Unknown(errno) => (
            NetworkFound::VethNotSeen { device },
            errno.map_or("no address was named".to_owned(), |errno| {
                format!("the addresses of the other end may not be read ({errno})")
            }),
        ),
    };
    let finding = DoctorFinding::of(&is::VETH, summary).seen(ADDRESSES, said);
    finding
        .meaning(Severity::Unknown, Effect::CopiesForReceiver)
        .step(NextStep::ProbeAndOtherEnd, true)
}

/// Adds findings about missing offloads. The kernel builds datagrams for the first device only, and copies
/// them without a report for a lower device that cannot take them; TCP is copied without a report for any
/// device without scatter-gather.
fn offloads(facts: &PathFacts, device: &Device, is_first: bool, found: &mut Vec<DoctorFinding>) {
    let name = || device.name.clone();
    let is_tcp = facts.transport == Some(Transport::Tcp);
    let is_udp = facts.transport == Some(Transport::Udp);
    let unreported = |finding: DoctorFinding, is_silent: bool| match is_silent || !is_first {
        true => finding.meaning(Severity::Unknown, Effect::CopiesUnreported),
        false => finding,
    };
    if let Some(feature) = lacking(device.offloads.scatter_gather) {
        let none = NetworkFound::NoScatterGather { device: name() };
        let finding =
            DoctorFinding::of(&is::NO_SG, none).seen(FEATURES, state("tx-scatter-gather", feature));
        let finding = stuck(finding, feature, name(), DeviceFeature::ScatterGather);
        found.push(unreported(finding, is_tcp));
    }
    if let Some(feature) = lacking(device.offloads.checksum) {
        let none = NetworkFound::NoChecksum { device: name() };
        let finding =
            DoctorFinding::of(&is::NO_CHECKSUM, none).seen(FEATURES, state("tx-checksum", feature));
        let finding = stuck(finding, feature, name(), DeviceFeature::Checksum);
        found.push(unreported(finding, false));
    }
    if let Some(feature) = lacking(device.offloads.tcp_segmentation).filter(|_| !is_udp) {
        let none = NetworkFound::NoTcpSegmentation { device: name() };
        let said = state("tx-tcp-segmentation", feature);
        let finding = DoctorFinding::of(&is::NO_TSO, none).seen(FEATURES, said);
        found.push(stuck(finding, feature, name(), DeviceFeature::TcpSegmentation));
    }
    let trains = is_udp && facts.wanted.segment_bytes.is_some();
    if let Some(feature) = lacking(device.offloads.udp_segmentation).filter(|_| trains) {
        let none = NetworkFound::NoUdpSegmentation { device: name() };
        let said = state("tx-udp-segmentation", feature);
        let finding = DoctorFinding::of(&is::NO_USO, none).seen(FEATURES, said);
        found.push(stuck(finding, feature, name(), DeviceFeature::UdpSegmentation));
    }
    if let Some(feature) = lacking(device.offloads.fraglist) {
        let none = NetworkFound::NoFraglist { device: name() };
        let said = state("tx-scatter-gather-fraglist", feature);
        found.push(DoctorFinding::of(&is::NO_FRAGLIST, none).seen(FEATURES, said));
    }
}

/// Adds findings about missing offloads for packets inside a tunnel.
fn tunnel(facts: &PathFacts, device: &Device, found: &mut Vec<DoctorFinding>) {
    let Below::Devices(below) = &device.below else { return };
    let lower = facts.devices.iter().filter(|lower| below.contains(&lower.index));
    for lower in lower.filter(|_| UDP_TUNNELS.contains(&device.kind.as_str())) {
        if let Some(feature) = lacking(lower.offloads.tunnel_segmentation) {
            let none = NetworkFound::NoTunnelOffload {
                device: lower.name.clone(),
                tunnel: device.name.clone(),
            };
            let said = state("tx-udp_tnl-segmentation", feature);
            found.push(DoctorFinding::of(&is::NO_TUNNEL_OFFLOAD, none).seen(FEATURES, said));
        }
    }
}

fn lacking(feature: Option<Feature>) -> Option<Feature> {
    feature.filter(|feature| !feature.is_active)
}

fn state(name: &str, feature: Feature) -> String {
    let word = |is| if is { "yes" } else { "no" };
    format!(
        "{name}: active {}, requested {}, fixed {}",
        word(feature.is_active),
        word(feature.is_requested),
        word(feature.is_fixed)
    )
}

/// Sets the next step for a feature that is off.
fn stuck(
    finding: DoctorFinding,
    state: Feature,
    device: String,
    feature: DeviceFeature,
) -> DoctorFinding {
    match (state.is_fixed, state.is_requested) {
        (true, _) => finding.step(NextStep::UseAnotherDevice, false),
        (false, true) => finding.step(NextStep::TurnOnOthers { device }, true),
        (false, false) => finding.step(NextStep::TurnOn { device, feature }, true),
    }
}

fn queues(device: &Device, found: &mut Vec<DoctorFinding>) {
    let name = || device.name.clone();
    let shapers = device.queues.iter().filter(|kind| SHAPERS.contains(&kind.as_str()));
    let shapers: Vec<String> = shapers.cloned().collect();
    if !shapers.is_empty() {
        let said = format!("{} has {}", device.name, shapers.join(", "));
        let holds = NetworkFound::QueueHolds { device: name(), disciplines: shapers };
        found.push(DoctorFinding::of(&is::QUEUE_HOLDS, holds).seen("rtnetlink RTM_GETQDISC", said));
    }
    if !device.egress_filters.is_empty() {
        let kinds = device.egress_filters.clone();
        let said = format!("clsact egress: {}", kinds.join(", "));
        let filters = NetworkFound::EgressFilters { device: name(), kinds };
        found.push(
            DoctorFinding::of(&is::EGRESS_FILTER, filters).seen("rtnetlink RTM_GETTFILTER", said),
        );
    }
}

fn taps(facts: &PathFacts, found: &mut Vec<DoctorFinding>) {
    let passed = facts.devices.iter().filter(|device| !device.is_left);
    let devices: Vec<u32> = passed.map(|device| device.index).collect();
    let enters = facts.devices.iter().any(|device| device.is_entered);
    for tap in &facts.taps {
        let reach = match tap.reach(&devices) {
            // Taps that ignore outgoing packets still see incoming ones.
            Reach::IgnoresOutgoing | Reach::Unknown if enters => Reach::Copies,
            reach => reach,
        };
        let place = match facts.devices.iter().find(|device| device.index == tap.device) {
            _ if tap.device == 0 => TapPlace::AllDevices,
            Some(device) => TapPlace::Device { name: device.name.clone() },
            None => TapPlace::OtherDevice { index: tap.device },
        };
        let (condition, summary) = seen_by(reach, holder(tap), place);
        let mut finding = DoctorFinding::of(condition, summary).seen(TABLE, line_of(tap));
        if let Some(group) = tap.fanout {
            finding = finding.seen("sock_diag", format!("in the fanout group {group}"));
        }
        if let Some(owner) = &tap.owner {
            let said = format!("/proc/{}/fd/{}", owner.pid, owner.descriptor);
            finding = finding.seen("descriptors", said);
            if let Some(ignores) = tap.ignores_outgoing {
                let said = if ignores { "on" } else { "off" };
                finding = finding.seen("getsockopt", format!("PACKET_IGNORE_OUTGOING is {said}"));
            }
        }
        found.push(match reach {
            Reach::Unknown => finding
                .meaning(Severity::Unknown, Effect::CopiesUnlessIgnored)
                .step(NextStep::Root, true),
            Reach::Copies => finding.step(NextStep::StopTap { holder: holder(tap) }, true),
            _ => finding,
        });
    }
}

fn seen_by(reach: Reach, holder: TapHolder, place: TapPlace) -> (&'static Condition, TapFound) {
    match reach {
        Reach::Copies | Reach::Unknown => (&is::TAP, TapFound::Tap { holder, place }),
        Reach::OtherDevice => (&is::TAP_OTHER_DEVICE, TapFound::Tap { holder, place }),
        Reach::OtherProtocol => (&is::TAP_OTHER_PROTOCOL, TapFound::OneProtocol { holder, place }),
        Reach::IgnoresOutgoing => {
            (&is::TAP_IGNORES_OUTGOING, TapFound::Receiving { holder, place })
        }
        Reach::NotRunning => (&is::TAP_NOT_RUNNING, TapFound::Idle { holder, place }),
    }
}

fn holder(tap: &Tap) -> TapHolder {
    match &tap.owner {
        Some(owner) => {
            let process = ProcessName { program: owner.program.clone(), pid: owner.pid };
            TapHolder::Process { process }
        }
        None => TapHolder::Somebody { user: tap.user },
    }
}

fn line_of(tap: &Tap) -> String {
    let device = if tap.device == 0 { "all".to_owned() } else { tap.device.to_string() };
    format!(
        "inode {}: protocol {:04x}, device {device}, running {}",
        tap.inode,
        tap.protocol,
        u8::from(tap.is_running)
    )
}

fn kernel(facts: &PathFacts, found: &mut Vec<DoctorFinding>) {
    let kernel = &facts.kernel;
    let release = || kernel.release.clone();
    if let Answer::No { reason, .. } | Answer::Unknown { reason } = &kernel.msg_zerocopy {
        let refused = NetworkFound::NoZerocopyOption { release: release() };
        let finding = DoctorFinding::of(&is::NO_SO_ZEROCOPY, refused);
        found.push(finding.seen("setsockopt", reason.to_string()));
    }
    if !kernel.has_send_zc {
        let said = match &kernel.io_uring {
            Answer::Yes(()) => format!("Linux {} does not know send_zc", kernel.release),
            Answer::No { reason, .. } | Answer::Unknown { reason } => reason.to_string(),
        };
        let none = DoctorFinding::of(&is::NO_SEND_ZC, NetworkFound::NoRingZerocopy);
        found.push(none.seen("io_uring_register", said));
        return;
    }
    let said = format!("the release is {}", kernel.release);
    if kernel.version >= [6, 15, 0] && kernel.version < [6, 17, 11] {
        let broken = NetworkFound::RegisteredMessagesBroken { release: release() };
        found.push(DoctorFinding::of(&is::SENDMSG_ZC_FIXED, broken).seen("uname", said.clone()));
    }
    if kernel.version >= [6, 10, 0] && facts.transport == Some(Transport::Tcp) {
        let wrong = NetworkFound::RingReportsWrong;
        found.push(DoctorFinding::of(&is::STACKED_NOTIFICATIONS, wrong).seen("uname", said));
    }
}

/// Returns the finding about datagrams that the kernel does not send.
fn too_long(facts: &PathFacts) -> Option<DoctorFinding> {
    if facts.transport != Some(Transport::Udp) {
        return None;
    }
    let Wanted { message_bytes, segment_bytes, .. } = facts.wanted;
    // One that is cut by UDP_SEGMENT is one datagram before.
    let whole =
        (message_bytes, longest_datagram(facts.is_v6()), "its length has 16 bits".to_owned());
    let cut = segment_bytes.map(usize::from);
    let segment = cut.zip(facts.mtu()).map(|(_, mtu)| {
        let most = largest_datagram(mtu, facts.is_v6());
        (facts.wanted.datagram_bytes(), most, format!("MTU {mtu}"))
    });
    let train = cut.map(|segment| {
        let said = format!("UDP_SEGMENT cuts it into at most {MAX_SEGMENTS} datagrams");
        (message_bytes, MAX_SEGMENTS * segment, said)
    });
    let mut limits = [Some(whole), segment, train].into_iter().flatten();
    let (bytes, most, said) = limits.find(|(bytes, most, _)| bytes > most)?;
    let long = NetworkFound::TooLong { bytes: bytes as u64, most: most as u64 };
    Some(DoctorFinding::of(&is::TOO_LONG, long).seen(LINK, said))
}

/// Adds findings about datagrams above the MTU, and sends too small for lending.
fn sizes(facts: &PathFacts, found: &mut Vec<DoctorFinding>) {
    let Some(transport) = facts.transport else { return };
    let bytes = facts.wanted.message_bytes;
    if let (Transport::Udp, Some(mtu)) = (transport, facts.mtu()) {
        let room = largest_datagram(mtu, facts.is_v6());
        let datagram = facts.wanted.datagram_bytes();
        if datagram > room {
            let above = NetworkFound::AboveMtu { bytes: datagram as u64, mtu };
            let said = format!("MTU {mtu}: {room} bytes of a datagram fit");
            found.push(DoctorFinding::of(&is::ABOVE_MTU, above).seen(LINK, said));
        }
    }
    let pays = |way: Lending| bytes >= way.pays_from_bytes();
    let msg_zerocopy = Lending::MsgZerocopy(transport);
    if !pays(msg_zerocopy) {
        let few = NetworkFound::BelowCrossover { bytes: bytes as u64 };
        let named = [
            ("MSG_ZEROCOPY", msg_zerocopy),
            ("io_uring", Lending::Ring),
            ("io_uring with registered buffers", Lending::RingRegistered),
        ];
        let said: Vec<String> =
            named.iter().map(|(name, way)| format!("{name} {}", way.pays_from_bytes())).collect();
        let said = format!("minimum bytes for a gain: {}", said.join(", "));
        let finding = DoctorFinding::of(&is::BELOW_CROSSOVER, few).seen("crossover", said);
        let step = better_size(facts, transport);
        found.push(match pays(Lending::Ring) {
            true => finding
                .meaning(Severity::Note, Effect::PaysThroughRing)
                .step(NextStep::UseRing, false),
            // The caller did not choose this size: it is the largest that fits into one packet.
            false if facts.wanted.is_usual => {
                finding.meaning(Severity::Note, Effect::OneDatagram).step(step, false)
            }
            false => finding.step(step, false),
        });
    }
}

fn better_size(facts: &PathFacts, transport: Transport) -> NextStep {
    match (transport, facts.mtu()) {
        (Transport::Udp, Some(mtu)) if facts.wanted.segment_bytes.is_none() => {
            let segment = largest_datagram(mtu, facts.is_v6()).min(usize::from(u16::MAX)) as u16;
            NextStep::SendTrains {
                train_bytes: train_bytes(segment, facts.is_v6()) as u64,
                segment_bytes: u64::from(segment),
            }
        }
        _ => NextStep::SendMore,
    }
}

/// Adds findings about limits on the bytes in flight.
fn limits(facts: &PathFacts, found: &mut Vec<DoctorFinding>) {
    if facts.transport.is_none() {
        return;
    }
    let message = facts.wanted.message_bytes.max(1) as u64;
    let sends = (facts.wanted.in_flight_bytes as u64).div_ceil(message).max(1);
    if let Some(optmem) = facts.limits.optmem_max_bytes
        && sends * REPORT_BYTES > optmem
    {
        let few = NetworkFound::FewReports { held: optmem / REPORT_BYTES, wanted: sends };
        let said = format!("net.core.optmem_max is {optmem} bytes, a report takes {REPORT_BYTES}");
        let finding =
            DoctorFinding::of(&is::OPTMEM, few).seen("/proc/sys/net/core/optmem_max", said);
        found.push(finding.step(NextStep::RaiseOptionMemory { bytes: sends * REPORT_BYTES }, true));
    }
    let locked = sends * (message.div_ceil(PAGE_BYTES) + EDGE_PAGES) * PAGE_BYTES;
    if let Some(limit) = facts.limits.memlock.soft
        && !facts.limits.may_lock_beyond
        && locked > limit
    {
        let few = NetworkFound::FewLockedBytes { limit, wanted: locked };
        let hard = facts.limits.memlock.hard;
        let hard = hard.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let said = format!("RLIMIT_MEMLOCK is {limit} (hard limit {hard}), without CAP_IPC_LOCK");
        found.push(DoctorFinding::of(&is::MEMLOCK, few).seen("getrlimit", said));
    }
}

#[cfg(test)]
mod tests;
