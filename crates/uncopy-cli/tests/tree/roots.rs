//! Sources and destinations named on the command line.

use std::fs;
use std::path::Path;

use testbed::{Case, Compared, Mount, Need, Place, Program, Run, assert_same_tree, run_tool};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] files_and_directories_into_a_directory,
        [] a_single_file,
        [] two_sources_with_one_target_are_refused,
        [] a_destination_inside_the_source_is_refused,
        [Need::At(Place::Xfs)] a_destination_inside_the_source_by_a_bind_mount_is_refused,
        [Need::Root] a_part_of_the_source_that_is_mounted_in_the_destination_stays,
        [Need::Root] a_part_of_a_listed_source_that_is_mounted_in_the_destination_stays,
        [Need::Root] a_destination_that_is_a_part_of_the_source_mounted_again,
        [Need::Root, Need::Tool("unshare")] sources_survive_odd_mounts,
        [Need::Root, Need::Tool("unshare")] what_the_copy_does_not_read_may_be_mounted_in_the_destination,
        [Need::Root, Need::Tool("unshare")] an_overlay_that_is_copied_into_its_own_layers_has_an_end,
        [Need::Root, Need::Tool("unshare")] overlays_are_copied_beside_their_layers,
        [] a_missing_source_is_reported_and_the_others_copied,
        [] the_current_directory,
        [] a_slash_at_the_end,
    ]
}

fn files_and_directories_into_a_directory() {
    let trees = Trees::new();
    trees.file("a/file", "1");
    trees.file("b", "2");
    let into = trees.to.join("into");
    let run = cp().arg("-t").arg(&into).args([trees.source()]).run();
    run.failed(1);
    fs::create_dir(&into).unwrap();
    let sources = ["a", "b"].map(|name| trees.source().join(name));
    let run = cp().args(sources).arg(&into).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &into, Compared::default());
    assert_eq!(events(&run, "copied").len(), 2);
}

fn a_single_file() {
    let trees = Trees::new();
    let file = trees.file("file", "x");
    let run = cp().arg(&file).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(fs::read(trees.destination()).unwrap(), b"x");
    assert_eq!(number(&summary(&run), "files"), 1);
    // Through a link that the caller names, as without -r.
    let link = trees.to.join("link");
    std::os::unix::fs::symlink("destination", &link).unwrap();
    fs::write(&file, "y").unwrap();
    let run = cp().arg(&file).arg(&link).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(fs::read(trees.destination()).unwrap(), b"y");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    // And not onto itself.
    let run = cp().arg(&file).arg(&file).run();
    assert!(run.failed(1).contains("same file"), "{}", run.stderr);
}

fn two_sources_with_one_target_are_refused() {
    let trees = Trees::new();
    trees.file("a/x", "1");
    trees.file("b/x/file", "2");
    let sources = ["a/x", "b/x"].map(|name| trees.source().join(name));
    let run = cp().args(sources).arg(trees.to.path()).run();
    assert!(run.failed(2).contains("would both become"), "{}", run.stderr);
    assert!(trees.to.strangers(&[]).is_empty());
}

fn a_destination_inside_the_source_is_refused() {
    let trees = Trees::new();
    trees.file("a/file", "x");
    for destination in ["", "inside", "a/inside", "a"] {
        let run = cp().arg(trees.source()).arg(trees.source().join(destination)).run();
        assert!(run.failed(1).contains("outside of the source"), "{}", run.stderr);
    }
    let link = trees.to.join("link");
    std::os::unix::fs::symlink(trees.source().join("a"), &link).unwrap();
    cp().arg(trees.source()).arg(link.join("inside")).run().failed(1);
    let names = fs::read_dir(trees.source())
        .unwrap()
        .chain(fs::read_dir(trees.source().join("a")).unwrap());
    assert_eq!(names.count(), 2);
}

fn a_destination_inside_the_source_by_a_bind_mount_is_refused() {
    let trees = Trees::at(Place::Xfs, Place::Xfs);
    trees.file("a/file", "x");
    let bound = trees.source().join("bound");
    fs::create_dir(&bound).unwrap();
    run_tool("mount", ["--bind".as_ref(), trees.to.as_os_str(), bound.as_os_str()]);
    let run = trees.run(cp());
    run_tool("umount", [bound]);
    // The destination is found in the source as it is walked, and left out.
    assert!(run.failed(1).contains("destination of this copy"), "{}", run.stderr);
    assert_eq!(fs::read(trees.destination().join("a/file")).unwrap(), b"x");
}

/// Files of the source were overwritten and deleted through the mount, with exit code 0.
fn a_part_of_the_source_that_is_mounted_in_the_destination_stays() {
    for flags in [&[][..], &["--delete"], &["--remove-source-files"], &["--delete", "--dry-run"]] {
        // A part of the tree itself, and one of another source of the same copy, which is before or behind it.
        let rows: [(&str, &[&str]); 3] =
            [("a/d", &["a"]), ("other/d", &["other", "a"]), ("other/d", &["a", "other"])];
        for (part, sources) in rows {
            let trees = Trees::new();
            trees.file("a/d/g", "precious");
            trees.file("other/d/g", "precious");
            trees.file("a/m/g", "other");
            let mounted = trees.to.join("a/m");
            fs::create_dir_all(&mounted).unwrap();
            let mount = Mount::bind_file(&trees.source().join(part), &mounted);
            let sources = sources.iter().map(|name| trees.source().join(name));
            let run = cp().args(flags).args(sources).arg(trees.to.path()).run();
            let text = run.failed(1).to_owned();
            drop(mount);
            assert!(text.contains("a/m") && text.contains("a part of it"), "{flags:?}: {text}");
            assert!(text.contains("; unmount it, or leave it out by --exclude"), "{text}");
            // It may have been moved.
            let places = [trees.source().join(part).join("g"), trees.to.join(part).join("g")];
            let kept = places.iter().any(|place| fs::read(place).is_ok_and(|it| it == b"precious"));
            assert!(kept, "{flags:?} {part}");
            assert_eq!(fs::read(trees.source().join("a/m/g")).unwrap(), b"other", "{flags:?}");
        }
    }
}

/// Listed files, and files that keep their directories, went through the mount all the same.
fn a_part_of_a_listed_source_that_is_mounted_in_the_destination_stays() {
    for flags in [&["--files-from=list"][..], &["--parents"]] {
        let trees = Trees::new();
        trees.file("a/f", "another");
        trees.file("b/f", "precious");
        let with_list = flags[0].starts_with("--files");
        let mounted = match with_list {
            true => trees.to.join("a"),
            false => trees.to.join(trees.source().strip_prefix("/").unwrap()).join("a"),
        };
        fs::create_dir_all(&mounted).unwrap();
        fs::write(trees.to.join("list"), "a\nb\n").unwrap();
        let mount = Mount::bind_file(&trees.source().join("b"), &mounted);
        let run = cp().current_dir(trees.to.path()).args(flags);
        let run = match with_list {
            true => run.arg(trees.source()),
            false => run.args(["a", "b"].map(|name| trees.source().join(name))),
        };
        let run = run.arg(trees.to.path()).run();
        let text = run.failed(1).to_owned();
        drop(mount);
        assert!(text.contains("a part of it"), "{flags:?}: {text}");
        assert_eq!(fs::read(trees.source().join("b/f")).unwrap(), b"precious", "{flags:?}");
    }
}

/// Deletions of what the source has not went into its own part.
fn a_destination_that_is_a_part_of_the_source_mounted_again() {
    for flags in [&["-T"][..], &["-T", "--delete"], &["-T", "--delete", "--dry-run"], &[]] {
        for part in ["d", "d/e"] {
            let trees = Trees::new();
            trees.file("f", "another");
            trees.file("d/e/f", "precious");
            trees.file("d/f", "precious");
            let mounted = trees.to.join("again");
            fs::create_dir(&mounted).unwrap();
            let mount = Mount::bind_file(&trees.source().join(part), &mounted);
            let run = cp().args(flags).arg(trees.source()).arg(&mounted).run();
            let text = run.failed(1).to_owned();
            drop(mount);
            assert!(text.contains("lies in it"), "{flags:?} {part}: {text}");
            for name in ["d/e/f", "d/f"] {
                let kept = fs::read(trees.source().join(name)).unwrap();
                assert_eq!(kept, b"precious", "{flags:?} {part}");
            }
            let names = fs::read_dir(trees.source().join(part)).unwrap().count();
            assert_eq!(names, if part == "d" { 2 } else { 1 }, "{flags:?} {part}");
        }
    }
}

/// Runs a script that may mount, with the program as `$0`.
pub(crate) fn run_with_own_mounts(directory: &Path, script: &str) -> Run {
    Program::new("unshare")
        .args(["--mount", "--propagation=private", "sh", "-ec", script])
        .arg(env!("CARGO_BIN_EXE_uncopy"))
        .current_dir(directory)
        .run()
}

/// Each row overwrote a file of a source through a mount, with exit code 0.
fn sources_survive_odd_mounts() {
    // Mounts, the copy, files that stay as they are, and what the error says.
    const ROWS: &[(&str, &str, &str, &str)] = &[
        // The source contains a mount, of which a part is mounted in the destination.
        (
            "mkdir -p x/part; echo precious >x/part/f; mount --bind x s/o; mount --bind x/part d/m",
            "-rT s d",
            "x/part/f",
            "a part of it",
        ),
        (
            "mount -t tmpfs t s/o; mkdir s/o/part; echo precious >s/o/part/f; mount --bind s/o/part d/m",
            "-rT --delete s d",
            "s/o/part/f",
            "a part of it",
        ),
        // Another mount has a name that is not UTF-8.
        (
            "mkdir \"$(printf 'u\\377')\"; mount -t tmpfs t \"$(printf 'u\\377')\"; mount --bind s/o d/m",
            "-rT --delete s d",
            "s/o/f",
            "a part of it",
        ),
        // Another namespace of mounts.
        (
            "unshare -m sh -c 'mount --bind s/o d/m; exec sleep 600' & sleep 0.5; ln -s /proc/$!/root$PWD/d far",
            "-rT s far/",
            "s/o/f",
            "may be a part of",
        ),
        // No table of mounts.
        ("mount --bind s/o d/m; mount -t tmpfs t /proc", "-rT s d", "s/o/f", "may be a part of"),
        // A directory above the source.
        (
            "mkdir -p p/s/m/s; echo new >p/s/m/s/f; echo precious >p/s/f; mount --bind p d/m",
            "-rT p/s d",
            "p/s/f",
            "holds one",
        ),
        // Another source of the same copy.
        (
            "mkdir -p x y d/x; echo new >x/f; echo precious >y/f; mount --bind y d/x",
            "-r x y d",
            "y/f",
            "lies in it",
        ),
        (
            "mkdir -p x y/k d/x; echo new >x/f; echo precious >y/k/f; mount --bind y/k d/x",
            "-r x y d",
            "y/k/f",
            "lies in it",
        ),
        (
            "mkdir -p p/y x/m/y d/x/m; echo new >x/m/y/f; echo precious >p/y/f; mount --bind p d/x/m",
            "-r x p/y d",
            "p/y/f",
            "holds one",
        ),
        ("mkdir -p d/s/m; mount --bind s/o d/s/m", "--parents s/m/f s/o/f d", "s/o/f", "holds one"),
        // A list that does not name it, or names only a file of it.
        ("echo m >l; mount --bind s/o d/m", "-r --files-from=l s d", "s/o/f", "a part of it"),
        (
            "printf 'm/f\\no/f\\n' >l; mount --bind s/o d/m",
            "--files-from=l s d",
            "s/o/f",
            "a part of it",
        ),
    ];
    for (mounts, copy, kept, said) in ROWS {
        let scratch = Place::Disk.scratch();
        let script = format!(
            "mkdir -p s/m s/o d/m; echo new >s/m/f; echo precious >s/o/f; {mounts}\n\
             set +e; \"$0\" cp {copy}; code=$?; cat {kept} >kept; kill $! 2>/dev/null; exit $code"
        );
        let run = run_with_own_mounts(scratch.path(), &script);
        assert_eq!(run.status.code(), Some(1), "{mounts}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{mounts}: {}", run.stderr);
        let kept = fs::read(scratch.join("kept")).unwrap();
        assert_eq!(kept, b"precious\n", "{mounts}: {}", run.stderr);
    }
    // Other mounts of the same filesystem are no part of the source.
    for (mounts, copy) in [
        ("mkdir p; mount --bind p d/m", "-rT s d"),
        ("mkdir -p srv/a/m srv/ab; mount --bind srv/ab d/m", "-rT srv/a d"),
        ("mkdir -p b d2/m; mount --bind . b; mount --bind b/d2/m d/m", "-rT s d"),
        ("mkdir -p x y d/x z; mount --bind z d/x", "-r x y d"),
    ] {
        let scratch = Place::Disk.scratch();
        let script =
            format!("mkdir -p s/m s/o d/m; echo new >s/m/f; {mounts}; exec \"$0\" cp {copy}");
        let run = run_with_own_mounts(scratch.path(), &script);
        assert_eq!(run.status.code(), Some(0), "{mounts}: {}", run.stderr);
    }
}

/// Refused because the source has a directory of that place, which is hidden there or left out.
fn what_the_copy_does_not_read_may_be_mounted_in_the_destination() {
    const HIDDEN: &str = "mount --bind s/o/sub d/m; mount -t tmpfs t s/o";
    const BOUND: &str = "mount --bind s/o d/m";
    const BELOW: &str = "mount --bind s/o/sub d/m";
    const MOUNTED: &str = "mount --bind x s/o; mount --bind x d/m";
    // Mounts, the copy, and whether it is refused.
    const ROWS: &[(&str, &str, bool)] = &[
        (HIDDEN, "-rT s d", false),
        (HIDDEN, "-rT --delete s d", false),
        (BOUND, "-rT --exclude /m s d", false),
        (BOUND, "-rT --exclude /m --delete s d", false),
        (BOUND, "-rT --exclude /o s d", false),
        (BELOW, "-rT --exclude /o s d", false),
        (MOUNTED, "-rT --exclude /o s d", false),
        // Seen there by another mount, or by another name.
        (
            "mkdir s/again; mount --bind s/o/sub s/again; mount --bind s/o/sub d/m; mount -t tmpfs t s/o",
            "-rT s d",
            true,
        ),
        ("ln -s o s/l; mount --bind s/o d/m", "-rTL --exclude /o s d", true),
        ("mount --bind s/o d/m; mount -t tmpfs t s/o/sub", "-rT s d", true),
        // Deleted through the mount, copied in part, or named.
        (BOUND, "-rT --exclude /o --delete s d", true),
        (BOUND, "-rT --exclude /o/sub s d", true),
        (BOUND, "-r --exclude o --files-from l s d", true),
        (MOUNTED, "-rT s d", true),
    ];
    for (mounts, copy, is_refused) in ROWS {
        let scratch = Place::Disk.scratch();
        let script = format!(
            "mkdir -p s/m s/o/sub d/m x; echo new >s/m/f; echo old >s/o/f; echo old >s/o/sub/f; printf 'm\no\n' >l; {mounts}; \
             exec \"$0\" cp {copy}"
        );
        let run = run_with_own_mounts(scratch.path(), &script);
        let code = Some(i32::from(*is_refused));
        assert_eq!(run.status.code(), code, "{mounts} {copy}: {}", run.stderr);
        let said = "which is mounted there; unmount it, or leave it out by --exclude";
        assert_eq!(run.stderr.contains(said), *is_refused, "{mounts} {copy}: {}", run.stderr);
    }
}

/// Lower, upper and merged directory of an overlay, as scripts make them; a second later, since directories that are made
/// at one time look alike.
const OVERLAY: &str = "mkdir -p 'L 1/x' 'L 1/only' 'L 1/d' W M o s/m; echo f >'L 1/f'; echo g >'L 1/d/g'; sleep 0.1; \
    mkdir -p 'U 1/up/z'; mount -t overlay -o 'lowerdir=L 1,upperdir=U 1,workdir=W' overlay M";

/// The copy appeared in the source, without end, and no signal that can be handled ended it.
fn an_overlay_that_is_copied_into_its_own_layers_has_an_end() {
    // Preparation, the copy, whether nothing is made, and what the error says.
    const ROWS: &[(&str, &str, bool, &str)] = &[
        ("", "-r M 'U 1/new'", true, "M itself or lies in it"),
        ("", "-r M 'U 1'", true, "M itself or lies in it"),
        ("", "-r M 'U 1/up/z'", true, "M itself or lies in it"),
        ("", "-rT M 'U 1/up'", true, "M itself or lies in it"),
        ("", "-rT M 'U 1'", true, "M itself or lies in it"),
        ("", "-r M/up 'U 1/up/new'", true, "M/up itself or lies in it"),
        ("", "-r --resume M 'U 1/new'", true, "M itself or lies in it"),
        ("", "-r --dry-run M 'U 1/new'", true, "M itself or lies in it"),
        ("", "-rT --dry-run M 'U 1/up'", true, "M itself or lies in it"),
        ("", "-rT M 'L 1/x'", true, "M itself or lies in it"),
        ("mkdir 'U 1/x'", "-rT M 'L 1/x'", true, "M itself or lies in it"),
        ("", "-r M/only 'L 1/only/new'", true, "M/only itself or lies in it"),
        ("mount --bind 'U 1/up' o", "-r M o/z", true, "M itself or lies in it"),
        ("", "-r --parents M 'U 1/up'", false, "M: it is the destination"),
        ("mount --bind M s/m", "-rT s 'U 1/up'", false, "s/m: it is the destination"),
        // Met as it is walked, and left out.
        ("mount --bind M s/m", "-r s 'U 1/new'", false, ".tree: it is the destination"),
        ("", "-r M 'L 1/new'", false, ".tree: it is the destination"),
    ];
    for (before, copy, makes_nothing, said) in ROWS {
        let scratch = Place::Disk.scratch();
        let list = "find 'L 1' 'U 1' o | sort";
        let script = format!(
            "{OVERLAY}\n{before}\n{list} >before; set +e; timeout -s KILL 20 \"$0\" cp {copy}; code=$?; {list} >after; exit $code"
        );
        let run = run_with_own_mounts(scratch.path(), &script);
        assert_eq!(run.status.code(), Some(1), "{copy}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{copy}: {}", run.stderr);
        let [before, after] =
            ["before", "after"].map(|name| fs::read_to_string(scratch.join(name)).unwrap());
        assert!(!makes_nothing || before == after, "{copy}: {after}");
        assert!(after.lines().count() < 30, "{copy}: {after}");
        assert!(!after.contains(".tree"), "{copy}: {after}");
    }
}

/// Directories of the same name and of the same time are no part of an overlay for that.
fn overlays_are_copied_beside_their_layers() {
    for (before, copy, made) in [
        ("", "-r M o/new", "o/new/d/g"),
        ("", "-r M o", "o/M/d/g"),
        ("mkdir o/x", "-rT M o/x", "o/x/d/g"),
        ("mkdir o/x; touch -r M/x o/x", "-rT --dry-run M o/x", "M/d/g"),
        ("mkdir o/d", "-r M/d o", "o/d/g"),
        ("", "-r M/d 'U 1'", "U 1/d/g"),
        ("", "-rT M/d 'U 1/up'", "U 1/up/g"),
        ("mount --bind M s/m", "-rT s o", "o/m/d/g"),
        ("", "--parents M/d/g 'U 1/up'", "U 1/up/M/d/g"),
    ] {
        let scratch = Place::Disk.scratch();
        let script = format!(
            "{OVERLAY}\n{before}\n\"$0\" cp {copy} >said; cat '{made}'; find o 'U 1' -name '.uncopy*'"
        );
        let run = run_with_own_mounts(scratch.path(), &script);
        assert_eq!(run.status.code(), Some(0), "{copy}: {}", run.stderr);
        assert_eq!(run.stdout, "g\n", "{copy}");
    }
}

fn a_missing_source_is_reported_and_the_others_copied() {
    let trees = Trees::new();
    trees.file("a/file", "1");
    let sources = ["missing", "a"].map(|name| trees.source().join(name));
    let run = cp().args(sources).arg(trees.to.path()).run();
    assert!(run.failed(1).contains("missing"), "{}", run.stderr);
    assert_eq!(fs::read(trees.to.join("a/file")).unwrap(), b"1");
}

fn the_current_directory() {
    let trees = Trees::new();
    trees.file("a/file", "1");
    let run = cp().current_dir(&trees.source()).arg(".").arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    let run = cp().current_dir(trees.to.path()).arg(trees.source()).arg("relative").run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.to.join("relative"), Compared::default());
}

fn a_slash_at_the_end() {
    let trees = Trees::new();
    trees.file("a/file", "1");
    let run = cp().arg(trees.source().join("")).arg(trees.destination().join("")).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}
