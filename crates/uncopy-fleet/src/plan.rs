//! A plan, and what of it is left by its ledger.

use std::path::{Path, PathBuf};

use uncopy_unit::format::{Plan, UnitNumber};
use uncopy_unit::ledger::{FailureKind, Ledger, LedgerFile};
use uncopy_unit::plan::{digest_of_unit, read_plan, unit_file};
use uncopy_unit::status::ledger_of;

use crate::error::FleetError;

/// A plan in its directory.
#[derive(Debug)]
pub(crate) struct PlannedWork {
    /// Directory of the plan, an absolute path.
    pub(crate) directory: PathBuf,
    /// The plan.
    pub(crate) plan: Plan,
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
    /// Reads the plan in a directory.
    ///
    /// # Errors
    /// There is none, or it is not in its format.
    pub(crate) fn read(directory: &Path) -> Result<PlannedWork, FleetError> {
        let next = "name the directory of `uncopy unit plan --out`";
        let absolute =
            std::path::absolute(directory).map_err(FleetError::system("use", directory, next))?;
        let plan = read_plan(&absolute)?;
        if let Some(place) = plan.destination.there() {
            return Err(FleetError::Usage(format!(
                "the destination is on another machine ({}), and so is the ledger, which this program reads itself: mount \
                 it here and plan to that path, or plan on that machine with the source on another one",
                place.display()
            )));
        }
        Ok(PlannedWork { plan, directory: absolute })
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
        let mut done = vec![false; self.plan.units as usize];
        if let Some(ledger) = self.ledger()? {
            ledger.list(|unit, kind| {
                if let (LedgerFile::Record, Some(done)) = (kind, done.get_mut(unit.get() as usize))
                {
                    *done = true;
                }
            })?;
        }
        Ok(UnitsLeft::of(&done))
    }

    /// Whether a unit has a record.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn is_done(&self, unit: UnitNumber) -> Result<bool, FleetError> {
        let record = self.ledger()?.map(|ledger| ledger.record(unit)).transpose()?;
        Ok(record.flatten().is_some())
    }

    /// Returns the number of attempts that the ledger knows of a unit.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn attempts(&self, unit: UnitNumber) -> Result<u64, FleetError> {
        let attempt = self.ledger()?.map(|ledger| ledger.attempt(unit)).transpose()?;
        Ok(attempt.flatten().map_or(0, |attempt| attempt.number))
    }

    /// Whether the last failure of a unit has conflicts and nothing else.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn has_conflicts_alone(&self, unit: UnitNumber) -> Result<bool, FleetError> {
        let failure = self.ledger()?.map(|ledger| ledger.failure(unit)).transpose()?.flatten();
        Ok(failure.is_some_and(|failure| {
            let is_conflict = |kind| kind == FailureKind::Conflict;
            !failure.reasons.is_empty() && failure.reasons.iter().all(|r| is_conflict(r.kind))
        }))
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
