//! Attributes of Windows in trees, played.

use super::*;
use crate::Preserve;
use uncopy_core::{MetadataPart, Note};
use uncopy_os::native::FileAttributes;

const ACCESS_DENIED: i32 = 5;
const HIDDEN: FileAttributes = FileAttributes::HIDDEN;
const READ_ONLY: FileAttributes = FileAttributes::READ_ONLY;
const SYSTEM: FileAttributes = FileAttributes::SYSTEM;
const ARCHIVE: FileAttributes = FileAttributes::ARCHIVE;
const NONE: FileAttributes = FileAttributes::from_bits(0);

/// Directories on two levels and two files, each with other attributes.
const GIVEN: [(&str, FileAttributes); 5] = [
    ("", HIDDEN),
    ("a", SYSTEM),
    ("a/b", HIDDEN.with(SYSTEM)),
    ("file", HIDDEN.with(READ_ONLY)),
    ("a/nothing", SYSTEM),
];

fn preserving(mode: bool) -> JobOptions {
    JobOptions::new().copy(CopyOptions::new().preserve(Preserve::default().mode(mode)))
}

fn give(fake: &Fake, scene: &Scene) {
    for (path, attributes) in GIVEN {
        fake.give(&scene.source.join(path), attributes);
    }
}

/// Notes of entries with attributes that could not be kept.
#[derive(Default)]
struct Losses(Mutex<Vec<PathBuf>>);

impl JobObserver for Losses {
    fn finished(&self, record: &Record) {
        let notes = match &record.outcome {
            EntryOutcome::Copied(receipt) => &receipt.notes,
            EntryOutcome::Made { notes, .. } => notes,
            _ => return,
        };
        let is_loss = |note: &Note| {
            let Note::NotKeptElsewhere { what: MetadataPart::FileAttributes, error } = note else {
                return false;
            };
            error.get().raw_os_error() == Some(ACCESS_DENIED)
        };
        if notes.iter().any(is_loss) {
            self.0.lock().unwrap().push(record.destination.clone());
        }
    }
}

#[test]
fn directories_and_files_of_a_new_tree_have_those_of_the_source() {
    for preserves in [false, true] {
        for durable in [false, true] {
            let scene = Scene::new();
            let fake = Fake::new(System::Windows);
            give(&fake, &scene);
            let mut options = preserving(preserves);
            options.copy.durable = durable;
            let (summary, ended) = scene.run(&fake, &options, &());
            ended.unwrap();
            assert_eq!(summary.failed, 0);
            for (path, attributes) in GIVEN {
                let found = fake.given(&scene.destination.join(path));
                let is_file = scene.source.join(path).is_file();
                let shown = attributes.common(HIDDEN.with(SYSTEM));
                let expected = match (preserves, is_file) {
                    (true, _) => attributes,
                    (false, true) => shown.with(ARCHIVE),
                    (false, false) => shown,
                };
                assert_eq!(found, expected, "{path} {preserves}");
            }
            assert_eq!(fake.given(&scene.destination.join("empty")), NONE);
            // Each directory is flushed with what it has been given.
            let made = fake.made();
            let last = |wanted: Call| made.iter().rposition(|call| *call == wanted);
            if durable {
                let given = last(Call::SetDirectoryAttributes);
                assert!(given < last(Call::FlushDirectory), "{made:?}");
            }
        }
    }
}

#[test]
fn a_directory_that_was_there_keeps_its_own_unless_those_of_the_source_are_preserved() {
    for preserves in [false, true] {
        let scene = Scene::new().with_destination();
        let fake = Fake::new(System::Windows);
        give(&fake, &scene);
        fake.give(&scene.destination, READ_ONLY);
        fake.give(&scene.destination.join("file"), SYSTEM);
        let (_, ended) = scene.run(&fake, &preserving(preserves), &());
        ended.unwrap();
        let of = |path: &str| fake.given(&scene.destination.join(path));
        let expected = match preserves {
            true => [HIDDEN, SYSTEM, HIDDEN.with(READ_ONLY)],
            false => [READ_ONLY, NONE, SYSTEM.with(ARCHIVE)],
        };
        assert_eq!([of(""), of("a"), of("file")], expected);
        // This one is new.
        assert_eq!(of("a/b"), HIDDEN.with(SYSTEM));
    }
}

#[test]
fn entries_whose_attributes_cannot_be_given_are_copied_and_say_so() {
    for (call, expected) in [
        (Call::SetDirectoryAttributes, ["", "a", "a/b"].as_slice()),
        (Call::SetAttributes, ["a/nothing", "file"].as_slice()),
    ] {
        let scene = Scene::new();
        // By `read_write`, which carries nothing over.
        let fake = Fake::new(System::Windows).fail(Call::ShareBlocks, 50).fail(Call::CopyToNew, 50);
        let fake = fake.fail(call, ACCESS_DENIED);
        give(&fake, &scene);
        let losses = Losses::default();
        let (summary, ended) = scene.run(&fake, &preserving(true), &losses);
        ended.unwrap();
        assert_eq!(summary.failed, 0);
        assert_eq!(shapes(&scene.destination), shapes(&scene.source));
        let mut lost = losses.0.into_inner().unwrap();
        lost.sort();
        let expected: Vec<_> = expected
            .iter()
            .map(|path| scene.destination.join(path).components().collect())
            .collect();
        assert_eq!(lost, expected as Vec<PathBuf>, "{call:?}");
    }
}

#[test]
fn a_tree_that_is_gone_on_with_has_them_too() {
    for calls in (10..80).step_by(7) {
        let scene = Scene::new();
        let fake = Fake::new(System::Windows).crash_after(calls);
        give(&fake, &scene);
        let options = preserving(true).resume(true);
        let _ = scene.run(&fake, &options, &());
        let fake = fake.again();
        let (_, ended) = scene.run(&fake, &options, &());
        ended.unwrap();
        for (path, attributes) in GIVEN {
            assert_eq!(fake.given(&scene.destination.join(path)), attributes, "{calls} {path}");
        }
    }
}
