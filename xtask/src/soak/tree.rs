//! `kill -9` at random moments of a job with a journal, and going on from it, until the tree is whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::Value;
use testbed::{Compared, assert_same_tree};

use super::scene::Dice;
use super::span::{Clock, Span};

/// Some batches of the journal; and so many where large files are shared at once, whatever the rate
/// is, so that a job takes long enough to be struck.
const SMALL_FILES: u64 = 2500;
const MANY_SMALL_FILES: u64 = 15_000;
const SMALL_BYTES: u64 = 9000;

/// Files that are noted chunk by chunk, and end within a chunk.
const LARGE_FILES: [u64; 2] = [(96 << 20) + 4321, (136 << 20) + 1];
const LARGE_BYTES: u64 = LARGE_FILES[0] + LARGE_FILES[1];

/// So slow that kills fall all over the job, and most of them into large files.
const RATE: &str = "--max-bandwidth=48Mi";

/// Directories of small files.
const DIRECTORIES: u64 = 25;

/// How often a job is looked at that is to be killed.
const GLANCE: Duration = Duration::from_millis(1);

/// A job is killed at most so often before it is let through.
const MAX_KILLS: u32 = 6;

/// By the cheapest way, and by one that shares nothing.
const WAYS: [&str; 2] = ["--method=auto", "--method=read-write"];

/// Where large files are shared by [`WAYS`]`[0]`.
const SHARING: [&str; 2] = ["xfs", "btrfs"];

/// Entries of an existing destination in place of some files, and beside them.
const OLD: &[u8] = b"what was there before";
const OLD_FILES: [&str; 3] = ["0/0", "7/1007", "1/large"];
const KEPT: &str = "kept";

/// Counters of one place and one way.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    what: &'static str,
    pub(super) place: String,
    pub(super) way: &'static str,
    /// `new`, or `existing`: one that the tree is merged into.
    pub(super) destination: &'static str,
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
    /// Entries that nothing shows to be a killed run's, which the last round of a job named and left.
    pub(super) leftovers: u64,
}

/// Kills processes for `span`, in each place and by each way in turn.
///
/// # Errors
/// If a tree appeared that is not whole, a file was lost, or something stayed behind that the last round
/// did not name.
pub(super) fn run(
    uncopy: &Path,
    places: &[(&'static str, PathBuf)],
    span: Span,
    dice: &mut Dice,
) -> Result<Vec<Tally>> {
    let mut tallies: Vec<Tally> = Vec::new();
    for way in WAYS {
        for destination in ["new", "existing"] {
            for (name, _) in places {
                let place = (*name).to_owned();
                tallies.push(Tally { what: "resume", place, way, destination, ..Tally::default() });
            }
        }
    }
    let mut clock = span.start();
    let mut jobs = Vec::new();
    for number in (0..tallies.len()).cycle() {
        let (name, place) = &places[number % places.len()];
        let tally = &mut tallies[number];
        if jobs.len() == number {
            jobs.push(Job::new(uncopy, place, tally)?);
        }
        if !clock.goes_on() {
            break;
        }
        kill_and_finish(&mut jobs[number], &mut clock, dice, tally)
            .with_context(|| format!("{name}, {}, {}", tally.way, tally.destination))?;
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
    job.prepare(&job.destination())?;
    let (mut kills, mut ended) = (0, None);
    while ended.is_none() {
        let delay = (kills < MAX_KILLS && (kills == 0 || clock.goes_on())).then(|| {
            // The rest takes its part of the time, and a little to find that out.
            whole.mul_f64(dice.fraction() * job.left().max(0.1))
        });
        let noted = job.noted();
        let round = job.round(delay)?;
        if let (Some(_), Some(took)) = (delay, round.took) {
            // It came too late: what was measured before was slower than it is.
            clock.take_back();
            if kills == 0 {
                job.whole = Some(whole.min(took));
            }
        }
        kills += 1;
        tally.killed += u32::from(round.took.is_none());
        tally.add(&noted, &round);
        ended = round.took.is_some().then_some((noted, round));
    }
    let (noted, round) = ended.context("it ended")?;
    let leftovers = job.remove_leftovers(&round)?;
    ensure!(leftovers < kills.into(), "{leftovers} leftovers of {kills} rounds");
    tally.leftovers += leftovers;
    let resumed = job.check_whole(&round)?;
    tally.resumed_files += resumed;
    tally.again += noted.files.saturating_sub(resumed);
    println!(
        "  {}, {}, {}: {kills} rounds, {resumed} files were done",
        tally.place, tally.way, tally.destination
    );
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
        // A job that was killed again: its notes have stayed.
        for (path, end) in &round.parts {
            let known = noted.parts.get(path).copied().unwrap_or(0);
            self.again_bytes += known.saturating_sub(*end);
        }
    }
}

/// Work that a journal lists as done.
struct Noted {
    files: u64,
    parts: BTreeMap<PathBuf, u64>,
}

/// A process that ended or was killed.
struct Round {
    /// How long it took, if nobody killed it.
    took: Option<Duration>,
    /// Large files that it finished, with how much of them it did not have to copy.
    copied: BTreeMap<PathBuf, u64>,
    /// Parts of other files that the journal lists afterwards.
    parts: BTreeMap<PathBuf, u64>,
    summary: Option<Value>,
}

struct Job<'a> {
    uncopy: &'a Path,
    way: &'static str,
    merges: bool,
    shares: bool,
    small_files: u64,
    home: testbed::Scratch,
    /// How long it takes when nobody kills it.
    whole: Option<Duration>,
}

impl Job<'_> {
    fn new<'a>(uncopy: &'a Path, place: &Path, tally: &Tally) -> Result<Job<'a>> {
        let (way, merges) = (tally.way, tally.destination == "existing");
        let shares = way == WAYS[0] && SHARING.contains(&tally.place.as_str());
        let small_files = if shares { MANY_SMALL_FILES } else { SMALL_FILES };
        let home = testbed::Scratch::new_in(place);
        let job = Job { uncopy, way, merges, shares, small_files, home, whole: None };
        for number in 0..small_files {
            let directory = job.source().join(format!("{}", number % DIRECTORIES));
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

    /// Makes what is there before the job.
    fn prepare(&self, destination: &Path) -> Result<()> {
        fs::create_dir_all(destination.parent().context("it lies in a directory")?)?;
        if !self.merges {
            return Ok(());
        }
        for name in OLD_FILES.iter().chain([&KEPT]) {
            let path = destination.join(name);
            fs::create_dir_all(path.parent().context("it lies in a directory")?)?;
            fs::write(path, OLD)?;
        }
        Ok(())
    }

    /// Its standard output goes to a file, since what is killed leaves half a pipe.
    fn command(&self, destination: &Path) -> Result<Command> {
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
        self.prepare(&elsewhere)?;
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
        let begin = Instant::now();
        while child.try_wait()?.is_none() && delay.is_none_or(|delay| begin.elapsed() < delay) {
            sleep(GLANCE);
        }
        let took = begin.elapsed();
        child.kill().context("cannot kill it")?;
        let status = child.wait()?;
        ensure!(delay.is_some() || status.success(), "a job that nobody killed failed");
        if self.merges {
            self.check_each()?;
        } else if self.destination().exists() {
            // It appeared by one rename.
            assert_same_tree(&self.source(), &self.destination(), Compared::default());
        }
        let said = fs::read_to_string(self.said())?;
        let mut round = Round {
            took: status.success().then_some(took),
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

    /// Every name of a destination that is merged into stands for a whole file, the old or the new one.
    fn check_each(&self) -> Result<()> {
        for number in 0..self.small_files {
            self.check_one(&format!("{}/{number}", number % DIRECTORIES))?;
        }
        for number in 0..LARGE_FILES.len() {
            self.check_one(&format!("{number}/large"))?;
        }
        let kept = fs::read(self.destination().join(KEPT))?;
        ensure!(kept == OLD, "what the source does not have was changed");
        Ok(())
    }

    fn check_one(&self, name: &str) -> Result<()> {
        let is_old = OLD_FILES.contains(&name);
        match fs::read(self.destination().join(name)) {
            Ok(found) if is_old && found == OLD => Ok(()),
            Ok(found) if found == fs::read(self.source().join(name))? => Ok(()),
            Ok(found) => bail!("{name} has {} bytes that are no file", found.len()),
            Err(error) if error.kind() == ErrorKind::NotFound && !is_old => Ok(()),
            Err(error) => Err(error).with_context(|| format!("{name} is gone")),
        }
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

    /// Which part of what takes time is not noted: bytes of large files, or the small ones where those
    /// are shared.
    fn left(&self) -> f64 {
        if self.shares {
            return 1.0 - self.noted().files as f64 / self.small_files as f64;
        }
        1.0 - self.noted().parts.values().sum::<u64>() as f64 / LARGE_BYTES as f64
    }

    /// Removes what the last round named as leftovers. A kill between the call that gives a name and the one
    /// that notes it leaves an empty directory or a file that no record or journal shows; returns how many.
    fn remove_leftovers(&self, round: &Round) -> Result<u64> {
        let summary = round.summary.as_ref().context("no summary")?;
        ensure!(summary["leftovers_more"].is_null(), "too many leftovers: {summary}");
        let (mut removed, to) = (0, self.home.join("to"));
        for leftover in summary["leftovers"].as_array().into_iter().flatten() {
            let path = Path::new(leftover["path"].as_str().context("a leftover has a path")?);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_ours = path.starts_with(&to) && name.starts_with(".uncopy-");
            ensure!(is_ours, "{} is named as a leftover", path.display());
            let parent = File::open(path.parent().context("it lies in a directory")?)?;
            let modified = parent.metadata()?.modified()?;
            let removing = match path.symlink_metadata()?.is_dir() {
                true => fs::remove_dir(path),
                false => fs::remove_file(path),
            };
            removing.with_context(|| format!("cannot remove {}", path.display()))?;
            parent.set_modified(modified)?;
            removed += 1;
        }
        Ok(removed)
    }

    /// Looks at what is there at the end; how many files the last round did not have to do.
    fn check_whole(&self, round: &Round) -> Result<u64> {
        let compared = Compared { modes: true, times: true, ..Compared::default() };
        if self.merges {
            // It stays; the rest is the source's, to the times of directories.
            let root = File::open(self.destination())?;
            let modified = root.metadata()?.modified()?;
            fs::remove_file(self.destination().join(KEPT)).context("what was there is gone")?;
            root.set_modified(modified)?;
        }
        assert_same_tree(&self.source(), &self.destination(), compared);
        let beside: std::io::Result<Vec<_>> =
            fs::read_dir(self.home.join("to"))?.map(|entry| Ok(entry?.file_name())).collect();
        let beside = beside?;
        ensure!(beside == ["destination"], "not the tree alone, and unnamed: {beside:?}");
        let summary = round.summary.as_ref().context("no summary")?;
        let number = |key: &str| summary[key].as_u64().unwrap_or(0);
        let all = self.small_files + LARGE_FILES.len() as u64;
        ensure!(
            number("files") + number("resumed") == all && number("skipped") == 0,
            "not every file was either copied or done: {summary}"
        );
        Ok(number("resumed"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LEFT: &str = ".uncopy-0123456789abcdef-0123456789abcdef0123456789abcdef.tree";

    fn job(parent: &Path) -> Job<'static> {
        let (way, home) = (WAYS[0], testbed::Scratch::new_in(parent));
        fs::create_dir_all(home.join("to").join(LEFT)).unwrap();
        fs::create_dir_all(home.join("to/destination")).unwrap();
        fs::create_dir(home.join("source")).unwrap();
        let uncopy = Path::new("uncopy");
        Job { uncopy, way, merges: false, shares: false, small_files: 0, home, whole: None }
    }

    fn round(leftovers: &[PathBuf]) -> Round {
        let leftovers: Vec<Value> = leftovers.iter().map(|path| json!({ "path": path })).collect();
        let summary = json!({ "leftovers": leftovers, "files": 2, "resumed": 0, "skipped": 0 });
        let (copied, parts) = (BTreeMap::new(), BTreeMap::new());
        Round { took: None, copied, parts, summary: Some(summary) }
    }

    #[test]
    fn what_is_named_goes_and_what_is_not_is_found() {
        let parent = tempfile::tempdir().unwrap();
        let job = job(parent.path());
        let to = job.home.join("to");
        let silent = round(&[]);
        assert_eq!(job.remove_leftovers(&silent).unwrap(), 0);
        let error = job.check_whole(&silent).unwrap_err().to_string();
        assert!(error.contains(LEFT), "{error}");
        let modified = fs::metadata(&to).unwrap().modified().unwrap();
        let named = round(&[to.join(LEFT)]);
        assert_eq!(job.remove_leftovers(&named).unwrap(), 1);
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), modified);
        assert_eq!(job.check_whole(&named).unwrap(), 0);
    }

    #[test]
    fn nothing_else_may_be_named() {
        let parent = tempfile::tempdir().unwrap();
        let job = job(parent.path());
        let to = job.home.join("to");
        fs::write(to.join(LEFT).join("file"), "of somebody").unwrap();
        for path in [to.join("destination"), job.home.join("source"), to.join(LEFT)] {
            assert!(job.remove_leftovers(&round(std::slice::from_ref(&path))).is_err());
            assert!(path.exists(), "{}", path.display());
        }
    }
}
