//! Sources and destinations that lie in each other or are one, and names of roots that lead elsewhere: refused before
//! anything is changed.

use std::path::Path;

use testbed::{Case, Mount, Need, Place, Program, by_extent};

use crate::cp::cp;
use crate::tree::roots::run_with_own_mounts;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_source_in_the_destination_is_refused_where_entries_are_removed,
        [] destinations_that_hold_each_other_are_refused_where_entries_are_removed,
        [] one_destination_of_several_trees_is_refused_where_it_has_a_journal,
        [] sources_in_each_other_are_refused_where_they_are_removed,
        [] roots_apart_are_copied,
        [] a_source_that_an_entry_of_its_own_would_go_over_stays,
        [] two_sources_are_never_one_file,
        [] a_slash_at_the_end_names_no_file,
        [] a_planted_link_at_a_name_that_was_made_is_refused,
        [] a_source_behind_a_link_of_a_whole_directory_is_reported,
        [] names_of_a_list_are_copied_whatever_is_excluded,
        [] a_link_to_nothing_is_a_name_that_is_taken,
        [] special_files_that_links_lead_to,
        [Need::Root] a_directory_that_is_the_source_by_a_mount_is_left_alone,
        [Need::Root] a_source_in_the_destination_is_refused_behind_a_mount,
        [Need::Root, Need::Tool("unshare")] destinations_that_a_mount_shows_twice,
    ]
}

const REMOVING: [&str; 3] = ["--delete", "--remove-source-files", "--delete --dry-run"];

fn sh(script: &str, directory: &Path) -> String {
    let run = Program::new("sh").args(["-euc", script]).current_dir(directory).run();
    assert!(run.status.success(), "{script}: {}", run.stderr);
    run.stdout
}

/// Every name, link and content.
fn state(directory: &Path) -> String {
    sh("find . -printf '%p %y %i %l\\n' | sort; find . -type f -exec cksum {} + | sort", directory)
}

/// Runs `uncopy cp -r` with each of the removing flags in a scene of its own.
fn refuses(given: &str, lines: &[&str], code: &str) {
    // The flags and the workers are decided after the paths.
    refuses_with(by_extent([&REMOVING[..2], &REMOVING, &REMOVING]), given, lines, code);
}

fn refuses_with(flags: &[&str], given: &str, lines: &[&str], code: &str) {
    let workers = by_extent([&["-j1"][..], &["-j1", "-j4"], &["-j1", "-j4"]]);
    for line in lines {
        for flags in flags {
            for workers in workers {
                let place = Place::Disk.scratch();
                sh(given, place.path());
                let before = state(place.path());
                let program = cp().arg("-r").arg(workers).args(flags.split(' '));
                let run = program.args(line.split(' ')).current_dir(place.path()).run();
                let context = format!("{flags} {workers} {line}: {}", run.stdout);
                run.failed(1);
                assert!(run.stdout.contains(&format!("\"{code}\"")), "{context}");
                assert_eq!(state(place.path()), before, "{context}");
            }
        }
    }
}

fn a_source_in_the_destination_is_refused_where_entries_are_removed() {
    let given = "mkdir -p d/src/src d/src/sub x y; for n in 1 2 3; do echo $n > d/src/f$n; done; echo g > d/src/src/g; \
                 echo x > x/x; ln -s d/src l; ln -s d e; ln -s ../d/src/f1 x/l";
    let lines = [
        "-T d/src d",
        "-T d/src/src d",
        "-T d/src/. d/.",
        "-T d/src e",
        "-T l/ d",
        "-TH l d",
        "-TL l d",
        "x/. d/src/. d",
        "-T e/src/sub/.. d",
    ];
    refuses(given, &lines, "source_in_destination");
    // Another source of the same command.
    refuses(
        "mkdir -p x s d/x/y; echo 1 > d/x/y/f; echo 2 > x/g",
        &["x d/x/y d"],
        "source_in_destination",
    );
}

fn destinations_that_hold_each_other_are_refused_where_entries_are_removed() {
    let given = "mkdir -p a b/c s1/x s2/x d; echo 1 > s1/x/f; echo 22 > s2/x/f; echo 3 > b/f; echo 4 > b/c/g; echo a > a/b";
    let lines = ["b s1/. d", "s1/. b d", "s1/. s2/x d", "s2/x s1/. d", "s1/. b/f d", "b/f s1/. d"];
    refuses(given, &lines, "destinations_overlap");
    // By a link, and one that the other makes.
    refuses(
        "mkdir -p a/b s d; echo 1 > a/f; echo 2 > s/g; ln -s . d/a",
        &["s/. a d"],
        "destinations_overlap",
    );
}

/// The journal of the first one was that of another source for the second one, in every run.
fn one_destination_of_several_trees_is_refused_where_it_has_a_journal() {
    let given = "mkdir -p a x/a b d; echo 1 > a/f; echo 2 > x/a/g; echo 3 > b/h; ln -s d l";
    let lines = ["a x/a d", "x/a a l", "a/. b/. d", "a/. x/a/. b/. l"];
    refuses_with(&["--resume"], given, &lines, "destinations_overlap");
    for line in ["a b d", "a b/h d", "-T a d/new"] {
        let place = Place::Disk.scratch();
        sh(given, place.path());
        let program = cp().args(["-r", "--resume"]).args(line.split(' ')).current_dir(place.path());
        assert!(program.run().status.success(), "{line}");
    }
}

/// The copy of the inner one lacked the files that the outer one had removed, with exit code 0.
fn sources_in_each_other_are_refused_where_they_are_removed() {
    let given = "mkdir -p n/i/j d x; echo 1 > n/i/j/f; echo 2 > n/i/g; echo 3 > x/h; ln -s n l";
    let lines = ["n n/i d", "n/i n d", "n l/i d", "n/i/j n/i d", "n n/i/g d", "n/i/. n/i/j d"];
    let flags =
        ["--remove-source-files", "--remove-source-files --dry-run", "--remove-source-files -b"];
    refuses_with(&flags, given, &lines, "sources_overlap");
    let place = Place::Disk.scratch();
    sh(given, place.path());
    let program = cp().args(["-r", "n", "n/i", "d"]).current_dir(place.path());
    assert!(program.run().status.success(), "nothing is removed");
}

/// An entry of the source with the source's own name went over it, and what the others became depended on the workers.
fn a_source_that_an_entry_of_its_own_would_go_over_stays() {
    let file = "mkdir -p p/s; echo s >p/s/s";
    let directory = "mkdir -p p/s/s; echo new >p/s/s/f";
    let twice = "mkdir -p p/s/s/s; echo new >p/s/s/f; echo newer >p/s/s/s/f";
    let below =
        "mkdir -p p/a p/s/a/s p/s/b; mv p/s p/a/s; mkdir p/a/s/a/s/c; echo new >p/a/s/a/s/f";
    for (given, line, code) in [
        (file, "-T p/s p", "is_directory"),
        (directory, "-T p/s p", "holds_source"),
        (directory, "-T p/s/. p/.", "holds_source"),
        (twice, "-T p/s p", "holds_source"),
        (directory, "--files-from l p/s p", "holds_source"),
        (below, "-T p/a/s p", "holds_source"),
    ] {
        for flags in ["-r", "-a", "-rf", "-r --remove-destination", "-ru", "-r --dry-run"] {
            for workers in ["-j1", "-j4"] {
                let place = Place::Disk.scratch();
                let more = "for n in 1 2 3 4 5 6; do echo $n >$d/f$n; done; echo precious >$d/f; printf 's\nf\nf1\n' >l";
                let at = line.split(' ').rev().nth(1).unwrap();
                sh(&format!("{given}; d={at}; {more}"), place.path());
                let source = place.join(at);
                let before = state(&source);
                let program = cp().args(flags.split(' ')).arg(workers).args(line.split(' '));
                let run = program.current_dir(place.path()).run();
                let context = format!("{flags} {workers} {line}: {}", run.stdout);
                run.failed(1);
                assert!(run.stdout.contains(&format!("\"{code}\"")), "{context}");
                assert_eq!(run.stdout.matches("\"event\":\"failed\"").count(), 1, "{context}");
                assert_eq!(state(&source), before, "{context}");
                if !flags.contains("dry") {
                    assert_eq!(
                        std::fs::read(place.join("p/f")).unwrap(),
                        b"precious\n",
                        "{context}"
                    );
                }
            }
        }
    }
}

fn roots_apart_are_copied() {
    let given = "mkdir -p a b d/x o/d; echo 1 > a/f; echo 2 > b/g; echo 3 > x; ln -s ../b/g o/b";
    for line in
        ["a b d", "-T a d", "-T a d/x/new", "a b/g d", "b/g a/f d", "a/. d", "o/b a d", "a b/g d/x"]
    {
        for flags in REMOVING {
            let place = Place::Disk.scratch();
            sh(given, place.path());
            let program = cp().arg("-r").args(flags.split(' ')).args(line.split(' '));
            let run = program.current_dir(place.path()).run();
            assert!(run.status.success(), "{flags} {line}: {}", run.stderr);
        }
    }
}

fn a_source_in_the_destination_is_refused_behind_a_mount() {
    for flags in REMOVING {
        let place = Place::Disk.scratch();
        sh("mkdir -p d/src m; echo f > d/src/f; echo k > d/k", place.path());
        let before = state(&place.join("d"));
        let mount = Mount::bind_file(&place.join("d"), &place.join("m"));
        let program = cp().arg("-rT").args(flags.split(' ')).args(["m/src", "d"]);
        let run = program.current_dir(place.path()).run();
        run.failed(1);
        assert!(run.stdout.contains("source_in_destination"), "{flags}: {}", run.stdout);
        drop(mount);
        assert_eq!(state(&place.join("d")), before, "{flags}");
    }
}

/// Two files went to one name, one of them was removed with its only copy, and the exit code was 0.
fn destinations_that_a_mount_shows_twice() {
    const BELOW: &str = "mkdir -p b/sub d/a d/b/sub; mv y b/sub/x; mv x a/x";
    // Files, mounts, the copy, and whether it is refused.
    const ROWS: &[(&str, &str, &str, bool)] = &[
        (BELOW, "mount --bind d/a d/b/sub", "-r a b d", true),
        (BELOW, "mount --bind d/a d/b/sub", "-r b a d", true),
        (BELOW, "mount --bind d/a d/b/sub", "-r a b d --dry-run", true),
        (BELOW, "mount --bind d/a d/b/sub", "-r --parents a b/sub d", true),
        (BELOW, "mount --bind d/a d/b/sub", "-r --parents a/x b/sub/x d", true),
        // A directory that holds the other one, or lies in it.
        (
            BELOW,
            "mkdir -p d/b/sub/a; mkdir b/sub/a; mv b/sub/x b/sub/a; mount --bind d d/b/sub",
            "-r a b d",
            true,
        ),
        (BELOW, "mkdir d/a/in a/in; mv a/x a/in; mount --bind d/a/in d/b/sub", "-r a b d", true),
        // Two parts of one tree.
        (BELOW, "mkdir s; mv a b s; mount --bind d/a d/b/sub", "-rT s d", true),
        (BELOW, "mkdir s o; mv a b s; mount --bind o d/a; mount --bind o d/b/sub", "-rT s d", true),
        (
            BELOW,
            "mkdir -p s o/in; mv a b s; mkdir s/a/in; mv s/a/x s/a/in; mount --bind o d/a; mount --bind o/in d/b/sub",
            "-rT s d",
            true,
        ),
        // One that the caller named.
        (
            "mkdir -p a/in d/a/in d/b; mv x a/in; mv y b",
            "mount --bind d/a/in d/b",
            "-r a b d",
            true,
        ),
        (
            "mkdir -p a/in d/a/in d/b; mv x a/in; mv y b",
            "mount --bind d/a/in d/b",
            "-r b a d",
            true,
        ),
        (
            "mkdir -p d/b/sub b/sub; mv y b/sub/x; rm -r a",
            "mount --bind d d/b/sub",
            "-r x b d",
            true,
        ),
        (
            "mkdir -p d/b/sub b/sub; mv y b/sub/x; rm -r a",
            "mount --bind d d/b/sub",
            "-r b x d",
            true,
        ),
        // Without a table of mounts all of one filesystem may be one.
        (
            BELOW,
            "mkdir o s; mount -t tmpfs t s; mv a b s; mount --bind o d/b/sub; mount -t tmpfs t /proc",
            "-r s/a s/b d",
            true,
        ),
        // Other parts of the filesystem, and other filesystems.
        (BELOW, "mkdir o; mount --bind o d/b/sub", "-r a b d", false),
        (BELOW, "mkdir o p; mount --bind o d/b/sub; mount --bind p d/a", "-r a b d", false),
        (BELOW, "mkdir s o; mv a b s; mount --bind o d/a; mount --bind d d", "-rT s d", false),
        (BELOW, "mount -t tmpfs t d/b/sub", "-r a b d", false),
        (BELOW, "mount --bind d d", "-r --parents a/x b/sub/x d", false),
    ];
    for (files, mounts, copy, is_refused) in ROWS {
        for workers in ["-j1", "-j4"] {
            let place = Place::Disk.scratch();
            let script = format!(
                "mkdir a b; echo one >x; echo two >y; {files}; {mounts}\n\
                 set +e; \"$0\" cp --json --remove-source-files {workers} {copy}; code=$?\n\
                 find . -type f -exec cat {{}} + | sort -u >kept; exit $code"
            );
            let run = run_with_own_mounts(place.path(), &script);
            let context = format!("{mounts} {copy} {workers}: {}{}", run.stdout, run.stderr);
            assert_eq!(run.status.code(), Some(i32::from(*is_refused)), "{context}");
            let is_said = run.stdout.contains("\"destinations_overlap\"");
            assert_eq!(is_said, *is_refused, "{context}");
            assert_eq!(
                std::fs::read_to_string(place.join("kept")).unwrap(),
                "one\ntwo\n",
                "{context}"
            );
        }
    }
}

/// The second one is refused; neither content is lost.
fn two_sources_are_never_one_file() {
    let given =
        "mkdir d; echo 1 > a; echo 2 > b; echo 3 > d/b; touch -d 2001-01-01 d/b; ln -s b d/a";
    for flags in
        ["-r", "-d", "-u", "--preserve=links", "-a", "-r --remove-source-files", "-f", "--durable"]
    {
        for (sources, kept) in [("a b", "1"), ("b a", "2")] {
            let place = Place::Disk.scratch();
            sh(given, place.path());
            let program = cp().args(flags.split(' ')).args(sources.split(' ')).arg("d");
            let run = program.current_dir(place.path()).run();
            run.failed(1);
            assert!(
                run.stdout.contains("\"already_written\""),
                "{flags} {sources}: {}",
                run.stdout
            );
            let read = |name| std::fs::read_to_string(place.join(name)).unwrap_or_default();
            assert_eq!(read("d/b").trim(), kept, "{flags} {sources}");
            let second = if kept == "1" { "b" } else { "a" };
            assert!(!read(second).is_empty(), "{flags} {sources}: the source is gone");
        }
    }
    // Names of one file, and files that are left alone, are no such case.
    for flags in ["-d", "-a", "-u", "-n", "-r", "-rl", "-rn"] {
        let place = Place::Disk.scratch();
        let taken = if flags == "-rl" { "" } else { "ln d/a d/b" };
        let old = if flags == "-rl" { "mkdir d" } else { "mkdir d; echo 3 > d/a" };
        sh(&format!("{old}; echo 1 > a; ln a b; {taken}"), place.path());
        let run = cp().args([flags, "a", "b", "d"]).current_dir(place.path()).run();
        assert!(run.status.success(), "{flags}: {}", run.stderr);
    }
}

fn a_slash_at_the_end_names_no_file() {
    let all = ["-r", "-u", "-a", "-d", "-rf", "-r --dry-run", "-r --remove-destination"];
    for flags in by_extent([&all[..2], &all, &all]) {
        for destination in ["e/", "-T e/", "-T e/.", "e/.", "new/", "-T new/"] {
            for source in ["f", "link"] {
                let place = Place::Disk.scratch();
                sh("echo x > f; echo y > e; touch -d 2001-01-01 e; ln -s f link", place.path());
                let before = state(place.path());
                let program = cp().args(flags.split(' ')).arg(source).args(destination.split(' '));
                let run = program.current_dir(place.path()).run();
                let context = format!("{flags} {source} {destination}: {}", run.stderr);
                assert_eq!(run.status.code(), Some(1), "{context}");
                assert_eq!(state(place.path()), before, "{context}");
            }
        }
    }
}

fn a_planted_link_at_a_name_that_was_made_is_refused() {
    let given = "mkdir -p home backup/sub victim/own; echo v > victim/v; echo b > backup/sub/b; ln -s ../victim home/backup";
    let lines = [
        "backup home/",
        "backup home",
        "-t home backup",
        "-T backup home/backup",
        "./backup backup/sub home",
    ];
    let all = [
        "-r",
        "-a",
        "-a --delete",
        "-r --remove-destination",
        "-rf",
        "-r --resume",
        "-r --dry-run",
        "-rl",
        "-ru",
    ];
    for flags in by_extent([&all[..4], &all, &all]) {
        for line in lines {
            let place = Place::Disk.scratch();
            sh(given, place.path());
            let before = state(&place.join("victim"));
            let program = cp().args(flags.split(' ')).args(line.split(' '));
            let run = program.current_dir(place.path()).run();
            let context = format!("{flags} {line}: {} {}", run.stdout, run.stderr);
            assert_eq!(run.status.code(), Some(1), "{context}");
            assert!(run.stdout.contains("\"link_for_directory\""), "{context}");
            assert_eq!(state(&place.join("victim")), before, "{context}");
        }
        // The user named what the link leads to.
        for line in ["-T backup home/backup/", "backup/. home/backup", "backup home/backup"] {
            let place = Place::Disk.scratch();
            sh(given, place.path());
            let program = cp().args(flags.split(' ')).args(line.split(' '));
            let run = program.current_dir(place.path()).run();
            assert!(run.status.success(), "{flags} {line}: {}", run.stderr);
            let link = place.join("home/backup").symlink_metadata().unwrap();
            assert!(link.is_symlink(), "{flags} {line}");
        }
    }
}

fn a_source_behind_a_link_of_a_whole_directory_is_reported() {
    for (flags, list, code) in [
        ("-r", "a\\na/l/f\\n", 1),
        ("-a", "a/l/f\\na\\n", 1),
        ("-r", "a\\na/sub/l/f\\n", 1),
        ("-r", ".\\na/l/f\\n", 1),
        ("-r", "a\\na/sub/f\\na/l\\n", 0),
        ("-r", "a/l/f\\n", 0),
        ("-rL", "a\\na/l/f\\n", 0),
    ] {
        let place = Place::Disk.scratch();
        let given = "mkdir -p s/a/sub s/t d; echo f > s/t/f; echo g > s/a/sub/f; ln -s ../t s/a/l; ln -s ../../t s/a/sub/l";
        sh(&format!("{given}; printf '{list}' > list"), place.path());
        let program = cp().args([flags, "--files-from", "list", "s", "d"]);
        let run = program.current_dir(place.path()).run();
        let context = format!("{flags} {list}: {} {}", run.stdout, run.stderr);
        assert_eq!(run.status.code(), Some(code), "{context}");
        assert_eq!(run.stdout.matches("\"behind_link\"").count(), code as usize, "{context}");
        assert_eq!(place.join("d/a/sub/f").exists(), list != "a/l/f\\n", "{context}");
    }
}

fn names_of_a_list_are_copied_whatever_is_excluded() {
    for (list, copied) in [
        ("a/x.o", "x.o"),
        ("a\\na/x.o", "x.c x.o"),
        ("a/x.o\\na", "x.c x.o"),
        ("a\\na/sub/y.o", "x.c sub/y.o"),
        (".\\na/sub/y.o", "x.c sub/y.o"),
        ("a", "x.c"),
    ] {
        for flags in ["-r", "-a", "-rL"] {
            let place = Place::Disk.scratch();
            let given =
                "mkdir -p s/a/sub d; for n in x.o x.c sub/y.o sub/z.o; do echo $n > s/a/$n; done";
            sh(&format!("{given}; printf '{list}' > list"), place.path());
            let program = cp().args([flags, "--files-from", "list", "--exclude", "*.o", "s", "d"]);
            let run = program.current_dir(place.path()).run();
            assert!(run.status.success(), "{flags} {list}: {}", run.stderr);
            let found = sh("cd d/a; find * -type f | sort -r | xargs", place.path());
            let mut expected: Vec<_> = copied.split(' ').collect();
            expected.sort_unstable_by(|one, other| other.cmp(one));
            assert_eq!(found.trim(), expected.join(" "), "{flags} {list}");
        }
    }
}

/// As if they were named themselves: made with `--specials`, and else left out with a note.
fn special_files_that_links_lead_to() {
    for (flags, line, copy) in [
        ("-rL", "s d", "d/l"),
        ("-rL", "l d", "d"),
        ("-rH", "l d", "d"),
        ("-r", "p d", "d"),
        ("-rL --parents", "s/l o", "o/s/l"),
        ("-rH --parents", "l o", "o/l"),
    ] {
        for (specials, is_made) in
            [("--specials", true), ("--specials -p", true), ("--retries=1", false)]
        {
            let place = Place::Disk.scratch();
            sh("mkdir s o; mkfifo p; ln -s ../p s/l; ln -s p l", place.path());
            let words = [flags, specials, line].map(|part| part.split(' '));
            let run = cp().args(words.into_iter().flatten()).current_dir(place.path()).run();
            let context = format!("{flags} {specials} {line}: {} {}", run.stdout, run.stderr);
            assert!(run.status.success(), "{context}");
            let found = place.join(copy).symlink_metadata();
            let is_fifo = found
                .is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type()));
            assert_eq!(is_fifo, is_made, "{context}");
        }
    }
}

/// `cp` 9.1 fails, although it leaves every other name alone without an error.
fn a_link_to_nothing_is_a_name_that_is_taken() {
    for flags in ["-n", "-rn", "-dn", "-rnT", "-n --parents"] {
        let place = Place::Disk.scratch();
        sh("echo x > f; mkdir d; ln -s no-such d/f; ln -s no-such l", place.path());
        let to = if flags.contains("parents") { "d" } else { "l" };
        let program = cp().args(flags.split(' ')).args(["f", to]);
        let run = program.current_dir(place.path()).run();
        assert!(run.status.success(), "{flags}: {}", run.stderr);
        assert!(run.stdout.contains("\"skipped\""), "{flags}: {}", run.stdout);
        let listed = sh("find . -type l | sort | xargs; find . -name no-such", place.path());
        assert_eq!(listed.trim(), "./d/f ./l", "{flags}");
    }
}

/// The directories above the mount are not those of the destination.
fn a_directory_that_is_the_source_by_a_mount_is_left_alone() {
    for (given, at) in [
        ("mkdir -p d/src m; echo f > d/src/f; echo k > d/k", "d/src"),
        ("mkdir -p d/a/src/sub m; echo f > d/a/src/f; echo k > d/k", "d/a/src"),
        ("mkdir -p d/src/src m; echo f > d/src/f; echo g > d/src/src/g; echo h > d/src/g", "d/src"),
    ] {
        for flags in REMOVING {
            let place = Place::Disk.scratch();
            sh(given, place.path());
            let before = state(&place.join(at));
            let mount = Mount::bind_file(&place.join(at), &place.join("m"));
            let program = cp().arg("-rT").args(flags.split(' ')).args(["m", "d"]);
            let run = program.current_dir(place.path()).run();
            drop(mount);
            let context = format!("{flags} {given}: {}", run.stdout);
            // Files that were copied out of it are removed, and nothing else.
            let is_refused = given.contains("src/src") || !flags.contains("remove");
            assert_eq!(run.status.code(), Some(i32::from(is_refused)), "{context}");
            assert_eq!(run.stdout.contains("\"holds_source\""), is_refused, "{context}");
            if flags.contains("--delete") {
                assert_eq!(state(&place.join(at)), before, "{context}");
            }
            let kept = sh("find d -type f -exec cat {} + | sort | xargs", place.path());
            assert!(kept.contains('f'), "{context}");
            assert!(!given.contains("src/src") || kept.contains("g h"), "{context}");
        }
    }
}
