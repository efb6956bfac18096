//! Decides when a send is worth lending, from the outcome of earlier sends on its path. Pure.

use super::choice::{Choice, CostSample, Decision, Path};
use super::cost_model::{CostChoice, CostModel, SizeClass};
use super::counters::FallbackReason;
use crate::room::inet::Transport;

/// How a send can be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lending {
    /// `MSG_ZEROCOPY`, over this transport.
    MsgZerocopy(Transport),
    /// io_uring, with memory whose pages the kernel looks up for each send.
    Ring,
    /// io_uring, with memory of a registered pool.
    RingRegistered,
}

impl Lending {
    /// Returns the size from which lending is presumed to take less processor time than copying, until
    /// both were tried. Measured over ifb, Linux 6.18.
    ///
    /// For io_uring: the size at which the straight lines through the measurements of UDP at 4,000,
    /// 16,384 and 64,000 bytes cross, rounded up. For `MSG_ZEROCOPY` it depends on whether the memory is
    /// in a cache: over TCP from 38 KB (cached) and from 9 KB (not cached), so that a size between the two
    /// is never far from the better choice. Over UDP copying is cheap as long as the packet's memory is
    /// of an order that each processor keeps a store of (`PAGE_ALLOC_COSTLY_ORDER` in
    /// `include/linux/mmzone.h`: 32 KiB): up to that size a copy of cached memory takes 0.7 of the time of
    /// lending, above it 0.95.
    #[must_use]
    pub const fn pays_from_bytes(self) -> usize {
        match self {
            Lending::MsgZerocopy(Transport::Tcp) => 20 << 10,
            Lending::MsgZerocopy(Transport::Udp) => 32 << 10,
            Lending::Ring => 6 << 10,
            Lending::RingRegistered => 4 << 10,
        }
    }

    /// Returns the size below which lending never pays, in a cache or not, and is not tried.
    pub(crate) const fn never_pays_below(self) -> usize {
        match self {
            Lending::MsgZerocopy(_) => 4 << 10,
            Lending::Ring => 2 << 10,
            Lending::RingRegistered => 1 << 10,
        }
    }
}

/// Number of lent sends in a row that were copied all the same, after which the path is taken to copy.
const CONVINCED_AFTER: u32 = 8;
/// Number of large sends that are copied before such a path is tried again for the first time.
const FIRST_REST: u32 = 256;
/// Maximum rest; it doubles each time the path still copies.
const LONGEST_REST: u32 = 1 << 16;
/// Number of lent sends that try the path again.
const PROBES: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LendingState {
    /// Every send that is large enough is lent.
    Lending { copied_in_a_row: u32 },
    /// The path copies: `left` more large sends are copied before it is tried again.
    Resting { left: u32, rest: u32 },
    /// The path is tried again: `left` more sends may be lent, and `unanswered` releases are awaited
    /// during the next `patience` large sends. The limit is for probes that fail or whose release does not
    /// say whether they were copied.
    Probing { left: u32, unanswered: u32, patience: u32, rest: u32 },
}

/// Knowledge about one path, learnt from its sends.
#[derive(Debug)]
pub(crate) struct Auto {
    path: Path,
    state: LendingState,
    cost_model: CostModel,
}

impl Auto {
    pub(crate) fn new(path: Path) -> Auto {
        let state = LendingState::Lending { copied_in_a_row: 0 };
        Auto { path, state, cost_model: CostModel::default() }
    }

    /// Decides whether to lend a send of `bytes` bytes, and whether its cost is measured.
    pub(crate) fn decide(&mut self, bytes: usize, method: Lending) -> Decision {
        let presumed = bytes >= method.pays_from_bytes();
        if bytes < method.never_pays_below() {
            return Choice::Copy(FallbackReason::TooSmall).into();
        }
        if let LendingState::Lending { .. } = self.state {
            let class = SizeClass::of(bytes);
            let CostChoice { lend, is_sampled } = self.cost_model.choose(class, presumed);
            let choice = match (lend, presumed || is_sampled) {
                (true, _) => Choice::Lend(self.path),
                (false, true) => Choice::Copy(FallbackReason::CopyingIsCheaper),
                (false, false) => Choice::Copy(FallbackReason::TooSmall),
            };
            let sample = is_sampled.then_some(CostSample { path: self.path, class });
            return Decision { choice, sample };
        }
        match presumed {
            false => Choice::Copy(FallbackReason::TooSmall).into(),
            true => self.choose_on_copying_path().into(),
        }
    }

    pub(crate) fn cost_model(&mut self) -> &mut CostModel {
        &mut self.cost_model
    }

    /// Decides whether to lend a large send on a path that has copied.
    fn choose_on_copying_path(&mut self) -> Choice {
        let copy = Choice::Copy(FallbackReason::PathCopies);
        let lend = Choice::Lend(self.path);
        match &mut self.state {
            LendingState::Lending { .. } => lend,
            LendingState::Resting { left: 0, rest } => {
                let (rest, patience) = (*rest, FIRST_REST);
                self.state =
                    LendingState::Probing { left: PROBES - 1, unanswered: PROBES, patience, rest };
                lend
            }
            LendingState::Resting { left, .. } => {
                *left -= 1;
                copy
            }
            LendingState::Probing { left: 0, patience: 0, rest, .. } => {
                self.state = LendingState::Resting { left: *rest, rest: *rest };
                copy
            }
            LendingState::Probing { left: 0, patience, .. } => {
                *patience -= 1;
                copy
            }
            LendingState::Probing { left, .. } => {
                *left -= 1;
                lend
            }
        }
    }

    /// Learns from the release of a lent send whether it was copied all the same; `None`: the report is
    /// not reliable (since Linux 6.10 io_uring reports TCP sends that follow one another as copied when
    /// they were not).
    pub(crate) fn learn(&mut self, copied: Option<bool>) {
        self.state = match (self.state, copied) {
            (LendingState::Lending { copied_in_a_row }, Some(true)) => {
                let copied_in_a_row = copied_in_a_row + 1;
                if copied_in_a_row < CONVINCED_AFTER {
                    LendingState::Lending { copied_in_a_row }
                } else {
                    LendingState::Resting { left: FIRST_REST, rest: FIRST_REST }
                }
            }
            (LendingState::Probing { unanswered: 1, rest, .. }, Some(true)) => {
                let rest = rest.saturating_mul(2).min(LONGEST_REST);
                LendingState::Resting { left: rest, rest }
            }
            (LendingState::Probing { left, unanswered, patience, rest }, Some(true)) => {
                LendingState::Probing { left, unanswered: unanswered - 1, patience, rest }
            }
            (LendingState::Lending { .. } | LendingState::Probing { .. }, Some(false)) => {
                LendingState::Lending { copied_in_a_row: 0 }
            }
            // Sends lent before the rest began, and unreliable reports.
            (state @ LendingState::Resting { .. }, _) | (state, None) => state,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Auto, CONVINCED_AFTER, Choice, FIRST_REST, FallbackReason, LONGEST_REST, Lending, PROBES,
        Path, Transport,
    };

    const LARGE: usize = 64_000;
    const LEND: Choice = Choice::Lend(Path(3));
    const PATH_COPIES: Choice = Choice::Copy(FallbackReason::PathCopies);

    fn auto() -> Auto {
        Auto::new(Path(3))
    }

    fn choose_large(auto: &mut Auto) -> Choice {
        auto.decide(LARGE, Lending::Ring).choice
    }

    #[test]
    fn small_sends_are_copied() {
        for (method, bytes, lent) in [
            (Lending::MsgZerocopy(Transport::Tcp), 16_384, false),
            (Lending::MsgZerocopy(Transport::Tcp), 20_480, true),
            (Lending::MsgZerocopy(Transport::Udp), 20_480, false),
            (Lending::MsgZerocopy(Transport::Udp), 32_767, false),
            (Lending::MsgZerocopy(Transport::Udp), 48_000, true),
            (Lending::Ring, 4_000, false),
            (Lending::Ring, 8_000, true),
            (Lending::RingRegistered, 1_500, false),
            (Lending::RingRegistered, 8_000, true),
        ] {
            let choice = auto().decide(bytes, method).choice;
            let expected = if lent { LEND } else { Choice::Copy(FallbackReason::TooSmall) };
            assert_eq!(choice, expected, "{method:?} {bytes}");
        }
    }

    /// Sends until one is lent; returns the number that were copied before it.
    fn copied_until_lent(auto: &mut Auto) -> u32 {
        (0..).take_while(|_| choose_large(auto) == PATH_COPIES).count() as u32
    }

    fn convince(auto: &mut Auto) {
        for _ in 0..CONVINCED_AFTER {
            assert_eq!(choose_large(auto), LEND);
            auto.learn(Some(true));
        }
    }

    #[test]
    fn a_path_that_copies_is_tried_again_less_and_less_often() {
        let mut auto = auto();
        convince(&mut auto);
        let mut rest = FIRST_REST;
        for _ in 0..20 {
            assert_eq!(copied_until_lent(&mut auto), rest);
            for _ in 1..PROBES {
                assert_eq!(choose_large(&mut auto), LEND);
            }
            // Nothing more is lent before the probes are released.
            assert_eq!(choose_large(&mut auto), PATH_COPIES);
            (0..PROBES).for_each(|_| auto.learn(Some(true)));
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    #[test]
    fn lending_resumes_when_a_probe_was_not_copied() {
        let mut auto = auto();
        convince(&mut auto);
        assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
        auto.learn(Some(true));
        auto.learn(Some(false));
        for _ in 0..200 {
            assert_eq!(choose_large(&mut auto), LEND);
        }
    }

    #[test]
    fn probes_without_a_reliable_report_are_repeated() {
        let mut auto = auto();
        convince(&mut auto);
        for _ in 0..3 {
            assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
            for _ in 1..PROBES {
                assert_eq!(choose_large(&mut auto), LEND);
            }
            for _ in 0..=FIRST_REST {
                assert_eq!(choose_large(&mut auto), PATH_COPIES);
            }
        }
        assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
        auto.learn(Some(false));
        assert_eq!(choose_large(&mut auto), LEND);
    }

    #[test]
    fn unreliable_reports_change_nothing() {
        let mut auto = auto();
        for _ in 0..100 {
            assert_eq!(choose_large(&mut auto), LEND);
            auto.learn(None);
        }
        convince(&mut auto);
        // Late releases of sends lent before.
        auto.learn(Some(true));
        auto.learn(Some(false));
        auto.learn(None);
        assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
    }

    #[test]
    fn a_copy_among_many_does_not_stop_lending() {
        let mut auto = auto();
        for n in 0..200 {
            assert_eq!(choose_large(&mut auto), LEND);
            auto.learn(Some(n % CONVINCED_AFTER != 0));
        }
    }
}
