//! Sources and destinations named on the command line.

use std::fs;

use testbed::{Case, Compared, Mount, Need, Place, assert_same_tree, run_tool};

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
            assert!(text.contains("a/m") && text.contains("lies in it"), "{flags:?}: {text}");
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
        assert!(text.contains("lies in it"), "{flags:?}: {text}");
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
