//! Entries that a plan saw and that are asked for ahead: what changed since stays without a copy.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{XattrFlags, setxattr};
use uncopy::copy::guarded::{Guard, GuardedEntries, GuardedSource, copy_guarded};
use uncopy::copy::job::{EntryKind, EntryOutcome, JobObserver, JobOptions, Record};
use uncopy::copy::peer::PeerError;
use uncopy::copy::{CopyOptions, Preserve};
use uncopy::{Objection, Reason};
use uncopy_os::directory;
use uncopy_os::file::Stat;

use crate::played::{Fault, Played};
use crate::scene::{Scene, bytes};

/// Longer than files whose contents come with their entries.
const LONG: usize = 100_000;

/// Expects what it saw at first, and free names.
struct Seen(HashMap<PathBuf, Stat>);

impl Guard for Seen {
    fn source_difference(&self, entry: &Path, found: &Stat) -> Option<&'static str> {
        let what = |stat: &Stat| (stat.inode, stat.size, stat.modified, stat.changed);
        (self.0.get(entry).map(what) != Some(what(found))).then_some("status")
    }

    fn expects(&self, _: &Path, found: Option<&Stat>) -> bool {
        found.is_none()
    }

    fn expected_size(&self, entry: &Path) -> Option<u64> {
        self.0.get(entry).map(|stat| stat.size)
    }

    fn give_name(&self, act: &mut dyn FnMut()) -> Result<(), Objection> {
        act();
        Ok(())
    }
}

/// Collects how entries ended.
#[derive(Default)]
struct Ends(Mutex<Vec<String>>);

impl JobObserver for Ends {
    fn finished(&self, record: &Record) {
        if record.kind == EntryKind::Directory {
            return;
        }
        let how = match &record.outcome {
            EntryOutcome::Failed(error) => match error.reason() {
                Reason::Refused(why) => why.code().to_owned(),
                _ => error.errno().map_or_else(|| error.to_string(), |errno| errno.to_string()),
            },
            EntryOutcome::Copied(_) => "copied".to_owned(),
            other => format!("{other:?}"),
        };
        let name = record.source.file_name().unwrap().to_string_lossy().into_owned();
        self.0.lock().unwrap().push(format!("{name} {how}"));
    }
}

struct Copied {
    ends: Vec<String>,
    is_lost: bool,
    played: Arc<Played>,
}

/// Copies entries of the directory `from` that are as they are now, to `there`.
fn copy(scene: &Scene, entries: &[&str], play: impl FnOnce(Played) -> Played) -> Copied {
    let (source, destination) = (scene.path("from"), scene.path("there"));
    let seen = entries
        .iter()
        .map(|entry| (PathBuf::from(entry), directory::stat_path(&source.join(entry)).unwrap()));
    let guard = Seen(seen.collect());
    let listed: Vec<(PathBuf, EntryKind)> = entries
        .iter()
        .map(|entry| {
            let is_link = source.join(entry).is_symlink();
            let kind = if is_link { EntryKind::Symlink } else { EntryKind::File };
            (PathBuf::from(entry), kind)
        })
        .collect();
    fs::create_dir(&destination).unwrap();
    let played = Arc::new(play(Played::new([&source])));
    let peer = Arc::clone(&played);
    let root = GuardedSource::there(peer, 0, &source).unwrap();
    let listed = GuardedEntries {
        root: &root,
        source: &source,
        destination: &destination,
        entries: &listed,
        guard: &guard,
    };
    let options = JobOptions::new().copy(CopyOptions::new().preserve(Preserve::all()));
    let ends = Ends::default();
    let ended = copy_guarded(listed, &options, &ends);
    let is_lost = ended.is_err_and(|ended| {
        let cause = ended.into_parts().1;
        matches!(cause.reason(), Reason::Refused(Objection::PeerLost { .. }))
    });
    let mut ends = ends.0.into_inner().unwrap();
    ends.sort();
    drop(root);
    Copied { ends, is_lost, played }
}

#[test]
fn small_entries_cost_no_questions_of_their_own() {
    let scene = Scene::new();
    let from = scene.path("from");
    let mut entries = vec!["d/e/link".to_owned()];
    for number in 0..20 {
        let entry = format!("d{}/e/f{number}", number % 3);
        let path = from.join(&entry);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes(number * 100, number as u8)).unwrap();
        setxattr(&path, "user.k", entry.as_bytes(), XattrFlags::empty()).unwrap();
        entries.push(entry);
    }
    fs::create_dir_all(from.join("d/e")).unwrap();
    symlink("target", from.join("d/e/link")).unwrap();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let Copied { ends, played, .. } = copy(&scene, &entries, |played| played);
    assert_eq!(ends.len(), 21);
    for entry in &entries[1..] {
        let there = scene.path("there").join(entry);
        assert_eq!(fs::read(&there).unwrap(), fs::read(from.join(entry)).unwrap(), "{entry}");
        let mut value = [0; 64];
        let length = rustix::fs::getxattr(&there, "user.k", &mut value).unwrap();
        assert_eq!(&value[..length], entry.as_bytes());
    }
    assert_eq!(fs::read_link(scene.path("there/d/e/link")).unwrap(), Path::new("target"));
    // Directories alone are opened, each once.
    assert_eq!((played.asked_about("open"), played.asked_about("read")), (8, 0));
    assert_eq!((played.asked_about("examine"), played.asked_about("look")), (1, 0));
    assert_eq!(played.left_open(), 0);
}

#[test]
fn what_changes_behind_the_look_is_not_copied() {
    let scene = Scene::new();
    let from = scene.path("from");
    fs::create_dir_all(from.join("d")).unwrap();
    for name in ["another", "gone", "kept", "kind", "longer"] {
        fs::write(from.join("d").join(name), bytes(LONG, 1)).unwrap();
    }
    let entries = ["d/another", "d/gone", "d/kept", "d/kind", "d/longer"];
    let at = from.join("d");
    let change = move |name: &OsStr| {
        let path = at.join(name);
        match name.to_str().unwrap() {
            "another" => {
                fs::write(at.join("new"), bytes(LONG, 1)).unwrap();
                fs::rename(at.join("new"), path).unwrap();
            }
            "gone" => fs::remove_file(path).unwrap(),
            "kind" => {
                fs::remove_file(&path).unwrap();
                fs::create_dir(path).unwrap();
            }
            "longer" => File::options().write(true).open(path).unwrap().set_len(7).unwrap(),
            _ => {}
        }
    };
    let Copied { ends, .. } = copy(&scene, &entries, |played| played.after_look(change));
    assert_eq!(
        ends,
        [
            "another source_since_plan",
            "gone ENOENT",
            "kept copied",
            "kind kind_changed",
            "longer source_since_plan",
        ]
    );
    let left: Vec<_> = fs::read_dir(scene.path("there/d")).unwrap().collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn what_changed_before_the_look_is_not_copied() {
    let scene = Scene::new();
    let at = scene.path("from");
    fs::create_dir(&at).unwrap();
    for name in ["a", "b", "c", "d", "gone"] {
        fs::write(at.join(name), name).unwrap();
    }
    let change = move |name: &OsStr| {
        if name == "a" {
            fs::write(at.join("b"), "B").unwrap();
            fs::remove_file(at.join("c")).unwrap();
            symlink("d", at.join("c")).unwrap();
            fs::remove_file(at.join("gone")).unwrap();
        }
    };
    let entries = ["a", "b", "c", "d", "gone"];
    let Copied { ends, .. } = copy(&scene, &entries, |played| played.after_look(change));
    assert_eq!(
        ends,
        ["a copied", "b source_since_plan", "c kind_changed", "d copied", "gone ENOENT"]
    );
}

#[test]
fn a_machine_that_is_lost_ends_the_job() {
    let scene = Scene::new();
    let from = scene.path("from");
    fs::create_dir(&from).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        fs::write(from.join(name), name).unwrap();
    }
    let error = PeerError::Lost { what: "it ended".to_owned() };
    let fault = Fault { question: "look_ahead", number: 2, error };
    let entries = ["a", "b", "c", "d", "e"];
    let Copied { is_lost, .. } = copy(&scene, &entries, |played| played.failing(fault));
    assert!(is_lost);
}
