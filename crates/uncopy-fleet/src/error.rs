//! Errors of the program: each says what failed, on what, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use uncopy_unit::UnitError;

use crate::exit::Exit;

/// Reason why the program ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FleetError {
    /// The plan, a unit or the ledger cannot be used.
    #[error("{}; {}", problem(.source), next_step(.source))]
    Unit {
        /// Reason.
        #[from]
        source: UnitError,
    },
    /// A file or a process cannot be used.
    #[error("cannot {operation} {}: {error}; {next}", .subject.display())]
    System {
        /// Attempted operation, as a verb phrase.
        operation: &'static str,
        /// Subject of the operation.
        subject: PathBuf,
        /// Reason.
        error: io::Error,
        /// Next step.
        next: &'static str,
    },
    /// The ledger is on another machine, and was not read.
    #[error("{problem}; {next}")]
    LedgerThere {
        /// Problem.
        problem: String,
        /// Next step.
        next: &'static str,
        /// How the program ends.
        exit: Exit,
    },
    /// The words on the command line contradict each other or the machine.
    #[error("{0}")]
    Usage(String),
    /// The engine cannot be used.
    #[error("{problem}; {next}")]
    Engine {
        /// Problem.
        problem: String,
        /// Next step.
        next: &'static str,
    },
    /// The server has no queue of the plan.
    #[error("{problem}; {next}")]
    NoQueue {
        /// Problem.
        problem: String,
        /// Next step.
        next: &'static str,
    },
}

impl FleetError {
    /// Makes an error of the system.
    pub(crate) fn system<'a>(
        operation: &'static str,
        subject: &'a Path,
        next: &'static str,
    ) -> impl FnOnce(io::Error) -> FleetError + 'a {
        move |error| FleetError::System { operation, subject: subject.to_owned(), error, next }
    }

    /// Returns how the program ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            FleetError::Unit { .. } | FleetError::System { .. } | FleetError::NoQueue { .. } => {
                Exit::Failure
            }
            FleetError::LedgerThere { exit, .. } => *exit,
            FleetError::Usage(_) => Exit::Usage,
            FleetError::Engine { .. } => Exit::NoEngine,
        }
    }
}

fn problem(error: &UnitError) -> String {
    match error {
        // The library's next step is one of a copy.
        UnitError::System(error) => {
            format!(
                "cannot {} {}: {}",
                error.operation(),
                error.subject().display(),
                error.reason()
            )
        }
        error => error.to_string(),
    }
}

fn next_step(error: &UnitError) -> &'static str {
    match error {
        UnitError::System(error) if error.is_not_found() => {
            "look whether it was removed, or is not mounted here"
        }
        UnitError::NoPlan { .. } => {
            "name the directory of `uncopy unit plan --out`, and look whether it was removed"
        }
        UnitError::OtherRoot { .. } => "mount it here as on the machine of the plan",
        _ => "`uncopy unit status` shows what the ledger has",
    }
}
