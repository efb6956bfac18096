//! The program `uncopy` that does units.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::FleetError;

/// Name of the program.
const NAME: &str = "uncopy";

/// Returns the program that does units: the one that is named, else the one beside this program, else the first in
/// `PATH`, as this program itself is found.
///
/// # Errors
/// There is none.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, FleetError> {
    if let Some(named) = named {
        return std::path::absolute(named).map_err(FleetError::system(
            "use",
            named,
            "name a file with --program",
        ));
    }
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = beside
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|directory| directory.join(NAME))
        .find(|file| file.is_file());
    let found = found.and_then(|file| std::path::absolute(file).ok());
    found.ok_or_else(|| {
        FleetError::Usage(
            "there is no program `uncopy` beside this one or in PATH; install it, or name it with --program"
                .to_owned(),
        )
    })
}
