//! Whether an entry may be made, and what has its name: looked up, decided, and in a dry run told.

use rustix::fs::OFlags;

use super::decide::{Decision, Policy, Side, decide};
use super::worker::{Place, Worker};
use crate::copy::destination::Found;
use crate::copy::job::{Action, EntryKind, Outcome};
use crate::error::{Errno, Error, Reason, Result};
use crate::sys::file::{self, Timestamp};
use crate::sys::name;

/// The answer.
pub(super) enum Asked {
    /// Make it, in the place of what was found.
    Go { found: Option<Found>, decision: Decision },
    /// There is nothing to do but to tell this.
    Done(Outcome),
}

impl Worker<'_, '_> {
    /// Asks about an entry of this kind that was modified then.
    pub(super) fn ask(
        &mut self,
        place: &Place<'_>,
        kind: EntryKind,
        modified: Timestamp,
    ) -> Result<Asked> {
        let found = find(place)?;
        let side = |found: &Found| {
            let (kind, modified) = (found.stat.file_type(), found.stat.modified);
            Side { kind, modified }
        };
        let entered = &place.directory.entered;
        let policy = Policy::of(self.job.options, entered);
        let decision = decide(Side { kind, modified }, found.as_ref().map(side), policy);
        let action = match decision {
            Decision::MakeRoom => {
                if let Some(found) = found {
                    self.make_room(place, found.stat.file_type())?;
                }
                return Ok(match self.job.options.dry_run {
                    true => Asked::Done(Outcome::Planned { action: Action::Make, mechanism: None }),
                    false => Asked::Go { found: None, decision: Decision::Make },
                });
            }
            Decision::Skip(reason) => return Ok(Asked::Done(Outcome::Skipped { reason })),
            Decision::Refuse(text) => {
                let reason = Reason::Refused(text.into());
                return Err(Error::new("replace", place.destination(), reason));
            }
            Decision::Make => Action::Make,
            Decision::Replace | Decision::Merge => Action::Replace,
        };
        Ok(match self.job.options.dry_run {
            true => Asked::Done(Outcome::Planned { action, mechanism: None }),
            false => Asked::Go { found, decision },
        })
    }
}

/// What has the name of the destination; nothing has in a directory that this job made.
fn find(place: &Place<'_>) -> Result<Option<Found>> {
    if place.directory.entered.fresh {
        return Ok(None);
    }
    let fail = |errno| Error::destination("examine", place.destination(), errno);
    match name::open_existing(&*place.open.destination, place.target, OFlags::PATH) {
        Ok(handle) => {
            let stat = file::stat(&handle).map_err(fail)?;
            Ok(Some(Found { handle, stat }))
        }
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(fail(errno)),
    }
}
