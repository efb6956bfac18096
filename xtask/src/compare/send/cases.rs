//! The cases of the suite `send`, and what is to be reached in them.

use testbed::BareSend;
use uncopy::send::{Mode, PageSize, train_bytes};

use super::streams;
use super::subjects::{self, Flush, Load, MANY_BUFFERS_BYTES, Share};
use crate::compare::brief::BriefRuns;
use crate::compare::case::Case;
use crate::compare::metric::CPU_EACH;
use crate::compare::verdict::{Target, at_most};

const SIZES: [usize; 8] = [64_000, 16_384, 8000, 4000, 1500, 1200, 1000, 600];
/// Sizes of sends from so many buffers that no cache holds them.
const MANY_SIZES: [usize; 3] = [64_000, 16_384, 8000];
/// The train of the measurements that the targets come from.
const SEGMENT: u16 = 1200;
const SEGMENTS: usize = 40;
const FIELD_ROUNDS: usize = 5;

const SEND: &str = "bare send";
const SENDMMSG: &str = "bare sendmmsg of 64";
const BARE_LENT: &str = "bare MSG_ZEROCOPY";
const BARE_RING_COPY: &str = "bare ring, copy";
const BARE_NORMAL: &str = "bare ring, SEND_ZC";
const BARE_REGISTERED: &str = "bare ring, registered";
const COPY: &str = "uncopy, copy";
pub(super) const RING_COPY: &str = "ring, copy";
const MSG_ZEROCOPY: &str = "uncopy, MSG_ZEROCOPY";
const NORMAL: &str = "ring, SEND_ZC";
pub(super) const REGISTERED: &str = "ring, registered";
const HUGE: &str = "ring, registered, 2 MiB pages";
pub(super) const FLUSH_EACH: &str = "ring, registered, flush each send";
const FLUSH_BUNCH: &str = "ring, registered, flush each 64";
const FLUSH_NEVER: &str = "ring, SEND_ZC, never flushed";
const AUTO: &str = "ring, registered, auto";
const NORMAL_AUTO: &str = "ring, SEND_ZC, auto";
/// One send for each datagram of a train.
const SINGLE: &str = "bare send of each";
const RING_SINGLE: &str = "ring, copy of each";
const ALL_NORMAL: &str = "none registered";
const MIXED: &str = "every second registered";
const ALL_REGISTERED: &str = "all registered";
const TAPPED: &str = "uncopy, MSG_ZEROCOPY, tapped";
const MSG_ZEROCOPY_AGAIN: &str = "uncopy, MSG_ZEROCOPY, another run";
const SENDER_AUTO: &str = "uncopy, auto";

/// Parts shared by all cases.
pub(super) struct Setting {
    pub(super) runs: BriefRuns,
}

impl Setting {
    /// Every case.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = SIZES.into_iter().map(|bytes| self.of_size(bytes)).collect();
        cases.extend(MANY_SIZES.map(|bytes| self.of_many_buffers(bytes)));
        cases.extend([self.trains(), self.trains_of_many_buffers(), self.mixed(), self.stream()]);
        cases.push(self.runs_of_the_field());
        cases
    }

    fn of_size(&self, bytes: usize) -> Case {
        let (load, time) = (Load::of(bytes), self.runs.time);
        let registered =
            |name, mode, flush, pages| subjects::registered(name, mode, flush, pages, load, time);
        let (zerocopy, base) = (Mode::Zerocopy, PageSize::Base);
        let subjects = vec![
            subjects::bare(SEND, BareSend::Copy, load, time),
            subjects::bare_sendmmsg(SENDMMSG, load, time),
            subjects::bare(BARE_LENT, BareSend::Lend, load, time),
            subjects::bare_ring(BARE_RING_COPY, BareSend::Copy, load, time),
            subjects::bare_ring(BARE_NORMAL, BareSend::Lend, load, time),
            subjects::bare_ring(BARE_REGISTERED, BareSend::Registered, load, time),
            subjects::sender(COPY, Mode::Copy, load, time),
            subjects::sender(MSG_ZEROCOPY, zerocopy, load, time),
            subjects::sender(SENDER_AUTO, Mode::Auto, load, time),
            subjects::ring(RING_COPY, Mode::Copy, Flush::NoSlots, load, time),
            subjects::ring(NORMAL, zerocopy, Flush::NoSlots, load, time),
            subjects::ring(NORMAL_AUTO, Mode::Auto, Flush::NoSlots, load, time),
            registered(REGISTERED, zerocopy, Flush::NoSlots, base),
            registered(HUGE, zerocopy, Flush::NoSlots, PageSize::HugeIfPossible),
            registered(FLUSH_EACH, zerocopy, Flush::EachSend, base),
            registered(FLUSH_BUNCH, zerocopy, Flush::EachBunch, base),
            subjects::ring(FLUSH_NEVER, zerocopy, Flush::Never, load, time),
            registered(AUTO, Mode::Auto, Flush::NoSlots, base),
        ];
        self.runs.case(format!("udp/{bytes}B"), RING_COPY, subjects, targets_of(bytes))
    }

    /// As a program sends that has more to say than one buffer, which a cache holds.
    fn of_many_buffers(&self, bytes: usize) -> Case {
        let buffers = MANY_BUFFERS_BYTES / bytes;
        let (load, time) = (Load { buffers, ..Load::of(bytes) }, self.runs.time);
        let ring =
            |name, mode, pages| subjects::registered(name, mode, Flush::NoSlots, pages, load, time);
        let subjects = vec![
            subjects::bare(BARE_LENT, BareSend::Lend, load, time),
            subjects::bare_ring(BARE_RING_COPY, BareSend::Copy, load, time),
            subjects::bare_ring(BARE_NORMAL, BareSend::Lend, load, time),
            subjects::bare_ring(BARE_REGISTERED, BareSend::Registered, load, time),
            subjects::sender(COPY, Mode::Copy, load, time),
            subjects::sender(MSG_ZEROCOPY, Mode::Zerocopy, load, time),
            subjects::sender(SENDER_AUTO, Mode::Auto, load, time),
            subjects::ring(NORMAL, Mode::Zerocopy, Flush::NoSlots, load, time),
            subjects::ring(NORMAL_AUTO, Mode::Auto, Flush::NoSlots, load, time),
            ring(RING_COPY, Mode::Copy, PageSize::Base),
            ring(REGISTERED, Mode::Zerocopy, PageSize::Base),
            ring(HUGE, Mode::Zerocopy, PageSize::HugeIfPossible),
            ring(AUTO, Mode::Auto, PageSize::Base),
        ];
        let mut targets = vec![
            within(1.03, MSG_ZEROCOPY, BARE_LENT),
            within(1.03, RING_COPY, BARE_RING_COPY),
            within(1.03, NORMAL, BARE_NORMAL),
            within(1.03, REGISTERED, BARE_REGISTERED),
        ];
        targets.extend(never_worse());
        targets.extend(published_ratios(bytes));
        self.runs.case(format!("udp/{bytes}B, many buffers"), RING_COPY, subjects, targets)
    }

    /// Many datagrams in one send, against one send for each of as many.
    fn trains(&self) -> Case {
        let bytes = usize::from(SEGMENT) * SEGMENTS;
        let (load, time) = (Load { segment: Some(SEGMENT), ..Load::of(bytes) }, self.runs.time);
        let single = Load { sends: SEGMENTS, ..Load::of(SEGMENT.into()) };
        let base = PageSize::Base;
        let subjects = vec![
            subjects::bare(SEND, BareSend::Copy, load, time),
            subjects::bare(BARE_LENT, BareSend::Lend, load, time),
            subjects::bare_ring(BARE_RING_COPY, BareSend::Copy, load, time),
            subjects::bare_ring(BARE_REGISTERED, BareSend::Registered, load, time),
            subjects::sender(COPY, Mode::Copy, load, time),
            subjects::sender(MSG_ZEROCOPY, Mode::Zerocopy, load, time),
            subjects::ring(RING_COPY, Mode::Copy, Flush::NoSlots, load, time),
            subjects::registered(REGISTERED, Mode::Zerocopy, Flush::NoSlots, base, load, time),
            subjects::registered(AUTO, Mode::Auto, Flush::NoSlots, base, load, time),
            subjects::bare(SINGLE, BareSend::Copy, single, time),
            subjects::ring(RING_SINGLE, Mode::Copy, Flush::NoSlots, single, time),
        ];
        let targets = vec![
            at_most(1.0 / 2.4, CPU_EACH, REGISTERED, COPY),
            at_most(1.0 / 10.0, CPU_EACH, REGISTERED, SINGLE),
            within(1.03, COPY, SEND),
            within(1.03, MSG_ZEROCOPY, BARE_LENT),
            within(1.03, REGISTERED, BARE_REGISTERED),
            within(1.03, AUTO, REGISTERED),
        ];
        debug_assert!(bytes <= train_bytes(SEGMENT, false));
        self.runs.case(format!("udp/{SEGMENTS} × {SEGMENT}B"), COPY, subjects, targets)
    }

    /// Trains of memory that no cache holds.
    fn trains_of_many_buffers(&self) -> Case {
        let bytes = usize::from(SEGMENT) * SEGMENTS;
        let (buffers, segment) = (MANY_BUFFERS_BYTES / bytes, Some(SEGMENT));
        let (load, time) = (Load { buffers, segment, ..Load::of(bytes) }, self.runs.time);
        let base = PageSize::Base;
        let subjects = vec![
            subjects::bare(SEND, BareSend::Copy, load, time),
            subjects::bare(BARE_LENT, BareSend::Lend, load, time),
            subjects::bare_ring(BARE_REGISTERED, BareSend::Registered, load, time),
            subjects::sender(COPY, Mode::Copy, load, time),
            subjects::sender(MSG_ZEROCOPY, Mode::Zerocopy, load, time),
            subjects::sender(SENDER_AUTO, Mode::Auto, load, time),
            subjects::registered(REGISTERED, Mode::Zerocopy, Flush::NoSlots, base, load, time),
            subjects::registered(AUTO, Mode::Auto, Flush::NoSlots, base, load, time),
        ];
        let targets = vec![
            at_most(1.0 / 2.4, CPU_EACH, REGISTERED, COPY),
            within(1.03, COPY, SEND),
            within(1.03, SENDER_AUTO, COPY),
            within(1.03, SENDER_AUTO, MSG_ZEROCOPY),
            within(1.03, MSG_ZEROCOPY, BARE_LENT),
            within(1.03, REGISTERED, BARE_REGISTERED),
            within(1.03, AUTO, REGISTERED),
        ];
        let case = format!("udp/{SEGMENTS} × {SEGMENT}B, many buffers");
        self.runs.case(case, COPY, subjects, targets)
    }
}

impl Setting {
    /// Registered and other memory under one notifier.
    fn mixed(&self) -> Case {
        let (load, time) = (Load::of(8000), self.runs.time);
        let subject = |name, share| subjects::mixed(name, share, load, time);
        let subjects = vec![
            subject(ALL_NORMAL, Share::None),
            subject(MIXED, Share::EverySecond),
            subject(ALL_REGISTERED, Share::All),
        ];
        self.runs.case("udp/8000B, mixed".to_owned(), ALL_REGISTERED, subjects, Vec::new())
    }

    /// The field report's runs, as long as there: user and system time are separate.
    fn runs_of_the_field(&self) -> Case {
        let runs = self.runs.longer(streams::FIELD_RUN, FIELD_ROUNDS);
        let subject = |name, mode, tapped| streams::sender(name, mode, tapped, runs.time);
        let subjects = vec![
            subject(COPY, Mode::Copy, false),
            subject(TAPPED, Mode::Zerocopy, true),
            subject(MSG_ZEROCOPY, Mode::Zerocopy, false),
            subject(MSG_ZEROCOPY_AGAIN, Mode::Zerocopy, false),
        ];
        let case = format!("tcp/{}B, runs of 4.2 s", streams::LARGEST);
        runs.case(case, COPY, subjects, Vec::new())
    }

    /// The same in short runs, and through the ring.
    fn stream(&self) -> Case {
        let time = self.runs.time;
        let subject = |name, mode, tapped| streams::sender(name, mode, tapped, time);
        let ring = |name, mode| streams::ring(name, mode, time);
        let registered = |name, mode| streams::registered(name, mode, time);
        let bare = |name, how| streams::bare(name, how, time);
        let bare_ring = |name, how| streams::bare_ring(name, how, time);
        let subjects = vec![
            bare(SEND, BareSend::Copy),
            bare(BARE_LENT, BareSend::Lend),
            bare_ring(BARE_RING_COPY, BareSend::Copy),
            bare_ring(BARE_NORMAL, BareSend::Lend),
            bare_ring(BARE_REGISTERED, BareSend::Registered),
            subject(COPY, Mode::Copy, false),
            subject(TAPPED, Mode::Zerocopy, true),
            subject(MSG_ZEROCOPY, Mode::Zerocopy, false),
            // Runs of it differ more than of others, in the field too.
            subject(MSG_ZEROCOPY_AGAIN, Mode::Zerocopy, false),
            subject(SENDER_AUTO, Mode::Auto, false),
            ring(RING_COPY, Mode::Copy),
            ring(NORMAL, Mode::Zerocopy),
            registered(REGISTERED, Mode::Zerocopy),
            registered(AUTO, Mode::Auto),
        ];
        let targets = vec![
            within(1.03, COPY, SEND),
            within(1.03, MSG_ZEROCOPY, BARE_LENT),
            within(1.03, RING_COPY, BARE_RING_COPY),
            within(1.03, NORMAL, BARE_NORMAL),
            within(1.03, REGISTERED, BARE_REGISTERED),
            // Never worse than the better of the two.
            within(1.03, SENDER_AUTO, COPY),
            within(1.03, SENDER_AUTO, MSG_ZEROCOPY),
            within(1.03, AUTO, RING_COPY),
            within(1.03, AUTO, REGISTERED),
        ];
        self.runs.case(format!("tcp/{}B", streams::LARGEST), COPY, subjects, targets)
    }
}

/// A target that is missed only by more than what it allows.
fn within(limit: f64, subject: &str, against: &str) -> Target {
    Target { band: limit - 1.0, ..at_most(limit, CPU_EACH, subject, against) }
}

/// Limits of sends without copying, relative to those with it.
fn published_ratios(bytes: usize) -> Option<Target> {
    match bytes {
        64_000 => Some(at_most(1.0 / 3.0, CPU_EACH, HUGE, RING_COPY)),
        8000 => Some(at_most(1.0 / 1.45, CPU_EACH, REGISTERED, RING_COPY)),
        _ => None,
    }
}

fn targets_of(bytes: usize) -> Vec<Target> {
    let mut targets = vec![
        within(1.05, FLUSH_BUNCH, REGISTERED),
        within(1.05, FLUSH_EACH, REGISTERED),
        within(1.05, FLUSH_NEVER, NORMAL),
        within(1.05, FLUSH_BUNCH, BARE_REGISTERED),
        within(1.05, FLUSH_EACH, BARE_REGISTERED),
        within(1.05, FLUSH_NEVER, BARE_NORMAL),
        within(1.03, MSG_ZEROCOPY, BARE_LENT),
        within(1.03, NORMAL, BARE_NORMAL),
        within(1.03, REGISTERED, BARE_REGISTERED),
        within(1.03, RING_COPY, BARE_RING_COPY),
        within(1.03, COPY, SEND),
    ];
    targets.extend(never_worse());
    targets.extend(published_ratios(bytes));
    targets
}

/// An automatic choice is as good as the better of both ways, for a sender and for a ring with
/// memory of either kind.
fn never_worse() -> impl Iterator<Item = Target> {
    let ways = [
        (SENDER_AUTO, [COPY, MSG_ZEROCOPY]),
        (NORMAL_AUTO, [RING_COPY, NORMAL]),
        (AUTO, [RING_COPY, REGISTERED]),
    ];
    ways.into_iter().flat_map(|(own, both)| both.map(|against| within(1.03, own, against)))
}

#[cfg(test)]
mod tests {
    use super::super::{ROUNDS, RUN};
    use super::*;
    use crate::compare::brief::Options;
    use crate::compare::verdict::Against;

    fn cases() -> Vec<Case> {
        Setting { runs: BriefRuns::new(Options::nowhere(), RUN, ROUNDS) }.cases()
    }

    #[test]
    fn every_case_has_its_baseline_and_what_its_targets_name() {
        for case in cases() {
            let has = |name: &str| case.subjects.iter().any(|subject| subject.name == name);
            assert!(has(case.baseline), "{}", case.name);
            for target in &case.targets {
                assert!(has(&target.subject), "{} {}", case.name, target.subject);
                assert!(matches!(&target.against, Against::Subject(name) if has(name)));
            }
        }
    }

    #[test]
    fn every_named_target_has_a_row() {
        let cases = cases();
        let train = format!("udp/{SEGMENTS} × {SEGMENT}B");
        let named = |case: &str, subject: &str, limit: f64, against: &str| {
            let targets = cases.iter().filter(|c| c.name == case).flat_map(|c| &c.targets);
            let against = Against::Subject(against.to_owned());
            let found = targets.filter(|target| {
                target.subject == subject
                    && (target.limit - limit).abs() < 1e-9
                    && target.against == against
                    && target.metric == CPU_EACH
            });
            assert_eq!(found.count(), 1, "{case} {subject}");
        };
        named("udp/8000B", REGISTERED, 1.0 / 1.45, RING_COPY);
        named("udp/64000B", HUGE, 1.0 / 3.0, RING_COPY);
        named("udp/8000B, many buffers", REGISTERED, 1.0 / 1.45, RING_COPY);
        named("udp/64000B, many buffers", HUGE, 1.0 / 3.0, RING_COPY);
        named(&train, REGISTERED, 1.0 / 2.4, COPY);
        named(&train, REGISTERED, 1.0 / 10.0, SINGLE);
        named(&train, REGISTERED, 1.03, BARE_REGISTERED);
        named(&train, COPY, 1.03, SEND);
        named(&train, MSG_ZEROCOPY, 1.03, BARE_LENT);
        let train = format!("{train}, many buffers");
        named(&train, REGISTERED, 1.0 / 2.4, COPY);
        named(&train, REGISTERED, 1.03, BARE_REGISTERED);
        named(&train, MSG_ZEROCOPY, 1.03, BARE_LENT);
        for against in [COPY, MSG_ZEROCOPY] {
            named(&train, SENDER_AUTO, 1.03, against);
        }
        for (own, both) in [(SENDER_AUTO, [COPY, MSG_ZEROCOPY]), (AUTO, [RING_COPY, REGISTERED])] {
            both.into_iter().for_each(|against| named("tcp/65435B", own, 1.03, against));
        }
        let stream = format!("tcp/{}B", streams::LARGEST);
        let sizes = SIZES.map(|bytes| format!("udp/{bytes}B"));
        let many = MANY_SIZES.map(|bytes| format!("udp/{bytes}B, many buffers"));
        for case in sizes.iter().chain(&many).chain([&stream]) {
            named(case, MSG_ZEROCOPY, 1.03, BARE_LENT);
            named(case, RING_COPY, 1.03, BARE_RING_COPY);
            named(case, NORMAL, 1.03, BARE_NORMAL);
            named(case, REGISTERED, 1.03, BARE_REGISTERED);
        }
        for case in sizes.iter().chain([&stream]) {
            named(case, COPY, 1.03, SEND);
        }
        for case in &sizes {
            for (own, both) in [
                (SENDER_AUTO, [COPY, MSG_ZEROCOPY]),
                (NORMAL_AUTO, [RING_COPY, NORMAL]),
                (AUTO, [RING_COPY, REGISTERED]),
            ] {
                both.into_iter().for_each(|against| named(case, own, 1.03, against));
            }
            for flush in [FLUSH_BUNCH, FLUSH_EACH] {
                named(case, flush, 1.05, REGISTERED);
                named(case, flush, 1.05, BARE_REGISTERED);
            }
            named(case, FLUSH_NEVER, 1.05, NORMAL);
            named(case, FLUSH_NEVER, 1.05, BARE_NORMAL);
        }
    }

    #[test]
    fn what_has_no_target_has_a_case() {
        let names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
        for name in ["udp/8000B, mixed", "tcp/65435B, runs of 4.2 s"] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
    }
}
