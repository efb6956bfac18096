//! Workers with a queue, and the queue's server, killed and stopped at random until a plan is done; and a look at the copy by
//! a walk of its own. Without a server, plain processes of `uncopy unit run` are killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testbed::{Compared, NatsServer, Scratch, assert_same_tree, descendants, seeded};

use super::scene::Dice;
use crate::workspace;

/// Workers at once.
const WORKERS: usize = 4;

/// Entries of a unit.
const UNIT: u64 = 50;

/// Bytes of the largest of the small files.
const SMALL: u64 = 9000;

/// Bytes of files that are cut, and of a range.
const LARGE: u64 = (7 << 20) + 321;
const RANGE: &str = "--bytes=2Mi";

/// Longest pause between two kills.
const PAUSE: Duration = Duration::from_millis(400);

/// Every so many kills strike the server.
const SERVER_EVERY: u32 = 8;

/// Maximum time from the last kill to the end of the plan.
const PATIENCE: Duration = Duration::from_secs(300);

/// Programs and amounts of a soak.
pub(super) struct Plan<'a> {
    pub(super) uncopy: &'a Path,
    pub(super) fleet: &'a Path,
    pub(super) place: &'a Path,
    pub(super) kills: u32,
    pub(super) files: u64,
}

/// Numbers of a soak.
#[derive(Debug, Default, serde::Serialize)]
pub(super) struct Tally {
    /// Name of the part in the record.
    pub(super) what: &'static str,
    pub(super) files: u64,
    pub(super) units: u64,
    /// Workers that were killed, alone or with what they ran.
    pub(super) workers_killed: u32,
    /// Workers that were stopped for longer than the server waits, and went on.
    pub(super) workers_stopped: u32,
    pub(super) servers_killed: u32,
    /// Plans that were done until the kills were over.
    pub(super) plans: u32,
    /// Units that took more than one attempt.
    pub(super) again: u64,
}

/// Kills until there were so many kills, over as many plans as that takes.
///
/// # Errors
/// If a plan does not come to its end, or a copy differs.
pub(super) fn run(plan: &Plan<'_>, dice: &mut Dice) -> Result<Tally> {
    let mut tally = Tally { what: "kill", ..Tally::default() };
    while tally.workers_killed + tally.workers_stopped + tally.servers_killed < plan.kills {
        let job = Job::new(plan)?;
        match workspace::find_program("nats-server").is_some() {
            true => job.with_queue(plan, dice, &mut tally)?,
            false => job.without_queue(plan, dice, &mut tally)?,
        }
        job.check(&mut tally)?;
        tally.plans += 1;
        println!("  {tally:?}");
    }
    Ok(tally)
}

/// A tree, and a plan of its copy.
struct Job<'a> {
    plan: &'a Plan<'a>,
    home: Scratch,
}

impl Job<'_> {
    fn new<'a>(plan: &'a Plan<'a>) -> Result<Job<'a>> {
        let job = Job { plan, home: Scratch::new_in(plan.place) };
        for number in 0..plan.files {
            let directory = job.source().join(format!("{}/{}", number % 23, number % 5));
            fs::create_dir_all(&directory)?;
            fs::write(directory.join(format!("{number}")), seeded(number, 0, number % SMALL))?;
            if number % 97 == 0 {
                fs::hard_link(
                    directory.join(format!("{number}")),
                    job.source().join(format!("linked{number}")),
                )?;
            }
        }
        for number in 0..2 {
            fs::write(job.source().join(format!("large{number}")), seeded(number, 7, LARGE))?;
        }
        let status = job
            .uncopy(&["unit", "plan", "-a", "-q", RANGE])
            .arg(format!("--files={UNIT}"))
            .args([job.source(), job.destination()])
            .arg("--out")
            .arg(job.directory())
            .status()?;
        ensure!(status.success(), "uncopy unit plan: {status}");
        Ok(job)
    }

    fn source(&self) -> PathBuf {
        self.home.join("source")
    }

    fn destination(&self) -> PathBuf {
        self.home.join("destination")
    }

    fn directory(&self) -> PathBuf {
        self.home.join("plan")
    }

    fn uncopy(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.plan.uncopy);
        command.args(words).stdin(Stdio::null());
        command
    }

    fn fleet(&self, name: &str, url: &str) -> Command {
        let mut command = Command::new(self.plan.fleet);
        command.arg(name).arg(self.directory()).args(["--server", url]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn status(&self) -> Result<Value> {
        let output = self.uncopy(&["unit", "status", "--json"]).arg(self.directory()).output()?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn is_complete(&self) -> Result<bool> {
        Ok(self.status()?["complete"] == true)
    }

    fn submit(&self, url: &str) -> Result<()> {
        let status = self.fleet("submit", url).arg("--ack-wait=1s").status()?;
        ensure!(status.success(), "uncopy fleet submit: {status}");
        Ok(())
    }

    fn with_queue(&self, plan: &Plan<'_>, dice: &mut Dice, tally: &mut Tally) -> Result<()> {
        let mut server = NatsServer::start();
        let url = server.url();
        self.submit(&url)?;
        let start = || {
            let mut command = self.fleet("work", &url);
            command.args(["--jobs=2", "--max-deliver=100000", "--program"]).arg(plan.uncopy);
            Workers::start(command)
        };
        let mut workers = Workers::default();
        for _ in 0..WORKERS {
            workers.0.push(start()?);
        }
        let mut begun = Instant::now();
        loop {
            let kills = tally.workers_killed + tally.workers_stopped + tally.servers_killed;
            if kills >= plan.kills || self.is_complete()? {
                break;
            }
            sleep(PAUSE.mul_f64(dice.fraction()));
            let victim = dice.pick(&[0, 1, 2, 3]);
            let worker = &mut workers.0[victim];
            let runs = worker.try_wait()?.is_none();
            match dice.pick(&[Signal::KILL, Signal::KILL, Signal::STOP]) {
                _ if kills % SERVER_EVERY == SERVER_EVERY - 1 => {
                    server.kill();
                    server.restart();
                    tally.servers_killed += 1;
                }
                Signal::KILL if runs => {
                    let all = dice.pick(&[true, false]);
                    signal(worker, Signal::KILL, all)?;
                    worker.wait()?;
                    tally.workers_killed += 1;
                }
                Signal::STOP if runs => {
                    signal(worker, Signal::STOP, true)?;
                    sleep(Duration::from_millis(1500));
                    signal(worker, Signal::CONT, true)?;
                    tally.workers_stopped += 1;
                }
                _ => {}
            }
            for worker in &mut workers.0 {
                if worker.try_wait()?.is_some() {
                    *worker = start()?;
                }
            }
            begun = Instant::now();
        }
        while !self.is_complete()? {
            ensure!(begun.elapsed() < PATIENCE, "the plan does not end: {}", self.status()?);
            // Whoever finds the queue empty ends; what a killed server lost is queued again.
            if workers.have_ended()? {
                self.submit(&url)?;
                for worker in &mut workers.0 {
                    *worker = start()?;
                }
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Kills processes that do units, with lists of what is left in the place of a queue.
    fn without_queue(&self, plan: &Plan<'_>, dice: &mut Dice, tally: &mut Tally) -> Result<()> {
        let begun = Instant::now();
        while !self.is_complete()? {
            ensure!(begun.elapsed() < PATIENCE, "the plan does not end: {}", self.status()?);
            let listed = self.uncopy(&["unit", "retry"]).arg(self.directory()).output()?.stdout;
            let listed = String::from_utf8(listed).context("names of a soak are UTF-8")?;
            let units: Vec<&str> = listed.lines().collect();
            let mut workers = Workers::default();
            for _ in 0..WORKERS {
                let mut command = self.uncopy(&["unit", "run", "-q"]);
                command.arg(dice.pick(&units)).stderr(Stdio::null());
                workers.0.push(Workers::start(command)?);
            }
            sleep(Duration::from_millis(30).mul_f64(dice.fraction()));
            let is_over = tally.workers_killed >= plan.kills;
            for worker in workers.0.iter_mut() {
                if !is_over && worker.try_wait()?.is_none() && dice.pick(&[true, false]) {
                    signal(worker, Signal::KILL, true)?;
                    tally.workers_killed += 1;
                }
                worker.wait()?;
            }
        }
        Ok(())
    }

    /// Compares the copy with its source, and counts what the ledger has.
    fn check(&self, tally: &mut Tally) -> Result<()> {
        let ledgers = self.destination().join(".uncopy-ledger");
        let ledger = fs::read_dir(&ledgers)?.next().context("there is a ledger")??.path();
        for entry in fs::read_dir(&ledger)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".json") && !name.ends_with(".failed.json") {
                let record: Value = serde_json::from_slice(&fs::read(&path)?)?;
                tally.units += 1;
                tally.again += u64::from(record["attempt"].as_u64() > Some(1));
            }
        }
        tally.files += self.plan.files;
        let modified = fs::metadata(self.destination())?.modified()?;
        fs::remove_dir_all(&ledgers)?;
        // A killed attempt may leave the old or the unfinished file under a name of its own.
        remove_leftovers(&self.destination())?;
        File::open(self.destination())?.set_modified(modified)?;
        let compared = Compared { modes: true, ..Compared::default() };
        let (source, destination) = (self.source(), self.destination());
        let same = std::panic::catch_unwind(|| assert_same_tree(&source, &destination, compared));
        ensure!(same.is_ok(), "the copy differs");
        Ok(())
    }
}

/// Removes files that a killed process left.
fn remove_leftovers(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            remove_leftovers(&entry.path())?;
        } else if name.starts_with(".uncopy-") && name.ends_with(".tmp") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Processes that end with this.
#[derive(Default)]
struct Workers(Vec<Child>);

impl Workers {
    fn start(mut command: Command) -> Result<Child> {
        command.spawn().with_context(|| format!("cannot start {command:?}"))
    }

    fn have_ended(&mut self) -> Result<bool> {
        for worker in &mut self.0 {
            match worker.try_wait()? {
                None => return Ok(false),
                Some(status) if matches!(status.code(), None | Some(0 | 10)) => {}
                Some(status) => bail!("a worker ended with {status}"),
            }
        }
        Ok(true)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            if worker.try_wait().is_ok_and(|ended| ended.is_none()) {
                let _ = signal(worker, Signal::KILL, true);
                let _ = worker.wait();
            }
        }
    }
}

/// Sends a signal to a worker, and to what it runs if `all`.
fn signal(worker: &Child, signal: Signal, all: bool) -> Result<()> {
    let below = if all { descendants(worker.id()) } else { Vec::new() };
    for process in std::iter::once(worker.id()).chain(below) {
        let id = Pid::from_raw(process.try_into()?).context("a process has a number")?;
        // It may have ended.
        let _ = kill_process(id, signal);
    }
    Ok(())
}
