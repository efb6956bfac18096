//! Cases whose runs take milliseconds, within this program, with nothing around them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::case::{Case, Fixture, Subject, Trial};
use super::metric::Sample;
use super::verdict::Target;

const QUICK_TIME: Duration = Duration::from_millis(2);
const QUICK_ROUNDS: usize = 2;
const QUICK_PART: u32 = 20;

/// Options of a suite.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// A directory of the suite's own.
    pub(super) directory: PathBuf,
    /// Two short rounds, no targets: shows that everything runs.
    pub(super) quick: bool,
    /// Rounds of each case, instead of the usual number.
    pub(super) rounds: Option<usize>,
}

#[cfg(test)]
impl Options {
    /// For cases that are looked at and not run.
    pub(super) fn nowhere() -> Options {
        Options { directory: "/nonexistent".into(), quick: false, rounds: None }
    }
}

/// How long each subject runs, and how often.
#[derive(Debug, Clone)]
pub(super) struct BriefRuns {
    directory: PathBuf,
    /// Time of one run of one subject.
    pub(super) time: Duration,
    rounds: usize,
    quick: bool,
}

impl BriefRuns {
    /// Usually `rounds` runs of `time` each.
    pub(super) fn new(options: Options, time: Duration, rounds: usize) -> BriefRuns {
        let Options { directory, quick, rounds: wanted } = options;
        let (time, rounds) = if quick { (QUICK_TIME, QUICK_ROUNDS) } else { (time, rounds) };
        BriefRuns { directory, time, rounds: wanted.unwrap_or(rounds), quick }
    }

    /// The same with runs of `time`, in at most so many rounds; quick ones are a twentieth of it.
    pub(super) fn longer(&self, time: Duration, most_rounds: usize) -> BriefRuns {
        let time = if self.quick { time / QUICK_PART } else { time };
        BriefRuns { time, rounds: self.rounds.min(most_rounds), ..self.clone() }
    }

    /// A case in which the baseline is also what runs twice in each round.
    pub(super) fn case(
        &self,
        name: String,
        baseline: &'static str,
        subjects: Vec<Subject>,
        targets: Vec<Target>,
    ) -> Case {
        Case {
            name,
            rounds: self.rounds,
            baseline,
            again: baseline,
            subjects,
            targets: if self.quick { Vec::new() } else { targets },
            fixture: Box::new(Bare(self.directory.clone())),
        }
    }

    /// A suite's notes, and whether these runs are quick ones.
    pub(super) fn notes(&self, notes: &[&str]) -> Vec<String> {
        let mut notes: Vec<String> = notes.iter().copied().map(str::to_owned).collect();
        if self.quick {
            notes.push("quick: two rounds of runs of 2 ms, no target is judged".to_owned());
        }
        notes
    }
}

/// Nothing surrounds the runs but a directory that nobody looks into.
struct Bare(PathBuf);

impl Fixture for Bare {
    fn prepare(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    fn directory(&self) -> PathBuf {
        self.0.clone()
    }

    fn before(&mut self, _: &[OsString]) -> Result<()> {
        Ok(())
    }

    fn after(&mut self, _: &Trial) -> Result<Sample> {
        Ok(Sample::new())
    }

    fn between_rounds(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::TIME_EACH;
    use super::super::verdict::at_most;
    use super::*;

    fn runs(quick: bool, rounds: Option<usize>) -> BriefRuns {
        let options = Options { quick, rounds, ..Options::nowhere() };
        BriefRuns::new(options, Duration::from_millis(10), 41)
    }

    fn case(runs: &BriefRuns) -> Case {
        runs.case("c".into(), "a", Vec::new(), vec![at_most(1.0, TIME_EACH, "a", "b")])
    }

    #[test]
    fn quick_runs_are_short_and_judge_nothing() {
        let (usual, quick) = (runs(false, None), runs(true, None));
        assert_eq!((usual.time.as_millis(), quick.time.as_millis()), (10, 2));
        assert_eq!((case(&usual).rounds, case(&usual).targets.len()), (41, 1));
        assert_eq!((case(&quick).rounds, case(&quick).targets.len()), (2, 0));
        assert_eq!(usual.notes(&["x"]), ["x"]);
        assert_eq!(quick.notes(&["x"]).len(), 2);
    }

    #[test]
    fn longer_runs_are_fewer() {
        let longer = |quick, rounds| runs(quick, rounds).longer(Duration::from_secs(4), 5);
        assert_eq!((longer(false, None).time.as_millis(), longer(false, None).rounds), (4000, 5));
        assert_eq!(longer(false, Some(3)).rounds, 3);
        assert_eq!((longer(true, None).time.as_millis(), longer(true, None).rounds), (200, 2));
    }

    #[test]
    fn the_number_of_rounds_that_was_asked_for_holds() {
        assert_eq!(case(&runs(false, Some(7))).rounds, 7);
        assert_eq!(case(&runs(true, Some(7))).rounds, 7);
    }
}
