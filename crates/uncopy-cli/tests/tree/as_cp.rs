//! Flags of `cp` and `rsync` over trees, and options of trees for single files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use testbed::{Case, Compared, Mount, Need, Place, Program, assert_same, assert_same_tree};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] other_filesystems_are_left_out,
        [] patterns_come_from_a_file,
        [] a_list_that_cannot_be_read_is_misuse,
        [] a_single_file_is_updated,
        [] a_single_link_is_recreated,
        [] a_directory_is_no_single_entry,
        [] a_slash_that_rsync_reads_otherwise_is_noted,
    ]
}

fn single() -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "--json"])
}

fn other_filesystems_are_left_out() {
    let trees = Trees::new();
    trees.file("mounted/below", "hidden");
    trees.file("file", "x");
    let other = Place::Tmpfs.scratch();
    fs::create_dir(other.join("sub")).unwrap();
    fs::write(other.join("there"), "there").unwrap();
    let _mount = Mount::bind_file(other.path(), &trees.source().join("mounted"));
    let run = trees.copy(cp().arg("-x"));
    assert_eq!(number(&summary(&run), "directories"), 2);
    let mounted = trees.destination().join("mounted");
    assert_eq!(fs::read_dir(&mounted).unwrap().count(), 0);
    assert!(trees.destination().join("file").exists());
    // A mirror keeps entries that the source may have below the mount.
    fs::write(mounted.join("own"), "own").unwrap();
    fs::write(trees.destination().join("stranger"), "stranger").unwrap();
    let run = trees.copy(cp().args(["--one-file-system", "--delete", "-T"]));
    assert_eq!(number(&summary(&run), "deleted"), 1);
    assert!(mounted.join("own").exists());
    let run = trees.copy(cp().arg("-T"));
    assert_eq!(number(&summary(&run), "failed"), 0);
    assert!(mounted.join("there").exists() && mounted.join("sub").exists());
}

fn patterns_come_from_a_file() {
    let trees = Trees::new();
    for name in ["a.c", "a.o", "sub/b.o", "sub/keep.o", "#c", "tail ", "first", "\t"] {
        trees.file(name, name);
    }
    let list = trees.from.join("list");
    // Editors write a byte-order mark; git ignores it, and takes a line of a tab for a name.
    fs::write(&list, "\u{feff}first\n# objects\n\n  \n\t\n*.o\r\n!keep.o\n").unwrap();
    trees.copy(cp().arg("--exclude-from").arg(&list).args(["--exclude", "a.c"]));
    let has = |name: &str| trees.destination().join(name).exists();
    let found = ["a.c", "a.o", "sub/b.o", "sub/keep.o", "#c", "tail ", "first", "\t"].map(has);
    assert_eq!(found, [false, false, false, true, true, true, false, false]);
}

fn a_list_that_cannot_be_read_is_misuse() {
    let trees = Trees::new();
    let list = trees.from.join("list");
    for (text, words) in [
        (None, "cannot read the list"),
        (Some(&b"[a\n"[..]), "pattern 1"),
        (Some(&b"\xff\n"[..]), "is not UTF-8"),
    ] {
        if let Some(text) = text {
            fs::write(&list, text).unwrap();
        }
        let run = cp().arg("--exclude-from").arg(&list).args([trees.source(), trees.destination()]);
        let run = run.run();
        assert!(run.failed(2).contains(words), "{}", run.stderr);
        assert!(!trees.destination().exists());
    }
}

fn a_single_file_is_updated() {
    let trees = Trees::new();
    trees.file("a", "new");
    let (source, destination) = (trees.source().join("a"), trees.to.join("a"));
    let copy = |flag: &str| single().arg(flag).args([&source, &destination]).run();
    let run = copy("-u");
    assert_eq!(events(&run, "copied").len(), 1, "{}", run.stdout);
    fs::write(&destination, "own").unwrap();
    let run = copy("--update");
    assert_eq!((events(&run, "copied").len(), events(&run, "skipped").len()), (0, 1));
    assert_eq!(fs::read(&destination).unwrap(), b"own");
    let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    fs::File::options().write(true).open(&destination).unwrap().set_times(times).unwrap();
    assert_eq!(events(&copy("-u"), "copied").len(), 1);
    assert_eq!(fs::read(&destination).unwrap(), b"new");
    // A link that is named is written through.
    let link = trees.to.join("link");
    symlink("a", &link).unwrap();
    fs::File::options().write(true).open(&destination).unwrap().set_times(times).unwrap();
    trees.file("a", "newer");
    assert!(single().arg("-u").args([&source, &link]).run().status.success());
    assert!(link.is_symlink() && fs::read(&destination).unwrap() == b"newer");
}

fn a_single_link_is_recreated() {
    let trees = Trees::new();
    trees.file("a", "x");
    trees.file("b", "y");
    let link = trees.source().join("link");
    symlink("a", &link).unwrap();
    for flag in ["-P", "-d", "--no-dereference", "--links=preserve"] {
        // It replaces a link, and not what that leads to.
        let destination = trees.to.join("link");
        let _ = fs::remove_file(&destination);
        symlink(trees.source().join("b"), &destination).unwrap();
        let run = single().arg(flag).args([&link, &destination]).run();
        assert!(run.status.success(), "{flag}: {}", run.stderr);
        assert_eq!(fs::read_link(&destination).unwrap(), Path::new("a"), "{flag}");
        assert_eq!(fs::read(trees.source().join("b")).unwrap(), b"y", "{flag}");
    }
    for flag in ["-L", "-H", "--dereference", "--links=follow"] {
        let destination = trees.to.join("file");
        let run = single().arg(flag).args([&link, &destination]).run();
        assert!(run.status.success(), "{flag}: {}", run.stderr);
        assert!(!destination.is_symlink(), "{flag}");
        assert_same(&trees.source().join("a"), &destination);
        fs::remove_file(destination).unwrap();
    }
}

fn a_directory_is_no_single_entry() {
    let trees = Trees::new();
    for flag in ["-u", "-P", "-d", "--resume", "--preserve=links"] {
        let run = single().arg(flag).args([trees.source(), trees.destination()]).run();
        let message = run.failed(1);
        assert!(message.contains("--recursive"), "{flag}: {message}");
        assert!(!trees.destination().exists());
    }
    let fifo = trees.from.join("fifo");
    testbed::run_tool("mkfifo", [&fifo]);
    let run = single().arg("-u").args([&fifo, &trees.to.join("fifo")]).run();
    assert!(run.failed(1).contains("a FIFO"), "{}", run.stderr);
}

fn a_slash_that_rsync_reads_otherwise_is_noted() {
    let trees = Trees::new();
    trees.file("file", "x");
    let mut named = trees.source().into_os_string();
    named.push("/");
    let run = cp().arg(&named).arg(trees.to.path()).run();
    assert!(run.status.success() && run.stderr.contains("as by rsync"), "{}", run.stderr);
    let inside = trees.to.join(trees.source().file_name().unwrap());
    assert_same_tree(&trees.source(), &inside, Compared::default());
    // The recommended name has the effect that the note states.
    named.push(".");
    let run = cp().arg(&named).arg(&inside).run();
    assert!(run.status.success() && run.stderr.is_empty(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &inside, Compared::default());
    for quiet in [&["-q"][..], &["-T"]] {
        let run = cp().args(quiet).arg(trees.source()).arg(&inside).run();
        assert!(run.status.success() && run.stderr.is_empty(), "{}", run.stderr);
    }
}
