//! `uncopy audit stats`: sums that agree with the events of the jobs, of one log or several, whole or broken.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::{
    Case, Compared, Content, Forbidden, Program, Run, Scratch, SystemCall, assert_same_tree,
};
use uncopy::Errno;

use crate::tree::audit::killed_job;
use crate::tree::{Trees, cp, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] sums_are_those_of_the_job,
        [] jobs_of_several_logs_are_summed_up,
        [] a_job_that_was_killed_is_counted_and_no_error,
        [] a_log_that_was_cut_into_files_is_one_chain,
        [] what_is_before_a_break_is_counted,
        [] hostile_logs_end_with_a_message,
        [] records_of_earlier_versions_are_read,
        [] misuse_has_its_exit_codes,
        [] words_for_people_name_each_job,
    ]
}

fn stats<P: AsRef<Path>>(logs: &[P]) -> Run {
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "stats", "--json"]);
    logs.iter().fold(program, |program, log| program.arg(log.as_ref())).run()
}

fn lines(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The sums of all jobs, of logs that are whole.
#[track_caller]
fn total<P: AsRef<Path>>(logs: &[P]) -> Value {
    let run = stats(logs);
    assert!(run.status.success() && run.stderr.is_empty(), "{}: {}", run.status, run.stderr);
    let total = lines(&run).pop().unwrap();
    assert_eq!((&total["event"], &total["unbroken"]), (&json!("total"), &json!(true)));
    total
}

/// Rows of an array as a map, so that their order does not matter.
fn rows(of: &Value, keys: [&str; 2], number: &str) -> BTreeMap<[String; 2], u64> {
    let text = |row: &Value, key| row[key].as_str().unwrap_or_default().to_owned();
    let rows = of.as_array().unwrap().iter();
    let mut sums = BTreeMap::new();
    for row in rows {
        *sums.entry(keys.map(|key| text(row, key))).or_default() += row[number].as_u64().unwrap();
    }
    sums
}

/// Large and small, sparse and dense, some that fail: held against the summary that the job printed.
fn sums_are_those_of_the_job() {
    let trees = Trees::new();
    for number in 0..30 {
        trees.file(&format!("{}/{number}", number % 3), vec![number; 5000]);
    }
    Content::sparse(6 << 20, &[(0, 1 << 20), (3 << 20, 1 << 20)])
        .write(&trees.source().join("large"));
    trees.file("in the way", "x");
    crate::tree::file_in(&trees.destination(), "in the way/file", "x");
    let log = trees.from.join("log");
    let forbidden = [SystemCall::IOCTL].map(Forbidden::Call);
    let program = cp().args(["-T", "--jobs=3", "--audit"]).arg(&log);
    let run = trees.run(program.forbidding(&forbidden, Errno::EPERM));
    run.failed(1);
    let summary = summary(&run);
    let summary = summary.value();
    let printed = stats(&[&log]);
    assert!(printed.status.success(), "{}", printed.stderr);
    let [job, total] = &lines(&printed)[..] else { panic!("{}", printed.stdout) };
    assert_eq!((&job["event"], &job["end"]), (&json!("job"), &json!("finished")));
    assert_eq!(job["file"], log.to_str().unwrap());
    for sums in [job, total] {
        assert_eq!(sums["results"]["copied"], summary["files"]);
        assert_eq!(sums["results"]["made"], summary["directories"]);
        assert_eq!(sums["results"]["failed"], 1);
        assert_eq!(sums["bytes"], summary["bytes"]);
        let failures = rows(&sums["failures"], ["kind", "code"], "entries");
        assert_eq!(failures.values().sum::<u64>(), 1, "{sums}");
        let portions = |of: &Value| rows(&of["mechanisms"], ["name", "cost"], "bytes");
        assert_eq!(portions(sums), portions(summary));
        let refusals = |of: &Value| rows(&of["refusals"], ["mechanism", "code"], "files");
        assert_eq!(refusals(sums), refusals(summary));
        assert!(refusals(sums).keys().any(|[mechanism, _]| mechanism == "reflink"));
        let number = |key: &str| sums[key].as_u64().unwrap();
        let by_cost = |wanted: &[&str]| {
            let rows = portions(summary).into_iter();
            rows.filter(|([_, cost], _)| wanted.contains(&cost.as_str()))
                .map(|(_, n)| n)
                .sum::<u64>()
        };
        assert_eq!(number("zero_copy_bytes"), by_cost(&["hole", "shared", "moved"]));
        assert!(number("zero_copy_bytes") >= 4 << 20, "the holes: {sums}");
        assert_eq!(number("copied_bytes"), by_cost(&["kernel_copied", "zeros", "user_copied"]));
        assert_eq!(number("unknown_bytes"), by_cost(&["unknown"]));
        let share = sums["zero_copy_share"].as_f64().unwrap();
        let expected = number("zero_copy_bytes") as f64 / number("bytes") as f64;
        assert!((share - expected).abs() < 1e-9, "{share} {expected}");
        let copied = crate::tree::events(&run, "copied");
        let took: u64 =
            copied.iter().map(|event| event.value()["duration_us"].as_u64().unwrap()).sum();
        assert_eq!(number("copying_us"), took);
        assert!(number("elapsed_us") > 0);
        assert_eq!(sums["guesses"], json!({"right": 0, "wrong": 0, "unchecked": 0}));
    }
}

/// Writes a log of a job for each of these numbers of files. Returns the log.
fn logged(scratch: &Scratch, name: &str, jobs: &[usize]) -> PathBuf {
    let log = scratch.join(name);
    for (job, files) in jobs.iter().enumerate() {
        let from = scratch.join(format!("{name} {job}"));
        fs::create_dir(&from).unwrap();
        for file in 0..*files {
            fs::write(from.join(file.to_string()), "12345").unwrap();
        }
        let program = cp().args(["-T", "--audit"]).arg(&log).arg(&from);
        let run = program.arg(scratch.join(format!("{name} {job} copy"))).run();
        assert!(run.status.success(), "{}", run.stderr);
    }
    log
}

fn jobs_of_several_logs_are_summed_up() {
    let scratch = testbed::Place::Disk.scratch();
    let (one, other) = (logged(&scratch, "one", &[1, 2]), logged(&scratch, "other", &[3]));
    for logs in [[&one, &other], [&other, &one]] {
        let run = stats(&logs);
        let lines = lines(&run);
        assert_eq!(lines.len(), 4, "{}", run.stdout);
        let total = &lines[3];
        assert_eq!((&total["jobs"], &total["results"]["copied"]), (&json!(3), &json!(6)));
        assert_eq!((&total["bytes"], &total["unfinished"]), (&json!(30), &json!(0)));
        for key in ["bytes", "entries", "copying_us", "elapsed_us"] {
            let sum: u64 = lines[..3].iter().map(|job| job[key].as_u64().unwrap()).sum();
            assert_eq!(total[key], sum, "{key}");
        }
    }
    // A job writes on into a log that is renamed meanwhile; the next one begins a log.
    fs::rename(&one, scratch.join("one.1")).unwrap();
    let one = logged(&scratch, "one", &[]);
    fs::write(&one, "").unwrap();
    assert_eq!(total(&[&scratch.join("one.1"), &one])["jobs"], 2);
}

fn a_job_that_was_killed_is_counted_and_no_error() {
    let trees = Trees::new();
    let (program, log) = killed_job(&trees);
    let killed = total(&[&log]);
    assert_eq!((&killed["jobs"], &killed["unfinished"]), (&json!(1), &json!(1)));
    assert!((19..=20).contains(&killed["results"]["copied"].as_u64().unwrap()), "{killed}");
    assert!(program.run().status.success());
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    let both = total(&[&log]);
    assert_eq!((&both["jobs"], &both["unfinished"]), (&json!(2), &json!(1)));
    let ends: Vec<Value> = lines(&stats(&[&log])).iter().map(|line| line["end"].clone()).collect();
    assert_eq!(ends, [json!("unfinished"), json!("finished"), Value::Null]);
}

fn a_log_that_was_cut_into_files_is_one_chain() {
    let scratch = testbed::Place::Disk.scratch();
    let log = logged(&scratch, "log", &[3, 2]);
    let expected = lines(&stats(&[&log]));
    let whole = fs::read_to_string(&log).unwrap();
    let records: Vec<&str> = whole.split_inclusive('\n').collect();
    let (first, second) = (scratch.join("first"), scratch.join("second"));
    for cut in 1..records.len() {
        fs::write(&first, records[..cut].concat()).unwrap();
        fs::write(&second, records[cut..].concat()).unwrap();
        let run = stats(&[&first, &second]);
        assert!(run.status.success(), "{cut}: {}", run.stderr);
        let mut found = lines(&run);
        for (job, expected) in
            found.iter_mut().zip(&expected).filter(|(job, _)| job["event"] == "job")
        {
            job["file"] = expected["file"].clone();
        }
        assert_eq!(found, expected, "{cut}");
        // The wrong way round, or without its beginning, it follows nothing.
        let message = stats(&[&second, &first]);
        assert!(message.failed(1).contains("follows a line that is not there"), "{cut}");
    }
}

fn what_is_before_a_break_is_counted() {
    let scratch = testbed::Place::Disk.scratch();
    let log = logged(&scratch, "log", &[3, 4]);
    let whole = logged(&scratch, "whole", &[10]);
    let text = fs::read_to_string(&log).unwrap();
    let records: Vec<&str> = text.split_inclusive('\n').collect();
    // The first job has six records: its beginning, a directory, three files, its end.
    let changed = records[7].replacen("\"bytes\":5", "\"bytes\":6", 1);
    let with = |place: usize, line: &str| {
        let mut lines = records.clone();
        lines[place] = line;
        lines.concat()
    };
    for (damaged, number, code, files) in [
        (text[..text.len() - 1].to_owned(), records.len(), "cut_off", 7),
        (text[..text.len() - 40].to_owned(), records.len(), "cut_off", 7),
        (with(7, &changed), 9, "not_following", 4),
        (with(8, ""), 9, "not_following", 4),
        (with(6, "no JSON\n"), 7, "not_json", 3),
        (with(6, "[]\n"), 7, "not_record", 3),
        (with(6, "{\"audit\":\"other\"}\n"), 7, "not_record", 3),
        (records[1..].concat(), 1, "not_following", 0),
        ("{\"audit\":\"end\"}\n".into(), 1, "not_record", 0),
    ] {
        let broken = scratch.join("broken");
        fs::write(&broken, &damaged).unwrap();
        let run = stats(&[&broken, &whole]);
        let message = run.failed(1);
        assert!(message.contains("cannot be trusted"), "{message}");
        let lines = lines(&run);
        let found = lines.iter().find(|line| line["event"] == "broken").unwrap();
        assert_eq!((&found["line"], &found["code"]), (&json!(number), &json!(code)), "{found}");
        let total = lines.last().unwrap();
        assert_eq!(total["unbroken"], false);
        assert_eq!(
            total["results"]["copied"].as_u64(),
            Some(files + 10),
            "{code} {number}: {}",
            run.stdout
        );
    }
}

/// Appends records to a chain.
struct Forged {
    log: Vec<u8>,
    previous: Option<String>,
}

impl Forged {
    fn new() -> Forged {
        let mut forged = Forged { log: Vec::new(), previous: None };
        forged.add(json!({"audit": "begin", "job": "1", "time": "2026-01-01T00:00:00Z"}));
        forged
    }

    fn add(&mut self, mut record: Value) -> &mut Forged {
        record["schema"] = json!(1);
        record["previous"] = json!(self.previous);
        let line = serde_json::to_vec(&record).unwrap();
        self.previous = Some(blake3::hash(&line).to_hex().to_string());
        self.log.extend(line);
        self.log.push(b'\n');
        self
    }

    fn save(&self, path: &Path) {
        fs::write(path, &self.log).unwrap();
    }
}

fn hostile_logs_end_with_a_message() {
    let scratch = testbed::Place::Disk.scratch();
    let log = scratch.join("log");
    for (bytes, code) in [
        (vec![b'x'; 17 << 20], "too_long"),
        ([&b"{\"audit\":"[..], &b"[".repeat(1 << 20), b"\n"].concat(), "not_json"),
        (b"\xff\xfe\n".to_vec(), "not_json"),
        (b"\n\n\n".to_vec(), "not_json"),
        (b"{\"audit\":\"begin\",\"job\":7}\n".to_vec(), "not_record"),
        (b"{\"audit\":\"begin\",\"bytes\":-1}\n".to_vec(), "not_record"),
        (b"{\"audit\":\"begin\",\"audit\":\"end\"}\n".to_vec(), "not_record"),
        (b"{\"audit\":\"begin\",\"mechanisms\":[{}]}\n".to_vec(), "not_record"),
        ([testbed::seeded(5, 0, 100_000), b"\n".to_vec()].concat(), "not_json"),
    ] {
        fs::write(&log, bytes).unwrap();
        let run = stats(&[&log]);
        run.failed(1);
        assert_eq!(lines(&run)[0]["code"], code, "{}", run.stdout);
    }
    // A chain that is unbroken, with names and numbers that no program writes.
    let mut forged = Forged::new();
    forged.add(json!({"audit": "begin", "job": "\u{1b}]0;title\u{7}", "time": "\r\n"}));
    for number in 0..500 {
        forged.add(json!({
            "audit": "entry", "result": format!("\u{1b}[{number}m"), "bytes": u64::MAX,
            "mechanisms": [{"name": format!("way{number}"), "cost": "\n", "bytes": u64::MAX}],
            "refusals": [{"mechanism": "\0", "code": format!("c{number}")}],
        }));
    }
    forged.save(&log);
    let found = total(&[&log]);
    assert_eq!((&found["entries"], &found["bytes"]), (&json!(500), &json!(u64::MAX)));
    assert_eq!(found["results"], json!({"other": 500}));
    assert!(found["mechanisms"].as_array().unwrap().len() <= 65, "{found}");
    let run = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "stats"]).arg(&log).run();
    assert!(run.status.success(), "{}", run.stderr);
    let is_plain = |c: char| !c.is_control() || c == '\n';
    assert!(run.stdout.chars().all(is_plain), "{:?}", run.stdout);
    // Zeros that a crash left behind the last record.
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(&[0; 5000]).unwrap();
    assert_eq!(total(&[&log])["entries"], 500);
}

/// They have a guess, whose result the code says, and no expectation.
fn records_of_earlier_versions_are_read() {
    let scratch = testbed::Place::Disk.scratch();
    let log = scratch.join("log");
    let mut forged = Forged::new();
    let guess = json!({"format": "gzip", "by": "magic"});
    for (guess, code, action) in [
        (json!(null), "pays", "compressed"),
        (guess.clone(), "does_not_pay", "left"),
        (guess.clone(), "does_not_pay", "left"),
        (guess.clone(), "pays", "compressed"),
    ] {
        forged.add(json!({
            "audit": "entry", "result": "copied", "source": "a", "bytes": 10, "duration_us": 3,
            "mechanisms": [{"name": "read_write", "bytes": 10, "cost": "user_copied"}],
            "refusals": [{"mechanism": "reflink", "reason": "of a version without codes"}],
            "compression": {
                "action": action, "code": code, "guess": guess, "source_bytes": 100,
                "sample": {"bytes": 50, "compressed_bytes": 5},
            },
        }));
    }
    let end = json!({"audit": "end", "interrupted": true, "time": "2026-01-01T00:00:02Z"});
    forged.add(end).save(&log);
    let found = total(&[&log]);
    assert_eq!(found["guesses"], json!({"right": 2, "wrong": 1, "unchecked": 0}));
    let expected = json!({"files": 2, "source_bytes": 200, "bytes": 20, "sampled_bytes": 200});
    assert_eq!(found["compression"], expected);
    assert_eq!((&found["interrupted"], &found["elapsed_us"]), (&json!(1), &json!(2_000_000)));
    assert_eq!(found["refusals"], json!([{"mechanism": "reflink", "code": "", "files": 4}]));
}

fn misuse_has_its_exit_codes() {
    let scratch = testbed::Place::Disk.scratch();
    let log = logged(&scratch, "log", &[1]);
    assert!(stats(&[&log, &log]).failed(2).contains("named twice"));
    stats::<&Path>(&[]).failed(2);
    for missing in [scratch.join("missing"), scratch.path().to_owned()] {
        let run = stats(&[&missing, &log]);
        assert!(run.failed(1).contains("cannot read"), "{}", run.stderr);
        let lines = lines(&run);
        assert_eq!(lines[0]["event"], "unreadable");
        assert_eq!(lines.last().unwrap()["results"]["copied"], 1);
    }
    // An empty log has no jobs, and nothing is wrong with it.
    fs::write(scratch.join("empty"), "").unwrap();
    assert_eq!(total(&[scratch.join("empty")])["jobs"], 0);
}

fn words_for_people_name_each_job() {
    let scratch = testbed::Place::Disk.scratch();
    let log = logged(&scratch, "log", &[3]);
    let run = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "stats"]).arg(&log).run();
    assert!(run.status.success() && run.stderr.is_empty(), "{}", run.stderr);
    let first = run.stdout.lines().next().unwrap();
    assert!(first.starts_with(&format!("{}: job ", log.display())), "{first}");
    for part in ["3 files copied, 15 B", "1 made", "all: 1 job: 4 entries in", "by read_write"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
}
