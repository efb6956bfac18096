//! `uncopy unit retry`.

use std::os::unix::ffi::OsStrExt;

use clap::ArgMatches;
use uncopy::unit::format::UnitNumber;
use uncopy::unit::plan::unit_file;
use uncopy::unit::status::UnitState;

use super::facts;
use crate::exit::Exit;
use crate::flags::unit::RetryArgs;
use crate::report;
use crate::report::outlet::{self, Stream};

/// Prints the files of units without a record.
///
/// # Errors
/// A flag or a setting has no valid meaning.
pub(super) fn run(flags: &RetryArgs, given: &ArgMatches) -> Result<Exit, clap::Error> {
    let (plan, mut facts) = match facts::read(&flags.directory, given)? {
        Ok(found) => found,
        Err(exit) => return Ok(exit),
    };
    let end = if flags.null { b'\0' } else { b'\n' };
    let mut text = Vec::new();
    for unit in (0..plan.units).filter_map(UnitNumber::new) {
        let state = facts.remove(&unit).unwrap_or_default().state();
        let is_listed = match state {
            UnitState::Done(_) => false,
            UnitState::Failed(_) => true,
            _ => !flags.failed,
        };
        if is_listed {
            text.extend_from_slice(unit_file(&flags.directory, unit).as_os_str().as_bytes());
            text.push(end);
        }
    }
    let printed = outlet::write(Stream::Output, &text);
    Ok(printed.map_or_else(|error| report::output_failed(&error), |()| Exit::Success))
}
