//! `uncopy capabilities`.

pub(crate) mod json;
mod words;

use uncopy::capabilities::{Storage, kernel, storage};

use crate::exit::Exit;
use crate::flags::capabilities::CapabilitiesArgs;
use crate::report::{self, Failure};

/// Asks kernel and filesystems, and prints what they answer. A path that cannot be asked about
/// does not keep the others from being shown.
pub(crate) fn run(flags: &CapabilitiesArgs) -> Result<Exit, clap::Error> {
    let asked = |path| storage(path).map_err(|error| Failure::from(&error));
    let storages: Vec<Result<Storage, Failure>> = flags.paths.iter().map(asked).collect();
    let text = if flags.json {
        json::report(kernel(), &flags.paths, &storages)
    } else {
        words::report(kernel(), &storages)
    };
    let mut exit = match report::print(&text) {
        Ok(()) => Exit::Success,
        Err(error) => report::output_failed(&error),
    };
    for failure in storages.iter().filter_map(|storage| storage.as_ref().err()) {
        report::say(&failure.to_string());
        exit = exit.and(failure.exit);
    }
    Ok(exit)
}
