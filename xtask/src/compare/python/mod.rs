//! The suite `python`: the functions of the Python package beside those of the standard library, each in a process of
//! Python that goes on from run to run.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::brief::{BriefRuns, Options};
use super::case::{Case, Role, Subject, Suite};
use super::metric::{Sample, TIME_EACH};
use super::verdict::{Target, at_most};

const SHUTIL: &str = "shutil";
const UNCOPY: &str = "uncopy";
const PIPE: &str = "pipe";
const SHARED_MEMORY: &str = "shared_memory";

/// Divisor of all sizes in quick runs.
const QUICK_DIVISOR: u32 = 64;

/// The suite, in processes of `python`.
pub(super) fn suite(options: Options, python: &Path) -> Suite {
    let divisor = if options.quick { QUICK_DIVISOR } else { 1 };
    let directory = options.directory.clone();
    let runs = BriefRuns::new(options, Duration::from_secs(1), 15);
    let notes = runs.notes(&[
        "time: of one call, in a process of Python that makes the calls of all rounds; its start and imports are not in it",
        "small: 4 KiB, the mean of 200 calls, to new names or to files that were flushed, which shutil writes into and uncopy replaces, or \
         writes into with in_place; large: 1 GiB from the page cache to \
         a new name; tree: 10,000 files of 4 KiB in 100 directories. The filesystem is flushed before each run; small files \
         and trees are not deleted, because ext4 is slow to use the inodes of files that were just deleted",
        "array: 64 MiB from a bytearray to another process, which reads a byte of each page and answers; shared_memory: made \
         for each run, as a program does that gives the memory away",
    ]);
    let cases = Cases { runs, directory, python: python.to_owned(), divisor };
    Suite { name: "python", notes, absent: Vec::new(), cases: cases.all() }
}

struct Cases {
    runs: BriefRuns,
    directory: PathBuf,
    python: PathBuf,
    divisor: u32,
}

impl Cases {
    fn all(&self) -> Vec<Case> {
        let disk = self.directory.as_path();
        let mut cases = vec![
            self.copying("ext4/4KiB/new", "small/new", disk, 1.1),
            self.copying("ext4/4KiB/replacing", "small/replacing", disk, 0.9),
            self.copying("ext4/4KiB/in_place", "small/in_place", disk, 0.9),
            self.copying("ext4/1GiB", "large", disk, 0.8),
            self.copying("ext4/10000x4KiB", "tree", disk, 0.4),
            self.array(),
        ];
        if rustix::process::geteuid().is_root() {
            cases.push(self.copying(
                "xfs/1GiB/reflink",
                "large",
                &testbed::Place::Xfs.path(),
                0.02,
            ));
        }
        cases
    }

    /// A case of the functions of `shutil` and ours, with the most that ours may take of theirs.
    fn copying(&self, name: &str, case: &'static str, place: &Path, limit: f64) -> Case {
        let subjects = vec![
            self.subject(SHUTIL, Role::Peer, case, place),
            self.subject(UNCOPY, Role::Own, case, place),
        ];
        self.case(name, SHUTIL, subjects, vec![at_most(limit, TIME_EACH, UNCOPY, SHUTIL)])
    }

    fn array(&self) -> Case {
        let place = &self.directory;
        let subjects = vec![
            self.subject(PIPE, Role::Peer, "array", place),
            self.subject(SHARED_MEMORY, Role::Peer, "array", place),
            self.subject(UNCOPY, Role::Own, "array", place),
        ];
        self.case("array/64MiB", PIPE, subjects, Vec::new())
    }

    fn case(
        &self,
        name: &str,
        baseline: &'static str,
        subjects: Vec<Subject>,
        targets: Vec<Target>,
    ) -> Case {
        self.runs.case(name.to_owned(), baseline, subjects, targets)
    }

    fn subject(&self, name: &'static str, role: Role, case: &'static str, place: &Path) -> Subject {
        let directory = place.join("python").join(case.replace('/', "-")).join(name);
        let (python, divisor) = (self.python.clone(), self.divisor);
        let open = move || Driver::start(&python, &[case, name], &directory, divisor);
        Subject::piece(name, role, open, |driver: &mut Driver, _| driver.run())
    }
}

/// A process of Python that does one thing again and again.
struct Driver {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Driver {
    fn start(python: &Path, names: &[&str], directory: &Path, divisor: u32) -> Result<Driver> {
        let program = crate::workspace::root().join("xtask/src/compare/python/driver.py");
        let mut command = Command::new(python);
        command.arg(program).args(names).arg(directory).arg(divisor.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let (orders, answers) = orders.zip(answers).context("no pipes to Python")?;
        let mut driver = Driver { child, orders, answers: BufReader::new(answers) };
        match driver.answer()?.as_str() {
            "ready" => Ok(driver),
            other => bail!("Python answers {other:?}"),
        }
    }

    fn run(&mut self) -> Result<Sample> {
        writeln!(self.orders).context("Python has ended")?;
        let nanoseconds: f64 = self.answer()?.parse().context("Python does not answer a number")?;
        Ok([(TIME_EACH, nanoseconds)].into())
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("cannot read from Python")?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It ends when there are no more orders; it is not waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
