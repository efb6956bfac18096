//! Verdicts about messages of units (pure): by what is known before a run, and by how the run ended.
//!
//! The ledger counts, and a message is a hint. So a message is acknowledged only if the ledger has a record; a unit that no
//! further run can help is given up with its reason; everything else is handed out again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time until the last unit is tried again while others are at work, and a unit that another worker goes on with.
pub(crate) const WHILE_OTHERS_WORK: Duration = Duration::from_secs(2);

/// First and longest time until a unit that failed is tried again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Number of times that the queue alone is asked what is left, before the ledger is.
const FIRST_LOOK: u64 = 4;

/// Largest number of times between two looks at the ledger.
const LOOK_EVERY: u64 = 128;

/// Whether a worker that has asked the queue so often, without an end, looks at the ledger (pure).
///
/// A server that was killed may count messages that it never hands out again. A look at the ledger costs a listing of a
/// directory with a file for each unit, so that looks become rarer.
pub(crate) fn looks_at_the_ledger(asked: u64) -> bool {
    asked >= FIRST_LOOK && (asked.is_power_of_two() || asked.is_multiple_of(LOOK_EVERY))
}

/// Facts about a message and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeliveryFacts {
    /// Number of tries, this one included: how often the message was handed out. Of the last unit, which is also handed
    /// out while it waits for others, the attempts that the ledger knows since it was queued.
    pub(crate) tries: u64,
    /// Number of tries after which a unit that is not done is given up.
    pub(crate) max_tries: u64,
    /// Whether the unit is the last one of its plan.
    pub(crate) is_last: bool,
}

/// Facts about a unit file, before it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitFileFacts {
    /// Whether the ledger has a record of the unit.
    pub(crate) is_recorded: bool,
    /// Whether the file has the digest that the message names. `None`: it cannot be read here, while the plan can.
    pub(crate) is_the_file: Option<bool>,
    /// Whether an attempt was begun whose end nobody has said: its worker died of it, or hangs. Workers that hand a unit back
    /// say so.
    pub(crate) is_begun: bool,
}

/// How a process that did a unit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// It ended with this exit code; with 0, the unit has a record.
    Code(i32),
    /// It ended with 0, and the unit has no record.
    NoRecord,
    /// A signal killed it.
    Signal(i32),
    /// This worker was asked to stop, and stopped it.
    Stopped,
}

/// Facts after a run, from queue and ledger, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AfterRun {
    /// Whether the last failure of the unit has conflicts and nothing else.
    pub(crate) has_conflicts_alone: bool,
    /// Whether the queue has messages about other units.
    pub(crate) others_in_queue: bool,
    /// Number of other units without a record.
    pub(crate) others_missing: u64,
}

/// Reason why a unit is given up, until it is submitted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GivenUp {
    /// The message is in no form that this program knows.
    Message,
    /// The file of the unit is another one than the message says.
    Digest,
    /// The source has changed since the plan.
    SourceChanged,
    /// The destination has changed since the plan.
    Conflict,
    /// It failed as often as it was allowed to.
    Failed,
    /// Its file could not be read as often as it was tried.
    NoUnitFile,
    /// The program that was to do it says that it did, and the ledger has no record.
    NoRecord,
    /// It was handed out more often than allowed, and no worker said how it ended: workers died of it, or hung.
    WorkersLost,
    /// It is the last unit, and others have no record and are in no queue.
    OthersMissing,
}

impl GivenUp {
    /// Describes it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            GivenUp::Message => "the message is in no form that this version knows",
            GivenUp::Digest => "the file of the unit has another digest than the message says",
            GivenUp::SourceChanged => "the source has changed since the plan: make another plan",
            GivenUp::Conflict => "the destination has changed since the plan: make another plan",
            GivenUp::Failed => "it failed too often: `uncopy unit status` has the reasons",
            GivenUp::NoUnitFile => "its file cannot be read: make the plan anew",
            GivenUp::NoRecord => {
                "its program ended with 0, and the ledger has no record: look which program --program names"
            }
            GivenUp::WorkersLost => {
                "it was handed out too often, and no worker said how it ended: look whether workers die, and submit the plan again"
            }
            GivenUp::OthersMissing => {
                "units before it have no record and are in no queue: submit the plan again"
            }
        }
    }
}

/// Fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageVerdict {
    /// The ledger has a record: the message is done with.
    Acknowledge,
    /// It is handed out again after this time.
    Again(Duration),
    /// It is handed out again at once, to another worker: this one cannot do it, or stops.
    HandBack,
    /// It is never handed out again, and the reason is kept.
    GiveUp(GivenUp),
}

/// Decides before a run. `None`: run it.
pub(crate) fn before(delivery: &DeliveryFacts, file: UnitFileFacts) -> Option<MessageVerdict> {
    match file {
        UnitFileFacts { is_recorded: true, .. } => Some(MessageVerdict::Acknowledge),
        UnitFileFacts { is_the_file: Some(false), .. } => {
            Some(MessageVerdict::GiveUp(GivenUp::Digest))
        }
        _ if file.is_begun && delivery.tries > delivery.max_tries => {
            Some(MessageVerdict::GiveUp(GivenUp::WorkersLost))
        }
        UnitFileFacts { is_the_file: None, .. } => Some(failed(delivery, GivenUp::NoUnitFile)),
        UnitFileFacts { is_the_file: Some(true), .. } => None,
    }
}

/// Decides after a run, by the exit codes of `uncopy unit run`.
pub(crate) fn after(delivery: &DeliveryFacts, end: RunEnd, facts: &AfterRun) -> MessageVerdict {
    match end {
        RunEnd::Code(0) => MessageVerdict::Acknowledge,
        RunEnd::Stopped | RunEnd::Code(2) => MessageVerdict::HandBack,
        RunEnd::Code(4) => MessageVerdict::GiveUp(GivenUp::SourceChanged),
        RunEnd::Code(1) if facts.has_conflicts_alone => MessageVerdict::GiveUp(GivenUp::Conflict),
        RunEnd::Code(10) if !delivery.is_last || facts.others_in_queue => {
            MessageVerdict::Again(WHILE_OTHERS_WORK)
        }
        // The others were done between the look of the run and that of this worker.
        RunEnd::Code(10) if facts.others_missing == 0 => MessageVerdict::Again(Duration::ZERO),
        RunEnd::Code(10) => MessageVerdict::GiveUp(GivenUp::OthersMissing),
        RunEnd::Code(_) | RunEnd::Signal(_) => failed(delivery, GivenUp::Failed),
        RunEnd::NoRecord => failed(delivery, GivenUp::NoRecord),
    }
}

/// Whether a worker goes on after a run: one that does not know the options of the plan cannot do any unit of it.
pub(crate) fn goes_on(end: RunEnd) -> bool {
    !matches!(end, RunEnd::Code(2) | RunEnd::Stopped)
}

/// `at_last`: reason for giving the unit up when it has failed too often.
fn failed(delivery: &DeliveryFacts, at_last: GivenUp) -> MessageVerdict {
    if delivery.tries >= delivery.max_tries {
        return MessageVerdict::GiveUp(at_last);
    }
    let (first, longest) = BACKOFF;
    let doublings = u32::try_from(delivery.tries.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = first.saturating_mul(2_u32.saturating_pow(doublings));
    MessageVerdict::Again(wait.min(longest))
}

#[cfg(test)]
mod tests {
    use super::MessageVerdict::{Acknowledge, Again, GiveUp, HandBack};
    use super::*;

    fn delivery(tries: u64, is_last: bool) -> DeliveryFacts {
        DeliveryFacts { tries, max_tries: 5, is_last }
    }

    fn seconds(seconds: u64) -> MessageVerdict {
        Again(Duration::from_secs(seconds))
    }

    #[test]
    fn verdicts_before_a_run() {
        for (tries, is_last, is_recorded, is_the_file, expected) in [
            (1, false, false, Some(true), None),
            (5, false, false, Some(true), None),
            (6, false, false, Some(true), Some(GiveUp(GivenUp::WorkersLost))),
            (5, true, false, Some(true), None),
            (6, true, false, Some(true), Some(GiveUp(GivenUp::WorkersLost))),
            (1, false, true, Some(true), Some(Acknowledge)),
            (9, false, true, Some(false), Some(Acknowledge)),
            (1, false, true, None, Some(Acknowledge)),
            (1, false, false, Some(false), Some(GiveUp(GivenUp::Digest))),
            (1, true, false, Some(false), Some(GiveUp(GivenUp::Digest))),
            (2, false, false, None, Some(seconds(2))),
            (5, false, false, None, Some(GiveUp(GivenUp::NoUnitFile))),
        ] {
            let file = UnitFileFacts { is_recorded, is_the_file, is_begun: true };
            let found = before(&delivery(tries, is_last), file);
            assert_eq!(found, expected, "{tries} {is_last} {file:?}");
        }
        // Workers that handed it back said how it ended.
        let file = UnitFileFacts { is_recorded: false, is_the_file: Some(true), is_begun: false };
        assert_eq!(before(&delivery(60, false), file), None);
    }

    #[test]
    fn verdicts_after_a_run() {
        let nothing = AfterRun::default();
        let conflict = AfterRun { has_conflicts_alone: true, ..nothing };
        let queued = AfterRun { others_in_queue: true, others_missing: 3, ..nothing };
        let missing = AfterRun { others_missing: 3, ..nothing };
        for (tries, is_last, end, facts, expected) in [
            (1, false, RunEnd::Code(0), nothing, Acknowledge),
            (9, true, RunEnd::Code(0), missing, Acknowledge),
            (1, false, RunEnd::NoRecord, nothing, seconds(1)),
            (4, true, RunEnd::NoRecord, nothing, seconds(8)),
            (5, false, RunEnd::NoRecord, nothing, GiveUp(GivenUp::NoRecord)),
            (1, false, RunEnd::Code(1), nothing, seconds(1)),
            (3, false, RunEnd::Code(1), nothing, seconds(4)),
            (5, false, RunEnd::Code(1), nothing, GiveUp(GivenUp::Failed)),
            (1, false, RunEnd::Code(1), conflict, GiveUp(GivenUp::Conflict)),
            (1, true, RunEnd::Code(1), conflict, GiveUp(GivenUp::Conflict)),
            (1, false, RunEnd::Code(2), nothing, HandBack),
            (9, false, RunEnd::Code(2), nothing, HandBack),
            (1, false, RunEnd::Code(4), nothing, GiveUp(GivenUp::SourceChanged)),
            (1, false, RunEnd::Code(10), missing, Again(WHILE_OTHERS_WORK)),
            (1, true, RunEnd::Code(10), queued, Again(WHILE_OTHERS_WORK)),
            (90, true, RunEnd::Code(10), queued, Again(WHILE_OTHERS_WORK)),
            (1, true, RunEnd::Code(10), nothing, seconds(0)),
            (1, true, RunEnd::Code(10), missing, GiveUp(GivenUp::OthersMissing)),
            (2, false, RunEnd::Code(77), nothing, seconds(2)),
            (2, false, RunEnd::Signal(9), nothing, seconds(2)),
            (5, false, RunEnd::Signal(9), nothing, GiveUp(GivenUp::Failed)),
            (4, true, RunEnd::Signal(9), nothing, seconds(8)),
            (u64::MAX, true, RunEnd::Code(1), nothing, GiveUp(GivenUp::Failed)),
            (9, false, RunEnd::Stopped, nothing, HandBack),
        ] {
            let found = after(&delivery(tries, is_last), end, &facts);
            assert_eq!(found, expected, "{tries} {is_last} {end:?} {facts:?}");
        }
    }

    #[test]
    fn the_time_between_tries_is_bounded() {
        for (tries, expected) in
            [(1, 1), (2, 2), (9, 256), (10, 300), (99, 300), (u64::MAX - 1, 300)]
        {
            let facts = DeliveryFacts { tries, max_tries: u64::MAX, is_last: false };
            let found = after(&facts, RunEnd::Signal(9), &AfterRun::default());
            assert_eq!(found, seconds(expected), "{tries}");
        }
    }

    #[test]
    fn looks_at_the_ledger_become_rarer_and_do_not_end() {
        let looks: Vec<u64> = (0..=400).filter(|asked| looks_at_the_ledger(*asked)).collect();
        assert_eq!(looks, [4, 8, 16, 32, 64, 128, 256, 384]);
    }

    #[test]
    fn a_worker_ends_that_can_do_no_unit() {
        let ends = [RunEnd::Code(2), RunEnd::Stopped];
        assert!(ends.into_iter().all(|end| !goes_on(end)));
        let goes = [RunEnd::Code(0), RunEnd::Code(1), RunEnd::Signal(9), RunEnd::Code(10)];
        assert!(goes.into_iter().all(goes_on));
    }
}
