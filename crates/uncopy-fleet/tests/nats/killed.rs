//! Workers and servers that are killed, stopped and started again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{
    Case, Compared, LONG, Machine, NatsServer, Need, Place, by_extent, hosts_of_records, seeded,
    wait_for,
};

use super::{SERVER, do_work, of_plan, queue, submit};
use crate::work::{Work, Worker, failed};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [SERVER] four_workers_that_are_killed,
        [SERVER, Need::Root, Need::Tool("mkfs.ext4"), Need::Tool("unshare")] machines_and_a_server_that_are_killed,
        [SERVER] a_server_that_is_killed,
        [SERVER] a_cluster_that_loses_one_server_after_the_other,
        [SERVER] a_server_that_is_lost_before_it_answers,
        [SERVER] a_server_that_counts_what_it_never_hands_out,
        [SERVER] a_submission_to_a_server_that_counts_wrongly,
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

/// Four machines share a filesystem and nothing else; they and the server are killed at random while there is work.
fn machines_and_a_server_that_are_killed() {
    let work = Work::at(Place::Ext4);
    work.fill(by_extent([1_000, 20_000, 20_000]));
    work.plan(&["--files=50"]);
    let mut server = NatsServer::start();
    let url = server.url();
    submit(&work, &url);
    let machines =
        ["first", "second", "third", "fourth"].map(|name| Machine::sharing(Place::Ext4, name));
    let start = |at: usize| Worker::start_on(&machines[at], &work, &url, &[PATIENT, "--jobs=2"]);
    let mut workers = [0, 1, 2, 3].map(start);
    let (mut machines_killed, mut servers_killed) = (0, 0);
    for dice in seeded(28, 0, by_extent([10, 60, 400])) {
        sleep(Duration::from_millis(40 + u64::from(dice)));
        let victim = usize::from(dice % 5);
        match workers.get_mut(victim) {
            None => {
                server.kill();
                server.restart();
                servers_killed += 1;
            }
            Some(worker) => {
                if worker.ended().is_none() {
                    match dice & 1 {
                        0 => worker.signal_all(Signal::KILL),
                        _ => worker.signal(Signal::KILL),
                    }
                    machines_killed += 1;
                }
                worker.wait();
                *worker = start(victim);
            }
        }
    }
    assert!(machines_killed > 0 && servers_killed > 0, "{machines_killed} {servers_killed}");
    for worker in &mut workers {
        let ended = worker.wait_at_most(5 * LONG);
        // One that begins while the server is away has no queue to wait for.
        assert!(matches!(ended.code(), Some(0 | 10 | 11)), "{ended}: {}", worker.output());
    }
    finish(&work, &url);
    let hosts = hosts_of_records(&work.destination());
    assert!(machines.iter().all(|machine| hosts.contains(machine.name())), "{hosts:?}");
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

/// With three replicas a queue goes on while two servers are there, and workers find the one that they are not connected to.
fn a_cluster_that_loses_one_server_after_the_other() {
    let work = Work::new();
    work.fill(by_extent([200, 400, 2000]));
    work.plan(&["--files=2"]);
    let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = free.each_ref().map(|listener| listener.local_addr().unwrap().port());
    drop(free);
    let routes = ports.map(|port| format!("nats-route://127.0.0.1:{port}")).join(", ");
    let mut servers = ports.map(|port| {
        NatsServer::start_with(&format!(
            "server_name: \"server{port}\"
             jetstream: {{ store_dir: \"DIRECTORY\" }}
             cluster: {{ name: test, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
        ))
    });
    let url = servers.each_ref().map(NatsServer::url).join(",");
    let submit = || of_plan("submit", &work, &url).args(["--ack-wait=1s", "--replicas=3"]).run();
    // They elect a leader first.
    wait_for("submission", || submit().status.success());
    let mut workers: Vec<Worker> =
        (0..4).map(|_| Worker::start(&work, &work.uncopy(), &url, &[PATIENT])).collect();
    wait_for("record", || work.has_in_ledger("000002.json"));
    for round in 0..by_extent([3, 3, 30]) {
        let server = &mut servers[round % 3];
        server.kill();
        assert!(round > 0 || work.status()["complete"] == false, "nothing is left for two servers");
        sleep(Duration::from_millis(500));
        server.restart();
        sleep(Duration::from_millis(1500));
    }
    for worker in &mut workers {
        let ended = worker.wait_at_most(5 * LONG);
        assert!(matches!(ended.code(), Some(0 | 10)), "{ended}: {}", worker.output());
    }
    wait_for("end of the plan", || {
        submit().status.success() && do_work(&work, &url).status.success()
    });
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

/// The first connection that asks this is ended, and never answered.
fn cut_once_at(asked: &'static str, server: SocketAddr) -> SocketAddr {
    let is_cut = AtomicBool::new(false);
    let goes_on = move |line: &mut Vec<u8>| {
        !String::from_utf8_lossy(line).contains(asked) || is_cut.swap(true, Ordering::Relaxed)
    };
    between(server, goes_on, |_| true)
}

/// The server counts eight more units that were handed out, as one that was killed may do for ever.
fn counting_more(server: SocketAddr) -> SocketAddr {
    let count_more = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        let name = "\"num_ack_pending\":";
        // The length of the line stays.
        if let Some(at) = text.find(&format!("{name}0,")).or(text.find(&format!("{name}1,"))) {
            line[at + name.len()] += 8;
        }
        true
    };
    between(server, |_| true, count_more)
}

/// Passes connections on to a server, line by line. `asked` and `answered` get each line before it is passed on, may change
/// it, and end the connection by `false`.
fn between(
    server: SocketAddr,
    asked: impl Fn(&mut Vec<u8>) -> bool + Send + Sync + 'static,
    answered: impl Fn(&mut Vec<u8>) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, answered) = (Arc::new(asked), Arc::new(answered));
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(server) else { continue };
            let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let (asked, answered) = (Arc::clone(&asked), Arc::clone(&answered));
            thread::spawn(move || pass_on(far_again, near_again, &*answered));
            thread::spawn(move || pass_on(near, far, &*asked));
        }
    });
    address
}

fn pass_on(from: TcpStream, mut to: TcpStream, goes_on: &dyn Fn(&mut Vec<u8>) -> bool) {
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if !goes_on(&mut line) || to.write_all(&line).is_err() {
            break;
        }
        line.clear();
    }
    let _ = lines.into_inner().shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// The ledger decides whether anything is left, for the last unit and for workers that get no other.
fn a_server_that_counts_what_it_never_hands_out() {
    let server = NatsServer::start();
    let counting = format!("nats://{}", counting_more(server.address()));
    let planned = || {
        let work = Work::new();
        work.fill(30);
        work.plan(&["--files=10"]);
        work
    };
    let (whole, failing) = (planned(), planned());
    let unit = failing.units().remove(1);
    fs::write(&unit, fs::read_to_string(&unit).unwrap() + "\n").unwrap();
    for work in [&whole, &failing] {
        submit(work, &server.url());
    }
    fs::write(&unit, fs::read_to_string(&unit).unwrap() + "\n").unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| do_work(&whole, &counting));
        let second = scope.spawn(|| do_work(&failing, &counting));
        let run = first.join().unwrap();
        assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
        let run = second.join().unwrap();
        assert!(failed(&run, 1).contains("units are not done"), "{}", run.stderr);
    });
    whole.assert_done();
    let queue = queue(&failing, &server.url());
    let given_up = queue["given_up_units"].as_array().unwrap();
    let reasons: Vec<_> = given_up.iter().map(|unit| unit["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["digest", "others_missing"], "{queue}");
}

/// A submission has the server hand out again what it has, also what it says that a worker has.
fn a_submission_to_a_server_that_counts_wrongly() {
    let server = NatsServer::start();
    let url = server.url();
    let counting = format!("nats://{}", counting_more(server.address()));
    let work = Work::new();
    work.fill(30);
    work.plan(&["--files=10"]);
    let submit = |url: &str| of_plan("submit", &work, url).arg("--ack-wait=1h").run();
    let counts = || {
        let queue = queue(&work, &url);
        [&queue["waiting"], &queue["handed_out"]].map(|count| count.as_u64().unwrap())
    };
    let units = work.units().len() as u64;
    assert!(submit(&url).status.success());
    // It has taken a unit, and does not say what became of it.
    let never_ends = work.scratch.join("never-ends");
    fs::write(&never_ends, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&never_ends, fs::Permissions::from_mode(0o755)).unwrap();
    let worker = Worker::start(&work, &never_ends, &url, &[]);
    wait_for("a unit that was taken", || counts() == [units - 1, 1]);
    drop(worker);
    let run = submit(&url);
    assert!(run.status.success() && run.stderr.is_empty(), "{}", run.stderr);
    assert_eq!(counts(), [units - 1, 1]);
    let run = submit(&counting);
    assert!(run.stderr.contains("counts other units than it has"), "{}", run.stderr);
    assert_eq!(counts(), [units, 0]);
    assert!(do_work(&work, &url).status.success());
    work.assert_done();
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

/// A unit that was begun is handed to others at once, and is not given up for that, however often it happens.
fn a_worker_that_is_asked_to_stop() {
    let work = Work::new();
    fs::write(work.source().join("slow"), vec![7; 3 << 20]).unwrap();
    work.plan(&["--max-bandwidth=2Mi"]);
    let server = NatsServer::start();
    let long = of_plan("submit", &work, &server.url()).arg("--ack-wait=1h").run();
    assert!(long.status.success(), "{}", long.stderr);
    let start = || Worker::start(&work, &work.uncopy(), &server.url(), &["--max-deliver=1"]);
    for attempt in 1..=3 {
        let mut worker = start();
        wait_for("attempt", || work.attempt("000000") == attempt);
        worker.signal(Signal::TERM);
        assert_eq!(worker.wait().signal(), Some(Signal::TERM.as_raw()), "{}", worker.output());
        assert!(!work.has_in_ledger("000000.json"));
    }
    let mut last = start();
    assert!(last.wait().success(), "{}", last.output());
    work.assert_done();
}
