//! Units that no worker can do: each is given up with its reason, and everything else is done.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use testbed::{Case, NatsServer, Run};

use super::{SERVER, do_work, publish, queue, submit};
use crate::work::{Work, failed, fleet};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [SERVER] a_unit_file_with_another_digest,
        [SERVER] messages_that_are_none,
        [SERVER] sources_and_destinations_that_change,
        [SERVER] a_last_unit_that_failed_before,
        [SERVER] units_that_are_queued_once,
        [SERVER] units_of_another_version,
        [SERVER] a_machine_without_a_root,
        [SERVER] a_program_that_does_nothing,
        [SERVER] a_plan_that_is_removed,
    ]
}

/// Reasons why units were given up.
fn reasons(work: &Work, server: &NatsServer) -> Vec<(u64, String)> {
    let queue = queue(work, &server.url());
    let units = queue["given_up_units"].as_array().unwrap();
    let reason = |found: &serde_json::Value| {
        (found["unit"].as_u64().unwrap_or(999), found["reason"].as_str().unwrap().to_owned())
    };
    let mut reasons: Vec<_> = units.iter().map(reason).collect();
    reasons.sort();
    reasons
}

fn a_unit_file_with_another_digest() {
    let work = Work::new();
    work.fill(30);
    work.plan(&["--files=10"]);
    let server = NatsServer::start();
    submit(&work, &server.url());
    let unit = work.units().remove(1);
    let whole = fs::read_to_string(&unit).unwrap();
    // It is a unit all the same, with another file.
    let path = whole.split("\"path\":\"").nth(1).unwrap().split('"').next().unwrap();
    fs::write(&unit, whole.replace(path, "elsewhere")).unwrap();
    let run = do_work(&work, &server.url());
    assert!(failed(&run, 1).contains("another digest"), "{}", run.stderr);
    let last = work.units().len() as u64 - 1;
    let expected = [(1, "digest".to_owned()), (last, "others_missing".to_owned())];
    assert_eq!(reasons(&work, &server), expected);
    assert!(!work.has_in_ledger("000001.epoch"));
    fs::write(&unit, whole).unwrap();
    let run = submit(&work, &server.url());
    assert!(run.stdout.starts_with("2 units queued"), "{}", run.stdout);
    assert_eq!(reasons(&work, &server), []);
    assert!(do_work(&work, &server.url()).status.success());
    work.assert_done();
}

fn messages_that_are_none() {
    let work = Work::new();
    work.fill(10);
    work.plan(&[]);
    let server = NatsServer::start();
    submit(&work, &server.url());
    let id = work.status()["plan"].as_str().unwrap().to_owned();
    for (number, payload) in
        ["", "{}", "\u{0}\u{0}", "{\"unit\":\"../../etc/passwd\"}"].into_iter().enumerate()
    {
        publish(server.address(), &format!("uncopy.{id}.unit.9{number}"), payload);
    }
    let run = do_work(&work, &server.url());
    assert!(run.status.success(), "{}{}", run.status, run.stderr);
    let expected = (999, "message".to_owned());
    assert_eq!(reasons(&work, &server), vec![expected; 4]);
    work.assert_done();
}

fn sources_and_destinations_that_change() {
    let work = Work::new();
    work.fill(30);
    work.plan(&["--files=5"]);
    let (changed, taken) = ("d0/e0/f0", "d1/e1/f1");
    fs::write(work.source().join(changed), "another").unwrap();
    let there = work.destination().join(taken);
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    fs::write(&there, "the user's").unwrap();
    let server = NatsServer::start();
    submit(&work, &server.url());
    let run = do_work(&work, &server.url());
    failed(&run, 1);
    let last = work.units().len() as u64 - 1;
    let mut expected = vec![
        (work.unit_of(changed) as u64, "source_changed".to_owned()),
        (work.unit_of(taken) as u64, "conflict".to_owned()),
        (last, "others_missing".to_owned()),
    ];
    expected.sort();
    assert_eq!(reasons(&work, &server), expected);
    assert_eq!(fs::read(&there).unwrap(), b"the user's");
    assert_eq!(work.status()["done"], last - 2);
}

/// Attempts that the ledger knows from before the plan was queued are no tries of it.
fn a_last_unit_that_failed_before() {
    let work = Work::new();
    work.fill(20);
    work.plan(&["--files=10"]);
    let mut units = work.units();
    let last = units.pop().unwrap();
    for unit in units {
        assert!(work.run_unit(&unit).status.success());
    }
    let directory = work.destination().join("d1");
    let aside = work.scratch.join("aside");
    fs::rename(&directory, &aside).unwrap();
    fs::write(&directory, "in the way").unwrap();
    for _ in 0..6 {
        assert_eq!(work.run_unit(&last).status.code(), Some(1));
    }
    fs::remove_file(&directory).unwrap();
    fs::rename(&aside, &directory).unwrap();
    let server = NatsServer::start();
    let run = submit(&work, &server.url());
    assert_eq!(run.stdout, "1 unit queued\n");
    let run = do_work(&work, &server.url());
    assert!(run.status.success(), "{}{}", run.stderr, run.stdout);
    work.assert_done();
}

fn units_that_are_queued_once() {
    let work = Work::new();
    work.fill(20);
    work.plan(&["--files=5"]);
    let server = NatsServer::start();
    let count = work.units().len();
    let run = submit(&work, &server.url());
    assert_eq!(run.stdout, format!("{count} units queued\n"));
    let run = submit(&work, &server.url());
    assert_eq!(run.stdout, format!("0 units queued, {count} were in the queue before\n"));
    assert_eq!(queue(&work, &server.url())["waiting"], count);
    assert!(do_work(&work, &server.url()).status.success());
    // Nothing is left to do, with a queue or without.
    let run = submit(&work, &server.url());
    assert!(run.stdout.contains("all units are done"), "{}", run.stdout);
    assert!(do_work(&work, &server.url()).status.success());
    work.assert_done();
}

/// A worker that does not know the options of a plan hands units back, and ends.
fn units_of_another_version() {
    let work = Work::new();
    work.fill(5);
    work.plan(&[]);
    let unit = work.units().remove(0);
    let text = fs::read_to_string(&unit).unwrap();
    fs::write(&unit, text.replace("\"words\":[", "\"words\":[\"--of-the-future\",")).unwrap();
    let server = NatsServer::start();
    submit(&work, &server.url());
    let run = do_work(&work, &server.url());
    assert!(failed(&run, 2).contains("does not know the options"), "{}", run.stderr);
    assert_eq!(reasons(&work, &server), []);
    assert_eq!(queue(&work, &server.url())["given_up"], 0);
}

/// A machine where a root is not mounted has an empty directory instead of it: its worker ends, and spoils no unit.
fn a_machine_without_a_root() {
    let server = NatsServer::start();
    for name in ["source", "destination"] {
        let work = Work::new();
        work.fill(10);
        fs::create_dir_all(work.destination()).unwrap();
        work.plan(&["--files=5"]);
        submit(&work, &server.url());
        let root = if name == "source" { work.source() } else { work.destination() };
        let aside = root.with_file_name("aside");
        fs::rename(&root, &aside).unwrap();
        fs::create_dir(&root).unwrap();
        // More often than a unit may fail.
        for _ in 0..8 {
            let run = do_work(&work, &server.url());
            assert_eq!(run.status.code(), Some(1), "{name}: {}{}", run.stdout, run.stderr);
            assert!(
                run.stderr.contains("is not the directory that the plan saw"),
                "{}",
                run.stderr
            );
            assert!(run.stderr.contains("mount it here"), "{}", run.stderr);
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "{name}");
        fs::remove_dir(&root).unwrap();
        fs::rename(&aside, &root).unwrap();
        assert_eq!(reasons(&work, &server), []);
        let run = do_work(&work, &server.url());
        assert!(run.status.success(), "{name}: {}{}", run.stdout, run.stderr);
        work.assert_done();
    }
}

/// The ledger says what is done, and no exit code does.
fn a_program_that_does_nothing() {
    let work = Work::new();
    work.fill(5);
    work.plan(&[]);
    let server = NatsServer::start();
    submit(&work, &server.url());
    let run = work_by_script(&work, &server, 1, "exit 0");
    assert!(failed(&run, 1).contains("the ledger has no record"), "{}", run.stderr);
    assert!(!run.stdout.contains(": done"), "{}", run.stdout);
    let units = 0..work.units().len() as u64;
    let expected: Vec<_> = units.map(|unit| (unit, "no_record".to_owned())).collect();
    assert_eq!(reasons(&work, &server), expected);
    submit(&work, &server.url());
    assert!(do_work(&work, &server.url()).status.success());
    work.assert_done();
}

/// Has a script take the place of `uncopy`; each unit has so many tries.
fn work_by_script(work: &Work, server: &NatsServer, tries: u32, script: &str) -> Run {
    let program = work.scratch.join("script");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fleet(["work"])
        .arg(work.directory())
        .args(["--server", &server.url(), &format!("--max-deliver={tries}"), "--program"])
        .arg(&program)
        .run()
}

/// A worker that has lost the plan ends, and spoils no unit; one that has lost a unit gives that up, and says why.
fn a_plan_that_is_removed() {
    let work = Work::new();
    work.fill(10);
    work.plan(&["--files=5"]);
    let server = NatsServer::start();
    submit(&work, &server.url());
    let (plan, aside) = (work.directory().to_owned(), work.scratch.join("aside"));
    let lose = format!("mv '{}' '{}'; kill -9 $$", plan.display(), aside.display());
    let run = work_by_script(&work, &server, 2, &lose);
    assert!(failed(&run, 1).contains("there is no plan in"), "{}", run.stderr);
    fs::rename(&aside, &plan).unwrap();
    assert_eq!(reasons(&work, &server), []);
    let unit = work.units().remove(1);
    let text = fs::read(&unit).unwrap();
    fs::remove_file(&unit).unwrap();
    let run = work_by_script(&work, &server, 2, "exit 1");
    let said = failed(&run, 1);
    assert!(said.contains("its file cannot be read"), "{said}");
    assert!(
        said.contains("000001.jsonl") && said.contains("look whether it was removed"),
        "{said}"
    );
    let given_up = reasons(&work, &server);
    assert!(given_up.contains(&(1, "no_unit_file".to_owned())), "{given_up:?}");
    fs::write(&unit, text).unwrap();
    submit(&work, &server.url());
    assert!(do_work(&work, &server.url()).status.success());
    work.assert_done();
}
