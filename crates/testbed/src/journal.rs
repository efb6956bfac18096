//! Journals of jobs with `--resume`, as seen by tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"UJ5\n";
/// Size of magic number, kind, length and checksum.
const HEAD_BYTES: usize = 28;
const CHECKSUM_BYTES: usize = 16;
const DONE: u32 = 2;
const CHUNKS: u32 = 3;
const DIGEST_BYTES: usize = 16;

/// Size of a chunk frame before the names: state of the source, identity of the partial file, two
/// numbers, two lengths.
const CHUNKS_HEAD_BYTES: usize = 16 + 20 + 16 + 8;
const CHUNK_DIGEST_BYTES: usize = 32;

/// Finds the journal in a directory.
#[must_use]
pub fn find(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|end| end == "journal"))
}

/// Returns the number of completed files in the journal's whole frames.
#[must_use]
pub fn noted(journal: &Path) -> u64 {
    let mut files = 0;
    for_each_frame(journal, |kind, payload| {
        if kind == DONE {
            files += payload.len() / DIGEST_BYTES;
        }
    });
    files as u64
}

/// Returns the recorded position in each large file, by its path from the root; the last chunk
/// counts in full. Files that were completed later are included.
#[must_use]
pub fn parts(journal: &Path) -> BTreeMap<PathBuf, u64> {
    let mut parts = BTreeMap::new();
    for_each_frame(journal, |kind, payload| {
        if kind == CHUNKS {
            let (path, end) = part(payload);
            parts.insert(path, end);
        }
    });
    parts
}

fn part(payload: &[u8]) -> (PathBuf, u64) {
    let number = |place: usize| u64::from_le_bytes(array(payload, place));
    let length = |place: usize| u32::from_le_bytes(array(payload, place)) as usize;
    let (chunk_bytes, first) = (number(36), number(44));
    let path = CHUNKS_HEAD_BYTES + length(52);
    let chunks = path + length(56);
    let count = (payload.len() - chunks) / CHUNK_DIGEST_BYTES;
    let name = OsString::from_vec(payload[path..chunks].to_vec());
    (name.into(), (first + count as u64) * chunk_bytes)
}

fn for_each_frame(journal: &Path, mut visit: impl FnMut(u32, &[u8])) {
    let bytes = std::fs::read(journal).unwrap_or_default();
    let mut rest = &bytes[..];
    while rest.starts_with(MAGIC) && rest.len() >= HEAD_BYTES {
        let kind = u32::from_le_bytes(array(rest, 4));
        let payload_end = HEAD_BYTES + u32::from_le_bytes(array(rest, 8)) as usize;
        let Some(next) = rest.get(payload_end + CHECKSUM_BYTES..) else { break };
        visit(kind, &rest[HEAD_BYTES..payload_end]);
        rest = next;
    }
}

fn array<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
    bytes[place..place + N].try_into().expect("the slice has N bytes")
}
