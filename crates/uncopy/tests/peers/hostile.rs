//! Another machine that lies: each lie ends as an error or as a bounded amount of work, and nothing outside the
//! destination is touched.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use testbed::by_extent;
use uncopy::copy::CopyOptions;
use uncopy::copy::Preserve;
use uncopy::copy::job::{
    Delete, EntryOutcome, JobError, JobObserver, JobOptions, Record, Summary, copy_from_peer,
};
use uncopy::copy::peer::{
    Peer, PeerAttribute, PeerContents, PeerCount, PeerEntry, PeerError, PeerFailedEntry,
    PeerHandle, PeerOpened, PeerPage, PeerRanges,
};
use uncopy::{Errno, FileKind, Objection, Reason};
use uncopy_os::directory;
use uncopy_os::file::{Stat, Timestamp};

use crate::scene::{Scene, bytes};

type List = Box<dyn Fn(PeerHandle, u64) -> PeerPage + Send + Sync>;
type Read = Box<dyn Fn(Range<u64>, &mut dyn FnMut(&[u8]) -> bool) -> u64 + Send + Sync>;

/// A machine that answers as a test wants it.
struct Liar {
    root: Stat,
    /// Answers by the handle of a directory, and the number of the question.
    list: List,
    read: Read,
    /// Statuses of what is opened, by name.
    stat: Box<dyn Fn(&OsStr) -> Stat + Send + Sync>,
    ranges: Vec<Range<u64>>,
    next: AtomicU32,
    listed: AtomicU64,
}

impl fmt::Debug for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Liar")
    }
}

impl Peer for Liar {
    fn open_root(&self, _: u32, _: bool) -> Result<PeerOpened, PeerError> {
        Ok(PeerOpened { handle: PeerHandle(0), stat: self.root.clone() })
    }

    fn root_target(&self, _: u32) -> Result<OsString, PeerError> {
        Ok(OsString::from("/"))
    }

    fn open(&self, _: PeerHandle, name: &OsStr, _: bool) -> Result<PeerOpened, PeerError> {
        let handle = PeerHandle(self.next.fetch_add(1, Ordering::Relaxed));
        Ok(PeerOpened { handle, stat: (self.stat)(name) })
    }

    fn list(&self, directory: PeerHandle, _: PeerContents) -> Result<PeerPage, PeerError> {
        let number = self.listed.fetch_add(1, Ordering::Relaxed);
        assert!(number < 200_000, "it is asked without end");
        Ok((self.list)(directory, number))
    }

    fn look(&self, _: PeerHandle, name: &OsStr) -> Result<PeerEntry, PeerError> {
        Ok(entry(name, (self.stat)(name)))
    }

    fn examine(&self, _: PeerHandle) -> Result<Stat, PeerError> {
        Ok((self.stat)(OsStr::new("file")))
    }

    fn data_ranges(&self, _: PeerHandle, _: u64) -> Result<PeerRanges, PeerError> {
        Ok(PeerRanges { ranges: self.ranges.clone(), is_last: true })
    }

    fn read(
        &self,
        _: PeerHandle,
        range: Range<u64>,
        _: u64,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<u64, PeerError> {
        Ok((self.read)(range, take))
    }

    fn attributes(&self, _: PeerHandle) -> Result<Vec<PeerAttribute>, PeerError> {
        Ok(Vec::new())
    }

    fn attribute(&self, _: PeerHandle, _: &OsStr) -> Result<Option<Vec<u8>>, PeerError> {
        Ok(None)
    }

    fn count(&self, _: PeerHandle, _: bool) -> Result<PeerCount, PeerError> {
        Ok(PeerCount { entries: u64::MAX / 2, bytes: u64::MAX, is_last: false })
    }

    fn close(&self, _: PeerHandle) {}
}

fn entry(name: impl AsRef<OsStr>, stat: Stat) -> PeerEntry {
    PeerEntry {
        name: name.as_ref().to_owned(),
        stat,
        target: None,
        contents: None,
        attributes: None,
    }
}

fn failed(name: &str, errno: Errno) -> PeerFailedEntry {
    PeerFailedEntry { name: OsString::from(name), errno }
}

fn last(entries: Vec<PeerEntry>) -> PeerPage {
    PeerPage { entries, is_last: true, ..PeerPage::default() }
}

/// Status of a directory of its own, and of a file of 1,000 bytes.
fn stats(scene: &Scene) -> (Stat, Stat) {
    let model = scene.path("model");
    if !model.exists() {
        fs::create_dir(&model).unwrap();
        fs::write(model.join("file"), bytes(1000, 1)).unwrap();
    }
    let stat = |path: &Path| directory::stat_path(path).unwrap();
    (stat(&model), stat(&model.join("file")))
}

fn liar(scene: &Scene, list: List) -> Liar {
    let (root, file) = stats(scene);
    Liar {
        root,
        list,
        read: Box::new(|range, take| {
            let contents = bytes(1000, 1);
            let part = &contents[range.start as usize..(range.end as usize).min(1000)];
            take(part);
            part.len() as u64
        }),
        stat: Box::new(move |_| file.clone()),
        ranges: Vec::new(),
        next: AtomicU32::new(1),
        listed: AtomicU64::new(0),
    }
}

fn receive(scene: &Scene, liar: Liar) -> Result<Summary, JobError> {
    receive_with(scene, liar, &JobOptions::new())
}

fn receive_with(scene: &Scene, liar: Liar, options: &JobOptions) -> Result<Summary, JobError> {
    receive_watched(scene, liar, options, &())
}

fn receive_watched(
    scene: &Scene,
    liar: Liar,
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> Result<Summary, JobError> {
    let there = scene.path("there");
    let ended = copy_from_peer(Arc::new(liar), [("there:x", &there)], options, observer);
    if ended.as_ref().is_err_and(|error| error.summary().incomplete.is_some()) {
        // The destination failed, and the tree is kept for another run.
        return ended;
    }
    scene.assert_no_temporary_names(options.resume);
    // Nothing is made but the destination.
    let mut names: Vec<_> =
        fs::read_dir(scene.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| name != "model" && name != "there" && name != "outside");
    assert_eq!(names, [] as [OsString; 0]);
    ended
}

/// Keeps the reasons of failed entries.
#[derive(Default)]
struct Reasons(Mutex<Vec<Reason>>);

impl JobObserver for Reasons {
    fn finished(&self, record: &Record) {
        if let EntryOutcome::Failed(error) = &record.outcome {
            self.0.lock().unwrap().push(error.reason().clone());
        }
    }
}

#[track_caller]
fn assert_lost(ended: Result<Summary, JobError>, what: &str) {
    let error = ended.expect_err(what);
    let is_lost = matches!(error.cause().reason(), Reason::Refused(Objection::PeerLost { .. }));
    assert!(is_lost, "{what}: {error}");
}

#[test]
fn names_that_lead_elsewhere_end_the_job() {
    for name in ["..", ".", "", "a/b", "../outside", "/etc", "a\0b"] {
        let scene = Scene::new();
        let (_, file) = stats(&scene);
        let page = move |_, _| last(vec![entry("good", file.clone()), entry(name, file.clone())]);
        assert_lost(receive(&scene, liar(&scene, Box::new(page))), name);
        assert!(!scene.path("there").exists());
    }
}

#[test]
fn statuses_that_no_file_has_end_the_job() {
    type Change = (&'static str, fn(&mut Stat));
    let changes: [Change; 4] = [
        ("size", |stat| stat.size = u64::MAX),
        ("nanoseconds", |stat| {
            stat.modified = Timestamp { seconds: 1, nanoseconds: 2_000_000_000 };
        }),
        ("kind", |stat| stat.mode = 0o170_644),
        ("no kind", |stat| stat.mode = 0o644),
    ];
    for (what, change) in changes {
        let scene = Scene::new();
        let (_, mut file) = stats(&scene);
        change(&mut file);
        let page = move |_, _| last(vec![entry("file", file.clone())]);
        assert_lost(receive(&scene, liar(&scene, Box::new(page))), what);
    }
}

/// Those that became symbolic links were reported as paths with too many of them.
#[test]
fn what_became_another_thing_after_it_was_listed_says_so() {
    for is_directory in [false, true] {
        let other = match is_directory {
            true => (0o100_644, FileKind::Regular),
            false => (0o040_755, FileKind::Directory),
        };
        for (mode, kind) in [(0o120_777, FileKind::Symlink), (0o010_644, FileKind::Fifo), other] {
            let scene = Scene::new();
            let (directory, file) = stats(&scene);
            let listed = if is_directory { directory } else { file };
            let now = Stat { mode, ..listed.clone() };
            let page = move |handle: PeerHandle, _| {
                assert_eq!(handle.0, 0, "it is no directory now");
                last(vec![entry("changes", listed.clone())])
            };
            let mut liar = liar(&scene, Box::new(page));
            liar.stat = Box::new(move |_| now.clone());
            let failed = Reasons::default();
            let summary = receive_watched(&scene, liar, &JobOptions::new(), &failed).unwrap();
            assert_eq!(summary.failed, 1, "{summary:?}");
            let expected = Reason::Refused(Objection::KindChanged { kind });
            assert_eq!(*failed.0.lock().unwrap(), [expected], "{is_directory} {kind}");
        }
    }
}

#[test]
fn statuses_that_are_odd_are_of_one_entry() {
    type Change = (&'static str, fn(&mut Stat), u64);
    let changes: [Change; 7] = [
        // Fewer bytes come.
        ("a huge size", |stat| stat.size = 1 << 62, 1),
        ("a huge size and no blocks", |stat| (stat.size, stat.blocks) = (1 << 62, 0), 1),
        ("blocks without end", |stat| stat.blocks = u64::MAX, 0),
        ("no links", |stat| stat.links = 0, 0),
        ("all mode bits", |stat| stat.mode |= 0o7777, 0),
        ("times before all times", |stat| stat.modified.seconds = i64::MIN, 0),
        ("an owner that nobody is", |stat| stat.uid = u32::MAX - 1, 0),
    ];
    for (what, change, failed) in changes {
        for resume in [false, true] {
            let scene = Scene::new();
            let (_, mut file) = stats(&scene);
            change(&mut file);
            let listed = file.clone();
            let page = move |_, _| last(vec![entry("file", listed.clone())]);
            let mut liar = liar(&scene, Box::new(page));
            liar.stat = Box::new(move |_| file.clone());
            liar.read = Box::new(|range, take| {
                let contents = bytes(1000, 1);
                let (start, end) = (range.start.min(1000), range.end.min(1000));
                take(&contents[start as usize..end as usize]);
                end - start
            });
            let copy = CopyOptions::new().preserve(Preserve::all());
            let options = JobOptions::new().copy(copy).resume(resume);
            let summary = match receive_with(&scene, liar, &options) {
                Ok(summary) => summary,
                Err(error) => {
                    // A filesystem that has no files of this size ends the job, as for a local one.
                    assert_eq!(error.cause().errno(), Some(Errno::EFBIG), "{what}: {error}");
                    assert_eq!(failed, 1, "{what}");
                    continue;
                }
            };
            assert_eq!((summary.failed, summary.files), (failed, 1 - failed), "{what}");
            assert_eq!(scene.path("there/file").exists(), failed == 0, "{what}");
        }
    }
}

/// As a listing may have it of a directory that changes meanwhile.
#[test]
fn a_name_that_comes_twice_is_copied_once() {
    let scene = Scene::new();
    let (_, file) = stats(&scene);
    let names = ["a", "b", "a", "c", "b"];
    let page = move |_, _| last(names.iter().map(|name| entry(name, file.clone())).collect());
    let summary = receive(&scene, liar(&scene, Box::new(page))).unwrap();
    assert_eq!((summary.files, summary.failed), (3, 0));
}

#[test]
fn the_same_names_without_end_end_the_job() {
    for exists in [false, true] {
        let scene = Scene::new();
        let (_, file) = stats(&scene);
        if exists {
            fs::create_dir(scene.path("there")).unwrap();
        }
        let page = move |_, number| PeerPage {
            entries: vec![entry("a", file.clone()), entry(format!("{}", number % 7), file.clone())],
            ..PeerPage::default()
        };
        assert_lost(receive(&scene, liar(&scene, Box::new(page))), "again");
    }
}

/// Only they are missing, and what the destination has of their names is not deleted.
#[test]
fn entries_that_cannot_be_looked_at_fail_alone() {
    for deletes in [false, true] {
        let scene = Scene::new();
        let (_, file) = stats(&scene);
        if deletes {
            fs::create_dir(scene.path("there")).unwrap();
            fs::write(scene.path("there/b"), b"older").unwrap();
        }
        let page = move |_, _| PeerPage {
            failed: ["b", "c"].map(|name| failed(name, Errno::EACCES)).into(),
            ..last(vec![entry("file", file.clone())])
        };
        let options = JobOptions::new().delete(deletes.then(Delete::default));
        let summary = receive_with(&scene, liar(&scene, Box::new(page)), &options).unwrap();
        assert_eq!((summary.files, summary.failed, summary.directories), (1, 2, 1));
        assert_eq!(fs::read(scene.path("there/file")).unwrap(), bytes(1000, 1));
        assert_eq!(scene.path("there/b").exists(), deletes);
    }
    for name in ["", ".", "..", "a/b", "/", "a\0"] {
        let scene = Scene::new();
        let page =
            move |_, _| PeerPage { failed: vec![failed(name, Errno::EIO)], ..last(Vec::new()) };
        assert_lost(receive(&scene, liar(&scene, Box::new(page))), "name");
    }
}

/// It ends with the job, and its sums are only shown.
#[test]
fn a_count_without_end_ends_with_the_job() {
    let scene = Scene::new();
    let (_, file) = stats(&scene);
    let page = move |_, _| last(vec![entry("file", file.clone())]);
    let options = JobOptions::new().scan_ahead(true);
    let summary = receive_with(&scene, liar(&scene, Box::new(page)), &options).unwrap();
    assert_eq!((summary.files, summary.failed), (1, 0));
}

#[test]
fn a_listing_without_end_and_without_entries_ends_the_job() {
    let scene = Scene::new();
    let page = |_, _| PeerPage::default();
    assert_lost(receive(&scene, liar(&scene, Box::new(page))), "empty parts");
}

/// Each directory has another one, whatever its device and inode are.
#[test]
fn a_directory_in_itself_without_end_is_left_out() {
    const BOTH: &[bool] = &[false, true];
    for &has_own_inode in by_extent([&BOTH[..1], BOTH, BOTH]) {
        let scene = Scene::new();
        let (directory, _) = stats(&scene);
        let listed = directory.clone();
        let page =
            move |handle: PeerHandle, _| last(vec![entry(format!("{}", handle.0), listed.clone())]);
        let mut liar = liar(&scene, Box::new(page));
        liar.stat = Box::new(move |name| {
            let number: u64 = name.to_str().unwrap().parse().unwrap();
            let own = directory.inode + 1 + number;
            Stat { inode: if has_own_inode { own } else { directory.inode }, ..directory.clone() }
        });
        let failed = Reasons::default();
        let summary = receive_watched(&scene, liar, &JobOptions::new(), &failed).unwrap();
        assert_eq!(summary.failed, 1, "{summary:?}");
        let expected = match has_own_inode {
            true => Reason::Refused(Objection::TooDeep { levels: 2048 }),
            false => Reason::System { errno: Errno::ELOOP },
        };
        assert_eq!(*failed.0.lock().unwrap(), [expected]);
        let expected = if has_own_inode { 2000..2100 } else { 8..9 };
        assert!(expected.contains(&summary.directories), "{summary:?}");
    }
}

/// A listing that finds more directories than may wait goes on where it stopped.
#[test]
fn a_listing_of_very_many_directories_is_continued() {
    const PAGE: u64 = 1000;
    // 50,000 may wait.
    let pages = by_extent([2, 52, 52]);
    let scene = Scene::new();
    let (directory, file) = stats(&scene);
    let (model, first) = (directory.clone(), AtomicU64::new(0));
    let page = move |handle: PeerHandle, _| match handle.0 {
        0 => {
            let number = first.fetch_add(1, Ordering::Relaxed);
            let names = number * PAGE..(number + 1) * PAGE;
            let listed = |name: u64| Stat { inode: name + 1, device: (8, 77), ..model.clone() };
            let entries = names.map(|name| entry(format!("{name}"), listed(name))).collect();
            PeerPage { is_last: number + 1 == pages, ..last(entries) }
        }
        _ => last(Vec::new()),
    };
    let mut liar = liar(&scene, Box::new(page));
    liar.stat =
        Box::new(move |name| match name.to_str().and_then(|name| name.parse::<u64>().ok()) {
            Some(number) => Stat { inode: 1 + number, device: (8, 77), ..directory.clone() },
            None => file.clone(),
        });
    let summary = receive(&scene, liar).unwrap();
    assert_eq!((summary.directories, summary.failed), (pages * PAGE + 1, 0));
}

#[test]
fn contents_of_another_length_end_the_job() {
    for length in [0, 999, 1001, 70_000] {
        let scene = Scene::new();
        let (_, file) = stats(&scene);
        let page = move |_, _| {
            let contents = Some(bytes(length, 1).into_boxed_slice());
            last(vec![PeerEntry { contents, ..entry("file", file.clone()) }])
        };
        assert_lost(receive(&scene, liar(&scene, Box::new(page))), "contents");
        assert!(!scene.path("there").exists());
    }
}

#[test]
fn a_file_that_is_shorter_than_its_status_is_no_copy() {
    let scene = Scene::new();
    let (_, file) = stats(&scene);
    let page = move |_, _| last(vec![entry("file", file.clone())]);
    let mut liar = liar(&scene, Box::new(page));
    liar.read = Box::new(|range, take| {
        let end = range.end.min(500);
        let part = bytes(end.saturating_sub(range.start) as usize, 1);
        take(&part);
        part.len() as u64
    });
    let summary = receive(&scene, liar).unwrap();
    assert_eq!((summary.failed, summary.files), (1, 0));
    assert!(!scene.path("there/file").exists());
}

#[test]
fn more_bytes_than_were_asked_for_end_the_job() {
    for says in [1000, 5000, 7] {
        let scene = Scene::new();
        let (_, file) = stats(&scene);
        let page = move |_, _| last(vec![entry("file", file.clone())]);
        let mut liar = liar(&scene, Box::new(page));
        liar.read = Box::new(move |_, take| {
            take(&bytes(5000, 1));
            says
        });
        assert_lost(receive(&scene, liar), "more bytes");
        assert!(!scene.path("there").exists());
    }
}

#[test]
fn a_file_without_a_size_and_without_an_end_is_given_up() {
    let scene = Scene::new();
    let (_, file) = stats(&scene);
    let file = Stat { size: 0, blocks: 0, ..file };
    let listed = file.clone();
    let page = move |_, _| last(vec![entry("file", listed.clone())]);
    let mut liar = liar(&scene, Box::new(page));
    liar.stat = Box::new(move |_| file.clone());
    liar.read = Box::new(|range, take| {
        let length = range.end - range.start;
        // Holes, so that the test's disk is spared.
        take(&vec![0; length as usize]);
        length
    });
    let copy = CopyOptions::new().sparse(uncopy::copy::Sparse::Always);
    let summary = receive_with(&scene, liar, &JobOptions::new().copy(copy)).unwrap();
    assert_eq!((summary.failed, summary.files), (1, 0));
}

#[test]
fn ranges_out_of_order_end_the_job() {
    let rows: [&[(u64, u64)]; 4] =
        [&[(10, 5)], &[(0, 10), (5, 20)], &[(20, 30), (0, 10)], &[(7, 7)]];
    for row in rows {
        let ranges: Vec<Range<u64>> = row.iter().map(|(start, end)| *start..*end).collect();
        let scene = Scene::new();
        let (_, file) = stats(&scene);
        let file = Stat { size: 1 << 20, blocks: 8, ..file };
        let listed = file.clone();
        let page = move |_, _| last(vec![entry("file", listed.clone())]);
        let what = format!("{ranges:?}");
        let liar =
            Liar { ranges, stat: Box::new(move |_| file.clone()), ..liar(&scene, Box::new(page)) };
        assert_lost(receive(&scene, liar), &what);
    }
}

/// One device and inode for everything: links between different files stay in the destination.
#[test]
fn files_that_claim_to_be_one_become_names_of_one() {
    let scene = Scene::new();
    let (directory, file) = stats(&scene);
    let file = Stat { links: 9, inode: directory.inode, device: directory.device, ..file };
    let link = Stat { mode: 0o120_777, ..file.clone() };
    let listed = file.clone();
    let page = move |_, _| {
        let target = Some("../outside".into());
        let listed = |name: &str| entry(name, listed.clone());
        last(vec![
            PeerEntry { target, ..entry("link", link.clone()) },
            listed("one"),
            listed("two"),
            listed("three"),
        ])
    };
    let mut liar = liar(&scene, Box::new(page));
    liar.stat = Box::new(move |_| file.clone());
    let outside = scene.path("outside");
    fs::write(&outside, "untouched").unwrap();
    let _ = receive(&scene, liar);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
}

/// A link in the destination, or one that just came, leads nowhere for what is copied later.
#[test]
fn nothing_is_written_through_a_link() {
    for exists in [false, true] {
        let scene = Scene::new();
        let (directory, file) = stats(&scene);
        let outside = scene.path("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "untouched").unwrap();
        if exists {
            fs::create_dir(scene.path("there")).unwrap();
            symlink(&outside, scene.path("there/d")).unwrap();
        }
        let (root_list, target) = (directory.clone(), outside.clone());
        let listed = file.clone();
        let page = move |handle: PeerHandle, _| match (handle.0, exists) {
            (0, true) => last(vec![entry("d", Stat { inode: 77, ..root_list.clone() })]),
            (0, false) => {
                let link = Stat { mode: 0o120_777, inode: 78, ..listed.clone() };
                let target = Some(target.clone().into_os_string());
                last(vec![PeerEntry { target, ..entry("d", link) }])
            }
            _ => last(vec![entry("file", listed.clone())]),
        };
        let mut liar = liar(&scene, Box::new(page));
        liar.stat = Box::new(move |name| match name == "d" {
            true => Stat { inode: 77, ..directory.clone() },
            false => file.clone(),
        });
        let options = JobOptions::new().delete(Some(Delete::default()));
        let _ = receive_with(&scene, liar, &options);
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "untouched");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }
}

#[test]
fn another_device_there_is_another_filesystem() {
    for one_filesystem in [false, true] {
        let scene = Scene::new();
        let (directory, file) = stats(&scene);
        let below = Stat { device: (8, 99), inode: 5, ..directory.clone() };
        let listed = below.clone();
        let page = move |handle: PeerHandle, _| match handle.0 {
            0 => last(vec![entry("mounted", listed.clone())]),
            _ => {
                let contents = Some(bytes(1000, 1).into_boxed_slice());
                last(vec![PeerEntry { contents, ..entry("file", file.clone()) }])
            }
        };
        let mut liar = liar(&scene, Box::new(page));
        liar.stat = Box::new(move |_| below.clone());
        let options = JobOptions::new().one_filesystem(one_filesystem);
        let summary = receive_with(&scene, liar, &options).unwrap();
        assert_eq!(summary.failed, 0, "{summary:?}");
        assert!(scene.path("there/mounted").is_dir());
        assert_eq!(scene.path("there/mounted/file").exists(), !one_filesystem);
    }
}
