mod seldom;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::stale::{Kind, Register, temporary_name};
use uncopy_os::follow;

const NAME: &str = "destination";

/// Destination and source of a test.
struct Scene {
    _home: tempfile::TempDir,
    to: PathBuf,
    from: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let (to, from) = (home.path().join("to"), home.path().join("from"));
        fs::create_dir_all(to.join("a/b")).unwrap();
        fs::create_dir_all(from.join("a/b")).unwrap();
        Scene { _home: home, to, from }
    }

    fn temporary(&self, path: &str, kind: Kind) -> PathBuf {
        self.to.join(path).join(temporary_name(OsStr::new(NAME), kind).unwrap())
    }

    fn register(&self) -> Register {
        Register::new(Arc::new(follow::open_root(&self.to).unwrap()), OsStr::new(NAME))
    }

    /// Records an existing file or directory.
    fn note(&self, register: &Register, path: &Path) {
        let above = path.parent().unwrap();
        let parent = follow::open_root(above).unwrap();
        let stat = directory::stat_name(&parent, path.file_name().unwrap()).unwrap();
        let below = || above.strip_prefix(&self.to).unwrap().to_owned();
        std::mem::forget(register.note(below, path.file_name().unwrap(), &stat));
    }

    /// Makes the record of a killed run: it stays, and its lock is gone.
    fn killed(&self, register: Register) -> PathBuf {
        register.keep();
        drop(register);
        self.records().pop().unwrap()
    }

    fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.to).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "record")).collect()
    }

    /// Names that the sweep reports.
    fn sweep(&self) -> Vec<OsString> {
        let to = follow::open_root(&self.to).unwrap();
        let from = follow::open_root(&self.from).unwrap();
        sweep(to.as_fd(), &|path, name| look_up(from.as_fd(), path, name))
            .into_iter()
            .map(|unproven| unproven.name)
            .collect()
    }
}

#[test]
fn what_a_record_shows_goes_and_the_record_with_it() {
    let scene = Scene::new();
    let register = scene.register();
    let file = scene.temporary("", Kind::File);
    let below = scene.temporary("a/b", Kind::File);
    let tree = scene.temporary("", Kind::Tree);
    fs::write(&file, "half").unwrap();
    fs::write(&below, "half").unwrap();
    fs::create_dir_all(tree.join("x/y")).unwrap();
    fs::write(tree.join("x/y/z"), "half").unwrap();
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o500)).unwrap();
    let link = scene.temporary("a", Kind::File);
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    for path in [&file, &below, &tree, &link] {
        scene.note(&register, path);
    }
    let locked = [&file, &tree].map(|path| {
        let locked = fs::File::open(path).unwrap();
        locked.lock().unwrap();
        locked
    });
    assert_eq!(scene.sweep(), [] as [OsString; 0], "its run lives");
    assert!(file.exists() && below.exists() && tree.exists() && link.is_symlink());
    drop(locked);
    let record = scene.killed(register);
    assert_eq!(scene.sweep(), [] as [OsString; 0]);
    for path in [&file, &below, &tree, &record] {
        assert!(!path.exists(), "{}", path.display());
    }
    assert!(!link.is_symlink());
}

#[test]
fn a_run_that_ends_takes_its_record_with_it() {
    let scene = Scene::new();
    let register = scene.register();
    register.prepare();
    assert_eq!(scene.records().len(), 1);
    assert_eq!(fs::metadata(&scene.records()[0]).unwrap().mode() & 0o7777, 0o600);
    // Another user's file took its name.
    let record = scene.records().pop().unwrap();
    fs::remove_file(&record).unwrap();
    fs::write(&record, "mine").unwrap();
    drop(register);
    assert_eq!(fs::read(&record).unwrap(), b"mine");
    let register = scene.register();
    fs::remove_file(&record).unwrap();
    register.prepare();
    register.end();
    assert_eq!(scene.records(), [] as [PathBuf; 0]);
    drop(register.note(PathBuf::new, OsStr::new("x"), &file::stat(std::io::stdin()).unwrap()));
    assert_eq!(scene.records(), [] as [PathBuf; 0], "it is over");
    drop(scene.register());
    assert_eq!(scene.records(), [] as [PathBuf; 0], "no name was made");
}

#[test]
fn slots_are_used_again() {
    let scene = Scene::new();
    let register = scene.register();
    let file = scene.temporary("", Kind::File);
    fs::write(&file, "x").unwrap();
    let stat = directory::stat_path(&file).unwrap();
    for _ in 0..100 {
        let first = register.note(PathBuf::new, file.file_name().unwrap(), &stat);
        let second = register.note(|| "a".into(), file.file_name().unwrap(), &stat);
        drop((first, second));
    }
    assert!(fs::metadata(&scene.records()[0]).unwrap().len() <= format::offset(2));
    let unborn = Stat { birth: None, ..stat.clone() };
    let elsewhere = Stat { device: (9, 9), ..stat };
    let length = || fs::metadata(&scene.records()[0]).unwrap().len();
    let before = (length(), fs::read(&scene.records()[0]).unwrap());
    for stat in [unborn, elsewhere] {
        drop(register.note(PathBuf::new, file.file_name().unwrap(), &stat));
    }
    assert_eq!((length(), fs::read(&scene.records()[0]).unwrap()), before, "nothing is noted");
}

/// Each case changes a killed run's record or leftover so that nothing may be removed.
type Change = (&'static str, fn(&Scene, record: &Path, left: &Path));

const CHANGES: [Change; 9] = [
    ("a copy of the record", |_, record, _| {
        let copy = record.with_extension("copy");
        fs::copy(record, &copy).unwrap();
        fs::rename(copy, record).unwrap();
    }),
    ("the record has another name", |scene, record, _| {
        fs::hard_link(record, scene.from.join("link")).unwrap();
    }),
    ("a link to the record", |scene, record, _| {
        let moved = scene.from.join("moved");
        fs::rename(record, &moved).unwrap();
        std::os::unix::fs::symlink(moved, record).unwrap();
    }),
    ("others may read the record", |_, record, _| {
        fs::set_permissions(record, fs::Permissions::from_mode(0o640)).unwrap();
    }),
    ("the record is endless", |_, record, _| {
        let file = fs::OpenOptions::new().write(true).open(record).unwrap();
        file.set_len(1 << 40).unwrap();
    }),
    ("the record is empty, as after a power cut", |_, record, _| {
        fs::write(record, "").unwrap();
    }),
    ("the slot is damaged", |_, record, _| {
        let file = fs::OpenOptions::new().write(true).open(record).unwrap();
        file.write_all_at(&[0xff], format::offset(0) + 3).unwrap();
    }),
    ("another file has the name", |_, _, left| {
        fs::remove_file(left).unwrap();
        // The inode number may be reused.
        fs::write(left, "mine").unwrap();
    }),
    ("a copy has the name", |scene, _, left| {
        let copy = scene.from.join("copy");
        fs::copy(left, &copy).unwrap();
        fs::rename(copy, left).unwrap();
    }),
];

#[test]
fn in_doubt_nothing_is_removed_and_the_entry_is_reported() {
    for (what, change) in CHANGES {
        let scene = Scene::new();
        let register = scene.register();
        let left = scene.temporary("", Kind::File);
        fs::write(&left, "half").unwrap();
        scene.note(&register, &left);
        let record = scene.killed(register);
        // Times of birth have the resolution of the kernel's clock tick.
        std::thread::sleep(std::time::Duration::from_millis(20));
        change(&scene, &record, &left);
        let reported = scene.sweep();
        assert!(left.exists(), "{what}");
        assert!(reported.contains(&left.file_name().unwrap().to_owned()), "{what}: {reported:?}");
        // Reported again, as long as it exists.
        assert_eq!(scene.sweep().len(), reported.len(), "{what}");
    }
}

/// Files, links and directories with contents, with all kinds of names and without a record.
#[test]
fn a_name_shows_nothing() {
    for kind in Kind::ALL {
        let scene = Scene::new();
        let paths: Vec<PathBuf> = (0..6).map(|_| scene.temporary("", kind)).collect();
        fs::write(&paths[0], "mine").unwrap();
        fs::write(&paths[1], "").unwrap();
        std::os::unix::fs::symlink("nowhere", &paths[2]).unwrap();
        fs::create_dir(&paths[3]).unwrap();
        fs::write(paths[3].join("mine"), "mine").unwrap();
        fs::hard_link(&paths[0], &paths[4]).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &paths[5], 0o600.into()).unwrap();
        let mut reported = scene.sweep();
        reported.sort();
        let mut names: Vec<_> =
            paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        names.sort();
        assert_eq!(reported, names, "{kind:?}");
        assert!(paths.iter().all(|path| path.symlink_metadata().is_ok()), "{kind:?}");
        // Entries that the source has too are no leftovers.
        for path in &paths {
            fs::write(scene.from.join(path.file_name().unwrap()), "").unwrap();
        }
        assert_eq!(scene.sweep(), [] as [OsString; 0], "{kind:?}");
    }
}

#[test]
fn what_the_source_has_too_stays_though_a_record_shows_it() {
    for of_record in [false, true] {
        let scene = Scene::new();
        let register = scene.register();
        let left = scene.temporary("a/b", Kind::File);
        fs::write(&left, "half").unwrap();
        scene.note(&register, &left);
        let record = scene.killed(register);
        let theirs = if of_record { &record } else { &left };
        fs::write(scene.from.join(theirs.strip_prefix(&scene.to).unwrap()), "x").unwrap();
        scene.sweep();
        assert!(left.exists(), "{of_record}");
        assert_eq!(record.exists(), of_record, "nobody goes by it later");
    }
}

#[test]
fn only_a_held_lock_says_that_a_run_is_at_work() {
    let scene = Scene::new();
    let to = follow::open_root(&scene.to).unwrap();
    let at_work = |path: &Path| claim(to.as_fd(), path.file_name().unwrap()).is_none();
    for kind in Kind::ALL {
        let file = scene.temporary("", kind);
        fs::write(&file, "x").unwrap();
        assert!(!at_work(&file));
        let locked = fs::File::open(&file).unwrap();
        locked.lock().unwrap();
        assert!(at_work(&file), "{kind:?}");
    }
    let locked = fs::File::create(scene.to.join("x")).unwrap();
    locked.lock().unwrap();
    assert!(!at_work(&scene.to.join("x")), "nobody of us has such a name");
    let link = scene.temporary("", Kind::File);
    std::os::unix::fs::symlink("x", &link).unwrap();
    assert!(!at_work(&link));
    assert!(!at_work(&scene.temporary("", Kind::File)), "it is not there");
}

#[test]
fn what_is_claimed_cannot_be_locked_until_it_is_dropped() {
    let scene = Scene::new();
    let to = follow::open_root(&scene.to).unwrap();
    for kind in Kind::ALL {
        let path = scene.temporary("", kind);
        fs::create_dir(&path).unwrap();
        let claimed = claim(to.as_fd(), path.file_name().unwrap());
        let directory = fs::File::open(&path).unwrap();
        assert!(directory.try_lock().is_err(), "{kind:?}");
        drop(claimed);
        directory.try_lock().unwrap();
    }
}

#[test]
fn what_was_intended_goes_if_it_is_empty_and_ones_own() {
    type Make = fn(&Path);
    let empty: Make = |path| {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    };
    let rows: [(Make, bool); 5] = [
        (empty, true),
        (|path| fs::write(path, "").unwrap(), false),
        (|path| std::os::unix::fs::symlink("x", path).unwrap(), false),
        (|path| fs::create_dir(path).unwrap(), false),
        (
            |path| {
                fs::create_dir(path).unwrap();
                fs::write(path.join("x"), "mine").unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            },
            false,
        ),
    ];
    for kind in [Kind::File, Kind::Tree] {
        for (make, goes) in rows {
            let scene = Scene::new();
            let path = scene.temporary("a", kind);
            let register = scene.register();
            let below = || "a".into();
            std::mem::forget(register.intend(below, path.file_name().unwrap()));
            make(&path);
            let record = scene.killed(register);
            scene.sweep();
            assert_eq!(path.symlink_metadata().is_err(), goes, "{kind:?}");
            assert!(!record.exists());
        }
    }
    // One directory that is older than the record, and one that the source has too.
    for is_older in [true, false] {
        let scene = Scene::new();
        let path = scene.temporary("a", Kind::File);
        let other = scene.from.join("a").join(path.file_name().unwrap());
        if is_older {
            empty(&path);
            // Times of birth come from a clock that ticks every 10 ms at the slowest (`CONFIG_HZ`).
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        let register = scene.register();
        let below = || "a".into();
        std::mem::forget(register.intend(below, path.file_name().unwrap()));
        if !is_older {
            empty(&path);
            fs::write(other, "x").unwrap();
        }
        scene.killed(register);
        scene.sweep();
        assert!(path.exists(), "{is_older}");
    }
}
