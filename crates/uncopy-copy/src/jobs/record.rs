//! Defines records of entries, progress, and the summary of a job.

use std::mem::take;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Consent, Control, Skip};
use uncopy_core::{
    CompressionAction, Cost, InodeFlags, Leftovers, Mechanism, Note, Portion, Receipt, Refusal,
    RefusalReason,
};
use uncopy_core::{Errno, Error, Reason};

/// Kind of an entry in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device file.
    Special,
}

impl EntryKind {
    /// The name in records: `file`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Symlink => "symlink",
            EntryKind::Special => "special",
        }
    }
}

/// Record of one finished entry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Record {
    /// Sequence number from 1, in the order of completion. No number is missing.
    pub sequence: u64,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Source path; begins as the caller named its root.
    pub source: PathBuf,
    /// Destination path.
    pub destination: PathBuf,
    /// Result.
    pub outcome: EntryOutcome,
}

impl Record {
    /// Makes a record of an entry that no job of this crate has finished: a part of a unit of work, for example.
    #[must_use]
    pub fn new(
        sequence: u64,
        kind: EntryKind,
        source: PathBuf,
        destination: PathBuf,
        outcome: EntryOutcome,
    ) -> Record {
        Record { sequence, kind, source, destination, outcome }
    }
}

/// Result of one entry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EntryOutcome {
    /// A file was copied.
    Copied(Box<Receipt>),
    /// A name is a hard link to a file that this job copied before, with
    /// [`JobOptions::link`](super::JobOptions::link) to the source's, or with
    /// [`JobOptions::link_dest`](super::JobOptions::link_dest) to the unchanged one of an earlier copy.
    Linked {
        /// The path of that file.
        to: PathBuf,
    },
    /// A directory, symbolic link, FIFO, socket or device file was made, or a directory was there.
    Made {
        /// Notes for people: metadata that could not be kept.
        notes: Vec<Note>,
        /// Inode flags that the source has and a directory here has not.
        flags_not_kept: InodeFlags,
    },
    /// Skipped.
    Skipped {
        /// Reason.
        reason: Skip,
    },
    /// Removed: it was in the destination and not in the source.
    Deleted {
        /// Number of entries removed: a directory with all its contents.
        entries: u64,
    },
    /// Planned by a dry run ([`JobOptions::dry_run`](super::JobOptions::dry_run)).
    Planned {
        /// Planned action.
        action: Action,
        /// Expected mechanism of a file, as far as it is known without writing.
        mechanism: Option<Mechanism>,
    },
    /// Copied by the earlier run that this one resumes; neither side has changed since.
    Resumed,
    /// A new tree did not get its name, because it could not be finished, and was removed again. What earlier records say
    /// was copied to it or made in it is gone.
    Discarded {
        /// Counts of the entries that are gone, as in the summary of a job.
        lost: Box<Summary>,
    },
    /// Failed: not copied.
    Failed(Error),
}

/// Planned action for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Make it: the name is free.
    Make,
    /// Replace the existing entry.
    Replace,
    /// Make a hard link to a file that was copied before.
    Link,
    /// Remove it from the destination.
    Delete {
        /// As in [`EntryOutcome::Deleted`].
        entries: u64,
    },
}

impl Action {
    /// The name in records: `make`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Action::Make => "make",
            Action::Replace => "replace",
            Action::Link => "link",
            Action::Delete { .. } => "delete",
        }
    }
}

/// Progress of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobProgress {
    /// Entries finished, successfully or not.
    pub entries: u64,
    /// Bytes copied, including those of unfinished files.
    pub bytes: u64,
    /// Entries found so far, by a scan or by the job itself.
    pub total_entries: u64,
    /// Bytes of the files found by a scan.
    pub total_bytes: u64,
    /// Whether the scan is complete, and the totals final.
    pub scanned: bool,
    /// Mechanism that moved bytes last.
    pub mechanism: Option<Mechanism>,
}

/// Observer of a job, called by all workers.
pub trait JobObserver: Sync {
    /// Called after each entry and, on Linux, before each directory, between the pieces of a large file, and every 50 ms
    /// while a worker waits, for the end of a [`Pause`](crate::Pause) or for its turn at a rate.
    fn progress(&self, _: JobProgress) -> Control {
        Control::Continue
    }

    /// Whether [`JobObserver::finished`] wants every entry, rather than only failures and files with
    /// notes. A record of a small file costs a part of the time of copying it. Each worker asks once.
    fn wants_records(&self) -> bool {
        true
    }

    /// Called with [`CopyOptions::ask`](crate::CopyOptions::ask) before an existing entry of the destination
    /// is replaced, once for each. It may wait for a person, and holds up only the worker that asks;
    /// with several [`jobs`](super::JobOptions::jobs) several may ask at once. Refuses by default.
    fn may_replace(&self, destination: &Path) -> Consent {
        let _ = destination;
        Consent::Refused
    }

    /// Called with [`JobOptions::remove_source`](super::JobOptions::remove_source) before the files of a finished root
    /// are removed from the source, unless there are none. Its entries that failed were reported before, and those that
    /// cannot be removed are reported after. Without consent all stay. Consents by default.
    fn may_remove(&self) -> bool {
        true
    }

    /// Receives a finished entry. Called by one worker at a time, in the order of [`Record::sequence`].
    fn finished(&self, _: &Record) {}
}

/// Ignores all events.
impl JobObserver for () {
    fn wants_records(&self) -> bool {
        false
    }
}

/// Summary of a job in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Files that were copied.
    pub files: u64,
    /// Directories that were made, or found and gone through.
    pub directories: u64,
    /// Symbolic links that were made.
    pub symlinks: u64,
    /// Hard links to files that this job copied, or that were unchanged in an earlier copy.
    pub hard_links: u64,
    /// FIFOs, sockets and device files that were made.
    pub specials: u64,
    /// Entries that were skipped.
    pub skipped: u64,
    /// Entries that were removed from the destination.
    pub deleted: u64,
    /// Files that an earlier run had copied.
    pub resumed: u64,
    /// Files that were removed from the source ([`JobOptions::remove_source`](super::JobOptions::remove_source)).
    pub sources_removed: u64,
    /// Entries that could not be copied.
    pub failed: u64,
    /// Entries that were copied or made, and removed again with the new tree that they were in
    /// ([`EntryOutcome::Discarded`]). No other number includes them.
    pub discarded: u64,
    /// Bytes of the files among them.
    pub discarded_bytes: u64,
    /// Files that were read and compared with their sources ([`Compare::Contents`](super::Compare::Contents)).
    pub compared: u64,
    /// Bytes that were found to be the same by that, of both files together.
    pub compared_bytes: u64,
    /// Bytes of the files that were copied.
    pub bytes: u64,
    /// Bytes that an earlier run had copied of files it did not finish; part of `bytes`.
    pub resumed_bytes: u64,
    /// The remaining bytes, by mechanism and cost.
    pub portions: Vec<Portion>,
    /// Reasons why cheaper mechanisms were not used, each with the number of files.
    pub refusals: Vec<RefusalCount>,
    /// From the first look at a source to the last name in place.
    pub duration: Duration,
    /// Totals of the files that were compressed or decompressed.
    pub transformed: Transformed,
    /// Entries that look like leftovers of earlier copies, and stay.
    pub leftovers: Leftovers,
    /// Whether the job ended early; the error beside the summary says why.
    pub stopped_early: bool,
    /// Entries found by then and not tried, or undone half-way; includes sources that were not begun.
    /// There may be more that were not found yet.
    pub not_tried: u64,
    /// Number of sources, at the end of the list, that were not begun.
    pub sources_not_tried: u64,
    /// Unfinished new tree, if it was kept.
    pub incomplete: Option<Incomplete>,
}

/// New tree whose job ended because of an error of the destination. It keeps its temporary name; every file
/// in it is whole, and only its owner has access.
///
/// # Ownership
/// The caller owns it: rename it, or remove it with its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// Source as the caller named it.
    pub source: PathBuf,
    /// Destination as the caller named it. The name is free.
    pub destination: PathBuf,
    /// Path of the tree; absolute, if the current directory has a path.
    pub path: PathBuf,
    /// Number of entries in it; directories count when they are finished.
    pub entries: u64,
    /// Why no journal beside it names it. `None`: there is a journal, so a job with
    /// [`JobOptions::resume`](super::JobOptions::resume) resumes it and any other leaves it alone. With a
    /// reason, no job can resume it.
    pub no_journal: Option<Reason>,
    /// Whether the next job to this destination may remove it, unless it is renamed first: the record of
    /// leftovers could be neither removed nor emptied, and no journal names the tree. If `false`, no job
    /// removes it.
    pub removed_by_next: bool,
}

/// Totals of compressed or decompressed files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transformed {
    /// Number of files.
    pub files: u64,
    /// Total length of the sources.
    pub source_bytes: u64,
    /// Total length of the copies.
    pub bytes: u64,
}

impl Transformed {
    fn add(&mut self, more: Transformed) {
        self.files += more.files;
        self.source_bytes += more.source_bytes;
        self.bytes += more.bytes;
    }
}

/// Reason for not using a mechanism, with the number of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalCount {
    /// Mechanism that was not used.
    pub mechanism: Mechanism,
    /// Reason.
    pub reason: RefusalReason,
    /// Kernel's answer, if it was tried.
    pub errno: Option<Errno>,
    /// Number of files.
    pub files: u64,
}

impl Summary {
    /// Returns the bytes of a cost class over all mechanisms.
    #[must_use]
    pub fn bytes_at(&self, cost: Cost) -> u64 {
        self.portions.iter().filter(|p| p.cost == cost).map(|p| p.bytes).sum()
    }

    /// Adds a file.
    pub(crate) fn add_receipt(&mut self, receipt: &Receipt) {
        self.files += 1;
        self.bytes += receipt.bytes;
        self.resumed_bytes += receipt.resumed_bytes;
        self.leftovers.add_all(&receipt.leftovers);
        for portion in &receipt.portions {
            self.add_portion(*portion);
        }
        for refusal in &receipt.refusals {
            self.add_refusal(refusal, 1);
        }
        if let Some(compression) = &receipt.compression
            && compression.action != CompressionAction::Left
        {
            let (source_bytes, bytes) = (compression.source_bytes, receipt.bytes);
            self.transformed.add(Transformed { files: 1, source_bytes, bytes });
        }
    }

    /// Counts a finished entry. Returns `true` if it is reported even if the observer wants no records.
    pub(crate) fn add_outcome(&mut self, kind: EntryKind, outcome: &EntryOutcome) -> bool {
        match outcome {
            EntryOutcome::Copied(receipt) => {
                self.add_receipt(receipt);
                Summary::has_notes(receipt)
            }
            EntryOutcome::Linked { .. } => {
                self.hard_links += 1;
                false
            }
            EntryOutcome::Made { notes, flags_not_kept } => {
                match kind {
                    EntryKind::Directory => self.directories += 1,
                    EntryKind::Symlink => self.symlinks += 1,
                    _ => self.specials += 1,
                }
                !notes.is_empty() || !flags_not_kept.is_empty()
            }
            EntryOutcome::Skipped { .. } => {
                self.skipped += 1;
                // This was not requested by the caller.
                kind == EntryKind::Special
            }
            EntryOutcome::Resumed => {
                self.resumed += 1;
                false
            }
            EntryOutcome::Deleted { entries } => {
                self.deleted += entries;
                false
            }
            EntryOutcome::Discarded { lost } => {
                self.discarded += lost.made_entries();
                self.discarded_bytes += lost.bytes;
                true
            }
            EntryOutcome::Planned { action, .. } => {
                self.add_planned(kind, *action);
                // A dry run exists to be reported.
                true
            }
            EntryOutcome::Failed(_) => {
                self.failed += 1;
                true
            }
        }
    }

    /// Returns the number of entries that were copied or made.
    #[must_use]
    pub fn made_entries(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.hard_links + self.specials
    }

    /// Takes out the counts of what was copied or made. Those of other entries stay.
    pub(crate) fn take_made(&mut self) -> Summary {
        Summary {
            files: take(&mut self.files),
            directories: take(&mut self.directories),
            symlinks: take(&mut self.symlinks),
            hard_links: take(&mut self.hard_links),
            specials: take(&mut self.specials),
            bytes: take(&mut self.bytes),
            resumed_bytes: take(&mut self.resumed_bytes),
            portions: take(&mut self.portions),
            refusals: take(&mut self.refusals),
            transformed: take(&mut self.transformed),
            ..Summary::default()
        }
    }

    /// Whether the receipt contains something that a person should know, even if no records are wanted.
    pub(crate) fn has_notes(receipt: &Receipt) -> bool {
        !receipt.notes.is_empty() || !receipt.flags_not_kept.is_empty()
    }

    fn add_planned(&mut self, kind: EntryKind, action: Action) {
        let counter = match (action, kind) {
            (Action::Delete { entries }, _) => {
                self.deleted += entries;
                return;
            }
            (Action::Link, _) => &mut self.hard_links,
            (_, EntryKind::Directory) => &mut self.directories,
            (_, EntryKind::Symlink) => &mut self.symlinks,
            (_, EntryKind::Special) => &mut self.specials,
            _ => &mut self.files,
        };
        *counter += 1;
    }

    pub(crate) fn add_portion(&mut self, portion: Portion) {
        if portion.bytes == 0 {
            return;
        }
        let alike = |p: &&mut Portion| p.mechanism == portion.mechanism && p.cost == portion.cost;
        match self.portions.iter_mut().find(alike) {
            Some(found) => found.bytes += portion.bytes,
            None => self.portions.push(portion),
        }
    }

    /// Maximum number of separate reasons; further ones share a row, since some contain sizes that differ
    /// from file to file.
    const MAX_REASONS: usize = 64;

    pub(crate) fn add_refusal(&mut self, refusal: &Refusal, files: u64) {
        let alike = |c: &&mut RefusalCount| {
            c.mechanism == refusal.mechanism
                && c.errno == refusal.errno
                && c.reason == refusal.reason
        };
        if let Some(found) = self.refusals.iter_mut().find(alike) {
            found.files += files;
            return;
        }
        let Refusal { mechanism, errno, reason } = *refusal;
        if self.refusals.len() < Summary::MAX_REASONS {
            self.refusals.push(RefusalCount { mechanism, reason, errno, files });
            return;
        }
        let reason = RefusalReason::Various;
        let various = |c: &&mut RefusalCount| c.mechanism == mechanism && c.reason == reason;
        match self.refusals.iter_mut().find(various) {
            Some(found) => found.files += files,
            None => self.refusals.push(RefusalCount { mechanism, reason, errno: None, files }),
        }
    }

    /// Adds another worker's summary.
    pub(crate) fn add(&mut self, other: &Summary) {
        self.files += other.files;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.hard_links += other.hard_links;
        self.specials += other.specials;
        self.skipped += other.skipped;
        self.deleted += other.deleted;
        self.resumed += other.resumed;
        self.sources_removed += other.sources_removed;
        self.failed += other.failed;
        self.discarded += other.discarded;
        self.discarded_bytes += other.discarded_bytes;
        self.compared += other.compared;
        self.compared_bytes += other.compared_bytes;
        self.bytes += other.bytes;
        self.transformed.add(other.transformed);
        self.resumed_bytes += other.resumed_bytes;
        self.leftovers.add_all(&other.leftovers);
        for portion in &other.portions {
            self.add_portion(*portion);
        }
        for count in &other.refusals {
            let RefusalCount { mechanism, reason, errno, files } = *count;
            self.add_refusal(&Refusal { mechanism, reason, errno }, files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_taken_out_and_the_rest_stays() {
        let portion = Portion { mechanism: Mechanism::Splice, bytes: 7, cost: Cost::KernelCopied };
        let (mechanism, reason) = (Mechanism::Reflink, RefusalReason::Empty);
        let refusal = RefusalCount { mechanism, reason, errno: None, files: 3 };
        let made = Summary {
            files: 3,
            directories: 1,
            symlinks: 2,
            hard_links: 4,
            specials: 5,
            bytes: 9,
            resumed_bytes: 2,
            portions: vec![portion],
            refusals: vec![refusal],
            transformed: Transformed { files: 1, source_bytes: 8, bytes: 2 },
            ..Summary::default()
        };
        let rest = Summary { skipped: 1, deleted: 2, failed: 3, compared: 4, ..Summary::default() };
        let mut all = made.clone();
        all.add(&rest);
        assert_eq!(made.made_entries(), 15);
        assert_eq!(all.take_made(), made);
        assert_eq!(all, rest);
        let lost = Box::new(made);
        assert!(all.add_outcome(EntryKind::Directory, &EntryOutcome::Discarded { lost }));
        assert_eq!(all, Summary { discarded: 15, discarded_bytes: 9, ..rest });
    }
}
