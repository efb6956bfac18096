//! Units of real plans, run one after the other: what they make, and what they refuse.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;
use crate::format::{Options, Plan, Time};
use crate::ledger::FailureKind;
use crate::plan::{Deletion, PlanRequest, plan, unit_file};
use crate::status::{facts_of, status};
use uncopy_copy::job::{Delete, Selection};
use uncopy_copy::{CopyOptions, Preserve};

struct Copy {
    _root: tempfile::TempDir,
    source: PathBuf,
    destination: PathBuf,
    plan: PathBuf,
}

impl Copy {
    fn new() -> Copy {
        let root = tempfile::tempdir().unwrap();
        let [source, destination, plan] =
            ["source", "destination", "plan"].map(|name| root.path().join(name));
        fs::create_dir(&source).unwrap();
        Copy { _root: root, source, destination, plan }
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.source.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn plan(&self, delete: Option<Deletion>) -> Plan {
        let request = PlanRequest {
            source: crate::plan::PlanRoot::Here(self.source.clone()),
            destination: crate::plan::PlanRoot::Here(self.destination.clone()),
            directory: self.plan.clone(),
            options: Options::default(),
            selection: Selection::default(),
            one_filesystem: false,
            skip_links: false,
            specials: true,
            update: false,
            compare: Default::default(),
            delete,
            files: 3,
            bytes: 1 << 20,
            threads: NonZeroUsize::MIN,
            version: "test".into(),
            checkpoints: Default::default(),
        };
        plan(&request, &|_| ()).unwrap().0
    }

    fn unit(&self, number: u32) -> Unit {
        Unit::read(&unit_file(&self.plan, UnitNumber::new(number).unwrap())).unwrap()
    }

    fn run(&self, number: u32) -> Ran {
        self.run_deleting(number, None)
    }

    /// Runs a unit that may delete so many entries at most.
    fn run_deleting(&self, number: u32, most: Option<u64>) -> Ran {
        let receipt = |_: &Summary| Value::Object(Default::default());
        self.unit(number).run(None, &options(most), &(), &receipt, &Error::to_string).unwrap()
    }

    /// Runs every unit, and expects that each is done.
    fn run_all(&self, plan: &Plan) {
        for number in 0..plan.units {
            let ran = self.run(number);
            assert!(matches!(ran, Ran::Done(_)), "{number}: {ran:?}");
        }
    }

    /// Returns the unit that has an entry.
    fn unit_of(&self, plan: &Plan, path: &str) -> u32 {
        let has = |number: &u32| match self.unit(*number).contents {
            Contents::Entries(entries) => {
                entries.iter().any(|entry| entry.path.as_path() == Path::new(path))
            }
            Contents::Finish(_) => false,
        };
        (0..plan.units).find(has).unwrap()
    }
}

fn options(most: Option<u64>) -> JobOptions {
    let mut preserve = Preserve::default();
    (preserve.mode, preserve.timestamps) = (true, true);
    let mut delete = Delete::default();
    delete.most = most;
    let mut options = JobOptions::new().specials(true).copy(CopyOptions::new().preserve(preserve));
    // Only the last unit asks for it.
    options.delete = Some(delete);
    options
}

/// Mode, times, contents or target of every entry below a directory.
fn walk(root: &Path) -> BTreeMap<PathBuf, String> {
    fn below(root: &Path, directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name == crate::format::LEDGER_DIRECTORY) {
                continue;
            }
            let stat = fs::symlink_metadata(&path).unwrap();
            let contents = match stat.file_type() {
                kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path).unwrap()),
                kind if kind.is_file() => {
                    blake3::hash(&fs::read(&path).unwrap()).to_hex().to_string()
                }
                _ => String::new(),
            };
            let time = if stat.is_symlink() { 0 } else { stat.mtime_nsec() + stat.mtime() };
            let facts = format!("{:o} {time} {contents} {}", stat.mode(), stat.nlink());
            found.insert(path.strip_prefix(root).unwrap().to_owned(), facts);
            if stat.is_dir() {
                below(root, &path, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    below(root, root, &mut found);
    found
}

fn kinds(ran: &Ran) -> Vec<FailureKind> {
    let Ran::Failed(failure) = ran else { panic!("{ran:?}") };
    failure.reasons.iter().map(|reason| reason.kind).collect()
}

#[test]
fn all_units_make_the_tree() {
    let copy = Copy::new();
    for number in 0..10 {
        copy.write(&format!("d{}/e/f{number}", number % 3), format!("file {number}"));
    }
    copy.write("large", vec![5; (3 << 20) + 77]);
    let holes = fs::File::create(copy.source.join("holes")).unwrap();
    holes.set_len(4 << 20).unwrap();
    holes.write_all_at(b"end", (4 << 20) - 3).unwrap();
    fs::hard_link(copy.source.join("d0/e/f0"), copy.source.join("d1/twin")).unwrap();
    symlink("nowhere", copy.source.join("link")).unwrap();
    fs::create_dir_all(copy.source.join("empty/deep")).unwrap();
    fs::set_permissions(copy.source.join("d2"), fs::Permissions::from_mode(0o510)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, copy.source.join("fifo"), 0o640.into()).unwrap();
    let planned = copy.plan(None);
    assert!(planned.units > 8, "{}", planned.units);
    let last = planned.units - 1;
    let Ran::NotYet { missing, first } = copy.run(last) else { panic!() };
    assert_eq!((missing, first[0].get()), (u64::from(last), 0));
    copy.run_all(&planned);
    assert_eq!(walk(&copy.source), walk(&copy.destination));
    let holes = fs::metadata(copy.destination.join("holes")).unwrap();
    assert!(holes.blocks() * 512 < 1 << 20);
    for number in 0..planned.units {
        assert!(matches!(copy.run(number), Ran::DoneBefore(_)));
    }
}

#[test]
fn a_source_that_changed_is_not_copied() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("size", |path| fs::write(path, "longer than before").unwrap()),
        ("mtime", |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }),
        ("ctime", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }),
        ("gone", |path| fs::remove_file(path).unwrap()),
    ];
    for (what, change) in changes {
        let copy = Copy::new();
        copy.write("f", "bytes");
        copy.write("g", "bytes");
        let planned = copy.plan(None);
        change(&copy.source.join("f"));
        let ran = copy.run(copy.unit_of(&planned, "f"));
        assert_eq!(kinds(&ran), [FailureKind::SourceChanged], "{what}");
        assert!(!copy.destination.join("f").exists());
        assert_eq!(fs::read(copy.destination.join("g")).unwrap(), b"bytes");
    }
}

#[test]
fn a_destination_that_changed_stays() {
    let copy = Copy::new();
    for name in ["new", "old", "same"] {
        copy.write(name, name);
    }
    fs::create_dir(&copy.destination).unwrap();
    fs::write(copy.destination.join("old"), "before").unwrap();
    let planned = copy.plan(None);
    fs::write(copy.destination.join("new"), "user's").unwrap();
    fs::write(copy.destination.join("old"), "user's").unwrap();
    // A copy that an earlier attempt made is no conflict.
    fs::write(copy.destination.join("same"), "same").unwrap();
    let time = fs::metadata(copy.source.join("same")).unwrap().modified().unwrap();
    let same = fs::File::options().write(true).open(copy.destination.join("same")).unwrap();
    same.set_modified(time).unwrap();
    let ran = copy.run(copy.unit_of(&planned, "new"));
    assert_eq!(kinds(&ran), [FailureKind::Conflict; 2]);
    assert_eq!(fs::read(copy.destination.join("new")).unwrap(), b"user's");
    assert_eq!(fs::read(copy.destination.join("old")).unwrap(), b"user's");
}

#[test]
fn a_part_whose_source_changed_fails_the_whole_file() {
    let copy = Copy::new();
    copy.write("large", vec![1; 3 << 20]);
    let planned = copy.plan(None);
    let first = copy.unit_of(&planned, "large");
    assert!(matches!(copy.run(first), Ran::Done(_)));
    let names = |copy: &Copy| walk(&copy.destination).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&copy).len(), 1);
    fs::write(copy.source.join("large"), vec![2; 3 << 20]).unwrap();
    assert_eq!(kinds(&copy.run(first + 1)), [FailureKind::SourceChanged]);
    assert!(names(&copy).is_empty());
    // The first part is not done any more, and nobody is at work on it.
    let now = status(&planned, facts_of(&planned).unwrap());
    let failed: Vec<u32> = now.failed.iter().map(|(unit, _)| unit.get()).collect();
    assert_eq!((now.done, now.begun.len(), failed), (0, 0, vec![first, first + 1]));
    assert_eq!(kinds(&copy.run(first)), [FailureKind::SourceChanged]);
    assert!(matches!(copy.run(planned.units - 1), Ran::NotYet { missing: 3, .. }));
}

#[test]
fn parts_whose_staging_file_is_gone_wait() {
    let copy = Copy::new();
    copy.write("large", vec![1; 3 << 20]);
    let planned = copy.plan(None);
    let first = copy.unit_of(&planned, "large");
    assert!(matches!(copy.run(first), Ran::Done(_)));
    let staging = walk(&copy.destination).into_keys().next().unwrap();
    fs::remove_file(copy.destination.join(staging)).unwrap();
    assert!(matches!(copy.run(first + 1), Ran::Done(_)));
    let now = status(&planned, facts_of(&planned).unwrap());
    assert_eq!((now.done, now.begun.len(), now.failed.len()), (1, 0, 0));
    copy.run(first);
    copy.run(first + 2);
    assert_eq!(fs::read(copy.destination.join("large")).unwrap(), vec![1; 3 << 20]);
}

#[test]
fn a_cut_file_whose_destination_changed_leaves_nothing() {
    for was_there in [false, true] {
        let copy = Copy::new();
        copy.write("large", vec![1; 3 << 20]);
        fs::create_dir(&copy.destination).unwrap();
        let place = copy.destination.join("large");
        if was_there {
            fs::write(&place, "before the plan").unwrap();
        }
        let planned = copy.plan(None);
        let first = copy.unit_of(&planned, "large");
        for number in [first, first + 1] {
            assert!(matches!(copy.run(number), Ran::Done(_)));
        }
        fs::write(&place, "by a user").unwrap();
        assert_eq!(kinds(&copy.run(first + 2)), [FailureKind::Conflict]);
        let names = || walk(&copy.destination).into_keys().collect::<Vec<_>>();
        assert_eq!(names(), [Path::new("large")]);
        // No part is copied in vain.
        for number in [first, first + 1, first + 2] {
            assert_eq!(kinds(&copy.run(number)), [FailureKind::Conflict]);
            assert_eq!(names(), [Path::new("large")]);
        }
        assert_eq!(fs::read(&place).unwrap(), b"by a user");
        assert!(matches!(copy.run(planned.units - 1), Ran::NotYet { missing: 3, .. }));
    }
}

#[test]
fn parts_begin_anew_when_their_staging_file_is_gone() {
    let copy = Copy::new();
    let bytes: Vec<u8> = (0..(3 << 20) + 5).map(|number| (number % 251) as u8).collect();
    copy.write("large", &bytes);
    let planned = copy.plan(None);
    let first = copy.unit_of(&planned, "large");
    assert!(matches!(copy.run(first + 1), Ran::Done(_)));
    let staging = walk(&copy.destination).into_keys().next().unwrap();
    fs::remove_file(copy.destination.join(staging)).unwrap();
    for number in [first, first + 2, first + 3] {
        assert!(matches!(copy.run(number), Ran::Done(_)));
    }
    assert!(!copy.destination.join("large").exists());
    assert!(matches!(copy.run(first + 1), Ran::Done(_)));
    assert_eq!(fs::read(copy.destination.join("large")).unwrap(), bytes);
    assert_eq!(walk(&copy.destination).len(), 1);
    assert!(matches!(copy.run(planned.units - 1), Ran::Done(_)));
    assert_eq!(walk(&copy.source), walk(&copy.destination));
}

#[test]
fn deletions_look_at_both_sides_again() {
    let copy = Copy::new();
    copy.write("kept", "kept");
    for directory in ["gone", "filled"] {
        fs::create_dir_all(copy.destination.join(directory)).unwrap();
    }
    for name in ["a", "b", "gone/c"] {
        fs::write(copy.destination.join(name), name).unwrap();
    }
    let planned = copy.plan(Some(Deletion { most: None, empty_source: false }));
    assert_eq!(planned.deletions, 5);
    fs::write(copy.destination.join("a"), "user's").unwrap();
    fs::write(copy.destination.join("filled/new"), "user's").unwrap();
    copy.write("b", "the source has it again");
    assert!(matches!(copy.run(0), Ran::Done(_)));
    let mut found = kinds(&copy.run(1));
    found.sort();
    use FailureKind::{Conflict, SourceChanged};
    assert_eq!(found, [SourceChanged, Conflict, Conflict]);
    assert_eq!(fs::read(copy.destination.join("a")).unwrap(), b"user's");
    let names: Vec<_> = walk(&copy.destination).into_keys().collect();
    assert_eq!(names, ["a", "b", "filled", "filled/new", "kept"].map(PathBuf::from));
}

#[test]
fn the_limit_of_deletions_holds_over_attempts() {
    let copy = Copy::new();
    copy.write("kept", "kept");
    fs::create_dir(&copy.destination).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(copy.destination.join(name), name).unwrap();
    }
    let planned = copy.plan(Some(Deletion { most: None, empty_source: false }));
    assert!(matches!(copy.run(0), Ran::Done(_)));
    // Two may go.
    for _ in 0..2 {
        let ran = copy.run_deleting(planned.units - 1, Some(2));
        assert_eq!(kinds(&ran), [FailureKind::Error]);
        assert_eq!(walk(&copy.destination).len(), 2);
    }
}

#[test]
fn a_later_attempt_takes_the_right_to_commit() {
    let copy = Copy::new();
    copy.write("f", "bytes");
    copy.plan(None);
    let unit = copy.unit(0);
    let roots = Roots::open(&unit.header, None).unwrap();
    let shown = unit.header.destination.as_path();
    let ledger = Ledger::create(&roots.destination, shown, unit.header.plan, Flush::No).unwrap();
    let begin = || {
        // A clock that is a day ahead decides nothing.
        let later = Time(now().0 + 86_400, 0);
        match ledger.begin(unit.header.unit, None, Worker::this(), later).unwrap() {
            Begun::Attempt(attempt) => attempt,
            Begun::Done(_) => panic!(),
        }
    };
    let patience = Some(Duration::from_millis(100));
    let first = begin();
    let commits = Commits::new(&ledger, unit.header.unit, &first, patience);
    assert_eq!(commits.while_current(|| Ok(1)).unwrap(), Some(1));
    let second = begin();
    assert_eq!(commits.while_current(|| Ok(1)).unwrap(), None);
    let commits = Commits::new(&ledger, unit.header.unit, &second, patience);
    let lock = ledger.try_lock(LockPlace::Unit(unit.header.unit)).unwrap().unwrap();
    // A worker that begins an attempt has the lock.
    assert_eq!(commits.while_current(|| Ok(1)).unwrap(), None);
    // Unless the attempt began while a stopped worker had it.
    let without = Commits::new(&ledger, unit.header.unit, &second, None);
    assert_eq!(without.while_current(|| Ok(1)).unwrap(), Some(1));
    drop(lock);
    assert_eq!(commits.while_current(|| Ok(1)).unwrap(), Some(1));
}
