//! A tree that is copied with a journal, and what must be there whenever a copy of it was killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use testbed::{Compared, assert_same_tree};

use super::Setting;
use crate::soak::scene::Dice;

/// Some batches of the journal; and so many where large files are shared at once, whatever the rate
/// is, so that a job takes long enough to be struck.
const SMALL_FILES: u64 = 2500;
const MANY_SMALL_FILES: u64 = 15_000;
const SMALL_BYTES: u64 = 9000;

/// Files that are noted chunk by chunk, and end within a chunk.
const LARGE_FILES: [u64; 2] = [(96 << 20) + 4321, (136 << 20) + 1];
const LARGE_BYTES: u64 = LARGE_FILES[0] + LARGE_FILES[1];

/// Directories of small files.
const DIRECTORIES: u64 = 25;

/// How often a job is looked at that is to be killed.
const GLANCE: Duration = Duration::from_millis(1);

/// Entries of an existing destination in place of some files, and beside them.
const OLD: &[u8] = b"what was there before";
const OLD_FILES: [&str; 3] = ["0/0", "7/1007", "1/large"];
const KEPT: &str = "kept";

/// How a job is started and struck.
pub(crate) trait Route {
    /// The flag that slows it down.
    fn rate(&self) -> &'static str;

    /// Further flags.
    fn flags(&self) -> Vec<OsString>;

    /// Operands for these files.
    fn operands(&self, source: &Path, destination: &Path) -> [OsString; 2];

    /// Whether the side that copies reads the source itself. Otherwise it cannot tell that a file is whole that got its
    /// name before its last chunk was noted, and copies it again.
    fn reads_source(&self) -> bool;

    /// Kills a process of the job, which runs still or has just ended. Returns what it was, if it has several.
    ///
    /// # Errors
    /// If nothing can be killed.
    fn strike(&self, child: &mut Child, dice: &mut Dice) -> Result<Option<&'static str>>;

    /// Waits until all processes of the job have ended, of which this one may have been killed.
    ///
    /// # Errors
    /// If one of them goes on, or says something wrong about the end of another one.
    fn end(&self, child: &mut Child, victim: Option<&'static str>) -> Result<ExitStatus>;
}

/// Work that a journal lists as done.
pub(super) struct Noted {
    pub(super) files: u64,
    pub(super) parts: BTreeMap<PathBuf, u64>,
}

/// A process that ended or was killed.
pub(super) struct Round {
    /// How long it took, if nobody killed it.
    pub(super) took: Option<Duration>,
    /// Name of the process that was killed, if a job has several.
    pub(super) victim: Option<&'static str>,
    /// Large files that it finished, with how much of them it did not have to copy.
    pub(super) copied: BTreeMap<PathBuf, u64>,
    /// Parts of other files that the journal lists afterwards.
    pub(super) parts: BTreeMap<PathBuf, u64>,
    summary: Option<Value>,
}

/// A tree that is copied again and again.
pub(super) struct Job<'a> {
    uncopy: &'a Path,
    route: &'a dyn Route,
    merges: bool,
    shares: bool,
    small_files: u64,
    home: testbed::Scratch,
    /// How long it takes when nobody kills it.
    pub(super) whole: Option<Duration>,
}

impl Job<'_> {
    pub(super) fn new<'a>(uncopy: &'a Path, setting: &Setting<'a>) -> Result<Job<'a>> {
        let Setting { place: (_, place), merges, shares, route, .. } = *setting;
        let small_files = if shares { MANY_SMALL_FILES } else { SMALL_FILES };
        let home = testbed::Scratch::new_in(place);
        let job = Job { uncopy, route, merges, shares, small_files, home, whole: None };
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

    pub(super) fn destination(&self) -> PathBuf {
        self.home.join("to/destination")
    }

    fn said(&self) -> PathBuf {
        self.home.join("said")
    }

    fn messages(&self) -> PathBuf {
        self.home.join("messages")
    }

    /// A job that nobody killed succeeds.
    fn check_status(&self, status: ExitStatus) -> Result<()> {
        let messages = || fs::read_to_string(self.messages()).unwrap_or_default();
        ensure!(status.success(), "a job that nobody killed failed: {status}: {}", messages());
        Ok(())
    }

    /// Makes what is there before the job.
    pub(super) fn prepare(&self, destination: &Path) -> Result<()> {
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

    /// Its output goes to files, since what is killed leaves half a pipe.
    fn command(&self, destination: &Path) -> Result<Command> {
        let mut command = Command::new(self.uncopy);
        command.args(["cp", "-rpT", "--resume", "--json", self.route.rate()]);
        command.args(self.route.flags());
        command.args(self.route.operands(&self.source(), destination));
        command.stdout(File::create(self.said())?).stderr(File::create(self.messages())?);
        Ok(command)
    }

    /// How long it takes when nobody kills it, found out once.
    pub(super) fn duration(&mut self) -> Result<Duration> {
        if let Some(whole) = self.whole {
            return Ok(whole);
        }
        let elsewhere = self.home.join("rehearsal/destination");
        self.prepare(&elsewhere)?;
        let begin = Instant::now();
        let status = self.command(&elsewhere)?.status()?;
        self.check_status(status)?;
        let took = begin.elapsed();
        fs::remove_dir_all(self.home.join("rehearsal"))?;
        self.whole = Some(took);
        Ok(took)
    }

    /// Lets the job run, at most for so long.
    pub(super) fn round(&self, delay: Option<Duration>, dice: &mut Dice) -> Result<Round> {
        let mut child = self.command(&self.destination())?.spawn()?;
        let begin = Instant::now();
        while child.try_wait()?.is_none() && delay.is_none_or(|delay| begin.elapsed() < delay) {
            sleep(GLANCE);
        }
        let took = begin.elapsed();
        let victim = match delay {
            Some(_) => self.route.strike(&mut child, dice)?,
            None => None,
        };
        let status = self.route.end(&mut child, victim)?;
        if delay.is_none() {
            self.check_status(status)?;
        }
        if self.merges {
            self.check_each()?;
        } else if self.destination().exists() {
            // It appeared by one rename.
            assert_same_tree(&self.source(), &self.destination(), Compared::default());
        }
        let said = fs::read_to_string(self.said())?;
        let mut round = Round {
            took: status.success().then_some(took),
            victim,
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
                let path = self.below_source(event["source"].as_str().context("it has a name")?)?;
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

    /// The path below the source of a file that is named as the source was on the command line.
    fn below_source(&self, reported: &str) -> Result<PathBuf> {
        let [source, _] = self.route.operands(&self.source(), Path::new(""));
        Ok(Path::new(reported).strip_prefix(source)?.to_owned())
    }

    pub(super) fn noted(&self) -> Noted {
        let Some(journal) = testbed::journal::find(&self.home.join("to")) else {
            return Noted { files: 0, parts: BTreeMap::new() };
        };
        let mut parts = testbed::journal::parts(&journal);
        for (path, end) in &mut parts {
            let size = fs::metadata(self.source().join(path)).map_or(0, |found| found.len());
            *end = size.min(*end);
        }
        if !self.route.reads_source() {
            parts.retain(|path, _| !self.has_final_name(path));
        }
        Noted { files: testbed::journal::noted(&journal), parts }
    }

    /// Whether the destination has the whole file.
    fn has_final_name(&self, path: &Path) -> bool {
        let copy = fs::read(self.destination().join(path)).ok();
        copy.is_some() && copy == fs::read(self.source().join(path)).ok()
    }

    /// Which part of what takes time is not noted: bytes of large files, or the small ones where those
    /// are shared.
    pub(super) fn left(&self) -> f64 {
        if self.shares {
            return 1.0 - self.noted().files as f64 / self.small_files as f64;
        }
        1.0 - self.noted().parts.values().sum::<u64>() as f64 / LARGE_BYTES as f64
    }

    /// Removes what the last round named as leftovers. A kill between the call that gives a name and the one
    /// that notes it leaves an empty directory or a file that no record or journal shows; returns how many.
    pub(super) fn remove_leftovers(&self, round: &Round) -> Result<u64> {
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

    /// Removes the copy, so that the next one is new.
    pub(super) fn remove_copy(&self) -> Result<()> {
        fs::remove_dir_all(self.home.join("to")).context("cannot remove the copy")
    }

    /// Looks at what is there at the end; how many files the last round did not have to do.
    pub(super) fn check_whole(&self, round: &Round) -> Result<u64> {
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
    use crate::soak::tree::Here;

    const LEFT: &str = ".uncopy-0123456789abcdef-0123456789abcdef0123456789abcdef.tree";

    fn job(parent: &Path) -> Job<'static> {
        let (route, home) = (&Here("--method=auto"), testbed::Scratch::new_in(parent));
        fs::create_dir_all(home.join("to").join(LEFT)).unwrap();
        fs::create_dir_all(home.join("to/destination")).unwrap();
        fs::create_dir(home.join("source")).unwrap();
        // Whatever time passed between the two.
        for root in ["source", "to/destination"] {
            File::open(home.join(root)).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        let uncopy = Path::new("uncopy");
        Job { uncopy, route, merges: false, shares: false, small_files: 0, home, whole: None }
    }

    fn round(leftovers: &[PathBuf]) -> Round {
        let leftovers: Vec<Value> = leftovers.iter().map(|path| json!({ "path": path })).collect();
        let summary = json!({ "leftovers": leftovers, "files": 2, "resumed": 0, "skipped": 0 });
        let (copied, parts) = (BTreeMap::new(), BTreeMap::new());
        Round { took: None, victim: None, copied, parts, summary: Some(summary) }
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
    fn a_file_has_its_final_name_when_it_is_whole() {
        let parent = tempfile::tempdir().unwrap();
        let job = job(parent.path());
        let (name, copy) = (Path::new("large"), job.destination().join("large"));
        fs::write(job.source().join(name), "whole").unwrap();
        assert!(!job.has_final_name(name));
        fs::write(&copy, "who").unwrap();
        assert!(!job.has_final_name(name));
        fs::write(&copy, "whole").unwrap();
        assert!(job.has_final_name(name));
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
