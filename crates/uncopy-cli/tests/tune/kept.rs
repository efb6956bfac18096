//! Use by copies of values that were measured and kept.

use std::fs;

use serde_json::Value;
use testbed::{Case, Content, Need, Place, Scratch};
use uncopy::capabilities::identity;

use crate::tune::uncopy;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Ext4)] a_kept_threshold_decides_and_is_named,
        [Need::At(Place::Ext4)] what_is_chosen_displaces_what_was_measured,
        [Need::At(Place::Ext4)] the_doctor_names_a_kept_threshold,
        [] a_kept_file_that_makes_no_sense_is_refused,
        [] a_kept_file_that_cannot_be_read_is_a_warning,
    ]
}

/// A home in which these values were kept for the filesystem of `at`.
fn home(at: &Scratch, values: &str) -> Scratch {
    let home = Place::Disk.scratch();
    let known = identity(at.path()).unwrap().id;
    fs::create_dir(home.join("uncopy")).unwrap();
    let text = format!("[{known:?}]\npath = \"/p\"\ntime = \"2026-01-02T03:04:05Z\"\n{values}\n");
    fs::write(home.join("uncopy/tuned.toml"), text).unwrap();
    home
}

/// Copies a file of 100 KiB within `at`.
fn copied(home: &Scratch, at: &Scratch, flags: &[&str]) -> Value {
    let (source, copy) = (at.join("source"), at.join("copy"));
    Content::dense(100 << 10).write(&source);
    let run = uncopy(home, &["cp", "--json"]).args(flags).arg(source).arg(copy).run();
    run.receipt().value().clone()
}

fn a_kept_threshold_decides_and_is_named() {
    let at = Place::Ext4.scratch();
    let usual = copied(&home(&at, ""), &at, &[]);
    assert_ne!(usual["mechanisms"][0]["name"], "read_write", "{usual}");
    assert_eq!(usual["decided_by"], Value::Null);

    let tuned = copied(&home(&at, "zero-copy-min = 524288"), &at, &[]);
    assert_eq!(tuned["mechanisms"][0]["name"], "read_write", "{tuned}");
    assert_eq!(tuned["decided_by"][0], "zero-copy-min 512 KiB (tuned)");
    let refusals = tuned["refusals"].to_string();
    assert!(refusals.contains("below zero-copy-min, 512 KiB, tuned"), "{refusals}");

    // For another filesystem it was not measured.
    let other = Place::Disk.scratch();
    let elsewhere = copied(&home(&at, "zero-copy-min = 524288"), &other, &[]);
    assert_eq!(elsewhere["decided_by"], Value::Null, "{elsewhere}");

    let tree = at.join("tree");
    fs::create_dir(&tree).unwrap();
    Content::dense(100 << 10).write(&tree.join("file"));
    let run = uncopy(&home(&at, "zero-copy-min = 524288"), &["cp", "-r", "--json"])
        .arg(tree)
        .arg(at.join("trees"))
        .run();
    let file = run.receipts().into_iter().find(|receipt| receipt.value()["entry"] == "file");
    let file = file.unwrap();
    assert_eq!(file.by("read_write"), 100 << 10, "{}", file.value());
    assert_eq!(file.value()["decided_by"][0], "zero-copy-min 512 KiB (tuned)");

    let home = home(&at, "direct-min = 67108864");
    Content::dense(2 << 20).write(&at.join("large"));
    let run = uncopy(&home, &["cp", "--json", "--durable"]);
    let large = run.arg(at.join("large")).arg(at.join("copy")).run().receipt();
    let why = large.refusal("direct").unwrap().reason;
    assert!(why.contains("below direct-min, 64 MiB, tuned for this filesystem"), "{why}");
}

fn what_is_chosen_displaces_what_was_measured() {
    let at = Place::Ext4.scratch();
    let home = home(&at, "zero-copy-min = 524288");
    let by_flag = copied(&home, &at, &["--zero-copy-min=80Ki"]);
    assert_ne!(by_flag["mechanisms"][0]["name"], "read_write", "{by_flag}");
    let run = uncopy(&home, &["cp", "--json"]).env("UNCOPY_ZERO_COPY_MIN", "auto");
    let by_variable = run.arg(at.join("source")).arg(at.join("copy")).run().receipt();
    assert_eq!(by_variable.by("read_write"), 0, "{}", by_variable.value());
    fs::write(home.join("uncopy/config.toml"), "zero-copy-min = '200Ki'\n").unwrap();
    let by_file = copied(&home, &at, &[]);
    assert_eq!(by_file["decided_by"][0], "zero-copy-min 200 KiB (given)", "{by_file}");
}

fn a_kept_file_that_makes_no_sense_is_refused() {
    let at = Place::Disk.scratch();
    for (values, says) in [
        ("speed = 3", "there is no setting \"speed\""),
        ("jobs = 0", "jobs is 0; set it to"),
        ("jobs = 'many'", "is not valid"),
        ("=", "is not valid"),
    ] {
        let home = home(&at, values);
        let run = uncopy(&home, &["cp", "a"]).arg(at.join("b")).run();
        let said = run.failed(2);
        assert!(said.contains(says) && said.contains("uncopy tune --save"), "{values}: {said}");
    }
}

fn a_kept_file_that_cannot_be_read_is_a_warning() {
    let (home, at) = (Place::Disk.scratch(), Place::Disk.scratch());
    fs::create_dir_all(home.join("uncopy/tuned.toml")).unwrap();
    let run = uncopy(&home, &["cp", "a"]).arg(at.join("b")).run();
    let said = run.failed(1);
    assert!(said.contains("warning: cannot read "), "{said}");
    assert!(said.contains("tuned.toml: Is a directory"), "{said}");
    assert!(said.contains("its settings are ignored; make it readable"), "{said}");
}

/// A way that is passed over because of a size has a finding, with where the size comes from.
fn the_doctor_names_a_kept_threshold() {
    let at = Place::Ext4.scratch();
    let (source, copy) = (at.join("source"), at.join("copy"));
    Content::dense(100 << 10).write(&source);
    let refusing = |values: &str, flags: &[&str]| {
        let home = home(&at, values);
        let program = uncopy(&home, &["doctor", "--json"]).arg(&source).arg(&copy);
        let run = program.arg("--").args(flags).run();
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["id"] == "setting-refuses")
    };
    assert!(refusing("", &[]).is_none());
    let tuned = refusing("zero-copy-min = 524288", &[]).unwrap();
    let found = tuned["evidence"][0]["found"].as_str().unwrap();
    assert!(found.starts_with("measured on ext4 "), "{found}");
    assert!(found.contains("tuned.toml") && found.contains("below zero-copy-min"), "{found}");
    let given = refusing("", &["--zero-copy-min=512Ki"]).unwrap();
    let found = given["evidence"][0]["found"].as_str().unwrap();
    assert!(found.starts_with("the flag: "), "{found}");
}
