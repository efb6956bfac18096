//! Units whose destination is on another machine: they are done there, and ask this machine for the source and the unit.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use uncopy::remote::RunJob;

use super::relay::Relay;
use super::run_there::{RanThere, run_there};
use super::session;
use super::words::DO_UNIT;
use crate::exit::Exit;
use crate::flags::copy::CopyArgs;
use crate::flags::operand::Machine;
use crate::job_control::JobControl;
use crate::report;
use crate::stop::Stop;

const DESTINATION: &str = "--destination=";
const JSON: &str = "--json";
const QUIET: &str = "--quiet";

/// A unit for the machine that has its destination. The roots of the session are the source, and the file of the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitJob {
    /// Digest of its file: no other one is done.
    pub(crate) digest: String,
    /// Path of the destination there.
    pub(crate) destination: PathBuf,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl UnitJob {
    fn words(&self) -> Vec<OsString> {
        let mut words = vec![OsString::from(format!("{DO_UNIT}{}", self.digest))];
        words.extend(self.json.then(|| JSON.into()));
        words.extend(self.quiet.then(|| QUIET.into()));
        let mut destination = OsString::from(DESTINATION);
        destination.push(&self.destination);
        words.push(destination);
        words
    }

    /// Reads the words of a job. `None`: it is no unit.
    ///
    /// # Errors
    /// A sentence for people: this version does not know a word.
    pub(super) fn parse(words: &[OsString]) -> Option<Result<UnitJob, String>> {
        let (first, rest) = words.split_first()?;
        let digest = first.to_str()?.strip_prefix(DO_UNIT)?.to_owned();
        let mut job = UnitJob { digest, destination: PathBuf::new(), json: false, quiet: false };
        for word in rest {
            match word.as_bytes().strip_prefix(DESTINATION.as_bytes()) {
                Some(path) => job.destination = OsStr::from_bytes(path).into(),
                None if word == JSON => job.json = true,
                None if word == QUIET => job.quiet = true,
                None => return Some(Err(format!("units have no word {word:?}"))),
            }
        }
        Some(match job.destination.as_os_str().is_empty() {
            true => Err("the unit names no destination".to_owned()),
            false => Ok(job),
        })
    }

    /// Has a machine do the unit of a file, and reports it.
    pub(crate) fn push(
        &self,
        flags: &CopyArgs,
        machine: &Machine,
        source: &Path,
        unit: &Path,
        stop: &Stop,
    ) -> Exit {
        let control = JobControl::new();
        let mut relay = Relay::new(flags, !self.quiet && !self.json, &control, None);
        let sources = [source.to_owned(), unit.to_owned()];
        let job = RunJob {
            arguments: self.words(),
            sources: sources.iter().map(OsString::from).collect(),
        };
        let ran = run_there(flags, machine, &job, &sources, stop, &mut relay);
        let unwritten = relay.finish();
        let exit = match ran {
            RanThere::Ended(code) => Exit::of_code(code),
            RanThere::Stopped { by, sentence } => {
                if let Some(sentence) = sentence {
                    report::say(&sentence);
                }
                return by.end();
            }
            RanThere::Failed(error) => {
                let failure = session::failure(&error, machine);
                report::say(&failure.to_string());
                failure.exit
            }
        };
        match unwritten {
            Some(error) => exit.and(report::output_failed(&error)),
            None => exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for (json, quiet) in [(true, false), (false, true), (false, false)] {
            let destination = PathBuf::from(OsStr::from_bytes(b"-a/\xff\n"));
            let job = UnitJob { digest: "00ff".to_owned(), destination, json, quiet };
            assert_eq!(UnitJob::parse(&job.words()), Some(Ok(job)));
        }
    }

    #[test]
    fn other_words_are_no_unit_or_refused() {
        let parse = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            UnitJob::parse(&words)
        };
        for words in [&[][..], &["--dest=b"], &["--examine=a"], &["--dest=b", "--do-unit=0"]] {
            assert_eq!(parse(words), None, "{words:?}");
        }
        for words in [
            &["--do-unit=0"][..],
            &["--do-unit=0", "--destination="],
            &["--do-unit=0", "--destination=a", "--rsh=x"],
        ] {
            assert!(parse(words).unwrap().is_err(), "{words:?}");
        }
    }
}
