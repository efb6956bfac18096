//! What follows from the facts about a path. Pure.

use super::facts::{Below, Device, Facts, NotSeen, Peer, largest_datagram, shown};
use super::tap::{Reach, Tap};
use crate::capabilities::Answer;
use crate::doctor::condition as is;
use crate::doctor::finding::{Finding, Severity, add_new};
use crate::doctor::report::Verdict;
use crate::send::{Transport, Way, train_bytes};
use crate::sys::netlink::ethtool::Feature;

/// Option memory that a report takes: measured on Linux 6.18, 157 fit into 131,072 bytes.
const REPORT_BYTES: u64 = 832;
/// A page, and what a send that begins and ends within pages locks beside its own.
const PAGE_BYTES: u64 = 4096;
const EDGE_PAGES: u64 = 2;
/// Queue disciplines that let packets wait though the device could take them.
const SHAPERS: [&str; 8] = ["tbf", "htb", "netem", "cbq", "hfsc", "cake", "fq", "taprio"];
/// Kinds of devices that hand packets to a program.
const TO_PROGRAMS: [&str; 3] = ["tun", "ipvtap", "macvtap"];

/// Kinds of tunnels that send datagrams.
const UDP_TUNNELS: [&str; 2] = ["vxlan", "geneve"];

/// What all ways have in common, or that they differ.
pub(crate) fn agreed(ways: &[Facts]) -> Vec<Finding> {
    let each: Vec<Vec<Finding>> = ways.iter().map(findings).collect();
    let is_copied = |found: &Vec<Finding>| Verdict::of(found) == Verdict::Copied;
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
        let summary = format!("on {copied} of {} ways packets are copied", ways.len());
        let said: Vec<String> = ways.iter().map(way_of).collect();
        all.push(Finding::of(&is::WAYS_DIFFER, summary).seen(ROUTE, said.join("; ")));
        all.rotate_right(1);
    }
    all
}

/// Devices of a way, by their names.
fn way_of(facts: &Facts) -> String {
    let names: Vec<&str> = facts.devices.iter().map(|device| device.name.as_str()).collect();
    format!("over {}", names.join(", "))
}

/// Everything that the facts say.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    kernel(facts, &mut found);
    if let Some(Err(errno)) = facts.route {
        let to = facts.destination.map(shown).unwrap_or_default();
        let said = format!("{} ({errno})", errno.message());
        found.push(
            Finding::of(&is::NO_ROUTE, format!("there is no route to {to}")).seen(ROUTE, said),
        );
        return found;
    }
    turns(facts, &mut found);
    if facts.is_local() {
        loopback(facts, &mut found);
        return found;
    }
    if let Some(why) = &facts.loops {
        let said = "packets to groups and to everybody come back (ip_mc_output)";
        found.push(Finding::of(&is::LOOPS, why.clone()).seen(ROUTE, said));
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

/// What sends packets elsewhere than their route.
fn turns(facts: &Facts, found: &mut Vec<Finding>) {
    for turn in &facts.turns {
        found.push(Finding::of(&is::TURN, turn.what.clone()).seen(turn.source, turn.what.clone()));
    }
}

fn not_seen(unseen: &NotSeen) -> Finding {
    let summary = match unseen.needs_root {
        true => format!("{} may not be read", unseen.what),
        false => format!("{} cannot be told: {}", unseen.what, unseen.why),
    };
    let finding = Finding::of(&is::NOT_SEEN, summary).seen(unseen.source, unseen.why.clone());
    if unseen.needs_root {
        return finding.step("Run the doctor as root, or pass --probe.", true);
    }
    finding
}

fn loopback(facts: &Facts, found: &mut Vec<Finding>) {
    let said = match (&facts.route, facts.devices.first()) {
        (Some(Ok(route)), _) if route.is_local => "the route is of the type local".to_owned(),
        (_, Some(device)) => format!("{} has IFF_LOOPBACK", device.name),
        _ => String::new(),
    };
    let what = facts.destination.map_or("the loopback device".to_owned(), shown);
    found.push(Finding::of(&is::LOOPBACK, format!("{what} is on this machine")).seen(ROUTE, said));
}

/// What kind of device it is, and what is below.
fn kind(device: &Device, found: &mut Vec<Finding>) {
    let name = &device.name;
    if !device.is_up {
        let said = format!("{name} lacks IFF_UP");
        found.push(Finding::of(&is::DEVICE_DOWN, format!("{name} is down")).seen(LINK, said));
    }
    let said = format!("{name} is of the kind {}", device.kind);
    if device.is_loopback {
        let summary = format!("packets come back over {name}");
        let seen = format!("{name} has IFF_LOOPBACK");
        found.push(Finding::of(&is::LOOPBACK, summary).seen(LINK, seen));
    } else if let Below::Peer(peer) = device.below {
        found.push(veth(name, peer).seen(LINK, said));
    } else if let Below::Beside = device.below {
        let summary = format!("{name} hands packets to a device beside it");
        let seen = "the device below takes frames to this hardware address in for another network";
        found.push(Finding::of(&is::BESIDE, summary).seen("rtnetlink RTM_GETNEIGH", seen));
    } else if TO_PROGRAMS.contains(&device.kind.as_str()) {
        let summary = format!("{name} hands packets to a program");
        found.push(Finding::of(&is::TUN, summary).seen(LINK, said));
    } else {
        match &device.below {
            Below::Nothing | Below::Peer(_) | Below::Beside => {}
            Below::Devices(below) | Below::OneOf(below) => {
                let summary = format!("{name} ({}) lies on top of others", device.kind);
                let said = format!("{said}, above devices {below:?}");
                found.push(Finding::of(&is::STACKED, summary).seen(LINK, said));
            }
            Below::Unseen(why) => {
                let summary = format!("what is below {name} ({}) cannot be seen", device.kind);
                let said = format!("{said}; {why}");
                found.push(Finding::of(&is::STACKED_UNKNOWN, summary).seen(LINK, said));
            }
        }
    }
    if device.has_xdp {
        let summary = format!("an XDP program is attached to {name}");
        found.push(Finding::of(&is::XDP, summary).seen(LINK, "IFLA_XDP_ATTACHED is set"));
    }
}

/// A veth pair, by what its other end does with packets.
fn veth(name: &str, peer: Peer) -> Finding {
    let (summary, said) = match peer {
        Peer::Receives => {
            let summary = format!("a socket of this machine receives what {name} passes on");
            let finding = Finding::of(&is::VETH, summary);
            return finding.seen(ADDRESSES, "the address belongs to the network at the other end");
        }
        Peer::PassesOn => (
            format!("{name} is one end of a veth pair, and the other passes packets on"),
            "the address does not belong to the network at the other end".to_owned(),
        ),
        Peer::Converts => {
            let summary = format!("a program (XDP) sees what {name} passes on");
            let effect = "The other end puts every packet together anew for the program, which is a \
                          copy, and the kernel reports that there was none.";
            let finding =
                Finding::of(&is::VETH, summary).seen(LINK, "IFLA_XDP_ATTACHED is set there");
            return finding
                .meaning(Severity::Unknown, effect)
                .step("Detach the program there.", true);
        }
        Peer::Down => (
            format!("the other end of {name} is down"),
            "the device at the other end lacks IFF_UP".to_owned(),
        ),
        Peer::Unknown(errno) => (
            format!("{name} is one end of a veth pair, whose other end cannot be seen"),
            errno.map_or("no address was named".to_owned(), |errno| {
                format!("the addresses of the other end may not be read ({errno})")
            }),
        ),
    };
    let effect = "Packets that a socket of this machine receives are copied; those that a bridge, a \
                  route or a filter at the other end passes on to another machine need not be.";
    let step =
        "Pass --probe, and run the doctor in the network of the other end too (nsenter --net).";
    let finding = Finding::of(&is::VETH, summary).seen(ADDRESSES, said);
    finding.meaning(Severity::Unknown, effect).step(step, true)
}

/// What a device does not do itself. Datagrams are put together for the first device alone, and
/// copied without a word for one below that cannot take them; TCP is for any that does not gather.
fn offloads(facts: &Facts, device: &Device, is_first: bool, found: &mut Vec<Finding>) {
    let name = &device.name;
    let is_tcp = facts.transport == Some(Transport::Tcp);
    let is_udp = facts.transport == Some(Transport::Udp);
    let unreported = |finding: Finding, is_silent: bool| match is_silent || !is_first {
        true => finding.meaning(
            Severity::Unknown,
            "The kernel copies on the way to the device, and reports that it did not: what it says \
             of these sends cannot be believed.",
        ),
        false => finding,
    };
    if let Some(feature) = lacking(device.offloads.scatter_gather) {
        let summary = format!("{name} does not scatter and gather");
        let said = state("tx-scatter-gather", feature);
        let finding = Finding::of(&is::NO_SG, summary).seen(FEATURES, said);
        found.push(unreported(stuck(finding, feature, name, "sg on"), is_tcp));
    }
    if let Some(feature) = lacking(device.offloads.checksum) {
        let summary = format!("{name} does not compute checksums");
        let said = state("tx-checksum", feature);
        let finding = Finding::of(&is::NO_CHECKSUM, summary).seen(FEATURES, said);
        found.push(unreported(stuck(finding, feature, name, "tx on"), false));
    }
    if let Some(feature) = lacking(device.offloads.tcp_segmentation).filter(|_| !is_udp) {
        let summary = format!("{name} does not cut TCP segments");
        let said = state("tx-tcp-segmentation", feature);
        let finding = Finding::of(&is::NO_TSO, summary).seen(FEATURES, said);
        found.push(stuck(finding, feature, name, "tso on"));
    }
    let trains = is_udp && facts.wanted.segment_bytes.is_some();
    if let Some(feature) = lacking(device.offloads.udp_segmentation).filter(|_| trains) {
        let summary = format!("{name} does not cut trains of datagrams");
        let said = state("tx-udp-segmentation", feature);
        let finding = Finding::of(&is::NO_USO, summary).seen(FEATURES, said);
        found.push(stuck(finding, feature, name, "tx-udp-segmentation on"));
    }
    if let Some(feature) = lacking(device.offloads.fraglist) {
        let summary = format!("{name} takes no lists of packets");
        let said = state("tx-scatter-gather-fraglist", feature);
        found.push(Finding::of(&is::NO_FRAGLIST, summary).seen(FEATURES, said));
    }
}

/// What the device below a tunnel does not do for packets inside it.
fn tunnel(facts: &Facts, device: &Device, found: &mut Vec<Finding>) {
    let Below::Devices(below) = &device.below else { return };
    let lower = facts.devices.iter().filter(|lower| below.contains(&lower.index));
    for lower in lower.filter(|_| UDP_TUNNELS.contains(&device.kind.as_str())) {
        if let Some(feature) = lacking(lower.offloads.tunnel_segmentation) {
            let summary = format!("{} knows nothing of what is inside {}", lower.name, device.name);
            let said = state("tx-udp_tnl-segmentation", feature);
            found.push(Finding::of(&is::NO_TUNNEL_OFFLOAD, summary).seen(FEATURES, said));
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

/// The next step for a feature that is off.
fn stuck(finding: Finding, feature: Feature, device: &str, flags: &str) -> Finding {
    match (feature.is_fixed, feature.is_requested) {
        (true, _) => finding.step("It is fixed: use another device.", false),
        (false, true) => finding.step(
            format!(
                "It is requested and waits for another feature: ethtool -K {device} sg on tx on."
            ),
            true,
        ),
        (false, false) => finding.step(format!("Turn it on: ethtool -K {device} {flags}."), true),
    }
}

fn queues(device: &Device, found: &mut Vec<Finding>) {
    let name = &device.name;
    let shapers: Vec<&str> =
        device.queues.iter().map(String::as_str).filter(|kind| SHAPERS.contains(kind)).collect();
    if !shapers.is_empty() {
        let shapers = shapers.join(", ");
        let summary = format!("{shapers} holds packets back on {name}");
        let said = format!("{name} has {shapers}");
        found.push(Finding::of(&is::QUEUE_HOLDS, summary).seen("rtnetlink RTM_GETQDISC", said));
    }
    if !device.egress_filters.is_empty() {
        let kinds = device.egress_filters.join(", ");
        let summary = format!("filters ({kinds}) see what leaves through {name}");
        let said = format!("clsact egress: {kinds}");
        found.push(Finding::of(&is::EGRESS_FILTER, summary).seen("rtnetlink RTM_GETTFILTER", said));
    }
}

fn taps(facts: &Facts, found: &mut Vec<Finding>) {
    let passed = facts.devices.iter().filter(|device| !device.is_left);
    let devices: Vec<u32> = passed.map(|device| device.index).collect();
    let enters = facts.devices.iter().any(|device| device.is_entered);
    for tap in &facts.taps {
        let reach = match tap.reach(&devices) {
            // What comes in is shown to those too that ignore what is sent.
            Reach::IgnoresOutgoing | Reach::Unknown if enters => Reach::Copies,
            reach => reach,
        };
        let (condition, verb) = match reach {
            Reach::Copies | Reach::Unknown => (&is::TAP, "holds a packet tap"),
            Reach::OtherDevice => (&is::TAP_OTHER_DEVICE, "holds a packet tap"),
            Reach::OtherProtocol => (&is::TAP_OTHER_PROTOCOL, "holds a packet socket"),
            Reach::IgnoresOutgoing => (&is::TAP_IGNORES_OUTGOING, "holds a receiving tap"),
            Reach::NotRunning => (&is::TAP_NOT_RUNNING, "holds an idle packet tap"),
        };
        let place = match facts.devices.iter().find(|device| device.index == tap.device) {
            _ if tap.device == 0 => "all devices".to_owned(),
            Some(device) => device.name.clone(),
            None => format!("device {}", tap.device),
        };
        let summary = format!("{} {verb} on {place}", who(tap));
        let mut finding = Finding::of(condition, summary).seen(TABLE, line_of(tap));
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
                .meaning(
                    Severity::Unknown,
                    "Every packet is copied, unless the socket ignores what is sent \
                     (PACKET_IGNORE_OUTGOING), which this user may not look up.",
                )
                .step("Run the doctor as root.", true),
            Reach::Copies => finding.step(how_to_stop(tap), true),
            _ => finding,
        });
    }
}

fn who(tap: &Tap) -> String {
    match &tap.owner {
        Some(owner) => format!("{} (pid {})", owner.program, owner.pid),
        None => format!("somebody (user id {})", tap.user),
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

fn how_to_stop(tap: &Tap) -> String {
    let who = match &tap.owner {
        Some(owner) => format!("Stop {} (pid {}) while you send", owner.program, owner.pid),
        None => "Stop the program that holds it while you send".to_owned(),
    };
    format!("{who}, bind its socket to another device, or have it set PACKET_IGNORE_OUTGOING.")
}

fn kernel(facts: &Facts, found: &mut Vec<Finding>) {
    let kernel = &facts.kernel;
    let release = &kernel.release;
    if let Answer::No { reason, .. } | Answer::Unknown { reason } = &kernel.msg_zerocopy {
        let summary = format!("SO_ZEROCOPY is refused by Linux {release}");
        found.push(Finding::of(&is::NO_SO_ZEROCOPY, summary).seen("setsockopt", reason));
    }
    if !kernel.has_send_zc {
        let said = match &kernel.io_uring {
            Answer::Yes(()) => format!("Linux {release} does not know send_zc"),
            Answer::No { reason, .. } | Answer::Unknown { reason } => reason.clone(),
        };
        let summary = "io_uring cannot send without copying".to_owned();
        found.push(Finding::of(&is::NO_SEND_ZC, summary).seen("io_uring_register", said));
        return;
    }
    let said = format!("the release is {release}");
    if kernel.version >= [6, 15, 0] && kernel.version < [6, 17, 11] {
        let summary = format!("messages of registered memory are broken in Linux {release}");
        found.push(Finding::of(&is::SENDMSG_ZC_FIXED, summary).seen("uname", said.clone()));
    }
    if kernel.version >= [6, 10, 0] && facts.transport == Some(Transport::Tcp) {
        let summary = "io_uring's reports about TCP cannot be believed".to_owned();
        found.push(Finding::of(&is::STACKED_NOTIFICATIONS, summary).seen("uname", said));
    }
}

/// Datagrams against the MTU, and sends against what lending costs.
fn sizes(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(transport) = facts.transport else { return };
    let bytes = facts.wanted.message_bytes;
    if let (Transport::Udp, Some(mtu)) = (transport, facts.mtu()) {
        let room = largest_datagram(mtu, facts.is_v6());
        let datagram = facts.wanted.segment_bytes.map_or(bytes, usize::from);
        if datagram > room {
            let summary =
                format!("a datagram of {datagram} bytes does not fit the MTU of {mtu} bytes");
            let said = format!("MTU {mtu}: {room} bytes of a datagram fit");
            found.push(Finding::of(&is::ABOVE_MTU, summary).seen(LINK, said));
        }
    }
    let pays = |way: Way| bytes >= way.pays_from_bytes();
    let msg_zerocopy = Way::MsgZerocopy(transport);
    if !pays(msg_zerocopy) {
        let summary = format!("{bytes} bytes are too few to be worth lending");
        let named = [
            ("MSG_ZEROCOPY", msg_zerocopy),
            ("io_uring", Way::Ring),
            ("io_uring with registered buffers", Way::RingRegistered),
        ];
        let said: Vec<String> =
            named.iter().map(|(name, way)| format!("{name} {}", way.pays_from_bytes())).collect();
        let said = format!("pays from so many bytes on: {}", said.join(", "));
        let finding = Finding::of(&is::BELOW_CROSSOVER, summary).seen("crossover", said);
        let step = better_size(facts, transport);
        found.push(match pays(Way::Ring) {
            true => finding
                .meaning(Severity::Note, "MSG_ZEROCOPY takes more processor time than a plain send would; io_uring takes less.")
                .step("Use io_uring, or send more at once.", false),
            // Nobody wants so little: it is what fits into one packet.
            false if facts.wanted.is_usual => {
                let effect = "One datagram for each send is too little to be worth lending.";
                finding.meaning(Severity::Note, effect).step(step, false)
            }
            false => finding.step(step, false),
        });
    }
}

fn better_size(facts: &Facts, transport: Transport) -> String {
    match (transport, facts.mtu()) {
        (Transport::Udp, Some(mtu)) if facts.wanted.segment_bytes.is_none() => {
            let segment = largest_datagram(mtu, facts.is_v6()).min(usize::from(u16::MAX));
            let train = train_bytes(segment as u16, facts.is_v6());
            format!(
                "Send trains of segments (UDP_SEGMENT): {train} bytes at once as datagrams of \
                 {segment}, or let Mode::Auto choose."
            )
        }
        _ => "Send more at once, or let Mode::Auto choose.".to_owned(),
    }
}

/// What may be in flight against what is wanted.
fn limits(facts: &Facts, found: &mut Vec<Finding>) {
    if facts.transport.is_none() {
        return;
    }
    let message = facts.wanted.message_bytes.max(1) as u64;
    let sends = (facts.wanted.in_flight_bytes as u64).div_ceil(message).max(1);
    if let Some(optmem) = facts.limits.optmem_max_bytes
        && sends * REPORT_BYTES > optmem
    {
        let fit = optmem / REPORT_BYTES;
        let summary = format!("option memory holds reports of {fit} sends, {sends} are wanted");
        let said = format!("net.core.optmem_max is {optmem} bytes, a report takes {REPORT_BYTES}");
        let need = sends * REPORT_BYTES;
        found.push(
            Finding::of(&is::OPTMEM, summary).seen("/proc/sys/net/core/optmem_max", said).step(
                format!("Raise it: sysctl -w net.core.optmem_max={need}; or use io_uring."),
                true,
            ),
        );
    }
    let locked = sends * (message.div_ceil(PAGE_BYTES) + EDGE_PAGES) * PAGE_BYTES;
    if let Some(limit) = facts.limits.memlock.soft
        && !facts.limits.may_lock_beyond
        && locked > limit
    {
        let summary = format!("{limit} bytes may be locked, {locked} are wanted");
        let hard = facts.limits.memlock.hard;
        let hard = hard.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let said = format!("RLIMIT_MEMLOCK is {limit} (hard limit {hard}), without CAP_IPC_LOCK");
        found.push(Finding::of(&is::MEMLOCK, summary).seen("getrlimit", said));
    }
}

#[cfg(test)]
mod tests;
