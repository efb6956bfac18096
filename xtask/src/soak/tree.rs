//! `kill -9` at random moments of a job with a journal, and going on from it, until the tree is whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::{Compared, assert_same_tree};

use super::scene::Dice;
use super::span::Span;

/// More than two batches of the journal, and some that take their time.
const SMALL_FILES: usize = 2500;
const LARGE_FILES: usize = 6;
const LARGE_BYTES: usize = 8 << 20;

/// A job is killed at most so often before it is let through.
const MOST_KILLS: u32 = 6;

/// Kills processes for `span`, on each place in turn.
///
/// # Errors
/// If a tree appeared that is not whole, a file was lost or done again without need, or something
/// stayed behind.
pub(super) fn run(
    uncopy: &Path,
    places: &[(&'static str, PathBuf)],
    span: Span,
    dice: &mut Dice,
) -> Result<()> {
    let mut clock = span.start();
    let mut goes_on = clock.goes_on();
    while goes_on {
        for (name, place) in places {
            let job = Job::new(uncopy, place)?;
            let whole = job.duration()?;
            let mut kills = 0;
            while kills < MOST_KILLS && goes_on {
                if !job.killed_after(whole.mul_f64(dice.fraction()))? {
                    break;
                }
                kills += 1;
                goes_on = clock.goes_on();
            }
            let resumed = job.finish().with_context(|| format!("{name}, killed {kills} times"))?;
            println!("  {name}: killed {kills} times, then {resumed} files were done already");
        }
    }
    Ok(())
}

struct Job<'a> {
    uncopy: &'a Path,
    home: testbed::Scratch,
}

impl Job<'_> {
    fn new<'a>(uncopy: &'a Path, place: &Path) -> Result<Job<'a>> {
        let job = Job { uncopy, home: testbed::Scratch::new_in(place) };
        for number in 0..SMALL_FILES {
            let directory = job.source().join(format!("{}", number % 25));
            fs::create_dir_all(&directory)?;
            let contents = testbed::seeded(number as u64, 0, (number % 9000) as u64);
            fs::write(directory.join(format!("{number}")), contents)?;
        }
        for number in 0..LARGE_FILES {
            let contents = testbed::seeded(number as u64, 7, LARGE_BYTES as u64);
            fs::write(job.source().join(format!("large-{number}")), contents)?;
        }
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
        command.args(["cp", "-rpT", "--resume", "--json"]).arg(self.source()).arg(destination);
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

    /// Lets the job through; the number of files that it did not have to do.
    fn finish(&self) -> Result<u64> {
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
        let all = (SMALL_FILES + LARGE_FILES) as u64;
        ensure!(
            number("files") + number("resumed") == all && number("skipped") == 0,
            "not every file was either copied or done: {summary}"
        );
        Ok(number("resumed"))
    }
}
