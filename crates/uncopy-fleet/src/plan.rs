//! A plan, and what of it is left by its ledger.

use std::path::{Path, PathBuf};

use uncopy_unit::format::{Plan, UnitNumber};
use uncopy_unit::ledger::{Ledger, LedgerFile};
use uncopy_unit::plan::{digest_of_unit, read_plan, unit_file};
use uncopy_unit::status::{UnitFacts, UnitState, facts_of, ledger_of, status};

use crate::error::FleetError;
use crate::ledger_there::LedgerThere;
use crate::program;

/// A plan in its directory.
#[derive(Debug)]
pub(crate) struct PlannedWork {
    /// Directory of the plan, an absolute path.
    pub(crate) directory: PathBuf,
    /// The plan.
    pub(crate) plan: Plan,
    /// Reader of the ledger, if that is on another machine.
    there: Option<LedgerThere>,
}

/// State of a plan by its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlanState {
    /// Number of units without a record.
    pub(crate) missing: u32,
    /// Whether a unit has failed.
    pub(crate) has_failures: bool,
}

/// Units without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitsLeft {
    /// All but the last one, in order.
    pub(crate) before_the_last: Vec<UnitNumber>,
    /// The last unit of the plan, which waits for all others.
    pub(crate) last: Option<UnitNumber>,
}

impl UnitsLeft {
    /// Returns all of them, the last one of the plan last.
    pub(crate) fn all(&self) -> impl Iterator<Item = UnitNumber> + '_ {
        self.before_the_last.iter().copied().chain(self.last)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Divides the units without a record (pure). `done` has one flag for each unit of the plan.
    fn of(done: &[bool]) -> UnitsLeft {
        let number = |index: usize| u32::try_from(index).ok().and_then(UnitNumber::new);
        let left = done.iter().enumerate().filter(|(_, done)| !**done);
        let mut all: Vec<UnitNumber> = left.filter_map(|(index, _)| number(index)).collect();
        let last = number(done.len().saturating_sub(1));
        let is_last = all.last().is_some_and(|unit| Some(*unit) == last);
        let last = if is_last { all.pop() } else { None };
        UnitsLeft { before_the_last: all, last }
    }
}

impl PlannedWork {
    /// Reads the plan in a directory. `uncopy`: the program that reads a ledger on another machine, if one is named.
    ///
    /// # Errors
    /// There is none, or it is not in its format.
    pub(crate) fn read(directory: &Path, uncopy: Option<&Path>) -> Result<PlannedWork, FleetError> {
        let next = "name the directory of `uncopy unit plan --out`";
        let absolute =
            std::path::absolute(directory).map_err(FleetError::system("use", directory, next))?;
        let plan = read_plan(&absolute)?;
        let there = match plan.destination.there() {
            Some(_) => Some(LedgerThere::new(program::find(uncopy)?)),
            None => None,
        };
        Ok(PlannedWork { plan, directory: absolute, there })
    }

    /// Returns the file of a unit.
    pub(crate) fn file(&self, unit: UnitNumber) -> PathBuf {
        unit_file(&self.directory, unit)
    }

    /// Whether a unit is the last one, which waits for all others.
    pub(crate) fn is_last(&self, unit: UnitNumber) -> bool {
        unit.get() + 1 == self.plan.units
    }

    /// Returns the digest of a unit's file.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn digest(&self, unit: UnitNumber) -> Result<String, FleetError> {
        Ok(digest_of_unit(&self.file(unit))?)
    }

    /// Looks up in the ledger which units are left.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn left(&self) -> Result<UnitsLeft, FleetError> {
        let mut done = vec![self.there.is_some(); self.plan.units as usize];
        if let Some(there) = &self.there {
            for unit in there.left(&self.directory)? {
                if let Some(done) = done.get_mut(unit.get() as usize) {
                    *done = false;
                }
            }
        } else if let Some(ledger) = self.ledger()? {
            ledger.list(|unit, kind| {
                if let (LedgerFile::Record, Some(done)) = (kind, done.get_mut(unit.get() as usize))
                {
                    *done = true;
                }
            })?;
        }
        Ok(UnitsLeft::of(&done))
    }

    /// Whether the ledger is on this machine, where looking costs little.
    pub(crate) fn has_ledger_here(&self) -> bool {
        self.there.is_none()
    }

    /// Whether a unit has a record.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn is_done(&self, unit: UnitNumber) -> Result<bool, FleetError> {
        if let Some(there) = &self.there {
            return Ok(!there.left(&self.directory)?.contains(&unit));
        }
        let record = self.ledger()?.map(|ledger| ledger.record(unit)).transpose()?;
        Ok(record.flatten().is_some())
    }

    /// Checks that the source is here what it was where the plan was made.
    ///
    /// # Errors
    /// It is another directory, or missing: this machine can do no unit.
    pub(crate) fn check_source(&self) -> Result<(), FleetError> {
        Ok(uncopy_unit::check_source(&self.plan)?)
    }

    /// Checks that the directory still has a plan.
    ///
    /// # Errors
    /// It has none, or was removed: this machine can do no unit.
    pub(crate) fn check_directory(&self) -> Result<(), FleetError> {
        read_plan(&self.directory)?;
        Ok(())
    }

    /// Returns the number of attempts that the ledger knows of a unit without a record.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn attempts(&self, unit: UnitNumber) -> Result<u64, FleetError> {
        if let Some(there) = &self.there {
            return Ok(there.state(&self.directory)?.attempts(unit));
        }
        let attempt = self.ledger()?.map(|ledger| ledger.attempt(unit)).transpose()?;
        Ok(attempt.flatten().map_or(0, |attempt| attempt.number))
    }

    /// Whether the ledger has an attempt of a unit that has not ended.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn is_begun(&self, unit: UnitNumber) -> Result<bool, FleetError> {
        if let Some(there) = &self.there {
            return Ok(there.state(&self.directory)?.is_begun(unit));
        }
        let Some(ledger) = self.ledger()? else { return Ok(false) };
        let (record, failure, attempt) =
            (ledger.record(unit)?, ledger.failure(unit)?, ledger.attempt(unit)?);
        let state = UnitFacts { record, failure, attempt }.state();
        Ok(matches!(state, UnitState::Begun(_)))
    }

    /// Returns the state of the plan.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn state(&self) -> Result<PlanState, FleetError> {
        if let Some(there) = &self.there {
            let state = there.state(&self.directory)?;
            let missing = state.units.saturating_sub(state.done);
            return Ok(PlanState { missing, has_failures: state.has_failures() });
        }
        let status = status(&self.plan, facts_of(&self.plan)?);
        let missing = status.units.saturating_sub(status.done);
        Ok(PlanState { missing, has_failures: !status.failed.is_empty() })
    }

    fn ledger(&self) -> Result<Option<Ledger>, FleetError> {
        Ok(ledger_of(&self.plan)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_unit_is_apart() {
        let left = |done: &[bool]| {
            let left = UnitsLeft::of(done);
            let numbers: Vec<u32> = left.before_the_last.iter().map(|unit| unit.get()).collect();
            (numbers, left.last.map(UnitNumber::get))
        };
        assert_eq!(left(&[false, false, false]), (vec![0, 1], Some(2)));
        assert_eq!(left(&[true, false, true]), (vec![1], None));
        assert_eq!(left(&[true, true, false]), (vec![], Some(2)));
        assert_eq!(left(&[false]), (vec![], Some(0)));
        assert_eq!(left(&[true]), (vec![], None));
        assert!(UnitsLeft::of(&[true, true]).is_empty());
    }
}
