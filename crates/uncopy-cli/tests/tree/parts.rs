//! A large file that was interrupted in its middle goes on behind its last chunk.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use testbed::witness::{Strace, allocated_bytes};
use testbed::{Case, Compared, Content, Need, Place, Program, Run, SystemCall, assert_same_tree};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] an_interrupt_keeps_what_is_copied,
        [] damage_is_copied_again_and_what_is_behind_it,
        [] a_source_that_changed_is_started_over,
        [] what_was_begun_of_a_vanished_source_goes,
        [] what_somebody_else_put_there_is_not_gone_on_with,
        [] single_files_have_their_own_journals,
        [Need::Root] a_file_that_has_its_name_and_is_not_noted_goes_on,
        [Need::Root, Need::Tool("strace")] a_file_that_was_merged_and_is_not_noted_is_done,
        [] a_single_file_that_has_its_name_is_done,
        [] a_merged_file_that_somebody_changed_is_copied_again,
    ];
    for place in [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs] {
        for merged in [false, true] {
            for sparse in [false, true] {
                let needs = [Need::At(place), Need::Tool("strace")];
                let name = format!(
                    "tree::parts::a_killed_file_goes_on::{place:?}{}{}",
                    if merged { "_merged" } else { "" },
                    if sparse { "_sparse" } else { "" },
                );
                cases.push(Case::new(name, &needs, move || {
                    a_killed_file_goes_on(place, merged, sparse);
                }));
            }
        }
    }
    cases
}

const MEBIBYTE: u64 = 1 << 20;

/// No multiple of a chunk, nor of a block.
const SIZE: u64 = 84 * MEBIBYTE + 12_345;

/// Killed after so many writes of 256 KiB, with those to the journal: of 74 MiB.
const WRITES: usize = 300;

pub(crate) fn dense(trees: &Trees) -> PathBuf {
    let path = trees.source().join("large");
    Content::dense(SIZE).write(&path);
    path
}

pub(crate) fn program(trees: &Trees) -> Program {
    let program = cp().args(["--resume", "-pT", "--jobs=1", "--method=read-write"]);
    program.arg(trees.source()).arg(trees.destination())
}

pub(crate) fn kill(trees: &Trees) {
    program(trees).stop_after(SystemCall::PWRITE64, WRITES).kill();
}

/// Up to where files are noted.
fn noted(trees: &Trees) -> BTreeMap<PathBuf, u64> {
    testbed::journal::parts(&testbed::journal::find(trees.to.path()).unwrap())
}

/// The temporary file below a directory.
fn temporary(below: &Path) -> Option<PathBuf> {
    let mut found = None;
    for entry in fs::read_dir(below).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found = found.or_else(|| temporary(&entry.path())),
            false if entry.file_name().to_string_lossy().ends_with(".tmp") => {
                found = Some(entry.path());
            }
            false => {}
        }
    }
    found
}

#[track_caller]
pub(crate) fn assert_whole(trees: &Trees) {
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
    trees.assert_no_strangers();
}

/// The run copied what the one before had not recorded, and reported it.
#[track_caller]
pub(crate) fn assert_resumed(run: &Run, bytes: u64) {
    assert!(run.status.success(), "{}", run.stderr);
    let copied = events(run, "copied");
    let resumed = copied[0].value()["resumed_bytes"].as_u64().unwrap_or(0);
    assert_eq!(resumed, bytes, "{}", copied[0].value());
    assert_eq!(summary(run).value()["resumed_bytes"].as_u64().unwrap_or(0), bytes);
}

fn a_killed_file_goes_on(place: Place, merged: bool, sparse: bool) {
    let trees = Trees::at(Place::Disk, place);
    let source = trees.source().join("large");
    // Behind a hole of whole chunks, and with holes in chunks.
    let data = [(0, 30 * MEBIBYTE), (60 * MEBIBYTE, 10 * MEBIBYTE), (80 * MEBIBYTE, 70 * MEBIBYTE)];
    let (content, size) = match sparse {
        true => (Content::sparse(170 * MEBIBYTE + 1, &data), 170 * MEBIBYTE + 1),
        false => (Content::dense(SIZE), SIZE),
    };
    content.write(&source);
    if merged {
        fs::create_dir(trees.destination()).unwrap();
        fs::write(trees.destination().join("large"), "old").unwrap();
    }
    kill(&trees);
    let noted = noted(&trees);
    let temporary = temporary(trees.to.path()).expect("it is being written");
    assert_eq!(fs::metadata(&temporary).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(merged, trees.destination().join("large").exists());
    let (run, trace) = Strace::new(&program(&trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    let resumed = number(&summary(&run), "resumed_bytes");
    // Noted after 64 MiB, or less and more if it was so slow that the clock had its say.
    assert!(resumed > 0 && resumed.is_multiple_of(8 * MEBIBYTE), "{resumed}");
    assert_eq!(noted.get(Path::new("large")), Some(&resumed));
    let rest: u64 = content_behind(sparse, &data, resumed, size);
    let written = trace.bytes(&["pwrite64", "write"], trees.to.path());
    // The journal is beside it.
    assert!((rest..rest + 4096).contains(&written), "{written} written, {rest} were missing");
    assert_whole(&trees);
    let copy = trees.destination().join("large");
    if sparse {
        assert!(allocated_bytes(&copy) <= allocated_bytes(&source) + MEBIBYTE);
    }
    // With what lies behind the end: XFS allocates ahead.
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    assert!(blocks(&copy) <= blocks(&source) + MEBIBYTE, "{} bytes of blocks", blocks(&copy));
}

/// Bytes of data from `from` on.
fn content_behind(sparse: bool, data: &[(u64, u64)], from: u64, size: u64) -> u64 {
    if !sparse {
        return size - from;
    }
    data.iter().map(|(start, length)| (start + length).saturating_sub(from.max(*start))).sum()
}

fn an_interrupt_keeps_what_is_copied() {
    let trees = Trees::new();
    dense(&trees);
    // Before anything was noted: that is done now, for whole chunks.
    let stopped = program(&trees).stop_after(SystemCall::PWRITE64, 170);
    let run = stopped.resume_with(Signal::INT).run;
    run.died_of(2);
    let run = program(&trees).run();
    let resumed = number(&summary(&run), "resumed_bytes");
    // A slow machine writes fewer bytes by one call.
    assert!((10 * MEBIBYTE..60 * MEBIBYTE).contains(&resumed), "{resumed}");
    assert_resumed(&run, resumed);
    assert_whole(&trees);
}

fn damage_is_copied_again_and_what_is_behind_it() {
    for (damage, expected) in
        [(0, 0), (20 * MEBIBYTE, 16 * MEBIBYTE), (63 * MEBIBYTE, 56 * MEBIBYTE)]
    {
        let trees = Trees::new();
        dense(&trees);
        kill(&trees);
        let temporary = temporary(trees.to.path()).unwrap();
        let file = OpenOptions::new().write(true).open(temporary).unwrap();
        let other: Vec<u8> =
            testbed::patterned(damage, 16).iter().map(|byte| byte ^ 0x55).collect();
        file.write_all_at(&other, damage).unwrap();
        assert_resumed(&program(&trees).run(), expected);
        assert_whole(&trees);
    }
}

fn a_source_that_changed_is_started_over() {
    for merged in [false, true] {
        let trees = Trees::new();
        let source = dense(&trees);
        if merged {
            fs::create_dir(trees.destination()).unwrap();
        }
        kill(&trees);
        let file = OpenOptions::new().write(true).open(source).unwrap();
        file.write_all_at(b"changed", 5000).unwrap();
        assert_resumed(&program(&trees).run(), 0);
        assert_whole(&trees);
    }
}

fn what_was_begun_of_a_vanished_source_goes() {
    let trees = Trees::new();
    let source = trees.source().join("a");
    fs::create_dir(&source).unwrap();
    fs::rename(dense(&trees), source.join("large")).unwrap();
    fs::create_dir(trees.destination()).unwrap();
    kill(&trees);
    fs::remove_file(source.join("large")).unwrap();
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_whole(&trees);
}

fn what_somebody_else_put_there_is_not_gone_on_with() {
    let trees = Trees::new();
    dense(&trees);
    fs::create_dir(trees.destination()).unwrap();
    kill(&trees);
    // Another file of the same name and contents.
    let temporary = temporary(trees.to.path()).unwrap();
    fs::copy(&temporary, trees.from.join("other")).unwrap();
    fs::remove_file(&temporary).unwrap();
    fs::copy(trees.from.join("other"), &temporary).unwrap();
    let blocker = fs::File::open(&temporary).unwrap();
    blocker.lock().unwrap();
    assert_resumed(&program(&trees).run(), 0);
    // Whose it is nobody knows.
    assert!(temporary.exists());
    fs::remove_file(temporary).unwrap();
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    trees.assert_no_strangers();
}

fn single_files_have_their_own_journals() {
    let trees = Trees::new();
    let source = dense(&trees);
    let names = ["a.bin", "a.txt"].map(|name| trees.source().join(name));
    fs::rename(source, &names[0]).unwrap();
    Content::dense(SIZE + 7).write(&names[1]);
    let program = |name: &Path| {
        let program = cp().args(["--resume", "-p", "--jobs=1", "--method=read-write"]);
        program.arg(name).arg(trees.to.path())
    };
    for name in &names {
        program(name).stop_after(SystemCall::PWRITE64, WRITES).kill();
    }
    // A journal and a temporary file for each.
    assert_eq!(trees.to.strangers(&[]).len(), 4);
    for name in &names {
        let run = program(name).run();
        let resumed = number(&summary(&run), "resumed_bytes");
        assert!(resumed > 0, "{resumed}");
        assert_resumed(&run, resumed);
        testbed::assert_same(name, &trees.to.join(name.file_name().unwrap()));
    }
    let left = trees.to.strangers(&["a.bin", "a.txt"]);
    assert!(left.is_empty(), "{left:?}");
}

/// Killed when a large file got its name, and before that was noted with others.
fn a_file_that_has_its_name_and_is_not_noted_goes_on() {
    let trees = Trees::new();
    let source = dense(&trees);
    // As nobody could go on writing to it.
    fs::set_permissions(&source, fs::Permissions::from_mode(0o444)).unwrap();
    chown(&source, Some(1234), Some(1234)).unwrap();
    program(&trees).stop_after(SystemCall::RENAMEAT2, 1).kill();
    assert!(temporary(trees.to.path()).is_none(), "it has its name");
    // Every chunk was noted before.
    assert!(noted(&trees)[Path::new("large")] >= SIZE);
    assert_resumed(&program(&trees).run(), SIZE);
    assert_whole(&trees);
}

/// Killed when a large file had its name in a destination that was there, and was noted nowhere.
fn a_file_that_was_merged_and_is_not_noted_is_done() {
    for old in [None, Some("old")] {
        let trees = Trees::new();
        let source = dense(&trees);
        fs::set_permissions(&source, fs::Permissions::from_mode(0o444)).unwrap();
        chown(&source, Some(1234), Some(1234)).unwrap();
        fs::create_dir(trees.destination()).unwrap();
        let copy = trees.destination().join("large");
        if let Some(old) = old {
            fs::write(&copy, old).unwrap();
        }
        let before = merged_and_killed(&trees, &copy);
        let (run, trace) = Strace::new(&program(&trees)).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!((number(&summary(&run), "resumed"), number(&summary(&run), "files")), (1, 0));
        let written = trace.bytes(&["pwrite64", "write"], trees.to.path());
        assert!(written < 4096, "{written} written: more than the journal");
        assert_eq!(before, fs::metadata(&copy).unwrap().ino(), "another file");
        assert_whole(&trees);
    }
}

fn a_single_file_that_has_its_name_is_done() {
    let trees = Trees::new();
    let source = dense(&trees);
    let copy = trees.to.join("copy");
    let program = || {
        let program = cp().args(["--resume", "-p", "--method=read-write"]);
        program.arg(&source).arg(&copy)
    };
    program().stop_after(SystemCall::RENAMEAT, 1).kill();
    assert!(copy.exists());
    let run = program().run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "resumed"), 1, "{}", run.stdout);
    testbed::assert_same(&source, &copy);
    assert!(trees.to.strangers(&["copy"]).is_empty());
}

/// In what was noted, or behind it; or the file is another one.
fn a_merged_file_that_somebody_changed_is_copied_again() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("begin", |copy| write_at(copy, 5000)),
        ("end", |copy| write_at(copy, SIZE - 7)),
        ("length", |copy| write_at(copy, SIZE)),
        ("inode", |copy| {
            let other = copy.with_file_name("other");
            fs::copy(copy, &other).unwrap();
            fs::rename(other, copy).unwrap();
        }),
    ];
    for (what, change) in changes {
        let trees = Trees::new();
        dense(&trees);
        fs::create_dir(trees.destination()).unwrap();
        let copy = trees.destination().join("large");
        merged_and_killed(&trees, &copy);
        change(&copy);
        let run = program(&trees).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(number(&summary(&run), "files"), 1, "{what}: {}", run.stdout);
        assert_whole(&trees);
    }
}

fn write_at(path: &Path, offset: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(b"changed", offset).unwrap();
}

/// Kills the job when the file has its name; returns its inode.
fn merged_and_killed(trees: &Trees, copy: &Path) -> u64 {
    program(trees).stop_after(SystemCall::RENAMEAT, 1).kill();
    assert!(temporary(trees.to.path()).is_none(), "it has its name");
    assert!(noted(trees)[Path::new("large")] > 0);
    let found = fs::metadata(copy).unwrap();
    assert_eq!(found.len(), SIZE);
    found.ino()
}
