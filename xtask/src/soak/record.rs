//! Records of a soak, as JSON Lines.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Counters under one set of conditions.
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

    /// Rounds after which neither the old file nor the new one was there.
    fn lost(&self) -> u32 {
        self.rounds.saturating_sub(self.old + self.new)
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
            "  {:<9} {:<6} {:<9} {:<28} {:>4} rounds, {:>4} killed: {:>4} old, {:>4} new, {} lost, \
             {:>3} leftovers, {} findings",
            tally.what,
            tally.place,
            tally.destination,
            tally.flags,
            tally.rounds,
            tally.killed,
            tally.old,
            tally.new,
            tally.lost(),
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
        let sum = |number: fn(&Tally) -> u32| self.tallies.iter().map(number).map(u64::from).sum();
        let counts = [
            ("killed", sum(|tally| tally.killed)),
            ("lost", sum(Tally::lost)),
            ("findings", self.findings().into()),
        ];
        write(path, "soak copy", self.seed, self.unix_seconds, &counts, &self.tallies)
    }
}

/// Writes one line for the run (seed, its beginning and length, and counts) and one for each tally.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(
    path: &Path,
    suite: &str,
    seed: u64,
    unix_seconds: u64,
    counts: &[(&str, u64)],
    tallies: &[impl Serialize],
) -> Result<()> {
    let seen = counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
    write_rows(path, suite, seed, unix_seconds, Value::Object(seen), tallies)
}

/// Writes one line for the run, with what it saw.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_line(
    path: &Path,
    suite: &str,
    seed: u64,
    unix_seconds: u64,
    seen: Value,
) -> Result<()> {
    write_rows(path, suite, seed, unix_seconds, seen, &[] as &[Value])
}

/// Writes one line for the run (its seed, its beginning and its counters) and one for
/// each row.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_rows(
    path: &Path,
    suite: &str,
    seed: u64,
    unix_seconds: u64,
    seen: Value,
    rows: &[impl Serialize],
) -> Result<()> {
    let mut line = head(suite, unix_seconds)?;
    line.insert("seed".to_owned(), seed.into());
    let Value::Object(seen) = seen else { bail!("{suite} saw {seen}, which has no names") };
    line.extend(seen);
    let mut text = serde_json::to_vec(&line)?;
    text.push(b'\n');
    for row in rows {
        writeln!(text, "{}", serde_json::to_string(row)?)?;
    }
    save(path, &text)
}

/// Facts about every run.
fn head(suite: &str, unix_seconds: u64) -> Result<Map<String, Value>> {
    let system = rustix::system::uname();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() - unix_seconds;
    let head = json!({
        "schema": 1,
        "suite": suite,
        "unix_seconds": unix_seconds,
        "seconds": seconds,
        "system": system.sysname().to_string_lossy(),
        "release": system.release().to_string_lossy(),
        "machine": system.machine().to_string_lossy(),
    });
    let Value::Object(head) = head else { unreachable!("it was written as one") };
    Ok(head)
}

fn save(path: &Path, text: &[u8]) -> Result<()> {
    let directory = path.parent().context("a record lies in a directory")?;
    fs::create_dir_all(directory)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("recorded in {}", path.display());
    Ok(())
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
        assert_eq!((ext4.lost(), Tally { old: 1, ..ext4.clone() }.lost()), (0, 3));
    }

    #[test]
    fn a_run_of_one_kind_is_one_line_with_what_it_saw() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("evidence/soak-x.jsonl");
        write_line(&file, "soak x", 7, 1, json!({ "messages": 3 })).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["suite"], &line["messages"]), (&json!("soak x"), &json!(3)));
        assert!(line["seconds"].as_u64().unwrap() > 0, "{line}");
        assert!(write_line(&file, "soak x", 7, 1, json!(3)).is_err());
    }
}
