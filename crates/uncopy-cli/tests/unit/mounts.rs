//! Trees over several filesystems, and roots that a mount hides in each other.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use testbed::{Case, Compared, Mount, Need, Place, Program, Run, Scratch};

use super::work::{Work, put, run_unit, uncopy};
use crate::remote::Machines;
use crate::tree::roots::run_with_own_mounts;

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] files_of_two_filesystems_stay_apart,
        [Need::Root] a_source_that_a_mount_hides_in_the_destination,
        [Need::Root] a_destination_that_a_mount_hides_in_the_source,
        [Need::Root] parts_of_the_source_that_are_mounted_in_the_destination_stay,
        [Need::Root] a_destination_that_is_a_part_of_the_source_mounted_again,
        [Need::Root, Need::Tool("unshare")] sources_survive_odd_mounts,
        [] ledgers_of_other_plans_stay,
        [Need::Root] a_root_that_is_not_mounted,
        [Need::Root] a_destination_that_is_named_from_where_it_is_to_be_made,
        [] a_destination_with_the_ledger,
        [] a_destination_that_was_copied_between_two_parts,
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
    assert!(run.failed(1).contains("the copy would change what it copies"), "{}", run.stderr);
    assert!(!scratch.join("plan/plan.json").exists());
    drop(mount);
    assert_untouched(&scratch.join("outer"));
}

/// Returns everything in a tree: names, modes, and contents of files.
fn everything_in(root: &Path) -> Vec<(PathBuf, u32, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = fs::metadata(&path).unwrap();
        if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let contents = metadata.is_file().then(|| fs::read(&path).unwrap());
        found.push((path, metadata.permissions().mode(), contents));
    }
    found.sort();
    found
}

/// Files of the source were overwritten and deleted through the mounts, and the units were done.
fn parts_of_the_source_that_are_mounted_in_the_destination_stay() {
    // Parts of the source, and where in the destination each is mounted.
    let rows: [&[(&str, &str)]; 4] = [
        &[("b", "m")],
        &[("b/inner", "deep/er")],
        &[("b", "m"), ("c", "deep/er")],
        &[("b", "deep"), ("c", "deep/er")],
    ];
    for parts in rows {
        for flags in [&[][..], &["--delete"]] {
            for when in ["before the plan", "after the plan", "before the last unit"] {
                let row = format!("{parts:?} {flags:?} {when}");
                let work = Work::new();
                for part in ["b", "b/inner", "c"] {
                    for name in ["f", "only", "er/f", "new/f"] {
                        work.write(format!("{part}/{name}"), format!("precious {part}/{name}"));
                    }
                }
                for directory in ["m", "deep/er"] {
                    for name in ["f", "new/f"] {
                        work.write(format!("{directory}/{name}"), "another");
                    }
                    work.write(format!("{directory}/large"), testbed::seeded(5, 0, 3 << 20));
                    let directory = work.source().join(directory);
                    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
                }
                for name in ["m/only", "deep/er/only", "deep/only"] {
                    put(&work.destination().join(name), "planned to be deleted");
                }
                let mount = || -> Vec<Mount> {
                    let mounts = parts.iter().map(|(part, over)| {
                        Mount::bind_file(&work.source().join(part), &work.destination().join(over))
                    });
                    mounts.collect()
                };
                let before = everything_in(&work.source());
                let mut mounts;
                if when == "before the plan" {
                    mounts = mount();
                    let plan = uncopy().args(["unit", "plan", "-a", "--bytes=1Mi"]).args(flags);
                    let plan = plan.arg("--out").arg(work.directory());
                    let run = plan.arg(work.source()).arg(work.destination()).run();
                    let said = run.failed(1);
                    assert!(said.contains("a part of it, which is mounted there"), "{row}: {said}");
                } else {
                    work.plan(flags);
                    let units = work.units();
                    let mut first = 0;
                    if when == "before the last unit" {
                        first = units.len() - 1;
                        for unit in &units[..first] {
                            assert!(run_unit(unit).status.success(), "{row}");
                        }
                    }
                    mounts = mount();
                    let said: String =
                        units[first..].iter().map(|unit| run_unit(unit).stdout).collect();
                    assert!(said.contains("\"mounted_source\""), "{row}: {said}");
                }
                while let Some(mount) = mounts.pop() {
                    drop(mount);
                }
                assert_eq!(everything_in(&work.source()), before, "{row}");
            }
        }
    }
}

/// Each row overwrote a file of the source through a mount, made before the plan or after it.
fn sources_survive_odd_mounts() {
    // Made before the plan, mounts, the source, a file that stays as it is, and the code of the error.
    const ROWS: &[(&str, &str, &str, &str, &str)] = &[
        (
            "mkdir -p x/part; echo precious >x/part/f; mount --bind x s/o",
            "mount --bind x/part d/m",
            "s",
            "x/part/f",
            "mounted_source",
        ),
        (
            "mkdir \"$(printf 'u\\377')\"; mount -t tmpfs t \"$(printf 'u\\377')\"",
            "mount --bind s/o d/m",
            "s",
            "s/o/f",
            "mounted_source",
        ),
        (
            "mkdir -p p/s/m/s; echo new >p/s/m/s/f; echo precious >p/s/f",
            "mount --bind p d/m",
            "p/s",
            "p/s/f",
            "holds_source",
        ),
    ];
    for (before, mounts, source, kept, code) in ROWS {
        for is_mounted_before in [true, false] {
            let scratch = Place::Disk.scratch();
            let plan =
                format!("\"$0\" unit plan -a --delete {source} d --out plan 2>said || said=1");
            let units = "for unit in plan/units/*; do \"$0\" unit run --json $unit >>said; done";
            let steps = match is_mounted_before {
                true => format!("{mounts}; {plan}; [ -e plan/plan.json ] && {units}"),
                false => format!("{plan}; {mounts}; {units}"),
            };
            let script = format!(
                "mkdir -p s/m s/o d/m; echo new >s/m/f; echo precious >s/o/f; {before}; set +e; {steps}; cat {kept} >kept"
            );
            let run = run_with_own_mounts(scratch.path(), &script);
            let said = fs::read_to_string(scratch.join("said")).unwrap();
            let expected = match (is_mounted_before, *code) {
                (true, "holds_source") => "a source of this copy or holds one",
                (true, _) => "which is mounted there",
                (false, code) => code,
            };
            assert!(said.contains(expected), "{mounts} {is_mounted_before}: {said}{}", run.stderr);
            let kept = fs::read(scratch.join("kept")).unwrap();
            assert_eq!(kept, b"precious\n", "{mounts} {is_mounted_before}: {said}");
        }
    }
}

fn a_destination_that_is_a_part_of_the_source_mounted_again() {
    for flags in [&[][..], &["--delete"]] {
        for part in ["outer/inner", "outer/inner/below"] {
            let (scratch, first) = hidden();
            drop(first);
            put(&scratch.join("outer/inner/below/keep"), "keep");
            let mount = Mount::bind_file(&scratch.join(part), &scratch.join("again"));
            let before = everything_in(&scratch.join("outer"));
            let run = planned(&scratch, flags, "outer", "again");
            assert_ne!(run.status.code(), Some(0), "{part}: {}", run.stderr);
            assert!(!scratch.join("plan/plan.json").exists());
            drop(mount);
            assert_eq!(everything_in(&scratch.join("outer")), before);
        }
    }
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

/// A machine where a root is not mounted has another directory with that path, and must not use it.
fn a_root_that_is_not_mounted() {
    for (name, below) in
        [("source", ""), ("source", "sub"), ("destination", ""), ("destination", "new")]
    {
        let shared = Mount::tmpfs(16);
        let work = Work::new();
        let root = work.scratch.join(name);
        fs::create_dir_all(&root).unwrap();
        let mounted = Mount::bind_file(shared.path(), &root);
        for number in 0..5 {
            put(&work.source().join("sub").join(number.to_string()), "bytes");
        }
        let [source, destination] = ["source", "destination"]
            .map(|side| work.scratch.join(side).join(if side == name { below } else { "" }));
        let plan = uncopy()
            .args(["unit", "plan", "-a", "--files=2", "--out"])
            .args([work.directory(), source.clone(), destination.clone()])
            .run();
        assert!(plan.status.success(), "{}", plan.stderr);
        let status = || uncopy().args(["unit", "status"]).arg(work.directory()).run();
        let refused = |when: &str| {
            if name == "source" && below == "sub" {
                fs::create_dir_all(root.join("sub")).unwrap();
            }
            let before = fs::read_dir(&root).unwrap().count();
            for unit in work.units() {
                let run = run_unit(&unit);
                assert_eq!(run.status.code(), Some(1), "{name}/{below} {when}: {}", run.stdout);
                assert!(
                    run.stderr.contains("is not the directory that the plan saw"),
                    "{}",
                    run.stderr
                );
                assert!(run.stderr.contains("mount it here"), "{}", run.stderr);
            }
            assert_eq!(fs::read_dir(&root).unwrap().count(), before, "{name}/{below} {when}");
            let status = status();
            let (code, said) = (status.status.code(), status.stderr);
            if name == "destination" {
                assert_eq!(code, Some(1), "{said}");
                assert!(said.contains("is not the directory that the plan saw"), "{said}");
            }
        };
        drop(mounted);
        refused("before any unit");
        // One that is made here by hand is not the one of the plan either.
        if name == "destination" && !below.is_empty() {
            fs::create_dir(&destination).unwrap();
            refused("made by hand");
            fs::remove_dir(&destination).unwrap();
        }
        let mounted = Mount::bind_file(shared.path(), &root);
        let run = run_unit(&work.units()[0]);
        assert!(run.status.success(), "{name}/{below}: {}", run.stderr);
        drop(mounted);
        refused("after a unit");
        let mounted = Mount::bind_file(shared.path(), &root);
        work.run_all();
        let done = status();
        assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
        drop((mounted, shared));
    }
}

/// The ledger of a plan says that a destination is its own, wherever that lies now.
fn a_destination_with_the_ledger() {
    let work = Work::new();
    for number in 0..5 {
        work.write(number.to_string(), "bytes");
    }
    fs::create_dir(work.destination()).unwrap();
    work.plan(&["--files=2"]);
    let (first, last) = (work.units().remove(0), work.units().pop().unwrap());
    assert!(run_unit(&first).status.success());
    let aside = work.scratch.join("aside");
    fs::rename(work.destination(), &aside).unwrap();
    let gone = run_unit(&last);
    assert_eq!(gone.status.code(), Some(1), "{}", gone.stdout);
    assert!(gone.stderr.contains("is not the directory that the plan saw"), "{}", gone.stderr);
    assert!(!work.destination().exists());
    let copied =
        std::process::Command::new("cp").arg("-a").args([&aside, &work.destination()]).status();
    assert!(copied.unwrap().success());
    let units = work.units();
    for unit in &units[..units.len() - 1] {
        let run = run_unit(unit);
        assert!(run.status.success(), "{}", run.stderr);
    }
}

/// Nothing was known about the directory above then, and units made the destination below a mount point.
fn a_destination_that_is_named_from_where_it_is_to_be_made() {
    for is_there in [false, true] {
        let work = Work::new();
        work.write("f", "bytes");
        let root = work.scratch.join("mounted");
        fs::create_dir(&root).unwrap();
        let shared = Mount::tmpfs(16);
        let mounted = Mount::bind_file(shared.path(), &root);
        let machines = Machines::new();
        let here = || uncopy().env("UNCOPY_RSH", machines.shell()).current_dir(&root);
        let destination = match is_there {
            true => format!("far:{}", root.join("new").display()),
            false => "new".to_owned(),
        };
        let plan = here().env("UNCOPY_REMOTE_PROGRAM", env!("CARGO_BIN_EXE_uncopy"));
        let plan = plan.args(["unit", "plan", "-a", "--out"]).arg(work.directory());
        let plan = plan.arg(work.source()).arg(destination).run();
        assert!(plan.status.success(), "{}", plan.stderr);
        let run = || {
            let run = here().env("UNCOPY_REMOTE_PROGRAM", env!("CARGO_BIN_EXE_uncopy"));
            run.args(["unit", "run"]).arg(&work.units()[0]).run()
        };
        drop(mounted);
        let refused = run();
        assert_eq!(refused.status.code(), Some(1), "{is_there}: {}", refused.stdout);
        let said = refused.stderr;
        assert!(said.contains("is not the directory that the plan saw"), "{is_there}: {said}");
        assert!(fs::read_dir(&root).unwrap().next().is_none(), "{is_there}");
        let mounted = Mount::bind_file(shared.path(), &root);
        let done = run();
        assert!(done.status.success(), "{is_there}: {}", done.stderr);
        assert_eq!(fs::read(root.join("new/f")).unwrap(), b"bytes");
        drop((mounted, shared));
    }
}

/// The parts before and behind the copying were each recorded, no part saw all the others, and the file never got its name.
fn a_destination_that_was_copied_between_two_parts() {
    for is_whole in [true, false] {
        let work = Work::new();
        work.write("large", testbed::seeded(7, 0, 4 << 20));
        work.plan(&[]);
        let units = work.units();
        assert_eq!(units.len(), 5);
        for unit in &units[..2] {
            assert!(run_unit(unit).status.success());
        }
        let copy = |from: &Path, to: &Path| {
            testbed::run_tool("cp", ["-a".as_ref(), from.as_os_str(), to.as_os_str()]);
        };
        let aside = work.scratch.join("aside");
        match is_whole {
            true => {
                copy(&work.destination(), &aside);
                fs::rename(work.destination(), work.scratch.join("old")).unwrap();
                fs::rename(&aside, work.destination()).unwrap();
            }
            false => {
                let is_staging = |path: &PathBuf| path.extension() == Some("part".as_ref());
                let mut entries =
                    fs::read_dir(work.destination()).unwrap().map(|entry| entry.unwrap().path());
                let staging = entries.find(is_staging).unwrap();
                copy(&staging, &aside);
                fs::rename(&aside, &staging).unwrap();
            }
        }
        for _ in 0..2 {
            for unit in &units {
                let run = run_unit(unit);
                assert!(matches!(run.status.code(), Some(0 | 10)), "{}", run.stderr);
            }
        }
        work.assert_done();
    }
}
