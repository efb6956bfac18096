//! Into directories that exist: atomically for each file, and nothing else is touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use testbed::witness::Strace;
use testbed::{Case, Compared, Intercepted, Need, SystemCall, assert_same_tree};

use crate::tree::{Trees, cp, events, file_in, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] a_directory_is_listed_once_and_not_for_each_file,
        [] files_are_replaced_and_others_stay,
        [] nothing_is_clobbered,
        [] kinds_that_do_not_fit_are_refused,
        [] a_link_in_the_destination_is_replaced_and_not_followed,
        [] directories_that_were_there_keep_what_they_have,
        [] no_name_ever_stands_for_half_a_file,
    ]
}

fn files_are_replaced_and_others_stay() {
    let trees = Trees::new();
    trees.file("a/both", "new");
    trees.file("a/large", vec![5; 1 << 20]);
    trees.file("a/new", "new");
    trees.file("new/deep/file", "new");
    let kept = file_in(&trees.destination(), "a/kept", "kept");
    let both = file_in(&trees.destination(), "a/both", "old");
    file_in(&trees.destination(), "a/large", "old");
    fs::set_permissions(&both, Permissions::from_mode(0o640)).unwrap();
    let run = cp().arg("-T").arg(trees.source()).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(fs::read(&kept).unwrap(), b"kept");
    assert_eq!(fs::metadata(&both).unwrap().mode() & 0o777, 0o640, "the old file's mode");
    fs::remove_file(kept).unwrap();
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    trees.assert_no_strangers();

    // Without -T an existing directory takes the source in.
    fs::remove_dir_all(trees.destination().join("new")).unwrap();
    let run = trees.run(cp());
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination().join("source"), Compared::default());
}

fn nothing_is_clobbered() {
    let trees = Trees::new();
    trees.file("a/both", "new");
    trees.file("a/new", "new");
    symlink("new", trees.source().join("a/link")).unwrap();
    fs::hard_link(trees.source().join("a/new"), trees.source().join("a/other")).unwrap();
    let names = ["a/both", "a/link", "a/other"];
    for name in names {
        file_in(&trees.destination(), name, "old");
    }
    let run = cp().arg("-nT").arg(trees.source()).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "skipped"), 3, "{}", run.stdout);
    for name in names {
        assert_eq!(fs::read(trees.destination().join(name)).unwrap(), b"old", "{name}");
    }
    assert_eq!(fs::read(trees.destination().join("a/new")).unwrap(), b"new");
}

fn kinds_that_do_not_fit_are_refused() {
    let trees = Trees::new();
    trees.file("directory/file", "new");
    trees.file("file", "new");
    trees.file("fine", "new");
    trees.file("link/file", "new");
    file_in(&trees.destination(), "directory", "old");
    file_in(&trees.destination(), "file/inner", "old");
    fs::create_dir(trees.to.join("elsewhere")).unwrap();
    symlink("../elsewhere", trees.destination().join("link")).unwrap();
    let run = cp().arg("-T").arg(trees.source()).arg(trees.destination()).run();
    run.failed(1);
    assert_eq!(number(&summary(&run), "failed"), 3, "{}", run.stdout);
    assert_eq!(fs::read(trees.destination().join("directory")).unwrap(), b"old");
    assert_eq!(fs::read(trees.destination().join("file/inner")).unwrap(), b"old");
    assert_eq!(fs::read(trees.destination().join("fine")).unwrap(), b"new");
    assert_eq!(fs::read_dir(trees.to.join("elsewhere")).unwrap().count(), 0);
    let failed = events(&run, "failed");
    assert!(failed.iter().all(|event| event.value()["message"].as_str().is_some()));
}

fn a_link_in_the_destination_is_replaced_and_not_followed() {
    let trees = Trees::new();
    trees.file("small", "new");
    trees.file("large", vec![5; 1 << 20]);
    let outside = file_in(trees.to.path(), "outside", "untouched");
    fs::create_dir(trees.destination()).unwrap();
    for name in ["small", "large"] {
        symlink("../outside", trees.destination().join(name)).unwrap();
    }
    let run = cp().arg("-T").arg(trees.source()).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    assert_eq!(fs::read(outside).unwrap(), b"untouched");
}

fn directories_that_were_there_keep_what_they_have() {
    let trees = Trees::new();
    trees.file("a/file", "x");
    fs::set_permissions(trees.source().join("a"), Permissions::from_mode(0o700)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_007);
    for path in [trees.source().join("a"), trees.source()] {
        fs::File::open(path).unwrap().set_modified(old).unwrap();
    }
    fs::create_dir_all(trees.destination().join("a")).unwrap();
    fs::set_permissions(trees.destination().join("a"), Permissions::from_mode(0o751)).unwrap();
    let copy = |flags: &[&str]| {
        let run = cp().args(flags).arg("-T").arg(trees.source()).arg(trees.destination()).run();
        assert!(run.status.success(), "{}", run.stderr);
    };
    let mode = || fs::metadata(trees.destination().join("a")).unwrap().mode() & 0o777;
    copy(&[]);
    assert_eq!(mode(), 0o751);
    copy(&["-p"]);
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
}

/// Stopped in each write: the old file is there, whole, and under no other name is half of the new.
fn no_name_ever_stands_for_half_a_file() {
    let trees = Trees::new();
    trees.file("small", "new");
    trees.file("large", vec![5; 1 << 20]);
    trees.file("added", "new");
    fs::create_dir(trees.destination()).unwrap();
    for name in ["small", "large"] {
        fs::write(trees.destination().join(name), "old").unwrap();
    }
    let program = cp().args(["-T", "--jobs=1", "--method=read-write"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let mut stepping = Intercepted::new(&program).stop_in_every_second(&[SystemCall::PWRITE64]);
    let mut stops = 0;
    while stepping.wait() {
        stops += 1;
        for name in ["small", "large", "added"] {
            let Ok(found) = fs::read(trees.destination().join(name)) else {
                assert_eq!(name, "added");
                continue;
            };
            let new = fs::read(trees.source().join(name)).unwrap();
            assert!(found == b"old" || found == new, "half of {name}");
        }
        stepping.go_on();
    }
    let run = stepping.end().run;
    assert!(run.status.success(), "{}", run.stderr);
    assert!(stops > 1, "{stops} stops");
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

/// Whether a killed run left something was asked for each file that was replaced.
fn a_directory_is_listed_once_and_not_for_each_file() {
    let trees = Trees::new();
    for number in 0..200 {
        trees.file(&format!("d/{number}"), "new");
        crate::tree::file_in(&trees.destination(), &format!("d/{number}"), "old");
    }
    let left = format!(".uncopy-{}-{}.tmp", "0".repeat(16), "1".repeat(32));
    crate::tree::file_in(&trees.destination().join("d"), &left, "what a killed run left");
    let program = cp().args(["-T", "--jobs=1"]).arg(trees.source()).arg(trees.destination());
    let (run, trace) = Strace::new(&program).run();
    assert!(run.status.success(), "{}", run.stderr);
    // Nothing shows whose it is.
    assert!(run.stderr.contains(&left), "{}", run.stderr);
    std::fs::remove_file(trees.destination().join("d").join(left)).unwrap();
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    let listings = trace.named(&["getdents64"]).len();
    assert!(listings <= 12, "{listings} calls to list two directories on either side");
}
