//! Single files that a shell stops and continues, and that say how far they are.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, Content, Place, wait_for, with_usual_signals};

use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_stop_counts_in_no_duration,
        [] a_file_says_how_far_it_is,
        [] an_interrupt_of_a_stopped_copy_leaves_nothing,
    ]
}

/// So long a copy is stopped: longer than it takes to start a program, by far.
const STOPPED_FOR: Duration = Duration::from_secs(3);

/// A copy that takes four seconds at its rate, when it has its signal handlers.
fn start(pair: &Pair) -> Child {
    let child = with_usual_signals(&mut Command::new(env!("CARGO_BIN_EXE_uncopy")))
        .args(["cp", "--json", "--max-bandwidth=500K"])
        .args([&pair.source, &pair.destination])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    wait_for("handlers", || {
        let text = std::fs::read_to_string(&status).unwrap();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        // With a handler for them nothing but the program itself stops it.
        [Signal::TSTP, Signal::USR1].iter().all(|s| caught & (1 << (s.as_raw() - 1)) != 0)
    });
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn stop(child: &Child) {
    send(child, Signal::TSTP);
    wait_for("stop", || testbed::state(child.id()) == 'T');
}

fn a_stop_counts_in_no_duration() {
    let pair = Pair::at(Place::Disk, &Content::dense(2_000_000));
    let began = Instant::now();
    let mut child = start(&pair);
    stop(&child);
    let since = Instant::now();
    std::thread::sleep(STOPPED_FOR);
    assert!(!pair.destination.exists());
    let stopped = since.elapsed();
    send(&child, Signal::CONT);
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(child.wait().unwrap().success());
    let at_work = began.elapsed() - stopped;
    pair.assert_copied();
    let event: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let took = Duration::from_micros(event["duration_us"].as_u64().unwrap());
    assert!(took <= at_work, "{took:?} of {at_work:?}, and {stopped:?} stopped");
}

/// Its rate and the time left know nothing of a stop either.
fn a_file_says_how_far_it_is() {
    let pair = Pair::at(Place::Disk, &Content::dense(2_000_000));
    let began = Instant::now();
    let mut child = start(&pair);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stop(&child);
    let since = Instant::now();
    std::thread::sleep(STOPPED_FOR);
    let stopped = since.elapsed();
    send(&child, Signal::CONT);
    send(&child, Signal::USR1);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let at_work = began.elapsed() - stopped;
    // `uncopy: copying source  195.31 KiB/1.91 MiB  488.28 KiB/s  3s left`.
    let parts: Vec<&str> = line.trim_end().split("  ").collect();
    let [what, moved, rate, left] = parts[..] else { panic!("{line}") };
    assert!(what.contains("copying ") && moved.ends_with("/1.91 MiB"), "{line}");
    assert!(left.ends_with(" left"), "{line}");
    let number = |text: &str| {
        let (number, unit) = text.split_once(' ').unwrap();
        // It may have been stopped right behind its first piece, which took no time.
        let bytes = match unit.trim_end_matches("/s").split('/').next() {
            Some("KiB") => 1024.0,
            Some("MiB") => 1024.0 * 1024.0,
            _ => panic!("{line}"),
        };
        number.parse::<f64>().unwrap() * bytes
    };
    let least = number(moved) / at_work.as_secs_f64();
    assert!(number(rate) >= least * 0.98, "{line} after {at_work:?} at work");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "once for each signal");
    assert!(child.wait().unwrap().success());
}

fn an_interrupt_of_a_stopped_copy_leaves_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let pair = Pair::at(Place::Disk, &Content::dense(2_000_000));
    let mut child = start(&pair);
    stop(&child);
    send(&child, Signal::INT);
    send(&child, Signal::CONT);
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    pair.assert_nothing_left();
}
