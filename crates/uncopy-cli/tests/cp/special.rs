//! Sockets, devices, and FIFOs to write to: refused unless asked for, and never waited for.

use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};
use testbed::{Case, Content, Filesystem, Mount, Need, Place, Program, patterned};

use crate::cp::witnessed::Pair;
use crate::cp::{ACROSS, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] advice_for_a_special_file_is_accepted,
        [] fifo_as_destination_is_refused_at_once,
        [] no_clobber_leaves_special_destinations_alone,
        [] special_destinations_are_refused_with_options_of_trees,
        [] socket_is_refused,
        [] device_is_refused,
        [] contents_of_a_fifo,
        [] contents_into_a_fifo,
        [] contents_into_dev_null,
        [] contents_into_their_own_source,
        [] what_a_reader_has_is_not_tried_again,
        [Need::At(Place::Ext4)] contents_of_a_block_device,
        [] fifo_of_many_pipefuls,
    ]
}

pub(crate) fn make(path: &Path, kind: FileType) {
    rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), 0).unwrap();
}

pub(crate) fn fifo(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    make(&path, FileType::Fifo);
    path
}

fn fifo_as_destination_is_refused_at_once() {
    let pair = Pair::at(Place::Disk, &Content::dense(100));
    let destination = fifo(&pair.to, "destination");
    for program in [cp(), cp().arg("--in-place"), cp().arg("-f")] {
        let run = pair.command(program).run();
        assert!(run.failed(1).contains("FIFO"), "{}", run.stderr);
        let kind = std::fs::metadata(&destination).unwrap().file_type();
        assert!(kind.is_fifo(), "the FIFO was replaced");
        pair.assert_no_strangers();
    }
}

/// Also through a link to it, and as an entry of the directory that is named. A backup keeps it under another name.
fn special_destinations_are_refused_with_options_of_trees() {
    for kind in [FileType::Fifo, FileType::Socket] {
        for flags in [
            "-r",
            "-a",
            "-u",
            "-P",
            "-d",
            "--checksum",
            "--size-only",
            "--resume",
            "--link-dest=.",
            "--remove-source-files",
        ] {
            let pair = Pair::at(Place::Disk, &Content::dense(100));
            make(&pair.destination, kind);
            let (link, directory) = (pair.to.join("link"), pair.to.join("directory"));
            std::os::unix::fs::symlink(&pair.destination, &link).unwrap();
            std::fs::create_dir(&directory).unwrap();
            let entry = directory.join(pair.source.file_name().unwrap());
            make(&entry, kind);
            for named in [&pair.destination, &link, &directory, &entry] {
                let run = cp().arg(flags).arg(&pair.source).arg(named).run();
                let message = run.failed(1);
                assert!(message.contains("cannot write to"), "{flags}: {message}");
                // It is refused with these.
                assert!(!message.contains("--copy-contents"), "{flags}: {message}");
            }
            for special in [&pair.destination, &entry] {
                let found = std::fs::symlink_metadata(special).unwrap().file_type();
                assert!(!found.is_file(), "{flags} {kind:?} was replaced");
            }
            assert!(pair.source.exists(), "{flags}");
        }
        let pair = Pair::at(Place::Disk, &Content::dense(100));
        make(&pair.destination, kind);
        assert!(cp().arg("-rb").arg(&pair.source).arg(&pair.destination).run().status.success());
        assert!(std::fs::metadata(&pair.destination).unwrap().file_type().is_file());
        let backup = pair.to.join("destination~");
        assert!(!std::fs::metadata(backup).unwrap().file_type().is_file());
    }
}

fn socket_is_refused() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    make(&pair.source, FileType::Socket);
    let run = pair.command(cp()).run();
    assert!(run.failed(1).contains("socket"), "{}", run.stderr);
    pair.assert_nothing_left();
}

fn device_is_refused() {
    let pair = Pair::at(Place::Disk, &Content::dense(100));
    let run = cp().arg("/dev/zero").arg(&pair.destination).run();
    let message = run.failed(1);
    assert!(message.contains("device") && message.contains("--copy-contents"), "{message}");
    pair.assert_nothing_left();
    let run = cp().arg(&pair.source).arg("/dev/null").run();
    assert!(run.failed(1).contains("device"), "{}", run.stderr);
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

fn contents_of_a_fifo() {
    let bytes = patterned(0, 300_001);
    for program in [cp()].into_iter().chain(ACROSS.map(cp_by)) {
        let pair = Pair::empty(Place::Disk, Place::Disk);
        let source = fifo(&pair.from, "source");
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = std::fs::File::options().write(true).open(&source).unwrap();
                // Fails if the program refuses this way and goes; the exit status tells.
                let _ = writer.write_all(&bytes);
            });
            let run = pair.command(program.clone().arg("--copy-contents")).run();
            // Lets a writer go that nobody read from.
            let _ = std::fs::File::options().read(true).write(true).open(&source);
            run
        });
        if run.status.code() == Some(5) {
            // sendfile(2) wants a source that can be mapped.
            assert!(format!("{program:?}").contains("sendfile"), "{}", run.stderr);
            pair.assert_nothing_left();
            continue;
        }
        assert_eq!(run.receipt().bytes(), bytes.len() as u64);
        assert!(std::fs::read(&pair.destination).unwrap() == bytes);
    }
}

fn contents_into_a_fifo() {
    into_a_fifo(&Content::dense(200_001));
    into_a_fifo(&Content::dense(3000));
    // It is written as it reads, from its beginning.
    into_a_fifo(&Content::sparse(300_000, &[(8192, 4096), (204_800, 10)]));
    into_a_fifo(&Content::sparse(300_000, &[(0, 65_536)]));
}

#[track_caller]
fn into_a_fifo(content: &Content) {
    let pair = Pair::at(Place::Disk, content);
    let destination = fifo(&pair.to, "destination");
    let (run, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = Vec::new();
            std::fs::File::open(&destination).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        });
        let run = pair.command(cp().arg("--copy-contents")).run();
        let _ = std::fs::File::options().read(true).write(true).open(&destination);
        (run, reader.join().unwrap())
    });
    assert_eq!(run.receipt().bytes(), content.length);
    assert!(read == std::fs::read(&pair.source).unwrap());
    assert!(std::fs::metadata(&destination).unwrap().file_type().is_fifo());
    pair.assert_no_strangers();
}

/// Some of them would be read and written without end.
fn contents_into_their_own_source() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let sources = [fifo(&pair.from, "source"), "/dev/null".into(), "/dev/zero".into()];
    for source in sources {
        let link = pair.from.join("link");
        std::os::unix::fs::symlink(&source, &link).unwrap();
        for (from, to) in [(&source, &source), (&source, &link), (&link, &source)] {
            let run = cp().arg("--copy-contents").args([from, to]).run();
            assert!(run.failed(1).contains("it is the same file as"), "{}", run.stderr);
        }
        std::fs::remove_file(&link).unwrap();
    }
}

fn contents_into_dev_null() {
    let pair = Pair::at(Place::Disk, &Content::dense(1 << 20));
    let run = cp().arg("--copy-contents").arg(&pair.source).arg("/dev/null").run();
    let receipt = run.receipt();
    assert_eq!(receipt.bytes(), 1 << 20);
    assert_eq!(receipt.at("shared") + receipt.at("moved"), 0, "{}", receipt.value());
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// By name, before anything is written: what was written cannot be taken back.
fn what_a_reader_has_is_not_tried_again() {
    let pair = Pair::at(Place::Disk, &Content::dense(3000));
    let reader = fifo(&pair.to, "destination");
    // Nobody has to be waited for.
    let mut end = std::fs::File::options().read(true).write(true).open(&reader).unwrap();
    let (flag, variable) = (cp().arg("--if-changed=retry"), cp().env("UNCOPY_IF_CHANGED", "retry"));
    for program in [flag.clone(), variable.clone()] {
        for destination in [reader.as_path(), Path::new("/dev/null")] {
            let program = program.clone().arg("--copy-contents");
            let run = program.arg(&pair.source).arg(destination).run();
            let message = run.failed(2);
            assert!(message.contains("taken back") && message.contains("if-changed"), "{message}");
            assert_eq!(run.receipts()[0].value()["kind"], "options", "{}", run.stdout);
        }
    }
    // A flag says otherwise, and the bytes of that copy are the first that come.
    let program = variable.args(["--if-changed=fail", "--copy-contents"]);
    assert_eq!(pair.command(program).run().receipt().bytes(), 3000);
    let mut bytes = vec![0; 3000];
    end.read_exact(&mut bytes).unwrap();
    assert!(bytes == std::fs::read(&pair.source).unwrap());
}

/// Its size by `stat` is 0, and it has no holes to walk.
fn contents_of_a_block_device() {
    let mount = Mount::image(Filesystem::Ext4, 8);
    std::fs::write(mount.path().join("file"), patterned(0, 1 << 20)).unwrap();
    mount.remount("ro");
    let pair = Pair::empty(Place::Ext4, Place::Ext4);
    let run = cp().arg("--copy-contents").arg(mount.device()).arg(&pair.destination).run();
    assert_eq!(run.receipt().bytes(), 8 << 20);
    let expected = std::fs::read(mount.device()).unwrap();
    assert!(std::fs::read(&pair.destination).unwrap() == expected);
}

/// More than any pipe holds, written in odd pieces by a slow writer: short reads are no end.
fn fifo_of_many_pipefuls() {
    let bytes = patterned(0, (4 << 20) + 5);
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let source = fifo(&pair.from, "source");
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = std::fs::File::options().write(true).open(&source).unwrap();
            for piece in bytes.chunks(77_777) {
                writer.write_all(piece).unwrap();
                std::thread::yield_now();
            }
        });
        pair.command(cp().arg("--copy-contents")).run()
    });
    assert_eq!(run.receipt().bytes(), bytes.len() as u64);
    assert!(std::fs::read(&pair.destination).unwrap() == bytes);
}

/// As by `cp`: `-n` replaces nothing, whatever is there, and says nothing.
fn no_clobber_leaves_special_destinations_alone() {
    for kind in [FileType::Fifo, FileType::Socket] {
        for flags in
            [&["-n"][..], &["-n", "--copy-contents"], &["-n", "--if-changed=retry"], &["-rn"]]
        {
            let pair = Pair::at(Place::Disk, &Content::dense(100));
            make(&pair.destination, kind);
            let run = pair.command(cp().args(flags)).run();
            assert!(run.status.success(), "{kind:?} {flags:?}: {}", run.stderr);
            assert_eq!(run.stderr, "", "{kind:?} {flags:?}");
            let found = std::fs::symlink_metadata(&pair.destination).unwrap().file_type();
            assert!(!found.is_file(), "{kind:?} {flags:?}");
        }
    }
}

/// No next step is a flag that is refused: with the flags of entries, `--copy-contents` is one.
fn advice_for_a_special_file_is_accepted() {
    for flags in [
        &["-u"][..],
        &["--checksum"],
        &["-P"],
        &["-d"],
        &["-l"],
        &["--parents"],
        &["--files-from", "list"],
        &["--resume"],
    ] {
        for kind in ["fifo", "/dev/null"] {
            let place = Place::Disk.scratch();
            let sh = |script: &str| {
                let sh = Program::new("sh").args(["-euc", script]).current_dir(place.path()).run();
                assert!(sh.status.success(), "{flags:?} {kind}: {}", sh.stderr);
            };
            let is_list = flags.contains(&"list");
            if is_list && kind != "fifo" {
                continue;
            }
            sh("mkfifo fifo; mkdir d; echo fifo > list");
            let uncopy = || {
                let uncopy = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp");
                uncopy.current_dir(place.path())
            };
            let source = if is_list { "." } else { kind };
            let run = uncopy().args(flags).args([source, "d"]).run();
            let message = run.failed(1);
            assert!(message.contains("--recursive and --specials"), "{flags:?}: {message}");
            assert!(message.contains("leave out"), "{flags:?}: {message}");
            if kind == "fifo" {
                let run = uncopy()
                    .args(["--recursive", "--specials"])
                    .args(flags)
                    .args([source, "d"])
                    .run();
                assert!(run.status.success(), "{flags:?}: {}", run.stderr);
                sh("test -p d/fifo");
            } else {
                let run = uncopy().args(["--copy-contents", source, "d"]).run();
                assert!(run.status.success(), "{flags:?}: {}", run.stderr);
                sh("test -f d/null");
            }
        }
    }
}
