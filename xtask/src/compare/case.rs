//! Cases of a suite, and subjects of a case, which do the same thing.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;

use super::metric::Sample;
use super::verdict::Target;

/// A list of cases.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// How it was measured, for whoever reads the rows.
    pub(super) notes: Vec<String>,
    /// Subjects that no case can have, and why: peers that are not installed.
    pub(super) absent: Vec<(String, String)>,
    pub(super) cases: Vec<Case>,
}

/// Subjects that do the same thing under the same conditions.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) rounds: usize,
    /// The subject whose figures the others are set against.
    pub(super) baseline: &'static str,
    /// The subject that runs twice in each round: its second run against its first is the noise.
    pub(super) again: &'static str,
    pub(super) subjects: Vec<Subject>,
    pub(super) targets: Vec<Target>,
    pub(super) fixture: Box<dyn Fixture>,
}

/// One of those that are compared.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) action: Action,
}

impl Subject {
    /// A piece of this program whose `open` makes what `run` needs, once, when it is run for the
    /// first time. `run` gets the round.
    pub(super) fn piece<T: 'static>(
        name: &str,
        role: Role,
        open: impl Fn() -> Result<T> + 'static,
        mut run: impl FnMut(&mut T, usize) -> Result<Sample> + 'static,
    ) -> Subject {
        let mut opened = None;
        let action = Action::Closure(Box::new(move |trial| {
            let opened = match &mut opened {
                Some(opened) => opened,
                none => none.insert(open()?),
            };
            run(opened, trial.round)
        }));
        Subject { name: name.to_owned(), role, action }
    }
}

/// The role of a subject for targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// One of ours.
    Own,
    /// Another's; the fastest of them is "the best peer".
    Peer,
    /// A yardstick that does less than a copier has to, or the same in another order.
    Yardstick,
}

/// Makes the command line of a run.
pub(super) type CommandLine = dyn Fn(&Trial) -> Vec<OsString>;

/// A piece of this program, with what it cost.
pub(super) type Piece = dyn FnMut(&Trial) -> Result<Sample>;

/// The measured action.
pub(super) enum Action {
    /// A whole process, from its start to its end: this command line.
    Process(Box<CommandLine>),
    /// A piece of this program, which measures itself.
    Closure(Box<Piece>),
}

/// One run of one subject.
pub(super) struct Trial {
    /// From 0.
    pub(super) round: usize,
    /// A path that no run had before.
    pub(super) path: PathBuf,
}

/// Set-up and clean-up around the runs of a case, outside the measured time.
pub(super) trait Fixture {
    /// Before the first round. A reason means that the case cannot run here.
    fn prepare(&mut self) -> Result<Option<String>>;

    /// The directory in which the paths of trials lie. Each round has a folder of its own in it.
    fn directory(&self) -> PathBuf;

    /// Right before a run of `command` (empty for closures).
    fn before(&mut self, command: &[OsString]) -> Result<()>;

    /// Right after a run that claims success. Returns further metrics; fails if the claim is false.
    fn after(&mut self, trial: &Trial) -> Result<Sample>;

    /// After each round.
    fn between_rounds(&mut self, round: usize) -> Result<()>;

    /// After the last round.
    fn finish(&mut self) -> Result<()>;
}

/// Checks for the tests of every suite.
#[cfg(test)]
pub(super) mod assert {
    use super::Case;
    use crate::compare::verdict::{Against, Target};

    /// No two cases have one name, and each has its baseline.
    pub(in crate::compare) fn sound(cases: &[Case]) {
        let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len());
        for case in cases {
            let has_baseline = case.subjects.iter().any(|s| s.name == case.baseline);
            assert!(has_baseline, "{}", case.name);
        }
    }

    /// The case has this target, once: subject, limit, what it is set against. Returns it.
    pub(in crate::compare) fn target<'a>(
        cases: &'a [Case],
        case: &str,
        subject: &str,
        limit: f64,
        against: &Against,
    ) -> &'a Target {
        let targets = cases.iter().filter(|c| c.name == case).flat_map(|c| &c.targets);
        let mut found = targets.filter(|target| {
            target.subject == subject && target.limit == limit && target.against == *against
        });
        let first = found.next();
        assert!(found.next().is_none(), "{case} {subject}: twice");
        first.unwrap_or_else(|| panic!("{case} {subject}: no such target"))
    }
}
