//! Copies of single files on systems other than Linux: run on Windows, under Wine and on macOS.
//!
//! Prints what of the system's own mechanisms was refused: that is not run there.
#![cfg(not(target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use uncopy::copy::{
    Allow, Backup, Cache, Control, CopyOptions, Digest, Existing, IfChanged, Numbering, Outcome,
    Phase, Preserve, Progress, Sparse, copy_file, copy_file_observed,
};
use uncopy::{Cost, Mechanism, Note, Reason, Receipt, System};

const SIZE: usize = 700_001;
const OLD: &str = "old contents";

/// A directory with a source.
struct Scene {
    directory: TempDir,
    source: PathBuf,
    destination: PathBuf,
    contents: Vec<u8>,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let [source, destination] = ["source", "copy"].map(|name| directory.path().join(name));
        let contents: Vec<u8> = (0..SIZE).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        fs::write(&source, &contents).unwrap();
        Scene { directory, source, destination, contents }
    }

    fn with_old() -> Scene {
        let scene = Scene::new();
        fs::write(&scene.destination, OLD).unwrap();
        scene
    }

    fn copy(&self, options: &CopyOptions) -> Result<Outcome, uncopy::Error> {
        copy_file(&self.source, &self.destination, options)
    }

    fn copied(&self, options: &CopyOptions) -> Receipt {
        let Outcome::Copied(receipt) = self.copy(options).unwrap() else { panic!("skipped") };
        assert!(fs::read(&self.destination).unwrap() == self.contents, "other bytes");
        assert_eq!(self.names(), ["copy", "source"]);
        receipt
    }

    fn assert_old(&self) {
        assert_eq!(fs::read_to_string(&self.destination).unwrap(), OLD);
        assert_eq!(self.names(), ["copy", "source"]);
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_new_file_and_a_replaced_one_have_the_bytes_and_the_receipt_says_how() {
    for scene in [Scene::new(), Scene::with_old()] {
        let receipt = scene.copied(&CopyOptions::new());
        assert_eq!(receipt.bytes, SIZE as u64);
        let moved: u64 = receipt.portions.iter().map(|portion| portion.bytes).sum();
        assert_eq!(moved, SIZE as u64);
        for portion in &receipt.portions {
            println!("{}: run by {} ({})", System::HERE, portion.mechanism, portion.cost);
        }
        for refusal in &receipt.refusals {
            println!("{}: not run: {refusal}", System::HERE);
        }
    }
}

#[test]
fn reads_and_writes_alone_copy_too() {
    let receipt = Scene::with_old().copied(&CopyOptions::new().allow(Allow::ReadWrite));
    assert_eq!(receipt.bytes_by(Mechanism::ReadWrite), SIZE as u64);
}

#[test]
fn an_existing_file_is_kept_if_asked() {
    let options = CopyOptions::new().existing(Existing::Keep);
    let scene = Scene::with_old();
    assert!(scene.copy(&options).unwrap().is_skipped());
    scene.assert_old();
    Scene::new().copied(&options);

    // It appears while the copy is made.
    let scene = Scene::new();
    let mut observer = |_: Progress| {
        fs::write(&scene.destination, OLD).unwrap();
        Control::Continue
    };
    let outcome = copy_file_observed(&scene.source, &scene.destination, &options, &mut observer);
    assert!(outcome.unwrap().is_skipped());
    scene.assert_old();
}

#[test]
fn a_read_only_file_is_replaced_by_force_alone() {
    let scene = Scene::with_old();
    let set = |is_read_only| {
        let mut permissions = fs::metadata(&scene.destination).unwrap().permissions();
        permissions.set_readonly(is_read_only);
        fs::set_permissions(&scene.destination, permissions).unwrap();
    };
    set(true);
    if File::options().write(true).open(&scene.destination).is_err() {
        let error = scene.copy(&CopyOptions::new()).unwrap_err();
        assert!(error.to_string().contains("permissions forbid writing"), "{error}");
        scene.assert_old();
    }
    scene.copied(&CopyOptions::new().existing(Existing::Force));
    assert!(fs::metadata(&scene.destination).unwrap().permissions().readonly());
    set(false);
}

#[test]
fn a_missing_source_and_a_missing_directory_are_named() {
    let scene = Scene::new();
    let missing = scene.directory.path().join("missing");
    let error = copy_file(&missing, &scene.destination, &CopyOptions::new()).unwrap_err();
    assert!(error.is_not_found() && !error.is_at_destination(), "{error}");
    let error = copy_file(&scene.source, missing.join("copy"), &CopyOptions::new()).unwrap_err();
    assert!(error.is_not_found() && error.is_at_destination(), "{error}");
    assert_eq!(scene.names(), ["source"]);
}

/// Returns an observer that lets this many reports pass, and stops the copy at the next one.
fn stop_after(reports: u32) -> impl FnMut(Progress) -> Control {
    let mut left = reports;
    move |_| match left.checked_sub(1) {
        Some(fewer) => {
            left = fewer;
            Control::Continue
        }
        None => Control::Stop,
    }
}

#[test]
fn a_stop_at_each_report_leaves_what_was_there() {
    for allow in [Allow::Any, Allow::ReadWrite] {
        for stop_at in 0.. {
            let scene = Scene::with_old();
            let mut observer = stop_after(stop_at);
            let options = CopyOptions::new().allow(allow);
            let ended =
                copy_file_observed(&scene.source, &scene.destination, &options, &mut observer);
            match ended {
                Ok(_) => {
                    assert!(stop_at > 1);
                    break;
                }
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
            scene.assert_old();
        }
    }
}

#[test]
fn a_durable_copy_says_so() {
    assert!(Scene::with_old().copied(&CopyOptions::new().durable(true)).durable);
    assert!(!Scene::new().copied(&CopyOptions::new()).durable);
}

#[test]
fn a_long_name_is_copied() {
    let scene = Scene::new();
    let deep = scene.directory.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    let (source, destination) = (deep.join("s".repeat(100)), deep.join("c".repeat(100)));
    fs::copy(&scene.source, &source).unwrap();
    for existing in [Existing::Keep, Existing::Replace] {
        copy_file(&source, &destination, &CopyOptions::new().existing(existing)).unwrap();
        assert!(fs::read(&destination).unwrap() == scene.contents);
    }
    assert_eq!(fs::read_dir(&deep).unwrap().count(), 2);
}

#[test]
fn a_file_with_a_hole_has_the_same_bytes() {
    let scene = Scene::new();
    let file = File::options().write(true).open(&scene.source).unwrap();
    file.set_len(2 * SIZE as u64).unwrap();
    drop(file);
    copy_file(&scene.source, &scene.destination, &CopyOptions::new()).unwrap();
    let (source, copy) = (fs::read(&scene.source).unwrap(), fs::read(&scene.destination).unwrap());
    assert!(source == copy && copy.len() == 2 * SIZE);
}

#[test]
fn one_file_is_not_copied_to_itself() {
    let scene = Scene::new();
    let linked = scene.directory.path().join("linked");
    fs::hard_link(&scene.source, &linked).unwrap();
    for destination in [&scene.source, &linked] {
        let error = copy_file(&scene.source, destination, &CopyOptions::new()).unwrap_err();
        assert!(error.is_same_file(), "{error}");
    }
    assert!(fs::read(&scene.source).unwrap() == scene.contents);
}

#[test]
fn what_is_not_obeyed_is_refused_before_anything_is_touched() {
    let scene = Scene::new();
    let error = scene.copy(&CopyOptions::new().cache(Cache::Skip)).unwrap_err();
    assert!(matches!(error.reason(), Reason::NotHere { .. }), "{error}");
    assert_eq!(scene.names(), ["source"]);
}

#[test]
fn zeros_become_holes_if_wanted() {
    let mut scene = Scene::new();
    scene.contents = vec![0; 1 << 20];
    scene.contents[500_000] = 1;
    fs::write(&scene.source, &scene.contents).unwrap();
    let receipt = scene.copied(&CopyOptions::new().sparse(Sparse::Always));
    let is_filled = receipt.notes.contains(&Note::HolesFilled);
    let holes = if is_filled { 0 } else { (1 << 20) - 4096 };
    // They were read to be seen.
    assert_eq!((receipt.bytes_at(Cost::Zeros), receipt.bytes_at(Cost::Hole)), (holes, 0));
}

#[test]
fn a_copy_is_verified_and_its_digest_is_that_of_the_source() {
    for allow in [Allow::Any, Allow::ReadWrite] {
        let options = CopyOptions::new().allow(allow).verify(Digest::Xxh3).digest(Digest::Xxh3);
        let scene = Scene::with_old();
        let receipt = scene.copied(&options);
        let (verified, digest) = (receipt.verification.unwrap(), receipt.source_digest.unwrap());
        assert_eq!((verified.algorithm, &verified.digest), ("xxh3", &digest.value));
        // Other bytes have another.
        fs::write(&scene.source, "other").unwrap();
        let receipt = scene.copy(&options).unwrap().into_receipt().unwrap();
        assert_ne!(receipt.source_digest.unwrap().value, digest.value);
    }
}

#[test]
fn a_copy_that_another_program_changes_is_not_put_in_place() {
    let scene = Scene::with_old();
    let mut is_spoiled = false;
    let mut observer = |progress: Progress| {
        if progress.phase == Phase::Verifying && !is_spoiled {
            is_spoiled = true;
            let temporary = scene.names().into_iter().find(|name| name.starts_with(".uncopy-"));
            let temporary = scene.directory.path().join(temporary.unwrap());
            // While it is written others may open it as this library does.
            let mut bytes = fs::read(&temporary).unwrap();
            bytes[SIZE / 2] ^= 1;
            fs::write(&temporary, bytes).unwrap();
        }
        Control::Continue
    };
    let options = CopyOptions::new().verify(Digest::Xxh3);
    let ended = copy_file_observed(&scene.source, &scene.destination, &options, &mut observer);
    let error = ended.unwrap_err();
    assert!(is_spoiled && error.is_verification_failed(), "{error}");
    scene.assert_old();
}

#[test]
fn a_source_that_changes_once_is_copied_again() {
    for allow in [Allow::Any, Allow::ReadWrite] {
        let scene = Scene::with_old();
        let mut is_changed = false;
        let mut observer = |progress: Progress| {
            if progress.done_bytes > 0 && !is_changed {
                is_changed = true;
                let mut changed = scene.contents.clone();
                changed.push(1);
                fs::write(&scene.source, changed).unwrap();
            }
            Control::Continue
        };
        let options = CopyOptions::new().allow(allow).if_changed(IfChanged::Retry);
        let ended = copy_file_observed(&scene.source, &scene.destination, &options, &mut observer);
        assert_eq!(ended.unwrap().into_receipt().unwrap().retries, 1);
        assert_eq!(fs::metadata(&scene.destination).unwrap().len(), SIZE as u64 + 1);
        assert_eq!(scene.names(), ["copy", "source"]);
    }
}

#[test]
fn the_old_file_is_kept_as_a_backup() {
    for (numbering, kept) in [
        (Numbering::Never, &["copy~"][..]),
        (Numbering::Always, &["copy.~1~", "copy.~2~"]),
        (Numbering::IfThereAreSome, &["copy~"]),
    ] {
        let scene = Scene::with_old();
        let options = CopyOptions::new().backup(Backup::new().numbering(numbering));
        for kept in kept {
            scene.copy(&options).unwrap();
            let kept = fs::read(scene.directory.path().join(kept)).unwrap();
            assert!(kept == OLD.as_bytes() || kept == scene.contents);
        }
        assert!(fs::read(&scene.destination).unwrap() == scene.contents);
        let mut names: Vec<_> =
            ["copy", "source"].iter().chain(kept).map(ToString::to_string).collect();
        names.sort();
        assert_eq!(scene.names(), names);
        let first = fs::read_to_string(scene.directory.path().join(kept[0])).unwrap();
        assert_eq!(first, OLD);
    }
}

#[test]
fn the_name_of_a_read_only_file_is_replaced() {
    let scene = Scene::with_old();
    let mut permissions = fs::metadata(&scene.destination).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&scene.destination, permissions).unwrap();
    scene.copied(&CopyOptions::new().existing(Existing::Remove));
    assert!(!fs::metadata(&scene.destination).unwrap().permissions().readonly());
}

#[test]
fn times_of_the_source_are_kept() {
    let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
    for (has_old, attributes_only) in [(false, false), (true, false), (false, true), (true, true)] {
        let scene = if has_old { Scene::with_old() } else { Scene::new() };
        let source = File::options().write(true).open(&scene.source).unwrap();
        source.set_times(fs::FileTimes::new().set_accessed(at(2)).set_modified(at(4))).unwrap();
        drop(source);
        let options = CopyOptions::new()
            .preserve(Preserve::default().timestamps(true))
            .attributes_only(attributes_only);
        let receipt = scene.copy(&options).unwrap().into_receipt().unwrap();
        let lost = |note: &Note| matches!(note, Note::NotKeptElsewhere { .. });
        assert!(!receipt.notes.iter().any(lost), "{:?}", receipt.notes);
        let found = fs::metadata(&scene.destination).unwrap();
        assert_eq!(found.modified().unwrap(), at(4));
        // Where the system keeps it.
        if let (Ok(found), Ok(source)) =
            (found.created(), fs::metadata(&scene.source).unwrap().created())
        {
            assert_eq!(found, source);
        }
        let bytes = fs::read(&scene.destination).unwrap();
        match (attributes_only, has_old) {
            (true, true) => assert!(bytes == OLD.as_bytes()),
            (true, false) => assert!(bytes.is_empty()),
            (false, _) => assert!(bytes == scene.contents),
        }
        assert_eq!(scene.names(), ["copy", "source"]);
    }
}

#[test]
fn a_file_is_written_where_it_is_and_stays_after_a_stop() {
    let in_place = CopyOptions::new().in_place(true).durable(true).verify(Digest::Xxh3);
    let scene = Scene::with_old();
    let linked = scene.directory.path().join("linked");
    fs::hard_link(&scene.destination, &linked).unwrap();
    let receipt = scene.copy(&in_place).unwrap().into_receipt().unwrap();
    assert!(fs::read(&linked).unwrap() == scene.contents, "it is another file");
    assert!(receipt.durable && receipt.notes.contains(&Note::InPlace), "{:?}", receipt.notes);

    for stop_at in 0.. {
        let scene = Scene::with_old();
        let mut observer = stop_after(stop_at);
        let ended = copy_file_observed(&scene.source, &scene.destination, &in_place, &mut observer);
        assert_eq!(scene.names(), ["copy", "source"]);
        let Err(error) = ended else { break };
        assert!(error.is_cancelled(), "{error}");
    }
}

#[cfg(windows)]
mod windows {
    use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
    use std::path::Path;

    use super::*;

    /// FILE_ATTRIBUTE_READONLY, _HIDDEN, _SYSTEM, _ARCHIVE.
    const READ_ONLY: u32 = 0x1;
    const HIDDEN: u32 = 0x2;
    const SYSTEM: u32 = 0x4;
    const ARCHIVE: u32 = 0x20;

    /// Writes a file that has these attributes.
    fn write(path: &Path, attributes: u32, contents: &[u8]) {
        let mut new = File::options();
        let mut file = new.write(true).create_new(true).attributes(attributes).open(path).unwrap();
        std::io::Write::write_all(&mut file, contents).unwrap();
    }

    fn attributes(path: &Path) -> u32 {
        let all = READ_ONLY | HIDDEN | SYSTEM | ARCHIVE;
        fs::symlink_metadata(path).unwrap().file_attributes() & all
    }

    #[test]
    fn a_copy_has_the_attributes_of_its_source_or_of_the_file_that_it_replaces() {
        for allow in [Allow::Any, Allow::ReadWrite] {
            for (old, mode, expected) in [
                (None, true, READ_ONLY | HIDDEN | SYSTEM),
                (None, false, HIDDEN | SYSTEM | ARCHIVE),
                (Some(READ_ONLY | SYSTEM), true, READ_ONLY | HIDDEN | SYSTEM),
                (Some(READ_ONLY | HIDDEN), false, READ_ONLY | HIDDEN | ARCHIVE),
            ] {
                let scene = Scene::new();
                fs::remove_file(&scene.source).unwrap();
                write(&scene.source, READ_ONLY | HIDDEN | SYSTEM, &scene.contents);
                let given = attributes(&scene.source);
                if given & SYSTEM == 0 {
                    println!("{}: not run: attributes (there are none here)", System::HERE);
                    return;
                }
                // Writing sets the archive attribute.
                let expected = if mode { given } else { expected };
                if let Some(old) = old {
                    write(&scene.destination, old, OLD.as_bytes());
                }
                let options = CopyOptions::new()
                    .allow(allow)
                    .existing(Existing::Force)
                    .durable(true)
                    .preserve(Preserve::default().mode(mode).timestamps(true));
                let receipt = scene.copied(&options);
                let lost = |note: &Note| {
                    matches!(
                        note,
                        Note::NotKeptElsewhere { .. } | Note::OldPermissionsNotKept { .. }
                    )
                };
                assert!(!receipt.notes.iter().any(lost), "{:?}", receipt.notes);
                let found = attributes(&scene.destination);
                assert_eq!(found, expected, "{allow:?} {old:?} {mode} {found:x}");
                let time = |path| fs::metadata(path).unwrap().modified().unwrap();
                assert_eq!(time(&scene.source), time(&scene.destination));
            }
        }
    }

    #[test]
    fn a_file_that_another_program_holds_is_an_error_that_says_so() {
        const ERROR_SHARING_VIOLATION: i32 = 32;
        let hold = |path: &PathBuf| File::options().read(true).share_mode(0).open(path).unwrap();
        let code = |error: &uncopy::Error| {
            let Reason::OtherSystem { error } = error.reason() else { panic!("{error}") };
            error.get().raw_os_error()
        };
        let scene = Scene::with_old();
        let held = hold(&scene.source);
        let error = scene.copy(&CopyOptions::new()).unwrap_err();
        assert_eq!(code(&error), Some(ERROR_SHARING_VIOLATION), "{error}");
        assert!(error.next_step().is_some(), "{error}");
        drop(held);
        scene.assert_old();

        let held = hold(&scene.destination);
        let error = scene.copy(&CopyOptions::new()).unwrap_err();
        assert_eq!(code(&error), Some(ERROR_SHARING_VIOLATION), "{error}");
        assert!(error.is_at_destination());
        drop(held);
        scene.assert_old();
        scene.copied(&CopyOptions::new());
    }

    #[test]
    fn reserved_names_and_streams_are_refused() {
        let scene = Scene::new();
        for name in ["nul", "COM1.txt", "copy:stream"] {
            let destination = scene.directory.path().join(name);
            let error = copy_file(&scene.source, destination, &CopyOptions::new()).unwrap_err();
            assert!(matches!(error.reason(), Reason::NotRegular { .. }), "{error}");
        }
        assert_eq!(scene.names(), ["source"]);
    }
}

#[cfg(unix)]
mod on_unix {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use uncopy::copy::Owner;

    #[test]
    fn owner_and_mode_that_are_asked_for_are_given() {
        for scene in [Scene::new(), Scene::with_old()] {
            let own = fs::metadata(&scene.source).unwrap();
            let mut options = CopyOptions::new();
            options.owner = Some(Owner::new().user(own.uid()).group(own.gid()));
            options.mode_changes = "u=rw,go=".parse().ok();
            options.preserve = Preserve::default().mode(true).ownership(true);
            scene.copied(&options);
            let found = fs::metadata(&scene.destination).unwrap();
            assert_eq!((found.uid(), found.gid()), (own.uid(), own.gid()));
            assert_eq!(found.mode() & 0o7777, 0o600);
        }
    }

    #[test]
    fn attributes_and_acl_are_given_on_macos() {
        if System::HERE != System::MacOs {
            return;
        }
        for allow in [Allow::Any, Allow::ReadWrite] {
            let scene = Scene::with_old();
            let tool = |program: &str, arguments: &[&str]| {
                let ran = std::process::Command::new(program).args(arguments).output().unwrap();
                assert!(ran.status.success(), "{program}: {ran:?}");
                String::from_utf8(ran.stdout).unwrap()
            };
            let [source, copy] =
                [&scene.source, &scene.destination].map(|path| path.to_str().unwrap().to_owned());
            tool("xattr", &["-w", "org.example.a", "value", &source]);
            tool("chmod", &["+a", "everyone deny delete", &source]);
            tool("chflags", &["hidden", &source]);
            let options = CopyOptions::new().preserve(Preserve::default().xattr(true).acl(true));
            let receipt = scene.copied(&options.allow(allow));
            assert_eq!(tool("xattr", &["-p", "org.example.a", &copy]).trim(), "value");
            assert!(tool("ls", &["-le", &copy]).contains("deny delete"));
            assert!(tool("ls", &["-lO", &copy]).contains("hidden"));
            let gone = Note::OldAttributesGone;
            assert!(!receipt.notes.contains(&gone), "{:?}", receipt.notes);
        }
    }
}
