//! Files that a run writes itself, the audit log and the manifest, never take the place of what it copies, and never
//! that of a file that somebody else wrote.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use testbed::{Case, Place, Program, Scratch};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_file_of_the_copy_is_refused,
        [] a_file_of_a_tree_is_refused,
        [] other_files_are_written,
        [] a_file_that_is_no_log_is_left_alone,
    ]
}

const PURPOSES: [&str; 2] = ["--audit", "--manifest"];

/// Files `a`, `a2` and `old`, the trees `s` and `d`, and other names of `a`.
fn scratch() -> Scratch {
    let scratch = Place::Disk.scratch();
    for directory in ["s", "s/below", "d"] {
        fs::create_dir(scratch.join(directory)).unwrap();
    }
    for file in ["a", "a2", "old", "list", "s/a", "s/file", "s/below/file", "d/extra"] {
        fs::write(scratch.join(file), format!("a\n{file}")).unwrap();
    }
    fs::write(scratch.join("list"), "a\n").unwrap();
    fs::hard_link(scratch.join("a"), scratch.join("hard")).unwrap();
    symlink("a", scratch.join("link")).unwrap();
    scratch
}

/// Contents by path, of files and directories below one.
fn found(directory: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.extend(found(&entry.path()).into_iter().map(|(n, c)| (format!("{name}/{n}"), c)));
            all.insert(name, None);
        } else {
            all.insert(name, Some(fs::read(entry.path()).unwrap()));
        }
    }
    all
}

fn cp(scratch: &Scratch, purpose: &str, own: &str, flags: &[&str], words: &str) -> testbed::Run {
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", purpose, own]).args(flags);
    program.args(words.split_whitespace()).current_dir(scratch.path()).run()
}

fn refuses(rows: &[(&str, &str)], forms: &[&[&str]]) {
    for purpose in PURPOSES {
        for (words, own) in rows {
            for flags in forms {
                let scratch = scratch();
                let before = found(scratch.path());
                let run = cp(&scratch, purpose, own, flags, words);
                let context = format!("{purpose} {own} {flags:?} {words}");
                assert_eq!(run.status.code(), Some(2), "{context}: {}", run.stderr);
                assert!(run.stderr.contains("name a"), "{context}: {}", run.stderr);
                assert!(found(scratch.path()) == before, "{context}");
            }
        }
    }
}

fn a_file_of_the_copy_is_refused() {
    let rows = [
        ("a b", "a"),
        ("a b", "./d/../a"),
        ("a b", "hard"),
        ("a b", "link"),
        ("link b", "a"),
        ("a b", "b"),
        ("a b", "./b"),
        ("a old", "old"),
        ("-b a old", "old~"),
        ("-S .bak a old", "old.bak"),
        ("a d", "d/a"),
        ("a a2 d", "a2"),
        ("a a2 d", "d/a2"),
        ("--parents s/below/file d", "d/s/below/file"),
        ("--files-from list . d", "list"),
        ("--files-from list . d", "d/a"),
        ("a missing/", "a"),
    ];
    refuses(&rows, &[&[], &["-r"], &["-a"]]);
    let scratch = scratch();
    let run = cp(&scratch, "--audit", "log", &["--manifest", "log"], "a b");
    run.failed(2);
    assert!(!scratch.join("log").exists());
}

fn a_file_of_a_tree_is_refused() {
    let rows = [
        ("s d", "d/s/file"),
        ("s d", "d/s/below/file"),
        ("-T s d", "d/file"),
        ("-T s new", "new/file"),
        ("-bT s d", "d/file~"),
        ("-T --delete s d", "d/extra"),
        ("-T --delete s d", "d/log"),
        ("--remove-source-files s d", "s/log"),
    ];
    refuses(&rows, &[&["-r"], &["-a"], &["-r", "-j1"]]);
}

fn other_files_are_written() {
    for purpose in PURPOSES {
        for (words, own) in [
            ("a b", "c"),
            ("-r a b", "c"),
            ("-b a old", "b~"),
            ("-rT s d", "d/log"),
            ("-rT --delete s d", "log"),
            ("--parents s/file d", "s/log"),
        ] {
            let scratch = scratch();
            let run = cp(&scratch, purpose, own, &[], words);
            assert!(run.status.success(), "{purpose} {own} {words}: {}", run.stderr);
            assert!(fs::metadata(scratch.join(own)).unwrap().len() > 0, "{purpose} {own} {words}");
        }
    }
}

fn a_file_that_is_no_log_is_left_alone() {
    let scratch = scratch();
    let run = cp(&scratch, "--audit", "log", &[], "a b");
    assert!(run.status.success(), "{}", run.stderr);
    let log = fs::read(scratch.join("log")).unwrap();
    let zeros = vec![0; 1_000_000];
    let with = |tail: &[u8]| [&log[..], tail].concat();
    let others = [
        zeros.clone(),
        [&zeros[..], b"data behind a hole\n"].concat(),
        b"text".to_vec(),
        b"text\n".to_vec(),
        b"\n".to_vec(),
        b"\n\n\0\0".to_vec(),
        b"{\"event\":\"copied\"}\n".to_vec(),
        b"{\"event\":\"copied\"}\n\0\0\0".to_vec(),
        with(b"text\n"),
        with(b"text\n\0\0\0"),
        with(b"{\"audit\":"),
        [b"text\n", &log[..]].concat(),
    ];
    for form in [&[][..], &["-r"], &["-r", "--dry-run"]] {
        for contents in &others {
            let own = scratch.join("other");
            fs::write(&own, contents).unwrap();
            let run = cp(&scratch, "--audit", "other", form, "a c");
            let shown = String::from_utf8_lossy(&contents[..contents.len().min(40)]);
            assert!(run.failed(1).contains("name another file"), "{shown:?}: {}", run.stderr);
            assert!(fs::read(&own).unwrap() == *contents, "{shown:?}");
            assert!(!scratch.join("c").exists(), "{shown:?}");
        }
    }
    for contents in [log.clone(), with(&[0; 700]), Vec::new()] {
        fs::write(scratch.join("other"), contents).unwrap();
        let run = cp(&scratch, "--audit", "other", &[], "a c");
        assert!(run.status.success(), "{}", run.stderr);
        let verify = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "verify"]);
        assert!(verify.arg(scratch.join("other")).run().status.success());
    }
}
