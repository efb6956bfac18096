//! Tests of plans: everything is in one unit, and no plan is half a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::format::{Entry, Kind, UnitKind, UnitNumber, UnitReader, check};
use crate::{FileRole, UnitError};

pub(super) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Place {
        let place = Place { root: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("s")).unwrap();
        place
    }

    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(path)
    }

    pub(super) fn write(&self, path: impl AsRef<Path>, contents: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub(super) fn request(&self) -> PlanRequest {
        PlanRequest {
            source: PlanRoot::Here(self.path("s")),
            destination: PlanRoot::Here(self.path("d")),
            directory: self.path("p"),
            options: Options::default(),
            selection: Selection::default(),
            one_filesystem: false,
            skip_links: false,
            specials: true,
            update: false,
            compare: Default::default(),
            delete: None,
            files: DEFAULT_FILES,
            bytes: DEFAULT_BYTES,
            threads: NonZeroUsize::new(2).unwrap(),
            version: "0".to_owned(),
            checkpoints: CheckpointPace::Usual,
        }
    }

    pub(super) fn plan(&self, request: &PlanRequest) -> Planned {
        let (plan, totals) = plan(request, &|_| {}).unwrap();
        let planned = Planned::read(&request.directory, totals);
        assert_eq!(planned.plan, plan);
        let names = |path: &Path| -> BTreeSet<OsString> {
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(names(&request.directory), ["plan.json", "units"].map(Into::into).into());
        planned
    }

    fn refused(&self, request: &PlanRequest) -> PlanError {
        let error = plan(request, &|_| {}).unwrap_err();
        assert!(
            !request.directory.join("plan.json").exists()
                || matches!(error, PlanError::Directory { .. })
        );
        error
    }
}

pub(super) struct Planned {
    pub(super) units: Vec<(UnitKind, Vec<Entry>)>,
    pub(super) plan: Plan,
    totals: PlanTotals,
}

impl Planned {
    /// Reads a plan, and checks that each unit is whole and at its place.
    pub(super) fn read(directory: &Path, totals: PlanTotals) -> Planned {
        let plan = read_plan(directory).unwrap();
        let mut units = Vec::new();
        for number in 0..plan.units {
            let number = UnitNumber::new(number).unwrap();
            let file = File::open(unit_file(directory, number)).unwrap();
            let mut reader = UnitReader::new(BufReader::new(file)).unwrap();
            assert_eq!((reader.header().unit, reader.header().plan), (number, plan.id));
            let mut entries = Vec::new();
            while let Some(entry) = reader.next_entry().unwrap() {
                entries.push(entry);
            }
            units.push((reader.header().kind, entries));
        }
        assert_eq!(fs::read_dir(directory.join("units")).unwrap().count(), units.len());
        assert_eq!(units.last().unwrap().0, UnitKind::Finish);
        assert_eq!(units.iter().filter(|(kind, _)| *kind == UnitKind::Finish).count(), 1);
        Planned { units, plan, totals }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let units = self.units.iter().enumerate();
        units.flat_map(|(unit, (_, entries))| entries.iter().map(move |entry| (unit, entry)))
    }

    /// Paths of the source, with the number of times that each is planned.
    fn paths(&self) -> BTreeMap<PathBuf, usize> {
        let mut paths = BTreeMap::new();
        for (_, entry) in self.entries().filter(|(_, entry)| entry.source.is_some()) {
            *paths.entry(entry.path.as_path().to_owned()).or_insert(0) += 1;
        }
        paths
    }

    fn deletions(&self) -> Vec<&Path> {
        let (_, finish) = self.units.last().unwrap();
        let gone = finish.iter().filter(|entry| entry.source.is_none());
        gone.map(|entry| entry.path.as_path()).collect()
    }
}

/// Walks by the standard library.
pub(super) fn walk(root: &Path, below: &Path, found: &mut BTreeSet<PathBuf>) {
    found.insert(if below.as_os_str().is_empty() { ".".into() } else { below.to_owned() });
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            walk(root, &path, found);
        } else {
            found.insert(path);
        }
    }
}

pub(super) fn mixed(place: &Place) {
    for n in 0..300 {
        place.write(format!("s/d{}/e{}/f{n}", n % 7, n % 3), &"x".repeat(n));
    }
    place.write(Path::new("s").join(OsStr::from_bytes(b"d0/\xff\n\"")), "odd");
    fs::create_dir_all(place.path("s/empty/er")).unwrap();
    symlink("../nowhere", place.path("s/d1/link")).unwrap();
    fs::hard_link(place.path("s/d0/e0/f0"), place.path("s/d6/again")).unwrap();
    fs::hard_link(place.path("s/d0/e0/f0"), place.path("s/third")).unwrap();
    fs::hard_link(place.path("s/d1/link"), place.path("s/second link")).unwrap();
    // Without another process, which would have the locks of other tests for a moment.
    let source = File::open(place.path("s")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    uncopy_os::directory::make_special(source, OsStr::new("fifo"), fifo, 0o600, 0, 0).unwrap();
}

#[test]
fn every_entry_is_in_one_unit_with_its_identity() {
    let place = Place::new();
    mixed(&place);
    let mut expected = BTreeSet::new();
    walk(&place.path("s"), Path::new(""), &mut expected);
    for threads in [1, 2, 7] {
        let mut request = place.request();
        request.files = 20;
        request.threads = NonZeroUsize::new(threads).unwrap();
        request.directory = place.path(format!("p{threads}"));
        let planned = place.plan(&request);
        let paths = planned.paths();
        assert!(paths.values().all(|times| *times == 1));
        assert_eq!(paths.into_keys().collect::<BTreeSet<_>>(), expected);
        assert_eq!(planned.plan.entries, expected.len() as u64);
        for (_, entry) in planned.entries() {
            let found = fs::symlink_metadata(place.path("s").join(entry.path.as_path())).unwrap();
            let source = entry.source.as_ref().unwrap();
            assert_eq!(
                (source.inode, source.size, source.mode, u64::from(source.links)),
                (found.ino(), found.size(), found.mode(), found.nlink())
            );
            let time = |time: crate::format::Time| (time.0, i64::from(time.1));
            assert_eq!(time(source.mtime), (found.mtime(), found.mtime_nsec()));
            assert_eq!(time(source.ctime), (found.ctime(), found.ctime_nsec()));
            assert_eq!(entry.destination, None);
        }
        for (kind, entries) in &planned.units {
            assert!(*kind == UnitKind::Finish || (1..=20).contains(&entries.len()));
        }
        // Directories come before what is in them.
        let (_, finish) = planned.units.last().unwrap();
        let mut seen = BTreeSet::from([PathBuf::new()]);
        for entry in finish.iter().skip(1) {
            assert!(seen.contains(entry.path.as_path().parent().unwrap()), "{}", entry.path);
            seen.insert(entry.path.as_path().to_owned());
        }
        assert!(finish[0].path.is_root());
    }
}

#[test]
fn all_names_of_a_file_are_in_one_unit() {
    let place = Place::new();
    mixed(&place);
    let mut request = place.request();
    request.files = 2;
    let planned = place.plan(&request);
    let mut units: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    let mut firsts = 0;
    for (unit, entry) in planned.entries().filter(|(_, entry)| entry.kind != Kind::Directory) {
        units.entry(entry.source.as_ref().unwrap().inode).or_default().insert(unit);
        firsts += usize::from(entry.with.is_none());
    }
    assert!(units.values().all(|units| units.len() == 1));
    assert_eq!(firsts, units.len());
    // The bytes of a file count once.
    assert_eq!(planned.plan.bytes, (0..300).sum::<u64>() + 3);
}

#[test]
fn large_files_are_cut_into_units_that_follow_one_another() {
    let place = Place::new();
    let large = |name: &str, size| {
        place.write(format!("s/{name}"), "");
        File::options()
            .write(true)
            .open(place.path("s").join(name))
            .unwrap()
            .set_len(size)
            .unwrap();
    };
    large("a", (5 << 20) + 1);
    large("b", 2 << 20);
    large("c", 3 << 20);
    large("linked", 9 << 20);
    fs::hard_link(place.path("s/linked"), place.path("s/d")).unwrap();
    large("outside", 3 << 20);
    fs::hard_link(place.path("s/outside"), place.path("other name")).unwrap();
    let mut request = place.request();
    request.bytes = 2 << 20;
    let planned = place.plan(&request);
    let mut parts: BTreeMap<PathBuf, Vec<(u64, u64)>> = BTreeMap::new();
    for (unit, entry) in planned.entries() {
        let Some(part) = &entry.part else { continue };
        assert_eq!(planned.units[unit].0, UnitKind::Range);
        let ranges = parts.entry(entry.path.as_path().to_owned()).or_default();
        assert_eq!(part.first.get() as usize + ranges.len(), unit);
        ranges.push(part.range);
    }
    const MIB: u64 = 1 << 20;
    assert_eq!(parts[Path::new("a")], [(0, 2 * MIB), (2 * MIB, 2 * MIB), (4 * MIB, MIB + 1)]);
    assert_eq!(parts[Path::new("c")], [(0, 2 * MIB), (2 * MIB, MIB)]);
    // A file whose other names lie elsewhere is like any other.
    assert_eq!(parts[Path::new("outside")], parts[Path::new("c")]);
    assert_eq!(parts.len(), 3);
    assert_eq!(planned.plan.bytes, 22 * MIB + 1);
}

#[test]
fn what_the_destination_has_is_written_down() {
    let place = Place::new();
    place.write("s/both/f", "new");
    place.write("s/new/f", "new");
    place.write("d/both/f", "older");
    place.write("d/both/gone", "");
    place.write("d/gone/a/b", "");
    place.write("d/gone.o", "");
    // Something excluded keeps the directory that holds it, with everything in it.
    place.write("d/held/a/keep.o", "");
    place.write("d/held/b", "");
    place.write("d/.uncopy-ledger/x/000000.json", "");
    place.write("s/.uncopy-ledger/x/000000.json", "");
    let mut request = place.request();
    request.selection.exclude("*.o").unwrap();
    let planned = place.plan(&request);
    assert_eq!(planned.deletions(), <[&Path; 0]>::default());
    for (_, entry) in planned.entries() {
        let path = place.path("d").join(entry.path.as_path());
        let found = fs::symlink_metadata(path).ok().map(|found| found.ino());
        assert_eq!(entry.destination.as_ref().map(|found| found.inode), found, "{}", entry.path);
    }
    assert!(!planned.paths().contains_key(Path::new(".uncopy-ledger")));

    request.directory = place.path("p2");
    request.delete = Some(Deletion::default());
    let planned = place.plan(&request);
    let mut deletions = planned.deletions();
    assert!(
        deletions.iter().position(|path| *path == Path::new("gone"))
            < deletions.iter().position(|path| *path == Path::new("gone/a"))
    );
    deletions.sort();
    assert_eq!(deletions, ["both/gone", "gone", "gone/a", "gone/a/b"].map(Path::new));
    assert_eq!((planned.plan.deletions, planned.totals.deletions), (4, 4));

    request.directory = place.path("p3");
    request.delete = Some(Deletion { most: Some(3), empty_source: false });
    assert!(matches!(place.refused(&request), PlanError::TooManyDeletions { found: 4, most: 3 }));
    request.delete = Some(Deletion::default());
    fs::remove_dir_all(place.path("s")).unwrap();
    fs::create_dir(place.path("s")).unwrap();
    assert!(matches!(place.refused(&request), PlanError::EmptySource { .. }));
    request.delete = Some(Deletion { most: None, empty_source: true });
    place.plan(&request);
}

#[test]
fn only_what_is_selected_is_planned() {
    let place = Place::new();
    mixed(&place);
    let mut request = place.request();
    request.selection.exclude("/d0/").unwrap();
    (request.skip_links, request.specials) = (true, false);
    let planned = place.plan(&request);
    let paths = planned.paths();
    assert!(!paths.keys().any(|path| path.starts_with("d0")));
    assert!(!paths.contains_key(Path::new("fifo")) && !paths.contains_key(Path::new("d1/link")));
    assert!(paths.contains_key(Path::new("third")));
    assert_eq!(planned.totals.left_out, 3);
}

#[test]
fn paths_that_are_longer_than_one_call_may_name_are_planned() {
    let place = Place::new();
    let mut deep = uncopy_os::follow::open_root(&place.path("s")).unwrap();
    let name = OsString::from("n".repeat(200));
    for _ in 0..40 {
        uncopy_os::directory::make(&deep, &name, 0o755).unwrap();
        deep = uncopy_os::directory::open_child(&deep, &name).unwrap();
    }
    uncopy_os::name::create_new(&deep, OsStr::new("f"), 0o644).unwrap();
    let planned = place.plan(&place.request());
    assert_eq!(planned.plan.entries, 42);
    let longest = planned.paths().into_keys().map(|path| path.as_os_str().len()).max();
    assert_eq!(longest, Some(40 * 201 + 1));
}

#[test]
fn roots_that_lie_in_each_other_are_refused() {
    let place = Place::new();
    place.write("s/sub/f", "");
    symlink("s/sub", place.path("link")).unwrap();
    for (source, destination, directory) in [
        ("s", "s", "p"),
        ("s", "s/sub", "p"),
        ("s", "s/not/there", "p"),
        ("s", "link/x", "p"),
        ("s/sub", "s", "p"),
        ("s", "d", "s"),
        ("s", "d", "s/p"),
        ("s", "d", "link/p"),
        ("s", "d", "d/p"),
    ] {
        let mut request = place.request();
        request.source = PlanRoot::Here(place.path(source));
        request.destination = PlanRoot::Here(place.path(destination));
        request.directory = place.path(directory);
        let error = place.refused(&request);
        assert!(matches!(error, PlanError::Overlap { .. }), "{source} {destination} {directory}");
        assert!(!place.path("p").exists() && !place.path("d").exists());
    }
}

/// Made on the way, such a path led into the destination.
#[test]
fn a_plan_whose_path_goes_up_from_nowhere_is_refused() {
    let place = Place::new();
    place.write("s/f", "");
    place.write("d/f", "");
    for (directory, is_refused) in
        [("new/../d/p", true), ("d/q/../p", true), ("s/../p", false), ("new/deep", false)]
    {
        let mut request = place.request();
        request.directory = place.path(directory);
        if is_refused {
            let error = place.refused(&request);
            let PlanError::Directory { problem: DirectoryProblem::GoesUp, .. } = error else {
                panic!("{directory}: {error}");
            };
            assert!(!place.path("new").exists() && !place.path("d/q").exists());
        } else {
            plan(&request, &|_| ()).unwrap();
        }
    }
}

#[test]
fn a_directory_holds_one_plan_and_nothing_of_others() {
    let place = Place::new();
    mixed(&place);
    let request = place.request();
    let problem = |directory: &str| {
        let request = PlanRequest { directory: place.path(directory), ..place.request() };
        match place.refused(&request) {
            PlanError::Directory { problem, .. } => problem,
            other => panic!("{other}"),
        }
    };
    place.write("other/file", "mine");
    assert_eq!(problem("other"), DirectoryProblem::NotEmpty);
    assert_eq!(fs::read_to_string(place.path("other/file")).unwrap(), "mine");
    // One that was killed, with files of others in it.
    place.write("p/plan.unfinished", "");
    place.write("p/units/000000.jsonl", "half");
    place.write("p/units/000999.jsonl", "old");
    place.write("p/units/finish.part", "half");
    place.write("p/scratch/links.07", "half");
    assert!(matches!(read_plan(&place.path("p")), Err(UnitError::Format { .. })));
    let lock = File::open(place.path("p/plan.unfinished")).unwrap();
    lock.lock().unwrap();
    assert_eq!(problem("p"), DirectoryProblem::Busy);
    drop(lock);
    place.plan(&request);
    assert_eq!(problem("p"), DirectoryProblem::HasPlan);
    place.plan(&PlanRequest { directory: place.path("new/deep"), ..place.request() });
}

/// Two that plan into one directory at once: one of them makes the plan.
#[test]
fn two_plans_into_one_directory_do_not_mix() {
    let place = Place::new();
    mixed(&place);
    let request = place.request();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| match plan(&request, &|_| {}) {
                Ok(_) => drop(made.fetch_add(1, Ordering::Relaxed)),
                Err(error) => assert!(matches!(error, PlanError::Directory { .. }), "{error}"),
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    let plan = read_plan(&request.directory).unwrap();
    for number in 0..plan.units {
        let unit = unit_file(&request.directory, UnitNumber::new(number).unwrap());
        let summary = check(BufReader::new(File::open(unit).unwrap())).unwrap();
        assert_eq!(summary.header.plan, plan.id);
    }
}

#[test]
fn entries_that_cannot_be_planned_leave_no_plan() {
    let place = Place::new();
    place.write("s/a/f", "");
    place.write("s/b", "");
    place.write("d/a", "");
    place.write("d/b/f", "");
    let PlanError::Entries { first, total } = place.refused(&place.request()) else { panic!() };
    assert_eq!((first.len(), total), (2, 2));
    assert!(first.iter().all(|problem| matches!(problem, EntryProblem::KindDiffers { .. })));
    let request = PlanRequest { source: PlanRoot::Here(place.path("s/b")), ..place.request() };
    assert!(place.refused(&request).to_string().contains("ENOTDIR"));
    let request = PlanRequest { source: PlanRoot::Here(place.path("none")), ..place.request() };
    assert!(place.refused(&request).to_string().contains("ENOENT"));
}

/// A directory with more subdirectories than may wait is listed in several goes.
#[test]
fn large_directories_are_listed_in_pieces() {
    let place = Place::new();
    for n in 0..1_500 {
        fs::create_dir(place.path(format!("s/{n}"))).unwrap();
    }
    let planned = place.plan(&place.request());
    assert_eq!(planned.paths().len(), 1_501);
    assert_eq!(planned.plan.entries, 1_501);
}

/// Nobody waits for the other end of a FIFO.
#[test]
fn a_digest_is_that_of_a_regular_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("unit");
    fs::write(&file, "text").unwrap();
    assert_eq!(digest_of_unit(&file).unwrap(), blake3::hash(b"text").to_hex().as_str());
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    for other in [fifo.as_path(), directory.path(), Path::new("/dev/zero")] {
        let error = digest_of_unit(other).unwrap_err();
        assert!(matches!(error, UnitError::NotRegular { role: FileRole::Unit, .. }), "{error}");
    }
}
