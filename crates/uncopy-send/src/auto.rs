//! When a send is worth lending, learnt from what came of those before. Pure.

use super::cost_model::{CostChoice, CostModel, SizeClass};
use super::counters::FallbackReason;
use crate::room::inet::Transport;

/// How a send can be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lending {
    /// `MSG_ZEROCOPY`, over this.
    MsgZerocopy(Transport),
    /// io_uring, whose pages the kernel looks up for each send.
    Ring,
    /// io_uring, out of a registered pool.
    RingRegistered,
}

impl Lending {
    /// Returns the size from which on lending is presumed to take less processor time than copying,
    /// until it was tried: over ifb, Linux 6.18.
    ///
    /// Of io_uring: where the straight lines through the measurements of UDP at 4,000, 16,384 and
    /// 64,000 bytes cross, rounded up. Of `MSG_ZEROCOPY`, by memory that is in a cache and memory
    /// that is not: over TCP from 38 and 9 KB on, so that between the two neither is far from the
    /// better. Over UDP copying is cheap as long as the packet's memory is one that each processor
    /// keeps a store of (`PAGE_ALLOC_COSTLY_ORDER` in `include/linux/mmzone.h`: 32 KiB): up to
    /// there a copy out of a cache takes 0.7 of what lending takes, then 0.95.
    #[must_use]
    pub const fn pays_from_bytes(self) -> usize {
        match self {
            Lending::MsgZerocopy(Transport::Tcp) => 20 << 10,
            Lending::MsgZerocopy(Transport::Udp) => 32 << 10,
            Lending::Ring => 6 << 10,
            Lending::RingRegistered => 4 << 10,
        }
    }

    /// Below this size lending does not pay wherever the bytes are, and is not tried.
    pub(crate) const fn never_pays_below(self) -> usize {
        match self {
            Lending::MsgZerocopy(_) => 4 << 10,
            Lending::Ring => 2 << 10,
            Lending::RingRegistered => 1 << 10,
        }
    }
}

/// So many lent sends in a row that were copied all the same say that the path copies.
const CONVINCED_AFTER: u32 = 8;
/// Large sends that are copied then before the path is tried again.
const FIRST_REST: u32 = 256;
/// The rest doubles up to this each time the path still copies.
const LONGEST_REST: u32 = 1 << 16;
/// Lent sends that try the path again.
const PROBES: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LendingState {
    /// Everything large enough is lent; so many in a row came back copied.
    Lending { copied_in_a_row: u32 },
    /// The path copies: so many large sends are copied before it is tried again.
    Resting { left: u32, rest: u32 },
    /// Trying again: so many may still be lent, and so many answers are awaited, for as many large
    /// sends as `patience` says. A probe that failed, or whose answer says nothing, has none.
    Probing { left: u32, unanswered: u32, patience: u32, rest: u32 },
}

/// What was learnt of one path.
#[derive(Debug)]
pub(crate) struct Auto {
    state: LendingState,
    cost_model: CostModel,
}

impl Auto {
    pub(crate) fn new() -> Auto {
        Auto {
            state: LendingState::Lending { copied_in_a_row: 0 },
            cost_model: CostModel::default(),
        }
    }

    /// Whether to lend a send of `bytes` bytes, or why not; and of which class it is, if what it
    /// costs is to be told.
    pub(crate) fn choose(
        &mut self,
        bytes: usize,
        way: Lending,
    ) -> (Result<(), FallbackReason>, Option<SizeClass>) {
        if bytes < way.never_pays_below() {
            return (Err(FallbackReason::TooSmall), None);
        }
        let presumed = bytes >= way.pays_from_bytes();
        if let LendingState::Lending { .. } = self.state {
            let class = SizeClass::of(bytes);
            let CostChoice { lend, is_sampled } = self.cost_model.choose(class, presumed);
            let reason = match presumed || is_sampled {
                false => FallbackReason::TooSmall,
                true => FallbackReason::CopyingIsCheaper,
            };
            return (if lend { Ok(()) } else { Err(reason) }, is_sampled.then_some(class));
        }
        match presumed {
            false => (Err(FallbackReason::TooSmall), None),
            true => (self.choose_again(), None),
        }
    }

    /// The prices on this path.
    pub(crate) fn cost_model(&mut self) -> &mut CostModel {
        &mut self.cost_model
    }

    /// Whether to lend a large send on a path that copied.
    fn choose_again(&mut self) -> Result<(), FallbackReason> {
        match &mut self.state {
            LendingState::Lending { .. } => Ok(()),
            LendingState::Resting { left: 0, rest } => {
                let (rest, patience) = (*rest, FIRST_REST);
                self.state =
                    LendingState::Probing { left: PROBES - 1, unanswered: PROBES, patience, rest };
                Ok(())
            }
            LendingState::Resting { left, .. } => {
                *left -= 1;
                Err(FallbackReason::PathCopies)
            }
            LendingState::Probing { left: 0, patience: 0, rest, .. } => {
                self.state = LendingState::Resting { left: *rest, rest: *rest };
                Err(FallbackReason::PathCopies)
            }
            LendingState::Probing { left: 0, patience, .. } => {
                *patience -= 1;
                Err(FallbackReason::PathCopies)
            }
            LendingState::Probing { left, .. } => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// A send that was lent has been released; whether it was copied all the same, as far as the
    /// kernel can be believed. (io_uring reports TCP sends that follow one another as copied when
    /// they were not, since Linux 6.10: those say nothing.)
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
            // Sends from before the rest, and what says nothing.
            (state @ LendingState::Resting { .. }, _) | (state, None) => state,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Auto, CONVINCED_AFTER, FIRST_REST, FallbackReason, LONGEST_REST, Lending, PROBES, Transport,
    };

    const LARGE: usize = 64_000;

    #[test]
    fn small_sends_are_copied_whatever_was_learnt() {
        for (way, bytes, lent) in [
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
            let chosen = Auto::new().choose(bytes, way).0;
            assert_eq!(chosen.is_ok(), lent, "{way:?} {bytes}");
            assert!(lent || chosen == Err(FallbackReason::TooSmall));
        }
    }

    /// Sends until one is lent; says how many were copied before.
    fn copied_until_lent(auto: &mut Auto) -> u32 {
        (0..).take_while(|_| auto.choose(LARGE, Lending::Ring).0.is_err()).count() as u32
    }

    fn convince(auto: &mut Auto) {
        for _ in 0..CONVINCED_AFTER {
            assert_eq!(auto.choose(LARGE, Lending::Ring).0, Ok(()));
            auto.learn(Some(true));
        }
    }

    #[test]
    fn stops_on_a_path_that_copies_and_tries_again_ever_more_seldom() {
        let mut auto = Auto::new();
        convince(&mut auto);
        let mut rest = FIRST_REST;
        for _ in 0..20 {
            assert_eq!(copied_until_lent(&mut auto), rest);
            for _ in 1..PROBES {
                assert_eq!(auto.choose(LARGE, Lending::Ring).0, Ok(()));
            }
            // Nothing more is lent before the probes have answered.
            assert_eq!(auto.choose(LARGE, Lending::Ring).0, Err(FallbackReason::PathCopies));
            (0..PROBES).for_each(|_| auto.learn(Some(true)));
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    #[test]
    fn lends_again_when_a_probe_was_not_copied() {
        let mut auto = Auto::new();
        convince(&mut auto);
        assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
        auto.learn(Some(true));
        auto.learn(Some(false));
        for _ in 0..200 {
            assert_eq!(auto.choose(LARGE, Lending::Ring).0, Ok(()));
        }
    }

    #[test]
    fn probes_without_an_answer_are_made_again() {
        let mut auto = Auto::new();
        convince(&mut auto);
        for _ in 0..3 {
            assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
            for _ in 1..PROBES {
                assert_eq!(auto.choose(LARGE, Lending::Ring).0, Ok(()));
            }
            for _ in 0..=FIRST_REST {
                assert_eq!(auto.choose(LARGE, Lending::Ring).0, Err(FallbackReason::PathCopies));
            }
        }
        assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
        auto.learn(Some(false));
        assert_eq!(auto.choose(LARGE, Lending::Ring).0, Ok(()));
    }

    #[test]
    fn what_cannot_be_believed_changes_nothing() {
        let mut auto = Auto::new();
        for _ in 0..100 {
            assert_eq!(auto.choose(LARGE, Lending::Ring).0, Ok(()));
            auto.learn(None);
        }
        convince(&mut auto);
        // Late answers of what was lent before.
        auto.learn(Some(true));
        auto.learn(Some(false));
        auto.learn(None);
        assert_eq!(copied_until_lent(&mut auto), FIRST_REST);
    }

    #[test]
    fn one_copy_among_many_is_no_path_that_copies() {
        let mut auto = Auto::new();
        for n in 0..200 {
            assert_eq!(auto.choose(LARGE, Lending::Ring).0, Ok(()));
            auto.learn(Some(n % CONVINCED_AFTER != 0));
        }
    }
}
