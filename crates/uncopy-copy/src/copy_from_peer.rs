//! Defines the public function that runs a job whose source is on another machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::copy_trees::{JobError, end_job};
use crate::jobs::{JobObserver, JobOptions, Parents, Sources, Summary};
use crate::options::{Allow, Require, Transform};
use crate::peer::Peer;
use crate::peer_link::PeerLink;
use crate::tree::{is_built_from_peer as was_built, run_job_from_peer};
use uncopy_core::{Contradiction, Mechanism};

/// Copies each root of another machine to its destination, as [`copy_trees`](crate::job::copy_trees) does. Root number
/// `n` of the peer belongs to pair `n`: its name for people, and its destination.
///
/// # Errors
/// As [`copy_trees`](crate::job::copy_trees). The job also ends when the connection does; with
/// [`JobOptions::resume`] another run goes on then.
pub fn copy_from_peer<P: AsRef<Path>, Q: AsRef<Path>>(
    peer: Arc<dyn Peer>,
    pairs: impl IntoIterator<Item = (P, Q)>,
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> Result<Summary, JobError> {
    let owned = |(source, destination): (P, Q)| {
        (source.as_ref().to_owned(), destination.as_ref().to_owned())
    };
    let pairs: Vec<(PathBuf, PathBuf)> = pairs.into_iter().map(owned).collect();
    let is_kept = options.parents != Parents::Omit;
    let checked = options.check().and_then(|()| check(options)).and(match is_kept {
        true => Err(Contradiction::SourceElsewhere { option: "parents" }),
        false => Ok(()),
    });
    end_job(&pairs, checked, || run_job_from_peer(peer, &pairs, options, observer))
}

/// Whether an earlier run made the directory `destination` of root number `number` of the peer, as
/// [`is_built`](crate::job::is_built) says. `source`: the root's name for people, which is that of the job.
#[must_use]
pub fn is_built_from_peer(
    peer: Arc<dyn Peer>,
    number: u32,
    source: &Path,
    destination: &Path,
    options: &JobOptions,
) -> bool {
    let link = Arc::new(PeerLink::new(peer, source.to_owned()));
    was_built(&link, number, source, destination, options)
}

/// Checks that the options are possible with a source on another machine.
pub(crate) fn check(options: &JobOptions) -> Result<(), Contradiction> {
    let copy = &options.copy;
    let can_write = matches!(
        copy.allow,
        Allow::Any | Allow::Unshared | Allow::ReadWrite | Allow::Only(Mechanism::ReadWrite)
    );
    let rows = [
        (options.link, "link"),
        (options.remove_source, "remove_source"),
        (options.sources == Sources::Files, "sources = Files"),
        (copy.transform != Transform::None, "transform"),
        (copy.require != Require::Nothing, "require"),
        (!can_write, "allow"),
    ];
    match rows.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, option)) => Err(Contradiction::SourceElsewhere { option }),
        None => Ok(()),
    }
}
