//! Jobs that a shell stops and continues, and that say how far they are.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, Compared, assert_same_tree, wait_for, with_usual_signals};

use crate::tree::Trees;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_stop_counts_in_neither_duration_nor_rate,
        [] a_job_that_is_continued_at_once_goes_on,
        [] an_interrupt_of_a_stopped_job_leaves_nothing,
        [] a_job_says_how_far_it_is,
        [] lines_say_how_far_it_is_where_there_is_no_terminal,
    ]
}

/// So long a job is stopped: longer than it takes to start a program, by far.
const STOPPED_FOR: Duration = Duration::from_secs(3);

/// A job that takes four seconds at its rate, and was at work when it was given out.
struct Job {
    trees: Trees,
    child: Child,
    began: Instant,
}

impl Job {
    fn start(flags: &[&str]) -> Job {
        let trees = Trees::apart();
        for number in 0..40 {
            trees.file(&format!("{number}"), vec![number; 50_000]);
        }
        let began = Instant::now();
        let child = with_usual_signals(&mut Command::new(env!("CARGO_BIN_EXE_uncopy")))
            .args(["cp", "-r", "--max-bandwidth=500K"])
            .args(flags)
            .args([trees.source(), trees.destination()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for("a tree that is being made", || {
            let strangers = trees.to.strangers(&["destination"]);
            strangers.iter().any(|name| {
                std::fs::read_dir(trees.to.join(name)).is_ok_and(|entries| entries.count() > 1)
            })
        });
        Job { trees, child, began }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it and lets it go on. Returns for how long it was stopped, at least.
    fn stop_for_a_while(&self) -> Duration {
        self.send(Signal::TSTP);
        wait_for("stop", || testbed::state(self.child.id()) == 'T');
        let since = Instant::now();
        std::thread::sleep(STOPPED_FOR);
        assert!(!self.trees.destination().exists());
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
        assert_same_tree(&self.trees.source(), &self.trees.destination(), Compared::default());
        printed
    }
}

/// The bytes of `903.32 KiB` at the beginning of a text, as few as they may be for that.
fn bytes(text: &str) -> f64 {
    let (number, rest) = text.trim_start().split_once(' ').unwrap();
    let place = ["B", "KiB", "MiB"].iter().rposition(|unit| rest.starts_with(unit)).unwrap();
    (number.parse::<f64>().unwrap() - 0.005) * 1024_f64.powi(i32::try_from(place).unwrap())
}

/// By the clock of this test alone: what the job says that it took must fit into what is left of the
/// whole without the stop.
fn a_stop_counts_in_neither_duration_nor_rate() {
    let mut job = Job::start(&["--json", "--jobs=3"]);
    let stopped = job.stop_for_a_while();
    let mut stderr = job.stderr();
    job.send(Signal::USR1);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let at_work = job.began.elapsed() - stopped;
    // `17/41+ entries  799.32 KiB  488.28 KiB/s  read_write`.
    let parts: Vec<&str> = line.split("  ").collect();
    assert!(parts[0].ends_with(" entries") && parts[2].contains("/s"), "{line}");
    let (done, rate) = (bytes(parts[1]), bytes(parts[2]));
    assert!(done > 0.0, "{line}");
    assert!(rate >= done / at_work.as_secs_f64() * 0.98, "{line} after {at_work:?} at work");

    let began = job.began;
    let printed = job.end();
    let at_work = began.elapsed() - stopped;
    let summary: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let took = Duration::from_micros(summary["duration_us"].as_u64().unwrap());
    assert!(took <= at_work, "{took:?} of {at_work:?}, and {stopped:?} stopped");
}

fn a_job_that_is_continued_at_once_goes_on() {
    let job = Job::start(&[]);
    for _ in 0..20 {
        job.send(Signal::TSTP);
        std::thread::sleep(Duration::from_millis(3));
        job.send(Signal::CONT);
    }
    job.end();
}

fn an_interrupt_of_a_stopped_job_leaves_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let mut job = Job::start(&[]);
    job.send(Signal::TSTP);
    wait_for("stop", || testbed::state(job.child.id()) == 'T');
    job.send(Signal::INT);
    job.send(Signal::CONT);
    assert_eq!(job.child.wait().unwrap().signal(), Some(2));
    assert!(job.trees.to.strangers(&[]).is_empty(), "{:?}", job.trees.to.strangers(&[]));
}

fn a_job_says_how_far_it_is() {
    let mut job = Job::start(&[]);
    let mut stderr = job.stderr();
    job.send(Signal::USR1);
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains(" entries  ") && said.contains("/s"), "{said}");
    job.end();
    assert_eq!(stderr.lines().count(), 0, "once for each signal");
}

/// The scan runs ahead, so that the totals are final and the time left is known.
fn lines_say_how_far_it_is_where_there_is_no_terminal() {
    let mut job = Job::start(&["--progress"]);
    let mut line = String::new();
    let mut stderr = job.stderr();
    stderr.read_line(&mut line).unwrap();
    let parts: Vec<&str> = line.trim_end().split("  ").collect();
    let [entries, moved, rate, left, mechanism] = parts[..] else { panic!("{line}") };
    // 40 files and their directory, of 40 · 50 000 bytes.
    assert!(entries.ends_with("/41 entries"), "{line}");
    assert!(moved.ends_with("/1.91 MiB"), "{line}");
    let total = 2_000_000.0;
    assert!(bytes(moved) > 0.0 && bytes(moved) < total, "{line}");
    assert!(rate.ends_with("iB/s") && left.ends_with(" left"), "{line}");
    let known = uncopy::Mechanism::ALL.iter().any(|known| known.to_string() == mechanism);
    assert!(known, "{line}");
    job.end();
}
