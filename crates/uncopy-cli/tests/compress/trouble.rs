//! No room, a signal, a source that changes, a rate: as for any other copy.

use std::fs;

use rustix::process::Signal;
use testbed::witness::Strace;
use testbed::{CallPattern, Case, Mount, Need, SystemCall};

use crate::compress::{Pair, compress, copy, decompress, noise, text};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] a_full_disk_keeps_the_old_file,
        [] a_signal_leaves_nothing,
        [] a_kill_leaves_the_old_file,
        [] a_source_that_changes_is_noticed,
        [Need::Tool("strace")] a_rate_makes_small_pieces,
        [] a_copy_that_became_another_is_noticed,
        [] a_stream_is_refused,
    ]
}

fn a_full_disk_keeps_the_old_file() {
    let pair = Pair::new();
    let source = pair.file("a", noise(1, 6_000_000));
    let text = pair.file("text", text(6_000_000));
    copy(compress(), &text, &pair.from.join("text.zst"));
    let mount = Mount::tmpfs(3);
    let old = mount.path().join("old.zst");
    fs::write(&old, "old").unwrap();
    for (program, source) in [(compress(), source), (decompress(), pair.from.join("text.zst"))] {
        for name in ["old.zst", "new.zst"] {
            let run = program.clone().arg(&source).arg(mount.path().join(name)).run();
            assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
            assert_eq!(fs::read(&old).unwrap(), b"old");
            assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 1);
        }
    }
}

fn prepared() -> Pair {
    let pair = Pair::new();
    let source = pair.file("a", [text(5_000_000), noise(1, 3_000_000)].concat());
    copy(compress(), &source, &pair.from.join("a.zst"));
    pair
}

fn both(pair: &Pair) -> [(testbed::Program, std::path::PathBuf); 2] {
    [(compress(), pair.from.join("a")), (decompress(), pair.from.join("a.zst"))]
}

fn a_signal_leaves_nothing() {
    let pair = prepared();
    for (program, source) in both(&pair) {
        let program = program.arg(source).arg(pair.to.join("b.zst"));
        let stopped = program.stop_after(SystemCall::PWRITE64, 2);
        assert!(!pair.to.join("b.zst").exists());
        let run = stopped.resume_with(Signal::INT).run;
        run.died_of(2);
        assert!(pair.to.strangers(&[]).is_empty(), "{:?}", pair.to.strangers(&[]));
    }
}

fn a_kill_leaves_the_old_file() {
    let pair = prepared();
    fs::write(pair.to.join("b.zst"), "old").unwrap();
    for (program, source) in both(&pair) {
        let program = program.arg(source).arg(pair.to.join("b.zst"));
        program.stop_after(SystemCall::PWRITE64, 2).kill();
        assert_eq!(fs::read(pair.to.join("b.zst")).unwrap(), b"old");
    }
}

fn a_source_that_changes_is_noticed() {
    let pair = prepared();
    for (program, source) in both(&pair) {
        let original = fs::read(&source).unwrap();
        let program = program.arg(&source).arg(pair.to.join("b.zst"));
        let stopped = program.stop_after(SystemCall::PWRITE64, 2);
        let mut changed = original.clone();
        changed.extend(b"more");
        fs::write(&source, &changed).unwrap();
        let run = stopped.resume().run;
        // After a compressed source, the bytes that follow are not a frame.
        assert!(matches!(run.status.code(), Some(1 | 4)), "{}", run.stderr);
        assert!(pair.to.strangers(&[]).is_empty());
        fs::write(&source, &original).unwrap();
    }
}

fn a_rate_makes_small_pieces() {
    let pair = Pair::new();
    let source = pair.file("a", noise(1, 1_000_000));
    let program = compress().args(["--max-bandwidth=4M"]).arg(&source).arg(pair.to.join("b.zst"));
    let (run, trace) = Strace::new(&program).run();
    assert!(run.status.success(), "{}", run.stderr);
    let pieces = trace.named(&["pwrite64"]);
    assert!(pieces.len() >= 12, "{}", pieces.len());
    // 20 ms of the rate, in whole pages.
    let most = 80_000 / 4096 * 4096;
    assert!(pieces.iter().all(|piece| piece.value() <= Some(most)), "{pieces:?}");
}

/// The copy is read back by decompressing: what a bad disk made of it is seen.
fn a_copy_that_became_another_is_noticed() {
    let pair = prepared();
    fs::write(pair.to.join("b.zst"), "old").unwrap();
    // A write that says it wrote and did not.
    let program = compress().args(["--verify"]).arg(pair.from.join("a")).arg(pair.to.join("b.zst"));
    let lie = CallPattern::of(&[SystemCall::PWRITE64]).nth(2).returns(1);
    let run = program.run_with([lie]).run;
    run.failed(3);
    assert_eq!(fs::read(pair.to.join("b.zst")).unwrap(), b"old");
    assert!(pair.to.strangers(&["b.zst"]).is_empty());
}

/// Compression is decided by looking ahead, which must not block on a stream.
fn a_stream_is_refused() {
    let pair = Pair::new();
    let fifo = pair.from.join("fifo");
    testbed::run_tool("mkfifo", [&fifo]);
    for program in [compress(), decompress()] {
        let run = program.arg(&fifo).arg(pair.to.join("b")).run();
        assert!(run.failed(2).contains("looking ahead"), "{}", run.stderr);
        assert!(pair.to.strangers(&[]).is_empty(), "{:?}", pair.to.strangers(&[]));
    }
}
