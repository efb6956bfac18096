//! What a job tells: about each entry, on its way, and at its end.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Control, Skip};
use uncopy_core::{
    CompressionAction, Cost, InodeFlags, Leftovers, Mechanism, Note, Portion, Receipt, Refusal,
    RefusalReason,
};
use uncopy_core::{Errno, Error, Reason};

/// What an entry of a tree is.
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

/// What became of one entry.
#[derive(Debug)]
#[non_exhaustive]
pub struct Record {
    /// From 1, in the order in which entries are finished. No number is missing.
    pub sequence: u64,
    /// What it is.
    pub kind: EntryKind,
    /// The source's path, begun as the caller named its root.
    pub source: PathBuf,
    /// The destination's path.
    pub destination: PathBuf,
    /// What was done.
    pub outcome: EntryOutcome,
}

/// What was done with one entry.
#[derive(Debug)]
#[non_exhaustive]
pub enum EntryOutcome {
    /// A file was copied.
    Copied(Box<Receipt>),
    /// A file is a hard link to one that this job copied before.
    Linked {
        /// The path of that one's copy.
        to: PathBuf,
    },
    /// A directory, symbolic link, FIFO, socket or device file was made, or a directory was there.
    Made {
        /// What a person should know: metadata that could not be kept.
        notes: Vec<Note>,
        /// Inode flags that the source has and a directory here has not.
        flags_not_kept: InodeFlags,
    },
    /// It was left alone.
    Skipped {
        /// Why.
        reason: Skip,
    },
    /// It was in the destination and not in the source, and is gone.
    Deleted {
        /// Entries that were removed: a directory with all that was in it.
        entries: u64,
    },
    /// This would be done ([`JobOptions::dry_run`](super::JobOptions::dry_run)).
    Planned {
        /// What.
        action: Action,
        /// The mechanism that a file would go by, as far as can be told without writing.
        mechanism: Option<Mechanism>,
    },
    /// An earlier run, which this one continues, copied it, and neither side has changed since.
    Resumed,
    /// It was not copied.
    Failed(Error),
}

/// What would be done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It would be made: nothing has the name.
    Make,
    /// It would take the place of what has the name.
    Replace,
    /// It would become a hard link to a file that was copied before.
    Link,
    /// It would be removed from the destination.
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

/// How far a job has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobProgress {
    /// Entries that are finished, whatever became of them.
    pub entries: u64,
    /// Bytes of files that are in their copies, also of files that are not finished.
    pub bytes: u64,
    /// Entries that were found so far, by a scan or by the job itself.
    pub total_entries: u64,
    /// Bytes of the files that were found by a scan.
    pub total_bytes: u64,
    /// The scan has seen everything: the totals are final.
    pub scanned: bool,
    /// What moved bytes last.
    pub mechanism: Option<Mechanism>,
}

/// Watches a job. It is called by all workers.
pub trait JobObserver: Sync {
    /// Called after each entry, between the pieces of a large file, and every 50 ms while a worker
    /// waits, for the end of a [`Pause`](crate::Pause) or for its turn at a rate.
    fn progress(&self, _: JobProgress) -> Control {
        Control::Continue
    }

    /// Whether [`JobObserver::finished`] is to be told of every entry, and not of failures and
    /// files with notes alone. Making a record of a small file takes a part of the time that copying
    /// it takes. Each worker asks once.
    fn wants_records(&self) -> bool {
        true
    }

    /// An entry is finished. Called by one worker at a time, in the order of
    /// [`Record::sequence`].
    fn finished(&self, _: &Record) {}
}

/// An observer that does not look.
impl JobObserver for () {
    fn wants_records(&self) -> bool {
        false
    }
}

/// What a job did, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Files that were copied.
    pub files: u64,
    /// Directories that were made, or found and gone through.
    pub directories: u64,
    /// Symbolic links that were made.
    pub symlinks: u64,
    /// Hard links to files that this job copied.
    pub hard_links: u64,
    /// FIFOs, sockets and device files that were made.
    pub specials: u64,
    /// Entries that were left alone.
    pub skipped: u64,
    /// Entries that were removed from the destination.
    pub deleted: u64,
    /// Files that an earlier run had copied.
    pub resumed: u64,
    /// Entries that could not be copied.
    pub failed: u64,
    /// Bytes of the files that were copied.
    pub bytes: u64,
    /// How many of them an earlier run had copied, of files that it did not finish.
    pub resumed_bytes: u64,
    /// The others by mechanism and cost.
    pub portions: Vec<Portion>,
    /// Why cheaper mechanisms were not used, each reason with the number of files.
    pub refusals: Vec<RefusalCount>,
    /// From the first look at a source to the last name in place.
    pub duration: Duration,
    /// Those of the files that were compressed or decompressed.
    pub transformed: Transformed,
    /// What looks like leftovers of earlier copies, and stays.
    pub leftovers: Leftovers,
    /// The job ended before its time: the error beside the summary says why.
    pub stopped_early: bool,
    /// Entries that had been found then, and were not tried or were taken back in the middle; sources that
    /// had not been begun among them. There may be more that nobody had found.
    pub not_tried: u64,
    /// The last so many sources had not been begun.
    pub sources_not_tried: u64,
    /// The tree that was being made then, if it was kept.
    pub incomplete: Option<Incomplete>,
}

/// A new tree whose job ended because of its destination. It has its temporary name, everything in it is
/// whole, and nobody but its owner can look into it.
///
/// # Ownership
/// It is the caller's: rename it, or remove it with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// The source as it was named.
    pub source: PathBuf,
    /// The destination as it was named. Nothing has that name.
    pub destination: PathBuf,
    /// Where the tree is: an absolute path, if the current directory has one.
    pub path: PathBuf,
    /// Entries that are in it, directories counted when they were finished.
    pub entries: u64,
    /// Why there is no journal beside it that names it. `None`: there is one, so that a job with
    /// [`JobOptions::resume`](super::JobOptions::resume) goes on with it and any other leaves it alone.
    /// Otherwise none goes on with it.
    pub no_journal: Option<Reason>,
    /// The next job to this destination may remove it, unless it is renamed before: the record by which
    /// leftovers of killed jobs are known could be neither removed nor emptied, and no journal names the tree.
    /// Otherwise no job removes it.
    pub removed_by_next: bool,
}

/// Files that were compressed or decompressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transformed {
    /// How many.
    pub files: u64,
    /// Length of their sources.
    pub source_bytes: u64,
    /// Length of their copies.
    pub bytes: u64,
}

impl Transformed {
    fn add(&mut self, more: Transformed) {
        self.files += more.files;
        self.source_bytes += more.source_bytes;
        self.bytes += more.bytes;
    }
}

/// A reason for not using a mechanism, and how often it was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalCount {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Why.
    pub reason: RefusalReason,
    /// What the kernel answered, if it was tried.
    pub errno: Option<Errno>,
    /// How many files.
    pub files: u64,
}

impl Summary {
    /// Bytes of this cost class, over all mechanisms.
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

    /// Reasons beyond this number share a row: some name sizes, and no two files need have the same.
    const MOST_REASONS: usize = 64;

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
        if self.refusals.len() < Summary::MOST_REASONS {
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

    /// Adds what another worker did.
    pub(crate) fn add(&mut self, other: &Summary) {
        self.files += other.files;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.hard_links += other.hard_links;
        self.specials += other.specials;
        self.skipped += other.skipped;
        self.deleted += other.deleted;
        self.resumed += other.resumed;
        self.failed += other.failed;
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
