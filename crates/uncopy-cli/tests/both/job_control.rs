//! Copies that a shell stops and continues, and that say how far they are.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, Compared, Content, Place, Scratch, assert_same, assert_same_tree, wait_for};

use crate::both::{Form, cases_over};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::ALL;
        [] a_stop_counts_in_neither_duration_nor_rate,
        [] a_copy_that_is_continued_at_once_goes_on,
        [] an_interrupt_of_a_stopped_copy_leaves_nothing,
        [] a_copy_says_how_far_it_is,
    ];
    cases.extend(cases_over![
        [Form::NewTree, Form::OldTree];
        [] lines_say_how_far_it_is_where_there_is_no_terminal,
    ]);
    cases
}

/// Time for which a copy is stopped: longer than it takes to start a program, by far.
const STOPPED_FOR: Duration = Duration::from_millis(1500);

const BYTES: u64 = 2_000_000;
const FILES: u64 = 40;

/// A copy that takes two seconds at its rate, and was at work when it was given out.
struct Job {
    form: Form,
    source: PathBuf,
    to: Scratch,
    child: Child,
    began: Instant,
    _from: Scratch,
}

impl Job {
    fn start(form: Form, flags: &[&str]) -> Job {
        // On two filesystems where the case has one of its own: what is shared takes no time.
        let (from, to) = (Place::TestDirectory.scratch(), Place::Disk.scratch());
        let source = from.join("source");
        if form.is_tree() {
            std::fs::create_dir(&source).unwrap();
            for number in 0..FILES {
                let length = BYTES / FILES;
                Content::dense(length).write(&source.join(number.to_string()));
            }
        } else {
            Content::dense(BYTES).write(&source);
        }
        if form == Form::OldTree {
            std::fs::create_dir(to.join("destination")).unwrap();
        }
        let began = Instant::now();
        let child = Command::new(env!("CARGO_BIN_EXE_uncopy"))
            .args(["cp", "--max-bandwidth=1M"])
            .args(if form.is_tree() { &["-rT"][..] } else { &[] })
            .args(flags)
            .args([&source, &to.join("destination")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let job = Job { form, source, to, child, began, _from: from };
        wait_for("work", || job.is_at_work());
        job
    }

    /// Whether its signal handlers are installed, and it writes: a file is open, or a tree has entries.
    ///
    /// The mask alone shows a handler a moment before its action is there.
    fn is_at_work(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        // With a handler for them nothing but the program itself stops it.
        let has_handlers =
            [Signal::TSTP, Signal::USR1].iter().all(|s| caught & (1 << (s.as_raw() - 1)) != 0);
        let writes_a_file = || {
            let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
            let mut paths = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
            paths.any(|path| path != self.to.path() && path.starts_with(self.to.path()))
        };
        let has_entries = || {
            self.to.strangers(&[]).iter().any(|name| {
                let entries = std::fs::read_dir(self.to.join(name));
                entries.is_ok_and(|entries| entries.count() > 1)
            })
        };
        has_handlers && if self.form.is_tree() { has_entries() } else { writes_a_file() }
    }

    /// Whether its destination has everything.
    fn is_whole(&self) -> bool {
        let destination = self.to.join("destination");
        match self.form {
            Form::OldTree => std::fs::read_dir(destination).unwrap().count() as u64 >= FILES,
            _ => destination.exists(),
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn stop(&self) {
        self.send(Signal::TSTP);
        wait_for("stop", || testbed::state(self.child.id()) == 'T');
    }

    /// Stops it and lets it go on. Returns for how long it was stopped, at least.
    fn stop_for_a_while(&self) -> Duration {
        self.stop();
        let since = Instant::now();
        std::thread::sleep(STOPPED_FOR);
        assert!(!self.is_whole());
        let stopped = since.elapsed();
        self.send(Signal::CONT);
        stopped
    }

    fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.child.stderr.take().unwrap())
    }

    /// Returns the text printed on standard output.
    #[track_caller]
    fn end(mut self) -> String {
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(self.child.wait().unwrap().success());
        let destination = self.to.join("destination");
        if self.form.is_tree() {
            assert_same_tree(&self.source, &destination, Compared::default());
        } else {
            assert_same(&self.source, &destination);
        }
        printed
    }

    /// Takes a line apart that says how far it is:
    /// `uncopy: copying source  195.31 KiB/1.91 MiB  488.28 KiB/s  3s left`, or of a tree
    /// `uncopy: 17/41+ entries  799.32 KiB  488.28 KiB/s  read_write`.
    #[track_caller]
    fn assert_says_how_far(&self, line: &str) -> Progress {
        let parts: Vec<&str> = line.trim_end().split("  ").collect();
        let [what, moved, rate, ..] = parts[..] else { panic!("{line}") };
        assert!(rate.ends_with("iB/s"), "{line}");
        if self.form.is_tree() {
            assert!(what.ends_with(" entries"), "{line}");
        } else {
            assert!(what.contains("copying ") && moved.ends_with("/1.91 MiB"), "{line}");
            assert!(parts[3].ends_with(" left"), "{line}");
        }
        Progress { bytes: bytes(moved), rate: bytes(rate) }
    }
}

/// Bytes that were copied, and bytes per second.
struct Progress {
    bytes: f64,
    rate: f64,
}

/// The bytes of `903.32 KiB` at the beginning of a text, as few as they may be for that.
fn bytes(text: &str) -> f64 {
    let (number, rest) = text.trim_start().split_once(' ').unwrap();
    let place = ["B", "KiB", "MiB"].iter().rposition(|unit| rest.starts_with(unit)).unwrap();
    (number.parse::<f64>().unwrap() - 0.005) * 1024_f64.powi(i32::try_from(place).unwrap())
}

/// By the clock of this test alone: the time that the copy reports must fit into what is left of the
/// whole without the stop.
fn a_stop_counts_in_neither_duration_nor_rate(form: Form) {
    let mut job = Job::start(form, &["--json"]);
    let stopped = job.stop_for_a_while();
    let mut stderr = job.stderr();
    job.send(Signal::USR1);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let at_work = job.began.elapsed() - stopped;
    let progress = job.assert_says_how_far(&line);
    // A file may have been stopped before its first piece.
    assert!(progress.bytes > 0.0 || !form.is_tree(), "{line}");
    let least = progress.bytes / at_work.as_secs_f64();
    assert!(progress.rate >= least * 0.98, "{line} after {at_work:?} at work");

    let began = job.began;
    let printed = job.end();
    let at_work = began.elapsed() - stopped;
    let last: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let took = Duration::from_micros(last["duration_us"].as_u64().unwrap());
    assert!(took <= at_work, "{took:?} of {at_work:?}, and {stopped:?} stopped");
}

fn a_copy_that_is_continued_at_once_goes_on(form: Form) {
    let job = Job::start(form, &[]);
    for _ in 0..20 {
        job.send(Signal::TSTP);
        std::thread::sleep(Duration::from_millis(3));
        job.send(Signal::CONT);
    }
    job.end();
}

fn an_interrupt_of_a_stopped_copy_leaves_nothing(form: Form) {
    let mut job = Job::start(form, &[]);
    job.stop();
    job.send(Signal::INT);
    job.send(Signal::CONT);
    assert_eq!(job.child.wait().unwrap().signal(), Some(2));
    if form == Form::OldTree {
        // Whole files stay, and no others.
        assert_eq!(job.to.strangers(&["destination"]), [""; 0]);
        for entry in std::fs::read_dir(job.to.join("destination")).unwrap() {
            let path = entry.unwrap().path();
            assert_same(&job.source.join(path.file_name().unwrap()), &path);
        }
    } else {
        assert_eq!(job.to.strangers(&[]), [""; 0]);
    }
}

fn a_copy_says_how_far_it_is(form: Form) {
    let mut job = Job::start(form, &[]);
    let mut stderr = job.stderr();
    job.send(Signal::USR1);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    job.assert_says_how_far(&line);
    job.end();
    assert_eq!(stderr.lines().count(), 0, "once for each signal");
}

/// The scan runs ahead, so that the totals are final and the time left is known.
fn lines_say_how_far_it_is_where_there_is_no_terminal(form: Form) {
    let mut job = Job::start(form, &["--progress"]);
    let mut line = String::new();
    let mut stderr = job.stderr();
    stderr.read_line(&mut line).unwrap();
    let progress = job.assert_says_how_far(&line);
    let parts: Vec<&str> = line.trim_end().split("  ").collect();
    let [entries, moved, _, left, mechanism] = parts[..] else { panic!("{line}") };
    // The files and their directory.
    assert!(entries.ends_with("/41 entries"), "{line}");
    assert!(moved.ends_with("/1.91 MiB"), "{line}");
    assert!(progress.bytes > 0.0 && progress.bytes < BYTES as f64, "{line}");
    assert!(left.ends_with(" left"), "{line}");
    let known = uncopy::Mechanism::ALL.iter().any(|known| known.to_string() == mechanism);
    assert!(known, "{line}");
    job.end();
}
