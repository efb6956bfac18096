//! Verdicts of `uncopy capabilities` hold: the receipt of a copy says the same.

use serde_json::Value;
use testbed::{Case, Content, Need, Place, Program};

use crate::cp::cp;
use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] within_the_disk,
        [
            Need::At(Place::Ext4), Need::At(Place::Xfs), Need::At(Place::Btrfs), Need::At(Place::Tmpfs)
        ] between_each_two_filesystems,
        [Need::At(Place::Xfs), Need::At(Place::Tmpfs)] a_mount_point_is_looked_at_itself,
        [Need::BareDevice] moved_when_durable,
        [] a_path_that_cannot_be_tested_has_no_verdict,
    ]
}

/// As large as the file that a verdict is about.
const LENGTH: u64 = 8 << 20;

fn capabilities() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("capabilities")
}

fn json(program: &Program) -> Value {
    let run = program.run();
    assert!(run.status.success(), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Copies, and holds the receipt against the verdict.
fn hold(verdict: &Value, from: Place, to: Place) {
    let pair = Pair::new(from, to, &Content::dense(LENGTH));
    let program = if verdict["when_durable"] == true { cp().arg("--durable") } else { cp() };
    let receipt = pair.copy(program);
    let (cost, mechanism) = (&verdict["cost"], &verdict["mechanism"]);
    let context = format!("{from:?} to {to:?}: {verdict} {}", receipt.value());
    assert_eq!(receipt.by(mechanism.as_str().unwrap()), LENGTH, "{context}");
    assert_eq!(receipt.at(cost.as_str().unwrap()), LENGTH, "{context}");
}

fn within_the_disk() {
    let directory = Place::Disk.scratch();
    let found = json(&capabilities().arg("--json").arg(directory.path()));
    hold(&found["paths"][0]["verdict"], Place::Disk, Place::Disk);
    assert_eq!(found["pairs"], serde_json::json!([]));
}

fn between_each_two_filesystems() {
    let places = [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs, Place::Tmpfs];
    let directories = places.map(Place::scratch);
    let paths = directories.each_ref().map(|directory| directory.path());
    let found = json(&capabilities().arg("--json").args(paths));
    for (place, report) in places.iter().zip(found["paths"].as_array().unwrap()) {
        hold(&report["verdict"], *place, *place);
    }
    let pairs = found["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), places.len() * (places.len() - 1));
    let place =
        |path: &Value| places[paths.iter().position(|p| path == p.to_str().unwrap()).unwrap()];
    for pair in pairs {
        hold(&pair["verdict"], place(&pair["from"]), place(&pair["to"]));
    }
    let run = capabilities().args(paths).run();
    let lines: Vec<&str> = run.stdout.lines().collect();
    let xfs = paths[2].display();
    let first = places.len() * places.len();
    assert!(lines[2] == format!("within {xfs}: shared (reflink)"), "{}", run.stdout);
    assert!(lines[first].is_empty() && lines[first + 1].starts_with("Kernel "), "{}", run.stdout);
    let across = format!("from {xfs} to {}: kernel copied (", paths[4].display());
    assert!(lines[..first].iter().any(|line| line.starts_with(&across)), "{}", run.stdout);
}

/// The directory above it lies on another filesystem.
fn a_mount_point_is_looked_at_itself() {
    for (place, cost) in [(Place::Xfs, "shared"), (Place::Tmpfs, "kernel_copied")] {
        let found = json(&capabilities().arg("--json").arg(place.path()));
        assert_eq!(found["paths"][0]["verdict"]["cost"], cost, "{place:?}");
    }
}

/// ext4 directly on a disk, where a copy that need not reach it is quicker through the page cache.
fn moved_when_durable() {
    let directory = Place::Disk.scratch();
    let found = json(&capabilities().arg("--json").arg(directory.path()));
    let verdict = &found["paths"][0]["verdict"];
    if Place::Disk.has_reflinks() {
        assert_eq!(verdict["cost"], "shared");
        return;
    }
    let expected =
        serde_json::json!({"cost": "moved", "mechanism": "direct", "when_durable": true});
    assert_eq!(*verdict, expected);
    let run = capabilities().arg(directory.path()).run();
    let expected = format!("within {}: moved (direct), when durable", directory.path().display());
    assert_eq!(run.stdout.lines().next(), Some(expected.as_str()));
}

fn a_path_that_cannot_be_tested_has_no_verdict() {
    let found = json(&capabilities().args(["--json", "/proc"]));
    assert!(found["paths"][0]["verdict"].is_null(), "{found}");
    let run = capabilities().arg("/proc").run();
    assert!(run.stdout.starts_with("within /proc: not tried: "), "{}", run.stdout);
    let run = capabilities().run();
    assert!(run.stdout.starts_with("Kernel "), "{}", run.stdout);
}
