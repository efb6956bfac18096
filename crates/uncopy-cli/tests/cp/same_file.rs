//! A file is never copied onto itself, whatever name the destination goes by. Other tools truncate
//! it first and then find nothing to copy.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use testbed::{Case, Content, Mount, Need, Place, Program, Scratch};

use crate::cp::{EVERYWHERE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] the_same_name,
        [] another_spelling,
        [] a_hard_link,
        [] a_symbolic_link_to_the_source,
        [] a_symbolic_link_as_the_source,
        [] through_a_symbolic_link_to_the_directory,
        [Need::Root] a_bind_mount_of_the_directory,
        [Need::Root] a_bind_mount_of_the_file,
    ]
}

const LENGTH: u64 = 300_000;

fn source() -> Scratch {
    let scratch = Place::Disk.scratch();
    Content::dense(LENGTH).write(&scratch.join("source"));
    scratch
}

/// Every way and every switch that could get past the check.
fn variants() -> Vec<Program> {
    let mut variants = vec![
        cp(),
        cp().arg("-f"),
        cp().arg("-p"),
        cp().arg("--in-place"),
        cp().args(["--in-place", "-f"]),
        cp().arg("--durable"),
        cp().arg("--copy-contents"),
        cp().arg("--sparse=always"),
        cp().arg("--if-changed=retry"),
    ];
    variants.extend(EVERYWHERE.map(cp_by));
    variants
}

fn refuses(scratch: &Scratch, from: &Path, to: &Path) {
    let original = std::fs::read(from).unwrap();
    let before = std::fs::metadata(from).unwrap();
    for program in variants() {
        let run = program.clone().arg(from).arg(to).run();
        assert!(run.failed(1).contains("same file"), "{program:?}: {}", run.stderr);
        let after = std::fs::metadata(from).unwrap();
        assert!(std::fs::read(from).unwrap() == original, "the source is gone: {program:?}");
        assert_eq!(
            (before.ino(), before.mtime_nsec(), before.ctime_nsec()),
            (after.ino(), after.mtime_nsec(), after.ctime_nsec()),
            "the source was touched: {program:?}"
        );
        let strangers = scratch.strangers(&["source", "other", "directory"]);
        assert!(strangers.is_empty(), "left behind: {strangers:?}");
    }
}

fn the_same_name() {
    let scratch = source();
    refuses(&scratch, &scratch.join("source"), &scratch.join("source"));
}

fn another_spelling() {
    let scratch = source();
    refuses(&scratch, &scratch.join("source"), &scratch.join(".//./source"));
}

fn a_hard_link() {
    let scratch = source();
    std::fs::hard_link(scratch.join("source"), scratch.join("other")).unwrap();
    refuses(&scratch, &scratch.join("source"), &scratch.join("other"));
}

fn a_symbolic_link_to_the_source() {
    let scratch = source();
    symlink("source", scratch.join("other")).unwrap();
    refuses(&scratch, &scratch.join("source"), &scratch.join("other"));
}

fn a_symbolic_link_as_the_source() {
    let scratch = source();
    symlink("source", scratch.join("other")).unwrap();
    refuses(&scratch, &scratch.join("other"), &scratch.join("source"));
}

fn through_a_symbolic_link_to_the_directory() {
    let scratch = source();
    symlink(".", scratch.join("directory")).unwrap();
    refuses(&scratch, &scratch.join("source"), &scratch.join("directory"));
}

fn a_bind_mount_of_the_directory() {
    let scratch = source();
    let mount = Mount::bind(&scratch);
    refuses(&scratch, &scratch.join("source"), &mount.path().join("source"));
}

fn a_bind_mount_of_the_file() {
    let scratch = source();
    std::fs::write(scratch.join("other"), b"below the mount").unwrap();
    let mount = Mount::bind_file(&scratch.join("source"), &scratch.join("other"));
    refuses(&scratch, &scratch.join("source"), &scratch.join("other"));
    drop(mount);
    assert_eq!(std::fs::read(scratch.join("other")).unwrap(), b"below the mount");
}
