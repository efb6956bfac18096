//! Memory of a job with very many entries: killed half way and gone on with, mirrored, and in one go.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{AtFlags, FileType, Mode};
use serde::Serialize;

use crate::process;

/// Maximum memory of a job.
const MAX_BYTES: u64 = 64 << 20;

/// Entries that count as a full run, whose result is recorded.
const FULL_ENTRIES: u32 = 1_000_000;

/// Entries of one directory of [`Shape::HardLinks`].
const IN_DIRECTORY: u32 = 5000;

/// Subdirectories of one directory: more than a listing remembers, and a block of the device each.
const MIN_SUBDIRECTORIES: u32 = 60_000;

/// A job that is to be killed comes so far in this time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// How often the journal of a job that is to be killed is looked at.
const GLANCE: Duration = Duration::from_millis(200);

/// How the entries of a tree lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Shape {
    /// In directories of 5,000, half of them second names that come last.
    HardLinks,
    /// Files, all of them in one directory.
    OneDirectory,
    /// A twentieth of them, but at least 60,000: subdirectories of one directory, with a file in each.
    Subdirectories,
}

impl Shape {
    pub(super) const ALL: [Shape; 3] =
        [Shape::HardLinks, Shape::OneDirectory, Shape::Subdirectories];

    fn name(self) -> &'static str {
        match self {
            Shape::HardLinks => "hard links",
            Shape::OneDirectory => "one directory",
            Shape::Subdirectories => "subdirectories",
        }
    }

    /// Files in a tree of so many entries.
    fn files(self, entries: u32) -> u32 {
        match self {
            Shape::HardLinks => entries / 2,
            Shape::OneDirectory => entries,
            Shape::Subdirectories => (entries / 20).max(MIN_SUBDIRECTORIES),
        }
    }

    /// The directory with most entries.
    fn widest(self) -> &'static str {
        match self {
            Shape::HardLinks => "a/0",
            Shape::OneDirectory | Shape::Subdirectories => "wide",
        }
    }

    /// `in_directory`: entries of one directory of [`Shape::HardLinks`].
    fn fill(self, source: &Path, files: u32, in_directory: u32) -> Result<()> {
        fs::create_dir_all(source.join(self.widest()))?;
        match self {
            Shape::HardLinks => fill_with_links(source, files, in_directory),
            Shape::OneDirectory => make_files(&source.join("wide"), "", 0..files),
            Shape::Subdirectories => fill_with_directories(&source.join("wide"), files),
        }
    }
}

/// The peak memory of one job of a tree.
#[derive(Debug, Serialize)]
pub(super) struct Tally {
    what: &'static str,
    job: &'static str,
    /// In the tree, directories among them.
    entries: u64,
    peak_bytes: u64,
    allowed_bytes: u64,
    seconds: f64,
}

impl Tally {
    /// It took more than it may.
    pub(super) fn is_finding(&self) -> bool {
        self.peak_bytes > self.allowed_bytes
    }
}

/// Whether a run with so many entries is recorded.
pub(super) fn is_full(entries: u32) -> bool {
    entries >= FULL_ENTRIES
}

/// Copies a tree of so many entries: killed half way, gone on with, mirrored, and in one go.
///
/// # Errors
/// If a job did not do what it should. That it took more memory is in its tally.
pub(super) fn run(uncopy: &Path, place: &Path, shape: Shape, entries: u32) -> Result<Vec<Tally>> {
    let home = testbed::Scratch::new_in(place);
    let source = home.join("source");
    let files = shape.files(entries);
    println!("  {}: {files} files", shape.name());
    shape.fill(&source, files, IN_DIRECTORY)?;
    let scene = Scene { uncopy, home: &home, shape, entries: count_below(&source)? };
    let tallies = scene.jobs(files);
    // One directory after the other, by the program that is made for it.
    let removed = Command::new("rm").arg("-rf").arg(home.path()).status()?;
    ensure!(removed.success(), "{} cannot be removed", home.display());
    fs::create_dir(home.path())?;
    tallies
}

struct Scene<'a> {
    uncopy: &'a Path,
    home: &'a Path,
    shape: Shape,
    entries: u64,
}

impl Scene<'_> {
    fn jobs(&self, files: u32) -> Result<Vec<Tally>> {
        let mut tallies = vec![self.kill_half_way(&self.command("to", &[])?, files)?];
        tallies.push(self.measure("gone on with", &self.command("to", &[])?)?);
        self.check_whole("to")?;
        // Names that the source does not have.
        let widest = self.home.join("to/destination").join(self.shape.widest());
        make_files(&widest, "stranger-", 0..files / 10)?;
        tallies.push(self.measure("mirrored", &self.command("to", &["--delete"])?)?);
        self.check_whole("to")?;
        // Beside it: ext4 is slow to give out inodes anew (`recently_deleted` of fs/ext4/ialloc.c).
        tallies.push(self.measure("in one go", &self.command("again", &[])?)?);
        self.check_whole("again")?;
        Ok(tallies)
    }

    /// Copies to `destination` in a directory of this name.
    fn command(&self, to: &str, more: &[&str]) -> Result<Vec<OsString>> {
        fs::create_dir_all(self.home.join(to))?;
        let flags = ["cp", "-rpT", "--resume"].iter().chain(more).map(OsString::from);
        let names = [self.home.join("source"), self.home.join(to).join("destination")];
        let names = names.map(PathBuf::into_os_string);
        Ok([self.uncopy.into()].into_iter().chain(flags).chain(names).collect())
    }

    fn kill_half_way(&self, command: &[OsString], files: u32) -> Result<Tally> {
        let (program, arguments) = command.split_first().context("a program has a name")?;
        let begin = Instant::now();
        let mut child = Command::new(program).args(arguments).stdout(Stdio::null()).spawn()?;
        let beside = self.home.join("to");
        let noted =
            || testbed::journal::find(&beside).map_or(0, |path| testbed::journal::noted(&path));
        while noted() < u64::from(files / 2) {
            ensure!(child.try_wait()?.is_none(), "it ended before it could be killed");
            ensure!(begin.elapsed() < PATIENCE, "{} files are noted, and no more come", noted());
            std::thread::sleep(GLANCE);
        }
        let peak_bytes = peak_of(child.id())?;
        child.kill()?;
        child.wait()?;
        println!("    {} of {files} files were noted when it was killed", noted());
        Ok(self.tally("killed half way", peak_bytes, begin.elapsed().as_secs_f64()))
    }

    fn measure(&self, job: &'static str, command: &[OsString]) -> Result<Tally> {
        let cost = process::run_measured(command).with_context(|| job)?;
        Ok(self.tally(job, cost.peak_bytes, cost.wall_seconds))
    }

    fn tally(&self, job: &'static str, peak_bytes: u64, seconds: f64) -> Tally {
        let mebibytes = peak_bytes as f64 / f64::from(1 << 20);
        println!("    {job}: {mebibytes:.1} MiB in {seconds:.0} s");
        let (what, entries) = (self.shape.name(), self.entries);
        let seconds = (seconds * 10.0).round() / 10.0;
        Tally { what, job, entries, peak_bytes, allowed_bytes: MAX_BYTES, seconds }
    }

    /// The copy has as many entries as the source, and nothing lies beside it.
    fn check_whole(&self, to: &str) -> Result<()> {
        let found = count_below(&self.home.join(to).join("destination"))?;
        ensure!(found == self.entries, "{found} entries, where {} belong", self.entries);
        let beside = fs::read_dir(self.home.join(to))?.count();
        ensure!(beside == 1, "{beside} entries beside each other, not the tree alone");
        Ok(())
    }
}

/// The largest resident set of a process that runs (`VmHWM` of `proc_pid_status(5)`).
fn peak_of(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = kibibytes.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(1024 * kibibytes.with_context(|| format!("no VmHWM in {status}"))?)
}

/// Empty files, each by one call in an open directory.
fn make_files(directory: &Path, prefix: &str, numbers: std::ops::Range<u32>) -> Result<()> {
    let open = File::open(directory)?;
    let mode = Mode::from_raw_mode(0o644);
    for number in numbers {
        let name = format!("{prefix}{number}");
        rustix::fs::mknodat(&open, &name, FileType::RegularFile, mode, 0)
            .with_context(|| format!("cannot make {name} in {}", directory.display()))?;
    }
    Ok(())
}

/// Files in `a`, and their second names in `z`.
fn fill_with_links(source: &Path, files: u32, in_directory: u32) -> Result<()> {
    for first in (0..files).step_by(in_directory as usize) {
        let numbers = first..files.min(first + in_directory);
        let directories =
            ["a", "z"].map(|top| source.join(format!("{top}/{}", first / in_directory)));
        directories.iter().try_for_each(fs::create_dir_all)?;
        make_files(&directories[0], "", numbers.clone())?;
        let [from, to] = [File::open(&directories[0])?, File::open(&directories[1])?];
        for number in numbers {
            let name = number.to_string();
            rustix::fs::linkat(&from, &name, &to, &name, AtFlags::empty())?;
        }
    }
    Ok(())
}

fn fill_with_directories(wide: &Path, directories: u32) -> Result<()> {
    let open = File::open(wide)?;
    let mode = Mode::from_raw_mode(0o644);
    for number in 0..directories {
        rustix::fs::mkdirat(&open, number.to_string(), Mode::from_raw_mode(0o755))?;
        let name = format!("{number}/file");
        rustix::fs::mknodat(&open, name, FileType::RegularFile, mode, 0)?;
    }
    Ok(())
}

/// How many entries are below a directory. Names of subdirectories alone are kept in mind.
fn count_below(directory: &Path) -> Result<u64> {
    let mut entries = 0;
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let listed = fs::read_dir(&directory);
        for entry in listed.with_context(|| format!("cannot list {}", directory.display()))? {
            let entry = entry?;
            entries += 1;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_their_shape() {
        for (shape, files, entries, widest) in [
            // Two directories for each five files, and their parents.
            (Shape::HardLinks, 12, 24 + 6 + 2, 5),
            (Shape::OneDirectory, 700, 701, 700),
            (Shape::Subdirectories, 300, 601, 300),
        ] {
            let home = tempfile::tempdir().unwrap();
            shape.fill(home.path(), files, 5).unwrap();
            assert_eq!(count_below(home.path()).unwrap(), entries, "{shape:?}");
            let found = fs::read_dir(home.path().join(shape.widest())).unwrap().count();
            assert_eq!(found, widest, "{shape:?}");
        }
    }

    #[test]
    fn there_are_always_more_subdirectories_than_are_remembered() {
        let files = [1000, 5_000_000].map(|entries| Shape::Subdirectories.files(entries));
        assert_eq!(files, [60_000, 250_000]);
    }

    #[test]
    fn more_memory_than_allowed_is_a_finding() {
        let tally = |peak_bytes| Tally {
            what: "one directory",
            job: "mirrored",
            entries: 1,
            peak_bytes,
            allowed_bytes: MAX_BYTES,
            seconds: 1.0,
        };
        assert!(!tally(64 << 20).is_finding());
        assert!(tally((64 << 20) + 1).is_finding());
    }

    #[test]
    fn the_peak_of_a_process_is_read() {
        assert!(peak_of(std::process::id()).unwrap() > 100_000);
        assert!(peak_of(u32::MAX).is_err());
    }
}
