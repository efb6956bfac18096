//! Options that other systems obey, played: what each does, and what it leaves after an error, a stop or a crash.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;
use crate::{Backup, Digest, IfChanged, Numbering, Phase, Preserve, RETRIES, Verify, digest};
use uncopy_core::{
    DigestedFrom, MetadataPart, NextStep, Objection, SourceDoubt, Unseen, VerifiedFrom,
};

const ALL: [System; 3] = [System::MacOs, System::Windows, System::Other];
const EIO: i32 = 5;

/// Every mechanism of every system but Linux.
fn mechanisms() -> impl Iterator<Item = (System, Mechanism)> {
    ALL.into_iter().flat_map(|system| {
        decide::mechanisms(system).iter().map(move |mechanism| (system, *mechanism))
    })
}

fn digest_of(algorithm: Digest, bytes: &[u8]) -> String {
    digest::of_bytes(algorithm, bytes, DigestedFrom::Streamed).unwrap().value
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

impl Scene {
    fn copied(&self, calls: &Fake, options: &CopyOptions) -> Receipt {
        self.copy(calls, options).unwrap().into_receipt().unwrap()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn old(&self) -> String {
        fs::read_to_string(&self.destination).unwrap()
    }
}

#[test]
fn a_copy_is_read_back_after_the_flush_and_before_it_has_its_name() {
    for (system, mechanism) in mechanisms() {
        for digest in [None, Some(Digest::Xxh3)] {
            let scene = Scene::new(true);
            let fake = until(mechanism, system);
            let mut options = CopyOptions::new().verify(Digest::Xxh3);
            options.digest = digest;
            let receipt = scene.copied(&fake, &options);
            scene.assert_copied(mechanism.name());
            let found = receipt.verification.unwrap();
            let expected = digest_of(Digest::Xxh3, &scene.contents);
            assert_eq!((found.algorithm, &found.digest), ("xxh3", &expected));
            assert_eq!(found.from, VerifiedFrom::Cache);
            let made = fake.made();
            let last = |found: fn(&Call) -> bool| made.iter().rposition(found).unwrap();
            let (flushed, read) = (last(|c| *c == Call::Flush), last(|c| *c == Call::Read));
            let named = last(|call| matches!(call, Call::Place(_)));
            assert!(flushed < read && read < named, "{system} {mechanism}: {made:?}");
            let streams = digest.is_some() && mechanism == Mechanism::ReadWrite;
            let reads = made[flushed..].iter().filter(|call| **call == Call::Read).count();
            // Bytes that went through the program are not read again.
            assert_eq!(reads, if streams { 1 } else { 2 }, "{system} {mechanism}");
            if let Some(digest) = receipt.source_digest {
                let from =
                    if streams { DigestedFrom::Streamed } else { DigestedFrom::ReadFromCopy };
                assert_eq!((digest.value, digest.from), (expected, from));
            }
        }
    }
}

#[test]
fn a_copy_with_another_byte_is_not_put_in_place() {
    for (system, mechanism) in mechanisms() {
        for has_old in [false, true] {
            let scene = Scene::new(has_old);
            let fake = until(mechanism, system).spoil();
            let error = scene.copy(&fake, &CopyOptions::new().verify(Digest::Xxh3)).unwrap_err();
            let Reason::VerificationFailed { algorithm, expected, found, doubt } = error.reason()
            else {
                panic!("{error}")
            };
            assert_eq!((*algorithm, expected), ("xxh3", &digest_of(Digest::Xxh3, &scene.contents)));
            assert_ne!(expected, found);
            // The source was read again.
            assert_eq!(*doubt, Some(SourceDoubt::Unseen(Unseen::NotLooked)));
            scene.assert_untouched(has_old, mechanism.name());
        }
    }
    // Here it was not.
    let scene = Scene::new(true);
    let fake = until(Mechanism::ReadWrite, System::MacOs).spoil();
    let options = CopyOptions::new().verify(Digest::Xxh3).digest(Digest::Xxh3);
    let error = scene.copy(&fake, &options).unwrap_err();
    assert!(matches!(error.reason(), Reason::VerificationFailed { doubt: None, .. }), "{error}");
    scene.assert_untouched(true, "streamed");
}

#[test]
fn a_difference_after_a_change_of_the_source_is_that_change() {
    let scene = Scene::new(true);
    let mut observer = |progress: Progress| {
        if progress.phase == Phase::Flushing {
            fs::write(&scene.source, "changed").unwrap();
        }
        Control::Continue
    };
    let options = CopyOptions::new().verify(Digest::Xxh3);
    let error = scene.observed(&Fake::new(System::MacOs), &options, &mut observer).unwrap_err();
    assert!(error.is_source_changed(), "{error}");
    assert_eq!(scene.old(), OLD);
}

#[test]
fn a_digest_is_that_of_the_bytes_by_whichever_mechanism() {
    for (system, mechanism) in mechanisms() {
        for algorithm in [Digest::Blake3, Digest::Sha256, Digest::Xxh3] {
            if !algorithm.is_built_in() {
                continue;
            }
            let scene = Scene::new(false);
            let options = CopyOptions::new().digest(algorithm);
            let found = scene.copied(&until(mechanism, system), &options).source_digest.unwrap();
            assert_eq!(found.value, digest_of(algorithm, &scene.contents), "{system} {mechanism}");
            let streams = mechanism == Mechanism::ReadWrite;
            assert_eq!(found.from == DigestedFrom::Streamed, streams, "{system} {mechanism}");
        }
    }
    // Holes in front, between and behind count as zeros.
    for (start, length) in [(0, 0), (1 << 20, 3 << 20), (3 << 20, 4 << 20)] {
        let scene = Scene::of(Vec::new(), false);
        let file = File::options().write(true).open(&scene.source).unwrap();
        file.set_len(length).unwrap();
        if length > 0 {
            file.write_all_at(b"data", start).unwrap();
        }
        let options = CopyOptions::new().digest(Digest::Xxh3).verify(Digest::Xxh3);
        let fake = until(Mechanism::ReadWrite, System::MacOs);
        let found = scene.copied(&fake, &options).source_digest.unwrap();
        let expected = digest_of(Digest::Xxh3, &fs::read(&scene.source).unwrap());
        assert_eq!((found.value, found.from), (expected, DigestedFrom::Streamed), "{start}");
    }
}

type Change = fn(&mut CopyOptions);

/// Options that add calls, with their name.
const OBEYED: [(&str, Change); 7] = [
    ("verify", |o| (o.verify, o.digest) = (Some(Verify::from(Digest::Xxh3)), Some(Digest::Xxh3))),
    ("digest", |o| o.digest = Some(Digest::Xxh3)),
    ("remove", |o| o.existing = Existing::Remove),
    ("backup", |o| o.backup = Some(Backup::new())),
    ("numbered", |o| o.backup = Some(Backup::new().numbering(Numbering::Always))),
    ("preserve", |o| o.preserve = Preserve::default().mode(true).timestamps(true)),
    ("all", |o| {
        o.verify = Some(Digest::Xxh3.into());
        o.backup = Some(Backup::new());
        o.preserve.timestamps = true;
        o.durable = true;
    }),
];

fn obeyed() -> impl Iterator<Item = (&'static str, CopyOptions)> {
    OBEYED.into_iter().map(|(what, change)| {
        let mut options = CopyOptions::new();
        change(&mut options);
        (what, options)
    })
}

#[test]
fn each_call_that_fails_leaves_the_old_file_and_nothing_beside_it() {
    let calls = [
        Call::Read,
        Call::Flush,
        Call::HardLink,
        Call::Rename,
        Call::Names,
        Call::Create,
        Call::Write,
        Call::OpenMade,
    ];
    for system in ALL {
        for (what, options) in obeyed() {
            for call in calls {
                for nth in 0.. {
                    let what = format!("{system} {what} {call:?} {nth}");
                    let scene = Scene::of(vec![7; 9000], true);
                    let fake = Fake::new(system).fail_nth(call, nth, EIO);
                    let Err(error) = scene.copy(&fake, &options) else {
                        break;
                    };
                    let Reason::OtherSystem { error } = error.reason() else { panic!("{error}") };
                    assert_eq!(error.get().raw_os_error(), Some(EIO), "{what}");
                    scene.assert_untouched(true, &what);
                }
            }
        }
    }
}

#[test]
fn a_stop_at_each_report_leaves_the_old_file_and_nothing_beside_it() {
    for (system, mechanism) in mechanisms() {
        for (what, options) in obeyed() {
            for stop_at in 0.. {
                let what = format!("{system} {mechanism} {what} at {stop_at}");
                let scene = Scene::of(vec![7; 9000], true);
                let mut reports = 0;
                let mut observer = |_: Progress| {
                    reports += 1;
                    if reports > stop_at { Control::Stop } else { Control::Continue }
                };
                match scene.observed(&until(mechanism, system), &options, &mut observer) {
                    Ok(_) => break,
                    Err(error) => assert!(error.is_cancelled(), "{what}: {error}"),
                }
                scene.assert_untouched(true, &what);
            }
        }
    }
}

#[test]
fn a_crash_after_each_call_leaves_the_old_file_or_the_new_one_under_its_name() {
    for (system, mechanism) in mechanisms() {
        for (what, options) in obeyed() {
            let mut news = 0;
            for calls in 0.. {
                let what = format!("{system} {mechanism} {what} after {calls}");
                let scene = Scene::of(vec![7; 9000], true);
                let fake = until(mechanism, system).crash_after(calls);
                let _ = scene.copy(&fake, &options);
                let found = fs::read(&scene.destination).expect(&what);
                let is_new = found == scene.contents;
                assert!(is_new || found == OLD.as_bytes(), "{what}: a mixture");
                news += usize::from(is_new);
                for name in scene.names() {
                    match name.as_str() {
                        "source" | "copy" => {}
                        "copy~" | "copy.~1~" => {
                            let kept = fs::read(scene.path_of(&name)).unwrap();
                            assert!(options.backup.is_some() && kept == OLD.as_bytes(), "{what}");
                        }
                        name => assert!(name.starts_with(".uncopy-"), "{what}: {name}"),
                    }
                }
                if !fake.is_crashed() {
                    assert!(is_new, "{what}");
                    assert!(scene.names().iter().all(|name| !name.starts_with('.')), "{what}");
                    break;
                }
            }
            assert!(news >= 1);
        }
    }
}

#[test]
fn a_source_that_changes_is_copied_again() {
    for system in ALL {
        for changes in [0, 1, RETRIES, RETRIES + 1] {
            let scene = Scene::new(true);
            let (mut begun, mut contents) = (0, scene.contents.clone());
            let mut observer = |progress: Progress| {
                if progress.done_bytes == 0 {
                    begun += 1;
                    if begun <= changes {
                        contents.push(1);
                        fs::write(&scene.source, &contents).unwrap();
                    }
                }
                Control::Continue
            };
            let options = CopyOptions::new().if_changed(IfChanged::Retry).allow(Allow::ReadWrite);
            let copied = scene.observed(&Fake::new(system), &options, &mut observer);
            match copied {
                Ok(outcome) => {
                    assert!(changes <= RETRIES, "{system} {changes}");
                    let receipt = outcome.into_receipt().unwrap();
                    assert_eq!((receipt.retries, receipt.source_changed), (changes, false));
                    assert!(fs::read(&scene.destination).unwrap() == contents);
                }
                Err(error) => {
                    assert!(error.is_source_changed() && changes > RETRIES, "{error}");
                    assert_eq!(scene.old(), OLD);
                }
            }
            assert_eq!(scene.names(), ["copy", "source"]);
        }
    }
}

#[test]
fn the_name_itself_is_replaced_and_nothing_is_taken_from_the_old_file() {
    for system in ALL {
        let remove = CopyOptions::new().existing(Existing::Remove);
        // Nobody may write to it.
        let scene = Scene::new(true);
        fs::set_permissions(&scene.source, fs::Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(&scene.destination, fs::Permissions::from_mode(0o400)).unwrap();
        scene.copied(&Fake::new(system), &remove);
        scene.assert_copied(system.name());
        let mode = fs::metadata(&scene.destination).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o640 & !uncopy_os::name::umask().unwrap(), "{system}");
        // A link, to nothing or to something, is replaced, and what it leads to stays.
        for target in ["missing", "target"] {
            let scene = Scene::new(false);
            fs::write(scene.path_of("target"), OLD).unwrap();
            symlink(target, &scene.destination).unwrap();
            scene.copied(&Fake::new(system), &remove);
            assert!(!fs::symlink_metadata(&scene.destination).unwrap().is_symlink());
            assert!(fs::read(&scene.destination).unwrap() == scene.contents);
            assert_eq!(fs::read_to_string(scene.path_of("target")).unwrap(), OLD);
        }
        // A further name of the source becomes a file of its own.
        let scene = Scene::new(false);
        fs::hard_link(&scene.source, &scene.destination).unwrap();
        scene.copied(&Fake::new(system), &remove);
        scene.assert_copied(system.name());
        let number = |path| fs::metadata(path).unwrap().ino();
        assert_ne!(number(&scene.source), number(&scene.destination));
        // The source itself and a directory are not replaced.
        let scene = Scene::new(false);
        let copied = |to: &Path| {
            let (fake, context) = (Fake::new(system), CopyContext::new());
            copy_by(&fake, &scene.source, to, &remove, &context, &mut ()).unwrap_err()
        };
        assert!(copied(&scene.source).is_same_file());
        fs::create_dir(&scene.destination).unwrap();
        assert!(matches!(copied(&scene.destination).reason(), Reason::NotRegular { .. }));
        assert!(fs::read(&scene.source).unwrap() == scene.contents);
    }
}

#[test]
fn the_old_file_is_kept_as_a_backup() {
    for system in ALL {
        for (numbering, there, kept) in [
            (Numbering::Never, &[][..], "copy.old"),
            (Numbering::Never, &["copy.old", "copy.~1~"], "copy.old"),
            (Numbering::Always, &["copy.~9~", "copy.~10~", "copy.~011~"], "copy.~11~"),
            (Numbering::IfThereAreSome, &[], "copy.old"),
            (Numbering::IfThereAreSome, &["copy.~3~"], "copy.~4~"),
        ] {
            let scene = Scene::new(true);
            for name in there {
                fs::write(scene.path_of(name), *name).unwrap();
            }
            let backup = Backup::new().numbering(numbering).suffix(".old");
            scene.copied(&Fake::new(system), &CopyOptions::new().backup(backup));
            assert!(fs::read(&scene.destination).unwrap() == scene.contents, "{system}");
            assert_eq!(fs::read_to_string(scene.path_of(kept)).unwrap(), OLD, "{system} {kept}");
            let mut names: Vec<_> = there.iter().map(ToString::to_string).collect();
            names.extend(["copy", "source", kept].map(String::from));
            names.sort();
            names.dedup();
            assert_eq!(scene.names(), names, "{system}");
        }
        // Nothing to keep.
        let scene = Scene::new(false);
        scene.copied(&Fake::new(system), &CopyOptions::new().backup(Backup::new()));
        scene.assert_copied(system.name());
        // The source would be lost.
        let scene = Scene::new(true);
        fs::hard_link(&scene.source, scene.path_of("copy~")).unwrap();
        let options = CopyOptions::new().backup(Backup::new());
        let error = scene.copy(&Fake::new(system), &options).unwrap_err();
        assert_eq!(*error.reason(), Reason::Refused(Objection::BackupIsSource));
        assert_eq!(scene.old(), OLD);
    }
}

/// The link by which the source is named became the old file.
#[test]
fn a_backup_does_not_take_the_name_of_a_link_to_its_source() {
    for system in ALL {
        for (named, target, works) in
            [("copy~", "source", false), ("source", "source", true), ("copy~", "copy", false)]
        {
            let scene = Scene::new(true);
            symlink(target, scene.path_of("copy~")).unwrap();
            let options = CopyOptions::new().backup(Backup::new());
            let (fake, context) = (Fake::new(system), CopyContext::new());
            let (from, to) = (scene.path_of(named), &scene.destination);
            let copied = copy_by(&fake, &from, to, &options, &context, &mut ());
            let what = format!("{system} {named} {target}: {copied:?}");
            assert_eq!(copied.is_ok(), works, "{what}");
            let link = fs::read_link(scene.path_of("copy~"));
            assert_eq!(link.ok().as_deref(), (!works).then_some(Path::new(target)), "{what}");
            assert!(works || scene.old() == OLD, "{what}");
        }
    }
}

#[test]
fn too_long_a_name_of_a_backup_is_refused_as_that() {
    for system in ALL {
        for (numbering, length, there, works) in [
            (Numbering::Never, 251, None, true),
            (Numbering::Never, 252, None, false),
            (Numbering::Always, 251, None, true),
            (Numbering::Always, 252, None, false),
            (Numbering::Always, 251, Some(".~9~"), false),
            (Numbering::IfThereAreSome, 251, None, true),
            (Numbering::IfThereAreSome, 252, None, false),
        ] {
            let scene = Scene::new(false);
            let name = "c".repeat(length);
            let to = scene.path_of(&name);
            fs::write(&to, OLD).unwrap();
            if let Some(there) = there {
                fs::write(scene.path_of(&format!("{name}{there}")), "older").unwrap();
            }
            let names = scene.names();
            let backup = Backup::new().numbering(numbering).suffix(".old");
            let options = CopyOptions::new().backup(backup);
            let (fake, context) = (Fake::new(system), CopyContext::new());
            let copied = copy_by(&fake, &scene.source, &to, &options, &context, &mut ());
            let what = format!("{system} {numbering:?} {length} {there:?}: {copied:?}");
            let Err(error) = copied else {
                assert!(works, "{what}");
                continue;
            };
            assert!(!works, "{what}");
            assert_eq!(*error.reason(), Reason::Refused(Objection::BackupNameTooLong), "{what}");
            assert_eq!((scene.names(), fs::read(&to).unwrap()), (names, OLD.into()), "{what}");
        }
    }
}

#[cfg(feature = "trees")]
#[test]
fn in_a_job_of_files_neither_a_backup_nor_a_copy_takes_the_place_of_the_other() {
    use crate::jobs::{JobOptions, Sources};
    for system in ALL {
        for (names, kept, lacks) in [
            (["copy", "copy~"], "copy~", Some(1)),
            (["copy~", "copy"], "copy", Some(1)),
            (["copy", "other~"], "copy~", None),
        ] {
            for numbering in [Numbering::Never, Numbering::IfThereAreSome] {
                let what = format!("{system} {names:?} {numbering:?}");
                let scene = Scene::new(true);
                let pairs =
                    names.map(|name| (scene.path_of(&format!("new {name}")), scene.path_of(name)));
                for (source, _) in &pairs {
                    fs::write(source, source.as_os_str().as_encoded_bytes()).unwrap();
                }
                let backup = Backup::new().numbering(numbering);
                let options = JobOptions::new().sources(Sources::Files);
                let options = options.copy(CopyOptions::new().backup(backup));
                let calls = Fake::new(system);
                let (summary, ended) =
                    super::super::jobs::copy_files_by(&calls, &pairs, &options, &());
                ended.unwrap();
                assert_eq!(summary.failed, u64::from(lacks.is_some()), "{what}");
                assert_eq!(fs::read_to_string(scene.path_of(kept)).unwrap(), OLD, "{what}");
                for (number, (source, copy)) in pairs.iter().enumerate() {
                    if lacks != Some(number) {
                        assert_eq!(fs::read(copy).unwrap(), fs::read(source).unwrap(), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn where_a_file_gets_no_further_link_the_backup_is_the_old_file_renamed() {
    let tables =
        [(System::MacOs, &decide::NO_LINK_MACOS), (System::Windows, &decide::NO_LINK_WINDOWS)];
    for (system, codes) in tables {
        for code in codes {
            for numbering in [Numbering::Never, Numbering::Always] {
                let scene = Scene::new(true);
                let backup = Backup::new().numbering(numbering);
                let fake = Fake::new(system).fail(Call::HardLink, *code);
                scene.copied(&fake, &CopyOptions::new().backup(backup));
                let kept = if numbering == Numbering::Never { "copy~" } else { "copy.~1~" };
                assert_eq!(fs::read_to_string(scene.path_of(kept)).unwrap(), OLD, "{code}");
                assert!(fs::read(&scene.destination).unwrap() == scene.contents, "{code}");
            }
        }
    }
}

#[test]
fn times_and_mode_of_the_source_are_kept_or_a_note_says_what_is_not() {
    for (system, mechanism) in mechanisms() {
        for has_old in [false, true] {
            let keeps_mode = system != System::Windows;
            let scene = Scene::new(has_old);
            fs::set_permissions(&scene.source, fs::Permissions::from_mode(0o4751)).unwrap();
            let file = File::open(&scene.source).unwrap();
            let times = fs::FileTimes::new().set_accessed(at(111)).set_modified(at(222));
            file.set_times(times).unwrap();
            let preserve = Preserve::default().timestamps(true).mode(keeps_mode);
            let options = CopyOptions::new().preserve(preserve).verify(Digest::Xxh3).durable(true);
            let fake = until(mechanism, system);
            let receipt = scene.copied(&fake, &options);
            let found = fs::metadata(&scene.destination).unwrap();
            assert_eq!(found.modified().unwrap(), at(222), "{system} {mechanism}");
            assert_eq!(found.accessed().unwrap(), at(111), "{system} {mechanism}");
            if keeps_mode {
                assert_eq!(found.mode() & 0o7777, 0o4751, "{system} {mechanism}");
                // Not before the file has its name, and flushed again after.
                let made = fake.made();
                let named = made.iter().position(|call| matches!(call, Call::Place(_))).unwrap();
                let behind = [Call::SetPermissions, Call::Flush, Call::FlushName];
                assert_eq!(made[named + 1..], behind, "{system} {mechanism}");
            }
            let kept = |note: &Note| matches!(note, Note::NotKeptElsewhere { .. });
            assert!(!receipt.notes.iter().any(kept), "{:?}", receipt.notes);
        }
    }
    for (call, what) in
        [(Call::SetTimes, MetadataPart::Times), (Call::SetPermissions, MetadataPart::Mode)]
    {
        let scene = Scene::new(false);
        let preserve = Preserve::default().timestamps(true).mode(true);
        let fake = Fake::new(System::MacOs).fail(call, 1);
        let receipt = scene.copied(&fake, &CopyOptions::new().preserve(preserve));
        scene.assert_copied("without them");
        let error = std::io::Error::from_raw_os_error(1).into();
        let note = Note::NotKeptElsewhere { what: what.clone(), error };
        assert!(receipt.notes.contains(&note), "{:?}", receipt.notes);
        assert_eq!(note.to_string().split(" could").next(), Some(what.to_string().as_str()));
    }
}

#[test]
fn attributes_alone_leave_the_bytes() {
    for system in ALL {
        let preserve = Preserve::default().timestamps(true).mode(system != System::Windows);
        let options = CopyOptions::new().attributes_only(true).preserve(preserve);
        for has_old in [false, true] {
            let scene = Scene::new(has_old);
            File::open(&scene.source).unwrap().set_modified(at(333)).unwrap();
            let receipt = scene.copied(&Fake::new(system), &options);
            let old = if has_old { OLD } else { "" };
            assert_eq!((scene.old().as_str(), receipt.bytes), (old, 0), "{system}");
            let found = fs::metadata(&scene.destination).unwrap();
            assert_eq!(found.modified().unwrap(), at(333), "{system}");
            assert_eq!(scene.names(), ["copy", "source"]);
        }
    }
}

#[test]
fn an_existing_file_is_written_where_it_is() {
    for (system, mechanism) in mechanisms() {
        for old in [vec![9; 2 * SIZE], vec![9; 10]] {
            let scene = Scene::new(false);
            fs::write(&scene.destination, &old).unwrap();
            let linked = tempfile::tempdir().unwrap();
            let linked = linked.path().join("linked");
            fs::hard_link(&scene.destination, &linked).unwrap();
            let options = CopyOptions::new().in_place(true).verify(Digest::Xxh3).durable(true);
            let receipt = scene.copied(&until(mechanism, system), &options);
            scene.assert_copied(mechanism.name());
            assert!(fs::read(&linked).unwrap() == scene.contents, "another file");
            assert_eq!(receipt.bytes_by(Mechanism::ReadWrite), SIZE as u64);
            assert!(receipt.notes.contains(&Note::InPlace), "{:?}", receipt.notes);
            assert!(receipt.notes.contains(&Note::VerifiedInPlace), "{:?}", receipt.notes);
        }
        // A new file is made as ever.
        let scene = Scene::new(false);
        let receipt = scene.copied(&until(mechanism, system), &CopyOptions::new().in_place(true));
        scene.assert_copied(mechanism.name());
        assert!(!receipt.notes.contains(&Note::InPlace));
    }
}

#[test]
fn where_the_source_has_a_hole_no_old_byte_stays() {
    let scene = Scene::of(Vec::new(), false);
    fs::write(&scene.destination, vec![9; 2 << 20]).unwrap();
    let file = File::options().write(true).open(&scene.source).unwrap();
    file.set_len(1 << 20).unwrap();
    let options = CopyOptions::new().in_place(true);
    let receipt = scene.copied(&Fake::new(System::MacOs), &options);
    assert!(fs::read(&scene.destination).unwrap() == vec![0; 1 << 20]);
    assert!(receipt.notes.contains(&Note::HolesFilled), "{:?}", receipt.notes);
}

#[test]
fn a_failure_in_place_removes_nothing_and_says_what_the_file_is() {
    let in_place = CopyOptions::new().in_place(true).verify(Digest::Xxh3).durable(true);
    for system in ALL {
        for call in [Call::Read, Call::Write, Call::SetLength, Call::Flush, Call::FlushName] {
            let scene = Scene::new(true);
            let error = scene.copy(&Fake::new(system).fail(call, EIO), &in_place).unwrap_err();
            assert_eq!(error.next_step(), Some(NextStep::CopyAgainInPlace), "{system} {call:?}");
            assert_eq!(scene.names(), ["copy", "source"], "{system} {call:?}");
        }
        let scene = Scene::new(true);
        let error = scene.copy(&Fake::new(system).spoil(), &in_place).unwrap_err();
        assert!(error.is_verification_failed(), "{error}");
        assert_eq!(error.next_step(), Some(NextStep::CopyAgainInPlace));
        assert_eq!(scene.names(), ["copy", "source"]);
        // Before its first byte is written it is as it was, and a new copy is no next step.
        let scene = Scene::new(true);
        let fake = Fake::new(system).fail(Call::OpenExisting, EIO);
        let error = scene.copy(&fake, &in_place).unwrap_err();
        assert!(error.is_at_destination() && error.operation() == "open for writing", "{error}");
        assert_ne!(error.next_step(), Some(NextStep::CopyAgainInPlace));
        scene.assert_untouched(true, system.name());
        for stop_at in 0.. {
            let scene = Scene::new(true);
            let mut reports = 0;
            let mut observer = |_: Progress| {
                reports += 1;
                if reports > stop_at { Control::Stop } else { Control::Continue }
            };
            let ended = scene.observed(&Fake::new(system), &in_place, &mut observer);
            assert_eq!(scene.names(), ["copy", "source"], "{system} {stop_at}");
            let Err(error) = ended else { break };
            assert!(error.is_cancelled(), "{error}");
        }
    }
    for (system, mechanism) in [
        (System::MacOs, Mechanism::Clonefile),
        (System::MacOs, Mechanism::Fcopyfile),
        (System::Windows, Mechanism::BlockClone),
        (System::Windows, Mechanism::CopyFile2),
    ] {
        let scene = Scene::new(true);
        let options = CopyOptions::new().in_place(true).allow(Allow::Only(mechanism));
        let error = scene.copy(&Fake::new(system), &options).unwrap_err();
        assert!(error.is_no_mechanism(), "{error}");
        scene.assert_untouched(true, mechanism.name());
    }
}

#[test]
fn who_observes_is_asked_once_before_a_file_is_replaced() {
    struct Person {
        answer: Consent,
        times: usize,
    }
    impl Observer for Person {
        fn progress(&mut self, _: Progress) -> Control {
            Control::Continue
        }

        fn may_replace(&mut self, destination: &Path) -> Consent {
            assert!(destination.ends_with("copy"));
            self.times += 1;
            self.answer
        }
    }
    for system in ALL {
        for answer in [Consent::Given, Consent::Refused, Consent::Stop] {
            for has_old in [false, true] {
                let scene = Scene::new(has_old);
                let mut asked = Person { answer, times: 0 };
                let options = CopyOptions::new().ask(true);
                let ended = scene.observed(&Fake::new(system), &options, &mut asked);
                assert_eq!(asked.times, usize::from(has_old));
                match (has_old, answer) {
                    (true, Consent::Refused) => {
                        let skipped = Outcome::Skipped { reason: Skip::Declined, renamed: None };
                        assert_eq!(ended.unwrap(), skipped);
                        scene.assert_untouched(true, system.name());
                    }
                    (true, Consent::Stop) => {
                        assert!(ended.unwrap_err().is_cancelled());
                        scene.assert_untouched(true, system.name());
                    }
                    _ => scene.assert_copied(system.name()),
                }
            }
        }
    }
}
