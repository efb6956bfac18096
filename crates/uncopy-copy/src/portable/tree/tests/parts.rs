//! Large files that another run goes on within: killed after each call, stopped, damaged, changed, out of room.

use super::*;
use crate::chunks::ChunkSizes;
use crate::journal::format::{self, Part};
use crate::journal_name::journal_name;
use crate::{Allow, Digest, Origin, Sparse, Threshold, Verify};
use std::os::unix::fs::{FileExt, lchown};
use uncopy_core::{Mechanism, Receipt};

const SYSTEMS: [System; 2] = [System::MacOs, System::Windows];
const CHUNK: u64 = 16 << 10;
const SIZES: ChunkSizes =
    ChunkSizes { min_file_bytes: 64 << 10, chunk_bytes: CHUNK, flush_bytes: 2 * CHUNK };
/// Two large files on two levels, and a small one.
const LARGE: [(&str, usize); 2] = [("a/large", 150_001), ("big", 6 * CHUNK as usize)];

/// A system whose files share no blocks.
fn fake(system: System) -> Fake {
    Fake::new(system).fail_all(Call::CloneFile, 45).fail_all(Call::ShareBlocks, 50)
}

fn resuming() -> JobOptions {
    let mut copy = CopyOptions::new();
    copy.tuning.buffer = Threshold { bytes: 8 << 10, origin: Origin::Given };
    JobOptions::new().copy(copy).resume(true)
}

fn scene(is_merged: bool) -> Scene {
    let scene = Scene::empty();
    fs::create_dir(scene.source.join("a")).unwrap();
    for (at, (name, bytes)) in LARGE.into_iter().enumerate() {
        fs::write(scene.source.join(name), contents(at, bytes)).unwrap();
    }
    fs::write(scene.source.join("a/small"), contents(9, 100)).unwrap();
    if is_merged {
        fs::create_dir_all(scene.destination.join("a")).unwrap();
        fs::write(scene.destination.join("a/large"), "old").unwrap();
    }
    scene
}

fn run(scene: &Scene, calls: &Fake, options: &JobOptions) -> (Summary, Result<()>) {
    observed(scene, calls, options, &())
}

fn observed(
    scene: &Scene,
    calls: &Fake,
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let pairs = [(scene.source.clone(), scene.destination.clone())];
    run_in_chunks(calls, SIZES, &pairs, options, observer)
}

/// Returns the parts that the journal names.
fn parts(scene: &Scene) -> Vec<Part> {
    let Ok(bytes) = fs::read(scene.path(journal_name(OsStr::new("copy")).to_str().unwrap())) else {
        return Vec::new();
    };
    let read = |at: u64, buffer: &mut Vec<u8>, length: usize| {
        let rest = &bytes[at as usize..];
        *buffer = rest[..length.min(rest.len())].to_vec();
        Ok::<(), ()>(())
    };
    let contents = format::parse(bytes.len() as u64, read, &mut ()).unwrap().unwrap();
    contents.parts.into_values().collect()
}

/// Number of bytes that are noted of a large file.
fn noted(scene: &Scene, name: &str) -> u64 {
    let size = fs::metadata(scene.source.join(name)).unwrap().len();
    let part = parts(scene).into_iter().find(|part| part.path == name);
    part.map_or(0, |part| (part.chunks.len() as u64 * CHUNK).min(size))
}

/// Path of the part of the one large file that has one.
fn part_of(scene: &Scene, name: &str) -> PathBuf {
    let part = parts(scene).into_iter().find(|part| part.path == name).unwrap();
    let tree = scene.siblings().into_iter().find(|name| name.to_string_lossy().ends_with(".tree"));
    let root = tree.map_or(scene.destination.clone(), |tree| scene.directory.path().join(tree));
    root.join(name).with_file_name(part.name)
}

/// Goes on, and checks that no noted byte of a source is read again and that everything is there.
fn resume(scene: &Scene, fake: &Fake, options: &JobOptions, what: &str) -> Summary {
    let before = LARGE.map(|(name, _)| noted(scene, name));
    let (summary, ended) = run(scene, fake, options);
    ended.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(summary.failed, 0, "{what}");
    for ((name, size), noted) in LARGE.into_iter().zip(before) {
        let read = fake.read_of(&scene.source.join(name));
        let size = size as u64;
        assert!(read <= size - noted.min(size), "{what}: {name}: {read} of {size}, {noted} noted");
    }
    assert_all(scene, what);
    summary
}

fn assert_all(scene: &Scene, what: &str) {
    let mut found = shapes(&scene.destination);
    // Those of which nothing was noted in a directory that was there are not removed.
    found.retain(|path, _| !path.to_string_lossy().contains(".uncopy-"));
    assert!(found == shapes(&scene.source), "{what}");
    // A tree of which no journal was begun is not removed either.
    let mut names = scene.siblings();
    names.retain(|name| !name.to_string_lossy().ends_with(".tree"));
    assert_eq!(names, ["copy", "source"], "{what}");
}

/// Returns a scene whose job was killed as soon as a large file had this many noted bytes.
fn killed_at(is_merged: bool, system: System, name: &str, bytes: u64) -> Scene {
    for calls in 10.. {
        let scene = scene(is_merged);
        let fake = fake(system).crash_after(calls);
        let _ = run(&scene, &fake, &resuming());
        assert!(fake.is_crashed(), "{name} has never {bytes} noted bytes");
        if noted(&scene, name) >= bytes {
            return scene;
        }
    }
    unreachable!("every job ends")
}

#[test]
fn a_job_killed_after_each_call_goes_on_within_its_large_file() {
    for system in SYSTEMS {
        for is_merged in [false, true] {
            let (mut most, mut resumed_bytes) = (0, 0);
            for calls in (0..).step_by(testbed::by_extent([3, 1, 1])) {
                let scene = scene(is_merged);
                let what = format!("{system} {is_merged} {calls}");
                let first = fake(system).crash_after(calls);
                let _ = run(&scene, &first, &resuming());
                if !first.is_crashed() {
                    assert!(calls > 60, "{what}");
                    break;
                }
                most = most.max(noted(&scene, "a/large"));
                forget_names(&scene);
                // Each second time a further run is killed on its way too.
                if calls % 2 == 1 {
                    let second = fake(system).crash_after(calls / 2 + 8);
                    let _ = run(&scene, &second, &resuming());
                    forget_names(&scene);
                }
                let records = Receipts::default();
                let last = fake(system);
                let before = LARGE.map(|(name, _)| noted(&scene, name));
                let (summary, ended) = observed(&scene, &last, &resuming(), &records);
                ended.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(summary.failed, 0, "{what}");
                for ((name, size), noted) in LARGE.into_iter().zip(before) {
                    let read = last.read_of(&scene.source.join(name));
                    assert!(read <= size as u64 - noted, "{what}: {name}: {read}, {noted} noted");
                }
                assert_all(&scene, &what);
                let made = last.made();
                // The small one is copied as a whole.
                let by = |wanted: Call| made.iter().filter(|call| **call == wanted).count();
                assert!(by(Call::CopyInto) + by(Call::CopyToNew) <= 1, "{what}: {made:?}");
                for receipt in records.0.into_inner().unwrap() {
                    let moved: u64 = receipt.portions.iter().map(|portion| portion.bytes).sum();
                    assert_eq!(moved + receipt.resumed_bytes, receipt.bytes, "{what}");
                    resumed_bytes = resumed_bytes.max(receipt.resumed_bytes);
                }
            }
            assert!(most >= 8 * CHUNK, "{system} {is_merged}: {most}");
            assert!(resumed_bytes >= 8 * CHUNK, "{system} {is_merged}: {resumed_bytes}");
        }
    }
}

/// Removes temporary files but those of noted parts: a run of another process would use other names.
fn forget_names(scene: &Scene) {
    let known: Vec<_> = parts(scene).into_iter().map(|part| part.id.inode).collect();
    for path in shapes(scene.directory.path()).into_keys() {
        let path = scene.directory.path().join(path);
        let found = fs::symlink_metadata(&path).unwrap();
        let is_temporary = path.to_string_lossy().ends_with(".tmp") && found.is_file();
        if is_temporary && !known.contains(&found.ino()) {
            fs::remove_file(&path).unwrap();
        }
    }
}

/// Keeps receipts.
#[derive(Default)]
struct Receipts(Mutex<Vec<Receipt>>);

impl JobObserver for Receipts {
    fn finished(&self, record: &Record) {
        if let EntryOutcome::Copied(receipt) = &record.outcome {
            self.0.lock().unwrap().push((**receipt).clone());
        }
    }
}

#[test]
fn what_is_damaged_is_copied_again_and_the_rest_is_not() {
    for system in SYSTEMS {
        for (damaged, is_cut) in [(0, false), (1, false), (3, false), (0, true), (2, true)] {
            let what = format!("{system} {damaged} {is_cut}");
            let scene = killed_at(false, system, "a/large", 4 * CHUNK);
            let part = File::options().write(true).open(part_of(&scene, "a/large")).unwrap();
            let at = damaged * CHUNK + 7;
            match is_cut {
                true => part.set_len(at).unwrap(),
                false => part.write_all_at(&[0], at).unwrap(),
            }
            let fake = fake(system);
            let (_, ended) = run(&scene, &fake, &resuming());
            ended.unwrap();
            assert_all(&scene, &what);
            let read = fake.read_of(&scene.source.join("a/large"));
            assert_eq!(read, LARGE[0].1 as u64 - damaged * CHUNK, "{what}");
        }
    }
}

#[test]
fn a_source_that_changed_begins_anew() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("bytes", |source| {
            let bytes = contents(77, LARGE[0].1);
            fs::remove_file(source).unwrap();
            fs::write(source, bytes).unwrap();
        }),
        ("longer", |source| fs::write(source, contents(0, LARGE[0].1 + 1)).unwrap()),
        ("shorter", |source| fs::write(source, contents(0, LARGE[0].1 - 1)).unwrap()),
        ("small", |source| fs::write(source, "small").unwrap()),
    ];
    for system in SYSTEMS {
        for is_merged in [false, true] {
            for (what, change) in changes {
                let scene = killed_at(is_merged, system, "a/large", 4 * CHUNK);
                let part = part_of(&scene, "a/large");
                let source = scene.source.join("a/large");
                change(&source);
                let fake = fake(system);
                let (_, ended) = run(&scene, &fake, &resuming());
                ended.unwrap();
                assert_all(&scene, what);
                // A small one is copied by a call that copies it as a whole.
                let size = fs::metadata(&source).unwrap().len();
                let read = if size >= SIZES.min_file_bytes { size } else { 0 };
                assert_eq!(fake.read_of(&source), read, "{what}");
                assert!(!part.exists(), "{what}");
            }
        }
    }
}

#[test]
fn a_source_that_is_gone_leaves_no_part() {
    for system in SYSTEMS {
        for is_merged in [false, true] {
            let scene = killed_at(is_merged, system, "a/large", 4 * CHUNK);
            let part = part_of(&scene, "a/large");
            assert!(part.exists());
            fs::remove_file(scene.source.join("a/large")).unwrap();
            let (_, ended) = run(&scene, &fake(system), &resuming());
            ended.unwrap();
            assert!(!part.exists() && scene.destination.join("big").exists());
            assert_eq!(scene.siblings(), ["copy", "source"]);
        }
    }
}

/// A change of the part, and whether it is left where it is.
type Planted = (&'static str, fn(&Scene, &Path));

#[test]
fn a_part_that_is_not_the_noted_file_is_not_trusted_and_nothing_else_is_written() {
    let planted: [Planted; 4] = [
        ("a link", |scene, part| {
            fs::rename(part, scene.path("elsewhere")).unwrap();
            symlink(scene.path("elsewhere"), part).unwrap();
        }),
        ("another file", |scene, part| {
            fs::copy(part, scene.path("elsewhere")).unwrap();
            fs::rename(part, scene.path("old")).unwrap();
            fs::rename(scene.path("elsewhere"), part).unwrap();
            fs::rename(scene.path("old"), scene.path("elsewhere")).unwrap();
        }),
        ("one with a further name", |scene, part| {
            fs::hard_link(part, scene.path("elsewhere")).unwrap();
        }),
        ("another user's", |scene, part| {
            fs::write(scene.path("elsewhere"), "").unwrap();
            lchown(part, Some(12_345), None).unwrap();
        }),
    ];
    for system in SYSTEMS {
        for (what, plant) in planted {
            if what == "another user's" && !crate::portable::fake::is_root() {
                continue; // Files have one owner.
            }
            let scene = killed_at(true, system, "a/large", 4 * CHUNK);
            let part = part_of(&scene, "a/large");
            plant(&scene, &part);
            let before = fs::read(scene.path("elsewhere")).unwrap();
            let fake = fake(system);
            let (summary, ended) = run(&scene, &fake, &resuming());
            ended.unwrap();
            assert_eq!(summary.failed, 0, "{what}");
            let read = fake.read_of(&scene.source.join("a/large"));
            assert_eq!(read, LARGE[0].1 as u64, "{system} {what}");
            assert!(fs::read(scene.path("elsewhere")).unwrap() == before, "{system} {what}");
            // It is not this job's to remove.
            assert!(fs::symlink_metadata(&part).is_ok(), "{system} {what}");
            fs::remove_file(&part).unwrap();
            fs::remove_file(scene.path("elsewhere")).unwrap();
            assert_all(&scene, what);
        }
    }
}

#[test]
fn a_job_that_is_stopped_or_out_of_room_goes_on_within_its_large_file() {
    /// Stops the job after this number of bytes.
    struct StopAt(u64);
    impl JobObserver for StopAt {
        fn progress(&self, progress: JobProgress) -> Control {
            if progress.bytes < self.0 { Control::Continue } else { Control::Stop }
        }
    }

    for system in SYSTEMS {
        for is_merged in [false, true] {
            for bytes in [3 * CHUNK, 5 * CHUNK + 1, 9 * CHUNK] {
                let stopped = scene(is_merged);
                let (_, ended) = observed(&stopped, &fake(system), &resuming(), &StopAt(bytes));
                assert!(ended.unwrap_err().is_cancelled());
                assert!(noted(&stopped, "a/large") >= bytes - CHUNK, "{system} {bytes}");
                resume(&stopped, &fake(system), &resuming(), "stopped");
            }
            // The journal may be what there is no room for.
            for nth in 0..24 {
                let what = format!("{system} {is_merged} {nth}");
                let full = scene(is_merged);
                let calls = fake(system).fail_nth(Call::Write, nth, ENOSPC);
                run(&full, &calls, &resuming()).1.unwrap_err();
                assert!(nth < 10 || noted(&full, "a/large") > 0, "{what}");
                resume(&full, &fake(system), &resuming(), &what);
            }
        }
    }
}

#[test]
fn an_entry_that_fails_leaves_no_part_when_the_job_is_done() {
    const EIO: i32 = 5;
    for system in SYSTEMS {
        for is_merged in [false, true] {
            let scene = scene(is_merged);
            let calls = fake(system).unreadable_from(LARGE[0].1 as u64, 5 * CHUNK, EIO);
            let (summary, ended) = run(&scene, &calls, &resuming().on_error(OnError::Skip));
            ended.unwrap();
            assert_eq!(summary.failed, 1);
            let found = shapes(&scene.destination);
            assert!(!found.keys().any(|path| path.to_string_lossy().contains(".uncopy-")));
            assert_eq!(scene.siblings(), ["copy", "source"]);
        }
    }
}

#[test]
fn a_part_has_the_digest_and_the_holes_of_the_whole() {
    for system in SYSTEMS {
        for sparse in [Sparse::Auto, Sparse::Always] {
            for calls in (40..120).step_by(3) {
                let scene = scene(false);
                let bytes = [contents(1, 40_000), vec![0; 70_000], contents(2, 40_001)].concat();
                let source = scene.source.join("a/large");
                let file = File::create(&source).unwrap();
                file.set_len(bytes.len() as u64).unwrap();
                file.write_all_at(&bytes[..40_000], 0).unwrap();
                file.write_all_at(&bytes[110_000..], 110_000).unwrap();
                let mut options = resuming();
                options.copy.sparse = sparse;
                options.copy.digest = Some(Digest::Xxh3);
                options.copy.verify = Some(Verify::from(Digest::Xxh3));
                let _ = run(&scene, &fake(system).crash_after(calls), &options);
                let records = Receipts::default();
                let (_, ended) = observed(&scene, &fake(system), &options, &records);
                ended.unwrap();
                assert_all(&scene, "with holes");
                let whole = crate::digest::of_bytes(
                    Digest::Xxh3,
                    &bytes,
                    uncopy_core::DigestedFrom::Streamed,
                );
                let whole = whole.unwrap().value;
                let receipts = records.0.into_inner().unwrap();
                for receipt in receipts.iter().filter(|it| it.bytes == bytes.len() as u64) {
                    assert_eq!(receipt.source_digest.as_ref().unwrap().value, whole);
                    assert_eq!(receipt.verification.as_ref().unwrap().digest, whole);
                }
            }
        }
    }
}

#[test]
fn a_file_that_another_mechanism_is_named_for_or_that_has_streams_is_copied_as_a_whole() {
    let cases = [
        (System::MacOs, Mechanism::Fcopyfile, Call::CopyInto),
        (System::Windows, Mechanism::CopyFile2, Call::CopyToNew),
    ];
    for (system, mechanism, call) in cases {
        let scene = scene(false);
        let mut options = resuming();
        options.copy.allow = Allow::Only(mechanism);
        let fake = fake(system);
        run(&scene, &fake, &options).1.unwrap();
        assert!(fake.made().contains(&call), "{mechanism}");
        assert_all(&scene, mechanism.name());
    }
    let scene = scene(false);
    fs::rename(scene.source.join("big"), scene.source.join("big.streams")).unwrap();
    fs::remove_file(scene.source.join("a/large")).unwrap();
    let fake = fake(System::Windows);
    run(&scene, &fake, &resuming()).1.unwrap();
    assert!(fake.made().contains(&Call::CopyToNew));
    assert_all(&scene, "streams");
}

#[test]
fn blocks_are_shared_where_they_can_be() {
    for system in SYSTEMS {
        let scene = scene(false);
        let fake = Fake::new(system);
        run(&scene, &fake, &resuming()).1.unwrap();
        assert!(!fake.made().contains(&Call::Write) || parts(&scene).is_empty());
        assert_eq!(fake.read_of(&scene.source.join("big")), 0, "{system}");
        assert_all(&scene, "shared");
    }
}

#[test]
fn a_large_file_that_is_named_has_a_journal_too() {
    let single = |scene: &Scene, fake: &Fake| {
        let pairs = [(scene.source.join("big"), scene.destination.clone())];
        let options = resuming().sources(Sources::Entries);
        run_in_chunks(fake, SIZES, &pairs, &options, &())
    };
    for system in SYSTEMS {
        for has_old in [false, true] {
            let mut most = 0;
            for calls in 0.. {
                let scene = scene(false);
                if has_old {
                    fs::write(&scene.destination, "old").unwrap();
                }
                let what = format!("{system} {has_old} {calls}");
                let first = fake(system).crash_after(calls);
                let _ = single(&scene, &first);
                if !first.is_crashed() {
                    assert!(calls > 30, "{what}");
                    break;
                }
                let noted =
                    parts(&scene).first().map_or(0, |part| part.chunks.len() as u64 * CHUNK);
                most = most.max(noted);
                let last = fake(system);
                let (summary, ended) = single(&scene, &last);
                ended.unwrap();
                assert_eq!(summary.failed, 0, "{what}");
                let source = scene.source.join("big");
                assert!(fs::read(&scene.destination).unwrap() == fs::read(&source).unwrap());
                assert!(last.read_of(&source) <= LARGE[1].1 as u64 - noted, "{what}");
                let mut names = scene.siblings();
                names.retain(|name| !name.to_string_lossy().ends_with(".tmp") || noted > 0);
                assert_eq!(names, ["copy", "source"], "{what}");
            }
            assert!(most >= 4 * CHUNK, "{system} {has_old}");
        }
    }
}
