//! Finds out whether an overlay shows the destination: what is copied there from the overlay would appear in it, without end.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Component;

use rustix::fs::FileType;

use super::aside::Aside;
use crate::source_places;
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, directory};

/// Whether a directory of an overlay shows a directory of another filesystem, or something in it does, as far as one can see
/// without looking at all that is in it. `only_look`: nothing may be made.
///
/// The table of mounts names the layers of an overlay by the paths that they had for whoever mounted it, so that it does not
/// say where they lie. But a directory of a layer has the end of its path in its filesystem as its path in the overlay,
/// which shows its times. Whether it is that one is found out by making a directory in it, as one for an entry `name`.
pub(super) fn shows(
    overlay: &OwnedFd,
    destination: impl AsFd,
    name: &OsStr,
    only_look: bool,
) -> bool {
    find(overlay, &destination, name, only_look).unwrap_or(false)
}

/// A directory of the overlay that may be the one of the destination.
struct Candidate {
    opened: OwnedFd,
    /// Whether its times are those of the other one.
    is_alike: bool,
}

fn find(overlay: &OwnedFd, destination: &impl AsFd, name: &OsStr, only_look: bool) -> Sys<bool> {
    let path = source_places::path_in_filesystem(destination.as_fd()).unwrap_or_default();
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let names: Vec<&OsStr> = names.collect();
    if file::stat(overlay)?.device == file::stat(destination)?.device {
        return Ok(false);
    }
    let mut candidates = Vec::new();
    for from in 0..=names.len() {
        let opened = match &names[from..] {
            [] => file::duplicate(overlay),
            below => directory::open_beneath(overlay, below, true),
        };
        let Ok(opened) = opened else { continue };
        // The overlay changes a directory when it meets it first, so that this is looked at before the other one.
        let seen = file::stat(&opened)?;
        let is_alike = is_alike(&seen, &file::stat(destination)?);
        // Where a lower directory is merged with another one the times are those of the upper one.
        if is_alike || from < names.len() {
            candidates.push(Candidate { opened, is_alike });
        }
    }
    if only_look || candidates.is_empty() {
        return Ok(candidates.iter().any(|candidate| candidate.is_alike));
    }
    let Ok((made, _, aside)) = Aside::make(file::duplicate(destination.as_fd())?, name) else {
        return Ok(candidates.iter().any(|candidate| candidate.is_alike));
    };
    let is_in =
        |candidate: &Candidate| directory::stat_name(&candidate.opened, &aside.temporary).is_ok();
    let found = candidates.iter().any(is_in);
    aside.remove(&made);
    aside.register.end();
    Ok(found)
}

fn is_alike(one: &Stat, other: &Stat) -> bool {
    let facts = |stat: &Stat| (stat.mode, stat.size, stat.modified, stat.changed, stat.birth);
    one.file_type() == FileType::Directory && facts(one) == facts(other)
}
