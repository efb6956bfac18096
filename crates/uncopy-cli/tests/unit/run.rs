//! Single units: what they make, what they leave alone, and how the program ends.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};

use testbed::{
    CallPattern, Case, Compared, Filesystem, Intercepted, Mount, Need, Place, SystemCall,
    assert_same_tree, run_tool, seeded,
};

use super::notes::NOBODY;
use super::work::{Work, kinds, of_unit, printed, put, run_unit, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] units_make_the_tree,
        [] modes_are_those_of_a_plain_copy,
        [Need::At(Place::Ext4)] files_are_flushed_before_their_names_and_directories_before_the_record,
        [Need::At(Place::Xfs)] units_make_the_tree_on_xfs,
        [Need::At(Place::Btrfs)] units_make_the_tree_on_btrfs,
        [Need::At(Place::Tmpfs)] units_make_the_tree_on_tmpfs,
        [] a_changed_source_is_exit_code_4,
        [] a_changed_destination_is_a_conflict,
        [Need::Root] copies_of_others_get_owner_and_mode,
        [Need::Root] a_file_of_a_stranger_is_not_given_away,
        [Need::Root] a_new_directory_of_a_user_is_a_conflict,
        [] directories_get_their_metadata_although_other_units_fail_for_good,
        [Need::Root] a_full_disk_is_one_failure_of_one_entry,
        [Need::Root, Need::Tool("chattr")] a_destination_that_cannot_be_made_says_why,
        [] deletions_are_the_last,
        [] unchanged_entries_are_those_of_a_plain_copy,
        [] clocks_decide_nothing,
        [] digests_are_in_the_records,
        [] a_failed_verification_is_exit_code_3,
        [] copies_and_mirrors_leave_the_ledger,
        [Need::At(Place::Ext4)] a_full_destination_goes_on_when_it_has_room,
    ]
}

fn files_are_flushed_before_their_names_and_directories_before_the_record() {
    // Where there is a journal.
    let work = Work::at(Place::Ext4);
    fs::create_dir(work.source().join("d")).unwrap();
    for number in 0..20 {
        fs::write(work.source().join(format!("d/{number}")), "contents").unwrap();
    }
    work.plan(&["--jobs=1"]);
    let intercept = Intercepted::new(&of_unit(&work.unit_of("d/0"))).record();
    assert!(intercept.run.status.success(), "{}", intercept.run.stderr);
    let directory = work.destination().join("d");
    let ledger = work.destination().join(".uncopy-ledger");
    let (mut flushed, mut named, mut directories, mut recorded) = (0, 0, 0, false);
    for call in &intercept.log {
        match call.call {
            SystemCall::FSYNC if call.paths().contains(&directory) => {
                assert_eq!(named, 20, "a directory is flushed after all its names");
                directories += 1;
            }
            SystemCall::FSYNC if call.touches(&directory) => flushed += 1,
            SystemCall::LINKAT | SystemCall::RENAMEAT2 if call.touches(&directory) => {
                named += 1;
                assert!(named <= flushed, "a name before its file was flushed");
            }
            SystemCall::RENAMEAT2 if call.touches(&ledger) => recorded = directories > 0,
            _ => {}
        }
    }
    assert_eq!((flushed, named, directories, recorded), (20, 20, 1, true));
}

fn units_make_the_tree() {
    make_tree(Place::Disk);
}

fn units_make_the_tree_on_xfs() {
    make_tree(Place::Xfs);
}

fn units_make_the_tree_on_btrfs() {
    make_tree(Place::Btrfs);
}

fn units_make_the_tree_on_tmpfs() {
    make_tree(Place::Tmpfs);
}

fn make_tree(place: Place) {
    let work = Work::at(place);
    work.fill(100);
    let holes = File::create(work.source().join("holes")).unwrap();
    holes.set_len(5 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holes, b"data", 3 << 20).unwrap();
    work.plan(&["--files=20"]);
    assert!(!work.destination().exists());
    let last = work.units().pop().unwrap();
    let early = run_unit(&last);
    assert_eq!(early.status.code(), Some(10), "{}", early.stderr);
    assert_eq!(printed(&early)["missing"], work.units().len() - 1);
    work.run_all();
    for unit in work.units() {
        let again = run_unit(&unit);
        assert!(again.status.success());
        assert_eq!(printed(&again)["state"], "done_before");
    }
    work.assert_done();
}

/// Without flags, and with changes of modes: of directories that a job made, and of those that the last unit did.
fn modes_are_those_of_a_plain_copy() {
    for flags in [&[][..], &["--chmod=go=,D+x"], &["--preserve=timestamps"]] {
        for umask in ["0022", "0077", "0002"] {
            let work = Work::new();
            work.write("filled/closed/file", "text");
            work.write("large/part", seeded(1, 0, 3 << 20));
            fs::create_dir_all(work.source().join("empty/deep")).unwrap();
            for (name, mode) in [("filled", 0o775), ("filled/closed", 0o555), ("empty", 0o1777)] {
                let mode = Permissions::from_mode(mode);
                fs::set_permissions(work.source().join(name), mode).unwrap();
            }
            let plan = uncopy().args(["unit", "plan", "--bytes=1Mi", "--out"]);
            let plan = plan.arg(work.directory()).args(flags);
            let run = plan.arg(work.source()).arg(work.destination()).run();
            assert!(run.status.success(), "{}", run.stderr);
            for unit in work.units() {
                let run = of_unit(&unit).with_umask(umask).run();
                assert!(run.status.success(), "{}", run.stderr);
            }
            let plain = work.scratch.join("plain");
            let copy = uncopy().args(["cp", "-rT"]).args(flags).with_umask(umask);
            assert!(copy.arg(work.source()).arg(&plain).run().status.success());
            fs::remove_dir_all(work.destination().join(".uncopy-ledger")).unwrap();
            let compared = Compared { modes: true, ..Compared::default() };
            assert_same_tree(&plain, &work.destination(), compared);
        }
    }
}

fn a_changed_source_is_exit_code_4() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("size", |path| fs::write(path, "more bytes than before").unwrap()),
        ("mtime", |path| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }),
        ("ctime", |path| {
            let mode = fs::metadata(path).unwrap().permissions();
            fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
            fs::set_permissions(path, mode).unwrap();
        }),
        ("gone", |path| fs::remove_file(path).unwrap()),
    ];
    for (what, change) in changes {
        let work = Work::new();
        work.write("changes", "bytes");
        work.write("stays", "bytes");
        work.plan(&[]);
        change(&work.source().join("changes"));
        let run = run_unit(&work.unit_of("changes"));
        assert_eq!(run.status.code(), Some(4), "{what}: {}{}", run.stdout, run.stderr);
        assert_eq!(kinds(&run), ["source_changed"], "{what}");
        assert!(!work.destination().join("changes").exists());
        assert!(work.destination().join("stays").exists());
        let status = uncopy().args(["unit", "status"]).arg(work.directory()).run();
        assert_eq!(status.status.code(), Some(1), "{}", status.stdout);
        // Another plan takes it up.
        fs::remove_dir_all(work.directory()).unwrap();
        work.plan(&[]);
        work.run_all();
        work.assert_done();
    }
}

fn a_changed_destination_is_a_conflict() {
    let work = Work::new();
    for name in ["absent", "replaced", "written", "gone", "directory", "fine"] {
        work.write(name, "of the source");
    }
    for name in ["replaced", "written", "gone", "directory", "fine"] {
        put(&work.destination().join(name), "before");
    }
    work.plan(&[]);
    let at = |name: &str| work.destination().join(name);
    fs::write(at("absent"), "user's").unwrap();
    fs::write(work.scratch.join("new"), "user's").unwrap();
    fs::rename(work.scratch.join("new"), at("replaced")).unwrap();
    fs::write(at("written"), "user's").unwrap();
    fs::remove_file(at("gone")).unwrap();
    fs::remove_file(at("directory")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let run = run_unit(&work.unit_of("absent"));
    assert_eq!(run.status.code(), Some(1), "{}{}", run.stdout, run.stderr);
    assert_eq!(kinds(&run), ["conflict"; 5]);
    for name in ["absent", "replaced", "written"] {
        assert_eq!(fs::read(at(name)).unwrap(), b"user's", "{name}");
    }
    assert!(!at("gone").exists() && at("directory").is_dir());
    assert_eq!(fs::read(at("fine")).unwrap(), b"of the source");
}

/// A file that appears at a free name with the bytes and the time of its source counts as the copy of an earlier attempt: the
/// record must be true of it, and the attempt must be able to end.
fn copies_of_others_get_owner_and_mode() {
    for user in [0, NOBODY] {
        let work = Work::new();
        work.write("d/f", "text");
        work.write("set", "text");
        std::os::unix::fs::symlink("nowhere", work.source().join("link")).unwrap();
        let source = |name: &str| work.source().join(name);
        for (name, mode) in [("d/f", 0o640), ("set", 0o4755)] {
            chown(source(name), Some(7), Some(8)).unwrap();
            fs::set_permissions(source(name), Permissions::from_mode(mode)).unwrap();
        }
        lchown(source("link"), Some(7), Some(8)).unwrap();
        // An ordinary user reads it, and owns the destination.
        fs::set_permissions(source("d/f"), Permissions::from_mode(0o644)).unwrap();
        fs::create_dir(work.destination()).unwrap();
        chown(work.destination(), Some(user), Some(user)).unwrap();
        work.plan(&[]);
        let copy = uncopy().args(["cp", "-r", "--preserve=timestamps"]).with_umask("0077");
        let names = ["d", "set", "link"].map(source);
        let run = copy.args(names).arg(work.destination()).as_user(user).run();
        assert!(run.status.success(), "{}", run.stderr);
        let at = |name: &str| fs::symlink_metadata(work.destination().join(name)).unwrap();
        fs::set_permissions(work.destination().join("d/f"), Permissions::from_mode(0o600)).unwrap();
        let before = at("d/f").ino();
        for unit in work.units() {
            let run = of_unit(&unit).as_user(user).run();
            assert!(run.status.success(), "{}{}", run.stderr, run.stdout);
        }
        let mode = |name: &str| at(name).mode() & 0o7777;
        assert_eq!((at("d/f").ino(), mode("d/f")), (before, 0o644), "{user}");
        // Set-user-ID goes to no other owner.
        let expected = if user == 0 { (0o4755, 7, 8) } else { (0o755, user, user) };
        assert_eq!((mode("set"), at("set").uid(), at("set").gid()), expected);
        assert_eq!((at("link").uid(), at("link").gid()), (expected.1, expected.2));
    }
}

fn deletions_are_the_last() {
    let work = Work::new();
    work.write("kept", "kept");
    for name in ["kept", "old/a", "old/b/c", "changed"] {
        put(&work.destination().join(name), "before");
    }
    work.plan(&["--delete", "--max-delete=5"]);
    fs::write(work.destination().join("changed"), "user's").unwrap();
    let units = work.units();
    assert!(run_unit(&units[0]).status.success());
    let run = run_unit(&units[1]);
    assert_eq!(kinds(&run), ["conflict"]);
    assert!(!work.destination().join("old").exists());
    assert_eq!(fs::read(work.destination().join("changed")).unwrap(), b"user's");
}

/// Units leave alone what a copy of the tree leaves alone, and nothing else.
fn unchanged_entries_are_those_of_a_plain_copy() {
    let at = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let date = |path: &Path, seconds| {
        File::options().write(true).open(path).unwrap().set_modified(at(seconds)).unwrap();
    };
    for flags in [&["-u"][..], &["--checksum"], &["--size-only"], &["-u", "--checksum"]] {
        let work = Work::new();
        let plain = work.scratch.join("plain");
        let large = seeded(5, 0, (2 << 20) + 5);
        for (time, of_copy) in [("older", 5), ("as old", 7), ("newer", 9)] {
            for (bytes, other) in [("same", "text"), ("other", "TEXT"), ("longer", "longer text")] {
                let name = format!("{time}/{bytes}");
                work.write(&name, "text");
                date(&work.source().join(&name), 7);
                for root in [&work.destination(), &plain] {
                    put(&root.join(&name), other);
                    date(&root.join(&name), of_copy);
                }
            }
            let name = format!("{time}/large");
            work.write(&name, &large);
            date(&work.source().join(&name), 7);
            for root in [&work.destination(), &plain] {
                put(&root.join(&name), large.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>());
                date(&root.join(&name), of_copy);
            }
        }
        work.write("twin", "several names");
        fs::hard_link(work.source().join("twin"), work.source().join("older/twin")).unwrap();
        for root in [&work.destination(), &plain] {
            put(&root.join("twin"), "several names");
            date(&root.join("twin"), 99);
        }
        date(&work.source().join("twin"), 7);
        work.plan(flags);
        let copy = uncopy().args(["cp", "-aT"]).args(flags);
        assert!(copy.arg(work.source()).arg(&plain).run().status.success());
        work.run_all();
        fs::remove_dir_all(work.destination().join(".uncopy-ledger")).unwrap();
        let compared = Compared { modes: true, ..Compared::default() };
        assert_same_tree(&plain, &work.destination(), compared);
        if flags != ["-u"] {
            continue;
        }
        // Nothing is left to do, also for a mirror.
        fs::remove_dir_all(work.directory()).unwrap();
        work.plan(&["-u", "--delete"]);
        let status = uncopy().args(["unit", "status", "--json"]).arg(work.directory()).run();
        let planned = printed(&status)["planned"].clone();
        assert_eq!((&planned["bytes"], &planned["deletions"]), (&13.into(), &0.into()));
    }
}

/// Attempts and failures of machines whose clocks are years apart.
fn clocks_decide_nothing() {
    let work = Work::new();
    work.fill(10);
    work.plan(&[]);
    let units = work.units();
    assert!(run_unit(&units[0]).status.success());
    for (number, seconds) in [(0, i64::MAX / 2), (1, 0), (2, 9_999_999_999), (3, -5)] {
        let attempt = format!(
            "{{\"number\":7,\"token\":{number},\"host\":\"elsewhere\",\"pid\":1,\"begun\":[{seconds},0]}}"
        );
        fs::write(work.ledger().join(format!("{number:06}.epoch")), attempt).unwrap();
    }
    assert_eq!(printed(&run_unit(&units[0]))["state"], "done_before");
    for unit in &units[1..] {
        let run = run_unit(unit);
        assert!(run.status.success(), "{}", run.stderr);
    }
    assert_eq!(printed(&run_unit(&units[1]))["record"]["attempt"], 8);
    work.assert_done();
}

fn digests_are_in_the_records() {
    let work = Work::new();
    work.write("a", "text");
    work.write("large", seeded(5, 0, (2 << 20) + 5));
    work.plan(&["--digest=blake3", "--verify"]);
    work.run_all();
    let mut found = Vec::new();
    for unit in work.units() {
        let record = printed(&run_unit(&unit))["record"]["receipt"]["digests"].clone();
        for digest in record.as_array().into_iter().flatten() {
            found.push((digest["path"].clone(), digest["digest"].clone()));
        }
    }
    found.sort_by_key(|(path, _)| path.to_string());
    let digest = |name: &str| {
        let bytes = fs::read(work.source().join(name)).unwrap();
        (name.into(), blake3::hash(&bytes).to_hex().to_string().into())
    };
    assert_eq!(found, [digest("a"), digest("large")]);
    work.assert_done();
}

fn a_failed_verification_is_exit_code_3() {
    let copies_nothing =
        |bytes| CallPattern::of(&[SystemCall::COPY_FILE_RANGE]).nth(1).returns(bytes);
    let work = Work::new();
    work.write("a", vec![7; 100_000]);
    work.write("b", "text");
    work.write("large", seeded(5, 0, (2 << 20) + 99));
    for name in ["a", "large"] {
        File::open(work.source().join(name)).unwrap().sync_all().unwrap();
    }
    work.plan(&["--verify", "--method=copy-file-range", "--jobs=1", "--files=1"]);
    let failed = |unit: &Path, bytes| {
        let run = of_unit(unit).run_with([copies_nothing(bytes)]).run;
        assert_eq!(run.status.code(), Some(3), "{}{}", run.stdout, run.stderr);
        assert_eq!(kinds(&run), ["verification"]);
        let run = uncopy().args(["unit", "status"]).arg(work.directory()).run();
        assert!(run.stdout.contains("verification failed"), "{}", run.stdout);
    };
    let unit = work.unit_of("a");
    failed(&unit, 100_000);
    assert!(!work.destination().join("a").exists());
    assert!(run_unit(&unit).status.success());
    // Damage of any range is found by the last one, and all of them begin anew.
    let is_range = |unit: &PathBuf| fs::read_to_string(unit).unwrap().contains("\"part\":");
    let ranges: Vec<PathBuf> = work.units().into_iter().filter(is_range).collect();
    let run = of_unit(&ranges[0]).run_with([copies_nothing(1 << 20)]).run;
    assert!(run.status.success(), "{}", run.stderr);
    assert!(run_unit(&ranges[1]).status.success());
    let run = run_unit(&ranges[2]);
    assert_eq!((run.status.code(), kinds(&run)), (Some(3), vec!["verification".to_owned()]));
    assert!(!work.destination().join("large").exists());
    let left = uncopy().args(["unit", "retry"]).arg(work.directory()).run().stdout;
    assert!(ranges.iter().all(|unit| left.contains(unit.to_str().unwrap())), "{left}");
    work.run_all();
    work.assert_done();
}

fn copies_and_mirrors_leave_the_ledger() {
    let work = Work::new();
    work.write("a", "text");
    work.plan(&[]);
    work.run_all();
    let further = work.scratch.join("further");
    let run = uncopy().args(["cp", "-aT"]).arg(work.destination()).arg(&further).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(!further.join(".uncopy-ledger").exists() && further.join("a").exists());
    // Nor does a comparison miss one, or find one that it did not expect.
    put(
        &work.source().join(".uncopy-ledger/old/000000.json"),
        "of a source that was a destination",
    );
    let digests = uncopy().args(["cp", "-rT", "--manifest"]).arg(work.scratch.join("sums"));
    let run = digests.arg(work.destination()).arg(work.scratch.join("again")).run();
    assert!(run.status.success(), "{}", run.stderr);
    let of_trees = [work.source(), work.destination()];
    let by_digests = ["--manifest".into(), work.scratch.join("sums"), work.destination()];
    for words in [&of_trees[..], &by_digests] {
        let run = uncopy().args(["verify", "--strict"]).args(words).run();
        assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
    }
    fs::remove_dir_all(work.source().join(".uncopy-ledger")).unwrap();
    put(&work.destination().join("stranger"), "x");
    let mirror = uncopy().args(["cp", "-aT", "--delete"]);
    let run = mirror.arg(work.source()).arg(work.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(work.ledger().exists() && !work.destination().join("stranger").exists());
    work.assert_done();
}

fn a_full_destination_goes_on_when_it_has_room() {
    let mount = Mount::image(Filesystem::Ext4, 48);
    let work = Work::new();
    work.fill(600);
    let destination = mount.path().join("destination");
    fs::create_dir(&destination).unwrap();
    std::os::unix::fs::symlink(&destination, work.destination()).unwrap();
    work.plan(&["--files=300"]);
    let stat = rustix::fs::statvfs(mount.path()).unwrap();
    let filler = mount.path().join("filler");
    let length = stat.f_bavail * stat.f_frsize - (1 << 20);
    run_tool("fallocate", ["-l", &length.to_string(), &filler.to_string_lossy()]);
    let mut codes = Vec::new();
    for unit in work.units() {
        let run = run_unit(&unit);
        codes.push(run.status.code().unwrap());
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(run.status.code() != Some(1) || said.contains("ENOSPC"), "{said}");
    }
    assert!(codes.contains(&1), "{codes:?}");
    // No half file has its final name.
    for number in 0..600 {
        let path = format!("d{}/e{}/f{number}", number % 7, number % 3);
        if let Ok(copy) = fs::metadata(destination.join(&path)) {
            assert_eq!(copy.size(), fs::metadata(work.source().join(path)).unwrap().size());
        }
    }
    assert!(!destination.join("large").exists());
    fs::remove_file(filler).unwrap();
    work.run_all();
    work.assert_same(Compared { holes: false, ..Compared::wholly() });
}

/// A stranger who made a file with the bytes and the time of a source could still write to it when root has given it away.
fn a_file_of_a_stranger_is_not_given_away() {
    for flags in [&[][..], &["--chown=7:8"], &["--no-preserve=ownership"]] {
        let work = Work::new();
        work.write("set", "text");
        fs::set_permissions(work.source().join("set"), Permissions::from_mode(0o4755)).unwrap();
        fs::create_dir(work.destination()).unwrap();
        chown(work.destination(), Some(NOBODY), Some(NOBODY)).unwrap();
        work.plan(flags);
        let copy = uncopy().args(["cp", "--preserve=timestamps"]);
        let copy = copy.arg(work.source().join("set")).arg(work.destination());
        let run = copy.as_user(NOBODY).run();
        assert!(run.status.success(), "{}", run.stderr);
        let run = of_unit(&work.units()[0]).run();
        assert_eq!(run.status.code(), Some(1), "{flags:?}: {}", run.stdout);
        assert_eq!(kinds(&run), ["conflict"], "{flags:?}");
        let found = fs::metadata(work.destination().join("set")).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7000), (NOBODY, 0), "{flags:?}");
    }
}

/// A directory that a user made where the plan saw nothing was given the metadata of the source.
fn a_new_directory_of_a_user_is_a_conflict() {
    let work = Work::new();
    work.write("d/g", "bytes");
    work.plan(&[]);
    let made = work.destination().join("d");
    put(&made.join("private"), "secret");
    fs::set_permissions(&made, Permissions::from_mode(0o700)).unwrap();
    chown(&made, Some(1234), Some(1234)).unwrap();
    fs::set_permissions(work.destination(), Permissions::from_mode(0o700)).unwrap();
    let runs: Vec<testbed::Run> = work.units().iter().map(|unit| run_unit(unit)).collect();
    let last = runs.last().unwrap();
    assert_eq!(last.status.code(), Some(1), "{}", last.stdout);
    assert_eq!(kinds(last), ["conflict"]);
    let found = fs::metadata(&made).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777), (1234, 0o700));
}

/// Directories that units had made stayed as they are while they are filled, and another plan takes them for those of a
/// user.
fn directories_get_their_metadata_although_other_units_fail_for_good() {
    for (change, expected) in [("source", 4), ("destination", 1)] {
        let work = Work::new();
        work.write("f", "one");
        work.write("d/g", "two");
        fs::set_permissions(work.source().join("d"), Permissions::from_mode(0o750)).unwrap();
        if change == "destination" {
            put(&work.destination().join("f"), "old");
        }
        work.plan(&["--files=1"]);
        match change {
            "source" => work.write("f", "changed"),
            _ => put(&work.destination().join("f"), "of a user"),
        }
        let units = work.units();
        let codes = || -> Vec<Option<i32>> {
            units.iter().map(|unit| run_unit(unit).status.code()).collect()
        };
        for _ in 0..2 {
            let mut codes = codes();
            assert_eq!(codes.pop(), Some(Some(10)), "{change}");
            codes.sort();
            assert_eq!(codes, [Some(0), Some(expected)], "{change}");
        }
        let mode = |name: &str| fs::metadata(work.destination().join(name)).unwrap().mode() & 0o777;
        assert_eq!(mode("d"), 0o750, "{change}");
        fs::remove_dir_all(work.directory()).unwrap();
        work.plan(&[]);
        work.run_all();
        assert_eq!(mode("d"), 0o750, "{change}");
    }
}

/// The entry and the end of its job were counted as two.
fn a_full_disk_is_one_failure_of_one_entry() {
    let small = Mount::tmpfs(1);
    let work = Work::new();
    work.write("large", seeded(1, 0, 3 << 20));
    let destination = small.path().join("root");
    let plan = uncopy().args(["unit", "plan", "-a", "--out"]).arg(work.directory());
    let plan = plan.arg(work.source()).arg(&destination).run();
    assert!(plan.status.success(), "{}", plan.stderr);
    let run = run_unit(&work.units()[0]);
    assert_eq!(run.status.code(), Some(1), "{}", run.stdout);
    assert_eq!(printed(&run)["failure"]["failed"], 1, "{}", run.stdout);
    assert_eq!(kinds(&run), ["error"]);
}

/// The error said that it was not there.
fn a_destination_that_cannot_be_made_says_why() {
    let work = Work::new();
    work.write("f", "one");
    let above = work.scratch.join("closed");
    fs::create_dir(&above).unwrap();
    let plan = uncopy().args(["unit", "plan", "-a", "--out"]).arg(work.directory());
    let plan = plan.arg(work.source()).arg(above.join("new")).run();
    assert!(plan.status.success(), "{}", plan.stderr);
    run_tool("chattr", ["+i".as_ref(), above.as_os_str()]);
    let run = run_unit(&work.units()[0]);
    run_tool("chattr", ["-i".as_ref(), above.as_os_str()]);
    assert_eq!(run.status.code(), Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("cannot make") && !run.stderr.contains("ENOENT"), "{}", run.stderr);
}
