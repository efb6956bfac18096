//! Knows the roots of a plan again: where one of them is not mounted, another directory has its path.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::UnitError;
use crate::format::{Plan, PlanId, SeenDirectory, SeenRoots};
use crate::ledger::Ledger;
use uncopy_core::Errno;
use uncopy_os::file::{self, Stat};
use uncopy_os::follow;

/// Opens the destination. `None`: nobody has made it yet.
///
/// One with the ledger of the plan is the one that workers have used before, whatever the plan saw.
///
/// # Errors
/// It cannot be opened, or is another directory than the plan saw.
pub(crate) fn open_destination(
    root: &Path,
    seen: &SeenRoots,
    plan: PlanId,
) -> Result<Option<OwnedFd>, UnitError> {
    let opened = match follow::open_root(root).or_else(|_| follow::open_directory(root)) {
        Ok(opened) => Some(opened),
        Err(stopped) if stopped.errno() == Errno::ENOENT => None,
        Err(stopped) => return Err(stopped.at_destination("open", root).into()),
    };
    let is = |seen: SeenDirectory, found: Option<Stat>| found.is_some_and(|found| seen.is(&found));
    let is_it = match (seen.destination, seen.above_destination) {
        (Some(seen), _) => is(seen, opened.as_ref().and_then(|opened| file::stat(opened).ok())),
        (None, Some(seen)) => is(seen, above(root).and_then(|above| follow::stat(above).ok())),
        (None, None) => true,
    };
    let has_ledger = || match &opened {
        Some(opened) => Ledger::open(opened, root, plan).map(|ledger| ledger.is_some()),
        None => Ok(false),
    };
    if is_it || has_ledger()? {
        return Ok(opened);
    }
    Err(UnitError::OtherRoot { root: root.to_owned() })
}

/// Returns the directory in which a root lies, as its path names it. A name alone lies in the working directory.
pub(crate) fn above(root: &Path) -> Option<&Path> {
    let parent = root.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

/// Checks that the source of a plan is the directory that the plan saw, if it is on this machine.
///
/// # Errors
/// It is missing or cannot be reached, or is another one.
pub fn check_source(plan: &Plan) -> Result<(), UnitError> {
    let (Some(root), Some(seen)) = (plan.source.here(), plan.seen.source) else { return Ok(()) };
    let found = follow::stat(root).map_err(|stopped| stopped.error("examine", root))?;
    if seen.is(&found) { Ok(()) } else { Err(UnitError::OtherRoot { root: root.to_owned() }) }
}
