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
        [] a_link_does_not_replace_its_target,
        [] a_forecast_finds_the_same_file,
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

/// The link took the place of the file, and led to itself then.
fn a_link_does_not_replace_its_target() {
    // Link, its text, destination, and options that copy it as a link.
    let rows: [(&str, &str, &str, &[&[&str]]); 3] = [
        ("s", "d/s", "d", &[&["-r"], &["-P"], &["-d"], &["-a"], &["-rf"], &["-P", "--durable"]]),
        ("s", "d/s", "d/s", &[&["-P"], &["-P", "--resume"], &["-a", "--remove-destination"]]),
        (
            "b",
            "../d/s",
            "d",
            &[&["-rT"], &["-aT", "--checksum"], &["-aT", "--delete"], &["-rT", "--dry-run"]],
        ),
    ];
    for (source, text, to, options) in rows {
        for options in options {
            for further in [&[][..], &["-n"], &["-b"]] {
                if further == ["-b"] && options.contains(&"--delete") {
                    continue;
                }
                let scratch = Place::Disk.scratch();
                for directory in ["d", "b"] {
                    std::fs::create_dir(scratch.join(directory)).unwrap();
                }
                let target = scratch.join("d/s");
                std::fs::write(&target, "data").unwrap();
                let link = if source == "b" { scratch.join("b/s") } else { scratch.join(source) };
                symlink(text, link).unwrap();
                let program = cp().args(*options).args(further).current_dir(scratch.path());
                let run = program.args([source, to]).run();
                let at = format!("{options:?} {further:?}: {}", run.stderr);
                let is_forecast = options.contains(&"--dry-run");
                match further {
                    ["-b"] if !is_forecast => {
                        assert_eq!(std::fs::read(scratch.join("d/s~")).unwrap(), b"data", "{at}");
                    }
                    ["-n"] | ["-b"] => assert_eq!(std::fs::read(target).unwrap(), b"data", "{at}"),
                    _ => {
                        assert!(run.failed(1).contains("same file"), "{at}");
                        assert_eq!(std::fs::read(target).unwrap(), b"data", "{at}");
                    }
                }
            }
        }
    }
}

/// Both names refer to one file, as in a copy of names (`cp -al`).
fn a_forecast_finds_the_same_file() {
    let scratch = Place::Disk.scratch();
    std::fs::create_dir_all(scratch.join("s/d")).unwrap();
    std::fs::create_dir_all(scratch.join("t/d")).unwrap();
    for name in ["a", "d/c"] {
        std::fs::write(scratch.join("s").join(name), name).unwrap();
        std::fs::hard_link(scratch.join("s").join(name), scratch.join("t").join(name)).unwrap();
    }
    for flags in [&["-aT", "--dry-run"][..], &["-aT"], &["-rT", "--dry-run"], &["-rT"]] {
        let run = cp().args(flags).arg(scratch.join("s")).arg(scratch.join("t")).run();
        assert_eq!(run.failed(1).matches("same file").count(), 2, "{flags:?}: {}", run.stderr);
    }
    // Another name of the source may be replaced.
    for flags in [&["-aT", "--remove-destination", "--dry-run"][..], &["-aTf", "--dry-run"]] {
        let run = cp().args(flags).arg(scratch.join("s")).arg(scratch.join("t")).run();
        let forecast = run.status.success();
        let real = cp().args(&flags[..1]).args(&flags[1..flags.len() - 1]);
        let real = real.arg(scratch.join("s")).arg(scratch.join("t")).run().status.success();
        assert_eq!(forecast, real, "{flags:?}: {}", run.stderr);
    }
}
