//! `uncopy unit retry`.

use std::os::unix::ffi::OsStrExt;

use uncopy::unit::format::UnitNumber;
use uncopy::unit::plan::unit_file;
use uncopy::unit::status::{UnitState, of_directory};

use super::failed;
use crate::exit::Exit;
use crate::flags::unit::RetryArgs;
use crate::report;
use crate::report::outlet::{self, Stream};

/// Prints the files of units without a record.
pub(super) fn run(flags: &RetryArgs) -> Exit {
    let (plan, mut facts) = match of_directory(&flags.directory) {
        Ok(found) => found,
        Err(error) => return failed(&error),
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
    printed.map_or_else(|error| report::output_failed(&error), |()| Exit::Success)
}
