//! Refuses jobs that remove entries where their roots overlap: what one of them removes, another one needs. Also those that
//! keep journals where roots have one destination, which has one journal.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use super::directory::{Identity, identity};
use super::target::{names_directory, or_here};
use crate::jobs::{JobOptions, Links, Parents};
use crate::peer_link::PeerLink;
use uncopy_core::{Error, Objection, Reason};
use uncopy_os::directory;

/// Place of a root in the tree of directories, whatever links and mounts lead there.
#[derive(Debug, Default)]
struct Location {
    /// Existing directories: the nearest one first, then those above it.
    above: Vec<Identity>,
    /// Names below the nearest one that are no directories, or not there yet.
    below: Vec<OsString>,
}

/// Place of the source, and whether it is a directory; place of the destination.
type Places = (Option<(Location, bool)>, Option<Location>);

/// A directory that exists, or one that the job makes below it.
type Key = (Identity, Vec<OsString>);

impl Location {
    /// Finds the place that a path leads to.
    fn followed(path: &Path) -> Option<Location> {
        let mut below = Vec::new();
        let mut existing = or_here(path);
        let resolved = loop {
            match std::fs::canonicalize(existing) {
                Ok(resolved) => break resolved,
                Err(_) => {
                    below.insert(0, existing.file_name()?.to_owned());
                    existing = or_here(existing.parent()?);
                }
            }
        };
        Location::of_resolved(&resolved, below)
    }

    /// Finds the place of the last name of a path, which may be a link.
    fn named(path: &Path) -> Option<Location> {
        let name = path.file_name()?.to_owned();
        let resolved = std::fs::canonicalize(or_here(path.parent()?)).ok()?;
        Location::of_resolved(&resolved, vec![name])
    }

    fn of_resolved(resolved: &Path, mut below: Vec<OsString>) -> Option<Location> {
        let mut above = Vec::new();
        for path in resolved.ancestors() {
            let stat = directory::stat_path(path).ok()?;
            match stat.file_type() {
                FileType::Directory => above.push(identity(&stat)),
                _ => below.insert(0, path.file_name()?.to_owned()),
            }
        }
        Some(Location { above, below })
    }

    /// Returns the place itself and the directories above it, the nearest first.
    fn keys(&self) -> impl Iterator<Item = Key> {
        let nearest = self.above.first().copied();
        let made = (0..=self.below.len()).rev();
        let made = made.filter_map(move |end| Some((nearest?, self.below[..end].to_vec())));
        made.chain(self.above.iter().skip(1).map(|above| (*above, Vec::new())))
    }
}

/// Whether a path leads to a place at or below another one, whatever links and mounts lead there. Names that are not there
/// yet count as they are written.
pub fn lies_within(path: &Path, other: &Path) -> bool {
    let other = Location::followed(other).and_then(|other| other.keys().next());
    let mut keys =
        Location::followed(path).into_iter().flat_map(|path| path.keys().collect::<Vec<_>>());
    other.is_some() && keys.any(|key| Some(key) == other)
}

/// Finds the pairs whose source lies in a destination, whose destination holds a source, or whose destinations hold each
/// other, if the options remove anything, and sources that hold each other, if these are removed; where journals are kept,
/// directories with one destination. Returns the errors by the index of the pair; none of these may be copied.
pub(super) fn refusals(
    pairs: &[(PathBuf, PathBuf)],
    peer: Option<&Arc<PeerLink>>,
    options: &JobOptions,
) -> HashMap<usize, Error> {
    let removes = options.delete.is_some() || options.remove_source;
    if !removes && (!options.resume || options.parents != Parents::Omit) {
        return HashMap::new();
    }
    if options.parents != Parents::Omit {
        return refusals_of_kept(pairs, &options.parents);
    }
    let find = |index: usize| {
        let source = &pairs[index].0;
        match peer {
            None => find_source(source, options),
            Some(link) => find_there(link, index, source, options),
        }
    };
    if !removes {
        return refusals_of_journals(pairs, |index| find(index).is_some_and(|(_, is)| is));
    }
    // A path that cannot be looked at is an error of its own source.
    let places: Vec<_> = pairs
        .iter()
        .enumerate()
        .map(|(index, (_, destination))| (find(index), Location::followed(destination)))
        .collect();
    let mut directories = HashMap::new();
    for (index, place) in places.iter().enumerate() {
        if let (Some((_, true)), Some(to)) = place {
            directories.entry(to.keys().next()).or_insert(index);
        }
    }
    let mut refused = HashMap::new();
    if options.remove_source {
        refuse_sources_within(pairs, &places, &mut refused);
    }
    for (index, ((source, destination), (from, to))) in pairs.iter().zip(&places).enumerate() {
        for (step, key) in from.iter().flat_map(|(from, _)| from.keys()).enumerate() {
            if let Some(other) = directories.get(&Some(key))
                // A destination that is its own source is refused as such.
                && !(step == 0 && *other == index)
            {
                let error = in_destination(source, &pairs[*other].1);
                refused.entry(*other).or_insert_with(|| error.clone());
                refused.entry(index).or_insert(error);
            }
        }
        for key in to.iter().flat_map(Location::keys) {
            if let Some(other) = directories.get(&Some(key))
                && *other != index
            {
                let of = |index: usize| pairs[index].1.as_path();
                refused.entry(*other).or_insert_with(|| overlapping(of(*other), destination));
                refused.entry(index).or_insert_with(|| overlapping(destination, of(*other)));
            }
        }
    }
    refused
}

/// Finds directories that go to one destination, which has one journal.
fn refusals_of_journals(
    pairs: &[(PathBuf, PathBuf)],
    is_directory: impl Fn(usize) -> bool,
) -> HashMap<usize, Error> {
    let mut together: HashMap<Key, Vec<usize>> = HashMap::new();
    if pairs.len() > 1 {
        for (index, (_, destination)) in pairs.iter().enumerate() {
            let key = Location::followed(destination).and_then(|to| to.keys().next());
            if let Some(key) = key {
                together.entry(key).or_default().push(index);
            }
        }
    }
    let mut refused = HashMap::new();
    for mut indices in together.into_values().filter(|indices| indices.len() > 1) {
        indices.retain(|index| is_directory(*index));
        let [first, .., last] = indices[..] else { continue };
        for index in indices {
            let other = if index == first { last } else { first };
            refused.insert(index, overlapping(&pairs[index].1, &pairs[other].1));
        }
    }
    refused
}

/// Refuses sources that are or lie in another one, and that one too.
fn refuse_sources_within(
    pairs: &[(PathBuf, PathBuf)],
    places: &[Places],
    refused: &mut HashMap<usize, Error>,
) {
    let mut sources = HashMap::new();
    for (index, (from, _)) in places.iter().enumerate() {
        if let Some(key) = from.iter().find_map(|(from, _)| from.keys().next()) {
            sources.entry(key).or_insert(index);
        }
    }
    for (index, (from, _)) in places.iter().enumerate() {
        for key in from.iter().flat_map(|(from, _)| from.keys()) {
            if let Some(other) = sources.get(&key)
                && *other != index
            {
                let error = sources_overlap(&pairs[index].0, &pairs[*other].0);
                refused.entry(*other).or_insert_with(|| error.clone());
                refused.entry(index).or_insert(error);
            }
        }
    }
}

/// Finds sources that keep directories of their paths, where these lie in the destination.
fn refusals_of_kept(pairs: &[(PathBuf, PathBuf)], parents: &Parents) -> HashMap<usize, Error> {
    let mut known: HashMap<(&Path, &Path), bool> = HashMap::new();
    let mut refused = HashMap::new();
    for (index, (source, destination)) in pairs.iter().enumerate() {
        let base = match parents {
            Parents::KeepBelow(base) => base.as_path(),
            _ if source.is_absolute() => Path::new("/"),
            _ => Path::new("."),
        };
        let lies_inside = *known.entry((base, destination)).or_insert_with(|| {
            let (from, to) = (Location::followed(base), Location::followed(destination));
            let to = to.and_then(|to| to.keys().next());
            from.iter().flat_map(Location::keys).skip(1).any(|key| Some(key) == to)
        });
        if lies_inside {
            refused.insert(index, in_destination(source, destination));
        }
    }
    refused
}

/// Finds a source, and whether it is a directory.
fn find_source(source: &Path, options: &JobOptions) -> Option<(Location, bool)> {
    let follows = follows(source, options);
    let is_link =
        directory::stat_path(source).is_ok_and(|stat| stat.file_type() == FileType::Symlink);
    let found = match is_link && !follows {
        true => Location::named(source)?,
        false => Location::followed(source)?,
    };
    let is_directory = found.below.is_empty();
    Some((found, is_directory))
}

/// Finds a source on another machine. It lies in no directory of this one, unless both are one: then a directory that is found
/// by the path of the source, and is the source, lies where that path leads.
fn find_there(
    link: &Arc<PeerLink>,
    index: usize,
    source: &Path,
    options: &JobOptions,
) -> Option<(Location, bool)> {
    let (number, follows) = (u32::try_from(index).ok()?, follows(source, options));
    let opened = link.ask(|peer| peer.open_root(number, follows)).ok()?;
    let (_, stat) = link.opened(opened).ok()?;
    let is_directory = stat.file_type() == FileType::Directory;
    let is_it = |found: &(Location, bool)| {
        found.1 && found.0.above.first() == Some(&identity(&link.stat_here(&stat)))
    };
    let path = link.peer.root_path(number).unwrap_or(source);
    let here = (is_directory && link.peer.is_here()).then(|| find_source(path, options));
    let location = here.flatten().filter(is_it).map(|(location, _)| location);
    Some((location.unwrap_or_default(), is_directory))
}

/// Whether a symbolic link that a source is is followed.
fn follows(source: &Path, options: &JobOptions) -> bool {
    options.links == Links::Follow || options.follow_roots || names_directory(source)
}

fn in_destination(source: &Path, destination: &Path) -> Error {
    let destination = destination.to_owned();
    Error::new("copy", source, Reason::Refused(Objection::SourceInDestination { destination }))
}

fn sources_overlap(source: &Path, other: &Path) -> Error {
    let other = other.to_owned();
    Error::new("copy", source, Reason::Refused(Objection::SourcesOverlap { other }))
}

fn overlapping(destination: &Path, other: &Path) -> Error {
    let other = other.to_owned();
    Error::new("write to", destination, Reason::Refused(Objection::DestinationsOverlap { other }))
}
