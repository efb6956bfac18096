//! The names of one file stay names of one file.

use std::fs;
use std::os::unix::fs::MetadataExt;

use testbed::{Case, Compared, Forbidden, SystemCall, assert_same_tree};
use uncopy::Errno;

use crate::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] names_in_many_directories,
        [] names_in_several_roots,
        [] names_outside_of_the_tree,
        [] merged_over_other_files,
        [] names_of_large_files,
        [] names_that_the_filesystem_refuses,
    ]
}

fn names_in_many_directories() {
    for jobs in ["--jobs=1", "--jobs=4"] {
        let trees = Trees::new();
        for directory in 0..40 {
            fs::create_dir(trees.source().join(format!("{directory}"))).unwrap();
        }
        for file in 0..40 {
            let first = trees.file(&format!("0/{file}"), format!("{file}"));
            for directory in 1..40 {
                fs::hard_link(&first, trees.source().join(format!("{directory}/{file}"))).unwrap();
            }
        }
        let run = trees.copy(cp().args([jobs, "-p"]));
        let compared = Compared { modes: true, times: true, ..Compared::default() };
        assert_same_tree(&trees.source(), &trees.destination(), compared);
        let summary = summary(&run);
        let counts = ["files", "hard_links"].map(|key| number(&summary, key));
        assert_eq!(counts, [40, 40 * 39]);
        for linked in events(&run, "linked") {
            let to = linked.value()["linked_to"].as_str().unwrap().to_owned();
            let name = linked.value()["destination"].as_str().unwrap().to_owned();
            let inode = |path: &str| fs::metadata(path).unwrap().ino();
            assert_eq!(inode(&to), inode(&name));
        }
    }
}

fn names_in_several_roots() {
    let trees = Trees::new();
    let first = trees.file("a/file", "x");
    fs::create_dir(trees.source().join("b")).unwrap();
    fs::hard_link(&first, trees.source().join("b/file")).unwrap();
    fs::hard_link(&first, trees.source().join("c")).unwrap();
    let sources = ["a", "b", "c"].map(|name| trees.source().join(name));
    let run = cp().args(sources).arg(trees.to.path()).run();
    assert!(run.status.success(), "{}", run.stderr);
    let inode = |name: &str| fs::metadata(trees.to.join(name)).unwrap().ino();
    assert_eq!(inode("a/file"), inode("b/file"));
    assert_eq!(inode("a/file"), inode("c"));
}

fn names_outside_of_the_tree() {
    let trees = Trees::new();
    let file = trees.file("file", "x");
    fs::hard_link(file, trees.from.join("outside")).unwrap();
    trees.copy(cp());
    assert_eq!(fs::metadata(trees.destination().join("file")).unwrap().nlink(), 1);
}

fn merged_over_other_files() {
    let trees = Trees::new();
    let file = trees.file("a", "new");
    for name in ["b", "c"] {
        fs::hard_link(&file, trees.source().join(name)).unwrap();
    }
    fs::create_dir(trees.destination()).unwrap();
    for name in ["a", "b"] {
        fs::write(trees.destination().join(name), "old").unwrap();
    }
    // Twice: the second time all are names of one file already.
    for _ in 0..2 {
        trees.copy(cp().arg("-T"));
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    }
}

fn names_of_large_files() {
    let trees = Trees::new();
    for number in 0..4 {
        let file = trees.file(&format!("a/{number}"), vec![number; 3 << 20]);
        fs::create_dir_all(trees.source().join("b")).unwrap();
        fs::hard_link(file, trees.source().join(format!("b/{number}"))).unwrap();
    }
    trees.copy(cp().arg("--jobs=4"));
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

/// As one without links does (`EPERM`), one whose files have few, or one that ends in the tree.
fn names_that_the_filesystem_refuses() {
    for errno in [Errno::EPERM, Errno::EMLINK, Errno::EXDEV, Errno::EOPNOTSUPP] {
        let trees = Trees::new();
        let file = trees.file("a", "x");
        for name in ["b", "c"] {
            fs::hard_link(&file, trees.source().join(name)).unwrap();
        }
        let program = cp().forbidding(&[Forbidden::Call(SystemCall::LINKAT)], errno);
        let run = trees.copy(program);
        let copied = events(&run, "copied");
        assert_eq!(copied.len(), 3, "{}", run.stdout);
        let told = |receipt: &testbed::Receipt| receipt.value()["notes"].to_string();
        let told: Vec<String> = copied.iter().map(told).filter(|notes| notes != "[]").collect();
        assert_eq!(told.len(), 2, "{}", run.stdout);
        for notes in told {
            assert!(notes.contains("refused a hard link"), "{notes}");
            assert!(notes.contains(errno.name().unwrap()), "{notes}");
        }
        let links = |name: &str| fs::metadata(trees.destination().join(name)).unwrap().nlink();
        assert_eq!(["a", "b", "c"].map(links), [1; 3]);
        for name in ["a", "b", "c"] {
            assert_eq!(fs::read(trees.destination().join(name)).unwrap(), b"x");
        }
    }
}
