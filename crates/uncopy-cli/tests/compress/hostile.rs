//! Compressed input that lies, is damaged or cut off: an error, and nothing under the name.

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use testbed::{Case, Mount, Need, Program, run_tool};

use crate::compress::{Pair, compress, copy, cp, decompress, noise, text};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] cut_off_anywhere,
        [] any_damage_is_noticed,
        [] wrong_seek_tables_are_noticed,
        [Need::Tool("zstd")] windows_have_a_bound,
        [Need::Root, Need::Tool("zstd")] a_bomb_ends_when_the_disk_is_full,
        [Need::Tool("zstd"), Need::Tool("prlimit")] a_bomb_takes_no_memory,
        [] one_bad_file_does_not_end_a_tree,
    ]
}

/// A compressed file of several frames, small enough to be damaged everywhere.
fn packed(pair: &Pair) -> Vec<u8> {
    let source = pair.file("a", [vec![7; 2_100_000], text(200), noise(1, 50)].concat());
    copy(compress(), &source, &pair.from.join("packed.zst"));
    fs::read(pair.from.join("packed.zst")).unwrap()
}

#[track_caller]
fn assert_refused(pair: &Pair, bytes: &[u8], says: &str) {
    let source = pair.file("bad.zst", bytes);
    let target = pair.to.join("target");
    for old in [false, true] {
        if old {
            fs::write(&target, "old").unwrap();
        }
        let run = decompress().arg(&source).arg(&target).run();
        let message = run.failed(1);
        assert!(message.contains(says), "{message}");
        assert!(message.contains("bad.zst") && message.contains("get the file again"), "{message}");
        assert_eq!(run.receipts()[0].value()["kind"], "damaged");
        assert_eq!(fs::read(&target).ok().as_deref(), old.then_some(&b"old"[..]));
        assert!(pair.to.strangers(&["target"]).is_empty());
    }
    fs::remove_file(&target).unwrap();
}

fn cut_off_anywhere() {
    let pair = Pair::new();
    let whole = packed(&pair);
    let table = whole.len() - (3 * 8 + 9 + 8);
    for length in (4..whole.len()).step_by(7).chain([table + 1, table + 8, whole.len() - 1]) {
        if length == table {
            // Whole frames without a table are a file of zstd like any other.
            continue;
        }
        let ends = (5..=table).contains(&length);
        let says = if ends { "" } else { "middle of a frame" };
        // A file cut between two frames looks like a whole one.
        let source = pair.file("cut.zst", &whole[..length]);
        let run = decompress().arg(&source).arg(pair.to.join("b")).run();
        if run.status.success() {
            assert!(by_frames(&source), "{length}");
            fs::remove_file(pair.to.join("b")).unwrap();
            continue;
        }
        assert_refused(&pair, &whole[..length], says);
    }
}

/// zstd takes it too.
fn by_frames(path: &Path) -> bool {
    Command::new("zstd").args(["-q", "-t"]).arg(path).status().is_ok_and(|status| status.success())
}

/// Damages any single byte: the error is reported, or the byte has no meaning.
fn any_damage_is_noticed() {
    let pair = Pair::new();
    let whole = packed(&pair);
    let expected = fs::read(pair.from.join("a")).unwrap();
    let config = Config { cases: 120, failure_persistence: None, ..Config::default() };
    let damage = (any::<prop::sample::Index>(), 1..=255_u8);
    let result = TestRunner::new(config).run(&damage, |(place, mask)| {
        let mut bytes = whole.clone();
        let place = place.index(bytes.len());
        bytes[place] ^= mask;
        let source = pair.file("bad.zst", &bytes);
        let target = pair.to.join("target");
        let run = decompress().arg(&source).arg(&target).run();
        if run.status.success() {
            prop_assert!(fs::read(&target).unwrap() == expected, "at {place}");
            fs::remove_file(&target).unwrap();
        } else {
            prop_assert!(!target.exists());
            prop_assert_eq!(run.status.code(), Some(1));
        }
        prop_assert!(pair.to.strangers(&[]).is_empty());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

fn wrong_seek_tables_are_noticed() {
    let pair = Pair::new();
    let whole = packed(&pair);
    let table = whole.len() - (3 * 8 + 9 + 8);
    let says = "seek table";
    // Sizes, number of frames, descriptor, magic number; another length of the frame.
    for place in [8, 12, 16 + 4, 32, 33, 36, 37, 40] {
        let mut bytes = whole.clone();
        bytes[table + place] ^= 0x40;
        assert_refused(&pair, &bytes, says);
    }
    let (frames, table) = whole.split_at(table);
    assert_refused(&pair, &[frames, table, table].concat(), "");
    assert_refused(&pair, &[frames, table, frames].concat(), "");
    assert_refused(&pair, &[table, frames].concat(), "");
    assert_refused(&pair, &[frames, frames, table].concat(), says);
    assert_refused(&pair, &[frames, table, b"tail"].concat(), "");
    assert_refused(&pair, table, says);
}

/// Up to what `zstd -d` takes without being asked.
fn windows_have_a_bound() {
    let pair = Pair::new();
    let source = pair.from.join("a");
    fs::File::create(&source).unwrap().set_len(300 << 20).unwrap();
    for (flag, fits) in [("--long=27", true), ("--long=28", false)] {
        let packed = pair.from.join("b.zst");
        // From a pipe, so that it does not know how little it needs.
        let line = format!("cat {} | zstd -q -f {flag} -o {}", source.display(), packed.display());
        run_tool("sh", ["-c", &line]);
        let run = decompress().arg(&packed).arg(pair.to.join("b")).run();
        assert_eq!(run.status.success(), fits, "{}", run.stderr);
        if !fits {
            assert!(run.failed(1).contains("too much memory"), "{}", run.stderr);
        }
        let _ = fs::remove_file(pair.to.join("b"));
    }
}

fn bomb(pair: &Pair, bytes: u64) -> std::path::PathBuf {
    let packed = pair.from.join("bomb.zst");
    // Ones, which no hole holds.
    let line =
        format!("head -c {bytes} /dev/zero | tr '\\0' '\\1' | zstd -q -f -o {}", packed.display());
    run_tool("sh", ["-c", &line]);
    assert!(fs::metadata(&packed).unwrap().len() < bytes / 5000);
    packed
}

fn a_bomb_ends_when_the_disk_is_full() {
    let pair = Pair::new();
    let packed = bomb(&pair, 200 << 20);
    let mount = Mount::tmpfs(8);
    let run = decompress().arg(&packed).arg(mount.path().join("b")).run();
    assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
}

fn a_bomb_takes_no_memory() {
    let pair = Pair::new();
    let packed = bomb(&pair, 300 << 20);
    let limited = |program: Program| program.through(["prlimit", "--as=200000000"]);
    let program = limited(decompress()).arg("--verify");
    copy(program, &packed, &pair.to.join("b"));
    assert_eq!(fs::metadata(pair.to.join("b")).unwrap().len(), 300 << 20);
    copy(limited(compress()), &pair.to.join("b"), &pair.to.join("c"));
}

fn one_bad_file_does_not_end_a_tree() {
    let pair = Pair::new();
    let whole = packed(&pair);
    pair.file("tree/good.zst", &whole);
    pair.file("tree/bad.zst", &whole[..whole.len() - 1]);
    pair.file("tree/fake.zst", b"no frame at all");
    let target = pair.to.join("target");
    let run = decompress().arg("-r").arg(pair.from.join("tree")).arg(&target).run();
    run.failed(1);
    assert_eq!(crate::compress::events(&run, "failed").len(), 2, "{}", run.stdout);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    assert!(fs::read(target.join("good")).unwrap() == fs::read(pair.from.join("a")).unwrap());
    // As it is, it can be copied.
    copy(cp(), &pair.from.join("tree/bad.zst"), &pair.to.join("as-it-is"));
}
