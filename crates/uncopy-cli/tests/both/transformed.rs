//! Files that are compressed or decompressed on their way: no room, a signal, a source that changes, a rate,
//! as for any other copy.

use std::fs;

use rustix::process::Signal;
use testbed::witness::Strace;
use testbed::{CallPattern, Case, Mount, Need, Place, Program, Scratch, SystemCall};

use crate::both::{Form, cases_over};
use crate::compress::{compress, copy, decompress, noise, text};
use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::ALL;
        [] a_signal_leaves_nothing,
        [] a_source_that_changes_is_noticed,
        [Need::Tool("strace")] a_rate_makes_small_pieces,
    ];
    cases.extend(cases_over![
        Form::OVER_OLD;
        [Need::Root] a_full_disk_keeps_the_old_file,
        [] a_kill_leaves_the_old_file,
        [] a_copy_that_became_another_is_noticed,
    ]);
    cases
}

/// A file, and the program that transforms it on its way.
struct Transformed {
    pair: Pair,
    program: Program,
}

impl Transformed {
    /// Compresses these bytes in this form, between these directories.
    fn compressed(form: Form, bytes: &[u8], [from, to]: [Scratch; 2]) -> Transformed {
        let mut pair = Pair::within(form, from, to);
        fs::write(&pair.source, bytes).unwrap();
        // The name of a copy in a tree.
        pair.destination.as_mut_os_string().push(".zst");
        Transformed { pair, program: compress() }
    }

    /// Decompresses what compressing these bytes makes, in this form, between these directories.
    fn decompressed(form: Form, bytes: &[u8], [from, to]: [Scratch; 2]) -> Transformed {
        let mut pair = Pair::within(form, from, to);
        let plain = Place::Disk.scratch();
        fs::write(plain.join("plain"), bytes).unwrap();
        pair.source.as_mut_os_string().push(".zst");
        copy(compress(), &plain.join("plain"), &pair.source);
        Transformed { pair, program: decompress() }
    }

    /// One of each, of a file of some mebibytes.
    fn both(form: Form) -> [Transformed; 2] {
        let bytes = mixed(3_000_000);
        let scratches = || [Place::Disk.scratch(), Place::Disk.scratch()];
        [
            Transformed::compressed(form, &bytes, scratches()),
            Transformed::decompressed(form, &bytes, scratches()),
        ]
    }
}

/// Bytes that compression pays for, and makes this many and a few of.
fn mixed(length: usize) -> Vec<u8> {
    [text(2 * length), noise(1, length as u64)].concat()
}

fn a_full_disk_keeps_the_old_file(form: Form) {
    let mount = Mount::tmpfs(3);
    let scratches = || [Place::Disk.scratch(), Scratch::new_in(mount.path())];
    for scene in [
        Transformed::compressed(form, &mixed(6_000_000), scratches()),
        Transformed::decompressed(form, &text(6_000_000), scratches()),
    ] {
        let Transformed { pair, program } = scene;
        pair.put_old(b"old");
        let new = Scratch::new_in(mount.path());
        for to in [&pair.to, &new] {
            let run = pair.command_to(program.clone(), to).run();
            assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
            pair.assert_kept(b"old");
            assert!(new.strangers(&[]).is_empty(), "{:?}", new.strangers(&[]));
        }
    }
}

fn a_signal_leaves_nothing(form: Form) {
    for Transformed { pair, program } in Transformed::both(form) {
        let stopped = pair.stopped_in(&program, &[SystemCall::PWRITE64], 2, pair.to.path());
        assert!(!pair.destination.exists());
        let run = stopped.resume_with(Signal::INT).run;
        run.died_of(2);
        pair.assert_nothing_begun();
    }
}

fn a_kill_leaves_the_old_file(form: Form) {
    for Transformed { pair, program } in Transformed::both(form) {
        pair.put_old(b"old");
        pair.stopped_in(&program, &[SystemCall::PWRITE64], 2, pair.to.path()).kill();
        assert_eq!(fs::read(&pair.destination).unwrap(), b"old");
    }
}

fn a_source_that_changes_is_noticed(form: Form) {
    for Transformed { pair, program } in Transformed::both(form) {
        let stopped = pair.stopped_in(&program, &[SystemCall::PWRITE64], 2, pair.to.path());
        let mut changed = fs::read(&pair.source).unwrap();
        changed.extend(b"more");
        fs::write(&pair.source, &changed).unwrap();
        let run = stopped.resume().run;
        // After a compressed source, the bytes that follow are not a frame.
        assert!(matches!(run.status.code(), Some(1 | 4)), "{}", run.stderr);
        pair.assert_nothing_left();
    }
}

fn a_rate_makes_small_pieces(form: Form) {
    let scratches = [Place::Disk.scratch(), Place::Disk.scratch()];
    let Transformed { pair, program } = Transformed::compressed(form, &mixed(1_000_000), scratches);
    let program = pair.command(program.arg("--max-bandwidth=4M"));
    let (run, trace) = Strace::new(&program).run();
    assert!(run.status.success(), "{}", run.stderr);
    let mut pieces = trace.named(&["pwrite64"]);
    pieces.retain(|piece| piece.mentions(pair.to.path()));
    assert!(pieces.len() >= 12, "{}", pieces.len());
    // 20 ms of the rate, in whole pages.
    let most = 80_000 / 4096 * 4096;
    assert!(pieces.iter().all(|piece| piece.value() <= Some(most)), "{pieces:?}");
}

/// The copy is read back by decompressing: what a bad disk made of it is seen.
fn a_copy_that_became_another_is_noticed(form: Form) {
    let [Transformed { pair, program }, _] = Transformed::both(form);
    pair.put_old(b"old");
    // A write that says it wrote and did not.
    let write = CallPattern::of(&[SystemCall::PWRITE64]).on(pair.to.path()).nth(2);
    let run = pair.command(program.arg("--verify")).run_with([write.returns(1)]).run;
    run.failed(3);
    pair.assert_kept(b"old");
}
