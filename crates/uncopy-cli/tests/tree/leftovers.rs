//! The next run removes what a killed run left; a user's entry stays, whatever its name.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{
    CallPattern, Case, Compared, Intercept, Intercepted, Need, Place, Program, Run, SystemCall,
    WatchedCall, assert_same_tree,
};
use uncopy::Errno;

use crate::tree::{Trees, cp, file_in, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] what_was_just_copied_stays,
        [] a_source_with_such_names_is_copied,
        [Need::Root] a_source_with_such_names_is_copied_by_a_user,
        [] a_destination_with_such_names_keeps_them,
        [Need::Root] a_destination_with_such_names_keeps_them_from_a_user,
        [] a_mirror_has_no_such_names_either,
        [] a_killed_merge_leaves_nothing_to_the_next_run,
        [] killed_at_any_moment_of_a_merge,
        [Need::Root] killed_at_any_moment_of_a_merge_of_a_user,
        [] killed_at_any_moment_of_a_new_tree,
        [] copies_of_leftovers_stay,
        [] a_leftover_that_the_source_has_too_stays,
        [] a_mirror_does_not_count_leftovers,
        [] a_run_at_work_is_left_alone_by_a_mirror,
        [Need::Root] where_links_are_made_is_left_alone_by_a_mirror,
        [Need::Root] where_links_are_made_goes_with_the_next_run,
        [] a_file_with_the_name_of_the_journal_is_kept,
        [] a_copied_journal_is_not_trusted,
    ];
    let is_killed = |case: &&Case| case.name().contains("::killed_at_any_moment_of_a_");
    let on_overlay = cases.iter().filter(is_killed);
    let on_overlay = on_overlay.filter_map(|case| case.on(Place::OverlayOfTwo)).collect::<Vec<_>>();
    cases.extend(on_overlay);
    cases
}

const DIGEST: &str = "b5c6bc853ed41089";
const RANDOM: &str = "654c42df52a71ee994f6cc0ce7a99be";
const USER: u32 = 65534;

/// Everything that an entry may be.
const KINDS: [fn(&Path); 6] = [
    |path| fs::write(path, "mine").unwrap(),
    |path| fs::write(path, "").unwrap(),
    |path| symlink("nowhere", path).unwrap(),
    |path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
    },
    |path| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("in it"), "mine").unwrap();
    },
    |path| {
        fs::write(path, "mine").unwrap();
        let other = format!("{}.other", path.display());
        fs::hard_link(path, other).unwrap();
    },
];

const DEPTHS: [&str; 3] = ["", "a", "a/b"];

/// Entries of every kind with every name of ours, at three depths; those that are reported where they are
/// not in the source.
fn plant(root: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut all, mut reported) = (Vec::new(), Vec::new());
    for depth in DEPTHS {
        let directory = root.join(depth);
        fs::create_dir_all(&directory).unwrap();
        for (number, make) in KINDS.into_iter().enumerate() {
            for suffix in ["tmp", "tree", "record"] {
                let path = directory.join(format!(".uncopy-{DIGEST}-{RANDOM}{number}.{suffix}"));
                make(&path);
                reported.push(path);
            }
            let journal = directory.join(format!(".uncopy-{number}{}.journal", &DIGEST[1..]));
            make(&journal);
            all.push(journal);
        }
    }
    all.extend(reported.iter().cloned());
    (all, reported)
}

/// All that is in a directory: paths, and what files hold.
fn contents(root: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap().file_type();
            let held = kind.is_file().then(|| fs::read(&path).unwrap());
            found.push((path.strip_prefix(root).unwrap().to_owned(), held));
            if kind.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A destination that is merged with, by a program that may write to it.
fn run(trees: &Trees, flags: &[&str], user: Option<u32>) -> Run {
    let program = cp().args(["-T", "--specials"]).args(flags);
    let program = program.arg(trees.source()).arg(trees.destination());
    let run = user.map_or(program.clone(), |user| program.as_user(user)).run();
    assert!(run.status.success(), "{flags:?}: {}", run.stderr);
    run
}

/// Lets a user have all of it.
fn give(trees: &Trees, user: Option<u32>) {
    if let Some(user) = user {
        fs::set_permissions(trees.to.path(), fs::Permissions::from_mode(0o777)).unwrap();
        for root in [trees.from.path(), trees.to.path()] {
            let owner = format!("{user}");
            assert!(
                Command::new("chown").args(["-Rh", &owner]).arg(root).status().unwrap().success()
            );
        }
    }
}

fn reported_leftovers(run: &Run) -> Vec<PathBuf> {
    let summary = summary(run);
    let all = summary.value()["leftovers"].as_array().cloned().unwrap_or_default();
    let more = summary.value()["leftovers_more"].as_u64().unwrap_or(0);
    let mut paths: Vec<PathBuf> =
        all.iter().map(|one| one["path"].as_str().unwrap().into()).collect();
    paths.extend((0..more).map(|_| PathBuf::new()));
    assert_eq!(run.stderr.contains("warning: "), !paths.is_empty(), "{}", run.stderr);
    paths
}

const FLAGS: [&[&str]; 5] = [&[], &["--resume"], &["--update"], &["-p"], &["--durable"]];

fn what_was_just_copied_stays() {
    let trees = Trees::new();
    let name = format!(".uncopy-{DIGEST}-654c42df52a71ee994f6cc0ce7a99be4.tmp");
    trees.file(&name, "x");
    trees.file("t", "t");
    for _ in 0..3 {
        let run = run(&trees, &[], None);
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
        assert_eq!(reported_leftovers(&run), [] as [PathBuf; 0]);
    }
}

fn a_source_with_such_names_is_copied() {
    copy_such_names(None);
}

fn a_source_with_such_names_is_copied_by_a_user() {
    copy_such_names(Some(USER));
}

fn copy_such_names(user: Option<u32>) {
    for flags in FLAGS.into_iter().chain([&["--delete"][..], &["--resume", "--delete"]]) {
        let trees = Trees::new();
        plant(&trees.source());
        trees.file("a/b/c", "x");
        give(&trees, user);
        let expected = contents(&trees.source());
        // Built beside, merged with, and with one that is older.
        for round in 0..3 {
            let run = run(&trees, flags, user);
            assert!(contents(&trees.destination()) == expected, "{flags:?} {round}");
            assert_eq!(reported_leftovers(&run), [] as [PathBuf; 0], "{flags:?} {round}");
            assert_eq!(number(&summary(&run), "deleted"), 0);
            trees.assert_no_strangers();
            if round == 1 {
                file_in(&trees.destination(), "a/b/c", "old");
                fs::File::open(trees.destination().join("a/b/c"))
                    .unwrap()
                    .set_modified(std::time::UNIX_EPOCH)
                    .unwrap();
                give(&trees, user);
            }
        }
    }
}

fn a_destination_with_such_names_keeps_them() {
    keep_such_names(None);
}

fn a_destination_with_such_names_keeps_them_from_a_user() {
    keep_such_names(Some(USER));
}

fn keep_such_names(user: Option<u32>) {
    for flags in FLAGS {
        let trees = Trees::new();
        trees.file("a/b/c", "new");
        trees.file("t", "new");
        file_in(&trees.destination(), "a/b/c", "old");
        let (_, mut named) = plant(&trees.destination());
        give(&trees, user);
        let mut expected = contents(&trees.destination());
        for _ in 0..2 {
            let run = run(&trees, &[flags, &["--jobs=2"]].concat(), user);
            let updates = flags.contains(&"--update");
            let new = if updates { "old" } else { "new" };
            expected.retain(|(path, _)| path != Path::new("a/b/c") && path != Path::new("t"));
            expected.push(("a/b/c".into(), Some(new.into())));
            expected.push(("t".into(), Some("new".into())));
            expected.sort();
            assert!(contents(&trees.destination()) == expected, "{flags:?}");
            let mut reported = reported_leftovers(&run);
            reported.sort();
            named.sort();
            assert_eq!(reported.len(), named.len(), "{flags:?}: {reported:?}");
            let known = reported.iter().filter(|path| !path.as_os_str().is_empty());
            assert!(known.clone().count() > 0);
            known.for_each(|path| assert!(named.contains(path), "{}", path.display()));
            trees.assert_no_strangers();
        }
    }
}

fn a_mirror_has_no_such_names_either() {
    for flags in [&["--delete"][..], &["--delete", "--resume"]] {
        let trees = Trees::new();
        trees.file("a/b/c", "new");
        let (planted, _) = plant(&trees.destination());
        let run = run(&trees, flags, None);
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
        assert_eq!(reported_leftovers(&run), [] as [PathBuf; 0]);
        let deleted = number(&summary(&run), "deleted");
        assert!(
            deleted > planted.len() as u64,
            "{deleted}: directories count with what is in them"
        );
    }
}

/// A source with files, links and further names, and an older destination.
fn replacing() -> Trees {
    let trees = Trees::new();
    for number in 0..3 {
        for depth in ["", "a/", "a/b/"] {
            trees.file(&format!("{depth}{number}"), format!("new {number}"));
            file_in(&trees.destination(), &format!("{depth}{number}"), "old");
        }
    }
    for root in [trees.source(), trees.destination()] {
        symlink("a", root.join("a/link")).unwrap();
    }
    fs::hard_link(trees.source().join("a/0"), trees.source().join("a/b/linked")).unwrap();
    file_in(&trees.destination(), "a/b/linked", "old");
    trees
}

fn program(trees: &Trees, flags: &[&str]) -> Program {
    cp().args(["-pT", "--jobs=1"]).args(flags).arg(trees.source()).arg(trees.destination())
}

/// Entries with one of our names, in and below a directory.
fn ours(root: &Path) -> Vec<PathBuf> {
    let paths = contents(root).into_iter().map(|(path, _)| path);
    paths.filter(|path| is_ours(std::slice::from_ref(path))).collect()
}

/// Whether a name is one of ours.
fn is_ours(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".uncopy-"))
    })
}

/// Kills a run in the `nth` call of this name that it makes.
fn kill_in(program: &Program, call: SystemCall, nth: usize) -> bool {
    !program.run_with([CallPattern::of(&[call]).nth(nth).kills()]).run.status.success()
}

/// A run that was killed before it gave something its name.
fn kill_before_a_rename(trees: &Trees, nth: usize) -> bool {
    let rename = CallPattern::of(&[SystemCall::RENAMEAT, SystemCall::RENAMEAT2]).nth(nth);
    !program(trees, &[]).run_with([rename.kills()]).run.status.success()
}

fn a_killed_merge_leaves_nothing_to_the_next_run() {
    for nth in [1, 4, 8] {
        let trees = replacing();
        assert!(kill_before_a_rename(&trees, nth), "{nth}");
        let left = ours(&trees.destination());
        assert_eq!(left.len(), 2, "a record and a name: {left:?}");
        for flags in [&["--dry-run"][..], &["--dry-run", "--delete"]] {
            let run = program(&trees, flags).run();
            assert!(run.status.success(), "{}", run.stderr);
            assert_eq!(ours(&trees.destination()), left, "{flags:?}");
        }
        let run = program(&trees, &[]).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(reported_leftovers(&run), [] as [PathBuf; 0]);
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    }
}

fn killed_at_any_moment_of_a_merge() {
    kill_merges(None, &[]);
}

fn killed_at_any_moment_of_a_merge_of_a_user() {
    kill_merges(Some(USER), &[]);
    kill_merges(Some(USER), &["--resume"]);
}

fn kill_merges(user: Option<u32>, flags: &[&str]) {
    let calls = [
        (SystemCall::LINKAT, 12),
        (SystemCall::RENAMEAT, 12),
        (SystemCall::RENAMEAT2, 12),
        (SystemCall::FLOCK, 12),
        (SystemCall::PWRITE64, 12),
        (SystemCall::SYMLINKAT, 2),
        (SystemCall::MKDIRAT, 6),
        (SystemCall::UNLINKAT, 3),
        (SystemCall::STATX, 40),
    ];
    let (mut kills, mut left) = (0, 0);
    let [step, fewest_kills, fewest_left] =
        testbed::by_extent([[5, 8, 2], [1, 41, 11], [1, 41, 11]]);
    let trees = replacing();
    give(&trees, user);
    let program =
        || user.map_or(program(&trees, flags), |user| program(&trees, flags).as_user(user));
    for (call, most) in calls {
        for nth in (1..=most).step_by(step) {
            for (path, _) in contents(&trees.destination()) {
                let path = trees.destination().join(path);
                if path.is_file() && !path.is_symlink() {
                    fs::write(path, "old").unwrap();
                }
            }
            if !kill_in(&program(), call, nth) {
                break;
            }
            kills += 1;
            left += ours(&trees.destination()).len();
            let run = program().run();
            assert!(run.status.success(), "{}", run.stderr);
            let context = format!("{user:?} {flags:?} {} {nth}", call.name());
            assert_eq!(ours(&trees.destination()), [] as [PathBuf; 0], "{context}: {}", run.stderr);
            assert_eq!(reported_leftovers(&run), [] as [PathBuf; 0], "{context}");
            assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
        }
    }
    let enough = kills >= fewest_kills && left >= fewest_left;
    assert!(enough, "{kills} kills, {left} entries left");
}

const KILLED_IN: [SystemCall; 7] = [
    SystemCall::MKDIRAT,
    SystemCall::LINKAT,
    SystemCall::FLOCK,
    SystemCall::PWRITE64,
    SystemCall::OPENAT,
    SystemCall::UNLINKAT,
    SystemCall::RENAMEAT2,
];

fn killed_at_any_moment_of_a_new_tree() {
    let mut left = 0;
    let [step, fewest_left] = testbed::by_extent([[6, 3], [1, 21], [1, 21]]);
    for flags in [&[][..], &["--resume"]] {
        for call in KILLED_IN {
            for nth in (1..=25).step_by(step) {
                let trees = Trees::new();
                for number in 0..4 {
                    trees.file(&format!("{}/{number}", number % 2), "x");
                }
                if !kill_in(&program(&trees, flags), call, nth) {
                    break;
                }
                left += ours(trees.to.path()).len();
                let run = program(&trees, flags).run();
                assert!(run.status.success(), "{}", run.stderr);
                let context = format!("{flags:?} {} {nth}", call.name());
                assert_eq!(ours(trees.to.path()), [] as [PathBuf; 0], "{context}: {}", run.stderr);
                assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
                trees.assert_no_strangers();
            }
        }
    }
    assert!(left >= fewest_left, "{left} entries left");
}

/// `cp -a`, which keeps names, times and owners.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-aT").args([from, to]).status().unwrap().success());
}

fn copies_of_leftovers_stay() {
    // Left by a merge: elsewhere, and in the tree itself.
    let trees = replacing();
    assert!(kill_before_a_rename(&trees, 6));
    let left = ours(&trees.destination());
    let copied = trees.to.join("copied");
    copy(&trees.destination(), &copied);
    let inside = trees.destination().join("a/copied");
    copy(&copied, &inside);
    let run = cp().args(["-pT", "--jobs=1"]).arg(trees.source()).arg(&copied).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(ours(&copied), left, "the copies are not the run's");
    assert_eq!(reported_leftovers(&run).len(), left.len());
    for _ in 0..2 {
        file_in(&trees.source(), "a/copied/x", "x");
        let run = program(&trees, &[]).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(ours(&inside), left);
        assert_eq!(ours(&trees.destination()).len(), left.len(), "those of the run are gone");
    }

    // Left by a tree that was being built.
    let trees = Trees::new();
    trees.file("a/b", "x");
    assert!(kill_in(&program(&trees, &[]), SystemCall::RENAMEAT2, 1));
    let left = ours(trees.to.path());
    assert!(left.iter().any(|path| path.extension().unwrap() == "tree"), "{left:?}");
    let copied = trees.to.path().with_extension("copied");
    copy(trees.to.path(), &copied);
    let destination = copied.join("destination");
    let run = cp().arg("-pT").arg(trees.source()).arg(&destination).run();
    assert!(run.status.success(), "{}", run.stderr);
    let stays = ours(&copied) == left;
    let known = reported_leftovers(&run).len();
    fs::remove_dir_all(&copied).unwrap();
    assert!(stays && known == left.len(), "{known} of {left:?}");
    let run = program(&trees, &[]).run();
    assert_eq!(reported_leftovers(&run), [] as [PathBuf; 0]);
    trees.assert_no_strangers();
}

/// The source was taken from a destination with leftovers: they are the user's files now.
fn a_leftover_that_the_source_has_too_stays() {
    for flags in [&["--update"][..], &["--no-clobber"], &[], &["--delete"]] {
        let trees = replacing();
        assert!(kill_before_a_rename(&trees, 6));
        fs::remove_dir_all(trees.source()).unwrap();
        copy(&trees.destination(), &trees.source());
        let expected = contents(&trees.source());
        for _ in 0..2 {
            let run = program(&trees, flags).run();
            assert!(run.status.success(), "{}", run.stderr);
            assert!(contents(&trees.destination()) == expected, "{flags:?}");
        }
    }
}

fn a_mirror_does_not_count_leftovers() {
    let trees = replacing();
    assert!(kill_before_a_rename(&trees, 8));
    assert_eq!(ours(&trees.destination()).len(), 2);
    let run = program(&trees, &["--delete", "--max-delete=0"]).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "deleted"), 0);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

/// Its record and its temporary names are locked.
fn a_run_at_work_is_left_alone_by_a_mirror() {
    let trees = replacing();
    let stopped = program(&trees, &[]).stop_after(SystemCall::LINKAT, 3);
    let before = ours(&trees.destination());
    assert_eq!(before.len(), 2, "{before:?}");
    let elsewhere = Trees::new();
    elsewhere.file("x", "x");
    let mirror = cp().args(["-T", "--delete"]).arg(elsewhere.source()).arg(trees.destination());
    let run = mirror.run();
    assert_eq!(ours(&trees.destination()), before, "{}", run.stderr);
    drop(stopped.resume());
    assert_eq!(ours(&trees.destination()), [] as [PathBuf; 0]);
}

/// A user who can change files of others makes links in a private directory. Before that is locked a
/// mirror may remove it, and the run makes another one.
fn where_links_are_made_is_left_alone_by_a_mirror() {
    let mine = |call: &WatchedCall| is_ours(&call.paths());
    let made = CallPattern::of(&[SystemCall::MKDIRAT]).when(mine);
    let filled = CallPattern::of(&[SystemCall::SYMLINKAT]);
    let given = CallPattern::of(&[SystemCall::FCHOWNAT]);
    for (call, is_locked) in [(made, false), (filled, true), (given, true)] {
        let trees = replacing();
        let stopped = Intercepted::new(&program(&trees, &[])).stop_in(call.clone().nth(1));
        let before = ours(&trees.destination());
        let is_there = before.iter().any(|path| trees.destination().join(path).is_dir());
        assert!(is_there, "{call}: {before:?}");
        let run = program(&trees, &["--delete"]).run();
        assert!(run.status.success(), "{call}: {}", run.stderr);
        let left = ours(&trees.destination());
        assert!(!is_locked || left == before, "{call}: {left:?}, and it was {before:?}");
        let run = stopped.resume().run;
        assert!(run.status.success(), "{call}: {}", run.stderr);
        assert_eq!(ours(&trees.destination()), [] as [PathBuf; 0], "{call}");
        let link = fs::read_link(trees.destination().join("a/link")).unwrap();
        assert_eq!(link, Path::new("a"), "{call}");
    }
}

/// If it cannot be removed, or something is left in it, that is reported, and its record stays as long as it does.
fn where_links_are_made_goes_with_the_next_run() {
    for errno in [Errno::EIO, Errno::EPERM, Errno::ENOTEMPTY] {
        // For a moment, so that what looks for leftovers at the end finds it, and for the whole run.
        for lasts in [false, true] {
            let trees = replacing();
            let removed = CallPattern::of(&[SystemCall::UNLINKAT]).when(|call| {
                call.has_flags(2, rustix::fs::AtFlags::REMOVEDIR.bits()) && is_ours(&call.paths())
            });
            let removed = if lasts { removed } else { removed.between(1, 2) };
            let run = program(&trees, &[]).run_with([removed.fails(errno)]).run;
            let left = ours(&trees.destination());
            let context = format!("{errno}, {lasts}: {left:?} {}", run.stderr);
            assert!(run.failed(1).contains(errno.name().unwrap()), "{context}");
            assert!(run.stderr.contains("that entries were made in"), "{context}");
            assert_eq!(left.is_empty(), !lasts, "{context}");
            let run = program(&trees, &[]).run();
            assert!(run.status.success(), "{context}: {}", run.stderr);
            assert_eq!(ours(&trees.destination()), [] as [PathBuf; 0], "{context}");
            assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
        }
    }
}

fn a_file_with_the_name_of_the_journal_is_kept() {
    for contents in ["", "mine"] {
        let trees = Trees::new();
        trees.file("a", "x");
        let begun = || program(&trees, &["--resume"]);
        // Find out its name.
        let Intercept { run, log, .. } = Intercepted::new(&begun()).record();
        assert!(run.status.success(), "{}", run.stderr);
        let links = [SystemCall::LINKAT, SystemCall::OPENAT];
        let names =
            log.iter().filter(|call| links.contains(&call.call)).flat_map(|call| call.paths());
        let is_journal = |path: &PathBuf| path.extension().is_some_and(|end| end == "journal");
        let name = names.into_iter().find(is_journal);
        let journal = trees.to.join(name.expect("it has a journal"));
        assert!(!journal.exists());
        fs::write(&journal, contents).unwrap();
        for _ in 0..2 {
            let run = begun().run();
            assert!(run.failed(1).contains("not trusted"), "{}", run.stderr);
            assert!(run.stderr.contains("to start over"), "{}", run.stderr);
            assert_eq!(fs::read(&journal).unwrap(), contents.as_bytes());
        }
    }
}

fn a_copied_journal_is_not_trusted() {
    let trees = Trees::new();
    for number in 0..1500 {
        trees.file(&format!("{}/{number}", number % 10), format!("file {number}"));
    }
    assert!(kill_in(&program(&trees, &["--resume"]), SystemCall::RENAMEAT2, 1));
    let journal = testbed::journal::find(trees.to.path()).unwrap();
    let kept = journal.with_extension("kept");
    fs::rename(&journal, &kept).unwrap();
    copy(&kept, &journal);
    let before = contents(trees.to.path());
    let run = program(&trees, &["--resume"]).run();
    assert!(run.failed(1).contains("not trusted"), "{}", run.stderr);
    assert!(contents(trees.to.path()) == before);
    // The journal itself still is.
    fs::rename(&kept, &journal).unwrap();
    let run = program(&trees, &["--resume"]).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(number(&summary(&run), "resumed") > 0);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    trees.assert_no_strangers();
}
