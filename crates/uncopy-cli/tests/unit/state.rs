//! `uncopy unit status` and `uncopy unit retry`: the ledger is all that counts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, mknodat};
use serde_json::{Value, json};
use testbed::{Case, Scratch};

use super::{mixed, plan, succeeded, unit, write};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_plan_without_a_ledger_waits,
        [] the_ledger_says_what_is_done,
        [] a_failure_that_a_power_cut_took_is_none,
        [] what_is_no_ledger_is_an_error,
        [] figures_are_replaced_in_one_step,
        [] figures_replace_nothing_but_a_file,
    ]
}

/// A plan, with its ledger: written by hand, as its documentation says.
struct Planned {
    scratch: Scratch,
    plan: Value,
}

impl Planned {
    fn new() -> Planned {
        let scratch = mixed();
        succeeded(&plan(&scratch).args(["--files=20", "--bytes=2Mi", "-q"]).run());
        let plan = fs::read(scratch.join("p/plan.json")).unwrap();
        Planned { scratch, plan: serde_json::from_slice(&plan).unwrap() }
    }

    fn units(&self) -> u64 {
        self.plan["units"].as_u64().unwrap()
    }

    fn ledger(&self) -> PathBuf {
        self.scratch.join("d/.uncopy-ledger").join(self.plan["id"].as_str().unwrap())
    }

    fn put(&self, name: &str, unit: u64, more: &Value) {
        let mut file = json!({
            "schema": 1, "plan": self.plan["id"], "unit": unit, "digest": "", "attempt": 1, "host": "h\u{1b}",
            "pid": 7, "begun": [100, 0], "ended": [110, 0], "number": 1, "token": 5,
        });
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        write(self.ledger().join(name), &file.to_string());
    }

    fn done(&self, unit: u64) {
        let done = json!({"entries": 2, "bytes": 1 << 20, "deleted": 0});
        self.put(&format!("{unit:06}.json"), unit, &json!({"done": done, "receipt": null}));
    }

    fn failed(&self, unit: u64, kind: &str) {
        let reason = json!({"kind": kind, "path": "a\nb", "code": null, "message": "why"});
        let failure = json!({"failed": 3, "reasons": [reason]});
        self.put(&format!("{unit:06}.failed.json"), unit, &failure);
    }

    fn begun(&self, unit: u64) {
        self.put(&format!("{unit:06}.epoch"), unit, &json!({}));
    }

    fn status(&self, code: i32) -> Value {
        let run = unit(["status", "--json"]).arg(self.scratch.join("p")).run();
        assert_eq!(run.status.code(), Some(code), "{}{}", run.stdout, run.stderr);
        run.receipts()[0].value().clone()
    }

    fn retry(&self, flags: &[&str]) -> Vec<String> {
        let run = unit(["retry"]).args(flags).arg(self.scratch.join("p")).run();
        succeeded(&run);
        run.stdout.lines().map(str::to_owned).collect()
    }
}

fn a_plan_without_a_ledger_waits() {
    let planned = Planned::new();
    let status = planned.status(10);
    assert_eq!(status["waiting"], planned.plan["units"]);
    assert_eq!(status["complete"], false);
    assert_eq!(status["planned"]["entries"], planned.plan["entries"]);
    let listed = planned.retry(&[]);
    assert_eq!(listed.len() as u64, planned.units());
    assert!(listed.iter().all(|file| fs::metadata(file).is_ok()));
    assert!(listed.last().unwrap().ends_with(&format!("{:06}.jsonl", planned.units() - 1)));
    assert_eq!(planned.retry(&["--failed"]), <[&str; 0]>::default());
    // The destination is there, and no worker was.
    fs::create_dir(planned.scratch.join("d")).unwrap();
    assert_eq!(planned.status(10)["waiting"], planned.plan["units"]);
}

/// It is put in place without a flush.
fn a_failure_that_a_power_cut_took_is_none() {
    for text in ["", "{\"schema\":1,\"pl"] {
        let planned = Planned::new();
        planned.done(0);
        write(planned.ledger().join("000001.failed.json"), text);
        assert_eq!(planned.status(10)["failed"], 0);
        assert_eq!(planned.retry(&[]).len() as u64, planned.units() - 1);
        assert_eq!(planned.retry(&["--failed"]), <[&str; 0]>::default());
    }
}

fn the_ledger_says_what_is_done() {
    let planned = Planned::new();
    planned.done(0);
    planned.begun(0);
    planned.failed(0, "error");
    planned.begun(1);
    let status = planned.status(10);
    let counts =
        |status: &Value| ["done", "begun", "failed"].map(|key| status[key].as_u64().unwrap());
    assert_eq!(counts(&status), [1, 1, 0]);
    assert_eq!(status["finished"]["bytes"], 1 << 20);
    assert_eq!(status["begun_units"][0]["pid"], 7);
    assert!(status["time_left_us"].as_u64().unwrap() > 0);
    planned.failed(2, "conflict");
    planned.failed(3, "not_yet");
    let status = planned.status(1);
    assert_eq!(counts(&status), [1, 1, 1]);
    let reason = &status["failed_units"][0]["reasons"][0];
    assert_eq!((&reason["kind"], &reason["path"]), (&json!("conflict"), &json!("a\nb")));
    let failed = planned.retry(&["--failed"]);
    assert!(failed.len() == 1 && failed[0].ends_with("/000002.jsonl"), "{failed:?}");
    assert_eq!(planned.retry(&[]).len() as u64, planned.units() - 1);
    let words = unit(["status"]).arg(planned.scratch.join("p")).run();
    assert_eq!(words.status.code(), Some(1));
    for expected in [
        "1 begun, 1 failed",
        "unit 000001 begun by process 7 on h\\u{1b}",
        "unit 000002 failed on h\\u{1b}, attempt 1",
        "a\\nb: the destination has changed since the plan: why",
        "and 2 more",
    ] {
        assert!(words.stdout.contains(expected), "{expected}: {}", words.stdout);
    }
    (0..planned.units()).for_each(|unit| planned.done(unit));
    let status = planned.status(0);
    assert_eq!((&status["complete"], &status["time_left_us"]), (&json!(true), &Value::Null));
    assert_eq!(planned.retry(&["-0"]), <[&str; 0]>::default());
}

fn what_is_no_ledger_is_an_error() {
    let planned = Planned::new();
    let failed = |expected: &str| {
        let run = unit(["status"]).arg(planned.scratch.join("p")).run();
        assert!(run.failed(1).contains(expected), "{}", run.stderr);
    };
    planned.put("000001.json", 2, &json!({"done": {}}));
    failed("belongs to unit 000002");
    write(planned.ledger().join("000001.json"), "{");
    failed("000001.json: line 1");
    // Its name says that the unit is done, and nothing else is looked at.
    let listed = planned.retry(&[]);
    assert!(listed.len() as u64 + 1 == planned.units() && !listed[1].ends_with("/000001.jsonl"));
    fs::remove_file(planned.ledger().join("000001.json")).unwrap();
    // Names without a meaning, and a unit that the plan does not have.
    write(planned.ledger().join(".0123.000001.json"), "{");
    write(planned.ledger().join("note"), "{");
    planned.done(99_999);
    assert_eq!(planned.status(10)["done"], 0);
    let run = unit(["status"]).arg(planned.scratch.join("s")).run();
    assert!(run.failed(1).contains("there is no plan in"), "{}", run.stderr);
    write(planned.scratch.join("p/plan.json"), "{\"schema\":3}");
    failed("version 3");
}

fn figures_are_replaced_in_one_step() {
    let planned = Planned::new();
    planned.done(0);
    let file = planned.scratch.join("figures");
    write(&file, "old");
    let run = unit(["status", "--metrics"]).arg(&file).arg(planned.scratch.join("p")).run();
    assert_eq!(run.status.code(), Some(10));
    let text = fs::read_to_string(&file).unwrap();
    let id = planned.plan["id"].as_str().unwrap();
    let line = format!("uncopy_unit_units{{plan=\"{id}\",state=\"done\"}} 1");
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(text.ends_with("# EOF\n"));
    let nowhere = planned.scratch.join("no/where");
    let run = unit(["status", "--metrics"]).arg(&nowhere).arg(planned.scratch.join("p")).run();
    assert!(run.failed(1).contains("write the figures"), "{}", run.stderr);
}

/// They stay what they are, also a link to a file: whoever reads from a FIFO there would wait for ever.
fn figures_replace_nothing_but_a_file() {
    let planned = Planned::new();
    let path = |name: &str| planned.scratch.join(name);
    mknodat(CWD, path("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
    write(path("file"), "old");
    fs::create_dir(path("directory")).unwrap();
    for (target, link) in [
        ("fifo", "to-fifo"),
        ("file", "to-file"),
        ("/dev/stdout", "to-stdout"),
        ("none", "to-none"),
    ] {
        symlink(target, path(link)).unwrap();
    }
    for name in ["fifo", "directory", "to-fifo", "to-file", "to-stdout", "to-none"] {
        let kind = || fs::symlink_metadata(path(name)).unwrap().file_type();
        let before = kind();
        let run = unit(["status", "--metrics"]).arg(path(name)).arg(path("p")).run();
        assert!(run.failed(1).contains("name a regular file"), "{name}: {}", run.stderr);
        assert_eq!(kind(), before, "{name}");
    }
    assert_eq!(fs::read_to_string(path("file")).unwrap(), "old");
    assert!(!path("none").exists());
}
