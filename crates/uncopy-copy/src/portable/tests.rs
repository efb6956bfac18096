use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::gated::Gated;
use crate::{
    Allow, Cache, Control, IfChanged, Level, Origin, Pause, Phase, Prefer, Progress, Require,
    Sparse, Threshold, Throttle, Transform, Tuning,
};
use uncopy_core::{Cost, Mechanism};

const MIB: usize = 1 << 20;

/// A directory with a source of so many bytes, none of which is like its neighbours.
struct Scene {
    directory: TempDir,
    source: PathBuf,
    destination: PathBuf,
    contents: Vec<u8>,
}

impl Scene {
    fn new(bytes: usize) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        let destination = directory.path().join("copy");
        let contents: Vec<u8> = (0..bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        fs::write(&source, &contents).unwrap();
        Scene { directory, source, destination, contents }
    }

    fn copy(&self, options: &CopyOptions) -> Result<Outcome> {
        copy(&self.source, &self.destination, options, &CopyContext::new(), &mut ())
    }

    /// Copies, and returns the receipt.
    fn copied(&self, options: &CopyOptions) -> Receipt {
        self.copy(options).unwrap().into_receipt().unwrap()
    }

    /// Names in the directory.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn assert_copied(&self) {
        assert!(fs::read(&self.destination).unwrap() == self.contents, "other bytes");
        assert_eq!(self.names(), ["copy", "source"]);
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Permissions of a new file of this mode here.
fn less_umask(mode: u32) -> u32 {
    mode & !uncopy_os::name::umask().unwrap()
}

fn given(bytes: u64) -> Threshold {
    Threshold { bytes, origin: Origin::Given }
}

type Change = fn(&mut CopyOptions);

#[test]
fn what_does_not_work_is_refused_by_name_before_anything_is_touched() {
    let rows: [(Change, CopyOption); 15] = [
        (|o| o.require = Require::ZeroCopy, CopyOption::Require),
        (|o| o.require = Require::NoUserCopy, CopyOption::Require),
        (|o| o.allow = Allow::Only(Mechanism::Reflink), CopyOption::Allow),
        (|o| o.prefer = Prefer::CpuTime, CopyOption::Prefer),
        (|o| o.cache = Cache::Keep, CopyOption::Cache),
        (|o| o.cache = Cache::Skip, CopyOption::Cache),
        (|o| o.flush_source = true, CopyOption::FlushSource),
        (|o| o.preserve.xattr = true, CopyOption::PreserveXattr),
        (|o| o.preserve.acl = true, CopyOption::PreserveAcl),
        (|o| o.copy_contents = true, CopyOption::CopyContents),
        (|o| o.tuning.zero_copy_min = given(1), CopyOption::ZeroCopyMin),
        (|o| o.tuning.direct_min = given(1), CopyOption::DirectMin),
        (|o| o.tuning.direct_cpu_min = given(1), CopyOption::DirectCpuMin),
        (|o| o.transform = Transform::Compress(Level::default()), CopyOption::Transform),
        (|o| o.transform = Transform::Decompress, CopyOption::Transform),
    ];
    let is_refused = |option: &CopyOption| {
        let mut rows = systems::REQUESTS.iter().filter(|row| row.option == Some(*option));
        rows.any(|row| row.on(System::Other) != systems::Support::Honoured)
    };
    let mut expected: Vec<_> = CopyOption::ALL.iter().copied().filter(is_refused).collect();
    expected.retain(|option| *option != CopyOption::ReadStreams);
    for option in &expected {
        assert!(rows.iter().any(|(_, named)| named == option), "{option} has no row");
    }
    for (change, named) in rows {
        let scene = Scene::new(5);
        let mut options = CopyOptions::default();
        change(&mut options);
        let error = scene.copy(&options).unwrap_err();
        assert_eq!(*error.reason(), Reason::NotHere { options: vec![named] }, "{named}");
        assert!(error.to_string().contains(named.name()), "{error}");
        assert_eq!(scene.names(), ["source"], "{named}");
    }
    let mut all = CopyOptions::default();
    rows.iter().for_each(|(change, _)| change(&mut all));
    assert_eq!(systems::refused(&all, System::Other), expected);
}

#[test]
fn what_works_is_obeyed_and_not_refused() {
    let rows: [(&str, Change); 10] = [
        ("nothing", |_| {}),
        ("allow read and write", |o| o.allow = Allow::ReadWrite),
        ("allow one", |o| o.allow = Allow::Only(Mechanism::ReadWrite)),
        ("never sparse", |o| o.sparse = Sparse::Never),
        ("accept changes", |o| (o.if_changed, o.flush_source) = (IfChanged::Accept, true)),
        ("force", |o| o.existing = Existing::Force),
        ("keep", |o| o.existing = Existing::Keep),
        ("streams", |o| o.read_streams = true),
        ("buffer", |o| o.tuning.buffer = given(4096)),
        ("suffix", |o| o.suffix = true),
    ];
    for (what, change) in rows {
        let scene = Scene::new(3 * 4096 + 5);
        let mut options = CopyOptions::default();
        change(&mut options);
        let copied = scene.copy(&options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let receipt = copied.into_receipt().unwrap();
        scene.assert_copied();
        assert_eq!(receipt.bytes, 3 * 4096 + 5, "{what}");
        assert_eq!(receipt.bytes_at(Cost::UserCopied), receipt.bytes, "{what}");
        assert!(!receipt.durable && receipt.verification.is_none(), "{what}");
    }
}

#[test]
fn a_new_file_has_the_mode_bits_of_its_source() {
    for source_mode in [0o600, 0o640, 0o644, 0o664, 0o666, 0o755, 0o777, 0o400, 0o444, 0o4755] {
        let scene = Scene::new(100);
        set_mode(&scene.source, source_mode);
        if mode(&scene.source) != source_mode {
            continue; // The file's group is not one of ours: no setgid.
        }
        let mut seen = Vec::new();
        let mut look = |_: Progress| {
            // While it is written nobody may open it who may not open the copy.
            let mut entries = fs::read_dir(scene.directory.path()).unwrap();
            let temporary = entries.find_map(|entry| {
                let path = entry.unwrap().path();
                path.extension().is_some_and(|extension| extension == "tmp").then_some(path)
            });
            seen.push(mode(&temporary.unwrap()));
            Control::Continue
        };
        copy(
            &scene.source,
            &scene.destination,
            &CopyOptions::default(),
            &CopyContext::new(),
            &mut look,
        )
        .unwrap();
        let expected = less_umask(source_mode & 0o777);
        assert_eq!(mode(&scene.destination), expected, "{source_mode:o}");
        assert_eq!(seen, [expected; 2], "{source_mode:o}");
    }
}

#[test]
fn a_replaced_file_keeps_its_mode() {
    for (old_mode, kept) in [(0o600, 0o600), (0o640, 0o640), (0o666, 0o666), (0o6755, 0o755)] {
        let scene = Scene::new(100);
        set_mode(&scene.source, 0o644);
        fs::write(&scene.destination, "old").unwrap();
        set_mode(&scene.destination, old_mode);
        fs::hard_link(&scene.destination, scene.directory.path().join("other")).unwrap();
        let receipt = scene.copied(&CopyOptions::default());
        assert_eq!(mode(&scene.destination), kept, "{old_mode:o}");
        assert_eq!(scene.names(), ["copy", "other", "source"]);
        let notes: Vec<String> = receipt.notes.iter().map(ToString::to_string).collect();
        let notes = notes.join("\n");
        assert!(notes.contains("1 other hard link of the destination keeps"), "{notes}");
        assert!(notes.contains("ACL and extended attributes of the old file"), "{notes}");
    }
}

#[test]
fn progress_comes_while_it_copies() {
    let scene = Scene::new(5 * MIB + 11);
    let mut reported = Vec::new();
    let mut observer = |progress: Progress| {
        assert_eq!((progress.phase, progress.total_bytes), (Phase::Copying, 5 * MIB as u64 + 11));
        assert!(!scene.destination.exists(), "half a file under the final name");
        reported.push(progress.done_bytes);
        Control::Continue
    };
    let copied = copy(
        &scene.source,
        &scene.destination,
        &CopyOptions::default(),
        &CopyContext::new(),
        &mut observer,
    )
    .unwrap();
    let receipt = copied.into_receipt().unwrap();
    scene.assert_copied();
    assert_eq!(reported.first(), Some(&0));
    assert_eq!(reported.last(), Some(&receipt.bytes));
    assert!(reported.is_sorted() && reported.len() > 20, "{reported:?}");
    // By a buffer's worth at a time.
    let steps: Vec<u64> = reported.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step <= 256 << 10), "{steps:?}");
}

#[test]
fn a_stop_in_the_middle_leaves_what_was_there() {
    for old in [None, Some("old contents")] {
        let scene = Scene::new(4 * MIB);
        if let Some(old) = old {
            fs::write(&scene.destination, old).unwrap();
        }
        let before = scene.names();
        let mut calls = 0;
        let mut observer = |progress: Progress| {
            calls += 1;
            match progress.done_bytes >= 2 * MIB as u64 {
                true => Control::Stop,
                false => Control::Continue,
            }
        };
        let stopped = copy(
            &scene.source,
            &scene.destination,
            &CopyOptions::default(),
            &CopyContext::new(),
            &mut observer,
        );
        assert!(stopped.unwrap_err().is_cancelled());
        assert_eq!(calls, 9, "it went on after it was to stop");
        assert_eq!(scene.names(), before);
        assert_eq!(fs::read_to_string(&scene.destination).ok().as_deref(), old);
    }
}

/// Notes the sizes of the steps.
struct Limited {
    done_bytes: u64,
    largest_step: u64,
}

impl Observer for Limited {
    fn progress(&mut self, progress: Progress) -> Control {
        self.largest_step = self.largest_step.max(progress.done_bytes - self.done_bytes);
        self.done_bytes = progress.done_bytes;
        Control::Continue
    }
}

#[test]
fn a_rate_decides_how_much_is_moved_at_a_time() {
    let scene = Scene::new(MIB);
    let throttle = Throttle::new(NonZeroU64::new(5_000_000).unwrap());
    let piece_bytes = throttle.piece_bytes();
    assert!(piece_bytes < Tuning::BUILT_IN.buffer_bytes());
    let mut observer = Limited { done_bytes: 0, largest_step: 0 };
    let context = CopyContext::new().throttle(&throttle);
    let options = CopyOptions::default();
    copy(&scene.source, &scene.destination, &options, &context, &mut observer).unwrap();
    scene.assert_copied();
    assert_eq!((observer.done_bytes, observer.largest_step), (MIB as u64, piece_bytes));
}

#[test]
fn a_pause_halts_it_between_pieces() {
    let scene = Scene::new(MIB);
    let pause = Pause::new();
    pause.pause();
    let (options, gate) = (CopyOptions::default(), pause.gate());
    let context = CopyContext::new().gate(&gate);
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            let mut observer = ();
            let mut gated = Gated::new(&mut observer, context);
            copy(&scene.source, &scene.destination, &options, &context, &mut gated)
        });
        while pause.copies() == 0 || !pause.is_quiet() {
            std::thread::yield_now();
        }
        assert!(!scene.destination.exists());
        pause.resume();
        copying.join().unwrap().unwrap();
    });
    scene.assert_copied();
}

#[test]
fn a_source_that_changes_is_seen() {
    let grow: fn(&File) = |file| file.write_all_at(b"more", 3 * MIB as u64).unwrap();
    let touch: fn(&File) = |file| {
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(7)).unwrap();
    };
    let shrink: fn(&File) = |file| file.set_len(5).unwrap();
    for (change, what) in [(grow, "size"), (touch, "mtime"), (shrink, "size")] {
        for accepts in [false, true] {
            let scene = Scene::new(2 * MIB);
            let file = File::options().write(true).open(&scene.source).unwrap();
            let mut options = CopyOptions::default();
            if accepts {
                options.if_changed = IfChanged::Accept;
            }
            let mut changed = false;
            let mut observer = |progress: Progress| {
                if progress.done_bytes > 0 && !changed {
                    changed = true;
                    change(&file);
                }
                Control::Continue
            };
            let copied = copy(
                &scene.source,
                &scene.destination,
                &options,
                &CopyContext::new(),
                &mut observer,
            );
            match copied {
                Ok(copied) => {
                    let receipt = copied.into_receipt().unwrap();
                    assert!(accepts && receipt.source_changed, "{what}");
                    let length = fs::metadata(&scene.destination).unwrap().len();
                    assert_eq!(length, receipt.bytes, "{what}");
                }
                Err(error) => {
                    assert!(!accepts && error.is_source_changed(), "{error}");
                    assert!(error.to_string().contains(what), "{error}");
                    assert_eq!(scene.names(), ["source"]);
                }
            }
        }
    }
}

#[test]
fn a_source_that_only_lost_its_name_is_a_good_copy() {
    let scene = Scene::new(MIB);
    let mut observer = |progress: Progress| {
        if progress.done_bytes > 0 && scene.source.exists() {
            fs::remove_file(&scene.source).unwrap();
        }
        Control::Continue
    };
    copy(
        &scene.source,
        &scene.destination,
        &CopyOptions::default(),
        &CopyContext::new(),
        &mut observer,
    )
    .unwrap();
    assert_eq!(scene.names(), ["copy"]);
}

#[test]
fn one_file_is_not_copied_to_itself() {
    let scene = Scene::new(10);
    let linked = scene.directory.path().join("linked");
    let symbolic = scene.directory.path().join("symbolic");
    fs::hard_link(&scene.source, &linked).unwrap();
    symlink(&scene.source, &symbolic).unwrap();
    for destination in [&scene.source, &linked, &symbolic] {
        let copied =
            copy(&scene.source, destination, &CopyOptions::default(), &CopyContext::new(), &mut ());
        assert!(copied.unwrap_err().is_same_file(), "{}", destination.display());
    }
    assert!(fs::read(&scene.source).unwrap() == scene.contents);
}

#[test]
fn a_link_at_the_destination_is_written_through() {
    let scene = Scene::new(10);
    let target = scene.directory.path().join("target");
    fs::write(&target, "old").unwrap();
    symlink("target", &scene.destination).unwrap();
    scene.copy(&CopyOptions::default()).unwrap();
    assert!(fs::symlink_metadata(&scene.destination).unwrap().is_symlink());
    assert!(fs::read(&target).unwrap() == scene.contents);

    fs::remove_file(&target).unwrap();
    let error = scene.copy(&CopyOptions::default()).unwrap_err();
    assert!(error.to_string().contains("symbolic link to nothing"), "{error}");
    assert_eq!(scene.names(), ["copy", "source"]);
}

#[test]
fn an_existing_file_is_left_alone_also_if_it_appears_meanwhile() {
    let options = CopyOptions { existing: Existing::Keep, ..CopyOptions::default() };
    for appears_late in [false, true] {
        let scene = Scene::new(MIB);
        if !appears_late {
            fs::write(&scene.destination, "kept").unwrap();
        }
        let mut observer = |progress: Progress| {
            if progress.done_bytes == MIB as u64 {
                fs::write(&scene.destination, "kept").unwrap();
            }
            Control::Continue
        };
        let outcome =
            copy(&scene.source, &scene.destination, &options, &CopyContext::new(), &mut observer)
                .unwrap();
        assert_eq!(outcome, Outcome::exists());
        assert_eq!(fs::read_to_string(&scene.destination).unwrap(), "kept");
        assert_eq!(scene.names(), ["copy", "source"]);
    }
    // A link is something, wherever it leads.
    let scene = Scene::new(5);
    symlink("nowhere", &scene.destination).unwrap();
    assert_eq!(scene.copy(&options).unwrap(), Outcome::exists());
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let scene = Scene::new(5);
    let fifo = scene.directory.path().join("fifo");
    mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let directory = scene.directory.path().join("directory");
    fs::create_dir(&directory).unwrap();
    let copied = |source: &Path, destination: &Path, read_streams| {
        let options = CopyOptions { read_streams, ..CopyOptions::default() };
        let error = copy(source, destination, &options, &CopyContext::new(), &mut ()).unwrap_err();
        error.reason().clone()
    };
    let not_regular = |kind| Reason::NotRegular { kind };
    let streams = Reason::NotHere { options: vec![CopyOption::ReadStreams] };
    let copy = &scene.destination;
    assert_eq!(copied(&fifo, copy, false), not_regular(FileKind::Fifo));
    assert_eq!(copied(&fifo, copy, true), streams);
    assert_eq!(copied(Path::new("/dev/null"), copy, false), not_regular(FileKind::CharacterDevice));
    assert_eq!(copied(&directory, copy, true), not_regular(FileKind::Directory));
    assert_eq!(copied(&scene.source, &fifo, false), not_regular(FileKind::Fifo));
    assert_eq!(copied(&scene.source, &directory, false), not_regular(FileKind::Directory));
    assert_eq!(copied(&scene.source, &copy.join(""), false), not_regular(FileKind::Directory));
    assert_eq!(scene.names(), ["directory", "fifo", "source"]);
}

#[test]
fn holes_become_zeros_and_the_receipt_says_so() {
    let scene = Scene::new(0);
    let file = File::options().write(true).open(&scene.source).unwrap();
    file.set_len(MIB as u64).unwrap();
    let receipt = scene.copied(&CopyOptions::default());
    assert!(fs::read(&scene.destination).unwrap() == vec![0; MIB]);
    let says = |receipt: &Receipt| receipt.notes.contains(&Note::HolesFilled);
    assert!(says(&receipt), "{:?}", receipt.notes);
    let filled = CopyOptions { sparse: Sparse::Never, ..CopyOptions::default() };
    assert!(!says(&scene.copied(&filled)), "they were to be filled");
    assert!(!says(&Scene::new(MIB).copied(&CopyOptions::default())));
}

#[test]
fn an_error_names_what_it_met_and_on_which_side() {
    let scene = Scene::new(5);
    let missing = scene.directory.path().join("missing");
    let tried = |source: &Path, destination: &Path| {
        copy(source, destination, &CopyOptions::default(), &CopyContext::new(), &mut ())
            .unwrap_err()
    };
    let of_source = tried(&missing, &scene.destination);
    assert!(of_source.is_not_found() && !of_source.is_at_destination(), "{of_source}");
    let of_destination = tried(&scene.source, &missing.join("copy"));
    assert!(of_destination.is_not_found() && of_destination.is_at_destination());
    assert_eq!(of_destination.subject(), missing);
    for error in [of_source, of_destination] {
        assert_eq!(error.errno(), None, "{error}");
        assert!(matches!(error.reason(), Reason::OtherSystem { .. }), "{error}");
    }
    // /dev/full is full, but no regular file: what a full disk says is known by its kind alone.
    let mut full = File::options().write(true).open("/dev/full").unwrap();
    let error = full.write_all(b"x").unwrap_err();
    assert!(other_system::refused_by_destination("write to", "b", error).is_lasting());
}

#[test]
fn what_may_not_be_written_is_replaced_by_force_alone() {
    let scene = Scene::new(5);
    fs::write(&scene.destination, "old").unwrap();
    set_mode(&scene.destination, 0o444);
    let may_write = File::options().write(true).open(&scene.destination).is_ok();
    let mut options = CopyOptions::default();
    let copied = scene.copy(&options);
    match copied {
        // Root may.
        Ok(_) => assert!(may_write),
        Err(error) => {
            assert!(!may_write && error.to_string().contains("permissions forbid"), "{error}");
            assert_eq!(fs::read_to_string(&scene.destination).unwrap(), "old");
        }
    }
    options.existing = Existing::Force;
    scene.copy(&options).unwrap();
    scene.assert_copied();
    assert_eq!(mode(&scene.destination), 0o444);
}

#[cfg(feature = "trees")]
#[test]
fn several_files_are_a_job() {
    use crate::jobs::{EntryOutcome, JobObserver, JobOptions, OnError, Record, Sources};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(u64, &'static str)>>);
    impl JobObserver for Seen {
        fn finished(&self, record: &Record) {
            let outcome = match &record.outcome {
                EntryOutcome::Copied(_) => "copied",
                EntryOutcome::Failed(_) => "failed",
                _ => "other",
            };
            self.0.lock().unwrap().push((record.sequence, outcome));
        }
    }

    let scene = Scene::new(5);
    let at = |name: &str| scene.directory.path().join(name);
    let pairs = [
        (scene.source.clone(), at("one")),
        (at("missing"), at("two")),
        (scene.source.clone(), at("one")),
        (scene.source.clone(), at("three")),
    ];
    for (on_error, records, not_tried) in [
        (OnError::Skip, &[(1, "copied"), (2, "failed"), (3, "failed"), (4, "copied")][..], 0),
        (OnError::Abort, &[(1, "copied"), (2, "failed")], 2),
    ] {
        let options = JobOptions::new().sources(Sources::Files).on_error(on_error);
        let seen = Seen::default();
        let (summary, ended) = run_job(&pairs, &options, &seen);
        assert_eq!(seen.0.into_inner().unwrap(), records);
        assert_eq!(ended.is_ok(), not_tried == 0);
        assert_eq!((summary.not_tried, summary.sources_not_tried), (not_tried, not_tried));
        assert_eq!(summary.files + summary.failed, records.len() as u64);
    }
}

#[cfg(feature = "trees")]
#[test]
fn no_verdict_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let found = verdict(directory.path(), directory.path());
    assert_eq!(found, Err(AnswerReason::NotAskedHere));
}

#[cfg(feature = "trees")]
#[test]
fn no_directory_is_one_that_an_earlier_run_left_a_journal_of() {
    let scene = Scene::new(5);
    let copy = scene.directory.path().join("copy");
    assert!(!is_built(scene.directory.path(), &copy, &crate::jobs::JobOptions::default()));
}
