//! Sums over records of an audit log. Memory is limited, whatever a log contains.

use std::collections::BTreeMap;
use std::time::SystemTime;

use uncopy::Cost;

use crate::audit::chain::{Record, RecordKind, RecordedCompression, RecordedTransformed};

/// Maximum number of rows of one kind; further ones are added to the row [`OTHER`].
const MAX_ROWS: usize = 64;
/// Longest name in a row.
const MAX_NAME_BYTES: usize = 40;
/// Name in place of names that no version of this program writes, or that are too many.
const OTHER: &str = "other";
/// Result of a new tree that was removed again, and of the entries in it.
const DISCARDED: &str = "discarded";

/// Names of a row: mechanism and cost, or mechanism and code.
pub(super) type RowNames = (String, String);

/// Sums over the records of a job, or over all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) entries: u64,
    /// Entries by result.
    pub(super) results: BTreeMap<String, u64>,
    /// Length of the copies.
    pub(super) bytes: u64,
    /// Bytes by mechanism and cost.
    pub(super) portions: BTreeMap<RowNames, u64>,
    /// Files by mechanism that was not used and code of the reason.
    pub(super) refusals: BTreeMap<RowNames, u64>,
    /// Entries that failed, by kind and code.
    pub(super) failures: BTreeMap<RowNames, u64>,
    pub(super) compression: CompressionTally,
    pub(super) time: TimeTally,
}

/// Sums over files that were to be compressed or decompressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CompressionTally {
    /// Files that were compressed or decompressed.
    pub(super) files: u64,
    pub(super) source_bytes: u64,
    pub(super) bytes: u64,
    /// Bytes that were compressed on trial.
    pub(super) sampled_bytes: u64,
    /// Expectations that a sample confirmed.
    pub(super) right: u64,
    /// Expectations that a sample refuted.
    pub(super) wrong: u64,
    /// Expectations that decided without a sample.
    pub(super) unchecked: u64,
}

/// Times of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TimeTally {
    /// Sum over files of the time that each took; files are copied in parallel.
    pub(super) copying_us: u64,
    /// Time from the first to the last record, by the system's clock.
    pub(super) elapsed_us: u64,
}

/// Whether an expectation about compression was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuessResult {
    Right,
    Wrong,
    Unchecked,
}

impl Tally {
    /// Adds the record of an entry.
    pub(super) fn add(&mut self, record: &Record) {
        if record.kind != RecordKind::Entry {
            return;
        }
        if record.result == DISCARDED {
            return self.take_back(record);
        }
        self.entries += 1;
        let result = name(&record.result).to_owned();
        add_row(&mut self.results, result, 1, || OTHER.into());
        self.time.copying_us = self.time.copying_us.saturating_add(record.duration_us);
        if record.result == "failed" {
            let code = record.failure_code.as_deref().unwrap_or_default();
            add_names(&mut self.failures, &record.failure_kind, code, 1);
        }
        self.bytes = self.bytes.saturating_add(record.bytes);
        for portion in &record.mechanisms {
            add_names(&mut self.portions, &portion.name, &portion.cost, portion.bytes);
        }
        for refusal in &record.refusals {
            add_names(&mut self.refusals, &refusal.mechanism, &refusal.code, 1);
        }
        if let Some(compression) = &record.compression {
            self.compression.add(compression, record.bytes);
        }
    }

    /// Takes back what earlier records said was copied or made in a new tree that was removed again.
    fn take_back(&mut self, record: &Record) {
        let made =
            record.directories.saturating_add(record.symlinks).saturating_add(record.specials);
        for (result, count) in
            [("copied", record.files), ("linked", record.hard_links), ("made", made)]
        {
            let taken = take_row(&mut self.results, &result.to_owned(), count);
            if taken > 0 {
                add_row(&mut self.results, DISCARDED.into(), taken, || OTHER.into());
            }
        }
        self.bytes = self.bytes.saturating_sub(record.bytes);
        for portion in &record.mechanisms {
            take_names(&mut self.portions, &portion.name, &portion.cost, portion.bytes);
        }
        for refusal in &record.refusals {
            let files = refusal.files.unwrap_or(1);
            take_names(&mut self.refusals, &refusal.mechanism, &refusal.code, files);
        }
        self.compression.take_back(&record.transformed);
    }

    /// Adds the sums of a job.
    pub(super) fn join(&mut self, job: &Tally) {
        self.entries += job.entries;
        for (result, count) in &job.results {
            add_row(&mut self.results, result.clone(), *count, || OTHER.into());
        }
        self.bytes = self.bytes.saturating_add(job.bytes);
        for (rows, more) in [
            (&mut self.portions, &job.portions),
            (&mut self.refusals, &job.refusals),
            (&mut self.failures, &job.failures),
        ] {
            for ((one, other), count) in more {
                add_names(rows, one, other, *count);
            }
        }
        self.compression.join(&job.compression);
        let (time, more) = (&mut self.time, &job.time);
        time.copying_us = time.copying_us.saturating_add(more.copying_us);
        time.elapsed_us = time.elapsed_us.saturating_add(more.elapsed_us);
    }

    /// Number of entries with this result.
    pub(super) fn with_result(&self, result: &str) -> u64 {
        self.results.get(result).copied().unwrap_or(0)
    }

    /// Bytes that no processor copied: holes, shared and moved ones.
    pub(super) fn zero_copy_bytes(&self) -> u64 {
        self.bytes_where(|cost| cost.is_some_and(Cost::is_zero_copy))
    }

    /// Bytes of which it is not known whether a processor copied them.
    pub(super) fn unknown_bytes(&self) -> u64 {
        self.bytes_where(|cost| cost.is_none_or(|cost| cost == Cost::Unknown))
    }

    /// Bytes in all portions.
    pub(super) fn portion_bytes(&self) -> u64 {
        self.bytes_where(|_| true)
    }

    /// Share of the bytes that no processor copied, from 0 to 1. `None`: there are none.
    pub(super) fn zero_copy_share(&self) -> Option<f64> {
        let all = self.portion_bytes();
        (all > 0).then(|| self.zero_copy_bytes() as f64 / all as f64)
    }

    fn bytes_where(&self, is_counted: impl Fn(Option<Cost>) -> bool) -> u64 {
        let counted = self.portions.iter().filter(|((_, name), _)| is_counted(cost_named(name)));
        counted.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

impl CompressionTally {
    fn add(&mut self, file: &RecordedCompression, bytes: u64) {
        if file.action != "left" {
            self.files += 1;
            self.source_bytes = self.source_bytes.saturating_add(file.source_bytes);
            self.bytes = self.bytes.saturating_add(bytes);
        }
        let sampled = file.sample.as_ref().map_or(0, |sample| sample.bytes);
        self.sampled_bytes = self.sampled_bytes.saturating_add(sampled);
        match guess_result(file) {
            Some(GuessResult::Right) => self.right += 1,
            Some(GuessResult::Wrong) => self.wrong += 1,
            Some(GuessResult::Unchecked) => self.unchecked += 1,
            None => {}
        }
    }

    /// Takes back files whose copies are gone. What samples showed stays true.
    fn take_back(&mut self, lost: &RecordedTransformed) {
        self.files = self.files.saturating_sub(lost.files);
        self.source_bytes = self.source_bytes.saturating_sub(lost.source_bytes);
        self.bytes = self.bytes.saturating_sub(lost.bytes);
    }

    fn join(&mut self, job: &CompressionTally) {
        self.files += job.files;
        self.source_bytes = self.source_bytes.saturating_add(job.source_bytes);
        self.bytes = self.bytes.saturating_add(job.bytes);
        self.sampled_bytes = self.sampled_bytes.saturating_add(job.sampled_bytes);
        self.right += job.right;
        self.wrong += job.wrong;
        self.unchecked += job.unchecked;
    }
}

/// Judges an expectation. `None`: there was none. Records of earlier versions have a guess that the file is
/// compressed, and the code says what a sample showed.
fn guess_result(file: &RecordedCompression) -> Option<GuessResult> {
    match (&file.expected, &file.guess, file.code.as_str()) {
        (Some(None), ..) | (None, None, _) => None,
        (Some(Some(expected)), ..) => Some(match expected.held {
            Some(true) => GuessResult::Right,
            Some(false) => GuessResult::Wrong,
            None => GuessResult::Unchecked,
        }),
        (None, Some(_), "does_not_pay") => Some(GuessResult::Right),
        (None, Some(_), "pays") => Some(GuessResult::Wrong),
        (None, Some(_), _) => None,
    }
}

/// Returns the cost with this name. `None`: a later version may know it.
pub(crate) fn cost_named(name: &str) -> Option<Cost> {
    Cost::ALL.into_iter().find(|cost| cost.name() == name)
}

/// Microseconds between two times of records; 0 if the clock was set back meanwhile or one is no time.
pub(super) fn elapsed_us(begin: &str, end: &str) -> u64 {
    let [begin, end] = [begin, end].map(|time| humantime::parse_rfc3339(time).ok());
    let passed = begin
        .zip(end)
        .and_then(|(begin, end): (SystemTime, SystemTime)| end.duration_since(begin).ok());
    passed.map_or(0, crate::report::json::microseconds)
}

/// Returns a name as this program writes them, and another word for all others.
fn name(found: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match found.len() <= MAX_NAME_BYTES && found.bytes().all(is_plain) {
        true => found,
        false => OTHER,
    }
}

fn add_names(rows: &mut BTreeMap<RowNames, u64>, one: &str, other: &str, count: u64) {
    let names = (name(one).to_owned(), name(other).to_owned());
    add_row(rows, names, count, || (OTHER.into(), OTHER.into()));
}

fn take_names(rows: &mut BTreeMap<RowNames, u64>, one: &str, other: &str, count: u64) {
    take_row(rows, &(name(one).to_owned(), name(other).to_owned()), count);
}

/// Takes a number from a row, which goes when nothing is left. Returns how much was there.
fn take_row<K: Ord>(rows: &mut BTreeMap<K, u64>, key: &K, count: u64) -> u64 {
    let Some(sum) = rows.get_mut(key) else { return 0 };
    let taken = count.min(*sum);
    *sum -= taken;
    if *sum == 0 {
        rows.remove(key);
    }
    taken
}

fn add_row<K: Ord>(rows: &mut BTreeMap<K, u64>, key: K, count: u64, other: impl Fn() -> K) {
    let key = if rows.len() < MAX_ROWS || rows.contains_key(&key) { key } else { other() };
    let sum = rows.entry(key).or_default();
    *sum = sum.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn record(fields: &Value) -> Record {
        let mut whole = json!({"audit": "entry", "result": "copied"});
        let more = fields.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(more);
        serde_json::from_value(whole).unwrap()
    }

    fn tally(records: &[Value]) -> Tally {
        let mut tally = Tally::default();
        records.iter().for_each(|fields| tally.add(&record(fields)));
        tally
    }

    #[test]
    fn bytes_are_summed_by_mechanism_and_cost() {
        let portion = |name: &str, cost: &str, bytes: u64| json!({"name": name, "cost": cost, "bytes": bytes});
        let found = tally(&[
            json!({"bytes": 100, "duration_us": 5, "mechanisms": [
                portion("direct", "moved", 60), portion("direct", "hole", 40)]}),
            json!({"bytes": 30, "duration_us": 7, "mechanisms": [
                portion("direct", "moved", 10), portion("splice", "kernel_copied", 20)]}),
            json!({"bytes": 9, "mechanisms": [
                portion("splice", "unknown", 4), portion("splice", "of_a_later_version", 5)]}),
            json!({"result": "failed", "kind": "system"}),
            json!({"result": "failed", "kind": "refused", "code": "rival_name"}),
        ]);
        assert_eq!((found.entries, found.bytes, found.time.copying_us), (5, 139, 12));
        assert_eq!((found.with_result("copied"), found.with_result("failed")), (3, 2));
        let row = |one: &str, other: &str| found.portions[&(one.to_owned(), other.to_owned())];
        assert_eq!((row("direct", "moved"), row("direct", "hole")), (70, 40));
        assert_eq!(found.portion_bytes(), 139);
        assert_eq!((found.zero_copy_bytes(), found.unknown_bytes()), (110, 9));
        let failure = |kind: &str, code: &str| found.failures[&(kind.to_owned(), code.to_owned())];
        assert_eq!((failure("system", ""), failure("refused", "rival_name")), (1, 1));
    }

    #[test]
    fn guesses_of_this_and_earlier_versions_are_judged() {
        let guess = json!({"format": "gzip", "by": "magic"});
        for (fields, expected) in [
            (json!({"expected": {"shrinks": true, "by": "text", "held": true}}), [1, 0, 0]),
            (json!({"expected": {"shrinks": true, "by": "text", "held": false}}), [0, 1, 0]),
            (json!({"expected": {"shrinks": true, "by": "text", "held": null}}), [0, 0, 1]),
            (json!({"expected": null, "guess": guess, "code": "pays"}), [0, 0, 0]),
            (json!({"guess": guess, "code": "pays"}), [0, 1, 0]),
            (json!({"guess": guess, "code": "does_not_pay"}), [1, 0, 0]),
            (json!({"guess": guess, "code": "already_compressed"}), [0, 0, 0]),
            (json!({"guess": null, "code": "pays"}), [0, 0, 0]),
            (json!({}), [0, 0, 0]),
        ] {
            let mut compression = json!({"action": "left", "code": "", "source_bytes": 1});
            compression.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let found = tally(&[json!({"compression": compression})]).compression;
            assert_eq!([found.right, found.wrong, found.unchecked], expected, "{fields}");
            assert_eq!(found.files, 0);
        }
    }

    #[test]
    fn hostile_names_and_numbers_stay_within_limits() {
        let most = u64::MAX;
        let records: Vec<Value> = (0..1000)
            .map(|number| {
                json!({
                    "result": format!("r{number}"), "bytes": most, "duration_us": most,
                    "mechanisms": [{"name": format!("m{number}"), "cost": "moved", "bytes": most},
                                   {"name": "\u{1b}[2J", "cost": "x".repeat(1000), "bytes": 1}],
                    "refusals": [{"mechanism": "A", "code": format!("c{number}")}],
                })
            })
            .collect();
        let mut found = tally(&records);
        found.join(&found.clone());
        assert_eq!((found.bytes, found.time.copying_us, found.entries), (most, most, 2000));
        assert_eq!(found.portion_bytes(), most);
        assert!(found.results.len() <= MAX_ROWS + 1);
        assert_eq!(found.results.values().sum::<u64>(), 2000);
        for rows in [&found.portions, &found.refusals, &found.failures] {
            assert!(rows.len() <= MAX_ROWS + 1, "{}", rows.len());
            let is_short = |name: &String| name.len() <= MAX_NAME_BYTES && name.is_ascii();
            assert!(rows.keys().all(|(one, other)| is_short(one) && is_short(other)), "{rows:?}");
        }
    }

    #[test]
    fn sums_of_jobs_are_the_sums_of_their_records() {
        let portion = json!([{"name": "splice", "cost": "kernel_copied", "bytes": 3}]);
        let compression = json!({
            "action": "compressed", "code": "pays", "source_bytes": 9,
            "expected": {"held": true}, "sample": {"bytes": 5, "compressed_bytes": 1},
        });
        let records = [
            json!({"bytes": 3, "mechanisms": portion, "compression": compression}),
            json!({"bytes": 1, "refusals": [{"mechanism": "reflink", "code": "no_reflinks"}]}),
            json!({"result": "failed", "kind": "system"}),
        ];
        let mut joined = tally(&records[..1]);
        joined.join(&tally(&records[1..]));
        assert_eq!(joined, tally(&records));
    }

    #[test]
    fn what_was_discarded_counts_as_that_alone() {
        let portion = |bytes: u64| json!([{"name": "splice", "cost": "moved", "bytes": bytes}]);
        let refusals = json!([{"mechanism": "reflink", "code": "no_reflinks"}]);
        let compression = json!({"action": "compressed", "code": "pays", "source_bytes": 9,
            "expected": {"held": true}, "sample": {"bytes": 5}});
        let file = json!({"bytes": 3, "duration_us": 2, "mechanisms": portion(3),
            "refusals": refusals, "compression": compression});
        let kept = [file.clone(), json!({"result": "made"}), json!({"result": "linked"})];
        let lost = [
            file.clone(),
            file,
            json!({"result": "made"}),
            json!({"result": "made"}),
            json!({"result": "linked"}),
        ];
        let end = json!({"result": "discarded", "entries": 5, "files": 2, "directories": 1,
            "symlinks": 1, "hard_links": 1, "specials": 0, "bytes": 6, "mechanisms": portion(6),
            "refusals": [{"mechanism": "reflink", "code": "no_reflinks", "files": 2}],
            "transformed": {"files": 2, "source_bytes": 18, "bytes": 6}});
        let failed = json!({"result": "failed", "kind": "system"});
        let all = [&kept[..], &lost[..], &[failed.clone(), end.clone()]].concat();
        let (found, mut expected) = (tally(&all), tally(&[&kept[..], &[failed]].concat()));
        expected.results.insert("discarded".into(), 5);
        expected.entries += 5;
        // Time was spent, and samples showed what they showed.
        expected.time.copying_us += 4;
        expected.compression.right += 2;
        expected.compression.sampled_bytes += 10;
        assert_eq!(found, expected);

        // A record that takes back what was never there.
        assert_eq!(tally(&[end]), Tally::default());
    }

    #[test]
    fn time_runs_forward_or_not_at_all() {
        let begin = "2026-01-01T00:00:00.000001Z";
        for (end, expected) in [
            ("2026-01-01T00:00:01.000003Z", 1_000_002),
            (begin, 0),
            ("2025-01-01T00:00:00Z", 0),
            ("", 0),
            ("9999-99-99T99:99:99Z", 0),
        ] {
            assert_eq!(elapsed_us(begin, end), expected, "{end}");
        }
    }
}
