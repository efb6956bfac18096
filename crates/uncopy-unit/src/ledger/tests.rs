//! Tests of ledgers in a directory.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use super::*;
use crate::format::SCHEMA;

fn plan() -> PlanId {
    PlanId::from_random([9; 16])
}

fn unit(number: u32) -> UnitNumber {
    UnitNumber::new(number).unwrap()
}

fn worker() -> Worker {
    Worker { host: "h".to_owned(), pid: 1 }
}

fn ledger(root: &Path) -> Ledger {
    Ledger::create(File::open(root).unwrap(), root, plan(), Flush::Yes).unwrap()
}

fn record(number: u32, attempt: u64) -> Record {
    Record {
        schema: SCHEMA,
        plan: plan(),
        unit: unit(number),
        digest: "d".to_owned(),
        attempt,
        worker: worker(),
        begun: Time(1, 2),
        ended: Time(3, 4),
        done: Amounts { entries: 5, bytes: 6, deleted: 0 },
        receipt: serde_json::json!({"mechanisms": []}),
    }
}

fn failure(number: u32, kind: FailureKind) -> Failure {
    let Record { schema, plan, unit, digest, attempt, worker, ended, .. } = record(number, 1);
    let reasons = vec![FailureReason {
        kind,
        path: None,
        code: Some("ENOSPC".to_owned()),
        message: "m".to_owned(),
    }];
    Failure { schema, plan, unit, digest, attempt, worker, ended, failed: 1, reasons }
}

fn begin(ledger: &Ledger, number: u32) -> Begun {
    let lock = ledger.try_lock(LockPlace::Unit(unit(number))).unwrap().unwrap();
    ledger.begin(unit(number), Some(&lock), worker(), Time(0, 0)).unwrap()
}

#[test]
fn the_first_record_stays() {
    let root = tempfile::tempdir().unwrap();
    let opened = || Ledger::open(File::open(root.path()).unwrap(), root.path(), plan()).unwrap();
    assert!(opened().is_none());
    let ledger = ledger(root.path());
    assert_eq!(ledger.record(unit(1)).unwrap(), None);
    ledger.put_failure(&failure(1, FailureKind::Error)).unwrap();
    ledger.put_failure(&failure(1, FailureKind::Conflict)).unwrap();
    assert!(ledger.put_record(&record(1, 1)).unwrap());
    assert!(!ledger.put_record(&record(1, 2)).unwrap());
    let again = opened().unwrap();
    assert_eq!(again.record(unit(1)).unwrap(), Some(record(1, 1)));
    assert_eq!(again.failure(unit(1)).unwrap(), Some(failure(1, FailureKind::Conflict)));
    let mut found = BTreeSet::new();
    again.list(|unit, kind| assert!(found.insert((unit, format!("{kind:?}"))))).unwrap();
    assert_eq!(found.len(), 2);
    // Nothing was left aside.
    assert_eq!(fs::read_dir(ledger.path()).unwrap().count(), 2);
}

#[test]
fn only_the_last_attempt_is_current_and_none_of_a_unit_that_is_done() {
    let root = tempfile::tempdir().unwrap();
    let ledger = ledger(root.path());
    let Begun::Attempt(first) = begin(&ledger, 3) else { panic!() };
    assert!(ledger.is_current(unit(3), &first).unwrap());
    assert!(!ledger.is_current(unit(4), &first).unwrap());
    let Begun::Attempt(second) = begin(&ledger, 3) else { panic!() };
    assert_eq!((first.number, second.number), (1, 2));
    assert!(!ledger.is_current(unit(3), &first).unwrap());
    assert!(ledger.is_current(unit(3), &second).unwrap());
    // A power cut can leave it empty: then the numbers begin anew, and the tokens do not.
    fs::write(ledger.path().join("000003.epoch"), "").unwrap();
    assert!(!ledger.is_current(unit(3), &second).unwrap());
    let Begun::Attempt(third) = begin(&ledger, 3) else { panic!() };
    assert_eq!(third.number, 1);
    assert!(!ledger.is_current(unit(3), &first).unwrap());
    ledger.put_record(&record(3, 1)).unwrap();
    assert!(!ledger.is_current(unit(3), &third).unwrap());
    assert_eq!(begin(&ledger, 3), Begun::Done(Box::new(record(3, 1))));
}

#[test]
fn locks_are_of_one_place_and_exclusive() {
    let root = tempfile::tempdir().unwrap();
    let (ledger, other) = (ledger(root.path()), ledger(root.path()));
    let place = LockPlace::Unit(unit(0));
    let lock = ledger.try_lock(place).unwrap().unwrap();
    assert!(lock.is_of(place) && !lock.is_of(LockPlace::File(0)));
    assert!(other.try_lock(place).unwrap().is_none());
    assert!(ledger.lock_within(place, Duration::from_millis(5)).unwrap().is_none());
    for place in [LockPlace::Unit(unit(1)), LockPlace::File(0), LockPlace::File(u32::MAX)] {
        assert!(other.try_lock(place).unwrap().is_some());
    }
    drop(lock);
    assert!(other.lock_within(place, Duration::ZERO).unwrap().is_some());
}

#[test]
fn files_that_others_put_there_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let ledger = ledger(root.path());
    let put = |name: &str, text: &str| fs::write(ledger.path().join(name), text).unwrap();
    put("000000.json", "{}");
    put("000001.json", &serde_json::to_string(&record(2, 1)).unwrap());
    std::os::unix::fs::symlink("000001.json", ledger.path().join("000002.json")).unwrap();
    put("000003.json", &" ".repeat(17 << 20));
    for (number, expected) in [
        (0, "000000.json: line 1"),
        (1, "belongs to unit 000002 of plan 0909"),
        (2, "ELOOP"),
        (3, "too long"),
    ] {
        let error = ledger.record(unit(number)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A link in place of the ledger is not followed.
    let (other, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(elsewhere.path(), other.path().join(LEDGER_DIRECTORY)).unwrap();
    let directory = File::open(other.path()).unwrap();
    assert!(Ledger::create(&directory, other.path(), plan(), Flush::Yes).is_err());
    assert!(Ledger::open(&directory, other.path(), plan()).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}
