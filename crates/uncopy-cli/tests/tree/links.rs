//! Symbolic links: recreated, followed as far as is allowed, and never a way out of the tree.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{XattrFlags, llistxattr, lsetxattr};
use testbed::{Case, Compared, Need, Place, SystemCall, assert_same_tree};

use crate::tree::{Trees, cp, events, file_in, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] links_are_made_again,
        [] links_are_left_out,
        [] links_are_followed_in_the_tree,
        [] links_out_of_the_tree_are_followed_only_when_asked,
        [] a_link_to_a_directory_above_has_no_end,
        [] a_root_that_is_a_link,
        [] a_directory_that_becomes_a_link_is_not_followed,
        [] a_file_that_becomes_a_link_is_not_followed,
    ];
    for place in [Place::Ext4, Place::Xfs, Place::Btrfs] {
        let name = format!("tree::links::attributes_on::{place:?}");
        cases.push(Case::new(name, &[Need::At(place)], move || attributes_of_links(place)));
    }
    cases
}

fn links_are_made_again() {
    let trees = Trees::new();
    trees.file("a/file", "x");
    for (target, name) in [("a", "directory"), ("a/file", "file"), ("nothing", "dangling")] {
        symlink(target, trees.source().join(name)).unwrap();
    }
    symlink("/etc", trees.source().join("absolute")).unwrap();
    let run = trees.copy(cp().arg("-p"));
    let compared = Compared { times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
    assert_eq!(number(&summary(&run), "symlinks"), 4);
}

fn links_are_left_out() {
    let trees = Trees::new();
    trees.file("file", "x");
    symlink("file", trees.source().join("link")).unwrap();
    let run = trees.copy(cp().arg("--links=skip"));
    assert_eq!(number(&summary(&run), "skipped"), 1);
    assert!(trees.destination().join("link").symlink_metadata().is_err());
}

fn links_are_followed_in_the_tree() {
    let trees = Trees::new();
    trees.file("a/b/file", "contents");
    symlink("../b/file", trees.source().join("a/b/other")).unwrap();
    symlink("a/b", trees.source().join("directory")).unwrap();
    symlink("../a/b/file", trees.source().join("a/up")).unwrap();
    trees.copy(cp().arg("--links=follow"));
    for name in ["a/b/file", "a/b/other", "directory/file", "directory/other", "a/up"] {
        let path = trees.destination().join(name);
        assert!(path.symlink_metadata().unwrap().is_file(), "{name}");
        assert_eq!(fs::read(path).unwrap(), b"contents", "{name}");
    }
}

fn links_out_of_the_tree_are_followed_only_when_asked() {
    let trees = Trees::new();
    file_in(trees.from.path(), "secret/file", "secret");
    symlink("../secret", trees.source().join("up")).unwrap();
    symlink("../secret/file", trees.source().join("file")).unwrap();
    symlink(trees.from.join("secret"), trees.source().join("absolute")).unwrap();
    let run = trees.run(cp().arg("--links=follow"));
    assert!(run.failed(1).contains("--follow-outside"), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "failed"), 3);
    assert_eq!(fs::read_dir(trees.destination()).unwrap().count(), 0);

    fs::remove_dir_all(trees.destination()).unwrap();
    trees.copy(cp().args(["--links=follow", "--follow-outside"]));
    for name in ["up/file", "file", "absolute/file"] {
        assert_eq!(fs::read(trees.destination().join(name)).unwrap(), b"secret", "{name}");
    }
    let alone = trees.run(cp().arg("--follow-outside"));
    assert!(alone.failed(2).contains("--links=follow"), "{}", alone.stderr);
}

fn a_link_to_a_directory_above_has_no_end() {
    let trees = Trees::new();
    trees.file("a/b/file", "x");
    symlink("../..", trees.source().join("a/b/root")).unwrap();
    symlink("../b", trees.source().join("a/b/self")).unwrap();
    symlink("loop", trees.source().join("loop")).unwrap();
    let run = trees.run(cp().arg("--links=follow"));
    assert!(run.failed(1).contains("has no end"), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "failed"), 3, "{}", run.stdout);
    assert_eq!(fs::read(trees.destination().join("a/b/file")).unwrap(), b"x");
}

fn a_root_that_is_a_link() {
    let trees = Trees::new();
    trees.file("file", "x");
    let link = trees.from.join("link");
    symlink("source", &link).unwrap();
    let copy = |program: testbed::Program, source: std::path::PathBuf, name: &str| {
        let run = program.arg(source).arg(trees.to.join(name)).run();
        assert!(run.status.success(), "{}", run.stderr);
        trees.to.join(name).symlink_metadata().unwrap().is_symlink()
    };
    assert!(copy(cp(), link.clone(), "made anew"));
    assert!(!copy(cp(), link.join(""), "with a slash"));
    assert!(!copy(cp().arg("--links=follow"), link, "followed"));
    assert_eq!(fs::read(trees.to.join("followed/file")).unwrap(), b"x");
}

/// Swapped between the listing, whose second call finds nothing more, and the opening of what was
/// listed. Two calls before look whether the new tree is empty.
fn swapped(name: &str, swap: impl Fn(&Trees)) {
    let trees = Trees::new();
    trees.file(name, "mine");
    file_in(trees.from.path(), "secret/file", "secret");
    let program = cp().arg("--jobs=1").arg(trees.source()).arg(trees.destination());
    let stopped = program.stop_after(SystemCall::GETDENTS64, 4);
    swap(&trees);
    let run = stopped.resume().run;
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert_eq!(events(&run, "failed").len(), 1, "{}", run.stdout);
    assert_eq!(fs::read_dir(trees.destination()).unwrap().count(), 0);
}

fn a_directory_that_becomes_a_link_is_not_followed() {
    swapped("a/file", |trees| {
        fs::rename(trees.source().join("a"), trees.from.join("b")).unwrap();
        symlink("../secret", trees.source().join("a")).unwrap();
    });
}

fn a_file_that_becomes_a_link_is_not_followed() {
    swapped("file", |trees| {
        fs::rename(trees.source().join("file"), trees.from.join("b")).unwrap();
        symlink("../secret/file", trees.source().join("file")).unwrap();
    });
}

/// `user.*` is not for links; those of the system and of root are (`xattr(7)`).
fn attributes_of_links(place: Place) {
    let trees = Trees::at(place, place);
    let given = [("trusted.of root", &b"a"[..]), ("security.of a module", &[7; 300])];
    for link in ["link", "plain"] {
        symlink("nowhere", trees.source().join(link)).unwrap();
    }
    for (name, value) in given {
        lsetxattr(trees.source().join("link"), name, value, XattrFlags::empty()).unwrap();
    }
    let compared = Compared { modes: true, times: true, attributes: true, holes: false };
    let has_none = |link: &str| llistxattr(trees.destination().join(link), &mut [0; 1000]) == Ok(0);
    for merge in [false, true] {
        let begin = || {
            if merge {
                fs::create_dir(trees.destination()).unwrap();
                symlink("elsewhere", trees.destination().join("link")).unwrap();
            }
        };
        begin();
        let run = trees.copy(cp().args(["-T", "--preserve=all"]));
        assert!(run.receipts().iter().all(|receipt| receipt.notes().is_empty()), "{}", run.stdout);
        assert_same_tree(&trees.source(), &trees.destination(), compared);
        assert!(has_none("plain"));
        fs::remove_dir_all(trees.destination()).unwrap();

        begin();
        trees.copy(cp().args(["-T", "-p"]));
        assert!(has_none("link"), "nobody asked for them");
        fs::remove_dir_all(trees.destination()).unwrap();
    }
}
