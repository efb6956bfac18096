//! What a soak saw, as JSON Lines.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

/// What was seen under one set of conditions.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Tally {
    /// `kill`, `full_disk` or `power_cut`.
    pub(super) what: &'static str,
    pub(super) place: String,
    pub(super) flags: String,
    /// `existing` or `new`.
    pub(super) destination: &'static str,
    pub(super) rounds: u32,
    /// The process was there to be killed; in the other rounds it had ended.
    pub(super) killed: u32,
    /// The destination was wholly the old file, or not there where there was none.
    pub(super) old: u32,
    /// The destination was wholly the new file.
    pub(super) new: u32,
    /// A temporary file was left, and removed by the next run.
    pub(super) leftovers: u32,
    /// Anything that must not be.
    pub(super) findings: u32,
}

impl Tally {
    fn case(&self) -> (&str, &str, &str, &str) {
        (self.what, &self.place, &self.flags, self.destination)
    }

    fn add(&mut self, other: &Tally) {
        self.rounds += other.rounds;
        self.killed += other.killed;
        self.old += other.old;
        self.new += other.new;
        self.leftovers += other.leftovers;
        self.findings += other.findings;
    }
}

/// All tallies of a run.
pub(super) struct Record {
    seed: u64,
    unix_seconds: u64,
    tallies: Vec<Tally>,
}

impl Record {
    pub(super) fn new(seed: u64, unix_seconds: u64) -> Record {
        Record { seed, unix_seconds, tallies: Vec::new() }
    }

    /// Prints a tally, and adds it to that of earlier turns of its case.
    pub(super) fn add(&mut self, tally: Tally) {
        println!(
            "  {:<9} {:<6} {:<9} {:<28} {:>4} rounds, {:>4} killed: {:>4} old, {:>4} new, {:>3} \
             leftovers, {} findings",
            tally.what,
            tally.place,
            tally.destination,
            tally.flags,
            tally.rounds,
            tally.killed,
            tally.old,
            tally.new,
            tally.leftovers,
            tally.findings,
        );
        match self.tallies.iter_mut().find(|earlier| earlier.case() == tally.case()) {
            Some(earlier) => earlier.add(&tally),
            None => self.tallies.push(tally),
        }
    }

    pub(super) fn findings(&self) -> u32 {
        self.tallies.iter().map(|tally| tally.findings).sum()
    }

    /// Writes one line for the run and one for each tally.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let killed = self.tallies.iter().map(|tally| u64::from(tally.killed)).sum();
        let counts = (killed, self.findings().into());
        write(path, "soak copy", (self.seed, self.unix_seconds), counts, &self.tallies)
    }
}

/// Writes one line for the run (seed, its beginning and length, kills and findings) and one for each tally.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(
    path: &Path,
    suite: &str,
    (seed, unix_seconds): (u64, u64),
    (killed, findings): (u64, u64),
    tallies: &[impl Serialize],
) -> Result<()> {
    let system = rustix::system::uname();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() - unix_seconds;
    let head = json!({
        "schema": 1,
        "suite": suite,
        "seed": seed,
        "unix_seconds": unix_seconds,
        "seconds": seconds,
        "system": system.sysname().to_string_lossy(),
        "release": system.release().to_string_lossy(),
        "machine": system.machine().to_string_lossy(),
        "killed": killed,
        "findings": findings,
    });
    let mut text = format!("{head}\n").into_bytes();
    for tally in tallies {
        writeln!(text, "{}", serde_json::to_string(tally)?)?;
    }
    let directory = path.parent().context("a record lies in a directory")?;
    fs::create_dir_all(directory)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_a_case_are_one_line() {
        let tally = |place: &str, killed, findings| Tally {
            what: "kill",
            place: place.into(),
            rounds: 3,
            killed,
            old: killed,
            new: 3 - killed,
            leftovers: 1,
            findings,
            ..Tally::default()
        };
        let mut record = Record::new(1, 0);
        for tally in [tally("ext4", 1, 0), tally("xfs", 2, 1), tally("ext4", 3, 1)] {
            record.add(tally);
        }
        let [ext4, xfs] = &record.tallies[..] else { panic!("{:?}", record.tallies) };
        let numbers = |t: &Tally| [t.rounds, t.killed, t.old, t.new, t.leftovers, t.findings];
        assert_eq!(numbers(ext4), [6, 4, 4, 2, 2, 1]);
        assert_eq!(numbers(xfs), [3, 2, 2, 1, 1, 1]);
        assert_eq!(record.findings(), 2);
    }
}
