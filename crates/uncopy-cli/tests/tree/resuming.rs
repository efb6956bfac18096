//! Work of a killed run is not repeated, and nothing is trusted that may have changed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use testbed::{
    Case, Compared, Content, Filesystem, Mount, Need, Place, Program, Scratch, SystemCall,
    assert_same_tree, by_extent, run_tool,
};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_killed_run_is_continued,
        [] a_killed_merge_is_continued,
        [] an_interrupted_run_keeps_what_it_did,
        [] what_changed_is_copied_again,
        [] a_damaged_journal_is_not_trusted,
        [] another_job_does_not_go_by_it,
        [] two_runs_do_not_share_a_journal,
        [] killed_again_and_again,
        [Need::Root, Need::Tool("xfs_io"), Need::Tool("mkfs.xfs")]
            what_is_noted_survives_a_power_cut,
        [] a_whole_run_leaves_no_journal,
        [] killed_when_the_tree_has_its_name,
        [] another_directory_of_that_name_takes_the_copy_in,
        [Need::Root, Need::Tool("setpriv")] a_killed_merge_of_protected_entries_is_continued,
        [Need::Root, Need::Tool("setpriv")] what_a_user_protects_is_no_copy_of_a_killed_run,
        [] names_of_one_file_stay_together_after_a_kill,
    ]
}

/// Two batches of the journal (`BATCH_FILES`) and more.
pub(crate) const FILES: usize = 2500;

/// More files than one batch of the journal.
pub(crate) fn many() -> Trees {
    many_files(file_count())
}

/// How many files [`many`] makes.
fn file_count() -> usize {
    by_extent([1250, FILES, FILES])
}

/// A few files: enough for a run that is interrupted, which notes them at once.
pub(crate) const FEW: usize = 60;

/// Ends a run after so many of its writes: by a kill, and in the short extent by an interrupt, so that no
/// batch of the journal has to be filled.
pub(crate) fn end_early(program: &Program, writes: usize) {
    let stopped = program.stop_after(SystemCall::WRITE, writes);
    if by_extent([true, false, false]) {
        let run = stopped.resume_with(Signal::INT).run;
        run.died_of(2);
    } else {
        stopped.kill();
    }
}

/// Files of which a run that ended early has done some.
fn begun() -> Trees {
    let trees = many_files(by_extent([FEW, FILES, FILES]));
    end_early(&program(&trees), 2 * by_extent([FEW / 2, 1500, 1500]));
    trees
}

/// A number of files at which one batch is noted, and the last is not: `files` at full extent.
pub(crate) fn past_one_batch(files: usize) -> usize {
    by_extent([1150, files, files])
}

/// Two batches, however long the first one was written to the disk.
pub(crate) fn two_batches() -> Trees {
    many_files(FILES)
}

fn many_files(count: usize) -> Trees {
    let trees = Trees::apart();
    for number in 0..count {
        trees.file(&format!("{}/{number}", number % 10), format!("file {number}"));
    }
    fs::hard_link(trees.source().join("0/0"), trees.source().join("1/linked")).unwrap();
    symlink("0", trees.source().join("link")).unwrap();
    trees
}

pub(crate) fn program(trees: &Trees) -> Program {
    let program = cp().args(["--resume", "-pT", "--jobs=1"]);
    program.arg(trees.source()).arg(trees.destination())
}

fn journal(trees: &Trees) -> Option<PathBuf> {
    testbed::journal::find(trees.to.path())
}

/// Killed after `files` of them, of which whole batches are in the journal: each is written, and its
/// record printed. Returns how many the journal says to be done.
pub(crate) fn kill_after(trees: &Trees, files: usize) -> u64 {
    kill_after_writes(trees, files * 2)
}

fn kill_after_writes(trees: &Trees, writes: usize) -> u64 {
    program(trees).stop_after(SystemCall::WRITE, writes).kill();
    testbed::journal::noted(&journal(trees).unwrap())
}

#[track_caller]
pub(crate) fn assert_whole(trees: &Trees) {
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
    trees.assert_no_strangers();
}

fn a_killed_run_is_continued() {
    let trees = many();
    let noted = kill_after(&trees, past_one_batch(1500));
    // A batch, or what was done when the clock had its say.
    assert!(noted > 0);
    assert!(!trees.destination().exists());
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_whole(&trees);
    let summary = summary(&run);
    assert_eq!(number(&summary, "resumed"), noted, "{}", summary.value());
    assert_eq!(number(&summary, "files"), file_count() as u64 - noted);
    assert_eq!(events(&run, "resumed").len() as u64, noted);
}

fn a_killed_merge_is_continued() {
    let trees = many();
    crate::tree::file_in(&trees.destination(), "0/0", "old");
    // Files are written without a name there.
    let noted = kill_after(&trees, past_one_batch(2100));
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_whole(&trees);
    assert_eq!(number(&summary(&run), "resumed"), noted);
}

fn an_interrupted_run_keeps_what_it_did() {
    let trees = many();
    let stopped = program(&trees).stop_after(SystemCall::WRITE, 300);
    let run = stopped.resume_with(Signal::INT).run;
    run.died_of(2);
    assert!(run.stderr.contains("continues from here"), "{}", run.stderr);
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_whole(&trees);
    // Finished work is flushed and recorded before the program ends.
    let resumed = number(&summary(&run), "resumed");
    assert!((145..=155).contains(&resumed), "{resumed}");
}

fn what_changed_is_copied_again() {
    let trees = many();
    let noted = kill_after(&trees, past_one_batch(2400));
    // On both sides, by contents of the same length; gone; and another kind.
    let staged = trees.to.strangers(&[]).into_iter().find(|name| name.ends_with(".tree")).unwrap();
    let staged = trees.to.join(staged);
    let mut done: Vec<PathBuf> = Vec::new();
    for directory in 0..10 {
        let entries = fs::read_dir(staged.join(directory.to_string()));
        let entries = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
        done.extend(entries.map(|path| path.strip_prefix(&staged).unwrap().to_owned()));
    }
    let plain = |path: &&PathBuf| !path.ends_with("0") && !path.ends_with("linked");
    let done: Vec<&PathBuf> = done.iter().filter(plain).take(3).collect();
    let other = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap().replace("file", "eliF");
        fs::write(path, text).unwrap();
    };
    other(trees.source().join(done[0]));
    other(staged.join(done[1]));
    fs::remove_file(trees.source().join(done[2])).unwrap();
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_whole(&trees);
    assert!(number(&summary(&run), "resumed") >= noted - 3);
}

fn a_damaged_journal_is_not_trusted() {
    let trees = begun();
    let journal = journal(&trees).unwrap();
    let mut bytes = fs::read(&journal).unwrap();
    bytes[100] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let run = program(&trees).run();
    assert!(run.failed(1).contains("damaged"), "{}", run.stderr);
    assert!(run.stderr.contains("remove"), "{}", run.stderr);
    assert!(!trees.destination().exists());
    fs::remove_file(journal).unwrap();
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    // Nothing shows any more whose it is.
    let staged = trees.to.strangers(&["destination"]);
    assert!(staged.len() == 1 && run.stderr.contains(&staged[0]), "{staged:?}: {}", run.stderr);
    fs::remove_dir_all(trees.to.join(&staged[0])).unwrap();
    assert_whole(&trees);
}

fn another_job_does_not_go_by_it() {
    let trees = begun();
    let other = program(&trees).arg("--sparse=always").run();
    assert!(other.failed(1).contains("other flags"), "{}", other.stderr);
    assert!(program(&trees).run().status.success());
    assert_whole(&trees);
}

fn two_runs_do_not_share_a_journal() {
    let trees = many_files(FEW);
    let stopped = program(&trees).stop_after(SystemCall::WRITE, FEW);
    let other = program(&trees).run();
    assert!(other.failed(1).contains("another run"), "{}", other.stderr);
    let run = stopped.resume().run;
    assert!(run.status.success(), "{}", run.stderr);
    assert_whole(&trees);
}

fn killed_again_and_again() {
    let trees = two_batches();
    kill_after(&trees, 1100);
    // The records of those that are done, and 1288 more files.
    let noted = kill_after_writes(&trees, 1024 + 2 * 1288);
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    let copied = number(&summary(&run), "files");
    assert_whole(&trees);
    assert_eq!(copied, FILES as u64 - noted);
}

fn a_whole_run_leaves_no_journal() {
    let trees = many_files(by_extent([FEW, FILES, FILES]));
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_whole(&trees);
    assert_eq!(number(&summary(&run), "resumed"), 0);
}

/// The filesystem is mounted anew then, and its device may have another number.
fn what_is_noted_survives_a_power_cut() {
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        for merged in [false, true] {
            let mount = Mount::image(filesystem, 512);
            let trees = Trees { from: Place::Disk.scratch(), to: Scratch::new_in(mount.path()) };
            fs::create_dir(trees.source()).unwrap();
            for number in 0..1500 {
                trees.file(&format!("{}/{number}", number % 10), format!("file {number}"));
            }
            Content::dense(127 << 20).write(&trees.source().join("0/large"));
            if merged {
                fs::create_dir(trees.destination()).unwrap();
            }
            rustix::fs::syncfs(fs::File::open(mount.path()).unwrap()).unwrap();
            let program = program(&trees).arg("--no-zero-copy");
            // Past the first chunk of the large file, which has 508 writes and may come anywhere among
            // the journal's, however many of those there are.
            program.stop_after(SystemCall::PWRITE64, 430).kill();
            let noted = testbed::journal::noted(&journal(&trees).unwrap());
            mount.cut_power();
            mount.restore_power();
            let run = program.run();
            assert!(run.status.success(), "{}", run.stderr);
            assert_whole(&trees);
            let summary = summary(&run);
            assert_eq!(number(&summary, "resumed"), noted, "{}", summary.value());
            assert!(number(&summary, "resumed_bytes") > 0, "{}", summary.value());
        }
    }
}

/// As people write it: a destination that is there takes the source in.
fn into(trees: &Trees) -> Program {
    let program = cp().args(["--resume", "-p", "--jobs=1"]);
    program.arg(trees.source()).arg(trees.destination())
}

/// Killed between the only rename and the removal of the journal.
fn kill_at_the_end(trees: &Trees) {
    into(trees).stop_after(SystemCall::RENAMEAT2, 1).kill();
    assert!(trees.destination().exists());
    assert!(journal(trees).is_some());
}

fn killed_when_the_tree_has_its_name() {
    let trees = many();
    kill_at_the_end(&trees);
    let run = into(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(!trees.destination().join("source").exists(), "it was copied into its own copy");
    assert_whole(&trees);
    assert!(number(&summary(&run), "resumed") > 0);
    // The job is finished: the next run copies into the tree, as without a journal.
    let run = into(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(
        &trees.source(),
        &trees.destination().join("source"),
        Compared { modes: true, times: true, ..Compared::default() },
    );
}

fn another_directory_of_that_name_takes_the_copy_in() {
    let trees = many_files(FEW);
    kill_at_the_end(&trees);
    fs::rename(trees.destination(), trees.to.join("moved")).unwrap();
    fs::create_dir(trees.destination()).unwrap();
    let run = into(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    let taken_in = trees.destination().join("source");
    assert_same_tree(&trees.source(), &taken_in, Compared::default());
    // Other flags make it another job.
    let trees = many_files(FEW);
    kill_at_the_end(&trees);
    let run = into(&trees).arg("--sparse=always").run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(trees.destination().join("source").exists());
}

/// A user without privileges.
const USER: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Merges the source into the destination, as [`USER`].
fn merge_as_user(trees: &Trees, flags: &[&str]) -> Program {
    let program = cp().args(["--resume", "-T", "--jobs=1"]).args(flags);
    program.arg(trees.source()).arg(trees.destination()).as_user(USER)
}

/// Gives both sides to [`USER`].
fn give_away(trees: &Trees) {
    let owner = format!("{USER}:{USER}");
    for place in [trees.from.path(), trees.to.path()] {
        run_tool("chown", ["-hR".as_ref(), owner.as_ref(), place.as_os_str()]);
    }
}

/// Its own copies could not be replaced, and nothing could be made beside them, where their modes forbid writing. Without
/// `-p` directories kept the mode that they are filled with.
fn a_killed_merge_of_protected_entries_is_continued() {
    const MODES: [(u32, u32); 3] = [(0o755, 0o444), (0o555, 0o644), (0o500, 0o400)];
    let rows = MODES.iter().flat_map(|modes| [(modes, "-p"), (modes, "-r"), (modes, "-b")]);
    for ((&(directory_mode, file_mode), flag), is_killed) in
        rows.flat_map(|row| [(row, true), (row, false)])
    {
        let trees = Trees::new();
        for number in 0..60 {
            let file = trees.file(&format!("{}/{number}", number % 6), format!("file {number}"));
            set_mode(&file, file_mode);
        }
        for number in 0..6 {
            let directory = trees.source().join(number.to_string());
            fs::hard_link(directory.join(number.to_string()), directory.join("linked")).unwrap();
            symlink("linked", directory.join("link")).unwrap();
            set_mode(&directory, directory_mode);
        }
        fs::create_dir(trees.destination()).unwrap();
        give_away(&trees);
        let program = || merge_as_user(&trees, &[flag]);
        let stopped = program().stop_after(SystemCall::WRITE, 70);
        match is_killed {
            true => stopped.kill(),
            false => stopped.resume_with(Signal::INT).run.died_of(2),
        }
        let run = program().run();
        let what = format!("{directory_mode:o} {file_mode:o} {flag} {is_killed}: {}", run.stdout);
        assert!(run.status.success(), "{what}{}", run.stderr);
        let compared = Compared { modes: true, times: flag == "-p", ..Compared::default() };
        assert_same_tree(&trees.source(), &trees.destination(), compared);
        trees.assert_no_strangers();
        for number in 0..6 {
            let linked = trees.destination().join(format!("{number}/linked"));
            assert_eq!(fs::metadata(linked).unwrap().nlink(), 2, "{what}");
        }
    }
}

/// Only what the killed run may have placed, and what is as the copy would be, is replaced although its mode forbids that.
fn what_a_user_protects_is_no_copy_of_a_killed_run() {
    let trees = Trees::new();
    for number in 0..60 {
        trees.file(&format!("{}/{number}", number % 6), format!("file {number}"));
    }
    let names = ["before", "since", "closed/file"];
    for name in names {
        trees.file(name, "its contents");
    }
    let protect = |name: &str, contents: &str| {
        let path = crate::tree::file_in(&trees.destination(), name, contents);
        set_mode(&path, 0o444);
    };
    protect("before", "its contents");
    protect("closed/another", "");
    set_mode(&trees.destination().join("closed"), 0o555);
    if fs::metadata(trees.destination().join("before")).unwrap().created().is_err() {
        return;
    }
    give_away(&trees);
    merge_as_user(&trees, &[]).stop_after(SystemCall::WRITE, 60).kill();
    let _ = fs::remove_file(trees.destination().join("since"));
    protect("since", "other bytes!");
    chown(trees.destination().join("since"), Some(USER), Some(USER)).unwrap();
    let run = merge_as_user(&trees, &[]).run();
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert_eq!(events(&run, "failed").len(), names.len(), "{}", run.stdout);
    for (name, mode) in [("before", 0o444), ("since", 0o444), ("closed", 0o555)] {
        let found = fs::metadata(trees.destination().join(name)).unwrap();
        assert_eq!(found.mode() & 0o777, mode, "{name}: {}", run.stdout);
    }
    assert!(!trees.destination().join("closed/file").exists());
    assert_eq!(fs::read_to_string(trees.destination().join("since")).unwrap(), "other bytes!");
}

/// Names that a killed run had made, and not noted, became files of their own.
fn names_of_one_file_stay_together_after_a_kill() {
    const PAIRS: usize = 40;
    let rows: [(&[&str], bool); 7] = [
        (&["-a", "--attributes-only"], false),
        (&["-a", "--attributes-only"], true),
        (&["-an"], false),
        (&["-an"], true),
        (&["-rn"], true),
        (&["-au"], true),
        (&["-a"], true),
    ];
    for (flags, is_merged) in rows {
        let has_bytes = !flags.contains(&"--attributes-only");
        // Writes for each file, and for all links.
        let each = if has_bytes && !Place::Disk.has_reflinks() { 2 } else { 1 };
        for writes in [PAIRS / 2 * each, PAIRS * each + PAIRS / 2] {
            let trees = Trees::new();
            let names = |number| [format!("a/{number}"), format!("b/{number}")];
            fs::create_dir(trees.source().join("b")).unwrap();
            for number in 0..PAIRS {
                let [first, last] = names(number);
                let file = trees.file(&first, format!("file {number}"));
                fs::hard_link(file, trees.source().join(last)).unwrap();
            }
            if is_merged {
                fs::create_dir(trees.destination()).unwrap();
            }
            let program = || {
                let program = cp().args(["--resume", "-T", "--jobs=1"]).args(flags);
                program.arg(trees.source()).arg(trees.destination())
            };
            program().stop_after(SystemCall::WRITE, writes).kill();
            // One of two names is gone again.
            for number in 0..if is_merged { PAIRS } else { 0 } {
                let [first, last] = names(number).map(|name| trees.destination().join(name));
                if first.exists() && last.exists() && number % 4 < 2 {
                    fs::remove_file(if number % 4 == 0 { first } else { last }).unwrap();
                }
            }
            let run = program().run();
            let what = format!("{flags:?} {is_merged} {writes}: {}", run.stdout);
            assert!(run.status.success(), "{what}{}", run.stderr);
            trees.assert_no_strangers();
            for number in 0..PAIRS {
                let copies = names(number).map(|name| trees.destination().join(name));
                let found = copies.each_ref().map(|copy| fs::metadata(copy).unwrap());
                assert_eq!(found[0].ino(), found[1].ino(), "{number}, {what}");
                let contents = if has_bytes { format!("file {number}") } else { String::new() };
                assert_eq!(fs::read_to_string(&copies[0]).unwrap(), contents, "{what}");
            }
        }
    }
}
