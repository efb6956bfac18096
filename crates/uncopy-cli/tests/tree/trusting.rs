//! Leftovers of a killed run are not taken for a user's file, and a journal that others may have
//! written is not trusted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use testbed::{
    Case, Compared, Content, Need, Place, Program, SystemCall, assert_same_tree, by_extent,
};

use crate::tree::resuming::{FEW, end_early};
use crate::tree::{Trees, cp, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] half_a_file_is_no_file_to_be_kept,
        [] temporary_files_go_whatever_is_left_out,
        [] what_became_of_another_kind_is_made_again,
        [Need::Root] finished_directories_can_be_filled,
        [] a_journal_of_others_is_not_trusted,
        [] roots_that_are_done_are_not_done_again,
        [Need::Root] a_name_of_a_file_does_for_the_others,
        [] a_mirror_keeps_what_others_are_at_work_on,
    ]
}

/// A journal's batch and more, or what is noted all the same when a run is interrupted.
fn many(trees: &Trees) {
    for number in 0..files() {
        trees.file(&format!("{}/{number}", number % 10), format!("file {number}"));
    }
}

fn files() -> usize {
    by_extent([FEW, 1500, 1500])
}

fn program(trees: &Trees, flags: &[&str]) -> Program {
    let program = cp().args(["--resume", "-pT", "--jobs=1"]).args(flags);
    program.arg(trees.source()).arg(trees.destination())
}

/// `write` for each file: its bytes, where they cannot be shared, and its record.
fn writes_each() -> usize {
    if Place::Disk.has_reflinks() { 1 } else { 2 }
}

/// Ended early after so many files, or as many less as [`many`] makes less; how many of them the journal
/// says to be done.
fn end_after(program: &Program, trees: &Trees, count: usize) -> u64 {
    end_early(program, count * files() / 1500 * writes_each());
    noted(trees)
}

/// Killed after so many files.
fn kill(program: &Program, trees: &Trees, files: usize) -> u64 {
    program.stop_after(SystemCall::WRITE, files * writes_each()).kill();
    noted(trees)
}

fn noted(trees: &Trees) -> u64 {
    let journal = testbed::journal::find(trees.to.path()).unwrap();
    let noted = testbed::journal::noted(&journal);
    assert!(noted > 0);
    noted
}

/// The tree that a killed run was building.
fn staged(trees: &Trees) -> PathBuf {
    let name = trees.to.strangers(&[]).into_iter().find(|name| name.ends_with(".tree")).unwrap();
    trees.to.join(name)
}

#[track_caller]
fn go_on(trees: &Trees, flags: &[&str]) -> u64 {
    let run = program(trees, flags).run();
    assert!(run.status.success(), "{}", run.stderr);
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
    trees.assert_no_strangers();
    number(&summary(&run), "resumed")
}

/// With `--update` and `--no-clobber` the half of a file that a killed run had written under its name
/// was taken for the caller's own, and the tree appeared with it.
fn half_a_file_is_no_file_to_be_kept() {
    for flag in ["--update", "--no-clobber"] {
        let trees = Trees::new();
        Content::dense(3 << 20).write(&trees.source().join("large"));
        let flags = [flag, "--method=read-write"];
        program(&trees, &flags).stop_after(SystemCall::PWRITE64, 5).kill();
        let half = fs::read(staged(&trees).join("large")).unwrap();
        assert!(half != fs::read(trees.source().join("large")).unwrap());
        go_on(&trees, &flags);
    }
}

fn temporary_files_go_whatever_is_left_out() {
    let trees = Trees::new();
    many(&trees);
    let flags = ["--exclude=.*"];
    let noted = end_after(&program(&trees, &flags), &trees, 1100);
    let name = format!(".uncopy-{}-{}.tmp", "0".repeat(16), "1".repeat(32));
    // Which directories are there depends on the order in which the source is listed.
    let entries = fs::read_dir(staged(&trees)).unwrap().map(|entry| entry.unwrap().path());
    let directory = entries.into_iter().find(|path| path.is_dir()).unwrap();
    fs::write(directory.join(name), "half").unwrap();
    assert_eq!(go_on(&trees, &flags), noted);
}

fn what_became_of_another_kind_is_made_again() {
    let trees = Trees::new();
    many(&trees);
    trees.file("directory/in it", "x");
    trees.file("file", "x");
    std::os::unix::fs::symlink("file", trees.source().join("link")).unwrap();
    end_after(&program(&trees, &[]), &trees, 1490);
    let staged = staged(&trees);
    for name in ["directory", "file", "link"] {
        // It may not have come so far.
        let path = staged.join(name);
        if path.symlink_metadata().is_err() && name == "directory" {
            fs::create_dir(path).unwrap();
        } else if path.symlink_metadata().is_err() {
            fs::write(path, "half").unwrap();
        }
    }
    fs::remove_dir_all(trees.source().join("directory")).unwrap();
    fs::write(trees.source().join("directory"), "a file now").unwrap();
    for name in ["file", "link"] {
        fs::remove_file(trees.source().join(name)).unwrap();
        trees.file(&format!("{name}/in it"), "a directory now");
    }
    go_on(&trees, &[]);
}

/// Files that were done and not noted are made again in directories that have their modes already.
fn finished_directories_can_be_filled() {
    const USER: u32 = 65534;
    let trees = Trees::new();
    for number in 0..1500 {
        trees.file(&format!("{}/{number}", number % 10), format!("file {number}"));
    }
    for number in 0..10 {
        let path = trees.source().join(number.to_string());
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    fs::set_permissions(trees.to.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = || program(&trees, &["--preserve=mode,timestamps"]).as_user(USER);
    let noted = kill(&program(), &trees, 1475);
    let run = program().run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "resumed"), noted);
    let compared = Compared { times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
    trees.assert_no_strangers();
    for number in 0..10 {
        let mode =
            fs::metadata(trees.destination().join(number.to_string())).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o555);
    }
}

fn a_journal_of_others_is_not_trusted() {
    let trees = Trees::new();
    many(&trees);
    let noted = end_after(&program(&trees, &[]), &trees, 1100);
    let name = trees.to.strangers(&[]).into_iter().find(|n| n.ends_with(".journal")).unwrap();
    let journal = trees.to.join(name);
    let refused = |why: &str| {
        let run = program(&trees, &[]).run();
        assert!(run.failed(1).contains("not trusted"), "{why}: {}", run.stderr);
        assert!(run.stderr.contains("remove"), "{why}: {}", run.stderr);
        assert!(!trees.destination().exists(), "{why}");
    };
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o666)).unwrap();
    refused("others may write to it");
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o600)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&journal, Some(65534), None).unwrap();
        refused("it is another user's");
        std::os::unix::fs::chown(&journal, Some(0), None).unwrap();
    }
    let elsewhere = trees.from.join("elsewhere");
    fs::hard_link(&journal, &elsewhere).unwrap();
    refused("it has another name");
    fs::remove_file(&journal).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &journal).unwrap();
    refused("it is a link");
    fs::remove_file(&journal).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &journal, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    refused("it is a FIFO");
    fs::remove_file(&journal).unwrap();
    fs::rename(&elsewhere, &journal).unwrap();
    assert_eq!(go_on(&trees, &[]), noted);
}

fn roots_that_are_done_are_not_done_again() {
    let trees = Trees::new();
    let first = by_extent([100, 1500, 1500]);
    for (root, files) in [("a", first), ("b", 1500)] {
        for number in 0..files {
            trees.file(&format!("{root}/{number}"), format!("file {number}"));
        }
    }
    fs::create_dir(trees.destination()).unwrap();
    let program = || {
        let roots = ["a", "b"].map(|root| trees.source().join(root));
        cp().args(["--resume", "-p", "--jobs=1"]).args(roots).arg(trees.destination())
    };
    // The second root's first batch is noted.
    program().stop_after(SystemCall::WRITE, writes_each() * (first + 1200)).kill();
    assert!(trees.destination().join("a").exists() && !trees.destination().join("b").exists());
    let entries = fs::read_dir(trees.destination()).unwrap().map(|entry| entry.unwrap().path());
    let journals = entries.filter(|path| path.extension().is_some_and(|end| end == "journal"));
    let noted: u64 = journals.map(|path| testbed::journal::noted(&path)).sum();
    assert!(noted > first as u64, "of both: {noted}");
    let run = program().run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    assert_eq!(trees.to.strangers(&["destination"]).len(), 0);
    let left = fs::read_dir(trees.destination()).unwrap().count();
    assert_eq!(left, 2, "the trees alone");
    assert_eq!(number(&summary(&run), "resumed"), noted);
}

/// A job at work beside what it writes, in the destination of another that mirrors. Names alone are
/// names like any others.
fn a_mirror_keeps_what_others_are_at_work_on() {
    let trees = Trees::new();
    trees.file("file", "x");
    let random = "0123456789abcdef".repeat(2);
    let names = |digest: &str| {
        let ends = [".journal".to_owned(), format!("-{random}.tmp"), format!("-{random}.tree")];
        ends.map(|end| format!(".uncopy-{}{end}", digest.repeat(16)))
    };
    let (at_work, idle) = (names("a"), names("b"));
    for name in at_work.iter().chain(&idle) {
        crate::tree::file_in(&trees.destination(), name, "another's");
    }
    crate::tree::file_in(&trees.destination(), "stranger", "x");
    let locked: Vec<_> = at_work
        .iter()
        .map(|name| {
            let file = fs::File::open(trees.destination().join(name)).unwrap();
            file.lock().unwrap();
            file
        })
        .collect();
    let run = trees.copy(cp().args(["-T", "--delete"]));
    assert_eq!(number(&summary(&run), "deleted"), 1 + idle.len() as u64);
    for name in &at_work {
        assert!(trees.destination().join(name).exists(), "{name}");
    }
    drop(locked);
    let run = trees.copy(cp().args(["-T", "--delete"]));
    assert_eq!(number(&summary(&run), "deleted"), at_work.len() as u64);
}

/// Which of the names of a file comes first is chance: what was copied under one of them is not
/// copied again under another.
fn a_name_of_a_file_does_for_the_others() {
    const USER: u32 = 65534;
    const DIRECTORIES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let trees = Trees::new();
    fs::set_permissions(trees.to.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for number in 0..1100 {
        let file = trees.file(&format!("a/{number}"), format!("file {number}"));
        for name in &DIRECTORIES[1..] {
            fs::create_dir_all(trees.source().join(name)).unwrap();
            fs::hard_link(&file, trees.source().join(format!("{name}/{number}"))).unwrap();
        }
    }
    // One of the directories alone can be read at first.
    let set_mode = |mode: u32| {
        for name in &DIRECTORIES[1..] {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(trees.source().join(name), mode).unwrap();
        }
    };
    set_mode(0);
    let program = || program(&trees, &["--preserve=mode,timestamps"]).as_user(USER);
    let noted = kill(&program(), &trees, 1065);
    set_mode(0o755);
    let run = program().run();
    assert!(run.status.success(), "{}", run.stderr);
    let compared = Compared { times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
    trees.assert_no_strangers();
    let summary = summary(&run);
    assert_eq!(number(&summary, "files"), 1100 - noted, "{}", summary.value());
}
