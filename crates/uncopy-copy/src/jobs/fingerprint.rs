//! Identifies a job, so that another run can tell that it is the same (pure, but for the resolved name).

use std::path::Path;

use super::JobOptions;
use crate::{CopyOptions, Tuning};

/// Identifies a job: by the source's root and all options that decide what its copy is like.
pub(crate) fn fingerprint(options: &JobOptions, source: &Path, inode: u64) -> [u8; 16] {
    // The resolved name is used, independent of the caller's spelling; the device number may change
    // with a reboot.
    let source = std::fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
    // Tuning changes how bytes are moved, and not what is copied.
    let mut copied = CopyOptions { tuning: Tuning::BUILT_IN, ..options.copy.clone() };
    // The name given for a tree does not matter; single files are passed without an inode.
    copied.suffix &= inode == 0;
    let text = format!(
        "{} {:?} {inode} {:?} {:?} {} {} {:?} {} {:?} {} {}",
        env!("CARGO_PKG_VERSION"),
        source,
        copied,
        options.links,
        options.follow_outside,
        options.specials,
        options.selection,
        options.follow_roots,
        options.hard_links,
        options.one_filesystem,
        options.link,
    );
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    bytes
}
