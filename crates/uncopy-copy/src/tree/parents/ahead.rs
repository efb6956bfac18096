//! Groups named entries for another machine, which is asked for some of them at a time before they are copied. Pure.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::plan::Node;
use crate::peer::PeerNames;

/// Length of the entries of a group, so that they come in one answer (`docs/protocol.md`, a page).
const GROUP_BYTES: u64 = 224 << 10;
/// Maximum number of entries of a group, and of directories that lead to it.
const GROUP_NAMES: usize = 512;
/// Length that is counted for an entry beside its name and contents: a status, and some attributes.
const ENTRY_BYTES: u64 = 256;

/// Maximum number of directories that lead to entries that are asked for ahead.
pub(super) const MAX_WAY: usize = 512;

/// Returns the names of all entries that are no directories, in the order in which they are copied: those of a directory,
/// and then what lies below it. `size_of`: length of a file, if it is known. `contents_up_to`: maximum length of files
/// whose contents come too.
pub(super) fn groups(
    root: &Node,
    contents_up_to: u32,
    size_of: &dyn Fn(&Path) -> Option<u64>,
) -> Vec<PeerNames> {
    let mut groups = Groups { made: Vec::new(), contents_up_to, size_of };
    groups.add(root, &mut Vec::new());
    groups.made
}

struct Groups<'a> {
    made: Vec<PeerNames>,
    contents_up_to: u32,
    size_of: &'a dyn Fn(&Path) -> Option<u64>,
}

impl Groups<'_> {
    fn add(&mut self, directory: &Node, way: &mut Vec<OsString>) {
        if way.len() > MAX_WAY {
            return;
        }
        let path: PathBuf = way.iter().collect();
        let (mut names, mut bytes) = (Vec::new(), 0);
        for (name, _) in directory.below.iter().filter(|(_, node)| is_asked_for(node)) {
            let own = self.bytes_of(&path, name);
            if bytes + own > GROUP_BYTES || names.len() == GROUP_NAMES {
                self.end(way, &mut names);
                bytes = 0;
            }
            bytes += own;
            names.push(name.clone());
        }
        self.end(way, &mut names);
        for (name, node) in &directory.below {
            way.push(name.clone());
            self.add(node, way);
            way.pop();
        }
    }

    fn end(&mut self, way: &[OsString], names: &mut Vec<OsString>) {
        if !names.is_empty() {
            self.made.push(PeerNames { way: way.to_vec(), names: std::mem::take(names) });
        }
    }

    fn bytes_of(&self, directory: &Path, name: &OsStr) -> u64 {
        let contents = match self.contents_up_to {
            0 => 0,
            limit => (self.size_of)(&directory.join(name))
                .filter(|size| *size <= limit.into())
                .unwrap_or(0),
        };
        ENTRY_BYTES + name.len() as u64 + contents
    }
}

/// Whether an entry is asked for by its name: it is named, and no directory.
pub(super) fn is_asked_for(node: &Node) -> bool {
    let is_other = |kind| kind != FileType::Directory;
    node.named.is_some_and(|named| !named.followed && is_other(named.kind))
}

#[cfg(test)]
mod tests {
    use super::super::plan::{GivenSource, Plan};
    use super::*;

    fn root_of(entries: &[(&str, FileType)]) -> Node {
        let mut plan = Plan::default();
        for (entry, kind) in entries {
            let named = GivenSource { kind: *kind, followed: false };
            plan.add_listed(Path::new("s"), Path::new("d"), Path::new(entry), named);
        }
        plan.into_trees().pop().map(|(_, root)| root).unwrap_or_default()
    }

    fn shown(groups: &[PeerNames]) -> Vec<String> {
        let text = |names: &[OsString]| -> Vec<String> {
            names.iter().map(|name| name.to_string_lossy().into_owned()).collect()
        };
        groups
            .iter()
            .map(|g| format!("{}: {}", text(&g.way).join("/"), text(&g.names).join(" ")))
            .collect()
    }

    #[test]
    fn entries_come_in_the_order_in_which_they_are_copied() {
        let (file, link) = (FileType::RegularFile, FileType::Symlink);
        let root = root_of(&[
            ("z", file),
            ("b/c/x", link),
            ("b/z", file),
            ("a", file),
            ("e", FileType::Directory),
            ("e/f/g", file),
        ]);
        let groups = groups(&root, 100, &|_| None);
        assert_eq!(shown(&groups), [": a z", "b: z", "b/c: x", "e/f: g"]);
    }

    #[test]
    fn a_group_comes_in_one_answer() {
        let names: Vec<String> = (0..2000).map(|number| format!("{number:04}")).collect();
        let entries: Vec<(&str, FileType)> =
            names.iter().map(|name| (name.as_str(), FileType::RegularFile)).collect();
        let root = root_of(&entries);
        let lengths = |size: u64, contents_up_to: u32| -> Vec<usize> {
            groups(&root, contents_up_to, &|_| Some(size))
                .iter()
                .map(|group| group.names.len())
                .collect()
        };
        let (small, whole) = (lengths(4096, 64 << 10), lengths(64 << 10, 64 << 10));
        assert_eq!((small[0], whole[0]), (52, 3));
        for without_contents in [lengths(1 << 40, 64 << 10), lengths(4096, 0)] {
            assert_eq!(without_contents, [512, 512, 512, 464]);
        }
        for lengths in [small, whole] {
            assert_eq!(lengths.iter().sum::<usize>(), 2000);
        }
    }
}
