//! Tests of plans that were killed: every entry is planned once, whenever that was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::super::tests::{Place, Planned, mixed, walk};
use super::super::{CheckpointPace, Deletion, PlanEvent, PlanRoot, PlanTotals, plan, read_plan};
use super::*;
use crate::UnitError;
use crate::format::Kind;

/// A tree with everything that a plan has to do with, a destination with entries of its own, and a directory for plans:
/// in memory where there is one, since each checkpoint is flushed.
fn scene() -> (Place, TempDir) {
    let place = Place::new();
    let plans = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    symlink(plans.path(), place.path("plans")).unwrap();
    mixed(&place);
    for number in 0..250 {
        place.write(format!("s/flat/{number}"), "");
        place.write(format!("d/flat/other {number}"), "");
        place.write(format!("d/gone/{}/{number}", number % 3), "");
        // Names of one file in two directories.
        if number % 5 == 0 {
            fs::hard_link(
                place.path(format!("s/flat/{number}")),
                place.path(format!("s/d{}/{number}", number % 7)),
            )
            .unwrap();
        }
    }
    (place, plans)
}

fn request(place: &Place) -> PlanRequest {
    PlanRequest {
        files: 25,
        threads: NonZeroUsize::MIN,
        delete: Some(Deletion::default()),
        checkpoints: CheckpointPace::Names(100),
        directory: place.path("plans/p"),
        ..place.request()
    }
}

/// Plans until the watch was called so often, and then ends as if it was killed.
fn killed_after(request: &PlanRequest, calls: u64) {
    let left = AtomicU64::new(calls);
    let watch = |_: PlanEvent<'_>| {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            resume_unwind(Box::new("killed"));
        }
    };
    let _ = catch_unwind(AssertUnwindSafe(|| plan(request, &watch)));
}

/// Plans until there is a checkpoint with a directory that is listed in part, which it returns, and ends as if it was killed.
fn half_planned(request: &PlanRequest) -> Checkpoint {
    let found = || {
        let text = fs::read(request.directory.join("checkpoint")).ok()?;
        let checkpoint = Checkpoint::parse(&text).unwrap();
        let is_half = |task: &Task| task.from.is_some() && task.path == b"flat";
        checkpoint.tasks.iter().any(is_half).then_some(checkpoint)
    };
    let watch = |_: PlanEvent<'_>| {
        if found().is_some() {
            resume_unwind(Box::new("killed"));
        }
    };
    let _ = catch_unwind(AssertUnwindSafe(|| plan(request, &watch)));
    found().unwrap()
}

/// Beginning of a plan.
#[derive(Debug, PartialEq)]
enum Begun {
    New,
    Anew(String),
    Resumed(u64),
}

/// Plans to the end, and checks what came of it.
fn ended(place: &Place, request: &PlanRequest) -> Begun {
    let begun = Mutex::new(None);
    plan(request, &|event| {
        if let PlanEvent::Begun(beginning) = event {
            *begun.lock().unwrap() = Some(match beginning {
                Beginning::New => Begun::New,
                Beginning::Anew(reason) => Begun::Anew(reason.to_string()),
                Beginning::Resumed { entries, .. } => Begun::Resumed(*entries),
            });
        }
    })
    .unwrap();
    let names = fs::read_dir(&request.directory).unwrap();
    assert_eq!(names.count(), 2, "more than plan.json and units");
    check_plan(place, request);
    begun.into_inner().unwrap().unwrap()
}

/// Compares a plan with independent walks through both roots.
fn check_plan(place: &Place, request: &PlanRequest) {
    let planned = Planned::read(&request.directory, PlanTotals::default());
    let (mut source, mut destination) = (BTreeSet::new(), BTreeSet::new());
    walk(&place.path("s"), Path::new(""), &mut source);
    walk(&place.path("d"), Path::new(""), &mut destination);
    let mut found = BTreeMap::new();
    let mut names: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    let mut deletions = 0;
    for (unit, entry) in planned.entries() {
        let path = entry.path.as_path();
        *found.entry(path.to_owned()).or_insert(0) += 1;
        assert_eq!(entry.destination.is_some(), destination.contains(path), "{}", entry.path);
        deletions += u64::from(entry.source.is_none());
        if let (Some(source), true) = (&entry.source, entry.kind != Kind::Directory) {
            names.entry(source.inode).or_default().insert(unit);
        }
    }
    assert!(found.values().all(|times| *times == 1), "planned more than once");
    let expected: BTreeSet<PathBuf> = source.union(&destination).cloned().collect();
    assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), expected);
    assert!(names.values().all(|units| units.len() == 1), "names of one file in two units");
    assert_eq!(planned.plan.entries, source.len() as u64);
    assert_eq!(planned.plan.deletions, deletions);
    // Files of `mixed`; those with several names count once.
    assert_eq!(planned.plan.bytes, (0..300).sum::<u64>() + 3);
    // Directories come before what is in them.
    let (_, finish) = planned.units.last().unwrap();
    let mut seen = BTreeSet::from([PathBuf::new()]);
    for entry in finish.iter().skip(1) {
        assert!(seen.contains(entry.path.as_path().parent().unwrap()), "{}", entry.path);
        seen.insert(entry.path.as_path().to_owned());
    }
}

#[test]
fn a_plan_that_was_killed_goes_on() {
    let (place, _plans) = scene();
    let mut resumed = 0;
    for calls in [4, 12, 20, 28, 36, 44] {
        let request =
            PlanRequest { directory: place.path(format!("plans/p{calls}")), ..request(&place) };
        // Twice: what goes on may be killed as well.
        killed_after(&request, calls);
        killed_after(&request, 8);
        if read_plan(&request.directory).is_ok() {
            check_plan(&place, &request);
            continue;
        }
        let has_checkpoint = request.directory.join("checkpoint").exists();
        let begun = ended(&place, &request);
        assert_eq!(has_checkpoint, matches!(begun, Begun::Resumed(1..)), "{calls}: {begun:?}");
        resumed += u32::from(has_checkpoint);
    }
    assert!(resumed >= 3, "{resumed}");
}

/// Entries with several names are put into units after the walk. An error there keeps what there is.
#[test]
fn a_plan_that_ended_after_the_walk_goes_on() {
    let (place, _plans) = scene();
    let request = PlanRequest { checkpoints: CheckpointPace::Names(9), ..request(&place) };
    let scratch = request.directory.join("scratch");
    let mut source = BTreeSet::new();
    walk(&place.path("s"), Path::new(""), &mut source);
    // In the end the last scratch file has something else behind its entries.
    let watch = |event: PlanEvent<'_>| {
        let PlanEvent::Found(PlanTotals { entries, .. }) = event else { return };
        if entries == source.len() as u64 {
            let parts = fs::read_dir(&scratch).unwrap().map(|part| part.unwrap().path());
            let last = File::options().append(true).open(parts.max().unwrap());
            last.unwrap().write_all(&[b'x'; 1 << 20]).unwrap();
        }
    };
    let error = plan(&request, &watch).unwrap_err();
    assert!(matches!(error, PlanError::Unit(UnitError::System(_))), "{error}");
    let text = fs::read(request.directory.join("checkpoint")).unwrap();
    let checkpoint = Checkpoint::parse(&text).unwrap();
    assert!(checkpoint.tasks.is_empty() && checkpoint.links.written_out > 0);
    assert_eq!(ended(&place, &request), Begun::Resumed(checkpoint.totals.entries));
}

/// Bytes that the killed process wrote after its last checkpoint, and half of another checkpoint.
#[test]
fn what_is_younger_than_the_checkpoint_is_cut_off() {
    let (place, _plans) = scene();
    let request = request(&place);
    let checkpoint = half_planned(&request);
    let units = request.directory.join("units");
    for directory in [&units, &request.directory.join("scratch")] {
        for file in fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            let is_ended =
                !checkpoint.units.open.iter().any(|open| path == unit_path(&units, open.unit))
                    && path.extension().is_some_and(|extension| extension == "jsonl");
            if !is_ended {
                let mut file = File::options().append(true).open(path).unwrap();
                file.write_all(b"{\"path\":\"half").unwrap();
            }
        }
    }
    fs::write(units.join("000099.jsonl"), "younger").unwrap();
    fs::write(request.directory.join("scratch/links.77"), "younger").unwrap();
    fs::write(request.directory.join("checkpoint.new"), "half").unwrap();
    assert_eq!(ended(&place, &request), Begun::Resumed(checkpoint.totals.entries));
}

#[test]
fn a_plan_that_cannot_go_on_begins_anew_and_says_why() {
    type Damage = fn(&Place, &Path);
    let cases: [(&str, Damage); 6] = [
        ("the checkpoint is damaged", |_, directory| {
            let path = directory.join("checkpoint");
            let mut text = fs::read(&path).unwrap();
            text[100] ^= 1;
            fs::write(path, text).unwrap();
        }),
        ("units lacks what", |_, directory| {
            fs::remove_file(directory.join("units/000000.jsonl")).unwrap();
        }),
        ("finish.part lacks what", |_, directory| {
            let finish = File::options().write(true).open(directory.join("units/finish.part"));
            finish.unwrap().set_len(400).unwrap();
        }),
        ("s/flat has changed", |place, _| place.write("s/flat/new", "")),
        ("s/flat has changed", |place, _| {
            fs::rename(place.path("s/flat"), place.path("old")).unwrap();
            place.write("s/flat/other", "");
        }),
        ("/s has changed", |place, _| {
            fs::rename(place.path("s"), place.path("old")).unwrap();
            place.write("s/mixed", "");
            fs::remove_file(place.path("s/mixed")).unwrap();
            mixed(place);
        }),
    ];
    for (expected, damage) in cases {
        let (place, _plans) = scene();
        let request = request(&place);
        half_planned(&request);
        damage(&place, &request.directory);
        match ended(&place, &request) {
            Begun::Anew(reason) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

/// Directories that wait may change, and vanish: so they may between two calls of any walk.
#[test]
fn changes_elsewhere_do_not_matter() {
    let (place, _plans) = scene();
    let request = request(&place);
    let entries = half_planned(&request).totals.entries;
    let tasks = || {
        let text = fs::read(request.directory.join("checkpoint")).unwrap();
        Checkpoint::parse(&text).unwrap().tasks
    };
    let waiting: Vec<Task> = tasks()
        .into_iter()
        .filter(|task| task.look == Look::Source && task.from.is_none())
        .collect();
    let [first, second, ..] = &waiting[..] else { panic!("{waiting:?}") };
    let path = |task: &Task| place.path("s").join(OsStr::from_bytes(&task.path));
    place.write(path(first).join("new"), "");
    fs::remove_dir_all(path(second)).unwrap();
    let begun = Mutex::new(None);
    plan(&request, &|event| {
        if let PlanEvent::Begun(Beginning::Resumed { entries, .. }) = event {
            *begun.lock().unwrap() = Some(*entries);
        }
    })
    .unwrap();
    assert_eq!(begun.into_inner().unwrap(), Some(entries));
    let planned = Planned::read(&request.directory, PlanTotals::default());
    let new = Path::new(OsStr::from_bytes(&first.path)).join("new");
    assert_eq!(planned.entries().filter(|(_, entry)| entry.path.as_path() == new).count(), 1);
}

#[test]
fn another_request_is_refused_and_touches_nothing() {
    let (place, _plans) = scene();
    let request = request(&place);
    let entries = half_planned(&request).totals.entries;
    fs::create_dir(place.path("other")).unwrap();
    let other = |difference, change: &dyn Fn(&mut PlanRequest)| {
        let mut request = request.clone();
        change(&mut request);
        let error = plan(&request, &|_| {}).unwrap_err();
        let PlanError::OtherRequest { from, difference: found, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((from, *found), (&place.path("s"), difference), "{error}");
    };
    other(RequestDifference::Roots, &|request| {
        request.source = PlanRoot::Here(place.path("other"))
    });
    other(RequestDifference::Roots, &|request| {
        request.destination = PlanRoot::Here(place.path("other"))
    });
    other(RequestDifference::Options, &|request| request.files = 7);
    other(RequestDifference::Options, &|request| request.delete = None);
    other(RequestDifference::Options, &|request| request.selection.exclude("x").unwrap());
    other(RequestDifference::Options, &|request| request.version = "1".to_owned());
    // The number of threads is nobody's business.
    let request = PlanRequest { threads: NonZeroUsize::new(3).unwrap(), ..request };
    assert_eq!(ended(&place, &request), Begun::Resumed(entries));
}
