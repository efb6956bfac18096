//! On-disk format of a record of temporary names: a header that states the identity of the record file,
//! and slots of one size, each for one name at a time.
//!
//! Numbers are little-endian. A copy of a record is another file than its header states, and is invalid.
//! A slot's checksum covers the header, so that slots of other records are invalid. A slot truncated by
//! a crash has no valid checksum, and counts as empty.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use uncopy_os::file::FileId;
use xxhash_rust::xxh3::Xxh3;

/// Magic number, which contains the version of the format.
const MAGIC: &[u8; 8] = b"uncopyR1";
const CHECKSUM_BYTES: usize = 16;
const HEAD_BYTES: usize = MAGIC.len() + FileId::BYTES + CHECKSUM_BYTES;
/// Size of the header and of each slot. None crosses a page, so that no kill leaves half of one. A
/// longer path is not recorded.
const SLOT_BYTES: usize = 1024;
const LENGTHS_BYTES: usize = 4;

/// Maximum number of names: one for each worker, and there are fewer workers.
pub(super) const MAX_SLOTS: usize = 1024;
/// Maximum length of a record.
pub(super) const MAX_BYTES: usize = (1 + MAX_SLOTS) * SLOT_BYTES;

/// Inode number that stands for a directory not created yet: no file has it.
pub(super) const INTENDED: FileId = FileId { inode: 0, birth: None };

/// Temporary name, and the identity of the file behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Directory of the name, relative to that of the record.
    pub(super) path: PathBuf,
    pub(super) name: OsString,
    pub(super) id: FileId,
}

/// Returns the offset of a slot.
pub(super) fn offset(slot: usize) -> u64 {
    ((1 + slot) * SLOT_BYTES) as u64
}

fn checksum(parts: &[&[u8]]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = Xxh3::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.digest128().to_le_bytes()
}

/// Encodes the header of the record, which states the record file's identity.
pub(super) fn head(own: FileId) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &own.to_bytes()].concat();
    bytes.extend(checksum(&[&bytes]));
    bytes
}

/// Encodes a slot of the record with this header. `None`: the names are too long.
pub(super) fn slot(head: &[u8], path: &Path, name: &OsStr, id: FileId) -> Option<Vec<u8>> {
    let (path, name) = (path.as_os_str().as_bytes(), name.as_bytes());
    let length = FileId::BYTES + LENGTHS_BYTES + path.len() + name.len() + CHECKSUM_BYTES;
    if length > SLOT_BYTES {
        return None;
    }
    let lengths = [path.len(), name.len()].map(|length| (length as u16).to_le_bytes()).concat();
    let mut bytes = [&id.to_bytes()[..], &lengths, path, name].concat();
    bytes.extend(checksum(&[head, &bytes]));
    Some(bytes)
}

/// Parses a record: the identity that it states, and its entries. `None`: it is not a record.
pub(super) fn parse(bytes: &[u8]) -> Option<(FileId, Vec<Entry>)> {
    let head = bytes.get(..HEAD_BYTES)?;
    let (fields, sum) = head.split_at(HEAD_BYTES - CHECKSUM_BYTES);
    let own = fields.strip_prefix(MAGIC)?.try_into().ok()?;
    if checksum(&[fields]) != *sum {
        return None;
    }
    let slots = bytes.chunks(SLOT_BYTES).skip(1).take(MAX_SLOTS);
    let entries = slots.filter_map(|slot| parse_slot(head, slot)).collect();
    Some((FileId::from_bytes(own), entries))
}

fn parse_slot(head: &[u8], slot: &[u8]) -> Option<Entry> {
    let (id, rest) = slot.split_first_chunk::<{ FileId::BYTES }>()?;
    let (lengths, rest) = rest.split_first_chunk::<LENGTHS_BYTES>()?;
    let length =
        |place: usize| usize::from(u16::from_le_bytes([lengths[place], lengths[place + 1]]));
    let (path, rest) = rest.split_at_checked(length(0))?;
    let (name, rest) = rest.split_at_checked(length(2))?;
    let sum = rest.first_chunk::<CHECKSUM_BYTES>()?;
    if checksum(&[head, id, lengths, path, name]) != *sum {
        return None;
    }
    let name = OsString::from_vec(name.to_vec());
    let is_usable = leads_down(path) && super::kind_of(&name).is_some();
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    is_usable.then(|| Entry { path, name, id: FileId::from_bytes(id) })
}

/// Whether a path consists only of names below the record's directory.
fn leads_down(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    path.is_empty() || path.split(|byte| *byte == b'/').all(is_name)
}

/// Fuzzes parsing (`fuzz/`): the bytes as a record, as the slots of one with a valid header, and as the
/// names in a slot with a valid checksum.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    let own = FileId { inode: 1, birth: None };
    let head = head(own);
    let with_head = |slot: &[u8]| [&head[..], &vec![0; SLOT_BYTES - HEAD_BYTES], slot].concat();
    check(bytes);
    check(&with_head(bytes));
    let (length, names) = bytes.split_first().unwrap_or((&0, &[]));
    let (path, name) = names.split_at(usize::from(*length).min(names.len()));
    let path = Path::new(OsStr::from_bytes(path));
    if let Some(slot) = slot(&head, path, OsStr::from_bytes(name), own) {
        check(&with_head(&slot));
    }
}

/// Checks that an entry leads only downwards, to a temporary name.
#[cfg(fuzzing)]
fn check(bytes: &[u8]) {
    for entry in parse(bytes).map(|(_, entries)| entries).unwrap_or_default() {
        let is_name = |part| matches!(part, std::path::Component::Normal(_));
        assert!(entry.path.components().all(is_name) && super::is_temporary(&entry.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stale::{Kind, temporary_name};
    use uncopy_os::file::Timestamp;

    fn id(inode: u64) -> FileId {
        FileId { inode, birth: Some(Timestamp { seconds: -7, nanoseconds: 999_999_999 }) }
    }

    fn entry(inode: u64, path: &str) -> Entry {
        let name = temporary_name(OsStr::new("x"), Kind::File).unwrap();
        Entry { path: path.into(), name, id: id(inode) }
    }

    fn bytes_of(own: FileId, entries: &[(usize, &Entry)]) -> Vec<u8> {
        let head = head(own);
        let mut bytes = head.clone();
        for (number, entry) in entries {
            let slot = slot(&head, &entry.path, &entry.name, entry.id).unwrap();
            let begin = offset(*number) as usize;
            bytes.resize(bytes.len().max(begin + slot.len()), 0);
            bytes[begin..begin + slot.len()].copy_from_slice(&slot);
        }
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let entries = [entry(1, ""), entry(u64::MAX, "a"), entry(3, "a/\u{fffd}/c")];
        let bytes = bytes_of(id(9), &[(0, &entries[0]), (2, &entries[1]), (7, &entries[2])]);
        assert_eq!(parse(&bytes), Some((id(9), entries.to_vec())));
        assert_eq!(parse(&head(id(9))), Some((id(9), Vec::new())));
        let unborn = FileId { inode: 4, birth: None };
        assert_eq!(parse(&head(unborn)), Some((unborn, Vec::new())));
        assert!(!unborn.is_surely(&unborn) && id(4).is_surely(&id(4)));
        assert!(!id(4).is_surely(&id(5)) && !id(4).is_surely(&unborn));
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let (first, second) = (entry(1, "a/b"), entry(2, ""));
        let bytes = bytes_of(id(9), &[(0, &first), (1, &second)]);
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            let (begin, next) = (offset(0) as usize, offset(1) as usize);
            match parse(&damaged) {
                None => assert!(place < HEAD_BYTES, "{place}"),
                Some((own, entries)) => {
                    assert_eq!(own, id(9));
                    let sums_end = begin
                        + slot(&head(id(9)), &first.path, &first.name, first.id)
                            .map_or(0, |slot| slot.len());
                    let expected: Vec<Entry> = match place {
                        _ if place >= next => vec![first.clone()],
                        _ if (begin..sums_end).contains(&place) => vec![second.clone()],
                        // The padding of the header and of the first slot is ignored.
                        _ => vec![first.clone(), second.clone()],
                    };
                    assert_eq!(entries, expected, "{place}");
                }
            }
        }
        for end in 0..bytes.len() {
            let read = parse(&bytes[..end]).map_or(0, |(_, entries)| entries.len());
            assert!(read < 2, "{end}");
        }
    }

    #[test]
    fn a_slot_of_another_record_counts_for_nothing() {
        let (mine, other) = (entry(1, ""), entry(2, ""));
        let mut bytes = bytes_of(id(9), &[(0, &mine)]);
        bytes.truncate(SLOT_BYTES);
        bytes.extend(&bytes_of(id(8), &[(0, &other)])[SLOT_BYTES..]);
        assert_eq!(parse(&bytes), Some((id(9), Vec::new())));
    }

    #[test]
    fn names_that_lead_elsewhere_are_not_trusted() {
        let good = entry(1, "a");
        for path in ["/", "/a", "..", "a/..", "a//b", "./a", "a/", "a/./b"] {
            let bytes = bytes_of(id(9), &[(0, &Entry { path: path.into(), ..good.clone() })]);
            assert_eq!(parse(&bytes).unwrap().1, [], "{path}");
        }
        for name in ["x", "", "../x", ".uncopy-0123456789abcdef.journal"] {
            let bytes = bytes_of(id(9), &[(0, &Entry { name: name.into(), ..good.clone() })]);
            assert_eq!(parse(&bytes).unwrap().1, [], "{name}");
        }
    }

    #[test]
    fn there_is_no_room_for_long_paths_and_no_end_to_none() {
        let name = temporary_name(OsStr::new("x"), Kind::Tree).unwrap();
        let room = SLOT_BYTES - FileId::BYTES - LENGTHS_BYTES - CHECKSUM_BYTES - name.len();
        let path = |length: usize| PathBuf::from("p".repeat(length));
        assert!(slot(&head(id(1)), &path(room), &name, id(2)).is_some());
        assert!(slot(&head(id(1)), &path(room + 1), &name, id(2)).is_none());
        assert!(slot(&head(id(1)), &path(1 << 17), &name, id(2)).is_none());
        let entries: Vec<_> = (0..MAX_SLOTS + 5).map(|n| entry(n as u64, "")).collect();
        let numbered: Vec<_> = entries.iter().enumerate().collect();
        assert_eq!(parse(&bytes_of(id(9), &numbered)).unwrap().1.len(), MAX_SLOTS);
    }
}
