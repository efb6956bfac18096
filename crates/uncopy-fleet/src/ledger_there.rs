//! Ledger of a plan whose destination is on another machine, as `uncopy unit` shows it: that program logs in there, and this
//! one knows no protocol between machines.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use uncopy_unit::format::UnitNumber;

use crate::error::FleetError;
use crate::exit::Exit;

/// Exit code of `uncopy unit` if the other machine cannot be reached, the same as here.
const UNREACHABLE: i32 = Exit::Unreachable as i32;

/// How `uncopy unit status` or `retry` ended (pure).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerEnd {
    /// Every unit has a record, or the question was answered.
    Complete,
    /// A unit has failed, or the ledger was not read.
    Failure,
    /// No unit has failed, and some are not done.
    NotFinished,
    /// The machine of the ledger was not reached.
    Unreachable,
}

impl LedgerEnd {
    /// Reads an exit code. `None`: a signal killed the process.
    pub(crate) fn of(code: Option<i32>) -> LedgerEnd {
        match code {
            Some(0) => LedgerEnd::Complete,
            Some(10) => LedgerEnd::NotFinished,
            Some(UNREACHABLE) => LedgerEnd::Unreachable,
            _ => LedgerEnd::Failure,
        }
    }
}

/// A program that reads a ledger on another machine.
#[derive(Debug)]
pub(crate) struct LedgerThere {
    uncopy: PathBuf,
}

/// State of a plan, as `uncopy unit status --json` says it.
#[derive(Debug, Deserialize)]
pub(crate) struct StateThere {
    /// Number of units.
    pub(crate) units: u32,
    /// Number of units with a record.
    pub(crate) done: u32,
    begun_units: Vec<AttemptedUnit>,
    failed_units: Vec<AttemptedUnit>,
}

#[derive(Debug, Deserialize)]
struct AttemptedUnit {
    unit: UnitNumber,
    attempt: u64,
}

impl LedgerThere {
    /// Reads it by this program.
    pub(crate) fn new(uncopy: PathBuf) -> LedgerThere {
        LedgerThere { uncopy }
    }

    /// Returns the units without a record, in order.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn left(&self, plan: &Path) -> Result<Vec<UnitNumber>, FleetError> {
        let printed = self.ask(plan, &["retry", "--null"], |end, _| end == LedgerEnd::Complete)?;
        units_of(&printed).ok_or_else(|| self.unknown("retry"))
    }

    /// Returns the state of the plan.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn state(&self, plan: &Path) -> Result<StateThere, FleetError> {
        let printed = self.ask(plan, &["status", "--json"], |end, printed| match end {
            LedgerEnd::Complete | LedgerEnd::NotFinished => true,
            // A unit that has failed leaves something to read, and an error does not.
            LedgerEnd::Failure => !printed.is_empty(),
            LedgerEnd::Unreachable => false,
        })?;
        serde_json::from_slice(&printed).map_err(|_| self.unknown("status"))
    }

    /// Runs `uncopy unit`, which says itself why it fails.
    fn ask(
        &self,
        plan: &Path,
        words: &[&str],
        is_answer: fn(LedgerEnd, &[u8]) -> bool,
    ) -> Result<Vec<u8>, FleetError> {
        let output = Command::new(&self.uncopy)
            .arg("unit")
            .args(words)
            .arg(plan)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(FleetError::system("start", &self.uncopy, "check that it may be executed"))?;
        match LedgerEnd::of(output.status.code()) {
            end if is_answer(end, &output.stdout) => Ok(output.stdout),
            LedgerEnd::Unreachable => Err(self.failed(output.status, Exit::Unreachable)),
            _ => Err(self.failed(output.status, Exit::Failure)),
        }
    }

    fn failed(&self, status: std::process::ExitStatus, exit: Exit) -> FleetError {
        let problem = format!("the ledger on the other machine was not read ({status})");
        FleetError::LedgerThere { problem, next: "look with `uncopy unit status`", exit }
    }

    fn unknown(&self, command: &str) -> FleetError {
        FleetError::LedgerThere {
            problem: format!(
                "{} printed something else than `uncopy unit {command}` does",
                self.uncopy.display()
            ),
            next: "name an uncopy of this version with --program",
            exit: Exit::Failure,
        }
    }
}

impl StateThere {
    /// Number of the last attempt of a unit that failed or was begun; 0 of any other.
    pub(crate) fn attempts(&self, unit: UnitNumber) -> u64 {
        let mut attempted = self.begun_units.iter().chain(&self.failed_units);
        attempted.find(|attempted| attempted.unit == unit).map_or(0, |attempted| attempted.attempt)
    }

    /// Whether an attempt of a unit was begun and has not ended.
    pub(crate) fn is_begun(&self, unit: UnitNumber) -> bool {
        self.begun_units.iter().any(|begun| begun.unit == unit)
    }

    /// Whether a unit has failed.
    pub(crate) fn has_failures(&self) -> bool {
        !self.failed_units.is_empty()
    }
}

/// Reads files of units, each ended by a zero byte (pure). `None`: something else is among them.
fn units_of(printed: &[u8]) -> Option<Vec<UnitNumber>> {
    let Some(all) = printed.strip_suffix(&[0]) else {
        return printed.is_empty().then(Vec::new);
    };
    let number = |file: &[u8]| {
        let stem = Path::new(std::ffi::OsStr::from_bytes(file)).file_stem()?.to_str()?;
        UnitNumber::new(stem.parse().ok()?)
    };
    all.split(|byte| *byte == 0).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_files_are_units() {
        let numbers = |printed: &[u8]| -> Option<Vec<u32>> {
            Some(units_of(printed)?.into_iter().map(UnitNumber::get).collect())
        };
        for (printed, expected) in [
            (&b""[..], Some(vec![])),
            (b"/p/units/000000.jsonl\0", Some(vec![0])),
            (b"/\xff\n/units/000007.jsonl\0p/units/123456.jsonl\0", Some(vec![7, 123_456])),
            (b"/p/units/000000.jsonl", None),
            (b"/p/units/000000.jsonl\0\0", None),
            (b"usage: uncopy\0", None),
        ] {
            assert_eq!(numbers(printed), expected, "{}", String::from_utf8_lossy(printed));
        }
    }

    #[test]
    fn exit_codes_say_how_far_a_plan_is() {
        for (code, expected) in [
            (Some(0), LedgerEnd::Complete),
            (Some(1), LedgerEnd::Failure),
            (Some(2), LedgerEnd::Failure),
            (Some(9), LedgerEnd::Unreachable),
            (Some(10), LedgerEnd::NotFinished),
            (Some(130), LedgerEnd::Failure),
            (None, LedgerEnd::Failure),
        ] {
            assert_eq!(LedgerEnd::of(code), expected, "{code:?}");
        }
    }

    #[test]
    fn states_have_attempts() {
        let text = r#"{"schema":1,"event":"unit_status","units":4,"done":1,"begun":1,"failed":1,
            "begun_units":[{"unit":1,"attempt":3,"host":"h","pid":1,"begun":[0,0]}],
            "failed_units":[{"unit":2,"attempt":5,"host":"h","pid":1,"reasons":[]}]}"#;
        let state: StateThere = serde_json::from_str(text).unwrap();
        let attempts = |number| state.attempts(UnitNumber::new(number).unwrap());
        assert_eq!([0, 1, 2, 3].map(attempts), [0, 3, 5, 0]);
        assert_eq!((state.units, state.done, state.has_failures()), (4, 1, true));
    }
}
