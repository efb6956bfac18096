//! Copies between machines, in builds that make none.

use clap::ArgMatches;
use clap::error::ErrorKind;

use crate::config::Configured;
use crate::cp::target::{Names, Route};
use crate::exit::Exit;
use crate::flags::absent::how_to_get;
use crate::flags::usage_error;

/// Refuses the copy by the name of the other machine.
///
/// # Errors
/// Always.
pub(crate) fn copy(
    configured: &Configured,
    names: &Names,
    _: Option<&ArgMatches>,
) -> Result<Exit, clap::Error> {
    let machine = match &names.route {
        Route::Here => String::new(),
        Route::Pull(machine) | Route::Push(machine) => machine.to_string(),
    };
    let message = format!(
        "{machine} is another machine, and this build copies on one alone; {}; or write ./ before a file here whose \
         name has a colon",
        how_to_get("remote")
    );
    Err(usage_error(configured.flags.subcommand(), ErrorKind::ValueValidation, &message))
}
