//! Copies the files, links and special files of a unit.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::identity::{is_planned, source_difference};
use super::{AttemptedUnit, Work};
use crate::UnitError;
use crate::format::Entry;
use crate::ledger::Amounts;
use uncopy_copy::guarded::{Guard, GuardedEntries, copy_guarded};
use uncopy_copy::job::{EntryKind, Selection};
use uncopy_core::Objection;
use uncopy_os::file::Stat;

/// Guard of the entries of a unit.
struct UnitGuard<'a> {
    unit: &'a AttemptedUnit<'a>,
    entries: HashMap<&'a Path, &'a Entry>,
    /// Names of each file that has several, by each of them. The plan knows which they are: an inode number alone may be that of
    /// files on several filesystems.
    names: HashMap<&'a Path, Arc<[&'a Path]>>,
}

impl Guard for UnitGuard<'_> {
    fn source_difference(&self, entry: &Path, found: &Stat) -> Option<&'static str> {
        let planned = self.entries.get(entry).and_then(|entry| entry.source.as_ref());
        planned.map_or(Some("name"), |planned| source_difference(planned, found))
    }

    fn expects(&self, entry: &Path, found: Option<&Stat>) -> bool {
        let planned = self.entries.get(entry);
        planned.is_some_and(|entry| is_planned(entry.destination.as_ref(), found))
    }

    fn expected_size(&self, entry: &Path) -> Option<u64> {
        self.entries.get(entry).and_then(|entry| entry.source.as_ref()).map(|source| source.size)
    }

    fn other_names(&self, entry: &Path) -> Vec<PathBuf> {
        let names = self.names.get(entry).map_or(&[][..], |names| names);
        let others = names.iter().filter(|name| **name != entry);
        others.map(|name| (*name).to_owned()).collect()
    }

    fn maker(&self) -> Option<u32> {
        self.unit.ledger.maker(self.unit.unit.header.unit)
    }

    fn give_name(&self, act: &mut dyn FnMut()) -> Result<(), Objection> {
        self.unit.commits.give_name(act)
    }
}

/// Returns the names of each file that has several in a unit, by each of them (pure).
fn names_of_files(entries: &[Entry]) -> HashMap<&Path, Arc<[&Path]>> {
    let mut files: BTreeMap<u64, Vec<&Path>> = BTreeMap::new();
    for (index, entry) in (0..).zip(entries) {
        files.entry(entry.with.unwrap_or(index)).or_default().push(entry.path.as_path());
    }
    let several = files.into_values().filter(|names| names.len() > 1);
    let by_each = |names: Vec<_>| {
        let names: Arc<[&Path]> = names.into();
        (0..names.len()).map(move |at| (names[at], Arc::clone(&names)))
    };
    several.flat_map(by_each).collect()
}

impl AttemptedUnit<'_> {
    /// Copies all entries. Those whose destination is not as planned are tried once more: an earlier attempt of the unit may
    /// have made one between two looks.
    pub(super) fn copy_files(&self, entries: &[Entry]) -> Result<Work, UnitError> {
        let by_path = entries.iter().map(|entry| (entry.path.as_path(), entry)).collect();
        let guard = UnitGuard { unit: self, entries: by_path, names: names_of_files(entries) };
        let listed = |entry: &Entry| (entry.path.as_path().to_owned(), entry.kind.into());
        let mut listed: Vec<(PathBuf, EntryKind)> = entries.iter().map(listed).collect();
        let mut work = Work::default();
        self.failures.set_doubtful_aside();
        self.copy_listed(&listed, &guard, &mut work);
        let doubtful = self.failures.take_doubtful();
        if !doubtful.is_empty() {
            listed.retain(|(path, _)| doubtful.contains(path));
            self.copy_listed(&listed, &guard, &mut work);
        }
        // A question that was not answered is no answer.
        self.roots.source.check_connected()?;
        let (entries, bytes) = (entries.len() as u64, self.unit.bytes);
        work.done = Amounts { entries, bytes, deleted: 0 };
        Ok(work)
    }

    fn copy_listed(
        &self,
        entries: &[(PathBuf, EntryKind)],
        guard: &UnitGuard<'_>,
        work: &mut Work,
    ) {
        let header = &self.unit.header;
        let (source, destination) = (header.source.as_path(), header.destination.as_path());
        let root = &self.roots.source;
        let listed = GuardedEntries { root, source, destination, entries, guard };
        // The plan has selected the entries; deletions are for the last unit.
        let options = self
            .options
            .clone()
            .delete(None)
            .selection(Selection::default())
            .one_filesystem(false)
            .scan_ahead(false);
        match copy_guarded(listed, &options, self.failures) {
            Ok(summary) => work.add(summary),
            Err(ended) => {
                let (summary, cause) = ended.into_parts();
                work.add(summary);
                if !self.failures.is_overtaken() {
                    self.failures.add_end(&cause);
                }
            }
        }
    }
}

impl Work {
    /// Adds the summary of a job: that of the second one has few files.
    fn add(&mut self, summary: uncopy_copy::job::Summary) {
        if self.summary.portions.is_empty() && self.summary.refusals.is_empty() {
            self.summary = summary;
        }
    }
}
