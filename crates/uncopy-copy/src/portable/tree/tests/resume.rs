//! Jobs that another run goes on with: killed after each call, stopped at each report, or out of room.

use super::*;
use crate::journal_name::journal_name;
use crate::portable::tree::root::is_tree_built;
use std::os::unix::fs::OpenOptionsExt;

const SYSTEMS: [System; 2] = [System::MacOs, System::Windows];

fn resuming() -> JobOptions {
    JobOptions::new().resume(true)
}

/// Stops the job after this number of entries.
struct StopAfter(u64);

impl JobObserver for StopAfter {
    fn progress(&self, progress: JobProgress) -> Control {
        if progress.entries < self.0 { Control::Continue } else { Control::Stop }
    }
}

/// Path of the journal of a scene.
fn journal(scene: &Scene) -> PathBuf {
    scene.path(journal_name(OsStr::new("copy")).to_str().unwrap())
}

/// Copies what another run left, and checks that it is all.
fn resume(scene: &Scene, calls: &dyn TreeCalls, is_merged: bool, what: &str) -> Summary {
    let (summary, ended) = scene.run(calls, &resuming(), &());
    ended.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((summary.failed, &summary.incomplete), (0, &None), "{what}");
    let mut found = shapes(&scene.destination);
    let mut wanted = expected(scene, Links::Preserve);
    if is_merged {
        for own in ["own", "a/own"] {
            wanted.insert(own.into(), Shape::File(b"own".to_vec()));
        }
        // Leftovers of a killed run in a directory that was there are not removed.
        found.retain(|path, _| !path.to_string_lossy().contains(".uncopy-"));
    }
    assert_eq!(found, wanted, "{what}");
    assert!(!journal(scene).exists(), "{what}");
    summary
}

#[test]
fn a_job_killed_after_each_call_is_gone_on_with() {
    for system in SYSTEMS {
        for is_merged in [false, true] {
            let mut resumed = 0;
            for calls in 0.. {
                let scene = Scene::new();
                let scene = if is_merged { scene.with_destination() } else { scene };
                let what = format!("{system} {is_merged} {calls}");
                // Each second time a further run is killed on its way too.
                let first = Fake::new(system).crash_after(calls);
                let _ = scene.run(&first, &resuming(), &());
                if !first.is_crashed() {
                    assert!(calls > 40, "{what}");
                    break;
                }
                if calls % 2 == 1 {
                    let second = Fake::new(system).crash_after(calls / 2);
                    let _ = scene.run(&second, &resuming(), &());
                }
                assert_whole(&scene, is_merged, &what);
                resumed += resume(&scene, &Fake::new(system), is_merged, &what).resumed;
            }
            // The last runs find all four files done.
            assert!(resumed >= 4, "{system} {is_merged}: {resumed}");
        }
    }
}

#[test]
fn what_is_done_is_not_written_again_unless_its_source_or_copy_has_changed() {
    let nothing = |_: &Path, _: &Path| {};
    let source = |source: &Path, _: &Path| fs::write(source.join("a/nothing"), "new").unwrap();
    let times = |source: &Path, _: &Path| {
        let file = File::options().write(true).open(source.join("a/nothing")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    };
    let copy = |_: &Path, tree: &Path| fs::write(tree.join("a/nothing"), "spoilt").unwrap();
    let gone = |_: &Path, tree: &Path| fs::remove_file(tree.join("a/nothing")).unwrap();
    type Change = dyn Fn(&Path, &Path);
    let changes: [(&str, &Change, u64); 5] = [
        ("nothing", &nothing, 3),
        ("its source", &source, 2),
        ("its source's times", &times, 2),
        ("its copy", &copy, 2),
        ("its copy's name", &gone, 2),
    ];
    for system in SYSTEMS {
        for (what, change, done) in changes {
            let scene = Scene::new();
            let (summary, ended) = scene.run(&Fake::new(system), &resuming(), &StopAfter(6));
            assert!(ended.unwrap_err().is_cancelled() && !scene.destination.exists());
            assert_eq!(summary.incomplete, None);
            let tree = scene.siblings().into_iter().find(|name| is_tree(name)).unwrap();
            change(&scene.source, &scene.directory.path().join(tree));
            let fake = Fake::new(system);
            let summary = resume(&scene, &fake, false, what);
            assert_eq!(summary.resumed, done, "{system}: {what}");
            let created = fake.made().iter().filter(|call| **call == Call::Create).count() as u64;
            assert_eq!(created, 4 - done, "{system}: {what}");
            assert_eq!(scene.siblings(), ["copy", "source"], "{system}: {what}");
        }
    }
}

fn is_tree(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(".tree"))
}

#[test]
fn a_journal_that_is_not_this_jobs_is_refused_and_nothing_changes() {
    type Change = fn(&Scene);
    type Check = fn(&Objection) -> bool;
    let cases: [(&str, Change, Check); 6] = [
        ("other options", |_| {}, |why| matches!(why, Objection::JournalOfOther { .. })),
        (
            "damage",
            |scene| {
                let mut bytes = fs::read(journal(scene)).unwrap();
                bytes[20] ^= 1;
                fs::write(journal(scene), bytes).unwrap();
            },
            |why| matches!(why, Objection::JournalDamaged { .. }),
        ),
        (
            "a copy",
            |scene| {
                let bytes = fs::read(journal(scene)).unwrap();
                fs::remove_file(journal(scene)).unwrap();
                // Holds the number of the journal's file.
                fs::write(scene.path("other"), "").unwrap();
                let mut new = File::options();
                let new = new.write(true).create_new(true).mode(0o600).open(journal(scene));
                std::io::Write::write_all(&mut new.unwrap(), &bytes).unwrap();
            },
            |why| matches!(why, Objection::JournalCopied { .. }),
        ),
        (
            "a link",
            |scene| {
                fs::rename(journal(scene), scene.path("elsewhere")).unwrap();
                symlink("elsewhere", journal(scene)).unwrap();
            },
            |why| matches!(why, Objection::JournalForeign { .. }),
        ),
        (
            "one that others may write",
            |scene| {
                let permissions = fs::Permissions::from_mode(0o622);
                fs::set_permissions(journal(scene), permissions).unwrap();
            },
            |why| matches!(why, Objection::JournalForeign { .. }),
        ),
        (
            "the user's own file",
            |scene| fs::write(journal(scene), "mine").unwrap(),
            |why| matches!(why, Objection::JournalDamaged { .. } | Objection::JournalCopied { .. }),
        ),
    ];
    for (what, change, is_expected) in cases {
        let scene = Scene::new();
        let fake = Fake::new(System::MacOs).fail(Call::CopyInto, ENOSPC);
        let _ = scene.run(&fake.fail(Call::CloneFile, ENOSPC), &resuming(), &());
        assert!(journal(&scene).exists(), "{what}");
        change(&scene);
        let before = shapes(scene.directory.path());
        let options = match what {
            "other options" => resuming().links(Links::Skip),
            _ => resuming(),
        };
        let errors = scene.errors(&Fake::new(System::MacOs), &options);
        let [error] = &errors[..] else { panic!("{what}: {errors:?}") };
        assert!(
            matches!(error.reason(), Reason::Refused(why) if is_expected(why)),
            "{what}: {error}"
        );
        assert_eq!(shapes(scene.directory.path()), before, "{what}");
    }
}

#[test]
fn another_users_journal_is_refused_and_one_that_a_run_holds_is_left_alone() {
    let scene = Scene::new();
    let fake = Fake::new(System::MacOs).fail(Call::CopyInto, ENOSPC);
    let _ = scene.run(&fake.fail(Call::CloneFile, ENOSPC), &resuming(), &());
    let before = shapes(scene.directory.path());
    let errors = scene.errors(&Fake::new(System::MacOs).user(12_345), &resuming());
    let is_foreign =
        |why: &Reason| matches!(why, Reason::Refused(Objection::JournalForeign { .. }));
    assert!(errors.len() == 1 && is_foreign(errors[0].reason()), "{errors:?}");

    let holder = File::open(journal(&scene)).unwrap();
    holder.lock().unwrap();
    let errors = scene.errors(&Fake::new(System::MacOs), &resuming());
    let is_held = |why: &Reason| matches!(why, Reason::Refused(Objection::JournalHeld));
    assert!(errors.len() == 1 && is_held(errors[0].reason()), "{errors:?}");
    assert_eq!(shapes(scene.directory.path()), before);
    drop(holder);
    resume(&scene, &Fake::new(System::MacOs), false, "when it is free");
}

#[test]
fn a_tree_that_the_destination_took_no_more_of_is_gone_on_with() {
    for system in SYSTEMS {
        for nth in 0..4 {
            let scene = Scene::new();
            let fake = Fake::new(system).fail_nth(Call::Create, nth, ENOSPC);
            let (summary, ended) = scene.run(&fake, &resuming(), &());
            if nth == 0 {
                // The journal.
                assert_eq!(summary.incomplete, None);
                assert_eq!(scene.siblings(), ["source"], "{system}");
                continue;
            }
            assert!(ended.unwrap_err().is_lasting(), "{system} {nth}");
            let Some(Incomplete { path, no_journal: None, .. }) = summary.incomplete else {
                panic!("{system} {nth}: {:?}", summary.incomplete)
            };
            assert!(path.is_dir() && !scene.destination.exists());
            let resumed = resume(&scene, &Fake::new(system), false, "").resumed;
            assert_eq!(resumed, nth as u64 - 1, "{system}");
            assert_eq!(scene.siblings(), ["copy", "source"], "{system}");
        }
    }
}

#[test]
fn names_of_one_file_are_those_of_one_file_after_two_runs() {
    for system in SYSTEMS {
        for entries in 1..6 {
            let scene = Scene::empty();
            fs::create_dir(scene.source.join("below")).unwrap();
            for (name, seed) in [("a", 1), ("m", 2)] {
                fs::write(scene.source.join(name), contents(seed, 1000)).unwrap();
                for other in ["b", "below/c"] {
                    let new = scene.source.join(format!("{other}{name}"));
                    fs::hard_link(scene.source.join(name), new).unwrap();
                }
            }
            let _ = scene.run(&Fake::new(system), &resuming(), &StopAfter(entries));
            let what = format!("{system} {entries}");
            resume(&scene, &Fake::new(system), false, &what);
            for name in ["a", "m"] {
                let of = |path: String| fs::metadata(scene.destination.join(path)).unwrap();
                let first = of(name.to_owned());
                assert_eq!(first.nlink(), 3, "{what}");
                for other in [format!("b{name}"), format!("below/c{name}")] {
                    assert_eq!(of(other).ino(), first.ino(), "{what}");
                }
            }
        }
    }
}

#[test]
fn directories_get_their_modes_though_another_run_made_them() {
    for preserves in [false, true] {
        for entries in 1..5 {
            let scene = Scene::empty();
            let sets = |path: &Path, mode| {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            };
            fs::create_dir_all(scene.source.join("closed/below")).unwrap();
            // The name of a directory that is made for a moment.
            fs::create_dir(scene.source.join("mode")).unwrap();
            fs::write(scene.source.join("closed/below/file"), "1").unwrap();
            fs::write(scene.source.join("closed/file"), "2").unwrap();
            sets(&scene.source.join("closed/below"), 0o555);
            sets(&scene.source.join("closed"), 0o511);
            sets(&scene.source, 0o751);
            let mut options = resuming();
            options.copy.preserve.mode = preserves;
            let _ = scene.run(&Fake::new(System::MacOs), &options, &StopAfter(entries));
            scene.run(&Fake::new(System::MacOs), &options, &()).1.unwrap();
            assert_eq!(shapes(&scene.destination), shapes(&scene.source));
            for (path, mode) in [("closed/below", 0o555), ("closed", 0o511), (".", 0o751)] {
                let found = fs::metadata(scene.destination.join(path)).unwrap();
                assert_eq!(found.mode() & 0o777, mode, "{path} {preserves} {entries}");
                sets(&scene.source.join(path), 0o755);
                sets(&scene.destination.join(path), 0o755);
            }
        }
    }
}

#[test]
fn a_tree_that_has_its_name_is_recognised_until_its_job_is_done() {
    let scene = Scene::empty();
    fs::write(scene.source.join("file"), "1").unwrap();
    let other = scene.path("other");
    fs::create_dir(&other).unwrap();
    (0..8).for_each(|name| fs::write(other.join(format!("{name}")), "2").unwrap());
    let pairs = [
        (scene.source.clone(), scene.destination.clone()),
        (other.clone(), scene.path("other copy")),
    ];
    let fake = Fake::new(System::MacOs);
    run_by(&fake, &pairs, &resuming(), &StopAfter(8)).1.unwrap_err();
    let is_built =
        |options: &JobOptions| is_tree_built(&fake, &scene.source, &scene.destination, options);
    assert!(is_built(&resuming()));
    assert!(!is_built(&JobOptions::new()) && !is_built(&resuming().links(Links::Skip)));
    let (summary, ended) = run_by(&fake, &pairs, &resuming(), &());
    ended.unwrap();
    assert!(summary.resumed > 1, "{summary:?}");
    assert!(!is_built(&resuming()));
    assert_eq!(scene.siblings(), ["copy", "other", "other copy", "source"]);
}

#[test]
fn a_new_run_removes_what_a_killed_one_left_in_its_tree_and_nothing_of_the_users() {
    let scene = Scene::new();
    // A name of the source that looks like a temporary one.
    fs::write(scene.source.join("a/.uncopy-1-0.tmp"), "mine").unwrap();
    let fake = Fake::new(System::MacOs).fail_nth(Call::Create, 3, ENOSPC);
    let (summary, _) = scene.run(&fake, &resuming(), &());
    let tree = summary.incomplete.unwrap().path;
    for leftover in [".uncopy-77-0.tmp", "a/.uncopy-77-1.tmp"] {
        fs::write(tree.join(leftover), "left").unwrap();
    }
    resume(&scene, &Fake::new(System::MacOs), false, "");
}

/// Makes a tree that is begun and has every entry, and lets `change` change its source.
fn begun(scene: &Scene, system: System, change: impl FnOnce(&Path)) -> PathBuf {
    let fake = Fake::new(system)
        .fail(Call::RenameEntry, if system == System::Windows { 5 } else { EACCES });
    let (summary, _) = scene.run(&fake, &resuming(), &());
    assert_eq!((summary.files, summary.failed), (4, 1), "{summary:?}");
    let tree = scene.siblings().into_iter().find(|name| is_tree(name)).unwrap();
    change(&scene.source);
    scene.directory.path().join(tree)
}

#[test]
fn a_tree_that_is_gone_on_with_is_as_the_source_is_now() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 6] = [
        ("nothing", |_| {}),
        ("a file is gone", |source| fs::remove_file(source.join("a/nothing")).unwrap()),
        ("a directory is gone", |source| fs::remove_dir_all(source.join("a/b")).unwrap()),
        ("a directory is a file now", |source| {
            fs::remove_dir_all(source.join("a/b")).unwrap();
            fs::write(source.join("a/b"), "file").unwrap();
        }),
        ("a file is a directory now", |source| {
            fs::remove_file(source.join("file")).unwrap();
            fs::create_dir(source.join("file")).unwrap();
            fs::write(source.join("file/new"), "new").unwrap();
        }),
        ("a directory is a link now", |source| {
            fs::remove_dir(source.join("empty")).unwrap();
            symlink("a", source.join("empty")).unwrap();
        }),
    ];
    for system in SYSTEMS {
        for (what, change) in changes {
            let scene = Scene::new();
            begun(&scene, system, change);
            resume(&scene, &Fake::new(system), false, what);
            assert_eq!(scene.siblings(), ["copy", "source"], "{what}");
        }
    }
}

#[test]
fn files_that_are_not_done_are_replaced_also_where_the_users_own_are_kept() {
    let options = || resuming().copy(CopyOptions::new().existing(Existing::Keep));
    for system in SYSTEMS {
        let scene = Scene::new();
        let (_, ended) = scene.run(&Fake::new(system), &options(), &StopAfter(6));
        assert!(ended.unwrap_err().is_cancelled());
        fs::write(scene.source.join("a/nothing"), "new").unwrap();
        let (summary, ended) = scene.run(&Fake::new(system), &options(), &());
        ended.unwrap();
        assert_eq!((summary.failed, summary.skipped), (0, 0), "{summary:?}");
        assert_eq!(shapes(&scene.destination), shapes(&scene.source), "{system}");
    }
}

#[test]
fn a_begun_tree_goes_if_its_destination_has_appeared() {
    for system in SYSTEMS {
        let scene = Scene::new();
        begun(&scene, system, |_| {});
        fs::create_dir(&scene.destination).unwrap();
        resume(&scene, &Fake::new(system), false, "");
        assert_eq!(scene.siblings(), ["copy", "source"], "{system}");
    }
}

#[test]
fn a_tree_whose_root_has_its_last_mode_is_gone_on_with() {
    for mode in [0o555, 0o500, 0o777] {
        let scene = Scene::new();
        let begun = begun(&scene, System::MacOs, |_| {});
        fs::set_permissions(&begun, fs::Permissions::from_mode(mode)).unwrap();
        let modes = fs::metadata(&scene.source).unwrap().mode() & 0o777;
        resume(&scene, &Fake::new(System::MacOs), false, "");
        assert_eq!(fs::metadata(&scene.destination).unwrap().mode() & 0o777, modes, "{mode:o}");
    }
}

#[test]
fn a_journal_whose_first_frame_did_not_reach_the_device_is_begun_anew() {
    for bytes in [&b""[..], b"UJ", &[0; 300], b"UJ5\n\x01\0\0\0"] {
        let scene = Scene::new();
        let mut new = File::options();
        let new = new.write(true).create_new(true).mode(0o600).open(journal(&scene));
        std::io::Write::write_all(&mut new.unwrap(), bytes).unwrap();
        resume(&scene, &Fake::new(System::MacOs), false, "");
    }
}
