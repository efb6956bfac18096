//! `uncopy audit stats`: sums over the records of logs.

mod json;
mod tally;

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use indicatif::BinaryBytes;
use uncopy::{Mechanism, Portion, follow};

use super::chain::{Chain, ChainBreak, ChainEnd, Record, RecordKind};
use crate::exit::Exit;
use crate::flags::usage_error;
use crate::report::human::{counted, duration, portion_line};
use crate::report::{describe, of_file, output_failed, print, printable, say};
use json::Whole;
pub(crate) use tally::cost_named;
use tally::{Tally, elapsed_us};

/// Longest job number and time that are shown; this program writes shorter ones.
const MAX_SHOWN_BYTES: usize = 64;

/// Reads logs, and prints the sums of each job as soon as it ends, and those of all jobs.
///
/// # Errors
/// A log is named twice: its records would be counted twice.
pub(super) fn run(files: &[PathBuf], json: bool) -> Result<Exit, clap::Error> {
    if let Some(twice) = (1..files.len()).find(|place| files[..*place].contains(&files[*place])) {
        let named = files[twice].display();
        let message = format!("{named} is named twice; name each log once, the oldest first");
        return Err(usage_error("audit", ErrorKind::ValueValidation, &message));
    }
    let mut summary = LogSummary::new(json);
    let mut end = ChainEnd::default();
    for path in files {
        let file = follow::open(path).map_err(|error| of_file(&error));
        let read = file.and_then(|file| summary.read(path, BufReader::new(file), end));
        end = match read {
            Ok(Ok(end)) => end,
            Ok(Err(broken)) => summary.report_break(path, broken),
            Err(error) => summary.report_error(path, &error),
        };
    }
    Ok(summary.finish())
}

/// Sums of one job.
#[derive(Debug, Default)]
struct JobStats {
    job: String,
    begin: String,
    /// Time of the last record.
    last: String,
    /// Log in which the job began.
    file: PathBuf,
    tally: Tally,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobEnd {
    Finished,
    /// A signal ended it.
    Interrupted,
    /// It has no last record: it is still running or was killed.
    Unfinished,
}

impl JobEnd {
    /// Name for programs.
    const fn name(self) -> &'static str {
        match self {
            JobEnd::Finished => "finished",
            JobEnd::Interrupted => "interrupted",
            JobEnd::Unfinished => "unfinished",
        }
    }
}

/// Sums while logs are read.
struct LogSummary {
    json: bool,
    job: Option<JobStats>,
    all: Tally,
    jobs: u64,
    interrupted: u64,
    unfinished: u64,
    is_unbroken: bool,
    exit: Exit,
    /// First error of standard output.
    unwritten: Option<io::Error>,
}

impl LogSummary {
    fn new(json: bool) -> LogSummary {
        LogSummary {
            json,
            job: None,
            all: Tally::default(),
            jobs: 0,
            interrupted: 0,
            unfinished: 0,
            is_unbroken: true,
            exit: Exit::Success,
            unwritten: None,
        }
    }

    /// Adds the records of a log. The inner error describes where its chain breaks.
    fn read(
        &mut self,
        path: &Path,
        log: impl BufRead,
        earlier: ChainEnd,
    ) -> io::Result<Result<ChainEnd, ChainBreak>> {
        let mut chain = Chain::new(log, earlier);
        loop {
            match chain.next()? {
                Ok(Some(record)) => self.add(path, &record),
                Ok(None) => return Ok(Ok(chain.into_end())),
                Err(broken) => return Ok(Err(broken)),
            }
        }
    }

    fn add(&mut self, path: &Path, record: &Record) {
        if record.kind == RecordKind::Begin {
            self.end_job(JobEnd::Unfinished);
            let (job, begin) = (shown(&record.job), shown(&record.time));
            let (last, file) = (begin.clone(), path.to_owned());
            self.job = Some(JobStats { job, begin, last, file, tally: Tally::default() });
            return;
        }
        let Some(job) = &mut self.job else { return };
        job.last = shown(&record.time);
        job.tally.add(record);
        if record.kind == RecordKind::End {
            let is_interrupted = record.interrupted;
            self.end_job(if is_interrupted { JobEnd::Interrupted } else { JobEnd::Finished });
        }
    }

    fn end_job(&mut self, end: JobEnd) {
        let Some(mut job) = self.job.take() else { return };
        job.tally.time.elapsed_us = elapsed_us(&job.begin, &job.last);
        self.jobs += 1;
        self.interrupted += u64::from(end == JobEnd::Interrupted);
        self.unfinished += u64::from(end == JobEnd::Unfinished);
        self.all.join(&job.tally);
        let text = match self.json {
            true => json::job(&job.file, &job, end),
            false => words_of_job(&job, end),
        };
        self.print(&text);
    }

    /// Reports a break. Nothing can follow the log.
    fn report_break(&mut self, path: &Path, broken: ChainBreak) -> ChainEnd {
        self.end_job(JobEnd::Unfinished);
        if self.json {
            self.print(&json::broken(path, broken));
        }
        self.report_trouble(&format!(
            "{} cannot be trusted: {broken}; only records before that are counted; compare it with a backup",
            path.display()
        ))
    }

    /// Reports a log that cannot be read to its end. Nothing can follow it.
    fn report_error(&mut self, path: &Path, error: &io::Error) -> ChainEnd {
        self.end_job(JobEnd::Unfinished);
        let message = format!("cannot read {}: {}", path.display(), describe(error));
        self.report_trouble(&format!(
            "{message}; name a log that --audit wrote, and that you may read"
        ));
        if self.json {
            self.print(&json::unreadable(path, message));
        }
        ChainEnd::default()
    }

    fn report_trouble(&mut self, message: &str) -> ChainEnd {
        say(message);
        self.is_unbroken = false;
        self.exit = Exit::Failure;
        ChainEnd::default()
    }

    /// Prints the sums of all jobs.
    fn finish(mut self) -> Exit {
        self.end_job(JobEnd::Unfinished);
        let text = match self.json {
            true => json::total(&Whole {
                tally: &self.all,
                is_unbroken: self.is_unbroken,
                jobs: self.jobs,
                interrupted: self.interrupted,
                unfinished: self.unfinished,
            }),
            false => self.words(),
        };
        self.print(&text);
        self.unwritten.map_or(self.exit, |error| self.exit.and(output_failed(&error)))
    }

    fn words(&self) -> String {
        let mut jobs = counted(self.jobs, "job", "jobs");
        for (count, what) in [(self.interrupted, "interrupted"), (self.unfinished, "unfinished")] {
            if count > 0 {
                let _ = write!(jobs, ", {count} {what}");
            }
        }
        format!("all: {jobs}: {}", words(&self.all))
    }

    /// Prints text, until standard output fails.
    fn print(&mut self, text: &str) {
        if self.unwritten.is_none() {
            self.unwritten = print(text).err();
        }
    }
}

/// Returns a word of a record, without what no version of this program writes.
fn shown(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-:.".contains(&byte);
    match word.len() <= MAX_SHOWN_BYTES && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => String::new(),
    }
}

fn words_of_job(job: &JobStats, end: JobEnd) -> String {
    let file = job.file.to_string_lossy();
    let end = match end {
        JobEnd::Finished => "",
        JobEnd::Interrupted => ", interrupted",
        JobEnd::Unfinished => ", without a summary (still running, or killed)",
    };
    let JobStats { job, begin, tally, .. } = job;
    format!("{}: job {job} of {begin}{end}: {}", printable(&file), words(tally))
}

/// Describes sums: the rest of a line, and a line for each row.
fn words(tally: &Tally) -> String {
    let time = |us| duration(Duration::from_micros(us));
    let mut text = format!(
        "{} in {}\n",
        counted(tally.entries, "entry", "entries"),
        time(tally.time.elapsed_us)
    );
    let copied = tally.with_result("copied");
    let files = counted(copied, "file", "files");
    let _ = write!(text, "  {files} copied, {}", BinaryBytes(tally.bytes));
    if let Some(share) = tally.zero_copy_share() {
        let _ = write!(text, ", {:.1} % of it by no processor", share * 100.0);
    }
    if copied > 0 {
        let _ = write!(text, "; {} of copying, of all workers", time(tally.time.copying_us));
    }
    text.push('\n');
    for ((name, cost), bytes) in &tally.portions {
        let mechanism = Mechanism::ALL.into_iter().find(|known| known.name() == name);
        let _ = match (mechanism, cost_named(cost)) {
            (Some(mechanism), Some(cost)) => {
                let portion = Portion { mechanism, bytes: *bytes, cost };
                writeln!(text, "  {}", portion_line(&portion))
            }
            _ => writeln!(text, "  {} by {name} ({cost})", BinaryBytes(*bytes)),
        };
    }
    for ((mechanism, code), files) in &tally.refusals {
        let files = counted(*files, "file", "files");
        let _ = writeln!(text, "  not by {mechanism}: {code} ({files})");
    }
    let compression = tally.compression;
    if compression.files > 0 {
        let (from, to) = (BinaryBytes(compression.source_bytes), BinaryBytes(compression.bytes));
        let files = counted(compression.files, "file", "files");
        let _ = writeln!(text, "  {files} compressed or decompressed: {from} became {to}");
    }
    if compression != tally::CompressionTally::default() {
        let _ = writeln!(
            text,
            "  guesses about compression: {} right, {} wrong, {} unchecked; {} compressed on trial",
            compression.right,
            compression.wrong,
            compression.unchecked,
            BinaryBytes(compression.sampled_bytes)
        );
    }
    let others = tally.results.iter().filter(|(result, _)| *result != "copied");
    let others: Vec<String> = others.map(|(result, count)| format!("{count} {result}")).collect();
    if !others.is_empty() {
        let _ = writeln!(text, "  {}", others.join(", "));
    }
    for ((kind, code), entries) in &tally.failures {
        let code = if code.is_empty() { String::new() } else { format!(": {code}") };
        let _ = writeln!(text, "  failed: {kind}{code} ({entries})");
    }
    text
}
