//! `uncopy unit plan`: everything is in one unit, and there is a whole plan or none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use testbed::{CallPattern, Case, Intercepted, SystemCall, by_extent};
use uncopy::Errno;

use super::{mixed, plan, succeeded, unit, units, write};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [] every_entry_is_in_one_unit,
        [] names_of_one_file_are_in_one_unit,
        [] large_files_are_cut,
        [] flags_and_settings_go_into_every_unit,
        [] a_file_with_the_name_of_the_ledger,
        [] deletions_are_those_of_now,
        [] a_killed_plan_begins_anew,
        [] an_error_leaves_no_plan,
        [] a_directory_has_one_plan,
        [] misuse_is_refused,
    ]
}

/// Returns the path of an entry, which may be of any bytes.
fn path(entry: &Value) -> PathBuf {
    match &entry["path"] {
        Value::String(path) => path.into(),
        encoded => {
            let bytes = STANDARD.decode(encoded["bytes"].as_str().unwrap()).unwrap();
            assert!(std::str::from_utf8(&bytes).is_err());
            OsString::from_vec(bytes).into()
        }
    }
}

/// Paths below a directory, found by the standard library.
fn walk(root: &Path, below: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            walk(root, &path, found);
        }
        found.insert(path);
    }
}

fn every_entry_is_in_one_unit() {
    let scratch = mixed();
    let source = scratch.join("s");
    let run = plan(&scratch).args(["-a", "--files=7", "--bytes=2Mi", "--json"]).run();
    let planned = run.receipt();
    let mut expected = BTreeSet::from([PathBuf::from(".")]);
    walk(&source, Path::new(""), &mut expected);
    let mut found: BTreeMap<PathBuf, BTreeSet<usize>> = BTreeMap::new();
    let units = units(&scratch.join("p"));
    for (number, lines) in units.iter().enumerate() {
        let (header, entries) = lines.split_first().unwrap();
        assert_eq!(header["unit"], number);
        assert_eq!(header["plan"], planned.value()["plan"]);
        assert_eq!(header["source"], source.to_str().unwrap());
        for entry in entries {
            let path = path(entry);
            let there = fs::symlink_metadata(source.join(&path)).unwrap();
            let saw = &entry["source"];
            assert_eq!(saw["inode"], there.ino());
            assert_eq!(saw["size"], there.size());
            assert_eq!(saw["mtime"], serde_json::json!([there.mtime(), there.mtime_nsec()]));
            assert_eq!(saw["ctime"], serde_json::json!([there.ctime(), there.ctime_nsec()]));
            assert_eq!(entry["destination"], Value::Null);
            assert_eq!(entry["kind"] == "directory", there.is_dir());
            assert!(found.entry(path).or_default().insert(number));
        }
        assert_eq!(header["kind"] == "finish", number + 1 == units.len());
        assert!(header["kind"] == "finish" || entries.len() <= 7, "{}", entries.len());
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    for (path, units) in &found {
        // Only the file that is cut is in several.
        assert_eq!(units.len(), if path == Path::new("large") { 3 } else { 1 }, "{path:?}");
    }
    assert_eq!(planned.value()["entries"], expected.len());
    assert_eq!(planned.value()["units"], units.len());
    assert_eq!(planned.value()["bytes"], (0..60).sum::<u64>() + 3 + (5 << 20));
    assert!(!scratch.join("d").exists());
}

fn names_of_one_file_are_in_one_unit() {
    let scratch = mixed();
    succeeded(&plan(&scratch).args(["--files=2", "-q"]).run());
    let units = units(&scratch.join("p"));
    let inode = fs::metadata(scratch.join("s/linked")).unwrap().ino();
    let with_it =
        |lines: &&Vec<Value>| lines[1..].iter().any(|entry| entry["source"]["inode"] == inode);
    let [lines] = units.iter().filter(with_it).collect::<Vec<_>>()[..] else {
        panic!("its names are in several units");
    };
    let entries = &lines[1..];
    let names: BTreeSet<PathBuf> = entries.iter().map(path).collect();
    let expected = ["d0/e0/f0", "linked", "d3/linked", "d4/e0/linked"];
    assert_eq!(names, expected.map(PathBuf::from).into());
    assert_eq!(entries[0]["with"], Value::Null);
    assert!(entries[1..].iter().all(|entry| entry["with"] == 0));
}

fn large_files_are_cut() {
    let scratch = mixed();
    succeeded(&plan(&scratch).arg("--bytes=2Mi").run());
    let units = units(&scratch.join("p"));
    let ranges: Vec<&Vec<Value>> =
        units.iter().filter(|lines| lines[0]["kind"] == "range").collect();
    let first = &ranges[0][0]["unit"];
    let found: Vec<Value> = ranges.iter().map(|lines| lines[1]["part"].clone()).collect();
    let part = |offset: u64, length: u64| serde_json::json!({"range": [offset, length], "file": 0, "ranges": 3, "first": first});
    assert_eq!(found, [part(0, 2 << 20), part(2 << 20, 2 << 20), part(4 << 20, 1 << 20)]);
}

fn flags_and_settings_go_into_every_unit() {
    let scratch = mixed();
    let patterns = scratch.join("patterns");
    fs::write(&patterns, "# a comment\n*.tmp\n").unwrap();
    fs::write(scratch.join("config.toml"), "verify = \"xxh3\"\nlinks = \"skip\"\nrsh = \"x\"\n")
        .unwrap();
    let run = plan(&scratch)
        .args(["--preserve=mode,xattr", "--exclude=/d1/", "--sparse=always", "--exclude-from"])
        .arg(&patterns)
        .arg("--config")
        .arg(scratch.join("config.toml"))
        .run();
    succeeded(&run);
    let expected = serde_json::json!([
        "--recursive",
        "--preserve=mode",
        "--preserve=xattr",
        "--sparse=always",
        "--exclude=/d1/",
        "--exclude=*.tmp",
        "--durable",
        "--setting=verify=xxh3",
        "--setting=links=skip",
    ]);
    for lines in units(&scratch.join("p")) {
        let words = lines[0]["options"]["words"].as_array().unwrap().iter();
        let sorted = |words: &mut dyn Iterator<Item = &Value>| -> Vec<String> {
            let mut words: Vec<String> = words.map(ToString::to_string).collect();
            words.sort();
            words
        };
        assert_eq!(
            sorted(&mut words.into_iter()),
            sorted(&mut expected.as_array().unwrap().iter())
        );
        assert!(!lines[1..].iter().any(|entry| path(entry).starts_with("d1")));
        assert!(!lines[1..].iter().any(|entry| entry["kind"] == "link"));
    }
}

fn deletions_are_those_of_now() {
    let scratch = mixed();
    write(scratch.join("d/d0/e0/f0"), "older");
    write(scratch.join("d/gone/a/b"), "");
    write(scratch.join("d/d0/gone"), "");
    write(scratch.join("d/.uncopy-ledger/x/000000.json"), "");
    let run = plan(&scratch).args(["--delete", "--max-delete=3"]).run();
    assert!(run.failed(1).contains("4 entries would be deleted"), "{}", run.stderr);
    assert!(!scratch.join("p/plan.json").exists());
    let planned = plan(&scratch).args(["--delete", "--json"]).run().receipt();
    assert_eq!(planned.value()["deletions"], 4);
    let units = units(&scratch.join("p"));
    let (finish, others) = units.split_last().unwrap();
    let gone = finish[1..].iter().filter(|entry| entry["source"] == Value::Null);
    let found: BTreeSet<PathBuf> = gone.map(path).collect();
    assert_eq!(found, ["gone", "gone/a", "gone/a/b", "d0/gone"].map(PathBuf::from).into());
    let mut entries = others.iter().flat_map(|lines| &lines[1..]);
    let old = entries.find(|entry| path(entry) == Path::new("d0/e0/f0")).unwrap();
    assert_eq!(old["destination"]["size"], 5);
    assert_eq!(
        old["destination"]["inode"],
        fs::metadata(scratch.join("d/d0/e0/f0")).unwrap().ino()
    );
    // Nothing was changed there.
    assert!(scratch.join("d/gone/a/b").exists());
}

/// It would need the name of the ledger, and is not left out in silence.
fn a_file_with_the_name_of_the_ledger() {
    let scratch = mixed();
    write(scratch.join("s/.uncopy-ledger"), "text");
    let run = plan(&scratch).run();
    assert!(run.failed(1).contains("holds the ledgers"), "{}", run.stderr);
    assert!(!scratch.join("p/plan.json").exists());
    succeeded(&plan(&scratch).arg("--exclude=/.uncopy-ledger").run());
}

/// `kill -9` in each call on the directory of the plan.
fn a_killed_plan_begins_anew() {
    let scratch = mixed();
    let directory = scratch.join("p");
    let program = plan(&scratch).args(["--files=20", "--bytes=2Mi", "--jobs=1", "-q"]);
    let intercept = Intercepted::new(&program).record();
    succeeded(&intercept.run);
    let entries = units(&directory).iter().map(Vec::len).sum::<usize>();
    let mut calls: BTreeMap<SystemCall, usize> = BTreeMap::new();
    for call in intercept.log.iter().filter(|call| call.touches(&directory)) {
        *calls.entry(call.call).or_default() += 1;
    }
    assert!(calls.values().sum::<usize>() > 30, "{calls:?}");
    fs::remove_dir_all(&directory).unwrap();
    let step = by_extent([5, 1, 1]);
    for (call, count) in calls {
        for nth in (1..=count).step_by(step) {
            let kill = CallPattern::of(&[call]).on(&directory).nth(nth).kills();
            let killed = Intercepted::new(&program).inject(kill).run();
            let has_plan = directory.join("plan.json").exists();
            assert!(!killed.run.status.success() || has_plan, "{call:?} {nth}");
            if has_plan {
                assert_eq!(units(&directory).iter().map(Vec::len).sum::<usize>(), entries);
                program.run().failed(1);
            } else {
                let status = unit(["status"]).arg(&directory).run();
                status.failed(1);
                succeeded(&program.run());
            }
            assert_eq!(units(&directory).iter().map(Vec::len).sum::<usize>(), entries);
            let left: BTreeSet<OsString> =
                fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            let finished = ["plan.json", "units"].map(OsString::from).into();
            // The next command removes what a kill after the last step leaves.
            assert_eq!(left, finished);
            fs::remove_dir_all(&directory).unwrap();
        }
    }
}

fn an_error_leaves_no_plan() {
    let scratch = mixed();
    let directory = scratch.join("p");
    let program = plan(&scratch).args(["--files=20", "--bytes=2Mi", "--jobs=2"]);
    for (call, errno) in [
        (SystemCall::WRITE, Errno::ENOSPC),
        (SystemCall::FSYNC, Errno::EIO),
        (SystemCall::OPENAT, Errno::EMFILE),
        (SystemCall::MKDIRAT, Errno::EROFS),
    ] {
        for nth in [1, 4, 7] {
            let fault = CallPattern::of(&[call]).on(&directory).nth(nth).fails(errno);
            let found = Intercepted::new(&program).inject(fault).run();
            if found.hits == 0 {
                let _ = fs::remove_dir_all(&directory);
                continue;
            }
            let message = found.run.failed(1);
            assert!(message.contains(&errno.to_string()), "{call:?} {nth}: {message}");
            assert!(!directory.join("plan.json").exists(), "{call:?} {nth}");
            let units = fs::read_dir(directory.join("units")).map_or(0, Iterator::count);
            assert_eq!(units, 0, "{call:?} {nth}: what was written stays");
        }
    }
    // All entries that cannot be planned are named.
    write(scratch.join("d/large/file"), "");
    write(scratch.join("d/d0"), "");
    let run = program.run();
    let message = run.failed(1);
    assert!(message.contains("large is a directory") && message.contains("d0 is a directory"));
    assert!(message.contains("2 entries cannot be planned"), "{message}");
    fs::remove_dir_all(scratch.join("d")).unwrap();
    succeeded(&program.run());
}

fn a_directory_has_one_plan() {
    let scratch = mixed();
    write(scratch.join("other/file"), "mine");
    let other = |directory: &str| {
        unit(["plan"])
            .arg(scratch.join("s"))
            .arg(scratch.join("d"))
            .arg("--out")
            .arg(scratch.join(directory))
    };
    assert!(other("other").run().failed(1).contains("not empty"));
    succeeded(&plan(&scratch).run());
    let before = fs::read(scratch.join("p/plan.json")).unwrap();
    assert!(plan(&scratch).arg("--files=1").run().failed(1).contains("finished plan"));
    assert_eq!(fs::read(scratch.join("p/plan.json")).unwrap(), before);
    // Another process that plans there is in the middle of it.
    let stopped =
        Intercepted::new(&other("q")).stop_in(CallPattern::of(&[SystemCall::FSYNC]).nth(1));
    assert!(other("q").run().failed(1).contains("another process"));
    assert!(unit(["status"]).arg(scratch.join("q")).run().failed(1).contains("not finished"));
    succeeded(&stopped.resume().run);
    for (inner, outer) in [("s", "s"), ("s", "s/x"), ("s/d0", "s")] {
        let run = unit(["plan"])
            .arg(scratch.join(inner))
            .arg(scratch.join(outer))
            .arg("--out")
            .arg(scratch.join("r"))
            .run();
        assert!(run.failed(1).contains(" lies in "), "{}", run.stderr);
    }
    assert!(other("s/plan").run().failed(1).contains(" lies in "));
    assert!(!scratch.join("s/plan").exists() && !scratch.join("r").exists());
}

fn misuse_is_refused() {
    let scratch = mixed();
    for flags in [
        &["--links=follow"][..],
        &["--bytes=1Ki"],
        &["--files=0"],
        &["--checksum", "--size-only"],
        &["--max-delete=3"],
        &["--method=reflink", "--require=moved"],
        &["--exclude=["],
    ] {
        plan(&scratch).args(flags).run().failed(2);
    }
    unit(["plan"]).arg(scratch.join("s")).run().failed(2);
    assert!(unit(["plan", "--out", "q", ":s", "d"]).run().failed(2).contains("names no host"));
    assert!(!scratch.join("q").exists());
    let run = unit(["plan"])
        .arg(scratch.join("large"))
        .arg(scratch.join("d"))
        .arg("--out")
        .arg(scratch.join("p"))
        .run();
    assert!(run.failed(1).contains("ENOENT"), "{}", run.stderr);
    assert!(!scratch.join("p").exists());
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff");
    fs::create_dir(scratch.join(odd)).unwrap();
    let out = scratch.join("p");
    succeeded(
        &unit(["plan", "-q"])
            .arg(scratch.join(odd))
            .arg(scratch.join("d"))
            .arg("--out")
            .arg(&out)
            .run(),
    );
    let header = &units(&out)[0][0];
    let bytes = STANDARD.decode(header["source"]["bytes"].as_str().unwrap()).unwrap();
    assert!(bytes.ends_with(b"odd\xff"));
}
