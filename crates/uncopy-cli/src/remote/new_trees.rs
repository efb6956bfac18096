//! Counts what another machine has put into new trees that have not got their names (pure).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use uncopy::copy::job::{EntryKind, EntryOutcome, Record, Summary};
use uncopy::{Mechanism, Portion};

use crate::audit::cost_named;

/// Longest destination that is taken: a path of the system, behind the name of a machine.
const MAX_DESTINATION_BYTES: usize = 2 * 4096;

/// Trees that get their names when they are whole, by their destinations.
#[derive(Debug, Default)]
pub(super) struct NewTrees {
    trees: BTreeMap<Vec<u8>, NewTree>,
    /// Sources that no tree was taken of so far.
    sources: BTreeSet<PathBuf>,
    entries: u64,
}

#[derive(Debug)]
struct NewTree {
    source: PathBuf,
    destination: PathBuf,
    /// Counts of its entries so far.
    made: Summary,
}

impl NewTrees {
    /// Takes a tree of each of these directories, and ignores others: the other machine may name any.
    pub(super) fn of(sources: impl IntoIterator<Item = PathBuf>) -> NewTrees {
        NewTrees { sources: sources.into_iter().collect(), ..NewTrees::default() }
    }

    /// Takes a tree that is going to be made.
    pub(super) fn begin(&mut self, source: PathBuf, destination: PathBuf) {
        let key = bytes(&destination);
        if key.len() <= MAX_DESTINATION_BYTES && self.sources.remove(&source) {
            let key = without_slashes(key).to_owned();
            self.trees.insert(key, NewTree { source, destination, made: Summary::default() });
        }
    }

    /// Takes the event of an entry.
    pub(super) fn entry(&mut self, event: &Map<String, Value>) {
        self.entries += 1;
        let destination = destination_of(event);
        let destination = without_slashes(&destination);
        // An error of a tree that goes on may be reported before.
        if has_ended(event) {
            self.trees.remove(destination);
        }
        let slashes = (0..destination.len()).filter(|at| destination[*at] == b'/');
        for directory in slashes.map(|end| &destination[..end]) {
            if let Some(tree) = self.trees.get_mut(directory) {
                tree.add(event);
            }
        }
    }

    /// Takes out the trees that have no names, as records of trees that are gone.
    pub(super) fn take_lost(&mut self) -> Vec<Record> {
        let lost = std::mem::take(&mut self.trees).into_values().map(|tree| {
            self.entries += 1;
            let outcome = EntryOutcome::Discarded { lost: Box::new(tree.made) };
            let kind = EntryKind::Directory;
            Record::new(self.entries, kind, tree.source, tree.destination, outcome)
        });
        lost.collect()
    }
}

/// Returns the bytes of the destination, whose text is not all of a name that is not UTF-8.
fn destination_of(event: &Map<String, Value>) -> Cow<'_, [u8]> {
    let text = |key: &str| event.get(key).and_then(Value::as_str);
    match text("destination_base64").and_then(|encoded| STANDARD.decode(encoded).ok()) {
        Some(bytes) => Cow::Owned(bytes),
        None => Cow::Borrowed(text("destination").unwrap_or_default().as_bytes()),
    }
}

/// Whether a tree has its name after this event of it, was removed again, or is none.
fn has_ended(event: &Map<String, Value>) -> bool {
    let name = event.get("event").and_then(Value::as_str);
    matches!(name, Some("made" | "discarded" | "copied" | "linked" | "skipped"))
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let last = path.iter().rposition(|byte| *byte != b'/');
    &path[..last.map_or(0, |last| last + 1)]
}

impl NewTree {
    fn add(&mut self, event: &Map<String, Value>) {
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let made = &mut self.made;
        let counter = match (text("event"), text("entry")) {
            (Some("copied"), _) => &mut made.files,
            (Some("linked"), _) => &mut made.hard_links,
            (Some("made"), Some("directory")) => &mut made.directories,
            (Some("made"), Some("symlink")) => &mut made.symlinks,
            (Some("made"), _) => &mut made.specials,
            _ => return,
        };
        *counter += 1;
        if text("event") != Some("copied") {
            return;
        }
        let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
        made.bytes = made.bytes.saturating_add(number(event.get("bytes")));
        for portion in event.get("mechanisms").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| portion[key].as_str();
            let mechanism = Mechanism::ALL.into_iter().find(|it| Some(it.name()) == text("name"));
            let (Some(mechanism), Some(cost)) = (mechanism, text("cost").and_then(cost_named))
            else {
                continue;
            };
            let bytes = number(portion.get("bytes"));
            let is_same = |it: &&mut Portion| it.mechanism == mechanism && it.cost == cost;
            match made.portions.iter_mut().find(is_same) {
                Some(known) => known.bytes = known.bytes.saturating_add(bytes),
                None => made.portions.push(Portion { mechanism, bytes, cost }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use serde_json::json;
    use uncopy::copy::json::base64_name;

    use super::*;

    fn event(event: &str, entry: &str, destination: &str) -> Map<String, Value> {
        let portions = json!([{"name": "read_write", "bytes": 3, "cost": "user_copied"}]);
        let all = json!({"event": event, "entry": entry, "destination": destination, "bytes": 3,
            "mechanisms": portions});
        all.as_object().unwrap().clone()
    }

    /// Trees of sources with these names.
    fn trees(names: &[&str]) -> NewTrees {
        NewTrees::of(names.iter().map(PathBuf::from))
    }

    fn lost_bytes(trees: &mut NewTrees) -> Vec<u64> {
        let bytes = |record: Record| match record.outcome {
            EntryOutcome::Discarded { lost } => lost.bytes,
            other => panic!("{other:?}"),
        };
        trees.take_lost().into_iter().map(bytes).collect()
    }

    #[test]
    fn what_has_no_name_is_lost() {
        let mut trees = trees(&["1", "2", "3"]);
        let begun = ["whole", "lost/", "lost-too", "one too many"];
        for (source, name) in ["1", "2", "3", "3"].into_iter().zip(begun) {
            trees.begin(source.into(), format!("far:/{name}").into());
        }
        for (what, entry, name) in [
            ("copied", "file", "whole/a"),
            ("made", "directory", "whole"),
            ("copied", "file", "lost/a"),
            ("copied", "file", "lost/d/b"),
            ("made", "directory", "lost/d"),
            ("made", "symlink", "lost/l"),
            ("made", "special", "lost/f"),
            ("linked", "file", "lost/h"),
            ("failed", "file", "lost/x"),
            ("copied", "file", "lost-and-found/a"),
            ("copied", "file", "beside"),
        ] {
            trees.entry(&event(what, entry, &format!("far:/{name}")));
        }
        let lost = trees.take_lost();
        let names: Vec<_> = lost.iter().map(|it| it.destination.to_str().unwrap()).collect();
        assert_eq!(names, ["far:/lost/", "far:/lost-too"]);
        let made = |record: &Record| match &record.outcome {
            EntryOutcome::Discarded { lost } => lost.clone(),
            other => panic!("{other:?}"),
        };
        let found = made(&lost[0]);
        let counts = [found.files, found.directories, found.symlinks, found.specials];
        assert_eq!((counts, found.hard_links, found.bytes), ([2, 1, 1, 1], 1, 6));
        assert_eq!((found.portions.len(), found.portions[0].bytes), (1, 6));
        assert_eq!((made(&lost[1]).made_entries(), lost[0].sequence), (0, 12));
        assert!(trees.take_lost().is_empty());
    }

    #[test]
    fn a_tree_that_was_removed_there_is_not_removed_twice() {
        let mut trees = trees(&["s"]);
        trees.begin("s".into(), "far:t".into());
        trees.entry(&event("copied", "file", "far:t/a"));
        trees.entry(&event("discarded", "directory", "far:t"));
        assert!(trees.take_lost().is_empty());
    }

    #[test]
    fn a_tree_is_followed_until_it_has_ended() {
        for (name, is_lost) in [
            ("failed", true),
            ("made", false),
            ("discarded", false),
            ("copied", false),
            ("linked", false),
            ("skipped", false),
        ] {
            let mut trees = trees(&["s"]);
            trees.begin("s".into(), "far:t".into());
            trees.entry(&event("copied", "file", "far:t/a"));
            trees.entry(&event(name, "directory", "far:t"));
            trees.entry(&event("copied", "file", "far:t/b"));
            let expected: &[u64] = if is_lost { &[6] } else { &[] };
            assert_eq!(lost_bytes(&mut trees), expected, "{name}");
        }
    }

    /// Their texts are the same.
    #[test]
    fn names_that_are_no_text_are_kept_apart() {
        let mut trees = trees(&["1", "2"]);
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        trees.begin("1".into(), path(b"far:\xfe"));
        trees.begin("2".into(), path(b"far:\xff/"));
        for (name, entry, destination) in [
            ("copied", "file", &b"far:\xfe/a"[..]),
            ("made", "directory", b"far:\xfe"),
            ("copied", "file", b"far:\xff/a"),
            ("copied", "file", b"far:\xff/\xfe/b"),
        ] {
            let destination = path(destination);
            let mut event = event(name, entry, &destination.to_string_lossy());
            event.insert("destination_base64".into(), base64_name(&destination).into());
            trees.entry(&event);
        }
        assert_eq!(lost_bytes(&mut trees), [6]);
    }

    #[test]
    fn what_the_copy_does_not_name_takes_no_memory() {
        let mut trees = trees(&["s", "t"]);
        let long = "x".repeat(MAX_DESTINATION_BYTES + 1);
        for (source, destination) in [("other", "far:a"), (&long, "far:b"), ("s", &long)] {
            trees.begin(source.into(), destination.into());
            assert!(trees.trees.is_empty());
        }
        trees.begin("t".into(), PathBuf::from(&long[1..]));
        assert_eq!(trees.trees.len(), 1);
    }
}
