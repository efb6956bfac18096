//! Names of sources and destinations on the command line.

use std::os::unix::fs::symlink;

use testbed::{Case, Content, Need, Place, assert_same, patterned};

use crate::cp::witnessed::Pair;
use crate::cp::{cp, cp_as_nobody};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_name_that_looks_like_an_option,
        [] relative_names,
        [] into_a_directory,
        [] several_sources_into_a_directory,
        [] two_sources_of_one_name,
        [] one_of_several_is_missing,
        [] a_trailing_slash_is_a_directory,
        [Need::Root, Need::Tool("setpriv")] a_dot_behind_what_is_no_directory,
        [] no_such_directory,
        [] a_symbolic_link_as_the_source,
    ]
}

fn a_name_that_looks_like_an_option() {
    let scratch = Place::Disk.scratch();
    Content::dense(10).write(&scratch.join("-p"));
    let program = cp().current_dir(scratch.path()).args(["--", "-p", "--force"]);
    let _ = program.run().receipt();
    assert_same(&scratch.join("-p"), &scratch.join("--force"));
}

fn relative_names() {
    let scratch = Place::Disk.scratch();
    Content::dense(10_000).write(&scratch.join("a"));
    scratch.subdirectory("sub", 0o755);
    for (from, to) in [("a", "b"), ("./a", "sub/../c"), ("sub/../a", "sub/d"), ("a", "b")] {
        let _ = cp().current_dir(scratch.path()).arg(from).arg(to).run().receipt();
        assert_same(&scratch.join("a"), &scratch.join(to));
    }
}

fn into_a_directory() {
    let pair = Pair::at(Place::Disk, &Content::dense(3000));
    let receipt = cp().arg(&pair.source).arg(pair.to.path()).run().receipt();
    let inside = pair.to.join("source");
    assert_same(&pair.source, &inside);
    assert_eq!(receipt.value()["destination"], inside.to_str().unwrap());
}

fn several_sources_into_a_directory() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let names = ["one", "two", "three"];
    for (length, name) in (1000..).zip(names) {
        Content::dense(length).write(&pair.from.join(name));
    }
    let sources = names.map(|name| pair.from.join(name));
    let run = cp().args(&sources).arg(pair.to.path()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(run.receipts().len(), 3);
    for name in names {
        assert_same(&pair.from.join(name), &pair.to.join(name));
    }
    // Without a directory there is no place for more than one.
    let run = cp().args(&sources).arg(pair.to.join("nowhere")).run();
    assert!(!run.status.success());
    assert!(!pair.to.join("nowhere").exists());
}

/// The second would destroy what the first has just copied.
fn two_sources_of_one_name() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let (first, second) = (pair.from.subdirectory("1", 0o755), pair.from.subdirectory("2", 0o755));
    std::fs::write(first.join("name"), b"first").unwrap();
    std::fs::write(second.join("name"), b"second").unwrap();
    let run = cp().arg(first.join("name")).arg(second.join("name")).arg(pair.to.path()).run();
    assert!(!run.status.success(), "one of two files is lost: {}", run.stdout);
    let kept = std::fs::read(pair.to.join("name"));
    assert!(kept.map_or(true, |bytes| bytes == b"first"), "the second replaced the first");
}

fn one_of_several_is_missing() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let names = ["one", "missing", "three"];
    for name in ["one", "three"] {
        std::fs::write(pair.from.join(name), patterned(0, 999)).unwrap();
    }
    let run = cp().args(names.map(|name| pair.from.join(name))).arg(pair.to.path()).run();
    assert!(run.failed(1).contains("missing"), "{}", run.stderr);
    for name in ["one", "three"] {
        assert_same(&pair.from.join(name), &pair.to.join(name));
    }
}

fn a_trailing_slash_is_a_directory() {
    let pair = Pair::at(Place::Disk, &Content::dense(10));
    let run = cp().arg(&pair.source).arg(pair.to.join("none/")).run();
    assert!(!run.status.success());
    assert!(!pair.to.join("none").exists(), "a file where a directory was named");
}

/// It was called a directory.
fn a_dot_behind_what_is_no_directory() {
    let scratch = Place::Tmpfs.scratch();
    let directory = scratch.path();
    for name in ["source", "file"] {
        std::fs::write(directory.join(name), name).unwrap();
    }
    symlink("loop", directory.join("loop")).unwrap();
    symlink("file", directory.join("link")).unwrap();
    scratch.subdirectory("closed", 0o700);
    scratch.subdirectory("open", 0o777);
    for (program, to, expected) in [
        (cp(), "file/.", "ENOTDIR"),
        (cp(), "link/.", "ENOTDIR"),
        (cp(), "loop/.", "ELOOP"),
        (cp(), "none/.", "ENOENT"),
        (cp(), "none/..", "ENOENT"),
        (cp_as_nobody(), "closed/./.", "EACCES"),
        (cp_as_nobody(), "closed/deep/.", "EACCES"),
        (cp().arg("-T"), "open/.", "it is a directory"),
    ] {
        let run = program.args(["source", to]).current_dir(directory).run();
        let message = run.failed(1);
        assert!(message.contains(expected), "{to}: {message}");
        let is_called_so = message.contains("it is a directory");
        assert_eq!(is_called_so, expected == "it is a directory", "{to}: {message}");
        assert_eq!(std::fs::read_to_string(directory.join("file")).unwrap(), "file", "{to}");
    }
}

fn no_such_directory() {
    let pair = Pair::at(Place::Disk, &Content::dense(10));
    let run = cp().arg(&pair.source).arg(pair.to.join("none/file")).run();
    let message = run.failed(1);
    assert!(message.contains("none") && message.contains("ENOENT"), "{message}");
}

fn a_symbolic_link_as_the_source() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    Content::dense(10_000).write(&pair.from.join("file"));
    symlink("file", &pair.source).unwrap();
    pair.copy(cp());
    assert!(!std::fs::symlink_metadata(&pair.destination).unwrap().is_symlink());
}
