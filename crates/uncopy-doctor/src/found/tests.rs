use super::*;
use uncopy_core::{Choice, Errno, Filesystem, Mechanism};
use uncopy_os::capabilities::AnswerReason;

use crate::settings::Settings;

fn lldpd() -> ProcessName {
    ProcessName { program: "lldpd".into(), pid: 812 }
}

fn check<const N: usize>(rows: [(Found, &str); N]) {
    for (found, words) in rows {
        assert_eq!(found.to_string(), words, "{found:?}");
    }
}

#[test]
fn facts_about_a_path_have_their_words() {
    let disciplines = vec!["tbf".into(), "netem".into()];
    check([
        (
            NetworkFound::WaysDiffer { copied: 1, ways: 2 }.into(),
            "on 1 of 2 ways packets are copied",
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
            "tbf, netem holds packets back on eth1",
        ),
        (
            NetworkFound::AboveMtu { bytes: 9000, mtu: 1500 }.into(),
            "a datagram of 9000 bytes does not fit the MTU of 1500 bytes",
        ),
        (
            NetworkFound::FewReports { held: 157, wanted: 200 }.into(),
            "option memory holds reports of 157 sends, 200 are wanted",
        ),
    ]);
}

#[test]
fn detours_and_doubts_have_their_words() {
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
            "a rule of the firewall marks packets 0x33",
        ),
        (NetworkFound::Turned { detour: copies }.into(), "a filter on eth1 sends copies over x0"),
        (
            NetworkFound::NotRead { what: Missing::FirewallRules }.into(),
            "the rules of the firewall may not be read",
        ),
        (
            NetworkFound::NotTold { what: Missing::BridgePorts, why: refused }.into(),
            "ports of a bridge cannot be told: Cannot allocate memory (ENOMEM)",
        ),
        (
            NetworkFound::NotTold { what: Missing::FirewallEffect, why: rule }.into(),
            "what the firewall does cannot be told: a rule in the chain output of the table filter \
             has a target that is not understood: TEE",
        ),
        (
            NetworkFound::NotTold { what: Missing::FilterEffect, why: filter }.into(),
            "what filters do cannot be told: a filter (u32) may do this to packets: redirect to \
             device 7, pedit",
        ),
    ]);
}

#[test]
fn facts_about_processes_have_their_words() {
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
            "somebody (user id 101) holds a packet socket on eth1",
        ),
        (
            ProcessFound::NoPeer { process: lldpd() }.into(),
            "lldpd (pid 812) has no socket with a peer",
        ),
        (ProcessFound::Multipath { sockets: 2 }.into(), "2 of its sockets are of Multipath TCP"),
        (ProbeFound::Contradicted.into(), "the probe was not copied, though it should have been"),
        (
            SystemFound::FewMessages { messages: 3, message_bytes: 65_536 }.into(),
            "a socket holds 3 messages of 65536 bytes",
        ),
        (
            TraceFound::Copies {
                function: "skb_copy_ubufs",
                caller: "dev_queue_xmit_nit",
                sighting: Sighting::Share { percent: 50 },
                site,
            }
            .into(),
            "skb_copy_ubufs ← dev_queue_xmit_nit took 50 % of the time: a packet tap copied \
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
            "skb_copy_ubufs was called 4 times: something on the way copied",
        ),
    ]);
}

#[test]
fn facts_about_a_copy_have_their_words() {
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
        (FilesFound::NoFiles { directory: "/srv/empty".into() }.into(), "/srv/empty has no files"),
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
            "the bytes go through the program's memory, as cache=keep (/etc/uncopy.toml, line 2) has it",
        ),
        (
            FilesFound::RuledOut {
                setting: setting(),
                mechanisms: vec![Mechanism::Direct, mechanism],
            }
            .into(),
            "cache=keep (/etc/uncopy.toml, line 2) rules out direct, splice",
        ),
        (FilesFound::Holes { stored: 4096, bytes: 8192 }.into(), "4096 of 8192 bytes are stored"),
    ]);
}
