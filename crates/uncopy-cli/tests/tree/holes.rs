//! Small files whose block count does not show their holes, because they have blocks of attributes too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::XattrFlags;
use testbed::witness::{Strace, data_runs};
use testbed::{Case, Compared, Content, Need, Place, assert_same_tree};

use crate::tree::{Trees, cp, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [Need::Tool("strace")] written_zeros_are_asked_about_once,
    ];
    for place in [Place::Ext4, Place::Xfs, Place::Btrfs] {
        let name = format!("tree::holes::attributes_hide_none_on::{place:?}");
        cases.push(Case::new(name, &[Need::At(place)], move || attributes_hide_none(place)));
    }
    cases
}

const BLOCK: u64 = 4096;

/// Name, length, and where there is data.
type Shape = (&'static str, u64, &'static [(u64, u64)]);

/// A hole at the beginning, in the middle, at the end, and nothing else.
const SHAPES: [Shape; 6] = [
    ("beginning", 2 * BLOCK, &[(BLOCK, BLOCK)]),
    ("middle", 3 * BLOCK, &[(0, BLOCK), (2 * BLOCK, BLOCK)]),
    ("end", 2 * BLOCK, &[(0, BLOCK)]),
    ("within a block", 60_000, &[(0, 40_960), (45_056, 14_944)]),
    ("tail", 5 * BLOCK + 7, &[(0, 5 * BLOCK)]),
    ("all", BLOCK, &[]),
];

/// More than fits an inode, so that it gets a block (`fs/ext4/xattr.c`, `fs/xfs/libxfs/xfs_attr_leaf.c`).
fn give_attribute_block(path: &Path) {
    rustix::fs::setxattr(path, "user.large", &[0xA5; 3000], XattrFlags::empty()).unwrap();
}

fn attributes_hide_none(place: Place) {
    let trees = Trees::at(place, place);
    for (name, length, data) in SHAPES {
        let path = trees.source().join(name);
        drop(Content::sparse(length, data).write(&path));
        give_attribute_block(&path);
        fs::File::open(&path).unwrap().sync_all().unwrap();
        let metadata = path.metadata().unwrap();
        if place != Place::Btrfs {
            assert!(
                metadata.blocks() * 512 >= metadata.len(),
                "{name}: its block count shows the hole"
            );
        }
        let held: u64 = data_runs(&path).iter().map(|run| run.1).sum();
        assert!(held < length, "{name}: the source has no hole");
    }
    for flags in [&["--no-zero-copy"][..], &["--no-zero-copy", "-p"], &["--preserve=all"], &[]] {
        for merge in [false, true] {
            if merge {
                fs::create_dir(trees.destination()).unwrap();
            }
            let run = trees.copy(cp().arg("-T").args(flags));
            let compared = Compared { holes: true, ..Compared::default() };
            assert_same_tree(&trees.source(), &trees.destination(), compared);
            assert_eq!(number(&summary(&run), "files"), SHAPES.len() as u64);
            fs::remove_dir_all(trees.destination()).unwrap();
        }
    }
    // A single one, too.
    for (name, ..) in SHAPES {
        let (source, copy) = (trees.source().join(name), trees.destination());
        let run = cp().arg("--no-zero-copy").arg(&source).arg(&copy).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(data_runs(&copy), data_runs(&source), "{name}");
        fs::remove_file(copy).unwrap();
    }
    // Where holes are to be filled they are.
    let _ = trees.copy(cp().args(["--no-zero-copy", "--sparse=never"]));
    for (name, length, _) in SHAPES {
        assert_eq!(data_runs(&trees.destination().join(name)), [(0, length)], "{name}");
    }
}

/// Dense data is copied as it is, and holes are queried only in a file that has zeros.
fn written_zeros_are_asked_about_once() {
    let trees = Trees::new();
    for number in 0..20 {
        trees.file(&format!("dense {number}"), vec![7; 10_000]);
    }
    let zeros = trees.file("zeros", vec![0; 10_000]);
    fs::File::open(zeros).unwrap().sync_all().unwrap();
    let program = cp().args(["--jobs=1", "--no-zero-copy"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let (run, trace) = Strace::new(&program).run();
    assert!(run.status.success(), "{}", run.stderr);
    let mut calls = trace.named(&["lseek"]);
    // A build that measures coverage has a file of its own.
    calls.retain(|call| call.mentions(&trees.source()));
    assert_eq!(calls.len(), 1, "{calls:?}");
    let compared = Compared { holes: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
}
