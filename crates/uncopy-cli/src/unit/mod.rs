//! `uncopy unit`: copies cut into units of work.

mod advice;
mod facts;
mod metrics;
mod notes;
mod plan;
mod retry;
mod roots;
mod run;
mod status;
mod words;

use std::path::Path;

use clap::{ArgMatches, FromArgMatches};
pub(crate) use run::do_for_other_machine;
use uncopy::unit::format::{FormatProblem, LEDGER_DIRECTORY};
use uncopy::unit::{FileRole, UnitError};
use uncopy::{Error, Objection, Reason};

use crate::exit::Exit;
use crate::flags::unit::UnitArgs;
use crate::report;

/// Plans, or looks at a plan.
///
/// # Errors
/// The command line makes no sense.
pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, clap::Error> {
    let Some((_, given)) = matches.subcommand() else { return Ok(Exit::Usage) };
    match UnitArgs::from_arg_matches(matches)? {
        UnitArgs::Plan(flags) => plan::run(&flags, given),
        UnitArgs::Run(flags) => run::run(&flags, given),
        UnitArgs::Status(flags) => status::run(&flags, given),
        UnitArgs::Retry(flags) => retry::run(&flags, given),
    }
}

/// Reports an error that leaves nothing to do.
fn failed(error: &UnitError) -> Exit {
    report::say(&sentence(error));
    match error {
        UnitError::System(error) if is_lost(error) => Exit::Unreachable,
        _ => Exit::Failure,
    }
}

fn is_lost(error: &Error) -> bool {
    matches!(error.reason(), Reason::Refused(Objection::PeerLost { .. }))
}

fn is_of_ledger(file: &Path) -> bool {
    file.iter().any(|name| name == LEDGER_DIRECTORY)
}

/// Describes an error, with the next step.
fn sentence(error: &UnitError) -> String {
    match error {
        UnitError::System(error) => advice::of_file(error),
        UnitError::NoPlan { .. } => {
            format!("{error}; name the directory of `uncopy unit plan --out`")
        }
        UnitError::Format { error: found, .. }
            if matches!(found.problem, FormatProblem::Unfinished) =>
        {
            format!("{error}; run `uncopy unit plan` again, which goes on or begins anew")
        }
        UnitError::Format { file, .. } if is_of_ledger(file) => {
            format!("{error}; remove it, and run its unit again")
        }
        UnitError::Format { .. } => {
            format!("{error}; name a file of DIR/units, or make the plan anew if it was damaged")
        }
        UnitError::OtherUnit { .. } => {
            format!("{error}; look which of the two belongs to the plan")
        }
        UnitError::Elsewhere { .. } => {
            format!("{error}; mount it here")
        }
        UnitError::OtherRoot { .. } => {
            format!("{error}; mount it here as on the machine of the plan, or make the plan anew")
        }
        UnitError::NotRegular { role: FileRole::Unit, .. } => {
            format!("{error}; name a file of DIR/units")
        }
        UnitError::NotRegular { role: FileRole::Plan, .. } => {
            format!("{error}; name the directory of `uncopy unit plan --out`")
        }
        UnitError::NotRegular { role: FileRole::Ledger, .. } => {
            format!("{error}; look who put it there, and remove it")
        }
        error => format!("{error}; do not move files of a ledger"),
    }
}
