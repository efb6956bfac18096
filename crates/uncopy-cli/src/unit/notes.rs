//! Notes about the copies of units: which of their entries lack something, as records keep it and people read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uncopy::copy::job::EntryOutcome;
use uncopy::unit::format::RelativePath;
use uncopy::{InodeFlags, Note};

use crate::report::{self, flags_not_kept, printable};

/// Key of a receipt.
const KEY: &str = "counted_notes";

/// Code of inode flags that copies do not have.
const FLAGS_NOT_KEPT: &str = "flags_not_kept";

/// Whether there is a note about a copy.
pub(super) fn has_notes(outcome: &EntryOutcome) -> bool {
    let (notes, flags) = notes_of(outcome);
    !notes.is_empty() || !flags.is_empty()
}

fn notes_of(outcome: &EntryOutcome) -> (&[Note], InodeFlags) {
    match outcome {
        EntryOutcome::Copied(receipt) => (&receipt.notes, receipt.flags_not_kept),
        EntryOutcome::Made { notes, flags_not_kept } => (notes, *flags_not_kept),
        _ => (&[], InodeFlags::default()),
    }
}

/// Entries with a note of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NoteCount {
    /// Stable name.
    pub(super) code: String,
    /// Number of entries.
    pub(super) entries: u64,
    /// One of them.
    pub(super) path: RelativePath,
    /// Text for people about that one.
    pub(super) message: String,
}

/// Notes, by their codes.
#[derive(Debug, Default)]
pub(super) struct NoteCounts(BTreeMap<String, NoteCount>);

impl NoteCounts {
    /// Adds those of a copy.
    pub(super) fn add(&mut self, path: &RelativePath, outcome: &EntryOutcome) {
        let (notes, flags) = notes_of(outcome);
        for note in notes {
            self.count(note.code(), path, || report::note(note));
        }
        if !flags.is_empty() {
            self.count(FLAGS_NOT_KEPT, path, || flags_not_kept(flags));
        }
    }

    fn count(&mut self, code: &str, path: &RelativePath, message: impl FnOnce() -> String) {
        match self.0.get_mut(code) {
            Some(known) => known.entries += 1,
            None => {
                let (code, path) = (code.to_owned(), path.clone());
                self.merge(NoteCount { code, entries: 1, path, message: message() });
            }
        }
    }

    fn merge(&mut self, count: NoteCount) {
        self.0
            .entry(count.code.clone())
            .and_modify(|known| known.entries = known.entries.saturating_add(count.entries))
            .or_insert(count);
    }

    /// Adds those that the receipt of a record has.
    pub(super) fn add_recorded(&mut self, receipt: &Value) {
        let recorded = receipt.get(KEY).map(Vec::<NoteCount>::deserialize);
        recorded.into_iter().flatten().flatten().for_each(|count| self.merge(count));
    }

    /// Puts them into the receipt of a record, if there are any.
    pub(super) fn put_into(&self, receipt: &mut serde_json::Map<String, Value>) {
        if let Ok(notes) = serde_json::to_value(self.counts().collect::<Vec<_>>())
            && !self.0.is_empty()
        {
            receipt.insert(KEY.to_owned(), notes);
        }
    }

    /// Returns them, by their codes.
    pub(super) fn counts(&self) -> impl Iterator<Item = &NoteCount> {
        self.0.values()
    }

    /// Describes them, a line each.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.counts().map(|NoteCount { entries, path, message, .. }| {
            let others = match entries {
                0 | 1 => String::new(),
                2 => " and another entry".to_owned(),
                more => format!(" and {} other entries", more - 1),
            };
            format!("note: {}{others}: {}", printable(&path.to_string()), printable(message))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uncopy::{Errno, MetadataPart};

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text).unwrap()
    }

    fn made(notes: Vec<Note>) -> EntryOutcome {
        EntryOutcome::Made { notes, flags_not_kept: InodeFlags::default() }
    }

    fn owner() -> Note {
        Note::NotKept { what: MetadataPart::Owner, errno: Errno::EPERM }
    }

    #[test]
    fn notes_are_counted_by_their_kind_over_units() {
        let mut first = NoteCounts::default();
        first.add(&path("a"), &made(vec![owner(), Note::SetuidDropped]));
        first.add(&path("b"), &made(vec![owner()]));
        first.add(&path("d"), &made(vec![]));
        let mut receipt = serde_json::Map::new();
        first.put_into(&mut receipt);
        let mut all = NoteCounts::default();
        for _ in 0..2 {
            all.add_recorded(&Value::Object(receipt.clone()));
        }
        // Those of other versions and of somebody else say nothing.
        for other in [
            json!({}),
            json!({ "counted_notes": 7 }),
            json!({ "counted_notes": [{}] }),
            json!(null),
        ] {
            all.add_recorded(&other);
        }
        let lines: Vec<String> = all.lines().collect();
        assert_eq!(
            lines,
            [
                "note: a and 3 other entries: the owner could not be kept (EPERM)",
                "note: a and another entry: setuid and setgid were dropped: the owner is another",
            ]
        );
        let mut none = serde_json::Map::new();
        NoteCounts::default().put_into(&mut none);
        assert!(none.is_empty());
    }
}
