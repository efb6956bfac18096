//! Kinds of entries that a tree consists of.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use testbed::{
    Case, Compared, Content, Need, Place, Program, assert_same_tree, by_extent, run_tool,
};

use crate::tree::planting::Planting;
use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] specials_are_skipped_and_reported,
        [] specials_are_made_again,
        [Need::Root] devices_are_made_again,
        [] names_are_bytes,
        [] each_file_takes_its_own_way_in_one_receipt,
        [] a_small_file_that_is_cut_while_it_is_read_is_no_small_file,
        [] without_preserve_a_tree_is_as_if_made_here,
        [Need::Tool("setfacl")] a_default_acl_rules_a_new_tree,
        [] a_directory_that_may_not_be_written_to_is_filled,
        [] records_are_numbered_without_a_gap,
        [
            Need::At(Place::Ext4),
            Need::At(Place::Xfs),
            Need::At(Place::Btrfs),
            Need::At(Place::Tmpfs),
            Need::Tool("chattr"),
        ]
            inode_flags_that_are_not_kept,
    ];
    for place in [Place::Ext4, Place::Xfs, Place::Btrfs] {
        let name = format!("tree::kinds::each_class_goes_its_way_on::{place:?}");
        cases.push(Case::new(name, &[Need::At(place)], move || each_class(place)));
    }
    for place in [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs, Place::Tmpfs] {
        let name = format!("tree::kinds::everything_on::{place:?}");
        cases.push(Case::new(name, &[Need::At(place)], move || everything(place, place)));
        let name = format!("tree::kinds::everything_to::{place:?}");
        cases.push(Case::new(name, &[Need::At(place)], move || everything(Place::Disk, place)));
    }
    for place in [Place::Xfs, Place::Btrfs] {
        let name = format!("tree::kinds::everything_from::{place:?}");
        cases.push(Case::new(name, &[Need::At(place)], move || everything(place, Place::Disk)));
    }
    cases
}

/// A tree with all that this user can make.
fn fill(trees: &Trees, planting: Planting) {
    let source = trees.source();
    trees.file("a/small", "small");
    trees.file("a/empty", "");
    trees.file("a/b/c/deeper", vec![7; 70_000]);
    fs::create_dir_all(source.join("empty/also empty")).unwrap();
    Content::dense(3_000_001).write(&source.join("large"));
    Content::sparse(5 << 20, &[(1 << 20, 65_536), (4 << 20, 65_536)]).write(&source.join("sparse"));
    Content::sparse(60_000, &[]).write(&source.join("small hole"));
    symlink("small", source.join("a/link")).unwrap();
    symlink("/nonexistent/\u{1f600}", source.join("dangling")).unwrap();
    fs::hard_link(source.join("a/small"), source.join("a/b/other name")).unwrap();
    run_tool("mkfifo", [source.join("fifo")]);
    for name in ["a", "a/b", "a/small", "a/empty", "large", "sparse"] {
        planting.attributes(&source.join(name));
    }
    for (name, user) in
        [("a/b/c", 1001), ("a/b/c/deeper", 1001), ("large", 1001), ("fifo", 77), ("a/link", 77)]
    {
        planting.owner(&source.join(name), user);
    }
    for (name, mode) in [
        ("a/empty", 0o640),
        ("a/b", 0o2750),
        ("empty", 0o555),
        ("fifo", 0o604),
        // Owned by another user, if files can be given away.
        ("a/b/c/deeper", 0o4711),
        ("a/b/c", 0o1707),
    ] {
        fs::set_permissions(source.join(name), Permissions::from_mode(mode)).unwrap();
    }
    for (name, user) in [("a/small", 12), ("a/b", 13), ("empty", 14), ("large", 15), ("fifo", 16)] {
        planting.acl(&source.join(name), user);
    }
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_007, 123_456_789);
    for name in ["a/small", "a/b", "a", "large", "empty", "."] {
        fs::File::open(source.join(name)).unwrap().set_modified(old).unwrap();
    }
}

fn everything(from: Place, to: Place) {
    let trees = Trees::at(from, to);
    fill(&trees, Planting::at(from, to));
    let program = cp().args(["--specials", "--preserve=all"]);
    for flags in [&[][..], &["--jobs=1"], &["--verify"], &["--durable"]] {
        let run = trees.copy(program.clone().args(flags));
        // tmpfs and btrfs report holes in other units, and the copy may be on another filesystem.
        let holes = from == to;
        let compared = Compared { holes, ..Compared::wholly() };
        assert_same_tree(&trees.source(), &trees.destination(), compared);
        let summary = summary(&run);
        let counts =
            ["files", "directories", "symlinks", "hard_links", "specials", "skipped", "failed"]
                .map(|key| number(&summary, key));
        assert_eq!(counts, [6, 6, 2, 1, 1, 0, 0], "{}", run.stdout);
        assert!(summary.at("hole") >= 4 << 20, "{}", run.stdout);
        fs::set_permissions(trees.destination().join("empty"), Permissions::from_mode(0o755))
            .unwrap();
        fs::remove_dir_all(trees.destination()).unwrap();
    }
}

fn specials_are_skipped_and_reported() {
    let trees = Trees::new();
    trees.file("file", "x");
    run_tool("mkfifo", [trees.source().join("fifo")]);
    let run = trees.copy(cp());
    assert_eq!(number(&summary(&run), "skipped"), 1);
    let skipped = events(&run, "skipped");
    assert_eq!(skipped[0].value()["entry"], "special", "{}", run.stdout);
    assert!(trees.destination().join("file").exists());
    assert!(!trees.destination().join("fifo").exists());

    fs::remove_dir_all(trees.destination()).unwrap();
    let silent = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-r"]);
    let run = trees.copy(silent);
    assert!(run.stderr.contains("fifo") && run.stderr.contains("--specials"), "{}", run.stderr);
}

fn specials_are_made_again() {
    let trees = Trees::new();
    run_tool("mkfifo", ["-m".into(), "622".into(), trees.source().join("fifo")]);
    let socket = UnixListener::bind(trees.source().join("socket")).unwrap();
    trees.copy(cp().args(["--specials", "-p"]));
    drop(socket);
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
}

fn devices_are_made_again() {
    let trees = Trees::new();
    for (name, kind, major, minor) in [("null", "c", "1", "3"), ("loop", "b", "7", "0")] {
        let path = trees.source().join(name);
        run_tool("mknod", [path.as_os_str(), kind.as_ref(), major.as_ref(), minor.as_ref()]);
    }
    trees.copy(cp().args(["--specials", "-p"]));
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    assert_same_tree(&trees.source(), &trees.destination(), compared);
}

fn names_are_bytes() {
    let trees = Trees::new();
    for name in [&b"\xff\xfe"[..], b"new\nline", b"-rf", b" ", b"\x01", &[b'x'; 255]] {
        let directory = trees.source().join(OsStr::from_bytes(name));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let run = trees.copy(cp());
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    assert!(run.stdout.contains("source_base64"), "{}", run.stdout);
}

fn each_file_takes_its_own_way_in_one_receipt() {
    let trees = Trees::new();
    for number in 0..100 {
        trees.file(&format!("small/{number}"), vec![number; 4096]);
    }
    Content::dense(5_000_000).write(&trees.source().join("large"));
    let run = trees.copy(cp());
    let summary = summary(&run);
    assert_eq!(summary.bytes(), 100 * 4096 + 5_000_000);
    let at = |cost| summary.at(cost);
    if at("shared") == 0 {
        assert!(at("user_copied") >= 100 * 4096, "{}", summary.value());
        assert!(at("user_copied") < summary.bytes(), "{}", summary.value());
    }
    let costs = ["shared", "moved", "kernel_copied", "zeros", "user_copied", "unknown", "hole"];
    assert_eq!(costs.into_iter().map(at).sum::<u64>(), summary.bytes());
    // Every receipt of a file is in it.
    for cost in costs {
        let sum: u64 = events(&run, "copied").iter().map(|receipt| receipt.at(cost)).sum();
        assert_eq!(sum, at(cost), "{cost}");
    }
}

/// Small files and large ones, within a filesystem and from another one.
fn each_class(place: Place) {
    const SMALL: u64 = 4096;
    const LARGE: u64 = 5_000_000;
    let read = ("read_write", "user_copied");
    let spliced = ("splice", "kernel_copied");
    let shared = ("reflink", "shared");
    let within = if place.has_reflinks() { (shared, shared) } else { (read, spliced) };
    let other = if place == Place::Ext4 { Place::Tmpfs } else { Place::Ext4 };
    for (from, (small, large)) in [(place, within), (other, (read, spliced))] {
        let trees = Trees::at(from, place);
        for number in 0..10 {
            trees.file(&format!("small/{number}"), vec![number; SMALL as usize]);
            Content::dense(LARGE).write(&trees.source().join(format!("large {number}")));
        }
        let run = trees.copy(cp().arg("--jobs=1"));
        let copied = events(&run, "copied");
        assert_eq!(copied.len(), 20, "{}", run.stdout);
        for receipt in copied {
            let (by, cost) = if receipt.bytes() == SMALL { small } else { large };
            assert_eq!(receipt.by(by), receipt.bytes(), "{from:?}: {}", receipt.value());
            assert_eq!(receipt.at(cost), receipt.bytes(), "{from:?}: {}", receipt.value());
        }
        // One receipt for the whole has both.
        let whole = summary(&run);
        let bytes = |class| {
            let of = |(way, bytes)| if way == class { 10 * bytes } else { 0 };
            of((small, SMALL)) + of((large, LARGE))
        };
        for class in [small, large] {
            assert_eq!(whole.by(class.0), bytes(class), "{}", whole.value());
            assert_eq!(whole.at(class.1), bytes(class), "{}", whole.value());
        }
    }
}

/// `/proc` tells 0 for the size of files that are not empty.
fn a_small_file_that_is_cut_while_it_is_read_is_no_small_file() {
    let trees = Trees::new();
    let run = cp().args(["/proc/sys/kernel/random", "/proc/version"]).arg(trees.to.path()).run();
    // boot_id, entropy_avail and others; some may only be written to.
    assert!(run.status.code().is_some(), "{}", run.stderr);
    let copied = fs::read(trees.to.join("version")).unwrap();
    assert_eq!(copied, fs::read("/proc/version").unwrap());
    let id = fs::read(trees.to.join("random/boot_id")).unwrap();
    assert_eq!(id, fs::read("/proc/sys/kernel/random/boot_id").unwrap());
}

fn without_preserve_a_tree_is_as_if_made_here() {
    let trees = Trees::new();
    for (name, mode) in [("a", 0o4777), ("b", 0o600), ("c", 0o444)] {
        let path = trees.file(name, "x");
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    for (name, mode) in [("d", 0o777), ("e", 0o1700), ("f", 0o555)] {
        let path = trees.source().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(trees.source(), Permissions::from_mode(0o775)).unwrap();
    trees.copy(cp().with_umask("027"));
    let mode = |name: &str| fs::metadata(trees.destination().join(name)).unwrap().mode() & 0o7777;
    let modes = ["a", "b", "c", "d", "e", "f", "."].map(mode);
    assert_eq!(modes, [0o750, 0o600, 0o440, 0o750, 0o1700, 0o550, 0o750]);
}

fn a_default_acl_rules_a_new_tree() {
    let trees = Trees::new();
    trees.file("a/b", "x");
    trees.file("c", vec![1; 100_000]);
    run_tool("setfacl", ["-d".as_ref(), "-m".as_ref(), "u:7:rwx".as_ref(), trees.to.as_os_str()]);
    let beside = trees.to.join("beside");
    run_tool("cp", ["-r".as_ref(), trees.source().as_os_str(), beside.as_os_str()]);
    trees.run(cp());
    let compared = Compared { modes: true, attributes: true, ..Compared::default() };
    assert_same_tree(&beside, &trees.destination(), compared);

    // With the source's modes nothing of it is inherited by files, as `cp -p` has it.
    fs::remove_dir_all(trees.destination()).unwrap();
    trees.run(cp().arg("-p"));
    for name in ["a/b", "c"] {
        let copy = trees.destination().join(name);
        let mode = |path| fs::metadata(path).unwrap().mode();
        assert_eq!(mode(&copy), mode(&trees.source().join(name)), "{name}");
    }
}

fn a_directory_that_may_not_be_written_to_is_filled() {
    let trees = Trees::new();
    trees.file("closed/file", "x");
    trees.file("closed/inner/file", "x");
    for name in ["closed/inner", "closed"] {
        let path = trees.source().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o555)).unwrap();
    }
    for flags in [&[][..], &["-p"]] {
        trees.copy(cp().args(flags));
        let compared = Compared { modes: true, ..Compared::default() };
        assert_same_tree(&trees.source(), &trees.destination(), compared);
        run_tool("chmod", ["-R".as_ref(), "u+w".as_ref(), trees.destination().as_os_str()]);
        fs::remove_dir_all(trees.destination()).unwrap();
    }
    run_tool("chmod", ["-R".as_ref(), "u+w".as_ref(), trees.source().as_os_str()]);
}

fn records_are_numbered_without_a_gap() {
    let trees = Trees::new();
    let directories = by_extent([2, 10, 10]);
    for directory in 0..directories {
        for file in 0..100 {
            trees.file(&format!("{directory}/{file}"), "x");
        }
    }
    let run = trees.copy(cp().arg("--jobs=4"));
    let receipts = run.receipts();
    let (summary, records) = receipts.split_last().unwrap();
    let numbers: Vec<u64> = records.iter().map(|record| number(record, "sequence")).collect();
    assert_eq!(numbers, (1..=101 * directories + 1).collect::<Vec<_>>());
    assert_eq!(number(summary, "files"), 100 * directories);
}

/// Inode flags that `lsattr` shows for the source and not for the copy.
fn inode_flags_that_are_not_kept() {
    /// As `chattr` calls them, and the receipt.
    const FLAGS: [(char, &str); 8] = [
        ('a', "append_only"),
        ('i', "immutable"),
        ('d', "no_dump"),
        ('A', "no_access_time"),
        ('S', "synchronous"),
        ('C', "no_copy_on_write"),
        ('P', "project_inherit"),
        ('c', "compressed"),
    ];
    let mut seen = Vec::new();
    for place in [Place::Ext4, Place::Xfs, Place::Btrfs, Place::Tmpfs] {
        for (letter, name) in FLAGS {
            let trees = Trees::at(place, Place::Disk);
            let file = trees.file("d/f", "");
            let directory = file.parent().unwrap().to_owned();
            trees.file("d/large", vec![7; 3 << 20]);
            let change = |sign: char, path: &std::path::Path| {
                let flag = format!("{sign}{letter}");
                let output = std::process::Command::new("chattr").arg(flag).arg(path).output();
                output.unwrap().status.success()
            };
            let large = directory.join("large");
            let shows = |path: &std::path::Path| {
                let shown = std::process::Command::new("lsattr").arg("-d").arg(path).output();
                let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
                shown.split(' ').next().unwrap().contains(letter)
            };
            // Some take what they do not keep.
            let flagged: Vec<_> = [&file, &large, &directory]
                .into_iter()
                .filter(|path| change('+', path) && shows(path))
                .collect();
            let single = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "--json"]);
            let single = single.arg(&file).arg(trees.to.join("alone")).run();
            let run = trees.run(cp());
            let quiet = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-r"]);
            let quiet = quiet.arg(trees.source()).arg(trees.to.join("quiet")).run();
            for path in [&file, &large, &directory] {
                change('-', path);
            }
            assert!(run.status.success() && quiet.status.success(), "{}", run.stderr);
            let alone = single.receipt().value()["flags_not_kept"].to_string();
            let flags_of = |path: &std::path::Path| {
                let source = path.to_str().unwrap();
                let all = run.receipts();
                let event = all.iter().find(|event| event.value()["source"] == source).unwrap();
                event.value()["flags_not_kept"].to_string()
            };
            for path in [&file, &large, &directory] {
                let expected = match flagged.contains(&path) {
                    true => format!("[\"{name}\"]"),
                    false => "null".to_owned(),
                };
                assert_eq!(flags_of(path), expected, "{place:?} {letter} {}", path.display());
                assert!(path != &file || alone == expected, "{place:?} {letter}: {alone}");
            }
            // Flags that statx(2) returns are reported without --verbose too.
            let is_shown = ['a', 'i', 'd'].contains(&letter) && flagged.contains(&&file);
            let words = name.replace('_', " ");
            assert!(!is_shown || quiet.stderr.contains(&words), "{place:?}: {}", quiet.stderr);
            seen.extend(flagged.first().map(|_| name));
        }
    }
    for (letter, name) in FLAGS {
        assert!(seen.contains(&name), "no filesystem has {letter}");
    }
}
