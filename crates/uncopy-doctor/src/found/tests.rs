use super::*;
use uncopy_core::{Choice, Errno, Filesystem, Mechanism};
use uncopy_os::capabilities::AnswerReason;

use crate::settings::Settings;

fn lldpd() -> ProcessName {
    ProcessName { program: "lldpd".into(), pid: 812 }
}

fn check<const N: usize>(rows: [(FoundFact, &str); N]) {
    for (found, words) in rows {
        assert_eq!(found.to_string(), words, "{found:?}");
    }
}

#[test]
fn facts_about_a_path_are_clauses() {
    let disciplines = vec!["tbf".into(), "netem".into()];
    check([
        (
            NetworkFound::WaysDiffer { copied: 1, ways: 2 }.into(),
            "packets are copied on 1 of 2 paths",
        ),
        (
            NetworkFound::NoRoute { to: "[fd00::1]:0".parse().unwrap() }.into(),
            "there is no route to [fd00::1]",
        ),
        (
            NetworkFound::OwnAddress { to: "127.0.0.1:9".parse().unwrap() }.into(),
            "127.0.0.1:9 is on this machine",
        ),
        (NetworkFound::LoopbackDevice.into(), "the loopback device is on this machine"),
        (
            NetworkFound::Echoed { echo: Echo::Member { group: [239, 0, 0, 1].into() } }.into(),
            "this machine is a member of the group 239.0.0.1",
        ),
        (
            NetworkFound::QueueHolds { device: "eth1".into(), disciplines }.into(),
            "tbf, netem delays packets on eth1",
        ),
        (
            NetworkFound::AboveMtu { bytes: 9000, mtu: 1500 }.into(),
            "a datagram of 9000 bytes is larger than the MTU of 1500 bytes allows",
        ),
        (
            NetworkFound::TooLong { bytes: 70_000, most: 65_507 }.into(),
            "a datagram of 70000 bytes cannot be sent: it may have 65507",
        ),
        (
            NetworkFound::FewReports { held: 157, wanted: 200 }.into(),
            "option memory holds the reports of 157 sends, 200 are needed",
        ),
    ]);
}

#[test]
fn detours_and_doubts_are_clauses() {
    let doubt = RuleDoubt::UnknownTarget { target: "TEE".into() };
    let rule = Doubt::Rule { table: "filter".into(), chain: "output".into(), doubt };
    let actions =
        vec![FilterAction::Redirect { device: 7 }, FilterAction::Other { kind: "pedit".into() }];
    let filter = Doubt::Filter { kind: "u32".into(), actions };
    let copies = Detour::FilterCopies { device: "eth1".into(), over: "x0".into() };
    let refused = Doubt::Refused { errno: Errno::ENOMEM };
    check([
        (
            NetworkFound::Turned { detour: Detour::Marked { mark: 0x33 } }.into(),
            "a firewall rule sets the mark 0x33 on packets",
        ),
        (NetworkFound::Turned { detour: copies }.into(), "a filter on eth1 sends copies over x0"),
        (
            NetworkFound::NotRead { what: Missing::FirewallRules }.into(),
            "rules of the firewall: no permission to read",
        ),
        (
            NetworkFound::NotTold { what: Missing::BridgePorts, why: refused }.into(),
            "ports of a bridge: unknown, because Cannot allocate memory (ENOMEM)",
        ),
        (
            NetworkFound::NotTold { what: Missing::FirewallEffect, why: rule }.into(),
            "effect of the firewall: unknown, because a rule in the chain output of the table filter \
             has a target that is not understood: TEE",
        ),
        (
            NetworkFound::NotTold { what: Missing::FilterEffect, why: filter }.into(),
            "effect of filters: unknown, because a filter (u32) may apply these actions: redirect to \
             device 7, pedit",
        ),
    ]);
}

#[test]
fn facts_about_processes_are_clauses() {
    let holder = || TapHolder::Process { process: lldpd() };
    let site = CopySite::Tap;
    check([
        (
            TapFound::Tap { holder: holder(), place: TapPlace::AllDevices }.into(),
            "lldpd (pid 812) holds a packet tap on all devices",
        ),
        (
            TapFound::Idle { holder: holder(), place: TapPlace::OtherDevice { index: 9 } }.into(),
            "lldpd (pid 812) holds an idle packet tap on device 9",
        ),
        (
            TapFound::OneProtocol {
                holder: TapHolder::Somebody { user: 101 },
                place: TapPlace::Device { name: "eth1".into() },
            }
            .into(),
            "an unknown process (user id 101) holds a packet socket on eth1",
        ),
        (
            ProcessFound::NoPeer { process: lldpd() }.into(),
            "lldpd (pid 812) has no connected socket",
        ),
        (ProcessFound::Multipath { sockets: 2 }.into(), "2 of its sockets use Multipath TCP"),
        (
            ProbeFound::Contradicted.into(),
            "the probe was not copied, although other findings predict a copy",
        ),
        (
            SystemFound::FewMessages { messages: 3, message_bytes: 65_536 }.into(),
            "a socket holds only 3 messages of 65536 bytes",
        ),
        (
            TraceFound::Copies {
                function: "skb_copy_ubufs",
                caller: "dev_queue_xmit_nit",
                sighting: Sighting::Share { percent: 50 },
                site,
            }
            .into(),
            "skb_copy_ubufs ← dev_queue_xmit_nit took 50 % of the CPU time: a packet tap copied \
             (tap-eth-p-all)",
        ),
        (
            TraceFound::Copies {
                function: "skb_copy_ubufs",
                caller: "",
                sighting: Sighting::Calls { calls: 4 },
                site: CopySite::UnknownSite,
            }
            .into(),
            "skb_copy_ubufs was called 4 times: copied for an unknown reason",
        ),
    ]);
}

#[test]
fn facts_about_a_copy_are_clauses() {
    let mut settings = Settings::default();
    let file = "/etc/uncopy.toml, line 2".to_owned();
    settings.origins.insert(Choice::CacheKeep.option(), file);
    let setting = || settings.setting(Choice::CacheKeep);
    let mechanism = Mechanism::Splice;
    check([
        (
            FilesFound::OtherMachine {
                side: Side::Destination,
                filesystem: Filesystem::from_magic(0x6969),
            }
            .into(),
            "the destination is on another machine (nfs)",
        ),
        (
            FilesFound::NoFiles { directory: "/srv/empty".into() }.into(),
            "/srv/empty has no regular files",
        ),
        (
            FilesFound::KernelCopies { mechanism, cause: CopyCause::Unnamed }.into(),
            "splice copies inside the kernel",
        ),
        (
            FilesFound::KernelCopies {
                mechanism,
                cause: CopyCause::Refused { reason: AnswerReason::CopiedNothing },
            }
            .into(),
            "splice copies inside the kernel: the call succeeded but copied nothing",
        ),
        (
            FilesFound::ProgramCopies { cause: CopyCause::Setting { setting: setting() } }.into(),
            "the bytes are copied through the program's memory, because of the setting cache=keep \
             (/etc/uncopy.toml, line 2)",
        ),
        (
            FilesFound::RuledOut {
                setting: setting(),
                mechanisms: vec![Mechanism::Direct, mechanism],
            }
            .into(),
            "cache=keep (/etc/uncopy.toml, line 2) excludes direct, splice",
        ),
        (FilesFound::Holes { stored: 4096, bytes: 8192 }.into(), "4096 of 8192 bytes are stored"),
    ]);
}
