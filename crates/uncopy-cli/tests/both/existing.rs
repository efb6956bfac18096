//! Destinations that exist already: links, mounts, running programs.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use testbed::witness::Strace;
use testbed::{Case, Content, Mount, Need, Place, SystemCall, assert_same, run_tool};

use crate::both::{Form, cases_over};
use crate::cp::witnessed::{Pair, RENAMES};
use crate::cp::{EVERYWHERE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::OVER_OLD;
        [] an_old_file_is_replaced_in_one_step,
        [] hard_links_keep_the_old_contents_and_are_reported,
        [Need::Tool("cp")] a_running_program,
        [] longer_and_shorter_old_files,
        [Need::Tool("strace")] replaced_by_rename,
        [] many_copies_to_one_name_at_once,
        [Need::Root, Need::Tool("bindfs")] a_fuse_filesystem,
        [Need::Root] a_bind_mounted_file_is_named_with_a_way_out,
    ];
    // A tree replaces links, see `tree::merging`.
    cases.extend(testbed::cases![
        [] a_symbolic_link_is_written_through,
        [Need::Tool("strace")] the_temporary_file_lies_beside_the_target_of_a_link,
        [] a_chain_of_links,
        [] a_dangling_link_is_refused,
        [] a_loop_of_links_is_refused,
    ]);
    cases
}

const LENGTH: u64 = 150_000;

/// Whoever has the old file open goes on reading the old file.
fn an_old_file_is_replaced_in_one_step(form: Form) {
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        let old = pair.old_destination();
        let mut reader = std::fs::File::open(&pair.destination).unwrap();
        let inode = std::fs::metadata(&pair.destination).unwrap().ino();
        pair.copy(program);
        assert_ne!(std::fs::metadata(&pair.destination).unwrap().ino(), inode);
        let mut found = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut found).unwrap();
        assert!(found == old);
    }
}

fn hard_links_keep_the_old_contents_and_are_reported(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let others = pair.from.subdirectory("others", 0o755);
    std::fs::hard_link(&pair.destination, others.join("1")).unwrap();
    std::fs::hard_link(&pair.destination, others.join("2")).unwrap();
    let receipt = pair.copy(cp());
    assert!(receipt.notes().contains("hard link"), "{}", receipt.value());
    for name in ["1", "2"] {
        assert!(std::fs::read(others.join(name)).unwrap() == old);
    }
    let receipt = pair.copy(cp());
    assert!(!receipt.notes().contains("hard link"), "{}", receipt.value());
}

fn a_symbolic_link_is_written_through() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let other = pair.from.subdirectory("other", 0o755);
    let target = other.join("target");
    for (link, how) in [(target.clone(), "absolute"), ("../other/target".into(), "relative")] {
        std::fs::write(&target, b"old").unwrap();
        let directory = pair.from.join(how);
        std::fs::create_dir(&directory).unwrap();
        let name = directory.join("link");
        symlink(&link, &name).unwrap();
        for program in [cp(), cp().arg("--in-place"), cp().arg("-f"), cp().arg("-p")] {
            std::fs::write(&target, b"old").unwrap();
            let _ = program.arg(&pair.source).arg(&name).run().receipt();
            assert_eq!(std::fs::read_link(&name).unwrap(), link, "the link was replaced");
            assert_same(&pair.source, &target);
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1);
    }
}

/// A rename works within a filesystem only, and the link may lead to another.
fn the_temporary_file_lies_beside_the_target_of_a_link() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let target = pair.to.join("target");
    std::fs::write(&target, b"old").unwrap();
    let link = pair.from.join("link");
    symlink(&target, &link).unwrap();
    let program = cp().arg(&pair.source).arg(&link);
    let (run, trace) = Strace::new(&program).run();
    let _ = run.receipt();
    assert_same(&pair.source, &target);
    let renames = trace.named(&RENAMES);
    assert!(!renames.is_empty());
    for rename in renames {
        assert!(
            rename.mentions(pair.to.path()) && !rename.mentions(pair.from.path()),
            "{rename:?}"
        );
    }
}

fn a_chain_of_links() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    std::fs::write(pair.to.join("target"), b"old").unwrap();
    symlink("target", pair.to.join("1")).unwrap();
    symlink(pair.to.join("1"), pair.from.join("2")).unwrap();
    symlink(pair.from.join("2"), pair.to.join("3")).unwrap();
    let _ = cp().arg(&pair.source).arg(pair.to.join("3")).run().receipt();
    assert_same(&pair.source, &pair.to.join("target"));
    assert!(pair.to.join("1").is_symlink() && pair.to.join("3").is_symlink());
}

/// As cp: where the link leads is no file of the one who copies yet, and perhaps of nobody.
fn a_dangling_link_is_refused() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    symlink("nowhere", &pair.destination).unwrap();
    for program in [cp(), cp().arg("-f"), cp().arg("--in-place"), cp().arg("-p")] {
        let run = pair.command(program).run();
        assert!(run.failed(1).contains("symbolic link to nothing"), "{}", run.stderr);
        assert!(pair.destination.is_symlink());
        assert!(!pair.to.join("nowhere").exists());
        pair.assert_no_strangers();
    }
}

fn a_loop_of_links_is_refused() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    symlink("destination", &pair.destination).unwrap();
    let run = pair.command(cp()).run();
    assert!(run.failed(1).contains("ELOOP"), "{}", run.stderr);
    let run = cp().arg(&pair.destination).arg(pair.to.join("new")).run();
    assert!(run.failed(1).contains("ELOOP"), "{}", run.stderr);
}

fn a_bind_mounted_file_is_named_with_a_way_out(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    let below = pair.old_destination();
    let mounted = pair.from.join("mounted");
    std::fs::write(&mounted, b"old").unwrap();
    let mount = Mount::bind_file(&mounted, &pair.destination);
    for program in [cp(), cp().arg("-f"), cp().arg("--durable")] {
        let run = pair.command(program).run();
        pair.assert_names_in_place(&run);
        assert_eq!(std::fs::read(&mounted).unwrap(), b"old");
        pair.assert_no_strangers();
    }
    pair.copy_in_place(cp());
    assert_same(&pair.source, &mounted);
    drop(mount);
    assert!(std::fs::read(&pair.destination).unwrap() == below);
}

/// It cannot be written to, and can be replaced.
fn a_running_program(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    // By another process: what this one has open for writing, a fork in another thread has too,
    // and the program could not be started.
    run_tool("cp", ["-L".as_ref(), "/bin/sleep".as_ref(), pair.destination.as_os_str()]);
    std::fs::set_permissions(&pair.destination, PermissionsExt::from_mode(0o755)).unwrap();
    let mut running = std::process::Command::new(&pair.destination).arg("60").spawn().unwrap();
    let old = std::fs::read(&pair.destination).unwrap();
    let in_place = (!form.is_tree()).then(|| pair.command(cp().arg("--in-place")).run());
    let refused = in_place.is_none_or(|run| run.failed(1).contains("ETXTBSY"));
    let kept = std::fs::read(&pair.destination).unwrap() == old;
    let copied = pair.command(cp()).run();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(refused && kept, "it was written to");
    let _ = pair.receipt(&copied);
    pair.assert_copied();
}

fn longer_and_shorter_old_files(form: Form) {
    for old in [0, 1, LENGTH - 1, LENGTH, LENGTH + 1, 3 * LENGTH] {
        let in_place = cp().arg("--in-place");
        let in_place = (!form.is_tree()).then_some(in_place);
        for program in [cp(), cp().arg("--durable")].into_iter().chain(in_place) {
            let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
            std::fs::write(&pair.destination, testbed::seeded(9, 0, old)).unwrap();
            pair.copy(program);
        }
    }
}

fn replaced_by_rename(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let (run, trace) = pair.traced(cp());
    let _ = pair.receipt(&run);
    let opened = trace.calls.iter().any(|call| {
        call.name.starts_with("open")
            && call.arguments.contains("O_TRUNC")
            && call.mentions(pair.to.path())
    });
    assert!(!opened, "the old file was truncated");
    let renames = trace.named(&RENAMES);
    assert_eq!(renames.len(), 1, "{renames:#?}");
}

/// Whoever is last wins, whole.
fn many_copies_to_one_name_at_once(form: Form) {
    let pair = Pair::empty_of(form, Place::Disk, Place::Disk);
    let sources: Vec<_> = (0..12)
        .map(|seed| {
            let path = pair.another_source(&format!("source-{seed}"));
            std::fs::write(&path, testbed::seeded(seed, 0, 100_000 + seed * 999)).unwrap();
            path
        })
        .collect();
    std::thread::scope(|scope| {
        for source in &sources {
            let program = pair.command_from(cp(), source);
            scope.spawn(move || {
                let run = program.run();
                assert!(run.status.success(), "{}", run.stderr);
            });
        }
    });
    let found = std::fs::read(&pair.destination).unwrap();
    assert!(sources.iter().any(|source| std::fs::read(source).unwrap() == found), "a mixture");
    pair.assert_no_strangers();
}

/// No O_TMPFILE, no RENAME_NOREPLACE, no reflinks, a server that may say no to anything.
fn a_fuse_filesystem(form: Form) {
    let below = Pair::of(form, Place::Ext4, &Content::dense(3 << 20));
    let mount = Mount::fuse(below.to.path());
    let (destination, seen) = (mount.path().join("destination"), &below.destination);
    let command = |program| below.command_to(program, mount.path());
    for switches in [&[][..], &["-p"], &["--durable", "--verify"], &["--in-place"], &["-f"]] {
        if form.is_tree() && switches == ["--in-place"] {
            continue;
        }
        let _ = std::fs::remove_file(&destination);
        for _ in ["new", "old"] {
            let receipt = below.receipt(&command(cp().args(switches)).run());
            assert_eq!(receipt.at("shared") + receipt.at("moved"), 0, "{}", receipt.value());
            settled(&below).assert_copied();
        }
        std::fs::write(&destination, b"old").unwrap();
        let kept = command(cp().arg("-n")).run();
        assert!(kept.status.success(), "{}", kept.stderr);
        settled(&below).assert_kept(b"old");
    }
    std::fs::remove_file(&destination).unwrap();
    let made = command(cp().arg("-n")).run();
    assert_eq!(below.receipt(&made).value()["event"], "copied");
    settled(&below).assert_copied();

    // A file that comes meanwhile is left alone here too.
    std::fs::remove_file(&destination).unwrap();
    let program = command(cp_by(crate::cp::READ_WRITE).arg("-n"));
    let stopped = program.stop_after(SystemCall::PWRITE64, 1);
    std::fs::write(&destination, b"meanwhile").unwrap();
    let run = stopped.resume().run;
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(std::fs::read(seen).unwrap(), b"meanwhile");
    settled(&below).assert_no_strangers();
}

/// Returns the directories when the server has removed each file that lost its name while it was open: it does so when it
/// learns of the last close, which may be after the program that closed it has ended.
fn settled(below: &Pair) -> &Pair {
    testbed::wait_for("the server to remove what it hid", || {
        let entries = std::fs::read_dir(below.to.path()).unwrap();
        !entries.map(|entry| entry.unwrap().file_name()).any(|name| is_hidden(&name))
    });
    below
}

/// Whether libfuse gave a file this name when it lost its own while it was open.
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".fuse_hidden")
}
