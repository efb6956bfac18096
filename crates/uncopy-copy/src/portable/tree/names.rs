//! Remembers files with several names, so that the names of one file become names of one file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::portable::identity::{Identified, Identity};

/// Roots of a job, and the copies whose further names may still come.
#[derive(Debug, Default)]
pub(super) struct Names {
    roots: Vec<Root>,
    copies: HashMap<Identity, Copied>,
}

/// Destination of a root.
#[derive(Debug)]
struct Root {
    /// As the caller named it.
    named: PathBuf,
    /// Where it is now. `None`: it was removed.
    actual: Option<PathBuf>,
}

#[derive(Debug)]
struct Copied {
    root: usize,
    /// Path from the root.
    path: PathBuf,
    /// The copy, which a later root may replace.
    copy: Option<Identity>,
    /// Names of the source that may still come.
    left: u64,
}

/// A copy that gets a further name.
#[derive(Debug)]
pub(super) struct First {
    pub(super) named: PathBuf,
    pub(super) actual: PathBuf,
    /// The file that has the name, unless it was replaced.
    pub(super) copy: Option<Identity>,
}

impl Names {
    /// Adds a root, and returns its number.
    pub(super) fn add_root(&mut self, named: &Path) -> usize {
        self.roots.push(Root { named: named.to_owned(), actual: Some(named.to_owned()) });
        self.roots.len() - 1
    }

    /// Notes where a root is now.
    pub(super) fn move_root(&mut self, root: usize, actual: Option<PathBuf>) {
        self.roots[root].actual = actual;
    }

    /// Returns the path that the caller knows, for one in a root that has a temporary name.
    pub(super) fn known(&self, root: usize, path: &Path) -> Option<PathBuf> {
        let Root { named, actual } = &self.roots[root];
        let below = path.strip_prefix(actual.as_ref()?).ok()?;
        Some(join(named, below))
    }

    /// Returns the path of an entry from its root.
    pub(super) fn way<'a>(&self, root: usize, named: &'a Path) -> &'a Path {
        named.strip_prefix(&self.roots[root].named).unwrap_or(named)
    }

    /// Notes that a file was copied to this path, named as the caller knows it, and became `copy`.
    pub(super) fn add(
        &mut self,
        file: Identified,
        root: usize,
        named: &Path,
        copy: Option<Identity>,
    ) {
        if file.names < 2 {
            return;
        }
        let path = self.way(root, named).to_owned();
        let left = file.names - 1;
        self.copies.insert(file.identity, Copied { root, path, copy, left });
    }

    /// Returns the same as [`Names::find`], and counts nothing.
    pub(super) fn peek(&self, file: &Identity) -> Option<First> {
        self.first(self.copies.get(file)?)
    }

    fn first(&self, copied: &Copied) -> Option<First> {
        let Root { named, actual } = &self.roots[copied.root];
        Some(First {
            named: join(named, &copied.path),
            actual: join(actual.as_ref()?, &copied.path),
            copy: copied.copy.clone(),
        })
    }

    /// Returns the copy of a file of which another name was copied.
    pub(super) fn find(&mut self, file: &Identity) -> Option<First> {
        let found = self.peek(file);
        let copied = self.copies.get_mut(file)?;
        copied.left = copied.left.saturating_sub(1);
        if copied.left == 0 {
            self.copies.remove(file);
        }
        found
    }
}

/// Joins paths; an empty one adds no separator.
fn join(above: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { above.to_owned() } else { above.join(below) }
}
