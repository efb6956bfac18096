//! Errors of units tell people to do what they can do.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use testbed::{Case, Need, Program, seeded};

use super::notes::NOBODY;
use super::work::{Work, put, run_unit, uncopy};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] files_that_may_not_be_written_to,
        [] files_and_roots_that_are_not_there,
    ]
}

fn words_of(unit: &std::path::Path) -> Program {
    uncopy().args(["unit", "run"]).arg(unit)
}

/// As by `uncopy cp -r`: they are replaced with --force alone, also one that is cut.
fn files_that_may_not_be_written_to() {
    let work = Work::new();
    work.write("f", "newer");
    work.write("large", seeded(1, 0, 3 << 20));
    put(&work.destination().join("f"), "old");
    put(&work.destination().join("large"), "old");
    for (directory, mode) in [(work.source(), 0o444), (work.destination(), 0o444)] {
        for name in ["f", "large"] {
            fs::set_permissions(directory.join(name), Permissions::from_mode(mode)).unwrap();
            chown(directory.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let plan = |flags: &[&str]| {
        let program = uncopy().args(["unit", "plan", "--bytes=1Mi", "--out"]);
        let program = program.arg(work.directory()).args(flags);
        let run = program.arg(work.source()).arg(work.destination()).run();
        assert!(run.status.success(), "{}", run.stderr);
    };
    let copy = uncopy().args(["cp", "-rT"]).args([work.source(), work.destination()]);
    assert!(copy.as_user(NOBODY).run().failed(1).contains("-f replaces it anyway"));
    plan(&[]);
    let (last, units) =
        work.units().split_last().map(|(last, rest)| (last.clone(), rest.to_vec())).unwrap();
    for unit in &units {
        let run = words_of(unit).as_user(NOBODY).run();
        let said = run.failed(1);
        assert!(said.contains("make a new plan with --force"), "{said}");
    }
    assert_eq!(fs::read(work.destination().join("f")).unwrap(), b"old");
    assert_eq!(fs::read(work.destination().join("large")).unwrap(), b"old");
    words_of(&last).as_user(NOBODY).run().failed(10);
    fs::remove_dir_all(work.directory()).unwrap();
    plan(&["--force"]);
    for unit in work.units() {
        let run = words_of(&unit).as_user(NOBODY).run();
        assert!(run.status.success(), "{}", run.stderr);
    }
    // An attempt that ended before its record: nobody is in the way of the next one.
    let records = fs::read_dir(work.destination().join(".uncopy-ledger")).unwrap();
    for ledger in records.map(|entry| entry.unwrap().path()) {
        let record = ledger.join("000000.json");
        if record.exists() {
            fs::remove_file(record).unwrap();
        }
    }
    let run = words_of(&work.units()[0]).as_user(NOBODY).run();
    assert!(run.status.success(), "{}", run.stderr);
    for name in ["f", "large"] {
        let copied = work.destination().join(name);
        assert_eq!(fs::read(&copied).unwrap(), fs::read(work.source().join(name)).unwrap());
        assert_eq!(fs::metadata(&copied).unwrap().permissions().mode() & 0o777, 0o444, "{name}");
    }
}

fn files_and_roots_that_are_not_there() {
    let work = Work::new();
    let plan = || {
        let program = uncopy().args(["unit", "plan", "--out"]).arg(work.directory());
        program.arg(work.source()).arg(work.destination()).run()
    };
    work.write("f", "text");
    work.write("g", "text");
    assert!(plan().status.success());
    let missing = words_of(&work.directory().join("units/000099.jsonl")).run();
    assert!(
        missing.failed(1).contains("`uncopy unit retry DIR` prints those"),
        "{}",
        missing.stderr
    );
    // An entry that is gone, and then the whole source.
    fs::remove_file(work.source().join("f")).unwrap();
    let unit = work.units().remove(0);
    let gone = words_of(&unit).run();
    let said = gone.failed(4);
    assert!(said.contains("make a new plan") && said.contains("a new plan takes up"), "{said}");
    assert_eq!(run_unit(&unit).status.code(), Some(4));
    let status = uncopy().args(["unit", "status"]).arg(work.directory()).run();
    assert!(status.stdout.contains("make a new plan"), "{}", status.stdout);
    let plan_file = work.directory().join("plan.json");
    assert!(words_of(&plan_file).run().failed(1).contains("; name a file of DIR/units"));
    let status = uncopy().args(["unit", "status"]).arg(plan_file).run();
    assert!(status.failed(1).contains("; name a directory"), "{}", status.stderr);
    let record = work.ledger().join("000001.json");
    put(&record, "{");
    let status = uncopy().args(["unit", "status"]).arg(work.directory()).run();
    assert!(status.failed(1).contains("; remove it, and run its unit"), "{}", status.stderr);
    fs::remove_file(record).unwrap();
    fs::rename(work.source(), work.scratch.join("aside")).unwrap();
    let unmounted = words_of(&unit).run();
    assert!(unmounted.failed(1).contains("not mounted here"), "{}", unmounted.stderr);
    fs::remove_dir_all(work.directory()).unwrap();
    let run = plan();
    assert!(run.failed(1).contains("check the path, and whether it is mounted"), "{}", run.stderr);
}
