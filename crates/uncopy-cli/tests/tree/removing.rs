//! `--remove-source-files`: a file of the source goes when its copy is in place, and never before.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use testbed::{CallPattern, Case, Intercepted, Mount, Need, Place, Program, SystemCall, by_extent};
use uncopy::Errno;

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] what_is_copied_is_removed,
        [Need::Tool("rsync")] rsync_removes_these_files_too,
        [] what_is_not_copied_stays,
        [] what_is_no_longer_what_was_copied_stays,
        [Need::Root, Need::Tool("bindfs")] a_view_of_the_destination_is_not_emptied,
        [] a_file_that_is_its_own_destination_stays,
        [] what_cannot_be_removed_is_an_error,
        [] skipped_names_of_one_file_stay,
        [] names_in_several_sources_stay_names_of_one_file,
        [] a_kill_leaves_a_whole_file_on_one_side,
        [] a_resumed_run_removes_what_the_killed_one_copied,
        [] flags_that_leave_no_copy_are_refused,
    ]
}

const FILES: [&str; 5] = ["a", "below/b", "below/deeper/c", "one name", "below/another name"];

fn contents(name: &str) -> String {
    // The names of one file have its contents.
    name.rsplit(' ').next().unwrap().repeat(900)
}

/// Makes files, two names of one, a link and directories.
fn scene() -> Trees {
    let trees = Trees::new();
    for name in &FILES[..4] {
        trees.file(name, contents(name));
    }
    fs::hard_link(trees.source().join(FILES[3]), trees.source().join(FILES[4])).unwrap();
    symlink("a", trees.source().join("link")).unwrap();
    fs::create_dir(trees.source().join("empty")).unwrap();
    trees
}

fn uncopy() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "--json", "--remove-source-files"])
}

#[track_caller]
fn check_moved(trees: &Trees, how: &str) {
    for name in FILES {
        assert!(!trees.source().join(name).exists(), "{how}: {name}");
        let copy = trees.destination().join(name);
        assert_eq!(fs::read_to_string(copy).unwrap(), contents(name), "{how}: {name}");
    }
    for name in ["link", "empty", "below/deeper"] {
        assert!(trees.source().join(name).symlink_metadata().is_ok(), "{how}: {name}");
    }
}

fn what_is_copied_is_removed() {
    let ways: [&[&str]; 6] = [
        &[],
        &["--durable"],
        &["-j4"],
        &["--resume"],
        &["-a", "--durable", "-j2"],
        &["--checksum"],
    ];
    for flags in ways {
        for is_merged in [false, true] {
            let trees = scene();
            if is_merged {
                fs::create_dir_all(trees.destination().join("below")).unwrap();
                fs::write(trees.destination().join("a"), "old").unwrap();
            }
            let run = trees.copy(uncopy().args(["-r", "-T"]).args(flags));
            assert_eq!(number(&summary(&run), "sources_removed"), 5, "{flags:?} {}", run.stdout);
            check_moved(&trees, &format!("{flags:?} {is_merged}"));
        }
    }
    for flags in [&[][..], &["--durable"], &["-u"], &["--resume"], &["-d"]] {
        let trees = scene();
        fs::create_dir(trees.destination()).unwrap();
        let names = ["a", "one name", "below/another name"];
        let program = uncopy().args(flags).args(names.map(|name| trees.source().join(name)));
        let run = program.arg(trees.destination()).run();
        assert!(run.status.success(), "{flags:?}: {}", run.stderr);
        for name in names {
            assert!(!trees.source().join(name).exists(), "{flags:?}: {name}");
            let copy = trees.destination().join(Path::new(name).file_name().unwrap());
            assert_eq!(fs::read_to_string(copy).unwrap(), contents(name), "{flags:?}: {name}");
        }
        let single = uncopy().args(flags).arg(trees.source().join("below/b"));
        let run = single.arg(trees.to.join("single")).run();
        assert!(run.status.success(), "{flags:?}: {}", run.stderr);
        assert!(!trees.source().join("below/b").exists(), "{flags:?}");
        assert_eq!(fs::read_to_string(trees.to.join("single")).unwrap(), contents("below/b"));
    }
}

/// And symbolic links, which stay here.
fn rsync_removes_these_files_too() {
    let trees = scene();
    let mut source = trees.source().into_os_string();
    source.push("/");
    let program = Program::new("rsync").args(["-aH", "--no-links", "--remove-source-files"]);
    let run = program.arg(source).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    check_moved(&trees, "rsync");
}

fn what_is_not_copied_stays() {
    let rows: [(&[&str], bool); 5] = [
        (&["-n"], false),
        (&["-u"], false),
        (&["--size-only"], false),
        (&["--exclude=a"], false),
        (&["--dry-run"], true),
    ];
    for (flags, all) in rows {
        let trees = scene();
        fs::create_dir(trees.destination()).unwrap();
        // As long, and newer.
        let old = "x".repeat(contents("a").len());
        fs::write(trees.destination().join("a"), &old).unwrap();
        trees.copy(uncopy().args(["-r", "-T"]).args(flags));
        assert_eq!(
            fs::read_to_string(trees.source().join("a")).unwrap(),
            contents("a"),
            "{flags:?}"
        );
        assert_eq!(fs::read_to_string(trees.destination().join("a")).unwrap(), old, "{flags:?}");
        for name in &FILES[1..] {
            assert_eq!(trees.source().join(name).exists(), all, "{flags:?}: {name}");
        }
    }
    // A file that fails stays, and the others go.
    let trees = scene();
    let fault = CallPattern::of(&[SystemCall::PREAD64]).on(trees.source().join("a"));
    let program = uncopy().args(["-r", "-T", "--no-zero-copy"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let run = Intercepted::new(&program).inject(fault.fails(Errno::EACCES)).run().run;
    assert!(!run.status.success() && trees.source().join("a").exists(), "{}", run.stdout);
    assert!(!trees.source().join("below/b").exists(), "{}", run.stdout);
    // An excluded name of a file keeps its data.
    let trees = scene();
    trees.copy(uncopy().args(["-r", "-T", "--exclude=another*"]));
    assert!(!trees.source().join(FILES[3]).exists());
    assert_eq!(fs::read_to_string(trees.source().join(FILES[4])).unwrap(), contents(FILES[4]));
}

/// Another process is at work between the copy and the removal: when the tree gets its name.
fn what_is_no_longer_what_was_copied_stays() {
    for row in ["appended", "replaced", "a link", "a directory", "gone"] {
        let trees = scene();
        let file = trees.source().join("a");
        let program = uncopy().args(["-r", "-T"]).arg(trees.source()).arg(trees.destination());
        let rename = CallPattern::of(&[SystemCall::RENAMEAT2, SystemCall::RENAMEAT]).nth(1);
        let stopped = Intercepted::new(&program).stop_in(rename);
        assert!(file.exists(), "{row}: it went before its copy had its name");
        let other = trees.from.join("other");
        fs::write(&other, "other").unwrap();
        match row {
            "appended" => {
                let mut file = fs::File::options().append(true).open(&file).unwrap();
                file.write_all(b"more").unwrap();
            }
            "replaced" => fs::rename(&other, &file).unwrap(),
            "a link" => {
                fs::remove_file(&file).unwrap();
                symlink(&other, &file).unwrap();
            }
            "a directory" => {
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
            }
            _ => fs::remove_file(&file).unwrap(),
        }
        let run = stopped.resume().run;
        let copy = fs::read_to_string(trees.destination().join("a")).unwrap();
        assert_eq!(copy, contents("a"), "{row}");
        let is_gone = row == "gone";
        assert_eq!(run.status.code(), Some(i32::from(!is_gone)), "{row}: {}", run.stderr);
        assert_eq!(file.symlink_metadata().is_err(), is_gone, "{row}");
        assert_eq!(run.stdout.contains("\"source_not_as_copied\""), !is_gone, "{}", run.stdout);
        assert_eq!(number(&summary(&run), "sources_removed"), 4, "{row}: {}", run.stdout);
        assert_eq!(other.exists(), row != "replaced");
    }
}

/// The kernel gave the state that a name had before the copy, and so the copy was removed.
fn a_view_of_the_destination_is_not_emptied() {
    for flags in [&[][..], &["--durable"], &["--verify"], &["--resume"], &["-j1"]] {
        for single in [false, true] {
            let trees = Trees::new();
            for name in ["1", "2"] {
                trees.file(name, name);
            }
            let (real, view) = (trees.source(), Mount::fuse(&trees.source()));
            let program = uncopy().arg("-a").args(flags);
            let run = match single {
                true => program.arg(view.path().join("1")).arg(real.join("1")).run(),
                false => program.arg("-T").arg(view.path()).arg(&real).run(),
            };
            for name in ["1", "2"] {
                let kept = fs::read_to_string(real.join(name));
                assert!(kept.is_ok_and(|kept| kept == name), "{flags:?} {single} {}", run.stdout);
            }
        }
    }
}

fn a_file_that_is_its_own_destination_stays() {
    for row in ["itself", "hard link", "into its directory", "symbolic link"] {
        for durable in [&[][..], &["--durable"]] {
            let place = Place::Disk.scratch();
            let (a, b) = (place.join("a"), place.join("b"));
            fs::write(&a, "a").unwrap();
            let to = match row {
                "itself" => a.clone(),
                "hard link" => {
                    fs::hard_link(&a, &b).unwrap();
                    b
                }
                "symbolic link" => {
                    symlink(&a, &b).unwrap();
                    b
                }
                _ => place.path().to_owned(),
            };
            let run = uncopy().args(durable).arg(&a).arg(to).run();
            assert!(!run.status.success(), "{row}: {}", run.stdout);
            assert_eq!(fs::read_to_string(&a).unwrap(), "a", "{row}");
        }
    }
    // A name that leads to the file is not the file.
    let place = Place::Disk.scratch();
    fs::write(place.join("a"), "a").unwrap();
    symlink("a", place.join("link")).unwrap();
    let run = uncopy().arg(place.join("link")).arg(place.join("copy")).run();
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert_eq!(fs::read_to_string(place.join("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(place.join("copy")).unwrap(), "a");
}

/// Its second name, which was linked to the copy that was there, had to go and could not: each run failed.
fn skipped_names_of_one_file_stay() {
    for flags in [&["--checksum"][..], &["-u"], &["-n"]] {
        let trees = scene();
        let copied = Program::new("cp").arg("-aT").arg(trees.source()).arg(trees.destination());
        assert!(copied.run().status.success());
        let program = uncopy().args(["-a", "-T"]).args(flags);
        let run = program.arg(trees.source()).arg(trees.destination()).run();
        assert!(run.status.success(), "{flags:?}: {}", run.stderr);
        for name in FILES {
            assert!(is_whole(&trees.source(), name), "{flags:?}: {name}");
        }
    }
}

/// The last name was the only one when its turn came, and became a file of its own.
fn names_in_several_sources_stay_names_of_one_file() {
    const NAMES: [&str; 5] = ["a", "b", "x/c", "y/d", "y/below/e"];
    // Sources, and names of one file in them.
    let rows: [(&[&str], &[&str]); 4] = [
        (&["a", "b"], &NAMES[..2]),
        (&["x", "y"], &["x/c", "y/d"]),
        (&["x", "y"], &NAMES[2..]),
        (&["a", "x", "b", "y"], &NAMES),
    ];
    let ways: [&[&str]; 6] = [&["-r"], &["-a"], &["-a", "--resume"], &["-rj4"], &["-au"], &["-d"]];
    for (flags, (sources, names)) in ways.iter().flat_map(|flags| rows.map(|row| (flags, row))) {
        if flags[0] == "-d" && sources.contains(&"x") {
            continue;
        }
        let trees = Trees::new();
        for directory in ["x", "y/below"] {
            fs::create_dir_all(trees.source().join(directory)).unwrap();
        }
        trees.file(names[0], "one file");
        for name in &names[1..] {
            fs::hard_link(trees.source().join(names[0]), trees.source().join(name)).unwrap();
        }
        fs::create_dir(trees.destination()).unwrap();
        let program = uncopy().args(*flags).args(sources.iter().map(|s| trees.source().join(s)));
        let run = program.arg(trees.destination()).run();
        let what = format!("{flags:?} {names:?}: {}{}", run.stdout, run.stderr);
        assert!(run.status.success(), "{what}");
        assert_eq!(events(&run, "linked").len(), names.len() - 1, "{what}");
        for name in names {
            assert!(!trees.source().join(name).exists(), "{what}");
            let copy = fs::metadata(trees.destination().join(name)).unwrap();
            assert_eq!(copy.nlink(), names.len() as u64, "{what}");
        }
    }
    // One that was written to since is another file.
    let trees = Trees::new();
    let [first, last] = ["a", "b"].map(|name| trees.source().join(name));
    fs::write(&first, "one file").unwrap();
    fs::hard_link(&first, &last).unwrap();
    fs::create_dir(trees.destination()).unwrap();
    let program = uncopy().args([&first, &last, &trees.destination()]);
    let unlink = CallPattern::of(&[SystemCall::UNLINKAT]).on(trees.source()).nth(1);
    let stopped = Intercepted::new(&program).stop_in(unlink);
    fs::write(&last, "another").unwrap();
    let run = stopped.resume().run;
    let copies = ["a", "b"].map(|name| fs::read_to_string(trees.destination().join(name)).unwrap());
    assert_eq!(copies[0], "one file", "{}", run.stdout);
    assert!(copies[1] == "another" || last.exists(), "{}", run.stdout);
}

fn what_cannot_be_removed_is_an_error() {
    for errno in [Errno::EPERM, Errno::EBUSY, Errno::EIO] {
        let trees = scene();
        let unlink = CallPattern::of(&[SystemCall::UNLINKAT]).on(trees.source());
        let program = uncopy().args(["-r", "-T"]).arg(trees.source()).arg(trees.destination());
        let run = Intercepted::new(&program).inject(unlink.fails(errno)).run().run;
        assert_eq!(run.status.code(), Some(1), "{errno}: {}", run.stderr);
        assert_eq!(events(&run, "failed").len(), FILES.len(), "{errno}: {}", run.stdout);
        for root in [trees.source(), trees.destination()] {
            for name in FILES {
                assert_eq!(fs::read_to_string(root.join(name)).unwrap(), contents(name), "{errno}");
            }
        }
    }
}

fn is_whole(root: &Path, name: &str) -> bool {
    fs::read_to_string(root.join(name)).is_ok_and(|found| found == contents(name))
}

const CALLS: [SystemCall; 7] = [
    SystemCall::OPENAT,
    SystemCall::OPENAT2,
    SystemCall::PWRITE64,
    SystemCall::LINKAT,
    SystemCall::RENAMEAT,
    SystemCall::RENAMEAT2,
    SystemCall::UNLINKAT,
];

fn a_kill_leaves_a_whole_file_on_one_side() {
    for (flags, is_merged) in [(&[][..], false), (&[], true), (&["--durable", "-j2"], true)] {
        let (mut nth, mut is_over) = (1, false);
        while !is_over {
            let trees = scene();
            if is_merged {
                fs::create_dir_all(trees.destination().join("below")).unwrap();
                fs::write(trees.destination().join("a"), "old").unwrap();
            }
            let program = || uncopy().args(["-r", "-T"]).args(flags);
            let killed = program().arg(trees.source()).arg(trees.destination());
            let kill = CallPattern::of(&CALLS).nth(nth).kills();
            is_over = Intercepted::new(&killed).inject(kill).run().run.status.success();
            for name in FILES {
                let is_there =
                    is_whole(&trees.source(), name) || is_whole(&trees.destination(), name);
                assert!(is_there, "{flags:?} {is_merged}, call {nth}: {name} is lost");
            }
            let run = trees.run(program());
            assert!(run.status.success(), "call {nth}: {}", run.stderr);
            check_moved(&trees, &format!("{flags:?} {is_merged}, call {nth}"));
            nth += by_extent([7, 1, 1]);
        }
        assert!(nth > 15, "{nth}");
    }
}

/// Killed while it removes the files of a tree that has its name.
fn a_resumed_run_removes_what_the_killed_one_copied() {
    let trees = scene();
    let program = || uncopy().args(["-r", "-T", "--resume"]);
    let killed = program().arg(trees.source()).arg(trees.destination());
    let unlink = CallPattern::of(&[SystemCall::UNLINKAT]).on(trees.source()).nth(2);
    let run = Intercepted::new(&killed).inject(unlink.kills()).run().run;
    assert!(!run.status.success(), "{}", run.stdout);
    let left = FILES.iter().filter(|name| trees.source().join(name).exists()).count();
    assert_eq!(left, 4);
    let run = trees.copy(program());
    assert_eq!(number(&summary(&run), "sources_removed"), 4, "{}", run.stdout);
    check_moved(&trees, "resumed");
}

fn flags_that_leave_no_copy_are_refused() {
    let place = Place::Disk.scratch();
    fs::create_dir(place.join("a")).unwrap();
    fs::write(place.join("a/file"), "a").unwrap();
    for other in ["--delete", "-l", "--link-dest=x", "--attributes-only"] {
        let program = uncopy().args(["-r", other]);
        let run = program.args([place.join("a"), place.join("b")]).run();
        assert_eq!(run.status.code(), Some(2), "{other}: {}", run.stderr);
        assert!(run.stderr.contains("--remove-source-files"), "{other}: {}", run.stderr);
        assert!(place.join("a/file").exists() && !place.join("b").exists());
        if other != "--delete" {
            let single = uncopy().arg(other).args([place.join("a/file"), place.join("b")]).run();
            assert_eq!(single.status.code(), Some(2), "{other}: {}", single.stderr);
        }
    }
    assert!(cp().args(["--remove-source-files", "x"]).run().status.code() == Some(2));
}
