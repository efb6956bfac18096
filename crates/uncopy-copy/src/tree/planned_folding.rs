//! Knows entries of a destination that a source refers to by another spelling, for plans.

use std::collections::HashSet;
use std::ffi::OsStr;

use super::directory::{Identity, identity};
use super::folding::{Folding, NotCompared, Sides, folding_of, other_case, stood_for};
use crate::guarded_source::GuardedSource;
use uncopy_os::Sys;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file;

/// Passes on each name of a directory.
pub type ListNames<'a> = dyn Fn(&mut dyn FnMut(&OsStr)) -> Sys<()> + 'a;

/// A directory of both roots.
#[allow(clippy::exhaustive_structs, reason = "those who plan make it")]
pub struct BothSides<'a> {
    /// Directory of the destination.
    pub destination: &'a GuardedSource,
    /// Names of the destination, as they are written.
    pub list_destination: &'a ListNames<'a>,
    /// Names of the source.
    pub list_source: &'a ListNames<'a>,
}

/// Returns those of the entries of a destination that belong to a differently spelled name of the source, on a filesystem
/// that folds names. Where it does not, that costs one look for all of them.
///
/// # Errors
/// The names could not be compared.
pub fn stand_for_others<'n>(
    sides: &BothSides<'_>,
    names: &[&'n OsStr],
) -> Result<HashSet<&'n OsStr>, NotCompared> {
    let sides = Planned(sides);
    let sample =
        names.iter().find(|name| name.as_encoded_bytes().iter().any(u8::is_ascii_alphabetic));
    if let Some(sample) = sample
        && let Some(other) = other_case(sample)
        && !sides.may_fold_all()
        && sides.look_up(&other).ok() != sides.look_up(sample).ok()
    {
        return Ok(HashSet::new());
    }
    stood_for(&sides, names.iter().copied())
}

struct Planned<'a>(&'a BothSides<'a>);

impl Sides for Planned<'_> {
    fn look_up(&self, name: &OsStr) -> Sys<Identity> {
        self.0.destination.stat_name(name).map(|stat| identity(&stat))
    }

    fn list_destination(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()> {
        (self.0.list_destination)(visit)
    }

    fn list_source(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()> {
        (self.0.list_source)(visit)
    }

    /// Asks this machine alone: another one is asked about the case of letters and nothing else.
    fn may_fold_all(&self) -> bool {
        self.0.destination.open_here().is_some_and(|directory| {
            let magic = file::filesystem_magic(directory).unwrap_or(0);
            folding_of(directory, Filesystem::from_magic(magic)) != Folding::No
        })
    }
}
