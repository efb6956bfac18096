//! Options of files that trees of other systems obey, played: what each does with entries of every kind, and what it
//! leaves after an error or a crash.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::portable::decide;
use crate::{Backup, Consent, Numbering, Preserve};

const OLD: &str = "old";
const NAMES: [&str; 3] = ["file", "link", "second"];

/// A source with a file of two names and a link, and a destination that has entries of these names.
fn taken() -> Scene {
    let scene = Scene::empty();
    let (source, copy) = (&scene.source, &scene.destination);
    fs::write(source.join("file"), contents(1, 9001)).unwrap();
    fs::hard_link(source.join("file"), source.join("second")).unwrap();
    symlink("file", source.join("link")).unwrap();
    fs::create_dir(copy).unwrap();
    for name in ["file", "second"] {
        fs::write(copy.join(name), OLD).unwrap();
    }
    symlink(OLD, copy.join("link")).unwrap();
    scene
}

fn old(name: &str) -> Shape {
    if name == "link" { Shape::Link(OLD.into()) } else { Shape::File(OLD.into()) }
}

fn with(copy: CopyOptions) -> JobOptions {
    JobOptions::new().copy(copy)
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// Number of an error that is final: EIO; ERROR_IO_DEVICE.
fn broken(system: System) -> i32 {
    if system == System::Windows { 1117 } else { 5 }
}

#[test]
fn what_is_replaced_is_kept_as_a_backup() {
    for calls in every_system() {
        for (numbering, suffix) in [(Numbering::Never, "~"), (Numbering::Always, ".~1~")] {
            let options = with(CopyOptions::new().backup(Backup::new().numbering(numbering)));
            let scene = taken();
            assert_eq!(scene.errors(&*calls, &options).len(), 0);
            let mut expected = shapes(&scene.source);
            for name in NAMES {
                expected.insert(format!("{name}{suffix}").into(), old(name));
            }
            assert_eq!(shapes(&scene.destination), expected, "{} {suffix}", calls.system());
            let [first, _, second] = NAMES.map(|name| inode(&scene.destination.join(name)));
            assert_eq!(first, second, "names of one file");
            // A new tree holds nothing to keep.
            let scene = Scene::new();
            assert_eq!(scene.errors(&*calls, &options).len(), 0);
            assert_eq!(shapes(&scene.destination), shapes(&scene.source));
            assert_eq!(scene.siblings(), ["copy", "source"]);
        }
    }
}

/// A destination with one old entry, and two sources with a file each that are copied to it in turn.
struct Merged {
    scene: Scene,
    pairs: Vec<(PathBuf, PathBuf)>,
}

impl Merged {
    /// `names`: those of the files. If the second source is copied through a link, its paths are others.
    fn new(names: [&str; 2], is_through_link: bool) -> Merged {
        let scene = Scene::empty();
        fs::create_dir(&scene.destination).unwrap();
        fs::write(scene.destination.join("a"), OLD).unwrap();
        symlink("copy", scene.path("alias")).unwrap();
        let second = if is_through_link { scene.path("alias") } else { scene.destination.clone() };
        let from = ["first", "second"].map(|name| scene.path(name));
        for (from, name) in from.iter().zip(names) {
            fs::create_dir(from).unwrap();
            fs::write(from.join(name), from.as_os_str().as_bytes()).unwrap();
        }
        let pairs = from.into_iter().zip([scene.destination.clone(), second]).collect();
        Merged { scene, pairs }
    }

    /// Contents of the file of a source.
    fn new_file(&self, source: usize) -> Shape {
        Shape::File(self.pairs[source].0.as_os_str().as_bytes().to_vec())
    }

    fn copy(&self, calls: &dyn TreeCalls, numbering: Numbering) -> Vec<Error> {
        let options = with(CopyOptions::new().backup(Backup::new().numbering(numbering)));
        let records = Records::default();
        run_by(calls, &self.pairs, &options, &records).1.unwrap();
        records.errors()
    }
}

#[test]
fn neither_a_backup_nor_a_copy_takes_the_place_of_the_other() {
    use Objection::{BackupIsCopy, NameOfBackup};
    for calls in every_system() {
        for (names, is_through_link, why, expected) in [
            (["a", "a~"], false, NameOfBackup, [("a", Some(0)), ("a~", None)]),
            (["a", "a~"], true, NameOfBackup, [("a", Some(0)), ("a~", None)]),
            (["a~", "a"], false, BackupIsCopy, [("a", None), ("a~", Some(0))]),
            (["a~", "a"], true, BackupIsCopy, [("a", None), ("a~", Some(0))]),
            (["a", "a"], false, BackupIsCopy, [("a", Some(0)), ("a~", None)]),
        ] {
            for numbering in [Numbering::Never, Numbering::IfThereAreSome] {
                let what = format!("{} {names:?} {is_through_link} {numbering:?}", calls.system());
                let merged = Merged::new(names, is_through_link);
                let errors = merged.copy(&*calls, numbering);
                let reasons: Vec<_> = errors.iter().map(Error::reason).collect();
                assert_eq!(reasons, [&Reason::Refused(why.clone())], "{what}");
                let shape = |source: Option<usize>| match source {
                    Some(source) => merged.new_file(source),
                    None => Shape::File(OLD.into()),
                };
                let expected = expected.map(|(name, source)| (name.into(), shape(source)));
                assert_eq!(shapes(&merged.scene.destination), expected.into(), "{what}");
            }
        }
    }
}

#[test]
fn a_backup_does_not_take_the_name_of_its_source() {
    for calls in every_system() {
        for numbering in [Numbering::Never, Numbering::IfThereAreSome, Numbering::Always] {
            let scene = Scene::empty();
            symlink(OLD, scene.path("a")).unwrap();
            symlink("new", scene.path("a~")).unwrap();
            let options = with(CopyOptions::new().backup(Backup::new().numbering(numbering)));
            let records = Records::default();
            let pairs = [(scene.path("a~"), scene.path("a"))];
            run_by(&*calls, &pairs, &options, &records).1.unwrap();
            let what = format!("{} {numbering:?}", calls.system());
            let errors = records.errors();
            let reasons: Vec<_> = errors.iter().map(Error::reason).collect();
            let is_numbered = numbering == Numbering::Always;
            let refused = (!is_numbered).then_some(&Reason::Refused(Objection::BackupIsSource));
            assert_eq!(reasons, Vec::from_iter(refused), "{what}");
            let target = |name: &str| fs::read_link(scene.path(name)).unwrap();
            assert_eq!(target("a~"), Path::new("new"), "{what}");
            assert_eq!(target("a"), Path::new(if is_numbered { "new" } else { OLD }), "{what}");
        }
    }
}

#[test]
fn a_numbered_backup_takes_a_free_name_beside_the_copies() {
    for calls in every_system() {
        for (numbering, there) in [(Numbering::Always, None), (Numbering::IfThereAreSome, Some(3))]
        {
            for names in [["a", "a~"], ["a~", "a"]] {
                let merged = Merged::new(names, false);
                let copy = &merged.scene.destination;
                let mut expected = BTreeMap::new();
                if let Some(number) = there {
                    let name = format!("a.~{number}~");
                    fs::write(copy.join(&name), name.as_bytes()).unwrap();
                    expected.insert(PathBuf::from(&name), Shape::File(name.into()));
                }
                assert_eq!(merged.copy(&*calls, numbering).len(), 0);
                let kept = PathBuf::from(format!("a.~{}~", there.unwrap_or(0) + 1));
                expected.insert(kept, Shape::File(OLD.into()));
                expected.insert(names[0].into(), merged.new_file(0));
                expected.insert(names[1].into(), merged.new_file(1));
                assert_eq!(shapes(copy), expected, "{} {names:?}", calls.system());
            }
        }
    }
}

#[test]
fn where_entries_get_no_further_name_backups_are_the_old_ones_renamed() {
    let tables =
        [(System::MacOs, decide::NO_LINK_MACOS), (System::Windows, decide::NO_LINK_WINDOWS)];
    for (system, codes) in tables {
        for code in codes {
            for (numbering, suffix) in [(Numbering::Never, "~"), (Numbering::Always, ".~1~")] {
                let options = with(CopyOptions::new().backup(Backup::new().numbering(numbering)));
                let (scene, fake) = (taken(), Fake::new(system).fail(Call::HardLink, code));
                assert_eq!(scene.errors(&fake, &options).len(), 0, "{system} {code}");
                let copy = shapes(&scene.destination);
                assert_eq!(copy.len(), 6, "{copy:?}");
                for name in NAMES {
                    let kept = PathBuf::from(format!("{name}{suffix}"));
                    assert_eq!(copy[&kept], old(name), "{system} {code}");
                }
            }
        }
    }
}

/// Options that add calls.
fn adding_calls() -> Vec<CopyOptions> {
    vec![
        CopyOptions::new().backup(Backup::new()),
        CopyOptions::new().backup(Backup::new().numbering(Numbering::Always)),
        CopyOptions::new().existing(Existing::Remove),
        CopyOptions::new().attributes_only(true).preserve(Preserve::default().timestamps(true)),
    ]
}

/// Each entry is the old or the new one, and each backup the old one.
fn assert_old_or_new(scene: &Scene, options: &CopyOptions, may_be_begun: bool, what: &str) {
    let (source, copy) = (shapes(&scene.source), shapes(&scene.destination));
    for (path, shape) in &copy {
        let name = path.to_str().unwrap();
        let is_new = source.get(path) == Some(shape) && !options.attributes_only
            || *shape == Shape::Link("file".into());
        let of = name.trim_end_matches('~').trim_end_matches(".~1");
        let is_backup = of != name && options.backup.is_some() && *shape == old(of);
        let is_begun = name.starts_with(".uncopy-") && may_be_begun;
        assert!(is_new || *shape == old(name) || is_backup || is_begun, "{what}: {name} {shape:?}");
    }
    for name in NAMES {
        assert!(copy.contains_key(Path::new(name)), "{what}: {name} is gone");
    }
}

#[test]
fn each_call_that_fails_leaves_old_or_new_entries_and_nothing_beside_them() {
    let calls = [
        Call::HardLink,
        Call::Rename,
        Call::Names,
        Call::RenameEntry,
        Call::MakeLink,
        Call::Create,
    ];
    for system in [System::MacOs, System::Windows, System::Other] {
        for options in adding_calls() {
            for call in calls {
                for nth in 0.. {
                    let what = format!("{system} {call:?} {nth} {options:?}");
                    let fake = Fake::new(system).fail_nth(call, nth, broken(system));
                    let scene = taken();
                    let errors = scene.errors(&fake, &with(options.clone()));
                    assert_old_or_new(&scene, &options, false, &what);
                    if errors.is_empty() {
                        break;
                    }
                    assert!(errors.iter().all(Error::is_at_destination), "{what}: {errors:?}");
                }
            }
        }
    }
}

#[test]
fn a_crash_after_each_call_leaves_old_or_new_entries() {
    for system in [System::MacOs, System::Windows, System::Other] {
        for options in adding_calls() {
            for calls in 0.. {
                let (scene, fake) = (taken(), Fake::new(system).crash_after(calls));
                let _ = scene.run(&fake, &with(options.clone()), &());
                let what = format!("{system} after {calls} {options:?}");
                assert_old_or_new(&scene, &options, fake.is_crashed(), &what);
                if !fake.is_crashed() {
                    assert!(calls > 5);
                    break;
                }
            }
        }
    }
}

#[test]
fn names_themselves_are_replaced_and_nothing_is_taken_from_what_had_them() {
    for calls in every_system() {
        let scene = taken();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&scene.source.join("file"), 0o640);
        set(&scene.destination.join("file"), 0o400);
        fs::create_dir(scene.source.join("inside")).unwrap();
        fs::write(scene.source.join("directory"), "1").unwrap();
        fs::create_dir(scene.destination.join("directory")).unwrap();
        let options = with(CopyOptions::new().existing(Existing::Remove));
        let errors = scene.errors(&*calls, &options);
        let reasons: Vec<_> = errors.iter().map(|error| error.reason().clone()).collect();
        assert_eq!(reasons, [Reason::Refused(Objection::IsDirectory)], "{}", calls.system());
        let mode = fs::metadata(scene.destination.join("file")).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o640 & !uncopy_os::name::umask().unwrap());
        for name in NAMES {
            let (copy, source) = (shapes(&scene.destination), shapes(&scene.source));
            assert_eq!(copy[Path::new(name)], source[Path::new(name)]);
        }
        // A link at the path of a single entry too.
        for (copy, kept) in [
            (CopyOptions::new().existing(Existing::Remove), None),
            (CopyOptions::new().backup(Backup::new()), Some("one~")),
        ] {
            let scene = Scene::new();
            fs::write(scene.path("target"), OLD).unwrap();
            symlink("target", scene.path("one")).unwrap();
            let options = with(copy).sources(Sources::Entries);
            let pairs = [(scene.source.join("file"), scene.path("one"))];
            run_by(&*calls, &pairs, &options, &()).1.unwrap();
            assert!(fs::symlink_metadata(scene.path("one")).unwrap().is_file());
            assert_eq!(fs::read_to_string(scene.path("target")).unwrap(), OLD);
            let mut names = vec!["one", "source", "target"];
            names.extend(kept);
            names.sort_unstable();
            assert_eq!(scene.siblings(), names);
        }
    }
}

/// Answers each question in the same way.
struct Person {
    answer: Consent,
    asked: Mutex<Vec<PathBuf>>,
    records: Records,
    /// Path at which a file appears at the first report.
    plants: Option<PathBuf>,
}

impl Person {
    fn new(answer: Consent) -> Person {
        Person { answer, asked: Mutex::default(), records: Records::default(), plants: None }
    }
}

impl JobObserver for Person {
    fn progress(&self, _: JobProgress) -> Control {
        if let Some(path) = self.plants.as_ref().filter(|path| !path.exists()) {
            fs::write(path, OLD).unwrap();
        }
        Control::Continue
    }

    fn may_replace(&self, destination: &Path) -> Consent {
        self.asked.lock().unwrap().push(destination.to_owned());
        self.answer
    }

    fn finished(&self, record: &Record) {
        self.records.finished(record);
    }
}

#[test]
fn who_observes_is_asked_once_before_each_entry_that_is_replaced() {
    let ask = CopyOptions::new().ask(true);
    for calls in every_system() {
        for answer in [Consent::Given, Consent::Refused, Consent::Stop] {
            for dry_run in [false, true] {
                let scene = taken();
                fs::write(scene.source.join("new"), "new").unwrap();
                let before = shapes(&scene.destination);
                let person = Person::new(answer);
                let options = with(ask.clone()).dry_run(dry_run);
                let (_, ended) = scene.run(&*calls, &options, &person);
                let what = format!("{} {answer:?} {dry_run}", calls.system());
                let mut expected = before.clone();
                let asked: Vec<_> = match answer {
                    _ if dry_run => Vec::new(),
                    Consent::Stop => vec!["file"],
                    Consent::Given | Consent::Refused => NAMES.into(),
                };
                if answer == Consent::Stop && !dry_run {
                    assert!(ended.unwrap_err().is_cancelled(), "{what}");
                } else {
                    ended.unwrap();
                    if !dry_run {
                        expected.insert("new".into(), Shape::File(b"new".into()));
                    }
                }
                if answer == Consent::Given && !dry_run {
                    expected = shapes(&scene.source);
                }
                assert_eq!(shapes(&scene.destination), expected, "{what}");
                let asked: Vec<_> = asked.iter().map(|name| scene.destination.join(name)).collect();
                assert_eq!(*person.asked.lock().unwrap(), asked, "{what}");
                let outcomes = person.records.outcomes(&scene.destination);
                let declined = outcomes.values().filter(|o| *o == Skip::Declined.code()).count();
                let expected = if answer == Consent::Refused { asked.len() } else { 0 };
                assert_eq!(declined, expected, "{what}: {outcomes:?}");
            }
        }
        // Nobody is asked about a new tree.
        let (scene, person) = (Scene::new(), Person::new(Consent::Stop));
        scene.run(&*calls, &with(ask.clone()), &person).1.unwrap();
        assert_eq!(shapes(&scene.destination), shapes(&scene.source));
        assert_eq!(person.asked.lock().unwrap().len(), 0);
        // Nor about what appears meanwhile, which stays.
        let scene = Scene::empty();
        fs::write(scene.source.join("file"), "new").unwrap();
        fs::create_dir(&scene.destination).unwrap();
        let plants = Some(scene.destination.join("file"));
        let person = Person { plants, ..Person::new(Consent::Given) };
        scene.run(&*calls, &with(ask.clone()), &person).1.unwrap();
        assert_eq!(fs::read_to_string(scene.destination.join("file")).unwrap(), OLD);
        let outcomes = person.records.outcomes(&scene.destination);
        assert_eq!(outcomes[Path::new("file")], Skip::Exists.code());
        assert_eq!(person.asked.lock().unwrap().len(), 0);
    }
    for (existing, ask, expected) in [
        (Existing::Keep, false, Skip::Exists.code()),
        (Existing::Replace, true, Skip::Exists.code()),
        (Existing::Replace, false, "failed"),
    ] {
        let scene = Scene::empty();
        symlink("file", scene.source.join("link")).unwrap();
        fs::create_dir(&scene.destination).unwrap();
        // EEXIST
        let fake = Fake::new(System::MacOs).fail(Call::MakeLink, 17);
        let records = Records::default();
        let options = with(CopyOptions::new().existing(existing).ask(ask));
        scene.run(&fake, &options, &records).1.unwrap();
        assert_eq!(records.outcomes(&scene.destination)[Path::new("link")], expected);
    }
}

#[test]
fn attributes_alone_leave_bytes_and_keep_names_of_one_file() {
    for calls in every_system() {
        let keeps_mode = calls.system() != System::Windows;
        let preserve = Preserve::default().timestamps(true).mode(keeps_mode);
        let options = with(CopyOptions::new().attributes_only(true).preserve(preserve));
        let scene = taken();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = scene.source.join("file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        fs::write(scene.source.join("new"), "new").unwrap();
        for name in ["file", "new"] {
            File::open(scene.source.join(name)).unwrap().set_modified(time).unwrap();
        }
        let copy = |name| scene.destination.join(name);
        let before = inode(&copy("file"));
        for _ in 0..2 {
            assert_eq!(scene.errors(&*calls, &options).len(), 0);
            let mut expected: BTreeMap<PathBuf, Shape> =
                [("file", OLD), ("second", OLD), ("new", "")]
                    .map(|(name, bytes)| (name.into(), Shape::File(bytes.into())))
                    .into();
            expected.insert("link".into(), Shape::Link("file".into()));
            assert_eq!(shapes(&scene.destination), expected, "{}", calls.system());
            assert_eq!((inode(&copy("file")), inode(&copy("second"))), (before, before));
            for name in ["file", "new"] {
                let found = fs::metadata(copy(name)).unwrap();
                assert_eq!(found.modified().unwrap(), time, "{} {name}", calls.system());
                assert!(!keeps_mode || name == "new" || found.mode() & 0o777 == 0o640);
            }
        }
        let scene = Scene::new();
        assert_eq!(scene.errors(&*calls, &options).len(), 0);
        let mut expected = shapes(&scene.source);
        for shape in expected.values_mut() {
            if let Shape::File(bytes) = shape {
                bytes.clear();
            }
        }
        assert_eq!(shapes(&scene.destination), expected, "{}", calls.system());
    }
}
