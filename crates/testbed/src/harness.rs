//! A test harness: tests state their requirements, and a run reports what was left out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::extent::{self, Extent};
use crate::hang;
use crate::kernel::{KernelFeature, catch_needs, lacking};
use crate::locked_memory::{self, Reservation};
use crate::place::{Place, disk_has_kernel_times, disk_is_a_bare_device};
use crate::process::find_tool;
use crate::sandbox::{self, Sandbox};
use crate::scratch;
use crate::sys::signals;

/// A requirement of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// `UNCOPY_TEST_ROOT=1` and user id 0.
    Root,
    /// A tool.
    Tool(&'static str),
    /// An environment variable that names something. A root run leaves the test out without it, too.
    Variable(&'static str),
    /// A place to copy from or to.
    At(Place),
    /// [`Place::Disk`] is on ext4 or XFS directly on a device, with no other layer between.
    BareDevice,
    /// [`Place::Disk`] is on ext4, XFS, btrfs or tmpfs, whose times of files are those of the kernel's clock.
    KernelTimes,
    /// Lockable memory, in MiB, at most 8: an ordinary user has little for all processes together, so tests
    /// that need it run side by side only as far as it goes.
    LockedMemory(u32),
    /// A facility of newer kernels. A root run leaves the test out without it, too.
    Kernel(KernelFeature),
}

impl Need {
    /// Returns why it is not met. `None`: it is met.
    #[must_use]
    pub fn unmet(self) -> Option<String> {
        match self {
            Need::Root if sandbox::is_root_run() => None,
            Need::Root if sandbox::root_is_asked_for() => {
                Some("needs user id 0, which UNCOPY_TEST_ROOT=1 promises".to_owned())
            }
            Need::Root => Some(
                "needs root and UNCOPY_TEST_ROOT=1 (mounts filesystems, makes networks)".to_owned(),
            ),
            Need::Tool(name) if find_tool(name).is_some() => None,
            Need::Tool(name) => Some(format!("needs {name}, which is not installed")),
            Need::Variable(name) if std::env::var_os(name).is_some() => None,
            Need::Variable(name) => {
                Some(format!("needs {name}; docs/testing.md says what it names"))
            }
            Need::At(place) => place.needs().iter().find_map(|need| need.unmet()),
            Need::LockedMemory(_) => locked_memory::lacking(),
            Need::Kernel(feature) if feature.is_here() => None,
            Need::Kernel(feature) => Some(feature.reason().to_owned()),
            Need::BareDevice if !KernelFeature::DirectAlignment.is_here() => {
                Some(KernelFeature::DirectAlignment.reason().to_owned())
            }
            Need::BareDevice if disk_is_a_bare_device() => None,
            Need::BareDevice => Some(
                "needs UNCOPY_TEST_DIR on ext4 or XFS directly on a device (no loop, dm, md)"
                    .to_owned(),
            ),
            Need::KernelTimes if disk_has_kernel_times() => None,
            Need::KernelTimes => {
                Some("needs UNCOPY_TEST_DIR on ext4, XFS, btrfs or tmpfs".to_owned())
            }
        }
    }
}

/// A test.
pub struct Case {
    name: String,
    needs: Vec<Need>,
    body: Arc<dyn Fn() + Send + Sync>,
    /// Whether it can run on several filesystems.
    is_repeatable: bool,
    /// Whether it runs only in the full extent.
    only_in_full: bool,
    /// Whether it begins before others.
    begins_first: bool,
}

impl Case {
    /// Makes a test with this name; it fails by panicking.
    pub fn new(
        name: impl Into<String>,
        needs: &[Need],
        body: impl Fn() + Send + Sync + 'static,
    ) -> Case {
        let (name, needs) = (name.into(), needs.to_vec());
        Case {
            name,
            needs,
            body: Arc::new(body),
            is_repeatable: false,
            only_in_full: false,
            begins_first: false,
        }
    }

    /// Makes a test that [`on_each_filesystem`] can repeat. `path` is that of the function, with its
    /// crate first.
    #[must_use]
    pub fn of(path: &str, needs: &[Need], function: fn()) -> Case {
        let name = path.split_once("::").map_or(path, |(_, name)| name);
        Case::new(name, needs, function).repeatable()
    }

    /// Lets [`on_each_filesystem`] repeat it.
    #[must_use]
    pub fn repeatable(self) -> Case {
        Case { is_repeatable: true, ..self }
    }

    /// Adds a need.
    #[must_use]
    pub fn needing(mut self, need: Need) -> Case {
        self.needs.push(need);
        self
    }

    /// Name that filters are compared with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leaves it out in the short extent.
    #[must_use]
    pub fn only_in_full(self) -> Case {
        Case { only_in_full: true, ..self }
    }

    /// Lets it begin before others: a test that takes seconds, most of them waiting, would otherwise
    /// end long after the rest.
    #[must_use]
    pub fn begins_first(self) -> Case {
        Case { begins_first: true, ..self }
    }

    /// Returns the test with `place` as its [`Place::Disk`], and with a name that says so.
    /// `None`: it names a place, or is not [repeatable](Case::repeatable).
    #[must_use]
    pub fn on(&self, place: Place) -> Option<Case> {
        if !self.is_repeatable || self.names_a_place() {
            return None;
        }
        let body = Arc::clone(&self.body);
        let needs = [&self.needs[..], &[Need::At(place)]].concat();
        let name = format!("{}::on_{}", self.name, format!("{place:?}").to_lowercase());
        let case = Case::new(name, &needs, move || place.in_place_of_the_disk(&*body));
        Some(Case { begins_first: self.begins_first, ..case })
    }

    fn names_a_place(&self) -> bool {
        self.needs.iter().any(|need| matches!(need, Need::At(_)))
    }

    fn unmet(&self) -> Option<String> {
        self.needs.iter().find_map(|need| need.unmet())
    }

    fn into_trial(self) -> Trial {
        let Some(reason) = self.unmet() else {
            let locked = self.needs.iter().find_map(|need| match need {
                Need::LockedMemory(mebibytes) => Some(*mebibytes),
                _ => None,
            });
            let Case { name, body, .. } = self;
            return Trial::ignorable_test(name.clone(), move || {
                catch_needs();
                let _reservation: Option<Reservation> = locked.map(locked_memory::reserve);
                let began = Instant::now();
                let _running = Running { name: name.clone(), began, cpu_before: cpu_time() };
                let _watched = hang::watch(&name);
                let Err(payload) = catch_unwind(AssertUnwindSafe(|| body())) else {
                    return Ok(Completion::Completed);
                };
                let Some(reason) = lacking(&*payload) else { resume_unwind(payload) };
                record_reason(&name, reason);
                Ok(Completion::ignored_with(reason))
            });
        };
        let is_lacking = |need: &Need| match need {
            Need::Variable(_) | Need::Kernel(_) => need.unmet().is_some(),
            Need::BareDevice => !KernelFeature::DirectAlignment.is_here(),
            _ => false,
        };
        let is_optional = self.needs.iter().any(is_lacking);
        if sandbox::root_is_asked_for() && !is_optional {
            return Trial::test(self.name, move || Err(Failed::from(reason)));
        }
        ignored(self.name, reason)
    }
}

/// Makes a test that shows as ignored, for a program with a harness of its own.
pub fn ignored(name: impl Into<String>, reason: impl Into<String>) -> Trial {
    let (name, reason) = (name.into(), reason.into());
    Trial::ignorable_test(name.clone(), move || {
        record_reason(&name, &reason);
        Ok(Completion::ignored_with(reason))
    })
}

/// Appends why a test was ignored to the file that `UNCOPY_TEST_REASONS` names, as a line of JSON: the
/// JSON of the harness has results without reasons.
pub(crate) fn record_reason(name: &str, reason: &str) {
    let Some(path) = std::env::var_os("UNCOPY_TEST_REASONS") else { return };
    let line = format!("{}\n", serde_json::json!({ "name": name, "reason": reason }));
    let file = File::options().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot write to {}: {error}", path.display()));
}

/// A running test, which is recorded when dropped.
struct Running {
    name: String,
    began: Instant,
    cpu_before: Duration,
}

impl Drop for Running {
    fn drop(&mut self) {
        let run = Finished {
            took: self.began.elapsed(),
            cpu: cpu_time().saturating_sub(self.cpu_before),
            name: std::mem::take(&mut self.name),
            is_cut_short: extent::take_is_cut_short(),
        };
        FINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(run);
    }
}

/// A test that was run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finished {
    took: Duration,
    /// Processor time of the whole process and its children; of this test only if tests run one at a time.
    cpu: Duration,
    name: String,
    is_cut_short: bool,
}

static FINISHED: Mutex<Vec<Finished>> = Mutex::new(Vec::new());

/// Returns the tests, and a copy of each for ext4, XFS and btrfs, except the filesystem of
/// [`Place::Disk`]. Tests that name a place, and tests whose names end in one of `once`, are not
/// copied. In the short extent, each test runs on one of these filesystems, in turn.
#[must_use]
pub fn on_each_filesystem(cases: Vec<Case>, once: &[&str]) -> Vec<Case> {
    let places = Place::beside_the_disk();
    let on = |(number, case): (usize, &Case)| {
        let others = places.iter().filter_map(|place| case.on(*place)).enumerate();
        let turn = number % places.len().max(1);
        others
            .map(|(nth, other)| Case { only_in_full: case.only_in_full || nth != turn, ..other })
            .collect::<Vec<_>>()
    };
    let is_once = |case: &Case| once.iter().any(|name| case.name.ends_with(name));
    let repeated = cases.iter().filter(|case| !is_once(case));
    let others = repeated.enumerate().flat_map(on).collect::<Vec<_>>();
    cases.into_iter().chain(others).collect()
}

/// Time after which a test is taken to hang: many times what the longest takes, on a busy machine.
const HANGS: Duration = Duration::from_secs(15 * 60);

/// Runs the tests, as the whole `main` of a test program.
///
/// `target_tmpdir` is `env!("CARGO_TARGET_TMPDIR")`: a directory on disk for files and images.
pub fn run(target_tmpdir: &str, cases: impl FnOnce() -> Vec<Case>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(threads);
    if !arguments.list
        && let Sandbox::Left(code) = sandbox::enter()
    {
        return code;
    }
    signals::start_programs_with_defaults();
    scratch::open(target_tmpdir);
    let mut cases = cases();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    // Tests that are named on the command line always run.
    let mut left_out = 0;
    if !Extent::from_env().is_full() && arguments.filter.is_none() && !arguments.list {
        left_out = cases.extract_if(.., |case| case.only_in_full).count();
    }
    let reasons = reasons(&cases, &arguments);
    let trials = in_turn(cases).into_iter().map(Case::into_trial).collect();
    hang::end_after(HANGS);
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        report_ignored(&reasons);
        report_short(left_out);
        report_slowest(arguments.test_threads == Some(1));
    }
    scratch::close();
    conclusion.exit_code()
}

/// Orders the tests: those that begin first, then every 32nd by name, then the neighbours of those, and so
/// on. Neighbours often wait for the same thing, such as a copy of limited speed, and the processors would
/// be idle while all threads wait.
fn in_turn(cases: Vec<Case>) -> Vec<Case> {
    let mut numbered: Vec<_> = cases.into_iter().enumerate().collect();
    numbered.sort_by_key(|(number, case)| (!case.begins_first, number % 32));
    numbered.into_iter().map(|(_, case)| case).collect()
}

/// Returns four times the number of CPUs: tests mostly wait for programs, times and disks. Twice the number for a user
/// whose memory that may be locked all tests share.
#[must_use]
pub fn threads() -> usize {
    let for_each = if locked_memory::is_unlimited() { 4 } else { 2 };
    for_each * std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn reasons(cases: &[Case], arguments: &Arguments) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for case in cases {
        let probe = Trial::test(case.name.clone(), || Ok(()));
        if let Some(reason) = case.unmet()
            && !arguments.is_filtered_out(&probe)
        {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    reasons
}

fn report_ignored(reasons: &BTreeMap<String, usize>) {
    if reasons.is_empty() || sandbox::root_is_asked_for() {
        return;
    }
    println!("{} tests were not run:", reasons.values().sum::<usize>());
    for (reason, count) in reasons {
        println!("  {count:4}  {reason}");
    }
    println!();
}

fn report_short(left_out: usize) {
    let finished = FINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let cut = finished.iter().filter(|run| run.is_cut_short).count();
    if cut + left_out > 0 {
        println!(
            "{cut} tests were cut short, and {left_out} that resemble others left out: \
             UNCOPY_TEST_FULL=1 runs them whole\n"
        );
    }
}

/// Prints the slowest tests if `UNCOPY_TEST_TIMES` has their number. With one thread (`--test-threads=1`)
/// they are ordered by processor time, which a busy machine does not change.
fn report_slowest(one_at_a_time: bool) {
    let Some(count) = std::env::var("UNCOPY_TEST_TIMES").ok().and_then(|text| text.parse().ok())
    else {
        return;
    };
    let mut finished = FINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let spent = |test: &Finished| if one_at_a_time { test.cpu } else { test.took };
    finished.sort_by_key(|test| std::cmp::Reverse(spent(test)));
    for test in finished.iter().take(count) {
        println!("{:8.2} s  {}", spent(test).as_secs_f64(), test.name);
    }
}

/// Returns the processor time of this process and of the children that it waited for (`utime` to
/// `cstime` in `proc_pid_stat(5)`).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_the_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks =
        behind_the_name.split(' ').skip(11).take(4).filter_map(|word| word.parse::<u64>().ok());
    let hertz = rustix::param::clock_ticks_per_second();
    Duration::from_millis(ticks.sum::<u64>() * 1000 / hertz)
}
