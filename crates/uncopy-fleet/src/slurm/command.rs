//! Command lines of `sbatch` (pure, but for starting them).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use uncopy_unit::format::UnitNumber;

use super::layout::Layout;
use super::submission::{LIST_FILE, SCRIPT_FILE};
use crate::plan::PlannedWork;

/// Number of digits of a plan's id in the names of jobs.
const SHORT: usize = 8;

/// Options of sbatch that the jobs have of their own. Two letters: also with a value behind it.
const OWN: [&str; 3] = ["--array", "--wrap", "-a"];

/// Returns an option of the user that would make other jobs of these.
pub(super) fn contradiction(options: &[OsString]) -> Option<&OsStr> {
    let is_own = |option: &[u8], own: &str| match option.strip_prefix(own.as_bytes()) {
        Some([]) | Some([b'=', ..]) => true,
        Some(_) => own.len() == 2,
        None => false,
    };
    let found =
        options.iter().find(|option| OWN.iter().any(|own| is_own(option.as_bytes(), own)))?;
    Some(found)
}

/// Facts that all jobs of a submission share.
#[derive(Debug)]
pub(super) struct Sbatch<'a> {
    pub(super) work: &'a PlannedWork,
    pub(super) uncopy: &'a Path,
    pub(super) submission: PathBuf,
    pub(super) options: &'a [OsString],
}

/// A command line of `sbatch`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SbatchCommand(Vec<OsString>);

impl Sbatch<'_> {
    /// Returns the command of the array job. Options of the user come first, so that they cannot undo what the job is.
    pub(super) fn array(&self, layout: &Layout) -> SbatchCommand {
        let mut words = self.common("units");
        words.push(format!("--array=0-{}", layout.elements.saturating_sub(1)).into());
        words.extend([self.script(), self.uncopy.into(), self.work.directory.clone().into()]);
        words.push(self.submission.join(LIST_FILE).into());
        words.push(layout.together.to_string().into());
        SbatchCommand(words)
    }

    /// Returns the command of the job that does the last unit, after another job or at once.
    pub(super) fn last(&self, unit: UnitNumber, after: Option<&str>) -> SbatchCommand {
        let mut words = self.common("last");
        words.extend(after.map(|job| format!("--dependency=afterany:{job}").into()));
        words.extend([self.script(), self.uncopy.into(), self.work.directory.clone().into()]);
        words.push(unit.to_string().into());
        SbatchCommand(words)
    }

    fn common(&self, name: &str) -> Vec<OsString> {
        let id = self.work.plan.id.to_string();
        let name = format!("--job-name=uncopy-{}-{name}", id.get(..SHORT).unwrap_or(&id));
        let mut place = OsString::from("--chdir=");
        place.push(&self.submission);
        let mut words = vec![OsString::from("sbatch"), name.into(), place];
        words.extend(self.options.iter().cloned());
        words.extend(["--parsable", "--requeue"].map(OsString::from));
        words
    }

    fn script(&self) -> OsString {
        self.submission.join(SCRIPT_FILE).into()
    }
}

impl SbatchCommand {
    pub(super) fn into_command(self) -> Command {
        let mut command = Command::new(self.0.first().map_or(OsStr::new("sbatch"), |word| word));
        command.args(self.0.iter().skip(1)).stdin(Stdio::null());
        command
    }

    /// Shows it as a line that a shell reads as these words, whatever bytes they have.
    pub(super) fn shown(&self) -> String {
        let words = self.0.iter().map(|word| quoted(word));
        words.collect::<Vec<_>>().join(" ") + "\n"
    }
}

/// Quotes a word for a shell. What is not UTF-8 or not printable is written as bash, ksh and zsh read it.
fn quoted(word: &OsStr) -> String {
    let plain = word.to_str().filter(|word| !word.chars().any(char::is_control));
    if let Some(quoted) = plain.and_then(|word| shlex::try_quote(word).ok()) {
        return quoted.into_owned();
    }
    let mut quoted = String::from("$'");
    for byte in word.as_bytes() {
        match byte {
            b'\'' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            byte => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn options_that_make_other_jobs_are_found() {
        for (words, is_found) in [
            ("--array=1-3", true),
            ("--time=1:00 --array 7", true),
            ("-a7", true),
            ("--wrap=x", true),
            ("--account=a -A a --arrays --requeue", false),
            ("", false),
        ] {
            let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
            assert_eq!(contradiction(&words).is_some(), is_found, "{words:?}");
        }
    }

    #[test]
    fn words_are_read_again_by_a_shell() {
        let odd = OsString::from_vec(b"a b'c\"\\\xff\n$x\r".to_vec());
        let words = ["plain", "two words", "it's", "$HOME", "", "--x=\"y\"", "ä"];
        for word in words.map(OsString::from).into_iter().chain([odd]) {
            let line = format!("printf %s {}", quoted(&word));
            let output = Command::new("bash").args(["-c", &line]).output().unwrap();
            assert_eq!(output.stdout, word.as_bytes(), "{line}");
        }
    }
}
