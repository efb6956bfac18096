//! A tree, a plan of its copy, and the programs that do it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testbed::{
    Compared, LONG, Machine, Place, Program, Run, Scratch, Sshd, assert_same_tree, descendants,
    seeded,
};

/// Name by which the test program is `uncopy`.
pub(crate) const UNCOPY: &str = "uncopy";

/// Root that is on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum There {
    Source,
    Destination,
}

/// A source, a destination, and the directory of a plan.
pub(crate) struct Work {
    pub(crate) scratch: Scratch,
    directory: PathBuf,
    there: Option<There>,
    environment: Vec<(&'static str, OsString)>,
}

impl Work {
    pub(crate) fn new() -> Work {
        Work::planned_in("plan")
    }

    /// Makes one whose plan has this name.
    pub(crate) fn planned_in(name: impl AsRef<OsStr>) -> Work {
        Work::made_in(Place::Disk.scratch(), name)
    }

    /// Makes one on a filesystem.
    pub(crate) fn at(place: Place) -> Work {
        Work::made_in(place.scratch(), "plan")
    }

    fn made_in(scratch: Scratch, name: impl AsRef<OsStr>) -> Work {
        let directory = scratch.join(Path::new(name.as_ref()));
        symlink(std::env::current_exe().unwrap(), scratch.join(UNCOPY)).unwrap();
        fs::create_dir(scratch.join("source")).unwrap();
        Work { scratch, directory, there: None, environment: Vec::new() }
    }

    /// Makes one with a root on the machine of a server, which is this one.
    pub(crate) fn between(there: There, sshd: &Sshd) -> Work {
        let mut work = Work::new();
        let shell = format!("ssh -F '{}'", sshd.client_config().display());
        work.there = Some(there);
        work.environment =
            vec![("UNCOPY_RSH", shell.into()), ("UNCOPY_REMOTE_PROGRAM", work.uncopy().into())];
        work
    }

    /// Lets no program log in on the other machine any more, or all of them again.
    pub(crate) fn set_remote_shell(&mut self, shell: impl Into<OsString>) -> OsString {
        std::mem::replace(&mut self.environment[0].1, shell.into())
    }

    /// Gives a program what it needs to log in on the other machine.
    pub(crate) fn in_environment(&self, program: Program) -> Program {
        self.environment.iter().fold(program, |program, (name, value)| program.env(name, value))
    }

    fn root(&self, path: PathBuf, root: There) -> OsString {
        match self.there == Some(root) {
            true => [OsStr::new("[::1]:"), path.as_os_str()].into_iter().collect(),
            false => path.into(),
        }
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.scratch.join("source")
    }

    pub(crate) fn destination(&self) -> PathBuf {
        self.scratch.join("destination")
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The program `uncopy`.
    pub(crate) fn uncopy(&self) -> PathBuf {
        self.scratch.join(UNCOPY)
    }

    /// Makes files in several directories, some with several names.
    pub(crate) fn fill(&self, files: u64) {
        for number in 0..files {
            let directory = self.source().join(format!("d{}/e{}", number % 7, number % 3));
            fs::create_dir_all(&directory).unwrap();
            let contents = seeded(number, 0, 1 + number * 7 % 5000);
            fs::write(directory.join(format!("f{number}")), contents).unwrap();
        }
        fs::hard_link(self.source().join("d0/e0/f0"), self.source().join("twin")).unwrap();
    }

    pub(crate) fn plan(&self, flags: &[&str]) {
        let program = Program::new(self.uncopy())
            .args(["unit", "plan", "-a", "-q", "--out"])
            .arg(&self.directory)
            .args(flags)
            .arg(self.root(self.source(), There::Source))
            .arg(self.root(self.destination(), There::Destination));
        let run = self.in_environment(program).run();
        assert!(run.status.success(), "{}{}", run.stderr, run.stdout);
    }

    /// Files of the units, in order.
    pub(crate) fn units(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.join("units")).unwrap();
        let mut units: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        units.sort();
        units
    }

    /// Returns the number of the unit that has a file.
    pub(crate) fn unit_of(&self, path: &str) -> usize {
        let has = |unit: &PathBuf| {
            fs::read_to_string(unit).unwrap().contains(&format!("\"path\":\"{path}\""))
        };
        self.units().iter().position(has).unwrap()
    }

    /// State of the plan by its ledger.
    pub(crate) fn status(&self) -> Value {
        let program = Program::new(self.uncopy()).args(["unit", "status", "--json"]);
        let run = self.in_environment(program.arg(&self.directory)).run();
        serde_json::from_str(&run.stdout).unwrap()
    }

    /// Does a unit without any engine.
    pub(crate) fn run_unit(&self, unit: &Path) -> Run {
        let program = Program::new(self.uncopy()).args(["unit", "run"]).arg(unit);
        self.in_environment(program).run()
    }

    /// Whether the ledger has a file with this name.
    pub(crate) fn has_in_ledger(&self, name: &str) -> bool {
        let ledgers = fs::read_dir(self.destination().join(".uncopy-ledger"));
        ledgers.into_iter().flatten().flatten().any(|ledger| ledger.path().join(name).exists())
    }

    /// Number of the last attempt of a unit in the ledger.
    pub(crate) fn attempt(&self, unit: &str) -> u64 {
        let ledgers = fs::read_dir(self.destination().join(".uncopy-ledger"));
        let mut ledgers = ledgers.into_iter().flatten().flatten();
        let read =
            |ledger: fs::DirEntry| fs::read(ledger.path().join(format!("{unit}.epoch"))).ok();
        let text = ledgers.find_map(read).unwrap_or_default();
        let attempt: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        attempt["number"].as_u64().unwrap_or(0)
    }

    /// Checks that every unit has a record, and that the copy is whole, by a walk of its own.
    #[track_caller]
    pub(crate) fn assert_done(&self) {
        let status = self.status();
        assert_eq!(status["complete"], true, "{status}");
        self.assert_same(Compared { modes: true, times: true, ..Compared::default() });
    }

    #[track_caller]
    pub(crate) fn assert_same(&self, compared: Compared) {
        // The source has no ledger.
        let modified = fs::metadata(self.destination()).unwrap().modified().unwrap();
        fs::remove_dir_all(self.destination().join(".uncopy-ledger")).unwrap();
        File::open(self.destination()).unwrap().set_modified(modified).unwrap();
        assert_same_tree(&self.source(), &self.destination(), compared);
    }
}

/// The program under test.
pub(crate) fn fleet<I: IntoIterator<Item: AsRef<OsStr>>>(words: I) -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy-fleet")).args(words)
}

/// Messages of a run that must fail with this exit code, and say what to do.
#[track_caller]
pub(crate) fn failed(run: &Run, code: i32) -> &str {
    let said = run.failed(code);
    assert!(said.contains("; "), "no next step: {said}");
    said
}

/// A worker that runs beside the test; it is killed, with what it runs, when this is dropped.
pub(crate) struct Worker {
    child: Child,
    output: PathBuf,
}

impl Worker {
    /// Starts `uncopy fleet work`.
    pub(crate) fn start(work: &Work, uncopy: &Path, url: &str, flags: &[&str]) -> Worker {
        Worker::start_through(&[], work, uncopy, url, flags)
    }

    /// Starts `uncopy fleet work` on a machine.
    pub(crate) fn start_on(machine: &Machine, work: &Work, url: &str, flags: &[&str]) -> Worker {
        Worker::start_through(&machine.wrapper(), work, &work.uncopy(), url, flags)
    }

    /// Starts `uncopy fleet work` through a program, whose last arguments are the command line.
    fn start_through(
        wrapper: &[&str],
        work: &Work,
        uncopy: &Path,
        url: &str,
        flags: &[&str],
    ) -> Worker {
        let output = work.scratch.join("worker-output");
        let file = File::options().create(true).append(true).open(&output).unwrap();
        let mut words = wrapper.iter().copied().chain([env!("CARGO_BIN_EXE_uncopy-fleet")]);
        let child = Command::new(words.next().unwrap())
            .args(words)
            .arg("work")
            .arg(work.directory())
            .args(["--server", url, "--program"])
            .arg(uncopy)
            .args(flags)
            .envs(work.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Worker { child, output }
    }

    /// Sends a signal to it, and to what it runs.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let id = self.child.id();
        for process in [id].into_iter().chain(descendants(id)) {
            let _ = kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal);
        }
    }

    /// Sends a signal to it alone.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.wait_at_most(LONG)
    }

    /// Waits for its end, where much is left to do.
    #[track_caller]
    pub(crate) fn wait_at_most(&mut self, most: Duration) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            assert!(begun.elapsed() < most, "a worker goes on: {}", self.output());
            sleep(Duration::from_millis(5));
        }
    }

    /// Returns what all workers of the test printed.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal_all(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
