//! `uncopy fleet`: another program, so that this one stays without a client of NATS and a runtime of tasks.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::Exit;
use crate::flags::fleet::FleetArgs;
use crate::report;

/// Name of the program.
const PROGRAM: &str = "uncopy-fleet";

/// Becomes the other program: the one beside this one, else the first in `PATH`, as git finds its commands.
///
/// # Errors
/// None; the other program reads the words.
pub(crate) fn run(flags: &FleetArgs) -> Result<Exit, clap::Error> {
    let own = env::current_exe().ok();
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(program) = candidates(own.as_deref(), &path).find(|file| file.is_file()) else {
        report::say(
            "there is no program uncopy-fleet beside uncopy or in PATH; install the package uncopy-fleet, or, from the sources, `cargo install --path crates/uncopy-fleet`",
        );
        return Ok(Exit::NoEngine);
    };
    // This returns only if it failed.
    let error: io::Error = Command::new(&program).args(&flags.words).exec();
    let what = format!("start {}", report::quoted(&program));
    Ok(report::failed_to(&what, &error, "check that it may be executed"))
}

fn candidates(own: Option<&Path>, path: &OsString) -> impl Iterator<Item = PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let directories: Vec<PathBuf> = beside.into_iter().chain(env::split_paths(path)).collect();
    directories.into_iter().map(|directory| directory.join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_beside_this_one_comes_first() {
        let found: Vec<_> = candidates(Some(Path::new("/a/uncopy")), &"/b:/c".into()).collect();
        assert_eq!(
            found,
            ["/a/uncopy-fleet", "/b/uncopy-fleet", "/c/uncopy-fleet"].map(PathBuf::from)
        );
        let found: Vec<_> = candidates(None, &"/b".into()).collect();
        assert_eq!(found, [PathBuf::from("/b/uncopy-fleet")]);
    }
}
