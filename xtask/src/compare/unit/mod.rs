//! The suite `unit`: plans beside a walk that only looks, units beside the copies that they consist of, and workers beside one
//! copy of the whole tree.

mod fixture;
pub(crate) mod walk;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::case::{Action, Case, Role, Subject, Suite, Trial};
use super::metric::{PEAK_MEMORY, WALL, WALL_BEYOND};
use super::verdict::{Against, Target, at_most};
use crate::process::run_measured;
use fixture::{Shape, Source, UnitFixture, plan_beside};

/// Programs and arguments of the suite.
pub(super) struct Options {
    pub(super) uncopy: PathBuf,
    /// A directory for files, on disk.
    pub(super) disk: PathBuf,
    pub(super) quick: bool,
    pub(super) rounds: Option<usize>,
}

impl Options {
    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { usual })
    }

    fn judged(&self, targets: Vec<Target>) -> Vec<Target> {
        if self.quick { Vec::new() } else { targets }
    }
}

const WALK: &str = "bare walk";
const PLAN: &str = "uncopy unit plan";
const COPY: &str = "uncopy cp -r --durable";
const RUN: &str = "uncopy unit run";
const BEYOND: &str = "uncopy unit run beyond uncopy cp -r --durable";
const COPY_4: &str = "uncopy cp -r -j4 --durable";
const WORKERS: &str = "4 workers";

/// Memory that a plan may take, however many entries it has.
const MAX_MEMORY: f64 = (64 << 20) as f64;

/// Seconds that a unit may take beyond its copies.
const MAX_BEYOND: f64 = 0.003;

/// Does all units of a plan, four at a time, and the last one when the others are done.
const DO_ALL: &str = r#"
"$0" unit retry "$1" | xargs -r -n1 -P4 "$0" unit run -q 2>/dev/null
"$0" unit retry "$1" | xargs -r -n1 "$0" unit run -q"#;

/// The suite.
pub(super) fn suite(options: &Options) -> Suite {
    let mut notes: Vec<String> = [
        "wall, peak_memory: of whole processes, with their start; all on ext4 in an image on a loop device with direct I/O, which \
         other writers of the disk below it slow down",
        "planning: a million empty files in a thousand directories, all in the page cache; no destination. bare walk: as many \
         threads as processors, no system call but openat, getdents and statx (1 for each entry), nothing written",
        "one: 100 files of 4 KiB in one directory, which the destination has, so that cp -r flushes each of them too; the plan is \
         made before. wall_beyond: of the unit, less that of the copy, which ran right before or behind it",
        "workers: 20,000 files of 4 KiB in 200 directories. 4 workers: uncopy unit retry | xargs -n1 -P4 uncopy unit run, over units \
         of 1,000, and then the last unit; the plan is made before",
        "rounds are interleaved in an order shuffled anew in each; every destination is new; after each run its filesystem is \
         flushed; in the first round copies are compared with the source",
    ]
    .map(str::to_owned)
    .to_vec();
    if options.quick {
        notes.push("quick: two rounds, a fiftieth of the files, no target is judged".to_owned());
    }
    let cases = vec![planning(options), one(options), workers(options)];
    Suite { name: "unit", notes, absent: Vec::new(), cases }
}

fn planning(options: &Options) -> Case {
    let source = Source::default();
    let uncopy = options.uncopy.clone();
    let xtask = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let walk = process(&source, move |from, _| words(&xtask, &["walk-bare"], &[from]));
    let plan = process(&source, move |from, path| {
        let destination = from.with_file_name("no destination");
        words(&uncopy, &["unit", "plan", "-q", "--out"], &[path, from, &destination])
    });
    let subjects = vec![
        Subject { name: WALK.to_owned(), role: Role::Yardstick, action: walk },
        Subject { name: PLAN.to_owned(), role: Role::Own, action: plan },
    ];
    let targets = vec![
        at_most(1.3, WALL, PLAN, WALK),
        Target {
            subject: PLAN.to_owned(),
            metric: PEAK_MEMORY,
            against: Against::Nothing,
            limit: MAX_MEMORY,
            band: 0.0,
        },
    ];
    let shape = Shape { directories: 1000, files: 1000, bytes: 0 };
    Case {
        name: "ext4/planning/1000000".to_owned(),
        rounds: options.rounds(9),
        baseline: WALK,
        again: WALK,
        subjects,
        targets: options.judged(targets),
        fixture: Box::new(UnitFixture::new(shape, source, options)),
    }
}

fn one(options: &Options) -> Case {
    let source = Source::default();
    let uncopy = Rc::new(options.uncopy.clone());
    let copy = {
        let uncopy = Rc::clone(&uncopy);
        process(&source, move |from, path| copy_words(&uncopy, &[], from, path))
    };
    let run = {
        let uncopy = Rc::clone(&uncopy);
        process(&source, move |_, path| run_words(&uncopy, &plan_beside(path)))
    };
    let beyond = {
        let source = Rc::clone(&source);
        Action::Closure(Box::new(move |trial: &Trial| {
            let from = source.get().cloned().unwrap_or_default();
            let copied = trial.path.with_extension("copied");
            let prepared = trial.path.with_extension("beyond");
            fixture::make_plan(&uncopy, &from, &prepared, &[])?;
            std::fs::create_dir_all(copied.join("0"))?;
            let commands = [
                copy_words(&uncopy, &[], &from, &copied),
                run_words(&uncopy, &plan_beside(&prepared)),
            ];
            let mut seconds = [0.0; 2];
            // Whatever the first one leaves to the disk is paid by both in turn.
            for index in [trial.round % 2, 1 - trial.round % 2] {
                seconds[index] = run_measured(&commands[index])?.wall_seconds;
            }
            Ok([(WALL_BEYOND, seconds[1] - seconds[0])].into())
        }))
    };
    let subjects = vec![
        Subject { name: COPY.to_owned(), role: Role::Own, action: copy },
        Subject { name: RUN.to_owned(), role: Role::Own, action: run },
        Subject { name: BEYOND.to_owned(), role: Role::Own, action: beyond },
    ];
    let targets = vec![Target {
        subject: BEYOND.to_owned(),
        metric: WALL_BEYOND,
        against: Against::Nothing,
        limit: MAX_BEYOND,
        band: 0.0,
    }];
    let shape = Shape { directories: 1, files: 100, bytes: 4096 };
    Case {
        name: "ext4/one/100x4KiB".to_owned(),
        rounds: options.rounds(41),
        baseline: COPY,
        again: COPY,
        subjects,
        targets: options.judged(targets),
        fixture: Box::new(UnitFixture::new(shape, source, options)),
    }
}

fn workers(options: &Options) -> Case {
    let source = Source::default();
    let uncopy = options.uncopy.clone();
    let copy = process(&source, move |from, path| copy_words(&uncopy, &["-j4"], from, path));
    let uncopy = options.uncopy.clone();
    let workers = process(&source, move |_, path| {
        words(Path::new("sh"), &["-c", DO_ALL], &[&uncopy, &plan_beside(path)])
    });
    let subjects = vec![
        Subject { name: COPY_4.to_owned(), role: Role::Own, action: copy },
        Subject { name: WORKERS.to_owned(), role: Role::Own, action: workers },
    ];
    let targets = vec![at_most(1.1, WALL, WORKERS, COPY_4)];
    let shape = Shape { directories: 200, files: 100, bytes: 4096 };
    Case {
        name: "ext4/workers/20000x4KiB".to_owned(),
        rounds: options.rounds(11),
        baseline: COPY_4,
        again: COPY_4,
        subjects,
        targets: options.judged(targets),
        fixture: Box::new(UnitFixture::new(shape, source, options)),
    }
}

/// Makes the action of a process, whose command is made of the source and of the path of a trial.
fn process(source: &Source, command: impl Fn(&Path, &Path) -> Vec<OsString> + 'static) -> Action {
    let source = Rc::clone(source);
    Action::Process(Box::new(move |trial: &Trial| {
        command(source.get().map_or(Path::new(""), |path| path), &trial.path)
    }))
}

fn words(program: &Path, flags: &[&str], paths: &[&Path]) -> Vec<OsString> {
    let flags = flags.iter().map(OsString::from);
    let paths = paths.iter().map(OsString::from);
    [program.into()].into_iter().chain(flags).chain(paths).collect()
}

fn copy_words(uncopy: &Path, further: &[&str], from: &Path, to: &Path) -> Vec<OsString> {
    words(uncopy, &[&["cp", "-rT", "--durable"], further].concat(), &[from, to])
}

fn run_words(uncopy: &Path, plan: &Path) -> Vec<OsString> {
    words(uncopy, &["unit", "run", "-q"], &[&plan.join("units/000000.jsonl")])
}

#[cfg(test)]
mod tests {
    use super::super::case::assert;
    use super::*;

    #[test]
    fn what_units_may_cost_is_judged() {
        let options =
            Options { uncopy: PathBuf::new(), disk: PathBuf::new(), quick: false, rounds: None };
        let cases = suite(&options).cases;
        assert::sound(&cases);
        let against = |name: &str| Against::Subject(name.to_owned());
        assert::target(&cases, "ext4/planning/1000000", PLAN, 1.3, &against(WALK));
        assert::target(&cases, "ext4/planning/1000000", PLAN, MAX_MEMORY, &Against::Nothing);
        assert::target(&cases, "ext4/one/100x4KiB", BEYOND, MAX_BEYOND, &Against::Nothing);
        assert::target(&cases, "ext4/workers/20000x4KiB", WORKERS, 1.1, &against(COPY_4));
    }
}
