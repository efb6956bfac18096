//! With `--delete` an entry of another kind makes room, as far as what it holds may be deleted.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, Mode, mkfifoat};
use testbed::{Case, Compared, Mount, Need, Place, Run, assert_same_tree, run_tool};

use crate::tree::{Trees, cp, events, file_in, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] every_kind_in_the_place_of_every_other,
        [Need::Tool("rsync")] every_kind_as_rsync_does_it,
        [] what_is_excluded_makes_no_room,
        [] deletions_that_are_counted,
        [] further_names_make_room_too,
        [] nothing_beside_a_named_entry_makes_room,
        [Need::At(Place::Tmpfs)] what_is_mounted_stays,
    ]
}

/// A kind of entry: its name, how one is made, and whether it is a directory.
type Kind = (&'static str, fn(&Path), bool);

const KINDS: [Kind; 5] = [
    ("file", |path| fs::write(path, "file").unwrap(), false),
    ("link", |path| symlink("nowhere", path).unwrap(), false),
    ("fifo", |path| mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).unwrap(), false),
    ("empty directory", |path| fs::create_dir(path).unwrap(), true),
    ("full directory", fill, true),
];

fn fill(path: &Path) {
    file_in(path, "below/file", "x");
    file_in(path, "keep", "x");
    symlink("nowhere", path.join("link")).unwrap();
}

/// Number of entries that a directory of [`fill`] counts as.
const FULL: u64 = 5;

/// Every kind in the source, over every kind in the destination.
fn all_pairs() -> (Trees, Vec<(String, usize, usize)>) {
    let trees = Trees::new();
    fs::create_dir(trees.destination()).unwrap();
    let mut pairs = Vec::new();
    for (new, (name, make, _)) in KINDS.iter().enumerate() {
        for (old, (over, make_old, _)) in KINDS.iter().enumerate() {
            let entry = format!("{name} over {over}");
            make(&trees.source().join(&entry));
            make_old(&trees.destination().join(&entry));
            pairs.push((entry, new, old));
        }
    }
    (trees, pairs)
}

fn mirror(trees: &Trees, flags: &[&str]) -> Run {
    let program = cp().args(["-T", "--specials"]).args(flags);
    program.arg(trees.source()).arg(trees.destination()).run()
}

/// All that there is under a path: names, and of what kind.
fn shape(path: &Path) -> Vec<(PathBuf, &'static str)> {
    let kind = path.symlink_metadata().unwrap().file_type();
    let name = match (kind.is_dir(), kind.is_symlink(), kind.is_file()) {
        (true, ..) => "directory",
        (_, true, _) => "link",
        (.., true) => "file",
        _ => "fifo",
    };
    let mut found = vec![(path.file_name().unwrap().into(), name)];
    if kind.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            found.extend(shape(&entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

/// Whether one of two is a directory.
fn differs(new: usize, old: usize) -> bool {
    KINDS[new].2 != KINDS[old].2
}

fn every_kind_in_the_place_of_every_other() {
    for flags in [&["--delete"][..], &["--delete", "-p"], &["--delete", "--update"]] {
        let (trees, pairs) = all_pairs();
        let before: Vec<_> =
            pairs.iter().map(|(entry, ..)| shape(&trees.destination().join(entry))).collect();
        let planned = mirror(&trees, &[flags, &["--dry-run"]].concat());
        assert!(planned.status.success(), "{flags:?}: {}", planned.stderr);
        for ((entry, ..), before) in pairs.iter().zip(&before) {
            assert_eq!(shape(&trees.destination().join(entry)), *before, "{entry}: a dry run");
        }
        let run = mirror(&trees, flags);
        assert!(run.status.success(), "{flags:?}: {}", run.stderr);
        trees.assert_no_strangers();
        for key in ["deleted", "failed"] {
            let counts = [&planned, &run].map(|run| number(&summary(run), key));
            assert_eq!(counts[0], counts[1], "{flags:?} {key}");
        }
        for (entry, ..) in &pairs {
            let ends = [trees.source(), trees.destination()].map(|root| shape(&root.join(entry)));
            // An entry that is as new stays, if it is of the same kind.
            assert!(ends[0] == ends[1] || flags.contains(&"--update"), "{flags:?} {entry}");
        }
        let same = mirror(&trees, &["--delete"]);
        assert_eq!(number(&summary(&same), "deleted"), 0);
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    }

    // Without it, all that is no directory is replaced by what is none.
    for flags in [&[][..], &["--delete", "--no-clobber"]] {
        let (trees, pairs) = all_pairs();
        let before: Vec<_> =
            pairs.iter().map(|(entry, ..)| shape(&trees.destination().join(entry))).collect();
        let run = mirror(&trees, flags);
        // A directory in the way is a name that is taken.
        let keeps = flags.contains(&"--no-clobber");
        let is_refused = |new: usize, old: usize| differs(new, old) && !(keeps && KINDS[old].2);
        let refused = pairs.iter().filter(|(_, new, old)| is_refused(*new, *old)).count();
        run.failed(1);
        assert_eq!(number(&summary(&run), "failed"), refused as u64, "{flags:?}");
        for ((entry, new, old), before) in pairs.iter().zip(&before) {
            let found = shape(&trees.destination().join(entry));
            assert!(!differs(*new, *old) || found == *before, "{flags:?} {entry}");
        }
    }
}

/// Another program does the same with the same trees.
fn every_kind_as_rsync_does_it() {
    let (trees, pairs) = all_pairs();
    let theirs = Trees::new();
    fs::remove_dir_all(theirs.source()).unwrap();
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-aT").args([from, to]).status().unwrap();
        assert!(copied.success());
    };
    copy(&trees.source(), &theirs.source());
    copy(&trees.destination(), &theirs.destination());
    let run = mirror(&trees, &["--delete"]);
    assert!(run.status.success(), "{}", run.stderr);
    // A slash at the end: what is in it.
    let from = theirs.source().join("");
    run_tool("rsync", ["-rlD".as_ref(), "--delete".as_ref(), &*from, &*theirs.destination()]);
    for (entry, ..) in &pairs {
        let ends = [trees.destination(), theirs.destination()].map(|root| shape(&root.join(entry)));
        assert_eq!(ends[0], ends[1], "{entry}");
    }
}

fn what_is_excluded_makes_no_room() {
    let (trees, pairs) = all_pairs();
    let run = mirror(&trees, &["--delete", "--exclude=keep"]);
    run.failed(1);
    let held = |new: usize, old: usize| !KINDS[new].2 && KINDS[old].0 == "full directory";
    let refused = pairs.iter().filter(|(_, new, old)| held(*new, *old)).count() as u64;
    assert_eq!(number(&summary(&run), "failed"), refused, "{}", run.stderr);
    assert_eq!(refused, 3);
    for (entry, new, old) in &pairs {
        let path = trees.destination().join(entry);
        if held(*new, *old) {
            assert_eq!(shape(&path).len() as u64, FULL, "{entry}: nothing of it is deleted");
        } else if !KINDS[*new].2 {
            assert_eq!(shape(&path), shape(&trees.source().join(entry)), "{entry}");
        }
    }
    let failed = events(&run, "failed");
    let says = |event: &testbed::Receipt| event.value()["message"].to_string().contains("excluded");
    assert!(failed.iter().all(says), "{}", run.stderr);

    // A pattern may hold for a file and not for a directory of the same name.
    let trees = Trees::new();
    trees.file("x/inner", "new");
    let kept = file_in(&trees.destination(), "x", "mine");
    let run = mirror(&trees, &["--delete", "--exclude=x", "--include=x/"]);
    assert!(run.failed(1).contains("excluded"), "{}", run.stderr);
    assert_eq!(fs::read(kept).unwrap(), b"mine");
}

fn deletions_that_are_counted() {
    for (most, works) in [(FULL - 1, false), (FULL, true)] {
        let trees = Trees::new();
        trees.file("x", "new");
        fs::create_dir(trees.destination()).unwrap();
        fill(&trees.destination().join("x"));
        let most = format!("--max-delete={most}");
        let run = mirror(&trees, &["--delete", &most]);
        assert_eq!(run.status.success(), works, "{most}: {}", run.stderr);
        assert_eq!(number(&summary(&run), "deleted"), if works { FULL } else { 0 });
        let left = shape(&trees.destination().join("x")).len() as u64;
        assert_eq!(left, if works { 1 } else { FULL }, "{most}");
    }
}

fn further_names_make_room_too() {
    let trees = Trees::new();
    let first = trees.file("a", "new");
    fs::hard_link(first, trees.source().join("b")).unwrap();
    for name in ["a", "b"] {
        fs::create_dir_all(trees.destination()).unwrap();
        fill(&trees.destination().join(name));
    }
    let run = mirror(&trees, &["--delete"]);
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

/// An entry that is copied alone is no mirror of the directory that it comes to lie in.
fn nothing_beside_a_named_entry_makes_room() {
    let trees = Trees::new();
    let file = trees.file("x", "new");
    let directory = trees.file("d/x", "new").parent().unwrap().to_owned();
    fs::create_dir(trees.destination()).unwrap();
    fill(&trees.destination().join("x"));
    file_in(&trees.destination(), "d", "old");
    for source in [&file, &directory] {
        let destination = trees.destination().join(source.file_name().unwrap());
        let before = shape(&destination);
        let run = cp().args(["-T", "--delete"]).arg(source).arg(&destination).run();
        run.failed(1);
        assert_eq!(shape(&destination), before, "{}", source.display());
    }
}

/// In the place of an entry, and as one that the source does not have.
fn what_is_mounted_stays() {
    let elsewhere = Place::Tmpfs.scratch();
    file_in(&elsewhere, "a/b", "mine");
    for (name, is_file, many) in [
        ("x", false, 0),
        ("stranger", false, 0),
        ("stranger", true, 0),
        ("x/below/it", false, 0),
        ("x/below/it", true, 0),
        ("stranger/below/it", false, 40),
        ("stranger/below/it", true, 0),
        ("stranger/below/it", true, 40),
    ] {
        let trees = Trees::new();
        trees.file("x", "new");
        let top = trees.destination().join(name.split('/').next().unwrap());
        let point = trees.destination().join(name);
        match is_file {
            true => drop(file_in(&trees.destination(), name, "hidden")),
            false => fs::create_dir_all(&point).unwrap(),
        }
        if point != top {
            fs::write(top.join("beside"), "").unwrap();
            for other in ["a/f", "b/f", "z/f"] {
                file_in(&top, other, "deleted before it");
            }
            // A number at which the table of mounts is asked.
            for number in 0..many {
                fs::write(top.join(number.to_string()), "").unwrap();
            }
        }
        let mounted = if is_file { elsewhere.join("a/b") } else { elsewhere.path().to_owned() };
        let mount = Mount::bind_file(&mounted, &point);
        let before = shape(&top);
        let forecast = mirror(&trees, &["--delete", "--dry-run"]);
        let run = mirror(&trees, &["--delete"]);
        let said = format!("cannot delete {}: a filesystem is mounted there", point.display());
        for run in [&forecast, &run] {
            assert!(run.failed(1).contains(&said), "{name} {is_file}: {}", run.stderr);
        }
        assert_eq!(shape(&top), before, "{name} {is_file}: a part was deleted");
        drop(mount);
        assert_eq!(fs::read(elsewhere.join("a/b")).unwrap(), b"mine", "{name}");
        let _ = mirror(&trees, &["--delete"]);
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    }
}
