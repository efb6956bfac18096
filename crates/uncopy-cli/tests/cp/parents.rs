//! `--parents` beside the `cp` that is installed, `--files-from`, and links that lie in the way below the destination.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use testbed::{Case, Compared, Need, Place, Program, Run, Scratch, assert_same_tree, by_extent};

use crate::tree::roots::run_with_own_mounts;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] paths_are_kept_as_cp_keeps_them,
        [] absolute_paths_are_kept_below_the_destination,
        [] other_flags_hold_for_paths_that_are_kept,
        [] nothing_is_made_for_a_source_that_is_missing,
        [] links_below_the_destination_are_not_followed,
        [] links_that_are_planted_meanwhile_are_not_followed,
        [] what_makes_no_sense_with_paths_is_refused,
        [] listed_names_of_any_bytes_are_copied,
        [] listed_names_that_lead_out_are_refused,
        [] names_below_a_directory_that_is_left_out_are_copied,
        [Need::Root] names_on_another_filesystem_are_copied,
        [] the_destination_gets_metadata_where_the_list_names_its_source,
        [] many_directories_need_few_descriptors,
    ]
}

const GIVEN: &str = "\
    mkdir -p a/b/c a/e x d; echo 1 > a/b/c/f; echo 2 > a/g; echo 3 > x/h; echo 4 > i
    ln -s a/b l; ln -s c a/b/k; ln -s ../g a/b/m; ln a/g a/e/hard
    chmod 2750 a; chmod 700 a/b; chmod 757 a/b/c; chmod 555 x; chmod 640 a/g
    touch -h -d @1000000001.5 a/b/c/f a/g x/h i l a/b/k a/b/m
    for directory in a/b/c a/b a/e a x; do touch -d @1000000002.25 $directory; done";

/// Sources, of which cp and uncopy make the same.
const SOURCES: [&str; 17] = [
    "i",
    "a/g",
    "./a//b/./c/f",
    "a/b/c/f a/g x/h i",
    "a/b/c/f a/b/c/f ./a/b/c/f",
    "l/c/f",
    "l/k/f x/h",
    "a/../x/h",
    "a/b/../g",
    "l/../g",
    "../given/a/g",
    "a/b/m",
    "a/b/k/",
    "a/b",
    "a/b/",
    "l/",
    "a/e x",
];

fn sh(script: &str, directory: &Path) -> Run {
    Program::new("sh").args(["-euc", script]).current_dir(directory).run()
}

/// A directory `given`, prepared by a script.
fn given(script: &str) -> Scratch {
    let place = Place::Disk.scratch();
    let made = sh(&format!("mkdir given; cd given; {script}"), place.path());
    assert!(made.status.success(), "{}", made.stderr);
    place
}

fn uncopy(place: &Scratch, line: &str) -> Run {
    let uncopy = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp");
    uncopy.args(line.split(' ')).current_dir(&place.join("given")).run()
}

fn paths_are_kept_as_cp_keeps_them() {
    const FLAGS: [&str; 7] = ["", "-p", "-P", "-r", "-a", "-rL", "--preserve=mode"];
    let each = FLAGS.into_iter().flat_map(|flags| {
        SOURCES.iter().flat_map(move |sources| ["022", "077"].map(|umask| (flags, *sources, umask)))
    });
    // No number of rows is a multiple of five: every flag, source and umask has its turn.
    for (flags, sources, umask) in each.step_by(by_extent([5, 1, 1])) {
        let run = |program: &str| {
            let place = given(GIVEN);
            let target = "../given/d";
            let line =
                format!("umask {umask}; cd given; {program} {flags} --parents {sources} {target}");
            let run = sh(&line, place.path());
            // cp makes directories also for what it then refuses.
            let empty = "find given/d -mindepth 1 -type d -empty -delete";
            let tidied = if run.status.success() { "true" } else { empty };
            let after = sh(&format!("{tidied}; touch -d @5 given/d given"), place.path());
            assert!(after.status.success(), "{}", after.stderr);
            (place, run)
        };
        let (theirs, their_run) = run("cp");
        let (ours, our_run) = run(&format!("{} cp", env!("CARGO_BIN_EXE_uncopy")));
        let at = format!("cp {flags} --parents {sources}, umask {umask}");
        eprintln!("{at}");
        assert_eq!(
            our_run.status.success(),
            their_run.status.success(),
            "{at}: {} {}",
            our_run.stderr,
            their_run.stderr
        );
        // Where the last directory of the path exists by then, cp leaves the times of all as they are.
        let is_one = !sources.contains(' ') && !sources.contains("..");
        let preserves = ["-p", "-a"].contains(&flags);
        let times = preserves && is_one && our_run.status.success();
        // By `l/..` cp means the destination itself, and gives it the metadata of another directory.
        let modes = !sources.contains("..") || ["", "-P", "-r", "-rL"].contains(&flags);
        let compared = Compared { modes, times, ..Compared::default() };
        assert_same_tree(&theirs.join("given"), &ours.join("given"), compared);
    }
}

fn absolute_paths_are_kept_below_the_destination() {
    for program in ["cp", &format!("{} cp", env!("CARGO_BIN_EXE_uncopy"))] {
        let place = given(GIVEN);
        let script = format!(
            "{program} --parents $PWD/a/b/c/f ///$PWD/a/g d; test -f d$PWD/a/g; \
             test $(stat -c %a d$PWD/a/b/c) = 755; test $(cat d$PWD/a/b/c/f) = 1"
        );
        let run = sh(&script, &place.join("given"));
        assert!(run.status.success(), "{program}: {}", run.stderr);
    }
}

fn other_flags_hold_for_paths_that_are_kept() {
    const PREPARED: &str =
        "mkdir -p a/b old/a/b d; echo x > a/b/f; echo y > a/g; cp -p a/b/f old/a/b/; ln -s a l;";
    for (prepared, line, then) in [
        (
            "",
            "-p --link-dest ../old --parents a/b/f a/g d",
            "test d/a/b/f -ef old/a/b/f; test -f d/a/g",
        ),
        (
            "echo b/f > list; rm -r old; cp -pr a old",
            "-p --link-dest ../old --files-from list a d",
            "test d/b/f -ef old/b/f",
        ),
        (
            "",
            "-p --link-dest ../old --parents a/../a/b/f d",
            "test ! d/a/b/f -ef old/a/b/f; test -f d/a/b/f",
        ),
        (
            "",
            "--remove-source-files --durable --parents a/b/f d",
            "test ! -e a/b/f; test -f d/a/b/f; test -f a/g",
        ),
        (
            "echo b > list",
            "-r --remove-source-files --files-from list a d",
            "test ! -e a/b/f; test -f d/b/f; test -f a/g",
        ),
        ("mkdir -p d/a; echo old > d/a/g", "-n --parents a/g d", "test $(cat d/a/g) = old"),
        (
            "mkdir -p d/a; echo old > d/a/g",
            "-b --parents a/g d",
            "test $(cat d/a/g) = y; test $(cat d/a/g~) = old",
        ),
        ("mkdir -p d/a; touch d/a/g", "-u --parents a/g d", "test ! -s d/a/g"),
        ("", "--link --parents a/g d", "test a/g -ef d/a/g"),
        ("", "--verify --durable --parents l/b/f d", "test $(cat d/l/b/f) = x; test ! -L d/l"),
        (
            "",
            "--manifest sums --parents a/b/f a/g d",
            "cd d; b3sum --version || exit 0; b3sum -c ../sums",
        ),
        ("", "-r --dry-run --parents a/b a/g d", "rmdir d"),
        ("", "-r --parents --exclude f a d", "test -f d/a/g; test ! -e d/a/b/f"),
        (
            "echo k > a/k; echo b/f > list; echo g >> list",
            "-r --exclude f --files-from list a d",
            "test -f d/b/f",
        ),
        (
            "",
            "--chmod=D711,F600 --parents a/g d",
            "test $(stat -c %a d/a/g) = 600; test $(stat -c %a d/a) = 711",
        ),
        // Its search permission is needed to look below it, unless by root.
        (
            "",
            "--chmod=600 --parents a/g d",
            "test $(stat -c %a d/a) = 600; chmod u+x d/a; test $(stat -c %a d/a/g) = 600",
        ),
    ] {
        let place = given(&format!("{PREPARED} {prepared}"));
        let run = uncopy(&place, line);
        assert!(run.status.success(), "{line}: {}", run.stderr);
        let found = sh(then, &place.join("given"));
        assert!(found.status.success(), "{line}: {then}: {} {}", found.stdout, found.stderr);
    }
}

/// In contrast to cp, which makes the directories first.
fn nothing_is_made_for_a_source_that_is_missing() {
    let place = given("mkdir -p a/b d; echo x > a/f");
    let run = uncopy(&place, "--parents a/b/missing a/b a/f d");
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("a/b/missing"), "{}", run.stderr);
    assert!(run.stderr.contains("a/b: it is a directory"), "{}", run.stderr);
    let found = sh("test -f d/a/f; test ! -e d/a/b", &place.join("given"));
    assert!(found.status.success(), "{}", found.stderr);
}

fn links_below_the_destination_are_not_followed() {
    for (planted, link) in [("d/a", "../out"), ("d/a/b", "../../out"), ("d/a", "/"), ("d/a", ".")] {
        for flags in ["--parents", "-r --parents", "-p --parents", "--force --parents"] {
            let place = given("mkdir -p a/b out d; echo x > a/b/f");
            let planted = place.join("given").join(planted);
            fs::create_dir_all(planted.parent().unwrap()).unwrap();
            symlink(link, &planted).unwrap();
            let run = uncopy(&place, &format!("{flags} a/b/f d"));
            assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
            assert!(run.stderr.contains("symbolic link"), "{}", run.stderr);
            assert_eq!(fs::read_link(&planted).unwrap(), Path::new(link));
            assert_eq!(fs::read_dir(place.join("given/out")).unwrap().count(), 0);
        }
    }
}

/// An adversary swaps a directory below the destination for a link to another one and back, all the time.
fn links_that_are_planted_meanwhile_are_not_followed() {
    let place = given("mkdir -p a/b/c out d; echo x > a/b/c/f; echo y > a/b/g");
    let plan = "while test ! -e stop; do \
                mv -T d/a/b d/a/away; ln -s ../../out d/a/b; rm -f d/a/b; mv -T d/a/away d/a/b; done";
    let mut copied = 0;
    let directory = place.join("given");
    std::thread::scope(|scope| {
        let adversary = scope.spawn(|| {
            let script = format!("set +e; {plan}");
            Program::new("sh").args(["-c", &script]).current_dir(&directory).run()
        });
        for _ in 0..testbed::by_extent([30, 300, 300]) {
            let run = uncopy(&place, "-r --parents a/b/c a/b/g d");
            copied += usize::from(run.status.success());
        }
        fs::write(directory.join("stop"), "").unwrap();
        adversary.join().unwrap();
    });
    let out = fs::read_dir(directory.join("out")).unwrap();
    let names: Vec<_> = out.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.is_empty(), "{copied} copies left {names:?} outside");
}

fn what_makes_no_sense_with_paths_is_refused() {
    for line in [
        "--parents a/f nothing",
        "--parents a/f a/g",
        "--parents a/f d/",
        "--parents -T a/f a",
        "--parents --files-from list a a",
        "--files-from list -T a a",
        "--files-from list a nothing",
        "--files-from list a a a",
        "--files-from nothing a a",
        "--from0 a/f a",
        "-r --parents --delete a/f a",
        "--parents --resume a/f a",
        "-r --files-from list --resume a a",
        "--parents --in-place a/f a",
        "--parents",
    ] {
        let place = given("mkdir a; echo x > a/f; echo y > a/g; echo f > list");
        let run = uncopy(&place, line);
        assert_eq!(run.status.code(), Some(2), "{line}: {}", run.stderr);
        let found = sh("test $(find . | wc -l) = 5; test $(cat a/g) = y", &place.join("given"));
        assert!(found.status.success(), "{line}");
    }
}

fn listed_names_of_any_bytes_are_copied() {
    for (list, flags) in [
        (&b"a/\xff\xfe\n\n#no\n;no\nmissing\n./#yes\nb\r\n"[..], "--files-from"),
        (b"a/\xff\xfe\0\0#no\0;no\0missing\0./#yes\0b", "-0 --files-from"),
        (b"a/\xff\xfe\0a/\xff\xfe\0./#yes\0b/\0missing\0", "-r --from0 --files-from"),
    ] {
        for from_stdin in [false, true] {
            let place =
                given("mkdir -p s/a s/b d; echo y > 's/#yes'; echo n > 's/#no'; echo c > s/b/c");
            let directory = place.join("given");
            let name = Path::new("a").join(OsStr::from_bytes(b"\xff\xfe"));
            fs::write(directory.join("s").join(&name), "x").unwrap();
            fs::write(directory.join("list"), list).unwrap();
            let named = if from_stdin { "- --json s d < list" } else { "list --json s d" };
            let line = format!("{} cp {flags} {named}", env!("CARGO_BIN_EXE_uncopy"));
            let run = sh(&line, &directory);
            assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
            let failed: Vec<_> = run
                .stdout
                .lines()
                .filter(|line| line.contains("\"failed\"") && line.contains("source\""))
                .collect();
            assert_eq!(failed.len(), 1, "{failed:?}");
            assert!(failed[0].contains("s/missing"), "{failed:?}");
            assert_eq!(fs::read(directory.join("d").join(&name)).unwrap(), b"x");
            let whole = flags.starts_with("-r");
            let then = "test -f 'd/#yes'; test ! -e 'd/#no'; test -d d/b; test ! -e d/missing; ";
            let contents = if whole { "test -f d/b/c" } else { "test ! -e d/b/c" };
            let found = sh(&format!("{then}{contents}"), &directory);
            assert!(found.status.success(), "{list:?}: {}", found.stderr);
        }
    }
}

/// Lists what was copied to `d`, without directories.
fn copied(place: &Scratch) -> String {
    let run = sh("cd d; find . ! -type d | sort | tr '\\n' ' '", &place.join("given"));
    run.stdout.replace("./", "").trim_end().to_owned()
}

fn names_below_a_directory_that_is_left_out_are_copied() {
    const PREPARED: &str = "mkdir -p s/ex/sub s/ex/whole s/b d; ln -s ex s/le
        for f in ex/f ex/g ex/sub/h ex/sub/i ex/whole/j ex/whole/k.o b/x b/y.o; do echo $f > s/$f; done";
    for (list, flags, expected) in [
        (". ex/f", "-r --exclude ex", "b/x b/y.o ex/f le"),
        (". ex/f", "-r --exclude ex/", "b/x b/y.o ex/f le"),
        (". ex/sub/h b/y.o", "-r --exclude ex --exclude *.o", "b/x b/y.o ex/sub/h le"),
        (". ex/whole ex/sub/h", "-r --exclude ex --exclude *.o", "b/x ex/sub/h ex/whole/j le"),
        (
            ". ex/whole/k.o ex",
            "-r --exclude ex --exclude whole --exclude *.o",
            "b/x ex/f ex/g ex/sub/h ex/sub/i ex/whole/k.o le",
        ),
        ("ex/f ex/sub", "-r --exclude ex", "ex/f ex/sub/h ex/sub/i"),
        (". le/f le/sub/h", "-rL --exclude le --exclude ex", "b/x b/y.o le/f le/sub/h"),
        (
            ". le/whole/k.o",
            "-rL --exclude *.o --exclude ex",
            "b/x le/f le/g le/sub/h le/sub/i le/whole/j le/whole/k.o",
        ),
    ] {
        let place = given(PREPARED);
        let names: String = list.split(' ').map(|name| format!("{name}\n")).collect();
        fs::write(place.join("given/list"), names).unwrap();
        let run = uncopy(&place, &format!("{flags} --files-from list s d"));
        assert!(run.status.success(), "{list} {flags}: {}", run.stderr);
        assert_eq!(copied(&place), expected, "{list} {flags}");
    }
    let place = given(PREPARED);
    let run = uncopy(&place, "-r --exclude ex --parents s s/ex/f d");
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(copied(&place), "s/b/x s/b/y.o s/ex/f s/le");
    // A link that is copied as one.
    fs::write(place.join("given/list"), ".\nle/f\n").unwrap();
    let run = uncopy(&place, "-r --exclude le --files-from list s d");
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("s/le/f"), "{}", run.stderr);
}

fn names_on_another_filesystem_are_copied() {
    for (list, expected) in
        [(". m/f", "a m/f"), (". m/sub/h", "a m/sub/h"), (". m", "a m/f m/g m/sub/h")]
    {
        let place = given("mkdir -p s/m d; echo a > s/a");
        let names: String = list.split(' ').map(|name| format!("{name}\n")).collect();
        fs::write(place.join("given/list"), names).unwrap();
        let script =
            "mount -t tmpfs none s/m; mkdir s/m/sub; for f in f g sub/h; do echo $f > s/m/$f; done
             \"$0\" cp -rx --files-from list s d";
        let run = run_with_own_mounts(&place.join("given"), script);
        assert!(run.status.success(), "{list}: {}", run.stderr);
        assert_eq!(copied(&place), expected, "{list}");
    }
}

fn listed_names_that_lead_out_are_refused() {
    for name in ["../f", "b/../../f", "/etc/hostname", ".."] {
        let place = given(&format!(
            "mkdir -p s/b d; echo x > f; echo y > s/b/g; printf 'b/g\\n{name}\\n' > list"
        ));
        let run = uncopy(&place, "-r --files-from list s d");
        assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(name) && run.stderr.contains("list"), "{}", run.stderr);
        assert_eq!(fs::read_dir(place.join("given/d")).unwrap().count(), 0);
    }
}

fn the_destination_gets_metadata_where_the_list_names_its_source() {
    for (names, flags, expected) in [
        ("./b/g\\n", "-a", "755"),
        ("./b/g\\n", "-p", "755"),
        (".\\n", "-a", "751"),
        (".\\n", "-p", "751"),
        ("b/g\\n./.\\n", "-dp", "751"),
    ] {
        let place = given(&format!(
            "mkdir -p s/b d; echo y > s/b/g; chmod 751 s; chmod 755 d; printf '{names}' > list"
        ));
        let run = uncopy(&place, &format!("{flags} --files-from list s d"));
        assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
        let mode = sh("stat -c %a d", &place.join("given")).stdout;
        assert_eq!(mode.trim(), expected, "{names} {flags}");
    }
}

/// More directories and more levels than descriptors.
fn many_directories_need_few_descriptors() {
    let place = given(
        "mkdir -p s d; path=s; for level in $(seq 100); do path=$path/l; done; mkdir -p $path; \
         echo x > $path/f; echo ${path#s/}/f > list; \
         for name in $(seq 300); do mkdir s/$name; echo $name > s/$name/f; echo $name/f >> list; done",
    );
    let line = format!(
        "ulimit -n 64; {0} cp -p --files-from list s d; {0} cp -r --parents s/1 $(tail -1 list | sed s,^,s/,) d; \
         test $(find d/s -type f | wc -l) = 2",
        env!("CARGO_BIN_EXE_uncopy")
    );
    let run = sh(&line, &place.join("given"));
    assert!(run.status.success(), "{}", run.stderr);
    let found = sh("rm -r d/s; diff -r s d", &place.join("given"));
    assert!(found.status.success(), "{}", found.stderr);
}
