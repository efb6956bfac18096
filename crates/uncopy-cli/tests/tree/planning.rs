//! `--dry-run` against what happens then: record by record.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use testbed::{Case, Content, Need, Place, Program, Receipt, Run, assert_same_tree, run_tool};

use crate::cp::cp_as_nobody;
use crate::tree::{Trees, cp, file_in, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_new_tree_becomes_what_was_planned,
        [] a_mirror_becomes_what_was_planned,
        [] what_is_left_alone_is_planned_so,
        [Need::Root] what_would_be_refused_is_said_before,
        [Need::At(Place::Ext4), Need::At(Place::Xfs), Need::At(Place::Tmpfs)]
            between_filesystems_the_planned_mechanism_is_used,
        [Need::At(Place::Ext4), Need::At(Place::OverlayOfTwo)]
            to_an_overlay_no_other_mechanism_is_planned,
        [Need::At(Place::Ext4), Need::At(Place::Xfs), Need::At(Place::Tmpfs)]
            what_no_mechanism_does_is_said_before,
        [Need::At(Place::Ext4), Need::At(Place::Tmpfs)]
            names_on_another_filesystem_are_refused_before,
    ]
}

/// Kind, action and mechanism reported for one entry.
type Said = (String, String, Option<String>);

/// Reports by the name in the destination; equal for two runs that report the same.
type Reports = BTreeMap<String, Said>;

fn text(receipt: &Receipt, key: &str) -> String {
    receipt.value()[key].as_str().unwrap_or_default().to_owned()
}

/// Collects the reports of a dry run.
fn planned(run: &Run) -> Reports {
    let mut reports = Reports::new();
    for record in records(run) {
        let said = match text(&record, "event").as_str() {
            "would" => {
                let mechanism = record.value()["mechanism"].as_str().map(str::to_owned);
                (text(&record, "entry"), text(&record, "action"), mechanism)
            }
            other => (text(&record, "entry"), other.to_owned(), None),
        };
        insert(&mut reports, &record, said);
    }
    reports
}

/// Collects the reports of a real run, in the words of a plan. `before`: names that existed already.
fn happened(run: &Run, before: &[String]) -> Reports {
    let mut reports = Reports::new();
    for record in records(run) {
        let there = before.contains(&text(&record, "destination"));
        let made = if there { "replace" } else { "make" };
        let entry = text(&record, "entry");
        let said = match text(&record, "event").as_str() {
            // A directory that is there is filled; both say that they came by.
            "made" if entry == "directory" && there => (entry, "made".to_owned(), None),
            "made" => (entry, made.to_owned(), None),
            "copied" => {
                let by = record.mechanisms();
                assert!(by.len() <= 1, "one file, one way: {}", record.value());
                // None, where there is nothing but a hole.
                (entry, made.to_owned(), by.into_iter().next())
            }
            "linked" => (entry, "link".to_owned(), None),
            "deleted" => (entry, "delete".to_owned(), None),
            other => (entry, other.to_owned(), None),
        };
        insert(&mut reports, &record, said);
    }
    reports
}

fn records(run: &Run) -> Vec<Receipt> {
    let _ = summary(run);
    let mut records = run.receipts();
    records.pop();
    records
}

#[track_caller]
fn insert(reports: &mut Reports, record: &Receipt, said: Said) {
    let name = text(record, "destination");
    let twice = reports.insert(name, said);
    assert!(twice.is_none(), "reported twice: {}", record.value());
}

/// Files of every size and shape that goes a way of its own, and all other kinds.
fn fill(trees: &Trees) {
    trees.file("empty", "");
    trees.file("a/small", "small");
    trees.file("a/b/some pages", vec![7; 30_000]);
    trees.file("a/b/above small", vec![7; 70_000]);
    Content::dense(3_000_001).write(&trees.source().join("large"));
    Content::dense(20 << 20).write(&trees.source().join("larger"));
    Content::sparse(5 << 20, &[(1 << 20, 65_536)]).write(&trees.source().join("sparse"));
    Content::sparse(40_000, &[(8192, 4096)]).write(&trees.source().join("small sparse"));
    Content::sparse(2 << 20, &[]).write(&trees.source().join("hole"));
    fs::create_dir_all(trees.source().join("no files/in it")).unwrap();
    symlink("a", trees.source().join("link")).unwrap();
    fs::hard_link(trees.source().join("a/small"), trees.source().join("a/b/again")).unwrap();
    fs::hard_link(trees.source().join("large"), trees.source().join("a/large again")).unwrap();
    run_tool("mkfifo", [trees.source().join("fifo")]);
}

/// Everything below a directory, and itself.
fn names(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push(path.display().to_string());
    }
    found
}

/// Plans, and does it; nothing is different, and nothing was done for the plan.
#[track_caller]
fn assert_planned(trees: &Trees, flags: &[&str]) {
    let program = |more: &[&str]| -> Program {
        let program = cp().args(["-T", "--jobs=1"]).args(flags).args(more);
        program.arg(trees.source()).arg(trees.destination())
    };
    let before = names(&trees.destination());
    let dry = program(&["--dry-run"]).run();
    assert!(dry.status.success(), "{flags:?}: {}", dry.stderr);
    assert_eq!(names(&trees.destination()), before, "{flags:?}");
    trees.assert_no_strangers();
    let real = program(&[]).run();
    assert!(real.status.success(), "{flags:?}: {}", real.stderr);
    let (planned, happened) = (planned(&dry), happened(&real, &before));
    let names = planned.keys().chain(happened.keys());
    let differing: BTreeMap<_, _> = names
        .filter(|name| planned.get(*name) != happened.get(*name))
        .map(|name| (name, (planned.get(name), happened.get(name))))
        .collect();
    assert!(differing.is_empty(), "{flags:?}: planned, and what happened: {differing:#?}");
}

const WAYS: [&[&str]; 7] = [
    &[],
    &["-p"],
    &["--verify"],
    &["--durable"],
    &["--prefer=cpu"],
    &["--no-zero-copy"],
    &["--method=read-write"],
];

fn a_new_tree_becomes_what_was_planned() {
    let trees = Trees::new();
    fill(&trees);
    for flags in WAYS.into_iter().chain([&["--specials"][..], &["--links=skip"]]) {
        assert_planned(&trees, flags);
        fs::remove_dir_all(trees.destination()).unwrap();
    }
}

fn a_mirror_becomes_what_was_planned() {
    for flags in WAYS {
        let trees = Trees::new();
        fill(&trees);
        for name in ["a/small", "large", "hole", "link", "strange", "no files/strange", "gone/b/c"]
        {
            file_in(&trees.destination(), name, "old");
        }
        assert_planned(&trees, &[&["--delete", "--specials"], flags].concat());
        assert_same_tree(&trees.source(), &trees.destination(), Default::default());
    }
}

fn what_is_left_alone_is_planned_so() {
    for flags in
        [&["--update"][..], &["--ignore-existing"], &["--exclude=large*", "--exclude=/a/b"]]
    {
        let trees = Trees::new();
        fill(&trees);
        for name in ["a/small", "large", "link"] {
            file_in(&trees.destination(), name, "old, and newer than the source");
        }
        assert_planned(&trees, flags);
    }
}

/// `copy_file_range` was planned, which no kernel since 5.19 uses there, and direct writes were not.
fn between_filesystems_the_planned_mechanism_is_used() {
    let places = [
        (Place::Ext4, Place::Xfs),
        (Place::Xfs, Place::Ext4),
        (Place::Tmpfs, Place::Xfs),
        (Place::Ext4, Place::Tmpfs),
        (Place::Tmpfs, Place::OtherTmpfs),
    ];
    for (from, to) in places {
        for flags in WAYS.into_iter().chain([&["--no-user-copy"][..], &["--cache=skip"]]) {
            let trees = Trees::at(from, to);
            trees.file("a/some", vec![7; 65_536]);
            trees.file("large", vec![7; 5 << 20]);
            assert_planned(&trees, flags);
        }
    }
}

/// Whether direct writes reach its upper filesystem is not known in advance, so that the mechanism is not either.
fn to_an_overlay_no_other_mechanism_is_planned() {
    for from in [Place::Ext4, Place::Tmpfs] {
        for flags in WAYS {
            let trees = Trees::at(from, Place::OverlayOfTwo);
            trees.file("a/some", vec![7; 65_536]);
            trees.file("large", vec![7; 5 << 20]);
            let program = || cp().args(["-T", "--jobs=1"]).args(flags);
            let (dry, real) = (trees.run(program().arg("--dry-run")), trees.run(program()));
            let happened = happened(&real, &[]);
            for (name, (_, _, mechanism)) in planned(&dry) {
                let used = &happened[&name].2;
                assert!(
                    mechanism.is_none() || mechanism == *used,
                    "{from:?} {flags:?} {name}: {mechanism:?} was planned, not {used:?}"
                );
            }
        }
    }
}

/// Such a file was planned to be copied.
fn what_no_mechanism_does_is_said_before() {
    let (ext4, xfs, tmpfs) = (Place::Ext4, Place::Xfs, Place::Tmpfs);
    for (flag, from, to) in [
        ("--require=zero-copy", tmpfs, tmpfs),
        ("--require=zero-copy", tmpfs, Place::OtherTmpfs),
        ("--method=reflink", ext4, ext4),
        ("--reflink", ext4, ext4),
        ("--require=shared", ext4, ext4),
        ("--require=moved", tmpfs, tmpfs),
        ("--method=copy-file-range", ext4, xfs),
        ("--require=shared", ext4, xfs),
    ] {
        let trees = Trees::at(from, to);
        trees.file("a/small", "small");
        trees.file("large", vec![7; 3 << 20]);
        trees.file("empty", "");
        let program = || cp().args(["-T", "--jobs=1", flag]);
        let (dry, real) = (trees.run(program().arg("--dry-run")), trees.run(program()));
        let what = format!("{flag} {from:?} to {to:?}");
        assert_eq!(dry.status.code(), Some(5), "{what}: {}", dry.stderr);
        assert_eq!(real.status.code(), Some(5), "{what}: {}", real.stderr);
        assert_eq!(failed(&dry), failed(&real), "{what}");
        assert_eq!(failed(&dry).len(), 2, "{what}");
    }
}

fn names_on_another_filesystem_are_refused_before() {
    let (ext4, tmpfs) = (Place::Ext4, Place::Tmpfs);
    for (from, to, is_refused) in [
        (ext4, ext4, false),
        (tmpfs, tmpfs, false),
        (ext4, tmpfs, true),
        (tmpfs, ext4, true),
        (tmpfs, Place::OtherTmpfs, true),
    ] {
        for flag in ["-l", "-lf", "-lL", "-lP", "-lb"] {
            for has_old in [false, true] {
                let trees = Trees::at(from, to);
                trees.file("a/file", "file");
                trees.file("other", "other");
                symlink("other", trees.source().join("link")).unwrap();
                if has_old {
                    file_in(&trees.destination(), "other", "old");
                }
                let program = || cp().args(["-T", "--jobs=1", flag]);
                let (dry, real) = (trees.run(program().arg("--dry-run")), trees.run(program()));
                let what = format!("{flag} {from:?} to {to:?}, {has_old}");
                assert_eq!(dry.status.code(), real.status.code(), "{what}: {}", real.stderr);
                assert_eq!(failed(&dry), failed(&real), "{what}");
                let is_taken = has_old && !["-lf", "-lb"].contains(&flag);
                let expected = if is_refused { 3 } else { usize::from(is_taken) };
                assert_eq!(failed(&dry).len(), expected, "{what}: {:?}", failed(&dry));
            }
        }
    }
}

fn failed(run: &Run) -> Vec<String> {
    let failed = run.receipts().into_iter().filter(|one| text(one, "event") == "failed");
    let mut named: Vec<String> = failed
        .map(|one| format!("{} {}", text(&one, "destination"), text(&one, "message")))
        .collect();
    named.sort();
    named
}

/// Files that may not be written to were planned to be replaced.
fn what_would_be_refused_is_said_before() {
    let ways: [(&[&str], i32); 6] = [
        (&[], 1),
        (&["-f"], 0),
        (&["--remove-destination"], 0),
        (&["-n"], 0),
        (&["--update"], 0),
        (&["-b"], 0),
    ];
    for (flags, expected) in ways {
        let place = Place::Tmpfs.scratch();
        let at = |name: &str| place.join(name);
        for root in ["src", "dst"] {
            fs::create_dir_all(at(root).join("deep")).unwrap();
            for name in ["one", "deep/two", "may"] {
                fs::write(at(root).join(name), root).unwrap();
            }
        }
        for name in ["one", "deep/two"] {
            fs::set_permissions(at("dst").join(name), Permissions::from_mode(0o444)).unwrap();
        }
        run_tool("chown", ["-R".as_ref(), "65534:65534".as_ref(), place.path().as_os_str()]);
        let run = |dry: &[&str]| {
            let program = cp_as_nobody().args(["-r", "-T", "--jobs=1"]).args(flags).args(dry);
            program.arg(at("src")).arg(at("dst")).run()
        };
        let (dry, real) = (run(&["--dry-run"]), run(&[]));
        assert_eq!(dry.status.code(), Some(expected), "{flags:?}: {}", dry.stderr);
        assert_eq!(real.status.code(), Some(expected), "{flags:?}: {}", real.stderr);
        assert_eq!(failed(&dry), failed(&real), "{flags:?}");
        assert_eq!(failed(&dry).len(), if expected == 0 { 0 } else { 2 }, "{flags:?}");
    }
}
