//! The cases of the suite `send`, and what is to be reached in them.

use testbed::BareSend;
use uncopy::send::{Mode, PageSize, train_bytes};

use super::subjects::{self, Flush, Load};
use crate::compare::brief::BriefRuns;
use crate::compare::case::Case;
use crate::compare::metric::CPU_EACH;
use crate::compare::verdict::{Target, at_most};

const SIZES: [usize; 8] = [64_000, 16_384, 8000, 4000, 1500, 1200, 1000, 600];
/// The train of the measurements that the targets come from.
const SEGMENT: u16 = 1200;
const SEGMENTS: usize = 40;

const SEND: &str = "bare send";
const SENDMMSG: &str = "bare sendmmsg of 64";
const BARE_RING_COPY: &str = "bare ring, copy";
const BARE_REGISTERED: &str = "bare ring, registered";
const COPY: &str = "uncopy, copy";
const RING_COPY: &str = "ring, copy";
const MSG_ZEROCOPY: &str = "uncopy, MSG_ZEROCOPY";
const NORMAL: &str = "ring, SEND_ZC";
const REGISTERED: &str = "ring, registered";
const HUGE: &str = "ring, registered, 2 MiB pages";
const FLUSH_EACH: &str = "ring, registered, flush each send";
const FLUSH_BUNCH: &str = "ring, registered, flush each 64";
const FLUSH_NEVER: &str = "ring, SEND_ZC, never flushed";
const AUTO: &str = "ring, registered, auto";

/// What all cases share.
pub(super) struct Setting {
    pub(super) runs: BriefRuns,
}

impl Setting {
    /// Every case.
    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = SIZES.into_iter().map(|bytes| self.of_size(bytes)).collect();
        cases.push(self.trains());
        cases
    }

    fn of_size(&self, bytes: usize) -> Case {
        let (load, time) = (Load { bytes, segment: None }, self.runs.time);
        let registered =
            |name, mode, flush, pages| subjects::registered(name, mode, (flush, pages), load, time);
        let (zerocopy, base) = (Mode::Zerocopy, PageSize::Base);
        let subjects = vec![
            subjects::bare(SEND, false, load, time),
            subjects::bare(SENDMMSG, true, load, time),
            subjects::bare_ring(BARE_RING_COPY, BareSend::Copy, load, time),
            subjects::bare_ring(BARE_REGISTERED, BareSend::Registered, load, time),
            subjects::sender(COPY, Mode::Copy, load, time),
            subjects::sender(MSG_ZEROCOPY, zerocopy, load, time),
            subjects::ring(RING_COPY, Mode::Copy, Flush::NoSlots, load, time),
            subjects::ring(NORMAL, zerocopy, Flush::NoSlots, load, time),
            registered(REGISTERED, zerocopy, Flush::NoSlots, base),
            registered(HUGE, zerocopy, Flush::NoSlots, PageSize::HugeIfPossible),
            registered(FLUSH_EACH, zerocopy, Flush::EachSend, base),
            registered(FLUSH_BUNCH, zerocopy, Flush::EachBunch, base),
            subjects::ring(FLUSH_NEVER, zerocopy, Flush::Never, load, time),
            registered(AUTO, Mode::Auto, Flush::NoSlots, base),
        ];
        self.runs.case(format!("udp/{bytes}B"), RING_COPY, subjects, targets_of(bytes))
    }

    /// Many datagrams in one send, against one send for each of as many.
    fn trains(&self) -> Case {
        let bytes = usize::from(SEGMENT) * SEGMENTS;
        let (load, time) = (Load { bytes, segment: Some(SEGMENT) }, self.runs.time);
        let base = (Flush::NoSlots, PageSize::Base);
        let subjects = vec![
            subjects::sender(COPY, Mode::Copy, load, time),
            subjects::sender(MSG_ZEROCOPY, Mode::Zerocopy, load, time),
            subjects::ring(RING_COPY, Mode::Copy, Flush::NoSlots, load, time),
            subjects::registered(REGISTERED, Mode::Zerocopy, base, load, time),
        ];
        let targets = vec![at_most(1.0 / 2.4, CPU_EACH, REGISTERED, COPY)];
        debug_assert!(bytes <= train_bytes(SEGMENT, false));
        self.runs.case(format!("udp/{SEGMENTS} × {SEGMENT}B"), COPY, subjects, targets)
    }
}

fn targets_of(bytes: usize) -> Vec<Target> {
    let at_most = |limit, subject, against| at_most(limit, CPU_EACH, subject, against);
    let mut targets = vec![
        Target { band: 0.03, ..at_most(1.03, AUTO, RING_COPY) },
        Target { band: 0.05, ..at_most(1.05, FLUSH_BUNCH, REGISTERED) },
        Target { band: 0.03, ..at_most(1.03, REGISTERED, BARE_REGISTERED) },
        Target { band: 0.03, ..at_most(1.03, COPY, SEND) },
    ];
    match bytes {
        64_000 => targets.push(at_most(1.0 / 3.0, HUGE, RING_COPY)),
        8000 => targets.push(at_most(1.0 / 1.45, REGISTERED, RING_COPY)),
        _ => {}
    }
    targets
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
}
