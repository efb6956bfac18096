//! Trees as other systems copy them, on Linux: by the standard library's calls and by the played ones of each system.

mod attributes;
mod given;
mod obeyed;
mod parts;
mod resume;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat, renameat};
use tempfile::TempDir;

use super::calls::TreeCalls;
use super::run_in_chunks;
use crate::chunks::ChunkSizes;
use crate::jobs::{
    Compare, Delete, EntryOutcome, HardLinks, Incomplete, JobObserver, JobOptions, JobProgress,
    Links, OnError, Record, Sources, Summary,
};
use crate::portable::fake::{Call, Fake};
use crate::{Control, CopyOptions, Existing, Pause, Skip};
use uncopy_core::{CopyOption, Error, Objection, Reason, Result, System};
use uncopy_os::native_calls::SystemCalls;

const EACCES: i32 = 13;
const ENOSPC: i32 = 28;

/// A source with three levels, links and names of each kind.
struct Scene {
    directory: TempDir,
    source: PathBuf,
    destination: PathBuf,
}

/// Kind of an entry, with its bytes or its target.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Directory,
    File(Vec<u8>),
    Link(PathBuf),
    Other,
}

/// Name that is not UTF-8.
fn odd() -> &'static OsStr {
    OsStr::from_bytes(b"odd\xff")
}

fn contents(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ (at >> 8) ^ seed) as u8 | 1).collect()
}

impl Scene {
    /// An empty source.
    fn empty() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let [source, destination] = ["source", "copy"].map(|name| directory.path().join(name));
        fs::create_dir(&source).unwrap();
        Scene { directory, source, destination }
    }

    fn new() -> Scene {
        let scene = Scene::empty();
        let source = &scene.source;
        fs::create_dir_all(source.join("a/b/c")).unwrap();
        fs::create_dir(source.join("empty")).unwrap();
        fs::write(source.join("file"), contents(1, 70_001)).unwrap();
        fs::write(source.join("a/b/c/deep"), contents(2, 5)).unwrap();
        fs::write(source.join("a/nothing"), "").unwrap();
        fs::write(source.join("a").join(odd()), contents(3, 100)).unwrap();
        symlink("b/c/deep", source.join("a/link")).unwrap();
        symlink("a/b", source.join("to_directory")).unwrap();
        scene
    }

    /// A destination that holds entries of its own, and an older file.
    fn with_destination(self) -> Scene {
        fs::create_dir_all(self.destination.join("a")).unwrap();
        fs::write(self.destination.join("file"), "old").unwrap();
        fs::write(self.destination.join("own"), "own").unwrap();
        fs::write(self.destination.join("a/own"), "own").unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(
        &self,
        calls: &dyn TreeCalls,
        options: &JobOptions,
        observer: &dyn JobObserver,
    ) -> (Summary, Result<()>) {
        let pairs = [(self.source.clone(), self.destination.clone())];
        run_by(calls, &pairs, options, observer)
    }

    fn copy(&self, options: &JobOptions) -> Summary {
        let (summary, ended) = self.run(&SystemCalls, options, &());
        ended.unwrap();
        summary
    }

    /// Copies, and returns the errors of entries.
    fn errors(&self, calls: &dyn TreeCalls, options: &JobOptions) -> Vec<Error> {
        let records = Records::default();
        self.run(calls, options, &records).1.unwrap();
        records.errors()
    }

    /// Names beside source and destination.
    fn siblings(&self) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    }
}

fn run_by(
    calls: &dyn TreeCalls,
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    run_in_chunks(calls, ChunkSizes::BUILT_IN, pairs, options, observer)
}

/// Returns all entries below a directory.
fn shapes(root: &Path) -> BTreeMap<PathBuf, Shape> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let shape = if kind.is_dir() {
                open.push(path.clone());
                Shape::Directory
            } else if kind.is_symlink() {
                Shape::Link(fs::read_link(&path).unwrap())
            } else if kind.is_file() {
                Shape::File(fs::read(&path).unwrap())
            } else {
                Shape::Other
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), shape);
        }
    }
    found
}

/// Keeps every record.
#[derive(Default)]
struct Records(Mutex<Vec<Ended>>);

/// Destination of an entry, its outcome in words, and its error.
type Ended = (PathBuf, String, Option<Error>);

impl Records {
    fn errors(&self) -> Vec<Error> {
        self.0.lock().unwrap().iter().filter_map(|record| record.2.clone()).collect()
    }

    /// Words for the outcome of each destination.
    fn outcomes(&self, root: &Path) -> BTreeMap<PathBuf, String> {
        let records = self.0.lock().unwrap();
        let of = |path: &Path| path.strip_prefix(root).unwrap().to_owned();
        records.iter().map(|(to, outcome, _)| (of(to), outcome.clone())).collect()
    }
}

impl JobObserver for Records {
    fn finished(&self, record: &Record) {
        let (mut error, destination) = (None, record.destination.clone());
        let outcome = match &record.outcome {
            EntryOutcome::Copied(_) => "copied".to_owned(),
            EntryOutcome::Linked { to } => format!("linked to {}", to.display()),
            EntryOutcome::Made { .. } => "made".to_owned(),
            EntryOutcome::Skipped { reason } => reason.code().to_owned(),
            EntryOutcome::Planned { action, .. } => format!("would {}", action.name()),
            EntryOutcome::Failed(failed) => {
                error = Some(failed.clone());
                "failed".to_owned()
            }
            other => format!("{other:?}"),
        };
        let mut records = self.0.lock().unwrap();
        assert_eq!(record.sequence, records.len() as u64 + 1);
        records.push((destination, outcome, error));
    }
}

/// The calls of each system, and none but the standard library's.
fn every_system() -> Vec<Box<dyn TreeCalls>> {
    let fakes = [System::MacOs, System::Windows].map(Fake::new);
    let mut all: Vec<Box<dyn TreeCalls>> = vec![Box::new(SystemCalls)];
    all.extend(fakes.map(|fake| Box::new(fake) as Box<dyn TreeCalls>));
    all
}

/// Returns the entries of a copy.
fn expected(scene: &Scene, links: Links) -> BTreeMap<PathBuf, Shape> {
    let mut expected = shapes(&scene.source);
    let linked: Vec<PathBuf> = expected
        .iter()
        .filter(|(_, shape)| matches!(shape, Shape::Link(_)))
        .map(|(path, _)| path.clone())
        .collect();
    for path in linked {
        match links {
            Links::Preserve => continue,
            Links::Skip => {
                expected.remove(&path);
            }
            Links::Follow => {
                let target = scene.source.join(&path);
                if target.is_dir() {
                    expected.insert(path.clone(), Shape::Directory);
                    let below = shapes(&fs::canonicalize(target).unwrap());
                    expected
                        .extend(below.into_iter().map(|(name, shape)| (path.join(name), shape)));
                } else {
                    expected.insert(path, Shape::File(fs::read(target).unwrap()));
                }
            }
        }
    }
    expected
}

#[test]
fn new_and_merged_trees_are_like_their_sources_with_links_as_wanted() {
    for calls in every_system() {
        for is_merged in [false, true] {
            for links in [Links::Preserve, Links::Follow, Links::Skip] {
                let scene = Scene::new();
                let scene = if is_merged { scene.with_destination() } else { scene };
                let mut expected = expected(&scene, links);
                if is_merged {
                    for own in ["own", "a/own"] {
                        expected.insert(own.into(), Shape::File(b"own".into()));
                    }
                }
                let what = format!("{} {is_merged} {links:?}", calls.system());
                let records = Records::default();
                let options = JobOptions::new().links(links);
                let (summary, ended) = scene.run(&*calls, &options, &records);
                ended.unwrap();
                assert_eq!(records.errors().len(), 0, "{what}: {:?}", records.errors());
                assert_eq!(shapes(&scene.destination), expected, "{what}");
                assert_eq!(scene.siblings(), ["copy", "source"], "{what}");
                let files = expected.iter().filter(|(path, shape)| {
                    matches!(shape, Shape::File(_)) && !path.ends_with("own")
                });
                assert_eq!(summary.files, files.count() as u64, "{what}");
                let skipped = if links == Links::Skip { 2 } else { 0 };
                assert_eq!((summary.failed, summary.skipped), (0, skipped), "{what}");
                let entries = summary.files + summary.directories + summary.symlinks + skipped;
                assert_eq!(records.0.lock().unwrap().len() as u64, entries, "{what}");
                let moved: u64 = summary.portions.iter().map(|portion| portion.bytes).sum();
                assert_eq!(moved, summary.bytes, "{what}");
            }
        }
    }
}

#[test]
fn an_entry_that_cannot_be_read_is_reported_and_the_rest_is_copied() {
    for (name, lacks) in [("file", "file"), ("c", "a/b/c"), ("a", "a")] {
        for is_merged in [false, true] {
            let scene = Scene::new();
            let scene = if is_merged { scene.with_destination() } else { scene };
            let fake = Fake::new(System::MacOs).unreadable(name, EACCES);
            let options = JobOptions::new();
            let records = Records::default();
            let (summary, ended) = scene.run(&fake, &options, &records);
            ended.unwrap();
            let errors = records.errors();
            assert_eq!((errors.len(), summary.failed), (1, 1), "{name}: {errors:?}");
            assert!(errors[0].subject().starts_with(&scene.source), "{}", errors[0]);
            let copy = shapes(&scene.destination);
            for (path, shape) in shapes(&scene.source) {
                let is_lacking =
                    path.starts_with(lacks) && (path != Path::new(lacks) || name == "file");
                let old = Shape::File(b"old".into());
                let expected = match is_lacking {
                    false => Some(&shape),
                    true if is_merged && name == "file" => Some(&old),
                    true => None,
                };
                assert_eq!(copy.get(&path), expected, "{name}: {}", path.display());
            }
            assert_eq!(scene.siblings(), ["copy", "source"]);

            let scene = Scene::new();
            let options = JobOptions::new().on_error(OnError::Abort);
            let records = Records::default();
            let (summary, ended) = scene.run(&fake, &options, &records);
            assert_eq!(summary.failed, 1);
            assert!(ended.is_err() && summary.stopped_early);
            // Nothing that is gone counts as made.
            let ways = records.0.lock().unwrap();
            let made = ways
                .iter()
                .filter(|(_, way, _)| ["copied", "made"].contains(&way.as_str()))
                .count();
            assert_eq!((summary.made_entries(), summary.bytes), (0, 0), "{name}");
            assert_eq!(summary.discarded, made as u64, "{name}");
            let last = ways.last().map(|(_, way, _)| way.starts_with("Discarded"));
            assert_eq!(last, Some(made > 0), "{name}");
            assert_eq!(scene.siblings(), ["source"], "an aborted tree leaves nothing");
        }
    }
}

#[test]
fn links_that_have_no_end_or_lead_away_are_errors_and_the_rest_is_copied() {
    let scene = Scene::new();
    fs::write(scene.path("outside"), "outside").unwrap();
    let source = &scene.source;
    for (target, name) in [
        (Path::new("../.."), "a/b/loop"),
        (Path::new("."), "self"),
        (Path::new("../outside"), "away"),
        (&source.join("file"), "absolute"),
        (Path::new("missing"), "dangling"),
    ] {
        symlink(target, source.join(name)).unwrap();
    }
    let options = JobOptions::new().links(Links::Follow);
    let errors = scene.errors(&SystemCalls, &options);
    let mut found: Vec<_> = errors
        .iter()
        .map(|error| {
            let name = error.subject().strip_prefix(source).unwrap().to_owned();
            let why = match error.reason() {
                Reason::Refused(why) => why.code(),
                _ => "system",
            };
            (name, why)
        })
        .collect();
    found.sort();
    let expected = [
        ("a/b/loop", "leads_outside"),
        ("absolute", "leads_outside"),
        ("away", "leads_outside"),
        ("dangling", "system"),
        ("self", "endless_link"),
        ("to_directory/loop", "leads_outside"),
    ];
    let expected = expected.map(|(name, why)| (PathBuf::from(name), why));
    // `a/b/loop` leads to the source itself, in which it lies.
    let expected = expected.map(|(name, why)| match name.ends_with("loop") {
        true => (name, "endless_link"),
        false => (name, why),
    });
    assert_eq!(found, expected);
    assert!(scene.destination.join("a/b/c/deep").exists());

    let outside = options.follow_outside(true);
    fs::remove_dir_all(&scene.destination).unwrap();
    let errors = scene.errors(&SystemCalls, &outside);
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert_eq!(fs::read_to_string(scene.destination.join("away")).unwrap(), "outside");
    assert!(fs::symlink_metadata(scene.destination.join("absolute")).unwrap().is_file());
}

#[test]
fn no_link_of_the_destination_is_followed() {
    for calls in every_system() {
        let scene = Scene::new();
        fs::create_dir_all(scene.path("away/a")).unwrap();
        fs::write(scene.path("away/file"), "theirs").unwrap();
        fs::create_dir(&scene.destination).unwrap();
        symlink(scene.path("away/file"), scene.destination.join("file")).unwrap();
        symlink(scene.path("away/a"), scene.destination.join("a")).unwrap();
        symlink("nothing", scene.destination.join("empty")).unwrap();
        symlink("nothing", scene.destination.join("to_directory")).unwrap();
        let errors = scene.errors(&*calls, &JobOptions::new());
        let mut named: Vec<_> = errors
            .iter()
            .map(|error| {
                let why = Reason::Refused(Objection::LinkForDirectory);
                assert_eq!(*error.reason(), why, "{error}");
                error.subject().strip_prefix(&scene.destination).unwrap().to_owned()
            })
            .collect();
        named.sort();
        assert_eq!(named, [PathBuf::from("a"), "empty".into()], "{}", calls.system());
        assert_eq!(fs::read_to_string(scene.path("away/file")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(scene.path("away/a")).unwrap().count(), 0);
        assert!(fs::symlink_metadata(scene.destination.join("file")).unwrap().is_file());
        let target = fs::read_link(scene.destination.join("to_directory")).unwrap();
        assert_eq!(target, Path::new("a/b"), "replaced");
    }
}

#[test]
fn a_link_does_not_replace_its_target() {
    for calls in every_system() {
        for dry_run in [true, false] {
            let scene = Scene::empty();
            fs::create_dir(&scene.destination).unwrap();
            let kept = scene.destination.join("link");
            fs::write(&kept, "theirs").unwrap();
            fs::write(scene.destination.join("other"), "replaced").unwrap();
            symlink(&kept, scene.source.join("link")).unwrap();
            symlink(&kept, scene.source.join("other")).unwrap();
            let errors = scene.errors(&*calls, &JobOptions::new().dry_run(dry_run));
            assert_eq!(errors.len(), 1, "{}: {errors:?}", calls.system());
            assert!(errors[0].is_same_file(), "{}: {errors:?}", calls.system());
            assert_eq!(fs::read_to_string(&kept).unwrap(), "theirs", "{}", calls.system());
        }
    }
}

#[test]
fn a_link_that_is_planted_while_its_file_is_copied_is_replaced() {
    /// Makes a link at the first report.
    struct Plant<'a>(&'a Scene);
    impl JobObserver for Plant<'_> {
        fn progress(&self, _: JobProgress) -> Control {
            let _ = symlink(self.0.path("theirs"), self.0.destination.join("file"));
            Control::Continue
        }
    }
    let scene = Scene::empty();
    fs::write(scene.source.join("file"), contents(1, 1000)).unwrap();
    fs::write(scene.path("theirs"), "theirs").unwrap();
    fs::create_dir(&scene.destination).unwrap();
    scene.run(&SystemCalls, &JobOptions::new(), &Plant(&scene)).1.unwrap();
    assert_eq!(fs::read_to_string(scene.path("theirs")).unwrap(), "theirs");
    assert!(fs::symlink_metadata(scene.destination.join("file")).unwrap().is_file());
}

#[test]
fn kinds_take_no_other_ones_place() {
    let scene = Scene::new();
    fs::create_dir_all(scene.destination.join("file")).unwrap();
    fs::write(scene.destination.join("empty"), "").unwrap();
    mknodat(CWD, scene.source.join("fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    mknodat(CWD, scene.destination.join("to_directory"), FileType::Fifo, Mode::from(0o600), 0)
        .unwrap();
    let records = Records::default();
    let (summary, ended) = scene.run(&SystemCalls, &JobOptions::new(), &records);
    ended.unwrap();
    let outcomes = records.outcomes(&scene.destination);
    assert_eq!(outcomes[Path::new("fifo")], Skip::Special.code());
    assert_eq!(outcomes[Path::new("to_directory")], "made");
    let reasons: Vec<_> = records.errors().iter().map(|error| error.reason().clone()).collect();
    let expected = [Objection::NotDirectory, Objection::IsDirectory].map(Reason::Refused);
    assert_eq!(reasons, expected);
    assert_eq!((summary.failed, summary.skipped), (2, 1));
}

#[test]
fn what_exists_is_kept_or_skipped_as_the_options_say() {
    let old = SystemTime::now() - Duration::from_secs(1000);
    let set = |path: &Path, time: SystemTime| {
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    // Options; whether the existing file is newer, and as long; what comes of it.
    for (options, is_newer, is_as_long, expected) in [
        (JobOptions::new(), true, true, "copied"),
        (
            JobOptions::new().copy(CopyOptions::new().existing(Existing::Keep)),
            false,
            false,
            "exists",
        ),
        (JobOptions::new().update(true), true, false, "as_new"),
        (JobOptions::new().update(true), false, true, "copied"),
        (JobOptions::new().compare(Compare::Size), false, true, "same_size"),
        (JobOptions::new().compare(Compare::Size), true, false, "copied"),
        (JobOptions::new().compare(Compare::Contents), true, true, "copied"),
    ] {
        for dry_run in [false, true] {
            let scene = Scene::empty();
            fs::write(scene.source.join("file"), "12345").unwrap();
            fs::create_dir(&scene.destination).unwrap();
            let copy = scene.destination.join("file");
            fs::write(&copy, if is_as_long { "54321" } else { "1" }).unwrap();
            set(
                if is_newer { &scene.source } else { &scene.destination }.join("file").as_path(),
                old,
            );
            let before = fs::read(&copy).unwrap();
            let records = Records::default();
            let options = options.clone().dry_run(dry_run);
            scene.run(&SystemCalls, &options, &records).1.unwrap();
            let outcome = &records.outcomes(&scene.destination)[Path::new("file")];
            let planned = if expected == "copied" && dry_run { "would replace" } else { expected };
            assert_eq!(outcome, planned, "{options:?}");
            let is_replaced = fs::read(&copy).unwrap() != before;
            assert_eq!(is_replaced, expected == "copied" && !dry_run, "{options:?}");
        }
    }
}

#[test]
fn a_dry_run_reports_and_changes_nothing() {
    for is_merged in [false, true] {
        let scene = Scene::new();
        let scene = if is_merged { scene.with_destination() } else { scene };
        let before = shapes(scene.directory.path());
        let records = Records::default();
        let fake = Fake::new(System::MacOs);
        scene.run(&fake, &JobOptions::new().dry_run(true), &records).1.unwrap();
        assert_eq!(shapes(scene.directory.path()), before);
        assert!(fake.made().iter().all(|call| *call == Call::List), "{:?}", fake.made());
        let outcomes = records.outcomes(&scene.destination);
        let replaced = if is_merged { "would replace" } else { "would make" };
        assert_eq!(outcomes[Path::new("file")], replaced);
        assert_eq!(outcomes[Path::new("a/b/c/deep")], "would make");
        assert_eq!(outcomes[Path::new("a")], if is_merged { "made" } else { "would make" });
        assert_eq!(outcomes.len(), shapes(&scene.source).len() + 1);
    }
}

#[test]
fn a_selection_decides_with_slashes_on_every_system() {
    let scene = Scene::new();
    let mut options = JobOptions::new();
    options.selection.exclude("/a/b/").unwrap();
    options.selection.exclude("file").unwrap();
    let summary = scene.copy(&options);
    let copied: Vec<PathBuf> = shapes(&scene.destination).into_keys().collect();
    let expected = ["a", "a/link", "a/nothing", "a/odd", "empty", "to_directory"];
    let mut expected: Vec<PathBuf> = expected.map(PathBuf::from).into();
    expected[3] = Path::new("a").join(odd());
    assert_eq!(copied, expected);
    assert_eq!(summary.files, 2);
}

#[test]
fn names_of_one_file_become_names_of_one_file_over_all_sources() {
    for is_merged in [false, true] {
        for hard_links in [HardLinks::Keep, HardLinks::Separate] {
            let scene = Scene::new();
            fs::hard_link(scene.source.join("file"), scene.source.join("a/second")).unwrap();
            let other = scene.path("other");
            fs::create_dir(&other).unwrap();
            fs::hard_link(scene.source.join("file"), other.join("third")).unwrap();
            let scene = if is_merged { scene.with_destination() } else { scene };
            let pairs = [
                (scene.source.clone(), scene.destination.clone()),
                (other, scene.path("copy_of_other")),
            ];
            let options = JobOptions::new().hard_links(hard_links);
            let records = Records::default();
            let (summary, ended) = run_by(&SystemCalls, &pairs, &options, &records);
            ended.unwrap();
            let names = ["copy/file", "copy/a/second", "copy_of_other/third"];
            let inodes = names.map(|name| fs::metadata(scene.path(name)).unwrap().ino());
            let are_one = inodes[0] == inodes[1] && inodes[0] == inodes[2];
            assert_eq!(are_one, hard_links == HardLinks::Keep, "{is_merged} {hard_links:?}");
            assert_eq!(summary.hard_links, if are_one { 2 } else { 0 });
            for name in names {
                assert_eq!(fs::read(scene.path(name)).unwrap(), contents(1, 70_001));
            }
            if are_one {
                let linked = format!("linked to {}", scene.path("copy/a/second").display());
                let outcomes = records.outcomes(scene.directory.path());
                assert_eq!(outcomes[Path::new("copy_of_other/third")], linked);
            }
        }
    }
}

#[test]
fn a_file_whose_further_name_is_refused_is_a_file_of_its_own_with_a_note() {
    let scene = Scene::empty();
    fs::write(scene.source.join("one"), "1").unwrap();
    fs::hard_link(scene.source.join("one"), scene.source.join("two")).unwrap();
    // ERROR_INVALID_FUNCTION
    let fake = Fake::new(System::Windows).fail(Call::MakeName, 1);
    let (summary, ended) = scene.run(&fake, &JobOptions::new(), &());
    ended.unwrap();
    assert_eq!((summary.files, summary.hard_links), (2, 0));
    assert_eq!(fs::metadata(scene.destination.join("two")).unwrap().nlink(), 1);
}

#[test]
fn directories_have_the_modes_of_their_sources_and_can_be_filled() {
    let umask = uncopy_os::name::umask().unwrap();
    let scene = Scene::new();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let modes = [("a/b/c", 0o555), ("a", 0o777), ("a/b", 0o750), ("empty", 0o500), (".", 0o575)];
    for (name, mode) in modes {
        set(&scene.source.join(name), mode);
    }
    scene.copy(&JobOptions::new());
    for (name, mode) in modes {
        let found = fs::metadata(scene.destination.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(found, mode & !umask, "{name}");
    }
    assert!(scene.destination.join("a/b/c/deep").exists());
}

#[test]
fn a_new_tree_is_for_its_owner_alone_until_it_is_complete() {
    struct Look<'a>(&'a Scene, Mutex<u32>);
    impl JobObserver for Look<'_> {
        fn progress(&self, progress: JobProgress) -> Control {
            let begun = self.0.siblings();
            if progress.entries > 0 && begun.len() == 2 && !self.0.destination.exists() {
                let begun = self.0.directory.path().join(&begun[0]);
                assert!(begun.extension().is_some_and(|extension| extension == "tree"));
                assert_eq!(fs::metadata(begun).unwrap().mode() & 0o777, 0o700);
                *self.1.lock().unwrap() += 1;
            }
            Control::Continue
        }
    }
    let scene = Scene::new();
    let look = Look(&scene, Mutex::new(0));
    scene.run(&SystemCalls, &JobOptions::new(), &look).1.unwrap();
    assert!(*look.1.lock().unwrap() > 3);
}

#[test]
fn a_destination_in_its_source_is_refused() {
    let scene = Scene::new();
    symlink("source/a", scene.path("alias")).unwrap();
    for destination in ["source", "source/a", "source/new", "source/a/b/new", "alias/new", "alias"]
    {
        let pairs = [(scene.source.clone(), scene.path(destination))];
        let before = shapes(scene.directory.path());
        let records = Records::default();
        run_by(&SystemCalls, &pairs, &JobOptions::new(), &records).1.unwrap();
        let [error] = &records.errors()[..] else { panic!("{destination}") };
        let tree = scene.source.clone();
        assert_eq!(*error.reason(), Reason::Refused(Objection::InsideSource { tree }), "{error}");
        assert_eq!(shapes(scene.directory.path()), before, "{destination}");
    }
    // The source may lie in the destination.
    let pairs = [(scene.source.join("a"), scene.source.clone())];
    let (summary, ended) = run_by(&SystemCalls, &pairs, &JobOptions::new(), &());
    ended.unwrap();
    assert_eq!(summary.failed, 0);
    assert!(scene.source.join("b/c/deep").exists());
}

#[test]
fn a_source_that_an_entry_of_its_own_would_go_over_stays() {
    let scene = Scene::empty();
    let name = scene.source.file_name().unwrap();
    fs::create_dir(scene.source.join(name)).unwrap();
    for (file, text) in [("f".into(), "precious"), (Path::new(name).join("f"), "new")] {
        fs::write(scene.source.join(file), text).unwrap();
    }
    let above = scene.source.parent().unwrap().to_owned();
    let (pairs, records) = ([(scene.source.clone(), above.clone())], Records::default());
    run_by(&SystemCalls, &pairs, &JobOptions::new(), &records).1.unwrap();
    let reasons: Vec<_> = records.errors().iter().map(|error| error.reason().clone()).collect();
    assert_eq!(reasons, [Reason::Refused(Objection::HoldsSource)]);
    for file in [scene.source.join("f"), above.join("f")] {
        assert_eq!(fs::read_to_string(file).unwrap(), "precious");
    }
}

#[test]
fn single_entries_are_copied_as_entries_of_a_tree() {
    let scene = Scene::new();
    let options = JobOptions::new().sources(Sources::Entries);
    mknodat(CWD, scene.path("fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    for (source, expected) in [
        ("source/file", Some("copied")),
        ("source/a/link", Some("made")),
        ("source/a", None),
        ("fifo", None),
        ("missing", None),
    ] {
        let copy = scene.path("one");
        let pairs = [(scene.path(source), copy.clone())];
        let records = Records::default();
        run_by(&SystemCalls, &pairs, &options, &records).1.unwrap();
        let outcome = records.outcomes(&copy)[Path::new("")].clone();
        assert_eq!(outcome, expected.unwrap_or("failed"), "{source}");
        assert_eq!(fs::symlink_metadata(&copy).is_ok(), expected.is_some(), "{source}");
        let _ = fs::remove_file(&copy);
    }
    // As by `cp`, a file that is named is written through a link.
    fs::write(scene.path("target"), "old").unwrap();
    symlink("target", scene.path("one")).unwrap();
    let pairs = [(scene.source.join("file"), scene.path("one"))];
    run_by(&SystemCalls, &pairs, &options, &()).1.unwrap();
    assert_eq!(fs::read(scene.path("target")).unwrap(), contents(1, 70_001));
    assert!(fs::symlink_metadata(scene.path("one")).unwrap().is_symlink());

    // Also if another name of it was copied before, and no link is made to nothing.
    fs::hard_link(scene.source.join("file"), scene.source.join("second")).unwrap();
    symlink("nothing", scene.path("two")).unwrap();
    let named = [("file", "first"), ("second", "one"), ("file", "two")];
    let pairs = named.map(|(from, to)| (scene.source.join(from), scene.path(to)));
    let records = Records::default();
    run_by(&SystemCalls, &pairs, &options, &records).1.unwrap();
    let inode = |name| fs::symlink_metadata(scene.path(name)).unwrap().ino();
    assert_eq!(inode("first"), inode("target"));
    assert!(fs::symlink_metadata(scene.path("one")).unwrap().is_symlink());
    let [error] = &records.errors()[..] else { panic!("{:?}", records.errors()) };
    assert_eq!(*error.reason(), Reason::Refused(Objection::LinkToNothing), "{error}");
    assert_eq!(error.subject(), scene.path("two"));
}

#[test]
fn a_stop_at_each_report_leaves_whole_files_and_no_new_tree() {
    /// Stops at a report.
    struct StopAt(u64, Mutex<u64>);
    impl JobObserver for StopAt {
        fn progress(&self, _: JobProgress) -> Control {
            let mut reports = self.1.lock().unwrap();
            *reports += 1;
            if *reports > self.0 { Control::Stop } else { Control::Continue }
        }
    }
    for is_merged in [false, true] {
        for at in 0.. {
            let scene = Scene::new();
            let scene = if is_merged { scene.with_destination() } else { scene };
            let fake = Fake::new(System::MacOs);
            let stop = StopAt(at, Mutex::new(0));
            let (summary, ended) = scene.run(&fake, &JobOptions::new(), &stop);
            match ended {
                Ok(()) => {
                    assert!(at > 10);
                    break;
                }
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
            assert!(summary.stopped_early && summary.incomplete.is_none());
            assert_whole(&scene, is_merged, &format!("{is_merged} {at}"));
            if !is_merged && !scene.destination.exists() {
                assert_eq!(scene.siblings(), ["source"], "{at}");
            }
        }
    }
}

/// Every file in the destination is whole; there is none without its name.
fn assert_whole(scene: &Scene, is_merged: bool, what: &str) {
    if !scene.destination.exists() {
        return;
    }
    let source = shapes(&scene.source);
    let copy = shapes(&scene.destination);
    for (path, shape) in &copy {
        let is_temporary = path.extension().is_some_and(|extension| extension == "tmp");
        let is_own = is_merged && (path.ends_with("own") || *shape == Shape::File(b"old".into()));
        let is_whole = source.get(path) == Some(shape);
        assert!(is_whole || is_own || is_temporary, "{what}: {}", path.display());
    }
    if !is_merged {
        assert_eq!(copy, source, "{what}: a name without the whole tree");
    }
}

#[test]
fn a_crash_after_each_call_leaves_whole_files_and_no_new_name_too_early() {
    for system in [System::MacOs, System::Windows] {
        for is_merged in [false, true] {
            for calls in 0.. {
                let scene = Scene::new();
                let scene = if is_merged { scene.with_destination() } else { scene };
                let fake = Fake::new(system).crash_after(calls);
                let _ = scene.run(&fake, &JobOptions::new(), &());
                if !fake.is_crashed() {
                    assert!(calls > 20);
                    break;
                }
                assert_whole(&scene, is_merged, &format!("{system} {is_merged} {calls}"));
            }
        }
    }
}

#[test]
fn a_full_destination_ends_the_job_and_keeps_the_unfinished_tree() {
    let scene = Scene::new();
    let fake = Fake::new(System::MacOs).fail(Call::CopyInto, ENOSPC).fail(Call::CloneFile, ENOSPC);
    let (summary, ended) = scene.run(&fake, &JobOptions::new(), &());
    assert!(ended.unwrap_err().is_lasting());
    let Some(Incomplete { path, destination, no_journal, .. }) = summary.incomplete else {
        panic!("not kept")
    };
    assert_eq!(destination, scene.destination);
    assert!(path.is_dir() && !scene.destination.exists());
    assert_eq!(no_journal, Some(Reason::Refused(Objection::NothingNoted)));
    assert!(summary.stopped_early && summary.not_tried > 0);

    let scene = Scene::new();
    let (summary, ended) = scene.run(&fake, &JobOptions::new().on_error(OnError::Skip), &());
    ended.unwrap();
    assert_eq!(summary.failed, 3);
    assert!(scene.destination.join("a/nothing").exists());
}

#[test]
fn trees_as_deep_as_paths_are_long_are_copied_and_what_lies_deeper_is_an_error() {
    let scene = Scene::empty();
    // 3,000 levels, of which a path reaches the upper ones.
    let (levels, name) = (3000, testbed::by_extent(["directory_names", "d", "d"]));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let open = |at: BorrowedFd<'_>, path: &Path| openat(at, path, flags, Mode::empty()).unwrap();
    let mut at = open(CWD, &scene.source);
    for _ in 0..levels {
        mkdirat(&at, name, Mode::from(0o700)).unwrap();
        at = open(at.as_fd(), Path::new(name));
    }
    let records = Records::default();
    let (summary, ended) = scene.run(&SystemCalls, &JobOptions::new(), &records);
    // The standard library opens a descriptor for each level that it removes, and a path cannot name the lower ones:
    // parts of 100 levels are moved to the top and removed.
    let part: PathBuf = (0..100).map(|_| name).collect();
    for root in [&scene.source, &scene.destination] {
        let top = open(CWD, root);
        while let Ok(below) = openat(&top, &part, flags, Mode::empty()) {
            if renameat(&below, name, &top, "rest").is_err() {
                break;
            }
            fs::remove_dir_all(root.join(name)).unwrap();
            renameat(&top, "rest", &top, name).unwrap();
        }
    }

    ended.unwrap();
    assert_eq!(summary.failed, 1, "{:?}", records.errors());
    let reached = 4096 / (name.len() as u64 + 1);
    assert!((reached - 60..=reached).contains(&summary.directories), "{}", summary.directories);
    let error = &records.errors()[0];
    let Reason::OtherSystem { error: kept } = error.reason() else { panic!("{error}") };
    assert_eq!(kept.get().kind(), std::io::ErrorKind::InvalidFilename, "{error}");
}

#[test]
fn names_that_windows_reserves_are_refused_one_by_one() {
    let scene = Scene::new();
    for name in ["nul", "COM1.txt", "a/file:stream"] {
        fs::write(scene.source.join(name), "1").unwrap();
    }
    fs::create_dir(scene.source.join("aux")).unwrap();
    fs::write(scene.source.join("aux/below"), "1").unwrap();
    let errors = scene.errors(&Fake::new(System::Windows), &JobOptions::new());
    let mut named: Vec<_> = errors
        .iter()
        .map(|error| {
            assert!(matches!(error.reason(), Reason::NotRegular { .. }), "{error}");
            error.subject().strip_prefix(&scene.source).unwrap().to_owned()
        })
        .collect();
    named.sort();
    let expected = ["COM1.txt", "a/file:stream", "aux", "nul"].map(PathBuf::from);
    assert_eq!(named, expected);
    assert!(scene.destination.join("a/b/c/deep").exists());
    assert!(scene.errors(&Fake::new(System::MacOs), &JobOptions::new()).is_empty());
}

#[test]
fn links_without_the_right_to_make_them_say_what_to_do() {
    let scene = Scene::new();
    let fake = Fake::new(System::Windows).fail(Call::MakeLink, 1314);
    let errors = scene.errors(&fake, &JobOptions::new());
    assert_eq!(errors.len(), 2);
    for error in errors {
        assert_eq!(*error.reason(), Reason::Refused(Objection::LinksNeedRight));
        assert!(error.to_string().contains("developer mode"), "{error}");
    }
}

#[test]
fn a_file_that_another_program_holds_is_tried_again() {
    let scene = Scene::new();
    // ERROR_SHARING_VIOLATION
    for (retries, calls) in [(0u32, 1), (1, 2)] {
        let fake = Fake::new(System::Windows).fail(Call::Open, 32);
        let pairs = [(scene.source.join("file"), scene.path("one"))];
        let options = JobOptions::new().retries(retries);
        let (summary, ended) = run_by(&fake, &pairs, &options, &());
        ended.unwrap();
        assert_eq!(summary.failed, 1);
        assert_eq!(fake.made().iter().filter(|call| **call == Call::Open).count(), calls);
    }
}

#[test]
fn what_trees_do_not_obey_is_refused_by_name_before_anything_is_changed() {
    let scene = Scene::new();
    let options =
        JobOptions::new().link(true).delete(Delete::default()).jobs(NonZeroUsize::new(2).unwrap());
    let (summary, ended) = scene.run(&Fake::new(System::MacOs), &options, &());
    let named = vec![CopyOption::Link, CopyOption::Delete, CopyOption::Jobs];
    assert_eq!(*ended.unwrap_err().reason(), Reason::NotHere { options: named });
    assert_eq!(summary, Summary::default());
    assert_eq!(scene.siblings(), ["source"]);
}

#[test]
fn names_that_a_filesystem_takes_for_one_are_errors() {
    // As on a filesystem that folds names, the second name finds the first one's copy.
    struct Fold<'a>(&'a Scene);
    impl JobObserver for Fold<'_> {
        fn finished(&self, record: &Record) {
            if record.destination.ends_with("FILE") {
                let copy = self.0.destination.join("FILE");
                fs::hard_link(copy, self.0.destination.join("file")).unwrap();
            }
        }
    }
    let scene = Scene::empty();
    fs::create_dir(&scene.destination).unwrap();
    for name in ["FILE", "file"] {
        fs::write(scene.source.join(name), name).unwrap();
    }
    let (summary, ended) = scene.run(&SystemCalls, &JobOptions::new(), &Fold(&scene));
    ended.unwrap();
    assert_eq!((summary.files, summary.failed), (1, 1));
    assert_eq!(fs::read_to_string(scene.destination.join("FILE")).unwrap(), "FILE");
}

#[test]
fn a_scan_ahead_gives_totals_and_rate_and_pause_hold() {
    struct Totals(Mutex<JobProgress>);
    impl JobObserver for Totals {
        fn progress(&self, progress: JobProgress) -> Control {
            *self.0.lock().unwrap() = progress;
            Control::Continue
        }
    }
    let scene = Scene::new();
    let pause = Pause::new();
    let options = JobOptions::new()
        .scan_ahead(true)
        .bytes_per_second(NonZeroU64::new(100_000_000).unwrap())
        .gate(pause.gate());
    let totals = Totals(Mutex::new(JobProgress::default()));
    pause.pause();
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| scene.run(&SystemCalls, &options, &totals));
        while pause.copies() == 0 || !pause.is_quiet() {
            std::thread::yield_now();
        }
        assert_eq!(pause.copies(), 1);
        assert_eq!(scene.siblings(), ["source"], "nothing is made during a pause");
        pause.resume();
        copy.join().unwrap().1.unwrap();
    });
    let totals = *totals.0.lock().unwrap();
    let entries = shapes(&scene.source).len() as u64 + 1;
    assert!(totals.scanned);
    assert_eq!((totals.entries, totals.total_entries), (entries, entries));
    assert_eq!((totals.bytes, totals.total_bytes), (70_106, 70_106));
    assert!(totals.mechanism.is_some());
}

#[test]
fn durable_trees_flush_each_directory_before_the_name_and_the_one_above_after_it() {
    for system in [System::MacOs, System::Windows, System::Other] {
        let (scene, fake) = (Scene::new(), Fake::new(system));
        let options = JobOptions::new().copy(CopyOptions::new().durable(true));
        scene.run(&fake, &options, &()).1.unwrap();
        let made = fake.made();
        let flushed = made.iter().filter(|call| **call == Call::FlushDirectory).count();
        assert_eq!(flushed, 6, "{system}: five directories, and the one above");
        let named = made.iter().rposition(|call| *call == Call::RenameEntry).unwrap();
        let last = [Call::FlushDirectory, Call::RenameEntry, Call::FlushDirectory];
        assert_eq!(made[named - 1..], last, "{system}");
    }
}

#[test]
fn filesystems_below_are_left_out_if_wanted() {
    let scene = Scene::empty();
    // A directory of another filesystem than the source's.
    symlink("/proc/self/fd", scene.source.join("elsewhere")).unwrap();
    let options = JobOptions::new().links(Links::Follow).follow_outside(true).one_filesystem(true);
    let summary = scene.copy(&options);
    assert_eq!((summary.directories, summary.files, summary.failed), (2, 0, 0));
    assert_eq!(fs::read_dir(scene.destination.join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn files_of_the_same_contents_are_skipped_and_others_copied_whatever_their_times_are() {
    for calls in every_system() {
        for (old, expected) in [
            (contents(1, 600_000), "same_contents"),
            (contents(2, 600_000), "copied"),
            (contents(1, 599_999), "copied"),
        ] {
            let scene = Scene::empty();
            fs::write(scene.source.join("file"), contents(1, 600_000)).unwrap();
            fs::create_dir(&scene.destination).unwrap();
            fs::write(scene.destination.join("file"), &old).unwrap();
            let records = Records::default();
            let options = JobOptions::new().compare(Compare::Contents);
            let (summary, ended) = scene.run(&*calls, &options, &records);
            ended.unwrap();
            assert_eq!(records.outcomes(&scene.destination)[Path::new("file")], expected);
            assert_eq!(summary.compared, u64::from(old.len() == 600_000));
            let same_bytes = if expected == "same_contents" { 1_200_000 } else { 0 };
            assert_eq!(summary.compared_bytes, same_bytes, "{}", calls.system());
            assert_eq!(fs::read(scene.destination.join("file")).unwrap(), contents(1, 600_000));
        }
    }
}

#[test]
fn modes_and_times_of_directories_and_files_are_preserved_if_wanted() {
    for is_merged in [false, true] {
        let scene = Scene::new();
        let scene = if is_merged { scene.with_destination() } else { scene };
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let names =
            [("a/b/c/deep", 0o640), ("a/b", 0o711), ("a", 0o555), ("empty", 0o1777), (".", 0o750)];
        for (name, mode) in names {
            let path = scene.source.join(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            File::open(&path).unwrap().set_modified(time).unwrap();
        }
        let mut options = JobOptions::new();
        (options.copy.preserve.mode, options.copy.preserve.timestamps) = (true, true);
        let summary = scene.copy(&options);
        assert_eq!(summary.failed, 0);
        for (name, mode) in names {
            let found = fs::metadata(scene.destination.join(name)).unwrap();
            assert_eq!(found.mode() & 0o7777, mode, "{name} {is_merged}");
            assert_eq!(found.modified().unwrap(), time, "{name} {is_merged}");
        }
    }
}
