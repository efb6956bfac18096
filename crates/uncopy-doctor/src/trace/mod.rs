//! Samples the kernel for functions that copy.

mod calls;
mod stacks;
mod symbols;

use std::time::{Duration, Instant};

use super::condition as is;
use super::effect::Effect;
use super::finding::DoctorFinding;
use super::found::{CopySite, Sighting, TraceFound};
use super::report::{ReportFact, Stack};
use super::severity::Severity;
use calls::Calls;
use stacks::{By, Stacks};
use symbols::Symbols;
use uncopy_core::Errno;
use uncopy_os::Sys;
use uncopy_os::perf::{Sample, Sampler};

/// Interval at which the rings of samples are emptied.
const PERIOD: Duration = Duration::from_millis(50);

/// Activity whose copies are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Sending,
    Copying,
    Everything,
}

/// A function that copies payload, a function that calls it directly or indirectly, and the meaning.
struct Rule {
    copies: &'static str,
    caller: &'static str,
    site: CopySite,
    subject: Subject,
    severity: Severity,
}

const fn sending(copies: &'static str, caller: &'static str, site: CopySite) -> Rule {
    Rule { copies, caller, site, subject: Subject::Sending, severity: Severity::Copies }
}

/// Rules; the first match is used. Names of functions in `net/core`, `net/ipv4`, `mm/filemap.c` and
/// `lib/iov_iter.c` of Linux 4.14 to 6.18.
const RULES: &[Rule] = &[
    sending("skb_copy_ubufs", "dev_queue_xmit_nit", CopySite::Tap),
    sending("skb_copy_ubufs", "tun_net_xmit", CopySite::Tun),
    sending("skb_copy_ubufs", "__netif_receive_skb", CopySite::Receiver),
    sending("skb_copy_ubufs", "process_backlog", CopySite::Receiver),
    sending("skb_copy_ubufs", "", CopySite::UnknownSite),
    sending("__pskb_pull_tail", "skb_checksum_help", CopySite::Checksum),
    sending("skb_copy_bits", "skb_segment", CopySite::Segments),
    sending("skb_copy_and_csum_bits", "skb_segment", CopySite::Segments),
    sending("__pskb_pull_tail", "validate_xmit_skb", CopySite::Device),
    Rule {
        copies: "_copy_from_iter",
        caller: "sendmsg",
        site: CopySite::PlainSend,
        subject: Subject::Sending,
        severity: Severity::Note,
    },
    Rule {
        copies: "copy_folio_from_iter_atomic",
        caller: "",
        site: CopySite::BufferedWrite,
        subject: Subject::Copying,
        severity: Severity::Copies,
    },
    Rule {
        copies: "copy_page_from_iter_atomic",
        caller: "",
        site: CopySite::BufferedWrite,
        subject: Subject::Copying,
        severity: Severity::Copies,
    },
    Rule {
        copies: "_copy_to_iter",
        caller: "filemap_read",
        site: CopySite::Read,
        subject: Subject::Copying,
        severity: Severity::Copies,
    },
];

impl Rule {
    /// Matches names of functions, the innermost first. A caller matches by a part of its name, since names
    /// vary between compilers and kernels (`__netif_receive_skb_core.constprop.0`, `udpv6_sendmsg`).
    fn fits(&self, chain: &[&str]) -> bool {
        let is_copy = |name: &&str| name.split('.').next() == Some(self.copies);
        let Some(place) = chain.iter().position(is_copy) else { return false };
        self.caller.is_empty() || chain[place..].iter().any(|name| name.contains(self.caller))
    }
}

/// Result of a trace.
pub(super) struct Traced {
    pub(super) findings: Vec<DoctorFinding>,
    pub(super) facts: Vec<ReportFact>,
    /// `None`: not requested, or the kernel cannot be sampled.
    pub(super) stacks: Option<Vec<Stack>>,
}

/// Samples every CPU for `time`, records calls of functions that copy sent bytes, and reports the copies.
/// `pid`: only samples of that process.
pub(super) fn trace(
    time: Duration,
    subject: Subject,
    pid: Option<u32>,
    wants_stacks: bool,
) -> Traced {
    let processors = processors();
    let begin = |processors: &[usize]| {
        let samplers = processors.iter().map(|processor| Sampler::on(*processor));
        Ok((Symbols::load()?, samplers.collect::<Sys<Vec<Sampler>>>()?))
    };
    let functions = probed(subject);
    let calls = (!functions.is_empty()).then(|| Calls::begin(&functions, &processors));
    let (symbols, samplers) = match begin(&processors) {
        Ok(begun) => begun,
        Err(errno) => {
            let findings = vec![forbidden(errno, calls.and_then(Result::err))];
            return Traced { findings, facts: Vec::new(), stacks: None };
        }
    };
    let (mut calls, refusal) = match calls.transpose() {
        Ok(calls) => (calls, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let filter = Filter { symbols, subject, pid };
    let mut stacks = wants_stacks.then(Stacks::default);
    let (sampled, called) = filter.watch(time, samplers, calls.as_mut(), stacks.as_mut());
    let value = format!("{} samples in {:.1} s", sampled.total, time.as_secs_f64());
    let mut facts = vec![ReportFact { name: "trace", value }];
    if let Some(value) = calls.as_ref().map(Calls::describe).or(refusal) {
        facts.push(ReportFact { name: "kprobes", value });
    }
    if let Some(left_out) = stacks.as_ref().map(Stacks::left_out).filter(|count| *count > 0) {
        let value = format!("too many different ones: {left_out} sightings are not counted");
        facts.push(ReportFact { name: "stacks", value });
    }
    Traced {
        findings: findings(&sampled, calls.is_some().then_some(&called)),
        facts,
        stacks: stacks.map(Stacks::commonest),
    }
}

/// Selection of samples.
struct Filter {
    symbols: Symbols,
    subject: Subject,
    /// `None`: every process.
    pid: Option<u32>,
}

/// Numbers of all samples or calls, and of those that match each rule.
struct Tally {
    total: usize,
    fitting: Vec<usize>,
}

impl Filter {
    /// Counts samples for `time`. Only different stacks are kept, so that memory is bounded.
    fn watch<'a>(
        &'a self,
        time: Duration,
        mut samplers: Vec<Sampler>,
        mut calls: Option<&mut Calls>,
        mut stacks: Option<&mut Stacks<'a>>,
    ) -> (Tally, Tally) {
        let (mut sampled, mut called) = (Tally::new(), Tally::new());
        let mut fresh = Vec::new();
        let begin = Instant::now();
        loop {
            let left = time.saturating_sub(begin.elapsed());
            std::thread::sleep(left.min(PERIOD));
            samplers.iter_mut().for_each(|sampler| sampler.take(&mut fresh));
            self.count(&mut sampled, &mut fresh, By::Sample, stacks.as_deref_mut());
            if let Some(calls) = &mut calls {
                calls.take(&mut fresh);
                self.count(&mut called, &mut fresh, By::Call, stacks.as_deref_mut());
            }
            if left.is_zero() {
                return (sampled, called);
            }
        }
    }

    fn count<'a>(
        &'a self,
        tally: &mut Tally,
        samples: &mut Vec<Sample>,
        by: By,
        mut stacks: Option<&mut Stacks<'a>>,
    ) {
        let is_own = |sample: &Sample| self.pid.is_none_or(|pid| sample.pid == pid);
        for sample in samples.drain(..).filter(is_own) {
            let names = self.symbols.names(&sample.chain);
            let copies = tally.add(&names, self.subject);
            if let Some(stacks) = stacks.as_deref_mut().filter(|_| copies) {
                stacks.add(&names, by);
            }
        }
    }
}

impl Tally {
    fn new() -> Tally {
        Tally { total: 0, fitting: vec![0; RULES.len()] }
    }

    /// Counts a call chain. Returns whether it contains a copying function.
    fn add(&mut self, chain: &[&str], subject: Subject) -> bool {
        self.total += 1;
        let concerned = |rule: &Rule| subject == Subject::Everything || rule.subject == subject;
        let rule = RULES.iter().position(|rule| concerned(rule) && rule.fits(chain));
        if let Some(rule) = rule {
            self.fitting[rule] += 1;
        }
        rule.is_some()
    }
}

/// Returns the functions whose calls are recorded. Sent bytes are copied in few calls of many bytes; the
/// functions that read and write files are called too often.
fn probed(subject: Subject) -> Vec<&'static str> {
    let concerned = RULES.iter().filter(|rule| {
        let is_sending = rule.subject == Subject::Sending && subject != Subject::Copying;
        is_sending && rule.severity == Severity::Copies
    });
    let mut names = Vec::new();
    for rule in concerned {
        if !names.contains(&rule.copies) {
            names.push(rule.copies);
        }
    }
    names
}

/// Returns the online CPUs; `/sys/devices/system/cpu/online` has the format `0-3,6`.
fn processors() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let found = processors_in(text.trim());
    if found.is_empty() { vec![0] } else { found }
}

/// Maximum number of CPUs of a kernel (`NR_CPUS` in `arch/x86/Kconfig`).
const MAX_PROCESSORS: usize = 8192;

fn processors_in(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let last = last.parse::<usize>().ok()?.min(MAX_PROCESSORS);
        Some(first.parse::<usize>().ok()?..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Derives findings from samples, and from recorded calls if there are any. Pure.
fn findings(sampled: &Tally, called: Option<&Tally>) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    for (place, rule) in RULES.iter().enumerate() {
        let samples = sampled.fitting[place];
        let calls = called.map_or(0, |called| called.fitting[place]);
        let sighting = match samples {
            0 if calls == 0 => continue,
            0 => Sighting::Calls { calls },
            _ => Sighting::Share { percent: samples * 100 / sampled.total.max(1) },
        };
        let copies = TraceFound::Copies {
            function: rule.copies,
            caller: rule.caller,
            sighting,
            site: rule.site.clone(),
        };
        let said = format!("{samples} of {} samples", sampled.total);
        let finding = DoctorFinding::of(&is::TRACE_COPIES, copies).seen(SAMPLES, said);
        let finding = match calls {
            0 => finding,
            _ => finding.seen(KPROBE, format!("{calls} calls with this caller")),
        };
        found.push(match rule.severity {
            Severity::Note => finding.meaning(Severity::Note, Effect::PlainSend),
            _ => finding,
        });
    }
    if found.is_empty() {
        let said = format!("none of {} samples", sampled.total);
        let clean = DoctorFinding::of(&is::TRACE_CLEAN, TraceFound::Clean).seen(SAMPLES, said);
        found.push(match called {
            Some(calls) => clean.seen(KPROBE, format!("none of {} calls", calls.total)),
            None => clean,
        });
    }
    found
}

const SAMPLES: &str = "perf_event_open";
const KPROBE: &str = "kprobe";

/// Returns the finding for refused sampling. `kprobes`: reason why calls cannot be recorded either.
fn forbidden(errno: Errno, kprobes: Option<String>) -> DoctorFinding {
    let setting = |name: &str| {
        let value = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        format!("kernel.{name} is {}", value.as_deref().map_or("not known", str::trim))
    };
    let finding = DoctorFinding::of(&is::TRACE_FORBIDDEN, TraceFound::Forbidden)
        .seen(SAMPLES, format!("{} ({errno})", errno.message()))
        .seen("/proc/sys", setting("perf_event_paranoid"))
        .seen("/proc/sys", setting("kptr_restrict"));
    match kprobes {
        Some(refusal) => finding.seen(KPROBE, refusal),
        None => finding,
    }
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(text: &str) {
    symbols::fuzz(text);
    let _ = processors_in(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(chains: &[&[&str]], subject: Subject) -> Tally {
        let mut tally = Tally::new();
        for chain in chains {
            tally.add(chain, subject);
        }
        tally
    }

    fn ids(chains: &[&[&str]], subject: Subject) -> Vec<(String, Severity)> {
        let found = findings(&tally(chains, subject), None);
        found.into_iter().map(|f| (f.summary.to_string(), f.severity)).collect()
    }

    #[test]
    fn calls_are_reported_with_and_without_samples() {
        let tap = &["skb_copy_ubufs", "dev_queue_xmit_nit", "dev_hard_start_xmit"][..];
        let other = &["__pskb_pull_tail", "tcp_v4_rcv"][..];
        let tally = |chains: &[&[&str]]| tally(chains, Subject::Sending);
        let (idle, calls) = (tally(&[&["schedule"]]), tally(&[tap, tap, other]));
        let found = findings(&idle, Some(&calls));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].summary.to_string(),
            "skb_copy_ubufs ← dev_queue_xmit_nit was called 2 times: a packet tap copied \
             (tap-eth-p-all)"
        );
        let said = |finding: &DoctorFinding, source: &str| {
            let evidence = finding.evidence.iter().find(|one| one.source == source);
            evidence.map(|one| one.found.clone())
        };
        assert_eq!(said(&found[0], KPROBE).as_deref(), Some("2 calls with this caller"));
        let found = findings(&tally(&[tap]), Some(&calls));
        assert!(found[0].summary.to_string().contains("took 100 % of the CPU time"), "{found:#?}");
        assert_eq!(said(&found[0], KPROBE).as_deref(), Some("2 calls with this caller"));
        let clean = findings(&idle, Some(&tally(&[other])));
        assert_eq!(clean[0].condition.id, "trace-clean");
        assert_eq!(said(&clean[0], KPROBE).as_deref(), Some("none of 1 calls"));
        let without = findings(&idle, None);
        assert_eq!(said(&without[0], KPROBE), None);
    }

    #[test]
    fn calls_are_recorded_for_functions_that_copy_sends() {
        let sending =
            ["skb_copy_ubufs", "__pskb_pull_tail", "skb_copy_bits", "skb_copy_and_csum_bits"];
        assert_eq!(probed(Subject::Sending), sending);
        assert_eq!(probed(Subject::Everything), sending);
        assert_eq!(probed(Subject::Copying), [""; 0]);
    }

    #[test]
    fn both_refusals_are_reported() {
        let finding = forbidden(Errno::EACCES, Some("refused: why".to_owned()));
        let found: Vec<&str> = finding.evidence.iter().map(|one| one.found.as_str()).collect();
        assert!(found[0].ends_with("(EACCES)"));
        assert_eq!(found[3], "refused: why");
        assert_eq!(forbidden(Errno::EACCES, None).evidence.len(), 3);
    }

    #[test]
    fn copies_are_named_by_their_caller() {
        let tap = &["memcpy", "skb_copy_ubufs", "dev_queue_xmit_nit", "dev_hard_start_xmit"][..];
        let loopback =
            &["skb_copy_ubufs", "__netif_receive_skb_core.constprop.0", "process_backlog"][..];
        let plain = &["rep_movs_alternative", "_copy_from_iter", "udpv6_sendmsg"][..];
        let write = &["copy_folio_from_iter_atomic", "generic_perform_write"][..];
        let idle = &["schedule"][..];
        assert_eq!(
            ids(&[tap, tap, idle, idle], Subject::Sending),
            [(
                "skb_copy_ubufs ← dev_queue_xmit_nit took 50 % of the CPU time: a packet tap copied \
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
            (write, Subject::Sending, "no copying function", Severity::Note),
            (idle, Subject::Everything, "no copying function", Severity::Note),
            (&[][..], Subject::Everything, "no copying function", Severity::Note),
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
