//! A process of another user reads everything below the destination without pause while files are
//! copied: at no moment is there a file that it may open and that is not whole, and of a source that
//! it may not read it reads no byte.

pub(crate) mod reader;

use std::fs;
use std::path::{Path, PathBuf};

use testbed::{Case, Content, Intercepted, Need, Place, Program, Scratch, seeded};
use uncopy::Errno;

use crate::both::metadata::set_mode;
use crate::cp::leftovers::no_unnamed_files;
use crate::cp::witnessed::{Pair, RENAME_CALLS};
use crate::cp::{READ_WRITE, SENDFILE, cp, cp_by};
use reader::{Observations, Reader};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [Need::Root] files_are_whole,
        [Need::Root] private_files_stay_private,
        [Need::Root] private_files_over_public_ones,
        [Need::Root] without_o_tmpfile,
        [Need::Root] large_files_that_are_kept,
        [Need::Root] trees_aside,
        [Need::Root] trees_merged_into_others,
    ];
    if cfg!(feature = "compress") {
        cases.extend(testbed::cases![[Need::Root] compressed_on_the_way]);
    }
    cases
}

/// Copies again and again while the other process reads.
fn race(directory: &Path, allowed: &[&[u8]], rounds: usize, copy: impl Fn(usize)) -> Observations {
    let reader = Reader::start(directory, allowed);
    (0..rounds).for_each(&copy);
    let seen = reader.end();
    assert!(seen.findings.is_empty(), "{seen:?}");
    assert!(seen.looks > rounds, "{seen:?} at {rounds} copies");
    seen
}

const LENGTH: u64 = 3 << 20;
const ROUNDS: usize = 24;

/// A source with this mode, and its bytes.
fn source(mode: u32) -> (Pair, Vec<u8>) {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    set_mode(&pair.source, mode);
    let bytes = fs::read(&pair.source).unwrap();
    (pair, bytes)
}

/// An old file that everybody may read; its bytes.
fn public_destination(pair: &Pair) -> Vec<u8> {
    let old = pair.old_destination();
    set_mode(&pair.destination, 0o666);
    old
}

/// A umask that takes nothing away.
fn ways() -> [Program; 4] {
    [cp(), cp().arg("-p"), cp_by(SENDFILE), cp_by(READ_WRITE).arg("--durable")]
        .map(|program| program.with_umask("000"))
}

fn files_are_whole() {
    let (pair, new) = source(0o666);
    let old = public_destination(&pair);
    let seen = race(pair.to.path(), &[&old, &new], ROUNDS, |round| {
        let _ = pair.command(ways()[round % 4].clone()).run().receipt();
        pair.assert_copied();
    });
    assert!(seen.read > 0, "{seen:?}");
}

/// Where others may read nothing, they read nothing.
fn private_files_stay_private() {
    let (pair, _) = source(0o600);
    let seen = race(pair.to.path(), &[], ROUNDS, |round| {
        let _ = pair.command(ways()[round % 4].clone()).run().receipt();
        pair.assert_copied();
        if round % 2 == 0 {
            fs::remove_file(&pair.destination).unwrap();
        }
    });
    assert!(seen.refused > 0, "{seen:?}");
    // The mode that is there counts, whatever the source has.
    let (pair, _) = source(0o666);
    pair.old_destination();
    set_mode(&pair.destination, 0o600);
    race(pair.to.path(), &[], ROUNDS, |_| {
        let _ = pair.command(cp().with_umask("000")).run().receipt();
    });
}

/// With its mode the file takes the place of one that everybody may read.
fn private_files_over_public_ones() {
    let (pair, _) = source(0o600);
    let old = public_destination(&pair);
    let seen = race(pair.to.path(), &[&old], ROUNDS, |_| {
        let _ = pair.command(cp().arg("-p").with_umask("000")).run().receipt();
        pair.assert_copied();
        // Not opened to all before it has its bytes.
        fs::remove_file(&pair.destination).unwrap();
        public_beside(&pair, &old);
    });
    assert!(seen.read > 0 && seen.refused > 0, "{seen:?}");
}

/// A public file under the destination's name, whole from its first moment there.
fn public_beside(pair: &Pair, bytes: &[u8]) {
    let aside = pair.from.join("aside");
    fs::write(&aside, bytes).unwrap();
    set_mode(&aside, 0o666);
    fs::rename(aside, &pair.destination).unwrap();
}

/// On such filesystems the data lies under a temporary name all the while.
fn without_o_tmpfile() {
    for mode in [0o666, 0o600] {
        let (pair, new) = source(mode);
        let old = public_destination(&pair);
        let program = cp().arg("-p").with_umask("000");
        let allowed: &[&[u8]] = if mode == 0o666 { &[&old, &new] } else { &[&old] };
        let seen = race(pair.to.path(), allowed, 8, |_| {
            public_beside(&pair, &old);
            let command = pair.command(program.clone());
            let refuse = no_unnamed_files(Errno::EOPNOTSUPP);
            let intercept = Intercepted::new(&command).inject(refuse).watch(&RENAME_CALLS).run();
            let _ = intercept.run.receipt();
            assert!(intercept.count(&RENAME_CALLS) > 0, "it had a name");
            pair.assert_copied();
        });
        assert!(seen.refused > 0, "its temporary file was there: {seen:?}");
    }
}

/// A tree with a file that everybody may read beside each that nobody else may.
struct Tree {
    from: Scratch,
    public: Vec<u8>,
}

const FILES: usize = 20;

impl Tree {
    /// With files of so many bytes.
    fn new(files: usize, length: u64) -> Tree {
        let tree = Tree { from: Place::Disk.scratch(), public: seeded(1, 0, length) };
        let secret = seeded(2, 0, length);
        fs::create_dir_all(tree.source().join("a/b")).unwrap();
        for number in 0..files {
            for (name, mode, bytes) in [("public", 0o666, &tree.public), ("secret", 0o600, &secret)]
            {
                let directory = if number % 2 == 0 { "a" } else { "a/b" };
                let path = tree.source().join(directory).join(format!("{name}{number}"));
                fs::write(&path, bytes).unwrap();
                set_mode(&path, mode);
            }
        }
        tree
    }

    fn source(&self) -> PathBuf {
        self.from.join("source")
    }

    fn program(&self, flags: &[&str], to: &Path) -> Program {
        let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-rT"]).args(flags);
        program.with_umask("000").arg(self.source()).arg(to)
    }
}

fn trees_aside() {
    let (tree, to) = (Tree::new(FILES, 20_000), Place::Disk.scratch());
    let destination = to.join("destination");
    let seen = race(to.path(), &[&tree.public], 20, |round| {
        // With a journal every other time.
        let flags: &[&str] = if round % 2 == 0 { &["--resume"] } else { &[] };
        assert!(tree.program(flags, &destination).run().status.success());
        fs::remove_dir_all(&destination).unwrap();
    });
    assert!(seen.read > 0 && seen.refused > 0, "{seen:?}");
}

fn trees_merged_into_others() {
    let (tree, to) = (Tree::new(FILES, 20_000), Place::Disk.scratch());
    let destination = to.join("destination");
    let old = seeded(3, 0, 9000);
    let seen = race(to.path(), &[&tree.public, &old], 20, |round| {
        for name in ["a/public0", "a/secret0", "a/b/secret1"] {
            let aside = tree.from.join("aside");
            fs::write(&aside, &old).unwrap();
            set_mode(&aside, 0o666);
            fs::create_dir_all(destination.join("a/b")).unwrap();
            fs::rename(&aside, destination.join(name)).unwrap();
        }
        let flags: &[&str] = if round % 2 == 0 { &["-p", "--resume"] } else { &["-p"] };
        assert!(tree.program(flags, &destination).run().status.success());
        if round % 4 == 3 {
            fs::remove_dir_all(&destination).unwrap();
        }
    });
    assert!(seen.read > 0 && seen.refused > 0, "{seen:?}");
}

/// Files from 32 MiB on lie under a name of their own until they are whole, with a journal.
fn large_files_that_are_kept() {
    let (tree, to) = (Tree::new(1, (40 << 20) + 5), Place::Disk.scratch());
    let destination = to.join("destination");
    let seen = race(to.path(), &[&tree.public], 3, |_| {
        let flags = ["--resume", "--jobs=1"];
        assert!(tree.program(&flags, &destination).run().status.success());
        fs::remove_dir_all(&destination).unwrap();
    });
    assert!(seen.refused > 0, "{seen:?}");
}

/// A compressed copy, whose bytes differ from the source, is as private.
fn compressed_on_the_way() {
    let (tree, to) = (Tree::new(1, LENGTH), Place::Disk.scratch());
    let secret = tree.source().join("a/secret0");
    let destination = to.join("destination");
    let seen = race(to.path(), &[], ROUNDS, |_| {
        let program = cp().arg("--compress=zstd").with_umask("000").arg(&secret).arg(&destination);
        let _ = program.run().receipt();
        fs::remove_file(&destination).unwrap();
    });
    assert!(seen.looks > 0, "{seen:?}");
}
