//! `--durable`: after a power cut there is the old file or the new one, whole.

use testbed::witness::{Call, Strace, Trace};
use testbed::{
    CallPattern, Case, Content, Filesystem, Intercept, Mount, Need, Place, Program, Scratch,
    SystemCall, WatchedCall, by_extent, run_tool,
};
use uncopy::Errno;

use crate::both::{Form, cases_over};
use crate::cp::leftovers::calls_of_the_copy;
use crate::cp::witnessed::{Pair, RENAMES, is_clone, records};
use crate::cp::{COPY_FILE_RANGE, DIRECT, EVERYWHERE, READ_WRITE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::ALL;
        [Need::Tool("strace")] nothing_is_flushed_without_it,
        [Need::Tool("strace")] flushed_in_pieces,
        [] the_receipt_says_so,
        [Need::At(Place::Ext4), Need::Tool("xfs_io")] power_cut_on_ext4,
        [Need::At(Place::Xfs), Need::Tool("xfs_io")] power_cut_on_xfs,
        [Need::At(Place::Ext4), Need::Tool("fsck.ext4")] power_cut_without_a_journal,
        [Need::At(Place::Ext4), Need::Tool("xfs_io")] power_cut_in_each_call_on_ext4,
        [Need::At(Place::Xfs), Need::Tool("xfs_io")] power_cut_in_each_call_on_xfs,
    ];
    cases.extend(cases_over![
        Form::OVER_OLD;
        [Need::Tool("strace")] flush_then_rename_then_flush_the_directory,
        [Need::Tool("strace")] flush_then_link_then_flush_the_directory,
        [Need::Tool("strace")] metadata_is_flushed_too,
        [] what_the_disk_has_lost_is_an_error,
    ]);
    cases.extend(testbed::cases![
        [Need::Tool("strace")] names_of_links_and_fifos_are_flushed,
        [Need::At(Place::Ext4), Need::Tool("fsck.ext4")] links_and_fifos_without_a_journal,
    ]);
    cases
}

const LENGTH: u64 = 3 << 20;

fn is_flush(call: &Call) -> bool {
    matches!(call.name.as_str(), "fsync" | "fdatasync" | "syncfs") && call.value() == Some(0)
}

/// Flush of the file, its new name, flush of the directory: in this order.
fn assert_order(pair: &Pair, trace: &Trace, put_in_place: &[&str]) {
    let records = records(trace);
    let directory = format!("<{}>", pair.to.path().display());
    let last_write = trace
        .calls
        .iter()
        .rposition(|call| {
            let writes =
                ["write", "pwrite64", "copy_file_range", "sendfile", "splice", "ftruncate"];
            (writes.contains(&call.name.as_str()) || is_clone(call))
                && call.mentions(pair.to.path())
                && !records.iter().any(|record| call.arguments.starts_with(record))
        })
        .expect("something is written");
    let position = |what: &str, from: usize, holds: &dyn Fn(&Call) -> bool| {
        let found = trace.calls[from..].iter().position(holds);
        found
            .map_or_else(|| panic!("no {what} behind {from} in {:#?}", trace.calls), |at| at + from)
    };
    let flushed = position("flush of the file", last_write, &|call| {
        is_flush(call) && !call.arguments.contains(&directory)
    });
    let placed = position("new name", flushed, &|call| put_in_place.contains(&call.name.as_str()));
    let _ = position("flush of the directory", placed, &|call| {
        is_flush(call) && call.arguments.contains(&directory)
    });
    let early = trace.calls[..flushed].iter().any(|call| RENAMES.contains(&call.name.as_str()));
    assert!(!early, "renamed before it was flushed");
}

fn flush_then_rename_then_flush_the_directory(form: Form) {
    for program in [cp(), cp_by(DIRECT)].into_iter().chain(EVERYWHERE.map(cp_by)) {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        pair.old_destination();
        let (run, trace) = pair.traced(program.arg("--durable"));
        if run.status.success() {
            assert_order(&pair, &trace, &RENAMES);
        } else {
            run.failed(5);
        }
    }
}

fn flush_then_link_then_flush_the_directory(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let (run, trace) = pair.traced(cp().arg("--durable"));
    let _ = pair.receipt(&run);
    assert_order(&pair, &trace, &["linkat"]);
}

fn nothing_is_flushed_without_it(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let (run, trace) = pair.traced(cp());
    let receipt = pair.receipt(&run);
    assert!(trace.named(&["fsync", "fdatasync", "syncfs", "sync"]).is_empty());
    assert!(receipt.value()["durable"] != true, "{}", receipt.value());
}

/// One fsync of all at the end takes long, and nothing can interrupt it.
fn flushed_in_pieces(form: Form) {
    let methods = [COPY_FILE_RANGE, READ_WRITE];
    for method in methods.into_iter().take(by_extent([1, 2, 2])) {
        let pair = Pair::of(form, Place::Disk, &Content::dense(160 << 20));
        let (run, trace) = pair.traced(cp_by(method).arg("--durable"));
        let _ = pair.receipt(&run);
        let pieces = trace.named(&["sync_file_range"]);
        assert!(pieces.len() >= 2, "{method:?}: {pieces:#?}");
    }
}

/// The kernel reports a lost write once for each descriptor: the `fsync` at the end no longer does after a call that
/// waits for a piece.
fn what_the_disk_has_lost_is_an_error(form: Form) {
    // `linux/fs.h`.
    const SYNC_FILE_RANGE_WAIT_AFTER: u32 = 4;
    let waits = |call: &WatchedCall| call.has_flags(3, SYNC_FILE_RANGE_WAIT_AFTER);
    let waiting = CallPattern::of(&[SystemCall::SYNC_FILE_RANGE]).when(waits).nth(1);
    for options in [&["--durable"][..], &["--verify"], &["--durable", "--cache=skip"]] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(40 << 20));
        let program = pair.command(cp_by(READ_WRITE).args(options));
        let old = pair.old_destination();
        let Intercept { run, hits, .. } = program.run_with([waiting.clone().fails(Errno::EIO)]);
        assert!(hits == 1 && run.failed(1).contains("EIO"), "{options:?}: {}", run.stderr);
        pair.assert_kept(&old);
        // A signal is no loss.
        let Intercept { run, hits, .. } = program.run_with([waiting.clone().fails(Errno::EINTR)]);
        assert!(hits == 1, "{options:?}");
        let _ = pair.receipt(&run);
        pair.assert_copied();
    }
}

/// Owner and mode belong to the file as its bytes do.
fn metadata_is_flushed_too(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let (run, trace) = pair.traced(cp().args(["--durable", "-p"]));
    let _ = pair.receipt(&run);
    let changes = ["fchmod", "fchown", "utimensat", "fsetxattr"];
    let renamed = trace.position(|call| RENAMES.contains(&call.name.as_str())).unwrap();
    let last_change = trace.calls[..renamed]
        .iter()
        .rposition(|call| changes.contains(&call.name.as_str()) && call.mentions(pair.to.path()));
    let last_change = last_change.expect("-p sets something");
    let flushed = trace.calls[last_change..renamed].iter().any(|call| {
        call.name == "fsync" && call.value() == Some(0) && call.mentions(pair.to.path())
    });
    assert!(flushed, "{:#?}", &trace.calls[last_change..=renamed]);
}

fn the_receipt_says_so(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let receipt = pair.copy(cp().arg("--durable"));
    assert_eq!(receipt.value()["durable"], true, "{}", receipt.value());
}

/// Has on the disk what is there before a copy.
fn begin(pair: &Pair, mount: &Mount, is_old: bool) {
    pair.clear();
    if is_old {
        pair.put_old(b"old");
    }
    run_tool("sync", ["-f".as_ref(), mount.path().as_os_str()]);
}

/// The copy says that it is done; then nothing more reaches the disk.
fn power_cut(form: Form, filesystem: Filesystem) {
    let mount = Mount::image(filesystem, 400);
    let pair = Pair::within(form, Place::Tmpfs.scratch(), Scratch::new_in(mount.path()));
    Content::sparse(LENGTH + 777, &[(0, 1 << 20), (2 << 20, (1 << 20) + 777)]).write(&pair.source);
    for program in [cp(), cp_by(DIRECT), cp_by(READ_WRITE), cp().arg("-p"), cp().arg("--verify")] {
        for is_old in [true, false] {
            begin(&pair, &mount, is_old && form != Form::NewTree);
            let _ = pair.succeed(program.clone().arg("--durable"));
            mount.cut_power();
            mount.restore_power();
            pair.assert_copied();
        }
    }
}

fn power_cut_on_ext4(form: Form) {
    power_cut(form, Filesystem::Ext4);
}

fn power_cut_on_xfs(form: Form) {
    power_cut(form, Filesystem::Xfs);
}

/// The device said of a file that was flushed before it had a name that it has none, and `fsck` removed the name.
fn power_cut_without_a_journal(form: Form) {
    let mount = Mount::without_journal(64);
    let pair = Pair::within(form, Place::Tmpfs.scratch(), Scratch::new_in(mount.path()));
    Content::dense(400_000).write(&pair.source);
    for program in [cp(), cp().arg("-p"), cp().arg("--verify"), cp().arg("--backup")] {
        for is_old in [true, false] {
            begin(&pair, &mount, is_old && form != Form::NewTree);
            let _ = pair.succeed(program.clone().arg("--durable"));
            let cut = mount.after_power_cut();
            let left = pair.destination.strip_prefix(mount.path()).unwrap();
            assert_eq!(
                std::fs::read(cut.path().join(left)).ok(),
                std::fs::read(&pair.source).ok(),
                "over an old one: {is_old}"
            );
        }
    }
}

/// Stopped after each of its calls, the power is cut there: the old file or the new one.
fn power_cut_in_each_call(form: Form, filesystem: Filesystem) {
    let content = Content::dense(400_000);
    let rehearsal = Pair::between(form, Place::Tmpfs, filesystem_place(filesystem), &content);
    let put_old = |pair: &Pair| {
        pair.clear();
        if form != Form::NewTree {
            pair.put_old(b"old");
        }
    };
    put_old(&rehearsal);
    let program = cp().args(["--durable", "-p"]);
    let calls = calls_of_the_copy(&rehearsal, &program);
    let own: Vec<_> = calls.iter().filter(|call| call.touches(rehearsal.to.path())).collect();
    assert!(own.len() > 5, "{own:?}");
    let mount = Mount::image(filesystem, 320);
    let pair = Pair::within(form, Place::Tmpfs.scratch(), Scratch::new_in(mount.path()));
    content.write(&pair.source);
    let new = std::fs::read(&pair.source).unwrap();
    let (mut olds, mut news) = (0, 0);
    for call in own {
        put_old(&pair);
        run_tool("sync", ["-f".as_ref(), mount.path().as_os_str()]);
        let stopped = pair.command(program.clone()).stop_after(call.call, call.nth);
        mount.cut_power();
        stopped.kill();
        mount.restore_power();
        let context = format!("cut after {} number {}", call.call.name(), call.nth);
        match std::fs::read(&pair.destination) {
            Ok(found) if found == new => news += 1,
            Ok(found) => {
                assert!(found == b"old" && form != Form::NewTree, "{context}: half of the file");
                olds += 1;
            }
            Err(error) => {
                assert!(!pair.to.join("tree").exists(), "{context}: {error}");
                assert_eq!(form, Form::NewTree, "{context}: {error}");
                olds += 1;
            }
        }
        let _ = pair.succeed(program.clone());
    }
    assert!(olds > 0 && news > 0, "{olds} old, {news} new: this tested half");
}

fn filesystem_place(filesystem: Filesystem) -> Place {
    match filesystem {
        Filesystem::Ext4 => Place::Ext4,
        Filesystem::Xfs => Place::Xfs,
        Filesystem::Btrfs => Place::Btrfs,
    }
}

fn power_cut_in_each_call_on_ext4(form: Form) {
    power_cut_in_each_call(form, Filesystem::Ext4);
}

fn power_cut_in_each_call_on_xfs(form: Form) {
    power_cut_in_each_call(form, Filesystem::Xfs);
}

/// No call but one for the whole filesystem flushes them there. The temporary name that they had may come back.
fn links_and_fifos_without_a_journal() {
    const GIVEN: &str = "echo x > s/f; ln s/f s/h; ln -s f s/l; ln -s $(printf a%.0s $(seq 99)) s/ll; mkfifo s/p; \
                         ln -s ../f s/d/l";
    let given = Place::Tmpfs.scratch();
    std::fs::create_dir_all(given.join("s/d")).unwrap();
    assert!(
        Program::new("sh").args(["-c", GIVEN]).current_dir(given.path()).run().status.success()
    );
    let listed = |directory: &std::path::Path| {
        let run = Program::new("find")
            .args([".", "-not", "-name", ".uncopy-*", "-printf", "%y %P %l\\n"])
            .current_dir(directory);
        let run = run.run();
        assert!(run.status.success(), "{}", run.stderr);
        let mut lines: Vec<String> = run.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (is_there, arguments, from, to) in [
        (false, &["-a"][..], "s", "t"),
        (true, &["-aT"], "s", "t"),
        (false, &["-d"], "s/l", "t/l"),
        (false, &["-a"], "s/p", "t/p"),
    ] {
        let mount = Mount::without_journal(64);
        if is_there || to != "t" {
            std::fs::create_dir(mount.path().join("t")).unwrap();
        }
        run_tool("sync", ["-f".as_ref(), mount.path().as_os_str()]);
        let operands = [given.join(from), mount.path().join(to)];
        let run = cp().args(arguments).arg("--durable").args(operands).run();
        assert!(run.status.success(), "{}", run.stderr);
        let (now, cut) = (mount.path().join("t"), mount.after_power_cut());
        assert_eq!(listed(&cut.path().join("t")), listed(&now), "{arguments:?} {to}");
    }
}

/// Flushes the directory of an entry without bytes after it has its name, and never without the flag.
fn names_of_links_and_fifos_are_flushed() {
    const GIVEN: &str = "echo x > file; ln file other; ln -s file link; mkfifo fifo; echo y > old; \
                         mkdir d s; ln file s/a; ln -s a s/l; ln s/a s/b; mkdir -p e/s/sub";
    let directory = |place: &Scratch, name: &str| match name {
        "" => place.path().to_owned(),
        name => place.join(name),
    };
    for line in [
        "-l file new",
        "-lf file old",
        "-lP link new",
        "-l link new",
        "-P link new",
        "-P --remove-destination link old",
        "-a link new",
        "-a fifo new",
        "-a file other d",
        "-d file other link d",
        "-l file d",
        "-P --parents s/l d",
        "-rl s d",
        "-rlT s e/s",
        "-aT s e/s",
    ] {
        for flag in ["--durable", "--no-durable"] {
            let place = Place::Disk.scratch();
            let given = Program::new("sh").args(["-euc", GIVEN]).current_dir(place.path()).run();
            assert!(given.status.success(), "{}", given.stderr);
            let program = cp().arg(flag).args(line.split(' ')).current_dir(place.path());
            let (run, trace) = Strace::new(&program).run();
            assert!(run.status.success(), "{line}: {}", run.stderr);
            let at = match line.rsplit(' ').next() {
                Some("d") if line.contains("--parents") => "d/s",
                Some(at @ ("d" | "e/s")) => at,
                _ => "",
            };
            let flushed = format!("<{}>", directory(&place, at).display());
            let named = ["linkat", "link", "symlinkat", "mknodat", "renameat2", "renameat"];
            let last = trace.calls.iter().rposition(|call| {
                named.contains(&call.name.as_str())
                    && call.value() == Some(0)
                    && !call.arguments.contains(".record")
            });
            let last = last.unwrap_or_else(|| panic!("{line}: nothing is made"));
            let is_flushed = trace.calls[last..]
                .iter()
                .any(|call| is_flush(call) && call.arguments.contains(&flushed));
            assert_eq!(is_flushed, flag == "--durable", "{line}: {:#?}", &trace.calls[last..]);
        }
    }
}
