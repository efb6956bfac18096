//! Memory of a job with very many entries: killed half way and gone on with, with hard links, and
//! mirrored.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::process;

/// What no job takes more of.
const MOST_BYTES: u64 = 64 << 20;

/// Entries of one directory.
const IN_DIRECTORY: u32 = 5000;

/// A job that is to be killed comes so far in this time.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Copies a tree of so many entries, half of them second names that come last.
///
/// # Errors
/// If a job took more memory, or did not do what it should.
pub(super) fn run(uncopy: &Path, place: &Path, entries: u32) -> Result<()> {
    let home = testbed::Scratch::new_in(place);
    let (source, destination) = (home.join("source"), home.join("to/destination"));
    fill(&source, entries / 2)?;
    fs::create_dir(home.join("to"))?;
    let command = |more: &[&str]| -> Vec<OsString> {
        let flags = ["cp", "-rpT", "--resume"].iter().chain(more).map(OsString::from);
        let names = [source.clone(), destination.clone()].map(PathBuf::into_os_string);
        [uncopy.into()].into_iter().chain(flags).chain(names).collect()
    };
    kill_half_way(&command(&[]), &home.join("to"), entries)?;
    measure("gone on with", &command(&[]))?;
    // Names that the source does not have, and one that was not there.
    for number in 0..entries / 10 {
        fs::write(destination.join(format!("a/0/stranger-{number}")), "")?;
    }
    measure("mirrored", &command(&["--delete"]))?;
    let left = fs::read_dir(destination.join("a/0"))?.count();
    ensure!(left == IN_DIRECTORY.min(entries / 2) as usize, "{left} entries are left in a/0");
    let mut aside = command(&[]);
    aside.pop();
    aside.push(home.join("to/another").into_os_string());
    measure("in one go", &aside)
}

/// Files in `a`, and their second names in `z`.
fn fill(source: &Path, files: u32) -> Result<()> {
    for number in 0..files {
        let directory = number / IN_DIRECTORY;
        let [file, name] = ["a", "z"].map(|top| source.join(format!("{top}/{directory}/{number}")));
        if number % IN_DIRECTORY == 0 {
            fs::create_dir_all(file.parent().context("it lies in a directory")?)?;
            fs::create_dir_all(name.parent().context("it lies in a directory")?)?;
        }
        fs::write(&file, "")?;
        fs::hard_link(file, name)?;
    }
    Ok(())
}

fn kill_half_way(command: &[OsString], beside: &Path, entries: u32) -> Result<()> {
    let (program, arguments) = command.split_first().context("a program has a name")?;
    let mut child = Command::new(program).args(arguments).stdout(Stdio::null()).spawn()?;
    let deadline = Instant::now() + PATIENCE;
    let noted = || testbed::journal::find(beside).map_or(0, |path| testbed::journal::noted(&path));
    while noted() < u64::from(entries / 4) {
        ensure!(child.try_wait()?.is_none(), "it ended before it could be killed");
        ensure!(Instant::now() < deadline, "{} files are noted, and no more come", noted());
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    println!("  killed when {} of {entries} entries were noted", noted());
    Ok(())
}

fn measure(what: &str, command: &[OsString]) -> Result<()> {
    let cost = process::run_measured(command)?;
    let mebibytes = cost.peak_bytes as f64 / f64::from(1 << 20);
    println!("  {what}: {mebibytes:.1} MiB in {:.0} s", cost.wall_seconds);
    ensure!(cost.peak_bytes <= MOST_BYTES, "{what}: it took {mebibytes:.1} MiB, 64 are allowed");
    Ok(())
}
