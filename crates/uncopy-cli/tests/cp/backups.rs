//! Backups: whatever fails or kills the program, the name never stands for nothing, and the old contents
//! have a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use testbed::{CallPattern, Case, Content, Intercepted, Place, Program, SystemCall, by_extent};
use uncopy::Errno;

use crate::cp::cp;
use crate::cp::leftovers::no_unnamed_files;
use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_kill_loses_neither_name_nor_contents,
        [] a_backup_that_fails_leaves_the_old_file,
        [] without_hard_links_the_old_file_is_renamed,
        [] what_makes_no_sense_with_backups_is_refused,
        [] a_tree_keeps_all_that_it_replaces,
        [] a_backup_takes_the_place_of_no_other_copy,
        [] a_backup_does_not_take_the_name_of_its_source,
        [] a_backup_does_not_take_the_name_of_a_link_to_its_source,
        [] a_backup_with_the_name_of_a_directory,
        [] a_backup_with_too_long_a_name,
        [] old_contents_survive_kills_and_resuming,
    ]
}

const OLD: &[u8] = b"old contents";

fn pair() -> Pair {
    let pair = Pair::at(Place::Disk, &Content::dense(3000));
    fs::write(&pair.destination, OLD).unwrap();
    fs::write(pair.to.join("destination~"), "older").unwrap();
    pair
}

/// Contents of the destination's directory, by name.
fn found(pair: &Pair) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(pair.to.path()).unwrap().map(Result::unwrap);
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

fn a_kill_loses_neither_name_nor_contents() {
    for control in ["--backup=simple", "--backup=numbered"] {
        let program = cp().arg(control);
        let mut kept_by_then = 0;
        let first = pair();
        let recorded = Intercepted::new(&first.command(program.clone())).record();
        let _ = recorded.run.receipt();
        let calls: Vec<_> =
            recorded.log.iter().filter(|call| call.touches(first.to.path())).collect();
        assert!(calls.len() > 5, "{calls:?}");
        for call in &calls {
            let pair = pair();
            let kill = CallPattern::of(&[call.call]).nth(call.nth).kills();
            let run = pair.command(program.clone()).run_with([kill]).run;
            let at = format!("{control}, killed in {} number {}", call.call.name(), call.nth);
            assert!(!run.status.success(), "{at}: it was not");
            let found = found(&pair);
            let new = fs::read(&pair.source).unwrap();
            assert!([OLD, &new].contains(&found["destination"].as_slice()), "{at}");
            assert!(found.values().any(|contents| contents == OLD), "{at}: {:?}", found.keys());
            kept_by_then += usize::from(found.values().filter(|c| *c == OLD).count() > 1);
        }
        assert!(kept_by_then > 0, "no kill came between the two renames");
    }
}

fn a_backup_that_fails_leaves_the_old_file() {
    for (call, errno) in [
        (SystemCall::LINKAT, Errno::ENOSPC),
        (SystemCall::LINKAT, Errno::EACCES),
        (SystemCall::RENAMEAT2, Errno::EIO),
        (SystemCall::RENAMEAT, Errno::EIO),
    ] {
        let pair = pair();
        let names = found(&pair);
        let fault = CallPattern::of(&[call]).fails(errno);
        let intercept = pair.command(cp().arg("-b")).run_with([fault]);
        if intercept.hits == 0 {
            continue;
        }
        intercept.run.failed(1);
        assert_eq!(found(&pair), names, "{} {errno}", call.name());
    }
    let pair = pair();
    fs::remove_file(pair.to.join("destination~")).unwrap();
    fs::create_dir(pair.to.join("destination~")).unwrap();
    pair.command(cp().arg("--backup=simple")).run().failed(1);
    assert_eq!(fs::read(&pair.destination).unwrap(), OLD);
}

fn without_hard_links_the_old_file_is_renamed() {
    for (control, kept) in [
        ("--backup=simple", "destination~"),
        ("-b", "destination~"),
        ("--backup=t", "destination.~1~"),
    ] {
        let pair = pair();
        let forbid = CallPattern::of(&[SystemCall::LINKAT]).fails(Errno::EPERM);
        let run = pair.command(cp().arg(control));
        let intercept = run.run_with([no_unnamed_files(Errno::EOPNOTSUPP), forbid]);
        assert!(intercept.run.status.success(), "{control}: {}", intercept.run.stderr);
        let found = found(&pair);
        assert_eq!(found[kept], OLD, "{control}");
        assert_eq!(found["destination"], fs::read(&pair.source).unwrap(), "{control}");
    }
}

fn what_makes_no_sense_with_backups_is_refused() {
    for words in [
        &["-b", "-n"][..],
        &["-b", "--in-place"],
        &["-b", "--attributes-only"],
        &["-S", "../x"],
        &["-S", ""],
        &["-rb", "--delete"],
        &["--backup=sometimes"],
        &["--remove-destination", "--in-place"],
        &["--attributes-only", "--verify"],
        &["-l", "--verify"],
        &["-l", "--resume"],
    ] {
        let pair = pair();
        let names = found(&pair);
        pair.command(cp().args(words)).run().failed(2);
        assert_eq!(found(&pair), names, "{words:?}");
    }
    let pair = pair();
    let run = pair.command(cp().arg("-b").env("VERSION_CONTROL", "sometimes")).run();
    assert!(run.failed(2).contains("VERSION_CONTROL"), "{}", run.stderr);
}

fn a_tree_keeps_all_that_it_replaces() {
    let (from, to) = (Place::Disk.scratch(), Place::Disk.scratch());
    for (root, text) in [(&from, "new"), (&to, "old")] {
        for number in 0..40 {
            let directory = root.join(format!("tree/{}", number % 3));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(number.to_string()), format!("{text} {number}")).unwrap();
        }
        std::os::unix::fs::symlink(text, root.join("tree/link")).unwrap();
    }
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy"));
    let run = program.args(["cp", "-rTb"]).args([from.join("tree"), to.join("tree")]).run();
    assert!(run.status.success(), "{}", run.stderr);
    for number in 0..40 {
        let path = to.join(format!("tree/{}/{number}", number % 3));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("new {number}"));
        let kept = path.with_file_name(format!("{number}~"));
        assert_eq!(fs::read_to_string(kept).unwrap(), format!("old {number}"));
    }
    let target = |name: &str| fs::read_link(to.join("tree").join(name)).unwrap();
    assert_eq!([target("link"), target("link~")], ["new", "old"].map(std::path::PathBuf::from));
}

/// Contents of files below a directory.
fn all_contents(directory: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            all.extend(all_contents(&entry.path()));
        } else {
            all.insert(fs::read_to_string(entry.path()).unwrap());
        }
    }
    all
}

/// Ways of naming backups: the flag, whether there are numbered ones, and whether the next one gets a number.
const CONTROLS: [(&str, bool, bool); 5] = [
    ("--backup=simple", false, false),
    ("--backup=simple", true, false),
    ("-b", false, false),
    ("-b", true, true),
    ("--backup=numbered", false, true),
];

/// The error named the destination as the directory, and a dry run had said that it would be replaced.
fn a_backup_with_the_name_of_a_directory() {
    for job in ["s/a d/a", "-rT s d", "-rT --dry-run s d", "-P s/l d/l", "-rT --jobs=2 s d"] {
        for (control, has_numbered, works) in CONTROLS {
            let scratch = Place::Disk.scratch();
            for name in ["a", "l"] {
                fs::create_dir_all(scratch.join("s")).unwrap();
                fs::create_dir_all(scratch.join(format!("d/{name}~/inner"))).unwrap();
                fs::write(scratch.join("d").join(name), "old").unwrap();
                if has_numbered {
                    fs::write(scratch.join(format!("d/{name}.~1~")), "older").unwrap();
                }
            }
            fs::write(scratch.join("s/a"), "new").unwrap();
            symlink("a", scratch.join("s/l")).unwrap();
            let before = all_contents(scratch.path());
            let run = cp().arg(control).args(job.split(' ')).current_dir(scratch.path()).run();
            let context = format!("{control} {job}: {}{}", run.stdout, run.stderr);
            assert_eq!(run.status.code(), Some(i32::from(!works)), "{context}");
            if !works {
                assert!(run.stderr.contains("the name of a directory"), "{context}");
                assert_eq!(all_contents(scratch.path()), before, "{context}");
            }
            assert!(scratch.join("d/a~/inner").is_dir(), "{context}");
        }
    }
}

/// Whichever of the two is copied first, the other one fails, or gets a name of its own.
fn a_backup_takes_the_place_of_no_other_copy() {
    let jobs = [
        "-rT s d",
        "-r s/. d",
        "-r -j4 s/. d",
        "s/a~ s/a d",
        "s/a s/a~ d",
        "-d s/a~ s/a d",
        "--parents s/a~ s/a e",
        "one/a~ two/a d",
        "two/a one/a~ d",
        "-r one/a~ two/a d",
    ];
    for job in jobs {
        for (control, is_numbered) in
            [("--backup=simple", false), ("-b", false), ("--backup=numbered", true)]
        {
            for moves in [false, true] {
                let scratch = Place::Disk.scratch();
                // In this order, which is that of their inodes.
                for path in ["s/a~", "s/a", "one/a~", "two/a", "d/a", "e/s/a"] {
                    let path = scratch.join(path);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(&path, format!("of {}", path.display())).unwrap();
                }
                let before = all_contents(scratch.path());
                let is_tree = job.starts_with("-r");
                let program = cp().arg(control).args(job.split(' ')).current_dir(scratch.path());
                let program = if moves { program.arg("--remove-source-files") } else { program };
                if moves && !is_tree {
                    continue;
                }
                let run = program.run();
                let context = format!("{control} {job}: {}{}", run.stdout, run.stderr);
                assert_eq!(all_contents(scratch.path()), before, "{context}");
                let events = run.receipts();
                let failed = events.iter().filter(|event| event.value()["event"] == "failed");
                let codes: Vec<_> = failed.map(|event| event.value()["code"].clone()).collect();
                assert_eq!(run.status.code(), Some(i32::from(!is_numbered)), "{context}");
                assert_eq!(codes.len(), usize::from(!is_numbered), "{context}");
                let known = ["backup_is_copy", "name_of_backup"];
                assert!(
                    codes.iter().all(|code| known.contains(&code.as_str().unwrap())),
                    "{context}"
                );
                assert!(is_numbered || run.stderr.contains("--suffix"), "{context}");
                for event in events.iter().filter(|event| event.value()["event"] == "copied") {
                    let path = |key: &str| scratch.join(event.value()[key].as_str().unwrap());
                    let found = fs::read_to_string(path("destination")).unwrap();
                    assert!(
                        found.ends_with(
                            &event.value()["source"].as_str().unwrap().replace("/./", "/")
                        ),
                        "{context}"
                    );
                }
            }
        }
    }
}

/// Links to a file, and copies of what is no file, took the source's name for the backup of what they replaced.
fn a_backup_does_not_take_the_name_of_its_source() {
    let make = |kind: &str, path: &Path, text: &str| match kind {
        "file" => fs::write(path, text).unwrap(),
        "link" => symlink(text, path).unwrap(),
        _ => rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap(),
    };
    for kind in ["file", "link", "FIFO"] {
        let jobs = match kind {
            "file" => &["-f", "-l -f", "-r", "-r -l -f", "-r --dry-run", "-r -l -f --dry-run"][..],
            "link" => &["-P", "-P -f", "-r", "-r --dry-run", "-r -P -l -f"],
            _ => &["-r --specials", "-r --specials --dry-run"],
        };
        for job in jobs {
            for (control, has_numbered, works) in CONTROLS {
                let scratch = Place::Disk.scratch();
                make(kind, &scratch.join("a"), "old");
                make(kind, &scratch.join("a~"), "new");
                if has_numbered {
                    fs::write(scratch.join("a.~1~"), "older").unwrap();
                }
                let identity = |name: &str| {
                    let found = fs::symlink_metadata(scratch.join(name)).unwrap();
                    (found.dev(), found.ino())
                };
                let (source, old) = (identity("a~"), identity("a"));
                let args = [control, "a~", "a"];
                let run = cp().args(job.split(' ')).args(args).current_dir(scratch.path()).run();
                let context = format!("{kind} {job} {control}: {}{}", run.stdout, run.stderr);
                assert_eq!(run.status.code(), Some(i32::from(!works)), "{context}");
                assert_eq!(identity("a~"), source, "{context}");
                let is_replaced = works && !job.contains("--dry-run");
                assert_eq!(identity("a") != old, is_replaced, "{context}");
                assert!(works || run.stderr.contains("would replace the source"), "{context}");
            }
        }
    }
}

/// The link by which the source is named became the old file.
fn a_backup_does_not_take_the_name_of_a_link_to_its_source() {
    for (source, link, works) in [
        ("f~", "t", false),
        ("here/f~", "t", false),
        ("f~", "by", false),
        // The link is not how the source is named.
        ("t", "t", true),
        ("by", "t", true),
        ("f.copy", "other", true),
        ("e/f~", "other", true),
        ("f.copy", "missing", true),
    ] {
        for flags in ["-b", "--backup=simple -T", "--backup=simple -rH", "-b -rH --dry-run"] {
            let scratch = Place::Disk.scratch();
            let path = |name: &str| scratch.join(name);
            fs::create_dir(path("e")).unwrap();
            for (name, text) in [("f", "old"), ("f.copy", "F"), ("other", "O"), ("e/f~", "E")] {
                fs::write(path(name), text).unwrap();
            }
            fs::write(path("t"), "T").unwrap();
            for (target, name) in [("t", "by"), (".", "here"), (link, "f~")] {
                symlink(target, path(name)).unwrap();
            }
            let before = all_contents(&path("e"));
            let run = cp().args(flags.split(' ')).args([source, "f"]).current_dir(scratch.path());
            let run = run.run();
            let context = format!("{source} {link} {flags}: {}{}", run.stdout, run.stderr);
            assert_eq!(run.status.code(), Some(i32::from(!works)), "{context}");
            assert!(works || run.stderr.contains("would replace the source"), "{context}");
            let is_made = works && !flags.contains("dry-run");
            let kept = fs::read_link(path("f~"));
            assert_eq!(kept.ok().as_deref(), (!is_made).then_some(Path::new(link)), "{context}");
            let old = if is_made { "f~" } else { "f" };
            assert_eq!(fs::read_to_string(path(old)).unwrap(), "old", "{context}");
            assert_eq!(fs::read_to_string(path("t")).unwrap(), "T", "{context}");
            assert_eq!(all_contents(&path("e")), before, "{context}");
        }
    }
}

/// The error was about the name of the file, which is not too long.
fn a_backup_with_too_long_a_name() {
    for (control, length, there, works) in [
        ("--backup=simple --suffix=.0123456789", 244, "", true),
        ("--backup=simple --suffix=.0123456789", 245, "", false),
        ("-b", 254, "", true),
        ("-b", 255, "", false),
        ("-b", 251, ".~1~", true),
        ("-b --suffix=.0123456789", 250, ".~1~", true),
        ("--backup=numbered", 251, "", true),
        ("--backup=numbered", 254, "", false),
        ("--backup=numbered", 251, ".~8~", true),
        ("--backup=numbered", 251, ".~9~", false),
    ] {
        let name = "n".repeat(length);
        for job in ["s/N d/N", "-rT s d", "-rT --dry-run s d", "-rT --jobs=2 s d", "-P l/N d/N"] {
            let scratch = Place::Disk.scratch();
            for (directory, text) in [("s", "new"), ("d", "old")] {
                fs::create_dir(scratch.join(directory)).unwrap();
                fs::write(scratch.join(directory).join(&name), text).unwrap();
            }
            fs::create_dir(scratch.join("l")).unwrap();
            symlink("target", scratch.join("l").join(&name)).unwrap();
            if !there.is_empty() {
                fs::write(scratch.join(format!("d/{name}{there}")), "older").unwrap();
            }
            let before = names(&scratch.join("d"));
            let words = job.replace('N', &name);
            let program = cp().args(control.split(' ')).args(words.split(' '));
            let run = program.current_dir(scratch.path()).run();
            let context = format!("{control} {length} {job}: {}{}", run.stdout, run.stderr);
            assert_eq!(run.status.code(), Some(i32::from(!works)), "{context}");
            if !works {
                assert!(run.stderr.contains("its backup would have too long a name"), "{context}");
                assert!(run.stderr.contains("leave out --backup"), "{context}");
                assert!(!run.stderr.contains("shorten the name"), "{context}");
                assert_eq!(names(&scratch.join("d")), before, "{context}");
                let old = fs::read_to_string(scratch.join("d").join(&name)).unwrap();
                assert_eq!(old, "old", "{context}");
            }
        }
    }
}

/// Names in a directory.
fn names(directory: &Path) -> BTreeSet<std::ffi::OsString> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// A killed run has made backups that its journal does not know: the next one must not make them again, from
/// what the first one copied.
fn old_contents_survive_kills_and_resuming() {
    const FILES: usize = 12;
    let step = by_extent([17, 1, 1]);
    for (control, had_backups) in [
        ("--backup=simple", false),
        ("--backup=simple", true),
        ("-b", false),
        ("-b", true),
        ("--backup=numbered", true),
    ] {
        for (call, count) in [(SystemCall::RENAMEAT, 3 * FILES), (SystemCall::UNLINKAT, 2 * FILES)]
        {
            let mut killed = 0;
            for nth in (1..count).step_by(step) {
                let scratch = Place::Disk.scratch();
                let [from, to] = ["s", "d"].map(|name| scratch.join(name));
                for directory in [&from, &to] {
                    fs::create_dir(directory).unwrap();
                }
                for number in 0..FILES {
                    fs::write(from.join(number.to_string()), format!("new {number}")).unwrap();
                    fs::write(to.join(number.to_string()), format!("old {number}")).unwrap();
                    if had_backups {
                        fs::write(to.join(format!("{number}~")), "older").unwrap();
                    }
                }
                fs::hard_link(from.join("0"), from.join("linked")).unwrap();
                fs::write(to.join("linked"), "old linked").unwrap();
                symlink("new target", from.join("link")).unwrap();
                symlink("old target", to.join("link")).unwrap();
                // A backup made in the clock tick of the journal cannot be told from one of the killed run: it
                // is refused. These are older.
                std::thread::sleep(std::time::Duration::from_millis(30));
                let program = cp().args(["-aT", "--resume", "--jobs=1", control]);
                let program = program.args([&from, &to]);
                let kill = CallPattern::of(&[call]).nth(nth).kills();
                let is_killed = !program.clone().run_with([kill]).run.status.success();
                // Without one the first run has ended.
                let has_journal =
                    scratch.strangers(&["s", "d"]).iter().any(|n| n.contains("journal"));
                if !is_killed || !has_journal {
                    continue;
                }
                killed += 1;
                let run = program.run();
                let context =
                    format!("{control} {had_backups} {} {nth}: {}", call.name(), run.stderr);
                assert!(run.status.success(), "{context}{}", run.stdout);
                let names: Vec<String> = fs::read_dir(&to)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .collect();
                let backup = |name: &str| {
                    let mut kept = names.iter().filter(|kept| {
                        let behind = kept.strip_prefix(name);
                        behind.is_some_and(|b| {
                            if control.ends_with("numbered") {
                                b.starts_with(".~")
                            } else {
                                b == "~"
                            }
                        })
                    });
                    let kept =
                        kept.next().unwrap_or_else(|| panic!("no backup of {name}, {context}"));
                    to.join(kept)
                };
                for number in 0..FILES {
                    let name = number.to_string();
                    assert_eq!(
                        fs::read_to_string(to.join(&name)).unwrap(),
                        format!("new {number}"),
                        "{context}"
                    );
                    assert_eq!(
                        fs::read_to_string(backup(&name)).unwrap(),
                        format!("old {number}"),
                        "{context}"
                    );
                }
                assert_eq!(
                    fs::read_to_string(backup("linked")).unwrap(),
                    "old linked",
                    "{context}"
                );
                let target = fs::read_link(backup("link")).unwrap();
                assert_eq!(target, Path::new("old target"), "{context}");
            }
            assert!(killed > 0, "{control} {}", call.name());
        }
    }
}
