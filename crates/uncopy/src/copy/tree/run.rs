//! One job from beginning to end.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::directory::{Entered, Identity, identity};
use super::journal::Journal;
use super::links::Links;
use super::queue::{Queue, WorkerId};
use super::worker::Worker;
use super::{root, scan};
use crate::copy::born::Umask;
use crate::copy::job::{
    Incomplete, JobObserver, JobOptions, JobProgress, OnError, Record, Summary,
};
use crate::copy::pause::{Passed, Stopwatch};
use crate::copy::stale::Unproven;
use crate::copy::{Control, CopyOptions, Existing, Experience, Gate, Throttle, throttle};
use crate::error::{Errno, Error, Reason, Result};
use crate::receipt::Mechanism;
use crate::sys::file::FileId;
use crate::sys::{Sys, clock, directory, file, privilege};

/// Directories whose descriptors are kept while their entries are copied; the others are opened
/// again when they are needed. Each has two.
const MOST_PINNED: usize = 256;

/// Workers beyond this number wait for each other in the filesystem.
const MOST_WORKERS: usize = 8;

/// Both directories, both files, and what opening a deep directory again takes on its way; twice.
const DESCRIPTORS_OF_A_WORKER: usize = 16;

/// While every file shares its blocks with its copy in turn, another worker is worth its start when so
/// many tasks wait.
const MANY_LIGHT_TASKS: usize = 16;

/// What the workers share.
pub(super) struct Job<'a> {
    pub(super) options: &'a JobOptions,
    pub(super) observer: &'a dyn JobObserver,
    pub(super) queue: Queue,
    pub(super) counters: Counters,
    pub(super) links: Links,
    pub(super) umask: Umask,
    /// Files of others can be given away or changed.
    privileged: OnceLock<bool>,
    /// Nobody else can act in the directory that the tree is built in.
    is_aside_own: AtomicBool,
    /// How files are copied in a tree that is being built, where nothing is the caller's.
    inside: CopyOptions,
    pub(super) throttle: Option<Throttle>,
    pub(super) experience: Experience,
    /// That may be open.
    descriptors: usize,
    /// So many at most, looked up when a second one is wanted.
    workers: OnceLock<usize>,
    hired: AtomicUsize,
    /// Workers there have been.
    begun: AtomicUsize,
    pinned: AtomicUsize,
    most_pinned: usize,
    deleted: AtomicU64,
    /// Destinations, which no source may be or lie in.
    destinations: Mutex<Vec<Identity>>,
    /// Files are expected to share their blocks with their copies in turn, and each that is copied does.
    is_light: AtomicBool,
    over: AtomicBool,
    stopped: Mutex<Option<Error>>,
    /// Entries that were found and not tried.
    left_out: AtomicU64,
    incomplete: Mutex<Option<Incomplete>>,
    /// A file that failed could not be taken back, and has its name.
    has_remnants: AtomicBool,
    /// When it began: since the epoch, and since boot.
    pub(super) begun_at: (Duration, Duration),
    summary: Mutex<Summary>,
    sequence: Mutex<u64>,
    journal: RwLock<Option<Arc<Journal>>>,
    /// There is one. Asked for each file: who takes the lock to read makes the others wait.
    has_journal: AtomicBool,
    /// Journals of roots that are done, and where they lie.
    finished: Mutex<Vec<(Identity, OwnedFd, Vec<JournalFile>)>>,
    /// What looks like leftovers.
    unproven: Mutex<Vec<(PathBuf, FileId)>>,
}

/// The name of a journal, and which file it is.
type JournalFile = (OsString, FileId);

/// What is shown while the job runs.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) entries: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) found: AtomicU64,
    pub(super) scanned_entries: AtomicU64,
    pub(super) scanned_bytes: AtomicU64,
    pub(super) scanned: AtomicBool,
    pub(super) failed: AtomicU64,
    pub(super) skipped: AtomicU64,
    /// Place in [`Mechanism::ALL`], plus 1.
    mechanism: AtomicU8,
}

/// Copies every pair; see [`crate::copy::job::copy_trees`].
pub(in crate::copy) fn run_job(
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let begin = Stopwatch::start(options.copy.gate.as_ref());
    let (job, mut sources_not_tried) = (Job::new(options, observer), 0);
    std::thread::scope(|scope| {
        if options.scan_ahead {
            let sources: Vec<PathBuf> = pairs.iter().map(|(source, _)| source.clone()).collect();
            let job = &job;
            // Where no thread is to be had the total stays unknown.
            let scan = move || scan::run(job, &sources);
            let _ = std::thread::Builder::new().spawn_scoped(scope, scan);
        }
        let mut worker = Worker::new(&job, scope);
        for (source, destination) in pairs {
            job.rest_if_paused();
            if job.is_over() {
                job.leave_out(1);
                sources_not_tried += 1;
            } else {
                root::copy(&mut worker, source, destination);
            }
        }
        worker.hand_in();
        if !job.is_over() {
            job.remove_journals();
        }
        job.over.store(true, Ordering::Relaxed);
    });
    let not_tried = job.left_out.load(Ordering::Relaxed) + job.queue.dropped();
    let Job { summary, stopped, incomplete, unproven, .. } = job;
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (path, id) in unproven.into_inner().unwrap_or_else(PoisonError::into_inner) {
        // The record of another directory may have shown what it is, and a run that was at work is done.
        let stays = match directory::stat_path(&path) {
            Ok(stat) => stat.id() == id,
            Err(errno) => errno != Errno::ENOENT,
        };
        if stays {
            summary.leftovers.add(path);
        }
    }
    summary.duration = begin.elapsed();
    let stopped = stopped.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.stopped_early = stopped.is_some();
    summary.not_tried = not_tried;
    summary.sources_not_tried = sources_not_tried;
    summary.incomplete = incomplete.into_inner().unwrap_or_else(PoisonError::into_inner);
    (summary, stopped.map_or(Ok(()), Err))
}

impl<'a> Job<'a> {
    fn new(options: &'a JobOptions, observer: &'a dyn JobObserver) -> Job<'a> {
        let descriptors = usize::try_from(directory::descriptor_limit()).unwrap_or(usize::MAX);
        // A pair of directories each: half of all descriptors at most, with those of batches.
        let most_pinned = (descriptors / 8).min(MOST_PINNED);
        let workers = options.jobs.map_or(MOST_WORKERS, Into::into);
        let most_batches = (descriptors / 8).min(workers * 4);
        Job {
            options,
            observer,
            queue: Queue::new(most_batches, options.copy.gate.clone()),
            counters: Counters::default(),
            links: Links::new(options.links_in_memory),
            umask: Umask::default(),
            privileged: OnceLock::new(),
            is_aside_own: AtomicBool::new(false),
            inside: CopyOptions { existing: Existing::Replace, ..options.copy.clone() },
            throttle: options.bytes_per_second.map(Throttle::new),
            experience: Experience::default(),
            descriptors,
            workers: OnceLock::new(),
            hired: AtomicUsize::new(1),
            begun: AtomicUsize::new(0),
            pinned: AtomicUsize::new(0),
            most_pinned,
            deleted: AtomicU64::new(0),
            destinations: Mutex::default(),
            is_light: AtomicBool::new(false),
            over: AtomicBool::new(false),
            stopped: Mutex::default(),
            left_out: AtomicU64::new(0),
            incomplete: Mutex::default(),
            has_remnants: AtomicBool::new(false),
            begun_at: (clock::real(), clock::boot()),
            summary: Mutex::default(),
            sequence: Mutex::default(),
            journal: RwLock::default(),
            has_journal: AtomicBool::new(false),
            finished: Mutex::default(),
            unproven: Mutex::default(),
        }
    }

    /// Files of others can be given away or changed, if they take a name that something is given to.
    pub(super) fn is_privileged(&self) -> bool {
        *self.privileged.get_or_init(privilege::reaches_files_of_others)
    }

    /// A root is begun that is built in a directory of its own: whether nobody else can act in that.
    pub(super) fn set_aside_own(&self, is_own: bool) {
        self.is_aside_own.store(is_own, Ordering::Relaxed);
    }

    /// Names in a directory that this job builds aside stay what they are.
    pub(super) fn is_aside_own(&self) -> bool {
        self.is_aside_own.load(Ordering::Relaxed)
    }

    /// How the files of a directory are copied.
    pub(super) fn copy_options(&self, directory: &Entered) -> &CopyOptions {
        if directory.private { &self.inside } else { &self.options.copy }
    }

    /// Workers that there may be.
    fn most_workers(&self) -> usize {
        *self.workers.get_or_init(|| {
            let wanted = self.options.jobs.map_or_else(usual_workers, Into::into);
            wanted.min(self.descriptors / DESCRIPTORS_OF_A_WORKER)
        })
    }

    /// One more worker may be started.
    pub(super) fn may_hire(&self) -> bool {
        let workers = self.most_workers();
        let one_more = |hired| (hired < workers).then_some(hired + 1);
        self.hired.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// A root is begun whose files are expected to share their blocks with their copies in turn, or not
    /// to.
    pub(super) fn expect_light_work(&self, is_light: bool) {
        // Who names a number of workers wants them.
        let is_light = is_light && self.options.jobs.is_none();
        self.is_light.store(is_light, Ordering::Relaxed);
    }

    /// `true`: it was expected to be light until now.
    pub(super) fn ends_light_work(&self) -> bool {
        self.is_light.load(Ordering::Relaxed) && self.is_light.swap(false, Ordering::Relaxed)
    }

    /// So many tasks that nobody waits for are worth another worker, beside the one that asks.
    pub(super) fn is_worth_another(&self, unclaimed: usize) -> bool {
        match self.is_light.load(Ordering::Relaxed) {
            true => unclaimed >= MANY_LIGHT_TASKS.min(self.queue.most_batches()),
            false => unclaimed > 1,
        }
    }

    /// Which worker the next one is.
    pub(super) fn next_worker(&self) -> WorkerId {
        WorkerId(self.begun.fetch_add(1, Ordering::Relaxed))
    }

    /// A worker found nothing more to do and went.
    pub(super) fn dismissed(&self) {
        self.hired.fetch_sub(1, Ordering::Relaxed);
    }

    /// One more directory may keep its descriptors.
    pub(super) fn may_pin(&self) -> bool {
        let one_more = |pinned| (pinned < self.most_pinned).then_some(pinned + 1);
        self.pinned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// A directory keeps its descriptors, whatever their number.
    pub(super) fn must_pin(&self) {
        self.pinned.fetch_add(1, Ordering::Relaxed);
    }

    /// So many entries more may be deleted; if so, they are counted.
    pub(super) fn may_delete(&self, entries: u64, most: Option<u64>) -> bool {
        let most = most.unwrap_or(u64::MAX);
        let more = |deleted: u64| deleted.checked_add(entries).filter(|sum| *sum <= most);
        self.deleted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn unpinned(&self) {
        self.pinned.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the job with this error; the first one counts.
    pub(super) fn stop(&self, error: Error) {
        lock(&self.stopped).get_or_insert(error);
        self.over.store(true, Ordering::Relaxed);
        self.queue.close();
    }

    /// The destination was its end, and a tree that was being made is kept for another run.
    pub(super) fn keeps_incomplete(&self) -> bool {
        let is_lasting = lock(&self.stopped).as_ref().is_some_and(Error::is_lasting);
        is_lasting && self.options.on_error != OnError::Abort
    }

    /// This tree is kept.
    pub(super) fn keep(&self, incomplete: Incomplete) {
        *lock(&self.incomplete) = Some(incomplete);
    }

    /// So many entries were found and are not tried.
    pub(super) fn leave_out(&self, entries: u64) {
        self.left_out.fetch_add(entries, Ordering::Relaxed);
    }

    /// Something that was not copied whole may have its name in a tree that is being made.
    pub(super) fn leave_remnants(&self) {
        self.has_remnants.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_remnants(&self) -> bool {
        self.has_remnants.load(Ordering::Relaxed)
    }

    /// Entries that are done, of all roots.
    pub(super) fn done_entries(&self) -> u64 {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { entries, failed, skipped, .. } = &self.counters;
        load(entries).saturating_sub(load(failed) + load(skipped))
    }

    /// The journal of the root that is being copied.
    pub(super) fn journal(&self) -> Option<Arc<Journal>> {
        if !self.has_journal() {
            return None;
        }
        self.journal.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn has_journal(&self) -> bool {
        self.has_journal.load(Ordering::Acquire)
    }

    pub(super) fn set_journal(&self, journal: Option<Arc<Journal>>) {
        self.has_journal.store(journal.is_some(), Ordering::Release);
        *self.journal.write().unwrap_or_else(PoisonError::into_inner) = journal;
    }

    /// A root is done. Its journal says so until all are, for a run that has to go on.
    pub(super) fn finished_with(&self, journal: &Journal, parent: BorrowedFd<'_>) -> Sys<()> {
        let which = identity(&file::stat(parent)?);
        let name = (journal.name().to_owned(), journal.own());
        let mut finished = lock(&self.finished);
        match finished.iter_mut().find(|(known, ..)| *known == which) {
            Some((_, _, names)) => names.push(name),
            None => finished.push((which, file::duplicate(parent)?, vec![name])),
        }
        Ok(())
    }

    fn remove_journals(&self) {
        for (_, parent, names) in lock(&self.finished).drain(..) {
            for (name, own) in names {
                Journal::remove(parent.as_fd(), &name, own);
            }
        }
    }

    /// Workers of the job that have nothing to do. Who asks is at work, also with a root that is a file,
    /// of which the queue does not know.
    pub(super) fn spare_workers(&self) -> usize {
        self.most_workers().saturating_sub(self.queue.at_work().max(1))
    }

    /// The observer asked to stop.
    pub(super) fn cancel(&self) {
        self.stop(Error::new("copy", "the trees", Reason::Cancelled));
    }

    /// A directory that is written to, which is therefore no source.
    pub(super) fn add_destination(&self, destination: Identity) {
        lock(&self.destinations).push(destination);
    }

    pub(super) fn is_destination(&self, directory: Identity) -> bool {
        lock(&self.destinations).contains(&directory)
    }

    pub(super) fn add(&self, summary: &Summary) {
        lock(&self.summary).add(summary);
    }

    /// Numbers a record and tells the observer, one at a time.
    pub(super) fn tell(&self, mut record: Record) {
        let mut sequence = lock(&self.sequence);
        *sequence += 1;
        record.sequence = *sequence;
        self.observer.finished(&record);
    }

    /// What looks like leftovers, for the end of the job to tell.
    pub(super) fn add_unproven(&self, met: Vec<Unproven>, path: impl Fn(&OsStr) -> PathBuf) {
        if !met.is_empty() {
            lock(&self.unproven)
                .extend(met.into_iter().map(|unproven| (path(&unproven.name), unproven.id)));
        }
    }

    pub(super) fn note_mechanism(&self, mechanism: Mechanism) {
        let place = Mechanism::ALL.iter().position(|m| *m == mechanism).unwrap_or(0);
        let told = &self.counters.mechanism;
        if told.load(Ordering::Relaxed) != place as u8 + 1 {
            told.store(place as u8 + 1, Ordering::Relaxed);
        }
    }

    /// Waits until a small file may be moved at the rate of the job; `false`: it is to stop.
    pub(super) fn admits(&self, bytes: u64) -> bool {
        let mut job = self;
        throttle::admitted(&mut job, |job| job.throttle.as_ref(), |job| job.ask(), bytes).is_some()
    }

    /// Where workers wait while the job is paused.
    pub(super) fn gate(&self) -> Option<&Gate> {
        self.options.copy.gate.as_ref()
    }

    /// Tells the observer how far it is and asks whether to go on; waits while it is paused.
    pub(super) fn ask(&self) -> Control {
        let ask = || match self.is_over() {
            true => Control::Stop,
            false => self.observer.progress(self.progress()),
        };
        let Some(gate) = self.gate() else { return ask() };
        match gate.pass(ask) {
            Passed::Open => Control::Continue,
            Passed::Opened(at) => {
                if let Some(throttle) = &self.throttle {
                    throttle.begin_anew(at);
                }
                Control::Continue
            }
            Passed::Stopped => Control::Stop,
        }
    }

    /// Waits if the job is paused, before something that nobody is told of.
    pub(super) fn rest_if_paused(&self) {
        if self.gate().is_some_and(Gate::is_closed) && self.ask() == Control::Stop {
            self.cancel();
        }
    }

    /// How far it has come.
    pub(super) fn progress(&self) -> JobProgress {
        let counters = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mechanism = usize::from(counters.mechanism.load(Ordering::Relaxed));
        JobProgress {
            entries: load(&counters.entries),
            bytes: load(&counters.bytes),
            total_entries: load(&counters.found).max(load(&counters.scanned_entries)),
            total_bytes: load(&counters.scanned_bytes),
            scanned: counters.scanned.load(Ordering::Relaxed),
            mechanism: mechanism.checked_sub(1).map(|place| Mechanism::ALL[place]),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(in crate::copy) fn usual_workers() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into).min(MOST_WORKERS)
}
