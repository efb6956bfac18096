//! A mirror removes nothing from a directory whose source was not read to its end, and goes on mirroring
//! the others.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use std::time::Duration;
use testbed::{
    CallPattern, Case, Intercept, Mount, Need, Place, Program, Run, Scratch, SystemCall, run_tool,
};
use uncopy::Errno;

use crate::tree::errors::cp_as_nobody;
use crate::tree::{Trees, cp, events, file_in, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] nothing_goes_where_a_listing_breaks_off,
        [Need::Root] nothing_goes_where_the_source_may_not_be_read,
        [Need::Root] a_destination_that_may_not_be_read_is_no_bad_descriptor,
        [Need::Root, Need::Tool("rsync")] with_one_filesystem_nothing_goes_from_others,
        [Need::Root] directories_are_known_where_no_listing_gives_types,
        [] names_that_differ_in_case_are_names_like_others,
        [] a_directory_is_finished_while_another_is_listed,
    ]
}

/// So long that a listing takes several calls, each of 64 KiB.
const NAMES: usize = 700;
const NAME_BYTES: usize = 200;

/// A directory of many entries, one of few, and in both and above them what the source has not.
fn mirrors() -> Trees {
    let trees = Trees::new();
    fs::create_dir(trees.source().join("wide")).unwrap();
    for number in 0..NAMES {
        let name = format!("wide/{number:0NAME_BYTES$}");
        std::os::unix::fs::symlink("nowhere", trees.source().join(name)).unwrap();
    }
    trees.file("wide/inner/kept", "x");
    trees.file("other/kept", "x");
    for name in ["stranger", "wide/stranger", "wide/inner/stranger", "other/stranger"] {
        file_in(&trees.destination(), name, "old");
    }
    trees
}

fn mirror(trees: &Trees, program: Program) -> Program {
    let program = program.args(["-T", "--delete"]);
    program.arg(trees.source()).arg(trees.destination())
}

/// Extra entries stay in a directory whose source could not be listed, and are removed elsewhere.
#[track_caller]
fn assert_kept_in(trees: &Trees, directory: &str, run: &Run, context: &str) {
    run.failed(1);
    assert_eq!(number(&summary(run), "failed"), 1, "{context}: {}", run.stdout);
    let failed = events(run, "failed");
    let source = trees.source().join(directory);
    assert_eq!(failed[0].value()["source"], source.to_str().unwrap(), "{context}");
    let is_there = |name: &str| trees.destination().join(name).symlink_metadata().is_ok();
    assert!(is_there(&format!("{directory}/stranger")), "{context}: it was removed");
    for other in ["", "other/"] {
        assert!(!is_there(&format!("{other}stranger")), "{context}: {other}stranger is left");
    }
    assert!(is_there("other/kept"), "{context}");
}

/// Filesystems that are mounted in the destination, as by rsync.
fn with_one_filesystem_nothing_goes_from_others() {
    for (program, flag, goes) in [
        (cp().args(["-a", "-T"]), "-x", false),
        (cp().args(["-a", "-T"]), "-a", true),
        (Program::new("rsync"), "-axr", false),
    ] {
        let trees = Trees::new();
        for name in ["m/a", "m/d/b", "c/d"] {
            trees.file(name, "1");
        }
        let mounted = trees.destination().join("m");
        fs::create_dir_all(&mounted).unwrap();
        run_tool("mount", ["-t", "tmpfs", "stranger", mounted.to_str().unwrap()]);
        for name in ["m/k", "m/d/k", "k", "c/k"] {
            file_in(&trees.destination(), name, "old");
        }
        let is_rsync = flag == "-axr";
        let slash = |path: std::path::PathBuf| if is_rsync { path.join("") } else { path };
        let run = program.args([flag, "--delete"]);
        let run = run.arg(slash(trees.source())).arg(slash(trees.destination())).run();
        let left = |name: &str| trees.destination().join(name).exists();
        let found = ["m/k", "m/d/k", "k", "c/k", "m/a", "m/d/b"].map(left);
        run_tool("umount", [&mounted]);
        assert!(run.status.success(), "{flag}: {}", run.stderr);
        assert_eq!(found, [!goes, !goes, false, false, true, true], "{flag}");
    }
}

/// Excluded files in them went, more than the maximum, and the part of one beside a mount.
fn directories_are_known_where_no_listing_gives_types() {
    const HELD: [&str; 5] = ["gone/a/f", "gone/b/f", "gone/hold/g", "gone/sub/keep", "gone/z/f"];
    // Flags, whether something is mounted in the directory that is to go, whether that stays, whether the directory that one of
    // them excludes is copied, and the exit code.
    let rows: [(&[&str], bool, bool, bool, i32); 6] = [
        (&["--delete", "--exclude=keep"], false, true, true, 0),
        (&["--delete", "--exclude=hold/"], false, true, true, 0),
        (&["--delete", "--max-delete=7"], false, true, true, 1),
        (&["--delete"], true, true, true, 1),
        (&["--delete"], false, false, true, 0),
        (&["--delete", "--exclude=skip/"], false, false, false, 0),
    ];
    for (flags, is_mounted, stays, is_copied, code) in rows {
        let mount = Mount::without_types(32);
        let trees =
            Trees { from: Scratch::new_in(mount.path()), to: Scratch::new_in(mount.path()) };
        for name in ["f", "skip/f", ".uncopy-ledger/f"] {
            trees.file(name, "new");
        }
        for name in HELD {
            file_in(&trees.destination(), name, "old");
        }
        let point = trees.destination().join("gone/m/m");
        fs::create_dir_all(&point).unwrap();
        let bound = is_mounted.then(|| Mount::bind_file(&trees.source(), &point));
        let run = mirror(&trees, cp()).args(flags).run();
        let found = [&HELD[..], &["f", "skip/f", ".uncopy-ledger/f"]].concat();
        let found = found.into_iter().filter(|name| trees.destination().join(name).exists());
        let found: Vec<_> = found.collect();
        drop(bound);
        let context = format!("{flags:?} {is_mounted}: {}{}", run.stdout, run.stderr);
        assert_eq!(run.status.code(), Some(code), "{context}");
        let stay: &[&str] = if stays { &HELD } else { &[] };
        let copied: &[&str] = if is_copied { &["f", "skip/f"] } else { &["f"] };
        assert_eq!(found, [stay, copied].concat(), "{context}");
    }
}

/// At the first call, in the middle, and where nothing but the end is missing.
fn nothing_goes_where_a_listing_breaks_off() {
    let listing = |trees: &Trees| {
        let wide = trees.source().join("wide");
        CallPattern::of(&[SystemCall::GETDENTS64]).when(move |call| call.paths().contains(&wide))
    };
    let count = {
        let trees = mirrors();
        // Counted, and not changed.
        let counted = listing(&trees).delayed(Duration::ZERO);
        let Intercept { run, hits, .. } = mirror(&trees, cp().arg("--jobs=1")).run_with([counted]);
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(number(&summary(&run), "deleted"), 4);
        hits
    };
    assert!(count > 3, "{count}");
    for nth in [1, 2, count] {
        let trees = mirrors();
        let fails = listing(&trees).nth(nth).fails(Errno::EIO);
        let Intercept { run, hits, .. } = mirror(&trees, cp().arg("--jobs=1")).run_with([fails]);
        assert_eq!(hits, 1);
        assert_kept_in(&trees, "wide", &run, &format!("call {nth}"));
        // Entries listed before are copied all the same, and what they contain is mirrored.
        let entries = fs::read_dir(trees.destination().join("wide")).unwrap().count();
        assert!(nth == 1 || entries > 200, "{entries} entries after call {nth}");
        let inner = trees.destination().join("wide/inner");
        assert!(inner.join("kept").exists() != inner.join("stranger").exists(), "call {nth}");
    }
}

/// Not to be listed; to be listed, and no name in it to be looked up; and neither.
fn nothing_goes_where_the_source_may_not_be_read() {
    for mode in [0o311, 0o444, 0o000] {
        let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
        fs::create_dir(trees.source().join("closed")).unwrap();
        trees.file("other/kept", "x");
        for name in ["stranger", "closed/stranger", "other/stranger"] {
            file_in(&trees.destination(), name, "old");
        }
        for name in ["", "closed", "other"] {
            let path = trees.destination().join(name);
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        let closed = trees.source().join("closed");
        fs::set_permissions(closed, Permissions::from_mode(mode)).unwrap();
        let run = mirror(&trees, cp_as_nobody()).run();
        assert_kept_in(&trees, "closed", &run, &format!("mode {mode:o}: {}", run.stdout));
    }
}

/// The error was `EBADF`, with advice about descriptors.
fn a_destination_that_may_not_be_read_is_no_bad_descriptor() {
    let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
    trees.file("kept", "x");
    let stranger = file_in(&trees.destination(), "stranger", "old");
    fs::set_permissions(trees.destination(), Permissions::from_mode(0o333)).unwrap();
    std::os::unix::fs::chown(trees.destination(), Some(65534), Some(65534)).unwrap();
    let run = mirror(&trees, cp_as_nobody()).run();
    assert!(run.failed(1).contains("EACCES"), "{}", run.stderr);
    assert!(stranger.exists() && trees.destination().join("kept").exists());
}

/// Where the filesystem tells them apart, also if they are names of one file.
fn names_that_differ_in_case_are_names_like_others() {
    for linked in [false, true] {
        let trees = Trees::new();
        trees.file("d/Foo", "x");
        let old = file_in(&trees.destination(), "d/Foo", "old");
        match linked {
            true => fs::hard_link(old, trees.destination().join("d/foo")).unwrap(),
            false => drop(file_in(&trees.destination(), "d/foo", "old")),
        }
        file_in(&trees.destination(), "D/foo", "old");
        let run = mirror(&trees, cp().arg("--update")).run();
        assert!(run.status.success(), "{}", run.stderr);
        assert_eq!(number(&summary(&run), "deleted"), 3, "{linked}: {}", run.stdout);
        assert!(trees.destination().join("d/Foo").exists(), "{linked}");
    }
}

/// A worker that lists a directory copies a file whose other name completes another directory, which is
/// then listed for what the source does not have. At a rate, names wait for the first of their file.
fn a_directory_is_finished_while_another_is_listed() {
    const FILES: usize = 1500;
    let trees = Trees::new();
    for number in 0..FILES {
        let first = trees.file(&format!("wide/{number}"), [0; 4000]);
        let other = trees.source().join(format!("{number}"));
        fs::create_dir(&other).unwrap();
        fs::hard_link(first, other.join("linked")).unwrap();
        file_in(&trees.destination(), &format!("{number}/stranger"), "old");
    }
    let run = mirror(&trees, cp().args(["--jobs=4", "--max-bandwidth=4M"])).run();
    assert!(run.status.success(), "{}", run.stderr);
    let is_left = |number: &usize| {
        trees.destination().join(format!("{number}/stranger")).symlink_metadata().is_ok()
    };
    assert_eq!((0..FILES).find(is_left), None);
}
