//! Copies listed entries as far as a guard allows.

use crate::copy_from_peer;
use crate::copy_trees::{JobError, end_job};
use crate::guarded_entries::GuardedEntries;
use crate::jobs::{JobObserver, JobOptions, Links, Parents, Sources, Summary};
use crate::tree::run_guarded_job;
use uncopy_core::Contradiction;

/// Copies entries as far as the guard allows, beside other jobs that work in the same directories.
///
/// An entry whose destination is not the expected one counts as skipped if it is what its copy would be: an earlier
/// attempt made it. Directories are made, and get no metadata.
///
/// # Errors
/// As [`copy_trees`](crate::job::copy_trees). Options for whole trees, for other copies and for backups are refused.
pub fn copy_guarded(
    listed: GuardedEntries<'_>,
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> Result<Summary, JobError> {
    let below = Parents::KeepBelow(listed.source.to_owned());
    let options = options.clone().sources(Sources::Entries).parents(below);
    let is_possible = options.copy.backup.is_none()
        && options.links != Links::Follow
        && !options.link
        && !options.remove_source
        && !options.dry_run
        && options.link_dest.is_none();
    let checked = options.check().and(match is_possible {
        true => Ok(()),
        false => Err(Contradiction::ParentsOfPart),
    });
    let checked = match listed.root.is_there() {
        true => checked.and_then(|()| copy_from_peer::check(&options)),
        false => checked,
    };
    let pair = [(listed.source.to_owned(), listed.destination.to_owned())];
    end_job(&pair, checked, || run_guarded_job(listed, &options, observer))
}

#[cfg(test)]
mod tests;
