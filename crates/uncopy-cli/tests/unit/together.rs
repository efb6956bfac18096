//! Several workers: side by side, with the same unit, killed, and stopped while others go on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use testbed::{
    CallPattern, Case, Intercepted, KernelFeature, Machine, Need, Place, Program, Stopped,
    SystemCall, WatchedCall, by_extent, hosts_of_records, seeded,
};

use super::work::{Work, of_unit, printed, put, run_unit};

pub(crate) fn cases() -> Vec<Case> {
    let shared = [(Place::Ext4, 20_000), (Place::Xfs, 3_000)].map(|(place, files)| {
        let needs = [place.needs(), &[Need::Tool("unshare")]].concat();
        let name = format!("unit::together::four_machines_share_{place:?}");
        Case::new(name, &needs, move || four_machines_share_a_filesystem(place, files))
    });
    let mut cases = testbed::cases![
        [] four_workers_share_a_tree,
        [] two_workers_have_the_same_unit,
        [] killed_workers_are_followed_by_others,
        [Need::Kernel(KernelFeature::StoppedCalls)] a_stopped_worker_changes_nothing_later,
        [Need::Kernel(KernelFeature::StoppedCalls)] a_worker_stopped_before_it_gives_a_name,
        [Need::Kernel(KernelFeature::StoppedCalls)] a_writer_of_a_part_that_was_stopped,
        [] the_last_part_is_killed_at_each_step,
        [Need::Kernel(KernelFeature::StoppedCalls)] a_worker_is_killed_when_its_copy_of_a_cut_file_has_the_name,
    ];
    cases.extend(shared);
    cases
}

/// A queue that hands some units out twice.
fn queue(work: &Work) -> Vec<PathBuf> {
    let units = work.units();
    let (last, others) = units.split_last().unwrap();
    let twice = others.iter().step_by(5).cloned();
    let mut queue: Vec<PathBuf> = others.iter().cloned().chain(twice).collect();
    // Not in their order.
    queue
        .sort_by_key(|unit| blake3::hash(unit.as_os_str().as_encoded_bytes()).to_hex().to_string());
    assert!(!queue.contains(last));
    queue
}

fn four_workers_share_a_tree() {
    let work = Work::new();
    work.fill(by_extent([1_000, 3_000, 20_000]));
    work.plan(&["--files=100"]);
    work_together(&work, &[(); 4].map(|()| of_unit));
    work.assert_done();
}

/// Each machine has a mount of its own, and shares nothing with the others but the filesystem.
fn four_machines_share_a_filesystem(place: Place, files: usize) {
    let work = Work::at(place);
    work.fill(by_extent([500, files, files]));
    work.plan(&["--files=100"]);
    let machines = ["first", "second", "third", "fourth"].map(|name| Machine::sharing(place, name));
    let workers =
        machines.each_ref().map(|machine| |unit: &Path| of_unit(unit).through(machine.wrapper()));
    work_together(&work, &workers);
    assert_eq!(
        hosts_of_records(&work.destination()),
        machines.iter().map(|machine| machine.name().to_owned()).collect()
    );
    work.assert_done();
}

/// Does the units of a plan by workers, who run units like this, and the last one by the first worker.
fn work_together<W: Fn(&Path) -> Program + Sync>(work: &Work, workers: &[W]) {
    let (queue, next) = (queue(work), AtomicUsize::new(0));
    let left = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                while let Some(unit) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = worker(unit).run();
                    match run.status.code() {
                        Some(0) => {}
                        // Whoever has begun it since goes on with it.
                        Some(10) => left.lock().unwrap().push(unit.clone()),
                        other => panic!("{}: {other:?} {}", unit.display(), run.stderr),
                    }
                }
            });
        }
    });
    let last = work.units().pop();
    for unit in left.into_inner().unwrap().iter().chain(&last) {
        let run = workers[0](unit).run();
        assert!(run.status.success(), "{}", run.stderr);
    }
}

fn two_workers_have_the_same_unit() {
    for _ in 0..by_extent([2, 10, 50]) {
        let work = Work::new();
        for number in 0..300 {
            work.write(format!("d{}/{number}", number % 9), seeded(number, 0, 3000));
        }
        work.plan(&[]);
        let unit = work.units().remove(0);
        let codes: Vec<_> = thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| run_unit(&unit)));
            both.map(|worker| worker.join().unwrap().status.code().unwrap()).into()
        });
        assert!(codes.iter().all(|code| [0, 10].contains(code)) && codes.contains(&0), "{codes:?}");
        work.run_all();
        work.assert_done();
    }
}

fn killed_workers_are_followed_by_others() {
    let work = Work::new();
    work.fill(by_extent([200, 1_000, 2_000]));
    for number in 0..50 {
        let name = format!("modes/f{number}");
        work.write(&name, "set-user-ID");
        let mode = fs::Permissions::from_mode(0o6755);
        fs::set_permissions(work.source().join(name), mode).unwrap();
    }
    for name in ["d0/e0/f0", "d1/e1/f1", "d0/several"] {
        put(&work.destination().join(name), "before the plan");
    }
    work.plan(&["--files=40"]);
    let mut random = seeded(11, 0, 4096).into_iter();
    let mut kills = 0;
    for unit in work.units() {
        loop {
            let mut child = Command::new(env!("CARGO_BIN_EXE_uncopy"))
                .args(["unit", "run", "--quiet"])
                .arg(&unit)
                .env("UNCOPY_CONFIG", "/dev/null")
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            let wait = random.next().map_or(1_000, u64::from);
            thread::sleep(Duration::from_millis(wait / 2));
            let _ = child.kill();
            match child.wait().unwrap().code() {
                Some(0) => break,
                None => kills += 1,
                other => panic!("{}: {other:?}", unit.display()),
            }
        }
    }
    assert!(kills > 3, "{kills}");
    work.assert_done();
}

/// Every call after which something is on the disk that the next attempt finds.
fn the_last_part_is_killed_at_each_step() {
    let calls = [
        SystemCall::RENAMEAT2,
        SystemCall::FTRUNCATE,
        SystemCall::FSYNC,
        SystemCall::UTIMENSAT,
        SystemCall::FCHOWN,
        SystemCall::FCHMOD,
        SystemCall::UNLINKAT,
    ];
    for (call, nth) in calls.into_iter().flat_map(|call| [(call, 1), (call, 2), (call, 3)]) {
        let work = Work::new();
        work.write("large", seeded(3, 0, (2 << 20) + 99));
        let large = work.source().join("large");
        fs::set_permissions(&large, fs::Permissions::from_mode(0o6444)).unwrap();
        // As far as this user may.
        let _ = std::os::unix::fs::chown(&large, Some(7), Some(7));
        work.plan(&[]);
        let units = work.units();
        let (last, others) = units[..units.len() - 1].split_last().unwrap();
        for unit in others {
            assert!(run_unit(unit).status.success());
        }
        let killed = of_unit(last).run_with([CallPattern::of(&[call]).nth(nth).kills()]);
        let _ = killed;
        work.run_all();
        work.assert_done();
    }
}

/// Starts a worker, and stops it in a call.
fn stopped(unit: &Path, call: CallPattern) -> Stopped {
    Intercepted::new(&of_unit(unit)).stop_in(call)
}

fn a_stopped_worker_changes_nothing_later() {
    for before in [false, true] {
        let work = Work::new();
        for number in 0..20 {
            let name = format!("f{number:02}");
            work.write(&name, "of the source");
            if before {
                put(&work.destination().join(name), "before");
            }
        }
        work.plan(&[]);
        let unit = work.units().remove(0);
        let stopped = stopped(&unit, CallPattern::of(&[SystemCall::UTIMENSAT]).nth(5));
        let run = run_unit(&unit);
        assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
        assert_eq!(printed(&run)["record"]["attempt"], 2);
        for number in 0..20 {
            let copy = work.destination().join(format!("f{number:02}"));
            assert_eq!(fs::read(&copy).unwrap(), b"of the source");
            match number % 3 {
                0 => fs::remove_file(copy).unwrap(),
                1 => fs::write(copy, "user's").unwrap(),
                _ => {}
            }
        }
        let gone_on = stopped.resume().run;
        // It finds that the unit is done.
        assert!(gone_on.status.success(), "{}{}", gone_on.stdout, gone_on.stderr);
        assert_eq!(printed(&gone_on)["state"], "done_before");
        for number in 0..20 {
            let copy = work.destination().join(format!("f{number:02}"));
            match number % 3 {
                0 => assert!(!copy.exists()),
                1 => assert_eq!(fs::read(copy).unwrap(), b"user's"),
                _ => assert_eq!(fs::read(copy).unwrap(), b"of the source"),
            }
        }
        let names: Vec<_> = fs::read_dir(work.destination()).unwrap().collect();
        assert_eq!(names.len(), 1 + 13);
    }
}

/// The worst moment: it has looked whether it is the current attempt, and holds the lock of the unit.
fn a_worker_stopped_before_it_gives_a_name() {
    for before in [false, true] {
        let work = Work::new();
        work.write("f", "of the source");
        let copy = work.destination().join("f");
        if before {
            put(&copy, "before");
        }
        work.plan(&[]);
        let unit = work.units().remove(0);
        fs::create_dir_all(work.destination()).unwrap();
        let look = CallPattern::of(&[SystemCall::OPENAT])
            .when(|call| call.paths().iter().any(|path| path.ends_with("000000.epoch")))
            .nth(2);
        let stopped = stopped(&unit, look);
        // Others wait for a while, and go on without the lock.
        let run = run_unit(&unit);
        assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
        assert_eq!(fs::read(&copy).unwrap(), b"of the source");
        fs::write(&copy, "user's").unwrap();
        let _ = stopped.resume();
        assert_eq!(fs::read(&copy).unwrap(), b"user's");
    }
}

fn a_writer_of_a_part_that_was_stopped() {
    let work = Work::new();
    work.write("large", seeded(8, 0, (3 << 20) + 5));
    work.plan(&["--method=read-write"]);
    let first = work.units().remove(0);
    let stopped = stopped(&first, CallPattern::of(&[SystemCall::PWRITE64]).nth(2));
    work.run_all();
    // The user writes into the file that is in place, everywhere.
    let copy = work.destination().join("large");
    assert_eq!(fs::read(&copy).unwrap(), fs::read(work.source().join("large")).unwrap());
    let changed = vec![b'u'; (3 << 20) + 5];
    let file = fs::File::options().write(true).open(&copy).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &changed, 0).unwrap();
    let gone_on = stopped.resume().run;
    assert!(gone_on.status.success(), "{}{}", gone_on.stdout, gone_on.stderr);
    assert!(fs::read(&copy).unwrap() == changed, "the change is lost");
    assert_eq!(fs::read_dir(work.destination()).unwrap().count(), 2);
}

/// A writer was stopped, so a copy of its file gets the name. Whoever puts it in place is killed before, at once after, and
/// before the record.
fn a_worker_is_killed_when_its_copy_of_a_cut_file_has_the_name() {
    let is_staging = |call: &WatchedCall| {
        call.paths().iter().any(|path| path.extension().is_some_and(|end| end == "part"))
    };
    let is_record =
        |call: &WatchedCall| call.paths().iter().any(|path| path.ends_with("000002.json"));
    let kills = [
        CallPattern::of(&[SystemCall::UNLINKAT]).when(is_staging),
        CallPattern::of(&[SystemCall::RENAMEAT2]).when(is_record),
    ];
    for kill in &kills[..by_extent([1, 2, 2])] {
        let work = Work::new();
        work.write("large", seeded(8, 0, (2 << 20) + 5));
        work.plan(&["--method=read-write"]);
        let units = work.units();
        let stopped = stopped(&units[0], CallPattern::of(&[SystemCall::PWRITE64]).nth(1));
        for unit in &units[..2] {
            assert!(run_unit(unit).status.success());
        }
        let killed = of_unit(&units[2]).run_with([kill.clone().nth(1).kills()]);
        assert_eq!(killed.run.status.code(), None, "{}", killed.run.stderr);
        let copy = work.destination().join("large");
        assert_eq!(fs::read(&copy).unwrap(), fs::read(work.source().join("large")).unwrap());
        work.run_all();
        let _ = stopped.resume();
        work.assert_done();
    }
}
