//! System calls of a program, observed by strace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::process::Running;
use crate::program::{Program, Run};
use crate::scratch::Scratch;

/// A program to run under strace.
#[derive(Debug, Clone)]
pub struct Strace {
    program: Program,
}

impl Strace {
    /// Records every system call of `program`.
    #[must_use]
    pub fn new(program: &Program) -> Strace {
        Strace { program: program.clone() }
    }

    /// Runs to the end, and records all calls.
    #[must_use]
    pub fn run(&self) -> (Run, Trace) {
        let (traced, file) = self.prepare();
        let run = Run::new(Running::start(traced.launch()).finish());
        (run, file.read())
    }

    /// Returns the program with strace above it, and the file that strace writes.
    pub(crate) fn prepare(&self) -> (Program, TraceFile) {
        let file = TraceFile::new();
        let path = file.path.to_string_lossy();
        let words = ["strace", "-f", "-qq", "-y", "-s", "32", "-o", &path, "--"];
        (self.program.clone().through(words), file)
    }
}

/// File that strace writes.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    _scratch: Scratch,
}

impl TraceFile {
    fn new() -> TraceFile {
        let scratch = Scratch::new_in(&crate::scratch::run_directory());
        TraceFile { path: scratch.join("trace"), _scratch: scratch }
    }

    pub(crate) fn read(&self) -> Trace {
        // The files' contents may appear in it.
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        Trace::parse(&String::from_utf8_lossy(&bytes))
    }
}

/// Result of a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Returned this value.
    Value(i64),
    /// Failed with this error, by name.
    Error(String),
    /// Did not return: the process was killed in it, or the call would be restarted.
    Unfinished,
}

/// One system call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The thread.
    pub thread: i32,
    /// Its name.
    pub name: String,
    /// Its arguments as strace prints them, with the path of each descriptor.
    pub arguments: String,
    /// The result.
    pub outcome: Outcome,
    /// Number of the call among those with this name in this thread, from 1.
    pub nth: usize,
}

impl Call {
    /// Returns its return value, if it succeeded.
    #[must_use]
    pub fn value(&self) -> Option<i64> {
        match self.outcome {
            Outcome::Value(value) => Some(value),
            Outcome::Error(_) | Outcome::Unfinished => None,
        }
    }

    /// Whether one of its arguments is a path or an open file below `path`.
    #[must_use]
    pub fn mentions(&self, path: &Path) -> bool {
        self.arguments.contains(path.to_string_lossy().as_ref())
    }
}

/// The system calls of a run, in the order in which they ended.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The calls.
    pub calls: Vec<Call>,
    /// Number of calls so far, by thread and name.
    counts: HashMap<(i32, String), usize>,
}

impl Trace {
    fn parse(text: &str) -> Trace {
        let mut trace = Trace::default();
        let mut begun: Vec<(i32, String)> = Vec::new();
        for line in text.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let Ok(thread) = thread.parse::<i32>() else { continue };
            let rest = rest.trim_start();
            if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
                begun.push((thread, start.to_owned()));
            } else if let Some(resumed) = rest.strip_prefix("<... ") {
                let Some(at) = begun.iter().position(|(owner, _)| *owner == thread) else {
                    continue;
                };
                let (_, start) = begun.remove(at);
                let end = resumed.split_once(" resumed>").map_or("", |(_, end)| end);
                trace.push(thread, &(start + end));
            } else {
                trace.push(thread, rest);
            }
        }
        for (thread, start) in begun {
            trace.push(thread, &(start + ") = ?"));
        }
        trace
    }

    fn push(&mut self, thread: i32, line: &str) {
        let Some((name, rest)) = line.split_once('(') else { return };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return;
        }
        // The last " = " after a ")": paths in the result (option -y) may contain others.
        let Some((arguments, result)) = rest
            .match_indices(" = ")
            .filter(|(at, _)| rest[..*at].trim_end().ends_with(')'))
            .last()
            .map(|(at, _)| (rest[..at].trim_end().trim_end_matches(')'), rest[at + 3..].trim()))
        else {
            return;
        };
        let count = self.counts.entry((thread, name.to_owned())).or_default();
        *count += 1;
        self.calls.push(Call {
            thread,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            outcome: parse_outcome(result),
            nth: *count,
        });
    }

    /// Returns the calls with these names.
    #[must_use]
    pub fn named(&self, names: &[&str]) -> Vec<&Call> {
        self.calls.iter().filter(|call| names.contains(&call.name.as_str())).collect()
    }

    /// Returns the position of the first matching call.
    #[must_use]
    pub fn position(&self, holds: impl Fn(&Call) -> bool) -> Option<usize> {
        self.calls.iter().position(holds)
    }

    /// Returns the sum of the results of calls with these names on files below `path`.
    #[must_use]
    pub fn bytes(&self, names: &[&str], path: &Path) -> u64 {
        let calls = self.named(names);
        let values =
            calls.iter().filter(|call| call.mentions(path)).filter_map(|call| call.value());
        values.filter_map(|value| u64::try_from(value).ok()).sum()
    }
}

fn parse_outcome(result: &str) -> Outcome {
    let mut words = result.split_whitespace();
    let value = words.next().unwrap_or_default();
    if value == "-1" {
        return Outcome::Error(words.next().unwrap_or_default().to_owned());
    }
    // With -y a descriptor is followed by its path: 3</etc/passwd>.
    let digits = value.split('<').next().unwrap_or_default();
    let number = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    number.map_or(Outcome::Unfinished, Outcome::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_their_results() {
        let trace = Trace::parse(concat!(
            "7 openat(AT_FDCWD</w>, \"a = (b\", O_RDONLY) = 3</w/a = (b>\n",
            "7 close(3</w/a = (b>)                        = 0\n",
            "7 copy_file_range(3</w/a>, NULL, 4</w/b>, NULL, 9, 0 <unfinished ...>\n",
            "8 ioctl(4</w/b>, BTRFS_IOC_CLONE or FICLONE, 3</w/a>) = -1 EOPNOTSUPP (No) (INJECTED)\n",
            "7 <... copy_file_range resumed>) = 5\n",
            "7 --- SIGSTOP {si_signo=SIGSTOP, si_code=SI_KERNEL} ---\n",
            "7 close(4</w/b>) = 0\n",
            "8 read(3</w/a>,  <unfinished ...>\n",
            "8 +++ killed by SIGKILL +++\n",
        ));
        let rows: Vec<_> =
            trace.calls.iter().map(|c| (c.name.as_str(), c.nth, c.outcome.clone())).collect();
        assert_eq!(
            rows,
            [
                ("openat", 1, Outcome::Value(3)),
                ("close", 1, Outcome::Value(0)),
                ("ioctl", 1, Outcome::Error("EOPNOTSUPP".to_owned())),
                ("copy_file_range", 1, Outcome::Value(5)),
                ("close", 2, Outcome::Value(0)),
                ("read", 1, Outcome::Unfinished),
            ]
        );
        assert_eq!(trace.bytes(&["copy_file_range"], Path::new("/w/b")), 5);
        assert!(trace.calls[0].mentions(Path::new("/w")));
    }
}
