//! Finds names of the source that the destination treats as one, as `Foo` and `foo` where case is
//! folded. The second would replace the copy just made under the first.
//!
//! Names that may be folded are tried out in a temporary directory: only the filesystem knows what
//! it folds.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::FileType;

use super::context::Context;
use super::directory::{Directory, Open};
use super::folding::{Folding, folding, list};
use super::reporter::Reporter;
use super::workshop::Workshop;
use crate::jobs::{EntryKind, Links};
use crate::source_directory::SourceDirectory;
use uncopy_core::{Errno, Error};
use uncopy_os::{Sys, directory, name};

/// A place where names can be tried out.
trait Trial {
    /// Creates a name. Returns `false` if it exists, in whatever spelling.
    fn take(&mut self, name: &OsStr) -> Sys<bool>;

    /// Whether a name is taken.
    fn is_taken(&self, name: &OsStr) -> bool;
}

/// A listing that can be repeated.
type List<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&OsStr)) -> Sys<()>;

/// Returns the names of a source whose destination entry belongs to another name: the one spelled
/// as in the destination, else the first listed.
fn doubled<T: Trial>(
    source: List<'_>,
    destination: List<'_>,
    trial: impl FnOnce() -> Sys<T>,
) -> Sys<HashSet<OsString>> {
    let digest = RandomState::new();
    let key = |name: &OsStr| {
        let end = name.as_bytes().iter().rposition(|byte| !matches!(byte, b'.' | b' '));
        let bytes = &name.as_bytes()[..end.map_or(0, |last| last + 1)];
        digest.hash_one(bytes.to_ascii_lowercase())
    };
    // Names of ASCII are alike only if they differ in case, and in dots and blanks at their end.
    let mut keys: HashMap<u64, bool> = HashMap::new();
    let mut has_others = false;
    source(&mut |name| match name.is_ascii() {
        true => drop(keys.entry(key(name)).and_modify(|again| *again = true).or_insert(false)),
        false => has_others = true,
    })?;
    let is_suspect =
        |name: &OsStr| !name.is_ascii() || keys.get(&key(name)).copied().unwrap_or(false);
    if !has_others && !keys.values().any(|again| *again) {
        return Ok(HashSet::new());
    }
    let mut suspects: Vec<OsString> = Vec::new();
    source(&mut |name| {
        if is_suspect(name) {
            suspects.push(name.to_owned());
        }
    })?;
    let mut written: HashSet<OsString> = HashSet::new();
    destination(&mut |name| {
        if !name.is_ascii() || keys.contains_key(&key(name)) {
            written.insert(name.to_owned());
        }
    })?;
    suspects.sort_by_key(|name| !written.contains(name));
    let (mut trial, mut doubled) = (trial()?, HashSet::new());
    for name in suspects {
        if !trial.take(&name)? {
            doubled.insert(name);
        }
    }
    if has_others {
        source(&mut |name| {
            if !is_suspect(name) && trial.is_taken(name) {
                doubled.insert(name.to_owned());
            }
        })?;
    }
    Ok(doubled)
}

/// A temporary directory inside the destination, removed with its contents.
struct Place {
    workshop: Workshop,
}

impl Trial for Place {
    fn take(&mut self, name: &OsStr) -> Sys<bool> {
        match name::create_new(self.workshop.opened(), name, 0o600) {
            Err(Errno::EEXIST) => Ok(false),
            // No entry can have this name: copying it fails and is reported.
            Ok(_) | Err(Errno::EINVAL | Errno::ENAMETOOLONG) => Ok(true),
            Err(errno) => Err(errno),
        }
    }

    fn is_taken(&self, name: &OsStr) -> bool {
        directory::stat_name(self.workshop.opened(), name).is_ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A directory that stays is noted, and the next run removes it.
        let _ = self.workshop.empty();
    }
}

/// Finds the names of a directory's source that its destination treats as another one of them. In a
/// directory that this job makes every name is new, and a second one fails anyway.
pub(super) fn find_doubled(
    context: &Context<'_>,
    reporter: &mut Reporter<'_>,
    directory: &Arc<Directory>,
    open: &Arc<Open>,
) {
    let (options, entered) = (context.options(), &directory.entered);
    let is_spared = entered.fresh || entered.absent || options.dry_run;
    if is_spared || folding(open) != Folding::Yes {
        return;
    }
    let way = directory.path_from_root();
    let is_copied = |name: &OsStr, kind: FileType| {
        let is_left_out = match kind {
            FileType::Symlink => options.links == Links::Skip,
            FileType::Directory | FileType::RegularFile | FileType::Unknown => false,
            _ => !options.specials,
        };
        !is_left_out && context.selects(&way.join(name), kind == FileType::Directory)
    };
    let mut source = |visit: &mut dyn FnMut(&OsStr)| {
        let mut visit_copied = |name: &OsStr, kind: FileType| {
            if is_copied(name, kind) {
                visit(name);
            }
        };
        match &open.source {
            SourceDirectory::Here(source) => list(source, visit_copied),
            SourceDirectory::There(source) => {
                source.peek_all(|entry| visit_copied(&entry.name, entry.stat.file_type()))
            }
        }
    };
    let mut destination =
        |visit: &mut dyn FnMut(&OsStr)| list(&*open.destination, |name, _| visit(name));
    let trial = || Workshop::in_directory(directory, open).map(|workshop| Place { workshop });
    match doubled(&mut source, &mut destination, trial) {
        Ok(found) => directory.set_doubled(found),
        // If no entry can be made, none is replaced either.
        Err(Errno::EACCES | Errno::EPERM | Errno::EROFS) => {}
        Err(errno) => {
            let path = directory.destination_path();
            let error = Error::destination("try out names in", path, errno);
            reporter.fail_at(|| directory.names(), EntryKind::Directory, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folds case, and dots at the end.
    #[derive(Default)]
    struct Fake(HashSet<String>);

    fn folded(name: &OsStr) -> String {
        let name = name.to_string_lossy();
        // The sign of kelvins is a letter of ASCII in lower case.
        name.trim_end_matches('.').to_lowercase()
    }

    impl Trial for Fake {
        fn take(&mut self, name: &OsStr) -> Sys<bool> {
            Ok(self.0.insert(folded(name)))
        }

        fn is_taken(&self, name: &OsStr) -> bool {
            self.0.contains(&folded(name))
        }
    }

    #[test]
    fn the_other_names_of_an_entry_are_found() {
        type Row =
            (&'static [&'static str], &'static [&'static str], &'static [&'static str], bool);
        const ROWS: [Row; 12] = [
            (&[], &[], &[], false),
            (&["a", "b", "c.", "A1"], &["B"], &[], false),
            (&["Foo", "x", "foo"], &[], &["foo"], true),
            (&["Foo", "x", "foo"], &["foo"], &["Foo"], true),
            (&["Foo", "x", "foo"], &["FOO"], &["foo"], true),
            (&["Foo", "foo", "FOO"], &["a", "FOO"], &["foo", "Foo"], true),
            (&["foo.", "foo"], &["foo"], &["foo."], true),
            // They are compared, and differ.
            (&["foo ", "foo"], &[], &[], true),
            (&["é", "É", "e"], &["É"], &["é"], true),
            (&["k", "\u{212a}"], &["k"], &["k"], true),
            (&["é", "k", "K"], &[], &["K"], true),
            (&[".", "x"], &["X"], &[], false),
        ];
        for (source, destination, expected, is_tried) in ROWS {
            let mut tried = false;
            let list = |names: &'static [&str]| {
                move |visit: &mut dyn FnMut(&OsStr)| {
                    names.iter().for_each(|name| visit(OsStr::new(name)));
                    Ok(())
                }
            };
            let trial = || {
                tried = true;
                Ok(Fake::default())
            };
            let found = doubled(&mut list(source), &mut list(destination), trial).unwrap();
            let expected: HashSet<OsString> = expected.iter().map(OsString::from).collect();
            assert_eq!(found, expected, "{source:?} {destination:?}");
            assert_eq!(tried, is_tried, "{source:?}");
        }
    }
}
