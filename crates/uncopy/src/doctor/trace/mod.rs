//! Proof: where the kernel was seen copying.

mod symbols;

use std::time::{Duration, Instant};

use super::condition as is;
use super::finding::{Finding, Severity};
use super::report::Fact;
use crate::error::Errno;
use crate::sys::Sys;
use crate::sys::perf::{Sample, Sampler};
use symbols::Symbols;

/// The rings of samples are emptied so often.
const PERIOD: Duration = Duration::from_millis(50);

/// What is being done, of which copies are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Sending,
    Copying,
    Everything,
}

/// A function that copies payload, called directly or not by another one, and what that means.
struct Rule {
    copies: &'static str,
    caller: &'static str,
    meaning: &'static str,
    subject: Subject,
    severity: Severity,
}

const fn sending(copies: &'static str, caller: &'static str, meaning: &'static str) -> Rule {
    Rule { copies, caller, meaning, subject: Subject::Sending, severity: Severity::Copies }
}

/// The first that fits counts. Names of functions in `net/core`, `net/ipv4`, `mm/filemap.c` and
/// `lib/iov_iter.c` of Linux 4.14 to 6.18.
const RULES: &[Rule] = &[
    sending("skb_copy_ubufs", "dev_queue_xmit_nit", "a packet tap copied (tap-eth-p-all)"),
    sending("skb_copy_ubufs", "tun_net_xmit", "a tun or tap device copied (tun-tap)"),
    sending("skb_copy_ubufs", "__netif_receive_skb", "this machine received it (loopback, veth)"),
    sending("skb_copy_ubufs", "process_backlog", "this machine received it (loopback, veth)"),
    sending("skb_copy_ubufs", "", "something on the way copied"),
    sending("__pskb_pull_tail", "skb_checksum_help", "to compute a checksum (no-tx-checksum)"),
    sending("skb_copy_bits", "skb_segment", "to cut segments (no-scatter-gather)"),
    sending("skb_copy_and_csum_bits", "skb_segment", "to cut segments (no-scatter-gather)"),
    sending("__pskb_pull_tail", "validate_xmit_skb", "for the device (no-scatter-gather)"),
    Rule {
        copies: "_copy_from_iter",
        caller: "sendmsg",
        meaning: "a plain send, as the program asked",
        subject: Subject::Sending,
        severity: Severity::Note,
    },
    Rule {
        copies: "copy_folio_from_iter_atomic",
        caller: "",
        meaning: "a buffered write (kernel-copies, program-copies)",
        subject: Subject::Copying,
        severity: Severity::Copies,
    },
    Rule {
        copies: "copy_page_from_iter_atomic",
        caller: "",
        meaning: "a buffered write (kernel-copies, program-copies)",
        subject: Subject::Copying,
        severity: Severity::Copies,
    },
    Rule {
        copies: "_copy_to_iter",
        caller: "filemap_read",
        meaning: "a read (program-copies)",
        subject: Subject::Copying,
        severity: Severity::Copies,
    },
];

impl Rule {
    /// Names of functions, the innermost first. A caller is told by a part of its name, since
    /// compilers and kernels vary them (`__netif_receive_skb_core.constprop.0`, `udpv6_sendmsg`).
    fn fits(&self, chain: &[&str]) -> bool {
        let is_copy = |name: &&str| name.split('.').next() == Some(self.copies);
        let Some(place) = chain.iter().position(is_copy) else { return false };
        self.caller.is_empty() || chain[place..].iter().any(|name| name.contains(self.caller))
    }
}

/// Samples every processor for so long, and says which copies were seen. `pid`: of that process
/// alone.
pub(super) fn trace(
    time: Duration,
    subject: Subject,
    pid: Option<u32>,
) -> (Vec<Finding>, Vec<Fact>) {
    let sampled = Symbols::load().and_then(|symbols| Ok((symbols, samples(time)?)));
    match sampled {
        Ok((symbols, samples)) => {
            let own = samples.into_iter().filter(|sample| pid.is_none_or(|pid| sample.pid == pid));
            let own: Vec<Sample> = own.collect();
            let chains: Vec<Vec<&str>> = own.iter().map(|s| symbols.names(&s.chain)).collect();
            let value = format!("{} samples in {:.1} s", own.len(), time.as_secs_f64());
            (findings(&chains, subject), vec![Fact { name: "trace", value }])
        }
        Err(errno) => (vec![forbidden(errno)], Vec::new()),
    }
}

fn samples(time: Duration) -> Sys<Vec<Sample>> {
    let mut samplers = processors().into_iter().map(Sampler::on).collect::<Sys<Vec<Sampler>>>()?;
    let mut samples = Vec::new();
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(PERIOD));
        samplers.iter_mut().for_each(|sampler| sampler.take(&mut samples));
        if left.is_zero() {
            return Ok(samples);
        }
    }
}

/// Processors that are there: `/sys/devices/system/cpu/online` is like `0-3,6`.
fn processors() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let found = processors_in(text.trim());
    if found.is_empty() { vec![0] } else { found }
}

/// What a kernel can be built for (`NR_CPUS` in `arch/x86/Kconfig`).
const MOST_PROCESSORS: usize = 8192;

fn processors_in(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last = last.parse::<usize>().ok()?.min(MOST_PROCESSORS);
        Some(first.parse::<usize>().ok()?..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// What the names of functions say. Pure.
fn findings(chains: &[Vec<&str>], subject: Subject) -> Vec<Finding> {
    let mut counts = vec![0_usize; RULES.len()];
    for chain in chains {
        let concerned = |rule: &Rule| subject == Subject::Everything || rule.subject == subject;
        if let Some(rule) = RULES.iter().position(|rule| concerned(rule) && rule.fits(chain)) {
            counts[rule] += 1;
        }
    }
    let mut found = Vec::new();
    for (rule, count) in RULES.iter().zip(counts).filter(|(_, count)| *count > 0) {
        let by =
            if rule.caller.is_empty() { String::new() } else { format!(" ← {}", rule.caller) };
        let share = count * 100 / chains.len().max(1);
        let summary = format!("{}{by} took {share} % of the time: {}", rule.copies, rule.meaning);
        let said = format!("{count} of {} samples", chains.len());
        let finding = Finding::of(&is::TRACE_COPIES, summary).seen("perf_event_open", said);
        found.push(match rule.severity {
            Severity::Note => finding.meaning(Severity::Note, "Plain sends copy by design."),
            _ => finding,
        });
    }
    if found.is_empty() {
        let said = format!("none of {} samples", chains.len());
        let summary = "no function that copies was seen";
        found.push(Finding::of(&is::TRACE_CLEAN, summary).seen("perf_event_open", said));
    }
    found
}

fn forbidden(errno: Errno) -> Finding {
    let setting = |name: &str| {
        let value = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        format!("kernel.{name} is {}", value.as_deref().map_or("not known", str::trim))
    };
    Finding::of(&is::TRACE_FORBIDDEN, "the kernel may not be sampled")
        .seen("perf_event_open", format!("{} ({errno})", errno.message()))
        .seen("/proc/sys", setting("perf_event_paranoid"))
        .seen("/proc/sys", setting("kptr_restrict"))
}

#[cfg(fuzzing)]
pub(super) fn fuzz(text: &str) {
    symbols::fuzz(text);
    let _ = processors_in(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(chains: &[&[&str]], subject: Subject) -> Vec<(String, Severity)> {
        let chains: Vec<Vec<&str>> = chains.iter().map(|chain| chain.to_vec()).collect();
        findings(&chains, subject).into_iter().map(|f| (f.summary, f.severity)).collect()
    }

    #[test]
    fn copies_are_told_by_who_called() {
        let tap = &["memcpy", "skb_copy_ubufs", "dev_queue_xmit_nit", "dev_hard_start_xmit"][..];
        let loopback =
            &["skb_copy_ubufs", "__netif_receive_skb_core.constprop.0", "process_backlog"][..];
        let plain = &["rep_movs_alternative", "_copy_from_iter", "udpv6_sendmsg"][..];
        let write = &["copy_folio_from_iter_atomic", "generic_perform_write"][..];
        let idle = &["schedule"][..];
        assert_eq!(
            ids(&[tap, tap, idle, idle], Subject::Sending),
            [(
                "skb_copy_ubufs ← dev_queue_xmit_nit took 50 % of the time: a packet tap copied \
                 (tap-eth-p-all)"
                    .to_owned(),
                Severity::Copies
            )]
        );
        for (chain, subject, expected, severity) in [
            (loopback, Subject::Sending, "loopback, veth", Severity::Copies),
            (plain, Subject::Sending, "a plain send", Severity::Note),
            (write, Subject::Copying, "a buffered write", Severity::Copies),
            (write, Subject::Everything, "a buffered write", Severity::Copies),
            (write, Subject::Sending, "no function that copies", Severity::Note),
            (idle, Subject::Everything, "no function that copies", Severity::Note),
            (&[][..], Subject::Everything, "no function that copies", Severity::Note),
        ] {
            let found = ids(&[chain], subject);
            assert!(found[0].0.contains(expected), "{found:?}");
            assert_eq!(found[0].1, severity, "{found:?}");
        }
    }

    #[test]
    fn processors_are_listed_in_ranges() {
        assert_eq!(processors_in("0-2,5,7-8"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(processors_in(""), [0; 0]);
        assert!(!processors().is_empty());
    }
}
