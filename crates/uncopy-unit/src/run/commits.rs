//! Commits of an attempt: each looks first whether the attempt is still the current one, under the lock of its unit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::UnitError;
use crate::format::UnitNumber;
use crate::ledger::{Attempt, Ledger, LockPlace};
use uncopy_core::Objection;

/// Parts that commits of an attempt need.
pub(super) struct Commits<'a> {
    ledger: &'a Ledger,
    unit: UnitNumber,
    attempt: &'a Attempt,
    /// Time to wait for the lock of the unit. `None`: somebody has it who was stopped.
    patience: Option<Duration>,
    /// Threads of this process take turns, so that none has to wait for the lock of the file.
    turn: Mutex<()>,
}

impl<'a> Commits<'a> {
    pub(super) fn new(
        ledger: &'a Ledger,
        unit: UnitNumber,
        attempt: &'a Attempt,
        patience: Option<Duration>,
    ) -> Commits<'a> {
        Commits { ledger, unit, attempt, patience, turn: Mutex::default() }
    }

    /// Does `act` if the attempt is still the current one, and no other can become it meanwhile. `None`: it is not.
    pub(super) fn while_current<T>(
        &self,
        act: impl FnOnce() -> Result<T, UnitError>,
    ) -> Result<Option<T>, UnitError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let place = LockPlace::Unit(self.unit);
        let lock = match self.patience {
            Some(patience) => self.ledger.lock_within(place, patience)?,
            None => self.ledger.try_lock(place)?,
        };
        if lock.is_none() && self.patience.is_some() {
            // Another worker has begun an attempt meanwhile.
            return Ok(None);
        }
        match self.ledger.is_current(self.unit, self.attempt)? {
            true => act().map(Some),
            false => Ok(None),
        }
    }

    /// Gives a name by `act`, as the engine asks for.
    pub(super) fn give_name(&self, act: &mut dyn FnMut()) -> Result<(), Objection> {
        let given = self.while_current(|| {
            act();
            Ok(())
        });
        match given {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(Objection::Overtaken),
            Err(error) => Err(Objection::Other { text: error.to_string() }),
        }
    }
}
