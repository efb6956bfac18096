//! Tests of conclusions from ledgers.

use super::*;
use crate::format::{Options, PlanId, Root, SCHEMA, SeenRoots};
use crate::ledger::{FailureReason, Worker};

fn worker() -> Worker {
    Worker { host: "h".to_owned(), pid: 1 }
}

fn unit(number: u32) -> UnitNumber {
    UnitNumber::new(number).unwrap()
}

fn plan(units: u32, entries: u64, bytes: u64) -> Plan {
    Plan {
        schema: SCHEMA,
        id: PlanId::from_random([1; 16]),
        source: Root::new("/s").unwrap(),
        destination: Root::new("/d").unwrap(),
        seen: SeenRoots::default(),
        options: Options::default(),
        units,
        entries,
        bytes,
        deletions: 0,
        version: String::new(),
        finished: true,
    }
}

fn record(begun: i64, ended: i64, entries: u64, bytes: u64) -> Record {
    Record {
        schema: SCHEMA,
        plan: PlanId::from_random([1; 16]),
        unit: unit(0),
        digest: String::new(),
        attempt: 1,
        worker: worker(),
        begun: Time(begun, 0),
        ended: Time(ended, 0),
        done: Amounts { entries, bytes, deleted: 0 },
        receipt: serde_json::Value::Null,
    }
}

fn failure(attempt: u64, kinds: &[FailureKind]) -> Failure {
    let reason = |kind: &FailureKind| FailureReason {
        kind: *kind,
        path: None,
        code: None,
        message: String::new(),
    };
    let Record { schema, plan, unit, digest, worker, ended, .. } = record(0, 0, 0, 0);
    let reasons = kinds.iter().map(reason).collect();
    Failure { schema, plan, unit, digest, attempt, worker, ended, failed: 1, reasons }
}

fn attempt(number: u64) -> Attempt {
    Attempt { number, token: number, worker: worker(), begun: Time(0, 0) }
}

#[test]
fn the_state_of_a_unit_follows_from_its_files() {
    use FailureKind::{Conflict, Error, Interrupted, NotYet, Overtaken};
    let done = Some(record(0, 1, 1, 1));
    // Record, failure, attempt, state.
    for (record, failure, attempt, expected) in [
        (None, None, None, "Waiting"),
        (None, None, Some(attempt(1)), "Begun"),
        (None, Some(failure(1, &[Error])), Some(attempt(1)), "Failed"),
        (None, Some(failure(1, &[Error])), Some(attempt(2)), "Begun"),
        (None, Some(failure(2, &[Conflict])), Some(attempt(2)), "Failed"),
        // A later attempt was interrupted before it wrote down that it had begun.
        (None, Some(failure(3, &[Conflict])), Some(attempt(2)), "Failed"),
        (None, Some(failure(1, &[Error])), None, "Failed"),
        (None, Some(failure(1, &[])), Some(attempt(1)), "Failed"),
        (None, Some(failure(1, &[Interrupted])), Some(attempt(1)), "Waiting"),
        (None, Some(failure(1, &[NotYet])), Some(attempt(1)), "Waiting"),
        (None, Some(failure(1, &[Overtaken])), Some(attempt(1)), "Waiting"),
        (None, Some(failure(1, &[Interrupted, Error])), Some(attempt(1)), "Failed"),
        (done.clone(), Some(failure(1, &[Error])), Some(attempt(1)), "Done"),
        (done.clone(), None, Some(attempt(2)), "Done"),
        (done, None, None, "Done"),
    ] {
        let facts = UnitFacts { record, failure, attempt };
        let shown = format!("{facts:?}");
        let state = format!("{:?}", facts.state());
        assert!(state.starts_with(expected), "{shown}: {state}");
    }
}

#[test]
fn units_are_summed_up() {
    use FailureKind::{Conflict, Error};
    let done = |begun, ended| UnitFacts {
        record: Some(record(begun, ended, 10, 1 << 20)),
        ..UnitFacts::default()
    };
    let units = [
        (unit(0), done(0, 10)),
        // Its clock is a day ahead, and one was set back.
        (unit(1), done(86_400, 86_410)),
        (unit(2), done(100, 50)),
        (
            unit(4),
            UnitFacts {
                failure: Some(failure(1, &[Error, Error, Conflict])),
                ..UnitFacts::default()
            },
        ),
        (unit(3), UnitFacts { failure: Some(failure(1, &[Error])), ..UnitFacts::default() }),
        (unit(5), UnitFacts { attempt: Some(attempt(1)), ..UnitFacts::default() }),
        (unit(6), UnitFacts { attempt: Some(attempt(4)), ..UnitFacts::default() }),
        // No unit of this plan.
        (unit(99), done(0, 1000)),
    ];
    let found = status(&plan(10, 100, 10 << 20), units);
    assert_eq!((found.units, found.done, found.waiting), (10, 3, 3));
    assert_eq!(found.amounts, Amounts { entries: 30, bytes: 3 << 20, deleted: 0 });
    assert_eq!(found.work, Duration::from_secs(20));
    assert_eq!(found.failed.iter().map(|(unit, _)| unit.get()).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(found.failure_kinds(), BTreeMap::from([(Conflict, 1), (Error, 2)]));
    // Two workers do in 10 seconds what one did in 20, and 7 of 10 parts are left.
    assert_eq!(found.bytes_per_second, Some((3 << 20) / 10));
    let left = found.time_left.unwrap().as_secs_f64();
    assert!((left - 20.0 * 7.0 / 3.0 / 2.0).abs() < 0.001, "{left}");
    assert!(!found.is_complete());
}

#[test]
fn nothing_is_estimated_from_nothing() {
    let none = status(&plan(1, 1, 0), []);
    assert_eq!((none.waiting, none.bytes_per_second, none.time_left), (1, None, None));
    let done = UnitFacts { record: Some(record(0, 0, 1, 0)), ..UnitFacts::default() };
    let all = status(&plan(1, 1, 0), [(unit(0), done)]);
    assert!(all.is_complete());
    assert_eq!(all.time_left, None);
}
