//! `uncopy unit retry`.

use std::os::unix::ffi::OsStrExt;

use clap::ArgMatches;
use uncopy::unit::plan::unit_file;
use uncopy::unit::status::UnitState;

use super::facts::{self, WhichUnits};
use crate::exit::Exit;
use crate::flags::unit::RetryArgs;
use crate::report;
use crate::report::outlet::{self, Stream};

/// Prints the files of units without a record.
///
/// # Errors
/// A flag or a setting has no valid meaning.
pub(super) fn run(flags: &RetryArgs, given: &ArgMatches) -> Result<Exit, clap::Error> {
    let facts = match facts::read(&flags.directory, WhichUnits::Unfinished, given)? {
        Ok((_, facts)) => facts,
        Err(exit) => return Ok(exit),
    };
    let end = if flags.null { b'\0' } else { b'\n' };
    let mut text = Vec::new();
    for (unit, facts) in facts {
        if !flags.failed || matches!(facts.state(), UnitState::Failed(_)) {
            text.extend_from_slice(unit_file(&flags.directory, unit).as_os_str().as_bytes());
            text.push(end);
        }
    }
    let printed = outlet::write(Stream::Output, &text);
    Ok(printed.map_or_else(|error| report::output_failed(&error), |()| Exit::Success))
}
