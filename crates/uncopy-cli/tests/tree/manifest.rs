//! `--manifest`: what it lists, in which order, and that the standard tools take it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use testbed::{Case, Content, Need, Place, Program, Scratch, SystemCall, by_extent};

use crate::both::digest::{ALGORITHMS, B3SUM, SHA256SUM, XXHSUM};
use crate::tree::Trees;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Xfs), Need::At(Place::Btrfs), Need::At(Place::Ext4), B3SUM, SHA256SUM, XXHSUM]
            the_standard_tools_accept_it,
        [B3SUM, SHA256SUM, XXHSUM] names_are_written_as_the_tools_do,
        [] the_order_is_that_of_the_names,
        [] entries_that_are_not_copied_again_are_listed,
        [] files_that_are_the_same_are_listed,
        [] an_interrupted_run_writes_none_and_the_next_one_lists_all,
        [] entries_that_failed_are_left_out_and_said,
        [] it_is_replaced_whole_or_not_at_all,
        [] what_it_cannot_be_combined_with,
        [] its_names_are_found_below_the_destination,
        [] copies_outside_of_the_destination_are_refused,
    ]
}

/// `uncopy` with these words.
fn uncopy<I: IntoIterator<Item: AsRef<OsStr>>>(words: I) -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(words)
}

/// Checks a manifest by the tool of its digest and by uncopy, below the directory of its names.
fn assert_checked(algorithm: &str, manifest: &Path, directory: &Path, files: usize) {
    let (_, tool) = ALGORITHMS.into_iter().find(|(name, _)| *name == algorithm).unwrap();
    let run = Program::new(tool[0]).arg("-c").arg(manifest).current_dir(directory).run();
    assert!(run.status.success(), "{algorithm}: {}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout.matches(": OK").count(), files, "{}", run.stdout);
    assert_verified(manifest, directory, files);
}

fn assert_verified(manifest: &Path, directory: &Path, files: usize) {
    let run = uncopy(["verify", "--strict", "--json", "--manifest"]);
    let run = run.arg(manifest).arg(directory).run();
    assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
    assert_eq!(run.receipt().value()["entries"], files, "{}", run.stdout);
}

fn the_standard_tools_accept_it() {
    let places = [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs];
    let ways: [&[&str]; 3] = [&[], &["--prefer=cpu"], &["--no-zero-copy"]];
    let sizes = [0, 1, 5000, 70_000, 1 << 20];
    let mut number = 0;
    for place in places {
        for way in ways {
            for (algorithm, _) in ALGORITHMS {
                number += 1;
                if number % by_extent([5, 1, 1]) != 0 {
                    continue;
                }
                let flags: Vec<String> = way
                    .iter()
                    .map(ToString::to_string)
                    .chain([format!("--digest={algorithm}"), String::from("--direct-cpu-min=64Ki")])
                    .collect();
                let (from, to) = (place.scratch(), place.scratch());
                for size in sizes {
                    Content::dense(size).write(&from.join(format!("{size}")));
                    fs::create_dir_all(from.join("tree/below")).unwrap();
                    Content::dense(size).write(&from.join(format!("tree/below/{size}")));
                }
                fs::hard_link(from.join("tree/below/5000"), from.join("tree/linked")).unwrap();
                std::os::unix::fs::symlink("linked", from.join("tree/link")).unwrap();
                let sums = from.join("sums");
                let cp = || uncopy(["cp", "--manifest"]).arg(&sums).args(&flags);
                // One file.
                let run = cp().arg(from.join("70000")).arg(to.join("one")).run();
                assert!(run.status.success(), "{}", run.stderr);
                assert_checked(algorithm, &sums, to.path(), 1);
                // Several.
                fs::create_dir(to.join("several")).unwrap();
                let sources = sizes.map(|size| from.join(size.to_string()));
                let run = cp().args(&sources).arg(to.join("several")).run();
                assert!(run.status.success(), "{}", run.stderr);
                assert_checked(algorithm, &sums, &to.join("several"), sizes.len());
                // A tree: new, and into a directory that is there.
                let run = cp().arg("-r").arg(from.join("tree")).arg(to.join("new")).run();
                assert!(run.status.success(), "{}", run.stderr);
                assert_checked(algorithm, &sums, &to.join("new"), sizes.len() + 1);
                fs::create_dir(to.join("old")).unwrap();
                let run = cp().arg("-r").arg(from.join("tree")).arg(to.join("old")).run();
                assert!(run.status.success(), "{}", run.stderr);
                assert_checked(algorithm, &sums, &to.join("old"), sizes.len() + 1);
                let lines = fs::read_to_string(&sums).unwrap();
                assert!(lines.lines().all(|line| line.contains("  tree/")), "{lines}");
            }
        }
    }
}

fn names_are_written_as_the_tools_do() {
    let usual: [&[u8]; 9] = [
        b"a b",
        b" lead",
        b"*star",
        b"-dash",
        b"back\\slash",
        b"\\n",
        b"tab\t",
        b"r\xc3\xa4t",
        b"#x",
    ];
    // Names with a line break need xxhsum 0.8.2, and b3sum takes UTF-8 alone.
    let (breaks, bytes): ([&[u8]; 2], [&[u8]; 2]) =
        ([b"line\nbreak", b"\\\n"], [b"\xff", b"a\xc3"]);
    for (algorithm, _) in ALGORITHMS {
        let mut names = usual.to_vec();
        names.extend(breaks.iter().filter(|_| algorithm != "xxh3"));
        names.extend(bytes.iter().filter(|_| algorithm != "blake3"));
        if algorithm == "sha256" {
            names.push(b"cr\r");
        }
        let trees = Trees::new();
        for name in &names {
            fs::write(trees.source().join(OsStr::from_bytes(name)), name).unwrap();
        }
        let sums = trees.to.join("sums");
        let cp = |to: &Path| {
            let program = uncopy(["cp", "-rT", "--manifest"]).arg(&sums);
            program.arg(format!("--digest={algorithm}")).arg(trees.source()).arg(to).run()
        };
        assert!(cp(&trees.destination()).status.success());
        assert_checked(algorithm, &sums, &trees.destination(), names.len());
        // Those that the tool cannot take: uncopy itself can.
        for name in breaks.iter().chain(&bytes).chain([&&b"cr\r"[..]]) {
            fs::write(trees.source().join(OsStr::from_bytes(name)), name).unwrap();
        }
        let all = usual.len() + 5;
        let run = cp(&trees.to.join("all"));
        assert!(run.status.success());
        assert_eq!(run.stderr.contains("not UTF-8"), algorithm == "blake3", "{}", run.stderr);
        assert_verified(&sums, &trees.to.join("all"), all);
    }
}

/// Ten directories of files.
fn some() -> Trees {
    let trees = Trees::apart();
    for number in 0..60 {
        trees.file(&format!("{}/{number}", number % 10), format!("file {number}"));
    }
    trees
}

fn sums_of(trees: &Trees) -> PathBuf {
    trees.to.join("sums")
}

fn names(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).unwrap();
    text.lines().map(|line| line.split_once("  ").unwrap().1.to_owned()).collect()
}

fn the_order_is_that_of_the_names() {
    let trees = some();
    let sums = sums_of(&trees);
    let mut all = Vec::new();
    for jobs in ["1", "2", "8"] {
        let to = trees.to.join(format!("by {jobs}"));
        let run = uncopy(["cp", "-rT", "--jobs", jobs, "--manifest"]).arg(&sums);
        assert!(run.arg(trees.source()).arg(to).run().status.success());
        all.push(fs::read(&sums).unwrap());
    }
    assert!(all[0] == all[1] && all[1] == all[2]);
    let found = names(&sums);
    assert_eq!(found.len(), 60);
    assert!(found.iter().map(PathBuf::from).is_sorted(), "{found:?}");
}

fn entries_that_are_not_copied_again_are_listed() {
    let trees = some();
    fs::hard_link(trees.source().join("0/0"), trees.source().join("1/linked")).unwrap();
    let sums = sums_of(&trees);
    let run = |flags: &[&str]| {
        let program = uncopy(["cp", "-rT", "--manifest"]).arg(&sums).args(flags);
        program.arg(trees.source()).arg(trees.destination()).run()
    };
    assert!(run(&["-p"]).status.success());
    let first = fs::read(&sums).unwrap();
    assert_verified(&sums, &trees.destination(), 61);
    // Nothing is copied, and everything is listed.
    let again = run(&["-p", "--update"]);
    assert!(again.status.success(), "{}", again.stderr);
    assert!(fs::read(&sums).unwrap() == first);
    // A file that is kept may be anything.
    let kept = run(&["-n"]);
    assert!(kept.stderr.contains("no file was copied"), "{}", kept.stderr);
    assert!(fs::read(&sums).unwrap() == first);
    trees.file("0/new", "new");
    let kept = run(&["-n"]);
    assert!(kept.stderr.contains("lacks 61 files"), "{}", kept.stderr);
    assert_eq!(names(&sums), ["0/new"]);
}

fn an_interrupted_run_writes_none_and_the_next_one_lists_all() {
    let trees = some();
    let sums = sums_of(&trees);
    let program = uncopy(["cp", "-rT", "--resume", "-p", "--jobs=1", "--manifest"]).arg(&sums);
    let program = program.arg(trees.source()).arg(trees.destination());
    let stopped = program.stop_after(SystemCall::WRITE, 60);
    stopped.resume_with(Signal::INT).run.died_of(2);
    assert!(!sums.exists());
    let again =
        uncopy(["cp", "-rT", "--resume", "-p", "--jobs=1", "--json", "--manifest"]).arg(&sums);
    let run = again.arg(trees.source()).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(run.stdout.contains("\"event\":\"resumed\""), "nothing was copied before");
    assert_verified(&sums, &trees.destination(), 60);
}

fn entries_that_failed_are_left_out_and_said() {
    let scratch: Scratch = Place::Disk.scratch();
    let (sums, to) = (scratch.join("sums"), scratch.join("to"));
    fs::write(scratch.join("a"), "a").unwrap();
    fs::create_dir(&to).unwrap();
    let cp = |flag: &str| {
        let program = uncopy(["cp", flag, "--manifest"]).arg(&sums);
        program.arg(scratch.join("missing")).arg(scratch.join("a")).arg(&to).run()
    };
    let run = cp("--on-error=skip");
    assert!(run.failed(1).contains("lacks 1 file"), "{}", run.stderr);
    assert_verified(&sums, &to, 1);
    fs::remove_file(&sums).unwrap();
    let run = cp("--on-error=abort");
    assert!(run.failed(1).contains("was not written"), "{}", run.stderr);
    assert!(!sums.exists());
    let run = uncopy(["cp", "--manifest"]).arg(&sums).arg(scratch.join("missing")).arg(&to).run();
    run.failed(1);
    assert!(!sums.exists());
}

fn files_that_are_the_same_are_listed() {
    for flag in ["--checksum", "--size-only", "--update"] {
        let scratch = Place::Disk.scratch();
        let (from, to, sums) = (scratch.join("s"), scratch.join("d"), scratch.join("sums"));
        fs::create_dir(&from).unwrap();
        for name in ["a", "b"] {
            fs::write(from.join(name), name).unwrap();
        }
        let cp = |flags: &[&str]| {
            let run = uncopy(["cp", "-aT"]).args(flags).arg(&from).arg(&to).run();
            assert!(run.status.success(), "{flag}: {}", run.stderr);
        };
        cp(&[]);
        let all = ["--manifest", sums.to_str().unwrap(), flag];
        cp(&all);
        assert_verified(&sums, &to, 2);
        fs::write(from.join("new"), "new").unwrap();
        cp(&all);
        assert_verified(&sums, &to, 3);
    }
}

fn it_is_replaced_whole_or_not_at_all() {
    let scratch = Place::Disk.scratch();
    let (sums, a) = (scratch.join("sums"), scratch.join("a"));
    fs::write(&a, "a").unwrap();
    let cp = |manifest: &Path| {
        uncopy(["cp", "--manifest"]).arg(manifest).arg(&a).arg(scratch.join("b")).run()
    };
    fs::write(&sums, "old").unwrap();
    assert!(cp(&sums).status.success());
    assert_eq!(names(&sums), ["b"]);
    std::os::unix::fs::symlink(&sums, scratch.join("link")).unwrap();
    for wrong in [scratch.path().to_owned(), scratch.join("link"), scratch.join("none/sums")] {
        let run = cp(&wrong);
        assert!(run.failed(1).contains("write the manifest"), "{}", run.stderr);
        assert_eq!(fs::read(scratch.join("b")).unwrap(), b"a");
    }
    assert_eq!(scratch.strangers(&["a", "b", "sums", "link"]), [""; 0]);
}

fn what_it_cannot_be_combined_with() {
    let scratch = Place::Disk.scratch();
    fs::write(scratch.join("a"), "a").unwrap();
    for flags in [
        &["--no-digest"][..],
        &["--copy-contents"],
        &["-r", "--dry-run"],
        &["--compress=zstd"],
        &["--decompress"],
    ] {
        let program = uncopy(["cp", "--manifest"]).arg(scratch.join("sums")).args(flags);
        program.arg(scratch.join("a")).arg(scratch.join("b")).run().failed(2);
        assert_eq!(scratch.strangers(&["a"]), [""; 0]);
    }
}

/// The tree `s`, the directory `d`, the link `ld` to it, and `out` beside them.
fn laid_out(prepared: &str) -> Scratch {
    const GIVEN: &str = "mkdir -p s/a/b s/c d/sub out; echo f > s/f; echo g > s/a/b/g; ln -s d ld; \
                         echo c > c; echo t > out/t; echo t > d/sub/t; ln s/f s/a/h;";
    let scratch = Place::Disk.scratch();
    let run = sh(&format!("set -e; {GIVEN} {prepared}"), &scratch);
    assert!(run.status.success(), "{prepared}: {}", run.stderr);
    scratch
}

fn sh(script: &str, scratch: &Scratch) -> testbed::Run {
    Program::new("sh").args(["-c", script]).current_dir(scratch.path()).run()
}

/// Copies with a manifest, from the directory `from`.
fn copy_from(from: &str, words: &str, scratch: &Scratch) -> testbed::Run {
    let program = env!("CARGO_BIN_EXE_uncopy");
    let sums = scratch.join("sums");
    sh(&format!("cd {from}; exec {program} cp --manifest {} {words}", sums.display()), scratch)
}

fn its_names_are_found_below_the_destination() {
    // Preparations, the directory in which the command runs, its words, the directory of the names, and the names.
    for (prepared, from, words, directory, expected) in [
        ("", ".", "s/f d", "d", &["f"][..]),
        ("", ".", "s/f ld", "ld", &["f"]),
        ("", ".", "s/f s/a/b/g ld", "d", &["f", "g"]),
        ("", ".", "s/f -T d/x", "d", &["x"]),
        ("", ".", "s/f new", ".", &["new"]),
        ("", ".", "-t ld s/f s/a/b/g", "ld", &["f", "g"]),
        ("", ".", "-r s ld", "ld", &["s/a/b/g", "s/a/h", "s/f"]),
        ("", ".", "-rT s ld/", "d", &["a/b/g", "a/h", "f"]),
        ("", ".", "-r s/a/. s/c/. ld", "ld", &["b/g", "h"]),
        ("", ".", "-r s new/", "new", &["a/b/g", "a/h", "f"]),
        ("", ".", "-r s/a d/../ld/", "d", &["a/b/g", "a/h"]),
        ("", ".", "-r --parents s/a/b/g ld", "ld", &["s/a/b/g"]),
        ("", ".", "--parents s/a/../f ./s/a/b/g d", "d", &["s/a/b/g", "s/f"]),
        ("", ".", "--parents s/../s/f ld", "ld", &["s/f"]),
        ("ln -s sub/t d/f", ".", "s/f d", "d", &["sub/t"]),
        ("ln -s sub/t d/f", ".", "-r s/f s/a/b/g d", "d", &["g", "sub/t"]),
        ("ln -s ../out/t d/f", ".", "-b s/f d", "d", &["f"]),
        ("ln -s ../out/t d/f", ".", "--remove-destination s/f s/a/b/g d", "d", &["f", "g"]),
        ("ln -s ../out/t d/f", ".", "-r s/. d", "d", &["a/b/g", "a/h", "f"]),
        ("ln -s out/t lf", ".", "s/f lf", ".", &["out/t"]),
        ("ln -s out/t lf", ".", "-T s/f lf", ".", &["out/t"]),
        ("printf 'a/b/g\\nf\\n' > list", ".", "--files-from list s ld", "ld", &["a/b/g", "f"]),
        ("printf 'a\\n' > list", ".", "-r --files-from list s d/../ld", "d", &["a/b/g", "a/h"]),
    ] {
        let scratch = laid_out(prepared);
        let at = format!("{prepared}: {words}");
        let run = copy_from(from, words, &scratch);
        assert!(run.status.success(), "{at}: {}", run.stderr);
        let (sums, directory) = (scratch.join("sums"), scratch.join(directory));
        assert_eq!(names(&sums), expected, "{at}");
        let verify = || uncopy(["verify", "--manifest"]).arg(&sums).arg(&directory).run();
        let run = verify();
        assert!(run.status.success(), "{at}: {}{}", run.stdout, run.stderr);
        for name in expected {
            let damaged = directory.join(name);
            let before = fs::read(&damaged).unwrap();
            fs::write(&damaged, [&b"x"[..], &before[1..]].concat()).unwrap();
            let run = verify();
            assert_eq!(run.status.code(), Some(3), "{at}: {}", run.stderr);
            assert!(run.stdout.contains(&format!("{name}: the contents differ")), "{}", run.stdout);
            fs::write(&damaged, before).unwrap();
        }
    }
}

fn copies_outside_of_the_destination_are_refused() {
    for (prepared, from, words) in [
        ("", "s", "--parents ../c ../d"),
        ("", "s", "-r --parents ../c a ../ld"),
        ("", "s", "--parents a/b/../../../c ../d"),
        ("ln -s ../out/t d/f", ".", "s/f d"),
        ("ln -s ../out/t d/f", ".", "-r s/a/b/g s/f d"),
        ("ln -s ../s/c/new out/lf; echo n > s/c/new", ".", "s/f out/lf"),
    ] {
        let scratch = laid_out(prepared);
        let listed = || sh("find . | sort; cat out/t c", &scratch).stdout;
        let before = listed();
        let run = copy_from(from, words, &scratch);
        assert_eq!(run.status.code(), Some(2), "{prepared}: {words}: {}", run.stderr);
        assert!(run.stderr.contains("name another destination"), "{}", run.stderr);
        assert_eq!(listed(), before, "{prepared}: {words}");
    }
}
