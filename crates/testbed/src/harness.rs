//! Tests that say what they need, and a run that says what it left out.

use std::collections::BTreeMap;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::place::{Place, disk_is_a_bare_device};
use crate::process::find_tool;
use crate::sandbox::{self, Sandbox};
use crate::scratch;

/// Something without which a test cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// `UNCOPY_TEST_ROOT=1` and user id 0.
    Root,
    /// A program.
    Tool(&'static str),
    /// A place to copy from or to.
    At(Place),
    /// [`Place::Disk`] lies on ext4 or XFS directly on a device, with nothing stacked between.
    BareDevice,
}

impl Need {
    /// Why it is not met. `None`: it is.
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
            Need::At(place) => place.needs().iter().find_map(|need| need.unmet()),
            Need::BareDevice if disk_is_a_bare_device() => None,
            Need::BareDevice => Some(
                "needs UNCOPY_TEST_DIR on ext4 or XFS directly on a device (no loop, dm, md)"
                    .to_owned(),
            ),
        }
    }
}

/// One test.
pub struct Case {
    name: String,
    needs: Vec<Need>,
    body: Box<dyn FnOnce() + Send>,
    /// What can be run on another filesystem too.
    function: Option<fn()>,
}

impl Case {
    /// A test of this name; it fails by panicking.
    pub fn new(
        name: impl Into<String>,
        needs: &[Need],
        body: impl FnOnce() + Send + 'static,
    ) -> Case {
        let (name, needs) = (name.into(), needs.to_vec());
        Case { name, needs, body: Box::new(body), function: None }
    }

    /// A test that [`on_each_filesystem`] can run several times.
    pub fn of(name: impl Into<String>, needs: &[Need], function: fn()) -> Case {
        Case { function: Some(function), ..Case::new(name, needs, function) }
    }

    /// The same test with `place` for its [`Place::Disk`], under a name that says so.
    fn on(&self, place: Place) -> Option<Case> {
        let function = self.function.filter(|_| !self.names_a_place())?;
        let needs = [&self.needs[..], &[Need::At(place)]].concat();
        let name = format!("{}::on_{}", self.name, format!("{place:?}").to_lowercase());
        Some(Case::new(name, &needs, move || place.in_place_of_the_disk(function)))
    }

    fn names_a_place(&self) -> bool {
        self.needs.iter().any(|need| matches!(need, Need::At(_)))
    }

    fn unmet(&self) -> Option<String> {
        self.needs.iter().find_map(|need| need.unmet())
    }

    fn into_trial(self) -> Trial {
        let Some(reason) = self.unmet() else {
            let body = self.body;
            return Trial::test(self.name, move || {
                body();
                Ok(())
            });
        };
        if sandbox::root_is_asked_for() {
            return Trial::test(self.name, move || Err(Failed::from(reason)));
        }
        Trial::ignorable_test(self.name, move || Ok(Completion::ignored_with(reason)))
    }
}

/// These, and each of them on ext4, XFS and btrfs too: on those that [`Place::Disk`] does not lie on
/// itself. One that names a place already has its own; those whose names end in one of `once` stay
/// alone.
#[must_use]
pub fn on_each_filesystem(cases: Vec<Case>, once: &[&str]) -> Vec<Case> {
    let places = Place::beside_the_disk();
    let on = |case: &Case| places.iter().filter_map(|place| case.on(*place)).collect::<Vec<_>>();
    let is_once = |case: &Case| once.iter().any(|name| case.name.ends_with(name));
    let repeated = cases.iter().filter(|case| !is_once(case));
    let others = repeated.flat_map(on).collect::<Vec<_>>();
    cases.into_iter().chain(others).collect()
}

/// Runs the tests: the whole of a test program's `main`.
///
/// `target_tmpdir` is `env!("CARGO_TARGET_TMPDIR")`: a directory on disk for files and images.
pub fn run(target_tmpdir: &str, cases: impl FnOnce() -> Vec<Case>) -> ExitCode {
    let arguments = Arguments::from_args();
    if !arguments.list
        && let Sandbox::Left(code) = sandbox::enter()
    {
        return code;
    }
    scratch::open(target_tmpdir);
    let mut cases = cases();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    let reasons = reasons(&cases, &arguments);
    let trials = cases.into_iter().map(Case::into_trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        report_ignored(&reasons);
    }
    scratch::close();
    conclusion.exit_code()
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
