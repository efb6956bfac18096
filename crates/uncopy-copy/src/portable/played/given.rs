//! Owners and modes that copies get on other systems, played. Files change their owner for root alone.

use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};

use super::*;
use crate::portable::fake::is_root;
use crate::{Owner, Preserve};
use uncopy_core::MetadataPart;

const SYSTEMS: [System; 2] = [System::MacOs, System::Other];
const EPERM: i32 = 1;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn owner(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

fn mechanisms() -> impl Iterator<Item = (System, Mechanism)> {
    SYSTEMS.into_iter().flat_map(|system| {
        decide::mechanisms(system).iter().map(move |mechanism| (system, *mechanism))
    })
}

fn receipt(scene: &Scene, calls: &Fake, options: &CopyOptions) -> Receipt {
    scene.copy(calls, options).unwrap().into_receipt().unwrap()
}

/// Copies, and returns also every bit that a temporary file had meanwhile.
fn watched(scene: &Scene, calls: &Fake, options: &CopyOptions) -> (Receipt, u32) {
    let mut widest = 0;
    let mut observer = |_: Progress| {
        for name in scene.names() {
            if name.starts_with(".uncopy-") {
                widest |= mode(&scene.directory.path().join(name));
            }
        }
        Control::Continue
    };
    let ended = scene.observed(calls, options, &mut observer);
    (ended.unwrap().into_receipt().unwrap(), widest)
}

#[test]
fn changes_of_the_mode_are_made_to_the_one_that_the_copy_would_have() {
    let umask = uncopy_os::name::umask().unwrap();
    for (system, mechanism) in mechanisms() {
        for changes in ["600", "u+s,go-rwx", "a+x", "+x", "4711", "F640,D700"] {
            for (has_old, preserves) in [(false, false), (false, true), (true, false), (true, true)]
            {
                let what = format!("{system} {mechanism} {changes} {has_old} {preserves}");
                let scene = Scene::new(has_old);
                set_mode(&scene.source, 0o664);
                if has_old {
                    set_mode(&scene.destination, 0o606);
                }
                let preserve = Preserve::default().mode(preserves);
                let mut options = CopyOptions::new().preserve(preserve);
                options.mode_changes = changes.parse().ok();
                let fake = until(mechanism, system);
                let (_, widest) = watched(&scene, &fake, &options);
                scene.assert_copied(&what);
                let before = match (has_old, preserves) {
                    (_, true) => 0o664,
                    (true, false) => 0o606,
                    (false, false) => 0o664 & !umask,
                };
                let expected = options.mode_changes.unwrap().apply(before, false, umask);
                assert_eq!(mode(&scene.destination), expected, "{what}");
                // Whoever could open it early would see what comes.
                assert_eq!(widest & !0o600, 0, "{what}: {widest:o}");
                let made = fake.made();
                let named = made.iter().position(|call| matches!(call, Call::Place(_))).unwrap();
                let is_last = made[named..].contains(&Call::SetPermissions);
                assert_eq!(is_last, expected & 0o6000 != 0, "{what}");
            }
        }
    }
}

#[test]
fn a_mode_or_owner_that_is_asked_for_and_not_given_is_an_error() {
    for (system, mechanism) in mechanisms() {
        for (call, operation) in
            [(Call::SetPermissions, "set the mode of"), (Call::SetOwner, "set the owner of")]
        {
            for has_old in [false, true] {
                let mut options = CopyOptions::new().owner(Owner::new().user(12_345).group(54_321));
                options.mode_changes = "640".parse().ok();
                let scene = Scene::new(has_old);
                let fake = until(mechanism, system).fail(call, EPERM);
                let error = scene.copy(&fake, &options).unwrap_err();
                assert_eq!(error.operation(), operation, "{system} {mechanism}");
                assert!(error.is_at_destination());
                scene.assert_untouched(has_old, operation);
            }
        }
        let scene = Scene::new(false);
        let options = CopyOptions::new().owner(Owner::new().user(12_345).group(54_321));
        let fake = until(mechanism, system);
        receipt(&scene, &fake, &options.clone().preserve(Preserve::default().mode(true)));
        scene.assert_copied(mechanism.name());
        let made = fake.made();
        let at = |call: Call| made.iter().position(|made| *made == call).unwrap();
        assert!(at(Call::SetOwner) < at(Call::SetPermissions), "{made:?}");
        if is_root() {
            assert_eq!(owner(&scene.destination), (12_345, 54_321));
        }
        // An owner that it has already is not given again.
        let (user, group) = owner(&scene.source);
        let options = CopyOptions::new().owner(Owner::new().user(user).group(group));
        let scene = Scene::new(false);
        receipt(&scene, &Fake::new(system).fail(Call::SetOwner, EPERM), &options);
    }
}

#[test]
fn the_owner_of_the_source_is_kept_or_a_note_says_what_is_not() {
    if !is_root() {
        return; // Files have one owner.
    }
    for (system, mechanism) in mechanisms() {
        for has_old in [false, true] {
            for (refused, part, expected, mode_bits) in [
                (None, None, (111, 222), 0o6751),
                (Some(None), Some(MetadataPart::OwnerAndGroup), (0, 0), 0o751),
                (Some(Some(0)), Some(MetadataPart::Owner), (0, 222), 0o751),
            ] {
                let what = format!("{system} {mechanism} {has_old} {part:?}");
                let scene = Scene::new(has_old);
                lchown(&scene.source, Some(111), Some(222)).unwrap();
                set_mode(&scene.source, 0o6751);
                let preserve = Preserve::default().ownership(true).mode(true);
                let options = CopyOptions::new().preserve(preserve);
                let fake = until(mechanism, system);
                let fake = match refused {
                    None => fake,
                    Some(None) => fake.fail(Call::SetOwner, EPERM),
                    // `until` fails every call of its names, so that one system without others is played.
                    Some(Some(_)) if mechanism != decide::mechanisms(system)[0] => continue,
                    Some(Some(nth)) => fake.fail_nth(Call::SetOwner, nth, EPERM),
                };
                let receipt = receipt(&scene, &fake, &options);
                scene.assert_copied(&what);
                assert_eq!(owner(&scene.destination), expected, "{what}");
                assert_eq!(mode(&scene.destination), mode_bits, "{what}");
                let not_kept: Vec<_> = receipt
                    .notes
                    .iter()
                    .filter_map(|note| match note {
                        Note::NotKeptElsewhere { what, .. } => Some(what.clone()),
                        _ => None,
                    })
                    .collect();
                assert_eq!(not_kept, part.clone().into_iter().collect::<Vec<_>>(), "{what}");
                let is_dropped = receipt.notes.contains(&Note::SetuidDropped);
                assert_eq!(is_dropped, part.is_some(), "{what}");
            }
        }
    }
}

#[test]
fn a_replaced_file_passes_its_owner_on_or_a_note_says_what_is_not() {
    if !is_root() {
        return; // Files have one owner.
    }
    for system in SYSTEMS {
        for (refused, note, expected, mode_bits) in [
            (None, None, (111, 222), 0o664),
            (Some(None), Some(Note::OldOwnerAndGroupNotKept), (0, 0), 0o604),
            (Some(Some(0)), Some(Note::OldOwnerNotKept), (0, 222), 0o664),
        ] {
            let scene = Scene::new(true);
            lchown(&scene.destination, Some(111), Some(222)).unwrap();
            set_mode(&scene.destination, 0o6664);
            let fake = match refused {
                None => Fake::new(system),
                Some(None) => Fake::new(system).fail(Call::SetOwner, EPERM),
                Some(Some(nth)) => Fake::new(system).fail_nth(Call::SetOwner, nth, EPERM),
            };
            let receipt = receipt(&scene, &fake, &CopyOptions::default());
            assert_eq!(owner(&scene.destination), expected, "{system} {note:?}");
            assert_eq!(mode(&scene.destination), mode_bits, "{system} {note:?}");
            for old in [Note::OldOwnerNotKept, Note::OldOwnerAndGroupNotKept] {
                let is_there = receipt.notes.contains(&old);
                assert_eq!(is_there, note.as_ref() == Some(&old), "{system} {old}");
            }
        }
    }
}

#[test]
fn attributes_are_copied_behind_the_owner_and_an_acl_when_the_file_has_its_name() {
    for mechanism in decide::mechanisms(System::MacOs) {
        for has_old in [false, true] {
            for (xattr, acl) in [(false, false), (true, false), (false, true), (true, true)] {
                for fails in [false, true] {
                    let what = format!("{mechanism} {has_old} {xattr} {acl} {fails}");
                    let scene = Scene::new(has_old);
                    set_mode(&scene.source, 0o664);
                    let preserve = Preserve::default().xattr(xattr).acl(acl);
                    let owner = Owner::new().user(12_345);
                    let options = CopyOptions::new().preserve(preserve).owner(owner);
                    let fake = until(*mechanism, System::MacOs);
                    let fake = match fails {
                        true => fake.fail(Call::CopyAttributes, EPERM).fail(Call::CopyAcl, EPERM),
                        false => fake,
                    };
                    let (receipt, widest) = watched(&scene, &fake, &options);
                    scene.assert_copied(&what);
                    let made = fake.made();
                    let at = |call: Call| made.iter().position(|made| *made == call);
                    let named =
                        made.iter().position(|call| matches!(call, Call::Place(_))).unwrap();
                    let last = made.iter().rposition(|call| *call == Call::SetPermissions);
                    if let Some(attributes) = at(Call::CopyAttributes) {
                        assert!(at(Call::SetOwner).unwrap() < attributes && attributes < named);
                    }
                    // It may forbid to rename the file, which is for its owner alone until it has it.
                    if let Some(acl) = at(Call::CopyAcl) {
                        assert!(named < acl && acl < last.unwrap(), "{what}: {made:?}");
                        assert!(widest & !0o600 == 0, "{what}: {widest:o}");
                    }
                    for (call, is_wanted, part) in [
                        (Call::CopyAttributes, xattr, MetadataPart::Attributes),
                        (Call::CopyAcl, acl, MetadataPart::Acl),
                    ] {
                        assert_eq!(at(call).is_some(), is_wanted, "{what}");
                        let error = std::io::Error::from_raw_os_error(EPERM).into();
                        let note = Note::NotKeptElsewhere { what: part, error };
                        assert_eq!(receipt.notes.contains(&note), is_wanted && fails, "{what}");
                    }
                    let is_lost = receipt.notes.contains(&Note::OldAttributesGone);
                    assert_eq!(is_lost, has_old && !(xattr && acl), "{what}");
                    let umask = uncopy_os::name::umask().unwrap();
                    let expected = if has_old { 0o666 & !umask } else { 0o664 & !umask };
                    assert_eq!(mode(&scene.destination) & 0o777, expected, "{what}");
                }
            }
        }
    }
}
