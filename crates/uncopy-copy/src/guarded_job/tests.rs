//! Jobs with guards: what is replaced, what stays, and what another attempt has made.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::*;
use crate::CopyOptions;
use crate::guard::Guard;
use crate::guarded_source::GuardedSource;
use crate::job::{EntryKind, EntryOutcome, Record};
use uncopy_core::{Objection, Reason};
use uncopy_os::directory;
use uncopy_os::file::Stat;

/// Expects what it saw at first, and does something at a time that a test chooses.
#[derive(Default)]
struct Planned {
    seen: HashMap<PathBuf, Stat>,
    before_naming: Option<Box<dyn Fn() + Sync>>,
    after_look: Option<Box<dyn Fn() + Sync>>,
    is_overtaken: bool,
    /// The source that it takes for another one.
    changed: Option<PathBuf>,
    /// Names of one file.
    names: Vec<PathBuf>,
}

impl Planned {
    fn of(destination: &Path, entries: &[&str]) -> Planned {
        let look = |entry: &&str| {
            let stat = directory::stat_path(&destination.join(entry)).ok()?;
            Some((PathBuf::from(entry), stat))
        };
        Planned { seen: entries.iter().filter_map(look).collect(), ..Planned::default() }
    }
}

impl Guard for Planned {
    fn source_difference(&self, entry: &Path, _: &Stat) -> Option<&'static str> {
        (self.changed.as_deref() == Some(entry)).then_some("mtime")
    }

    fn expects(&self, entry: &Path, found: Option<&Stat>) -> bool {
        let time = |stat: &Stat| (stat.inode, stat.size, stat.modified, stat.changed);
        let expects = self.seen.get(entry).map(time) == found.map(time);
        if let Some(act) = &self.after_look {
            act();
        }
        expects
    }

    fn other_names(&self, entry: &Path) -> Vec<PathBuf> {
        self.names.iter().filter(|name| *name != entry).cloned().collect()
    }

    fn give_name(&self, act: &mut dyn FnMut()) -> Result<(), Objection> {
        if self.is_overtaken {
            return Err(Objection::Overtaken);
        }
        if let Some(act) = &self.before_naming {
            act();
        }
        act();
        Ok(())
    }
}

/// Collects how entries ended.
#[derive(Default)]
struct Ends(Mutex<Vec<String>>);

impl JobObserver for Ends {
    fn finished(&self, record: &Record) {
        let how = match &record.outcome {
            EntryOutcome::Failed(error) => match error.reason() {
                Reason::Refused(why) => why.code().to_owned(),
                other => other.to_string(),
            },
            EntryOutcome::Skipped { reason } => reason.code().to_owned(),
            EntryOutcome::Copied(_) => "copied".to_owned(),
            EntryOutcome::Made { .. } => "made".to_owned(),
            EntryOutcome::Linked { .. } => "linked".to_owned(),
            other => format!("{other:?}"),
        };
        let name = record.source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.0.lock().unwrap().push(format!("{name} {how}"));
    }
}

struct Trees {
    _root: tempfile::TempDir,
    source: PathBuf,
    destination: PathBuf,
}

fn trees() -> Trees {
    let root = tempfile::tempdir().unwrap();
    let (source, destination) = (root.path().join("s"), root.path().join("d"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&destination).unwrap();
    Trees { _root: root, source, destination }
}

impl Trees {
    fn copy(&self, guard: &Planned, entries: &[&str]) -> Vec<String> {
        let options = JobOptions::new().specials(true).copy(CopyOptions::new());
        let listed = |entry: &&str| {
            let kind = fs::symlink_metadata(self.source.join(entry)).map(|found| found.file_type());
            let kind = match kind {
                Ok(kind) if kind.is_symlink() => EntryKind::Symlink,
                Ok(kind) if kind.is_fifo() => EntryKind::Special,
                _ => EntryKind::File,
            };
            (PathBuf::from(entry), kind)
        };
        let entries: Vec<_> = entries.iter().map(listed).collect();
        let (source, destination, entries) = (&*self.source, &*self.destination, &*entries);
        let ends = Ends::default();
        let root = uncopy_os::follow::open_root(source).unwrap();
        let root = &GuardedSource::here(root);
        let listed = GuardedEntries { root, source, destination, entries, guard };
        copy_guarded(listed, &options, &ends).unwrap();
        let mut ends = ends.0.into_inner().unwrap();
        ends.sort();
        ends
    }

    /// Names in the destination.
    fn names(&self) -> Vec<String> {
        let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(&self.destination).unwrap().map(name).collect();
        names.sort();
        names
    }
}

#[test]
fn expected_entries_are_replaced_and_free_names_taken() {
    let trees = trees();
    let large = vec![7; 3 << 20];
    for (name, bytes) in [("new", &b"n"[..]), ("old", b"o"), ("large", &large), ("twice", b"t")] {
        fs::write(trees.source.join(name), bytes).unwrap();
    }
    fs::hard_link(trees.source.join("twice"), trees.source.join("twin")).unwrap();
    std::os::unix::fs::symlink("target", trees.source.join("link")).unwrap();
    for name in ["old", "large", "link", "twin"] {
        fs::write(trees.destination.join(name), "before").unwrap();
    }
    let entries = ["new", "old", "large", "link", "twice", "twin"];
    let planned = Planned::of(&trees.destination, &entries);
    let ends = trees.copy(&planned, &entries);
    assert_eq!(
        ends,
        ["large copied", "link made", "new copied", "old copied", "twice copied", "twin linked"]
    );
    assert_eq!(trees.names(), ["large", "link", "new", "old", "twice", "twin"]);
    assert_eq!(fs::read(trees.destination.join("large")).unwrap(), large);
    assert_eq!(fs::read(trees.destination.join("old")).unwrap(), b"o");
    let inode = |name| fs::metadata(trees.destination.join(name)).unwrap().ino();
    assert_eq!(inode("twice"), inode("twin"));
    // The same once more: each copy is what an earlier attempt made.
    let ends = trees.copy(&planned, &entries);
    assert!(ends.iter().all(|end| end.ends_with("same_contents")), "{ends:?}");
}

#[test]
fn what_changed_since_the_plan_stays() {
    for (when, before) in [("free", None), ("taken", Some("before"))] {
        for link in [false, true] {
            let trees = trees();
            match link {
                true => std::os::unix::fs::symlink("t", trees.source.join("f")).unwrap(),
                false => fs::write(trees.source.join("f"), "new").unwrap(),
            }
            let copy = trees.destination.join("f");
            if let Some(before) = before {
                fs::write(&copy, before).unwrap();
            }
            let mut planned = Planned::of(&trees.destination, &["f"]);
            // Before the first look.
            fs::write(&copy, "user's").unwrap();
            assert_eq!(trees.copy(&planned, &["f"]), ["f destination_since_plan"], "{when}");
            // Between the look at the beginning and the one before the name.
            fs::remove_file(&copy).unwrap();
            if let Some(before) = before {
                fs::write(&copy, before).unwrap();
            }
            planned.seen = Planned::of(&trees.destination, &["f"]).seen;
            let changed = copy.clone();
            planned.before_naming = Some(Box::new(move || fs::write(&changed, "user's").unwrap()));
            assert_eq!(trees.copy(&planned, &["f"]), ["f destination_since_plan"], "{when}");
            assert_eq!(fs::read(&copy).unwrap(), b"user's");
            assert_eq!(trees.names(), ["f"]);
        }
    }
}

#[test]
fn what_changes_at_the_last_moment_stays() {
    for before in [None, Some("before")] {
        let trees = trees();
        fs::write(trees.source.join("f"), "new").unwrap();
        let copy = trees.destination.join("f");
        if let Some(before) = before {
            fs::write(&copy, before).unwrap();
        }
        let mut planned = Planned::of(&trees.destination, &["f"]);
        let (changed, aside) = (copy.clone(), trees.source.join("other"));
        planned.after_look = Some(Box::new(move || {
            // As an editor saves.
            fs::write(&aside, "user's").unwrap();
            fs::rename(&aside, &changed).unwrap();
        }));
        assert_eq!(trees.copy(&planned, &["f"]), ["f destination_since_plan"]);
        assert_eq!(fs::read(&copy).unwrap(), b"user's");
        assert_eq!(trees.names(), ["f"]);
    }
}

#[test]
fn an_overtaken_attempt_gives_no_names() {
    let trees = trees();
    fs::write(trees.source.join("f"), "new").unwrap();
    fs::write(trees.source.join("g"), "new").unwrap();
    fs::write(trees.destination.join("g"), "before").unwrap();
    std::os::unix::fs::symlink("target", trees.source.join("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, trees.source.join("fifo"), 0o600.into()).unwrap();
    let entries = ["f", "g", "link", "fifo"];
    let mut planned = Planned::of(&trees.destination, &entries);
    planned.is_overtaken = true;
    let ends = trees.copy(&planned, &entries);
    assert_eq!(ends, ["f overtaken", "fifo overtaken", "g overtaken", "link overtaken"]);
    assert_eq!(trees.names(), ["g"]);
    assert_eq!(fs::read(trees.destination.join("g")).unwrap(), b"before");
    planned.is_overtaken = false;
    assert_eq!(trees.copy(&planned, &entries), ["f copied", "fifo made", "g copied", "link made"]);
    assert!(fs::symlink_metadata(trees.destination.join("fifo")).unwrap().file_type().is_fifo());
}

#[test]
fn a_source_that_is_not_the_planned_one_is_not_copied() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    fs::write(trees.source.join("d/f"), "new").unwrap();
    fs::write(trees.source.join("d/g"), "new").unwrap();
    let mut planned = Planned { changed: Some("d/f".into()), ..Planned::default() };
    let ends = trees.copy(&planned, &["d/f", "d/g"]);
    assert_eq!(ends, ["d made", "f source_since_plan", "g copied"]);
    planned.changed = None;
    assert_eq!(trees.copy(&planned, &["d/f", "d/g"]), ["d made", "f copied", "g same_contents"]);
}

#[test]
fn links_among_the_directories_of_the_source_are_not_followed() {
    let trees = trees();
    fs::create_dir(trees.source.join("d")).unwrap();
    fs::write(trees.source.join("d/f"), "new").unwrap();
    std::os::unix::fs::symlink("d", trees.source.join("l")).unwrap();
    let planned = Planned::default();
    let ends = trees.copy(&planned, &["l/f", "../s/d/f", "/etc/passwd", "d/../d/f"]);
    assert!(ends.iter().all(|end| !end.contains("copied")), "{ends:?}");
    assert_eq!(ends.len(), 4);
    assert!(trees.names().is_empty());
}

/// Names of one file stay together whichever of them an earlier attempt had made, and in whatever order they come.
#[test]
fn names_of_a_file_that_was_copied_before_become_names_of_that_copy() {
    let names = ["d/a", "b", "c"];
    for kind in ["file", "link"] {
        for made in names {
            let trees = trees();
            for root in [&trees.source, &trees.destination] {
                fs::create_dir(root.join("d")).unwrap();
            }
            let first = trees.source.join("d/a");
            match kind {
                "file" => fs::write(&first, "contents").unwrap(),
                _ => std::os::unix::fs::symlink("target", &first).unwrap(),
            }
            fs::hard_link(&first, trees.source.join("b")).unwrap();
            fs::hard_link(&first, trees.source.join("c")).unwrap();
            let guard = || Planned { names: names.map(PathBuf::from).into(), ..Planned::default() };
            trees.copy(&guard(), &[made]);
            let inode = |name: &str| {
                let found = directory::stat_path(&trees.destination.join(name)).unwrap();
                (found.inode, found.links)
            };
            let before = inode(made).0;
            trees.copy(&guard(), &names);
            assert_eq!(names.map(inode), [(before, 3); 3], "{kind} {made}");
        }
    }
    // Another file that somebody put there is none of its names.
    let trees = trees();
    fs::write(trees.source.join("a"), "contents").unwrap();
    fs::hard_link(trees.source.join("a"), trees.source.join("b")).unwrap();
    fs::write(trees.destination.join("b"), "others").unwrap();
    let guard = Planned { names: vec!["a".into(), "b".into()], ..Planned::default() };
    let ends = trees.copy(&guard, &["a", "b"]);
    assert_eq!(ends, ["a copied", "b destination_since_plan"]);
    assert_eq!(fs::read(trees.destination.join("b")).unwrap(), b"others");
}
