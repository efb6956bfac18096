//! Plans with a root on another machine, which a real `sshd` lets workers in to: the ledger there counts.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, NatsServer, Need, Sshd, wait_for};

use super::{SERVER, do_work, of_plan, queue, submit};
use crate::work::{There, Work, Worker, failed};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [SERVER, Need::Tool("sshd"), Need::Tool("ssh")] workers_that_log_in,
        [SERVER, Need::Tool("sshd"), Need::Tool("ssh")] a_machine_that_nobody_reaches,
    ]
    .into_iter()
    .map(Case::begins_first)
    .collect()
}

const BOTH: [There; 2] = [There::Source, There::Destination];

/// Units and reasons of what was given up.
fn given_up(queue: &Value) -> Vec<(u64, &str)> {
    let units = queue["given_up_units"].as_array().unwrap().iter();
    let mut found: Vec<_> = units
        .map(|unit| (unit["unit"].as_u64().unwrap(), unit["reason"].as_str().unwrap()))
        .collect();
    found.sort();
    found
}

/// A worker is killed in the middle of a unit, two others do the rest, and the file of a user fails its unit alone.
fn workers_that_log_in() {
    let sshd = Sshd::start();
    for there in BOTH {
        let work = Work::between(there, &sshd);
        work.fill(40);
        fs::write(work.source().join("slow"), vec![7; 2 << 20]).unwrap();
        work.plan(&["--files=10", "--max-bandwidth=2Mi"]);
        let (taken, count) = ("d1/e1/f1", work.units().len());
        let user = work.destination().join(taken);
        fs::create_dir_all(user.parent().unwrap()).unwrap();
        fs::write(&user, "the user's").unwrap();
        let server = NatsServer::start();
        let url = server.url();
        let run = submit(&work, &url);
        assert_eq!(run.stdout, format!("{count} units queued\n"), "{there:?}");
        let start = || Worker::start(&work, &work.uncopy(), &url, &[]);
        let slow = work.unit_of("slow");
        let mut killed = start();
        wait_for("attempt", || work.has_in_ledger(&format!("{slow:06}.epoch")));
        killed.signal_all(Signal::KILL);
        killed.wait();
        let mut others = [start(), start()];
        for worker in &mut others {
            // One may find that the other has done or given up everything.
            assert_eq!(worker.wait().code(), Some(1), "{there:?} {}", worker.output());
        }
        let (failing, last) = (work.unit_of(taken) as u64, count as u64 - 1);
        let state = queue(&work, &url);
        let expected = [(failing, "conflict"), (last, "others_missing")];
        assert_eq!(given_up(&state), expected, "{there:?} {}", others[0].output());
        assert!(others[0].output().contains(taken), "{}", others[0].output());
        assert_eq!(state["waiting"], 0);
        assert_eq!(of_plan("status", &work, &url).run().status.code(), Some(1));
        assert_eq!(work.status()["done"], count - 2);
        assert_eq!(fs::read(&user).unwrap(), b"the user's");
        fs::remove_file(&user).unwrap();
        let run = submit(&work, &url);
        assert_eq!(run.stdout, "2 units queued\n");
        let run = do_work(&work, &url);
        assert!(run.status.success(), "{there:?} {}{}", run.stderr, run.stdout);
        let run = submit(&work, &url);
        assert!(run.stdout.contains("all units are done"), "{}", run.stdout);
        assert_eq!(do_work(&work, &url).stdout, "all units are done\n");
        work.assert_done();
    }
}

/// Nobody waits for ever: the commands that need the ledger say so at once, and units are given up.
fn a_machine_that_nobody_reaches() {
    let sshd = Sshd::start();
    for there in BOTH {
        let mut work = Work::between(there, &sshd);
        work.fill(20);
        work.plan(&["--files=10"]);
        let server = NatsServer::start();
        let url = server.url();
        submit(&work, &url);
        // The last unit is left, for which it is not the queue that counts tries.
        let mut units = work.units();
        let last = units.len() as u64 - 1;
        units.pop();
        for unit in units {
            assert!(work.run_unit(&unit).status.success());
        }
        let shell = work.set_remote_shell("false");
        if there == There::Destination {
            for name in ["submit", "work", "status"] {
                let run = of_plan(name, &work, &url).run();
                assert!(run.failed(9).contains("remote shell"), "{name}: {}", run.stderr);
            }
        } else {
            let run = of_plan("work", &work, &url).arg("--max-deliver=2").run();
            assert!(failed(&run, 1).contains("is given up"), "{}", run.stderr);
            assert_eq!(given_up(&queue(&work, &url)), [(last, "failed")], "{}", run.stderr);
        }
        work.set_remote_shell(shell);
        submit(&work, &url);
        let run = do_work(&work, &url);
        assert!(run.status.success(), "{there:?} {}{}", run.stderr, run.stdout);
        work.assert_done();
    }
}
