//! What the journal of a job with `--resume` says.

use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"UJ3\n";
/// Magic number, kind, length and checksum.
const HEAD_BYTES: usize = 28;
const CHECKSUM_BYTES: usize = 16;
const DONE: u32 = 2;
const DIGEST_BYTES: usize = 16;

/// The journal in a directory, if there is one.
#[must_use]
pub fn find(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|end| end == "journal"))
}

/// How many files a journal says to be done, in its whole frames.
#[must_use]
pub fn noted(journal: &Path) -> u64 {
    let bytes = std::fs::read(journal).unwrap_or_default();
    let mut rest = &bytes[..];
    let mut files = 0;
    while rest.starts_with(MAGIC) && rest.len() >= HEAD_BYTES {
        let number = |place: usize| {
            let bytes = rest[place..place + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(bytes)
        };
        let (kind, length) = (number(4), number(8) as usize);
        let end = HEAD_BYTES + length + CHECKSUM_BYTES;
        if rest.len() < end {
            break;
        }
        if kind == DONE {
            files += length / DIGEST_BYTES;
        }
        rest = &rest[end..];
    }
    files as u64
}
