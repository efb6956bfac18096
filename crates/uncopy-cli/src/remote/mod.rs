//! `uncopy cp` between two machines: the side with the destination copies, and asks the side with the sources.

mod doctor;
mod examined;
mod leads_out;
mod new_trees;
mod pull;
mod push;
mod reach;
mod recorder;
mod relay;
mod run_there;
mod serve;
mod served;
mod session;
mod there;
#[cfg(feature = "unit")]
mod unit;
mod words;

use clap::ArgMatches;
use clap::error::ErrorKind;

use crate::config::Configured;
use crate::cp;
use crate::cp::target::{Names, Route};
use crate::exit::Exit;
use crate::flags::between::{self, Direction};
use crate::flags::copy::CopyArgs;
use crate::flags::usage_error;
use crate::report::Failure;
pub(crate) use doctor::facts;
pub(crate) use serve::run as serve;
#[cfg(feature = "unit")]
pub(crate) use served::{NotServed, Served};
#[cfg(feature = "unit")]
pub(crate) use unit::UnitJob;

/// Copies from or to another machine. `given` has the flags of the command line, where the parser read it.
///
/// # Errors
/// The command line makes no sense; nothing was touched.
pub(crate) fn copy(
    configured: &Configured,
    names: &Names,
    given: Option<&ArgMatches>,
) -> Result<Exit, clap::Error> {
    let flags = &configured.flags;
    if flags.single {
        let message = "-s and -d name files on this machine; between machines write: uncopy cp --verify SRC DST; \
                       write ./ before a file here whose name has a colon";
        return Err(usage_error("", ErrorKind::ValueValidation, message));
    }
    let (machine, direction) = match &names.route {
        Route::Pull(machine) => (machine, Direction::Pull),
        Route::Push(machine) => (machine, Direction::Push),
        Route::Here => return Ok(Exit::Usage),
    };
    if let Some(refusal) = between::refusal(flags, direction) {
        return Ok(cp::all_failed(flags, names, &refused(names, refusal)));
    }
    let flags = CopyArgs { is_between: true, ..flags.clone() };
    let configured = Configured { flags, applied: configured.applied.clone() };
    match direction {
        Direction::Pull => pull::copy(&configured, names, machine),
        Direction::Push => push::copy(configured, names, machine, given),
    }
}

/// Returns the failure of a copy with options that copies between machines do not have.
fn refused(names: &Names, refusal: String) -> Failure {
    Failure {
        kind: "options",
        code: None,
        operation: "copy to",
        subject: names.destination.as_path().into(),
        errno: None,
        os_error: None,
        reason: refusal.into(),
        next_step: Some(between::NEXT_STEP.into()),
        is_at_destination: false,
        exit: Exit::Usage,
    }
}
