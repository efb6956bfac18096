//! Sorts sources that keep directories of their paths into trees of names. Pure.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

use super::not_below;
use crate::jobs::Parents;
use uncopy_core::Result;

/// Whether a directory that is named is made without its contents where single entries are copied.
pub(super) fn lists_directories(parents: &Parents) -> bool {
    matches!(parents, Parents::KeepBelow(_))
}

/// A pair of directories that names lead down from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Top {
    /// Directory of the source; empty for the current one.
    pub(super) source: PathBuf,
    /// Directory that the caller named, perhaps with `..` behind it.
    pub(super) destination: PathBuf,
    /// Directories below that which earlier names made, and in which no link is followed.
    pub(super) below: Vec<OsString>,
    /// Whether names with `..` led to it.
    pub(super) has_dots: bool,
}

impl Top {
    /// Returns the path of its directory in the destination.
    pub(super) fn path(&self) -> PathBuf {
        self.destination.join(self.below.iter().collect::<PathBuf>())
    }
}

/// A source that the caller named, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GivenSource {
    pub(super) kind: FileType,
    /// Whether a symbolic link in its place is followed.
    pub(super) followed: bool,
}

/// A name that is a source, lies above sources, or both.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) named: Option<GivenSource>,
    pub(super) below: BTreeMap<OsString, Node>,
}

impl Node {
    /// Returns the number of sources at and below it.
    pub(super) fn named_sources(&self) -> u64 {
        let below: u64 = self.below.values().map(Node::named_sources).sum();
        below + u64::from(self.named.is_some())
    }

    fn at(&mut self, names: &[&OsStr]) -> &mut Node {
        names.iter().fold(self, |node, name| node.below.entry((*name).to_owned()).or_default())
    }
}

/// Trees of names, in the order in which they are first needed.
#[derive(Debug, Default)]
pub(super) struct Plan {
    places: HashMap<Top, usize>,
    trees: Vec<(Top, Node)>,
}

impl Plan {
    /// Adds a source and the directory that it is copied below.
    ///
    /// # Errors
    /// The source does not lie below the directory that the options name.
    pub(super) fn add(
        &mut self,
        source: &Path,
        destination: &Path,
        parents: &Parents,
        named: GivenSource,
    ) -> Result<()> {
        let (root, rest) = match parents {
            Parents::KeepBelow(root) => match source.strip_prefix(root) {
                Ok(rest) if !rest.components().any(|part| part == Component::ParentDir) => {
                    (root.clone(), rest)
                }
                _ => return Err(not_below(source)),
            },
            Parents::Keep | Parents::Omit => (PathBuf::new(), source),
        };
        let destination = destination.to_owned();
        let mut top = Top { source: root, destination, below: Vec::new(), has_dots: false };
        let mut names: Vec<&OsStr> = Vec::new();
        for part in rest.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::RootDir => top.source.push("/"),
                Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir if !names.is_empty() => {
                    // The name before it may be a link, which leads elsewhere in the source. In the destination it is
                    // a directory, which must exist.
                    self.tree(&top).at(&names);
                    top.source.extend(&names);
                    names.pop();
                    top.below.extend(names.drain(..).map(OsStr::to_owned));
                    top.source.push("..");
                    top.has_dots = true;
                }
                Component::ParentDir => {
                    top.has_dots = true;
                    top.source.push("..");
                    if top.below.pop().is_none() {
                        top.destination.push("..");
                    }
                }
            }
        }
        // A source that is named again is copied once.
        self.tree(&top).at(&names).named.get_or_insert(named);
        Ok(())
    }

    /// Adds an entry by its path below both directories.
    pub(super) fn add_listed(
        &mut self,
        source: &Path,
        destination: &Path,
        entry: &Path,
        named: GivenSource,
    ) {
        let (source, destination) = (source.to_owned(), destination.to_owned());
        let top = Top { source, destination, below: Vec::new(), has_dots: false };
        let names: Vec<&OsStr> = entry.iter().collect();
        self.tree(&top).at(&names).named.get_or_insert(named);
    }

    pub(super) fn into_trees(self) -> Vec<(Top, Node)> {
        self.trees
    }

    fn tree(&mut self, top: &Top) -> &mut Node {
        let next = self.trees.len();
        let place = *self.places.entry(top.clone()).or_insert(next);
        if place == next {
            self.trees.push((top.clone(), Node::default()));
        }
        &mut self.trees[place].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: GivenSource = GivenSource { kind: FileType::RegularFile, followed: false };

    /// Lists the sources of a plan, each as the path that is opened and the one that is written, and directories that
    /// are made without one.
    fn listed(plan: Plan) -> Vec<String> {
        fn list(node: &Node, from: &Path, to: &Path, found: &mut Vec<String>) {
            if node.named.is_some() || node.below.is_empty() {
                let mark = if node.named.is_some() { "" } else { "/" };
                found.push(format!("{} {}{mark}", from.display(), to.display()));
            }
            for (name, node) in &node.below {
                list(node, &from.join(name), &to.join(name), found);
            }
        }
        let mut found = Vec::new();
        for (top, node) in plan.into_trees() {
            list(&node, &top.source, &top.path(), &mut found);
        }
        found
    }

    #[test]
    fn paths_are_kept_as_cp_keeps_them() {
        for (source, expected) in [
            ("f", &["f d/f"][..]),
            ("a/b/f", &["a/b/f d/a/b/f"]),
            ("./a//b/./f", &["a/b/f d/a/b/f"]),
            ("a/b/", &["a/b d/a/b"]),
            ("/x/f", &["/x/f d/x/f"]),
            ("../x/f", &["../x/f d/../x/f"]),
            ("../../f", &["../../f d/../../f"]),
            (".", &[" d/"]),
            ("/", &["/ d/"]),
            ("a/../b/f", &["a d/a/", "a/../b/f d/b/f"]),
            ("a/b/../f", &["a/b d/a/b/", "a/b/../f d/a/f"]),
            ("a/b/../../f", &["a/b d/a/b/", "a/b/../../f d/f"]),
            ("a/../../f", &["a d/a/", "a/../../f d/../f"]),
        ] {
            let mut plan = Plan::default();
            plan.add(Path::new(source), Path::new("d"), &Parents::Keep, FILE).unwrap();
            assert_eq!(listed(plan), expected, "{source}");
        }
    }

    #[test]
    fn names_stay_below_their_root() {
        let parents = Parents::KeepBelow("s/t".into());
        for (source, expected) in [
            ("s/t/a/f", Some("s/t/a/f d/a/f")),
            ("s//t/./f", Some("s/t/f d/f")),
            ("s/t", Some("s/t d/")),
            ("s/t/../f", None),
            ("s/t/a/../f", None),
            ("s/tt/f", None),
            ("/s/t/f", None),
        ] {
            let mut plan = Plan::default();
            let added = plan.add(Path::new(source), Path::new("d"), &parents, FILE);
            assert_eq!(added.is_ok(), expected.is_some(), "{source}");
            if let Some(expected) = expected {
                assert_eq!(listed(plan), [expected], "{source}");
            }
        }
    }

    #[test]
    fn sources_of_one_directory_are_one_tree() {
        let mut plan = Plan::default();
        for source in ["a/f", "a/b/g", "a/f", "./a/h"] {
            plan.add(Path::new(source), Path::new("d"), &Parents::Keep, FILE).unwrap();
        }
        let trees = plan.into_trees();
        assert_eq!(trees.len(), 1);
        assert_eq!(trees[0].1.named_sources(), 3);
        assert_eq!(trees[0].1.below.len(), 1);
    }
}
