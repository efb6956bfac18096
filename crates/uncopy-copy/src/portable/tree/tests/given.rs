//! Owners and modes that entries of trees get on other systems, played. Files change their owner for root alone.

use std::os::unix::fs::{FileTypeExt, MetadataExt, lchown};

use super::*;
use crate::portable::fake::is_root;
use crate::{Owner, Preserve};
use uncopy_core::Note;

const SYSTEMS: [System; 2] = [System::MacOs, System::Other];
const EPERM: i32 = 1;

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

/// Paths of all entries of a tree, the root among them.
fn all(root: &Path) -> Vec<PathBuf> {
    let below = shapes(root).into_keys().map(|path| root.join(path));
    [root.to_owned()].into_iter().chain(below).collect()
}

/// Keeps notes and errors.
#[derive(Default)]
struct Noted(Mutex<(Vec<OfEntry>, Vec<Error>)>);

/// Destination of an entry, and a note about it.
type OfEntry = (PathBuf, Note);

impl JobObserver for Noted {
    fn finished(&self, record: &Record) {
        let mut noted = self.0.lock().unwrap();
        match &record.outcome {
            EntryOutcome::Copied(receipt) => {
                let notes = receipt.notes.iter().cloned();
                noted.0.extend(notes.map(|note| (record.destination.clone(), note)));
            }
            EntryOutcome::Made { notes, .. } => {
                let notes = notes.iter().cloned();
                noted.0.extend(notes.map(|note| (record.destination.clone(), note)));
            }
            EntryOutcome::Failed(error) => noted.1.push(error.clone()),
            _ => {}
        }
    }
}

#[test]
fn modes_of_files_and_directories_are_changed_and_those_of_links_are_not() {
    let umask = uncopy_os::name::umask().unwrap();
    for system in SYSTEMS {
        for is_merged in [false, true] {
            for (text, preserves) in
                [("D711,F640", false), ("go-rwx", false), ("D711,F640", true), ("+x", true)]
            {
                let what = format!("{system} {is_merged} {text} {preserves}");
                let scene = Scene::new();
                let scene = if is_merged { scene.with_destination() } else { scene };
                let target = fs::metadata(scene.source.join("a/b/c/deep")).unwrap().mode();
                let mut copy = CopyOptions::new().preserve(Preserve::default().mode(preserves));
                copy.mode_changes = text.parse().ok();
                let changes = copy.mode_changes.clone().unwrap();
                let mut before: BTreeMap<PathBuf, u32> = BTreeMap::new();
                for path in all(&scene.source) {
                    let name = path.strip_prefix(&scene.source).unwrap().to_owned();
                    let old = fs::symlink_metadata(scene.destination.join(&name));
                    let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o777;
                    let mode = match old {
                        Ok(old) if !preserves => old.mode() & 0o777,
                        _ if preserves => mode,
                        _ => mode & !umask,
                    };
                    before.insert(name, mode);
                }
                let options = JobOptions::new().copy(copy);
                assert_eq!(scene.errors(&Fake::new(system), &options).len(), 0, "{what}");
                for (name, mode) in before {
                    let found = fs::symlink_metadata(scene.destination.join(&name)).unwrap();
                    if found.is_symlink() {
                        continue;
                    }
                    let expected = changes.apply(mode, found.is_dir(), umask);
                    assert_eq!(found.mode() & 0o777, expected, "{what} {}", name.display());
                }
                let now = fs::metadata(scene.source.join("a/b/c/deep")).unwrap().mode();
                assert_eq!(now, target, "what a link leads to");
                assert_eq!(scene.siblings(), ["copy", "source"]);
            }
        }
    }
}

#[test]
fn entries_get_the_owner_that_is_asked_for_or_that_of_the_source() {
    if !is_root() {
        return; // Files have one owner.
    }
    for system in SYSTEMS {
        for is_merged in [false, true] {
            for is_asked in [false, true] {
                let what = format!("{system} {is_merged} {is_asked}");
                let scene = Scene::new();
                let scene = if is_merged { scene.with_destination() } else { scene };
                for path in all(&scene.source) {
                    lchown(path, Some(111), Some(222)).unwrap();
                }
                let mut copy = CopyOptions::new();
                copy.preserve = Preserve::all().xattr(false).acl(false);
                copy.owner = is_asked.then(|| Owner::new().user(333));
                let noted = Noted::default();
                scene.run(&Fake::new(system), &JobOptions::new().copy(copy), &noted).1.unwrap();
                let (notes, errors) = noted.0.into_inner().unwrap();
                assert!(errors.is_empty(), "{what}: {errors:?}");
                let expected = (if is_asked { 333 } else { 111 }, 222);
                for path in all(&scene.source) {
                    let name = path.strip_prefix(&scene.source).unwrap();
                    let copy = scene.destination.join(name);
                    // Elsewhere others could have put another file in its place.
                    let is_left = is_merged
                        && system == System::Other
                        && fs::symlink_metadata(&copy).unwrap().is_symlink();
                    let given = notes.contains(&(copy.clone(), Note::NothingGiven));
                    assert_eq!(given, is_left, "{what} {}", copy.display());
                    let expected = if is_left { (0, 0) } else { expected };
                    assert_eq!(owner(&copy), expected, "{what} {}", copy.display());
                }
            }
        }
    }
}

#[test]
fn an_owner_that_is_not_given_is_an_error_if_it_is_asked_for_and_else_a_note() {
    for system in SYSTEMS {
        for is_asked in [false, true] {
            if !is_asked && !is_root() {
                continue; // Files have one owner.
            }
            let scene = Scene::new();
            if !is_asked {
                for path in all(&scene.source) {
                    lchown(path, Some(111), Some(222)).unwrap();
                }
            }
            let mut copy = CopyOptions::new();
            copy.preserve.ownership = !is_asked;
            copy.owner = is_asked.then(|| Owner::new().user(333));
            let fake = Fake::new(system).fail(Call::SetOwner, EPERM);
            let fake = fake.fail(Call::SetOwnerOfName, EPERM);
            let noted = Noted::default();
            scene.run(&fake, &JobOptions::new().copy(copy), &noted).1.unwrap();
            let (notes, errors) = noted.0.into_inner().unwrap();
            let entries = all(&scene.source).len();
            match is_asked {
                true => {
                    assert_eq!(errors.len(), entries, "{system}: {errors:?}");
                    assert!(errors.iter().all(|error| error.operation() == "set the owner of"));
                    assert_eq!(scene.siblings(), ["source"], "the root has no owner either");
                }
                false => {
                    assert!(errors.is_empty(), "{system}: {errors:?}");
                    let not_kept =
                        |(_, note): &&(PathBuf, Note)| note.code() == "owner_and_group_not_kept";
                    assert_eq!(notes.iter().filter(not_kept).count(), entries, "{notes:?}");
                    assert_eq!(shapes(&scene.destination), shapes(&scene.source));
                }
            }
        }
    }
}

#[test]
fn a_directory_that_took_the_place_of_a_copy_gets_nothing() {
    /// Replaces the copy of a directory when a file in it is done.
    struct Swap<'a>(&'a Scene, Noted);
    impl JobObserver for Swap<'_> {
        fn finished(&self, record: &Record) {
            if record.destination.ends_with("a/nothing") {
                let copy = self.0.destination.join("a");
                fs::rename(&copy, self.0.path("moved")).unwrap();
                symlink(self.0.path("theirs"), copy).unwrap();
            }
            self.1.finished(record);
        }
    }
    for system in SYSTEMS {
        let scene = Scene::new();
        fs::create_dir(&scene.destination).unwrap();
        fs::create_dir(scene.path("theirs")).unwrap();
        let before = owner(&scene.path("theirs"));
        let options = JobOptions::new().copy(CopyOptions::new().owner(Owner::new().user(333)));
        let swap = Swap(&scene, Noted::default());
        scene.run(&Fake::new(system), &options, &swap).1.unwrap();
        let errors = swap.1.0.into_inner().unwrap().1;
        let replaced = Reason::Refused(Objection::DirectoryReplaced);
        let reasons: Vec<_> = errors.iter().map(|error| error.reason().clone()).collect();
        assert!(reasons.contains(&replaced), "{errors:?}");
        assert_eq!(owner(&scene.path("theirs")), before);
    }
}

#[test]
fn files_and_directories_get_attributes_and_acl() {
    for is_merged in [false, true] {
        for fails in [false, true] {
            let scene = Scene::new();
            let scene = if is_merged { scene.with_destination() } else { scene };
            let mut copy = CopyOptions::new();
            (copy.preserve.xattr, copy.preserve.acl) = (true, true);
            let fake = Fake::new(System::MacOs);
            let fake = match fails {
                true => fake.fail(Call::CopyAttributes, EPERM).fail(Call::CopyAcl, EPERM),
                false => fake,
            };
            let noted = Noted::default();
            scene.run(&fake, &JobOptions::new().copy(copy), &noted).1.unwrap();
            let (notes, errors) = noted.0.into_inner().unwrap();
            assert!(errors.is_empty(), "{errors:?}");
            let entries = shapes(&scene.source);
            let links = entries.values().filter(|shape| matches!(shape, Shape::Link(_))).count();
            // The root too.
            let expected = entries.len() - links + 1;
            for (call, code) in
                [(Call::CopyAttributes, "attributes_not_kept"), (Call::CopyAcl, "acl_not_kept")]
            {
                let made = fake.made().iter().filter(|made| **made == call).count();
                assert_eq!(made, expected, "{is_merged} {call:?}");
                let noted = notes.iter().filter(|(_, note)| note.code() == code).count();
                assert_eq!(noted, if fails { expected } else { 0 }, "{is_merged} {call:?}");
            }
            let umask = uncopy_os::name::umask().unwrap();
            let mode = fs::metadata(scene.destination.join("a/b")).unwrap().mode() & 0o777;
            assert_eq!(mode, 0o777 & !umask, "{is_merged}");
        }
    }
}

#[test]
fn a_job_that_was_killed_gives_its_tree_the_same_modes_when_it_is_gone_on_with() {
    let umask = uncopy_os::name::umask().unwrap();
    for (system, changes, acl) in [
        (System::MacOs, Some("go-w"), false),
        (System::Other, Some("go-w"), false),
        (System::MacOs, None, true),
    ] {
        let mut copy = CopyOptions::new();
        copy.mode_changes = changes.and_then(|changes| changes.parse().ok());
        copy.preserve.acl = acl;
        let options = JobOptions::new().copy(copy).resume(true);
        for calls in (0..).step_by(3) {
            let scene = Scene::new();
            let fake = Fake::new(system).crash_after(calls);
            let _ = scene.run(&fake, &options, &());
            let what = format!("{system} {changes:?} {acl} {calls}");
            if !fake.is_crashed() {
                break;
            }
            let (_, ended) = scene.run(&Fake::new(system), &options, &());
            ended.unwrap_or_else(|error| panic!("{what}: {error}"));
            for path in all(&scene.source) {
                let name = path.strip_prefix(&scene.source).unwrap();
                let copy = fs::symlink_metadata(scene.destination.join(name)).unwrap();
                if copy.is_symlink() {
                    continue;
                }
                let mode = fs::symlink_metadata(&path).unwrap().mode() & 0o777 & !umask;
                let expected = if changes.is_some() { mode & !0o022 } else { mode };
                assert_eq!(copy.mode() & 0o777, expected, "{what}: {}", name.display());
            }
        }
    }
}

#[test]
fn special_files_are_made_anew_and_get_owner_and_mode_where_that_is_certain() {
    let umask = uncopy_os::name::umask().unwrap();
    let fifo = |path: &Path| {
        mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o642)).unwrap();
    };
    for is_merged in [false, true] {
        for (preserves, changes) in
            [(false, None), (true, None), (false, Some("g+x")), (true, Some("g+x"))]
        {
            for is_taken in [false, true] {
                let scene = Scene::new();
                let scene = if is_merged { scene.with_destination() } else { scene };
                fifo(&scene.source.join("a/fifo"));
                mknodat(CWD, scene.source.join("socket"), FileType::Socket, Mode::from(0o600), 0)
                    .unwrap();
                if is_merged && is_taken {
                    fs::write(scene.destination.join("a/fifo"), "old").unwrap();
                }
                let mut copy = CopyOptions::new().preserve(Preserve::default().mode(preserves));
                copy.mode_changes = changes.and_then(|changes: &str| changes.parse().ok());
                copy.backup = Some(crate::Backup::new());
                let options = JobOptions::new().copy(copy.clone()).specials(true);
                let noted = Noted::default();
                let fake = Fake::new(System::MacOs);
                let (summary, ended) = scene.run(&fake, &options, &noted);
                ended.unwrap();
                let (notes, errors) = noted.0.into_inner().unwrap();
                let what = format!("{is_merged} {preserves} {changes:?} {is_taken}");
                assert!(errors.is_empty(), "{what}: {errors:?}");
                assert_eq!((summary.specials, summary.skipped), (2, 0), "{what}");
                let copied = scene.destination.join("a/fifo");
                let found = fs::symlink_metadata(&copied).unwrap();
                assert!(found.file_type().is_fifo(), "{what}");
                let socket = fs::symlink_metadata(scene.destination.join("socket")).unwrap();
                assert!(socket.file_type().is_socket(), "{what}");
                let is_given = !is_merged && (preserves || changes.is_some());
                let made = 0o642 & !umask;
                let before = if preserves && is_given { 0o642 } else { made };
                let expected = match copy.mode_changes.filter(|_| is_given) {
                    Some(changes) => changes.apply(before, false, umask),
                    None => before,
                };
                assert_eq!(found.mode() & 0o777, expected, "{what}");
                let is_left = notes.contains(&(copied, Note::NothingGiven));
                assert_eq!(is_left, is_merged && (preserves || changes.is_some()), "{what}");
                let kept = scene.destination.join("a/fifo~");
                assert_eq!(kept.exists(), is_merged && is_taken, "{what}");
            }
        }
    }
    // An entry that cannot be made is an error, and the rest is copied.
    let scene = Scene::new();
    fifo(&scene.source.join("fifo"));
    let fake = Fake::new(System::MacOs).fail(Call::MakeSpecial, EPERM);
    let errors = scene.errors(&fake, &JobOptions::new().specials(true));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].subject(), scene.destination.join("fifo"));
    assert!(scene.destination.join("file").exists());
    // One that is named alone.
    for specials in [false, true] {
        let scene = Scene::new();
        fifo(&scene.path("fifo"));
        let options = JobOptions::new().sources(Sources::Entries).specials(specials);
        let pairs = [(scene.path("fifo"), scene.path("one"))];
        let (summary, ended) = run_by(&Fake::new(System::MacOs), &pairs, &options, &());
        ended.unwrap();
        assert_eq!((summary.specials, summary.failed), (specials.into(), (!specials).into()));
    }
}
