//! `uncopy capabilities`.

pub(crate) mod json;
mod verdicts;
mod words;

use uncopy::capabilities::{Storage, kernel, storage};

use crate::exit::Exit;
use crate::flags::capabilities::CapabilitiesArgs;
use crate::report::{self, Failure};
use verdicts::Verdicts;

/// Tests kernel and filesystems, and prints the results. A path that cannot be tested does not
/// prevent the others from being shown.
pub(crate) fn run(flags: &CapabilitiesArgs) -> Result<Exit, clap::Error> {
    let examine = |path| storage(path).map_err(|error| Failure::from(&error));
    let storages: Vec<Result<Storage, Failure>> = flags.paths.iter().map(examine).collect();
    let verdicts = Verdicts::of(&storages);
    let text = if flags.json {
        json::report(kernel(), &flags.paths, &storages, &verdicts)
    } else {
        words::report(kernel(), &storages, &verdicts)
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
