//! Copies that are halted between pieces and go on.

use std::collections::HashSet;
use std::fs::{self, File};
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use testbed::{Case, Compared, Content, Place, Scratch, assert_same_tree, wait_for};
use uncopy::copy::job::{
    JobError, JobObserver, JobOptions, JobProgress, Summary, copy_trees, copy_trees_observed,
};
use uncopy::copy::{
    Control, CopyContext, CopyOptions, Observer, Outcome, Pause, Phase, Progress, Verify,
    copy_file_in,
};
use uncopy::{Error, Mechanism};

use crate::copy::{EVERYWHERE, Pair, only};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] one_file_halts_and_goes_on,
        [] one_file_is_stopped_while_it_is_paused,
        [] a_copy_that_is_paused_beforehand_makes_nothing,
        [] verifying_halts_too,
        [] verifying_halts_at_each_point,
        [] the_end_of_the_last_handle_lets_a_copy_go_on,
        [] all_workers_halt_and_go_on,
        [] all_workers_halt_at_a_rate,
        [] workers_halt_between_small_files,
        [] a_job_is_stopped_while_it_is_paused,
        [] the_end_of_the_last_handle_lets_a_job_go_on,
        [] one_pause_halts_several_copies,
    ]
}

const LENGTH: u64 = (40 << 20) + 77;

/// So long a pause is looked at; what moved meanwhile would be seen.
const LOOKED_AT: Duration = Duration::from_millis(300);

/// Pauses after a number of bytes or at another event, and is asked continuously.
struct Pauser<'a> {
    pause: &'a Pause,
    when: Box<dyn Fn(Progress) -> bool + Send + 'a>,
    has_paused: bool,
    stop: &'a AtomicBool,
}

impl<'a> Pauser<'a> {
    fn new(pause: &'a Pause, stop: &'a AtomicBool) -> Pauser<'a> {
        let when = Box::new(|progress: Progress| progress.done_bytes > 0);
        Pauser { pause, when, has_paused: false, stop }
    }
}

impl Observer for Pauser<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        if !self.has_paused && (self.when)(progress) {
            self.has_paused = true;
            self.pause.pause();
        }
        if self.stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue }
    }
}

/// Lists name, length and blocks of every file in a directory, and of unlinked files that this
/// process holds open. The counters of `proc_pid_io(5)` do not show which thread wrote.
fn written(directory: &Path) -> Vec<(PathBuf, u64, u64)> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
            found.push((entry.path(), metadata.len(), metadata.blocks()));
        }
    }
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        // Directories are found above, and may be open for a moment.
        if target.starts_with(directory)
            && let Ok(metadata) = fs::metadata(entry.path())
            && metadata.is_file()
        {
            found.push((target, metadata.len(), metadata.blocks()));
        }
    }
    found.sort();
    found
}

/// Lets copies go on when a test fails that would wait for them.
struct Released<'a>(&'a Pause);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.resume();
        }
    }
}

/// Waits until nothing moves any more, and then sees that nothing does.
#[track_caller]
fn assert_halted(pause: &Pause, copies: usize, directory: &Path) {
    let _released = Released(pause);
    wait_for("pause", || pause.copies() >= copies && pause.is_quiet());
    // Later writeback by the kernel may allocate more blocks.
    rustix::fs::syncfs(File::open(directory).unwrap()).unwrap();
    let before = written(directory);
    std::thread::sleep(LOOKED_AT);
    assert!(pause.is_quiet(), "somebody went on");
    assert_eq!(written(directory), before, "bytes moved in a pause");
}

/// Copies, and does something when it is halted; in between nothing has moved.
fn copy_paused(
    pair: &Pair,
    options: CopyOptions,
    when: impl Fn(Progress) -> bool + Send,
    meanwhile: impl FnOnce(Pause, &AtomicBool),
) -> Result<Outcome, Error> {
    let (pause, stop) = (Pause::new(), AtomicBool::new(false));
    let gate = pause.gate();
    let context = CopyContext::new().gate(&gate);
    std::thread::scope(|scope| {
        let of_copy = pause.clone();
        let stopped = &stop;
        let copying = scope.spawn(move || {
            let mut observer = Pauser { when: Box::new(when), ..Pauser::new(&of_copy, stopped) };
            let copied =
                copy_file_in(&pair.source, &pair.destination, &options, &context, &mut observer);
            assert!(observer.has_paused, "it was over before it could be paused");
            copied
        });
        assert_halted(&pause, 1, pair.scratch.path());
        assert!(!pair.destination.exists(), "it was put in place in a pause");
        meanwhile(pause, &stop);
        copying.join().unwrap()
    })
}

/// In the middle of the bytes.
fn midway(progress: Progress) -> bool {
    (1..LENGTH).contains(&progress.done_bytes)
}

fn one_file_halts_and_goes_on() {
    for mechanism in EVERYWHERE {
        let pair = Pair::new(LENGTH);
        let begin = Instant::now();
        let mut paused = Duration::ZERO;
        let copied = copy_paused(&pair, only(mechanism), midway, |pause, _| {
            paused = pause.paused_for();
            pause.resume();
        });
        let (receipt, all) = (testbed::copied(copied.unwrap()), begin.elapsed());
        pair.assert_copied();
        assert!(paused >= LOOKED_AT, "{paused:?}");
        // The reported duration is the total time without the pause.
        assert!(receipt.duration <= all - paused, "{:?}, {all:?}, {paused:?}", receipt.duration);
    }
}

fn one_file_is_stopped_while_it_is_paused() {
    for mechanism in EVERYWHERE {
        let pair = Pair::new(LENGTH);
        let copied = copy_paused(&pair, only(mechanism), midway, |pause, stop| {
            stop.store(true, Ordering::Relaxed);
            wait_for("end", || pause.copies() == 0);
            assert!(pause.is_paused(), "the end of the pause did it");
        });
        assert!(copied.unwrap_err().is_cancelled(), "{mechanism}");
        pair.assert_kept(None);
    }
}

fn a_copy_that_is_paused_beforehand_makes_nothing() {
    for length in [0, 100, LENGTH] {
        let pair = Pair::new(length);
        let (pause, stop) = (Pause::new(), AtomicBool::new(false));
        let (options, gate) = (CopyOptions::default(), pause.gate());
        let context = CopyContext::new().gate(&gate);
        pause.pause();
        std::thread::scope(|scope| {
            let copying = scope.spawn(|| {
                let mut observer = Pauser::new(&pause, &stop);
                observer.has_paused = true;
                copy_file_in(&pair.source, &pair.destination, &options, &context, &mut observer)
            });
            assert_halted(&pause, 1, pair.scratch.path());
            pair.assert_kept(None);
            pause.resume();
            copying.join().unwrap().unwrap();
        });
        pair.assert_copied();
    }
}

/// Both threads that read again.
fn verifying_halts_too() {
    let mut options = only(Mechanism::ReadWrite);
    options.verify = Some(Verify::default());
    let pair = Pair::new(LENGTH);
    let verifying =
        |progress: Progress| progress.phase == Phase::Verifying && progress.done_bytes > 0;
    let copied = copy_paused(&pair, options, verifying, |pause, _| pause.resume());
    assert!(testbed::copied(copied.unwrap()).verification.is_some());
    pair.assert_copied();
}

/// Also when one side has been read and the other has not.
fn verifying_halts_at_each_point() {
    let mut options = only(Mechanism::ReadWrite);
    options.verify = Some(Verify::default());
    let pair = Pair::new(LENGTH);
    let pause = Pause::new();
    let gate = pause.gate();
    let context = CopyContext::new().gate(&gate);
    let pauses = std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            let mut last = None;
            let mut observer = |progress: Progress| {
                // While it waits it gets the same progress again.
                if progress.phase == Phase::Verifying && last != Some(progress) {
                    last = Some(progress);
                    pause.pause();
                }
                Control::Continue
            };
            copy_file_in(&pair.source, &pair.destination, &options, &context, &mut observer)
                .unwrap()
        });
        let mut pauses = 0;
        while !copying.is_finished() {
            if pause.is_paused() {
                wait_for("rest", || pause.is_quiet());
                pauses += 1;
                pause.resume();
            }
        }
        assert!(testbed::copied(copying.join().unwrap()).verification.is_some());
        pauses
    });
    assert!(pauses >= 3, "{pauses}");
    pair.assert_copied();
}

fn the_end_of_the_last_handle_lets_a_copy_go_on() {
    let pair = Pair::new(LENGTH);
    let pause = Pause::new();
    let (options, gate) = (only(Mechanism::ReadWrite), pause.gate());
    let context = CopyContext::new().gate(&gate);
    pause.pause();
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            copy_file_in(&pair.source, &pair.destination, &options, &context, &mut ()).unwrap()
        });
        assert_halted(&pause, 1, pair.scratch.path());
        drop(pause);
        copying.join().unwrap();
    });
    pair.assert_copied();
}

/// A source and a place for its copy.
struct Trees {
    scratch: Scratch,
    options: JobOptions,
    pause: Pause,
}

/// Pauses a job once several workers are at work.
struct JobPauser<'a> {
    pause: Pause,
    has_paused: AtomicBool,
    stop: &'a AtomicBool,
    workers: Mutex<HashSet<ThreadId>>,
}

impl JobObserver for JobPauser<'_> {
    fn progress(&self, progress: JobProgress) -> Control {
        let mut workers = self.workers.lock().unwrap();
        workers.insert(std::thread::current().id());
        let several = workers.len() > 1 && progress.bytes > 0;
        drop(workers);
        if several && !self.has_paused.swap(true, Ordering::Relaxed) {
            self.pause.pause();
        }
        if self.stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue }
    }
}

const WORKERS: usize = 4;

impl Trees {
    /// Files of so many bytes each, by four workers.
    fn new(files: usize, bytes: u64) -> Trees {
        let scratch = Place::Disk.scratch();
        for number in 0..files {
            let directory = scratch.join("source").join((number % (2 * WORKERS)).to_string());
            fs::create_dir_all(&directory).unwrap();
            Content::dense(bytes).write(&directory.join(number.to_string()));
        }
        let (mut options, pause) = (JobOptions::default(), Pause::new());
        options.jobs = NonZeroUsize::new(WORKERS);
        options.scan_ahead = true;
        options.copy = only(Mechanism::ReadWrite);
        options.gate = Some(pause.gate());
        Trees { scratch, options, pause }
    }

    /// Copies, and does something in a pause in which nothing moved.
    fn copy_paused(
        self,
        meanwhile: impl FnOnce(Pause, &AtomicBool),
    ) -> (Scratch, Duration, Result<Summary, JobError>) {
        let Trees { scratch, options, pause } = self;
        let stop = AtomicBool::new(false);
        let (source, destination) = (scratch.join("source"), scratch.join("destination"));
        let pairs = [(source, destination.clone())];
        let mut paused = Duration::ZERO;
        let copied = std::thread::scope(|scope| {
            let observer = JobPauser {
                pause: pause.clone(),
                has_paused: AtomicBool::new(false),
                stop: &stop,
                workers: Mutex::default(),
            };
            let options = &options;
            let pairs = &pairs;
            let copying = scope.spawn(move || {
                let copied = copy_trees_observed(pairs.clone(), options, &observer);
                assert!(observer.has_paused.into_inner(), "it was over before it could be paused");
                copied
            });
            assert_halted(&pause, 2, scratch.path());
            assert!(!destination.exists(), "the tree got its name in a pause");
            paused = pause.paused_for();
            meanwhile(pause, &stop);
            copying.join().unwrap()
        });
        (scratch, paused, copied)
    }

    #[track_caller]
    fn assert_halts_and_goes_on(self) {
        let begin = Instant::now();
        let (scratch, paused, copied) = self.copy_paused(|pause, _| pause.resume());
        let all = begin.elapsed();
        let summary = copied.unwrap();
        assert_eq!(summary.failed, 0);
        let (source, destination) = (scratch.join("source"), scratch.join("destination"));
        assert_same_tree(&source, &destination, Compared::default());
        assert!(paused >= LOOKED_AT, "{paused:?}");
        assert!(summary.duration <= all - paused, "{:?}, {all:?}", summary.duration);
    }
}

fn all_workers_halt_and_go_on() {
    Trees::new(2 * WORKERS, LENGTH / 2).assert_halts_and_goes_on();
}

fn all_workers_halt_at_a_rate() {
    let mut trees = Trees::new(2 * WORKERS, 500_000);
    trees.options.bytes_per_second = NonZeroU64::new(8_000_000);
    trees.assert_halts_and_goes_on();
}

fn workers_halt_between_small_files() {
    Trees::new(3000, 3000).assert_halts_and_goes_on();
}

fn a_job_is_stopped_while_it_is_paused() {
    let trees = Trees::new(2 * WORKERS, LENGTH / 2);
    let (scratch, _, copied) = trees.copy_paused(|pause, stop| {
        stop.store(true, Ordering::Relaxed);
        wait_for("end", || pause.copies() == 0);
        assert!(pause.is_paused(), "the end of the pause did it");
    });
    assert!(copied.unwrap_err().cause().is_cancelled());
    let strangers = scratch.strangers(&["source"]);
    assert!(strangers.is_empty(), "left behind: {strangers:?}");
}

fn the_end_of_the_last_handle_lets_a_job_go_on() {
    let trees = Trees::new(20, 100_000);
    trees.pause.pause();
    let Trees { scratch, options, pause } = trees;
    let pairs = [(scratch.join("source"), scratch.join("destination"))];
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copy_trees(pairs.clone(), &options));
        assert_halted(&pause, 1, scratch.path());
        assert!(scratch.strangers(&["source"]).is_empty(), "something was made in a pause");
        drop(pause);
        copying.join().unwrap().unwrap();
    });
    assert_same_tree(&pairs[0].0, &pairs[0].1, Compared::default());
}

fn one_pause_halts_several_copies() {
    let pairs = [Pair::new(LENGTH), Pair::new(LENGTH)];
    let pause = Pause::new();
    let (options, gate) = (only(Mechanism::ReadWrite), pause.gate());
    let context = CopyContext::new().gate(&gate);
    pause.pause();
    std::thread::scope(|scope| {
        let copying = pairs.each_ref().map(|pair| {
            let (options, context) = (&options, &context);
            scope.spawn(move || {
                copy_file_in(&pair.source, &pair.destination, options, context, &mut ()).unwrap()
            })
        });
        wait_for("both", || pause.copies() == 2 && pause.is_quiet());
        for pair in &pairs {
            pair.assert_kept(None);
        }
        pause.resume();
        for copying in copying {
            copying.join().unwrap();
        }
    });
    pairs.iter().for_each(Pair::assert_copied);
}
