//! Trees: a mix of files comes back with its names, and no two become one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use testbed::{
    Case, Compared, Content, Need, Place, Program, Run, SystemCall, assert_same, assert_same_tree,
};

use crate::compress::{Pair, by_zstd, compress, cp, decompress, events, noise, text};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] names_that_collide_are_refused,
        [] excluded_names_do_not_collide,
        [] a_single_file_uses_the_name_given,
        [] merging_replaces_and_deletes_by_the_copies_names,
        [] a_dry_run_names_what_would_be_made,
        [] a_killed_tree_is_gone_on_with,
        [] files_above_the_roots_name_do_not_matter,
    ];
    for place in [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs] {
        let needs = [Need::At(place), Need::Tool("zstd")];
        let name = format!("compress::trees::a_mixed_tree_comes_back_on::{place:?}");
        cases.push(Case::new(name, &needs, move || a_mixed_tree_comes_back(place)));
    }
    cases
}

#[track_caller]
fn copy_tree(program: Program, from: &Path, to: &Path) -> Run {
    let run = program.arg("-rT").arg(from).arg(to).run();
    assert!(run.status.success(), "{}: {}", run.status, run.stderr);
    run
}

/// Small and large, dense and sparse, compressible or not, with links, and names of all kinds.
fn mixed(pair: &Pair) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let root = pair.from.join("tree");
    pair.file("tree/text", text(2_500_000));
    pair.file("tree/noise", noise(1, 200_000));
    pair.file("tree/sub/small.txt", text(900));
    pair.file("tree/sub/tiny", b"x");
    pair.file("tree/sub/empty", b"");
    pair.file("tree/sub/deep/photo.jpg", [&b"\xff\xd8\xff\xe0"[..], &noise(2, 50_000)].concat());
    pair.file("tree/sub/deep/not.zst", b"a name that promises too much");
    pair.file("tree/.zst", text(5000));
    Content::sparse(20 << 20, &[(5 << 20, 100_000)]).write(&root.join("sparse"));
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"odd\xff\n")), text(50_000)).unwrap();
    fs::hard_link(root.join("text"), root.join("sub/linked")).unwrap();
    fs::hard_link(root.join("noise"), root.join("sub/linked noise")).unwrap();
    symlink("text", root.join("link")).unwrap();
    fs::create_dir(root.join("hollow")).unwrap();
    root
}

fn a_mixed_tree_comes_back(place: Place) {
    let pair = Pair::at(place);
    let root = mixed(&pair);
    for flags in [&["--jobs=3"][..], &["--jobs=1", "--verify", "--durable"]] {
        let (packed, back) = (pair.to.join("packed"), pair.to.join("back"));
        let program = compress().arg("--preserve=all").args(flags);
        let run = copy_tree(program, &root, &packed);
        assert!(by_zstd(&packed.join("text.zst")) == text(2_500_000));
        assert_same(&root.join("noise"), &packed.join("noise"));
        assert!(by_zstd(&packed.join("sub/deep/not.zst.zst")).starts_with(b"a name"));
        for name in ["sub/small.txt.zst", "sub/linked.zst", "sub/empty", "sub/tiny", ".zst.zst"] {
            assert!(packed.join(name).is_file(), "{name}");
        }
        let summary = run.receipts().pop().unwrap();
        let transformed = &summary.value()["transformed"];
        assert_eq!(transformed["files"], 5, "{}", summary.value());
        assert!(transformed["bytes"].as_u64() < transformed["source_bytes"].as_u64());
        let refused = summary.value()["refusals"].as_array().unwrap().iter();
        let reason = "the bytes are transformed on their way";
        assert!(refused.clone().any(|refusal| refusal["reason"] == reason));
        // Both kinds of ways in one receipt.
        for event in events(&run, "copied") {
            assert!(event.value()["compression"]["action"].is_string(), "{}", event.value());
        }

        copy_tree(decompress().arg("--preserve=all").args(flags), &packed, &back);
        let compared = Compared { modes: true, attributes: true, times: true, holes: false };
        assert_same_tree(&root, &back, compared);
        assert!(pair.to.strangers(&["packed", "back"]).is_empty());
        fs::remove_dir_all(packed).unwrap();
        fs::remove_dir_all(back).unwrap();
    }
}

/// Whichever goes first, the one whose name changes is refused, and the other is there.
fn names_that_collide_are_refused() {
    for existing in [false, true] {
        let pair = Pair::new();
        pair.file("tree/a", text(10_000));
        let plain = pair.file("tree/other", text(10_000));
        copy_tree(compress(), &pair.from.join("tree"), &pair.from.join("packed"));
        fs::copy(pair.from.join("packed/a.zst"), pair.from.join("tree/a.zst")).unwrap();
        for (program, refused, kept) in [(compress(), "a", "a.zst"), (decompress(), "a.zst", "a")] {
            let target = pair.to.join("target");
            if existing {
                fs::create_dir(&target).unwrap();
            }
            let run = program.arg("-rT").arg(pair.from.join("tree")).arg(&target).run();
            assert!(run.failed(1).contains("its copy would be called"), "{}", run.stderr);
            let failed = events(&run, "failed");
            assert_eq!(failed.len(), 1, "{}", run.stdout);
            let source = failed[0].value()["source"].as_str().unwrap();
            assert!(source.ends_with(&format!("/{refused}")), "{source}");
            assert_same(&pair.from.join("tree").join(kept), &target.join(kept));
            assert!(target.join("other").is_file() || target.join("other.zst").is_file());
            fs::remove_dir_all(target).unwrap();
        }
        drop(plain);
    }
}

fn excluded_names_do_not_collide() {
    let pair = Pair::new();
    pair.file("tree/a", text(10_000));
    pair.file("tree/a.zst", b"\x28\xb5\x2f\xfd of another time");
    let target = pair.to.join("target");
    copy_tree(compress().arg("--exclude=*.zst"), &pair.from.join("tree"), &target);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    copy_tree(decompress(), &target, &pair.to.join("back"));
    assert_same(&pair.from.join("tree/a"), &pair.to.join("back/a"));
}

fn a_single_file_uses_the_name_given() {
    let pair = Pair::new();
    let source = pair.file("a", text(10_000));
    let given = pair.to.join("given");
    let run = compress().arg("-r").arg(&source).arg(&given).run();
    assert!(run.status.success(), "{}", run.stderr);
    let run = decompress().arg("-r").arg(&given).arg(pair.to.join("back")).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same(&source, &pair.to.join("back"));
    // In a directory it gets the suffix.
    fs::create_dir(pair.to.join("into")).unwrap();
    let run = compress().arg("-r").arg(&source).arg(pair.to.join("into")).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same(&given, &pair.to.join("into/a.zst"));
}

fn merging_replaces_and_deletes_by_the_copies_names() {
    let pair = Pair::new();
    let root = pair.from.join("tree");
    pair.file("tree/a", text(10_000));
    pair.file("tree/gone", text(10_000));
    pair.file("tree/noise", noise(1, 10_000));
    let target = pair.to.join("target");
    copy_tree(compress().arg("-p"), &root, &target);
    let run = copy_tree(compress().arg("-pu"), &root, &target);
    assert!(events(&run, "copied").is_empty(), "{}", run.stdout);
    assert_eq!(events(&run, "skipped").len(), 3);

    fs::remove_file(root.join("gone")).unwrap();
    pair.file("tree/a", text(20_000));
    copy_tree(compress().arg("--delete"), &root, &target);
    let names = |directory: &Path| {
        let names = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&target), ["a.zst", "noise"]);
    // And the other way round.
    let back = pair.to.join("back");
    copy_tree(decompress(), &target, &back);
    fs::write(back.join("stranger"), "x").unwrap();
    copy_tree(decompress().arg("--delete"), &target, &back);
    assert_eq!(names(&back), ["a", "noise"]);
    assert_same_tree(&root, &back, Compared::default());
}

fn a_dry_run_names_what_would_be_made() {
    let pair = Pair::new();
    pair.file("tree/a", text(10_000));
    pair.file("tree/noise", noise(1, 10_000));
    let target = pair.to.join("target");
    let run = copy_tree(compress().arg("--dry-run"), &pair.from.join("tree"), &target);
    let would = events(&run, "would");
    let of = |name: &str| {
        let ends = |event: &&testbed::Receipt| {
            event.value()["destination"].as_str().unwrap().ends_with(name)
        };
        would.iter().find(ends).unwrap_or_else(|| panic!("no {name}: {}", run.stdout)).value()
    };
    assert_eq!(of("/a.zst")["mechanism"], "read_write");
    assert_eq!(of("/noise")["action"], "make");
    assert!(!target.exists());
}

/// Files in the journal are not compressed again; half-done ones are.
fn a_killed_tree_is_gone_on_with() {
    let pair = Pair::new();
    let root = mixed(&pair);
    for number in 0..60_u8 {
        pair.file(&format!("tree/many/{number}"), text(20_000 + usize::from(number)));
    }
    let packed = pair.to.join("packed");
    let program = compress().args(["-rT", "--resume", "--jobs=1"]).arg(&root).arg(&packed);
    program.stop_after(SystemCall::PWRITE64, 30).kill();
    assert!(!packed.exists());
    let run = copy_tree(compress().args(["--resume", "--jobs=1"]), &root, &packed);
    assert!(pair.to.strangers(&["packed"]).is_empty(), "{}", run.stdout);
    copy_tree(decompress(), &packed, &pair.to.join("back"));
    assert_same_tree(&root, &pair.to.join("back"), Compared::default());

    // With other flags it is another job.
    fs::remove_dir_all(&packed).unwrap();
    program.stop_after(SystemCall::PWRITE64, 30).kill();
    for other in [cp(), cp().arg("--compress=zstd:9")] {
        let run = other.args(["-rT", "--resume"]).arg(&root).arg(&packed).run();
        assert!(run.failed(1).contains("with other flags"), "{}", run.stderr);
    }
    let run = copy_tree(compress().args(["--resume", "--jobs=1"]), &root, &packed);
    assert!(run.status.success());
}

/// The root's own name has no suffix to lose.
fn files_above_the_roots_name_do_not_matter() {
    let pair = Pair::new();
    pair.file("tree.zst/a", text(10_000));
    let target = pair.to.join("target.zst");
    copy_tree(compress(), &pair.from.join("tree.zst"), &target);
    copy_tree(decompress(), &target, &pair.to.join("back"));
    assert_same_tree(&pair.from.join("tree.zst"), &pair.to.join("back"), Compared::default());
}
