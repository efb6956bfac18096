//! `uncopy unit status`.

mod json;
mod words;

use uncopy::unit::status::{PlanStatus, of_directory, status};

pub(super) use words::since;

use super::{failed, metrics};
use crate::exit::Exit;
use crate::flags::unit::StatusArgs;
use crate::replaced_file;
use crate::report;

/// Reports how far a plan is.
pub(super) fn run(flags: &StatusArgs) -> Exit {
    let (plan, facts) = match of_directory(&flags.directory) {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    let status = status(&plan, facts);
    let text = match flags.json {
        true => json::status(&plan, &status),
        false => words::status(&plan, &status, uncopy::unit::now()),
    };
    let mut exit = exit_of(&status);
    if let Some(file) = &flags.metrics
        && let Err(error) = replaced_file::replace(file, metrics::text(&plan, &status).as_bytes())
    {
        let what = format!("write the figures to {}", report::quoted(file));
        exit = exit.and(report::failed_to(&what, &error, "name a file that you may write"));
    }
    report::print(&text).map_or_else(|error| exit.and(report::output_failed(&error)), |()| exit)
}

/// Failures need somebody, and count before what is not done.
fn exit_of(status: &PlanStatus) -> Exit {
    match (status.is_complete(), status.failed.is_empty()) {
        (true, _) => Exit::Success,
        (false, false) => Exit::Failure,
        (false, true) => Exit::NotFinished,
    }
}
