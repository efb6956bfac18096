//! Copies of trees on systems other than Linux: run on Windows, under Wine and on macOS.
#![cfg(all(not(target_os = "linux"), feature = "trees"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;
use uncopy::copy::job::{
    EntryOutcome, JobObserver, JobOptions, JobProgress, Links, OnError, Record, Summary,
    copy_trees_observed,
};
use uncopy::copy::{Backup, Control, CopyOption, CopyOptions, Existing, Numbering};
use uncopy::{Error, Reason};

/// A source of three levels.
struct Scene {
    directory: TempDir,
    source: PathBuf,
    destination: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let [source, destination] = ["source", "copy"].map(|name| directory.path().join(name));
        fs::create_dir_all(source.join("a/b/c")).unwrap();
        fs::create_dir(source.join("empty")).unwrap();
        fs::write(source.join("file"), vec![7; 100_001]).unwrap();
        fs::write(source.join("a/b/c/deep"), "deep").unwrap();
        fs::write(source.join("a/nothing"), "").unwrap();
        Scene { directory, source, destination }
    }

    fn copy(&self, options: &JobOptions) -> (Summary, Records) {
        let records = Records::default();
        let pairs = [(&self.source, &self.destination)];
        let summary = copy_trees_observed(pairs, options, &records).unwrap();
        (summary, records)
    }

    fn siblings(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Keeps outcomes and errors.
#[derive(Default)]
struct Records(Mutex<Vec<(PathBuf, &'static str, Option<Error>)>>);

impl Records {
    fn errors(&self) -> Vec<Error> {
        self.0.lock().unwrap().iter().filter_map(|record| record.2.clone()).collect()
    }
}

impl JobObserver for Records {
    fn finished(&self, record: &Record) {
        let (word, error) = match &record.outcome {
            EntryOutcome::Copied(_) => ("copied", None),
            EntryOutcome::Linked { .. } => ("linked", None),
            EntryOutcome::Made { .. } => ("made", None),
            EntryOutcome::Skipped { .. } => ("skipped", None),
            EntryOutcome::Planned { .. } => ("planned", None),
            EntryOutcome::Failed(error) => ("failed", Some(error.clone())),
            _ => ("other", None),
        };
        self.0.lock().unwrap().push((record.destination.clone(), word, error));
    }
}

/// Files below a directory with their bytes, and directories.
fn contents(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let is_directory = fs::symlink_metadata(&path).unwrap().is_dir();
            let bytes = (!is_directory).then(|| fs::read(&path).unwrap());
            found.insert(path.strip_prefix(root).unwrap().to_owned(), bytes);
            if is_directory {
                open.push(path);
            }
        }
    }
    found
}

#[test]
fn new_and_merged_trees_have_every_level_and_the_receipts_add_up() {
    for is_merged in [false, true] {
        let scene = Scene::new();
        if is_merged {
            fs::create_dir_all(scene.destination.join("a")).unwrap();
            fs::write(scene.destination.join("file"), "old").unwrap();
        }
        let (summary, records) = scene.copy(&JobOptions::new());
        assert!(records.errors().is_empty(), "{:?}", records.errors());
        assert_eq!(contents(&scene.destination), contents(&scene.source), "{is_merged}");
        assert_eq!((summary.files, summary.directories), (3, 5));
        assert_eq!(summary.bytes, 100_005);
        let moved: u64 = summary.portions.iter().map(|portion| portion.bytes).sum();
        assert_eq!(moved, summary.bytes);
        assert_eq!(scene.siblings(), ["copy", "source"]);
    }
}

#[test]
fn long_names_are_copied() {
    let scene = Scene::new();
    let long = ["d".repeat(120), "e".repeat(120), "f".repeat(120)];
    let deep = long.iter().fold(scene.source.clone(), |path, name| path.join(name));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("g".repeat(100)), "long").unwrap();
    for _ in ["new", "merged"] {
        let (summary, records) = scene.copy(&JobOptions::new());
        assert_eq!(summary.failed, 0, "{:?}", records.errors());
        assert_eq!(contents(&scene.destination), contents(&scene.source));
    }
}

#[test]
fn existing_files_are_kept_replaced_or_skipped() {
    let keep = CopyOptions::new().existing(Existing::Keep);
    let force = CopyOptions::new().existing(Existing::Force);
    for (options, is_read_only, expected) in [
        (JobOptions::new(), false, "copied"),
        (JobOptions::new().copy(keep), false, "skipped"),
        (JobOptions::new().update(true), false, "skipped"),
        (JobOptions::new(), true, "failed"),
        (JobOptions::new().copy(force), true, "copied"),
        (JobOptions::new().dry_run(true), false, "planned"),
    ] {
        let scene = Scene::new();
        let copy = scene.destination.join("file");
        fs::create_dir(&scene.destination).unwrap();
        fs::write(&copy, "old").unwrap();
        let set = |is_read_only| {
            let mut permissions = fs::metadata(&copy).unwrap().permissions();
            permissions.set_readonly(is_read_only);
            fs::set_permissions(&copy, permissions).unwrap();
        };
        set(is_read_only);
        if is_read_only && fs::File::options().write(true).open(&copy).is_ok() {
            println!("not run: a read-only file can be written to here");
            set(false);
            continue;
        }
        let (_, records) = scene.copy(&options);
        let word = records.0.lock().unwrap().iter().find(|record| record.0 == copy).unwrap().1;
        assert_eq!(word, expected, "{options:?} {is_read_only}");
        let is_old = fs::read(&copy).unwrap() == b"old";
        assert_eq!(is_old, expected != "copied", "{options:?}");
        set(false);
    }
}

#[test]
fn names_of_one_file_become_names_of_one_file() {
    let scene = Scene::new();
    fs::hard_link(scene.source.join("file"), scene.source.join("second")).unwrap();
    let (summary, _) = scene.copy(&JobOptions::new());
    println!("{} hard links, {} files", summary.hard_links, summary.files);
    fs::write(scene.destination.join("file"), "both").unwrap();
    let second = fs::read(scene.destination.join("second")).unwrap();
    assert_eq!(second == b"both", summary.hard_links == 1);
    assert_eq!(summary.hard_links + summary.files, 4);
}

#[test]
fn a_destination_in_its_source_is_refused() {
    let scene = Scene::new();
    let before = contents(&scene.source);
    for destination in ["", "a", "new", "a/b/new"] {
        let records = Records::default();
        let pairs = [(&scene.source, &scene.source.join(destination))];
        copy_trees_observed(pairs, &JobOptions::new(), &records).unwrap();
        assert_eq!(records.errors().len(), 1, "{destination}");
        assert_eq!(contents(&scene.source), before, "{destination}");
    }
}

#[test]
fn a_job_that_was_stopped_is_gone_on_with() {
    /// Stops the job after this number of entries.
    struct StopAfter(u64);
    impl JobObserver for StopAfter {
        fn progress(&self, progress: JobProgress) -> Control {
            if progress.entries < self.0 { Control::Continue } else { Control::Stop }
        }
    }

    for is_merged in [false, true] {
        for entries in 1..8 {
            let scene = Scene::new();
            if is_merged {
                fs::create_dir_all(scene.destination.join("a")).unwrap();
            }
            let pairs = [(&scene.source, &scene.destination)];
            let options = JobOptions::new().resume(true);
            let stopped = copy_trees_observed(pairs, &options, &StopAfter(entries)).unwrap_err();
            assert!(stopped.cause().is_cancelled(), "{}", stopped.cause());
            let other = JobOptions::new().resume(true).links(Links::Skip);
            let (_, records) = scene.copy(&other);
            let errors = records.errors();
            assert_eq!(errors.len(), 1, "{errors:?}");
            let (summary, records) = scene.copy(&options);
            assert!(records.errors().is_empty(), "{:?}", records.errors());
            assert_eq!(contents(&scene.destination), contents(&scene.source));
            assert_eq!(summary.resumed + summary.files, 3, "{entries}: {summary:?}");
            assert_eq!(summary.resumed, stopped.summary().files, "{entries}");
            assert_eq!(scene.siblings(), ["copy", "source"]);
        }
    }
}

#[test]
fn a_stop_leaves_no_new_tree() {
    /// Stops at a report.
    struct StopAt(u64, Mutex<u64>);
    impl JobObserver for StopAt {
        fn progress(&self, _: JobProgress) -> Control {
            let mut reports = self.1.lock().unwrap();
            *reports += 1;
            if *reports > self.0 { Control::Stop } else { Control::Continue }
        }
    }
    for at in 0.. {
        let scene = Scene::new();
        let pairs = [(&scene.source, &scene.destination)];
        let stop = StopAt(at, Mutex::new(0));
        match copy_trees_observed(pairs, &JobOptions::new(), &stop) {
            Ok(_) => break,
            Err(error) => assert!(error.cause().is_cancelled(), "{error}"),
        }
        // The last report comes when the tree has its name.
        if scene.destination.exists() {
            assert_eq!(contents(&scene.destination), contents(&scene.source));
        } else {
            assert_eq!(scene.siblings(), ["source"], "{at}");
        }
    }
}

#[test]
fn replaced_files_are_kept_or_give_nothing_on_and_attributes_leave_bytes() {
    let merge = |copy: CopyOptions| {
        let scene = Scene::new();
        fs::create_dir(&scene.destination).unwrap();
        fs::write(scene.destination.join("file"), "old").unwrap();
        let (summary, records) = scene.copy(&JobOptions::new().copy(copy));
        assert_eq!(summary.failed, 0, "{:?}", records.errors());
        assert_eq!(scene.siblings(), ["copy", "source"]);
        (contents(&scene.source), contents(&scene.destination))
    };
    for numbering in [Numbering::Never, Numbering::Always] {
        let (mut expected, found) =
            merge(CopyOptions::new().backup(Backup::new().numbering(numbering)));
        let kept = if numbering == Numbering::Never { "file~" } else { "file.~1~" };
        expected.insert(kept.into(), Some(b"old".into()));
        assert_eq!(found, expected);
    }
    let (expected, found) = merge(CopyOptions::new().existing(Existing::Remove));
    assert_eq!(found, expected);
    let (mut expected, found) = merge(CopyOptions::new().attributes_only(true));
    for bytes in expected.values_mut().flatten() {
        bytes.clear();
    }
    expected.insert("file".into(), Some(b"old".into()));
    assert_eq!(found, expected);
}

#[test]
fn durable_trees_flush_directories() {
    for is_merged in [false, true] {
        let scene = Scene::new();
        if is_merged {
            fs::create_dir_all(scene.destination.join("a")).unwrap();
        }
        let options = JobOptions::new().copy(CopyOptions::new().durable(true));
        let (summary, records) = scene.copy(&options);
        assert_eq!(summary.failed, 0, "{:?}", records.errors());
        assert_eq!(contents(&scene.destination), contents(&scene.source));
    }
}

#[test]
fn what_trees_do_not_obey_is_refused_before_anything_is_touched() {
    let scene = Scene::new();
    let pairs = [(&scene.source, &scene.destination)];
    let error = copy_trees_observed(pairs, &JobOptions::new().link(true), &()).unwrap_err();
    let options = vec![CopyOption::Link];
    assert_eq!(*error.cause().reason(), Reason::NotHere { options });
    assert_eq!(scene.siblings(), ["source"]);
}

#[test]
fn an_aborted_tree_is_removed() {
    let scene = Scene::new();
    fs::create_dir(scene.source.join("z")).unwrap();
    // The destination of one file is a directory that somebody makes meanwhile.
    struct Obstruct<'a>(&'a Scene);
    impl JobObserver for Obstruct<'_> {
        fn finished(&self, record: &Record) {
            if record.source.ends_with("empty") {
                let begun = self.0.siblings();
                let begun = self.0.directory.path().join(&begun[0]);
                fs::create_dir(begun.join("file")).unwrap();
            }
        }
    }
    let pairs = [(&scene.source, &scene.destination)];
    let options = JobOptions::new().on_error(OnError::Abort);
    let error = copy_trees_observed(pairs, &options, &Obstruct(&scene)).unwrap_err();
    assert_eq!(error.summary().failed, 1);
    assert_eq!(scene.siblings(), ["source"]);
}

/// Makes a link, if this process may: Wine 8 makes none.
fn link(target: &str, new: &Path, is_of_directory: bool) -> bool {
    #[cfg(windows)]
    let made = match is_of_directory {
        true => std::os::windows::fs::symlink_dir(target, new),
        false => std::os::windows::fs::symlink_file(target, new),
    };
    #[cfg(not(windows))]
    let made = {
        let _ = is_of_directory;
        std::os::unix::fs::symlink(target, new)
    };
    let made = made.and_then(|()| fs::symlink_metadata(new));
    made.inspect_err(|error| println!("links: not run: {error}")).is_ok()
}

#[test]
fn links_are_made_followed_or_skipped() {
    for links in [Links::Preserve, Links::Follow, Links::Skip] {
        let scene = Scene::new();
        if !link("file", &scene.source.join("link"), false)
            || !link("a", &scene.source.join("to_directory"), true)
        {
            return;
        }
        let (summary, records) = scene.copy(&JobOptions::new().links(links));
        assert!(records.errors().is_empty(), "{:?}", records.errors());
        let [file, directory] =
            ["link", "to_directory"].map(|name| fs::symlink_metadata(scene.destination.join(name)));
        match links {
            Links::Preserve => {
                assert!(file.unwrap().is_symlink() && directory.unwrap().is_symlink());
                assert_eq!(summary.symlinks, 2);
                assert!(scene.destination.join("to_directory/nothing").exists());
            }
            Links::Follow => {
                assert!(file.unwrap().is_file() && directory.unwrap().is_dir());
            }
            Links::Skip => assert!(file.is_err() && directory.is_err()),
        }
    }
}

#[cfg(windows)]
#[test]
fn reserved_names_in_the_source_are_refused_one_by_one() {
    let scene = Scene::new();
    let verbatim = PathBuf::from(format!(r"\\?\{}", scene.source.display()));
    let mut made = 0;
    for name in ["nul", "COM1.txt", "aux.c"] {
        match fs::write(verbatim.join(name), "1") {
            Ok(()) => made += 1,
            Err(error) => println!("{name}: not run: {error}"),
        }
    }
    let (summary, records) = scene.copy(&JobOptions::new());
    for error in records.errors() {
        assert!(matches!(error.reason(), Reason::NotRegular { .. }), "{error}");
    }
    assert_eq!((summary.failed, summary.files), (made, 3));
}

#[cfg(windows)]
#[test]
fn a_file_that_another_program_holds_for_a_while_is_copied_in_trees_and_among_several_files() {
    use std::os::windows::fs::OpenOptionsExt;
    use std::thread;
    use std::time::Duration;
    use uncopy::copy::job::Sources;

    for sources in [Sources::Trees, Sources::Files] {
        for retries in [0u32, 5] {
            let scene = Scene::new();
            let (from, to) = match sources {
                Sources::Files => (scene.source.join("file"), scene.destination.clone()),
                _ => (scene.source.clone(), scene.destination.clone()),
            };
            let mut exclusively = fs::File::options();
            let held = exclusively.read(true).share_mode(0).open(scene.source.join("file"));
            let held = held.unwrap();
            let records = Records::default();
            let options = JobOptions::new().sources(sources).retries(retries);
            let summary = thread::scope(|scope| {
                let copy = scope.spawn(|| copy_trees_observed([(&from, &to)], &options, &records));
                thread::sleep(Duration::from_millis(250));
                if retries == 0 {
                    let ended = copy.join().unwrap();
                    drop(held);
                    return ended;
                }
                drop(held);
                copy.join().unwrap()
            });
            let failed = u64::from(retries == 0);
            assert_eq!(summary.unwrap().failed, failed, "{sources:?} {:?}", records.errors());
        }
    }
}

#[cfg(windows)]
#[test]
fn directories_have_the_attributes_of_the_source_and_read_only_files_are_gone_on_with() {
    use std::os::windows::fs::MetadataExt;
    use std::process::Command;

    use uncopy::copy::Preserve;

    const HIDDEN: u32 = 0x2;
    const SYSTEM: u32 = 0x4;
    const READ_ONLY: u32 = 0x1;
    /// Stops the job after six entries.
    struct StopAtSix;
    impl JobObserver for StopAtSix {
        fn progress(&self, progress: JobProgress) -> Control {
            if progress.entries < 6 { Control::Continue } else { Control::Stop }
        }
    }

    let attributes = |path: &Path| {
        fs::symlink_metadata(path).unwrap().file_attributes() & (HIDDEN | SYSTEM | READ_ONLY)
    };
    let given =
        [("a", HIDDEN), ("a/b", HIDDEN | SYSTEM), ("a/nothing", READ_ONLY), ("file", READ_ONLY)];
    for mode in [false, true] {
        let scene = Scene::new();
        for (path, wanted) in given {
            let path = scene.source.join(path);
            let words = [(HIDDEN, "+h"), (SYSTEM, "+s"), (READ_ONLY, "+r")];
            let words = words.iter().filter(|(bit, _)| wanted & bit != 0).map(|(_, word)| word);
            let ran = Command::new("attrib").args(words).arg(&path).status();
            if !ran.is_ok_and(|status| status.success()) || attributes(&path) != wanted {
                println!("Windows: not run: attributes of directories (`attrib` gives none here)");
                return;
            }
        }
        let copy = CopyOptions::new().preserve(Preserve::default().mode(mode));
        let options = JobOptions::new().copy(copy).resume(true);
        let pairs = [(&scene.source, &scene.destination)];
        let stopped = copy_trees_observed(pairs, &options, &StopAtSix).unwrap_err();
        assert!(stopped.cause().is_cancelled(), "{}", stopped.cause());
        let (summary, records) = scene.copy(&options);
        assert!(records.errors().is_empty(), "{:?}", records.errors());
        // A read-only file was flushed and noted too.
        assert_eq!(summary.resumed, stopped.summary().files);
        for (path, wanted) in given {
            let wanted = if mode { wanted } else { wanted & !READ_ONLY };
            assert_eq!(attributes(&scene.destination.join(path)), wanted, "{path} {mode}");
        }
        assert_eq!(contents(&scene.destination), contents(&scene.source));
        assert_eq!(scene.siblings(), ["copy", "source"]);
        // So that the directory can be removed.
        for root in [&scene.source, &scene.destination] {
            for path in ["a/nothing", "file"] {
                let mut permissions = fs::metadata(root.join(path)).unwrap().permissions();
                permissions.set_readonly(false);
                fs::set_permissions(root.join(path), permissions).unwrap();
            }
        }
    }
}
