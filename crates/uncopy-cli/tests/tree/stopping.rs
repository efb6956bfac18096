//! Errors of the destination that the next file would meet too: what they end, and what they do not.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use testbed::{CallPattern, Case, Need, Place, Program, SystemCall, by_extent, seeded};
use uncopy::Errno;

use crate::tree::incomplete::{
    FILES, LARGE, assert_goes_on, assert_kept, files, fill, limited, long, one_worker,
};
use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("prlimit")] a_merge_ends_at_the_first_such_error,
        [Need::Tool("prlimit")] nothing_is_deleted_after_it,
        [Need::Tool("prlimit"), Need::KernelTimes] flags_that_go_with_it,
        [Need::Tool("prlimit")] an_audit_log_has_it,
        [Need::Root, Need::Tool("prlimit"), Need::Tool("setpriv")] its_owner_can_delete_it,
        [Need::Root] a_source_that_cannot_be_read_is_another_matter,
        [] an_error_of_the_source_in_a_call_that_touches_both,
    ]
}

fn a_merge_ends_at_the_first_such_error() {
    for jobs in ["--jobs=1", "--jobs=4"] {
        let trees = long();
        for number in 0..400 {
            trees.file(&format!("a/b/z/z/{number}"), "x");
        }
        crate::tree::file_in(&trees.destination(), LARGE, "old");
        crate::tree::file_in(&trees.destination(), "stranger", "kept");
        let run = trees.run(limited(cp().args([jobs, "-T"])));
        assert!(run.failed(1).contains("EFBIG"), "{}", run.stderr);
        assert!(events(&run, "incomplete").is_empty(), "{}", run.stdout);
        let summary = summary(&run);
        assert_eq!(summary.value()["stopped_early"], true, "{}", summary.value());
        assert!(run.stderr.contains("not tried"), "{}", run.stderr);
        assert_eq!(fs::read(trees.destination().join(LARGE)).unwrap(), b"old");
        assert_eq!(trees.to.strangers(&["destination"]), [""; 0]);
        for file in files(&trees.destination()) {
            let name = file.to_string_lossy();
            assert!(!name.contains(".uncopy"), "{name}");
            if name != LARGE && name != "stranger" {
                let same = fs::read(trees.source().join(&file)).unwrap()
                    == fs::read(trees.destination().join(&file)).unwrap();
                assert!(same, "half of {name}");
            }
        }
        let run = trees.run(limited(cp().args([jobs, "-T", "--on-error=skip"])));
        run.failed(1);
        assert_eq!(files(&trees.destination()).len(), FILES + 402);
    }
}

fn nothing_is_deleted_after_it() {
    let trees = long();
    for place in ["", "a/", "a/b/", "a/b/z/"] {
        crate::tree::file_in(&trees.destination(), &format!("{place}stranger"), "old");
    }
    let run = trees.run(limited(one_worker().args(["-T", "--delete"])));
    run.failed(1);
    let last = events(&run, "failed")[0].value()["sequence"].as_u64().unwrap();
    for deleted in events(&run, "deleted") {
        assert!(number(&deleted, "sequence") < last, "{}", run.stdout);
    }
    assert!(trees.destination().join("stranger").exists());
    assert!(trees.destination().join("a/b/z/stranger").exists());
}

fn flags_that_go_with_it() {
    let all = [&["--durable"][..], &["--verify"], &["-p"], &["--preserve=all"], &["-T"]];
    for flags in all.into_iter().step_by(by_extent([2, 1, 1])) {
        let trees = long();
        let run = trees.run(limited(one_worker().args(flags)));
        let path = assert_kept(&trees, &run, "EFBIG");
        assert_goes_on(&trees, one_worker().args(flags).arg("--resume"), &path);
        trees.assert_no_strangers();
        // Other flags are another copy.
        let trees = long();
        assert_kept(&trees, &trees.run(limited(one_worker().args(flags))), "EFBIG");
        let run = trees.run(one_worker().args(["--sparse=always", "--resume"]));
        assert!(run.failed(1).contains("other flags"), "{}", run.stderr);
    }
    // Nothing is written.
    let trees = long();
    trees.run(limited(one_worker().arg("--dry-run")));
    assert_eq!(trees.to.strangers(&[]), [""; 0]);
}

fn an_audit_log_has_it() {
    let trees = long();
    let log = trees.from.join("log");
    trees.file(LARGE, seeded(7, 0, 3_000_000));
    // The log is longer than a tenth of it.
    let program = one_worker().arg("--audit").arg(&log).through(["prlimit", "--fsize=2000000"]);
    let run = trees.run(program);
    let path = assert_kept(&trees, &run, "EFBIG");
    let lines = fs::read_to_string(&log).unwrap();
    let count = lines.lines().filter(|line| line.contains("\"result\":\"incomplete\"")).count();
    assert_eq!(count, 1);
    assert!(lines.contains(&*path.to_string_lossy()));
    let verified = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "verify"]).arg(&log);
    assert!(verified.run().status.success());
}

/// Whatever modes its directories get when they are finished.
fn its_owner_can_delete_it() {
    let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
    fill(&trees.source(), 300_000);
    // One that is finished before the large file is met, with files in it.
    crate::tree::file_in(&trees.source(), "a/b/closed/file", "x");
    crate::tree::file_in(&trees.source(), "a/b/z/z/z/file", "x");
    let closed = Permissions::from_mode(0o555);
    fs::set_permissions(trees.source().join("a/b/closed"), closed).unwrap();
    fs::set_permissions(trees.to.path(), Permissions::from_mode(0o777)).unwrap();
    // Its files are readable for everybody.
    let program = crate::tree::errors::cp_as_nobody().args(["-p", "--jobs=1"]);
    let run = trees.run(program.through(["prlimit", "--fsize=200000"]));
    let path = assert_kept(&trees, &run, "EFBIG");
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
    assert!(path.join("a").exists());
    let remove = Program::new("/bin/rm").arg("-rf").arg(&path).as_user(65534).run();
    assert!(remove.status.success() && !path.exists(), "{}", remove.stderr);
    // And one that is gone on with has the modes of its source.
    let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
    fill(&trees.source(), 300_000);
    fs::set_permissions(trees.source().join("a"), Permissions::from_mode(0o555)).unwrap();
    let path = assert_kept(&trees, &trees.run(limited(one_worker().arg("-p"))), "EFBIG");
    assert_goes_on(&trees, one_worker().args(["-p", "--resume"]), &path);
    assert_eq!(trees.destination().join("a").metadata().unwrap().mode() & 0o7777, 0o555);
}

fn a_source_that_cannot_be_read_is_another_matter() {
    let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
    fill(&trees.source(), 1000);
    fs::set_permissions(trees.source().join("a/1"), Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(trees.to.path(), Permissions::from_mode(0o777)).unwrap();
    let run = trees.run(crate::tree::errors::cp_as_nobody());
    assert!(run.failed(1).contains("a/1"), "{}", run.stderr);
    assert_eq!(files(&trees.destination()).len(), FILES);
    assert_eq!(number(&summary(&run), "failed"), 1);
    trees.assert_no_strangers();
}

/// EIO from a call that reads and writes: who is asked again says which side it was.
fn an_error_of_the_source_in_a_call_that_touches_both() {
    // The second splice empties the pipe.
    for (method, call, number) in
        [("sendfile", SystemCall::SENDFILE, 1), ("splice", SystemCall::SPLICE, 2)]
    {
        for source_fails in [true, false] {
            let trees = Trees::new();
            trees.file("large", seeded(7, 0, 300_000));
            trees.file("z/other", "x");
            let program = one_worker().args(["--method", method]);
            let program = program.arg(trees.source()).arg(trees.destination());
            let moving = CallPattern::of(&[call]).nth(number).fails(Errno::EIO);
            let reading = CallPattern::of(&[SystemCall::PREAD64]).on(trees.source());
            let reading = source_fails.then(|| reading.fails(Errno::EIO));
            let run = program.run_with([moving].into_iter().chain(reading)).run;
            // Where one way is asked for, the error rules it out.
            assert!(matches!(run.status.code(), Some(1 | 5)), "{run:?}");
            assert!(run.stderr.contains("EIO"), "{}", run.stderr);
            assert_eq!(trees.destination().exists(), source_fails, "{method}: {}", run.stderr);
            assert_eq!(events(&run, "incomplete").len(), usize::from(!source_fails));
        }
    }
}
