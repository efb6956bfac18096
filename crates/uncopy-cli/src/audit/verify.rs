//! `uncopy audit verify`: checks that a log was not changed.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use uncopy::follow;

use super::chain::{Chain, ChainBreak, ChainEnd, RecordKind};
use crate::exit::Exit;
use crate::report::{failed_to, of_file, output_failed, print, printable, say};

/// Contents of a log with an unbroken chain.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    records: u64,
    jobs: u64,
    /// Jobs without a last record that are followed by another job.
    unfinished: u64,
    /// Whether the last job has no last record: it is still running, or was killed.
    open: bool,
    last: Option<String>,
}

/// Checks a log.
///
/// # Errors None: a problem is printed and gives the exit code.
pub(super) fn run(path: &Path, hash: Option<&str>) -> Exit {
    let file = follow::open(path).map_err(|error| of_file(&error));
    let log = match file.and_then(|file| read(BufReader::new(file))) {
        Ok(log) => log,
        Err(error) => {
            let operation = format!("read {}", path.display());
            let next_step = "name a log that --audit wrote, and that you may read";
            return failed_to(&operation, &error, next_step);
        }
    };
    judge(path, log, hash)
}

fn judge(path: &Path, log: Result<Log, ChainBreak>, expected: Option<&str>) -> Exit {
    let shown = path.display();
    let problem = match log {
        Err(broken) => broken.to_string(),
        Ok(Log { records: 0, .. }) => "it has no records".into(),
        Ok(log) if expected.is_some() && log.last.as_deref() != expected => format!(
            "its last record has the hash {}: records were added or removed at its end",
            log.last.unwrap_or_default()
        ),
        Ok(Log { open: true, .. }) => {
            "its last job has no summary: it is still running, was killed, or records were removed \
             at the end"
                .into()
        }
        Ok(log) => {
            let (records, jobs) = (log.records, log.jobs);
            let last = log.last.unwrap_or_default();
            let killed = match log.unfinished {
                0 => String::new(),
                unfinished => format!(", {unfinished} of them without a summary (killed)"),
            };
            let text = format!(
                "{shown}: {records} records of {jobs} jobs{killed}: the chain is unbroken\n{last}\n"
            );
            let text: String =
                text.lines().map(|line| printable(line).into_owned() + "\n").collect();
            return print(&text).map_or_else(|error| output_failed(&error), |()| Exit::Success);
        }
    };
    say(&format!("{shown} cannot be trusted: {problem}; compare it with a backup"));
    Exit::Failure
}

/// Follows the chain; the inner `Err` describes where it breaks.
fn read(log: impl BufRead) -> io::Result<Result<Log, ChainBreak>> {
    let mut chain = Chain::new(log, ChainEnd::default());
    let (mut found, mut is_open) = (Log::default(), false);
    loop {
        match chain.next()? {
            Err(broken) => return Ok(Err(broken)),
            Ok(None) => break,
            Ok(Some(record)) if record.kind == RecordKind::Begin => {
                found.jobs += 1;
                found.unfinished += u64::from(is_open);
                is_open = true;
            }
            Ok(Some(record)) => is_open = record.kind == RecordKind::Entry,
        }
    }
    found.records = chain.records();
    let ChainEnd { last, is_open } = chain.into_end();
    Ok(Ok(Log { last, open: is_open, ..found }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Audit;

    fn written() -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for _ in 0..2 {
            let mut audit = Audit::open(&path).unwrap();
            for event in ["copied", "failed"] {
                let line = format!("{{\"schema\":1,\"event\":\"{event}\",\"source\":\"a\"}}\n");
                audit.entry(&line).unwrap();
            }
            audit.end(false).unwrap();
        }
        std::fs::read(path).unwrap()
    }

    #[test]
    fn an_unchanged_log_has_an_unbroken_chain() {
        let log = read(&written()[..]).unwrap().unwrap();
        assert_eq!((log.records, log.jobs, log.open), (8, 2, false));
    }

    #[test]
    fn every_change_is_noticed() {
        let log = written();
        let last = log[..log.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
        for place in (0..last - 1).filter(|place| log[*place] != b'\n') {
            let mut changed = log.clone();
            changed[place] ^= 1;
            assert!(read(&changed[..]).unwrap().is_err(), "{place}");
        }
        // No line follows the last one: its own hash shows the change.
        let whole = read(&log[..]).unwrap().unwrap().last;
        for place in last..log.len() - 1 {
            let mut changed = log.clone();
            changed[place] ^= 1;
            let found = read(&changed[..]).unwrap();
            assert!(found.is_err() || found.unwrap().last != whole, "{place}");
        }
    }

    #[test]
    fn every_removal_is_noticed() {
        let log = written();
        let lines: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
        for gone in 0..lines.len() - 1 {
            let mut left = lines.clone();
            left.remove(gone);
            assert!(read(&left.concat()[..]).unwrap().is_err(), "{gone}");
        }
        for end in [5, 6, 7] {
            assert!(read(&lines[..end].concat()[..]).unwrap().unwrap().open, "{end}");
        }
        assert!(read(&log[..log.len() - 5]).unwrap().is_err());
    }

    #[test]
    fn zeros_after_a_crash_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = written();
        std::fs::write(&path, [&log[..], &[0; 700]].concat()).unwrap();
        let found = read(&std::fs::read(&path).unwrap()[..]).unwrap().unwrap();
        assert_eq!((found.records, found.open), (8, false));
        Audit::open(&path).unwrap().end(false).unwrap();
        let gone_on = std::fs::read(&path).unwrap();
        assert_eq!(gone_on[..log.len()], log);
        assert_eq!(read(&gone_on[..]).unwrap().unwrap().records, 10);
        for tail in [&b"{"[..], b"{\0\0", b"\0{", b"\0\n"] {
            let torn = [&log[..], tail].concat();
            std::fs::write(&path, &torn).unwrap();
            assert!(read(&torn[..]).unwrap().is_err(), "{tail:?}");
            assert!(Audit::open(&path).is_err() || tail.ends_with(b"\n"), "{tail:?}");
        }
    }
}
