//! A worker: takes tasks until there are none.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Scope;

use super::directory::{Directory, Open};
use super::links::Spot;
use super::queue::{Batch, Task, WorkerId};
use super::run::Job;
use super::workshop::Workshop;
use crate::capabilities::Filesystem;
use crate::copy::job::{Action, EntryKind, Outcome, Record, Summary};
use crate::copy::pause::Inside;
use crate::copy::small::{self, Next, Way};
use crate::copy::{Control, CopyOptions, Gate};
use crate::error::Error;
use crate::receipt::{Cost, InodeFlags, Mechanism, Portion, Receipt};

/// Room for a listing: a few hundred entries a call.
const LISTING_BYTES: usize = 64 << 10;

pub(super) struct Worker<'scope, 'env> {
    pub(super) job: &'env Job<'env>,
    id: WorkerId,
    scope: &'scope Scope<'scope, 'env>,
    pub(super) summary: Summary,
    pub(super) buffer: Vec<u8>,
    pub(super) listing: Vec<MaybeUninit<u8>>,
    pub(super) small: SmallFiles,
    /// Where the last link or special file was made.
    pub(super) workshop: Option<Workshop>,
    /// The observer's answer.
    pub(super) wants_records: bool,
    _inside: Option<Inside>,
}

/// Small files that went alike are counted, and only told when one goes another way.
#[derive(Default)]
pub(super) struct SmallFiles {
    way: Option<(Devices, Way)>,
    counted: Option<(Mechanism, bool)>,
    files: u64,
    pub(super) next: Next,
}

/// Between which devices files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) source: (u32, u32),
    pub(super) destination: (u32, u32),
}

/// A name in the source, and the one that its copy gets.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) open: &'a Arc<Open>,
    pub(super) name: &'a OsStr,
    pub(super) target: &'a OsStr,
}

impl Place<'_> {
    pub(super) fn source(&self) -> PathBuf {
        self.directory.source_path().join(self.name)
    }

    pub(super) fn destination(&self) -> PathBuf {
        self.directory.destination_path().join(self.target)
    }

    /// The path from the root.
    pub(super) fn way(&self) -> PathBuf {
        self.directory.path_from_root().join(self.name)
    }

    /// The copy has a name of its own, as that of a file that is compressed on its way.
    pub(super) fn is_renamed(&self) -> bool {
        self.name != self.target
    }

    fn names(&self) -> (PathBuf, PathBuf) {
        (self.source(), self.destination())
    }

    pub(super) fn spot(&self) -> Spot {
        Spot {
            directory: Arc::clone(self.directory),
            name: self.name.to_owned(),
            target: self.target.to_owned(),
        }
    }
}

impl<'scope, 'env> Worker<'scope, 'env> {
    pub(super) fn new(job: &'env Job<'env>, scope: &'scope Scope<'scope, 'env>) -> Self {
        Worker {
            job,
            id: job.next_worker(),
            scope,
            summary: Summary::default(),
            buffer: small::buffer(&job.options.copy),
            listing: vec![MaybeUninit::uninit(); LISTING_BYTES],
            small: SmallFiles::default(),
            workshop: None,
            wants_records: job.observer.wants_records(),
            _inside: job.gate().map(Gate::enter),
        }
    }

    /// Works until all is done, and hands in what it did.
    fn run(mut self) {
        self.work_on();
        self.hand_in();
    }

    /// Works until all is done.
    pub(super) fn work_on(&mut self) {
        let job = self.job;
        while let Some(mut taken) = job.queue.take(self.id) {
            if let Some(task) = taken.task.take() {
                job.rest_if_paused();
                self.work(task);
            }
        }
        // Before the tree gets its name.
        job.rest_if_paused();
    }

    /// Adds what it did to the job's summary.
    pub(super) fn hand_in(mut self) {
        self.settle_small();
        self.job.add(&self.summary);
    }

    fn work(&mut self, task: Task) {
        match task {
            Task::Copy(batch) => self.copy_batch(batch),
            Task::Enter { parent, name, linked } => {
                self.enter(&parent, &name, linked);
                self.end(parent);
            }
            Task::List { directory, from } => self.list(directory, from),
        }
    }

    /// Hands a task to whoever is free; the directory it belongs to has one more to do.
    pub(super) fn push(&mut self, directory: &Arc<Directory>, task: Task) {
        self.job.rest_if_paused();
        directory.begin();
        match self.job.queue.push(task, self.id) {
            Err(batch) => self.copy_batch(batch),
            Ok(unclaimed) if self.job.is_worth_another(unclaimed) => {
                self.hire();
            }
            Ok(_) => {}
        }
    }

    /// Starts another worker, unless there are as many as there may be.
    fn hire(&self) -> bool {
        let (job, scope) = (self.job, self.scope);
        if !job.may_hire() {
            return false;
        }
        let worker = std::thread::Builder::new().name("uncopy".into());
        // Without it the others do the work.
        let _ = worker.spawn_scoped(scope, move || {
            Worker::new(job, scope).run();
            job.dismissed();
        });
        true
    }

    /// A file took more than one whose blocks are shared: others may help with those that wait.
    pub(super) fn note_toil(&self) {
        if self.job.ends_light_work() {
            let unclaimed = self.job.queue.unclaimed();
            let _hired = (0..unclaimed).take_while(|_| self.hire()).count();
        }
    }

    fn copy_batch(&mut self, mut batch: Batch) {
        batch.sort();
        for (name, kind) in batch.entries() {
            if self.job.is_over() {
                self.job.leave_out(1);
                continue;
            }
            let (directory, open) = (&batch.directory, &batch.open);
            self.copy_entry(&Place { directory, open, name, target: name }, kind);
        }
        let Batch { directory, open, .. } = batch;
        drop(open);
        self.close_workshop();
        self.end(directory);
    }

    /// Removes where links were made, before the directory gets its times.
    pub(super) fn close_workshop(&mut self) {
        let closed = self.workshop.take().map(Workshop::close);
        let Some(Err((directory, name, errno))) = closed else { return };
        let path = directory.destination_path().join(name);
        let error = Error::system("remove the directory that entries were made in", &path, errno);
        self.fail_at(|| (directory.source_path(), path), EntryKind::Directory, error);
    }

    /// One task of the directory is done; the last one finishes it, and with it perhaps those
    /// above.
    pub(super) fn end(&mut self, directory: Arc<Directory>) {
        let mut ended = Some(directory);
        while let Some(directory) = ended.take_if(|directory| directory.end()) {
            if !self.job.is_over() {
                self.finish_directory(&directory);
            }
            if directory.parent().is_some() && directory.unpin() {
                self.job.unpinned();
            }
            ended = directory.parent().cloned();
        }
    }

    /// Tells the refusals of the small files that were counted, if the next one goes elsewhere.
    pub(super) fn settle_small_unless(&mut self, devices: Devices) {
        if self.small.way.as_ref().is_some_and(|(last, _)| *last != devices) {
            self.settle_small();
        }
    }

    /// Tells the refusals of the small files that were counted.
    pub(super) fn settle_small(&mut self) {
        let files = std::mem::take(&mut self.small.files);
        let (Some((mechanism, empty)), Some((_, way))) = (self.small.counted, &self.small.way)
        else {
            return;
        };
        if files > 0 {
            let size = u64::from(!empty);
            for refusal in way.refusals(size, mechanism, &self.job.options.copy) {
                self.summary.add_refusal(&refusal, files);
            }
        }
    }

    /// An entry is finished: counts it, and tells the observer.
    pub(super) fn finish(&mut self, place: &Place<'_>, kind: EntryKind, outcome: Outcome) {
        self.finish_at(|| place.names(), kind, outcome);
    }

    /// The same for a file that was copied. A record costs a part of what a small file does.
    pub(super) fn finish_copied(&mut self, place: &Place<'_>, receipt: Receipt) {
        if self.wants_records || has_notes(&receipt) {
            return self.finish(place, EntryKind::File, Outcome::Copied(Box::new(receipt)));
        }
        self.summary.add_receipt(&receipt);
        self.entry_done();
    }

    /// The same for an entry of which only the two names are known.
    pub(super) fn finish_at(
        &mut self,
        names: impl FnOnce() -> (PathBuf, PathBuf),
        kind: EntryKind,
        outcome: Outcome,
    ) {
        let tell = self.count(kind, &outcome);
        if tell || self.wants_records {
            let (source, destination) = names();
            self.job.tell(Record { sequence: 0, kind, source, destination, outcome });
        }
        self.entry_done();
    }

    /// Counts an entry; `true`: the observer is told of it even if it wants no records.
    fn count(&mut self, kind: EntryKind, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Copied(receipt) => {
                self.summary.add_receipt(receipt);
                has_notes(receipt)
            }
            Outcome::Linked { .. } => {
                self.summary.hard_links += 1;
                false
            }
            Outcome::Made { notes, flags_not_kept } => {
                match kind {
                    EntryKind::Directory => self.summary.directories += 1,
                    EntryKind::Symlink => self.summary.symlinks += 1,
                    _ => self.summary.specials += 1,
                }
                !notes.is_empty() || !flags_not_kept.is_empty()
            }
            Outcome::Skipped { .. } => {
                self.summary.skipped += 1;
                self.job.counters.skipped.fetch_add(1, Ordering::Relaxed);
                // Nobody asked for that.
                kind == EntryKind::Special
            }
            Outcome::Resumed => {
                self.summary.resumed += 1;
                false
            }
            Outcome::Deleted { entries } => {
                self.summary.deleted += entries;
                false
            }
            Outcome::Planned { action, .. } => {
                self.count_planned(kind, *action);
                // A dry run is there to be told of.
                true
            }
            Outcome::Failed(_) => {
                self.summary.failed += 1;
                self.job.counters.failed.fetch_add(1, Ordering::Relaxed);
                true
            }
        }
    }

    fn count_planned(&mut self, kind: EntryKind, action: Action) {
        let counter = match (action, kind) {
            (Action::Delete { entries }, _) => {
                self.summary.deleted += entries;
                return;
            }
            (Action::Link, _) => &mut self.summary.hard_links,
            (_, EntryKind::Directory) => &mut self.summary.directories,
            (_, EntryKind::Symlink) => &mut self.summary.symlinks,
            (_, EntryKind::Special) => &mut self.summary.specials,
            _ => &mut self.summary.files,
        };
        *counter += 1;
    }

    /// One more entry is finished, of which all is told; the observer may stop the job.
    pub(super) fn entry_done(&self) {
        self.job.counters.entries.fetch_add(1, Ordering::Relaxed);
        if self.job.ask() == Control::Stop {
            self.job.cancel();
        }
    }

    /// An entry could not be copied.
    pub(super) fn fail(&mut self, place: &Place<'_>, kind: EntryKind, error: Error) {
        self.fail_at(|| place.names(), kind, error);
    }

    /// The same for an entry of which only the two names are known.
    pub(super) fn fail_at(
        &mut self,
        names: impl FnOnce() -> (PathBuf, PathBuf),
        kind: EntryKind,
        error: Error,
    ) {
        if error.is_cancelled() {
            self.job.leave_out(1);
            return self.job.stop(error);
        }
        let end = self.job.options.on_error.ends_job(&error).then(|| error.clone());
        // Nobody begins another entry while this one is told.
        if let Some(error) = end {
            self.job.stop(error);
        }
        self.finish_at(names, kind, Outcome::Failed(error));
    }

    /// Counts a small file that nobody is told of.
    pub(super) fn count_small(&mut self, size: u64, mechanism: Mechanism, cost: Cost) {
        self.count_portion(size, mechanism, cost);
        self.count_alike(mechanism, size == 0);
    }

    fn count_portion(&mut self, bytes: u64, mechanism: Mechanism, cost: Cost) {
        if bytes > 0 && cost != Cost::Shared {
            self.note_toil();
        }
        self.summary.add_portion(Portion { mechanism, bytes, cost });
        self.job.note_mechanism(mechanism);
    }

    fn count_alike(&mut self, mechanism: Mechanism, is_empty: bool) {
        let alike = (mechanism, is_empty);
        if self.small.counted != Some(alike) {
            self.settle_small();
            self.small.counted = Some(alike);
        }
        self.small.files += 1;
    }

    /// The receipt of a small file. Refusals are told with it if anybody wants records, and counted
    /// otherwise; so is how its bytes went if nobody is told of it.
    pub(super) fn small_receipt(
        &mut self,
        (size, mechanism, cost): (u64, Mechanism, Cost),
        (notes, flags_not_kept): (Vec<String>, InodeFlags),
    ) -> Receipt {
        let mut receipt = Receipt { bytes: size, notes, flags_not_kept, ..Receipt::default() };
        if self.wants_records || has_notes(&receipt) {
            receipt.add(mechanism, size, cost);
        } else {
            self.count_portion(size, mechanism, cost);
        }
        if !self.wants_records {
            self.count_alike(mechanism, size == 0);
        } else if let Some((_, way)) = &self.small.way {
            receipt.refusals = way.refusals(size, mechanism, &self.job.options.copy);
            receipt.decided_by = way.decided_by(size, &self.job.options.copy);
        }
        receipt
    }
}

/// It says something that a person should know, wanted or not.
fn has_notes(receipt: &Receipt) -> bool {
    !receipt.notes.is_empty() || !receipt.flags_not_kept.is_empty()
}

impl SmallFiles {
    /// The way of small files between these devices; another than the last one starts anew.
    pub(super) fn way(
        &mut self,
        devices: Devices,
        filesystems: (Filesystem, Filesystem),
        options: &CopyOptions,
    ) -> &mut Way {
        if self.way.as_ref().is_some_and(|(last, _)| *last != devices) {
            self.way = None;
        }
        let (_, way) = self.way.get_or_insert_with(|| (devices, Way::new(filesystems, options)));
        way
    }
}
