//! State of a plan, concluded from its ledger (pure, but for reading it).
//!
//! The ledger is all that counts, whatever a queue says. No clock decides about a unit; times serve to estimate how long the
//! rest takes, and only times of one clock are subtracted.

mod there;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::UnitError;
use crate::format::{Plan, Time, UnitNumber};
use crate::ledger::{Amounts, Attempt, Failure, FailureKind, Ledger, LedgerFile, Record};
use crate::plan::read_plan;
use crate::roots::open_destination;

pub use there::{facts_of_peer, unfinished_of_peer};

/// Work that an entry costs, in bytes that could be copied meanwhile: only for estimates.
const ENTRY_COST: u128 = 64 << 10;

/// Facts about a unit that its ledger has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "they are the files of a ledger")]
pub struct UnitFacts {
    /// Record, if it is done.
    pub record: Option<Record>,
    /// Last failure.
    pub failure: Option<Failure>,
    /// Last attempt.
    pub attempt: Option<Attempt>,
}

/// State of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitState {
    /// It has a record.
    Done(Record),
    /// Its last attempt failed, and another one needs somebody to look at the reasons, or at least to begin it.
    Failed(Failure),
    /// An attempt was begun and has not ended. Its worker is at work, or is gone: nobody can know.
    Begun(Attempt),
    /// Nobody is doing it: it was not begun, was interrupted, or had to wait for other units.
    Waiting,
}

impl UnitFacts {
    /// Concludes the state of the unit.
    #[must_use]
    pub fn state(self) -> UnitState {
        let UnitFacts { record, failure, attempt } = self;
        if let Some(record) = record {
            return UnitState::Done(record);
        }
        let ended = |attempt: &Attempt| {
            failure.as_ref().is_some_and(|failure| failure.attempt >= attempt.number)
        };
        if let Some(attempt) = attempt.filter(|attempt| !ended(attempt)) {
            return UnitState::Begun(attempt);
        }
        match failure {
            Some(failure) if is_lasting(&failure) => UnitState::Failed(failure),
            _ => UnitState::Waiting,
        }
    }
}

/// Whether a unit failed, and was not only interrupted or early.
fn is_lasting(failure: &Failure) -> bool {
    let passes = |kind| {
        matches!(kind, FailureKind::Interrupted | FailureKind::Overtaken | FailureKind::NotYet)
    };
    failure.reasons.is_empty() || !failure.reasons.iter().all(|reason| passes(reason.kind))
}

/// State of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanStatus {
    /// Number of units.
    pub units: u32,
    /// Number of units with a record.
    pub done: u32,
    /// Number of units that nobody is doing.
    pub waiting: u32,
    /// Units that failed, by number.
    pub failed: Vec<(UnitNumber, Failure)>,
    /// Units that were begun, by number.
    pub begun: Vec<(UnitNumber, Attempt)>,
    /// Amounts of the units that are done.
    pub amounts: Amounts,
    /// Time that workers have spent on units that are done, each by its own clock.
    pub work: Duration,
    /// Bytes per second of all workers together. `None`: nobody is at work, or nothing is known.
    pub bytes_per_second: Option<u64>,
    /// Estimated time until all units are done. `None`: nobody is at work, or nothing is known.
    pub time_left: Option<Duration>,
}

impl PlanStatus {
    /// Whether every unit is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done == self.units
    }

    /// Numbers of failures by kind; a unit counts once for each kind that it has.
    #[must_use]
    pub fn failure_kinds(&self) -> BTreeMap<FailureKind, u32> {
        let mut kinds = BTreeMap::new();
        for (_, failure) in &self.failed {
            let mut own: Vec<FailureKind> =
                failure.reasons.iter().map(|reason| reason.kind).collect();
            own.sort_unstable();
            own.dedup();
            own.into_iter().for_each(|kind| *kinds.entry(kind).or_insert(0) += 1);
        }
        kinds
    }
}

/// Sums up the states of units. Those that are not mentioned are waiting.
#[must_use]
pub fn status(plan: &Plan, units: impl IntoIterator<Item = (UnitNumber, UnitFacts)>) -> PlanStatus {
    let mut status = PlanStatus { units: plan.units, ..PlanStatus::default() };
    for (unit, facts) in units {
        // A ledger that somebody else wrote to.
        if unit.get() >= plan.units {
            continue;
        }
        match facts.state() {
            UnitState::Done(record) => {
                status.done += 1;
                status.amounts.entries += record.done.entries;
                status.amounts.bytes += record.done.bytes;
                status.amounts.deleted += record.done.deleted;
                status.work += duration(record.begun, record.ended);
            }
            UnitState::Failed(failure) => status.failed.push((unit, failure)),
            UnitState::Begun(attempt) => status.begun.push((unit, attempt)),
            UnitState::Waiting => {}
        }
    }
    status.failed.sort_by_key(|(unit, _)| *unit);
    status.begun.sort_by_key(|(unit, _)| *unit);
    let known = status.done as usize + status.failed.len() + status.begun.len();
    status.waiting = plan.units.saturating_sub(u32::try_from(known).unwrap_or(u32::MAX));
    estimate(plan, &mut status);
    status
}

/// Returns the time between two times of one clock; none if it was set back meanwhile.
fn duration(from: Time, to: Time) -> Duration {
    let nanoseconds = |time: Time| i128::from(time.0) * 1_000_000_000 + i128::from(time.1);
    let passed = nanoseconds(to).saturating_sub(nanoseconds(from)).max(0);
    Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX))
}

fn estimate(plan: &Plan, status: &mut PlanStatus) {
    let cost = |entries: u64, bytes: u64| u128::from(entries) * ENTRY_COST + u128::from(bytes);
    let amounts = status.amounts;
    let done = cost(amounts.entries, amounts.bytes);
    let all = cost(plan.entries, plan.bytes);
    let work = status.work.as_secs_f64();
    let workers = status.begun.len();
    if workers == 0 || done == 0 || work <= 0.0 {
        return;
    }
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let (done, left, workers) = (done as f64, all.saturating_sub(done) as f64, workers as f64);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rate = (amounts.bytes as f64 / work * workers) as u64;
    status.bytes_per_second = Some(rate);
    let seconds = work * left / done / workers;
    status.time_left = Duration::try_from_secs_f64(seconds).ok();
}

/// Reads the plan in a directory, and what its ledger has about each unit.
///
/// # Errors
/// There is no plan, or its ledger cannot be read.
pub fn of_directory(
    directory: &Path,
) -> Result<(Plan, BTreeMap<UnitNumber, UnitFacts>), UnitError> {
    let plan = read_plan(directory)?;
    let facts = facts_of(&plan)?;
    Ok((plan, facts))
}

/// Reads what the ledger of a plan has about each unit.
///
/// # Errors
/// The ledger cannot be read, or is on another machine.
pub fn facts_of(plan: &Plan) -> Result<BTreeMap<UnitNumber, UnitFacts>, UnitError> {
    ledger_of(plan)?.map_or_else(|| Ok(BTreeMap::new()), |ledger| read_facts(&ledger))
}

/// Reads what the ledger of a plan has about each unit without a record. No record is read: its name says that there is one.
///
/// # Errors
/// As [`facts_of`].
pub fn unfinished_of(plan: &Plan) -> Result<BTreeMap<UnitNumber, UnitFacts>, UnitError> {
    let ledger = ledger_of(plan)?;
    let kinds = ledger.as_ref().map_or_else(|| Ok(FileKinds::new()), files_of)?;
    unfinished(plan, &kinds, |facts, unit, kind| match &ledger {
        Some(ledger) => facts.read(ledger, unit, kind),
        None => Ok(()),
    })
}

/// Kinds of the files that a ledger has about each unit.
type FileKinds = BTreeMap<UnitNumber, Vec<LedgerFile>>;

fn files_of(ledger: &Ledger) -> Result<FileKinds, UnitError> {
    let mut kinds = FileKinds::new();
    ledger.list(|unit, kind| kinds.entry(unit).or_default().push(kind))?;
    Ok(kinds)
}

/// Reads the files about each unit without a record, by `read`.
fn unfinished(
    plan: &Plan,
    kinds: &FileKinds,
    read: impl Fn(&mut UnitFacts, UnitNumber, LedgerFile) -> Result<(), UnitError>,
) -> Result<BTreeMap<UnitNumber, UnitFacts>, UnitError> {
    let mut all = BTreeMap::new();
    for unit in (0..plan.units).filter_map(UnitNumber::new) {
        let kinds = kinds.get(&unit).map_or(&[][..], |kinds| kinds);
        if kinds.contains(&LedgerFile::Record) {
            continue;
        }
        let mut facts = UnitFacts::default();
        for kind in kinds {
            read(&mut facts, unit, *kind)?;
        }
        all.insert(unit, facts);
    }
    Ok(all)
}

impl UnitFacts {
    /// Reads a file of a ledger.
    fn read(
        &mut self,
        ledger: &Ledger,
        unit: UnitNumber,
        kind: LedgerFile,
    ) -> Result<(), UnitError> {
        match kind {
            LedgerFile::Record => self.record = ledger.record(unit)?,
            LedgerFile::Failure => self.failure = ledger.failure(unit)?,
            LedgerFile::Attempt => self.attempt = ledger.attempt(unit)?,
            LedgerFile::Copy => {}
        }
        Ok(())
    }
}

/// Opens the ledger of a plan. `None`: no unit was begun yet.
///
/// # Errors
/// It cannot be opened, or the destination is another directory than the plan saw.
pub fn ledger_of(plan: &Plan) -> Result<Option<Ledger>, UnitError> {
    let Some(shown) = plan.destination.here() else {
        return Err(UnitError::Elsewhere { root: plan.destination.as_path().to_owned() });
    };
    match open_destination(shown, &plan.seen, plan.id)? {
        Some(destination) => Ledger::open(destination, shown, plan.id),
        // No worker has made it yet.
        None => Ok(None),
    }
}

/// Reads what a ledger has about each unit.
///
/// # Errors
/// The ledger cannot be listed, or one of its files cannot be read or is not in its format.
pub fn read_facts(ledger: &Ledger) -> Result<BTreeMap<UnitNumber, UnitFacts>, UnitError> {
    let mut all = BTreeMap::new();
    for (unit, kinds) in files_of(ledger)? {
        let mut facts = UnitFacts::default();
        // Beside a record nothing else has a meaning.
        let is_recorded = kinds.contains(&LedgerFile::Record);
        for kind in kinds {
            if !is_recorded || kind == LedgerFile::Record {
                facts.read(ledger, unit, kind)?;
            }
        }
        all.insert(unit, facts);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
