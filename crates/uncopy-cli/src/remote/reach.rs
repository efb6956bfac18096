//! Directories that a copy reaches on the machine of its destination, found before the program is confined to them.

use std::path::{Component, Path, PathBuf};

use uncopy::copy::job::{JobOptions, LinkDest};
use uncopy::copy::{Existing, Transform};
use uncopy::follow;
use uncopy::remote::Refusal;

use super::leads_out::{LastLink, leads_out};
use crate::cp::target::{self, Kind, Names};

/// Directories that a copy reaches. They exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// It writes beneath these.
    pub(super) writable: Vec<PathBuf>,
    /// It gives files beneath these further names.
    pub(super) linked: Vec<PathBuf>,
}

impl Reach {
    /// Finds what a copy with these options and names reaches. `only`: all that this login may reach.
    ///
    /// # Errors
    /// A path lies elsewhere, or leads there: the destination, the name of a copy in it, or a journal.
    pub(super) fn of_copy(
        options: &JobOptions,
        names: &Names,
        only: Option<&Path>,
    ) -> Result<Reach, Refusal> {
        let destination = &names.destination;
        let ends = if follows_links(options) { Ends::Followed } else { Ends::Replaced };
        if let Some(only) = only {
            let reach = Reach::of_copy_within(only, names, ends);
            let reach = reach.map_err(|path| Refusal::Outside { path: bytes(path) })?;
            return match journal_outside(options, only, names, ends) {
                Some(path) => Err(Refusal::JournalOutside { path: bytes(path) }),
                None => Ok(reach),
            };
        }
        let mut reach = Reach::writing(of_destination(destination, names.kind, ends));
        let mut bases = vec![destination.clone()];
        if names.is_inside(destination.is_dir()) {
            if ends == Ends::Followed {
                reach.writable.extend(behind_links(names));
            }
        } else {
            // A single file begins beside it.
            bases.push(parent(destination));
        }
        bases.extend_from_slice(&reach.writable);
        if options.resume
            && let Ok(found) = destination.canonicalize()
        {
            // The journal of a tree that is there lies beside it.
            reach.writable.push(parent(&found));
        }
        if let Some(earlier) = &options.link_dest {
            let places = |base: &PathBuf| {
                let given = earlier.directories.iter();
                given.map(|given| LinkDest::path(given, base)).collect::<Vec<_>>()
            };
            reach.linked = bases.iter().flat_map(places).filter(|path| path.is_dir()).collect();
        }
        Ok(reach)
    }

    /// Finds the same for a login that may reach one directory: everything there, and what else the options name is not there
    /// for it.
    ///
    /// # Errors
    /// The path that lies elsewhere, or leads there: the destination, or the name of a copy in it.
    fn of_copy_within(only: &Path, names: &Names, ends: Ends) -> Result<Reach, PathBuf> {
        let destination = &names.destination;
        // With either of these a link is followed.
        let text = destination.as_os_str().as_encoded_bytes();
        let is_below = text.ends_with(b"/") || text.ends_with(b"/.");
        let has_name = beneath(only, destination).is_some_and(|inner| inner.file_name().is_some());
        // Whether a link that leads out is a directory may not show either, so that the name alone must not depend on it.
        let is_name = ends == Ends::Replaced && names.kind == Kind::File && has_name && !is_below;
        let (last, writable) = match is_name {
            true => (LastLink::Named, existing(vec![parent(destination)])),
            false => (LastLink::Followed, of_destination(destination, names.kind, ends)),
        };
        if !is_beneath(only, destination, last, &writable) {
            return Err(destination.clone());
        }
        if ends == Ends::Followed && names.is_inside(destination.is_dir()) {
            let leads_out = |path: &PathBuf| leads_out(only, path, LastLink::Followed);
            if let Some(path) = copies(names).into_iter().find(leads_out) {
                return Err(path);
            }
        }
        Ok(Reach::writing(writable))
    }

    /// Finds what is written to at a destination of any kind, as [`Reach::of_copy`] does. `None`: it lies elsewhere.
    pub(super) fn of_path(destination: &Path, only: Option<&Path>) -> Option<Reach> {
        let writable = of_destination(destination, Kind::Either, Ends::Followed);
        let last = LastLink::Followed;
        let may = only.is_none_or(|only| is_beneath(only, destination, last, &writable));
        may.then(|| Reach::writing(writable))
    }

    fn writing(writable: Vec<PathBuf>) -> Reach {
        Reach { writable, linked: Vec::new() }
    }
}

/// Treatment of a link in the place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The file that it leads to is written.
    Followed,
    /// It is replaced.
    Replaced,
}

/// Whether files are written through links at their names.
fn follows_links(options: &JobOptions) -> bool {
    options.copy.existing != Existing::Remove && options.copy.backup.is_none()
}

/// Whether a destination, by its text, by that of links and by where it really is, lies in the directory that a login is
/// restricted to.
fn is_beneath(only: &Path, destination: &Path, last: LastLink, writable: &[PathBuf]) -> bool {
    let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let is_inside = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path.starts_with(only));
    beneath(only, destination).is_some_and(|inner| inner.components().all(stays))
        && !leads_out(only, destination, last)
        && writable.iter().all(is_inside)
}

/// Returns the path of a destination from a directory on, by its text alone; `None`: it does not lie there.
fn beneath<'a>(only: &Path, destination: &'a Path) -> Option<&'a Path> {
    match destination.is_absolute() {
        true => destination.strip_prefix(only).ok(),
        false => Some(destination),
    }
}

/// Directories beneath which a copy to this destination writes.
fn of_destination(destination: &Path, kind: Kind, ends: Ends) -> Vec<PathBuf> {
    let found = destination.canonicalize();
    existing(match found {
        // Something new, or a link that leads nowhere: it is made beside its name.
        Err(_) => vec![parent(destination)],
        // No copy replaces a directory; -T may replace a link to one.
        Ok(path) if path.is_dir() && !(kind == Kind::File && is_link(destination)) => vec![path],
        Ok(path) if path.is_dir() => vec![parent(destination), path],
        Ok(_) if ends == Ends::Replaced => vec![parent(destination)],
        // It is replaced where it lies, through a link or not.
        Ok(path) => vec![parent(destination), parent(&path), path],
    })
}

/// Returns those that are directories.
fn existing(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter(|path| path.is_dir()).collect()
}

/// Returns the names of the copies in the destination.
fn copies(names: &Names) -> Vec<PathBuf> {
    let pairs = target::pairs(names.clone(), true, Transform::None, |_| true).unwrap_or_default();
    pairs.into_iter().map(|pair| pair.destination).collect()
}

/// Returns the copy that is the directory itself, if its journal is to lie beside it.
fn journal_outside(
    options: &JobOptions,
    only: &Path,
    names: &Names,
    ends: Ends,
) -> Option<PathBuf> {
    let destination = names.destination.clone();
    let copies = match names.is_inside(destination.is_dir()) {
        true => copies(names),
        false => vec![destination],
    };
    let is_replaced = |path: &Path| ends == Ends::Replaced && is_link(path);
    let is_it = |path: &Path| path.canonicalize().is_ok_and(|path| path == only);
    copies.into_iter().find(|path| options.resume && is_it(path) && !is_replaced(path))
}

fn bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_encoded_bytes()
}

/// Directories of the files that links in the destination lead to, where those have the names of copies.
fn behind_links(names: &Names) -> Vec<PathBuf> {
    // As the copy follows it: others may have planted a link.
    let is_file = |path: &Path| follow::metadata(path).is_ok_and(|found| found.is_file());
    copies(names)
        .into_iter()
        .filter(|path| is_link(path) && is_file(path))
        .filter_map(|path| path.canonicalize().ok())
        .map(|path| parent(&path))
        .collect()
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_symlink())
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}
