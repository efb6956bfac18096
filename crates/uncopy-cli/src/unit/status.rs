//! `uncopy unit status`.

mod json;
mod words;

use clap::ArgMatches;
use uncopy::unit::status::{PlanStatus, status};

pub(super) use words::since;

use super::facts::{self, WhichUnits};
use super::metrics;
use super::notes::NoteCounts;
use crate::exit::Exit;
use crate::flags::unit::StatusArgs;
use crate::replaced_file;
use crate::report;

/// Reports how far a plan is.
///
/// # Errors
/// A flag or a setting has no valid meaning.
pub(super) fn run(flags: &StatusArgs, given: &ArgMatches) -> Result<Exit, clap::Error> {
    let (plan, facts) = match facts::read(&flags.directory, WhichUnits::Known, given)? {
        Ok(found) => found,
        Err(exit) => return Ok(exit),
    };
    let mut notes = NoteCounts::default();
    for record in facts.values().filter_map(|facts| facts.record.as_ref()) {
        notes.add_recorded(&record.receipt);
    }
    let status = status(&plan, facts);
    let text = match flags.json {
        true => json::status(&plan, &status, &notes),
        false => words::status(&plan, &status, &notes, uncopy::unit::now()),
    };
    let mut exit = exit_of(&status);
    if let Some(file) = &flags.metrics
        && let Err(error) = replaced_file::replace(file, metrics::text(&plan, &status).as_bytes())
    {
        let what = format!("write the figures to {}", report::quoted(file));
        exit = exit.and(report::failed_to(&what, &error, "name a regular file that you may write"));
    }
    let printed = report::print(&text);
    Ok(printed.map_or_else(|error| exit.and(report::output_failed(&error)), |()| exit))
}

/// Failures need somebody, and count before what is not done.
fn exit_of(status: &PlanStatus) -> Exit {
    match (status.is_complete(), status.failed.is_empty()) {
        (true, _) => Exit::Success,
        (false, false) => Exit::Failure,
        (false, true) => Exit::NotFinished,
    }
}
