//! A change between two runs is noticed by each sign alone, on both sides, and copied again.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use testbed::Case;

use crate::tree::{number, parts, resuming, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] each_sign_alone_is_enough,
        [] a_large_file_is_started_over_at_each_sign,
    ]
}

/// Sign that a file differs from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// The same inode, size and mtime: other bytes, and its time set back.
    Ctime,
    /// Another file of the same size and mtime, in its place. (It is younger as well.)
    Inode,
    /// Longer, and its time set back.
    Size,
    /// Other bytes of the same length.
    Mtime,
}

const SIGNS: [Sign; 4] = [Sign::Ctime, Sign::Inode, Sign::Size, Sign::Mtime];

fn change(path: &Path, sign: Sign) {
    let before = fs::metadata(path).unwrap();
    let times = FileTimes::new().set_modified(before.modified().unwrap());
    let changed = match sign {
        Sign::Inode => {
            let other = path.with_extension("other");
            fs::copy(path, &other).unwrap();
            fs::rename(&other, path).unwrap();
            File::options().write(true).open(path).unwrap()
        }
        _ => File::options().write(true).open(path).unwrap(),
    };
    let at = if sign == Sign::Size { before.len() } else { 0 };
    changed.write_all_at(b"other", at).unwrap();
    if sign != Sign::Mtime {
        changed.set_times(times).unwrap();
    }
    let after = fs::metadata(path).unwrap();
    let time = |metadata: &fs::Metadata| (metadata.mtime(), metadata.mtime_nsec());
    assert_eq!(before.ino() != after.ino(), sign == Sign::Inode);
    assert_eq!(before.len() != after.len(), sign == Sign::Size);
    assert_eq!(time(&before) != time(&after), sign == Sign::Mtime);
}

fn each_sign_alone_is_enough() {
    let trees = resuming::many();
    let noted = resuming::kill_after(&trees, resuming::past_one_batch(2400));
    let staged = trees.to.strangers(&[]).into_iter().find(|name| name.ends_with(".tree")).unwrap();
    let staged = trees.to.join(staged);
    // One batch was recorded: the files that were finished first.
    let mut done: Vec<(i64, i64, PathBuf)> = Vec::new();
    for directory in 0..10 {
        for entry in fs::read_dir(staged.join(directory.to_string())).into_iter().flatten() {
            let path = entry.unwrap().path();
            let metadata = fs::metadata(&path).unwrap();
            let name = path.strip_prefix(&staged).unwrap().to_owned();
            // Files with further names are known by less.
            if !name.ends_with("0/0") && !name.ends_with("linked") {
                done.push((metadata.ctime(), metadata.ctime_nsec(), name));
            }
        }
    }
    done.sort();
    for (place, sign) in SIGNS.into_iter().enumerate() {
        change(&trees.source().join(&done[place].2), sign);
        change(&staged.join(&done[SIGNS.len() + place].2), sign);
    }
    let run = resuming::program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    resuming::assert_whole(&trees);
    // These, and no other.
    assert_eq!(number(&summary(&run), "resumed"), noted - 2 * SIGNS.len() as u64);
}

fn a_large_file_is_started_over_at_each_sign() {
    for sign in SIGNS.into_iter().step_by(testbed::by_extent([2, 1, 1])) {
        let trees = crate::tree::Trees::new();
        let source = parts::dense(&trees);
        parts::kill(&trees);
        change(&source, sign);
        parts::assert_resumed(&parts::program(&trees).run(), 0);
        parts::assert_whole(&trees);
    }
}
