//! Tests of guarantees of `uncopy::copy` other than the copied bytes: progress reports, cancellation,
//! distinguishable errors, and no leaked resources in the process.

mod between_filesystems;
pub(crate) mod descriptors;
mod digests;
mod errors;
mod observer;
mod patterns;
mod pausing;

use std::path::PathBuf;

use testbed::{Content, Place, Scratch};
use uncopy::Mechanism;
use uncopy::copy::{Allow, CopyOptions};

/// Every way that works from one file to another on any filesystem.
const EVERYWHERE: [Mechanism; 4] =
    [Mechanism::CopyFileRange, Mechanism::Sendfile, Mechanism::Splice, Mechanism::ReadWrite];

/// A source and a name to copy it to.
struct Pair {
    scratch: Scratch,
    source: PathBuf,
    destination: PathBuf,
}

impl Pair {
    fn new(length: u64) -> Pair {
        let scratch = Place::Disk.scratch();
        let (source, destination) = (scratch.join("source"), scratch.join("destination"));
        Content::dense(length).write(&source);
        Pair { scratch, source, destination }
    }

    fn old_destination(&self) -> &'static [u8] {
        std::fs::write(&self.destination, b"old").unwrap();
        b"old"
    }

    #[track_caller]
    fn assert_kept(&self, old: Option<&[u8]>) {
        assert_eq!(std::fs::read(&self.destination).ok().as_deref(), old);
        let strangers = self.scratch.strangers(&["source", "destination"]);
        assert!(strangers.is_empty(), "left behind: {strangers:?}");
    }

    #[track_caller]
    fn assert_copied(&self) {
        testbed::assert_same(&self.source, &self.destination);
        let strangers = self.scratch.strangers(&["source", "destination"]);
        assert!(strangers.is_empty(), "left behind: {strangers:?}");
    }
}

/// Exactly this way.
fn only(mechanism: Mechanism) -> CopyOptions {
    let mut options = CopyOptions::default();
    options.allow = Allow::Only(mechanism);
    options
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    [
        between_filesystems::cases(),
        descriptors::cases(),
        digests::cases(),
        errors::cases(),
        observer::cases(),
        patterns::cases(),
        pausing::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
