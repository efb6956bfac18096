//! System calls of a program, observed and modified by strace.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::Running;
use crate::program::{Program, Run, STOP_TIMEOUT};
use crate::scratch::Scratch;

/// A program to run under strace.
#[derive(Debug, Clone)]
pub struct Strace {
    program: Program,
    options: Vec<String>,
    /// Names of the calls that are traced where not all are.
    names: Vec<String>,
}

impl Strace {
    /// Records every system call of `program`.
    #[must_use]
    pub fn new(program: &Program) -> Strace {
        Strace { program: program.clone(), options: Vec::new(), names: Vec::new() }
    }

    /// Modifies system calls: `copy_file_range:error=EXDEV:when=1`, see `strace(1)`, `inject`.
    /// `when` counts the calls with that name in each thread.
    #[must_use]
    pub fn inject(mut self, expression: &str) -> Strace {
        self.options.push("-e".to_owned());
        self.options.push(format!("inject={expression}"));
        let names = expression.split(':').next().unwrap_or_default();
        self.and_trace(names)
    }

    /// Adds calls (names with commas between) to those that [`Strace::outcome`] and
    /// [`Strace::stop_after`] trace.
    #[must_use]
    pub fn and_trace(mut self, names: &str) -> Strace {
        self.names.push(names.to_owned());
        self
    }

    /// Runs to the end, and records all calls.
    #[must_use]
    pub fn run(&self) -> (Run, Trace) {
        let file = TraceFile::new();
        let run = Run::new(Running::start(self.traced(&file).command()).finish());
        let trace = file.read();
        (run, trace)
    }

    /// Runs to the end; only the calls that are changed are traced, which takes a fraction of the time.
    #[must_use]
    pub fn outcome(&self) -> Run {
        let file = TraceFile::new();
        Run::new(Running::start(self.partly_traced(&file).command()).finish())
    }

    /// Runs until the `nth` call of this name has ended, and stops the program there. Calls of this
    /// name are traced, those that are changed, and no others.
    ///
    /// # Panics
    /// If it ends before.
    #[must_use]
    pub fn stop_after(&self, call: &str, nth: usize) -> Stopped {
        let file = TraceFile::new();
        let strace = self.clone().inject(&format!("{call}:signal=SIGSTOP:when={nth}"));
        let mut running = Running::start(strace.partly_traced(&file).command());
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            if let Some(&process) = file.stops().first() {
                return Stopped { running, file, process };
            }
            assert!(!running.has_ended(), "no {call} number {nth} in {}", file.text());
            assert!(Instant::now() < deadline, "hangs before {call} number {nth}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts the program so that it stops repeatedly: in the first call with this name, the third,
    /// the fifth. The kernel restarts a call that was stopped before it did anything, so stopping
    /// all of them would never end.
    #[must_use]
    pub fn stop_in_every_second(&self, call: &str) -> Stepping {
        let file = TraceFile::new();
        let strace = self.clone().inject(&format!("{call}:signal=SIGSTOP:when=1+2"));
        let running = Running::start(strace.partly_traced(&file).command());
        Stepping { running, file, stops: 0 }
    }

    /// A filter lets other calls pass at full speed, except where a signal is sent: Linux loses one that
    /// a tracer sends from the stop that such a filter makes (`ptrace_event` in `linux/ptrace.h`).
    fn partly_traced(&self, file: &TraceFile) -> Program {
        let mut strace = self.clone();
        if !self.options.iter().any(|option| option.contains(":signal=")) {
            strace.options.push("--seccomp-bpf".to_owned());
        }
        strace.options.extend(["-e".to_owned(), format!("trace={}", self.names.join(","))]);
        strace.traced(file)
    }

    fn traced(&self, file: &TraceFile) -> Program {
        let path = file.path.to_string_lossy().into_owned();
        let mut words = vec!["strace", "-f", "-qq", "-y", "-s", "32", "-o", &path];
        words.extend(self.options.iter().map(String::as_str));
        words.push("--");
        self.program.clone().through(words)
    }
}

/// A program stopped by a test; killed when dropped.
#[derive(Debug)]
pub struct Stopped {
    running: Running,
    file: TraceFile,
    process: Pid,
}

impl Stopped {
    /// Returns its process id.
    #[must_use]
    pub fn process_id(&self) -> i32 {
        self.process.as_raw_nonzero().get()
    }

    /// Lets it run to its end.
    ///
    /// # Panics
    /// If it does not end.
    #[must_use]
    pub fn resume(mut self) -> (Run, Trace) {
        kill_process(self.process, Signal::CONT).expect("it is stopped and not gone");
        let deadline = Instant::now() + 3 * STOP_TIMEOUT;
        // It is the n-th call of its thread: another thread can stop everything in its n-th call.
        let mut resumed = 1;
        while !self.running.has_ended() {
            let stops = self.file.stops();
            for thread in stops.iter().skip(resumed) {
                // It may have ended meanwhile.
                let _ = kill_process(*thread, Signal::CONT);
            }
            resumed = resumed.max(stops.len());
            assert!(Instant::now() < deadline, "does not go on: {}", self.file.text());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.end()
    }

    /// Sends it a signal and lets it run to its end.
    #[must_use]
    pub fn resume_with(self, signal: Signal) -> (Run, Trace) {
        kill_process(self.process, signal).expect("it is stopped and not gone");
        self.resume()
    }

    /// Kills it with `kill -9`.
    pub fn kill(self) {
        kill_process(self.process, Signal::KILL).expect("it is stopped and not gone");
        let _ = self.end();
    }

    fn end(self) -> (Run, Trace) {
        let run = Run::new(self.running.finish());
        (run, self.file.read())
    }
}

/// A program that stops repeatedly.
#[derive(Debug)]
pub struct Stepping {
    running: Running,
    file: TraceFile,
    stops: usize,
}

impl Stepping {
    /// Waits for the next stop. `false`: the program ended instead.
    ///
    /// # Panics
    /// If neither happens.
    pub fn wait(&mut self) -> bool {
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.file.stops().len() <= self.stops {
            if self.running.has_ended() {
                return false;
            }
            assert!(Instant::now() < deadline, "hangs: {}", self.file.text());
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Lets the stopped program run.
    pub fn go_on(&mut self) {
        let process = self.file.stops()[self.stops];
        self.stops += 1;
        kill_process(process, Signal::CONT).expect("it is stopped and not gone");
    }

    /// Returns its exit status and output.
    #[must_use]
    pub fn end(self) -> (Run, Trace) {
        (Run::new(self.running.finish()), self.file.read())
    }
}

#[derive(Debug)]
struct TraceFile {
    path: PathBuf,
    seen: RefCell<Seen>,
    _scratch: Scratch,
}

/// Stops in the part of the file that was read.
#[derive(Debug, Default)]
struct Seen {
    /// Length of that part, which ends with a line.
    length: u64,
    stops: Vec<Pid>,
    signalled: bool,
}

impl TraceFile {
    fn new() -> TraceFile {
        let scratch = Scratch::new_in(&crate::scratch::run_directory());
        TraceFile { path: scratch.join("trace"), seen: RefCell::default(), _scratch: scratch }
    }

    fn text(&self) -> String {
        // The files' contents may appear in it.
        String::from_utf8_lossy(&std::fs::read(&self.path).unwrap_or_default()).into_owned()
    }

    fn read(&self) -> Trace {
        Trace::parse(&self.text())
    }

    /// Returns the thread of each stop so far. A stop holds all threads, and each may report it; the
    /// one in whose call it came does so first.
    fn stops(&self) -> Vec<Pid> {
        let mut seen = self.seen.borrow_mut();
        let mut bytes = Vec::new();
        // strace may not have made it yet.
        if let Ok(mut file) = File::open(&self.path) {
            file.seek(SeekFrom::Start(seen.length)).expect("a file can be sought in");
            file.read_to_end(&mut bytes).expect("a file of this test is readable");
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        seen.length += whole as u64;
        for line in String::from_utf8_lossy(&bytes[..whole]).lines() {
            seen.signalled |= line.contains("--- SIGSTOP {");
            if seen.signalled && line.contains("--- stopped by SIGSTOP ---") {
                let word = line.split_whitespace().next().unwrap_or_default();
                seen.stops.extend(word.parse().ok().and_then(Pid::from_raw));
                seen.signalled = false;
            }
        }
        seen.stops.clone()
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
    /// Number of the call among those with this name in this thread, from 1, as counted by `when`.
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
