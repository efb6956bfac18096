//! Copies by the calls of other systems, played on Linux: every error of each table, short counts, a stop at each
//! report, a crash after each call.

mod attributes;
mod given;
mod obeyed;

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::decide::{self, AfterError, Row};
use super::fake::{Call, Fake};
use super::*;
use crate::{Allow, Control, Progress, Sparse};
use uncopy_core::{Cost, Exclusion, Mechanism, RefusalReason};
use uncopy_os::native::Placing;

const SIZE: usize = 300_001;
const OLD: &str = "old contents";
const ELSEWHERE: [System; 2] = [System::MacOs, System::Windows];

/// A source, and a destination that may exist.
struct Scene {
    directory: TempDir,
    source: PathBuf,
    destination: PathBuf,
    contents: Vec<u8>,
}

impl Scene {
    fn new(has_old: bool) -> Scene {
        Scene::of((0..SIZE).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8 | 1).collect(), has_old)
    }

    fn of(contents: Vec<u8>, has_old: bool) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let [source, destination] = ["source", "copy"].map(|name| directory.path().join(name));
        fs::write(&source, &contents).unwrap();
        if has_old {
            fs::write(&destination, OLD).unwrap();
        }
        Scene { directory, source, destination, contents }
    }

    fn copy(&self, calls: &Fake, options: &CopyOptions) -> Result<Outcome> {
        self.observed(calls, options, &mut ())
    }

    fn observed(
        &self,
        calls: &Fake,
        options: &CopyOptions,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        copy_by(calls, &self.source, &self.destination, options, &CopyContext::new(), observer)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn assert_copied(&self, what: &str) {
        assert!(fs::read(&self.destination).unwrap() == self.contents, "{what}: other bytes");
        assert_eq!(self.names(), ["copy", "source"], "{what}");
    }

    /// The destination is as it was, and nothing lies beside it.
    fn assert_untouched(&self, has_old: bool, what: &str) {
        let names: &[&str] = if has_old { &["copy", "source"] } else { &["source"] };
        assert_eq!(self.names(), names, "{what}");
        let old = fs::read_to_string(&self.destination).ok();
        assert_eq!(old.as_deref(), has_old.then_some(OLD), "{what}");
    }
}

/// The call that makes up a mechanism.
fn call_of(mechanism: Mechanism) -> Call {
    match mechanism {
        Mechanism::Clonefile => Call::CloneFile,
        Mechanism::Fcopyfile => Call::CopyInto,
        Mechanism::BlockClone => Call::ShareBlocks,
        Mechanism::CopyFile2 => Call::CopyToNew,
        _ => Call::Write,
    }
}

/// Lets all mechanisms before this one fail as unsupported.
fn until(mechanism: Mechanism, system: System) -> Fake {
    let unsupported = if system == System::MacOs { 45 } else { 50 };
    let before = decide::mechanisms(system).iter().take_while(|other| **other != mechanism);
    before.fold(Fake::new(system), |fake, before| fake.fail(call_of(*before), unsupported))
}

#[test]
fn the_cheapest_mechanism_copies_and_the_receipt_names_it() {
    for (system, mechanism, cost) in [
        (System::MacOs, Mechanism::Clonefile, Cost::Shared),
        (System::MacOs, Mechanism::Fcopyfile, Cost::UserCopied),
        (System::MacOs, Mechanism::ReadWrite, Cost::UserCopied),
        (System::Windows, Mechanism::BlockClone, Cost::Shared),
        (System::Windows, Mechanism::CopyFile2, Cost::Unknown),
        (System::Windows, Mechanism::ReadWrite, Cost::UserCopied),
    ] {
        for has_old in [false, true] {
            let scene = Scene::new(has_old);
            let options = CopyOptions::default();
            let outcome = scene.copy(&until(mechanism, system), &options).unwrap();
            let receipt = outcome.into_receipt().unwrap();
            scene.assert_copied(mechanism.name());
            assert_eq!(receipt.portions.len(), 1, "{mechanism}");
            assert_eq!(receipt.portions[0].mechanism, mechanism);
            assert_eq!((receipt.portions[0].bytes, receipt.bytes), (SIZE as u64, SIZE as u64));
            assert_eq!(receipt.bytes_at(cost), SIZE as u64, "{mechanism}");
            let refused: Vec<_> =
                receipt.refusals.iter().map(|refusal| refusal.mechanism).collect();
            let before = decide::mechanisms(system).iter().take_while(|other| **other != mechanism);
            assert_eq!(refused, before.copied().collect::<Vec<_>>(), "{mechanism}");
            assert!(!receipt.notes.contains(&Note::PlainWays));
        }
    }
}

#[test]
fn a_copy_of_unknown_cost_is_shared_only_if_its_extents_say_so() {
    for (shares, expected) in
        [(None, Cost::Unknown), (Some(false), Cost::Unknown), (Some(true), Cost::Shared)]
    {
        // ERROR_INVALID_FUNCTION, ERROR_ACCESS_DENIED
        for refused in [None, Some(1), Some(5)] {
            let scene = Scene::new(true);
            let mut fake = until(Mechanism::CopyFile2, System::Windows);
            if let Some(shares) = shares {
                fake = fake.sharing(shares);
            }
            if let Some(code) = refused {
                fake = fake.fail(Call::AskShared, code);
            }
            let outcome = scene.copy(&fake, &CopyOptions::default()).unwrap();
            let cost = if refused.is_some() { Cost::Unknown } else { expected };
            assert_eq!(outcome.into_receipt().unwrap().bytes_at(cost), SIZE as u64, "{shares:?}");
            scene.assert_copied("copy_file2");
        }
    }
}

#[test]
fn every_error_of_each_table_leads_on_or_ends_with_the_old_file() {
    let tables: [(System, Mechanism, &[Row]); 4] = [
        (System::MacOs, Mechanism::Clonefile, &decide::CLONEFILE),
        (System::MacOs, Mechanism::Fcopyfile, &decide::FCOPYFILE),
        (System::Windows, Mechanism::BlockClone, &decide::BLOCK_CLONE),
        (System::Windows, Mechanism::CopyFile2, &decide::COPY_FILE2),
    ];
    // ENOSPC, EIO, EDQUOT, EROFS; ERROR_SHARING_VIOLATION, ERROR_DISK_FULL, ERROR_WRITE_PROTECT, ERROR_IO_DEVICE.
    let finals =
        |system| if system == System::MacOs { [28, 5, 69, 30] } else { [32, 112, 19, 1117] };
    for (system, mechanism, table) in tables {
        let rows = table.iter().copied();
        for (code, after) in rows.chain(finals(system).map(|code| (code, AfterError::Final))) {
            for has_old in [false, true] {
                let what = format!("{system} {mechanism} {code}");
                let scene = Scene::new(has_old);
                let fake = until(mechanism, system).fail(call_of(mechanism), code);
                match after {
                    AfterError::Next(obstacle) => {
                        let outcome = scene.copy(&fake, &CopyOptions::default()).unwrap();
                        scene.assert_copied(&what);
                        let receipt = outcome.into_receipt().unwrap();
                        let last = receipt.refusals.last().unwrap();
                        let reason = RefusalReason::StoppedBy { obstacle, after_bytes: 0 };
                        assert_eq!((last.mechanism, last.reason), (mechanism, reason), "{what}");
                    }
                    AfterError::Final => {
                        let error = scene.copy(&fake, &CopyOptions::default()).unwrap_err();
                        let Reason::OtherSystem { error } = error.reason() else {
                            panic!("{error}")
                        };
                        assert_eq!(error.get().raw_os_error(), Some(code), "{what}");
                        scene.assert_untouched(has_old, &what);
                    }
                    // It would be made again for ever.
                    AfterError::Again => {}
                }
            }
        }
    }
}

#[test]
fn errors_of_reading_and_writing_leave_the_old_file() {
    for system in ELSEWHERE {
        for call in [Call::Open, Call::Create, Call::Read, Call::Write, Call::Flush] {
            let code = if system == System::MacOs { 5 } else { 1117 };
            for has_old in [false, true] {
                let scene = Scene::new(has_old);
                let fake = until(Mechanism::ReadWrite, system).fail(call, code);
                let options = CopyOptions::new().durable(true);
                let error = scene.copy(&fake, &options).unwrap_err();
                assert_eq!(error.is_at_destination(), !matches!(call, Call::Open | Call::Read));
                scene.assert_untouched(has_old, &format!("{system} {call:?}"));
            }
        }
    }
}

#[test]
fn short_reads_and_writes_copy_all() {
    for system in [System::MacOs, System::Windows, System::Other] {
        for most in [1, 7, 4096, 100_000] {
            let contents: Vec<u8> = (0..2000).map(|at| at as u8).collect();
            let scene = Scene::of(contents, false);
            let fake = until(Mechanism::ReadWrite, system).short(most);
            let receipt = scene.copy(&fake, &CopyOptions::default()).unwrap().into_receipt();
            scene.assert_copied(&format!("{system} {most}"));
            assert_eq!(receipt.unwrap().bytes_by(Mechanism::ReadWrite), 2000);
        }
    }
}

#[test]
fn a_stop_at_each_report_leaves_what_was_there() {
    for system in ELSEWHERE {
        for mechanism in decide::mechanisms(system) {
            for has_old in [false, true] {
                let mut stops = 0;
                for stop_at in 0.. {
                    let scene = Scene::new(has_old);
                    let fake = until(*mechanism, system);
                    let mut reports = 0;
                    let mut observer = |_: Progress| {
                        reports += 1;
                        if reports > stop_at { Control::Stop } else { Control::Continue }
                    };
                    let options = CopyOptions::new().durable(true);
                    let ended = scene.observed(&fake, &options, &mut observer);
                    let what = format!("{system} {mechanism} at {stop_at}");
                    match ended {
                        Ok(_) => {
                            scene.assert_copied(&what);
                            break;
                        }
                        Err(error) => assert!(error.is_cancelled(), "{what}: {error}"),
                    }
                    scene.assert_untouched(has_old, &what);
                    stops += 1;
                }
                // Before, after, and before the flush at least.
                assert!(stops >= 3, "{system} {mechanism}: {stops}");
            }
        }
    }
}

#[test]
fn a_crash_after_each_call_leaves_the_old_file_or_the_new_one() {
    for system in ELSEWHERE {
        for mechanism in decide::mechanisms(system) {
            for existing in [None, Some(Existing::Replace), Some(Existing::Keep)] {
                let has_old = existing == Some(Existing::Replace);
                let (mut crashes, mut olds, mut news) = (0, 0, 0);
                for calls in 0.. {
                    let scene = Scene::new(has_old);
                    let fake = until(*mechanism, system).crash_after(calls);
                    let options = CopyOptions::new()
                        .durable(true)
                        .existing(existing.unwrap_or(Existing::Replace));
                    let _ = scene.copy(&fake, &options);
                    let what = format!("{system} {mechanism} {existing:?} after {calls}");
                    match fs::read(&scene.destination) {
                        Ok(found) if found == scene.contents => news += 1,
                        Ok(found) => {
                            assert!(has_old && found == OLD.as_bytes(), "{what}: a mixture");
                            olds += 1;
                        }
                        Err(_) => {
                            assert!(!has_old, "{what}: the old file is gone");
                            olds += 1;
                        }
                    }
                    assert!(fs::read(&scene.source).unwrap() == scene.contents, "{what}");
                    let beside = scene.names();
                    let beside =
                        beside.iter().filter(|name| !["copy", "source"].contains(&name.as_str()));
                    let beside: Vec<_> = beside.collect();
                    assert!(beside.len() <= 1, "{what}: {beside:?}");
                    assert!(beside.iter().all(|name| name.starts_with(".uncopy-")), "{beside:?}");
                    if !fake.is_crashed() {
                        assert!(beside.is_empty(), "{what}");
                        break;
                    }
                    crashes += 1;
                }
                assert!(crashes >= 5 && olds >= 4 && news >= 2, "{crashes} {olds} {news}");
            }
        }
    }
}

#[test]
fn a_name_is_given_by_the_next_call_where_one_is_missing() {
    let rows = [
        (
            System::MacOs,
            Existing::Keep,
            Placing::ExclusiveRename,
            Placing::Link,
            &decide::NO_EXCLUSIVE_RENAME[..],
        ),
        (
            System::Windows,
            Existing::Replace,
            Placing::PosixRename,
            Placing::Rename,
            &decide::NO_POSIX_RENAME,
        ),
        (
            System::Windows,
            Existing::Keep,
            Placing::PosixRename,
            Placing::Rename,
            &decide::NO_POSIX_RENAME,
        ),
    ];
    for (system, existing, first, second, codes) in rows {
        for code in codes {
            let scene = Scene::new(existing == Existing::Replace);
            let fake = Fake::new(system).fail(Call::Place(first), *code);
            let options = CopyOptions::new().existing(existing);
            scene.copy(&fake, &options).unwrap();
            scene.assert_copied(&format!("{system} {code}"));
            assert!(fake.made().contains(&Call::Place(second)), "{system} {code}");
        }
    }
}

#[test]
fn a_name_taken_meanwhile_is_kept() {
    for (system, placing, codes) in [
        (System::MacOs, Placing::ExclusiveRename, &decide::TAKEN_MACOS[..]),
        (System::Windows, Placing::PosixRename, &decide::TAKEN_WINDOWS),
    ] {
        for code in codes {
            let scene = Scene::new(false);
            let fake = Fake::new(system).fail(Call::Place(placing), *code);
            let options = CopyOptions::new().existing(Existing::Keep);
            assert_eq!(scene.copy(&fake, &options).unwrap(), Outcome::exists());
            scene.assert_untouched(false, &format!("{system} {code}"));
        }
        // The call itself says so.
        let scene = Scene::new(false);
        let mut observer = |_: Progress| {
            fs::write(&scene.destination, OLD).unwrap();
            Control::Continue
        };
        let options = CopyOptions::new().existing(Existing::Keep);
        let outcome = scene.observed(&Fake::new(system), &options, &mut observer).unwrap();
        assert_eq!(outcome, Outcome::exists());
        scene.assert_untouched(true, system.name());
    }
}

#[test]
fn durable_flushes_the_file_before_it_gets_its_name_and_the_name_after() {
    for system in [System::MacOs, System::Windows, System::Other] {
        for mechanism in decide::mechanisms(system) {
            let scene = Scene::new(true);
            let fake = until(*mechanism, system);
            let options = CopyOptions::new().durable(true);
            let receipt = scene.copy(&fake, &options).unwrap().into_receipt().unwrap();
            assert!(receipt.durable);
            let made = fake.made();
            let at = |found: fn(&Call) -> bool| made.iter().position(found).unwrap();
            let named = at(|call| matches!(call, Call::Place(_)));
            assert!(at(|call| *call == Call::Flush) < named, "{system} {mechanism}");
            assert!(at(|call| *call == Call::FlushName) > named, "{system} {mechanism}");

            let fake = until(*mechanism, system);
            let receipt = scene.copy(&fake, &CopyOptions::default()).unwrap().into_receipt();
            assert!(!receipt.unwrap().durable && !fake.made().contains(&Call::Flush));
        }
    }
}

#[test]
fn a_copy_that_must_not_share_is_made_by_mechanisms_that_do_not() {
    for (system, mechanism) in
        [(System::MacOs, Mechanism::Fcopyfile), (System::Windows, Mechanism::ReadWrite)]
    {
        let scene = Scene::new(false);
        let options = CopyOptions::new().allow(Allow::Unshared);
        let receipt = scene.copy(&Fake::new(system), &options).unwrap().into_receipt().unwrap();
        assert_eq!(receipt.bytes_by(mechanism), SIZE as u64, "{system}");
        let shares = RefusalReason::ExcludedBy(Exclusion::SharesBlocks);
        assert!(receipt.refusals.iter().all(|refusal| refusal.reason == shares), "{system}");
    }
}

#[test]
fn an_empty_file_is_not_tried_with_calls_that_fail_on_it() {
    for system in ELSEWHERE {
        let scene = Scene::of(Vec::new(), true);
        let fake = Fake::new(system);
        let receipt = scene.copy(&fake, &CopyOptions::default()).unwrap().into_receipt().unwrap();
        scene.assert_copied(system.name());
        assert_eq!((receipt.bytes, receipt.portions.len()), (0, 0));
        assert!(receipt.refusals.iter().all(|refusal| refusal.reason == RefusalReason::Empty));
    }
}

#[test]
fn holes_stay_holes_by_reads_and_writes_too() {
    const HOLE: usize = 1 << 20;
    for (system, data) in
        [(System::MacOs, &b"end"[..]), (System::Windows, b"end"), (System::MacOs, b"")]
    {
        let scene = Scene::of(Vec::new(), false);
        let file = File::options().write(true).open(&scene.source).unwrap();
        file.set_len(HOLE as u64).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, data, HOLE as u64).unwrap();
        let contents = fs::read(&scene.source).unwrap();
        let fake = until(Mechanism::ReadWrite, system);
        let options = CopyOptions::default();
        let receipt = scene.copy(&fake, &options).unwrap().into_receipt().unwrap();
        assert!(fs::read(&scene.destination).unwrap() == contents);
        assert_eq!(receipt.bytes_at(Cost::Hole), HOLE as u64, "{system}");
        assert_eq!(receipt.bytes, contents.len() as u64);
        let blocks =
            std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&scene.destination).unwrap());
        assert!(blocks * 512 < HOLE as u64, "{blocks} blocks");

        // Where they are to be filled, no mechanism may keep them.
        let options = CopyOptions::new().sparse(Sparse::Never);
        let receipt = scene.copy(&Fake::new(system), &options).unwrap().into_receipt().unwrap();
        assert_eq!(receipt.bytes_by(Mechanism::ReadWrite), receipt.bytes);
        assert_eq!(receipt.bytes_at(Cost::Hole), 0);
    }
}

#[test]
fn zeros_become_holes_if_wanted_by_reads_and_writes_alone() {
    const BLOCK: usize = 4096;
    let some = |blocks: &[usize], length: usize| {
        let mut contents = vec![0; length];
        for block in blocks {
            contents[block * BLOCK + 7] = 1;
        }
        contents
    };
    for system in [System::MacOs, System::Windows, System::Other] {
        for (contents, written) in [
            (some(&[0, 70], 100 * BLOCK), 2 * BLOCK),
            (some(&[99], 100 * BLOCK), BLOCK),
            (some(&[100], 100 * BLOCK + 9), 9),
            (some(&[], 100 * BLOCK + 1), 0),
            (some(&[], 0), 0),
        ] {
            for has_old in [false, true] {
                for most in [usize::MAX, BLOCK] {
                    let what = format!("{system} {} {written} {most}", contents.len());
                    let scene = Scene::of(contents.clone(), has_old);
                    let mut options = CopyOptions::new().sparse(Sparse::Always);
                    options.digest = Some(crate::Digest::Xxh3);
                    options.verify = options.digest.map(crate::Verify::from);
                    let fake = Fake::new(system).short(most);
                    let receipt = scene.copy(&fake, &options).unwrap().into_receipt().unwrap();
                    scene.assert_copied(&what);
                    let holes = (contents.len() - written) as u64;
                    assert_eq!(receipt.bytes_at(Cost::Zeros), holes, "{what}");
                    assert_eq!(receipt.bytes_at(Cost::UserCopied), written as u64, "{what}");
                    let why = RefusalReason::ExcludedBy(Exclusion::CannotSeeZeros);
                    assert!(receipt.refusals.iter().all(|refusal| refusal.reason == why), "{what}");
                    let copy = fs::metadata(&scene.destination).unwrap();
                    let blocks = std::os::unix::fs::MetadataExt::blocks(&copy);
                    assert!(blocks * 512 <= (written + 4 * BLOCK) as u64, "{what}: {blocks}");
                }
            }
        }
        // Old bytes may lie where a hole would be.
        let scene = Scene::of(vec![0; 3 * BLOCK], false);
        fs::write(&scene.destination, vec![9; 5 * BLOCK]).unwrap();
        let options = CopyOptions::new().sparse(Sparse::Always).in_place(true);
        let receipt = scene.copy(&Fake::new(system), &options).unwrap().into_receipt().unwrap();
        scene.assert_copied("in place");
        assert!(receipt.notes.contains(&Note::HolesFilled));
        // Where a file gets no holes, zeros are written.
        let scene = Scene::of(vec![0; 3 * BLOCK], false);
        let fake = Fake::new(system).fail(Call::MakeSparse, 1);
        let options = CopyOptions::new().sparse(Sparse::Always);
        let receipt = scene.copy(&fake, &options).unwrap().into_receipt().unwrap();
        scene.assert_copied("without holes");
        assert_eq!(receipt.bytes_at(Cost::UserCopied), 3 * BLOCK as u64);
        assert!(receipt.notes.contains(&Note::HolesFilled));
    }
}

#[test]
fn names_that_windows_reserves_are_refused_there_alone() {
    for name in ["nul", "COM1.txt", "copy:stream"] {
        let scene = Scene::new(false);
        let destination = scene.directory.path().join(name);
        let copied = |system| {
            let (options, context) = (CopyOptions::default(), CopyContext::new());
            let fake = Fake::new(system);
            copy_by(&fake, &scene.source, &destination, &options, &context, &mut ())
        };
        let error = copied(System::Windows).unwrap_err();
        assert!(matches!(error.reason(), Reason::NotRegular { .. }), "{error}");
        assert_eq!(scene.names(), ["source"]);
        copied(System::MacOs).unwrap();
    }
}

#[test]
fn streams_that_a_mechanism_leaves_out_are_noted() {
    for system in ELSEWHERE {
        for mechanism in decide::mechanisms(system) {
            for name in ["source.streams", "source"] {
                let scene = Scene::new(false);
                let source = scene.directory.path().join(name);
                if name != "source" {
                    fs::rename(&scene.source, &source).unwrap();
                }
                let calls = until(*mechanism, system);
                let (options, context) = (CopyOptions::default(), CopyContext::new());
                let outcome =
                    copy_by(&calls, &source, &scene.destination, &options, &context, &mut ());
                let notes = outcome.unwrap().into_receipt().unwrap().notes;
                let is_left_out = system == System::Windows
                    && name != "source"
                    && *mechanism != Mechanism::CopyFile2;
                assert_eq!(
                    notes.contains(&Note::StreamsNotKept),
                    is_left_out,
                    "{mechanism} {name}"
                );
            }
        }
    }
}
