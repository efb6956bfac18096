//! Runs the subjects of a case in interleaved rounds.

use std::ffi::OsString;
use std::fs;

use anyhow::{Context, Result};

use super::case::{Action, Case, Role, Subject, Trial};
use super::metric::{Sample, sample_of};
use crate::process::run_measured;

/// Results of the rounds of one subject.
pub(super) struct Outcome {
    pub(super) subject: String,
    pub(super) role: Role,
    /// One for each round, none after a failure.
    pub(super) samples: Vec<Sample>,
    /// Why it did not come to the end.
    pub(super) failure: Option<String>,
}

/// The name of the second run of a subject in a round.
pub(super) fn name_again(subject: &str) -> String {
    format!("{subject} (again)")
}

/// Runs every round of a prepared case.
///
/// # Errors
/// If the fixture fails. A subject that fails is no error: it takes part no longer, and its outcome
/// says why.
pub(super) fn run(case: &mut Case) -> Result<Vec<Outcome>> {
    let mut entrants: Vec<usize> = (0..case.subjects.len()).collect();
    let again = case.subjects.iter().position(|subject| subject.name == case.again);
    entrants.extend(again);
    let mut outcomes: Vec<Outcome> =
        entrants.iter().map(|&index| empty_outcome(&case.subjects[index])).collect();
    if again.is_some()
        && let Some(second) = outcomes.last_mut()
    {
        second.subject = name_again(case.again);
        second.role = Role::Yardstick;
    }
    for round in 0..case.rounds {
        let directory = case.fixture.directory().join(format!("round-{round}"));
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        for entrant in shuffled(entrants.len(), round) {
            if outcomes[entrant].failure.is_some() {
                continue;
            }
            let trial = Trial { round, path: directory.join(format!("copy-{entrant}")) };
            match run_one(case, entrants[entrant], &trial)? {
                Ok(sample) => outcomes[entrant].samples.push(sample),
                Err(error) => outcomes[entrant].failure = Some(format!("{error:#}")),
            }
        }
        case.fixture.between_rounds(round)?;
    }
    Ok(outcomes)
}

fn empty_outcome(subject: &Subject) -> Outcome {
    Outcome {
        subject: subject.name.clone(),
        role: subject.role,
        samples: Vec::new(),
        failure: None,
    }
}

/// The outer result is the fixture's, the inner one the subject's.
fn run_one(case: &mut Case, index: usize, trial: &Trial) -> Result<Result<Sample>> {
    let action = &mut case.subjects[index].action;
    let command: Vec<OsString> = match action {
        Action::Process(command) => command(trial),
        Action::Closure(_) => Vec::new(),
    };
    case.fixture.before(&command)?;
    let measured = match action {
        Action::Process(_) => run_measured(&command).map(|cost| sample_of(&cost)),
        Action::Closure(closure) => closure(trial),
    };
    let mut sample = match measured {
        Ok(sample) => sample,
        Err(error) => return Ok(Err(error)),
    };
    let checked = case.fixture.after(trial);
    Ok(checked.context("it claims success").map(|further| {
        sample.extend(further);
        sample
    }))
}

/// An order of `count` entrants, another one in each round: Fisher and Yates' shuffle, driven by
/// splitmix64, so that a comparison can be repeated.
fn shuffled(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = round as u64;
    for last in (1..count).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        order.swap(last, ((word ^ (word >> 31)) % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::PathBuf;
    use std::rc::Rc;

    use super::super::case::Fixture;
    use super::super::metric::{DISK, Metric};
    use super::*;

    struct Journal(Rc<RefCell<Vec<String>>>, PathBuf);

    impl Fixture for Journal {
        fn prepare(&mut self) -> Result<Option<String>> {
            Ok(None)
        }
        fn directory(&self) -> PathBuf {
            self.1.clone()
        }
        fn before(&mut self, _: &[OsString]) -> Result<()> {
            self.0.borrow_mut().push("before".into());
            Ok(())
        }
        fn after(&mut self, trial: &Trial) -> Result<Sample> {
            self.0.borrow_mut().push("after".into());
            anyhow::ensure!(trial.path.exists(), "{} is not there", trial.path.display());
            Ok(Sample::from([(DISK, 7.0)]))
        }
        fn between_rounds(&mut self, round: usize) -> Result<()> {
            self.0.borrow_mut().push(format!("end of round {round}"));
            Ok(())
        }
        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    const STEPS: Metric = Metric { rank: 99, name: "steps", unit: "" };

    fn writes(name: &str) -> Subject {
        let action = Action::Closure(Box::new(|trial: &Trial| {
            anyhow::ensure!(!trial.path.exists(), "the path is not fresh");
            std::fs::write(&trial.path, b"x")?;
            Ok(Sample::from([(STEPS, trial.round as f64)]))
        }));
        Subject { name: name.into(), role: Role::Own, action }
    }

    fn lies(name: &str) -> Subject {
        let action = Action::Closure(Box::new(|_: &Trial| Ok(Sample::new())));
        Subject { name: name.into(), role: Role::Peer, action }
    }

    #[test]
    fn rounds_are_interleaved_paths_fresh_and_claims_checked() {
        let journal = Rc::new(RefCell::new(Vec::new()));
        let directory = tempfile::tempdir().unwrap();
        let mut case = Case {
            name: "c".into(),
            rounds: 3,
            baseline: "a",
            again: "a",
            subjects: vec![writes("a"), lies("b")],
            targets: Vec::new(),
            fixture: Box::new(Journal(Rc::clone(&journal), directory.path().to_owned())),
        };
        let outcomes = run(&mut case).unwrap();
        let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.subject.as_str()).collect();
        assert_eq!(names, ["a", "b", "a (again)"]);
        assert_eq!(outcomes[0].samples.len(), 3);
        assert_eq!(outcomes[2].samples[2][&STEPS], 2.0);
        assert_eq!(outcomes[0].samples[0][&DISK], 7.0);
        let failure = outcomes[1].failure.as_deref().unwrap();
        assert!(failure.starts_with("it claims success: "), "{failure}");
        assert!(outcomes[1].samples.is_empty());
        let runs = journal.borrow().iter().filter(|entry| *entry == "before").count();
        assert_eq!(runs, 3 * 2 + 1, "what failed takes part no longer");
    }

    #[test]
    fn orders_are_permutations_and_differ() {
        let orders: Vec<Vec<usize>> = (0..7).map(|round| shuffled(10, round)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert!(orders.windows(2).all(|pair| pair[0] != pair[1]), "{orders:?}");
    }
}
