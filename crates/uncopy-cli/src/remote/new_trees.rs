//! Counts what another machine has put into new trees that have not got their names (pure).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};
use uncopy::copy::job::{EntryKind, EntryOutcome, Record, Summary};
use uncopy::{Mechanism, Portion};

use crate::audit::cost_named;

/// Trees that get their names when they are whole, by their destinations as events show them.
#[derive(Debug, Default)]
pub(super) struct NewTrees {
    trees: BTreeMap<String, NewTree>,
    /// Maximum number of them.
    limit: usize,
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
    /// Takes this number of trees, and ignores others.
    pub(super) fn with_limit(limit: usize) -> NewTrees {
        NewTrees { limit, ..NewTrees::default() }
    }

    /// Takes a tree that is going to be made.
    pub(super) fn begin(&mut self, source: PathBuf, destination: PathBuf) {
        if self.trees.len() < self.limit {
            let key = destination.to_string_lossy().trim_end_matches('/').to_owned();
            self.trees.insert(key, NewTree { source, destination, made: Summary::default() });
        }
    }

    /// Takes the event of an entry.
    pub(super) fn entry(&mut self, event: &Map<String, Value>) {
        self.entries += 1;
        let destination = event.get("destination").and_then(Value::as_str).unwrap_or_default();
        let destination = destination.trim_end_matches('/');
        // The tree has its name, or was removed again.
        self.trees.remove(destination);
        let above = destination.match_indices('/').map(|(end, _)| &destination[..end]);
        for directory in above {
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
    use serde_json::json;

    use super::*;

    fn event(event: &str, entry: &str, destination: &str) -> Map<String, Value> {
        let portions = json!([{"name": "read_write", "bytes": 3, "cost": "user_copied"}]);
        let all = json!({"event": event, "entry": entry, "destination": destination, "bytes": 3,
            "mechanisms": portions});
        all.as_object().unwrap().clone()
    }

    #[test]
    fn what_has_no_name_is_lost() {
        let mut trees = NewTrees::with_limit(3);
        for name in ["whole", "lost/", "lost-too", "one too many"] {
            trees.begin("s".into(), format!("far:/{name}").into());
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
        let mut trees = NewTrees::with_limit(1);
        trees.begin("s".into(), "far:t".into());
        trees.entry(&event("copied", "file", "far:t/a"));
        trees.entry(&event("discarded", "directory", "far:t"));
        assert!(trees.take_lost().is_empty());
    }
}
