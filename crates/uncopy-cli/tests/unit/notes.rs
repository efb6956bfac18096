//! Metadata that units cannot keep: it is said and recorded, as `cp` says it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use serde_json::Value;
use testbed::{Case, Need, Run};

use super::work::{Work, of_unit, printed, uncopy};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![[Need::Root] what_is_lost_is_noted_as_by_cp]
}

pub(super) const NOBODY: u32 = 65_534;

/// Numbers of entries by the codes of their notes.
type Codes = BTreeMap<String, u64>;

fn codes_of_copy(run: &Run) -> Codes {
    let mut codes = Codes::new();
    for line in run.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        for code in event["note_codes"].as_array().into_iter().flatten() {
            *codes.entry(code.as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    codes
}

fn add(codes: &mut Codes, notes: &Value) {
    for note in notes.as_array().into_iter().flatten() {
        let code = note["code"].as_str().unwrap().to_owned();
        *codes.entry(code).or_default() += note["entries"].as_u64().unwrap();
        assert!(note["path"].is_string() && note["message"].is_string(), "{note}");
    }
}

/// An ordinary user cannot give files to others.
fn what_is_lost_is_noted_as_by_cp() {
    let work = Work::new();
    work.fill(30);
    for (name, mode) in [("d0/f", 0o4755), ("d1/plain", 0o644)] {
        work.write(name, name);
        fs::set_permissions(work.source().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("nowhere", work.source().join("d2/dangling")).unwrap();
    let at = |name: &str| work.scratch.join(name);
    for name in ["destination", "copy"] {
        fs::create_dir(at(name)).unwrap();
        chown(at(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let copy = uncopy()
        .args(["cp", "-aT", "--json"])
        .args([work.source(), at("copy")])
        .as_user(NOBODY)
        .run();
    let expected = codes_of_copy(&copy);
    assert!(copy.status.success() && expected.len() > 1, "{expected:?} {}", copy.stderr);
    work.plan(&["--files=10"]);
    let mut recorded = Codes::new();
    let (mut said, units) = (String::new(), work.units());
    for (index, unit) in units.iter().enumerate() {
        // Words and JSON of the same units cannot be had both.
        if index % 2 == 0 {
            let run = of_unit(unit).as_user(NOBODY).run();
            assert!(run.status.success(), "{}", run.stderr);
            add(&mut recorded, &printed(&run)["record"]["receipt"]["counted_notes"]);
            assert_eq!(run.stderr, "");
        } else {
            let run = uncopy().args(["unit", "run"]).arg(unit).as_user(NOBODY).run();
            assert!(run.status.success(), "{}", run.stderr);
            said.push_str(&run.stderr);
            let again = printed(&of_unit(unit).as_user(NOBODY).run());
            assert_eq!(again["state"], "done_before");
            add(&mut recorded, &again["record"]["receipt"]["counted_notes"]);
        }
    }
    // Parts of a cut file have their own records, and the file has its metadata once.
    assert_eq!(recorded, expected);
    assert!(said.contains("note: ") && said.contains("could not be kept (EPERM)"), "{said}");
    let status =
        |flags: &[&str]| uncopy().args(["unit", "status"]).args(flags).arg(work.directory());
    let shown = status(&[]).run();
    assert!(shown.stdout.contains("other entries: "), "{}", shown.stdout);
    assert!(shown.stdout.contains("could not be kept (EPERM)"), "{}", shown.stdout);
    let mut of_status = Codes::new();
    add(&mut of_status, &printed(&status(&["--json"]).run())["counted_notes"]);
    assert_eq!(of_status, expected);
}
