//! Attributes of Windows that copies get by each mechanism, played.

use super::*;
use crate::{Existing, Preserve};
use uncopy_core::MetadataPart;
use uncopy_os::native::FileAttributes;

const ACCESS_DENIED: i32 = 5;
const READ_ONLY: FileAttributes = FileAttributes::READ_ONLY;
const HIDDEN: FileAttributes = FileAttributes::HIDDEN;
const ARCHIVE: FileAttributes = FileAttributes::ARCHIVE;
const NONE: FileAttributes = FileAttributes::from_bits(0);

/// Every set of attributes.
fn sets() -> impl Iterator<Item = FileAttributes> {
    let each = [READ_ONLY, HIDDEN, FileAttributes::SYSTEM, ARCHIVE, FileAttributes::NOT_INDEXED];
    (0..1 << each.len()).map(move |chosen: u32| {
        let chosen = each.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1);
        chosen.fold(NONE, |set, (_, one)| set.with(*one))
    })
}

fn without(attributes: FileAttributes, other: FileAttributes) -> FileAttributes {
    FileAttributes::from_bits(attributes.bits() & !other.bits())
}

fn preserving(mode: bool) -> CopyOptions {
    CopyOptions::new().preserve(Preserve::default().mode(mode))
}

fn losses(receipt: &Receipt) -> Vec<&Note> {
    let is_loss = |note: &&Note| {
        matches!(note, Note::NotKeptElsewhere { .. } | Note::OldPermissionsNotKept { .. })
    };
    receipt.notes.iter().filter(is_loss).collect()
}

#[test]
fn every_mechanism_gives_the_same_attributes() {
    for mechanism in decide::mechanisms(System::Windows) {
        for attributes in sets() {
            for (has_old, preserves) in [(false, false), (false, true), (true, false), (true, true)]
            {
                let what = format!("{mechanism} {attributes:?} {has_old} {preserves}");
                let scene = Scene::new(has_old);
                let fake = until(*mechanism, System::Windows);
                let old = HIDDEN.with(READ_ONLY);
                fake.give(&scene.source, attributes);
                if has_old {
                    fake.give(&scene.destination, old);
                }
                let options = preserving(preserves).existing(Existing::Force).durable(true);
                let receipt = scene.copy(&fake, &options).unwrap().into_receipt().unwrap();
                scene.assert_copied(&what);
                assert_eq!(losses(&receipt), [] as [&Note; 0], "{what}");
                let expected = match (has_old, preserves) {
                    (_, true) => attributes,
                    (true, false) => old.with(ARCHIVE),
                    (false, false) => without(attributes, READ_ONLY).with(ARCHIVE),
                };
                assert_eq!(fake.given(&scene.destination), expected, "{what}");
                // Before the file is flushed and named, and once at most.
                let made = fake.made();
                let at = |call: &dyn Fn(&Call) -> bool| made.iter().position(call);
                let named = at(&|call| matches!(call, Call::Place(_))).unwrap();
                let flushed = made.iter().rposition(|call| *call == Call::Flush).unwrap();
                let given = made.iter().filter(|call| **call == Call::SetAttributes).count();
                assert!(given <= 1, "{what}");
                if let Some(given) = at(&|call| *call == Call::SetAttributes) {
                    assert!(given < flushed && flushed < named, "{what}: {made:?}");
                }
            }
        }
    }
}

#[test]
fn attributes_that_cannot_be_given_are_a_note_with_the_error() {
    for mechanism in decide::mechanisms(System::Windows) {
        for (has_old, preserves) in [(false, false), (false, true), (true, false), (true, true)] {
            let scene = Scene::new(has_old);
            let fake = until(*mechanism, System::Windows).fail(Call::SetAttributes, ACCESS_DENIED);
            fake.give(&scene.source, HIDDEN);
            if has_old {
                fake.give(&scene.destination, FileAttributes::SYSTEM);
            }
            let receipt = scene.copy(&fake, &preserving(preserves)).unwrap();
            let receipt = receipt.into_receipt().unwrap();
            scene.assert_copied(mechanism.name());
            let error = std::io::Error::from_raw_os_error(ACCESS_DENIED).into();
            let expected = match has_old && !preserves {
                true => Note::OldPermissionsNotKept { error },
                false => Note::NotKeptElsewhere { what: MetadataPart::FileAttributes, error },
            };
            // The source's set is `HIDDEN` alone, which that call carries over.
            if *mechanism == Mechanism::CopyFile2 && preserves {
                assert_eq!(fake.given(&scene.destination), HIDDEN);
                continue;
            }
            assert_eq!(losses(&receipt), [&expected], "{mechanism} {has_old} {preserves}");
        }
    }
}

#[test]
fn an_existing_file_that_is_written_or_left_keeps_its_own_unless_those_of_the_source_are_preserved()
{
    for change in
        [(|options| options.in_place(true)) as fn(CopyOptions) -> CopyOptions, |options| {
            options.attributes_only(true)
        }]
    {
        for preserves in [false, true] {
            let scene = Scene::new(true);
            let fake = Fake::new(System::Windows);
            fake.give(&scene.source, FileAttributes::SYSTEM);
            fake.give(&scene.destination, HIDDEN);
            scene.copy(&fake, &change(preserving(preserves))).unwrap();
            let expected = if preserves { FileAttributes::SYSTEM } else { HIDDEN };
            assert_eq!(fake.given(&scene.destination), expected);
        }
    }
    // A name that is taken away passes nothing on.
    let scene = Scene::new(true);
    let fake = Fake::new(System::Windows);
    fake.give(&scene.destination, HIDDEN.with(READ_ONLY));
    scene.copy(&fake, &CopyOptions::new().existing(Existing::Remove)).unwrap();
    assert_eq!(fake.given(&scene.destination), ARCHIVE);
}

#[test]
fn systems_without_attributes_set_none() {
    for system in [System::MacOs, System::Other] {
        let scene = Scene::new(false);
        let fake = Fake::new(system).fail(Call::SetAttributes, ACCESS_DENIED);
        fake.give(&scene.source, HIDDEN);
        let receipt = scene.copy(&fake, &preserving(true)).unwrap().into_receipt().unwrap();
        assert_eq!(losses(&receipt), [] as [&Note; 0], "{system}");
        assert!(!fake.made().contains(&Call::SetAttributes));
    }
}
