//! `kill -9` at random moments of a job with a journal, and going on from it, until the tree is whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use testbed::{Compared, assert_same_tree};

use super::scene::Dice;
use super::span::{Clock, Span};

/// Some batches of the journal.
const SMALL_FILES: u64 = 2500;
const SMALL_BYTES: u64 = 9000;

/// Files that are noted chunk by chunk, and end within a chunk.
const LARGE_FILES: [u64; 2] = [(96 << 20) + 4321, (136 << 20) + 1];
const LARGE_BYTES: u64 = LARGE_FILES[0] + LARGE_FILES[1];

/// So slow that kills fall all over the job, and most of them into large files.
const RATE: &str = "--max-bandwidth=48Mi";

/// A job is killed at most so often before it is let through.
const MOST_KILLS: u32 = 6;

/// By the cheapest way, and by one that shares nothing.
const WAYS: [&str; 2] = ["--method=auto", "--method=read-write"];

/// What was seen in one place by one way.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    what: &'static str,
    pub(super) place: String,
    pub(super) way: &'static str,
    /// Jobs, each killed several times and then let through.
    pub(super) jobs: u32,
    pub(super) killed: u32,
    /// Rounds, killed or not, that began with files noted in the journal.
    pub(super) resumed_rounds: u32,
    /// Those that began with chunks of a large file noted.
    pub(super) part_rounds: u32,
    /// Files that were not copied again.
    pub(super) resumed_files: u64,
    /// Large files that a round ended behind chunks that an earlier one had noted, and these chunks.
    pub(super) resumed_parts: u32,
    pub(super) resumed_bytes: u64,
    /// Files that were noted in the journal and copied all the same.
    pub(super) again: u64,
    /// Bytes of noted chunks that were.
    pub(super) again_bytes: u64,
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
            let place = (*name).to_owned();
            tallies.push(Tally { what: "resume", place, way, ..Tally::default() });
        }
    }
    let mut clock = span.start();
    let mut jobs = Vec::new();
    for number in (0..tallies.len()).cycle() {
        let (name, place) = &places[number / WAYS.len()];
        let tally = &mut tallies[number];
        if jobs.len() == number {
            jobs.push(Job::new(uncopy, place, tally.way)?);
        }
        if !clock.goes_on() {
            break;
        }
        kill_and_finish(&mut jobs[number], &mut clock, dice, tally)
            .with_context(|| format!("{name}, {}", tally.way))?;
    }
    for tally in &tallies {
        println!("  {}", serde_json::to_string(tally)?);
    }
    Ok(tallies)
}

/// Kills a job several times, of which the first has begun on the clock, and then lets it through.
fn kill_and_finish(
    job: &mut Job<'_>,
    clock: &mut Clock,
    dice: &mut Dice,
    tally: &mut Tally,
) -> Result<()> {
    let whole = job.duration()?;
    tally.jobs += 1;
    let (mut kills, mut ended) = (0, None);
    while ended.is_none() {
        let delay = (kills < MOST_KILLS && (kills == 0 || clock.goes_on())).then(|| {
            // What is left takes its part of the time, and a little to find that out.
            whole.mul_f64(dice.fraction() * job.left().max(0.1))
        });
        let noted = job.noted();
        let round = job.round(delay)?;
        if delay.is_some() && round.ended {
            // It came too late.
            clock.take_back();
        }
        kills += 1;
        tally.killed += u32::from(!round.ended);
        tally.add(&noted, &round);
        ended = round.ended.then_some((noted, round));
    }
    let (noted, round) = ended.context("it ended")?;
    let resumed = job.check_whole(&round)?;
    tally.resumed_files += resumed;
    tally.again += noted.files.saturating_sub(resumed);
    println!("  {}, {}: {kills} rounds, {resumed} files were done", tally.place, tally.way);
    fs::remove_dir_all(job.home.join("to")).context("cannot remove the copy")
}

impl Tally {
    fn add(&mut self, noted: &Noted, round: &Round) {
        self.resumed_rounds += u32::from(noted.files > 0);
        self.part_rounds += u32::from(!noted.parts.is_empty());
        for (path, resumed) in &round.copied {
            let known = noted.parts.get(path).copied().unwrap_or(0);
            self.resumed_parts += u32::from(*resumed > 0);
            self.resumed_bytes += resumed;
            self.again_bytes += known.saturating_sub(*resumed);
        }
        // Of one that was killed again: what was noted has stayed so.
        for (path, end) in &round.parts {
            let known = noted.parts.get(path).copied().unwrap_or(0);
            self.again_bytes += known.saturating_sub(*end);
        }
    }
}

/// What a journal says to be done.
struct Noted {
    files: u64,
    parts: BTreeMap<PathBuf, u64>,
}

/// A process that ended or was killed.
struct Round {
    ended: bool,
    /// Large files that it finished, with how much of them it did not have to copy.
    copied: BTreeMap<PathBuf, u64>,
    /// What the journal says of the others afterwards.
    parts: BTreeMap<PathBuf, u64>,
    summary: Option<Value>,
}

struct Job<'a> {
    uncopy: &'a Path,
    way: &'static str,
    home: testbed::Scratch,
    /// How long it takes when nobody kills it.
    whole: Option<Duration>,
}

impl Job<'_> {
    fn new<'a>(uncopy: &'a Path, place: &Path, way: &'static str) -> Result<Job<'a>> {
        let job = Job { uncopy, way, home: testbed::Scratch::new_in(place), whole: None };
        for number in 0..SMALL_FILES {
            let directory = job.source().join(format!("{}", number % 25));
            fs::create_dir_all(&directory)?;
            let contents = testbed::seeded(number, 0, number % SMALL_BYTES);
            fs::write(directory.join(format!("{number}")), contents)?;
        }
        for (number, bytes) in LARGE_FILES.into_iter().enumerate() {
            let contents = testbed::seeded(number as u64, 7, bytes);
            fs::write(job.source().join(format!("{number}/large")), contents)?;
        }
        Ok(job)
    }

    fn source(&self) -> PathBuf {
        self.home.join("source")
    }

    fn destination(&self) -> PathBuf {
        self.home.join("to/destination")
    }

    fn said(&self) -> PathBuf {
        self.home.join("said")
    }

    /// Its standard output goes to a file, since what is killed leaves half a pipe.
    fn command(&self, destination: &Path) -> Result<Command> {
        fs::create_dir_all(destination.parent().context("it lies in a directory")?)?;
        let mut command = Command::new(self.uncopy);
        command.args(["cp", "-rpT", "--resume", "--json", RATE, self.way]);
        command.arg(self.source()).arg(destination).stdout(File::create(self.said())?);
        Ok(command)
    }

    /// How long it takes when nobody kills it, found out once.
    fn duration(&mut self) -> Result<Duration> {
        if let Some(whole) = self.whole {
            return Ok(whole);
        }
        let elsewhere = self.home.join("rehearsal/destination");
        let begin = Instant::now();
        let status = self.command(&elsewhere)?.status()?;
        ensure!(status.success(), "a job that nobody killed failed");
        let took = begin.elapsed();
        fs::remove_dir_all(self.home.join("rehearsal"))?;
        self.whole = Some(took);
        Ok(took)
    }

    /// Lets the job run, at most for so long.
    fn round(&self, delay: Option<Duration>) -> Result<Round> {
        let mut child = self.command(&self.destination())?.spawn()?;
        if let Some(delay) = delay {
            sleep(delay);
            child.kill().context("cannot kill it")?;
        }
        let status = child.wait()?;
        ensure!(delay.is_some() || status.success(), "a job that nobody killed failed");
        if self.destination().exists() {
            // It appeared by one rename.
            assert_same_tree(&self.source(), &self.destination(), Compared::default());
        }
        let said = fs::read_to_string(self.said())?;
        let mut round = Round {
            ended: status.success(),
            copied: BTreeMap::new(),
            parts: self.noted().parts,
            summary: None,
        };
        // The last line may be half a one.
        for event in said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            self.take(event, &mut round)?;
        }
        Ok(round)
    }

    fn take(&self, event: Value, round: &mut Round) -> Result<()> {
        let bytes = event["bytes"].as_u64().unwrap_or(0);
        match event["event"].as_str() {
            Some("copied") if bytes > SMALL_BYTES => {
                let source = Path::new(event["source"].as_str().context("it has a name")?);
                let path = source.strip_prefix(self.source())?.to_owned();
                let resumed = event["resumed_bytes"].as_u64().unwrap_or(0);
                let moved = event["mechanisms"].as_array().into_iter().flatten();
                let moved: u64 = moved.filter_map(|portion| portion["bytes"].as_u64()).sum();
                ensure!(moved + resumed == bytes, "copied in part, or more than once: {event}");
                round.parts.remove(&path);
                round.copied.insert(path, resumed);
            }
            Some("summary") => round.summary = Some(event),
            _ => {}
        }
        Ok(())
    }

    fn noted(&self) -> Noted {
        let Some(journal) = testbed::journal::find(&self.home.join("to")) else {
            return Noted { files: 0, parts: BTreeMap::new() };
        };
        let mut parts = testbed::journal::parts(&journal);
        for (path, end) in &mut parts {
            let size = fs::metadata(self.source().join(path)).map_or(0, |found| found.len());
            *end = size.min(*end);
        }
        Noted { files: testbed::journal::noted(&journal), parts }
    }

    /// Which part of the bytes is not noted.
    fn left(&self) -> f64 {
        1.0 - self.noted().parts.values().sum::<u64>() as f64 / LARGE_BYTES as f64
    }

    /// Looks at what is there at the end; how many files the last round did not have to do.
    fn check_whole(&self, round: &Round) -> Result<u64> {
        let compared = Compared { modes: true, times: true, ..Compared::default() };
        assert_same_tree(&self.source(), &self.destination(), compared);
        let left = fs::read_dir(self.home.join("to"))?.count();
        ensure!(left == 1, "{left} entries beside each other, not the tree alone");
        let summary = round.summary.as_ref().context("no summary")?;
        let number = |key: &str| summary[key].as_u64().unwrap_or(0);
        let all = SMALL_FILES + LARGE_FILES.len() as u64;
        ensure!(
            number("files") + number("resumed") == all && number("skipped") == 0,
            "not every file was either copied or done: {summary}"
        );
        Ok(number("resumed"))
    }
}
