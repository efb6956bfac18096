//! Trees over several filesystems, and roots that a mount hides in each other.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use testbed::{Case, Compared, Mount, Need, Place, Program, Run, Scratch};

use super::work::{Work, put, run_unit, uncopy};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] files_of_two_filesystems_stay_apart,
        [Need::Root] a_source_that_a_mount_hides_in_the_destination,
        [Need::Root] a_destination_that_a_mount_hides_in_the_source,
        [] ledgers_of_other_plans_stay,
    ]
}

/// Files with two names on each filesystem have the same inode numbers, bytes and times, and other settings.
fn files_of_two_filesystems_stay_apart() {
    let work = Work::new();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let mut mounted = Vec::new();
    let mut inodes = Vec::new();
    for (number, mode) in [(1, 0o644), (2, 0o600)] {
        let directory = work.source().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        let own = Mount::tmpfs(16);
        let over = Mount::bind_file(own.path(), &directory);
        let file = directory.join("f");
        put(&file, "the same");
        fs::hard_link(&file, directory.join("g")).unwrap();
        File::open(&file).unwrap().set_modified(time).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        chown(&file, Some(number), Some(number)).unwrap();
        inodes.push(fs::metadata(&file).unwrap().ino());
        mounted.push((over, own));
    }
    assert_eq!(inodes[0], inodes[1], "the test needs equal numbers");
    for flags in [&["--jobs=1"][..], &["--jobs=1", "--no-durable"], &["--verify"]] {
        work.plan(flags);
        work.run_all();
        work.assert_same(Compared::wholly());
        fs::remove_dir_all(work.destination()).unwrap();
        fs::remove_dir_all(work.directory()).unwrap();
    }
    while let Some((over, own)) = mounted.pop() {
        drop(over);
        drop(own);
    }
}

/// A directory with an inner one that is mounted again beside it.
fn hidden() -> (Scratch, Mount) {
    let scratch = Place::Disk.scratch();
    for name in ["outer/a", "outer/inner/b", "outer/inner/keep"] {
        put(&scratch.join(name), name);
    }
    fs::create_dir(scratch.join("again")).unwrap();
    let mount = Mount::bind_file(&scratch.join("outer/inner"), &scratch.join("again"));
    (scratch, mount)
}

fn planned(scratch: &Scratch, flags: &[&str], source: &str, destination: &str) -> Run {
    let plan: Program = uncopy().args(["unit", "plan", "-a"]).args(flags);
    plan.arg(scratch.join(source))
        .arg(scratch.join(destination))
        .arg("--out")
        .arg(scratch.join("plan"))
        .run()
}

fn assert_untouched(root: &Path) {
    for name in ["a", "inner/b", "inner/keep"] {
        assert_eq!(fs::read(root.join(name)).unwrap(), format!("outer/{name}").as_bytes());
    }
}

fn a_source_that_a_mount_hides_in_the_destination() {
    for flags in [&["--delete"][..], &["--delete", "--exclude=/keep"]] {
        let (scratch, mount) = hidden();
        let run = planned(&scratch, flags, "again", "outer");
        assert!(
            run.failed(1).contains("it is a source of this copy or holds one"),
            "{}",
            run.stderr
        );
        assert!(!scratch.join("plan/plan.json").exists());
        // Below a directory that only the destination has.
        fs::create_dir_all(scratch.join("above/outer")).unwrap();
        let deeper = Mount::bind_file(&scratch.join("outer"), &scratch.join("above/outer"));
        let run = planned(&scratch, flags, "again", "above");
        assert_eq!(run.status.code(), Some(0), "a mounted directory stays: {}", run.stderr);
        drop(deeper);
        drop(mount);
        assert_untouched(&scratch.join("outer"));
    }
}

fn a_destination_that_a_mount_hides_in_the_source() {
    let (scratch, mount) = hidden();
    let run = planned(&scratch, &[], "outer", "again");
    assert!(run.failed(1).contains("it is the destination of this copy"), "{}", run.stderr);
    assert!(!scratch.join("plan/plan.json").exists());
    drop(mount);
    assert_untouched(&scratch.join("outer"));
}

/// A plan whose destination holds that of another one copies and deletes none of its ledger.
fn ledgers_of_other_plans_stay() {
    let inner = Work::new();
    inner.write("f", "inner");
    let outer = Work::new();
    outer.write("sub/g", "outer");
    outer.write("sub/.uncopy-ledger/f", "of a source that was a destination");
    let destination = inner.destination();
    inner.plan(&[]);
    inner.run_all();
    let plan = |source: &Path, destination: &Path| {
        let run = uncopy()
            .args(["unit", "plan", "-a", "--delete", "--out"])
            .arg(outer.directory())
            .arg(source)
            .arg(destination)
            .run();
        assert!(run.status.success(), "{}", run.stderr);
        for unit in outer.units() {
            let run = run_unit(&unit);
            assert!(run.status.success(), "{}", run.stderr);
        }
        fs::remove_dir_all(outer.directory()).unwrap();
    };
    // In a directory that the source has, too, and in one that it has not.
    fs::rename(&destination, inner.scratch.join("sub")).unwrap();
    fs::create_dir(&destination).unwrap();
    fs::rename(inner.scratch.join("sub"), destination.join("sub")).unwrap();
    let ledger = destination.join("sub/.uncopy-ledger");
    let before = fs::read_dir(&ledger).unwrap().count();
    plan(&outer.source(), &destination);
    assert_eq!(fs::read_dir(&ledger).unwrap().count(), before);
    assert!(!ledger.join("f").exists() && !destination.join("sub/f").exists());
    assert!(destination.join("sub/g").exists());
    fs::remove_dir_all(outer.source().join("sub")).unwrap();
    plan(&outer.source(), &destination);
    assert_eq!(fs::read_dir(&ledger).unwrap().count(), before);
}
