//! `kill -9` at random moments of a job with a journal, and going on from it, until the tree is whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use testbed::{Compared, assert_same_tree};

use super::scene::Dice;
use super::span::{Clock, Span};

/// Some batches of the journal.
const SMALL_FILES: usize = 4500;
/// One that is noted chunk by chunk.
const LARGE_BYTES: u64 = (72 << 20) + 4321;

/// So slow that kills fall all over the job.
const RATE: &str = "--max-bandwidth=32Mi";

/// A job is killed at most so often before it is let through.
const MOST_KILLS: u32 = 6;

/// By the cheapest way, and by one that shares nothing.
const WAYS: [&str; 2] = ["--method=auto", "--method=read-write"];

/// What was seen in one place by one way.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    pub(super) place: String,
    pub(super) way: &'static str,
    /// Jobs, each killed several times and then let through.
    pub(super) jobs: u32,
    pub(super) killed: u32,
    /// Rounds, killed or not, that began with files noted in the journal.
    pub(super) resumed_rounds: u32,
    /// Files and bytes of large files that were not copied again.
    pub(super) resumed_files: u64,
    pub(super) resumed_bytes: u64,
    /// Files that were noted in the journal and copied all the same.
    pub(super) again: u64,
}

/// Kills processes for `span`, in each place and by each way in turn.
///
/// # Errors
/// If a tree appeared that is not whole, a file was lost, or something stayed behind.
pub(super) fn run(
    uncopy: &Path,
    places: &[(&'static str, PathBuf)],
    span: Span,
    dice: &mut Dice,
) -> Result<Vec<Tally>> {
    let mut tallies: Vec<Tally> = Vec::new();
    for (name, _) in places {
        for way in WAYS {
            tallies.push(Tally { place: (*name).to_owned(), way, ..Tally::default() });
        }
    }
    let mut clock = span.start();
    let mut turns = (0..tallies.len()).cycle();
    while let Some(number) = turns.next().filter(|_| clock.goes_on()) {
        let (name, place) = &places[number / WAYS.len()];
        let tally = &mut tallies[number];
        kill_and_finish(&Job::new(uncopy, place, tally.way)?, &mut clock, dice, tally)
            .with_context(|| format!("{name}, {}", tally.way))?;
    }
    for tally in &tallies {
        println!("  {}", serde_json::to_string(tally)?);
    }
    Ok(tallies)
}

/// Kills a job several times, of which the first has begun on the clock, and then lets it through.
fn kill_and_finish(
    job: &Job<'_>,
    clock: &mut Clock,
    dice: &mut Dice,
    tally: &mut Tally,
) -> Result<()> {
    let whole = job.duration()?;
    tally.jobs += 1;
    for kill in 0..MOST_KILLS {
        if kill > 0 && !clock.goes_on() {
            break;
        }
        let noted = job.noted();
        tally.resumed_rounds += u32::from(noted > 0);
        // What is left takes its part of the time, and a little to find that out.
        let left = 1.0 - noted as f64 / ALL_FILES as f64;
        if !job.killed_after(whole.mul_f64(dice.fraction() * left.max(0.1)))? {
            break;
        }
        tally.killed += 1;
    }
    let noted = job.noted();
    tally.resumed_rounds += u32::from(noted > 0);
    let [resumed, bytes] = job.finish()?;
    tally.resumed_files += resumed;
    tally.resumed_bytes += bytes;
    tally.again += noted.saturating_sub(resumed);
    println!("  {}, {}: {resumed} files and {bytes} bytes were done", tally.place, tally.way);
    Ok(())
}

const ALL_FILES: u64 = SMALL_FILES as u64 + 1;

struct Job<'a> {
    uncopy: &'a Path,
    way: &'static str,
    home: testbed::Scratch,
}

impl Job<'_> {
    fn new<'a>(uncopy: &'a Path, place: &Path, way: &'static str) -> Result<Job<'a>> {
        let job = Job { uncopy, way, home: testbed::Scratch::new_in(place) };
        for number in 0..SMALL_FILES {
            let directory = job.source().join(format!("{}", number % 25));
            fs::create_dir_all(&directory)?;
            let contents = testbed::seeded(number as u64, 0, (number % 9000) as u64);
            fs::write(directory.join(format!("{number}")), contents)?;
        }
        fs::write(job.source().join("large"), testbed::seeded(1, 7, LARGE_BYTES))?;
        Ok(job)
    }

    fn source(&self) -> PathBuf {
        self.home.join("source")
    }

    fn destination(&self) -> PathBuf {
        self.home.join("to/destination")
    }

    fn command(&self, destination: &Path) -> Result<Command> {
        fs::create_dir_all(destination.parent().context("it lies in a directory")?)?;
        let mut command = Command::new(self.uncopy);
        command.args(["cp", "-rpT", "--resume", "--json", RATE, self.way]);
        command.arg(self.source()).arg(destination);
        Ok(command)
    }

    /// How long a job takes that nobody kills.
    fn duration(&self) -> Result<Duration> {
        let elsewhere = self.home.join("rehearsal/destination");
        let begin = Instant::now();
        let status = self.command(&elsewhere)?.stdout(Stdio::null()).status()?;
        ensure!(status.success(), "a job that nobody killed failed");
        let took = begin.elapsed();
        fs::remove_dir_all(self.home.join("rehearsal"))?;
        Ok(took)
    }

    /// Starts the job and kills it; `false`: it had ended before.
    fn killed_after(&self, delay: Duration) -> Result<bool> {
        let mut child = self.command(&self.destination())?.stdout(Stdio::null()).spawn()?;
        sleep(delay);
        child.kill().context("cannot kill it")?;
        let ended = child.wait()?.success();
        if self.destination().exists() {
            // It appeared by one rename.
            assert_same_tree(&self.source(), &self.destination(), Compared::default());
        }
        Ok(!ended)
    }

    /// Files that the journal says to be done.
    fn noted(&self) -> u64 {
        testbed::journal::find(&self.home.join("to"))
            .map_or(0, |journal| testbed::journal::noted(&journal))
    }

    /// Lets the job through; how many files, and bytes of large ones, it did not have to do.
    fn finish(&self) -> Result<[u64; 2]> {
        let output = self.command(&self.destination())?.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("it failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let compared = Compared { modes: true, times: true, ..Compared::default() };
        assert_same_tree(&self.source(), &self.destination(), compared);
        let left = fs::read_dir(self.home.join("to"))?.count();
        ensure!(left == 1, "{left} entries beside each other, not the tree alone");
        let summary: serde_json::Value =
            serde_json::from_str(text.lines().last().context("no summary")?)?;
        let number = |key: &str| summary[key].as_u64().unwrap_or(0);
        ensure!(
            number("files") + number("resumed") == ALL_FILES && number("skipped") == 0,
            "not every file was either copied or done: {summary}"
        );
        Ok(["resumed", "resumed_bytes"].map(number))
    }
}
