//! Examines the whole machine: the kernel, limits, channels, and devices that lead to other machines.

use super::Options;
use super::condition as is;
use super::finding::{DoctorFinding, add_new};
use super::found::SystemFound;
use super::network;
use super::report::{Report, ReportFact};
use uncopy_core::message::{MAX_BYTES, MAX_HANDLES};
use uncopy_os::capabilities::{self, Answer, Limit};
use uncopy_os::{Sys, memfd, seqpacket};

/// Number of full messages whose handles the limit on open files should allow.
const MIN_FULL_MESSAGES: u64 = 8;
/// Minimum number of messages that a socket should hold.
const MIN_MESSAGES: u64 = 4;
/// Kernel overhead of a message of maximum size.
const OVERHEAD_BYTES: u64 = 4096;

/// Facts about the kernel, limits and channels.
#[derive(Debug, Clone)]
struct MachineFacts {
    open_files: Limit,
    /// Bytes that the socket of a channel holds.
    socket_bytes: Sys<usize>,
    memfd: Sys<()>,
    io_uring: Answer,
    io_uring_disabled: Option<u8>,
}

/// Returns the report about this machine.
pub(super) fn at_a_glance(options: &Options) -> Report {
    let facts = gather();
    let mut findings = findings(&facts);
    let mut facts_shown = report_facts(&facts);
    add_new(&mut findings, network::kernel());
    for name in network::outward_devices() {
        if let Ok(report) = network::device(&name, options) {
            add_new(&mut findings, report.findings);
            facts_shown.extend(report.facts);
        }
    }
    // The report of each device repeats taps and kernel.
    let mut seen: Vec<ReportFact> = Vec::new();
    for fact in facts_shown {
        if !seen.contains(&fact) {
            seen.push(fact);
        }
    }
    Report::conclude("this machine".into(), "What leaves this machine", findings, seen)
}

fn gather() -> MachineFacts {
    let kernel = capabilities::kernel();
    MachineFacts {
        open_files: capabilities::limits().open_files,
        socket_bytes: seqpacket::pair().and_then(|(near, _)| seqpacket::send_buffer_bytes(near)),
        memfd: memfd::create(1).map(drop),
        io_uring: kernel.io_uring.available.clone(),
        io_uring_disabled: kernel.io_uring.disabled,
    }
}

fn findings(facts: &MachineFacts) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if let Some(files) = facts.open_files.soft
        && files < MIN_FULL_MESSAGES * MAX_HANDLES as u64
    {
        let said = format!("RLIMIT_NOFILE is {files}; a message carries up to {MAX_HANDLES}");
        let few = SystemFound::FewOpenFiles { files };
        found.push(DoctorFinding::of(&is::OPEN_FILES, few).seen("getrlimit", said));
    }
    match facts.socket_bytes {
        Ok(bytes) => {
            let messages = bytes as u64 / (MAX_BYTES as u64 + OVERHEAD_BYTES);
            if messages < MIN_MESSAGES {
                let message_bytes = MAX_BYTES as u64;
                let few = SystemFound::FewMessages { messages, message_bytes };
                let said = format!("SO_SNDBUF is {bytes}");
                found.push(DoctorFinding::of(&is::WMEM, few).seen("getsockopt", said));
            }
        }
        Err(errno) => {
            let said = format!("{} ({errno})", errno.message());
            let none = DoctorFinding::of(&is::NO_SEQPACKET, SystemFound::NoSocketPairs);
            found.push(none.seen("socketpair", said));
        }
    }
    if let Err(errno) = facts.memfd {
        let said = format!("{} ({errno})", errno.message());
        let none = DoctorFinding::of(&is::NO_MEMFD, SystemFound::NoMemoryFiles);
        found.push(none.seen("memfd_create", said));
    }
    if let Answer::No { reason, .. } | Answer::Unknown { reason } = &facts.io_uring {
        let disabled = facts.io_uring_disabled;
        let setting = disabled.map(|n| format!("; kernel.io_uring_disabled is {n}"));
        let said = format!("{reason}{}", setting.unwrap_or_default());
        let none = DoctorFinding::of(&is::URING_DISABLED, SystemFound::NoRings);
        found.push(none.seen("io_uring_setup", said));
    }
    let here = if facts.memfd.is_ok() { ", memory objects as descriptors" } else { "" };
    let between = if facts.socket_bytes.is_ok() { "between processes by sockets" } else { "" };
    let said = format!("in one process by queues; {between}{here}");
    found.push(DoctorFinding::of(&is::TRANSPORTS, SystemFound::Transports).seen("a trial", said));
    found
}

fn report_facts(facts: &MachineFacts) -> Vec<ReportFact> {
    let files = facts.open_files.soft.map_or("unlimited".to_owned(), |files| files.to_string());
    let bytes = match facts.socket_bytes {
        Ok(bytes) => format!("{bytes} bytes"),
        Err(errno) => errno.to_string(),
    };
    let value = format!("{files} open files, {bytes} in the socket of a channel");
    vec![ReportFact { name: "limits", value }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::severity::Severity;
    use uncopy_core::Errno;
    use uncopy_os::capabilities::AnswerReason;

    fn ids(change: impl FnOnce(&mut MachineFacts)) -> Vec<&'static str> {
        let mut facts = MachineFacts {
            open_files: Limit { soft: Some(1024), hard: None },
            socket_bytes: Ok(425_984),
            memfd: Ok(()),
            io_uring: Answer::Yes(()),
            io_uring_disabled: Some(0),
        };
        change(&mut facts);
        findings(&facts).iter().map(|finding| finding.condition.id).collect()
    }

    #[test]
    fn each_fact_has_its_finding() {
        let transports = "channel-transports";
        assert_eq!(ids(|_| ()), [transports]);
        assert_eq!(ids(|f| f.open_files.soft = Some(256)), ["open-files", transports]);
        assert_eq!(ids(|f| f.open_files.soft = None), [transports]);
        assert_eq!(ids(|f| f.socket_bytes = Ok(65_536)), ["wmem-max", transports]);
        assert_eq!(ids(|f| f.socket_bytes = Err(Errno::EPERM)), ["no-seqpacket", transports]);
        assert_eq!(ids(|f| f.memfd = Err(Errno::ENOSYS)), ["no-memfd", transports]);
        assert_eq!(
            ids(|f| f.io_uring = Answer::unknown(AnswerReason::NotAsked)),
            ["io-uring-disabled", transports]
        );
    }

    #[test]
    fn this_machine_is_examined() {
        let report = at_a_glance(&Options::default());
        let transports = report.finding("channel-transports").unwrap();
        assert_eq!(transports.severity, Severity::Note);
        assert!(report.facts.iter().any(|fact| fact.name == "limits"));
    }
}
