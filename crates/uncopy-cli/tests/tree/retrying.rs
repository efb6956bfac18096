//! Errors that pass, met wherever a file is read and written, and how often and when it is tried again.

use std::fs;

use testbed::witness::{Call, Strace, Trace};
use testbed::{Case, Compared, Need, Program, assert_same_tree};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] wherever_they_come_they_pass,
        [Need::Tool("strace")] it_is_tried_as_often_as_asked_and_later_each_time,
        [Need::Tool("strace")] errors_of_a_server_pass_and_those_of_a_disk_do_not,
        [Need::Tool("strace")] a_directory_is_opened_again_too,
    ]
}

const LARGE: usize = 300_000;

fn trees() -> Trees {
    let trees = Trees::new();
    trees.file("file", vec![7; LARGE]);
    trees
}

fn program(trees: &Trees, flags: &[&str]) -> Program {
    let program = cp().args(["--jobs=1", "-T"]).args(flags);
    program.arg(trees.source()).arg(trees.destination())
}

/// Which time in its thread the first call of this name is made on the file or its copy.
fn first(trees: &Trees, trace: &Trace, name: &str) -> usize {
    let on_file = |call: &&Call| {
        let whose = match name {
            "openat" => call.arguments.contains("\"file\""),
            // And not the record of the new tree.
            _ => {
                call.arguments.contains(".tree/file") || call.mentions(&trees.source().join("file"))
            }
        };
        call.name == name && whose
    };
    let found = trace.calls.iter().find(on_file);
    found.unwrap_or_else(|| panic!("no {name} in {:#?}", trace.calls)).nth
}

/// Twice in a row, which is less often than it is tried without a flag.
fn wherever_they_come_they_pass() {
    for (flags, calls) in [
        (&["--method=read-write"][..], &["openat", "pread64", "pwrite64"][..]),
        (&["--method=copy-file-range"], &["copy_file_range"]),
        (&["--method=splice"], &["splice"]),
        (&["--durable"], &["fsync"]),
    ] {
        for call in calls {
            let trees = trees();
            let (run, trace) = Strace::new(&program(&trees, flags)).run();
            assert!(run.status.success(), "{}", run.stderr);
            let nth = first(&trees, &trace, call);
            for errno in ["ESTALE", "EAGAIN", "EINTR"] {
                fs::remove_dir_all(trees.destination()).unwrap();
                let fault = format!("{call}:error={errno}:when={nth}..{}", nth + 1);
                let (run, trace) = Strace::new(&program(&trees, flags)).inject(&fault).run();
                let context = format!("{errno} from {call}: {run:?}");
                assert!(run.status.success(), "{context}");
                assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
                trees.assert_no_strangers();
                let struck = trace.named(&[call]).iter().filter(|c| c.value().is_none()).count();
                assert!(struck >= 2, "{struck} faults: {context}");
                // EINTR is met where it comes, without starting over.
                let retries = events(&run, "copied")[0].value()["retries"].as_u64().unwrap();
                let started_over = errno != "EINTR" && *call != "openat";
                assert!(!started_over || retries == 2, "{retries} times: {context}");
            }
        }
    }
}

/// Counts the checks for the end of the job between two tries, by the order of the calls.
fn it_is_tried_as_often_as_asked_and_later_each_time() {
    let trees = trees();
    let (_, trace) = Strace::new(&program(&trees, &["--method=read-write"])).run();
    let nth = first(&trees, &trace, "pread64");
    for retries in [0_usize, 1, 4] {
        let _ = fs::remove_dir_all(trees.destination());
        let flag = format!("--retries={retries}");
        let program = program(&trees, &["--method=read-write", &flag]);
        let (run, trace) =
            Strace::new(&program).inject(&format!("pread64:error=ESTALE:when={nth}+")).run();
        assert!(run.failed(1).contains("ESTALE"), "{}", run.stderr);
        assert_eq!(number(&summary(&run), "failed"), 1);
        let failed = trace.calls.iter().enumerate();
        let failed = failed.filter(|(_, call)| call.name == "pread64" && call.value().is_none());
        let failed: Vec<(usize, &Call)> = failed.collect();
        assert_eq!(failed.len(), retries + 1, "{failed:#?}");
        let waits: Vec<usize> = failed
            .windows(2)
            .map(|pair| {
                let between = trace.calls[pair[0].0..pair[1].0].iter();
                let sleeps = |call: &&Call| {
                    call.thread == pair[0].1.thread && call.name.ends_with("nanosleep")
                };
                between.filter(sleeps).count()
            })
            .collect();
        // 100 ms, and twice as long each time, in twentieths of a second.
        let expected: Vec<usize> = (0..retries).map(|time| 2 << time).collect();
        assert_eq!(waits, expected);
    }
}

/// The kernel is made to say that the files lie on NFS (`linux/magic.h`).
fn errors_of_a_server_pass_and_those_of_a_disk_do_not() {
    const NFS: &str = "fstatfs:poke_exit=@arg2=6969000000000000";
    for (call, is_network) in
        [("pread64", true), ("pwrite64", true), ("pread64", false), ("pwrite64", false)]
    {
        let trees = trees();
        let strace = || {
            // Else the journal of what is left would be written, and meet the error too.
            let flags = ["--method=read-write", "--on-error=skip"];
            let strace = Strace::new(&program(&trees, &flags));
            if is_network { strace.inject(NFS) } else { strace }
        };
        let (run, trace) = strace().run();
        assert!(run.status.success(), "{}", run.stderr);
        let nth = first(&trees, &trace, call);
        fs::remove_dir_all(trees.destination()).unwrap();
        let fault = format!("{call}:error=EIO:when={nth}..{}", nth + 1);
        let (run, trace) = strace().inject(&fault).run();
        let struck = trace.named(&[call]).iter().filter(|call| call.value().is_none()).count();
        let context = format!("{call}, network: {is_network}: {run:?}");
        if is_network {
            assert!(run.status.success(), "{context}");
            assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
            assert_eq!(events(&run, "copied")[0].value()["retries"], 2, "{context}");
            assert_eq!(struck, 2, "{context}");
        } else {
            assert!(run.failed(1).contains("EIO"), "{context}");
            assert_eq!(struck, 1, "{context}");
        }
    }
}

fn a_directory_is_opened_again_too() {
    let trees = Trees::new();
    trees.file("below/file", "x");
    let opening = |call: &&Call| call.name == "openat" && call.arguments.contains("\"below\"");
    let (_, trace) = Strace::new(&program(&trees, &[])).run();
    let nth = trace.calls.iter().find(opening).unwrap().nth;
    for (retries, succeeds) in [("--retries=2", true), ("--retries=1", false)] {
        fs::remove_dir_all(trees.destination()).unwrap();
        let strace = Strace::new(&program(&trees, &[retries]));
        let fault = format!("openat:error=ESTALE:when={nth}..{}", nth + 1);
        let run = strace.inject(&fault).outcome();
        assert_eq!(run.status.success(), succeeds, "{retries}: {run:?}");
        assert_eq!(trees.destination().join("below/file").exists(), succeeds, "{retries}");
    }
}
