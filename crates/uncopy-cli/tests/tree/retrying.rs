//! Errors that pass, met wherever a file is read and written, and how often and when it is tried again.

use testbed::{
    CallPattern, Case, Compared, Fault, Intercept, Intercepted, Program, SystemCall, WatchedCall,
    assert_same_tree,
};
use uncopy::Errno;

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] wherever_they_come_they_pass,
        [] it_is_tried_as_often_as_asked_and_later_each_time,
        [] errors_of_a_server_pass_and_those_of_a_disk_do_not,
        [] a_directory_is_opened_again_too,
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

/// Calls of this kind on the file or its copy.
fn on_file(trees: &Trees, call: SystemCall) -> CallPattern {
    let source = trees.source().join("file");
    CallPattern::of(&[call]).when(move |call| {
        // And not the record of the new tree.
        let of_copy = |path: &std::path::PathBuf| path.to_string_lossy().contains(".tree/");
        call.touches(&source) || call.call != SystemCall::OPENAT && call.paths().iter().any(of_copy)
    })
}

/// Twice in a row, which is less often than it is tried without a flag.
fn wherever_they_come_they_pass() {
    for (flags, calls) in [
        (
            &["--method=read-write"][..],
            &[SystemCall::OPENAT, SystemCall::PREAD64, SystemCall::PWRITE64][..],
        ),
        (&["--method=copy-file-range"], &[SystemCall::COPY_FILE_RANGE]),
        (&["--method=splice"], &[SystemCall::SPLICE]),
        (&["--durable"], &[SystemCall::FSYNC]),
    ] {
        for call in calls {
            for errno in [Errno::ESTALE, Errno::EAGAIN, Errno::EINTR] {
                let trees = trees();
                let fault = on_file(&trees, *call).between(1, 2).fails(errno);
                let Intercept { run, hits, .. } = program(&trees, flags).run_with([fault]);
                let context = format!("{errno} from {}: {run:?}", call.name());
                assert!(run.status.success(), "{context}");
                assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
                trees.assert_no_strangers();
                assert_eq!(hits, 2, "{context}");
                // EINTR is met where it comes, without starting over.
                let retries = events(&run, "copied")[0].value()["retries"].as_u64().unwrap();
                let started_over = errno != Errno::EINTR && *call != SystemCall::OPENAT;
                assert!(!started_over || retries == 2, "{retries} times: {context}");
            }
        }
    }
}

/// Counts the checks for the end of the job between two tries, by the order of the calls.
fn it_is_tried_as_often_as_asked_and_later_each_time() {
    for retries in [0_usize, 1, 4] {
        let trees = trees();
        let flag = format!("--retries={retries}");
        let program = program(&trees, &["--method=read-write", &flag]);
        let sleeps = [SystemCall::NANOSLEEP, SystemCall::CLOCK_NANOSLEEP];
        let fault = on_file(&trees, SystemCall::PREAD64).fails(Errno::ESTALE);
        let Intercept { run, log, .. } =
            Intercepted::new(&program).inject(fault).watch(&sleeps).run();
        assert!(run.failed(1).contains("ESTALE"), "{}", run.stderr);
        assert_eq!(number(&summary(&run), "failed"), 1);
        let failed = log.iter().enumerate().filter(|(_, call)| call.is_faulty);
        let failed: Vec<(usize, &WatchedCall)> = failed.collect();
        assert_eq!(failed.len(), retries + 1, "{failed:#?}");
        let waits: Vec<usize> = failed
            .windows(2)
            .map(|pair| {
                let between = log[pair[0].0..pair[1].0].iter();
                let own = between.filter(|call| call.thread == pair[0].1.thread);
                own.filter(|call| sleeps.contains(&call.call)).count()
            })
            .collect();
        // 100 ms, and twice as long each time, in twentieths of a second.
        let expected: Vec<usize> = (0..retries).map(|time| 2 << time).collect();
        assert_eq!(waits, expected);
    }
}

/// The files lie on NFS, as `fstatfs(2)` says (`NFS_SUPER_MAGIC` in `linux/magic.h`).
fn on_nfs() -> Fault {
    // f_type, f_bsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_fsid, f_namelen, f_frsize, f_flags
    let statfs: [u64; 15] =
        [0x6969, 4096, 1 << 24, 1 << 24, 1 << 24, 1 << 20, 1 << 20, 0, 255, 4096, 0, 0, 0, 0, 0];
    let bytes = statfs.into_iter().flat_map(u64::to_ne_bytes).collect();
    CallPattern::of(&[SystemCall::FSTATFS]).answers(1, bytes)
}

fn errors_of_a_server_pass_and_those_of_a_disk_do_not() {
    for (call, is_network) in [
        (SystemCall::PREAD64, true),
        (SystemCall::PWRITE64, true),
        (SystemCall::PREAD64, false),
        (SystemCall::PWRITE64, false),
    ] {
        let trees = trees();
        // Else the journal of what is left would be written, and meet the error too.
        let program = program(&trees, &["--method=read-write", "--on-error=skip"]);
        let fault = on_file(&trees, call).between(1, 2).fails(Errno::EIO);
        let network = is_network.then(on_nfs);
        let Intercept { run, log, .. } = program.run_with([fault].into_iter().chain(network));
        let struck = log.iter().filter(|made| made.call == call && made.is_faulty).count();
        let context = format!("{}, network: {is_network}: {run:?}", call.name());
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
    for (retries, succeeds) in [("--retries=2", true), ("--retries=1", false)] {
        let trees = Trees::new();
        trees.file("below/file", "x");
        let below = trees.source().join("below");
        let opening = CallPattern::of(&[SystemCall::OPENAT])
            .when(move |call| call.paths().contains(&below))
            .between(1, 2);
        let program = program(&trees, &[retries]);
        let run = program.run_with([opening.fails(Errno::ESTALE)]).run;
        assert_eq!(run.status.success(), succeeds, "{retries}: {run:?}");
        assert_eq!(trees.destination().join("below/file").exists(), succeeds, "{retries}");
    }
}
