//! Backups: whatever fails or kills the program, the name never stands for nothing, and the old contents
//! have a name.

use std::collections::BTreeMap;
use std::fs;

use testbed::{CallPattern, Case, Content, Intercepted, Place, Program, SystemCall};
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
