//! Workers and servers that are killed, stopped and started again.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Compared, NatsServer, by_extent, wait_for};

use super::{SERVER, do_work, of_plan, submit};
use crate::work::{Work, Worker, failed};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [SERVER] four_workers_that_are_killed,
        [SERVER] a_server_that_is_killed,
        [SERVER] a_server_that_is_lost_before_it_answers,
        [SERVER] a_queue_that_is_lost,
        [SERVER] a_stopped_worker_that_goes_on,
        [SERVER] a_worker_that_is_asked_to_stop,
    ]
    .into_iter()
    .map(Case::begins_first)
    .collect()
}

/// Enough for units that are killed again and again.
const PATIENT: &str = "--max-deliver=1000";

/// Line of a worker that has found the queue, at its end.
const IN_QUEUE: &str = "in the queue\n";

/// Goes on until everything is done: what was lost is submitted again.
fn finish(work: &Work, url: &str) {
    wait_for("end of the plan", || {
        submit(work, url);
        do_work(work, url).status.success()
    });
}

fn four_workers_that_are_killed() {
    let work = Work::new();
    work.fill(by_extent([200, 600, 3000]));
    work.plan(&["--files=10"]);
    let server = NatsServer::start();
    submit(&work, &server.url());
    let start = || Worker::start(&work, &work.uncopy(), &server.url(), &[PATIENT, "--jobs=2"]);
    let mut workers: Vec<Worker> = (0..4).map(|_| start()).collect();
    for round in 0..by_extent([8, 30, 200]) {
        sleep(Duration::from_millis(60 + round * 37 % 150));
        let victim = &mut workers[usize::try_from(round % 4).unwrap()];
        if victim.ended().is_none() {
            // Every second time what it runs goes on, and has nobody to report to.
            match round % 2 {
                0 => victim.signal_all(Signal::KILL),
                _ => victim.signal(Signal::KILL),
            }
            victim.wait();
        }
        *victim = start();
    }
    for worker in &mut workers {
        worker.wait();
    }
    finish(&work, &server.url());
    work.assert_done();
}

fn a_server_that_is_killed() {
    let work = Work::new();
    work.fill(by_extent([100, 300, 1500]));
    work.plan(&["--files=5"]);
    let mut server = NatsServer::start();
    let url = server.url();
    submit(&work, &url);
    let mut workers: Vec<Worker> =
        (0..4).map(|_| Worker::start(&work, &work.uncopy(), &url, &[PATIENT])).collect();
    // One that begins late may find that the others have done everything.
    wait_for("connections", || {
        let output = workers[0].output();
        let count = |said| output.matches(said).count();
        count(IN_QUEUE) + count("all units are done\n") == 4
    });
    for round in 0..by_extent([3, 8, 60]) {
        sleep(Duration::from_millis(100 + round * 53 % 200));
        server.kill();
        sleep(Duration::from_millis(100));
        server.restart();
    }
    // Workers find it again by themselves, and end when all is done.
    for worker in &mut workers {
        let ended = worker.wait();
        assert!(matches!(ended.code(), Some(0 | 10)), "{ended}: {}", worker.output());
    }
    finish(&work, &url);
    work.assert_done();
}

/// The connection ends while a worker asks about the queue, and the server is there again later.
fn a_server_that_is_lost_before_it_answers() {
    for asked in ["STREAM.INFO.", "CONSUMER.INFO."] {
        let work = Work::new();
        work.fill(10);
        work.plan(&[]);
        let server = NatsServer::start();
        submit(&work, &server.url());
        let between = cut_once_at(asked, server.address());
        let run = do_work(&work, &format!("nats://{between}"));
        assert!(run.status.success(), "{asked} {}{}", run.stderr, run.stdout);
        assert!(run.stderr.contains("waiting for an answer"), "{asked} {}", run.stderr);
        work.assert_done();
    }
    // Nobody waits for longer than was asked for.
    let work = Work::new();
    work.fill(10);
    work.plan(&[]);
    let server = NatsServer::start();
    submit(&work, &server.url());
    let between = cut_once_at("STREAM.INFO.", server.address());
    let url = format!("nats://{between}");
    let run = of_plan("work", &work, &url).arg("--patience=0s").run();
    assert!(failed(&run, 11).contains("cannot look up the queue"), "{}", run.stderr);
}

/// Passes connections on to a server. The first one that asks this is ended, and never answered.
fn cut_once_at(asked: &'static str, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let is_cut = Arc::new(AtomicBool::new(false));
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(server) else { continue };
            let (mut from_server, mut to_worker) =
                (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut from_server, &mut to_worker));
            let is_cut = Arc::clone(&is_cut);
            thread::spawn(move || pass_on(near, far, asked, &is_cut));
        }
    });
    address
}

/// Passes on what a worker sends, line by line.
fn pass_on(near: TcpStream, mut far: TcpStream, asked: &str, is_cut: &AtomicBool) {
    let mut lines = BufReader::new(near);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let has_asked = String::from_utf8_lossy(&line).contains(asked);
        if has_asked && !is_cut.swap(true, Ordering::Relaxed) {
            break;
        }
        if far.write_all(&line).is_err() {
            break;
        }
        line.clear();
    }
    let _ = lines.into_inner().shutdown(Shutdown::Both);
    let _ = far.shutdown(Shutdown::Both);
}

/// As after a power cut that took all messages: the ledger knows what is left.
fn a_queue_that_is_lost() {
    let work = Work::new();
    work.fill(40);
    work.plan(&["--files=5"]);
    let first = NatsServer::start();
    submit(&work, &first.url());
    let mut worker = Worker::start(&work, &work.uncopy(), &first.url(), &["--patience=1s"]);
    wait_for("record", || work.has_in_ledger("000002.json"));
    drop(first);
    assert_eq!(worker.wait().code(), Some(11), "{}", worker.output());
    assert!(worker.output().contains("cannot be reached any more"), "{}", worker.output());
    let done = work.status()["done"].as_u64().unwrap();
    let second = NatsServer::start();
    let run = submit(&work, &second.url());
    let left = work.units().len() as u64 - done;
    assert!(run.stdout.starts_with(&format!("{left} unit")), "{done} done, {}", run.stdout);
    assert!(do_work(&work, &second.url()).status.success());
    work.assert_done();
}

/// A worker is stopped in the middle of a unit for longer than the server waits. Another one does the unit, a user changes
/// the copy, and the first worker goes on: the change stays.
fn a_stopped_worker_that_goes_on() {
    let work = Work::new();
    work.fill(5);
    fs::write(work.source().join("slow"), vec![7; 3 << 20]).unwrap();
    work.plan(&["--files=1000", "--max-bandwidth=2Mi"]);
    let server = NatsServer::start();
    submit(&work, &server.url());
    let mut stopped = Worker::start(&work, &work.uncopy(), &server.url(), &[]);
    wait_for("attempt", || work.has_in_ledger("000000.epoch"));
    stopped.signal_all(Signal::STOP);
    let mut other = Worker::start(&work, &work.uncopy(), &server.url(), &[]);
    assert!(other.wait().success(), "{}", other.output());
    let changed = work.destination().join("slow");
    assert_eq!(fs::read(&changed).unwrap(), vec![7; 3 << 20]);
    fs::write(&changed, "a change").unwrap();
    stopped.signal_all(Signal::CONT);
    assert!(stopped.wait().success(), "{}", stopped.output());
    assert_eq!(fs::read(&changed).unwrap(), b"a change");
    fs::write(&changed, vec![7; 3 << 20]).unwrap();
    work.assert_same(Compared { modes: true, ..Compared::default() });
}

/// A unit that was begun is handed to others at once.
fn a_worker_that_is_asked_to_stop() {
    let work = Work::new();
    fs::write(work.source().join("slow"), vec![7; 3 << 20]).unwrap();
    work.plan(&["--max-bandwidth=2Mi"]);
    let server = NatsServer::start();
    let long = of_plan("submit", &work, &server.url()).arg("--ack-wait=1h").run();
    assert!(long.status.success(), "{}", long.stderr);
    let mut worker = Worker::start(&work, &work.uncopy(), &server.url(), &[]);
    wait_for("attempt", || work.has_in_ledger("000000.epoch"));
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait().signal(), Some(Signal::TERM.as_raw()), "{}", worker.output());
    assert!(!work.has_in_ledger("000000.json"));
    assert!(do_work(&work, &server.url()).status.success());
    work.assert_done();
}
