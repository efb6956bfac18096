//! Entries that cannot be copied: reported, counted, and the end of the job only on request.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use testbed::{Case, Need, Place, Program};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] what_may_not_be_read_is_reported_and_the_rest_copied,
        [Need::Root] abort_leaves_nothing,
        [Need::Root] a_directory_that_cannot_be_listed_gets_no_journal,
        [Need::Root] what_abort_removes_does_not_count_as_copied,
        [Need::Root] a_umask_may_take_every_permission,
        [Need::Root] a_journal_that_cannot_be_made_is_named_where_it_would_lie,
        [] flags_of_trees_need_recursive,
        [] what_makes_no_sense_with_trees_is_refused,
    ]
}

const NOBODY: u32 = 65534;

/// Returns the program in a place that everybody can reach.
fn for_everybody() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let copy = Place::Tmpfs.path().join("uncopy-tree");
        testbed::run_tool("cp", [env!("CARGO_BIN_EXE_uncopy").as_ref(), copy.as_os_str()]);
        copy
    })
}

/// `uncopy cp -r --json` as a user without privileges.
pub(crate) fn cp_as_nobody() -> Program {
    Program::new(for_everybody()).args(["cp", "-r", "--json"]).as_user(NOBODY)
}

fn unreadable() -> Trees {
    let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
    trees.file("a/fine", "x");
    trees.file("a/secret", "x");
    trees.file("closed/file", "x");
    for name in ["a/secret", "closed"] {
        let path = trees.source().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    }
    fs::set_permissions(trees.to.path(), Permissions::from_mode(0o777)).unwrap();
    trees
}

/// It was named in the directory itself, beside a link, and by `.` and `..` as parts of its name.
fn a_journal_that_cannot_be_made_is_named_where_it_would_lie() {
    let root = Place::Tmpfs.scratch();
    let closed = root.join("closed");
    let open = closed.join("open");
    fs::create_dir_all(open.join("sub")).unwrap();
    fs::create_dir(root.join("tree")).unwrap();
    fs::create_dir(root.join("links")).unwrap();
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    for directory in [open.clone(), open.join("sub")] {
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    }
    symlink(&open, root.join("links/other")).unwrap();
    let closed = closed.canonicalize().unwrap();
    let (beside, links) = (format!("{}/", closed.display()), root.join("links"));
    for (at, destination, expected) in [
        (&open, ".", "../"),
        (&open, "./", "../"),
        (&open, "./.", "../"),
        (&open.join("sub"), "..", "../../"),
        (&open.join("sub"), "../.", "../../"),
        (&open, "sub/..", "sub/../../"),
        (&closed, "open", ""),
        (&closed, "./open/", "./"),
        (&closed, "open/.", ""),
        (&links, "other/", &beside),
        (&links, &open.display().to_string(), &beside),
    ] {
        let cp = cp_as_nobody().args(["--resume", "--no-preserve=ownership"]).current_dir(at);
        let run = cp.arg(root.join("tree/.")).arg(destination).run();
        let message = run.failed(1);
        let said = format!("cannot open the journal {expected}.uncopy-");
        assert!(message.contains(&said), "{destination}: {message}");
    }
}

fn what_may_not_be_read_is_reported_and_the_rest_copied() {
    let trees = unreadable();
    let run = trees.run(cp_as_nobody());
    assert!(run.failed(1).contains("a/secret"), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "failed"), 2, "{}", run.stdout);
    let failed = events(&run, "failed");
    assert!(failed.iter().all(|event| event.value()["errno_name"] == "EACCES"), "{}", run.stdout);
    assert_eq!(fs::read(trees.destination().join("a/fine")).unwrap(), b"x");
    assert!(!trees.destination().join("a/secret").exists());
    trees.assert_no_strangers();
}

fn abort_leaves_nothing() {
    let trees = unreadable();
    let run = trees.run(cp_as_nobody().arg("--on-error=abort"));
    run.failed(1);
    // Another worker may have met the other one at the same moment.
    let reports = ["a/secret:", "closed:"].map(|name| run.stderr.matches(name).count());
    assert!(reports.contains(&1) && reports.iter().all(|times| *times <= 1), "{}", run.stderr);
    assert!(!trees.destination().exists());
    trees.assert_no_strangers();
}

/// Each run left a journal, which its user could not even see.
fn a_directory_that_cannot_be_listed_gets_no_journal() {
    let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
    trees.file("file", "x");
    let inside = trees.to.join("inside");
    fs::create_dir(&inside).unwrap();
    fs::set_permissions(&inside, Permissions::from_mode(0o733)).unwrap();
    for flags in [&["--resume"][..], &["--resume", "--durable"]] {
        let run = cp_as_nobody().args(flags).args([trees.source(), inside.join("copy")]).run();
        assert!(run.failed(1).contains("EACCES"), "{}", run.stderr);
        let left: Vec<_> =
            fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{flags:?}: {left:?}");
    }
}

fn what_abort_removes_does_not_count_as_copied() {
    for jobs in ["1", "4"] {
        let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
        fs::set_permissions(trees.to.path(), Permissions::from_mode(0o777)).unwrap();
        // The last entry of the last directory fails, when all others are copied.
        let mut inside = trees.source();
        for level in 0..4 {
            for number in 0..200 {
                let name = inside.join(format!("{number}"));
                fs::create_dir_all(&inside).unwrap();
                fs::write(name, format!("file {level} {number}")).unwrap();
            }
            fs::hard_link(inside.join("0"), inside.join("linked")).unwrap();
            std::os::unix::fs::symlink("0", inside.join("symbolic")).unwrap();
            inside.push("deeper");
        }
        trees.file("deeper/secret", "x");
        let secret = trees.source().join("deeper/secret");
        fs::set_permissions(secret, Permissions::from_mode(0o000)).unwrap();
        // Another new tree, which gets its name.
        let (first, log) = (trees.to.join("first"), trees.to.join("log"));
        let program =
            cp_as_nobody().args(["--on-error=abort", "--jobs", jobs, "--audit"]).arg(&log);
        let into = trees.to.join("into");
        fs::create_dir(&into).unwrap();
        fs::set_permissions(&into, Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(&first).unwrap();
        fs::write(first.join("kept"), "kept").unwrap();
        let run = program.arg(&first).arg(trees.source()).arg(&into).run();
        run.failed(1);
        let left: Vec<_> = fs::read_dir(&into).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["first"]);

        let count = |event: &str| events(&run, event).len() as u64;
        let discarded = events(&run, "discarded");
        let last = discarded.last().expect(&run.stdout).value();
        let number_of = |key: &str| last[key].as_u64().unwrap();
        assert_eq!(discarded.len(), 1, "{}", run.stdout);
        // The first tree is a file and a directory.
        assert_eq!(number_of("files"), count("copied") - 1, "{last}");
        assert_eq!(number_of("hard_links"), count("linked"), "{last}");
        let others = number_of("directories") + number_of("symlinks") + number_of("specials");
        assert_eq!(others, count("made") - 1, "{last}");
        let entries = number_of("files") + number_of("hard_links") + others;
        assert_eq!(number_of("entries"), entries, "{last}");
        let copied = events(&run, "copied");
        let bytes: u64 = copied.iter().map(|event| event.value()["bytes"].as_u64().unwrap()).sum();
        assert_eq!(number_of("bytes"), bytes - 4, "{last}");

        let whole = summary(&run);
        let expected = [
            ("files", 1),
            ("directories", 1),
            ("symlinks", 0),
            ("hard_links", 0),
            ("bytes", 4),
            ("discarded", entries),
            ("discarded_bytes", bytes - 4),
            ("failed", 1),
        ];
        for (key, expected) in expected {
            assert_eq!(number_or_zero(&whole, key), expected, "{key}: {}", run.stdout);
        }

        let verified =
            Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "verify"]).arg(&log).run();
        assert!(verified.status.success(), "{}", verified.stderr);
        let text = fs::read_to_string(&log).unwrap();
        let end: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((&end["copied"], &end["discarded"]), (&1.into(), &entries.into()), "{end}");
        assert_eq!(
            end["zero_copy_bytes"].as_u64().unwrap() + end["buffered_bytes"].as_u64().unwrap(),
            4
        );
        let stats = Program::new(env!("CARGO_BIN_EXE_uncopy"))
            .args(["audit", "stats", "--json"])
            .arg(&log)
            .run();
        let job: serde_json::Value =
            serde_json::from_str(stats.stdout.lines().next().unwrap()).unwrap();
        let results =
            serde_json::json!({"copied": 1, "made": 1, "discarded": entries, "failed": 1});
        assert_eq!((&job["results"], &job["bytes"]), (&results, &4.into()), "{job}");
        assert_eq!(job["entries"].as_u64(), Some(entries + 3), "{job}");
        let moved: u64 = job["mechanisms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(moved, 4, "{job}");
        for refusal in job["refusals"].as_array().unwrap() {
            assert_eq!(refusal["files"], 1, "{job}");
        }
    }
}

fn number_or_zero(event: &testbed::Receipt, key: &str) -> u64 {
    event.value()[key].as_u64().unwrap_or(0)
}

/// As with `cp`.
fn a_umask_may_take_every_permission() {
    for flags in ["-r", "-r --durable", "-r --resume", "-r --jobs=1 --verify"] {
        for is_merged in [false, true] {
            let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
            fs::set_permissions(trees.to.path(), Permissions::from_mode(0o777)).unwrap();
            for name in ["a/b/file", "a/other", "top"] {
                trees.file(name, name);
            }
            fs::hard_link(trees.source().join("top"), trees.source().join("a/linked")).unwrap();
            // Names in directories of which one has its last mode when the other is entered.
            trees.file("one/name", "names");
            fs::create_dir(trees.source().join("two")).unwrap();
            fs::hard_link(trees.source().join("one/name"), trees.source().join("two/name"))
                .unwrap();
            std::os::unix::fs::symlink("top", trees.source().join("link")).unwrap();
            let copy = trees.destination();
            if is_merged {
                fs::create_dir(&copy).unwrap();
                fs::set_permissions(&copy, Permissions::from_mode(0o777)).unwrap();
            }
            let line = format!(
                "umask 0777; exec {} cp {flags} -T {} {}",
                for_everybody().display(),
                trees.source().display(),
                copy.display()
            );
            let run = Program::new("sh").args(["-c", &line]).as_user(NOBODY).run();
            assert!(run.status.success(), "{flags} {is_merged}: {}", run.stderr);
            for name in ["a/b/file", "a/other", "top", "a/linked", "one/name", "two/name"] {
                let found = fs::read(copy.join(name)).unwrap();
                assert_eq!(found, fs::read(trees.source().join(name)).unwrap(), "{flags} {name}");
            }
            assert_eq!(fs::read_link(copy.join("link")).unwrap(), PathBuf::from("top"));
            for name in ["a", "a/b", "a/b/file", "top"] {
                let mode = fs::metadata(copy.join(name)).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0, "{flags} {name}");
            }
            trees.assert_no_strangers();
        }
    }
}

fn flags_of_trees_need_recursive() {
    let trees = Trees::new();
    let plain = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp");
    for flag in ["--specials", "--retries=1", "--jobs=2", "--progress"] {
        trees.run(plain.clone().arg(flag)).failed(2);
    }
    assert!(trees.run(plain).failed(1).contains("a directory"));
}

fn what_makes_no_sense_with_trees_is_refused() {
    let trees = Trees::new();
    for flag in ["--in-place", "--copy-contents", "--jobs=0", "--links=some"] {
        trees.run(cp().arg(flag)).failed(2);
        assert!(!trees.destination().exists());
    }
}
