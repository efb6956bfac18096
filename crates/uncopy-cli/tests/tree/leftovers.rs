//! The next run removes what a killed run left; a user's entry stays, whatever its name.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::witness::Strace;
use testbed::{Case, Compared, Need, Program, Run, assert_same_tree};

use crate::tree::{Trees, cp, file_in, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] what_was_just_copied_stays,
        [] a_source_with_such_names_is_copied,
        [Need::Root] a_source_with_such_names_is_copied_by_a_user,
        [] a_destination_with_such_names_keeps_them,
        [Need::Root] a_destination_with_such_names_keeps_them_from_a_user,
        [] a_mirror_has_no_such_names_either,
        [Need::Tool("strace")] a_killed_merge_leaves_nothing_to_the_next_run,
        [Need::Tool("strace")] killed_at_any_moment_of_a_merge,
        [Need::Root, Need::Tool("strace")] killed_at_any_moment_of_a_merge_of_a_user,
        [Need::Tool("strace")] killed_at_any_moment_of_a_new_tree,
        [Need::Tool("strace")] copies_of_leftovers_stay,
        [Need::Tool("strace")] a_leftover_that_the_source_has_too_stays,
        [Need::Tool("strace")] a_mirror_does_not_count_leftovers,
        [Need::Tool("strace")] a_run_at_work_is_left_alone_by_a_mirror,
        [Need::Root, Need::Tool("strace")] where_links_are_made_is_left_alone_by_a_mirror,
        [Need::Root, Need::Tool("strace")] where_links_are_made_goes_with_the_next_run,
        [] a_file_with_the_name_of_the_journal_is_kept,
        [Need::Tool("strace")] a_copied_journal_is_not_trusted,
    ]
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
    let is_ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".uncopy-"))
    };
    contents(root).into_iter().map(|(path, _)| path).filter(is_ours).collect()
}

/// Kills a run in the `nth` call of this name that it makes.
fn kill_in(program: &Program, call: &str, nth: usize) -> bool {
    let kill = format!("{call}:signal=SIGKILL:when={nth}");
    !Strace::new(program).inject(&kill).outcome().status.success()
}

const RENAMES: [&str; 2] = ["renameat", "renameat2"];

/// A run that was killed before it gave something its name.
fn kill_before_a_rename(trees: &Trees, nth: usize) -> bool {
    let program = program(trees, &[]);
    let used = Strace::new(&program).run().1;
    let call = RENAMES.into_iter().find(|call| !used.named(&[call]).is_empty()).unwrap();
    for depth in ["", "a/", "a/b/"] {
        for number in 0..3 {
            file_in(&trees.destination(), &format!("{depth}{number}"), "old");
        }
    }
    kill_in(&program, call, nth)
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
        ("linkat", 12),
        ("renameat", 12),
        ("renameat2", 12),
        ("flock", 12),
        ("pwrite64", 12),
        ("symlinkat", 2),
        ("mkdirat", 6),
        ("unlinkat", 3),
        ("statx", 40),
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
            let context = format!("{user:?} {flags:?} {call} {nth}");
            assert_eq!(ours(&trees.destination()), [] as [PathBuf; 0], "{context}: {}", run.stderr);
            assert_eq!(reported_leftovers(&run), [] as [PathBuf; 0], "{context}");
            assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
        }
    }
    let enough = kills >= fewest_kills && left >= fewest_left;
    assert!(enough, "{kills} kills, {left} entries left");
}

fn killed_at_any_moment_of_a_new_tree() {
    let mut left = 0;
    let [step, fewest_left] = testbed::by_extent([[6, 3], [1, 21], [1, 21]]);
    for flags in [&[][..], &["--resume"]] {
        for call in ["mkdirat", "linkat", "flock", "pwrite64", "openat", "unlinkat", "renameat2"] {
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
                let context = format!("{flags:?} {call} {nth}");
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
    assert!(kill_in(&program(&trees, &[]), "renameat2", 1));
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
    let stopped = Strace::new(&program(&trees, &[])).stop_after("linkat", 3);
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
    let nth = {
        let trees = replacing();
        let (run, trace) = Strace::new(&program(&trees, &[])).run();
        assert!(run.status.success(), "{}", run.stderr);
        let made = trace.named(&["mkdirat"]).into_iter().find(|call| call.value() == Some(0));
        made.expect("it makes a directory of its own").nth
    };
    for (call, nth, is_locked) in
        [("mkdirat", nth, false), ("symlinkat", 1, true), ("fchownat", 1, true)]
    {
        let trees = replacing();
        let stopped = Strace::new(&program(&trees, &[])).stop_after(call, nth);
        let before = ours(&trees.destination());
        let is_there = before.iter().any(|path| trees.destination().join(path).is_dir());
        assert!(is_there, "{call}: {before:?}");
        let run = program(&trees, &["--delete"]).run();
        assert!(run.status.success(), "{call}: {}", run.stderr);
        let left = ours(&trees.destination());
        assert!(!is_locked || left == before, "{call}: {left:?}, and it was {before:?}");
        let (run, _) = stopped.resume();
        assert!(run.status.success(), "{call}: {}", run.stderr);
        assert_eq!(ours(&trees.destination()), [] as [PathBuf; 0], "{call}");
        let link = fs::read_link(trees.destination().join("a/link")).unwrap();
        assert_eq!(link, Path::new("a"), "{call}");
    }
}

/// If it cannot be removed, or something is left in it, that is reported, and its record stays as long as it does.
fn where_links_are_made_goes_with_the_next_run() {
    for errno in ["EIO", "EPERM", "ENOTEMPTY"] {
        // For a moment, so that what looks for leftovers at the end finds it, and for the whole run.
        for lasts in [false, true] {
            let trees = replacing();
            let (run, trace) = Strace::new(&program(&trees, &[])).run();
            assert!(run.status.success(), "{}", run.stderr);
            let removed = trace.named(&["unlinkat"]).into_iter().find(|call| {
                call.arguments.contains("\".uncopy-") && call.arguments.contains("AT_REMOVEDIR")
            });
            let nth = removed.expect("it removes its directory").nth;
            let refused = match lasts {
                false => format!("unlinkat:error={errno}:when={nth}..{}", nth + 1),
                true => format!("unlinkat:error={errno}:when={nth}+"),
            };
            let run = Strace::new(&program(&trees, &[])).inject(&refused).outcome();
            let left = ours(&trees.destination());
            let context = format!("{errno}, {lasts}: {left:?} {}", run.stderr);
            assert!(run.failed(1).contains(errno), "{context}");
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
        let (run, trace) = Strace::new(&begun()).run();
        assert!(run.status.success(), "{}", run.stderr);
        let links = trace.named(&["linkat", "openat"]);
        let name = links.iter().find_map(|call| {
            let begin = call.arguments.find(".uncopy-")?;
            let name = call.arguments[begin..].split('"').next()?;
            name.ends_with(".journal").then(|| name.to_owned())
        });
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
    assert!(kill_in(&program(&trees, &["--resume"]), "renameat2", 1));
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
