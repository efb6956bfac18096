//! Copies of single files on systems other than Linux: run on Windows, under Wine and on macOS.
//!
//! Prints what of the system's own mechanisms was refused: that is not run there.
#![cfg(not(target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::PathBuf;

use tempfile::TempDir;
use uncopy::copy::{
    Allow, Control, CopyOptions, Existing, Outcome, Progress, copy_file, copy_file_observed,
};
use uncopy::{Mechanism, Reason, Receipt, System};

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

#[test]
fn a_stop_at_each_report_leaves_what_was_there() {
    for allow in [Allow::Any, Allow::ReadWrite] {
        for stop_at in 0.. {
            let scene = Scene::with_old();
            let mut reports = 0;
            let mut observer = |_: Progress| {
                reports += 1;
                if reports > stop_at { Control::Stop } else { Control::Continue }
            };
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
    let error = scene.copy(&CopyOptions::new().in_place(true)).unwrap_err();
    assert!(matches!(error.reason(), Reason::NotHere { .. }), "{error}");
    assert_eq!(scene.names(), ["source"]);
}

#[cfg(windows)]
mod windows {
    use std::os::windows::fs::OpenOptionsExt;

    use super::*;

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
