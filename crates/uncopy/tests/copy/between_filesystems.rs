//! `copy_file_range(2)` where kernels differ: from Linux 5.3 to 5.18 it copied between filesystems and from files of
//! `/proc`, of which it took nothing for an end; other kernels refuse. The bytes are right whatever it does, and the
//! receipt says why it was not used.

use std::path::{Path, PathBuf};

use testbed::{Case, Content, Need, Place, copied};
use uncopy::copy::{CopyOptions, Outcome, copy_file};
use uncopy::{Mechanism, Reason, Receipt, Refusal};

use crate::copy::only;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] from_files_of_proc,
        [Need::At(Place::Tmpfs)] to_and_from_tmpfs,
        [Need::At(Place::Overlay), Need::At(Place::Btrfs)] to_and_from_overlayfs_and_others,
    ]
}

/// Longer than a pipe, and no multiple of a page.
const LENGTH: u64 = (3 << 20) + 77;

fn from_files_of_proc() {
    // Regular files without a size, and with one that is not theirs.
    for source in
        ["/proc/version", "/proc/self/maps", "/sys/kernel/mm/transparent_hugepage/enabled"]
    {
        let source = Path::new(source);
        if source.exists() {
            let is_stable = !source.ends_with("maps");
            let expected = is_stable.then(|| std::fs::read(source).unwrap());
            copy_in_every_way(source, &Place::Disk.path(), expected.as_deref());
        }
    }
}

fn to_and_from_tmpfs() {
    between(&[Place::Disk, Place::Tmpfs, Place::OtherTmpfs]);
}

fn to_and_from_overlayfs_and_others() {
    between(&[
        Place::Disk,
        Place::Tmpfs,
        Place::Xfs,
        Place::Overlay,
        Place::OverlayUpper,
        Place::Btrfs,
    ]);
}

fn between(places: &[Place]) {
    for from in places {
        let scratch = from.scratch();
        let source = scratch.join("source");
        for content in [Content::dense(LENGTH), Content::dense(1)] {
            content.write(&source);
            let expected = std::fs::read(&source).unwrap();
            for to in places {
                copy_in_every_way(&source, &to.path(), Some(&expected));
            }
        }
    }
}

/// Copies by `copy_file_range` alone, which may be refused, and by whatever is chosen.
fn copy_in_every_way(source: &Path, directory: &Path, expected: Option<&[u8]>) {
    let scratch = testbed::Scratch::new_in(directory);
    let destination = scratch.join("destination");
    for options in [only(Mechanism::CopyFileRange), CopyOptions::new()] {
        let context = format!("{} to {}", source.display(), destination.display());
        let refusals = match copy_file(source, &destination, &options) {
            Ok(outcome) => {
                assert_bytes(&destination, expected, &context);
                refusals_of(outcome, &context)
            }
            Err(error) => {
                assert!(options.allow != CopyOptions::new().allow, "{context}: {error}");
                assert!(!destination.exists(), "{context}: {error}");
                let Reason::NoMechanism { refusals } = error.reason() else {
                    panic!("{context}: {error}")
                };
                Some(refusals.clone())
            }
        };
        let Some(refusals) = refusals else { continue };
        let is_named = refusals.iter().any(|refusal| refusal.mechanism == Mechanism::CopyFileRange);
        assert!(is_named, "{context}: nothing says why not: {refusals:?}");
        let _ = std::fs::remove_file(&destination);
    }
}

fn assert_bytes(destination: &PathBuf, expected: Option<&[u8]>, context: &str) {
    let found = std::fs::read(destination).unwrap();
    match expected {
        Some(expected) => assert!(found == expected, "{context}: {} bytes", found.len()),
        None => assert!(!found.is_empty(), "{context}"),
    }
}

/// Returns the refusals of a copy that went without `copy_file_range`. `None`: it, or a cheaper way, moved bytes.
fn refusals_of(outcome: Outcome, context: &str) -> Option<Vec<Refusal>> {
    let receipt: Receipt = copied(outcome);
    let total = receipt.portions.iter().map(|portion| portion.bytes).sum::<u64>();
    assert_eq!(total, receipt.bytes, "{context}");
    let cheap = [Mechanism::Reflink, Mechanism::Direct, Mechanism::CopyFileRange];
    let is_cheap = receipt.portions.iter().any(|portion| cheap.contains(&portion.mechanism));
    (!is_cheap).then_some(receipt.refusals)
}
