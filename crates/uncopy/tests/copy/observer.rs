//! Progress, and the wish to stop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use testbed::Case;
use uncopy::Mechanism;
use uncopy::copy::job::{JobObserver, JobOptions, JobProgress, Sources, copy_trees_observed};
use uncopy::copy::{
    Consent, Control, CopyOptions, Observer, Phase, Progress, Skip, Verify, copy_file_observed,
};

use crate::copy::{EVERYWHERE, Pair, only};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] progress_goes_forward_to_the_end,
        [] a_long_copy_is_reported_in_pieces,
        [] flushing_and_verifying_are_reported,
        [] stopped_at_each_point,
        [] stopped_at_each_point_of_a_durable_verified_copy,
        [] stopped_while_a_stream_is_read,
        [] an_observer_that_panics_leaves_nothing,
        [] an_existing_file_is_replaced_with_consent_alone,
        [] a_file_that_nobody_was_asked_about_is_not_replaced,
        [] without_an_answer_nothing_is_replaced,
        [] without_consent_no_source_is_removed,
        [] a_stop_is_heeded_while_directories_are_entered,
    ]
}

const LENGTH: u64 = (20 << 20) + 77;

/// Copies the pair and returns all progress reports.
fn reported_points(pair: &Pair, options: &CopyOptions) -> Vec<Progress> {
    let mut points = Vec::new();
    let mut observer = |point: Progress| {
        points.push(point);
        Control::Continue
    };
    copy_file_observed(&pair.source, &pair.destination, options, &mut observer).unwrap();
    points
}

fn ways() -> Vec<CopyOptions> {
    let forced = EVERYWHERE.into_iter().map(only);
    std::iter::once(CopyOptions::default()).chain(forced).collect()
}

fn progress_goes_forward_to_the_end() {
    for options in ways() {
        let pair = Pair::new(LENGTH);
        let points = reported_points(&pair, &options);
        assert!(points.iter().all(|point| point.phase == Phase::Copying), "{points:?}");
        assert!(points.iter().all(|point| point.total_bytes == LENGTH), "{points:?}");
        assert!(points.is_sorted_by_key(|point| point.done_bytes), "{points:?}");
        assert_eq!(points.last().unwrap().done_bytes, LENGTH, "{points:?}");
        pair.assert_copied();
    }
}

/// One call of the kernel could copy all of it unasked. A piece is never much larger than one
/// whose duration is known.
fn a_long_copy_is_reported_in_pieces() {
    for mechanism in EVERYWHERE {
        let pair = Pair::new(128 << 20);
        let points = reported_points(&pair, &only(mechanism));
        let (mut last, mut most) = (0, 16 << 20);
        for point in &points {
            let piece = point.done_bytes - std::mem::replace(&mut last, point.done_bytes);
            assert!(piece <= most, "{mechanism}: a piece leaps to {piece} bytes: {points:?}");
            most = most.max(2 * piece);
        }
        assert!(points.len() >= 4, "{mechanism}: {points:?}");
    }
}

fn durable_and_verified() -> CopyOptions {
    let mut options = CopyOptions::default();
    options.durable = true;
    options.verify = Some(Verify::default());
    options
}

fn flushing_and_verifying_are_reported() {
    let pair = Pair::new(LENGTH);
    let points = reported_points(&pair, &durable_and_verified());
    let phases: Vec<Phase> = points.iter().map(|point| point.phase).collect();
    for phase in [Phase::Copying, Phase::Flushing, Phase::Verifying] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
    let verifying: Vec<&Progress> =
        points.iter().filter(|point| point.phase == Phase::Verifying).collect();
    assert!(verifying.len() >= 2, "both files are read again without a word: {points:?}");
    assert!(verifying.is_sorted_by_key(|point| point.done_bytes), "{verifying:?}");
    let last = verifying.last().unwrap();
    assert!(last.done_bytes <= last.total_bytes, "{last:?}");
}

/// Stops at the first point, the second, and so on until a copy runs through.
fn stopped_at_each(options: &CopyOptions, old: bool) -> usize {
    let pair = Pair::new(LENGTH);
    let mut stop_at = 0;
    loop {
        let _ = std::fs::remove_file(&pair.destination);
        let kept = old.then(|| pair.old_destination());
        let mut left = stop_at;
        let mut observer = |_: Progress| {
            left -= 1;
            if left < 0 { Control::Stop } else { Control::Continue }
        };
        let result = copy_file_observed(&pair.source, &pair.destination, options, &mut observer);
        let Err(error) = result else {
            pair.assert_copied();
            return usize::try_from(stop_at).unwrap();
        };
        assert!(error.is_cancelled(), "{error}");
        assert!(left == -1 || options.verify.is_some(), "asked again after it said stop");
        pair.assert_kept(kept);
        stop_at += 1;
    }
}

fn stopped_at_each_point() {
    for options in ways() {
        for old in [false, true] {
            // One reflink copies all, where there are any; nothing can stop it midway.
            let least = if options == CopyOptions::default() { 1 } else { 2 };
            assert!(stopped_at_each(&options, old) >= least);
        }
    }
}

fn stopped_at_each_point_of_a_durable_verified_copy() {
    assert!(stopped_at_each(&durable_and_verified(), true) >= 4);
    let mut direct = durable_and_verified();
    direct.require = uncopy::copy::Require::NoUserCopy;
    assert!(stopped_at_each(&direct, false) >= 4);
}

fn stopped_while_a_stream_is_read() {
    let pair = Pair::new(0);
    let mut observer = |_: Progress| Control::Stop;
    let options = CopyOptions::default();
    let old = pair.old_destination();
    let error = copy_file_observed("/proc/version", &pair.destination, &options, &mut observer);
    assert!(error.unwrap_err().is_cancelled());
    pair.assert_kept(Some(old));
}

fn an_observer_that_panics_leaves_nothing() {
    for mechanism in [Mechanism::CopyFileRange, Mechanism::ReadWrite] {
        let pair = Pair::new(LENGTH);
        let old = pair.old_destination();
        let copy = AssertUnwindSafe(|| {
            let mut observer = |_: Progress| -> Control { std::panic::resume_unwind(Box::new(1)) };
            let options = only(mechanism);
            let _ = copy_file_observed(&pair.source, &pair.destination, &options, &mut observer);
        });
        assert!(catch_unwind(copy).is_err());
        pair.assert_kept(Some(old));
    }
}

/// Answers questions, and makes a file while the copy runs.
struct Person {
    answer: Consent,
    makes: Option<PathBuf>,
    asked: Mutex<Vec<PathBuf>>,
}

impl Person {
    fn new(answer: Consent) -> Person {
        Person { answer, makes: None, asked: Mutex::default() }
    }

    fn interfere(&self) -> Control {
        if let Some(path) = &self.makes {
            std::fs::write(path, "old").unwrap();
        }
        Control::Continue
    }

    fn reply(&self, destination: &Path) -> Consent {
        self.asked.lock().unwrap().push(destination.to_owned());
        self.answer
    }
}

impl Observer for &Person {
    fn progress(&mut self, _: Progress) -> Control {
        self.interfere()
    }

    fn may_replace(&mut self, destination: &Path) -> Consent {
        self.reply(destination)
    }
}

impl JobObserver for Person {
    fn progress(&self, _: JobProgress) -> Control {
        self.interfere()
    }

    fn may_replace(&self, destination: &Path) -> Consent {
        self.reply(destination)
    }
}

/// Ways to copy one file; each returns how many were copied and skipped.
const FORMS: [Option<Sources>; 4] =
    [None, Some(Sources::Files), Some(Sources::Entries), Some(Sources::Trees)];

/// Copies the pair in this form. `Err`: the observer stopped it.
fn copied(
    pair: &Pair,
    form: Option<Sources>,
    person: &Person,
    change: fn(&mut CopyOptions),
) -> Result<(u64, u64), ()> {
    let mut options = CopyOptions::new().ask(true);
    change(&mut options);
    let Some(sources) = form else {
        let (source, destination) = (&pair.source, &pair.destination);
        let outcome = copy_file_observed(source, destination, &options, &mut &*person);
        return match outcome {
            Ok(outcome) if outcome.is_skipped() => Ok((0, 1)),
            Ok(_) => Ok((1, 0)),
            Err(error) => {
                assert!(error.is_cancelled(), "{error}");
                Err(())
            }
        };
    };
    let options = JobOptions::new().copy(options).sources(sources);
    let (mut source, mut destination) = (pair.source.clone(), pair.destination.clone());
    if sources == Sources::Trees {
        let tree = pair.scratch.join("tree");
        std::fs::create_dir_all(&tree).unwrap();
        let _ = std::fs::hard_link(&pair.source, tree.join("destination"));
        (source, destination) = (tree, pair.scratch.path().to_owned());
    }
    let summary = copy_trees_observed([(source, destination)], &options, person);
    std::fs::remove_dir_all(pair.scratch.join("tree")).ok();
    match summary {
        Ok(summary) => {
            assert_eq!(summary.failed, 0);
            Ok((summary.files, summary.skipped))
        }
        Err(error) => {
            assert!(error.cause().is_cancelled(), "{error}");
            Err(())
        }
    }
}

/// Ways to put the copy in place.
const CHANGES: [fn(&mut CopyOptions); 3] = [
    |_| {},
    |options| options.existing = uncopy::copy::Existing::Remove,
    |options| options.durable = true,
];

fn an_existing_file_is_replaced_with_consent_alone() {
    for form in FORMS {
        for change in CHANGES {
            for (answer, expected) in [
                (Consent::Given, Ok((1, 0))),
                (Consent::Refused, Ok((0, 1))),
                (Consent::Stop, Err(())),
            ] {
                let (pair, person) = (Pair::new(1 << 17), Person::new(answer));
                let old = pair.old_destination();
                assert_eq!(copied(&pair, form, &person, change), expected, "{form:?} {answer:?}");
                let asked = person.asked.into_inner().unwrap();
                assert_eq!(asked, std::slice::from_ref(&pair.destination), "{form:?} {answer:?}");
                match answer {
                    Consent::Given => pair.assert_copied(),
                    _ => pair.assert_kept(Some(old)),
                }
            }
        }
    }
}

fn a_file_that_nobody_was_asked_about_is_not_replaced() {
    for form in FORMS {
        for change in CHANGES {
            let (pair, mut person) = (Pair::new(4 << 20), Person::new(Consent::Given));
            person.makes = Some(pair.destination.clone());
            assert_eq!(copied(&pair, form, &person, change), Ok((0, 1)), "{form:?}");
            assert_eq!(person.asked.into_inner().unwrap(), <[PathBuf; 0]>::default());
            pair.assert_kept(Some(b"old"));
        }
    }
}

fn without_an_answer_nothing_is_replaced() {
    let (pair, options) = (Pair::new(100), CopyOptions::new().ask(true));
    let old = pair.old_destination();
    let outcome = uncopy::copy::copy_file(&pair.source, &pair.destination, &options).unwrap();
    let declined = matches!(outcome, uncopy::copy::Outcome::Skipped { reason: Skip::Declined, .. });
    assert!(declined, "{outcome:?}");
    pair.assert_kept(Some(old));
    let kept = options.existing(uncopy::copy::Existing::Keep);
    assert_eq!(kept.check(), Err(uncopy::copy::Contradiction::AskAboutKept));
}

struct Keeper {
    consents: bool,
    asked: Mutex<u32>,
}

impl JobObserver for Keeper {
    fn may_remove(&self) -> bool {
        *self.asked.lock().unwrap() += 1;
        self.consents
    }
}

fn without_consent_no_source_is_removed() {
    for (consents, tree) in [(false, false), (false, true), (true, false), (true, true)] {
        let pair = Pair::new(77);
        let source = match tree {
            true => pair.source.parent().unwrap().join("tree"),
            false => pair.source.clone(),
        };
        let file = if tree { source.join("deep/file") } else { source.clone() };
        if tree {
            std::fs::create_dir_all(source.join("deep")).unwrap();
            std::fs::copy(&pair.source, &file).unwrap();
        }
        let keeper = Keeper { consents, asked: Mutex::default() };
        let options = JobOptions::new().remove_source(true);
        let destination = pair.destination.with_extension("moved");
        let ended = copy_trees_observed([(&source, &destination)], &options, &keeper).unwrap();
        assert_eq!(ended.sources_removed, u64::from(consents));
        assert_eq!(file.exists(), !consents, "{}", file.display());
        assert_eq!(*keeper.asked.lock().unwrap(), 1);
    }
}

/// It was heeded at the first entry that was done, which lay in the last directory.
fn a_stop_is_heeded_while_directories_are_entered() {
    /// Stops the job at once, and keeps how many entries were found by then.
    struct Stopped(Mutex<u64>);
    impl JobObserver for Stopped {
        fn progress(&self, progress: JobProgress) -> Control {
            *self.0.lock().unwrap() = progress.total_entries;
            Control::Stop
        }
    }
    for jobs in [1, 4] {
        let scratch = testbed::Place::Disk.scratch();
        let [source, destination] = ["source", "destination"].map(|name| scratch.join(name));
        let chain: PathBuf = (0..64).map(|level| level.to_string()).collect();
        std::fs::create_dir_all(source.join(chain)).unwrap();
        let mut options = JobOptions::new();
        options.jobs = std::num::NonZeroUsize::new(jobs);
        let stopped = Stopped(Mutex::default());
        let ended = copy_trees_observed([(&source, &destination)], &options, &stopped).unwrap_err();
        assert!(ended.cause().is_cancelled());
        assert_eq!(*stopped.0.lock().unwrap(), 1);
        assert!(!destination.exists());
    }
}
